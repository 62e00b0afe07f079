// move.c — data movement: transpose, reshape, broadcast, slice, pad, concatenate, gather and
// their dynamic forms. Each is one or more strided copies (ev_copy) with the right strides on
// either side, so that bits are kept, denormals and NaN payloads included. Elements in use of
// dynamic dimensions (set-dimension-size) are carried along.
#include "core/eval/ops.h"

static size_t width(const hlo_literal *l) { return hlo_dtype_storage(l->shape->dtype); }

hs_status hlo_eval_broadcast(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *from = ops[0]->shape, *to = i->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  bool in_order = true;
  for (u32 d = 1; d < dims.n; d++) in_order &= dims.v[d] > dims.v[d - 1];
  if (in_order && from->elements == to->elements && to->elements > 0 && !to->dynamic) {
    *out = ev_retag(&ops[0], to);
    return HS_GOOD;
  }
  HS_TRY(ev_new(e, to, out));
  if (from->elements == 1) {
    ev_fill(width(ops[0]), (*out)->data, ops[0]->data, to->elements);
    return HS_GOOD;
  }
  i64 fs[HLO_MAX_RANK], ts[HLO_MAX_RANK], ss[HLO_MAX_RANK] = {0};
  hlo_row_major_strides(from->rank, from->dims, fs);
  hlo_row_major_strides(to->rank, to->dims, ts);
  for (u32 d = 0; d < dims.n && d < from->rank; d++) {
    if (from->dims[d] != 1 || to->dims[dims.v[d]] == 1) ss[dims.v[d]] = fs[d];
    if ((*out)->dynamic_sizes && ops[0]->dynamic_sizes)
      (*out)->dynamic_sizes[dims.v[d]] = ops[0]->dynamic_sizes[d];
  }
  ev_copy(width(ops[0]), to->rank, to->dims, (*out)->data, ts, ops[0]->data, ss);
  return HS_GOOD;
}

// Elements in use, in row-major order, become the result's elements in use; sizes of dynamic
// arrays. The caller polls.
static void pour(const hlo_literal *a, const i64 *fn, hlo_literal *r, const i64 *tn) {
  i64 fs[HLO_MAX_RANK], ts[HLO_MAX_RANK], fi[HLO_MAX_RANK] = {0}, ti[HLO_MAX_RANK] = {0};
  hlo_row_major_strides(a->shape->rank, a->shape->dims, fs);
  hlo_row_major_strides(r->shape->rank, r->shape->dims, ts);
  size_t w = width(a);
  memset(r->data, 0, r->bytes);
  if (ev_product(a->shape->rank, fn) == 0 || ev_product(r->shape->rank, tn) == 0) return;
  i64 done = 0;
  do {
    i64 src = 0, dst = 0;
    for (u32 d = 0; d < a->shape->rank; d++) src += fi[d] * fs[d];
    for (u32 d = 0; d < r->shape->rank; d++) dst += ti[d] * ts[d];
    memcpy((char *)r->data + dst * (i64)w, (const char *)a->data + src * (i64)w, w);
  } while (!hs_stops(++done) && ev_next(a->shape->rank, fn, fi) && ev_next(r->shape->rank, tn, ti));
}

// Is dimension d the first of from .. to that has more than one element?
static bool is_major(const hlo_shape *s, u32 from, u32 to, i64 d) {
  while (from < to && s->dims[from] == 1) from++;
  return d <= from;
}

