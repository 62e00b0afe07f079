// lanes.c — programs for several devices: a lane for each, which run in step. See gpu.h.
//
// A lane is a program of its own on a device of its own: context, stream, code that was loaded
// there, memory, addresses. Steps, buffers and compiled code are those of the first lane. One
// thread enqueues each step on all devices that are `here` (backends/cpu/in_step.h) before the
// next one; streams run beside each other and meet where a collective has them meet. All devices
// get the same arguments, and the results are the first one's, as with the cpu backend.
//
// Steps between collectives are recorded, on each device its own sequence (a CUDA graph), and
// launched where all devices that are here have it. Collectives are not: what NCCL's calls leave
// behind in a recorded sequence was not tried on a device. Nor are loops that a device decides.
#include "backends/cpu/in_step.h"
#include "backends/gpu/gpu.h"

#if HAVE_LLVM

// ---- devices ------------------------------------------------------------------------------------

static hs_status too_few(const gpu_program *g, u32 here, bool emulated) {
  if (emulated)
    return hs_with_note(hs_fail(HS_E_UNSUPPORTED,
                                "the module is for %u devices, and the emulation has %u",
                                g->ndevices, here),
                        "`backend cpu` and `backend interp` have as many as it wants");
  return hs_with_note(
      hs_fail(HS_E_UNSUPPORTED, "the module is for %u devices, and here %s %u", g->ndevices,
              here == 1 ? "is" : "are", here),
      "`backend gpu-emulated` runs it on this CPU, `target h200` without a device compiles it to "
      "be looked at; CUDA_VISIBLE_DEVICES may hide devices");
}

static gpu_program *new_lane(gpu_program *g, u32 number, gpu_device *dev) {
  gpu_program *lane = hs_calloc(1, sizeof *lane);
  lane->first = g;
  lane->number = number;
  lane->dev = dev;
  lane->replicas = g->replicas, lane->partitions = g->partitions, lane->ndevices = g->ndevices;
  lane->libraries = g->libraries;
  lane->sm = g->sm;
  return lane;
}

hs_status gpu_lanes_open(gpu_program *g, const gpu_options *o) {
  u32 here, most = GPU_MOST_DEVICES;
  if (g->ndevices == 1) return HS_GOOD;
  HS_TRY(gpu_device_count(g->dev, &here));
  if (g->ndevices > HS_MIN(here, most)) return too_few(g, HS_MIN(here, most), o->emulated);
  g->lanes = HS_NEW_ARRAY(&g->arena, gpu_program *, g->ndevices);
  g->here = HS_NEW_ARRAY(&g->arena, bool, g->ndevices);
  g->lanes[0] = g;
  for (u32 d = 1; d < g->ndevices; d++) {
    gpu_device *dev;
    HS_TRY(gpu_device_get(o->emulated, o->driver, d, &dev));
    if (dev->sm != g->dev->sm)
      return hs_fail(HS_E_UNSUPPORTED, "device %u is sm_%u, device 0 sm_%u: one code is for all", d,
                     dev->sm, g->dev->sm);
    g->lanes[d] = new_lane(g, d, dev);
  }
  return gpu_device_use(g->dev);
}

hs_status gpu_lanes_load(gpu_program *g, hs_status (*load)(gpu_program *lane)) {
  for (u32 d = 0; d < g->ndevices; d++) {
    gpu_program *lane = g->lanes ? g->lanes[d] : g;
    lane->p = g->p;
    lane->unit = g->unit;
    HS_TRY(gpu_device_use(lane->dev));
    HS_TRY(load(lane));
  }
  hs_buf_free(&g->code);
  return gpu_device_use(g->dev);
}

// ---- steps --------------------------------------------------------------------------------------

static hs_status turn(gpu_program *g, u32 device, gpu_program **lane) {
  *lane = g->lanes[device];
  g->p->device = device;
  return gpu_device_use((*lane)->dev);
}

static hs_status enter_on(void *ctx, u32 device, cpu_step *s) {
  gpu_program *lane;
  HS_TRY(turn(ctx, device, &lane));
  return gpu_loop_enter(lane, s);
}

static hs_status decide_on(void *ctx, u32 device, const cpu_step *s, i64 *out) {
  gpu_program *lane;
  HS_TRY(turn(ctx, device, &lane));
  return gpu_decide(lane, s, out);
}

static hs_status moves_on(void *ctx, u32 device, const cpu_moves *m) {
  gpu_program *lane;
  HS_TRY(turn(ctx, device, &lane));
  return gpu_moves_run(lane, m);
}

