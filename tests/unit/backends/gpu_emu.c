// gpu_emu.c — the emulated GPU: kernels that are in order (tests/gpu) compute what they should,
// and each kind of fault is found and named.
#include "tests/unit/skip.h"

#include <stdio.h>
#include <stdlib.h>

#if HAVE_LLVM
#include "backends/gpu/emu/emu.h"

// ---- a kernel on some buffers -------------------------------------------------------------------
enum { MOST_PARAMS = 4 };
typedef struct trial {
  const char *name;  // of the file
  u32 blocks, threads, dynamic_bytes, host_threads;
  bool unchecked;
  u32 nbuffers;
  void *buffers[MOST_PARAMS];
  size_t bytes[MOST_PARAMS];
} trial;

// tests/gpu/NAME.ll, as a module.
static hs_status load(const char *name, bool checked, emu_module **out) {
  char path[100];
  snprintf(path, sizeof path, "tests/gpu/%s.ll", name);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  char text[16000];
  size_t n = fread(text, 1, sizeof text, f);
  (void)fclose(f);
  return emu_module_load(text, n, &(emu_load_options){.checked = checked}, out);
}

static hs_status run_trial(const trial *t, emu_fault_kind *fault) {
  emu_module *m = NULL;
  emu_fault_kind ignored;
  HS_TRY(load(t->name, !t->unchecked, &m));
  emu_device *d = emu_device_new();
  void *params[MOST_PARAMS];
  const void *pointers[MOST_PARAMS];
  for (u32 k = 0; k < t->nbuffers; k++) {
    emu_device_add(d, t->buffers[k], t->bytes[k]);
    pointers[k] = t->buffers[k];
    params[k] = &pointers[k];
  }
  const emu_kernel *k = emu_module_kernel(m, "k");
  assert_non_null(k);
  emu_grid g = {.blocks = {HS_MAX(t->blocks, 1), 1, 1},
                .threads = {t->threads, 1, 1},
                .dynamic_bytes = t->dynamic_bytes,
                .host_threads = t->host_threads};
  hs_status s = emu_launch(k, d, &g, params, fault ? fault : &ignored);
  emu_device_free(d);
  emu_module_free(m);
  return s;
}

static void runs(const trial *t) {
  hs_status s = run_trial(t, NULL);
  if (!hs_ok(s)) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
}

static void faults(const trial *t, emu_fault_kind kind, const char *words) {
  emu_fault_kind got = EMU_NO_FAULT;
  hs_status s = run_trial(t, &got);
  assert_false(hs_ok(s));
  if (got != kind || !strstr(s.err->message, words)) print_error("%s\n", s.err->message);
  assert_int_equal(got, kind);
  assert_non_null(strstr(s.err->message, words));
  hs_status_drop(s);
}

// ---- kernels in order ---------------------------------------------------------------------------
static void fill(float *x, u32 n) {
  for (u32 k = 0; k < n; k++) x[k] = (float)(k % 37) - 11;
}

static void elementwise(void **state) {
  (void)state;
  float x[1000], y[1000];
  for (u32 unchecked = 0; unchecked < 2; unchecked++) {
    fill(x, 1000);
    memset(y, 0, sizeof y);
    runs(&(trial){.name = "scale",
                  .blocks = 8,
                  .threads = 128,
                  .nbuffers = 2,
                  .buffers = {x, y},
                  .bytes = {sizeof x, sizeof y},
                  .unchecked = unchecked,
                  .host_threads = unchecked ? 2 : 1});
    for (u32 k = 0; k < 1000; k++) assert_true(y[k] == x[k] * 2 + (float)k);
  }
}

static void three_dimensions(void **state) {
  (void)state;
  u32 seen[2 * 3 * 4 * 5 * 3 * 2] = {0};
  emu_module *m;
  assert_true(hs_ok(load("place", true, &m)));
  const emu_kernel *k = emu_module_kernel(m, "k");
  emu_device *d = emu_device_new();
  emu_device_add(d, seen, sizeof seen);
  void *p = seen, *params[] = {&p};
  emu_grid g = {.blocks = {2, 3, 4}, .threads = {5, 3, 2}};
  assert_true(hs_ok(emu_launch(k, d, &g, params, NULL)));
  for (u32 i = 0; i < HS_COUNT(seen); i++) assert_int_equal(seen[i], i + 1);
  g.threads[0] = 2000;
  hs_status s = emu_launch(k, d, &g, params, NULL);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_USAGE);
  hs_status_drop(s);
  emu_device_free(d);
  emu_module_free(m);
}

