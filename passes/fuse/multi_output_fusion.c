// multi_output_fusion.c — multi_output_fusion
// (xla/service/gpu/transforms/multi_output_fusion.cc): kernels over the same loops become one
// with several results.
//
// Two merges, both of kernels with the same space (the dims of a pointwise kernel's result, or the
// operand dims and reduced dims of a reduction):
//
// - siblings: both read one array, as mean and variance, or sum and maximum. Saves a read of it
//   and a launch.
// - producer and consumer: the producer is materialized because it has other users; the consumer
//   gets its value in a register. A producer with several results can be merged further.
//
// A merge must not close a cycle: no path may lead from one kernel to the other except the edge
// that is merged. Every instruction has a rank, below that of its users, so a search for b never
// goes beyond b's rank; a merge renumbers the instructions between the two (Pearce and Kelly, A
// dynamic topological sort algorithm, 2006). The searches are bounded; when one gives up, nothing
// is merged.
//
// The legality rules are those of XLA's pass; the order of candidates differs.
#include "passes/fuse/fusion.h"
#include "passes/run/cache.h"

#include <stdlib.h>

enum { PATH_LIMIT = 4000, MAX_OUTPUTS = 16 };

typedef HS_VEC(hlo_instr *) instrs;
typedef struct merger {
  pass_ctx *p;
  hs_arena *a;
  // by instruction id, as of the computation at hand; not of elements, see rank_of
  HS_VEC(u32) rank;
  HS_VEC(u32) stamp;  // by instruction id, for the path search
  u32 now;
  // what the last search from the lower kernel, and from the higher one, has seen
  instrs after, before;
} merger;

// ---- kernels ------------------------------------------------------------------------------------
// What is merged is removed, so it has no effect of its own, in its reducer for example.
static bool is_kernel(const hlo_instr *i) {
  if (hlo_is_controlled(i) || i->dead) return false;
  if (i->opcode == HLO_REDUCE)
    return hlo_shape_is_array(i->shape) && pass_fusion_role(i) == FUSION_REDUCE &&
           !hlo_has_side_effect(i);
  if (i->opcode != HLO_FUSION)
    return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && pass_fusion_role(i) == FUSION_POINT;
  if (hlo_has_side_effect(i)) return false;
  i64 kind = hlo_attr_int(i, HLO_ATTR_KIND, 0);
  if ((kind != HLO_FUSION_KIND_LOOP && kind != HLO_FUSION_KIND_INPUT) ||
      hlo_attr_get(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING) || !hlo_shape_leaves(i->shape))
    return false;
  hlo_for_each_instr(b, hlo_fusion_comp(i)) {
    if (b->opcode == HLO_PARAMETER) {
      if (!hlo_shape_is_array(b->shape)) return false;
      continue;
    }
    if (b->opcode == HLO_TUPLE && hlo_is_root(b)) continue;
    if (b->opcode == HLO_TRANSPOSE || pass_fusion_role(b) == FUSION_OPAQUE ||
        !hlo_shape_is_array(b->shape))
      return false;
  }
  return true;
}

static const hlo_instr *reduce_in(const hlo_instr *k) {
  if (k->opcode == HLO_REDUCE) return k;
  if (k->opcode == HLO_FUSION)
    hlo_for_each_instr(b, hlo_fusion_comp(k))
      if (b->opcode == HLO_REDUCE) return b;
  return NULL;
}

static u64 dims_hash(const hlo_shape *s, u64 h) {
  for (u32 k = 0; k < s->rank; k++) h = hs_mix(h, (u64)s->dims[k]);
  return hs_mix(h, s->rank);
}

static const hlo_shape *output_shape(const hlo_instr *k) {
  return hlo_shape_is_tuple(k->shape) ? k->shape->elems[0] : k->shape;
}

// Equal for kernels with the same loops.
static u64 space_of(const hlo_instr *k) {
  const hlo_instr *r = reduce_in(k);
  if (!r) return dims_hash(output_shape(k), 1);
  hlo_ints d = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  u64 h = dims_hash(hlo_operand(r, 0)->shape, 2);
  for (u32 j = 0; j < d.n; j++) h = hs_mix(h, (u64)d.v[j]);
  return h;
}

