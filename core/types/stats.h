// stats.h — what an array holds, in figures: range, mean, spread, counts of what is no ordinary
// number, a histogram.
#ifndef HLO_STATS_H
#define HLO_STATS_H

#include "core/types/literal.h"

// min, max, mean and std are of the finite elements (of complex arrays: of all parts); NaN when
// there is none.
typedef struct hlo_stats {
  i64 values, nan, inf, zero, negative;
  double min, max, mean, std;
} hlo_stats;
// Of an array with a value; `values` counts elements within its dynamic sizes, of complex arrays
// both parts.
hlo_stats hlo_literal_stats(const hlo_literal *array);

enum { HLO_HAS_NAN = 1, HLO_HAS_INF = 2 };
// Which of the two occur anywhere in a value, tuples recursively.
u32 hlo_literal_specials(const hlo_literal *);
// Which of them the element at a row-major index is; 0 where it has no value. Arrays only.
u32 hlo_literal_special_at(const hlo_literal *array, i64 at);
// Index of the first element that is NaN or infinite (`kind`); -1 when there is none. Arrays only.
i64 hlo_literal_find_special(const hlo_literal *array, u32 kind);
// How many elements are of a kind; a complex one counts once. Arrays only.
i64 hlo_literal_count_special(const hlo_literal *array, u32 kind);

// Counts of the finite values in `bins` equal parts of [min, max]; the last part includes max.
// counts has room for `bins` entries and is cleared first.
void hlo_literal_histogram(const hlo_literal *array, const hlo_stats *, u32 bins, i64 *counts);

#endif
