// visible.c — spelling out what must not reach a terminal. See visible.h.
//
// Text is almost always printable ASCII: the loop looks for the end of such a run, copies the run
// whole, and looks closer only there. What counts as hidden is a table of ranges, from the Unicode
// Character Database: general categories Cc, Zl and Zp, and of Cf what changes the order of the
// text or has no width.
#include "core/base/visible.h"

size_t hs_utf8_char(const char *text, size_t n, u32 *code) {
  const u8 *p = (const u8 *)text;
  *code = p[0];
  if (p[0] < 0x80) return 1;
  size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
  if (p[0] < 0xC2 || p[0] > 0xF4 || len > n) return 0;
  *code = p[0] & (0x7Fu >> len);
  for (size_t k = 1; k < len; k++) {
    if ((p[k] & 0xC0) != 0x80) return 0;
    *code = *code << 6 | (p[k] & 0x3Fu);
  }
  if (len == 3 && (*code < 0x800 || (*code >= 0xD800 && *code < 0xE000))) return 0;
  if (len == 4 && (*code < 0x10000 || *code > 0x10FFFF)) return 0;
  return len;
}

bool hs_hidden(u32 code) {
  static const struct {
    u32 first, last;
  } ranges[] = {
      {0x0080, 0x009F},    // C1 controls
      {0x00AD, 0x00AD},    // soft hyphen
      {0x034F, 0x034F},    // combining grapheme joiner
      {0x061C, 0x061C},    // Arabic letter mark
      {0x115F, 0x1160},    // Hangul fillers
      {0x17B4, 0x17B5},    // Khmer inherent vowels
      {0x180B, 0x180F},    // Mongolian variation selectors, vowel separator
      {0x200B, 0x200F},    // zero width space and joiners, marks of direction
      {0x2028, 0x202E},    // line and paragraph separators, embeddings and overrides
      {0x2060, 0x206F},    // word joiner, invisible operators, isolates
      {0x3164, 0x3164},    // Hangul filler
      {0xFE00, 0xFE0F},    // variation selectors
      {0xFEFF, 0xFEFF},    // byte order mark
      {0xFFA0, 0xFFA0},    // halfwidth Hangul filler
      {0xFFF0, 0xFFFB},    // interlinear annotation
      {0xFFFE, 0xFFFF},    // no characters
      {0x1BCA0, 0x1BCA3},  // shorthand format controls
      {0x1D173, 0x1D17A},  // musical format controls
      {0xE0000, 0xE0FFF},  // tags, further variation selectors
  };
  for (size_t k = 0; k < HS_COUNT(ranges) && code >= ranges[k].first; k++)
    if (code <= ranges[k].last) return true;
  return false;
}

// Bytes at p of a sequence that sets colours; 0: it is another one.
static size_t paint_bytes(const char *p, size_t n) {
  size_t k = 2;
  if (n < 3 || p[1] != '[') return 0;
  while (k < n && k < 32 && ((p[k] >= '0' && p[k] <= '9') || p[k] == ';')) k++;
  return k < n && p[k] == 'm' ? k + 1 : 0;
}

// How many bytes at p may be shown as they are; 0: the first character is to be spelled out.
static size_t plain_bytes(const char *p, size_t n, hs_visible_form form) {
  size_t k = 0;
  while (k < n) {
    u8 c = (u8)p[k];
    if (c >= 0x20 && c < 0x7F) {
      k++;
      continue;
    }
    size_t len = 0;
    u32 code;
    if (c == '\n' || c == '\t') len = form != HS_ONE_LINE;
    else if (c == 0x1B) len = form == HS_PAINTED ? paint_bytes(p + k, n - k) : 0;
    else if (c >= 0x80 && (len = hs_utf8_char(p + k, n - k, &code)) != 0 && hs_hidden(code))
      len = 0;
    if (!len) break;
    k += len;
  }
  return k;
}

void hs_buf_put_visible(hs_buf *b, const char *p, size_t n, hs_visible_form form) {
  for (size_t k = 0; k < n;) {
    size_t run = plain_bytes(p + k, n - k, form);
    hs_buf_put(b, p + k, run);
    k += run;
    if (k == n) break;
    u32 code;
    size_t len = hs_utf8_char(p + k, n - k, &code);
    if (len < 2) hs_buf_printf(b, "\\x%02x", (u8)p[k]);
    else hs_buf_printf(b, code > 0xFFFF ? "\\U%08x" : "\\u%04x", code);
    k += len ? len : 1;
  }
}

void hs_buf_make_visible(hs_buf *b, size_t from, hs_visible_form form) {
  if (from >= b->n) return;
  size_t plain = plain_bytes(b->p + from, b->n - from, form);
  if (plain == b->n - from) return;
  hs_buf rest = {0};
  hs_buf_put_visible(&rest, b->p + from + plain, b->n - from - plain, form);
  b->n = from + plain;
  hs_buf_put(b, rest.p, rest.n);
  hs_buf_free(&rest);
}

bool hs_is_visible(const char *p, size_t n, hs_visible_form form) {
  return plain_bytes(p, n, form) == n;
}
