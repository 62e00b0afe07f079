// async.c — the verifier's rules for operations split into start and done, for
// asynchronous calls with their state tuple ((operands...), results, context...), and for buffer
// values, which one instruction only may write.
//
// Operands and results of an asynchronous call may be bound late: the state of the start holds a
// prefix of the wrapped computation's parameters and of its results, updates append to both. The
// chain start -> update* -> done may cross tuples, loops and copies; where it does, it is followed
// only as far as it can be seen.
#include "core/ir/async.h"
#include "core/verify/rules.h"

// ---- start and done of one kind -----------------------------------------------------------------
static u32 count_users(const hlo_instr *i) {
  u32 n = 0;
  hlo_for_each_use(u, i) {
    bool again = false;
    for (const hlo_use *w = i->first_use; w != u && !again; w = w->next) again = w->user == u->user;
    n += !again && (u->user->opcode != HLO_CUSTOM_CALL || i->opcode == HLO_SEND ||
                    i->opcode == HLO_RECV);  // custom-calls carry control dependencies
    if (n > 8) break;
  }
  return n;
}
static void check_pairing(verifier *v, const hlo_instr *i) {
  hlo_opcode start = hlo_start_of(i->opcode), done = hlo_done_of(i->opcode);
  if (start != HLO_OP_INVALID)
    NEED(v, i, hlo_operand(i, 0)->opcode == start,
         "The operand of a %s instruction needs to be %s, found %s", hlo_op_text(i->opcode),
         hlo_op_text(start), hlo_op_text(hlo_operand(i, 0)->opcode));
  if (done != HLO_OP_INVALID) {
    u32 users = count_users(i);
    NEED(v, i, users == 1, "The %s instruction requires one consumer, found %u",
         hlo_op_text(i->opcode), users);
    hlo_for_each_use(u, i)
      NEED(v, i, u->user->opcode == done || u->user->opcode == HLO_CUSTOM_CALL,
           "The consumer of a %s instruction needs to be %s, found %s", hlo_op_text(i->opcode),
           hlo_op_text(done), hlo_op_text(u->user->opcode));
  }
  if ((i->opcode == HLO_SEND || i->opcode == HLO_RECV) &&
      !(hlo_is_root(i) && i->parent != v->m->entry)) {
    u32 users = count_users(i);
    NEED(v, i, users == 1, "The %s instruction requires one consumer, found %u",
         hlo_op_text(i->opcode), users);
  }
}

