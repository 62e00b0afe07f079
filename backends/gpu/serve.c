// serve.c — worker side of the gpu backends: programs by number; compile, run, dump, release.
//
// The requests are the cpu backend's (backends/cpu/serve.h), with what gpu.c puts before them. One
// table holds the programs of both sorts; a process has only one of them (the emulator lives in the
// confined worker, a device in a worker of its own).
#include "backends/gpu/gpu.h"

worker_handler gpu_serve_compile, gpu_serve_run, gpu_serve_dump, gpu_serve_release;

#if HAVE_LLVM

typedef struct served {
  u64 id;
  u32 threads;
  hlo_ctx *ctx;
  hlo_module *m;
  gpu_program *g;
} served;

static HS_VEC(served *) programs;

static served *find(u64 id) {
  for (size_t k = 0; k < programs.n; k++)
    if (programs.v[k]->id == id) return programs.v[k];
  return NULL;
}

static void free_served(served *s) {
  gpu_program_free(s->g);
  hlo_module_free(s->m);
  if (s->ctx) hlo_ctx_free(s->ctx);
  hs_free(s);
}

// ---- compile ------------------------------------------------------------------------------------

static hs_status build(served *s, wire_reader *r, const serve_map *constants, hs_buf *reply) {
  gpu_options o = {.emulated = wire_get_u32(r)};
  o.load = wire_get_u32(r);
  o.sm = wire_get_u32(r);
  hs_str driver = wire_get_str(r);
  cpu_request q;
  hs_status st = cpu_request_read(r, constants, &q);
  s->id = q.id, s->threads = q.threads, s->ctx = q.ctx, s->m = q.m;
  HS_TRY(st);
  worker_doing = "lowering";
  cpu_par_begin(s->threads);
  q.options.threads = cpu_par_threads();
  char *path = driver.n ? hs_format("%.*s", (int)driver.n, driver.p) : NULL;
  o.driver = path;
  st = gpu_program_new(s->m, &q.options, &o, &s->g);
  hs_free(path);
  cpu_par_end();
  HS_TRY(st);
  cpu_request_answer(&q, s->g->p, gpu_step_kind, reply);
  return HS_GOOD;
}

hs_status gpu_serve_compile(const void *payload, size_t n, const int *fds, u32 nfds,
                            hs_buf *reply) {
  if (nfds != 1) return hs_fail(HS_E_INTERNAL, "compile request without constants");
  serve_map constants = {0};
  HS_TRY(serve_map_fd(fds[0], false, &constants));
  wire_reader r = {payload, n, false};
  served *s = hs_calloc(1, sizeof *s);
  hs_status st = build(s, &r, &constants, reply);
  serve_unmap(&constants);
  if (!hs_ok(st)) free_served(s);
  else hs_vec_push(&programs, s);
  return st;
}

// ---- run ----------------------------------------------------------------------------------------

typedef struct run_request {
  served *s;
  serve_map args;
  size_t *from;  // offset of each argument leaf in the shared block
} run_request;

// A leaf of the shared block to its place on the device, in the order that its shape asks for.
static hs_status place_argument(const run_request *x, u32 k) {
  const gpu_program *g = x->s->g;
  const hlo_shape *s = g->p->arg_shape[k];
  const char *from = x->args.p + x->from[k];
  size_t n = block_leaf_bytes(s);
  cuda_ptr to = g->memory + g->args_at + g->p->arg_offset[k];
  if (n == 0 || !hlo_shape_is_array(s)) return HS_GOOD;
  if (hlo_shape_is_row_major(s)) return gpu_upload(g->dev, to, from, n);
  char *t = hs_try_alloc(n);
  if (!t) return hs_fail(HS_E_NO_MEMORY, "%zu bytes to reorder an argument", n);
  cpu_place(s, t, from);
  hs_status st = gpu_upload(g->dev, to, t, n);
  hs_free(t);
  return st;
}

static hs_status fetch_result(const gpu_program *g, u32 k, char *to) {
  const hlo_shape *s = g->p->out_shape[k];
  size_t n = block_leaf_bytes(s);
  cuda_ptr from = gpu_address(g, g->p->out_value[k]);
  if (n == 0 || !hlo_shape_is_array(s)) return HS_GOOD;
  if (hlo_shape_is_row_major(s)) return gpu_download(g->dev, to, from, n);
  char *t = hs_try_alloc(n);
  if (!t) return hs_fail(HS_E_NO_MEMORY, "%zu bytes to reorder a result", n);
  hs_status st = gpu_download(g->dev, t, from, n);
  if (hs_ok(st)) cpu_fetch(s, to, t);
  hs_free(t);
  return st;
}

static hs_status timed_run(void *arg, double *ms) {
  const run_request *x = arg;
  const gpu_program *g = x->s->g;
  for (u32 k = 0; k < g->p->nargs; k++)
    if (g->p->arg_donated[k]) HS_TRY(place_argument(x, k));
  return gpu_exec_time(x->s->g, ms);
}

