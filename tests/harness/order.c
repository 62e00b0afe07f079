// order.c — see order.h. A comparison must be irreflexive, asymmetric and transitive, and so must
// "neither comes first" be transitive. Tested on up to SAMPLE elements of the first and of the last
// line of every sort, all pairs of them, NaNs among them where the line has any: NaNs compared by
// LT, keys compared with values and scaled keys show up there. A top-k has an order of its own, and
// only ties are looked for.
#include "tests/harness/order.h"

#include "core/infer/build.h"
#include "passes/simplify/algsimp.h"
#include "tests/harness/meaning.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLE = 24 };

static hlo_literal *element(hlo_ctx *ctx, const hlo_literal *l, i64 at) {
  hlo_literal *one = NULL;
  hlo_dtype t = l->shape->dtype;
  hs_status s = hlo_literal_new(hlo_shape_scalar(ctx, t), &one);
  if (hs_ok(s))
    memcpy(one->data, (const char *)l->data + (size_t)at * hlo_dtype_storage(t),
           hlo_dtype_storage(t));
  hs_status_drop(s);
  return one;
}

// Whether row a comes before row b; false also when that cannot be told.
static bool before(const hlo_computation *c, const hlo_literal *v, i64 a, i64 b) {
  hlo_literal *args[64] = {NULL}, *out = NULL;
  u32 n = v->nchildren ? v->nchildren : 1;
  if (2 * n != c->nparams || 2 * n > HS_COUNT(args)) return false;
  for (u32 k = 0; k < n; k++) {
    const hlo_literal *l = v->nchildren ? v->children[k] : v;
    args[2 * k] = element(c->module->ctx, l, a);
    args[2 * k + 1] = element(c->module->ctx, l, b);
  }
  hs_status s = hlo_eval_computation(c, 2 * n, args, NULL, &out);
  bool yes = hs_ok(s) && *(const u8 *)out->data;
  hs_status_drop(s);
  hlo_literal_unref(out);
  for (u32 k = 0; k < 2 * n; k++) hlo_literal_unref(args[k]);
  return yes;
}

static bool is_order(u32 m, bool lt[SAMPLE][SAMPLE]) {
  for (u32 a = 0; a < m; a++)
    for (u32 b = 0; b < m; b++) {
      if (lt[a][b] && (a == b || lt[b][a])) return false;
      for (u32 c = 0; c < m; c++) {
        if (lt[a][b] && lt[b][c] && !lt[a][c]) return false;
        bool ab = !lt[a][b] && !lt[b][a], bc = !lt[b][c] && !lt[c][b];
        if (ab && bc && (lt[a][c] || lt[c][a])) return false;
      }
    }
  return true;
}

static bool same_elements(const hlo_literal *l, i64 p, i64 q) {
  for (u32 k = 0; k < l->nchildren; k++)
    if (!same_elements(l->children[k], p, q)) return false;
  if (l->nchildren) return true;
  size_t n = hlo_dtype_storage(l->shape->dtype);
  return memcmp((char *)l->data + (size_t)p * n, (char *)l->data + (size_t)q * n, n) == 0;
}

// ---- a line of a sort ---------------------------------------------------------------------------
// The arrays that the comparison c reads.
static bool is_key(const hlo_computation *c, u32 k) {
  for (u32 p = 2 * k; p < 2 * k + 2 && p < c->nparams; p++)
    hlo_for_each_use(u, c->params[p]) return true;
  return false;
}
static bool same_keys(const hlo_computation *c, const hlo_literal *v, i64 p, i64 q) {
  for (u32 k = 0; k < v->nchildren; k++)
    if (is_key(c, k) && !same_elements(v->children[k], p, q)) return false;
  return v->nchildren || same_elements(v, p, q);
}
static bool nan_at(const hlo_literal *l, i64 at) {
  return hlo_dtype_is_float(l->shape->dtype) && isnan(hlo_literal_f64(l, at));
}
static bool nan_key(const hlo_computation *c, const hlo_literal *v, i64 at) {
  for (u32 k = 0; k < v->nchildren; k++)
    if (is_key(c, k) && nan_at(v->children[k], at)) return true;
  return !v->nchildren && nan_at(v, at);
}

