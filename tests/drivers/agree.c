// agree.c — random modules (tests/random) on two backends: do they compute the same?
//
// usage: agree [--backend NAME] [--reference NAME] [--from SEED] [--count N] [--family NAME]
// [--quick 1] [-j N] --quick 1: a plug-in's code generator shall hurry (optimization level 0); its
// passes run all the same. Every module must parse and verify. A result may differ from the
// reference's by the tolerance that the generator worked out for it, and by a few units in the last
// place. Prints "FAIL SEED: reason" per failure, why modules were refused, and last "agree: P/T
// agree, R refused, D died"; refused ones are not in T. Exit 0 when nothing failed.
#include "core/text/text.h"
#include "backends/backend.h"
#include "backends/worker.h"
#include "core/eval/inputs.h"
#include "core/verify/verify.h"
#include "tests/harness/driver.h"
#include "tests/harness/generated.h"

#include <stdlib.h>

enum { BATCH = 40, DEADLINE_S = 60 };
typedef struct setup {
  const char *backend, *reference, *family;
  bool quick;
  u64 from, count;
  u32 agree, refused, failed, died;
  HS_VEC(char *) reasons;
} setup;

static hs_status run_on(const char *name, bool quick, const hlo_module *m, u32 n,
                        hlo_literal *const *args, hlo_literal **out) {
  if (!strcmp(name, "interp")) return hlo_eval_module(m, n, args, NULL, out);
  const backend *b = backend_find(name);
  if (!b) return hs_fail(HS_E_USAGE, "no backend %s", name);
  // Of two numbers of which one is NaN, XLA:CPU by default gives either as minimum or maximum; the
  // first flag asks for NaN.
  static const backend_flag flags[] = {{"xla_cpu_enable_fast_min_max", "false"},
                                       {"xla_backend_optimization_level", "0"},
                                       {"xla_cpu_parallel_codegen_split_count", "1"}};
  const backend_options o = {.threads = 1,
                             .deadline_s = DEADLINE_S,
                             .nflags = quick ? HS_COUNT(flags) : 1,
                             .flags = flags};
  return backend_run_once(b, m, &o, n, args, out);
}

// One line: "ok", "refused REASON", "died REASON" or "FAIL REASON".
static void compare(FILE *out, const gen_module *g, const hlo_literal *want,
                    const hlo_literal *got) {
  char why[200];
  if (generated_agrees(g, want, got, NULL, why)) fprintf(out, "ok\n");
  else fprintf(out, "FAIL %s (%s)\n", why, g->opcodes);
}

static void one_line(FILE *out, const char *verdict, hs_status s) {
  char *text = hs_format("%s", s.err->message);
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = ' ';
  fprintf(out, "%s %.300s\n", verdict, text);
  hs_free(text);
  hs_status_drop(s);
}

static void check_seed(const setup *s, u64 seed, FILE *out) {
  gen_module g;
  gen_make(seed, s->family, &g);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hlo_literal **args = NULL, *want = NULL, *got = NULL;
  u32 n = 0;
  hs_status st = hlo_parse(ctx, g.text, strlen(g.text), NULL, &m);
  if (hs_ok(st)) st = hlo_verify(m, NULL);
  if (hs_ok(st)) st = hlo_inputs_formula(ctx, m, g.args, strlen(g.args), &args, &n);
  if (!hs_ok(st)) one_line(out, "FAIL not valid:", st);
  else {
    st = run_on(s->reference, s->quick, m, n, args, &want);
    if (!hs_ok(st))
      one_line(out, st.err->code == HS_E_UNSUPPORTED ? "refused" : "FAIL the reference:", st);
    else {
      st = run_on(s->backend, s->quick, m, n, args, &got);
      if (hs_ok(st)) compare(out, &g, want, got);
      else
        one_line(out,
                 st.err->code == HS_E_WORKER ? "died"
                 : st.err->code == HS_E_COMPILE || st.err->code == HS_E_UNSUPPORTED ||
                         st.err->code == HS_E_RUN
                     ? "refused"
                     : "FAIL",
                 st);
    }
  }
  hlo_literal_unref(want);
  hlo_literal_unref(got);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  gen_free(&g);
}

