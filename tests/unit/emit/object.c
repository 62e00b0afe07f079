// object.c — object code that is placed without LLVM: it runs, and a damaged one is refused.
#if HAVE_LLVM
#include "backends/emit/object.h"
#include "backends/emit/unit.h"
#include "tests/unit/backends/kernels.h"

// Object code of one kernel, which calls helpers and has constants.
static emit_code kept(const char *text, float *result, u32 n) {
  hlo_module *m = parsed(text);
  emit_unit *u;
  const emit_kernel *k;
  emit_code code = {.wanted = true};
  assert_true(hs_ok(emit_unit_new(NULL, &u)));
  assert_true(hs_ok(emit_add(u, m->entry->root, &k)));
  emit_reuse(u, &code);
  assert_true(hs_ok(emit_finish(u, true, 1, NULL)));
  assert_true(k->fn_bytes > 0);
  float *x = NULL, *y = NULL;
  assert_int_equal(posix_memalign((void **)&x, 64, n * sizeof *x), 0);
  assert_int_equal(posix_memalign((void **)&y, 64, n * sizeof *y), 0);
  for (u32 j = 0; j < n; j++) x[j] = (float)j / 8;
  void *bufs[] = {x, y};
  for (i64 c = 0; c < k->chunks; c++) k->fn(bufs, c, NULL);
  memcpy(result, y, n * sizeof *y);
  free(x);
  free(y);
  emit_unit_free(u);
  hlo_module_free(m);
  return code;
}

static const char *const tangent = "HloModule m\n"
                                   "ENTRY e { x = f32[16] parameter(0)\n"
                                   " ROOT r = f32[16] tan(x) }\n";

static void functions_run(void **state) {
  (void)state;
  float r[16];
  emit_code code = kept(tangent, r, 16);
  for (int k = 0; k < 16; k++)
    assert_true(fabs((double)r[k] - tan(k / 8.0)) <= 1e-5 * fabs(tan(k / 8.0)));
  hs_buf_free(&code.made);
}

#if defined(__x86_64__)  // elsewhere it is LLVM's linker, which ends the process
static u64 somewhere(void *arg, const char *name) {
  (void)name;
  return (u64)(uintptr_t)arg;
}

// Cut at every length and with every byte changed it is refused, or placed; nothing is read or
// written outside (AddressSanitizer looks).
static void damage_is_refused(void **state) {
  (void)state;
  float r[16];
  emit_code code = kept(tangent, r, 16);
  const char *elf = memmem(code.made.p, code.made.n, "\177ELF", 4);
  assert_non_null(elf);
  size_t n = code.made.n - (size_t)(elf - code.made.p);
  emit_object *o;
  assert_true(hs_ok(emit_object_load(elf, n, somewhere, r, &o)));
  assert_null(emit_object_find(o, "nothing"));
  emit_object_free(o);
  for (size_t cut = 0; cut < n; cut++) {
    char *p = hs_alloc(cut + 1);
    memcpy(p, elf, cut);
    hs_status s = emit_object_load(p, cut, somewhere, r, &o);
    assert_true(!hs_ok(s) || o);
    if (hs_ok(s)) emit_object_free(o);
    hs_status_drop(s);
    hs_free(p);
  }
  char *p = hs_alloc(n);
  static const u8 changes[] = {0xff, 0x80, 0x01};
  for (size_t at = 0; at < n; at++)
    for (size_t c = 0; c < HS_COUNT(changes); c++) {
      memcpy(p, elf, n);
      p[at] = (char)(p[at] ^ changes[c]);
      hs_status s = emit_object_load(p, n, somewhere, r, &o);
      if (hs_ok(s)) emit_object_free(o);
      hs_status_drop(s);
    }
  hs_free(p);
  hs_buf_free(&code.made);
}

// What nobody has is named.
static u64 nowhere(void *arg, const char *name) {
  (void)arg, (void)name;
  return 0;
}

static void missing_names_are_told(void **state) {
  (void)state;
  float r[16];
  emit_code code = kept("HloModule m\n"
                        "f { x = f32[16] parameter(0)\n"
                        " c = f32[16] constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,17})\n"
                        " ROOT r = f32[16] add(x, c) }\n"
                        "ENTRY e { x = f32[16] parameter(0)\n"
                        " ROOT r = f32[16] fusion(x), kind=kLoop, calls=f }\n",
                        r, 16);
  assert_true(r[0] == 1 && r[15] == 17 + 15.0f / 8);
  const char *elf = memmem(code.made.p, code.made.n, "\177ELF", 4);
  assert_non_null(elf);
  emit_object *o;
  hs_status s = emit_object_load(elf, code.made.n - (size_t)(elf - code.made.p), nowhere, NULL, &o);
  assert_false(hs_ok(s));
  assert_null(o);
  assert_non_null(strstr(s.err->message, "wants k0_"));
  hs_status_drop(s);
  hs_buf_free(&code.made);
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(functions_run),
#if defined(__x86_64__)
    TEST(damage_is_refused),
    TEST(missing_names_are_told),
#endif
  };
  return cmocka_run_group_tests_name("object", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