// Where in the sorted line of v (from `at`) the elements lie that stand for the others: of each run
// with equal keys the first, and of these so many with NaNs and so many without, evenly spread.
static u32 stand_for_all(const hlo_computation *c, const hlo_literal *v, i64 at, i64 len,
                         i64 stride, i64 *out) {
  u32 n = 0;
  for (u32 nan = 0; nan < 2; nan++) {
    HS_VEC(i64) runs = {0};
    for (i64 k = 0; k < len; k++)
      if (nan_key(c, v, at + k * stride) == nan &&
          (k == 0 || !same_keys(c, v, at + k * stride, at + (k - 1) * stride)))
        hs_vec_push(&runs, at + k * stride);
    size_t m = HS_MIN(runs.n, SAMPLE / 2);
    for (size_t k = 0; k < m; k++) out[n++] = runs.v[k * runs.n / m];
    hs_vec_free(&runs);
  }
  return n;
}

static bool line_without_order(const hlo_instr *i, const hlo_literal *v, i64 at, i64 len,
                               i64 stride) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  i64 from[SAMPLE];
  bool lt[SAMPLE][SAMPLE];
  u32 m = stand_for_all(c, v, at, len, stride, from);
  for (u32 a = 0; a < m; a++)
    for (u32 b = 0; b < m; b++) lt[a][b] = before(c, v, from[a], from[b]);
  if (!is_order(m, lt)) return true;
  // which of equal ones comes first is open where the sort is not stable
  for (i64 k = 1; k < len && !hlo_attr_int(i, HLO_ATTR_IS_STABLE, 0); k++) {
    i64 p = at + (k - 1) * stride, q = at + k * stride;
    if (!same_elements(v, p, q) && !before(c, v, p, q) && !before(c, v, q, p)) return true;
  }
  return false;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
}

// Equal ones among the first k of a line of v, or between what is taken and what is not?
static bool ties_on_top(const hlo_literal *v, i64 k, bool largest) {
  i64 len = v->shape->dims[v->shape->rank - 1];
  double *x = hs_alloc((size_t)(len + 1) * sizeof *x);
  bool yes = false;
  for (i64 at = 0; at < v->shape->elements && !yes; at += len) {
    for (i64 j = 0; j < len; j++)
      x[j] = largest ? -hlo_literal_f64(v, at + j) : hlo_literal_f64(v, at + j);
    qsort(x, (size_t)len, sizeof *x, ascending);
    for (i64 j = 1; j < len && j <= k; j++) yes |= ascending(&x[j - 1], &x[j]) == 0;
  }
  return hs_free(x), yes;
}

static hs_status look(void *arg, const hlo_observation *o) {
  bool *none = arg;
  const hlo_instr *i = o->instr;
  hlo_for_each_use(u, i)
    if (u->user->opcode == HLO_TOPK && !hlo_attr_int(u->user, HLO_ATTR_IS_STABLE, 1) &&
        hlo_shape_is_array(i->shape) && i->shape->rank)
      *none |= ties_on_top(o->value, hlo_attr_int(u->user, HLO_ATTR_K, 0),
                           hlo_attr_int(u->user, HLO_ATTR_LARGEST, 1) != 0);
  if (*none || i->opcode != HLO_SORT || !hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) return HS_GOOD;
  const hlo_shape *s = o->value->nchildren ? o->value->children[0]->shape : o->value->shape;
  i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0], stride = 1;
  if (!s->elements) return HS_GOOD;
  for (u32 d = (u32)dim + 1; d < s->rank; d++) stride *= s->dims[d];
  i64 len = s->dims[dim], last = s->elements - (len - 1) * stride - 1;
  *none = line_without_order(i, o->value, 0, len, stride) ||
          line_without_order(i, o->value, last, len, stride);
  return HS_GOOD;
}

typedef hs_status looks(void *arg, const hlo_observation *);
static bool seen(const hlo_module *m, u32 nargs, hlo_literal *const *args, looks *observe) {
  bool yes = false;
  hlo_eval_options o = {.max_bytes = (i64)1 << 30, .observe = observe, .observe_arg = &yes};
  hlo_literal *out = NULL;
  hs_status s = hlo_eval_module(m, nargs, args, &o, &out);
  hs_status_drop(s);
  hlo_literal_unref(out);
  return yes;
}