// ---- shapes of the old-style pairs --------------------------------------------------------------
static void check_copy_start(verifier *v, const hlo_instr *i) {
  const hlo_shape *x = hlo_operand(i, 0)->shape, *s = i->shape;
  NEED(v, i,
       hlo_shape_is_tuple(s) && s->nelems == 3 && infer_compatible(s->elems[0], x, 0) &&
           infer_compatible(s->elems[1], x, 0) && hlo_shape_is_scalar(s->elems[2]) &&
           s->elems[2]->dtype == HLO_U32,
       "Expected instruction to have shape equal to (%s, %s, u32[]), actual shape is %s",
       infer_text(x), infer_text(x), infer_text(s));
}
static void check_copy_done(verifier *v, const hlo_instr *i) {
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  NEED(v, i,
       hlo_shape_is_tuple(s) && s->nelems >= 2 && infer_compatible(s->elems[0], s->elems[1], 0),
       "Source and destination buffers in CopyDone arguments need to be the same shape found %s",
       infer_text(s));
  NEED(v, i, verify_same(v, i->shape, s->elems[0]),
       "Expected instruction to have shape equal to %s, actual shape is %s",
       verify_shape_text(v, s->elems[0]), verify_shape_text(v, i->shape));
}
// State of all-gather-start and collective-permute-start: (operands, results, context...); done
// returns results.
static void check_state_done(verifier *v, const hlo_instr *i) {
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  NEED(
      v, i, hlo_shape_is_tuple(s) && s->nelems >= 2 && infer_compatible(s->elems[1], i->shape, 0),
      "Expected instruction to have the shape at index {1} of its operand's %s, actual shape is %s",
      infer_text(s), infer_text(i->shape));
}
static void check_send_recv(verifier *v, const hlo_instr *i) {
  const hlo_shape *s = i->shape, *x = i->noperands ? hlo_operand(i, 0)->shape : NULL;
  switch (i->opcode) {
  case HLO_RECV:
    NEED(v, i,
         hlo_shape_is_tuple(s) && s->nelems >= 3 && s->elems[s->nelems - 1]->dtype == HLO_TOKEN,
         "Expected instruction to have shape (T, u32[], token[]), actual shape is %s",
         infer_text(s));
    NEED(v, i, x->dtype == HLO_TOKEN, "recv expects a token operand, got %s", infer_text(x));
    break;
  case HLO_RECV_DONE:
    NEED(v, i, hlo_shape_is_tuple(s) && s->nelems == 2 && s->elems[1]->dtype == HLO_TOKEN,
         "Expected instruction to have shape (T, token[]), actual shape is %s", infer_text(s));
    if (hlo_operand(i, 0)->opcode == HLO_RECV)
      NEED(v, i, x->nelems && infer_compatible(s->elems[0], x->elems[0], 0),
           "Expected instruction to have shape equal to (%s, token[]), actual shape is %s",
           infer_text(x->nelems ? x->elems[0] : x), infer_text(s));
    break;
  case HLO_SEND:
    NEED(v, i, hlo_operand(i, 1)->shape->dtype == HLO_TOKEN,
         "send expects a token as second operand, got %s", infer_text(hlo_operand(i, 1)->shape));
    break;
  case HLO_INFEED:
    NEED(v, i, hlo_shape_is_tuple(s) && s->nelems == 2 && s->elems[1]->dtype == HLO_TOKEN,
         "infeed must have the shape (data, token[]), got %s", infer_text(s));
    break;
  case HLO_OUTFEED: {
    const hlo_attr *a = hlo_attr_get(i, HLO_ATTR_OUTFEED_SHAPE);
    if (a && a->v.shape)
      NEED(v, i, infer_compatible(a->v.shape, x, 0),
           "Expected outfeed shape to be equal to operand's shape %s, actual shape is %s",
           infer_text(x), infer_text(a->v.shape));
    break;
  }
  default: break;
  }
}

// ---- asynchronous calls -------------------------------------------------------------------------
// A start must be finished, or be handed on to where it may be: into a tuple, a loop, the caller.
static bool reaches_done(const verifier *v, const hlo_instr *start) {
  HS_VEC(const hlo_instr *) todo = {0};
  bool found = false;
  hs_vec_push(&todo, start);
  while (todo.n && !found) {
    const hlo_instr *i = hs_vec_pop(&todo);
    found = hlo_is_root(i) && i->parent != v->m->entry;
    hlo_for_each_use(u, i) {
      if (u->user->opcode == HLO_ASYNC_UPDATE && hlo_slot(u) == 0) hs_vec_push(&todo, u->user);
      else found = true;
    }
  }
  hs_vec_free(&todo);
  return found;
}
static const hlo_computation *wrapped(const hlo_instr *i) {
  const hlo_computation *c = hlo_async_wrapped(i);
  return c && verify_callable(i->parent->module, c) ? c : NULL;
}
static bool has_frontend_key(const hlo_instr *i, const char *key) {
  return hlo_frontend_find(hlo_attr_get(i, HLO_ATTR_FRONTEND_ATTRIBUTES), key) != NULL;
}
static void check_wrapped_body(verifier *v, const hlo_instr *i, const hlo_computation *c) {
  if (has_frontend_key(i, "_collectives_group") || has_frontend_key(i, "_xla_stream_annotation"))
    return;
  bool p2p = false;
  u32 others = 0;
  hlo_for_each_instr(k, c) {
    if (k->opcode == HLO_PARAMETER || k == c->root) continue;
    others++;
    p2p |=
        hlo_op_has(k->opcode, HLO_F_COLLECTIVE) || k->opcode == HLO_SEND || k->opcode == HLO_RECV;
  }
  NEED(v, i, !others || !p2p,
       "Asynchronous computation %s expected to contain only the root and parameter instructions.",
       c->name);
}

