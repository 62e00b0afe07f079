// par.c: the parallel loop of the cpu backend: a pool of threads that share the chunks of one loop
// at a time.
//
// Each thread owns a run of consecutive chunks, so that consecutive kernels over the same rows
// find them in the same core's cache, and takes chunks of others once its own are gone. Nobody has
// to take part: the loop ends when every chunk that was taken is done, and the thread that opened
// it takes what nobody else does. So a thread whose core is busy with another process delays the
// loop by one chunk at most, and not by a time slice of the kernel's scheduler at each loop, as a
// barrier does. Results do not depend on who computes what: chunks come from shapes, and a chunk
// computes the same on any thread.
//
// `state` is all the synchronization: the number of the loop, whether it is open, and how many pool
// threads are in it. A thread enters by compare-and-swap and only an open loop; the opener closes
// it only with nobody inside, and then alone may write the job. Waiting threads spin for a moment
// and then yield their core between looks, so that whoever needs it gets it; after that they sleep
// (futex). Threads of the pool keep off the core of the opener: beside other processes the kernel
// leaves both there for long, and then they are no faster than one.
//
// Convolutions of oneDNN use OpenMP's threads: the pool hands its cores over for that time, and
// those threads sleep soon after each loop (GOMP_SPINCOUNT, worker.c). Everywhere else OpenMP has
// one thread.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/cpu/rt/rt.h"

#if HAVE_OPENMP
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum {
  SPINS = 200,           // looks before the core is yielded between looks: some microseconds
  POOL_WAIT_US = 1000,   // then the pool sleeps: at an idle prompt it must not burn a core
  OPENER_WAIT_US = 200,  // then the opener sleeps until the last chunk is done
};
#define OPEN ((u64)1 << 31)
#define INSIDE (OPEN - 1)    // mask of the number of threads inside
#define LOOP ((u64)1 << 32)  // one loop further

// The chunks of one thread that nobody has taken; in a cache line of its own.
typedef struct share {
  _Alignas(128) _Atomic i64 next;
  i64 end;
} share;

typedef struct pool {
  _Alignas(128) _Atomic u64 state;  // loop number, OPEN, threads inside
  _Atomic u32 asleep, wake;         // pool threads that sleep; what they sleep on
  _Atomic u32 opener_asleep;
  _Atomic bool ends, rests;  // the threads are to end; to sleep at once
  _Atomic int opener_cpu;    // where the last loop was opened; -1: not known
  cpu_par_fn *fn;            // the job: written with the loop closed
  void *ctx;
  bool keep_denormals;
  u32 threads;  // the opener included
  share share[CPU_MOST_THREADS];
  pthread_t thread[CPU_MOST_THREADS];
} pool;
static pool the_pool = {.threads = 1, .opener_cpu = -1};  // the worker's own state
static _Thread_local bool in_chunk;
static _Thread_local struct {
  void *at;
  size_t bytes;
} memory;

// XLA:CPU flushes denormals, operands and results; MXCSR is per thread.
static void set_denormals(bool keep) {
#if defined(__x86_64__)
  u32 flush = 0x8040;
  _mm_setcsr(keep ? _mm_getcsr() & ~flush : _mm_getcsr() | flush);
#elif defined(__aarch64__)
  u64 fpcr, flush = 1u << 24;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  __asm__ volatile("msr fpcr, %0" ::"r"(keep ? fpcr & ~flush : fpcr | flush));
#else
  (void)keep;
#endif
}

// ---- memory of a thread -------------------------------------------------------------------------
// Kept between loops. In a library any thread of the user's may open one, so it goes with the
// thread.
static pthread_key_t memory_key;
static bool memory_has_key;
static void free_of_thread(void *at) { hs_free(at); }
static void make_memory_key(void) {
  memory_has_key = pthread_key_create(&memory_key, free_of_thread) == 0;
}

static void keep_memory(void *at, size_t bytes) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_memory_key);
  memory.at = at;
  memory.bytes = bytes;
  if (memory_has_key) (void)pthread_setspecific(memory_key, at);
}

