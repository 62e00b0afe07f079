// inline.c — calls, maps and shared control-flow computations.
//
// call-inliner (xla/service/call_inliner.cc): a call's body replaces it. Callers first: the calls among the copies are inlined
//   where they stand, and a body that nobody calls any more is never flattened itself, so that calls nested a thousand deep
//   cost what they come to, not that for every level. What the call was told its copies inherit: control predecessors, frontend attributes, and the call's
//   op_name in front of their own. Options: single_call_site, use_shardy_partitioner (its manual bodies stay calls).
// map-inline (xla/service/map_inliner.cc): a map of a scalar elementwise function becomes that function on whole arrays.
// flatten-call-graph (xla/service/flatten_call_graph.cc): a computation that several calls, whiles or conditionals share
//   is copied, one for each, so that later passes may edit it for its one caller.
#include "passes/util.h"

typedef struct inliner {
  pass_ctx *c;
  bool single, shardy;
  u32 *counts;           // pass_caller_counts as the pass began
} inliner;

static bool is_marked(const hlo_instr *call, bool shardy) {
  const hlo_frontend *f = hlo_attr_ptr(call, HLO_ATTR_FRONTEND_ATTRIBUTES);
  for (u32 k = 0; f && k < f->n; k++)
    if (hs_str_eq(f->v[k].key, HS_STR("inlineable")) && (hs_str_eq(f->v[k].value, HS_STR("false")) || hs_str_eq(f->v[k].value, HS_STR("xla_late")))) return true;
  if (shardy) {
    const char *name = hlo_attr_comp(call, HLO_ATTR_TO_APPLY)->name;
    if (strstr(name, "shmap_body") || strstr(name, "manual_computation_body")) return true;
  }
  return hlo_attr_get(call, HLO_ATTR_BACKEND_CONFIG) != NULL;
}

// Why a call stays; NULL: it goes. (What its copies stand in does not matter: inlining keeps to one execution thread.)
static const char *refusal(const inliner *n, const hlo_instr *call) {
  const hlo_computation *body = hlo_attr_comp(call, HLO_ATTR_TO_APPLY);
  if (!body) return "it calls nothing";
  if (is_marked(call, n->shardy)) return "marked as not inlineable";
  if (n->single && body->id < n->counts[0] && n->counts[1 + body->id] > 1) return "its body has several call sites";
  if (!hs_str_eq(body->execution_thread, call->parent->execution_thread)) return "its body runs on another execution thread";
  return NULL;
}

static bool goes(const inliner *n, const hlo_instr *i) { return i->opcode == HLO_CALL && !refusal(n, i); }

// ---- what copies inherit from their call -----------------------------------------------------------------------------------
#define MAX_OP_NAME 1000   // a longer joined name is not worth its bytes: the copy keeps its own

// Metadata with `prefix` before its op_name; NULL when there is nothing to change.
static const hlo_metadata *prefixed(hlo_module *m, const hlo_metadata *d, hs_str prefix) {
  if (!d || !d->op_name.n || d->op_name.n + prefix.n >= MAX_OP_NAME) return NULL;
  hs_buf b = {0};
  hs_buf_printf(&b, "%.*s/%.*s", (int)prefix.n, prefix.p, (int)d->op_name.n, d->op_name.p);
  hlo_metadata *now = HS_NEW(&m->arena, hlo_metadata);
  *now = *d;
  now->op_name = (hs_str){hs_arena_strndup(&m->arena, b.p, b.n), b.n};
  hs_buf_free(&b);
  return now;
}

