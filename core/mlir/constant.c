// constant.c — constants among the operations: each is read once, and in a function there is one
// operation for equal ones, as MLIR's folder leaves them. One value for all elements is kept as a
// scalar, so that a broadcast of millions costs nothing.
#include "core/mlir/tree.h"

// dense<1.0>: neither a list nor bytes.
static bool one_value(mlir_reader *R, mlir_span s) {
  mlir_place was = mlir_enter(R, mlir_unalias(R, s));
  bool plain = hlo_accept_text(RX, "dense") && hlo_accept(RX, '<');
  char c = hlo_peek(RX);
  plain = plain && c != '[' && c != '"' && c != '>';
  mlir_leave(R, was);
  return plain;
}

static hlo_literal *scalar_of(mlir_reader *R, const hlo_literal *l) {
  hlo_literal *one;
  if (!hlo_lex_status(RX, hlo_literal_new(hlo_shape_scalar(R->ctx, l->shape->dtype), &one), NULL))
    return NULL;
  memcpy(one->data, l->data, one->bytes);
  return one;
}

const hlo_literal *mlir_constant_of(mlir_reader *R, mlir_value *v) {
  v = mlir_real(v);
  mlir_op *op = v->def;
  if (!op || op->row->opcode != HLO_CONSTANT) return NULL;
  if (op->literal) return op->literal;
  mlir_span s;
  hlo_literal *l = NULL;
  const hlo_shape *shape = v->shape;
  if (!shape || !hlo_shape_is_array(shape)) return NULL;
  if (!mlir_get(R, &op->attrs, "value", &s)) {
    hlo_lex_error(RX, HS_E_ATTR, op->at, "a constant without a value");
    return NULL;
  }
  bool share = !R->opt.as_written;
  if (share && shape->rank && !shape->dynamic && shape->elements && one_value(R, s))
    shape = hlo_shape_scalar(R->ctx, shape->dtype);
  if (!mlir_dense(R, s, shape, &l)) return NULL;
  if (share && l->shape->rank && hlo_literal_is_splat(l)) {
    hlo_literal *one = scalar_of(R, l);
    hlo_literal_unref(l);
    if (!(l = one)) return NULL;
  }
  hs_vec_push(&R->literals, l);
  return op->literal = l;
}

void mlir_make_constant(mlir_reader *R, mlir_op *op, hlo_literal *take) {
  if (take->shape->rank && hlo_literal_is_splat(take)) {
    hlo_literal *one = scalar_of(R, take);
    hlo_literal_unref(take);
    if (!one) return;
    take = one;
  }
  hs_vec_push(&R->literals, take);
  op->literal = take;
  op->row = mlir_find_row(HS_STR("stablehlo.constant"));
  op->nops = op->nregions = 0;
}

void mlir_share_constant(mlir_reader *R, mlir_op *op) {
  const hlo_literal *l = mlir_constant_of(R, &op->res[0]);
  if (!l) return;
  const u64 key[2] = {op->res[0].shape->serial, hlo_literal_hash(l)};
  mlir_op *first = mlir_names_find(&R->constants, (hs_str){(const char *)key, sizeof key}, NULL);
  if (!first) {
    const char *kept = hs_arena_dup(&R->arena, key, sizeof key);
    (void)mlir_names_add(&R->constants, (hs_str){kept, sizeof key}, op, 1);
  } else if (first != op && hlo_literal_equal(first->literal, l)) {
    op->res[0].same = &first->res[0];
  }
}

bool mlir_is_number(mlir_reader *R, mlir_value *v, double x) {
  const hlo_literal *l = mlir_is_constant(mlir_real(v)) ? mlir_constant_of(R, v) : NULL;
  return l && !l->shape->rank && !hlo_dtype_is_complex(l->shape->dtype) &&
         hlo_literal_is_all_f64(l, x);
}
