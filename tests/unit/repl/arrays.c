// arrays.c — files of arrays: what NumPy, ml_dtypes and safetensors write (tests/data, by
// arrays.py), the same files cut off and falsified byte by byte, and round trips of our own.
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/types/ctx.h"
#include "core/text/text.h"
#include "repl/formats/arrays.h"
#include "repl/formats/json.h"
#include "repl/shell/out.h"
#include "tests/unit/skip.h"

#define LIMIT ((size_t)1 << 30)

static hlo_ctx *ctx;

static const hlo_shape *shape(const char *text) {
  const hlo_shape *s;
  if (!hs_ok(hlo_parse_shape(ctx, text, strlen(text), &s))) fail_msg("bad shape %s", text);
  return s;
}

static hs_status read_from(const char *file, const char *name, const char *want, array_options o,
                           hlo_literal **out) {
  arrays *a;
  u32 k = 0;
  *out = NULL;
  HS_TRY(arrays_open(file, LIMIT, &a));
  hs_status s = name && !arrays_find(a, name, &k) ? hs_fail(HS_E_INPUT, "no array %s", name)
                                                  : arrays_read(a, k, shape(want), o, out);
  arrays_close(a);
  return s;
}

// The elements of the array as HLO text.
static void expect(const char *file, const char *name, const char *want, array_options o,
                   const char *text) {
  hlo_literal *l;
  char path[256];
  snprintf(path, sizeof path, "tests/data/%s", file);
  hs_status s = read_from(path, name, want, o, &l);
  if (!hs_ok(s)) fail_msg("%s: %s", file, s.err->message);
  hs_buf b = {0};
  hlo_print_literal(&b, l);
  if (strcmp(hs_buf_cstr(&b), text) != 0)
    fail_msg("%s %s: %s, expected %s", file, name ? name : "", hs_buf_cstr(&b), text);
  hs_buf_free(&b);
  hlo_literal_unref(l);
}

static void refuse(const char *file, const char *name, const char *want, array_options o,
                   hs_code code, const char *part) {
  hlo_literal *l;
  char path[256];
  snprintf(path, sizeof path, "tests/data/%s", file);
  hs_status s = read_from(path, name, want, o, &l);
  if (hs_ok(s)) fail_msg("%s as %s was taken", file, want);
  if (s.err->code != code || !strstr(s.err->message, part))
    fail_msg("%s: %s %s, expected %s", file, hs_code_text(s.err->code), s.err->message, part);
  hs_status_drop(s);
}

static const array_options plain;

static void numpy_files(void **state) {
  (void)state;
  const char *x = "{ { 0, 0.25, 0.5 }, { 0.75, 1, 1.25 } }";
  expect("x.npy", NULL, "f32[2,3]", plain, x);
  expect("x_fortran.npy", NULL, "f32[2,3]", plain, x);
  expect("x_big_endian.npy", NULL, "f32[2,3]", plain, x);
  expect("bf16.npy", NULL, "bf16[3]", plain, "{1.5, -2.25, 3}");
  expect("bf16_bits.npy", NULL, "bf16[3]", (array_options){.as = HLO_BF16}, "{1.5, -2.25, 3}");
  expect("f8.npy", NULL, "f8e4m3fn[4]", plain, "{0.5, -1, 448, nan}");
  expect("f8.npy", NULL, "f32[4]", (array_options){.as = HLO_F8E4M3FN, .cast = true},
         "{0.5, -1, 448, nan}");
  expect("s4.npy", NULL, "s4[4]", plain, "{-8, 7, -1, 0}");
  expect("bool.npy", NULL, "pred[3]", plain, "{1, 0, 1}");
  expect("empty.npy", NULL, "f32[0,3]", plain, "{  }");
  expect("scalar.npy", NULL, "f32[]", plain, "2.5");
  expect("complex.npy", NULL, "c64[2]", plain, "{(1, 2), (-0, -3)}");
  expect("x.npy", NULL, "s32[2,3]", (array_options){.cast = true}, "{ { 0, 0, 0 }, { 0, 1, 1 } }");
  expect("stored.npz", "x", "f32[2,3]", plain, x);
  expect("stored.npz", "b", "bf16[3]", plain, "{1.5, -2.25, 3}");
  expect("deflated.npz", "arr_1", "s32[4]", plain, "{0, 1, 2, 3}");
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  refuse("x.npy", NULL, "f32[3,2]", plain, HS_E_INPUT, "its shape [2,3] is not that of f32[3,2]");
  refuse("x.npy", NULL, "f32[6]", plain, HS_E_INPUT, "its shape");
  refuse("x.npy", NULL, "s32[2,3]", plain, HS_E_INPUT, "holds <f4, the parameter is s32");
  refuse("x.npy", NULL, "f64[2,3]", (array_options){.as = HLO_F64}, HS_E_INPUT,
         "elements of 4 bytes");
  refuse("bf16.npy", NULL, "f16[3]", plain, HS_E_INPUT, "raw elements (<V2)");
  refuse("bf16_bits.npy", NULL, "bf16[3]", plain, HS_E_INPUT, "holds <u2");
  refuse("stored.npz", "nothing", "f32[2,3]", plain, HS_E_INPUT, "no array nothing");
  refuse("objects.npz", "o", "f32[2]", plain, HS_E_INPUT, "Python objects");
  refuse("none.npy", NULL, "f32[2]", plain, HS_E_IO, "none.npy");
  refuse("arrays.py", NULL, "f32[2]", plain, HS_E_FORMAT, "is no .npy, .npz or .safetensors file");
}

