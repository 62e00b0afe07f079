// program.c — lowering: an HLO module becomes steps over values, in execution order.
//
// One instruction is one step, or none when it only renames data (tuple, get-tuple-element,
// bitcast, row-major reshape, a copy that keeps the layout); leaves whose layout changes on the way
// are copied by steps of their own. The order is the module's own list order, which is its schedule
// when it has one. Calls are inlined; loops and conditionals become steps that hold blocks
// of steps, so that a run never leaves the worker.
//
// The kernel of a step: a runtime kernel (rt.def) where that table says so first, else the emitter,
// else any runtime kernel, else the evaluator when fallbacks are allowed. Loop state that the body
// returns unchanged is no state: its readers inside and after the loop read the initial value.
#include <sys/mman.h>

#include "backends/cpu/cpu.h"
#include "core/analysis/customcall.h"

enum { MAX_STEPS = 1 << 20, MAX_LOWERED = 1 << 22 };

typedef struct use {
  u32 value;
  i32 pos;
  u32 loop;
} use;

typedef struct lower {
  cpu_program *p;
  u32 **leaves;  // per instruction id: its leaf values
  u32 loop;      // innermost loop, index + 1
  u32 lowered;   // instructions, once for every call that reaches them
  HS_VEC(use) uses;
} lower;

// ---- values -------------------------------------------------------------------------------------

static u32 new_value(lower *l, cpu_value_kind kind, const hlo_shape *shape, i32 def) {
  cpu_value v = {.kind = kind,
                 .shape = shape,
                 .bytes = block_leaf_bytes(shape),
                 .slot = CPU_NONE,
                 .loop = l->loop,
                 .def = def,
                 .last_use = def,
                 .live_end = def,
                 .target = CPU_NONE,
                 .index = CPU_NONE};
  hs_vec_push(&l->p->values, v);
  return (u32)l->p->values.n - 1;
}

static void use_value(lower *l, u32 v, i32 pos) {
  use u = {v, pos, l->loop};
  hs_vec_push(&l->uses, u);
}

static i32 new_pos(lower *l) { return l->p->npos++; }

// An aligned copy of a constant in the physical order its shape asks for.
static const void *constant_data(lower *l, const hlo_shape *leaf, const hlo_literal *lit) {
  size_t n = block_leaf_bytes(leaf);
  char *raw = hs_arena_alloc(&l->p->arena, n + 128);
  char *p = (char *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
  if (hlo_shape_is_row_major(leaf)) {
    memcpy(p, lit->data, n);
  } else {
    i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
    hlo_row_major_strides(leaf->rank, leaf->dims, from);
    cpu_strides(leaf, to);
    cpu_relayout(p, to, lit->data, from, leaf->rank, leaf->dims, hlo_dtype_storage(leaf->dtype));
  }
  return p;
}

static void constant_leaves(lower *l, const hlo_shape *shape, const hlo_literal *lit, u32 **out) {
  if (hlo_shape_is_tuple(shape)) {
    for (u32 k = 0; k < shape->nelems; k++)
      constant_leaves(l, shape->elems[k], lit->children[k], out);
    return;
  }
  u32 v = new_value(l, CPU_CONST, shape, -1);
  if (l->p->values.v[v].bytes) l->p->values.v[v].data = constant_data(l, shape, lit);
  *(*out)++ = v;
}

// ---- instructions that move no data -------------------------------------------------------------

// Whether the result is a tuple of the operands: a tuple, or a marker over several values.
static bool packs_operands(const hlo_instr *i) {
  if (i->opcode != HLO_CUSTOM_CALL) return i->opcode == HLO_TUPLE;
  return hlo_shape_is_tuple(i->shape) &&
         !(i->noperands == 1 && hlo_shape_compatible(i->shape, hlo_operand(i, 0)->shape));
}

bool cpu_instr_is_alias(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_OPT_BARRIER:
  case HLO_ADD_DEPENDENCY:
  case HLO_DOMAIN: return true;
  // same bytes by definition
  case HLO_BITCAST: return i->shape->dtype == hlo_operand(i, 0)->shape->dtype;
  case HLO_RESHAPE:
  case HLO_COPY:
    return hlo_shape_is_array(i->shape) && cpu_same_bytes(i->shape, hlo_operand(i, 0)->shape);
  case HLO_CUSTOM_CALL: return hlo_custom_is_marker(i);
  default: return false;
  }
}

