// execute.c — running a program: one list of arguments and of results per device.
//
// Partitions are virtual: the module is run on whole arrays (backends/cpu runs every device's part
// of what tells devices apart, collectives and manual regions), and what a partition has of an
// argument or result is cut out of it. Replicas have arguments of their own. A program in which
// nothing tells devices apart is run once per replica.
#include "plugin/plugin.h"

#include "backends/block.h"

#include <stdlib.h>

// The bytes of the leaves of one replica: arguments or results.
typedef struct replica {
  plug_bytes **args, **outs;
} replica;
typedef struct run {
  pj_executable *e;
  pj_execute *a;
  replica *r;  // e->replicas of them
} run;

static pj_error *no_memory(size_t n) {
  return plug_fail(PJ_RESOURCE_EXHAUSTED, "hlosh: no memory for %zu bytes", n);
}

// ---- arguments ----------------------------------------------------------------------------------
static pj_error *check_argument(const pj_executable *e, u32 k, const pj_buffer *b) {
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

// The argument of a replica, whole: the buffer of its first partition, or the parts joined.
static pj_error *gather(run *x, u32 replica_index, u32 k, plug_bytes **out) {
  const plug_leaf *leaf = &x->e->args[k];
  u32 n = x->e->partitions, first = replica_index * n;
  bool whole = pjrt_tiles_whole(&leaf->tiles);
  plug_bytes *all = NULL;
  if (!whole && !(all = plug_bytes_new(x->e->client, block_leaf_bytes(leaf->shape))))
    return no_memory(block_leaf_bytes(leaf->shape));
  for (u32 p = 0; p < n; p++) {
    pj_buffer *b = x->a->arguments[first + p][k];
    pj_error *bad = b ? check_argument(x->e, k, b)
                      : plug_fail(PJ_INVALID_ARGUMENT, "hlosh: argument %u is NULL", k);
    plug_bytes *part = bad ? NULL : plug_buffer_bytes(b);
    if (!bad && !part)
      bad = plug_fail(PJ_FAILED_PRECONDITION, "hlosh: argument %u was deleted or donated", k);
    if (!bad && part->n < block_leaf_bytes(leaf->tiles.part))
      bad = plug_fail(PJ_INVALID_ARGUMENT, "hlosh: argument %u is too short", k);
    if (bad) {
      plug_bytes_drop(part);
      plug_bytes_drop(all);
      return bad;
    }
    if (whole) return *out = part, NULL;
    pjrt_tiles_join(&leaf->tiles, p, part->p, all->p);
    plug_bytes_drop(part);
  }
  return *out = all, NULL;
}

static pj_error *gather_all(run *x) {
  for (u32 r = 0; r < x->e->replicas; r++)
    for (u32 k = 0; k < x->e->nargs; k++) {
      pj_error *bad = gather(x, r, k, &x->r[r].args[k]);
      if (bad) return bad;
    }
  return NULL;
}

static pj_error *make_results(run *x) {
  for (u32 r = 0; r < x->e->replicas; r++)
    for (u32 k = 0; k < x->e->nouts; k++) {
      size_t n = block_leaf_bytes(x->e->outs[k].shape);
      if (!(x->r[r].outs[k] = plug_bytes_new(x->e->client, n))) return no_memory(n);
    }
  return NULL;
}

// ---- running ------------------------------------------------------------------------------------
// The compiled program for replicas first .. first + n - 1.
static hs_status run_compiled(run *x, u32 first, u32 n) {
  pj_executable *e = x->e;
  u32 ndevices = cpu_local_devices(e->program), each = ndevices / n;
  const void **args = hs_calloc((size_t)ndevices * e->nargs + 1, sizeof *args);
  void **outs = hs_calloc((size_t)ndevices * e->nouts + 1, sizeof *outs);
  for (u32 d = 0; d < ndevices; d++)
    for (u32 k = 0; k < e->nargs; k++) args[d * e->nargs + k] = x->r[first + d / each].args[k]->p;
  for (u32 r = 0; r < n; r++)
    for (u32 k = 0; k < e->nouts; k++) outs[r * each * e->nouts + k] = x->r[first + r].outs[k]->p;
  hs_status s = cpu_local_run(e->program, args, outs);
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

// The reference evaluator, for modules that the cpu backend has no code for.
static hs_status run_evaluated(run *x) {
  pj_executable *e = x->e;
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
  const hlo_eval_options o = {0};
  if (hs_ok(s)) s = hlo_eval_module(e->given, c->nparams, args, &o, &out);
  at = 0;
  if (hs_ok(s)) empty_literal(out, x->r[0].outs, &at);
  hlo_literal_unref(out);
  for (u32 k = 0; k < c->nparams; k++) hlo_literal_unref(args[k]);
  pthread_mutex_unlock(&e->lock);
  hs_free(args);
  return s;
}

static hs_status run_all(run *x) {
  pj_executable *e = x->e;
  if (!e->program) return run_evaluated(x);
  if (cpu_local_devices(e->program) >= e->replicas) return run_compiled(x, 0, e->replicas);
  for (u32 r = 0; r < e->replicas; r++) HS_TRY(run_compiled(x, r, 1));
  return HS_GOOD;
}

// ---- results ------------------------------------------------------------------------------------
static pj_error *hand_out(run *x, u32 device, u32 k, pj_buffer **out) {
  pj_executable *e = x->e;
  const plug_leaf *leaf = &e->outs[k];
  plug_bytes *all = x->r[device / e->partitions].outs[k], *part = all;
  const hlo_shape *s = leaf->tiles.part;
  if (pjrt_tiles_whole(&leaf->tiles)) {
    atomic_fetch_add(&all->refs, 1);
  } else {
    part = plug_bytes_new(e->client, block_leaf_bytes(s));
    if (!part) return no_memory(block_leaf_bytes(s));
    memset(part->p, 0, part->n);
    pjrt_tiles_cut(&leaf->tiles, device % e->partitions, all->p, part->p);
  }
  *out = plug_buffer_new(e->client->list[e->devices[device]], s->dtype, s->rank, s->dims, part);
  return NULL;
}

static pj_error *hand_out_all(run *x) {
  u32 n = plug_ndevices(x->e);
  for (u32 d = 0; d < n; d++)
    for (u32 k = 0; k < x->e->nouts; k++) {
      pj_error *bad = hand_out(x, d, k, &x->a->outputs[d][k]);
      if (bad) return bad;
    }
  return NULL;
}

static bool is_kept(const pj_execute_options *o, u32 k) {
  for (size_t j = 0; o && j < o->nkeep; j++)
    if (o->keep[j] == (i64)k) return true;
  return false;
}

static void give_away(const run *x) {
  for (u32 k = 0; k < x->e->nargs; k++)
    if (x->e->args[k].donated && !is_kept(x->a->options, k))
      for (u32 d = 0; d < plug_ndevices(x->e); d++) plug_buffer_delete(x->a->arguments[d][k]);
}

static void drop_all(plug_bytes **v, u32 n) {
  for (u32 k = 0; v && k < n; k++) plug_bytes_drop(v[k]);
  hs_free(v);
}

pj_error *plug_LoadedExecutable_Execute(void *args) {
  pj_execute *a = args;
  PLUG_CHECK(a, device);
  pj_executable *e = a->executable->e;
  if (atomic_load(&a->executable->deleted))
    return plug_fail(PJ_FAILED_PRECONDITION, "hlosh: the executable was deleted");
  u32 n = plug_ndevices(e);
  if (a->ndevices != n || (a->nargs != e->nargs && n))
    return plug_fail(PJ_INVALID_ARGUMENT,
                     "hlosh: %zu devices and %zu arguments where the program has %u and %u",
                     a->ndevices, a->nargs, n, e->nargs);
  run x = {.e = e, .a = a, .r = hs_calloc(e->replicas, sizeof *x.r)};
  for (u32 r = 0; r < e->replicas; r++) {
    x.r[r].args = hs_calloc(e->nargs + 1, sizeof *x.r[r].args);
    x.r[r].outs = hs_calloc(e->nouts + 1, sizeof *x.r[r].outs);
  }
  for (u32 d = 0; d < n; d++)
    for (u32 k = 0; k < e->nouts; k++) a->outputs[d][k] = NULL;
  pj_error *bad = gather_all(&x);
  if (!bad) bad = make_results(&x);
  if (!bad) bad = plug_status(run_all(&x));
  if (!bad) bad = hand_out_all(&x);
  if (!bad) give_away(&x);
  for (u32 d = 0; !bad && a->done && d < n; d++) a->done[d] = plug_event();
  for (u32 d = 0; bad && d < n; d++)
    for (u32 k = 0; k < e->nouts; k++) {
      pj_buffer_arg one = {.struct_size = sizeof one, .buffer = a->outputs[d][k]};
      (void)plug_Buffer_Destroy(&one);
      a->outputs[d][k] = NULL;
    }
  for (u32 r = 0; r < e->replicas; r++) {
    drop_all(x.r[r].args, e->nargs);
    drop_all(x.r[r].outs, e->nouts);
  }
  hs_free(x.r);
  return bad;
}
