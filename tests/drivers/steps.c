// steps.c — every state of every module inside the PJRT plug-in's compiler is read, verified,
// printed and read back.
//
// usage: steps DIR [--plugin NAME] [--for h200|FILE] [--only SUBSTRING] [--timeout SECONDS]
// [--values 1] [-j N] Each module of the folder (*.hlo, the .after_optimizations.hlo left out) is
// compiled with dumps of every pass that changed it. Every dump must parse, satisfy the verifier,
// and print as what it reads back as. --values 1: and each state is run on the evaluator, with the
// arguments of NAME.args, and must agree with NAME.expect. --for h200|FILE: compiled for that GPU,
// without it. Prints "FAIL NAME STATE: reason" per failing state, and last "steps: M/N modules, S/T
// states". What the plug-in refuses is named and counted apart. Exit 0 when nothing failed.
#include "backends/pjrt/pjrt.h"
#include "backends/worker.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "repl/debug/bundle.h"
#include "repl/debug/dump_folder.h"
#include "tests/harness/driver.h"

#include <errno.h>
#include <stdlib.h>

enum { GOOD, REFUSED = 40, BAD };

typedef struct steps {
  const char *dir, *only, *plugin;
  char *target;
  bool values;
  drv_names names;
  u32 good, refused, bad;
  u64 states, good_states;
} steps;

// One module's part of the work.
// ran: fingerprint of the state that last agreed
typedef struct module_run {
  const steps *s;
  const char *name;
  FILE *out;
  hlo_ctx *ctx;
  backend_exe *exe;
  hlo_literal **args;
  u32 nargs;
  char *want;
  size_t want_n;
  char *module;
  u64 ran;
} module_run;

// ---- one state ----------------------------------------------------------------------------------
static void print(const hlo_module *m, hs_buf *text) {
  hlo_print_options o = hlo_print_full();
  hlo_print_module(text, m, &o);
}

// Reading numbers stack frames anew, so the text is compared from the second printing on.
static hs_status round_trip(const hlo_module *m) {
  hs_buf a = {0}, b = {0}, c = {0};
  hlo_module *once = NULL, *twice = NULL;
  print(m, &a);
  hs_status s = hlo_parse(m->ctx, a.p, a.n, NULL, &once);
  if (hs_ok(s)) print(once, &b), s = hlo_parse(m->ctx, b.p, b.n, NULL, &twice);
  if (hs_ok(s)) print(twice, &c);
  if (hs_ok(s) && (b.n != c.n || memcmp(b.p, c.p, b.n) != 0))
    s = hs_fail(HS_E_DIFFER, "it prints differently after reading it back");
  if (hs_ok(s) && hlo_fingerprint(m) != hlo_fingerprint(twice))
    s = hs_fail(HS_E_DIFFER, "it is another module after reading it back");
  hlo_module_free(once);
  hlo_module_free(twice);
  hs_buf_free(&a), hs_buf_free(&b), hs_buf_free(&c);
  return s;
}

static hs_status run(const module_run *r, const hlo_module *m) {
  hlo_module *whole;
  hlo_literal *got = NULL;
  HS_TRY(pjrt_compiled_whole(r->exe, m, &whole));
  hs_status s = hlo_eval_module(whole, r->nargs, r->args, NULL, &got);
  if (hs_ok(s)) s = hlo_compare_expect(got, r->want, r->want_n);
  hlo_literal_unref(got);
  hlo_module_free(whole);
  return s;
}

// Fusions that XLA tunes by themselves are dumped as modules of their own: those have no arguments
// here.
static bool check_state(module_run *r, const dump_step *d, bool part) {
  hlo_module *m = NULL;
  hlo_parse_options o = {.file = d->label};
  const char *what = "reading";
  hs_status s = hlo_load_file(r->ctx, d->file, &o, &m);
  if (hs_ok(s)) what = "verifying", s = hlo_verify(m, NULL);
  if (hs_ok(s)) what = "printing", s = round_trip(m);
  u64 print = hs_ok(s) ? hlo_fingerprint(m) : 0;
  // a pipeline begins with what the one before left
  if (hs_ok(s) && r->want && !part && print != r->ran) what = "running", s = run(r, m);
  bool good = hs_ok(s);
  if (good && !part) r->ran = print;
  if (!good)
    fprintf(r->out, "FAIL %s %u %s %s: %s: %s%s%s\n", r->name, d->order,
            d->pipeline ? d->pipeline : "", d->label, what, s.err->message, s.err->note ? "; " : "",
            s.err->note ? s.err->note : "");
  hs_status_drop(s);
  hlo_module_free(m);
  return good;
}

