// resize.c — resizing a dimension: every rule of resize.def, in both directions where it has two,
// and what must be refused by name. Each module that is resized is verified.
#include "passes/buffer/resize.h"
#include "core/eval/eval.h"
#include "core/verify/verify.h"
#include "passes/buffer/resize_windows.h"
#include "tests/unit/modules.h"

// Resizes parameter 0, dimension `dim`, to `size` and returns the text.
static char *resized(const char *text, u32 dim, i64 size) {
  hlo_module *m = parse(text);
  resize_report r;
  expect_good(resize_module(m, 0, 0, dim, size, true, &r), text);
  resize_report_free(&r);
  expect_good(hlo_verify(m, NULL), text);
  hs_buf b = {0};
  const hlo_print_options o = hlo_print_default();
  hlo_print_module(&b, m, &o);
  char *out = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  hlo_module_free(m);
  return out;
}

static void becomes(const char *text, u32 dim, i64 size, const char *const *parts) {
  char *got = resized(text, dim, size);
  for (; *parts; parts++)
    if (!strstr(got, *parts)) fail_msg("no %s in\n%s", *parts, got);
  hs_free(got);
}
#define BECOMES(text, dim, size, ...) \
  becomes(text, dim, size, (const char *const[]){__VA_ARGS__, NULL})
#define ENTRY(body) "HloModule m\nENTRY e {\n" body "\n}\n"
#define ADD "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"

static void refuses(const char *text, u32 dim, i64 size, bool follow, hs_code code,
                    const char *part) {
  hlo_module *m = parse(text);
  resize_report r;
  hs_status s = resize_module(m, 0, 0, dim, size, follow, &r);
  resize_report_free(&r);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, code);
  if (!strstr(s.err->message, part)) fail_msg("no %s in: %s", part, s.err->message);
  hs_status_drop(s);
  hlo_abort(m);
  expect_good(hlo_verify(m, NULL), "after rolling back");
  hlo_module_free(m);
}

// A rolled array is rolled as far as before; what is put together of halves has its halves.
static void rolls(void **st) {
  (void)st;
  BECOMES(ENTRY("x = f32[32] parameter(0)\n a = f32[30] slice(x), slice={[2:32]}\n b = f32[2] "
                "slice(x), slice={[0:2]}\n ROOT r = f32[32] concatenate(a, b), dimensions={0}"),
          0, 64, "slice={[2:64]}", "slice={[0:2]}", "ROOT %r = f32[64]");
  BECOMES(ENTRY("x = f32[48] parameter(0)\n a = f32[3] slice(x), slice={[45:48]}\n b = f32[45] "
                "slice(x), slice={[0:45]}\n ROOT r = f32[48] concatenate(a, b), dimensions={0}"),
          0, 96, "slice={[93:96]}", "slice={[0:93]}", "ROOT %r = f32[96]");
  BECOMES(ENTRY("x = f32[32] parameter(0)\n a = f32[16] slice(x), slice={[16:32]}\n b = f32[16] "
                "slice(x), slice={[0:16]}\n ROOT r = f32[32] concatenate(a, b), dimensions={0}"),
          0, 64, "slice={[32:64]}", "slice={[0:32]}", "ROOT %r = f32[64]");
}

// What a device has is a part of the whole, and the whole a multiple of it.
static void shards(void **st) {
  (void)st;
  const char *text =
      ENTRY("x = f32[32] parameter(0)\n c = f32[4] custom-call(x), "
            "custom_call_target=\"xla.sdy.GlobalToLocalShape\"\n ROOT r = f32[4] negate(c)");
  BECOMES(text, 0, 64, "f32[8]{0} custom-call", "ROOT %r = f32[8]");
  refuses(text, 0, 68, true, HS_E_SHAPE, "8 devices do not divide 68 evenly");
}

