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
#include "core/text/text.h"
#include "backends/backend.h"
#include "backends/worker.h"
#include "core/verify/verify.h"
#include "tests/harness/driver.h"
#include "tests/harness/golden.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

enum { PARSE, ROUNDTRIP, VERIFY, RUN, NMODES };
static const char *const mode_names[NMODES] = {"parse", "roundtrip", "verify", "run"};
typedef enum { NOT_COUNTED, PASS, FAILED, SKIPPED } verdict;

static struct {
  const char *dir, *backend, *match;
  bool only[NMODES], exact;
  u32 jobs;
  double timeout;
} opt = {.timeout = 60};

// ---- the index ----------------------------------------------------------------------------------
typedef struct row {
  const char *name, *kind, *form, *expected_error, *expected_output, *options, *verified,
      *status_hint, *split, *chunks_ok;
} row;

static row read_row(const drv_table *t, u32 k) {
  const char *name = drv_cell(t, k, "name");
  return (row){.name = *name ? name : drv_cell(t, k, "file"),
               .kind = drv_cell(t, k, "kind"),
               .form = drv_cell(t, k, "form"),
               .expected_error = drv_cell(t, k, "expected_error"),
               .expected_output = drv_cell(t, k, "expected_output"),
               .options = drv_cell(t, k, "options"),
               .verified = drv_cell(t, k, "verified"),
               .status_hint = drv_cell(t, k, "status_hint"),
               .split = drv_cell(t, k, "split_input_file"),
               .chunks_ok = drv_cell(t, k, "chunks_ok")};
}

// The row of a file, by its name with or without ".hlo"; false: the table has none.
static bool find_row(const drv_table *t, const char *file, row *r) {
  size_t stem = strlen(file) > 4 ? strlen(file) - 4 : 0;
  for (u32 k = 0; k < t->nrows; k++) {
    *r = read_row(t, k);
    if (strcmp(r->name, file) == 0 ||
        (strlen(r->name) == stem && strncmp(r->name, file, stem) == 0))
      return true;
  }
  return false;
}

// ---- one file, in the child ---------------------------------------------------------------------
// The case's report: lines "mode verdict reason".
static FILE *report_to;

static void report(int mode, verdict v, const char *fmt, ...) HS_PRINTF(3, 4);
static void report(int mode, verdict v, const char *fmt, ...) {
  char text[3000];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = ' ';
  fprintf(report_to, "%d %d %s\n", mode, (int)v, text);
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

// Statements that we make in other words than XLA, beginning alike for every case.
static const struct {
  const char *xla, *ours;
} phrases[] = {
    {"was parsing 2:1: error: computation previously defined here\ncomp {\n^",
     "2:1: computation previously defined here"},
    {"expects opcode but sees: ", "Unknown opcode: "},
};

static bool says(hs_status s, const char *text) {
  for (const hs_diag *d = s.err; d; d = d->next)
    if (strstr(d->message, text) || (d->note && strstr(d->note, text))) return true;
  return false;
}

// A line of the text with the caret under its first byte: XLA's picture of a position.
static bool points_at(hs_status s, const char *line, size_t n) {
  for (const hs_diag *d = s.err; d; d = d->next)
    if (d->source_line && d->col == 1 && strlen(d->source_line) == n &&
        memcmp(d->source_line, line, n) == 0)
      return true;
  return false;
}

// One statement of XLA's message.
static bool mentions_one(hs_status s, const char *text) {
  if (strncmp(text, "error: ", 7) == 0) text += 7;  // the frame of XLA's message, not its wording
  if (says(s, text)) return true;
  for (size_t k = 0; k < HS_COUNT(phrases); k++) {
    size_t n = strlen(phrases[k].xla);
    if (strncmp(text, phrases[k].xla, n) != 0) continue;
    char *ours = hs_format("%s%s", phrases[k].ours, text + n);
    bool hit = says(s, ours);
    hs_free(ours);
    if (hit) return true;
  }
  size_t n = strlen(text);
  return n > 2 && strcmp(text + n - 2, "\n^") == 0 && points_at(s, text, n - 2);
}

// "A && B": both.
static bool mentions(hs_status s, const char *text) {
  char *copy = hs_strdup(text);
  bool all = true;
  for (char *p = copy, *next; p; p = next) {
    next = strstr(p, " && ");
    if (next) *next = 0, next += 4;
    all &= mentions_one(s, p);
  }
  hs_free(copy);
  return all;
}

// A name of the table of forms, or "short+..." with single options behind it.
static hlo_print_options form_options(const char *form) {
  if (strncmp(form, "short", 5) == 0) {
    hlo_print_options o = hlo_print_short_parsable();
    if (strstr(form, "+compact_gte")) o.compact_gte = true;
    if (strstr(form, "+operand_shape")) o.print_operand_shape = true;
    if (strstr(form, "+percent")) o.print_percent = true;
    return o;
  }
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
    char *want = drv_read(path, &nw);
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
  // round_each_term: the recordings are of XLA without excess precision
  HS_TRY(b->compile(
      m, &(backend_options){.threads = 1, .one_device = true, .round_each_term = true}, &exe));
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
                                             .round_each_term = true,
                                             .observe = golden_observe,
                                             .observe_arg = &w,
                                             .max_bytes = (i64)4 << 30},
                         &out));
  // the evaluator's run gave the bounds; the backend's result is what is compared
  if (opt.backend) {
    hlo_literal_unref(out);
    HS_TRY(run_backend(m, n, args, &out));
  }
  return golden_compare(m, g, out, &w.b);  // the process ends: nothing is freed
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

