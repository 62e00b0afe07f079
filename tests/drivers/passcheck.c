// passcheck.c — passes keep the meaning.
//
// usage: passcheck [--pass NAME] [--mixes COUNT] [--generated COUNT] [--from SEED] [--save DIR]
//                  [--work OPERATIONS] [-j N] [FILE|DIR...]
//
// Over the files (of a folder and the folders in it: all .hlo that are not XLA's output) and COUNT
// random modules (tests/random): for every module, every pass (in each of its modes) and every
// named pipeline: a
// copy of the module goes through it with everything verified and its claim of a change held
// against the text; when the text changed, the result is evaluated on the inputs of the original
// (NAME.args beside NAME.hlo, else random ones) and compared, random modules by the tolerance that
// the generator worked out for each result (none for integers and data movement). A pass whose
// descriptor does not say `again` must find nothing to do on its own output. Besides, COUNT (2)
// random subsets of the passes in random order, another choice for each module: no pass may rely on
// those that usually run before it. Modules that are too much work to evaluate (--work, 2e8
// operations), or that the evaluator does not cover, are still run and verified, and counted as not
// evaluated;
// files that are not valid modules to begin with are counted and left out.
//
// A failure of a random module is named by seed and pass; with --save the module, cut down to the
// result that is wrong, is written to DIR/SEED.PASS.hlo.
#include "core/analysis/agree.h"
#include "core/text/text.h"
#include "passes/passes.h"
#include "tests/harness/driver.h"
#include "tests/harness/generated.h"
#include "tests/harness/meaning.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { BATCH = 10, MAX_TEXT = 1000, CASE_SECONDS = 300 };

// Where a child is, for the parent when it dies: shared memory.
typedef struct place {
  u64 seed;
  char text[MAX_TEXT];
} place;
typedef struct counts {
  u32 modules, failed_modules, runs, changed, unevaluated, failures, invalid;
} counts;
typedef struct run {
  HS_VEC(char *) files;
  const char *only, *save;
  u64 from, generated;
  u32 mixes;
  double work;
  place *at;
  counts all;
  u32 reported, cases;
} run;

// A module, its inputs and what it computes from them (NULL: not evaluated). generated: NULL for
// files.
typedef struct subject {
  const run *r;
  const char *name;
  place *at;
  hlo_module *m;
  meaning_of meaning;
  const gen_module *generated;
  u64 seed;
  counts n;
  FILE *out;
} subject;

static void say_failure(subject *s, const char *text, const char *what, hs_status st) {
  hs_buf b = {0};
  for (const hs_diag *e = st.err; e; e = e->next) hs_buf_printf(&b, ": %s", e->message);
  for (size_t k = 0; k < b.n; k++)
    if (b.p[k] == '\n') b.p[k] = ' ';
  fprintf(s->out, "FAIL %s [%s]: %s%s\n", s->name, text, what, b.n ? hs_buf_cstr(&b) : "");
  hs_buf_free(&b);
  hs_status_drop(st);
  s->n.failures++;
}

static hs_status run_text(hlo_module *m, const char *text) {
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  o.measure = false;
  return pipeline_run(m, text, &o, NULL);
}

