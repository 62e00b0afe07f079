// inputs.h — arguments for a module: by formula, at random under the module's own constraints, or
// one value at a time.
#ifndef HLO_INPUTS_H
#define HLO_INPUTS_H

#include "core/ir/ir.h"

// All of these make one literal per parameter of the entry: *out is an array of *count references,
// freed with hlo_inputs_free. E_INPUT, E_NO_MEMORY; nothing is left to free then.
//
// By the formula of NAME.args files ("arg K SHAPE uniform LO HI" ...). Without text, and for
// arguments that it does not name, the formula's defaults.
hs_status hlo_inputs_formula(hlo_ctx *, const hlo_module *, const char *args_text, size_t n,
                             hlo_literal ***out, u32 *count);

// Seeded random inputs as run_hlo_module makes them: floats uniform in [-0.1, 0.2), integers over
// their type's range, and what the uses of a parameter ask for, followed through what hands the
// value on (data movement, conversions, tuples, calls, fusions, loops, branches): indices of
// slices, gathers and scatters in bounds, in order where they must be sorted and different where
// they must be unique; initial values of reductions the reducer's identity; sort keys all
// different. large_range: floats over the whole range of their type, uniform in the exponent, now
// and then a zero, a one or an infinity.
typedef struct hlo_random_options {
  u64 seed;
  bool large_range;
  // numbers that nothing is asked of repeat after so many elements, which is faster where only the
  // time of a program counts; 0: they do not
  i64 period;
} hlo_random_options;
hs_status hlo_inputs_random_with(const hlo_module *, const hlo_random_options *, hlo_literal ***out,
                                 u32 *count);
hs_status hlo_inputs_random(hlo_ctx *, const hlo_module *, u64 seed, hlo_literal ***out,
                            u32 *count);

// One value from words: zeros, ones, iota, nan, inf, random(LO,HI), random, normal(MEAN,STDDEV),
// normal, fill(V). `stream` tells values of one seed apart. E_INPUT when the words mean nothing.
// Every array of a tuple is filled by itself.
// *out is a new reference.
hs_status hlo_input_by_words(const hlo_shape *, const char *words, u64 stream, hlo_literal **out);
bool hlo_input_is_words(const char *text);  // whether the text begins with one of them

// Replaces every elided constant by seeded random values or zeros (--elided=random|zeros).
hs_status hlo_fill_elided(hlo_module *, bool zeros, u64 seed);

#endif
