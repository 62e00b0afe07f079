// api_stream.c — streams, events and launches of the emulated driver.
//
// Work runs when it is put into a stream. A driver that is late (emu_behaviour) keeps it in the
// stream's queue until somebody waits: a program that reads a result, or gives memory away, before
// it has waited is found out, on every run.
#include "backends/gpu/emu/api_state.h"

#include <unistd.h>

#define THREADS_WORTH 16384  // of a grid: from here on blocks run on several host threads

// ---- work ---------------------------------------------------------------------------------------
static void op_drop(api_op *op) {
  hs_free(op->params);
  api_condition_free(op->condition);
  if (op->kind == OP_GRAPH && op->exec) op->exec->pending--;
  *op = (api_op){.kind = OP_HOST};
}

void api_ops_drop(api_ops *ops) {
  for (size_t k = 0; k < ops->n; k++) {
    hs_free(ops->v[k].params);
    api_condition_free(ops->v[k].condition);
  }
  hs_vec_free(ops);
}

static size_t param_bytes(const emu_kernel *k) {
  u32 n = k->nparams;
  return n ? k->param_at[n - 1] + k->param_bytes[n - 1] : 0;
}

api_op api_op_copy(const api_op *op) {
  api_op c = *op;
  if (op->params) {
    size_t n = HS_MAX(param_bytes(op->fn->k), 1);
    c.params = memcpy(hs_alloc(n), op->params, n);
  }
  if (op->condition) c.condition = api_condition_copy(op->condition);
  return c;
}

static void tell(emu_work w, u64 begin) {
  w.begin_ns = begin;
  w.end_ns = hs_now_ns();
  if (api.observer.did) api.observer.did(&w);
}

static cuda_result fault_code(emu_fault_kind kind) {
  switch (kind) {
  case EMU_MISALIGNED: return CUDA_MISALIGNED_ADDRESS;
  case EMU_TRAPPED: return CUDA_ILLEGAL_INSTRUCTION;
  case EMU_DIVERGED: return CUDA_LAUNCH_FAILED;
  default: return CUDA_ILLEGAL_ADDRESS;
  }
}

// A launch that did not come to its end for a reason outside of the kernel: the context goes on.
static cuda_result stopped(hs_status s) {
  cuda_result r = s.err->code == HS_E_NO_MEMORY ? CUDA_OUT_OF_MEMORY : CUDA_LAUNCH_TIMEOUT;
  hs_status_drop(s);
  return r;
}

static u32 host_threads(const emu_grid *g) {
  u64 n = (u64)g->blocks[0] * g->blocks[1] * g->blocks[2] * g->threads[0] * g->threads[1] *
          g->threads[2];
  long cpus = n < THREADS_WORTH ? 1 : sysconf(_SC_NPROCESSORS_ONLN);
  return cpus < 1 ? 1 : (u32)HS_MIN(cpus, 16);
}

static cuda_result run_kernel(const api_op *op, u32 correlation, bool of_graph) {
  if (!api_is(op->fn, API_FUNCTION)) return CUDA_INVALID_HANDLE;
  const emu_kernel *k = op->fn->k;
  void **params = hs_calloc(k->nparams + 1, sizeof *params);
  for (u32 p = 0; p < k->nparams; p++) params[p] = op->params + k->param_at[p];
  emu_fault_kind kind;
  emu_grid g = op->grid;
  g.host_threads = host_threads(&g);
  u64 begin = hs_now_ns();
  hs_status s = emu_launch(k, op->fn->o.context->device, &g, params, &kind);
  hs_free(params);
  if (!hs_ok(s)) return kind == EMU_NO_FAULT ? stopped(s) : api_fault(fault_code(kind), s);
  emu_work w = {.kind = EMU_WORK_KERNEL,
                .correlation = correlation,
                .name = k->name,
                .static_bytes = k->static_bytes,
                .dynamic_bytes = g.dynamic_bytes,
                .of_graph = of_graph};
  memcpy(w.grid, g.blocks, sizeof w.grid);
  memcpy(w.block, g.threads, sizeof w.block);
  tell(w, begin);
  return CUDA_OK;
}

// Memory may be gone since the call.
static bool still_there(const api_op *op) {
  if (op->kind == OP_SET) return api_on_device(op->to, op->bytes);
  return !((op->copy & (1 | 8) && !api_on_device(op->to, op->bytes)) ||
           (op->copy & (2 | 8) && !api_on_device(op->from, op->bytes)));
}

