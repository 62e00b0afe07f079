// lanes.c — programs for several devices on drivers and an NCCL of our own: each collective as
// the evaluator has it, launched by drivers that are quick and by ones that are late; groups,
// types, layouts, loops and branches that devices decide differently; what the host does instead,
// with NCCL and without; devices that are too few; an NCCL that is missing or fails.
#include "tests/unit/gpu/library.h"

#define ADD "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
#define MAX \
  "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(b, a) }\n"
#define FOUR "HloModule t, num_partitions=4\n"
#define HALVES "HloModule t, replica_count=2, num_partitions=2\n"

// x: f32[8,4], another one on each device.
#define OWN_X                                                                           \
  "ENTRY e { p = u32[] partition-id()\n r = u32[] replica-id()\n n = u32[] add(p, r)\n" \
  " f = f32[] convert(n)\n w = f32[8,4] parameter(0)\n"                                 \
  " b = f32[8,4] broadcast(f), dimensions={}\n x = f32[8,4] add(w, b)\n "
#define ALL ", channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}"
#define PAIRS ", channel_id=1, use_global_device_ids=true, replica_groups={{0,2},{1,3}}"
#define TURNED ", channel_id=1, use_global_device_ids=true, replica_groups={{2,0},{1,3}}"
#define CHANNEL ", channel_id=1, replica_groups={{0,1,2,3}}"
#define CHANNEL_TURNED ", channel_id=1, replica_groups={{2,0},{1,3}}"

static outcome run_with(const char *text, const char *mode, backend_libraries libraries) {
  return run_with_library(text, "HLOSH_LIBNCCL", mode ? plugin_fake_nccl(mode) : NULL, libraries);
}

// Agrees on quick devices and on late ones, with so many steps on the host; says so.
static void agrees_with(const char *text, const char *mode, backend_libraries libraries,
                        u32 on_host, const char *said) {
  static const char *const drivers[] = {"devices4", "late4"};
  for (u32 k = 0; k < HS_COUNT(drivers); k++) {
    driver_mode = drivers[k];
    outcome o = run_with(text, mode, libraries);
    if (!hs_ok(o.s)) fail_msg("%s: %s", text, o.s.err->message);
    if (o.fallbacks != on_host) fail_msg("%s: %u steps are on the host", text, o.fallbacks);
    if (said && !strstr(hs_buf_cstr(&o.schedule), said))
      fail_msg("%s: no '%s' in\n%s", text, said, hs_buf_cstr(&o.schedule));
    outcome_free(&o);
  }
}

static void goes_there(const char *text) {
  agrees_with(text, "ok", BACKEND_LIBRARIES_AUTO, 0, "launched on 4 devices in step; ");
}

static void goes_there_each(const char *head, const char *const *lines, size_t n) {
  for (size_t k = 0; k < n; k++) {
    char *text = hs_format("%s" ADD MAX OWN_X "%s }", head, lines[k]);
    goes_there(text);
    hs_free(text);
  }
}

static void collectives(void **st) {
  (void)st;
  static const char *const lines[] = {
    "ROOT y = f32[8,4] all-reduce(x), to_apply=add" ALL,
    "ROOT y = f32[8,4] all-reduce(x), to_apply=max" PAIRS,
    "ROOT y = (f32[8,4], f32[]) all-reduce(x, f), to_apply=add" PAIRS,
    "ROOT y = f32[32,4] all-gather(x), dimensions={0}" ALL,
    "ROOT y = f32[8,8] all-gather(x), dimensions={1}" TURNED,
    "ROOT y = f32[2,4] reduce-scatter(x), dimensions={0}, to_apply=add" ALL,
    "ROOT y = f32[8,2] reduce-scatter(x), dimensions={1}, to_apply=max" TURNED,
    "ROOT y = f32[8,4] all-to-all(x), dimensions={0}" CHANNEL,
    "ROOT y = f32[8,4] all-to-all(x), dimensions={1}" CHANNEL_TURNED,
    "ROOT y = (f32[8,4], f32[8,4]) all-to-all(x, w), channel_id=1, replica_groups={{0,1},{2,3}}",
    "ROOT y = f32[8,4] collective-broadcast(x), channel_id=1, replica_groups={{2,0},{1,3}}",
    "ROOT y = f32[8,4] collective-permute(x), channel_id=1, "
    "source_target_pairs={{0,1},{1,2},{3,3}}",
  };
  goes_there_each(FOUR, lines, HS_COUNT(lines));
}

