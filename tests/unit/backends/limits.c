// Modules whose arrays do not fit any address space: the sums of their sizes do not wrap, and a
// backend refuses them with a message instead of asking for a small or negative amount of memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "backends/block.h"
#include "core/text/text.h"
#include "tests/unit/modules.h"

#define HUGE "u8[4611686018427387904]"  // 2^62 bytes: four of them are 0 in 64 bits
#define LARGE "u8[70368744177664]"      // 2^46 bytes: two fit the limit of 2^47, three do not

static const char *const four_huge =
    "HloModule m\nENTRY e { a = " HUGE " parameter(0) b = " HUGE " parameter(1) c = " HUGE
    " parameter(2) d = " HUGE " parameter(3) ROOT r = (" HUGE ", " HUGE ", " HUGE ", " HUGE
    ") tuple(a, b, c, d) }";
static const char *const four_large =
    "HloModule m\nENTRY e { a = " LARGE " parameter(0) b = " LARGE " parameter(1) c = " LARGE
    " parameter(2) d = " LARGE " parameter(3) ROOT r = u8[] constant(1) }";

static void block_sizes_saturate(void **state) {
  (void)state;
  hlo_module *m = parse(four_huge);
  const hlo_shape *s = m->entry->root->shape;
  assert_true(block_leaf_bytes(s->elems[0]) == BLOCK_TOO_LARGE);
  assert_true(block_bytes(s) == BLOCK_TOO_LARGE);
  block *b = NULL;
  hs_status st = block_new(block_bytes(s), &b);
  assert_false(hs_ok(st));
  assert_int_equal(st.err->code, HS_E_NO_MEMORY);
  assert_null(b);
  hs_status_drop(st);
  hlo_module_free(m);
}

// No argument literals of these sizes can be made; the program is refused before it needs any.
static void refused(const backend *b, const char *text, const char *message) {
  hlo_module *m = parse(text);
  backend_exe *e = NULL;
  hs_status st = b->compile(m, NULL, &e);
  assert_false(hs_ok(st));
  assert_int_equal(st.err->code, HS_E_NO_MEMORY);
  if (!strstr(st.err->message, message)) fail_msg("%s", st.err->message);
  assert_null(e);
  hs_status_drop(st);
  hlo_module_free(m);
}

static void cpu_refuses(void **state) {
  (void)state;
  const backend *cpu = backend_find("cpu");
  hs_status s = cpu->probe();
  if (!hs_ok(s)) {
    print_message("SKIP cpu: %s\n", s.err->message);
    hs_status_drop(s);
    skip();
  }
  refused(cpu, four_huge, "4611686018427387904 bytes is more than a process can hold");
  refused(cpu, four_large, "the arguments need 211106232532992 bytes");
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(block_sizes_saturate),
      cmocka_unit_test(cpu_refuses),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
