// value.c — shapes, literals, shardings and other struct-kinded values out of protocol
// buffers. The first damaged value is recorded in the reader and read as an empty one, so that
// reading goes on; the caller checks for it at the end. No allocation is larger than the size of
// the file justifies, whatever numbers it contains.
#include "core/proto/read.h"
#include "core/proto/write.h"

#include <math.h>

void proto_error(proto_reader *r, const char *fmt, ...) {
  if (r->failed) return;
  va_list ap;
  va_start(ap, fmt);
  r->message.n = 0;
  hs_buf_vprintf(&r->message, fmt, ap);
  va_end(ap);
  r->failed = true;
}

static void take_int(void *arg, i64 v) {
  proto_reader *r = arg;
  hs_vec_push(&r->ints, v);
}

hlo_ints proto_ints(proto_reader *r, pb m, u32 num) {
  r->ints.n = 0;
  pb_each_int(m, num, take_int, r);
  return (hlo_ints){(u32)r->ints.n,
                    r->ints.n ? hs_arena_dup(r->arena, r->ints.v, r->ints.n * sizeof(i64)) : NULL};
}

hs_str proto_str(proto_reader *r, pb m, u32 num) {
  hs_str s = pb_str(m, num);
  if (s.n) s.p = hs_arena_strndup(r->arena, s.p, s.n);
  return s;
}

hs_str proto_name(proto_reader *r, pb m, u32 num) {
  hs_str s = proto_str(r, m, num);
  if (s.n && memchr(s.p, 0, s.n)) proto_error(r, "a name holds a NUL byte");
  return s;
}

// ---- shapes -------------------------------------------------------------------------------------
static const hlo_layout *read_layout(proto_reader *r, pb m, u32 rank) {
  hlo_ints order = proto_ints(r, m, 1);
  bool seen[HLO_MAX_RANK] = {0};
  bool ok = order.n == rank;
  for (u32 k = 0; ok && k < rank; k++) {
    ok = order.v[k] >= 0 && order.v[k] < rank && !seen[order.v[k]];
    if (ok) seen[order.v[k]] = true;
  }
  if (!ok) return proto_error(r, "a layout does not fit its shape"), NULL;
  hlo_layout l = {.rank = rank,
                  .minor_to_major = order.v,
                  .tail_alignment = pb_int(m, 16, 1),
                  .element_bits = pb_int(m, 7, 0),
                  .memory_space = pb_int(m, 8, 0),
                  .metadata_prefix = pb_int(m, 15, 0)};
  if (l.tail_alignment == 0) l.tail_alignment = 1;
  l.index_type = hlo_dtype_from_proto((int)pb_int(m, 11, 0));
  l.pointer_type = hlo_dtype_from_proto((int)pb_int(m, 12, 0));
  hlo_tile tiles[32];
  hlo_split splits[32];
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num == 6 && f.wire == 2 && l.ntiles < 32) {
      hlo_ints d = proto_ints(r, f.sub, 1);
      tiles[l.ntiles++] = (hlo_tile){d.n, d.v};
    } else if (f.num == 17 && f.wire == 2 && l.nsplits < 32) {
      hlo_ints d = proto_ints(r, f.sub, 2);
      splits[l.nsplits++] = (hlo_split){pb_int(f.sub, 1, 0), d.n, d.v};
    }
  }
  l.tiles = tiles;
  l.splits = splits;
  return hlo_layout_intern(r->ctx, &l);
}