// ---- saving what failed -------------------------------------------------------------------------
// The module with result `k` alone.
static hlo_module *only_result(const subject *s, u32 k) {
  hlo_module *m = hlo_module_clone(s->m, s->m->name);
  hlo_instr *one = hlo_operand(m->entry->root, k);
  hlo_set_root(m->entry, hlo_add_tuple(m->entry, 1, &one));
  hlo_remove_module_attr(m, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  hs_status_drop(run_text(m, "dce"));
  return m;
}

// Does it still come out differently?
static bool still_fails(const subject *s, const hlo_module *small, const char *text) {
  hlo_module *m = hlo_module_clone(small, small->name);
  hlo_literal *x = NULL, *y = NULL;
  hs_status st = meaning_value(&s->meaning.narrow, small, &x);
  if (hs_ok(st)) st = run_text(m, text);
  if (hs_ok(st)) st = meaning_value(&s->meaning.narrow, m, &y);
  hs_status differs =
      hs_ok(st) ? hlo_agree(small->entry->root, x, y, meaning_tolerance(small)) : HS_GOOD;
  bool fails = !hs_ok(differs);
  hs_status_drop(differs);
  hs_status_drop(st);
  hlo_literal_unref(x);
  hlo_literal_unref(y);
  hlo_module_free(m);
  return fails;
}

static void save(const subject *s, const char *text, i64 output) {
  if (!s->r->save || !s->generated) return;
  hlo_module *small = output >= 0 ? only_result(s, (u32)output) : NULL;
  if (small && !still_fails(s, small, text)) {
    hlo_module_free(small);
    small = NULL;
  }
  char *path = hs_format("%s/%llu.%.*s.hlo", s->r->save, (unsigned long long)s->seed,
                         (int)strcspn(text, "{("), text);
  FILE *f = fopen(path, "w");
  if (f) {
    hs_buf b = {0};
    hlo_print_options o = hlo_print_full();
    hlo_print_module(&b, small ? small : s->m, &o);
    fprintf(f, "// %s\n%s", text, hs_buf_cstr(&b));
    for (const char *p = s->generated->args, *end; *p; p = *end ? end + 1 : end)
      end = p + strcspn(p, "\n"), fprintf(f, "// %.*s\n", (int)(end - p), p);
    fclose(f);
    hs_buf_free(&b);
  }
  hs_free(path);
  hlo_module_free(small);
}

// ---- checking -----------------------------------------------------------------------------------
static bool still_means(subject *s, const hlo_module *m, const char *text) {
  if (!s->generated) {
    hs_status why;
    meaning r = meaning_still(&s->meaning, m, text, &why);
    if (r == NOT_EVALUATED) s->n.unevaluated++;
    if (r == MEANS_OTHER) say_failure(s, text, "means something else", why);
    return r != MEANS_OTHER;
  }
  hlo_literal *y = NULL;
  if (!s->meaning.narrow.value) return s->n.unevaluated++, true;
  hs_status st = meaning_value(&s->meaning.narrow, m, &y);
  if (meaning_not_covered(st)) return hs_status_drop(st), s->n.unevaluated++, true;
  char why[200];
  u32 output = 0;
  bool ok = hs_ok(st);
  if (!ok) say_failure(s, text, "its result is not evaluated", st), save(s, text, -1);
  else {
    ok = generated_agrees(s->generated, s->meaning.narrow.value, y, &output, why);
    if (!ok) say_failure(s, text, why, HS_GOOD), save(s, text, output);
  }
  hlo_literal_unref(y);
  return ok;
}

static void check_text(subject *s, const char *text, bool fixpoint) {
  snprintf(s->at->text, sizeof s->at->text, "%s", text);
  hlo_module *m = hlo_module_clone(s->m, s->m->name);
  u64 generation = m->generation;
  hs_status st = run_text(m, text);
  s->n.runs++;
  if (!hs_ok(st)) {
    say_failure(s, text, "failed", st);
    save(s, text, -1);
  } else if (m->generation != generation) {
    s->n.changed++;
    if (still_means(s, m, text) && fixpoint) {
      u64 hash = hlo_text_hash(m);
      st = run_text(m, text);
      if (!hs_ok(st) || hlo_text_hash(m) != hash)
        say_failure(s, text, "changes its own output", st), save(s, text, -1);
      else hs_status_drop(st);
    }
  }
  hlo_module_free(m);
}

// A pass with its defaults, and with each other word of an option that is one of several.
static void check_pass(subject *s, u32 p) {
  const pass_info *info = pass_builtin.passes[p];
  check_text(s, info->name, !info->again);
  for (u32 k = 0; k < info->noptions; k++) {
    const pass_option_info *o = &info->options[k];
    const char *word = o->type == PASS_CHOICE ? strchr(o->value, '|') : NULL;
    for (; word; word = strchr(word + 1, '|')) {
      char *text =
          hs_format("%s{%s=%.*s}", info->name, o->name, (int)strcspn(word + 1, "|"), word + 1);
      check_text(s, text, !info->again);
      hs_free(text);
    }
  }
}

static u64 random_below(u64 *state, u64 n) {
  *state = hs_mix(*state, 0x6D69786573ull);
  return *state % n;
}

// A few passes, or many, in any order, each in any of its modes; some of them to their fixpoint.
static void check_mix(subject *s, u32 number) {
  u64 state = hs_mix((s->generated ? s->seed : hs_hash_bytes(s->name, strlen(s->name), 3)) *
                         0x9E3779B97F4A7C15ull,
                     number);
  u64 n = 2 + random_below(&state, random_below(&state, 2) ? 4 : 20);
  hs_buf text = {0};
  bool open = false;
  for (u64 k = 0; k < n; k++) {
    const pass_info *p = pass_builtin.passes[random_below(&state, pass_builtin.npasses)];
    bool fix = !open && random_below(&state, 6) == 0;
    hs_buf_printf(&text, "%s%s%s", k ? "," : "", fix ? "fix(" : "", p->name);
    open |= fix;
    for (u32 j = 0; j < p->noptions; j++) {
      if (p->options[j].type != PASS_CHOICE) continue;
      const char *word = p->options[j].value;
      for (u64 skip = random_below(&state, 3); skip && strchr(word, '|'); skip--)
        word = strchr(word, '|') + 1;
      hs_buf_printf(&text, "{%s=%.*s}", p->options[j].name, (int)strcspn(word, "|"), word);
      break;
    }
    if (open && (k + 1 == n || random_below(&state, 3) == 0)) open = false, hs_buf_putc(&text, ')');
  }
  check_text(s, hs_buf_cstr(&text), false);
  hs_buf_free(&text);
}

static void check_all(subject *s) {
  const run *r = s->r;
  for (u32 p = 0; p < pass_builtin.npasses; p++)
    if (!r->only || strcmp(r->only, pass_builtin.passes[p]->name) == 0) check_pass(s, p);
  for (u32 p = 0; p < pass_builtin.npipelines; p++)
    if (!r->only || strcmp(r->only, pass_builtin.pipelines[p].name) == 0)
      check_text(s, pass_builtin.pipelines[p].name, false);
  for (u32 k = 0; !r->only && k < r->mixes; k++) check_mix(s, k);
}

static void check_file(subject *s) {
  hlo_ctx *ctx = hlo_ctx_new();
  snprintf(s->at->text, sizeof s->at->text, "loading");
  hs_status st = hlo_load_file(ctx, s->name, NULL, &s->m);
  if (hs_ok(st)) st = hlo_verify(s->m, NULL);
  if (hs_ok(st)) {
    char *path = hs_format("%.*s.args", (int)strlen(s->name) - 4, s->name),
         *inputs = drv_read(path, NULL);
    meaning_open(&s->meaning, s->m, inputs, s->r->work, MEANING_SECONDS);
    hs_free(path);
    hs_free(inputs);
    check_all(s);
  } else {
    hs_status_drop(st);
    s->n.invalid++;
  }
}

static void check_seed(subject *s, u64 seed) {
  gen_module g;
  char name[32];
  snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
  snprintf(s->at->text, sizeof s->at->text, "making");
  s->at->seed = s->seed = seed;
  s->name = name;
  gen_make_for_passes(seed, &g);
  s->generated = &g;
  hlo_ctx *ctx = hlo_ctx_new();
  s->m = NULL;
  s->meaning = (meaning_of){.looked_wide = true};
  meaning_side *x = &s->meaning.narrow;
  hs_status st = hlo_parse(ctx, g.text, strlen(g.text), NULL, &s->m);
  if (hs_ok(st)) st = hlo_verify(s->m, NULL);
  if (hs_ok(st)) st = hlo_inputs_formula(ctx, s->m, g.args, strlen(g.args), &x->args, &x->nargs);
  if (hs_ok(st)) {
    hlo_mark_sources(s->m);
    x->m = s->m;
    st = meaning_value(x, s->m, &x->value);
    if (meaning_not_covered(st)) hs_status_drop(st), st = HS_GOOD;
  }
  if (!hs_ok(st)) say_failure(s, "none", "not valid", st);
  else check_all(s);
  meaning_close(&s->meaning);
  hlo_module_free(s->m);
  hlo_ctx_free(ctx);
  gen_free(&g);
}

// ---- the sweep ----------------------------------------------------------------------------------
static int one(void *arg, u32 k, FILE *out) {
  run *r = arg;
  subject s = {.r = r, .at = &r->at[k], .out = out};
  if (k < r->files.n) {
    s.name = r->files.v[k];
    check_file(&s);
    s.n.modules = !s.n.invalid;
    s.n.failed_modules = s.n.failures > 0;
  } else {
    u64 seed = r->from + (u64)(k - r->files.n) * BATCH,
        end = HS_MIN(seed + BATCH, r->from + r->generated);
    for (; seed < end; seed++) {
      u32 before = s.n.failures;
      check_seed(&s, seed);
      s.n.modules++;
      s.n.failed_modules += s.n.failures > before;
    }
  }
  fprintf(out, "= %u %u %u %u %u %u %u\n", s.n.modules, s.n.failed_modules, s.n.runs, s.n.changed,
          s.n.unevaluated, s.n.failures, s.n.invalid);
  return s.n.failures > 0;
}

static void done(void *arg, u32 k, drv_result *result) {
  run *r = arg;
  int verdict = result->verdict;
  counts c = {0};
  for (const char *p = result->text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
    if (*p == '=')
      (void)sscanf(p, "= %u %u %u %u %u %u %u", &c.modules, &c.failed_modules, &c.runs, &c.changed,
                   &c.unevaluated, &c.failures, &c.invalid);
    else if (verdict < DRV_DIED) printf("%.*s\n", (int)strcspn(p, "\n"), p);
  }
  if (verdict >= DRV_DIED) {
    const place *at = &r->at[k];
    if (k < r->files.n) printf("FAIL %s [%s]: %s\n", r->files.v[k], at->text, result->ending);
    else
      printf("FAIL seed %llu [%s]: %s, and with it the rest of its %d seeds\n",
             (unsigned long long)at->seed, at->text, result->ending, BATCH);
    c = (counts){.modules = 1, .failed_modules = 1, .failures = 1};
  }
  r->all.modules += c.modules, r->all.failed_modules += c.failed_modules, r->all.runs += c.runs;
  r->all.changed += c.changed;
  r->all.unevaluated += c.unevaluated;
  r->all.failures += c.failures;
  r->all.invalid += c.invalid;
  r->reported++;
  if (r->reported % 50 == 0 && r->reported < r->cases)
    printf("%u of %u cases, %u modules, %u failures\n", r->reported, r->cases, r->all.modules,
           r->all.failures);
  fflush(stdout);
}

// A file, or the modules of a folder and of the folders in it.
static void add_path(run *r, const char *path) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
    hs_vec_push(&r->files, hs_strdup(path));
    return;
  }
  drv_names names = {0}, inside = {0};
  drv_modules(path, NULL, &names);
  for (size_t k = 0; k < names.n; k++)
    hs_vec_push(&r->files, hs_format("%s/%s.hlo", path, names.v[k]));
  drv_list(path, "", &inside);
  for (size_t k = 0; k < inside.n; k++) {
    char *deeper = hs_format("%s/%s", path, inside.v[k]);
    if (inside.v[k][0] != '.' && stat(deeper, &st) == 0 && S_ISDIR(st.st_mode)) add_path(r, deeper);
    hs_free(deeper);
  }
  drv_names_free(&names);
  drv_names_free(&inside);
}

