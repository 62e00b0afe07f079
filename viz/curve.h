// curve.h: several quantities over a size, as a chart of two logarithmic axes.
#ifndef VIZ_CURVE_H
#define VIZ_CURVE_H

#include "core/base/base.h"

typedef struct viz_curve_series {
  const char *name;
  char mark;                     // in the terminal
  const double *y, *low, *high;  // one per x; not above 0: none there. low, high: NULL, or bounds
} viz_curve_series;

typedef struct viz_curve {
  const char *title, *x_name, *y_name;
  const double *x;  // ascending, above 0
  u32 n;
  const viz_curve_series *series;
  u32 nseries;
  const char *(*y_text)(char buf[32], double);  // how a value is written
} viz_curve;

void viz_curve_svg(const viz_curve *, hs_buf *out);
// With characters, width x height; '*' where marks meet.
void viz_curve_text(const viz_curve *, u32 width, u32 height, hs_buf *out);

#endif
