// program.c — lowering: an HLO module becomes steps over values, in execution order.
//
// One instruction is one step, or none when it only renames data (tuple, get-tuple-element,
// bitcast, row-major reshape, a copy that keeps the layout, a transpose that is only a layout);
// leaves whose layout changes on the way are copied by steps of their own. The order is the
// module's own list order, which is its schedule when it has one. Calls are inlined; loops and
// conditionals become steps that hold blocks of steps, so that a run never leaves the worker.
//
// The kernel of a step: a runtime kernel (rt.def) where that table says so first, else the emitter,
// else any runtime kernel, else what is called (called.c). A fusion that is no kernel is lowered
// like a call, and so is one of dots and the like (cpu_heavy_bodies). An asynchronous operation is
// done at its start. Loop state that the body returns unchanged is no state: its readers inside and
// after the loop read the initial value.
#include "backends/cpu/chain.h"
#include "backends/cpu/leaves.h"
#include "backends/cpu/region.h"
#include "backends/cpu/rt/scalar.h"
#include "core/analysis/customcall.h"
#include "core/analysis/heap.h"

enum { MAX_STEPS = 1 << 20, MAX_LOWERED = 1 << 22 };

// ---- steps --------------------------------------------------------------------------------------

static hs_status lower_computation(cpu_lowering *l, const hlo_computation *c, const u32 *args,
                                   cpu_block *b);

static cpu_step *new_step(cpu_lowering *l, cpu_block *b, const hlo_instr *i, cpu_step_kind kind) {
  cpu_step s = {.kind = kind,
                .instr = i,
                .pos = cpu_new_pos(l),
                .kernel_index = CPU_NONE,
                .scratch_slot = CPU_NONE,
                .pred = CPU_NONE};
  hs_vec_push(&b->steps, s);
  return &b->steps.v[b->steps.n - 1];
}

static u32 operand_leaves(cpu_lowering *l, const hlo_instr *i, u32 first, u32 *out) {
  u32 n = 0;
  for (u32 k = first; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    u32 m = hlo_shape_leaves(o->shape);
    if (out) memcpy(out + n, l->leaves[o->id], m * sizeof *out);
    n += m;
  }
  return n;
}

static hs_status unsupported(const hlo_instr *i) {
  return hs_with_note(hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(i->opcode), "unsupported: %s",
                                      hlo_op_text(i->opcode)),
                      "instruction %%%s, backend cpu", i->name);
}

// ---- the emitter, where there is one ------------------------------------------------------------
#if HAVE_LLVM
static bool emits(const hlo_instr *i, hs_buf *why) { return emit_supports(i, why); }

// The instruction's kernel; NULL when it cannot be one. Lowers it, so it is asked for only once.
static hs_status add_kernel(cpu_lowering *l, const hlo_instr *i, const emit_kernel **out) {
  hs_status s = emit_add(l->p->unit, i, out);
  if (hs_ok(s) || s.err->code != HS_E_UNSUPPORTED) return s;
  hs_status_drop(s);
  return HS_GOOD;
}
#else
static bool emits(const hlo_instr *i, hs_buf *why) { return (void)i, (void)why, false; }

static hs_status add_kernel(cpu_lowering *l, const hlo_instr *i, const emit_kernel **out) {
  (void)l, (void)i, *out = NULL;
  return HS_GOOD;
}
#endif

// ---- what can be lowered ------------------------------------------------------------------------
// The computation that is lowered in the instruction's place, its parameters being the operands: of
// a call, of an asynchronous start that has all of its operands, of a custom call that stands for
// one, of a fusion, which has one only where it is no kernel. NULL when there is none.
static const hlo_computation *inlined(const hlo_instr *i) {
  const hlo_computation *c = NULL;
  switch (i->opcode) {
  case HLO_CALL: return hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  case HLO_ASYNC_START:
    c = hlo_attr_comp(i, HLO_ATTR_CALLS);
    return c && c->nparams == i->noperands && hlo_shape_is_tuple(i->shape) &&
                   i->shape->nelems >= 2 && hlo_shape_is_tuple(i->shape->elems[0]) &&
                   hlo_shape_compatible(i->shape->elems[1], c->root->shape)
               ? c
               : NULL;
  case HLO_CUSTOM_CALL: return hlo_custom_is_body(i) ? hlo_called(i, 0) : NULL;
  case HLO_FUSION: return hlo_fusion_comp(i);
  default: return NULL;
  }
}

static bool lowers(const hlo_instr *i, hs_buf *why, u32 depth);

