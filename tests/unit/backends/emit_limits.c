// emit_limits.c — work and memory of the code generator stay bounded: shared nodes and index
// expressions are visited once, kernels that grow too large are refused in time, no load leaves
// its operand, and code generation that fails half-way gives its memory back.
#if HAVE_LLVM
#include <sys/mman.h>
#include <unistd.h>

#include "backends/emit/unit.h"
#include "tests/unit/backends/kernels.h"

// Thirty squarings, each of the one before, are 2^30 paths through 30 nodes.
static void shared_nodes_are_visited_once(void **state) {
  (void)state;
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                  " ROOT r = f32[] add(a, b) }\n"
                  "f { x0 = f32[16,16]{0,1} parameter(0)\n");
  for (int k = 1; k <= 30; k++)
    hs_buf_printf(&b, " x%d = f32[16,16]{0,1} multiply(x%d, x%d)\n", k, k - 1, k - 1);
  hs_buf_puts(&b, " z = f32[] constant(0)\n"
                  " ROOT r = f32[] reduce(x30, z), dimensions={0,1}, to_apply=add }\n"
                  "ENTRY e { x = f32[16,16]{0,1} parameter(0)\n"
                  " ROOT r = f32[] fusion(x), kind=kInput, calls=f }\n");
  u64 t0 = hs_now_ns();
  hlo_module *m = parsed(hs_buf_cstr(&b));
  const emit_kernel *k = NULL;
  assert_true(hs_ok(emit_add(unit, m->entry->root, &k)));
  assert_true(hs_ok(emit_finish(unit, true, 1, NULL)));
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hlo_module_free(m);
  hs_buf_free(&b);
}

// A chain of reshapes and transposes that do not cancel: the index expressions double at each step
// unless they are shared. Right, and compiled in time.
static void index_expressions_are_shared(void **state) {
  (void)state;
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nf { x0 = f32[77] parameter(0)\n");
  for (int k = 0; k < 40; k++)
    hs_buf_printf(&b,
                  " a%d = f32[7,11] reshape(x%d)\n b%d = f32[11,7] transpose(a%d), "
                  "dimensions={1,0}\n c%d = f32[77] reshape(b%d)\n x%d = f32[77] negate(c%d)\n",
                  k, k, k, k, k, k, k + 1, k);
  hs_buf_puts(&b, " ROOT r = f32[77] negate(x40) }\nENTRY e { x = f32[77] parameter(0)\n"
                  " ROOT r = f32[77] fusion(x), kind=kLoop, calls=f }\n");
  u64 t0 = hs_now_ns();
  add_case(hs_buf_cstr(&b), 0, false);
  run_cases();
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hs_buf_free(&b);
}

// Concatenations of concatenations double the elements asked for: refused by name, in time.
static void large_kernels_are_refused(void **state) {
  (void)state;
  hs_buf b = {0}, why = {0};
  hs_buf_puts(&b, "HloModule m\nf { x0 = f32[64] parameter(0)\n");
  for (int k = 0; k < 40; k++)
    hs_buf_printf(&b,
                  " p%d = f32[32] slice(x%d), slice={[16:48]}\n"
                  " x%d = f32[64] concatenate(p%d, p%d), dimensions={0}\n",
                  k, k, k + 1, k, k);
  hs_buf_puts(&b, " ROOT r = f32[64] negate(x40) }\nENTRY e { x = f32[64] parameter(0)\n"
                  " ROOT r = f32[64] fusion(x), kind=kLoop, calls=f }\n");
  hlo_module *m = parsed(hs_buf_cstr(&b));
  u64 t0 = hs_now_ns();
  assert_false(emit_supports(m->entry->root, &why));
  assert_non_null(strstr(hs_buf_cstr(&why), "too large"));
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hlo_module_free(m);
  hs_buf_free(&b);
  hs_buf_free(&why);
}

// Every s-th element, in vectors of every width: nothing behind the last element is read. The
// operand ends where its page does, and the next page cannot be read.
static void strided_loads_stay_inside(void **state) {
  (void)state;
  enum { N = 4 };
  static const struct {
    const char *type;
    size_t bytes;
  } types[] = {{"f64", 8}, {"f32", 4}, {"u8", 1}};
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
  for (u32 width = 16; width <= emit_vector_bytes(); width *= 2)
    for (size_t t = 0; t < HS_COUNT(types); t++)
      for (u32 step = 2; step <= 4; step++)
        for (u32 n = N; n <= 64; n *= 2) {
          u32 last = step * (n - 1);
          char *text = hs_format("HloModule m\nENTRY e { x = %s[%u] parameter(0)\n"
                                 " ROOT r = %s[%u] slice(x), slice={[0:%u:%u]} }\n",
                                 types[t].type, last + 1, types[t].type, n, last + 1, step);
          hlo_module *m = parsed(text);
          emit_unit *u = NULL;
          const emit_kernel *k = NULL;
          assert_true(hs_ok(emit_unit_new(&(emit_options){.vector_bytes = width}, &u)));
          assert_true(hs_ok(emit_add(u, m->entry->root, &k)));
          assert_true(hs_ok(emit_finish(u, true, 1, NULL)));
          size_t bytes = (last + 1) * types[t].bytes;
          u8 *x = (u8 *)p + page - bytes, *r = aligned(NULL, n * types[t].bytes);
          for (size_t i = 0; i < bytes; i++) x[i] = (u8)(i * 37 + 11);
          void *bufs[2] = {x, r};
          for (i64 c = 0; c < k->chunks; c++) k->fn(bufs, c, NULL);
          for (u32 i = 0; i < n; i++)
            assert_memory_equal(r + i * types[t].bytes, x + i * step * types[t].bytes,
                                types[t].bytes);
          free(r);
          emit_unit_free(u);
          hlo_module_free(m);
          hs_free(text);
        }
  munmap(p, 2 * page);
}

// Code generation that stops inside of loops gives its memory back (LeakSanitizer looks).
static void failing_kernels_leak_nothing(void **state) {
  (void)state;
  hlo_module *m = parsed("HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                         " ROOT r = f32[] add(a, b) }\n"
                         "f { x = f32[64,64] parameter(0)\n y = f32[64,64] exponential(x)\n"
                         " z = f32[] constant(0)\n"
                         " ROOT r = f32[64] reduce(y, z), dimensions={0}, to_apply=add }\n"
                         "ENTRY e { x = f32[64,64] parameter(0)\n"
                         " ROOT r = f32[64] fusion(x), kind=kInput, calls=f }\n");
  emit_jit *jit = NULL;
  emit_body b = {.name = "k"}, *bodies[] = {&b};
  emit_options o = {.vector_bytes = emit_vector_bytes()};
  assert_true(hs_ok(nest_lower(&b.arena, m->entry->root, &b.n)));
  nest_simplify(b.n);
  nest_schedule(b.n, &(nest_machine){.vector_bytes = o.vector_bytes});
  for (size_t k = 0; k < b.n->nodes.n; k++)
    if (b.n->nodes.v[k].op == HLO_EXP) b.n->nodes.v[k].op = HLO_CHOLESKY;
  assert_true(hs_ok(emit_jit_new(&o, &jit)));
  hs_status s = emit_jit_compile(jit, &(emit_work){.nbodies = 1, .bodies = bodies}, 1, NULL);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_UNSUPPORTED);
  hs_status_drop(s);
  emit_jit_free(jit);
  nest_free(b.n);
  hs_arena_free(&b.arena);
  hlo_module_free(m);
}

