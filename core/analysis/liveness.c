// liveness.c — how much memory a module needs, by going through a schedule and keeping the bytes
// that are live.
//
// The schedule is the list order when the module says it is scheduled, else the post order. Every
// leaf of an instruction's value is a buffer; tuple, get-tuple-element, bitcast and their like name
// buffers that exist already, a while loop's result is its state, an in-place update or an
// elementwise operation takes over an operand's buffer when that is its last use (what XLA's buffer
// assignment allows). A loop writes to its state: what it starts from is that state only where
// nobody else reads it, neither a second element nor an instruction behind the loop, and is copied
// else. A called computation needs its own peak on top of what is live at the call; inside it,
// parameters and results belong to the caller, but what a body makes of an element of the state
// while it still reads that element is memory of its own. Fusions have no buffers inside.
//
// The naive figure is the baseline: one buffer per intermediate, freed after its last use, nothing
// shared or in place.
#include "core/analysis/live.h"

#define NONE UINT32_MAX

// Sums of sizes that may each be INT64_MAX, taken back in any order.
static i64 narrow(i128 v) { return v > INT64_MAX ? INT64_MAX : (i64)v; }

typedef struct buffer {
  i64 bytes;
  u32 first;      // position that makes it
  u32 last;       // position of the last use
  bool external;  // parameters and, outside the entry, results: the caller's memory
  bool kept;      // nobody may write to it: constants, parameters of others than a loop's body
  u32 state_of;   // 1 + the position of the last loop whose state it is
} buffer;

typedef struct plan {
  const hlo_module *m;
  hs_arena arena;
  bool naive;
  hlo_instr **const *orders;       // given ones, by computation id; NULL
  hlo_instr ***found;              // those found, by computation id; NULL: not kept
  i64 *comp_peak;                  // per computation id: temporaries at its peak
  u32 *position;                   // per instruction id: place in its computation's schedule
  const bool *bodies;              // per computation id: only loops' bodies; NULL: none is
  const hlo_computation *at_hand;  // what follows is of it
  HS_VEC(u32) first, last;         // per position: its first leaf; its last use
  HS_VEC(u32) leaves;              // per leaf: its buffer
  HS_VEC(buffer) buffers;
  HS_VEC(u32) head, next;  // per position, per buffer: lists of the buffers used last there
  HS_VEC(bool) begun;      // per buffer
} plan;

static u32 *leaves_of(const plan *p, const hlo_instr *i) {
  return p->leaves.v + p->first.v[p->position[i->id]];
}

static i64 leaf_size(const hlo_shape *s, u32 k) { return hlo_shape_bytes(hlo_shape_leaf(s, k)); }

static u32 fresh(plan *p, i64 bytes, u32 position) {
  buffer b = {.bytes = bytes, .first = position, .last = position};
  hs_vec_push(&p->buffers, b);
  return (u32)p->buffers.n - 1;
}

// Opcodes whose value is memory that another instruction made.
static bool forwards(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_FORWARDS) || i->opcode == HLO_BITCAST ||
         i->opcode == HLO_COPY_DONE;
}

static const hlo_instr *fusion_root(const hlo_instr *i) {
  const hlo_computation *c = i->opcode == HLO_FUSION ? hlo_fusion_comp(i) : NULL;
  return c ? c->root : i;
}

// The operand whose buffer the result may take over, provided that nothing reads it later; NONE
// when there is none.
static u32 in_place_operand(const hlo_instr *i, u32 leaf) {
  const hlo_instr *r = fusion_root(i);
  if (r->opcode == HLO_TUPLE && leaf < r->noperands) r = hlo_operand(r, leaf);
  while (r->opcode == HLO_BITCAST || r->opcode == HLO_COPY) {
    if (!r->noperands || r == i) break;
    r = hlo_operand(r, 0);
  }
  if (r->opcode == HLO_DYNAMIC_UPDATE_SLICE || r->opcode == HLO_SCATTER) {
    if (r == i) return leaf < i->noperands ? leaf : NONE;
    const hlo_instr *target =
        hlo_operand(r, r->opcode == HLO_SCATTER ? HS_MIN(leaf, r->noperands - 1) : 0);
    while (target->opcode == HLO_BITCAST) target = hlo_operand(target, 0);
    return target->opcode == HLO_PARAMETER ? (u32)hlo_param_number(target) : NONE;
  }
  return NONE;
}

