// interrupt.c: Ctrl-C in the middle of every command, on modules that are large or endless.
//
//   interrupt [--verbose] [--ms=N] [--only=LINE] FILE...
//
// --only tries that one line, with Ctrl-C after 1, 21, 41 ... ms. Each file is loaded at a pseudo-
// terminal. Each command of the table is typed, with a few arguments, and Ctrl-C comes after
// several delays while it still runs. Afterwards the prompt must be back soon, name the version
// that was current before or the one that the command had just made, and the session must answer.
// "Soon" is 200 ms of the shell's own CPU time, or as much of the clock: a test machine may be
// busy, so both must be exceeded for a failure, three times in a row; 5 s of the clock are one in
// any case.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "repl/registry.h"
#include "repl/shell/command.h"
#include "tests/harness/terminal.h"

enum { LOAD_MS = 60000, SLOW_MS = 200, NEVER_MS = 5000, DELAYS = 4 };
static const int delays[DELAYS] = {1, 30, 150, 600};
enum { ONLY_STEP_MS = 20, ONLY_MOST_MS = 5000 };
static const char *only;
enum { TRIES = 3 };  // a try that was slow is repeated

static tty at;
static int failures, tries, interrupted;
static double worst;
static bool verbose;
static int limit = SLOW_MS;

static double cpu_ms(pid_t p) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)p);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  char *s = strrchr(text, ')');
  unsigned long user = 0, sys = 0;
  if (!s || sscanf(s + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) != 2)
    return 0;
  return (double)(user + sys) * 1000 / (double)sysconf(_SC_CLK_TCK);
}

// The version that the prompt at the end of what was seen names; -1 when there is none.
static int prompt(void) {
  const hs_buf *b = &at.seen;
  while (at.seen.n > 8 && memcmp(b->p + b->n - 8, "\033[?2004h", 8) == 0) at.seen.n -= 8;
  if (b->n < 4 || b->p[b->n - 1] != ' ' || b->p[b->n - 2] != '>') return -1;
  size_t k = b->n - 2, digits = k;
  while (digits && b->p[digits - 1] >= '0' && b->p[digits - 1] <= '9') digits--;
  if (digits == k || !digits || b->p[digits - 1] != '@') return -1;
  return atoi(hs_buf_cstr(&at.seen) + digits);
}

static bool wait_prompt(int ms, int *version) {
  u64 begin = hs_now_ns();
  for (;;) {
    if ((*version = prompt()) >= 0) return true;
    int left = ms - (int)((hs_now_ns() - begin) / 1000000);
    if (left <= 0 || !tty_read(&at, left)) return false;
  }
}

// A comment with a number of its own is typed, and the prompt behind its echo is waited for: one
// that comes late, of a Ctrl-C that met the prompt, is not mistaken for the next command's end.
static bool in_step(int *version) {
  static unsigned number;
  char mark[24];
  int n = snprintf(mark, sizeof mark, "#%u", ++number);
  char *typed = hs_format("%s\r", mark);
  tty_type(&at, typed);
  hs_free(typed);
  u64 begin = hs_now_ns();
  for (;;) {
    *version = prompt();
    if (*version >= 0 && memmem(at.seen.p, at.seen.n, mark, (size_t)n)) return true;
    int left = NEVER_MS - (int)((hs_now_ns() - begin) / 1000000);
    if (left <= 0 || !tty_read(&at, left)) return false;
  }
}

static void fail(const char *file, const char *line, const char *what, double clock, double cpu) {
  failures++;
  printf("FAIL %s: %s: %s (%.0f ms, %.0f ms of CPU)\n", file, line, what, clock, cpu);
  fflush(stdout);
}

