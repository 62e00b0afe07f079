// devices.c — what programs do beside computing: several devices, sends and receives, the host's
// queues, async pairs. Expected values follow from the definitions and are small enough to be
// checked by eye; core/eval_*.c say what they are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/eval/eval.h"
#include "core/text/text.h"

static hs_status run_text(hlo_ctx *ctx, const char *text, hlo_host *host, hlo_literal **out) {
  hlo_module *m = NULL;
  *out = NULL;
  hs_status st = hlo_parse(ctx, text, strlen(text), NULL, &m);
  hlo_eval_options opt = {.host = host};
  if (hs_ok(st)) st = hlo_eval_module(m, 0, NULL, &opt, out);
  hlo_module_free(m);
  return st;
}

// The text of the result of the first device; on failure the message.
static char *value_of(const char *text) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_literal *got = NULL;
  hs_buf b = {0};
  hs_status st = run_text(ctx, text, NULL, &got);
  if (hs_ok(st)) hlo_print_literal(&b, got);
  else hs_buf_printf(&b, "error: %s", st.err->message);
  hs_status_drop(st);
  hlo_literal_unref(got);
  hlo_ctx_free(ctx);
  hs_buf_cstr(&b);
  return b.p;
}

static void squeeze_blanks(char *s) {
  char *o = s;
  for (; *s; s++)
    if (*s != ' ' && *s != '\n') *o++ = *s;
  *o = 0;
}

// want: without blanks; "error" matches any failure
typedef struct device_case {
  const char *name, *text, *want;
} device_case;

static void check_cases(const device_case *c, size_t n) {
  u32 failed = 0;
  for (size_t k = 0; k < n; k++) {
    char *got = value_of(c[k].text);
    squeeze_blanks(got);
    bool error = strncmp(c[k].want, "error", 5) == 0;
    if (error ? strncmp(got, c[k].want, strlen(c[k].want)) != 0 : strcmp(got, c[k].want) != 0)
      print_error("%s: got %s, want %s\n", c[k].name, got, c[k].want), failed++;
    hs_free(got);
  }
  assert_int_equal(failed, 0);
}

#define PARTS(n) "HloModule m, num_partitions=" #n "\n"
#define ID "  p = u32[] partition-id() i = s32[] convert(p)\n"
#define GATHER(v, n)                                                                             \
  "  g1 = s32[1] reshape(" v ") ROOT g = s32[" #n                                                \
  "] all-gather(g1), channel_id=99, use_global_device_ids=true, replica_groups=[1," #n "]<=[" #n \
  "], dimensions={0}\n"
#define SUM "sum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }\n"
// s: on device 0 the first branch, which sums up its operand, on device 1 the second, which adds 10
// to it before that. C, D: the channels; F, G: the functions, of which sum and more are the same
#define BRANCHES(c, f, d, g)                                                                     \
  SUM "more { x = s32[] parameter(1) w = s32[] parameter(0) ROOT y = s32[] add(w, x) }\n"        \
      "least { v = s32[] parameter(0) w = s32[] parameter(1) ROOT y = s32[] minimum(v, w) }\n"   \
      "one { a = s32[] parameter(0) ROOT r = s32[] all-reduce(a), channel_id=" c ", to_apply=" f \
      ", replica_groups={{0,1}}, use_global_device_ids=true }\n"                                 \
      "two { a = s32[] parameter(0) t = s32[] constant(10) b = s32[] add(a, t) ROOT r = s32[] "  \
      "all-reduce(b), channel_id=" d ", to_apply=" g                                             \
      ", replica_groups={{0,1}}, use_global_device_ids=true }\n"                                 \
      "ENTRY e {" ID "s = s32[] conditional(i, i, i), branch_computations={one, two}"
#define PAIRS(p) "frontend_attributes={_xla_send_recv_source_target_pairs=\"" p "\"}"