static bool elementwise_like(const hlo_instr *i) {
  if (i->opcode == HLO_FUSION)
    return hlo_attr_int(i, HLO_ATTR_KIND, HLO_FUSION_KIND_LOOP) == HLO_FUSION_KIND_LOOP &&
           !hlo_shape_is_tuple(i->shape);
  return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
}

// A loop fusion may overwrite an operand only if it reads it element by element.
static bool reads_elementwise(const hlo_instr *i, u32 operand) {
  if (i->opcode != HLO_FUSION) return true;
  const hlo_computation *c = hlo_fusion_comp(i);
  if (!c || operand >= c->nparams) return false;
  hlo_for_each_use(u, c->params[operand])
    if (!hlo_op_has(u->user->opcode, HLO_F_ELEMENTWISE) ||
        u->user->shape->elements != i->shape->elements)
      return false;
  return true;
}

bool hlo_may_overwrite(const hlo_instr *i, u32 leaf, u32 operand) {
  return in_place_operand(i, leaf) == operand ||
         (elementwise_like(i) && reads_elementwise(i, operand));
}

bool hlo_is_replaced_part(const hlo_instr *slice, const hlo_instr *update) {
  u32 rank = update->shape->rank;
  const hlo_slices *fixed = slice->opcode == HLO_SLICE ? hlo_attr_ptr(slice, HLO_ATTR_SLICE) : NULL;
  if ((!fixed && slice->opcode != HLO_DYNAMIC_SLICE) ||
      hlo_operand(slice, 0) != hlo_operand(update, 0) || update->noperands != rank + 2 ||
      slice->noperands != (fixed ? 1 : rank + 1) ||
      !hlo_shape_same_dims(slice->shape, hlo_operand(update, 1)->shape))
    return false;
  for (u32 k = 0; k < rank; k++) {
    const hlo_instr *to = hlo_operand(update, k + 2);
    const hlo_literal *at = fixed ? hlo_constant_value(to) : NULL;
    if (fixed ? !at || at->elided || fixed->v[k].stride != 1 ||
                    hlo_literal_i64(at, 0) != fixed->v[k].start
              : hlo_operand(slice, k + 1) != to)
      return false;
  }
  return true;
}

static bool dies_at(const plan *p, u32 b, u32 position) {
  return !p->buffers.v[b].external && p->buffers.v[b].last == position;
}

static u32 reused(const plan *p, const hlo_instr *i, u32 leaf, u32 position) {
  if (p->naive) return NONE;
  u32 k = in_place_operand(i, leaf);
  if (k != NONE && k < i->noperands && hlo_shape_leaves(hlo_operand(i, k)->shape) == 1) {
    u32 b = leaves_of(p, hlo_operand(i, k))[0];
    if (dies_at(p, b, position) && p->buffers.v[b].bytes == leaf_size(i->shape, leaf)) return b;
  }
  if (!elementwise_like(i)) return NONE;
  for (k = 0; k < i->noperands; k++) {
    if (hlo_shape_leaves(hlo_operand(i, k)->shape) != 1) continue;
    u32 b = leaves_of(p, hlo_operand(i, k))[0];
    if (dies_at(p, b, position) && p->buffers.v[b].bytes == leaf_size(i->shape, leaf) &&
        reads_elementwise(i, k))
      return b;
  }
  return NONE;
}

