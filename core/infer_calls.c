// infer_calls.c — shape rules of the operations that call computations (reduce, map, sort, scan, scatter, while, ...), of
// gather, whose dimension numbers are scatter's, and of the collectives. Source: xla/service/shape_inference.cc.
//
// A computation's signature is read off its parameters and root. Group sizes of collectives are not known here (they
// depend on the module's replica and partition counts): the written result gives the factor, the verifier compares it
// with the groups.
#include "core/infer.h"

static const hlo_shape *param_shape(const hlo_computation *c, u32 i) { return c->params[i]->shape->logical; }
static const hlo_shape *result_shape(const hlo_computation *c) { return c->root->shape->logical; }

// One shape stays itself, several become a tuple.
static const hlo_shape *pack(const infer_args *a, u32 n, const hlo_shape *const *v) { return n == 1 ? v[0] : hlo_shape_tuple(a->ctx, n, v); }

// ---- reducers -----------------------------------------------------------------------------------------------------------
hs_status infer_check_reducer(const hlo_computation *c, u32 n, const hlo_shape *const *init, const hlo_dtype *elements) {
  if (c->nparams != 2 * n) return hs_fail(HS_E_SHAPE, "Reduction function must take %u parameters, but takes %u parameter(s).", 2 * n, c->nparams);
  const hlo_shape *r = result_shape(c), *const *acc = &r;
  if (hlo_shape_is_tuple(r)) {
    if (r->nelems != n) return hs_fail(HS_E_SHAPE, "Reduction function must produce a tuple with %u elements, but produces a tuple with %u elements", n, r->nelems);
    acc = r->elems;
  } else if (n != 1) {
    return hs_fail(HS_E_SHAPE, "Reduction function must produce a tuple with %u elements, but produces a scalar", n);
  }
  for (u32 i = 0; i < n; i++) {
    const hlo_shape *first = param_shape(c, i), *second = param_shape(c, n + i);
    if (!hlo_shape_is_scalar(acc[i])) return hs_fail(HS_E_SHAPE, "Reduction function must return a scalar or tuple of scalars but returns shape: %s", infer_text(r));
    if (!infer_compatible(acc[i], first, 0))
      return hs_fail(HS_E_SHAPE, "Reduction function's %u-th parameter shape differs from the result shape: %s vs %s", i, infer_text(first), infer_text(acc[i]));
    if (!infer_compatible(acc[i], init[i], INFER_ANY_FLOAT))
      return hs_fail(HS_E_SHAPE, "Reduction function's accumulator shape at index %u differs from the init_value shape: %s vs %s", i, infer_text(acc[i]), infer_text(init[i]));
    if (!hlo_shape_is_scalar(second) || !infer_same_type_class(second->dtype, elements[i]))
      return hs_fail(HS_E_SHAPE, "Reduction function's %u-th parameter shape differs from the input type element type: %s vs %s", n + i, infer_text(second), hlo_dtype_text(elements[i]));
    if (!infer_compatible(acc[i], second, INFER_ANY_FLOAT))
      return hs_fail(HS_E_SHAPE, "Reduction function's %u-th parameter shape must match the result shape, but got %s vs %s.", n + i, infer_text(second), infer_text(acc[i]));
  }
  return HS_GOOD;
}

// Operands in two halves: n arrays of the same dimensions, then n initial values. Checks the reducer against them.
static hs_status reducer_operands(const infer_args *a, hlo_computation **c, u32 *n) {
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, c));
  if (!a->n || a->n % 2) return hs_fail(HS_E_ARITY, "%s expects an even number of operands, but has %u operands", hlo_op_text(a->op), a->n);
  *n = a->n / 2;
  hlo_dtype few[16], *types = *n <= 16 ? few : hs_alloc(*n * sizeof *types);
  hs_status s = HS_GOOD;
  for (u32 i = 0; i < *n && hs_ok(s); i++) {
    types[i] = a->in[i]->dtype;
    if (!hs_ok(s = infer_expect_array(a->in[i], "reduced operand"))) break;
    if (!infer_compatible(a->in[i], a->in[0], INFER_ANY_TYPE))
      s = hs_fail(HS_E_SHAPE, "All reduced tensors must have compatible dimension. Tensor at index 0 has shape %s, and tensor at index %u has shape %s.", infer_text(a->in[0]), i,
                  infer_text(a->in[i]));
  }
  if (hs_ok(s)) s = infer_check_reducer(*c, *n, a->in + *n, types);
  if (types != few) hs_free(types);
  return s;
}
// One result per accumulator: the given dimensions with the accumulator's type.
static hs_status reducer_result(const infer_args *a, const hlo_computation *c, const infer_dims *d, const hlo_shape **out) {
  const hlo_shape *r = result_shape(c);
  if (!hlo_shape_is_tuple(r)) return infer_array(a, r->dtype, d, out);
  const hlo_shape **v = hs_alloc(r->nelems * sizeof *v);
  hs_status s = HS_GOOD;
  for (u32 i = 0; i < r->nelems && hs_ok(s); i++) s = infer_array(a, r->elems[i]->dtype, d, &v[i]);
  if (hs_ok(s)) *out = hlo_shape_tuple(a->ctx, r->nelems, v);
  hs_free(v);
  return s;
}

