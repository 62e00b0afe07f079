// config.h — values out of an instruction's backend_config, which is JSON (GPU and oneDNN calls)
// or an MLIR attribute dictionary ({uplo = 76 : ui8}, LAPACK calls).
#ifndef HLO_CONFIG_H
#define HLO_CONFIG_H

#include "core/ir/ir.h"

// What stands behind the first `key`, inside the value of `section` when that is not NULL (dots
// lead deeper: "a.b"); up to the end of that value. Quotes around a string are taken off. False
// when absent.
bool hlo_config_find(const hlo_instr *, const char *section, const char *key, hs_str *out);
double hlo_config_number(const hlo_instr *, const char *section, const char *key, double absent);
// The numbers of a list, strings or not; how many there are, at most cap are stored. 0 when absent.
u32 hlo_config_list(const hlo_instr *, const char *section, const char *key, i64 *out, u32 cap);
// The strings of a list.
u32 hlo_config_words(const hlo_instr *, const char *section, const char *key, hs_str *out, u32 cap);

#endif