// Whether a loop's body hands a leaf of the state on as it is.
static bool handed_on(const hlo_instr *loop, u32 leaf) {
  const hlo_computation *body = hlo_attr_comp(loop, HLO_ATTR_BODY);
  const hlo_instr *i = body ? body->root : NULL;
  u32 l = leaf;
  while (i && (i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT)) {
    u32 k = 0;
    if (i->opcode == HLO_GET_TUPLE_ELEMENT) {
      l += hlo_shape_leaf_offset(hlo_operand(i, 0)->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
    } else {
      for (u32 n; k < i->noperands && l >= (n = hlo_shape_leaves(hlo_operand(i, k)->shape)); k++)
        l -= n;
    }
    i = k < i->noperands ? hlo_operand(i, k) : NULL;
  }
  return i && i->opcode == HLO_PARAMETER && l == leaf;
}

// The leaves of a loop's state: what it starts from, where that is nobody else's.
static void state_leaves(plan *p, const hlo_instr *loop, u32 *out, u32 n) {
  u32 t = p->position[loop->id];
  const u32 *init = leaves_of(p, hlo_operand(loop, 0));
  for (u32 l = 0; l < n; l++) {
    out[l] = handed_on(loop, l) ? init[l] : NONE;
    if (out[l] != NONE) p->buffers.v[out[l]].state_of = t + 1;
  }
  for (u32 l = 0; l < n; l++) {
    if (out[l] != NONE) continue;
    buffer *b = &p->buffers.v[init[l]];
    bool free = !b->kept && b->last == t && b->state_of != t + 1;
    b->state_of = t + 1;
    out[l] = free ? init[l] : fresh(p, leaf_size(loop->shape, l), t);
  }
}

// Leaves that name existing buffers; false when the instruction makes its own.
static bool alias_leaves(plan *p, const hlo_instr *i, u32 *out, u32 n) {
  if (i->opcode == HLO_TUPLE) {
    u32 at = 0;
    for (u32 k = 0; k < i->noperands; k++) {
      u32 m = hlo_shape_leaves(hlo_operand(i, k)->shape);
      for (u32 l = 0; l < m && at < n; l++) out[at++] = leaves_of(p, hlo_operand(i, k))[l];
    }
    return true;
  }
  if (i->opcode == HLO_GET_TUPLE_ELEMENT) {
    u32 at = hlo_shape_leaf_offset(hlo_operand(i, 0)->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
    for (u32 l = 0; l < n; l++) out[l] = leaves_of(p, hlo_operand(i, 0))[at + l];
    return true;
  }
  if (hlo_shape_leaves(i->noperands ? hlo_operand(i, 0)->shape : i->shape) != n) return false;
  if (i->opcode == HLO_WHILE && !p->naive) {
    state_leaves(p, i, out, n);
    return true;
  }
  if (!forwards(i)) return false;
  for (u32 l = 0; l < n; l++) out[l] = leaves_of(p, hlo_operand(i, 0))[l];
  return true;
}

// Runs its called computations within this module's memory.
static bool runs(const hlo_instr *i) { return hlo_op_has(i->opcode, HLO_F_CONTROL); }

static i64 callee_peak(const plan *p, const hlo_instr *i) {
  if (!runs(i)) return 0;
  i64 most = 0;
  for (u32 k = 0; k < hlo_ncalled(i); k++) most = HS_MAX(most, p->comp_peak[hlo_called(i, k)->id]);
  return most;
}

static void live_until(plan *p, u32 b, u32 position) {
  p->buffers.v[b].last = HS_MAX(p->buffers.v[b].last, position);
}

// When the leaves of a tuple are read: each by the instructions that take it out of it, all by the
// others.
static void read_leaves(plan *p, const hlo_instr *tuple, const u32 *leaves) {
  hlo_for_each_use(u, tuple) {
    u32 from = 0, n = hlo_shape_leaves(tuple->shape);
    if (u->user->opcode == HLO_GET_TUPLE_ELEMENT) {
      from = hlo_shape_leaf_offset(tuple->shape, hlo_attr_int(u->user, HLO_ATTR_INDEX, 0));
      n = hlo_shape_leaves(u->user->shape);
    }
    for (u32 l = from; l < from + n; l++) live_until(p, leaves[l], p->position[u->user->id]);
  }
}

// Whether memory that is there before the computation runs is not its to write to.
static bool is_kept(const plan *p, const hlo_instr *i, u32 leaf) {
  const hlo_computation *c = i->parent;
  if (i->opcode != HLO_PARAMETER || c != p->m->entry)
    return i->opcode == HLO_CONSTANT || !p->bodies || !p->bodies[c->id];
  const hlo_attr *a = hlo_attrs_find(p->m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *v = a ? a->v.p : NULL;
  for (u32 k = 0; v && k < v->n; k++)
    if (v->v[k].param == hlo_param_number(i) &&
        hlo_shape_leaf_at(i->shape, v->v[k].param_index) == leaf)
      return false;
  return true;
}

// Pass 1: which buffer each leaf is, and where each buffer is used last.
static void assign(plan *p, const hlo_computation *c, hlo_instr **order) {
  if (p->at_hand == c) return;
  p->at_hand = c;
  u32 *position = p->position, n = c->ninstrs;
  p->first.n = p->last.n = p->leaves.n = p->buffers.n = 0;
  for (u32 t = 0; t < n; t++) {
    position[order[t]->id] = t;
    hs_vec_push(&p->first, (u32)p->leaves.n);
    for (u32 l = hlo_shape_leaves(order[t]->shape); l-- > 0;) hs_vec_push(&p->leaves, NONE);
    hs_vec_push(&p->last, t);
    for (u32 o = 0; o < order[t]->noperands; o++) {
      u32 at = position[hlo_operand(order[t], o)->id];
      if (at < t) p->last.v[at] = t;
    }
  }
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    u32 leaves = hlo_shape_leaves(i->shape), *out = leaves_of(p, i), last = p->last.v[t];
    if (!alias_leaves(p, i, out, leaves))
      for (u32 l = 0; l < leaves; l++) {
        u32 b = reused(p, i, l, t);
        bool none = i->opcode == HLO_CONSTANT || i->opcode == HLO_PARAMETER;
        out[l] = b != NONE ? b : fresh(p, leaf_size(i->shape, l), t);
        if (!none) continue;
        p->buffers.v[out[l]].external = true;
        p->buffers.v[out[l]].kept = is_kept(p, i, l);
      }
    if (hlo_shape_is_tuple(i->shape)) {
      read_leaves(p, i, out);
      continue;
    }
    for (u32 l = 0; l < leaves; l++) live_until(p, out[l], last);
  }
}

typedef struct schedule_peak {
  i64 peak;
  u32 peak_at;
} schedule_peak;

static hlo_instr **order_of(plan *p, const hlo_computation *c) {
  if (p->orders && p->orders[c->id]) return p->orders[c->id];
  if (p->found && p->found[c->id]) return p->found[c->id];
  hlo_instr **order;
  // a schedule does not say in which order a fusion evaluates
  if (!hlo_is_scheduled(p->m) || hlo_is_fusion_comp(c)) {
    order = hlo_post_order(c, &p->arena);
  } else {
    order = HS_NEW_ARRAY(&p->arena, hlo_instr *, c->ninstrs + 1);
    u32 t = 0;
    hlo_for_each_instr(i, c) order[t++] = i;
  }
  if (p->found) p->found[c->id] = order;
  return order;
}

// Whether buffer `made`, which instruction i is the first to write, may be buffer `old`, which i is
// the last to read.
static bool written_over(const plan *p, const hlo_instr *i, u32 made, u32 old) {
  for (u32 l = 0, n = hlo_shape_leaves(i->shape); l < n; l++)
    for (u32 k = 0; leaves_of(p, i)[l] == made && k < i->noperands; k++)
      if (hlo_shape_leaves(hlo_operand(i, k)->shape) == 1 &&
          leaves_of(p, hlo_operand(i, k))[0] == old && hlo_may_overwrite(i, l, k))
        return true;
  return false;
}

// What a body makes of a leaf of the state has memory of its own while that leaf is still read.
static void part_from_state(plan *p, const hlo_computation *c, hlo_instr **order) {
  u32 n = hlo_shape_leaves(c->root->shape);
  if (c->nparams != 1 || hlo_shape_leaves(c->params[0]->shape) != n) return;
  for (u32 l = 0; l < n; l++) {
    u32 made = leaves_of(p, c->root)[l], old = leaves_of(p, c->params[0])[l];
    buffer *b = &p->buffers.v[made];
    const hlo_instr *maker = order[b->first];
    u32 last = p->buffers.v[old].last;
    // what a called computation writes over of its arguments is not looked into
    if (made == old || last < b->first || maker->opcode == HLO_PARAMETER ||
        maker->opcode == HLO_CONSTANT ||
        (last == b->first &&
         (runs(maker) || maker->opcode == HLO_COPY || written_over(p, maker, made, old))))
      continue;
    b->external = false;
  }
}

static schedule_peak run_schedule(plan *p, const hlo_computation *c) {
  u32 n = c->ninstrs;
  hlo_instr **order = order_of(p, c);
  assign(p, c, order);
  u32 nroot = hlo_shape_leaves(c->root->shape);
  // the caller's, or the output
  for (u32 l = 0; l < nroot; l++) p->buffers.v[leaves_of(p, c->root)[l]].external = true;
  if (!p->naive && p->bodies && p->bodies[c->id]) part_from_state(p, c, order);
  p->head.n = p->next.n = p->begun.n = 0;
  for (u32 t = 0; t < n; t++) hs_vec_push(&p->head, NONE);
  for (u32 b = 0; b < p->buffers.n; b++) {
    u32 *head = &p->head.v[p->buffers.v[b].last];
    hs_vec_push(&p->next, *head);
    hs_vec_push(&p->begun, false);
    *head = b;
  }
  schedule_peak w = {0, n ? order[0]->id : 0};
  i128 live = 0;
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    u32 leaves = hlo_shape_leaves(i->shape);
    for (u32 l = 0; l < leaves; l++) {
      u32 b = leaves_of(p, i)[l];
      if (p->begun.v[b]) continue;
      p->begun.v[b] = true;
      if (!p->buffers.v[b].external) live += p->buffers.v[b].bytes;
    }
    i64 now = narrow(live + callee_peak(p, i));
    if (now > w.peak) w = (schedule_peak){now, i->id};
    for (u32 b = p->head.v[t]; b != NONE; b = p->next.v[b])
      if (p->begun.v[b] && !p->buffers.v[b].external) live -= p->buffers.v[b].bytes;
  }
  return w;
}

static i64 alias_bytes(const hlo_module *m) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *v = a ? a->v.p : NULL;
  i64 sum = 0;
  for (u32 k = 0; v && k < v->n; k++) {
    const hlo_shape *s = m->entry->root->shape;
    for (u32 d = 0; d < v->v[k].out_index.n; d++) {
      i64 at = v->v[k].out_index.v[d];
      if (at < 0 || (u32)at >= s->nelems) return sum;
      s = s->elems[at];
    }
    for (u32 l = 0, n = hlo_shape_leaves(s); l < n; l++) sum = hs_add_sat_i64(sum, leaf_size(s, l));
  }
  return sum;
}

