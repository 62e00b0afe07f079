// conformance.c — over a folder of HLO modules: parse, roundtrip (print, parse, print), verify,
// run.
//
//   conformance DIR [--only parse,roundtrip,verify,run] [--backend NAME] [-j N] [--timeout SECONDS]
//   [--match TEXT] [--exact]
//
// What is expected of a file comes from DIR/index.tsv (columns kind, form, expected_error,
// expected_output, status_hint, split_input_file, chunks_ok as far as present) and from
// NAME.golden; without them every step must succeed. --exact also demands that the text printed is
// the file's own. Each file is handled in a child of its own: a crash or a timeout is a failure of
// that file. One line `FAIL file: reason` per failure; totals last; exit 1 when anything failed.
#include "backends/backend.h"
#include "backends/worker.h"
#include "core/verify/verify.h"
#include "tests/drivers/golden.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARSE, ROUNDTRIP, VERIFY, RUN, NMODES };
static const char *const mode_names[NMODES] = {"parse", "roundtrip", "verify", "run"};
typedef enum { NOT_COUNTED, PASS, FAILED, SKIPPED } verdict;

static struct {
  const char *dir, *backend, *match;
  bool only[NMODES], exact;
  int jobs;
  double timeout;
} opt = {.jobs = 2, .timeout = 60};

// ---- the index ----------------------------------------------------------------------------------
typedef struct row {
  const char *name, *kind, *form, *expected_error, *expected_output, *options, *verified,
      *status_hint, *split, *chunks_ok;
} row;
typedef struct table {
  row *rows;
  size_t n;
  char *text;
} table;  // rows point into text

static char *cell(char **line) {
  char *s = *line, *e = s ? s + strcspn(s, "\t") : NULL;
  if (!s) return (char *)(uintptr_t) "";
  *line = *e ? e + 1 : NULL;
  *e = 0;
  return s;
}

static table read_index(const char *dir) {
  table t = {0};
  char *path = hs_format("%s/index.tsv", dir);
  size_t n;
  char *text = read_whole(path, &n);
  hs_free(path);
  if (!text) return t;
  t.text = text;
  size_t offset[32];
  u32 columns = 0;
  static const struct {
    const char *title;
    size_t offset;
  } known[] = {{"name", offsetof(row, name)},
               {"file", offsetof(row, name)},
               {"kind", offsetof(row, kind)},
               {"form", offsetof(row, form)},
               {"expected_error", offsetof(row, expected_error)},
               {"expected_output", offsetof(row, expected_output)},
               {"options", offsetof(row, options)},
               {"verified", offsetof(row, verified)},
               {"status_hint", offsetof(row, status_hint)},
               {"split_input_file", offsetof(row, split)},
               {"chunks_ok", offsetof(row, chunks_ok)}};
  size_t cap = 0;
  for (char *line = text, *next; line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    char *rest = line;
    if (line == text) {
      while (rest && columns < 32) {
        char *title = cell(&rest);
        offset[columns] = SIZE_MAX;
        for (size_t k = 0; k < HS_COUNT(known); k++)
          if (strcmp(title, known[k].title) == 0) offset[columns] = known[k].offset;
        columns++;
      }
      continue;
    }
    row r;
    for (size_t k = 0; k < sizeof r / sizeof(char *); k++) ((const char **)&r)[k] = "";
    for (u32 c = 0; c < columns; c++) {
      char *v = cell(&rest);
      if (offset[c] != SIZE_MAX) *(const char **)((char *)&r + offset[c]) = v;
    }
    if (t.n == cap) t.rows = hs_realloc(t.rows, (cap = cap ? cap * 2 : 64) * sizeof *t.rows);
    t.rows[t.n++] = r;
  }
  return t;
}

static const row *find_row(const table *t, const char *file) {
  size_t stem = strlen(file) > 4 ? strlen(file) - 4 : 0;
  for (size_t k = 0; k < t->n; k++) {
    const char *n = t->rows[k].name;
    if (strcmp(n, file) == 0 || (strlen(n) == stem && strncmp(n, file, stem) == 0))
      return &t->rows[k];
  }
  return NULL;
}

// ---- one file, in the child ---------------------------------------------------------------------
static int report_fd;