static bool all_lower(const hlo_computation *c, hs_buf *why, u32 depth) {
  enum { MOST_NESTED = 64 };
  if (depth > MOST_NESTED) return false;
  hlo_for_each_instr(i, c)
    if (!lowers(i, why, depth + 1)) return false;
  return true;
}

// The start of an asynchronous operation whose update or done this is.
static const hlo_instr *start_of(const hlo_instr *i) {
  while ((i->opcode == HLO_ASYNC_DONE || i->opcode == HLO_ASYNC_UPDATE) && i->noperands == 1)
    i = hlo_operand(i, 0);
  return i;
}

static bool is_copy_half(const hlo_instr *i) {
  return (i->opcode == HLO_COPY_START || i->opcode == HLO_COPY_DONE) &&
         hlo_shape_is_tuple(i->opcode == HLO_COPY_START ? i->shape : hlo_operand(i, 0)->shape);
}

// Called computations are asked about by whoever walks the module, those of one instruction here.
static bool lowers(const hlo_instr *i, hs_buf *why, u32 depth) {
  switch (i->opcode) {
  case HLO_CONSTANT:
  case HLO_PARAMETER:
  case HLO_AFTER_ALL:
  case HLO_WHILE:
  case HLO_CALL:
  case HLO_CONDITIONAL: return true;
  case HLO_ASYNC_START: return inlined(i) != NULL;
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE: {
    const hlo_instr *start = start_of(i);
    return start->opcode == HLO_ASYNC_START && inlined(start);
  }
  default: break;
  }
  if (cpu_instr_is_alias(i) || is_copy_half(i) || cpu_rt_find(i)) return true;
  if (!cpu_is_effect(i) && emits(i, why)) return true;
  if (why && i->opcode == HLO_CUSTOM_CALL) why->n = 0, (void)hlo_eval_supports(i, why);
  const hlo_computation *c = inlined(i);
  hs_buf inner = {0};  // what stops the body, if it is known, is the reason
  bool fine = c ? all_lower(c, why ? &inner : NULL, depth) : cpu_called_of(i) != CPU_CALLED_NOT;
  if (!fine && inner.n) why->n = 0, hs_buf_put(why, inner.p, inner.n);
  hs_buf_free(&inner);
  if (!fine) return false;
  if (why) why->n = 0;
  return true;
}

bool cpu_lowers(const hlo_instr *i, hs_buf *why) { return lowers(i, why, 0); }

// Multiplications and additions of a dot.
static i64 steps_of_dot(const hlo_instr *i) {
  hlo_ints k = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS);
  i64 n = i->shape->elements;
  for (u32 j = 0; j < k.n; j++) n *= hlo_operand(i, 0)->shape->dims[k.v[j]];
  return n;
}

// Whether it does little at every step of a loop: code inside of the loop's function is faster at
// that than a runtime kernel, which is made for large arrays, and its call.
static bool is_small_in_loop(const cpu_lowering *l, const hlo_instr *i) {
  enum { MOST_MOVED = 4 << 10, MOST_STEPS = 1 << 15 };
  if (!l->loop || l->p->per_instruction) return false;
  switch (i->opcode) {
  case HLO_DOT: return steps_of_dot(i) <= MOST_STEPS;
  case HLO_DYNAMIC_SLICE: return hlo_shape_bytes(i->shape) <= MOST_MOVED;
  case HLO_DYNAMIC_UPDATE_SLICE: return hlo_shape_bytes(hlo_operand(i, 1)->shape) <= MOST_MOVED;
  default: return false;
  }
}

// Whether it is a convolution to one feature, of one or of an image whose features are apart:
// libraries run many features in lanes, the emitter the places of the result.
static bool is_thin(const hlo_instr *i) {
  const hlo_dim_labels *d = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  if (i->opcode != HLO_CONVOLUTION || !d || i->shape->dims[d->out_feature] != 1) return false;
  const hlo_shape *image = hlo_operand(i, 0)->shape, *filter = hlo_operand(i, 1)->shape;
  const i64 features = filter->dims[d->rhs_input_feature];
  if (features == 1) return true;
  i64 minor = image->layout ? image->layout->minor_to_major[0] : image->rank - 1;
  return filter->elements > features && minor != d->lhs_feature && minor != d->lhs_batch;
}

// The kernel of the program's maker, where there is one and it makes one.
static hs_status add_made(cpu_lowering *l, const hlo_instr *i, cpu_step *s) {
  if (!l->maker) return HS_GOOD;
  HS_TRY(l->maker->add(l->maker->ctx, i, s));
  if (!s->kernel) return HS_GOOD;
  s->kind = CPU_STEP_EMIT;
  s->scratch_bytes = (size_t)s->kernel->scratch_bytes;
  return HS_GOOD;
}

