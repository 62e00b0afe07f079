// infer.c — shape inference: the shape that an operation gives for its operands and attributes.
//
// Follows XLA's ShapeInference (xla/service/shape_inference.cc), one rule per `infer` column of
// ops.def, dispatched by a table made from that column. Rules see logical shapes (no layouts) and
// return logical shapes. Wording of the messages is XLA's where its tests look at it. Dimensions
// carry a bound and a dynamic flag; an unbounded dimension ('?') fits any size and gives way to the
// more specific one.
//
// Here: dispatch, helpers, and the elementwise operations; move.c has data movement,
// math.c contractions and linear algebra, index.c gather and scatter, calls.c
// what else calls computations, and collectives.
#include "core/infer/rules.h"
#include "core/infer/infer.h"

#include <stdio.h>

// ---- helpers ------------------------------------------------------------------------------------
static char *ring_slot(void) {
  static _Thread_local char ring[8][512];
  static _Thread_local unsigned next;
  return ring[next++ % 8];
}

const char *infer_text(const hlo_shape *s) {
  hs_buf b = {0};
  hlo_shape_print(&b, s->logical, false);
  char *slot = ring_slot();
  snprintf(slot, 512, b.n < 512 ? "%s" : "%.500s...", hs_buf_cstr(&b));
  hs_buf_free(&b);
  return slot;
}

const char *infer_ints_text(u32 n, const i64 *v) {
  char *slot = ring_slot();
  size_t at = 0;
  slot[0] = 0;
  for (u32 i = 0; i < n && at < 480; i++)
    at += (size_t)snprintf(slot + at, 512 - at, i ? ",%lld" : "%lld", (long long)v[i]);
  return slot;
}

bool infer_same_type_class(hlo_dtype a, hlo_dtype b) {
  return hlo_dtype_is_float(a) ? hlo_dtype_is_float(b) : a == b;
}
bool infer_dims_fit(i64 a, i64 b) { return a == b || a == HLO_UNBOUNDED || b == HLO_UNBOUNDED; }

bool infer_compatible(const hlo_shape *a, const hlo_shape *b, unsigned flags) {
  if (a->logical == b->logical) return true;
  bool arrays = hlo_shape_is_array(a) && hlo_shape_is_array(b);
  if (a->dtype != b->dtype) {
    if (!arrays) return false;
    if (!(flags & INFER_ANY_TYPE) &&
        !((flags & INFER_ANY_FLOAT) && infer_same_type_class(a->dtype, b->dtype)))
      return false;
  }
  if (arrays) {
    if (a->rank != b->rank) return false;
    for (u32 i = 0; i < a->rank; i++)
      if (!infer_dims_fit(a->dims[i], b->dims[i])) return false;
    return true;
  }
  if (a->nelems != b->nelems || !a->elems || !b->elems) return a->nelems == b->nelems;
  for (u32 i = 0; i < a->nelems; i++)
    if (!infer_compatible(a->elems[i], b->elems[i], flags)) return false;
  return true;
}

// Order of precision among types: complex first, then range, then precision, then width, then
// signedness.
static int type_rank(hlo_dtype t) {
  hlo_dtype real = hlo_dtype_real_part(t);
  int rank = hlo_dtype_is_complex(t) ? 1 << 28 : 0;
  if (hlo_dtype_is_float(real))
    rank += (hlo_dtype_max_exponent(real) + 1) * (1 << 16) + hlo_dtype_significand(real) * 512;
  return rank + hlo_dtype_bits(real) * 2 + (hlo_dtype_is_signed(real) ? 1 : 0);
}
hlo_dtype infer_wider(hlo_dtype a, hlo_dtype b) { return type_rank(b) > type_rank(a) ? b : a; }

