// picture.c: pictures of a bearable width. See viz.h.
//
// How wide Graphviz makes a graph is known when it has drawn it: as SVG, whatever is asked for, for
// pixels of a picture too wide take long, and too many are not drawn at all. One that is too wide
// is drawn again with less: first without the operands that fan out of one instruction and without
// the bodies of fusions, then with fewer instructions, so many that about the width asked for
// remains.
#include <stdlib.h>

#include "viz/explore_model.h"
#include "viz/view.h"
#include "viz/viz.h"

enum { MAX_TRIES = 8, LEAST_NODES = 6, FAN = 8 };

// The width in pixels of an SVG: its points, at 96 to the inch.
static u32 width_of(const char *p, size_t n) {
  const char *svg = n > 4 && p[0] == '<' ? strstr(p, "<svg width=\"") : NULL;
  double points = svg ? strtod(svg + 12, NULL) : 0;
  return points > 0 && points < 1e7 ? (u32)(points * 96 / 72) : 0;
}

static u32 drawn_nodes(const char *dot) {
  u32 n = 0;
  for (const char *p = dot; (p = strstr(p, " [label=")); p++) n++;
  return n;
}

hs_status viz_picture(viz_maker *make, void *arg, const viz_picture_options *o, hs_buf *out,
                      char **note) {
  viz_limits l = {.max_nodes = o->max_nodes};
  u32 first = 0, first_width = 0;
  const char *measured = o->max_width ? "svg" : o->format;
  double deadline = o->deadline_s > 0 ? o->deadline_s : 30;
  *note = NULL;
  for (u32 k = 0;; k++) {
    hs_buf dot = {0};
    char *said = NULL;
    u64 begin = hs_now_ns();
    hs_status s = make(arg, &l, &dot, &said);
    u32 nodes = hs_ok(s) ? drawn_nodes(hs_buf_cstr(&dot)) : 0;
    out->n = 0;
    if (hs_ok(s)) s = viz_run_dot(dot.p, dot.n, measured, deadline, out);
    deadline -= (double)(hs_now_ns() - begin) * 1e-9;
    u32 width = hs_ok(s) ? width_of(hs_buf_cstr(out), out->n) : 0;
    bool done =
        !o->max_width || width <= o->max_width || k + 1 == MAX_TRIES || nodes <= LEAST_NODES;
    if (hs_ok(s) && done && strcmp(measured, o->format) != 0) {
      out->n = 0;
      s = viz_run_dot(dot.p, dot.n, o->format, HS_MAX(deadline, 1), out);
    }
    hs_buf_free(&dot);
    if (!hs_ok(s)) {
      hs_free(said);
      return s;
    }
    if (!first) first = nodes, first_width = width;
    if (done) {
      if (k) {
        *note = hs_format("%s%sit would be %u pixels wide: %u of %u boxes are drawn; --wide draws "
                          "them all, explore has all of it to open",
                          said ? said : "", said ? "; " : "", first_width, nodes, first);
        hs_free(said);
      } else {
        *note = said;
      }
      return HS_GOOD;
    }
    hs_free(said);
    l.fan = FAN;
    double part = (double)o->max_width / width;
    if (k) l.max_nodes = (u32)(nodes * HS_MIN(HS_MAX(part, 0.25), 0.8));
    l.max_nodes = l.max_nodes ? HS_MAX(l.max_nodes, (u32)LEAST_NODES) : 0;
    if (deadline <= 0)
      return hs_with_note(
          hs_fail(HS_E_RENDER, "the picture was %u pixels wide, and there is no time to draw less",
                  width),
          "draw less (a width, a computation, --max-nodes), or --wide");
  }
}
