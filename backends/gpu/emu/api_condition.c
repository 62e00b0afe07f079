// api_condition.c — conditional nodes of graphs: conditions that kernels set, nodes that run what
// is in them by those, and capturing into a body.
//
// As strict as CUDA's documentation: a condition belongs to one node of the graph that it was made
// for; a body holds kernels, copies and fills on the device, and conditional nodes; bodies belong
// to their node. Stricter than it where a program could not mean it: a node that is added to a
// graph comes after all that was captured before it, and before all that is captured afterwards
// (cuStreamUpdateCaptureDependencies says so); a condition that nothing assigned is a fault; a body
// is not empty, which drivers before CUDA 12.8 do not come back from.
#include "backends/gpu/emu/api_state.h"

enum { FIRST_CONDITION = 0x1000 };  // what is no pointer and no small number

// One of the calls by which a program makes such nodes: the one that is to fail does.
static cuda_result fails(void) {
  api.condition_calls++;
  return api.how.conditions && api.condition_calls == api.how.conditions ? CUDA_NOT_SUPPORTED
                                                                         : CUDA_OK;
}

static api_condition_value *value_of(u64 condition) {
  u64 k = condition - FIRST_CONDITION;
  return k < api.conditions.n ? &api.conditions.v[k] : NULL;
}

bool api_condition_set(void *arg, u64 condition, u32 value) {
  (void)arg;
  api_condition_value *c = api.running ? value_of(condition) : NULL;
  if (!c || !c->used) return false;
  c->value = value;
  c->assigned = true;
  return true;
}

// ---- making -------------------------------------------------------------------------------------
cuda_result emu_cuGraphConditionalHandleCreate(u64 *condition, cuda_graph *graph,
                                               cuda_context *context, unsigned at_launch,
                                               unsigned flags) {
  API_CALL();
  if (!api_is(graph, API_GRAPH)) return CUDA_INVALID_HANDLE;
  if (!condition || flags > 1 || (context && context != api.context)) return CUDA_INVALID_VALUE;
  if (fails() != CUDA_OK) return CUDA_NOT_SUPPORTED;
  *condition = FIRST_CONDITION + api.conditions.n;
  hs_vec_push(&api.conditions,
              ((api_condition_value){.graph = graph, .at_launch = at_launch, .flags = flags}));
  return CUDA_OK;
}

cuda_result emu_cuStreamGetCaptureInfo_v3(cuda_stream *stream, int *status, u64 *id,
                                          cuda_graph **graph, cuda_graph_node *const **after,
                                          const void **edges, size_t *nafter) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (!status || (edges && !after)) return CUDA_INVALID_VALUE;
  if (fails() != CUDA_OK) return CUDA_NOT_SUPPORTED;
  *status = !s->capture ? 0 : s->capture->broken ? 2 : CUDA_CAPTURE_ACTIVE;
  if (*status != CUDA_CAPTURE_ACTIVE) return CUDA_OK;
  if (id) *id = s->number;
  if (graph) *graph = s->capture;
  if (edges) *edges = NULL;
  size_t n = s->capture->ops.n;
  if (after && n) {
    s->after = api_new(API_NODE, sizeof *s->after);
    s->after->graph = s->capture;
    s->after->place = n - 1;
    *after = &s->after;
  } else if (after) {
    *after = NULL;
  }
  if (nafter) *nafter = n > 0;
  return CUDA_OK;
}

static bool is_last(const cuda_graph *g, cuda_graph_node *const *nodes, size_t n) {
  if (g->ops.n == 0) return n == 0;
  return n == 1 && nodes && api_is(nodes[0], API_NODE) && nodes[0]->graph == g &&
         nodes[0]->place == g->ops.n - 1;
}

static bool is_zero(const void *p, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (((const u8 *)p)[k]) return false;
  return true;
}

// A conditional node as its caller has filled it in; what is not used must be zeros.
static bool is_whole(const cuda_node *n, const cuda_graph *g) {
  const size_t used = offsetof(cuda_node, conditional) + sizeof n->conditional;
  const api_condition_value *c = value_of(n->conditional.condition);
  bool loop = n->conditional.kind == CUDA_NODE_WHILE, branch = n->conditional.kind == CUDA_NODE_IF;
  return n->type == CUDA_NODE_CONDITIONAL && is_zero(n->reserved0, sizeof n->reserved0) &&
         is_zero((const char *)n + used, sizeof *n - used) && !n->conditional.bodies && c &&
         !c->used && c->graph == g && n->conditional.context == api.context && (loop || branch) &&
         n->conditional.nbodies >= 1 && n->conditional.nbodies <= (loop ? 1u : 2u);
}

cuda_result emu_cuGraphAddNode_v2(cuda_graph_node **node, cuda_graph *graph,
                                  cuda_graph_node *const *after, const void *edges, size_t nafter,
                                  cuda_node *what) {
  API_CALL();
  if (!api_is(graph, API_GRAPH)) return CUDA_INVALID_HANDLE;
  if (!node || !what || edges || !is_last(graph, after, nafter) || !is_whole(what, graph))
    return CUDA_INVALID_VALUE;
  if (fails() != CUDA_OK) return CUDA_NOT_SUPPORTED;
  api_condition *c = hs_calloc(1, sizeof *c);
  c->condition = what->conditional.condition;
  c->kind = what->conditional.kind;
  c->nbodies = what->conditional.nbodies;
  for (unsigned k = 0; k < c->nbodies; k++) {
    c->bodies[k] = api_new(API_GRAPH, sizeof *c->bodies[k]);
    c->bodies[k]->is_body = true;
  }
  value_of(c->condition)->used = true;
  hs_vec_push(&graph->ops, ((api_op){.kind = OP_CONDITION, .condition = c}));
  graph->apart = true;
  what->conditional.bodies = c->bodies;
  *node = api_new(API_NODE, sizeof **node);
  (*node)->graph = graph;
  (*node)->place = graph->ops.n - 1;
  return CUDA_OK;
}