static void report(int mode, verdict v, const char *fmt, ...) HS_PRINTF(3, 4);
static void report(int mode, verdict v, const char *fmt, ...) {
  char text[3000];
  int n = snprintf(text, 16, "%d %d ", mode, (int)v);
  va_list ap;
  va_start(ap, fmt);
  n += vsnprintf(text + n, sizeof text - 32, fmt, ap);
  va_end(ap);
  n = HS_MIN(n, (int)sizeof text - 16);
  for (int k = 0; k < n; k++)
    if (text[k] == '\n') text[k] = ' ';
  text[n++] = '\n';
  for (int at = 0; at < n;) {
    ssize_t w = write(report_fd, text + at, (size_t)(n - at));
    if (w < 0 && errno != EINTR) _exit(9);
    if (w > 0) at += (int)w;
  }
}

// A status as one line; consumes it.
static char *status_line(hs_status s) {
  hs_buf b = {0};
  if (s.err) {
    hs_buf_printf(&b, "%u:%u: %s: %s", s.err->line, s.err->col, hs_code_text(s.err->code),
                  s.err->message);
    if (s.err->note) hs_buf_printf(&b, " (%.300s)", s.err->note);
    if (s.err->next) hs_buf_printf(&b, " [and %zu more]", hs_status_count(s) - 1);
    if (s.err->code == HS_E_UNSUPPORTED && s.err->subject)
      hs_buf_printf(&b, " unsupported: %s", s.err->subject);
  }
  char *line = hs_strdup(b.n ? hs_buf_cstr(&b) : "ok");
  hs_buf_free(&b);
  hs_status_drop(s);
  return line;
}

static bool mentions(hs_status s, const char *text) {
  if (strncmp(text, "error: ", 7) == 0) text += 7;  // the frame of XLA's message, not its wording
  for (const hs_diag *d = s.err; d; d = d->next)
    if (strstr(d->message, text) || (d->note && strstr(d->note, text))) return true;
  return false;
}

static hlo_print_options form_options(const char *form) {
  if (strcmp(form, "short") == 0) return hlo_print_short_parsable();
  if (strncmp(form, "canonical", 9) == 0) return hlo_print_canonical();
  hlo_print_options o = hlo_print_full();
  o.print_operand_shape = o.syntax_sugar_async_ops = strcmp(form, "long") == 0;
  return o;
}

// First difference of two texts, for the report.
static char *difference(const char *want, size_t nw, const char *got, size_t ng) {
  size_t k = 0, line = 1;
  while (k < nw && k < ng && want[k] == got[k]) line += want[k++] == '\n';
  size_t from = k > 30 ? k - 30 : 0;
  return hs_format("line %zu: want ...%.*s, got ...%.*s", line, (int)HS_MIN(nw - from, 90u),
                   want + from, (int)HS_MIN(ng - from, 90u), got + from);
}

static size_t trimmed(const char *p, size_t n) {
  while (n && (p[n - 1] == '\n' || p[n - 1] == ' ')) n--;
  return n;
}

static bool check_text(const char *want, size_t nw, const hs_buf *got) {
  nw = trimmed(want, nw);
  size_t ng = trimmed(got->p, got->n);
  if (nw == ng && memcmp(want, got->p, nw) == 0) return true;
  char *d = difference(want, nw, got->p, ng);
  report(ROUNDTRIP, FAILED, "%s", d);
  hs_free(d);
  return false;
}

// What the index asks of the printed text. True when there is nothing against it.
static bool expected_text(const hlo_module *m, const row *r, const char *text, size_t n) {
  bool own = opt.exact || (r && strcmp(r->kind, "roundtrip") == 0);
  bool other = r && *r->expected_output;
  if (!own && !other) return true;
  hs_buf b = {0};
  hlo_print_options o = form_options(r ? r->form : "");
  if (r && strcmp(r->form, "canonical_root_instruction") == 0)
    hlo_print_instr(&b, m->entry->root, &o);
  else hlo_print_module(&b, m, &o);
  bool ok;
  if (other) {
    char *path = hs_format("%s/%s", opt.dir, r->expected_output);
    size_t nw;
    char *want = read_whole(path, &nw);
    ok = want ? check_text(want, nw, &b)
              : (report(ROUNDTRIP, FAILED, "%s: cannot be read", path), false);
    hs_free(path);
    hs_free(want);
  } else {
    ok = check_text(text, n, &b);
  }
  hs_buf_free(&b);
  return ok;
}

