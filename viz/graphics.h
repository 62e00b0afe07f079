// graphics.h: pictures in a terminal, by kitty's graphics protocol or as sixels.
#ifndef VIZ_GRAPHICS_H
#define VIZ_GRAPHICS_H

#include "core/base/diag.h"

typedef enum viz_graphics { VIZ_NO_GRAPHICS, VIZ_KITTY, VIZ_SIXEL } viz_graphics;

// ---- graphics_ask.c -----------------------------------------------------------------------------
// What the terminal at these descriptors shows: by its name where that says it (kitty, WezTerm,
// ghostty), else by its own answer to "what are you" (DA1, where 4 stands for sixels), for which it
// has 200 ms. Nothing when either is no terminal. What was typed ahead meanwhile is lost.
viz_graphics viz_graphics_of(int in, int out);
// The width of its window in pixels, from the size of its characters where it does not say; 0 when
// it is no terminal.
u32 viz_graphics_width(int out);

// ---- graphics.c ---------------------------------------------------------------------------------
// Appends a PNG picture (8 bits, not interlaced, as Graphviz writes them) as the sequences that
// make the terminal show it, and a line feed. E_FORMAT for another PNG, E_NOT_BUILT without zlib
// (sixels only); poll errors.
hs_status viz_graphics_put(viz_graphics, const void *png, size_t n, hs_buf *out);

#endif
