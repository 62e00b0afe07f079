// parse_op.c — checks and defaults per opcode beyond its row in ops.def: operand counts, rules
// that XLA checks while parsing, attributes that are implied, and the shape when it is left out.
// Messages that XLA's own tests expect keep XLA's wording.
#include "core/infer/infer.h"
#include "core/text/parse.h"

#include <stdio.h>

static hlo_instr **operands_of(hlo_parser *P, const hlo_rhs *r, u32 *n) {
  *n = (u32)(P->operands.n - r->operands);
  return *n ? P->operands.v + r->operands : NULL;
}

static hlo_attr *attr_of(hlo_parser *P, const hlo_rhs *r, hlo_attr_id id) {
  for (size_t k = r->attrs; k < P->attrs.n; k++)
    if (P->attrs.v[k].id == id) return &P->attrs.v[k];
  return NULL;
}

static void imply(hlo_parser *P, const hlo_rhs *r, hlo_attr a) {
  if (attr_of(P, r, a.id)) return;
  hs_vec_push(&P->attrs, a);
  size_t k = P->attrs.n - 1;
  for (; k > r->attrs && P->attrs.v[k - 1].id > a.id; k--) P->attrs.v[k] = P->attrs.v[k - 1];
  P->attrs.v[k] = a;
}

static void forget(hlo_parser *P, const hlo_rhs *r, hlo_attr_id id) {
  hlo_attr *a = attr_of(P, r, id);
  if (!a) return;
  memmove(a, a + 1, (size_t)(P->attrs.v + P->attrs.n - a - 1) * sizeof *a);
  P->attrs.n--;
}

bool hlo_missing_attr(hlo_parser *P, const hlo_rhs *r, hlo_attr_id id) {
  static const char *const samples[] = {
      [HLO_AK_INT] = "0", [HLO_AK_INTS] = "{0,1}", [HLO_AK_COMP] = "NAME"};
  hlo_attr_kind kind = hlo_attr_kind_of(id);
  const char *sample = kind < HS_COUNT(samples) ? samples[kind] : NULL, *name = hlo_attr_text(id);
  hlo_lex_error(LX, HS_E_ATTR, r->op_at, "attribute %s is expected but not seen", name);
  hlo_lex_note(LX, "it stands behind the operands, as in %s(...), %s=%s", hlo_op_text(r->op), name,
               sample ? sample : "...");
  return false;
}

static bool shapes_error(hlo_parser *P, const hlo_rhs *r, const char *text, const hlo_shape *a,
                         const hlo_shape *b) {
  hs_buf x = {0}, y = {0};
  hlo_shape_print(&x, a, false);
  hlo_shape_print(&y, b, false);
  hlo_lex_error(LX, HS_E_SHAPE, r->op_at, "%s %s and operand shape %s", text, hs_buf_cstr(&x),
                hs_buf_cstr(&y));
  hs_buf_free(&x);
  hs_buf_free(&y);
  return false;
}

