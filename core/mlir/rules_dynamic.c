// rules_dynamic.c — operations whose sizes are operands. Where those are known (known.c), or
// follow from the type of the result, the operation is the one with attributes in their place; a
// reshape to sizes known only when it runs is HLO's dynamic-reshape, and what else depends on such
// sizes HLO cannot say. Besides them the old spellings einsum and torch_index_select.
#include "core/mlir/rules.h"

// Numbers of operands stand for {0}, {1}, ... in its message.
bool mlir_size_assertion(mlir_reader *R, const mlir_op *op, bool *done) {
  i64 holds, size;
  hs_str text = {0};
  *done = op->nops && !op->nres && mlir_known_size(R, op->ops[0], &holds);
  if (!*done || holds) return !RX->failed;
  if (!mlir_get_string(R, &op->attrs, "error_message", &text)) return false;
  hs_buf b = {0};
  for (size_t k = 0; k < text.n; k++) {
    u32 which = k + 2 < text.n && text.p[k] == '{' && text.p[k + 2] == '}'
                    ? (u32)(text.p[k + 1] - '0') + 1
                    : 0;
    if (which && which < op->nops && mlir_known_size(R, op->ops[which], &size))
      hs_buf_i64(&b, size), k += 2;
    else hs_buf_putc(&b, text.p[k]);
  }
  mlir_fail(R, HS_E_SHAPE, "%s", hs_buf_cstr(&b));
  hs_buf_free(&b);
  return false;
}

// ---- the operation with attributes --------------------------------------------------------------
static bool refuse(mlir_reader *R, const mlir_op *op) {
  return RX->failed
             ? false
             : mlir_fail(R, HS_E_NO_HLO, "%.*s with sizes that are not known has no form in HLO%s",
                         (int)HS_MIN(op->name.n, 60u), op->name.p,
                         R->opt.sizes ? "" : ": load --sizes=PARAM.DIM=N,... states them");
}

// Converts it as operation `name` with its first `nops` operands; operand nops + k becomes
// attribute names[k].
static bool as_static(mlir_reader *R, mlir_op *op, const char *name, u32 nops, u32 nnames,
                      const char *const *names) {
  mlir_op like = *op;
  if (op->nops < nops + nnames)
    return mlir_fail(R, HS_E_ARITY, "%.*s has %u operands", (int)HS_MIN(op->name.n, 60u),
                     op->name.p, op->nops);
  mlir_attr *v = HS_NEW_ARRAY(&R->arena, mlir_attr, op->attrs.n + nnames);
  for (u32 k = 0; k < nnames; k++) {
    v[k].name = hs_str_of(names[k]);
    if (!mlir_known_text(R, op->ops[nops + k], &v[k].value)) return refuse(R, op);
  }
  for (u32 k = 0; k < op->attrs.n; k++) v[nnames + k] = op->attrs.v[k];
  like.attrs = (mlir_attrs){op->attrs.n + nnames, v};
  like.nops = nops;
  like.row = mlir_find_row(hs_str_of(name));
  const mlir_op *was = R->op;
  R->op = &like;
  bool ok = like.row && like.row->rule(R, &like);
  R->op = was;
  return ok;
}

// The sizes that an operand states become those of the result's type.
static bool sized_by(mlir_reader *R, mlir_op *op, u32 operand, bool *static_now) {
  const hlo_shape *s = op->res[0].shape;
  *static_now = !s->dynamic;
  if (*static_now || operand >= op->nops) return true;
  mlir_numbers n = {0};
  if (mlir_known(R, op->ops[operand], &n) && n.n == s->rank) {
    *static_now = true;
    for (size_t k = 0; k < n.n; k++)
      *static_now &= n.v[k] >= 0 && (s->dims[k] == HLO_UNBOUNDED || s->dims[k] >= n.v[k]);
    if (*static_now && hlo_lex_status(RX, hlo_shape_check_limits(s->dtype, s->rank, n.v), op->at))
      op->res[0].shape = hlo_shape_array(R->ctx, s->dtype, s->rank, n.v);
  }
  hs_vec_free(&n);
  return !RX->failed;
}