// The peaks of computations that others run, callees first.
typedef struct callees {
  hlo_call_list calls;
  hlo_computation **order;
  u32 n;
  bool *needed, *bodies;  // per computation id; bodies: called by loops only, as their bodies
} callees;

static bool *find_bodies(const hlo_module *m, const hlo_call_list *l, hs_arena *a) {
  bool *bodies = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  bool *others = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  for (u32 k = 0; k < l->n; k++) {
    bool loop = l->v[k]->opcode == HLO_WHILE;
    const hlo_computation *body = loop ? hlo_attr_comp(l->v[k], HLO_ATTR_BODY) : NULL;
    for (u32 j = 0; j < l->callees[k].n; j++) {
      const hlo_computation *x = l->callees[k].v[j];
      if (x) (x == body ? bodies : others)[x->id] = true;
    }
  }
  for (u32 k = 0; k <= m->next_comp_id; k++) bodies[k] &= !others[k];
  return bodies;
}

static callees find_callees(const hlo_module *m, hs_arena *a) {
  callees c = {0};
  if (!(m->nops[HLO_WHILE] | m->nops[HLO_CALL] | m->nops[HLO_CONDITIONAL] |
        m->nops[HLO_ASYNC_START]))
    return c;
  c.calls = hlo_find_calls(m, a);
  c.needed = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  for (u32 k = 0; k < c.calls.n; k++)
    for (u32 j = 0; runs(c.calls.v[k]) && j < c.calls.callees[k].n; j++)
      if (c.calls.callees[k].v[j]) c.needed[c.calls.callees[k].v[j]->id] = true;
  c.needed[m->entry->id] = false;
  c.bodies = find_bodies(m, &c.calls, a);
  c.order = hlo_order_comps(m, &c.calls, true, a, &c.n);
  return c;
}