static u32 outputs_of(const hlo_instr *k) {
  return hlo_shape_is_tuple(k->shape) ? k->shape->nelems : 1;
}
static u32 ops_of(const hlo_instr *k) {
  return k->opcode == HLO_FUSION ? hlo_fusion_comp(k)->ninstrs - hlo_fusion_comp(k)->nparams : 1;
}

// ---- paths --------------------------------------------------------------------------------------
enum { RANK_STEP = 16 };  // between instructions, for the elements of tuples in tuples

static u32 *own_rank(merger *g, const hlo_instr *i) {
  while (g->rank.n <= i->id) hs_vec_push(&g->rank, 0);
  return &g->rank.v[i->id];
}

// get-tuple-elements are ranked directly after their operand, unless they wait for something else.
static bool has_own_rank(const hlo_instr *i) {
  return i->opcode != HLO_GET_TUPLE_ELEMENT || i->ctrl_preds;
}

static u32 rank_of(merger *g, const hlo_instr *i) {
  u32 above = 0;
  for (; !has_own_rank(i); i = hlo_operand(i, 0)) above++;
  return *own_rank(g, i) + HS_MIN(above, RANK_STEP - 1u);
}

static bool first_visit(merger *g, const hlo_instr *i) {
  while (g->stamp.n <= i->id) hs_vec_push(&g->stamp, 0);
  if (g->stamp.v[i->id] == g->now) return false;
  g->stamp.v[i->id] = g->now;
  return true;
}

// Whether a path leads from a to b, other than the direct edge when `skip_edge`. True when the
// search gives up, as it does before control successors, which no instruction knows. What a leads
// to up to b's rank is in g->after when there is none.
static bool path(merger *g, hlo_instr *a, hlo_instr *b, bool skip_edge) {
  u32 limit = rank_of(g, b);
  bool found = false;
  g->after.n = 0;
  if (rank_of(g, a) > limit) return false;
  g->now++;
  instrs todo = {0};
  hs_vec_push(&todo, a);
  while (todo.n && !found) {
    hlo_instr *i = hs_vec_pop(&todo);
    if (g->after.n > PATH_LIMIT || i->nctrl_succs) found = true;
    hlo_for_each_use(u, i) {
      hlo_instr *x = u->user;
      bool direct = i == a || (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0) == a);
      if (x == b && !(skip_edge && direct)) found = true;
      if (x == b || rank_of(g, x) > limit || !first_visit(g, x)) continue;
      if (has_own_rank(x)) hs_vec_push(&g->after, x);
      hs_vec_push(&todo, x);
    }
  }
  hs_vec_free(&todo);
  return found;
}

// What leads to b from a's rank up into g->before; false when that is too much.
static bool search_back(merger *g, const hlo_instr *a, hlo_instr *b) {
  u32 limit = rank_of(g, a);
  g->now++;
  g->before.n = 0;
  (void)first_visit(g, a);
  instrs todo = {0};
  hs_vec_push(&todo, b);
  while (todo.n && g->before.n <= PATH_LIMIT) {
    hlo_instr *i = hs_vec_pop(&todo);
    u32 controls = i->ctrl_preds ? i->ctrl_preds->n : 0;
    for (u32 k = 0; k < i->noperands + controls; k++) {
      hlo_instr *x = k < i->noperands ? hlo_operand(i, k) : i->ctrl_preds->v[k - i->noperands];
      if (rank_of(g, x) < limit || !first_visit(g, x)) continue;
      if (has_own_rank(x)) hs_vec_push(&g->before, x);
      hs_vec_push(&todo, x);
    }
  }
  hs_vec_free(&todo);
  return g->before.n <= PATH_LIMIT;
}

typedef struct ranked {
  u32 rank;
  hlo_instr *i;
} ranked;
static int by_rank(const void *a, const void *b) {
  return (((const ranked *)a)->rank > ((const ranked *)b)->rank) -
         (((const ranked *)a)->rank < ((const ranked *)b)->rank);
}

