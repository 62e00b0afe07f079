// compare.c — the rule by which results agree, and what one wants to know when it says no. See
// compare.h.
//
// The rule and the figures of its report (counts over each bound, top relative errors, cumulative
// error histograms, magnitudes of the actual values, suggested bounds) are those of XLA's
// literal_comparison, so that they can be quoted beside its messages; the distance in representable
// numbers is its float distance.
#include "core/types/compare.h"

#include <math.h>

#include "core/types/float.h"

static const double magnitude_bounds[HLO_COMPARE_MAGNITUDES] = {1e-4, 1e-3, 1e-2, 0.1, 1, INFINITY};
static const double error_bounds[HLO_COMPARE_ERRORS] = {1e-4, 1e-3, 1e-2, 0.1, 1};
static const u64 ulp_bounds[HLO_COMPARE_ULPS] = {0, 1, 2, 4, 16, 256, 65536, UINT64_MAX};

// ---- distance -----------------------------------------------------------------------------------
// Sign and magnitude as one line of integers: neighbours in value are neighbours in number.
static i64 on_a_line(u64 bits, int width) {
  u64 sign = (u64)1 << (width - 1), magnitude = bits & (sign - 1);
  return bits & sign ? -(i64)magnitude : (i64)magnitude;
}

static int float_width(hlo_dtype t) {
  return hlo_dtype_is_float(t) && t != HLO_F8E8M0FNU ? hlo_dtype_bits(t) : 0;
}

u64 hlo_ulp_distance(hlo_dtype t, const void *a, const void *b) {
  int width = float_width(t);
  i64 x, y;
  if (width) {
    double fx = hlo_elem_to_f64(t, a), fy = hlo_elem_to_f64(t, b);
    if (fx != fx || fy != fy) return (fx != fx) == (fy != fy) ? 0 : UINT64_MAX;
    u64 p = 0, q = 0;
    memcpy(&p, a, hlo_dtype_storage(t));  // little-endian, as every machine this runs on
    memcpy(&q, b, hlo_dtype_storage(t));
    x = on_a_line(p, width), y = on_a_line(q, width);
  } else if (t == HLO_F8E8M0FNU) {
    x = *(const u8 *)a, y = *(const u8 *)b;
  } else {
    x = hlo_elem_to_i64(t, a), y = hlo_elem_to_i64(t, b);
    if (t == HLO_U64 && (u64)x > (u64)y) return (u64)x - (u64)y;
    if (t == HLO_U64) return (u64)y - (u64)x;
  }
  return x > y ? (u64)x - (u64)y : (u64)y - (u64)x;
}

// ---- suggested tolerances -----------------------------------------------------------------------
// For each power of ten as relative bound, the absolute bound that the elements beyond it need;
// from the grid below the pairs are read that would let everything pass.
enum { GRID = 10 };
static const double grid[GRID] = {1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10};
typedef struct tally {
  hlo_comparison *c;
  // of elements with a relative error up to grid[k]; the last: of all beyond
  double worst_abs[GRID + 1];
  bool hopeless;  // an infinite error: no bound helps
} tally;

static double round_up(double v) {  // to one significant digit
  if (!(v > 0) || !isfinite(v)) return v;
  double scale = pow(10, floor(log10(v))), digits = ceil(v / scale * (1 - 1e-12));
  return digits * scale;
}

static void suggest(tally *t) {
  hlo_comparison *c = t->c;
  if (t->hopeless) return;
  double last = INFINITY;
  for (int k = 0; k < GRID && c->nfixes < HLO_COMPARE_FIXES; k++) {
    double need = 0;
    for (int j = k + 1; j <= GRID; j++) need = fmax(need, t->worst_abs[j]);
    hlo_tolerance fix = hlo_near(round_up(need), grid[k]);
    if (fix.abs >= last) continue;  // a tighter relative bound does as well
    last = fix.abs;
    c->fixes[c->nfixes++] = fix;
    if (need == 0) break;
  }
}

// ---- one value ----------------------------------------------------------------------------------
double hlo_unit_at(hlo_dtype t, double v) {
  const hlo_float_format *f = &hlo_dtypes[t].format;
  int e, least = 1 - f->bias;
  (void)frexp(v, &e);
  return ldexp(1, (v == 0 ? least : HS_MAX(e - 1, least)) - f->mbits);
}

