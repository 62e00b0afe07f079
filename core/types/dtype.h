// dtype.h — element types: one row each in dtype.def, everything else is a lookup.
//
// What a reader or writer of a format needs to know about a type is a column, so that a new type is
// a row. Only f16, bf16, f32, f64 and the integers of a machine's widths are named elsewhere: code
// that computes in them.
#ifndef HLO_DTYPE_H
#define HLO_DTYPE_H

#include "core/base/base.h"

typedef enum hlo_dtype {
  HLO_DT_INVALID = 0,
#define DTYPE(id, text, proto, bits, cls, bytes, ebits, mbits, bias, top, field, coding, pjrt, \
              tensors)                                                                         \
  HLO_##id,
#include "core/types/dtype.def"
#undef DTYPE
  HLO_DTYPE_COUNT
} hlo_dtype;

typedef enum hlo_dtype_class {
  HLO_CLASS_PRED,
  HLO_CLASS_SINT,
  HLO_CLASS_UINT,
  HLO_CLASS_FLOAT,
  HLO_CLASS_COMPLEX,
  HLO_CLASS_OTHER
} hlo_dtype_class;

// How a floating-point format spends its top codes.
typedef enum hlo_float_top {
  HLO_TOP_NONE,    // not a floating-point type
  HLO_TOP_IEEE,    // infinities and NaNs
  HLO_TOP_FN,      // one NaN per sign (all ones), no infinity
  HLO_TOP_FNUZ,    // one NaN (the code of -0), no infinity, no -0
  HLO_TOP_FINITE,  // neither NaN nor infinity: overflow saturates
  HLO_TOP_E8M0,    // powers of two only, no sign, no zero; 0xff is NaN
} hlo_float_top;

// A format: bits of the exponent, stored bits of the mantissa, bias of the exponent.
typedef struct hlo_float_format {
  u8 ebits, mbits;
  i16 bias;
  hlo_float_top top;
} hlo_float_format;

// How the elements stand in their field of LiteralProto: a packed repeated field, or raw bytes.
typedef enum hlo_literal_coding {
  HLO_CODING_NONE,
  HLO_CODING_VARINT,
  HLO_CODING_FIXED32,
  HLO_CODING_FIXED64,
  HLO_CODING_BYTES,
} hlo_literal_coding;

typedef struct hlo_dtype_info {
  const char *text;
  u8 text_n;   // bytes of text
  u8 bits;     // width in the language (4 for s4)
  u8 storage;  // bytes per element in a literal
  u8 proto;    // PrimitiveType value in xla_data.proto
  hlo_dtype_class cls;
  hlo_float_format format;  // of FLOAT types
  u8 literal_field;         // number of the field of LiteralProto, 0 when it has none
  hlo_literal_coding coding;
  u8 pjrt;              // PJRT_Buffer_Type, 0 when it has none
  const char *tensors;  // name in safetensors files, "" when it has none
} hlo_dtype_info;

extern const hlo_dtype_info hlo_dtypes[HLO_DTYPE_COUNT];

// The type's name in HLO text, its width in the language in bits, and the bytes of one element in a
// literal.
static inline const char *hlo_dtype_text(hlo_dtype t) { return hlo_dtypes[t].text; }
static inline int hlo_dtype_bits(hlo_dtype t) { return hlo_dtypes[t].bits; }
static inline size_t hlo_dtype_storage(hlo_dtype t) { return (size_t)hlo_dtypes[t].storage; }
// Questions of class.
static inline bool hlo_dtype_is_float(hlo_dtype t) { return hlo_dtypes[t].cls == HLO_CLASS_FLOAT; }
static inline bool hlo_dtype_is_complex(hlo_dtype t) {
  return hlo_dtypes[t].cls == HLO_CLASS_COMPLEX;
}
static inline bool hlo_dtype_is_signed(hlo_dtype t) { return hlo_dtypes[t].cls == HLO_CLASS_SINT; }
static inline bool hlo_dtype_is_unsigned(hlo_dtype t) {
  return hlo_dtypes[t].cls == HLO_CLASS_UINT;
}
static inline bool hlo_dtype_is_integer(hlo_dtype t) {
  return hlo_dtype_is_signed(t) || hlo_dtype_is_unsigned(t);
}
static inline bool hlo_dtype_is_array(hlo_dtype t) {
  return t != HLO_DT_INVALID && hlo_dtypes[t].cls != HLO_CLASS_OTHER;
}
// The type of that name; HLO_DT_INVALID when there is none. "tuple" and "buffer" are no types of
// the text.
hlo_dtype hlo_dtype_find(hs_str text);
// The type of a PrimitiveType number of xla_data.proto; HLO_DT_INVALID when there is none.
hlo_dtype hlo_dtype_from_proto(int proto);
// The type of the parts of a complex number (c64: f32, c128: f64); any other type is its own.
hlo_dtype hlo_dtype_real_part(hlo_dtype t);

// Facts that follow from the format of a FLOAT type; 0 for other classes.
// Bits of the significand, the implicit one included.
int hlo_dtype_significand(hlo_dtype t);
// The least e with |v| < 2^e for every finite value: max_exponent of C++'s numeric_limits.
int hlo_dtype_max_exponent(hlo_dtype t);
// Bits of a NaN that may hold a payload; 0 where there is one NaN only, or none.
int hlo_dtype_nan_payload(hlo_dtype t);
// Decimal digits that tell any two values apart.
int hlo_dtype_digits(hlo_dtype t);
// Whether 0 is one of its values: it is of all types but E8M0, the powers of two.
static inline bool hlo_dtype_has_zero(hlo_dtype t) {
  return hlo_dtypes[t].format.top != HLO_TOP_E8M0;
}
// 2^-mbits: the distance from 1 to the next value.
double hlo_dtype_epsilon(hlo_dtype t);

#endif
