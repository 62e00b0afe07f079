// literal.c — reference-counted values and access to single elements.
//
// Array data are dense and row-major, one storage unit per element (dtype.def); whole-array work is
// done by typed loops in eval*.c, the accessors here serve readers, printers and tests. Every size
// comes from a shape that a file may have chosen, so the product is checked and the allocation may
// fail as a status.
#include "core/types/ctx.h"
#include "core/types/float.h"
#include "core/types/literal.h"

static hlo_literal *new_node(const hlo_shape *s) {
  hlo_literal *l = hs_calloc(1, sizeof *l);
  l->refs = 1;
  l->shape = s;
  return l;
}

static void init_dynamic(hlo_literal *l) {
  const hlo_shape *s = l->shape;
  if (!s->dynamic) return;
  l->dynamic_sizes = hs_calloc(s->rank ? s->rank : 1, sizeof *l->dynamic_sizes);
  for (u32 d = 0; d < s->rank; d++)
    l->dynamic_sizes[d] = (i32)HS_MIN(HS_MAX(s->dims[d], 0), INT32_MAX);
}

hs_status hlo_literal_new(const hlo_shape *s, hlo_literal **out) {
  *out = NULL;
  hlo_literal *l = new_node(s);
  if (hlo_shape_is_tuple(s)) {
    l->children = hs_calloc(s->nelems ? s->nelems : 1, sizeof *l->children);
    for (u32 i = 0; i < s->nelems; i++) {
      hs_status st = hlo_literal_new(s->elems[i], &l->children[i]);
      if (!hs_ok(st)) {
        hlo_literal_unref(l);
        return st;
      }
      l->nchildren++;
    }
  } else if (hlo_shape_is_array(s)) {
    i64 bytes = (i64)hlo_dtype_storage(s->dtype);
    for (u32 d = 0; d < s->rank; d++)
      if (s->dims[d] < 0 || !hs_mul_ok(bytes, s->dims[d], &bytes) || bytes > INT64_MAX / 4) {
        hs_free(l);
        return hs_fail(HS_E_LIMIT, "an array of this shape has no size in memory");
      }
    l->bytes = (size_t)bytes;
    // pages of the system's are zero as they come, and are not touched before they are filled
    l->data = hs_try_calloc(l->bytes, 1);
    if (!l->data) {
      hs_free(l);
      return hs_fail(HS_E_NO_MEMORY, "no memory for %lld bytes", (long long)bytes);
    }
    init_dynamic(l);
  }
  *out = l;
  return HS_GOOD;
}

hlo_literal *hlo_literal_tuple(const hlo_shape *s, u32 n, hlo_literal *const *children) {
  hlo_literal *l = new_node(s);
  l->nchildren = n;
  l->children = hs_calloc(n ? n : 1, sizeof *l->children);
  for (u32 i = 0; i < n; i++) l->children[i] = children[i];
  return l;
}

hlo_literal *hlo_literal_wrap(const hlo_shape *s, void *data, size_t bytes,
                              void (*unmap)(void *, size_t, void *), void *arg) {
  hlo_literal *l = new_node(s);
  l->data = data;
  l->bytes = bytes;
  l->unmap = unmap;
  l->unmap_arg = arg;
  init_dynamic(l);
  return l;
}

hlo_literal *hlo_literal_elided(const hlo_shape *s) {
  hlo_literal *l = new_node(s);
  l->elided = true;
  return l;
}

hlo_literal *hlo_literal_ref(const hlo_literal *l) {
  hlo_literal *m = (hlo_literal *)(uintptr_t)l;
  if (m) __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
  return m;
}

