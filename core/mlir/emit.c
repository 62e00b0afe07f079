// emit.c — HLO instructions for operations of MLIR: operands looked up, attributes by the table,
// shapes inferred and compared with the stated ones, metadata and shardings attached.
#include "core/mlir/tree.h"

#include "core/infer/infer.h"
#include "core/ir/load.h"

#include <stdlib.h>

bool mlir_fail(mlir_reader *R, hs_code code, const char *fmt, ...) {
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  bool quantized = strstr(hs_buf_cstr(&b), "!quant.") != NULL;
  hlo_lex_error(RX, code, R->op ? R->op->at : NULL, "%s%s", hs_buf_cstr(&b),
                quantized
                    ? ": stablehlo-opt --stablehlo-legalize-quant-to-math writes it with integers"
                    : "");
  hs_buf_free(&b);
  return false;
}

void mlir_bind(mlir_reader *R, mlir_value *v, hlo_instr *i) {
  hs_vec_push(&R->bound, ((mlir_binding){v, v->now}));
  v->now = i;
  mlir_take_shape(v, i->shape);
}

// A literal of several equal elements is a broadcast of one.
hlo_instr *mlir_constant(mlir_reader *R, hlo_literal *take) {
  const hlo_shape *s = take->shape;
  hlo_instr *i;
  if (s->elements > 1 && !R->opt.as_written && hlo_literal_is_splat(take)) {
    hlo_literal *one;
    if (!hlo_lex_status(RX, hlo_literal_new(hlo_shape_scalar(R->ctx, s->dtype), &one), R->op->at))
      return hlo_literal_unref(take), NULL;
    memcpy(one->data, take->data, one->bytes);
    i = mlir_constant(R, one);
    hlo_attr none = mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, 0, NULL);
    if (i) i = mlir_emit(R, HLO_BROADCAST, s, 1, &i, 1, &none);
  } else {
    hlo_attr a = {HLO_ATTR_LITERAL, {.literal = take}};
    i = mlir_emit(R, HLO_CONSTANT, s, 0, NULL, 1, &a);
  }
  hlo_literal_unref(take);
  return i;
}

// Constants are made again in every computation that uses them.
hlo_instr *mlir_value_instr(mlir_reader *R, mlir_value *v) {
  v = mlir_real(v);
  if (v->now && v->now->parent == R->comp) return v->now;
  mlir_op *d = v->def;
  if (!d || d->row->opcode != HLO_CONSTANT) {
    mlir_fail(R, HS_E_NO_HLO, "a value from outside the region is used, which HLO cannot express");
    return NULL;
  }
  const hlo_literal *l = mlir_constant_of(R, v);
  if (!l) {
    if (!v->shape)
      mlir_fail(R, HS_E_NO_HLO, "%.*s has no form in HLO", (int)HS_MIN(v->type.n, 80u), v->type.p);
    return NULL;
  }
  hlo_literal *take = hlo_literal_ref(l);
  if (l->shape->logical != v->shape && v->shape->elements == 1) {
    hlo_literal_unref(take);
    if (!hlo_lex_status(RX, hlo_literal_new(v->shape, &take), d->at)) return NULL;
    memcpy(take->data, l->data, take->bytes);
  }
  hlo_instr *i = mlir_constant(R, take);
  // as written a constant is where it stands
  if (i && i->shape->logical != v->shape) {
    hlo_attr none = mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, 0, NULL);
    i = mlir_emit(R, HLO_BROADCAST, v->shape, 1, &i, 1, &none);
  }
  if (i) mlir_bind(R, v, i);
  return i;
}

hlo_instr *mlir_operand(mlir_reader *R, const mlir_op *op, u32 k) {
  return mlir_value_instr(R, op->ops[k]);
}

hlo_attr mlir_ints_attr(mlir_reader *R, hlo_attr_id id, u32 n, const i64 *v) {
  return (hlo_attr){
      id, {.ints = {n, hs_arena_dup(&R->m->arena, n ? v : &(i64){0}, HS_MAX(n, 1u) * sizeof *v)}}};
}

static int by_id(const void *a, const void *b) {
  return (int)((const hlo_attr *)a)->id - (int)((const hlo_attr *)b)->id;
}

// HLO keeps names that begin with "__" for itself, and those of types.
static bool is_kept(hs_str s) {
  bool own = s.n > 1 && s.p[0] == '_' && s.p[1] == '_' && !(s.n > 5 && !memcmp(s.p, "__xla_", 6));
  return own || hlo_dtype_find(s) != HLO_DT_INVALID;
}

static hs_str outside_of_kept(mlir_reader *R, hs_str s) {
  while (s.n > 1 && s.p[0] == '_' && s.p[1] == '_') s.p++, s.n--;
  if (!is_kept(s)) return s;
  char *p = hs_arena_alloc(&R->arena, s.n + 1);
  memcpy(p, s.p, s.n);
  p[s.n] = '_';
  return (hs_str){p, s.n + 1};
}