// Sizes in use before and after a reshape: in a group of dimensions the last dynamic one of the
// result, of size 1 only where it is the only one, takes what the others, which are whole, leave.
// Where there is none, all elements are in use, wherever they lie; of a group of nothing, too.
// *moves: elements in use do not stay where they are. False: which is which cannot be told.
static bool reshaped_sizes(const hlo_literal *a, const hlo_shape *to, i64 *fn, i64 *tn,
                           bool *moves) {
  const hlo_shape *from = a->shape;
  hlo_dim_group g[2 * HLO_MAX_RANK + 2];
  u32 n = hlo_size_groups(from, to, g);
  *moves = false;
  for (u32 d = 0; d < from->rank; d++)
    fn[d] = a->dynamic_sizes ? a->dynamic_sizes[d] : from->dims[d];
  for (u32 k = 0; k < n; k++) {
    const u32 end_i = g[k + 1].from, end_j = g[k + 1].to;
    i64 used = 1, fixed = 1, rest = -1;
    for (u32 i = g[k].from; i < end_i; i++)  // saturating: beside a 0 the others may have any size
      used = hs_mul_sat_i64(used, fn[i]);
    for (u32 j = g[k].to; j < end_j; j++) {
      // of several the last takes it, but for those of size 1
      bool takes = hlo_dim_is_dynamic(to, j) && (rest < 0 || to->dims[j] > 1);
      i64 whole = takes ? rest : j;
      if (takes) rest = j;
      if (whole >= 0) fixed = hs_mul_sat_i64(fixed, tn[whole] = to->dims[whole]);
    }
    if (rest >= 0) tn[rest] = fixed ? HS_MIN(used / fixed, to->dims[rest]) : to->dims[rest];
    u32 ncut = 0;
    for (u32 d = g[k].from; d < end_i; d++) {
      if (rest < 0) fn[d] = from->dims[d];
      if (fn[d] == from->dims[d]) continue;
      *moves |=
          ncut++ || !is_major(from, g[k].from, end_i, d) || !is_major(to, g[k].to, end_j, rest);
    }
  }
  return n || (!from->rank && !to->rank);
}

hs_status hlo_eval_reshape(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  // of a static type all elements are in use, wherever they lie
  if (!i->shape->dynamic || !ev_is_cut(ops[0])) {
    *out = ev_retag(&ops[0], i->shape);
    return HS_GOOD;
  }
  i64 fn[HLO_MAX_RANK], tn[HLO_MAX_RANK];
  bool moves;
  if (!reshaped_sizes(ops[0], i->shape, fn, tn, &moves))
    return i->shape->elements ? ev_unsupported(i, "of a dynamic array")
                              : ev_new(e, i->shape, out);  // of nothing, of which all is in use
  HS_TRY(ev_new(e, i->shape, out));
  if (moves) pour(ops[0], fn, *out, tn);
  else memcpy((*out)->data, ops[0]->data, (*out)->bytes);
  HS_TRY(hs_poll());
  for (u32 d = 0; d < i->shape->rank && (*out)->dynamic_sizes; d++)
    (*out)->dynamic_sizes[d] = (i32)tn[d];
  return HS_GOOD;
}

hs_status hlo_eval_transpose(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *from = ops[0]->shape, *to = i->shape;
  hlo_ints perm = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 fs[HLO_MAX_RANK], ts[HLO_MAX_RANK], ss[HLO_MAX_RANK];
  hlo_row_major_strides(from->rank, from->dims, fs);
  hlo_row_major_strides(to->rank, to->dims, ts);
  // only dimensions of size 1 move: the data stay
  bool moved = false;
  i64 last = -1;
  for (u32 d = 0; d < to->rank; d++) {
    ss[d] = fs[perm.v[d]];
    if (to->dims[d] == 1) continue;
    moved |= perm.v[d] < last;
    last = perm.v[d];
  }
  if (!moved && !to->dynamic) {
    *out = ev_retag(&ops[0], to);
    return HS_GOOD;
  }
  HS_TRY(ev_new(e, to, out));
  ev_copy(width(ops[0]), to->rank, to->dims, (*out)->data, ts, ops[0]->data, ss);
  if ((*out)->dynamic_sizes && ops[0]->dynamic_sizes)
    for (u32 d = 0; d < to->rank; d++) (*out)->dynamic_sizes[d] = ops[0]->dynamic_sizes[perm.v[d]];
  return HS_GOOD;
}

