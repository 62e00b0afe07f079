// canonical.c — what XLA's conversion makes of operations before they become HLO: the patterns by
// which MLIR's canonicalizer rewrites them, as far as they decide what the module looks like. Each
// sees operands that are in their final form; a rewritten operation is looked at again (fold.c).
#include "core/mlir/tree.h"

// ---- rewriting ----------------------------------------------------------------------------------
static mlir_span ints_text(mlir_reader *R, u32 n, const i64 *v) {
  hs_buf b = {0};
  hs_buf_putc(&b, '[');
  for (u32 k = 0; k < n; k++) hs_buf_printf(&b, k ? ", %lld" : "%lld", (long long)v[k]);
  hs_buf_putc(&b, ']');
  mlir_span s = {hs_arena_strndup(&R->arena, b.p, b.n), b.n};
  hs_buf_free(&b);
  return s;
}

// The operation is now another one on `operand`; `attr` (NULL: none) is a list of integers.
static bool become(mlir_reader *R, mlir_op *op, const char *name, mlir_value *operand,
                   const char *attr, u32 n, const i64 *v) {
  op->row = mlir_find_row(hs_str_of(name));
  op->name = hs_str_of(name);
  op->ops = HS_NEW(&R->arena, mlir_value *);
  op->ops[0] = operand;
  op->nops = operand ? 1 : 0;
  op->attrs = (mlir_attrs){0};
  if (!attr) return true;
  mlir_attr *a = HS_NEW(&R->arena, mlir_attr);
  *a = (mlir_attr){hs_str_of(attr), ints_text(R, n, v)};
  op->attrs = (mlir_attrs){1, a};
  return true;
}

static bool same_as(mlir_op *op, mlir_value *v) {
  v = mlir_real(v);
  // a type with another spelling of its bounds is another value
  if (v->shape != op->res[0].shape) return false;
  op->res[0].same = v;
  return true;
}

static mlir_op *definition(mlir_value *v, hlo_opcode op) {
  mlir_op *d = mlir_real(v)->def;
  return d && d->row->opcode == op ? d : NULL;
}

static bool is_static(const mlir_value *v) {
  return v->shape && hlo_shape_is_array(v->shape) && !v->shape->dynamic;
}

static bool ints(mlir_reader *R, const mlir_op *op, const char *names, hlo_ints *out) {
  *out = (hlo_ints){0, NULL};
  return mlir_get_ints(R, op, names, out);
}

static bool is_identity(hlo_ints v) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] != k) return false;
  return true;
}

#define BROADCAST_DIMS "dims|broadcast_dimensions"
static bool is_in_dim(const mlir_op *op) {
  return op->nops == 1 && !hs_str_eq(op->name, HS_STR("stablehlo.broadcast"));
}

// ---- shapes -------------------------------------------------------------------------------------
// Along one dimension, and repeated along the others.
static bool iota(mlir_reader *R, mlir_op *op) {
  i64 dim = 0, zero = 0;
  const hlo_shape *s = op->res[0].shape;
  if (op->nops || s->rank < 2 || !is_static(&op->res[0]) ||
      !mlir_get_int(R, op, "dim|iota_dimension", &dim) || dim < 0 || dim >= s->rank)
    return false;
  mlir_op *line = mlir_new_op(R, HS_STR("stablehlo.iota"), op->at);
  line->parent = op->parent;
  line->loc = op->loc;
  const mlir_typed type = {hlo_shape_array(R->ctx, s->dtype, 1, &s->dims[dim]), op->res[0].type};
  mlir_set_results(R, line, 1, &type);
  become(R, line, "stablehlo.iota", NULL, "dim", 1, &zero);
  line->next = op;
  line->prev = op->prev;
  *(op->prev ? &op->prev->next : &op->parent->first) = line;
  op->prev = line;
  return become(R, op, "stablehlo.broadcast_in_dim", &line->res[0], "dims", 1, &dim);
}

static bool broadcast_of_broadcast(mlir_reader *R, mlir_op *op, hlo_ints dims) {
  mlir_op *d = definition(op->ops[0], HLO_BROADCAST);
  hlo_ints inner;
  i64 all[HLO_MAX_RANK];
  if (!d || !is_in_dim(d) || !ints(R, d, BROADCAST_DIMS, &inner)) return false;
  for (u32 k = 0; k < inner.n; k++) {
    if (inner.v[k] < 0 || inner.v[k] >= dims.n) return false;
    all[k] = dims.v[inner.v[k]];
  }
  return become(R, op, "stablehlo.broadcast_in_dim", d->ops[0], "dims", inner.n, all);
}