static void safetensors_of_every_type(void **state) {
  (void)state;
  if (!repl_json_built()) SKIP_TEST("built without cJSON");
  const char *f = "all.safetensors";
  expect(f, "x", "f32[2,3]", plain, "{ { 0, 0.25, 0.5 }, { 0.75, 1, 1.25 } }");
  expect(f, "b", "bf16[3]", plain, "{1.5, -2.25, 3}");
  expect(f, "half", "f16[2]", plain, "{1.5, -2}");
  expect(f, "double", "f64[1]", plain, "{0.1}");
  expect(f, "q", "f8e4m3fn[4]", plain, "{0.5, -1, 448, nan}");
  expect(f, "p", "f8e5m2[2]", plain, "{1.5, -2}");
  expect(f, "e", "f8e8m0fnu[2]", plain, "{1, 8}");
  expect(f, "f4", "f4e2m1fn[4]", plain, "{0.5, 1, 6, -6}");
  expect(f, "f6", "f6e3m2fn[4]", plain, "{1, 1.5, -1, 0}");
  expect(f, "flag", "pred[2]", plain, "{1, 0}");
  expect(f, "i64", "s64[1]", plain, "{-5}");
  expect(f, "u8", "u8[3]", plain, "{1, 2, 255}");
  expect(f, "c", "c64[1]", plain, "{(1, 2)}");
  expect(f, "none", "f32[0,4]", plain, "{  }");
}

// ---- damage -------------------------------------------------------------------------------------
static char scratch[] = "/tmp/hlosh-arrays.XXXXXX";

static hs_code try_bytes(const char *p, size_t n, const char *name, const char *want) {
  hs_status w = hs_write_file(scratch, p, n, false);
  assert_true(hs_ok(w));
  hlo_literal *l = NULL;
  hs_status s = read_from(scratch, name, want, plain, &l);
  hs_code code = hs_ok(s) ? HS_OK : s.err->code;
  hs_status_drop(s);
  hlo_literal_unref(l);
  return code;
}