// `want`: of a complex number the modulus.
static bool within(hlo_dtype t, double abs, double rel, double want, hlo_tolerance tol) {
  if (tol.ulps > 0 && abs <= tol.ulps * hlo_unit_at(t, want)) return true;
  if (tol.sum) return abs <= tol.abs + tol.rel * fabs(want);
  return abs <= tol.abs || rel <= tol.rel;
}

bool hlo_close(hlo_dtype t, double want, double got, hlo_tolerance tol, double *abs, double *rel) {
  double a = 0, r = 0;
  bool ok = want == got || (want != want && got != got);
  if (!ok && (isinf(want) || isinf(got) || want != want || got != got)) {
    a = r = INFINITY;
  } else if (!ok) {
    a = fabs(got - want);
    r = want == 0 ? INFINITY : a / fabs(want);
    ok = within(t, a, r, want, tol);
  }
  if (abs) *abs = a;
  if (rel) *rel = r;
  return ok;
}

static void keep_top(hlo_comparison *c, const hlo_mismatch *d) {
  u32 k = c->ntop;
  if (k == HLO_COMPARE_TOP && !(d->rel > c->top[k - 1].rel)) return;
  if (k < HLO_COMPARE_TOP) c->ntop++;
  else k--;
  for (; k > 0 && d->rel > c->top[k - 1].rel; k--) c->top[k] = c->top[k - 1];
  c->top[k] = *d;
}

static void count(tally *t, const hlo_mismatch *d, double x, bool ok) {
  hlo_comparison *c = t->c;
  u32 m = 0;
  while (m + 1 < HLO_COMPARE_MAGNITUDES && !(x < magnitude_bounds[m])) m++;
  c->magnitudes[m]++;
  c->magnitude_mismatches[m] += !ok;
  if (d->ulp != UINT64_MAX) {
    if (d->ulp > c->max_ulp) c->max_ulp = d->ulp;
    u32 u = 0;
    while (d->ulp > ulp_bounds[u]) u++;
    c->ulps[u]++;
  }
  if (d->abs == 0) return;
  if (isfinite(d->abs)) {
    c->max_abs = fmax(c->max_abs, d->abs);
    if (isfinite(d->rel)) c->max_rel = fmax(c->max_rel, d->rel);
    int k = 0;
    while (k < GRID && !(d->rel <= grid[k])) k++;
    t->worst_abs[k] = fmax(t->worst_abs[k], d->abs);
  } else {
    t->hopeless = true;
  }
  if (d->abs > c->tol.abs) {
    c->over_abs++;
    for (u32 k = 0; k < HLO_COMPARE_ERRORS; k++) c->rel_errors[k] += d->rel >= error_bounds[k];
  }
  if (d->rel > c->tol.rel) {
    c->over_rel++;
    for (u32 k = 0; k < HLO_COMPARE_ERRORS; k++) c->abs_errors[k] += d->abs >= error_bounds[k];
  }
}

static void note_mismatch(hlo_comparison *c, const hlo_mismatch *d) {
  c->mismatches++;
  c->nan_mismatches += (d->want != d->want) != (d->got != d->got);
  if (c->nfirst < HLO_COMPARE_TOP) c->first[c->nfirst++] = *d;
  keep_top(c, d);
}

// ---- arrays -------------------------------------------------------------------------------------
// Where either type says that a dimension has one.
static bool same_sizes(const hlo_literal *a, const hlo_literal *b) {
  const bool *p = a->shape->dynamic, *q = b->shape->dynamic;
  i64 x[HLO_MAX_RANK], y[HLO_MAX_RANK];
  hlo_literal_sizes(a, x), hlo_literal_sizes(b, y);
  for (u32 d = 0; d < a->shape->rank; d++) {
    if (!(p && p[d]) && !(q && q[d])) continue;
    if (x[d] != y[d]) return false;
  }
  return true;
}

