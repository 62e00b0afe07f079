// build.c — instructions made with their shape inferred. The rules live in infer*.c; this file
// only collects the attributes, asks for the shape, gives it a layout where the operands have
// layouts, and adds the instruction.
#include "core/infer/build.h"

#include "core/infer/infer.h"

#include <stdio.h>

// Adds op(operands) with up to two attributes. Layouts follow the operands: a module without
// layouts stays so.
static hlo_instr *build(hlo_computation *into, hlo_opcode op, u32 n, hlo_instr *const *operands,
                        const hlo_shape *stated, u32 nattrs, const hlo_attr *attrs) {
  hlo_module *m = into->module;
  const hlo_shape *few[8] = {0}, **in = n <= HS_COUNT(few) ? few : hs_alloc(n * sizeof *in),
                  *shape = NULL;
  bool layouts = false;
  for (u32 i = 0; i < n; i++) {
    in[i] = operands[i]->shape;
    layouts |= in[i] != in[i]->logical;
  }
  const hlo_attrs *set = NULL;
  for (u32 i = 0; i < nattrs; i++) set = hlo_attrs_with(&m->sets, set, &attrs[i]);
  hs_status s = hlo_infer_shape(m->ctx, op, n, in, set, stated, &shape);
  if (in != few) hs_free(in);
  HS_ASSERT(hs_ok(s));
  // a caller's bug: keep the written shape, which the verifier will reject
  if (!hs_ok(s)) {
    hs_status_drop(s);
    shape = stated ? stated : operands[0]->shape;
  }
  // An elementwise result lies in memory like its first operand of the same dimensions; any other
  // is row-major.
  for (u32 k = 0; k < n && hlo_op_has(op, HLO_F_ELEMENTWISE) && layouts; k++)
    if (operands[k]->shape->layout && hlo_shape_same_dims(operands[k]->shape, shape)) {
      shape = hlo_shape_with_layout(m->ctx, shape, operands[k]->shape->layout);
      break;
    }
  if (layouts) shape = hlo_shape_fill_layout(m->ctx, shape);
  hlo_instr *i = hlo_add(into, op, shape, n, operands, NULL);
  for (u32 k = 0; k < nattrs; k++) hlo_set_attr(i, attrs[k]);
  for (u32 k = 0; k < n; k++) hlo_add_provenance(i, operands[k]);
  return i;
}
static hlo_attr ints_attr(hlo_module *m, hlo_attr_id id, u32 n, const i64 *v) {
  return (hlo_attr){id, {.ints = {n, hs_arena_dup(&m->arena, v, n * sizeof *v)}}};
}