// Whether the first stage of a module's root, or of `name`, stores past the caches.
static bool past_caches(const char *text, const char *name, i64 cache, i64 near) {
  hlo_module *m = parsed(text);
  hlo_instr *i = name ? hlo_find_instr(m, name) : m->entry->root;
  assert_non_null(i);
  nest_machine machine = {64, cache, emit_ends_there(i) ? near : 0, hlo_tuning_none()};
  hs_arena a = {0};
  nest *n = NULL;
  assert_true(hs_ok(nest_lower(&a, i, &n)));
  nest_simplify(n);
  nest_schedule(n, &machine);
  bool stream = n->stages.v[0].stream;
  nest_free(n);
  hs_arena_free(&a);
  hlo_module_free(m);
  return stream;
}

// Stores go past the caches where these do not hold what a kernel reads and writes: the last one,
// or, of what the program gives back and never reads, those that are near.
static void results_go_past_caches(void **state) {
  (void)state;
  static const char sum[] = "HloModule m\nENTRY e { x = f32[1000] parameter(0)\n"
                            " y = f32[1000] parameter(1)\n ROOT r = f32[1000] add(x, y) }\n";
  assert_true(past_caches(sum, NULL, 11999, 0));
  assert_false(past_caches(sum, NULL, 12000, 0));
  assert_true(past_caches(sum, NULL, 100000, 5999));
  assert_false(past_caches(sum, NULL, 100000, 6000));
  // what is read at random is less than what is there; what is only written need not be fetched
  assert_false(past_caches("HloModule m\nENTRY e { x = f32[9000,10] parameter(0)\n"
                           " i = s32[10,1] parameter(1)\n"
                           " ROOT r = f32[10,10] gather(x, i), offset_dims={1},"
                           " collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,"
                           " slice_sizes={1,10} }\n",
                           NULL, 1000000, 5999));
  assert_false(past_caches("HloModule m\nENTRY e { x = u8[5000] parameter(0)\n"
                           " ROOT r = f32[5000] convert(x) }\n",
                           NULL, 100000, 5999));
  static const char *const read_again[] = {
      "HloModule m\nENTRY e { x = f32[50,60] parameter(0)\n i = f32[50,60] abs(x)\n"
      " ROOT r = f32[60,50] transpose(i), dimensions={1,0} }\n",
      "HloModule m\nENTRY e { x = f32[50,60] parameter(0)\n n = f32[50,60] negate(x)\n"
      " i = f32[50,60] abs(n)\n ROOT r = (f32[50,60]) tuple(i) }\n",
      "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
      "ENTRY e { x = f32[50,60] parameter(0)\n ROOT i = f32[50,60] abs(x) }\n",
      "HloModule m\nf { x = f32[50,60] parameter(0)\n ROOT i = f32[50,60] abs(x) }\n"
      "ENTRY e { x = f32[50,60] parameter(0)\n ROOT c = f32[50,60] call(x), to_apply=f }\n",
  };
  for (size_t k = 0; k < HS_COUNT(read_again); k++)
    assert_false(past_caches(read_again[k], "i", 100000, 5999));
  assert_true(past_caches("HloModule m\nENTRY e { x = f32[50,60] parameter(0)\n"
                          " i = f32[50,60] abs(x)\n ROOT r = (f32[50,60]) tuple(i) }\n",
                          "i", 100000, 5999));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(shared_nodes_are_visited_once), TEST(index_expressions_are_shared),
      TEST(large_kernels_are_refused),     TEST(strided_loads_stay_inside),
      TEST(failing_kernels_leak_nothing),  TEST(results_go_past_caches),
  };
  return cmocka_run_group_tests_name("emit_limits", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