// Every length and every byte flipped: an error or a value, never a crash; a cut file is always an
// error.
static void cut_and_falsified_files(void **state) {
  (void)state;
  static const struct {
    const char *file, *name, *want;
  } cases[] = {{"tests/data/x.npy", NULL, "f32[2,3]"},
               {"tests/data/stored.npz", "x", "f32[2,3]"},
               {"tests/data/deflated.npz", "arr_1", "s32[4]"},
               {"tests/data/all.safetensors", "x", "f32[2,3]"}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    if (strstr(cases[k].file, "safetensors") && !repl_json_built()) continue;
    hs_buf f = {0};
    assert_true(hs_ok(repl_read_file(cases[k].file, 0, &f)));
    assert_int_equal(try_bytes(f.p, f.n, cases[k].name, cases[k].want), HS_OK);
    for (size_t n = 0; n < f.n; n += 1 + n / 40) {
      hs_code code = try_bytes(f.p, n, cases[k].name, cases[k].want);
      if (code == HS_OK || code == HS_E_INTERNAL)
        fail_msg("%s cut to %zu bytes was taken", cases[k].file, n);
    }
    for (size_t at = 0; at < f.n; at++) {
      static const char masks[] = {1, (char)0x80, (char)0xFF};
      for (size_t q = 0; q < sizeof masks; q++) {
        f.p[at] ^= masks[q];
        assert_int_not_equal(try_bytes(f.p, f.n, cases[k].name, cases[k].want), HS_E_INTERNAL);
        f.p[at] ^= masks[q];
      }
    }
    hs_buf_free(&f);
  }
}

static hs_code npy_with_header(const char *header, const char *want) {
  hs_buf b = {0};
  size_t n = strlen(header);
  hs_buf_put(&b, "\x93NUMPY\x01\x00", 8);
  hs_buf_putc(&b, (char)n), hs_buf_putc(&b, (char)(n >> 8));
  hs_buf_puts(&b, header);
  hs_buf_put(&b, "\0\0\0\0\0\0\200\77", 8);
  hs_code code = try_bytes(b.p, b.n, NULL, want);
  hs_buf_free(&b);
  return code;
}

static void headers_that_lie(void **state) {
  (void)state;
  assert_int_equal(
      npy_with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "f32[2]"),
      HS_OK);
  assert_int_equal(
      npy_with_header("{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2L,)}\n",
                      "f32[2]"),
      HS_OK);
  assert_int_equal(
      npy_with_header("{'descr': 'bfloat16', 'fortran_order': False, 'shape': (4,), }\n",
                      "bf16[4]"),
      HS_OK);
  assert_int_equal(
      npy_with_header("{'descr': 'float8_e5m2', 'fortran_order': False, 'shape': (8,), }\n",
                      "f8e5m2[8]"),
      HS_OK);
  assert_int_equal(
      npy_with_header("{'descr': '<f1', 'fortran_order': False, 'shape': (8,), }\n", "f8e4m3fn[8]"),
      HS_OK);
  assert_int_equal(
      npy_with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", "f32[3]"),
      HS_E_INPUT);
  assert_int_equal(
      npy_with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", "f32[1]"),
      HS_E_INPUT);
  assert_int_equal(
      npy_with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }\n", "f32[2]"),
      HS_E_INPUT);
  assert_int_equal(
      npy_with_header(
          "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }\n",
          "f32[2]"),
      HS_E_LIMIT);
  assert_int_equal(
      npy_with_header(
          "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }\n",
          "f32[2]"),
      HS_E_INPUT);
  assert_int_equal(
      npy_with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }\n",
                      "f32[2]"),
      HS_E_INPUT);
  assert_int_equal(
      npy_with_header("{'descr': '<f99999999999999', 'fortran_order': False, 'shape': (2,), }\n",
                      "f32[2]"),
      HS_E_INPUT);
  assert_int_equal(npy_with_header("{'fortran_order': False, 'shape': (2,), }\n", "f32[2]"),
                   HS_E_INPUT);
  assert_int_equal(npy_with_header("", "f32[2]"), HS_E_INPUT);
}

