// graphics.c: a PNG as what a terminal understands. See graphics.h.
//
// kitty takes the file as it is, in base64, in pieces of 4096 letters. Sixels are drawn: bands of
// six lines, each band once for every colour in it, a letter for six pixels that stand above each
// other. Colours are those of a cube of 6 x 6 x 6, which is plenty for boxes and letters.
#include <stdlib.h>

#include "core/base/compress.h"
#include "viz/graphics.h"

enum { LEVELS = 6, COLORS = LEVELS * LEVELS * LEVELS, PIECE = 3072, MOST_SIDE = 20000 };

// ---- kitty --------------------------------------------------------------------------------------
static void put_base64(hs_buf *b, const u8 *p, size_t n) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t k = 0; k < n; k += 3) {
    u32 v = (u32)p[k] << 16 | (k + 1 < n ? (u32)p[k + 1] << 8 : 0) | (k + 2 < n ? p[k + 2] : 0);
    hs_buf_putc(b, letters[v >> 18]);
    hs_buf_putc(b, letters[v >> 12 & 63]);
    hs_buf_putc(b, k + 1 < n ? letters[v >> 6 & 63] : '=');
    hs_buf_putc(b, k + 2 < n ? letters[v & 63] : '=');
  }
}
static void put_kitty(hs_buf *b, const u8 *p, size_t n) {
  for (size_t at = 0; at < n; at += PIECE) {
    size_t k = HS_MIN(n - at, (size_t)PIECE);
    hs_buf_printf(b, "\033_G%sm=%d;", at ? "" : "a=T,f=100,q=2,", at + k < n);
    put_base64(b, p + at, k);
    hs_buf_puts(b, "\033\\");
  }
  hs_buf_putc(b, '\n');
}

// ---- PNG ----------------------------------------------------------------------------------------
typedef struct image {
  u32 w, h;
  u8 *color;  // by pixel: number in the cube; freed by the caller
} image;

static u32 big_endian(const u8 *p) {
  return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}
static hs_status not_ours(const char *why) {
  return hs_fail(HS_E_FORMAT, "the picture is a PNG that cannot be drawn here: %s", why);
}

static u8 paeth(int a, int b, int c) {
  int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
  return (u8)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}
// Undoes the filters of PNG (RFC 2083, 6): every line is told by its first byte.
static bool unfilter(u8 *p, u32 h, size_t line, size_t step) {
  static const u8 none[1 << 17];
  if (line > sizeof none) return false;
  const u8 *above = none;
  for (u32 y = 0; y < h; y++, p += line + 1) {
    u8 *q = p + 1;
    for (size_t x = 0; x < line; x++) {
      u8 a = x >= step ? q[x - step] : 0, b = above[x], c = x >= step ? above[x - step] : 0;
      switch (p[0]) {
      case 0: break;
      case 1: q[x] = (u8)(q[x] + a); break;
      case 2: q[x] = (u8)(q[x] + b); break;
      case 3: q[x] = (u8)(q[x] + (a + b) / 2); break;
      case 4: q[x] = (u8)(q[x] + paeth(a, b, c)); break;
      default: return false;
      }
    }
    above = q;
  }
  return true;
}

static u8 level(u32 v) { return (u8)((v * (LEVELS - 1) + 127) / 255); }
static u8 cube(const u8 *p, u32 channels) {
  u32 alpha = channels == 4 ? p[3] : 255, c[3];
  for (u32 k = 0; k < 3; k++) c[k] = (p[k] * alpha + 255 * (255 - alpha)) / 255;  // on white
  return (u8)((level(c[0]) * LEVELS + level(c[1])) * LEVELS + level(c[2]));
}

