// progress.c — a line on the terminal that says how far a long command is. See out.h.
#include <stdio.h>
#include <unistd.h>

#include "core/base/visible.h"
#include "repl/shell/out.h"

#define PATIENCE ((u64)500000000)  // ns before the first line
#define BETWEEN ((u64)100000000)   // ns between two lines

bool repl_progress_due(repl_out *o) {
  u64 now = hs_now_ns();
  if (!o->progress.begun) o->progress.begun = now;
  return now - o->progress.begun >= PATIENCE && now - o->progress.shown >= BETWEEN &&
         isatty(STDERR_FILENO);
}

void repl_progress_text(repl_out *o, const char *fmt, ...) {
  if (!repl_progress_due(o)) return;
  va_list ap;
  va_start(ap, fmt);
  hs_buf b = {0};
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  hs_buf_make_visible(&b, 0, HS_ONE_LINE);
  fprintf(stderr, "\r\033[K%s", hs_buf_cstr(&b));
  fflush(stderr);
  hs_buf_free(&b);
  o->progress.shown = hs_now_ns();
  o->progress.visible = true;
}

void repl_progress(repl_out *o, const char *what, double done, double total) {
  if (total > 0) repl_progress_text(o, "%s %.0f%%", what, 100 * done / total);
  else repl_progress_text(o, "%s %.0f", what, done);
}

void repl_progress_end(repl_out *o) {
  if (o->progress.visible) fputs("\r\033[K", stderr), fflush(stderr);
  o->progress.visible = false;
  o->progress.begun = 0;
}