// Whether computation x has in this plan the order and callees' peaks that it had in an earlier
// one.
static bool as_before(const plan *p, const plan *old, const callees *c, const hlo_computation *x) {
  if (!p->orders || !old->orders || !p->orders[x->id] || p->orders[x->id] != old->orders[x->id])
    return false;
  for (u32 k = c->calls.first[x->id]; k < c->calls.end[x->id]; k++)
    for (u32 j = 0; j < c->calls.callees[k].n; j++) {
      const hlo_computation *y = c->calls.callees[k].v[j];
      if (y && p->comp_peak[y->id] != old->comp_peak[y->id]) return false;
    }
  return true;
}

// One computation in all plans, then the next: it is looked at while it is at hand.
static void plan_callees(u32 n, plan *plans, const callees *c) {
  for (u32 k = 0; k < c->n && !hs_interrupted(); k++) {
    const hlo_computation *x = c->order[k];
    for (u32 p = 0; c->needed[x->id] && p < n; p++) {
      u32 o = 0;
      while (o < p && !as_before(&plans[p], &plans[o], c, x)) o++;
      plans[p].comp_peak[x->id] =
          o < p ? plans[o].comp_peak[x->id] : run_schedule(&plans[p], x).peak;
    }
  }
}

static void plan_free(plan *p) {
  hs_vec_free(&p->first);
  hs_vec_free(&p->last);
  hs_vec_free(&p->leaves);
  hs_vec_free(&p->buffers);
  hs_vec_free(&p->head);
  hs_vec_free(&p->next);
  hs_vec_free(&p->begun);
  hs_arena_free(&p->arena);
}