hs_status hlo_eval_slice(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *from = ops[0]->shape, *to = i->shape;
  const hlo_slices *sl = hlo_attr_ptr(i, HLO_ATTR_SLICE);
  if (from->elements == to->elements && from->elements > 0 && !to->dynamic) {
    *out = ev_retag(&ops[0], to);
    return HS_GOOD;
  }
  i64 fs[HLO_MAX_RANK], ts[HLO_MAX_RANK], start = 0;
  hlo_row_major_strides(from->rank, from->dims, fs);
  hlo_row_major_strides(to->rank, to->dims, ts);
  // what is never stepped over may be beyond all numbers
  for (u32 d = 0; d < to->rank && to->elements; d++) {
    start += sl->v[d].start * fs[d];
    fs[d] = hs_mul_sat_i64(fs[d], sl->v[d].stride);
  }
  HS_TRY(ev_new(e, to, out));
  size_t w = width(ops[0]);
  if (to->elements)
    ev_copy(w, to->rank, to->dims, (*out)->data, ts, (const char *)ops[0]->data + start * (i64)w,
            fs);
  if ((*out)->dynamic_sizes && ops[0]->dynamic_sizes)
    for (u32 d = 0; d < to->rank; d++)
      if (hlo_dim_is_dynamic(to, d))
        (*out)->dynamic_sizes[d] = HS_MIN(ops[0]->dynamic_sizes[d], (i32)to->dims[d]);
  return HS_GOOD;
}

hs_status hlo_eval_reverse(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *s = i->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 ts[HLO_MAX_RANK], fs[HLO_MAX_RANK], n[HLO_MAX_RANK], start = 0;
  hlo_row_major_strides(s->rank, s->dims, ts);
  memcpy(fs, ts, sizeof fs);
  memcpy(n, s->dims, s->rank * sizeof *n);
  for (u32 k = 0; k < dims.n; k++) {
    i64 d = dims.v[k];
    if (ops[0]->dynamic_sizes) n[d] = ops[0]->dynamic_sizes[d];
    if (s->elements) start += (n[d] - 1) * ts[d];
    fs[d] = -ts[d];
  }
  HS_TRY(ev_new(e, s, out));
  size_t w = width(ops[0]);
  if (ops[0]->dynamic_sizes) {
    memset((*out)->data, 0, (*out)->bytes);
    if ((*out)->dynamic_sizes) ev_keep_sizes(*out, ops[0]);
  }
  if (ev_product(s->rank, n))
    ev_copy(w, s->rank, n, (*out)->data, ts, (const char *)ops[0]->data + start * (i64)w, fs);
  return HS_GOOD;
}

hs_status hlo_eval_pad(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *from = ops[0]->shape, *to = i->shape;
  const hlo_padding *pad = hlo_attr_ptr(i, HLO_ATTR_PADDING);
  i64 fs[HLO_MAX_RANK], ts[HLO_MAX_RANK], n[HLO_MAX_RANK], src = 0, dst = 0;
  bool any = true;
  hlo_row_major_strides(from->rank, from->dims, fs);
  hlo_row_major_strides(to->rank, to->dims, ts);
  for (u32 d = 0; d < to->rank; d++) {
    i64 step = pad->v[d].interior + 1, low = pad->v[d].low;
    // Elements first .. last of the operand, of those in use, land inside the result.
    i64 has = ops[0]->dynamic_sizes ? ops[0]->dynamic_sizes[d] : from->dims[d];
    i64 first = low < 0 ? (-low + step - 1) / step : 0;
    i64 last = to->dims[d] - 1 - low < 0 ? -1 : HS_MIN(has - 1, (to->dims[d] - 1 - low) / step);
    n[d] = last - first + 1;
    if (n[d] <= 0) any = false;
    src += first * fs[d];
    dst += (low + first * step) * ts[d];
    ts[d] *= step;
  }
  HS_TRY(ev_new(e, to, out));
  size_t w = width(ops[0]);
  if (!any || ev_product(to->rank, n) < to->elements)
    ev_fill(w, (*out)->data, ops[1]->data, to->elements);
  if (any && to->elements)
    ev_copy(w, to->rank, n, (char *)(*out)->data + dst * (i64)w, ts,
            (const char *)ops[0]->data + src * (i64)w, fs);
  if ((*out)->dynamic_sizes && ops[0]->dynamic_sizes)
    for (u32 d = 0; d < to->rank; d++) {
      i64 used = ops[0]->dynamic_sizes[d],
          size = pad->v[d].low + pad->v[d].high + used + HS_MAX(used - 1, 0) * pad->v[d].interior;
      if (to->dynamic[d]) (*out)->dynamic_sizes[d] = (i32)HS_MAX(size, 0);
    }
  return HS_GOOD;
}

