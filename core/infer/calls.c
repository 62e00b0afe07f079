// calls.c — shape rules of the operations that call computations (reduce, map, sort, scan,
// while, ...) and of the collectives; scatter is in index.c. Source:
// xla/service/shape_inference.cc.
//
// A computation's signature is read off its parameters and root. Group sizes of collectives are not
// known here (they depend on the module's replica and partition counts): the written result gives
// the factor, the verifier compares it with the groups.
#include "core/infer/rules.h"

static const hlo_shape *param_shape(const hlo_computation *c, u32 i) {
  return c->params[i]->shape->logical;
}
static const hlo_shape *result_shape(const hlo_computation *c) { return c->root->shape->logical; }

// One shape stays itself, several become a tuple.
static const hlo_shape *pack(const infer_args *a, u32 n, const hlo_shape *const *v) {
  return n == 1 ? v[0] : hlo_shape_tuple(a->ctx, n, v);
}

// ---- reducers -----------------------------------------------------------------------------------
hs_status infer_check_reducer(const hlo_computation *c, u32 n, const hlo_shape *const *init,
                              const hlo_dtype *elements) {
  if (c->nparams != 2 * n)
    return hs_fail(HS_E_SHAPE,
                   "Reduction function must take %u parameters, but takes %u parameter(s).", 2 * n,
                   c->nparams);
  const hlo_shape *r = result_shape(c), *const *acc = &r;
  if (hlo_shape_is_tuple(r)) {
    if (r->nelems != n)
      return hs_fail(
          HS_E_SHAPE,
          "Reduction function must produce a tuple with %u elements, but produces a tuple with %u "
          "elements",
          n, r->nelems);
    acc = r->elems;
  } else if (n != 1) {
    return hs_fail(
        HS_E_SHAPE,
        "Reduction function must produce a tuple with %u elements, but produces a scalar", n);
  }
  for (u32 i = 0; i < n; i++) {
    const hlo_shape *first = param_shape(c, i), *second = param_shape(c, n + i);
    if (!hlo_shape_is_scalar(acc[i]))
      return hs_fail(
          HS_E_SHAPE,
          "Reduction function must return a scalar or tuple of scalars but returns shape: %s",
          infer_text(r));
    if (!infer_compatible(acc[i], first, 0))
      return hs_fail(
          HS_E_SHAPE,
          "Reduction function's %u-th parameter shape differs from the result shape: %s vs %s", i,
          infer_text(first), infer_text(acc[i]));
    if (!infer_compatible(acc[i], init[i], INFER_ANY_FLOAT))
      return hs_fail(
          HS_E_SHAPE,
          "Reduction function's accumulator shape at index %u differs from the init_value shape: "
          "%s vs %s",
          i, infer_text(acc[i]), infer_text(init[i]));
    if (!hlo_shape_is_scalar(second) || !infer_same_type_class(second->dtype, elements[i]))
      return hs_fail(
          HS_E_SHAPE,
          "Reduction function's %u-th parameter shape differs from the input type element type: %s "
          "vs %s",
          n + i, infer_text(second), hlo_dtype_text(elements[i]));
    if (!infer_compatible(acc[i], second, INFER_ANY_FLOAT))
      return hs_fail(
          HS_E_SHAPE,
          "Reduction function's %u-th parameter shape must match the result shape, but got %s vs "
          "%s.",
          n + i, infer_text(second), infer_text(acc[i]));
  }
  return HS_GOOD;
}

