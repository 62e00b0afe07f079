// eval.c — running computations: plans, frames, control flow and tuples.
//
// A computation is made ready once per evaluation: only what its root needs, in list order,
// operands as slots, each operand marked where it dies. Running it fills a frame of literals and
// drops each one at its last use, so that an instruction whose operand dies may work in place, and
// a loop whose body reads its state by get-tuple-element and builds the next with tuple updates its
// arrays without copying them (the last get-tuple-element of an element moves it out of a tuple
// that has no other reference). Opcodes are dispatched by the eval column of ops.def.
#include "core/eval/ops.h"
#include "core/verify/verify.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

enum { MAX_DEPTH = 512 };

typedef struct ev_step {
  const hlo_instr *i;
  ev_fn fn;
  u32 slot;
  const u32 *ops;
  const bool *dies;  // per operand: the frame's reference goes with it
  bool steal;        // get-tuple-element that is the last to want its element
  bool unused;       // result is dropped at once
} ev_step;

struct ev_plan {
  u32 nsteps, nslots, root;
  ev_step *steps;
  ev_prog *prog;
};
ev_prog **ev_plan_prog(ev_plan *p) { return &p->prog; }

static const ev_fn functions[HLO_OPCODE_COUNT] = {
#define OP(id, text, arity, inf, infer, eval, cost, flags, color, attrs) \
  [HLO_##id] = hlo_eval_##eval,
#include "core/types/ops.def"
#undef OP
};

// ---- plans --------------------------------------------------------------------------------------
// The instruction whose value operand j is: readers of a loop without influence read its initial
// state.
static const hlo_instr *source_of(const hlo_instr *i, u32 j) {
  const hlo_instr *v = hlo_operand(i, j);
  while (i->opcode == HLO_GET_TUPLE_ELEMENT && ev_loop_is_idle(v)) v = hlo_operand(v, 0);
  return v;
}

// The instructions, operands first: the list itself when it has that order. Lists need not: passes
// append, and XLA's own modules hold fused computations as they grew.
static hlo_instr **listing(const hlo_computation *c, hlo_positions *at, hs_arena *a) {
  hlo_instr **all = HS_NEW_ARRAY(a, hlo_instr *, c->ninstrs + 1);
  u32 n = 0;
  bool sorted = true;
  hlo_for_each_instr(i, c) all[n++] = i;
  *at = hlo_positions_in(n, all, a);
  for (u32 k = 0; k < n && sorted; k++)
    for (u32 j = 0; j < all[k]->noperands; j++)
      sorted &= hlo_position_of(at, hlo_operand(all[k], j)) < k;
  return sorted ? all : hlo_post_order(c, a);
}

// Marks what the root needs, and what acts on the outside.
static void mark_needed(const hlo_computation *c, hlo_instr *const *all, bool *need,
                        const hlo_positions *at) {
  need[hlo_position_of(at, c->root)] = true;
  for (u32 x = c->ninstrs; x-- > 0;) {
    hlo_instr *i = all[x];
    u32 k = hlo_position_of(at, i);
    if (!need[k] && !hlo_has_side_effect(i)) continue;
    need[k] = true;
    const hlo_computation *callee =
        i->opcode == HLO_CALL || i->opcode == HLO_FUSION ? hlo_fusion_comp(i) : NULL;
    for (u32 j = 0; j < i->noperands; j++) {
      if (callee && j < callee->nparams && callee->params[j]->nuses == 0 &&
          callee->root != callee->params[j])
        continue;
      need[hlo_position_of(at, source_of(i, j))] = true;
    }
  }
}

static bool waits(const hlo_instr *i) {
  return i->opcode == HLO_SEND_DONE || i->opcode == HLO_RECV_DONE;
}

static bool is_ready(const hlo_instr *i, const bool *need, const hlo_positions *at,
                     const bool *placed) {
  for (u32 j = 0; j < i->noperands; j++) {
    u32 k = hlo_position_of(at, source_of(i, j));
    if (need[k] && !placed[k]) return false;
  }
  for (u32 j = 0; i->ctrl_preds && j < i->ctrl_preds->n; j++) {
    u32 k = hlo_position_of(at, i->ctrl_preds->v[j]);
    if (need[k] && !placed[k]) return false;
  }
  return true;
}

// Whether the other side of what a done waits for is in order[0 .. n), when every device runs
// the same order.
static bool is_answered(const hlo_instr *done, hlo_instr *const *order, u32 n) {
  const hlo_instr *post = hlo_operand(done, 0);
  if (post->opcode != HLO_SEND && post->opcode != HLO_RECV) return true;
  i64 channel = hlo_attr_int(post, HLO_ATTR_CHANNEL_ID, 0);
  u32 mine = 0, theirs = 0;
  bool before = true;
  for (u32 k = 0; k < n; k++) {
    const hlo_instr *i = order[k];
    before &= i != post;
    if ((i->opcode != HLO_SEND && i->opcode != HLO_RECV) ||
        hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) != channel)
      continue;
    if (i->opcode != post->opcode) theirs++;
    else mine += before;
  }
  return theirs > mine || hlo_attr_int(post, HLO_ATTR_IS_HOST_TRANSFER, 0) != 0;
}

