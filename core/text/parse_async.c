// parse_async.c — the short form of asynchronous operations: X-start, X-update, X-done for any
// opcode X that has no such forms of its own. They abbreviate async-start, async-update and
// async-done of a computation that holds X alone (XLA: async syntax sugar in hlo_parser.cc).
//
// Operands may be bound late: the start may name none, and updates append them to the state tuple
// (its element 0). The wrapped computation then grows parameters as the chain is read, and the
// shape of X becomes known at the latest with the -done. For call and fusion both come from the
// called computation at once.
#include "core/ir/async.h"
#include "core/text/parse.h"

static bool suffix(hs_str s, const char *t, hs_str *root) {
  size_t n = strlen(t);
  if (s.n <= n || memcmp(s.p + s.n - n, t, n) != 0) return false;
  *root = (hs_str){s.p, s.n - n};
  return true;
}

bool hlo_async_opcode(hlo_rhs *r) {
  hs_str root;
  int sugar = suffix(r->op_text, "-start", &root)    ? 's'
              : suffix(r->op_text, "-update", &root) ? 'u'
              : suffix(r->op_text, "-done", &root)   ? 'd'
                                                     : 0;
  hlo_opcode op = sugar ? hlo_op_find(root) : HLO_OP_INVALID;
  if (op == HLO_OP_INVALID || hlo_has_own_async(op)) return false;
  r->op = op;
  r->sugar = sugar;
  return true;
}

static bool goes_to_root(hlo_opcode op, hlo_attr_id id) {
  return id != HLO_ATTR_ASYNC_EXECUTION_THREAD && hlo_op_takes_attr(op, id);
}
static bool is_shared(hlo_attr_id id) {
  return id == HLO_ATTR_METADATA || id == HLO_ATTR_BACKEND_CONFIG ||
         id == HLO_ATTR_FRONTEND_ATTRIBUTES || id == HLO_ATTR_STATISTICS || id == HLO_ATTR_ORIGIN;
}

// What a link of the chain says of the operation it runs: the thread (the start does), annotations
// (the last one decides).
void hlo_settle_async(hlo_instr *i) {
  hlo_computation *c = hlo_is(i, HLO_ASYNC_START) || i->attrs ? hlo_async_wrapped(i) : NULL;
  hs_str thread = hlo_attr_str(i, HLO_ATTR_ASYNC_EXECUTION_THREAD);
  if (c && hlo_is(i, HLO_ASYNC_START)) hlo_set_thread_deep(c, thread);
  // the usual one is not written
  if (hs_str_eq(thread, HS_STR("main"))) hlo_remove_attr(i, HLO_ATTR_ASYNC_EXECUTION_THREAD);
  // down to the operation itself, where what runs is a chain again
  while (c && c->root && i->attrs) {
    for (u32 k = 0; k < i->attrs->n; k++)
      if (is_shared(i->attrs->v[k].id)) hlo_set_attr(c->root, i->attrs->v[k]);
    c = hlo_op_has(c->root->opcode, HLO_F_ASYNC_WRAPPER) ? hlo_async_wrapped(c->root) : NULL;
  }
}

static const hlo_attr *attr_of(hlo_parser *P, const hlo_rhs *r, hlo_attr_id id) {
  for (size_t k = r->attrs; k < P->attrs.n; k++)
    if (P->attrs.v[k].id == id) return &P->attrs.v[k];
  return NULL;
}

static const hlo_computation *callee_of(const hlo_instr *root) {
  if (!hlo_is(root, HLO_CALL) && !hlo_is(root, HLO_FUSION)) return NULL;
  return hlo_attr_comp(root, hlo_is(root, HLO_CALL) ? HLO_ATTR_TO_APPLY : HLO_ATTR_CALLS);
}

// Gives the wrapped computation the parameters that the state (element 0 of `state`) has bound by
// now.
static void bind_parameters(hlo_instr *root, const hlo_shape *state) {
  hlo_computation *c = root->parent;
  const hlo_shape *bound = state->elems[0];
  const hlo_computation *callee = callee_of(root);
  u32 n = HS_MAX(bound->nelems, callee ? callee->nparams : 0);
  for (u32 k = c->nparams; k < n; k++) {
    const hlo_shape *s = k < bound->nelems ? bound->elems[k] : callee->params[k]->shape;
    hlo_move_before(hlo_add_parameter(c, k, s, "async_param"), root);
  }
  for (u32 k = 0; k < bound->nelems; k++)
    if (c->params[k]->shape != bound->elems[k]) hlo_set_shape(c->params[k], bound->elems[k]);
  if (root->noperands != c->nparams) hlo_set_operands(root, c->nparams, c->params);
}