// A sum of 256 values: in the warps by shuffles, across them through shared memory.
static void reduction(void **state) {
  (void)state;
  float x[1024], y[4] = {0};
  fill(x, 1024);
  for (u32 unchecked = 0; unchecked < 2; unchecked++)
    for (u32 host_threads = 1; host_threads <= 2; host_threads++) {
      memset(y, 0, sizeof y);
      runs(&(trial){.name = "reduce",
                    .blocks = 4,
                    .threads = 256,
                    .nbuffers = 2,
                    .buffers = {x, y},
                    .bytes = {sizeof x, sizeof y},
                    .unchecked = unchecked,
                    .host_threads = host_threads});
      for (u32 b = 0; b < 4; b++) {
        float want = 0;
        for (u32 k = 0; k < 256; k++) want += x[b * 256 + k];
        assert_true(y[b] == want);
      }
    }
}

static void transpose(void **state) {
  (void)state;
  float x[1024], y[1024] = {0};
  fill(x, 1024);
  runs(&(trial){.name = "transpose",
                .threads = 1024,
                .nbuffers = 2,
                .buffers = {x, y},
                .bytes = {sizeof x, sizeof y}});
  for (u32 k = 0; k < 1024; k++) assert_true(y[k] == x[k % 32 * 32 + k / 32]);
}

static void blocks_in_any_order(void **state) {
  (void)state;
  u32 x[64], y[64] = {0};
  for (u32 k = 0; k < 64; k++) x[k] = 3 * k;
  runs(&(trial){.name = "block_order",
                .threads = 64,
                .nbuffers = 2,
                .buffers = {x, y},
                .bytes = {sizeof x, sizeof y}});
  assert_memory_equal(x, y, sizeof x);
}

static void dynamic_shared_memory(void **state) {
  (void)state;
  u32 y[64];
  trial t = {.name = "dynamic",
             .threads = 64,
             .dynamic_bytes = 256,
             .nbuffers = 1,
             .buffers = {y},
             .bytes = {sizeof y}};
  runs(&t);
  for (u32 k = 0; k < 64; k++) assert_int_equal(y[k], 63 - k);
  t.dynamic_bytes = 252;
  faults(&t, EMU_OUT_OF_BOUNDS,
         "thread (63,0,0) of block (0,0,0) writes 4 bytes of shared memory "
         "at offset 252 of 252");
}

// What shuffles, votes, matches and reductions of a warp give, beside a plain computation.
static void warps(void **state) {
  (void)state;
  u32 y[32][13];
  memset(y, 0xAA, sizeof y);
  runs(&(trial){.name = "warp", .threads = 32, .nbuffers = 1, .buffers = {y}, .bytes = {sizeof y}});
  for (u32 l = 0; l < 32; l++) {
    u32 v = l * 7 + 3;
    (void)v;
    assert_int_equal(y[l][0], (l ^ 5) * 7 + 3);                      // bfly
    assert_int_equal(y[l][1], l + 4 < 32 ? (l + 4) * 7 + 3 : v);     // down
    assert_int_equal(y[l][2], l >= 3 ? (l - 3) * 7 + 3 : v);         // up
    assert_int_equal(y[l][3], 9 * 7 + 3);                            // idx
    assert_int_equal(y[l][4], l % 8 + 2 < 8 ? (l + 2) * 7 + 3 : v);  // down within 8 lanes
    assert_int_equal(y[l][5], l + 4 < 32);                           // its predicate
    assert_int_equal(y[l][6], 0x55555555);                           // ballot: even lanes
    assert_int_equal(y[l][7], 1);                                    // any
    assert_int_equal(y[l][8], 0);                                    // all
    assert_int_equal(y[l][9], 0x11111111u << (l % 4));               // match: l % 4
    assert_int_equal(y[l][10], 31 * 32 / 2 * 7 + 3 * 32);            // redux add
    assert_int_equal(y[l][11], 31 * 7 + 3);                          // redux umax
    assert_int_equal(y[l][12], (1u << l) - 1);                       // lanes below
  }
}

