// checks.h — what must hold of any input, whatever it is: the properties that the fuzz targets
// and the driver `mutate` hold readers and writers to.
#ifndef TESTS_HARNESS_CHECKS_H
#define TESTS_HARNESS_CHECKS_H

#include "core/base/base.h"

typedef struct check_counts {
  u64 read, valid;  // inputs that are modules; of them, those that verify
} check_counts;

// False: `why` says which property does not hold. Errors of the readers are no faults, but they
// must have a text. The counts go up.
//
// HLO text: a module's print parses, and prints as before.
bool check_text(const char *text, size_t n, check_counts *, hs_buf *why);
// StableHLO as text or bytecode: a module that is read prints as HLO that parses, and, where it is
// valid and StableHLO can say it, as StableHLO that is read.
bool check_mlir(const char *bytes, size_t n, check_counts *, hs_buf *why);
// Serialized modules and their text form: a module that is read is written in both forms, and each
// is read back to the same text. The arguments of a snapshot are read, too.
bool check_proto(const char *bytes, size_t n, check_counts *, hs_buf *why);

#endif
