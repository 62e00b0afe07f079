// The pjrt backend on plug-ins of our own making (tests/plugin/fake_pjrt.c): good, old, odd,
// hanging, lying and crashing ones, files that are none; what is sent to plug-ins; and, where real
// XLA is at hand, the same programs on it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/pjrt/api.h"
#include "backends/pjrt/pjrt.h"
#include "backends/pjrt/serve.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "profiler/gpu.h"
#include "tests/unit/modules.h"

static char folder[64];
static backend_context *backends;
static hs_buf read_file(const char *path) {
  hs_buf b = {0};
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  char chunk[65536];
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) hs_buf_put(&b, chunk, n);
  fclose(f);
  return b;
}

static void write_file(const char *path, const void *p, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(p, 1, n, f), n);
  fclose(f);
}

// The fake plug-in under the name of a mode; the path is good until the next call.
static const char *fake(const char *mode) {
  static char path[256];
  const char *build = getenv("HLOSH_BUILD");
  char *from = hs_format("%s/tests/libfake_pjrt.so", build ? build : "build");
  hs_buf b = read_file(from);
  snprintf(path, sizeof path, "%s/fake-%s.so", folder, mode);
  if (access(path, R_OK) != 0) write_file(path, b.p, b.n);
  hs_buf_free(&b);
  hs_free(from);
  return path;
}

static const char add_one[] =
    "HloModule add_one\n"
    "ENTRY e { p = f32[4] parameter(0) c = f32[] constant(1) b = f32[4] broadcast(c), "
    "dimensions={} ROOT r = f32[4] add(p, b) }\n";

static hs_status run_text(const char *plugin, const char *text, double deadline,
                          hlo_literal **out) {
  hlo_module *m = parse(text);
  hlo_literal **args;
  u32 n;
  assert_true(hs_ok(hlo_inputs_random(ctx, m, 7, &args, &n)));
  backend_options o = {.context = backends, .plugin = plugin, .deadline_s = deadline};
  hs_status s = backend_run_once(backend_find("pjrt"), m, &o, n, args, out);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  return s;
}

// Runs on a plug-in and on the evaluator.
static void agrees(const char *plugin, const char *text) {
  hlo_module *m = parse(text);
  hlo_literal **args, *want, *got = NULL;
  u32 n;
  assert_true(hs_ok(hlo_inputs_random(ctx, m, 7, &args, &n)));
  assert_true(hs_ok(hlo_eval_module(m, n, args, NULL, &want)));
  hs_status s = run_text(plugin, text, 120, &got);
  if (!hs_ok(s)) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  s = hlo_compare(want, got, (hlo_tolerance){1e-5, 1e-5});
  if (!hs_ok(s)) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  hlo_literal_unref(want);
  hlo_literal_unref(got);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
}

static void refuses(const char *plugin, double deadline, hs_code code, const char *words) {
  hlo_literal *out = NULL;
  hs_status s = run_text(plugin, add_one, deadline, &out);
  assert_false(hs_ok(s));
  if (s.err->code != code || !strstr(s.err->message, words))
    print_error("%s: %s (%s)\n", hs_code_text(s.err->code), s.err->message,
                s.err->note ? s.err->note : "");
  assert_int_equal(s.err->code, code);
  assert_non_null(strstr(s.err->message, words));
  hs_status_drop(s);
  agrees(fake("ok"), add_one);  // the session goes on
}

static const char tuples[] =
    "HloModule tuples, entry_computation_layout={((f32[2]{0}, (s32[], f32[3]{0})), "
    "f32[2]{0})->((f32[2]{0}, s32[]), (f32[3]{0}))}\n"
    "ENTRY e { p = (f32[2], (s32[], f32[3])) parameter(0) q = f32[2] parameter(1) a = f32[2] "
    "get-tuple-element(p), index=0\n"
    "  i = (s32[], f32[3]) get-tuple-element(p), index=1 n = s32[] get-tuple-element(i), index=0 f "
    "= f32[3] get-tuple-element(i), index=1\n"
    "  s = f32[2] add(a, q) t = (f32[2], s32[]) tuple(s, n) u = (f32[3]) tuple(f) ROOT r = "
    "((f32[2], s32[]), (f32[3])) tuple(t, u) }\n";
static const char donated[] =
    "HloModule donated, input_output_alias={ {}: (0, {}, may-alias) }\n"
    "ENTRY e { p = f32[4] parameter(0) q = f32[4] parameter(1) ROOT r = f32[4] add(p, q) }\n";
static const char scheduled[] = "HloModule scheduled, is_scheduled=true\n"
                                "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }\n";
static const char no_values[] = "HloModule none\nENTRY e { ROOT r = () tuple() }\n";
static const char tokens[] =
    "HloModule tokens\nENTRY e { t = token[] parameter(0) p = f32[2] parameter(1) ROOT r = "
    "(token[], f32[2]) tuple(t, p) }\n";
static const char column_major[] =
    "HloModule columns, entry_computation_layout={(f32[3,4]{0,1})->f32[4,3]{0,1}}\n"
    "ENTRY e { p = f32[3,4]{0,1} parameter(0) ROOT r = f32[4,3]{0,1} transpose(p), "
    "dimensions={1,0} }\n";
// Fused already, to be cut in two; no layout is stated.
static const char fused_parts[] =
    "HloModule parts, num_partitions=2\n"
    "f { a = f32[4,6] parameter(0) b = f32[2,12] reshape(a) ROOT t = f32[12,2] transpose(b), "
    "dimensions={1,0} }\n"
    "ENTRY e { p = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]} g = f32[12,2] fusion(p), "
    "kind=kLoop, calls=f\n"
    "  ROOT r = f32[12,2] negate(g), sharding={devices=[1,2]<=[2]} }\n";
static const char *const programs[] = {add_one,   tuples, donated,     scheduled,
                                       no_values, tokens, column_major};

