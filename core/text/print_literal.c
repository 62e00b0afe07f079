// print_literal.c — constants as XLA prints them: every float in the fewest digits of two fixed
// precisions that read back equal, nested braces with the spacing of
// Literal::ToStringWithoutShapeOneline.
#include "core/text/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void put_nan(hs_buf *b, hlo_dtype t, const void *p, int payload_bits) {
  u64 bits = 0;
  memcpy(&bits, p, hlo_dtype_storage(t));
  bool neg = bits >> (hlo_dtype_bits(t) - 1) & 1;
  hs_buf_puts(b, neg ? "-nan" : "nan");
  if (!payload_bits) return;
  u64 payload = bits & (((u64)1 << payload_bits) - 1);
  if (payload != (u64)1 << (payload_bits - 1))
    hs_buf_printf(b, "(0x%llx)", (unsigned long long)payload);
}

static void put_float(hs_buf *b, hlo_dtype t, const void *p) {
  int digits = hlo_dtype_digits(t), payload = hlo_dtype_nan_payload(t);
  double v = hlo_elem_to_f64(t, p);
  if (isnan(v)) {
    put_nan(b, t, p, payload);
    return;
  }
  if (isinf(v)) {
    hs_buf_puts(b, v < 0 ? "-inf" : "inf");
    return;
  }
  // the common case of small whole numbers, without printf
  i64 whole = fabs(v) < 1e5 ? (i64)v : 0;
  if ((double)whole == v && (whole || !signbit(v)) && (t == HLO_F32 || t == HLO_F64)) {
    hs_buf_i64(b, whole);
    return;
  }
  char text[512];
  if (t == HLO_F32 || t == HLO_F64) {
    snprintf(text, sizeof text, "%.*g", t == HLO_F32 ? 6 : 15, v);
    bool exact = t == HLO_F32 ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v;
    if (!exact) snprintf(text, sizeof text, "%.*g", digits, v);
  } else {
    snprintf(text, sizeof text, "%.*g", digits, v);
  }
  hs_buf_puts(b, text);
}

static void put_element(hs_buf *b, hlo_dtype t, const char *p, bool scalar) {
  switch (hlo_dtypes[t].cls) {
  case HLO_CLASS_PRED: hs_buf_puts(b, scalar ? (*p ? "true" : "false") : (*p ? "1" : "0")); break;
  case HLO_CLASS_SINT: hs_buf_i64(b, hlo_elem_to_i64(t, p)); break;
  case HLO_CLASS_UINT: {
    i64 v = hlo_elem_to_i64(t, p);
    if (v >= 0) hs_buf_i64(b, v);
    else hs_buf_printf(b, "%llu", (unsigned long long)v);
    break;
  }
  case HLO_CLASS_COMPLEX: {
    hlo_dtype part = hlo_dtype_real_part(t);
    hs_buf_putc(b, '(');
    put_float(b, part, p);
    hs_buf_puts(b, ", ");
    put_float(b, part, p + hlo_dtype_storage(part));
    hs_buf_putc(b, ')');
    break;
  }
  default: put_float(b, t, p);
  }
}

// Dimension `level` (0 = outermost) from element *at on. Depth is the rank, at most HLO_MAX_RANK.
static void put_dim(hs_buf *b, const hlo_literal *l, u32 level, i64 index, const char **at) {
  const hlo_shape *s = l->shape;
  u32 rank = s->rank;
  i64 n = s->dims[level];
  size_t size = hlo_dtype_storage(s->dtype);
  bool inner = level + 1 == rank, wide = rank > 1 && (!inner || n > 1);
  hs_buf_putc(b, '{');
  bool labelled = rank > 3 && level > 0 && !inner;
  if (labelled) hs_buf_printf(b, " /*i%u=%lld*/", level - 1, (long long)index);
  if (wide) hs_buf_putc(b, ' ');
  for (i64 k = 0; k < n; k++) {
    if (k) hs_buf_puts(b, ", ");
    if (inner) {
      put_element(b, s->dtype, *at, false);
      *at += size;
    } else {
      put_dim(b, l, level + 1, k, at);
    }
  }
  if (wide && (n > 0 || !labelled)) hs_buf_putc(b, ' ');
  hs_buf_putc(b, '}');
}

// An array without elements is nothing but braces, as many as its dimensions in front of the empty
// one say.
static bool only_braces(const hlo_shape *s) {
  enum { MOST_BRACES = 1 << 16 };
  i64 rows = 1;
  for (u32 d = 0; d < s->rank && s->dims[d]; d++)
    if (!hs_mul_ok(rows, s->dims[d], &rows) || rows > MOST_BRACES) return s->elements == 0;
  return false;
}

void hlo_put_literal(hs_buf *b, const hlo_literal *l) {
  if (hlo_shape_is_tuple(l->shape)) {
    hs_buf_puts(b, "( ");
    for (u32 k = 0; k < l->nchildren; k++) {
      if (k) hs_buf_puts(b, ", ");
      hlo_put_literal(b, l->children[k]);
    }
    hs_buf_puts(b, " )");
    // the reader knows what an array without elements holds
  } else if (l->elided || only_braces(l->shape)) {
    hs_buf_puts(b, "{...}");
  } else if (l->shape->rank == 0) {
    if (l->data) put_element(b, l->shape->dtype, l->data, true);
  } else {
    const char *at = l->data;
    put_dim(b, l, 0, 0, &at);
  }
}

void hlo_put_shaped_literal(hs_buf *b, const hlo_literal *l) {
  if (!hlo_shape_is_tuple(l->shape)) {
    hlo_shape_print(b, l->shape, true);
    hs_buf_putc(b, ' ');
    hlo_put_literal(b, l);
    return;
  }
  hs_buf_puts(b, "( ");
  for (u32 k = 0; k < l->nchildren; k++) {
    if (k) hs_buf_puts(b, ", ");
    hlo_put_shaped_literal(b, l->children[k]);
  }
  hs_buf_puts(b, " )");
}

void hlo_print_literal(hs_buf *b, const hlo_literal *l) { hlo_put_literal(b, l); }
