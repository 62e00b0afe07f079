// fusion_greedy.c — XLA's own fusion, for comparison (xla/service/instruction_fusion.cc): from
// users to producers, every operand that may be fused into its consumer is, one at a time.
//
// The queue holds the instructions in post order and is processed from its end. For each consumer
// the operands are tried, last in the order first; it is fused with the first that may be fused,
// and the fusion is processed next, until no operand can be fused. So a fusion grows to its full
// size before the next one starts. A producer with several users is cloned into each of them if
// that is allowed: may_duplicate is set, it is cheap, and (unless it has at most one large operand)
// it can be fused into all its users along all paths.
//
// mode=greedy has the rules of XLA's base class, mode=greedy_cpu also those of XLA:CPU. The code
// generator expects kernels as the cost model builds them (fusion.c) and splits such fusions where
// it must.
#include "passes/fuse/fusion.h"
#include "passes/fuse/fusion_rules.h"

#include <stdio.h>
#include <stdlib.h>

typedef HS_VEC(const hlo_instr *) reused;
// of an instruction; place: 1 + its position in the queue
typedef struct note {
  u32 place;
  bool apart;
  bool known;
  reused again;
} note;
typedef struct greedy {
  pass_ctx *p;
  bool cpu, may_duplicate;
  HS_VEC(note) of;            // by instruction id
  HS_VEC(hlo_instr *) queue;  // NULL: removed
  hlo_computation *comp;
  hs_arena step;  // freed after each decision
} greedy;

static note *note_of(greedy *g, const hlo_instr *i) {
  note fresh = {0};
  while (g->of.n <= i->id) hs_vec_push(&g->of, fresh);
  return &g->of.v[i->id];
}

// ---- legality -----------------------------------------------------------------------------------
// Operands of which an element may be read again; for fusions they follow from what was fused
// (XLA's bookkeeping).
static reused *reused_by(greedy *g, const hlo_instr *i) {
  note *n = note_of(g, i);
  if (!n->known)
    for (u32 k = 0; k < i->noperands; k++)
      if (fusion_rule_reuses(i, k)) hs_vec_push(&n->again, hlo_operand(i, k));
  n->known = true;
  return &n->again;
}

static bool has(const reused *v, const hlo_instr *x) {
  for (size_t k = 0; k < v->n; k++)
    if (v->v[k] == x) return true;
  return false;
}

static void update_reused(greedy *g, const hlo_instr *producer, const hlo_instr *fusion) {
  reused_by(g, producer), reused_by(g, fusion);
  reused *below = reused_by(g, producer), *mine = reused_by(g, fusion);
  bool again = has(mine, producer);
  size_t n = 0;
  for (size_t k = 0; k < mine->n; k++)
    if (mine->v[k] != producer) mine->v[n++] = mine->v[k];
  mine->n = n;
  for (u32 k = 0; again && k < producer->noperands; k++)
    hs_vec_push(mine, hlo_operand(producer, k));
  for (size_t k = 0; !again && k < below->n; k++) hs_vec_push(mine, below->v[k]);
}

static const char *base_refuses(greedy *g, const hlo_instr *consumer, const hlo_instr *producer) {
  if (hlo_is_root(producer)) return "it is the root";
  if (hlo_attr_get(consumer, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING))
    return "its reader's outputs lie in its operands";
  if (fusion_rule_has_other_users(producer, consumer) &&
      (!g->may_duplicate || fusion_rule_expensive(producer, g->cpu)) &&
      !fusion_rule_duplicable(producer))
    return g->may_duplicate ? "it is expensive and others read it too" : "others read it too";
  return fusion_rule_in_place(producer, consumer, &g->step);
}

static u32 reductions_in(const hlo_instr *fusion) {
  u32 n = 0;
  hlo_for_each_instr(i, hlo_fusion_comp(fusion)) n += i->opcode == HLO_REDUCE;
  return n;
}

