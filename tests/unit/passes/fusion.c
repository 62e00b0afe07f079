// Fusion: which programs become one kernel, which producers stay in memory, and that the reasons
// are recorded.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/text/text.h"
#include "passes/passes.h"

#define HEAD                                                                                   \
  "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) " \
  "}\nmax { a2 = f32[] parameter(0) b2 = f32[] parameter(1) ROOT r2 = f32[] maximum(a2, b2) "  \
  "}\nENTRY e {\n"

static hlo_module *m;
static pass_notes notes;

// Kernels that would be launched by the entry: everything but parameters, constants, tuples and
// elements.
static u32 kernels_after(const char *body, const char *pipeline) {
  hlo_ctx *ctx = hlo_ctx_new();
  hs_buf b = {0};
  hs_buf_printf(&b, "%s%s}\n", HEAD, body);
  hs_status s = hlo_parse(ctx, b.p, b.n, NULL, &m);
  hs_buf_free(&b);
  if (!hs_ok(s)) hs_status_render(s, &b, false), print_error("%s\n", hs_buf_cstr(&b));
  assert_true(hs_ok(s));
  pass_run_options o = pass_run_default();
  o.measure = false;
  o.verify = o.verify_all = true;
  o.notes = &notes;
  pass_log log = {0};
  s = pipeline_run(m, pipeline, &o, &log);
  hs_vec_free(&log);
  if (!hs_ok(s)) hs_status_render(s, &b, false), print_error("%s\n", hs_buf_cstr(&b));
  assert_true(hs_ok(s));
  hs_buf_free(&b);
  u32 n = 0;
  hlo_for_each_instr(i, m->entry)
    n += i->opcode != HLO_PARAMETER && i->opcode != HLO_CONSTANT && i->opcode != HLO_TUPLE &&
         i->opcode != HLO_GET_TUPLE_ELEMENT;
  return n;
}

static bool noted(const char *text) {
  for (size_t k = 0; k < notes.n; k++)
    if (strstr(notes.v[k].text, text)) return true;
  return false;
}

static int teardown(void **state) {
  (void)state;
  hlo_ctx *c = m->ctx;
  hlo_module_free(m);
  hlo_ctx_free(c);
  for (size_t k = 0; k < notes.n; k++) hs_free(notes.v[k].text);
  hs_vec_free(&notes);
  return 0;
}

#define PIPE "algsimp,dce,fusion,dce"
#define ONE(name, body)                             \
  static void name(void **state) {                  \
    (void)state;                                    \
    assert_int_equal(kernels_after(body, PIPE), 1); \
  }

ONE(sum_of_product,
    "x = f32[64,32] parameter(0) y = f32[64,32] parameter(1) z = f32[64,32] parameter(2) p = "
    "f32[64,32] multiply(y, z)\n"
    "q = f32[64,32] add(x, p) c = f32[] constant(0) ROOT t = f32[] reduce(q, c), dimensions={0,1}, "
    "to_apply=add\n")
ONE(relu_squared,
    "x = f32[1024] parameter(0) c = f32[] constant(0) z = f32[1024] broadcast(c), dimensions={} k "
    "= f32[] constant(3)\n"
    "three = f32[1024] broadcast(k), dimensions={} r = f32[1024] maximum(x, z) q = f32[1024] "
    "multiply(r, r) ROOT t = f32[1024] add(q, three)\n")
ONE(mean_of_relu_squared,
    "x = f32[1024] parameter(0) c = f32[] constant(0) z = f32[1024] broadcast(c), dimensions={} r "
    "= f32[1024] maximum(x, z)\n"
    "q = f32[1024] multiply(r, r) s = f32[] reduce(q, c), dimensions={0}, to_apply=add n = f32[] "
    "constant(1024) ROOT t = f32[] divide(s, n)\n")
ONE(polynomial,
    "x = f32[512] parameter(0) k = f32[] constant(2) two = f32[512] broadcast(k), dimensions={} c "
    "= f32[] constant(1)\n"
    "one = f32[512] broadcast(c), dimensions={} q = f32[512] multiply(x, x) l = f32[512] "
    "multiply(two, x) s = f32[512] add(q, l) ROOT t = f32[512] add(s, one)\n")
ONE(sine_plus_exp,
    "x = f32[4096] parameter(0) s = f32[4096] sine(x) v = f32[4096] exponential(x) ROOT t = "
    "f32[4096] add(s, v)\n")