hs_status hlo_infer_reduce(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  u32 n;
  HS_TRY(reducer_operands(a, &c, &n));
  hlo_ints dims = infer_ints(a, HLO_ATTR_DIMENSIONS);
  const hlo_shape *x = a->in[0];
  bool gone[HLO_MAX_RANK] = {0};
  for (u32 i = 0; i < dims.n; i++) {
    i64 k = dims.v[i];
    if (k < 0 || k >= x->rank) return hs_fail(HS_E_SHAPE, "Reducing out-of-bounds dimension %lld in shape %s.", (long long)k, infer_text(x));
    if (gone[k]) return hs_fail(HS_E_SHAPE, "Duplicate reduction dimension: %lld", (long long)k);
    gone[k] = true;
  }
  infer_dims d = {0};
  for (u32 i = 0; i < x->rank; i++) {
    if (gone[i]) continue;
    u32 k = 0;                                   // the most specific of the operands' sizes
    while (k + 1 < n && a->in[k]->dims[i] == HLO_UNBOUNDED) k++;
    infer_push_dim(&d, a->in[k], i);
  }
  return reducer_result(a, c, &d, out);
}
hs_status hlo_infer_reduce_window(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  u32 n;
  HS_TRY(reducer_operands(a, &c, &n));
  infer_dims d = {0};
  HS_TRY(infer_window(a->in[0], NULL, a->in[0]->rank, infer_ptr(a, HLO_ATTR_WINDOW), &d));
  return reducer_result(a, c, &d, out);
}
hs_status hlo_infer_select_and_scatter(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0], *src = a->in[1], *init = a->in[2];
  hlo_computation *sel, *sc;
  HS_TRY(infer_need_comp(a, HLO_ATTR_SELECT, &sel));
  HS_TRY(infer_need_comp(a, HLO_ATTR_SCATTER, &sc));
  HS_TRY(infer_expect_array(x, "operand of select-and-scatter"));
  HS_TRY(infer_expect_array(src, "source of select-and-scatter"));
  if (sel->nparams != 2) return hs_fail(HS_E_SHAPE, "Select function must take 2 parameters, but takes %u parameter(s).", sel->nparams);
  if (!hlo_shape_is_scalar(result_shape(sel)) || result_shape(sel)->dtype != HLO_PRED) return hs_fail(HS_E_SHAPE, "Select function must have rank-0 PRED result.");
  for (u32 i = 0; i < 2; i++)
    if (!hlo_shape_is_scalar(param_shape(sel, i)) || !infer_same_type_class(param_shape(sel, i)->dtype, x->dtype))
      return hs_fail(HS_E_SHAPE, "Select function's %s parameter shape currently must match the operand element shape, but got %s vs %s.", i ? "second" : "first",
                     infer_text(param_shape(sel, i)), hlo_dtype_text(x->dtype));
  HS_TRY(infer_check_reducer(sc, 1, &init, &src->dtype));
  infer_dims d = {0};
  const hlo_shape *want;
  HS_TRY(infer_window(x, NULL, x->rank, infer_ptr(a, HLO_ATTR_WINDOW), &d));
  HS_TRY(infer_array(a, x->dtype, &d, &want));
  if (!infer_compatible(src, want, INFER_ANY_FLOAT))
    return hs_fail(HS_E_SHAPE, "Source shape does not match the shape of window-reduced operand: source(%s), window-reduced operand(%s).", infer_text(src), infer_text(want));
  *out = x;
  return HS_GOOD;
}

hs_status hlo_infer_map(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  if (!a->n) return hs_fail(HS_E_SHAPE, "Map expects at least one argument.");
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, &c));
  for (u32 i = 0; i < a->n; i++) {
    HS_TRY(infer_expect_array(a->in[i], "operand of map"));
    if (!infer_compatible(a->in[i], a->in[0], INFER_ANY_TYPE))
      return hs_fail(HS_E_SHAPE, "Map operation requires all operands to have the same shape; got: %s, %s.", infer_text(a->in[0]), infer_text(a->in[i]));
  }
  if (c->nparams != a->n) return hs_fail(HS_E_SHAPE, "Map applied function arity must match number of arguments; got: arity: %u, arguments: %u.", c->nparams, a->n);
  const hlo_shape *r = result_shape(c);
  if (!hlo_shape_is_scalar(r)) return hs_fail(HS_E_SHAPE, "Mapped computation's result has to be a scalar; got: %s.", infer_text(r));
  for (u32 i = 0; i < a->n; i++) {
    const hlo_shape *p = param_shape(c, i);
    if (!hlo_shape_is_scalar(p)) return hs_fail(HS_E_SHAPE, "Mapped computation's parameter has to be a scalar; got parameter %u shape: %s.", i, infer_text(p));
    if (!infer_same_type_class(p->dtype, a->in[i]->dtype))
      return hs_fail(HS_E_SHAPE, "Mapped computation's parameter type has to match argument element type; got parameter %u shape: %s, argument shape: %s.", i, infer_text(p), infer_text(a->in[i]));
  }
  *out = hlo_shape_with_dtype(a->ctx, a->in[0], r->dtype);
  return HS_GOOD;
}

