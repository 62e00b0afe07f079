// host.c — this machine's processor, without asking LLVM, which takes milliseconds to load.
//
// The version of LLVM is that of its headers: its functions of one minor version are one library.
#include "backends/emit/host.h"

#include <llvm/Config/llvm-config.h>
#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#endif

#if defined(__x86_64__)
u32 emit_vector_bytes(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return 64;
  return __builtin_cpu_supports("avx2") ? 32 : 16;
}

// The largest cache that CPUID describes: leaf 4 of Intel's manual, 8000001Dh of AMD's. (sysconf
// adds up the caches of a whole machine.)
i64 emit_cache_bytes(void) {
  static i64 known;  // of this process, found again where two threads ask at once
  i64 most = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (most) return most;
  static const unsigned leaves[] = {4, 0x8000001D};
  for (size_t l = 0; l < HS_COUNT(leaves); l++)
    for (unsigned k = 0; k < 8; k++) {
      unsigned a = 0, b = 0, c = 0, d = 0;
      if (!__get_cpuid_count(leaves[l], k, &a, &b, &c, &d) || (a & 31) == 0) break;
      most = HS_MAX(most, ((i64)(b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) *
                              ((i64)c + 1));
    }
  __atomic_store_n(&known, most, __ATOMIC_RELAXED);
  return most;
}

// All that CPUID says of features, and of these those that the system has turned on.
void emit_host_identity(hs_buf *b) {
  static const struct {
    unsigned leaf, sub;
    bool core;  // register b has the number of the core
  } leaves[] = {{1, 0, true}, {7, 0, false}, {7, 1, false}, {0xD, 1, false}, {0x80000001, 0, true}};
  hs_buf_puts(b, "LLVM " LLVM_VERSION_STRING ", x86-64");
  for (size_t k = 0; k < HS_COUNT(leaves); k++) {
    unsigned r[4] = {0};
    (void)__get_cpuid_count(leaves[k].leaf, leaves[k].sub, &r[0], &r[1], &r[2], &r[3]);
    if (leaves[k].leaf == 0xD || leaves[k].core) r[1] = 0;  // 0xD: bytes in use
    hs_buf_printf(b, " %x.%x.%x.%x", r[0], r[1], r[2], r[3]);
  }
  hs_buf_printf(b, " %u", emit_vector_bytes());
}
#else
u32 emit_vector_bytes(void) { return 16; }

i64 emit_cache_bytes(void) { return 0; }

void emit_host_identity(hs_buf *b) {
  char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  hs_buf_printf(b, "LLVM " LLVM_VERSION_STRING ", %s, %s", cpu, features);
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
}
#endif
