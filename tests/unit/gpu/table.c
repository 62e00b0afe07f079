// table.c — the table of the CUDA driver's functions: filled from a library that is here in
// parts, by exported name or by version; its errors as statuses; what the targets hold.
#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/gpu.h"
#include "tests/unit/modules.h"

static void expect_fail(hs_status s, hs_code code, const char *part) {
  if (hs_ok(s)) fail_msg("no error where there should be: %s", part);
  if (s.err->code != code || !strstr(s.err->message, part))
    fail_msg("%s: %s", hs_code_text(s.err->code), s.err->message);
  hs_status_drop(s);
}

// ---- a driver in this file ----------------------------------------------------------------------

static int version;                  // that it says it has
static const char *lacks;            // a symbol that it does not export
static const char *only_by_version;  // one that cuGetProcAddress alone gives

static cuda_result some_call(void) { return CUDA_OK; }

static cuda_result driver_version(int *out) {
  *out = version;
  return CUDA_OK;
}

static cuda_result proc_address(const char *base, void **fn, int wanted, u64 flags, int *found) {
  (void)flags;
  bool has = only_by_version && strncmp(only_by_version, base, strlen(base)) == 0;
  *found = !has               ? CUDA_PROC_ADDRESS_MISSING
           : wanted > version ? CUDA_PROC_ADDRESS_TOO_NEW
                              : CUDA_PROC_ADDRESS_FOUND;
  *fn = *found == CUDA_PROC_ADDRESS_FOUND ? (void *)(uintptr_t)some_call : NULL;
  return CUDA_OK;
}

static void *find(void *from, const char *symbol) {
  (void)from;
  if (lacks && strcmp(symbol, lacks) == 0) return NULL;
  if (only_by_version && strcmp(symbol, only_by_version) == 0) return NULL;
  if (strcmp(symbol, "cuDriverGetVersion") == 0) return (void *)(uintptr_t)driver_version;
  if (strcmp(symbol, "cuGetProcAddress_v2") == 0)
    return version >= 12000 ? (void *)(uintptr_t)proc_address : NULL;
  return (void *)(uintptr_t)some_call;
}

static hs_status fill(int has, const char *without, const char *by_version, cuda_driver *d) {
  version = has, lacks = without, only_by_version = by_version;
  *d = (cuda_driver){0};
  return cuda_driver_fill(d, find, NULL, "the test's driver");
}

static void table(void **st) {
  (void)st;
  cuda_driver d;
  expect_good(fill(12040, NULL, NULL, &d), "all of it");
  assert_int_equal(d.version, 12040);
  assert_non_null(d.launch);
  assert_non_null(d.graph_launch);
  // optional: left out
  expect_good(fill(12040, "cuGraphLaunch", NULL, &d), "without graphs");
  assert_null(d.graph_launch);
  // not exported, but there
  expect_good(fill(12040, NULL, "cuMemAlloc_v2", &d), "by version");
  assert_non_null(d.alloc);
  expect_fail(fill(12040, "cuLaunchKernel", NULL, &d), HS_E_DEVICE, "has no cuLaunchKernel");
  // a driver without cuGetProcAddress is asked for nothing else
  expect_fail(fill(11040, NULL, "cuMemAlloc_v2", &d), HS_E_DEVICE, "has no cuMemAlloc_v2");
  expect_fail(fill(11030, NULL, NULL, &d), HS_E_DEVICE,
              "too old: it has CUDA 11.3, 11.4 is needed");
  expect_fail(fill(12040, "cuDriverGetVersion", NULL, &d), HS_E_DEVICE, "not a CUDA driver");
}

static void library(void **st) {
  (void)st;
  cuda_driver d;
  hs_buf where = {0};
  expect_fail(cuda_driver_open("/nowhere/libcuda.so.1", &d), HS_E_DEVICE, "no CUDA driver here");
  setenv("HLOSH_LIBCUDA", "/nowhere/else.so", 1);
  assert_false(cuda_driver_present(&where));
  assert_string_equal(hs_buf_cstr(&where), "/nowhere/else.so");
  hs_status s = cuda_driver_missing();
  assert_non_null(strstr(s.err->note, "/nowhere/else.so (HLOSH_LIBCUDA) cannot be read"));
  hs_status_drop(s);
  unsetenv("HLOSH_LIBCUDA");
  s = cuda_driver_missing();
  assert_non_null(strstr(s.err->note, "looked for libcuda.so.1, "));
  hs_status_drop(s);
  hs_buf_free(&where);
}