// clang-format off
static const device_case groups[] = {
    {"iota groups", PARTS(4) SUM "ENTRY e {" ID "s = s32[] all-reduce(i), channel_id=1, "
     "use_global_device_ids=true, replica_groups=[2,2]<=[2,2]T(1,0), to_apply=sum" GATHER("s", 4)
     "}", "{2,4,2,4}"},
    {"mesh groups", PARTS(8) SUM "ENTRY e {" ID "s = s32[] all-reduce(i), channel_id=1, "
     "use_global_device_ids=true, replica_groups=mesh['a'=2,'b'=4] {'b'}, to_apply=sum"
     GATHER("s", 8) "}", "{6,6,6,6,22,22,22,22}"},
    {"mesh groups, part of an axis", PARTS(8) SUM "ENTRY e {" ID "s = s32[] all-reduce(i), "
     "channel_id=1, use_global_device_ids=true, replica_groups=mesh['a'=2,'b'=4] {'a','b':(1)2}, "
     "to_apply=sum" GATHER("s", 8) "}", "{12,16,12,16,12,16,12,16}"},
    {"partitions of a replica", "HloModule m, num_partitions=2, replica_count=2\n" SUM "ENTRY e "
     "{" ID " r = u32[] replica-id() rs = s32[] convert(r) t = s32[] constant(10) q = s32[] "
     "multiply(rs, t) v = s32[] add(i, q)\n"
     "s = s32[] all-reduce(v), channel_id=1, replica_groups={{0},{1}}, to_apply=sum" GATHER("s",
     4) "}", "{1,1,21,21}"},
    {"same partition of all replicas", "HloModule m, num_partitions=2, replica_count=2\n" SUM
     "ENTRY e {" ID " r = u32[] replica-id() rs = s32[] convert(r) t = s32[] constant(10) q = "
     "s32[] multiply(rs, t) v = s32[] add(i, q)\n"
     "s = s32[] all-reduce(v), replica_groups={{0,1}}, to_apply=sum" GATHER("s", 4) "}",
     "{10,12,10,12}"},
    {"broadcast from the first", PARTS(4) "ENTRY e {" ID "s = s32[] collective-broadcast(i), "
     "channel_id=1, replica_groups={{1,0},{3,2}}" GATHER("s", 4) "}", "{1,1,3,3}"},
    {"broadcast from a chosen root", PARTS(4) "ENTRY e {" ID "k = s32[1] constant({1}) s = s32[] "
     "collective-broadcast(i, k), channel_id=1, replica_groups={{1,0},{3,2}}, "
     "has_dynamic_root=true" GATHER("s", 4) "}", "{0,0,2,2}"},
    {"as many replicas as the groups name", "HloModule m\n" SUM "ENTRY e { p = u32[] replica-id() "
     "i = s32[] convert(p) ROOT s = s32[] all-reduce(i), replica_groups={{0,1,2},{3,4,5}}, "
     "to_apply=sum }", "3"},
    {"as many partitions as the shapes need", "HloModule m\nENTRY e {" ID " v = s32[1] reshape(i) "
     "ROOT g = s32[5] all-gather(v), replica_groups={}, dimensions={0} }", "{0,0,0,0,0}"},
    {"nobody sends: zero", PARTS(4) "ENTRY e {" ID "s = s32[] collective-permute(i), "
     "channel_id=1, source_target_pairs={{3,0},{1,2}}" GATHER("s", 4) "}", "{3,0,1,0}"},
    {"permute in place", PARTS(2) "ENTRY e {" ID " a = s32[4] broadcast(i), dimensions={} t = "
     "s32[4] iota(), iota_dimension=0 u = s32[4] add(a, t) z = s32[4] constant({7,7,7,7})\n"
     "one = s32[] constant(1) two = s32[] constant(2) from = (s32[]) tuple(one) to = (s32[]) "
     "tuple(two) s = s32[4] collective-permute(u, z, from, to), channel_id=1, "
     "source_target_pairs={{0,1},{1,0}}, slice_sizes={{2}}\n"
     "ROOT r = s32[8] all-gather(s), channel_id=2, use_global_device_ids=true, "
     "replica_groups={{0,1}}, dimensions={0} }", "{7,7,2,3,7,7,1,2}"},
    {"ragged all-to-all, two slices each", PARTS(2) "ENTRY e {" ID " t = s32[4] iota(), "
     "iota_dimension=0 ten = s32[] constant(10) b = s32[] multiply(i, ten) c = s32[4] "
     "broadcast(b), dimensions={} in = s32[4] add(t, c) z = s32[4] constant({-1,-1,-1,-1})\n"
     "o = s32[4] constant({0,1,2,3}) n = s32[4] constant({1,1,1,0}) w = s32[] multiply(i, i) x = "
     "s32[4] constant({0,2,0,2}) y = s32[4] broadcast(i), dimensions={} q = s32[4] add(x, y)\n"
     "s = s32[4] ragged-all-to-all(in, z, o, n, q, n), channel_id=1, replica_groups={{0,1}}\n"
     "ROOT r = s32[8] all-gather(s), channel_id=2, use_global_device_ids=true, "
     "replica_groups={{0,1}}, dimensions={0} }", "{0,10,1,11,2,12,-1,-1}"},
    {"rings in a loop", PARTS(8) "b { p = (s32[], s32[]) parameter(0) k = s32[] "
     "get-tuple-element(p), index=0 v = s32[] get-tuple-element(p), index=1 one = s32[] "
     "constant(1) l = s32[] add(k, one)\n"
     "  w = s32[] collective-permute(v), channel_id=1, "
     "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}} x = s32[] add(w, one) "
     "ROOT r = (s32[], s32[]) tuple(l, x) }\n"
     "c { p = (s32[], s32[]) parameter(0) k = s32[] get-tuple-element(p), index=0 n = s32[] "
     "constant(83) ROOT r = pred[] compare(k, n), direction=LT }\n"
     "ENTRY e {" ID "z = s32[] constant(0) t = (s32[], s32[]) tuple(z, i) l = (s32[], s32[]) "
     "while(t), condition=c, body=b s = s32[] get-tuple-element(l), index=1" GATHER("s", 8) "}",
     "{88,89,90,83,84,85,86,87}"},
    {"a collective in either branch", PARTS(2) BRANCHES("1", "sum", "1", "more") GATHER("s", 2) "}",
     "{11,11}"},
    {"in the branches on two channels", PARTS(2) BRANCHES("1", "sum", "2", "more") GATHER("s", 2)
     "}", "error:deadlock:otherdevicesdonotarriveatall-reduce"},
    {"in the branches by two functions", PARTS(2) BRANCHES("1", "sum", "1", "least") GATHER("s", 2)
     "}", "error:deadlock:otherdevicesdonotarriveatall-reduce"},
};
// clang-format on
static void groups_and_slices(void **state) {
  (void)state;
  check_cases(groups, HS_COUNT(groups));
}

