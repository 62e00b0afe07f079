// move.c — shape rules of the operations that only move data: slices, pads, reshapes,
// transposes, broadcasts, concatenation, dynamic dimensions, bitcasts. Source of the rules:
// xla/service/shape_inference.cc.
#include "core/infer/rules.h"

static i64 ceil_div(i64 a, i64 b) { return a / b + (a % b != 0); }

hs_status hlo_infer_concatenate(const infer_args *a, const hlo_shape **out) {
  if (!a->n) return hs_fail(HS_E_SHAPE, "Concatenate expects at least one argument.");
  const hlo_shape *first = a->in[0];
  HS_TRY(infer_expect_array(first, "operand of concatenation"));
  i64 dim = infer_dimension(a), total = 0;
  if (dim < 0 || dim >= first->rank)
    return hs_fail(HS_E_SHAPE, "Concatenate dimension out of bounds: %lld.", (long long)dim);
  infer_dims d = {0};
  for (u32 i = 0; i < first->rank; i++) infer_push_dim(&d, first, i);
  hlo_dtype t = first->dtype;
  for (u32 k = 0; k < a->n; k++) {
    const hlo_shape *s = a->in[k];
    HS_TRY(infer_expect_array(s, "operand of concatenation"));
    if (s->rank != first->rank)
      return hs_fail(
          HS_E_SHAPE,
          "Cannot concatenate arrays with different numbers of dimensions: %u (%s) vs %u (%s).",
          first->rank, infer_text(first), s->rank, infer_text(s));
    if (!infer_same_type_class(s->dtype, first->dtype))
      return hs_fail(HS_E_SHAPE,
                     "Cannot concatenate arrays with different element types: %s vs %s.",
                     hlo_dtype_text(first->dtype), hlo_dtype_text(s->dtype));
    t = infer_wider(t, s->dtype);
    for (u32 i = 0; i < s->rank; i++) {
      if (i == dim) continue;
      if (!infer_dims_fit(first->dims[i], s->dims[i]))
        return hs_fail(
            HS_E_SHAPE,
            "Cannot concatenate arrays that differ in dimensions other than the one being "
            "concatenated. Dimension %u "
            "in both shapes must be equal (or compatible): %s vs %s.",
            i, infer_text(first), infer_text(s));
      if (d.size[i] == HLO_UNBOUNDED) d.size[i] = s->dims[i], d.dyn[i] = hlo_dim_is_dynamic(s, i);
      d.dyn[i] |= hlo_dim_is_dynamic(s, i) && s->dims[i] != HLO_UNBOUNDED;
    }
    d.dyn[dim] |= hlo_dim_is_dynamic(s, (u32)dim);
    if (total == HLO_UNBOUNDED || s->dims[dim] == HLO_UNBOUNDED) total = HLO_UNBOUNDED;
    else if (!hs_add_ok(total, s->dims[dim], &total))
      return hs_fail(HS_E_LIMIT, "concatenate: the size of dimension %lld overflows",
                     (long long)dim);
  }
  d.size[dim] = total;
  return infer_array(a, t, &d, out);
}

static hs_status bad_slice(const infer_args *a, const char *what, i64 x, i64 y) {
  return hs_fail(HS_E_SHAPE, "%s (%lld vs %lld) in slice operation; argument shape: %s.", what,
                 (long long)x, (long long)y, infer_text(a->in[0]));
}
hs_status hlo_infer_slice(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *s = a->in[0];
  const hlo_slices *sl = infer_ptr(a, HLO_ATTR_SLICE);
  HS_TRY(infer_expect_array(s, "operand of slice"));
  u32 n = sl ? sl->n : 0;
  if (n != s->rank)
    return bad_slice(a, "slice index count does not match argument rank", n, s->rank);
  infer_dims d = {0};
  for (u32 i = 0; i < n; i++) {
    hlo_slice_dim k = sl->v[i];
    if (k.start < 0) return bad_slice(a, "negative start index to slice", k.start, 0);
    if (s->dims[i] != HLO_UNBOUNDED && k.limit > s->dims[i])
      return bad_slice(a, "limit index must be less than or equal to dimension size", k.limit,
                       s->dims[i]);
    if (k.start > k.limit)
      return bad_slice(
          a, "limit index must be greater or equal to start index in slice with positive stride",
          k.limit, k.start);
    if (k.stride <= 0) return bad_slice(a, "stride must be positive", k.stride, 1);
    i64 size = ceil_div(k.limit - k.start, k.stride);
    infer_push(&d, size, size != 1 && hlo_dim_is_dynamic(s, i) && s->dims[i] != HLO_UNBOUNDED);
  }
  return infer_array(a, s->dtype, &d, out);
}