static cuda_result run_transfer(const api_op *op, u32 correlation, bool of_graph) {
  if (!still_there(op))
    return api_fault(CUDA_ILLEGAL_ADDRESS,
                     hs_fail(HS_E_RUN, "%s of %llu bytes of memory that is freed by now",
                             op->kind == OP_SET ? "a fill" : "a copy",
                             (unsigned long long)op->bytes));
  u64 begin = hs_now_ns();
  if (op->kind == OP_COPY) memmove(op->to, op->from, op->bytes);
  else if (op->width == 1) memset(op->to, (int)op->value, op->bytes);
  else
    for (u64 k = 0; k < op->bytes; k += 4) memcpy(op->to + k, &op->value, 4);
  tell((emu_work){.kind = op->kind == OP_COPY ? EMU_WORK_COPY : EMU_WORK_SET,
                  .correlation = correlation,
                  .bytes = op->bytes,
                  .copy = op->copy,
                  .of_graph = of_graph},
       begin);
  return CUDA_OK;
}

static cuda_result run_graph(const api_op *op) {
  cuda_result r = CUDA_OK;
  api_conditions_begin(&op->exec->ops);
  api.running++;
  for (size_t k = 0; k < op->exec->ops.n && r == CUDA_OK; k++)
    r = api_run(&op->exec->ops.v[k], op->correlation, true);
  api.running--;
  return r;
}

// Runs the stream of the recording until it is reached.
static cuda_result run_until(cuda_event *e, u64 sequence);

cuda_result api_run(const api_op *op, u32 correlation, bool of_graph) {
  switch (op->kind) {
  case OP_KERNEL: return run_kernel(op, correlation, of_graph);
  case OP_COPY:
  case OP_SET: return run_transfer(op, correlation, of_graph);
  case OP_RECORD:
    op->event->at_ns = hs_now_ns();
    op->event->reached = op->sequence;
    return CUDA_OK;
  case OP_WAIT: return run_until(op->event, op->sequence);
  case OP_HOST:
    if (op->host) op->host(op->arg);
    return CUDA_OK;
  case OP_FREE: return api_release((cuda_ptr)(uintptr_t)op->to);
  case OP_GRAPH: return run_graph(op);
  case OP_CONDITION: return api_condition_run(op, correlation);
  }
  return CUDA_UNKNOWN;
}

// The next piece of work of a stream that has some.
static cuda_result run_next(cuda_stream *s) {
  api_op op = s->queue.v[s->done++];
  if (s->done == s->queue.n) s->queue.n = s->done = 0;
  cuda_result r = api_run(&op, op.correlation, false);
  op_drop(&op);
  return api.broken != CUDA_OK ? api.broken : r;
}

static cuda_result drain(cuda_stream *s) {
  while (s->done < s->queue.n) {
    cuda_result r = run_next(s);
    if (r != CUDA_OK) return r;
  }
  return api.broken;
}

static cuda_result run_until(cuda_event *e, u64 sequence) {
  cuda_stream *s = e->stream;
  while (e->reached < sequence && s && s->done < s->queue.n) {
    cuda_result r = run_next(s);
    if (r != CUDA_OK) return r;
  }
  return CUDA_OK;
}

cuda_result api_drain(cuda_stream *stream) {
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  return r != CUDA_OK ? r : drain(s);
}

cuda_result api_drain_all(void) {
  cuda_result r = api.context ? drain(api.context->main) : CUDA_OK;
  for (api_object *o = api.objects; o && r == CUDA_OK; o = o->next)
    if (o->kind == API_STREAM) r = drain((cuda_stream *)(void *)o);
  return r;
}

// Streams that wait for the default one, and it for them: what is before is done first.
static cuda_result keep_order(const cuda_stream *s) {
  if (s->apart) return CUDA_OK;
  if (!s->is_default) return drain(s->o.context->main);
  for (api_object *o = api.objects; o; o = o->next) {
    cuda_stream *other = (cuda_stream *)(void *)o;
    if (o->kind != API_STREAM || other->apart || o->context != s->o.context) continue;
    cuda_result r = drain(other);
    if (r != CUDA_OK) return r;
  }
  return CUDA_OK;
}

cuda_result api_submit(cuda_stream *stream, api_op op) {
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  op.correlation = ++api.correlation;
  if (r == CUDA_OK && s->is_default && api.blocking_captures) {
    (void)api_no_capture();
    r = CUDA_STREAM_CAPTURE_IMPLICIT;
  }
  if (r == CUDA_OK && op.kind == OP_KERNEL &&
      (op.fn->o.context != s->o.context || s->o.context != api.context))
    r = CUDA_INVALID_CONTEXT;
  if (r != CUDA_OK) {
    op_drop(&op);
    return r;
  }
  if (s->capture) return api_captured(s, op);
  bool work = op.kind == OP_KERNEL || op.kind == OP_COPY || op.kind == OP_SET;
  if ((work || op.kind == OP_GRAPH) && api.observer.asked) api.observer.asked(op.correlation);
  if ((op.kind == OP_KERNEL || op.kind == OP_GRAPH) && api.how.launches &&
      ++api.launches > api.how.launches) {
    op_drop(&op);
    return api_fault(CUDA_ILLEGAL_ADDRESS, HS_GOOD);
  }
  if (api.how.late) {
    r = keep_order(s);
    hs_vec_push(&s->queue, op);
    return r;
  }
  r = api_run(&op, op.correlation, false);
  op_drop(&op);
  return r;
}