static void atomics(void **state) {
  (void)state;
  u32 y[3] = {0, 0, 0};
  runs(&(trial){.name = "atomic",
                .blocks = 16,
                .threads = 96,
                .nbuffers = 1,
                .buffers = {y},
                .bytes = {sizeof y},
                .host_threads = 2});
  assert_int_equal(y[0], 16 * 96);
  assert_int_equal(y[1], 95);
  assert_int_equal(y[2], 16 * 96);  // through shared memory
}

// Narrow types, which not every processor converts.
static void narrow_types(void **state) {
  (void)state;
  float x[4] = {1, 3.14159274f, -65504, 1e-3f};
  u16 y[8];
  runs(&(trial){.name = "narrow",
                .threads = 4,
                .nbuffers = 2,
                .buffers = {x, y},
                .bytes = {sizeof x, sizeof y}});
  static const u16 want[8] = {0x3F80, 0x3C00, 0x4049, 0x4248, 0xC780, 0xFBFF, 0x3A83, 0x1419};
  assert_memory_equal(y, want, sizeof want);
}

// Variables of the module, functions that are called, a parameter by value.
static void modules(void **state) {
  (void)state;
  emu_module *m;
  assert_true(hs_ok(load("module", true, &m)));
  size_t n;
  u32 *table = emu_module_global(m, "table", &n);
  assert_non_null(table);
  assert_int_equal(n, 16);
  assert_null(emu_module_global(m, "none", &n));
  table[2] = 70;
  const emu_kernel *k = emu_module_kernel(m, "exp2f");
  assert_non_null(k);
  assert_null(emu_module_kernel(m, "helper"));
  assert_int_equal(k->nparams, 3);
  assert_int_equal(k->param_at[2], 12);
  assert_int_equal(k->max_threads, 128);
  u32 y[4];
  emu_device *d = emu_device_new();
  emu_device_add(d, y, sizeof y);
  void *p = y;
  u32 add = 100;
  float power = 3;
  void *params[] = {&p, &add, &power};
  emu_grid g = {.blocks = {1, 1, 1}, .threads = {4, 1, 1}};
  assert_true(hs_ok(emu_launch(k, d, &g, params, NULL)));
  static const u32 want[] = {10 + 100 + 8, 20 + 100 + 8, 70 + 100 + 8, 40 + 100 + 8};
  assert_memory_equal(y, want, sizeof want);
  emu_device_free(d);
  emu_module_free(m);
}

static void arithmetic(void **state) {
  (void)state;
  float x[2] = {1, 3}, y[6];
  runs(&(trial){.name = "arithmetic",
                .threads = 1,
                .nbuffers = 2,
                .buffers = {x, y},
                .bytes = {sizeof x, sizeof y}});
  assert_true(y[0] == 0x1.555554p-2f);  // 1 / 3 towards zero
  assert_true(y[1] == 0x1.555556p-2f);  // up
  assert_true(y[2] == 8);               // 2 to the power of 3
  assert_true(y[3] == -3);              // -2.5 rounded down
  assert_true(y[4] == 0);               // a denormal, flushed
  assert_true(y[5] == 1);               // saturated
}

// ---- faults -------------------------------------------------------------------------------------
static float in[1024], out[1024];
#define BUFFERS .nbuffers = 2, .buffers = {in, out}, .bytes = {sizeof in, sizeof out}

static void out_of_bounds(void **state) {
  (void)state;
  // scale guards 1000 elements
  faults(
      &(trial){.name = "scale",
               .blocks = 8,
               .threads = 128,
               .nbuffers = 2,
               .buffers = {in, out},
               .bytes = {900 * 4, sizeof out}},
      EMU_OUT_OF_BOUNDS,
      "kernel k (multiply.7): thread (4,0,0) of block (7,0,0) reads 4 bytes at offset 3600 of an "
      "allocation of 3600");
  faults(&(trial){.name = "scale",
                  .blocks = 8,
                  .threads = 128,
                  .nbuffers = 2,
                  .buffers = {in, out},
                  .bytes = {sizeof in, 3998}},
         EMU_OUT_OF_BOUNDS,
         "kernel k (add.8): thread (103,0,0) of block (7,0,0) writes 4 bytes at offset 3996 of");
  faults(&(trial){.name = "declared", .threads = 64, BUFFERS}, EMU_OUT_OF_BOUNDS,
         "thread (32,0,0) of block (0,0,0) reads 4 bytes at offset 128 of parameter 0, which has "
         "128");
  // what is declared, but is not there
  faults(&(trial){.name = "declared",
                  .threads = 32,
                  .nbuffers = 2,
                  .buffers = {in, out},
                  .bytes = {64, sizeof out}},
         EMU_OUT_OF_BOUNDS, "thread (16,0,0) of block (0,0,0) reads 4 bytes at offset 64 of an");
  runs(&(trial){.name = "declared", .threads = 32, BUFFERS});
  faults(&(trial){.name = "wild", .threads = 1, BUFFERS}, EMU_OUT_OF_BOUNDS, "at the address 0");
  faults(&(trial){.name = "shared_bounds", .threads = 64, BUFFERS}, EMU_OUT_OF_BOUNDS,
         "thread (32,0,0) of block (0,0,0) writes 4 bytes at offset 128 of first, which has 128");
  faults(&(trial){.name = "copy",
                  .threads = 1,
                  .nbuffers = 2,
                  .buffers = {in, out},
                  .bytes = {sizeof in, 60}},
         EMU_OUT_OF_BOUNDS, "writes 64 bytes at offset 0 of an allocation of 60");
}

