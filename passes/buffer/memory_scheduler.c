// memory_scheduler.c — hlo-memory-scheduler
// (xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc): schedules every computation for a
// low memory peak.
//
// Three schedules are tried: a greedy list schedule that always takes the ready instruction that
// frees the most bytes; a depth-first traversal from the results that visits first the operands
// whose subgraphs have many other users or many bytes; and the plain post order. The one with the
// lowest estimated peak over the module wins, the first in this order when equal, and the module is
// marked as scheduled. The option `algorithm` selects one of the three.
//
// All devices run the same schedule, so a send-done or recv-done is delayed until the matching recv
// or send is issued, where dependencies permit.
#include "passes/run/rewrite.h"

#include <stdlib.h>

static i64 own_bytes(const hlo_instr *i) {
  if (hlo_op_has(i->opcode, HLO_F_FREE) && i->opcode != HLO_CONSTANT) return 0;
  return hlo_shape_is_array(i->shape) ? hlo_shape_bytes(i->shape) : 0;
}

typedef struct ready {
  i64 gain;
  u32 order;
  hlo_instr *i;
} ready;
typedef struct heap {
  HS_VEC(ready) v;
} heap;

static bool before(ready a, ready b) {
  return a.gain != b.gain ? a.gain > b.gain : a.order < b.order;
}

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

// Of an instruction and the subgraph of its operands: the number of users beyond the first, and the
// bytes. Shared operands count once per path.
typedef struct below {
  i64 users, bytes;
} below;
// A computation in post order, and tables by position in it, reused for the next computation.
typedef struct tables {
  hlo_computation *c;
  hlo_instr **post;
  hlo_positions at;               // in post
  HS_VEC(u32) waits, left, head;  // head: first of an instruction's control successors
  // 1 + the last position that was counted with this one as user, as operand
  HS_VEC(u32) user, visited;
  HS_VEC(u8) mark;  // 1: on the stack below its operands, 2: scheduled
  HS_VEC(below) below;
} tables;

static u32 position(const tables *t, const hlo_instr *i) { return hlo_position_of(&t->at, i); }

// Bytes that executing i now would free, minus those of its result.
static i64 gain_of(const tables *t, const hlo_instr *i) {
  i64 g = -own_bytes(i);  // sizes are at most INT64_MAX
  for (u32 k = 0; k < i->noperands; k++)
    if (t->left.v[position(t, hlo_operand(i, k))] == 1)
      g = hs_add_sat_i64(g, own_bytes(hlo_operand(i, k)));
  return g;
}

static void release(tables *t, heap *h, hlo_instr *i) {
  if (--t->waits.v[position(t, i)] == 0) heap_push(h, (ready){gain_of(t, i), position(t, i), i});
}

static hlo_instr **list_schedule(tables *t, hs_arena *a) {
  u32 n = t->c->ninstrs, done = 0;
  hlo_instr **out = hs_arena_alloc(a, (n + 1) * sizeof *out);
  // Control successors by predecessor, as linked lists.
  typedef struct edge {
    hlo_instr *to;
    u32 next;
  } edge;
  HS_VEC(edge) edges = {0};
  heap h = {0};
  hs_vec_zeros(&t->waits, n);
  hs_vec_zeros(&t->left, n);
  hs_vec_zeros(&t->head, n);
  for (u32 k = 0; k < n; k++) {
    hlo_instr *i = t->post[k];
    t->left.v[k] = i->nuses;
    t->waits.v[k] = i->noperands + (i->ctrl_preds ? i->ctrl_preds->n : 0) + 1;
    for (u32 p = 0; i->ctrl_preds && p < i->ctrl_preds->n; p++) {
      u32 *head = &t->head.v[position(t, i->ctrl_preds->v[p])];
      hs_vec_push(&edges, ((edge){i, *head}));
      *head = (u32)edges.n;
    }
  }
  for (u32 k = 0; k < n; k++) release(t, &h, t->post[k]);
  while (h.v.n && done < n) {
    hlo_instr *i = heap_pop(&h).i;
    out[done++] = i;
    for (u32 k = 0; k < i->noperands; k++) t->left.v[position(t, hlo_operand(i, k))]--;
    hlo_for_each_use(u, i) release(t, &h, u->user);
    for (u32 e = t->head.v[position(t, i)]; e; e = edges.v[e - 1].next)
      release(t, &h, edges.v[e - 1].to);
  }
  hs_vec_free(&h.v);
  hs_vec_free(&edges);
  return done == n ? out : NULL;
}