static hlo_memory memory_of(plan *p) {
  const hlo_module *m = p->m;
  schedule_peak w = run_schedule(p, m->entry);
  hlo_memory out = {.temp_bytes = w.peak, .peak_at = w.peak_at};
  for (u32 k = 0; k < m->entry->nparams; k++)
    out.argument_bytes =
        hs_add_sat_i64(out.argument_bytes, hlo_shape_bytes(m->entry->params[k]->shape));
  out.output_bytes = hlo_shape_bytes(m->entry->root->shape);
  out.alias_bytes = p->naive ? 0 : alias_bytes(m);
  out.peak_bytes =
      narrow((i128)out.argument_bytes + out.output_bytes - out.alias_bytes + out.temp_bytes);
  return out;
}

hs_status hlo_memory_of_orders(const hlo_module *m, u32 n, hlo_instr **const *const *orders,
                               bool naive, hlo_memory *out) {
  HS_ASSERT(!hlo_known_invalid(m));
  hs_arena mem = {0};
  plan *plans = HS_NEW_ARRAY(&mem, plan, n);
  callees c = find_callees(m, &mem);
  u32 *position = HS_NEW_ARRAY(&mem, u32, m->next_instr_id);
  for (u32 k = 0; k < n; k++)
    plans[k] = (plan){.m = m,
                      .naive = naive,
                      .orders = orders[k],
                      .bodies = c.bodies,
                      .position = position,
                      .comp_peak = HS_NEW_ARRAY(&mem, i64, m->next_comp_id + 1)};
  plan_callees(n, plans, &c);
  for (u32 k = 0; k < n && !hs_interrupted(); k++) out[k] = memory_of(&plans[k]);
  for (plan *p = plans; p < plans + n; p++) plan_free(p);
  hs_arena_free(&mem);
  return hs_poll();
}

hs_status hlo_memory_estimate(const hlo_module *m, bool naive, hlo_memory *out) {
  hlo_instr **const *none = NULL;
  return hlo_memory_of_orders(m, 1, &none, naive, out);
}

// ---- live ranges of a computation ---------------------------------------------------------------