static bool broadcast(mlir_reader *R, mlir_op *op) {
  hlo_ints dims;
  if (!is_in_dim(op) || !ints(R, op, BROADCAST_DIMS, &dims)) return false;
  const hlo_shape *from = mlir_real(op->ops[0])->shape, *to = op->res[0].shape;
  if (!from || dims.n != from->rank || dims.n > HLO_MAX_RANK) return false;
  if (from == to && is_identity(dims)) return same_as(op, op->ops[0]);
  if (broadcast_of_broadcast(R, op, dims)) return true;
  if (!is_static(mlir_real(op->ops[0])) || !is_static(&op->res[0]) ||
      from->elements != to->elements)
    return false;
  bool sorted = true;
  for (u32 k = 1; k < dims.n; k++) sorted &= dims.v[k] > dims.v[k - 1];
  if (sorted) return become(R, op, "stablehlo.reshape", op->ops[0], NULL, 0, NULL);
  return false;
}

static bool reshape(mlir_reader *R, mlir_op *op) {
  if (op->nops != 1) return false;
  if (same_as(op, op->ops[0])) return true;
  mlir_op *d = definition(op->ops[0], HLO_RESHAPE);
  if (!d || d->nops != 1) return false;
  return become(R, op, "stablehlo.reshape", d->ops[0], NULL, 0, NULL);
}

static bool transpose(mlir_reader *R, mlir_op *op) {
  hlo_ints p, inner;
  i64 all[HLO_MAX_RANK];
  if (op->nops != 1 || !ints(R, op, "dims|permutation", &p) || p.n > HLO_MAX_RANK) return false;
  if (is_identity(p) && same_as(op, op->ops[0])) return true;
  mlir_op *d = definition(op->ops[0], HLO_TRANSPOSE);
  if (d && d->nops == 1 && ints(R, d, "dims|permutation", &inner) && inner.n == p.n) {
    for (u32 k = 0; k < p.n; k++) {
      if (p.v[k] < 0 || p.v[k] >= inner.n) return false;
      all[k] = inner.v[p.v[k]];
    }
    return become(R, op, "stablehlo.transpose", d->ops[0], "dims", p.n, all);
  }
  d = definition(op->ops[0], HLO_BROADCAST);
  if (!d || !is_in_dim(d) || !ints(R, d, BROADCAST_DIMS, &inner)) return false;
  for (u32 k = 0; k < inner.n; k++) {
    all[k] = -1;
    for (u32 j = 0; j < p.n; j++)
      if (p.v[j] == inner.v[k]) all[k] = j;
    if (all[k] < 0) return false;
  }
  return become(R, op, "stablehlo.broadcast_in_dim", d->ops[0], "dims", inner.n, all);
}

// ---- parts --------------------------------------------------------------------------------------
static bool concatenate(mlir_reader *R, mlir_op *op) {
  hlo_ints dim, inner;
  if (!ints(R, op, "dim|dimension", &dim) || dim.n != 1) return false;
  i64 d = dim.v[0];
  HS_VEC(mlir_value *) v = {0};
  bool changed = false;
  for (u32 k = 0; k < op->nops; k++) {
    mlir_value *x = mlir_real(op->ops[k]);
    mlir_op *part = definition(x, HLO_CONCATENATE);
    if (x->shape && d >= 0 && d < x->shape->rank && !x->shape->dims[d] && op->nops > 1) {
      changed = true;
    } else if (part && x->uses == 1 && ints(R, part, "dim|dimension", &inner) && inner.n == 1 &&
               inner.v[0] == d) {
      for (u32 j = 0; j < part->nops; j++) hs_vec_push(&v, mlir_real(part->ops[j]));
      changed = true;
    } else {
      hs_vec_push(&v, x);
    }
  }
  if (changed && v.n) {
    op->nops = (u32)v.n;
    op->ops = hs_arena_dup(&R->arena, v.v, v.n * sizeof *v.v);
  }
  changed &= v.n > 0;
  hs_vec_free(&v);
  return (op->nops == 1 && same_as(op, op->ops[0])) || changed;
}