// What is needed, NULL at the end: in list order, but waiting for another device is put off until
// nothing else can run (in a scheduled module the list is the order). Freed by the caller.
static hlo_instr **in_order(const hlo_computation *c, hlo_instr *const *all, const bool *need,
                            const hlo_positions *at) {
  hlo_instr **order = hs_calloc(c->ninstrs + 1, sizeof *order);
  bool *placed = hs_calloc(c->ninstrs + 1, sizeof *placed), any = false;
  u32 n = 0, total = 0;
  for (u32 k = 0; k < c->ninstrs; k++) {
    if (!need[hlo_position_of(at, all[k])]) continue;
    order[total++] = all[k];
    any |= waits(all[k]);
  }
  for (any &= !hlo_is_scheduled(c->module); any && n < total;) {
    u32 before = n;
    hlo_instr *wait = NULL;
    bool found = false;
    hlo_for_each_instr(i, c) {
      u32 k = hlo_position_of(at, i);
      if (!need[k] || placed[k] || !is_ready(i, need, at, placed)) continue;
      if (waits(i)) {
        bool answered = n == before && is_answered(i, order, n);
        if (!wait || (answered && !found)) wait = i;
        found |= answered;
        continue;
      }
      placed[k] = true;
      order[n++] = i;
    }
    if (n > before) continue;
    // control dependencies in a circle: the verifier's business
    if (!wait) break;
    placed[hlo_position_of(at, wait)] = true;
    order[n++] = wait;
  }
  if (any && n < total) {
    n = 0;
    for (u32 k = 0; k < c->ninstrs; k++)
      if (need[hlo_position_of(at, all[k])]) order[n++] = all[k];
  }
  hs_free(placed);
  return order;
}

// A get-tuple-element may take its element when every needed use of the tuple is one and no later
// one wants the same.
static void mark_steals(ev_plan *p, const bool *need, const hlo_positions *at, const u32 *when) {
  for (u32 s = 0; s < p->nsteps; s++) {
    const hlo_instr *i = p->steps[s].i;
    if (i->opcode != HLO_GET_TUPLE_ELEMENT) continue;
    const hlo_instr *t = hlo_operand(i, 0);
    bool ok = t != i->parent->root && source_of(i, 0) == t;
    i64 index = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
    hlo_for_each_use(u, t) {
      if (ev_loop_is_idle(u->user)) {
        ok = false;
        break;
      }
      if (!need[hlo_position_of(at, u->user)]) continue;
      if (u->user->opcode != HLO_GET_TUPLE_ELEMENT) {
        ok = false;
        break;
      }
      if (u->user != i && when[hlo_position_of(at, u->user)] > s &&
          hlo_attr_int(u->user, HLO_ATTR_INDEX, 0) == index) {
        ok = false;
        break;
      }
    }
    p->steps[s].steal = ok;
  }
}

