// stats.c — summaries, bootstrap intervals, ratios and change points. See stats.h.
//
// Quantiles interpolate linearly (type 7 of Hyndman and Fan, 1996). Resampling uses a generator
// that starts from the same state each time, so that a report can be computed again from its
// samples.
#include "profiler/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/noise.h"

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const double *sorted, u32 n, double q) {
  double at = q * (double)(n - 1);
  u32 k = (u32)at;
  double part = at - (double)k;
  return k + 1 < n ? sorted[k] + part * (sorted[k + 1] - sorted[k]) : sorted[n - 1];
}

static double *sorted_copy(const double *samples, u32 n) {
  double *v = hs_alloc(n * sizeof *v);
  memcpy(v, samples, n * sizeof *v);
  qsort(v, n, sizeof *v, ascending);
  return v;
}

prof_stats prof_summarize(const double *samples, u32 n) {
  prof_stats s = {.n = n};
  if (!n) return s;
  double *v = sorted_copy(samples, n), sum = 0;
  double q1 = quantile(v, n, 0.25), q3 = quantile(v, n, 0.75), far = 3 * (q3 - q1);
  for (u32 k = 0; k < n; k++) {
    sum += v[k];
    s.outliers += v[k] < q1 - far || v[k] > q3 + far;
  }
  s.min = v[0];
  s.max = v[n - 1];
  s.p10 = quantile(v, n, 0.10);
  s.median = quantile(v, n, 0.50);
  s.p90 = quantile(v, n, 0.90);
  s.p99 = quantile(v, n, 0.99);
  s.mean = sum / n;
  // Ranks n/2 -+ 1.96 sqrt(n)/2 enclose the median with 95 % probability.
  double half = 0.98 * sqrt((double)n), lo = floor((double)n / 2 - half),
         hi = ceil((double)n / 2 + half);
  u32 a = lo < 0 ? 0 : (u32)lo, b = hi >= n ? n - 1 : (u32)hi;
  s.interval = (v[b] - v[a]) / 2;
  hs_free(v);
  return s;
}

// ---- what lasts ---------------------------------------------------------------------------------
typedef struct ranked {
  double v;
  u32 at;
} ranked;

static int by_value(const void *a, const void *b) {
  double x = ((const ranked *)a)->v, y = ((const ranked *)b)->v;
  return (x > y) - (x < y);
}

// Ranks from 1, ties shared, into rank[n].
static void rank_samples(const double *samples, u32 n, double *rank) {
  ranked *v = hs_alloc(n * sizeof *v);
  for (u32 k = 0; k < n; k++) v[k] = (ranked){samples[k], k};
  qsort(v, n, sizeof *v, by_value);
  for (u32 k = 0, e; k < n; k = e) {
    for (e = k; e < n && v[e].v <= v[k].v;) e++;
    for (u32 q = k; q < e; q++) rank[v[q].at] = ((double)k + (double)e + 1) / 2;
  }
  hs_free(v);
}

double prof_persistence(const double *samples, u32 n) {
  enum { FEWEST = 8 };
  static const double most = 0.9;  // beyond it nothing is known but that there is drift
  if (n < FEWEST) return 1;
  double *rank = hs_alloc(n * sizeof *rank), mean = ((double)n + 1) / 2, own = 0, next = 0;
  rank_samples(samples, n, rank);
  for (u32 k = 0; k < n; k++) {
    own += (rank[k] - mean) * (rank[k] - mean);
    if (k) next += (rank[k - 1] - mean) * (rank[k] - mean);
  }
  hs_free(rank);
  double r = own > 0 ? HS_MIN(HS_MAX(next / own, 0), most) : 0;
  return sqrt((1 + r) / (1 - r));
}

// ---- intervals ----------------------------------------------------------------------------------

double prof_half_width(prof_interval i) {
  return i.value > 0 ? (i.high - i.low) / 2 / i.value : HUGE_VAL;
}

