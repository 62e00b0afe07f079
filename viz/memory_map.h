// memory_map.h — a picture of a memory plan: time to the right, addresses upwards, a box for each
// buffer, and below it the bytes that are live.
#ifndef VIZ_MEMORY_MAP_H
#define VIZ_MEMORY_MAP_H

#include "core/base/base.h"

typedef struct viz_memory_box {
  i64 first, last;  // steps, both included
  i64 from, bytes;
  const char *label;  // shown when the pointer rests on it, and inside where it fits
} viz_memory_box;

typedef struct viz_memory_map {
  const char *title;
  i64 steps, bytes;  // extent of the picture
  i64 peak_step;
  const i64 *live;  // per step
  u32 nboxes;
  const viz_memory_box *boxes;
} viz_memory_map;
// At most this many boxes are drawn, the largest (bytes times steps) of them.
#define VIZ_MEMORY_BOXES 5000u
// Appends a whole SVG document. Labels may hold any bytes, of which so many are drawn.
#define VIZ_MEMORY_LABEL 4096u
void viz_memory_svg(const viz_memory_map *, hs_buf *out);

#endif
