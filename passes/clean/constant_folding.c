// constant_folding.c — evaluates what depends on constants only
// (xla/hlo/transforms/simplifiers/hlo_constant_folding.cc).
//
// The evaluator computes instructions whose operands are all constant. Broadcast and iota are not
// folded: they are compact forms of large constants. They may be operands as long as another
// operand is a constant instruction. Calls and conditionals are folded when everything in the
// called computations can be. Folding is bounded in elements (45M) and in operations, so that it
// does not cost more than the program itself; exceeding a bound is noted. Sizes of static
// dimensions are constants, too, and so is a parameter for which all calls pass the same constant.
// Options: level=aggressive folds counted loops and lifts the bounds; fold_float_arithmetic=false,
// for late in compilation, folds fusions as well (a tuple through its elements), but no
// floating-point arithmetic; scalars_only.
#include "core/eval/eval.h"
#include "passes/run/rewrite.h"

#define MAX_ELEMENTS (45 * 1000 * 1000)
#define MAX_WORK 2e7
#define MAX_TRIPS 1000000
#define MAX_CALLS 100

// A constant, a compact form of one, or a tuple of these. These three go through tuples, which are
// nested HLO_MAX_TUPLE_DEPTH deep at most; those of nothing, which leaves do not bound, are none.
static bool constant_like(const hlo_instr *i) {
  if (i->opcode == HLO_TUPLE) {
    if (i->shape->leaves == 0) return i->noperands == 0;
    for (u32 k = 0; k < i->noperands; k++)
      if (!constant_like(hlo_operand(i, k))) return false;
    return true;
  }
  return i->opcode == HLO_CONSTANT || i->opcode == HLO_IOTA ||
         (i->opcode == HLO_BROADCAST && hlo_operand(i, 0)->opcode == HLO_CONSTANT);
}

static bool has_constant(const hlo_instr *i) {
  if (i->opcode != HLO_TUPLE) return i->opcode == HLO_CONSTANT;
  for (u32 k = 0; k < i->noperands; k++)
    if (has_constant(hlo_operand(i, k))) return true;
  return false;
}

static bool is_elided(const hlo_instr *i) {
  if (i->opcode == HLO_CONSTANT) return hlo_literal_has_elided(hlo_constant_value(i));
  for (u32 k = 0; k < i->noperands; k++)
    if (is_elided(hlo_operand(i, k))) return true;
  return false;
}

// aggressive: loops and results of any size. depth: by computation id, of the calls in it, itself
// included; 0: it is not foldable, or deeper than MAX_CALLS, where the evaluator, which recurses,
// is not let go. NULL until it is asked for the first time.
typedef struct folding {
  pass_ctx *c;
  bool late, scalars_only, aggressive;
  u8 *depth;
  u32 ndepths;
} folding;

static bool computes_float(const hlo_instr *i) {
  if (i->opcode == HLO_FUSION) return false;  // what is in it may
  bool reads = hlo_dtype_is_float(i->shape->dtype) || hlo_dtype_is_complex(i->shape->dtype);
  for (u32 k = 0; k < i->noperands; k++)
    reads |= hlo_dtype_is_float(hlo_operand(i, k)->shape->dtype) ||
             hlo_dtype_is_complex(hlo_operand(i, k)->shape->dtype);
  return reads && !hlo_op_has(i->opcode, HLO_F_MOVEMENT) && i->opcode != HLO_PARAMETER &&
         i->opcode != HLO_CONSTANT && i->opcode != HLO_TUPLE && i->opcode != HLO_SELECT &&
         i->opcode != HLO_BITCAST_CONVERT;
}

// Whether the result can be replaced by constants: an array, or a tuple of arrays that is used
// through get-tuple-element only.
static bool is_replaceable(const hlo_instr *i) {
  if (hlo_shape_is_array(i->shape)) return true;
  if (hlo_is_root(i) || !i->nuses) return false;
  for (u32 k = 0; k < i->shape->nelems; k++)
    if (!hlo_shape_is_array(i->shape->elems[k])) return false;
  hlo_for_each_use(u, i)
    if (u->user->opcode != HLO_GET_TUPLE_ELEMENT || hlo_is_controlled(u->user)) return false;
  return true;
}

