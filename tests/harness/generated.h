// generated.h — do two results of a random module (tests/random) agree? By the tolerances that
// the generator worked out.
#ifndef TESTS_HARNESS_GENERATED_H
#define TESTS_HARNESS_GENERATED_H

#include "core/types/literal.h"
#include "tests/random/gen.h"

// False: `why` (200 bytes) says where they differ first, *output (may be NULL) in which result.
bool generated_agrees(const gen_module *g, const hlo_literal *want, const hlo_literal *got,
                      u32 *output, char *why);

#endif
