// index.c — shape rules of gather and scatter, whose dimension numbers mirror each other: a
// map from index vector entries to operand dimensions, batching dimensions on both sides,
// dimensions without a place in the window, and the dimension of the index vectors (which may be
// one past the end). Source: xla/service/shape_inference.cc.
#include "core/infer/rules.h"

static bool sorted(hlo_ints d) {
  for (u32 i = 1; i < d.n; i++)
    if (d.v[i] < d.v[i - 1]) return false;
  return true;
}
static bool repeats(hlo_ints d) {
  for (u32 i = 0; i < d.n; i++)
    for (u32 k = 0; k < i; k++)
      if (d.v[i] == d.v[k]) return true;
  return false;
}
static bool within(hlo_ints d, i64 n) {
  for (u32 i = 0; i < d.n; i++)
    if (d.v[i] < 0 || d.v[i] >= n) return false;
  return true;
}
// Indices without the index vector dimension (which may be one past the end: then every index is a
// scalar).
static u32 batch_dims_of(const hlo_shape *idx, i64 ivd, infer_dims *d) {
  for (u32 i = 0; i < idx->rank; i++)
    if (i != ivd) infer_push_dim(d, idx, i);
  return d->n;
}
// The dimensions that gather and scatter share: map to operand dimensions, batching dimensions on
// both sides.
typedef struct indexing {
  const char *op, *map_name, *batch_name, *idx_batch_name, *gone_name;
  hlo_ints map, batch, idx_batch, gone;
  i64 ivd;
} indexing;
static hs_status check_indexing(const hlo_shape *x, const hlo_shape *idx, const indexing *q) {
  i64 nvec = q->ivd == idx->rank ? 1 : idx->dims[q->ivd];
  const char *scatter = strcmp(q->op, "Scatter") == 0 ? "scatter_indices" : "start_indices";
  if (nvec != HLO_UNBOUNDED && q->map.n != nvec)
    return hs_fail(
        HS_E_SHAPE,
        "%s op has %u elements in %s and the bound of dimension index_vector_dim=%lld of %s is "
        "%lld. These two "
        "numbers must be equal.",
        q->op, q->map.n, q->map_name, (long long)q->ivd, scatter, (long long)nvec);
  for (u32 i = 0; i < q->map.n; i++)
    if (q->map.v[i] < 0 || q->map.v[i] >= x->rank)
      return hs_fail(HS_E_SHAPE, "Invalid %s%s; domain is [0, %u), got: %u->%lld.", q->map_name,
                     scatter[1] == 'c' ? " mapping" : "", x->rank, i, (long long)q->map.v[i]);
  if (repeats(q->map))
    return hs_fail(HS_E_SHAPE, "Repeated dimensions are not allowed in %s; got: %s.", q->map_name,
                   infer_ints_text(q->map.n, q->map.v));
  // batching dimensions have an index of their own; XLA finds it beside the map's when it compiles
  for (u32 i = 0; i < q->map.n; i++)
    if (hlo_ints_has(q->batch, q->map.v[i]))
      return hs_fail(
          HS_E_SHAPE,
          "Repeated dimensions are not allowed in %s; got: %lld, %lld, which is in %s too.",
          q->map_name, (long long)q->map.v[i], (long long)q->map.v[i], q->batch_name);
  hlo_ints lists[2] = {q->gone, q->batch};
  const char *names[2] = {q->gone_name, q->batch_name};
  for (int k = 0; k < 2; k++) {
    if (!sorted(lists[k]))
      return hs_fail(HS_E_SHAPE, "%s in %s op must be sorted; got: %s", names[k],
                     q->op[0] == 'S' ? "scatter" : "gather",
                     infer_ints_text(lists[k].n, lists[k].v));
    if (repeats(lists[k]))
      return q->op[0] == 'S'
                 ? hs_fail(HS_E_SHAPE, "%s in scatter op must not repeat; got: %s.", names[k],
                           infer_ints_text(lists[k].n, lists[k].v))
                 : hs_fail(HS_E_SHAPE,
                           "Repeated dimensions not allowed in %s in gather op; got: %s.", names[k],
                           infer_ints_text(lists[k].n, lists[k].v));
    if (!within(lists[k], x->rank))
      return hs_fail(HS_E_SHAPE, "Invalid %s set in %s op; valid range is [0, %u), got: %s.",
                     names[k], q->op[0] == 'S' ? "scatter" : "gather", x->rank,
                     infer_ints_text(lists[k].n, lists[k].v));
  }
  for (u32 i = 0; i < q->batch.n; i++)
    if (hlo_ints_has(q->gone, q->batch.v[i]))
      return hs_fail(HS_E_SHAPE, "%s op: dimension %lld is in %s and in %s.", q->op,
                     (long long)q->batch.v[i], q->batch_name, q->gone_name);
  if (repeats(q->idx_batch) || !within(q->idx_batch, idx->rank))
    return hs_fail(HS_E_SHAPE, "Invalid %s set in %s op; got: %s.", q->idx_batch_name, q->op,
                   infer_ints_text(q->idx_batch.n, q->idx_batch.v));
  if (hlo_ints_has(q->idx_batch, q->ivd))
    return hs_fail(HS_E_SHAPE, "%s op: %s must not hold index_vector_dim=%lld.", q->op,
                   q->idx_batch_name, (long long)q->ivd);
  if (q->batch.n != q->idx_batch.n)
    return hs_fail(HS_E_SHAPE, "%s op: %s and %s must be of the same size; got %u and %u.", q->op,
                   q->batch_name, q->idx_batch_name, q->batch.n, q->idx_batch.n);
  for (u32 i = 0; i < q->batch.n; i++)
    if (!infer_dims_fit(x->dims[q->batch.v[i]], idx->dims[q->idx_batch.v[i]]))
      return hs_fail(HS_E_SHAPE,
                     "%s op: batching dimensions must have equal sizes; got %lld and %lld.", q->op,
                     (long long)x->dims[q->batch.v[i]], (long long)idx->dims[q->idx_batch.v[i]]);
  return HS_GOOD;
}

