// serve_run.c — worker side: arguments in, runs, results out.
//
// Arguments lie in shared memory and the plug-in is told that they never change (immutable zero
// copy): one that can read host memory uses them where they are, so a gigabyte of arguments is
// copied once, by the shell. Donated arguments are passed in the shared memory itself when there is
// one run on one device (mutable zero copy), else copied again before each run, outside of the
// measured time; all others are declared not donatable and live for the whole request. Results of
// the last run are read straight into the shared block.
#include "backends/pjrt/serve.h"

worker_handler pjrt_serve_run;

typedef struct run {
  const pjs_program *g;
  const serve_map *args;
  const i64 *offset;  // [device * nargs + argument] in args
  pj_device *const *devices;
  pj_buffer **in, **out;  // [device * nargs + k], [device * nouts + k]
  pj_event **host_done;   // like `in`: the host memory is free again
  pj_buffer ***in_lists, ***out_lists;
  pj_event **done;
  i64 *keep;
  u32 nkeep;
  bool give;  // donated arguments are not needed again
} run;

static hs_status destroy_buffer(pj_buffer **b) {
  if (!*b) return HS_GOOD;
  pj_buffer_arg d = PJ_ARGS(pj_buffer_arg, buffer, .buffer = *b);
  *b = NULL;
  return pj_do(&pjs.plugin, HS_E_RUN, PJ_Buffer_Destroy, &d);
}

static bool row_major(const pjs_array *a) {
  for (u32 k = 0; k < a->rank; k++)
    if (a->minor_to_major[k] != (i64)(a->rank - 1 - k)) return false;
  return true;
}

static hs_status make_argument(run *r, u32 device, u32 k) {
  const pjs_array *a = &r->g->arg[k];
  size_t at = (size_t)device * r->g->nargs + k;
  bool donated = r->g->donated[k];
  pj_layout layout = PJ_ARGS(pj_layout, type,
                             .tiled = {.struct_size = PJ_SIZE(pj_tiled, ntiles),
                                       .minor_to_major = a->minor_to_major,
                                       .n = a->rank});
  pj_from_host h =
      PJ_ARGS(pj_from_host, buffer, .client = pjs.client, .data = r->args->p + r->offset[at],
              .type = a->type, .dims = a->dims, .rank = a->rank,
              .semantics = !donated  ? PJ_IMMUTABLE_ZERO_COPY
                           : r->give ? PJ_MUTABLE_ZERO_COPY
                                     : PJ_COPY_DURING_CALL,
              .device = r->devices[device], .device_layout = row_major(a) ? NULL : &layout);
  hs_status s = pj_do(&pjs.plugin, HS_E_RUN, PJ_Client_BufferFromHostBuffer, &h);
  // the newest of the three: older plug-ins make a copy
  if (!hs_ok(s) && h.semantics == PJ_MUTABLE_ZERO_COPY) {
    hs_status_drop(s);
    h.semantics = PJ_COPY_DURING_CALL;
    s = pj_do(&pjs.plugin, HS_E_RUN, PJ_Client_BufferFromHostBuffer, &h);
  }
  HS_TRY(s);
  r->in[at] = h.buffer;
  if (!donated || r->give) {
    r->host_done[at] = h.done;
    return HS_GOOD;
  }
  return pj_await(&pjs.plugin, HS_E_RUN, h.done);
}

static hs_status place_arguments(run *r, bool donated) {
  worker_doing = "placing arguments";
  for (u32 d = 0; d < r->g->ndevices; d++)
    for (u32 k = 0; k < r->g->nargs; k++)
      if (r->g->donated[k] == donated) {
        HS_TRY(destroy_buffer(&r->in[(size_t)d * r->g->nargs + k]));
        HS_TRY(make_argument(r, d, k));
      }
  return HS_GOOD;
}

static hs_status drop_outputs(run *r) {
  for (size_t k = 0; k < (size_t)r->g->ndevices * r->g->nouts; k++)
    HS_TRY(destroy_buffer(&r->out[k]));
  return HS_GOOD;
}

