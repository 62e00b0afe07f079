// parse.c — how fast HLO text becomes a module, beside real XLA in the same run.
//
// Both sides read the same file from memory, in turns: one parse of ours, one of XLA's
// hlo_module_from_text (jaxlib, in a Python child that answers over a pipe), so that whatever else
// the machine does hits both alike; the clock is the CPU time of the one thread, page faults
// included. A file of StableHLO is read and converted to HLO on both sides. No verifier on either
// side; what the parsers built is freed outside the clock. Ours runs from the bytes to a finished
// module plus a hash over every instruction's name, shape, operands and attributes (metadata
// included), which is printed: nothing is left to be resolved later. A module's memory is the
// growth of the peak resident size over one parse in a process of its own.
//
//   parse [--rounds N] FILE...        prints a line per file; last line: geomean A× (XLA ÷
//                                     hlosh), worst B× (file)
//   parse --no-peer FILE...           our side only, in MB/s
#include "core/mlir/mlir.h"
#include "core/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAX_ROUNDS = 400 };
static const double MB = 1e6, BYTES_LIMIT = 8, BIG_FILE = 2e6;

typedef struct peer {
  pid_t pid;
  FILE *to, *from;
} peer;
// seconds; xla 0: not measured
typedef struct row {
  const char *file;
  double bytes, ours, xla, growth;
} row;

static u64 hash_str(u64 h, hs_str s) { return hs_hash_bytes(s.p, s.n, h); }

static u64 hash_metadata(u64 h, const hlo_metadata *md) {
  h = hash_str(hash_str(hash_str(h, md->op_name), md->op_type), md->source_file);
  h = hs_fold(h ^ (u64)md->source_line, (u64)(u32)md->stack_frame_id + 0x9E3779B97F4A7C15u);
  const hlo_metadata_rest *rest = hlo_metadata_rest_of(md);
  return hash_str(hash_str(h, rest->deduplicated_name), rest->scheduling_name);
}

static u64 hash_attr(u64 h, const hlo_attr *a) {
  switch (hlo_attr_kind_of(a->id)) {
  case HLO_AK_COMP: return hs_mix(h, a->v.comp->id);
  case HLO_AK_COMPS:
    for (u32 k = 0; k < a->v.comps.n; k++) h = hs_mix(h, a->v.comps.v[k]->id);
    return h;
  case HLO_AK_METADATA: return hash_metadata(h, a->v.p);
  default: return hlo_attr_hash(a, h);
  }
}

static u64 module_hash(const hlo_module *m) {
  u64 h = 0;
  hlo_for_each_comp(c, m) {
    h = hs_mix(hs_mix(h, c->id), c->root ? c->root->id : 0);
    hlo_for_each_instr(i, c) {
      h = hs_fold(h ^ i->opcode, i->shape->hash);
      h = hash_str(h, hs_str_of(i->name));
      for (u32 k = 0; k < i->noperands; k++) h = hs_mix(h, hlo_operand(i, k)->id);
      for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
        h = hs_mix(h, i->ctrl_preds->v[k]->id);
      for (u32 k = 0; i->attrs && k < i->attrs->n; k++) h = hash_attr(h, &i->attrs->v[k]);
    }
  }
  for (u32 k = 0; m->attrs && k < m->attrs->n; k++) h = hash_attr(h, &m->attrs->v[k]);
  return h;
}

static char *read_all(const char *path, size_t *n) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) {
    if (fd >= 0) close(fd);
    return NULL;
  }
  char *text = hs_alloc((size_t)st.st_size + 1);
  for (*n = 0; *n < (size_t)st.st_size;) {
    ssize_t got = read(fd, text + *n, (size_t)st.st_size - *n);
    if (got <= 0) break;
    *n += (size_t)got;
  }
  close(fd);
  return text;
}

static double thread_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static hs_status read_text(hlo_ctx *ctx, const char *text, size_t n, hlo_module **out) {
  if (hlo_is_mlir(text, n)) return hlo_mlir_read(ctx, text, n, NULL, out);
  return hlo_parse(ctx, text, n, NULL, out);
}