// ---- one module ---------------------------------------------------------------------------------
static hs_status compile(module_run *r, const char *dumps) {
  char *path = hs_format("%s/%s.hlo", r->s->dir, r->name),
       *args = hs_format("%s/%s.args", r->s->dir, r->name),
       *want = hs_format("%s/%s.expect", r->s->dir, r->name);
  hlo_module *m = NULL;
  size_t n = 0;
  hs_status s = hlo_load_file(r->ctx, path, NULL, &m);
  char *formula = r->s->values ? drv_read(args, &n) : NULL;
  if (r->s->values) r->want = drv_read(want, &r->want_n);
  if (hs_ok(s) && r->want) s = hlo_inputs_formula(r->ctx, m, formula, n, &r->args, &r->nargs);
  const backend_flag flags[] = {{"xla_dump_to", dumps},
                                {"xla_dump_hlo_pass_re", ".*"},
                                {"xla_dump_hlo_as_text", "true"},
                                {"xla_dump_large_constants", "true"}};
  const backend_options o = {
      .plugin = r->s->plugin, .target = r->s->target, .nflags = HS_COUNT(flags), .flags = flags};
  if (hs_ok(s)) r->module = hs_strdup(m->name);
  if (hs_ok(s)) s = backend_find("pjrt")->compile(m, &o, &r->exe);
  hlo_module_free(m);
  hs_free(formula);
  hs_free(path), hs_free(args), hs_free(want);
  return s;
}

static int check_module(void *arg, u32 k, FILE *out) {
  const steps *s = arg;
  module_run r = {.s = s, .name = s->names.v[k], .out = out, .ctx = hlo_ctx_new()};
  char dumps[] = "/tmp/hlosh-states-XXXXXX";
  if (!mkdtemp(dumps)) return BAD;
  hs_status st = compile(&r, dumps);
  int verdict = GOOD;
  u32 states = 0, good = 0;
  dump_folder folder = {0};
  if (!hs_ok(st)) {
    verdict = REFUSED;
    fprintf(out, "refused %s: %s\n", r.name, st.err->message);
  } else st = dump_folder_read(dumps, &folder);
  for (size_t j = 0; verdict == GOOD && hs_ok(st) && j < folder.modules.n; j++)
    for (size_t i = 0; i < folder.modules.v[j].steps.n; i++)
      states++, good += check_state(&r, &folder.modules.v[j].steps.v[i],
                                    strcmp(folder.modules.v[j].name, r.module) != 0);
  if (verdict == GOOD && (!states || good < states)) verdict = BAD;
  fprintf(out, "@ %u %u\n", states, good);
  hs_status_drop(st);
  dump_folder_free(&folder);
  bundle_remove(dumps);
  if (r.exe) backend_find("pjrt")->release(r.exe);
  hlo_inputs_free(r.args, r.nargs);
  hs_free(r.want);
  hs_free(r.module);
  hlo_ctx_free(r.ctx);
  return verdict;
}

static void module_done(void *arg, u32 k, drv_result *result) {
  steps *s = arg;
  int verdict = result->verdict;
  const char *text = result->text;
  u32 states = 0, good = 0;
  const char *counts = strstr(text, "@ ");
  for (const char *p = counts; p; p = strstr(p + 1, "\n@ ")) counts = *p == '\n' ? p + 1 : p;
  if (counts && sscanf(counts, "@ %u %u", &states, &good) == 2)
    s->states += states, s->good_states += good;
  if (counts) printf("%.*s", (int)(counts - text), text);
  else printf("FAIL %s: %s\n", s->names.v[k], drv_reason(result));
  s->good += verdict == GOOD;
  s->refused += verdict == REFUSED;
  s->bad += verdict != GOOD && verdict != REFUSED;
  fflush(stdout);
}

int main(int argc, char **argv) {
  int worker_status;
  // this binary is its own worker
  if (worker_entry(argc, argv, &worker_status)) return worker_status;
  static const char *const options[] = {"plugin", "for", "only", "timeout", "values", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || a.n != 1) {
    fprintf(
        stderr,
        "usage: steps DIR [--plugin NAME] [--for h200|FILE] [--only SUBSTRING] [--timeout SECONDS] "
        "[--values 1] [-j N]\n");
    return 2;
  }
  const char *timeout = drv_option(&a, "timeout"), *target = drv_option(&a, "for");
  steps s = {.dir = a.v[0],
             .only = drv_option(&a, "only"),
             .plugin = drv_option(&a, "plugin"),
             .values = drv_option(&a, "values") != NULL};
  if ((target && !(s.target = drv_gpu(target))) || !drv_modules(s.dir, s.only, &s.names)) {
    fprintf(stderr, "%s: %s\n", target && !s.target ? target : s.dir, strerror(errno));
    return 2;
  }
  drv_run((u32)s.names.n, a.jobs, timeout ? atof(timeout) : 600, check_module, module_done, &s);
  printf("steps: %u/%u modules, %llu/%llu states, %u refused by the plug-in\n", s.good,
         (u32)s.names.n, (unsigned long long)s.good_states, (unsigned long long)s.states,
         s.refused);
  drv_names_free(&s.names);
  hs_free(s.target);
  return s.bad ? 1 : 0;
}
