// prog.c — scalar computations as flat lists of block kernels.
//
// The reducer of a reduce, the comparator of a sort, the body of a map are computations on scalars.
// They are compiled once into a list of elementwise kernels over slots of EV_BLOCK elements, called
// computations inlined, and then run on many elements at once. A computation that is more than
// arithmetic (a loop inside, say) is run element by element through the ordinary evaluator instead;
// the users of ev_apply do not see the difference.
#include "core/eval/ops.h"

typedef struct prog_step {
  ew k;
  u32 in[3], out;
} prog_step;

struct ev_prog {
  bool failed;  // compiled before and found too complicated
  u32 nsteps, cap, nslots, slot_cap;
  u32 ninlined;  // computations inlined so far, one that is called twice counting twice
  prog_step *steps;
  char **slots;   // parameters have NULL: their data are given to each run
  u32 *param_of;  // slot -> parameter + 1
  hlo_dtype *types;
  u32 results[64];  // slots of the results
};

// Depth of nested calls; steps; computations inlined. The last bounds the work as well: calls that
// share callees have exponentially many paths.
enum { MAX_DEPTH = 32, MAX_STEPS = 4096, MAX_INLINED = 4096 };
typedef struct binding {
  u32 n;
  const u32 *slot;
} binding;  // a value: one slot per leaf

static void *grown(hs_arena *a, const void *old, u32 n, u32 cap, size_t size) {
  void *p = hs_arena_zalloc(a, cap * size);
  if (n) memcpy(p, old, n * size);
  return p;
}

static u32 new_slot(ev *e, ev_prog *p, hlo_dtype t, bool own) {
  if (p->nslots == p->slot_cap) {
    u32 cap = p->slot_cap ? 2 * p->slot_cap : 16;
    p->slots = grown(&e->arena, p->slots, p->nslots, cap, sizeof *p->slots);
    p->param_of = grown(&e->arena, p->param_of, p->nslots, cap, sizeof *p->param_of);
    p->types = grown(&e->arena, p->types, p->nslots, cap, sizeof *p->types);
    p->slot_cap = cap;
  }
  p->types[p->nslots] = t;
  if (own) p->slots[p->nslots] = hs_arena_zalloc(&e->arena, EV_BLOCK * hlo_dtype_storage(t));
  return p->nslots++;
}

static void add_step(ev *e, ev_prog *p, const prog_step *s) {
  if (p->nsteps == p->cap) {
    u32 cap = p->cap ? 2 * p->cap : 16;
    p->steps = grown(&e->arena, p->steps, p->nsteps, cap, sizeof *p->steps);
    p->cap = cap;
  }
  p->steps[p->nsteps++] = *s;
}

static bool is_scalar(const hlo_shape *s) { return hlo_shape_is_array(s) && s->elements == 1; }

static bool inline_computation(ev *e, ev_prog *p, const hlo_computation *c, u32 n,
                               const binding *args, u32 depth, binding *result);

static const u32 *slots_dup(ev *e, u32 n, const u32 *v) {
  return hs_arena_dup(&e->arena, v, (n ? n : 1) * sizeof *v);
}

// ---- precision ----------------------------------------------------------------------------------
// The slot with its value in this type; as eval.c has it, floats may be of another precision than
// their use. False: another type.
static bool in_type(ev *e, ev_prog *p, hlo_dtype want, u32 *slot) {
  hlo_dtype has = p->types[*slot];
  prog_step s = {.in = {*slot}};
  if (has == want) return true;
  if (!hlo_dtype_is_float(has) || !hlo_dtype_is_float(want) ||
      !ew_compile_types(HLO_CONVERT, NULL, 1, &has, want, &s.k))
    return false;
  s.out = *slot = new_slot(e, p, want, true);
  add_step(e, p, &s);
  return true;
}

// The value with its leaves in the types of the shape.
static bool in_types(ev *e, ev_prog *p, const hlo_shape *shape, binding *b) {
  bool same = b->n == hlo_shape_leaves(shape);
  for (u32 k = 0; same && k < b->n; k++)
    same = p->types[b->slot[k]] == hlo_shape_leaf(shape, k)->dtype;
  if (same) return true;
  if (b->n != hlo_shape_leaves(shape)) return false;
  u32 *slots = hs_arena_dup(&e->arena, b->slot, (b->n ? b->n : 1) * sizeof *slots);
  for (u32 k = 0; k < b->n; k++)
    if (!in_type(e, p, hlo_shape_leaf(shape, k)->dtype, &slots[k])) return false;
  b->slot = slots;
  return true;
}