hs_status hlo_eval_concatenate(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *to = i->shape;
  i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
  if (i->noperands == 1) {
    *out = ev_retag(&ops[0], to);
    return HS_GOOD;
  }
  HS_TRY(ev_new(e, to, out));
  i64 ts[HLO_MAX_RANK], at = 0;
  hlo_row_major_strides(to->rank, to->dims, ts);
  size_t w = hlo_dtype_storage(to->dtype);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *from = ops[k]->shape;
    i64 fs[HLO_MAX_RANK], n[HLO_MAX_RANK];
    hlo_row_major_strides(from->rank, from->dims, fs);
    memcpy(n, from->dims, from->rank * sizeof *n);
    // along a static dimension parts are used whole
    if (hlo_dim_is_dynamic(to, dim) && ops[k]->dynamic_sizes) n[dim] = ops[k]->dynamic_sizes[dim];
    if (from->elements)
      ev_copy(w, to->rank, n, (char *)(*out)->data + at * ts[dim] * (i64)w, ts, ops[k]->data, fs);
    at += n[dim];
    if ((*out)->dynamic_sizes && ops[k]->dynamic_sizes)
      for (u32 d = 0; d < to->rank; d++) {
        // the last part's size, but all of a dimension is one only where something sets it
        i32 has = ops[k]->dynamic_sizes[d];
        bool sized = has < from->dims[d] || ev_has_size(hlo_operand(i, k), d);
        if (d != dim && sized) (*out)->dynamic_sizes[d] = has;
      }
  }
  if ((*out)->dynamic_sizes) (*out)->dynamic_sizes[dim] = (i32)at;
  return HS_GOOD;
}

hs_status hlo_eval_iota(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  const hlo_shape *s = i->shape;
  i64 dim = hlo_attr_int(i, HLO_ATTR_IOTA_DIMENSION, 0), n = s->rank ? s->dims[dim] : 1;
  HS_TRY(ev_new(e, s, out));
  if (!s->elements) return HS_GOOD;
  // One line of the counting dimension, then a broadcast of it.
  i64 *count = hs_try_alloc((size_t)n * sizeof *count);
  size_t w = hlo_dtype_storage(s->dtype);
  char *lines = hs_try_alloc((size_t)n * w);
  if (!count || !lines) {
    hs_free(count);
    hs_free(lines);
    return hs_fail(HS_E_NO_MEMORY, "no memory for %lld elements", (long long)n);
  }
  for (i64 k = 0; k < n; k++) count[k] = k;
  ev_convert(HLO_S64, count, s->dtype, lines, n);
  i64 ts[HLO_MAX_RANK], ss[HLO_MAX_RANK] = {0};
  hlo_row_major_strides(s->rank, s->dims, ts);
  ss[dim] = 1;
  ev_copy(w, s->rank, s->dims, (*out)->data, ts, lines, ss);
  hs_free(count);
  hs_free(lines);
  return HS_GOOD;
}

// ---- dynamic slices -----------------------------------------------------------------------------
// Start indices are scalars ops[first..], or one array of them (the old form); each is
// clamped so that a window of `size` fits.
static i64 start_offset(hlo_literal *const *ops, u32 first, u32 nops, u32 rank, const i64 *dims,
                        const i64 *size, const i64 *strides) {
  i64 at = 0;
  bool packed = nops - first == 1 && ops[first]->shape->rank == 1;
  for (u32 d = 0; d < rank; d++) {
    i64 v = packed             ? hlo_literal_i64(ops[first], d)
            : first + d < nops ? hlo_literal_i64(ops[first + d], 0)
                               : 0;
    if ((packed ? ops[first] : ops[first + d])->shape->dtype == HLO_U64 && v < 0) v = INT64_MAX;
    v = HS_MAX(HS_MIN(v, dims[d] - size[d]), 0);
    at += v * strides[d];
  }
  return at;
}

