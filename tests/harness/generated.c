// generated.c — do two results of a random module (tests/random) agree? By the tolerances that
// the generator worked out.
#include "tests/harness/generated.h"

#include <math.h>
#include <stdio.h>

static bool generated_close(double want, double got, double tolerance, double eps) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (want == got) return true;
  return fabs(want - got) <= 4 * tolerance + 16 * eps * fabs(want);
}

// Index of the first element that differs, or -1; parts of complex numbers are elements of their
// own.
static i64 generated_difference(const hlo_literal *want, const hlo_literal *got, double tolerance,
                                double *a, double *b) {
  hlo_dtype t = want->shape->dtype, part = hlo_dtype_real_part(t);
  bool floating = hlo_dtype_is_float(t) || hlo_dtype_is_complex(t);
  size_t w = hlo_dtype_storage(part);
  if (want->bytes != got->bytes) return 0;
  if (!floating) {
    for (size_t k = 0; k < want->bytes; k++)
      if (((const char *)want->data)[k] != ((const char *)got->data)[k]) {
        i64 at = (i64)(k / w);
        *a = hlo_literal_f64(want, at);
        *b = hlo_literal_f64(got, at);
        return at;
      }
    return -1;
  }
  for (size_t k = 0; k < want->bytes / w; k++) {
    *a = hlo_elem_to_f64(part, (const char *)want->data + k * w);
    *b = hlo_elem_to_f64(part, (const char *)got->data + k * w);
    if (!generated_close(*a, *b, tolerance, tolerance > 0 ? gen_eps(t) : 0)) return (i64)k;
  }
  return -1;
}

// False: `why` (200 bytes) says where they differ first, *output (may be NULL) in which result.
bool generated_agrees(const gen_module *g, const hlo_literal *want, const hlo_literal *got,
                      u32 *output, char *why) {
  if (output) *output = 0;
  if (want->nchildren != g->nouts || got->nchildren != g->nouts)
    return snprintf(why, 200, "number of results"), false;
  for (u32 k = 0; k < g->nouts; k++) {
    double a = 0, b = 0;
    i64 at = generated_difference(want->children[k], got->children[k], g->tolerance[k], &a, &b);
    if (at < 0) continue;
    if (output) *output = k;
    snprintf(why, 200, "output %u element %lld: %.17g, the reference has %.17g, tolerance %.3g", k,
             (long long)at, b, a, g->tolerance[k]);
    return false;
  }
  return true;
}
