// known.c — integers that are known without running the program: constants, sizes, and what is
// computed of them, as exporters with symbolic sizes do; through functions, too.
//
// Values are looked at when an operation asks, anew each time, for few are. A text may make a value
// of many sums of one another, so the work of one question is bounded; beyond it nothing is known.
#include "core/mlir/rules.h"

static bool known(mlir_reader *R, mlir_value *v, mlir_numbers *out, u32 depth);

static bool known_constant(mlir_reader *R, mlir_value *v, mlir_numbers *out) {
  const hlo_literal *l = mlir_constant_of(R, v);
  bool one = l && l->shape->logical != v->shape;
  for (i64 k = 0; l && k < v->shape->elements; k++)
    hs_vec_push(out, hlo_literal_i64(l, one ? 0 : k));
  return l != NULL;
}

static bool combine(hlo_opcode op, i64 *a, i64 b) {
  switch (op) {
  case HLO_ADD: return !__builtin_add_overflow(*a, b, a);
  case HLO_SUBTRACT: return !__builtin_sub_overflow(*a, b, a);
  case HLO_MULTIPLY: return !__builtin_mul_overflow(*a, b, a);
  case HLO_MAXIMUM: return *a = HS_MAX(*a, b), true;
  case HLO_MINIMUM: return *a = HS_MIN(*a, b), true;
  case HLO_DIVIDE: return b > 0 && (*a /= b, true);
  case HLO_REMAINDER: return b > 0 && (*a %= b, true);
  case HLO_AND: return *a &= b, true;
  case HLO_OR: return *a |= b, true;
  default: return false;
  }
}

static bool compare(mlir_reader *R, mlir_op *d, i64 *a, i64 b) {
  mlir_span how;
  if (!mlir_get(R, &d->attrs, "comparison_direction|word0", &how)) return false;
  switch (hlo_enum_find(HLO_AK_ENUM_DIRECTION, mlir_enum_of(how), true)) {
  case HLO_DIRECTION_EQ: return *a = *a == b, true;
  case HLO_DIRECTION_NE: return *a = *a != b, true;
  case HLO_DIRECTION_GE: return *a = *a >= b, true;
  case HLO_DIRECTION_GT: return *a = *a > b, true;
  case HLO_DIRECTION_LE: return *a = *a <= b, true;
  case HLO_DIRECTION_LT: return *a = *a < b, true;
  default: return false;
  }
}

static bool known_binary(mlir_reader *R, mlir_op *d, mlir_numbers *out, u32 depth) {
  mlir_numbers b = {0};
  size_t from = out->n;
  bool ok =
      known(R, d->ops[0], out, depth) && known(R, d->ops[1], &b, depth) && out->n - from == b.n;
  for (size_t k = 0; ok && k < b.n; k++)
    ok = d->row->opcode == HLO_COMPARE ? compare(R, d, &out->v[from + k], b.v[k])
                                       : combine(d->row->opcode, &out->v[from + k], b.v[k]);
  hs_vec_free(&b);
  return ok;
}

// Whether the elements of one operand come behind those of the other, row by row.
static bool lines_up(mlir_reader *R, const mlir_op *d) {
  i64 dim = -1;
  const hlo_shape *s = d->res[0].shape;
  if (!mlir_get_int(R, d, "dim|dimension", &dim) || dim < 0 || dim >= s->rank) return false;
  for (i64 k = 0; k < dim; k++)
    if (s->dims[k] != 1) return false;
  return true;
}

static bool known_unary(mlir_reader *R, mlir_op *d, mlir_numbers *out, u32 depth) {
  size_t from = out->n;
  bool ok = d->nops == 1 && known(R, d->ops[0], out, depth);
  for (size_t k = from; ok && k < out->n; k++) {
    i64 *a = &out->v[k];
    if (d->row->opcode == HLO_SIGN) *a = (*a > 0) - (*a < 0);
    else if (d->row->opcode == HLO_NEGATE) ok = !__builtin_sub_overflow(0, *a, a);
    else *a = d->res[0].shape->dtype == HLO_PRED ? !*a : ~*a;
  }
  return ok;
}

static void swap_sizes(mlir_region *r, mlir_value *with) {
  for (u32 k = 0; k < r->nargs; k++) {
    mlir_value was = r->args[k];
    r->args[k].sized = with[k].sized, r->args[k].size = with[k].size;
    with[k] = was;
  }
}

