// custom.c — custom calls with a meaning of their own, by the rows of customcalls.def:
// markers, moves, random bits.
//
// The calls into libraries are in library.c, LAPACK's in lapack.c. Everything else is
// unsupported, named by its target.
#include "core/analysis/customcall.h"
#include "core/ir/config.h"
#include "core/eval/library.h"
#include "core/infer/infer.h"

#include <stdlib.h>

hs_status ev_custom_identity(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  if (i->noperands == 1 && !(hlo_shape_is_tuple(i->shape) && !hlo_shape_is_tuple(ops[0]->shape))) {
    *out = ev_retag(&ops[0], i->shape);
    return HS_GOOD;
  }
  if (i->noperands == 0) return hlo_literal_new(i->shape, out);
  return hlo_eval_tuple(e, i, ops, out);
}

// A buffer is the array in it.
hs_status ev_custom_first(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  if (!i->noperands) return ev_unsupported(i, "without operands");
  *out = ops[0];
  ops[0] = NULL;
  return HS_GOOD;
}

// Memory whose contents the language leaves open.
hs_status ev_custom_zeros(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  (void)ops;
  const hlo_shape *s =
      i->shape->dtype == HLO_BUFFER && i->shape->nelems ? i->shape->elems[0] : i->shape;
  return hlo_literal_new(s, out);
}

hs_status ev_custom_body(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return ev_call(e, hlo_called(i, 0), i->noperands, ops, out);
}

// k is a dimension of the result; largest first unless the attribute of the text says otherwise.
hs_status ev_custom_topk(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return hlo_eval_topk(e, i, ops, out);
}
hs_status ev_custom_qr(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return ev_qr(e, i, ops, out);
}
hs_status ev_custom_householder(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return ev_householder_product(e, i, ops, out);
}
hs_status ev_custom_full_to_shard(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return ev_full_to_shard(e, i, ops, out);
}
hs_status ev_custom_shard_to_full(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return ev_shard_to_full(e, i, ops, out);
}

hs_status ev_custom_rng_seed(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  if (!hlo_shape_is_array(i->shape)) return ev_unsupported(i, "with this result");
  HS_TRY(ev_new(e, i->shape, out));
  for (i64 k = 0; k < i->shape->elements; k++)
    hlo_literal_set_i64(*out, k, (i64)(e->opt.rng_seed & INT64_MAX));
  return HS_GOOD;
}

// (key, key, counts, counts), each scalar or of the results' size -> both words of each block.
hs_status ev_custom_threefry(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  u32 first = i->noperands > 4 ? i->noperands - 4 : 0;  // an older form has the size in front
  if (i->noperands < 4 || !hlo_shape_is_tuple(i->shape) || i->shape->nelems != 2)
    return ev_unsupported(i, "with these operands");
  HS_TRY(ev_new(e, i->shape, out));
  i64 n = i->shape->elems[0]->elements;
  for (u32 k = 0; k < 4; k++) {
    const hlo_shape *s = ops[first + k]->shape;
    if (s->dtype != HLO_U32 || (s->elements != n && s->elements != 1))
      return ev_unsupported(i, "with these operands");
  }
  for (u32 k = 0; k < 2; k++)
    if (i->shape->elems[k]->dtype != HLO_U32 || i->shape->elems[k]->elements != n)
      return ev_unsupported(i, "with these results");
  for (i64 j = 0; j < n; j++) {
    u32 v[4];
    for (u32 k = 0; k < 4; k++)
      v[k] = ((const u32 *)ops[first + k]->data)[ops[first + k]->shape->elements == 1 ? 0 : j];
    u32 x[2] = {v[2], v[3]};
    ev_threefry2x32(x, v);
    ((u32 *)(*out)->children[0]->data)[j] = x[0];
    ((u32 *)(*out)->children[1]->data)[j] = x[1];
  }
  return HS_GOOD;
}