static const hlo_shape *shape_at(proto_reader *r, pb m, u32 depth) {
  hlo_dtype t = hlo_dtype_from_proto((int)pb_int(m, 2, 0));
  if (t == HLO_TUPLE_TYPE || t == HLO_BUFFER) {
    HS_VEC(const hlo_shape *) elems = {0};
    if (depth > 1000)
      return proto_error(r, "shapes are nested too deeply"), hlo_shape_token(r->ctx);
    for (pb_field f; pb_next(&m, &f);)
      if (f.num == 4 && f.wire == 2) hs_vec_push(&elems, shape_at(r, f.sub, depth + 1));
    const hlo_shape *s;
    if (t == HLO_TUPLE_TYPE) s = hlo_shape_tuple(r->ctx, (u32)elems.n, elems.v);
    else if (elems.n == 1 && hlo_shape_is_array(elems.v[0]))
      s = hlo_shape_buffer(r->ctx, elems.v[0]);
    else proto_error(r, "a buffer shape holds no array"), s = hlo_shape_token(r->ctx);
    hs_vec_free(&elems);
    hs_status fits = hlo_shape_check_tuple(s);
    if (hs_ok(fits)) return s;
    proto_error(r, "%s", fits.err->message);
    hs_status_drop(fits);
    return hlo_shape_token(r->ctx);
  }
  if (t == HLO_TOKEN || t == HLO_OPAQUE)
    return t == HLO_TOKEN ? hlo_shape_token(r->ctx) : hlo_shape_opaque(r->ctx);
  hlo_ints dims = proto_ints(r, m, 3), dyn = proto_ints(r, m, 6);
  if (t == HLO_DT_INVALID || dims.n > HLO_MAX_RANK)
    return proto_error(r, "a shape has an unknown element type or rank"), hlo_shape_token(r->ctx);
  bool dynamic[HLO_MAX_RANK] = {0}, any = false;
  for (u32 k = 0; k < dims.n; k++) {
    dynamic[k] = k < dyn.n && dyn.v[k];
    any |= dynamic[k];
    if (dims.v[k] < 0 && dims.v[k] != HLO_UNBOUNDED)
      return proto_error(r, "a dimension is negative"), hlo_shape_token(r->ctx);
  }
  hs_status s = hlo_shape_check_limits(t, dims.n, dims.v);
  if (!hs_ok(s)) {
    proto_error(r, "%s", s.err->message);
    hs_status_drop(s);
    return hlo_shape_token(r->ctx);
  }
  pb_field f;
  const hlo_layout *l = pb_get(m, 5, &f) && f.wire == 2 ? read_layout(r, f.sub, dims.n) : NULL;
  return hlo_shape_dynamic(r->ctx, t, dims.n, dims.v, any ? dynamic : NULL, l);
}

const hlo_shape *proto_shape(proto_reader *r, pb m) { return shape_at(r, m, 0); }

// ---- literals -----------------------------------------------------------------------------------
typedef struct spread {
  hlo_literal *l;
  i64 at;
  const i64 *strides;
  i64 index[HLO_MAX_RANK];
  size_t size;
} spread;

// Elements come in the layout's order, minor dimension first; the literal is row-major.
static char *next_element(spread *s) {
  const hlo_shape *shape = s->l->shape;
  if (s->at >= shape->elements) return NULL;
  i64 to = 0;
  for (u32 d = 0; d < shape->rank; d++) to += s->index[d] * s->strides[d];
  s->at++;
  for (u32 k = 0; k < shape->rank; k++) {
    i64 d = shape->layout ? shape->layout->minor_to_major[k] : (i64)shape->rank - 1 - k;
    if (++s->index[d] < shape->dims[d]) break;
    s->index[d] = 0;
  }
  return (char *)s->l->data + (size_t)to * s->size;
}

static void take_element(void *arg, i64 v) {
  spread *s = arg;
  char *p = next_element(s);
  if (p) memcpy(p, &v, s->size);
}

// Elements narrower than a byte come without a sign; a pred is any byte.
static void normalize(hlo_literal *l) {
  hlo_dtype t = l->shape->dtype;
  int bits = hlo_dtype_bits(t);
  if (t != HLO_PRED && bits >= 8) return;
  u8 *p = l->data;
  int sign = hlo_dtype_is_signed(t) ? 1 << (bits - 1) : 0;
  for (size_t k = 0; k < l->bytes; k++)
    p[k] = t == HLO_PRED ? p[k] != 0 : (u8)(((p[k] & ((1 << bits) - 1)) ^ sign) - sign);
}