static void safetensors_that_lie(void **state) {
  (void)state;
  if (!repl_json_built()) SKIP_TEST("built without cJSON");
  static const char *const heads[] = {
      "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}",
      "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
      "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}",
      "{\"x\":{\"dtype\":\"F32\",\"shape\":[1e300],\"data_offsets\":[0,8]}}",
      "{\"x\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,8],\"data_offsets\":[0,8]}}",
      "{\"x\":{\"dtype\":\"Q9\",\"shape\":[2],\"data_offsets\":[0,8]}}",
      "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"y\":{\"dtype\":\"F32\","
      "\"shape\":[1],\"data_offsets\":[4,8]}}",
      "{\"x\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}",
      "{\"x\":[1,2,3]}",
      "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"x\":{\"dtype\":\"F32\","
      "\"shape\":[0],\"data_offsets\":[0,0]}}",
      "{\"x\":",
      "{}"};
  for (size_t k = 0; k < HS_COUNT(heads); k++) {
    hs_buf b = {0};
    u64 n = strlen(heads[k]);
    hs_buf_put(&b, (const char *)&n, 8);
    hs_buf_puts(&b, heads[k]);
    hs_buf_put(&b, "\0\0\0\0\0\0\0\0", 8);
    hs_code code = try_bytes(b.p, b.n, "x", "f32[2]");
    if (code != HS_E_INPUT) fail_msg("%s: %s", heads[k], hs_code_text(code));
    hs_buf_free(&b);
  }
}

// Headers that are valid but too much: nesting, and values by the million.
static void safetensors_without_end(void **state) {
  (void)state;
  if (!repl_json_built()) SKIP_TEST("built without cJSON");
  static const struct {
    const char *part;
    u32 times;
    hs_code code;
  } cases[] = {
      {"[", 2000000, HS_E_INPUT}, {"{\"x\":", 100000, HS_E_INPUT}, {"0,", 4100000, HS_E_LIMIT}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_buf b = {0};
    hs_buf_put(&b, "\0\0\0\0\0\0\0\0{\"x\":[", 14);
    for (u32 j = 0; j < cases[k].times; j++) hs_buf_puts(&b, cases[k].part);
    u64 n = b.n - 8;
    memcpy(b.p, &n, 8);
    assert_int_equal(try_bytes(b.p, b.n, "x", "f32[2]"), cases[k].code);
    hs_buf_free(&b);
  }
}

// What is unpacked counts against the limit, all of an archive's arrays together; what lies in the
// file as it is does not.
static void limits_of_archives(void **state) {
  (void)state;
  static const struct {
    const char *file;
    size_t limit;
    hs_code code;
  } cases[] = {{"tests/data/deflated.npz", 16, HS_E_LIMIT},
               {"tests/data/deflated.npz", 100000, HS_OK},
               {"tests/data/stored.npz", 16, HS_OK},
               {"tests/data/x.npy", 16, HS_OK},
               {"/dev/zero", 100000, HS_E_LIMIT}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    arrays *a = NULL;
    hs_status s = arrays_open(cases[k].file, cases[k].limit, &a);
    for (u32 j = 0; hs_ok(s) && j < arrays_count(a); j++) {
      hlo_literal *l = NULL;
      s = arrays_read(a, j, shape("f32[1]"), plain, &l);  // its shape is another one
      if (!hs_ok(s) && s.err->code == HS_E_INPUT) hs_status_drop(s), s = HS_GOOD;
      hlo_literal_unref(l);
    }
    assert_int_equal(hs_ok(s) ? HS_OK : s.err->code, cases[k].code);
    hs_status_drop(s);
    arrays_close(a);
  }
}

// ---- writing ------------------------------------------------------------------------------------
static void round_trip(const char *ending) {
  char path[64];
  snprintf(path, sizeof path, "%s%s", scratch, ending);
  hlo_literal *part[3], *back;
  const hlo_shape *kinds[3] = {shape("f32[2,2]"), shape("bf16[3]"), shape("f8e5m2[0]")};
  const char *text[3] = {"{{1, -nan}, {inf, -0}}", "{1, 2, 3}", "{}"};
  for (u32 k = 0; k < 3; k++)
    assert_true(hs_ok(hlo_parse_literal(ctx, kinds[k], text[k], strlen(text[k]), &part[k])));
  hlo_literal *tuple = hlo_literal_tuple(hlo_shape_tuple(ctx, 3, kinds), 3, part);
  hs_status s = arrays_write(path, 1, &(array_item){"t", tuple});
  if (!hs_ok(s)) fail_msg("%s", s.err->message);
  for (u32 k = 0; k < 3; k++) {
    char name[8], want[32];
    snprintf(name, sizeof name, "t.%u", k);
    hs_buf b = {0};
    hlo_shape_print(&b, kinds[k], false);
    snprintf(want, sizeof want, "%s", hs_buf_cstr(&b));
    hs_buf_free(&b);
    s = read_from(path, name, want, plain, &back);
    if (!hs_ok(s)) fail_msg("%s", s.err->message);
    assert_true(hlo_literal_equal(tuple->children[k], back));
    hlo_literal_unref(back);
  }
  unlink(path);
  hlo_literal_unref(tuple);
}

