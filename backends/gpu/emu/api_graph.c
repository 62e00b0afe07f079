// api_graph.c — streams that are captured, and the graphs that come of it: the work of the
// streams in the order in which it was put there.
#include "backends/gpu/emu/api_state.h"

// While a stream is captured, nobody may wait or free: the capture is broken off, and the call
// fails.
cuda_result api_no_capture(void) {
  if (!api.captures) return CUDA_OK;
  for (api_object *o = api.objects; o; o = o->next)
    if (o->kind == API_STREAM && ((cuda_stream *)(void *)o)->capture)
      ((cuda_stream *)(void *)o)->capture->broken = true;
  return CUDA_STREAM_CAPTURE_UNSUPPORTED;
}

cuda_result emu_cuStreamBeginCapture_v2(cuda_stream *stream, int mode) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (mode < 0 || mode > 2) return CUDA_INVALID_VALUE;
  if (api.how.no_capture) return CUDA_NOT_SUPPORTED;
  if (s->is_default) return CUDA_STREAM_CAPTURE_UNSUPPORTED;
  if (s->capture) return CUDA_ILLEGAL_STATE;
  s->capture = api_new(API_GRAPH, sizeof *s->capture);
  s->capture->blocking = !s->apart;
  s->origin = true;
  api.captures++;
  api.blocking_captures += !s->apart;
  return CUDA_OK;
}

cuda_result emu_cuStreamIsCapturing(cuda_stream *stream, int *status) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (!status) return CUDA_INVALID_VALUE;
  *status = !s->capture ? 0 : s->capture->broken ? 2 : 1;
  return CUDA_OK;
}

cuda_result api_captured(cuda_stream *s, api_op op) {
  // In a driver this work would run beside the node that was added.
  if (s->capture->apart) s->capture->broken = true;
  hs_vec_push(&s->capture->ops, op);
  return s->capture->apart ? CUDA_INVALID_VALUE : CUDA_OK;
}

static void free_graph(cuda_graph *g) {
  api_ops_drop(&g->ops);
  api_gone(g);
}

cuda_result emu_cuStreamEndCapture(cuda_stream *stream, cuda_graph **graph) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (!graph) return CUDA_INVALID_VALUE;
  if (!s->capture || !s->origin) return CUDA_ILLEGAL_STATE;
  cuda_graph *g = s->capture;
  s->origin = false;
  api.captures--;
  api.blocking_captures -= g->blocking;
  for (api_object *o = api.objects; o; o = o->next) {
    if (o->kind == API_STREAM && ((cuda_stream *)(void *)o)->capture == g)
      ((cuda_stream *)(void *)o)->capture = NULL;
    if (o->kind == API_EVENT && ((cuda_event *)(void *)o)->capture == g)
      ((cuda_event *)(void *)o)->capture = NULL;
  }
  *graph = g->broken ? NULL : g;
  g->open = false;
  if (!g->broken) return CUDA_OK;
  if (!g->is_body) free_graph(g);
  return CUDA_STREAM_CAPTURE_INVALIDATED;
}

cuda_result emu_cuGraphGetNodes(cuda_graph *graph, cuda_graph_node **nodes, size_t *count) {
  API_CALL();
  if (!api_is(graph, API_GRAPH)) return CUDA_INVALID_HANDLE;
  if (!count) return CUDA_INVALID_VALUE;
  for (size_t k = 0; nodes && k < *count; k++)
    nodes[k] = k < graph->ops.n ? (cuda_graph_node *)(void *)&graph->ops.v[k] : NULL;
  *count = nodes ? HS_MIN(*count, graph->ops.n) : graph->ops.n;
  return CUDA_OK;
}

cuda_result emu_cuGraphInstantiateWithFlags(cuda_graph_exec **exec, cuda_graph *graph, u64 flags) {
  API_CALL();
  if (!exec || flags > 15) return CUDA_INVALID_VALUE;
  if (!api_is(graph, API_GRAPH)) return CUDA_INVALID_HANDLE;
  if (graph->is_body || !api_can_be_instantiated(&graph->ops, false)) return CUDA_INVALID_VALUE;
  *exec = api_new(API_EXEC, sizeof **exec);
  for (size_t k = 0; k < graph->ops.n; k++) {
    api_op op = api_op_copy(&graph->ops.v[k]);
    hs_vec_push(&(*exec)->ops, op);
  }
  return CUDA_OK;
}

cuda_result emu_cuGraphLaunch(cuda_graph_exec *exec, cuda_stream *stream) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (!api_is(exec, API_EXEC)) return CUDA_INVALID_HANDLE;
  if (s->capture) return CUDA_NOT_SUPPORTED;
  exec->pending++;
  return api_submit(stream, (api_op){.kind = OP_GRAPH, .exec = exec});
}

cuda_result emu_cuGraphUpload(cuda_graph_exec *exec, cuda_stream *stream) {
  API_CALL();
  cuda_stream *s;
  if (!api_is(exec, API_EXEC)) return CUDA_INVALID_HANDLE;
  return api_stream_of(stream, &s);
}

cuda_result emu_cuGraphDestroy(cuda_graph *graph) {
  API_CALL();
  if (!api_is(graph, API_GRAPH)) return CUDA_INVALID_HANDLE;
  if (graph->is_body) return CUDA_INVALID_VALUE;
  free_graph(graph);
  return CUDA_OK;
}

// Launches that have not run yet run first.
cuda_result emu_cuGraphExecDestroy(cuda_graph_exec *exec) {
  API_CALL();
  if (!api_is(exec, API_EXEC)) return CUDA_INVALID_HANDLE;
  cuda_result r = exec->pending ? api_drain_all() : CUDA_OK;
  api_ops_drop(&exec->ops);
  api_gone(exec);
  return r;
}
