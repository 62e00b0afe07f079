// eval_coll.c — many devices: simulated replicas and partitions, collectives, manual sharding and async pairs.
//
// Every device is a thread that evaluates the whole program; they meet at collectives. A meeting belongs to one
// instruction and one group of devices: each participant leaves references to its operands, and when all have come each
// computes its own result from them. When every device is either waiting or done and no meeting is complete, nobody can
// ever come: that is an error, not a hang. A module without anything that tells devices apart runs on one.
//
// Programs that are not partitioned yet are logical: Sharding markers change nothing, every device computes the whole.
// Inside a manual region (SPMDFullToShardShape, xla.sdy.GlobalToLocalShape) a device goes on with its own tile, and
// the way out puts the tiles of all devices together again.
#include <pthread.h>
#include "core/eval_ops.h"

enum { MAX_DEVICES = 1024 };

typedef struct meeting meeting;
struct meeting {
  const hlo_instr *i;
  u32 group;                             // least device of the group
  u32 size, come, left;
  u32 nops;
  hlo_literal **ops;                     // [position][operand], references
  meeting *next;
};

struct ev_world {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  u32 n, replicas, partitions;
  u32 waiting, finished;
  bool failed;
  meeting *open;
};

// ---- meetings ---------------------------------------------------------------------------------------------------------------
static meeting *join(ev_world *w, const hlo_instr *i, u32 group, u32 size, u32 nops) {
  for (meeting *m = w->open; m; m = m->next)
    if (m->i == i && m->group == group) return m;
  meeting *m = hs_calloc(1, sizeof *m);
  *m = (meeting){.i = i, .group = group, .size = size, .nops = nops, .ops = hs_calloc((size_t)size * HS_MAX(nops, 1u), sizeof *m->ops), .next = w->open};
  w->open = m;
  return m;
}

static void leave(ev_world *w, meeting *m) {
  if (!m) return;
  bool last = false;
  if (w) pthread_mutex_lock(&w->lock);
  last = ++m->left == m->size;
  if (w) pthread_mutex_unlock(&w->lock);
  if (!last) return;
  for (u32 k = 0; k < m->size * m->nops; k++) hlo_literal_unref(m->ops[k]);
  hs_free(m->ops);
  hs_free(m);
}

static hs_status stuck(const hlo_instr *i) { return hs_fail(HS_E_RUN, "the devices do not meet at %s %s", hlo_op_text(i->opcode), i->name); }

// Brings this device's operands; returns when all of the group have come. *out is left with leave().
static hs_status meet(ev *e, const hlo_instr *i, u32 size, u32 position, u32 group, u32 nops, hlo_literal *const *ops, meeting **out) {
  ev_world *w = e->world;
  *out = NULL;
  if (!w) {
    meeting *m = hs_calloc(1, sizeof *m);
    *m = (meeting){.i = i, .size = 1, .come = 1, .nops = nops, .ops = hs_calloc(HS_MAX(nops, 1u), sizeof *m->ops)};
    for (u32 k = 0; k < nops; k++) m->ops[k] = hlo_literal_ref(ops[k]);
    *out = m;
    return HS_GOOD;
  }
  pthread_mutex_lock(&w->lock);
  meeting *m = join(w, i, group, size, nops);
  for (u32 k = 0; k < nops; k++) m->ops[position * nops + k] = hlo_literal_ref(ops[k]);
  bool full = ++m->come == m->size;
  if (full) {                                        // closed: a next round opens a new one
    for (meeting **p = &w->open; *p; p = &(*p)->next)
      if (*p == m) { *p = m->next; break; }
    w->waiting -= m->size - 1;                       // released now, whenever they wake
    pthread_cond_broadcast(&w->changed);
  } else {
    w->waiting++;
    while (m->come < m->size && !w->failed) {
      if (w->waiting + w->finished == w->n) {
        w->failed = true;
        pthread_cond_broadcast(&w->changed);
        break;
      }
      pthread_cond_wait(&w->changed, &w->lock);
    }
  }
  bool failed = m->come < m->size;
  pthread_mutex_unlock(&w->lock);
  if (failed) return stuck(i);                       // the abandoned meeting is freed with the world
  *out = m;
  return HS_GOOD;
}

// Interning is for one thread at a time.
const hlo_shape *ev_typed(ev *e, const hlo_shape *s, hlo_dtype t) {
  if (e->world) pthread_mutex_lock(&e->world->lock);
  const hlo_shape *r = hlo_shape_with_dtype(e->ctx, s, t);
  if (e->world) pthread_mutex_unlock(&e->world->lock);
  return r;
}

// ---- devices and groups --------------------------------------------------------------------------------------------------------
static u32 device_of(const ev *e) { return e->replica * (e->world ? e->world->partitions : 1) + e->partition; }

