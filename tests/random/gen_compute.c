// gen_compute.c — products, reductions, windows, sorting and linear algebra of random modules.
#include "tests/random/gen.h"

#include <math.h>

static hlo_dtype product_type(gen *g) {
  static const hlo_dtype t[] = {HLO_F32, HLO_F32, HLO_F32, HLO_F64, HLO_BF16,
                                HLO_F16, HLO_S32, HLO_S8,  HLO_U8,  HLO_C64};
  return t[gen_below(g, HS_COUNT(t))];
}

// Result of summing n products. Integers wrap and are the same everywhere.
static bool product(gen_value *like, const gen_value *a, const gen_value *b, i64 n) {
  double m = gen_magnitude(a) * gen_magnitude(b) * (double)HS_MAX(n, 1) *
             (hlo_dtype_is_complex(a->type) ? 2 : 1);
  if (hlo_dtype_is_integer(like->type)) {
    like->lo = gen_type_lo(like->type);
    like->hi = gen_type_hi(like->type);
    like->integral = true;
    like->err = like->soft = 0;
    return true;
  }
  double eps = gen_eps(like->type);
  like->hi = m;
  like->lo = -m;
  like->integral = a->integral && b->integral && a->soft == 0 && b->soft == 0 && m * eps < 1 &&
                   !hlo_dtype_is_complex(a->type);
  like->err = like->integral ? 0
                             : (double)HS_MAX(n, 1) *
                                       (a->soft * gen_magnitude(b) + b->soft * gen_magnitude(a)) +
                                   (4 + (double)n) * eps * m;
  like->soft = like->err;
  return m < (eps > 0x1p-12 ? 2e4 : 1e6);
}

bool gen_dot(gen *g) {
  hlo_dtype t = product_type(g), out = t;
  if (t == HLO_S8 || t == HLO_U8) out = gen_chance(g, 60) ? HLO_S32 : t;
  else if ((t == HLO_BF16 || t == HLO_F16) && gen_chance(g, 50)) out = HLO_F32;
  u32 nbatch = gen_chance(g, 30), ncontract = gen_chance(g, 85) ? 1 : gen_below(g, 3),
      nleft = gen_below(g, 2 + 1), nright = gen_below(g, 2);
  if (nbatch + ncontract + HS_MAX(nleft, nright) > 4) return false;
  i64 size[8], a_dims[GEN_MAX_RANK], b_dims[GEN_MAX_RANK], perm[GEN_MAX_RANK], at[2][8], n = 1;
  gen_dims(g, 3, size);
  gen_dims(g, 3, size + 3);
  gen_value like = gen_shape_of(out, 0, NULL);
  // Logical dimensions: batch, contracting, free; each operand has them in an order of its own.
  u32 ra = nbatch + ncontract + nleft, rb = nbatch + ncontract + nright;
  gen_perm(g, ra, perm);
  for (u32 k = 0; k < ra; k++)
    a_dims[perm[k]] = k < nbatch + ncontract ? size[k] : size[3 + k - nbatch - ncontract],
    at[0][k] = perm[k];
  gen_perm(g, rb, perm);
  for (u32 k = 0; k < rb; k++)
    b_dims[perm[k]] = k < nbatch + ncontract ? size[k] : 1 + (size[5] + k) % 7, at[1][k] = perm[k];
  for (u32 k = 0; k < nbatch; k++) like.dims[like.rank++] = size[k];
  for (u32 k = 0; k < ncontract; k++) n *= size[nbatch + k];
  gen_value *a = gen_operand(g, t, ra, a_dims, GEN_ANY),
            *b = gen_operand(g, t, rb, b_dims, GEN_ANY);
  for (u32 k = 0; k < ra; k++) {  // free dimensions come out in the operand's order
    bool contracted = false;
    for (u32 j = 0; j < nbatch + ncontract; j++) contracted |= at[0][j] == (i64)k;
    if (!contracted) like.dims[like.rank++] = a->dims[k];
  }
  for (u32 k = 0; k < rb; k++) {
    bool contracted = false;
    for (u32 j = 0; j < nbatch + ncontract; j++) contracted |= at[1][j] == (i64)k;
    if (!contracted) like.dims[like.rank++] = b->dims[k];
  }
  if (!product(&like, a, b, n) || gen_count(&like) > 4 * GEN_MAX_ELEMENTS) return false;
  gen_put(g, &like,
          "dot(%s, %s), lhs_batch_dims={%s}, lhs_contracting_dims={%s}, rhs_batch_dims={%s}, "
          "rhs_contracting_dims={%s}",
          a->name, b->name, gen_ints(nbatch, at[0]), gen_ints(ncontract, at[0] + nbatch),
          gen_ints(nbatch, at[1]), gen_ints(ncontract, at[1] + nbatch));
  return true;
}