hs_status hlo_infer_sort(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  HS_TRY(infer_expect_array(a->in[0], "keys of sort"));
  i64 dim = infer_dimension(a);
  if (dim < 0 || dim >= HS_MAX(a->in[0]->rank, 1u)) return hs_fail(HS_E_SHAPE, "Sort dimension %lld is out of bounds for %s.", (long long)dim, infer_text(a->in[0]));
  for (u32 i = 1; i < a->n; i++)
    if (!hlo_shape_is_array(a->in[i]) || !infer_compatible(a->in[i], a->in[0], INFER_ANY_TYPE))
      return hs_fail(HS_E_SHAPE, "Sort keys and values dimensions must match. Keys shape is: %s, Values shape (operand index %u) is: %s", infer_text(a->in[0]), i, infer_text(a->in[i]));
  *out = pack(a, a->n, a->in);
  return HS_GOOD;
}
hs_status hlo_infer_topk(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0];
  i64 k = infer_int(a, HLO_ATTR_K, -1);
  HS_TRY(infer_expect_array(x, "operand of top-k operation"));
  if (!x->rank) return hs_fail(HS_E_SHAPE, "TopK needs an operand of rank at least 1; got %s.", infer_text(x));
  if (k < 0 || (x->dims[x->rank - 1] != HLO_UNBOUNDED && k > x->dims[x->rank - 1]))
    return hs_fail(HS_E_SHAPE, "k=%lld is larger than the last dimension of size=%lld", (long long)k, (long long)x->dims[x->rank - 1]);
  infer_dims d = {0};
  for (u32 i = 0; i + 1 < x->rank; i++) infer_push_dim(&d, x, i);
  infer_push(&d, k, false);
  const hlo_shape *v[2];
  HS_TRY(infer_array(a, x->dtype, &d, &v[0]));
  HS_TRY(infer_array(a, HLO_S32, &d, &v[1]));
  *out = hlo_shape_tuple(a->ctx, 2, v);
  return HS_GOOD;
}

// Scan: `num_carries` last operands are carried; body (slices, carries) -> (output slices, carries). The scanned
// dimension is removed from inputs and put into outputs.
hs_status hlo_infer_scan(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, &c));
  i64 carries = infer_int(a, HLO_ATTR_NUM_CARRIES, 0), dim = infer_dimension(a), length = -1;
  if (carries < 0 || carries > a->n) return hs_fail(HS_E_SHAPE, "Scan has %lld carries but %u operands.", (long long)carries, a->n);
  if (c->nparams != a->n) return hs_fail(HS_E_SHAPE, "Scan function must take %u parameters, but takes %u.", a->n, c->nparams);
  const hlo_shape *r = result_shape(c), *const *res = hlo_shape_is_tuple(r) ? r->elems : &r;
  u32 nres = hlo_shape_is_tuple(r) ? r->nelems : 1, nin = a->n - (u32)carries;
  if (nres < carries) return hs_fail(HS_E_SHAPE, "Scan function returns %u values, fewer than the %lld carries.", nres, (long long)carries);
  bool dyn = false;
  for (u32 i = 0; i < nin; i++) {
    const hlo_shape *x = a->in[i], *p = param_shape(c, i);
    HS_TRY(infer_expect_array(x, "input of scan"));
    if (dim < 0 || dim >= x->rank) return hs_fail(HS_E_SHAPE, "Scan dimension %lld is out of bounds for input %s.", (long long)dim, infer_text(x));
    if (length >= 0 && x->dims[dim] != length) return hs_fail(HS_E_SHAPE, "All inputs of scan must have the same size in the scan dimension; got %s and %s.", infer_text(a->in[0]), infer_text(x));
    length = x->dims[dim], dyn |= infer_dyn(x, (u32)dim);
    infer_dims d = {0};
    for (u32 k = 0; k < x->rank; k++)
      if (k != dim) infer_push_dim(&d, x, k);
    const hlo_shape *slice;
    HS_TRY(infer_array(a, x->dtype, &d, &slice));
    if (!infer_compatible(slice, p, INFER_ANY_FLOAT)) return hs_fail(HS_E_SHAPE, "Scan function's parameter %u is %s but the input's slice is %s.", i, infer_text(p), infer_text(slice));
  }
  for (u32 i = 0; i < carries; i++) {
    const hlo_shape *init = a->in[nin + i];
    if (!infer_compatible(init, param_shape(c, nin + i), INFER_ANY_FLOAT) || !infer_compatible(init, res[nres - carries + i], INFER_ANY_FLOAT))
      return hs_fail(HS_E_SHAPE, "Scan carry %u: init %s, parameter %s and result %s must be the same.", i, infer_text(init), infer_text(param_shape(c, nin + i)),
                     infer_text(res[nres - carries + i]));
  }
  if (length < 0) return hlo_infer_stated(a, out);      // no input tells the length
  const hlo_shape **v = hs_alloc((nres + 1) * sizeof *v);
  hs_status s = HS_GOOD;
  for (u32 i = 0; i < nres && hs_ok(s); i++) {
    v[i] = res[i];
    if (i >= nres - carries || !hlo_shape_is_array(res[i])) continue;
    infer_dims d = {0};
    for (u32 k = 0; k <= res[i]->rank; k++) {
      if (k == dim) infer_push(&d, length, dyn);
      if (k < res[i]->rank) infer_push_dim(&d, res[i], k);
    }
    s = infer_array(a, res[i]->dtype, &d, &v[i]);
  }
  bool bare = !hlo_shape_is_tuple(r) || (nres == 1 && a->stated && !hlo_shape_is_tuple(a->stated));
  if (hs_ok(s)) *out = bare ? v[0] : hlo_shape_tuple(a->ctx, nres, v);
  hs_free(v);
  return s;
}