static spread spread_over(hlo_literal *l, i64 *strides) {
  hlo_row_major_strides(l->shape->rank, l->shape->dims, strides);
  return (spread){.l = l, .strides = strides, .size = hlo_dtype_storage(l->shape->dtype)};
}

static void put_elements(spread *s, pb bytes) {
  for (char *p; (size_t)(bytes.end - bytes.p) >= s->size && (p = next_element(s));
       bytes.p += s->size)
    memcpy(p, bytes.p, s->size);
}

void proto_fill(hlo_literal *l, pb bytes) {
  i64 strides[HLO_MAX_RANK];
  spread s = spread_over(l, strides);
  put_elements(&s, bytes);
  normalize(l);
}

static bool fill(proto_reader *r, hlo_literal *l, pb m) {
  const hlo_dtype_info *t = &hlo_dtypes[l->shape->dtype];
  i64 strides[HLO_MAX_RANK];
  spread s = spread_over(l, strides);
  if (t->coding == HLO_CODING_VARINT) {
    pb_each_int(m, t->literal_field, take_element, &s);
  } else {
    size_t one = t->coding == HLO_CODING_FIXED64 ? 8 : t->coding == HLO_CODING_FIXED32 ? 4 : 1;
    hs_buf loose = {0};  // floats that come one by one, two of them to a complex element
    pb it = m;
    for (pb_field f; pb_next(&it, &f);) {
      if (f.num != t->literal_field) continue;
      if (f.wire == 2) put_elements(&s, f.sub);
      else hs_buf_put(&loose, (const char *)&f.v, one);
    }
    if (loose.n) put_elements(&s, (pb){(const u8 *)loose.p, (const u8 *)loose.p + loose.n, false});
    hs_buf_free(&loose);
  }
  normalize(l);
  hlo_ints sizes = proto_ints(r, m, 34);
  for (u32 d = 0; l->dynamic_sizes && sizes.n == l->shape->rank && d < sizes.n; d++)
    l->dynamic_sizes[d] = (i32)HS_MAX(HS_MIN(sizes.v[d], l->shape->dims[d]), 0);
  if (s.at == l->shape->elements) return true;
  return proto_error(r, "a literal has %lld elements, its shape %lld", (long long)s.at,
                     (long long)l->shape->elements),
         false;
}

static hlo_literal *literal_at(proto_reader *r, pb m, const hlo_shape *shape) {
  if (hlo_shape_is_tuple(shape)) {
    hlo_literal **kids = hs_calloc(shape->nelems + 1, sizeof *kids), *l = NULL;
    u32 n = 0;
    for (pb_field f; !r->failed && pb_next(&m, &f);)
      if (f.num == 10 && f.wire == 2 && n < shape->nelems &&
          (kids[n] = literal_at(r, f.sub, shape->elems[n])))
        n++;
    if (n == shape->nelems) l = hlo_literal_tuple(shape, n, kids);
    else {
      proto_error(r, "a tuple literal lacks elements");
      for (u32 k = 0; k < n; k++) hlo_literal_unref(kids[k]);
    }
    hs_free(kids);
    return l;
  }
  if (!hlo_shape_is_array(shape))
    return proto_error(r, "a literal of this type has no value"), NULL;
  if (shape->elements > (i64)(m.end - m.p))
    return proto_error(r, "a literal has fewer elements than its shape"), NULL;
  hlo_literal *l;
  hs_status s = hlo_literal_new(shape, &l);
  if (!hs_ok(s)) {
    proto_error(r, "%s", s.err->message);
    hs_status_drop(s);
    return NULL;
  }
  if (fill(r, l, m)) return l;
  hlo_literal_unref(l);
  return NULL;
}

hlo_literal *proto_literal(proto_reader *r, pb m) {
  const hlo_shape *s = hlo_shape_fill_layout(r->ctx, proto_shape(r, pb_sub(m, 1)));
  return r->failed ? NULL : literal_at(r, m, proto_unpacked(r->ctx, s));
}

