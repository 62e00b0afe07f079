// exec.c — runs a program on its device: launches in stream order, loops and branches driven by
// the host, steps without a kernel on the host. See gpu.h.
//
// The host waits for the device only where it must know something (a condition, a branch's number)
// or do something (a step on the host). A loop whose number of iterations its code shows needs no
// condition. What lies between two such points is a fixed sequence of launches: from its second
// execution on it is recorded (a CUDA graph) and launched as one. A program that is one such
// sequence as a whole is one launch. Where the driver has conditional nodes, loops and branches are
// parts of sequences too (control.c).
//
// Loops may exchange buffers (cpu_move.swap): addresses then change from iteration to iteration,
// and only the program as a whole, which begins with all of them in their places, is recorded.
// Within a conditional node, whose launches are the same every time, they are copied.
#include "backends/gpu/gpu.h"

#include <stdlib.h>

#if HAVE_LLVM

enum { LEAST_RECORDED = 2 };

// ---- addresses ----------------------------------------------------------------------------------

void gpu_addresses_reset(gpu_program *g) {
  for (size_t k = 0; k < g->p->slots.n; k++) {
    const cpu_slot *s = &g->p->slots.v[k], *in = s->host ? &g->p->slots.v[s->host - 1] : NULL;
    if (s->kind == CPU_CONST) continue;
    size_t area = s->kind == CPU_ARG     ? g->args_at
                  : s->output || s->host ? g->out_at + (in ? in->offset : 0)
                                         : g->temp_at;
    g->addr[k] = g->memory + area + s->offset;
  }
}

cuda_ptr gpu_address(const gpu_program *g, u32 value) {
  return g->addr[g->p->values.v[value].slot];
}

static size_t bytes_of(const gpu_program *g, u32 value) { return g->p->values.v[value].bytes; }

hs_status gpu_copy(gpu_program *g, cuda_ptr to, cuda_ptr from, size_t n) {
  if (n == 0 || to == from) return HS_GOOD;
  g->launches++;
  return gpu_check(g->dev, g->dev->d.copy(to, from, n, g->dev->stream), "copying on the device");
}

// All moves of a block at once: sources that another move overwrites go through temporaries.
hs_status gpu_moves_run(gpu_program *g, const cpu_moves *m) {
  const cpu_program *p = g->p;
  for (size_t k = 0; k < m->n; k++)
    if (m->v[k].through_temp)
      HS_TRY(gpu_copy(g, g->addr[m->v[k].temp], gpu_address(g, m->v[k].src),
                      bytes_of(g, m->v[k].src)));
  for (size_t k = 0; k < m->n; k++) {
    const cpu_move *x = &m->v[k];
    u32 a = p->values.v[x->src].slot, b = p->values.v[x->dst].slot;
    if (x->swap && !g->depth) {
      cuda_ptr t = g->addr[a];
      g->addr[a] = g->addr[b];
      g->addr[b] = t;
    } else if (!x->through_temp) HS_TRY(gpu_copy(g, g->addr[b], g->addr[a], bytes_of(g, x->src)));
  }
  for (size_t k = 0; k < m->n; k++)
    if (m->v[k].through_temp)
      HS_TRY(gpu_copy(g, gpu_address(g, m->v[k].dst), g->addr[m->v[k].temp],
                      bytes_of(g, m->v[k].src)));
  return HS_GOOD;
}

// ---- kernels ------------------------------------------------------------------------------------

static hs_status launch_one(gpu_program *g, cuda_function *f, u32 blocks, u32 threads,
                            void **params, const char *what) {
  g->launches++;
  return gpu_check(
      g->dev, g->dev->d.launch(f, blocks, 1, 1, threads, 1, 1, 0, g->dev->stream, params, NULL),
      what);
}