hs_status hlo_eval_dynamic_slice(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *from = ops[0]->shape, *to = i->shape;
  i64 fs[HLO_MAX_RANK], ts[HLO_MAX_RANK];
  hlo_row_major_strides(from->rank, from->dims, fs);
  hlo_row_major_strides(to->rank, to->dims, ts);
  i64 at = start_offset(ops, 1, i->noperands, from->rank, from->dims, to->dims, fs);
  HS_TRY(ev_new(e, to, out));
  size_t w = width(ops[0]);
  ev_copy(w, to->rank, to->dims, (*out)->data, ts, (const char *)ops[0]->data + at * (i64)w, fs);
  for (u32 d = 0; d < to->rank && (*out)->dynamic_sizes && ops[0]->dynamic_sizes; d++)
    if (to->dims[d] == from->dims[d]) (*out)->dynamic_sizes[d] = ops[0]->dynamic_sizes[d];
  return HS_GOOD;
}

hs_status hlo_eval_dynamic_update_slice(ev *e, const hlo_instr *i, hlo_literal **ops,
                                        hlo_literal **out) {
  const hlo_shape *to = i->shape, *from = ops[1]->shape;
  i64 fs[HLO_MAX_RANK], ts[HLO_MAX_RANK], n[HLO_MAX_RANK];
  hlo_row_major_strides(from->rank, from->dims, fs);
  hlo_row_major_strides(to->rank, to->dims, ts);
  i64 at = start_offset(ops, 2, i->noperands, to->rank, to->dims, from->dims, ts);
  for (u32 d = 0; d < from->rank; d++)
    n[d] = ops[1]->dynamic_sizes ? ops[1]->dynamic_sizes[d] : from->dims[d];
  HS_TRY(ev_own(e, &ops[0], to, out));
  size_t w = width(ops[1]);
  if (ev_product(from->rank, n))
    ev_copy(w, from->rank, n, (char *)(*out)->data + at * (i64)w, ts, ops[1]->data, fs);
  return HS_GOOD;
}

// ---- bitcasts -----------------------------------------------------------------------------------
static bool plain_layout(const hlo_shape *s) {
  return !s->layout || (s->layout->ntiles == 0 && s->layout->rank == s->rank);
}

// Strides of the dense array in the order that the layout gives.
static void layout_strides(const hlo_shape *s, i64 *strides) {
  i64 step = 1;
  if (!s->layout) {
    hlo_row_major_strides(s->rank, s->dims, strides);
    return;
  }
  for (u32 k = 0; k < s->rank; k++) {
    strides[s->layout->minor_to_major[k]] = step;
    step *= s->dims[s->layout->minor_to_major[k]];
  }
}

// Bits to bits: s4 and other sub-byte elements are packed low bits first, as XLA packs them.
static void regroup(hlo_dtype from, const u8 *src, i64 n, hlo_dtype to, u8 *dst, i64 m) {
  int fb = hlo_dtype_bits(from), tb = hlo_dtype_bits(to);
  if (fb >= 8 && tb >= 8) {
    memcpy(dst, src, (size_t)(HS_MIN(n * fb, m * tb) / 8));
    return;
  }
  size_t fw = hlo_dtype_storage(from), tw = hlo_dtype_storage(to);
  memset(dst, 0, (size_t)m * tw);
  i64 total = HS_MIN(n * fb, m * tb);
  for (i64 b = 0; b < total; b++) {
    i64 s = b / fb, sb = b % fb, d = b / tb, db = b % tb;
    int bit = src[(size_t)s * fw + (size_t)(sb / 8)] >> (sb % 8) & 1;
    dst[(size_t)d * tw + (size_t)(db / 8)] |= (u8)(bit << (db % 8));
  }
  if (tb < 8 && hlo_dtype_is_signed(to))
    for (i64 k = 0; k < m; k++) dst[k] = (u8)((dst[k] ^ 1 << (tb - 1)) - (1 << (tb - 1)));
}

