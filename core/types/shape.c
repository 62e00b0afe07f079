// shape.c — questions about shapes, and their text. Interning is in ctx.c.
#include "core/types/shape.h"

bool hlo_shape_same_dims(const hlo_shape *a, const hlo_shape *b) {
  if (a->rank != b->rank || (a->rank && memcmp(a->dims, b->dims, a->rank * sizeof(i64))))
    return false;
  for (u32 k = 0; k < a->rank; k++)
    if (hlo_dim_is_dynamic(a, k) != hlo_dim_is_dynamic(b, k)) return false;
  return true;
}

bool hlo_shape_is_dynamic(const hlo_shape *s) { return s->varies; }

static bool descending(const hlo_layout *l) {
  for (u32 k = 0; k < l->rank; k++)
    if (l->minor_to_major[k] != (i64)(l->rank - 1 - k)) return false;
  return true;
}

// Row-major, no tiles or other extras.
static bool layout_is_default(const hlo_layout *l) {
  return descending(l) && !l->ntiles && !l->nsplits && l->tail_alignment == 1 && !l->element_bits &&
         !l->memory_space && !l->metadata_prefix && l->index_type == HLO_DT_INVALID &&
         l->pointer_type == HLO_DT_INVALID;
}

bool hlo_shape_is_row_major(const hlo_shape *s) { return !s->layout || descending(s->layout); }

bool hlo_shape_is_unbounded(const hlo_shape *s) {
  for (u32 d = 0; d < s->rank; d++)
    if (s->dims[d] == HLO_UNBOUNDED) return true;
  return false;
}

bool hlo_shape_has_unbounded(const hlo_shape *s) {
  for (u32 k = 0, n = hlo_shape_leaves(s); k < n; k++)
    if (hlo_shape_is_unbounded(hlo_shape_leaf(s, k))) return true;
  return false;
}

u32 hlo_shape_leaf_offset(const hlo_shape *tuple, i64 element) {
  i64 before = HS_MAX(HS_MIN(element, (i64)tuple->nelems), 0);
  if (!tuple->starts) return (u32)before;
  return before == tuple->nelems ? hlo_shape_leaves(tuple) : tuple->starts[before];
}

u32 hlo_shape_element_at(const hlo_shape *tuple, u32 *leaf) {
  if (!tuple->starts) {
    u32 k = *leaf;
    return *leaf = 0, k;
  }
  // the last of those that begin at the leaf or before: empty ones begin where the next one does
  u32 low = 0, high = tuple->nelems;
  while (high - low > 1) {
    u32 mid = low + (high - low) / 2;
    if (tuple->starts[mid] <= *leaf) low = mid;
    else high = mid;
  }
  return *leaf -= tuple->starts[low], low;
}

const hlo_shape *hlo_shape_leaf(const hlo_shape *s, u32 k) {
  while (hlo_shape_is_tuple(s)) {
    if (k >= hlo_shape_leaves(s)) return NULL;
    s = s->elems[hlo_shape_element_at(s, &k)];
  }
  return s;
}

hs_status hlo_shape_check_limits(hlo_dtype t, u32 rank, const i64 *dims) {
  if (rank > HLO_MAX_RANK)
    return hs_fail(HS_E_LIMIT, "rank %u exceeds the limit of %d dimensions", rank, HLO_MAX_RANK);
  i64 n = (i64)HS_MAX(hlo_dtype_storage(t), (size_t)1);
  for (u32 k = 0; k < rank; k++) {
    if (dims[k] == HLO_UNBOUNDED) continue;
    if (dims[k] < 0)
      return hs_fail(HS_E_SHAPE, "dimension %u has the negative size %lld", k, (long long)dims[k]);
    if (dims[k] > 0 && !hs_mul_ok(n, dims[k], &n))
      return hs_fail(HS_E_LIMIT, "the array has more than 2^63 bytes");
  }
  return HS_GOOD;
}

hs_status hlo_shape_check_tuple(const hlo_shape *s) {
  if (s->ends > HLO_MAX_LEAVES)
    return hs_fail(HS_E_LIMIT, "a tuple of %s%lld %s; the limit is %d",
                   s->ends == INT64_MAX ? "at least " : "", (long long)s->ends,
                   s->leaves == s->ends ? "leaves" : "leaves and empty tuples", HLO_MAX_LEAVES);
  if (s->depth > HLO_MAX_TUPLE_DEPTH)
    return hs_fail(HS_E_LIMIT, "tuples are nested %u deep; the limit is %d", s->depth,
                   HLO_MAX_TUPLE_DEPTH);
  return HS_GOOD;
}