hs_status gpu_launch(gpu_program *g, const cpu_step *s) {
  const gpu_kernel *x = &g->kernels[s->kernel_index];
  for (u32 k = 0; k < x->k->nupdates; k++) {
    u32 out = s->vals[s->nin + x->k->updates[k].out], in = s->vals[x->k->updates[k].in];
    HS_TRY(gpu_copy(g, gpu_address(g, out), gpu_address(g, in), bytes_of(g, out)));
  }
  enum { FEW = 32 };
  cuda_ptr few[FEW];
  void *few_params[FEW];
  u32 n = s->nvals + 2;  // the scratch block, the number of a launch
  u64 number;
  cuda_ptr *at = n > FEW ? hs_alloc(n * sizeof *at) : few;
  void **params = n > FEW ? hs_alloc(n * sizeof *params) : few_params;
  for (u32 k = 0; k < n; k++) params[k] = &at[k];
  params[n - 1] = &number;
  for (u32 k = 0; k < s->nvals; k++) at[k] = gpu_address(g, s->vals[k]);
  at[s->nvals] = s->scratch_slot == CPU_NONE ? 0 : g->addr[s->scratch_slot];
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < x->k->nbefore && hs_ok(st); k++) {
    const emit_gpu_launch *l = &x->k->before[k];
    number = l->number;
    st = launch_one(g, x->before[l->part], l->grid, l->block, params, s->instr->name);
  }
  if (hs_ok(st) && x->k->grid)
    st = launch_one(g, x->main, x->k->grid, x->k->block, params, s->instr->name);
  if (hs_ok(st) && x->k->finish_grid)
    st = launch_one(g, x->finish, x->k->finish_grid, x->k->finish_block, params, s->instr->name);
  if (n > FEW) hs_free(at), hs_free(params);
  return st;
}

// ---- the host's steps ---------------------------------------------------------------------------

// Where the step's values lie in the pinned copies: a place for each slot; constants have their
// own. Returns the bytes. bufs may be NULL.
static size_t stage(const gpu_program *g, const cpu_step *s, void **bufs) {
  size_t at = 0;
  for (u32 k = 0; k < s->nvals; k++) {
    const cpu_value *v = &g->p->values.v[s->vals[k]];
    u32 same = 0;
    while (same < k && g->p->values.v[s->vals[same]].slot != v->slot) same++;
    if (v->kind == CPU_CONST) {
      if (bufs) bufs[k] = (void *)(uintptr_t)v->data;
    } else if (same < k) {
      if (bufs) bufs[k] = bufs[same];
    } else {
      if (bufs) bufs[k] = g->host + at;
      at += block_align(g->p->slots.v[v->slot].bytes);
    }
  }
  return at;
}

static hs_status wait(gpu_program *g, const char *what) {
  return gpu_check(g->dev, g->dev->d.stream_wait(g->dev->stream), what);
}

hs_status gpu_host_begin(gpu_program *g, const cpu_step *s, void **bufs) {
  g->round_trips++;
  stage(g, s, bufs);
  for (u32 k = 0; k < s->nin; k++) {
    const cpu_value *v = &g->p->values.v[s->vals[k]];
    if (v->kind == CPU_CONST || v->bytes == 0) continue;
    GPU_TRY(g->dev,
            g->dev->d.copy_out(bufs[k], gpu_address(g, s->vals[k]), v->bytes, g->dev->stream),
            "copying operands to the host");
  }
  return wait(g, s->instr->name);
}

hs_status gpu_host_end(gpu_program *g, const cpu_step *s, void *const *bufs) {
  for (u32 k = s->nin; k < s->nvals; k++)
    if (bytes_of(g, s->vals[k]))
      GPU_TRY(g->dev,
              g->dev->d.copy_in(gpu_address(g, s->vals[k]), bufs[k], bytes_of(g, s->vals[k]),
                                g->dev->stream),
              "copying results from the host");
  return HS_GOOD;
}

static hs_status run_on_host(gpu_program *g, cpu_step *s) {
  HS_TRY(gpu_host_begin(g, s, s->bufs));
  HS_TRY(cpu_step_run(g->p, s, s->bufs, g->scratch));
  return gpu_host_end(g, s, s->bufs);
}

// A few bytes that the host has to know now.
static hs_status look_at(gpu_program *g, u32 value, size_t n, const void **out) {
  *out = g->predicate;
  g->round_trips++;
  GPU_TRY(g->dev, g->dev->d.copy_out(g->predicate, gpu_address(g, value), n, g->dev->stream),
          "reading a condition");
  return wait(g, "waiting for a condition");
}

// ---- steps --------------------------------------------------------------------------------------

