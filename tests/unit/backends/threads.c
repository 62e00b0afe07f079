// threads.c — two contexts side by side, each in a thread of its own.
//
// Both threads do what a session does (load, verify, print, write and read protos, passes and
// pipelines, evaluate, cost, liveness, diff, commit, undo, errors of the reader) on modules of
// their own, and start at a barrier so that whatever is filled on first use is first used by
// both. The results must be those of one thread alone. An interrupt reaches the threads that
// watch its flag and no other. `make tsan` builds this file under ThreadSanitizer, which must
// find no race (no suppressions).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "backends/backend.h"
#include "backends/worker.h"
#include "core/analysis/cost.h"
#include "core/diff/graph_diff.h"
#include "core/eval/eval.h"
#include "core/proto/proto.h"
#include "core/text/text.h"
#include "passes/passes.h"
#include "tests/unit/skip.h"

static const char *const examples[] = {"examples/softmax.hlo", "examples/mlp.hlo"};

static const char loop[] =
    "HloModule loop\n"
    "cond { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "
    "constant(5) ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] "
    "constant(1) j = s32[] add(i, one) x = f32[4] get-tuple-element(p), index=1 y = f32[4] "
    "multiply(x, x) ROOT t = (s32[], f32[4]) tuple(j, y) }\n"
    "ENTRY e { x = f32[4] parameter(0) z = s32[] constant(0) t = (s32[], f32[4]) tuple(z, x) w = "
    "(s32[], f32[4]) while(t), condition=cond, body=body ROOT r = f32[4] get-tuple-element(w), "
    "index=1 }\n";

// Control flow, a collective of two devices, constants to fold. For the evaluator only, which runs
// each device in a thread of its own.
static const char devices[] =
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

// What one thread does, and what came of it: a hash over every text and value, or an error.
typedef struct work {
  const char *backend;  // NULL: the evaluator
  pthread_barrier_t *start;
  u64 hash;
  char error[200];
} work;

static bool good(work *w, const char *what, hs_status s) {
  if (hs_ok(s)) return true;
  snprintf(w->error, sizeof w->error, "%s: %s", what, s.err->message);
  hs_status_drop(s);
  return false;
}

static void mix_text(work *w, const hlo_module *m) {
  hs_buf text = {0};
  hlo_print_options o = hlo_print_full();
  hlo_print_module(&text, m, &o);
  w->hash = hs_hash_bytes(text.p, text.n, w->hash);
  hs_buf_free(&text);
}

static void mix_value(work *w, const hlo_literal *l) {
  for (u32 k = 0; k < l->nchildren; k++) mix_value(w, l->children[k]);
  if (l->data) w->hash = hs_hash_bytes(l->data, l->bytes, w->hash);
}

static bool evaluate(work *w, hlo_module *m, const char *backend_name) {
  hlo_literal **args = NULL, *out = NULL;
  u32 n = 0;
  if (!good(w, "inputs", hlo_inputs_random(m->ctx, m, 7, &args, &n))) return false;
  hs_status s = HS_GOOD;
  if (!backend_name) {
    s = hlo_eval_module(m, n, args, NULL, &out);
  } else {
    const backend *b = backend_find(backend_name);
    backend_exe *exe = NULL;
    backend_run_options o = {.min_runs = 1, .max_runs = 1, .want_outputs = true};
    backend_result r = {0};
    s = b ? b->compile(m, &(backend_options){.threads = 1}, &exe)
          : hs_fail(HS_E_USAGE, "no backend %s", backend_name);
    if (hs_ok(s)) s = b->run(exe, n, args, &o, &r);
    if (hs_ok(s)) out = hlo_literal_ref(r.outputs);
    backend_result_free(&r);
    if (exe) b->release(exe);
  }
  if (out) mix_value(w, out);
  hlo_literal_unref(out);
  hlo_inputs_free(args, n);
  return good(w, "evaluation", s);
}

static bool analyse(work *w, hlo_module *m) {
  hlo_cost_table cost;
  hlo_memory memory;
  if (!good(w, "cost", hlo_cost_module(m, &cost))) return false;
  w->hash = hs_mix(w->hash, (u64)cost.total.flops);
  hlo_cost_free(&cost);
  if (!good(w, "liveness", hlo_memory_estimate(m, true, &memory))) return false;
  w->hash = hs_mix(w->hash, (u64)memory.peak_bytes);
  return true;
}

// One pass or pipeline as a version of m: committed, compared with what was before, undone.
static bool try_version(work *w, hlo_module *m, const char *text) {
  hlo_module *before = hlo_module_clone(m, m->name);
  u64 was = hlo_text_hash(m);
  pass_run_options o = pass_run_default();
  hs_status s = pipeline_run(m, text, &o, NULL);
  if (!hs_ok(s)) {
    // one that needs another module first; said the same way by both threads
    w->hash = hs_hash_bytes(s.err->message, strlen(s.err->message), w->hash);
    hs_status_drop(s);
    hlo_abort(m);
  } else {
    mix_text(w, m);
    hs_arena a = {0};
    hlo_graph_diff d;
    hlo_graph_diff_make(before, m, &a, &d);
    w->hash = hs_mix(w->hash, d.same);
    hs_arena_free(&a);
    hlo_delta *delta = hlo_commit(m);
    if (delta) hlo_delta_undo(m, delta), hlo_delta_redo(m, delta), hlo_delta_undo(m, delta);
    if (delta) hlo_delta_free(m, delta);
  }
  hlo_module_free(before);
  if (hlo_text_hash(m) != was) snprintf(w->error, sizeof w->error, "%s: not undone", text);
  return !*w->error;
}

