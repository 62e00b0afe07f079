// cx.h — products of complex numbers in runtime kernels: the textbook formula. C's `*` looks for
// infinities in a NaN result and makes them up (annex G); XLA's code, the emitter's and the
// evaluator's do not.
#ifndef CPU_CX_H
#define CPU_CX_H

#include <complex.h>

static inline float complex cpu_times_c64(float complex a, float complex b) {
  union {
    float v[2];
    float complex z;
  } r = {{crealf(a) * crealf(b) - cimagf(a) * cimagf(b),
          crealf(a) * cimagf(b) + cimagf(a) * crealf(b)}};
  return r.z;
}
static inline double complex cpu_times_c128(double complex a, double complex b) {
  union {
    double v[2];
    double complex z;
  } r = {{creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b)}};
  return r.z;
}

#endif