// Where the plan of a computation is kept. Pages are made as they are met: passes open an evaluator
// for one reducer of thousands.
static ev_plan **plan_at(ev *e, const hlo_computation *c) {
  enum { PAGE = 64 };
  if (c->id / PAGE >= e->nplans) {
    u32 n = HS_MAX(c->module->next_comp_id, c->id + 1) / PAGE + 1;
    e->plans = hs_realloc(e->plans, n * sizeof *e->plans);
    memset(e->plans + e->nplans, 0, (n - e->nplans) * sizeof *e->plans);
    e->nplans = n;
  }
  ev_plan ***page = &e->plans[c->id / PAGE];
  if (!*page) *page = HS_NEW_ARRAY(&e->arena, ev_plan *, PAGE);
  return &(*page)[c->id % PAGE];
}

ev_plan *ev_plan_of(ev *e, const hlo_computation *c) {
  ev_plan **known = plan_at(e, c);
  if (*known) return *known;
  ev_plan *p = HS_NEW(&e->arena, ev_plan);
  u32 n = c->ninstrs;
  bool *need = hs_calloc(n + 1, sizeof *need);
  u32 *last = hs_calloc(n + 1, sizeof *last);  // step + 1 of the last use of each slot
  u32 *when = hs_calloc(n + 1, sizeof *when);  // step of each slot
  hs_arena scratch = {0};
  hlo_positions place, *at = &place;
  hlo_instr **all = listing(c, at, &scratch);
  mark_needed(c, all, need, at);
  p->steps = HS_NEW_ARRAY(&e->arena, ev_step, n);
  p->nslots = n;
  p->root = hlo_position_of(at, c->root);
  hlo_instr **order = in_order(c, all, need, at);
  for (hlo_instr **next = order; *next; next++) {
    const hlo_instr *i = *next;
    u32 k = hlo_position_of(at, i);
    when[k] = p->nsteps;
    ev_step *s = &p->steps[p->nsteps++];
    u32 *ops = HS_NEW_ARRAY(&e->arena, u32, i->noperands);
    for (u32 j = 0; j < i->noperands; j++) {
      ops[j] = hlo_position_of(at, source_of(i, j));
      last[ops[j]] = p->nsteps;
    }
    *s = (ev_step){.i = i, .fn = functions[i->opcode], .slot = k, .ops = ops};
  }
  for (u32 s = 0; s < p->nsteps; s++) {
    ev_step *st = &p->steps[s];
    bool *dies = HS_NEW_ARRAY(&e->arena, bool, st->i->noperands);
    for (u32 j = 0; j < st->i->noperands; j++) {
      dies[j] = last[st->ops[j]] == s + 1 && st->ops[j] != p->root;
      for (u32 l = j + 1; l < st->i->noperands; l++)
        // the last of equal operands takes the reference
        if (st->ops[l] == st->ops[j]) dies[j] = false;
    }
    st->dies = dies;
    st->unused = last[st->slot] == 0 && st->slot != p->root;
  }
  mark_steals(p, need, at, when);
  hs_arena_free(&scratch);
  hs_free(order);
  hs_free(when);
  hs_free(last);
  hs_free(need);
  return *known = p;
}

// ---- running ------------------------------------------------------------------------------------
// The innermost positions are kept: nested calls can be hundreds.
static hs_status with_position(hs_status st, const hlo_instr *i) {
  enum { ENOUGH = 2000 };  // bytes
  if (st.err->note && strlen(st.err->note) > ENOUGH) return st;
  return hs_with_note(st, "evaluating %s %s in %s", hlo_op_text(i->opcode), i->name,
                      i->parent->name);
}