// Reads what was printed and prints it again; false when it does not parse (reported).
static bool print_again(hlo_ctx *ctx, const hs_buf *first, hs_buf *second) {
  hlo_module *again;
  hs_status s = hlo_parse(ctx, first->p, first->n, NULL, &again);
  if (!hs_ok(s)) {
    char *line = status_line(s);
    report(ROUNDTRIP, FAILED, "what is printed does not parse: %s", line);
    hs_free(line);
    return false;
  }
  hlo_print_options o = hlo_print_full();
  hlo_print_module(second, again, &o);
  hlo_module_free(again);
  return true;
}

// Exact from the first print on; with stack frames from the second, as they are numbered in the
// order of the text that is read, which printing changes once.
static void do_roundtrip(hlo_ctx *ctx, const hlo_module *m, const row *r, const char *text,
                         size_t n) {
  hs_buf once = {0}, twice = {0};
  hlo_print_options o = hlo_print_full();
  hlo_print_module(&once, m, &o);
  bool ok = print_again(ctx, &once, &twice);
  if (ok && m->frames) {
    once.n = 0;
    hs_buf_put(&once, twice.p, twice.n);
    twice.n = 0;
    ok = print_again(ctx, &once, &twice);
  }
  if (ok && !(ok = once.n == twice.n && memcmp(once.p, twice.p, once.n) == 0)) {
    char *d = difference(once.p, once.n, twice.p, twice.n);
    report(ROUNDTRIP, FAILED, "printing again differs: %s", d);
    hs_free(d);
  }
  if (ok && expected_text(m, r, text, n)) report(ROUNDTRIP, PASS, "ok");
  hs_buf_free(&once);
  hs_buf_free(&twice);
}

static void do_verify(const hlo_module *m, const row *r, const golden *g) {
  bool must = !r || strcmp(r->status_hint, "expects_ok") == 0 || strcmp(r->verified, "1") == 0 ||
              strcmp(g->status, "ok") == 0 || (!*r->status_hint && !*r->kind && !*g->status);
  // What XLA:CPU did counts more than the hint, unless they contradict: then the rule changed
  // between the two versions.
  bool refused = g->status_text && strstr(g->status_text, "[hlo verifier]");
  bool must_not = r && refused && strcmp(r->status_hint, "expects_ok") != 0;
  must &= !refused;
  if (!must && !must_not) return;
  // A module that XLA:CPU judged is judged by its rules: one float precision per instruction, no
  // odd element sizes.
  bool by_cpu = refused || strcmp(g->status, "ok") == 0;
  hs_status s =
      hlo_verify(m, &(hlo_verify_options){.disallow_mixed_precision = by_cpu, .cpu_gpu = by_cpu});
  if (hs_ok(s) == !must_not) {
    hs_status_drop(s);
    report(VERIFY, PASS, "ok");
    return;
  }
  char *line = status_line(s);
  report(VERIFY, FAILED, must_not ? "XLA's verifier refuses it: %.0s%.200s" : "%s%.0s", line,
         g->status_text ? g->status_text : "");
  hs_free(line);
}

static hs_status run_backend(const hlo_module *m, u32 n, hlo_literal **args, hlo_literal **out) {
  const backend *b = backend_find(opt.backend);
  if (!b) return hs_fail(HS_E_USAGE, "no backend %s", opt.backend);
  backend_exe *exe = NULL;
  HS_TRY(b->compile(m, &(backend_options){.threads = 1, .one_device = true}, &exe));
  backend_result res = {0};
  hs_status s =
      b->run(exe, n, args,
             &(backend_run_options){.min_runs = 1, .max_runs = 1, .want_outputs = true}, &res);
  if (hs_ok(s)) *out = hlo_literal_ref(res.outputs);
  backend_result_free(&res);
  b->release(exe);
  return s;
}

