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

// One of 0..n-1, each as likely; *state is any number, and another one behind it.
u32 prof_draw(u64 *state, u32 n);

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

// ---- between runs -------------------------------------------------------------------------------
// The interval of a run is made of what varies within it. What lasts longer than a run - neighbours
// on the same host, where pages happen to lie, the clock that the processor has settled on - is in
// none of it. It shows when the same thing is measured again; so every ratio is kept with its own
// width, and pairs of the same thing say how much wider intervals have to be for 19 of 20 pairs to
// agree (split conformal prediction: Papadopoulos et al., 2002; here of pairs).

// A ratio that was measured. key: of what, equal for equal programs and settings; width: half the
// width of its interval, as a logarithm; level: how quiet the machine was (prof_noise_level).
typedef struct prof_measured {
  u64 key;
  double ratio, width;
  u32 level;
} prof_measured;
typedef HS_VEC(prof_measured) prof_history;

// A line each, the oldest first. Lines that are none are left out: the file is only a cache.
void prof_history_parse(const char *text, size_t n, prof_history *out);
void prof_history_print(const prof_history *, hs_buf *out);  // the newest of them

// The width that has to be added, as prof_interval_with does, to the intervals of each two
// measurements of one thing that follow each other, for 95 % of these pairs to agree; of fewer than
// 19 pairs the largest. Of pairs that were at this level or a quieter one both times (beside other
// work programs differ in other ways than alone), and while those are too few, at the next. Ratios
// that were too noisy to say anything are left out, and so are all but the last 80: a machine
// changes.
typedef struct prof_between {
  double width;  // as a logarithm
  u32 pairs;     // PROF_PAIRS at least; otherwise nothing is known and the width is 0
} prof_between;
enum { PROF_PAIRS = 4 };
prof_between prof_between_of(const prof_history *, u32 level);

// An interval about a ratio, wider by an independent source of error of that width: the root of the
// sum of the squares, on either side, of logarithms.
prof_interval prof_interval_with(prof_interval, double width);

#endif