static indexing indexing_of(const infer_args *a, const char *op, hlo_attr_id map,
                            hlo_attr_id batching, hlo_attr_id index_batching, hlo_attr_id dropped) {
  return (indexing){op,
                    hlo_attr_text(map),
                    hlo_attr_text(batching),
                    hlo_attr_text(index_batching),
                    hlo_attr_text(dropped),
                    infer_ints(a, map),
                    infer_ints(a, batching),
                    infer_ints(a, index_batching),
                    infer_ints(a, dropped),
                    infer_int(a, HLO_ATTR_INDEX_VECTOR_DIM, -1)};
}

hs_status hlo_infer_gather(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0], *idx = a->in[1];
  HS_TRY(infer_expect_array(x, "input operand of gather op"));
  HS_TRY(infer_expect_array(idx, "gather indices operand of gather op"));
  if (!hlo_dtype_is_integer(idx->dtype))
    return hs_fail(HS_E_SHAPE, "Gather indices parameter must be an integral tensor; got %s.",
                   infer_text(idx));
  indexing q = indexing_of(a, "Gather", HLO_ATTR_START_INDEX_MAP, HLO_ATTR_OPERAND_BATCHING_DIMS,
                           HLO_ATTR_START_INDICES_BATCHING_DIMS, HLO_ATTR_COLLAPSED_SLICE_DIMS);
  hlo_ints off = infer_ints(a, HLO_ATTR_OFFSET_DIMS), sizes = infer_ints(a, HLO_ATTR_SLICE_SIZES);
  if (q.ivd < 0 || q.ivd > idx->rank)
    return hs_fail(HS_E_SHAPE,
                   "Gather index leaf dimension must be within [0, rank(start_indices) + 1). "
                   "rank(start_indices) is %u and "
                   "gather index leaf dimension is %lld.",
                   idx->rank, (long long)q.ivd);
  if (!sorted(off))
    return hs_fail(HS_E_SHAPE, "Output window dimensions in gather op must be ascending; got: %s.",
                   infer_ints_text(off.n, off.v));
  if (repeats(off))
    return hs_fail(HS_E_SHAPE, "Output window dimensions in gather op must not repeat; got: %s.",
                   infer_ints_text(off.n, off.v));
  infer_dims batch = {0}, d = {0};
  u32 nbatch = batch_dims_of(idx, q.ivd, &batch), rank = nbatch + off.n;
  for (u32 i = 0; i < off.n; i++)
    if (off.v[i] < 0 || off.v[i] >= rank)
      return hs_fail(
          HS_E_SHAPE,
          "Offset dimension %u in gather op is out of bounds; got %lld, but should have been in "
          "[0, %u).",
          i, (long long)off.v[i], rank);
  HS_TRY(check_indexing(x, idx, &q));
  if (sizes.n != x->rank)
    return hs_fail(
        HS_E_SHAPE,
        "Gather op must have one slice size for every input dimension; got: len(slice_sizes)=%u, "
        "input_shape.rank=%u.",
        sizes.n, x->rank);
  if (sizes.n != off.n + q.gone.n + q.batch.n)
    return hs_fail(
        HS_E_SHAPE,
        "All components of the offset index in a gather op must either be an offset dimension or "
        "explicitly collapsed "
        "or batching; got len(slice_sizes)=%u, offset_dims=%s, collapsed_slice_dims=%s, "
        "operand_batching_dims=%s.",
        sizes.n, infer_ints_text(off.n, off.v), infer_ints_text(q.gone.n, q.gone.v),
        infer_ints_text(q.batch.n, q.batch.v));
  for (u32 i = 0; i < sizes.n; i++) {
    if (sizes.v[i] < 0 || (x->dims[i] != HLO_UNBOUNDED && sizes.v[i] > x->dims[i]))
      return hs_fail(
          HS_E_SHAPE,
          "Slice size at index %u in gather op is out of range, must be within [0, %lld), got "
          "%lld.",
          i, (long long)x->dims[i] + 1, (long long)sizes.v[i]);
    if ((hlo_ints_has(q.gone, i) || hlo_ints_has(q.batch, i)) && sizes.v[i] > 1)
      return hs_fail(
          HS_E_SHAPE,
          "Gather op can only collapse slice dims with bound 1 or 0, but bound is %lld for index "
          "%u.",
          (long long)sizes.v[i], i);
  }
  u32 next_size = 0, next_batch = 0;
  for (u32 i = 0; i < rank; i++) {
    if (!hlo_ints_has(off, i)) {
      infer_push(&d, batch.size[next_batch], batch.dyn[next_batch]), next_batch++;
      continue;
    }
    while (hlo_ints_has(q.gone, next_size) || hlo_ints_has(q.batch, next_size)) next_size++;
    infer_push(&d, sizes.v[next_size],
               hlo_dim_is_dynamic(x, next_size) && sizes.v[next_size] == x->dims[next_size]);
    next_size++;
  }
  return infer_array(a, x->dtype, &d, out);
}