bool hlo_check_async_state(hlo_parser *P, const hlo_rhs *r) {
  if (r->shape && hlo_shape_is_tuple(r->shape) && r->shape->nelems >= 2 &&
      hlo_shape_is_tuple(r->shape->elems[0]))
    return true;
  return hlo_lex_error(
      LX, HS_E_SHAPE, r->op_at,
      "AsyncStart and AsyncUpdate expect the shape to be in the form of ((operand0_shape, "
      "operand1_shape, ...), output_shape, ...)");
}

static bool make_start(hlo_parser *P, hlo_rhs *r, const char *want, hlo_instr **out) {
  if (!hlo_check_async_state(P, r)) return false;
  P->unmarked = P->nested = true;
  hlo_computation *c = hlo_add_computation(P->m, "async_wrapped");
  hlo_name_node_of_(c->name)->derived = true;  // nobody wrote it
  hs_vec_push(&P->finished, c);
  hlo_instr *root = hlo_add(c, r->op, r->shape->elems[1], 0, NULL, hlo_op_text(r->op));
  hlo_set_root(c, root);
  HS_VEC(hlo_attr) mine = {0}, its = {0};
  for (size_t k = r->attrs; k < P->attrs.n; k++) {
    hlo_attr a = P->attrs.v[k];
    if (goes_to_root(r->op, a.id) || is_shared(a.id)) hs_vec_push(&its, a);
    if (!goes_to_root(r->op, a.id)) hs_vec_push(&mine, a);
    if (a.id == HLO_ATTR_LITERAL) P->attrs.v[k].v.literal = hlo_literal_ref(a.v.literal);
  }
  if (its.n) hlo_set_attrs(root, (u32)its.n, its.v);
  const hlo_attr *l = hlo_attr_get(root, HLO_ATTR_LITERAL);
  // the parser's two; the module has its own
  if (l) hlo_literal_unref(l->v.literal), hlo_literal_unref(l->v.literal);
  hs_vec_free(&its);
  const hlo_computation *callee = callee_of(root);
  if (callee && callee->root) hlo_set_shape(root, callee->root->shape);
  bind_parameters(root, r->shape);
  u32 n = (u32)(P->operands.n - r->operands);
  *out =
      hlo_add(P->comp, HLO_ASYNC_START, r->shape, n, n ? P->operands.v + r->operands : NULL, want);
  hlo_attr calls = {.id = HLO_ATTR_CALLS, .v.comp = c};
  hs_vec_push(&mine, calls);
  for (size_t k = mine.n - 1; k > 0 && mine.v[k - 1].id > HLO_ATTR_CALLS; k--)
    mine.v[k] = mine.v[k - 1], mine.v[k - 1] = calls;
  hlo_set_attrs(*out, (u32)mine.n, mine.v);
  hs_vec_free(&mine);
  hs_vec_push(&P->wrapped, ((hlo_wrapped){root, r->op_at}));
  hlo_settle_async(*out);
  return true;
}

static bool check_chain(hlo_parser *P, const hlo_rhs *r, const hlo_instr *start,
                        const hlo_instr *root) {
  if (root->opcode != r->op)
    return hlo_lex_error(LX, HS_E_VERIFY, r->op_at,
                         "Expect async wrapped opcode to be %s, but got %s",
                         hlo_op_text(root->opcode), hlo_op_text(r->op));
  const hlo_attr *t = attr_of(P, r, HLO_ATTR_ASYNC_EXECUTION_THREAD);
  hs_str have = hlo_attr_str(start, HLO_ATTR_ASYNC_EXECUTION_THREAD),
         want = have.n ? have : HS_STR("main");
  if (t && !hs_str_eq(t->v.s, want))
    return hlo_lex_error(LX, HS_E_ATTR, r->op_at,
                         "Expect async_execution_thread to be %.*s, but got %.*s", (int)want.n,
                         want.p, (int)t->v.s.n, t->v.s.p);
  return true;
}

