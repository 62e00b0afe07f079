// coll.c — collectives: which devices take part, and what each of them gets.
//
// The members of a group arrive at a rendezvous (world.h) that holds the operands of all,
// and each computes its own result from them, in group order. A collective over one device is the
// same with a rendezvous of one.
#include "core/eval/world.h"

// ---- devices and groups -------------------------------------------------------------------------
typedef struct group {
  u32 n, position;
  u32 *device;
} group;

// The devices that differ from `id` along the named axes only, the first axis the slowest.
static bool mesh_members(const hlo_replica_groups *g, i64 *all, u32 id, u32 *n, i64 *out) {
  i64 total = g->mesh ? ev_mesh_devices(g->mesh, all) : 0, at = 0, size[HLO_MAX_RANK],
      stride[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0};
  while (at < total && all[at] != id) at++;
  if (at >= total || g->axes.n > HLO_MAX_RANK) return false;
  for (u32 k = 0; k < g->axes.n; k++) {
    if (!ev_mesh_axis(g->mesh, &g->axes.v[k], &size[k], &stride[k])) return false;
    at -= at / stride[k] % size[k] * stride[k];
  }
  *n = 0;
  do {
    i64 p = at;
    for (u32 k = 0; k < g->axes.n; k++) p += index[k] * stride[k];
    if (*n == EV_MAX_DEVICES) return false;
    out[(*n)++] = all[p];
  } while (ev_next(g->axes.n, size, index));
  return true;
}

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
  i64 all[EV_MAX_DEVICES];
  if (g->form == HLO_GROUPS_MESH) return mesh_members(g, all, id, n, out);
  i64 size = g->dims.n == 2 ? g->dims.v[1] : 0, count = ev_product(g->dims.n, g->dims.v);
  if (g->form != HLO_GROUPS_IOTA || size < 1 || count > total ||
      !ev_iota_devices(g->reshape, g->perm, count, all))
    return false;
  for (i64 k = 0; k < count; k++) {
    if (all[k] != id) continue;
    memcpy(out, all + k / size * size, (size_t)size * sizeof *out);
    *n = (u32)size;
    return true;
  }
  return false;
}

// The group of this device at a collective: what the ids of the groups count depends on the
// channel, on use_global_device_ids, and on the operation.
static hs_status group_of(ev *e, const hlo_instr *i, u32 *devices, group *g) {
  u32 parts = ev_partitions(e), reps = ev_replicas(e), n = 0;
  bool channel = hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) != NULL,
       global = hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0) != 0;
  i64 ids[EV_MAX_DEVICES];
  *g = (group){.device = devices};
  if (channel && global) {
    if (!members(i, parts * reps, ev_device(e), &n, ids))
      return ev_unsupported(i, "on a device that is in none of its groups");
    for (u32 k = 0; k < n; k++) devices[g->n++] = (u32)ids[k];
  } else if (channel && !ev_counts_replicas(i->opcode)) {
    if (!members(i, parts, e->partition, &n, ids))
      return ev_unsupported(i, "on a device that is in none of its groups");
    for (u32 k = 0; k < n; k++) devices[g->n++] = e->replica * parts + (u32)ids[k];
  } else {
    if (!members(i, reps, e->replica, &n, ids))
      return ev_unsupported(i, "on a device that is in none of its groups");
    for (u32 k = 0; k < n; k++)
      for (u32 p = 0; p < (channel ? parts : 1); p++) {
        if (g->n == EV_MAX_DEVICES) return ev_unsupported(i, "over so many devices");
        devices[g->n++] = (u32)ids[k] * parts + (channel ? p : e->partition);
      }
  }
  for (u32 k = 0; k < g->n; k++) {
    if (devices[k] >= parts * reps)
      return ev_unsupported(i, "over more devices than are simulated");
    if (devices[k] == ev_device(e)) g->position = k;
  }
  return HS_GOOD;
}

// A device as one of a world without any values.
static ev one_of(ev_world *w, u32 replicas, u32 partitions, u32 device) {
  *w = (ev_world){.n = replicas * partitions, .replicas = replicas, .partitions = partitions};
  return (ev){.world = w, .replica = device / partitions, .partition = device % partitions};
}

