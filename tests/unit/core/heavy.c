// heavy.c — which fusions are several kernels: those that read their own values at more and more
// places, and not those of many steps that read them in place, or at the same few places.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/analysis/cost.h"
#include "tests/unit/modules.h"

// A fusion of `steps` steps, each of which has %u for the value before it, and ends in v%u.
static bool is_heavy(u32 steps, const char *step) {
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nbody { v0 = f32[64] parameter(0)\n");
  for (u32 k = 0; k < steps; k++) hs_buf_printf(&b, step, k, k, k, k, k, k, k, k, k, k + 1, k, k);
  hs_buf_printf(&b,
                "ROOT out = f32[64] negate(v%u) }\nENTRY e { x = f32[64] parameter(0)\n"
                "ROOT r = f32[64] fusion(x), kind=kLoop, calls=body }\n",
                steps);
  hlo_module *m = parse(hs_buf_cstr(&b));
  hs_buf_free(&b);
  hs_arena a = {0};
  bool heavy = hlo_heavy_bodies(m, &a)[hlo_fusion_comp(m->entry->root)->id];
  hs_arena_free(&a);
  hlo_module_free(m);
  return heavy;
}

#define ROLLED                                                                     \
  "a%u = f32[1] slice(v%u), slice={[63:64]}\n"                                     \
  "b%u = f32[63] slice(v%u), slice={[0:63]}\n"                                     \
  "w%u = f32[64] concatenate(a%u, b%u), dimensions={0}\nd%u = f32[64] sine(w%u)\n" \
  "v%u = f32[64] add(d%u, v%u)\n"
#define MIRRORED                                                          \
  "a%u = f32[64] reverse(v%u), dimensions={0}\nb%u = f32[64] sine(v%u)\n" \
  "w%u = f32[64] add(a%u, b%u)\nd%u = f32[64] sine(w%u)\nv%u = f32[64] add(d%u, a%u)\n"
#define IN_PLACE                                         \
  "a%u = f32[64] negate(v%u)\nb%u = f32[64] sine(v%u)\n" \
  "w%u = f32[64] add(a%u, b%u)\nd%u = f32[64] sine(w%u)\nv%u = f32[64] add(d%u, a%u)\n"

static void reads_at_many_places(void **state) {
  (void)state;
  assert_false(is_heavy(3, ROLLED));
  assert_true(is_heavy(9, ROLLED));
  assert_true(is_heavy(64, ROLLED));
  assert_false(is_heavy(64, MIRRORED));  // at two places each
  assert_false(is_heavy(64, IN_PLACE));
  assert_false(is_heavy(1000, IN_PLACE));  // long, not asked often
}

// The same in fusions of a fusion: each doubles what the one before it has.
static void fusions_in_fusions(void **state) {
  (void)state;
  hlo_module *m =
      parse("HloModule m\nroll { x = f32[64] parameter(0) a = f32[1] slice(x), slice={[63:64]}\n"
            "b = f32[63] slice(x), slice={[0:63]} c = f32[64] concatenate(a, b), dimensions={0}\n"
            "ROOT v = f32[64] add(c, x) }\n"
            "four { x = f32[64] parameter(0) a = f32[64] fusion(x), kind=kLoop, calls=roll\n"
            "b = f32[64] fusion(a), kind=kLoop, calls=roll c = f32[64] fusion(b), kind=kLoop, "
            "calls=roll\nROOT d = f32[64] fusion(c), kind=kLoop, calls=roll }\n"
            "many { x = f32[64] parameter(0) a = f32[64] fusion(x), kind=kLoop, calls=four\n"
            "ROOT b = f32[64] fusion(a), kind=kLoop, calls=four }\n"
            "ENTRY e { x = f32[64] parameter(0) a = f32[64] fusion(x), kind=kLoop, calls=four\n"
            "ROOT r = f32[64] fusion(a), kind=kLoop, calls=many }\n");
  hs_arena a = {0};
  const bool *heavy = hlo_heavy_bodies(m, &a);
  assert_false(heavy[hlo_fusion_comp(hlo_operand(m->entry->root, 0))->id]);
  assert_true(heavy[hlo_fusion_comp(m->entry->root)->id]);
  hs_arena_free(&a);
  hlo_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_at_many_places),
      cmocka_unit_test(fusions_in_fusions),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
