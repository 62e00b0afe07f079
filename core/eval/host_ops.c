// host_ops.c — what goes on beside a program: asynchronous pairs, transfers between devices, and
// the host's queues.
//
// An asynchronous operation is run whole by the first of start, updates and done that has all
// operands and room for the result; instructions between start and done see no difference. Sends
// and receives are transfers (world.h): the second element of their context, which programs cannot
// read, is the transfer's id. Infeed, outfeed and host transfers go through the queues of hlo_host;
// without a host there is nothing to read from.
#include "core/eval/world.h"

// ---- async pairs: (operands, result, contexts...) -----------------------------------------------
static const hlo_computation *async_computation(const hlo_instr *i) {
  while (i->opcode == HLO_ASYNC_DONE || i->opcode == HLO_ASYNC_UPDATE) {
    const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_CALLS);
    if (c) return c;
    i = hlo_operand(i, 0);
  }
  return i->opcode == HLO_ASYNC_START ? hlo_attr_comp(i, HLO_ATTR_CALLS) : NULL;
}

// A value of the shape: the operands bound so far, the result when it is known and the shape has
// room for it, and contexts.
static hs_status async_state(ev *e, const hlo_shape *s, u32 n, hlo_literal *const *bound,
                             hlo_literal *result, hlo_literal **out) {
  hlo_literal **part = hs_calloc(s->nelems + 1, sizeof *part),
              **refs = hs_calloc(n + 1, sizeof *refs);
  for (u32 k = 0; k < n; k++) refs[k] = hlo_literal_ref(bound[k]);
  bool tuple = hlo_shape_is_tuple(s->elems[0]);
  hs_status st = HS_GOOD;
  if (tuple) part[0] = hlo_literal_tuple(s->elems[0], n, refs);
  else if (n) part[0] = refs[0];
  for (u32 k = 1; k < n && !tuple; k++) hlo_literal_unref(refs[k]);  // it holds one
  if (result) part[1] = hlo_literal_ref(result);
  else st = ev_new(e, s->elems[1], &part[1]);
  for (u32 k = 2; k < s->nelems && hs_ok(st); k++) st = hlo_literal_new(s->elems[k], &part[k]);
  if (hs_ok(st)) *out = hlo_literal_tuple(s, s->nelems, part);
  else
    for (u32 k = 0; k < s->nelems; k++) hlo_literal_unref(part[k]);
  hs_free(part);
  hs_free(refs);
  return st;
}

// Runs the wrapped computation when everything is there, and makes the next state.
static hs_status async_advance(ev *e, const hlo_instr *i, u32 n, hlo_literal *const *bound,
                               bool known, hlo_literal *before, hlo_literal **out) {
  const hlo_computation *c = async_computation(i);
  hlo_literal *result = known ? hlo_literal_ref(before) : NULL;
  hs_status st = HS_GOOD;
  if (!result && c && n == c->nparams && i->shape->elems[1]->logical == c->root->shape->logical) {
    hlo_literal **args = hs_calloc(n + 1, sizeof *args);
    for (u32 k = 0; k < n; k++) args[k] = hlo_literal_ref(bound[k]);
    st = ev_call(e, c, n, args, &result);
    hs_free(args);
  }
  if (hs_ok(st)) st = async_state(e, i->shape, n, bound, result, out);
  hlo_literal_unref(result);
  return st;
}

// Whether the state already holds the result of everything.
static bool async_finished(const hlo_computation *c, const hlo_literal *state) {
  return c && state->nchildren >= 2 && state->children[0]->nchildren == c->nparams &&
         state->children[1]->shape->logical == c->root->shape->logical;
}

hs_status hlo_eval_async_start(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  if (i->opcode == HLO_ALL_REDUCE_START) return hlo_eval_collective(e, i, ops, out);
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems < 2)
    return ev_unsupported(i, "with this result");
  if (i->opcode == HLO_ASYNC_START) {
    if (!async_computation(i)) return ev_unsupported(i, "without a computation");
    return async_advance(e, i, i->noperands, ops, false, NULL, out);
  }
  hlo_literal *result = NULL;
  const hlo_int_lists *slices = hlo_attr_ptr(i, HLO_ATTR_PERMUTE_SLICE_SIZES);
  bool in_place = i->opcode == HLO_COLLECTIVE_PERMUTE_START && slices && slices->n;
  HS_TRY(ev_collective(e, i, i->shape->elems[1], ops, &result));
  hs_status st = HS_GOOD;
  if (!in_place) st = async_state(e, i->shape, i->noperands, ops, result, out);
  // the first element is the first operand itself
  else {
    hlo_literal *part[4] = {hlo_literal_ref(ops[0]), hlo_literal_ref(result), NULL, NULL};
    u32 n = HS_MIN(i->shape->nelems, 4u);
    for (u32 k = 2; k < n && hs_ok(st); k++) st = hlo_literal_new(i->shape->elems[k], &part[k]);
    *out = hlo_literal_tuple(i->shape, n, part);
  }
  hlo_literal_unref(result);
  return st;
}