typedef struct group { u32 n, position; u32 *device; } group;

// Members of a group list, in order, as ids; the list that holds `id`. False when there is none.
static bool members(const hlo_instr *i, u32 total, u32 id, u32 *n, i64 *out) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  if (!g || (g->form == HLO_GROUPS_LIST && g->groups.n == 0)) {
    for (u32 k = 0; k < total; k++) out[k] = k;
    *n = total;
    return true;
  }
  if (g->form == HLO_GROUPS_LIST) {
    for (u32 k = 0; k < g->groups.n; k++)
      for (u32 j = 0; j < g->groups.v[k].n; j++)
        if (g->groups.v[k].v[j] == id) {
          if (g->groups.v[k].n > total) return false;
          memcpy(out, g->groups.v[k].v, g->groups.v[k].n * sizeof *out);
          *n = g->groups.v[k].n;
          return true;
        }
    return g->groups.n == 1 && g->groups.v[0].n == 0 ? (*n = 1, out[0] = id, true) : false;
  }
  if (g->form != HLO_GROUPS_IOTA || g->dims.n != 2) return false;
  i64 size = g->dims.v[1], count = ev_product(g->dims.n, g->dims.v), rs[HLO_MAX_RANK], pd[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0};
  if (size > total || count > total || g->reshape.n > HLO_MAX_RANK || ev_product(g->reshape.n, g->reshape.v) != count) return false;
  hlo_row_major_strides(g->reshape.n, g->reshape.v, rs);
  for (u32 d = 0; d < g->reshape.n; d++) pd[d] = g->reshape.v[g->perm.n ? g->perm.v[d] : d];
  i64 at = 0, found = -1, all[MAX_DEVICES];
  do {
    i64 v = 0;
    for (u32 d = 0; d < g->reshape.n; d++) v += index[d] * rs[g->perm.n ? g->perm.v[d] : d];
    if (v == id) found = at / size;
    if (at < MAX_DEVICES) all[at] = v;
    at++;
  } while (ev_next(g->reshape.n, pd, index));
  if (found < 0) return false;
  memcpy(out, all + found * size, (size_t)size * sizeof *out);
  *n = (u32)size;
  return true;
}

// The devices this one meets at a collective: what the ids of the groups count depends on the channel, on
// use_global_device_ids, and on the operation.
static hs_status group_of(ev *e, const hlo_instr *i, u32 *devices, group *g) {
  u32 parts = e->world ? e->world->partitions : 1, reps = e->world ? e->world->replicas : 1, n = 0;
  bool channel = hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) != NULL, global = hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0) != 0;
  bool sums = i->opcode == HLO_ALL_REDUCE || i->opcode == HLO_ALL_REDUCE_START || i->opcode == HLO_REDUCE_SCATTER ||
              i->opcode == HLO_ALL_GATHER || i->opcode == HLO_ALL_GATHER_START;
  i64 ids[MAX_DEVICES];
  *g = (group){.device = devices};
  if (channel && global) {
    if (!members(i, parts * reps, device_of(e), &n, ids)) return ev_unsupported(i, "on a device that is in none of its groups");
    for (u32 k = 0; k < n; k++) devices[g->n++] = (u32)ids[k];
  } else if (channel && !sums) {
    if (!members(i, parts, e->partition, &n, ids)) return ev_unsupported(i, "on a device that is in none of its groups");
    for (u32 k = 0; k < n; k++) devices[g->n++] = e->replica * parts + (u32)ids[k];
  } else {
    if (!members(i, reps, e->replica, &n, ids)) return ev_unsupported(i, "on a device that is in none of its groups");
    for (u32 k = 0; k < n; k++)
      for (u32 p = 0; p < (channel ? parts : 1); p++) {
        if (g->n == MAX_DEVICES) return ev_unsupported(i, "over so many devices");
        devices[g->n++] = (u32)ids[k] * parts + (channel ? p : e->partition);
      }
  }
  for (u32 k = 0; k < g->n; k++) {
    if (devices[k] >= parts * reps) return ev_unsupported(i, "over more devices than are simulated");
    if (devices[k] == device_of(e)) g->position = k;
  }
  return HS_GOOD;
}

static u32 least(const group *g) {
  u32 m = UINT32_MAX;
  for (u32 k = 0; k < g->n; k++) m = HS_MIN(m, g->device[k]);
  return m;
}