static hs_status steal_element(const ev_step *s, hlo_literal **frame, hlo_literal **out,
                               bool *done) {
  hlo_literal *t = frame[s->ops[0]];
  i64 k = hlo_attr_int(s->i, HLO_ATTR_INDEX, 0);
  *done = false;
  if (!t || t->refs != 1 || k < 0 || (u64)k >= t->nchildren || !t->children[k]) return HS_GOOD;
  *out = t->children[k];
  t->children[k] = NULL;
  if (s->dies[0]) {
    hlo_literal_unref(t);
    frame[s->ops[0]] = NULL;
  }
  *done = true;
  return HS_GOOD;
}

// HLO lets floats of another precision be used where a shape states one; a value is brought to the
// shape that its use asks for, so that everything else may trust element types and sizes. Takes and
// returns the reference.
static hs_status coerce(ev *e, const hlo_shape *to, hlo_literal **l) {
  const hlo_shape *from = (*l)->shape;
  if (from->logical == to->logical) return HS_GOOD;
  if (hlo_shape_is_tuple(to)) {
    if (!hlo_shape_is_tuple(from) || (*l)->nchildren != to->nelems)
      return hs_fail(HS_E_RUN, "a value does not have the shape that its use asks for");
    hlo_literal **part = hs_calloc(to->nelems + 1, sizeof *part);
    hs_status st = HS_GOOD;
    for (u32 k = 0; k < to->nelems; k++) {
      part[k] = hlo_literal_ref((*l)->children[k]);
      if (part[k] && hs_ok(st)) st = coerce(e, to->elems[k], &part[k]);
    }
    hlo_literal_unref(*l);
    *l = hlo_literal_tuple(to, to->nelems, part);
    hs_free(part);
    return st;
  }
  if (!hlo_shape_is_array(to)) return HS_GOOD;
  if (!hlo_shape_is_array(from) || from->elements != to->elements)
    return hs_fail(HS_E_RUN, "a value does not have the shape that its use asks for");
  if (from->dtype == to->dtype) return HS_GOOD;
  if (!hlo_dtype_is_float(from->dtype) || !hlo_dtype_is_float(to->dtype))
    return hs_fail(HS_E_RUN, "a value does not have the type that its use asks for");
  hlo_literal *r;
  const bool sized = (*l)->dynamic_sizes != NULL;  // where `to` may hide it
  HS_TRY(ev_new(e, sized ? ev_typed(e, from, to->dtype) : to, &r));
  ev_convert(from->dtype, (*l)->data, to->dtype, r->data, to->elements);
  if (sized) ev_keep_sizes(r, *l);
  hlo_literal_unref(*l);
  *l = r;
  return HS_GOOD;
}

// Operands of mixed precision: arithmetic and movement happen in the type of the result,
// comparisons in the first operand's; a sort moves each operand in the type of its result.
static hs_status unify(ev *e, const hlo_instr *i, hlo_literal **ops) {
  hlo_opcode op = i->opcode;
  if (op == HLO_SORT || op == HLO_TOPK) {
    u32 leaves = hlo_shape_leaves(i->shape);
    const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
    for (u32 k = 0; k < i->noperands && k < leaves; k++) {
      hlo_dtype want = hlo_shape_leaf(i->shape, k)->dtype;
      for (u32 p = 2 * k; c && p < 2 * k + 2 && p < c->nparams; p++)
        if (c->params[p]->shape->dtype != want)
          return ev_unsupported(i, "by a comparison in another precision");
      if (ops[k] && hlo_dtype_is_float(want) && hlo_dtype_is_float(ops[k]->shape->dtype))
        HS_TRY(coerce(e, ev_typed(e, ops[k]->shape, want), &ops[k]));
    }
    return HS_GOOD;
  }
  bool by_first = op == HLO_COMPARE || op == HLO_IS_FINITE;
  if (!by_first && (!(hlo_op_has(op, HLO_F_ELEMENTWISE) || hlo_op_has(op, HLO_F_MOVEMENT)) ||
                    op == HLO_CONVERT || op == HLO_BITCAST_CONVERT || op == HLO_BITCAST ||
                    op == HLO_STOCHASTIC_CONVERT || !hlo_shape_is_array(i->shape)))
    return HS_GOOD;
  for (u32 k = 0; k < i->noperands; k++) {
    if (!ops[k] || !hlo_shape_is_array(ops[k]->shape)) continue;
    hlo_dtype t = ops[k]->shape->dtype, want = by_first ? ops[0]->shape->dtype : i->shape->dtype;
    if (t != want && hlo_dtype_is_float(t) && hlo_dtype_is_float(want))
      HS_TRY(coerce(e, ev_typed(e, ops[k]->shape, want), &ops[k]));
  }
  return HS_GOOD;
}

