// expect.c — the rule of NAME.expect files, which hold recorded results in short form: per output
// a shape, sums over all values, and samples at a stride, each with a tolerance relative to the
// value and to the mean magnitude of the output.
#include "core/types/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
static i64 values_of(const hlo_literal *l) {
  return l->shape->elements * (hlo_dtype_is_complex(l->shape->dtype) ? 2 : 1);
}

static hs_status check_sums(const hlo_literal *l, const spec *s, u32 out) {
  hs_buf b = {0};
  hlo_shape_print(&b, l->shape, false);
  bool same = strcmp(hs_buf_cstr(&b), s->shape) == 0;
  hs_status st = same ? HS_GOOD
                      : hs_fail(HS_E_DIFFER, "output %u: shape %s, expected %s", out,
                                hs_buf_cstr(&b), s->shape);
  hs_buf_free(&b);
  if (!same) return st;
  i64 n = values_of(l), bad = 0;
  if (n != s->count)
    return hs_fail(HS_E_DIFFER, "output %u: %lld values, expected %lld", out, (long long)n,
                   (long long)s->count);
  double sum = 0, sumabs = 0, maxabs = 0, rest = 0, restabs = 0;
  // compensated, so that the order of adding does not show
  for (i64 k = 0; k < n; k++) {
    double v = value_at(l, k), a = fabs(v);
    if (!isfinite(v)) {
      bad++;
      continue;
    }
    double y = v - rest, t = sum + y;
    rest = (t - sum) - y, sum = t;
    y = a - restabs, t = sumabs + y;
    restabs = (t - sumabs) - y, sumabs = t;
    if (a > maxabs) maxabs = a;
  }
  double slack = (2 * s->tol + s->miss) * s->sumabs;
  if (bad != s->nonfinite)
    return hs_fail(HS_E_DIFFER, "output %u: %lld values are not finite, expected %lld", out,
                   (long long)bad, (long long)s->nonfinite);
  if (fabs(sum - s->sum) > slack)
    return hs_fail(HS_E_DIFFER, "output %u: sum %.9g, expected %.9g", out, sum, s->sum);
  if (fabs(sumabs - s->sumabs) > slack)
    return hs_fail(HS_E_DIFFER, "output %u: sum of magnitudes %.9g, expected %.9g", out, sumabs,
                   s->sumabs);
  if (s->miss == 0 && fabs(maxabs - s->maxabs) > 2 * s->tol * s->maxabs)
    return hs_fail(HS_E_DIFFER, "output %u: largest magnitude %.9g, expected %.9g", out, maxabs,
                   s->maxabs);
  return HS_GOOD;
}

typedef struct checker {
  const hlo_literal *leaf;
  spec s;
  u32 out;
  bool active;
  i64 samples, off;
  double worst;
  i64 worst_at;
  double worst_want, worst_got;
} checker;

static hs_status close_output(checker *c) {
  if (!c->active) return HS_GOOD;
  c->active = false;
  if ((double)c->off > c->s.miss * (double)c->samples)
    return hs_fail(
        HS_E_DIFFER,
        "output %u: %lld of %lld samples off; worst at %lld: got %.9g, expected %.9g (error %.3g, "
        "tolerance %.3g)",
        c->out, (long long)c->off, (long long)c->samples, (long long)c->worst_at, c->worst_got,
        c->worst_want, c->worst, c->s.tol);
  return check_sums(c->leaf, &c->s, c->out);
}

static void check_sample(checker *c, i64 at, double want) {
  if (at < 0 || at >= values_of(c->leaf)) {
    c->off++;
    c->samples++;
    return;
  }
  double got = value_at(c->leaf, at), e;
  i64 finite = c->s.count - c->s.nonfinite;
  double scale = fabs(want) + c->s.sumabs / (double)HS_MAX(finite, 1);
  hlo_dtype part = hlo_dtype_real_part(c->leaf->shape->dtype);
  // relative to the value and to the mean magnitude, together
  hlo_tolerance tol = hlo_within(c->s.tol * (scale - fabs(want)), c->s.tol);
  bool ok = hlo_dtype_is_float(part) ? hlo_close(part, want, got, tol, &e, NULL)
                                     : (e = fabs(got - want)) <= c->s.tol * scale;
  e = e == 0 ? 0 : scale > 0 ? e / scale : INFINITY;
  c->samples++;
  if (!ok) c->off++;
  if (e > c->worst || c->samples == 1)
    c->worst = e, c->worst_at = at, c->worst_want = want, c->worst_got = got;
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
      if (sscanf(line,
                 "out %u %127s count %lld nonfinite %lld sum %63s sumabs %63s maxabs %63s tol %63s "
                 "miss %63s stride %lld",
                 &c.out, s->shape, &count, &nonfinite, sum, sumabs, maxabs, tol, miss,
                 &stride) != 10) {
        st = hs_fail(HS_E_INPUT, "a line of the expected results is not understood: %s", line);
        break;
      }
      s->count = count, s->nonfinite = nonfinite, s->stride = stride;
      s->sum = strtod(sum, NULL);
      s->sumabs = strtod(sumabs, NULL);
      s->maxabs = strtod(maxabs, NULL);
      s->tol = strtod(tol, NULL);
      s->miss = strtod(miss, NULL);
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
