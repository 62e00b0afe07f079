// fake_numbers.h — numbers in memory, of four types: 0 to 3 are f32, f64, c64, c128.
#ifndef FAKE_NUMBERS_H
#define FAKE_NUMBERS_H

#include <complex.h>

#include "core/base/base.h"

typedef double complex number;
static inline i64 size_of_number(int type) { return (i64[]){4, 8, 8, 16}[type]; }

static inline number get(int type, const void *p, i64 k) {
  const float *f = p;
  const double *d = p;
  switch (type) {
  case 0: return (double)f[k];
  case 1: return d[k];
  case 2: return (double)f[2 * k] + (double)f[2 * k + 1] * I;
  default: return d[2 * k] + d[2 * k + 1] * I;
  }
}

static inline void put(int type, void *p, i64 k, number v) {
  float *f = p;
  double *d = p;
  if (type == 0) f[k] = (float)creal(v);
  else if (type == 1) d[k] = creal(v);
  else if (type == 2) f[2 * k] = (float)creal(v), f[2 * k + 1] = (float)cimag(v);
  else d[2 * k] = creal(v), d[2 * k + 1] = cimag(v);
}

#endif
