// curve.c: charts of quantities over a size. See curve.h. Ranges are those of the values; ticks
// stand at the sizes themselves, and at 1, 2 and 5 times powers of ten.
#include "viz/curve.h"

#include <math.h>
#include <stdio.h>

#include "viz/svg.h"

enum { W = 900, H = 520, LEFT = 90, RIGHT = 130, TOP = 40, BOTTOM = 50, MAX_TEXT = 120 };
static const char *const colours[] = {"#c0392b", "#2471a3", "#1e8449", "#7d3c98", "#b7950b"};

typedef struct range {
  double lo, hi;  // logarithms
} range;

static void hold(double v, range *r) {
  if (!(v > 0) || !isfinite(v)) return;
  r->lo = fmin(r->lo, log10(v)), r->hi = fmax(r->hi, log10(v));
}

// Never empty.
static range widen(range r) {
  if (!(r.lo <= r.hi)) return (range){0, 1};
  double room = fmax(0.05 * (r.hi - r.lo), 0.05);
  return (range){r.lo - room, r.hi + room};
}

static void find_ranges(const viz_curve *c, range *x, range *y) {
  range a = {INFINITY, -INFINITY}, b = a;
  for (u32 k = 0; k < c->n; k++) hold(c->x[k], &a);
  for (u32 s = 0; s < c->nseries; s++)
    for (u32 k = 0; k < c->n; k++) {
      hold(c->series[s].y[k], &b);
      if (c->series[s].low) hold(c->series[s].low[k], &b), hold(c->series[s].high[k], &b);
    }
  *x = widen(a), *y = widen(b);
}

static double at(range r, double v) { return (log10(v) - r.lo) / (r.hi - r.lo); }

// ---- SVG ----------------------------------------------------------------------------------------
static double px(range r, double v) { return LEFT + (W - LEFT - RIGHT) * at(r, v); }
static double py(range r, double v) { return TOP + (H - TOP - BOTTOM) * (1 - at(r, v)); }

static void put_grid(const viz_curve *c, range x, range y, hs_buf *b) {
  u32 step = (c->n + 15) / 16;
  for (u32 k = 0; k < c->n; k += step)
    hs_buf_printf(b,
                  "<path d='M%.1f %dV%d' class='g'/><text x='%.1f' y='%d' "
                  "text-anchor='middle'>%.10g</text>\n",
                  px(x, c->x[k]), TOP, H - BOTTOM, px(x, c->x[k]), H - BOTTOM + 16, c->x[k]);
  for (double e = floor(y.lo); e <= y.hi; e++)
    for (u32 k = 0; k < 3; k++) {
      double v = pow(10, e) * (double[]){1, 2, 5}[k];
      char text[32];
      if (log10(v) < y.lo || log10(v) > y.hi || (k && y.hi - y.lo > 3)) continue;
      hs_buf_printf(b,
                    "<path d='M%d %.1fH%d' class='g'/><text x='%d' y='%.1f' "
                    "text-anchor='end'>%s</text>\n",
                    LEFT, py(y, v), W - RIGHT, LEFT - 6, py(y, v) + 4, c->y_text(text, v));
    }
}

static void put_series(const viz_curve *c, u32 s, range x, range y, hs_buf *b) {
  const viz_curve_series *v = &c->series[s];
  const char *colour = colours[s % HS_COUNT(colours)];
  u32 last = 0;
  bool any = false;
  hs_buf_printf(b, "<path fill='none' stroke='%s' stroke-width='1.5' d='", colour);
  for (u32 k = 0; k < c->n; k++) {
    if (!(v->y[k] > 0)) continue;
    hs_buf_printf(b, "%c%.1f %.1f", any ? 'L' : 'M', px(x, c->x[k]), py(y, v->y[k]));
    any = true, last = k;
  }
  hs_buf_puts(b, "'/>\n");
  for (u32 k = 0; k < c->n; k++) {
    if (!(v->y[k] > 0)) continue;
    char text[32];
    if (v->low && v->low[k] > 0)
      hs_buf_printf(b, "<path stroke='%s' d='M%.1f %.1fV%.1f'/>", colour, px(x, c->x[k]),
                    py(y, v->low[k]), py(y, v->high[k]));
    hs_buf_printf(b,
                  "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'><title>%.10g: %s</title></circle>\n",
                  px(x, c->x[k]), py(y, v->y[k]), colour, c->x[k], c->y_text(text, v->y[k]));
  }
  if (!any) return;
  hs_buf_printf(b, "<text x='%.1f' y='%.1f' fill='%s'>", px(x, c->x[last]) + 8,
                py(y, v->y[last]) + 4, colour);
  viz_svg_text(b, v->name, strlen(v->name), MAX_TEXT);
  hs_buf_puts(b, "</text>\n");
}