void hlo_literal_unref(hlo_literal *l) {
  if (!l || __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  for (u32 i = 0; i < l->nchildren; i++) hlo_literal_unref(l->children[i]);
  hs_free(l->children);
  if (l->unmap) l->unmap(l->data, l->bytes, l->unmap_arg);
  else hs_free(l->data);
  hs_free(l->dynamic_sizes);
  hs_free(l);
}

void hlo_inputs_free(hlo_literal **args, u32 count) {
  for (u32 k = 0; args && k < count; k++) hlo_literal_unref(args[k]);
  hs_free(args);
}

static hlo_literal *new_scalar(hlo_ctx *ctx, hlo_dtype t) {
  hlo_literal *l = new_node(hlo_shape_scalar(ctx, t));
  l->bytes = hlo_dtype_storage(t);
  l->data = hs_calloc(1, l->bytes ? l->bytes : 1);
  return l;
}
hlo_literal *hlo_literal_scalar_i64(hlo_ctx *ctx, hlo_dtype t, i64 v) {
  hlo_literal *l = new_scalar(ctx, t);
  hlo_elem_from_i64(t, l->data, v);
  return l;
}
hlo_literal *hlo_literal_scalar_f64(hlo_ctx *ctx, hlo_dtype t, double v) {
  hlo_literal *l = new_scalar(ctx, t);
  hlo_elem_from_f64(t, l->data, v);
  return l;
}

bool hlo_literal_equal(const hlo_literal *a, const hlo_literal *b) {
  if (a == b) return true;
  if (a->shape->logical != b->shape->logical || a->elided != b->elided ||
      a->nchildren != b->nchildren || a->bytes != b->bytes)
    return false;
  if (a->elided) return false;  // two unknown values
  if (a->dynamic_sizes && b->dynamic_sizes &&
      memcmp(a->dynamic_sizes, b->dynamic_sizes, a->shape->rank * sizeof(i32)) != 0)
    return false;
  for (u32 i = 0; i < a->nchildren; i++)
    if (!hlo_literal_equal(a->children[i], b->children[i])) return false;
  return a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0;
}

u64 hlo_literal_hash(const hlo_literal *l) {
  u64 h = hs_mix(l->shape->logical->hash, l->elided);
  for (u32 i = 0; i < l->nchildren; i++) h = hs_mix(h, hlo_literal_hash(l->children[i]));
  return l->data ? hs_hash_bytes(l->data, l->bytes, h) : h;
}

bool hlo_literal_has_elided(const hlo_literal *l) {
  if (l->elided) return true;
  for (u32 i = 0; i < l->nchildren; i++)
    if (hlo_literal_has_elided(l->children[i])) return true;
  return false;
}

static void *elem(const hlo_literal *l, i64 i) {
  return (char *)l->data + (size_t)i * hlo_dtype_storage(l->shape->dtype);
}
double hlo_literal_f64(const hlo_literal *l, i64 i) {
  return hlo_elem_to_f64(l->shape->dtype, elem(l, i));
}
i64 hlo_literal_i64(const hlo_literal *l, i64 i) {
  return hlo_elem_to_i64(l->shape->dtype, elem(l, i));
}
void hlo_literal_set_f64(hlo_literal *l, i64 i, double v) {
  hlo_elem_from_f64(l->shape->dtype, elem(l, i), v);
}
void hlo_literal_set_i64(hlo_literal *l, i64 i, i64 v) {
  hlo_elem_from_i64(l->shape->dtype, elem(l, i), v);
}

bool hlo_literal_is_splat(const hlo_literal *l) {
  if (!l->data || !hlo_shape_is_array(l->shape)) return false;
  size_t s = hlo_dtype_storage(l->shape->dtype);
  return l->bytes >= s &&
         (l->bytes == s || memcmp(l->data, (const char *)l->data + s, l->bytes - s) == 0);
}

bool hlo_literal_is_all_f64(const hlo_literal *l, double v) {
  if (!l->data || !hlo_shape_is_array(l->shape)) return false;
  hlo_dtype t = l->shape->dtype;
  size_t s = hlo_dtype_storage(t);
  for (size_t i = 0; i < l->bytes; i += s) {
    const char *p = (const char *)l->data + i;
    if (hlo_dtype_is_integer(t) ? hlo_elem_to_i64(t, p) != (i64)v || (double)(i64)v != v
                                : hlo_elem_to_f64(t, p) != v)
      return false;
    if (hlo_dtype_is_complex(t) && hlo_elem_to_f64(hlo_dtype_real_part(t), p + s / 2) != 0)
      return false;
  }
  return l->bytes > 0;
}

// ---- single elements ----------------------------------------------------------------------------
// X(dtype, C type): the types that a plain C load and store handle.
#define C_TYPES(X) \
  X(S8, i8) X(S16, i16) X(S32, i32) X(S64, i64) X(U8, u8) X(U16, u16) X(U32, u32) X(U64, u64)

double hlo_elem_to_f64(hlo_dtype t, const void *p) {
  switch (t) {
  case HLO_F32:
  case HLO_C64: {
    float v;
    memcpy(&v, p, sizeof v);
    return (double)v;
  }
  case HLO_F64:
  case HLO_C128: {
    double v;
    memcpy(&v, p, sizeof v);
    return v;
  }
  case HLO_BF16: {
    u16 v;
    memcpy(&v, p, sizeof v);
    return (double)hlo_bf16_to_f32(v);
  }
  case HLO_F16: {
    u16 v;
    memcpy(&v, p, sizeof v);
    return (double)hlo_f16_to_f32(v);
  }
  case HLO_U64: {
    u64 v;
    memcpy(&v, p, sizeof v);
    return (double)v;
  }
  default: break;
  }
  const hlo_float_format *f = hlo_float_format_of(t);
  return f ? hlo_float_decode(f, *(const u8 *)p) : (double)hlo_elem_to_i64(t, p);
}

i64 hlo_elem_to_i64(hlo_dtype t, const void *p) {
  switch (t) {
#define X(id, T)             \
  case HLO_##id: {           \
    T v;                     \
    memcpy(&v, p, sizeof v); \
    return (i64)v;           \
  }
    C_TYPES(X)
#undef X
  default: break;
  }
  // narrower than a byte, one to a byte
  if (hlo_dtype_is_signed(t)) return *(const i8 *)p;
  if (hlo_dtype_is_unsigned(t) || t == HLO_PRED) return *(const u8 *)p;
  if (!hlo_dtype_is_float(t) && !hlo_dtype_is_complex(t)) return 0;
  double v = hlo_elem_to_f64(t, p);
  return v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (i64)v;
}