bool gen_convolution(gen *g) {
  hlo_dtype t = gen_chance(g, 85)   ? (gen_chance(g, 80) ? HLO_F32 : HLO_F64)
                : gen_chance(g, 50) ? HLO_BF16
                                    : HLO_S32;
  u32 spatial = 1 + gen_below(g, 2);
  i64 groups = gen_chance(g, 20) ? 2 : 1, batch_groups = groups == 1 && gen_chance(g, 10) ? 2 : 1;
  i64 batch = (1 + gen_below(g, 3)) * batch_groups, in = (1 + gen_below(g, 3)) * groups,
      outs = (1 + gen_below(g, 3)) * groups * batch_groups;
  gen_value lhs = gen_shape_of(t, spatial + 2, (i64[GEN_MAX_RANK]){0}), rhs = lhs, like = lhs;
  i64 order[3][GEN_MAX_RANK], n = in / groups;
  for (u32 k = 0; k < 3; k++) gen_perm(g, spatial + 2, order[k]);
  char labels[3][8] = {{0}};
  static const char *const names[3] = {"bf0", "io0", "bf0"};
  for (u32 k = 0; k < 3; k++)
    for (u32 d = 0; d < spatial + 2; d++)
      labels[k][order[k][d]] = d == 0 ? names[k][0] : d == 1 ? names[k][1] : (char)('0' + d - 2);
  lhs.dims[order[0][0]] = batch;
  lhs.dims[order[0][1]] = in;
  rhs.dims[order[1][0]] = in / groups;
  rhs.dims[order[1][1]] = outs;
  like.dims[order[2][0]] = batch / batch_groups;
  like.dims[order[2][1]] = outs;
  hs_buf size = {0}, stride = {0}, pad = {0}, ld = {0}, rd = {0}, rev = {0};
  bool ok = true;
  for (u32 d = 0; d < spatial; d++) {
    i64 x = 1 + gen_below(g, 9), w = 1 + gen_below(g, 3), s = 1 + gen_chance(g, 30),
        lo = gen_below(g, 3), hi = (i64)gen_below(g, 4) - 1, l = 1 + gen_chance(g, 20),
        r = 1 + gen_chance(g, 20);
    i64 wide = (x - 1) * l + 1 + lo + hi, window = (w - 1) * r + 1;
    if (wide < window) ok = false;
    lhs.dims[order[0][d + 2]] = x;
    rhs.dims[order[1][d + 2]] = w;
    like.dims[order[2][d + 2]] = wide < window ? 0 : (wide - window) / s + 1;
    n *= w;
    const char *x_ = d ? "x" : "";
    hs_buf_printf(&size, "%s%lld", x_, (long long)w);
    hs_buf_printf(&stride, "%s%lld", x_, (long long)s);
    hs_buf_printf(&pad, "%s%lld_%lld", x_, (long long)lo, (long long)hi);
    hs_buf_printf(&ld, "%s%lld", x_, (long long)l);
    hs_buf_printf(&rd, "%s%lld", x_, (long long)r);
    hs_buf_printf(&rev, "%s%d", x_, gen_chance(g, 15));
  }
  if (ok) {
    gen_value *a = gen_operand(g, t, lhs.rank, lhs.dims, GEN_ANY),
              *b = gen_operand(g, t, rhs.rank, rhs.dims, GEN_ANY);
    ok = product(&like, a, b, n * batch_groups) && gen_count(&like) <= 3 * GEN_MAX_ELEMENTS;
    if (ok)
      gen_put(g, &like,
              "convolution(%s, %s), window={size=%s stride=%s pad=%s lhs_dilate=%s rhs_dilate=%s "
              "rhs_reversal=%s}, dim_labels=%s_%s->%s, feature_group_count=%lld, "
              "batch_group_count=%lld",
              a->name, b->name, hs_buf_cstr(&size), hs_buf_cstr(&stride), hs_buf_cstr(&pad),
              hs_buf_cstr(&ld), hs_buf_cstr(&rd), hs_buf_cstr(&rev), labels[0], labels[1],
              labels[2], (long long)groups, (long long)batch_groups);
  }
  hs_buf *all[] = {&size, &stride, &pad, &ld, &rd, &rev};
  for (size_t k = 0; k < HS_COUNT(all); k++) hs_buf_free(all[k]);
  return ok;
}