static void runs(void **st) {
  (void)st;
  for (size_t k = 0; k < HS_COUNT(programs); k++) agrees(fake("ok"), programs[k]);
}
static void future_versions(void **st) {
  (void)st;
  agrees(fake("future"), add_one);
}
static void optional_functions(void **st) {
  (void)st;
  agrees(fake("unimplemented"), add_one);
  agrees(fake("copies"), donated);
}

static void bad_plugins(void **st) {
  (void)st;
  refuses(fake("old"), 60, HS_E_WORKER, "speaks PJRT API 0.20");
  refuses(fake("tiny"), 60, HS_E_WORKER, "24 bytes");
  refuses(fake("null"), 60, HS_E_WORKER, "gives no function table");
  refuses(fake("short"), 60, HS_E_UNSUPPORTED, "this plug-in has no PJRT_");
  refuses(fake("missing"), 60, HS_E_UNSUPPORTED, "this plug-in has no PJRT_Client_Compile");
  refuses(fake("picky"), 60, HS_E_RUN, "expected 152, got 88");
  refuses(fake("error"), 60, HS_E_COMPILE, "refuses this module");
  refuses(fake("shape"), 60, HS_E_COMPILE, "another shape");
  refuses(fake("runerror"), 60, HS_E_RUN, "will not run");
  refuses(fake("size"), 60, HS_E_RUN, "1000016 bytes for a result of 16");
}

static void deaths(void **st) {
  (void)st;
  refuses(fake("abort"), 60, HS_E_WORKER,
          "fake_check.cc:42: Check failed: pointer_size > 0 (-1 vs. 0)");
  refuses(fake("runabort"), 60, HS_E_WORKER, "fake_check.cc:42: Check failed: buffers are ready");
  refuses(fake("segv"), 60, HS_E_WORKER, "SIGSEGV");
  refuses(fake("hang"), 0.5, HS_E_DEADLINE, "compiling");
  refuses(fake("runhang"), 0.5, HS_E_DEADLINE, "running");
}

static void files_that_are_none(void **st) {
  (void)st;
  char half[256], text[256], none[256];
  hs_buf b = read_file(fake("ok"));
  snprintf(half, sizeof half, "%s/half.so", folder);
  snprintf(text, sizeof text, "%s/text.so", folder);
  snprintf(none, sizeof none, "%s/none.so", folder);
  write_file(half, b.p, b.n / 2);
  write_file(text, "hello\n", 6);
  refuses(half, 60, HS_E_WORKER, "is cut short");
  refuses(text, 60, HS_E_WORKER, "cannot be loaded");
  refuses(none, 60, HS_E_IO, "No such file");
  refuses("/no/such/plugin.so", 60, HS_E_IO, "No such file");
  hs_buf_free(&b);
  const char *build = getenv("HLOSH_BUILD");
  char *other = hs_format("%s/tests/libno_plugin.so", build ? build : "build");
  refuses(other, 60, HS_E_WORKER, "has no GetPjrtApi");
  hs_free(other);
}

// Custom calls that plug-ins lack: LAPACK's, in column-major layouts and in the older form too. Two
// calls of one target and of equal shapes differ by their attributes alone.
static const char cholesky[] =
    "HloModule cholesky, entry_computation_layout={(f32[2,3,3]{1,2,0})->(f32[2,3,3]{1,2,0}, "
    "s32[2]{0})}\n"
    "ENTRY e { p = f32[2,3,3]{1,2,0} parameter(0) ROOT r = (f32[2,3,3]{1,2,0}, s32[2]{0}) "
    "custom-call(p), custom_call_target=\"lapack_spotrf_ffi\", "
    "operand_layout_constraints={f32[2,3,3]{1,2,0}}, api_version=API_VERSION_TYPED_FFI, "
    "backend_config={uplo = 76 : ui8} }\n";
static const char solve[] =
    "HloModule solve, entry_computation_layout={(f64[3,3]{0,1}, f64[3,2]{0,1})->f64[3,2]{0,1}}\n"
    "ENTRY e { a = f64[3,3]{0,1} parameter(0) b = f64[3,2]{0,1} parameter(1) ROOT r = "
    "f64[3,2]{0,1} custom-call(a, b), custom_call_target=\"lapack_dtrsm_ffi\", "
    "operand_layout_constraints={f64[3,3]{0,1}, f64[3,2]{0,1}}, api_version=API_VERSION_TYPED_FFI, "
    "backend_config={diag = 78 : ui8, side = 76 : ui8, trans_x = 84 : ui8, uplo = 76 : ui8} }\n";
static const char two_solves[] =
    "HloModule two\nENTRY e { a = f32[3,3]{0,1} parameter(0) b = f32[3,2]{0,1} parameter(1) x = "
    "f32[3,2]{0,1} custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\", "
    "operand_layout_constraints={f32[3,3]{0,1}, f32[3,2]{0,1}}, api_version=API_VERSION_TYPED_FFI, "
    "backend_config={diag = 78 : ui8, side = 76 : ui8, trans_x = 84 : ui8, uplo = 76 : ui8}\n"
    "  ROOT r = f32[3,2]{0,1} custom-call(a, x), custom_call_target=\"lapack_strsm_ffi\", "
    "operand_layout_constraints={f32[3,3]{0,1}, f32[3,2]{0,1}}, "
    "api_version=API_VERSION_TYPED_FFI, backend_config={diag = 85 : ui8, side = 76 : ui8, trans_x "
    "= 78 : ui8, uplo = 85 : ui8} }\n";
static const char older_form[] =
    "HloModule older\nENTRY e { one = s32[] constant(1) three = s32[] constant(3) p = "
    "f32[3,3]{0,1} parameter(0)\n"
    "  ROOT r = (f32[3,3]{0,1}, s32[]) custom-call(one, one, three, p), "
    "custom_call_target=\"lapack_spotrf\", "
    "operand_layout_constraints={s32[], s32[], s32[], f32[3,3]{0,1}} }\n";