static void replicas(void **st) {
  (void)st;
  static const char *const lines[] = {
      "ROOT y = f32[8,4] all-reduce(x), to_apply=add, replica_groups={}",
      "ROOT y = f32[8,4] all-reduce(x), to_apply=add, channel_id=1, replica_groups={{0},{1}}",
      "ROOT y = f32[8,8] all-gather(x), dimensions={1}, replica_groups={{1,0}}",
      "ROOT y = f32[8,4] collective-permute(x), source_target_pairs={{0,1}}",
      "ROOT y = f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{1,0},{0,1}}",
  };
  goes_there_each(HALVES, lines, HS_COUNT(lines));
}

static void asynchronous(void **st) {
  (void)st;
  static const char *const lines[] = {
    "s = f32[8,4] all-reduce-start(x), to_apply=add" ALL "\n ROOT y = f32[8,4] "
    "all-reduce-done(s)",
    "s = (f32[8,4], f32[32,4]) all-gather-start(x), dimensions={0}" ALL
    "\n ROOT y = f32[32,4] all-gather-done(s)",
    "s = (f32[8,4], f32[8,4], u32[], u32[]) collective-permute-start(x), channel_id=1, "
    "source_target_pairs={{0,3},{3,0}}\n d = f32[8,4] collective-permute-done(s)\n"
    " ROOT y = f32[8,4] add(d, x)",
  };
  goes_there_each(FOUR, lines, HS_COUNT(lines));
  goes_there(FOUR ADD "part { x = f32[8,4] parameter(0)\n ROOT y = f32[2,4] reduce-scatter(x), "
                      "dimensions={0}, to_apply=add" ALL " }\n" OWN_X
                      "s = ((f32[8,4]), f32[2,4]) async-start(x), calls=part\n"
                      " ROOT y = f32[2,4] async-done(s) }");
}

// By columns: what is gathered and split is the slowest dimension then, or the fastest.
static void layouts(void **st) {
  (void)st;
  static const char *const lines[] = {
    "c = f32[8,4]{0,1} copy(x)\n ROOT y = f32[32,4]{0,1} all-gather(c), dimensions={0}" ALL,
    "c = f32[8,4]{0,1} copy(x)\n ROOT y = f32[8,16]{0,1} all-gather(c), dimensions={1}" ALL,
    "c = f32[8,4]{0,1} copy(x)\n ROOT y = f32[2,4]{0,1} reduce-scatter(c), dimensions={0}, "
    "to_apply=add" ALL,
    "c = f32[8,4]{0,1} copy(x)\n ROOT y = f32[8,4]{0,1} all-to-all(c), dimensions={0}" CHANNEL,
    "c = f32[8,4]{0,1} copy(x)\n ROOT y = f32[8,4]{0,1} all-reduce(c), to_apply=add" ALL,
    "c = f32[8,1]{0,1} slice(x), slice={[0:8], [1:2]}\n"
    " ROOT y = f32[8,4]{0,1} all-gather(c), dimensions={1}" ALL,
  };
  goes_there_each(FOUR, lines, HS_COUNT(lines));
}

static void types(void **st) {
  (void)st;
  static const struct {
    const char *type, *op;
  } rows[] = {{"f64", "add"},      {"f16", "minimum"},  {"bf16", "maximum"}, {"s8", "add"},
              {"u8", "maximum"},   {"s32", "multiply"}, {"u32", "minimum"},  {"s64", "maximum"},
              {"u64", "multiply"}, {"c64", "add"},      {"c128", "add"},     {"pred", "and"},
              {"pred", "or"},      {"pred", "maximum"}, {"pred", "minimum"}};
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    const char *t = rows[k].type;
    const char *value = strcmp(t, "pred") == 0 ? "compare(b, w), direction=LT" : "convert(b)";
    char *text = hs_format(FOUR "op { a = %s[] parameter(0)\n b = %s[] parameter(1)\n"
                                " ROOT c = %s[] %s(a, b) }\n" OWN_X "v = %s[8,4] %s\n"
                                " ROOT y = %s[8,4] all-reduce(v), to_apply=op" PAIRS " }",
                           t, t, t, rows[k].op, t, value, t);
    goes_there(text);
    hs_free(text);
  }
}

