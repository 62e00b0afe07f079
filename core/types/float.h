// float.h — conversions of the narrow floating-point formats, each told by the four numbers of
// its row in dtype.def.
#ifndef HLO_FLOAT_H
#define HLO_FLOAT_H

#include "core/types/dtype.h"

// The format of f16 and every narrower type (dtype.def); NULL for bf16, f32, f64 and what is no
// float.
const hlo_float_format *hlo_float_format_of(hlo_dtype t);
// The code nearest to v in a format, in the low bits: rounds once, to nearest even; independent of
// the CPU's rounding and flush modes. Overflow gives an infinity, a NaN where there is none, or the
// largest value where there is neither.
u32 hlo_float_encode(const hlo_float_format *f, double v);
// The exact value of a code.
double hlo_float_decode(const hlo_float_format *f, u32 code);

// Bulk forms for any floating-point type except f64: n elements, in the storage of a literal. No
// denormal is flushed.
void hlo_floats_to_f32(hlo_dtype t, const void *from, float *to, i64 n);
void hlo_floats_from_f32(hlo_dtype t, const float *from, void *to, i64 n);

#endif