hs_status infer_array(const infer_args *a, hlo_dtype t, const infer_dims *d,
                      const hlo_shape **out) {
  if (d->n > HLO_MAX_RANK)
    return hs_fail(HS_E_LIMIT, "%s gives a result of rank %u; the limit is %d", hlo_op_text(a->op),
                   d->n, HLO_MAX_RANK);
  i64 bounds[HLO_MAX_RANK];
  for (u32 i = 0; i < d->n; i++) bounds[i] = d->size[i] == HLO_UNBOUNDED ? 1 : d->size[i];
  HS_TRY(hlo_shape_check_limits(t, d->n, bounds));
  bool any = false;
  for (u32 i = 0; i < d->n; i++) any |= d->dyn[i];
  *out = hlo_shape_dynamic(a->ctx, t, d->n, d->size, any ? d->dyn : NULL, NULL);
  return HS_GOOD;
}

hs_status infer_expect_array(const hlo_shape *s, const char *what) {
  if (hlo_shape_is_array(s)) return HS_GOOD;
  return hs_fail(HS_E_SHAPE, "Expected array argument for %s, but got %s.", what, infer_text(s));
}

i64 infer_int(const infer_args *a, hlo_attr_id id, i64 absent) {
  const hlo_attr *at = hlo_attrs_find(a->attrs, id);
  return at ? at->v.i : absent;
}
hlo_ints infer_ints(const infer_args *a, hlo_attr_id id) {
  const hlo_attr *at = hlo_attrs_find(a->attrs, id);
  return at ? at->v.ints : (hlo_ints){0, NULL};
}
const void *infer_ptr(const infer_args *a, hlo_attr_id id) {
  const hlo_attr *at = hlo_attrs_find(a->attrs, id);
  return at ? at->v.p : NULL;
}
hlo_computation *infer_comp(const infer_args *a, hlo_attr_id id) {
  const hlo_attr *at = hlo_attrs_find(a->attrs, id);
  return at ? at->v.comp : NULL;
}
hs_status infer_need_comp(const infer_args *a, hlo_attr_id id, hlo_computation **out) {
  *out = infer_comp(a, id);
  if (!*out)
    return hs_fail(HS_E_ATTR, "%s needs the attribute %s", hlo_op_text(a->op), hlo_attr_text(id));
  if (!(*out)->root)
    return hs_fail(HS_E_VERIFY, "computation %s, called by %s, has no root", (*out)->name,
                   hlo_op_text(a->op));
  return HS_GOOD;
}
hs_status infer_need_operands(const infer_args *a, u32 least) {
  if (a->n >= least) return HS_GOOD;
  return hs_fail(HS_E_ARITY, "%s expects at least %u operands, but has %u operands",
                 hlo_op_text(a->op), least, a->n);
}
i64 infer_dimension(const infer_args *a) {
  hlo_ints d = infer_ints(a, HLO_ATTR_DIMENSIONS);
  return d.n ? d.v[0] : -1;
}