// Operands of an update are bound behind those of the state.
hs_status hlo_eval_async_update(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_computation *c = async_computation(i);
  if (i->noperands == 1 && ops[0]->shape->logical == i->shape->logical) {
    *out = ops[0];
    ops[0] = NULL;
    return HS_GOOD;
  }
  if (!c || ops[0]->nchildren < 2 || !hlo_shape_is_tuple(i->shape) || i->shape->nelems < 2)
    return ev_unsupported(i, "of this value");
  const hlo_literal *had = ops[0]->children[0];
  u32 n = had->nchildren + i->noperands - 1;
  hlo_literal **bound = hs_calloc(n + 1, sizeof *bound);
  for (u32 k = 0; k < had->nchildren; k++) bound[k] = had->children[k];
  for (u32 k = had->nchildren; k < n; k++) bound[k] = ops[k - had->nchildren + 1];
  hs_status st = async_advance(e, i, n, bound, async_finished(c, ops[0]), ops[0]->children[1], out);
  hs_free(bound);
  return st;
}

hs_status hlo_eval_async_done(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  if (ops[0]->shape->logical == i->shape->logical && i->opcode != HLO_ASYNC_DONE) {
    *out = ops[0];
    ops[0] = NULL;
    return HS_GOOD;
  }
  if (ops[0]->nchildren < 2) return ev_unsupported(i, "of this value");
  const hlo_computation *c = i->opcode == HLO_ASYNC_DONE ? async_computation(i) : NULL;
  if (c && !async_finished(c, ops[0])) {
    const hlo_literal *had = ops[0]->children[0];
    hlo_literal **args = hs_calloc(had->nchildren + 1, sizeof *args);
    for (u32 k = 0; k < had->nchildren; k++) args[k] = hlo_literal_ref(had->children[k]);
    hs_status st = ev_call(e, c, had->nchildren, args, out);
    hs_free(args);
    return st;
  }
  *out = hlo_literal_ref(ops[0]->children[1]);
  return HS_GOOD;
}

hs_status hlo_eval_copy_start(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != 3)
    return ev_unsupported(i, "with this result");
  hlo_literal *part[3] = {hlo_literal_ref(ops[0]), hlo_literal_ref(ops[0]), NULL};
  hs_status st = hlo_literal_new(i->shape->elems[2], &part[2]);
  *out = hlo_literal_tuple(i->shape, 3, part);
  return st;
}
hs_status hlo_eval_copy_done(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  if (ops[0]->nchildren < 1) return ev_unsupported(i, "of this value");
  hlo_literal *v = hlo_literal_ref(ops[0]->children[0]);
  *out = ev_retag(&v, i->shape);
  return HS_GOOD;
}

// ---- send and recv ------------------------------------------------------------------------------
static i64 channel_of(const hlo_instr *i) { return hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0); }
static bool with_host(const hlo_instr *i) {
  return hlo_attr_int(i, HLO_ATTR_IS_HOST_TRANSFER, 0) != 0;
}

// The other side of a transfer by _xla_send_recv_source_target_pairs ("{{0,1},{1,2}}"; ids of
// partitions when there is a channel and more than one, else of replicas). Without the attribute a
// device writes to itself. False: none does.
static bool other_side(const ev *e, const hlo_instr *i, bool sending, u32 *device) {
  u32 parts = ev_partitions(e), me = channel_of(i) > 0 && parts > 1 ? e->partition : e->replica;
  bool by_partition = channel_of(i) > 0 && parts > 1;
  hs_str pairs = ev_frontend_value(hlo_attr_get(i, HLO_ATTR_FRONTEND_ATTRIBUTES),
                                   "_xla_send_recv_source_target_pairs");
  *device = ev_device(e);
  if (!pairs.n) return true;
  i64 v[2] = {0, 0};
  u32 at = 0;
  for (size_t k = 0; k < pairs.n;) {
    if (pairs.p[k] < '0' || pairs.p[k] > '9') {
      k++;
      continue;
    }
    i64 x = 0;
    for (; k < pairs.n && pairs.p[k] >= '0' && pairs.p[k] <= '9'; k++)
      x = HS_MIN(x * 10 + (pairs.p[k] - '0'), (i64)EV_MAX_DEVICES);
    v[at++] = x;
    if (at < 2) continue;
    at = 0;
    if (v[sending ? 0 : 1] != me) continue;
    i64 other = v[sending ? 1 : 0];
    if (other >= (by_partition ? parts : ev_replicas(e))) return false;
    *device = by_partition ? e->replica * parts + (u32)other : (u32)other * parts + e->partition;
    return true;
  }
  return false;
}