// Operands in two halves: n arrays of the same dimensions, then n initial values. Checks the
// reducer against them.
static hs_status reducer_operands(const infer_args *a, hlo_computation **c, u32 *n) {
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, c));
  if (!a->n || a->n % 2)
    return hs_fail(HS_E_ARITY, "%s expects an even number of operands, but has %u operands",
                   hlo_op_text(a->op), a->n);
  *n = a->n / 2;
  hlo_dtype few[16], *types = *n <= 16 ? few : hs_alloc(*n * sizeof *types);
  hs_status s = HS_GOOD;
  for (u32 i = 0; i < *n && hs_ok(s); i++) {
    types[i] = a->in[i]->dtype;
    if (!hs_ok(s = infer_expect_array(a->in[i], "reduced operand"))) break;
    if (!infer_compatible(a->in[i], a->in[0], INFER_ANY_TYPE))
      s = hs_fail(
          HS_E_SHAPE,
          "All reduced tensors must have compatible dimension. Tensor at index 0 has shape %s, and "
          "tensor at index %u "
          "has shape %s.",
          infer_text(a->in[0]), i, infer_text(a->in[i]));
  }
  if (hs_ok(s)) s = infer_check_reducer(*c, *n, a->in + *n, types);
  if (types != few) hs_free(types);
  return s;
}
// One result per accumulator: the given dimensions with the accumulator's type, of which there are
// n in `types` (or one that is no tuple).
static hs_status reducer_result(const infer_args *a, const hlo_shape *types, const infer_dims *d,
                                const hlo_shape **out) {
  if (!hlo_shape_is_tuple(types)) return infer_array(a, types->dtype, d, out);
  const hlo_shape **v = hs_alloc(types->nelems * sizeof *v);
  hs_status s = HS_GOOD;
  for (u32 i = 0; i < types->nelems && hs_ok(s); i++)
    s = infer_array(a, types->elems[i]->dtype, d, &v[i]);
  if (hs_ok(s)) *out = hlo_shape_tuple(a->ctx, types->nelems, v);
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
    if (k < 0 || k >= x->rank)
      return hs_fail(HS_E_SHAPE, "Reducing out-of-bounds dimension %lld in shape %s.", (long long)k,
                     infer_text(x));
    if (gone[k]) return hs_fail(HS_E_SHAPE, "Duplicate reduction dimension: %lld", (long long)k);
    gone[k] = true;
  }
  infer_dims d = {0};
  for (u32 i = 0; i < x->rank; i++) {
    if (gone[i]) continue;
    u32 k = 0;  // the most specific of the operands' sizes
    while (k + 1 < n && a->in[k]->dims[i] == HLO_UNBOUNDED) k++;
    infer_push_dim(&d, a->in[k], i);
  }
  return reducer_result(a, result_shape(c), &d, out);
}
hs_status hlo_infer_reduce_window(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  u32 n;
  HS_TRY(reducer_operands(a, &c, &n));
  infer_dims d = {0};
  HS_TRY(infer_window(a->in[0], NULL, a->in[0]->rank, infer_ptr(a, HLO_ATTR_WINDOW), &d));
  return reducer_result(
      a, hlo_shape_is_tuple(result_shape(c)) ? hlo_shape_tuple(a->ctx, n, a->in + n) : a->in[n], &d,
      out);
}
hs_status hlo_infer_select_and_scatter(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0], *src = a->in[1], *init = a->in[2];
  hlo_computation *sel, *sc;
  HS_TRY(infer_need_comp(a, HLO_ATTR_SELECT, &sel));
  HS_TRY(infer_need_comp(a, HLO_ATTR_SCATTER, &sc));
  HS_TRY(infer_expect_array(x, "operand of select-and-scatter"));
  HS_TRY(infer_expect_array(src, "source of select-and-scatter"));
  if (sel->nparams != 2)
    return hs_fail(HS_E_SHAPE, "Select function must take 2 parameters, but takes %u parameter(s).",
                   sel->nparams);
  if (!hlo_shape_is_scalar(result_shape(sel)) || result_shape(sel)->dtype != HLO_PRED)
    return hs_fail(HS_E_SHAPE, "Select function must have rank-0 PRED result.");
  for (u32 i = 0; i < 2; i++)
    if (!hlo_shape_is_scalar(param_shape(sel, i)) ||
        !infer_same_type_class(param_shape(sel, i)->dtype, x->dtype))
      return hs_fail(
          HS_E_SHAPE,
          "Select function's %s parameter shape currently must match the operand element shape, "
          "but got %s vs %s.",
          i ? "second" : "first", infer_text(param_shape(sel, i)), hlo_dtype_text(x->dtype));
  HS_TRY(infer_check_reducer(sc, 1, &init, &src->dtype));
  infer_dims d = {0};
  const hlo_shape *want;
  HS_TRY(infer_window(x, NULL, x->rank, infer_ptr(a, HLO_ATTR_WINDOW), &d));
  HS_TRY(infer_array(a, x->dtype, &d, &want));
  if (!infer_compatible(src, want, INFER_ANY_FLOAT))
    return hs_fail(HS_E_SHAPE,
                   "Source shape does not match the shape of window-reduced operand: source(%s), "
                   "window-reduced operand(%s).",
                   infer_text(src), infer_text(want));
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
      return hs_fail(HS_E_SHAPE,
                     "Map operation requires all operands to have the same shape; got: %s, %s.",
                     infer_text(a->in[0]), infer_text(a->in[i]));
  }
  if (c->nparams != a->n)
    return hs_fail(
        HS_E_SHAPE,
        "Map applied function arity must match number of arguments; got: arity: %u, arguments: %u.",
        c->nparams, a->n);
  const hlo_shape *r = result_shape(c);
  if (!hlo_shape_is_scalar(r))
    return hs_fail(HS_E_SHAPE, "Mapped computation's result has to be a scalar; got: %s.",
                   infer_text(r));
  for (u32 i = 0; i < a->n; i++) {
    const hlo_shape *p = param_shape(c, i);
    if (!hlo_shape_is_scalar(p))
      return hs_fail(
          HS_E_SHAPE,
          "Mapped computation's parameter has to be a scalar; got parameter %u shape: %s.", i,
          infer_text(p));
    if (!infer_same_type_class(p->dtype, a->in[i]->dtype))
      return hs_fail(
          HS_E_SHAPE,
          "Mapped computation's parameter type has to match argument element type; got parameter "
          "%u shape: %s, "
          "argument shape: %s.",
          i, infer_text(p), infer_text(a->in[i]));
  }
  *out = hlo_shape_with_dtype(a->ctx, a->in[0], r->dtype);
  return HS_GOOD;
}