#define MESH                                                                   \
  "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes=\"{m = " \
  "#sdy.mesh<[\\\"a\\\"=2, \\\"b\\\"=2]>}\"}\n"
#define BEGIN(axes, sharding)                                                \
  "custom_call_target=\"xla.sdy.GlobalToLocalShape\", frontend_attributes={" \
  "xla.sdy.in_shardings=\"#sdy.sharding_per_value<[<@m, " sharding ">]>\","  \
  "xla.sdy.manual_axes=\"#sdy<manual_axes{" axes "}>\"}\n"
#define END(axes, sharding)                                                  \
  "custom_call_target=\"xla.sdy.LocalToGlobalShape\", frontend_attributes={" \
  "xla.sdy.manual_axes=\"#sdy<manual_axes{" axes "}>\","                     \
  "xla.sdy.out_shardings=\"#sdy.sharding_per_value<[<@m, " sharding ">]>\"}\n"
#define A "\\\"a\\\""
#define B "\\\"b\\\""

// clang-format off
static const device_case regions[] = {
    {"the devices that differ in manual axes", MESH "ENTRY e {" ID "v = s32[1] reshape(i) w = "
     "s32[2] custom-call(v), " END(B, "[{" B "}]") "ROOT g = s32[8] all-gather(w), channel_id=9, "
     "use_global_device_ids=true, replica_groups={{0,1,2,3}}, dimensions={0} }",
     "{0,1,0,1,2,3,2,3}"},
    {"a sum over an axis", MESH "ENTRY e {" ID "v = s32[1] reshape(i) ROOT w = s32[2] "
     "custom-call(v), " END(A ", " B, "[{" A "}], unreduced={" B "}") "}", "{1,5}"},
    {"copies are added once", MESH "ENTRY e { v = s32[1] constant({4}) ROOT w = s32[1] "
     "custom-call(v), " END(A ", " B, "[{}], unreduced={" B "}") "}", "{8}"},
    {"addends", MESH "ENTRY e { v = s32[1] constant({7}) w = s32[1] custom-call(v), "
     BEGIN(A ", " B, "[{}], unreduced={" B "}") "ROOT g = s32[4] all-gather(w), channel_id=9, "
     "use_global_device_ids=true, replica_groups={{0,1,2,3}}, dimensions={0} }", "{7,0,7,0}"},
    {"an end without a begin", MESH "ENTRY e { v = s32[1] constant({3}) ROOT w = s32[4] "
     "custom-call(v), " END(A ", " B, "[{" A ", " B "}]") "}", "{3,3,3,3}"},
};
// clang-format on
static void manual_regions(void **state) {
  (void)state;
  check_cases(regions, HS_COUNT(regions));
}