// Whether calls inside the computation are nested at most `most` deep.
static bool is_shallow(const hlo_computation *x, u32 most) {
  hlo_for_each_instr(i, x)
    for (u32 k = 0; hlo_op_has(i->opcode, HLO_F_CALLS) && k < hlo_ncalled(i); k++)
      if (!most || !is_shallow(hlo_called(i, k), most - 1)) return false;
  return true;
}

static bool late_fusion(const hlo_instr *i, const folding *f) {
  enum { NESTED_MOST = 4 };
  if (!f->late || i->opcode != HLO_FUSION || !i->noperands || hlo_is_controlled(i) ||
      hlo_has_side_effect(i) || !is_replaceable(i))
    return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k)->opcode != HLO_CONSTANT) return false;
  return is_shallow(hlo_fusion_comp(i), NESTED_MOST);
}

static bool allowed(const hlo_instr *i, const folding *f) {
  if (f->late &&
      (computes_float(i) || (i->opcode == HLO_FUSION &&
                             pass_comp_any(hlo_fusion_comp(i), computes_float, f->c->scratch))))
    return false;
  for (u32 k = 0; f->scalars_only && k < HS_MAX(i->shape->nelems, 1u); k++)
    if ((hlo_shape_is_tuple(i->shape) ? i->shape->elems[k] : i->shape)->rank) return false;
  return true;
}

// How deep the calls of an instruction are that the evaluator may compute, as the folded one or in
// a computation; -1: it may not. The depth of what it calls is known.
static i32 calls_deep(const hlo_instr *i, const folding *f) {
  switch (i->opcode) {
  case HLO_BROADCAST:
  case HLO_IOTA:
  case HLO_FFT:
  case HLO_AFTER_ALL:
  case HLO_CUSTOM_CALL:
  case HLO_RNG:
  case HLO_OPT_BARRIER:
  case HLO_ADD_DEPENDENCY:
  case HLO_DOMAIN: return -1;
  case HLO_WHILE: {
    i64 trips = f->aggressive ? hlo_trip_count_pattern(i, NULL, NULL, NULL) : -1;
    if (trips < 0 || trips > MAX_TRIPS) return -1;
    break;
  }
  default: break;
  }
  // a size that a static type does not show would be lost
  if (i->opcode == HLO_SET_DIMENSION_SIZE || hlo_shape_is_dynamic(i->shape) ||
      hlo_op_has(i->opcode, HLO_F_ASYNC | HLO_F_COLLECTIVE) || hlo_is_controlled(i))
    return -1;
  // a compact form of a large constant
  if (i->opcode == HLO_PAD && hlo_operand(i, 0)->opcode == HLO_BROADCAST) return -1;
  if (!hlo_op_has(i->opcode, HLO_F_CALLS)) return hlo_has_side_effect(i) ? -1 : 0;
  i32 deep = 0;
  for (u32 k = 0; k < hlo_ncalled(i); k++) {
    u32 id = hlo_called(i, k)->id;
    if (id >= f->ndepths || !f->depth[id]) return -1;
    deep = HS_MAX(deep, f->depth[id]);
  }
  return deep;
}

static bool foldable(const hlo_instr *i, folding *f) {
  if (!f->depth && hlo_op_has(i->opcode, HLO_F_CALLS)) {
    u32 n;
    hlo_computation **order = pass_comp_callees_first(f->c, &n);
    f->ndepths = f->c->m->next_comp_id;
    f->depth = HS_NEW_ARRAY(f->c->scratch, u8, f->ndepths + 1);
    for (u32 k = 0; k < n; k++) {
      i32 deep = 0;
      hlo_for_each_instr(x, order[k]) {
        i32 d = deep < 0 ? -1 : calls_deep(x, f);
        deep = d < 0 ? -1 : HS_MAX(deep, d);
      }
      if (deep >= 0 && deep < MAX_CALLS) f->depth[order[k]->id] = (u8)(deep + 1);
    }
  }
  return calls_deep(i, f) >= 0;
}

