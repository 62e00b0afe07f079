// fold.h — folding values into accumulators with a computation: what reduce, reduce-window
// (reduce.c), select-and-scatter and scatter (scatter.c) share. The implementation is in reduce.c.
//
// A fold has three speeds: sums and products of f32 and narrower floats are kept in f64 and rounded
// once at the end, as XLA's evaluator does with sums (a bf16 sum that rounds at every step stops
// growing at 256 times its terms); other reducers that are one operation run its elementwise kernel
// on whole rows; anything else is a block program (prog.c), which rounds where it says so.
#ifndef HLO_EVAL_FOLD_H
#define HLO_EVAL_FOLD_H

#include "core/eval/ops.h"

enum { FOLD_MAX = 32 };  // arrays reduced together

typedef struct fold {
  enum { FOLD_WIDE, FOLD_KERNEL, FOLD_PROGRAM } kind;
  hlo_opcode op;                                 // of a reducer that is one operation
  ew k;                                          // FOLD_KERNEL: its kernel
  ev_apply a;                                    // FOLD_PROGRAM
  u32 n;                                         // arrays
  size_t acc_size[FOLD_MAX], in_size[FOLD_MAX];  // bytes of an element
  hlo_dtype acc_type[FOLD_MAX];                  // of the accumulators that are literals
} fold;
// Prepares folding n arrays by the computation. wide: sums may be kept in f64. The fold needs no
// freeing. E_UNSUPPORTED names the instruction.
hs_status fold_init(ev *, const hlo_instr *, const hlo_computation *, u32 n, hlo_literal *const *in,
                    bool wide, fold *);
// acc[k][j] = reducer(acc[k][j], x[k][j]) for j < n and every array k, all contiguous.
hs_status fold_rows(const fold *, void *const *acc, const void *const *x, i64 n);
// The same on regions of `rank` dimensions of sizes n; strides as and xs in elements.
hs_status fold_region(const fold *, u32 rank, const i64 *n, void *const *acc, const i64 *as,
                      const void *const *x, const i64 *xs);

// Accumulators for a result shape, filled with the initial values.
typedef struct fold_accs {
  void *p[FOLD_MAX];  // where the fold writes: the data of lit[k], or `wide`
  hlo_literal *lit[FOLD_MAX];
  double *wide;  // FOLD_WIDE
} fold_accs;
hs_status fold_accs_new(ev *, const fold *, const hlo_shape *result, hlo_literal *const *init,
                        fold_accs *);
// Makes the result of them, in its own types, and frees the rest; st is what the fold returned, and
// is returned after freeing when it failed.
hs_status fold_accs_done(ev *, const fold *, const hlo_shape *result, fold_accs *, hs_status st,
                         hlo_literal **out);
// Shape of result k of one or several.
static inline const hlo_shape *fold_part(const hlo_shape *s, u32 k) {
  return hlo_shape_is_tuple(s) ? s->elems[k] : s;
}

#endif
