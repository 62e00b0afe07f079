// rules.c — what operations become, one instruction with the attributes of its row or more.
#include "core/mlir/rules.h"

#include "core/infer/build.h"

// Operands as they are, attributes by the row.
static hlo_instr *emit_with(mlir_reader *R, mlir_op *op, u32 n, hlo_instr *const *in,
                            mlir_hlo_attrs *attrs) {
  hlo_instr *i = NULL;
  if (mlir_row_attrs(R, op, attrs))
    i = mlir_emit(R, op->row->opcode, mlir_result_shape(R, op), n, in, (u32)attrs->n, attrs->v);
  hs_vec_free(attrs);
  return i;
}

bool mlir_operands(mlir_reader *R, const mlir_op *op, hlo_instr ***out) {
  *out = HS_NEW_ARRAY(&R->arena, hlo_instr *, op->nops);
  for (u32 k = 0; k < op->nops; k++)
    if (!((*out)[k] = mlir_operand(R, op, k))) return false;
  if (op->row->opcode != HLO_OP_INVALID && !hlo_op_takes(op->row->opcode, op->nops) &&
      op->row->opcode != HLO_TOPK && op->row->opcode != HLO_OPT_BARRIER)
    return mlir_fail(R, HS_E_ARITY, "%.*s has %u operands", (int)HS_MIN(op->name.n, 60u),
                     op->name.p, op->nops);
  return true;
}

bool mlir_rule_none(mlir_reader *R, mlir_op *op) {
  return mlir_fail(R, HS_E_SYNTAX, "%.*s does not stand here", (int)HS_MIN(op->name.n, 60u),
                   op->name.p);
}

bool mlir_rule_direct(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  return mlir_operands(R, op, &in) &&
         mlir_bind_results(R, op, emit_with(R, op, op->nops, in, &attrs));
}

bool mlir_rule_chlo_unary(mlir_reader *R, mlir_op *op) { return mlir_rule_direct(R, op); }

// Constants are made where they are used.
bool mlir_rule_constant(mlir_reader *R, mlir_op *op) {
  return !R->opt.as_written || mlir_value_instr(R, &op->res[0]) != NULL;
}

bool mlir_rule_compare(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_span s;
  if (!mlir_operands(R, op, &in)) return false;
  if (!mlir_get(R, &op->attrs, "comparison_direction|word0", &s))
    return mlir_fail(R, HS_E_ATTR, "compare without a direction");
  hlo_attr a[2] = {
      {HLO_ATTR_DIRECTION, {.i = hlo_enum_find(HLO_AK_ENUM_DIRECTION, mlir_enum_of(s), true)}}};
  if (a[0].v.i < 0) return hlo_lex_error(RX, HS_E_ATTR, s.p, "no direction of compare");
  u32 n = 1;
  hlo_dtype t = in[0]->shape->dtype;
  i64 usual = hlo_dtype_is_float(t) || hlo_dtype_is_complex(t) ? HLO_COMPARE_TYPE_FLOAT
              : hlo_dtype_is_signed(t)                         ? HLO_COMPARE_TYPE_SIGNED
                                                               : HLO_COMPARE_TYPE_UNSIGNED;
  if (mlir_get(R, &op->attrs, "compare_type|word1", &s)) {
    i64 type = hlo_enum_find(HLO_AK_ENUM_COMPARE_TYPE, mlir_enum_of(s), true);
    bool none = hs_str_eq(mlir_enum_of(s), HS_STR("NOTYPE"));
    if (type < 0 && !none) return hlo_lex_error(RX, HS_E_ATTR, s.p, "no type of compare");
    if (type != usual && !none) a[n++] = (hlo_attr){HLO_ATTR_COMPARE_TYPE, {.i = type}};
  }
  return mlir_bind_results(R, op, mlir_emit(R, HLO_COMPARE, op->res[0].shape, 2, in, n, a));
}

