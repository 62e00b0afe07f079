// compare.c — do two results agree? Two rules: XLA's Near for whole arrays, and the sums and samples of .expect files.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/eval_ops.h"

// ---- Near ------------------------------------------------------------------------------------------------------------------
enum { WORST = 5 };
typedef struct diff { i64 at; double want, got, abs, rel; } diff;
typedef struct tally { i64 n, bad; double max_abs, max_rel; u32 nworst; diff worst[WORST]; } tally;

// One real value against another: false when they differ beyond the tolerance.
static bool near(double want, double got, hlo_tolerance tol, diff *d) {
  d->want = want, d->got = got, d->abs = 0, d->rel = 0;
  if (want == got || (want != want && got != got)) return true;
  if (isinf(want) || isinf(got) || want != want || got != got) { d->abs = d->rel = INFINITY; return false; }
  d->abs = fabs(got - want);
  d->rel = want == 0 ? INFINITY : d->abs / fabs(want);
  return !(d->abs > tol.abs && d->rel > tol.rel);
}

static void note_diff(tally *t, const diff *d, bool ok) {
  t->n++;
  if (d->abs > t->max_abs && isfinite(d->abs)) t->max_abs = d->abs;
  if (d->rel > t->max_rel && isfinite(d->rel)) t->max_rel = d->rel;
  if (ok) return;
  t->bad++;
  u32 k = t->nworst < WORST ? t->nworst++ : WORST - 1;
  if (k == WORST - 1 && t->nworst == WORST && t->bad > WORST && !(d->abs > t->worst[k].abs)) return;
  for (; k > 0 && d->abs > t->worst[k - 1].abs; k--) t->worst[k] = t->worst[k - 1];
  t->worst[k] = *d;
}

static void put_index(hs_buf *b, const hlo_shape *s, i64 at) {
  i64 strides[HLO_MAX_RANK];
  hlo_row_major_strides(s->rank, s->dims, strides);
  hs_buf_putc(b, '{');
  for (u32 d = 0; d < s->rank; d++) hs_buf_printf(b, d ? ",%lld" : "%lld", (long long)(at / strides[d] % s->dims[d]));
  hs_buf_putc(b, '}');
}

static bool same_sizes(const hlo_literal *a, const hlo_literal *b) {
  for (u32 d = 0; d < a->shape->rank; d++) {
    i64 x = a->dynamic_sizes ? a->dynamic_sizes[d] : a->shape->dims[d], y = b->dynamic_sizes ? b->dynamic_sizes[d] : b->shape->dims[d];
    if (x != y) return false;
  }
  return true;
}

// Elements beyond a dynamic size have no value.
static bool in_use(const hlo_literal *l, i64 at) {
  if (!l->dynamic_sizes) return true;
  i64 strides[HLO_MAX_RANK];
  hlo_row_major_strides(l->shape->rank, l->shape->dims, strides);
  for (u32 d = 0; d < l->shape->rank; d++)
    if (at / strides[d] % l->shape->dims[d] >= l->dynamic_sizes[d]) return false;
  return true;
}

static hs_status compare_arrays(const hlo_literal *want, const hlo_literal *got, hlo_tolerance tol, const char *path) {
  const hlo_shape *s = want->shape;
  hlo_dtype t = s->dtype, part = hlo_dtype_real_part(t);
  size_t w = hlo_dtype_storage(t), half = hlo_dtype_storage(part);
  bool inexact = hlo_dtype_is_float(t) || hlo_dtype_is_complex(t);
  tally sum = {0};
  if (!same_sizes(want, got)) return hs_fail(HS_E_DIFFER, "%s: the sizes of dynamic dimensions differ", path);
  if (want->bytes == got->bytes && memcmp(want->data, got->data, want->bytes) == 0) return HS_GOOD;
  for (i64 i = 0; i < s->elements; i++) {
    if (!in_use(want, i)) continue;
    const char *a = (const char *)want->data + (size_t)i * w, *b = (const char *)got->data + (size_t)i * w;
    for (size_t off = 0; off < w; off += half) {
      diff d = {.at = i};
      bool ok;
      if (inexact) {
        double x = hlo_elem_to_f64(part, a + off), y = hlo_elem_to_f64(part, b + off);
        d.at = i;
        ok = near(x, y, tol, &d);
      } else {
        i64 x = hlo_elem_to_i64(t, a), y = hlo_elem_to_i64(t, b);
        ok = x == y;
        d.want = (double)x, d.got = (double)y, d.abs = fabs((double)x - (double)y);
      }
      note_diff(&sum, &d, ok);
    }
  }
  if (!sum.bad) return HS_GOOD;
  hs_status st = hs_fail(HS_E_DIFFER, "%s: %lld of %lld elements differ (abs > %.3g and rel > %.3g)", path, (long long)sum.bad, (long long)sum.n, tol.abs, tol.rel);
  for (u32 k = 0; k < sum.nworst; k++) {
    hs_buf b = {0};
    put_index(&b, s, sum.worst[k].at);
    st = hs_with_note(st, "at %s: expected %.9g, got %.9g (abs %.3g, rel %.3g)", hs_buf_cstr(&b), sum.worst[k].want, sum.worst[k].got, sum.worst[k].abs, sum.worst[k].rel);
    hs_buf_free(&b);
  }
  return hs_with_note(st, "agreement would need abs %.3g or rel %.3g", sum.max_abs, sum.max_rel);
}