// The module read back from its proto is the same one.
static bool try_proto(work *w, const hlo_module *m) {
  hs_buf wire = {0};
  hs_arena a = {0};
  hlo_module *again = NULL;
  hlo_graph_diff d;
  hs_status s = hlo_proto_write(&wire, m, true);
  if (hs_ok(s)) s = hlo_proto_read(m->ctx, wire.p, wire.n, "proto", &again);
  if (hs_ok(s)) {
    mix_text(w, again);
    hlo_graph_diff_make(m, again, &a, &d);
    if (d.changed) snprintf(w->error, sizeof w->error, "proto: %u changed", d.changed);
  }
  hs_arena_free(&a);
  hlo_module_free(again);
  hs_buf_free(&wire);
  return good(w, "proto", s) && !*w->error;
}

// Errors and their suggestions are made by both threads too.
static void mix_error(work *w, hlo_ctx *ctx) {
  static const char wrong[] = "ENTRY e { ROOT x = f32[] ad(y) }";
  hlo_module *m = NULL;
  hs_buf b = {0};
  hs_status s = hlo_parse(ctx, wrong, strlen(wrong), NULL, &m);
  hs_status_render(s, &b, false);
  w->hash = hs_hash_bytes(b.p, b.n, w->hash);
  hs_status_drop(s);
  hs_buf_free(&b);
}

static bool session(work *w, hlo_module *m) {
  if (!good(w, "verifier", hlo_verify(m, NULL))) return false;
  mix_text(w, m);
  mix_error(w, m->ctx);
  if (!try_proto(w, m)) return false;
  if (!evaluate(w, m, w->backend) || !analyse(w, m)) return false;
  hlo_commit(m);
  for (u32 k = 0; k < pass_builtin.npasses && !w->backend; k++)
    if (!try_version(w, m, pass_builtin.passes[k]->name)) return false;
  for (u32 k = 0; k < pass_builtin.npipelines && !w->backend; k++)
    if (!try_version(w, m, pass_builtin.pipelines[k].name)) return false;
  return true;
}

static void *sessions(void *arg) {
  work *w = arg;
  if (w->start) pthread_barrier_wait(w->start);
  const char *const texts[] = {loop, w->backend ? NULL : devices};
  for (size_t k = 0; k < HS_COUNT(examples) + HS_COUNT(texts); k++) {
    const char *text = k < HS_COUNT(examples) ? NULL : texts[k - HS_COUNT(examples)];
    if (k >= HS_COUNT(examples) && !text) continue;
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_module *m = NULL;
    hs_status s = text ? hlo_parse(ctx, text, strlen(text), NULL, &m)
                       : hlo_load_file(ctx, examples[k], NULL, &m);
    bool ok = good(w, "loading", s) && session(w, m);
    hlo_module_free(m);
    hlo_ctx_free(ctx);
    if (!ok) break;
  }
  return NULL;
}

static void side_by_side(const char *backend_name) {
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, 2);
  work both[2] = {{.backend = backend_name, .start = &start},
                  {.backend = backend_name, .start = &start}};
  pthread_t threads[2];
  for (u32 k = 0; k < 2; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, sessions, &both[k]), 0);
  for (u32 k = 0; k < 2; k++) pthread_join(threads[k], NULL);
  pthread_barrier_destroy(&start);
  work alone = {.backend = backend_name};
  sessions(&alone);
  assert_string_equal(alone.error, "");
  for (u32 k = 0; k < 2; k++) {
    assert_string_equal(both[k].error, "");
    assert_int_equal(both[k].hash, alone.hash);
  }
}

static void two_sessions(void **state) {
  (void)state;
  side_by_side(NULL);
}
static void two_backends_in_process(void **state) {
  (void)state;
  side_by_side("interp");
}
static void two_backends_in_workers(void **state) {
  (void)state;
  const backend *b = backend_find("cpu");
  hs_status s = b ? b->probe() : hs_fail(HS_E_UNSUPPORTED, "no cpu backend");
  bool there = hs_ok(s);
  hs_status_drop(s);
  if (!there) SKIP_TEST("no cpu backend in this build");
  side_by_side("cpu");
}

// ---- interrupts ---------------------------------------------------------------------------------
typedef struct watcher {
  hs_interrupt *flag;
  hs_code code;  // of the evaluation's end
} watcher;

static void *evaluate_watched(void *arg) {
  watcher *w = arg;
  hs_interrupt_watch(w->flag);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hlo_literal *value = NULL, **args = NULL;
  u32 n = 0;
  hs_status s = hlo_parse(ctx, devices, strlen(devices), NULL, &m);
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
  for (int k = 0; k < 3; k++)
    assert_int_equal(pthread_create(&t[k], NULL, evaluate_watched, &w[k]), 0);
  for (int k = 0; k < 3; k++) pthread_join(t[k], NULL);
  assert_int_equal(w[0].code, HS_E_INTERRUPTED);
  assert_int_equal(w[1].code, HS_OK);
  assert_int_equal(w[2].code, HS_OK);
  assert_false(hs_interrupted());
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_sessions), cmocka_unit_test(two_backends_in_process),
      cmocka_unit_test(two_backends_in_workers), cmocka_unit_test(interrupts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
