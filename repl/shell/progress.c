// progress.c — a line on the terminal that tells how far a long command is. See out.h.
#include <stdio.h>
#include <unistd.h>

#include "repl/shell/out.h"

#define PATIENCE ((u64)500000000)  // ns before the first line
#define BETWEEN ((u64)100000000)

static u64 begun, shown;
static bool visible;

bool repl_progress_due(void) {
  static int tty = -1;
  if (tty < 0) tty = isatty(STDERR_FILENO);
  if (!tty) return false;
  u64 now = hs_now_ns();
  if (!begun) begun = now;
  return now - begun >= PATIENCE && now - shown >= BETWEEN;
}

void repl_progress_text(const char *fmt, ...) {
  if (!repl_progress_due()) return;
  va_list ap;
  va_start(ap, fmt);
  fputs("\r\033[K", stderr);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fflush(stderr);
  shown = hs_now_ns();
  visible = true;
}

void repl_progress(const char *what, double done, double total) {
  if (total > 0) repl_progress_text("%s %.0f%%", what, 100 * done / total);
  else repl_progress_text("%s %.0f", what, done);
}

void repl_progress_end(void) {
  if (visible) fputs("\r\033[K", stderr), fflush(stderr);
  visible = false;
  begun = 0;
}