// ---- reductions ---------------------------------------------------------------------------------
// Initial values are the identity: a compiler may insert them any number of times.
typedef struct reduction {
  const char *op;
  double init;
} reduction;

static reduction draw_reduction(gen *g, hlo_dtype t) {
  static const char *const sums[] = {"add", "maximum", "minimum", "multiply"}, *const bits[] = {
                                                                                   "and", "or",
                                                                                   "xor"};
  if (t == HLO_PRED) {
    u32 k = gen_below(g, 3);
    return (reduction){bits[k], k == 0};
  }
  bool whole = hlo_dtype_is_integer(t);
  if (whole && gen_chance(g, 30)) {
    u32 k = gen_below(g, 3);
    return (reduction){bits[k], k ? 0 : hlo_dtype_is_signed(t) ? -1 : gen_type_hi(t)};
  }
  u32 k = gen_below(g, whole ? 4 : 3);
  const double identity[] = {0, whole ? gen_type_lo(t) : -INFINITY,
                             whole ? gen_type_hi(t) : INFINITY, 1};
  return (reduction){sums[k], identity[k]};
}

static bool reduced(gen_value *like, const gen_value *a, const reduction *r, i64 n) {
  if (hlo_dtype_is_integer(like->type) || like->type == HLO_PRED) {
    like->lo = gen_type_lo(like->type);
    like->hi = gen_type_hi(like->type);
    return true;
  }
  bool sum = !strcmp(r->op, "add");
  like->lo = sum ? fmin(a->lo, 0) * (double)HS_MAX(n, 1) : fmin(a->lo, 0);
  like->hi = sum ? fmax(a->hi, 0) * (double)HS_MAX(n, 1) : fmax(a->hi, 0);
  like->integral = a->integral && a->soft == 0 && gen_magnitude(like) * gen_eps(like->type) < 1;
  like->err = like->integral ? 0 : sum ? gen_sum_error(a, HS_MAX(n, 1)) : a->soft;
  like->soft = like->err;
  return gen_magnitude(like) < (gen_eps(like->type) > 0x1p-12 ? 2e4 : 1e6);
}

static hlo_dtype reduce_type(gen *g) {
  return gen_chance(g, 60) ? gen_float(g) : gen_chance(g, 80) ? gen_int(g) : HLO_PRED;
}

bool gen_reduce(gen *g) {
  hlo_dtype t = reduce_type(g);
  gen_value *a = gen_of_type(g, t, 1, 4, GEN_ANY), like = gen_shape_of(t, 0, NULL);
  reduction r = draw_reduction(g, t);
  i64 dims[GEN_MAX_RANK], n = 1;
  u32 nd = 0;
  for (u32 k = 0; k < a->rank; k++)
    if (gen_chance(g, 50) || (k + 1 == a->rank && !nd)) dims[nd++] = k, n *= a->dims[k];
    else like.dims[like.rank++] = a->dims[k];
  like.integral = a->integral;
  if (!reduced(&like, a, &r, n)) return false;
  gen_value *init = gen_scalar_constant(g, t, r.init);
  gen_put(g, &like, "reduce(%s, %s), dimensions={%s}, to_apply=%s", a->name, init->name,
          gen_ints(nd, dims), gen_reducer(g, r.op, t));
  return true;
}