// A complex element: its errors are those of the difference's modulus, beside the modulus of what
// was expected; the value shown is that of the part further off.
static bool judge_complex(hlo_dtype part, const char *a, const char *b, hlo_tolerance tol,
                          hlo_mismatch *d) {
  size_t half = hlo_dtype_storage(part);
  hlo_mismatch of[2] = {*d, *d};
  bool same = true;
  for (size_t k = 0; k < 2; k++) {
    hlo_mismatch *x = &of[k];
    x->ulp = hlo_ulp_distance(part, a + k * half, b + k * half);
    x->want = hlo_elem_to_f64(part, a + k * half), x->got = hlo_elem_to_f64(part, b + k * half);
    same &= hlo_close(part, x->want, x->got, hlo_near(0, 0), &x->abs, &x->rel);
  }
  *d = of[of[1].abs > of[0].abs];
  d->ulp = HS_MAX(of[0].ulp, of[1].ulp);
  if (same || !isfinite(d->abs)) return same;
  double modulus = hypot(of[0].want, of[1].want);
  d->abs = hypot(of[0].abs, of[1].abs);
  d->rel = modulus == 0 ? INFINITY : d->abs / modulus;
  return within(part, d->abs, d->rel, modulus, tol);
}

static bool judge_exact(hlo_dtype t, const char *a, const char *b, hlo_mismatch *d) {
  d->ulp = hlo_ulp_distance(t, a, b);
  d->want = hlo_elem_to_f64(t, a), d->got = hlo_elem_to_f64(t, b), d->abs = (double)d->ulp;
  d->rel = d->ulp == 0 ? 0 : d->want == 0 ? INFINITY : d->abs / fabs(d->want);
  return d->ulp == 0;
}

static void compare_array(const hlo_literal *want, const hlo_literal *got, hlo_comparison *c) {
  hlo_dtype t = want->shape->dtype, part = hlo_dtype_real_part(t);
  size_t w = hlo_dtype_storage(t);
  bool inexact = hlo_dtype_is_float(part);
  i64 strides[HLO_MAX_RANK];
  hlo_row_major_strides(want->shape->rank, want->shape->dims, strides);
  tally sum = {.c = c};
  for (i64 i = 0; i < want->shape->elements && !hs_stops(i); i++) {
    if (!hlo_literal_has_at(want, strides, i)) continue;
    const char *a = (const char *)want->data + (size_t)i * w,
               *b = (const char *)got->data + (size_t)i * w;
    hlo_mismatch d = {.at = i};
    bool ok;
    if (hlo_dtype_is_complex(t)) {
      ok = judge_complex(part, a, b, c->tol, &d);
    } else if (inexact) {
      d.ulp = hlo_ulp_distance(t, a, b);
      d.want = hlo_elem_to_f64(t, a), d.got = hlo_elem_to_f64(t, b);
      ok = hlo_close(t, d.want, d.got, c->tol, &d.abs, &d.rel);
    } else {
      ok = judge_exact(t, a, b, &d);
    }
    double im = part == t ? 0 : hlo_elem_to_f64(part, b + w / 2);
    count(&sum, &d, part == t ? fabs(d.got) : hypot(hlo_elem_to_f64(part, b), im), ok);
    c->elements++;
    if (!ok) note_mismatch(c, &d);
  }
  if (c->mismatches && inexact) suggest(&sum);
}