bool sorts_without_order(const hlo_module *m, u32 nargs, hlo_literal *const *args) {
  return (m->nops[HLO_SORT] || m->nops[HLO_TOPK]) && seen(m, nargs, args, look);
}

// ---- NaNs ---------------------------------------------------------------------------------------
static bool has_nan(const hlo_literal *l) {
  bool yes = false;
  for (u32 k = 0; k < l->nchildren && !yes; k++) yes = has_nan(l->children[k]);
  if (!hlo_shape_is_array(l->shape) || !hlo_dtype_is_float(l->shape->dtype)) return yes;
  for (i64 e = 0; e < l->shape->elements && !yes; e++) yes = isnan(hlo_literal_f64(l, e));
  return yes;
}

static bool reduces(const hlo_instr *i) {
  return i->opcode == HLO_REDUCE || i->opcode == HLO_REDUCE_WINDOW;
}

// A reduction of several arrays whose result has a NaN: what stands beside it belongs to one of the
// NaNs that there were. And one that gets NaNs, by a function whose result depends on how they are
// grouped.
static hs_status look_for_nan(void *arg, const hlo_observation *o) {
  bool *yes = arg;
  if (*yes || !has_nan(o->value)) return HS_GOOD;
  *yes = reduces(o->instr) && o->value->nchildren > 1;
  hlo_for_each_use(u, o->instr)
    if (reduces(u->user) && !*yes)
      *yes = !meaning_associative(hlo_attr_comp(u->user, HLO_ATTR_TO_APPLY), true);
  return HS_GOOD;
}

bool picks_among_nans(const hlo_module *m, u32 nargs, hlo_literal *const *args) {
  return (m->nops[HLO_REDUCE] || m->nops[HLO_REDUCE_WINDOW]) && seen(m, nargs, args, look_for_nan);
}

static hs_status look_for_nan_bits(void *arg, const hlo_observation *o) {
  bool *yes = arg;
  const hlo_shape *s = o->value->shape;
  if (!hlo_shape_is_array(s) || !hlo_dtype_is_float(s->dtype) || !has_nan(o->value)) return HS_GOOD;
  hlo_for_each_use(u, o->instr) {
    const hlo_instr *i = u->user;
    if (i->opcode == HLO_BITCAST || i->opcode == HLO_BITCAST_CONVERT)
      *yes |= !hlo_dtype_is_float(i->shape->dtype);
  }
  return HS_GOOD;
}

bool shows_bits_of_nans(const hlo_module *m, u32 nargs, hlo_literal *const *args) {
  return (m->nops[HLO_BITCAST] || m->nops[HLO_BITCAST_CONVERT]) &&
         seen(m, nargs, args, look_for_nan_bits);
}

// ---- factors ------------------------------------------------------------------------------------
// Positive definite, by more than rounding? By its own factorization in f64.
static bool definite(const hlo_literal *l, i64 base, i64 n, bool lower) {
  double *f = hs_alloc((size_t)(n * n + 1) * sizeof *f), eps = hlo_dtype_epsilon(l->shape->dtype);
  bool yes = true;
  for (i64 c = 0; c < n && yes; c++)
    for (i64 r = c; r < n && yes; r++) {
      double own = hlo_literal_f64(l, base + (lower ? r * n + c : c * n + r)), rest = own;
      for (i64 k = 0; k < c; k++) rest -= f[r * n + k] * f[c * n + k];
      if (r == c) yes = rest > (double)n * eps * own;
      f[r * n + c] = r == c ? sqrt(rest) : rest / f[c * n + c];
    }
  return hs_free(f), yes;
}
// A complex matrix whose diagonal is not real is not Hermitian: LAPACK reads the real part, XLA's
// expansion divides the whole number.
static bool has_real_diagonal(const hlo_literal *l, i64 base, i64 n) {
  hlo_dtype real = hlo_dtype_real_part(l->shape->dtype);
  size_t size = (size_t)hlo_dtype_storage(real);
  for (i64 k = 0; k < n; k++)
    if (hlo_elem_to_f64(real, (const u8 *)l->data + (size_t)(2 * (base + k * n + k) + 1) * size) !=
        0)
      return false;
  return true;
}
static hs_status look_for_indefinite(void *arg, const hlo_observation *o) {
  bool *yes = arg;
  const hlo_shape *s = o->value->shape;
  if (!hlo_shape_is_array(s)) return HS_GOOD;
  bool complex = hlo_dtype_is_complex(s->dtype),
       narrow = hlo_dtype_is_float(s->dtype) && hlo_dtype_bits(s->dtype) < 32;
  if (!complex && !narrow) return HS_GOOD;
  hlo_for_each_use(u, o->instr) {
    if (u->user->opcode != HLO_CHOLESKY || !s->elements) continue;
    i64 n = s->dims[s->rank - 1];
    bool lower = hlo_attr_int(u->user, HLO_ATTR_LOWER, 0) != 0;
    for (i64 k = 0; k < s->elements && !*yes; k += n * n)
      *yes = complex ? !has_real_diagonal(o->value, k, n) : !definite(o->value, k, n, lower);
  }
  return HS_GOOD;
}
bool factors_indefinite(const hlo_module *m, u32 nargs, hlo_literal *const *args) {
  return m->nops[HLO_CHOLESKY] && seen(m, nargs, args, look_for_indefinite);
}

