// serve.c — worker side: handles requests to compile, run, dump and release programs, which have
// numbers given by the shell.
//
// A compile request carries the module's text with large constants elided; their bytes come in
// shared memory, grouped by computation in list order. A run request carries the arguments' leaves
// in one shared block, each 64-byte aligned; the results go back in another. Both are copied into
// the program's own huge-page memory before the clock starts.
#include <stdlib.h>

#include "backends/cpu/serve.h"
#include "core/text/text.h"

typedef struct served {
  u64 id;
  hlo_ctx *ctx;
  hlo_module *m;
  cpu_program *p;
  u32 threads;
  double dispatch_ms;  // of one run; -1 until it was measured
} served;

static HS_VEC(served *) programs;

worker_handler cpu_serve_compile, cpu_serve_run, cpu_serve_dump, cpu_serve_release;

static served *find(u64 id) {
  for (size_t k = 0; k < programs.n; k++)
    if (programs.v[k]->id == id) return programs.v[k];
  return NULL;
}

static void free_served(served *s) {
  cpu_program_free(s->p);
  hlo_module_free(s->m);
  if (s->ctx) hlo_ctx_free(s->ctx);
  hs_free(s);
}

// ---- compile ------------------------------------------------------------------------------------

static bool load_leaves(hlo_literal *l, const serve_map *blob, size_t *at) {
  for (u32 k = 0; k < l->nchildren; k++)
    if (!load_leaves(l->children[k], blob, at)) return false;
  if (!hlo_shape_is_array(l->shape)) return true;
  *at = block_align(*at);
  if (*at > blob->n || l->bytes > blob->n - *at) return false;
  if (l->bytes) memcpy(l->data, blob->p + *at, l->bytes);
  *at += l->bytes;
  return true;
}

// Sets the bytes of every constant; the text may have elided or rounded them.
static hs_status load_constants(hlo_module *m, wire_reader *r, const serve_map *blob) {
  size_t at = 0;
  u32 count = wire_get_u32(r);
  for (u32 k = 0; k < count && !r->bad; k++) {
    hs_str name = wire_get_str(r);
    char *z = hs_format("%.*s", (int)name.n, name.p);
    hlo_instr *i = hlo_find_instr(m, z);
    hs_free(z);
    if (!i || i->opcode != HLO_CONSTANT)
      return hs_fail(HS_E_INTERNAL, "the worker read no constant %.*s", (int)name.n, name.p);
    hlo_literal *l;
    HS_TRY(hlo_literal_new(i->shape, &l));
    if (!load_leaves(l, blob, &at)) {
      hlo_literal_unref(l);
      return hs_fail(HS_E_INTERNAL, "constants are missing");
    }
    hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = l});
    hlo_literal_unref(l);  // the module holds its own reference
  }
  return r->bad ? hs_fail(HS_E_INTERNAL, "bad compile request") : HS_GOOD;
}

hs_status cpu_request_read(wire_reader *r, const serve_map *constants, cpu_request *out) {
  *out = (cpu_request){.id = (u64)wire_get_i64(r)};
  out->threads = wire_get_u32(r);
  cpu_lower_options *o = &out->options;
  o->per_instruction = wire_get_u32(r);
  o->plan_only = wire_get_u32(r);
  o->one_device = wire_get_u32(r);
  o->no_contract = wire_get_u32(r);
  hs_str text = wire_get_str(r);
  serve_peak_rss(true);
  out->cpu0 = serve_cpu_ms();
  out->t0 = hs_now_ns();
  out->ctx = hlo_ctx_new();
  worker_doing = "reading the module";
  hlo_parse_options po = {.file = "<worker>"};
  HS_TRY(hlo_parse(out->ctx, text.p, text.n, &po, &out->m));
  hlo_journal_disable(out->m);
  return load_constants(out->m, r, constants);
}

const char *cpu_step_kind_text(const cpu_step *s) {
  return s->kind == CPU_STEP_EMIT ? emit_kind_name(s->kernel->kind)
         : s->kind == CPU_STEP_RT ? s->rt.kind
                                  : cpu_called_text(s->called);
}

void cpu_request_answer(const cpu_request *q, const cpu_program *p,
                        const char *(*kind)(const cpu_step *), hs_buf *reply) {
  wire_put_f64(reply, (double)(hs_now_ns() - q->t0) / 1e6);
  wire_put_f64(reply, serve_cpu_ms() - q->cpu0);
  wire_put_i64(reply, serve_peak_rss(false));
  size_t temp = p->per_instruction ? p->temp_live_bytes : p->temp_bytes;
  const i64 sizes[] = {(i64)p->arg_bytes, (i64)(p->out_bytes + p->alias_bytes), (i64)p->alias_bytes,
                       (i64)temp};
  for (size_t k = 0; k < HS_COUNT(sizes); k++) wire_put_i64(reply, sizes[k]);
  wire_put_u32(reply, p->fallbacks);
  wire_put_u32(reply, (u32)p->kernels.n);
  for (size_t k = 0; k < p->kernels.n; k++) {
    wire_put_str(reply, p->kernels.v[k]->instr->name);
    wire_put_str(reply, kind ? kind(p->kernels.v[k]) : cpu_step_kind_text(p->kernels.v[k]));
  }
}

