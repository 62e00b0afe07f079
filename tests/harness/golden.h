// golden.h — NAME.golden files: the arguments and the results that real XLA has of a module.
#ifndef TESTS_HARNESS_GOLDEN_H
#define TESTS_HARNESS_GOLDEN_H

#include "core/eval/eval.h"

typedef struct golden_item {
  i64 path[8];
  u32 depth;
  bool out;
  hs_str shape, value;
} golden_item;
typedef struct golden {
  char status[32];
  const char *status_text;
  bool reassoc, lowacc, badinit;
  golden_item *items;
  u32 n;
} golden;

typedef struct golden_bounds {
  double sum_abs, trans_max, product_max;
  double complex_units;  // of complex products and quotients, in units of the last place
  bool lowacc, trans, divide, sums, lapack;
} golden_bounds;
// What the observer gathers while the module runs; value_max by instruction id, n of them.
typedef struct golden_watch {
  golden_bounds b;
  double *value_max;
  u32 n;
} golden_watch;

// Parses in place: the item strings point into `text`.
golden golden_parse(char *text);
// The argument at path[0..depth) of shape s; *out is the caller's reference.
hs_status golden_arg(hlo_ctx *ctx, const golden *g, const hlo_shape *s, i64 *path, u32 depth,
                     hlo_literal **out);
// An observer for hlo_eval_options; arg is a golden_watch.
hs_status golden_observe(void *arg, const hlo_observation *o);
// Compares a result of the module with the recorded one within the bounds.
hs_status golden_compare(const hlo_module *m, const golden *g, const hlo_literal *result,
                         const golden_bounds *b);

#endif