// Whether a constant can hold it.
static bool holds_arrays(const hlo_shape *s) {
  for (u32 k = 0; k < hlo_shape_leaves(s); k++)
    if (!hlo_shape_is_array(hlo_shape_leaf(s, k))) return false;
  return s->leaves > 0;
}

static bool candidate(const hlo_instr *i, folding *f) {
  if (i->opcode == HLO_CONSTANT || i->opcode == HLO_PARAMETER || i->opcode == HLO_TUPLE ||
      i->opcode == HLO_FUSION || !i->noperands)
    return false;
  if (!i->nuses && !hlo_is_root(i)) return false;  // dead
  bool any = f->aggressive;
  for (u32 k = 0; k < i->noperands; k++) {
    if (!constant_like(hlo_operand(i, k))) return false;
    any |= has_constant(hlo_operand(i, k));
  }
  return any && holds_arrays(i->shape) && foldable(i, f);
}

static bool small_enough(pass_ctx *c, const hlo_instr *i, const folding *f) {
  i64 in = 0;
  if (f->aggressive) return true;
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_shape_is_array(hlo_operand(i, k)->shape))
      in = hs_add_sat_i64(in, hlo_operand(i, k)->shape->elements);
  if (hlo_shape_is_array(i->shape) && HS_MAX(i->shape->elements, in) > MAX_ELEMENTS) {
    pass_note_declined(c, i, NULL, "%lld elements are too many to fold",
                       (long long)HS_MAX(i->shape->elements, in));
    return false;
  }
  hlo_cost cost = hlo_cost_instr(i);
  double work = cost.flops + cost.transcendentals + (double)i->shape->elements;
  if (work > MAX_WORK) {
    pass_note_declined(c, i, NULL, "evaluating it takes %.3g operations", work);
    return false;
  }
  return true;
}

// The value of a constant_like instruction; a new reference.
static hs_status value_of(const hlo_instr *i, hs_arena *a, hlo_literal **out) {
  if (i->opcode == HLO_CONSTANT) {
    *out = hlo_literal_ref(hlo_constant_value(i));
    return HS_GOOD;
  }
  hlo_literal **in = HS_NEW_ARRAY(a, hlo_literal *, i->noperands + 1);
  hs_status s = HS_GOOD;
  u32 got = 0;
  while (got < i->noperands && hs_ok(s)) {
    s = value_of(hlo_operand(i, got), a, &in[got]);
    if (hs_ok(s)) got++;
  }
  if (hs_ok(s)) s = hlo_eval_instr(i, i->noperands, in, NULL, out);
  for (u32 k = 0; k < got; k++) hlo_literal_unref(in[k]);
  return s;
}