// Of two elements of every operand, a pred (ShapeVerifier::HandleSort in hlo_verifier.cc).
static hs_status check_comparator(const infer_args *a) {
  hlo_computation *c = infer_comp(a, HLO_ATTR_TO_APPLY);
  if (!c) return HS_GOOD;  // the shape alone is asked for; no module lacks it
  if (!hlo_shape_is_scalar(result_shape(c)) || result_shape(c)->dtype != HLO_PRED)
    return hs_fail(HS_E_SHAPE,
                   "The Sort compare computation shape does not lead to a scalar predicate shape: "
                   "%s",
                   infer_text(result_shape(c)));
  if (c->nparams != 2 * a->n)
    return hs_fail(HS_E_SHAPE, "Sort compares %u elements, but its computation takes %u parameters",
                   2 * a->n, c->nparams);
  for (u32 i = 0; i < c->nparams; i++) {
    const hlo_shape *p = param_shape(c, i);
    if (!hlo_shape_is_scalar(p) || !infer_same_type_class(p->dtype, a->in[i / 2]->dtype))
      return hs_fail(HS_E_SHAPE,
                     "Expected the %u-th parameter of the compare computation of sort to be a "
                     "scalar of %s, but got %s",
                     i, infer_text(a->in[i / 2]), infer_text(p));
  }
  return HS_GOOD;
}