ONE(softmax_rows,
    "x = f32[1024,512] parameter(0) c = f32[] constant(0) l = f32[] constant(-inf) m = f32[1024] "
    "reduce(x, l), dimensions={1}, to_apply=max\n"
    "mb = f32[1024,512] broadcast(m), dimensions={0} d = f32[1024,512] subtract(x, mb) v = "
    "f32[1024,512] exponential(d)\n"
    "s = f32[1024] reduce(v, c), dimensions={1}, to_apply=add sb = f32[1024,512] broadcast(s), "
    "dimensions={0} ROOT t = f32[1024,512] divide(v, sb)\n")
ONE(layer_norm,
    "x = f32[256,128] parameter(0) z = f32[] constant(0) q = f32[256] reduce(x, z), "
    "dimensions={1}, to_apply=add n = f32[] constant(128)\n"
    "nb = f32[256] broadcast(n), dimensions={} mean = f32[256] divide(q, nb) mb = f32[256,128] "
    "broadcast(mean), dimensions={0}\n"
    "d = f32[256,128] subtract(x, mb) dd = f32[256,128] multiply(d, d) v = f32[256] reduce(dd, z), "
    "dimensions={1}, to_apply=add\n"
    "var = f32[256] divide(v, nb) k = f32[] constant(1e-5) kb = f32[256] broadcast(k), "
    "dimensions={} w = f32[256] add(var, kb) r = f32[256] rsqrt(w)\n"
    "rb = f32[256,128] broadcast(r), dimensions={0} ROOT t = f32[256,128] multiply(d, rb)\n")

static void few_rows_stay_apart(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[2,65536] parameter(0) c = f32[] constant(0) s = f32[2] reduce(x, c), "
      "dimensions={1}, to_apply=add\n"
      "sb = f32[2,65536] broadcast(s), dimensions={0} ROOT t = f32[2,65536] divide(x, sb)\n",
      PIPE);
  assert_int_equal(n, 2);
  assert_true(noted("only 2 rows"));
}

static void columns_stay_apart(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[512,512] parameter(0) c = f32[] constant(0) s = f32[512] reduce(x, c), "
      "dimensions={0}, to_apply=add\n"
      "sb = f32[512,512] broadcast(s), dimensions={1} ROOT t = f32[512,512] divide(x, sb)\n",
      PIPE);
  assert_int_equal(n, 2);
}

static void exponential_not_recomputed(void **state) {
  (void)state;
  // The broadcast along the rows would evaluate the exponential once per row.
  u32 n = kernels_after(
      "x = f32[512] parameter(0) y = f32[512,512] parameter(1) v = f32[512] exponential(x) b = "
      "f32[512,512] broadcast(v), dimensions={1}\n"
      "ROOT t = f32[512,512] multiply(b, y)\n",
      PIPE);
  assert_int_equal(n, 2);
  assert_true(noted("not fused: would recompute exponential 512x"));
}

static void shared_expensive_producer(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[4096] parameter(0) v = f32[4096] exponential(x) s = f32[4096] sine(v) c = f32[] "
      "constant(0)\n"
      "q = f32[] reduce(v, c), dimensions={0}, to_apply=add ROOT t = (f32[4096], f32[]) tuple(s, "
      "q)\n",
      PIPE);
  assert_int_equal(n, 3);
  assert_true(noted("2 kernels would each compute exponential"));
}

// Squares of more than what a cache holds, summed by rows and by columns: what is squared is read
// once in each of the two, though it is two operands.
static void shared_square(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[1024,1024] parameter(0) v = f32[1024,1024] multiply(x, x) z = f32[] constant(0) "
      "r = f32[1024] reduce(v, z), dimensions={1}, to_apply=add c = f32[1024] reduce(v, z), "
      "dimensions={0}, to_apply=add ROOT t = (f32[1024], f32[1024]) tuple(r, c)\n",
      PIPE);
  assert_int_equal(n, 2);
}

static void shared_cheap_producer(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[65536] parameter(0) y = f32[65536] parameter(1) v = f32[65536] add(x, y) s = "
      "f32[65536] sine(v) c = f32[65536] cosine(v)\n"
      "ROOT t = (f32[65536], f32[65536]) tuple(s, c)\n",
      PIPE);
  assert_int_equal(n, 2);
}