static hs_status fold(pass_ctx *c, hlo_instr *i) {
  u32 n = i->noperands, got = 0;
  hlo_literal **ops = HS_NEW_ARRAY(c->scratch, hlo_literal *, n), *value = NULL;
  hs_status s = HS_GOOD;
  while (got < n && hs_ok(s)) {
    s = value_of(hlo_operand(i, got), c->scratch, &ops[got]);
    if (hs_ok(s)) got++;
  }
  hlo_eval_options o = {.keep_denormals = false, .max_bytes = (i64)1 << 31};
  if (hs_ok(s)) s = hlo_eval_instr(i, n, ops, &o, &value);
  for (u32 k = 0; k < got; k++) hlo_literal_unref(ops[k]);
  if (!hs_ok(s)) {
    if (hs_is_stop(s)) return s;
    pass_note_declined(c, i, NULL, "not evaluated: %s", s.err->message);
    hs_status_drop(s);
    return HS_GOOD;
  }
  if (!pass_may_rewrite(c)) {
    hlo_literal_unref(value);
    return HS_GOOD;
  }
  pass_note_done(c, i, NULL, "%s of constants folded", hlo_op_text(i->opcode));
  if (hlo_shape_is_tuple(i->shape) && is_replaceable(i)) {
    for (hlo_use *u = i->first_use, *next; u; u = next) {
      next = u->next;
      hlo_instr *g = u->user,
                *e = hlo_add_constant(
                    i->parent, hlo_literal_ref(value->children[hlo_attr_int(g, HLO_ATTR_INDEX, 0)]),
                    NULL);
      if (e->shape != g->shape) hlo_set_shape(e, g->shape);
      bool last = !next;
      hlo_replace(g, e);
      if (last) break;
    }
    hlo_literal_unref(value);
    return HS_GOOD;
  }
  hlo_instr *k = hlo_add_constant(i->parent, value, NULL);
  if (k->shape != i->shape) hlo_set_shape(k, i->shape);
  hlo_replace(i, k);
  return HS_GOOD;
}

// The constant that all call sites pass as parameter p, or NULL.
static const hlo_instr *constant_argument(hlo_instr *const *calls, u32 n, u32 p) {
  const hlo_instr *k = NULL;
  for (u32 j = 0; j < n; j++) {
    const hlo_instr *o = hlo_operand(calls[j], p);
    if (o->opcode != HLO_CONSTANT || hlo_literal_has_elided(hlo_constant_value(o))) return NULL;
    if (k &&
        (k->shape != o->shape || !hlo_literal_equal(hlo_constant_value(k), hlo_constant_value(o))))
      return NULL;
    k = o;
  }
  return k;
}

static bool all_constant(const hlo_instr *call) {
  for (u32 k = 0; k < call->noperands; k++)
    if (!constant_like(hlo_operand(call, k))) return false;
  return true;
}

static void propagate_constant_arguments(pass_ctx *c) {
  hlo_module *m = c->m;
  if (!m->nops[HLO_CALL]) return;
  u32 *counts = pass_caller_counts(c), *have = HS_NEW_ARRAY(c->scratch, u32, m->next_comp_id + 1);
  hlo_instr ***calls = HS_NEW_ARRAY(c->scratch, hlo_instr **, m->next_comp_id + 1);
  hlo_for_each_comp(x, m)
    hlo_for_each_instr(i, x) {
      if (i->opcode != HLO_CALL) continue;
      hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
      if (!f) continue;
      if (!calls[f->id])
        calls[f->id] = HS_NEW_ARRAY(c->scratch, hlo_instr *, counts[1 + f->id] + 1);
      calls[f->id][have[f->id]++] = i;
    }
  u32 ncomps;
  hlo_computation **comps = pass_comp_callees_first(c, &ncomps);
  for (u32 at = ncomps; at-- > 0;) {  // callers first: what they pass on is constant by then
    hlo_computation *x = comps[at];
    if (x == m->entry || !have[x->id] || have[x->id] != counts[1 + x->id]) continue;
    // one call of constants alone is folded as a whole, or not at all
    if (have[x->id] == 1 && all_constant(calls[x->id][0])) continue;
    for (u32 p = 0; p < x->nparams; p++) {
      const hlo_instr *k = x->params[p]->nuses || hlo_is_root(x->params[p])
                               ? constant_argument(calls[x->id], have[x->id], p)
                               : NULL;
      if (!k) continue;
      if (!pass_may_rewrite(c)) return;
      pass_note_done(c, x->params[p], k, "every call passes this constant");
      hlo_replace_uses(x->params[p], hlo_clone_instr(x, k, NULL, 0, NULL));
    }
  }
}

