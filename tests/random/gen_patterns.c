// gen_patterns.c — what passes look for: chains that undo themselves, neutral operands, data
// movement around arithmetic, slices of concatenations, sums of rearranged arrays, dots that could
// be one, loops with invariant, constant and dead state, decided conditionals, calls in calls,
// values computed twice. Numbers are whole where passes may reorder sums.
#include "tests/random/gen.h"

#include <math.h>
#include <stdio.h>

// ---- pieces -------------------------------------------------------------------------------------
// As an operand the value may have skipped a rounding; moving it makes that visible.
static gen_value as_used(const gen_value *a) {
  gen_value like = *a;
  like.err = a->soft;
  return like;
}

static bool is_whole(hlo_dtype t) { return hlo_dtype_is_integer(t); }
// What arithmetic in any order is exact on: integers, and floats that are small whole numbers.
static hlo_dtype exact_type(gen *g) {
  static const hlo_dtype t[] = {HLO_S32, HLO_S32, HLO_F32, HLO_F32,
                                HLO_U32, HLO_S64, HLO_F64, HLO_S8};
  return t[gen_below(g, HS_COUNT(t))];
}

static gen_value *unary(gen *g, const char *op, gen_value *a) {
  gen_value like = as_used(a);
  if (strcmp(op, "negate") == 0 && !is_whole(a->type)) like.lo = -a->hi, like.hi = -a->lo;
  else if (is_whole(a->type)) like.lo = gen_type_lo(a->type), like.hi = gen_type_hi(a->type);
  return gen_put(g, &like, "%s(%s)", op, a->name);
}

// add, subtract, multiply, maximum, minimum of equal shapes; exact operands only.
static gen_value *binary(gen *g, const char *op, gen_value *a, gen_value *b) {
  gen_value like = *a;
  double m = gen_magnitude(a), n = gen_magnitude(b);
  like.err = like.soft = fmax(a->soft, b->soft);
  if (is_whole(a->type)) like.lo = gen_type_lo(a->type), like.hi = gen_type_hi(a->type);
  else {
    double top = op[0] == 'm' && op[1] == 'u' ? m * n : op[0] == 'm' ? fmax(m, n) : m + n;
    like.lo = -top, like.hi = top;
    like.integral = a->integral && b->integral && top * gen_eps(a->type) < 1;
    if (!like.integral)
      like.soft = like.err =
          a->soft * (1 + n) + b->soft * (1 + m) + 4 * gen_eps(a->type) * fmax(top, 1);
  }
  return gen_put(g, &like, "%s(%s, %s)", op, a->name, b->name);
}

static gen_value *reshaped(gen *g, gen_value *a, u32 rank, const i64 *dims) {
  gen_value like = as_used(a);
  like.rank = rank;
  memcpy(like.dims, dims, rank * sizeof *dims);
  return gen_put(g, &like, "reshape(%s)", a->name);
}

static gen_value *transposed(gen *g, gen_value *a, const i64 *perm) {
  gen_value like = as_used(a);
  for (u32 k = 0; k < a->rank; k++) like.dims[k] = a->dims[perm[k]];
  return gen_put(g, &like, "transpose(%s), dimensions={%s}", a->name, gen_ints(a->rank, perm));
}

static gen_value *splat(gen *g, gen_value *scalar, u32 rank, const i64 *dims) {
  gen_value like = as_used(scalar);
  like.rank = rank;
  memcpy(like.dims, dims, rank * sizeof *dims);
  return gen_put(g, &like, "broadcast(%s), dimensions={}", scalar->name);
}

static gen_value *splat_of(gen *g, const gen_value *shape, double x) {
  return splat(g, gen_scalar_constant(g, shape->type, x), shape->rank, shape->dims);
}

static gen_value *exact(gen *g, hlo_dtype t, u32 least, u32 most) {
  return gen_of_type(g, t, least, most, is_whole(t) ? GEN_ANY : GEN_INTEGRAL);
}
static gen_value *exact_like(gen *g, const gen_value *a) {
  return gen_operand(g, a->type, a->rank, a->dims, is_whole(a->type) ? GEN_ANY : GEN_INTEGRAL);
}