void hlo_elem_from_i64(hlo_dtype t, void *p, i64 v) {
  switch (t) {
#define X(id, T)             \
  case HLO_##id: {           \
    T w = (T)v;              \
    memcpy(p, &w, sizeof w); \
    return;                  \
  }
    C_TYPES(X)
#undef X
  case HLO_PRED: *(u8 *)p = v != 0; return;
  case HLO_F32: {
    float w = (float)v;
    memcpy(p, &w, sizeof w);
    return;
  }
  default: break;
  }
  if (!hlo_dtype_is_integer(t)) {
    hlo_elem_from_f64(t, p, (double)v);
    return;
  }
  // narrower than a byte: the low bits, sign-extended
  i64 low = v & (((i64)1 << hlo_dtype_bits(t)) - 1), sign = (i64)1 << (hlo_dtype_bits(t) - 1);
  if (hlo_dtype_is_signed(t)) *(i8 *)p = (i8)((low ^ sign) - sign);
  else *(u8 *)p = (u8)low;
}

void hlo_elem_from_f64(hlo_dtype t, void *p, double v) {
  switch (t) {
  case HLO_F64: memcpy(p, &v, sizeof v); return;
  case HLO_C128: {
    double w[2] = {v, 0};
    memcpy(p, w, sizeof w);
    return;
  }
  case HLO_F32: {
    float w = (float)v;
    memcpy(p, &w, sizeof w);
    return;
  }
  case HLO_C64: {
    float w[2] = {(float)v, 0};
    memcpy(p, w, sizeof w);
    return;
  }
  // by way of f32, as XLA does it: two roundings
  case HLO_F16: {
    u16 w = hlo_f32_to_f16((float)v);
    memcpy(p, &w, sizeof w);
    return;
  }
  case HLO_BF16: {
    u16 w = hlo_f32_to_bf16((float)v);
    memcpy(p, &w, sizeof w);
    return;
  }
  case HLO_PRED: *(u8 *)p = v != 0; return;
  default: break;
  }
  const hlo_float_format *f = hlo_float_format_of(t);
  if (f) {
    *(u8 *)p = (u8)hlo_float_encode(f, v);
    return;
  }
  if (!hlo_dtype_is_integer(t)) return;
  // Integers: truncate towards zero, clamp to the range, NaN becomes 0.
  int bits = hlo_dtype_bits(t);
  bool is_signed = hlo_dtype_is_signed(t);
  if (t == HLO_U64) {
    u64 w = !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (u64)v;
    memcpy(p, &w, sizeof w);
    return;
  }
  i64 hi = is_signed ? (i64)(((u64)1 << (bits - 1)) - 1) : (i64)(((u64)1 << bits) - 1),
      lo = is_signed ? -hi - 1 : 0;
  i64 w = v != v ? 0 : v >= (double)hi ? hi : v <= (double)lo ? lo : (i64)v;
  hlo_elem_from_i64(t, p, w);
}
