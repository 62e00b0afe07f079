// pass_cases.c — XLA's own pass tests as data. usage: pass_cases DIR [--pass NAME | --pass core]
// [-j N]
//
// DIR/index.tsv names modules, the passes to run on each and what must hold after: whether each run
// changed the module, a pattern over it, FileCheck texts, an error, other assertions. Beyond those,
// the verifier must accept the result and its meaning must be that of the input wherever it can be
// evaluated. A case with an expectation that this program cannot read, an option that our pass does
// not have, or an edit of the module by code counts as not checkable, and is named with the cause,
// unless something that can be checked fails. Cases of passes that hlosh does not have fail. The
// lines before the totals count, for each pass and for the passes of `core_passes` together, cases
// that must change something and cases that must not; cases for GPUs are not among the core passes.
#include "core/text/text.h"
#include "passes/passes.h"
#include "passes/run/rewrite.h"
#include "tests/harness/driver.h"
#include "tests/harness/meaning.h"
#include "tests/harness/verifier_rules.h"
#include "tests/xla_cases/cases.h"

#include <glob.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PASSED, FAILED, NOT_CHECKABLE, NOT_SELECTED, NO_PASS };

typedef struct tally {
  const char *pass;
  u32 passed, failed, not_checkable, said[2], held[2];
  bool missing;
} tally;
typedef struct run {
  drv_table t;
  const char *dir, *only;
  HS_VEC(tally) tallies;
  tally core;
} run;

static const char *const core_passes[] = {"algsimp",
                                          "dce",
                                          "cse",
                                          "constant_folding",
                                          "tuple-simplifier",
                                          "reshape-mover",
                                          "convert-mover",
                                          "convert_operand_folding",
                                          "call-inliner",
                                          "flatten-call-graph",
                                          "map-inline",
                                          "computation-deduplicator",
                                          "zero_sized_hlo_elimination",
                                          "simplify-conditional",
                                          "conditional-to-select",
                                          "conditional-canonicalizer",
                                          "simplify-while-loops",
                                          "while-loop-invariant-code-motion",
                                          "while-loop-constant-sinking",
                                          "while-loop-trip-count-annotator",
                                          "dot_decomposer",
                                          "dot_dimension_merger",
                                          "dot-merger",
                                          "transpose-folding",
                                          "gather_expander",
                                          "gather_simplifier",
                                          "scatter_expander",
                                          "scatter_simplifier",
                                          "select_and_scatter_expander",
                                          "batchnorm_expander",
                                          "logistic-expander",
                                          "simplify-sorts",
                                          "float-normalization-bf16",
                                          "tree_reduction_rewriter",
                                          "reduce-window-rewriter",
                                          "reshape-decomposer",
                                          "reduce-decomposer",
                                          "broadcast_canonicalizer",
                                          "layout-assignment",
                                          "layout_normalization",
                                          "copy-insertion",
                                          "fusion",
                                          "multi_output_fusion",
                                          "fusion-wrapper",
                                          "optimize_input_output_buffer_alias",
                                          "cse_barrier_expander",
                                          "hlo-memory-scheduler"};

// XLA says "changed" after these whatever they did; only the module tells.
static const char *const always_changed[] = {"layout-assignment", "copy-insertion"};

static bool among(const char *const *list, size_t n, const char *s) {
  for (size_t k = 0; k < n; k++)
    if (strcmp(list[k], s) == 0) return true;
  return false;
}

static const char *field(const run *r, u32 k, const char *column) {
  return drv_cell(&r->t, k, column);
}

static bool is_core(const char *passes, const char *target) {
  bool all = strcmp(target, "gpu") != 0;
  char *copy = hs_strdup(passes), *save = NULL;
  for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save))
    all &= among(core_passes, HS_COUNT(core_passes), p);
  hs_free(copy);
  return all;
}

// ---- expectations -------------------------------------------------------------------------------
typedef struct checking {
  xc_env *env;
  int verdict;
  FILE *out;
} checking;

// Joins the answer of one expectation; says what failed, or what cannot be checked.
static void expect(checking *c, xc_answer a, const char *what, const char *text) {
  if (a == XC_NO) {
    fprintf(c->out, "%s does not hold: %s\n", what, text);
    c->verdict = FAILED;
  } else if (a == XC_UNKNOWN && c->verdict == PASSED) {
    fprintf(c->out, "%s %.200s\n", what, text);
    c->verdict = NOT_CHECKABLE;
  }
}

