// rt_floats.c — the machine's vector instructions, and whole runs of narrow floats to f32 and
// back.
//
// bf16 is the upper half of an f32, so that both ways are a few integer operations that the
// compiler turns into vector code; f16 has instructions of its own. The rest goes through
// core/types/float.c.
#include "backends/cpu/cpu.h"
#include "core/types/float.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

cpu_vector_set cpu_vectors(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return CPU_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return CPU_AVX2;
#endif
  return CPU_BASE;
}

#define CLONES __attribute__((target_clones("default", "avx2", "avx512f")))

CLONES static void bf16_to_f32(u32 *restrict to, const u16 *restrict from, i64 n) {
  for (i64 k = 0; k < n; k++) to[k] = (u32)from[k] << 16;
}

CLONES static void f32_to_bf16(u16 *restrict to, const u32 *restrict from, i64 n) {
  for (i64 k = 0; k < n; k++) {
    u32 b = from[k], rounded = b + 0x7fff + (b >> 16 & 1);
    to[k] = (u16)(((b & 0x7fffffff) > 0x7f800000 ? b | 0x400000 : rounded) >> 16);
  }
}

#if defined(__x86_64__)
#define F16C __attribute__((target("avx,f16c")))

F16C static i64 f16_to_f32(float *to, const u16 *from, i64 n) {
  i64 k = 0;
  for (; k + 8 <= n; k += 8)
    _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + k))));
  return k;
}

F16C static i64 f32_to_f16(u16 *to, const float *from, i64 n) {
  i64 k = 0;
  for (; k + 8 <= n; k += 8)
    _mm_storeu_si128((void *)(to + k),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + k), _MM_FROUND_TO_NEAREST_INT));
  return k;
}

static bool has_f16c(void) {
  return __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
}
#endif

void cpu_to_f32(float *to, const void *from, hlo_dtype t, i64 n) {
  i64 done = 0;
  if (t == HLO_BF16) {
    bf16_to_f32((u32 *)(void *)to, from, n);
    return;
  }
#if defined(__x86_64__)
  if (t == HLO_F16 && has_f16c()) done = f16_to_f32(to, from, n);
#endif
  hlo_floats_to_f32(t, (const char *)from + (size_t)done * hlo_dtype_storage(t), to + done,
                    n - done);
}

void cpu_from_f32(void *to, hlo_dtype t, const float *from, i64 n) {
  i64 done = 0;
  if (t == HLO_BF16) {
    f32_to_bf16(to, (const u32 *)(const void *)from, n);
    return;
  }
#if defined(__x86_64__)
  if (t == HLO_F16 && has_f16c()) done = f32_to_f16(to, from, n);
#endif
  hlo_floats_from_f32(t, from + done, (char *)to + (size_t)done * hlo_dtype_storage(t), n - done);
}