// A call that goes itself hands its name on when its turn comes; without one it is lent the prefix.
static void prefix_names(const inliner *t, hlo_instr *i, hs_str prefix, u32 depth) {
  hlo_module *m = t->c->m;
  const hlo_metadata *own = hlo_metadata_of(i), *d = prefixed(m, own, prefix);
  bool later = depth == 0 && goes(t, i);
  if (later && (!own || !own->op_name.n)) {
    hlo_metadata *lent = HS_NEW(&m->arena, hlo_metadata);
    if (own) *lent = *own;
    lent->op_name = prefix;
    d = lent;
  }
  if (d) hlo_set_attr_ptr(i, HLO_ATTR_METADATA, d);
  if (later) return;
  hlo_computation *called[8];
  u32 n = depth < 64 && hlo_op_has(i->opcode, HLO_F_CALLS) ? hlo_called(i, called, 8) : 0;
  for (u32 k = 0; k < HS_MIN(n, 8u); k++) hlo_for_each_instr(x, called[k]) prefix_names(t, x, prefix, depth + 1);
}

static int key_order(hs_str a, hs_str b) {
  int d = memcmp(a.p, b.p, HS_MIN(a.n, b.n));
  return d ? d : a.n < b.n ? -1 : a.n > b.n;
}

static void join_frontend(hlo_module *m, hlo_instr *i, const hlo_frontend *from) {
  const hlo_frontend *own = hlo_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  u32 n = 0, have = own ? own->n : 0, a = 0, b = 0;
  hlo_frontend_entry *v = HS_NEW_ARRAY(&m->arena, hlo_frontend_entry, have + from->n);
  while (a < have || b < from->n) {   // both are sorted by key; its own value wins
    int order = a == have ? 1 : b == from->n ? -1 : key_order(own->v[a].key, from->v[b].key);
    v[n++] = order <= 0 ? own->v[a] : from->v[b];
    a += order <= 0, b += order >= 0;
  }
  hlo_frontend *now = HS_NEW(&m->arena, hlo_frontend);
  *now = (hlo_frontend){n, v};
  hlo_set_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES, now);
}

static void join_ctrl_preds(hs_arena *a, hlo_instr *i, const hlo_instr_list *from) {
  u32 n = i->ctrl_preds ? i->ctrl_preds->n : 0;
  hlo_instr **v = HS_NEW_ARRAY(a, hlo_instr *, n + from->n);
  for (u32 k = 0; k < n; k++) v[k] = i->ctrl_preds->v[k];
  for (u32 k = 0; k < from->n; k++) {
    bool have = false;
    for (u32 j = 0; j < n; j++) have |= v[j] == from->v[k];
    if (!have) v[n++] = from->v[k];
  }
  hlo_set_ctrl_preds(i, n, v);
}

// Puts the body in the call's place; returns the first of the copies, NULL when there are none.
static hlo_instr *inline_one(const inliner *t, hlo_instr *call, hlo_computation *body) {
  pass_ctx *c = t->c;
  hlo_computation *comp = call->parent;
  hlo_instr **args = HS_NEW_ARRAY(c->scratch, hlo_instr *, call->noperands + 1), *before = call->prev;
  for (u32 a = 0; a < call->noperands; a++) args[a] = hlo_operand(call, a);
  const hlo_frontend *frontend = hlo_attr_ptr(call, HLO_ATTR_FRONTEND_ATTRIBUTES);
  const hlo_metadata *md = hlo_metadata_of(call);
  const hlo_origin *origin = hlo_attr_ptr(call, HLO_ATTR_ORIGIN);
  const hlo_instr_list *preds = call->ctrl_preds;
  pass_note_done(c, call, NULL, "inlined %s (%u instructions)", body->name, body->ninstrs);
  hlo_instr *root = pass_inline_at(call, body, args, c->scratch), *first = before ? before->next : comp->first;
  for (hlo_instr *i = first; i != call; i = i->next) {
    if (frontend && frontend->n) join_frontend(c->m, i, frontend);
    if (md && md->op_name.n) prefix_names(t, i, md->op_name, 0);
    if (preds && preds->n) join_ctrl_preds(c->scratch, i, preds);
    if (!origin && hlo_attr_get(i, HLO_ATTR_ORIGIN)) hlo_remove_attr(i, HLO_ATTR_ORIGIN);   // what the call stood for is not known
  }
  if (first == call) first = NULL;
  u32 nargs = call->noperands;
  hlo_replace_uses(call, root);
  hlo_remove(call);            // whatever its body does: the copies do it now
  for (u32 a = 0; a < nargs; a++) hlo_remove_dead(args[a]);
  return first;
}