// What two kernels read of a large array costs each of them its own read, and no more.
static void shared_slice(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[4096,4096] parameter(0) i = s32[] parameter(1) z = s32[] constant(0) s = "
      "f32[256,4096] dynamic-slice(x, i, z), dynamic_slice_sizes={256,4096}\n"
      "c = f32[] constant(0) r = f32[256] reduce(s, c), dimensions={1}, to_apply=add m = "
      "f32[256,4096] negate(s) ROOT t = (f32[256,4096], f32[256]) tuple(m, r)\n",
      PIPE);
  assert_int_equal(n, 2);
}

static void sibling_reductions(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[64,128] parameter(0) c = f32[] constant(0) q = f32[64,128] multiply(x, x) s = "
      "f32[64] reduce(x, c), dimensions={1}, to_apply=add\n"
      "v = f32[64] reduce(q, c), dimensions={1}, to_apply=add ROOT t = (f32[64], f32[64]) tuple(s, "
      "v)\n",
      PIPE ",multi_output_fusion,dce");
  assert_int_equal(n, 1);
}

static void kept_producer_joins_consumer(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[4096] parameter(0) v = f32[4096] exponential(x) s = f32[4096] sine(v) ROOT t = "
      "(f32[4096], f32[4096]) tuple(v, s)\n",
      PIPE ",multi_output_fusion,dce");
  assert_int_equal(n, 1);
}

static void one_producer_three_consumers(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[65536] parameter(0) y = f32[65536] parameter(1) v = f32[65536] power(x, y) s = "
      "f32[65536] sine(v) c = f32[65536] negate(v)\n"
      "a = f32[65536] abs(v) ROOT t = (f32[65536], f32[65536], f32[65536]) tuple(s, c, a)\n",
      PIPE ",multi_output_fusion,dce");
  assert_int_equal(n, 1);
}

ONE(variance_from_two_sums,
    "x = f32[64,128] parameter(0) z = f32[] constant(0) q = f32[64,128] multiply(x, x) s = f32[64] "
    "reduce(x, z), dimensions={1}, to_apply=add\n"
    "r = f32[64] reduce(q, z), dimensions={1}, to_apply=add ss = f32[64] multiply(s, s) ROOT t = "
    "f32[64] subtract(r, ss)\n")

static void dots_stay_apart(void **state) {
  (void)state;
  u32 n = kernels_after(
      "x = f32[64,64] parameter(0) y = f32[64,64] parameter(1) v = f32[64,64] negate(x) d = "
      "f32[64,64] dot(v, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "ROOT t = f32[64,64] tanh(d)\n",
      PIPE);
  assert_int_equal(n, 3);
}

