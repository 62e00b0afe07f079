// suite.c — runs a folder of HLO cases (NAME.hlo, NAME.args, NAME.expect) and checks the outputs.
//
// usage: suite DIR [--backend NAME] [--pipeline NAME] [--made 1] [--for FILE|NAME] [--plugin NAME]
// [--only SUBSTRING] [--timeout SECONDS]
//        [--times 1] [-j N]
// --plugin NAME: the PJRT plug-in of that name runs the modules. --made 1: what it makes of each
// module (its optimized module) is verified, printed and read back, and run on the evaluator, on
// several simulated devices where it is partitioned. --for FILE|NAME: each module is only compiled,
// for the GPU that the file describes, or one that hlosh describes (h200); what came out is
// verified, printed and read back. Each case runs in a child of its own. Prints "FAIL NAME: reason"
// per failure, the cases that the backend does not cover by the opcode, and last "suite: P/T agree,
// U unsupported". Exit 0 when nothing failed.
#include "core/text/text.h"
#include "backends/backend.h"
#include "backends/pjrt/pjrt.h"
#include "backends/worker.h"
#include "core/verify/verify.h"
#include "passes/passes.h"
#include "tests/harness/driver.h"

#include <errno.h>
#include <stdlib.h>

// exit statuses of the children: no sanitizer or library ends with these
enum { AGREE, UNSUPPORTED = 40, DIFFER };

typedef struct suite {
  // pipeline: run on each module first; NULL: as loaded
  const char *dir, *backend, *only, *pipeline;
  bool times, made;
  const char *plugin;
  char *target;  // --plugin, text of --for
  drv_names names;
  u32 agree, unsupported, failed;
} suite;

// The evaluator is called directly, every other backend through its table.
static hs_status run_module(const suite *s, const hlo_module *m, u32 n, hlo_literal *const *args,
                            double *ms, hlo_literal **out) {
  u64 start = hs_now_ns();
  hs_status st;
  if (!s->backend || !strcmp(s->backend, "interp")) {
    st = hlo_eval_module(m, n, args, NULL, out);
  } else {
    const backend *b = backend_find(s->backend);
    if (!b) return hs_fail(HS_E_USAGE, "no backend %s", s->backend);
    backend_options bo = {.plugin = s->plugin};
    backend_run_options ro = {.min_runs = 1, .max_runs = 1, .want_outputs = true};
    backend_exe *exe = NULL;
    backend_result r = {0};
    HS_TRY(b->compile(m, &bo, &exe));
    start = hs_now_ns();
    st = b->run(exe, n, args, &ro, &r);
    if (hs_ok(st)) *out = hlo_literal_ref(r.outputs);
    backend_result_free(&r);
    b->release(exe);
  }
  *ms = (double)(hs_now_ns() - start) * 1e-6;
  return st;
}

static hs_status reread(const hlo_module *m, hs_buf *text, hlo_module **again) {
  hlo_print_options o = hlo_print_full();
  hlo_print_module(text, m, &o);
  return hlo_parse(m->ctx, text->p, text->n, NULL, again);
}

// Reading numbers stack frames anew, so the text is compared from the second printing on.
static hs_status round_trip(const hlo_module *m) {
  hs_buf text[3] = {{0}, {0}, {0}};
  hlo_module *once = NULL, *twice = NULL;
  hs_status s = reread(m, &text[0], &once);
  if (hs_ok(s)) s = reread(once, &text[1], &twice);
  if (hs_ok(s)) {
    hlo_print_options o = hlo_print_full();
    hlo_print_module(&text[2], twice, &o);
    if (text[1].n != text[2].n || memcmp(text[1].p, text[2].p, text[1].n))
      s = hs_fail(HS_E_DIFFER, "the optimized module prints differently after reading it back");
  }
  hlo_module_free(once);
  hlo_module_free(twice);
  for (u32 k = 0; k < 3; k++) hs_buf_free(&text[k]);
  return s;
}

static hs_status compile_for(const suite *s, const hlo_module *m, double *ms) {
  const backend *b = backend_find("pjrt");
  const backend_options o = {.plugin = s->plugin, .target = s->target};
  backend_exe *exe = NULL;
  HS_TRY(b->compile(m, &o, &exe));
  *ms = b->compiled(exe)->compile_ms;
  const pjrt_result *r = pjrt_compiled_result(exe);
  hs_status st = r->optimized ? hlo_verify(r->optimized, NULL)
                              : hs_fail(HS_E_PROTO, "%s",
                                        r->unreadable ? r->unreadable : "no optimized module");
  if (hs_ok(st)) st = round_trip(r->optimized);
  b->release(exe);
  return st;
}