static void custom_calls(void **st) {
  (void)st;
  hlo_module *m = parse(cholesky);
  bool lapack = hlo_eval_supports(m->entry->root, NULL);
  hlo_module_free(m);
  if (!lapack) skip();
  agrees(fake("ffi"), cholesky);
  agrees(fake("ffi"), solve);
  hlo_literal *out = NULL;
  hs_status s =
      run_text(fake("ffi"),
               "HloModule u\nENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] custom-call(p), "
               "custom_call_target=\"nobody_knows\", api_version=API_VERSION_TYPED_FFI }\n",
               60, &out);
  assert_false(hs_ok(s));
  assert_non_null(strstr(s.err->message, "no handler"));
  hs_status_drop(s);
}

// ---- killed from outside ------------------------------------------------------------------------
static void *kill_later(void *host) {
  usleep(300000);
  kill(worker_pid(pjrt_host_worker(host)), SIGKILL);
  return NULL;
}
static hs_interrupt interrupt;
static void *interrupt_later(void *unused) {
  usleep(300000);
  interrupt = 1;
  return unused;
}

static void disturbed(const char *mode, void *(*how)(void *), hs_code code, const char *words) {
  char *path = realpath(fake(mode), NULL);
  pjrt_host *h;
  assert_true(hs_ok(pjrt_host_get(backends, &(pjrt_config){.path = path, .devices = 1}, &h)));
  pthread_t t;
  hs_interrupt_watch(&interrupt);
  pthread_create(&t, NULL, how, h);
  hlo_literal *out = NULL;
  hs_status s = run_text(path, add_one, 60, &out);
  pthread_join(t, NULL);
  interrupt = 0;
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, code);
  assert_non_null(strstr(s.err->message, words));
  hs_status_drop(s);
  free(path);
  agrees(fake("ok"), add_one);
}

static void killed(void **st) {
  (void)st;
  disturbed("hang", kill_later, HS_E_WORKER, "SIGKILL");
  disturbed("runhang", kill_later, HS_E_WORKER, "SIGKILL");
  disturbed("hang", interrupt_later, HS_E_INTERRUPTED, "interrupted while compiling");
  disturbed("runhang", interrupt_later, HS_E_INTERRUPTED, "interrupted while running");
}

// A program outlives its worker: it is compiled again and gives the same.
static void recompiled(void **st) {
  (void)st;
  hlo_module *m = parse(add_one);
  hlo_literal **args;
  u32 n;
  assert_true(hs_ok(hlo_inputs_random(ctx, m, 7, &args, &n)));
  char *path = realpath(fake("ok"), NULL);
  backend_options o = {.context = backends, .plugin = path};
  const backend *be = backend_find("pjrt");
  backend_exe *exe;
  assert_true(hs_ok(be->compile(m, &o, &exe)));
  pjrt_host *h;
  assert_true(hs_ok(pjrt_host_get(backends, &(pjrt_config){.path = path, .devices = 1}, &h)));
  backend_result a, b;
  assert_true(hs_ok(be->run(exe, n, args, NULL, &a)));
  kill(worker_pid(pjrt_host_worker(h)), SIGKILL);
  usleep(50000);
  // the death is found out by the call that meets it
  hs_status_drop(be->run(exe, n, args, NULL, &b));
  backend_result_free(&b);
  assert_true(hs_ok(be->run(exe, n, args, NULL, &b)));
  assert_true(hlo_literal_equal(a.outputs, b.outputs));
  backend_result_free(&a);
  backend_result_free(&b);
  be->release(exe);
  free(path);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
}

// ---- what is sent, what is found ----------------------------------------------------------------
static void compile_options(void **st) {
  (void)st;
  pjrt_ready r = {.replicas = 1, .partitions = 1};
  hs_buf b = {0};
  pjrt_options(&b, &r, false, 0, NULL);
  const u8 least[] = {0x1a, 0x0f, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                      0xff, 0xff, 0xff, 0x01, 0x20, 0x01, 0x28, 0x01};
  assert_int_equal(b.n, sizeof least);
  assert_memory_equal(b.p, least, sizeof least);
  b.n = 0;
  const backend_flag flags[] = {{"xla_x", "dce"}, {"b", "true"}};
  r.partitions = 8;
  r.shardy = true;
  pjrt_options(&b, &r, true, 2, flags);
  const u8 more[] = {0x1a, 0x16, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
                     0x20, 0x01, 0x28, 0x08, 0x30, 0x01, 0x58, 0x01, 0x98, 0x01, 0x01, 0x3a, 0x0e,
                     0x0a, 0x05, 'x',  'l',  'a',  '_',  'x',  0x12, 0x05, 0x0a, 0x03, 'd',  'c',
                     'e',  0x3a, 0x07, 0x0a, 0x01, 'b',  0x12, 0x02, 0x10, 0x01};
  assert_int_equal(b.n, sizeof more);
  assert_memory_equal(b.p, more, sizeof more);
  hs_buf_free(&b);
}

// Sizes of the structs as plug-ins of version 0.81 and later check them.
static void struct_sizes(void **st) {
  (void)st;
  assert_int_equal(sizeof(pj_api), 984);
  assert_int_equal(PJ_SIZE(pj_client_create, kv_try_get_arg), 88);
  assert_int_equal(PJ_SIZE(pj_client_compile, executable), 56);
  assert_int_equal(PJ_SIZE(pj_layout, type), 76);
  assert_int_equal(PJ_SIZE(pj_from_host, buffer), 120);
  assert_int_equal(PJ_SIZE(pj_execute_options, incarnations), 112);
  assert_int_equal(PJ_SIZE(pj_execute, device), 80);
  assert_int_equal(PJ_SIZE(pj_memory_stats, peak), 112);
  assert_int_equal(PJ_SIZE(pj_register_handler, traits), 52);
  assert_int_equal(PJ_SIZE(pj_serialize, free), 56);
  assert_int_equal(sizeof(pj_ext_ffi), 48);
}