// Ranks for f, which took the place of two kernels of ranks low and high: what led to them, then f,
// then what they led to, in the ranks that all these had.
static void rank_merged(merger *g, hlo_instr *f, u32 low, u32 high) {
  u32 nb = (u32)g->before.n, n = nb + (u32)g->after.n, at = 0;
  ranked *v = HS_NEW_ARRAY(g->a, ranked, n + 1), *pool = HS_NEW_ARRAY(g->a, ranked, n + 2);
  for (u32 k = 0; k < n; k++) {
    hlo_instr *i = k < nb ? g->before.v[k] : g->after.v[k - nb];
    v[k] = pool[k] = (ranked){*own_rank(g, i), i};
  }
  pool[n].rank = low, pool[n + 1].rank = high;
  qsort(v, nb, sizeof *v, by_rank);
  qsort(v + nb, n - nb, sizeof *v, by_rank);
  qsort(pool, n + 2, sizeof *pool, by_rank);
  for (u32 k = 0; k < nb; k++) *own_rank(g, v[k].i) = pool[at++].rank;
  *own_rank(g, f) = pool[at].rank;
  at += 2;
  for (u32 k = nb; k < n; k++) *own_rank(g, v[k].i) = pool[at++].rank;
}

// ---- merging ------------------------------------------------------------------------------------
// The same computation already in the body, or NULL.
static hlo_instr *existing(hlo_computation *body, const hlo_instr *like, hlo_instr *const *ops) {
  hlo_for_each_instr(b, body) {
    if (b->opcode != like->opcode || b->shape != like->shape || b->noperands != like->noperands ||
        b->opcode == HLO_PARAMETER)
      continue;
    bool same = hlo_attrs_equal(b->attrs, like->attrs, hlo_attr_is_annotation);
    for (u32 o = 0; o < b->noperands && same; o++) same = hlo_operand(b, o) == ops[o];
    if (same) return b;
  }
  return NULL;
}

static hlo_instr *copy_in(hlo_computation *body, const hlo_instr *i, hlo_instr *const *ops) {
  hlo_instr *e = existing(body, i, ops);
  return e ? e : hlo_clone_instr(body, i, NULL, i->noperands, ops);
}

// What stands for d in the body: a parameter, or a copy when d is a scalar constant.
static hlo_instr *input(hlo_computation *body, instrs *in, hlo_instr *d) {
  if (d->opcode == HLO_CONSTANT && d->shape->elements == 1) return copy_in(body, d, NULL);
  for (size_t j = 0; j < in->n; j++)
    if (in->v[j] == d) return body->params[j];
  hs_vec_push(in, d);
  return hlo_add_parameter(body, (i64)in->n - 1, d->shape, NULL);
}

// What stands for operand d: a result of kernel `made` (may be NULL) that the body has already, or
// an input.
static hlo_instr *stand_in(hlo_computation *body, instrs *in, hlo_instr *d, const hlo_instr *made,
                           hlo_instr *const *made_as) {
  if (made && d == made) return made_as[0];
  if (made && d->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(d, 0) == made)
    return made_as[hlo_attr_int(d, HLO_ATTR_INDEX, 0)];
  return input(body, in, d);
}

