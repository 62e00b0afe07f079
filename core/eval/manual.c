// manual.c — manual regions: from a whole array to one tile of it per device, and back.
//
// Programs that are not partitioned yet are logical: Sharding markers change nothing, every device
// computes the whole. Inside a manual region (SPMDFullToShardShape, xla.sdy.GlobalToLocalShape) a
// device works on its own tile; the end of the region assembles the tiles of all devices that
// differ in manual axes only. Along an unreduced axis the whole is the sum of what devices have:
// the end of a region adds, its begin gives the value to the first device and zeros to the others.
// Shardings are XLA's (tiles, iotas, named meshes) or Shardy's.
#include "core/eval/world.h"

// ---- manual regions -----------------------------------------------------------------------------
// Where each device's tile starts in the whole array, in tiles.
// coord[device * rank + dimension]
typedef struct tiling {
  u32 ndevices;
  i64 *coord;
  u32 rank;
  hlo_share *share;  // by device, zeroed; NULL: not asked for
} tiling;

// One more digit of the number of a device.
static void add_digit(u32 *number, i64 size, i64 digit) {
  *number = *number * (u32)size + (u32)digit;
}

// Each mesh axis that a dimension is split along adds digits to its tile number, the first axis the
// highest.
static bool tiling_of_named(const hlo_sharding *s, u32 rank, tiling *t) {
  i64 device[EV_MAX_DEVICES], total = s->mesh ? ev_mesh_devices(s->mesh, device) : 0;
  if (total != t->ndevices || s->ndim_shardings > rank) return false;
  for (u32 d = 0; d < s->ndim_shardings; d++)
    for (u32 a = 0; a < s->dim_shardings[d].axes.n; a++) {
      i64 size, stride;
      if (!ev_mesh_axis(s->mesh, &s->dim_shardings[d].axes.v[a], &size, &stride)) return false;
      for (i64 k = 0; k < total; k++) {
        if (device[k] < 0 || device[k] >= total) return false;
        i64 *c = &t->coord[device[k] * rank + d];
        *c = *c * size + k / stride % size;
      }
    }
  return true;
}

static bool tiling_of_sharding(const hlo_sharding *s, u32 rank, tiling *t) {
  // every tile is the whole
  if (!s || s->type == HLO_SH_REPLICATED || s->type == HLO_SH_MANUAL || s->type == HLO_SH_MAXIMAL ||
      s->type == HLO_SH_UNKNOWN)
    return true;
  if (s->type == HLO_SH_UNREDUCED) {
    for (u32 k = 0; t->share && k < t->ndevices; k++) t->share[k].addend = k;
    return true;
  }
  if (s->type == HLO_SH_NAMED) return tiling_of_named(s, rank, t);
  if (s->type != HLO_SH_TILED || s->dims.n < rank || s->dims.n > HLO_MAX_RANK) return false;
  i64 total = ev_product(s->dims.n, s->dims.v), index[HLO_MAX_RANK] = {0}, device[EV_MAX_DEVICES];
  if (total != t->ndevices) return false;
  if (s->devices.n == 0) {
    if (!ev_iota_devices(s->reshape, s->perm, total, device)) return false;
  } else {
    if (s->devices.n != total) return false;
    memcpy(device, s->devices.v, (size_t)total * sizeof *device);
  }
  for (i64 k = 0; k < total; k++, ev_next(s->dims.n, s->dims.v, index)) {
    if (device[k] < 0 || device[k] >= t->ndevices) return false;
    memcpy(t->coord + device[k] * rank, index, rank * sizeof *index);
    for (u32 d = rank; t->share && d < s->dims.n; d++) {
      hlo_share *share = &t->share[device[k]];
      bool sum =
          d - rank < s->last_tile_dims.n && s->last_tile_dims.v[d - rank] == HLO_SH_UNREDUCED;
      add_digit(sum ? &share->addend : &share->copy, s->dims.v[d], index[d]);
    }
  }
  return true;
}

bool hlo_sharding_tiles(const hlo_sharding *s, u32 rank, u32 ndevices, i64 *coord,
                        hlo_share *share) {
  memset(coord, 0, sizeof *coord * rank * ndevices);
  memset(share, 0, sizeof *share * ndevices);
  return tiling_of_sharding(s, rank, &(tiling){ndevices, coord, rank, share});
}

// ---- Shardy's attributes: text of MLIR ----------------------------------------------------------
hs_str ev_frontend_value(const hlo_attr *a, const char *key) {
  const hs_str *v = hlo_frontend_find(a, key);
  return v ? *v : (hs_str){NULL, 0};
}

typedef struct axis_sizes {
  u32 n;
  hs_str name[16];
  i64 size[16], devices;
  hs_str ids;  // "1, 0": the devices in the order of the axes; empty: 0, 1, ...
} axis_sizes;

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

