// loops.c — loops and branches as conditional nodes of recorded launch sequences, on a driver of
// our own that is strict about them: the evaluator's results without a round trip of the host;
// drivers that are older, or refuse one of the calls, leave the same loops to the host.
#include "tests/unit/gpu/library.h"

// A loop that its values end: as long as the sum is below 100 and k below 6, with a branch inside
// and an update in place.
#define SUM "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
static const char by_values[] = MODULE(
    SUM "yes { x = f32[9] parameter(0)\n ROOT y = f32[9] negate(x) }\n"
        "no { x = f32[9] parameter(0)\n ROOT y = f32[9] add(x, x) }\n"
        "cond { s = (f32[9], s32[], f32[8,9]) parameter(0)\n"
        " x = f32[9] get-tuple-element(s), index=0\n z = f32[] constant(0)\n a = f32[9] abs(x)\n"
        " t = f32[] reduce(a, z), dimensions={0}, to_apply=sum\n"
        " k = s32[] get-tuple-element(s), index=1\n n = s32[] constant(6)\n"
        " m = f32[] constant(100)\n p = pred[] compare(t, m), direction=LT\n"
        " q = pred[] compare(k, n), direction=LT\n ROOT c = pred[] and(p, q) }\n"
        "body { s = (f32[9], s32[], f32[8,9]) parameter(0)\n"
        " x = f32[9] get-tuple-element(s), index=0\n k = s32[] get-tuple-element(s), index=1\n"
        " all = f32[8,9] get-tuple-element(s), index=2\n one = s32[] constant(1)\n"
        " bit = s32[] and(k, one)\n z = s32[] constant(0)\n"
        " p = pred[] compare(bit, z), direction=EQ\n"
        " y = f32[9] conditional(p, x, x), true_computation=no, false_computation=yes\n"
        " row = f32[1,9] reshape(y)\n"
        " u = f32[8,9] dynamic-update-slice(all, row, k, z)\n j = s32[] add(k, one)\n"
        " ROOT t = (f32[9], s32[], f32[8,9]) tuple(y, j, u) }\n"
        "ENTRY e { x = f32[9] parameter(0)\n all = f32[8,9] parameter(1)\n"
        " i = s32[] constant(0)\n t = (f32[9], s32[], f32[8,9]) tuple(x, i, all)\n"
        " ROOT w = (f32[9], s32[], f32[8,9]) while(t), condition=cond, body=body }");

// The outer loop ends by its values; in it one that does, with states that change places and are
// large enough to be exchanged, and one whose number of iterations the code shows.
static const char nested[] = MODULE(
    "ic { s = (s32[], s32[], f32[700], f32[700]) parameter(0)\n"
    " i = s32[] get-tuple-element(s), index=0\n n = s32[] get-tuple-element(s), index=1\n"
    " ROOT c = pred[] compare(i, n), direction=LT }\n"
    "ib { s = (s32[], s32[], f32[700], f32[700]) parameter(0)\n"
    " i = s32[] get-tuple-element(s), index=0\n n = s32[] get-tuple-element(s), index=1\n"
    " x = f32[700] get-tuple-element(s), index=2\n y = f32[700] get-tuple-element(s), index=3\n"
    " one = s32[] constant(1)\n j = s32[] add(i, one)\n"
    " r = f32[700] reverse(x), dimensions={0}\n h = f32[] constant(0.5)\n"
    " hb = f32[700] broadcast(h), dimensions={}\n q = f32[700] multiply(r, hb)\n"
    " z = f32[700] add(q, y)\n ROOT t = (s32[], s32[], f32[700], f32[700]) tuple(j, n, y, z) }\n"
    "kc { s = (s32[], f32[700]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
    "kb { s = (s32[], f32[700]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " x = f32[700] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
    " j = s32[] add(i, one)\n y = f32[700] tanh(x)\n ROOT t = (s32[], f32[700]) tuple(j, y) }\n"
    "oc { s = (s32[], s32[], f32[700], f32[700]) parameter(0)\n"
    " i = s32[] get-tuple-element(s), index=0\n n = s32[] get-tuple-element(s), index=1\n"
    " ROOT c = pred[] compare(i, n), direction=LT }\n"
    "ob { s = (s32[], s32[], f32[700], f32[700]) parameter(0)\n"
    " i = s32[] get-tuple-element(s), index=0\n n = s32[] get-tuple-element(s), index=1\n"
    " x = f32[700] get-tuple-element(s), index=2\n y = f32[700] get-tuple-element(s), index=3\n"
    " z = s32[] constant(0)\n a = (s32[], s32[], f32[700], f32[700]) tuple(z, i, x, y)\n"
    " w = (s32[], s32[], f32[700], f32[700]) while(a), condition=ic, body=ib\n"
    " p = f32[700] get-tuple-element(w), index=2\n q = f32[700] get-tuple-element(w), index=3\n"
    " b = (s32[], f32[700]) tuple(z, p)\n v = (s32[], f32[700]) while(b), condition=kc, body=kb\n"
    " u = f32[700] get-tuple-element(v), index=1\n one = s32[] constant(1)\n"
    " j = s32[] add(i, one)\n ROOT t = (s32[], s32[], f32[700], f32[700]) tuple(j, n, q, u) }\n"
    "ENTRY e { x = f32[700] parameter(0)\n y = f32[700] parameter(1)\n k = s32[] parameter(2)\n"
    " four = s32[] constant(4)\n m = s32[] maximum(k, four)\n n = s32[] minimum(m, four)\n"
    " i = s32[] constant(0)\n t = (s32[], s32[], f32[700], f32[700]) tuple(i, n, x, y)\n"
    " ROOT w = (s32[], s32[], f32[700], f32[700]) while(t), condition=oc, body=ob }");