static hs_status reinterpret(ev *e, const hlo_instr *i, hlo_literal **op, const hlo_shape *to,
                             hlo_literal **out) {
  hlo_dtype f = (*op)->shape->dtype, t = to->dtype;
  // The verifier compares sizes only where layouts are final.
  if ((*op)->shape->elements * hlo_dtype_bits(f) != to->elements * hlo_dtype_bits(t))
    return ev_unsupported(i, "between arrays of different size");
  if (t == HLO_PRED && f != HLO_PRED && hlo_dtype_bits(f) >= 8) {  // of any bits, but 0 or 1
    HS_TRY(ev_new(e, to, out));
    regroup(f, (*op)->data, (*op)->shape->elements, t, (*out)->data, to->elements);
    for (i64 k = 0; k < to->elements; k++) ((u8 *)(*out)->data)[k] = ((u8 *)(*out)->data)[k] != 0;
    return HS_GOOD;
  }
  if (hlo_dtype_bits(f) == hlo_dtype_bits(t) && hlo_dtype_bits(f) >= 8) {
    *out = ev_retag(op, to);
    return HS_GOOD;
  }
  HS_TRY(ev_new(e, to, out));
  regroup(f, (*op)->data, (*op)->shape->elements, t, (*out)->data, to->elements);
  return HS_GOOD;
}

hs_status hlo_eval_bitcast_convert(ev *e, const hlo_instr *i, hlo_literal **ops,
                                   hlo_literal **out) {
  if (!hlo_shape_is_array(ops[0]->shape) || !hlo_shape_is_array(i->shape)) {
    *out = ev_retag(&ops[0], i->shape);
    return HS_GOOD;
  }
  return reinterpret(e, i, &ops[0], i->shape, out);
}

// Sizes go to the dimension of the same place in memory, where both arrays have the same ones.
static void bitcast_sizes(const hlo_shape *from, const i32 *used, hlo_literal *r) {
  const hlo_shape *to = r->shape;
  bool same = used && r->dynamic_sizes && from->rank == to->rank;
  for (int set = 0; set < 2 && same; set++)
    for (u32 k = 0; k < to->rank; k++) {
      i64 d = from->layout ? from->layout->minor_to_major[k] : from->rank - 1 - k,
          t = to->layout ? to->layout->minor_to_major[k] : to->rank - 1 - k;
      if (set) r->dynamic_sizes[t] = used[d];
      else same &= from->dims[d] == to->dims[t];
    }
}

static hs_status bitcast(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out);

hs_status hlo_eval_bitcast(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *from = hlo_operand(i, 0)->shape;
  i32 used[HLO_MAX_RANK];
  bool sized = ops[0]->dynamic_sizes && from->rank <= HLO_MAX_RANK;
  if (sized) memcpy(used, ops[0]->dynamic_sizes, from->rank * sizeof *used);
  HS_TRY(bitcast(e, i, ops, out));
  bitcast_sizes(from, sized ? used : NULL, *out);
  return HS_GOOD;
}

static hs_status bitcast(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *to = i->shape, *from = hlo_operand(i, 0)->shape;
  if (!hlo_shape_is_array(from) || !hlo_shape_is_array(to)) {
    if (!hlo_shape_compatible(from, to)) return ev_unsupported(i, "between values of other forms");
    *out = ev_retag(&ops[0], to);
    return HS_GOOD;
  }
  if (!plain_layout(from) || !plain_layout(to)) {
    // Tiles are the same on both sides when only unit dimensions come or go; anything else depends
    // on the padding.
    if (hlo_dtype_bits(from->dtype) != hlo_dtype_bits(to->dtype) || from->elements != to->elements)
      return ev_unsupported(i, "between tiled layouts");
  }
  i64 fs[HLO_MAX_RANK], ts[HLO_MAX_RANK], rs[HLO_MAX_RANK];
  size_t w = width(ops[0]);
  hlo_literal *a = ops[0];
  ops[0] = NULL;
  if (!hlo_shape_is_row_major(from)) {  // to the order in memory
    hlo_literal *b;
    hs_status st = ev_new(e, from, &b);
    if (!hs_ok(st)) {
      hlo_literal_unref(a);
      return st;
    }
    hlo_row_major_strides(from->rank, from->dims, rs);
    layout_strides(from, fs);
    ev_copy(w, from->rank, from->dims, b->data, fs, a->data, rs);
    hlo_literal_unref(a);
    a = b;
  }
  hlo_literal *r = NULL;
  hs_status st = reinterpret(e, i, &a, to, &r);
  hlo_literal_unref(a);
  if (!hs_ok(st)) return st;
  if (!hlo_shape_is_row_major(to)) {  // and out of it
    hlo_literal *b;
    st = ev_new(e, to, &b);
    if (!hs_ok(st)) {
      hlo_literal_unref(r);
      return st;
    }
    hlo_row_major_strides(to->rank, to->dims, rs);
    layout_strides(to, ts);
    ev_copy(hlo_dtype_storage(to->dtype), to->rank, to->dims, b->data, rs, r->data, ts);
    hlo_literal_unref(r);
    r = b;
  }
  *out = r;
  return HS_GOOD;
}