// Start indices: one scalar per dimension, or (old form) one vector.
static hs_status check_starts(const infer_args *a, u32 at, const char *op) {
  u32 n = a->n - at, rank = a->in[0]->rank;
  if (n == 1 && hlo_shape_is_array(a->in[at]) && a->in[at]->rank == 1) {
    if (a->in[at]->dims[0] != rank)
      return hs_fail(
          HS_E_SHAPE,
          "%s start number of dimensions %lld (%s) must match rank %u of slice input (%s).", op,
          (long long)a->in[at]->dims[0], infer_text(a->in[at]), rank, infer_text(a->in[0]));
  } else if (n != rank) {
    return hs_fail(HS_E_SHAPE,
                   "%s start number of dimensions %u must match rank %u of slice input (%s).", op,
                   n, rank, infer_text(a->in[0]));
  }
  for (u32 i = at; i < a->n; i++) {
    HS_TRY(infer_expect_array(a->in[i], "start indices"));
    if (n != 1 && a->in[i]->rank)
      return hs_fail(HS_E_SHAPE, "%s start index %u must be a scalar; got %s.", op, i - at,
                     infer_text(a->in[i]));
    if (!hlo_dtype_is_integer(a->in[i]->dtype))
      return hs_fail(HS_E_SHAPE, "%s start indices must be of integral type; got %s.", op,
                     infer_text(a->in[i]));
    if (a->in[i]->dtype != a->in[at]->dtype)
      return hs_fail(HS_E_SHAPE, "%s start indices must all have the same element type.", op);
  }
  return HS_GOOD;
}
hs_status hlo_infer_dynamic_slice(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  const hlo_shape *s = a->in[0];
  hlo_ints sizes = infer_ints(a, HLO_ATTR_DYNAMIC_SLICE_SIZES);
  HS_TRY(infer_expect_array(s, "operand of dynamic slice"));
  HS_TRY(check_starts(a, 1, "Dynamic slice"));
  if (sizes.n != s->rank)
    return hs_fail(HS_E_SHAPE, "Dynamic slice index count does not match argument rank: %u vs %u.",
                   sizes.n, s->rank);
  infer_dims d = {0};
  for (u32 i = 0; i < sizes.n; i++) {
    if (sizes.v[i] < 0)
      return hs_fail(HS_E_SHAPE, "Negative size index to dynamic slice: %lld.",
                     (long long)sizes.v[i]);
    if (s->dims[i] != HLO_UNBOUNDED && sizes.v[i] > s->dims[i])
      return hs_fail(HS_E_SHAPE, "Slice dim size %lld greater than dynamic slice dimension: %lld.",
                     (long long)sizes.v[i], (long long)s->dims[i]);
    infer_push(&d, sizes.v[i], hlo_dim_is_dynamic(s, i) && sizes.v[i] == s->dims[i]);
  }
  return infer_array(a, s->dtype, &d, out);
}
hs_status hlo_infer_dynamic_update_slice(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 2));
  const hlo_shape *s = a->in[0], *u = a->in[1];
  HS_TRY(infer_expect_array(s, "operand of dynamic update slice"));
  HS_TRY(infer_expect_array(u, "update of dynamic update slice"));
  HS_TRY(check_starts(a, 2, "Dynamic update slice"));
  if (u->rank != s->rank)
    return hs_fail(HS_E_SHAPE,
                   "Dynamic update slice update rank does not match argument rank: %u vs %u.",
                   u->rank, s->rank);
  if (!infer_same_type_class(s->dtype, u->dtype))
    return hs_fail(
        HS_E_SHAPE,
        "Dynamic update slice update element type does not match argument. operand.element_type: "
        "%s vs update.element_type: %s.",
        hlo_dtype_text(s->dtype), hlo_dtype_text(u->dtype));
  for (u32 i = 0; i < s->rank; i++)
    if (s->dims[i] != HLO_UNBOUNDED && u->dims[i] != HLO_UNBOUNDED && u->dims[i] > s->dims[i])
      return hs_fail(HS_E_SHAPE, "Update dim size %lld greater than dynamic slice dimension: %lld.",
                     (long long)u->dims[i], (long long)s->dims[i]);
  *out = s;
  return HS_GOOD;
}

