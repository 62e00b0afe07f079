// constant_ops.c — operations on constants, computed while they are read, as XLA does on the way:
// arithmetic up to a size, functions of a few kinds in double precision, and what moves elements.
// What it leaves for the compiler stays an operation here too.
#include "core/mlir/tree.h"

#include <math.h>

enum { LARGEST = 65536 };  // elements, unless all are equal

typedef struct operand {
  const hlo_literal *l;
  bool one;  // a scalar for all elements
} operand;

static operand operand_of(mlir_reader *R, mlir_op *op, u32 k) {
  operand o = {mlir_constant_of(R, op->ops[k]), false};
  o.one = o.l && o.l->shape->rank == 0;
  return o;
}

// A literal for the result: a scalar when the operands are.
static hlo_literal *result_of(mlir_reader *R, const mlir_op *op, bool one) {
  const hlo_shape *s = op->res[0].shape;
  hlo_literal *l = NULL;
  if (one) s = hlo_shape_scalar(R->ctx, s->dtype);
  return hlo_lex_status(RX, hlo_literal_new(s, &l), op->at) ? l : NULL;
}

// ---- arithmetic ---------------------------------------------------------------------------------
static double sign(double v) { return v > 0 ? 1 : v < 0 ? -1 : v; }
static double logistic(double v) { return 1 / (1 + exp(-v)); }
static double rsqrt_of(double v) { return 1 / sqrt(v); }
static double minus(double v) { return -v; }

typedef enum domain { ANY, NOT_NEGATIVE, POSITIVE } domain;
static const struct {
  hlo_opcode op;
  double (*f)(double);
  domain domain;
} functions[] = {
    {HLO_NEGATE, minus, ANY},    {HLO_SIGN, sign, ANY},
    {HLO_ROUND_EVEN, rint, ANY}, {HLO_ROUND_AFZ, round, ANY},
    {HLO_COSINE, cos, ANY},      {HLO_ERF, erf, ANY},
    {HLO_EXP, exp, ANY},         {HLO_LOGISTIC, logistic, ANY},
    {HLO_LOG, log, POSITIVE},    {HLO_RSQRT, rsqrt_of, POSITIVE},
    {HLO_SIN, sin, ANY},         {HLO_SQRT, sqrt, NOT_NEGATIVE},
    {HLO_TAN, tan, ANY},         {HLO_TANH, tanh, ANY},
};

static bool float_function(mlir_op *op, const hlo_literal *in, hlo_literal *out) {
  for (size_t k = 0; k < HS_COUNT(functions); k++) {
    if (functions[k].op != op->row->opcode) continue;
    for (i64 j = 0; j < in->shape->elements; j++) {
      double v = hlo_literal_f64(in, j);
      if ((functions[k].domain == POSITIVE && !(v > 0)) ||
          (functions[k].domain == NOT_NEGATIVE && !(v >= 0)))
        return false;
      hlo_literal_set_f64(out, j, functions[k].f(v));
    }
    return true;
  }
  return false;
}

static bool int_function(mlir_op *op, const hlo_literal *in, hlo_literal *out) {
  for (i64 j = 0; j < in->shape->elements; j++) {
    i64 v = hlo_literal_i64(in, j);
    switch (op->row->opcode) {
    case HLO_NEGATE: v = (i64)(0 - (u64)v); break;
    case HLO_NOT: v = in->shape->dtype == HLO_PRED ? !v : ~v; break;
    case HLO_SIGN: v = hlo_dtype_is_signed(in->shape->dtype) ? (v > 0) - (v < 0) : v != 0; break;
    default: return false;
    }
    hlo_literal_set_i64(out, j, v);
  }
  return true;
}

static bool float_binary(hlo_opcode op, double a, double b, double *out) {
  switch (op) {
  case HLO_ADD: return *out = a + b, true;
  case HLO_SUBTRACT: return *out = a - b, true;
  case HLO_MULTIPLY: return *out = a * b, true;
  case HLO_DIVIDE: return *out = a / b, true;
  case HLO_REMAINDER: return *out = fmod(a, b), true;
  case HLO_MAXIMUM: return *out = isnan(a) ? a : isnan(b) ? b : a > b ? a : b, true;
  case HLO_MINIMUM: return *out = isnan(a) ? a : isnan(b) ? b : a < b ? a : b, true;
  default: return false;
  }
}

