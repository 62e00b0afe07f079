// svg.c: text in SVG and HTML. See svg.h.
#include "viz/svg.h"

#include "core/base/visible.h"
#include "viz/explore_model.h"

#include "viz/view.h"

void viz_svg_text(hs_buf *b, const char *s, size_t n, size_t max) {
  hs_buf t = {0};
  viz_clean(&t, s, n, max);
  for (size_t k = 0; k < t.n; k++) switch (t.p[k]) {
    case '&': hs_buf_puts(b, "&amp;"); break;
    case '<': hs_buf_puts(b, "&lt;"); break;
    case '>': hs_buf_puts(b, "&gt;"); break;
    case '"': hs_buf_puts(b, "&quot;"); break;
    default: hs_buf_putc(b, t.p[k]);
    }
  hs_buf_free(&t);
}

void viz_json_text(hs_buf *b, const char *s, size_t n) {
  hs_buf t = {0};
  hs_buf_put_visible(&t, s, n, HS_ONE_LINE);
  hs_buf_putc(b, '"');
  for (size_t k = 0; k < t.n; k++) switch (t.p[k]) {
    case '"':
    case '\\': hs_buf_putc(b, '\\'), hs_buf_putc(b, t.p[k]); break;
    case '<': hs_buf_puts(b, "\\u003c"); break;
    case '>': hs_buf_puts(b, "\\u003e"); break;
    case '&': hs_buf_puts(b, "\\u0026"); break;
    default: hs_buf_putc(b, t.p[k]);
    }
  hs_buf_putc(b, '"');
  hs_buf_free(&t);
}