hs_status gpu_loop_enter(gpu_program *g, const cpu_step *s) {
  u32 n = s->nin;
  for (u32 k = 0; k < n; k++)
    if (s->vals[n + k] != CPU_NONE)
      HS_TRY(gpu_copy(g, gpu_address(g, s->vals[n + k]), gpu_address(g, s->vals[k]),
                      bytes_of(g, s->vals[k])));
  return HS_GOOD;
}

hs_status gpu_decide(gpu_program *g, const cpu_step *s, i64 *out) {
  bool loop = s->kind == CPU_STEP_WHILE,
       two = !loop && hlo_operand(s->instr, 0)->shape->dtype == HLO_PRED;
  const void *at;
  HS_TRY(look_at(g, s->pred, loop || two ? 1 : sizeof(i32), &at));
  if (loop) return *out = *(const u8 *)at, HS_GOOD;
  i64 k = two ? !*(const u8 *)at : *(const i32 *)at;
  *out = k < 0 || k >= (i64)s->nblocks ? (i64)s->nblocks - 1 : k;
  return HS_GOOD;
}

static hs_status run_while(gpu_program *g, cpu_step *s) {
  HS_TRY(gpu_loop_enter(g, s));
  i64 known = gpu_trips(s);
  if (g->recording && gpu_loop_is_node(g, s)) return gpu_loop_record(g, s);
  for (i64 k = 0; known < 0 || k < known; k++) {
    if (known < 0) {
      i64 go;
      HS_TRY(gpu_block_run(g, &s->blocks[0]));
      HS_TRY(gpu_decide(g, s, &go));
      if (!go) return HS_GOOD;
    }
    HS_TRY(gpu_block_run(g, &s->blocks[1]));
    HS_TRY(gpu_moves_run(g, &s->blocks[1].moves));
  }
  return HS_GOOD;
}

static hs_status run_conditional(gpu_program *g, cpu_step *s) {
  i64 k;
  if (g->recording) return gpu_branches_record(g, s);
  HS_TRY(gpu_decide(g, s, &k));
  HS_TRY(gpu_block_run(g, &s->blocks[k]));
  return gpu_moves_run(g, &s->blocks[k].moves);
}

hs_status gpu_step_run(gpu_program *g, cpu_step *s) {
  gpu_call *call = g->kernels[s->kernel_index].call;
  if (gpu_call_chosen(call)) return gpu_call_run(g, s, call);
  return s->device ? gpu_launch(g, s) : run_on_host(g, s);
}

static hs_status run_step(gpu_program *g, cpu_step *s) {
  worker_doing = s->instr->name;
  if (s->kind == CPU_STEP_WHILE) return run_while(g, s);
  if (s->kind == CPU_STEP_COND) return run_conditional(g, s);
  if (gpu_is_probed(g)) HS_TRY(gpu_probe_begin(g, s->kernel_index));
  HS_TRY(gpu_step_run(g, s));
  return gpu_is_probed(g) ? gpu_probe_end(g) : HS_GOOD;
}

// ---- recorded segments --------------------------------------------------------------------------

static void find_segments(gpu_program *g, const cpu_block *b) {
  for (size_t k = 0; k < b->steps.n;) {
    i64 total = 0, m;
    u32 n = 0;
    while (k + n < b->steps.n && (m = gpu_fixed_launches(g, &b->steps.v[k + n])) >= 0 &&
           total + m <= GPU_MOST_RECORDED)
      total += m, n++;
    if (total >= LEAST_RECORDED) g->segments[b->steps.v[k].pos].n = n;
    for (size_t j = k; j < k + HS_MAX(n, 1u); j++)
      for (u32 c = 0; n == 0 && c < b->steps.v[j].nblocks; c++)
        find_segments(g, &b->steps.v[j].blocks[c]);
    k += HS_MAX(n, 1u);
  }
}

static void free_segment(gpu_program *g, gpu_segment *x) {
  if (x->exec) (void)g->dev->d.graph_exec_free(x->exec);
  *x = (gpu_segment){0};
}

void gpu_segments_free(gpu_program *g) {
  for (i32 k = 0; g->segments && k < g->p->npos; k++) free_segment(g, &g->segments[k]);
  free_segment(g, &g->whole);
}