static hs_status run_program(run_request *x, const backend_run_options *o, const serve_map *out,
                             hs_buf *reply) {
  gpu_program *g = x->s->g;
  gpu_device *dev = g->dev;
  u64 t0 = hs_now_ns();
  for (u32 k = 0; k < g->p->nargs; k++) HS_TRY(place_argument(x, k));
  GPU_TRY(dev, dev->d.stream_wait(dev->stream), "copying the arguments");
  double transfer = (double)(hs_now_ns() - t0) / 1e6, first;
  HS_TRY(timed_run(x, &first));
  t0 = hs_now_ns();
  size_t at = 0;
  for (u32 k = 0; out->p && k < g->p->nouts; k++) {
    size_t n = block_leaf_bytes(g->p->out_shape[k]);
    if (at + n > out->n) return hs_fail(HS_E_INTERNAL, "result block too small");
    HS_TRY(fetch_result(g, k, out->p + at));
    at += block_align(n);
  }
  transfer += (double)(hs_now_ns() - t0) / 1e6;
  hs_buf samples = {0};
  prof_recording *kernels = NULL;
  hs_status st = serve_measure(o, first, timed_run, x, &samples);
  if (hs_ok(st) && o->want_kernel_times)
    st = gpu_record(g, o->max_seconds / 2, timed_run, x, &kernels);
  if (hs_ok(st)) {
    const backend_timing t = {.first_ms = first,
                              .transfer_ms = transfer,
                              .dispatch_ms = -1,
                              .runs = (u32)(samples.n / sizeof(double)),
                              .samples_ms = (double *)(void *)samples.p,
                              .kernels = kernels};
    block_put_timing(reply, &t);
  }
  hs_buf_free(&samples);
  prof_recording_free(kernels);
  return st;
}

static hs_status not_loaded(const gpu_program *g) {
  return hs_with_note(
      hs_fail(HS_E_DEVICE, "the program is compiled for sm_%u, and no such device is here", g->sm),
      "`dump ptx` and `dump sass` show the code; `backend gpu-emulated` runs it on this CPU");
}

// Descriptors: arguments, and results when they are wanted.
hs_status gpu_serve_run(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  wire_reader r = {payload, n, false};
  served *s = find((u64)wire_get_i64(&r));
  if (!s || nfds < 1) return hs_fail(HS_E_INTERNAL, "the worker has no such program");
  if (!s->g->dev) return not_loaded(s->g);
  HS_TRY(gpu_device_use(s->g->dev));
  backend_run_options o;
  wire_get(&r, &o, sizeof o);
  run_request x = {.s = s};
  HS_TRY(serve_map_fd(fds[0], false, &x.args));
  serve_map out = {0};
  hs_status st = nfds > 1 ? serve_map_fd(fds[1], true, &out) : HS_GOOD;
  x.from = hs_calloc(s->g->p->nargs + 1, sizeof *x.from);
  cpu_leaf_offsets(s->g->p->nargs, s->g->p->arg_shape, x.from);
  if (hs_ok(st) && x.from[s->g->p->nargs] > x.args.n)
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

static void dump_segments(const gpu_program *g, hs_buf *out) {
  if (!g->dev) return;
  u32 n = 0;
  for (i32 k = 0; g->segments && k < g->p->npos; k++) n += g->segments[k].n > 0;
  if (g->whole.n) hs_buf_puts(out, "recorded as one launch sequence\n");
  else hs_buf_printf(out, "%u recorded launch sequences\n", n);
}

hs_status gpu_serve_dump(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  (void)fds, (void)nfds;
  wire_reader r = {payload, n, false};
  served *s = find((u64)wire_get_i64(&r));
  hs_str what = wire_get_str(&r);
  if (!s) return hs_fail(HS_E_INTERNAL, "the worker has no such program");
  if (hs_str_eq(what, HS_STR("plan"))) {
    prof_memory plan;
    cpu_plan_of(s->g->p, &plan);
    plan.mapped_bytes = (i64)s->g->memory_bytes;
    cpu_plan_put(&plan, reply);
    prof_memory_free(&plan);
    return HS_GOOD;
  }
  if (hs_str_eq(what, HS_STR("schedule"))) {
    cpu_dump_schedule(s->g->p, reply);
    dump_segments(s->g, reply);
  }
  if (hs_str_eq(what, HS_STR("ptx"))) return emit_gpu_ptx(s->g->unit, reply);
  char *z = hs_format("%.*s", (int)what.n, what.p);
  hs_status st = emit_gpu_dump(s->g->unit, z, reply);
  hs_free(z);
  return st;
}

hs_status gpu_serve_release(const void *payload, size_t n, const int *fds, u32 nfds,
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

#else
static hs_status not_built(void) { return hs_fail(HS_E_NOT_BUILT, "this build has no LLVM"); }
#define HANDLER(name)                                                                      \
  hs_status name(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) { \
    (void)payload, (void)n, (void)fds, (void)nfds, (void)reply;                            \
    return not_built();                                                                    \
  }
HANDLER(gpu_serve_compile)
HANDLER(gpu_serve_run)
HANDLER(gpu_serve_dump)
HANDLER(gpu_serve_release)
#endif