// argmax with its index: of values that are the same everywhere; the first of equals wins.
bool gen_variadic_reduce(gen *g) {
  hlo_dtype t = gen_chance(g, 60) ? gen_float(g) : gen_int(g);
  gen_value *a = gen_of_type(g, t, 1, 3, GEN_EXACT),
            like[2] = {gen_shape_of(t, 0, NULL), gen_shape_of(HLO_S32, 0, NULL)},
            iota = gen_shape_of(HLO_S32, a->rank, a->dims);
  u32 dim = gen_below(g, a->rank);
  for (u32 k = 0; k < a->rank; k++)
    if (k != dim)
      like[0].dims[like[0].rank++] = a->dims[k], like[1].dims[like[1].rank++] = a->dims[k];
  like[0].lo = fmin(a->lo, -1e4);
  like[0].hi = a->hi;
  like[0].integral = a->integral;
  iota.hi = (double)HS_MAX(a->dims[dim], 1);
  like[1].hi = 1e9;
  iota.integral = like[1].integral = true;
  gen_value *index = gen_put(g, &iota, "iota(), iota_dimension=%u", dim), *worst,
            *none = gen_scalar_constant(g, HLO_S32, 1e9);
  double lowest = hlo_dtype_is_integer(t) ? gen_type_lo(t) > -1e15 ? gen_type_lo(t) : -1e15 : -1e4;
  worst = gen_scalar_constant(g, t, lowest);
  const char *ty = hlo_dtype_text(t), *name = gen_region_name(g);
  hs_buf_printf(
      &g->regions,
      "%s {\n  a = %s[] parameter(0)\n  i = s32[] parameter(1)\n  b = %s[] parameter(2)\n"
      "  j = s32[] parameter(3)\n  gt = pred[] compare(a, b), direction=GT\n"
      "  eq = pred[] compare(a, b), direction=EQ\n  lt = pred[] compare(i, j), direction=LT\n"
      "  tie = pred[] and(eq, lt)\n  first = pred[] or(gt, tie)\n"
      "  v = %s[] select(first, a, b)\n  k = s32[] select(first, i, j)\n"
      "  ROOT r = (%s[], s32[]) tuple(v, k)\n}\n",
      name, ty, ty, ty, ty);
  gen_value *both =
      gen_put_tuple(g, 2, like, "reduce(%s, %s, %s, %s), dimensions={%u}, to_apply=%s", a->name,
                    index->name, worst->name, none->name, dim, name);
  gen_element(g, both, 0, &like[0]);
  gen_element(g, both, 1, &like[1]);
  return true;
}

// Window text of an array; gives the result's dimensions and the elements of one window.
static bool draw_window(gen *g, const gen_value *a, gen_value *like, i64 *n, bool plain,
                        hs_buf *text) {
  hs_buf size = {0}, stride = {0}, pad = {0}, ld = {0}, rd = {0};
  bool ok = true;
  *n = 1;
  for (u32 k = 0; k < a->rank; k++) {
    bool act = gen_chance(g, 60);
    i64 w = act ? 1 + gen_below(g, 4) : 1, s = act ? 1 + gen_chance(g, 40) : 1,
        lo = act && gen_chance(g, 40) ? gen_below(g, 3) : 0,
        hi = act && gen_chance(g, 40) ? gen_below(g, 3) : 0;
    i64 l = !plain && act && gen_chance(g, 15) ? 2 : 1,
        r = !plain && act && gen_chance(g, 15) ? 2 : 1;
    if (plain) { lo = hi = 0; }
    i64 wide = (a->dims[k] ? (a->dims[k] - 1) * l + 1 : 0) + lo + hi, window = (w - 1) * r + 1;
    ok &= wide >= window && a->dims[k] > 0;
    like->dims[k] = wide < window ? 0 : (wide - window) / s + 1;
    *n *= w;
    const char *x = k ? "x" : "";
    hs_buf_printf(&size, "%s%lld", x, (long long)w);
    hs_buf_printf(&stride, "%s%lld", x, (long long)s);
    hs_buf_printf(&pad, "%s%lld_%lld", x, (long long)lo, (long long)hi);
    hs_buf_printf(&ld, "%s%lld", x, (long long)l);
    hs_buf_printf(&rd, "%s%lld", x, (long long)r);
  }
  like->rank = a->rank;
  hs_buf_printf(text, "{size=%s stride=%s pad=%s lhs_dilate=%s rhs_dilate=%s}", hs_buf_cstr(&size),
                hs_buf_cstr(&stride), hs_buf_cstr(&pad), hs_buf_cstr(&ld), hs_buf_cstr(&rd));
  hs_buf *all[] = {&size, &stride, &pad, &ld, &rd};
  for (size_t k = 0; k < HS_COUNT(all); k++) hs_buf_free(all[k]);
  return ok;
}