static u32 leaf_offset(const hlo_shape *tuple, i64 index) {
  u32 n = 0;
  for (i64 k = 0; k < index; k++) n += hlo_shape_leaves(tuple->elems[k]);
  return n;
}

// ---- layouts of data that is only renamed -------------------------------------------------------
//
// The leaves of an instruction have the layouts of its own shape. Before layout assignment a module
// may pass an array of one layout to a parameter, a tuple element or a result of another; XLA
// inserts copies there, and so does this file.

typedef struct relayout {
  const hlo_shape *from, *to;
} relayout;

static hs_status run_relayout(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const relayout *r = state;
  i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
  cpu_strides(r->from, from);
  cpu_strides(r->to, to);
  cpu_relayout(bufs[1], to, bufs[0], from, r->to->rank, r->to->dims,
               hlo_dtype_storage(r->to->dtype));
  return HS_GOOD;
}

// Brings leaves laid out as those of `from` into the layouts of `to`, with copies in block b where
// they differ.
static void adapt_leaves(lower *l, const hlo_instr *i, cpu_block *b, u32 *vals,
                         const hlo_shape *from, const hlo_shape *to) {
  u32 n = from == to ? 0 : HS_MIN(hlo_shape_leaves(from), hlo_shape_leaves(to));
  for (u32 k = 0; k < n; k++) {
    const hlo_shape *x = hlo_shape_leaf(from, k), *y = hlo_shape_leaf(to, k);
    if (!hlo_shape_is_array(x) || x->rank != y->rank || x->elements != y->elements ||
        x->dtype != y->dtype || cpu_same_bytes(x, y))
      continue;
    relayout *r = hs_calloc(1, sizeof *r);
    *r = (relayout){x, y};
    cpu_step s = {.kind = CPU_STEP_RT,
                  .instr = i,
                  .pos = new_pos(l),
                  .nin = 1,
                  .nvals = 2,
                  .pred = CPU_NONE,
                  .scratch_slot = CPU_NONE,
                  .kernel_index = CPU_NONE,
                  .rt = {.kind = "relayout", .state = r, .run = run_relayout}};
    s.vals = HS_NEW_ARRAY(&l->p->arena, u32, 2);
    s.vals[0] = vals[k];
    use_value(l, vals[k], s.pos);
    vals[k] = s.vals[1] = new_value(l, CPU_TEMP, y, s.pos);
    hs_vec_push(&b->steps, s);
  }
}

static u32 *copy_leaves(lower *l, const u32 *vals, u32 n) {
  u32 *c = HS_NEW_ARRAY(&l->p->arena, u32, n + 1);
  memcpy(c, vals, n * sizeof *c);
  return c;
}

// The leaves of a computation's result, in the layouts of `shape`.
static u32 *root_leaves(lower *l, const hlo_instr *i, cpu_block *b, const hlo_computation *c,
                        const hlo_shape *shape) {
  u32 *r = copy_leaves(l, l->leaves[c->root->id], hlo_shape_leaves(c->root->shape));
  adapt_leaves(l, i, b, r, c->root->shape, shape);
  return r;
}

static void alias_leaves(lower *l, const hlo_instr *i, cpu_block *b, u32 *out, u32 n) {
  if (packs_operands(i)) {
    for (u32 k = 0, at = 0; k < i->noperands; k++) {
      const hlo_instr *o = hlo_operand(i, k);
      u32 m = hlo_shape_leaves(o->shape);
      memcpy(out + at, l->leaves[o->id], m * sizeof *out);
      adapt_leaves(l, i, b, out + at, o->shape, i->shape->elems[k]);
      at += m;
    }
    return;
  }
  const hlo_instr *o = hlo_operand(i, 0);
  bool element = i->opcode == HLO_GET_TUPLE_ELEMENT;
  i64 index = element ? hlo_attr_int(i, HLO_ATTR_INDEX, 0) : 0;
  memcpy(out, l->leaves[o->id] + (element ? leaf_offset(o->shape, index) : 0), n * sizeof *out);
  if (i->opcode == HLO_BITCAST || i->opcode == HLO_RESHAPE || i->opcode == HLO_COPY) return;
  adapt_leaves(l, i, b, out, element ? o->shape->elems[index] : o->shape, i->shape);
}