// Ends before it begins.
static const char never[] = MODULE(
    "cond { s = (s32[], s32[], f32[50]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " n = s32[] get-tuple-element(s), index=1\n ROOT c = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], s32[], f32[50]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " n = s32[] get-tuple-element(s), index=1\n x = f32[50] get-tuple-element(s), index=2\n"
    " one = s32[] constant(1)\n j = s32[] add(i, one)\n y = f32[50] negate(x)\n"
    " ROOT t = (s32[], s32[], f32[50]) tuple(j, n, y) }\n"
    "ENTRY e { x = f32[50] parameter(0)\n k = s32[] parameter(1)\n z = s32[] constant(0)\n"
    " n = s32[] minimum(k, z)\n t = (s32[], s32[], f32[50]) tuple(z, n, x)\n"
    " w = (s32[], s32[], f32[50]) while(t), condition=cond, body=body\n"
    " y = f32[50] get-tuple-element(w), index=2\n ROOT r = f32[50] exponential(y) }");

// More iterations than are recorded one after the other.
static const char many[] = MODULE(
    "cond { s = (s32[], f32[3]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " n = s32[] constant(5000)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[3]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " x = f32[3] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
    " j = s32[] add(i, one)\n y = f32[3] cosine(x)\n ROOT t = (s32[], f32[3]) tuple(j, y) }\n"
    "ENTRY e { x = f32[3] parameter(0)\n i = s32[] constant(0)\n"
    " t = (s32[], f32[3]) tuple(i, x)\n"
    " ROOT w = (s32[], f32[3]) while(t), condition=cond, body=body }");

// By number, the last one for all other numbers; one branch computes nothing, one has a loop.
#define BRANCHES(number)                                                                          \
  MODULE("a { x = f32[3] parameter(0)\n ROOT y = f32[3] negate(x) }\n"                            \
         "c { s = (s32[], f32[3]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"       \
         " z = s32[] constant(2)\n x = f32[3] get-tuple-element(s), index=1\n"                    \
         " v = f32[3] convert(x)\n ROOT p = pred[] compare(i, z), direction=LT }\n"               \
         "l { s = (s32[], f32[3]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"       \
         " x = f32[3] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"                  \
         " j = s32[] add(i, one)\n y = f32[3] add(x, x)\n"                                        \
         " ROOT t = (s32[], f32[3]) tuple(j, y) }\n"                                              \
         "b { x = f32[3] parameter(0)\n z = s32[] constant(0)\n"                                  \
         " t = (s32[], f32[3]) tuple(z, x)\n w = (s32[], f32[3]) while(t), condition=c, body=l\n" \
         " ROOT y = f32[3] get-tuple-element(w), index=1 }\n"                                     \
         "d { x = f32[3] parameter(0)\n ROOT y = f32[3] copy(x) }\n"                              \
         "ENTRY e { k = s32[] parameter(0)\n x = f32[3] parameter(1)\n z = s32[] constant(0)\n"   \
         " m = s32[] multiply(k, z)\n n = s32[] constant(" number ")\n j = s32[] add(m, n)\n"     \
         " y = f32[3] conditional(j, x, x, x), branch_computations={a, b, d}\n"                   \
         " ROOT r = f32[3] abs(y) }")

typedef struct seen {
  unsigned on_device, by_host, round_trips;
  char *why, *how;
} seen;

static void seen_free(seen *s) {
  hs_free(s->why);
  hs_free(s->how);
}