bool gen_reduce_window(gen *g) {
  hlo_dtype t = reduce_type(g);
  gen_value *a = gen_of_type(g, t, 1, 3, GEN_ANY), like = gen_shape_of(t, 0, NULL);
  reduction r = draw_reduction(g, t);
  hs_buf window = {0};
  i64 n;
  like.integral = a->integral;
  bool ok = draw_window(g, a, &like, &n, false, &window) && reduced(&like, a, &r, n);
  if (ok) {
    gen_value *init = gen_scalar_constant(g, t, r.init);
    gen_put(g, &like, "reduce-window(%s, %s), window=%s, to_apply=%s", a->name, init->name,
            hs_buf_cstr(&window), gen_reducer(g, r.op, t));
  }
  hs_buf_free(&window);
  return ok;
}

bool gen_select_and_scatter(gen *g) {
  hlo_dtype t = gen_chance(g, 70) ? HLO_F32 : HLO_S32;
  gen_value *a = gen_of_type(g, t, 1, 3, GEN_EXACT), source = gen_shape_of(t, 0, NULL), like = *a;
  hs_buf window = {0};
  i64 n;
  bool ok = draw_window(g, a, &source, &n, true, &window);
  if (ok) {
    gen_value *s = gen_operand(g, t, source.rank, source.dims, GEN_INTEGRAL),
              *init = gen_scalar_constant(g, t, 0);
    like.lo = fmin(s->lo, 0) * (double)n * 8;
    like.hi = fmax(s->hi, 0) * (double)n * 8;
    like.integral = true;
    like.err = like.soft = 0;
    if (hlo_dtype_is_integer(t)) like.lo = gen_type_lo(t), like.hi = gen_type_hi(t);
    const char *name = gen_region_name(g), *ty = hlo_dtype_text(t);
    hs_buf_printf(&g->regions,
                  "%s {\n  x = %s[] parameter(0)\n  y = %s[] parameter(1)\n"
                  "  ROOT r = pred[] compare(x, y), direction=GE\n}\n",
                  name, ty, ty);
    gen_put(g, &like, "select-and-scatter(%s, %s, %s), window=%s, select=%s, scatter=%s", a->name,
            s->name, init->name, hs_buf_cstr(&window), name, gen_reducer(g, "add", t));
  }
  hs_buf_free(&window);
  return ok;
}