// Chooses the kernel of a step without control flow.
static hs_status choose_kernel(cpu_lowering *l, const hlo_instr *i, cpu_step *s) {
  HS_TRY(add_made(l, i, s));
  if (s->kernel) return HS_GOOD;
  const cpu_rt_kind *rt = cpu_rt_find(i);
  if (!cpu_is_effect(i) && (!rt || !rt->first || is_small_in_loop(l, i) || is_thin(i)))
    HS_TRY(add_kernel(l, i, &s->kernel));
  if (s->kernel) {
    s->kind = CPU_STEP_EMIT;
    s->scratch_bytes = (size_t)s->kernel->scratch_bytes;
    return HS_GOOD;
  }
  if (rt) {
    s->kind = CPU_STEP_RT;
    HS_TRY(cpu_rt_make(i, cpu_constants_of(l, s), &s->rt));
    s->scratch_bytes = (size_t)s->rt.scratch_bytes;
#if HAVE_LLVM
    cpu_lanes *inner = s->rt.compiled;
    hs_status st = HS_GOOD;
    if (inner && inner->instr) st = emit_add(l->p->unit, inner->instr, &inner->kernel);
    if (!hs_ok(st)) {
      cpu_rt_free(&s->rt);
      return st;
    }
#endif
    return HS_GOOD;
  }
  s->called = cpu_called_of(i);
  if (s->called == CPU_CALLED_NOT) return unsupported(i);
  s->kind = CPU_STEP_CALLED;
  l->p->fallbacks += s->called == CPU_CALLED_EVALUATOR;
  return HS_GOOD;
}

static hs_status lower_inlined(cpu_lowering *l, const hlo_instr *i, const hlo_computation *c,
                               cpu_block *b, u32 *out, u32 n);

static hs_status lower_plain(cpu_lowering *l, const hlo_instr *i, cpu_block *b, u32 *out,
                             u32 nout) {
  cpu_step s = {.instr = i, .kernel_index = CPU_NONE, .scratch_slot = CPU_NONE, .pred = CPU_NONE};
  s.nin = operand_leaves(l, i, 0, NULL);
  s.nvals = s.nin + nout;
  s.vals = HS_NEW_ARRAY(&l->p->arena, u32, s.nvals + 1);
  operand_leaves(l, i, 0, s.vals);
  if (i->opcode == HLO_FUSION) {
    bool apart = l->heavy[hlo_fusion_comp(i)->id];
    if (!apart) HS_TRY(l->maker ? add_made(l, i, &s) : add_kernel(l, i, &s.kernel));
    if (!s.kernel) return lower_inlined(l, i, inlined(i), b, out, nout);
    s.kind = CPU_STEP_EMIT;
    s.scratch_bytes = (size_t)s.kernel->scratch_bytes;
  } else HS_TRY(choose_kernel(l, i, &s));
  s.pos = cpu_new_pos(l);
  for (u32 k = 0; k < s.nin; k++) cpu_use_value(l, s.vals[k], s.pos);
  for (u32 k = 0; k < nout; k++)
    out[k] = s.vals[s.nin + k] = cpu_new_value(l, CPU_TEMP, hlo_shape_leaf(i->shape, k), s.pos, k);
  hs_vec_push(&b->steps, s);
  return HS_GOOD;
}