hlo_instr *mlir_spread(mlir_reader *R, hlo_instr *i, const hlo_shape *like) {
  if (i->shape->rank || !like->rank) return i;
  hlo_attr none = mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, 0, NULL);
  return mlir_emit(R, HLO_BROADCAST, hlo_shape_with_dtype(R->ctx, like->logical, i->shape->dtype),
                   1, &i, 1, &none);
}

static bool spread_all(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  if (!mlir_operands(R, op, &in)) return false;
  // HLO's clamp and select take scalars, too
  bool wanted =
      !R->opt.as_written || (op->row->opcode != HLO_CLAMP && op->row->opcode != HLO_SELECT);
  for (u32 k = 0; k < op->nops && wanted; k++)
    if (!(in[k] = mlir_spread(R, in[k], op->res[0].shape))) return false;
  return mlir_bind_results(R, op,
                           mlir_emit(R, op->row->opcode, op->res[0].shape, op->nops, in, 0, NULL));
}
bool mlir_rule_select(mlir_reader *R, mlir_op *op) { return spread_all(R, op); }
bool mlir_rule_clamp(mlir_reader *R, mlir_op *op) { return spread_all(R, op); }

// ---- broadcasts ---------------------------------------------------------------------------------
static hlo_instr *broadcast_to(mlir_reader *R, hlo_instr *i, const hlo_shape *to, u32 n,
                               const i64 *dims) {
  hlo_attr a = mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, n, dims);
  return mlir_emit(R, HLO_BROADCAST, to, 1, &i, 1, &a);
}

// In three steps where dimensions of size 1 grow: to a shape that keeps them, without them, and to
// the result; as XlaBuilder does.
static hlo_instr *broadcast_in_dim(mlir_reader *R, hlo_instr *x, const hlo_shape *to, hlo_ints d) {
  i64 mid[HLO_MAX_RANK], kept[HLO_MAX_RANK], where[HLO_MAX_RANK];
  u32 rank = to->rank, n = 0;
  bool same = true;
  for (u32 k = 0; k < rank; k++) mid[k] = to->dims[k];
  for (u32 k = 0; k < d.n; k++) mid[d.v[k]] = x->shape->dims[k];
  for (u32 k = 0; k < rank; k++) {
    same &= mid[k] == to->dims[k];
    if (mid[k] == to->dims[k]) where[n] = k, kept[n++] = mid[k];
  }
  hlo_dtype t = to->dtype;
  if (same) return broadcast_to(R, x, to, d.n, d.v);
  hlo_instr *i = broadcast_to(R, x, hlo_shape_array(R->ctx, t, rank, mid), d.n, d.v);
  if (i) i = mlir_emit(R, HLO_RESHAPE, hlo_shape_array(R->ctx, t, n, kept), 1, &i, 0, NULL);
  return i ? broadcast_to(R, i, to, n, where) : NULL;
}

bool mlir_rule_broadcast_in_dim(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  hlo_ints d = {0, NULL};
  const hlo_shape *to = op->res[0].shape;
  if (!mlir_operands(R, op, &in) || !mlir_get_ints(R, op, "dims|broadcast_dimensions", &d))
    return false;
  hlo_instr *x = in[0];
  const hlo_shape *from = x->shape;
  if (R->opt.as_written) return mlir_bind_results(R, op, broadcast_to(R, x, to, d.n, d.v));
  bool sorted = true;
  if (d.n != from->rank)
    return mlir_fail(R, HS_E_SHAPE, "%u dimensions for an operand of rank %u", d.n, from->rank);
  for (u32 k = 0; k < d.n; k++) {
    if (d.v[k] < 0 || d.v[k] >= to->rank ||
        (from->dims[k] != to->dims[d.v[k]] && from->dims[k] != 1))
      return mlir_fail(R, HS_E_SHAPE, "dimension %u of the operand does not fit the result", k);
    for (u32 j = 0; j < k; j++)
      if (d.v[j] == d.v[k]) return mlir_fail(R, HS_E_SHAPE, "dimensions repeat");
    sorted &= k == 0 || d.v[k] > d.v[k - 1];
  }
  if (!sorted) {
    i64 perm[HLO_MAX_RANK], dims[HLO_MAX_RANK], sizes[HLO_MAX_RANK];
    for (u32 k = 0; k < d.n; k++) {
      u32 at = 0;
      for (u32 j = 0; j < d.n; j++) at += d.v[j] < d.v[k];
      perm[at] = k;
    }
    for (u32 k = 0; k < d.n; k++) dims[k] = d.v[perm[k]], sizes[k] = from->dims[perm[k]];
    hlo_attr p = mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, d.n, perm);
    x = mlir_emit(R, HLO_TRANSPOSE, hlo_shape_array(R->ctx, from->dtype, d.n, sizes), 1, &x, 1, &p);
    d = (hlo_ints){d.n, dims};
    return x && mlir_bind_results(R, op, broadcast_in_dim(R, x, to, d));
  }
  return mlir_bind_results(R, op, broadcast_in_dim(R, x, to, d));
}