bool hlo_eval_group(const hlo_instr *i, u32 replicas, u32 partitions, u32 device, u32 *n, u32 *out,
                    u32 *position) {
  ev_world w;
  ev e = one_of(&w, replicas, partitions, device);
  u32 devices[EV_MAX_DEVICES];
  group g;
  if (w.n > EV_MAX_DEVICES) return false;
  hs_status s = group_of(&e, i, devices, &g);
  bool is = hs_ok(s) && g.n <= w.n;
  hs_status_drop(s);
  if (!is) return false;
  memcpy(out, devices, g.n * sizeof *out);
  *n = g.n;
  *position = g.position;
  return true;
}

static u32 least(const group *g) {
  u32 m = UINT32_MAX;
  for (u32 k = 0; k < g->n; k++) m = HS_MIN(m, g->device[k]);
  return m;
}

// ---- collectives --------------------------------------------------------------------------------
static const hlo_shape *result_shape(const hlo_instr *i, u32 k, u32 n) {
  const hlo_shape *s = i->shape;
  // A start of an all-gather or permute carries its operands in front of the results.
  if (hlo_shape_is_tuple(s) &&
      (i->opcode == HLO_ALL_GATHER_START || i->opcode == HLO_COLLECTIVE_PERMUTE_START) &&
      s->nelems >= 2)
    s = s->elems[1];
  return hlo_shape_is_tuple(s) && (n > 1 || s->nelems == 1) ? s->elems[k] : s;
}

static hs_status in_type(ev *e, hlo_literal *l, hlo_dtype t, hlo_literal **out) {
  if (l->shape->dtype == t) return *out = hlo_literal_ref(l), HS_GOOD;
  HS_TRY(ev_new(e, ev_typed(e, l->shape, t), out));
  ev_convert(l->shape->dtype, l->data, t, (*out)->data, l->shape->elements);
  return HS_GOOD;
}

// *sum (or whatever the computation says) = *sum with x, in the computation's own type.
static hs_status reduce_one(ev *e, ev_apply *a, hlo_dtype t, hlo_literal *x, hlo_literal *sum) {
  hlo_literal *y;
  HS_TRY(in_type(e, x, t, &y));
  size_t w = hlo_dtype_storage(t);
  hs_status s = HS_GOOD;
  for (i64 j = 0, n = sum->shape->elements; j < n && hs_ok(s); j += EV_BLOCK) {
    void *dst = (char *)sum->data + (size_t)j * w;
    const void *in[2] = {dst, (const char *)y->data + (size_t)j * w};
    s = ev_apply_run(a, &dst, in, HS_MIN((i64)EV_BLOCK, n - j));
  }
  hlo_literal_unref(y);
  return s;
}

// Operand k of the group put together, in group order, in the result's type.
static hs_status reduce_group(ev *e, const hlo_instr *i, ev_rendezvous *m, u32 k,
                              hlo_literal **out) {
  if ((*out = ev_shared(m, k))) return HS_GOOD;
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  ev_apply a;
  if (!c || c->nparams != 2 || !hlo_shape_is_array(c->params[0]->shape) ||
      c->params[0]->shape->dtype != c->root->shape->dtype)
    return ev_unsupported(i, "with this computation");
  hlo_dtype t = c->root->shape->dtype;
  hlo_literal *first, *sum = NULL;
  HS_TRY(ev_apply_init(e, c, &a));
  HS_TRY(in_type(e, m->ops[k], t, &first));
  hs_status s = ev_own(e, &first, first->shape, &sum);
  hlo_literal_unref(first);
  for (u32 p = 1; p < m->size && hs_ok(s); p++)
    s = reduce_one(e, &a, t, m->ops[p * m->nops + k], sum);
  if (hs_ok(s)) s = in_type(e, sum, result_shape(i, k, m->nops)->dtype, out);
  hlo_literal_unref(sum);
  if (hs_ok(s)) ev_share(m, k, *out);
  return s;
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

// What a start states as its result is its own word.
static bool is_slab(const hlo_shape *part, const hlo_shape *whole, i64 dim) {
  bool fits = part->rank == whole->rank && part->dtype == whole->dtype && dim < part->rank;
  for (u32 d = 0; fits && d < part->rank; d++) fits = d == dim || part->dims[d] == whole->dims[d];
  return fits;
}

static hs_status gather_group(ev *e, const hlo_instr *i, ev_rendezvous *m, u32 k,
                              hlo_literal **out) {
  if ((*out = ev_shared(m, k))) return HS_GOOD;
  i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0], at = 0;
  const hlo_shape *all =
      i->opcode == HLO_ALL_GATHER_START && hlo_shape_is_tuple(i->shape) && i->shape->nelems > 1
          ? i->shape->elems[1]
          : i->shape;
  if (m->nops > 1 && (!hlo_shape_is_tuple(all) || k >= all->nelems))
    return ev_unsupported(i, "of more operands than results");
  HS_TRY(ev_new(e, result_shape(i, k, m->nops), out));
  for (u32 p = 0; p < m->size; p++) {
    hlo_literal *part = m->ops[p * m->nops + k];
    if (!is_slab(part->shape, (*out)->shape, dim)) return ev_unsupported(i, "of another shape");
    if (at + part->shape->dims[dim] > (*out)->shape->dims[dim])
      return ev_unsupported(i, "over more devices than its result has room for");
    copy_slab(*out, part, dim, at, true);
    at += part->shape->dims[dim];
  }
  if (at != (*out)->shape->dims[dim])
    return ev_unsupported(i, "over fewer devices than its result has room for");
  ev_share(m, k, *out);
  return HS_GOOD;
}

