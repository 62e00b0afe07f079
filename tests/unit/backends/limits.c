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

// ---- nesting ------------------------------------------------------------------------------------
// n computations, each of which runs the one before.
typedef enum nest { CALLS, LOOPS, BRANCHES, FUSIONS } nest;
static hlo_module *nested(u32 n, nest how) {
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nt { x = f32[4] parameter(0) ROOT r = pred[] constant(false) }\n"
                  "g0 { p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }\n");
  static const char *const step[] = {
      "ROOT r = f32[4] call(p), to_apply=g%u", "ROOT r = f32[4] while(p), condition=t, body=g%u",
      ("c = pred[] constant(true) ROOT r = f32[4] conditional(c, p, p), true_computation=g%u, "
       "false_computation=g0"),
      "ROOT r = f32[4] fusion(p), kind=kLoop, calls=g%u"};
  for (u32 k = 1; k <= n; k++) {
    if (k < n) hs_buf_printf(&b, "g%u { p = f32[4] parameter(0) ", k);
    else hs_buf_puts(&b, "ENTRY e { p = f32[4] parameter(0) ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    hs_buf_printf(&b, step[how], k - 1);
#pragma GCC diagnostic pop
    hs_buf_puts(&b, " }\n");
  }
  hlo_module *m = parse(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return m;
}

static hs_status run_nested(const backend *b, u32 n, nest how) {
  hlo_module *m = nested(n, how);
  hlo_literal **args = NULL, *out = NULL;
  u32 nargs = 0;
  expect_good(hlo_inputs_formula(ctx, m, NULL, 0, &args, &nargs), "arguments");
  const backend_options o = {.threads = 1};
  hs_status s = backend_run_once(b, m, &o, nargs, args, &out);
  hlo_literal_unref(out);
  hlo_inputs_free(args, nargs);
  hlo_module_free(m);
  return s;
}

// The limit is named, by the shell or by the worker; below it programs run.
static void nesting_is_bounded(void **state) {
  (void)state;
  const backend *cpu = backend_find("cpu"), *interp = backend_find("interp");
  hs_status s = cpu->probe();
  bool usable = hs_ok(s);
  hs_status_drop(s);
  static const char *const limit[] = {"more than 2000 deep", "more than 2000 deep",
                                      "more than 2000 deep", "more than 2500 deep"};
  for (nest how = CALLS; how <= FUSIONS; how++) {
    if (how != LOOPS) {  // they make no step, and so never nest
      s = run_nested(interp, 50000, how);
      assert_false(hs_ok(s));
      assert_int_equal(s.err->code, HS_E_LIMIT);
      assert_non_null(strstr(s.err->message, "more than 512 deep"));
      assert_true(!s.err->note || strlen(s.err->note) < 4000);
      hs_status_drop(s);
    }
    if (usable) {
      s = run_nested(cpu, 50000, how);
      assert_false(hs_ok(s));
      if (!strstr(s.err->message, limit[how])) fail_msg("%u: %s", how, s.err->message);
      hs_status_drop(s);
    }
    if (usable) expect_good(run_nested(cpu, how == FUSIONS ? 800 : 1900, how), "nested");
  }
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(block_sizes_saturate),
      cmocka_unit_test(cpu_refuses),
      cmocka_unit_test(nesting_is_bounded),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
