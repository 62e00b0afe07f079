// serve.c — worker side of the gpu backends: what a program for a device adds to those of the cpu
// (backends/cpu/serve.h): how it is built, its arguments and results moved, run and recorded.
//
// A process has programs of one sort only: the emulator lives in the confined worker, a device in a
// worker of its own.
#include "backends/gpu/gpu.h"

worker_handler gpu_serve_compile;

#if HAVE_LLVM

static hs_status build(served *s, const cpu_lower_options *o, const void *options) {
  gpu_program *g = NULL;
  HS_TRY(gpu_program_new(s->m, o, options, &g));
  s->own = g;
  s->p = g->p;
  return HS_GOOD;
}

static const char *step_text(const served *s, const cpu_step *x) {
  return gpu_step_kind(s->own, x);
}

static u32 launches(const served *s, const cpu_step *x) { return gpu_step_launches(s->own, x); }

static void free_program(served *s) { gpu_program_free(s->own); }

static hs_status ready(const served *s) {
  const gpu_program *g = s->own;
  if (g->dev) return gpu_device_use(g->dev);
  if (g->chip)
    return hs_with_note(
        hs_fail(HS_E_DEVICE, "the program is compiled for %s, to be looked at only", g->chip),
        "`dump llvm` and `dump asm` show the code");
  return hs_with_note(
      hs_fail(HS_E_DEVICE, "the program is compiled for sm_%u, and no such device is here", g->sm),
      "`dump ptx` and `dump sass` show the code; `backend gpu-emulated` runs it on this CPU");
}

// To all devices: they have the same arguments.
static hs_status upload(const gpu_program *g, u32 k, const char *from, size_t n) {
  for (u32 d = g->lanes ? g->ndevices : 1; d-- > 0;) {
    const gpu_program *lane = g->lanes ? g->lanes[d] : g;
    HS_TRY(gpu_device_use(lane->dev));
    HS_TRY(gpu_upload(lane->dev, lane->memory + lane->args_at + g->p->arg_offset[k], from, n));
  }
  return HS_GOOD;
}

// A leaf of the shared block to its place on the device, in the order that its shape asks for.
static hs_status place_argument(served *p, u32 k, const char *from) {
  const gpu_program *g = p->own;
  const hlo_shape *s = g->p->arg_shape[k];
  size_t n = block_leaf_bytes(s);
  if (n == 0 || !hlo_shape_is_array(s)) return HS_GOOD;
  if (hlo_shape_is_row_major(s)) return upload(g, k, from, n);
  char *t = hs_try_alloc(n);
  if (!t) return hs_fail(HS_E_NO_MEMORY, "%zu bytes to reorder an argument", n);
  cpu_place(s, t, from);
  hs_status st = upload(g, k, t, n);
  hs_free(t);
  return st;
}

static hs_status fetch_result(served *p, u32 k, char *to) {
  const gpu_program *g = p->own;
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

static hs_status placed(served *s) {
  gpu_program *g = s->own;
  if (g->lanes) return gpu_lanes_wait(g);
  return gpu_check(g->dev, g->dev->d.stream_wait(g->dev->stream), "copying the arguments");
}

static hs_status run(served *s, double *ms) { return gpu_exec_time(s->own, ms); }

static void power_begin(const served *s) {
  const gpu_program *g = s->own;
  gpu_power_begin(g->lanes ? NULL : g->dev);
}

static hs_status record(served *s, double seconds, serve_once *once, void *arg,
                        prof_recording **out) {
  return gpu_record(s->own, seconds, once, arg, out);
}

static hs_status count(served *s, serve_once *once, void *arg, prof_recording *r) {
  return gpu_count(s->own, once, arg, r);
}

static i64 mapped_bytes(const served *s) {
  const gpu_program *g = s->own;
  return (i64)(g->memory_bytes * g->ndevices);
}

static void dump_segments(const gpu_program *g, hs_buf *out) {
  if (!g->dev) return;
  u32 n = 0;
  for (i32 k = 0; g->segments && k < g->p->npos; k++)
    n += g->lanes ? g->segments[k].exec != NULL : g->segments[k].n > 0;
  if (g->lanes)
    hs_buf_printf(out, "launched on %u devices in step; sequences recorded on each: %u\n",
                  g->ndevices, n);
  else if (g->whole.n) hs_buf_puts(out, "recorded as one launch sequence\n");
  else hs_buf_printf(out, "%u recorded launch sequences\n", n);
  if (g->on_device || g->by_host) {
    hs_buf_printf(out, "loops and branches: %u on the device, %u driven by the host", g->on_device,
                  g->by_host);
    if (g->by_host)
      hs_buf_printf(out, " (%s)",
                    g->why_host ? g->why_host
                                : "the host computes in them, or buffers change places");
    hs_buf_printf(out, "\nround trips of the host in the last run: %llu\n",
                  (unsigned long long)g->round_trips);
  }
  gpu_library_dump(g, out);
}

static hs_status dump(served *s, const char *what, hs_buf *out) {
  const gpu_program *g = s->own;
  if (!strcmp(what, "schedule")) dump_segments(g, out);
  return emit_gpu_dump(g->unit, what, out);
}

hs_status gpu_serve_compile(const void *payload, size_t n, const int *fds, u32 nfds,
                            hs_buf *reply) {
  static const served_kind kind = {
      .device = true,
      .build = build,
      .step_text = step_text,
      .launches = launches,
      .free = free_program,
      .ready = ready,
      .place = place_argument,
      .placed = placed,
      .fetch = fetch_result,
      .run = run,
      .power_begin = power_begin,
      .power_end = gpu_power_end,
      .record = record,
      .count = count,
      .mapped_bytes = mapped_bytes,
      .dump = dump,
  };
  wire_reader r = {payload, n, false};
  gpu_options o = {.emulated = wire_get_u32(&r)};
  o.load = wire_get_u32(&r);
  o.sm = wire_get_u32(&r);
  o.libraries = (backend_libraries)wire_get_u32(&r);
  hs_str chip = wire_get_str(&r), driver = wire_get_str(&r);
  char *of = chip.n ? hs_format("%.*s", (int)chip.n, chip.p) : NULL;
  o.chip = of;
  char *path = driver.n ? hs_format("%.*s", (int)driver.n, driver.p) : NULL;
  o.driver = path;
  hs_status s = serve_compile(&kind, &o, &r, fds, nfds, reply);
  hs_free(path);
  hs_free(of);
  return s;
}

#else
hs_status gpu_serve_compile(const void *payload, size_t n, const int *fds, u32 nfds,
                            hs_buf *reply) {
  (void)payload, (void)n, (void)fds, (void)nfds, (void)reply;
  return hs_fail(HS_E_NOT_BUILT, "this build has no LLVM");
}
#endif
