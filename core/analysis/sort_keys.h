// sort_keys.h — sorts whose comparator compares elements one operand after the other: then they
// can be put in order by numbers made of their bits, without calling it.
#ifndef HLO_SORT_KEYS_H
#define HLO_SORT_KEYS_H

#include "core/ir/ir.h"

enum { HLO_SORT_KEYS = 8 };

// descending: the greatest first; canonical: floats with one zero and one NaN; partial: a plain
// comparison of floats, for which NaN is neither before nor behind anything (canonical too)
typedef struct hlo_sort_key {
  u32 operand;
  bool descending, canonical, partial;
} hlo_sort_key;

// The keys of a comparator, the first one first; returns how many, 0: it is none of the known
// forms.
u32 hlo_sort_keys(const hlo_computation *, hlo_sort_key keys[HLO_SORT_KEYS]);

#endif
