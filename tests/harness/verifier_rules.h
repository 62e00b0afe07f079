// verifier_rules.h — which of the verifier's rules a recorded case asks for: one reading of the
// table for every driver.
#ifndef TESTS_HARNESS_VERIFIER_RULES_H
#define TESTS_HARNESS_VERIFIER_RULES_H

#include "core/verify/verify.h"

// From the columns `options` and `fixture` of the table.
hlo_verify_options drv_verifier_rules(const char *options, const char *fixture);
// Sets how many replicas and partitions the module is for, from the column `config`.
void drv_set_counts(hlo_module *m, const char *config);
// The column `error`: "a && b", of which every part must occur in one of the messages; "*" is any
// message.
bool drv_message_contains(hs_status s, const char *parts);

#endif