static bool int_binary(hlo_opcode op, bool is_signed, i64 a, i64 b, i64 *out) {
  u64 ua = (u64)a, ub = (u64)b;
  bool less = is_signed ? a < b : ua < ub;
  switch (op) {
  case HLO_ADD: return *out = (i64)(ua + ub), true;
  case HLO_SUBTRACT: return *out = (i64)(ua - ub), true;
  case HLO_MULTIPLY: return *out = (i64)(ua * ub), true;
  case HLO_MAXIMUM: return *out = less ? b : a, true;
  case HLO_MINIMUM: return *out = less ? a : b, true;
  case HLO_AND: return *out = a & b, true;
  case HLO_OR: return *out = a | b, true;
  case HLO_XOR: return *out = a ^ b, true;
  case HLO_DIVIDE:
  case HLO_REMAINDER:
    // these are errors, or have no value
    if (!b || (is_signed && b == -1)) return false;
    if (op == HLO_DIVIDE) *out = is_signed ? a / b : (i64)(ua / ub);
    else *out = is_signed ? a % b : (i64)(ua % ub);
    return true;
  default: return false;
  }
}

static bool binary(mlir_op *op, operand a, operand b, hlo_literal *out) {
  hlo_dtype t = a.l->shape->dtype;
  hlo_opcode code = op->row->opcode;
  for (i64 k = 0; k < out->shape->elements; k++) {
    i64 i = a.one ? 0 : k, j = b.one ? 0 : k;
    if (hlo_dtype_is_float(t)) {
      double v;
      if (!float_binary(code, hlo_literal_f64(a.l, i), hlo_literal_f64(b.l, j), &v)) return false;
      hlo_literal_set_f64(out, k, v);
    } else {
      i64 v;
      if (t == HLO_PRED && code != HLO_AND && code != HLO_OR && code != HLO_XOR) return false;
      if (!int_binary(code, hlo_dtype_is_signed(t), hlo_literal_i64(a.l, i),
                      hlo_literal_i64(b.l, j), &v))
        return false;
      hlo_literal_set_i64(out, k, v);
    }
  }
  return true;
}

static bool compare(mlir_reader *R, mlir_op *op, operand a, operand b, hlo_literal *out) {
  mlir_span s;
  if (!mlir_get(R, &op->attrs, "comparison_direction|word0", &s)) return false;
  i64 direction = hlo_enum_find(HLO_AK_ENUM_DIRECTION, mlir_enum_of(s), true);
  hlo_dtype t = a.l->shape->dtype;
  if (hlo_dtype_is_complex(t)) return false;
  if (mlir_get(R, &op->attrs, "compare_type|word1", &s) &&
      hs_str_eq(mlir_enum_of(s), HS_STR("TOTALORDER")))
    return false;
  for (i64 k = 0; k < out->shape->elements; k++) {
    i64 i = a.one ? 0 : k, j = b.one ? 0 : k;
    bool less, equal, known = true;
    if (hlo_dtype_is_float(t)) {
      double x = hlo_literal_f64(a.l, i), y = hlo_literal_f64(b.l, j);
      less = x < y, equal = x == y, known = !isnan(x) && !isnan(y);
    } else {
      i64 x = hlo_literal_i64(a.l, i), y = hlo_literal_i64(b.l, j);
      less = hlo_dtype_is_signed(t) ? x < y : (u64)x < (u64)y;
      equal = x == y;
    }
    bool v = direction == HLO_DIRECTION_EQ   ? equal
             : direction == HLO_DIRECTION_NE ? !equal
             : direction == HLO_DIRECTION_LT ? less
             : direction == HLO_DIRECTION_LE ? less || equal
             : direction == HLO_DIRECTION_GT ? known && !less && !equal
                                             : known && !less;
    hlo_literal_set_i64(out, k, v);
  }
  return direction >= 0;
}

static bool pick(operand p, operand t, operand f, hlo_literal *out) {
  size_t size = hlo_dtype_storage(out->shape->dtype);
  for (i64 k = 0; k < out->shape->elements; k++) {
    operand from = hlo_literal_i64(p.l, p.one ? 0 : k) ? t : f;
    memcpy((u8 *)out->data + (size_t)k * size,
           (u8 *)from.l->data + (from.one ? 0 : (size_t)k * size), size);
  }
  return true;
}

static bool convert(const hlo_literal *in, hlo_literal *out) {
  hlo_dtype t = in->shape->dtype, to = out->shape->dtype;
  if (hlo_dtype_is_complex(t) || hlo_dtype_is_complex(to)) return false;
  for (i64 k = 0; k < in->shape->elements; k++) {
    if (to == HLO_PRED) hlo_literal_set_i64(out, k, hlo_literal_f64(in, k) != 0);
    else if (hlo_dtype_is_float(t) || hlo_dtype_is_float(to)) {
      double v = hlo_literal_f64(in, k);
      if (!hlo_dtype_is_float(to) && !(fabs(v) < 0x1p62)) return false;
      if (hlo_dtype_is_float(to)) hlo_literal_set_f64(out, k, v);
      else hlo_literal_set_i64(out, k, (i64)v);
    } else {
      hlo_literal_set_i64(out, k, hlo_literal_i64(in, k));
    }
  }
  return true;
}