int main(int argc, char **argv) {
  static const char *const options[] = {"pass", "generated", "from", "save", "work", "mixes", NULL};
  drv_args a;
  run r = {0};
  if (!drv_parse(argc, argv, options, &a) || (a.n == 0 && !drv_option(&a, "generated"))) {
    fprintf(
        stderr,
        "usage: passcheck [--pass NAME] [--mixes COUNT] [--generated COUNT] [--from SEED] [--save "
        "DIR] [--work OPERATIONS] [-j N] [FILE|DIR...]\n");
    return 2;
  }
  const char *generated = drv_option(&a, "generated"), *from = drv_option(&a, "from"),
             *work = drv_option(&a, "work"), *mixes = drv_option(&a, "mixes");
  r.only = drv_option(&a, "pass");
  r.mixes = mixes ? (u32)strtoul(mixes, NULL, 10) : 2;
  r.work = work ? strtod(work, NULL) : MEANING_WORK;
  r.save = drv_option(&a, "save");
  r.generated = generated ? strtoull(generated, NULL, 10) : 0;
  r.from = from ? strtoull(from, NULL, 10) : 0;
  if (r.save) (void)mkdir(r.save, 0777);
  for (u32 k = 0; k < a.n; k++) add_path(&r, a.v[k]);
  r.cases = (u32)(r.files.n + (r.generated + BATCH - 1) / BATCH);
  r.at = mmap(NULL, (r.cases + 1u) * sizeof *r.at, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (r.at == MAP_FAILED) return fprintf(stderr, "passcheck: no memory\n"), 2;
  drv_run(r.cases, a.jobs, CASE_SECONDS, one, done, &r);
  if (r.all.invalid) printf("%u files left out: not valid\n", r.all.invalid);
  printf(
      "passcheck: %u/%u modules, %u runs of %u passes and %u pipelines, %u changed their module, "
      "%u of these not evaluated\n",
      r.all.modules - r.all.failed_modules, r.all.modules, r.all.runs,
      r.only ? 1 : pass_builtin.npasses, r.only ? 0 : pass_builtin.npipelines, r.all.changed,
      r.all.unevaluated);
  for (size_t k = 0; k < r.files.n; k++) hs_free(r.files.v[k]);
  hs_vec_free(&r.files);
  munmap(r.at, (r.cases + 1u) * sizeof *r.at);
  return r.all.failures != 0;
}