// Of a concatenation, when it lies in one of its operands.
static bool slice_of_part(mlir_reader *R, mlir_op *op) {
  mlir_op *d = definition(op->ops[0], HLO_CONCATENATE);
  hlo_ints dim;
  u32 rank = op->res[0].shape->rank;
  i64 start[HLO_MAX_RANK], limit[HLO_MAX_RANK], stride[HLO_MAX_RANK], at = 0;
  if (!d || d->nops < 2 || !ints(R, d, "dim|dimension", &dim) || dim.n != 1 || dim.v[0] < 0 ||
      dim.v[0] >= rank || !mlir_slice_ranges(R, op, rank, start, limit, stride))
    return false;
  i64 low = start[dim.v[0]], high = limit[dim.v[0]];
  for (u32 k = 0; k < d->nops; k++) {
    const hlo_shape *s = mlir_real(d->ops[k])->shape;
    if (!s || s->rank != rank) return false;
    i64 n = s->dims[dim.v[0]];
    if (low >= at && high <= at + n && low < high) {
      mlir_value *part = d->ops[k];
      start[dim.v[0]] = low - at;
      limit[dim.v[0]] = high - at;
      mlir_attr *a = HS_NEW_ARRAY(&R->arena, mlir_attr, 3);
      a[0] = (mlir_attr){HS_STR("start_indices"), ints_text(R, rank, start)};
      a[1] = (mlir_attr){HS_STR("limit_indices"), ints_text(R, rank, limit)};
      a[2] = (mlir_attr){HS_STR("strides"), ints_text(R, rank, stride)};
      become(R, op, "stablehlo.slice", part, NULL, 0, NULL);
      op->attrs = (mlir_attrs){3, a};
      return true;
    }
    at += n;
  }
  return false;
}

static bool slice(mlir_reader *R, mlir_op *op) {
  if (op->nops != 1 || !is_static(&op->res[0])) return false;
  return same_as(op, op->ops[0]) || slice_of_part(R, op);
}

static bool pad(mlir_reader *R, mlir_op *op) {
  static const char *const names[] = {"low|edge_padding_low", "high|edge_padding_high",
                                      "interior|interior_padding"};
  for (u32 k = 0; k < HS_COUNT(names); k++) {
    hlo_ints v;
    if (!ints(R, op, names[k], &v)) return false;
    for (u32 j = 0; j < v.n; j++)
      if (v.v[j]) return false;
  }
  return same_as(op, op->ops[0]);
}

// Known starts: a slice.
static bool dynamic_slice(mlir_reader *R, mlir_op *op) {
  const hlo_shape *s = mlir_real(op->ops[0])->shape, *to = op->res[0].shape;
  i64 start[HLO_MAX_RANK], limit[HLO_MAX_RANK], stride[HLO_MAX_RANK];
  if (!s || op->nops != s->rank + 1 || !is_static(mlir_real(op->ops[0])) || to->rank != s->rank)
    return false;
  for (u32 k = 0; k < s->rank; k++)
    if (!mlir_is_constant(mlir_real(op->ops[k + 1]))) return false;
  for (u32 k = 0; k < s->rank; k++) {
    const hlo_literal *l = mlir_constant_of(R, op->ops[k + 1]);
    if (!l) return false;
    i64 v = hlo_literal_i64(l, 0), most = s->dims[k] - to->dims[k];
    start[k] = v < 0 ? 0 : HS_MIN(v, most);
    limit[k] = start[k] + to->dims[k];
    stride[k] = 1;
  }
  mlir_attr *a = HS_NEW_ARRAY(&R->arena, mlir_attr, 3);
  a[0] = (mlir_attr){HS_STR("start_indices"), ints_text(R, s->rank, start)};
  a[1] = (mlir_attr){HS_STR("limit_indices"), ints_text(R, s->rank, limit)};
  a[2] = (mlir_attr){HS_STR("strides"), ints_text(R, s->rank, stride)};
  become(R, op, "stablehlo.slice", op->ops[0], NULL, 0, NULL);
  op->attrs = (mlir_attrs){3, a};
  return true;
}

static bool dynamic_update_slice(mlir_reader *R, mlir_op *op) {
  if (op->nops < 2) return false;
  for (u32 k = 2; k < op->nops; k++)
    if (!mlir_is_number(R, op->ops[k], 0)) return false;
  return same_as(op, op->ops[1]);
}

// ---- arithmetic ---------------------------------------------------------------------------------
static bool ones(mlir_reader *R, mlir_value *v) {
  v = mlir_real(v);
  return v->shape && mlir_is_number(R, v, v->shape->dtype == HLO_PRED ? 1 : -1);
}