// What computes a value of its own, not what another does, which passes may write in its place.
static bool ends_sizes(const hlo_instr *i) {
  return i->opcode != HLO_SET_DIMENSION_SIZE && i->opcode != HLO_CALL && i->opcode != HLO_FUSION;
}

// What goes into a branch or loop, and comes out of it, has sizes where the types say so.
static bool branches(const hlo_instr *i) {
  return i->opcode == HLO_WHILE || i->opcode == HLO_CONDITIONAL;
}

static hs_status run_step(ev *e, const ev_step *s, hlo_literal **frame) {
  enum { FEW = 8 };
  const hlo_instr *i = s->i;
  hlo_literal *few[FEW], **ops = few, *out = NULL;
  u32 n = i->noperands;
  if (s->steal) {
    bool done;
    HS_TRY(steal_element(s, frame, &frame[s->slot], &done));
    if (done) return ev_end_sizes(i->shape, &frame[s->slot]), HS_GOOD;
  }
  if (n > FEW) ops = hs_alloc(n * sizeof *ops);
  for (u32 j = 0; j < n; j++) {
    hlo_literal **v = &frame[s->ops[j]];
    ops[j] = s->dies[j] ? *v : hlo_literal_ref(*v);
    if (s->dies[j]) *v = NULL;
  }
  hlo_eval_site *outer = e->site, site = {.caller = i, .iteration = -1, .outer = outer};
  e->site = &site;
  for (u32 j = 0; j < n && branches(i); j++) ev_end_sizes(hlo_operand(i, j)->shape, &ops[j]);
  hs_status st = unify(e, i, ops);
  if (hs_ok(st)) st = s->fn(e, i, ops, &out);
  if (hs_ok(st)) st = coerce(e, i->shape, &out);
  if (hs_ok(st) && ends_sizes(i)) ev_end_sizes(i->shape, &out);
  if (hs_ok(st) && branches(i)) ev_state_sizes(i->shape, &out);
  e->site = outer;
  for (u32 j = 0; j < n; j++) hlo_literal_unref(ops[j]);
  if (ops != few) hs_free(ops);
  if (!hs_ok(st)) {
    hlo_literal_unref(out);
    return with_position(st, i);
  }
  frame[s->slot] = out;
  return HS_GOOD;
}

static void drop_args(u32 n, hlo_literal **args) {
  for (u32 k = 0; k < n; k++) {
    hlo_literal_unref(args[k]);
    args[k] = NULL;
  }
}