// ---- sums and products --------------------------------------------------------------------------
// The reduction i with op over the elements x and from the value init.
static hlo_instr *reduced(hlo_instr *i, hlo_instr *x, hlo_instr *init) {
  hlo_instr *ops[] = {x, init};
  return hlo_clone_instr(i->parent, i, i->shape, 2, ops);
}

// What grows, what shrinks and the initial value apart: no other order gets further on its way to
// infinity or to nothing.
static hlo_instr *apart(hlo_instr *i, hlo_opcode op, hlo_instr *neutral) {
  hlo_instr *x = hlo_operand(i, 0), *init = hlo_operand(i, 1),
            *full = hlo_add_broadcast(neutral, x->shape, 0, NULL),
            *size = op == HLO_MULTIPLY ? hlo_build_unary(HLO_ABS, x) : x,
            *grows = hlo_build_compare(size, full, HLO_DIRECTION_GT),
            *most = reduced(i, hlo_build_select(grows, x, full), neutral),
            *rest = reduced(i, hlo_build_select(grows, full, x), neutral);
  return hlo_build_binary(
      op, hlo_build_binary(op, most, rest),
      hlo_add_broadcast(hlo_build_convert(init, i->shape->dtype), i->shape, 0, NULL));
}

// x as f64, and i of it with op from `init`.
static hlo_instr *wide(hlo_instr *x) { return hlo_build_convert(x, HLO_F64); }
static hlo_instr *reduced_wide(hlo_instr *i, hlo_opcode op, hlo_instr *x, double init) {
  hlo_computation *c = i->parent, *f = hlo_build_scalar_computation(c->module, op, HLO_F64);
  hlo_instr *ops[] = {x, hlo_build_scalar_f64(c, HLO_F64, init)};
  hlo_instr *now = hlo_clone_instr(c, i, pass_shape_as(i, HLO_F64), 2, ops);
  hlo_set_attr_comp(now, HLO_ATTR_TO_APPLY, f);
  return now;
}
static hlo_instr *sign_of(hlo_instr *x) {
  hlo_instr *zero = hlo_build_full(x->parent, x->shape, 0);
  return hlo_build_select(hlo_build_compare(x, zero, HLO_DIRECTION_LT),
                          hlo_build_full(x->parent, x->shape, -1),
                          hlo_build_full(x->parent, x->shape, 1));
}
static hlo_instr *log_of(hlo_instr *x) {
  return hlo_build_unary(HLO_LOG, hlo_build_unary(HLO_ABS, x));
}