// The slots of an elementwise operation's operands, in the types that it computes in.
static bool unify(ev *e, ev_prog *p, const hlo_instr *i, u32 *slots, hlo_dtype *types) {
  bool by_first = i->opcode == HLO_COMPARE || i->opcode == HLO_IS_FINITE,
       as_is = i->opcode == HLO_CONVERT || i->opcode == HLO_STOCHASTIC_CONVERT;
  for (u32 j = 0; j < i->noperands; j++) {
    hlo_dtype want = by_first ? p->types[slots[0]] : i->shape->dtype;
    if (!as_is && hlo_dtype_is_float(p->types[slots[j]]) && hlo_dtype_is_float(want) &&
        !in_type(e, p, want, &slots[j]))
      return false;
    types[j] = p->types[slots[j]];
  }
  return true;
}

// ---- compiling ----------------------------------------------------------------------------------
// The same bits under another type.
static binding retyped(ev *e, ev_prog *p, u32 slot, hlo_dtype t) {
  u32 s = new_slot(e, p, t, false);
  p->slots[s] = p->slots[slot];
  p->param_of[s] = p->param_of[slot];
  return (binding){1, slots_dup(e, 1, &s)};
}

static bool compile_instr(ev *e, ev_prog *p, const hlo_instr *i, const binding *in, u32 depth,
                          binding *out) {
  u32 n = i->noperands;
  if (p->nsteps > MAX_STEPS) return false;
  switch (i->opcode) {
  case HLO_CONSTANT: {
    const hlo_literal *l = hlo_constant_value(i);
    if (!l || l->elided || !is_scalar(i->shape)) return false;
    u32 s = new_slot(e, p, i->shape->dtype, true);
    ev_fill(hlo_dtype_storage(i->shape->dtype), p->slots[s], l->data, EV_BLOCK);
    *out = (binding){1, slots_dup(e, 1, &s)};
    return true;
  }
  case HLO_TUPLE: {
    u32 all[64], k = 0;
    for (u32 j = 0; j < n; j++)
      for (u32 q = 0; q < in[j].n; q++) {
        if (k == 64) return false;
        all[k++] = in[j].slot[q];
      }
    *out = (binding){k, slots_dup(e, k, all)};
    return true;
  }
  case HLO_GET_TUPLE_ELEMENT: {
    i64 index = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
    // flat tuples only
    if (index < 0 || (u64)index >= in[0].n || !is_scalar(i->shape)) return false;
    *out = (binding){1, &in[0].slot[index]};
    return true;
  }
  case HLO_CALL:
  case HLO_FUSION:
  case HLO_MAP: {
    const hlo_computation *c = hlo_fusion_comp(i);
    return c && inline_computation(e, p, c, n, in, depth + 1, out) && in_types(e, p, i->shape, out);
  }
  case HLO_COPY:
  case HLO_RESHAPE:
  case HLO_BITCAST:
  case HLO_BROADCAST:
  case HLO_TRANSPOSE:
  case HLO_OPT_BARRIER:
    if (!is_scalar(i->shape) || !is_scalar(hlo_operand(i, 0)->shape) ||
        hlo_operand(i, 0)->shape->dtype != i->shape->dtype)
      return false;
    *out = in[0];
    return true;
  default: break;
  }
  prog_step s = {0};
  hlo_dtype types[HS_COUNT(s.in)];
  if (!is_scalar(i->shape) || n > HS_COUNT(s.in)) return false;
  for (u32 j = 0; j < n; j++) {
    if (!in[j].n) return false;
    s.in[j] = in[j].slot[0];
  }
  if (i->opcode == HLO_BITCAST_CONVERT || !unify(e, p, i, s.in, types) ||
      !ew_compile_types(i->opcode, i, n, types, i->shape->dtype, &s.k)) {
    if (i->opcode != HLO_BITCAST_CONVERT || n != 1) return false;
    hlo_dtype f = p->types[s.in[0]], t = i->shape->dtype;
    if (hlo_dtype_bits(f) != hlo_dtype_bits(t) || hlo_dtype_bits(f) < 8) return false;
    *out = retyped(e, p, s.in[0], t);
    return true;
  }
  s.out = new_slot(e, p, i->shape->dtype, true);
  add_step(e, p, &s);
  *out = (binding){1, slots_dup(e, 1, &s.out)};
  return true;
}