typedef struct job {
  verdict v[NMODES];
  char *reason[NMODES];
} job;
typedef struct suite {
  drv_table index;
  drv_names files;
  size_t count[NMODES][SKIPPED + 1];
} suite;

static int one(void *arg, u32 k, FILE *out) {
  suite *s = arg;
  const char *file = s->files.v[k];
  report_to = out;
  row found;
  const row *r = find_row(&s->index, file, &found) ? &found : NULL;
  char *path = hs_format("%s/%s", opt.dir, file),
       *gpath = hs_format("%s/%.*s.golden", opt.dir, (int)strlen(file) - 4, file);
  size_t n, gn;
  char *text = drv_read(path, &n), *gtext = drv_read(gpath, &gn);
  golden g = gtext ? golden_parse(gtext) : (golden){0};
  report(PARSE, NOT_COUNTED, "started");
  if (!text) report(PARSE, FAILED, "cannot be read");
  else if (r && atoi(r->split) == 1) do_chunks(hlo_ctx_new(), text, r);
  else do_module(hlo_ctx_new(), text, n, r, &g);
  return 0;
}

// ---- the parent ---------------------------------------------------------------------------------
// Lines "mode verdict reason"; FAILED stays once it is set. `ending`: how the case died, or "".
static void take_reports(job *j, char *text, const char *ending) {
  int last = 0;
  for (char *line = text, *next; (next = strchr(line, '\n')) != NULL; line = next) {
    *next++ = 0;
    int mode = line[0] - '0', v = line[2] - '0';
    if (mode < 0 || mode >= NMODES) continue;
    last = mode;
    if (v == NOT_COUNTED || j->v[mode] == FAILED) continue;
    j->v[mode] = (verdict)v;
    if (v == FAILED) j->reason[mode] = hs_strdup(line + 4);
  }
  for (int k = last; *ending && k < NMODES; k++) {  // the step it died in, and those not reached
    if (!opt.only[k] || j->v[k] == FAILED || (k > last && k == RUN)) continue;
    if (j->v[k] == PASS && k != last) continue;
    j->v[k] = FAILED;
    j->reason[k] = hs_format("%s%s", k == last ? "" : "not reached: ", ending);
  }
}

static void done(void *arg, u32 k, drv_result *r) {
  suite *s = arg;
  job j = {0};
  char ending[64] = "";
  if (r->verdict) snprintf(ending, sizeof ending, "%s", *r->ending ? r->ending : "crashed");
  take_reports(&j, r->text, ending);
  for (int mode = 0; mode < NMODES; mode++) {
    s->count[mode][j.v[mode]]++;
    if (opt.only[mode] && j.v[mode] == FAILED)
      printf("FAIL %s: %s: %s\n", s->files.v[k], mode_names[mode], j.reason[mode]);
    hs_free(j.reason[mode]);
  }
}

static bool parse_args(int argc, char **argv) {
  static const char *const options[] = {"only", "backend", "match", "timeout", "!exact", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || a.n != 1) return false;
  const char *only = drv_option(&a, "only"), *timeout = drv_option(&a, "timeout");
  if (!only) only = "parse,roundtrip,verify,run";
  opt.dir = a.v[0];
  opt.jobs = a.jobs;
  opt.backend = drv_option(&a, "backend");
  opt.match = drv_option(&a, "match");
  opt.exact = drv_option(&a, "exact") != NULL;
  if (timeout) opt.timeout = atof(timeout);
  for (const char *p = only; *p; p += strspn(p, ",")) {
    size_t n = strcspn(p, ","), mode = 0;
    while (mode < NMODES && (strlen(mode_names[mode]) != n || strncmp(p, mode_names[mode], n) != 0))
      mode++;
    if (mode == NMODES) return false;
    opt.only[mode] = true;
    p += n;
  }
  return opt.timeout > 0;
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
  suite s = {0};
  drv_names all = {0};
  char *index = hs_format("%s/index.tsv", opt.dir);
  (void)drv_table_read(index, &s.index);  // a folder need not have one
  hs_free(index);
  if (!drv_list(opt.dir, ".hlo", &all)) {
    fprintf(stderr, "%s: %s\n", opt.dir, strerror(errno));
    return 2;
  }
  for (size_t k = 0; k < all.n; k++)
    if (!opt.match || strstr(all.v[k], opt.match)) hs_vec_push(&s.files, hs_strdup(all.v[k]));
  drv_names_free(&all);
  drv_run((u32)s.files.n, opt.jobs, opt.timeout, one, done, &s);
  size_t failed = 0;
  for (int k = 0; k < NMODES; k++) {
    const size_t *count = s.count[k];
    if (!opt.only[k]) continue;
    failed += count[FAILED];
    printf("%s: %zu/%zu", mode_names[k], count[PASS], count[PASS] + count[FAILED]);
    if (k == RUN) printf(", %zu skipped", count[SKIPPED]);
    putchar('\n');
  }
  drv_names_free(&s.files);
  drv_table_free(&s.index);
  return failed != 0;
}
