// execute.c — running a program: one list of arguments and of results per device.
//
// Partitions are virtual: the module is run on whole arrays (backends/cpu runs every device's part
// of what tells devices apart, collectives and manual regions), and what a partition has of an
// argument or result is cut out of it. Replicas have arguments of their own. A program in which
// nothing tells devices apart is run once per replica.
//
// What Execute hands out is not ready yet: the run is a job of the client's queue, in which it
// comes after those that make its arguments. A program whose last run was short runs at once, when
// nothing is before it: handing it to another thread costs more than what the caller could do
// meanwhile, as a program uses all cores.
//
// Results get their memory when the run begins: a donated argument that nobody else holds by then
// becomes the result that is computed in its place.
#include "plugin/plugin.h"

#include "backends/block.h"

#include <stdlib.h>

enum { SHORT_NS = 500000 };

// The leaves of one replica, whole.
typedef struct replica {
  plug_bytes **args, **outs;
} replica;
// A run holds what it reads and writes until it has ended.
typedef struct run {
  plug_exe *e;
  plug_ready *ready;       // of the results
  plug_bytes **in, **out;  // [device * leaves + leaf]: what each device has
  replica *r;              // e->replicas of them; shares with in and out what is not cut
  bool *given;             // by argument: its buffers have been given away to this run
} run;

static pj_error *no_memory(size_t n) {
  return plug_fail(PJ_RESOURCE_EXHAUSTED, "hlosh: no memory for %zu bytes", n);
}

static plug_bytes *share(plug_bytes *b) {
  if (b) atomic_fetch_add(&b->refs, 1);
  return b;
}

static run *run_new(plug_exe *e) {
  u32 n = plug_ndevices(e);
  run *x = hs_calloc(1, sizeof *x);
  x->e = plug_exe_share(e);
  x->in = hs_calloc((size_t)n * e->nargs + 1, sizeof *x->in);
  x->out = hs_calloc((size_t)n * e->nouts + 1, sizeof *x->out);
  x->r = hs_calloc(e->replicas, sizeof *x->r);
  x->given = hs_calloc(e->nargs + 1, sizeof *x->given);
  for (u32 r = 0; r < e->replicas; r++) {
    x->r[r].args = hs_calloc(e->nargs + 1, sizeof *x->r[r].args);
    x->r[r].outs = hs_calloc(e->nouts + 1, sizeof *x->r[r].outs);
  }
  return x;
}

static void drop_all(plug_bytes **v, size_t n) {
  for (size_t k = 0; k < n; k++) plug_bytes_drop(v[k]);
  hs_free(v);
}

static void run_free(run *x) {
  plug_exe *e = x->e;
  u32 n = plug_ndevices(e);
  drop_all(x->in, (size_t)n * e->nargs);
  drop_all(x->out, (size_t)n * e->nouts);
  for (u32 r = 0; r < e->replicas; r++) {
    drop_all(x->r[r].args, e->nargs);
    drop_all(x->r[r].outs, e->nouts);
  }
  hs_free(x->r);
  hs_free(x->given);
  plug_ready_drop(x->ready);
  plug_exe_drop(e);
  hs_free(x);
}

// ---- arguments ----------------------------------------------------------------------------------
static pj_error *check_argument(const plug_exe *e, u32 k, const pj_buffer *b) {
  const hlo_shape *want = e->args[k].tiles.part;
  bool same = b->type == want->dtype && b->rank == want->rank;
  for (u32 d = 0; same && d < want->rank; d++) same = b->dims[d] == want->dims[d];
  if (same || want->dtype == HLO_TOKEN) return NULL;
  hs_buf text = {0};
  hlo_shape_print(&text, want, false);
  pj_error *bad = plug_fail(PJ_INVALID_ARGUMENT, "hlosh: argument %u is not of shape %s", k,
                            hs_buf_cstr(&text));
  hs_buf_free(&text);
  return bad;
}

// Takes the arguments of all devices.
static pj_error *take_argument(run *x, u32 k, pj_buffer *b, plug_bytes **out) {
  PLUG_WANT(b, BUFFER);
  const plug_leaf *leaf = &x->e->args[k];
  pj_error *bad = check_argument(x->e, k, b);
  if (bad) return bad;
  if (!(*out = plug_buffer_bytes(b)))
    return plug_fail(PJ_FAILED_PRECONDITION, "hlosh: argument %u was deleted or donated", k);
  if ((*out)->n < block_leaf_bytes(leaf->tiles.part))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: argument %u is too short", k);
  return NULL;
}