static void free_memory(void) {
  if (!memory.at) return;
  hs_free(memory.at);
  keep_memory(NULL, 0);
}

void *cpu_par_memory(size_t bytes) {
  enum { PAGE = 4096 };
  if (memory.bytes < bytes) {
    free_memory();
    void *at = hs_try_alloc(bytes + PAGE);
    if (at) keep_memory(at, bytes);
  }
  return memory.at ? (void *)(((uintptr_t)memory.at + PAGE - 1) & ~(uintptr_t)(PAGE - 1)) : NULL;
}

// ---- cores --------------------------------------------------------------------------------------
// Moves this thread of the pool away if it is where loops are opened, within what it was allowed
// when it began.
static void keep_off(const pool *p, const cpu_set_t *allowed) {
  int cpu = atomic_load_explicit(&p->opener_cpu, memory_order_relaxed);
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu || CPU_COUNT(allowed) < 2) return;
  cpu_set_t others = *allowed;
  CPU_CLR((size_t)cpu, &others);
  (void)sched_setaffinity(0, sizeof others, &others);  // else it stays
}

// ---- waiting ------------------------------------------------------------------------------------
static void sleep_on(_Atomic u32 *word, u32 value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void wake_all(_Atomic u32 *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

// One step of a wait: false when it is time to sleep.
typedef struct patience {
  u32 looks;
  u64 until;
} patience;

static bool wait_more(patience *p, u32 us) {
  if (p->looks++ < SPINS) {
#if defined(__x86_64__)
    _mm_pause();
#endif
    return true;
  }
  u64 now = hs_now_ns();
  if (!p->until) p->until = now + (u64)us * 1000;
  if (now >= p->until) return false;
  sched_yield();
  return true;
}

// ---- taking chunks ------------------------------------------------------------------------------
static void take_chunks(pool *p, u32 me) {
  in_chunk = true;
  for (u32 k = 0; k < p->threads; k++) {
    share *s = &p->share[(me + k) % p->threads];
    // looked at first: an increment would take the line from its owner for nothing
    while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
      i64 chunk = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
      if (chunk < s->end) p->fn(p->ctx, chunk, me);
    }
  }
  in_chunk = false;
}

static void leave(pool *p) {
  u64 s = atomic_fetch_sub(&p->state, 1) - 1;
  if (!(s & INSIDE) && atomic_load(&p->opener_asleep)) {
    atomic_store(&p->opener_asleep, 0);
    wake_all(&p->opener_asleep);
  }
}

static void pool_sleep(pool *p, u64 seen) {
  u32 w = atomic_load(&p->wake);
  atomic_fetch_add(&p->asleep, 1);
  // whoever opens a loop from here on sees that somebody sleeps, or is seen here
  u64 s = atomic_load(&p->state);
  if (!((s & OPEN) && (s & ~(OPEN | INSIDE)) != seen) && !atomic_load(&p->ends))
    sleep_on(&p->wake, w);
  atomic_fetch_sub(&p->asleep, 1);
}

static void *pool_thread(void *arg) {
  pool *p = &the_pool;
  u32 me = (u32)(uintptr_t)arg;
  u64 seen = UINT64_MAX;  // the last loop it was in
  patience wait = {0};
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_ZERO(&allowed);
  bool keeps = false;
  set_denormals(keeps);
#if HAVE_OPENMP
  omp_set_num_threads(1);  // of this thread: a library called in a chunk stays in it
#endif
  while (!atomic_load(&p->ends)) {
    u64 s = atomic_load(&p->state), loop = s & ~(OPEN | INSIDE);
    if (!(s & OPEN) || loop == seen) {
      if (!atomic_load(&p->rests) && wait_more(&wait, POOL_WAIT_US)) continue;
      pool_sleep(p, seen);
    } else if (atomic_compare_exchange_weak(&p->state, &s, s + 1)) {
      seen = loop;
      if (keeps != p->keep_denormals) set_denormals(keeps = p->keep_denormals);
      keep_off(p, &allowed);
      take_chunks(p, me);
      leave(p);
    }
    wait = (patience){0};
  }
  free_memory();
  return NULL;
}

static void wake_pool(pool *p) {
  atomic_fetch_add(&p->wake, 1);
  if (atomic_load(&p->asleep)) wake_all(&p->wake);
}

// With nobody inside.
static void close_loop(pool *p) {
  patience wait = {0};
  for (;;) {
    u64 s = atomic_load(&p->state);
    if (!(s & INSIDE)) {
      if (atomic_compare_exchange_weak(&p->state, &s, s & ~OPEN)) return;
      continue;
    }
    if (wait_more(&wait, OPENER_WAIT_US)) continue;
    atomic_store(&p->opener_asleep, 1);
    if (atomic_load(&p->state) & INSIDE) sleep_on(&p->opener_asleep, 1);
    atomic_store(&p->opener_asleep, 0);
  }
}

void cpu_par_for(cpu_par_fn *fn, void *ctx, i64 chunks) {
  pool *p = &the_pool;
  if (chunks <= 1 || p->threads == 1 || in_chunk) {
    for (i64 k = 0; k < chunks; k++) fn(ctx, k, 0);
    return;
  }
  p->fn = fn;
  p->ctx = ctx;
  i64 n = p->threads;
  for (i64 k = 0; k < n; k++) {
    atomic_store_explicit(&p->share[k].next, chunks * k / n, memory_order_relaxed);
    p->share[k].end = chunks * (k + 1) / n;
  }
  atomic_store_explicit(&p->opener_cpu, sched_getcpu(), memory_order_relaxed);
  atomic_store(&p->state, ((atomic_load(&p->state) & ~(OPEN | INSIDE)) + LOOP) | OPEN);
  wake_pool(p);
  take_chunks(p, 0);
  close_loop(p);
}

// ---- the pool -----------------------------------------------------------------------------------
static void end_pool(pool *p) {
  atomic_store(&p->ends, true);
  wake_pool(p);
  for (u32 k = 1; k < p->threads; k++) pthread_join(p->thread[k], NULL);
  atomic_store(&p->ends, false);
  p->threads = 1;
}

u32 cpu_par_threads(void) { return the_pool.threads; }

// Of the calling thread and OpenMP's now, of the pool's in their next loop. OpenMP's threads share
// no variable, whose use TSan could not see to be over.
static void denormals_of_all(pool *p, u32 n, bool keep) {
  p->keep_denormals = keep;
  set_denormals(keep);
#if HAVE_OPENMP
  omp_set_num_threads((int)n);
  if (keep) {
#pragma omp parallel
    set_denormals(true);
  } else {
#pragma omp parallel
    set_denormals(false);
  }
  omp_set_num_threads(1);
#else
  (void)n;
#endif
}

bool cpu_par_keeps_denormals(void) { return the_pool.keep_denormals; }

void cpu_par_keep_denormals(void) { denormals_of_all(&the_pool, the_pool.threads, true); }

void cpu_par_begin(u32 threads) {
  pool *p = &the_pool;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  u32 n = threads ? threads : cores > 0 ? (u32)cores : 1;
  n = HS_MIN(n, (u32)CPU_MOST_THREADS);
  denormals_of_all(p, n, false);
  atomic_store(&p->rests, false);
  if (n == p->threads) return;
  end_pool(p);
  while (p->threads < n && pthread_create(&p->thread[p->threads], NULL, pool_thread,
                                          (void *)(uintptr_t)p->threads) == 0)
    p->threads++;
}

void cpu_par_hand_over(bool away) {
  atomic_store(&the_pool.rests, away);
#if HAVE_OPENMP
  omp_set_num_threads(away ? (int)the_pool.threads : 1);
#endif
}

void cpu_par_end(void) {
  atomic_store(&the_pool.rests, true);
#if HAVE_OPENMP
  omp_pause_resource_all(omp_pause_soft);
#endif
}