bool mlir_rule_broadcast(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  if (!mlir_operands(R, op, &in)) return false;
  u32 rank = in[0]->shape->rank, more = op->res[0].shape->rank - rank;
  i64 dims[HLO_MAX_RANK];
  if (op->res[0].shape->rank < rank)
    return mlir_fail(R, HS_E_SHAPE, "the result has fewer dimensions");
  for (u32 k = 0; k < rank; k++) dims[k] = more + k;
  return mlir_bind_results(R, op, broadcast_to(R, in[0], op->res[0].shape, rank, dims));
}

// ---- products -----------------------------------------------------------------------------------
// "[0] x [1]": two lists.
static bool pair_of(mlir_reader *R, mlir_span s, hlo_ints out[2]) {
  mlir_span part[2];
  mlir_place was = mlir_enter(R, s);
  bool ok = true;
  for (u32 k = 0; ok && k < 2; k++) {
    hlo_skip(RX);
    part[k].p = RX->p;
    if (k) ok = hlo_accept(RX, 'x') || hlo_lex_error(RX, HS_E_SYNTAX, NULL, "expects 'x'");
    hlo_skip(RX);
    part[k].p = RX->p;
    ok = ok && hlo_peek(RX) == '[' && mlir_skip_balanced(RX);
    part[k].n = (size_t)(RX->p - part[k].p);
  }
  mlir_leave(R, was);
  if (!ok) return RX->failed ? false : hlo_lex_error(RX, HS_E_SYNTAX, s.p, "expects [..] x [..]");
  return mlir_ints_of(R, part[0], &out[0], NULL) && mlir_ints_of(R, part[1], &out[1], NULL);
}

// #stablehlo.dot_algorithm<lhs_precision_type = bf16, ..> as one of HLO's algorithms, whose names
// are made of the types and of how many products there are for one.
static bool algorithm_of(mlir_reader *R, const mlir_op *op, mlir_hlo_attrs *attrs) {
  static const char *const keys[3] = {"algorithm.lhs_precision_type",
                                      "algorithm.rhs_precision_type",
                                      "algorithm.accumulation_type"};
  i64 products = 1, fast = 0;
  mlir_span s, type[3];
  for (u32 k = 0; k < 3; k++)
    if (!mlir_get(R, &op->attrs, keys[k], &type[k]))
      return mlir_fail(R, HS_E_ATTR, "an algorithm of dot without %s", strchr(keys[k], '.') + 1);
  if (!mlir_get_int(R, op, "algorithm.num_primitive_operations", &products) ||
      !mlir_get_int(R, op, "algorithm.allow_imprecise_accumulation", &fast))
    return false;
  hs_buf name = {0};
  hs_buf_puts(&name, "dot");
  for (u32 k = 0; k < 3; k++) {
    s = type[k];
    if (k < 2 && s.n > 2 && !memcmp(s.p, "f8", 2)) hs_buf_puts(&name, "_any_f8");
    else hs_buf_printf(&name, "_%.*s", (int)s.n, s.p);
  }
  if (products > 1) hs_buf_printf(&name, "_x%lld", (long long)products);
  if (fast) hs_buf_puts(&name, "_fast_accum");
  hs_str text = {name.p, name.n};
  const hlo_attr a = {HLO_ATTR_ALGORITHM, {.i = hlo_enum_find(HLO_AK_ENUM_ALGORITHM, text, true)}};
  bool ok = a.v.i >= 0 ||
            mlir_fail(R, HS_E_NO_HLO, "the algorithm %s has no form in HLO", hs_buf_cstr(&name));
  hs_buf_free(&name);
  if (ok) hs_vec_push(attrs, a);
  return ok;
}

