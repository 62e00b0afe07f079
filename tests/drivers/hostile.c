// hostile.c: files that once broke the shell, or might, through every command that looks at or
// works on a module: it works or says why not, soon and within bounds.
//
//   hostile [-j N] [--endless NAME]... [--line COMMANDS]... FILE...
//
// For each file and command a process of its own: it must exit by itself with one of the
// documented codes, print a diagnostic with a code when that is not 0, use at most 2 s of CPU time
// (children too) and 1 GB of memory. A file whose program never ends (--endless) may run into a
// deadline of 2 s, which must then end it. The others get one of 20 s, since a test machine may be
// busy: their bound is the CPU time.
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/base.h"
#include "tests/harness/driver.h"

enum { CPU_MS = 2000, WALL_MS = 30000, RSS_KB = 1 << 20 };

static const char *const all_lines[] = {
    "print",
    "print --canonical",
    "info p",
    "list",
    "stacktrace p",
    "verify",
    "stats",
    "show",
    "find where bytes > 0 order by flops",
    "plot -o=/dev/null.dot",
    "plot -o=graph.json",
    "explore -o=page.html",
    "save /dev/null",
    "support",
    "estimate",
    "memory",
    "memory --model",
    "memory recompute --model",
    "memory donation --model",
    "resize 0.0=x2 --follow",
    "fit 1GB 0.0",
    "estimate --on=h100",
    "run",
    "backend interp; run",
    "compile",
    "check cpu interp",
    "diff 0 0",
    "pipeline cpu",
    "pipeline tuned",
    "pass dot_decomposer",
    "pass algsimp; diff",
    "pass call-inliner",
    "pass flatten-call-graph",
    "pass constant_folding",
    "why not fused",
    "extract p",
    "speedup --on=h100 --seconds=0.2",
    "savings",
    "isolate p",
};

static char hlosh[PATH_MAX], home[] = "/tmp/hlosh-hostile.XXXXXX";
static drv_args args;
static const char *lines[HS_COUNT(all_lines)];  // those asked for (--line), else all
static u32 nlines;
static u32 failures;

typedef struct outcome {
  int status;
  double cpu_ms, wall_ms;
  long rss_kb;
  bool coded;  // a line with an error's code
} outcome;

static bool has_code(const char *text) {
  for (const char *e = text; (e = strstr(e, "E0")) || (e = NULL); e++)
    if (strspn(e + 1, "0123456789") == 4) return true;
  return false;
}

static bool run(const char *file, const char *line, bool may_be_endless, outcome *o) {
  int p[2];
  if (pipe(p) != 0) return false;
  u64 begin = hs_now_ns();
  pid_t child = fork();
  if (child == 0) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0), dup2(null, 1), dup2(p[1], 2);
    close(p[0]), close(p[1]);
    if (chdir(home) != 0) _exit(126);
    execl(hlosh, "hlosh", "--no-rc", may_be_endless ? "--deadline=2" : "--deadline=20", file, "-c",
          line, (char *)NULL);
    _exit(126);
  }
  close(p[1]);
  hs_buf text = {0};
  for (;;) {
    struct pollfd f = {.fd = p[0], .events = POLLIN};
    char block[4096];
    if ((hs_now_ns() - begin) / 1000000 > WALL_MS) kill(child, SIGKILL);
    if (poll(&f, 1, 1000) <= 0) continue;
    ssize_t n = read(p[0], block, sizeof block);
    if (n <= 0) break;
    for (ssize_t k = 0; k < n; k++) hs_buf_putc(&text, block[k] ? block[k] : ' ');
  }
  close(p[0]);
  struct rusage u;
  if (child < 0 || wait4(child, &o->status, 0, &u) != child) return false;
  o->wall_ms = (double)(hs_now_ns() - begin) * 1e-6;
  o->cpu_ms = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
              (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-3;
  o->rss_kb = u.ru_maxrss;
  o->coded = text.n && has_code(hs_buf_cstr(&text));
  hs_buf_free(&text);
  return true;
}

static const char *fault(const outcome *o, bool may_be_endless) {
  if (!WIFEXITED(o->status)) return "did not end by itself";
  int code = WEXITSTATUS(o->status);
  if (code > 6 && code != 124) return "an undocumented exit code";
  if (code == 124 && !may_be_endless) return "ran into the deadline";
  if (code && !o->coded) return "no diagnostic with a code";
  if (o->cpu_ms > CPU_MS + (code == 124 ? 500 : 0)) return "too slow";
  return o->rss_kb > RSS_KB ? "too much memory" : NULL;
}

// Case k: a file and a line.
static int try_one(void *arg, u32 k, FILE *out) {
  (void)arg;
  const char *name = args.v[k / nlines], *line = lines[k % nlines];
  bool may = false;
  for (u32 o = 0; o < args.nopts; o++)
    may |= strcmp(args.key[o], "endless") == 0 && strstr(name, args.value[o]) != NULL;
  outcome o = {0};
  char *file = realpath(name, NULL);
  const char *what = !file                      ? "no such file"
                     : run(file, line, may, &o) ? fault(&o, may)
                                                : "cannot be started";
  free(file);
  if (what)
    fprintf(out, "FAIL %s: %s: %s (status %x, %.0f ms of CPU, %.0f ms, %ld kB)\n", name, line, what,
            (unsigned)o.status, o.cpu_ms, o.wall_ms, o.rss_kb);
  return what != NULL;
}

static void report(void *arg, u32 k, drv_result *r) {
  (void)arg;
  if (!r->verdict) return;
  failures++;
  if (*r->text) printf("%s", r->text);
  else printf("FAIL case %u: %s\n", k, r->ending);
  fflush(stdout);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f) {
  (void)st, (void)flag, (void)f;
  return remove(path);
}

int main(int argc, char **argv) {
  static const char *const options[] = {"endless", "line", NULL};
  const char *env = getenv("HLOSH");
  if (!drv_parse(argc, argv, options, &args)) return 2;
  if (!realpath(env ? env : "build/hlosh", hlosh) || !mkdtemp(home)) return 2;
  for (u32 o = 0; o < args.nopts; o++)
    if (strcmp(args.key[o], "line") == 0) lines[nlines++] = args.value[o];
  if (!nlines) memcpy(lines, all_lines, sizeof all_lines), nlines = HS_COUNT(all_lines);
  u32 n = args.n * nlines;
  drv_run(n, args.jobs, WALL_MS * 1e-3 + 10, try_one, report, NULL);
  nftw(home, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  printf("hostile: %u runs, %u failed\n", n, failures);
  return failures ? 1 : 0;
}