// Runs it four times on the driver of a mode, the last one with times of its steps.
static seen run_loops(const char *text, const char *mode) {
  seen out = {0};
  hlo_module *m = parse(text);
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_exe *e = NULL;
  backend_context *own = backend_context_new();
  const backend *gpu = backend_find("gpu");
  const backend_options o = {.context = own, .deadline_s = 120, .driver = plugin_fake_cuda(mode)};
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  explain(gpu->compile(m, &o, &e));
  backend_result want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
  const backend_run_options timed = {.min_runs = 1,
                                     .max_runs = 1,
                                     .max_seconds = 0.1,
                                     .want_outputs = true,
                                     .want_kernel_times = true};
  for (int k = 0; k < 4; k++) {
    backend_result r = {0};
    hs_buf text_of = {0};
    explain(gpu->run(e, n, args, k == 3 ? &timed : NULL, &r));
    explain(hlo_compare(want.outputs, r.outputs, hlo_near(1e-4, 1e-4)));
    if (k == 3 && r.timing.kernels) out.how = hs_strdup(r.timing.kernels->how);
    backend_result_free(&r);
    explain(gpu->dump(e, "schedule", &text_of));
    const char *at = strstr(hs_buf_cstr(&text_of), "loops and branches: ");
    if (k == 2 && at) {
      const char *trips = strstr(at, "in the last run: "), *end = strchr(at, '\n');
      assert_int_equal(sscanf(at, "loops and branches: %u on the device, %u driven", &out.on_device,
                              &out.by_host),
                       2);
      assert_int_equal(sscanf(trips, "in the last run: %u", &out.round_trips), 1);
      out.why = hs_format("%.*s", (int)(end - at), at);
    }
    hs_buf_free(&text_of);
  }
  gpu->release(e);
  backend_result_free(&want);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  backend_context_free(own);
  return out;
}

static const struct {
  const char *text;
  unsigned n;  // loops and branches
} programs[] = {{by_values, 2},     {nested, 3},        {never, 1},
                {many, 1},          {BRANCHES("0"), 2}, {BRANCHES("1"), 2},
                {BRANCHES("2"), 2}, {BRANCHES("7"), 2}, {BRANCHES("-3"), 2}};

static void on_the_device(void **st) {
  (void)st;
  for (size_t k = 0; k < HS_COUNT(programs); k++) {
    seen s = run_loops(programs[k].text, k % 2 ? "late" : "ok");
    if (s.on_device != programs[k].n || s.by_host || s.round_trips)
      fail_msg("program %zu: %s; %u round trips", k, s.why ? s.why : "nothing", s.round_trips);
    assert_non_null(strstr(s.how, "driven by the host here"));
    seen_free(&s);
  }
}

// Drivers that have no conditional nodes, or record nothing.
static void by_the_host(void **st) {
  (void)st;
  static const struct {
    const char *mode, *why;
  } cases[] = {{"older", "(CUDA 12.2) has no conditional nodes, which came with 12.4"},
               {"nograph", "the driver records no launch sequences"}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    seen s = run_loops(by_values, cases[k].mode);
    assert_int_equal(s.on_device, 0);
    assert_int_equal(s.by_host, 2);
    assert_true(s.round_trips > 2);
    if (!strstr(s.why, cases[k].why)) fail_msg("%s", s.why);
    if (!strstr(s.how, cases[k].why)) fail_msg("%s", s.how);
    seen_free(&s);
  }
  seen s = run_loops(
      MODULE("cond { s = (s32[], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
             " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
             "body { s = (s32[], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
             " x = f32[4,4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
             " j = s32[] add(i, one)\n d = f32[4,4] constant({{9,0,0,0},{0,9,0,0},{0,0,9,0},"
             "{0,0,0,9}})\n p = f32[4,4] add(x, d)\n c = f32[4,4] cholesky(p), lower=true\n"
             " ROOT r = (s32[], f32[4,4]) tuple(j, c) }\n"
             "ENTRY e { x = f32[4,4] parameter(0)\n t = f32[4,4] transpose(x), dimensions={1,0}\n"
             " y = f32[4,4] add(x, t)\n i = s32[] constant(0)\n"
             " v = (s32[], f32[4,4]) tuple(i, y)\n"
             " ROOT w = (s32[], f32[4,4]) while(v), condition=cond, body=body }"),
      "ok");
  assert_int_equal(s.by_host, 1);
  assert_non_null(strstr(s.why, "the host computes in them"));
  seen_free(&s);
}

// Each of the calls that make nodes fails once: the host drives the loops, with the same results.
static void refused(void **st) {
  (void)st;
  unsigned fails = 0;
  for (bool done = false; !done; fails++) {
    char mode[20];
    snprintf(mode, sizeof mode, "nonode%u", fails + 1);
    seen s = run_loops(by_values, mode);
    done = s.by_host == 0;
    if (!done && !strstr(s.why, "NOT_SUPPORTED")) fail_msg("%s", s.why);
    assert_int_equal(s.on_device + s.by_host, 2);
    assert_true(fails < 40);
    seen_free(&s);
  }
  assert_true(fails > 10);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(on_the_device, make_folder),
      cmocka_unit_test(by_the_host),
      cmocka_unit_test_teardown(refused, remove_folder),
  };
  return run_cpu_tests(argc, argv, "gpu_loops", tests, HS_COUNT(tests));
}