static int run_batch(void *arg, u32 k, FILE *out) {
  const setup *s = arg;
  u64 end = HS_MIN(s->from + (u64)(k + 1) * BATCH, s->from + s->count);
  for (u64 seed = s->from + (u64)k * BATCH; seed < end; seed++) {
    fprintf(out, "%llu ", (unsigned long long)seed);
    fflush(out);  // a death names its seed
    check_seed(s, seed, out);
  }
  return 0;
}

// Reasons are tallied by their words, numbers and names in quotes left out.
static void tally(setup *s, const char *reason) {
  hs_buf b = {0};
  for (const char *p = reason; *p && *p != '\n' && b.n < 120; p++)
    if (!(*p >= '0' && *p <= '9') && *p != '%') hs_buf_putc(&b, *p);
  hs_vec_push(&s->reasons, hs_strdup(b.n ? hs_buf_cstr(&b) : ""));
  hs_buf_free(&b);
}

static void batch_done(void *arg, u32 k, drv_result *result) {
  setup *s = arg;
  int verdict = result->verdict;
  (void)k;
  for (const char *p = result->text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
    const char *word = p + strcspn(p, " \n");
    int n = (int)strcspn(p, "\n");
    if (!strncmp(word, " ok", 3)) s->agree++;
    else if (!strncmp(word, " refused", 8)) s->refused++, tally(s, word + 1);
    else if (!strncmp(word, " died", 5)) s->died++, tally(s, word + 1);
    else s->failed++, printf("FAIL %.*s\n", n, p);
  }
  if (verdict) s->failed++, printf("FAIL batch: %s\n", drv_reason(result));
  fflush(stdout);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void say_reasons(setup *s) {
  if (s->reasons.n) qsort(s->reasons.v, s->reasons.n, sizeof *s->reasons.v, by_text);
  for (size_t k = 0, end; k < s->reasons.n; k = end) {
    for (end = k; end < s->reasons.n && !strcmp(s->reasons.v[end], s->reasons.v[k]); end++) {}
    printf("%5zu x %s\n", end - k, s->reasons.v[k]);
  }
  for (size_t k = 0; k < s->reasons.n; k++) hs_free(s->reasons.v[k]);
  hs_vec_free(&s->reasons);
}

int main(int argc, char **argv) {
  int worker_status;
  // this binary is its own worker
  if (worker_entry(argc, argv, &worker_status)) return worker_status;
  static const char *const options[] = {"backend", "reference", "from", "count",
                                        "family",  "quick",     NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || a.n) {
    fprintf(stderr,
            "usage: agree [--backend NAME] [--reference NAME] [--from SEED] [--count N] [--family "
            "NAME] [--quick 1] [-j N]\n");
    return 2;
  }
  const char *from = drv_option(&a, "from"), *count = drv_option(&a, "count"),
             *tested = drv_option(&a, "backend"), *reference = drv_option(&a, "reference");
  setup s = {.backend = tested ? tested : "cpu",
             .reference = reference ? reference : "interp",
             .family = drv_option(&a, "family"),
             .quick = drv_option(&a, "quick") != NULL,
             .from = from ? strtoull(from, NULL, 10) : 0,
             .count = count ? strtoull(count, NULL, 10) : 100};
  drv_run((u32)((s.count + BATCH - 1) / BATCH), a.jobs, 900, run_batch, batch_done, &s);
  say_reasons(&s);
  printf("agree: %u/%u agree, %u refused, %u died\n", s.agree, s.agree + s.failed, s.refused,
         s.died);
  return s.failed ? 1 : 0;
}