// vals of a while: n initial values, n values inside (CPU_NONE where unchanged), n results. All
// have the layouts that the body reads: where the loop's own differ, copies are made once before
// and after it, not in every iteration.
static hs_status lower_while(cpu_lowering *l, const hlo_instr *i, cpu_block *b, u32 *out, u32 n) {
  cpu_program *p = l->p;
  const hlo_computation *cond = hlo_attr_comp(i, HLO_ATTR_CONDITION),
                        *body = hlo_attr_comp(i, HLO_ATTR_BODY);
  const hlo_shape *before = hlo_operand(i, 0)->shape,
                  *state = cpu_lay_out(l, body->params[0], NULL);
  u32 *vals = HS_NEW_ARRAY(&p->arena, u32, 3 * n + 1);
  operand_leaves(l, i, 0, vals);
  const u32 *given = cpu_copy_leaves(l, vals, n);
  cpu_adapt_leaves(l, i, b, vals, before, state);
  size_t at = b->steps.n;
  cpu_step *s = new_step(l, b, i, CPU_STEP_WHILE);
  i32 start = s->pos;
  s->nin = n;
  s->nvals = 3 * n;
  s->vals = vals;
  u32 *inside = HS_NEW_ARRAY(&p->arena, u32, n + 1);
  cpu_block *blocks = s->blocks = HS_NEW_ARRAY(&p->arena, cpu_block, 2);
  s->nblocks = 2;
  cpu_loop loop = {.start = start, .end = start, .parent = l->loop};
  hs_vec_push(&p->loops, loop);
  u32 me = (u32)p->loops.n, outer = l->loop;
  for (u32 k = 0; k < n; k++) {
    u32 from;
    bool unchanged = cpu_traces_to_parameter(body->root, k, &from) && from == k;
    if (!unchanged) cpu_use_value(l, vals[k], start);
    l->loop = me;
    inside[k] =
        unchanged ? vals[k] : cpu_new_value(l, CPU_TEMP, hlo_shape_leaf(state, k), start, k);
    l->loop = outer;
    vals[n + k] = unchanged ? CPU_NONE : inside[k];
  }
  l->loop = me;
  u32 *args[] = {cpu_copy_leaves(l, inside, n), cpu_copy_leaves(l, inside, n)};
  cpu_adapt_leaves(l, i, &blocks[0], args[0], state, cpu_lay_out(l, cond->params[0], state));
  HS_TRY(lower_computation(l, cond, args[0], &blocks[0]));
  u32 pred = l->leaves[cond->root->id][0];
  cpu_use_value(l, pred, cpu_new_pos(l));
  HS_TRY(lower_computation(l, body, args[1], &blocks[1]));
  u32 *results = cpu_copy_leaves(l, l->leaves[body->root->id], n);
  for (u32 k = 0; k < n; k++)
    if (vals[n + k] != CPU_NONE)
      cpu_adapt_leaf(l, i, &blocks[1], results, k, body->root->shape, state);
  i32 end = cpu_new_pos(l);
  for (u32 k = 0; k < n; k++) {
    if (vals[n + k] == CPU_NONE) continue;
    u32 r = results[k];
    cpu_use_value(l, r, end);
    cpu_value *v = &p->values.v[r];
    if (v->kind == CPU_TEMP && v->target == CPU_NONE && v->loop == me && v->def != start)
      v->target = inside[k];
    cpu_move m = {.src = r, .dst = inside[k], .temp = CPU_NONE};
    hs_vec_push(&blocks[1].moves, m);
  }
  p->loops.v[me - 1].end = end;
  l->loop = outer;
  b->steps.v[at].pred = pred;
  for (u32 k = 0; k < n; k++) {
    bool unchanged = vals[n + k] == CPU_NONE;
    vals[2 * n + k] =
        unchanged ? vals[k] : cpu_new_value(l, CPU_TEMP, hlo_shape_leaf(state, k), end, k);
    out[k] = unchanged ? given[k] : vals[2 * n + k];
  }
  for (u32 k = 0; k < n; k++)
    cpu_adapt_leaf(l, i, b, out, k, vals[n + k] == CPU_NONE ? before : state, i->shape);
  return HS_GOOD;
}

// vals of a conditional: the selector, then the results.
static hs_status lower_conditional(cpu_lowering *l, const hlo_instr *i, cpu_block *b, u32 *out,
                                   u32 n) {
  cpu_program *p = l->p;
  size_t at = b->steps.n;
  cpu_step *s = new_step(l, b, i, CPU_STEP_COND);
  u32 nb = i->noperands - 1;
  if (hlo_ncalled(i) != nb)
    return hs_fail(HS_E_VERIFY, "%%%s: %u branches for %u operands", i->name, hlo_ncalled(i), nb);
  s->nin = 1;
  s->nvals = 1 + n;
  u32 *vals = s->vals = HS_NEW_ARRAY(&p->arena, u32, n + 2);
  cpu_block *blocks = s->blocks = HS_NEW_ARRAY(&p->arena, cpu_block, nb + 1);
  s->nblocks = nb;
  s->pred = vals[0] = l->leaves[hlo_operand(i, 0)->id][0];
  cpu_use_value(l, vals[0], s->pos);
  for (u32 k = 0; k < n; k++) {
    out[k] = vals[1 + k] = cpu_new_value(l, CPU_TEMP, hlo_shape_leaf(i->shape, k), s->pos, k);
    p->values.v[out[k]].fresh = true;
  }
  for (u32 k = 0; k < nb; k++) {
    const hlo_instr *arg = hlo_operand(i, k + 1);
    u32 *in = cpu_copy_leaves(l, l->leaves[arg->id], hlo_shape_leaves(arg->shape));
    cpu_adapt_leaves(l, i, &blocks[k], in, arg->shape, hlo_called(i, k)->params[0]->shape);
    HS_TRY(lower_computation(l, hlo_called(i, k), in, &blocks[k]));
    const u32 *results = cpu_root_leaves(l, i, &blocks[k], hlo_called(i, k), i->shape);
    i32 end = cpu_new_pos(l);
    for (u32 j = 0; j < n; j++) {
      u32 r = results[j];
      cpu_use_value(l, r, end);
      cpu_value *v = &p->values.v[r];
      if (v->kind == CPU_TEMP && v->target == CPU_NONE && v->def > b->steps.v[at].pos)
        v->target = vals[1 + j];
      cpu_move m = {.src = r, .dst = vals[1 + j], .temp = CPU_NONE};
      hs_vec_push(&blocks[k].moves, m);
    }
  }
  return HS_GOOD;
}