// ---- metadata, frontend attributes --------------------------------------------------------------
const hlo_metadata *proto_metadata(proto_reader *r, pb m) {
  hlo_metadata *d = HS_NEW(r->arena, hlo_metadata);
  *d = (hlo_metadata){.op_type = proto_str(r, m, 1),
                      .op_name = proto_str(r, m, 2),
                      .source_file = proto_str(r, m, 3),
                      .source_line = (i32)pb_int(m, 4, 0),
                      .source_end_line = (i32)pb_int(m, 17, 0),
                      .source_column = (i32)pb_int(m, 18, 0),
                      .source_end_column = (i32)pb_int(m, 19, 0),
                      .stack_frame_id = (i32)pb_int(m, 15, 0)};
  hlo_metadata_rest rest = {proto_str(r, m, 12), proto_str(r, m, 16),
                            proto_str(r, pb_sub(m, 20), 1), proto_ints(r, m, 5)};
  if (rest.deduplicated_name.n || rest.scheduling_name.n || rest.payload.n || rest.profile_type.n)
    d->rest = hs_arena_dup(r->arena, &rest, sizeof rest);
  return d;
}

static int by_key(const void *a, const void *b) {
  const hlo_frontend_entry *x = a, *y = b;
  int c = memcmp(x->key.p, y->key.p, HS_MIN(x->key.n, y->key.n));
  return c ? c : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

const hlo_frontend *proto_frontend(proto_reader *r, pb m) {
  HS_VEC(hlo_frontend_entry) all = {0};
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num != 1 || f.wire != 2) continue;
    hs_str key = pb_str(f.sub, 1);
    hs_vec_push(&all, ((hlo_frontend_entry){{hlo_intern(r->ctx, key.n ? key.p : "", key.n), key.n},
                                            proto_str(r, f.sub, 2)}));
  }
  if (all.n > 1) qsort(all.v, all.n, sizeof *all.v, by_key);
  hlo_frontend *out = HS_NEW(r->arena, hlo_frontend);
  *out = (hlo_frontend){(u32)all.n, hs_arena_dup(r->arena, all.v, all.n * sizeof *all.v)};
  hs_vec_free(&all);
  return out;
}

// ---- meshes, shardings, replica groups ----------------------------------------------------------
static const hlo_mesh *read_mesh(proto_reader *r, pb m) {
  hlo_mesh *mesh = HS_NEW(r->arena, hlo_mesh);
  const char *names[HLO_MAX_RANK];
  i64 sizes[HLO_MAX_RANK];
  hlo_ints devices = proto_ints(r, m, 2);
  for (pb it = m, *i = &it; i;) {
    pb_field f;
    if (!pb_next(i, &f)) break;
    if (f.num != 1 || f.wire != 2 || mesh->naxes == HLO_MAX_RANK) continue;
    hs_str n = proto_name(r, f.sub, 1);
    names[mesh->naxes] = hlo_intern(r->ctx, n.n ? n.p : "", n.n);
    sizes[mesh->naxes++] = pb_int(f.sub, 2, 1);
  }
  mesh->names = hs_arena_dup(r->arena, names, mesh->naxes * sizeof *names);
  mesh->sizes = hs_arena_dup(r->arena, sizes, mesh->naxes * sizeof *sizes);
  mesh->maximal = mesh->naxes == 0 && devices.n == 1;
  mesh->device_id = mesh->maximal ? devices.v[0] : 0;
  if (!mesh->maximal) mesh->ndevices = devices.n, mesh->devices = devices.v;
  pb iota = pb_sub(m, 3);
  mesh->reshape = proto_ints(r, iota, 1);
  mesh->perm = proto_ints(r, iota, 2);
  return mesh;
}