bool mlir_rule_dynamic_broadcast(mlir_reader *R, mlir_op *op) {
  bool fixed;
  if (!sized_by(R, op, 1, &fixed)) return false;
  return fixed ? as_static(R, op, "stablehlo.broadcast_in_dim", 1, 0, NULL) : refuse(R, op);
}

bool mlir_rule_dynamic_iota(mlir_reader *R, mlir_op *op) {
  bool fixed;
  if (!sized_by(R, op, 0, &fixed)) return false;
  return fixed ? as_static(R, op, "stablehlo.iota", 0, 0, NULL) : refuse(R, op);
}

// Element k of a vector as a scalar.
static hlo_instr *element(mlir_reader *R, hlo_instr *v, i64 k, hlo_dtype t) {
  hlo_slice_dim *d = HS_NEW(&R->m->arena, hlo_slice_dim);
  hlo_slices *p = HS_NEW(&R->m->arena, hlo_slices);
  *d = (hlo_slice_dim){k, k + 1, 1};
  *p = (hlo_slices){1, d};
  hlo_attr a = {HLO_ATTR_SLICE, {.p = p}};
  hlo_instr *i = mlir_emit(R, HLO_SLICE, NULL, 1, &v, 1, &a);
  if (i) i = mlir_emit(R, HLO_RESHAPE, hlo_shape_scalar(R->ctx, i->shape->dtype), 1, &i, 0, NULL);
  if (i && i->shape->dtype != t)
    i = mlir_emit(R, HLO_CONVERT, hlo_shape_scalar(R->ctx, t), 1, &i, 0, NULL);
  return i;
}

bool mlir_rule_dynamic_reshape(mlir_reader *R, mlir_op *op) {
  bool fixed;
  hlo_instr **in;
  if (!sized_by(R, op, 1, &fixed)) return false;
  if (fixed) return as_static(R, op, "stablehlo.reshape", 1, 0, NULL);
  const hlo_shape *s = op->res[0].shape, *sizes = op->nops == 2 ? op->ops[1]->shape : NULL;
  for (u32 k = 0; k < s->rank; k++)
    if (s->dims[k] == HLO_UNBOUNDED) return refuse(R, op);
  if (!sizes || sizes->rank != 1 || sizes->dims[0] != s->rank) return refuse(R, op);
  if (!mlir_operands(R, op, &in)) return false;
  hlo_instr **all = HS_NEW_ARRAY(&R->arena, hlo_instr *, s->rank + 1);
  all[0] = in[0];
  for (u32 k = 0; k < s->rank; k++)
    if (!(all[k + 1] = element(R, in[1], k, HLO_S32))) return false;
  return mlir_bind_results(R, op, mlir_emit(R, HLO_DYNAMIC_RESHAPE, s, s->rank + 1, all, 0, NULL));
}

bool mlir_rule_dynamic_pad(mlir_reader *R, mlir_op *op) {
  static const char *const names[] = {"edge_padding_low", "edge_padding_high", "interior_padding"};
  return as_static(R, op, "stablehlo.pad", 2, 3, names);
}

bool mlir_dynamic_reduce_window(mlir_reader *R, mlir_op *op) {
  static const char *const names[] = {"window_dimensions", "window_strides", "base_dilations",
                                      "window_dilations", "padding"};
  return as_static(R, op, "stablehlo.reduce_window", 2 * op->nres, HS_COUNT(names), names);
}

bool mlir_rule_dynamic_gather(mlir_reader *R, mlir_op *op) {
  static const char *const names[] = {"slice_sizes"};
  return as_static(R, op, "stablehlo.gather", 2, 1, names);
}

bool mlir_rule_dynamic_conv(mlir_reader *R, mlir_op *op) {
  static const char *const names[] = {"padding"};
  return as_static(R, op, "stablehlo.convolution", 2, 1, names);
}