// The leaves of an asynchronous operation's contexts: nobody reads them.
static void contexts(cpu_lowering *l, const hlo_shape *s, u32 from, u32 *out) {
  for (u32 k = from, n = hlo_shape_leaves(s); k < n; k++)
    out[k] = cpu_new_value(l, CPU_TEMP, hlo_shape_leaf(s, k), l->p->npos, k);
}

// An update, a done, or a half of a copy. What an asynchronous start makes is (operands, results,
// contexts), what a copy's makes (copy, original, context).
static void lower_half(cpu_lowering *l, const hlo_instr *i, cpu_block *b, u32 *out) {
  const hlo_instr *op = hlo_operand(i, 0);
  const u32 *from = l->leaves[op->id];
  const hlo_shape *s = op->shape;
  u32 n = hlo_shape_leaves(i->shape);
  if (i->opcode == HLO_COPY_START) {
    u32 m = hlo_shape_leaves(s);
    for (u32 k = 0; k < 2; k++) {
      memcpy(out + k * m, from, m * sizeof *out);
      cpu_adapt_leaves(l, i, b, out + k * m, s, i->shape->elems[k]);
    }
    contexts(l, i->shape, 2 * m, out);
    return;
  }
  u32 element = i->opcode == HLO_ASYNC_DONE, first = element ? hlo_shape_leaf_offset(s, 1) : 0;
  memcpy(out, from + first, n * sizeof *out);
  if (i->opcode != HLO_ASYNC_UPDATE) s = s->elems[element];
  cpu_adapt_leaves(l, i, b, out, s, i->shape);
}

static hs_status lower_inlined(cpu_lowering *l, const hlo_instr *i, const hlo_computation *c,
                               cpu_block *b, u32 *out, u32 n) {
  u32 nin = operand_leaves(l, i, 0, NULL);
  u32 *in = HS_NEW_ARRAY(&l->p->arena, u32, nin + 1);
  operand_leaves(l, i, 0, in);
  const hlo_shape *result = i->shape;
  if (i->opcode == HLO_ASYNC_START) {
    memcpy(out, in, nin * sizeof *out);
    result = i->shape->elems[1];
    u32 made = hlo_shape_leaves(result);
    contexts(l, i->shape, nin + made, out);
    out += nin;
    n = made;
  }
  for (u32 k = 0, at = 0; k < i->noperands; at += hlo_shape_leaves(hlo_operand(i, k)->shape), k++)
    cpu_adapt_leaves(l, i, b, in + at, hlo_operand(i, k)->shape, c->params[k]->shape);
  HS_TRY(lower_computation(l, c, in, b));
  memcpy(out, cpu_root_leaves(l, i, b, c, result), n * sizeof *out);
  return HS_GOOD;
}

