// layout.c — layouts of results whose shape the text leaves out. XLA's ShapeInference
// mostly copies an operand's shape and changes what differs, so the operand's layout comes along,
// tiles and memory space included; where it builds a new shape the layout is row-major. Which
// operand an operation copies is a fact of that code, listed here.
#include "core/infer/rules.h"
#include "core/infer/infer.h"

enum { NEW_SHAPE = -1, EACH = -2, CALLEE = -3 };  // EACH: result k takes operand k's

// The operand whose layout the result takes.
static int layout_source(hlo_opcode op) {
  switch (op) {
  case HLO_CLAMP:
  case HLO_TRIANGULAR_SOLVE: return 1;
  case HLO_BATCH_NORM_GRAD:
  case HLO_BATCH_NORM_INFERENCE:
  case HLO_BATCH_NORM_TRAINING:
  case HLO_CHOLESKY:
  case HLO_COPY:
  case HLO_FFT:
  case HLO_REVERSE:
  case HLO_SCATTER:
  case HLO_SELECT:
  case HLO_SELECT_AND_SCATTER:
  case HLO_SET_DIMENSION_SIZE:
  case HLO_WHILE:
  case HLO_ADD_DEPENDENCY:
  case HLO_SEND:
  case HLO_TRANSPOSE: return 0;
  case HLO_SORT:
  case HLO_TUPLE:
  case HLO_OPT_BARRIER: return EACH;
  case HLO_CALL:
  case HLO_CONDITIONAL: return CALLEE;
  default: return hlo_op_has(op, HLO_F_ELEMENTWISE) ? 0 : NEW_SHAPE;
  }
}

// `s` with the layout of `from` where both are arrays of one rank; another element type drops the
// element size.
static const hlo_shape *copy_layout(hlo_ctx *ctx, const hlo_shape *s, const hlo_shape *from) {
  if (hlo_shape_is_tuple(s) && hlo_shape_is_tuple(from) && s->nelems == from->nelems) {
    const hlo_shape **v = hs_alloc((s->nelems + 1) * sizeof *v);
    for (u32 k = 0; k < s->nelems; k++) v[k] = copy_layout(ctx, s->elems[k], from->elems[k]);
    s = hlo_shape_tuple(ctx, s->nelems, v);
    hs_free(v);
    return s;
  }
  if (!hlo_shape_is_array(s) || !hlo_shape_is_array(from) || s->rank != from->rank || !from->layout)
    return s;
  hlo_layout l = *from->layout;
  if (s->dtype != from->dtype) l.element_bits = 0;
  return hlo_shape_with_layout(ctx, s, hlo_layout_intern(ctx, &l));
}

// Dimension d of the result is dimension perm[d] of the operand.
static const hlo_layout *permuted(hlo_ctx *ctx, const hlo_layout *l, hlo_ints perm) {
  hlo_layout p = *l;
  i64 order[HLO_MAX_RANK];
  for (u32 k = 0; k < l->rank; k++)
    for (u32 d = 0; d < perm.n; d++)
      if (perm.v[d] == l->minor_to_major[k]) order[k] = d;
  p.minor_to_major = order;
  return hlo_layout_intern(ctx, &p);
}

static const hlo_shape *first_element(hlo_ctx *ctx, const hlo_shape *s, const hlo_shape *from) {
  const hlo_shape **v = hs_alloc((s->nelems + 1) * sizeof *v);
  for (u32 k = 0; k < s->nelems; k++) v[k] = k ? s->elems[k] : copy_layout(ctx, s->elems[k], from);
  s = hlo_shape_tuple(ctx, s->nelems, v);
  hs_free(v);
  return s;
}

static const hlo_shape *each(hlo_ctx *ctx, const hlo_shape *s, u32 n,
                             const hlo_shape *const *operands) {
  if (!hlo_shape_is_tuple(s) || s->nelems != n)
    return n == 1 ? copy_layout(ctx, s, operands[0]) : s;
  return copy_layout(ctx, s, hlo_shape_tuple(ctx, n, operands));
}

const hlo_shape *hlo_infer_layout(hlo_ctx *ctx, hlo_opcode op, u32 n,
                                  const hlo_shape *const *operands, const hlo_attrs *attrs,
                                  const hlo_shape *s) {
  const infer_args a = {.ctx = ctx, .op = op, .n = n, .in = operands, .attrs = attrs};
  int from = layout_source(op);
  if (op == HLO_SELECT && n == 3 && hlo_shape_is_scalar(operands[0])) from = 1;
  if (op == HLO_GET_TUPLE_ELEMENT) {
    i64 k = infer_int(&a, HLO_ATTR_INDEX, 0);
    s = k >= 0 && k < operands[0]->nelems ? operands[0]->elems[k] : s;
  } else if (op == HLO_TRANSPOSE && n && operands[0]->layout &&
             operands[0]->layout->rank == s->rank) {
    s = hlo_shape_with_layout(
        ctx, s, permuted(ctx, operands[0]->layout, infer_ints(&a, HLO_ATTR_DIMENSIONS)));
  } else if (from == EACH) {
    s = each(ctx, s, n, operands);
  } else if (from == CALLEE) {
    const hlo_computation *c =
        infer_comp(&a, op == HLO_CALL ? HLO_ATTR_TO_APPLY : HLO_ATTR_TRUE_COMPUTATION);
    const hlo_attr *many =
        op == HLO_CONDITIONAL ? hlo_attrs_find(attrs, HLO_ATTR_BRANCH_COMPUTATIONS) : NULL;
    if (many && many->v.comps.n) c = many->v.comps.v[0];
    if (c && c->root) s = copy_layout(ctx, s, c->root->shape);
  } else if (from >= 0 && (u32)from < n) {
    s = hlo_shape_is_tuple(s) && !hlo_shape_is_tuple(operands[from])
            ? first_element(ctx, s, operands[from])
            : copy_layout(ctx, s, operands[from]);
  }
  return s;
}