// The first device's kernels are those that are timed.
static hs_status each_its_own(gpu_program *g, cpu_step *s) {
  for (u32 d = 0; d < g->ndevices; d++) {
    gpu_program *lane;
    if (!g->here[d]) continue;
    HS_TRY(turn(g, d, &lane));
    if (lane->probes) HS_TRY(gpu_probe_begin(lane, s->kernel_index));
    HS_TRY(gpu_step_run(lane, s));
    if (lane->probes) HS_TRY(gpu_probe_end(lane));
  }
  return HS_GOOD;
}

static hs_status all_together(gpu_program *g, cpu_step *s) {
  HS_TRY(gpu_device_use(g->dev));
  if (g->probes) HS_TRY(gpu_probe_begin(g, s->kernel_index));
  HS_TRY(gpu_collective_run(g, s));
  HS_TRY(gpu_device_use(g->dev));
  return g->probes ? gpu_probe_end(g) : HS_GOOD;
}

// Launches the sequence that begins at the step, on all devices that are here; n: its steps, 0: one
// of them has none.
static hs_status launch_recorded(gpu_program *g, cpu_step *s, u32 *n) {
  u32 one = 0;
  *n = 0;
  for (u32 d = 0; d < g->ndevices; d++) {
    if (!g->here[d]) continue;
    bool is = gpu_segment_is(g->lanes[d], s, &one);
    if (!is || (*n && one != *n)) return *n = 0, HS_GOOD;
    *n = one;
  }
  for (u32 d = 0; d < g->ndevices && *n; d++) {
    gpu_program *lane;
    if (!g->here[d]) continue;
    HS_TRY(turn(g, d, &lane));
    HS_TRY(gpu_segment_run(lane, s));
  }
  return HS_GOOD;
}

static hs_status run_block(void *ctx, cpu_block *b) {
  gpu_program *g = ctx;
  const cpu_in_step x = {g->ndevices, g->here, g, enter_on, decide_on, run_block, moves_on};
  for (size_t k = 0; k < b->steps.n; k++) {
    cpu_step *s = &b->steps.v[k];
    u32 recorded;
    worker_doing = s->instr->name;
    HS_TRY(launch_recorded(g, s, &recorded));
    if (recorded) {
      k += recorded - 1;
      continue;
    }
    if (s->kind == CPU_STEP_WHILE) HS_TRY(cpu_while_in_step(&x, s, gpu_trips(s)));
    else if (s->kind == CPU_STEP_COND) HS_TRY(cpu_branches_in_step(&x, s));
    else HS_TRY(gpu_collective_is(s) ? all_together(g, s) : each_its_own(g, s));
  }
  return HS_GOOD;
}

// ---- runs ---------------------------------------------------------------------------------------

hs_status gpu_lanes_run(gpu_program *g) {
  for (u32 d = 0; d < g->ndevices; d++) {
    gpu_program *lane = g->lanes[d];
    lane->launches = lane->graph_launches = lane->round_trips = 0;
    gpu_addresses_reset(lane);
    g->here[d] = true;
  }
  HS_TRY(run_block(g, &g->p->entry));
  for (u32 d = 0; d < g->ndevices; d++) HS_TRY(moves_on(g, d, &g->p->entry.moves));
  for (u32 d = 0; d < g->ndevices; d++) g->lanes[d]->runs++;
  return gpu_device_use(g->dev);
}

hs_status gpu_lanes_fork(gpu_program *g) {
  for (u32 d = 1; d < g->ndevices; d++) {
    gpu_program *lane;
    HS_TRY(turn(g, d, &lane));
    GPU_TRY(lane->dev, lane->dev->d.stream_after(lane->dev->stream, g->from, 0),
            "beginning a run on all devices");
  }
  return gpu_device_use(g->dev);
}

hs_status gpu_lanes_join(gpu_program *g) {
  for (u32 d = 1; d < g->ndevices; d++) {
    gpu_program *lane;
    HS_TRY(turn(g, d, &lane));
    GPU_TRY(lane->dev, lane->dev->d.event_record(lane->to, lane->dev->stream),
            "recording an event");
    HS_TRY(gpu_device_use(g->dev));
    GPU_TRY(g->dev, g->dev->d.stream_after(g->dev->stream, lane->to, 0),
            "ending a run on all devices");
  }
  return HS_GOOD;
}

hs_status gpu_lanes_wait(gpu_program *g) {
  for (u32 d = 1; d < g->ndevices; d++) {
    gpu_program *lane;
    HS_TRY(turn(g, d, &lane));
    GPU_TRY(lane->dev, lane->dev->d.stream_wait(lane->dev->stream), "waiting for a device");
  }
  HS_TRY(gpu_device_use(g->dev));
  return gpu_check(g->dev, g->dev->d.stream_wait(g->dev->stream), "waiting for a device");
}

#endif
