// dtype.c — the table of dtype.def as constant data, lookup by text and by number, and the facts
// that follow from a floating-point format.
#include "core/types/dtype.h"

#include <math.h>

const hlo_dtype_info hlo_dtypes[HLO_DTYPE_COUNT] = {
    [HLO_DT_INVALID] = {.text = "invalid", .cls = HLO_CLASS_OTHER, .tensors = ""},
#define DTYPE(id, text_, proto_, bits_, cls_, bytes, ebits, mbits, bias, top, field, coding_, \
              pjrt_, tensors_)                                                                \
  [HLO_##id] = {.text = text_,                                                                \
                .text_n = sizeof text_ - 1,                                                   \
                .bits = bits_,                                                                \
                .storage = bytes,                                                             \
                .proto = proto_,                                                              \
                .cls = HLO_CLASS_##cls_,                                                      \
                .format = {ebits, mbits, bias, HLO_TOP_##top},                                \
                .literal_field = field,                                                       \
                .coding = HLO_CODING_##coding_,                                               \
                .pjrt = pjrt_,                                                                \
                .tensors = tensors_},
#include "core/types/dtype.def"
#undef DTYPE
};

hlo_dtype hlo_dtype_find(hs_str text) {
  for (int t = 1; t < HLO_DTYPE_COUNT; t++)
    if (hlo_dtypes[t].text_n == text.n && hs_same_bytes(hlo_dtypes[t].text, text.p, text.n))
      return t == HLO_TUPLE_TYPE || t == HLO_BUFFER ? HLO_DT_INVALID : (hlo_dtype)t;
  return HLO_DT_INVALID;
}

hlo_dtype hlo_dtype_from_proto(int proto) {
  for (int t = 1; t < HLO_DTYPE_COUNT; t++)
    if (hlo_dtypes[t].proto == proto) return (hlo_dtype)t;
  return HLO_DT_INVALID;
}

hlo_dtype hlo_dtype_real_part(hlo_dtype t) {
  return t == HLO_C64 ? HLO_F32 : t == HLO_C128 ? HLO_F64 : t;
}

int hlo_dtype_significand(hlo_dtype t) {
  return hlo_dtype_is_float(t) ? hlo_dtypes[t].format.mbits + 1 : 0;
}

int hlo_dtype_max_exponent(hlo_dtype t) {
  const hlo_float_format *f = &hlo_dtypes[t].format;
  if (f->top == HLO_TOP_NONE) return 0;
  // The highest code of the exponent is for infinities and NaNs alone in two of the kinds.
  int reserved = f->top == HLO_TOP_IEEE || f->top == HLO_TOP_E8M0;
  return (1 << f->ebits) - 1 - reserved - f->bias + 1;
}

int hlo_dtype_nan_payload(hlo_dtype t) {
  return hlo_dtypes[t].format.top == HLO_TOP_IEEE ? hlo_dtypes[t].format.mbits : 0;
}

// 1 + ceil(p log10 2) for p bits; the product is never whole.
int hlo_dtype_digits(hlo_dtype t) {
  int p = hlo_dtype_significand(t);
  return p ? 2 + p * 30103 / 100000 : 0;
}

double hlo_dtype_epsilon(hlo_dtype t) {
  return hlo_dtype_is_float(t) ? ldexp(1, -hlo_dtypes[t].format.mbits) : 0;
}