static hs_status build(served *s, wire_reader *r, const serve_map *blob, hs_buf *reply) {
  cpu_request q;
  hs_status st = cpu_request_read(r, blob, &q);
  s->id = q.id, s->threads = q.threads, s->ctx = q.ctx, s->m = q.m;
  HS_TRY(st);
  worker_doing = "generating code";
  cpu_par_begin(s->threads);
  q.options.threads = cpu_par_threads();
  st = cpu_lower(s->m, &q.options, &s->p);
  cpu_par_end();
  HS_TRY(st);
  cpu_request_answer(&q, s->p, NULL, reply);
  return HS_GOOD;
}

hs_status cpu_serve_compile(const void *payload, size_t n, const int *fds, u32 nfds,
                            hs_buf *reply) {
  if (nfds != 1) return hs_fail(HS_E_INTERNAL, "compile request without constants");
  serve_map blob = {0};
  HS_TRY(serve_map_fd(fds[0], false, &blob));
  wire_reader r = {payload, n, false};
  served *s = hs_calloc(1, sizeof *s);
  s->dispatch_ms = -1;
  hs_status st = build(s, &r, &blob, reply);
  serve_unmap(&blob);
  if (!hs_ok(st)) {
    free_served(s);
    return st;
  }
  hs_vec_push(&programs, s);
  return HS_GOOD;
}

// ---- run ----------------------------------------------------------------------------------------

// One argument leaf from the shared block (row-major) to its area (physical order).
static void place_argument(const cpu_program *p, u32 k, const char *from) {
  cpu_place(p->arg_shape[k], (char *)p->area[1] + p->arg_offset[k], from);
}

static void fetch_result(const cpu_program *p, u32 k, char *to) {
  cpu_fetch(p->out_shape[k], to, p->addr[p->values.v[p->out_value[k]].slot]);
}

void cpu_leaf_offsets(u32 n, const hlo_shape *const *leaf, size_t *at) {
  at[0] = 0;
  for (u32 k = 0; k < n; k++) at[k + 1] = at[k] + block_align(block_leaf_bytes(leaf[k]));
}

typedef struct run_request {
  served *s;
  serve_map args;
  size_t *from;  // offset of each argument leaf in the shared block
} run_request;

static void place_donated(const run_request *x) {
  const cpu_program *p = x->s->p;
  for (u32 k = 0; k < p->nargs; k++)
    if (p->arg_donated[k]) place_argument(p, k, x->args.p + x->from[k]);
}

static hs_status timed_run(void *arg, double *ms) {
  const run_request *x = arg;
  place_donated(x);
  u64 t0 = hs_now_ns();
  if (x->s->p->probes) x->s->p->probes->start = t0;
  hs_status st = cpu_exec_run(x->s->p);
  *ms = (double)(hs_now_ns() - t0) / 1e6;
  return st;
}

// Runs with probes: for half of the time asked for, 3 at least. *out is the caller's.
static hs_status record_kernels(run_request *x, double seconds, prof_recording **out) {
  enum { LEAST = 3, MOST = 1000 };
  cpu_program *p = x->s->p;
  u32 n = (u32)p->kernels.n;
  prof_recording *r = hs_calloc(1, sizeof *r);
  HS_VEC(double) run_ms = {0}, ms = {0};
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
    double one;
    p->probes = &probes;
    st = timed_run(x, &one);
    p->probes = NULL;
    hs_vec_push(&run_ms, one);
    for (u32 j = 0; j < n; j++) hs_vec_push(&ms, (double)ns[j] * 1e-6);
    r->nruns++;
    r->nevents = probes.nevents;
    r->dropped = probes.dropped;
  }
  hs_free(ns);
  r->run_ms = run_ms.v;
  r->ms = ms.v;
  if (!hs_ok(st)) prof_recording_free(r), r = NULL;
  *out = r;
  return st;
}

static void nothing(void *ctx, i64 k, u32 thread) {
  (void)ctx;
  (void)k;
  (void)thread;
}