hs_status ev_call(ev *e, const hlo_computation *c, u32 n, hlo_literal **args, hlo_literal **out) {
  enum { SMALL = 24 };
  *out = NULL;
  if (e->depth >= MAX_DEPTH) {
    drop_args(n, args);
    return hs_fail(HS_E_LIMIT, "computations are nested more than %d deep", MAX_DEPTH);
  }
  if (n != c->nparams) {
    drop_args(n, args);
    return hs_fail(HS_E_RUN, "%s takes %u arguments, not %u", c->name, c->nparams, n);
  }
  ev_plan *p = ev_plan_of(e, c);
  hlo_literal *small[SMALL],
      **frame = p->nslots <= SMALL ? small : hs_alloc(p->nslots * sizeof *frame);
  memset(frame, 0, p->nslots * sizeof *frame);
  e->depth++;
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < p->nsteps && hs_ok(st); k++) {
    const ev_step *s = &p->steps[k];
    if (s->i->opcode == HLO_PARAMETER) {
      u64 number = (u64)hlo_param_number(s->i);
      if (number >= n || !args[number])
        st = hs_fail(HS_E_RUN, "parameter %llu of %s has no value", (unsigned long long)number,
                     c->name);
      else {
        frame[s->slot] = args[number], args[number] = NULL;
        st = coerce(e, s->i->shape, &frame[s->slot]);
      }
    } else {
      st = run_step(e, s, frame);
    }
    if (hs_ok(st) && e->opt.observe && frame[s->slot])
      st = e->opt.observe(e->opt.observe_arg, &(hlo_observation){s->i, frame[s->slot], e->site});
    if (s->unused) {
      hlo_literal_unref(frame[s->slot]);
      frame[s->slot] = NULL;
    }
    if (hs_ok(st)) st = hs_poll();
  }
  e->depth--;
  if (hs_ok(st)) {
    *out = frame[p->root];
    frame[p->root] = NULL;
  }
  for (u32 k = 0; k < p->nslots; k++) hlo_literal_unref(frame[k]);
  if (frame != small) hs_free(frame);
  drop_args(n, args);
  return st;
}

hs_status ev_enter(ev *e, const hlo_computation *c, hlo_literal **arg, hlo_literal **out) {
  if (c->nparams == 1 && *arg) ev_state_sizes(c->params[0]->shape, arg);
  HS_TRY(ev_call(e, c, 1, arg, out));
  ev_end_sizes(c->root->shape, out);
  return HS_GOOD;
}

// XLA:CPU flushes denormals in arithmetic; the mode of the calling thread is put back afterwards.
static u32 enter_float_mode(bool keep_denormals) {
#if defined(__SSE2__)
  u32 old = _mm_getcsr();
  _mm_setcsr(keep_denormals ? old & ~0x8040u : old | 0x8040u);
  return old;
#else
  (void)keep_denormals;
  return 0;
#endif
}
static void leave_float_mode(u32 old) {
#if defined(__SSE2__)
  _mm_setcsr(old);
#else
  (void)old;
#endif
}

void hlo_eval_rng_begin(u64 seed, u64 rng[2]) {
  rng[0] = seed * 0x9E3779B97F4A7C15ull + 0x8a5cd789635d2dffull;
  rng[1] = 0;
}

static void close_ev(ev *e) {
  if (e->opt.rng) memcpy(e->opt.rng, e->rng, sizeof e->rng);
  ev_account_close(e->account);
  hs_free(e->plans);
  hs_arena_free(&e->arena);
}
static ev open_ev(hlo_ctx *ctx, const hlo_eval_options *opt) {
  ev e = {.ctx = ctx};
  if (opt) e.opt = *opt;
  e.account = ev_account_new(e.opt.max_bytes);
  if (e.opt.rng) memcpy(e.rng, e.opt.rng, sizeof e.rng);
  else hlo_eval_rng_begin(e.opt.rng_seed, e.rng);
  return e;
}

hs_status ev_run_one(const hlo_computation *c, u32 n, hlo_literal *const *args,
                     const hlo_eval_options *opt, ev_world *world, u32 replica, u32 partition,
                     hlo_literal **out) {
  ev e = open_ev(c->module->ctx, opt);
  e.world = world;
  e.replica = replica;
  e.partition = partition;
  hlo_literal **refs = hs_calloc(n + 1, sizeof *refs);
  for (u32 k = 0; k < n; k++) refs[k] = hlo_literal_ref(args[k]);
  u32 mode = enter_float_mode(e.opt.keep_denormals);
  hs_status st = ev_call(&e, c, n, refs, out);
  leave_float_mode(mode);
  hs_free(refs);
  close_ev(&e);
  return st;
}