// One execution, from the call until every device is done. Nothing else is measured.
static hs_status execute(run *r, double *ms) {
  pj_execute_options o =
      PJ_ARGS(pj_execute_options, incarnations, .keep = r->keep, .nkeep = r->nkeep);
  pj_execute e =
      PJ_ARGS(pj_execute, device, .executable = r->g->loaded, .options = &o,
              .arguments = (pj_buffer *const *const *)r->in_lists, .ndevices = r->g->ndevices,
              .nargs = r->g->nargs, .outputs = (pj_buffer * *const *)r->out_lists, .done = r->done);
  worker_doing = "running";
  u64 t0 = hs_now_ns();
  hs_status s = pj_do(&pjs.plugin, HS_E_RUN, PJ_LoadedExecutable_Execute, &e);
  for (u32 d = 0; hs_ok(s) && d < r->g->ndevices; d++)
    s = pj_await(&pjs.plugin, HS_E_RUN, r->done[d]);
  *ms = (double)(hs_now_ns() - t0) / 1e6;
  return s;
}

static hs_status measured_run(void *arg, double *ms) {
  run *r = arg;
  if (r->give) return hs_fail(HS_E_INTERNAL, "a second run after arguments were donated");
  HS_TRY(drop_outputs(r));
  HS_TRY(place_arguments(r, true));
  return execute(r, ms);
}

// Narrow integers come one to a byte, and plug-ins do not agree on the upper bits; literals hold
// them sign-extended.
static void widen(const pjs_array *a, char *p) {
  hlo_dtype t = 1;
  while (t < HLO_DTYPE_COUNT && pj_type((int)t) != a->type) t++;
  if (t == HLO_DTYPE_COUNT || !hlo_dtype_is_integer(t) || hlo_dtype_bits(t) >= 8) return;
  int bits = hlo_dtype_bits(t);
  bool is_signed = hlo_dtype_is_signed(t);
  for (size_t k = 0; k < a->bytes; k++) {
    int v = p[k] & ((1 << bits) - 1);
    p[k] = (char)(is_signed && v >> (bits - 1) ? v - (1 << bits) : v);
  }
}

// Dense and row-major, whatever the device's layout is.
static hs_status fetch(pj_buffer *b, const pjs_array *a, char *to) {
  i64 order[HLO_MAX_RANK];
  for (u32 k = 0; k < a->rank; k++) order[k] = a->rank - 1 - k;
  pj_layout layout = PJ_ARGS(
      pj_layout, type,
      .tiled = {.struct_size = PJ_SIZE(pj_tiled, ntiles), .minor_to_major = order, .n = a->rank});
  pj_to_host h = PJ_ARGS(pj_to_host, event, .src = b, .layout = &layout);
  HS_TRY(pj_do(&pjs.plugin, HS_E_RUN, PJ_Buffer_ToHostBuffer, &h));
  HS_TRY(pj_await(&pjs.plugin, HS_E_RUN, h.event));
  if (h.n != a->bytes)
    return hs_fail(HS_E_RUN, "the plug-in has %zu bytes for a result of %zu", h.n, a->bytes);
  h.dst = to;
  h.event = NULL;
  HS_TRY(pj_do(&pjs.plugin, HS_E_RUN, PJ_Buffer_ToHostBuffer, &h));
  HS_TRY(pj_await(&pjs.plugin, HS_E_RUN, h.event));
  widen(a, to);
  return HS_GOOD;
}

static hs_status fetch_all(run *r, const serve_map *out) {
  const pjs_program *g = r->g;
  worker_doing = "reading results";
  if (pjs_block(g->nouts, g->out) * g->ndevices > out->n)
    return hs_fail(HS_E_INTERNAL, "result block too small");
  size_t at = 0;
  for (u32 d = 0; d < g->ndevices; d++)
    for (u32 k = 0; k < g->nouts; at += block_align(g->out[k++].bytes))
      HS_TRY(fetch(r->out[(size_t)d * g->nouts + k], &g->out[k], out->p + at));
  return HS_GOOD;
}

static hs_status pick_devices(run *r) {
  pj_loaded_devices d = PJ_ARGS(pj_loaded_devices, n, .executable = r->g->loaded);
  r->devices = pjs.devices;
  if (pj_find(&pjs.plugin, PJ_LoadedExecutable_AddressableDevices)) {
    HS_TRY(pj_do(&pjs.plugin, HS_E_RUN, PJ_LoadedExecutable_AddressableDevices, &d));
    r->devices = d.v;
    if (d.n != r->g->ndevices)
      return hs_fail(HS_E_RUN, "the executable runs on %zu devices, the module on %u", d.n,
                     r->g->ndevices);
  }
  return HS_GOOD;
}

