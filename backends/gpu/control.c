// control.c — loops and branches as parts of recorded launch sequences: conditional nodes of
// CUDA's graphs, which run what they hold as a kernel before them said. See gpu.h.
//
// A loop is: its condition, a kernel that sets the node's condition from what that computed, a node
// of kind while; in its body the loop's body, its moves, its condition, and that kernel again.
// Where the code shows how many iterations there are, a counter takes the condition's place, and
// loops of few launches stay what they were: all iterations one after the other. A branch is a node
// of kind if for each branch, all of whose conditions are set before the first of them runs, as
// that may write over the number.
//
// A node's body is captured in a stream of its own while its graph is still being captured in
// another; the stream goes on behind the node (cuStreamUpdateCaptureDependencies). Bodies hold
// kernels, copies and fills on the device, and nodes. One that nothing is in gets a fill, as
// drivers before CUDA 12.8 do not come back from an empty one.
//
// Nodes that loop came with CUDA 12.4. A driver that is older, or refuses, leaves loops to the
// host: the program says why.
#include "backends/gpu/gpu.h"
#include "core/analysis/cost.h"

#include <stdio.h>

#if HAVE_LLVM

// Of a device, made when the first program needs it.
struct gpu_control {
  char *why;  // it cannot be used
  cuda_module *module;
  cuda_function *set[EMIT_GPU_CONTROLS];
  cuda_stream *stream[GPU_MOST_DEPTH];  // that bodies are captured in, by depth
};

// ---- what the driver can do ---------------------------------------------------------------------
static bool has_nodes(const cuda_driver *d) {
  return d->version >= CUDA_CONDITIONS_SINCE && d->capture_begin && d->capture_info &&
         d->capture_after && d->capture_into && d->graph_add && d->graph_condition;
}

static hs_status open_control(gpu_device *dev, gpu_control *c) {
  const cuda_driver *d = &dev->d;
  hs_buf code = {0};
  if (!has_nodes(d))
    return hs_fail(HS_E_NOT_BUILT,
                   "the driver (CUDA %d.%d) has no conditional nodes, which came with 12.4",
                   d->version / 1000, d->version % 1000 / 10);
  HS_TRY(emit_gpu_control(&(emit_gpu_options){.sm = dev->sm}, dev->bitcode, &code));
  HS_TRY(gpu_code_load(dev, &code, "loading the kernels of loops", &c->module));
  for (u32 k = 0; k < EMIT_GPU_CONTROLS; k++)
    GPU_TRY(dev, d->module_function(&c->set[k], c->module, emit_gpu_controls[k]),
            emit_gpu_controls[k]);
  for (u32 k = 0; k < GPU_MOST_DEPTH; k++)
    GPU_TRY(dev, d->stream_new(&c->stream[k], CUDA_STREAM_NON_BLOCKING), "making a stream");
  return HS_GOOD;
}

static bool is_control(const cpu_step *s) {
  return s->kind == CPU_STEP_WHILE || s->kind == CPU_STEP_COND;
}

static bool has_control(const cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++)
    if (is_control(&b->steps.v[k])) return true;
  return false;
}

bool gpu_control_is_in(const cpu_program *p) { return has_control(&p->entry); }

hs_status gpu_control_prepare(gpu_program *g) {
  gpu_device *dev = g->dev;
  if (!gpu_control_is_in(g->p)) return HS_GOOD;
  if (!dev->control) {
    dev->control = hs_calloc(1, sizeof *dev->control);
    hs_status s = open_control(dev, dev->control);
    if (!hs_ok(s) && dev->failed) return s;
    if (!hs_ok(s)) dev->control->why = hs_strdup(s.err->message);
    hs_status_drop(s);
  }
  if (dev->control->why) g->why_host = hs_strdup(dev->control->why);
  return HS_GOOD;
}

// ---- what can be part of a sequence -------------------------------------------------------------
i64 gpu_trips(const cpu_step *s) { return hlo_trip_count_pattern(s->instr, NULL, NULL, NULL); }

static i64 fixed_step(const gpu_program *g, const cpu_step *s, u32 depth);

static i64 fixed_block(const gpu_program *g, const cpu_block *b, u32 depth) {
  i64 n = (i64)b->moves.n;
  for (size_t k = 0; k < b->steps.n; k++) {
    i64 m = fixed_step(g, &b->steps.v[k], depth);
    if (m < 0 || n + m > GPU_MOST_RECORDED) return -1;
    n += m;
  }
  return n;
}

static bool may_be_node(const gpu_program *g, u32 depth) {
  return !g->why_host && depth < GPU_MOST_DEPTH;
}

// All iterations, one after the other; -1: they are too many, or not known.
static i64 fixed_iterations(const gpu_program *g, const cpu_step *s, u32 depth) {
  i64 n = gpu_trips(s), body = n < 0 ? -1 : fixed_block(g, &s->blocks[1], depth);
  return body < 0 || (n > 0 && body > GPU_MOST_RECORDED / n) ? -1 : n * body;
}

