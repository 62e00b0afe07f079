// roofline.c: roofline charts. See svg.h.
//
// Both axes are logarithmic. The ranges hold every point and the ridge of every pair of roofs, in
// whole decades.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "viz/svg.h"

enum { W = 900, H = 560, LEFT = 80, RIGHT = 20, TOP = 40, BOTTOM = 50, MAX_TEXT = 120 };

// Decades: exponents of ten.
typedef struct axes {
  double x0, x1, y0, y1;
} axes;

static void hold(double v, double *lo, double *hi) {
  if (!(v > 0) || !isfinite(v)) return;
  *lo = fmin(*lo, floor(log10(v)));
  *hi = fmax(*hi, ceil(log10(v)));
}

// What the slowest memory and the highest peak allow at an intensity.
static double roof_at(const viz_roofline *r, double intensity) {
  double bandwidth = INFINITY, flops = 0;
  for (u32 k = 0; k < r->nroofs; k++) {
    if (r->roofs[k].bandwidth > 0) bandwidth = fmin(bandwidth, r->roofs[k].bandwidth);
    if (r->roofs[k].flops > 0) flops = fmax(flops, r->roofs[k].flops);
  }
  return fmin(flops > 0 ? flops : INFINITY, bandwidth * intensity);
}

static axes find_axes(const viz_roofline *r) {
  axes a = {-1, 2, 9, 10};
  for (u32 k = 0; k < r->npoints; k++) {
    hold(r->points[k].intensity, &a.x0, &a.x1);
    hold(r->points[k].measured, &a.y0, &a.y1);
    hold(r->points[k].estimated, &a.y0, &a.y1);
  }
  for (u32 k = 0; k < r->nroofs; k++) {
    hold(r->roofs[k].flops, &a.y0, &a.y1);
    for (u32 q = 0; q < r->nroofs; q++)
      if (r->roofs[k].flops > 0 && r->roofs[q].bandwidth > 0)
        hold(r->roofs[k].flops / r->roofs[q].bandwidth, &a.x0, &a.x1);
  }
  return a;
}

// A number at an axis: three digits, and never an exponent.
static const char *tick_text(char buf[32], double v) {
  int decimals = v > 0 && v < 100 ? HS_MIN(HS_MAX(2 - (int)floor(log10(v)), 0), 18) : 0;
  (void)snprintf(buf, 32, "%.*f", decimals, v);
  if (strchr(buf, '.')) {
    size_t n = strlen(buf);
    while (n && buf[n - 1] == '0') buf[--n] = 0;
    if (n && buf[n - 1] == '.') buf[n - 1] = 0;
  }
  return buf;
}

// ---- SVG ----------------------------------------------------------------------------------------
static double px(const axes *a, double v) {
  return LEFT + (W - LEFT - RIGHT) * (log10(v) - a->x0) / (a->x1 - a->x0);
}
static double py(const axes *a, double v) {
  return TOP + (H - TOP - BOTTOM) * (a->y1 - log10(v)) / (a->y1 - a->y0);
}

static void put_grid(const axes *a, hs_buf *b) {
  char t[32];
  for (double e = a->x0; e <= a->x1; e++)
    hs_buf_printf(b,
                  "<path d='M%.1f %dV%d' class='g'/><text x='%.1f' y='%d' "
                  "text-anchor='middle'>%s</text>\n",
                  px(a, pow(10, e)), TOP, H - BOTTOM, px(a, pow(10, e)), H - BOTTOM + 16,
                  tick_text(t, pow(10, e)));
  for (double e = a->y0; e <= a->y1; e++)
    hs_buf_printf(b,
                  "<path d='M%d %.1fH%d' class='g'/><text x='%d' y='%.1f' "
                  "text-anchor='end'>%s</text>\n",
                  LEFT, py(a, pow(10, e)), W - RIGHT, LEFT - 6, py(a, pow(10, e)) + 4,
                  tick_text(t, pow(10, e - 9)));
  hs_buf_printf(b,
                "<text x='%d' y='%d' text-anchor='middle'>operations per byte</text>\n"
                "<text x='16' y='%d' text-anchor='middle' "
                "transform='rotate(-90 16 %d)'>GFLOP/s</text>\n",
                (LEFT + W - RIGHT) / 2, H - 12, (TOP + H - BOTTOM) / 2, (TOP + H - BOTTOM) / 2);
}

// A roof from edge to edge; a bandwidth's ends where the highest of the peaks begins.
static void put_roof(const viz_roofline *r, const axes *a, const viz_roof *roof, hs_buf *b) {
  double x0 = pow(10, a->x0), x1 = pow(10, a->x1), y0, y1;
  if (roof->flops > 0) y0 = y1 = roof->flops;
  else {
    double top = 0;
    for (u32 k = 0; k < r->nroofs; k++) top = fmax(top, r->roofs[k].flops);
    if (top > 0) x1 = fmin(x1, top / roof->bandwidth);
    x0 = fmax(x0, pow(10, a->y0) / roof->bandwidth);
    y0 = x0 * roof->bandwidth, y1 = x1 * roof->bandwidth;
  }
  hs_buf_printf(b, "<path d='M%.1f %.1fL%.1f %.1f' class='r'/><text x='%.1f' y='%.1f'%s>",
                px(a, x0), py(a, y0), px(a, x1), py(a, y1),
                roof->flops > 0 ? px(a, x1) : px(a, x0) + 6, py(a, y0) - 6,
                roof->flops > 0 ? " text-anchor='end'" : "");
  viz_svg_text(b, roof->name, strlen(roof->name), MAX_TEXT);
  hs_buf_puts(b, "</text>\n");
}