void viz_curve_svg(const viz_curve *c, hs_buf *b) {
  range x, y;
  find_ranges(c, &x, &y);
  hs_buf_printf(b,
                "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                "viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n"
                "<style>.g{stroke:#ddd}</style>\n<rect width='100%%' height='100%%' "
                "fill='white'/>\n<text x='%d' y='22' font-size='15'>",
                W, H, W, H, LEFT);
  viz_svg_text(b, c->title, strlen(c->title), MAX_TEXT);
  hs_buf_puts(b, "</text>\n");
  put_grid(c, x, y, b);
  hs_buf_printf(b, "<text x='%d' y='%d' text-anchor='middle'>", (LEFT + W - RIGHT) / 2, H - 12);
  viz_svg_text(b, c->x_name, strlen(c->x_name), MAX_TEXT);
  hs_buf_printf(b,
                "</text>\n<text x='16' y='%d' text-anchor='middle' transform='rotate(-90 16 %d)'>",
                (TOP + H - BOTTOM) / 2, (TOP + H - BOTTOM) / 2);
  viz_svg_text(b, c->y_name, strlen(c->y_name), MAX_TEXT);
  hs_buf_puts(b, "</text>\n");
  for (u32 s = 0; s < c->nseries; s++) put_series(c, s, x, y, b);
  hs_buf_puts(b, "</svg>\n");
}

// ---- characters ---------------------------------------------------------------------------------
static u32 cell(double part, u32 n) {
  double v = part * (n - 1) + 0.5;
  return (u32)HS_MIN(HS_MAX(v, 0), (double)(n - 1));
}

void viz_curve_text(const viz_curve *c, u32 width, u32 height, hs_buf *out) {
  range x, y;
  find_ranges(c, &x, &y);
  width = HS_MAX(width, 30u), height = HS_MAX(height, 6u);
  u32 w = width - 12;
  char *grid = hs_alloc((size_t)w * height);
  memset(grid, ' ', (size_t)w * height);
  for (u32 s = c->nseries; s-- > 0;)
    for (u32 k = 0; k < c->n; k++) {
      if (!(c->series[s].y[k] > 0)) continue;
      u32 col = cell(at(x, c->x[k]), w), line = height - 1 - cell(at(y, c->series[s].y[k]), height);
      char *mark = &grid[(size_t)line * w + col];
      *mark = *mark == ' ' ? c->series[s].mark : '*';
    }
  for (u32 k = 0; k < height; k++) {
    char text[32] = "";
    double part = 1 - (double)k / (height - 1);
    if (k % 3 == 0) c->y_text(text, pow(10, y.lo + part * (y.hi - y.lo)));
    u32 n = w;
    while (n && grid[(size_t)k * w + n - 1] == ' ') n--;
    hs_buf_printf(out, "%10s |%.*s\n", text, (int)n, grid + (size_t)k * w);
  }
  hs_buf_printf(out, "%10s +", "");
  for (u32 k = 0; k < w; k++) hs_buf_putc(out, '-');
  hs_buf_printf(out, "\n%12s%-*.10g%*.10g %s\n%12s", "", (int)w / 2, c->x[0], (int)w / 2 - 10,
                c->x[c->n - 1], c->x_name, "");
  for (u32 s = 0; s < c->nseries; s++)
    hs_buf_printf(out, "%s%c: %s", s ? "  " : "", c->series[s].mark, c->series[s].name);
  hs_buf_puts(out, memchr(grid, '*', (size_t)w * height) ? "  *: several\n" : "\n");
  hs_free(grid);
}