static bool is_custom(const hlo_instr *i) {
  return i->opcode == HLO_FUSION && hlo_attr_int(i, HLO_ATTR_KIND, 0) == HLO_FUSION_KIND_CUSTOM;
}

static const char *cpu_refuses(greedy *g, const hlo_instr *consumer, u32 operand) {
  const hlo_instr *producer = hlo_operand(consumer, operand);
  bool fusion = consumer->opcode == HLO_FUSION;
  if (is_custom(consumer)) return "a custom fusion stays as it is";
  if (producer->opcode == HLO_CONSTANT && producer->shape->elements != 1)
    return "it is a constant array";
  if (fusion_rule_output(producer, consumer)) return NULL;
  if (fusion_rule_output_into_operand(producer)) return "it will take the product that it adds to";
  if (!fusion_rule_loop(producer)) return "its code is no loop over elements";
  if (fusion_rule_slow_concatenate(producer) || fusion_rule_slow_concatenate(consumer))
    return "concatenation is faster on its own";
  if (producer->opcode != HLO_FUSION && fusion_rule_expensive(producer, true) &&
      has(reused_by(g, consumer), producer))
    return "it is expensive and elements are read again";
  const char *why = base_refuses(g, consumer, producer);
  if (why) return why;
  if (fusion && producer->opcode == HLO_REDUCE && reductions_in(consumer) > 5)
    return "the fusion has many reductions already";
  if (producer->opcode == HLO_CONSTANT && !fusion) return "a constant is no reason for a fusion";
  if (producer->opcode == HLO_FUSION) return "it is a fusion";
  if (g->may_duplicate && fusion && fusion_rule_emitted_too_often(consumer, operand, &g->step))
    return "the code would hold it too often";
  if (consumer->opcode == HLO_DOT && fusion_rule_dot_reads(consumer, operand)) return NULL;
  if (fusion ? hlo_attr_int(consumer, HLO_ATTR_KIND, 0) == HLO_FUSION_KIND_LOOP
             : fusion_rule_loop(consumer))
    return NULL;
  return "the consumer's code is no loop over elements";
}

static const char *refuses(greedy *g, const hlo_instr *consumer, u32 operand) {
  const char *why = g->cpu ? cpu_refuses(g, consumer, operand)
                           : base_refuses(g, consumer, hlo_operand(consumer, operand));
  hs_arena_free(&g->step);
  return why;
}

// ---- duplication --------------------------------------------------------------------------------
// by place, of one producer
typedef struct paths {
  bool *reaches, *fits;
  hlo_positions at;
  const hlo_instr *producer;
} paths;

// Whether the producer's value gets into x: answered for all that lies between them, operands
// before users.
static bool reaches(paths *t, const hlo_instr *x) { return t->reaches[hlo_position_of(&t->at, x)]; }

// Whether every way from the producer to i may be fused away; those below i are answered already.
static bool fits(greedy *g, paths *t, const hlo_instr *i) {
  if (i == t->producer) return true;
  if (!fusion_rule_fusible(i)) return false;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *x = hlo_operand(i, k);
    if (!reaches(t, x)) continue;
    if (note_of(g, x)->apart || refuses(g, i, k) || !t->fits[hlo_position_of(&t->at, x)])
      return false;
  }
  return true;
}

static i64 elements_of(const hlo_shape *s) {
  i64 n = 0;
  if (hlo_shape_is_array(s)) return s->elements;
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems; k++)
    n = hs_add_sat_i64(n, elements_of(s->elems[k]));
  return n;
}

static bool grows_when_read(const hlo_instr *i) {
  i64 in = 0;
  for (u32 k = 0; k < i->noperands; k++) {
    bool again = false;
    for (u32 j = 0; j < k; j++) again |= hlo_operand(i, j) == hlo_operand(i, k);
    if (!again) in = hs_add_sat_i64(in, elements_of(hlo_operand(i, k)->shape));
  }
  return in > elements_of(i->shape);
}