static gen_value *summed(gen *g, gen_value *a, u32 n, const i64 *dims) {
  gen_value like = *a;
  i64 count = 1;
  like.rank = 0;
  for (u32 d = 0; d < a->rank; d++) {
    bool out = false;
    for (u32 k = 0; k < n; k++) out |= dims[k] == d;
    if (out) count *= a->dims[d];
    else like.dims[like.rank++] = a->dims[d];
  }
  double top = gen_magnitude(a) * (double)HS_MAX(count, 1);
  like.lo = is_whole(a->type) ? gen_type_lo(a->type) : -top;
  like.hi = is_whole(a->type) ? gen_type_hi(a->type) : top;
  like.err = like.soft = gen_sum_error(a, HS_MAX(count, 1));
  like.integral = is_whole(a->type) || (a->integral && top * gen_eps(a->type) < 1);
  gen_value *zero = gen_scalar_constant(g, a->type, 0);
  return gen_put(g, &like, "reduce(%s, %s), dimensions={%s}, to_apply=%s", a->name, zero->name,
                 gen_ints(n, dims), gen_reducer(g, "add", a->type));
}

// ---- arithmetic ---------------------------------------------------------------------------------
static bool undone(gen *g) {
  gen_value *a = gen_of_type(g, gen_any_type(g), 1, 4, GEN_ANY);
  i64 perm[GEN_MAX_RANK], back[GEN_MAX_RANK], flat = gen_count(a);
  bool number = is_whole(a->type) || hlo_dtype_is_float(a->type);
  switch (gen_below(g, 5)) {
  case 0:
    gen_perm(g, a->rank, perm);
    for (u32 k = 0; k < a->rank; k++) back[perm[k]] = k;
    transposed(g, transposed(g, a, perm), back);
    break;
  case 1: reshaped(g, reshaped(g, a, 1, &flat), a->rank, a->dims); break;
  case 2: {
    gen_value like = as_used(a), *r = gen_put(g, &like, "reverse(%s), dimensions={0}", a->name);
    gen_put(g, &like, "reverse(%s), dimensions={0}", r->name);
    break;
  }
  case 3:
    if (!number) return false;
    unary(g, "negate", unary(g, "negate", a));
    break;
  default: {
    gen_perm(g, a->rank, perm);
    gen_value *t = transposed(g, a, perm);
    reshaped(g, transposed(g, t, perm), 1, &flat);
  }
  }
  return true;
}

static bool neutral(gen *g) {
  hlo_dtype t = gen_chance(g, 50) ? gen_float(g) : gen_int(g);
  gen_value *a = gen_of_type(g, t, 0, 3, GEN_ANY), like = as_used(a);
  static const struct {
    const char *op;
    double x;
    bool left;
  } ops[] = {{"add", 0, false},    {"multiply", 1, false}, {"subtract", 0, false},
             {"divide", 1, false}, {"multiply", 1, true},  {"add", 0, true}};
  u32 k = gen_below(g, HS_COUNT(ops) + 3);
  if (k < HS_COUNT(ops)) {
    gen_value *b = splat_of(g, a, ops[k].x);
    gen_put(g, &like, "%s(%s, %s)", ops[k].op, ops[k].left ? b->name : a->name,
            ops[k].left ? a->name : b->name);
  } else if (k == HS_COUNT(ops)) gen_put(g, &like, "maximum(%s, %s)", a->name, a->name);
  else {
    gen_value *p = splat(g, gen_scalar_constant(g, HLO_PRED, k & 1), a->rank, a->dims),
              *b = gen_operand(g, t, a->rank, a->dims, GEN_ANY);
    like = as_used(k & 1 ? a : b);
    gen_put(g, &like, "select(%s, %s, %s)", p->name, a->name, b->name);
  }
  return true;
}

static bool converts(gen *g) {
  static const hlo_dtype path[][3] = {{HLO_F32, HLO_F64, HLO_F32}, {HLO_BF16, HLO_F32, HLO_BF16},
                                      {HLO_F16, HLO_F32, HLO_F16}, {HLO_S8, HLO_S32, HLO_S8},
                                      {HLO_S32, HLO_S64, HLO_S32}, {HLO_U8, HLO_S32, HLO_U8},
                                      {HLO_S16, HLO_F32, HLO_S16}, {HLO_PRED, HLO_S32, HLO_PRED},
                                      {HLO_U8, HLO_F32, HLO_F64},  {HLO_S8, HLO_S16, HLO_S64}};
  const hlo_dtype *t = path[gen_below(g, HS_COUNT(path))];
  gen_value *a = gen_of_type(g, t[0], 0, 3, GEN_ANY), like = as_used(a);
  like.type = t[1];
  gen_value *b = gen_put(g, &like, "convert(%s)", a->name);
  if (gen_chance(g, 50) && a->rank) {  // data movement between them
    i64 perm[GEN_MAX_RANK];
    gen_perm(g, a->rank, perm);
    b = transposed(g, b, perm);
  }
  like = as_used(b);
  like.type = t[2];
  gen_put(g, &like, "convert(%s)", b->name);
  return true;
}