// With exponents that have no end, in f64: what the order gives that stays furthest from infinity
// and from nothing on its way. There is one that leaves the range only where the result does: it
// takes what shrinks when it is large, and what grows when it is small, or 0 first. A product is
// the sum of its logarithms, a sum that of its 2^-64th parts.
static hlo_instr *unbounded(hlo_instr *i, hlo_opcode op) {
  hlo_instr *x = wide(hlo_operand(i, 0)), *init = wide(hlo_operand(i, 1)), *now;
  const hlo_shape *s = pass_shape_as(i, HLO_F64);
  if (op == HLO_MULTIPLY) {
    hlo_instr *size = hlo_build_binary(HLO_ADD, reduced_wide(i, HLO_ADD, log_of(x), 0),
                                       hlo_add_broadcast(log_of(init), s, 0, NULL));
    hlo_instr *sign = hlo_build_binary(HLO_MULTIPLY, reduced_wide(i, HLO_MULTIPLY, sign_of(x), 1),
                                       hlo_add_broadcast(sign_of(init), s, 0, NULL));
    now = hlo_build_binary(HLO_MULTIPLY, sign, hlo_build_unary(HLO_EXP, size));
  } else {
    hlo_instr *part = hlo_build_full(i->parent, x->shape, 0x1p-64);
    hlo_instr *rest = hlo_build_scalar_f64(i->parent, HLO_F64, 0x1p-64);
    now = reduced_wide(i, HLO_ADD, hlo_build_binary(HLO_MULTIPLY, x, part), 0);
    init = hlo_build_binary(HLO_MULTIPLY, init, rest);
    now = hlo_build_binary(HLO_ADD, now, hlo_add_broadcast(init, s, 0, NULL));
    now = hlo_build_binary(HLO_MULTIPLY, now, hlo_build_full(i->parent, s, 0x1p64));
  }
  return hlo_build_convert(now, i->shape->dtype);
}

// The same with each step rounded to the narrow type: the evaluator keeps its sums in f64, hardware
// without the type makes each step in f32 and converts it.
static hlo_instr *stepwise(hlo_instr *i, hlo_opcode op) {
  hlo_ctx *ctx = i->parent->module->ctx;
  hlo_computation *f = hlo_add_computation(i->parent->module, "stepwise");
  hlo_instr *in[2];
  for (u32 k = 0; k < 2; k++)
    in[k] = hlo_build_convert(hlo_add_parameter(f, k, hlo_shape_scalar(ctx, i->shape->dtype), NULL),
                              HLO_F32);
  hlo_set_root(f, hlo_build_convert(hlo_build_binary(op, in[0], in[1]), i->shape->dtype));
  hlo_instr *now = reduced(i, hlo_operand(i, 0), hlo_operand(i, 1));
  hlo_set_attr_comp(now, HLO_ATTR_TO_APPLY, f);
  return now;
}

static bool reorder(hlo_instr *i, grouping how) {
  bool window = i->opcode == HLO_REDUCE_WINDOW;
  if (!reduces(i) || i->noperands != 2) return false;
  hlo_instr *x = hlo_operand(i, 0), *neutral, *now;
  hlo_dtype t = x->shape->dtype;  // the result may state another
  hlo_opcode op = pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
  bool plain = hlo_dtype_is_float(t) && hlo_dtype_is_float(i->shape->dtype) &&
               hlo_dtype_is_float(hlo_operand(i, 1)->shape->dtype) &&
               !hlo_shape_is_dynamic(x->shape);
  if (!plain || (op != HLO_ADD && op != HLO_MULTIPLY)) return false;
  if (how == GROUPS_TURNED) {
    hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
    if (window) return false;
    now = reduced(i, hlo_build_reverse(x, dims.n, dims.v), hlo_operand(i, 1));
  } else if (how == GROUPS_STEPWISE) {
    if (hlo_dtype_bits(i->shape->dtype) >= 32) return false;
    now = stepwise(i, op);
  } else if (how == GROUPS_UNBOUNDED) {
    now = unbounded(i, op);
  } else {
    neutral = hlo_build_scalar_f64(i->parent, t, op == HLO_MULTIPLY);
    if (!pass_alg_is_identity(op, neutral)) return false;  // a type without 0
    now = apart(i, op, neutral);
  }
  hlo_replace(i, now);  // a fusion may not keep it without users
  return true;
}

hlo_module *reordered(const hlo_module *m, grouping how) {
  hlo_module *out = hlo_module_clone(m, NULL);
  bool any = false;
  hlo_for_each_comp(c, out) {
    u32 known = out->next_instr_id;
    for (hlo_instr *i = c->first, *next; i && i->id < known; i = next) {
      next = i->next;
      any |= reorder(i, how);
    }
  }
  if (!any) hlo_module_free(out), out = NULL;
  return out;
}