static hlo_axis read_axis(proto_reader *r, pb m, const hlo_mesh *mesh) {
  i64 k = pb_int(m, 1, 0);
  if (k < 0 || k >= mesh->naxes)
    return proto_error(r, "an axis is not one of its mesh"), (hlo_axis){"", 0, 0};
  pb sub = pb_sub(m, 2);
  return (hlo_axis){mesh->names[k], pb_int(sub, 1, 0), pb_int(sub, 2, 0)};
}

static hlo_axes read_axes(proto_reader *r, pb m, u32 num, const hlo_mesh *mesh) {
  hlo_axis axes[HLO_MAX_RANK];
  hlo_axes out = {0};
  for (pb_field f; pb_next(&m, &f);)
    if (f.num == num && f.wire == 2 && out.n < HLO_MAX_RANK)
      axes[out.n++] = read_axis(r, f.sub, mesh);
  out.v = hs_arena_dup(r->arena, axes, out.n * sizeof *axes);
  return out;
}

static void read_named(proto_reader *r, pb m, hlo_sharding *s) {
  s->type = HLO_SH_NAMED;
  s->named_whole = HLO_SH_TILED;
  s->mesh = read_mesh(r, pb_sub(m, 2));
  if (s->mesh->maximal) {
    s->type = HLO_SH_MAXIMAL;
    s->device = s->mesh->device_id;
    return;
  }
  s->replicated_axes = read_axes(r, m, 4, s->mesh);
  s->unreduced_axes = read_axes(r, m, 5, s->mesh);
  s->manual_axes = read_axes(r, m, 7, s->mesh);
  if (s->unreduced_axes.n) s->unreduced_op = (int)pb_int(m, 8, 0) + 1;
  hlo_dim_sharding dims[HLO_MAX_RANK];
  for (pb_field f; pb_next(&m, &f);)
    if (f.num == 3 && f.wire == 2 && s->ndim_shardings < HLO_MAX_RANK)
      dims[s->ndim_shardings++] =
          (hlo_dim_sharding){read_axes(r, f.sub, 1, s->mesh), pb_int(f.sub, 2, 0) == 0};
  s->dim_shardings = hs_arena_dup(r->arena, dims, s->ndim_shardings * sizeof *dims);
}

static const hlo_sharding *sharding_at(proto_reader *r, pb m, u32 depth) {
  hlo_sharding *s = HS_NEW(r->arena, hlo_sharding);
  i64 type = pb_int(m, 1, 0);
  HS_VEC(const void *) list = {0};
  pb_field f;
  if (pb_get(m, 14, &f) && f.wire == 2) {
    read_named(r, f.sub, s);
    return s;
  }
  s->type = HLO_SH_REPLICATED;
  for (int k = 0; k < HLO_SH_NAMED; k++)
    if (proto_sharding_type[k] == type) s->type = (hlo_sharding_type)k;
  s->dims = proto_ints(r, m, 3);
  s->devices = proto_ints(r, m, 4);
  s->replicate_last = pb_int(m, 6, 0) != 0;
  hlo_ints last = proto_ints(r, m, 8);
  i64 *types = HS_NEW_ARRAY(r->arena, i64, last.n + 1);
  for (u32 k = 0; k < last.n; k++)
    types[k] = last.v[k] == 4   ? HLO_SH_MANUAL
               : last.v[k] == 1 ? HLO_SH_MAXIMAL
               : last.v[k] == 6 ? HLO_SH_UNREDUCED
                                : HLO_SH_REPLICATED;
  s->last_tile_dims = (hlo_ints){last.n, types};
  s->reshape = proto_ints(r, m, 9);
  s->perm = s->reshape.n > 1 ? proto_ints(r, m, 10) : (hlo_ints){0};
  if (s->type == HLO_SH_MAXIMAL) s->device = s->devices.n ? s->devices.v[0] : 0;
  if (pb_int(m, 11, 0))
    s->shard_group_kind = (int)pb_int(m, 13, 0) + 1, s->shard_group = pb_int(m, 12, 0);
  bool tuple = s->type == HLO_SH_TUPLE;
  if (depth > 100) proto_error(r, "shardings are nested too deeply");
  for (pb it = m; !r->failed && pb_next(&it, &f);)
    if (f.wire == 2 && f.num == (tuple ? 5u : 7u))
      hs_vec_push(&list, tuple ? (const void *)sharding_at(r, f.sub, depth + 1)
                               : proto_metadata(r, f.sub));
  const void *const *kept = hs_arena_dup(r->arena, list.v, list.n * sizeof *list.v);
  if (tuple) s->nchildren = (u32)list.n, s->children = (const hlo_sharding *const *)kept;
  else s->nmetadata = (u32)list.n, s->metadata = (const hlo_metadata *const *)kept;
  hs_vec_free(&list);
  return s;
}

