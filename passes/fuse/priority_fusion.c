// priority_fusion.c — priority-fusion (xla/backends/gpu/transforms/priority_fusion.cc), XLA:GPU's
// fusion: a queue of producers, by the time that is saved if all readers of one compute it
// themselves.
//
// The producer that saves most is taken into all its readers and, unless a bitcast still reads it,
// removed; then the priorities of the kernels that it became part of and of their operands change,
// and the next one is taken, until none saves anything. A producer that one of its readers cannot
// take in stays. Bitcasts cost nothing and come first, into whatever reader takes them; constants
// of one element come last, each into all its readers. What a kernel costs and what it may hold is
// in priority_price.c.
//
// The saving is a sum over readers, and few of them change at a time. So a reading is priced once
// and kept with the reader until the reader or the producer changes (`stamp`). An entry of the
// queue that is out of date is dropped when it comes up; equal savings: the later instruction
// first, as in XLA.
//
// Not here: what XLA makes kernels of Triton's of, and fusions of several results for those.
#include <math.h>

#include "passes/fuse/priority.h"

// One operand of a kernel, as a producer in it: valid for these stamps.
typedef struct reading {
  u32 producer_stamp, stamp;
  const char *refused;
  double saved;  // seconds, without the producer's own time
} reading;
// Of an instruction, by id.
typedef struct node {
  u32 stamp;   // counts its changes, from 1
  u32 queued;  // number of its entry in the queue that counts
  bool known;  // `kernel` and `readings` are of this stamp
  bool noted;
  double alone;  // seconds of the kernel
  priority_kernel kernel;
  reading *readings;  // by operand
} node;
typedef struct entry {
  double priority;  // seconds saved
  hlo_instr *i;
  u32 id, number;
} entry;
typedef struct queue {
  pass_ctx *p;
  hs_arena a, step;  // of the computation; of one question
  HS_VEC(node) nodes;
  HS_VEC(entry) heap;
  u32 entries;
} queue;

// ---- the heap -----------------------------------------------------------------------------------

static bool before(const entry *a, const entry *b) {
  return a->priority > b->priority || (a->priority == b->priority && a->id > b->id);
}

static void push(queue *q, entry e) {
  hs_vec_push(&q->heap, e);
  size_t k = q->heap.n - 1;
  for (; k && before(&e, &q->heap.v[(k - 1) / 2]); k = (k - 1) / 2)
    q->heap.v[k] = q->heap.v[(k - 1) / 2];
  q->heap.v[k] = e;
}

static entry pop(queue *q) {
  entry top = q->heap.v[0], e = hs_vec_pop(&q->heap);
  size_t k = 0, n = q->heap.n;
  while (2 * k + 1 < n) {
    size_t down = 2 * k + 1;
    if (down + 1 < n && before(&q->heap.v[down + 1], &q->heap.v[down])) down++;
    if (!before(&q->heap.v[down], &e)) break;
    q->heap.v[k] = q->heap.v[down], k = down;
  }
  if (n) q->heap.v[k] = e;
  return top;
}

// ---- priorities ---------------------------------------------------------------------------------

static node *node_of(queue *q, const hlo_instr *i) {
  node fresh = {.stamp = 1};
  while (q->nodes.n <= i->id) hs_vec_push(&q->nodes, fresh);
  return &q->nodes.v[i->id];
}

static node *look(queue *q, const hlo_instr *i) {
  node *n = node_of(q, i);
  if (n->known) return n;
  n->kernel = priority_look(i, &q->a);
  n->alone = priority_time(i, &n->kernel);
  n->readings = HS_NEW_ARRAY(&q->a, reading, i->noperands + 1);
  n->known = true;
  return n;
}

static void changed(queue *q, const hlo_instr *i) {
  node *n = node_of(q, i);
  n->stamp++, n->known = false, n->queued = 0;
}