static hs_status lower_instr(cpu_lowering *l, const hlo_instr *i, const u32 *args, cpu_block *b) {
  u32 n = hlo_shape_leaves(i->shape);
  i64 bytes = hlo_shape_bytes(i->shape);
  if (bytes > (i64)CPU_MAX_BYTES)
    return hs_fail(HS_E_NO_MEMORY,
                   "%%%s: its value of %s%lld bytes is more than a process can hold", i->name,
                   bytes == INT64_MAX ? "at least " : "", (long long)bytes);
  u32 *out = l->leaves[i->id] = HS_NEW_ARRAY(&l->p->arena, u32, n + 1);
  if (l->p->npos > MAX_STEPS)
    return hs_fail(HS_E_LIMIT, "the program has more than %d steps", MAX_STEPS);
  if (++l->lowered > MAX_LOWERED)  // nested calls can repeat without making a step
    return hs_fail(HS_E_LIMIT, "inlining the calls gives more than %d instructions", MAX_LOWERED);
  if (i->opcode == HLO_PARAMETER) {
    for (i64 k = 0; k < hlo_param_number(i); k++)
      args += hlo_shape_leaves(i->parent->params[k]->shape);
    memcpy(out, args, n * sizeof *out);
    return HS_GOOD;
  }
  if (i->opcode == HLO_CONSTANT) {
    const hlo_literal *lit = hlo_constant_value(i);
    if (!lit || hlo_literal_has_elided(lit))
      return hs_fail(HS_E_ELIDED, "%%%s is an elided constant", i->name);
    cpu_constant_leaves(l, i->shape, lit, &out);
    return HS_GOOD;
  }
  if (i->opcode == HLO_AFTER_ALL) {
    out[0] = cpu_new_value(l, CPU_TEMP, i->shape, l->p->npos, 0);
    return HS_GOOD;
  }
  if (cpu_instr_is_alias(i)) {
    cpu_alias_leaves(l, i, b, out, n);
    return HS_GOOD;
  }
  if (i->opcode == HLO_WHILE) return lower_while(l, i, b, out, n);
  if (i->opcode == HLO_CONDITIONAL) return lower_conditional(l, i, b, out, n);
  if (is_copy_half(i) || i->opcode == HLO_ASYNC_UPDATE || i->opcode == HLO_ASYNC_DONE) {
    lower_half(l, i, b, out);
    return HS_GOOD;
  }
  const hlo_computation *c = i->opcode == HLO_FUSION ? NULL : inlined(i);
  if (c) return lower_inlined(l, i, c, b, out, n);
  return lower_plain(l, i, b, out, n);
}

static hs_status lower_computation(cpu_lowering *l, const hlo_computation *c, const u32 *args,
                                   cpu_block *b) {
  const hlo_instr *outer = l->at;
  if (l->depth > BACKEND_MOST_NESTED) return backend_too_nested();
  l->depth++;
  hlo_for_each_instr(i, c) {
    if (i->nuses == 0 && !hlo_is_root(i) && hlo_is_removable(i)) continue;
    l->at = i;
    HS_TRY(lower_instr(l, i, args, b));
  }
  l->depth--;
  l->at = outer;
  return HS_GOOD;
}

// ---- live ranges, kernels, entry ----------------------------------------------------------------

static bool loop_contains(const cpu_program *p, u32 outer, u32 inner) {
  for (; inner; inner = p->loops.v[inner - 1].parent)
    if (inner == outer) return true;
  return outer == 0;
}

// Live ranges: a use inside of a loop that the definition is outside of extends to the loop's end.
static void extend_uses(cpu_lowering *l) {
  cpu_program *p = l->p;
  for (size_t k = 0; k < l->uses.n; k++) {
    cpu_use u = l->uses.v[k];
    cpu_value *v = &p->values.v[u.value];
    i32 e = u.pos;
    for (u32 loop = u.loop; loop && !loop_contains(p, loop, v->loop);
         loop = p->loops.v[loop - 1].parent)
      e = p->loops.v[loop - 1].end;
    v->last_use = HS_MAX(v->last_use, e);
  }
  for (size_t k = 0; k < p->values.n; k++)
    p->values.v[k].live_end = HS_MAX(p->values.v[k].live_end, p->values.v[k].last_use);
}

static void collect_kernels(cpu_program *p, cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++) {
    cpu_step *s = &b->steps.v[k];
    s->bufs = HS_NEW_ARRAY(&p->arena, void *, s->nvals + 1);
    for (u32 j = 0; j < s->nblocks; j++) collect_kernels(p, &s->blocks[j]);
    if (s->kind == CPU_STEP_WHILE || s->kind == CPU_STEP_COND) continue;
    s->kernel_index = (u32)p->kernels.n;
    hs_vec_push(&p->kernels, s);
  }
}

// Arguments become values. apply_aliases sets which of them are donated, from the module's header.
static void make_arguments(cpu_lowering *l, const hlo_computation *c) {
  cpu_program *p = l->p;
  for (u32 k = 0; k < c->nparams; k++) p->nargs += hlo_shape_leaves(c->params[k]->shape);
  p->arg_value = HS_NEW_ARRAY(&p->arena, u32, p->nargs + 1);
  p->arg_offset = HS_NEW_ARRAY(&p->arena, size_t, p->nargs + 1);
  p->arg_donated = HS_NEW_ARRAY(&p->arena, bool, p->nargs + 1);
  p->arg_shape = HS_NEW_ARRAY(&p->arena, const hlo_shape *, p->nargs + 1);
  u32 at = 0;
  for (u32 k = 0; k < c->nparams; k++) {
    l->at = c->params[k];
    for (u32 j = 0, n = hlo_shape_leaves(c->params[k]->shape); j < n; j++, at++) {
      p->arg_shape[at] = hlo_shape_leaf(c->params[k]->shape, j);
      p->arg_value[at] = cpu_new_value(l, CPU_ARG, p->arg_shape[at], -1, j);
      p->values.v[p->arg_value[at]].index = at;
    }
  }
}