// 64-bit integers as two words, low first.
hs_status ev_custom_x64_combine(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  if (i->noperands != 2 || hlo_dtype_bits(i->shape->dtype) != 64 ||
      !hlo_dtype_is_integer(i->shape->dtype) || ops[0]->shape->elements != i->shape->elements ||
      ops[1]->shape->elements != i->shape->elements || ops[0]->shape->dtype != HLO_U32 ||
      ops[1]->shape->dtype != HLO_U32)
    return ev_unsupported(i, "with these operands");
  HS_TRY(ev_new(e, i->shape, out));
  const u32 *lo = ops[0]->data, *hi = ops[1]->data;
  for (i64 k = 0; k < i->shape->elements; k++) ((u64 *)(*out)->data)[k] = (u64)hi[k] << 32 | lo[k];
  return HS_GOOD;
}
static hs_status x64_split(ev *e, const hlo_instr *i, hlo_literal **ops, int shift,
                           hlo_literal **out) {
  if (i->noperands != 1 || i->shape->dtype != HLO_U32 ||
      ops[0]->shape->elements != i->shape->elements ||
      !hlo_dtype_is_integer(ops[0]->shape->dtype) || hlo_dtype_bits(ops[0]->shape->dtype) != 64)
    return ev_unsupported(i, "with these operands");
  HS_TRY(ev_new(e, i->shape, out));
  for (i64 k = 0; k < i->shape->elements; k++)
    ((u32 *)(*out)->data)[k] = (u32)(((const u64 *)ops[0]->data)[k] >> shift);
  return HS_GOOD;
}
hs_status ev_custom_x64_low(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return x64_split(e, i, ops, 0, out);
}
hs_status ev_custom_x64_high(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return x64_split(e, i, ops, 32, out);
}

// "dimension=1,amount=3": elements move up, those that fall off come in at the front.
hs_status ev_custom_rotate_right(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *s = i->shape;
  i64 dim = (i64)hlo_config_number(i, NULL, "dimension", -1),
      amount = (i64)hlo_config_number(i, NULL, "amount", -1), strides[HLO_MAX_RANK];
  if (!hlo_shape_is_array(s) || dim < 0 || dim >= s->rank || amount < 0)
    return ev_unsupported(i, "with this configuration");
  HS_TRY(ev_new(e, s, out));
  i64 n = s->dims[dim], lengths[2] = {n ? n - amount % n : 0, n ? amount % n : 0},
      size[HLO_MAX_RANK];
  hlo_row_major_strides(s->rank, s->dims, strides);
  size_t w = hlo_dtype_storage(s->dtype);
  for (int half = 0; half < 2 && s->elements; half++) {
    memcpy(size, s->dims, s->rank * sizeof *size);
    size[dim] = lengths[half];
    i64 from = half ? lengths[0] : 0, to = half ? 0 : lengths[1];
    ev_copy(w, s->rank, size, (char *)(*out)->data + to * strides[dim] * (i64)w, strides,
            (const char *)ops[0]->data + from * strides[dim] * (i64)w, strides);
  }
  return HS_GOOD;
}

// Nobody verified the attributes of a custom call: do they give its shape?
static hs_status check_convolution(const hlo_instr *i) {
  const hlo_shape *in[2], *want = NULL;
  if (i->noperands != 2) return ev_unsupported(i, "with this number of operands");
  for (u32 k = 0; k < 2; k++) in[k] = hlo_operand(i, k)->shape;
  hs_status st =
      hlo_infer_shape(i->parent->module->ctx, HLO_CONVOLUTION, 2, in, i->attrs, i->shape, &want);
  if (!hs_ok(st)) return hs_chain(ev_unsupported(i, "with these attributes"), st);
  return want->rank == i->shape->rank &&
                 memcmp(want->dims, i->shape->dims, want->rank * sizeof *want->dims) == 0
             ? HS_GOOD
             : ev_unsupported(i, "of another shape than its attributes give");
}

// A convolution whose input counts only where it is in use.
hs_status ev_custom_dynamic_convolution(ev *e, const hlo_instr *i, hlo_literal **ops,
                                        hlo_literal **out) {
  HS_TRY(check_convolution(i));
  return hlo_eval_convolution(e, i, ops, out);
}

