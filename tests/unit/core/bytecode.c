// bytecode.c — MLIR bytecode: portable artifacts give the modules of their texts, and whatever is
// cut off or changed in them gives an error or a module, each byte in its turn.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/mlir/mlir.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "tests/harness/driver.h"

#define DIR "tests/data/bytecode/"

// The module, printed without what only one of the two forms knows.
static void print(const char *path, hs_buf *out) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  if (hs_ok(s)) s = hlo_verify(m, NULL);
  hs_status_render(s, out, false);
  if (hs_ok(s)) {
    hlo_print_options o = hlo_print_canonical();
    o.print_large_constants = true;
    hlo_print_module(out, m, &o);
  }
  hs_status_drop(s);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

static void same(const char *a, const char *b) {
  hs_buf one = {0}, two = {0};
  print(a, &one);
  print(b, &two);
  assert_non_null(strstr(hs_buf_cstr(&one), "HloModule"));
  assert_string_equal(hs_buf_cstr(&one), hs_buf_cstr(&two));
  hs_buf_free(&one);
  hs_buf_free(&two);
}

static void test_equals_its_text(void **state) {
  (void)state;
  static const char *const names[] = {"mlp", "loop", "cond", "const", "gather", "conv", "key"};
  for (size_t k = 0; k < HS_COUNT(names); k++) {
    char *a = hs_format(DIR "%s.mlirbc", names[k]), *b = hs_format(DIR "%s.mlir", names[k]);
    same(a, b);
    hs_free(a);
    hs_free(b);
  }
}

static void test_exported_by_jax(void **state) {
  (void)state;
  same(DIR "mlp.exported", DIR "mlp.mlirbc");
}

// A composite in chlo's name is the operation.
static void test_composites_of_chlo(void **state) {
  (void)state;
  hs_buf text = {0};
  print(DIR "erf.mlirbc", &text);
  assert_non_null(strstr(hs_buf_cstr(&text), " erf("));
  hs_buf_free(&text);
}

static hs_status read_bytes(char *p, size_t n) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hs_status s = hlo_mlir_read(ctx, p, n, NULL, &m);
  if (hs_ok(s)) {
    hs_buf text = {0};
    hlo_print_options o = hlo_print_full();
    hlo_print_module(&text, m, &o);
    hs_buf_free(&text);
  } else {
    assert_null(m);
  }
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return s;
}

// In memory of exactly that size, so that a read behind it is found.
static void test_cut_anywhere(void **state) {
  (void)state;
  size_t n;
  char *all = drv_read(DIR "loop.mlirbc", &n);
  assert_non_null(all);
  for (size_t k = 4; k < n; k++) {
    char *part = hs_calloc(1, k);
    memcpy(part, all, k);
    hs_status s = read_bytes(part, k);
    assert_false(hs_ok(s));
    hs_status_drop(s);
    hs_free(part);
  }
  hs_free(all);
}

static void test_changed_anywhere(void **state) {
  (void)state;
  static const unsigned char to[] = {0, 1, 0x7F, 0x80, 0xFF};
  size_t n;
  char *all = drv_read(DIR "cond.mlirbc", &n);
  assert_non_null(all);
  for (size_t k = 4; k < n; k++)
    for (size_t j = 0; j < HS_COUNT(to); j++) {
      char was = all[k];
      all[k] = (char)to[j];
      hs_status_drop(read_bytes(all, n));
      all[k] = was;
    }
  hs_free(all);
}

static void says(const char *bytes, size_t n, const char *want) {
  char *copy = hs_calloc(1, n);
  memcpy(copy, bytes, n);
  hs_status s = read_bytes(copy, n);
  assert_false(hs_ok(s));
  assert_string_equal(hs_code_text(s.err->code), hs_code_text(HS_E_BYTECODE));
  assert_non_null(strstr(s.err->message, want));
  hs_status_drop(s);
  hs_free(copy);
}

static void test_names_what_it_does_not_know(void **state) {
  (void)state;
  static const char future[] = "ML\xEFR\x0F"
                               "X";
  says(future, sizeof future, "version 7");
  size_t n;
  char *all = drv_read(DIR "mlp.mlirbc", &n), *at;
  assert_non_null(all);
  at = memmem(all, n, "tanh_v", 6);
  assert_non_null(at);
  at[6] = '9';
  says(all, n, "vhlo.tanh_v9");
  hs_free(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equals_its_text),    cmocka_unit_test(test_exported_by_jax),
      cmocka_unit_test(test_composites_of_chlo), cmocka_unit_test(test_cut_anywhere),
      cmocka_unit_test(test_changed_anywhere),   cmocka_unit_test(test_names_what_it_does_not_know),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