// `{mesh = #sdy.mesh<["x"=2, "y"=4]>, other = #sdy.mesh<[...], device_ids=[1, 0]>}`: the text of
// one of them.
static hs_str mesh_text(const hlo_module *m, hs_str name) {
  hs_str v =
      ev_frontend_value(hlo_attrs_find(m->attrs, HLO_ATTR_FRONTEND_ATTRIBUTES), "xla.sdy.meshes");
  for (const char *p = v.p, *end = v.p + v.n; v.n && p + name.n < end; p++) {
    bool begins = (p == v.p || strchr("{, ", p[-1])) && !memcmp(p, name.p, name.n);
    const char *at = p + name.n;
    while (begins && at < end && *at == ' ') at++;
    if (!begins || at >= end || *at != '=') continue;
    const char *close = memchr(at, '>', (size_t)(end - at));
    return (hs_str){at, (size_t)((close ? close : end) - at)};
  }
  return (hs_str){NULL, 0};
}

static bool read_mesh(const hlo_module *m, hs_str mesh, axis_sizes *a) {
  static const char order[] = "device_ids=[";
  hs_str v = mesh_text(m, mesh), name;
  *a = (axis_sizes){.devices = 1};
  size_t k = 0;
  while (k < v.n && v.p[k] != '[') k++;
  while (a->n < HS_COUNT(a->name) && quoted(v, &k, &name)) {
    while (k < v.n && v.p[k] != '=') k++;
    i64 size = 0;
    for (k++; k < v.n && v.p[k] >= '0' && v.p[k] <= '9' && size <= EV_MAX_DEVICES; k++)
      size = size * 10 + (v.p[k] - '0');
    a->devices *= size;
    if (size < 1 || a->devices > EV_MAX_DEVICES) return false;
    a->name[a->n] = name;
    a->size[a->n++] = size;
  }
  const char *ids = v.n ? memmem(v.p, v.n, order, sizeof order - 1) : NULL;
  if (ids) {
    ids += sizeof order - 1;
    a->ids = (hs_str){ids, (size_t)(v.p + v.n - ids)};
  }
  return a->n > 0;
}

// at[device]: its number in the order of the mesh's axes.
static bool place_devices(const axis_sizes *a, u32 n, i64 *at) {
  for (u32 d = 0; d < n; d++) at[d] = a->ids.n ? -1 : (i64)d;
  size_t k = 0;
  for (i64 place = 0; a->ids.n && place < a->devices; place++) {
    i64 id = 0;
    while (k < a->ids.n && (a->ids.p[k] < '0' || a->ids.p[k] > '9')) k++;
    if (k == a->ids.n) return false;
    for (; k < a->ids.n && a->ids.p[k] >= '0' && a->ids.p[k] <= '9' && id < n; k++)
      id = id * 10 + (a->ids.p[k] - '0');
    if (id >= n) return false;
    at[id] = place;
  }
  for (u32 d = 0; d < n; d++)
    if (at[d] < 0) return false;
  return true;
}

// What the devices along a mesh's axis have: tiles, addends, or the same; or they are in different
// groups, where the axis is not manual.
typedef enum axis_use { AXIS_COPY, AXIS_TILE, AXIS_ADDEND, AXIS_GROUP } axis_use;

// Sets the use of the axes that are named between braces from text.p + k on.
static void use_axes(const axis_sizes *mesh, hs_str text, size_t k, axis_use to, axis_use *use) {
  hs_str name;
  while (k < text.n && text.p[k] != '{') k++;
  for (k++; quoted(text, &k, &name);) {
    for (u32 q = 0; q < mesh->n; q++)
      if (hs_str_eq(mesh->name[q], name)) use[q] = to;
    while (k < text.n && text.p[k] == ' ') k++;
    if (k < text.n && text.p[k] == '}') break;
  }
}

static void share_out(const axis_sizes *mesh, const axis_use *use, const i64 *at, tiling *t) {
  for (u32 dev = 0; t->share && dev < t->ndevices; dev++) {
    hlo_share *s = &t->share[dev];
    u32 *const number[] = {&s->copy, NULL, &s->addend, &s->group};
    i64 inner = mesh->devices;
    for (u32 q = 0; q < mesh->n; q++) {
      inner /= mesh->size[q];
      if (number[use[q]]) add_digit(number[use[q]], mesh->size[q], at[dev] / inner % mesh->size[q]);
    }
  }
}

