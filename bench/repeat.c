// repeat.c: do two runs of `speedup` agree? Each pair is two processes, one after the other, that
// measure the same module; what is compared is the ratio of baseline and optimized that each
// prints, with its interval.
//
//   bench/repeat [--pairs N] [--skip N] [--seconds S] [--busy] [--verbose] FILE.hlo...
//
// Pair k is of file k modulo the number of files; --skip leaves out the first pairs, so that a long
// run can be made in pieces. --busy: another process keeps a core busy meanwhile. HLOSH names the
// binary.
//
// Two runs agree when their ratios differ by no more than the interval of the difference, whose
// half-width is the root of the sum of the squares of theirs: for 95 % intervals that is to hold 19
// times of 20. A pair of which one run says "too noisy" claims nothing and is counted apart. On a
// machine with other work every run must say that it was loud; pairs of which neither did are
// counted once more by themselves.
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "repl/formats/json.h"

typedef struct options {
  u32 pairs, skip;
  double seconds;
  bool busy, verbose;
} options;

// What one run said; bounds as logarithms. width < 0: it failed.
typedef struct said {
  double ratio, width;
  bool noisy, loud;
} said;

typedef struct totals {
  u32 pairs, agree, overlap, noisy, failed, loud, runs;
  u32 quiet, quiet_agree;  // of those that claim something: neither run was loud
  HS_VEC(double) widths;
} totals;

static const repl_json *of_speedup(const char *line, repl_json **doc) {
  *doc = repl_json_parse(line, strlen(line));
  const char *command = repl_json_get_str(*doc, "command");
  return command && strcmp(command, "speedup") == 0 ? repl_json_get(*doc, "saving") : NULL;
}

static void take(const repl_json *doc, const repl_json *saving, said *out) {
  double r = repl_json_get_num(saving, "speedup", 0),
         low = repl_json_get_num(saving, "speedup_low", 0),
         high = repl_json_get_num(saving, "speedup_high", 0);
  const char *verdict = repl_json_get_str(saving, "verdict");
  const repl_json *noise = repl_json_get(doc, "noise");
  if (!(low > 0) || !verdict) return;
  *out = (said){.ratio = log(r), .width = (log(high) - log(low)) / 2};
  out->noisy = strcmp(verdict, "too noisy") == 0;
  hs_buf b = {0};
  repl_json_print(repl_json_get(noise, "loud"), &b);
  out->loud = strcmp(hs_buf_cstr(&b), "true") == 0;
  hs_buf_free(&b);
}

static said run(const char *file, const options *o) {
  said s = {.width = -1};
  const char *hlosh = getenv("HLOSH");
  char *command = hs_format("'%s' --no-rc --json '%s' -c 'speedup --seconds=%g' 2>/dev/null",
                            hlosh ? hlosh : "build/hlosh", file, o->seconds);
  FILE *p = popen(command, "r");
  char *line = NULL;
  size_t cap = 0;
  while (p && getline(&line, &cap, p) > 0) {
    repl_json *doc;
    const repl_json *saving = of_speedup(line, &doc);
    if (saving) take(doc, saving, &s);
    repl_json_free(doc);
  }
  free(line);
  if (p) pclose(p);
  hs_free(command);
  return s;
}

static void one_pair(const char *file, const options *o, totals *t) {
  said a = run(file, o), b = run(file, o);
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file, *what = "agree";
  t->pairs++;
  t->runs += 2;
  t->loud += (u32)a.loud + (u32)b.loud;
  if (a.width < 0 || b.width < 0) {
    t->failed++;
    printf("FAIL %s: no ratio\n", name);
    return;
  }
  double apart = fabs(a.ratio - b.ratio);
  if (a.noisy || b.noisy) {
    t->noisy++;
    what = "too noisy";
  } else {
    hs_vec_push(&t->widths, a.width);
    hs_vec_push(&t->widths, b.width);
    bool agree = apart <= hypot(a.width, b.width);
    t->agree += agree;
    t->overlap += apart <= a.width + b.width;
    t->quiet += !a.loud && !b.loud;
    t->quiet_agree += agree && !a.loud && !b.loud;
    if (!agree) what = "DIFFER";
  }
  if (o->verbose || strcmp(what, "DIFFER") == 0) {
    printf("%-9s %.3fx +-%.1f %%  %.3fx +-%.1f %%  %s\n", what, exp(a.ratio), 100 * a.width,
           exp(b.ratio), 100 * b.width, name);
    fflush(stdout);
  }
}

static pid_t keep_busy(void) {
  pid_t pid = fork();
  if (pid) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (volatile u64 k = 0;; k++) {}
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int usage(void) {
  fprintf(stderr, "usage: repeat [--pairs N] [--skip N] [--seconds S] [--busy] [--verbose] "
                  "FILE.hlo...\n");
  return 2;
}

int main(int argc, char **argv) {
  options o = {.pairs = 40, .seconds = 3};
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    const char *value = at + 1 < argc ? argv[at + 1] : "";
    if (strcmp(argv[at], "--busy") == 0) o.busy = true;
    else if (strcmp(argv[at], "--verbose") == 0) o.verbose = true;
    else if (strcmp(argv[at], "--pairs") == 0) o.pairs = (u32)strtoul(value, NULL, 10), at++;
    else if (strcmp(argv[at], "--skip") == 0) o.skip = (u32)strtoul(value, NULL, 10), at++;
    else if (strcmp(argv[at], "--seconds") == 0) o.seconds = strtod(value, NULL), at++;
    else return usage();
  }
  if (at >= argc || !o.pairs || !(o.seconds > 0)) return usage();
  if (!repl_json_built()) {
    fprintf(stderr, "repeat: the build lacks cJSON\n");
    return 2;
  }
  u32 files = (u32)(argc - at);
  totals t = {0};
  pid_t busy = o.busy ? keep_busy() : 0;
  for (u32 k = o.skip; k < o.skip + o.pairs; k++) one_pair(argv[at + (int)(k % files)], &o, &t);
  if (busy > 0) {
    kill(busy, SIGKILL);
    waitpid(busy, NULL, 0);
  }
  if (t.widths.n) qsort(t.widths.v, t.widths.n, sizeof *t.widths.v, ascending);
  u32 claimed = t.pairs - t.noisy - t.failed;
  printf("repeat: %u/%u agree, %u/%u overlap, %u too noisy, half-width median %.1f %%, loud %u/%u "
         "runs, of quiet pairs %u/%u agree\n",
         t.agree, claimed, t.overlap, claimed, t.noisy,
         t.widths.n ? 100 * t.widths.v[t.widths.n / 2] : 0.0, t.loud, t.runs, t.quiet_agree,
         t.quiet);
  hs_vec_free(&t.widths);
  return !t.failed && t.agree * 20 >= claimed * 19 ? 0 : 1;
}