// The result of a function of sizes: while it is looked at, its arguments are the call's operands.
static bool known_call(mlir_reader *R, mlir_op *d, u32 result, mlir_numbers *out, u32 depth) {
  hs_str name = {0};
  mlir_func *f = mlir_get_string(R, &d->attrs, "callee", &name)
                     ? mlir_names_find(&R->func_names, name, NULL)
                     : NULL;
  mlir_region *r = f ? f->op->regions[0] : NULL;
  if (!r || !r->last || r->last->nops != d->nres || r->nargs != d->nops) return false;
  mlir_value *now = HS_NEW_ARRAY(&R->arena, mlir_value, r->nargs + 1);
  for (u32 k = 0; k < r->nargs; k++) {
    mlir_numbers n = {0};
    now[k].sized = known(R, d->ops[k], &n, depth) && n.n == 1;
    if (now[k].sized) now[k].size = n.v[0];
    hs_vec_free(&n);
  }
  swap_sizes(r, now);
  bool ok = known(R, r->last->ops[result], out, depth);
  swap_sizes(r, now);
  return ok;
}

static bool known_choice(mlir_reader *R, mlir_op *d, mlir_numbers *out, u32 depth) {
  mlir_numbers which = {0};
  bool ok = d->nops == 3 && known(R, d->ops[0], &which, depth) && which.n == 1 &&
            known(R, d->ops[which.v[0] ? 1 : 2], out, depth);
  hs_vec_free(&which);
  return ok;
}

static bool known(mlir_reader *R, mlir_value *v, mlir_numbers *out, u32 depth) {
  v = mlir_real(v);
  if (v->sized) {
    hs_vec_push(out, v->size);
    return true;
  }
  mlir_op *d = v->def;
  enum { DEEPEST = 64, LONGEST = 4096, MOST_LOOKS = 100000 };
  if (!d || depth > DEEPEST || ++R->looks > MOST_LOOKS || !v->shape || v->shape->dynamic ||
      !hlo_shape_is_array(v->shape) ||
      !(hlo_dtype_is_integer(v->shape->dtype) || v->shape->dtype == HLO_PRED) ||
      v->shape->elements > LONGEST)
    return false;
  hlo_ints dim = {0, NULL};
  switch (d->row->opcode) {
  case HLO_CONSTANT: return known_constant(R, v, out);
  case HLO_CONVERT:
  case HLO_RESHAPE: return d->nops >= 1 && known(R, d->ops[0], out, depth + 1);
  case HLO_CONCATENATE:
    if (!lines_up(R, d)) return false;
    for (u32 k = 0; k < d->nops; k++)
      if (!known(R, d->ops[k], out, depth + 1)) return false;
    return true;
  case HLO_GET_DIMENSION_SIZE: {
    const hlo_shape *s = d->nops ? mlir_real(d->ops[0])->shape : NULL;
    if (!s || !mlir_get_ints(R, d, "dim|dimension", &dim) || dim.n != 1 || dim.v[0] < 0 ||
        dim.v[0] >= s->rank || hlo_dim_is_dynamic(s, dim.v[0]))
      return false;
    hs_vec_push(out, s->dims[dim.v[0]]);
    return true;
  }
  case HLO_ADD:
  case HLO_SUBTRACT:
  case HLO_MULTIPLY:
  case HLO_MAXIMUM:
  case HLO_MINIMUM:
  case HLO_DIVIDE:
  case HLO_REMAINDER:
  case HLO_AND:
  case HLO_OR:
  case HLO_COMPARE: return d->nops == 2 && known_binary(R, d, out, depth + 1);
  case HLO_SIGN:
  case HLO_NEGATE:
  case HLO_NOT: return known_unary(R, d, out, depth + 1);
  case HLO_SELECT: return known_choice(R, d, out, depth + 1);
  default: return d->row->rule == mlir_rule_call && known_call(R, d, v->index, out, depth + 1);
  }
}

// ---- what rules ask -----------------------------------------------------------------------------
bool mlir_known(mlir_reader *R, mlir_value *v, mlir_numbers *out) {
  R->looks = 0;
  return known(R, v, out, 0);
}

bool mlir_known_size(mlir_reader *R, mlir_value *v, i64 *out) {
  mlir_numbers n = {0};
  bool ok = mlir_known(R, v, &n) && n.n == 1;
  if (ok) *out = n.v[0];
  hs_vec_free(&n);
  return ok;
}

bool mlir_known_text(mlir_reader *R, mlir_value *v, mlir_span *out) {
  mlir_numbers n = {0};
  hs_buf b = {0};
  bool ok = mlir_known(R, v, &n) && !RX->failed;
  hs_buf_putc(&b, '[');
  for (size_t k = 0; k < n.n; k++) hs_buf_printf(&b, k ? ", %lld" : "%lld", (long long)n.v[k]);
  hs_buf_putc(&b, ']');
  if (ok) *out = (mlir_span){hs_arena_strndup(&R->arena, b.p, b.n), b.n};
  hs_buf_free(&b);
  hs_vec_free(&n);
  return ok;
}