// The estimated cost of dispatching the program's kernels: that of an empty parallel loop per
// parallel kernel, 5 ns (an indirect call) for the others.
static double dispatch_ms(const cpu_program *p) {
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

static hs_status run_program(run_request *x, const backend_run_options *o, const serve_map *out,
                             hs_buf *reply) {
  cpu_program *p = x->s->p;
  u64 t0 = hs_now_ns();
  for (u32 k = 0; k < p->nargs; k++) place_argument(p, k, x->args.p + x->from[k]);
  if (o->max_runs > 1 && x->s->dispatch_ms < 0) x->s->dispatch_ms = dispatch_ms(p);
  double transfer = (double)(hs_now_ns() - t0) / 1e6, first;
  HS_TRY(timed_run(x, &first));
  t0 = hs_now_ns();
  size_t at = 0;
  for (u32 k = 0; out->p && k < p->nouts; k++) {
    size_t n = block_leaf_bytes(p->out_shape[k]);
    if (at + n > out->n) return hs_fail(HS_E_INTERNAL, "result block too small");
    fetch_result(p, k, out->p + at);
    at += (n + 63) & ~(size_t)63;
  }
  transfer += (double)(hs_now_ns() - t0) / 1e6;
  hs_buf samples = {0};
  prof_recording *kernels = NULL;
  hs_status st = serve_measure(o, first, timed_run, x, &samples);
  if (hs_ok(st) && o->want_kernel_times) st = record_kernels(x, o->max_seconds / 2, &kernels);
  if (hs_ok(st)) {
    const backend_timing t = {.first_ms = first,
                              .transfer_ms = transfer,
                              .dispatch_ms = x->s->dispatch_ms,
                              .runs = (u32)(samples.n / sizeof(double)),
                              .samples_ms = (double *)(void *)samples.p,
                              .kernels = kernels};
    block_put_timing(reply, &t);
  }
  hs_buf_free(&samples);
  prof_recording_free(kernels);
  return st;
}

// Descriptors: arguments, and results when they are wanted.
hs_status cpu_serve_run(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  wire_reader r = {payload, n, false};
  served *s = find((u64)wire_get_i64(&r));
  if (!s || nfds < 1 || !s->p->addr)
    return hs_fail(HS_E_INTERNAL, "the worker has no such program, or only its plan");
  backend_run_options o;
  wire_get(&r, &o, sizeof o);
  run_request x = {.s = s};
  HS_TRY(serve_map_fd(fds[0], false, &x.args));
  serve_map out = {0};
  hs_status st = nfds > 1 ? serve_map_fd(fds[1], true, &out) : HS_GOOD;
  x.from = hs_calloc(s->p->nargs + 1, sizeof *x.from);
  cpu_leaf_offsets(s->p->nargs, s->p->arg_shape, x.from);
  if (hs_ok(st) && x.from[s->p->nargs] > x.args.n)
    st = hs_fail(HS_E_INTERNAL, "argument block too small");
  if (hs_ok(st)) {
    cpu_par_begin(s->threads);
    st = run_program(&x, &o, &out, reply);
    cpu_par_end();
  }
  hs_free(x.from);
  serve_unmap(&x.args);
  serve_unmap(&out);
  return st;
}

// ---- dump and release ---------------------------------------------------------------------------

hs_status cpu_serve_dump(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  (void)fds;
  (void)nfds;
  wire_reader r = {payload, n, false};
  served *s = find((u64)wire_get_i64(&r));
  hs_str what = wire_get_str(&r);
  if (!s) return hs_fail(HS_E_INTERNAL, "the worker has no such program");
  if (hs_str_eq(what, HS_STR("plan"))) {
    prof_memory plan;
    cpu_plan_of(s->p, &plan);
    cpu_plan_put(&plan, reply);
    prof_memory_free(&plan);
  } else if (hs_str_eq(what, HS_STR("schedule"))) cpu_dump_schedule(s->p, reply);
#if HAVE_LLVM
  if (hs_str_eq(what, HS_STR("schedule")) || hs_str_eq(what, HS_STR("llvm")) ||
      hs_str_eq(what, HS_STR("asm"))) {
    char *z = hs_format("%.*s", (int)what.n, what.p);
    hs_status st = emit_dump(s->p->unit, z, reply);
    hs_free(z);
    return st;
  }
#endif
  return reply->n ? HS_GOOD
                  : hs_fail(HS_E_USAGE, "nothing to dump called %.*s", (int)what.n, what.p);
}

hs_status cpu_serve_release(const void *payload, size_t n, const int *fds, u32 nfds,
                            hs_buf *reply) {
  (void)fds, (void)nfds, (void)reply;
  u64 id = serve_program_id(payload, n);
  for (size_t k = 0; k < programs.n; k++) {
    if (programs.v[k]->id != id) continue;
    free_served(programs.v[k]);
    programs.v[k] = programs.v[--programs.n];
    break;
  }
  return HS_GOOD;
}