static hs_status scatter_group(ev *e, const hlo_instr *i, ev_rendezvous *m, const group *g, u32 k,
                               hlo_literal **out) {
  i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
  hlo_literal *sum = NULL;
  hs_status st = reduce_group(e, i, m, k, &sum);
  if (hs_ok(st)) st = ev_new(e, result_shape(i, k, m->nops), out);
  i64 size = hs_ok(st) ? (*out)->shape->dims[dim] : 0;
  if (hs_ok(st) && size * (i64)m->size > sum->shape->dims[dim])
    st = ev_unsupported(i, "over more devices than there are parts");
  if (hs_ok(st)) copy_slab(sum, *out, dim, size * (i64)g->position, false);
  hlo_literal_unref(sum);
  return st;
}

// Part `position` of every member's operand along the split dimension, joined in group order.
static hs_status exchange_group(ev *e, const hlo_instr *i, const ev_rendezvous *m, const group *g,
                                hlo_literal **out) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_shape *from = m->ops[0]->shape;
  i64 dim = dims.n ? dims.v[0] : 0;
  if (from->dims[dim] % (i64)m->size)
    return ev_unsupported(i, "over devices that do not divide its dimension");
  HS_TRY(ev_new(e, i->shape, out));
  i64 part = from->dims[dim] / (i64)m->size, ws[HLO_MAX_RANK], n[HLO_MAX_RANK];
  size_t w = hlo_dtype_storage(from->dtype);
  hlo_row_major_strides(from->rank, from->dims, ws);
  memcpy(n, from->dims, from->rank * sizeof *n);
  n[dim] = part;
  for (u32 p = 0; p < m->size && from->elements; p++)
    ev_copy(w, from->rank, n, (char *)(*out)->data + (i64)p * part * ws[dim] * (i64)w, ws,
            (const char *)m->ops[p * m->nops]->data + (i64)g->position * part * ws[dim] * (i64)w,
            ws);
  return HS_GOOD;
}

static hs_status ragged_exchange(ev *e, const hlo_instr *i, const ev_rendezvous *m, const group *g,
                                 hlo_literal **ops, hlo_literal **out) {
  HS_TRY(ev_own(e, &ops[1], i->shape, out));
  i64 row = i->shape->rank > 1 ? ev_product(i->shape->rank - 1, i->shape->dims + 1) : 1;
  size_t w = hlo_dtype_storage(i->shape->dtype);
  i64 per = ops[2]->shape->elements / (i64)m->size;  // slices that each member has for each other
  for (i64 k = 0; k < per * (i64)m->size; k++) {
    hlo_literal **s = m->ops + k / per * m->nops;
    i64 mine = (i64)g->position * per + k % per;
    i64 from = hlo_literal_i64(s[2], mine), size = hlo_literal_i64(s[3], mine),
        to = hlo_literal_i64(s[4], mine);
    if (from < 0 || size < 0 || to < 0 || from + size > s[0]->shape->dims[0] ||
        to + size > i->shape->dims[0])
      return hs_fail(HS_E_RUN, "%s: a slice is out of bounds", i->name);
    memcpy((char *)(*out)->data + (size_t)(to * row) * w,
           (const char *)s[0]->data + (size_t)(from * row) * w, (size_t)(size * row) * w);
  }
  return HS_GOOD;
}