static void flattened(void **st) {
  (void)st;
  hlo_module *m = parse(tuples);
  pjrt_ready r;
  assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
  assert_int_equal(r.nargs, 4);
  assert_int_equal(r.nouts, 3);
  assert_int_equal(r.m->entry->nparams, 4);
  assert_true(hs_ok(hlo_verify(r.m, NULL)));
  pjrt_ready_free(&r);
  hlo_module_free(m);
  m = parse(
      "HloModule a, input_output_alias={ {1}: (0, {1}, may-alias) }\n"
      "ENTRY e { p = (f32[2], f32[3]) parameter(0) a = f32[2] get-tuple-element(p), index=0 b = "
      "f32[3] get-tuple-element(p), index=1\n"
      "  ROOT r = (f32[2], f32[3]) tuple(a, b) }\n");
  assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
  assert_false(r.donated[0]);
  assert_true(r.donated[1]);
  const hlo_aliases *a = hlo_attrs_find(r.m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS)->v.p;
  assert_int_equal(a->n, 1);
  assert_int_equal(a->v[0].param, 1);
  assert_int_equal(a->v[0].param_index.n, 0);
  assert_int_equal(a->v[0].out_index.v[0], 1);
  pjrt_ready_free(&r);
  hlo_module_free(m);
}

static void no_fusions_among_parts(void **st) {
  (void)st;
  hlo_module *m = parse(fused_parts);
  pjrt_ready r;
  assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
  assert_ptr_equal(r.m->first, r.m->entry);
  assert_null(r.m->entry->next);
  hlo_for_each_instr(i, r.m->entry) {
    assert_int_not_equal(i->opcode, HLO_FUSION);
    assert_non_null(i->shape->layout);
  }
  assert_true(hs_ok(hlo_verify(r.m, NULL)));
  pjrt_ready_free(&r);
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_NUM_PARTITIONS, .v.i = 1});
  for (int gpu = 0; gpu < 2; gpu++) {  // on one device they stay, but for a GPU
    assert_true(hs_ok(pjrt_prepare(m, false, gpu, &r)));
    u32 n = 0;
    hlo_for_each_instr(i, r.m->entry) n += i->opcode == HLO_FUSION;
    assert_int_equal(n, !gpu);
    pjrt_ready_free(&r);
  }
  hlo_module_free(m);
}

static void tiles(void **st) {
  (void)st;
  hlo_module *m = parse("HloModule s, num_partitions=4\nENTRY e { p = s32[5,4] parameter(0), "
                        "sharding={devices=[2,2]<=[2,2]T(1,0)} ROOT r = s32[5,4] copy(p) }\n");
  const hlo_instr *p = m->entry->params[0];
  pjrt_tiles t;
  assert_true(hs_ok(pjrt_tiles_make(ctx, p->shape, hlo_attr_ptr(p, HLO_ATTR_SHARDING), 4, &t)));
  assert_int_equal(t.part->dims[0], 3);
  assert_int_equal(t.part->dims[1], 2);
  i32 whole[20], back[20] = {0}, part[6];
  for (i32 k = 0; k < 20; k++) whole[k] = k;
  for (u32 d = 0; d < 4; d++) {
    memset(part, 0, sizeof part);
    pjrt_tiles_cut(&t, d, whole, part);
    // device 1: lower left
    if (d == 1) {
      assert_int_equal(part[0], 12);
      assert_int_equal(part[3], 17);
      assert_int_equal(part[5], 0);
    }
    pjrt_tiles_join(&t, d, part, back);
  }
  assert_memory_equal(whole, back, sizeof whole);
  pjrt_tiles_free(&t);
  hlo_module_free(m);
}

// What a partitioner leaves is one device's part; put between whole arrays it computes what the
// program computes.
static void whole_from_a_part(void **st) {
  (void)st;
  hlo_module *m = parse(
      "HloModule s, num_partitions=4\nENTRY e { p = f32[5,4] parameter(0), "
      "sharding={devices=[2,2]<=[2,2]T(1,0)} q = f32[4] parameter(1)\n"
      "  b = f32[5,4] broadcast(q), dimensions={1} a = f32[5,4] add(p, b) ROOT r = (f32[5,4], "
      "f32[4]) tuple(a, q) }\n");
  hlo_module *part = parse(
      "HloModule s, num_partitions=4, is_scheduled=true\nENTRY e { p = f32[3,2] parameter(0) q = "
      "f32[4] parameter(1) i = u32[] partition-id()\n"
      "  two = u32[] constant(2) c = u32[] divide(i, two) k = u32[] multiply(c, two) d = f32[2] "
      "dynamic-slice(q, k), dynamic_slice_sizes={2}\n"
      "  b = f32[3,2] broadcast(d), dimensions={1} a = f32[3,2] add(p, b) ROOT r = (f32[3,2], "
      "f32[4]) tuple(a, q) }\n");
  const hlo_instr *p = m->entry->params[0], *q = m->entry->params[1];
  const hlo_sharding *cut = hlo_attr_ptr(p, HLO_ATTR_SHARDING);
  pjrt_tiles arg[2], out[2];
  assert_true(hs_ok(pjrt_tiles_make(ctx, p->shape, cut, 4, &arg[0])));
  assert_true(hs_ok(pjrt_tiles_make(ctx, q->shape, NULL, 4, &arg[1])));
  assert_true(hs_ok(pjrt_tiles_make(ctx, p->shape, cut, 4, &out[0])));
  assert_true(hs_ok(pjrt_tiles_make(ctx, q->shape, NULL, 4, &out[1])));
  hlo_module *whole;
  assert_true(hs_ok(pjrt_whole(part, 2, arg, 2, out, &whole)));
  hs_status s = hlo_verify(whole, NULL);
  if (!hs_ok(s)) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  hlo_literal **args, *want, *got;
  u32 n;
  assert_true(hs_ok(hlo_inputs_random(ctx, m, 3, &args, &n)));
  assert_true(hs_ok(hlo_eval_module(m, n, args, NULL, &want)));
  assert_true(hs_ok(hlo_eval_module(whole, n, args, NULL, &got)));
  assert_true(hlo_literal_equal(want, got));
  hlo_literal_unref(want);
  hlo_literal_unref(got);
  hlo_module_free(whole);
  assert_true(hs_ok(pjrt_whole(m, 2, arg, 2, out, &whole)));  // whole already
  assert_int_equal(hlo_fingerprint(whole), hlo_fingerprint(m));
  hlo_module_free(whole);
  hlo_module *other = parse(add_one);
  s = pjrt_whole(other, 2, arg, 2, out, &whole);
  assert_int_equal(s.err->code, HS_E_UNSUPPORTED);
  hs_status_drop(s);
  hlo_inputs_free(args, n);
  for (u32 k = 0; k < 2; k++) pjrt_tiles_free(&arg[k]), pjrt_tiles_free(&out[k]);
  hlo_module_free(other);
  hlo_module_free(part);
  hlo_module_free(m);
}