// What the other libraries do, on each device.
static void libraries(void **st) {
  (void)st;
  setenv("HLOSH_LIBCUBLASLT", plugin_fake_cublaslt("ok"), 1);
  setenv("HLOSH_LIBCUDNN", plugin_fake_cudnn("ok"), 1);
  setenv("HLOSH_LIBCUFFT", plugin_fake_cufft("ok"), 1);
  setenv("HLOSH_LIBCUSOLVER", plugin_fake_cusolver("ok"), 1);
  setenv("HLOSH_LIBCUBLAS", plugin_fake_cublas("ok"), 1);
  agrees_with(FOUR ADD OWN_X "d = f32[8,8] dot(x, w), lhs_contracting_dims={1}, "
                             "rhs_contracting_dims={1}\n"
                             " ROOT y = f32[8,8] all-reduce(d), to_apply=add" ALL " }",
              "ok", BACKEND_LIBRARIES_ON, 0, "d: 8 x 8 by 4, batch 1, TN: cuBLASLt, algorithm");
  agrees_with(FOUR ADD OWN_X "v = f32[1,8,4,1] reshape(x)\n q = f32[18] iota(), iota_dimension=0\n"
                             " k = f32[3,3,1,2] reshape(q)\n"
                             " d = f32[1,8,4,2] convolution(v, k), window={size=3x3 pad=1_1x1_1}, "
                             "dim_labels=b01f_01io->b01f\n"
                             " ROOT y = f32[1,8,4,2] all-reduce(d), to_apply=add" ALL " }",
              "ok", BACKEND_LIBRARIES_ON, 0, "cuDNN, engine");
  agrees_with(FOUR OWN_X "c = c64[8,4] convert(x)\n"
                         " ROOT y = c64[8,4] fft(c), fft_type=IFFT, fft_length={4} }",
              "ok", BACKEND_LIBRARIES_AUTO, 0, "cuFFT");
  agrees_with(FOUR ADD OWN_X "h = c64[8,3] fft(x), fft_type=RFFT, fft_length={4}\n"
                             " z = f32[8,4] fft(h), fft_type=IRFFT, fft_length={4}\n"
                             " ROOT y = f32[8,4] all-reduce(z), to_apply=add" ALL " }",
              "ok", BACKEND_LIBRARIES_AUTO, 0, "cuFFT");
  agrees_with(FOUR OWN_X "s = f32[2,4,4] reshape(x)\n"
                         " d = f32[2,4,4] dot(s, s), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                         "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
                         " i = s32[4,4] iota(), iota_dimension=0\n"
                         " j = s32[4,4] iota(), iota_dimension=1\n"
                         " on = pred[4,4] compare(i, j), direction=EQ\n"
                         " e = f32[4,4] convert(on)\n c = f32[] constant(4)\n"
                         " cs = f32[4,4] broadcast(c), dimensions={}\n"
                         " ee = f32[4,4] multiply(e, cs)\n"
                         " e2 = f32[2,4,4] broadcast(ee), dimensions={1,2}\n"
                         " a = f32[2,4,4] add(d, e2)\n l = f32[2,4,4] cholesky(a), lower=true\n"
                         " ROOT y = f32[2,4,4] triangular-solve(l, s), left_side=true, "
                         "lower=true, transpose_a=NO_TRANSPOSE }",
              "ok", BACKEND_LIBRARIES_AUTO, 0, "potrfBatched");
  unsetenv("HLOSH_LIBCUBLASLT");
  unsetenv("HLOSH_LIBCUDNN");
  unsetenv("HLOSH_LIBCUFFT");
  unsetenv("HLOSH_LIBCUSOLVER");
  unsetenv("HLOSH_LIBCUBLAS");
}

#define LOOP(bound)                                                                           \
  "c { s = (s32[], s32[], f32[8,4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " n = s32[] " bound "\n ROOT c = pred[] compare(i, n), direction=LT }\n"
#define BODY(step)                                                                            \
  "b { s = (s32[], s32[], f32[8,4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " n = s32[] get-tuple-element(s), index=1\n x = f32[8,4] get-tuple-element(s), index=2\n"   \
  " one = s32[] constant(1)\n j = s32[] add(i, one)\n y = f32[8,4] " step                     \
  "\n ROOT t = (s32[], s32[], f32[8,4]) tuple(j, n, y) }\n"
#define ENTER                                                     \
  "k = s32[] convert(n)\n i = s32[] constant(0)\n"                \
  " t = (s32[], s32[], f32[8,4]) tuple(i, k, x)\n"                \
  " v = (s32[], s32[], f32[8,4]) while(t), condition=c, body=b\n" \
  " z = f32[8,4] get-tuple-element(v), index=2\n"