// Seconds of one parse, a negative number when the text is refused. The context is new each time:
// nothing is remembered.
static double parse_once(const char *text, size_t n, u64 *hash) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m;
  double start = thread_seconds();
  hs_status s = read_text(ctx, text, n, &m);
  if (m) *hash = module_hash(m);
  double seconds = thread_seconds() - start;
  if (!m) hs_status_drop(s), seconds = -1;
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return seconds;
}

// ---- memory -------------------------------------------------------------------------------------
static double status_kb(const char *key) {
  FILE *f = fopen("/proc/self/status", "re");
  char line[256];
  double v = 0;
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, key, strlen(key)) == 0) v = atof(line + strlen(key));
  if (f) fclose(f);
  return v;
}

// `parse --memory FILE`, run by ourselves: prints the growth in bytes.
static int memory_main(const char *path) {
  size_t n;
  char *text = read_all(path, &n);
  if (!text) return 1;
  // "5" sets the peak back to what is resident now
  int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "5", 1) != 1) fprintf(stderr, "parse: no peak can be reset here\n");
  close(fd);
  double before = status_kb("VmRSS:");
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m;
  hs_status s = read_text(ctx, text, n, &m);
  if (!m) return hs_status_drop(s), 1;
  printf("%.0f\n", (status_kb("VmHWM:") - before) * 1024);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  hs_free(text);
  return 0;
}

static double memory_growth(const char *self, const char *path) {
  int fds[2];
  if (pipe(fds) != 0) return 0;
  posix_spawn_file_actions_t a;
  posix_spawn_file_actions_init(&a);
  posix_spawn_file_actions_adddup2(&a, fds[1], 1);
  posix_spawn_file_actions_addclose(&a, fds[0]);
  char *argv[] = {(char *)(uintptr_t)self, (char[]){"--memory"}, (char *)(uintptr_t)path, NULL};
  pid_t pid;
  int failed = posix_spawn(&pid, "/proc/self/exe", &a, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&a);
  close(fds[1]);
  char text[64] = {0};
  ssize_t got = failed ? 0 : read(fds[0], text, sizeof text - 1);
  close(fds[0]);
  if (!failed) waitpid(pid, NULL, 0);
  return got > 0 ? atof(text) : 0;
}

// ---- the peer -----------------------------------------------------------------------------------
static bool peer_start(peer *p, const char *python, const char *script) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return false;
  if (pipe2(out, O_CLOEXEC) != 0) return close(in[0]), close(in[1]), false;
  posix_spawn_file_actions_t a;
  posix_spawn_file_actions_init(&a);
  posix_spawn_file_actions_adddup2(&a, in[0], 0);
  posix_spawn_file_actions_adddup2(&a, out[1], 1);
  char *argv[] = {(char *)(uintptr_t)python, (char *)(uintptr_t)script, NULL};
  int failed = posix_spawn(&p->pid, python, &a, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&a);
  close(in[0]);
  close(out[1]);
  p->to = fdopen(in[1], "w");
  p->from = fdopen(out[0], "r");
  char line[256];
  bool ready = !failed && p->to && p->from && fgets(line, sizeof line, p->from) &&
               strcmp(line, "ready\n") == 0;
  if (!ready) fprintf(stderr, "parse: %s cannot import jaxlib's _hlo\n", python);
  return ready;
}

// Asks "load FILE" or "parse"; the answer is a number, negative when it failed.
static double peer_ask(peer *p, const char *what, const char *arg) {
  char line[256];
  fprintf(p->to, "%s%s%s\n", what, *arg ? " " : "", arg);
  fflush(p->to);
  return fgets(line, sizeof line, p->from) ? atof(line) : -1;
}

static void peer_stop(peer *p) {
  if (p->to) fclose(p->to);
  if (p->from) fclose(p->from);
  if (p->pid > 0) waitpid(p->pid, NULL, 0);
}