hlo_type_tolerance hlo_tolerance_of(hlo_dtype t) {
  enum { HLO_REST = HLO_DTYPE_COUNT };
  static const struct {
    int type;
    hlo_type_tolerance row;
  } rows[] = {
#define TOLERANCE(types, near_abs, near_rel, ulps, abs) \
  {HLO_##types, {near_abs, near_rel, ulps, abs, 0}},
#include "core/types/tolerance.def"
#undef TOLERANCE
  };
  t = hlo_dtype_real_part(t);
  size_t k = 0;
  while (rows[k].type != HLO_REST && rows[k].type != (int)t) k++;
  hlo_type_tolerance row = rows[k].row;
  row.epsilon = hlo_dtype_epsilon(t);
  row.near_rel = HS_MAX(row.near_rel, row.epsilon);
  return row;
}

hlo_tolerance hlo_default_tolerance(hlo_dtype t) {
  hlo_type_tolerance row = hlo_tolerance_of(t);
  return hlo_near(row.near_abs, row.near_rel);
}

hlo_tolerance hlo_tolerance_for(hlo_dtype t, hlo_tolerance asked) {
  hlo_tolerance own = hlo_default_tolerance(t), r = asked;
  if (asked.abs < 0) r.abs = own.abs;
  if (asked.rel < 0) r.rel = own.rel;
  return r;
}

// ---- vectors up to a factor ---------------------------------------------------------------------
// The vector of `got` that starts at `at` becomes the multiple by a number of modulus 1 that is
// nearest to that of `want`: their inner product's direction. A real vector is only ever negated.
static void turn_vector(hlo_dtype t, const hlo_literal *want, hlo_literal *got, i64 at, i64 n,
                        i64 stride) {
  hlo_dtype part = hlo_dtype_real_part(t);
  size_t half = hlo_dtype_storage(part), w = hlo_dtype_storage(t);
  bool complex = part != t;
  double re = 0, im = 0;
  for (i64 k = 0; k < n; k++) {
    const char *a = (const char *)want->data + (size_t)(at + k * stride) * w,
               *b = (const char *)got->data + (size_t)(at + k * stride) * w;
    double x = hlo_elem_to_f64(part, a), u = hlo_elem_to_f64(part, b),
           y = complex ? hlo_elem_to_f64(part, a + half) : 0,
           v = complex ? hlo_elem_to_f64(part, b + half) : 0;
    re += x * u + y * v, im += y * u - x * v;  // want * conj(got)
  }
  double length = hypot(re, im);
  if (!(length > 0) || !isfinite(length) || (im == 0 && re > 0)) return;
  re /= length, im /= length;
  for (i64 k = 0; k < n; k++) {
    char *b = (char *)got->data + (size_t)(at + k * stride) * w;
    double u = hlo_elem_to_f64(part, b), v = complex ? hlo_elem_to_f64(part, b + half) : 0;
    hlo_elem_from_f64(part, b, u * re - v * im);
    if (complex) hlo_elem_from_f64(part, b + half, u * im + v * re);
  }
}

// The leaf with each of its vectors along dimension d turned; the caller's reference.
static hlo_literal *turned(const hlo_literal *want, const hlo_literal *got, u32 d) {
  const hlo_shape *s = got->shape;
  hlo_literal *r = NULL;
  hs_status st = hlo_literal_new(s, &r);
  if (!hs_ok(st)) return hs_status_drop(st), hlo_literal_ref(got);
  memcpy(r->data, got->data, got->bytes);
  i64 strides[HLO_MAX_RANK];
  hlo_row_major_strides(s->rank, s->dims, strides);
  for (i64 k = 0; k < s->elements; k++)
    if (k / strides[d] % s->dims[d] == 0) turn_vector(s->dtype, want, r, k, s->dims[d], strides[d]);
  return r;
}

typedef struct walk {
  hlo_tolerance tol;
  const hlo_phases *phases;
  u32 leaf;
  hlo_comparisons *out;
} walk;

// Whether the leaf that is compared now has vectors up to a factor: in which dimension.
static bool has_phases(const walk *w, const hlo_shape *s, u32 *along) {
  if (!w->phases || w->leaf >= w->phases->n || w->phases->along[w->leaf] < 0) return false;
  *along = (u32)w->phases->along[w->leaf];
  return *along < s->rank && hlo_dtype_is_float(hlo_dtype_real_part(s->dtype));
}

static hs_status compare_at(walk *w, const hlo_literal *want, const hlo_literal *got,
                            const char *path) {
  if (want->shape->dtype != got->shape->dtype ||
      (hlo_shape_is_array(want->shape) && !hlo_shape_compatible(want->shape, got->shape)))
    return hs_fail(HS_E_DIFFER, "%s: the shapes differ", path);
  if (want->elided || got->elided)
    return hs_fail(HS_E_ELIDED, "%s: a value printed as {...} cannot be compared", path);
  if (hlo_shape_is_array(want->shape)) {
    u32 along;
    if (!same_sizes(want, got))
      return hs_fail(HS_E_DIFFER, "%s: the sizes of dynamic dimensions differ", path);
    hlo_comparison c = {.path = hs_strdup(path),
                        .shape = want->shape,
                        .tol = hlo_tolerance_for(want->shape->dtype, w->tol)};
    if (want->bytes == got->bytes && memcmp(want->data, got->data, want->bytes) == 0) {
      c.elements = want->shape->elements;
    } else if (has_phases(w, want->shape, &along)) {
      hlo_literal *r = turned(want, got, along);
      compare_array(want, r, &c);
      hlo_literal_unref(r);
    } else {
      compare_array(want, got, &c);
    }
    w->leaf++;
    hs_vec_push(w->out, c);
    return hs_poll();
  }
  if (!hlo_shape_is_tuple(want->shape)) w->leaf++;
  if (want->nchildren != got->nchildren)
    return hs_fail(HS_E_DIFFER, "%s: tuples of different length", path);
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < want->nchildren; k++) {
    char *p = hs_format("%s.%u", path, k);
    st = hs_chain(st, compare_at(w, want->children[k], got->children[k], p));
    hs_free(p);
  }
  return st;
}