// ---- permutes -----------------------------------------------------------------------------------
// ids count partitions or replicas, from `base` on
typedef struct route {
  u32 me, size, base;
  hlo_ints pairs;
} route;

static route route_of(ev *e, const hlo_instr *i) {
  bool channel = hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) != NULL;
  u32 parts = ev_partitions(e);
  return (route){.me = channel ? e->partition : e->replica,
                 .size = channel ? parts : ev_replicas(e),
                 .base = channel ? e->replica * parts : e->partition,
                 .pairs = hlo_attr_ints(i, HLO_ATTR_SOURCE_TARGET_PAIRS)};
}

// The id whose value `me` gets: of several pairs the last one's; t->size where there is none.
static u32 source_of(const route *t) {
  u32 from = t->size;
  for (u32 p = 0; p < t->pairs.n; p++)
    if (t->pairs.v[2 * p + 1] == t->me && t->pairs.v[2 * p] >= 0 && t->pairs.v[2 * p] < t->size)
      from = (u32)t->pairs.v[2 * p];
  return from;
}

u32 hlo_eval_source(const hlo_instr *i, u32 replicas, u32 partitions, u32 device) {
  ev_world w;
  ev e = one_of(&w, replicas, partitions, device);
  route t = route_of(&e, i);
  u32 from = source_of(&t);
  if (from == t.size) return w.n;
  return hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) ? t.base + from : from * partitions + t.base;
}

static hs_status permute(ev *e, const hlo_instr *i, hlo_literal **ops, u32 nops, hlo_literal **r) {
  route t = route_of(e, i);
  ev_rendezvous *m;
  HS_TRY(ev_join(e, i, t.size, t.me, t.base, nops, ops, &m));
  hs_status st = HS_GOOD;
  u32 from = source_of(&t);
  for (u32 k = 0; k < nops && hs_ok(st); k++) {
    if (from < t.size) {
      r[k] = hlo_literal_ref(m->ops[from * nops + k]);
      continue;
    }
    st = ev_new(e, ops[k]->shape, &r[k]);  // no pair has this target: zeros
    if (hs_ok(st)) memset(r[k]->data, 0, r[k]->bytes);
  }
  ev_leave(e->world, m);
  return st;
}

static const hlo_literal *child(const hlo_literal *l, u32 k) {
  return l && l->nchildren ? l->children[HS_MIN(k, l->nchildren - 1)] : l;
}
// a tuple of scalars, or a vector
static bool is_index(const hlo_literal *l) { return !l->nchildren || !l->children[0]->nchildren; }

// Where the ordinal-th slice of buffer b starts, clamped into the array.
static i64 slice_start(const hlo_literal *starts, bool many, u32 b, u32 ordinal, u32 d, i64 room) {
  const hlo_literal *of = many ? child(starts, b) : starts;
  if (of && !is_index(of)) of = child(of, ordinal);
  const hlo_literal *l = of && of->nchildren ? (d < of->nchildren ? of->children[d] : NULL) : of;
  i64 v = l && hlo_shape_is_array(l->shape)
              ? hlo_literal_i64(l, of->nchildren || l->shape->elements <= d ? 0 : d)
              : 0;
  return HS_MAX(HS_MIN(v, room), 0);
}