// Copies kernel k's work into the body; reads of kernel `made` take its results made_as. Fills
// out[] with k's results.
static void absorb(merger *g, hlo_computation *body, instrs *in, hlo_instr *k,
                   const hlo_instr *made, hlo_instr *const *made_as, hlo_instr **out) {
  hlo_computation *c = k->opcode == HLO_FUSION ? hlo_fusion_comp(k) : NULL;
  u32 low = UINT32_MAX, top = 0, most = k->noperands;
  if (c)
    hlo_for_each_instr(b, c)
      low = HS_MIN(low, b->id), top = HS_MAX(top, b->id), most = HS_MAX(most, b->noperands);
  hlo_instr **ops = HS_NEW_ARRAY(g->a, hlo_instr *, most + 1);
  if (!c) {
    for (u32 o = 0; o < k->noperands; o++)
      ops[o] = stand_in(body, in, hlo_operand(k, o), made, made_as);
    out[0] = copy_in(body, k, ops);
    return;
  }
  // a body's ids lie close together
  hlo_instr **map = HS_NEW_ARRAY(g->a, hlo_instr *, top - low + 1) - low;
  for (u32 p = 0; p < c->nparams; p++)
    map[c->params[p]->id] = stand_in(body, in, hlo_operand(k, p), made, made_as);
  hlo_for_each_instr(b, c) {
    if (b->opcode == HLO_PARAMETER) continue;
    if (b == c->root && b->opcode == HLO_TUPLE) continue;
    for (u32 o = 0; o < b->noperands; o++) ops[o] = map[hlo_operand(b, o)->id];
    map[b->id] = copy_in(body, b, ops);
  }
  if (c->root->opcode == HLO_TUPLE)
    for (u32 o = 0; o < c->root->noperands; o++) out[o] = map[hlo_operand(c->root, o)->id];
  else out[0] = map[c->root->id];
}

// Users of k's results now read elements [base, ...) of the merged fusion f.
static void redirect(hlo_instr *k, hlo_instr *f, u32 base) {
  if (!hlo_shape_is_tuple(k->shape)) {
    hlo_instr *e = hlo_add_gte(f, base);
    hlo_replace(k, e);
    return;
  }
  while (k->first_use) {
    hlo_instr *gte = k->first_use->user;
    hlo_instr *e = hlo_add_gte(f, base + hlo_attr_int(gte, HLO_ATTR_INDEX, 0));
    hlo_replace_uses(gte, e);
    hlo_remove(gte);
  }
  hlo_remove_dead(k);
}

static bool read_through_gtes(const hlo_instr *k) {
  if (!hlo_shape_is_tuple(k->shape)) return true;
  if (hlo_is_root(k)) return false;
  hlo_for_each_use(u, k)
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT || hlo_is_root(u->user) ||
        hlo_is_controlled(u->user))
      return false;
  return true;
}

// x ranks below y; g->after and g->before are what the searches found.
static hlo_instr *merge(merger *g, hlo_instr *x, hlo_instr *y, bool edge) {
  hlo_module *m = g->p->m;
  u32 low = *own_rank(g, x), high = *own_rank(g, y);
  hlo_computation *body = hlo_add_computation(m, "fused_computation");
  if (x->parent->execution_thread.n) hlo_set_execution_thread(body, x->parent->execution_thread);
  instrs in = {0};
  u32 nx = outputs_of(x), ny = outputs_of(y);
  hlo_instr **out = HS_NEW_ARRAY(g->a, hlo_instr *, nx + ny);
  absorb(g, body, &in, x, NULL, NULL, out);
  absorb(g, body, &in, y, edge ? x : NULL, out, out + nx);
  hlo_set_root(body, hlo_add_tuple(body, nx + ny, out));
  hlo_instr *f = hlo_add(x->parent, HLO_FUSION, body->root->shape, (u32)in.n, in.v,
                         reduce_in(x) ? "reduce_multi_fusion" : "multi_fusion");
  hlo_set_attr_int(f, HLO_ATTR_KIND, reduce_in(x) ? HLO_FUSION_KIND_INPUT : HLO_FUSION_KIND_LOOP);
  hlo_set_attr_comp(f, HLO_ATTR_CALLS, body);
  hlo_add_provenance(f, x);
  hlo_add_provenance(f, y);
  hs_vec_free(&in);
  redirect(y, f, nx);
  redirect(x, f, 0);
  rank_merged(g, f, low, high);
  return f;
}

static double shared_bytes(const hlo_instr *x, const hlo_instr *y) {
  double n = 0;
  for (u32 o = 0; o < x->noperands; o++) {
    const hlo_instr *d = hlo_operand(x, o);
    for (u32 q = 0; q < y->noperands; q++)
      if (hlo_operand(y, q) == d && hlo_shape_is_array(d->shape) && d->shape->elements > 1) {
        n += (double)hlo_shape_bytes(d->shape);
        break;
      }
  }
  return n;
}