static void each_part(checking *c, const char *cell, xc_answer (*check)(xc_env *, const char *),
                      const char *what) {
  char *copy = hs_strdup(cell), *p = copy;
  while (p) {
    char *next = strstr(p, " ;; ");
    if (next) *next = '\0', next += 4;
    if (*p) expect(c, check(c->env, p), what, p);
    p = next;
  }
  hs_free(copy);
}

// ---- FileCheck ----------------------------------------------------------------------------------
static const char *filecheck(void) {  // $FILECHECK, or that of the newest LLVM
  static char found[512];
  const char *given = getenv("FILECHECK");
  if (given && *given) return given;
  glob_t g;
  int newest = 0;
  if (!found[0] && glob("/usr/lib/llvm-*/bin/FileCheck", 0, NULL, &g) == 0) {
    for (size_t k = 0; k < g.gl_pathc; k++) {
      int version = atoi(g.gl_pathv[k] + strlen("/usr/lib/llvm-"));
      if (version > newest && access(g.gl_pathv[k], X_OK) == 0)
        newest = version, snprintf(found, sizeof found, "%s", g.gl_pathv[k]);
    }
    globfree(&g);
  }
  return found[0] ? found : access("/usr/bin/FileCheck", X_OK) == 0 ? "/usr/bin/FileCheck" : NULL;
}

static xc_answer run_filecheck(const char *check_path, const hs_buf *text) {
  const char *tool = filecheck();
  if (!tool) return XC_UNKNOWN;
  int fd = memfd_create("module", 0);
  if (fd < 0 || write(fd, text->p, text->n) != (ssize_t)text->n) return XC_UNKNOWN;
  lseek(fd, 0, SEEK_SET);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fd, 0);
    execl(tool, tool, check_path, "--allow-empty", (char *)NULL);
    _exit(127);
  }
  close(fd);
  int st = 0;
  waitpid(pid, &st, 0);
  if (!WIFEXITED(st) || WEXITSTATUS(st) == 127) return XC_UNKNOWN;
  return WEXITSTATUS(st) == 0 ? XC_YES : XC_NO;
}

static void check_files(const run *r, u32 k, checking *c) {
  int n = atoi(field(r, k, "check"));
  if (n <= 0) return;
  hs_buf text = {0};
  if (!xc_print(c->env, field(r, k, "print"), &text))
    return expect(c, XC_UNKNOWN, "printing", field(r, k, "print"));
  char path[4096];
  for (int f = 1; f <= n; f++) {
    snprintf(path, sizeof path, f == 1 ? "%s/%s.check" : "%s/%s.check.%d", r->dir,
             field(r, k, "name"), f);
    expect(c, run_filecheck(path, &text), "FileCheck text", path);
  }
  hs_buf_free(&text);
}

// ---- one case -----------------------------------------------------------------------------------
static int verifier_case(const run *r, u32 k, hs_status s, hlo_module *m, FILE *out) {
  const char *error = field(r, k, "error");
  hlo_verify_options o = drv_verifier_rules(field(r, k, "options"), field(r, k, "fixture"));
  if (hs_ok(s)) drv_set_counts(m, field(r, k, "config"));
  if (hs_ok(s)) s = hlo_verify(m, &o);
  if (!*error) {
    if (hs_ok(s)) return PASSED;
    drv_status(out, "rejected", s);
    return FAILED;
  }
  if (hs_ok(s)) return fprintf(out, "accepted, but must fail with: %s\n", error), FAILED;
  bool hit = drv_message_contains(s, error);
  if (!hit) drv_status(out, "other message", s);
  else hs_status_drop(s);
  return hit ? PASSED : FAILED;
}

// The passes of a case, one pipeline text each.
typedef struct steps {
  u32 n;
  char *text[8];
} steps;

static bool part(char *list[8], u32 *n, char *text, const char *sep) {
  for (*n = 0; text && *n < 8; (*n)++) list[*n] = text, text = xc_split(text, sep);
  return text == NULL;
}

// False: one of the passes is not here. An unknown option is named in `why`.
static bool case_steps(const run *r, u32 k, const hlo_module *m, steps *s, hs_buf *why) {
  char *passes[8], *options[8], *classes[8];
  u32 n, nopt, ncls;
  bool all = part(passes, &n, hs_strdup(field(r, k, "pass")), ",") &&
             part(options, &nopt, hs_strdup(field(r, k, "options")), " | ") &&
             part(classes, &ncls, hs_strdup(field(r, k, "class")), ",");
  for (u32 p = 0; all && p < n; p++) {
    if (!pass_find(&pass_builtin, passes[p])) return false;
    if (!m) continue;
    hs_buf one = {0};
    const char *o = nopt > 1                        ? p < nopt ? options[p] : ""
                    : p == 0 || nopt == 0 || n == 1 ? options[0]
                                                    : "";
    (void)xc_pass_text(&one, m, passes[p], p < ncls ? classes[p] : "", field(r, k, "test"), o,
                       field(r, k, "config"), why);
    s->text[s->n++] = hs_strdup(hs_buf_cstr(&one));
    hs_buf_free(&one);
  }
  return all;
}

