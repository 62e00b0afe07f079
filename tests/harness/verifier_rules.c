// verifier_rules.c — which of the verifier's rules a recorded case asks for: one reading of the
// table for both drivers.
#include "tests/harness/verifier_rules.h"

#include <stdlib.h>
#include <string.h>

// From the columns `options` and `fixture` of the table.
hlo_verify_options drv_verifier_rules(const char *options, const char *fixture) {
#define SAYS(text, part) (strstr(text, part) != NULL)
  return (hlo_verify_options){
      .layout_sensitive = SAYS(fixture, "layout_sensitive=true") ||
                          SAYS(options, "MakeLayoutSensitive") ||
                          SAYS(options, "LayoutSensitive=true"),
      .disallow_mixed_precision = SAYS(fixture, "allow_mixed_precision_in_hlo_verifier=false") ||
                                  SAYS(fixture, "allow_mixed_precision=false"),
      .broadcast_dims_ordered = SAYS(options, "VerifyBroadcastDimensionsOrder"),
      .call_threads = SAYS(options, "VerifyCallNestedComputationThreadName"),
      .no_host_memory = SAYS(options, "VerifyNoHostMemorySpace"),
      .no_deadlocks = SAYS(fixture, "verify_no_collective_deadlocks=true"),
      .reshape_is_bitcast = SAYS(options, "VerifyReshapeIsBitcast"),
      .cpu_gpu = SAYS(fixture, "CpuGpuVerifierMetadata"),
      .allow_unbounded = SAYS(options, "SupportedUnboundedDynamicOp"),
      .ignore_group_counts = SAYS(fixture, "WithCheckReplicaGroups(false)"),
  };
#undef SAYS
}

// From the column `config`: how many replicas and partitions the module is for.
void drv_set_counts(hlo_module *m, const char *config) {
  static const struct {
    const char *text;
    hlo_attr_id id;
  } counts[] = {{"replica_count=", HLO_ATTR_REPLICA_COUNT},
                {"num_partitions=", HLO_ATTR_NUM_PARTITIONS}};
  for (size_t k = 0; k < HS_COUNT(counts); k++) {
    const char *at = strstr(config, counts[k].text);
    if (at)
      hlo_set_module_attr(
          m, (hlo_attr){.id = counts[k].id, .v.i = atoll(at + strlen(counts[k].text))});
  }
}

bool drv_message_contains(hs_status s, const char *parts) {
  bool all = true;
  char *copy = hs_strdup(parts), *p = copy;
  while (p) {
    char *next = strstr(p, " && ");
    if (next) *next = '\0', next += 4;
    bool hit = strcmp(p, "*") == 0;
    for (const hs_diag *d = s.err; d; d = d->next) hit |= strstr(d->message, p) != NULL;
    all &= hit;
    p = next;
  }
  hs_free(copy);
  return all;
}