hs_status hlo_infer_sort(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  HS_TRY(infer_expect_array(a->in[0], "keys of sort"));
  i64 dim = infer_dimension(a);
  if (dim < 0 || dim >= HS_MAX(a->in[0]->rank, 1u))
    return hs_fail(HS_E_SHAPE, "Sort dimension %lld is out of bounds for %s.", (long long)dim,
                   infer_text(a->in[0]));
  for (u32 i = 1; i < a->n; i++)
    if (!hlo_shape_is_array(a->in[i]) || !infer_compatible(a->in[i], a->in[0], INFER_ANY_TYPE))
      return hs_fail(
          HS_E_SHAPE,
          "Sort keys and values dimensions must match. Keys shape is: %s, Values shape (operand "
          "index %u) is: %s",
          infer_text(a->in[0]), i, infer_text(a->in[i]));
  HS_TRY(check_comparator(a));
  *out = pack(a, a->n, a->in);
  return HS_GOOD;
}
hs_status hlo_infer_topk(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0];
  i64 k = infer_int(a, HLO_ATTR_K, -1);
  HS_TRY(infer_expect_array(x, "operand of top-k operation"));
  if (!x->rank)
    return hs_fail(HS_E_SHAPE, "TopK needs an operand of rank at least 1; got %s.", infer_text(x));
  if (k < 0 || (x->dims[x->rank - 1] != HLO_UNBOUNDED && k > x->dims[x->rank - 1]))
    return hs_fail(HS_E_SHAPE, "k=%lld is larger than the last dimension of size=%lld",
                   (long long)k, (long long)x->dims[x->rank - 1]);
  infer_dims d = {0};
  for (u32 i = 0; i + 1 < x->rank; i++) infer_push_dim(&d, x, i);
  infer_push(&d, k, false);
  const hlo_shape *v[2];
  HS_TRY(infer_array(a, x->dtype, &d, &v[0]));
  HS_TRY(infer_array(a, HLO_S32, &d, &v[1]));
  *out = hlo_shape_tuple(a->ctx, 2, v);
  return HS_GOOD;
}

// Scan: `num_carries` last operands are carried; body (slices, carries) -> (output slices,
// carries). The scanned dimension is removed from inputs and put into outputs.
hs_status hlo_infer_scan(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, &c));
  i64 carries = infer_int(a, HLO_ATTR_NUM_CARRIES, 0), dim = infer_dimension(a), length = -1;
  if (carries < 0 || carries > a->n)
    return hs_fail(HS_E_SHAPE, "Scan has %lld carries but %u operands.", (long long)carries, a->n);
  if (c->nparams != a->n)
    return hs_fail(HS_E_SHAPE, "Scan function must take %u parameters, but takes %u.", a->n,
                   c->nparams);
  const hlo_shape *r = result_shape(c), *const *res = hlo_shape_is_tuple(r) ? r->elems : &r;
  u32 nres = hlo_shape_is_tuple(r) ? r->nelems : 1, nin = a->n - (u32)carries;
  if (nres < carries)
    return hs_fail(HS_E_SHAPE, "Scan function returns %u values, fewer than the %lld carries.",
                   nres, (long long)carries);
  bool dyn = false;
  for (u32 i = 0; i < nin; i++) {
    const hlo_shape *x = a->in[i], *p = param_shape(c, i);
    HS_TRY(infer_expect_array(x, "input of scan"));
    if (dim < 0 || dim >= x->rank)
      return hs_fail(HS_E_SHAPE, "Scan dimension %lld is out of bounds for input %s.",
                     (long long)dim, infer_text(x));
    if (length >= 0 && x->dims[dim] != length)
      return hs_fail(
          HS_E_SHAPE,
          "All inputs of scan must have the same size in the scan dimension; got %s and %s.",
          infer_text(a->in[0]), infer_text(x));
    length = x->dims[dim], dyn |= hlo_dim_is_dynamic(x, (u32)dim);
    infer_dims d = {0};
    for (u32 k = 0; k < x->rank; k++)
      if (k != dim) infer_push_dim(&d, x, k);
    const hlo_shape *slice;
    HS_TRY(infer_array(a, x->dtype, &d, &slice));
    if (!infer_compatible(slice, p, INFER_ANY_FLOAT))
      return hs_fail(HS_E_SHAPE, "Scan function's parameter %u is %s but the input's slice is %s.",
                     i, infer_text(p), infer_text(slice));
  }
  for (u32 i = 0; i < carries; i++) {
    const hlo_shape *init = a->in[nin + i];
    if (!infer_compatible(init, param_shape(c, nin + i), INFER_ANY_FLOAT) ||
        !infer_compatible(init, res[nres - carries + i], INFER_ANY_FLOAT))
      return hs_fail(HS_E_SHAPE,
                     "Scan carry %u: init %s, parameter %s and result %s must be the same.", i,
                     infer_text(init), infer_text(param_shape(c, nin + i)),
                     infer_text(res[nres - carries + i]));
  }
  if (length < 0) return hlo_infer_stated(a, out);  // no input tells the length
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