// What can be recorded: anew, when it is known that the driver does less than it seemed to.
static void plan(gpu_program *g) {
  gpu_segments_free(g);
  if (g->ndevices == 1 && gpu_fixed_block(g, &g->p->entry) >= LEAST_RECORDED) {
    g->whole.n = 1;
  } else if (!g->p->swaps) {
    if (!g->segments) g->segments = HS_NEW_ARRAY(&g->arena, gpu_segment, (u32)g->p->npos + 1);
    find_segments(g, &g->p->entry);
  }
  if (g->ndevices == 1) gpu_control_count(g);
}

typedef hs_status enqueue_fn(gpu_program *, void *arg);

// From here on without conditional nodes.
static void without_nodes(gpu_program *g, const char *why) {
  if (!g->why_host) g->why_host = hs_strdup(why);
  plan(g);
}

// Records what fn enqueues. A driver that cannot do it is not asked again: then x->exec stays NULL.
// One that refuses conditional nodes is asked without them, at the next execution.
static hs_status record(gpu_program *g, gpu_segment *x, enqueue_fn *fn, void *arg) {
  const cuda_driver *d = &g->dev->d;
  cuda_graph *graph = NULL;
  cuda_result made = CUDA_OK;
  x->tried = true;
  if (d->capture_begin(g->dev->stream, CUDA_CAPTURE_THREAD_LOCAL) != CUDA_OK) {
    without_nodes(g, "the driver records no launch sequences");
    g->whole.tried = x->tried = true;
    return HS_GOOD;
  }
  bool had_nodes = !g->why_host;
  g->recording = true;
  g->nodes = 0;
  hs_status st = fn(g, arg);
  g->recording = false;
  cuda_result r = d->capture_end(g->dev->stream, &graph);
  if (hs_ok(st) && r == CUDA_OK && graph) made = d->graph_make(&x->exec, graph, 0);
  if (r != CUDA_OK || made != CUDA_OK) x->exec = NULL;
  if (graph) (void)d->graph_free(graph);
  if (cuda_sticky(r) || cuda_sticky(made)) g->dev->failed = true;
  bool refused = had_nodes && (g->why_host || (made != CUDA_OK && g->nodes));
  if (!refused || g->dev->failed) return st;
  hs_status_drop(st);
  without_nodes(g, "the driver makes no launch sequence with conditional nodes in it");
  return HS_GOOD;
}

static bool can_record(const gpu_program *g) {
  const cuda_driver *d = &g->dev->d;
  return g->runs > 0 && !g->recording && !gpu_is_probed(g) && d->capture_begin && d->capture_end &&
         d->graph_make && d->graph_launch && d->graph_free && d->graph_exec_free;
}

// Launches the segment if there is one, recording it first.
static hs_status launch_segment(gpu_program *g, gpu_segment *x, enqueue_fn *fn, void *arg,
                                bool *done) {
  *done = false;
  if (!x->n || !can_record(g)) return HS_GOOD;
  if (!x->tried) HS_TRY(record(g, x, fn, arg));
  if (!x->exec) return HS_GOOD;
  *done = true;
  g->graph_launches++;
  return gpu_check(g->dev, g->dev->d.graph_launch(x->exec, g->dev->stream),
                   "launching a recorded sequence");
}

typedef struct step_range {
  cpu_step *first;
  u32 n;
} step_range;

static hs_status enqueue_steps(gpu_program *g, void *arg) {
  const step_range *r = arg;
  for (u32 k = 0; k < r->n; k++) HS_TRY(run_step(g, &r->first[k]));
  return HS_GOOD;
}

hs_status gpu_block_run(gpu_program *g, cpu_block *b) {
  for (size_t k = 0; k < b->steps.n;) {
    cpu_step *s = &b->steps.v[k];
    gpu_segment *x = g->segments ? &g->segments[s->pos] : NULL;
    bool done = false;
    if (x && x->n) HS_TRY(launch_segment(g, x, enqueue_steps, &(step_range){s, x->n}, &done));
    if (!done) HS_TRY(run_step(g, s));
    k += done ? x->n : 1;
  }
  return HS_GOOD;
}

