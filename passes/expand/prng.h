// prng.h — random numbers as HLO: counter-based generators and the distributions made from their
// bits, instruction by instruction as XLA's builder library makes them
// (xla/hlo/builder/lib/prng.cc), so that the numbers are XLA's too. See prng.c.
#ifndef PASS_PRNG_H
#define PASS_PRNG_H

#include "passes/run/rewrite.h"

// What a generator makes: values of the shape that was asked for, and the state behind them.
typedef struct prng_out {
  hlo_instr *value, *state;
} prng_out;

// Random bits of a shape, as unsigned integers of its element type's width. All instructions go to
// the computation of `key`, a u64[]. The state is u64[1] for ThreeFry, u64[2] (low half first) for
// Philox. The element type is 8 to 64 bits wide, not complex and not pred.
prng_out prng_three_fry(hlo_instr *key, hlo_instr *state, const hlo_shape *);
prng_out prng_philox(hlo_instr *key, hlo_instr *state, const hlo_shape *);

// Numbers of a distribution, from Philox. Uniform in [low, high), scalars of the shape's element
// type: f32, f64 or an integer of 32 or 64 bits; normal with mean 0 and deviation 1: f32 or f64.
prng_out prng_uniform(hlo_instr *key, hlo_instr *state, hlo_instr *low, hlo_instr *high,
                      const hlo_shape *);
prng_out prng_normal(hlo_instr *key, hlo_instr *state, const hlo_shape *);

// a op b; a scalar is broadcast to the other's dimensions, as XLA's builder does.
hlo_instr *prng_binary(hlo_opcode, hlo_instr *a, hlo_instr *b);

#endif