// Plug-ins of any age read the devices of a collective as lists.
static void listed_groups(void **st) {
  (void)st;
  hlo_module *m = parse(
      "HloModule g, num_partitions=8\ns { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = "
      "f32[] add(a, b) }\n"
      "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] all-reduce(p), channel_id=1, "
      "replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true, to_apply=s }\n");
  pjrt_ready r;
  assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
  const hlo_replica_groups *g = hlo_attr_ptr(r.m->entry->root, HLO_ATTR_REPLICA_GROUPS);
  assert_int_equal(g->form, HLO_GROUPS_LIST);
  assert_int_equal(g->groups.n, 2);
  assert_int_equal(g->groups.v[1].n, 4);
  assert_int_equal(g->groups.v[1].v[0], 1);
  assert_int_equal(g->groups.v[1].v[3], 7);
  pjrt_ready_free(&r);
  hlo_module_free(m);
}

static void found(void **st) {
  (void)st;
  setenv("PJRT_NAMES_AND_LIBRARY_PATHS", "one:/a/b.so,broken,two_cpu:/c/d.so", 1);
  pjrt_plugins v;
  pjrt_find_all(&v);
  assert_true(v.n >= 2);
  assert_string_equal(v.v[0].name, "one");
  assert_string_equal(v.v[1].path, "/c/d.so");
  pjrt_plugins_free(&v);
  char *path;
  assert_true(hs_ok(pjrt_find(NULL, &path)));
  assert_string_equal(path, "/c/d.so");
  hs_free(path);
  assert_true(hs_ok(pjrt_find("one", &path)));
  assert_string_equal(path, "/a/b.so");
  hs_free(path);
  assert_true(hs_ok(pjrt_find("two", &path)));  // the beginning of a name that only one has
  assert_string_equal(path, "/c/d.so");
  hs_free(path);
  hs_status s = pjrt_find("nobody", &path);
  assert_int_equal(s.err->code, HS_E_USAGE);
  hs_status_drop(s);
  unsetenv("PJRT_NAMES_AND_LIBRARY_PATHS");
}

// A plug-in that stops over a fusion gets the module without.
static void sent_again_unfused(void **st) {
  (void)st;
  static const char fused[] =
      "HloModule fused\nf { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }\n"
      "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] fusion(p), kind=kLoop, calls=f }\n";
  agrees(fake("layout"), fused);
  agrees(fake("layout"), add_one);
}

static void json_entries(void **st) {
  (void)st;
  char path[256];
  snprintf(path, sizeof path, "%s/entry.json", folder);
  char *real = realpath(fake("options"), NULL);
  char *json = hs_format(
      "{\n \"other\": [{\"a\": [1, null]}, 2.5], \"library_path\": \"%s\",\n"
      " \"create_options\": {\"name\": \"a \\\"b\\\"\", \"count\": -3, \"on\": true, \"off\": "
      "false, \"share\": 0.25, \"ids\": [4, 5, 6]}}\n",
      real);
  write_file(path, json, strlen(json));
  refuses(path, 60, HS_E_RUN,
          "name=a \"b\" count=-3 on=yes off=no share=0.25 ids=3 of them, last 6");
  // cut short anywhere: an error of the file
  for (size_t n = 0; n + 2 < strlen(json); n += 5) {
    write_file(path, json, n);
    pjrt_entry e;
    hs_status s = pjrt_entry_read(path, &e);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_INPUT);
    hs_status_drop(s);
  }
  hs_free(json);
  json = hs_format("{\"library_path\": \"%s\"}", fake("ok"));
  write_file(path, json, strlen(json));
  agrees(path, add_one);
  write_file(path, "{}", 2);
  refuses(path, 60, HS_E_INPUT, "names no library_path");
  write_file(path, "{\"create_options\": {\"a\": null}}", 32);
  refuses(path, 60, HS_E_INPUT, "is not the JSON");
  hs_free(json);
  free(real);
}

static void packages_of_a_python(void **st) {
  (void)st;
  char dir[256], file[300];
  snprintf(dir, sizeof dir, "mkdir -p %s/py/jax_plugins/mine", folder);
  assert_int_equal(system(dir), 0);
  snprintf(file, sizeof file, "%s/py/jax_plugins/mine/pjrt_plugin_mine.so", folder);
  write_file(file, "x", 1);
  snprintf(dir, sizeof dir, "/nowhere:%s/py", folder);
  setenv("PYTHONPATH", dir, 1);
  char *path;
  assert_true(hs_ok(pjrt_find("mine", &path)));
  assert_string_equal(path, file);
  hs_free(path);
  unsetenv("PYTHONPATH");
  hs_status s = pjrt_find("mine", &path);
  assert_false(hs_ok(s));
  hs_status_drop(s);
}