// XLA's own rules: kernels left, and what was noted of a producer that stayed outside (NULL:
// nothing is asked).
static const struct {
  const char *body, *pipe;
  u32 kernels;
  const char *note;
} greedy_cases[] = {
    {"x = f32[8] parameter(0) y = f32[8] parameter(1) s = f32[8] add(x, y) a = f32[8] abs(s) ROOT "
     "t = f32[8] subtract(a, s)\n",
     "fusion{mode=greedy;may_duplicate=false}", 1, NULL},
    {"x = f32[8] parameter(0) y = f32[8] parameter(1) s = f32[8] add(x, y) a = f32[8] abs(s) n = "
     "f32[8] negate(s) ROOT t = (f32[8], f32[8]) tuple(a, n)\n",
     "fusion{mode=greedy_cpu;may_duplicate=false}", 3, "others read it too"},
    {"x = f32[8] parameter(0) y = f32[8] parameter(1) s = f32[8] add(x, y) a = f32[8] abs(s) n = "
     "f32[8] negate(s) ROOT t = (f32[8], f32[8]) tuple(a, n)\n",
     "fusion{mode=greedy_cpu}", 2, NULL},
    {"x = f32[8] parameter(0) s = f32[8] sine(x) v = f32[8] exponential(s) a = f32[8] abs(v) n = "
     "f32[8] negate(v) ROOT t = (f32[8], f32[8]) tuple(a, n)\n",
     "fusion{mode=greedy_cpu}", 3, "expensive and others read it"},
    {"x = f32[8] parameter(0) v = f32[8] exponential(x) b = f32[8,8] broadcast(v), dimensions={1} "
     "ROOT t = f32[8,8] negate(b)\n",
     "fusion{mode=greedy_cpu}", 2, "elements are read again"},
    // What is written over must not be read elsewhere in the fusion, unless it is the very place.
    {"x = f32[8] parameter(0) u = f32[2] parameter(1) z = s32[] constant(0) w = f32[8] "
     "dynamic-update-slice(x, u, z) k = s32[] constant(4)\n"
     "ROOT t = f32[8] dynamic-update-slice(w, u, k)\n",
     "fusion{mode=greedy;may_duplicate=false}", 2, "moves data of what the consumer writes over"},
    {"x = f32[8] parameter(0) s = f32[2] slice(x), slice={[4:6]} n = f32[2] negate(s) k = s32[] "
     "constant(4) ROOT t = f32[8] dynamic-update-slice(x, n, k)\n",
     "fusion{mode=greedy}", 1, NULL},
    {"x = f32[8] parameter(0) s = f32[2] slice(x), slice={[2:4]} n = f32[2] negate(s) k = s32[] "
     "constant(4) ROOT t = f32[8] dynamic-update-slice(x, n, k)\n",
     "fusion{mode=greedy_cpu}", 2, "start at different places"},
    {"x = f32[8] parameter(0) i = s32[] parameter(1) s = f32[2] dynamic-slice(x, i), "
     "dynamic_slice_sizes={2} n = f32[2] negate(s) ROOT t = f32[8] dynamic-update-slice(x, n, i)\n",
     "fusion{mode=greedy}", 1, NULL},
    {"x = f32[8] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) s = f32[2] "
     "dynamic-slice(x, i), dynamic_slice_sizes={2} n = f32[2] negate(s)\n"
     "ROOT t = f32[8] dynamic-update-slice(x, n, j)\n",
     "fusion{mode=greedy}", 2, "start at different places"},
    // XLA:CPU: products with a vector, concatenation, softmax, constants.
    {"x = f32[4,8] parameter(0) v = f32[8] parameter(1) w = f32[4] parameter(2) d = f32[4] dot(x, "
     "v), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT t = f32[4] add(d, w)\n",
     "fusion{mode=greedy_cpu}", 1, NULL},
    {"x = f32[4,8] parameter(0) v = f32[8] parameter(1) a = f32[4,8] abs(x) ROOT t = f32[4] dot(a, "
     "v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
     "fusion{mode=greedy_cpu}", 1, NULL},
    {"x = f32[4,8] parameter(0) y = f32[8,4] parameter(1) a = f32[4,8] abs(x) ROOT t = f32[4,4] "
     "dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
     "fusion{mode=greedy_cpu}", 2, "no loop over elements"},
    {"x = f32[64,16] parameter(0) y = f32[64,16] parameter(1) c = f32[64,32] concatenate(x, y), "
     "dimensions={1} ROOT t = f32[64,32] negate(c)\n",
     "fusion{mode=greedy_cpu}", 2, "concatenation is faster on its own"},
    {"x = f32[4,8] parameter(0) y = f32[4,8] parameter(1) s = f32[4,8] add(x, y) l = f32[] "
     "constant(-inf) h = f32[4] reduce(s, l), dimensions={1}, to_apply=max\n"
     "b = f32[4,8] broadcast(h), dimensions={0} d = f32[4,8] subtract(s, b) ROOT t = f32[4,8] "
     "exponential(d)\n",
     "fusion{mode=greedy_cpu}", 3, "not all that read it can take it in"},
    {"x = f32[4] parameter(0) k = f32[4] constant({1, 2, 3, 4}) s = f32[4] add(x, k) ROOT t = "
     "f32[4] negate(s)\n",
     "fusion{mode=greedy_cpu}", 1, "it is a constant array"},
};

static void greedy_rules(void **state) {
  for (size_t k = 0; k < HS_COUNT(greedy_cases); k++) {
    if (k) teardown(state), notes = (pass_notes){0};
    u32 n = kernels_after(greedy_cases[k].body, greedy_cases[k].pipe);
    if (n != greedy_cases[k].kernels) fail_msg("case %zu: %u kernels", k, n);
    if (greedy_cases[k].note && !noted(greedy_cases[k].note))
      fail_msg("case %zu: not noted: %s", k, greedy_cases[k].note);
  }
}