hs_status ev_check_args(const hlo_computation *c, u32 n, hlo_literal *const *args) {
  if (n != c->nparams)
    return hs_fail(HS_E_INPUT, "%s takes %u arguments, %u given", c->name, c->nparams, n);
  for (u32 k = 0; k < n; k++) {
    if (!args[k] || !hlo_shape_compatible(args[k]->shape, c->params[k]->shape))
      return hs_fail(HS_E_INPUT, "argument %u does not have the shape of parameter %s", k,
                     c->params[k]->name);
    if (hlo_literal_has_elided(args[k])) return hs_fail(HS_E_ELIDED, "argument %u has no value", k);
  }
  return HS_GOOD;
}

hs_status hlo_eval_computation(const hlo_computation *c, u32 n, hlo_literal *const *args,
                               const hlo_eval_options *opt, hlo_literal **out) {
  *out = NULL;
  HS_TRY(ev_check_args(c, n, args));
  return ev_run_one(c, n, args, opt, NULL, 0, 0, out);
}

// The needed instructions of a computation; marks what they call in `comes` (by computation id).
static hs_status check_computation(const hlo_computation *c, const hlo_eval_peer *peer,
                                   bool *comes) {
  bool *need = hs_calloc(c->ninstrs + 1, sizeof *need);
  hs_arena scratch = {0};
  hlo_positions at;
  hlo_instr **all = listing(c, &at, &scratch);
  mark_needed(c, all, need, &at);
  hs_status st = HS_GOOD;
  hlo_for_each_instr(i, c) {
    if (!need[hlo_position_of(&at, i)] || !hs_ok(st)) continue;
    hs_buf why = {0};
    bool theirs = i->opcode == HLO_CUSTOM_CALL && peer && peer->covers(peer->arg, i);
    if (!theirs && !hlo_eval_supports(i, &why)) st = ev_unsupported(i, hs_buf_cstr(&why));
    hs_buf_free(&why);
    for (u32 k = 0; k < hlo_ncalled(i); k++) comes[hlo_called(i, k)->id] = true;
  }
  hs_arena_free(&scratch);
  hs_free(need);
  return st;
}

hs_status hlo_eval_check(const hlo_module *m, const hlo_eval_options *opt) {
  if (!m->entry) return hs_fail(HS_E_RUN, "the module has no entry computation");
  hs_arena a = {0};
  bool *comes = HS_NEW_ARRAY(&a, bool, m->next_comp_id + 1);
  u32 n;
  hlo_computation **order = hlo_comp_callees_first(m, &a, &n);
  hs_status st = HS_GOOD;
  comes[m->entry->id] = true;
  for (u32 k = n; k-- > 0 && hs_ok(st);) {
    if (comes[order[k]->id]) st = check_computation(order[k], opt ? opt->peer : NULL, comes);
    if (hs_ok(st)) st = hs_poll();
  }
  hs_arena_free(&a);
  return st;
}

hs_status hlo_eval_module(const hlo_module *m, u32 n, hlo_literal *const *args,
                          const hlo_eval_options *opt, hlo_literal **out) {
  *out = NULL;
  if (!m->entry) return hs_fail(HS_E_RUN, "the module has no entry computation");
  // The functions below trust shapes and dimension numbers; whatever breaks HLO's rules stops here.
  HS_TRY(hlo_verify(m, NULL));
  if (opt && opt->host) ev_host_rewind(opt->host);
  HS_TRY(ev_run_devices(m, n, args, opt, out));
  ev_state_sizes(m->entry->root->shape, out);
  return HS_GOOD;
}