static void put_mark(const viz_roofline *r, const axes *a, const viz_roof_point *p, bool measured,
                     hs_buf *b) {
  double y = measured ? p->measured : p->estimated;
  if (!(p->intensity > 0) || !(y > 0)) return;
  hs_buf_printf(b, "<circle cx='%.1f' cy='%.1f' r='%.1f' class='%c'><title>", px(a, p->intensity),
                py(a, y), 3 + 9 * sqrt(fmax(p->share, 0)), measured ? 'm' : 'e');
  viz_svg_text(b, p->name, strlen(p->name), MAX_TEXT);
  hs_buf_printf(
      b, ", %s: %.4g GFLOP/s, %.3g operations per byte, %.0f %% of the roof</title></circle>\n",
      measured ? "measured" : "estimated", y * 1e-9, p->intensity,
      100 * y / roof_at(r, p->intensity));
}

void viz_roofline_svg(const viz_roofline *r, hs_buf *b) {
  axes a = find_axes(r);
  hs_buf_printf(b,
                "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                "viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n"
                "<style>.g{stroke:#ddd}.r{stroke:#333;stroke-width:1.5}"
                ".m{fill:#c0392b;fill-opacity:.6}.e{fill:none;stroke:#2471a3}</style>\n"
                "<rect width='100%%' height='100%%' fill='white'/>\n<text x='%d' y='22' "
                "font-size='15'>",
                W, H, W, H, LEFT);
  viz_svg_text(b, r->title, strlen(r->title), MAX_TEXT);
  hs_buf_puts(b, "</text>\n");
  put_grid(&a, b);
  for (u32 k = 0; k < r->nroofs; k++) put_roof(r, &a, &r->roofs[k], b);
  for (u32 k = 0; k < r->npoints; k++) {
    put_mark(r, &a, &r->points[k], false, b);
    put_mark(r, &a, &r->points[k], true, b);
  }
  hs_buf_puts(b, "</svg>\n");
}

// ---- characters ---------------------------------------------------------------------------------
void viz_roofline_text(const viz_roofline *r, u32 width, u32 height, hs_buf *out) {
  axes a = find_axes(r);
  width = HS_MAX(width, 24u), height = HS_MAX(height, 6u);
  u32 w = width - 10;
  char *grid = hs_alloc((size_t)w * height);
  memset(grid, ' ', (size_t)w * height);
  double dx = (a.x1 - a.x0) / (w - 1), dy = (a.y1 - a.y0) / (height - 1);
  for (u32 x = 0; x < w; x++) {
    double i = pow(10, a.x0 + x * dx), roof = roof_at(r, i);
    if (!(roof > 0) || !isfinite(roof)) continue;
    double y = (a.y1 - log10(roof)) / dy;
    bool flat = roof_at(r, i * 1.01) <= roof;
    if (y >= 0 && y < height)
      grid[(size_t)(y + 0.5 < height ? y + 0.5 : y) * w + x] = flat ? '-' : '/';
  }
  for (u32 k = r->npoints; k-- > 0;) {  // the heaviest last, on top
    const viz_roof_point *p = &r->points[k];
    double rate = p->measured > 0 ? p->measured : p->estimated;
    if (!(p->intensity > 0) || !(rate > 0)) continue;
    double x = (log10(p->intensity) - a.x0) / dx, y = (a.y1 - log10(rate)) / dy;
    u32 col = (u32)HS_MIN(HS_MAX(x + 0.5, 0), w - 1),
        line = (u32)HS_MIN(HS_MAX(y + 0.5, 0), height - 1);
    grid[(size_t)line * w + col] = k < 26 ? (char)('a' + k) : '.';
  }
  for (u32 k = 0; k < height; k++) {
    char t[32];
    (void)tick_text(t, pow(10, a.y1 - k * dy - 9));
    hs_buf_printf(out, "%8s |%.*s\n", k % 3 == 0 ? t : "", (int)w, grid + (size_t)k * w);
  }
  hs_buf_printf(out, " GFLOP/s +");
  for (u32 k = 0; k < w; k++) hs_buf_putc(out, '-');
  char low[32], high[32];
  hs_buf_printf(out, "\n          %-*s%*s operations per byte\n", (int)w / 2,
                tick_text(low, pow(10, a.x0)), (int)w / 2 - 20, tick_text(high, pow(10, a.x1)));
  hs_free(grid);
}
