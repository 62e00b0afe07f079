// schedule.c — hlo-memory-scheduler (xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc): an order for every
// computation that keeps few bytes alive. Two orders are tried, the post order and a greedy list schedule that always
// takes the ready instruction that frees most; the one with the lower estimated peak stays and the module is marked as
// scheduled.
#include "passes/util.h"

static void apply(hlo_computation *c, hlo_instr *const *order) {
  for (u32 k = 0; k < c->ninstrs; k++)
    if (order[k]->next || order[k] != c->last) hlo_move_before(order[k], NULL);
}

static i64 own_bytes(const hlo_instr *i) {
  if (hlo_op_has(i->opcode, HLO_F_FREE) && i->opcode != HLO_CONSTANT) return 0;
  return hlo_shape_is_array(i->shape) ? hlo_shape_bytes(i->shape) : 0;
}

typedef struct ready { i64 gain; u32 order; hlo_instr *i; } ready;
typedef struct heap { HS_VEC(ready) v; } heap;

static bool before(ready a, ready b) { return a.gain != b.gain ? a.gain > b.gain : a.order < b.order; }

static void heap_push(heap *h, ready r) {
  hs_vec_push(&h->v, r);
  for (size_t k = h->v.n - 1; k && before(h->v.v[k], h->v.v[(k - 1) / 2]); k = (k - 1) / 2) {
    ready t = h->v.v[k];
    h->v.v[k] = h->v.v[(k - 1) / 2];
    h->v.v[(k - 1) / 2] = t;
  }
}

static ready heap_pop(heap *h) {
  ready top = h->v.v[0];
  h->v.v[0] = hs_vec_pop(&h->v);
  for (size_t k = 0;;) {
    size_t l = 2 * k + 1, best = k;
    for (size_t j = l; j < l + 2 && j < h->v.n; j++)
      if (before(h->v.v[j], h->v.v[best])) best = j;
    if (best == k || h->v.n == 0) break;
    ready t = h->v.v[k];
    h->v.v[k] = h->v.v[best];
    h->v.v[best] = t;
    k = best;
  }
  return top;
}

// By instruction id, for the whole module: a computation uses the places of its own instructions. `head`: first of an
// instruction's control successors.
typedef struct state { u32 *waits, *left, *place, *head; } state;

// Bytes that running i now would free, less what it makes.
static i64 gain_of(const state *s, const hlo_instr *i) {
  i64 g = -own_bytes(i);
  for (u32 k = 0; k < i->noperands; k++)
    if (s->left[hlo_operand(i, k)->id] == 1) g += own_bytes(hlo_operand(i, k));
  return g;
}

static void release(state *s, heap *h, hlo_instr *i) {
  if (--s->waits[i->id] == 0) heap_push(h, (ready){gain_of(s, i), s->place[i->id], i});
}

static hlo_instr **list_schedule(const hlo_computation *c, hlo_instr *const *post, state *s, hs_arena *a) {
  u32 n = c->ninstrs, done = 0;
  hlo_instr **out = HS_NEW_ARRAY(a, hlo_instr *, n + 1);
  // Control successors by predecessor, as linked lists.
  u32 nctrl = 0;
  hlo_for_each_instr(i, c) nctrl += i->ctrl_preds ? i->ctrl_preds->n : 0;
  typedef struct edge { hlo_instr *to; u32 next; } edge;
  edge *edges = HS_NEW_ARRAY(a, edge, nctrl + 1);
  u32 ne = 0;
  heap h = {0};
  for (u32 k = 0; k < n; k++) {
    hlo_instr *i = post[k];
    s->place[i->id] = k;
    s->left[i->id] = i->nuses;
    s->waits[i->id] = i->noperands + (i->ctrl_preds ? i->ctrl_preds->n : 0) + 1;
    for (u32 p = 0; i->ctrl_preds && p < i->ctrl_preds->n; p++) {
      edges[++ne] = (edge){i, s->head[i->ctrl_preds->v[p]->id]};
      s->head[i->ctrl_preds->v[p]->id] = ne;
    }
  }
  for (u32 k = 0; k < n; k++) release(s, &h, post[k]);
  while (h.v.n && done < n) {
    hlo_instr *i = heap_pop(&h).i;
    out[done++] = i;
    for (u32 k = 0; k < i->noperands; k++) s->left[hlo_operand(i, k)->id]--;
    hlo_for_each_use(u, i) release(s, &h, u->user);
    for (u32 e = s->head[i->id]; e; e = edges[e].next) release(s, &h, edges[e].to);
  }
  hs_vec_free(&h.v);
  return done == n ? out : NULL;
}

// The computations that have an order of their own; asked before the first edit, while one answer serves all.
static hlo_computation **ordered_comps(const hlo_module *m, hs_arena *a, u32 *n) {
  hlo_computation **out = HS_NEW_ARRAY(a, hlo_computation *, m->ncomputations + 1);
  *n = 0;
  hlo_for_each_comp(c, m) if (!hlo_is_fusion_comp(c)) out[(*n)++] = c;
  return out;
}

static void mark_scheduled(hlo_module *m) { hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_IS_SCHEDULED, .v.i = 1}); }

hs_status pass_hlo_memory_scheduler(pass_ctx *c) {
  hlo_module *m = c->m;
  if (hlo_is_scheduled(m)) { pass_note_declined(c, NULL, NULL, "the module has a schedule"); return HS_GOOD; }
  if (!pass_may_rewrite(c)) return HS_GOOD;
  hlo_memory plain, listed;
  u32 n;
  hlo_computation **comps = ordered_comps(m, c->scratch, &n);
  for (u32 k = 0; k < n; k++) apply(comps[k], pass_post_order(c, comps[k]));
  mark_scheduled(m);
  HS_TRY(hlo_memory_estimate(m, false, &plain));
  u32 ids = m->next_instr_id;
  state st = {HS_NEW_ARRAY(c->scratch, u32, ids), HS_NEW_ARRAY(c->scratch, u32, ids), HS_NEW_ARRAY(c->scratch, u32, ids), HS_NEW_ARRAY(c->scratch, u32, ids)};
  for (u32 k = 0; k < n; k++) {
    hlo_instr **order = list_schedule(comps[k], pass_post_order(c, comps[k]), &st, c->scratch);
    if (order) apply(comps[k], order);
    HS_TRY(hs_poll());
  }
  HS_TRY(hlo_memory_estimate(m, false, &listed));
  if (listed.peak_bytes >= plain.peak_bytes)
    for (u32 k = 0; k < n; k++) apply(comps[k], pass_post_order(c, comps[k]));
  pass_note_done(c, m->entry->root, NULL, "peak %lld bytes (post order %lld, list %lld)", (long long)HS_MIN(plain.peak_bytes, listed.peak_bytes),
                 (long long)plain.peak_bytes, (long long)listed.peak_bytes);
  return HS_GOOD;
}
