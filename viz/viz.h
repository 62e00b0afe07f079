// viz.h — pictures of HLO: a pure writer (module -> DOT text) and a renderer (Graphviz in a child
// with a deadline).
#ifndef VIZ_VIZ_H
#define VIZ_VIZ_H

#include "core/diff/graph_diff.h"

typedef struct viz_options {
  const hlo_instr *center;      // neighbourhood of this instruction; NULL: a whole computation
  const hlo_computation *comp;  // with center NULL: this one; NULL: the entry
  // distance of the neighbourhood (interactive_graphviz: default 2)
  u32 width;
  const hlo_instr *const *boundary;
  u32 nboundary;  // not crossed
  // 0: default limit; beyond it the view is collapsed and *note says so
  u32 max_nodes;
  u32 max_fan;        // operands of one instruction that are drawn; 0: all
  bool show_fusions;  // draw the bodies of fusions as clusters
  bool show_layouts, show_metadata;
  // per instruction id, 0..1, or NULL: coloured by cost instead of by kind
  const double *heat;
} viz_options;
// Writes a DOT graph with XLA's colours. *note (malloc'ed, may be NULL) says what was left out.
hs_status viz_dot(const hlo_module *, const viz_options *, hs_buf *out, char **note);
// What differs between two versions and what it is connected with, coloured as `diff` does; from,
// to: their names. At most max_nodes (0: the default) instructions. *note as above.
hs_status viz_diff_dot(const hlo_graph_diff *, const char *from, const char *to, u32 max_nodes,
                       hs_buf *out, char **note);

// Renders DOT to a file; the format is the extension (.svg .png .pdf .dot). Runs `dot` in a child,
// deadline in seconds. E_RENDER when Graphviz is missing, fails or is too slow; E_IO when the disk
// is full (no half file is left behind).
hs_status viz_render(const char *dot, size_t n, const char *path, double deadline_s);

// ---- picture.c ----------------------------------------------------------------------------------
// What a graph may hold at most, 0: the default.
typedef struct viz_limits {
  u32 max_nodes, fan;
} viz_limits;
// Writes a DOT graph within the limits; *note as of viz_dot.
typedef hs_status viz_maker(void *arg, const viz_limits *, hs_buf *dot, char **note);
typedef struct viz_picture_options {
  const char *format;  // of Graphviz: svg, png, gd, ...
  u32 max_nodes;
  u32 max_width;  // pixels; 0: any
  double deadline_s;
} viz_picture_options;
// The picture of a graph, drawn with less and less until it is narrow enough. *note (malloc'ed, may
// be NULL) says what was left out. Errors as of viz_render.
hs_status viz_picture(viz_maker *, void *arg, const viz_picture_options *, hs_buf *out,
                      char **note);
// The format of a picture by its file's extension ("svg"), NULL when it is none.
const char *viz_format_of(const char *path);
// Terminal drawing of a neighbourhood (`show`): one line per node, operands above, users below.
hs_status viz_terminal(const hlo_module *, const viz_options *, bool color, hs_buf *out);
// Whether the program `dot` is on PATH.
bool viz_have_graphviz(void);

#endif