// ---- collectives ------------------------------------------------------------------------------------------------------------------
static const hlo_shape *result_shape(const hlo_instr *i, u32 k, u32 n) {
  const hlo_shape *s = i->shape;
  // A start of an all-gather or permute carries its operands in front of the results.
  if (hlo_shape_is_tuple(s) && (i->opcode == HLO_ALL_GATHER_START || i->opcode == HLO_COLLECTIVE_PERMUTE_START) && s->nelems >= 2) s = s->elems[1];
  return hlo_shape_is_tuple(s) && (n > 1 || s->nelems == 1) ? s->elems[k] : s;
}

// Sum (or whatever the computation says) of operand k over the group, in group order.
static hs_status reduce_group(ev *e, const hlo_instr *i, const meeting *m, u32 k, hlo_literal **out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  const hlo_literal *first = m->ops[k];
  ev_apply a;
  if (!c || c->nparams != 2) return ev_unsupported(i, "with this computation");
  HS_TRY(ev_apply_init(e, c, &a));
  HS_TRY(ev_new(e, first->shape, out));
  memcpy((*out)->data, first->data, first->bytes);
  size_t w = hlo_dtype_storage(first->shape->dtype);
  i64 n = first->shape->elements;
  for (u32 p = 1; p < m->size; p++)
    for (i64 j = 0; j < n; j += EV_BLOCK) {
      void *dst = (char *)(*out)->data + (size_t)j * w;
      const void *in[2] = {dst, (const char *)m->ops[p * m->nops + k]->data + (size_t)j * w};
      HS_TRY(ev_apply_run(&a, &dst, in, HS_MIN((i64)EV_BLOCK, n - j)));
    }
  return HS_GOOD;
}

// Copies `part` between an array and the slab of it that starts at `at` along `dim`.
static void copy_slab(hlo_literal *whole, hlo_literal *slab, i64 dim, i64 at, bool into) {
  const hlo_shape *s = slab->shape;
  i64 ws[HLO_MAX_RANK], ss[HLO_MAX_RANK];
  size_t w = hlo_dtype_storage(s->dtype);
  hlo_row_major_strides(s->rank, whole->shape->dims, ws);
  hlo_row_major_strides(s->rank, s->dims, ss);
  char *p = (char *)whole->data + (s->rank ? at * ws[dim] : 0) * (i64)w;
  if (!s->elements) return;
  if (into) ev_copy(w, s->rank, s->dims, p, ws, slab->data, ss);
  else ev_copy(w, s->rank, s->dims, slab->data, ss, p, ws);
}

static hs_status gather_group(ev *e, const hlo_instr *i, const meeting *m, u32 k, hlo_literal **out) {
  i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0], at = 0;
  HS_TRY(ev_new(e, result_shape(i, k, m->nops), out));
  for (u32 p = 0; p < m->size; p++) {
    hlo_literal *part = m->ops[p * m->nops + k];
    if (at + part->shape->dims[dim] > (*out)->shape->dims[dim]) return ev_unsupported(i, "over more devices than its result has room for");
    copy_slab(*out, part, dim, at, true);
    at += part->shape->dims[dim];
  }
  return at == (*out)->shape->dims[dim] ? HS_GOOD : ev_unsupported(i, "over fewer devices than its result has room for");
}

static hs_status scatter_group(ev *e, const hlo_instr *i, const meeting *m, const group *g, u32 k, hlo_literal **out) {
  i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
  hlo_literal *sum = NULL;
  hs_status st = reduce_group(e, i, m, k, &sum);
  if (hs_ok(st)) st = ev_new(e, result_shape(i, k, m->nops), out);
  i64 size = hs_ok(st) ? (*out)->shape->dims[dim] : 0;
  if (hs_ok(st) && size * (i64)m->size > sum->shape->dims[dim]) st = ev_unsupported(i, "over more devices than there are parts");
  if (hs_ok(st)) copy_slab(sum, *out, dim, size * (i64)g->position, false);
  hlo_literal_unref(sum);
  return st;
}

// Part `position` of every member's operand along the split dimension, joined in group order.
static hs_status exchange_group(ev *e, const hlo_instr *i, const meeting *m, const group *g, hlo_literal **out) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  HS_TRY(ev_new(e, i->shape, out));
  const hlo_shape *from = m->ops[0]->shape;
  i64 dim = dims.n ? dims.v[0] : 0, part = from->dims[dim] / (i64)m->size, ws[HLO_MAX_RANK], n[HLO_MAX_RANK];
  size_t w = hlo_dtype_storage(from->dtype);
  hlo_row_major_strides(from->rank, from->dims, ws);
  memcpy(n, from->dims, from->rank * sizeof *n);
  n[dim] = part;
  for (u32 p = 0; p < m->size && from->elements; p++)
    ev_copy(w, from->rank, n, (char *)(*out)->data + (i64)p * part * ws[dim] * (i64)w, ws,
            (const char *)m->ops[p * m->nops]->data + (i64)g->position * part * ws[dim] * (i64)w, ws);
  return HS_GOOD;
}