// In place: the operands are inputs, outputs, where slices start in each. A device sends its n-th
// slice along the n-th pair that it is the source of; the receiver puts it where its own n-th
// output slice starts.
static hs_status permute_slices(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  route t = route_of(e, i);
  const hlo_int_lists *sizes = hlo_attr_ptr(i, HLO_ATTR_PERMUTE_SLICE_SIZES);
  bool many = ops[0]->nchildren > 0;
  u32 buffers = many ? ops[0]->nchildren : 1, per = HS_MAX(sizes->n / buffers, 1u);
  hlo_literal *r[64] = {0};
  if (i->noperands != 4 || !sizes->n || buffers > HS_COUNT(r) ||
      (many && ops[1]->nchildren != buffers))
    return ev_unsupported(i, "with these operands");
  ev_rendezvous *m;
  HS_TRY(ev_join(e, i, t.size, t.me, t.base, 4, ops, &m));
  hs_status st = HS_GOOD;
  for (u32 b = 0; b < buffers && hs_ok(st); b++) {
    hlo_literal *to = hlo_literal_ref(child(ops[1], b));
    st = ev_own(e, &to, to->shape, &r[b]);
    hlo_literal_unref(to);
    for (u32 p = 0; p < t.pairs.n && hs_ok(st); p++) {
      i64 from = t.pairs.v[2 * p];
      if (t.pairs.v[2 * p + 1] != t.me || from < 0 || from >= t.size) continue;
      u32 ordinal = 0;
      for (u32 q = 0; q < p; q++) ordinal += t.pairs.v[2 * q] == from;
      hlo_literal **theirs = m->ops + (u32)from * 4;
      const hlo_literal *src = child(theirs[0], b);
      const hlo_ints size = sizes->v[HS_MIN(b * per + HS_MIN(ordinal, per - 1), sizes->n - 1)];
      const hlo_shape *ss = src->shape, *ds = r[b]->shape;
      i64 sw[HLO_MAX_RANK], dw[HLO_MAX_RANK], at = 0, into = 0;
      if (size.n != ss->rank || ss->rank != ds->rank || ss->dtype != ds->dtype) {
        st = ev_unsupported(i, "with these slice sizes");
        break;
      }
      hlo_row_major_strides(ss->rank, ss->dims, sw);
      hlo_row_major_strides(ds->rank, ds->dims, dw);
      for (u32 d = 0; d < ss->rank; d++) {
        if (size.v[d] < 0 || size.v[d] > ss->dims[d] || size.v[d] > ds->dims[d]) {
          st = ev_unsupported(i, "with these slice sizes");
          break;
        }
        at += slice_start(theirs[2], many, b, ordinal, d, ss->dims[d] - size.v[d]) * sw[d];
        into += slice_start(ops[3], many, b, ordinal, d, ds->dims[d] - size.v[d]) * dw[d];
      }
      size_t w = hlo_dtype_storage(ds->dtype);
      if (hs_ok(st))
        ev_copy(w, ss->rank, size.v, (char *)r[b]->data + into * (i64)w, dw,
                (const char *)src->data + at * (i64)w, sw);
    }
  }
  ev_leave(e->world, m);
  if (hs_ok(st)) *out = many ? hlo_literal_tuple(ops[1]->shape, buffers, r) : r[0];
  else
    for (u32 b = 0; b < buffers; b++) hlo_literal_unref(r[b]);
  return st;
}

static bool permutes_slices(const hlo_instr *i) {
  const hlo_int_lists *sizes = hlo_attr_ptr(i, HLO_ATTR_PERMUTE_SLICE_SIZES);
  return sizes && sizes->n > 0;
}

// Whether operand k goes to the k-th device, which takes it for the result of the sender's number.
static bool deals_out(const hlo_instr *i) {
  return i->opcode == HLO_ALL_TO_ALL && hlo_shape_is_tuple(i->shape) &&
         !hlo_attr_get(i, HLO_ATTR_DIMENSIONS);
}

// Collectives that move values do so in the result's type, whatever precision an operand has.
static hs_status settle_types(ev *e, const hlo_instr *i, u32 n, hlo_literal **ops) {
  bool as_is = hlo_attr_comp(i, HLO_ATTR_TO_APPLY) || permutes_slices(i) || deals_out(i);
  for (u32 k = 0; k < n && !as_is; k++) {
    const hlo_shape *tuple = i->shape;
    if (hlo_shape_is_tuple(tuple) && k >= tuple->nelems) continue;  // a root
    const hlo_shape *want = result_shape(i, k, n);
    if (!hlo_shape_is_array(want) || !hlo_shape_is_array(ops[k]->shape) ||
        !hlo_dtype_is_float(want->dtype) || !hlo_dtype_is_float(ops[k]->shape->dtype))
      continue;
    hlo_literal *l;
    HS_TRY(in_type(e, ops[k], want->dtype, &l));
    hlo_literal_unref(ops[k]);
    ops[k] = l;
  }
  return HS_GOOD;
}

