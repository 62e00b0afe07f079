// dtype.h — element types: one row each in dtype.def, everything else is a lookup.
#ifndef HLO_DTYPE_H
#define HLO_DTYPE_H

#include "core/base/base.h"

typedef enum hlo_dtype {
  HLO_DT_INVALID = 0,
#define DTYPE(id, text, proto, bits, cls, storage) HLO_##id,
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

typedef struct hlo_dtype_info {
  const char *text;
  int proto;  // PrimitiveType value in xla_data.proto
  int bits;   // width in the language (4 for s4)
  hlo_dtype_class cls;
  int storage;  // bytes per element in a literal
} hlo_dtype_info;

extern const hlo_dtype_info hlo_dtypes[HLO_DTYPE_COUNT];

static inline const char *hlo_dtype_text(hlo_dtype t) { return hlo_dtypes[t].text; }
static inline int hlo_dtype_bits(hlo_dtype t) { return hlo_dtypes[t].bits; }
static inline size_t hlo_dtype_storage(hlo_dtype t) { return (size_t)hlo_dtypes[t].storage; }
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
// HLO_DT_INVALID when unknown; "tuple"/"buffer" are not found
hlo_dtype hlo_dtype_find(hs_str text);
hlo_dtype hlo_dtype_from_proto(int proto);
hlo_dtype hlo_dtype_real_part(hlo_dtype t);  // c64 -> f32, c128 -> f64, else itself

#endif