static hs_status ragged_exchange(ev *e, const hlo_instr *i, const meeting *m, const group *g, hlo_literal **ops, hlo_literal **out) {
  HS_TRY(ev_own(e, &ops[1], i->shape, out));
  i64 row = i->shape->rank > 1 ? ev_product(i->shape->rank - 1, i->shape->dims + 1) : 1;
  size_t w = hlo_dtype_storage(i->shape->dtype);
  for (u32 p = 0; p < m->size; p++) {
    hlo_literal **s = m->ops + p * m->nops;
    i64 from = hlo_literal_i64(s[2], g->position), size = hlo_literal_i64(s[3], g->position), to = hlo_literal_i64(s[4], g->position);
    if (from < 0 || size < 0 || to < 0 || from + size > s[0]->shape->dims[0] || to + size > i->shape->dims[0]) return hs_fail(HS_E_RUN, "%s: a slice is out of bounds", i->name);
    memcpy((char *)(*out)->data + (size_t)(to * row) * w, (const char *)s[0]->data + (size_t)(from * row) * w, (size_t)(size * row) * w);
  }
  return HS_GOOD;
}

static hs_status permute(ev *e, const hlo_instr *i, hlo_literal **ops, u32 nops, hlo_literal **r) {
  bool channel = hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) != NULL;
  u32 parts = e->world ? e->world->partitions : 1, reps = e->world ? e->world->replicas : 1, me = channel ? e->partition : e->replica;
  u32 size = channel ? parts : reps, base = channel ? e->replica * parts : e->partition;
  hlo_ints pairs = hlo_attr_ints(i, HLO_ATTR_SOURCE_TARGET_PAIRS);
  meeting *m;
  HS_TRY(meet(e, i, size, me, base, nops, ops, &m));
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < nops && hs_ok(st); k++) {
    const hlo_literal *src = NULL;
    for (u32 p = 0; p < pairs.n; p++)
      if (pairs.v[2 * p + 1] == me && pairs.v[2 * p] >= 0 && pairs.v[2 * p] < size) src = m->ops[(u32)pairs.v[2 * p] * nops + k];
    if (src) { r[k] = hlo_literal_ref(src); continue; }
    st = ev_new(e, ops[k]->shape, &r[k]);            // nobody sends here: zeros
    if (hs_ok(st)) memset(r[k]->data, 0, r[k]->bytes);
  }
  leave(e->world, m);
  return st;
}

// The results of a collective, one per operand (or one in all for the exchanges).
static hs_status run_collective(ev *e, const hlo_instr *i, hlo_literal **ops, u32 *nres, hlo_literal **r) {
  u32 devices[MAX_DEVICES], n = i->noperands;
  group g;
  meeting *m;
  *nres = n;
  if (i->opcode == HLO_COLLECTIVE_PERMUTE || i->opcode == HLO_COLLECTIVE_PERMUTE_START)
    return hlo_attr_get(i, HLO_ATTR_PERMUTE_SLICE_SIZES) ? ev_unsupported(i, "in place") : permute(e, i, ops, n, r);
  HS_TRY(group_of(e, i, devices, &g));
  HS_TRY(meet(e, i, g.n, g.position, least(&g), n, ops, &m));
  hs_status st = HS_GOOD;
  bool exchange = i->opcode == HLO_ALL_TO_ALL && !(hlo_shape_is_tuple(i->shape) && !hlo_attr_get(i, HLO_ATTR_DIMENSIONS));
  if (i->opcode == HLO_RAGGED_ALL_TO_ALL) { *nres = 1; st = ragged_exchange(e, i, m, &g, ops, &r[0]); }
  else if (exchange && n == 1 && hlo_shape_is_array(i->shape)) st = exchange_group(e, i, m, &g, &r[0]);
  else for (u32 k = 0; k < n && hs_ok(st); k++) switch (i->opcode) {
    case HLO_ALL_REDUCE: case HLO_ALL_REDUCE_START: st = reduce_group(e, i, m, k, &r[k]); break;
    case HLO_REDUCE_SCATTER: st = scatter_group(e, i, m, &g, k, &r[k]); break;
    case HLO_ALL_GATHER: case HLO_ALL_GATHER_START: st = gather_group(e, i, m, k, &r[k]); break;
    case HLO_COLLECTIVE_BROADCAST: r[k] = hlo_literal_ref(m->ops[k]); break;
    case HLO_ALL_TO_ALL:
      if (n != g.n) { st = ev_unsupported(i, "with another number of operands than devices"); break; }
      r[k] = hlo_literal_ref(m->ops[k * n + g.position]);
      break;
    default: st = ev_unsupported(i, "here");
    }
  leave(e->world, m);
  return st;
}