// Compiles what `value` needs. Parameters are bound to args.
static bool compile_value(ev *e, ev_prog *p, const hlo_computation *c, const hlo_instr *value,
                          u32 n, const binding *args, u32 depth, binding *result) {
  binding *bound = hs_calloc(c->ninstrs + 1, sizeof *bound);
  bool *need = hs_calloc(c->ninstrs + 1, sizeof *need), ok = true;
  hs_arena scratch = {0};
  hlo_instr **order = hlo_post_order(c, &scratch);  // lists need not put operands first
  hlo_positions place = hlo_positions_in(c->ninstrs, order, &scratch);
  need[hlo_position_of(&place, value)] = true;
  for (u32 k = c->ninstrs; k-- > 0;)
    if (need[k])
      for (u32 j = 0; j < order[k]->noperands; j++)
        need[hlo_position_of(&place, hlo_operand(order[k], j))] = true;
  for (u32 at = 0; at < c->ninstrs; at++) {
    hlo_instr *i = order[at];
    if (!need[at]) continue;
    if (i->opcode == HLO_PARAMETER) {
      i64 number = hlo_param_number(i);
      if (number < 0 || number >= (i64)n || args[number].n == 0) {
        ok = false;
        break;
      }
      bound[at] = args[number];
      if (!in_types(e, p, i->shape, &bound[at])) {
        ok = false;
        break;
      }
      continue;
    }
    binding in[8];
    binding *ops = i->noperands <= 8 ? in : HS_NEW_ARRAY(&e->arena, binding, i->noperands);
    for (u32 j = 0; j < i->noperands; j++)
      ops[j] = bound[hlo_position_of(&place, hlo_operand(i, j))];
    if (!compile_instr(e, p, i, ops, depth, &bound[at])) {
      ok = false;
      break;
    }
    if (i == value) break;
  }
  *result = bound[hlo_position_of(&place, value)];
  hs_free(bound);
  hs_free(need);
  hs_arena_free(&scratch);
  return ok && result->n > 0;
}

static bool inline_computation(ev *e, ev_prog *p, const hlo_computation *c, u32 n,
                               const binding *args, u32 depth, binding *result) {
  return depth <= MAX_DEPTH && p->ninlined++ < MAX_INLINED && n == c->nparams &&
         compile_value(e, p, c, c->root, n, args, depth, result);
}

static ev_prog *compile(ev *e, const hlo_computation *c, const hlo_instr *value) {
  ev_prog *p = HS_NEW(&e->arena, ev_prog);
  binding *args = HS_NEW_ARRAY(&e->arena, binding, c->nparams), result = {0, NULL};
  for (u32 k = 0; k < c->nparams; k++) {
    if (!is_scalar(c->params[k]->shape)) {
      p->failed = true;
      return p;
    }
    u32 s = new_slot(e, p, c->params[k]->shape->dtype, false);
    p->param_of[s] = k + 1;
    args[k] = (binding){1, slots_dup(e, 1, &s)};
  }
  if (!compile_value(e, p, c, value, c->nparams, args, 0, &result) ||
      !in_types(e, p, value->shape, &result) || result.n > HS_COUNT(p->results)) {
    p->failed = true;
    return p;
  }
  memcpy(p->results, result.slot, result.n * sizeof *result.slot);
  return p;
}

hs_status ev_apply_init(ev *e, const hlo_computation *c, ev_apply *a) {
  *a = (ev_apply){.e = e, .comp = c, .nin = c->nparams};
  if (c->nparams > HS_COUNT(a->in))
    return hs_fail(HS_E_LIMIT, "%s has more than %zu parameters", c->name, HS_COUNT(a->in));
  for (u32 k = 0; k < c->nparams; k++) {
    if (!is_scalar(c->params[k]->shape))
      return hs_fail_subject(
          HS_E_UNSUPPORTED, "call",
          "unsupported: applying %s to elements, since its parameters are no scalars", c->name);
    a->in[k] = c->params[k]->shape->dtype;
  }
  const hlo_shape *r = c->root->shape;
  a->nout = hlo_shape_is_tuple(r) ? r->nelems : 1;
  if (a->nout > HS_COUNT(a->out))
    return hs_fail(HS_E_LIMIT, "%s has more than %zu results", c->name, HS_COUNT(a->out));
  for (u32 k = 0; k < a->nout; k++)
    a->out[k] = hlo_shape_is_tuple(r) ? r->elems[k]->dtype : r->dtype;
  ev_prog **cached = ev_plan_prog(ev_plan_of(e, c));
  if (!*cached) *cached = compile(e, c, c->root);
  a->prog = (*cached)->failed ? NULL : *cached;
  return HS_GOOD;
}