// The results of a collective, one per operand (or one in all for the exchanges).
static hs_status run_collective(ev *e, const hlo_instr *i, hlo_literal **ops, u32 *nres,
                                hlo_literal **r) {
  u32 devices[EV_MAX_DEVICES], n = i->noperands;
  group g;
  ev_rendezvous *m;
  *nres = n;
  HS_TRY(settle_types(e, i, n, ops));
  if (i->opcode == HLO_COLLECTIVE_PERMUTE || i->opcode == HLO_COLLECTIVE_PERMUTE_START)
    return permutes_slices(i) ? (*nres = 1, permute_slices(e, i, ops, &r[0]))
                              : permute(e, i, ops, n, r);
  HS_TRY(group_of(e, i, devices, &g));
  HS_TRY(ev_join(e, i, g.n, g.position, least(&g), n, ops, &m));
  hs_status st = HS_GOOD;
  // The first member of the group is the root unless the last operand names another.
  bool chosen = i->opcode == HLO_COLLECTIVE_BROADCAST &&
                hlo_attr_int(i, HLO_ATTR_HAS_DYNAMIC_ROOT, 0) && n > 1;
  i64 root = chosen ? hlo_literal_i64(m->ops[n - 1], 0) : 0;
  if (chosen) *nres = --n;
  if (root < 0 || root >= g.n)
    st = hs_fail(HS_E_RUN, "%s: the root %lld is not in a group of %u", i->name, (long long)root,
                 g.n);
  bool exchange = i->opcode == HLO_ALL_TO_ALL && !deals_out(i);
  if (!hs_ok(st)) *nres = 0;
  else if (i->opcode == HLO_RAGGED_ALL_TO_ALL) {
    *nres = 1;
    st = ragged_exchange(e, i, m, &g, ops, &r[0]);
  } else if (exchange && n == 1 && hlo_shape_is_array(i->shape))
    st = exchange_group(e, i, m, &g, &r[0]);
  else
    for (u32 k = 0; k < n && hs_ok(st); k++) switch (i->opcode) {
      case HLO_ALL_REDUCE:
      case HLO_ALL_REDUCE_START: st = reduce_group(e, i, m, k, &r[k]); break;
      case HLO_REDUCE_SCATTER: st = scatter_group(e, i, m, &g, k, &r[k]); break;
      case HLO_ALL_GATHER:
      case HLO_ALL_GATHER_START: st = gather_group(e, i, m, k, &r[k]); break;
      case HLO_COLLECTIVE_BROADCAST: r[k] = hlo_literal_ref(m->ops[(u32)root * m->nops + k]); break;
      case HLO_ALL_TO_ALL:
        if (n != g.n) {
          st = ev_unsupported(i, "with another number of operands than devices");
          break;
        }
        st = in_type(e, m->ops[k * n + g.position], result_shape(i, k, n)->dtype, &r[k]);
        break;
      default: st = ev_unsupported(i, "here");
      }
  ev_leave(e->world, m);
  return st;
}

hs_status ev_collective(ev *e, const hlo_instr *i, const hlo_shape *to, hlo_literal **ops,
                        hlo_literal **out) {
  u32 n = i->noperands, nres = 0;
  hlo_literal **r = hs_calloc(n + 1, sizeof *r);
  hs_status st = run_collective(e, i, ops, &nres, r);
  if (!hs_ok(st))
    for (u32 k = 0; k < n; k++) hlo_literal_unref(r[k]);
  else if (hlo_shape_is_tuple(to) && !r[0]->nchildren) *out = hlo_literal_tuple(to, nres, r);
  else {
    *out = ev_retag(&r[0], to);
    for (u32 k = 1; k < nres; k++) hlo_literal_unref(r[k]);  // `to` has room for one
  }
  hs_free(r);
  return st;
}

hs_status hlo_eval_collective(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return ev_collective(e, i, i->shape, ops, out);
}