// Inlines the calls of one computation and those among the copies. False: no more rewrites are allowed.
static bool inline_calls(const inliner *t, hlo_computation *comp) {
  for (hlo_instr *i = comp->first, *next; i; i = next) {
    next = i->next;
    if (i->opcode == HLO_CALL) {
      hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
      const char *why = refusal(t, i);
      if (why) {
        pass_note_declined(t->c, i, NULL, "%s", why);
        continue;
      }
      if (!pass_may_rewrite(t->c)) return false;
      hlo_instr *first = inline_one(t, i, body);
      if (first) next = first;
    }
    while (next && next->dead) next = next->next;   // an argument that nobody reads any more went with the call
  }
  return true;
}

hs_status pass_call_inliner(pass_ctx *c) {
  hlo_module *m = c->m;
  u64 before = m->generation;
  u32 n;
  hlo_computation **order = hlo_comp_callees_first(m, c->scratch, &n);
  inliner t = {c, pass_option_bool(c, "single_call_site", false), pass_option_bool(c, "use_shardy_partitioner", false), pass_caller_counts(m, c->scratch)};
  bool *needed = HS_NEW_ARRAY(c->scratch, bool, m->next_comp_id + 1);   // called by what is left, or by nobody from the start
  for (u32 k = n; k-- > 0;) {
    hlo_computation *x = order[k];
    if (!needed[x->id] && x != m->entry && t.counts[1 + x->id]) continue;
    if (!inline_calls(&t, x)) return HS_GOOD;
    hlo_for_each_instr(i, x) {
      hlo_computation **v;
      u32 nv;
      pass_called_all(i, c->scratch, &v, &nv);
      for (u32 j = 0; j < nv; j++) needed[v[j]->id] = true;
    }
    HS_TRY(hs_poll());
  }
  if (m->generation != before) return pass_remove_unused(c);   // bodies that lost their last caller
  return HS_GOOD;
}

const hlo_instr *pass_not_liftable(const hlo_computation *f) {
  hlo_for_each_instr(i, f) {
    bool ok = hlo_shape_is_scalar(i->shape) && !i->ctrl_preds &&
              (i->opcode == HLO_PARAMETER || i->opcode == HLO_CONSTANT || hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->opcode == HLO_BITCAST_CONVERT);
    if (!ok) return i;
  }
  return NULL;
}

static void lift_map(pass_ctx *c, hlo_instr *map, const hlo_computation *f) {
  hlo_instr **order = hlo_post_order(f, c->scratch), **made = HS_NEW_ARRAY(c->scratch, hlo_instr *, f->ninstrs + 1);
  u32 n = f->ninstrs;
  hlo_numbers place = hlo_number_instrs(f, n, order, c->scratch);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    if (i->opcode == HLO_PARAMETER) {
      made[t] = hlo_operand(map, (u32)hlo_param_number(i));
    } else {
      hlo_instr *ops[3];
      for (u32 k = 0; k < i->noperands && k < 3; k++) ops[k] = made[hlo_number_of(&place, hlo_operand(i, k))];
      const hlo_shape *s = i->opcode == HLO_CONSTANT ? NULL : pass_shape_as(map, i->shape->dtype);
      made[t] = hlo_clone_instr(map->parent, i, s, i->noperands, ops);
      if (i->opcode == HLO_CONSTANT && map->shape->rank) made[t] = hlo_add_broadcast(made[t], pass_shape_as(map, i->shape->dtype), 0, NULL);
    }
  }
  hlo_replace(map, made[hlo_number_of(&place, f->root)]);
}