// Follows leaf `leaf` of `i` back through instructions that only rename data; true when it is leaf
// *pleaf of the parameter of a loop body.
static bool traces_to_parameter(const hlo_instr *i, u32 leaf, u32 *pleaf) {
  for (;;) {
    if (i->opcode == HLO_PARAMETER) {
      *pleaf = leaf;
      return true;
    }
    if (!cpu_instr_is_alias(i)) return false;
    if (packs_operands(i)) {
      u32 k = 0, m;
      while (leaf >= (m = hlo_shape_leaves(hlo_operand(i, k)->shape))) {
        leaf -= m;
        k++;
      }
      i = hlo_operand(i, k);
      continue;
    }
    if (i->opcode == HLO_GET_TUPLE_ELEMENT)
      leaf += leaf_offset(hlo_operand(i, 0)->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
    i = hlo_operand(i, 0);
  }
}

// ---- steps --------------------------------------------------------------------------------------

static hs_status lower_computation(lower *l, const hlo_computation *c, const u32 *args,
                                   cpu_block *b);

static cpu_step *new_step(lower *l, cpu_block *b, const hlo_instr *i, cpu_step_kind kind) {
  cpu_step s = {.kind = kind,
                .instr = i,
                .pos = new_pos(l),
                .kernel_index = CPU_NONE,
                .scratch_slot = CPU_NONE,
                .pred = CPU_NONE};
  hs_vec_push(&b->steps, s);
  return &b->steps.v[b->steps.n - 1];
}

static u32 operand_leaves(lower *l, const hlo_instr *i, u32 first, u32 *out) {
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

// Chooses the kernel of a step without control flow.
static hs_status choose_kernel(lower *l, const hlo_instr *i, cpu_step *s) {
  const cpu_rt_kind *rt = cpu_rt_find(i);
  bool emits = false;
#if HAVE_LLVM
  emits = emit_supports(i, NULL);
#endif
  if (rt && (rt->first || !emits)) {
    s->kind = CPU_STEP_RT;
    HS_TRY(cpu_rt_make(i, &s->rt));
    s->scratch_bytes = (size_t)s->rt.scratch_bytes;
    return HS_GOOD;
  }
#if HAVE_LLVM
  if (emits) {
    s->kind = CPU_STEP_EMIT;
    HS_TRY(emit_add(l->p->unit, i, &s->kernel));
    s->scratch_bytes = (size_t)s->kernel->scratch_bytes;
    return HS_GOOD;
  }
#endif
  if (!l->p->allow_fallback || !hlo_eval_supports(i, NULL)) return unsupported(i);
  s->kind = CPU_STEP_EVAL;
  l->p->fallbacks++;
  return HS_GOOD;
}

static hs_status lower_plain(lower *l, const hlo_instr *i, cpu_block *b, u32 *out, u32 nout) {
  cpu_step s = {.instr = i, .kernel_index = CPU_NONE, .scratch_slot = CPU_NONE, .pred = CPU_NONE};
  HS_TRY(choose_kernel(l, i, &s));
  s.pos = new_pos(l);
  s.nin = operand_leaves(l, i, 0, NULL);
  s.nvals = s.nin + nout;
  s.vals = HS_NEW_ARRAY(&l->p->arena, u32, s.nvals + 1);
  operand_leaves(l, i, 0, s.vals);
  for (u32 k = 0; k < s.nin; k++) use_value(l, s.vals[k], s.pos);
  for (u32 k = 0; k < nout; k++)
    out[k] = s.vals[s.nin + k] = new_value(l, CPU_TEMP, hlo_shape_leaf(i->shape, k), s.pos);
  hs_vec_push(&b->steps, s);
  return HS_GOOD;
}

// vals of a while: n initial values, n values inside (CPU_NONE where unchanged), n results.
static hs_status lower_while(lower *l, const hlo_instr *i, cpu_block *b, u32 *out, u32 n) {
  cpu_program *p = l->p;
  const hlo_computation *cond = hlo_attr_comp(i, HLO_ATTR_CONDITION),
                        *body = hlo_attr_comp(i, HLO_ATTR_BODY);
  u32 *vals = HS_NEW_ARRAY(&p->arena, u32, 3 * n + 1);
  operand_leaves(l, i, 0, vals);
  adapt_leaves(l, i, b, vals, hlo_operand(i, 0)->shape, i->shape);
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
    bool unchanged = traces_to_parameter(body->root, k, &from) && from == k;
    if (!unchanged) use_value(l, vals[k], start);
    l->loop = me;
    inside[k] = unchanged ? vals[k] : new_value(l, CPU_TEMP, hlo_shape_leaf(i->shape, k), start);
    l->loop = outer;
    vals[n + k] = unchanged ? CPU_NONE : inside[k];
  }
  l->loop = me;
  u32 *args[] = {copy_leaves(l, inside, n), copy_leaves(l, inside, n)};
  adapt_leaves(l, i, &blocks[0], args[0], i->shape, cond->params[0]->shape);
  HS_TRY(lower_computation(l, cond, args[0], &blocks[0]));
  u32 pred = l->leaves[cond->root->id][0];
  use_value(l, pred, new_pos(l));
  adapt_leaves(l, i, &blocks[1], args[1], i->shape, body->params[0]->shape);
  HS_TRY(lower_computation(l, body, args[1], &blocks[1]));
  const u32 *results = root_leaves(l, i, &blocks[1], body, i->shape);
  i32 end = new_pos(l);
  for (u32 k = 0; k < n; k++) {
    if (vals[n + k] == CPU_NONE) continue;
    u32 r = results[k];
    use_value(l, r, end);
    cpu_value *v = &p->values.v[r];
    if (v->kind == CPU_TEMP && v->target == CPU_NONE && v->loop == me && v->def != start)
      v->target = inside[k];
    cpu_move m = {.src = r, .dst = inside[k], .temp = CPU_NONE};
    hs_vec_push(&blocks[1].moves, m);
  }
  p->loops.v[me - 1].end = end;
  l->loop = outer;
  for (u32 k = 0; k < n; k++)
    out[k] = vals[2 * n + k] = vals[n + k] == CPU_NONE
                                   ? vals[k]
                                   : new_value(l, CPU_TEMP, hlo_shape_leaf(i->shape, k), end);
  b->steps.v[at].pred = pred;
  return HS_GOOD;
}

// vals of a conditional: the selector, then the results.
static hs_status lower_conditional(lower *l, const hlo_instr *i, cpu_block *b, u32 *out, u32 n) {
  cpu_program *p = l->p;
  size_t at = b->steps.n;
  cpu_step *s = new_step(l, b, i, CPU_STEP_COND);
  u32 nb = i->noperands - 1;
  hlo_computation **comps = HS_NEW_ARRAY(&p->arena, hlo_computation *, nb + 1);
  if (hlo_called(i, comps, nb) != nb)
    return hs_fail(HS_E_VERIFY, "%%%s: %u branches for %u operands", i->name,
                   hlo_called(i, comps, nb), nb);
  s->nin = 1;
  s->nvals = 1 + n;
  u32 *vals = s->vals = HS_NEW_ARRAY(&p->arena, u32, n + 2);
  cpu_block *blocks = s->blocks = HS_NEW_ARRAY(&p->arena, cpu_block, nb + 1);
  s->nblocks = nb;
  s->pred = vals[0] = l->leaves[hlo_operand(i, 0)->id][0];
  use_value(l, vals[0], s->pos);
  for (u32 k = 0; k < n; k++) {
    out[k] = vals[1 + k] = new_value(l, CPU_TEMP, hlo_shape_leaf(i->shape, k), s->pos);
    p->values.v[out[k]].fresh = true;
  }
  for (u32 k = 0; k < nb; k++) {
    const hlo_instr *arg = hlo_operand(i, k + 1);
    u32 *in = copy_leaves(l, l->leaves[arg->id], hlo_shape_leaves(arg->shape));
    adapt_leaves(l, i, &blocks[k], in, arg->shape, comps[k]->params[0]->shape);
    HS_TRY(lower_computation(l, comps[k], in, &blocks[k]));
    const u32 *results = root_leaves(l, i, &blocks[k], comps[k], i->shape);
    i32 end = new_pos(l);
    for (u32 j = 0; j < n; j++) {
      u32 r = results[j];
      use_value(l, r, end);
      cpu_value *v = &p->values.v[r];
      if (v->kind == CPU_TEMP && v->target == CPU_NONE && v->def > b->steps.v[at].pos)
        v->target = vals[1 + j];
      cpu_move m = {.src = r, .dst = vals[1 + j], .temp = CPU_NONE};
      hs_vec_push(&blocks[k].moves, m);
    }
  }
  return HS_GOOD;
}

static hs_status lower_instr(lower *l, const hlo_instr *i, const u32 *args, cpu_block *b) {
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
    constant_leaves(l, i->shape, lit, &out);
    return HS_GOOD;
  }
  if (i->opcode == HLO_AFTER_ALL) {
    out[0] = new_value(l, CPU_TEMP, i->shape, l->p->npos);
    return HS_GOOD;
  }
  if (cpu_instr_is_alias(i)) {
    alias_leaves(l, i, b, out, n);
    return HS_GOOD;
  }
  if (i->opcode == HLO_WHILE) return lower_while(l, i, b, out, n);
  if (i->opcode == HLO_CONDITIONAL) return lower_conditional(l, i, b, out, n);
  if (i->opcode == HLO_CALL) {
    u32 *in = HS_NEW_ARRAY(&l->p->arena, u32, operand_leaves(l, i, 0, NULL) + 1);
    operand_leaves(l, i, 0, in);
    const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
    for (u32 k = 0, at = 0; k < i->noperands; at += hlo_shape_leaves(hlo_operand(i, k)->shape), k++)
      adapt_leaves(l, i, b, in + at, hlo_operand(i, k)->shape, c->params[k]->shape);
    HS_TRY(lower_computation(l, c, in, b));
    memcpy(out, root_leaves(l, i, b, c, i->shape), n * sizeof *out);
    return HS_GOOD;
  }
  return lower_plain(l, i, b, out, n);
}