// splitmix64 (Steele et al., 2014), scaled to 0..n-1.
u32 prof_draw(u64 *state, u32 n) {
  u64 z = (*state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return (u32)(((z >> 32) * n) >> 32);
}

enum { RESAMPLES = 2000 };

// Of n samples, drawn with replacement into w[n].
static double resampled_median(const double *v, u32 n, double *w, u64 *state) {
  for (u32 q = 0; q < n; q++) w[q] = v[prof_draw(state, n)];
  qsort(w, n, sizeof *w, ascending);
  return quantile(w, n, 0.5);
}

// Sorts what was resampled and takes the middle 95 % of it.
static void take_bounds(double *resampled, prof_interval *out) {
  qsort(resampled, RESAMPLES, sizeof *resampled, ascending);
  out->low = quantile(resampled, RESAMPLES, 0.025);
  out->high = quantile(resampled, RESAMPLES, 0.975);
}

// Ratios and times: the bounds move by factors, so that none falls below zero.
static void widen(prof_interval *i, double by) {
  if (!(i->low > 0) || !(i->value > 0) || by <= 1) return;
  i->low = i->value * pow(i->low / i->value, by);
  i->high = i->value * pow(i->high / i->value, by);
}

prof_interval prof_median(const double *samples, u32 n) {
  enum { FEW = 6, MOST = 2000 };
  if (!n) return (prof_interval){0};
  double *v = sorted_copy(samples, n);
  prof_interval i = {quantile(v, n, 0.5), v[0], v[n - 1]};
  const double range[2] = {v[0], v[n - 1]};
  // the resampled medians of many samples are as close together as the ranks say
  if (n > MOST) {
    double half = 0.98 * sqrt((double)n);
    i.low = v[(u32)((double)n / 2 - half)];
    i.high = v[(u32)((double)n / 2 + half)];
  } else if (n >= FEW) {
    double *medians = hs_alloc(RESAMPLES * sizeof *medians), *w = hs_alloc(n * sizeof *w);
    u64 state = n;
    for (u32 k = 0; k < RESAMPLES; k++) medians[k] = resampled_median(v, n, w, &state);
    take_bounds(medians, &i);
    hs_free(medians);
    hs_free(w);
  }
  hs_free(v);
  // the ranges of two to five samples miss the median in 2 of 2^n cases, so that they have to be
  // as much wider as Student's distribution is in its tails
  static const double few[FEW] = {1, 1, 9, 2.5, 1.6, 1.2};
  double least = i.low, most = i.high;
  if (n < FEW) widen(&i, few[n]);
  else widen(&i, prof_persistence(samples, n));
  if (n >= FEW) i.low = HS_MAX(i.low, range[0]), i.high = HS_MIN(i.high, range[1]);
  i.low = HS_MIN(i.low, least), i.high = HS_MAX(i.high, most);
  return i;
}

prof_interval prof_ratio_apart(const double *a, u32 na, const double *b, u32 nb) {
  if (!na || !nb) return (prof_interval){0};
  double *v = sorted_copy(a, na), *u = sorted_copy(b, nb),
         *w = hs_alloc(HS_MAX(na, nb) * sizeof *w), *ratios = hs_alloc(RESAMPLES * sizeof *ratios),
         under = quantile(u, nb, 0.5);
  prof_interval i = {under > 0 ? quantile(v, na, 0.5) / under : 0, 0, 0};
  u64 state = na;
  for (u32 k = 0; k < RESAMPLES; k++) {
    double over = resampled_median(v, na, w, &state);
    under = resampled_median(u, nb, w, &state);
    ratios[k] = under > 0 ? over / under : 0;
  }
  take_bounds(ratios, &i);
  hs_free(v);
  hs_free(u);
  hs_free(w);
  hs_free(ratios);
  widen(&i, HS_MAX(prof_persistence(a, na), prof_persistence(b, nb)));
  return i;
}

const char *prof_verdict_text(prof_verdict v) {
  static const char *const text[] = {"too noisy", "same", "faster", "slower"};
  return text[v];
}

prof_verdict prof_judge(prof_interval ratio) {
  if (!(prof_half_width(ratio) <= PROF_NOISE)) return PROF_TOO_NOISY;
  return ratio.low > 1 ? PROF_FASTER : ratio.high < 1 ? PROF_SLOWER : PROF_SAME;
}

prof_interval prof_ratio(const double *a, const double *b, u32 n) {
  double *r = hs_alloc(n * sizeof *r);
  u32 m = 0;
  for (u32 k = 0; k < n; k++)
    if (b[k] > 0) r[m++] = a[k] / b[k];
  prof_interval i = prof_median(r, m);
  hs_free(r);
  return i;
}

// ---- change of level ----------------------------------------------------------------------------

// The first sample behind the most likely change of level; 0 when it is not significant.
static u32 change_point(const double *samples, u32 n) {
  double *rank = hs_alloc(n * sizeof *rank), sum = 0, most = 0;
  rank_samples(samples, n, rank);
  u32 at = 0;
  for (u32 k = 0; k + 1 < n; k++) {
    sum += rank[k];
    double u = fabs(2 * sum - (double)(k + 1) * (n + 1));
    if (u > most) most = u, at = k + 1;
  }
  hs_free(rank);
  double m = n, p = 2 * exp(-6 * most * most / (m * m * m + m * m));
  return p < 0.01 ? at : 0;
}

u32 prof_steady_from(const double *samples, u32 n) {
  enum { FEWEST = 8 };  // fewer cannot be significant
  u32 from = 0;
  while (n - from >= FEWEST) {
    u32 at = change_point(samples + from, n - from);
    if (!at) break;
    from += at;
  }
  return from;
}

// ---- between runs -------------------------------------------------------------------------------
// Two measurements agree when their logarithms differ by no more than the root of the sum of the
// squares of their widths w. With a width f added to both that is d^2 <= w1^2 + w2^2 + 2 f^2, so
// that each pair names the least f for which it would agree, and the wanted one is a quantile.
enum { MOST = 400, RECENT = 80 };  // measurements that are kept; that count

void prof_history_parse(const char *text, size_t n, prof_history *out) {
  for (const char *p = text, *end = text + n; p < end;) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    size_t len = (size_t)((stop ? stop : end) - p);
    char line[128];
    unsigned long long key;
    prof_measured m;
    memcpy(line, p, HS_MIN(len, sizeof line - 1));
    line[HS_MIN(len, sizeof line - 1)] = 0;
    p += len + 1;
    if (sscanf(line, "%llx %lf %lf %u", &key, &m.ratio, &m.width, &m.level) != 4) continue;
    if (!(m.ratio > 0 && isfinite(m.ratio) && m.width >= 0 && isfinite(m.width))) continue;
    m.key = key;
    hs_vec_push(out, m);
  }
}

