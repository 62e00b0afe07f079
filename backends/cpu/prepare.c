// prepare.c — the module that is sent to the worker, where that is not the caller's.
//
// Of a module with dynamic dimensions it is the static form (passes/dynamic): sizes are arguments
// and results like any others. Of a module with an operation that cannot be compiled, but whose
// result nobody reads, it is the module without that operation.
#include "backends/cpu/prepare.h"

#include "passes/dynamic/arguments.h"
#include "passes/passes.h"

// A size set at run time is lost in a static type, whatever the type of the result says.
static bool sets_a_size(const hlo_instr *i) {
  if (i->opcode != HLO_SET_DIMENSION_SIZE) return false;
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_literal *l =
      hlo_is(hlo_operand(i, 1), HLO_CONSTANT) ? hlo_constant_value(hlo_operand(i, 1)) : NULL;
  return !l || l->elided || d.n != 1 || hlo_literal_i64(l, 0) != i->shape->dims[d.v[0]];
}

bool cpu_is_dynamic(const hlo_instr *i) {
  bool dynamic = hlo_shape_is_dynamic(i->shape) || sets_a_size(i);
  for (u32 k = 0; k < i->noperands; k++) dynamic |= hlo_shape_is_dynamic(hlo_operand(i, k)->shape);
  return dynamic || i->opcode == HLO_DYNAMIC_RESHAPE;
}

static const hlo_instr *find_dynamic(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (cpu_is_dynamic(i)) return i;
  return NULL;
}

hs_status cpu_check_static(const backend *b, const hlo_module *m) {
  const hlo_instr *i = find_dynamic(m);
  if (!i) return HS_GOOD;
  const char *op = hlo_op_text(i->opcode);
  return hs_with_note(hs_fail_subject(HS_E_UNSUPPORTED, op, "unsupported: %s of dynamic size", op),
                      "instruction %%%s, backend %s", i->name, b->name);
}

static hs_status make_static(hlo_module *m, const pass_run_options *o) {
  pass_result r;
  HS_TRY(pass_run(m, &pass_dynamic_arguments, NULL, o, &r));
  return r.changed ? pipeline_run(m, "tuple-simplifier, cse, dce", o, NULL) : HS_GOOD;
}

hs_status cpu_prepare(const backend *b, const hlo_module *m, hlo_module **out) {
  *out = NULL;
  bool dynamic = find_dynamic(m) != NULL;
  hs_status s = HS_GOOD;
  if (!dynamic) {
    s = backend_check_module(b, m);
    if (hs_ok(s)) return s;
  }
  pass_run_options o = pass_run_default();
  o.measure = false;
  hlo_module *now = hlo_module_clone(m, m->name);
  hs_status made = dynamic ? make_static(now, &o)
                           : pipeline_run(now, "dce{use_call_analysis=true}, dce", &o, NULL);
  if (hs_ok(made)) made = cpu_check_static(b, now);
  if (hs_ok(made)) made = backend_check_module(b, now);
  if (!hs_ok(made)) hlo_module_free(now);
  else *out = now;
  if (dynamic) return made;
  // the first instruction that cannot be compiled is the reason, whatever is left of the module
  if (hs_ok(made)) {
    hs_status_drop(s);
    return made;
  }
  hs_status_drop(made);
  return s;
}

// The dynamic dimensions of a shape.
static u32 count_sizes(const hlo_shape *s) {
  u32 n = 0;
  for (u32 k = 0, leaves = hlo_shape_leaves(s); k < leaves; k++) {
    const hlo_shape *leaf = hlo_shape_leaf(s, k);
    for (u32 j = 0; leaf->dynamic && j < leaf->rank; j++) n += leaf->dynamic[j];
  }
  return n;
}

u32 cpu_dynamic_sizes(u32 n, const hlo_shape *const *shapes) {
  u32 all = 0;
  for (u32 k = 0; k < n; k++) all += count_sizes(shapes[k]);
  return all;
}

// ---- arguments ----------------------------------------------------------------------------------
static hs_status does_not_fit(u32 param) {
  return hs_fail(HS_E_INPUT, "argument %u is not what the parameter asks for", param);
}

// The sizes of a value of shape s, from *at on; those of last time where they are equal.
static hs_status put_sizes(hlo_ctx *ctx, const hlo_shape *s, const hlo_literal *l, u32 param,
                           hlo_literal **sizes, u32 *at) {
  if (hlo_shape_is_tuple(s)) {
    if (!l || l->nchildren != s->nelems) return does_not_fit(param);
    for (u32 k = 0; k < s->nelems; k++)
      HS_TRY(put_sizes(ctx, s->elems[k], l->children[k], param, sizes, at));
    return HS_GOOD;
  }
  if (s->dynamic && (!l || l->shape->rank != s->rank)) return does_not_fit(param);
  for (u32 j = 0; s->dynamic && j < s->rank; j++) {
    if (!s->dynamic[j]) continue;
    i64 n = l->dynamic_sizes ? l->dynamic_sizes[j] : l->shape->dims[j];
    if (n < 0 || n > s->dims[j]) return does_not_fit(param);
    hlo_literal **size = &sizes[(*at)++];
    if (*size && hlo_literal_i64(*size, 0) == n) continue;
    hlo_literal_unref(*size);
    *size = hlo_literal_scalar_i64(ctx, HLO_S32, n);
  }
  return HS_GOOD;
}

hs_status cpu_dynamic_arguments(hlo_ctx *ctx, u32 n, const hlo_shape *const *shapes, u32 nargs,
                                hlo_literal *const *args, hlo_literal **sizes) {
  if (nargs != n) return hs_fail(HS_E_INPUT, "%u arguments for %u parameters", nargs, n);
  u32 at = 0;
  for (u32 k = 0; k < n; k++) HS_TRY(put_sizes(ctx, shapes[k], args[k], k, sizes, &at));
  return HS_GOOD;
}

// ---- results ------------------------------------------------------------------------------------
// Gives a value, whose leaves are its own alone, the dynamic shape s.
static void take_sizes(hlo_literal *l, const hlo_shape *s, hlo_literal *const *sizes, u32 *at) {
  l->shape = s;
  for (u32 k = 0; k < l->nchildren; k++) take_sizes(l->children[k], s->elems[k], sizes, at);
  if (!hlo_shape_is_array(s) || !s->dynamic) return;
  l->dynamic_sizes = hs_calloc(s->rank + 1, sizeof *l->dynamic_sizes);
  for (u32 j = 0; j < s->rank; j++) {
    i64 n = s->dynamic[j] ? hlo_literal_i64(sizes[(*at)++], 0) : s->dims[j];
    l->dynamic_sizes[j] = (i32)HS_MAX(HS_MIN(n, HS_MIN(s->dims[j], INT32_MAX)), 0);
  }
}

hlo_literal *cpu_dynamic_result(const hlo_shape *s, hlo_literal *all) {
  if (!hlo_shape_is_dynamic(s)) return all;
  u32 n = hlo_shape_is_tuple(s) ? s->nelems : 1, at = 0;
  hlo_literal *own;
  if (hlo_shape_is_tuple(s)) {
    for (u32 k = 0; k < n; k++) hlo_literal_ref(all->children[k]);
    own = hlo_literal_tuple(s, n, all->children);
  } else own = hlo_literal_ref(all->children[0]);
  take_sizes(own, s, all->children + n, &at);
  hlo_literal_unref(all);
  return own;
}