// After an error `out` has the leaves that were compared before it.
static hs_status compare_all(const hlo_literal *expected, const hlo_literal *actual,
                             hlo_tolerance tol, const hlo_phases *phases, hlo_comparisons *out) {
  *out = (hlo_comparisons){0};
  return compare_at(&(walk){tol, phases, 0, out}, expected, actual, "result");
}

hs_status hlo_compare_phases(const hlo_literal *expected, const hlo_literal *actual,
                             hlo_tolerance tol, const hlo_phases *phases, hlo_comparisons *out) {
  hs_status s = compare_all(expected, actual, tol, phases, out);
  if (!hs_ok(s)) hlo_comparisons_free(out);
  return s;
}

hs_status hlo_compare_leaves(const hlo_literal *expected, const hlo_literal *actual,
                             hlo_tolerance tol, hlo_comparisons *out) {
  return hlo_compare_phases(expected, actual, tol, NULL, out);
}

void hlo_comparisons_free(hlo_comparisons *list) {
  for (size_t k = 0; k < list->n; k++) hs_free(list->v[k].path);
  hs_vec_free(list);
}

// ---- the report ---------------------------------------------------------------------------------
void hlo_index_print(hs_buf *b, const hlo_shape *s, i64 at) {
  i64 strides[HLO_MAX_RANK];
  hlo_row_major_strides(s->rank, s->dims, strides);
  hs_buf_putc(b, '{');
  for (u32 d = 0; d < s->rank; d++)
    hs_buf_printf(b, d ? ",%lld" : "%lld", (long long)(at / strides[d] % s->dims[d]));
  hs_buf_putc(b, '}');
}

static double percent(i64 a, i64 b) { return b ? 100.0 * (double)a / (double)b : 0; }

static void print_mismatch(hs_buf *b, const hlo_comparison *c, const hlo_mismatch *d) {
  hs_buf_puts(b, "  at ");
  hlo_index_print(b, c->shape, d->at);
  hs_buf_printf(b, ": expected %.9g, got %.9g (abs %.3g, rel %.3g", d->want, d->got, d->abs,
                d->rel);
  if (d->ulp != UINT64_MAX && hlo_dtype_is_float(hlo_dtype_real_part(c->shape->dtype)))
    hs_buf_printf(b, ", %llu ulp", (unsigned long long)d->ulp);
  hs_buf_puts(b, ")\n");
}

static void print_errors(hs_buf *b, const char *what, const char *bound, double limit, i64 total,
                         i64 elements, const i64 *cumulative) {
  hs_buf_printf(b, "over the %s bound %g: %lld (%.4f%%); their %s errors\n", bound, limit,
                (long long)total, percent(total, elements), what);
  hs_buf_printf(b, "  <  %-6g : %8lld (%.4f%%)\n", error_bounds[0],
                (long long)(total - cumulative[0]), percent(total - cumulative[0], total));
  for (u32 k = 0; k < HLO_COMPARE_ERRORS; k++)
    hs_buf_printf(b, "  >= %-6g : %8lld (%.4f%%)\n", error_bounds[k], (long long)cumulative[k],
                  percent(cumulative[k], total));
}