// ---- gather and scatter ---------------------------------------------------------------------------------------------------
static bool sorted(hlo_ints d) {
  for (u32 i = 1; i < d.n; i++) if (d.v[i] < d.v[i - 1]) return false;
  return true;
}
static bool repeats(hlo_ints d) {
  for (u32 i = 0; i < d.n; i++) for (u32 k = 0; k < i; k++) if (d.v[i] == d.v[k]) return true;
  return false;
}
static bool within(hlo_ints d, i64 n) {
  for (u32 i = 0; i < d.n; i++) if (d.v[i] < 0 || d.v[i] >= n) return false;
  return true;
}
static bool has(hlo_ints d, i64 k) {
  for (u32 i = 0; i < d.n; i++) if (d.v[i] == k) return true;
  return false;
}
// Indices without the index vector dimension (which may be one past the end: then every index is a scalar).
static u32 batch_dims_of(const hlo_shape *idx, i64 ivd, infer_dims *d) {
  for (u32 i = 0; i < idx->rank; i++) if (i != ivd) infer_push_dim(d, idx, i);
  return d->n;
}
// The dimensions that gather and scatter share: map to operand dimensions, batching dimensions on both sides.
typedef struct indexing { const char *op, *map_name, *batch_name, *idx_batch_name, *gone_name; hlo_ints map, batch, idx_batch, gone; i64 ivd; } indexing;
static hs_status check_indexing(const hlo_shape *x, const hlo_shape *idx, const indexing *q) {
  i64 nvec = q->ivd == idx->rank ? 1 : idx->dims[q->ivd];
  const char *scatter = strcmp(q->op, "Scatter") == 0 ? "scatter_indices" : "start_indices";
  if (nvec != HLO_UNBOUNDED && q->map.n != nvec)
    return hs_fail(HS_E_SHAPE, "%s op has %u elements in %s and the bound of dimension index_vector_dim=%lld of %s is %lld. These two numbers must be equal.", q->op, q->map.n, q->map_name,
                   (long long)q->ivd, scatter, (long long)nvec);
  for (u32 i = 0; i < q->map.n; i++)
    if (q->map.v[i] < 0 || q->map.v[i] >= x->rank)
      return hs_fail(HS_E_SHAPE, "Invalid %s%s; domain is [0, %u), got: %u->%lld.", q->map_name, scatter[1] == 'c' ? " mapping" : "", x->rank, i, (long long)q->map.v[i]);
  if (repeats(q->map)) return hs_fail(HS_E_SHAPE, "Repeated dimensions are not allowed in %s; got: %s.", q->map_name, infer_ints_text(q->map.n, q->map.v));
  hlo_ints lists[2] = {q->gone, q->batch};
  const char *names[2] = {q->gone_name, q->batch_name};
  for (int k = 0; k < 2; k++) {
    if (!sorted(lists[k])) return hs_fail(HS_E_SHAPE, "%s in %s op must be sorted; got: %s", names[k], q->op[0] == 'S' ? "scatter" : "gather", infer_ints_text(lists[k].n, lists[k].v));
    if (repeats(lists[k]))
      return q->op[0] == 'S' ? hs_fail(HS_E_SHAPE, "%s in scatter op must not repeat; got: %s.", names[k], infer_ints_text(lists[k].n, lists[k].v))
                             : hs_fail(HS_E_SHAPE, "Repeated dimensions not allowed in %s in gather op; got: %s.", names[k], infer_ints_text(lists[k].n, lists[k].v));
    if (!within(lists[k], x->rank))
      return hs_fail(HS_E_SHAPE, "Invalid %s set in %s op; valid range is [0, %u), got: %s.", names[k], q->op[0] == 'S' ? "scatter" : "gather", x->rank, infer_ints_text(lists[k].n, lists[k].v));
  }
  for (u32 i = 0; i < q->batch.n; i++)
    if (has(q->gone, q->batch.v[i]))
      return hs_fail(HS_E_SHAPE, "%s op: dimension %lld is in %s and in %s.", q->op, (long long)q->batch.v[i], q->batch_name, q->gone_name);
  if (repeats(q->idx_batch) || !within(q->idx_batch, idx->rank)) return hs_fail(HS_E_SHAPE, "Invalid %s set in %s op; got: %s.", q->idx_batch_name, q->op, infer_ints_text(q->idx_batch.n, q->idx_batch.v));
  if (has(q->idx_batch, q->ivd)) return hs_fail(HS_E_SHAPE, "%s op: %s must not hold index_vector_dim=%lld.", q->op, q->idx_batch_name, (long long)q->ivd);
  if (q->batch.n != q->idx_batch.n) return hs_fail(HS_E_SHAPE, "%s op: %s and %s must be of the same size; got %u and %u.", q->op, q->batch_name, q->idx_batch_name, q->batch.n, q->idx_batch.n);
  for (u32 i = 0; i < q->batch.n; i++)
    if (!infer_dims_fit(x->dims[q->batch.v[i]], idx->dims[q->idx_batch.v[i]]))
      return hs_fail(HS_E_SHAPE, "%s op: batching dimensions must have equal sizes; got %lld and %lld.", q->op, (long long)x->dims[q->batch.v[i]], (long long)idx->dims[q->idx_batch.v[i]]);
  return HS_GOOD;
}