// Loops that all leave together, and each when it has enough; branches of their own.
static void control_flow(void **st) {
  (void)st;
  goes_there(FOUR ADD LOOP("constant(3)") BODY("all-reduce(x), to_apply=add" PAIRS) OWN_X ENTER
             " ROOT y = f32[8,4] negate(z) }");
  goes_there(FOUR ADD LOOP("get-tuple-element(s), index=1") BODY("multiply(x, x)") OWN_X ENTER
             " ROOT y = f32[32,4] all-gather(z), dimensions={0}" ALL " }");
  goes_there(FOUR ADD "p { x = f32[8,4] parameter(0)\n ROOT y = f32[8,4] negate(x) }\n"
                      "q { x = f32[8,4] parameter(0)\n ROOT y = f32[8,4] add(x, x) }\n" OWN_X
                      "two = u32[] constant(2)\n less = pred[] compare(n, two), direction=LT\n"
                      " z = f32[8,4] conditional(less, x, x), true_computation=p, "
                      "false_computation=q\n ROOT y = f32[8,4] all-reduce(z), to_apply=add" ALL
                      " }");
}

// What lies between collectives is recorded on each device, in loops and branches too; a loop whose
// iterations are known and that nothing is exchanged in is part of it.
static void recorded(void **st) {
  (void)st;
  static const char two[] = "sequences recorded on each: 2";
  agrees_with(FOUR ADD "less { p = f32[] parameter(0)\n q = f32[] parameter(1)\n"
                       " ROOT c = pred[] compare(p, q), direction=LT }\n" OWN_X
                       "a = f32[8,4] all-reduce(x), to_apply=add" ALL
                       "\n g = f32[32,4] all-gather(a), dimensions={0}" ALL
                       "\n c = f32[8,4] slice(g), slice={[8:16], [0:4]}\n"
                       " u = f32[8,4] sort(c), dimensions={0}, to_apply=less\n"
                       " ROOT y = f32[8,4] reverse(u), dimensions={1} }",
              "ok", BACKEND_LIBRARIES_AUTO, 0, two);
  agrees_with(FOUR ADD LOOP("constant(3)") BODY("multiply(x, x)") OWN_X ENTER
              " ROOT y = f32[8,4] all-reduce(z), to_apply=add" ALL " }",
              "ok", BACKEND_LIBRARIES_AUTO, 0, "sequences recorded on each: 1");
}

// Reducers and types that NCCL has not, groups of several sizes, slices: the host does them.
static void on_the_host(void **st) {
  (void)st;
  static const char all[] = FOUR ADD OWN_X "ROOT y = f32[8,4] all-reduce(x), to_apply=add" ALL
  " }";
  agrees_with(FOUR "op { a = s32[] parameter(0)\n b = s32[] parameter(1)\n"
                   " ROOT c = s32[] xor(a, b) }\n" OWN_X "v = s32[8,4] convert(x)\n"
                   " ROOT y = s32[8,4] all-reduce(v), to_apply=op" ALL " }",
              "ok", BACKEND_LIBRARIES_AUTO, 1, "on the host");
  agrees_with(FOUR "op { a = s16[] parameter(0)\n b = s16[] parameter(1)\n"
                   " ROOT c = s16[] add(a, b) }\n" OWN_X "v = s16[8,4] convert(b)\n"
                   " ROOT y = s16[8,4] all-reduce(v), to_apply=op" ALL " }",
              "ok", BACKEND_LIBRARIES_AUTO, 1, "on the host");
  agrees_with(FOUR ADD OWN_X "ROOT y = f32[8,4] all-reduce(x), to_apply=add, channel_id=1, "
                             "use_global_device_ids=true, replica_groups={{0},{1,2,3}} }",
              "ok", BACKEND_LIBRARIES_AUTO, 1, "on the host");
  agrees_with(all, "ok", BACKEND_LIBRARIES_OFF, 1, "on the host");
  agrees_with(all, NULL, BACKEND_LIBRARIES_AUTO, 1, "on the host");
  static const char *const bad[] = {"missing", "old", "new"};
  for (size_t k = 0; k < HS_COUNT(bad); k++)
    agrees_with(all, bad[k], BACKEND_LIBRARIES_AUTO, 1, "NCCL");
}

static void fails_with(const char *text, const char *mode, backend_libraries libraries,
                       hs_code code, const char *said) {
  outcome o = run_with(text, mode, libraries);
  assert_false(hs_ok(o.s));
  if (o.s.err->code != code || !strstr(o.s.err->message, said)) fail_msg("%s", o.s.err->message);
  outcome_free(&o);
}

#define ONE_REDUCE                                                   \
  FOUR ADD OWN_X "ROOT y = f32[8,4] all-reduce(x), to_apply=add" ALL \
  " }"
