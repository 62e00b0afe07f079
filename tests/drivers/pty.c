// pty.c — the shell at a terminal: prompt, Tab, history, Ctrl-C while typing and while a command
// runs, Ctrl-D. Each check types at a pseudo-terminal and waits for what must appear.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/terminal.h"
#include "viz/viz.h"

enum { SOON = 5000 };  // ms that anything at the prompt may take

static tty at;
static int failures;

static void start(void) {
  const char *const argv[] = {"hlosh", NULL};
  if (!tty_start(&at, NULL, argv)) failures++, perror("forkpty");
}

static void type(const char *text) { tty_type(&at, text); }

static void expect(const char *what, const char *text, int ms) {
  if (tty_wait(&at, text, ms)) return;
  failures++;
  printf("FAIL %s: \"%s\" did not appear; seen: \"%s\"\n", what, text,
         at.seen.n ? hs_buf_cstr(&at.seen) : "");
}

static void expect_exit(const char *what, int code) {
  int status = tty_end(&at, SOON);
  if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == code) return;
  failures++;
  printf("FAIL %s: wait status %x, expected exit %d\n", what, (unsigned)status, code);
}

// The terminal drops what was typed when Ctrl-C comes, so a key may be gone between the moment the
// shell hears of it and the moment it reads it. `prompt` must come back all the same.
static void expect_prompt_after_lost_keys(const char *prompt) {
  char keys[201];
  memset(keys, 'x', sizeof keys - 1);
  keys[sizeof keys - 1] = 0;
  for (u64 k = 0, before = (u64)failures; k < 150 && (u64)failures == before; k++) {
    type(keys);
    for (u64 begin = hs_now_ns(), after = k * 7919 % 1000 * 1000; hs_now_ns() - begin < after;) {}
    tty_send(&at, "\x03");
    expect("Ctrl-C amid typed keys gives a new prompt", prompt, SOON);
    usleep(2000);
  }
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
  int rc = tty_open(&at, argv[0]);
  if (rc) return rc;

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
  expect_prompt_after_lost_keys("mlp@0> ");
  type("!sleep 20\r");
  usleep(300000);
  u64 begin = hs_now_ns();
  type("\x03");
  expect("Ctrl-C while a command runs gives the prompt back", "mlp@0> ", SOON);
  if (hs_now_ns() - begin > 3000000000ull) failures++, printf("FAIL Ctrl-C took longer than 3 s\n");
  type("modules\r");
  expect("the session is whole afterwards", "2 versions", SOON);
  expect("and prompts", "mlp@0> ", SOON);
  char path[96], line[112];
  snprintf(path, sizeof path, "%s/endless.hlo", at.home);
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
  // A terminal that says it can show pictures gets one, and is asked once; another one gets text.
  for (int can = 0; can < 2; can++) {
    const char *const colored[] = {"hlosh", "--no-rc", "--color=always", NULL};
    if (!tty_start(&at, NULL, colored)) failures++, perror("forkpty");
    expect("a session in colours", "hlosh", SOON);
    type("example mlp\r");
    expect("a module", "mlp@0", SOON);
    type("show dot.2 1\r");
    expect("the terminal is asked", "\x1b[c", SOON);
    type(can ? "\x1b[?62;4;22c" : "\x1b[?62;22c");
    if (can && viz_have_graphviz()) expect("a picture", "\x1bP0;1q", SOON);
    else expect("the text", "dot.2", SOON);
    expect("and prompts", "mlp@0", SOON);
    type("show dot.2 1 --picture=text\r");
    expect("text on demand", "┌─", SOON);
    expect("and a prompt", "mlp@0", SOON);
    type("\x04");
    expect_exit("Ctrl-D", 0);
  }
  tty_close(&at);
  printf("pty: %s\n", failures ? "failed" : "ok");
  return failures ? 1 : 0;
}