static hs_status run_golden(hlo_ctx *ctx, const hlo_module *m, const golden *g) {
  u32 n = m->entry->nparams;
  hlo_literal **args = hs_calloc(n + 1, sizeof *args);
  for (u32 k = 0; k < n; k++) {
    i64 path[8] = {k};
    HS_TRY(golden_arg(ctx, g, m->entry->params[k]->shape, path, 1, &args[k]));
  }
  golden_watch w = {.b.lowacc = g->lowacc,
                    .n = m->next_instr_id,
                    .value_max = hs_calloc(m->next_instr_id + 1, sizeof(double))};
  hlo_literal *out = NULL;
  HS_TRY(hlo_eval_module(m, n, args,
                         &(hlo_eval_options){.nreplicas = 1,
                                             .npartitions = 1,
                                             .observe = golden_observe,
                                             .observe_arg = &w,
                                             .max_bytes = (i64)4 << 30},
                         &out));
  // the evaluator's run gave the bounds; the backend's result is what is compared
  if (opt.backend) {
    hlo_literal_unref(out);
    HS_TRY(run_backend(m, n, args, &out));
  }
  return golden_compare(ctx, g, out, &w.b);  // the process ends: nothing is freed
}

static void do_run(hlo_ctx *ctx, const hlo_module *m, const golden *g) {
  if (strcmp(g->status, "ok") != 0) {
    if (*g->status) report(RUN, SKIPPED, "golden: %s", g->status_text);
    return;
  }
  if (g->badinit) {
    report(RUN, SKIPPED, "badinit");
    return;
  }
  hs_status s = run_golden(ctx, m, g);
  if (hs_ok(s)) {
    report(RUN, PASS, "ok");
    return;
  }
  char *line = status_line(s);
  report(RUN, FAILED, "%s", line);
  hs_free(line);
}

// Is a parse error what XLA, or the test that the file is from, says?
static bool may_fail(const row *r, const golden *g) {
  return (r && strncmp(r->status_hint, "expects_error", 13) == 0) ||
         ((!r || !*r->status_hint) &&
          (strcmp(g->status, "parse-error") == 0 || strncmp(g->status, "crash", 5) == 0));
}

static void do_module(hlo_ctx *ctx, const char *text, size_t n, const row *r, const golden *g) {
  hlo_parse_options po = {0};
  const char *depth = r ? strstr(r->options, "max_recursion_depth=") : NULL;
  if (depth) po.max_depth = (u32)atoi(depth + 20);
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, text, n, &po, &m);
  bool must_fail = r && strcmp(r->kind, "parse_fail") == 0;
  if (must_fail) {
    char *line = NULL;
    if (hs_ok(s)) report(PARSE, FAILED, "parses, but an error is expected: %s", r->expected_error);
    else if (!mentions(s, r->expected_error))
      report(PARSE, FAILED, "expected error: %s; got: %s", r->expected_error,
             line = status_line(s));
    else report(PARSE, PASS, "ok");
    hs_free(line);
    return;
  }
  if (!hs_ok(s)) {
    char *line = status_line(s);
    bool fine = may_fail(r, g);
    report(PARSE, fine ? PASS : FAILED, "%s", line);
    if (!fine)
      for (int k = ROUNDTRIP; k < NMODES; k++)
        if (opt.only[k] && (k != RUN || strcmp(g->status, "ok") == 0))
          report(k, FAILED, "does not parse");
    return;
  }
  report(PARSE, PASS, "ok");
  if (opt.only[ROUNDTRIP])
    report(ROUNDTRIP, NOT_COUNTED, "started"), do_roundtrip(ctx, m, r, text, n);
  if (opt.only[VERIFY]) report(VERIFY, NOT_COUNTED, "started"), do_verify(m, r, g);
  if (opt.only[RUN]) report(RUN, NOT_COUNTED, "started"), do_run(ctx, m, g);
}

// Files of several modules separated by "// -----": as many must parse as a grammar check accepted;
// the steps behind parsing are asked of those.
static void do_chunks(hlo_ctx *ctx, char *text, const row *r) {
  int want = atoi(r->chunks_ok), got = 0;
  char *first_error = NULL;
  golden none = {0};
  for (char *p = text, *next; p; p = next) {
    next = strstr(p, "// -----");
    if (next) *next = 0, next += 8;
    hlo_module *m;
    hs_status s = hlo_parse(ctx, p, strlen(p), NULL, &m);
    if (!hs_ok(s)) {
      char *line = status_line(s);
      if (first_error) hs_free(line);
      else first_error = line;
      continue;
    }
    got++;
    if (opt.only[ROUNDTRIP]) do_roundtrip(ctx, m, NULL, p, strlen(p));
    if (opt.only[VERIFY]) do_verify(m, NULL, &none);
  }
  report(PARSE, got >= want ? PASS : FAILED, "%d chunks of %d parse: %s", got, want,
         first_error ? first_error : "");
}

