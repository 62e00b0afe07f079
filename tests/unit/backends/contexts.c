// contexts.c — two threads, each on its own context, do the same work at once and get the same
// results; an interrupt reaches the thread that watches its flag and no other. The build with
// VARIANT=tsan makes this a check for data races.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/analysis/cost.h"
#include "core/diff/graph_diff.h"
#include "core/eval/eval.h"
#include "core/proto/proto.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "passes/passes.h"

#include <pthread.h>

// Control flow, folds, a collective of two devices, constants to fold.
static const char text[] =
    "HloModule m, replica_count=2\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
    "cond { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
    " n = s32[] constant(5) ROOT lt = pred[] compare(i, n), direction=LT }\n"
    "body { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
    " x = f32[8] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)\n"
    " y = f32[8] tanh(x) ROOT t = (s32[], f32[8]) tuple(j, y) }\n"
    "ENTRY e { x = f32[8] parameter(0) z = s32[] constant(0)\n"
    " t = (s32[], f32[8]) tuple(z, x) w = (s32[], f32[8]) while(t), condition=cond, body=body\n"
    " y = f32[8] get-tuple-element(w), index=1 c = f32[] constant(0)\n"
    " r = f32[] reduce(y, c), dimensions={0}, to_apply=add\n"
    " q = f32[] add(c, c) v = f32[] add(r, q)\n"
    " ROOT all = f32[] all-reduce(v), replica_groups={{0,1}}, to_apply=add }\n";

typedef struct job {
  hs_status st;
  hs_buf out;  // everything the work printed
} job;

// Modules are freed with a failed test's process.
static hs_status work_on(hlo_ctx *ctx, hs_buf *out) {
  hlo_module *m, *again = NULL, *bad;
  hlo_literal **args, *value;
  u32 n;
  HS_TRY(hlo_parse(ctx, text, sizeof text - 1, NULL, &m));
  HS_TRY(hlo_verify(m, NULL));
  HS_TRY(hlo_inputs_random(ctx, m, 7, &args, &n));
  HS_TRY(hlo_eval_module(m, n, args, NULL, &value));
  hlo_print_literal(out, value);
  hlo_literal_unref(value);
  pass_run_options o = pass_run_default();
  HS_TRY(pipeline_run(m, "algsimp,cse,dce", &o, NULL));
  hlo_print_options print = hlo_print_canonical();
  hlo_print_module(out, m, &print);
  hs_buf wire = {0};
  HS_TRY(hlo_proto_write(&wire, m, true));
  HS_TRY(hlo_proto_read(ctx, wire.p, wire.n, "m", &again));
  hs_buf_free(&wire);
  hs_arena a = {0};
  hlo_graph_diff d;
  hlo_graph_diff_make(m, again, &a, &d);
  hs_buf_printf(out, "same %u changed %u\n", d.same, d.changed);
  hs_arena_free(&a);
  hs_status_drop(hlo_parse(ctx, "ENTRY e { ROOT x = f32[] ad(y) }", 32, NULL, &bad));
  hlo_inputs_free(args, n);
  hlo_module_free(again);
  hlo_module_free(m);
  return HS_GOOD;
}

static void *work(void *arg) {
  job *j = arg;
  hlo_ctx *ctx = hlo_ctx_new();
  for (int k = 0; k < 20 && hs_ok(j->st); k++) {
    j->out.n = 0;
    j->st = work_on(ctx, &j->out);
  }
  hlo_ctx_free(ctx);
  return NULL;
}

static void two_contexts(void **state) {
  (void)state;
  job jobs[2] = {0};
  pthread_t t[2];
  for (int k = 0; k < 2; k++) assert_int_equal(pthread_create(&t[k], NULL, work, &jobs[k]), 0);
  for (int k = 0; k < 2; k++) pthread_join(t[k], NULL);
  for (int k = 0; k < 2; k++) {
    hs_buf b = {0};
    hs_status_render(jobs[k].st, &b, false);
    if (!hs_ok(jobs[k].st)) fail_msg("%s", hs_buf_cstr(&b));
    hs_buf_free(&b);
  }
  assert_string_equal(hs_buf_cstr(&jobs[0].out), hs_buf_cstr(&jobs[1].out));
  assert_non_null(strstr(jobs[0].out.p, "changed 0"));
  for (int k = 0; k < 2; k++) hs_buf_free(&jobs[k].out);
}

// ---- interrupts ---------------------------------------------------------------------------------
typedef struct watcher {
  const hs_interrupt *flag;
  hs_code code;  // of the evaluation's end
} watcher;

static void *evaluate(void *arg) {
  watcher *w = arg;
  hs_interrupt_watch(w->flag);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hlo_literal *value = NULL, **args = NULL;
  u32 n = 0;
  hs_status s = hlo_parse(ctx, text, sizeof text - 1, NULL, &m);
  if (hs_ok(s)) s = hlo_inputs_random(ctx, m, 7, &args, &n);
  if (hs_ok(s)) s = hlo_eval_module(m, n, args, NULL, &value);
  w->code = s.err ? s.err->code : HS_OK;
  hs_status_drop(s);
  hlo_inputs_free(args, n);
  hlo_literal_unref(value);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return NULL;
}

// The devices of the evaluation are threads of its own: they watch the flag of the one that asked.
static void interrupts(void **state) {
  (void)state;
  hs_interrupt up = 1, down = 0;
  watcher w[3] = {{.flag = &up}, {.flag = &down}, {.flag = NULL}};
  pthread_t t[3];
  for (int k = 0; k < 3; k++) assert_int_equal(pthread_create(&t[k], NULL, evaluate, &w[k]), 0);
  for (int k = 0; k < 3; k++) pthread_join(t[k], NULL);
  assert_int_equal(w[0].code, HS_E_INTERRUPTED);
  assert_int_equal(w[1].code, HS_OK);
  assert_int_equal(w[2].code, HS_OK);
  assert_false(hs_interrupted());
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(two_contexts), cmocka_unit_test(interrupts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