static hs_status compare_at(const hlo_literal *want, const hlo_literal *got, hlo_tolerance tol, const char *path) {
  if (want->shape->dtype != got->shape->dtype || (hlo_shape_is_array(want->shape) && !hlo_shape_compatible(want->shape, got->shape)))
    return hs_fail(HS_E_DIFFER, "%s: the shapes differ", path);
  if (want->elided || got->elided) return hs_fail(HS_E_ELIDED, "%s: a value printed as {...} cannot be compared", path);
  if (hlo_shape_is_array(want->shape)) return compare_arrays(want, got, tol, path);
  if (want->nchildren != got->nchildren) return hs_fail(HS_E_DIFFER, "%s: tuples of different length", path);
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < want->nchildren; k++) {
    char *p = hs_format("%s.%u", path, k);
    st = hs_chain(st, compare_at(want->children[k], got->children[k], tol, p));
    hs_free(p);
  }
  return st;
}

hs_status hlo_compare(const hlo_literal *expected, const hlo_literal *actual, hlo_tolerance tol) { return compare_at(expected, actual, tol, "result"); }

// ---- .expect files -----------------------------------------------------------------------------------------------------------
typedef struct spec {
  char shape[128];
  i64 count, nonfinite, stride;
  double sum, sumabs, maxabs, tol, miss;
} spec;

// The real values of a leaf, in order: complex elements are two each.
static double value_at(const hlo_literal *l, i64 k) {
  hlo_dtype t = l->shape->dtype, part = hlo_dtype_real_part(t);
  return hlo_elem_to_f64(part, (const char *)l->data + (size_t)k * hlo_dtype_storage(part));
}
static i64 values_of(const hlo_literal *l) { return l->shape->elements * (hlo_dtype_is_complex(l->shape->dtype) ? 2 : 1); }

static hs_status check_sums(const hlo_literal *l, const spec *s, u32 out) {
  hs_buf b = {0};
  hlo_shape_print(&b, l->shape, false);
  bool same = strcmp(hs_buf_cstr(&b), s->shape) == 0;
  hs_status st = same ? HS_GOOD : hs_fail(HS_E_DIFFER, "output %u: shape %s, expected %s", out, hs_buf_cstr(&b), s->shape);
  hs_buf_free(&b);
  if (!same) return st;
  i64 n = values_of(l), bad = 0;
  if (n != s->count) return hs_fail(HS_E_DIFFER, "output %u: %lld values, expected %lld", out, (long long)n, (long long)s->count);
  double sum = 0, sumabs = 0, maxabs = 0, rest = 0, restabs = 0;
  for (i64 k = 0; k < n; k++) {                      // compensated, so that the order of adding does not show
    double v = value_at(l, k), a = fabs(v);
    if (!isfinite(v)) { bad++; continue; }
    double y = v - rest, t = sum + y;
    rest = (t - sum) - y, sum = t;
    y = a - restabs, t = sumabs + y;
    restabs = (t - sumabs) - y, sumabs = t;
    if (a > maxabs) maxabs = a;
  }
  double slack = (2 * s->tol + s->miss) * s->sumabs;
  if (bad != s->nonfinite) return hs_fail(HS_E_DIFFER, "output %u: %lld values are not finite, expected %lld", out, (long long)bad, (long long)s->nonfinite);
  if (fabs(sum - s->sum) > slack) return hs_fail(HS_E_DIFFER, "output %u: sum %.9g, expected %.9g", out, sum, s->sum);
  if (fabs(sumabs - s->sumabs) > slack) return hs_fail(HS_E_DIFFER, "output %u: sum of magnitudes %.9g, expected %.9g", out, sumabs, s->sumabs);
  if (s->miss == 0 && fabs(maxabs - s->maxabs) > 2 * s->tol * s->maxabs)
    return hs_fail(HS_E_DIFFER, "output %u: largest magnitude %.9g, expected %.9g", out, maxabs, s->maxabs);
  return HS_GOOD;
}