// x + 0, x * 1, x & x and their like.
static bool neutral(mlir_reader *R, mlir_op *op) {
  if (op->nops != 2) return false;
  mlir_value *a = mlir_real(op->ops[0]), *b = mlir_real(op->ops[1]);
  if (!mlir_is_constant(a) && !mlir_is_constant(b) && a != b) return false;
  for (u32 k = 0; k < 2; k++) {
    mlir_value *x = k ? b : a, *y = k ? a : b;
    switch (op->row->opcode) {
    case HLO_ADD:
      if (x->shape && x->shape->dtype != HLO_PRED && mlir_is_number(R, x, 0)) return same_as(op, y);
      break;
    case HLO_SUBTRACT:
      if (k && mlir_is_number(R, x, 0)) return same_as(op, y);
      break;
    case HLO_MULTIPLY:
      if (x->shape && x->shape->dtype != HLO_PRED && mlir_is_number(R, x, 1)) return same_as(op, y);
      break;
    case HLO_AND:
      if (x == y || ones(R, x)) return same_as(op, y);
      if (mlir_is_number(R, x, 0)) return same_as(op, x);
      break;
    case HLO_OR:
      if (x == y || mlir_is_number(R, x, 0)) return same_as(op, y);
      if (ones(R, x)) return same_as(op, x);
      break;
    case HLO_XOR:
      if (mlir_is_number(R, x, 0)) return same_as(op, y);
      break;
    default: break;
    }
  }
  return false;
}

static bool pick(mlir_reader *R, mlir_op *op) {
  if (op->nops != 3) return false;
  if (mlir_real(op->ops[1]) == mlir_real(op->ops[2])) return same_as(op, op->ops[1]);
  if (mlir_is_number(R, op->ops[0], 1)) return same_as(op, op->ops[1]);
  return mlir_is_number(R, op->ops[0], 0) && same_as(op, op->ops[2]);
}

// Truth values beside known ones.
static bool compare(mlir_reader *R, mlir_op *op) {
  mlir_span s;
  mlir_value *x = op->nops == 2 ? mlir_real(op->ops[0]) : NULL;
  if (!x || !x->shape || x->shape->dtype != HLO_PRED ||
      !mlir_get(R, &op->attrs, "comparison_direction|word0", &s))
    return false;
  bool eq = hs_str_eq(mlir_enum_of(s), HS_STR("EQ")), ne = hs_str_eq(mlir_enum_of(s), HS_STR("NE"));
  for (u32 k = 0; k < 2 && (eq || ne); k++)
    if (mlir_is_number(R, op->ops[k], eq)) return same_as(op, op->ops[1 - k]);
  return false;
}

static bool element(mlir_reader *R, mlir_op *op) {
  i64 k = -1;
  mlir_op *d = op->nops == 1 ? definition(op->ops[0], HLO_TUPLE) : NULL;
  return d && mlir_get_int(R, op, "ranges|index", &k) && k >= 0 && k < d->nops &&
         same_as(op, d->ops[k]);
}

static bool part(mlir_op *op, u32 k) {
  mlir_op *d = op->nops == 1 ? definition(op->ops[0], HLO_COMPLEX) : NULL;
  return d && d->nops == 2 && same_as(op, d->ops[k]);
}

bool mlir_canonicalize(mlir_reader *R, mlir_op *op) {
  // an operation with a sharding says more than its value
  if (op->nres != 1 || !op->res[0].shape || op->res[0].same || op->nregions) return false;
  switch (op->row->opcode) {
  case HLO_IOTA: return iota(R, op);
  case HLO_BROADCAST: return broadcast(R, op);
  case HLO_RESHAPE: return reshape(R, op);
  case HLO_TRANSPOSE: return transpose(R, op);
  case HLO_CONCATENATE: return concatenate(R, op);
  case HLO_SLICE: return slice(R, op);
  case HLO_PAD: return op->nops == 2 && pad(R, op);
  case HLO_DYNAMIC_SLICE: return op->nops > 1 && dynamic_slice(R, op);
  case HLO_DYNAMIC_UPDATE_SLICE: return dynamic_update_slice(R, op);
  case HLO_SELECT: return pick(R, op);
  case HLO_COMPARE: return compare(R, op);
  case HLO_GET_TUPLE_ELEMENT: return element(R, op);
  case HLO_REAL: return part(op, 0);
  case HLO_IMAG: return part(op, 1);
  case HLO_REVERSE: {
    hlo_ints v;
    if (op->nops != 1 || !ints(R, op, "dims|dimensions", &v)) return false;
    for (u32 k = 0; k < v.n; k++)
      if (v.v[k] < 0 || v.v[k] >= op->res[0].shape->rank || op->res[0].shape->dims[v.v[k]] != 1)
        return false;
    return same_as(op, op->ops[0]);
  }
  case HLO_CONVERT:
  case HLO_BITCAST_CONVERT: return op->nops == 1 && same_as(op, op->ops[0]);
  default: return neutral(R, op);
  }
}
