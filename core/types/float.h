// float.h — the narrow floating-point formats, told by four numbers each, and bulk conversions to
// and from f32.
#ifndef HLO_FLOAT_H
#define HLO_FLOAT_H

#include "core/types/dtype.h"

// How a format spends its top codes.
typedef enum hlo_float_top {
  HLO_TOP_IEEE,    // infinities and NaNs
  HLO_TOP_FN,      // one NaN per sign (all ones), no infinity
  HLO_TOP_FNUZ,    // one NaN (the code of -0), no infinity, no -0
  HLO_TOP_FINITE,  // neither NaN nor infinity: overflow saturates
  HLO_TOP_E8M0,    // powers of two only, no sign, no zero; 0xff is NaN
} hlo_float_top;

typedef struct hlo_float_format {
  u8 ebits, mbits;
  i16 bias;
  hlo_float_top top;
} hlo_float_format;

// The format of f16 and every narrower type; NULL for bf16, f32, f64 and what is no float.
const hlo_float_format *hlo_float_format_of(hlo_dtype t);
// rounds once, to nearest even; independent of MXCSR
u32 hlo_float_encode(const hlo_float_format *f, double v);
double hlo_float_decode(const hlo_float_format *f, u32 code);

// Bulk forms for any floating-point type except f64. No denormal is flushed.
void hlo_floats_to_f32(hlo_dtype t, const void *from, float *to, i64 n);
void hlo_floats_from_f32(hlo_dtype t, const float *from, void *to, i64 n);

#endif