cuda_result emu_cuStreamUpdateCaptureDependencies_v2(cuda_stream *stream, cuda_graph_node **after,
                                                     const void *edges, size_t nafter,
                                                     unsigned flags) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (!s->capture) return CUDA_ILLEGAL_STATE;
  if (edges || flags != CUDA_CAPTURE_SET_AFTER || !is_last(s->capture, after, nafter))
    return CUDA_INVALID_VALUE;
  if (fails() != CUDA_OK) return CUDA_NOT_SUPPORTED;
  s->capture->apart = false;
  return CUDA_OK;
}

cuda_result emu_cuStreamBeginCaptureToGraph(cuda_stream *stream, cuda_graph *graph,
                                            cuda_graph_node *const *after, const void *edges,
                                            size_t nafter, int mode) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (!api_is(graph, API_GRAPH)) return CUDA_INVALID_HANDLE;
  if (s->is_default) return CUDA_STREAM_CAPTURE_UNSUPPORTED;
  if (s->capture) return CUDA_ILLEGAL_STATE;
  if (mode < 0 || mode > 2 || edges || graph->open || !is_last(graph, after, nafter))
    return CUDA_INVALID_VALUE;
  if (fails() != CUDA_OK) return CUDA_NOT_SUPPORTED;
  s->capture = graph;
  s->origin = graph->open = true;
  graph->blocking = !s->apart;
  api.captures++;
  api.blocking_captures += !s->apart;
  return CUDA_OK;
}

// ---- what a graph becomes -----------------------------------------------------------------------
static bool may_be_in_a_body(const api_op *op) {
  return op->kind == OP_KERNEL || op->kind == OP_SET || op->kind == OP_CONDITION ||
         (op->kind == OP_COPY && op->copy == 8) || (op->kind == OP_HOST && op->of_library);
}

bool api_can_be_instantiated(const api_ops *ops, bool of_body) {
  if (of_body && ops->n == 0) return false;
  for (size_t k = 0; k < ops->n; k++) {
    const api_op *op = &ops->v[k];
    if (of_body && !may_be_in_a_body(op)) return false;
    for (unsigned b = 0; op->condition && b < op->condition->nbodies; b++) {
      const cuda_graph *g = op->condition->bodies[b];
      if (g->open || g->broken || !api_can_be_instantiated(&g->ops, true)) return false;
    }
  }
  return true;
}

api_condition *api_condition_copy(const api_condition *from) {
  api_condition *c = hs_calloc(1, sizeof *c);
  c->condition = from->condition;
  c->kind = from->kind;
  c->nbodies = from->nbodies;
  for (unsigned b = 0; b < c->nbodies; b++) {
    const api_ops *ops = from->bodies[b] ? &from->bodies[b]->ops : &from->ops[b];
    for (size_t k = 0; k < ops->n; k++) {
      api_op op = api_op_copy(&ops->v[k]);
      hs_vec_push(&c->ops[b], op);
    }
  }
  return c;
}

void api_condition_free(api_condition *c) {
  for (unsigned b = 0; c && b < c->nbodies; b++) {
    api_ops_drop(&c->ops[b]);
    if (!c->bodies[b]) continue;
    api_ops_drop(&c->bodies[b]->ops);
    api_gone(c->bodies[b]);
  }
  hs_free(c);
}

void api_conditions_disown(void) {
  for (api_object *o = api.objects; o; o = o->next) {
    const api_ops *ops = o->kind == API_GRAPH ? &((cuda_graph *)(void *)o)->ops : NULL;
    for (size_t k = 0; ops && k < ops->n; k++)
      if (ops->v[k].condition)
        ops->v[k].condition->bodies[0] = ops->v[k].condition->bodies[1] = NULL;
  }
}

void api_conditions_begin(const api_ops *ops) {
  for (size_t k = 0; k < ops->n; k++) {
    const api_condition *c = ops->v[k].condition;
    if (!c) continue;
    api_condition_value *v = value_of(c->condition);
    v->assigned = v->flags & 1;
    v->value = v->at_launch;
    for (unsigned b = 0; b < c->nbodies; b++) api_conditions_begin(&c->ops[b]);
  }
}

static cuda_result run_body(const api_ops *ops, u32 correlation) {
  for (size_t k = 0; k < ops->n; k++) {
    cuda_result r = api_run(&ops->v[k], correlation, true);
    if (r != CUDA_OK) return r;
    if (api.broken != CUDA_OK) return api.broken;
  }
  return CUDA_OK;
}

cuda_result api_condition_run(const api_op *op, u32 correlation) {
  const api_condition *c = op->condition;
  cuda_result r = CUDA_OK;
  do {
    const api_condition_value *v = value_of(c->condition);
    if (!v->assigned)
      return api_fault(CUDA_ILLEGAL_ADDRESS, hs_fail(HS_E_RUN, "nothing set a node's condition"));
    u32 value = v->value;
    if (value) r = run_body(&c->ops[0], correlation);
    else if (c->nbodies == 2) r = run_body(&c->ops[1], correlation);
    if (!value) break;
  } while (c->kind == CUDA_NODE_WHILE && r == CUDA_OK);
  return r;
}