// ---- dispatch -----------------------------------------------------------------------------------
static infer_rule *const rules[HLO_OPCODE_COUNT] = {
#define OP(id, text, arity, inf, infer, eval, cost, flags, color, attrs) \
  [HLO_##id] = hlo_infer_##infer,
#include "core/types/ops.def"
#undef OP
};

hs_status hlo_infer_shape(hlo_ctx *ctx, hlo_opcode op, u32 n, const hlo_shape *const *operands,
                          const hlo_attrs *attrs, const hlo_shape *stated, const hlo_shape **out) {
  *out = NULL;
  if (op <= HLO_OP_INVALID || op >= HLO_OPCODE_COUNT)
    return hs_fail(HS_E_OPCODE, "there is no operation number %d", (int)op);
  if (!hlo_op_takes(op, n))
    return hs_fail(HS_E_ARITY, "%s expects %s%u operands, but has %u operands", hlo_op_text(op),
                   hlo_op_at_least(op), hlo_op_least(op), n);
  const hlo_shape *few[8], **in = n <= HS_COUNT(few) ? few : hs_alloc(n * sizeof *in);
  for (u32 i = 0; i < n; i++) in[i] = operands[i]->logical;
  infer_args a = {ctx, op, n, in, attrs, stated ? stated->logical : NULL};
  hs_status s = rules[op](&a, out);
  if (in != few) hs_free(in);
  if (!hs_ok(s)) *out = NULL;
  return s;
}

hs_status hlo_infer_instr(const hlo_instr *i, const hlo_shape **out) {
  const hlo_shape *few[8],
      **in = i->noperands <= HS_COUNT(few) ? few : hs_alloc(i->noperands * sizeof *in);
  for (u32 k = 0; k < i->noperands; k++) in[k] = hlo_operand(i, k)->shape;
  hs_status s =
      hlo_infer_shape(i->parent->module->ctx, i->opcode, i->noperands, in, i->attrs, i->shape, out);
  if (in != few) hs_free(in);
  return s;
}

// ---- rules that need no thought -----------------------------------------------------------------
hs_status hlo_infer_first(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 1));
  *out = a->in[0];
  return HS_GOOD;
}
hs_status hlo_infer_token(const infer_args *a, const hlo_shape **out) {
  *out = hlo_shape_token(a->ctx);
  return HS_GOOD;
}
hs_status hlo_infer_u32_scalar(const infer_args *a, const hlo_shape **out) {
  *out = hlo_shape_scalar(a->ctx, HLO_U32);
  return HS_GOOD;
}
hs_status hlo_infer_stated(const infer_args *a, const hlo_shape **out) {
  if (!a->stated)
    return hs_fail(HS_E_SHAPE, "the shape of %s cannot be inferred; write it", hlo_op_text(a->op));
  *out = a->stated;
  return HS_GOOD;
}
hs_status hlo_infer_tuple(const infer_args *a, const hlo_shape **out) {
  *out = hlo_shape_tuple(a->ctx, a->n, a->in);
  return hlo_shape_check_tuple(*out);
}
hs_status hlo_infer_gte(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *t = a->in[0];
  i64 k = infer_int(a, HLO_ATTR_INDEX, -1);
  if (!hlo_shape_is_tuple(t))
    return hs_fail(HS_E_SHAPE, "Cannot infer shape: attempt to index into non-tuple: %s.",
                   infer_text(t));
  if (k < 0 || k >= t->nelems)
    return hs_fail(
        HS_E_SHAPE,
        "Cannot infer shape: attempt to index out of tuple bounds: %lld >= %u in shape %s.",
        (long long)k, t->nelems, infer_text(t));
  *out = t->elems[k];
  return HS_GOOD;
}

// ---- unary --------------------------------------------------------------------------------------
enum {
  CLS_PRED = 1,
  CLS_SINT = 2,
  CLS_UINT = 4,
  CLS_FLOAT = 8,
  CLS_COMPLEX = 16,
  CLS_INT = CLS_SINT | CLS_UINT
};
static unsigned class_bit(hlo_dtype t) { return 1u << hlo_dtypes[t].cls; }

// The element types an operation takes, and the words for them.
static unsigned unary_classes(hlo_opcode op, const char **words) {
  switch (op) {
  case HLO_FLOOR:
  case HLO_CEIL:
  case HLO_ROUND_AFZ:
  case HLO_ROUND_EVEN:
  case HLO_CBRT:
  case HLO_ERF:
  case HLO_IS_FINITE:
  case HLO_REDUCE_PRECISION: return *words = "floating", CLS_FLOAT;
  case HLO_CLZ:
  case HLO_POPCNT: return *words = "an integral", CLS_INT;
  case HLO_NOT: return *words = "pred or an integral", CLS_PRED | CLS_INT;
  case HLO_NEGATE:
    return *words = "integral, floating or complex", CLS_INT | CLS_FLOAT | CLS_COMPLEX;
  case HLO_SIGN: return *words = "signed or complex", CLS_INT | CLS_FLOAT | CLS_COMPLEX;
  case HLO_ABS: return *words = "integral, floating or complex", CLS_INT | CLS_FLOAT | CLS_COMPLEX;
  default: return *words = "floating or complex", CLS_FLOAT | CLS_COMPLEX;
  }
}
static hs_status check_unary(const infer_args *a) {
  const char *words;
  unsigned ok = unary_classes(a->op, &words);
  HS_TRY(infer_expect_array(a->in[0], "operand of unary operation"));
  if (class_bit(a->in[0]->dtype) & ok) return HS_GOOD;
  return hs_fail(HS_E_SHAPE, "Expected element type in shape to be %s for %s operation; got %s.",
                 words, hlo_op_text(a->op), hlo_dtype_text(a->in[0]->dtype));
}