static bool twice(gen *g) {
  gen_value *a = exact(g, exact_type(g), 0, 3), *b = exact_like(g, a);
  const char *op = gen_chance(g, 50) ? "add" : gen_chance(g, 50) ? "multiply" : "maximum";
  gen_value *x = binary(g, op, a, b),
            *y = gen_chance(g, 50) ? binary(g, op, b, a) : binary(g, op, a, b);
  binary(g, gen_chance(g, 50) ? "subtract" : "add", x, y);
  return true;
}

static bool regrouped(gen *g) {
  gen_value *a = exact(g, exact_type(g), 0, 2), *two = splat_of(g, a, 2),
            *three = splat_of(g, a, 3);
  switch (gen_below(g, 4)) {
  case 0: binary(g, "multiply", binary(g, "multiply", a, two), three); break;
  case 1: binary(g, "add", binary(g, "add", a, two), three); break;
  case 2: binary(g, "add", binary(g, "multiply", a, two), binary(g, "multiply", a, three)); break;
  default: binary(g, "subtract", binary(g, "add", two, a), three);
  }
  return true;
}

static bool predicates(gen *g) {
  gen_value *a = gen_of_type(g, HLO_S32, 1, 2, GEN_ANY),
            p = gen_shape_of(HLO_PRED, a->rank, a->dims), like = *a,
            *b = gen_operand(g, HLO_S32, a->rank, a->dims, GEN_ANY);
  p.hi = 1, p.integral = true;
  like.lo = -1e3, like.hi = 1e3, like.integral = true;
  gen_value *i = gen_put(g, &like, "iota(), iota_dimension=%u", gen_below(g, a->rank)),
            *k = splat_of(g, a, (double)gen_below(g, 9) - 1);
  static const char *const dirs[] = {"LT", "GE", "EQ", "NE", "GT", "LE"};
  gen_value *x = gen_put(g, &p, "compare(%s, %s), direction=%s", i->name, k->name,
                         dirs[gen_below(g, 6)]),
            *y = gen_put(g, &p, "compare(%s, %s), direction=%s", a->name,
                         gen_chance(g, 30) ? a->name : b->name, dirs[gen_below(g, 6)]);
  gen_value *n = gen_put(g, &p, "not(%s)", x->name),
            *both = gen_put(g, &p, "%s(%s, %s)", gen_chance(g, 50) ? "and" : "or", n->name,
                            gen_chance(g, 30) ? n->name : y->name);
  gen_value out = *a;
  out.lo = fmin(a->lo, b->lo), out.hi = fmax(a->hi, b->hi);
  gen_put(g, &out, "select(%s, %s, %s)", both->name, a->name, b->name);
  return true;
}

// ---- data movement ------------------------------------------------------------------------------
static bool moved_below(gen *g) {
  gen_value *a = exact(g, exact_type(g), 2, 3), *b = exact_like(g, a), *x, *y;
  if (gen_chance(g, 50)) {
    i64 perm[GEN_MAX_RANK];
    gen_perm(g, a->rank, perm);
    x = transposed(g, a, perm), y = transposed(g, b, perm);
  } else {
    i64 flat = gen_count(a);
    x = reshaped(g, a, 1, &flat), y = reshaped(g, b, 1, &flat);
  }
  gen_value *z = binary(g, "add", x, y);
  if (gen_chance(g, 50)) binary(g, "maximum", z, splat_of(g, z, 1));
  return true;
}