static bool start(const char *file) {
  const char *const argv[] = {"hlosh", "--no-rc", file, NULL};
  int version;
  if (tty_start(&at, at.home, argv) && wait_prompt(LOAD_MS, &version)) return true;
  int status = tty_end(&at, NEVER_MS);
  if (status < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
    fail(file, "load", "no prompt", 0, 0);
  else if (verbose) printf("%s: refused\n", file);
  return false;
}

// One command with one delay. False: the session has to be started anew. *slow: in, whether being
// slow is a failure by now; out, whether it was.
static bool try_once(const char *file, const char *line, int delay, bool *was_done, bool *slow) {
  int before = 0, after = 0;
  if (!in_step(&before)) return fail(file, line, "deaf before", 0, 0), false;
  char *typed = hs_format("%s\r", line);
  tty_type(&at, typed);
  hs_free(typed);
  tries++;
  *was_done = wait_prompt(delay, &after);
  bool ok = *was_done;
  if (!ok) {
    double cpu = cpu_ms(at.child);
    u64 begin = hs_now_ns();
    interrupted++;
    tty_send(&at, "\x03");  // the prompt may be there by now
    ok = wait_prompt(NEVER_MS, &after);
    double clock = (double)(hs_now_ns() - begin) * 1e-6;
    cpu = cpu_ms(at.child) - cpu;
    double took = HS_MIN(clock, cpu);
    if (verbose && clock > 50)
      printf("%s: %s after %d ms: %.0f ms, %.0f ms of CPU\n", file, line, delay, clock, cpu);
    if (!ok)
      fail(file, line, waitpid(at.child, NULL, WNOHANG) ? "the shell ended" : "deaf", clock, cpu);
    else if (took > limit && *slow) fail(file, line, "slow", clock, cpu);
    else if (took > worst) worst = took;
    *slow = took > limit;
  }
  if (ok && after > before) {  // the version it made goes
    char undo[40];
    int now;
    // a prompt of the Ctrl-C may still be under way behind the command's own
    if (!in_step(&now)) return fail(file, line, "deaf after", 0, 0), false;
    snprintf(undo, sizeof undo, "goto %d\r", before);
    tty_type(&at, undo);
    if (!wait_prompt(NEVER_MS, &now) || now != before)
      return fail(file, line, "goto does not go back", 0, 0), false;
  }
  return ok;
}

static bool try(const char *file, const char *line, int delay, bool *was_done) {
  for (int k = 1;; k++) {
    bool last = k == TRIES, slow = last;
    if (!try_once(file, line, delay, was_done, &slow)) return false;
    if (!slow || last) return true;
  }
}

static bool left_out(const char *name) {
  static const char *const names[] = {"quit", "exit", "!", "q", "source", "new", "close", "load"};
  for (size_t k = 0; k < HS_COUNT(names); k++)
    if (strcmp(name, names[k]) == 0) return true;
  return false;
}

static bool try_all(const char *file, const char *line) {
  bool done = false;
  for (int d = 0; d < DELAYS && !done; d++) {
    if (try(file, line, delays[d], &done)) continue;
    (void)tty_end(&at, 0);
    if (!start(file)) return false;
    if (d == 0) continue;
    break;
  }
  return true;
}

static void only_file(const char *path) {
  if (!start(path)) return;
  bool done = false;
  for (int d = 1; d < ONLY_MOST_MS && !done; d += ONLY_STEP_MS)
    if (!try(path, only, d, &done)) {
      (void)tty_end(&at, 0);
      if (!start(path)) return;
    }
  (void)tty_end(&at, 0);
}

static void file(const char *path) {
  static const char *const lines[] = {
      "load %s",
      "print",
      "print --canonical",
      "diff 0 0",
      "verify",
      "stats",
      "pipeline cpu",
      "pipeline tuned",
      "pipeline gpu",
      "list",
      "list name *a*",
      "find where flops > 1 order by bytes desc",
      "plot -o=/dev/null",
      "plot -o=/dev/null.svg",
      "explore -o=/dev/null",
      "save /dev/null",
      "save /dev/null.pb",
      "save /dev/null.pbtxt",
      "save /dev/null.mlir",
      "save /dev/null.mlirbc",
      "shrink '! false'",
      "shrink dce bigger",
      "estimate",
      "run",
      "backend interp; run",
      "backend interp; check cpu",
      "run --capture=*",
      "compile",
      "report bundle",
      "speedup",
      "speedup --on=h100",
      "savings --by=pass --seconds=1",
      "speedup --sweep=0.0=2,4,8 --on=h100",
      "profile --isolated --seconds=1",
      "savings",
      "bisect nan",
      "why not fused",
      "memory",
      "memory --model",
      "memory recompute --model",
      "memory donation --model",
      "resize 0.0=x2 --follow",
      "fit 1TB 0.0",
      "target h100; estimate",
      "pass cse; diff 0",
  };
  if (!start(path)) return;
  for (size_t k = 0; k < HS_COUNT(lines); k++) {
    char *line = strstr(lines[k], "%s") ? hs_format("load %s", path) : hs_strdup(lines[k]);
    bool ok = try_all(path, line);
    hs_free(line);
    if (!ok) return;
  }
  for (u32 k = 0; k < repl_command_count; k++) {
    const repl_command *c = &repl_commands[k];
    if ((c->needs & REPL_HIDDEN) || left_out(c->name)) continue;
    if (!try_all(path, c->name)) return;
  }
  (void)tty_end(&at, 0);
}

int main(int argc, char **argv) {
  int rc = tty_open(&at, argv[0]);
  if (rc) return rc;
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "--verbose") == 0) verbose = true;
    else if (strncmp(argv[k], "--ms=", 5) == 0) limit = atoi(argv[k] + 5);
    else if (strncmp(argv[k], "--only=", 7) == 0) only = argv[k] + 7;
    else {
      char *path = realpath(argv[k], NULL);
      (only ? only_file : file)(path ? path : argv[k]);
      free(path);
    }
  }
  tty_close(&at);
  printf("interrupt: %d tries, %d interrupted, %d failed, worst %.0f ms\n", tries, interrupted,
         failures, worst);
  return failures ? 1 : 0;
}