static void apply_aliases(cpu_lowering *l, const hlo_module *m) {
  cpu_program *p = l->p;
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *al = a ? a->v.p : NULL;
  for (u32 k = 0; al && k < al->n && !p->per_instruction; k++) {
    const hlo_alias_entry *e = &al->v[k];
    if (e->param < 0 || e->param >= m->entry->nparams) continue;
    u32 o = hlo_shape_leaf_at(m->entry->root->shape, e->out_index),
        in = hlo_shape_leaf_at(m->entry->params[e->param]->shape, e->param_index);
    if (o == HLO_NO_LEAF || in == HLO_NO_LEAF) continue;
    for (i64 j = 0; j < e->param; j++) in += hlo_shape_leaves(m->entry->params[j]->shape);
    cpu_value *v = &p->values.v[p->out_value[o]];
    if (v->kind != CPU_TEMP || v->bytes != p->values.v[p->arg_value[in]].bytes) continue;
    v->target = p->arg_value[in];
    p->arg_donated[in] = true;
  }
}

// Every result leaf gets a value that aliases nothing: no argument, no constant, no other result.
static void make_results(cpu_lowering *l, const hlo_module *m) {
  cpu_program *p = l->p;
  const hlo_instr *root = l->at = m->entry->root;
  p->nouts = hlo_shape_leaves(root->shape);
  p->out_value = HS_NEW_ARRAY(&p->arena, u32, p->nouts + 1);
  p->out_shape = HS_NEW_ARRAY(&p->arena, const hlo_shape *, p->nouts + 1);
  i32 end = cpu_new_pos(l);
  u8 *taken = hs_calloc(p->values.n + 1, 1);
  u32 nvalues = (u32)p->values.n;
  for (u32 k = 0; k < p->nouts; k++) {
    u32 v = l->leaves[root->id][k];
    p->out_shape[k] = hlo_shape_leaf(root->shape, k);
    cpu_use_value(l, v, end);
    if (p->values.v[v].kind != CPU_TEMP || (v < nvalues && taken[v])) {
      cpu_move mv = {
          .src = v, .dst = cpu_new_value(l, CPU_TEMP, p->out_shape[k], end, k), .temp = CPU_NONE};
      hs_vec_push(&p->entry.moves, mv);
      v = mv.dst;
    } else taken[v] = 1;
    p->out_value[k] = v;
  }
  hs_free(taken);
  apply_aliases(l, m);
}

// Lowered once for each path of calls that leads to it.
static bool runs_called(const hlo_instr *i) { return hlo_op_has(i->opcode, HLO_F_CONTROL); }

static hs_status lower_module(cpu_lowering *l, const hlo_module *m) {
  cpu_program *p = l->p;
  HS_TRY(hlo_check_expansion(m, runs_called, "compiling for the cpu"));
  l->heavy = cpu_heavy_bodies(m, l->maker != NULL, &p->arena);
  make_arguments(l, m->entry);
  HS_TRY(lower_computation(l, m->entry, p->arg_value, &p->entry));
  make_results(l, m);
  cpu_join_chains(l);
  extend_uses(l);
  collect_kernels(p, &p->entry);
  if (p->away) p->fallbacks = 0;
  for (size_t k = 0; p->away && k < p->kernels.n; k++) p->fallbacks += !p->kernels.v[k]->device;
  return HS_GOOD;
}