// ---- moving elements ----------------------------------------------------------------------------
// Element k of the result is element start + sum of index * step of the operand.
static void move(const hlo_literal *in, hlo_literal *out, i64 start, const i64 *step) {
  const hlo_shape *s = out->shape;
  size_t size = hlo_dtype_storage(s->dtype);
  i64 index[HLO_MAX_RANK] = {0}, at = start;
  for (i64 k = 0; k < s->elements; k++) {
    memcpy((u8 *)out->data + (size_t)k * size, (u8 *)in->data + (size_t)at * size, size);
    for (u32 d = s->rank; d-- > 0;) {
      at += step[d];
      if (++index[d] < s->dims[d]) break;
      at -= step[d] * s->dims[d];
      index[d] = 0;
    }
  }
}

static bool transpose(mlir_reader *R, mlir_op *op, const hlo_literal *in, hlo_literal *out) {
  hlo_ints p = {0, NULL};
  i64 strides[HLO_MAX_RANK], step[HLO_MAX_RANK];
  const hlo_shape *s = in->shape;
  if (!mlir_get_ints(R, op, "dims|permutation", &p) || p.n != s->rank) return false;
  hlo_row_major_strides(s->rank, s->dims, strides);
  for (u32 k = 0; k < p.n; k++) {
    if (p.v[k] < 0 || p.v[k] >= s->rank || s->dims[p.v[k]] != out->shape->dims[k]) return false;
    step[k] = strides[p.v[k]];
  }
  return move(in, out, 0, step), true;
}

static bool slice(mlir_reader *R, mlir_op *op, const hlo_literal *in, hlo_literal *out) {
  i64 start[HLO_MAX_RANK], stride[HLO_MAX_RANK], strides[HLO_MAX_RANK], step[HLO_MAX_RANK], at = 0;
  const hlo_shape *s = in->shape;
  if (!mlir_slice_ranges(R, op, s->rank, start, NULL, stride)) return false;
  hlo_row_major_strides(s->rank, s->dims, strides);
  for (u32 k = 0; k < s->rank; k++) {
    i64 n = out->shape->dims[k];
    if (start[k] < 0 || stride[k] < 1 || (n && start[k] + (n - 1) * stride[k] >= s->dims[k]))
      return false;
    at += start[k] * strides[k];
    step[k] = stride[k] * strides[k];
  }
  return move(in, out, at, step), true;
}

static bool concatenate(mlir_reader *R, mlir_op *op, hlo_literal *out) {
  hlo_ints dim = {0, NULL};
  const hlo_shape *s = out->shape;
  if (!mlir_get_ints(R, op, "dim|dimension", &dim) || dim.n != 1 || dim.v[0] < 0 ||
      dim.v[0] >= s->rank)
    return false;
  size_t size = hlo_dtype_storage(s->dtype), row = 0, inner = size, outer = 1;
  for (u32 k = 0; k < s->rank; k++) {
    if (k < dim.v[0]) outer *= (size_t)s->dims[k];
    if (k > dim.v[0]) inner *= (size_t)s->dims[k];
  }
  size_t whole = inner * (size_t)s->dims[dim.v[0]];
  for (u32 k = 0; k < op->nops; k++) {
    operand o = operand_of(R, op, k);
    if (op->ops[k]->shape->rank != s->rank) return false;
    size_t part = inner * (size_t)op->ops[k]->shape->dims[dim.v[0]];
    if (row + part > whole || o.l->shape->dtype != s->dtype ||
        (!o.one && o.l->bytes != outer * part))
      return false;
    for (size_t i = 0; i < outer; i++) {
      u8 *to = (u8 *)out->data + i * whole + row;
      if (!o.one) memcpy(to, (u8 *)o.l->data + i * part, part);
      for (size_t j = 0; o.one && j < part; j += size) memcpy(to + j, o.l->data, size);
    }
    row += part;
  }
  return row == whole;
}