// The sizes of a slice that begins where only the run can tell: its type's, or what is added to the
// start to give the limit.
static bool slice_sizes(mlir_reader *R, const mlir_op *op, mlir_numbers *out) {
  const hlo_shape *to = op->res[0].shape;
  for (u32 k = 0; !to->dynamic && k < to->rank; k++) hs_vec_push(out, to->dims[k]);
  if (!to->dynamic) return true;
  const mlir_op *sum = mlir_real(op->ops[2])->def;
  if (!sum || sum->row->opcode != HLO_ADD || sum->nops != 2) return false;
  bool first = mlir_real(sum->ops[0]) == mlir_real(op->ops[1]);
  return (first || mlir_real(sum->ops[1]) == mlir_real(op->ops[1])) &&
         mlir_known(R, sum->ops[first], out);
}

// With starts that are not known but sizes that are: dynamic-slice.
bool mlir_rule_real_dynamic_slice(mlir_reader *R, mlir_op *op) {
  static const char *const names[] = {"start_indices", "limit_indices", "strides"};
  mlir_span s;
  hlo_instr **in;
  if (op->nops == 4 && mlir_known_text(R, op->ops[1], &s) && mlir_known_text(R, op->ops[2], &s))
    return as_static(R, op, "stablehlo.slice", 1, 3, names);
  mlir_numbers strides = {0}, sizes = {0};
  u32 rank = op->res[0].shape->rank;
  bool ok = op->nops == 4 && mlir_known(R, op->ops[3], &strides) && slice_sizes(R, op, &sizes) &&
            strides.n == rank && sizes.n == rank && op->ops[1]->shape->rank == 1;
  for (size_t k = 0; k < strides.n; k++) ok &= strides.v[k] == 1;
  hlo_attr a = ok ? mlir_ints_attr(R, HLO_ATTR_DYNAMIC_SLICE_SIZES, rank, sizes.v) : (hlo_attr){0};
  hs_vec_free(&strides);
  hs_vec_free(&sizes);
  if (!ok) return refuse(R, op);
  if (!mlir_operands(R, op, &in)) return false;
  hlo_instr **all = HS_NEW_ARRAY(&R->arena, hlo_instr *, rank + 1);
  all[0] = in[0];
  for (u32 k = 0; k < rank; k++)
    if (!(all[k + 1] = element(R, in[1], k, in[1]->shape->dtype))) return false;
  return mlir_bind_results(R, op,
                           mlir_emit(R, HLO_DYNAMIC_SLICE, op->res[0].shape, rank + 1, all, 1, &a));
}

// ---- einsum -------------------------------------------------------------------------------------
typedef struct labels {
  u32 n;
  char v[HLO_MAX_RANK];
} labels;

static i64 find_label(const labels *l, char c) {
  for (u32 k = 0; k < l->n; k++)
    if (l->v[k] == c) return k;
  return -1;
}

// "ab,bc->ac"
static bool read_labels(hs_str s, labels part[3]) {
  u32 at = 0;
  for (size_t k = 0; k < s.n; k++) {
    char c = s.p[k];
    if (c == ',' && at == 0) at = 1;
    else if (c == '-' && at == 1 && k + 1 < s.n && s.p[k + 1] == '>') at = 2, k++;
    else if (((c | 32) >= 'a' && (c | 32) <= 'z') && part[at].n < HLO_MAX_RANK &&
             find_label(&part[at], c) < 0)
      part[at].v[part[at].n++] = c;
    else if (c != ' ') return false;
  }
  return at == 2;
}

