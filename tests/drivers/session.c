// session.c — runs transcripts: tests/session FILE.session...
//
// A transcript is what a user would see. Lines that begin with "$ " are given to hlosh ("> "
// continues one); what stands below is the expected output, standard error included, up to the next
// command. "..." inside a line stands for any text, on a line of its own for any number of lines.
// "# args: ..." in the first lines adds options; other lines that begin with "# " before the first
// command are comments. A last line "? N" states the exit status (default 0 unless a command fails,
// since the session runs with --keep-going).
//
// Each file runs in a folder of its own; @SRC@ stands for the source tree. `session --print FILE`
// prints the transcript as it is now. HLOSH names the binary.
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/base.h"

#define SENTINEL "==next-command=="

typedef struct step {
  hs_buf command, expect, got;
  u32 line;
} step;
typedef struct session {
  HS_VEC(step) steps;
  HS_VEC(char *) args;
  int exit;
  bool has_exit;
  hs_buf head;
} session;

static char src[PATH_MAX];

static void put_line(hs_buf *b, const char *p) {
  for (const char *at; (at = strstr(p, "@SRC@")) != NULL; p = at + 5) {
    hs_buf_put(b, p, (size_t)(at - p));
    hs_buf_puts(b, src);
  }
  hs_buf_puts(b, p);
}

static bool read_session(const char *path, session *s) {
  FILE *f = fopen(path, "re");
  if (!f) return false;
  char *line = NULL;
  size_t cap = 0;
  u32 number = 0;
  for (ssize_t n; (n = getline(&line, &cap, f)) >= 0;) {
    number++;
    while (n && line[n - 1] == '\n') line[--n] = 0;
    step *last = s->steps.n ? &s->steps.v[s->steps.n - 1] : NULL;
    if (!last && strncmp(line, "# args: ", 8) == 0)
      for (char *save, *w = strtok_r(line + 8, " ", &save); w; w = strtok_r(NULL, " ", &save))
        hs_vec_push(&s->args, hs_strdup(w));
    if (strncmp(line, "$ ", 2) == 0) {
      step next = {.line = number};
      put_line(&next.command, line + 2);
      hs_vec_push(&s->steps, next);
    } else if (last && strncmp(line, "> ", 2) == 0 && !last->expect.n) {
      hs_buf_putc(&last->command, '\n');
      put_line(&last->command, line + 2);
    } else if (strncmp(line, "? ", 2) == 0) {
      s->has_exit = true;
      s->exit = atoi(line + 2);
    } else if (last) {
      put_line(&last->expect, line);
      hs_buf_putc(&last->expect, '\n');
    } else {
      hs_buf_printf(&s->head, "%s\n", line);
    }
  }
  free(line);
  fclose(f);
  return s->steps.n > 0;
}

// Does `line` match `pattern`, in which "..." stands for any text?
static bool line_matches(const char *pattern, size_t np, const char *line, size_t nl) {
  size_t k = 0;
  while (k < np && (k + 3 > np || memcmp(pattern + k, "...", 3) != 0)) k++;
  if (k == np) return np == nl && memcmp(pattern, line, nl) == 0;
  if (nl < k || memcmp(pattern, line, k) != 0) return false;
  for (size_t at = k; at <= nl; at++)
    if (line_matches(pattern + k + 3, np - k - 3, line + at, nl - at)) return true;
  return false;
}

static bool text_matches(const char *want, const char *got) {
  if (!*want) return !*got;
  size_t n = strcspn(want, "\n");
  const char *next = want + n + (want[n] == '\n');
  if (n == 3 && memcmp(want, "...", 3) == 0) {
    for (const char *at = got;; at += strcspn(at, "\n") + 1) {
      if (text_matches(next, at)) return true;
      if (!*at) return false;
    }
  }
  if (!*got) return false;
  size_t m = strcspn(got, "\n");
  return line_matches(want, n, got, m) && text_matches(next, got + m + (got[m] == '\n'));
}

// Starts hlosh with its output on a pipe; feeds it from a file so that neither side waits for the
// other.
static pid_t start(const session *s, const char *hlosh, const char *script, int *out) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    int in = open(script, O_RDONLY);
    dup2(in, 0);
    dup2(fds[1], 1);
    dup2(fds[1], 2);
    char **argv = hs_calloc(s->args.n + 4, sizeof *argv);
    argv[0] = hs_strdup(hlosh);
    argv[1] = hs_strdup("--keep-going");
    for (size_t k = 0; k < s->args.n; k++) argv[k + 2] = s->args.v[k];
    execv(hlosh, argv);
    _exit(126);
  }
  close(fds[1]);
  *out = fds[0];
  return pid;
}

static void deal_out(session *s, const char *text) {
  size_t k = 0;
  for (const char *p = text; *p && k < s->steps.n;) {
    size_t n = strcspn(p, "\n");
    if (memmem(p, n, SENTINEL, strlen(SENTINEL))) k++;
    else hs_buf_printf(&s->steps.v[k].got, "%.*s\n", (int)n, p);
    p += n + (p[n] == '\n');
  }
}