// ---- depth-first schedule -----------------------------------------------------------------------
static i64 other_users(tables *t, const hlo_instr *i) {
  i64 n = 0;
  hlo_for_each_use(u, i) {
    u32 *seen = &t->user.v[position(t, u->user)];
    if (*seen != position(t, i) + 1) *seen = position(t, i) + 1, n++;
  }
  return n ? n - 1 : 0;
}

typedef struct next {
  below b;
  hlo_instr *i;
} next;
// the operand to visit first is last, on top of the stack
static int visited_last(const void *p, const void *q) {
  const next *x = p, *y = q;
  if (x->b.users != y->b.users) return x->b.users > y->b.users ? 1 : -1;
  if (x->b.bytes != y->b.bytes) return x->b.bytes > y->b.bytes ? 1 : -1;
  return strcmp(y->i->name, x->i->name);
}

static void count_below(tables *t) {
  u32 n = t->c->ninstrs;
  i64 bytes = 0;
  hs_vec_zeros(&t->user, n);
  hs_vec_zeros(&t->visited, n);
  hs_vec_zeros(&t->below, n);
  for (u32 k = 0; k < n; k++) {
    const hlo_instr *i = t->post[k];
    if (i->opcode == HLO_PARAMETER || i->opcode == HLO_CONSTANT) continue;
    below b = {other_users(t, i), own_bytes(i)};
    bytes = hs_add_sat_i64(bytes, b.bytes);
    for (u32 o = 0; o < i->noperands; o++) {
      u32 x = position(t, hlo_operand(i, o));
      if (t->visited.v[x] == k + 1) continue;
      t->visited.v[x] = k + 1;
      b.users = hs_add_sat_i64(b.users, t->below.v[x].users);
      b.bytes = hs_add_sat_i64(b.bytes, t->below.v[x].bytes);
    }
    t->below.v[k] = (below){HS_MIN(b.users, (i64)n), HS_MIN(b.bytes, bytes)};
  }
}

static hlo_instr **dfs_schedule(tables *t, hs_arena *a) {
  const hlo_computation *c = t->c;
  hlo_instr **out = hs_arena_alloc(a, (c->ninstrs + 1) * sizeof *out);
  HS_VEC(hlo_instr *) stack = {0};
  HS_VEC(next) operands = {0};
  u32 n = 0;
  hs_vec_zeros(&t->mark, c->ninstrs);
  for (u32 k = 0; k <= c->ninstrs; k++) {  // instructions without users, the root last
    hlo_instr *top = k < c->ninstrs ? t->post[k] : c->root;
    if (k < c->ninstrs && (top->nuses || top == c->root)) continue;
    hs_vec_push(&stack, top);
    while (stack.n) {
      hlo_instr *i = stack.v[stack.n - 1];
      u8 *mark = &t->mark.v[position(t, i)];
      if (*mark) {
        stack.n--;
        if (*mark == 1) *mark = 2, out[n++] = i;
        continue;
      }
      *mark = 1;
      operands.n = 0;
      for (u32 o = 0, preds = i->ctrl_preds ? i->ctrl_preds->n : 0; o < i->noperands + preds; o++) {
        hlo_instr *x = o < i->noperands ? hlo_operand(i, o) : i->ctrl_preds->v[o - i->noperands];
        next one = {t->below.v[position(t, x)], x};
        if (!t->mark.v[position(t, x)]) hs_vec_push(&operands, one);
      }
      if (operands.n > 1) qsort(operands.v, operands.n, sizeof *operands.v, visited_last);
      for (size_t j = 0; j < operands.n; j++) hs_vec_push(&stack, operands.v[j].i);
    }
  }
  hs_vec_free(&stack);
  hs_vec_free(&operands);
  return n == c->ninstrs ? out : NULL;
}