hs_status hlo_eval_collective(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  u32 n = i->noperands, nres = 0;
  hlo_literal **r = hs_calloc(n + 1, sizeof *r);
  hs_status st = run_collective(e, i, ops, &nres, r);
  if (!hs_ok(st)) for (u32 k = 0; k < n; k++) hlo_literal_unref(r[k]);
  else if (hlo_shape_is_tuple(i->shape)) *out = hlo_literal_tuple(i->shape, nres, r);
  else *out = ev_retag(&r[0], i->shape);
  hs_free(r);
  return st;
}

// ---- async pairs: the start does the work; its value is (operands, result, contexts...) -------------------------------------------
static hs_status async_tuple(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal *result, hlo_literal **out) {
  const hlo_shape *s = i->shape;
  hlo_literal **part = hs_calloc(s->nelems + 1, sizeof *part);
  hs_status st = HS_GOOD;
  if (hlo_shape_is_tuple(s->elems[0])) part[0] = hlo_literal_tuple(s->elems[0], i->noperands, ops);
  else part[0] = hlo_literal_ref(ops[0]);
  if (hlo_shape_is_tuple(s->elems[0])) for (u32 k = 0; k < i->noperands; k++) hlo_literal_ref(ops[k]);
  part[1] = result;
  for (u32 k = 2; k < s->nelems && hs_ok(st); k++) st = hlo_literal_new(s->elems[k], &part[k]);
  if (hs_ok(st)) *out = hlo_literal_tuple(s, s->nelems, part);
  else for (u32 k = 0; k < s->nelems; k++) hlo_literal_unref(part[k]);
  (void)e;
  hs_free(part);
  return st;
}

hs_status hlo_eval_async_start(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  hlo_literal *result = NULL;
  if (i->opcode == HLO_ALL_REDUCE_START) return hlo_eval_collective(e, i, ops, out);
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems < 2) return ev_unsupported(i, "with this result");
  u32 n = i->noperands, nres = 0;
  hlo_literal **tmp = hs_calloc(n + 1, sizeof *tmp);
  hs_status st;
  if (i->opcode == HLO_ASYNC_START) {
    const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_CALLS);
    for (u32 k = 0; k < n; k++) tmp[k] = hlo_literal_ref(ops[k]);
    st = c ? ev_call(e, c, n, tmp, &result) : ev_unsupported(i, "without a computation");
  } else {
    st = run_collective(e, i, ops, &nres, tmp);
    if (!hs_ok(st)) for (u32 k = 0; k < n; k++) hlo_literal_unref(tmp[k]);
    else result = hlo_shape_is_tuple(i->shape->elems[1]) ? hlo_literal_tuple(i->shape->elems[1], nres, tmp) : tmp[0];
  }
  hs_free(tmp);
  return hs_ok(st) ? async_tuple(e, i, ops, result, out) : st;
}

hs_status hlo_eval_async_done(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  if (ops[0]->shape->logical == i->shape->logical) { *out = ops[0]; ops[0] = NULL; return HS_GOOD; }
  if (ops[0]->nchildren < 2) return ev_unsupported(i, "of this value");
  *out = hlo_literal_ref(ops[0]->children[1]);
  return HS_GOOD;
}

hs_status hlo_eval_copy_start(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != 3) return ev_unsupported(i, "with this result");
  hlo_literal *part[3] = {hlo_literal_ref(ops[0]), hlo_literal_ref(ops[0]), NULL};
  hs_status st = hlo_literal_new(i->shape->elems[2], &part[2]);
  *out = hlo_literal_tuple(i->shape, 3, part);
  return st;
}
hs_status hlo_eval_copy_done(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)e;
  if (ops[0]->nchildren < 1) return ev_unsupported(i, "of this value");
  hlo_literal *v = hlo_literal_ref(ops[0]->children[0]);
  *out = ev_retag(&v, i->shape);
  return HS_GOOD;
}

hs_status hlo_eval_partition_id(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  HS_TRY(ev_new(e, i->shape, out));
  hlo_literal_set_i64(*out, 0, e->partition);
  return HS_GOOD;
}
hs_status hlo_eval_replica_id(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  (void)ops;
  HS_TRY(ev_new(e, i->shape, out));
  hlo_literal_set_i64(*out, 0, e->replica);
  return HS_GOOD;
}

// ---- manual regions -----------------------------------------------------------------------------------------------------------------
// Where each device's tile starts in the whole array, in tiles.
typedef struct tiling { u32 ndevices; i64 *coord; u32 rank; } tiling;   // coord[device * rank + dimension]