static i64 fixed_loop(const gpu_program *g, const cpu_step *s, u32 depth) {
  i64 all = fixed_iterations(g, s, depth);
  if (all >= 0) return s->nin + all;
  if (!may_be_node(g, depth)) return -1;
  i64 body = fixed_block(g, &s->blocks[1], depth + 1), first = 0, again = 0;
  if (gpu_trips(s) < 0) {
    first = fixed_block(g, &s->blocks[0], depth);
    again = fixed_block(g, &s->blocks[0], depth + 1);
  }
  return body < 0 || first < 0 || again < 0 ? -1 : s->nin + body + first + again + 3;
}

static i64 fixed_branches(const gpu_program *g, const cpu_step *s, u32 depth) {
  i64 n = 0;
  for (u32 k = 0; k < s->nblocks; k++) {
    i64 m = may_be_node(g, depth) ? fixed_block(g, &s->blocks[k], depth + 1) : -1;
    if (m < 0) return -1;
    n += m + 3;
  }
  return n;
}

static i64 fixed_step(const gpu_program *g, const cpu_step *s, u32 depth) {
  if (s->kind == CPU_STEP_COND) return fixed_branches(g, s, depth);
  if (s->kind == CPU_STEP_WHILE) return fixed_loop(g, s, depth);
  if (g->ndevices > 1 && gpu_collective_is(s)) return -1;
  return s->device && gpu_call_recorded(g->kernels[s->kernel_index].call)
             ? (i64)((const emit_gpu_kernel *)s->device)->nbefore + 1 + (i64)s->kernel->nupdates +
                   (s->kernel->finish_chunks > 0)
             : -1;
}

i64 gpu_fixed_launches(const gpu_program *g, const cpu_step *s) { return fixed_step(g, s, 0); }

i64 gpu_fixed_block(const gpu_program *g, const cpu_block *b) { return fixed_block(g, b, 0); }

bool gpu_loop_is_node(const gpu_program *g, const cpu_step *s) {
  return fixed_iterations(g, s, g->depth) < 0;
}

static void count(gpu_program *g, const cpu_block *b, bool recorded) {
  for (size_t k = 0; k < b->steps.n; k++) {
    const cpu_step *s = &b->steps.v[k];
    if (!is_control(s)) continue;
    bool in = recorded || (g->segments && gpu_fixed_launches(g, s) >= 0);
    *(in ? &g->on_device : &g->by_host) += 1;
    for (u32 j = 0; j < s->nblocks; j++) count(g, &s->blocks[j], in);
  }
}

void gpu_control_count(gpu_program *g) {
  g->on_device = g->by_host = 0;
  count(g, &g->p->entry, g->whole.n > 0);
}

void gpu_control_note(const gpu_program *g, char *out, size_t n) {
  *out = 0;
  if (g->by_host)
    (void)snprintf(out, n, "; the host drives loops%s%s", g->why_host ? ": " : "",
                   g->why_host ? g->why_host : "");
  else if (g->on_device)
    (void)snprintf(out, n, "; loops, else on the device, are driven by the host here");
}

// ---- recording ----------------------------------------------------------------------------------

// What the driver refuses is no error of the run: the sequence is recorded without.
static hs_status may_fail(gpu_program *g, cuda_result r, const char *what) {
  if (HS_LIKELY(r == CUDA_OK)) return HS_GOOD;
  hs_status s = gpu_check(g->dev, r, what);
  if (!g->dev->failed && !g->why_host) g->why_host = hs_strdup(s.err->message);
  return s;
}
#define NODE_TRY(call, what) HS_TRY(may_fail(g, (call), (what)))

static hs_status new_condition(gpu_program *g, u64 *out) {
  gpu_device *dev = g->dev;
  int status = 0;
  cuda_graph *graph = NULL;
  NODE_TRY(dev->d.capture_info(dev->stream, &status, NULL, &graph, NULL, NULL, NULL),
           "recording a loop");
  if (status != CUDA_CAPTURE_ACTIVE)
    return may_fail(g, CUDA_STREAM_CAPTURE_INVALIDATED, "recording");
  NODE_TRY(dev->d.graph_condition(out, graph, dev->context, 0, 0), "making a condition");
  return HS_GOOD;
}

// Launches the kernel that sets a condition; p: what it looks at; a, b: its numbers.
static hs_status set_condition(gpu_program *g, u32 which, u64 condition, cuda_ptr p, u32 a, u32 b) {
  gpu_device *dev = g->dev;
  void *params[] = {&condition, &p, &a, &b};
  g->launches++;
  return gpu_check(
      dev, dev->d.launch(dev->control->set[which], 1, 1, 1, 1, 1, 1, 0, dev->stream, params, NULL),
      "setting a condition");
}

static hs_status set_times(gpu_program *g, u64 condition, cuda_ptr left, u64 n) {
  gpu_device *dev = g->dev;
  void *params[] = {&condition, &left, &n};
  g->launches++;
  return gpu_check(dev,
                   dev->d.launch(dev->control->set[EMIT_GPU_TIMES], 1, 1, 1, 1, 1, 1, 0,
                                 dev->stream, params, NULL),
                   "setting a condition");
}