static void copy_live(plan *p, const hlo_computation *c, hs_arena *a, hlo_live *out) {
  u32 n = c->ninstrs;
  hlo_instr **order = order_of(p, c);
  assign(p, c, order);
  *out = (hlo_live){.n = n, .nbuffers = (u32)p->buffers.n, .position = p->position};
  out->order = hs_arena_dup(a, order, n * sizeof *order);
  out->first_leaf = HS_NEW_ARRAY(a, u32, n + 1);
  memcpy(out->first_leaf, p->first.v, n * sizeof *out->first_leaf);
  out->first_leaf[n] = (u32)p->leaves.n;
  out->leaf_buffer = HS_NEW_ARRAY(a, u32, p->leaves.n + 1);
  if (p->leaves.n) memcpy(out->leaf_buffer, p->leaves.v, p->leaves.n * sizeof *p->leaves.v);
  out->last_use = hs_arena_dup(a, p->last.v, n * sizeof *p->last.v);
  out->inside = HS_NEW_ARRAY(a, i64, n + 1);
  out->buffers = HS_NEW_ARRAY(a, hlo_live_buffer, p->buffers.n + 1);
  for (u32 b = 0; b < out->nbuffers; b++)
    out->buffers[b] = (hlo_live_buffer){
        .bytes = p->buffers.v[b].bytes, .first = NONE, .last = p->buffers.v[b].last};
  for (u32 t = 0; t < n; t++) {
    const hlo_instr *i = order[t];
    out->inside[t] = callee_peak(p, i);
    for (u32 l = out->first_leaf[t]; l < out->first_leaf[t + 1]; l++) {
      hlo_live_buffer *b = &out->buffers[out->leaf_buffer[l]];
      b->first = HS_MIN(b->first, t);
      b->parameter |= i->opcode == HLO_PARAMETER;
      b->constant |= i->opcode == HLO_CONSTANT;
      b->output |= i == c->root;
    }
  }
}

struct hlo_live_plan {
  hs_arena arena;
  plan p;
  hlo_memory memory;
  bool known;  // memory is
};

hs_status hlo_live_plan_new(const hlo_module *m, bool naive, hlo_live_plan **out) {
  HS_ASSERT(!hlo_known_invalid(m));
  hlo_live_plan *l = hs_calloc(1, sizeof *l);
  l->p = (plan){.m = m,
                .naive = naive,
                .position = HS_NEW_ARRAY(&l->arena, u32, m->next_instr_id),
                .found = HS_NEW_ARRAY(&l->arena, hlo_instr **, m->next_comp_id + 1),
                .comp_peak = HS_NEW_ARRAY(&l->arena, i64, m->next_comp_id + 1)};
  callees called = find_callees(m, &l->arena);
  l->p.bodies = called.bodies;
  plan_callees(1, &l->p, &called);
  hs_status s = hs_poll();
  if (!hs_ok(s)) hlo_live_plan_free(l);
  *out = hs_ok(s) ? l : NULL;
  return s;
}

void hlo_live_plan_free(hlo_live_plan *l) {
  if (!l) return;
  plan_free(&l->p);
  hs_arena_free(&l->arena);
  hs_free(l);
}

hs_status hlo_live_plan_memory(hlo_live_plan *l, hlo_memory *out) {
  if (!l->known) l->memory = memory_of(&l->p);
  l->known = true;
  *out = l->memory;
  return hs_poll();
}

hlo_instr **hlo_live_plan_order(hlo_live_plan *l, const hlo_computation *c) {
  return order_of(&l->p, c);
}

hs_status hlo_live_plan_ranges(hlo_live_plan *l, const hlo_computation *c, hs_arena *a,
                               hlo_live *out) {
  copy_live(&l->p, c, a, out);
  return hs_poll();
}

hs_status hlo_live_ranges(const hlo_computation *c, bool naive, hs_arena *a, hlo_live *out) {
  hlo_live_plan *l;
  HS_TRY(hlo_live_plan_new(c->module, naive, &l));
  hs_status s = hlo_live_plan_ranges(l, c, a, out);
  out->position = NULL;
  hlo_live_plan_free(l);
  return s;
}