static const void *slot_data(const ev_prog *p, u32 s, const void *const *in) {
  return p->param_of[s] ? in[p->param_of[s] - 1] : p->slots[s];
}

// One element at a time through the evaluator.
static hs_status run_slowly(const ev_apply *a, void *const *out, const void *const *in, i64 n) {
  for (i64 i = 0; i < n; i++) {
    hlo_literal *args[HS_COUNT(a->in)], *r = NULL;
    for (u32 k = 0; k < a->nin; k++) {
      size_t w = hlo_dtype_storage(a->in[k]);
      hs_status st = hlo_literal_new(a->comp->params[k]->shape, &args[k]);
      if (!hs_ok(st)) {
        while (k-- > 0) hlo_literal_unref(args[k]);
        return st;
      }
      memcpy(args[k]->data, (const char *)in[k] + (size_t)i * w, w);
    }
    HS_TRY(ev_call(a->e, a->comp, a->nin, args, &r));
    for (u32 k = 0; k < a->nout; k++) {
      size_t w = hlo_dtype_storage(a->out[k]);
      memcpy((char *)out[k] + (size_t)i * w, (r->nchildren ? r->children[k] : r)->data, w);
    }
    hlo_literal_unref(r);
  }
  return HS_GOOD;
}

hs_status ev_apply_run(const ev_apply *a, void *const *out, const void *const *in, i64 n) {
  const ev_prog *p = a->prog;
  if (!p) return run_slowly(a, out, in, n);
  for (u32 k = 0; k < p->nsteps; k++) {
    const prog_step *s = &p->steps[k];
    const void *src[3];
    for (u32 j = 0; j < s->k.nin; j++) src[j] = slot_data(p, s->in[j], in);
    ew_run(&s->k, p->slots[s->out], src, n);
  }
  // A result may be another's parameter: with more than one result, parameters are saved before
  // they are overwritten.
  for (u32 r = 0; r < a->nout; r++) {
    u32 s = p->results[r];
    size_t bytes = (size_t)n * hlo_dtype_storage(a->out[r]);
    if (a->nout > 1 && p->param_of[s]) {
      if (!p->slots[s]) p->slots[s] = hs_arena_alloc(&a->e->arena, EV_BLOCK * 16);
      memcpy(p->slots[s], in[p->param_of[s] - 1], bytes);
    }
  }
  for (u32 r = 0; r < a->nout; r++) {
    u32 s = p->results[r];
    const void *src = a->nout > 1 || !p->param_of[s] ? p->slots[s] : in[p->param_of[s] - 1];
    if (out[r] != src) memmove(out[r], src, (size_t)n * hlo_dtype_storage(a->out[r]));
  }
  return HS_GOOD;
}

// ---- recognised shapes --------------------------------------------------------------------------
static const hlo_instr *through_copies(const hlo_instr *i) {
  while (i->opcode == HLO_COPY || i->opcode == HLO_BITCAST || i->opcode == HLO_RESHAPE)
    i = hlo_operand(i, 0);
  return i;
}

hlo_opcode ev_reducer(const hlo_computation *c) {
  const hlo_instr *r;
  // what only calls another computation with its parameters in order is that one
  for (u32 depth = 0;; depth++) {
    if (c->nparams != 2) return HLO_OP_INVALID;
    r = through_copies(c->root);
    if (r->opcode != HLO_CALL || r->noperands != 2) break;
    const hlo_computation *callee = hlo_fusion_comp(r);
    if (through_copies(hlo_operand(r, 0)) != c->params[0] ||
        through_copies(hlo_operand(r, 1)) != c->params[1] || !callee || depth > MAX_DEPTH)
      return HLO_OP_INVALID;
    c = callee;
  }
  if (r->noperands != 2) return HLO_OP_INVALID;
  const hlo_instr *a = through_copies(hlo_operand(r, 0)), *b = through_copies(hlo_operand(r, 1));
  if (a->shape->dtype != r->shape->dtype || b->shape->dtype != r->shape->dtype)
    return HLO_OP_INVALID;
  bool straight = a == c->params[0] && b == c->params[1],
       swapped = a == c->params[1] && b == c->params[0];
  bool known = (straight || swapped) && hlo_op_has(r->opcode, HLO_F_MONOID);
  return known ? r->opcode : HLO_OP_INVALID;
}