static void written_files_read_back(void **state) {
  (void)state;
  round_trip(".npz");
  if (repl_json_built()) round_trip(".safetensors");
}

// A large array lies in the file's mapping, not in a copy, and outlives the open file.
static void large_arrays_are_mapped(void **state) {
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "%s.npy", scratch);
  hlo_literal *l, *back;
  assert_true(hs_ok(hlo_literal_new(shape("f32[512,1024]"), &l)));
  for (i64 k = 0; k < l->shape->elements; k += 1000) hlo_literal_set_f64(l, k, (double)k);
  assert_true(hs_ok(arrays_write(path, 1, &(array_item){"x", l})));
  assert_true(hs_ok(read_from(path, NULL, "f32[512,1024]", plain, &back)));
  assert_non_null(back->unmap);
  assert_true(hlo_literal_equal(l, back));
  hlo_literal_unref(back);
  hlo_literal_unref(l);
  unlink(path);
}

// Sizes near and beyond what 32 bits hold are refused before a byte of them is read: the contents
// here are not there.
static void archives_beyond_4_gib_are_refused(void **state) {
  (void)state;
  static const size_t sizes[][2] = {{0xFFFFFFFF, 0},          {0xFFFFFC00, 0xFFFFFC00},
                                    {0xFFFFFF00, 0x100},      {(size_t)1 << 40, 0},
                                    {0xFFFFFFFF - 64, 0},     {SIZE_MAX, SIZE_MAX},
                                    {0x80000000, 0x7FFFFFFF}, {SIZE_MAX / 2, SIZE_MAX / 2 + 2}};
  static const char *const names[] = {"a.npy", "b.npy"};
  for (size_t k = 0; k < HS_COUNT(sizes); k++) {
    hs_buf out = {0}, contents[2] = {{.n = sizes[k][0]}, {.n = sizes[k][1]}};
    hs_status s = zip_write(&out, 2, names, contents);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_LIMIT);
    assert_non_null(strstr(s.err->message, "zip64"));
    hs_status_drop(s);
    assert_int_equal(out.n, 0);
    hs_buf_free(&out);
  }
  char *longest = hs_alloc(0x10001);
  memset(longest, 'x', 0x10000), longest[0x10000] = 0;
  hs_buf out = {0}, none = {0};
  hs_status s = zip_write(&out, 1, (const char *const[]){longest}, &none);
  assert_true(!hs_ok(s) && s.err->code == HS_E_LIMIT);
  hs_status_drop(s);
  hs_free(longest);
  hs_buf_free(&out);
}

static int open_all(void **state) {
  (void)state;
  ctx = hlo_ctx_new();
  int fd = mkstemp(scratch);
  if (fd >= 0) close(fd);
  return fd < 0;
}
static int close_all(void **state) {
  (void)state;
  hlo_ctx_free(ctx);
  unlink(scratch);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(numpy_files),
                                     cmocka_unit_test(what_does_not_fit_is_refused),
                                     cmocka_unit_test(safetensors_of_every_type),
                                     cmocka_unit_test(cut_and_falsified_files),
                                     cmocka_unit_test(headers_that_lie),
                                     cmocka_unit_test(safetensors_that_lie),
                                     cmocka_unit_test(written_files_read_back),
                                     cmocka_unit_test(large_arrays_are_mapped),
                                     cmocka_unit_test(safetensors_without_end),
                                     cmocka_unit_test(limits_of_archives),
                                     cmocka_unit_test(archives_beyond_4_gib_are_refused)};
  return cmocka_run_group_tests(tests, open_all, close_all);
}