hs_status hlo_infer_gather(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0], *idx = a->in[1];
  HS_TRY(infer_expect_array(x, "input operand of gather op"));
  HS_TRY(infer_expect_array(idx, "gather indices operand of gather op"));
  if (!hlo_dtype_is_integer(idx->dtype)) return hs_fail(HS_E_SHAPE, "Gather indices parameter must be an integral tensor; got %s.", infer_text(idx));
  indexing q = {"Gather", "start_index_map", "operand_batching_dims", "start_indices_batching_dims", "collapsed_slice_dims", infer_ints(a, HLO_ATTR_START_INDEX_MAP),
                infer_ints(a, HLO_ATTR_OPERAND_BATCHING_DIMS), infer_ints(a, HLO_ATTR_START_INDICES_BATCHING_DIMS), infer_ints(a, HLO_ATTR_COLLAPSED_SLICE_DIMS),
                infer_int(a, HLO_ATTR_INDEX_VECTOR_DIM, -1)};
  hlo_ints off = infer_ints(a, HLO_ATTR_OFFSET_DIMS), sizes = infer_ints(a, HLO_ATTR_SLICE_SIZES);
  if (q.ivd < 0 || q.ivd > idx->rank)
    return hs_fail(HS_E_SHAPE, "Gather index leaf dimension must be within [0, rank(start_indices) + 1). rank(start_indices) is %u and gather index leaf dimension is %lld.", idx->rank, (long long)q.ivd);
  if (!sorted(off)) return hs_fail(HS_E_SHAPE, "Output window dimensions in gather op must be ascending; got: %s.", infer_ints_text(off.n, off.v));
  if (repeats(off)) return hs_fail(HS_E_SHAPE, "Output window dimensions in gather op must not repeat; got: %s.", infer_ints_text(off.n, off.v));
  infer_dims batch = {0}, d = {0};
  u32 nbatch = batch_dims_of(idx, q.ivd, &batch), rank = nbatch + off.n;
  for (u32 i = 0; i < off.n; i++)
    if (off.v[i] < 0 || off.v[i] >= rank)
      return hs_fail(HS_E_SHAPE, "Offset dimension %u in gather op is out of bounds; got %lld, but should have been in [0, %u).", i, (long long)off.v[i], rank);
  HS_TRY(check_indexing(x, idx, &q));
  if (sizes.n != x->rank) return hs_fail(HS_E_SHAPE, "Gather op must have one slice size for every input dimension; got: len(slice_sizes)=%u, input_shape.rank=%u.", sizes.n, x->rank);
  if (sizes.n != off.n + q.gone.n + q.batch.n)
    return hs_fail(HS_E_SHAPE, "All components of the offset index in a gather op must either be an offset dimension or explicitly collapsed or batching; got len(slice_sizes)=%u, offset_dims=%s, collapsed_slice_dims=%s, operand_batching_dims=%s.",
                   sizes.n, infer_ints_text(off.n, off.v), infer_ints_text(q.gone.n, q.gone.v), infer_ints_text(q.batch.n, q.batch.v));
  for (u32 i = 0; i < sizes.n; i++) {
    if (sizes.v[i] < 0 || (x->dims[i] != HLO_UNBOUNDED && sizes.v[i] > x->dims[i]))
      return hs_fail(HS_E_SHAPE, "Slice size at index %u in gather op is out of range, must be within [0, %lld), got %lld.", i, (long long)x->dims[i] + 1, (long long)sizes.v[i]);
    if ((has(q.gone, i) || has(q.batch, i)) && sizes.v[i] > 1)
      return hs_fail(HS_E_SHAPE, "Gather op can only collapse slice dims with bound 1 or 0, but bound is %lld for index %u.", (long long)sizes.v[i], i);
  }
  u32 next_size = 0, next_batch = 0;
  for (u32 i = 0; i < rank; i++) {
    if (!has(off, i)) { infer_push(&d, batch.size[next_batch], batch.dyn[next_batch]), next_batch++; continue; }
    while (has(q.gone, next_size) || has(q.batch, next_size)) next_size++;
    infer_push(&d, sizes.v[next_size], infer_dyn(x, next_size) && sizes.v[next_size] == x->dims[next_size]), next_size++;
  }
  return infer_array(a, x->dtype, &d, out);
}

