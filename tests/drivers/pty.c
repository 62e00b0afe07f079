// pty.c — the shell at a terminal: prompt, Tab, history, Ctrl-C while typing and while a command
// runs, Ctrl-D. Each check types at a pseudo-terminal and waits for what must appear.
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/base.h"

enum { SOON = 5000 };  // ms that anything at the prompt may take

static int master = -1, failures;
static pid_t child;
static hs_buf seen;
static char home[] = "/tmp/hlosh-pty.XXXXXX", hlosh[PATH_MAX];

// Whether a pseudo-terminal can be made here; says why when it cannot.
static bool terminal_to_be_had(void) {
  int m = posix_openpt(O_RDWR | O_NOCTTY), s = -1;
  const char *name = m >= 0 && grantpt(m) == 0 && unlockpt(m) == 0 ? ptsname(m) : NULL;
  if (name) s = open(name, O_RDWR | O_NOCTTY);
  if (s < 0) printf("no pseudo-terminal can be made here: %s\n", strerror(errno));
  if (s >= 0) close(s);
  if (m >= 0) close(m);
  return s >= 0;
}

static bool start(void) {
  struct winsize ws = {.ws_row = 40, .ws_col = 120};
  child = forkpty(&master, NULL, NULL, &ws);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    setenv("PAGER", "cat", 1);
    setenv("HOME", home, 1);
    setenv("INPUTRC", "/dev/null", 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_CONFIG_HOME");
    execl(hlosh, "hlosh", (char *)NULL);
    _exit(126);
  }
  seen.n = 0;
  return child > 0;
}

// Reads until `text` appears after position `from`; false after `ms`.
static bool wait_for(const char *text, int ms) {
  u64 begin = hs_now_ns();
  for (;;) {
    if (seen.n && strstr(hs_buf_cstr(&seen), text)) return true;
    int left = ms - (int)((hs_now_ns() - begin) / 1000000);
    struct pollfd p = {.fd = master, .events = POLLIN};
    if (left <= 0 || poll(&p, 1, left) <= 0) return false;
    char block[4096];
    ssize_t n = read(master, block, sizeof block);
    if (n <= 0) return false;
    for (ssize_t k = 0; k < n; k++)
      if (block[k]) hs_buf_putc(&seen, block[k]);
  }
}

static void type(const char *text) {
  seen.n = 0;
  if (write(master, text, strlen(text)) < 0) perror("pty");
}

static void expect(const char *what, const char *text, int ms) {
  if (wait_for(text, ms)) return;
  failures++;
  printf("FAIL %s: \"%s\" did not appear; seen: \"%s\"\n", what, text,
         seen.n ? hs_buf_cstr(&seen) : "");
}

static void expect_exit(const char *what, int code) {
  for (int k = 0; k < 100; k++) {
    int status;
    (void)wait_for("\001never\001", 20);  // keeps the terminal drained
    usleep(20000);
    if (waitpid(child, &status, WNOHANG) == child) {
      if (!WIFEXITED(status) || WEXITSTATUS(status) != code) {
        failures++;
        printf("FAIL %s: wait status %x, expected exit %d\n", what, (unsigned)status, code);
      }
      close(master);
      return;
    }
  }
  failures++;
  printf("FAIL %s: still running\n", what);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  close(master);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f) {
  (void)st, (void)flag, (void)f;
  return remove(path);
}

static const char endless[] =
    "HloModule endless\n"
    "cond { p = (s32[], f32[16]) parameter(0) ROOT t = pred[] constant(true) }\n"
    "body { q = (s32[], f32[16]) parameter(0) i = s32[] get-tuple-element(q), index=0 x = f32[16] "
    "get-tuple-element(q), index=1\n"
    "  y = f32[16] tanh(x) ROOT r = (s32[], f32[16]) tuple(i, y) }\n"
    "ENTRY main { x0 = f32[16] parameter(0) zero = s32[] constant(0) s = (s32[], f32[16]) "
    "tuple(zero, x0)\n"
    "  ROOT w = (s32[], f32[16]) while(s), condition=cond, body=body }\n";

int main(int argc, char **argv) {
  (void)argc;
  if (!terminal_to_be_had()) return 77;
  char self[PATH_MAX];
  const char *env = getenv("HLOSH");
  if (!realpath(argv[0], self)) return 2;
  *strrchr(self, '/') = 0;
  char guess[PATH_MAX + 16];
  snprintf(guess, sizeof guess, "%s/../hlosh", self);
  if (!realpath(env && *env ? env : guess, hlosh) || !mkdtemp(home)) return 2;

  start();
  expect("first prompt", "hlosh> ", SOON);
  type("example mlp\r");
  expect("prompt names module and version", "mlp@0> ", SOON);
#if HAVE_READLINE || HAVE_EDIT
  type("signa\t\r");
  expect("Tab completes a command", "f32[32,64]{1,0}  8.19 kB", SOON);
  type("info unu\t\r");
  expect("Tab completes an instruction", "opcode: negate", SOON);
  type("pass dc\t\r");
  expect("Tab completes a pass, and the version moves", "mlp@1> ", SOON);
  type("\x1b[A");
  expect("arrow up recalls the last command", "pass dce", SOON);
  type("\x03");
  expect("Ctrl-C drops the line", "mlp@1> ", SOON);
#endif
  type("undo\r");
  expect("undo", "mlp@0> ", SOON);
  type("half a line\x03");
  expect("Ctrl-C while typing gives a new prompt", "mlp@0> ", SOON);
  type("!sleep 20\r");
  usleep(300000);
  u64 begin = hs_now_ns();
  type("\x03");
  expect("Ctrl-C while a command runs gives the prompt back", "mlp@0> ", SOON);
  if (hs_now_ns() - begin > 3000000000ull) failures++, printf("FAIL Ctrl-C took longer than 3 s\n");
  type("modules\r");
  expect("the session is whole afterwards", "2 versions", SOON);
  expect("and prompts", "mlp@0> ", SOON);
  char path[64], line[80];
  snprintf(path, sizeof path, "%s/endless.hlo", home);
  snprintf(line, sizeof line, "load %s\r", path);
  FILE *f = fopen(path, "w");
  if (f) fputs(endless, f), fclose(f);
  type(line);
  expect("an endless loop loads", "endless@0> ", SOON);
  type("backend interp\r");
  expect("on the evaluator", "endless@0> ", SOON);
  type("run\r");
  expect("progress of a long evaluation", "iteration", SOON);
  begin = hs_now_ns();
  type("\x03");
  expect("Ctrl-C ends an evaluation", "endless@0> ", SOON);
  if (hs_now_ns() - begin > 1000000000ull)
    failures++, printf("FAIL Ctrl-C in an evaluation took longer than 1 s\n");
  type("\x04");
  expect_exit("Ctrl-D ends the session", 0);

#if HAVE_READLINE || HAVE_EDIT
  // A second session finds the history of the first.
  start();
  expect("second session", "hlosh> ", SOON);
  type("\x1b[A");
  expect("history is kept between sessions", "run", SOON);
  type("\x15quit\r");
  expect_exit("quit", 0);
#else
  printf("SKIP Tab and history: no line editing library in this build\n");
#endif
  nftw(home, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  hs_buf_free(&seen);
  printf("pty: %s\n", failures ? "failed" : "ok");
  return failures ? 1 : 0;
}