// ---- rules of single opcodes --------------------------------------------------------------------
static bool check_conditional(hlo_parser *P, const hlo_rhs *r, u32 n, hlo_instr **ops) {
  if (!n) return hlo_lex_error(LX, HS_E_ARITY, r->op_at, "expects at least one operand");
  const hlo_shape *p = ops[0]->shape;
  if (!hlo_shape_is_scalar(p))
    return hlo_lex_error(LX, HS_E_SHAPE, r->op_at, "The first operand must be a scalar");
  bool pred = p->dtype == HLO_PRED;
  if (!pred && p->dtype != HLO_S32)
    return hlo_lex_error(LX, HS_E_SHAPE, r->op_at,
                         "The first operand must be a scalar of PRED or S32");
  bool two = attr_of(P, r, HLO_ATTR_TRUE_COMPUTATION) || attr_of(P, r, HLO_ATTR_FALSE_COMPUTATION),
       many = attr_of(P, r, HLO_ATTR_BRANCH_COMPUTATIONS);
  if (pred && many)
    return hlo_lex_error(LX, HS_E_ATTR, r->op_at, "unexpected attribute \"branch_computations\"");
  if (!pred && two)
    return hlo_lex_error(LX, HS_E_ATTR, r->op_at, "unexpected attribute \"true_computation\"");
  if (pred &&
      (!attr_of(P, r, HLO_ATTR_TRUE_COMPUTATION) || !attr_of(P, r, HLO_ATTR_FALSE_COMPUTATION)))
    return hlo_missing_attr(P, r,
                            attr_of(P, r, HLO_ATTR_TRUE_COMPUTATION) ? HLO_ATTR_FALSE_COMPUTATION
                                                                     : HLO_ATTR_TRUE_COMPUTATION);
  return pred || many || hlo_missing_attr(P, r, HLO_ATTR_BRANCH_COMPUTATIONS);
}

static bool check_one_dimension(hlo_parser *P, const hlo_rhs *r) {
  const hlo_attr *a = attr_of(P, r, HLO_ATTR_DIMENSIONS);
  return !a || a->v.ints.n == 1 ||
         hlo_lex_error(LX, HS_E_ATTR, r->op_at, "expects exactly one dimension in dimensions");
}

static bool check_reshape(hlo_parser *P, const hlo_rhs *r, hlo_instr **ops) {
  const hlo_shape *from = ops[0]->shape, *to = r->shape;
  if (!to || !hlo_shape_is_array(from) || !hlo_shape_is_array(to)) return true;
  if (from->elements == to->elements || hlo_shape_is_unbounded(from)) return true;
  return shapes_error(P, r, "expects the same number of elements in result shape", to, from);
}

static bool check_dynamic_reshape(hlo_parser *P, const hlo_rhs *r, u32 n, hlo_instr **ops) {
  if (n == 0) return true;
  if (r->shape && hlo_shape_is_array(r->shape) && n - 1 != r->shape->rank)
    return hlo_lex_error(LX, HS_E_ARITY, r->op_at,
                         "dynamic-reshape expects one dim size operand per result dimension; got "
                         "%u for %u result dimensions",
                         n - 1, r->shape->rank);
  return check_reshape(P, r, ops);
}

// Each constraint must be its operand's shape, with a layout of its own.
static bool check_constraints(hlo_parser *P, const hlo_rhs *r, const hlo_shapes *want,
                              hlo_instr **ops) {
  for (u32 k = 0; k < want->n; k++) {
    if (hlo_shape_compatible(want->v[k], ops[k]->shape)) continue;
    hs_buf a = {0}, b = {0};
    hlo_shape_print(&a, want->v[k], true);
    hlo_shape_print(&b, ops[k]->shape, true);
    hlo_lex_error(LX, HS_E_LAYOUT, r->op_at,
                  "Layout constraint %s for operand %u is not compatible with operand shape %s",
                  hs_buf_cstr(&a), k, hs_buf_cstr(&b));
    hs_buf_free(&a);
    hs_buf_free(&b);
    return false;
  }
  return true;
}