static bool tiling_of_sharding(const hlo_sharding *s, u32 rank, tiling *t) {
  if (!s || s->type == HLO_SH_REPLICATED || s->type == HLO_SH_MANUAL || s->type == HLO_SH_MAXIMAL || s->type == HLO_SH_UNKNOWN) return true;   // every tile is the whole
  if (s->type != HLO_SH_TILED || s->dims.n < rank || s->dims.n > HLO_MAX_RANK) return false;
  i64 total = ev_product(s->dims.n, s->dims.v), index[HLO_MAX_RANK] = {0}, rs[HLO_MAX_RANK], ps[HLO_MAX_RANK], pd[HLO_MAX_RANK];
  if (total != t->ndevices) return false;
  bool iota = s->devices.n == 0;
  if (iota && (s->reshape.n > HLO_MAX_RANK || ev_product(s->reshape.n, s->reshape.v) != total)) return false;
  if (iota) {
    hlo_row_major_strides(s->reshape.n, s->reshape.v, rs);
    for (u32 d = 0; d < s->reshape.n; d++) pd[d] = s->reshape.v[s->perm.n ? s->perm.v[d] : d];
    hlo_row_major_strides(s->reshape.n, pd, ps);
  }
  for (i64 k = 0; k < total; k++, ev_next(s->dims.n, s->dims.v, index)) {
    i64 device = 0;
    if (!iota) device = k < s->devices.n ? s->devices.v[k] : -1;
    else for (u32 d = 0; d < s->reshape.n; d++) device += k / ps[d] % pd[d] * rs[s->perm.n ? s->perm.v[d] : d];
    if (device < 0 || device >= t->ndevices) return false;
    memcpy(t->coord + device * rank, index, rank * sizeof *index);
  }
  return true;
}

// ---- Shardy's attributes: text of MLIR -------------------------------------------------------------------------------------------------
static hs_str frontend_value(const hlo_attr *a, const char *key) {
  const hlo_frontend *f = a ? a->v.p : NULL;
  for (u32 k = 0; f && k < f->n; k++)
    if (hs_str_eq(f->v[k].key, hs_str_of(key))) return f->v[k].value;
  return (hs_str){NULL, 0};
}

typedef struct axis_sizes { u32 n; hs_str name[16]; i64 size[16]; } axis_sizes;

// Reads `"name"` at *k, unescaped or with backslashes; leaves *k after it.
static bool quoted(hs_str s, size_t *k, hs_str *out) {
  while (*k < s.n && s.p[*k] != '"' && s.p[*k] != ']' && s.p[*k] != '}' && s.p[*k] != '>') ++*k;
  if (*k >= s.n || s.p[*k] != '"') return false;
  size_t from = ++*k;
  while (*k < s.n && s.p[*k] != '"' && s.p[*k] != '\\') ++*k;
  *out = (hs_str){s.p + from, *k - from};
  while (*k < s.n && s.p[*k] != '"') ++*k;
  if (*k < s.n) ++*k;
  return true;
}

static bool read_mesh(const hlo_module *m, axis_sizes *a) {
  hs_str v = frontend_value(hlo_attrs_find(m->attrs, HLO_ATTR_FRONTEND_ATTRIBUTES), "xla.sdy.meshes");
  a->n = 0;
  size_t k = 0;
  while (k < v.n && v.p[k] != '[') k++;
  hs_str name;
  while (a->n < HS_COUNT(a->name) && quoted(v, &k, &name)) {
    while (k < v.n && v.p[k] != '=') k++;
    i64 size = 0;
    for (k++; k < v.n && v.p[k] >= '0' && v.p[k] <= '9'; k++) size = size * 10 + (v.p[k] - '0');
    if (size < 1) return false;
    a->name[a->n] = name;
    a->size[a->n++] = size;
  }
  return a->n > 0;
}

// The sharding of value `which` in `#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, ...]>`.
static bool tiling_of_shardy(const hlo_module *m, hs_str text, u32 which, u32 rank, tiling *t) {
  axis_sizes mesh;
  if (!read_mesh(m, &mesh)) return false;
  size_t k = 0;
  for (u32 seen = 0; k < text.n; k++)
    if (text.p[k] == '@' && seen++ == which) break;
  while (k < text.n && text.p[k] != '[') k++;
  for (u32 d = 0; d < rank; d++) {
    while (k < text.n && text.p[k] != '{') k++;
    if (k++ >= text.n) return false;
    hs_str name;
    while (quoted(text, &k, &name)) {
      u32 axis = 0;
      while (axis < mesh.n && !hs_str_eq(mesh.name[axis], name)) axis++;
      if (axis == mesh.n || (k < text.n && text.p[k] == ':')) return false;     // unknown, or a part of an axis
      i64 inner = 1;
      for (u32 q = axis + 1; q < mesh.n; q++) inner *= mesh.size[q];
      for (u32 dev = 0; dev < t->ndevices; dev++) t->coord[dev * rank + d] = t->coord[dev * rank + d] * mesh.size[axis] + (i64)dev / inner % mesh.size[axis];
      while (k < text.n && text.p[k] == ' ') k++;
      if (k < text.n && text.p[k] == '}') break;
    }
  }
  return true;
}

