// graphics.c — pictures for terminals: the bytes of both protocols are read back, and give the
// picture that went in.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/skip.h"
#include "viz/explore_model.h"
#include "viz/graphics.h"
#include "viz/viz.h"

static const char graph[] =
    "digraph { node [style=filled]; a [fillcolor=\"#ff0000\"]; b [fillcolor=\"#0000ff\"]; a -> b }";

static hs_buf picture(void) {
  hs_buf png = {0};
  hs_status s = viz_run_dot(graph, strlen(graph), "png", 20, &png);
  assert_true(hs_ok(s));
  return png;
}
static u32 number_at(const char *p) {
  const u8 *b = (const u8 *)p;
  return (u32)b[0] << 24 | (u32)b[1] << 16 | (u32)b[2] << 8 | b[3];
}

// Every pixel of a sixel picture is drawn once; counts them by colour number.
static void read_sixels(const char *p, u32 w, u32 h, u32 counts[256]) {
  u8 *seen = hs_calloc((size_t)w * h, 1);
  u32 x = 0, y = 0, color = 0;
  char *end;
  for (; *p && *p != '\033'; p++) {
    u32 run = 1;
    if (*p == '#') {
      color = (u32)strtoul(p + 1, &end, 10);
      for (p = end; *p == ';'; p = end) strtoul(p + 1, &end, 10);
      p--;
      continue;
    }
    if (*p == '$') x = 0;
    if (*p == '-') x = 0, y += 6;
    if (*p == '$' || *p == '-') continue;
    if (*p == '!') run = (u32)strtoul(p + 1, &end, 10), p = end;
    for (; run; run--, x++)
      for (u32 k = 0; k < 6; k++) {
        if (!((*p - 63) >> k & 1)) continue;
        assert_true(x < w && y + k < h);
        assert_int_equal(seen[(size_t)(y + k) * w + x]++, 0);
        counts[color]++;
      }
  }
  for (size_t k = 0; k < (size_t)w * h; k++) assert_int_equal(seen[k], 1);
  hs_free(seen);
}

static void sixels_are_the_picture(void **state) {
  (void)state;
  if (!viz_have_graphviz()) SKIP_TEST("built without Graphviz");
  hs_buf png = picture(), b = {0};
  u32 w = number_at(png.p + 16), h = number_at(png.p + 20), counts[256] = {0};
  hs_status s = viz_graphics_put(VIZ_SIXEL, png.p, png.n, &b);
  assert_true(hs_ok(s));
  char head[64];
  snprintf(head, sizeof head, "\033P0;1q\"1;1;%u;%u", w, h);
  assert_memory_equal(hs_buf_cstr(&b), head, strlen(head));
  read_sixels(b.p + strlen(head), w, h, counts);
  assert_true(counts[5 * 36] > 500);            // red
  assert_true(counts[5] > 500);                 // blue
  assert_true(counts[215] > (u32)(w * h / 4));  // white
  assert_string_equal(b.p + b.n - 3, "\033\\\n");
  hs_buf_free(&png), hs_buf_free(&b);
}

static void kitty_has_the_file(void **state) {
  (void)state;
  if (!viz_have_graphviz()) SKIP_TEST("built without Graphviz");
  hs_buf png = picture(), b = {0}, got = {0};
  hs_status s = viz_graphics_put(VIZ_KITTY, png.p, png.n, &b);
  assert_true(hs_ok(s));
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char *p = hs_buf_cstr(&b); (p = strstr(p, "\033_G"));) {
    const char *end = strstr(p, "\033\\");
    assert_non_null(end);
    bool last = strstr(p, "m=0;") && strstr(p, "m=0;") < end;
    p = strchr(p, ';') + 1;
    assert_true(end - p <= 4096);
    assert_int_equal(last, strstr(end, "\033_G") == NULL);
    for (; p < end; p += 4) {
      u32 v = 0;
      for (u32 k = 0; k < 4; k++) {
        const char *at = strchr(letters, p[k]);
        v = v << 6 | (at && p[k] != '=' ? (u32)(at - letters) : 0);
      }
      for (u32 k = 0; k < 3 && p[k + 1] != '='; k++) hs_buf_putc(&got, (char)(v >> (16 - 8 * k)));
    }
  }
  assert_int_equal(got.n, png.n);
  assert_memory_equal(got.p, png.p, png.n);
  hs_buf_free(&png), hs_buf_free(&b), hs_buf_free(&got);
}

static void other_files_are_errors(void **state) {
  (void)state;
  hs_buf b = {0};
  char bytes[64] = "\x89PNG\r\n\x1a\n";
  for (size_t n = 0; n <= sizeof bytes; n += 16) {
    hs_status s = viz_graphics_put(VIZ_SIXEL, bytes, n, &b);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_FORMAT);
    hs_status_drop(s);
  }
  assert_int_equal(b.n, 0);
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  assert_int_equal(viz_graphics_of(pipes[0], pipes[1]), VIZ_NO_GRAPHICS);  // no terminal
  assert_int_equal(viz_graphics_width(pipes[1]), 0);
  close(pipes[0]), close(pipes[1]);
  hs_buf_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sixels_are_the_picture),
                                     cmocka_unit_test(kitty_has_the_file),
                                     cmocka_unit_test(other_files_are_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