// ---- matching sends and receives ----------------------------------------------------------------
static bool is_issue(const hlo_instr *i) { return i->opcode == HLO_SEND || i->opcode == HLO_RECV; }
static bool waits(const hlo_instr *i) {
  return (i->opcode == HLO_SEND_DONE || i->opcode == HLO_RECV_DONE) && is_issue(hlo_operand(i, 0));
}

// Whether the counterpart of the transfer that i waits for is not issued yet.
static bool too_early(const hlo_instr *i, u32 n, hlo_instr *const *rest) {
  const hlo_instr *mine = waits(i) ? hlo_operand(i, 0) : NULL;
  if (!mine || hlo_attr_int(mine, HLO_ATTR_IS_HOST_TRANSFER, 0)) return false;
  for (u32 k = 0; k < n; k++)
    if (rest[k] && is_issue(rest[k]) && rest[k]->opcode != mine->opcode &&
        hlo_attr_int(rest[k], HLO_ATTR_CHANNEL_ID, 0) == hlo_attr_int(mine, HLO_ATTR_CHANNEL_ID, 0))
      return true;
  return false;
}

static bool has_all(const hlo_instr *i, const u32 *placed) {
  for (u32 o = 0; o < i->noperands; o++)
    if (!placed[hlo_operand(i, o)->id]) return false;
  for (u32 o = 0; i->ctrl_preds && o < i->ctrl_preds->n; o++)
    if (!placed[i->ctrl_preds->v[o]->id]) return false;
  return true;
}

// Delays dones until the counterpart is issued, and with them their users. placed: by instruction
// id, zeros.
static void delay_dones(const hlo_computation *c, hlo_instr **order, u32 *placed, hs_arena *a) {
  hlo_instr **out = HS_NEW_ARRAY(a, hlo_instr *, c->ninstrs + 1);
  u32 n = 0, total = c->ninstrs;
  bool any = false;
  for (u32 k = 0; k < total; k++) any |= waits(order[k]);
  for (bool delaying = true; any && n < total;) {
    u32 before = n;
    for (u32 k = 0; k < total; k++) {
      hlo_instr *i = order[k];
      if (!i || !has_all(i, placed) || (delaying && too_early(i, total, order))) continue;
      placed[i->id] = 1, order[k] = NULL, out[n++] = i;
      if (!delaying) break;  // one without a counterpart; then delay again
    }
    if (n == before && !delaying) return;
    delaying = n > before;
  }
  if (any) memcpy(order, out, total * sizeof *out);
}

// ---- the pass -----------------------------------------------------------------------------------
typedef enum kind { LISTED, DFS, POST_ORDER, NKINDS } kind;
static const char *const kind_names[] = {"list", "depth first", "post order"};

// The computations to schedule: all but fusion bodies.
static hlo_computation **ordered_comps(const hlo_module *m, hs_arena *a, u32 *n) {
  hlo_computation **out = HS_NEW_ARRAY(a, hlo_computation *, m->ncomputations + 1);
  *n = 0;
  hlo_for_each_comp(c, m)
    if (!hlo_is_fusion_comp(c)) out[(*n)++] = c;
  return out;
}

static void mark_scheduled(hlo_module *m) {
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_IS_SCHEDULED, .v.i = 1});
}