static void described(void **st) {
  (void)st;
  pjrt_about a;
  assert_true(hs_ok(pjrt_describe(fake("ok"), &a)));
  assert_int_equal(a.minor, 81);
  assert_string_equal(a.stablehlo, "1.2.3");
  pjrt_about_free(&a);
}

static void said_of_the_executable(void **st) {
  (void)st;
  hlo_module *m = parse(add_one);
  backend_options o = {.context = backends, .plugin = fake("ok")};
  const backend *be = backend_find("pjrt");
  backend_exe *exe;
  assert_true(hs_ok(be->compile(m, &o, &exe)));
  const pjrt_result *r = pjrt_compiled_result(exe);
  assert_non_null(r->optimized);
  assert_int_equal(hlo_fingerprint(r->optimized), hlo_fingerprint(m));
  assert_int_equal(r->ncost, 1);
  assert_string_equal(r->cost[0].name, "flops");
  assert_true(r->memory.known);
  assert_int_equal(be->compiled(exe)->temp_bytes, 64);
  assert_int_equal(be->compiled(exe)->peak_bytes, 96);
  assert_int_equal(be->compiled(exe)->nkernels, 2);  // broadcast and add
  be->release(exe);
  hlo_module_free(m);
}

// ---- for a GPU that is not here -----------------------------------------------------------------
static void kernels_of_a_gpu(void **st) {
  (void)st;
  hlo_module *m = parse(add_one);
  hs_buf target = {0};
  assert_true(prof_gpu_text("h200", &target));
  hs_buf_puts(&target,
              "gpu_device_info { unknown_field { a: 1 b { c: 2 } } }\nplatform_name: \"CUDA\"\n");
  backend_options o = {.context = backends, .plugin = fake("gpu"), .target = hs_buf_cstr(&target)};
  const backend *be = backend_find("pjrt");
  backend_exe *exe;
  hs_status s = be->compile(m, &o, &exe);
  if (!hs_ok(s)) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  const pjrt_result *r = pjrt_compiled_result(exe);
  assert_string_equal(r->dropped, "unknown_field");
  assert_int_equal(r->kernels.n, 4);
  const pjrt_kernel *k = r->kernels.v;
  assert_string_equal(k[0].name, "fused_b");
  assert_int_equal(k[0].grid[0], 16);
  assert_int_equal(k[0].grid[1], 2);
  assert_int_equal(k[0].block[0], 128);
  assert_int_equal(k[0].shared, 64);
  assert_int_equal(k[0].static_shared, 4224);
  assert_int_equal(k[0].registers, -1);
  assert_non_null(strstr(k[0].ptx, "entry fused_b"));
  assert_string_equal(k[1].name, "kWhile");
  assert_int_equal(k[1].grid[0], 0);
  assert_int_equal(k[2].depth, 1);
  assert_string_equal(k[2].instr, "x");
  assert_null(k[0].instr);
  assert_non_null(strstr(k[3].ptx, "entry r("));
  hlo_literal *arg, *args[1];
  assert_true(hs_ok(hlo_literal_new(m->entry->params[0]->shape, &arg)));
  args[0] = arg;
  backend_result result;
  s = be->run(exe, 1, args, NULL, &result);
  assert_false(hs_ok(s));
  assert_non_null(strstr(s.err->message, "a device that is not here"));
  hs_status_drop(s);
  hlo_literal_unref(arg);
  be->release(exe);
  hs_buf_free(&target);
  hlo_module_free(m);
}

static void put_section(hs_buf *b, u32 name, u32 type, u64 offset, u64 size, u32 link, u32 info) {
  Elf64_Shdr s = {.sh_name = name,
                  .sh_type = type,
                  .sh_offset = offset,
                  .sh_size = size,
                  .sh_link = link,
                  .sh_info = info};
  hs_buf_put(b, (const char *)&s, sizeof s);
}

// An object file with one kernel: 16 bytes of code, 40 registers, a stack frame of 8 bytes.
static hs_buf small_cubin(void) {
  static const char names[] = "\0.shstrtab\0.strtab\0.symtab\0.nv.info\0.text.my_kernel";
  static const char strings[] = "\0my_kernel";
  const u32 info[] = {0x00080000u | 0x2f04, 1, 40, 0x00080000u | 0x1104, 1, 8};
  Elf64_Sym symbols[2] = {{0}, {.st_name = 1}};
  Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, 1, 1},
                  .e_type = ET_EXEC,
                  .e_machine = 190,
                  .e_shentsize = sizeof(Elf64_Shdr),
                  .e_shnum = 6,
                  .e_shstrndx = 1};
  hs_buf b = {0};
  u64 at = sizeof h, where[5];
  const struct {
    const void *p;
    size_t n;
  } parts[] = {{names, sizeof names},
               {strings, sizeof strings},
               {symbols, sizeof symbols},
               {info, sizeof info},
               {"0123456789abcdef", 16}};
  for (size_t k = 0; k < HS_COUNT(parts); k++) where[k] = at, at += parts[k].n;
  h.e_shoff = at;
  hs_buf_put(&b, (const char *)&h, sizeof h);
  for (size_t k = 0; k < HS_COUNT(parts); k++) hs_buf_put(&b, parts[k].p, parts[k].n);
  put_section(&b, 0, SHT_NULL, 0, 0, 0, 0);
  put_section(&b, 1, SHT_STRTAB, where[0], sizeof names, 0, 0);
  put_section(&b, 11, SHT_STRTAB, where[1], sizeof strings, 0, 0);
  put_section(&b, 19, SHT_SYMTAB, where[2], sizeof symbols, 2, 0);
  put_section(&b, 27, SHT_PROGBITS, where[3], sizeof info, 0, 0);
  put_section(&b, 36, SHT_PROGBITS, where[4], 16, 3, 0);
  return b;
}