static hs_status run_made(const suite *s, const hlo_module *m, u32 n, hlo_literal *const *args,
                          double *ms, hlo_literal **out) {
  const backend *b = backend_find("pjrt");
  backend_options bo = {.plugin = s->plugin};
  backend_exe *exe = NULL;
  HS_TRY(b->compile(m, &bo, &exe));
  const pjrt_result *r = pjrt_compiled_result(exe);
  u64 start = hs_now_ns();
  hs_status st = r->optimized ? hlo_verify(r->optimized, NULL)
                              : hs_fail(HS_E_PROTO, "%s",
                                        r->unreadable ? r->unreadable : "no optimized module");
  if (hs_ok(st)) st = round_trip(r->optimized);
  hlo_module *whole = NULL;
  if (hs_ok(st)) st = pjrt_compiled_whole(exe, r->optimized, &whole);
  if (hs_ok(st)) st = hlo_eval_module(whole, n, args, NULL, out);
  hlo_module_free(whole);
  *ms = (double)(hs_now_ns() - start) * 1e-6;
  b->release(exe);
  return st;
}

static hs_status optimize(hlo_module *m, const char *name) {
  const pass_pipeline *p = pipeline_find(&pass_builtin, name);
  pass_run_options o = pass_run_default();
  pass_log log = {0};
  hs_status st = pipeline_run(m, p ? p->text : name, &o, &log);
  hs_vec_free(&log);
  return st;
}

static hs_status check_case(const suite *s, const char *name, double *ms) {
  char *path = hs_format("%s/%s.hlo", s->dir, name),
       *args_path = hs_format("%s/%s.args", s->dir, name),
       *want_path = hs_format("%s/%s.expect", s->dir, name);
  size_t args_n = 0, want_n = 0;
  char *args_text = drv_read(args_path, &args_n), *want = drv_read(want_path, &want_n);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hlo_literal **args = NULL, *out = NULL;
  u32 n = 0;
  hs_status st =
      want ? hlo_load_file(ctx, path, NULL, &m) : hs_fail(HS_E_IO, "%s cannot be read", want_path);
  if (hs_ok(st)) st = hlo_inputs_formula(ctx, m, args_text, args_n, &args, &n);
  if (hs_ok(st) && s->pipeline) st = optimize(m, s->pipeline);
  if (hs_ok(st) && s->target) st = compile_for(s, m, ms);
  else if (hs_ok(st))
    st = s->made ? run_made(s, m, n, args, ms, &out) : run_module(s, m, n, args, ms, &out);
  if (hs_ok(st) && out) st = hlo_compare_expect(out, want, want_n);
  hlo_literal_unref(out);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  hs_free(args_text);
  hs_free(want);
  hs_free(path);
  hs_free(args_path);
  hs_free(want_path);
  return st;
}

static int run_case(void *arg, u32 k, FILE *out) {
  const suite *s = arg;
  double ms = 0;
  hs_status st = check_case(s, s->names.v[k], &ms);
  if (hs_ok(st)) {
    fprintf(out, "%.1f ms", ms);
    return AGREE;
  }
  int verdict = st.err->code == HS_E_UNSUPPORTED ? UNSUPPORTED : DIFFER;
  fprintf(out, "%s%s%s", st.err->message, st.err->note ? "; " : "",
          st.err->note ? st.err->note : "");
  hs_status_drop(st);
  return verdict;
}

static void case_done(void *arg, u32 k, drv_result *result) {
  suite *s = arg;
  int verdict = result->verdict;
  const char *text = drv_reason(result);
  if (verdict == AGREE) s->agree++;
  else if (verdict == UNSUPPORTED)
    s->unsupported++, printf("unsupported %s: %s\n", s->names.v[k], text);
  else s->failed++, printf("FAIL %s: %s\n", s->names.v[k], text);
  if (s->times && verdict == AGREE) printf("ok %s: %s\n", s->names.v[k], text);
  fflush(stdout);
}

int main(int argc, char **argv) {
  int worker_status;
  // this binary is its own worker
  if (worker_entry(argc, argv, &worker_status)) return worker_status;
  static const char *const options[] = {"backend", "pipeline", "made",  "for", "plugin",
                                        "only",    "timeout",  "times", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || a.n != 1) {
    fprintf(stderr,
            "usage: suite DIR [--backend NAME] [--pipeline NAME] [--made 1] [--only SUBSTRING] "
            "[--timeout SECONDS] [--times 1] [-j N]\n");
    return 2;
  }
  const char *timeout = drv_option(&a, "timeout");
  suite s = {.dir = a.v[0],
             .backend = drv_option(&a, "backend"),
             .only = drv_option(&a, "only"),
             .pipeline = drv_option(&a, "pipeline"),
             .times = drv_option(&a, "times") != NULL,
             .made = drv_option(&a, "made") != NULL,
             .plugin = drv_option(&a, "plugin")};
  const char *target = drv_option(&a, "for");
  if (s.plugin && !s.backend) s.backend = "pjrt";
  if (target && !(s.target = drv_gpu(target))) {
    fprintf(stderr, "%s: %s\n", target, strerror(errno));
    return 2;
  }
  if (!drv_modules(s.dir, s.only, &s.names)) {
    fprintf(stderr, "%s: %s\n", s.dir, strerror(errno));
    return 2;
  }
  drv_run((u32)s.names.n, a.jobs, timeout ? atof(timeout) : 600, run_case, case_done, &s);
  printf("suite: %u/%u agree, %u unsupported\n", s.agree, (u32)s.names.n, s.unsupported);
  drv_names_free(&s.names);
  hs_free(s.target);
  return s.failed ? 1 : 0;
}