hs_status ev_run_instr(const hlo_instr *i, u32 n, hlo_literal *const *operands,
                       const hlo_eval_options *opt, ev_world *world, u32 replica, u32 partition,
                       hlo_literal **out) {
  *out = NULL;
  if (n != i->noperands)
    return hs_fail(HS_E_RUN, "%s takes %u operands, %u given", i->name, i->noperands, n);
  for (u32 k = 0; k < n; k++)
    if (!operands[k] || hlo_literal_has_elided(operands[k]))
      return hs_fail(HS_E_ELIDED, "operand %u of %s has no value", k, i->name);
  ev e = open_ev(i->parent->module->ctx, opt);
  e.world = world;
  e.replica = replica;
  e.partition = partition;
  hlo_literal **ops = hs_calloc(n + 1, sizeof *ops);
  for (u32 k = 0; k < n; k++) ops[k] = hlo_literal_ref(operands[k]);
  u32 mode = enter_float_mode(e.opt.keep_denormals);
  hs_status st = unify(&e, i, ops);
  if (hs_ok(st)) st = functions[i->opcode](&e, i, ops, out);
  if (hs_ok(st)) st = coerce(&e, i->shape, out);
  leave_float_mode(mode);
  for (u32 k = 0; k < n; k++) hlo_literal_unref(ops[k]);
  hs_free(ops);
  close_ev(&e);
  if (!hs_ok(st)) {
    hlo_literal_unref(*out);
    *out = NULL;
  }
  return st;
}

hs_status hlo_eval_instr(const hlo_instr *i, u32 n, hlo_literal *const *operands,
                         const hlo_eval_options *opt, hlo_literal **out) {
  return ev_run_instr(i, n, operands, opt, NULL, 0, 0, out);
}

// ---- leaves, tuples and calls -------------------------------------------------------------------
hs_status hlo_eval_parameter(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  (void)ops;
  (void)out;
  return ev_unsupported(i, "outside of a computation");
}
hs_status hlo_eval_constant(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  (void)ops;
  const hlo_literal *l = hlo_constant_value(i);
  if (!l || hlo_literal_has_elided(l))
    return hs_fail(HS_E_ELIDED, "constant %s was printed as {...}; its value is not known",
                   i->name);
  *out = hlo_literal_ref(l);
  return HS_GOOD;
}
hs_status hlo_eval_tuple(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  *out = hlo_literal_tuple(i->shape, i->noperands, ops);
  memset(ops, 0, i->noperands * sizeof *ops);
  return HS_GOOD;
}
hs_status hlo_eval_gte(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  i64 k = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
  if (k < 0 || (u64)k >= ops[0]->nchildren)
    return hs_fail(HS_E_RUN, "%s: no element %lld", i->name, (long long)k);
  *out = hlo_literal_ref(ops[0]->children[k]);
  return HS_GOOD;
}
hs_status hlo_eval_first(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  *out = ev_retag(&ops[0], i->shape);
  return HS_GOOD;
}
hs_status hlo_eval_token(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  (void)ops;
  return hlo_literal_new(i->shape, out);
}
hs_status hlo_eval_call(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_computation *c = hlo_fusion_comp(i);
  if (!c) return ev_unsupported(i, "without a computation");
  return ev_call(e, c, i->noperands, ops, out);
}

hs_status hlo_eval_conditional(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  u32 n = hlo_ncalled(i);
  i64 k = n ? (i64)n - 1 : 0;
  if (ops[0]->shape->dtype == HLO_PRED) k = *(const u8 *)ops[0]->data ? 0 : 1;
  else {
    i64 v = hlo_literal_i64(ops[0], 0);
    if (v >= 0 && v < (i64)n) k = v;  // out of range: the last branch
  }
  if (k >= (i64)n || (u32)k + 1 >= i->noperands) return ev_unsupported(i, "without branches");
  return ev_enter(e, hlo_called(i, (u32)k), &ops[k + 1], out);
}