bool mlir_rule_einsum(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  hs_str config = {0};
  labels part[3] = {{0}, {0}, {0}};
  if (!mlir_operands(R, op, &in) ||
      !mlir_get_string(R, &op->attrs, "config|einsum_config", &config))
    return false;
  bool ok = op->nops == 2 && read_labels(config, part);
  for (u32 k = 0; k < 2; k++) ok = ok && part[k].n == in[k]->shape->rank;
  i64 batch[2][HLO_MAX_RANK], contract[2][HLO_MAX_RANK], perm[HLO_MAX_RANK];
  u32 nbatch = 0, ncontract = 0, nmade = 0;
  char made[3 * HLO_MAX_RANK];
  for (u32 k = 0; ok && k < part[0].n; k++) {
    char c = part[0].v[k];
    i64 right = find_label(&part[1], c), out = find_label(&part[2], c);
    if (right >= 0 && out >= 0) {
      batch[0][nbatch] = k, batch[1][nbatch++] = right;
      made[nmade++] = c;
    } else if (right >= 0) {
      contract[0][ncontract] = k, contract[1][ncontract++] = right;
    }
  }
  for (u32 side = 0; ok && side < 2; side++) {
    for (u32 k = 0; k < part[side].n; k++) {
      char c = part[side].v[k];
      if (find_label(&part[1 - side], c) >= 0) continue;
      if (find_label(&part[2], c) < 0) ok = false;  // a sum over one operand
      made[nmade++] = c;
    }
  }
  bool sorted = true;
  for (u32 k = 0; ok && k < part[2].n; k++) {
    const char *at = memchr(made, part[2].v[k], nmade);
    if (!at) ok = false;
    else perm[k] = at - made, sorted &= perm[k] == k;
  }
  if (!ok || nmade != part[2].n)
    return mlir_fail(R, HS_E_NO_HLO, "einsum '%.*s' is not converted", (int)HS_MIN(config.n, 80u),
                     config.p);
  mlir_hlo_attrs attrs = {0};
  static const hlo_attr_id ids[2][2] = {
      {HLO_ATTR_LHS_BATCH_DIMS, HLO_ATTR_RHS_BATCH_DIMS},
      {HLO_ATTR_LHS_CONTRACTING_DIMS, HLO_ATTR_RHS_CONTRACTING_DIMS}};
  for (u32 side = 0; side < 2; side++) {
    if (nbatch) hs_vec_push(&attrs, mlir_ints_attr(R, ids[0][side], nbatch, batch[side]));
    if (ncontract) hs_vec_push(&attrs, mlir_ints_attr(R, ids[1][side], ncontract, contract[side]));
  }
  hlo_instr *i = NULL;
  if (mlir_row_attrs(R, op, &attrs))
    i = mlir_emit(R, HLO_DOT, sorted ? op->res[0].shape : NULL, 2, in, (u32)attrs.n, attrs.v);
  hs_vec_free(&attrs);
  if (i && !sorted) {
    hlo_attr a = mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, part[2].n, perm);
    i = mlir_emit(R, HLO_TRANSPOSE, op->res[0].shape, 1, &i, 1, &a);
  }
  return mlir_bind_results(R, op, i);
}

// Slices of one dimension by their numbers.
bool mlir_rule_index_select(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  i64 dim = 0, batch = 0, sizes[HLO_MAX_RANK], offset[HLO_MAX_RANK];
  if (!mlir_operands(R, op, &in) || !mlir_get_int(R, op, "dim", &dim) ||
      !mlir_get_int(R, op, "batch_dims", &batch))
    return false;
  const hlo_shape *s = in[0]->shape, *index = in[1]->shape;
  if (batch || dim < 0 || dim >= s->rank)
    return mlir_fail(R, HS_E_NO_HLO, "torch_index_select with batch dimensions is not converted");
  u32 n = 0;
  for (u32 k = 0; k < s->rank; k++) {
    sizes[k] = k == dim ? 1 : s->dims[k];
    if (k != dim) offset[n++] = k < dim ? k : k - 1 + index->rank;
  }
  hlo_attr a[] = {mlir_ints_attr(R, HLO_ATTR_OFFSET_DIMS, n, offset),
                  mlir_ints_attr(R, HLO_ATTR_COLLAPSED_SLICE_DIMS, 1, &dim),
                  mlir_ints_attr(R, HLO_ATTR_START_INDEX_MAP, 1, &dim),
                  {HLO_ATTR_INDEX_VECTOR_DIM, {.i = index->rank}},
                  mlir_ints_attr(R, HLO_ATTR_SLICE_SIZES, s->rank, sizes)};
  return mlir_bind_results(R, op,
                           mlir_emit(R, HLO_GATHER, op->res[0].shape, 2, in, HS_COUNT(a), a));
}
