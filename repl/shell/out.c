// out.c — writing results and notes, columns and units. See out.h.
#include "repl/shell/out.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#if HAVE_UTF8PROC
#include <utf8proc.h>
#endif

void repl_say(repl_out *o, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&o->text, fmt, ap);
  va_end(ap);
}

void repl_note(repl_out *o, const char *fmt, ...) {
  if (o->quiet) return;
  repl_flush(o);
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  hs_buf_putc(&b, '\n');
  fwrite(b.p, 1, b.n, stderr);
  hs_buf_free(&b);
}

void repl_write_stdout(repl_out *o, const char *p, size_t n) {
  if (o->broken || !n) return;
  if (!repl_write_all(STDOUT_FILENO, p, n)) {
    o->broken = true;
    o->broken_errno = errno;
  }
}

void repl_flush(repl_out *o) {
  if (o->doc || o->captured) return;
  repl_write_stdout(o, o->text.p, o->text.n);
  o->text.n = 0;
}

void repl_print_status(repl_out *o, hs_status s) {
  hs_buf b = {0};
  hs_status_render(s, &b, o->color_err);
  if (b.n && b.p[b.n - 1] != '\n') hs_buf_putc(&b, '\n');
  fwrite(b.p, 1, b.n, stderr);
  hs_buf_free(&b);
}

static int columns_of(const char *text) {
#if HAVE_UTF8PROC
  int w = 0;
  utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
  const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text;
  while (left > 0) {
    utf8proc_int32_t cp;
    utf8proc_ssize_t k = utf8proc_iterate(p, left, &cp);
    if (k <= 0) {
      p++;
      left--;
      w++;
      continue;
    }
    w += utf8proc_charwidth(cp);
    p += k;
    left -= k;
  }
  return w;
#else
  int w = 0;
  for (const char *p = text; *p; p++) w += (*p & 0xC0) != 0x80;
  return w;
#endif
}

u32 repl_columns(void) {
  struct winsize ws;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col) return ws.ws_col;
  const char *env = getenv("COLUMNS");
  long n = env ? strtol(env, NULL, 10) : 0;
  return n >= 20 && n <= 10000 ? (u32)n : 120;
}

void repl_pad(hs_buf *b, const char *text, int width) {
  int have = columns_of(text), want = width < 0 ? -width : width;
  if (width < 0)
    for (int k = have; k < want; k++) hs_buf_putc(b, ' ');
  hs_buf_puts(b, text);
  if (width > 0)
    for (int k = have; k < want; k++) hs_buf_putc(b, ' ');
}

static void scaled(char buf[32], double v, const char *const *units, double step, u32 nunits) {
  double a = fabs(v);
  u32 u = 0;
  while (u + 1 < nunits && a >= step * 0.99995) a /= step, v /= step, u++;
  int digits = u == 0 ? 0 : a < 9.995 ? 2 : a < 99.95 ? 1 : 0;
  if (u == 0 && a != floor(a)) digits = 2;
  snprintf(buf, 32, "%.*f%s", digits, v, units[u]);
}

const char *repl_bytes(char buf[32], double v) {
  static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB", " EB"};
  // A sum of sizes is saturated at INT64_MAX: the true value may be larger.
  if (v == 0x1p63) snprintf(buf, 32, ">= 9.22 EB");
  else scaled(buf, v, units, 1000, HS_COUNT(units));
  return buf;
}

const char *repl_count(char buf[32], double v) {
  static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
  scaled(buf, v, units, 1000, HS_COUNT(units));
  return buf;
}

const char *repl_flops(char buf[32], double v) {
  static const char *const units[] = {" FLOP",  " kFLOP", " MFLOP", " GFLOP",
                                      " TFLOP", " PFLOP", " EFLOP"};
  scaled(buf, v, units, 1000, HS_COUNT(units));
  return buf;
}

const char *repl_time(char buf[32], double s) {
  double a = fabs(s);
  if (a >= 1) snprintf(buf, 32, "%.3g s", s);
  else if (a >= 1e-3) snprintf(buf, 32, "%.3g ms", s * 1e3);
  else if (a >= 1e-6) snprintf(buf, 32, "%.3g us", s * 1e6);
  else snprintf(buf, 32, "%.3g ns", s * 1e9);
  return buf;
}
