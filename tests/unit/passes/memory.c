// memory.c — which arguments may give their memory to which results, and what recomputing values
// across the peak would save.
#include "core/verify/verify.h"
#include "passes/buffer/donation.h"
#include "passes/buffer/recompute.h"
#include "tests/unit/modules.h"

static hs_arena arena;

static donations find(const char *text) {
  hlo_module *m = parse(text);
  donations v;
  expect_good(donation_find(m, &arena, &v), text);
  hlo_module_free(m);
  return v;
}

static void is(const donation *d, donation_state state, i64 param, u32 out, const char *why) {
  assert_int_equal(d->state, state);
  assert_int_equal(d->param, param);
  assert_int_equal(d->out_leaf, out);
  if (!strstr(d->why, why)) fail_msg("no %s in \"%s\"", why, d->why);
}

#define PAIR(o, p) "HloModule m, input_output_alias={ " o ": (" p ", {}, may-alias) }\n"

static void declared(void **st) {
  (void)st;
  donations v = find(PAIR("{}", "0") "ENTRY e { x = f32[8] parameter(0)\n ROOT n = f32[8] "
                                     "negate(x) }");
  assert_int_equal(v.n, 1);
  is(&v.v[0], DONATION_WORKS, 0, 0, "");
  hs_vec_free(&v);
  // sizes
  v = find(PAIR("{}", "0") "ENTRY e { x = f32[8] parameter(0)\n y = f32[9] parameter(1)\n ROOT n = "
                           "f32[9] negate(y) }");
  is(&v.v[0], DONATION_FAILS, 0, 0, "sizes differ: 32 bytes given, 36 needed");
  hs_vec_free(&v);
  // live after
  v = find(PAIR("{0}", "0") "ENTRY e { x = f32[8] parameter(0)\n n = f32[8] negate(x)\n r = f32[8] "
                            "add(n, x)\n ROOT t = (f32[8], f32[8]) tuple(n, r) }");
  is(&v.v[0], DONATION_FAILS, 0, 0, "live after: r reads it after n is made");
  hs_vec_free(&v);
  v = find(PAIR("{0}", "0") "ENTRY e { x = f32[8] parameter(0)\n n = f32[8] negate(x)\n ROOT t = "
                            "(f32[8], f32[8]) tuple(n, x) }");
  is(&v.v[0], DONATION_FAILS, 0, 0, "it is returned, too");
  hs_vec_free(&v);
  // a maker that cannot work in place
  v = find(PAIR("{}", "0") "ENTRY e { x = f32[8,8] parameter(0)\n ROOT t = f32[8,8] transpose(x), "
                           "dimensions={1,0} }");
  is(&v.v[0], DONATION_FAILS, 0, 0, "t reads it while it writes");
  hs_vec_free(&v);
}

static void possible(void **st) {
  (void)st;
  // the larger one first; a donor without an output; an update in place
  donations v =
      find("HloModule m\nENTRY e { x = f32[8] parameter(0)\n y = f32[64] parameter(1)\n a = "
           "f32[8] negate(x)\n b = f32[64] exponential(y)\n ROOT t = (f32[8], f32[64]) "
           "tuple(a, b) }");
  assert_int_equal(v.n, 2);
  is(&v.v[0], DONATION_POSSIBLE, 1, 1, "");
  is(&v.v[1], DONATION_POSSIBLE, 0, 0, "");
  assert_int_equal(v.v[0].bytes, 256);
  hs_vec_free(&v);
  v = find(
      "HloModule m, buffer_donor={ (0, {}) }\nENTRY e { x = f32[8] parameter(0)\n ROOT r = f32[4] "
      "slice(x), slice={[0:4]} }");
  assert_int_equal(v.n, 1);
  is(&v.v[0], DONATION_FAILS, 0, DONATION_NONE, "no output of its size is left");
  hs_vec_free(&v);
  v = find("HloModule m\nENTRY e { x = f32[64] parameter(0)\n u = f32[1] parameter(1)\n i = s32[] "
           "parameter(2)\n ROOT r = f32[64] dynamic-update-slice(x, u, i) }");
  assert_int_equal(v.n, 1);
  is(&v.v[0], DONATION_POSSIBLE, 0, 0, "");
  hs_vec_free(&v);
}

// A declared pair is what the finder then calls working.
static void declares(void **st) {
  (void)st;
  hlo_module *m = parse("HloModule m\nENTRY e { p = (f32[4], f32[8]) parameter(0)\n x = f32[8] "
                        "get-tuple-element(p), index=1\n n = f32[8] negate(x)\n y = f32[4] "
                        "get-tuple-element(p), index=0\n ROOT t = (f32[4], f32[8]) tuple(y, n) }");
  donations v;
  expect_good(donation_find(m, &arena, &v), "find");
  size_t before = v.n;
  assert_true(before > 0);
  is(&v.v[0], DONATION_POSSIBLE, 0, 1, "");
  donation_declare(m, &v.v[0]);
  expect_good(hlo_verify(m, NULL), "declared");
  hs_buf path = {0};
  donation_path(m->entry->params[0]->shape, v.v[0].param_leaf, &path);
  assert_string_equal(hs_buf_cstr(&path), "{1}");
  hs_buf_free(&path);
  hs_vec_free(&v);
  expect_good(donation_find(m, &arena, &v), "find again");
  is(&v.v[0], DONATION_WORKS, 0, 1, "");
  hs_vec_free(&v);
  hlo_module_free(m);
}

// b waits for the end over the peak of the two large transposes: it is made again from the
// parameter. What has a dot for its maker is not.
static void recomputed(void **st) {
  (void)st;
  static const char format[] =
      "HloModule m, is_scheduled=true\nENTRY e { x = f32[64] parameter(0)\n y = f32[64,64] "
      "parameter(1)\n %s\n t = f32[64,64] transpose(y), dimensions={1,0}\n u = f32[64,64] "
      "dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n v = f32[64,64] dot(u, t), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n w = f32[64,64] transpose(v), "
      "dimensions={1,0}\n r = f32[64,64] add(w, b)\n ROOT q = f32[64,64] dot(r, y), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
  char *text = hs_format(format, "b = f32[64,64] broadcast(x), dimensions={0}");
  hlo_module *m = parse(text);
  recompute_estimate e;
  expect_good(recompute_find(m, &e), text);
  assert_int_equal(e.values.n, 1);
  assert_string_equal(e.values.v[0].instr->name, "b");
  assert_int_equal(e.peak_before - e.peak_after, 64 * 64 * 4);
  assert_true(e.flops == 0 && e.bytes > 0 && e.total_flops > 0);
  hs_vec_free(&e.values);
  hlo_module_free(m);
  hs_free(text);
  text = hs_format(format, "b = f32[64,64] dot(y, y), lhs_contracting_dims={1}, "
                           "rhs_contracting_dims={0}");
  m = parse(text);
  expect_good(recompute_find(m, &e), text);
  assert_int_equal(e.values.n, 0);
  assert_int_equal(e.peak_before, e.peak_after);
  hs_vec_free(&e.values);
  hlo_module_free(m);
  hs_free(text);
}

static int close_all(void **st) {
  hs_arena_free(&arena);
  return close_context(st);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(declared), cmocka_unit_test(possible),
                                     cmocka_unit_test(declares), cmocka_unit_test(recomputed)};
  return cmocka_run_group_tests(tests, open_context, close_all);
}