static bool pieces(gen *g) {
  gen_value *a = gen_of_type(g, gen_any_type(g), 1, 3, GEN_ANY), like = as_used(a);
  u32 d = gen_below(g, a->rank);
  if (a->dims[d] < 2) return false;
  i64 cut = 1 + gen_below(g, (u32)a->dims[d] - 1);
  hs_buf low = {0}, high = {0};
  for (u32 k = 0; k < a->rank; k++) {
    hs_buf_printf(&low, "%s[0:%lld]", k ? ", " : "", (long long)(k == d ? cut : a->dims[k]));
    hs_buf_printf(&high, "%s[%lld:%lld]", k ? ", " : "", (long long)(k == d ? cut : 0),
                  (long long)a->dims[k]);
  }
  gen_value first = like, second = like;
  first.dims[d] = cut, second.dims[d] = a->dims[d] - cut;
  gen_value *x = gen_put(g, &first, "slice(%s), slice={%s}", a->name, hs_buf_cstr(&low)),
            *y = gen_put(g, &second, "slice(%s), slice={%s}", a->name, hs_buf_cstr(&high));
  gen_value *all = gen_put(g, &like, "concatenate(%s, %s), dimensions={%u}", x->name, y->name, d);
  if (gen_chance(g, 60)) gen_put(g, &first, "slice(%s), slice={%s}", all->name, hs_buf_cstr(&low));
  hs_buf_free(&low);
  hs_buf_free(&high);
  return true;
}

static bool padded(gen *g) {
  gen_value *a = gen_of_type(g, gen_chance(g, 50) ? HLO_F32 : HLO_S32, 1, 2, GEN_ANY),
            *zero = gen_scalar_constant(g, a->type, 0), like = as_used(a), back = like;
  hs_buf pad = {0}, cut = {0};
  for (u32 k = 0; k < a->rank; k++) {
    u32 low = gen_below(g, 3), high = gen_below(g, 3);
    like.dims[k] += low + high;
    hs_buf_printf(&pad, "%s%u_%u", k ? "x" : "", low, high);
    hs_buf_printf(&cut, "%s[%u:%lld]", k ? ", " : "", low, (long long)(low + a->dims[k]));
  }
  like.lo = fmin(like.lo, 0), like.hi = fmax(like.hi, 0);
  gen_value *p =
      gen_put(g, &like, "pad(%s, %s), padding=%s", a->name, zero->name, hs_buf_cstr(&pad));
  if (gen_chance(g, 60)) gen_put(g, &back, "slice(%s), slice={%s}", p->name, hs_buf_cstr(&cut));
  hs_buf_free(&pad);
  hs_buf_free(&cut);
  return true;
}

// A dynamic-slice and a dynamic-update-slice whose places are constants, in and out of bounds.
static bool placed(gen *g) {
  gen_value *a = gen_of_type(g, gen_any_type(g), 1, 3, GEN_ANY), like = as_used(a);
  hs_buf starts = {0};
  if (gen_count(a) == 0) return false;
  for (u32 k = 0; k < a->rank; k++) {
    like.dims[k] = 1 + gen_below(g, (u32)a->dims[k]);
    hs_buf_printf(
        &starts, ", %s",
        gen_scalar_constant(g, HLO_S32, (double)gen_below(g, (u32)a->dims[k] + 3) - 1)->name);
  }
  gen_value *piece = gen_put(g, &like, "dynamic-slice(%s%s), dynamic_slice_sizes={%s}", a->name,
                             hs_buf_cstr(&starts), gen_ints(like.rank, like.dims)),
            whole = as_used(a);
  if (gen_chance(g, 60))
    gen_put(g, &whole, "dynamic-update-slice(%s, %s%s)", a->name, piece->name,
            hs_buf_cstr(&starts));
  hs_buf_free(&starts);
  return true;
}

static bool spread(gen *g) {
  hlo_dtype t = exact_type(g);
  i64 dims[3];
  gen_dims(g, 2, dims);
  gen_value *s = exact(g, t, 0, 0), *u = exact_like(g, s), *x = splat(g, s, 2, dims),
            *y = splat(g, u, 2, dims), like = *x;
  binary(g, gen_chance(g, 50) ? "multiply" : "add", x, y);
  dims[2] = 3;
  like.rank = 3;
  like.dims[2] = 3;
  gen_put(g, &like, "broadcast(%s), dimensions={0,1}", x->name);
  return true;
}