// The sharding of value `which` in `#sdy.sharding_per_value<[<@mesh, [{"x"}, {}], unreduced={"y"}>,
// ...]>`, of a region in which the axes of `manual` are manual, all where it is empty.
static bool tiling_of_shardy(const hlo_module *m, hs_str text, hs_str manual, u32 which, u32 rank,
                             tiling *t) {
  static const char unreduced[] = "unreduced=";
  axis_use use[HS_COUNT(((axis_sizes *)0)->name)] = {AXIS_COPY};
  axis_sizes mesh;
  i64 at[EV_MAX_DEVICES];
  size_t k = 0, from;
  for (u32 seen = 0; k < text.n; k++)
    if (text.p[k] == '@' && seen++ == which) break;
  from = ++k;
  while (k < text.n && text.p[k] != ',') k++;
  if (k >= text.n || t->ndevices > EV_MAX_DEVICES ||
      !read_mesh(m, (hs_str){text.p + from, k - from}, &mesh) ||
      !place_devices(&mesh, t->ndevices, at))
    return false;
  for (u32 q = 0; manual.n && q < mesh.n; q++) use[q] = AXIS_GROUP;
  if (manual.n) use_axes(&mesh, manual, 0, AXIS_COPY, use);
  while (k < text.n && text.p[k] != '[') k++;
  for (u32 d = 0; d < rank; d++) {
    while (k < text.n && text.p[k] != '{') k++;
    if (k++ >= text.n) return false;
    hs_str name;
    while (quoted(text, &k, &name)) {
      u32 axis = 0;
      while (axis < mesh.n && !hs_str_eq(mesh.name[axis], name)) axis++;
      if (axis == mesh.n) return false;
      if (k < text.n && text.p[k] == ':') {  // a part of an axis; of manual ones there are none
        if (use[axis] != AXIS_GROUP) return false;
        while (k < text.n && text.p[k] != ',' && text.p[k] != '}') k++;
      }
      i64 inner = 1;
      for (u32 q = axis + 1; q < mesh.n; q++) inner *= mesh.size[q];
      bool tiles = use[axis] != AXIS_GROUP;
      if (tiles) use[axis] = AXIS_TILE;
      for (u32 dev = 0; tiles && dev < t->ndevices; dev++)
        t->coord[dev * rank + d] =
            t->coord[dev * rank + d] * mesh.size[axis] + at[dev] / inner % mesh.size[axis];
      while (k < text.n && text.p[k] == ' ') k++;
      if (k < text.n && text.p[k] == '}') break;
    }
  }
  const char *end = memchr(text.p + k, '>', text.n - k);
  const char *sum =
      end ? memmem(text.p + k, (size_t)(end - text.p) - k, unreduced, sizeof unreduced - 1) : NULL;
  if (sum) use_axes(&mesh, text, (size_t)(sum - text.p), AXIS_ADDEND, use);
  share_out(&mesh, use, at, t);
  return true;
}