static u32 joint_inputs(const hlo_instr *x, const hlo_instr *y) {
  u32 n = x->noperands;
  for (u32 q = 0; q < y->noperands; q++) {
    bool found = false;
    for (u32 o = 0; o < x->noperands && !found; o++) found = hlo_operand(x, o) == hlo_operand(y, q);
    n += !found;
  }
  return n;
}

static bool fits(merger *g, hlo_instr *x, hlo_instr *y) {
  u32 inputs = joint_inputs(x, y), ops = ops_of(x) + ops_of(y),
      outputs = outputs_of(x) + outputs_of(y);
  if (inputs + outputs > FUSION_MAX_INPUTS + 4 || outputs > MAX_OUTPUTS || ops > FUSION_MAX_OPS) {
    pass_note_declined(g->p, x, y, "not merged: %u arrays, %u results, %u operations in one kernel",
                       inputs, outputs, ops);
    return false;
  }
  return read_through_gtes(x) && read_through_gtes(y) && !hlo_is_root(x) && !hlo_is_root(y);
}

static bool try_siblings(merger *g, hlo_instr *x, hlo_instr *y, hlo_instr **out) {
  if (!fits(g, x, y) || shared_bytes(x, y) == 0) return false;
  bool swap = rank_of(g, x) > rank_of(g, y);
  hlo_instr *low = swap ? y : x, *high = swap ? x : y;
  if (path(g, low, high, false) || !search_back(g, low, high)) {
    pass_note_declined(g->p, x, y, "not merged: one depends on the other");
    return false;
  }
  if (!pass_may_rewrite(g->p)) return false;
  *out = merge(g, low, high, false);
  pass_note_done(g->p, *out, NULL, "merged two kernels that read the same array");
  return true;
}

// Whether the element at a place comes from the same place, counted row by row.
static bool keeps_place(const hlo_instr *i) {
  return i->opcode == HLO_RESHAPE ||
         (i->opcode == HLO_BITCAST && hlo_shape_is_row_major(i->shape) &&
          hlo_shape_is_row_major(hlo_operand(i, 0)->shape) &&
          i->shape->elements == hlo_operand(i, 0)->shape->elements);
}

// Kernel k reads value d elementwise, in d's own dims, and what it computes of d at the same place
// too: so none of it is evaluated twice.
static bool reads_aligned(merger *g, const hlo_instr *k, const hlo_instr *d) {
  if (k->opcode != HLO_FUSION) return hlo_op_has(k->opcode, HLO_F_ELEMENTWISE);
  hlo_computation *c = hlo_fusion_comp(k);
  bool aligned = true;
  g->now++;
  instrs todo = {0};
  for (u32 p = 0; p < c->nparams; p++)
    if (hlo_operand(k, p) == d) hs_vec_push(&todo, c->params[p]);
  while (todo.n && aligned) {
    hlo_instr *i = hs_vec_pop(&todo);
    hlo_for_each_use(u, i) {
      hlo_instr *x = u->user;
      bool result = x->opcode == HLO_TUPLE && hlo_is_root(x),
           kept = keeps_place(x) && i->opcode != HLO_PARAMETER;
      aligned &= result || kept || hlo_op_has(x->opcode, HLO_F_ELEMENTWISE);
      if (!result && first_visit(g, x)) hs_vec_push(&todo, x);
    }
  }
  hs_vec_free(&todo);
  return aligned;
}

static bool reads_all_aligned(merger *g, const hlo_instr *k, const hlo_instr *producer) {
  for (u32 o = 0; o < k->noperands; o++) {
    const hlo_instr *d = hlo_operand(k, o);
    bool from =
        d == producer || (d->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(d, 0) == producer);
    if (from && !reads_aligned(g, k, d)) return false;
  }
  return true;
}

static bool try_consumer(merger *g, hlo_instr *x, hlo_instr *y, hlo_instr **out) {
  if (reduce_in(x) || reduce_in(y) || !reads_all_aligned(g, y, x) || !fits(g, x, y) ||
      path(g, x, y, true) || !search_back(g, x, y))
    return false;
  if (!pass_may_rewrite(g->p)) return false;
  *out = merge(g, x, y, true);
  pass_note_done(g->p, *out, NULL, "merged a producer with other users with its consumer");
  return true;
}