// (data, context, token); the context is the transfer's id, 0 when there is none.
static hs_status context(const hlo_instr *i, hlo_literal *data, u32 id, hlo_literal **out) {
  const hlo_shape *s = i->shape;
  hlo_literal *part[3] = {data, NULL, NULL};
  hs_status st =
      hlo_shape_is_tuple(s) && s->nelems == 3 ? HS_GOOD : ev_unsupported(i, "with this result");
  if (hs_ok(st)) st = hlo_literal_new(s->elems[1], &part[1]);
  if (hs_ok(st)) st = hlo_literal_new(s->elems[2], &part[2]);
  if (!hs_ok(st)) {
    for (u32 k = 0; k < 3; k++) hlo_literal_unref(part[k]);
    return st;
  }
  hlo_literal_set_i64(part[1], 0, id);
  *out = hlo_literal_tuple(s, 3, part);
  return HS_GOOD;
}
// A state of another kind, as that of an asynchronous call, has none.
static u32 transfer_of(const hlo_literal *l) {
  bool transfer = l->nchildren == 3 && hlo_shape_is_scalar(l->children[1]->shape) &&
                  l->children[1]->shape->dtype == HLO_U32 &&
                  l->children[2]->shape->dtype == HLO_TOKEN;
  return transfer ? (u32)hlo_literal_i64(l->children[1], 0) : 0;
}

hs_status hlo_eval_send(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  u32 id = 0, to;
  if (with_host(i)) HS_TRY(ev_host_put(e, i, channel_of(i), ops[0]));
  else if (other_side(e, i, true, &to)) HS_TRY(ev_post_send(e, i, channel_of(i), to, ops[0], &id));
  return context(i, hlo_literal_ref(ops[0]), id, out);
}

hs_status hlo_eval_send_done(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  u32 id = transfer_of(ops[0]);
  if (id) HS_TRY(ev_wait_sent(e, i, id));
  return hlo_literal_new(i->shape, out);
}

hs_status hlo_eval_recv(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  u32 id = 0, from;
  hlo_literal *data = NULL;
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != 3)
    return ev_unsupported(i, "with this result");
  if (with_host(i)) HS_TRY(ev_host_get(e, i, channel_of(i), i->shape->elems[0], &data));
  else {
    if (other_side(e, i, false, &from)) HS_TRY(ev_post_recv(e, i, channel_of(i), from, &id));
    HS_TRY(hlo_literal_new(i->shape->elems[0], &data));  // no device sends here: zeros
  }
  return context(i, data, id, out);
}

hs_status hlo_eval_recv_done(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  u32 id = transfer_of(ops[0]);
  hlo_literal *part[2] = {NULL, NULL};
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != 2 || ops[0]->nchildren != 3)
    return ev_unsupported(i, "with this result");
  if (id) HS_TRY(ev_wait_received(e, i, id, &part[0]));
  else part[0] = hlo_literal_ref(ops[0]->children[0]);
  hs_status st = part[0]->shape->logical == i->shape->elems[0]->logical
                     ? hlo_literal_new(i->shape->elems[1], &part[1])
                     : hs_fail(HS_E_RUN, "%s: what was sent on channel %lld has another shape",
                               i->name, (long long)channel_of(i));
  if (!hs_ok(st)) {
    hlo_literal_unref(part[0]);
    return st;
  }
  *out = hlo_literal_tuple(i->shape, 2, part);
  return HS_GOOD;
}

// ---- infeed and outfeed -------------------------------------------------------------------------
hs_status hlo_eval_infeed(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  hlo_literal *part[2] = {NULL, NULL};
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != 2)
    return ev_unsupported(i, "with this result");
  HS_TRY(ev_host_get(e, i, HLO_HOST_FEED, i->shape->elems[0], &part[0]));
  hs_status st = hlo_literal_new(i->shape->elems[1], &part[1]);
  if (!hs_ok(st)) {
    hlo_literal_unref(part[0]);
    return st;
  }
  *out = hlo_literal_tuple(i->shape, 2, part);
  return HS_GOOD;
}

hs_status hlo_eval_outfeed(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  HS_TRY(ev_host_put(e, i, HLO_HOST_FEED, ops[0]));
  return hlo_literal_new(i->shape, out);
}