// clang-format off
static const device_case transfers[] = {
    {"around a ring", PARTS(3) "ENTRY e {" ID " a = token[] after-all() rv = (s32[], u32[], "
     "token[]) recv(a), channel_id=1, " PAIRS("{{0,1},{1,2},{2,0}}")
     " rd = (s32[], token[]) recv-done(rv), channel_id=1 s = (s32[], u32[], token[]) send(i, a), "
     "channel_id=1, " PAIRS("{{0,1},{1,2},{2,0}}")
     " sd = token[] send-done(s), channel_id=1 v = s32[] get-tuple-element(rd), index=0"
     GATHER("v", 3) "}", "{2,0,1}"},
    {"only one receives", PARTS(3) "ENTRY e {" ID " c = s32[] constant(5) j = s32[] add(i, c) a = "
     "token[] after-all() rv = (s32[], u32[], token[]) recv(a), channel_id=1, " PAIRS("{{0,2}}")
     " s = (s32[], u32[], token[]) send(j, a), channel_id=1, " PAIRS("{{0,2}}")
     " sd = token[] send-done(s), channel_id=1 rd = (s32[], token[]) recv-done(rv), channel_id=1 "
     "v = s32[] get-tuple-element(rd), index=0" GATHER("v", 3) "}", "{0,0,5}"},
    {"to itself, twice in order", "HloModule m\nENTRY e { x = s32[] constant(3) y = s32[] "
     "constant(4) a = token[] after-all()\n"
     " s = (s32[], u32[], token[]) send(x, a), channel_id=7 sd = token[] send-done(s), "
     "channel_id=7 u = (s32[], u32[], token[]) send(y, sd), channel_id=7 ud = token[] "
     "send-done(u), channel_id=7\n"
     " r = (s32[], u32[], token[]) recv(a), channel_id=7 rd = (s32[], token[]) recv-done(r), "
     "channel_id=7 rt = token[] get-tuple-element(rd), index=1 q = (s32[], u32[], token[]) "
     "recv(rt), channel_id=7 qd = (s32[], token[]) recv-done(q), channel_id=7\n"
     " v = s32[] get-tuple-element(rd), index=0 w = s32[] get-tuple-element(qd), index=0 v1 = "
     "s32[1] reshape(v) w1 = s32[1] reshape(w) ROOT o = s32[2] concatenate(v1, w1), "
     "dimensions={0} }", "{3,4}"},
    {"nobody sends", "HloModule m\nENTRY e { a = token[] after-all() r = (s32[], u32[], token[]) "
     "recv(a), channel_id=7 rd = (s32[], token[]) recv-done(r), channel_id=7 ROOT v = s32[] "
     "get-tuple-element(rd), index=0 }", "error:deadlock:otherdevicesdonotarriveatrecv-done"},
    {"nobody receives", "HloModule m\nENTRY e { x = s32[] constant(3) a = token[] after-all() s = "
     "(s32[], u32[], token[]) send(x, a), channel_id=7 sd = token[] send-done(s), channel_id=7 "
     "ROOT r = s32[] negate(x) }", "error:deadlock:otherdevicesdonotarriveatsend-done"},
    {"scheduled so that each waits", "HloModule m, num_partitions=2, is_scheduled=true\nENTRY e "
     "{" ID " a = token[] after-all() rv = (s32[], u32[], token[]) recv(a), channel_id=1, "
     PAIRS("{{0,1},{1,0}}")
     " rd = (s32[], token[]) recv-done(rv), channel_id=1 s = (s32[], u32[], token[]) send(i, a), "
     "channel_id=1, " PAIRS("{{0,1},{1,0}}")
     " sd = token[] send-done(s), channel_id=1 ROOT v = s32[] get-tuple-element(rd), index=0 }",
     "error:deadlock:otherdevicesdonotarriveatrecv-done"},
};
// clang-format on
static void sends_and_receives(void **state) {
  (void)state;
  check_cases(transfers, HS_COUNT(transfers));
}