static bool run(session *s, const char *hlosh, int *status) {
  FILE *f = fopen("commands", "we");
  if (!f) return false;
  for (size_t k = 0; k < s->steps.n; k++)
    fprintf(f, "%s\n!echo " SENTINEL "\n", hs_buf_cstr(&s->steps.v[k].command));
  fclose(f);
  int out = -1;
  pid_t pid = start(s, hlosh, "commands", &out);
  if (pid < 0) return false;
  hs_buf text = {0};
  char block[4096];
  u64 begin = hs_now_ns();
  for (;;) {
    struct pollfd p = {.fd = out, .events = POLLIN};
    int left = 100000 - (int)((hs_now_ns() - begin) / 1000000);
    if (left <= 0 || poll(&p, 1, left) == 0) {
      kill(pid, SIGKILL);
      hs_buf_puts(&text, "session: hlosh ran for 100 s and was stopped\n");
      break;
    }
    ssize_t n = read(out, block, sizeof block);
    if (n <= 0) break;
    hs_buf_put(&text, block, (size_t)n);
  }
  waitpid(pid, status, 0);
  close(out);
  deal_out(s, hs_buf_cstr(&text));
  hs_buf_free(&text);
  return true;
}

static void indent(const char *title, const char *text) {
  printf("  %s\n", title);
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, "\n");
    printf("    %.*s\n", (int)n, p);
    p += n + (p[n] == '\n');
  }
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f) {
  (void)st, (void)flag, (void)f;
  return remove(path);
}

static int check(const session *s, const char *path, int status) {
  int bad = 0;
  bool any_exit = WIFEXITED(status);
  for (size_t k = 0; k < s->steps.n; k++) {
    step *t = &s->steps.v[k];
    if (text_matches(hs_buf_cstr(&t->expect), hs_buf_cstr(&t->got))) continue;
    bad++;
    printf("FAIL %s:%u: $ %s\n", path, t->line, hs_buf_cstr(&t->command));
    indent("expected:", hs_buf_cstr(&t->expect));
    indent("got:", hs_buf_cstr(&t->got));
  }
  if (!any_exit) printf("FAIL %s: hlosh was ended by signal %d\n", path, WTERMSIG(status)), bad++;
  else if (s->has_exit && WEXITSTATUS(status) != s->exit)
    printf("FAIL %s: exit status %d, expected %d\n", path, WEXITSTATUS(status), s->exit), bad++;
  return bad;
}

static void print_transcript(const session *s, int status) {
  fputs(s->head.n ? s->head.p : "", stdout);
  for (size_t k = 0; k < s->steps.n; k++) {
    step *t = &s->steps.v[k];
    fputs("$ ", stdout);
    for (const char *p = hs_buf_cstr(&t->command); *p; p++) {
      putchar(*p);
      if (*p == '\n') fputs("> ", stdout);
    }
    printf("\n%s", hs_buf_cstr(&t->got));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status)) printf("? %d\n", WEXITSTATUS(status));
}

static int run_file(const char *path, const char *hlosh, bool print) {
  session s = {0};
  if (!read_session(path, &s)) {
    printf("FAIL %s: no commands in it\n", path);
    return 1;
  }
  char dir[] = "/tmp/hlosh-session.XXXXXX", here[PATH_MAX];
  if (!mkdtemp(dir) || !getcwd(here, sizeof here) || chdir(dir) != 0) {
    perror("session");
    return 1;
  }
  setenv("HOME", dir, 1);
  int status = 0, bad = 1;
  if (!run(&s, hlosh, &status))
    printf("FAIL %s: cannot run %s: %s\n", path, hlosh, strerror(errno));
  else if (print) print_transcript(&s, status), bad = 0;
  else bad = check(&s, path, status);
  if (chdir(here) != 0) perror(here);
  nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  for (size_t k = 0; k < s.steps.n; k++)
    hs_buf_free(&s.steps.v[k].command), hs_buf_free(&s.steps.v[k].expect),
        hs_buf_free(&s.steps.v[k].got);
  hs_vec_free(&s.steps);
  for (size_t k = 0; k < s.args.n; k++) hs_free(s.args.v[k]);
  hs_vec_free(&s.args);
  hs_buf_free(&s.head);
  return bad != 0;
}

int main(int argc, char **argv) {
  char self[PATH_MAX], hlosh[PATH_MAX + 32];
  if (!realpath(argv[0], self) || !getcwd(src, sizeof src)) return 2;
  const char *env = getenv("HLOSH");
  *strrchr(self, '/') = 0;
  if (env && *env) snprintf(hlosh, sizeof hlosh, "%s", env);
  else snprintf(hlosh, sizeof hlosh, "%s/../hlosh", self);
  if (!realpath(hlosh, self)) {
    fprintf(stderr, "session: no %s\n", hlosh);
    return 2;
  }
  char *build = strdup(self);
  *strrchr(build, '/') = 0;
  setenv("HLOSH_BUILD", build, 0);  // where the plug-ins for tests are
  setenv("HLOSH", self, 1);         // for commands of the system's shell in a transcript
  free(build);
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("XDG_STATE_HOME");
  setenv("XDG_CACHE_HOME", "/nonexistent", 1);  // no calibration: estimates are the same everywhere
  unsetenv("XLA_FLAGS");
  setenv("NO_COLOR", "1", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  int bad = 0, n = 0;
  bool print = false;
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "--print") == 0) {
      print = true;
      continue;
    }
    n++;
    bad += run_file(argv[k], self, print);
  }
  if (!print) printf("session: %d/%d\n", n - bad, n);
  return bad ? 1 : 0;
}