bool mlir_rule_dot_general(mlir_reader *R, mlir_op *op) {
  hlo_ints batch[2] = {{0, NULL}, {0, NULL}}, contract[2] = {{0, NULL}, {0, NULL}};
  hlo_instr **in;
  mlir_span s;
  mlir_hlo_attrs attrs = {0};
  if (!mlir_operands(R, op, &in)) return false;
  if (mlir_get(R, &op->attrs, "batching_dims", &s) && !pair_of(R, s, batch)) return false;
  if (mlir_get(R, &op->attrs, "contracting_dims", &s) && !pair_of(R, s, contract)) return false;
#define DOT "dot_dimension_numbers."
  if (!mlir_get_ints(R, op, DOT "lhs_batching_dimensions", &batch[0]) ||
      !mlir_get_ints(R, op, DOT "rhs_batching_dimensions", &batch[1]) ||
      !mlir_get_ints(R, op, DOT "lhs_contracting_dimensions", &contract[0]) ||
      !mlir_get_ints(R, op, DOT "rhs_contracting_dimensions", &contract[1]))
    return false;
#undef DOT
  const hlo_attr v[] = {{HLO_ATTR_LHS_BATCH_DIMS, {.ints = batch[0]}},
                        {HLO_ATTR_LHS_CONTRACTING_DIMS, {.ints = contract[0]}},
                        {HLO_ATTR_RHS_BATCH_DIMS, {.ints = batch[1]}},
                        {HLO_ATTR_RHS_CONTRACTING_DIMS, {.ints = contract[1]}}};
  for (u32 k = 0; k < HS_COUNT(v); k++)
    if (v[k].v.ints.n) hs_vec_push(&attrs, v[k]);
  if (mlir_has(R, &op->attrs, "algorithm") && !algorithm_of(R, op, &attrs)) {
    hs_vec_free(&attrs);
    return false;
  }
  return mlir_bind_results(R, op, emit_with(R, op, 2, in, &attrs));
}

bool mlir_rule_dot(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  if (!mlir_operands(R, op, &in)) return false;
  i64 left = (i64)in[0]->shape->rank - 1, right = 0;
  hs_vec_push(&attrs, mlir_ints_attr(R, HLO_ATTR_LHS_CONTRACTING_DIMS, 1, &left));
  hs_vec_push(&attrs, mlir_ints_attr(R, HLO_ATTR_RHS_CONTRACTING_DIMS, 1, &right));
  return mlir_bind_results(R, op, emit_with(R, op, 2, in, &attrs));
}

