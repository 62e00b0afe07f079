// The heap: what is counted, the limit, the reserve, texts that cannot grow; the one writer of
// files where there is no room for them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/types/literal.h"
#include "tests/unit/modules.h"

static hs_interrupt stop;

static void clear(void) {
  stop = HS_STOP_NONE;
  hs_memory_limit(0);
  hs_memory_ready((size_t)64 << 20);
}

static void what_is_held_is_counted(void **state) {
  (void)state;
  clear();
  size_t before = hs_memory_used();
  void *p = hs_try_alloc(1 << 20), *q = hs_calloc(10, 100);
  assert_non_null(p);
  assert_true(hs_memory_used() >= before + (1 << 20) + 1000);
  p = hs_try_realloc(p, 2 << 20);
  assert_non_null(p);
  assert_true(hs_memory_used() >= before + (2 << 20));
  hs_free(p);
  hs_free(q);
  assert_int_equal(hs_memory_used(), before);
  hs_arena a = {0};
  for (int k = 0; k < 100; k++) (void)hs_arena_alloc(&a, 100000);
  assert_true(hs_memory_used() >= before + 10000000);
  hs_arena_free(&a);
  assert_int_equal(hs_memory_used(), before);
}

// Sizes that were chosen are refused; what follows from what is there is served, and work stops.
static void the_limit_refuses(void **state) {
  (void)state;
  clear();
  size_t before = hs_memory_used();
  hs_memory_limit(before + (20 << 20));
  assert_null(hs_try_alloc(30 << 20));
  assert_int_equal(stop, HS_STOP_NONE);
  hs_status s = hs_fail(HS_E_NO_MEMORY, "no memory for an array");
  char want[160];
  snprintf(want, sizeof want, "%zu bytes were asked for, %zu are in use, the limit is %zu; set",
           (size_t)30 << 20, before, before + (20 << 20));
  if (!strstr(s.err->note, want)) fail_msg("%s", s.err->note);
  hs_status_drop(s);
  const hlo_shape *shape = NULL;
  hs_status parsed = hlo_parse_shape(ctx, "f32[8000000]", 12, &shape);
  assert_true(hs_ok(parsed));
  hlo_literal *l = NULL;
  s = hlo_literal_new(shape, &l);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_NO_MEMORY);
  hs_status_drop(s);
  void *p = hs_alloc(10 << 20), *q = hs_alloc(11 << 20);
  assert_int_equal(stop, HS_STOP_MEMORY);
  s = hs_poll();
  assert_int_equal(s.err->code, HS_E_NO_MEMORY);
  hs_status_drop(s);
  hs_free(p);
  hs_free(q);
  clear();
}

// A session above its limit can still do a little: close a module, say.
static void above_the_limit_there_is_room(void **state) {
  (void)state;
  clear();
  void *p = hs_try_alloc(20 << 20);
  hs_memory_limit(1 << 20);
  hs_memory_ready(0);
  void *q = hs_try_alloc(1 << 20);
  assert_non_null(q);
  assert_int_equal(stop, HS_STOP_NONE);
  assert_null(hs_try_alloc(20 << 20));
  hs_free(p);
  hs_free(q);
  clear();
}

// It ends where it could not grow, and whoever would write it finds out.
static void a_text_is_cut(void **state) {
  (void)state;
  clear();
  hs_memory_limit(hs_memory_used() + (12 << 20));
  hs_buf b = {0};
  for (int k = 0; k < 1 << 20; k++) hs_buf_puts(&b, "0123456789abcdef0123456789abcdef");
  assert_int_equal(stop, HS_STOP_MEMORY);
  assert_true(b.n > 1 << 20 && b.n < 12 << 20);
  assert_memory_equal(b.p, "0123456789abcdef", 16);
  assert_int_equal(strlen(hs_buf_cstr(&b)), b.n);
  hs_buf_printf(&b, "%0*d", 10 << 20, 7);
  char path[] = "/tmp/hlosh-memory-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, "old", 3) == 3 && close(fd) == 0);
  hs_status s = hs_write_file(path, b.p, b.n, false);
  assert_int_equal(s.err->code, HS_E_NO_MEMORY);
  hs_status_drop(s);
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_size, 3);
  unlink(path);
  hs_buf_free(&b);
  clear();
}

// Nobody writes half a file: not to a full device, and what is appended comes off again.
static void a_full_disk_keeps_the_old_file(void **state) {
  (void)state;
  clear();
  hs_status s = hs_write_file("/dev/full", "text", 4, false);
  assert_int_equal(s.err->code, HS_E_IO);
  assert_non_null(strstr(s.err->message, "/dev/full: No space left on device"));
  hs_status_drop(s);
  s = hs_write_file("/dev/full", "text", 4, true);
  assert_int_equal(s.err->code, HS_E_IO);
  hs_status_drop(s);
  s = hs_write_file("/nowhere/at/all", "text", 4, false);
  assert_int_equal(s.err->code, HS_E_IO);
  hs_status_drop(s);
}

static void the_machine_has_memory(void **state) {
  (void)state;
  size_t all = hs_memory_machine(), now = hs_memory_free();
  assert_true(all > (size_t)64 << 20);
  assert_true(now > 0 && now < (size_t)1 << 60);
}

// Much that comes out of little is refused, unless the limit was set by hand; it then differs from
// the default, even if it is the same number.
static void much_from_little_is_refused(void **state) {
  (void)state;
  clear();
  size_t normal = hs_load_limit_default(), mb = (size_t)1 << 20;
  const struct {
    size_t limit, packed, unpacked;
    hs_code code;
  } cases[] = {
      {normal, 1000, 64 * mb, HS_OK},    {normal, 65000, 64 * mb + 1, HS_E_LIMIT},
      {normal, mb, 65 * mb, HS_OK},      {normal, mb, 300 * mb, HS_E_LIMIT},
      {normal, 4 * mb, 300 * mb, HS_OK}, {normal + 1, 1000, normal, HS_OK},
      {100 * mb, 1000, 99 * mb, HS_OK},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_status s = hs_check_unpacking("it", cases[k].limit, cases[k].packed, cases[k].unpacked);
    assert_int_equal(hs_ok(s) ? HS_OK : s.err->code, cases[k].code);
    hs_status_drop(s);
  }
  assert_true(hlo_ctx_load_limit(ctx) == normal);
  hlo_ctx_set_load_limit(ctx, normal);
  assert_true(hlo_ctx_load_limit(ctx) == normal + 1);
  hlo_ctx_set_load_limit(ctx, 0);
}

int main(void) {
  hs_interrupt_watch(&stop);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_held_is_counted),        cmocka_unit_test(the_limit_refuses),
      cmocka_unit_test(above_the_limit_there_is_room),  cmocka_unit_test(a_text_is_cut),
      cmocka_unit_test(a_full_disk_keeps_the_old_file), cmocka_unit_test(the_machine_has_memory),
      cmocka_unit_test(much_from_little_is_refused),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