// "1,0" against what each run did; one value for several passes is about all of them.
static void check_changed(checking *c, const char *want, const char *passes, const steps *s,
                          const bool *changed) {
  if (!*want) return;
  bool any = false;
  for (u32 k = 0; k < s->n; k++) any |= changed[k];
  u32 values = 1;
  for (const char *p = want; *p; p++) values += *p == ',';
  if (values > 1 && values != s->n) return expect(c, XC_UNKNOWN, "changed =", want);
  char *list[8];
  u32 n;
  part(list, &n, hs_strdup(passes), ",");
  for (u32 k = 0; k < values; k++, want += *want == ',') {
    char w = *want;
    if (w == '0' || w == '1') want++;
    bool did = values > 1 ? changed[k] : any;
    if (w == '1' && !did && among(always_changed, HS_COUNT(always_changed), list[k])) continue;
    if (w == '0' || w == '1')
      expect(c, did == (w == '1') ? XC_YES : XC_NO, "changed =", w == '1' ? "1" : "0");
  }
}

// Of the whole module: the text, and the names of duplicates, which XLA's text leaves out where
// they are all there is to say.
static u64 module_hash(const hlo_module *m) {
  u64 h = hlo_text_hash(m);
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      const hlo_metadata *d = hlo_metadata_of(i);
      hs_str name = d ? hlo_metadata_rest_of(d)->deduplicated_name : (hs_str){0};
      if (name.n) h = hs_hash_bytes(name.p, name.n, hs_mix(h, i->id));
    }
  return h;
}

static int run_case(const run *r, u32 k, hlo_module *m, const steps *s, hs_buf *why, FILE *out) {
  const char *error = field(r, k, "error");
  hs_status valid = hlo_verify(m, NULL);
  bool was_valid = hs_ok(valid), changed[8] = {0};
  hs_status_drop(valid);
  if (strstr(field(r, k, "options"), "ComputationLayout(entry->ComputeProgramShape())")) {
    xc_set_default_layouts(m);
  }
  drv_set_counts(m, field(r, k, "config"));
  if (*field(r, k, "edits")) (void)xc_apply_edits(m, field(r, k, "edits"), why);
  if (why->n) return fprintf(out, "%s\n", hs_buf_cstr(why)), NOT_CHECKABLE;
  hlo_module *before = hlo_module_clone(m, m->name);
  xc_env *env = xc_open(m, before);
  pass_run_options o = pass_run_default();
  o.verify_all = was_valid, o.verify = was_valid, o.measure = false;
  hs_status st = HS_GOOD;
  for (u32 p = 0; p < s->n && hs_ok(st); p++) {
    u64 hash = module_hash(m);
    pass_log log = {0};
    st = pipeline_run(m, s->text[p], &o, &log);
    changed[p] = hash != module_hash(m);
  }
  if (*error) {
    if (hs_ok(st)) return fprintf(out, "must fail with: %s\n", error), FAILED;
    return drv_message_contains(st, error) ? PASSED
                                           : (drv_status(out, "other message", st), FAILED);
  }
  if (!hs_ok(st)) return drv_status(out, "failed", st), FAILED;
  // with this option the result is of another type than before
  bool typed = !strstr(field(r, k, "options"), "slice_dynamic_output=false");
  if (typed && meaning_compare(before, m, field(r, k, "pass"), out) == MEANS_OTHER) return FAILED;
  checking c = {env, PASSED, out};
  check_changed(&c, field(r, k, "changed"), field(r, k, "pass"), s, changed);
  each_part(&c, field(r, k, "pattern"), xc_check_pattern, "pattern");
  each_part(&c, field(r, k, "asserts"), xc_check_statement, "assertion");
  check_files(r, k, &c);
  xc_close(env);
  return c.verdict;
}