static pj_error *take_arguments(run *x, const pj_execute *a) {
  u32 n = plug_ndevices(x->e), nargs = x->e->nargs;
  for (u32 d = 0; d < n; d++) {
    if (nargs && !a->arguments[d])
      return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no arguments for device %u", d);
    for (u32 k = 0; k < nargs; k++) {
      pj_error *bad = take_argument(x, k, a->arguments[d][k], &x->in[d * nargs + k]);
      if (bad) return bad;
    }
  }
  return NULL;
}

// The bytes of a leaf, or of a part of it; they have no memory yet.
static plug_bytes *promise_bytes(run *x, const hlo_shape *s) {
  return plug_bytes_promised(x->e->client, block_leaf_bytes(s));
}

static pj_error *make_bytes(plug_bytes *b) { return plug_bytes_make(b) ? NULL : no_memory(b->n); }

// The places of what is not cut are those that the devices have.
static void promise_results(run *x) {
  plug_exe *e = x->e;
  for (u32 r = 0; r < e->replicas; r++)
    for (u32 k = 0; k < e->nouts; k++) {
      const plug_leaf *leaf = &e->outs[k];
      bool whole = pjrt_tiles_whole(&leaf->tiles);
      x->r[r].outs[k] = promise_bytes(x, leaf->shape);
      for (u32 p = 0; p < e->partitions; p++)
        x->out[(r * e->partitions + p) * e->nouts + k] =
            whole ? share(x->r[r].outs[k]) : promise_bytes(x, leaf->tiles.part);
    }
}

// A donated argument that nobody else has: its memory becomes that of the result that the program
// computes in it.
static bool take_over(run *x, u32 k) {
  enum { OF_RUN = 2 };  // references: of `in`, and of the replica
  plug_exe *e = x->e;
  u32 from = e->outs[k].in_place_of;
  return from < e->nargs && x->given[from] && plug_ndevices(e) == 1 &&
         plug_bytes_take_over(x->r[0].outs[k], x->r[0].args[from], OF_RUN);
}

static pj_error *make_results(run *x) {
  plug_exe *e = x->e;
  pj_error *bad = NULL;
  for (u32 r = 0; r < e->replicas && !bad; r++)
    for (u32 k = 0; k < e->nouts && !bad; k++)
      if (!take_over(x, k)) bad = make_bytes(x->r[r].outs[k]);
  for (size_t k = 0; k < (size_t)plug_ndevices(e) * e->nouts && !bad; k++)
    bad = make_bytes(x->out[k]);
  return bad;
}

// ---- between devices and replicas ---------------------------------------------------------------
static pj_error *join_arguments(run *x) {
  plug_exe *e = x->e;
  for (u32 r = 0; r < e->replicas; r++)
    for (u32 k = 0; k < e->nargs; k++) {
      const plug_leaf *leaf = &e->args[k];
      plug_bytes **all = &x->r[r].args[k], **parts = &x->in[r * e->partitions * e->nargs + k];
      if (pjrt_tiles_whole(&leaf->tiles)) {
        *all = share(parts[0]);
        continue;
      }
      pj_error *bad = make_bytes(*all = promise_bytes(x, leaf->shape));
      if (bad) return bad;
      if (leaf->tiles.sum) memset((*all)->p, 0, (*all)->n);
      for (u32 p = 0; p < e->partitions; p++)
        pjrt_tiles_join(&leaf->tiles, p, parts[p * e->nargs]->p, (*all)->p);
    }
  return NULL;
}

static void cut_results(run *x) {
  plug_exe *e = x->e;
  for (u32 d = 0; d < plug_ndevices(e); d++)
    for (u32 k = 0; k < e->nouts; k++) {
      const plug_leaf *leaf = &e->outs[k];
      plug_bytes *part = x->out[d * e->nouts + k];
      if (pjrt_tiles_whole(&leaf->tiles)) continue;
      memset(part->p, 0, part->n);
      pjrt_tiles_cut(&leaf->tiles, d % e->partitions, x->r[d / e->partitions].outs[k]->p, part->p);
    }
}