typedef struct checker { const hlo_literal *leaf; spec s; u32 out; bool active; i64 samples, off; double worst; i64 worst_at; double worst_want, worst_got; } checker;

static hs_status close_output(checker *c) {
  if (!c->active) return HS_GOOD;
  c->active = false;
  if ((double)c->off > c->s.miss * (double)c->samples)
    return hs_fail(HS_E_DIFFER, "output %u: %lld of %lld samples off; worst at %lld: got %.9g, expected %.9g (error %.3g, tolerance %.3g)", c->out, (long long)c->off,
                   (long long)c->samples, (long long)c->worst_at, c->worst_got, c->worst_want, c->worst, c->s.tol);
  return check_sums(c->leaf, &c->s, c->out);
}

static void check_sample(checker *c, i64 at, double want) {
  if (at < 0 || at >= values_of(c->leaf)) { c->off++; c->samples++; return; }
  double got = value_at(c->leaf, at), e;
  i64 finite = c->s.count - c->s.nonfinite;
  double scale = fabs(want) + c->s.sumabs / (double)HS_MAX(finite, 1);
  if (got == want || (got != got && want != want)) e = 0;
  else e = isfinite(got) && isfinite(want) && scale > 0 ? fabs(got - want) / scale : INFINITY;
  c->samples++;
  if (!(e <= c->s.tol)) c->off++;
  if (e > c->worst || c->samples == 1) c->worst = e, c->worst_at = at, c->worst_want = want, c->worst_got = got;
}

static const hlo_literal *leaf_of(const hlo_literal *l, u32 *k) {
  if (l->nchildren == 0 && !hlo_shape_is_tuple(l->shape)) return (*k)-- == 0 ? l : NULL;
  for (u32 c = 0; c < l->nchildren; c++) {
    const hlo_literal *r = leaf_of(l->children[c], k);
    if (r) return r;
  }
  return NULL;
}

hs_status hlo_compare_expect(const hlo_literal *actual, const char *text, size_t size) {
  checker c = {0};
  hs_status st = HS_GOOD;
  u32 outputs = 0;
  const char *p = text, *end = text + size;
  while (p < end && hs_ok(st)) {
    const char *eol = memchr(p, '\n', (size_t)(end - p));
    size_t len = HS_MIN((size_t)((eol ? eol : end) - p), (size_t)511);
    char line[512], want[64];
    memcpy(line, p, len);
    line[len] = 0;
    p = eol ? eol + 1 : end;
    long long at;
    if (!strncmp(line, "out ", 4)) {
      st = close_output(&c);
      if (!hs_ok(st)) break;
      long long count, nonfinite, stride;
      char sum[64], sumabs[64], maxabs[64], tol[64], miss[64];
      spec *s = &c.s;
      u32 k;
      if (sscanf(line, "out %u %127s count %lld nonfinite %lld sum %63s sumabs %63s maxabs %63s tol %63s miss %63s stride %lld", &c.out, s->shape, &count, &nonfinite, sum,
                 sumabs, maxabs, tol, miss, &stride) != 10) { st = hs_fail(HS_E_INPUT, "a line of the expected results is not understood: %s", line); break; }
      s->count = count, s->nonfinite = nonfinite, s->stride = stride;
      s->sum = strtod(sum, NULL), s->sumabs = strtod(sumabs, NULL), s->maxabs = strtod(maxabs, NULL), s->tol = strtod(tol, NULL), s->miss = strtod(miss, NULL);
      k = c.out;
      c = (checker){.s = *s, .out = c.out, .active = true};
      c.leaf = leaf_of(actual, &k);
      if (!c.leaf || !c.leaf->data) st = hs_fail(HS_E_DIFFER, "there is no output %u", c.out);
      outputs++;
    } else if (c.active && sscanf(line, "at %lld %63s", &at, want) == 2) {
      check_sample(&c, at, strtod(want, NULL));
    }
  }
  if (!hs_ok(st)) return st;
  HS_TRY(close_output(&c));
  return outputs ? HS_GOOD : hs_fail(HS_E_INPUT, "no expected outputs");
}