const hlo_sharding *proto_sharding(proto_reader *r, pb m) { return sharding_at(r, m, 0); }

static hlo_int_lists group_lists(proto_reader *r, pb m, u32 num) {
  HS_VEC(hlo_ints) all = {0};
  for (pb_field f; pb_next(&m, &f);)
    if (f.num == num && f.wire == 2) hs_vec_push(&all, proto_ints(r, f.sub, 1));
  hlo_int_lists out = {(u32)all.n, hs_arena_dup(r->arena, all.v, all.n * sizeof *all.v)};
  hs_vec_free(&all);
  return out;
}

static void read_iota_groups(proto_reader *r, pb m, hlo_replica_groups *g) {
  g->form = HLO_GROUPS_IOTA;
  i64 dims[2] = {pb_int(m, 1, 0), pb_int(m, 2, 0)};
  g->dims = (hlo_ints){2, hs_arena_dup(r->arena, dims, sizeof dims)};
  g->reshape = proto_ints(r, m, 3);
  g->perm = g->reshape.n > 1 ? proto_ints(r, m, 4) : (hlo_ints){0};
  i64 n = 1;
  for (u32 k = 0; k < g->reshape.n; k++)
    if (g->reshape.v[k] <= 0 || !hs_mul_ok(n, g->reshape.v[k], &n)) n = -1;
  if (dims[0] <= 0 || dims[1] <= 0 || dims[0] > INT32_MAX || dims[1] > INT32_MAX ||
      dims[0] * dims[1] != n)
    proto_error(r, "iota replica groups have another size than their reshape");
}

const hlo_replica_groups *proto_groups(proto_reader *r, pb instr) {
  hlo_replica_groups *g = HS_NEW(r->arena, hlo_replica_groups);
  pb_field f;
  if (pb_get(instr, 93, &f) && f.wire == 2) {
    g->form = HLO_GROUPS_MESH;
    g->mesh = read_mesh(r, pb_sub(f.sub, 1));
    g->axes = read_axes(r, f.sub, 2, g->mesh);
  } else if (pb_get(instr, 92, &f) && f.wire == 2) {
    read_iota_groups(r, f.sub, g);
  } else if (pb_get(instr, 87, &f) && f.wire == 2) {
    // where XLA kept the short form before it had a field of its own
    pb_field iota;
    if (pb_get(f.sub, 2, &iota) && iota.wire == 2) read_iota_groups(r, iota.sub, g);
    else g->groups = group_lists(r, f.sub, 1);
  } else {
    g->groups = group_lists(r, instr, 49);
  }
  return g;
}