// ---- control flow -------------------------------------------------------------------------------
hs_status hlo_infer_call(const infer_args *a, const hlo_shape **out) {
  hlo_computation *c;
  HS_TRY(infer_need_comp(a, HLO_ATTR_TO_APPLY, &c));
  if (c->nparams != a->n)
    return hs_fail(
        HS_E_SHAPE,
        "Call applied function arity must match number of arguments; got: arity: %u, arguments: "
        "%u.",
        c->nparams, a->n);
  for (u32 i = 0; i < a->n; i++)
    if (!infer_compatible(a->in[i], param_shape(c, i), 0))
      return hs_fail(
          HS_E_SHAPE,
          "Call parameter must match argument; got parameter %u shape: %s, argument shape: %s.", i,
          infer_text(param_shape(c, i)), infer_text(a->in[i]));
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
  if (cond->nparams != 1)
    return hs_fail(HS_E_SHAPE, "Condition must take 1 arguments; got %u.", cond->nparams);
  if (body->nparams != 1)
    return hs_fail(HS_E_SHAPE, "Body must take 1 arguments; got %u.", body->nparams);
  if (result_shape(cond)->dtype != HLO_PRED || result_shape(cond)->rank)
    return hs_fail(HS_E_SHAPE, "Condition must return a boolean; got %s.",
                   infer_text(result_shape(cond)));
  if (!infer_compatible(result_shape(body), param_shape(cond, 0), 0) ||
      !infer_compatible(result_shape(body), param_shape(body, 0), 0) ||
      !infer_compatible(result_shape(body), init, 0))
    return hs_fail(
        HS_E_SHAPE,
        "The parameter of condition and body, the result of the body, and init must all have the "
        "same shape; got: "
        "condition %s; body %s -> %s; init %s.",
        infer_text(param_shape(cond, 0)), infer_text(param_shape(body, 0)),
        infer_text(result_shape(body)), infer_text(init));
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
  for (u32 i = 0; i < x->rank; i++) dyn[i] = hlo_dim_is_dynamic(x, i) || hlo_dim_is_dynamic(y, i);
  return hlo_shape_dynamic(ctx, x->dtype, x->rank, x->dims, dyn, NULL);
}
hs_status hlo_infer_conditional(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  const hlo_shape *p = a->in[0];
  if (!hlo_shape_is_scalar(p))
    return hs_fail(HS_E_SHAPE, "The first operand of conditional must be a scalar; got %s.",
                   infer_text(p));
  if (p->dtype != HLO_PRED && p->dtype != HLO_S32)
    return hs_fail(HS_E_SHAPE, "branch_index must be bool or int32_t; got %s.", infer_text(p));
  const hlo_attr *list = hlo_attrs_find(a->attrs, HLO_ATTR_BRANCH_COMPUTATIONS);
  hlo_computation *two[2] = {infer_comp(a, HLO_ATTR_TRUE_COMPUTATION),
                             infer_comp(a, HLO_ATTR_FALSE_COMPUTATION)};
  hlo_computation *const *b = list ? list->v.comps.v : two;
  u32 n = list ? list->v.comps.n : 2;
  if (!list && (!two[0] || !two[1]))
    return hs_fail(
        HS_E_ATTR,
        "conditional needs branch_computations, or true_computation and false_computation");
  if (p->dtype == HLO_PRED && n != 2)
    return hs_fail(HS_E_SHAPE, "A conditional on a pred must have 2 branches; got %u.", n);
  if (n == 0 || a->n != n + 1)
    return hs_fail(HS_E_ARITY,
                   "conditional with %u branches expects %u operands, but has %u operands", n,
                   n + 1, a->n);
  const hlo_shape *r = NULL;
  for (u32 i = 0; i < n; i++) {
    if (!b[i] || !b[i]->root)
      return hs_fail(HS_E_VERIFY, "branch computation %u of conditional has no root", i);
    if (b[i]->nparams != 1)
      return hs_fail(HS_E_SHAPE, "branch computation %u must take 1 argument; got %u.", i,
                     b[i]->nparams);
    if (!infer_compatible(param_shape(b[i], 0), a->in[i + 1], 0))
      return hs_fail(
          HS_E_SHAPE,
          "branch operand %u must match the shape of the only parameter of branch computation %u: "
          "operand shape does "
          "not match parameter; got operand: %s; parameter: %s.",
          i, i, infer_text(a->in[i + 1]), infer_text(param_shape(b[i], 0)));
    if (!r) r = result_shape(b[i]);
    else if (!infer_compatible(r, result_shape(b[i]), 0))
      return hs_fail(
          HS_E_SHAPE,
          "the result of branch 0 computation and branch %u computation must have the same shape; "
          "got: %s and %s.",
          i, infer_text(r), infer_text(result_shape(b[i])));
    r = join_dynamic(a->ctx, r, result_shape(b[i]));
  }
  *out = r;
  return HS_GOOD;
}