// The reading of `use`, priced if it has changed.
static const reading *read_by(queue *q, const hlo_instr *producer, const hlo_use *use) {
  const hlo_instr *consumer = use->user;
  look(q, producer), look(q, consumer);  // in this order: both may move the nodes
  node *p = node_of(q, producer), *c = node_of(q, consumer);
  u32 slot = hlo_slot(use);
  reading *r = &c->readings[slot];
  if (r->stamp == c->stamp && r->producer_stamp == p->stamp) return r;
  *r = (reading){p->stamp, c->stamp, NULL, 0};
  r->refused = priority_refuses(producer, &p->kernel, consumer, &c->kernel, slot, &q->step);
  hs_arena_free(&q->step);
  if (!r->refused)
    r->saved = c->alone - priority_time_fused(producer, &p->kernel, consumer, &c->kernel, slot);
  return r;
}

// Whether the user has it as an earlier operand too.
static bool is_again(const hlo_instr *i, const hlo_use *u) {
  for (u32 k = 0; k < hlo_slot(u); k++)
    if (hlo_operand(u->user, k) == i) return true;
  return false;
}

// Seconds saved by all readers computing it; -INFINITY: they cannot.
static double priority_of(queue *q, const hlo_instr *i) {
  if (priority_is_bitcast(i)) return INFINITY;
  double saved = priority_launch_s;
  bool any = false;
  hlo_for_each_use(u, i) {
    if (priority_is_bitcast(u->user) || is_again(i, u)) continue;
    const reading *r = read_by(q, i, u);
    if (r->refused) {
      node *n = node_of(q, i);
      if (!n->noted) pass_note_declined(q->p, i, u->user, "not fused: %s", r->refused);
      n->noted = true;
      return -INFINITY;
    }
    saved += r->saved;
    any = true;
  }
  if (!any) return -INFINITY;
  saved += node_of(q, i)->alone;
  if (saved < 0 && !node_of(q, i)->noted) {
    pass_note_declined(q->p, i, NULL, "not fused: would lose %.1f us", -saved * 1e6);
    node_of(q, i)->noted = true;
  }
  return saved;
}

static void enqueue(queue *q, hlo_instr *i) {
  if (i->opcode == HLO_CONSTANT || hlo_is_root(i) || !i->nuses || !priority_fusible(i) ||
      !hlo_shape_is_array(i->shape))
    return;
  double priority = priority_of(q, i);
  node *n = node_of(q, i);
  n->queued = 0;
  if (priority < 0) return;
  n->queued = ++q->entries;
  push(q, (entry){priority, i, i->id, n->queued});
}

// ---- fusing -------------------------------------------------------------------------------------

static hlo_instr *fuse(queue *q, hlo_instr *producer, hlo_instr *consumer) {
  i64 kind = priority_kind_of(consumer, producer) == PRIORITY_LOOP ? HLO_FUSION_KIND_LOOP
                                                                   : HLO_FUSION_KIND_INPUT;
  hlo_instr *f = consumer;
  if (f->opcode != HLO_FUSION) {
    changed(q, f);
    f = pass_fusion_start(q->p->m, &q->step, consumer, producer, kind);
    pass_note_done(q->p, f, producer, "fused with its operand");
  } else if (!priority_is_triton(f)) {
    hlo_set_attr_int(f, HLO_ATTR_KIND, kind);
  }
  for (u32 k = 0; k < f->noperands;)
    if (hlo_operand(f, k) == producer) pass_fusion_take_in(&q->step, f, producer), k = 0;
    else k++;
  changed(q, f);
  hs_arena_free(&q->step);
  return f;
}

// The users of i, each once; n of them.
static hlo_instr **users_of(const hlo_instr *i, hs_arena *a, u32 *n) {
  hlo_instr **v = HS_NEW_ARRAY(a, hlo_instr *, i->nuses + 1);
  *n = 0;
  hlo_for_each_use(u, i)
    if (!is_again(i, u)) v[(*n)++] = u->user;
  return v;
}