// ---- streams ------------------------------------------------------------------------------------
cuda_result api_stream_of(cuda_stream *stream, cuda_stream **out) {
  *out = (uintptr_t)stream <= 2 ? api.context->main : stream;
  return api_is(*out, API_STREAM) ? CUDA_OK : CUDA_INVALID_HANDLE;
}

cuda_result emu_cuStreamCreate(cuda_stream **stream, unsigned flags) {
  API_CALL();
  if (!stream || flags > 1) return CUDA_INVALID_VALUE;
  *stream = api_new(API_STREAM, sizeof **stream);
  (*stream)->number = ++api.streams;
  (*stream)->apart = flags & CUDA_STREAM_NON_BLOCKING;
  return CUDA_OK;
}

cuda_result emu_cuStreamCreateWithPriority(cuda_stream **stream, unsigned flags, int priority) {
  (void)priority;
  return emu_cuStreamCreate(stream, flags);
}

cuda_result emu_cuStreamDestroy_v2(cuda_stream *stream) {
  API_CALL();
  if (!api_is(stream, API_STREAM) || stream->is_default) return CUDA_INVALID_HANDLE;
  cuda_result r = stream->capture ? api_no_capture() : drain(stream);
  hs_vec_free(&stream->queue);
  stream->done = 0;
  stream->after = NULL;
  for (api_object *o = api.objects; o; o = o->next)
    if (o->kind == API_EVENT && ((cuda_event *)(void *)o)->stream == stream)
      ((cuda_event *)(void *)o)->stream = NULL;
  api_gone(stream);
  return r;
}

static void maybe_hang(void) {
  while (api.how.hangs) (void)pause();
}

cuda_result emu_cuStreamSynchronize(cuda_stream *stream) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (s->capture) return api_no_capture();
  maybe_hang();
  if (s->is_default) r = keep_order(s);
  return r != CUDA_OK ? r : drain(s);
}

// A late driver does one piece of work each time that it is asked.
static cuda_result query(cuda_stream *s) {
  if (!s || s->done >= s->queue.n) return CUDA_OK;
  cuda_result r = run_next(s);
  return r != CUDA_OK ? r : s->done < s->queue.n ? CUDA_NOT_READY : CUDA_OK;
}

cuda_result emu_cuStreamQuery(cuda_stream *stream) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  return s->capture ? api_no_capture() : query(s);
}

cuda_result emu_cuCtxSynchronize(void) {
  API_CALL();
  cuda_result r = api_no_capture();
  maybe_hang();
  return r != CUDA_OK ? r : api_drain_all();
}

cuda_result emu_cuStreamWaitEvent(cuda_stream *stream, cuda_event *event, unsigned flags) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (flags > 1) return CUDA_INVALID_VALUE;
  if (!api_is(event, API_EVENT)) return CUDA_INVALID_HANDLE;
  if (event->capture || s->capture) {
    // The stream joins the capture that the event was recorded in.
    if (!event->capture || (s->capture && s->capture != event->capture)) return api_no_capture();
    s->capture = event->capture;
    return CUDA_OK;
  }
  if (!event->recorded) return CUDA_OK;
  return api_submit(stream, (api_op){.kind = OP_WAIT, .event = event, .sequence = event->recorded});
}

cuda_result emu_cuLaunchHostFunc(cuda_stream *stream, cuda_host_fn *fn, void *arg) {
  API_CALL();
  if (!fn) return CUDA_INVALID_VALUE;
  return api_submit(stream, (api_op){.kind = OP_HOST, .host = fn, .arg = arg});
}

// ---- events -------------------------------------------------------------------------------------
cuda_result emu_cuEventCreate(cuda_event **event, unsigned flags) {
  API_CALL();
  if (!event || flags > 7) return CUDA_INVALID_VALUE;
  *event = api_new(API_EVENT, sizeof **event);
  (*event)->untimed = flags & CUDA_EVENT_NO_TIMING;
  return CUDA_OK;
}