// Other layouts than the default, which copies and transposes bring about.
static bool laid_out(gen *g) {
  gen_value *a = gen_of_type(g, HLO_F32, 2, 3, GEN_ANY), like = as_used(a);
  i64 perm[GEN_MAX_RANK];
  char name[32];
  gen_perm(g, a->rank, perm);
  snprintf(name, sizeof name, "laid%u", g->nregions++);
  a->used = true;
  hs_buf_printf(&g->body, "  %s = f32[%s]{%s} copy(%s)\n", name, gen_ints(a->rank, a->dims),
                gen_ints(a->rank, perm), a->name);
  gen_perm(g, a->rank, perm);
  for (u32 k = 0; k < a->rank; k++) like.dims[k] = a->dims[perm[k]];
  gen_put(g, &like, "transpose(%s), dimensions={%s}", name, gen_ints(a->rank, perm));
  return true;
}

static bool empty(gen *g) {
  gen_value *a = gen_of_type(g, gen_chance(g, 50) ? HLO_F32 : HLO_S32, 1, 2, GEN_ANY),
            like = as_used(a);
  hs_buf b = {0};
  like.dims[0] = 0;
  for (u32 k = 0; k < a->rank; k++)
    hs_buf_printf(&b, "%s[0:%lld]", k ? ", " : "", (long long)(k ? a->dims[k] : 0));
  gen_value *none = gen_put(g, &like, "slice(%s), slice={%s}", a->name, hs_buf_cstr(&b));
  like.dims[0] = a->dims[0];
  bool first = gen_chance(g, 50);
  gen_put(g, &like, "concatenate(%s, %s), dimensions={0}", first ? a->name : none->name,
          first ? none->name : a->name);
  hs_buf_free(&b);
  return true;
}

// ---- sums and products --------------------------------------------------------------------------
static bool sums(gen *g) {
  gen_value *a = exact(g, exact_type(g), 2, 3), *b = a;
  i64 perm[GEN_MAX_RANK], flat = gen_count(a), first = 0, last = (i64)a->rank - 1;
  switch (gen_below(g, 6)) {
  case 0: gen_perm(g, a->rank, perm), b = transposed(g, a, perm); break;
  case 1: b = reshaped(g, a, 1, &flat), last = 0; break;
  case 2: b = summed(g, a, 1, &last), last = (i64)b->rank - 1; break;  // of a sum
  case 3: b = splat(g, exact(g, a->type, 0, 0), a->rank, a->dims); break;
  case 4: b = unary(g, "negate", a); break;
  default: last = 0;
  }
  if (!b->rank || (!is_whole(b->type) && !b->integral)) return true;
  summed(g, b, 1, gen_chance(g, 50) ? &first : &last);
  return true;
}

static gen_value *product(gen *g, gen_value *a, gen_value *b, u32 lhs, u32 rhs) {
  gen_value like = gen_shape_of(a->type, 2, (i64[]){a->dims[1 - lhs], b->dims[1 - rhs]});
  double top = gen_magnitude(a) * gen_magnitude(b) * (double)HS_MAX(a->dims[lhs], 1);
  like.lo = is_whole(a->type) ? gen_type_lo(a->type) : -top;
  like.hi = is_whole(a->type) ? gen_type_hi(a->type) : top;
  like.integral = is_whole(a->type) || top * gen_eps(a->type) < 1;
  if (!like.integral)
    like.err = like.soft = 8 * top * gen_eps(a->type) * (double)(a->dims[lhs] + 2);
  return gen_put(g, &like, "dot(%s, %s), lhs_contracting_dims={%u}, rhs_contracting_dims={%u}",
                 a->name, b->name, lhs, rhs);
}

static gen_value *matrix(gen *g, hlo_dtype t, i64 m, i64 n) {
  return gen_operand(g, t, 2, (i64[]){m, n}, is_whole(t) ? GEN_ANY : GEN_INTEGRAL);
}

static bool products(gen *g) {
  hlo_dtype t = gen_chance(g, 60) ? HLO_F32 : HLO_S32;
  i64 m = 1 + gen_below(g, 6), k = 1 + gen_below(g, 6), n = 1 + gen_below(g, 6);
  gen_value *a = matrix(g, t, m, k), *b = matrix(g, t, k, n);
  switch (gen_below(g, 5)) {
  case 0: {  // two that share an operand
    gen_value *x = product(g, a, b, 1, 0), *y = product(g, a, matrix(g, t, k, n), 1, 0);
    if (x->integral && y->integral) binary(g, "maximum", x, y);
    break;
  }
  case 1: product(g, transposed(g, a, (i64[]){1, 0}), b, 0, 0); break;
  case 2: transposed(g, product(g, a, b, 1, 0), (i64[]){1, 0}); break;
  case 3: {  // of a product
    gen_value *x = product(g, a, b, 1, 0);
    if (x->integral && gen_magnitude(x) < 1e3) product(g, x, matrix(g, t, n, 2), 1, 0);
    break;
  }
  default: {  // by a matrix of ones, and of concatenated matrices
    gen_value like = *b, *c = matrix(g, t, k, n);
    like.dims[1] = 2 * n;
    like.lo = fmin(b->lo, c->lo), like.hi = fmax(b->hi, c->hi);
    product(g, a, gen_put(g, &like, "concatenate(%s, %s), dimensions={1}", b->name, c->name), 1, 0);
  }
  }
  return true;
}