// ---- the rest -----------------------------------------------------------------------------------
static const hlo_origin_node *origin_node(proto_reader *r, pb m, const hlo_shape *s, i64 *path,
                                          u32 depth) {
  hlo_origin_node *n = HS_NEW(r->arena, hlo_origin_node);
  if (hlo_shape_is_tuple(s) && depth < 32) {
    n->tuple = true;
    const hlo_origin_node **kids = HS_NEW_ARRAY(r->arena, const hlo_origin_node *, s->nelems);
    for (u32 k = 0; k < s->nelems; k++)
      path[depth] = k, kids[k] = origin_node(r, m, s->elems[k], path, depth + 1);
    n->nchildren = s->nelems;
    n->children = kids;
    return n;
  }
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num != 1 || f.wire != 2) continue;
    hlo_ints at = proto_ints(r, f.sub, 1);
    pb_field array;
    if (at.n != depth || (depth && memcmp(at.v, path, depth * sizeof *path) != 0) ||
        !pb_get(f.sub, 2, &array) || array.wire != 2)
      continue;
    n->present = true;
    n->name = proto_str(r, array.sub, 1);
    n->index = proto_ints(r, array.sub, 2);
    break;
  }
  return n;
}

const hlo_origin *proto_origin(proto_reader *r, pb m, const hlo_shape *s) {
  hlo_origin *o = HS_NEW(r->arena, hlo_origin);
  i64 path[33];
  o->synthetic = pb_int(m, 2, 0) != 0;
  if (!o->synthetic) o->root = origin_node(r, m, s, path, 0);
  return o;
}

const hlo_window *proto_window(proto_reader *r, pb m) {
  hlo_window_dim dims[HLO_MAX_RANK];
  hlo_window *w = HS_NEW(r->arena, hlo_window);
  for (pb_field f; pb_next(&m, &f);)
    if (f.num == 1 && f.wire == 2 && w->n < HLO_MAX_RANK)
      dims[w->n++] = (hlo_window_dim){
          pb_int(f.sub, 1, 0), pb_int(f.sub, 2, 0), pb_int(f.sub, 3, 0),     pb_int(f.sub, 4, 0),
          pb_int(f.sub, 6, 0), pb_int(f.sub, 5, 0), pb_int(f.sub, 7, 0) != 0};
  w->v = hs_arena_dup(r->arena, dims, w->n * sizeof *dims);
  return w;
}

const hlo_dim_labels *proto_dim_labels(proto_reader *r, pb m) {
  hlo_dim_labels *d = HS_NEW(r->arena, hlo_dim_labels);
  hlo_ints lhs = proto_ints(r, m, 11), rhs = proto_ints(r, m, 6), out = proto_ints(r, m, 12);
  if (lhs.n != rhs.n || lhs.n != out.n || lhs.n > 10)
    proto_error(r, "convolution dimension numbers do not agree on the spatial dimensions");
  *d = (hlo_dim_labels){.lhs_batch = pb_int(m, 7, 0),
                        .lhs_feature = pb_int(m, 8, 0),
                        .rhs_input_feature = pb_int(m, 3, 0),
                        .rhs_output_feature = pb_int(m, 4, 0),
                        .out_batch = pb_int(m, 9, 0),
                        .out_feature = pb_int(m, 10, 0),
                        .nspatial = HS_MIN(lhs.n, HS_MIN(rhs.n, out.n)),
                        .lhs_spatial = lhs.v,
                        .rhs_spatial = rhs.v,
                        .out_spatial = out.v};
  return d;
}

const hlo_aliases *proto_aliases(proto_reader *r, pb m, u32 num, hlo_attr_kind kind) {
  HS_VEC(hlo_alias_entry) all = {0};
  for (pb_field f; pb_next(&m, &f);) {
    if (f.num != num || f.wire != 2) continue;
    bool donor = kind == HLO_AK_DONORS;
    hlo_alias_entry e = {.param = pb_int(f.sub, donor ? 1 : 2, 0),
                         .param_index = proto_ints(r, f.sub, donor ? 2 : 3)};
    if (!donor) e.out_index = proto_ints(r, f.sub, 1);
    e.must = kind == HLO_AK_IO_ALIAS && pb_int(f.sub, 4, 0) == 2;
    hs_vec_push(&all, e);
  }
  hlo_aliases *out = HS_NEW(r->arena, hlo_aliases);
  *out = (hlo_aliases){(u32)all.n, hs_arena_dup(r->arena, all.v, all.n * sizeof *all.v)};
  hs_vec_free(&all);
  return out;
}
