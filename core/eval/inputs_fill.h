// inputs_fill.h — what inputs.c and inputs_random.c share; private to them.
#ifndef HLO_INPUTS_FILL_H
#define HLO_INPUTS_FILL_H

#include "core/eval/ops.h"

// A hash of (stream, element): the same on every machine, in any order.
static inline u64 input_mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
static inline u64 input_hash(u64 k, u64 i) {
  return input_mix(0x9E3779B97F4A7C15ull * (k + 1) + i);
}
// [0, 1)
static inline double input_unit(u64 k, u64 i) { return (double)(input_hash(k, i) >> 40) * 0x1p-24; }

// UNIFORM, NORMAL and VALUE use lo and hi, INT the whole numbers from ilo up to but not including
// ihi, BITS any.
typedef enum input_kind {
  IN_UNIFORM,
  IN_INT,
  IN_PRED,
  IN_ZEROS,
  IN_ONES,
  IN_IOTA,
  IN_BITS,
  IN_NORMAL,
  IN_VALUE
} input_kind;
typedef struct input_spec {
  input_kind kind;
  double lo, hi;
  i64 ilo, ihi;
  i64 period;  // elements repeat after so many; 0: they do not
} input_spec;
// Whoever fills polls afterwards (hs_poll): it ends early when the work is to stop.
void input_fill(hlo_literal *array, u64 stream, const input_spec *);

#endif