#define TWO_BRANCHES(second)                                                                   \
  FOUR ADD "p { x = f32[8,4] parameter(0)\n ROOT y = f32[8,4] all-reduce(x), to_apply=add" ALL \
  " }\nq { x = f32[8,4] parameter(0)\n " second " }\n" OWN_X                                   \
  "two = u32[] constant(2)\n less = pred[] compare(n, two), direction=LT\n"                    \
  " ROOT z = f32[8,4] conditional(less, x, x), true_computation=p, false_computation=q }"

static hs_status run_alone(const char *text, const char *mode) {
  hlo_module *m = parse(text);
  hlo_literal **args = NULL, *out = NULL;
  u32 n = 0;
  backend_context *own = backend_context_new();
  setenv("HLOSH_LIBNCCL", plugin_fake_nccl(mode), 1);
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  const backend_options o = {
      .context = own, .deadline_s = 60, .driver = plugin_fake_cuda("devices4")};
  hs_status s = backend_run_once(backend_find("gpu"), m, &o, n, args, &out);
  hlo_literal_unref(out);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  backend_context_free(own);
  unsetenv("HLOSH_LIBNCCL");
  return s;
}

// Half of the devices come to the collective, or each half to its own.
static void deadlocks(void **st) {
  (void)st;
  static const struct {
    const char *text;
    hs_code code;
    const char *said;
  } rows[] = {{TWO_BRANCHES("ROOT y = f32[8,4] negate(x)"), HS_E_RUN, "deadlock"},
              {TWO_BRANCHES("v = f32[8,4] negate(x)\n ROOT y = f32[8,4] all-reduce(v), "
                            "to_apply=add" ALL),
               HS_E_UNSUPPORTED, "two branches"}};
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    hs_status s = run_alone(rows[k].text, "ok");
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, rows[k].code);
    assert_non_null(strstr(s.err->message, rows[k].said));
    hs_status_drop(s);
  }
}

static void faults(void **st) {
  (void)st;
  driver_mode = "devices4";
  fails_with(ONE_REDUCE, "failing", BACKEND_LIBRARIES_AUTO, HS_E_DEVICE, "NCCL error 3 (INTERNAL)");
  fails_with(ONE_REDUCE, "noinit", BACKEND_LIBRARIES_AUTO, HS_E_DEVICE,
             "joining all devices: NCCL error 1 (UNHANDLED_CUDA)");
  fails_with(ONE_REDUCE, "old", BACKEND_LIBRARIES_ON, HS_E_NOT_BUILT, "NCCL says version 21706");
  driver_mode = "devices3";
  fails_with(ONE_REDUCE, "ok", BACKEND_LIBRARIES_AUTO, HS_E_UNSUPPORTED,
             "the module is for 4 devices, and here are 3");
  driver_mode = "ok";
  fails_with(ONE_REDUCE, "ok", BACKEND_LIBRARIES_AUTO, HS_E_UNSUPPORTED,
             "the module is for 4 devices, and here is 1");
}

// Without NCCL, which is none of the emulation's: sizes are those of one device.
static void emulated(void **st) {
  (void)st;
  hlo_module *m = parse(ONE_REDUCE);
  backend_compiled info;
  backend_result r = run_on(cpu, m, NULL, NULL, &info),
                 want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
  explain(hlo_compare(want.outputs, r.outputs, hlo_near(1e-4, 1e-4)));
  assert_int_equal(info.devices, 4);
  assert_int_equal(info.fallbacks, 1);
  backend_result_free(&r);
  backend_result_free(&want);
  hlo_module_free(m);
  agrees(HALVES ADD OWN_X "ROOT y = f32[16,4] all-gather(x), dimensions={0}, replica_groups={} }");
  agrees("HloModule t, replica_count=1\nENTRY e { p = u32[] partition-id()\n r = u32[] "
         "replica-id()\n ROOT y = u32[] subtract(p, r) }");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(collectives, make_folder),
      cmocka_unit_test(replicas),
      cmocka_unit_test(asynchronous),
      cmocka_unit_test(layouts),
      cmocka_unit_test(types),
      cmocka_unit_test(libraries),
      cmocka_unit_test(control_flow),
      cmocka_unit_test(recorded),
      cmocka_unit_test(on_the_host),
      cmocka_unit_test(deadlocks),
      cmocka_unit_test_teardown(faults, remove_folder),
      cmocka_unit_test(emulated),
  };
  return run_cpu_tests(argc, argv, "gpu_lanes", tests, HS_COUNT(tests));
}
