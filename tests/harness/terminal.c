// terminal.c: the shell at a pseudo-terminal. See terminal.h.
#include "tests/harness/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool can_be_made(void) {
  int m = posix_openpt(O_RDWR | O_NOCTTY), s = -1;
  const char *name = m >= 0 && grantpt(m) == 0 && unlockpt(m) == 0 ? ptsname(m) : NULL;
  if (name) s = open(name, O_RDWR | O_NOCTTY);
  if (s < 0) printf("no pseudo-terminal can be made here: %s\n", strerror(errno));
  if (s >= 0) close(s);
  if (m >= 0) close(m);
  return s >= 0;
}

int tty_open(tty *t, const char *argv0) {
  *t = (tty){.master = -1, .child = -1, .home = "/tmp/hlosh-tty.XXXXXX"};
  if (!can_be_made()) return 77;
  const char *env = getenv("HLOSH");
  char *self = realpath(argv0, NULL);
  if (self) *strrchr(self, '/') = 0;
  char *guess = env && *env ? hs_strdup(env) : hs_format("%s/../hlosh", self ? self : ".");
  free(self);
  bool ok = realpath(guess, t->hlosh) && mkdtemp(t->home);
  if (!ok) printf("%s: %s\n", guess, strerror(errno));
  hs_free(guess);
  return ok ? 0 : 2;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f) {
  (void)st, (void)flag, (void)f;
  return remove(path);
}

void tty_close(tty *t) {
  if (t->child > 0) (void)tty_end(t, 0);
  nftw(t->home, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  hs_buf_free(&t->seen);
}

bool tty_start(tty *t, const char *dir, const char *const *argv) {
  struct winsize ws = {.ws_row = 40, .ws_col = 120};
  t->seen.n = 0;
  t->child = forkpty(&t->master, NULL, NULL, &ws);
  if (t->child != 0) return t->child > 0;
  if (dir && chdir(dir) != 0) _exit(126);
  setenv("TERM", "xterm", 1);
  setenv("PAGER", "cat", 1);
  setenv("EDITOR", "true", 1);
  setenv("HOME", t->home, 1);
  setenv("INPUTRC", "/dev/null", 1);
  unsetenv("XDG_STATE_HOME");
  setenv("XDG_CACHE_HOME", "/nonexistent", 1);
  unsetenv("XDG_CONFIG_HOME");
  setenv("NO_COLOR", "1", 1);
  execv(t->hlosh, (char *const *)(uintptr_t)argv);
  _exit(126);
}

bool tty_read(tty *t, int ms) {
  struct pollfd p = {.fd = t->master, .events = POLLIN};
  if (poll(&p, 1, ms) <= 0) return true;
  char block[4096];
  ssize_t n = read(t->master, block, sizeof block);
  for (ssize_t k = 0; k < n; k++)
    if (block[k]) hs_buf_putc(&t->seen, block[k]);
  return n > 0 || (n < 0 && errno == EINTR);
}

bool tty_wait(tty *t, const char *text, int ms) {
  u64 begin = hs_now_ns();
  for (;;) {
    if (t->seen.n && strstr(hs_buf_cstr(&t->seen), text)) return true;
    int left = ms - (int)((hs_now_ns() - begin) / 1000000);
    if (left <= 0 || !tty_read(t, left)) return false;
  }
}

void tty_send(tty *t, const char *text) {
  if (write(t->master, text, strlen(text)) < 0) perror("terminal");
}

void tty_type(tty *t, const char *text) {
  t->seen.n = 0;
  tty_send(t, text);
}

int tty_end(tty *t, int ms) {
  u64 begin = hs_now_ns();
  int status = -1;
  for (;;) {
    bool open = tty_read(t, 20);
    if (waitpid(t->child, &status, WNOHANG) == t->child) break;
    if ((hs_now_ns() - begin) / 1000000 >= (u64)ms) {
      kill(t->child, SIGKILL);
      waitpid(t->child, NULL, 0);
      status = -1;
      break;
    }
    if (!open) usleep(5000);
  }
  // What it wrote last is still there, up to the end or a pause that children of its leave.
  for (size_t had = SIZE_MAX; had != t->seen.n && (had = t->seen.n, tty_read(t, 50));) continue;
  close(t->master);
  t->child = t->master = -1;
  return status;
}