static void find_apart(greedy *g, u32 n, hlo_instr *const *order) {
  hs_arena a = {0};
  paths t = {HS_NEW_ARRAY(&a, bool, n + 1), HS_NEW_ARRAY(&a, bool, n + 1),
             hlo_positions_in(n, order, &a), NULL};
  for (u32 k = n; k-- > 0;) {
    hlo_instr *producer = order[k];
    if (fusion_rule_at_most_unary(producer) || !grows_when_read(producer)) continue;
    bool ok = fusion_rule_fusible(producer);
    u32 last = k;
    hlo_for_each_use(u, producer) last = HS_MAX(last, hlo_position_of(&t.at, u->user));
    memset(t.reaches + k, 0, last - k + 1);
    memset(t.fits + k, 0, last - k + 1);
    t.producer = producer;
    t.reaches[k] = t.fits[k] = true;
    // only instructions between it and its last user matter
    for (u32 j = k + 1; ok && j <= last; j++) {
      bool any = false, direct = false;
      for (u32 o = 0; o < order[j]->noperands; o++) {
        u32 x = hlo_position_of(&t.at, hlo_operand(order[j], o));
        any |= x >= k && t.reaches[x];
        direct |= x == k;
      }
      for (u32 o = 0; order[j]->ctrl_preds && o < order[j]->ctrl_preds->n; o++) {
        u32 x = hlo_position_of(&t.at, order[j]->ctrl_preds->v[o]);
        any |= x >= k && t.reaches[x];
      }
      if (!any) continue;
      t.reaches[j] = true;
      t.fits[j] = fits(g, &t, order[j]);
      ok = !direct || t.fits[j];
    }
    note_of(g, producer)->apart = !ok;
  }
  for (u32 k = 0; g->cpu && k < n; k++)
    if (fusion_rule_shifted_exponent(order[k])) note_of(g, order[k])->apart = true;
  hs_arena_free(&a);
}

// ---- fusing ----------------------------------------------------------------------------------
static hlo_instr *fuse(greedy *g, hlo_instr *consumer, hlo_instr *producer) {
  i64 kind = g->cpu && fusion_rule_output(producer, consumer) ? HLO_FUSION_KIND_OUTPUT
                                                              : HLO_FUSION_KIND_LOOP;
  hlo_instr *f = consumer;
  if (consumer->opcode != HLO_FUSION)
    f = pass_fusion_start(g->p->m, &g->step, consumer, producer, kind);
  else if (hlo_attr_int(f, HLO_ATTR_KIND, 0) != kind) hlo_set_attr_int(f, HLO_ATTR_KIND, kind);
  update_reused(g, producer, f);
  pass_fusion_take_in(&g->step, f, producer);
  hs_arena_free(&g->step);
  return f;
}

// Control successors of the dead producer get its control predecessors.
static void remove_producer(hlo_instr *i) {
  hlo_instr_list none = {0};
  const hlo_instr_list *before = i->ctrl_preds ? i->ctrl_preds : &none;
  if (i->nctrl_succs) {
    hlo_for_each_instr(s, i->parent) {
      HS_VEC(hlo_instr *) v = {0};
      bool hit = false;
      for (u32 k = 0; s->ctrl_preds && k < s->ctrl_preds->n; k++) {
        if (s->ctrl_preds->v[k] == i) hit = true;
        else hs_vec_push(&v, s->ctrl_preds->v[k]);
      }
      for (u32 k = 0; hit && k < before->n; k++) {
        bool known = before->v[k] == s;
        for (size_t j = 0; j < v.n; j++) known |= v.v[j] == before->v[k];
        if (!known) hs_vec_push(&v, before->v[k]);
      }
      if (hit) hlo_set_ctrl_preds(s, (u32)v.n, v.v);
      hs_vec_free(&v);
    }
  }
  hlo_remove(i);
}