static hs_status find_tiling(ev *e, const hlo_instr *i, bool into, u32 which, u32 rank, tiling *t) {
  t->ndevices = e->world ? e->world->n : 1;
  t->rank = rank;
  t->coord = hs_calloc((size_t)t->ndevices * HS_MAX(rank, 1u), sizeof *t->coord);
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  bool ok;
  if (target.n > 4 && memcmp(target.p, "xla.", 4) == 0) {
    hs_str text = frontend_value(hlo_attr_get(i, HLO_ATTR_FRONTEND_ATTRIBUTES), into ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings");
    ok = text.n && tiling_of_shardy(i->parent->module, text, which, rank, t);
  } else {
    const hlo_instr *carrier = into ? hlo_operand(i, 0) : i;
    ok = tiling_of_sharding(hlo_attr_ptr(carrier, HLO_ATTR_SHARDING), rank, t);
  }
  if (ok) return HS_GOOD;
  hs_free(t->coord);
  t->coord = NULL;
  return ev_unsupported(i, "with this sharding");
}

// Tile of `device` between the whole array and the tile's own.
static void copy_tile(const tiling *t, u32 device, hlo_literal *whole, hlo_literal *tile, bool into_whole) {
  const hlo_shape *s = tile->shape, *w = whole->shape;
  i64 ws[HLO_MAX_RANK], ts[HLO_MAX_RANK], n[HLO_MAX_RANK], at = 0;
  hlo_row_major_strides(s->rank, w->dims, ws);
  hlo_row_major_strides(s->rank, s->dims, ts);
  for (u32 d = 0; d < s->rank; d++) {
    i64 start = t->coord[device * t->rank + d] * s->dims[d];
    if (s->dims[d] == w->dims[d]) start = 0;
    n[d] = HS_MIN(s->dims[d], w->dims[d] - start);
    if (n[d] <= 0) return;
    at += start * ws[d];
  }
  size_t size = hlo_dtype_storage(s->dtype);
  char *p = (char *)whole->data + at * (i64)size;
  if (into_whole) ev_copy(size, s->rank, n, p, ws, tile->data, ts);
  else ev_copy(size, s->rank, n, tile->data, ts, p, ws);
}

static hs_status one_way(ev *e, const hlo_instr *i, bool into, u32 which, hlo_literal *op, const hlo_shape *to, hlo_literal **out) {
  if (to->rank != op->shape->rank) return ev_unsupported(i, "with this result");
  if (to->logical == op->shape->logical) { *out = hlo_literal_ref(op); return HS_GOOD; }
  tiling t;
  HS_TRY(find_tiling(e, i, into, which, to->rank, &t));
  hs_status st = ev_new(e, to, out);
  u32 n = t.ndevices, me = device_of(e);
  if (hs_ok(st)) memset((*out)->data, 0, (*out)->bytes);
  if (hs_ok(st) && into) copy_tile(&t, me, op, *out, false);
  else if (hs_ok(st)) {
    meeting *m;
    st = meet(e, i, n, me, which, 1, &op, &m);       // values of one instruction meet apart, by their number
    if (hs_ok(st)) {
      for (u32 d = 0; d < n; d++) copy_tile(&t, d, *out, m->ops[d], true);
      leave(e->world, m);
    }
  }
  hs_free(t.coord);
  return st;
}

static hs_status cross(ev *e, const hlo_instr *i, bool into, hlo_literal **ops, hlo_literal **out) {
  if (hlo_shape_is_array(i->shape)) return one_way(e, i, into, 0, ops[0], i->shape, out);
  u32 n = i->shape->nelems;
  if (n != i->noperands) return ev_unsupported(i, "with these results");
  hlo_literal **r = hs_calloc(n + 1, sizeof *r);
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(st); k++) st = one_way(e, i, into, k, ops[k], i->shape->elems[k], &r[k]);
  if (hs_ok(st)) *out = hlo_literal_tuple(i->shape, n, r);
  else for (u32 k = 0; k < n; k++) hlo_literal_unref(r[k]);
  hs_free(r);
  return st;
}
hs_status ev_full_to_shard(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) { return cross(e, i, true, ops, out); }
hs_status ev_shard_to_full(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) { return cross(e, i, false, ops, out); }