// (data, size of each dimension) -> data of which that much is in use; and back, with the sizes as
// results.
hs_status ev_custom_slice_to_dynamic(ev *e, const hlo_instr *i, hlo_literal **ops,
                                     hlo_literal **out) {
  const hlo_shape *s = i->shape;
  HS_TRY(ev_new(e, s, out));
  memcpy((*out)->data, ops[0]->data, (*out)->bytes);
  for (u32 d = 0; d < s->rank && (*out)->dynamic_sizes; d++)
    (*out)->dynamic_sizes[d] = (i32)HS_MAX(HS_MIN(hlo_literal_i64(ops[d + 1], 0), s->dims[d]), 0);
  return HS_GOOD;
}

hs_status ev_custom_pad_to_static(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *s = ops[0]->shape;
  HS_TRY(ev_new(e, i->shape, out));
  memcpy((*out)->children[0]->data, ops[0]->data, ops[0]->bytes);
  for (u32 d = 0; d < s->rank; d++)
    hlo_literal_set_i64((*out)->children[d + 1], 0,
                        ops[0]->dynamic_sizes ? ops[0]->dynamic_sizes[d] : s->dims[d]);
  return HS_GOOD;
}

// ---- the table ----------------------------------------------------------------------------------
static const ev_fn functions[HLO_CUSTOM_COUNT] = {
#define CUSTOM(id, target, shape, eval, cost, flags) [HLO_CUSTOM_##id] = ev_custom_##eval,
#include "core/analysis/customcalls.def"
#undef CUSTOM
};

static ev_fn find_target(const hlo_instr *i) {
  hs_str name = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  hlo_custom_id id = hlo_custom_find(name);
  if (functions[id] == ev_custom_lapack && !lapack_covers(name)) return NULL;
  return hlo_custom_shape_fits(id, i) ? functions[id] : NULL;
}

hs_status hlo_eval_custom_call(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  hs_str name = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  ev_fn fn = find_target(i);
  if (fn) return fn(e, i, ops, out);
  const hlo_eval_peer *peer = e->opt.peer;
  if (peer && peer->covers(peer->arg, i)) return peer->call(peer->arg, i, i->noperands, ops, out);
  const char *why = hlo_custom_find(name) ? ", with operands or results that it cannot have" : "";
  return hs_fail_subject(HS_E_UNSUPPORTED, "custom-call",
                         "unsupported: custom-call to \"%.*s\"%s (%s)",
                         (int)HS_MIN(name.n, (size_t)200), name.p, why, i->name);
}

// ---- what the evaluator covers ------------------------------------------------------------------
static bool no(hs_buf *why, const char *text) {
  if (why) hs_buf_puts(why, text);
  return false;
}

bool hlo_eval_supports(const hlo_instr *i, hs_buf *why) {
  ew k;
  switch (i->opcode) {
  case HLO_CUSTOM_CALL:
    if (find_target(i)) return true;
    if (why) {
      hs_str name = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
      hs_buf_printf(why, "to \"%.*s\"", (int)HS_MIN(name.n, (size_t)200), name.p);
    }
    return false;
  case HLO_COMPARE:
  case HLO_CLAMP:
  case HLO_COMPLEX:
  case HLO_CONVERT:
  case HLO_REAL:
  case HLO_IMAG:
  case HLO_REDUCE_PRECISION: return ew_compile(i, &k) ? true : no(why, "these element types");
  case HLO_RNG_BIT_GENERATOR: {
    const hlo_shape *s = hlo_shape_leaf(i->shape, hlo_shape_leaves(i->shape) - 1);
    int bits = hlo_dtype_bits(s->dtype);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? true
                                                               : no(why, "this element type");
  }
  case HLO_SELECT:
    return !hlo_shape_is_array(i->shape) || ew_compile(i, &k) ? true
                                                              : no(why, "these element types");
  default: break;
  }
  if (hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && i->opcode != HLO_STOCHASTIC_CONVERT &&
      hlo_shape_is_array(i->shape) && !ew_compile(i, &k))
    return no(why, "these element types");
  return true;
}
