// viz.h — pictures of HLO: a pure writer (module -> DOT text) and a renderer (Graphviz in a child
// with a deadline).
#ifndef VIZ_VIZ_H
#define VIZ_VIZ_H

#include "core/ir/ir.h"

typedef struct viz_options {
  const hlo_instr *center;      // neighbourhood of this instruction; NULL: a whole computation
  const hlo_computation *comp;  // with center NULL: this one; NULL: the entry
  // distance of the neighbourhood (interactive_graphviz: default 2)
  u32 width;
  const hlo_instr *const *boundary;
  u32 nboundary;  // not crossed
  // 0: default limit; beyond it the view is collapsed and *note says so
  u32 max_nodes;
  bool show_fusions;  // draw the bodies of fusions as clusters
  bool show_layouts, show_metadata;
  // per instruction id, 0..1, or NULL: coloured by cost instead of by kind
  const double *heat;
} viz_options;
// Writes a DOT graph with XLA's colours. *note (malloc'ed, may be NULL) says what was left out.
hs_status viz_dot(const hlo_module *, const viz_options *, hs_buf *out, char **note);
// Renders DOT to a file; the format is the extension (.svg .png .pdf .html .dot). Runs `dot` in a
// child, deadline in seconds. E_RENDER when Graphviz is missing, fails or is too slow; E_IO when
// the disk is full (no half file is left behind).
hs_status viz_render(const char *dot, size_t n, const char *path, double deadline_s);
// Terminal drawing of a neighbourhood (`show`): one line per node, operands above, users below.
hs_status viz_terminal(const hlo_module *, const viz_options *, bool color, hs_buf *out);
// Whether the program `dot` is on PATH.
bool viz_have_graphviz(void);

#endif