// ---- order --------------------------------------------------------------------------------------
bool gen_sort(gen *g) {
  hlo_dtype t = gen_chance(g, 50) ? gen_float(g) : gen_int(g);
  gen_value *a = gen_of_type(g, t, 1, 3, GEN_EXACT), like[3] = {*a};
  u32 n = 1 + gen_below(g, 3), dim = gen_below(g, a->rank);
  hs_buf names = {0}, params = {0};
  hs_buf_puts(&names, a->name);
  for (u32 k = 0; k < n; k++) {
    hlo_dtype kt = k ? (gen_chance(g, 50) ? HLO_S32 : HLO_F32) : t;
    if (k) {
      gen_value *b = gen_operand(g, kt, a->rank, a->dims, GEN_EXACT);
      like[k] = *b;
      hs_buf_printf(&names, ", %s", b->name);
    }
    hs_buf_printf(&params, "  x%u = %s[] parameter(%u)\n  y%u = %s[] parameter(%u)\n", k,
                  hlo_dtype_text(kt), 2 * k, k, hlo_dtype_text(kt), 2 * k + 1);
  }
  const char *name = gen_region_name(g);
  bool total = hlo_dtype_is_float(t) && gen_chance(g, 50);
  hs_buf_printf(&g->regions, "%s {\n%s  ROOT r = pred[] compare(x0, y0), direction=%s%s\n}\n", name,
                hs_buf_cstr(&params), gen_chance(g, 50) ? "LT" : "GT",
                total ? ", type=TOTALORDER" : "");
  if (n == 1)
    gen_put(g, &like[0], "sort(%s), dimensions={%u}, is_stable=%s, to_apply=%s",
            hs_buf_cstr(&names), dim, gen_chance(g, 50) ? "true" : "false", name);
  else {
    gen_value *all =
        gen_put_tuple(g, n, like, "sort(%s), dimensions={%u}, is_stable=true, to_apply=%s",
                      hs_buf_cstr(&names), dim, name);
    for (u32 k = 0; k < n; k++) gen_element(g, all, k, &like[k]);
  }
  hs_buf_free(&names);
  hs_buf_free(&params);
  return true;
}

bool gen_topk(gen *g) {
  hlo_dtype t = gen_chance(g, 70) ? HLO_F32 : HLO_S32;
  gen_value *a = gen_of_type(g, t, 1, 2, GEN_EXACT),
            like[2] = {*a, gen_shape_of(HLO_S32, a->rank, a->dims)};
  i64 last = a->dims[a->rank - 1];
  if (last < 1) return false;
  i64 k = 1 + gen_below(g, (u32)last);
  like[0].dims[a->rank - 1] = like[1].dims[a->rank - 1] = k;
  like[1].hi = (double)last;
  like[1].integral = true;
  gen_value *both =
      gen_put_tuple(g, 2, like, "topk(%s), k=%lld, largest=true", a->name, (long long)k);
  gen_element(g, both, 0, &like[0]);
  gen_element(g, both, 1, &like[1]);
  return true;
}

// ---- the rest -----------------------------------------------------------------------------------
bool gen_batch_norm(gen *g) {
  i64 dims[4];
  u32 rank = 2 + gen_below(g, 2), feature = gen_below(g, rank);
  for (u32 k = 0; k < rank; k++) dims[k] = 2 + gen_below(g, 6);
  hlo_dtype t = gen_chance(g, 85) ? HLO_F32 : HLO_F64;
  i64 f = dims[feature];
  gen_value *x = gen_parameter(g, t, rank, dims, -1, 1, false),
            *scale = gen_operand(g, t, 1, &f, GEN_ANY), *offset = gen_operand(g, t, 1, &f, GEN_ANY),
            like = *x, stat = gen_shape_of(t, 1, &f);
  double m = gen_magnitude(scale) * 8 + gen_magnitude(offset);
  like.lo = -m;
  like.hi = m;
  like.integral = false;
  like.err = like.soft = (scale->soft + offset->soft) * 8 + 4000 * gen_eps(t) * m;
  stat.lo = -2;
  stat.hi = 2;
  stat.err = stat.soft = 200 * gen_eps(t);
  if (gen_chance(g, 50)) {
    gen_value out[3] = {like, stat, stat},
              *all = gen_put_tuple(
                  g, 3, out, "batch-norm-training(%s, %s, %s), epsilon=0.01, feature_index=%u",
                  x->name, scale->name, offset->name, feature);
    for (u32 k = 0; k < 3; k++) gen_element(g, all, k, &out[k]);
    return true;
  }
  gen_value *mean = gen_parameter(g, t, 1, &f, -0.5, 0.5, false),
            *variance = gen_parameter(g, t, 1, &f, 0.25, 2, false);
  if (gen_chance(g, 50)) {
    gen_put(g, &like, "batch-norm-inference(%s, %s, %s, %s, %s), epsilon=0.01, feature_index=%u",
            x->name, scale->name, offset->name, mean->name, variance->name, feature);
    return true;
  }
  gen_value *grad = gen_parameter(g, t, rank, dims, -1, 1, false);
  gen_value out[3] = {like, stat, stat};
  for (u32 k = 0; k < 3; k++) {
    out[k].hi = 200 * (gen_magnitude(scale) + 1);
    out[k].lo = -out[k].hi;
    out[k].err = out[k].soft = 100 * scale->soft + 4000 * gen_eps(t) * out[k].hi;
  }
  gen_value *all = gen_put_tuple(
      g, 3, out, "batch-norm-grad(%s, %s, %s, %s, %s), epsilon=0.01, feature_index=%u", x->name,
      scale->name, mean->name, variance->name, grad->name, feature);
  for (u32 k = 0; k < 3; k++) gen_element(g, all, k, &out[k]);
  return true;
}