// On several host threads it is the first block's fault that is told.
static void first_fault(void **state) {
  (void)state;
  for (u32 k = 0; k < 50; k++)
    faults(&(trial){.name = "write_race", .blocks = 500, .threads = 64, .host_threads = 4, BUFFERS},
           EMU_RACE, "of block (0,0,0)");
}

static void misaligned(void **state) {
  (void)state;
  static float aligned[8] __attribute__((aligned(16)));
  faults(&(trial){.name = "vector",
                  .threads = 1,
                  .nbuffers = 2,
                  .buffers = {aligned + 1, out},
                  .bytes = {16, sizeof out}},
         EMU_MISALIGNED, "reads 16 bytes at an address that is not a multiple of 16");
}

static void divergence(void **state) {
  (void)state;
  faults(&(trial){.name = "divergent", .threads = 64, BUFFERS}, EMU_DIVERGED,
         "thread (0,0,0) of block (0,0,0) waits at barrier 0 for thread (40,0,0), which has ended");
  faults(&(trial){.name = "two_barriers", .threads = 32, BUFFERS}, EMU_DIVERGED,
         "arrives at barrier 0 at another place than thread (15,0,0) of its warp");
  // by whole warps it is in order
  runs(&(trial){.name = "two_barriers_by_warp", .threads = 64, BUFFERS});
  faults(&(trial){.name = "absent_lane", .threads = 20, BUFFERS}, EMU_DIVERGED,
         "mask ffffffff names lanes beyond the 20 of its warp");
  faults(&(trial){.name = "ended_lane", .threads = 32, BUFFERS}, EMU_DIVERGED,
         "whose mask ffffffff names thread (7,0,0), which has ended");
  faults(&(trial){.name = "own_lane", .threads = 32, BUFFERS}, EMU_DIVERGED,
         "mask 0000ffff lacks its lane 16");
  faults(&(trial){.name = "other_lane", .threads = 32, BUFFERS}, EMU_DIVERGED,
         "reads from lane 16, which the mask 0000ffff does not name");
}

static void races(void **state) {
  (void)state;
  faults(
      &(trial){.name = "race", .threads = 64, BUFFERS}, EMU_RACE,
      "thread (33,0,0) of block (0,0,0) reads shared memory at offset 128, which thread (32,0,0) "
      "writes without a barrier between");
  faults(&(trial){.name = "write_race", .threads = 64, BUFFERS}, EMU_RACE,
         "thread (1,0,0) of block (0,0,0) writes shared memory at offset 0, which thread (0,0,0) "
         "writes without a barrier between");
  faults(&(trial){.name = "late_race", .threads = 64, BUFFERS}, EMU_RACE,
         "without a barrier between");
  // within one warp its own barrier is enough, and a shuffle is not
  runs(&(trial){.name = "warp_order", .threads = 32, BUFFERS});
  faults(&(trial){.name = "shuffle_order", .threads = 32, BUFFERS}, EMU_RACE,
         "without a barrier between");
  // and not with two: the other warp has not even written
  faults(&(trial){.name = "warp_order", .threads = 64, BUFFERS}, EMU_UNINITIALIZED,
         "which nobody has written yet");
}

static void uninitialized(void **state) {
  (void)state;
  faults(&(trial){.name = "uninitialized", .blocks = 2, .threads = 32, BUFFERS}, EMU_UNINITIALIZED,
         "thread (31,0,0) of block (0,0,0) reads shared memory at offset 128, which nobody has "
         "written yet");
}