static hs_status lower_computation(lower *l, const hlo_computation *c, const u32 *args,
                                   cpu_block *b) {
  hlo_for_each_instr(i, c) {
    if (i->nuses == 0 && !hlo_is_root(i) && hlo_is_removable(i)) continue;
    HS_TRY(lower_instr(l, i, args, b));
  }
  return HS_GOOD;
}

// ---- live ranges, kernels, entry ----------------------------------------------------------------

static bool loop_contains(const cpu_program *p, u32 outer, u32 inner) {
  for (; inner; inner = p->loops.v[inner - 1].parent)
    if (inner == outer) return true;
  return outer == 0;
}

// Live ranges: a use inside of a loop that the definition is outside of extends to the loop's end.
static void extend_uses(lower *l) {
  cpu_program *p = l->p;
  for (size_t k = 0; k < l->uses.n; k++) {
    use u = l->uses.v[k];
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
static void make_arguments(lower *l, const hlo_computation *c) {
  cpu_program *p = l->p;
  for (u32 k = 0; k < c->nparams; k++) p->nargs += hlo_shape_leaves(c->params[k]->shape);
  p->arg_value = HS_NEW_ARRAY(&p->arena, u32, p->nargs + 1);
  p->arg_offset = HS_NEW_ARRAY(&p->arena, size_t, p->nargs + 1);
  p->arg_donated = HS_NEW_ARRAY(&p->arena, bool, p->nargs + 1);
  p->arg_shape = HS_NEW_ARRAY(&p->arena, const hlo_shape *, p->nargs + 1);
  u32 at = 0;
  for (u32 k = 0; k < c->nparams; k++)
    for (u32 j = 0, n = hlo_shape_leaves(c->params[k]->shape); j < n; j++, at++) {
      p->arg_shape[at] = hlo_shape_leaf(c->params[k]->shape, j);
      p->arg_value[at] = new_value(l, CPU_ARG, p->arg_shape[at], -1);
      p->values.v[p->arg_value[at]].index = at;
    }
}

static u32 leaf_at(const hlo_shape *s, hlo_ints index) {
  u32 at = 0;
  for (u32 k = 0; k < index.n; k++) {
    if (!hlo_shape_is_tuple(s) || index.v[k] < 0 || index.v[k] >= s->nelems) return CPU_NONE;
    at += leaf_offset(s, index.v[k]);
    s = s->elems[index.v[k]];
  }
  return hlo_shape_is_tuple(s) ? CPU_NONE : at;
}

static void apply_aliases(lower *l, const hlo_module *m) {
  cpu_program *p = l->p;
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *al = a ? a->v.p : NULL;
  for (u32 k = 0; al && k < al->n && !p->per_instruction; k++) {
    const hlo_alias_entry *e = &al->v[k];
    if (e->param < 0 || e->param >= m->entry->nparams) continue;
    u32 o = leaf_at(m->entry->root->shape, e->out_index),
        in = leaf_at(m->entry->params[e->param]->shape, e->param_index);
    if (o == CPU_NONE || in == CPU_NONE) continue;
    for (i64 j = 0; j < e->param; j++) in += hlo_shape_leaves(m->entry->params[j]->shape);
    cpu_value *v = &p->values.v[p->out_value[o]];
    p->arg_donated[in] = true;
    if (v->kind == CPU_TEMP && v->bytes == p->values.v[p->arg_value[in]].bytes)
      v->target = p->arg_value[in];
  }
}

// Every result leaf gets a value that aliases nothing: no argument, no constant, no other result.
static void make_results(lower *l, const hlo_module *m) {
  cpu_program *p = l->p;
  const hlo_instr *root = m->entry->root;
  p->nouts = hlo_shape_leaves(root->shape);
  p->out_value = HS_NEW_ARRAY(&p->arena, u32, p->nouts + 1);
  p->out_shape = HS_NEW_ARRAY(&p->arena, const hlo_shape *, p->nouts + 1);
  i32 end = new_pos(l);
  u8 *taken = hs_calloc(p->values.n + 1, 1);
  u32 nvalues = (u32)p->values.n;
  for (u32 k = 0; k < p->nouts; k++) {
    u32 v = l->leaves[root->id][k];
    p->out_shape[k] = hlo_shape_leaf(root->shape, k);
    use_value(l, v, end);
    if (p->values.v[v].kind != CPU_TEMP || (v < nvalues && taken[v])) {
      cpu_move mv = {
          .src = v, .dst = new_value(l, CPU_TEMP, p->out_shape[k], end), .temp = CPU_NONE};
      hs_vec_push(&p->entry.moves, mv);
      v = mv.dst;
    } else taken[v] = 1;
    p->out_value[k] = v;
  }
  hs_free(taken);
  apply_aliases(l, m);
}

static hs_status lower_module(lower *l, const hlo_module *m) {
  cpu_program *p = l->p;
  make_arguments(l, m->entry);
  HS_TRY(lower_computation(l, m->entry, p->arg_value, &p->entry));
  make_results(l, m);
  extend_uses(l);
  collect_kernels(p, &p->entry);
  return HS_GOOD;
}

hs_status cpu_lower(const hlo_module *m, bool per_instruction, bool allow_fallback, u32 threads,
                    cpu_program **out) {
  *out = NULL;
  cpu_program *p = hs_calloc(1, sizeof *p);
  p->m = m;
  p->per_instruction = per_instruction;
  p->allow_fallback = allow_fallback;
  lower l = {.p = p, .leaves = hs_calloc(m->next_instr_id + 1, sizeof *l.leaves)};
  hs_status s = HS_GOOD;
#if HAVE_LLVM
  s = emit_unit_new(NULL, &p->unit);
#endif
  if (hs_ok(s)) s = lower_module(&l, m);
#if HAVE_LLVM
  double ms;
  if (hs_ok(s)) s = emit_finish(p->unit, threads, &ms);
#else
  (void)threads;
#endif
  hs_vec_free(&l.uses);
  hs_free(l.leaves);
  if (hs_ok(s)) s = cpu_assign(p);
  if (hs_ok(s)) s = cpu_exec_prepare(p);
  if (!hs_ok(s)) {
    cpu_program_free(p);
    return s;
  }
  *out = p;
  return HS_GOOD;
}

static void free_block(cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++) {
    for (u32 j = 0; j < b->steps.v[k].nblocks; j++) free_block(&b->steps.v[k].blocks[j]);
    cpu_rt_free(&b->steps.v[k].rt);
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
  for (int k = 0; k < 3; k++)
    if (p->area[k]) munmap(p->area[k], p->area_bytes[k]);
  hs_vec_free(&p->values);
  hs_vec_free(&p->slots);
  hs_vec_free(&p->loops);
  hs_vec_free(&p->kernels);
  hs_arena_free(&p->arena);
  hs_free(p);
}

// ---- the schedule as text -----------------------------------------------------------------------

static void dump_block(const cpu_program *p, const cpu_block *b, hs_buf *out, int indent) {
  for (size_t k = 0; k < b->steps.n; k++) {
    const cpu_step *s = &b->steps.v[k];
    static const char *const kinds[] = {"emitted", "runtime", "evaluator", "while", "conditional"};
    hs_buf_printf(out, "%5d %*s%%%s: %s", s->pos, indent, "", s->instr->name, kinds[s->kind]);
    if (s->kind == CPU_STEP_EMIT)
      hs_buf_printf(out, " %s, %lld chunks", emit_kind_name(s->kernel->kind),
                    (long long)s->kernel->chunks);
    if (s->kind == CPU_STEP_RT) hs_buf_printf(out, " %s", s->rt.kind);
    hs_buf_puts(out, ";");
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