hs_status hlo_infer_pad(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *s = a->in[0], *v = a->in[1];
  const hlo_padding *p = infer_ptr(a, HLO_ATTR_PADDING);
  HS_TRY(infer_expect_array(s, "operand of pad"));
  if (!hlo_shape_is_scalar(v))
    return hs_fail(HS_E_SHAPE, "Pad operation does not support non-scalar padding values; got %s.",
                   infer_text(v));
  if (!infer_same_type_class(s->dtype, v->dtype))
    return hs_fail(HS_E_SHAPE, "The element types of the operands to Pad do not match.");
  u32 n = p ? p->n : 0;
  if (n != s->rank)
    return hs_fail(HS_E_SHAPE,
                   "The rank of the operand and the padding configuration do not match: %s vs %u.",
                   infer_text(s), n);
  infer_dims d = {0};
  for (u32 i = 0; i < n; i++) {
    hlo_pad_dim k = p->v[i];
    if (k.interior < 0)
      return hs_fail(HS_E_SHAPE, "Interior padding cannot be negative: %lld",
                     (long long)k.interior);
    i64 size = s->dims[i], inner = 0;
    if (size != HLO_UNBOUNDED) {
      if (!hs_mul_ok(HS_MAX(size - 1, 0), k.interior, &inner) || !hs_add_ok(size, inner, &size) ||
          !hs_add_ok(size, k.low, &size) || !hs_add_ok(size, k.high, &size))
        return hs_fail(HS_E_LIMIT, "pad: the size of dimension %u overflows", i);
      if (size < 0)
        return hs_fail(HS_E_SHAPE, "Padding result in negative size for dimension %u", i);
    }
    infer_push(&d, size, hlo_dim_is_dynamic(s, i));
  }
  return infer_array(a, infer_wider(s->dtype, v->dtype), &d, out);
}

static i64 element_count(const hlo_shape *s) {  // HLO_UNBOUNDED when a dimension is
  for (u32 i = 0; i < s->rank; i++)
    if (s->dims[i] == HLO_UNBOUNDED) return HLO_UNBOUNDED;
  return s->elements;
}
// Which result dimensions are dynamic when the text does not say: both dimension lists are cut into
// the smallest segments of equal element count, and a dynamic dimension goes to its segment's only
// non-trivial result dimension, or else to the most major one.
static void reshape_dynamism(const hlo_shape *s, const hlo_shape *r, bool *dyn) {
  u32 i = 0, k = 0;
  while (i < s->rank || k < r->rank) {
    u32 i0 = i, k0 = k;
    i64 p = 1, q = 1;
    bool any = false;
    do {
      if (k >= r->rank || (p <= q && i < s->rank))
        any |= hlo_dim_is_dynamic(s, i), p = hs_mul_sat_i64(p, s->dims[i++]);
      else q = hs_mul_sat_i64(q, r->dims[k++]);
    } while ((i < s->rank || k < r->rank) && (p != q || i == i0 || k == k0));
    while (i < s->rank && s->dims[i] == 1) any |= hlo_dim_is_dynamic(s, i++);
    while (k < r->rank && r->dims[k] == 1) k++;
    if (!any || k == k0) continue;
    u32 big = 0, at = k0;
    for (u32 j = k; j-- > k0;)
      if (r->dims[j] != 1) big++, at = j;
    dyn[big ? at : k0] = true;
  }
}
hs_status hlo_infer_reshape(const infer_args *a, const hlo_shape **out) {
  if (!a->stated) return hlo_infer_stated(a, out);
  const hlo_shape *s = a->in[0], *r = a->stated;
  HS_TRY(infer_expect_array(s, "reshape"));
  HS_TRY(infer_expect_array(r, "reshape"));
  i64 from = element_count(s), to = element_count(r);
  if (to == HLO_UNBOUNDED)
    return hs_fail(HS_E_SHAPE, "Reshaping with unbounded result shape is not supported.");
  if (from != HLO_UNBOUNDED && from != to)
    return hs_fail(HS_E_SHAPE,
                   "Reshape operation has mismatched element counts: from=%lld (%s) to=%lld (%s).",
                   (long long)from, infer_text(s), (long long)to, infer_text(r));
  *out = hlo_shape_with_dtype(a->ctx, r, s->dtype);
  if (!s->dynamic || r->dynamic || from == HLO_UNBOUNDED || from <= 0) return HS_GOOD;
  bool dyn[HLO_MAX_RANK] = {0};
  reshape_dynamism(s, r, dyn);
  *out = hlo_shape_dynamic(a->ctx, s->dtype, r->rank, r->dims, dyn, NULL);
  return HS_GOOD;
}
hs_status hlo_infer_dynamic_reshape(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  HS_TRY(hlo_infer_reshape(a, out));
  if (a->n != 1 + (*out)->rank)
    return hs_fail(HS_E_SHAPE, "dynamic-reshape has %u dimension sizes for a result of rank %u.",
                   a->n - 1, (*out)->rank);
  for (u32 i = 1; i < a->n; i++)
    if (!hlo_shape_is_scalar(a->in[i]) || a->in[i]->dtype != HLO_S32)
      return hs_fail(HS_E_SHAPE,
                     "dynamic-reshape takes dimension sizes of shape s32[]; operand %u is %s.", i,
                     infer_text(a->in[i]));
  return HS_GOOD;
}