static bool check_custom_call(hlo_parser *P, const hlo_rhs *r, u32 n, hlo_instr **ops) {
  const hlo_attr *a = attr_of(P, r, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  const hlo_shapes *c = a ? a->v.p : NULL;
  if (c && c->n != n)
    return hlo_lex_error(LX, HS_E_ATTR, r->op_at,
                         "Expected %u operand layout constraints, %u given", n, c->n);
  if (c && !check_constraints(P, r, c, ops)) return false;
  hlo_attr *apply = attr_of(P, r, HLO_ATTR_TO_APPLY);
  if (!apply) return true;
  if (attr_of(P, r, HLO_ATTR_CALLED_COMPUTATIONS))
    return hlo_lex_error(LX, HS_E_ATTR, r->op_at,
                         "A single instruction can't have both to_apply and called_computations");
  hlo_computation *one = apply->v.comp;
  forget(P, r, HLO_ATTR_TO_APPLY);
  imply(P, r,
        (hlo_attr){.id = HLO_ATTR_CALLED_COMPUTATIONS,
                   .v.comps = {1, hs_arena_dup(LX->arena, &one, sizeof one)}});
  return true;
}

static void complete_compare(hlo_parser *P, const hlo_rhs *r, hlo_instr **ops) {
  const hlo_attr *a = attr_of(P, r, HLO_ATTR_COMPARE_TYPE);
  if (!a) return;
  hlo_dtype t = ops[0]->shape->dtype;
  i64 usual = hlo_dtype_is_float(t) || hlo_dtype_is_complex(t) ? HLO_COMPARE_TYPE_FLOAT
              : hlo_dtype_is_signed(t)                         ? HLO_COMPARE_TYPE_SIGNED
                                                               : HLO_COMPARE_TYPE_UNSIGNED;
  if (a->v.i == usual) forget(P, r, HLO_ATTR_COMPARE_TYPE);
}

static bool check_async(hlo_parser *P, const hlo_rhs *r, u32 n, hlo_instr **ops) {
  if (r->op != HLO_ASYNC_DONE && r->shape && !hlo_check_async_state(P, r)) return false;
  if (r->op == HLO_ASYNC_START) return true;
  if (!hlo_check_async_operand(P, r, n, ops)) return false;
  const hlo_instr *chain = ops[0];
  while (hlo_is(chain, HLO_ASYNC_UPDATE) && chain->noperands) chain = hlo_operand(chain, 0);
  const hlo_attr *calls = attr_of(P, r, HLO_ATTR_CALLS);
  if (calls && hlo_is(chain, HLO_ASYNC_START) &&
      hlo_attr_comp(chain, HLO_ATTR_CALLS) != calls->v.comp)
    return hlo_lex_error(LX, HS_E_ATTR, r->op_at,
                         "Expect async_wrapped_computation to be %s, but got %s",
                         hlo_attr_comp(chain, HLO_ATTR_CALLS)->name, calls->v.comp->name);
  const hlo_attr *thread = attr_of(P, r, HLO_ATTR_ASYNC_EXECUTION_THREAD);
  hs_str have = hlo_is(chain, HLO_ASYNC_START)
                    ? hlo_attr_str(chain, HLO_ATTR_ASYNC_EXECUTION_THREAD)
                    : (hs_str){0};
  if (!have.n) have = HS_STR("main");
  if (thread && hlo_is(chain, HLO_ASYNC_START) && !hs_str_eq(thread->v.s, have))
    return hlo_lex_error(LX, HS_E_ATTR, r->op_at,
                         "Expect async_execution_thread to be %.*s, but got %.*s", (int)have.n,
                         have.p, (int)thread->v.s.n, thread->v.s.p);
  forget(P, r, HLO_ATTR_ASYNC_EXECUTION_THREAD);
  forget(P, r, HLO_ATTR_CALLS);
  return true;
}

// send and recv: the channel of -done is that of the operand.
static bool check_channel(hlo_parser *P, const hlo_rhs *r, hlo_instr **ops) {
  const hlo_attr *mine = attr_of(P, r, HLO_ATTR_CHANNEL_ID);
  hlo_opcode want = r->op == HLO_SEND_DONE ? HLO_SEND : HLO_RECV;
  if (!hlo_is(ops[0], want)) return true;
  const hlo_attr *its = hlo_attr_get(ops[0], HLO_ATTR_CHANNEL_ID);
  if (mine && its && mine->v.i != its->v.i)
    return hlo_lex_error(LX, HS_E_ATTR, r->op_at, "channel_id differs from that of the operand");
  return true;
}

// The shapes of these say nothing new: XLA builds them from the operands and forgets what was
// written, but for the data that an infeed or a recv brings.
static bool settle_shape(hlo_parser *P, hlo_rhs *r, u32 n, hlo_instr **ops) {
  const hlo_shape *token = hlo_shape_token(P->ctx),
                  *parts[3] = {NULL, hlo_shape_scalar(P->ctx, HLO_U32), token};
  const hlo_shape *given = r->op == HLO_RECV_DONE ? ops[0]->shape : r->shape;
  switch (r->op) {
  case HLO_RECV:
  case HLO_RECV_DONE:
  case HLO_INFEED:
    if (!given || !hlo_shape_is_tuple(given) || !given->nelems)
      return hlo_lex_error(LX, HS_E_SHAPE, r->op_at, "%s must have a non-empty tuple shape",
                           r->op == HLO_RECV_DONE ? "the operand of recv-done"
                                                  : hlo_op_text(r->op));
    parts[0] = given->elems[0];
    if (r->op != HLO_RECV) parts[1] = token;
    r->shape = hlo_shape_tuple(P->ctx, r->op == HLO_RECV ? 3 : 2, parts);
    return true;
  case HLO_SEND: r->shape = NULL; return true;  // inferred
  case HLO_ADD_DEPENDENCY: r->shape = ops[0]->shape; return true;
  case HLO_OUTFEED:
    if (n) imply(P, r, (hlo_attr){.id = HLO_ATTR_OUTFEED_SHAPE, .v.shape = ops[0]->shape});
    r->shape = token;
    return true;
  default: r->shape = token; return true;
  }
}

static bool check_op(hlo_parser *P, hlo_rhs *r) {
  u32 n;
  hlo_instr **ops = operands_of(P, r, &n);
  hlo_attr yes = {.v.i = 1}, no = {.v.i = 0};
  switch (r->op) {
  case HLO_CONDITIONAL: return check_conditional(P, r, n, ops);
  case HLO_CONCATENATE:
  case HLO_SORT:
  case HLO_GET_DIMENSION_SIZE:
  case HLO_SET_DIMENSION_SIZE: return check_one_dimension(P, r);
  case HLO_ALL_REDUCE:
  case HLO_ALL_REDUCE_START:
  case HLO_RAGGED_ALL_TO_ALL:
  case HLO_COLLECTIVE_BROADCAST:
  case HLO_ALL_TO_ALL:
  case HLO_ALL_GATHER:
  case HLO_ALL_GATHER_START:
  case HLO_REDUCE_SCATTER: {
    bool dim = r->op == HLO_ALL_GATHER || r->op == HLO_ALL_GATHER_START ||
               r->op == HLO_REDUCE_SCATTER || r->op == HLO_ALL_TO_ALL;
    if (dim && !check_one_dimension(P, r)) return false;
    imply(P, r,
          (hlo_attr){.id = HLO_ATTR_REPLICA_GROUPS, .v.p = HS_NEW(LX->arena, hlo_replica_groups)});
    no.id = HLO_ATTR_HAS_DYNAMIC_ROOT;
    if (r->op == HLO_COLLECTIVE_BROADCAST) imply(P, r, no);
    return true;
  }
  case HLO_RESHAPE: return check_reshape(P, r, ops);
  case HLO_DYNAMIC_RESHAPE: return check_dynamic_reshape(P, r, n, ops);
  case HLO_REDUCE:
  case HLO_REDUCE_WINDOW:
    return (n >= 2 && n % 2 == 0) ||
           hlo_lex_error(LX, HS_E_ARITY, r->op_at,
                         "expects an even number of operands, at least 2, but has %u operands", n);
  case HLO_SCATTER:
    return n % 2 == 1 || hlo_lex_error(LX, HS_E_ARITY, r->op_at,
                                       "expects an odd number of operands, but has %u operands", n);
  case HLO_CONVOLUTION:
    return n >= 2 ||
           hlo_lex_error(LX, HS_E_ARITY, r->op_at, "expects 2 operands, but has %u operands", n);
  case HLO_GET_TUPLE_ELEMENT: {
    const hlo_shape *t = ops[0]->shape;
    i64 k = attr_of(P, r, HLO_ATTR_INDEX)->v.i;
    if (hlo_shape_is_tuple(t) && k >= 0 && k < t->nelems) return true;
    if (!hlo_shape_is_tuple(t))
      return hlo_lex_error(LX, HS_E_SHAPE, r->op_at,
                           "get-tuple-element takes an element of a tuple, but %s is none",
                           ops[0]->name);
    return hlo_lex_error(LX, HS_E_SHAPE, r->op_at,
                         "tuple index %lld is out of bounds: %s has %u elements", (long long)k,
                         ops[0]->name, t->nelems);
  }
  case HLO_MAP: forget(P, r, HLO_ATTR_DIMENSIONS); return true;
  case HLO_SCAN: no.id = HLO_ATTR_IS_ASSOCIATIVE; return imply(P, r, no), check_one_dimension(P, r);
  case HLO_TOPK: yes.id = HLO_ATTR_LARGEST; return imply(P, r, yes), true;
  case HLO_TUPLE:
    if (r->shape && (!hlo_shape_is_tuple(r->shape) || r->shape->nelems != n))
      return hlo_lex_error(LX, HS_E_ARITY, r->op_at,
                           "tuple shape has %u elements, but the tuple has %u operands",
                           r->shape->nelems, n);
    return true;
  case HLO_CUSTOM_CALL: return check_custom_call(P, r, n, ops);
  case HLO_COMPARE: return complete_compare(P, r, ops), true;
  case HLO_SEND_DONE:
  case HLO_RECV_DONE: return check_channel(P, r, ops) && settle_shape(P, r, n, ops);
  case HLO_SEND:
  case HLO_RECV:
  case HLO_INFEED:
  case HLO_OUTFEED:
  case HLO_AFTER_ALL:
  case HLO_ADD_DEPENDENCY: return settle_shape(P, r, n, ops);
  case HLO_ASYNC_START:
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE: return check_async(P, r, n, ops);
  default: return true;
  }
}

// ---- joining the parts --------------------------------------------------------------------------
static bool infer(hlo_parser *P, hlo_rhs *r) {
  u32 n, na = (u32)(P->attrs.n - r->attrs);
  hlo_instr **ops = operands_of(P, r, &n);
  size_t mark = P->shapes.n;
  for (u32 k = 0; k < n; k++) hs_vec_push(&P->shapes, ops[k]->shape);
  hlo_attrs *attrs = hs_alloc(sizeof *attrs + na * sizeof *attrs->v);
  attrs->n = na;
  if (na) memcpy(attrs->v, P->attrs.v + r->attrs, na * sizeof *attrs->v);
  const hlo_shape *const *in = P->shapes.v ? P->shapes.v + mark : NULL;
  bool ok =
      hlo_lex_status(LX, hlo_infer_shape(P->ctx, r->op, n, in, attrs, NULL, &r->shape), r->op_at);
  if (ok) r->shape = hlo_infer_layout(P->ctx, r->op, n, in, attrs, r->shape);
  if (ok && !P->opt.keep_missing_layouts) r->shape = hlo_shape_fill_layout(P->ctx, r->shape);
  hs_free(attrs);
  P->shapes.n = mark;
  return ok;
}

bool hlo_complete_rhs(hlo_parser *P, hlo_rhs *r) {
  u32 n;
  hlo_instr **ops = operands_of(P, r, &n);
  if (r->sugar)
    return r->op != HLO_CUSTOM_CALL || r->sugar != 's' || check_custom_call(P, r, n, ops);
  // an update without operands is told that it has no start (check_async)
  if (!hlo_op_takes(r->op, n) && r->op != HLO_ASYNC_UPDATE)
    return hlo_lex_error(LX, HS_E_ARITY, r->op_at, "expects %s%u operands, but has %u operands",
                         hlo_op_at_least(r->op), hlo_op_least(r->op), n);
  if (!check_op(P, r)) return false;
  if (r->shape) return true;
  if (hlo_ops[r->op].inferable || r->op == HLO_SEND) return infer(P, r);
  hlo_lex_error(LX, HS_E_SHAPE, r->op_at, "cannot infer shape for opcode: %s", hlo_op_text(r->op));
  hlo_lex_note(LX, "write the shape before it, as in f32[2,3] %s(...)", hlo_op_text(r->op));
  return false;
}

// One sharding for a result that is a tuple is one for each of its leaves (an empty tuple keeps
// one).
static void spread_sharding(hlo_parser *P, const hlo_rhs *r) {
  hlo_attr *a = r->shape && hlo_shape_is_tuple(r->shape) && P->attrs.n > r->attrs
                    ? attr_of(P, r, HLO_ATTR_SHARDING)
                    : NULL;
  const hlo_sharding *one = a ? a->v.p : NULL;
  if (!one || one->type == HLO_SH_TUPLE) return;
  u32 n = HS_MAX(hlo_shape_leaves(r->shape), 1u);
  const hlo_sharding **each = HS_NEW_ARRAY(LX->arena, const hlo_sharding *, n);
  for (u32 k = 0; k < n; k++) each[k] = one;
  hlo_sharding *all = HS_NEW(LX->arena, hlo_sharding);
  all->type = HLO_SH_TUPLE;
  all->nchildren = n;
  all->children = each;
  a->v.p = all;
}

bool hlo_make_instr(hlo_parser *P, hlo_rhs *r, hs_str name, hlo_instr **out) {
  spread_sharding(P, r);
  char made[128];
  hs_str want = name;
  if (!name.n)
    want = (hs_str){made, (size_t)snprintf(made, sizeof made, "%.*s.anon",
                                           (int)HS_MIN(r->op_text.n, 100u), r->op_text.p)};
  if (r->sugar) {
    char *s = hs_format("%.*s", (int)want.n, want.p);
    bool ok = hlo_make_async(P, r, s, out);
    hs_free(s);
    return ok;
  }
  if (r->op == HLO_PARAMETER) {
    if (r->number < P->comp->nparams && P->comp->params[r->number])
      return hlo_lex_error(LX, HS_E_VERIFY, r->op_at, "Duplicate parameter number %lld",
                           (long long)r->number);
    imply(P, r, (hlo_attr){.id = HLO_ATTR_PARAMETER_NUMBER, .v.i = r->number});
  } else if (r->op == HLO_CONSTANT) {
    imply(P, r, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = r->literal});
    r->shape = hlo_shape_fill_layout(P->ctx, r->literal->shape);
    r->literal = NULL;
  }
  u32 n;
  hlo_instr **ops = operands_of(P, r, &n);
  *out = hlo_load_instr_(P->comp, r->op, r->shape, n, ops, want, (u32)(P->attrs.n - r->attrs),
                         P->attrs.v + r->attrs, !P->into);
  if (!name.n) hlo_name_node_of_((*out)->name)->derived = true;  // nobody wrote it
  hlo_attr *l =
      r->op == HLO_CONSTANT || P->attrs.n > r->attrs ? attr_of(P, r, HLO_ATTR_LITERAL) : NULL;
  if (l) hlo_literal_unref(l->v.literal);  // the module holds its own reference now
  if (P->ctrl.n > r->ctrl)
    hlo_set_ctrl_preds(*out, (u32)(P->ctrl.n - r->ctrl), P->ctrl.v + r->ctrl);
  if (hlo_op_has(r->op, HLO_F_ASYNC_WRAPPER)) hlo_settle_async(*out);
  return true;
}