hs_status hlo_infer_unary(const infer_args *a, const hlo_shape **out) {
  HS_TRY(check_unary(a));
  *out = a->in[0];
  return HS_GOOD;
}
hs_status hlo_infer_abs(const infer_args *a, const hlo_shape **out) {
  HS_TRY(check_unary(a));
  *out = hlo_shape_with_dtype(a->ctx, a->in[0], hlo_dtype_real_part(a->in[0]->dtype));
  return HS_GOOD;
}
hs_status hlo_infer_real_part(const infer_args *a, const hlo_shape **out) {
  return hlo_infer_abs(a, out);
}
hs_status hlo_infer_is_finite(const infer_args *a, const hlo_shape **out) {
  HS_TRY(check_unary(a));
  *out = hlo_shape_with_dtype(a->ctx, a->in[0], HLO_PRED);
  return HS_GOOD;
}
hs_status hlo_infer_reduce_precision(const infer_args *a, const hlo_shape **out) {
  HS_TRY(check_unary(a));
  if (infer_int(a, HLO_ATTR_EXPONENT_BITS, 1) < 1)
    return hs_fail(HS_E_SHAPE, "Expected exponent_bits >= 1; got %lld.",
                   (long long)infer_int(a, HLO_ATTR_EXPONENT_BITS, 1));
  if (infer_int(a, HLO_ATTR_MANTISSA_BITS, 0) < 0)
    return hs_fail(HS_E_SHAPE, "Expected mantissa_bits >= 0; got %lld.",
                   (long long)infer_int(a, HLO_ATTR_MANTISSA_BITS, 0));
  *out = a->in[0];
  return HS_GOOD;
}

// Conversions take their type from the written shape, their dimensions from the operand.
hs_status hlo_infer_convert(const infer_args *a, const hlo_shape **out) {
  if (!a->stated) return hlo_infer_stated(a, out);
  if (!hlo_shape_is_array(a->in[0]) || !hlo_shape_is_array(a->stated))
    return hs_fail(HS_E_SHAPE,
                   "Convert does not allow non-arrays, so cannot convert from %s to %s.",
                   infer_text(a->in[0]), infer_text(a->stated));
  *out = hlo_shape_with_dtype(a->ctx, a->in[0], a->stated->dtype);
  return HS_GOOD;
}
hs_status hlo_infer_stochastic_convert(const infer_args *a, const hlo_shape **out) {
  if (!a->stated) return hlo_infer_stated(a, out);
  const hlo_shape *x = a->in[0], *r = a->in[1];
  if (!hlo_shape_is_array(x) || !hlo_shape_is_array(r) || !hlo_shape_is_array(a->stated))
    return hs_fail(HS_E_SHAPE,
                   "Stochastic convert does not allow non-arrays, so cannot convert from %s to %s.",
                   infer_text(x), infer_text(a->stated));
  if (!hlo_dtype_is_unsigned(r->dtype))
    return hs_fail(HS_E_SHAPE,
                   "Random numbers for stochastic convert must be unsigned integers, but got: %s",
                   infer_text(r));
  if (!hlo_dtype_is_float(x->dtype))
    return hs_fail(
        HS_E_SHAPE,
        "Stochastic convert supports only floating point operand conversion, but got: %s",
        infer_text(x));
  if (hlo_dtype_bits(x->dtype) != hlo_dtype_bits(r->dtype))
    return hs_fail(
        HS_E_SHAPE,
        "The random number is required to have same bits as the operand. But got random bits: %d, "
        "operand bits: %d",
        hlo_dtype_bits(r->dtype), hlo_dtype_bits(x->dtype));
  if (!infer_compatible(x, r, INFER_ANY_TYPE))
    return hs_fail(HS_E_SHAPE,
                   "Stochastic convert operand shape does not match random tensor shape: %s vs %s",
                   infer_text(x), infer_text(r));
  *out = hlo_shape_with_dtype(a->ctx, x, a->stated->dtype);
  return HS_GOOD;
}