// ---- gather -------------------------------------------------------------------------------------
static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

hs_status hlo_eval_gather(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *from = ops[0]->shape, *ids = ops[1]->shape, *to = i->shape;
  hlo_ints offset = hlo_attr_ints(i, HLO_ATTR_OFFSET_DIMS),
           collapsed = hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS),
           map = hlo_attr_ints(i, HLO_ATTR_START_INDEX_MAP),
           batch = hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS),
           id_batch = hlo_attr_ints(i, HLO_ATTR_START_INDICES_BATCHING_DIMS),
           size = hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES);
  i64 vector = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, ids->rank);
  i64 fs[HLO_MAX_RANK], is[HLO_MAX_RANK], ts[HLO_MAX_RANK];
  hlo_row_major_strides(from->rank, from->dims, fs);
  hlo_row_major_strides(ids->rank, ids->dims, is);
  hlo_row_major_strides(to->rank, to->dims, ts);
  HS_TRY(ev_new(e, to, out));
  if (!to->elements) return HS_GOOD;
  if (!from->elements) {  // nothing to take from: zeros, as XLA
    memset((*out)->data, 0, (*out)->bytes);
    return HS_GOOD;
  }
  // Window dimensions of the result, and the batch dimensions with the index dimension each one
  // walks.
  i32 *used = (*out)->dynamic_sizes;
  const i32 *from_used = ops[0]->dynamic_sizes, *ids_used = ops[1]->dynamic_sizes;
  i64 wn[HLO_MAX_RANK], wd[HLO_MAX_RANK], ws[HLO_MAX_RANK], bn[HLO_MAX_RANK], bd[HLO_MAX_RANK],
      bi[HLO_MAX_RANK], bof[HLO_MAX_RANK];
  u32 nw = 0, nb = 0, k = 0;
  for (u32 d = 0; d < from->rank; d++) {
    if (holds(collapsed, d) || holds(batch, d)) continue;
    i64 r = offset.v[k++];
    if (used && from_used && to->dynamic[r] && size.v[d] == from->dims[d]) used[r] = from_used[d];
    wn[nw] = size.v[d], ws[nw] = fs[d], wd[nw++] = ts[r];
  }
  u32 id_dim = 0;
  for (u32 r = 0; r < to->rank; r++) {
    if (holds(offset, r)) continue;
    if (id_dim == vector) id_dim++;
    bn[nb] = to->dims[r], bd[nb] = ts[r], bi[nb] = is[id_dim], bof[nb] = 0;
    for (u32 b = 0; b < id_batch.n; b++)
      if (id_batch.v[b] == id_dim) bof[nb] = fs[batch.v[b]];
    if (used && ids_used && to->dynamic[r]) used[r] = ids_used[id_dim];
    nb++, id_dim++;
  }
  size_t w = width(ops[0]), iw = width(ops[1]);
  hlo_dtype it = ids->dtype;
  i64 index[HLO_MAX_RANK] = {0}, vstep = vector < ids->rank ? is[vector] : 0, polls = 0;
  do {
    i64 dst = 0, id = 0, src = 0;
    for (u32 b = 0; b < nb; b++)
      dst += index[b] * bd[b], id += index[b] * bi[b], src += index[b] * bof[b];
    for (u32 m = 0; m < map.n; m++) {
      const char *p = (const char *)ops[1]->data + (size_t)(id + (i64)m * vstep) * iw;
      i64 v = hlo_elem_to_i64(it, p), d = map.v[m], hi = from->dims[d] - HS_MAX(size.v[d], 1);
      if (holds(batch, d)) continue;  // its position is the batch index
      if (it == HLO_U64 && v < 0) v = INT64_MAX;
      src += HS_MAX(HS_MIN(v, hi), 0) * fs[d];
    }
    ev_copy(w, nw, wn, (char *)(*out)->data + dst * (i64)w, wd,
            (const char *)ops[0]->data + src * (i64)w, ws);
    if ((++polls & 4095) == 0) HS_TRY(hs_poll());
  } while (ev_next(nb, bn, index));
  return HS_GOOD;
}