static int one(void *arg, u32 k, FILE *out) {
  run *r = arg;
  const char *kind = field(r, k, "kind"), *pass = field(r, k, "pass"),
             *error = field(r, k, "error");
  bool verifier = strcmp(kind, "verifier") == 0;
  if (strcmp(kind, "pass") != 0 && !verifier) return NOT_SELECTED;
  bool core = r->only && strcmp(r->only, "core") == 0;
  if (core ? verifier || !is_core(pass, field(r, k, "target"))
           : r->only && strcmp(r->only, pass) != 0)
    return NOT_SELECTED;
  steps s = {0};
  hs_buf why = {0};
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.hlo", r->dir, field(r, k, "name"));
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hlo_parse_options po = {.keep_missing_layouts =
                              strstr(field(r, k, "config"), "fill_missing_layouts=false") != NULL};
  hs_status st = hlo_load_file(ctx, path, &po, &m);
  if (verifier && hs_ok(st) && *field(r, k, "edits") &&
      !xc_apply_edits(m, field(r, k, "edits"), &why))
    return fprintf(out, "%s\n", hs_buf_cstr(&why)), NOT_CHECKABLE;
  if (verifier) return verifier_case(r, k, st, m, out);
  if (!case_steps(r, k, hs_ok(st) ? m : NULL, &s, &why)) return NO_PASS;
  if (!hs_ok(st)) {
    if (*error && drv_message_contains(st, error)) return PASSED;
    return drv_status(out, "not read", st), FAILED;
  }
  return run_case(r, k, m, &s, &why, out);
}

// ---- counting -----------------------------------------------------------------------------------
static void count(tally *t, int verdict, const char *changed) {
  if (verdict == NOT_CHECKABLE) {
    t->not_checkable++;
    return;
  }
  if (verdict == PASSED) t->passed++;
  else t->failed++;
  if (*changed != '0' && *changed != '1') return;
  t->said[*changed - '0']++;
  t->held[*changed - '0'] += verdict == PASSED;
}

static void done(void *arg, u32 k, drv_result *result) {
  run *r = arg;
  int verdict = result->verdict;
  if (verdict == NOT_SELECTED) return;
  const char *pass = field(r, k, "pass"), *changed = field(r, k, "changed");
  tally *t = NULL;
  for (size_t x = 0; x < r->tallies.n; x++)
    if (strcmp(r->tallies.v[x].pass, pass) == 0) t = &r->tallies.v[x];
  if (!t) {
    tally fresh = {.pass = pass};
    hs_vec_push(&r->tallies, fresh);
    t = &r->tallies.v[r->tallies.n - 1];
  }
  count(t, verdict, changed);
  if (strcmp(field(r, k, "kind"), "pass") == 0 && is_core(pass, field(r, k, "target")))
    count(&r->core, verdict, changed);
  if (verdict == NO_PASS) t->missing = true;
  else if (verdict == NOT_CHECKABLE)
    printf("NOT CHECKABLE %s [%s]: %s\n", field(r, k, "name"), pass, drv_reason(result));
  else if (verdict != PASSED)
    printf("FAIL %s [%s]: %s\n", field(r, k, "name"), pass, drv_reason(result));
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const tally *)a)->pass, ((const tally *)b)->pass);
}

int main(int argc, char **argv) {
  drv_args a;
  run r = {0};
  if (!drv_open_cases(argc, argv, "pass_cases", &a, &r.t)) return 2;
  r.dir = a.v[0];
  r.only = drv_option(&a, "pass");
  drv_run(r.t.nrows, a.jobs, 60, one, done, &r);
  qsort(r.tallies.v, r.tallies.n, sizeof *r.tallies.v, by_name);
  const tally *core = &r.core;
  for (size_t k = 0; k <= r.tallies.n; k++) {
    const tally *t = k < r.tallies.n ? &r.tallies.v[k] : core;
    printf("%s, of those that must change the module %u/%u, must not %u/%u\n",
           k < r.tallies.n ? t->pass : "core passes", t->held[1], t->said[1], t->held[0],
           t->said[0]);
  }
  printf("core passes: %u/%u, %u not checkable\n", core->passed, core->passed + core->failed,
         core->not_checkable);
  u32 p = 0, total = 0, nc = 0;
  for (size_t k = 0; k < r.tallies.n; k++) {
    tally *t = &r.tallies.v[k];
    printf("%s: %u/%u, %u not checkable%s\n", t->pass, t->passed, t->passed + t->failed,
           t->not_checkable, t->missing ? " (no such pass here)" : "");
    p += t->passed, total += t->passed + t->failed, nc += t->not_checkable;
  }
  printf("pass_cases: %u/%u, %u not checkable\n", p, total, nc);
  return p != total;
}
