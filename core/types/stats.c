// stats.c — see stats.h. Two passes for the spread, so that a large mean does not drown it.
#include "core/types/stats.h"

#include <math.h>

// The real values of an array: complex elements are two each.
static i64 values_of(const hlo_literal *l) {
  return l->shape->elements * (hlo_dtype_is_complex(l->shape->dtype) ? 2 : 1);
}
static double value_at(const hlo_literal *l, i64 k) {
  hlo_dtype part = hlo_dtype_real_part(l->shape->dtype);
  return hlo_elem_to_f64(part, (const char *)l->data + (size_t)k * hlo_dtype_storage(part));
}

// Beyond a dynamic size there are none.
static bool has_value(const hlo_literal *l, i64 k) {
  if (!l->dynamic_sizes) return true;
  i64 strides[HLO_MAX_RANK];
  hlo_row_major_strides(l->shape->rank, l->shape->dims, strides);
  return hlo_literal_has_at(l, strides, hlo_dtype_is_complex(l->shape->dtype) ? k / 2 : k);
}

hlo_stats hlo_literal_stats(const hlo_literal *l) {
  hlo_stats s = {.min = INFINITY, .max = -INFINITY};
  i64 n = values_of(l), finite = 0;
  double sum = 0, square = 0;
  for (i64 k = 0; k < n && !hs_stops(k); k++) {
    if (!has_value(l, k)) continue;
    double v = value_at(l, k);
    s.values++;
    s.negative += v < 0;
    s.zero += v == 0;
    if (isnan(v)) {
      s.nan++;
      continue;
    }
    if (isinf(v)) {
      s.inf++;
      continue;
    }
    finite++;
    s.min = fmin(s.min, v);
    s.max = fmax(s.max, v);
    sum += v;
  }
  if (!finite) {
    s.min = s.max = s.mean = s.std = NAN;
    return s;
  }
  s.mean = sum / (double)finite;
  for (i64 k = 0; k < n && !hs_stops(k); k++) {
    double v = value_at(l, k);
    if (isfinite(v) && has_value(l, k)) square += (v - s.mean) * (v - s.mean);
  }
  s.std = sqrt(square / (double)finite);
  return s;
}

void hlo_literal_histogram(const hlo_literal *l, const hlo_stats *s, u32 bins, i64 *counts) {
  memset(counts, 0, bins * sizeof *counts);
  double width = s->max - s->min;
  for (i64 k = 0, n = values_of(l); k < n && !hs_stops(k); k++) {
    double v = value_at(l, k);
    if (!isfinite(v) || !has_value(l, k)) continue;
    double at = width > 0 ? (v - s->min) / width * bins : 0;
    counts[at >= bins ? bins - 1 : (u32)at]++;
  }
}

// ---- NaN and infinity: every element of every value of a traced run is looked at, so the common
// types have loops An exponent of all ones; with other bits below it NaN, else an infinity.
#define SPECIALS(name, T, exponent)                                               \
  static u32 name(const void *data, i64 n) {                                      \
    const T *p = data;                                                            \
    T most = 0;                                                                   \
    u32 r = 0;                                                                    \
    for (i64 k = 0; k < n; k++) {                                                 \
      T m = (T)(p[k] & (T)(((T)-1) >> 1));                                        \
      most = m > most ? m : most;                                                 \
    }                                                                             \
    if (most < (T)(exponent)) return 0;                                           \
    for (i64 k = 0; k < n; k++) {                                                 \
      T m = (T)(p[k] & (T)(((T)-1) >> 1));                                        \
      if (m >= (T)(exponent)) r |= m > (T)(exponent) ? HLO_HAS_NAN : HLO_HAS_INF; \
    }                                                                             \
    return r;                                                                     \
  }
SPECIALS(specials64, u64, 0x7FF0000000000000ull)
SPECIALS(specials32, u32, 0x7F800000u)
SPECIALS(specials_bf16, u16, 0x7F80u)
SPECIALS(specials_f16, u16, 0x7C00u)

static u32 special_of(double v) { return isnan(v) ? HLO_HAS_NAN : isinf(v) ? HLO_HAS_INF : 0; }

u32 hlo_literal_specials(const hlo_literal *l) {
  u32 r = 0;
  for (u32 k = 0; k < l->nchildren; k++)
    if (l->children[k]) r |= hlo_literal_specials(l->children[k]);
  if (!l->data || !hlo_shape_is_array(l->shape)) return r;
  i64 n = values_of(l);
  hlo_dtype part = hlo_dtype_real_part(l->shape->dtype);
  switch (l->dynamic_sizes ? HLO_DT_INVALID : part) {
  case HLO_F64: return specials64(l->data, n);
  case HLO_F32: return specials32(l->data, n);
  case HLO_BF16: return specials_bf16(l->data, n);
  case HLO_F16: return specials_f16(l->data, n);
  default: break;
  }
  for (i64 k = 0; hlo_dtype_is_float(part) && k < n && !hs_stops(k); k++)
    if (has_value(l, k)) r |= special_of(value_at(l, k));
  return r;
}

u32 hlo_literal_special_at(const hlo_literal *l, i64 at) {
  bool complex = hlo_dtype_is_complex(l->shape->dtype);
  i64 k = complex ? 2 * at : at;
  if (!hlo_dtype_is_float(hlo_dtype_real_part(l->shape->dtype)) || !has_value(l, k)) return 0;
  return special_of(value_at(l, k)) | (complex ? special_of(value_at(l, k + 1)) : 0);
}

i64 hlo_literal_find_special(const hlo_literal *l, u32 kind) {
  for (i64 at = 0; at < l->shape->elements && !hs_stops(at); at++)
    if (hlo_literal_special_at(l, at) & kind) return at;
  return -1;
}

i64 hlo_literal_count_special(const hlo_literal *l, u32 kind) {
  i64 found = 0;
  for (i64 at = 0; at < l->shape->elements && !hs_stops(at); at++)
    found += (hlo_literal_special_at(l, at) & kind) != 0;
  return found;
}
