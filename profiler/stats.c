// stats.c — summaries of measured samples. Order statistics throughout: run times on shared
// machines have long tails, so means and standard deviations mislead. Quantiles interpolate
// linearly (type 7 of Hyndman and Fan, 1996); the interval of the median is the distribution-free
// one from binomial ranks.
#include "profiler/prof.h"

#include <math.h>
#include <stdlib.h>

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

prof_stats prof_summarize(const double *samples, u32 n) {
  prof_stats s = {.n = n};
  if (!n) return s;
  double *v = hs_alloc(n * sizeof *v), sum = 0;
  memcpy(v, samples, n * sizeof *v);
  qsort(v, n, sizeof *v, ascending);
  for (u32 k = 0; k < n; k++) sum += v[k];
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