// clang-format off
static const device_case async[] = {
    {"start, update, done", "HloModule m\nf { a = s32[2] parameter(0) b = s32[2] parameter(1) "
     "ROOT r = s32[2] subtract(a, b) }\nENTRY e { x = s32[2] constant({5,6}) y = s32[2] "
     "constant({1,2})\n"
     " s = ((s32[2], s32[2]), s32[2], s32[]) async-start(x, y), calls=f u = ((s32[2], s32[2]), "
     "s32[2], s32[]) async-update(s) ROOT d = s32[2] async-done(u) }", "{4,4}"},
    {"operands bound late", "HloModule m\nf { a = s32[2] parameter(0) b = s32[2] parameter(1) "
     "ROOT r = s32[2] subtract(a, b) }\nENTRY e { x = s32[2] constant({5,6}) y = s32[2] "
     "constant({1,2})\n"
     " s = ((s32[2]), s32[2], s32[]) async-start(x), calls=f u = ((s32[2], s32[2]), s32[2], "
     "s32[]) async-update(s, y) ROOT d = s32[2] async-done(u) }", "{4,4}"},
    {"copy", "HloModule m\nENTRY e { x = s32[2] constant({5,6}) s = (s32[2], s32[2], u32[]) "
     "copy-start(x) ROOT d = s32[2] copy-done(s) }", "{5,6}"},
    {"all-reduce", PARTS(2) SUM "ENTRY e {" ID " s = s32[] all-reduce-start(i), channel_id=1, "
     "use_global_device_ids=true, replica_groups={{0,1}}, to_apply=sum d = s32[] "
     "all-reduce-done(s)" GATHER("d", 2) "}", "{1,1}"},
    {"all-gather", PARTS(2) "ENTRY e {" ID " v = s32[1] reshape(i) s = (s32[1], s32[2]) "
     "all-gather-start(v), channel_id=1, use_global_device_ids=true, replica_groups={{1,0}}, "
     "dimensions={0} ROOT d = s32[2] all-gather-done(s) }", "{1,0}"},
    {"collective-permute", PARTS(2) "ENTRY e {" ID " s = (s32[], s32[], u32[], u32[]) "
     "collective-permute-start(i), channel_id=1, source_target_pairs={{0,1},{1,0}} ROOT d = s32[] "
     "collective-permute-done(s) }", "1"},
    {"a wrapped collective", PARTS(2) "f { a = s32[2] parameter(0) ROOT r = s32[2] all-to-all(a), "
     "channel_id=1, replica_groups={{0,1}}, dimensions={0} }\nENTRY e {" ID " t = s32[2] iota(), "
     "iota_dimension=0 b = s32[2] broadcast(i), dimensions={} c = s32[2] add(t, b)\n"
     " s = ((s32[2]), s32[2], s32[]) async-start(c), calls=f ROOT d = s32[2] async-done(s) }",
     "{0,1}"},
};
// clang-format on
static void async_pairs(void **state) {
  (void)state;
  check_cases(async, HS_COUNT(async));
}