hs_status cpu_lower(const hlo_module *m, const cpu_lower_options *o, cpu_program **out) {
  static const hlo_eval_options alone = {.nreplicas = 1, .npartitions = 1};
  u32 replicas, partitions;
  bool transfers;
  *out = NULL;
  HS_TRY(hlo_eval_devices(m, o->one_device ? &alone : NULL, &replicas, &partitions, &transfers));
  cpu_program *p = hs_calloc(1, sizeof *p);
  p->m = m;
  p->per_instruction = o->per_instruction;
  p->keep_denormals = o->keep_denormals;
  p->replicas = replicas;
  p->partitions = partitions;
  p->ndevices = replicas * partitions;
  p->rng = hs_arena_alloc(&p->arena, p->ndevices * sizeof *p->rng);
  cpu_exec_seed(p);
  p->away = o->maker != NULL;
  p->align = o->maker ? o->maker->align : HLO_HEAP_ALIGN;
  cpu_lowering l = {
      .p = p, .maker = o->maker, .leaves = hs_calloc(m->next_instr_id + 1, sizeof *l.leaves)};
  l.laid = hs_calloc(m->next_instr_id + 1, sizeof *l.laid);
  hs_status s = HS_GOOD;
#if HAVE_LLVM
  const emit_options eo = {.contract = !o->no_contract, .keep_denormals = o->keep_denormals};
  s = emit_unit_new(&eo, &p->unit);
#endif
  if (hs_ok(s)) s = lower_module(&l, m);
  hs_vec_free(&l.uses);
  hs_free(l.leaves);
  hs_free(l.laid);
  if (hs_ok(s)) s = cpu_assign(p);
#if HAVE_LLVM
  if (hs_ok(s) && !o->plan_only) {
    if (!p->away) cpu_make_regions(p);
    emit_reuse(p->unit, o->code);
    s = emit_finish(p->unit, false, o->threads, NULL);
  }
#endif
  if (hs_ok(s) && !o->plan_only && !p->away) s = cpu_exec_prepare(p);
  if (!hs_ok(s)) {
    cpu_program_free(p);
    return s;
  }
  *out = p;
  return HS_GOOD;
}

hs_status cpu_complete(cpu_program *p, u32 threads) {
#if HAVE_LLVM
  return emit_finish(p->unit, true, threads, NULL);
#else
  (void)p, (void)threads;
  return HS_GOOD;
#endif
}

static void free_block(cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++) {
    for (u32 j = 0; j < b->steps.v[k].nblocks; j++) free_block(&b->steps.v[k].blocks[j]);
    cpu_rt_free(&b->steps.v[k].rt);
    cpu_region_free(b->steps.v[k].region);
  }
  hs_vec_free(&b->steps);
  hs_vec_free(&b->moves);
}

void cpu_program_free(cpu_program *p) {
  if (!p) return;
  free_block(&p->entry);
#if HAVE_LLVM
  if (p->unit) emit_unit_free(p->unit);
#endif
  cpu_exec_free(p);
  hs_vec_free(&p->values);
  hs_vec_free(&p->slots);
  hs_vec_free(&p->loops);
  hs_vec_free(&p->kernels);
  hs_vec_free(&p->pointers);
  hs_arena_free(&p->arena);
  hs_free(p);
}

// ---- the schedule as text -----------------------------------------------------------------------

static void dump_block(const cpu_program *p, const cpu_block *b, hs_buf *out, int indent) {
  for (size_t k = 0; k < b->steps.n; k++) {
    const cpu_step *s = &b->steps.v[k];
    static const char *const kinds[] = {"emitted", "runtime", "called", "while", "conditional"};
    hs_buf_printf(out, "%5d %*s%%%s: %s", s->pos, indent, "", s->instr->name, kinds[s->kind]);
    if (s->kind == CPU_STEP_EMIT)
      hs_buf_printf(out, " %s, %lld chunks", emit_kind_name(s->kernel->kind),
                    (long long)s->kernel->chunks);
    if (s->kind == CPU_STEP_RT) hs_buf_printf(out, " %s", s->rt.kind);
    if (s->kind == CPU_STEP_CALLED) hs_buf_printf(out, " (%s)", cpu_called_text(s->called));
    if (p->away && s->kernel_index != CPU_NONE && !s->device) hs_buf_puts(out, ", on the host");
    hs_buf_puts(out, s->region ? ", one function;" : ";");
    for (u32 j = 0; j < s->nvals; j++)
      if (s->vals[j] != CPU_NONE)
        hs_buf_printf(out, "%s%u", j == s->nin ? " -> " : " ", p->values.v[s->vals[j]].slot);
    hs_buf_putc(out, '\n');
    for (u32 j = 0; j < s->nblocks; j++) dump_block(p, &s->blocks[j], out, indent + 2);
  }
  for (size_t k = 0; k < b->moves.n; k++)
    hs_buf_printf(out, "      %*s%s %u -> %u\n", indent, "",
                  b->moves.v[k].swap ? "exchange" : "move", p->values.v[b->moves.v[k].src].slot,
                  p->values.v[b->moves.v[k].dst].slot);
}

void cpu_dump_schedule(const cpu_program *p, hs_buf *out) { dump_block(p, &p->entry, out, 0); }