// ---- collectives --------------------------------------------------------------------------------
hs_status hlo_infer_all_reduce(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  for (u32 i = 0; i < a->n; i++)
    if (!hlo_shape_is_tuple(a->in[i]))
      HS_TRY(infer_expect_array(a->in[i], "operand of all-reduce"));
  *out = pack(a, a->n, a->in);
  return HS_GOOD;
}
hs_status hlo_infer_collective_same(const infer_args *a, const hlo_shape **out) {
  u32 n = a->n;
  if (infer_int(a, HLO_ATTR_HAS_DYNAMIC_ROOT, 0)) {
    if (n < 2)
      return hs_fail(
          HS_E_SHAPE,
          "A collective-broadcast with a dynamic root needs operand_shapes.size() > 1; the last "
          "operand is the root.");
    n--;
  }
  if (!n)
    return hs_fail(HS_E_ARITY, "%s expects at least 1 operands, but has 0 operands",
                   hlo_op_text(a->op));
  *out = pack(a, n, a->in);
  return HS_GOOD;
}

// Each operand's `dim` times (gather) or divided by (scatter) the number of shards, which the
// written result tells.
static hs_status scale_dim(const infer_args *a, bool up, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  i64 dim = infer_dimension(a);
  if (!a->stated) return hlo_infer_stated(a, out);
  bool tuple = hlo_shape_is_tuple(a->stated);
  if (tuple ? a->stated->nelems != a->n : a->n != 1)
    return hs_fail(HS_E_SHAPE, "%s of %u operands has the result shape %s.", hlo_op_text(a->op),
                   a->n, infer_text(a->stated));
  i64 shards = 0;
  const hlo_shape **v = hs_alloc(a->n * sizeof *v);
  hs_status s = HS_GOOD;
  for (u32 i = 0; i < a->n && hs_ok(s); i++) {
    const hlo_shape *x = a->in[i], *r = tuple ? a->stated->elems[i] : a->stated;
    if (!hlo_shape_is_array(x) || !hlo_shape_is_array(r)) {
      s = infer_expect_array(hlo_shape_is_array(x) ? r : x, hlo_op_text(a->op));
      break;
    }
    if (dim < 0 || dim >= x->rank || r->rank != x->rank) {
      s = hs_fail(HS_E_SHAPE, "%s dimension %lld is out of bounds for %s -> %s.",
                  hlo_op_text(a->op), (long long)dim, infer_text(x), infer_text(r));
      break;
    }
    i64 small = up ? x->dims[dim] : r->dims[dim], big = up ? r->dims[dim] : x->dims[dim];
    infer_dims d = {0};
    for (u32 k = 0; k < x->rank; k++) infer_push_dim(&d, x, k);
    if (small != HLO_UNBOUNDED && big != HLO_UNBOUNDED && small > 0) {
      i64 ratio = big / small;
      if (big % small || (shards && ratio != shards)) {
        s = hs_fail(
            HS_E_SHAPE,
            "%s dimension %lld of %s and %s must differ by the same whole factor in every operand.",
            hlo_op_text(a->op), (long long)dim, infer_text(x), infer_text(r));
        break;
      }
      shards = ratio;
      d.size[dim] = r->dims[dim];
    }
    s = infer_array(a, x->dtype, &d, &v[i]);
  }
  if (hs_ok(s)) *out = tuple ? hlo_shape_tuple(a->ctx, a->n, v) : v[0];
  hs_free(v);
  return s;
}
hs_status hlo_infer_all_gather(const infer_args *a, const hlo_shape **out) {
  return scale_dim(a, true, out);
}
hs_status hlo_infer_reduce_scatter(const infer_args *a, const hlo_shape **out) {
  return scale_dim(a, false, out);
}

