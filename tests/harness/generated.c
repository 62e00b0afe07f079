// generated.c — do two results of a random module (tests/random) agree? By the tolerances that
// the generator worked out.
#include "tests/harness/generated.h"

#include "core/types/compare.h"

#include <stdio.h>

// False: `why` (200 bytes) says where they differ first, *output (may be NULL) in which result.
bool generated_agrees(const gen_module *g, const hlo_literal *want, const hlo_literal *got,
                      u32 *output, char *why) {
  if (output) *output = 0;
  if (want->nchildren != g->nouts || got->nchildren != g->nouts)
    return snprintf(why, 200, "number of results"), false;
  for (u32 k = 0; k < g->nouts; k++) {
    const hlo_literal *w = want->children[k];
    double tol = g->tolerance[k];
    hlo_comparisons list;
    hs_status st =
        hlo_compare_leaves(w, got->children[k],
                           hlo_within(4 * tol, tol > 0 ? 16 * gen_eps(w->shape->dtype) : 0), &list);
    const hlo_comparison *c = list.n ? &list.v[0] : NULL;
    bool same = hs_ok(st) && c && !c->mismatches;
    if (!same && output) *output = k;
    if (!hs_ok(st)) snprintf(why, 200, "output %u: %.150s", k, st.err->message);
    else if (!same && c)
      snprintf(why, 200, "output %u element %lld: %.17g, the reference has %.17g, tolerance %.3g",
               k, (long long)c->first[0].at, c->first[0].got, c->first[0].want, tol);
    hs_status_drop(st);
    hlo_comparisons_free(&list);
    if (!same) return false;
  }
  return true;
}