// ---- calls --------------------------------------------------------------------------------------
// A loop whose state has, beside the counter and what it works on, an invariant array, a constant,
// an element nobody reads and one that is a copy of another. The body computes something from the
// invariants alone, and may update a row per turn.
static bool loop(gen *g) {
  hlo_dtype t = gen_chance(g, 50) ? HLO_S32 : HLO_F32;
  const char *ty = hlo_dtype_text(t);
  i64 n = 1 + gen_below(g, 6), width = 1 + gen_below(g, 5);
  gen_value *x = gen_operand(g, t, 2, (i64[]){n, width}, GEN_INTEGRAL),
            *y = gen_operand(g, t, 1, &width, GEN_INTEGRAL), *k = gen_scalar_constant(g, t, 2);
  u32 from = gen_below(g, 3), step = 1 + gen_below(g, 2), to = gen_below(g, 8),
      stay = gen_below(g, 2);
  const char *cond = gen_region_name(g), *body = gen_region_name(g);
  const char *accumulate = gen_chance(g, 50) ? "dynamic-update-slice(x, row, i, zero)"
                           : is_whole(t)     ? "xor(x, inflated)"
                                             : "maximum(x, inflated)";
  hs_buf s = {0};
  hs_buf_printf(&s, "(s32[], %s[%lld,%lld], %s[%lld], %s[], %s[%lld], s32[])", ty, (long long)n,
                (long long)width, ty, (long long)width, ty, ty, (long long)width);
  const char *st = hs_buf_cstr(&s);
  hs_buf_printf(
      &g->regions,
      "%s {\n  p = %s parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  end = s32[] %s\n"
      "  ROOT r = pred[] compare(i, end), direction=LT\n}\n",
      cond, st, stay ? "get-tuple-element(p), index=5" : "constant(6)");
  hs_buf_printf(
      &g->regions,
      "%s {\n  p = %s parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
      "  x = %s[%lld,%lld] get-tuple-element(p), index=1\n  y = %s[%lld] get-tuple-element(p), "
      "index=2\n"
      "  k = %s[] get-tuple-element(p), index=3\n  d = %s[%lld] get-tuple-element(p), index=4\n"
      "  end = s32[] get-tuple-element(p), index=5\n  ks = %s[%lld] broadcast(k), dimensions={}\n"
      "  twice = %s[%lld] multiply(y, ks)\n  sum = %s[%lld] add(twice, y)\n"
      "  row = %s[1,%lld] reshape(sum)\n  inflated = %s[%lld,%lld] broadcast(sum), dimensions={1}\n"
      "  zero = s32[] constant(0)\n  step = s32[] constant(%u)\n  j = s32[] add(i, step)\n"
      "  z = %s[%lld,%lld] %s\n  e = %s[%lld] negate(d)\n  ROOT r = %s tuple(j, z, y, k, e, end)\n"
      "}\n",
      body, st, ty, (long long)n, (long long)width, ty, (long long)width, ty, ty, (long long)width,
      ty, (long long)width, ty, (long long)width, ty, (long long)width, ty, (long long)width, ty,
      (long long)n, (long long)width, step, ty, (long long)n, (long long)width, accumulate, ty,
      (long long)width, st);
  gen_value *i = gen_scalar_constant(g, HLO_S32, from),
            *end = gen_chance(g, 50) ? gen_scalar_constant(g, HLO_S32, to)
                                     : gen_parameter(g, HLO_S32, 0, NULL, 0, 6, true);
  gen_value likes[6] = {*i, *x, *y, *k, *y, *end};
  likes[0].hi = 16;
  double top = fmax(gen_magnitude(x), 3 * gen_magnitude(y));
  if (is_whole(t)) likes[1].lo = gen_type_lo(t), likes[1].hi = gen_type_hi(t);
  else likes[1].lo = -top, likes[1].hi = top, likes[1].integral = true;
  gen_value *start = gen_put_tuple(g, 6, likes, "tuple(%s, %s, %s, %s, %s, %s)", i->name, x->name,
                                   y->name, k->name, y->name, end->name);
  gen_value *w =
      gen_put_tuple(g, 6, likes, "while(%s), condition=%s, body=%s", start->name, cond, body);
  gen_element(g, w, 1, &likes[1]);
  if (gen_chance(g, 40)) gen_element(g, w, 2, &likes[2]);
  if (gen_chance(g, 40)) gen_element(g, w, 0, &likes[0]);
  hs_buf_free(&s);
  return true;
}

