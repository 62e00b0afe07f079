// pjrt.c — the pjrt backend on plug-ins of our own (tests/plugin/fake_pjrt.c): good, old, odd,
// hanging, lying and crashing ones, and files that are none; how plug-ins are found; and, where
// real XLA is at hand, the same programs on it.
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
#include "profiler/model/gpu.h"
#include "tests/unit/backends/plugins.h"
#include "tests/unit/skip.h"

static backend_context *backends;

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
  s = hlo_compare(want, got, hlo_near(1e-5, 1e-5));
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
  agrees(plugin_fake("ok"), add_one);  // the session goes on
}

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
static const char *const programs[] = {add_one,   tuples, donated,     scheduled,
                                       no_values, tokens, column_major};

static void runs(void **st) {
  (void)st;
  for (size_t k = 0; k < HS_COUNT(programs); k++) agrees(plugin_fake("ok"), programs[k]);
}
static void future_versions(void **st) {
  (void)st;
  agrees(plugin_fake("future"), add_one);
}
static void optional_functions(void **st) {
  (void)st;
  agrees(plugin_fake("unimplemented"), add_one);
  agrees(plugin_fake("copies"), donated);
  agrees(plugin_fake("wraps"), add_one);
}

static void bad_plugins(void **st) {
  (void)st;
  refuses(plugin_fake("old"), 60, HS_E_WORKER, "speaks PJRT API 0.20");
  refuses(plugin_fake("tiny"), 60, HS_E_WORKER, "24 bytes");
  refuses(plugin_fake("null"), 60, HS_E_WORKER, "gives no function table");
  refuses(plugin_fake("short"), 60, HS_E_UNSUPPORTED, "this plug-in has no PJRT_");
  refuses(plugin_fake("missing"), 60, HS_E_UNSUPPORTED, "this plug-in has no PJRT_Client_Compile");
  refuses(plugin_fake("picky"), 60, HS_E_RUN, "expected 152, got 88");
  refuses(plugin_fake("error"), 60, HS_E_COMPILE, "refuses this module");
  refuses(plugin_fake("shape"), 60, HS_E_COMPILE, "another shape");
  refuses(plugin_fake("runerror"), 60, HS_E_RUN, "will not run");
  refuses(plugin_fake("size"), 60, HS_E_RUN, "1000016 bytes for a result of 16");
}

static void deaths(void **st) {
  (void)st;
  refuses(plugin_fake("abort"), 60, HS_E_WORKER,
          "fake_check.cc:42: Check failed: pointer_size > 0 (-1 vs. 0)");
  refuses(plugin_fake("runabort"), 60, HS_E_WORKER,
          "fake_check.cc:42: Check failed: buffers are ready");
  refuses(plugin_fake("segv"), 60, HS_E_WORKER, "SIGSEGV");
  refuses(plugin_fake("hang"), 0.5, HS_E_DEADLINE, "compiling");
  refuses(plugin_fake("runhang"), 0.5, HS_E_DEADLINE, "running");
}

static void files_that_are_none(void **st) {
  (void)st;
  char half[256], text[256], none[256];
  hs_buf b = plugin_read(plugin_fake("ok"));
  snprintf(half, sizeof half, "%s/half.so", plugin_folder());
  snprintf(text, sizeof text, "%s/text.so", plugin_folder());
  snprintf(none, sizeof none, "%s/none.so", plugin_folder());
  plugin_write(half, b.p, b.n / 2);
  plugin_write(text, "hello\n", 6);
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
  if (!lapack) SKIP_TEST("built without LAPACKE");
  agrees(plugin_fake("ffi"), cholesky);
  agrees(plugin_fake("ffi"), solve);
  hlo_literal *out = NULL;
  hs_status s =
      run_text(plugin_fake("ffi"),
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
  char *path = realpath(plugin_fake(mode), NULL);
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
  agrees(plugin_fake("ok"), add_one);
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
  char *path = realpath(plugin_fake("ok"), NULL);
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

// ---- what is found ------------------------------------------------------------------------------
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
  agrees(plugin_fake("layout"), fused);
  agrees(plugin_fake("layout"), add_one);
}

static void json_entries(void **st) {
  (void)st;
  char path[256];
  snprintf(path, sizeof path, "%s/entry.json", plugin_folder());
  char *real = realpath(plugin_fake("options"), NULL);
  char *json = hs_format(
      "{\n \"other\": [{\"a\": [1, null]}, 2.5], \"library_path\": \"%s\",\n"
      " \"create_options\": {\"name\": \"a \\\"b\\\"\", \"count\": -3, \"on\": true, \"off\": "
      "false, \"share\": 0.25, \"ids\": [4, 5, 6]}}\n",
      real);
  plugin_write(path, json, strlen(json));
  refuses(path, 60, HS_E_RUN,
          "name=a \"b\" count=-3 on=yes off=no share=0.25 ids=3 of them, last 6");
  // cut short anywhere: an error of the file
  for (size_t n = 0; n + 2 < strlen(json); n += 5) {
    plugin_write(path, json, n);
    pjrt_entry e;
    hs_status s = pjrt_entry_read(path, &e);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_INPUT);
    hs_status_drop(s);
  }
  hs_free(json);
  json = hs_format("{\"library_path\": \"%s\"}", plugin_fake("ok"));
  plugin_write(path, json, strlen(json));
  agrees(path, add_one);
  plugin_write(path, "{}", 2);
  refuses(path, 60, HS_E_INPUT, "names no library_path");
  plugin_write(path, "{\"create_options\": {\"a\": null}}", 32);
  refuses(path, 60, HS_E_INPUT, "is not the JSON");
  hs_free(json);
  free(real);
}

static void packages_of_a_python(void **st) {
  (void)st;
  char dir[256], file[300];
  snprintf(dir, sizeof dir, "mkdir -p %s/py/jax_plugins/mine", plugin_folder());
  assert_int_equal(system(dir), 0);
  snprintf(file, sizeof file, "%s/py/jax_plugins/mine/pjrt_plugin_mine.so", plugin_folder());
  plugin_write(file, "x", 1);
  snprintf(dir, sizeof dir, "/nowhere:%s/py", plugin_folder());
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
  assert_true(hs_ok(pjrt_describe(plugin_fake("ok"), &a)));
  assert_int_equal(a.minor, 81);
  assert_string_equal(a.stablehlo, "1.2.3");
  pjrt_about_free(&a);
}

static void said_of_the_executable(void **st) {
  (void)st;
  hlo_module *m = parse(add_one);
  backend_options o = {.context = backends, .plugin = plugin_fake("nopasses")};
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

// ---- real XLA, where it is ----------------------------------------------------------------------
static void on_real_xla(void **st) {
  (void)st;
  char *path;
  hs_status s = pjrt_find(NULL, &path);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    SKIP_TEST("no PJRT plug-in of XLA; make peers fetches them");
  }
  for (size_t k = 0; k < HS_COUNT(programs); k++) agrees(path, programs[k]);
  agrees(path, plugin_fused_parts);
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

static int setup(void **state) {
  backends = backend_context_new();
  return open_plugins(state);
}
static int teardown(void **state) {
  backend_context_free(backends);
  return close_plugins(state);
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
      cmocka_unit_test(found),
      cmocka_unit_test(sent_again_unfused),
      cmocka_unit_test(json_entries),
      cmocka_unit_test(packages_of_a_python),
      cmocka_unit_test(described),
      cmocka_unit_test(said_of_the_executable),
      cmocka_unit_test(on_real_xla),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
