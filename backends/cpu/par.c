// par.c — the parallel loop of the cpu backend. The thread pool is OpenMP's, because oneDNN uses
// the same one: two pools that spin on the same cores slow each other down. Nothing outside of this
// file knows.
//
// Chunks are scheduled statically, in order: consecutive kernels over the same rows then find them
// in the same core's cache. Results do not depend on the number of threads, because a chunk
// computes the same on any thread.
#include "backends/cpu/cpu.h"

#if HAVE_OPENMP
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

// XLA:CPU flushes denormals, operands and results; MXCSR is per thread.
static void flush_denormals(void) {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040u);
#elif defined(__aarch64__)
  u64 fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  __asm__ volatile("msr fpcr, %0" ::"r"(fpcr | (1u << 24)));
#endif
}

#if HAVE_OPENMP
// OpenMP keeps the size of the pool per thread that opens parallel regions.
u32 cpu_par_threads(void) { return (u32)omp_get_max_threads(); }

void cpu_par_begin(u32 threads) {
  omp_set_num_threads(threads ? (int)threads : omp_get_num_procs());
#pragma omp parallel
  flush_denormals();
}

void cpu_par_end(void) { omp_pause_resource_all(omp_pause_soft); }

void cpu_par_for(cpu_par_fn *fn, void *ctx, i64 chunks) {
  if (chunks <= 1 || omp_get_max_threads() == 1) {
    for (i64 k = 0; k < chunks; k++) fn(ctx, k, 0);
    return;
  }
#pragma omp parallel for schedule(static)
  for (i64 k = 0; k < chunks; k++) fn(ctx, k, (u32)omp_get_thread_num());
}
#else
u32 cpu_par_threads(void) { return 1; }
void cpu_par_begin(u32 threads) {
  (void)threads;
  flush_denormals();
}
void cpu_par_end(void) {}
void cpu_par_for(cpu_par_fn *fn, void *ctx, i64 chunks) {
  for (i64 k = 0; k < chunks; k++) fn(ctx, k, 0);
}
#endif