// A conditional that is decided, or whose branches are alike, or with a tuple of which only some is
// read.
static bool decided(gen *g) {
  gen_value *a = exact(g, exact_type(g), 0, 2), *b = exact_like(g, a), likes[2] = {*a, *b}, *p;
  const char *yes = gen_region_name(g), *no = gen_region_name(g);
  char s[64];
  snprintf(s, sizeof s, "%s", gen_shape_text(a));
  bool alike = gen_chance(g, 30);
  for (int k = 0; k < 2; k++)
    hs_buf_printf(&g->regions,
                  "%s {\n  p = (%s, %s) parameter(0)\n  x = %s get-tuple-element(p), index=0\n"
                  "  y = %s get-tuple-element(p), index=1\n  z = %s %s(x, y)\n"
                  "  ROOT r = (%s, %s) tuple(z, %s)\n}\n",
                  k ? no : yes, s, s, s, s, s, k && !alike ? "minimum" : "maximum", s, s,
                  k && !alike ? "x" : "y");
  likes[0].lo = likes[1].lo = fmin(a->lo, b->lo);
  likes[0].hi = likes[1].hi = fmax(a->hi, b->hi);
  p = gen_chance(g, 50) ? gen_scalar_constant(g, HLO_PRED, gen_below(g, 2))
                        : gen_operand(g, HLO_PRED, 0, NULL, GEN_ANY);
  gen_value *in = gen_put_tuple(g, 2, likes, "tuple(%s, %s)", a->name, b->name);
  gen_value *c = gen_put_tuple(g, 2, likes,
                               "conditional(%s, %s, %s), true_computation=%s, false_computation=%s",
                               p->name, in->name, in->name, yes, no);
  gen_element(g, c, gen_below(g, 2), &likes[0]);
  if (gen_chance(g, 40)) gen_element(g, c, gen_below(g, 2), &likes[1]);
  return true;
}

// A function that calls another twice, called from two places.
static bool calls(gen *g) {
  gen_value *a = gen_of_type(g, gen_chance(g, 50) ? HLO_S32 : HLO_F32, 0, 2, GEN_INTEGRAL),
            like = *a;
  const char *inner = gen_region_name(g), *outer = gen_region_name(g);
  char s[64];
  snprintf(s, sizeof s, "%s", gen_shape_text(a));
  hs_buf_printf(
      &g->regions,
      "%s {\n  x = %s parameter(0)\n  y = %s parameter(1)\n  ROOT r = %s maximum(x, y)\n}\n", inner,
      s, s, s);
  hs_buf_printf(
      &g->regions,
      "%s {\n  x = %s parameter(0)\n  n = %s negate(x)\n  a = %s call(x, n), to_apply=%s\n"
      "  b = %s call(a, a), to_apply=%s\n  ROOT r = (%s, %s) tuple(b, n)\n}\n",
      outer, s, s, s, inner, s, inner, s, s);
  if (is_whole(a->type)) like.lo = gen_type_lo(a->type), like.hi = gen_type_hi(a->type);
  else like.hi = gen_magnitude(a), like.lo = -like.hi;
  gen_value likes[2] = {like, like};
  for (u32 k = 0; k < 1 + gen_below(g, 2); k++) {
    gen_value *c = gen_put_tuple(g, 2, likes, "call(%s), to_apply=%s", a->name, outer),
              *e = gen_element(g, c, gen_below(g, 2), &like);
    if (gen_chance(g, 50)) a = e;
  }
  return true;
}