// The kernel that computes d: d itself, or the fusion of which it is an output.
static hlo_instr *maker(hlo_instr *d) {
  hlo_instr *k = d->opcode == HLO_GET_TUPLE_ELEMENT ? hlo_operand(d, 0) : d;
  return is_kernel(k) ? k : NULL;
}

// The element of fusion f that took the place of result `index` of a merged kernel.
static hlo_instr *element(hlo_instr *f, i64 index) {
  hlo_for_each_use(u, f)
    if (u->user->opcode == HLO_GET_TUPLE_ELEMENT &&
        hlo_attr_int(u->user, HLO_ATTR_INDEX, -1) == index)
      return u->user;
  return NULL;
}

// All merges of d's maker with kernels that read d, then among the kernels that read d; ends early
// when the work is to stop.
static void around(merger *g, hlo_instr *d) {
  bool again = true;
  while (again && d) {
    again = false;
    instrs users = {0};
    hlo_for_each_use(u, d) {
      bool known = false;
      for (size_t j = 0; j < users.n; j++) known |= users.v[j] == u->user;
      if (!known && users.n < 64 && is_kernel(u->user)) hs_vec_push(&users, u->user);
    }
    hlo_instr *f = NULL, *k = maker(d);
    i64 index = d->opcode == HLO_GET_TUPLE_ELEMENT ? hlo_attr_int(d, HLO_ATTR_INDEX, 0) : 0;
    for (size_t x = 0; x < users.n && !again && !hs_interrupted(); x++) {
      if (k && space_of(k) == space_of(users.v[x]) && try_consumer(g, k, users.v[x], &f)) {
        // the producer's results come first in f; gone when nobody else reads it
        d = element(f, index);
        again = true;
        break;
      }
      for (size_t y = x + 1; y < users.n && !again && !hs_interrupted(); y++)
        if (space_of(users.v[x]) == space_of(users.v[y]))
          again = try_siblings(g, users.v[x], users.v[y], &f);
    }
    hs_vec_free(&users);
  }
}

static hs_status merge_in(merger *g, hlo_computation *c) {
  hs_arena a = {0};
  g->a = &a;
  u32 n = c->ninstrs;
  hlo_instr **order = hlo_post_order(c, &a);
  for (u32 k = 0; k < n; k++) *own_rank(g, order[k]) = (k + 1) * RANK_STEP;
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    if (order[k]->dead || !hlo_shape_is_array(order[k]->shape) || order[k]->shape->elements < 2)
      continue;
    around(g, order[k]);
    s = hs_poll();
  }
  hs_arena_free(&a);
  return s;
}

static hs_status run(pass_ctx *p) {
  merger g = {.p = p};
  u32 n;
  hlo_computation **comps = pass_fusion_computations(p->m, p->scratch, &n);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) s = merge_in(&g, comps[k]);
  hs_vec_free(&g.rank);
  hs_vec_free(&g.stamp);
  hs_vec_free(&g.after);
  hs_vec_free(&g.before);
  return s;
}

const pass_info pass_multi_output_fusion = {
    .name = "multi_output_fusion",
    .summary = "merges kernels over the same loops that share an input",
    .xla_source = "xla/service/gpu/transforms/multi_output_fusion.cc",
    .run = run,
    .again = true,
    .sample = PASS_SUM "largest {\n  largest_a = f32[] parameter(0)\n"
                       "  largest_b = f32[] parameter(1)\n"
                       "  ROOT largest_c = f32[] maximum(largest_a, largest_b)\n}\n"
                       "ENTRY e {\n"
                       "  x = f32[16,64] parameter(0)\n"
                       "  zero = f32[] constant(0)\n"
                       "  low = f32[] constant(-inf)\n"
                       "  a = f32[16] reduce(x, zero), dimensions={1}, to_apply=sum\n"
                       "  b = f32[16] reduce(x, low), dimensions={1}, to_apply=largest\n"
                       "  ROOT t = (f32[16], f32[16]) tuple(a, b)\n"
                       "}\n",
};