hlo_instr *hlo_build_unary(hlo_opcode op, hlo_instr *a) {
  return build(a->parent, op, 1, &a, NULL, 0, NULL);
}
hlo_instr *hlo_build_binary(hlo_opcode op, hlo_instr *a, hlo_instr *b) {
  return build(a->parent, op, 2, (hlo_instr *const[]){a, b}, NULL, 0, NULL);
}
hlo_instr *hlo_build_compare(hlo_instr *a, hlo_instr *b, int direction) {
  hlo_attr at = {HLO_ATTR_DIRECTION, {.i = direction}};
  return build(a->parent, HLO_COMPARE, 2, (hlo_instr *const[]){a, b}, NULL, 1, &at);
}
hlo_instr *hlo_build_select(hlo_instr *p, hlo_instr *t, hlo_instr *f) {
  return build(t->parent, HLO_SELECT, 3, (hlo_instr *const[]){p, t, f}, NULL, 0, NULL);
}
hlo_instr *hlo_build_convert(hlo_instr *a, hlo_dtype t) {
  return build(a->parent, HLO_CONVERT, 1, &a,
               hlo_shape_with_dtype(a->parent->module->ctx, a->shape, t), 0, NULL);
}
hlo_instr *hlo_build_reshape(hlo_instr *a, u32 rank, const i64 *dims) {
  return build(a->parent, HLO_RESHAPE, 1, &a,
               hlo_shape_array(a->parent->module->ctx, a->shape->dtype, rank, dims), 0, NULL);
}
hlo_instr *hlo_build_transpose(hlo_instr *a, const i64 *perm) {
  hlo_attr at = ints_attr(a->parent->module, HLO_ATTR_DIMENSIONS, a->shape->rank, perm);
  return build(a->parent, HLO_TRANSPOSE, 1, &a, NULL, 1, &at);
}
hlo_instr *hlo_build_broadcast(hlo_instr *a, u32 rank, const i64 *dims, const i64 *mapping) {
  hlo_attr at = ints_attr(a->parent->module, HLO_ATTR_DIMENSIONS, a->shape->rank, mapping);
  return build(a->parent, HLO_BROADCAST, 1, &a,
               hlo_shape_array(a->parent->module->ctx, a->shape->dtype, rank, dims), 1, &at);
}
hlo_instr *hlo_build_slice(hlo_instr *a, const i64 *start, const i64 *limit, const i64 *stride) {
  hs_arena *ar = &a->parent->module->arena;
  u32 n = a->shape->rank;
  hlo_slice_dim *v = HS_NEW_ARRAY(ar, hlo_slice_dim, n);
  for (u32 i = 0; i < n; i++) v[i] = (hlo_slice_dim){start[i], limit[i], stride ? stride[i] : 1};
  hlo_slices *s = HS_NEW(ar, hlo_slices);
  *s = (hlo_slices){n, v};
  hlo_attr at = {HLO_ATTR_SLICE, {.p = s}};
  return build(a->parent, HLO_SLICE, 1, &a, NULL, 1, &at);
}
hlo_instr *hlo_build_concatenate(u32 n, hlo_instr *const *parts, i64 dim) {
  hlo_attr at = ints_attr(parts[0]->parent->module, HLO_ATTR_DIMENSIONS, 1, &dim);
  return build(parts[0]->parent, HLO_CONCATENATE, n, parts, NULL, 1, &at);
}
hlo_instr *hlo_build_pad(hlo_instr *a, hlo_instr *value, const hlo_pad_dim *dims) {
  hs_arena *ar = &a->parent->module->arena;
  hlo_padding *p = HS_NEW(ar, hlo_padding);
  *p = (hlo_padding){a->shape->rank, hs_arena_dup(ar, dims, a->shape->rank * sizeof *dims)};
  hlo_attr at = {HLO_ATTR_PADDING, {.p = p}};
  return build(a->parent, HLO_PAD, 2, (hlo_instr *const[]){a, value}, NULL, 1, &at);
}
hlo_instr *hlo_build_reverse(hlo_instr *a, u32 n, const i64 *dims) {
  hlo_attr at = ints_attr(a->parent->module, HLO_ATTR_DIMENSIONS, n, dims);
  return build(a->parent, HLO_REVERSE, 1, &a, NULL, 1, &at);
}
hlo_instr *hlo_build_reduce(hlo_instr *a, hlo_instr *init, u32 n, const i64 *dims,
                            hlo_computation *reducer) {
  hlo_attr at[2] = {ints_attr(a->parent->module, HLO_ATTR_DIMENSIONS, n, dims),
                    {HLO_ATTR_TO_APPLY, {.comp = reducer}}};
  return build(a->parent, HLO_REDUCE, 2, (hlo_instr *const[]){a, init}, NULL, 2, at);
}

hlo_instr *hlo_build_scalar_f64(hlo_computation *c, hlo_dtype t, double v) {
  return hlo_add_constant(c, hlo_literal_scalar_f64(c->module->ctx, t, v), NULL);
}
hlo_instr *hlo_build_scalar_i64(hlo_computation *c, hlo_dtype t, i64 v) {
  return hlo_add_constant(c, hlo_literal_scalar_i64(c->module->ctx, t, v), NULL);
}
hlo_instr *hlo_build_full(hlo_computation *c, const hlo_shape *shape, double v) {
  // an integer is cut to the type's width, so that one is -1 in s1; a real number is clamped
  bool cut = hlo_dtype_is_integer(shape->dtype) && v == (double)(i64)v;
  hlo_instr *k = cut ? hlo_build_scalar_i64(c, shape->dtype, (i64)v)
                     : hlo_build_scalar_f64(c, shape->dtype, v);
  return shape->rank ? hlo_add_broadcast(k, shape, 0, NULL) : k;
}

// (x, y) -> op(x, y), nothing else: parameters in order, the operation as root.
static bool is_scalar_computation(const hlo_computation *c, hlo_opcode op, const hlo_shape *s) {
  const hlo_instr *r = c->root;
  return r && c->ninstrs == 3 && c->nparams == 2 && r->opcode == op && !r->attrs &&
         r->shape->logical == s && r->noperands == 2 && hlo_operand(r, 0) == c->params[0] &&
         hlo_operand(r, 1) == c->params[1] && c->params[0]->shape->logical == s &&
         c->params[1]->shape->logical == s;
}
hlo_computation *hlo_build_scalar_computation(hlo_module *m, hlo_opcode op, hlo_dtype t) {
  const hlo_shape *s = hlo_shape_scalar(m->ctx, t)->logical;
  hlo_for_each_comp(c, m)
    if (c != m->entry && is_scalar_computation(c, op, s)) return c;
  char name[64];
  snprintf(name, sizeof name, "%s_%s", hlo_op_text(op), hlo_dtype_text(t));
  hlo_computation *c = hlo_add_computation(m, name);
  hlo_instr *x = hlo_add_parameter(c, 0, hlo_shape_scalar(m->ctx, t), "x"),
            *y = hlo_add_parameter(c, 1, hlo_shape_scalar(m->ctx, t), "y");
  hlo_set_root(c, hlo_build_binary(op, x, y));
  return c;
}