bool ev_same_expression(const hlo_instr *a, const hlo_instr *b, const hlo_instr *pa,
                        const hlo_instr *pb, u32 *budget) {
  if (pa && (a == pa || b == pb)) return a == pa && b == pb;
  if (a == b && a->noperands == 0) return a->opcode == HLO_CONSTANT;
  if (*budget == 0) return false;
  --*budget;
  if (a->opcode != b->opcode || a->noperands != b->noperands ||
      a->shape->logical != b->shape->logical)
    return false;
  if (a->opcode == HLO_CONSTANT) {
    const hlo_literal *x = hlo_constant_value(a), *y = hlo_constant_value(b);
    return x && y && hlo_literal_equal(x, y);
  }
  if (!hlo_attrs_equal(a->attrs, b->attrs, hlo_attr_is_annotation)) return false;
  for (u32 k = 0; k < a->noperands; k++)
    if (!ev_same_expression(hlo_operand(a, k), hlo_operand(b, k), pa, pb, budget)) return false;
  return true;
}

bool ev_prog_key(ev *e, const hlo_computation *c, const hlo_instr *value, i64 param, ev_apply *a) {
  if (!is_scalar(value->shape) || c->nparams > HS_COUNT(a->in)) return false;
  *a = (ev_apply){.e = e, .comp = c, .nin = c->nparams, .nout = 1, .out = {value->shape->dtype}};
  ev_prog *p = a->prog = compile(e, c, value);
  if (p->failed) return false;
  for (u32 k = 0; k < p->nsteps; k++)  // no other parameter takes part
    for (u32 j = 0; j < p->steps[k].k.nin; j++) {
      u32 of = p->param_of[p->steps[k].in[j]];
      if (of && of != (u32)param + 1) return false;
    }
  return p->param_of[p->results[0]] == 0 || p->param_of[p->results[0]] == (u32)param + 1;
}

hs_status hlo_eval_map(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  ev_apply a;
  if (!c || c->nparams != i->noperands)
    return ev_unsupported(i, "with another number of operands than its computation has parameters");
  HS_TRY(ev_apply_init(e, c, &a));
  if (a.nout != 1) return ev_unsupported(i, "with several results");
  ev_used used;
  HS_TRY(ev_join_sizes(e, i, i->noperands, ops, &used));
  HS_TRY(ev_new(e, i->shape, out));
  ev_use(*out, &used);
  i64 n = i->shape->elements;
  // floats of other precision than the computation's go through one
  typedef struct block {
    _Alignas(16) u8 bytes[EV_BLOCK * 16];
  } block;
  block *own = NULL;
  bool mixed = a.out[0] != i->shape->dtype;
  for (u32 j = 0; j < i->noperands; j++) mixed |= ops[j]->shape->dtype != a.in[j];
  if (mixed) own = hs_calloc(i->noperands + 1u, sizeof *own);
  hs_status s = HS_GOOD;
  for (i64 k = 0; hs_ok(s) && k < n; k += EV_BLOCK) {
    const void *in[HS_COUNT(a.in)];
    i64 m = HS_MIN((i64)EV_BLOCK, n - k);
    for (u32 j = 0; j < i->noperands; j++) {
      hlo_dtype t = ops[j]->shape->dtype;
      in[j] = (const char *)ops[j]->data + (size_t)k * hlo_dtype_storage(t);
      if (t != a.in[j]) ev_convert(t, in[j], a.in[j], own[j].bytes, m), in[j] = own[j].bytes;
    }
    void *to = (char *)(*out)->data + (size_t)k * hlo_dtype_storage(i->shape->dtype),
         *r = a.out[0] == i->shape->dtype ? to : own[i->noperands].bytes;
    s = ev_apply_run(&a, &r, in, m);
    if (r != to) ev_convert(a.out[0], r, i->shape->dtype, to, m);
    if (hs_ok(s)) s = hs_poll();
  }
  hs_free(own);
  return s;
}