void hlo_row_major_strides(u32 rank, const i64 *dims, i64 *strides) {
  i64 s = 1;
  for (u32 k = rank; k-- > 0;) {
    strides[k] = s;
    s = hs_mul_sat_i64(s, dims[k]);
  }
}

// ---- text ---------------------------------------------------------------------------------------

static void put_i64s(hs_buf *b, const i64 *v, u32 n) {
  for (u32 k = 0; k < n; k++) {
    if (k) hs_buf_putc(b, ',');
    if (v[k] == HLO_UNBOUNDED) hs_buf_putc(b, '*');
    else hs_buf_i64(b, v[k]);
  }
}

static void print_layout(hs_buf *b, const hlo_layout *l) {
  hs_buf_putc(b, '{');
  put_i64s(b, l->minor_to_major, l->rank);
  hs_buf parts = {0};
  if (l->ntiles) {
    hs_buf_putc(&parts, 'T');
    for (u32 k = 0; k < l->ntiles; k++) {
      hs_buf_putc(&parts, '(');
      put_i64s(&parts, l->tiles[k].dims, l->tiles[k].rank);
      hs_buf_putc(&parts, ')');
    }
  }
  if (l->tail_alignment != 1) hs_buf_printf(&parts, "L(%lld)", (long long)l->tail_alignment);
  if (l->index_type) hs_buf_printf(&parts, "#(%s)", hlo_dtype_text(l->index_type));
  if (l->pointer_type) hs_buf_printf(&parts, "*(%s)", hlo_dtype_text(l->pointer_type));
  if (l->element_bits) hs_buf_printf(&parts, "E(%lld)", (long long)l->element_bits);
  if (l->memory_space) hs_buf_printf(&parts, "S(%lld)", (long long)l->memory_space);
  if (l->nsplits) {
    hs_buf_puts(&parts, "SC");
    for (u32 k = 0; k < l->nsplits; k++) {
      hs_buf_printf(&parts, "(%lld:", (long long)l->splits[k].dim);
      put_i64s(&parts, l->splits[k].indices, l->splits[k].n);
      hs_buf_putc(&parts, ')');
    }
  }
  if (l->metadata_prefix) hs_buf_printf(&parts, "M(%lld)", (long long)l->metadata_prefix);
  if (parts.n) {
    hs_buf_putc(b, ':');
    hs_buf_put(b, parts.p, parts.n);
  }
  hs_buf_free(&parts);
  hs_buf_putc(b, '}');
}

void hlo_shape_print(hs_buf *b, const hlo_shape *s, bool with_layout) {
  if (s->dtype == HLO_TUPLE_TYPE) {
    hs_buf_putc(b, '(');
    for (u32 k = 0; k < s->nelems; k++) {
      if (k) hs_buf_puts(b, ", ");
      if (k && k % 5 == 0) hs_buf_printf(b, "/*index=%u*/", k);
      hlo_shape_print(b, s->elems[k], with_layout);
    }
    hs_buf_putc(b, ')');
    return;
  }
  if (s->dtype == HLO_BUFFER) {
    hs_buf_puts(b, "b(");
    hlo_shape_print(b, s->elems[0], with_layout);
    hs_buf_putc(b, ')');
    return;
  }
  hs_buf_puts(b, hlo_dtype_text(s->dtype));
  hs_buf_putc(b, '[');
  for (u32 k = 0; k < s->rank; k++) {
    if (k) hs_buf_putc(b, ',');
    if (s->dims[k] == HLO_UNBOUNDED) {
      hs_buf_putc(b, '?');
      continue;
    }
    if (hlo_dim_is_dynamic(s, k)) hs_buf_puts(b, "<=");
    hs_buf_i64(b, s->dims[k]);
  }
  hs_buf_putc(b, ']');
  if (with_layout && s->layout && (s->rank > 0 || !layout_is_default(s->layout)))
    print_layout(b, s->layout);
}