static hs_status read_png(const u8 *p, size_t n, image *out) {
  hs_buf packed = {0};
  if (n < 33 || memcmp(p, "\x89PNG\r\n\x1a\n", 8) != 0) return not_ours("no PNG");
  u32 w = big_endian(p + 16), h = big_endian(p + 20), channels = p[25] == 6 ? 4 : 3;
  if (p[24] != 8 || (p[25] != 2 && p[25] != 6) || p[28] != 0) return not_ours("its colours");
  if (!w || !h || w > MOST_SIDE || h > MOST_SIDE) return not_ours("its size");
  for (size_t at = 8; at + 12 <= n;) {
    u32 len = big_endian(p + at);
    if (len > n - at - 12) break;
    if (memcmp(p + at + 4, "IDAT", 4) == 0) hs_buf_put(&packed, (const char *)p + at + 8, len);
    at += 12 + (size_t)len;
  }
  size_t line = (size_t)w * channels, bytes = (line + 1) * h;
  u8 *raw = packed.n > 6 ? hs_try_alloc(bytes) : NULL;
  hs_status s = !raw ? not_ours("its data")
                     // zlib's two bytes in front and four behind
                     : hlo_inflate(packed.p + 2, packed.n - 6, raw, bytes, NULL, NULL);
  if (hs_ok(s) && !unfilter(raw, h, line, channels)) s = not_ours("its lines");
  *out = (image){w, h, hs_ok(s) ? hs_try_alloc((size_t)w * h) : NULL};
  if (hs_ok(s) && !out->color) s = not_ours("its size");
  for (u32 y = 0; hs_ok(s) && y < h; y++)
    for (u32 x = 0; x < w; x++)
      out->color[(size_t)y * w + x] =
          cube(raw + y * (line + 1) + 1 + (size_t)x * channels, channels);
  hs_free(raw);
  hs_buf_free(&packed);
  return s;
}

// ---- sixels -------------------------------------------------------------------------------------
static void put_run(hs_buf *b, u8 bits, u32 n) {
  char c = (char)(63 + bits);
  if (n > 3) hs_buf_printf(b, "!%u%c", n, c);
  else
    for (u32 k = 0; k < n; k++) hs_buf_putc(b, c);
}

static void put_band(hs_buf *b, const image *m, u32 top) {
  u32 rows = HS_MIN(m->h - top, 6u);
  bool used[COLORS] = {false}, first = true;
  for (size_t k = (size_t)top * m->w; k < (size_t)(top + rows) * m->w; k++)
    used[m->color[k]] = true;
  for (u32 c = 0; c < COLORS; c++) {
    if (!used[c]) continue;
    hs_buf_printf(b, "%s#%u", first ? "" : "$", c);
    first = false;
    u8 last = 0;
    u32 run = 0;
    for (u32 x = 0; x < m->w; x++) {
      u8 bits = 0;
      for (u32 y = 0; y < rows; y++)
        bits |= (u8)((m->color[(size_t)(top + y) * m->w + x] == c) << y);
      if (run && bits != last) put_run(b, last, run), run = 0;
      last = bits;
      run++;
    }
    if (last) put_run(b, last, run);
  }
  hs_buf_putc(b, '-');
}

static hs_status put_sixel(hs_buf *b, const u8 *p, size_t n) {
  image m = {0};
  hs_status s = read_png(p, n, &m);
  if (hs_ok(s)) {
    bool used[COLORS] = {false};
    for (size_t k = 0; k < (size_t)m.w * m.h; k++) used[m.color[k]] = true;
    hs_buf_printf(b, "\033P0;1q\"1;1;%u;%u", m.w, m.h);
    for (u32 c = 0; c < COLORS; c++)
      if (used[c])
        hs_buf_printf(b, "#%u;2;%u;%u;%u", c, c / (LEVELS * LEVELS) * 20, c / LEVELS % LEVELS * 20,
                      c % LEVELS * 20);
    for (u32 y = 0; y < m.h && hs_ok(s); y += 6) put_band(b, &m, y), s = hs_poll();
    hs_buf_puts(b, "\033\\\n");
  }
  hs_free(m.color);
  return s;
}

hs_status viz_graphics_put(viz_graphics g, const void *png, size_t n, hs_buf *out) {
  if (g == VIZ_SIXEL) return put_sixel(out, png, n);
  if (g == VIZ_KITTY) put_kitty(out, png, n);
  return hs_poll();
}
