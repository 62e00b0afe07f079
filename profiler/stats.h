// stats.h — statistics of measured times: summaries, intervals of confidence, the ratio of two
// programs with a verdict, and where a warm-up ends.
//
// Everything is computed from order statistics: times on shared machines have long tails, so means
// and standard deviations mislead. What varies is the machine more than the program, and it varies
// slowly: runs that follow each other are alike. So the unit that is resampled is the round, in
// which every program runs once for a while (trial.h), never the single run; and where rounds that
// follow each other are still alike, they count as fewer, and intervals are wider.
#ifndef PROF_STATS_H
#define PROF_STATS_H

#include "core/base/diag.h"

typedef HS_VEC(double) prof_samples;

// Statistics of n samples, in their unit. p10 to p99: quantiles; interval: half the width of the
// 95 % confidence interval of the median, by ranks; outliers: samples further than three
// interquartile ranges outside the quartiles.
typedef struct prof_stats {
  u32 n, outliers;
  double min, p10, median, p90, p99, max, mean, interval;
} prof_stats;
// All zero for n = 0. The samples may be in any order.
prof_stats prof_summarize(const double *samples, u32 n);

// A quantity with its 95 % confidence interval.
typedef struct prof_interval {
  double value, low, high;
} prof_interval;
// Half the width as a part of the value; infinite where the value is not above zero.
double prof_half_width(prof_interval);
// How many times as wide the interval of n samples, in the order they were taken, has to be for
// what lasts from one to the next: the root of (1 + r) / (1 - r), where r is the correlation of
// each sample's rank with the next one's (Spearman's), 0 where it is below; 1 for fewer than eight.
double prof_persistence(const double *samples, u32 n);
// The median of n samples, in the order they were taken; the interval is the percentile bootstrap's
// (Efron, 1979) widened by prof_persistence, within the samples' range; of fewer than six samples
// their range, widened. The same samples give the same interval.
prof_interval prof_median(const double *samples, u32 n);

// What a ratio says. Above PROF_NOISE half-width it says nothing.
typedef enum prof_verdict {
  PROF_TOO_NOISY,  // half-width above PROF_NOISE
  PROF_SAME,       // the interval contains 1
  PROF_FASTER,     // it lies above 1
  PROF_SLOWER      // it lies below 1
} prof_verdict;
#define PROF_NOISE 0.10
const char *prof_verdict_text(prof_verdict);  // "too noisy", "same", "faster", "slower"
prof_verdict prof_judge(prof_interval ratio);

// How many times as fast as a program `b` is than `a`: the median, over n rounds, of the time of a
// divided by the time of b in the same round. Pairing takes out what changed both.
prof_interval prof_ratio(const double *a, const double *b, u32 n);

// The same for two programs that were measured apart, so that no round has both: the median of a's
// samples divided by the median of b's, each resampled by itself. What changed between the two
// measurements counts as a difference of the programs.
prof_interval prof_ratio_apart(const double *a, u32 na, const double *b, u32 nb);

// Where the steady part of a sequence of times begins: behind its last significant change of level
// (Pettitt's rank test, 1979, at 1 %, applied to the rest until it finds none). 0: no change; n is
// never returned.
u32 prof_steady_from(const double *samples, u32 n);

#endif