// ---- binary -------------------------------------------------------------------------------------
// Of two sizes that fit, the more specific one: static beats bounded beats unbounded; size 1
// stretches.
static bool merge_dim(i64 x, bool xd, i64 y, bool yd, i64 *size, bool *dyn) {
  if (x == y) return *size = x, *dyn = xd || yd, true;
  if (x == 1 && !xd) return *size = y, *dyn = yd, true;
  if (y == 1 && !yd) return *size = x, *dyn = xd, true;
  if (x == HLO_UNBOUNDED) return *size = y, *dyn = yd, true;
  if (y == HLO_UNBOUNDED) return *size = x, *dyn = xd, true;
  return false;
}

static hs_status bad_broadcast(const infer_args *a) {
  return hs_fail(HS_E_SHAPE, "Binary op %s with incompatible shapes: %s and %s.",
                 hlo_op_text(a->op), infer_text(a->in[0]), infer_text(a->in[1]));
}

// Dimensions of x op y. HLO itself never broadcasts; the rule is XLA's, which its own callers use
// with scalars and with `dimensions` naming where the lower-rank operand goes.
static hs_status elementwise_shape(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0], *y = a->in[1];
  if (x == y && !a->attrs) return *out = x, HS_GOOD;
  if (!infer_same_type_class(x->dtype, y->dtype))
    return hs_fail(HS_E_SHAPE, "Binary op %s with different element types: %s and %s.",
                   hlo_op_text(a->op), infer_text(x), infer_text(y));
  hlo_dtype t = infer_wider(x->dtype, y->dtype);
  hlo_ints map = infer_ints(a, HLO_ATTR_DIMENSIONS);
  const hlo_shape *big = x->rank >= y->rank ? x : y, *small = big == x ? y : x;
  if (x->rank == y->rank)
    for (u32 i = 0; i < map.n; i++)
      if (map.n != x->rank || map.v[i] != i)
        return hs_fail(
            HS_E_SHAPE,
            "Broadcast dimensions field must either be not set or be the identity on binary "
            "operations "
            "with operands of the same rank.");
  if (x->rank != y->rank && small->rank && map.n != small->rank)
    return hs_fail(
        HS_E_SHAPE,
        "Size of broadcast_dimensions has to match lower-rank operand's rank; lower-rank operand's "
        "rank is %u, size "
        "of broadcast_dimensions is %u.",
        small->rank, map.n);
  infer_dims d = {0};
  for (u32 i = 0; i < big->rank; i++) infer_push_dim(&d, big, i);
  i64 before = -1;
  for (u32 i = 0; i < small->rank; i++) {
    i64 at = x->rank == y->rank ? i : map.v[i];
    if (at < 0 || at >= big->rank || at <= before)
      return hs_fail(HS_E_SHAPE,
                     "Broadcast dimension number (%lld) is out of range or out of order for %s.",
                     (long long)at, infer_text(big));
    before = at;
    if (!merge_dim(big->dims[at], hlo_dim_is_dynamic(big, (u32)at), small->dims[i],
                   hlo_dim_is_dynamic(small, i), &d.size[at], &d.dyn[at]))
      return bad_broadcast(a);
  }
  return infer_array(a, t, &d, out);
}

static unsigned binary_classes(hlo_opcode op, const char **words) {
  switch (op) {
  case HLO_SUBTRACT:
  case HLO_POWER: return *words = "arithmetic type", CLS_INT | CLS_FLOAT | CLS_COMPLEX;
  case HLO_SHIFT_LEFT:
  case HLO_SHIFT_RIGHT_ARITH:
  case HLO_SHIFT_RIGHT_LOGICAL:
  case HLO_MULHI: return *words = "integral", CLS_INT;
  case HLO_ATAN2:
  case HLO_COMPLEX: return *words = "floating or complex", CLS_FLOAT | CLS_COMPLEX;
  case HLO_AND:
  case HLO_OR:
  case HLO_XOR: return *words = "pred or integral", CLS_PRED | CLS_INT;
  default: return *words = "any", ~0u;
  }
}