// ---- running ------------------------------------------------------------------------------------
// The compiled program for replicas first .. first + n - 1.
static hs_status run_compiled(run *x, u32 first, u32 n) {
  plug_exe *e = x->e;
  u32 ndevices = cpu_local_devices(e->program), each = ndevices / n;
  const void **args = hs_calloc((size_t)ndevices * e->nargs + 1, sizeof *args);
  void **outs = hs_calloc((size_t)ndevices * e->nouts + 1, sizeof *outs);
  for (u32 d = 0; d < ndevices; d++)
    for (u32 k = 0; k < e->nargs; k++) args[d * e->nargs + k] = x->r[first + d / each].args[k]->p;
  for (u32 r = 0; r < n; r++)
    for (u32 k = 0; k < e->nouts; k++) outs[r * each * e->nouts + k] = x->r[first + r].outs[k]->p;
  for (u32 k = 0; k < e->nouts; k++)  // see take_over
    if (e->outs[k].in_place_of < e->nargs && !args[e->outs[k].in_place_of])
      args[e->outs[k].in_place_of] = outs[k];
  hs_status s = plug_profiled_run(e, args, outs);
  hs_free(args);
  hs_free(outs);
  return s;
}

static hs_status fill_literal(const hlo_shape *s, plug_bytes *const *bytes, u32 *at,
                              hlo_literal *l) {
  for (u32 k = 0; k < l->nchildren; k++)
    HS_TRY(fill_literal(l->children[k]->shape, bytes, at, l->children[k]));
  if (l->nchildren || hlo_shape_is_tuple(s)) return HS_GOOD;
  if (hlo_shape_is_array(s) && l->bytes) memcpy(l->data, bytes[*at]->p, l->bytes);
  (*at)++;
  return HS_GOOD;
}

static void empty_literal(const hlo_literal *l, plug_bytes *const *bytes, u32 *at) {
  for (u32 k = 0; k < l->nchildren; k++) empty_literal(l->children[k], bytes, at);
  if (l->nchildren || hlo_shape_is_tuple(l->shape)) return;
  if (hlo_shape_is_array(l->shape) && l->bytes) memcpy(bytes[*at]->p, l->data, l->bytes);
  (*at)++;
}

// The worker; or the reference evaluator, for modules that the cpu backend has no code for.
static hs_status run_copied(run *x) {
  plug_exe *e = x->e;
  const hlo_computation *c = e->given->entry;
  hlo_literal **args = hs_calloc(c->nparams + 1, sizeof *args), *out = NULL;
  hs_status s = HS_GOOD;
  u32 at = 0;
  pthread_mutex_lock(&e->lock);
  for (u32 k = 0; k < c->nparams && hs_ok(s); k++) {
    const hlo_shape *shape = hlo_shape_with_default_layout(e->ctx, c->params[k]->shape);
    s = hlo_literal_new(shape, &args[k]);
    if (hs_ok(s)) s = fill_literal(shape, x->r[0].args, &at, args[k]);
  }
  const hlo_eval_options o = {.peer = &plug_peer};
  if (hs_ok(s) && e->remote) s = plug_worker_run(e, c->nparams, args, &out);
  else if (hs_ok(s)) s = hlo_eval_module(e->given, c->nparams, args, &o, &out);
  at = 0;
  if (hs_ok(s)) empty_literal(out, x->r[0].outs, &at);
  hlo_literal_unref(out);
  for (u32 k = 0; k < c->nparams; k++) hlo_literal_unref(args[k]);
  pthread_mutex_unlock(&e->lock);
  hs_free(args);
  return s;
}

static hs_status run_all(run *x) {
  plug_exe *e = x->e;
  if (!e->program) return run_copied(x);
  if (cpu_local_devices(e->program) >= e->replicas) return run_compiled(x, 0, e->replicas);
  for (u32 r = 0; r < e->replicas; r++) HS_TRY(run_compiled(x, r, 1));
  return HS_GOOD;
}

// The first error among what it reads.
static pj_error *wait_for_arguments(run *x) {
  for (size_t k = 0; k < (size_t)plug_ndevices(x->e) * x->e->nargs; k++) {
    pj_error *bad = plug_ready_wait(x->in[k]->ready);
    if (bad) return bad;
  }
  return NULL;
}