static void alloc_run(run *r) {
  const pjs_program *g = r->g;
  size_t in = (size_t)g->ndevices * g->nargs, out = (size_t)g->ndevices * g->nouts;
  r->in = hs_calloc(in + 1, sizeof *r->in);
  r->host_done = hs_calloc(in + 1, sizeof *r->host_done);
  r->out = hs_calloc(out + 1, sizeof *r->out);
  r->in_lists = hs_calloc(g->ndevices + 1u, sizeof *r->in_lists);
  r->out_lists = hs_calloc(g->ndevices + 1u, sizeof *r->out_lists);
  r->done = hs_calloc(g->ndevices + 1u, sizeof(pj_event *));
  r->keep = hs_calloc(g->nargs + 1u, sizeof *r->keep);
  for (u32 d = 0; d < g->ndevices; d++) {
    r->in_lists[d] = r->in + (size_t)d * g->nargs;
    r->out_lists[d] = r->out + (size_t)d * g->nouts;
  }
  for (u32 k = 0; k < g->nargs; k++)
    if (!g->donated[k]) r->keep[r->nkeep++] = k;
}

// The arguments' memory is unmapped next: destroys the buffers, then waits for the plug-in's events
// that it no longer uses that memory.
static hs_status free_run(run *r) {
  size_t in = (size_t)r->g->ndevices * r->g->nargs;
  hs_status s = drop_outputs(r);
  for (size_t k = 0; k < in && hs_ok(s); k++) s = destroy_buffer(&r->in[k]);
  for (size_t k = 0; k < in && hs_ok(s); k++) s = pj_await(&pjs.plugin, HS_E_RUN, r->host_done[k]);
  void *parts[] = {r->in, r->host_done, r->out, r->in_lists, r->out_lists, r->done, r->keep};
  for (size_t k = 0; k < HS_COUNT(parts); k++) hs_free(parts[k]);
  return s;
}

static hs_status run_session(run *r, const backend_run_options *o, const serve_map *out,
                             hs_buf *reply) {
  backend_timing t = {.dispatch_ms = -1};
  u64 t0 = hs_now_ns();
  HS_TRY(place_arguments(r, false));
  HS_TRY(place_arguments(r, true));
  t.transfer_ms = (double)(hs_now_ns() - t0) / 1e6;
  HS_TRY(execute(r, &t.first_ms));
  t0 = hs_now_ns();
  if (out->p) HS_TRY(fetch_all(r, out));
  t.transfer_ms += (double)(hs_now_ns() - t0) / 1e6;
  hs_buf samples = {0};
  hs_status s = serve_measure(o, t.first_ms, measured_run, r, &samples);
  t.runs = (u32)(samples.n / sizeof(double));
  t.samples_ms = (double *)(void *)samples.p;
  if (hs_ok(s)) block_put_timing(reply, &t);
  hs_buf_free(&samples);
  return s;
}

// Payload: program, run options, offsets of every device's arguments. Descriptors: arguments, and
// results when wanted.
hs_status pjrt_serve_run(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  wire_reader q = {payload, n, false};
  const pjs_program *g = pjs_find((u64)wire_get_i64(&q));
  const backend_run_options o = block_get_options(&q);
  if (!g || nfds < 1) return hs_fail(HS_E_INTERNAL, "the worker has no such program");
  if (!g->loaded)
    return hs_fail(HS_E_UNSUPPORTED, "the module was compiled for a device that is not here");
  u32 total = g->ndevices * g->nargs;
  i64 *offset = hs_calloc(total + 1u, sizeof *offset);
  wire_get(&q, offset, total * sizeof *offset);
  serve_map args = {0}, out = {0};
  hs_status s =
      q.bad ? hs_fail(HS_E_INTERNAL, "bad run request") : serve_map_fd(fds[0], true, &args);
  if (hs_ok(s) && nfds > 1) s = serve_map_fd(fds[1], true, &out);
  for (u32 k = 0; k < total && hs_ok(s); k++)
    if (offset[k] < 0 || (size_t)offset[k] + g->arg[k % g->nargs].bytes > args.n)
      s = hs_fail(HS_E_INTERNAL, "argument block too small");
  if (hs_ok(s)) {
    run r = {.g = g,
             .args = &args,
             .offset = offset,
             .give = g->ndevices == 1 && o.max_runs <= 1 && !o.warmup && !o.want_kernel_times};
    s = pick_devices(&r);
    if (hs_ok(s)) {
      alloc_run(&r);
      pjs.running = g;
      s = run_session(&r, &o, &out, reply);
      pjs.running = NULL;
      hs_status freed = free_run(&r);
      if (hs_ok(s)) s = freed;
      else hs_status_drop(freed);
    }
  }
  hs_free(offset);
  serve_unmap(&args);
  serve_unmap(&out);
  return s;
}