static bool tuples(gen *g) {
  gen_value *a = exact(g, exact_type(g), 0, 2), *b = gen_of_type(g, gen_any_type(g), 0, 2, GEN_ANY),
            likes[2] = {as_used(a), as_used(b)};
  gen_value *t = gen_put_tuple(g, 2, likes, "tuple(%s, %s)", a->name, b->name);
  if (gen_chance(g, 50)) t = gen_put_tuple(g, 2, likes, "opt-barrier(%s)", t->name);
  gen_value *x = gen_element(g, t, 0, &likes[0]), *y = gen_element(g, t, 1, &likes[1]);
  gen_value *again =
      gen_put_tuple(g, 2, (gen_value[]){likes[0], likes[1]}, "tuple(%s, %s)", x->name, y->name);
  gen_element(g, again, 0, &likes[0]);
  return true;
}

// A fusion with two results, of which one may have no reader, and an operand that is read twice.
static bool fused(gen *g) {
  gen_value *a = exact(g, exact_type(g), 1, 2), *b = exact_like(g, a), likes[2] = {*a, *a};
  const char *name = gen_region_name(g);
  char s[64];
  snprintf(s, sizeof s, "%s", gen_shape_text(a));
  hs_buf_printf(&g->regions,
                "%s {\n  x = %s parameter(0)\n  y = %s parameter(1)\n  m = %s maximum(x, y)\n"
                "  n = %s minimum(x, %s)\n  ROOT r = (%s, %s) tuple(%s, n)\n}\n",
                name, s, s, s, s, gen_chance(g, 30) ? "m" : "y", s, s, "m");
  for (u32 k = 0; k < 2; k++) likes[k].lo = fmin(a->lo, b->lo), likes[k].hi = fmax(a->hi, b->hi);
  gen_value *f = gen_put_tuple(g, 2, likes, "fusion(%s, %s), kind=kLoop, calls=%s", a->name,
                               gen_chance(g, 20) ? a->name : b->name, name);
  gen_value *x = gen_element(g, f, gen_below(g, 2), &likes[0]);
  if (gen_chance(g, 50)) binary(g, "maximum", x, gen_element(g, f, 1, &likes[1]));
  return true;
}

// A sort of which only the keys are read.
static bool keys_only(gen *g) {
  gen_value *a = gen_of_type(g, HLO_S32, 1, 2, GEN_EXACT),
            *b = gen_operand(g, HLO_S32, a->rank, a->dims, GEN_EXACT), likes[2] = {*a, *b};
  const char *name = gen_region_name(g);
  hs_buf_printf(
      &g->regions,
      "%s {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  c = s32[] parameter(2)\n"
      "  d = s32[] parameter(3)\n  ROOT r = pred[] compare(a, b), direction=LT\n}\n",
      name);
  gen_value *s =
      gen_put_tuple(g, 2, likes, "sort(%s, %s), dimensions={%u}, is_stable=true, to_apply=%s",
                    a->name, b->name, gen_below(g, a->rank), name);
  gen_element(g, s, 0, &likes[0]);
  return true;
}

// Like reducers under two names, and sums side by side of one array.
static bool siblings(gen *g) {
  gen_value *a = exact(g, HLO_S32, 2, 3), like = gen_shape_of(HLO_S32, a->rank - 1, a->dims),
            *zero = gen_scalar_constant(g, HLO_S32, 0);
  like.lo = gen_type_lo(HLO_S32), like.hi = gen_type_hi(HLO_S32), like.integral = true;
  for (u32 k = 0; k < 2; k++) {
    const char *name = gen_region_name(g);
    hs_buf_printf(
        &g->regions,
        "%s {\n  x = s32[] parameter(0)\n  y = s32[] parameter(1)\n  ROOT r = s32[] add(%s)\n}\n",
        name, gen_chance(g, 50) ? "x, y" : "y, x");
    gen_put(g, &like, "reduce(%s, %s), dimensions={%u}, to_apply=%s", a->name, zero->name,
            a->rank - 1, name);
  }
  return true;
}

bool gen_pattern(gen *g) {
  static gen_family *const all[] = {
      undone, neutral, converts, twice,   regrouped, predicates, moved_below, pieces,    padded,
      placed, spread,  laid_out, empty,   sums,      sums,       products,    products,  loop,
      loop,   loop,    decided,  decided, calls,     tuples,     fused,       keys_only, siblings};
  return all[gen_below(g, HS_COUNT(all))](g);
}
