// memory_map.c — the picture of a memory plan as SVG, written directly: its places are known, so
// no layout program is needed. See memory_map.h.
#include "viz/memory_map.h"

#include "viz/svg.h"

#include <stdlib.h>
#include <string.h>

enum { WIDE = 1000, MAP = 420, LIVE = 120, LEFT = 90, TOP = 30, GAP = 30 };

static void put_text(const char *text, hs_buf *out) {
  viz_svg_text(out, text, strlen(text), VIZ_MEMORY_LABEL);
}

static double area(const viz_memory_box *b) {
  return (double)b->bytes * (double)(b->last - b->first + 1);
}
static int by_area(const void *x, const void *y) {
  const viz_memory_box *const *a = x, *const *b = y;
  double d = area(*b) - area(*a);
  return d > 0 ? 1 : d < 0 ? -1 : *a < *b ? -1 : *a > *b;
}

static double x_of(const viz_memory_map *m, i64 step) {
  return LEFT + (double)step * WIDE / (double)HS_MAX(m->steps, (i64)1);
}
static double y_of(const viz_memory_map *m, i64 bytes) {
  return TOP + MAP - (double)bytes * MAP / (double)HS_MAX(m->bytes, (i64)1);
}

static void put_box(const viz_memory_map *m, const viz_memory_box *b, hs_buf *out) {
  static const char *const fill[] = {"#8dd3c7", "#bebada", "#fdb462", "#b3de69",
                                     "#fccde5", "#80b1d3", "#ffffb3", "#fb8072"};
  u64 hash = hs_hash_bytes(b->label, strlen(b->label), 0);
  double x = x_of(m, b->first), wide = x_of(m, b->last + 1) - x, y = y_of(m, b->from + b->bytes);
  double high = y_of(m, b->from) - y;
  hs_buf_printf(out,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
                "stroke=\"#555\" stroke-width=\"0.5\"><title>",
                x, y, wide, high, fill[hash % HS_COUNT(fill)]);
  put_text(b->label, out);
  hs_buf_puts(out, "</title></rect>\n");
  if (high < 12 || wide < 7.0 * (double)strlen(b->label)) return;
  hs_buf_printf(out, "<text x=\"%.2f\" y=\"%.2f\" pointer-events=\"none\">", x + 3,
                y + high / 2 + 4);
  put_text(b->label, out);
  hs_buf_puts(out, "</text>\n");
}

// The line of live bytes, a point per column of the picture at most.
static void put_live(const viz_memory_map *m, hs_buf *out) {
  double base = TOP + MAP + GAP + LIVE;
  hs_buf_printf(out, "<polygon fill=\"#80b1d3\" points=\"%d,%.2f", LEFT, base);
  i64 columns = HS_MIN(m->steps, (i64)WIDE);
  for (i64 x = 0; x < columns; x++) {
    i64 from = x * m->steps / columns, to = (x + 1) * m->steps / columns, most = 0;
    for (i64 t = from; t < to; t++) most = HS_MAX(most, m->live[t]);
    double y = base - (double)most * LIVE / (double)HS_MAX(m->bytes, (i64)1);
    hs_buf_printf(out, " %.2f,%.2f %.2f,%.2f", x_of(m, from), y, x_of(m, to), y);
  }
  hs_buf_printf(out, " %d,%.2f\"/>\n", LEFT + WIDE, base);
  hs_buf_printf(out, "<text x=\"%d\" y=\"%.2f\">live bytes, by step (0 to %lld)</text>\n", LEFT,
                base + 16, (long long)m->steps);
}

void viz_memory_svg(const viz_memory_map *m, hs_buf *out) {
  int high = TOP + MAP + GAP + LIVE + 30;
  hs_buf_printf(out,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
                "xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
                "%d\" font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%%\" "
                "height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"18\" font-size=\"13\">",
                LEFT + WIDE + 20, high, LEFT + WIDE + 20, high, LEFT);
  put_text(m->title, out);
  hs_buf_puts(out, "</text>\n");
  const viz_memory_box **boxes = hs_alloc(((size_t)m->nboxes + 1) * sizeof(*boxes));
  for (u32 k = 0; k < m->nboxes; k++) boxes[k] = &m->boxes[k];
  if (m->nboxes) qsort(boxes, m->nboxes, sizeof(*boxes), by_area);
  u32 n = HS_MIN(m->nboxes, VIZ_MEMORY_BOXES);
  for (u32 k = 0; k < n; k++) put_box(m, boxes[k], out);
  hs_free(boxes);
  if (n < m->nboxes)
    hs_buf_printf(out, "<text x=\"%d\" y=\"%d\">the %u largest of %u buffers</text>\n",
                  LEFT + WIDE - 240, 18, n, m->nboxes);
  for (int k = 0; k <= 4; k++) {
    i64 at = m->bytes / 4 * k;
    hs_buf_printf(out, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">%lld</text>\n", LEFT - 5,
                  y_of(m, at) + 4, (long long)at);
  }
  if (m->steps > 0) {
    double x = (x_of(m, m->peak_step) + x_of(m, m->peak_step + 1)) / 2;
    hs_buf_printf(out,
                  "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%d\" stroke=\"red\" "
                  "stroke-dasharray=\"4 3\"><title>peak, step %lld</title></line>\n",
                  x, x, TOP, TOP + MAP + GAP + LIVE, (long long)m->peak_step);
    put_live(m, out);
  }
  hs_buf_puts(out, "</svg>\n");
}