// The tiling of operand or result `which` of the begin or the end of a region.
static bool tiling_of_region(const hlo_instr *i, bool into, u32 which, u32 rank, tiling *t) {
  const hlo_attr *a = hlo_attr_get(i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  hs_str text = ev_frontend_value(a, into ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings");
  return text.n && tiling_of_shardy(i->parent->module, text,
                                    ev_frontend_value(a, "xla.sdy.manual_axes"), which, rank, t);
}

bool hlo_manual_tiles(const hlo_instr *i, u32 which, u32 rank, u32 ndevices, i64 *coord) {
  memset(coord, 0, sizeof *coord * rank * ndevices);
  return tiling_of_region(i, false, which, rank, &(tiling){ndevices, coord, rank, NULL});
}

static void free_tiling(tiling *t) {
  hs_free(t->coord);
  hs_free(t->share);
  *t = (tiling){0};
}

static hs_status find_tiling(ev *e, const hlo_instr *i, bool into, u32 which, u32 rank, tiling *t) {
  t->ndevices = e->world ? e->world->n : 1;
  t->rank = rank;
  t->coord = hs_calloc((size_t)t->ndevices * HS_MAX(rank, 1u), sizeof *t->coord);
  t->share = hs_calloc(t->ndevices, sizeof *t->share);
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  bool ok;
  if (target.n > 4 && memcmp(target.p, "xla.", 4) == 0) {
    ok = tiling_of_region(i, into, which, rank, t);
  } else {
    const hlo_instr *carrier = into ? hlo_operand(i, 0) : i;
    ok = tiling_of_sharding(hlo_attr_ptr(carrier, HLO_ATTR_SHARDING), rank, t);
  }
  if (ok) return HS_GOOD;
  free_tiling(t);
  return ev_unsupported(i, "with this sharding");
}

// Tile of `device` between the whole array and the tile's own.
static void copy_tile(const tiling *t, u32 device, hlo_literal *whole, hlo_literal *tile,
                      bool into_whole) {
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

static hs_status zeros(ev *e, const hlo_shape *s, hlo_literal **out) {
  HS_TRY(ev_new(e, s, out));
  if ((*out)->bytes) memset((*out)->data, 0, (*out)->bytes);
  return HS_GOOD;
}

// Devices that differ in manual axes only, and the position of one of them among these.
static u32 group_of(const tiling *t, u32 device, u32 *position) {
  u32 n = 0;
  for (u32 d = 0; d < t->ndevices; d++) {
    if (d == device) *position = n;
    n += t->share[d].group == t->share[device].group;
  }
  return n;
}

static bool is_sum(const tiling *t) {
  for (u32 d = 0; d < t->ndevices; d++)
    if (t->share[d].addend) return true;
  return false;
}

bool hlo_add_bytes(hlo_dtype type, void *to, const void *x, i64 n) {
  const hlo_dtype two[] = {type, type};
  const void *in[] = {to, x};
  ew add;
  if (!ew_compile_types(HLO_ADD, NULL, 2, two, type, &add)) return false;
  ew_run(&add, to, in, n);
  return true;
}

// Adds the tile where it belongs.
static hs_status add_tile(ev *e, const hlo_instr *i, const tiling *t, u32 device, hlo_literal *tile,
                          hlo_literal *whole) {
  hlo_literal *x;
  HS_TRY(zeros(e, whole->shape, &x));
  copy_tile(t, device, x, tile, true);
  bool ok = hlo_add_bytes(x->shape->dtype, whole->data, x->data, x->shape->elements);
  hlo_literal_unref(x);
  return ok ? HS_GOOD : ev_unsupported(i, "with results of this type that are to be summed");
}

// The tiles of all devices of the group put together, the same for each of them.
static hs_status assemble(ev *e, const hlo_instr *i, const tiling *t, ev_rendezvous *m,
                          const hlo_shape *to, hlo_literal **out) {
  if ((*out = ev_shared(m, 0))) return HS_GOOD;
  HS_TRY(zeros(e, to, out));
  bool sum = is_sum(t);
  for (u32 d = 0, k = 0; d < t->ndevices; d++) {
    if (t->share[d].group != t->share[ev_device(e)].group) continue;
    if (!sum) copy_tile(t, d, *out, m->ops[k], true);
    else if (!t->share[d].copy) HS_TRY(add_tile(e, i, t, d, m->ops[k], *out));
    k++;
  }
  ev_share(m, 0, *out);
  return HS_GOOD;
}

static hs_status one_way(ev *e, const hlo_instr *i, bool into, u32 which, hlo_literal *op,
                         const hlo_shape *to, hlo_literal **out) {
  if (to->rank != op->shape->rank) return ev_unsupported(i, "with this result");
  tiling t;
  hs_status found = find_tiling(e, i, into, which, to->rank, &t);
  bool same = to->logical == op->shape->logical, sum = hs_ok(found) && is_sum(&t);
  if (same && !sum) {  // every device has all of it, whatever the sharding is
    hs_status_drop(found);
    free_tiling(&t);
    *out = hlo_literal_ref(op);
    return HS_GOOD;
  }
  HS_TRY(found);
  u32 device = ev_device(e), position = 0, n = group_of(&t, device, &position);
  hs_status st = into ? zeros(e, to, out) : HS_GOOD;
  if (hs_ok(st) && into) {
    if (!t.share[device].addend) copy_tile(&t, device, op, *out, false);
  } else if (hs_ok(st)) {
    ev_rendezvous *m;
    // each operand of the instruction has a rendezvous of its own
    st = ev_join(e, i, n, position, t.share[device].group * HS_MAX(i->noperands, 1u) + which, 1,
                 &op, &m);
    if (hs_ok(st)) {
      st = assemble(e, i, &t, m, to, out);
      ev_leave(e->world, m);
    }
  }
  free_tiling(&t);
  return st;
}

static hs_status cross(ev *e, const hlo_instr *i, bool into, hlo_literal **ops, hlo_literal **out) {
  if (hlo_shape_is_array(i->shape)) return one_way(e, i, into, 0, ops[0], i->shape, out);
  u32 n = i->shape->nelems;
  if (n != i->noperands) return ev_unsupported(i, "with these results");
  hlo_literal **r = hs_calloc(n + 1, sizeof *r);
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(st); k++)
    st = one_way(e, i, into, k, ops[k], i->shape->elems[k], &r[k]);
  if (hs_ok(st)) *out = hlo_literal_tuple(i->shape, n, r);
  else
    for (u32 k = 0; k < n; k++) hlo_literal_unref(r[k]);
  hs_free(r);
  return st;
}
hs_status ev_full_to_shard(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return cross(e, i, true, ops, out);
}
hs_status ev_shard_to_full(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return cross(e, i, false, ops, out);
}