static void child(const char *file, const row *r, int fd) {
  report_fd = fd;
  char *path = hs_format("%s/%s", opt.dir, file),
       *gpath = hs_format("%s/%.*s.golden", opt.dir, (int)strlen(file) - 4, file);
  size_t n, gn;
  char *text = read_whole(path, &n), *gtext = read_whole(gpath, &gn);
  golden g = gtext ? golden_parse(gtext) : (golden){0};
  report(PARSE, NOT_COUNTED, "started");
  if (!text) report(PARSE, FAILED, "cannot be read");
  else if (r && atoi(r->split) == 1) do_chunks(hlo_ctx_new(), text, r);
  else do_module(hlo_ctx_new(), text, n, r, &g);
  _exit(0);
}

// ---- the parent ---------------------------------------------------------------------------------
typedef struct job {
  const char *file;
  verdict v[NMODES];
  char *reason[NMODES];
  bool done;
} job;
typedef struct slot {
  pid_t pid;
  int fd;
  job *j;
  double deadline;
  hs_buf out;
} slot;

static double now(void) { return (double)hs_now_ns() * 1e-9; }

// Lines "mode verdict reason"; FAILED stays once it is set.
static void take_reports(job *j, hs_buf *b, const char *ending) {
  int last = -1;
  for (char *line = (char *)(uintptr_t)hs_buf_cstr(b), *next; *line; line = next) {
    next = strchr(line, '\n');
    if (!next) break;
    *next++ = 0;
    int mode = line[0] - '0', v = line[2] - '0';
    if (mode < 0 || mode >= NMODES) continue;
    last = mode;
    if (v == NOT_COUNTED || j->v[mode] == FAILED) continue;
    j->v[mode] = (verdict)v;
    if (v == FAILED) j->reason[mode] = hs_strdup(line + 4);
  }
  if (!ending || last < 0) last = HS_MAX(last, 0);
  if (!ending) return;
  for (int k = last; k < NMODES; k++) {  // the step it died in, and those it did not reach
    if (!opt.only[k] || j->v[k] == FAILED || (k > last && k == RUN)) continue;
    if (j->v[k] == PASS && k != last) continue;
    j->v[k] = FAILED;
    j->reason[k] = hs_format("%s%s", k == last ? "" : "not reached: ", ending);
  }
}

static void finish(slot *s, bool timed_out) {
  int status = 0;
  if (timed_out) kill(s->pid, SIGKILL);
  while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR) {}
  char ending[64] = "";
  if (timed_out) snprintf(ending, sizeof ending, "no end within %g s", opt.timeout);
  else if (WIFSIGNALED(status))
    snprintf(ending, sizeof ending, "crashed: %s", strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status))
    snprintf(ending, sizeof ending, "crashed: exit status %d", WEXITSTATUS(status));
  take_reports(s->j, &s->out, *ending ? ending : NULL);
  s->j->done = true;
  close(s->fd);
  hs_buf_free(&s->out);
  s->pid = 0;
}

static void start(slot *s, job *j, const row *r) {
  int fds[2];
  if (pipe(fds) != 0) {
    perror("pipe");
    exit(2);
  }
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) {
    perror("fork");
    exit(2);
  }
  if (pid == 0) {
    close(fds[0]);
    child(j->file, r, fds[1]);
  }
  close(fds[1]);
  *s = (slot){.pid = pid, .fd = fds[0], .j = j, .deadline = now() + opt.timeout};
}

static void run_jobs(job *jobs, size_t n, const table *t) {
  slot *slots = hs_calloc((size_t)opt.jobs, sizeof *slots);
  struct pollfd *p = hs_calloc((size_t)opt.jobs, sizeof *p);
  size_t next = 0, printed = 0;
  while (printed < n) {
    for (int k = 0; k < opt.jobs; k++)
      if (!slots[k].pid && next < n)
        start(&slots[k], &jobs[next], find_row(t, jobs[next].file)), next++;
    for (int k = 0; k < opt.jobs; k++)
      p[k] = (struct pollfd){.fd = slots[k].pid ? slots[k].fd : -1, .events = POLLIN};
    poll(p, (nfds_t)opt.jobs, 200);
    for (int k = 0; k < opt.jobs; k++) {
      if (!slots[k].pid) continue;
      if (p[k].revents) {
        char chunk[4096];
        ssize_t got = read(slots[k].fd, chunk, sizeof chunk);
        if (got > 0) hs_buf_put(&slots[k].out, chunk, (size_t)got);
        else finish(&slots[k], false);
      } else if (now() > slots[k].deadline) {
        finish(&slots[k], true);
      }
    }
    for (; printed < n && jobs[printed].done; printed++)
      for (int k = 0; k < NMODES; k++)
        if (opt.only[k] && jobs[printed].v[k] == FAILED)
          printf("FAIL %s: %s: %s\n", jobs[printed].file, mode_names[k], jobs[printed].reason[k]);
    fflush(stdout);
  }
  hs_free(slots);
  hs_free(p);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const job *)a)->file, ((const job *)b)->file);
}