hs_status hlo_infer_binary(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_expect_array(a->in[0], "lhs of binary operation"));
  HS_TRY(infer_expect_array(a->in[1], "rhs of binary operation"));
  const char *words;
  if (!(class_bit(a->in[0]->dtype) & binary_classes(a->op, &words)))
    return hs_fail(HS_E_SHAPE, "Expected input element type to be %s for %s; got %s.", words,
                   hlo_op_text(a->op), hlo_dtype_text(a->in[0]->dtype));
  return elementwise_shape(a, out);
}
hs_status hlo_infer_compare(const infer_args *a, const hlo_shape **out) {
  HS_TRY(hlo_infer_binary(a, out));
  *out = hlo_shape_with_dtype(a->ctx, *out, HLO_PRED);
  return HS_GOOD;
}
hs_status hlo_infer_complex(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_expect_array(a->in[0], "lhs of binary operation"));
  HS_TRY(infer_expect_array(a->in[1], "rhs of binary operation"));
  hlo_dtype t = a->in[0]->dtype;
  if ((t != HLO_F32 && t != HLO_F64) || a->in[1]->dtype != t)
    return hs_fail(
        HS_E_SHAPE,
        "Expected element type in shape to be floating for complex compose operation; got %s and "
        "%s.",
        hlo_dtype_text(t), hlo_dtype_text(a->in[1]->dtype));
  HS_TRY(elementwise_shape(a, out));
  *out = hlo_shape_with_dtype(a->ctx, *out, t == HLO_F32 ? HLO_C64 : HLO_C128);
  return HS_GOOD;
}

// ---- ternary ------------------------------------------------------------------------------------
hs_status hlo_infer_clamp(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *lo = a->in[0], *x = a->in[1], *hi = a->in[2];
  HS_TRY(infer_expect_array(lo, "clamp min"));
  HS_TRY(infer_expect_array(x, "clamp operand"));
  HS_TRY(infer_expect_array(hi, "clamp max"));
  if (!infer_same_type_class(lo->dtype, x->dtype) || !infer_same_type_class(hi->dtype, x->dtype))
    return hs_fail(HS_E_SHAPE, "Clamp with different operand types: %s, %s, %s.", infer_text(lo),
                   infer_text(x), infer_text(hi));
  if ((lo->rank && !infer_compatible(lo, x, INFER_ANY_FLOAT)) ||
      (hi->rank && !infer_compatible(hi, x, INFER_ANY_FLOAT)))
    return hs_fail(HS_E_SHAPE, "Clamp with incompatible shapes: %s, %s, %s.", infer_text(lo),
                   infer_text(x), infer_text(hi));
  *out = hlo_shape_with_dtype(a->ctx, x, infer_wider(infer_wider(lo->dtype, x->dtype), hi->dtype));
  return HS_GOOD;
}

hs_status hlo_infer_select(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *p = a->in[0], *t = a->in[1], *f = a->in[2];
  HS_TRY(infer_expect_array(p, "select pred"));
  HS_TRY(infer_expect_array(t, "select on-true"));
  HS_TRY(infer_expect_array(f, "select on-false"));
  if (!infer_compatible(t, f, INFER_ANY_FLOAT))
    return hs_fail(HS_E_SHAPE, "Operands to select must be the same shape; got %s and %s.",
                   infer_text(t), infer_text(f));
  if (p->dtype != HLO_PRED)
    return hs_fail(HS_E_SHAPE, "Select's pred operand must have PRED element type; got %s.",
                   infer_text(p));
  if (p->rank && !infer_compatible(p, t, INFER_ANY_TYPE))
    return hs_fail(HS_E_SHAPE,
                   "Operands to select and predicate must be the same shape; got %s and %s and %s.",
                   infer_text(t), infer_text(f), infer_text(p));
  infer_dims d = {0};
  for (u32 i = 0; i < t->rank; i++) {
    i64 size = t->dims[i];
    bool dyn = hlo_dim_is_dynamic(t, i);
    merge_dim(size, dyn, f->dims[i], hlo_dim_is_dynamic(f, i), &size, &dyn);
    if (p->rank) merge_dim(size, dyn, p->dims[i], hlo_dim_is_dynamic(p, i), &size, &dyn);
    infer_push(&d, size, dyn);
  }
  return infer_array(a, infer_wider(t->dtype, f->dtype), &d, out);
}
