// resize_edit.c — attributes that hold sizes, brought in line with the new shapes (the edits of
// resize.def), and constants extended.
//
// An edit runs when every size is known. It computes from the old sizes and the new ones; arrays
// live in the module's arena.
#include "passes/buffer/resize_rules.h"
#include "passes/buffer/resize_windows.h"

static u32 in_node(const resizer *r, const hlo_instr *i, u32 k, u32 dim) {
  return node_of(r, hlo_operand(i, k), 0, dim);
}

static bool edit_slice(resizer *r, hlo_instr *i) {
  const hlo_slices *s = hlo_attr_ptr(i, HLO_ATTR_SLICE);
  hlo_slice_dim *v = hs_arena_dup(&r->m->arena, s->v, s->n * sizeof *v);
  for (u32 d = 0; d < s->n; d++) {
    u32 in = in_node(r, i, 0, d), out = node_of(r, i, 0, d);
    if (!changed(r, in) && !changed(r, out)) continue;
    if (!resize_plan_slice(s->v[d], r->old.v[in], size_at(r, in), size_at(r, out), &v[d]))
      return false;
  }
  hlo_slices *now = HS_NEW(&r->m->arena, hlo_slices);
  *now = (hlo_slices){s->n, v};
  hlo_set_attr_ptr(i, HLO_ATTR_SLICE, now);
  return true;
}

static bool edit_pad(resizer *r, hlo_instr *i) {
  const hlo_padding *p = hlo_attr_ptr(i, HLO_ATTR_PADDING);
  hlo_pad_dim *v = hs_arena_dup(&r->m->arena, p->v, p->n * sizeof *v);
  for (u32 d = 0; d < p->n; d++) {
    u32 in = in_node(r, i, 0, d), out = node_of(r, i, 0, d);
    if (!changed(r, in) && !changed(r, out)) continue;
    if (!resize_plan_pad(p->v[d], r->old.v[in], size_at(r, in), r->old.v[out], size_at(r, out),
                         &v[d]))
      return false;
  }
  hlo_padding *now = HS_NEW(&r->m->arena, hlo_padding);
  *now = (hlo_padding){p->n, v};
  hlo_set_attr_ptr(i, HLO_ATTR_PADDING, now);
  return true;
}

// The sizes of a dynamic slice are those of its result.
static bool edit_dynamic_slice(resizer *r, hlo_instr *i) {
  (void)r;
  hlo_set_attr_ints(i, HLO_ATTR_DYNAMIC_SLICE_SIZES, i->shape->rank, i->shape->dims);
  return true;
}

static bool edit_gather(resizer *r, hlo_instr *i) {
  hlo_ints sizes = hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES),
           offset = hlo_attr_ints(i, HLO_ATTR_OFFSET_DIMS),
           dropped = hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS),
           batch = hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS);
  i64 *v = hs_arena_dup(&r->arena, sizes.v, sizes.n * sizeof *v);
  for (u32 d = 0, w = 0; d < sizes.n; d++)
    if (!hlo_ints_has(dropped, d) && !hlo_ints_has(batch, d) && w < offset.n)
      v[d] = i->shape->dims[offset.v[w++]];
  hlo_set_attr_ints(i, HLO_ATTR_SLICE_SIZES, sizes.n, v);
  return true;
}

static void set_window(resizer *r, hlo_instr *i, u32 n, const hlo_window_dim *v) {
  hlo_window *now = HS_NEW(&r->m->arena, hlo_window);
  *now = (hlo_window){n, v};
  hlo_set_attr_ptr(i, HLO_ATTR_WINDOW, now);
}

static bool edit_reduce_window(resizer *r, hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  if (!w || !w->n) return true;
  hlo_window_dim *v = hs_arena_dup(&r->m->arena, w->v, w->n * sizeof *v);
  for (u32 d = 0; d < w->n; d++) {
    u32 in = in_node(r, i, 0, d);
    v[d] = resize_plan_window(w->v[d], r->old.v[in], size_at(r, in), true);
  }
  set_window(r, i, w->n, v);
  return true;
}

static bool edit_convolution(resizer *r, hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  if (!w || !w->n) return true;
  hlo_window_dim *v = hs_arena_dup(&r->m->arena, w->v, w->n * sizeof *v);
  for (u32 d = 0; d < w->n && d < l->nspatial; d++)
    v[d].size = size_at(r, in_node(r, i, 1, (u32)l->rhs_spatial[d]));
  set_window(r, i, w->n, v);
  return true;
}

static bool edit_fft(resizer *r, hlo_instr *i) {
  hlo_ints length = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
  i64 *v = hs_arena_dup(&r->arena, length.v, length.n * sizeof *v);
  bool inverse = hlo_attr_int(i, HLO_ATTR_FFT_TYPE, 0) == HLO_FFT_TYPE_IRFFT;
  const hlo_instr *whole = inverse ? i : hlo_operand(i, 0);
  u32 rank = leaf_rank(r, i, 0);
  for (u32 k = 0; k < length.n; k++) v[k] = size_at(r, node_of(r, whole, 0, rank - length.n + k));
  hlo_set_attr_ints(i, HLO_ATTR_FFT_LENGTH, length.n, v);
  return true;
}

