// compare.h — do two results agree? One rule for everybody who asks: commands, recorded results,
// random modules, the oracle, kernels. With the figures to judge a difference by, and the sums and
// samples of .expect files.
#ifndef HLO_COMPARE_H
#define HLO_COMPARE_H

#include "core/types/literal.h"

// Bounds of an error. HLO_TYPES_OWN in `abs` or `rel` stands for the type's (tolerance.def).
typedef struct hlo_tolerance {
  double abs, rel;  // rel: of the expected value
  double ulps;      // units in the last place of the expected value
  // false: within one of the bounds is enough (XLA's Near rule); true: abs + rel is the bound, for
  // those that were derived from how values are computed
  bool sum;
} hlo_tolerance;
#define HLO_TYPES_OWN (-1.0)
// The two bounds of XLA's Near rule.
static inline hlo_tolerance hlo_near(double abs, double rel) {
  return (hlo_tolerance){.abs = abs, .rel = rel};
}
// abs + rel * |expected|.
static inline hlo_tolerance hlo_within(double abs, double rel) {
  return (hlo_tolerance){.abs = abs, .rel = rel, .sum = true};
}

// The row of tolerance.def for a type, with one unit in the last place of 1.
typedef struct hlo_type_tolerance {
  double near_abs, near_rel, function_ulps, function_abs, epsilon;
} hlo_type_tolerance;
hlo_type_tolerance hlo_tolerance_of(hlo_dtype);
// What two ways of computing the same may differ by unless the user says otherwise.
hlo_tolerance hlo_default_tolerance(hlo_dtype);
// The bounds for values of a type: those asked for, the type's where HLO_TYPES_OWN was.
hlo_tolerance hlo_tolerance_for(hlo_dtype, hlo_tolerance asked);
// The distance from v to the next number of a float type.
double hlo_unit_at(hlo_dtype, double v);
// THE rule, for one number of a float type: equal, both NaN, or finite and within the bounds. *abs
// and *rel (may be NULL) get the errors, infinite where a bound has no meaning.
bool hlo_close(hlo_dtype, double want, double got, hlo_tolerance, double *abs, double *rel);

enum {
  HLO_COMPARE_TOP = 5,         // mismatches kept in detail
  HLO_COMPARE_MAGNITUDES = 6,  // |x| below 1e-4, 1e-3, 1e-2, 0.1, 1, and the rest
  HLO_COMPARE_ERRORS = 5,      // errors of at least 1e-4, 1e-3, 1e-2, 0.1, 1
  HLO_COMPARE_ULPS = 8,        // apart by 0, 1, 2, up to 4, 16, 256, 65536, and more
  HLO_COMPARE_FIXES = 6,
};

// One element and how far off it is; of a complex one the values are those of the part further off,
// the errors those of the modulus. `ulp` counts the
// representable numbers from one value to the other; UINT64_MAX when one of them is no number. rel
// is infinite when zero was expected.
typedef struct hlo_mismatch {
  i64 at;
  double want, got, abs, rel;
  u64 ulp;
} hlo_mismatch;

// What comparing one array found. An element is a mismatch when its absolute error exceeds tol.abs
// and its relative error, by the expected value, exceeds tol.rel (complex numbers: by modulus);
// integers and pred must be equal.
// NaN equals NaN.
typedef struct hlo_comparison {
  char *path;  // "result", "result.0", ...; owned
  const hlo_shape *shape;
  hlo_tolerance tol;
  i64 elements, mismatches, nan_mismatches;
  // values beyond one bound, whether or not they are beyond the other
  i64 over_abs, over_rel;
  double max_abs, max_rel;  // largest finite errors, of all elements
  u64 max_ulp;              // among numbers
  u32 nfirst;
  hlo_mismatch first[HLO_COMPARE_TOP];  // in row-major order
  u32 ntop;
  hlo_mismatch top[HLO_COMPARE_TOP];  // by relative error, largest first
  // of the actual values
  i64 magnitudes[HLO_COMPARE_MAGNITUDES], magnitude_mismatches[HLO_COMPARE_MAGNITUDES];
  // of elements over the absolute bound; cumulative
  i64 rel_errors[HLO_COMPARE_ERRORS];
  // of elements over the relative bound; cumulative
  i64 abs_errors[HLO_COMPARE_ERRORS];
  i64 ulps[HLO_COMPARE_ULPS];
  // tolerances that would pass, none better than another in both
  u32 nfixes;
  hlo_tolerance fixes[HLO_COMPARE_FIXES];
} hlo_comparison;
typedef HS_VEC(hlo_comparison) hlo_comparisons;

// Vectors that are determined up to a factor of modulus 1: the eigenvectors and singular vectors of
// a leaf. `along` is the dimension that a vector lies in, -1: the leaf has none.
typedef struct hlo_phases {
  u32 n;             // leaves
  const i32 *along;  // per leaf, in order
} hlo_phases;

// Compares leaf by leaf. HS_GOOD whether or not values differ, then *out has one entry per array
// (its mismatches say whether it agrees); E_DIFFER when the shapes or dynamic sizes already do,
// E_ELIDED for a value printed as {...}, E_INTERRUPTED. *out is empty after an error.
hs_status hlo_compare_leaves(const hlo_literal *expected, const hlo_literal *actual, hlo_tolerance,
                             hlo_comparisons *out);
// The same, where vectors of `actual` (phases NULL: none) are first turned to those of `expected`.
hs_status hlo_compare_phases(const hlo_literal *expected, const hlo_literal *actual, hlo_tolerance,
                             const hlo_phases *, hlo_comparisons *out);
// Frees what hlo_compare_leaves gave.
void hlo_comparisons_free(hlo_comparisons *);
// The report on a leaf that differs, in lines: counts, worst and first elements, suggested
// tolerances; with detail also the histograms of magnitudes, errors and distances.
void hlo_comparison_print(hs_buf *, const hlo_comparison *, bool detail);
// The index of an element: "{1,0,3}".
void hlo_index_print(hs_buf *, const hlo_shape *, i64 at);
// Distance of two values of a float type in representable numbers, +0 and -0 being one; other
// types: their difference.
u64 hlo_ulp_distance(hlo_dtype, const void *a, const void *b);

// The rule as a status: E_DIFFER, one per leaf that differs, with its report as the note.
hs_status hlo_compare(const hlo_literal *expected, const hlo_literal *actual, hlo_tolerance);
hs_status hlo_compare_up_to(const hlo_literal *expected, const hlo_literal *actual, hlo_tolerance,
                            const hlo_phases *);
// The rule of NAME.expect files (expect.c). E_DIFFER says which output and sample.
hs_status hlo_compare_expect(const hlo_literal *actual, const char *expect_text, size_t n);

#endif