static pj_error *run_now(run *x) {
  pj_error *bad = wait_for_arguments(x);
  if (!bad) bad = join_arguments(x);
  if (!bad) bad = make_results(x);
  u64 from = hs_now_ns();
  if (!bad) bad = plug_status(run_all(x));
  if (!bad) {
    atomic_store(&x->e->last_ns, HS_MAX(hs_now_ns() - from, 1));
    cut_results(x);
  }
  return bad;
}

static void run_job(void *take) {
  run *x = take;
  pj_error *bad = run_now(x);
  plug_ready_set(x->ready, bad);
  plug_error_free(bad);
  run_free(x);
}

// Whether it is run where it is called.
static bool is_short(const run *x) {
  u64 ns = atomic_load(&x->e->last_ns);
  // a custom call of the user's that waits for this would wait for itself
  if (x->e->calls_out || plug_queue_is_here(x->e->client->queue)) return true;
  if (!ns || ns >= SHORT_NS || !plug_queue_is_idle(x->e->client->queue)) return false;
  for (size_t k = 0; k < (size_t)plug_ndevices(x->e) * x->e->nargs; k++)
    if (!plug_ready_is(x->in[k]->ready)) return false;
  return true;
}

// ---- the call -----------------------------------------------------------------------------------
static bool is_kept(const pj_execute_options *o, u32 k) {
  for (size_t j = 0; o && o->keep && j < o->nkeep; j++)
    if (o->keep[j] == (i64)k) return true;
  return false;
}

static void give_away(run *x, const pj_execute *a) {
  for (u32 k = 0; k < x->e->nargs; k++) {
    x->given[k] = x->e->args[k].donated && !is_kept(a->options, k);
    for (u32 d = 0; x->given[k] && d < plug_ndevices(x->e); d++)
      plug_buffer_delete(a->arguments[d][k]);
  }
}

static void hand_out(const run *x, const pj_execute *a) {
  plug_exe *e = x->e;
  for (u32 d = 0; d < plug_ndevices(e); d++) {
    for (u32 k = 0; k < e->nouts; k++) {
      const hlo_shape *s = e->outs[k].tiles.part;
      a->outputs[d][k] = plug_buffer_new(e->client->list[e->devices[d]], s->dtype, s->rank, s->dims,
                                         share(x->out[d * e->nouts + k]));
    }
    if (a->done) a->done[d] = plug_event(x->ready);
  }
}

static pj_error *check_call(const pj_execute *a) {
  const plug_exe *e = a->executable->e;
  u32 n = plug_ndevices(e);
  const pj_execute_options *o = a->options;
  if (atomic_load(&a->executable->deleted))
    return plug_fail(PJ_FAILED_PRECONDITION, "hlosh: the executable was deleted");
  if (a->ndevices != n || a->nargs != e->nargs)
    return plug_fail(PJ_INVALID_ARGUMENT,
                     "hlosh: %zu devices and %zu arguments where the program has %u and %u",
                     a->ndevices, a->nargs, n, e->nargs);
  if ((e->nargs && !a->arguments) || (e->nouts && !a->outputs) ||
      (o && o->struct_size < PJ_SIZE(pj_execute_options, nkeep)))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no arguments, place for results, or options");
  for (u32 d = 0; d < n && e->nouts; d++)
    if (!a->outputs[d])
      return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no place for the results of device %u", d);
  return NULL;
}

// What is to be waited for: every byte that the run writes.
static void promise(run *x) {
  x->ready = plug_ready_new();
  for (size_t k = 0; k < (size_t)plug_ndevices(x->e) * x->e->nouts; k++)
    if (!x->out[k]->ready) x->out[k]->ready = plug_ready_share(x->ready);
}

pj_error *plug_LoadedExecutable_Execute(pj_execute *a) {
  pj_error *bad = check_call(a);
  if (bad) return bad;
  run *x = run_new(a->executable->e);
  bad = take_arguments(x, a);
  if (bad) return run_free(x), bad;
  promise_results(x);
  bool now = is_short(x);
  give_away(x, a);
  if (now) bad = run_now(x);
  if (bad) return run_free(x), bad;
  if (!now) promise(x);
  hand_out(x, a);
  if (now) run_free(x);
  else plug_queue_add(x->e->client->queue, run_job, x);
  return NULL;
}
