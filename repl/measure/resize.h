// resize.h: a dimension of a parameter as users name it, and another size for it: what `resize`,
// `fit` and `speedup --sweep` share.
#ifndef REPL_MEASURE_RESIZE_H
#define REPL_MEASURE_RESIZE_H

#include "passes/buffer/resize.h"
#include "repl/cmd/cmd.h"

typedef struct resize_target {
  const hlo_instr *param;  // of the current version
  u32 leaf, dim;
  i64 from;  // its size there
} resize_target;

// "x.0", "params{1,0}.2", "3.0": a parameter by name or number, a path in its tuple, a dimension.
// E_NO_OBJECT, E_USAGE.
hs_status resize_parse(repl_cmd *, const char *text, size_t n, resize_target *out);
// Resizes a copy of a version; when calls that share a computation ask for different sizes, each
// gets its own. The report is the caller's to free, also after an error (resize.h of the passes).
hs_status resize_calls(hlo_module *, const resize_target *, i64 size, bool follow, resize_report *);

#endif