// What halves its operand until one element is left would do so more often for another size.
static void recursions(void **st) {
  (void)st;
  const char *sums =
      ENTRY("x = f32[8] parameter(0)\n a = f32[4] slice(x), slice={[0:8:2]}\n b = f32[4] slice(x), "
            "slice={[1:8:2]}\n c = f32[4] add(a, b)\n d = f32[2] slice(c), slice={[0:4:2]}\n e = "
            "f32[2] slice(c), slice={[1:4:2]}\n f = f32[2] add(d, e)\n g = f32[1] slice(f), "
            "slice={[0:1]}\n h = f32[1] slice(f), slice={[1:2]}\n ROOT r = f32[1] add(g, h)");
  refuses(sums, 0, 16, true, HS_E_UNSUPPORTED, "with steps of 2 it ends where 2 of 4 are left");
  // one step is no recursion
  BECOMES(ENTRY("x = f32[4] parameter(0)\n a = f32[2] slice(x), slice={[0:4:2]}\n b = f32[2] "
                "slice(x), slice={[1:4:2]}\n ROOT r = f32[2] add(a, b)"),
          0, 8, "slice={[0:8:2]}", "ROOT %r = f32[4]");
}

// Backwards, too: the broadcast and the other parameter get their size from the addition.
static void elementwise(void **st) {
  (void)st;
  BECOMES(ENTRY("x = f32[8,3] parameter(0)\n z = f32[] constant(0)\n b = f32[8,3] broadcast(z), "
                "dimensions={}\n y = f32[8,3] parameter(1)\n m = f32[8,3] maximum(x, b)\n ROOT r = "
                "f32[8,3] add(m, y)"),
          0, 20, "f32[20,3]{1,0} parameter(0)", "f32[20,3]{1,0} parameter(1)",
          "f32[20,3]{1,0} broadcast", "ROOT %r = f32[20,3]");
  BECOMES(ENTRY("x = f32[8,3] parameter(0)\n c = f32[8,3] constant({{1,2,3},{1,2,3},{1,2,3},{1,2,"
                "3},{1,2,3},{1,2,3},{1,2,3},{1,2,3}})\n ROOT r = f32[8,3] add(x, c)"),
          0, 9, "f32[9,3]{1,0} constant", "ROOT %r = f32[9,3]");
  BECOMES(
      ENTRY("x = s32[4] parameter(0)\n c = s32[4] constant({5,7,9,11})\n ROOT r = s32[4] add(x, "
            "c)"),
      0, 6, "constant({5, 7, 9, 11, 13, 15})");
}

static void moving(void **st) {
  (void)st;
  BECOMES(ENTRY("x = f32[8,3,4] parameter(0)\n r = f32[24,4] reshape(x)\n s = f32[8,12] "
                "reshape(r)\n t = f32[12,8] transpose(s), dimensions={1,0}\n ROOT c = f32[12,16] "
                "concatenate(t, t), dimensions={1}"),
          0, 16, "f32[48,4]{1,0} reshape", "f32[16,12]{1,0} reshape", "f32[12,16]{1,0} transpose",
          "f32[12,32]{1,0} concatenate");
  // a split goes to the part of the old size, also when it is not the first
  BECOMES(ENTRY("x = f32[4,8] parameter(0)\n r = f32[32] reshape(x)\n ROOT s = f32[4,8] "
                "reshape(r)"),
          1, 16, "f32[64]{0} reshape", "ROOT %s = f32[4,16]");
  // whole, even part, up to the end, without the last, the first
  BECOMES(ENTRY("x = f32[8] parameter(0)\n a = f32[8] slice(x), slice={[0:8]}\n b = f32[4] "
                "slice(x), slice={[4:8]}\n c = f32[7] slice(x), slice={[1:8]}\n d = f32[7] "
                "slice(x), slice={[0:7]}\n f = f32[1] slice(x), slice={[0:1]}\n ROOT t = (f32[8], "
                "f32[4], f32[7], f32[7], f32[1]) tuple(a, b, c, d, f)"),
          0, 16, "slice={[0:16]}", "slice={[8:16]}", "slice={[1:16]}", "slice={[0:15]}",
          "slice={[0:1]}");
  BECOMES(ENTRY("x = f32[8] parameter(0)\n z = f32[] constant(0)\n a = f32[10] pad(x, z), "
                "padding=1_1\n b = f32[24] pad(x, z), padding=8_8\n ROOT t = (f32[10], f32[24]) "
                "tuple(a, b)"),
          0, 16, "f32[18]{0} pad", "padding=1_1", "f32[48]{0} pad", "padding=16_16");
  BECOMES(ENTRY("x = f32[8,5] parameter(0)\n i = s32[] parameter(1)\n z = s32[] constant(0)\n d = "
                "f32[8,1] dynamic-slice(x, z, i), dynamic_slice_sizes={8,1}\n ROOT u = f32[8,5] "
                "dynamic-update-slice(x, d, z, i)"),
          0, 9, "dynamic_slice_sizes={9,1}", "ROOT %u = f32[9,5]");
  BECOMES(ENTRY("x = f32[8,5] parameter(0)\n i = s32[8,5] iota(), iota_dimension=0\n c = f32[8,5] "
                "convert(i)\n v = f32[8,5] reverse(x), dimensions={0}\n ROOT r = f32[8,5] add(v, "
                "c)"),
          0, 9, "s32[9,5]{1,0} iota", "ROOT %r = f32[9,5]");
}