static void traps(void **state) {
  (void)state;
  faults(&(trial){.name = "trap", .threads = 8, BUFFERS}, EMU_TRAPPED,
         "thread (5,0,0) of block (0,0,0) traps");
}

// A fault leaves nothing behind: the same device runs the next kernel.
static void after_a_fault(void **state) {
  (void)state;
  emu_module *m;
  emu_device *d = emu_device_new();
  emu_device_add(d, in, sizeof in);
  emu_device_add(d, out, sizeof out);
  void *a = in, *b = out, *params[] = {&a, &b};
  static const char *const names[] = {"divergent", "transpose", "race", "transpose"};
  for (u32 k = 0; k < HS_COUNT(names); k++) {
    assert_true(hs_ok(load(names[k], true, &m)));
    emu_grid g = {.blocks = {1, 1, 1}, .threads = {k % 2 ? 1024 : 64, 1, 1}};
    hs_status s = emu_launch(emu_module_kernel(m, "k"), d, &g, params, NULL);
    assert_int_equal(hs_ok(s), k % 2);
    hs_status_drop(s);
    emu_module_free(m);
  }
  emu_device_free(d);
}

#define K "define ptx_kernel void @k(ptr %y) {\n"
static const char unknown_intrinsic[] =
    "declare i32 @llvm.nvvm.read.ptx.sreg.pm0()\n" K
    "  %v = call i32 @llvm.nvvm.read.ptx.sreg.pm0()\n  store i32 %v, ptr %y\n  ret void\n}\n";
static const char external[] =
    "declare void @elsewhere()\n" K "  call void @elsewhere()\n  ret void\n}\n";
static const char assembly[] = K "  call void asm \"membar.gl;\", \"\"()\n  ret void\n}\n";

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    hs_code code;
    const char *words;
  } cases[] = {{"nonsense", HS_E_COMPILE, "not a module of LLVM"},
               {unknown_intrinsic, HS_E_UNSUPPORTED, "llvm.nvvm.read.ptx.sreg.pm0"},
               {external, HS_E_UNSUPPORTED, "k calls elsewhere"},
               {assembly, HS_E_UNSUPPORTED, "inline assembly"}};
  for (u32 k = 0; k < HS_COUNT(cases); k++) {
    emu_module *m = NULL;
    hs_status s = emu_module_load(cases[k].text, strlen(cases[k].text),
                                  &(emu_load_options){.checked = true}, &m);
    assert_false(hs_ok(s));
    assert_null(m);
    if (!strstr(s.err->message, cases[k].words)) print_error("%s\n", s.err->message);
    assert_int_equal(s.err->code, cases[k].code);
    assert_non_null(strstr(s.err->message, cases[k].words));
    hs_status_drop(s);
  }
}

static void interrupted(void **state) {
  (void)state;
  hs_interrupt flag = HS_STOP_INTERRUPT;
  emu_module *m;
  assert_true(hs_ok(load("scale", false, &m)));
  emu_device *d = emu_device_new();
  void *a = in, *b = out, *params[] = {&a, &b};
  emu_grid g = {.blocks = {8, 1, 1}, .threads = {128, 1, 1}, .host_threads = 2};
  hs_interrupt_watch(&flag);
  hs_status s = emu_launch(emu_module_kernel(m, "k"), d, &g, params, NULL);
  hs_interrupt_watch(NULL);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_INTERRUPTED);
  hs_status_drop(s);
  emu_device_free(d);
  emu_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise),
      cmocka_unit_test(three_dimensions),
      cmocka_unit_test(reduction),
      cmocka_unit_test(transpose),
      cmocka_unit_test(blocks_in_any_order),
      cmocka_unit_test(dynamic_shared_memory),
      cmocka_unit_test(warps),
      cmocka_unit_test(atomics),
      cmocka_unit_test(narrow_types),
      cmocka_unit_test(modules),
      cmocka_unit_test(arithmetic),
      cmocka_unit_test(out_of_bounds),
      cmocka_unit_test(first_fault),
      cmocka_unit_test(misaligned),
      cmocka_unit_test(divergence),
      cmocka_unit_test(races),
      cmocka_unit_test(uninitialized),
      cmocka_unit_test(traps),
      cmocka_unit_test(after_a_fault),
      cmocka_unit_test(refused),
      cmocka_unit_test(interrupted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return skip_all("built without LLVM"); }
#endif