static void print_detail(hs_buf *b, const hlo_comparison *c) {
  hs_buf_puts(b, "magnitudes of the actual values\n");
  double from = 0;
  for (u32 k = 0; k < HLO_COMPARE_MAGNITUDES; from = magnitude_bounds[k++]) {
    hs_buf_printf(b, "  %-6g <= |x| < %-6g : %8lld (%8.4f%%)", from, magnitude_bounds[k],
                  (long long)c->magnitudes[k], percent(c->magnitudes[k], c->elements));
    if (c->magnitude_mismatches[k])
      hs_buf_printf(b, ", mismatches %lld", (long long)c->magnitude_mismatches[k]);
    hs_buf_putc(b, '\n');
  }
  print_errors(b, "relative", "abs", c->tol.abs, c->over_abs, c->elements, c->rel_errors);
  print_errors(b, "absolute", "rel", c->tol.rel, c->over_rel, c->elements, c->abs_errors);
  hs_buf_puts(b, "distance in representable numbers (ulp)\n");
  for (u32 k = 0; k < HLO_COMPARE_ULPS; k++) {
    if (k + 1 < HLO_COMPARE_ULPS)
      hs_buf_printf(b, "  <= %-6llu : %8lld (%.4f%%)\n", (unsigned long long)ulp_bounds[k],
                    (long long)c->ulps[k], percent(c->ulps[k], c->elements));
    else
      hs_buf_printf(b, "  more      : %8lld (%.4f%%)\n", (long long)c->ulps[k],
                    percent(c->ulps[k], c->elements));
  }
}

void hlo_comparison_print(hs_buf *b, const hlo_comparison *c, bool detail) {
  if (c->nan_mismatches)
    hs_buf_printf(b, "%lld of them NaN on one side only\n", (long long)c->nan_mismatches);
  if (c->ntop) hs_buf_puts(b, "largest relative errors\n");
  for (u32 k = 0; k < c->ntop; k++) print_mismatch(b, c, &c->top[k]);
  if (c->mismatches > HLO_COMPARE_TOP) {
    hs_buf_puts(b, "first mismatches\n");
    for (u32 k = 0; k < c->nfirst; k++) print_mismatch(b, c, &c->first[k]);
  }
  if (detail) print_detail(b, c);
  if (!c->mismatches || !hlo_dtype_is_float(hlo_dtype_real_part(c->shape->dtype))) return;
  if (!c->nfixes) {
    hs_buf_puts(b, "no tolerance would pass: infinite errors\n");
    return;
  }
  hs_buf_puts(b, "would pass:");
  for (u32 k = 0; k < c->nfixes; k++)
    hs_buf_printf(b, "%s abs %g rel %g", k ? "," : "", c->fixes[k].abs, c->fixes[k].rel);
  hs_buf_putc(b, '\n');
}

static hs_status as_status(const hlo_comparison *c) {
  if (!c->mismatches) return HS_GOOD;
  hs_status st =
      hs_fail(HS_E_DIFFER, "%s: %lld of %lld elements differ (%.4g%%; abs > %.3g and rel > %.3g)",
              c->path, (long long)c->mismatches, (long long)c->elements,
              percent(c->mismatches, c->elements), c->tol.abs, c->tol.rel);
  hs_buf b = {0};
  hlo_comparison_print(&b, c, false);
  if (b.n) st = hs_with_note(st, "%.*s", (int)b.n - 1, b.p);
  hs_buf_free(&b);
  return st;
}

hs_status hlo_compare_up_to(const hlo_literal *expected, const hlo_literal *actual,
                            hlo_tolerance tol, const hlo_phases *phases) {
  hlo_comparisons list;
  hs_status st = compare_all(expected, actual, tol, phases, &list);
  for (size_t k = 0; k < list.n; k++) st = hs_chain(st, as_status(&list.v[k]));
  hlo_comparisons_free(&list);
  return st;
}

hs_status hlo_compare(const hlo_literal *expected, const hlo_literal *actual, hlo_tolerance tol) {
  return hlo_compare_up_to(expected, actual, tol, NULL);
}