// One updates operand against its input: rank, window bounds, and the scatter dimensions against those of the indices.
static hs_status check_updates(const hlo_shape *x, const hlo_shape *up, const infer_dims *batch, const indexing *q, hlo_ints win) {
  if (up->rank != batch->n + win.n)
    return hs_fail(HS_E_SHAPE, "Updates tensor must be of rank %u; got %u.", batch->n + win.n, up->rank);
  if (!sorted(win)) return hs_fail(HS_E_SHAPE, "update_window_dims in scatter op must be sorted; got: %s.", infer_ints_text(win.n, win.v));
  if (repeats(win)) return hs_fail(HS_E_SHAPE, "update_window_dims in scatter op must not repeat; got: %s.", infer_ints_text(win.n, win.v));
  if (!within(win, up->rank)) return hs_fail(HS_E_SHAPE, "Invalid update_window_dims set in scatter op; valid range is [0, %u), got: %s.", up->rank, infer_ints_text(win.n, win.v));
  u32 next = 0, scat = 0;
  for (u32 i = 0; i < up->rank; i++) {
    if (has(win, i)) {
      while (next < x->rank && (has(q->gone, next) || has(q->batch, next))) next++;
      if (next < x->rank && x->dims[next] != HLO_UNBOUNDED && up->dims[i] != HLO_UNBOUNDED && up->dims[i] > x->dims[next])
        return hs_fail(HS_E_SHAPE, "Bounds of the window dimensions of updates must not exceed the bounds of the corresponding dimensions of operand. For dimension %u, updates bound is %lld, operand bound is %lld.",
                       i, (long long)up->dims[i], (long long)x->dims[next]);
      next++;
    } else if (scat < batch->n) {
      if (!infer_dims_fit(up->dims[i], batch->size[scat]))
        return hs_fail(HS_E_SHAPE, "Bounds of the scatter dimensions of updates must be same as the bounds of the corresponding dimensions of scatter indices. For scatter dimension %u, updates bound is %lld, scatter_indices bound is %lld.",
                       i, (long long)up->dims[i], (long long)batch->size[scat]);
      scat++;
    }
  }
  return HS_GOOD;
}
static hs_status check_scatter_reducer(const infer_args *a, const hlo_computation *c, u32 n) {
  hlo_dtype few[16], *types = n <= 16 ? few : hs_alloc(n * sizeof *types);
  const hlo_shape *few_init[16], **init = n <= 16 ? few_init : hs_alloc(n * sizeof *init);
  for (u32 i = 0; i < n; i++) types[i] = a->in[n + 1 + i]->dtype, init[i] = hlo_shape_scalar(a->ctx, a->in[i]->dtype);
  hs_status s = infer_check_reducer(c, n, init, types);
  if (types != few) hs_free(types);
  if (init != few_init) hs_free(init);
  return s;
}
hs_status hlo_infer_scatter(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  if (a->n < 3 || a->n % 2 == 0) return hs_fail(HS_E_ARITY, "scatter expects an odd number of operands, 3 or more, but has %u operands", a->n);
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, &c));
  u32 n = a->n / 2;
  const hlo_shape *x = a->in[0], *idx = a->in[n];
  for (u32 i = 0; i < n; i++) HS_TRY(infer_expect_array(a->in[i], "operand of scatter op"));
  HS_TRY(infer_expect_array(idx, "scatter indices of scatter op"));
  for (u32 i = n + 1; i < a->n; i++) HS_TRY(infer_expect_array(a->in[i], "updates of scatter op"));
  if (!hlo_dtype_is_integer(idx->dtype)) return hs_fail(HS_E_SHAPE, "Scatter indices parameter must be an integral tensor; got %s.", infer_text(idx));
  indexing q = {"Scatter", "scatter_dims_to_operand_dims", "input_batching_dims", "scatter_indices_batching_dims", "inserted_window_dims", infer_ints(a, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
                infer_ints(a, HLO_ATTR_INPUT_BATCHING_DIMS), infer_ints(a, HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS), infer_ints(a, HLO_ATTR_INSERTED_WINDOW_DIMS),
                infer_int(a, HLO_ATTR_INDEX_VECTOR_DIM, -1)};
  hlo_ints win = infer_ints(a, HLO_ATTR_UPDATE_WINDOW_DIMS);
  if (q.ivd < 0 || q.ivd > idx->rank)
    return hs_fail(HS_E_SHAPE, "Scatter index leaf dimension must be within [0, rank(scatter_indices) + 1). rank(scatter_indices) is %u and scatter index leaf dimension is %lld.", idx->rank, (long long)q.ivd);
  infer_dims batch = {0};
  batch_dims_of(idx, q.ivd, &batch);
  for (u32 i = 0; i < n; i++) {
    const hlo_shape *xi = a->in[i], *up = a->in[n + 1 + i];
    if (!infer_compatible(xi, x, INFER_ANY_TYPE)) return hs_fail(HS_E_SHAPE, "All operands of scatter must have the same dimensions; got %s and %s.", infer_text(x), infer_text(xi));
    if (up->rank != batch.n + win.n) return hs_fail(HS_E_SHAPE, "Updates tensor must be of rank %u; got %u.", batch.n + win.n, up->rank);
    if (!i) {
      if (repeats(win)) return hs_fail(HS_E_SHAPE, "update_window_dims in scatter op must not repeat; got: %s.", infer_ints_text(win.n, win.v));
      if (!within(win, up->rank)) return hs_fail(HS_E_SHAPE, "Invalid update_window_dims set in scatter op; valid range is [0, %u), got: %s.", up->rank, infer_ints_text(win.n, win.v));
      if (x->rank != win.n + q.gone.n + q.batch.n)
        return hs_fail(HS_E_SHAPE, "Scatter op has window of size %u; doesn't match operand of rank %u.", win.n + q.gone.n + q.batch.n, x->rank);
      HS_TRY(check_indexing(x, idx, &q));
    }
    HS_TRY(check_updates(xi, up, &batch, &q, win));
  }
  HS_TRY(check_scatter_reducer(a, c, n));
  *out = pack(a, n, a->in);
  return HS_GOOD;
}

// ---- control flow ---------------------------------------------------------------------------------------------------------
hs_status hlo_infer_call(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, &c));
  if (c->nparams != a->n) return hs_fail(HS_E_SHAPE, "Call applied function arity must match number of arguments; got: arity: %u, arguments: %u.", c->nparams, a->n);
  for (u32 i = 0; i < a->n; i++)
    if (!infer_compatible(a->in[i], param_shape(c, i), 0))
      return hs_fail(HS_E_SHAPE, "Call parameter must match argument; got parameter %u shape: %s, argument shape: %s.", i, infer_text(param_shape(c, i)), infer_text(a->in[i]));
  *out = result_shape(c);
  return HS_GOOD;
}
hs_status hlo_infer_fusion(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  HS_TRY(infer_need_comp(a, HLO_ATTR_CALLS, &c));
  *out = result_shape(c);
  return HS_GOOD;
}
hs_status hlo_infer_while(const infer_args *a, const hlo_shape **out) {
  hlo_computation *cond, *body;
  const hlo_shape *init = a->in[0];
  HS_TRY(infer_need_comp(a, HLO_ATTR_CONDITION, &cond));
  HS_TRY(infer_need_comp(a, HLO_ATTR_BODY, &body));
  if (cond->nparams != 1) return hs_fail(HS_E_SHAPE, "Condition must take 1 arguments; got %u.", cond->nparams);
  if (body->nparams != 1) return hs_fail(HS_E_SHAPE, "Body must take 1 arguments; got %u.", body->nparams);
  if (result_shape(cond)->dtype != HLO_PRED || result_shape(cond)->rank)
    return hs_fail(HS_E_SHAPE, "Condition must return a boolean; got %s.", infer_text(result_shape(cond)));
  if (!infer_compatible(result_shape(body), param_shape(cond, 0), 0) || !infer_compatible(result_shape(body), param_shape(body, 0), 0) || !infer_compatible(result_shape(body), init, 0))
    return hs_fail(HS_E_SHAPE, "The parameter of condition and body, the result of the body, and init must all have the same shape; got: condition %s; body %s -> %s; init %s.",
                   infer_text(param_shape(cond, 0)), infer_text(param_shape(body, 0)), infer_text(result_shape(body)), infer_text(init));
  *out = init;
  return HS_GOOD;
}

