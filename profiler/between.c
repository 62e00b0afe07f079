// between.c: how much repeated measurements differ. See between.h.
//
// Two measurements agree when their logarithms differ by no more than the root of the sum of the
// squares of their widths w. With a width f added to both that is d^2 <= w1^2 + w2^2 + 2 f^2, so
// that each pair names the least f for which it would agree, and the wanted one is a quantile.
#include "profiler/between.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 400 };  // measurements that are kept

void prof_history_parse(const char *text, size_t n, prof_history *out) {
  for (const char *p = text, *end = text + n; p < end;) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    size_t len = (size_t)((stop ? stop : end) - p);
    char line[128];
    unsigned long long key;
    unsigned loud;
    prof_measured m;
    memcpy(line, p, HS_MIN(len, sizeof line - 1));
    line[HS_MIN(len, sizeof line - 1)] = 0;
    p += len + 1;
    if (sscanf(line, "%llx %lf %lf %u", &key, &m.ratio, &m.width, &loud) != 4) continue;
    if (!(m.ratio > 0 && isfinite(m.ratio) && m.width >= 0 && isfinite(m.width))) continue;
    m.key = key;
    m.loud = loud != 0;
    hs_vec_push(out, m);
  }
}

void prof_history_print(const prof_history *h, hs_buf *out) {
  for (size_t k = h->n > MOST ? h->n - MOST : 0; k < h->n; k++)
    hs_buf_printf(out, "%016llx %.17g %.6g %u\n", (unsigned long long)h->v[k].key, h->v[k].ratio,
                  h->v[k].width, h->v[k].loud);
}

// ---- pairs --------------------------------------------------------------------------------------
static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// The one before it of the same thing; NULL: it is the first.
static const prof_measured *before(const prof_history *h, size_t at) {
  for (size_t k = at; k-- > 0;)
    if (h->v[k].key == h->v[at].key) return &h->v[k];
  return NULL;
}

static bool says_something(const prof_measured *m) { return m->width <= PROF_NOISE; }

prof_between prof_between_of(const prof_history *h, bool loud) {
  prof_between b = {0};
  double *least = hs_alloc((h->n + 1) * sizeof *least);  // squares
  for (size_t k = 0; k < h->n; k++) {
    const prof_measured *y = &h->v[k], *x = before(h, k);
    if (!x || !says_something(x) || !says_something(y)) continue;
    if (!loud && (x->loud || y->loud)) continue;
    double d = log(x->ratio / y->ratio);
    least[b.pairs++] = (d * d - x->width * x->width - y->width * y->width) / 2;
  }
  if (b.pairs >= PROF_PAIRS) {
    qsort(least, b.pairs, sizeof *least, ascending);
    u32 rank = (u32)ceil(0.95 * (b.pairs + 1));
    b.width = sqrt(fmax(least[HS_MIN(rank, b.pairs) - 1], 0));
  }
  hs_free(least);
  return b;
}

prof_interval prof_interval_with(prof_interval i, double width) {
  if (!(i.low > 0) || !(i.value > 0) || !(width > 0)) return i;
  return (prof_interval){i.value, i.value * exp(-hypot(log(i.value / i.low), width)),
                         i.value * exp(hypot(log(i.high / i.value), width))};
}