hs_str mlir_plain_name(mlir_reader *R, hs_str s, hs_str absent) {
  bool plain = s.n > 0 && hlo_is_ch(s.p[0], HLO_CH_START);
  for (size_t k = 0; k < s.n && plain; k++) plain = hlo_is_ch(s.p[k], HLO_CH_IDENT);
  if (!s.n || s.n >= 1000) return absent;
  if (plain) return is_kept(s) ? outside_of_kept(R, s) : s;
  char *p = hs_arena_alloc(&R->arena, s.n + 2);
  size_t n = 0;
  if (!hlo_is_ch(s.p[0], HLO_CH_START)) p[n++] = '_';
  for (size_t k = 0; k < s.n; k++) p[n++] = hlo_is_ch(s.p[k], HLO_CH_IDENT) ? s.p[k] : '_';
  if (n > 1 && !hlo_is_ch(s.p[0], HLO_CH_IDENT)) memmove(p, p + 1, --n);
  s = (hs_str){p, n};
  return is_kept(s) ? outside_of_kept(R, s) : s;
}

// The name that XLA gives: the last part of op_name, or the opcode.
static hs_str name_of(mlir_reader *R, hlo_opcode op) {
  hs_str s = R->meta ? R->meta->op_name : (hs_str){0};
  const char *slash = s.n ? memrchr(s.p, '/', s.n) : NULL;
  if (slash) s = (hs_str){slash + 1, (size_t)(s.p + s.n - slash - 1)};
  return mlir_plain_name(R, s, hs_str_of(hlo_op_text(op)));
}

// A written size '?' is the one that is inferred.
static const hlo_shape *shape_for(mlir_reader *R, hlo_opcode op, const hlo_shape *stated, u32 n,
                                  hlo_instr *const *ops, u32 nattrs, const hlo_attr *attrs) {
  const hlo_shape **in = hs_alloc(HS_MAX(n, 1u) * sizeof *in), *shape = NULL;
  for (u32 k = 0; k < n; k++) in[k] = ops[k]->shape;
  hlo_attrs *set = hs_arena_zalloc(&R->arena, sizeof *set + nattrs * sizeof *attrs);
  set->n = nattrs;
  if (nattrs) memcpy(set->v, attrs, nattrs * sizeof *attrs);
  hs_status s = hlo_infer_shape(R->ctx, op, n, in, nattrs ? set : NULL, stated, &shape);
  if (stated && hlo_shape_has_unbounded(stated)) stated = NULL;
  if (!hs_ok(s)) hlo_lex_status(RX, s, R->op ? R->op->at : NULL);
  else if (stated && stated->logical != shape->logical && !hlo_shape_is_dynamic(stated) &&
           !hlo_shape_is_dynamic(shape))
    mlir_fail(R, HS_E_SHAPE, "%s does not have the result type that is written", hlo_op_text(op));
  else shape = hlo_infer_layout(R->ctx, op, n, in, nattrs ? set : NULL, stated ? stated : shape);
  hs_free(in);
  return RX->failed ? NULL : hlo_shape_fill_layout(R->ctx, shape);
}

// The operation's sharding goes to the instruction of its opcode, the framework's attributes to all
// that it becomes.
static u32 own_attrs(mlir_reader *R, hlo_opcode op, hlo_attr *out) {
  u32 n = 0;
  if (!R->op || !R->op->attrs.n || (op == HLO_CONSTANT && !R->opt.as_written)) return 0;
  if (R->op->row->opcode == op && mlir_sharding_of(R, &R->op->attrs, &out[n])) n++;
  if (mlir_frontend_of(R, &R->op->attrs, &out[n])) n++;
  return n;
}

static bool has_attr(u32 n, const hlo_attr *v, hlo_attr_id id) {
  for (u32 k = 0; k < n; k++)
    if (v[k].id == id) return true;
  return false;
}

hlo_instr *mlir_emit(mlir_reader *R, hlo_opcode op, const hlo_shape *stated, u32 n,
                     hlo_instr *const *ops, u32 nattrs, const hlo_attr *attrs) {
  HS_VEC(hlo_attr) v = {0};
  hlo_instr *i = NULL;
  for (u32 k = 0; k < nattrs; k++)
    if (!hlo_attr_droppable(op, &attrs[k])) hs_vec_push(&v, attrs[k]);
  hlo_attr own[2];
  u32 nown = own_attrs(R, op, own);
  for (u32 k = 0; k < nown; k++)
    if (!has_attr(nattrs, attrs, own[k].id)) hs_vec_push(&v, own[k]);
  if (R->meta && op != HLO_CONSTANT)
    hs_vec_push(&v, ((hlo_attr){HLO_ATTR_METADATA, {.p = R->meta}}));
  if (v.n) qsort(v.v, v.n, sizeof *v.v, by_id);
  const hlo_shape *shape = shape_for(R, op, stated, n, ops, (u32)v.n, v.v);
  if (shape) i = hlo_load_instr_(R->comp, op, shape, n, ops, name_of(R, op), (u32)v.n, v.v, true);
  hs_vec_free(&v);
  return i;
}