hs_status hlo_infer_reverse(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *s = a->in[0];
  hlo_ints dims = infer_ints(a, HLO_ATTR_DIMENSIONS);
  HS_TRY(infer_expect_array(s, "operand of reverse"));
  for (u32 i = 0; i < dims.n; i++) {
    if (dims.v[i] < 0 || dims.v[i] >= s->rank)
      return hs_fail(HS_E_SHAPE,
                     "One of the reverse dimensions (%lld) is out-of-bounds in shape %s.",
                     (long long)dims.v[i], infer_text(s));
    for (u32 k = 0; k < i; k++)
      if (dims.v[k] == dims.v[i])
        return hs_fail(HS_E_SHAPE, "a dimension number is duplicated in reverse");
  }
  *out = s;
  return HS_GOOD;
}
hs_status hlo_infer_transpose(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *s = a->in[0];
  hlo_ints perm = infer_ints(a, HLO_ATTR_DIMENSIONS);
  HS_TRY(infer_expect_array(s, "transpose"));
  bool seen[HLO_MAX_RANK] = {0}, ok = perm.n == s->rank;
  for (u32 i = 0; ok && i < perm.n; i++) {
    i64 p = perm.v[i];
    ok = p >= 0 && p < s->rank && !seen[p];
    if (ok) seen[p] = true;
  }
  if (!ok)
    return hs_fail(
        HS_E_SHAPE,
        "Transpose dimensions [%s] are not a permutation of the operand dimensions (operand shape "
        "is %s).",
        infer_ints_text(perm.n, perm.v), infer_text(s));
  infer_dims d = {0};
  for (u32 i = 0; i < perm.n; i++) infer_push_dim(&d, s, (u32)perm.v[i]);
  return infer_array(a, s->dtype, &d, out);
}

// With a written shape `dimensions` says where each operand dimension goes; without one (XLA's
// builder form) the numbers are the sizes of new leading dimensions.
hs_status hlo_infer_broadcast(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *s = a->in[0], *r = a->stated;
  hlo_ints dims = infer_ints(a, HLO_ATTR_DIMENSIONS);
  HS_TRY(infer_expect_array(s, "operand of broadcast"));
  if (!r) {
    infer_dims d = {0};
    for (u32 i = 0; i < dims.n; i++) {
      if (dims.v[i] == HLO_UNBOUNDED)
        return hs_fail(HS_E_SHAPE, "Non-broadcast dimensions must not be dynamic.");
      if (dims.v[i] < 0)
        return hs_fail(HS_E_SHAPE, "Broadcast with negative dimension size %lld.",
                       (long long)dims.v[i]);
      infer_push(&d, dims.v[i], false);
    }
    for (u32 i = 0; i < s->rank; i++) infer_push_dim(&d, s, i);
    return infer_array(a, s->dtype, &d, out);
  }
  HS_TRY(infer_expect_array(r, "result of broadcast"));
  if (dims.n != s->rank)
    return hs_fail(
        HS_E_SHAPE,
        "Size of broadcast_dimensions has to match operand's rank; operand rank: %u, size of "
        "broadcast_dimensions %u.",
        s->rank, dims.n);
  bool seen[HLO_MAX_RANK] = {0};
  for (u32 i = 0; i < dims.n; i++) {
    i64 to = dims.v[i];
    if (to < 0 || to >= r->rank)
      return hs_fail(HS_E_SHAPE, "Broadcast dimension %lld is out of bound", (long long)to);
    if (seen[to])
      return hs_fail(HS_E_SHAPE, "Broadcast dimension %lld is named twice", (long long)to);
    seen[to] = true;
    if (!infer_dims_fit(s->dims[i], r->dims[to]))
      return hs_fail(
          HS_E_SHAPE,
          "Operand dimension must be equal to the output dimension it is broadcasting into; "
          "operand dimension %u is "
          "%lld, output dimension %lld is %lld.",
          i, (long long)s->dims[i], (long long)to, (long long)r->dims[to]);
  }
  for (u32 i = 0; i < r->rank; i++)
    if (!seen[i] && r->dims[i] == HLO_UNBOUNDED)
      return hs_fail(HS_E_SHAPE, "Non-broadcast dimensions must not be dynamic.");
  *out = hlo_shape_with_dtype(a->ctx, r, s->dtype);
  return HS_GOOD;
}