// ---- sizes of dynamic dimensions ----------------------------------------------------------------
hs_status hlo_eval_get_dim_size(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  i64 d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
  HS_TRY(ev_new(e, i->shape, out));
  hlo_literal_set_i64(*out, 0,
                      ops[0]->dynamic_sizes ? ops[0]->dynamic_sizes[d] : ops[0]->shape->dims[d]);
  return HS_GOOD;
}

hs_status hlo_eval_set_dim_size(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  i64 d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0], v = hlo_literal_i64(ops[1], 0);
  i32 old[HLO_MAX_RANK];
  HS_TRY(ev_match_precision(e, i->shape->dtype, &ops[0]));
  bool had = ops[0]->dynamic_sizes != NULL;
  if (had) memcpy(old, ops[0]->dynamic_sizes, ops[0]->shape->rank * sizeof *old);
  *out = ev_retag(&ops[0], i->shape);
  if (had && (*out)->refs > 1) {  // others have it too, with its own sizes
    hlo_literal *shared = *out;
    HS_TRY(ev_new(e, i->shape, out));
    memcpy((*out)->data, shared->data, shared->bytes);
    hlo_literal_unref(shared);
  }
  if (!(*out)->dynamic_sizes) {
    // A static shape with a size: get-dimension-size sees it, and an operand beside it with one.
    hlo_literal *view = *out;
    HS_TRY(ev_new(e, i->shape, out));
    memcpy((*out)->data, view->data, view->bytes);
    hlo_literal_unref(view);
    (*out)->dynamic_sizes = hs_calloc(i->shape->rank, sizeof(i32));
    for (u32 k = 0; k < i->shape->rank; k++)
      (*out)->dynamic_sizes[k] = (i32)HS_MIN(i->shape->dims[k], INT32_MAX);
  }
  if (had) memcpy((*out)->dynamic_sizes, old, i->shape->rank * sizeof *old);
  (*out)->dynamic_sizes[d] = (i32)HS_MAX(HS_MIN(v, i->shape->dims[d]), 0);
  return HS_GOOD;
}

hs_status hlo_eval_dynamic_reshape(ev *e, const hlo_instr *i, hlo_literal **ops,
                                   hlo_literal **out) {
  const hlo_shape *to = i->shape;
  hlo_literal *a = ops[0];
  HS_TRY(ev_new(e, to, out));
  i64 fn[HLO_MAX_RANK], tn[HLO_MAX_RANK];
  for (u32 d = 0; d < a->shape->rank; d++)
    fn[d] = a->dynamic_sizes ? a->dynamic_sizes[d] : a->shape->dims[d];
  for (u32 d = 0; d < to->rank; d++) {
    // a static dimension has its size, whatever the operand says
    bool varies = hlo_dim_is_dynamic(to, d);
    tn[d] = varies ? HS_MAX(HS_MIN(hlo_literal_i64(ops[d + 1], 0), to->dims[d]), 0) : to->dims[d];
    if ((*out)->dynamic_sizes) (*out)->dynamic_sizes[d] = (i32)tn[d];
  }
  pour(a, fn, *out, tn);
  return hs_poll();
}
