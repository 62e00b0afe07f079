// graphics_ask.c: whether a terminal can show pictures. See graphics.h.
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/file.h"
#include "viz/graphics.h"

enum { PATIENCE_MS = 200, MOST_ANSWER = 128, CELL = 9 };

static bool has(const char *variable, const char *part) {
  const char *v = getenv(variable);
  return v && *v && strstr(v, part) != NULL;
}

// Whether "ESC [ ? a ; b ; ... c" names the attribute.
static bool names(const char *answer, int attribute) {
  const char *p = strstr(answer, "\033[?");
  for (p = p ? p + 3 : ""; *p && *p != 'c';) {
    char *end;
    long v = strtol(p, &end, 10);
    if (end == p) return false;
    if (v == attribute) return true;
    p = end + (*end == ';');
  }
  return false;
}

static bool answers_sixel(int in, int out) {
  struct termios was, raw;
  char answer[MOST_ANSWER + 1] = "";
  size_t n = 0;
  if (tcgetattr(in, &was) != 0) return false;
  raw = was;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_cc[VMIN] = 0, raw.c_cc[VTIME] = 0;
  if (tcsetattr(in, TCSANOW, &raw) != 0) return false;
  u64 end = hs_now_ns() + (u64)PATIENCE_MS * 1000000;
  if (hs_write_all(out, "\033[c", 3))
    while (n < MOST_ANSWER && !strchr(answer, 'c') && hs_now_ns() < end && !hs_interrupted()) {
      struct pollfd p = {.fd = in, .events = POLLIN};
      if (poll(&p, 1, (int)((end - hs_now_ns()) / 1000000) + 1) <= 0) break;
      ssize_t k = read(in, answer + n, MOST_ANSWER - n);
      if (k <= 0) break;
      n += (size_t)k;
      answer[n] = 0;
    }
  tcsetattr(in, TCSANOW, &was);
  return names(answer, 4);
}

viz_graphics viz_graphics_of(int in, int out) {
  if (!isatty(in) || !isatty(out) || has("TERM", "dumb") || !getenv("TERM")) return VIZ_NO_GRAPHICS;
  if (has("TERM", "kitty") || has("TERM", "ghostty") || getenv("KITTY_WINDOW_ID") ||
      has("TERM_PROGRAM", "WezTerm") || has("TERM_PROGRAM", "ghostty"))
    return VIZ_KITTY;
  return answers_sixel(in, out) ? VIZ_SIXEL : VIZ_NO_GRAPHICS;
}

u32 viz_graphics_width(int out) {
  struct winsize ws;
  if (ioctl(out, TIOCGWINSZ, &ws) != 0 || !ws.ws_col) return 0;
  return ws.ws_xpixel ? ws.ws_xpixel : ws.ws_col * (u32)CELL;
}