// The written shape decides; what must agree is checked by the verifier (bytes, as the bits are
// only read anew).
hs_status hlo_infer_bitcast(const infer_args *a, const hlo_shape **out) {
  return hlo_infer_stated(a, out);
}

hs_status hlo_infer_bitcast_convert(const infer_args *a, const hlo_shape **out) {
  if (!a->stated) return hlo_infer_stated(a, out);
  const hlo_shape *s = a->in[0];
  if (!hlo_shape_is_array(s) || !hlo_shape_is_array(a->stated))
    return hs_fail(HS_E_SHAPE,
                   "Cannot convert from or to tuple type; requested conversion: %s => %s.",
                   infer_text(s), infer_text(a->stated));
  hlo_dtype t = a->stated->dtype;
  if (hlo_dtype_is_complex(s->dtype) != hlo_dtype_is_complex(t))
    return hs_fail(HS_E_SHAPE,
                   "Conversion between complex and real type %s => %s is not implemented.",
                   infer_text(s), hlo_dtype_text(t));
  int from = hlo_dtype_bits(s->dtype), to = hlo_dtype_bits(t);
  infer_dims d = {0};
  for (u32 i = 0; i < s->rank; i++) infer_push_dim(&d, s, i);
  if (from > to) {
    infer_push(&d, from / to, false);
  } else if (from < to) {
    i64 ratio = to / from;
    if (!s->rank || !infer_dims_fit(s->dims[s->rank - 1], ratio))
      return hs_fail(HS_E_SHAPE,
                     "Cannot bitcast types with undivisible bit-widths or dimensions: %s => %s.",
                     infer_text(s), hlo_dtype_text(t));
    d.n--;
  }
  return infer_array(a, t, &d, out);
}

// ---- dynamic dimensions -------------------------------------------------------------------------
static hs_status check_size_dim(const infer_args *a, i64 *dim) {
  *dim = infer_dimension(a);
  HS_TRY(infer_expect_array(a->in[0], hlo_op_text(a->op)));
  if (*dim < 0 || *dim >= a->in[0]->rank)
    return hs_fail(HS_E_SHAPE, "%s dimension out of bounds: %lld.", hlo_op_text(a->op),
                   (long long)*dim);
  return HS_GOOD;
}
hs_status hlo_infer_get_dim_size(const infer_args *a, const hlo_shape **out) {
  i64 dim;
  HS_TRY(check_size_dim(a, &dim));
  *out = hlo_shape_scalar(a->ctx, HLO_S32);
  return HS_GOOD;
}
hs_status hlo_infer_set_dim_size(const infer_args *a, const hlo_shape **out) {
  i64 dim;
  HS_TRY(check_size_dim(a, &dim));
  if (!hlo_shape_is_scalar(a->in[1]) || a->in[1]->dtype != HLO_S32)
    return hs_fail(HS_E_SHAPE, "SetDimensionSize's value has to be S32 scalar, got: %s.",
                   infer_text(a->in[1]));
  if (a->stated && a->stated->rank == a->in[0]->rank && a->stated->dtype == a->in[0]->dtype &&
      infer_compatible(a->stated, a->in[0], 0))
    // a constant size makes the dimension static again; only the text can tell
    return *out = a->stated, HS_GOOD;
  infer_dims d = {0};
  for (u32 i = 0; i < a->in[0]->rank; i++)
    infer_push(&d, a->in[0]->dims[i], hlo_dim_is_dynamic(a->in[0], i) || i == dim);
  return infer_array(a, a->in[0]->dtype, &d, out);
}