// ---- the choice ---------------------------------------------------------------------------------
static bool fold(mlir_reader *R, mlir_op *op, const operand *o, hlo_literal *out) {
  // what moves no elements wants operands of the result's size; a text may say anything
  bool moves = op->row->opcode == HLO_TRANSPOSE || op->row->opcode == HLO_SLICE ||
               op->row->opcode == HLO_CONCATENATE;
  for (u32 k = 0; k < op->nops && !moves; k++) {
    if (!o[k].one && o[k].l->shape->elements != out->shape->elements) return false;
    if (op->row->opcode != HLO_SELECT && o[k].l->shape->dtype != o[0].l->shape->dtype) return false;
  }
  bool same = op->row->opcode != HLO_CONVERT && op->row->opcode != HLO_COMPARE;
  for (u32 k = op->row->opcode == HLO_SELECT; k < op->nops && k < 3 && same; k++)
    if (o[k].l->shape->dtype != out->shape->dtype) return false;
  bool floats = hlo_dtype_is_float(o[0].l->shape->dtype);
  switch (op->row->opcode) {
  case HLO_CONVERT: return convert(o[0].l, out);
  case HLO_RESHAPE:
  case HLO_BROADCAST: return memcpy(out->data, o[0].l->data, out->bytes), true;
  case HLO_TRANSPOSE:
    if (o[0].one) return memcpy(out->data, o[0].l->data, out->bytes), true;
    return transpose(R, op, o[0].l, out);
  case HLO_SLICE:
    if (o[0].one) return memcpy(out->data, o[0].l->data, out->bytes), true;
    return slice(R, op, o[0].l, out);
  case HLO_CONCATENATE: return concatenate(R, op, out);
  case HLO_COMPARE: return compare(R, op, o[0], o[1], out);
  case HLO_SELECT: return pick(o[0], o[1], o[2], out);
  default: break;
  }
  if (hlo_dtype_is_complex(o[0].l->shape->dtype)) return false;
  if (op->nops == 2) return binary(op, o[0], o[1], out);
  return floats ? float_function(op, o[0].l, out) : int_function(op, o[0].l, out);
}

static bool foldable(const mlir_op *op) {
  static const hlo_opcode binaries[] = {HLO_ADD,       HLO_SUBTRACT, HLO_MULTIPLY, HLO_DIVIDE,
                                        HLO_REMAINDER, HLO_MAXIMUM,  HLO_MINIMUM,  HLO_AND,
                                        HLO_OR,        HLO_XOR,      HLO_COMPARE};
  static const hlo_opcode moves[] = {HLO_CONVERT, HLO_RESHAPE, HLO_TRANSPOSE, HLO_SLICE, HLO_NOT};
  if (op->row->opcode == HLO_CONCATENATE) return op->nops > 1;
  if (op->row->opcode == HLO_SELECT) return op->nops == 3;
  for (size_t k = 0; k < HS_COUNT(binaries); k++)
    if (op->row->opcode == binaries[k]) return op->nops == 2;
  for (size_t k = 0; k < HS_COUNT(moves); k++)
    if (op->row->opcode == moves[k]) return op->nops == 1;
  for (size_t k = 0; k < HS_COUNT(functions); k++)
    if (op->row->opcode == functions[k].op) return op->nops == 1;
  return false;
}

bool mlir_fold_constant(mlir_reader *R, mlir_op *op) {
  enum { MOST = 64 };
  operand few[3] = {{0}};
  bool broadcast = op->row->opcode == HLO_BROADCAST && op->nops == 1;
  if ((!foldable(op) && !broadcast) || op->nres != 1 || op->nregions || !op->res[0].shape ||
      !hlo_shape_is_array(op->res[0].shape) || op->res[0].shape->dynamic || op->nops > MOST)
    return false;
  bool one = true;
  i64 most = op->res[0].shape->elements;
  for (u32 k = 0; k < op->nops; k++)
    if (!mlir_is_constant(mlir_real(op->ops[k]))) return false;
  for (u32 k = 0; k < op->nops; k++) {
    operand o = operand_of(R, op, k);
    if (!o.l) return false;
    one &= o.one;
    most = HS_MAX(most, op->ops[k]->shape->elements);
    if (k < HS_COUNT(few)) few[k] = o;
  }
  if (op->row->opcode == HLO_CONCATENATE) {
    u8 *first = few[0].l->data;
    for (u32 k = 0; k < op->nops && one; k++)
      one = !memcmp(operand_of(R, op, k).l->data, first, few[0].l->bytes);
  }
  if (broadcast && !one) return false;
  if (!one && most > LARGEST) return false;
  if (op->res[0].shape->elements == 0) return false;
  // a part of one value for all is that value
  if (!one && op->row->opcode == HLO_RESHAPE && few[0].l->shape->elements != most) return false;
  hlo_literal *out = result_of(R, op, one);
  if (!out) return false;
  if (one && op->row->opcode == HLO_CONCATENATE) memcpy(out->data, few[0].l->data, out->bytes);
  else if (!fold(R, op, few, out)) return hlo_literal_unref(out), false;
  mlir_make_constant(R, op, out);
  return true;
}