static void expect_kernel(const char *bytes, size_t n) {
  hs_buf reply = {0};
  pjs_put_machine_code(bytes, n, &reply);
  wire_reader r = {reply.p, reply.n, false};
  assert_int_equal(wire_get_u32(&r), 1);
  assert_true(hs_str_eq(wire_get_bytes(&r), HS_STR("my_kernel")));
  assert_int_equal(wire_get_i64(&r), 40);
  assert_int_equal(wire_get_i64(&r), 8);
  assert_int_equal(wire_get_i64(&r), 16);
  hs_buf_free(&reply);
}

// Bytes in a Riegeli container, as one Snappy record: literals of 60 bytes, and for every second
// one that repeats, a copy.
static hs_buf packed(const hs_buf *bytes, bool blocks) {
  static const u8 head[64] = {0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0,    0,
                              0,    0,    0,    0,    0,    0,    0x40, 0,    0,    0,
                              0,    0,    0,    0,    0x91, 0xba, 0xc2, 0x3c, 0x92, 0x87,
                              0xe1, 0xa9, 0,    0,    0,    0,    0,    0,    0,    0,
                              0xe1, 0x9f, 0x13, 0xc0, 0xe9, 0xb1, 0xc3, 0x72, 0x73};
  hs_buf body = {0}, out = {0};
  hs_buf_puts(&body, "s");
  hs_buf_put(&body, "\x01\x00", 2);  // sizes: of no interest
  u64 total = bytes->n + (blocks ? 100000 : 0);
  for (u32 twice = 0; twice < 2; twice++)
    for (u64 v = total;; v >>= 7) {
      char c = (char)((v & 127) | (v > 127 ? 128 : 0));
      hs_buf_put(&body, &c, 1);
      if (v < 128) break;
    }
  // a literal, then copies of it
  for (size_t k = 0; blocks && k < 100000; k += 4)
    hs_buf_put(&body,
               k ? "\x0e\x04\x00"
                 : "\x0c"
                   "wxyz",
               k ? 3 : 5);
  for (size_t k = 0; k < bytes->n; k += 60) {
    size_t n = HS_MIN((size_t)60, bytes->n - k);
    char tag = (char)((n - 1) << 2);
    hs_buf_put(&body, &tag, 1);
    hs_buf_put(&body, bytes->p + k, n);
  }
  hs_buf_puts(&out, "in front");
  size_t start = out.n;
  hs_buf_put(&out, (const char *)head, sizeof head);
  u64 chunk[5] = {0, body.n, 0, 'r' | 1 << 8, total};
  hs_buf all = {0};
  hs_buf_put(&all, (const char *)chunk, sizeof chunk);
  hs_buf_put(&all, body.p, body.n);
  for (size_t k = 0; k < all.n; k++) {
    if ((out.n - start) % 65536 == 0)
      for (u32 j = 0; j < 24; j++) hs_buf_put(&out, "\xee", 1);
    hs_buf_put(&out, all.p + k, 1);
  }
  hs_buf_free(&all);
  hs_buf_free(&body);
  return out;
}

static void machine_code(void **st) {
  (void)st;
  hs_buf b = small_cubin(), p = packed(&b, false), q = packed(&b, true);
  assert_true(q.n > 65536);
  expect_kernel(b.p, b.n);
  expect_kernel(p.p, p.n);
  expect_kernel(q.p, q.n);
  // cut short, and damaged everywhere: no crash
  for (size_t n = 0; n < b.n; n += 7) {
    hs_buf reply = {0};
    pjs_put_machine_code(b.p, n, &reply);
    pjs_put_machine_code(p.p, n, &reply);
    char was = b.p[n];
    b.p[n] = (char)~was;
    pjs_put_machine_code(b.p, b.n, &reply);
    b.p[n] = was;
    hs_buf_free(&reply);
  }
  hs_buf_free(&b);
  hs_buf_free(&p);
  hs_buf_free(&q);
}

static void gpu_descriptions(void **st) {
  (void)st;
  u32 gpus = 0;
  // ours, read back: the numbers of the device table within 5 %
  for (u32 k = 0; k < prof_device_count; k++) {
    hs_buf text = {0};
    hs_arena a = {0};
    prof_device d;
    const prof_device *known = &prof_devices[k];
    if (!prof_gpu_text(known->name, &text)) continue;
    gpus++;
    assert_true(hs_ok(prof_gpu_device(hs_buf_cstr(&text), &a, &d)));
    const double pairs[][2] = {{d.flops_f32, known->flops_f32},
                               {d.flops_bf16, known->flops_bf16},
                               {d.flops_f64, known->flops_f64},
                               {d.bandwidth, known->bandwidth},
                               {(double)d.cache_bytes, (double)known->cache_bytes}};
    for (size_t j = 0; j < HS_COUNT(pairs); j++)
      assert_true(pairs[j][0] > 0.95 * pairs[j][1] && pairs[j][0] < 1.05 * pairs[j][1]);
    hs_arena_free(&a);
    hs_buf_free(&text);
  }
  assert_true(gpus >= 4);
  hs_buf none = {0};
  assert_false(prof_gpu_text("cpu", &none));
  static const char *const bad[] = {"",
                                    "platform_name: \"CUDA\"",
                                    "gpu_device_info { core_count: 4 }",
                                    "gpu_device_info { core_count: 4",
                                    "gpu_device_info { name: \"x",
                                    "{{{{"};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    hs_arena a = {0};
    prof_device d;
    hs_status s = prof_gpu_device(bad[k], &a, &d);
    assert_false(hs_ok(s));
    hs_status_drop(s);
    hs_arena_free(&a);
  }
}