static void gathering(void **st) {
  (void)st;
  BECOMES(ENTRY("i = s32[8,1] parameter(0)\n x = f32[50,6] parameter(1)\n g = f32[8,6] gather(x, "
                "i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                "index_vector_dim=1, slice_sizes={1,6}\n ROOT n = f32[8,6] negate(g)"),
          0, 16, "f32[50,6]{1,0} parameter(1)", "f32[16,6]{1,0} gather", "slice_sizes={1,6}");
  BECOMES("HloModule m\n" ADD "ENTRY e {\n u = f32[8,6] parameter(0)\n i = s32[8,1] parameter(1)\n"
          " x = f32[50,6] parameter(2)\n ROOT s = f32[50,6] scatter(x, i, u), "
          "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
          "index_vector_dim=1, to_apply=add }\n",
          0, 16, "s32[16,1]{1,0} parameter(1)", "f32[50,6]{1,0} parameter(2)");
  BECOMES("HloModule m\n" ADD "ENTRY e {\n u = f32[8,6] parameter(0)\n i = s32[8,1] parameter(1)\n"
          " x = f32[50,6] parameter(2)\n ROOT s = f32[50,6] scatter(x, i, u), "
          "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
          "index_vector_dim=1, to_apply=add }\n",
          1, 7, "f32[8,7]{1,0} parameter(0)", "ROOT %s = f32[50,7]");
}

static void contracting(void **st) {
  (void)st;
  BECOMES(ENTRY("x = f32[2,8,5] parameter(0)\n w = f32[2,5,7] parameter(1)\n ROOT d = f32[2,8,7] "
                "dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                "rhs_contracting_dims={1}"),
          1, 9, "ROOT %d = f32[2,9,7]", "f32[2,5,7]{2,1,0} parameter(1)");
  BECOMES(ENTRY("x = f32[2,8,5] parameter(0)\n w = f32[2,5,7] parameter(1)\n ROOT d = f32[2,8,7] "
                "dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                "rhs_contracting_dims={1}"),
          2, 9, "ROOT %d = f32[2,8,7]", "f32[2,9,7]{2,1,0} parameter(1)");
  BECOMES(
      "HloModule m\n" ADD "ENTRY e {\n x = f32[8,5] parameter(0)\n z = f32[] constant(0)\n s = "
      "f32[8] reduce(x, z), dimensions={1}, to_apply=add\n ROOT c = f32[8] reduce-window(s, z), "
      "window={size=8 pad=7_0}, to_apply=add }\n",
      0, 16, "f32[16]{0} reduce(", "window={size=16 pad=15_0}");
  BECOMES(ENTRY("x = f32[8,10,10,3] parameter(0)\n k = f32[3,3,3,4] parameter(1)\n ROOT c = "
                "f32[8,8,8,4] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f"),
          0, 2, "ROOT %c = f32[2,8,8,4]");
  BECOMES(ENTRY("x = f32[8,10,10,3] parameter(0)\n k = f32[3,3,3,4] parameter(1)\n ROOT c = "
                "f32[8,8,8,4] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f"),
          1, 12, "ROOT %c = f32[8,10,8,4]");
  BECOMES(ENTRY("x = f32[4,8] parameter(0)\n f = c64[4,5] fft(x), fft_type=RFFT, fft_length={8}\n "
                "ROOT i = f32[4,8] fft(f), fft_type=IRFFT, fft_length={8}"),
          1, 16, "c64[4,9]{1,0} fft", "fft_length={16}", "ROOT %i = f32[4,16]");
  BECOMES(ENTRY("a = f32[2,4,4] parameter(0)\n b = f32[2,4,3] parameter(1)\n c = f32[2,4,4] "
                "cholesky(a), lower=true\n ROOT t = f32[2,4,3] triangular-solve(c, b), "
                "left_side=true, lower=true"),
          1, 6, "f32[2,6,6]{2,1,0} cholesky", "ROOT %t = f32[2,6,3]");
}

static const char loop[] =
    "HloModule m\n"
    "cond { s = (s32[], f32[8,3]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " n = s32[] constant(7)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[8,3]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " x = f32[8,3] get-tuple-element(s), index=1\n o = s32[] constant(1)\n j = s32[] add(i, o)\n"
    " y = f32[8,3] negate(x)\n ROOT t = (s32[], f32[8,3]) tuple(j, y) }\n"
    "yes { a = f32[8,3] parameter(0)\n ROOT b = f32[8,3] negate(a) }\n"
    "no { a = f32[8,3] parameter(0)\n ROOT b = f32[8,3] copy(a) }\n"
    "ENTRY e { x = f32[8,3] parameter(0)\n z = s32[] constant(0)\n"
    " t = (s32[], f32[8,3]) tuple(z, x)\n w = (s32[], f32[8,3]) while(t), condition=cond, "
    "body=body\n r = f32[8,3] get-tuple-element(w), index=1\n p = pred[] constant(true)\n"
    " ROOT q = f32[8,3] conditional(p, r, r), true_computation=yes, false_computation=no }\n";

static void called(void **st) {
  (void)st;
  BECOMES(loop, 0, 9, "%y = f32[9,3]", "%w = (s32[], f32[9,3]", "%b.1 = f32[9,3]",
          "ROOT %q = f32[9,3]");
}

// Started and done: a copy, a collective, a computation of its own.
static void asynchronous(void **st) {
  (void)st;
  BECOMES(
      ENTRY("x = f32[8,3] parameter(0)\n s = (f32[8,3], f32[8,3], u32[]) copy-start(x)\n ROOT d "
            "= f32[8,3] copy-done(s)"),
      0, 9, "(f32[9,3]{1,0}, f32[9,3]{1,0}, u32[]) copy-start", "ROOT %d = f32[9,3]");
  BECOMES("HloModule m, replica_count=2\nENTRY e {\n x = f32[8,3] parameter(0)\n s = (f32[8,3], "
          "f32[16,3]) all-gather-start(x), dimensions={0}, replica_groups={{0,1}}\n ROOT d = "
          "f32[16,3] all-gather-done(s) }\n",
          0, 9, "(f32[9,3]{1,0}, f32[18,3]{1,0}) all-gather-start", "ROOT %d = f32[18,3]");
  BECOMES("HloModule m\nc { a = f32[8] parameter(0)\n ROOT n = f32[8] negate(a) }\nENTRY e {\n x = "
          "f32[8] parameter(0)\n s = ((f32[8]), f32[8], u32[]) async-start(x), calls=c\n ROOT d = "
          "f32[8] async-done(s) }\n",
          0, 9, "((f32[9]{0}), f32[9]{0}, u32[]) negate-start", "ROOT %d = f32[9]");
}

static void refused(void **st) {
  (void)st;
  static const char two[] =
      ENTRY("x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n ROOT r = f32[8] add(x, y)");
  refuses(two, 0, 9, false, HS_E_SHAPE, "y.0 8 -> 9");
  refuses(two, 1, 9, true, HS_E_SHAPE, "x has no dimension 1");
  refuses(two, 0, 0, true, HS_E_SHAPE, "a size is from 1");
  refuses(
      ENTRY("x = f32[8] parameter(0)\n c = f32[8] constant({1,5,2,7,3,1,1,1})\n ROOT r = f32[8] "
            "add(x, c)"),
      0, 9, true, HS_E_UNSUPPORTED, "c (constant) cannot follow");
  refuses(ENTRY("x = f32[8] parameter(0)\n ROOT c = f32[8] custom-call(x), "
                "custom_call_target=\"mine\""),
          0, 9, true, HS_E_UNSUPPORTED, "c (custom-call) cannot follow");
  refuses(ENTRY("x = f32[8] parameter(0)\n r = f32[2,4] reshape(x)\n ROOT n = f32[2,4] negate(r)"),
          0, 9, true, HS_E_UNSUPPORTED, "r (reshape) cannot follow");
  refuses(
      ENTRY("x = f32[8] parameter(0)\n t = token[] after-all()\n s = (f32[8], u32[], token[]) "
            "send(x, t), channel_id=1\n d = token[] send-done(s), channel_id=1\n ROOT n = f32[8] "
            "negate(x)"),
      0, 9, true, HS_E_UNSUPPORTED, "s (send) cannot follow");
}

// The same size again is no edit, and what is edited can be undone.
static void edits(void **st) {
  (void)st;
  hlo_module *m = parse(loop);
  u64 before = hlo_text_hash(m);
  resize_report r;
  expect_good(resize_module(m, 0, 0, 0, 8, false, &r), "the same size");
  resize_report_free(&r);
  assert_null(hlo_commit(m));
  expect_good(resize_module(m, 0, 0, 0, 800, false, &r), "another size");
  assert_int_equal(r.followers.n, 0);
  resize_report_free(&r);
  hlo_delta *d = hlo_commit(m);
  assert_non_null(d);
  hlo_delta_undo(m, d);
  assert_true(hlo_text_hash(m) == before);
  hlo_delta_free(m, d);
  hlo_module_free(m);
}

// Row sums over a scan, counted up in one loop and down in a second that calls a computation for
// each row: the loops' bounds, and what else they go over, follow.
static const char scan[] =
    "HloModule m\n"
    "row { a = f32[4,3] parameter(0)\n i = s32[] parameter(1)\n z = s32[] constant(0)\n"
    " d = f32[1,3] dynamic-slice(a, i, z), dynamic_slice_sizes={1,3}\n"
    " ROOT r = f32[3] reshape(d) }\n"
    "up.cond { s = (s32[], f32[4,3], f32[4,3], f32[3]) parameter(0)\n"
    " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(4)\n"
    " ROOT c = pred[] compare(i, n), direction=LT }\n"
    "up.body { s = (s32[], f32[4,3], f32[4,3], f32[3]) parameter(0)\n"
    " i = s32[] get-tuple-element(s), index=0\n x = f32[4,3] get-tuple-element(s), index=1\n"
    " y = f32[4,3] get-tuple-element(s), index=2\n t = f32[3] get-tuple-element(s), index=3\n"
    " o = s32[] constant(1)\n j = s32[] add(i, o)\n n = s32[] constant(4)\n"
    " k = s32[] subtract(n, i)\n l = s32[] subtract(k, o)\n"
    " a = f32[3] call(x, i), to_apply=row\n b = f32[3] call(y, l), to_apply=row\n"
    " p = f32[3] multiply(a, b)\n u = f32[3] add(t, p)\n"
    " ROOT q = (s32[], f32[4,3], f32[4,3], f32[3]) tuple(j, x, y, u) }\n"
    "ENTRY e { x = f32[4,3] parameter(0)\n y = f32[4,3] parameter(1)\n z = s32[] constant(0)\n"
    " f = f32[] constant(0)\n t = f32[3] broadcast(f), dimensions={}\n"
    " i = (s32[], f32[4,3], f32[4,3], f32[3]) tuple(z, x, y, t)\n"
    " w = (s32[], f32[4,3], f32[4,3], f32[3]) while(i), condition=up.cond, body=up.body, "
    "backend_config={\"known_trip_count\":{\"n\":\"4\"}}\n"
    " ROOT r = f32[3] get-tuple-element(w), index=3 }\n";

static hlo_literal *evaluate(const char *text, i64 size, resize_report *r) {
  hlo_module *m = parse(text);
  hlo_literal **args, *out = NULL;
  u32 n;
  expect_good(resize_module(m, 0, 0, 0, size, true, r), "resize");
  expect_good(hlo_verify(m, NULL), "verify");
  expect_good(hlo_inputs_random(ctx, m, 1, &args, &n), "inputs");
  // row k of every argument with as many rows is k % 4 of the same numbers
  for (u32 k = 0; k < n; k++)
    for (i64 at = 0; args[k]->shape->rank == 2 && args[k]->shape->dims[0] == size &&
                     at < args[k]->shape->elements;
         at++)
      hlo_literal_set_f64(args[k], at, (double)((at % 12 + 3) * (k + 1) % 7));
  expect_good(hlo_eval_module(m, n, args, NULL, &out), "evaluate");
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  return out;
}

static void scanned(void **st) {
  (void)st;
  BECOMES(scan, 0, 8, "f32[8,3]{1,0} parameter(1)", "%n = s32[] constant(8)",
          "%n.1 = s32[] constant(8)", "dynamic_slice_sizes={1,3}",
          "\"known_trip_count\":{\"n\":\"8\"}");
  resize_report r;
  hlo_literal *once = evaluate(scan, 4, &r);
  resize_report_free(&r);
  hlo_literal *twice = evaluate(scan, 8, &r);  // the same rows twice
  assert_int_equal(r.followers.n, 1);
  assert_int_equal(r.constants.n, 2);
  resize_report_free(&r);
  for (i64 k = 0; k < 3; k++)
    assert_true(hlo_literal_f64(twice, k) == 2 * hlo_literal_f64(once, k));
  assert_true(hlo_literal_f64(once, 0) != 0);
  hlo_literal_unref(once);
  hlo_literal_unref(twice);
}

// A batch of rows that do not know each other: a softmax over a dense layer, through a reshape and
// a transpose. The same rows twice give the same results twice.
static void batched(void **st) {
  (void)st;
  static const char text[] =
      "HloModule m\n" ADD
      "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"
      "ENTRY e { x = f32[4,3] parameter(0)\n w = f32[3,6] parameter(1)\n d = f32[4,6] dot(x, w), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n h = f32[4,2,3] reshape(d)\n t = "
      "f32[2,4,3] transpose(h), dimensions={1,0,2}\n n = f32[] constant(-inf)\n z = f32[] "
      "constant(0)\n m = f32[2,4] reduce(t, n), dimensions={2}, to_apply=max\n b = f32[2,4,3] "
      "broadcast(m), dimensions={0,1}\n s = f32[2,4,3] subtract(t, b)\n e = f32[2,4,3] "
      "exponential(s)\n q = f32[2,4] reduce(e, z), dimensions={2}, to_apply=add\n c = f32[2,4,3] "
      "broadcast(q), dimensions={0,1}\n v = f32[2,4,3] divide(e, c)\n u = f32[4,2,3] "
      "transpose(v), dimensions={1,0,2}\n ROOT o = f32[4,6] reshape(u) }\n";
  resize_report r;
  hlo_literal *once = evaluate(text, 4, &r);
  resize_report_free(&r);
  hlo_literal *twice = evaluate(text, 8, &r);
  assert_int_equal(r.followers.n, 0);
  resize_report_free(&r);
  assert_int_equal(twice->shape->elements, 48);
  for (i64 k = 0; k < 48; k++)
    assert_true(hlo_literal_f64(twice, k) == hlo_literal_f64(once, k % 24));
  hlo_literal_unref(once);
  hlo_literal_unref(twice);
}

static void arithmetic(void **st) {
  (void)st;
  hlo_slice_dim s;
  assert_true(resize_plan_slice((hlo_slice_dim){7, 8, 1}, 8, 16, 0, &s));  // x[-1:]
  assert_int_equal(s.start, 15);
  assert_true(resize_plan_slice((hlo_slice_dim){0, 8, 2}, 8, 16, 0, &s));
  assert_int_equal(resize_slice_size(s), 8);
  assert_true(resize_plan_slice((hlo_slice_dim){2, 4, 1}, 8, 8, 5, &s));  // a given size
  assert_int_equal(resize_slice_size(s), 5);
  assert_false(resize_plan_slice((hlo_slice_dim){0, 8, 1}, 8, 8, 9, &s));
  hlo_window_dim w = {
      .size = 3, .stride = 2, .pad_low = 1, .pad_high = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  assert_int_equal(resize_windows(w, 8), 4);
  i64 in = resize_under(w, 8, 4, 8, false);
  assert_int_equal(resize_windows(w, in), 8);
  assert_int_equal(resize_unpadded((hlo_pad_dim){1, 1, 1}, 4, 9, 17), 8);
  assert_int_equal(resize_unpadded((hlo_pad_dim){1, 1, 1}, 4, 9, 18), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise), cmocka_unit_test(rolls),     cmocka_unit_test(shards),
      cmocka_unit_test(recursions),  cmocka_unit_test(moving),    cmocka_unit_test(gathering),
      cmocka_unit_test(contracting), cmocka_unit_test(called),    cmocka_unit_test(asynchronous),
      cmocka_unit_test(refused),     cmocka_unit_test(edits),     cmocka_unit_test(scanned),
      cmocka_unit_test(batched),     cmocka_unit_test(arithmetic)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