// Takes the producer into its readers, and looks at what that changed.
static void spread(queue *q, hlo_instr *producer) {
  hs_arena a = {0};
  u32 n, nfused = 0;
  hlo_instr **users = users_of(producer, &a, &n), **fused = HS_NEW_ARRAY(&a, hlo_instr *, n + 1);
  bool bitcast = priority_is_bitcast(producer);
  for (u32 k = 0; k < n; k++) {
    if (priority_is_bitcast(users[k])) continue;
    if (bitcast) {
      const hlo_use *use = producer->first_use;
      while (use->user != users[k] || is_again(producer, use)) use = use->next;
      if (read_by(q, producer, use)->refused) continue;
    }
    fused[nfused++] = fuse(q, producer, users[k]);
  }
  if (!producer->nuses && !hlo_is_root(producer)) {
    hlo_computation *body = producer->opcode == HLO_FUSION ? hlo_fusion_comp(producer) : NULL;
    changed(q, producer);
    hlo_remove(producer);
    if (body && !body->nfusion_callers) hlo_remove_computation(body);
  }
  for (u32 k = 0; k < nfused; k++) {
    for (u32 o = 0; o < fused[k]->noperands; o++) enqueue(q, hlo_operand(fused[k], o));
    enqueue(q, fused[k]);
  }
  hs_arena_free(&a);
}

static void fuse_constants(queue *q, hlo_computation *c) {
  hs_arena a = {0};
  u32 n, nusers;
  hlo_instr **all = pass_of_op(q->p, c, HLO_CONSTANT, HLO_CONSTANT, &n);
  for (u32 k = 0; k < n; k++) {
    if (!hlo_shape_is_array(all[k]->shape) || all[k]->shape->elements > 1 || hlo_is_root(all[k]) ||
        hlo_is_controlled(all[k]))
      continue;
    hlo_instr **users = users_of(all[k], &a, &nusers);
    for (u32 j = 0; j < nusers; j++) {
      if (priority_scatter_refuses(all[k], users[j]) ||
          !(priority_is_triton(users[j]) ||
            (priority_fusible(users[j]) && !look(q, users[j])->kernel.foreign)))
        continue;
      if (!pass_may_rewrite(q->p)) break;
      fuse(q, all[k], users[j]);
    }
    if (!all[k]->nuses) hlo_remove(all[k]);
  }
  hs_arena_free(&a);
}

static hs_status fuse_in(queue *q, hlo_computation *c) {
  hs_status s = HS_GOOD;
  hlo_instr **order = pass_post_order(q->p, c);
  u32 n = c->ninstrs;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    enqueue(q, order[k]);
    s = hs_poll();
  }
  while (q->heap.n && hs_ok(s)) {
    entry e = pop(q);
    if (q->nodes.v[e.id].queued != e.number) continue;
    q->nodes.v[e.id].queued = 0;
    if (!pass_may_rewrite(q->p)) break;
    spread(q, e.i);
    s = hs_poll();
  }
  if (hs_ok(s)) fuse_constants(q, c);
  q->heap.n = 0;
  hs_arena_free(&q->a);
  return s;
}

static hs_status run(pass_ctx *p) {
  queue q = {.p = p};
  hs_status s = HS_GOOD;
  u32 n;
  hlo_computation **comps = pass_fusion_computations(p->m, p->scratch, &n);
  for (u32 k = 0; k < n && hs_ok(s); k++) s = fuse_in(&q, comps[k]);
  hs_vec_free(&q.nodes);
  hs_vec_free(&q.heap);
  hs_arena_free(&q.step);
  return s;
}

const pass_info pass_priority_fusion = {
    .name = "priority-fusion",
    .summary = "fuses producers into all their readers, those that save a GPU most time first",
    .xla_source = "xla/backends/gpu/transforms/priority_fusion.cc",
    .run = run,
    .again = true,
    .sample = "ENTRY e {\n"
              "  x = f32[64] parameter(0)\n"
              "  y = f32[64] parameter(1)\n"
              "  s = f32[64] add(x, y)\n"
              "  k = f32[] constant(2)\n"
              "  ks = f32[64] broadcast(k), dimensions={}\n"
              "  p = f32[64] multiply(s, ks)\n"
              "  ROOT r = f32[64] tanh(p)\n"
              "}\n",
};