// The node, behind all that was captured in the stream, and before all that will be.
static hs_status add_node(gpu_program *g, u64 condition, int kind, cuda_graph **body) {
  gpu_device *dev = g->dev;
  int status = 0;
  cuda_graph *graph = NULL;
  cuda_graph_node *const *after = NULL, *node = NULL;
  size_t n = 0;
  NODE_TRY(dev->d.capture_info(dev->stream, &status, NULL, &graph, &after, NULL, &n),
           "recording a loop");
  cuda_node what = {.type = CUDA_NODE_CONDITIONAL};
  what.conditional.condition = condition;
  what.conditional.kind = kind;
  what.conditional.nbodies = 1;
  what.conditional.context = dev->context;
  NODE_TRY(dev->d.graph_add(&node, graph, after, NULL, n, &what), "adding a conditional node");
  *body = what.conditional.bodies[0];
  NODE_TRY(dev->d.capture_after(dev->stream, &node, NULL, 1, CUDA_CAPTURE_SET_AFTER),
           "going on behind a conditional node");
  g->nodes++;
  return HS_GOOD;
}

typedef struct node_body {
  cpu_step *s;
  u32 block;      // of the step
  u64 condition;  // of a loop
  i64 trips;
} node_body;

static cuda_ptr counter(const gpu_program *g, u32 depth) { return g->counters + 8 * (u64)depth; }

static hs_status enqueue_body(gpu_program *g, const node_body *b) {
  cpu_step *s = b->s;
  u64 before = g->launches;
  HS_TRY(gpu_block_run(g, &s->blocks[b->block]));
  HS_TRY(gpu_moves_run(g, &s->blocks[b->block].moves));
  if (s->kind == CPU_STEP_WHILE && b->trips >= 0)
    return set_condition(g, EMIT_GPU_AGAIN, b->condition, counter(g, g->depth - 1), 0, 0);
  if (s->kind == CPU_STEP_WHILE) {
    HS_TRY(gpu_block_run(g, &s->blocks[0]));
    return set_condition(g, EMIT_GPU_WHILE, b->condition, gpu_address(g, s->pred), 0, 0);
  }
  if (g->launches > before) return HS_GOOD;
  g->launches++;
  return gpu_check(g->dev, g->dev->d.set32(counter(g, GPU_MOST_DEPTH), 0, 1, g->dev->stream),
                   "filling an empty branch");
}

// Captures what the node holds, in the stream of its depth.
static hs_status record_body(gpu_program *g, cuda_graph *graph, const node_body *b) {
  gpu_device *dev = g->dev;
  cuda_stream *outer = dev->stream, *stream = dev->control->stream[g->depth];
  cuda_graph *same = NULL;
  NODE_TRY(dev->d.capture_into(stream, graph, NULL, NULL, 0, CUDA_CAPTURE_THREAD_LOCAL),
           "recording the body of a loop");
  dev->stream = stream;
  g->depth++;
  hs_status s = enqueue_body(g, b);
  g->depth--;
  dev->stream = outer;
  cuda_result r = dev->d.capture_end(stream, &same);
  return hs_ok(s) ? may_fail(g, r, "recording the body of a loop") : s;
}

hs_status gpu_loop_record(gpu_program *g, cpu_step *s) {
  node_body b = {.s = s, .block = 1, .trips = gpu_trips(s)};
  cuda_graph *graph = NULL;
  HS_TRY(new_condition(g, &b.condition));
  if (b.trips >= 0) {
    HS_TRY(set_times(g, b.condition, counter(g, g->depth), (u64)b.trips));
  } else {
    HS_TRY(gpu_block_run(g, &s->blocks[0]));
    HS_TRY(set_condition(g, EMIT_GPU_WHILE, b.condition, gpu_address(g, s->pred), 0, 0));
  }
  HS_TRY(add_node(g, b.condition, CUDA_NODE_WHILE, &graph));
  return record_body(g, graph, &b);
}

hs_status gpu_branches_record(gpu_program *g, cpu_step *s) {
  bool two = hlo_operand(s->instr, 0)->shape->dtype == HLO_PRED;
  u64 *conditions = HS_NEW_ARRAY(&g->arena, u64, s->nblocks);
  for (u32 k = 0; k < s->nblocks; k++) {
    HS_TRY(new_condition(g, &conditions[k]));
    HS_TRY(set_condition(g, two ? EMIT_GPU_EITHER : EMIT_GPU_BRANCH, conditions[k],
                         gpu_address(g, s->pred), k, s->nblocks - 1));
  }
  for (u32 k = 0; k < s->nblocks; k++) {
    cuda_graph *graph = NULL;
    HS_TRY(add_node(g, conditions[k], CUDA_NODE_IF, &graph));
    HS_TRY(record_body(g, graph, &(node_body){.s = s, .block = k}));
  }
  return HS_GOOD;
}

#endif
