// record.c — times of single kernels on the cpu, by probes in the program (cpu.h: cpu_probes),
// and what dispatching them costs. Three runs at least are recorded, each after one without probes:
// what probes cost is the ratio of the two, whatever else the machine does meanwhile.
#include "backends/cpu/region.h"
#include "backends/cpu/serve.h"

hs_status cpu_record(served *s, double seconds, serve_once *once, void *arg, prof_recording **out) {
  enum { LEAST = 3, MOST = 1000 };
  cpu_program *p = s->p;
  u32 n = (u32)p->kernels.n;
  prof_recording *r = hs_calloc(1, sizeof *r);
  HS_VEC(double) run_ms = {0}, ms = {0}, slowdown = {0};
  u64 *ns = hs_alloc((n + 1) * sizeof *ns);
  r->calls = hs_calloc(n + 1, sizeof *r->calls);
  r->events = hs_alloc(PROF_MOST_EVENTS * sizeof *r->events);
  r->nkernels = n;
  r->probe_ns = cpu_probe_ns();
  // kernels that run inside of regions have had no function of their own so far
  hs_status st = cpu_complete(p, cpu_par_threads());
  u64 begin = hs_now_ns();
  for (u32 k = 0; hs_ok(st) && k < MOST; k++) {
    if (k >= LEAST && (double)(hs_now_ns() - begin) * 1e-9 > seconds) break;
    memset(ns, 0, n * sizeof *ns);
    memset(r->calls, 0, n * sizeof *r->calls);
    cpu_probes probes = {.ns = ns, .calls = r->calls, .events = r->events};
    double one, plain;
    st = once(arg, &plain);
    if (!hs_ok(st)) break;
    p->probes = &probes;
    st = once(arg, &one);
    p->probes = NULL;
    if (plain > 0) hs_vec_push(&slowdown, one / plain);
    hs_vec_push(&run_ms, one);
    for (u32 j = 0; j < n; j++) hs_vec_push(&ms, (double)ns[j] * 1e-6);
    r->nruns++;
    r->nevents = probes.nevents;
    r->dropped = probes.dropped;
  }
  hs_free(ns);
  r->slowdown = prof_summarize(slowdown.v, (u32)slowdown.n).median;
  hs_vec_free(&slowdown);
  r->run_ms = run_ms.v;
  r->ms = ms.v;
  if (!hs_ok(st)) prof_recording_free(r), r = NULL;
  *out = r;
  return st;
}

// ---- addresses ----------------------------------------------------------------------------------
static void address(hs_buf *out, uintptr_t at, size_t bytes, const char *name) {
  if (bytes) hs_buf_printf(out, "%llx %zx %s\n", (unsigned long long)at, bytes, name);
}

static void addresses_of(const cpu_block *b, hs_buf *out) {
  for (size_t k = 0; k < b->steps.n; k++) {
    const cpu_step *s = &b->steps.v[k];
    if (s->region)
      address(out, (uintptr_t)s->region->code.fn, s->region->code.fn_bytes, s->instr->name);
    if (s->kind == CPU_STEP_EMIT && s->kernel) {
      address(out, (uintptr_t)s->kernel->fn, s->kernel->fn_bytes, s->instr->name);
      address(out, (uintptr_t)s->kernel->finish, s->kernel->finish_bytes, s->instr->name);
    }
    for (u32 j = 0; j < s->nblocks; j++) addresses_of(&s->blocks[j], out);
  }
}

void cpu_dump_addresses(const cpu_program *p, hs_buf *out) { addresses_of(&p->entry, out); }

// ---- dispatch -----------------------------------------------------------------------------------
static void nothing(void *ctx, i64 k, u32 thread) { (void)ctx, (void)k, (void)thread; }

double cpu_dispatch_ms(const served *s) {
  const cpu_program *p = s->p;
  size_t parallel = 0;
  for (size_t k = 0; k < p->kernels.n; k++)
    parallel += p->kernels.v[k]->kind != CPU_STEP_EMIT || p->kernels.v[k]->kernel->chunks > 1;
  enum { N = 64 };
  u64 best = UINT64_MAX;
  for (int r = 0; r < 5; r++) {
    u64 t0 = hs_now_ns();
    for (int k = 0; k < N; k++) cpu_par_for(nothing, NULL, cpu_par_threads());
    best = HS_MIN(best, hs_now_ns() - t0);
  }
  return ((double)best / N * (double)parallel + 5.0 * (double)(p->kernels.n - parallel)) / 1e6;
}