// ---- measuring ----------------------------------------------------------------------------------
static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, u32 n) {
  qsort(v, n, sizeof *v, ascending);
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static bool measure(row *r, const char *self, peer *p, u32 rounds) {
  size_t n;
  char *text = read_all(r->file, &n);
  if (!text) return printf("FAIL %s: %s\n", r->file, strerror(errno)), false;
  r->bytes = (double)n;
  r->growth = memory_growth(self, r->file);
  static double ours[MAX_ROUNDS], xla[MAX_ROUNDS];
  u64 hash = 0, first = 0;
  const char *why = NULL;
  if (parse_once(text, n, &first) < 0) why = "hlosh does not parse it";  // also the warm-up
  if (!why && p && (peer_ask(p, "load", r->file) < 0 || peer_ask(p, "parse", "") < 0))
    why = "XLA does not parse it";
  u32 k = 0;
  double spent = 0;
  for (; !why && k < MAX_ROUNDS && (rounds ? k < rounds : k < 7 || (spent < 1 && k < 41)); k++) {
    ours[k] = parse_once(text, n, &hash);
    xla[k] = p ? peer_ask(p, "parse", "") : 0;
    if (hash != first) why = "two parses gave different modules";
    if (xla[k] < 0) why = "XLA failed";
    spent += ours[k] + xla[k];
  }
  hs_free(text);
  if (why) return printf("FAIL %s: %s\n", r->file, why), false;
  r->ours = median(ours, k);
  r->xla = p ? median(xla, k) : 0;
  const char *base = strrchr(r->file, '/');
  printf("%8.2f MB  hlosh %7.1f MB/s", r->bytes / MB, r->bytes / r->ours / MB);
  if (p) printf("  XLA %6.1f MB/s  %6.2f×", r->bytes / r->xla / MB, r->xla / r->ours);
  printf("  memory %4.1f×  hash %016llx  %s\n", r->growth / r->bytes, (unsigned long long)first,
         base ? base + 1 : r->file);
  fflush(stdout);
  return true;
}

static bool summary(const row *rows, size_t n, bool with_peer) {
  double speed = 0, ratio = 0, worst = INFINITY, most = 0;
  const char *worst_file = "", *most_file = "";
  for (size_t k = 0; k < n; k++) {
    speed += log(rows[k].bytes / rows[k].ours / MB);
    if (rows[k].bytes >= BIG_FILE && rows[k].growth / rows[k].bytes > most)
      most = rows[k].growth / rows[k].bytes, most_file = rows[k].file;
    if (!with_peer) continue;
    double x = rows[k].xla / rows[k].ours;
    ratio += log(x);
    if (x < worst) worst = x, worst_file = rows[k].file;
  }
  bool lean = most <= BYTES_LIMIT;
  if (!lean)
    printf("FAIL %s: memory grew by %.1f bytes per byte of text, more than %.0f\n", most_file, most,
           BYTES_LIMIT);
  if (most > 0) printf("memory of files of 2 MB and more: at most %.1f× the file\n", most);
  if (n) printf("hlosh: geomean %.1f MB/s\n", exp(speed / (double)n));
  const char *base = strrchr(worst_file, '/');
  if (n && with_peer)
    printf("geomean %.2f× (XLA ÷ hlosh), worst %.2f× (%s)\n", exp(ratio / (double)n), worst,
           base ? base + 1 : worst_file);
  return lean;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--memory") == 0) return memory_main(argv[2]);
  const char *python = getenv("HLOSH_PEER_PYTHON"), *script = getenv("HLOSH_PEER_SCRIPT");
  bool with_peer = true, ok = true;
  u32 rounds = 0;
  int at = 1;
  for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
    if (strcmp(argv[at], "--no-peer") == 0) with_peer = false;
    else if (strcmp(argv[at], "--rounds") == 0 && at + 1 < argc)
      rounds = (u32)strtoul(argv[++at], NULL, 10);
    else return fprintf(stderr, "usage: parse [--rounds N] [--no-peer] FILE...\n"), 2;
  }
  if (at == argc) return fprintf(stderr, "usage: parse [--rounds N] [--no-peer] FILE...\n"), 2;
  peer p = {0};
  if (with_peer && (!python || !script || !peer_start(&p, python, script))) {
    fprintf(stderr,
            "parse: no Python with jaxlib to compare with: run `make peers`, or name one in "
            "HLOSH_PEER_PYTHON\n");
    return 2;
  }
  row *rows = hs_calloc((size_t)(argc - at), sizeof *rows);
  size_t n = 0;
  for (; at < argc; at++) {
    rows[n] = (row){.file = argv[at]};
    if (measure(&rows[n], argv[0], with_peer ? &p : NULL, rounds)) n++;
    else ok = false;
  }
  ok = summary(rows, n, with_peer) && ok;
  hs_free(rows);
  if (with_peer) peer_stop(&p);
  return ok ? 0 : 1;
}