bool mlir_slice_ranges(mlir_reader *R, const mlir_op *op, u32 n, i64 *start, i64 *limit,
                       i64 *stride) {
  mlir_span s;
  u32 k = 0;
  if (mlir_get(R, &op->attrs, "ranges", &s)) {
    mlir_place was = mlir_enter(R, s);
    bool ok = hlo_accept(RX, '[');
    for (; ok && k < n; k++) {
      i64 unused, *high = limit ? limit + k : &unused;
      stride[k] = 1;
      ok = (!k || hlo_expect(RX, ',', "between ranges")) && hlo_int(RX, &start[k]) &&
           hlo_expect(RX, ':', "in a range") && hlo_int(RX, high) &&
           (!hlo_accept(RX, ':') || hlo_int(RX, &stride[k]));
    }
    ok = ok && hlo_expect(RX, ']', "after the ranges");
    mlir_leave(R, was);
    return ok;
  }
  hlo_ints a[3] = {{0, NULL}, {0, NULL}, {0, NULL}};
  if (!mlir_get_ints(R, op, "start_indices", &a[0]) ||
      !mlir_get_ints(R, op, "limit_indices", &a[1]) || !mlir_get_ints(R, op, "strides", &a[2]))
    return false;
  if (a[0].n != n || a[1].n != n || a[2].n != n)
    return hlo_lex_error(RX, HS_E_ATTR, op->at, "slice wants %u starts, limits and strides", n);
  for (; k < n; k++) {
    start[k] = a[0].v[k];
    if (limit) limit[k] = a[1].v[k];
    stride[k] = a[2].v[k];
  }
  return true;
}

bool mlir_rule_slice(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  i64 start[HLO_MAX_RANK], limit[HLO_MAX_RANK], stride[HLO_MAX_RANK];
  if (!mlir_operands(R, op, &in)) return false;
  u32 n = in[0]->shape->rank;
  if (!mlir_slice_ranges(R, op, n, start, limit, stride)) return false;
  hlo_slice_dim *v = HS_NEW_ARRAY(&R->m->arena, hlo_slice_dim, HS_MAX(n, 1u));
  for (u32 k = 0; k < n; k++) v[k] = (hlo_slice_dim){start[k], limit[k], stride[k]};
  hlo_slices *p = HS_NEW(&R->m->arena, hlo_slices);
  *p = (hlo_slices){n, v};
  hlo_attr at = {HLO_ATTR_SLICE, {.p = p}};
  return mlir_bind_results(R, op, mlir_emit(R, HLO_SLICE, op->res[0].shape, 1, in, 1, &at));
}

bool mlir_rule_pad(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  hlo_ints a[3] = {{0, NULL}, {0, NULL}, {0, NULL}};
  if (!mlir_operands(R, op, &in) || !mlir_get_ints(R, op, "low|edge_padding_low", &a[0]) ||
      !mlir_get_ints(R, op, "high|edge_padding_high", &a[1]) ||
      !mlir_get_ints(R, op, "interior|interior_padding", &a[2]))
    return false;
  u32 n = in[0]->shape->rank;
  if (a[0].n != n || a[1].n != n || a[2].n != n)
    return mlir_fail(R, HS_E_ATTR, "pad wants %u entries each", n);
  hlo_pad_dim *v = HS_NEW_ARRAY(&R->m->arena, hlo_pad_dim, HS_MAX(n, 1u));
  for (u32 k = 0; k < n; k++) v[k] = (hlo_pad_dim){a[0].v[k], a[1].v[k], a[2].v[k]};
  hlo_padding *p = HS_NEW(&R->m->arena, hlo_padding);
  *p = (hlo_padding){n, v};
  hlo_attr at = {HLO_ATTR_PADDING, {.p = p}};
  return mlir_bind_results(R, op, mlir_emit(R, HLO_PAD, op->res[0].shape, 2, in, 1, &at));
}

bool mlir_rule_cholesky(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  i64 lower = 0;
  if (!mlir_operands(R, op, &in) || !mlir_get_int(R, op, "lower", &lower)) return false;
  hlo_attr a = {HLO_ATTR_LOWER, {.i = lower}};
  return mlir_bind_results(R, op,
                           mlir_emit(R, HLO_CHOLESKY, op->res[0].shape, 1, in, lower != 0, &a));
}

