// local.c — the cpu backend in the calling process. See local.h.
//
// One lock is held while code is generated or runs: the pool of threads, OpenMP's threads and what
// the libraries keep are one per process. Denormals are flushed while a program runs, as in a
// worker, and the caller's mode is put back. A program that calls its user's code lets go of that
// lock meanwhile, and keeps its own, which guards its memory.
#include "backends/cpu/local.h"

#include <pthread.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "backends/cpu/prepare.h"
#include "backends/cpu/serve.h"

struct cpu_local {
  pthread_mutex_t busy;  // held while it runs
  cpu_program *p;
  u32 threads;
  bool in_place;
  backend_compiled figures;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside;  // this thread holds it

#if defined(__x86_64__)
typedef u32 float_mode;
enum { FLUSH = 0x8040 };
static float_mode save_mode(void) { return _mm_getcsr(); }
static void set_mode(float_mode m) { _mm_setcsr(m); }
#elif defined(__aarch64__)
typedef u64 float_mode;
enum { FLUSH = 1 << 24 };
static float_mode save_mode(void) {
  u64 m;
  __asm__ volatile("mrs %0, fpcr" : "=r"(m));
  return m;
}
static void set_mode(float_mode m) { __asm__ volatile("msr fpcr, %0" ::"r"(m)); }
#else
typedef int float_mode;
enum { FLUSH = 0 };
static float_mode save_mode(void) { return 0; }
static void set_mode(float_mode m) { (void)m; }
#endif

// The pool is set up once, and again when another number of threads is asked for.
static float_mode enter(u32 threads) {
  static bool begun;
  static u32 with;
  pthread_mutex_lock(&lock);
  inside = true;
  float_mode was = save_mode();
  if (!begun || with != threads) cpu_par_begin(threads);
  else set_mode(was | FLUSH);
  begun = true;
  with = threads;
  return was;
}

// The pool's threads go to sleep by themselves, soon.
static void leave(float_mode was) {
  set_mode(was);
  inside = false;
  pthread_mutex_unlock(&lock);
}

bool cpu_local_pause(void) {
  if (!inside) return false;
  set_mode(save_mode() & ~(float_mode)FLUSH);
  inside = false;
  pthread_mutex_unlock(&lock);
  return true;
}
void cpu_local_resume(void) {
  pthread_mutex_lock(&lock);
  inside = true;
  set_mode(save_mode() | FLUSH);
}
void cpu_local_peer(const hlo_eval_peer *p) { cpu_called_by(p); }

// Whether some instruction is about devices.
static bool tells_devices_apart(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (cpu_called_of(i) == CPU_CALLED_DEVICES) return true;
  return false;
}

hs_status cpu_local_compile(const hlo_module *m, const cpu_local_options *o, cpu_local **out) {
  *out = NULL;
  HS_TRY(cpu_check_static(backend_find("cpu"), m));
  HS_TRY(backend_check_module(backend_find("cpu"), m));
  cpu_local *l = hs_calloc(1, sizeof *l);
  l->threads = o->threads;
  l->in_place = o->in_place;
  u64 t0 = hs_now_ns();
  float_mode was = enter(l->threads);
  const cpu_lower_options lo = {.one_device = o->few_devices && !tells_devices_apart(m),
                                .threads = cpu_par_threads(),
                                .code = o->code};
  hs_status s = cpu_lower(m, &lo, &l->p);
  leave(was);
  if (!hs_ok(s)) {
    hs_free(l);
    return s;
  }
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&l->busy, &a);
  pthread_mutexattr_destroy(&a);
  backend_compiled *f = &l->figures;
  f->compile_ms = (double)(hs_now_ns() - t0) / 1e6;
  f->argument_bytes = (i64)l->p->arg_bytes;
  f->output_bytes = (i64)(l->p->out_bytes + l->p->alias_bytes);
  f->alias_bytes = (i64)l->p->alias_bytes;
  f->temp_bytes = (i64)l->p->temp_bytes;
  f->peak_bytes = f->argument_bytes + f->output_bytes - f->alias_bytes + f->temp_bytes;
  f->fallbacks = l->p->fallbacks;
  f->nkernels = (u32)l->p->kernels.n;
  return *out = l, HS_GOOD;
}

u32 cpu_local_devices(const cpu_local *l) { return l->p->ndevices; }
u32 cpu_local_argument_of(const cpu_local *l, u32 result) {
  return l->in_place && l->p->ndevices == 1 ? cpu_bind_argument_of(l->p, result) : CPU_NONE;
}
const backend_compiled *cpu_local_figures(const cpu_local *l) { return &l->figures; }

backend_kernel cpu_local_kernel(const cpu_local *l, u32 k) {
  const cpu_step *s = l->p->kernels.v[k];
  hlo_cost cost = hlo_cost_instr(s->instr);
  return (backend_kernel){.name = s->instr->name,
                          .kind = cpu_step_kind_text(s),
                          .instr = s->instr->id,
                          .flops = cost.flops,
                          .bytes = cost.bytes_read + cost.bytes_written};
}

// With probes; kernels that run inside of regions have had no function of their own so far.
static hs_status run_timed(cpu_program *p, cpu_local_times *t) {
  HS_TRY(cpu_complete(p, cpu_par_threads()));
  u64 *sums = hs_calloc(2 * p->kernels.n + 1, sizeof *sums);
  cpu_probes probes = {.ns = sums, .calls = sums + p->kernels.n, .events = t->events};
  t->begin_ns = probes.start = hs_now_ns();
  p->probes = &probes;
  hs_status s = cpu_exec_placed(p);
  p->probes = NULL;
  t->ns = hs_now_ns() - t->begin_ns;
  t->nevents = probes.nevents;
  t->dropped = probes.dropped;
  hs_free(sums);
  return s;
}

hs_status cpu_local_run(cpu_local *l, const void *const *args, void *const *results,
                        cpu_local_times *times) {
  cpu_program *p = l->p;
  if (pthread_mutex_lock(&l->busy) != 0)
    return hs_fail(HS_E_RUN, "a program cannot run from a custom call of its own");
  float_mode was = enter(l->threads);
  cpu_bind(p, l->in_place, args, results);
  hs_status s = times ? run_timed(p, times) : cpu_exec_placed(p);
  if (hs_ok(s)) cpu_bind_collect(p, results);
  leave(was);
  pthread_mutex_unlock(&l->busy);
  return s;
}

void cpu_local_free(cpu_local *l) {
  if (!l) return;
  pthread_mutex_lock(&lock);
  cpu_program_free(l->p);
  pthread_mutex_unlock(&lock);
  pthread_mutex_destroy(&l->busy);
  hs_free(l);
}
