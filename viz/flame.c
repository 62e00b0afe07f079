// flame.c: flame graphs. See svg.h.
//
// Level by level: at depth d, neighbours whose first d + 1 frames are equal are one rectangle. That
// needs no tree, and a leaf is looked at once per level of its own.
#include <math.h>
#include <string.h>

#include "viz/svg.h"

enum { WIDTH = 1200, ROW = 18, TOP = 28, MOST_DEPTH = 200, MAX_TEXT = 200 };
static const double char_width = 6.6;  // of the 11 px monospaced font

// Warm colours, equal for equal names.
static void put_color(hs_buf *b, const char *name) {
  u64 h = hs_hash_bytes(name, strlen(name), 0);
  hs_buf_printf(b, "#%02x%02x%02x", 205 + (int)(h % 50), 90 + (int)(h / 50 % 120),
                40 + (int)(h / 6000 % 50));
}

static bool same_path(const viz_flame_leaf *a, const viz_flame_leaf *b, u32 depth) {
  if (a->nframes <= depth || b->nframes <= depth) return false;
  for (u32 k = 0; k <= depth; k++)
    if (strcmp(a->frames[k], b->frames[k]) != 0) return false;
  return true;
}

typedef struct flame {
  const char *unit;
  double total;
  hs_buf *out;
} flame;

static void put_frame(const flame *f, const viz_flame_leaf *leaf, u32 depth, double from,
                      double value) {
  hs_buf *b = f->out;
  const char *name = leaf->frames[depth];
  double x = WIDTH * from / f->total, w = WIDTH * value / f->total;
  u32 y = TOP + ROW * (depth + 1);
  hs_buf_puts(b, "<g><title>");
  viz_svg_text(b, name, strlen(name), MAX_TEXT);
  hs_buf_puts(b, ": ");
  hs_buf_printf(b, f->unit, value);
  hs_buf_printf(b, ", %.2f %%", 100 * value / f->total);
  if (leaf->note && depth + 1 == leaf->nframes) {
    hs_buf_puts(b, ", ");
    viz_svg_text(b, leaf->note, strlen(leaf->note), MAX_TEXT);
  }
  hs_buf_printf(b, "</title><rect x='%.2f' y='%u' width='%.2f' height='%d' rx='1' fill='", x, y,
                fmax(w - 0.4, 0.1), ROW - 1);
  put_color(b, name);
  hs_buf_puts(b, "'/>");
  size_t fits = (size_t)fmax((w - 6) / char_width, 0);
  if (fits >= 3) {
    hs_buf_printf(b, "<text x='%.2f' y='%u'>", x + 3, y + 13);
    viz_svg_text(b, name, strlen(name), fits);
    hs_buf_puts(b, "</text>");
  }
  hs_buf_puts(b, "</g>\n");
}

u32 viz_flame(const viz_flame_leaf *v, u32 n, const char *title, const char *unit, hs_buf *out) {
  flame f = {.unit = unit, .out = out};
  u32 depths = 0, left_out = 0;
  for (u32 k = 0; k < n; k++) {
    f.total += v[k].value;
    depths = HS_MAX(depths, HS_MIN(v[k].nframes, (u32)MOST_DEPTH));
  }
  u32 height = TOP + ROW * (depths + 2);
  hs_buf_printf(out,
                "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%u' "
                "viewBox='0 0 %d %u' font-family='monospace' font-size='11'>\n"
                "<rect width='100%%' height='100%%' fill='#fffdf5'/>\n<text x='4' y='18' "
                "font-size='14'>",
                WIDTH, height, WIDTH, height);
  viz_svg_text(out, title, strlen(title), MAX_TEXT);
  hs_buf_puts(out, ", ");
  hs_buf_printf(out, unit, f.total);
  hs_buf_puts(out, "</text>\n");
  for (u32 depth = 0; depth < depths && f.total > 0; depth++) {
    double at = 0;
    for (u32 k = 0, e; k < n; k = e) {
      double value = v[k].value;
      for (e = k + 1; e < n && same_path(&v[k], &v[e], depth); e++) value += v[e].value;
      if (v[k].nframes > depth) {
        if (value / f.total * WIDTH >= 0.1) put_frame(&f, &v[k], depth, at, value);
        else left_out++;
      }
      at += value;
    }
  }
  hs_buf_puts(out, "</svg>\n");
  return left_out;
}