// get-dimension-size of a static dimension.
static bool static_size(const hlo_instr *i) {
  if (i->opcode != HLO_GET_DIMENSION_SIZE) return false;
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_shape *s = d.n == 1 ? hlo_operand(i, 0)->shape : NULL;
  if (s && pass_hides_size(hlo_operand(i, 0))) return false;
  return s && s->dims[d.v[0]] >= 0 && !hlo_dim_is_dynamic(s, d.v[0]) && !hlo_is_controlled(i);
}

static bool fold_size(pass_ctx *c, hlo_instr *i) {
  if (!pass_may_rewrite(c)) return false;
  i64 n = hlo_operand(i, 0)->shape->dims[hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0]];
  pass_note_done(c, i, NULL, "a static dimension of %lld", (long long)n);
  hlo_replace(i, hlo_build_scalar_i64(i->parent, HLO_S32, n));
  return true;
}

static hs_status visit(pass_ctx *c, folding *f, hlo_instr *i) {
  if (i->dead) return HS_GOOD;
  if (static_size(i)) {
    fold_size(c, i);
    return HS_GOOD;
  }
  if (!(candidate(i, f) || late_fusion(i, f)) || !allowed(i, f)) return HS_GOOD;
  bool elided = false;
  for (u32 o = 0; o < i->noperands; o++) elided |= is_elided(hlo_operand(i, o));
  if (elided) {
    pass_note_declined(c, i, NULL, "a constant operand is elided");
    return HS_GOOD;
  }
  if (!small_enough(c, i, f)) return HS_GOOD;
  HS_TRY(fold(c, i));
  return hs_poll();
}

// Visits the edited instructions, their users, and the users of each folded instruction.
static hs_status visit_edited(pass_ctx *c, folding *f, u32 n, hlo_instr *const *edited) {
  HS_VEC(hlo_instr *) work = {0};
  for (u32 k = 0; k < n; k++) {
    if (hlo_is_fusion_comp(edited[k]->parent) || edited[k]->dead) continue;
    hs_vec_push(&work, edited[k]);
    hlo_for_each_use(u, edited[k]) hs_vec_push(&work, u->user);
  }
  hs_status s = HS_GOOD;
  for (size_t k = 0; k < work.n && hs_ok(s); k++) {
    hlo_instr *i = work.v[k];
    if (i->dead || i->opcode == HLO_CONSTANT) continue;
    size_t from = work.n;
    hlo_for_each_use(u, i) hs_vec_push(&work, u->user);
    s = visit(c, f, i);
    if (!i->dead) work.n = from;
  }
  hs_vec_free(&work);
  return s;
}

static hs_status run(pass_ctx *c) {
  enum { DEFAULT, AGGRESSIVE };
  folding f = {.c = c,
               .late = !pass_option_bool(c, "fold_float_arithmetic"),
               .scalars_only = pass_option_bool(c, "scalars_only"),
               .aggressive = pass_option_choice(c, "level") == AGGRESSIVE};
  propagate_constant_arguments(c);
  u32 n;
  hlo_instr **v;
  if (pass_edited(c, &v, &n)) return visit_edited(c, &f, n, v);
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    n = comp->ninstrs;
    v = pass_any_order(c, comp);
    for (u32 k = 0; k < n; k++) HS_TRY(visit(c, &f, v[k]));
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"fold_float_arithmetic", PASS_BOOL, "true",
     "false, for late in compilation: fold fusions as well, but no floating-point arithmetic"},
    {"scalars_only", PASS_BOOL, "false", "only results of rank 0"},
    {"level", PASS_CHOICE, "default|aggressive", "aggressive: also loops and results of any size"},
};

const pass_info pass_constant_folding = {
    .name = "constant_folding",
    .summary = "evaluates instructions whose operands are all constant",
    .xla_source = "xla/hlo/transforms/simplifiers/hlo_constant_folding.cc",
    .run = run,
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[3] parameter(0)\n"
              "  a = f32[3] constant({1, 2, 3})\n"
              "  b = f32[3] constant({10, 20, 30})\n"
              "  c = f32[3] add(a, b)\n"
              "  ROOT y = f32[3] multiply(x, c)\n"
              "}\n",
};