bool gpu_segment_is(const gpu_program *g, const cpu_step *s, u32 *n) {
  const gpu_segment *x = g->segments ? &g->segments[s->pos] : NULL;
  if (!x || !x->n || !can_record(g) || (x->tried && !x->exec)) return false;
  *n = x->n;
  return true;
}

hs_status gpu_segment_run(gpu_program *g, cpu_step *s) {
  gpu_segment *x = &g->segments[s->pos];
  step_range r = {s, x->n};
  bool done = false;
  HS_TRY(launch_segment(g, x, enqueue_steps, &r, &done));
  return done ? HS_GOOD : enqueue_steps(g, &r);
}

// ---- programs -----------------------------------------------------------------------------------

static void most_needed(const gpu_program *g, const cpu_block *b, size_t *host, size_t *scratch) {
  for (size_t k = 0; k < b->steps.n; k++) {
    const cpu_step *s = &b->steps.v[k];
    for (u32 j = 0; j < s->nblocks; j++) most_needed(g, &s->blocks[j], host, scratch);
    if (s->kernel_index == CPU_NONE || (s->device && !gpu_collective_is(s))) continue;
    *host = HS_MAX(*host, stage(g, s, NULL));
    *scratch = HS_MAX(*scratch, s->scratch_bytes);
  }
}

hs_status gpu_exec_prepare(gpu_program *g) {
  size_t host = 0, scratch = 0;
  void *pinned;
  most_needed(g, &g->p->entry, &host, &scratch);
  if (host) {
    GPU_TRY(g->dev, g->dev->d.host_alloc(&pinned, host, CUDA_HOST_PORTABLE),
            "memory for what the host computes");
    g->host = pinned;
  }
  GPU_TRY(g->dev, g->dev->d.host_alloc(&g->predicate, GPU_ALIGN, CUDA_HOST_PORTABLE),
          "memory for conditions");
  if (scratch && posix_memalign((void **)&g->scratch, 64, scratch) != 0)
    return hs_fail(HS_E_NO_MEMORY, "%zu bytes for what the host computes", scratch);
  GPU_TRY(g->dev, g->dev->d.event_new(&g->from, CUDA_EVENT_DEFAULT), "making an event");
  GPU_TRY(g->dev, g->dev->d.event_new(&g->to, CUDA_EVENT_DEFAULT), "making an event");
  gpu_addresses_reset(g);
  // what devices in step record has no loops that one of them decides alone
  if (g->ndevices > 1) g->why_host = hs_strdup("devices run in step");
  else HS_TRY(gpu_control_prepare(g));
  plan(g);
  return HS_GOOD;
}

static hs_status enqueue_all(gpu_program *g, void *arg) {
  (void)arg;
  HS_TRY(gpu_block_run(g, &g->p->entry));
  return gpu_moves_run(g, &g->p->entry.moves);
}

hs_status gpu_exec_run(gpu_program *g) {
  bool done = false;
  g->launches = g->graph_launches = g->round_trips = 0;
  // results of a recorded run lie where that run left them
  if (!g->whole.exec || !can_record(g)) gpu_addresses_reset(g);
  HS_TRY(launch_segment(g, &g->whole, enqueue_all, NULL, &done));
  if (!done) HS_TRY(enqueue_all(g, NULL));
  g->runs++;
  return HS_GOOD;
}

hs_status gpu_exec_time(gpu_program *g, double *ms) {
  gpu_device *dev = g->dev;
  float between = 0;
  if (gpu_is_probed(g)) HS_TRY(gpu_probe_run(g));
  cpu_exec_seed(g->p);
  GPU_TRY(dev, dev->d.event_record(g->from, dev->stream), "recording an event");
  if (g->lanes) HS_TRY(gpu_lanes_fork(g));
  HS_TRY(g->lanes ? gpu_lanes_run(g) : gpu_exec_run(g));
  if (g->lanes) HS_TRY(gpu_lanes_join(g));
  GPU_TRY(dev, dev->d.event_record(g->to, dev->stream), "recording an event");
  GPU_TRY(dev, dev->d.event_wait(g->to), "running");
  GPU_TRY(dev, dev->d.event_elapsed(&between, g->from, g->to), "the time of a run");
  *ms = (double)between;
  return HS_GOOD;
}

#endif