static void errors(void **st) {
  (void)st;
  expect_good(cuda_check(CUDA_OK, "anything"), "no error");
  expect_fail(cuda_check(CUDA_OUT_OF_MEMORY, "memory for the program"), HS_E_NO_MEMORY,
              "memory for the program: CUDA error 2 (OUT_OF_MEMORY)");
  expect_fail(cuda_check(CUDA_ILLEGAL_ADDRESS, "add.1"), HS_E_DEVICE_FAULT, "ILLEGAL_ADDRESS");
  expect_fail(cuda_check(CUDA_INVALID_PTX, "loading"), HS_E_COMPILE, "INVALID_PTX");
  assert_true(cuda_sticky(CUDA_ILLEGAL_ADDRESS));
  assert_false(cuda_sticky(CUDA_OUT_OF_MEMORY));
  assert_false(cuda_sticky(CUDA_OK));
  // a number that no row has
  assert_int_equal(cuda_error_of(54321)->number, CUDA_UNKNOWN);
  int last = 0;
#define CUDA_ERROR(number, name, scope, code, advice) \
  assert_true(number > last);                         \
  last = number;                                      \
  assert_true(sizeof advice > 8);
#include "backends/gpu/cuda/errors.def"
#undef CUDA_ERROR
}

// ---- targets ------------------------------------------------------------------------------------

static void targets(void **st) {
  (void)st;
  assert_int_equal(gpu_target_find("h200")->sm, 90);
  assert_string_equal(gpu_target_find("sm_90a")->name, "h200");
  assert_int_equal(gpu_target_find("l4")->sm, 89);
  assert_null(gpu_target_find("sm_"));
  assert_null(gpu_target_find("sm_900"));
  assert_null(gpu_target_find("tpu_v4"));
  const gpu_target *h = gpu_target_find("h100");
#define IS(threads, registers, shared, percent) \
  assert_int_equal((int)(gpu_occupancy(h, threads, registers, shared) * 100 + 0.5), percent)
  IS(256, 32, 0, 100);       // threads
  IS(32, 32, 0, 50);         // blocks: 32 of one warp
  IS(256, 64, 0, 50);        // registers
  IS(256, 255, 0, 13);       // one block of eight warps
  IS(256, 32, 49152, 50);    // shared memory: four blocks
  IS(1024, 32, 200000, 50);  // one block
  IS(0, 32, 0, 0);
  IS(4096, 32, 0, 0);
#undef IS
}

// What the table says of the assembler's report.
static void resources(void **st) {
  (void)st;
  hs_buf out = {0};
  gpu_read_resources(
      ".version 8.0\n.target sm_90\n.visible .entry k0(\n.param .u64 a\n)\n"
      ".maxntid 256, 1, 1\n{\n}\n"
      ".visible .entry k1(\n)\n{\n}\n",
      "ptxas info    : Compiling entry function 'k0' for 'sm_90'\n"
      "ptxas info    : Function properties for k0\n"
      "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Used 64 registers, used 1 barriers, 4096 bytes smem, 376 bytes cmem[0]\n"
      "ptxas info    : Compiling entry function 'k1' for 'sm_90'\n"
      "ptxas info    : Used 10 registers\n",
      &out);
  assert_non_null(strstr(hs_buf_cstr(&out), "k0                                      64       16"
                                            "       12     4096      50 %\n"));
  assert_non_null(strstr(hs_buf_cstr(&out), "k1                                      10        0"
                                            "        0        0\n"));
  hs_buf_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table),   cmocka_unit_test(library),   cmocka_unit_test(errors),
      cmocka_unit_test(targets), cmocka_unit_test(resources),
  };
  return cmocka_run_group_tests_name("gpu_table", tests, NULL, NULL);
}