// ---- all devices ---------------------------------------------------------------------------------------------------------------------
typedef struct device {
  pthread_t thread;
  bool started;
  const hlo_module *m;
  u32 nargs; hlo_literal *const *args;
  hlo_eval_options opt;
  ev_world *w;
  u32 replica, partition;
  hlo_literal *out;
  hs_status st;
} device;

static void *device_main(void *arg) {
  device *d = arg;
  d->st = ev_run_one(d->m->entry, d->nargs, d->args, &d->opt, d->w, d->replica, d->partition, &d->out);
  pthread_mutex_lock(&d->w->lock);
  d->w->finished++;
  if (!hs_ok(d->st)) d->w->failed = true;
  pthread_cond_broadcast(&d->w->changed);
  pthread_mutex_unlock(&d->w->lock);
  return NULL;
}

static bool tells_devices_apart(const hlo_module *m) {
  hlo_for_each_comp(c, m) hlo_for_each_instr(i, c) {
    if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE) || i->opcode == HLO_PARTITION_ID || i->opcode == HLO_REPLICA_ID) return true;
    if (i->opcode == HLO_CUSTOM_CALL) {
      hs_str t = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
      if (hs_str_eq(t, HS_STR("SPMDFullToShardShape")) || hs_str_eq(t, HS_STR("xla.sdy.GlobalToLocalShape"))) return true;
    }
  }
  return false;
}

static i64 module_int(const hlo_module *m, hlo_attr_id id) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, id);
  return a ? a->v.i : 1;
}

static void free_world(ev_world *w) {
  while (w->open) {
    meeting *m = w->open;
    w->open = m->next;
    for (u32 k = 0; k < m->size * m->nops; k++) hlo_literal_unref(m->ops[k]);
    hs_free(m->ops);
    hs_free(m);
  }
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
}

// The status to report: a failure of its own before one that only says the others are missing.
static hs_status collect(device *d, u32 n) {
  hs_status st = HS_GOOD;
  for (int pass = 0; pass < 2; pass++)
    for (u32 k = 0; k < n; k++) {
      if (hs_ok(d[k].st)) continue;
      bool secondary = strstr(d[k].st.err->message, "do not meet") != NULL;
      if (hs_ok(st) && secondary == (pass == 1)) st = d[k].st, d[k].st = HS_GOOD;
    }
  for (u32 k = 0; k < n; k++) hs_status_drop(d[k].st);
  return st;
}

hs_status ev_run_devices(const hlo_module *m, u32 nargs, hlo_literal *const *args, const hlo_eval_options *opt, hlo_literal **out) {
  i64 reps = opt && opt->nreplicas ? opt->nreplicas : module_int(m, HLO_ATTR_REPLICA_COUNT);
  i64 parts = opt && opt->npartitions ? opt->npartitions : module_int(m, HLO_ATTR_NUM_PARTITIONS);
  if (reps < 1) reps = 1;
  if (parts < 1) parts = 1;
  if (reps > MAX_DEVICES || parts > MAX_DEVICES || reps * parts > MAX_DEVICES) return hs_fail(HS_E_LIMIT, "more than %d devices", MAX_DEVICES);
  u32 n = (u32)(reps * parts);
  if (n == 1 || !tells_devices_apart(m)) return hlo_eval_computation(m->entry, nargs, args, opt, out);
  if (nargs != m->entry->nparams) return hs_fail(HS_E_INPUT, "%s takes %u arguments, %u given", m->entry->name, m->entry->nparams, nargs);
  ev_world w = {.n = n, .replicas = (u32)reps, .partitions = (u32)parts};
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.changed, NULL);
  device *d = hs_calloc(n, sizeof *d);
  for (u32 k = 0; k < n; k++) {
    d[k] = (device){.m = m, .nargs = nargs, .args = args, .w = &w, .replica = k / (u32)parts, .partition = k % (u32)parts};
    if (opt) d[k].opt = *opt;
    if (k) d[k].opt.observe = NULL;                  // captures see the first device
    d[k].started = pthread_create(&d[k].thread, NULL, device_main, &d[k]) == 0;
    if (d[k].started) continue;
    pthread_mutex_lock(&w.lock);
    w.finished++;
    w.failed = true;
    pthread_mutex_unlock(&w.lock);
    d[k].st = hs_fail(HS_E_NO_MEMORY, "no thread for a simulated device");
  }
  for (u32 k = 0; k < n; k++)
    if (d[k].started) pthread_join(d[k].thread, NULL);
  hs_status st = collect(d, n);
  if (hs_ok(st)) *out = d[0].out, d[0].out = NULL;
  for (u32 k = 0; k < n; k++) hlo_literal_unref(d[k].out);
  hs_free(d);
  free_world(&w);
  return st;
}