// One updates operand against its input: rank, window bounds, and the scatter dimensions against
// those of the indices.
static hs_status check_updates(const hlo_shape *x, const hlo_shape *up, const infer_dims *batch,
                               const indexing *q, hlo_ints win) {
  if (up->rank != batch->n + win.n)
    return hs_fail(HS_E_SHAPE, "Updates tensor must be of rank %u; got %u.", batch->n + win.n,
                   up->rank);
  if (!sorted(win))
    return hs_fail(HS_E_SHAPE, "update_window_dims in scatter op must be sorted; got: %s.",
                   infer_ints_text(win.n, win.v));
  if (repeats(win))
    return hs_fail(HS_E_SHAPE, "update_window_dims in scatter op must not repeat; got: %s.",
                   infer_ints_text(win.n, win.v));
  if (!within(win, up->rank))
    return hs_fail(HS_E_SHAPE,
                   "Invalid update_window_dims set in scatter op; valid range is [0, %u), got: %s.",
                   up->rank, infer_ints_text(win.n, win.v));
  u32 next = 0, scat = 0;
  for (u32 i = 0; i < up->rank; i++) {
    if (hlo_ints_has(win, i)) {
      while (next < x->rank && (hlo_ints_has(q->gone, next) || hlo_ints_has(q->batch, next)))
        next++;
      if (next < x->rank && x->dims[next] != HLO_UNBOUNDED && up->dims[i] != HLO_UNBOUNDED &&
          up->dims[i] > x->dims[next])
        return hs_fail(
            HS_E_SHAPE,
            "Bounds of the window dimensions of updates must not exceed the bounds of the "
            "corresponding dimensions of "
            "operand. For dimension %u, updates bound is %lld, operand bound is %lld.",
            i, (long long)up->dims[i], (long long)x->dims[next]);
      next++;
    } else if (scat < batch->n) {
      if (!infer_dims_fit(up->dims[i], batch->size[scat]))
        return hs_fail(
            HS_E_SHAPE,
            "Bounds of the scatter dimensions of updates must be same as the bounds of the "
            "corresponding dimensions "
            "of scatter indices. For scatter dimension %u, updates bound is %lld, scatter_indices "
            "bound is %lld.",
            i, (long long)up->dims[i], (long long)batch->size[scat]);
      scat++;
    }
  }
  return HS_GOOD;
}
static hs_status check_scatter_reducer(const infer_args *a, const hlo_computation *c, u32 n) {
  hlo_dtype few[16], *types = n <= 16 ? few : hs_alloc(n * sizeof *types);
  const hlo_shape *few_init[16], **init = n <= 16 ? few_init : hs_alloc(n * sizeof *init);
  for (u32 i = 0; i < n; i++)
    types[i] = a->in[n + 1 + i]->dtype, init[i] = hlo_shape_scalar(a->ctx, a->in[i]->dtype);
  hs_status s = infer_check_reducer(c, n, init, types);
  if (types != few) hs_free(types);
  if (init != few_init) hs_free(init);
  return s;
}
hs_status hlo_infer_scatter(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  if (a->n < 3 || a->n % 2 == 0)
    return hs_fail(HS_E_ARITY,
                   "scatter expects an odd number of operands, 3 or more, but has %u operands",
                   a->n);
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, &c));
  u32 n = a->n / 2;
  const hlo_shape *x = a->in[0], *idx = a->in[n];
  for (u32 i = 0; i < n; i++) HS_TRY(infer_expect_array(a->in[i], "operand of scatter op"));
  HS_TRY(infer_expect_array(idx, "scatter indices of scatter op"));
  for (u32 i = n + 1; i < a->n; i++) HS_TRY(infer_expect_array(a->in[i], "updates of scatter op"));
  if (!hlo_dtype_is_integer(idx->dtype))
    return hs_fail(HS_E_SHAPE, "Scatter indices parameter must be an integral tensor; got %s.",
                   infer_text(idx));
  indexing q =
      indexing_of(a, "Scatter", HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, HLO_ATTR_INPUT_BATCHING_DIMS,
                  HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS, HLO_ATTR_INSERTED_WINDOW_DIMS);
  hlo_ints win = infer_ints(a, HLO_ATTR_UPDATE_WINDOW_DIMS);
  if (q.ivd < 0 || q.ivd > idx->rank)
    return hs_fail(HS_E_SHAPE,
                   "Scatter index leaf dimension must be within [0, rank(scatter_indices) + 1). "
                   "rank(scatter_indices) is %u and "
                   "scatter index leaf dimension is %lld.",
                   idx->rank, (long long)q.ivd);
  infer_dims batch = {0};
  batch_dims_of(idx, q.ivd, &batch);
  for (u32 i = 0; i < n; i++) {
    const hlo_shape *xi = a->in[i], *up = a->in[n + 1 + i];
    if (!infer_compatible(xi, x, INFER_ANY_TYPE))
      return hs_fail(HS_E_SHAPE,
                     "All operands of scatter must have the same dimensions; got %s and %s.",
                     infer_text(x), infer_text(xi));
    // StableHLO's rule; XLA lets this pass and reads beyond the smaller ones
    if (i && !infer_compatible(up, a->in[n + 1], INFER_ANY_TYPE))
      return hs_fail(HS_E_SHAPE,
                     "All updates of scatter must have the same dimensions; got %s and %s.",
                     infer_text(a->in[n + 1]), infer_text(up));
    if (up->rank != batch.n + win.n)
      return hs_fail(HS_E_SHAPE, "Updates tensor must be of rank %u; got %u.", batch.n + win.n,
                     up->rank);
    if (!i) {
      if (repeats(win))
        return hs_fail(HS_E_SHAPE, "update_window_dims in scatter op must not repeat; got: %s.",
                       infer_ints_text(win.n, win.v));
      if (!within(win, up->rank))
        return hs_fail(
            HS_E_SHAPE,
            "Invalid update_window_dims set in scatter op; valid range is [0, %u), got: %s.",
            up->rank, infer_ints_text(win.n, win.v));
      if (x->rank != win.n + q.gone.n + q.batch.n)
        return hs_fail(HS_E_SHAPE,
                       "Scatter op has window of size %u; doesn't match operand of rank %u.",
                       win.n + q.gone.n + q.batch.n, x->rank);
      HS_TRY(check_indexing(x, idx, &q));
    }
    HS_TRY(check_updates(xi, up, &batch, &q, win));
  }
  HS_TRY(check_scatter_reducer(a, c, n));
  *out = n == 1 ? x : hlo_shape_tuple(a->ctx, n, a->in);
  return HS_GOOD;
}