bool mlir_rule_reduce_precision(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  hlo_attr a[2] = {{HLO_ATTR_EXPONENT_BITS, {0}}, {HLO_ATTR_MANTISSA_BITS, {0}}};
  mlir_span s;
  if (!mlir_operands(R, op, &in)) return false;
  if (mlir_get(R, &op->attrs, "format", &s)) {  // e5m10
    mlir_place was = mlir_enter(R, s);
    bool ok = hlo_accept(RX, 'e') && hlo_int(RX, &a[0].v.i) && hlo_accept(RX, 'm') &&
              hlo_int(RX, &a[1].v.i);
    mlir_leave(R, was);
    if (!ok) return hlo_lex_error(RX, HS_E_ATTR, s.p, "expects a format like e5m10");
  } else if (!mlir_get_int(R, op, "exponent_bits", &a[0].v.i) ||
             !mlir_get_int(R, op, "mantissa_bits", &a[1].v.i)) {
    return false;
  }
  return mlir_bind_results(R, op,
                           mlir_emit(R, HLO_REDUCE_PRECISION, op->res[0].shape, 1, in, 2, a));
}

bool mlir_rule_barrier(mlir_reader *R, mlir_op *op) {
  hlo_instr **in, *one;
  if (!mlir_operands(R, op, &in)) return false;
  one = op->nops == 1 ? in[0] : mlir_tuple(R, op->nops, in);
  return one && mlir_bind_results(R, op, mlir_emit(R, HLO_OPT_BARRIER, NULL, 1, &one, 0, NULL));
}

bool mlir_rule_rng_bits(mlir_reader *R, mlir_op *op) { return mlir_rule_direct(R, op); }

bool mlir_rule_rng(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_span s;
  if (!mlir_operands(R, op, &in)) return false;
  if (op->nops < 2 || !mlir_get(R, &op->attrs, "distribution|rng_distribution", &s))
    return mlir_fail(R, HS_E_ATTR, "rng without a distribution");
  bool normal = hs_str_eq(mlir_enum_of(s), HS_STR("NORMAL"));
  hlo_attr a = {HLO_ATTR_DISTRIBUTION,
                {.i = normal ? HLO_DISTRIBUTION_NORMAL : HLO_DISTRIBUTION_UNIFORM}};
  return mlir_bind_results(R, op, mlir_emit(R, HLO_RNG, op->res[0].shape, 2, in, 1, &a));
}

bool mlir_rule_top_k(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  i64 k = 0, largest = 1;
  if (!mlir_operands(R, op, &in) || !mlir_get_int(R, op, "k", &k) ||
      !mlir_get_int(R, op, "largest", &largest))
    return false;
  hlo_attr a[2] = {{HLO_ATTR_K, {.i = k}}, {HLO_ATTR_LARGEST, {.i = largest}}};
  return mlir_bind_results(R, op, mlir_emit(R, HLO_TOPK, mlir_result_shape(R, op), 1, in, 2, a));
}

// A product whose rows or contracted parts come in groups.
bool mlir_rule_ragged_dot(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  return mlir_operands(R, op, &in) && mlir_finish(R, op, true, op->nops, in, &attrs);
}

// ---- chlo that is more than one instruction -----------------------------------------------------
bool mlir_rule_chlo_conj(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  if (!mlir_operands(R, op, &in) || op->nops != 1) return false;
  if (!hlo_dtype_is_complex(in[0]->shape->dtype)) return mlir_bind(R, &op->res[0], in[0]), true;
  hlo_instr *re = mlir_emit(R, HLO_REAL, NULL, 1, in, 0, NULL),
            *im = re ? mlir_emit(R, HLO_IMAG, NULL, 1, in, 0, NULL) : NULL,
            *neg = im ? mlir_emit(R, HLO_NEGATE, NULL, 1, &im, 0, NULL) : NULL;
  hlo_instr *both[2] = {re, neg};
  return neg &&
         mlir_bind_results(R, op, mlir_emit(R, HLO_COMPLEX, op->res[0].shape, 2, both, 0, NULL));
}

// The shapes are equal, or one of them is a scalar.
bool mlir_rule_chlo_binary(mlir_reader *R, mlir_op *op) { return spread_all(R, op); }