// The results bound so far: all of them, or a prefix (of a tuple; nothing yet of anything else).
static bool is_prefix(const hlo_shape *part, const hlo_shape *whole) {
  if (infer_compatible(part, whole, 0)) return true;
  if (!hlo_shape_is_tuple(part)) return false;
  if (!hlo_shape_is_tuple(whole)) return part->nelems == 0;
  for (u32 k = 0; k < part->nelems; k++)
    if (k >= whole->nelems || !infer_compatible(part->elems[k], whole->elems[k], 0)) return false;
  return true;
}
static void check_state(verifier *v, const hlo_instr *i, const hlo_shape *s,
                        const hlo_computation *c) {
  const char *op = hlo_op_text(i->opcode);
  NEED(v, i, hlo_shape_is_tuple(s) && s->nelems >= 2,
       "The %s expects the async shape to be a tuple of at least two elements, found %s.", op,
       infer_text(s));
  NEED(v, i, hlo_shape_is_tuple(s->elems[0]),
       "The %s expects the async shape at index {0} to be tuple, found %s.", op, infer_text(s));
  if (!c) return;
  bool fits = s->elems[0]->nelems <= c->nparams;
  for (u32 k = 0; fits && k < s->elems[0]->nelems; k++)
    fits = infer_compatible(s->elems[0]->elems[k], c->params[k]->shape, 0);
  NEED(
      v, i, fits,
      "The %s expects the async shape at index {0} to be a tuple with shapes that match the prefix "
      "of the async computation "
      "parameter shape (%s).",
      op, infer_text(s->elems[0]));
  NEED(
      v, i, is_prefix(s->elems[1], c->root->shape),
      "The %s expects the async shape at index {1} to be a tuple with shapes that match the prefix "
      "of the async computation "
      "result shape (%s vs %s).",
      op, infer_text(s->elems[1]), infer_text(c->root->shape));
}
static void check_bound(verifier *v, const hlo_instr *i, u32 first, u32 had) {
  const hlo_shape *args = i->shape->elems[0];
  u32 given = i->noperands - first;
  NEED(v, i, had + given == args->nelems, "The %s expects %u operands, found %u.",
       hlo_op_text(i->opcode), args->nelems - had + first, i->noperands);
  for (u32 k = 0; k < given; k++)
    NEED(v, i, infer_compatible(hlo_operand(i, first + k)->shape, args->elems[had + k], 0),
         "The %s expects the shape of operand %u to match the async shape at index {0, %u} (%s vs "
         "%s).",
         hlo_op_text(i->opcode), first + k, had + k, infer_text(hlo_operand(i, first + k)->shape),
         infer_text(args->elems[had + k]));
}
static void check_async(verifier *v, const hlo_instr *i) {
  const hlo_computation *c = wrapped(i);
  u32 before = v->nerrors;
  if (i->opcode == HLO_ASYNC_DONE) {
    bool lost;
    const hlo_instr *s = hlo_async_origin(hlo_operand(i, 0), &lost);
    NEED(v, i, s || lost, "Async done %s does not trace back to an async start", i->name);
    check_state(v, i, hlo_operand(i, 0)->shape, c);
    if (v->nerrors != before) return;
    const hlo_shape *want = c ? c->root->shape : hlo_operand(i, 0)->shape->elems[1];
    NEED(v, i, infer_compatible(i->shape, want, 0),
         "The async-done expects the shape of output to match the async shape at index {1} (%s vs "
         "%s).",
         infer_text(i->shape), infer_text(want));
    return;
  }
  check_state(v, i, i->shape, c);
  if (v->nerrors != before) return;
  if (i->opcode == HLO_ASYNC_START) {
    check_bound(v, i, 0, 0);
    if (c) check_wrapped_body(v, i, c);
    if (v->nerrors == before)
      NEED(v, i, reaches_done(v, i), "Async start %s has no matching async done", i->name);
  } else {
    NEED(v, i, i->noperands >= 1, "The async-update expects a state as its first operand");
    bool lost;
    NEED(v, i, hlo_async_origin(hlo_operand(i, 0), &lost) || lost,
         "Async update %s does not trace back to an async start", i->name);
    const hlo_shape *s = hlo_operand(i, 0)->shape;
    check_state(v, i, s, c);
    if (v->nerrors != before) return;
    NEED(v, i, is_prefix(s->elems[1], i->shape->elems[1]),
         "The async-update expects the async shape at index {1} to be a tuple with shapes that "
         "match the prefix of its operand's "
         "(%s vs %s).",
         infer_text(s->elems[1]), infer_text(i->shape->elems[1]));
    check_bound(v, i, 1, s->elems[0]->nelems);
  }
  verify_aliasing_attr(v, i);
}