// A dimension is dynamic in the result when it is in any branch.
static const hlo_shape *join_dynamic(hlo_ctx *ctx, const hlo_shape *x, const hlo_shape *y) {
  if (x == y) return x;
  if (hlo_shape_is_tuple(x)) {
    const hlo_shape **v = hs_alloc((x->nelems + 1) * sizeof *v);
    for (u32 i = 0; i < x->nelems; i++) v[i] = join_dynamic(ctx, x->elems[i], y->elems[i]);
    const hlo_shape *r = hlo_shape_tuple(ctx, x->nelems, v);
    hs_free(v);
    return r;
  }
  if (!hlo_shape_is_array(x)) return x;
  bool dyn[HLO_MAX_RANK];
  for (u32 i = 0; i < x->rank; i++) dyn[i] = infer_dyn(x, i) || infer_dyn(y, i);
  return hlo_shape_dynamic(ctx, x->dtype, x->rank, x->dims, dyn, NULL);
}
hs_status hlo_infer_conditional(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  const hlo_shape *p = a->in[0];
  if (!hlo_shape_is_scalar(p)) return hs_fail(HS_E_SHAPE, "The first operand of conditional must be a scalar; got %s.", infer_text(p));
  if (p->dtype != HLO_PRED && p->dtype != HLO_S32) return hs_fail(HS_E_SHAPE, "branch_index must be bool or int32_t; got %s.", infer_text(p));
  const hlo_attr *list = hlo_attrs_find(a->attrs, HLO_ATTR_BRANCH_COMPUTATIONS);
  hlo_computation *two[2] = {infer_comp(a, HLO_ATTR_TRUE_COMPUTATION), infer_comp(a, HLO_ATTR_FALSE_COMPUTATION)};
  hlo_computation *const *b = list ? list->v.comps.v : two;
  u32 n = list ? list->v.comps.n : 2;
  if (!list && (!two[0] || !two[1])) return hs_fail(HS_E_ATTR, "conditional needs branch_computations, or true_computation and false_computation");
  if (p->dtype == HLO_PRED && n != 2) return hs_fail(HS_E_SHAPE, "A conditional on a pred must have 2 branches; got %u.", n);
  if (n == 0 || a->n != n + 1) return hs_fail(HS_E_ARITY, "conditional with %u branches expects %u operands, but has %u operands", n, n + 1, a->n);
  const hlo_shape *r = NULL;
  for (u32 i = 0; i < n; i++) {
    if (!b[i] || !b[i]->root) return hs_fail(HS_E_VERIFY, "branch computation %u of conditional has no root", i);
    if (b[i]->nparams != 1) return hs_fail(HS_E_SHAPE, "branch computation %u must take 1 argument; got %u.", i, b[i]->nparams);
    if (!infer_compatible(param_shape(b[i], 0), a->in[i + 1], 0))
      return hs_fail(HS_E_SHAPE, "branch operand %u must match the shape of the only parameter of branch computation %u: operand shape does not match parameter; got operand: %s; parameter: %s.", i, i,
                     infer_text(a->in[i + 1]), infer_text(param_shape(b[i], 0)));
    if (!r) r = result_shape(b[i]);
    else if (!infer_compatible(r, result_shape(b[i]), 0))
      return hs_fail(HS_E_SHAPE, "the result of branch 0 computation and branch %u computation must have the same shape; got: %s and %s.", i, infer_text(r), infer_text(result_shape(b[i])));
    r = join_dynamic(a->ctx, r, result_shape(b[i]));
  }
  *out = r;
  return HS_GOOD;
}

// ---- collectives ------------------------------------------------------------------------------------------------------------
hs_status hlo_infer_all_reduce(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  for (u32 i = 0; i < a->n; i++)
    if (!hlo_shape_is_tuple(a->in[i])) HS_TRY(infer_expect_array(a->in[i], "operand of all-reduce"));
  *out = pack(a, a->n, a->in);
  return HS_GOOD;
}
hs_status hlo_infer_collective_same(const infer_args *a, const hlo_shape **out) {
  u32 n = a->n;
  if (infer_int(a, HLO_ATTR_HAS_DYNAMIC_ROOT, 0)) {
    if (n < 2) return hs_fail(HS_E_SHAPE, "A collective-broadcast with a dynamic root needs operand_shapes.size() > 1; the last operand is the root.");
    n--;
  }
  if (!n) return hs_fail(HS_E_ARITY, "%s expects at least 1 operands, but has 0 operands", hlo_op_text(a->op));
  *out = pack(a, n, a->in);
  return HS_GOOD;
}

