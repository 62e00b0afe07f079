// out.c — writing results and notes, columns and units. See out.h.
#include "repl/shell/out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#if HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#include "core/base/visible.h"
#include "profiler/units.h"

// ---- text of a command --------------------------------------------------------------------------
void repl_say(repl_out *o, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&o->text, fmt, ap);
  va_end(ap);
}

void repl_say_painted(repl_out *o, const char *p, size_t n) {
  if (!n) return;
  repl_span span = {o->text.n, o->text.n + n};
  hs_buf_put(&o->text, p, n);
  if (o->color) hs_vec_push(&o->painted, span);
}

void repl_say_in(repl_out *o, const char *sgr, const char *fmt, ...) {
  hs_buf b = {0}, line = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  size_t ends = b.n && b.p[b.n - 1] == '\n';  // outside of the colour
  if (o->color) hs_buf_printf(&line, "\033[%sm", sgr);
  if (o->color) hs_buf_put_visible(&line, b.p, b.n - ends, HS_LINES);
  else hs_buf_put(&line, b.p, b.n - ends);
  hs_buf_puts(&line, o->color ? "\033[0m" : "");
  hs_buf_puts(&line, ends ? "\n" : "");
  repl_say_painted(o, line.p, line.n);
  hs_buf_free(&line);
  hs_buf_free(&b);
}

void repl_put_shown(const repl_out *o, hs_buf *b) {
  size_t at = 0, n = o->text.n;
  for (size_t k = 0; k < o->painted.n && at < n; k++) {
    size_t from = HS_MIN(o->painted.v[k].from, n), to = HS_MIN(o->painted.v[k].to, n);
    hs_buf_put_visible(b, o->text.p + at, from - at, HS_LINES);
    hs_buf_put_visible(b, o->text.p + from, to - from, HS_PAINTED);
    at = to;
  }
  hs_buf_put_visible(b, o->text.p + at, n - at, HS_LINES);
}

static void write_stdout(repl_out *o, const char *p, size_t n) {
  if (o->broken || !n || hs_write_all(STDOUT_FILENO, p, n)) return;
  o->broken = true;
  o->broken_errno = errno;
}

void repl_write_text(repl_out *o) {
  if (o->text.n && (o->color || isatty(STDOUT_FILENO))) {
    hs_buf shown = {0};
    repl_put_shown(o, &shown);
    write_stdout(o, shown.p, shown.n);
    hs_buf_free(&shown);
  } else {
    write_stdout(o, o->text.p, o->text.n);
  }
  o->text.n = o->painted.n = 0;
}

void repl_flush(repl_out *o) {
  if (!o->doc && !o->captured) repl_write_text(o);
}

void repl_send_picture(repl_out *o, const char *p, size_t n) {
  if (o->captured) {
    hs_buf_put(&o->text, p, n);
    return;
  }
  repl_flush(o);
  write_stdout(o, p, n);
}

void repl_out_free(repl_out *o) {
  hs_buf_free(&o->text);
  hs_vec_free(&o->painted);
}

// ---- standard error -----------------------------------------------------------------------------
static void write_stderr(hs_buf *b, hs_visible_form form) {
  if (!b->n || b->p[b->n - 1] != '\n') hs_buf_putc(b, '\n');
  hs_buf_make_visible(b, 0, form);
  fwrite(b->p, 1, b->n, stderr);
}

static void complain(const char *fmt, va_list ap) {
  hs_buf b = {0};
  hs_buf_vprintf(&b, fmt, ap);
  write_stderr(&b, HS_LINES);
  hs_buf_free(&b);
}

void repl_note(repl_out *o, const char *fmt, ...) {
  if (o->quiet) return;
  repl_flush(o);
  va_list ap;
  va_start(ap, fmt);
  complain(fmt, ap);
  va_end(ap);
}

void repl_complain(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  complain(fmt, ap);
  va_end(ap);
}

void repl_print_status(repl_out *o, hs_status s) {
  hs_buf b = {0};
  hs_status_render(s, &b, o->color_err);
  if (b.n) write_stderr(&b, o->color_err ? HS_PAINTED : HS_LINES);
  hs_buf_free(&b);
}

// ---- columns and units --------------------------------------------------------------------------
// The columns of the character at *p, which goes on to the next one.
static int take_character(const char **p) {
#if HAVE_UTF8PROC
  utf8proc_int32_t cp;
  utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)*p, -1, &cp);
  *p += k > 0 ? k : 1;
  return k > 0 ? utf8proc_charwidth(cp) : 1;
#else
  do ++*p;
  while ((**p & 0xC0) == 0x80);
  return 1;
#endif
}

int repl_width(const char *text) {
  int w = 0;
  while (*text) w += take_character(&text);
  return w;
}

u32 repl_columns(void) {
  struct winsize ws;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col) return ws.ws_col;
  const char *env = getenv("COLUMNS");
  long n = env ? strtol(env, NULL, 10) : 0;
  return n >= 20 && n <= 10000 ? (u32)n : 120;
}

void repl_pad(hs_buf *b, const char *text, int width) {
  int have = repl_width(text), want = width < 0 ? -width : width;
  if (width < 0)
    for (int k = have; k < want; k++) hs_buf_putc(b, ' ');
  hs_buf_puts(b, text);
  if (width > 0)
    for (int k = have; k < want; k++) hs_buf_putc(b, ' ');
}

const char *repl_tail(hs_arena *a, const char *text, int width) {
  int have = repl_width(text);
  if (have <= width) return text;
  const char *p = text;
  while (*p && have + 3 > width) have -= take_character(&p);
  char *out = hs_arena_alloc(a, strlen(p) + 4);
  memcpy(out, "...", 3);
  memcpy(out + 3, p, strlen(p) + 1);
  return out;
}

const char *repl_bytes(char buf[32], double v) { return prof_bytes_text(buf, v); }
const char *repl_count(char buf[32], double v) { return prof_count_text(buf, v); }
const char *repl_plural(char buf[32], u32 n, const char *one) {
  snprintf(buf, 32, "%u %s%s", n, one, n == 1 ? "" : "s");
  return buf;
}
const char *repl_flops(char buf[32], double v) { return prof_flops_text(buf, v); }
const char *repl_time(char buf[32], double s) { return prof_time_text(buf, s); }