hlo_instr *mlir_gte(mlir_reader *R, hlo_instr *tuple, u32 k) {
  hlo_attr a = {HLO_ATTR_INDEX, {.i = k}};
  return mlir_emit(R, HLO_GET_TUPLE_ELEMENT, tuple->shape->elems[k], 1, &tuple, 1, &a);
}

hlo_instr *mlir_tuple(mlir_reader *R, u32 n, hlo_instr *const *v) {
  return mlir_emit(R, HLO_TUPLE, NULL, n, v, 0, NULL);
}

const hlo_shape *mlir_result_shape(mlir_reader *R, const mlir_op *op) {
  if (op->nres == 1) return op->res[0].shape;
  const hlo_shape **v = hs_alloc(HS_MAX(op->nres, 1u) * sizeof *v);
  for (u32 k = 0; k < op->nres; k++) v[k] = op->res[k].shape;
  const hlo_shape *s = hlo_shape_tuple(R->ctx, op->nres, v);
  hs_free(v);
  return s;
}

bool mlir_bind_results(mlir_reader *R, mlir_op *op, hlo_instr *i) {
  if (!i) return false;
  if (op->nres == 1) return mlir_bind(R, &op->res[0], i), true;
  for (u32 k = 0; k < op->nres; k++) {
    hlo_instr *e = mlir_gte(R, i, k);
    if (!e) return false;
    mlir_bind(R, &op->res[k], e);
  }
  return true;
}

bool mlir_check_shapes(mlir_reader *R, const mlir_op *op) {
  for (u32 k = 0; k < op->nops + op->nres; k++) {
    const mlir_value *v = k < op->nops ? op->ops[k] : &op->res[k - op->nops];
    if (!v->shape)
      return mlir_fail(R, HS_E_NO_HLO, "%.*s has no form in HLO", (int)HS_MIN(v->type.n, 80u),
                       v->type.p);
  }
  return true;
}

// ---- attributes by the table --------------------------------------------------------------------
static i64 enum_value(hlo_attr_id id, const char *prefix, hs_str word) {
  char text[64];
  size_t n = strlen(prefix);
  if (word.n + n >= sizeof text) return -1;
  memcpy(text, prefix, n);
  memcpy(text + n, word.p, word.n);
  return hlo_enum_find(hlo_attr_kind_of(id), (hs_str){text, word.n + n}, true);
}

static bool precisions(mlir_reader *R, mlir_span s, hlo_attr *a, bool *usual) {
  u32 n;
  mlir_span *v;
  if (!mlir_array_of(R, s, &n, &v)) return false;
  i64 *p = HS_NEW_ARRAY(&R->m->arena, i64, HS_MAX(n, 1u));
  *usual = true;
  for (u32 k = 0; k < n; k++) {
    p[k] = hlo_enum_find(HLO_AK_ENUM_PRECISION, mlir_enum_of(v[k]), true);
    if (p[k] < 0) return hlo_lex_error(RX, HS_E_ATTR, v[k].p, "no precision of HLO");
    *usual &= p[k] == HLO_PRECISION_DEFAULT;
  }
  return a->v.ints = (hlo_ints){n, p}, true;
}

static bool row_attr(mlir_reader *R, const mlir_row_attr *row, mlir_span s, hlo_attr *a,
                     bool *usual) {
  switch (row->how) {
  case MLIR_INT:
  case MLIR_INT32: return mlir_int_of(R, s, &a->v.i);
  case MLIR_BOOL: return mlir_int_of(R, s, &a->v.i);
  case MLIR_DIM:
  case MLIR_INTS: return mlir_ints_of(R, s, &a->v.ints, NULL);
  case MLIR_FLOAT: return mlir_float_of(R, s, &a->v.f);
  case MLIR_STRING: return mlir_string_of(R, s, &a->v.s);
  case MLIR_PRECISION: return precisions(R, s, a, usual);
  default: break;
  }
  a->v.i = enum_value(row->id, row->how == MLIR_RNG_ENUM ? "rng_" : "", mlir_enum_of(s));
  return a->v.i >= 0 || hlo_lex_error(RX, HS_E_ATTR, s.p, "no value of %s", hlo_attr_text(row->id));
}

bool mlir_row_attrs(mlir_reader *R, const mlir_op *op, mlir_hlo_attrs *out) {
  for (const mlir_row_attr *row = op->row->attrs; row->how != MLIR_END; row++) {
    mlir_span s;
    hlo_attr a = {row->id, {0}};
    bool usual = false;
    if (!mlir_get(R, &op->attrs, row->names, &s)) {
      // an empty list and a 0 are left out of structs, but HLO wants them
      if (row->id == HLO_ATTR_INDEX_VECTOR_DIM) {
        hs_vec_push(out, a);
        continue;
      }
      if ((row->how != MLIR_INTS && row->how != MLIR_DIM) ||
          row->id == HLO_ATTR_OPERAND_BATCHING_DIMS)
        continue;
      a = mlir_ints_attr(R, row->id, 0, NULL);
    } else if (!row_attr(R, row, s, &a, &usual)) {
      return false;
    }
    if (!usual) hs_vec_push(out, a);
  }
  return true;
}