// Two fusions of one body, as an unrolled loop leaves them: what one takes in is not the other's.
static void greedy_leaves_shared_bodies(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nf { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }\n"
      "ENTRY e { x = f32[8] parameter(0) s = f32[8] sine(x) c = f32[8] cosine(x) a = f32[8] "
      "fusion(s), kind=kLoop, calls=f\n"
      " b = f32[8] fusion(c), kind=kLoop, calls=f ROOT t = (f32[8], f32[8]) tuple(a, b) }\n";
  assert_true(hs_ok(hlo_parse(hlo_ctx_new(), text, strlen(text), NULL, &m)));
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  assert_true(hs_ok(pipeline_run(m, "fusion{mode=greedy_cpu}", &o, NULL)));
  for (u32 k = 0; k < 2; k++) {
    const hlo_instr *f = hlo_operand(m->entry->root, k);
    assert_int_equal(f->noperands, 1);
    assert_int_equal(hlo_operand(hlo_fusion_comp(f)->root, 0)->opcode, k ? HLO_COSINE : HLO_SIN);
  }
}

// A number that is the same everywhere may be read at any indices.
static void numbers_at_many_indices(void **state) {
  (void)state;
  hs_buf b = {0};
  hs_buf_puts(&b, "x = f32[64] parameter(0) k = f32[] constant(3) y = f32[64] broadcast(k), "
                  "dimensions={} t0 = f32[8] slice(x), slice={[0:8]}\n");
  for (int j = 0; j < 8; j++)
    hs_buf_printf(&b, "y%d = f32[8] slice(y), slice={[%d:%d]} t%d = f32[8] %s(t%d, y%d)\n", j, j,
                  j + 8, j + 1, j % 2 ? "add" : "multiply", j, j);
  hs_buf_puts(&b, "ROOT r = f32[8] negate(t8)\n");
  assert_int_equal(kernels_after(hs_buf_cstr(&b), "fusion,dce"), 1);
  hs_buf_free(&b);
}

// A filter that divides by its weights: both sums read all weights, and the second one's users are
// all placed before the first one's. One kernel, in which no weight is stored.
static void sums_that_share_their_terms(void **state) {
  (void)state;
  enum { TAPS = 30 };
  hs_buf b = {0};
  hs_buf_puts(&b, "x = f32[64] parameter(0) n0 = f32[64] negate(x) d0 = f32[64] negate(x)\n");
  for (int j = 0; j < TAPS; j++)
    hs_buf_printf(&b,
                  "k%d = f32[] constant(%d) c%d = f32[64] broadcast(k%d), dimensions={} h%d = "
                  "f32[64] subtract(x, c%d) w%d = f32[64] exponential(h%d) m%d = f32[64] "
                  "multiply(w%d, h%d) n%d = f32[64] add(n%d, m%d)\n",
                  j, j, j, j, j, j, j, j, j, j, j, j + 1, j, j);
  for (int j = 0; j < TAPS; j++) hs_buf_printf(&b, "d%d = f32[64] add(d%d, w%d)\n", j + 1, j, j);
  hs_buf_printf(&b, "ROOT r = f32[64] divide(n%d, d%d)\n", TAPS, TAPS);
  assert_int_equal(kernels_after(hs_buf_cstr(&b), "fusion,dce"), 1);
  hs_buf_free(&b);
}

int main(void) {
#define T(f) cmocka_unit_test_teardown(f, teardown)
  const struct CMUnitTest tests[] = {T(sum_of_product),
                                     T(relu_squared),
                                     T(mean_of_relu_squared),
                                     T(polynomial),
                                     T(sine_plus_exp),
                                     T(softmax_rows),
                                     T(layer_norm),
                                     T(few_rows_stay_apart),
                                     T(columns_stay_apart),
                                     T(exponential_not_recomputed),
                                     T(shared_expensive_producer),
                                     T(shared_square),
                                     T(shared_cheap_producer),
                                     T(shared_slice),
                                     T(sibling_reductions),
                                     T(kept_producer_joins_consumer),
                                     T(one_producer_three_consumers),
                                     T(variance_from_two_sums),
                                     T(dots_stay_apart),
                                     T(numbers_at_many_indices),
                                     T(sums_that_share_their_terms),
                                     T(greedy_rules),
                                     T(greedy_leaves_shared_bodies)};
  return cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