bool hlo_check_async_operand(hlo_parser *P, const hlo_rhs *r, u32 n, hlo_instr *const *ops) {
  if (n == 0)
    return hlo_lex_error(LX, HS_E_ARITY, r->op_at,
                         "No operand found for AsyncUpdate and AsyncDone");
  // updates bind more operands, a done none
  if (n > 1 && (r->op == HLO_ASYNC_DONE || r->sugar == 'd'))
    return hlo_lex_error(LX, HS_E_ARITY, r->op_at, "expects 1 operands, but has %u operands", n);
  if (hlo_is(ops[0], HLO_ASYNC_DONE))
    return hlo_lex_error(LX, HS_E_VERIFY, r->op_at,
                         "AsyncUpdate and AsyncDone cannot have AsyncDone as operand.");
  return true;
}

bool hlo_make_async(hlo_parser *P, hlo_rhs *r, const char *want, hlo_instr **out) {
  *out = NULL;
  if (r->sugar == 's') return make_start(P, r, want, out);
  u32 n = (u32)(P->operands.n - r->operands);
  hlo_instr **ops = P->operands.v + r->operands;
  if (!r->shape)
    return hlo_lex_error(LX, HS_E_SHAPE, r->op_at, "cannot infer shape for opcode: %.*s",
                         (int)r->op_text.n, r->op_text.p);
  if (!hlo_check_async_operand(P, r, n, ops)) return false;
  if (r->sugar == 'u' && !hlo_check_async_state(P, r)) return false;
  hlo_instr *start = hlo_async_origin(ops[0], NULL);
  hlo_computation *c = start ? hlo_attr_comp(start, HLO_ATTR_CALLS) : NULL;
  if (c && !check_chain(P, r, start, c->root)) return false;
  bool mine = false;  // only computations that this reader made grow with the chain
  for (size_t k = 0; c && k < P->wrapped.n; k++) mine |= P->wrapped.v[k].root == c->root;
  if (mine && r->sugar == 'u') {
    bind_parameters(c->root, r->shape);
    bool output = !(hlo_shape_is_tuple(r->shape->elems[1]) && r->shape->elems[1]->nelems == 0);
    if (output && !callee_of(c->root) && c->root->shape != r->shape->elems[1])
      hlo_set_shape(c->root, r->shape->elems[1]);
  }
  if (mine && r->sugar == 'd' && !callee_of(c->root) && c->root->shape != r->shape)
    hlo_set_shape(c->root, r->shape);
  *out =
      hlo_add(P->comp, r->sugar == 'u' ? HLO_ASYNC_UPDATE : HLO_ASYNC_DONE, r->shape, n, ops, want);
  for (size_t k = r->attrs; k < P->attrs.n; k++) {
    hlo_attr a = P->attrs.v[k];
    if (a.id == HLO_ATTR_ASYNC_EXECUTION_THREAD ||
        (goes_to_root(r->op, a.id) && a.id != HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING))
      continue;
    hlo_set_attr(*out, a);
  }
  hlo_settle_async(*out);
  return true;
}

// At the end of the text every chain has bound what its operation takes: now the operation is
// checked and completed as if it stood there in its own words, which is how it will be printed.
void hlo_check_wrapped(hlo_parser *P) {
  for (size_t k = 0; k < P->wrapped.n; k++) {
    hlo_instr *i = P->wrapped.v[k].root;
    LX->failed = false;
    hlo_rhs r = {.op = i->opcode,
                 .shape = i->shape,
                 .op_at = P->wrapped.v[k].at,
                 .operands = P->operands.n,
                 .attrs = P->attrs.n,
                 .ctrl = P->ctrl.n};
    for (u32 j = 0; j < i->noperands; j++) hs_vec_push(&P->operands, hlo_operand(i, j));
    for (u32 j = 0; i->attrs && j < i->attrs->n; j++) hs_vec_push(&P->attrs, i->attrs->v[j]);
    if (hlo_complete_rhs(P, &r)) {
      u32 n = (u32)(P->attrs.n - r.attrs), had = i->attrs ? i->attrs->n : 0;
      if (n != had) hlo_set_attrs(i, n, n ? P->attrs.v + r.attrs : NULL);
      if (r.shape != i->shape) hlo_set_shape(i, r.shape);
    }
    P->operands.n = r.operands;
    P->attrs.n = r.attrs;
  }
}
