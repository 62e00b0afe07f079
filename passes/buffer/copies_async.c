// copies_async.c — which positions hold the state of an operation that is under way.
//
// Between a start and its done the state may be handed on: by tuples and their elements, loops,
// branches, calls, copies, barriers. None of them may be split into copies of its parts, since the
// done has to find the start, and the buffers of the state are in use. What hands a value on puts
// the positions of both sides into one class; a class that has the result of a start, or what an
// update or a done takes, is a state. So a state is known by its end as well as by its beginning,
// and it does not matter what made it: a custom call, whose insides nobody knows, or a parameter.
#include "passes/buffer/copies.h"

typedef struct classes {
  const cp_flow *f;
  u32 *parent;  // by position: a union-find forest
} classes;

static u32 class_of(classes *c, u32 at) {
  u32 *p = c->parent;
  while (p[at] != at) at = p[at] = p[p[at]];
  return at;
}

static void same(classes *c, const hlo_instr *a, u32 a_leaf, const hlo_instr *b, u32 b_leaf,
                 u32 n) {
  if (c->f->base[a->id] == CP_NONE || c->f->base[b->id] == CP_NONE) return;
  for (u32 k = 0; k < n; k++) {
    u32 x = class_of(c, c->f->base[a->id] + a_leaf + k),
        y = class_of(c, c->f->base[b->id] + b_leaf + k);
    c->parent[HS_MAX(x, y)] = HS_MIN(x, y);
  }
}
static void same_whole(classes *c, const hlo_instr *a, const hlo_instr *b) {
  u32 n = hlo_shape_leaves(a->shape);
  if (n == hlo_shape_leaves(b->shape)) same(c, a, 0, b, 0, n);
}

static void hand_on(classes *c, const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_TUPLE:
    for (u32 k = 0, at = 0; k < i->noperands; k++) {
      u32 n = hlo_shape_leaves(hlo_operand(i, k)->shape);
      same(c, i, at, hlo_operand(i, k), 0, n);
      at += n;
    }
    break;
  case HLO_GET_TUPLE_ELEMENT:
    same(c, i, 0, hlo_operand(i, 0), cp_element_leaf(i), hlo_shape_leaves(i->shape));
    break;
  case HLO_COPY:
  case HLO_DOMAIN:
  case HLO_OPT_BARRIER:
  case HLO_ADD_DEPENDENCY: same_whole(c, i, hlo_operand(i, 0)); break;
  case HLO_WHILE: {
    const hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_BODY),
                          *cond = hlo_attr_comp(i, HLO_ATTR_CONDITION);
    const hlo_instr *with[] = {hlo_operand(i, 0), body->params[0], body->root, cond->params[0]};
    for (size_t k = 0; k < HS_COUNT(with); k++) same_whole(c, i, with[k]);
    break;
  }
  case HLO_CONDITIONAL: {
    hlo_computation **v;
    u32 n;
    pass_called_all(i, c->f->a, &v, &n);
    for (u32 k = 0; k < n; k++) {
      same_whole(c, i, v[k]->root);
      same_whole(c, v[k]->params[0], hlo_operand(i, 1 + k));
    }
    break;
  }
  case HLO_CALL: {
    const hlo_computation *called = hlo_fusion_comp(i);
    same_whole(c, i, called->root);
    for (u32 k = 0; k < i->noperands && k < called->nparams; k++)
      same_whole(c, called->params[k], hlo_operand(i, k));
    break;
  }
  default: break;
  }
}

// What each operation says of its result and of its operand 0.
typedef struct role {
  hlo_opcode op;
  cp_state result, operand;
} role;
static const role roles[] = {
    {HLO_ASYNC_START, CP_CALL_STATE, CP_NO_STATE},
    {HLO_ASYNC_UPDATE, CP_CALL_STATE, CP_CALL_STATE},
    {HLO_ASYNC_DONE, CP_NO_STATE, CP_CALL_STATE},
    {HLO_SEND, CP_TRANSFER_STATE, CP_NO_STATE},
    {HLO_SEND_DONE, CP_NO_STATE, CP_TRANSFER_STATE},
    {HLO_RECV, CP_TRANSFER_STATE, CP_NO_STATE},
    {HLO_RECV_DONE, CP_NO_STATE, CP_TRANSFER_STATE},
    {HLO_COPY_START, CP_TRANSFER_STATE, CP_NO_STATE},
    {HLO_COPY_DONE, CP_NO_STATE, CP_TRANSFER_STATE},
};

static void mark_class(classes *c, u8 *state, const hlo_instr *i, cp_state what) {
  for (u32 k = 0, n = what ? hlo_shape_leaves(i->shape) : 0; k < n; k++)
    state[class_of(c, c->f->base[i->id] + k)] = (u8)what;
}

void cp_find_states(cp_flow *f) {
  bool any = false;
  f->state = NULL;
  for (size_t k = 0; k < HS_COUNT(roles); k++) any |= f->m->nops[roles[k].op] != 0;
  if (!any) return;
  classes c = {f, HS_NEW_ARRAY(f->a, u32, f->npositions + 1)};
  u8 *state = HS_NEW_ARRAY(f->a, u8, f->npositions + 1);
  for (u32 k = 0; k < f->npositions; k++) c.parent[k] = k;
  for (u32 k = 0; k < f->comps.n; k++)
    hlo_for_each_instr(i, f->comps.v[k]) hand_on(&c, i);
  for (u32 k = 0; k < f->comps.n; k++)
    hlo_for_each_instr(i, f->comps.v[k])
      for (size_t r = 0; r < HS_COUNT(roles); r++) {
        if (i->opcode != roles[r].op) continue;
        mark_class(&c, state, i, roles[r].result);
        if (i->noperands) mark_class(&c, state, hlo_operand(i, 0), roles[r].operand);
      }
  for (u32 k = 0; k < f->npositions; k++) state[k] = state[class_of(&c, k)];
  f->state = state;
}

cp_state cp_state_at(const cp_flow *f, const hlo_instr *i, u32 leaf) {
  while (f->state && (i->id >= f->nids || f->base[i->id] == CP_NONE)) {  // made since
    if (i->opcode == HLO_GET_TUPLE_ELEMENT) {
      leaf += cp_element_leaf(i);
      i = hlo_operand(i, 0);
    } else if (i->opcode == HLO_TUPLE) {
      u32 k = 0, n;
      while (leaf >= (n = hlo_shape_leaves(hlo_operand(i, k)->shape))) leaf -= n, k++;
      i = hlo_operand(i, k);
    } else return CP_NO_STATE;
  }
  return f->state ? (cp_state)f->state[f->base[i->id] + leaf] : CP_NO_STATE;
}