void prof_history_print(const prof_history *h, hs_buf *out) {
  for (size_t k = h->n > MOST ? h->n - MOST : 0; k < h->n; k++)
    hs_buf_printf(out, "%016llx %.17g %.6g %u\n", (unsigned long long)h->v[k].key, h->v[k].ratio,
                  h->v[k].width, h->v[k].level);
}

// The one before it of the same thing; NULL: it is the first.
static const prof_measured *before(const prof_history *h, size_t at) {
  for (size_t k = at; k-- > 0;)
    if (h->v[k].key == h->v[at].key) return &h->v[k];
  return NULL;
}

static bool says_something(const prof_measured *m) { return m->width <= PROF_NOISE; }

// Of pairs at this level at most.
static prof_between between_at(const prof_history *h, u32 level) {
  prof_between b = {0};
  double *least = hs_alloc((h->n + 1) * sizeof *least);  // squares
  for (size_t k = h->n > RECENT ? h->n - RECENT : 0; k < h->n; k++) {
    const prof_measured *y = &h->v[k], *x = before(h, k);
    if (!x || !says_something(x) || !says_something(y)) continue;
    if (HS_MAX(x->level, y->level) > level) continue;
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

prof_between prof_between_of(const prof_history *h, u32 level) {
  prof_between b = between_at(h, level);
  while (b.pairs < PROF_PAIRS && level < PROF_OTHER_WORK) b = between_at(h, ++level);
  return b;
}

prof_interval prof_interval_with(prof_interval i, double width) {
  if (!(i.low > 0) || !(i.value > 0) || !(width > 0)) return i;
  return (prof_interval){i.value, i.value * exp(-hypot(log(i.value / i.low), width)),
                         i.value * exp(hypot(log(i.high / i.value), width))};
}