bool gen_fft(gen *g) {
  static const char *const kinds[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  u32 kind = gen_below(g, 4), nd = 1 + gen_below(g, 2);
  bool wide = gen_chance(g, 20);
  hlo_dtype re = wide ? HLO_F64 : HLO_F32, cx = wide ? HLO_C128 : HLO_C64;
  i64 in[GEN_MAX_RANK] = {1 + gen_below(g, 3)}, length[2], total = 1;
  gen_value like = gen_shape_of(kind == 3 ? re : cx, nd + 1, in);
  for (u32 k = 0; k < nd; k++) {
    length[k] = 1 + gen_below(g, 12);
    total *= length[k];
    in[k + 1] = like.dims[k + 1] = length[k];
  }
  if (kind == 2) like.dims[nd] = length[nd - 1] / 2 + 1;
  if (kind == 3) in[nd] = length[nd - 1] / 2 + 1;
  gen_value *a = gen_operand(g, kind == 2 ? re : cx, nd + 1, in, GEN_ANY);
  double m = 2 * gen_magnitude(a) * (kind == 1 || kind == 3 ? 1 : (double)total);
  like.lo = -m;
  like.hi = m;
  like.err = like.soft = (kind == 1 || kind == 3 ? 2 : (double)total) * a->soft +
                         40 * gen_eps(re) * 2 * gen_magnitude(a) * sqrt((double)total) *
                             (kind == 1 || kind == 3 ? 1 : sqrt((double)total));
  if (m > 1e5) return false;
  gen_put(g, &like, "fft(%s), fft_type=%s, fft_length={%s}", a->name, kinds[kind],
          gen_ints(nd, length));
  return true;
}

// A small matrix plus a multiple of the identity is well conditioned.
static gen_value *tame_matrix(gen *g, hlo_dtype t, i64 batch, i64 n, double diagonal) {
  const i64 dims[3] = {batch, n, n};
  gen_value *a = gen_parameter(g, t, 3, dims, -0.4, 0.4, false),
            row = gen_shape_of(HLO_S32, 3, dims), one = gen_shape_of(HLO_PRED, 3, dims),
            like = gen_shape_of(t, 3, dims);
  row.hi = (double)n;
  row.integral = one.integral = true;
  one.hi = 1;
  gen_value *i = gen_put(g, &row, "iota(), iota_dimension=1"),
            *j = gen_put(g, &row, "iota(), iota_dimension=2"),
            *eq = gen_put(g, &one, "compare(%s, %s), direction=EQ", i->name, j->name);
  gen_value *d = gen_scalar_constant(g, t, diagonal);
  like.lo = like.hi = diagonal;
  gen_value *full = gen_put(g, &like, "broadcast(%s), dimensions={}", d->name);
  like.lo = -0.4;
  like.soft = 2 * gen_eps(t) * diagonal;
  return gen_put(g, &like, "select(%s, %s, %s)", eq->name, full->name, a->name);
}

bool gen_triangular_solve(gen *g) {
  static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  hlo_dtype t = gen_chance(g, 75) ? HLO_F32 : HLO_F64;
  i64 batch = 1 + gen_below(g, 2), n = 1 + gen_below(g, 6), m = 1 + gen_below(g, 4);
  bool left = gen_chance(g, 50);
  gen_value *a = tame_matrix(g, t, batch, n, (double)n),
            *b = gen_operand(g, t, 3, (i64[]){batch, left ? n : m, left ? m : n}, GEN_ANY),
            like = *b;
  like.hi = 4 * gen_magnitude(b) + 1;
  like.lo = -like.hi;
  like.integral = false;
  bool unit = gen_chance(g, 30);
  double grow = unit ? pow(1.5, (double)n) : 2;
  like.hi *= grow;
  like.lo *= grow;
  like.err = like.soft = grow * 8 * b->soft + 64 * gen_eps(t) * like.hi;
  gen_put(g, &like,
          "triangular-solve(%s, %s), left_side=%s, lower=%s, unit_diagonal=%s, transpose_a=%s",
          a->name, b->name, left ? "true" : "false", gen_chance(g, 50) ? "true" : "false",
          unit ? "true" : "false", transposes[gen_below(g, 3)]);
  return true;
}

bool gen_cholesky(gen *g) {
  hlo_dtype t = gen_chance(g, 75) ? HLO_F32 : HLO_F64;
  i64 batch = 1 + gen_below(g, 2), n = 1 + gen_below(g, 6);
  gen_value *a = tame_matrix(g, t, batch, n, (double)n + 1), like = *a;
  const i64 perm[3] = {0, 2, 1};
  gen_value *at = gen_put(g, a, "transpose(%s), dimensions={%s}", a->name, gen_ints(3, perm)),
            sum = *a;
  sum.lo = -0.8;
  sum.hi = 2 * gen_magnitude(a);
  sum.err = sum.soft = 4 * gen_eps(t) * sum.hi;
  gen_value *s = gen_put(g, &sum, "add(%s, %s)", a->name, at->name);  // symmetric
  bool lower = gen_chance(g, 50);
  like.lo = -4;
  like.hi = 8;
  like.err = like.soft = 200 * gen_eps(t) * 8;
  like.integral = false;
  gen_value *l = gen_put(g, &like, "cholesky(%s), lower=%s", s->name, lower ? "true" : "false");
  // The other triangle is not part of the result: only the one asked for is looked at.
  gen_value row = gen_shape_of(HLO_S32, 3, l->dims), mask = gen_shape_of(HLO_PRED, 3, l->dims),
            none = gen_shape_of(t, 3, l->dims);
  row.hi = 8;
  mask.hi = 1;
  row.integral = mask.integral = none.integral = true;
  gen_value *i = gen_put(g, &row, "iota(), iota_dimension=1"),
            *j = gen_put(g, &row, "iota(), iota_dimension=2");
  gen_value *in = gen_put(g, &mask, "compare(%s, %s), direction=%s", i->name, j->name,
                          lower ? "GE" : "LE"),
            *z = gen_scalar_constant(g, t, 0);
  gen_value *zeros = gen_put(g, &none, "broadcast(%s), dimensions={}", z->name);
  gen_put(g, &like, "select(%s, %s, %s)", in->name, l->name, zeros->name);
  return true;
}

bool gen_rng_bits(gen *g) {
  bool philox = gen_chance(g, 50);
  i64 words = philox ? 3 - (i64)gen_chance(g, 50) : 2, dims[GEN_MAX_RANK];
  static const hlo_dtype types[] = {HLO_U32, HLO_U64, HLO_U32, HLO_U8, HLO_U16};
  gen_value *state = gen_parameter(g, HLO_U64, 1, &words, 0, 9e18, true), like[2] = {*state};
  u32 rank = 1 + gen_below(g, 2);
  gen_dims(g, rank, dims);
  like[1] = gen_shape_of(types[gen_below(g, HS_COUNT(types))], rank, dims);
  like[0].hi = gen_type_hi(HLO_U64);
  like[1].lo = gen_type_lo(like[1].type);
  like[1].hi = gen_type_hi(like[1].type);
  like[1].integral = true;
  gen_value *both = gen_put_tuple(g, 2, like, "rng-bit-generator(%s), algorithm=%s", state->name,
                                  philox ? "rng_philox" : "rng_three_fry");
  gen_element(g, both, 0, &like[0]);
  gen_element(g, both, 1, &like[1]);
  return true;
}