static bool ends_in(const char *s, const char *tail) {
  size_t n = strlen(s), m = strlen(tail);
  return n > m && strcmp(s + n - m, tail) == 0;
}

static bool parse_args(int argc, char **argv) {
  const char *only = "parse,roundtrip,verify,run";
  for (int k = 1; k < argc; k++) {
    const char *a = argv[k], *v = k + 1 < argc ? argv[k + 1] : NULL;
    if (strcmp(a, "--exact") == 0) {
      opt.exact = true;
      continue;
    }
    if (*a != '-') {
      if (opt.dir) return false;
      opt.dir = a;
      continue;
    }
    if (strncmp(a, "-j", 2) == 0 && a[2]) {
      opt.jobs = atoi(a + 2);
      continue;
    }
    if (!v) return false;
    k++;
    if (strcmp(a, "--only") == 0) only = v;
    else if (strcmp(a, "--backend") == 0) opt.backend = v;
    else if (strcmp(a, "--match") == 0) opt.match = v;
    else if (strcmp(a, "--timeout") == 0) opt.timeout = atof(v);
    else if (strcmp(a, "-j") == 0) opt.jobs = atoi(v);
    else return false;
  }
  for (const char *p = only; *p; p += strspn(p, ",")) {
    size_t n = strcspn(p, ","), mode = 0;
    while (mode < NMODES && (strlen(mode_names[mode]) != n || strncmp(p, mode_names[mode], n) != 0))
      mode++;
    if (mode == NMODES) return false;
    opt.only[mode] = true;
    p += n;
  }
  return opt.dir && opt.jobs > 0 && opt.timeout > 0;
}

int main(int argc, char **argv) {
  int worker_status;
  // this binary is its own worker
  if (worker_entry(argc, argv, &worker_status)) return worker_status;
  if (!parse_args(argc, argv)) {
    fprintf(stderr,
            "usage: conformance DIR [--only parse,roundtrip,verify,run] [--backend NAME] [-j N] "
            "[--timeout S] [--match TEXT] [--exact]\n");
    return 2;
  }
  table t = read_index(opt.dir);
  DIR *d = opendir(opt.dir);
  if (!d) {
    fprintf(stderr, "%s: %s\n", opt.dir, strerror(errno));
    return 2;
  }
  HS_VEC(job) jobs = {0};
  for (struct dirent *e; (e = readdir(d));)
    if (ends_in(e->d_name, ".hlo") && (!opt.match || strstr(e->d_name, opt.match)))
      hs_vec_push(&jobs, (job){.file = hs_strdup(e->d_name)});
  closedir(d);
  if (jobs.n) qsort(jobs.v, jobs.n, sizeof *jobs.v, by_name);
  run_jobs(jobs.v, jobs.n, &t);
  size_t failed = 0;
  for (int k = 0; k < NMODES; k++) {
    size_t count[4] = {0};
    for (size_t j = 0; j < jobs.n; j++) count[jobs.v[j].v[k]]++;
    failed += opt.only[k] ? count[FAILED] : 0;
    if (!opt.only[k]) continue;
    printf("%s: %zu/%zu", mode_names[k], count[PASS], count[PASS] + count[FAILED]);
    if (k == RUN) printf(", %zu skipped", count[SKIPPED]);
    putchar('\n');
  }
  for (size_t k = 0; k < jobs.n; k++) {
    hs_free((char *)(uintptr_t)jobs.v[k].file);
    for (int mode = 0; mode < NMODES; mode++) hs_free(jobs.v[k].reason[mode]);
  }
  hs_vec_free(&jobs);
  hs_free(t.rows);
  hs_free(t.text);
  return failed != 0;
}