// ---- the queue ----------------------------------------------------------------------------------
typedef struct edge {
  u32 place, operand;
} edge;
static int latest_first(const void *a, const void *b) {
  const edge *x = a, *y = b;
  if (x->place != y->place) return x->place < y->place ? 1 : -1;
  return (x->operand > y->operand) - (x->operand < y->operand);
}

// Fuses one operand into i, if legal; the fusion becomes the end of the queue.
static bool grow(greedy *g, hlo_instr *i) {
  HS_VEC(edge) v = {0};
  for (u32 k = 0; k < i->noperands; k++) {
    edge e = {note_of(g, hlo_operand(i, k))->place, k};
    if (e.place) hs_vec_push(&v, e);
  }
  if (v.n) qsort(v.v, v.n, sizeof *v.v, latest_first);
  bool done = false;
  for (size_t k = 0; k < v.n && !done; k++) {
    hlo_instr *producer = hlo_operand(i, v.v[k].operand);
    if (!fusion_rule_fusible(producer)) continue;
    const char *why = note_of(g, producer)->apart ? "not all that read it can take it in"
                                                  : refuses(g, i, v.v[k].operand);
    if (why) {
      pass_note_declined(g->p, producer, i, "not fused: %s", why);
      continue;
    }
    if (!pass_may_rewrite(g->p)) break;
    hlo_instr *f = fuse(g, i, producer);
    if (f != i) pass_note_done(g->p, f, producer, "fused with its operand");
    hs_vec_push(&g->queue, f);
    note_of(g, f)->place = (u32)g->queue.n;
    if (!producer->nuses) {
      g->queue.v[note_of(g, producer)->place - 1] = NULL;
      note_of(g, producer)->place = 0;
      remove_producer(producer);
    }
    done = true;
  }
  hs_vec_free(&v);
  return done;
}

static hs_status fuse_in(greedy *g, hlo_computation *c) {
  u32 n = c->ninstrs;
  hlo_instr **order = pass_post_order(g->p, c);
  g->comp = c;
  if (g->may_duplicate) find_apart(g, n, order);
  g->queue.n = 0;
  for (u32 k = 0; k < n; k++) {
    hs_vec_push(&g->queue, order[k]);
    note_of(g, order[k])->place = k + 1;
  }
  hs_status s = HS_GOOD;
  while (g->queue.n && hs_ok(s)) {
    hlo_instr *i = hs_vec_pop(&g->queue);
    if (!i) continue;
    note_of(g, i)->place = 0;
    if (fusion_rule_fusible(i)) grow(g, i);
    s = hs_poll();
  }
  return s;
}

// Computations applied to elements contain no kernels.
static bool is_embedded(const pass_call_sites *t, const hlo_computation *c) {
  if (t->start[c->id] == t->start[c->id + 1]) return false;
  const hlo_instr *i = t->sites[t->start[c->id]].i;
  return i->opcode != HLO_CALL && i->opcode != HLO_WHILE && i->opcode != HLO_CONDITIONAL &&
         !hlo_op_has(i->opcode, HLO_F_ASYNC);
}

hs_status pass_fusion_greedy(pass_ctx *p, bool cpu, bool may_duplicate) {
  greedy g = {.p = p, .cpu = cpu, .may_duplicate = may_duplicate};
  hs_status s = HS_GOOD;
  u32 n;
  hlo_computation **comps = pass_comp_post_order(p, &n);
  pass_call_sites sites = pass_find_sites(p);
  for (u32 k = 0; k < n && hs_ok(s); k++)
    if (!hlo_is_fusion_comp(comps[k]) && !is_embedded(&sites, comps[k])) s = fuse_in(&g, comps[k]);
  for (size_t k = 0; k < g.of.n; k++) hs_vec_free(&g.of.v[k].again);
  hs_vec_free(&g.of);
  hs_vec_free(&g.queue);
  hs_arena_free(&g.step);
  return s;
}