cuda_result emu_cuEventDestroy_v2(cuda_event *event) {
  API_CALL();
  if (!api_is(event, API_EVENT)) return CUDA_INVALID_HANDLE;
  cuda_result r = run_until(event, event->recorded);
  api_gone(event);
  return r;
}

cuda_result emu_cuEventRecord(cuda_event *event, cuda_stream *stream) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (!api_is(event, API_EVENT) || event->o.context != s->o.context) return CUDA_INVALID_HANDLE;
  event->capture = s->capture;
  if (s->capture) return CUDA_OK;
  event->stream = s;
  event->recorded = ++api.sequence;
  return api_submit(stream,
                    (api_op){.kind = OP_RECORD, .event = event, .sequence = event->recorded});
}

cuda_result emu_cuEventRecordWithFlags(cuda_event *event, cuda_stream *stream, unsigned flags) {
  return flags > 1 ? CUDA_INVALID_VALUE : emu_cuEventRecord(event, stream);
}

cuda_result emu_cuEventSynchronize(cuda_event *event) {
  API_CALL();
  if (!api_is(event, API_EVENT)) return CUDA_INVALID_HANDLE;
  if (event->capture) return api_no_capture();
  maybe_hang();
  return run_until(event, event->recorded);
}

cuda_result emu_cuEventQuery(cuda_event *event) {
  API_CALL();
  if (!api_is(event, API_EVENT)) return CUDA_INVALID_HANDLE;
  if (event->capture) return api_no_capture();
  if (event->reached >= event->recorded) return CUDA_OK;
  cuda_result r = query(event->stream);
  if (r != CUDA_OK) return r;
  return event->reached >= event->recorded ? CUDA_OK : CUDA_NOT_READY;
}

cuda_result emu_cuEventElapsedTime(float *ms, cuda_event *from, cuda_event *to) {
  API_CALL();
  if (!ms) return CUDA_INVALID_VALUE;
  if (!api_is(from, API_EVENT) || !api_is(to, API_EVENT) || from->untimed || to->untimed ||
      !from->recorded || !to->recorded)
    return CUDA_INVALID_HANDLE;
  if (from->reached < from->recorded || to->reached < to->recorded) return CUDA_NOT_READY;
  *ms = (float)((double)((i64)to->at_ns - (i64)from->at_ns) / 1e6);
  return CUDA_OK;
}

// ---- launches -----------------------------------------------------------------------------------
static bool can_be(const cuda_function *f, const emu_grid *g) {
  u64 threads = 1;
  for (int d = 0; d < 3; d++) {
    if (!g->blocks[d] || !g->threads[d] || g->threads[d] > 1024) return false;
    threads *= g->threads[d];
  }
  return threads <= f->k->max_threads && g->blocks[0] <= INT32_MAX && g->blocks[1] <= 65535 &&
         g->blocks[2] <= 65535 && g->threads[2] <= 64 && (i64)g->dynamic_bytes <= f->max_dynamic;
}

static cuda_result launch(cuda_function *f, const emu_grid *g, cuda_stream *stream, void **params,
                          void **extra) {
  if (!api_is(f, API_FUNCTION)) return CUDA_INVALID_HANDLE;
  const emu_kernel *k = f->k;
  if (extra || (k->nparams && !params) || !can_be(f, g)) return CUDA_INVALID_VALUE;
  if ((u64)k->static_bytes + g->dynamic_bytes > EMU_SHARED_MOST)
    return CUDA_LAUNCH_OUT_OF_RESOURCES;
  u8 *values = hs_alloc(HS_MAX(param_bytes(k), 1));
  for (u32 p = 0; p < k->nparams; p++)
    memcpy(values + k->param_at[p], params[p], k->param_bytes[p]);
  return api_submit(stream, (api_op){.kind = OP_KERNEL, .fn = f, .grid = *g, .params = values});
}

cuda_result emu_cuLaunchKernel(cuda_function *function, unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               cuda_stream *stream, void **params, void **extra) {
  API_CALL();
  emu_grid g = {.blocks = {gx, gy, gz}, .threads = {bx, by, bz}, .dynamic_bytes = shared};
  return launch(function, &g, stream, params, extra);
}

// Attributes of the launch say how it is to be fast; those that change what it means are refused.
cuda_result emu_cuLaunchKernelEx(const emu_launch_config *c, cuda_function *function, void **params,
                                 void **extra) {
  API_CALL();
  if (!c) return CUDA_INVALID_VALUE;
  if (c->nattributes) return CUDA_NOT_SUPPORTED;
  emu_grid g = {.dynamic_bytes = c->shared};
  memcpy(g.blocks, c->grid, sizeof g.blocks);
  memcpy(g.threads, c->block, sizeof g.threads);
  return launch(function, &g, c->stream, params, extra);
}
