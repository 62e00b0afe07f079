// svg.h: charts of measurements as SVG files that need nothing else: no script, no font of their
// own. Text in them comes from modules of strangers and is escaped here.
#ifndef VIZ_SVG_H
#define VIZ_SVG_H

#include "core/base/base.h"

// Text for SVG and HTML: cleaned of control characters, at most `max` bytes of it, then & < > " as
// entities.
void viz_svg_text(hs_buf *, const char *s, size_t n, size_t max);

// ---- flame.c ------------------------------------------------------------------------------------
// A leaf of a flame graph: its frames from the outermost in, and what it weighs.
typedef struct viz_flame_leaf {
  const char *const *frames;
  u32 nframes;
  double value;
  const char *note;  // shown with the value when pointed at; may be NULL
} viz_flame_leaf;
// An icicle of the leaves (Gregg, "The Flame Graph", 2016): a frame is as wide as what it holds,
// frames that follow each other with the same path are one. The order is the caller's: sorted by
// path, each path appears once. unit: "%.4g us" or the like for values. Frames narrower than a
// tenth of a pixel are left out; returns how many.
u32 viz_flame(const viz_flame_leaf *, u32 n, const char *title, const char *unit, hs_buf *out);

// ---- roofline.c ---------------------------------------------------------------------------------
typedef struct viz_roof {
  const char *name;
  double flops, bandwidth;  // one of them: operations per second, or bytes per second
} viz_roof;
// A kernel: operations per byte, operations per second, and how much of the time it takes (0..1).
typedef struct viz_roof_point {
  const char *name;
  double intensity, measured, estimated;  // 0 for none
  double share;
} viz_roof_point;
typedef struct viz_roofline {
  const char *title;
  const viz_roof *roofs;
  u32 nroofs;
  const viz_roof_point *points;  // the heaviest first
  u32 npoints;
} viz_roofline;
// On two logarithmic axes (Williams et al., 2009); measured points filled, estimated ones hollow.
void viz_roofline_svg(const viz_roofline *, hs_buf *out);
// The same with characters, width x height: a to z are the heaviest kernels, '.' others, where they
// were measured, else where they are estimated; '-' the highest peak, '/' the slowest memory.
void viz_roofline_text(const viz_roofline *, u32 width, u32 height, hs_buf *out);

#endif