// A log as XLA writes it: two pipelines, one of them run as a pass.
static void steps_from_a_log(void **st) {
  (void)st;
  static const char log[] =
      "WARNING: something else\n"
      "I0000 00:00:1.1   21 hlo_pass_pipeline.cc:298] Running HLO pass pipeline on module m: "
      "outer\n"
      "I0000 00:00:1.2   21 hlo_pass_pipeline.cc:176]   HLO pass dce\n"
      "I0000 00:00:1.3   21 hlo_pass_pipeline.cc:180]   Module hash 7\n"
      "I0000 00:00:1.4   21 hlo_pass_pipeline.cc:182]   Number of instructions: 40\n"
      "I0000 00:00:1.5   21 hlo_pass_pipeline.cc:171] HLO pass: dce time: 1.50 ms (1500 us) "
      "(cumulative: 1.5 ms, max: 1.5 ms, #called: 1)\n"
      "I0000 00:00:1.6   21 hlo_pass_pipeline.cc:176]   HLO pass simplification\n"
      "I0000 00:00:1.7   21 hlo_pass_pipeline.cc:180]   Module hash 8\n"
      "I0000 00:00:1.8   21 hlo_pass_pipeline.cc:182]   Number of instructions: 35\n"
      "I0000 00:00:1.9   21 hlo_pass_pipeline.cc:298] Running HLO pass pipeline on module m: "
      "simplification\n"
      "I0000 00:00:2.0   21 hlo_pass_pipeline.cc:176]   HLO pass algsimp\n"
      "I0000 00:00:2.1   21 hlo_pass_pipeline.cc:180]   Module hash 8\n"
      "I0000 00:00:2.2   21 hlo_pass_pipeline.cc:182]   Number of instructions: 35\n"
      "I0000 00:00:2.3   21 hlo_pass_pipeline.cc:171] HLO pass: algsimp time: 20 us (20 us) "
      "(cumulative: 1.52 ms, max: 1.5 ms, #called: 2)\n"
      "I0000 00:00:2.4   21 hlo_pass_pipeline.cc:171] HLO pass: simplification time: 30 us (30 us) "
      "(cumulative: 1.55 ms, max: 1.5 ms, #called: 3)\n"
      "I0000 00:00:2.5   21 hlo_pass_pipeline.cc:298] Running HLO pass pipeline on module m: last "
      "one\n"
      "I0000 00:00:2.6   21 hlo_pass_pipeline.cc:176]   HLO pass cse\n"
      "I0000 00:00:2.7   21 hlo_pass_pipeline.cc:180]   Module hash 8\n"
      "I0000 00:00:2.8   21 hlo_pass_pipeline.cc:182]   Number of instructions: 35\n"
      "I0000 00:00:2.9   21 hlo_pass_pipeline.cc:171] HLO pass: cse time: 10 us (10 us) "
      "(cumulative: 1.56 ms, max: 1.5 ms, #called: 4)\n";
  pjrt_steps s;
  pjrt_read_steps(log, &s);
  assert_int_equal(s.n, 4);
  assert_string_equal(s.v[0].pass, "dce");
  assert_string_equal(s.v[0].pipeline, "outer");
  assert_true(s.v[0].changed);
  assert_int_equal(s.v[0].before, 40);
  assert_int_equal(s.v[0].after, 35);
  assert_true(s.v[0].us == 1500);
  assert_string_equal(s.v[1].pass, "algsimp");
  assert_string_equal(s.v[1].pipeline, "simplification");
  assert_int_equal(s.v[1].depth, 1);
  assert_false(s.v[1].changed);
  assert_true(s.v[2].whole);
  assert_string_equal(s.v[2].pipeline, "outer");
  assert_string_equal(s.v[3].pipeline, "last one");
  assert_true(s.cumulative_us > 1559 && s.cumulative_us < 1561);
  pjrt_steps_free(&s);
}

// ---- real XLA, where it is ----------------------------------------------------------------------
static void on_real_xla(void **st) {
  (void)st;
  char *path;
  hs_status s = pjrt_find(NULL, &path);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    skip();
  }
  for (size_t k = 0; k < HS_COUNT(programs); k++) agrees(path, programs[k]);
  agrees(path, fused_parts);
  hlo_module *m = parse(cholesky);
  if (hlo_eval_supports(m->entry->root, NULL)) {
    const char *const calls[] = {cholesky, solve, two_solves, older_form};
    for (size_t k = 0; k < HS_COUNT(calls); k++) agrees(path, calls[k]);
  }
  hlo_module_free(m);
  agrees(
      path,
      "HloModule four_bits\nENTRY e { p = s4[7] parameter(0) q = s4[7] parameter(1) ROOT r = s4[7] "
      "add(p, q) }\n");
  hs_free(path);
}

static int setup(void **st) {
  (void)st;
  snprintf(folder, sizeof folder, "/tmp/hlosh-pjrt-XXXXXX");
  ctx = hlo_ctx_new();
  backends = backend_context_new();
  return mkdtemp(folder) ? 0 : 1;
}
static int teardown(void **st) {
  (void)st;
  backend_context_free(backends);
  hlo_ctx_free(ctx);
  char *command = hs_format("rm -rf '%s'", folder);
  int r = system(command);
  hs_free(command);
  return r;
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs),
      cmocka_unit_test(future_versions),
      cmocka_unit_test(optional_functions),
      cmocka_unit_test(bad_plugins),
      cmocka_unit_test(deaths),
      cmocka_unit_test(files_that_are_none),
      cmocka_unit_test(killed),
      cmocka_unit_test(recompiled),
      cmocka_unit_test(custom_calls),
      cmocka_unit_test(compile_options),
      cmocka_unit_test(struct_sizes),
      cmocka_unit_test(flattened),
      cmocka_unit_test(no_fusions_among_parts),
      cmocka_unit_test(tiles),
      cmocka_unit_test(whole_from_a_part),
      cmocka_unit_test(listed_groups),
      cmocka_unit_test(found),
      cmocka_unit_test(sent_again_unfused),
      cmocka_unit_test(json_entries),
      cmocka_unit_test(packages_of_a_python),
      cmocka_unit_test(described),
      cmocka_unit_test(said_of_the_executable),
      cmocka_unit_test(kernels_of_a_gpu),
      cmocka_unit_test(machine_code),
      cmocka_unit_test(gpu_descriptions),
      cmocka_unit_test(steps_from_a_log),
      cmocka_unit_test(on_real_xla),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