void verify_async(verifier *v, const hlo_instr *i) {
  u32 before = v->nerrors;
  check_pairing(v, i);
  if (v->nerrors != before) return;
  switch (i->opcode) {
  case HLO_ASYNC_START:
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE: check_async(v, i); break;
  case HLO_COPY_START: check_copy_start(v, i); break;
  case HLO_COPY_DONE: check_copy_done(v, i); break;
  case HLO_ALL_GATHER_DONE:
  case HLO_COLLECTIVE_PERMUTE_DONE: check_state_done(v, i); break;
  default: check_send_recv(v, i); break;
  }
}

// ---- buffers ------------------------------------------------------------------------------------
static bool is_buffer(const hlo_shape *s) { return s->dtype == HLO_BUFFER; }
static bool any_buffer(const hlo_shape *s) {
  if (is_buffer(s)) return true;
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems; k++)
    if (any_buffer(s->elems[k])) return true;
  return false;
}

typedef struct buffer_value {
  const hlo_instr *def;
  i64 index[8];
  u32 depth;
  const hlo_instr *writer;
} buffer_value;
typedef HS_VEC(buffer_value) buffer_values;

// Follows an element of a value back through tuples and get-tuple-elements to the instruction that
// made it.
static buffer_value resolve(const hlo_instr *i, const i64 *index, u32 depth) {
  buffer_value r = {.def = i, .depth = depth};
  if (depth) memcpy(r.index, index, depth * sizeof *index);
  for (u32 steps = 0; steps < 100000; steps++) {
    if (r.def->opcode == HLO_GET_TUPLE_ELEMENT && r.depth < 8) {
      memmove(r.index + 1, r.index, r.depth * sizeof *r.index);
      r.index[0] = hlo_attr_int(r.def, HLO_ATTR_INDEX, 0), r.depth++;
      r.def = hlo_operand(r.def, 0);
    } else if (r.def->opcode == HLO_TUPLE && r.depth && r.index[0] >= 0 &&
               r.index[0] < r.def->noperands) {
      r.def = hlo_operand(r.def, (u32)r.index[0]);
      r.depth--;
      memmove(r.index, r.index + 1, r.depth * sizeof *r.index);
    } else {
      break;
    }
  }
  return r;
}
static void written(verifier *v, buffer_values *all, const hlo_instr *by, const hlo_instr *i,
                    const i64 *index, u32 depth) {
  buffer_value r = resolve(i, index, depth);
  r.writer = by;
  for (size_t k = 0; k < all->n; k++)
    if (all->v[k].def == r.def && all->v[k].depth == r.depth &&
        !memcmp(all->v[k].index, r.index, r.depth * sizeof(i64)))
      NEED(v, r.def, false,
           "an HLO buffer value has more than one writers (or unpins): '%s' '{%s}', by %s and %s",
           r.def->name, infer_ints_text(r.depth, r.index), all->v[k].writer->name, by->name);
  hs_vec_push(all, r);
}
// Every buffer leaf of a value is consumed by `by`.
static void written_leaves(verifier *v, buffer_values *all, const hlo_instr *by, const hlo_instr *i,
                           const hlo_shape *s, i64 *index, u32 depth) {
  if (is_buffer(s)) written(v, all, by, i, index, depth);
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems && depth < 7; k++) {
    index[depth] = k;
    written_leaves(v, all, by, i, s->elems[k], index, depth + 1);
  }
}
static bool aliased(const hlo_aliases *l, const i64 *index, u32 depth) {
  for (u32 k = 0; l && k < l->n; k++)
    if (l->v[k].out_index.n == depth &&
        (!depth || !memcmp(l->v[k].out_index.v, index, depth * sizeof *index)))
      return true;
  return false;
}
static void results_aliased(verifier *v, const hlo_instr *i, const hlo_aliases *l,
                            const hlo_shape *s, i64 *index, u32 depth) {
  if (is_buffer(s))
    NEED(v, i, aliased(l, index, depth), "buffer is used in results but not in operands: {%s}",
         infer_ints_text(depth, index));
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems && depth < 7; k++) {
    index[depth] = k;
    results_aliased(v, i, l, s->elems[k], index, depth + 1);
  }
}
static void check_buffer_call(verifier *v, buffer_values *all, const hlo_instr *i) {
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  const hlo_aliases *l = hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  bool pin = hs_str_eq(target, HS_STR("Pin")), unpin = hs_str_eq(target, HS_STR("Unpin"));
  NEED(v, i, !(pin || unpin) || (l && l->n == 1),
       "custom-call to %s must have one output-to-operand aliasing", pin ? "Pin" : "Unpin");
  i64 index[8];
  if (!hs_str_eq(target, HS_STR("CreateBuffer")) && !hs_str_eq(target, HS_STR("AllocateBuffer")))
    results_aliased(v, i, l, i->shape, index, 0);
  for (u32 k = 0; l && k < l->n; k++) {
    const hlo_alias_entry *a = &l->v[k];
    if (a->param < 0 || a->param >= i->noperands || a->param_index.n > 7) continue;
    const hlo_instr *x = hlo_operand(i, (u32)a->param);
    const hlo_shape *s = hlo_shape_at(x->shape, a->param_index, NULL);
    if (s && is_buffer(s)) written(v, all, i, x, a->param_index.v, a->param_index.n);
  }
}

void verify_buffers(verifier *v, const hlo_computation *c) {
  buffer_values all = {0};
  i64 index[8];
  hlo_for_each_instr(i, c) {
    u32 before = v->nerrors;
    bool has = any_buffer(i->shape);
    switch (i->opcode) {
    case HLO_CUSTOM_CALL: check_buffer_call(v, &all, i); break;
    case HLO_WHILE:
      written_leaves(v, &all, i, hlo_operand(i, 0), hlo_operand(i, 0)->shape, index, 0);
      break;
    case HLO_PARAMETER:
    case HLO_TUPLE:
    case HLO_GET_TUPLE_ELEMENT: break;
    default:
      if (has)
        verify_report(v, i, "Seen buffers while buffers aren't allowed in this context: %s",
                      infer_text(i->shape));
    }
    if (v->nerrors != before) break;
  }
  if (c != v->m->entry && !v->nerrors)
    written_leaves(v, &all, c->root, c->root, c->root->shape, index, 0);
  hs_vec_free(&all);
}
