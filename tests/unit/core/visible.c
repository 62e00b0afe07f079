// visible.c — what may be shown: every byte and every code point in visible form, UTF-8 decoding
// against the rules of RFC 3629, and diagnostics that quote hostile text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/diag.h"
#include "core/base/visible.h"

static void expect(const char *text, size_t n, hs_visible_form form, const char *want) {
  hs_buf b = {0};
  hs_buf_put_visible(&b, text, n, form);
  assert_string_equal(hs_buf_cstr(&b), want);
  assert_true(hs_is_visible(text, n, form) == (strlen(want) == n && memcmp(text, want, n) == 0));
  b.n = 0;
  hs_buf_puts(&b, "\033kept");
  hs_buf_put(&b, text, n);
  hs_buf_make_visible(&b, 5, form);
  assert_string_equal(hs_buf_cstr(&b) + 5, want);
  hs_buf_free(&b);
}

static void forms(void **state) {
  (void)state;
  static const struct {
    const char *text, *line, *lines, *painted;
  } cases[] = {
      {"", "", "", ""},
      {"plain", "plain", "plain", "plain"},
      {"a\tb\nc", "a\\x09b\\x0ac", "a\tb\nc", "a\tb\nc"},
      {"\033[31mred", "\\x1b[31mred", "\\x1b[31mred", "\033[31mred"},
      {"\033[m", "\\x1b[m", "\\x1b[m", "\033[m"},
      {"\033[2J", "\\x1b[2J", "\\x1b[2J", "\\x1b[2J"},
      {"\033[38;5;208m.", "\\x1b[38;5;208m.", "\\x1b[38;5;208m.", "\033[38;5;208m."},
      {"\033[?25m", "\\x1b[?25m", "\\x1b[?25m", "\\x1b[?25m"},
      {"\033[31", "\\x1b[31", "\\x1b[31", "\\x1b[31"},
      {"\033", "\\x1b", "\\x1b", "\\x1b"},
      {"\033]0;t\007", "\\x1b]0;t\\x07", "\\x1b]0;t\\x07", "\\x1b]0;t\\x07"},
      {"a\rb\b\177", "a\\x0db\\x08\\x7f", "a\\x0db\\x08\\x7f", "a\\x0db\\x08\\x7f"},
      {"\302\233m", "\\u009bm", "\\u009bm", "\\u009bm"},
      {"\233m", "\\x9bm", "\\x9bm", "\\x9bm"},
      {"\xE2\x80\xAE!", "\\u202e!", "\\u202e!", "\\u202e!"},
      {"\xE2\x81\xA6", "\\u2066", "\\u2066", "\\u2066"},
      {"\xD8\x9C", "\\u061c", "\\u061c", "\\u061c"},
      {"\xE2\x80\xA8\xE2\x80\x8B", "\\u2028\\u200b", "\\u2028\\u200b", "\\u2028\\u200b"},
      {"\xF3\xA0\x81\x81", "\\U000e0041", "\\U000e0041", "\\U000e0041"},
      {"\xC3\xA9\xE2\x94\x8C\xF0\x9F\x99\x82", "\xC3\xA9\xE2\x94\x8C\xF0\x9F\x99\x82",
       "\xC3\xA9\xE2\x94\x8C\xF0\x9F\x99\x82", "\xC3\xA9\xE2\x94\x8C\xF0\x9F\x99\x82"},
      {"\xC0\xAF", "\\xc0\\xaf", "\\xc0\\xaf", "\\xc0\\xaf"},
      {"\xED\xA0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80"},
      {"\xE2\x94", "\\xe2\\x94", "\\xe2\\x94", "\\xe2\\x94"},
      {"back\\slash", "back\\slash", "back\\slash", "back\\slash"},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    size_t n = strlen(cases[k].text);
    expect(cases[k].text, n, HS_ONE_LINE, cases[k].line);
    expect(cases[k].text, n, HS_LINES, cases[k].lines);
    expect(cases[k].text, n, HS_PAINTED, cases[k].painted);
  }
  expect("a\0b", 3, HS_LINES, "a\\x00b");
}

static size_t encode(u32 c, char out[4]) {
  if (c < 0x80) return out[0] = (char)c, 1;
  size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t k = n - 1; k > 0; k--, c >>= 6) out[k] = (char)(0x80 | (c & 0x3F));
  out[0] = (char)((0xF00u >> n) | c);
  return n;
}

// Every code point decodes to itself, surrogates do not, and what is shown as it is holds nothing
// of what a terminal obeys.
static void every_code_point(void **state) {
  (void)state;
  for (u32 c = 0; c <= 0x10FFFF; c++) {
    char text[4];
    u32 got = 0;
    size_t n = encode(c, text), len = hs_utf8_char(text, n, &got);
    if (c >= 0xD800 && c < 0xE000) {
      assert_int_equal(len, 0);
      continue;
    }
    assert_int_equal(len, n);
    assert_int_equal(got, c);
    bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
    bool order = c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
                 (c >= 0x2066 && c <= 0x2069) || (c >= 0xE0000 && c <= 0xE007F);
    if (control || order) assert_false(hs_is_visible(text, n, HS_ONE_LINE));
    if (c >= 0x20 && c < 0x7F) assert_true(hs_is_visible(text, n, HS_ONE_LINE));
    for (size_t cut = 1; cut < n; cut++) assert_int_equal(hs_utf8_char(text, cut, &got), 0);
  }
}

static void diagnostics(void **state) {
  (void)state;
  hs_status s = hs_fail(HS_E_INPUT, "bad name \033]0;t\007 \xE2\x80\xAE");
  const char *line = "x \033[2J\tadd(\xC3\xA9, y)";
  s = hs_with_place(s, "file\n\033.hlo", 3, 13, (hs_str){line, strlen(line)});
  s = hs_with_note(s, "one \302\233\ntwo \377");
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  assert_string_equal(hs_buf_cstr(&b),
                      "file\\x0a\\x1b.hlo:3:13: error[E0302]: bad name \\x1b]0;t\\x07 \\u202e\n"
                      "  x \\x1b[2J add(\xC3\xA9, y)\n"
                      "                ^\n"
                      "  note: one \\u009b\n"
                      "  note: two \\xff\n");
  b.n = 0;
  hs_status_render(s, &b, true);
  assert_true(hs_is_visible(b.p, b.n, HS_PAINTED));
  hs_buf_free(&b);
  hs_status_drop(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forms),
      cmocka_unit_test(every_code_point),
      cmocka_unit_test(diagnostics),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
