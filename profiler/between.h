// between.h: by how much measurements of one thing, made one after the other, differ on this
// machine beyond what each of them could know.
//
// The interval of a run is made of what varies within it. What lasts longer than a run - neighbours
// on the same host, where pages happen to lie, the clock that the processor has settled on - is in
// none of it. It shows when the same thing is measured again; so every ratio is kept with its own
// width, and pairs of the same thing say how much wider intervals have to be for 19 of 20 pairs to
// agree (split conformal prediction: Papadopoulos et al., 2002; here of pairs).
#ifndef PROF_BETWEEN_H
#define PROF_BETWEEN_H

#include "profiler/stats.h"

// A ratio that was measured. key: of what, equal for equal programs and settings; width: half the
// width of its interval, as a logarithm; loud: the machine was not quiet (prof_noise_loud).
typedef struct prof_measured {
  u64 key;
  double ratio, width;
  bool loud;
} prof_measured;
typedef HS_VEC(prof_measured) prof_history;

// A line each, the oldest first. Lines that are none are left out: the file is only a cache.
void prof_history_parse(const char *text, size_t n, prof_history *out);
void prof_history_print(const prof_history *, hs_buf *out);  // the newest of them

// The width that has to be added, as prof_interval_with does, to the intervals of each two
// measurements of one thing that follow each other, for 95 % of these pairs to agree; of fewer than
// 19 pairs the largest. loud: of all pairs, else of those that were quiet both times. Ratios that
// were too noisy to say anything are left out.
typedef struct prof_between {
  double width;  // as a logarithm
  u32 pairs;     // PROF_PAIRS at least; otherwise nothing is known and the width is 0
} prof_between;
enum { PROF_PAIRS = 4 };
prof_between prof_between_of(const prof_history *, bool loud);

// An interval about a ratio, wider by an independent source of error of that width: the root of the
// sum of the squares, on either side, of logarithms.
prof_interval prof_interval_with(prof_interval, double width);

#endif