hs_status pass_map_inline(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_MAP) continue;
      const hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
      const hlo_instr *bad = f ? pass_not_liftable(f) : i;
      if (bad || !hlo_shape_is_array(i->shape)) {
        pass_note_declined(c, i, NULL, "%s is not elementwise", bad ? hlo_op_text(bad->opcode) : "its result");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "applied %s to whole arrays", f->name);
      lift_map(c, i, f);
    }
  }
  return HS_GOOD;
}

static bool control_flow(const hlo_instr *i) {
  return i->opcode == HLO_CALL || i->opcode == HLO_WHILE || i->opcode == HLO_CONDITIONAL || i->opcode == HLO_ASYNC_START;
}

// A computation that a call, while or conditional shares gets copies of its own, with everything it calls copied too:
// reducers and comparators of the copy belong to the copy.
static hlo_computation *clone_of(const hlo_computation *x) {
  char *name = hs_format("%s.clone", x->name);
  hlo_computation *copy = hlo_clone_computation((hlo_computation *)x, name, NULL);
  hs_free(name);
  return copy;
}

// stays: by computation id below `known`, those that the copy shares with the original.
static hlo_computation *deep_clone(hlo_computation *x, hs_arena *a, u32 known, const bool *stays) {
  hlo_computation *top = clone_of(x);
  HS_VEC(hlo_computation *) work = {0};
  hs_vec_push(&work, top);
  while (work.n) {
    hlo_computation *y = hs_vec_pop(&work);
    hlo_for_each_instr(i, y) {
      hlo_computation **v;
      u32 n;
      pass_called_all(i, a, &v, &n);
      for (u32 k = 0; k < n; k++) {
        if (v[k]->id < known && stays[v[k]->id]) continue;
        hlo_computation *copy = clone_of(v[k]);
        pass_set_called(i, k, copy);
        hs_vec_push(&work, copy);
      }
    }
  }
  hs_vec_free(&work);
  return top;
}

// Callees first. The first control-flow caller keeps the computation, unless operations like reduce use it, too; a
// conditional that names it twice gets a copy for each branch. skip_cloning_for_calls: what only calls use stays shared.
hs_status pass_flatten_call_graph(pass_ctx *c) {
  hlo_module *m = c->m;
  bool calls_share = pass_option_bool(c, "skip_cloning_for_calls", false);
  u32 n;
  hlo_computation **order = hlo_comp_post_order(m, c->scratch, &n);
  pass_call_sites all = pass_find_sites(m, c->scratch);
  u32 known = m->next_comp_id;
  bool *stays = HS_NEW_ARRAY(c->scratch, bool, known + 1);
  for (u32 k = 0; calls_share && k < n; k++) {
    u32 id = order[k]->id, j = all.start[id];
    while (j < all.start[id + 1] && all.sites[j].i->opcode == HLO_CALL) j++;
    stays[id] = j == all.start[id + 1];
  }
  for (u32 k = 0; k < n; k++) {
    hlo_computation *x = order[k];
    u32 from = all.start[x->id], to = all.start[x->id + 1];
    bool keep = true;   // the next control-flow caller may have x itself
    if (stays[x->id]) continue;
    for (u32 j = from; j < to; j++) keep &= control_flow(all.sites[j].i);
    for (u32 j = from; j < to; j++) {
      const pass_call_site *s = &all.sites[j];
      if (!control_flow(s->i)) continue;
      bool twice = (j + 1 < to && all.sites[j + 1].i == s->i) || (j > from && all.sites[j - 1].i == s->i);
      if (keep && !twice) { keep = false; continue; }
      keep = false;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, s->i, NULL, "%s copied for this caller", x->name);
      pass_set_called(s->i, s->slot, deep_clone(x, c->scratch, known, stays));
    }
    HS_TRY(hs_poll());
  }
  return HS_GOOD;
}