hs_status hlo_infer_all_to_all(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  hlo_ints d = infer_ints(a, HLO_ATTR_DIMENSIONS);
  if (d.n) {
    if (a->n != 1)
      return hs_fail(HS_E_SHAPE, "AllToAll with dimensions takes one operand; got %u.", a->n);
    HS_TRY(infer_expect_array(a->in[0], "operand of all-to-all"));
    if (d.v[0] < 0 || d.v[0] >= a->in[0]->rank)
      return hs_fail(HS_E_SHAPE, "AllToAll split_dimension %lld is out-of-bounds in shape %s.",
                     (long long)d.v[0], infer_text(a->in[0]));
    return *out = a->in[0], HS_GOOD;
  }
  for (u32 i = 0; i < a->n; i++)
    if (!infer_compatible(a->in[i], a->in[0], 0))
      return hs_fail(
          HS_E_SHAPE,
          "HLO all-to-all has operands with different shapes: the 0th operand is %s, but the %uth "
          "is %s.",
          infer_text(a->in[0]), i, infer_text(a->in[i]));
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
      return hs_fail(
          HS_E_SHAPE,
          "RaggedAllToAll needs integral offsets and sizes of one shape; operand %u is %s, operand "
          "2 is %s.",
          i, infer_text(a->in[i]), infer_text(a->in[2]));
  }
  if (in->dtype != res->dtype)
    return hs_fail(
        HS_E_SHAPE,
        "RaggedAllToAll input and output must have the same element type; got %s and %s.",
        infer_text(in), infer_text(res));
  *out = res;
  return HS_GOOD;
}
// With slice sizes (in place) the operands are input, output, input offsets, output offsets.
hs_status hlo_infer_collective_permute(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  const hlo_int_lists *slices = infer_ptr(a, HLO_ATTR_PERMUTE_SLICE_SIZES);
  if (slices && slices->n) {
    if (a->n != 4)
      return hs_fail(HS_E_ARITY,
                     "collective-permute with slice_sizes expects 4 operands, but has %u operands",
                     a->n);
    return *out = a->in[1], HS_GOOD;
  }
  *out = pack(a, a->n, a->in);
  return HS_GOOD;
}
hs_status hlo_infer_send(const infer_args *a, const hlo_shape **out) {
  *out = hlo_shape_tuple(a->ctx, 3,
                         (const hlo_shape *const[]){a->in[0], hlo_shape_scalar(a->ctx, HLO_U32),
                                                    hlo_shape_token(a->ctx)});
  return HS_GOOD;
}