// Equal schedules share one array, so that their peak is estimated once.
static hs_status find_orders(pass_ctx *c, u32 n, hlo_computation *const *comps,
                             hlo_instr ***const order[NKINDS]) {
  hlo_module *m = c->m;
  hs_arena *a = c->scratch;
  tables t = {0};
  hs_status s = HS_GOOD;
  u32 *placed[NKINDS] = {NULL};
  bool meet = m->nops[HLO_SEND_DONE] || m->nops[HLO_RECV_DONE];
  for (u32 x = 0; meet && x < NKINDS; x++) placed[x] = HS_NEW_ARRAY(a, u32, m->next_instr_id);
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    u32 id = comps[k]->id;
    size_t bytes = comps[k]->ninstrs * sizeof *t.post;
    t.c = comps[k], t.post = pass_post_order(c, comps[k]);
    t.at = hlo_positions_in(comps[k]->ninstrs, t.post, a);
    count_below(&t);
    order[POST_ORDER][id] = meet ? hs_arena_dup(a, t.post, bytes) : t.post;
    order[DFS][id] = dfs_schedule(&t, a);
    order[LISTED][id] = list_schedule(&t, a);
    for (u32 x = 0; x < NKINDS; x++) {
      if (!order[x][id]) order[x][id] = hs_arena_dup(a, t.post, bytes);
      if (meet) delay_dones(comps[k], order[x][id], placed[x], a);
      for (u32 y = 0; y < x; y++)
        if (memcmp(order[x][id], order[y][id], bytes) == 0) order[x][id] = order[y][id];
    }
    s = hs_poll();
  }
  hs_vec_free(&t.waits);
  hs_vec_free(&t.left);
  hs_vec_free(&t.head);
  hs_vec_free(&t.user);
  hs_vec_free(&t.visited);
  hs_vec_free(&t.mark);
  hs_vec_free(&t.below);
  return s;
}

static hs_status run(pass_ctx *c) {
  hlo_module *m = c->m;
  u32 only = pass_option_choice(c, "algorithm");
  if (hlo_is_scheduled(m)) {
    pass_note_declined(c, NULL, NULL, "the module has a schedule");
    return HS_GOOD;
  }
  if (!pass_may_rewrite(c)) return HS_GOOD;
  u32 n;
  hlo_computation **comps = ordered_comps(m, c->scratch, &n);
  hlo_instr ***order[NKINDS];  // by computation id
  for (u32 x = 0; x < NKINDS; x++)
    order[x] = HS_NEW_ARRAY(c->scratch, hlo_instr **, m->next_comp_id);
  HS_TRY(find_orders(c, n, comps, order));
  hlo_memory peak[NKINDS];
  HS_TRY(hlo_memory_of_orders(m, NKINDS, (hlo_instr * *const *const *)order, false, peak));
  kind best = only ? (kind)(only - 1) : LISTED;
  for (u32 x = 0; x < NKINDS && !only; x++)
    if (peak[x].peak_bytes < peak[best].peak_bytes) best = (kind)x;
  for (u32 k = 0; k < n; k++) hlo_reorder(comps[k], order[best][comps[k]->id]);
  mark_scheduled(m);
  pass_note_done(
      c, m->entry->root, NULL, "peak %lld bytes: %s (list %lld, depth first %lld, post order %lld)",
      (long long)peak[best].peak_bytes, kind_names[best], (long long)peak[LISTED].peak_bytes,
      (long long)peak[DFS].peak_bytes, (long long)peak[POST_ORDER].peak_bytes);
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"algorithm", PASS_CHOICE, "default|list|dfs|post_order",
     "default: the schedule with the lowest peak"},
};

const pass_info pass_hlo_memory_scheduler = {
    .name = "hlo-memory-scheduler",
    .summary = "schedules instructions for a low memory peak",
    .xla_source = "xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc",
    .run = run,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[] parameter(0)\n"
                       "  kept = f32[128] broadcast(x), dimensions={}\n"
                       "  passing = f32[64] iota(), iota_dimension=0\n"
                       "  zero = f32[] constant(0)\n"
                       "  total = f32[] reduce(passing, zero), dimensions={0}, to_apply=sum\n"
                       "  ROOT r = f32[] reduce(kept, total), dimensions={0}, to_apply=sum\n"
                       "}\n",
};