// The layouts that it asks of its operands are kept. What `batch` ties leaves matrices alone.
static bool edit_custom_call(resizer *r, hlo_instr *i) {
  const hlo_shapes *s = hlo_attr_ptr(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  if (s && s->n == i->noperands) {
    const hlo_shape **v = HS_NEW_ARRAY(&r->m->arena, const hlo_shape *, i->noperands + 1);
    for (u32 k = 0; k < i->noperands; k++) {
      u32 leaf = 0;
      v[k] = resize_shape(r, s->v[k], hlo_operand(i, k), &leaf);
    }
    hlo_shapes *now = HS_NEW(&r->m->arena, hlo_shapes);
    *now = (hlo_shapes){i->noperands, v};
    hlo_set_attr_ptr(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS, now);
  }
  u32 rank = i->noperands ? leaf_rank(r, hlo_operand(i, 0), 0) : 0;
  bool batch_only = resize_custom_is_batch(i);
  for (u32 d = rank > 2 ? rank - 2 : 0; batch_only && d < rank; d++)
    if (changed(r, in_node(r, i, 0, d))) return false;
  return true;
}

// ---- constants ----------------------------------------------------------------------------------

// A literal as outer x n x inner elements along one dimension.
typedef struct along {
  i64 outer, n, inner;
  size_t element;
} along;

static along split(const hlo_shape *s, u32 dim) {
  along a = {1, s->dims[dim], 1, hlo_dtype_storage(s->dtype)};
  for (u32 d = 0; d < dim; d++) a.outer *= s->dims[d];
  for (u32 d = dim + 1; d < s->rank; d++) a.inner *= s->dims[d];
  return a;
}

static const char *row(const hlo_literal *l, const along *a, i64 outer, i64 k) {
  return (const char *)l->data + (size_t)((outer * a->n + k) * a->inner) * a->element;
}

static bool uniform(const hlo_literal *l, const along *a) {
  for (i64 o = 0; o < a->outer; o++)
    for (i64 k = 1; k < a->n; k++)
      if (memcmp(row(l, a, o, 0), row(l, a, o, k), (size_t)a->inner * a->element) != 0)
        return false;
  return true;
}

// Whole numbers that grow by the same step along the dimension.
static bool counts(const hlo_literal *l, const along *a) {
  if (!hlo_dtype_is_integer(l->shape->dtype) || a->n < 3) return false;
  for (i64 o = 0; o < a->outer; o++)
    for (i64 k = 2; k < a->n; k++)
      for (i64 x = 0; x < a->inner; x++) {
        i64 at = (o * a->n + k) * a->inner + x, one = a->inner;
        i128 next = (i128)hlo_literal_i64(l, at) - hlo_literal_i64(l, at - one);
        if (next != (i128)hlo_literal_i64(l, at - one) - hlo_literal_i64(l, at - 2 * one))
          return false;
      }
  return true;
}

// The literal with another size along a dimension; NULL when its data does not say how.
static hlo_literal *extended(resizer *r, const hlo_literal *l, u32 dim, i64 size) {
  const hlo_shape *s = l->shape;
  i64 dims[HLO_MAX_RANK];
  memcpy(dims, s->dims, s->rank * sizeof *dims);
  dims[dim] = size;
  along a = split(s, dim);
  bool same = a.n > 0 && uniform(l, &a), line = !same && counts(l, &a);
  if (!same && !line && size > a.n) return NULL;
  hlo_literal *out;
  hs_status st = hlo_literal_new(hlo_shape_array(r->m->ctx, s->dtype, s->rank, dims), &out);
  if (!hs_ok(st)) {
    hs_status_drop(st);
    return NULL;
  }
  size_t bytes = (size_t)a.inner * a.element;
  for (i64 o = 0; o < a.outer; o++)
    for (i64 k = 0; k < size; k++) {
      char *to = (char *)out->data + (size_t)(o * size + k) * bytes;
      if (k < a.n || same) memcpy(to, row(l, &a, o, k < a.n ? k : 0), bytes);
      for (i64 x = 0; k >= a.n && line && x < a.inner; x++) {
        i64 last = (o * a.n + a.n - 1) * a.inner + x;
        i64 step = hlo_literal_i64(l, last) - hlo_literal_i64(l, last - a.inner);
        hlo_literal_set_i64(out, (o * size + k) * a.inner + x,
                            hlo_literal_i64(l, last) + step * (k - a.n + 1));
      }
    }
  return out;
}

static bool edit_constant(resizer *r, hlo_instr *i) {
  const hlo_literal *was = hlo_constant_value(i);
  if (!was || !hlo_shape_is_array(i->shape) || hlo_literal_has_elided(was) || !was->data)
    return false;
  const hlo_literal *l = was;
  hlo_literal *made = NULL;
  for (u32 d = 0; l && d < i->shape->rank; d++) {
    u32 n = node_of(r, i, 0, d);
    if (!changed(r, n)) continue;
    hlo_literal *next = extended(r, l, d, r->now.v[n]);
    hlo_literal_unref(made);
    l = made = next;
  }
  if (!made) return l != NULL;
  // the literal's shape is the instruction's
  hlo_literal *final = NULL;
  hs_status s = hlo_literal_new(i->shape, &final);
  bool ok = hs_ok(s) && final->bytes == made->bytes;
  hs_status_drop(s);
  if (ok) {
    memcpy(final->data, made->data, made->bytes);
    hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = final});
  }
  hlo_literal_unref(made);
  hlo_literal_unref(final);
  return ok;
}

// ---- the table ----------------------------------------------------------------------------------

static bool edit_none(resizer *r, hlo_instr *i) {
  (void)r;
  (void)i;
  return true;
}

resize_edit *resize_edit_of(const hlo_instr *i) {
  switch (i->opcode) {
#define RESIZE(opcode, rule, edit) \
  case HLO_##opcode:               \
    return edit_##edit;
#include "passes/buffer/resize.def"
#undef RESIZE
  default: return edit_none;
  }
}