// Fed values come in order, per device; what is handed out has its device and channel, and is
// itself a file of this form.
static void host_queues(void **state) {
  (void)state;
  static const char text[] = PARTS(
      2) "ENTRY e {" ID
         " t = token[] after-all() a = ((s32[2], f32[]), token[]) infeed(t) d = (s32[2], f32[]) "
         "get-tuple-element(a), index=0 x = s32[2] get-tuple-element(d), index=0 u = token[] "
         "get-tuple-element(a), index=1\n"
         " b = (s32[2], token[]) infeed(u) y = s32[2] get-tuple-element(b), index=0 s = s32[2] "
         "add(x, y) v = token[] get-tuple-element(b), index=1 o = token[] outfeed(s, v), "
         "outfeed_shape=s32[2]\n"
         " k = (f32[], u32[], token[]) recv(t), channel_id=3, is_host_transfer=true kd = (f32[], "
         "token[]) recv-done(k), channel_id=3, is_host_transfer=true f = f32[] "
         "get-tuple-element(kd), index=0 n = f32[] negate(f)\n"
         " w = (f32[], u32[], token[]) send(n, t), channel_id=4, is_host_transfer=true wd = "
         "token[] send-done(w), channel_id=4, is_host_transfer=true ROOT r = s32[2] add(s, y) }";
  static const char given[] =
      "// values for both devices\n(s32[2], f32[]) ({1, 2}, 0.5)\n@0 s32[2] {10, 20}\n\n"
      "@1 s32[2] {30, 40}\n #3 f32[] 2.5\n";
  static const char want[] =
      "@0 s32[2] {11, 22}\n@0 #4 f32[] -2.5\n@1 s32[2] {31, 42}\n@1 #4 f32[] -2.5\n";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_host *h = hlo_host_new();
  hs_status st = hlo_host_read(h, ctx, given, strlen(given));
  assert_true(hs_ok(st));
  for (int round = 0; round < 2; round++) {  // every run starts from the beginning
    hlo_literal *got = NULL;
    st = run_text(ctx, text, h, &got);
    if (!hs_ok(st)) print_error("%s\n", st.err->message);
    assert_true(hs_ok(st));
    assert_int_equal(hlo_literal_i64(got, 1), 42);
    hlo_literal_unref(got);
    hs_buf b = {0};
    hlo_host_write(h, &b);
    assert_string_equal(hs_buf_cstr(&b), want);
    hs_buf_free(&b);
  }
  hlo_host_free(h);
  // The second infeed finds nothing, or something of another shape; a bad line is named.
  static const char *const few[] = {"(s32[2], f32[]) ({1, 2}, 0.5)\n",
                                    "(s32[2], f32[]) ({1, 2}, 0.5)\ns32[3] {1, 2, 3}\n"};
  for (size_t k = 0; k < HS_COUNT(few); k++) {
    h = hlo_host_new();
    st = hlo_host_read(h, ctx, few[k], strlen(few[k]));
    assert_true(hs_ok(st));
    hlo_literal *got = NULL;
    st = run_text(ctx, text, h, &got);
    assert_false(hs_ok(st));
    assert_non_null(strstr(st.err->message, k ? "another shape" : "nothing is left to feed"));
    hs_status_drop(st);
    hlo_host_free(h);
  }
  h = hlo_host_new();
  st = hlo_host_read(h, ctx, "s32[] 1\nnonsense\n", 17);
  assert_false(hs_ok(st));
  assert_non_null(strstr(st.err->note, "line 2"));
  hs_status_drop(st);
  hlo_host_free(h);
  char *alone = value_of(
      "HloModule m\nENTRY e { t = token[] after-all() a = (s32[], token[]) infeed(t) ROOT r = "
      "s32[] get-tuple-element(a), index=0 }");
  assert_non_null(strstr(alone, "waits for the host"));
  hs_free(alone);
  hlo_ctx_free(ctx);
}

// All devices of one instruction: every member of a group has the group's result, which is computed
// once; where one of them is away, the others of its group wait in vain.
static void together(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m, replica_count=4\n"
      "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
      "ENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] all-reduce(x), to_apply=add, "
      "replica_groups={{0,2},{1,3}} }";
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  hlo_literal *x[4], *const *ops[4], *out[4];
  for (u32 d = 0; d < 4; d++) {
    assert_true(hs_ok(hlo_literal_new(m->entry->params[0]->shape, &x[d])));
    for (i64 k = 0; k < 2; k++) hlo_literal_set_f64(x[d], k, (double)(d + 10 * k));
    ops[d] = &x[d];
  }
  const hlo_instr *r = m->entry->root;
  assert_true(hs_ok(hlo_eval_together(r, 4, 1, NULL, ops, NULL, out)));
  assert_ptr_equal(out[0], out[2]);
  assert_ptr_equal(out[1], out[3]);
  for (u32 d = 0; d < 4; d++) {
    assert_true(hlo_literal_f64(out[d], 0) == (d % 2 ? 4 : 2));
    assert_true(hlo_literal_f64(out[d], 1) == (d % 2 ? 24 : 22));
    hlo_literal_unref(out[d]);
  }
  const bool here[4] = {true, true, false, true};
  hs_status st = hlo_eval_together(r, 4, 1, here, ops, NULL, out);
  assert_false(hs_ok(st));
  assert_non_null(strstr(st.err->message, "deadlock"));
  hs_status_drop(st);
  for (u32 d = 0; d < 4; d++) {
    assert_null(out[d]);
    hlo_literal_unref(x[d]);
  }
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(together),       cmocka_unit_test(groups_and_slices),
      cmocka_unit_test(manual_regions), cmocka_unit_test(sends_and_receives),
      cmocka_unit_test(async_pairs),    cmocka_unit_test(host_queues)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