// Each operand's `dim` times (gather) or divided by (scatter) the number of shards, which the written result tells.
static hs_status scale_dim(const infer_args *a, bool up, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  i64 dim = infer_dimension(a);
  if (!a->stated) return hlo_infer_stated(a, out);
  bool tuple = hlo_shape_is_tuple(a->stated);
  if (tuple ? a->stated->nelems != a->n : a->n != 1)
    return hs_fail(HS_E_SHAPE, "%s of %u operands has the result shape %s.", hlo_op_text(a->op), a->n, infer_text(a->stated));
  i64 shards = 0;
  const hlo_shape **v = hs_alloc(a->n * sizeof *v);
  hs_status s = HS_GOOD;
  for (u32 i = 0; i < a->n && hs_ok(s); i++) {
    const hlo_shape *x = a->in[i], *r = tuple ? a->stated->elems[i] : a->stated;
    if (!hlo_shape_is_array(x) || !hlo_shape_is_array(r)) { s = infer_expect_array(hlo_shape_is_array(x) ? r : x, hlo_op_text(a->op)); break; }
    if (dim < 0 || dim >= x->rank || r->rank != x->rank) { s = hs_fail(HS_E_SHAPE, "%s dimension %lld is out of bounds for %s -> %s.", hlo_op_text(a->op), (long long)dim, infer_text(x), infer_text(r)); break; }
    i64 small = up ? x->dims[dim] : r->dims[dim], big = up ? r->dims[dim] : x->dims[dim];
    infer_dims d = {0};
    for (u32 k = 0; k < x->rank; k++) infer_push_dim(&d, x, k);
    if (small != HLO_UNBOUNDED && big != HLO_UNBOUNDED && small > 0) {
      i64 ratio = big / small;
      if (big % small || (shards && ratio != shards)) { s = hs_fail(HS_E_SHAPE, "%s dimension %lld of %s and %s must differ by the same whole factor in every operand.", hlo_op_text(a->op), (long long)dim, infer_text(x), infer_text(r)); break; }
      shards = ratio;
      d.size[dim] = r->dims[dim];
    }
    s = infer_array(a, x->dtype, &d, &v[i]);
  }
  if (hs_ok(s)) *out = tuple ? hlo_shape_tuple(a->ctx, a->n, v) : v[0];
  hs_free(v);
  return s;
}
hs_status hlo_infer_all_gather(const infer_args *a, const hlo_shape **out) { return scale_dim(a, true, out); }
hs_status hlo_infer_reduce_scatter(const infer_args *a, const hlo_shape **out) { return scale_dim(a, false, out); }

hs_status hlo_infer_all_to_all(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  hlo_ints d = infer_ints(a, HLO_ATTR_DIMENSIONS);
  if (d.n) {
    if (a->n != 1) return hs_fail(HS_E_SHAPE, "AllToAll with dimensions takes one operand; got %u.", a->n);
    HS_TRY(infer_expect_array(a->in[0], "operand of all-to-all"));
    if (d.v[0] < 0 || d.v[0] >= a->in[0]->rank) return hs_fail(HS_E_SHAPE, "AllToAll split_dimension %lld is out-of-bounds in shape %s.", (long long)d.v[0], infer_text(a->in[0]));
    return *out = a->in[0], HS_GOOD;
  }
  for (u32 i = 0; i < a->n; i++)
    if (!infer_compatible(a->in[i], a->in[0], 0)) return hs_fail(HS_E_SHAPE, "HLO all-to-all has operands with different shapes: the 0th operand is %s, but the %uth is %s.", infer_text(a->in[0]), i, infer_text(a->in[i]));
  bool bare = a->n == 1 && a->stated && !hlo_shape_is_tuple(a->stated);
  *out = bare ? a->in[0] : hlo_shape_tuple(a->ctx, a->n, a->in);
  return HS_GOOD;
}
hs_status hlo_infer_ragged_all_to_all(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *in = a->in[0], *res = a->in[1];
  HS_TRY(infer_expect_array(in, "input of ragged-all-to-all"));
  HS_TRY(infer_expect_array(res, "output of ragged-all-to-all"));
  for (u32 i = 2; i < a->n; i++) {
    HS_TRY(infer_expect_array(a->in[i], "offsets of ragged-all-to-all"));
    if (!hlo_dtype_is_integer(a->in[i]->dtype) || !infer_compatible(a->in[i], a->in[2], 0))
      return hs_fail(HS_E_SHAPE, "RaggedAllToAll needs integral offsets and sizes of one shape; operand %u is %s, operand 2 is %s.", i, infer_text(a->in[i]), infer_text(a->in[2]));
  }
  if (in->dtype != res->dtype) return hs_fail(HS_E_SHAPE, "RaggedAllToAll input and output must have the same element type; got %s and %s.", infer_text(in), infer_text(res));
  *out = res;
  return HS_GOOD;
}
// With slice sizes (in place) the operands are input, output, input offsets, output offsets.
hs_status hlo_infer_collective_permute(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  const hlo_int_lists *slices = infer_ptr(a, HLO_ATTR_PERMUTE_SLICE_SIZES);
  if (slices && slices->n) {
    if (a->n != 4) return hs_fail(HS_E_ARITY, "collective-permute with slice_sizes expects 4 operands, but has %u operands", a->n);
    return *out = a->in[1], HS_GOOD;
  }
  *out = pack(a, a->n, a->in);
  return HS_GOOD;
}
hs_status hlo_infer_send(const infer_args *a, const hlo_shape **out) {
  *out = hlo_shape_tuple(a->ctx, 3, (const hlo_shape *const[]){a->in[0], hlo_shape_scalar(a->ctx, HLO_U32), hlo_shape_token(a->ctx)});
  return HS_GOOD;
}
