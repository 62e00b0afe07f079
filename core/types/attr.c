// attr.c — attribute sets: lookup, change by copy, equality, hash and deep copy, all driven by
// the attribute's kind.
//
// Equality and hash share one traversal: most kinds are one run of bytes as they stand (`one_run`),
// and `flatten` writes the others as canonical bytes, which are compared or hashed. The bytes hold
// no pointers except those of computations, whose identity is their meaning. Literals and shapes
// know their own.
#include "core/types/attr.h"

const hlo_attr *hlo_attrs_find(const hlo_attrs *a, hlo_attr_id id) {
  for (u32 k = 0; a && k < a->n; k++)
    if (a->v[k].id == id) return &a->v[k];
  return NULL;
}

static hlo_attrs *attrs_alloc(hs_arena *arena, u32 n) {
  hlo_attrs *r = hs_arena_alloc(arena, sizeof *r + n * sizeof *r->v);
  r->n = n;
  return r;
}

hlo_attrs *hlo_attrs_with(hs_arena *arena, const hlo_attrs *a, const hlo_attr *add) {
  u32 n = a ? a->n : 0, at = 0;
  while (at < n && a->v[at].id < add->id) at++;
  bool replace = at < n && a->v[at].id == add->id;
  hlo_attrs *r = attrs_alloc(arena, n + !replace);
  for (u32 k = 0; k < at; k++) r->v[k] = a->v[k];
  r->v[at] = *add;
  for (u32 k = at + replace; k < n; k++) r->v[k + !replace] = a->v[k];
  return r;
}

hlo_attrs *hlo_attrs_without(hs_arena *arena, const hlo_attrs *a, hlo_attr_id id) {
  if (!hlo_attrs_find(a, id)) return (hlo_attrs *)(uintptr_t)a;
  if (a->n == 1) return NULL;
  hlo_attrs *r = attrs_alloc(arena, a->n - 1);
  for (u32 k = 0, out = 0; k < a->n; k++)
    if (a->v[k].id != id) r->v[out++] = a->v[k];
  return r;
}

bool hlo_attr_is_annotation(hlo_attr_id id) {
  switch (id) {
  case HLO_ATTR_METADATA:
  case HLO_ATTR_ORIGIN:
  case HLO_ATTR_FRONTEND_ATTRIBUTES:
  case HLO_ATTR_STATISTICS:
  case HLO_ATTR_BACKEND_CONFIG:
  case HLO_ATTR_ORIGIN_RECOVERY_TABLE:
  case HLO_ATTR_DEBUG_ATTRIBUTES: return true;
  default: return false;
  }
}

// ---- canonical bytes ----------------------------------------------------------------------------

static void w_i64(hs_buf *b, i64 v) { hs_buf_put(b, (const char *)&v, sizeof v); }
static void w_str(hs_buf *b, hs_str s) {
  w_i64(b, (i64)s.n);
  hs_buf_put(b, s.p, s.n);
}
static void w_name(hs_buf *b, const char *s) { w_str(b, hs_str_of(s)); }
static void w_ints(hs_buf *b, hlo_ints v) {
  w_i64(b, v.n);
  hs_buf_put(b, (const char *)v.v, v.n * sizeof(i64));
}
static void w_f64(hs_buf *b, double v) { hs_buf_put(b, (const char *)&v, sizeof v); }

static void w_axes(hs_buf *b, hlo_axes a) {
  w_i64(b, a.n);
  for (u32 k = 0; k < a.n; k++) w_name(b, a.v[k].name), w_i64(b, a.v[k].pre), w_i64(b, a.v[k].size);
}

static void w_mesh(hs_buf *b, const hlo_mesh *m) {
  w_i64(b, m ? 1 + m->maximal : 0);
  if (!m) return;
  w_i64(b, m->device_id);
  w_i64(b, m->naxes);
  for (u32 k = 0; k < m->naxes; k++) w_name(b, m->names[k]), w_i64(b, m->sizes[k]);
  w_ints(b, (hlo_ints){m->ndevices, m->devices});
  w_ints(b, m->reshape);
  w_ints(b, m->perm);
}

const hlo_metadata_rest hlo_metadata_no_rest_;

static void w_metadata(hs_buf *b, const hlo_metadata *m) {
  const hlo_metadata_rest *rest = hlo_metadata_rest_of(m);
  const hs_str s[] = {
      m->op_type,   m->op_name, m->source_file, rest->deduplicated_name, rest->scheduling_name,
      rest->payload};
  for (size_t k = 0; k < HS_COUNT(s); k++) w_str(b, s[k]);
  const i32 v[] = {m->source_line, m->source_end_line, m->source_column, m->source_end_column,
                   m->stack_frame_id};
  for (size_t k = 0; k < HS_COUNT(v); k++) w_i64(b, v[k]);
  w_ints(b, rest->profile_type);
}

static void w_sharding(hs_buf *b, const hlo_sharding *s) {
  w_i64(b, s ? (i64)s->type : -1);
  if (!s) return;
  w_i64(b, s->nchildren);
  for (u32 k = 0; k < s->nchildren; k++) w_sharding(b, s->children[k]);
  w_i64(b, s->device);
  w_ints(b, s->dims);
  w_ints(b, s->devices);
  w_ints(b, s->reshape);
  w_ints(b, s->perm);
  w_ints(b, s->last_tile_dims);
  w_i64(b, s->replicate_last);
  w_i64(b, s->shard_group);
  w_i64(b, s->shard_group_kind);
  w_i64(b, s->named_whole);
  w_mesh(b, s->mesh);
  w_i64(b, s->ndim_shardings);
  for (u32 k = 0; k < s->ndim_shardings; k++)
    w_axes(b, s->dim_shardings[k].axes), w_i64(b, s->dim_shardings[k].open);
  w_axes(b, s->replicated_axes), w_axes(b, s->unreduced_axes), w_axes(b, s->manual_axes);
  w_i64(b, s->unreduced_op);
}

static void w_aliases(hs_buf *b, const hlo_aliases *a) {
  w_i64(b, a->n);
  for (u32 k = 0; k < a->n; k++)
    w_ints(b, a->v[k].out_index), w_i64(b, a->v[k].param), w_ints(b, a->v[k].param_index),
        w_i64(b, a->v[k].must);
}

static void w_origin(hs_buf *b, const hlo_origin_node *o) {
  w_i64(b, o ? o->tuple + 2 * o->present : -1);
  if (!o) return;
  w_i64(b, o->nchildren);
  for (u32 k = 0; k < o->nchildren; k++) w_origin(b, o->children[k]);
  w_str(b, o->name);
  w_ints(b, o->index);
}

static void w_side(hs_buf *b, const hlo_sparsity_side *s) {
  const i64 v[] = {s->present, s->num_non_zero, s->block_size, s->dimension, s->stride, s->idx};
  for (size_t k = 0; k < HS_COUNT(v); k++) w_i64(b, v[k]);
}

// Most values are one run of bytes as they stand: true, and where. Nothing is copied for them.
static bool one_run(const hlo_attr *a, hs_str *out) {
  const void *p = NULL;
  size_t n = 0;
  hlo_attr_kind kind = hlo_attr_kind_of(a->id);
  switch (kind) {
  case HLO_AK_INT:
  case HLO_AK_BOOL: p = &a->v.i, n = sizeof a->v.i; break;
  case HLO_AK_FLOAT: p = &a->v.f, n = sizeof a->v.f; break;
  case HLO_AK_STRING:
  case HLO_AK_TEXT: *out = a->v.s; return true;
  case HLO_AK_INTS:
  case HLO_AK_BOOLS:
  case HLO_AK_PRECISIONS: p = a->v.ints.v, n = a->v.ints.n * sizeof(i64); break;
  case HLO_AK_PAIRS: p = a->v.ints.v, n = a->v.ints.n * 2 * sizeof(i64); break;
  case HLO_AK_COMP: p = &a->v.comp, n = sizeof a->v.comp; break;
  case HLO_AK_COMPS: p = a->v.comps.v, n = a->v.comps.n * sizeof(hlo_computation *); break;
  case HLO_AK_SLICES:
    p = ((const hlo_slices *)a->v.p)->v,
    n = ((const hlo_slices *)a->v.p)->n * sizeof(hlo_slice_dim);
    break;
  case HLO_AK_PADDING:
    p = ((const hlo_padding *)a->v.p)->v,
    n = ((const hlo_padding *)a->v.p)->n * sizeof(hlo_pad_dim);
    break;
  case HLO_AK_BACKEND_CONFIG: *out = ((const hlo_backend_config *)a->v.p)->text; return true;
  default:
    if (kind <= HLO_AK_TEXT) return false;  // behind it come the enumerations
    p = &a->v.i, n = sizeof a->v.i;
  }
  *out = (hs_str){p, n};
  return true;
}

static void flatten(hs_buf *b, const hlo_attr *a) {
  w_i64(b, a->id);
  const void *p = a->v.p;
  switch (hlo_attr_kind_of(a->id)) {
  case HLO_AK_INT_LISTS: {
    const hlo_int_lists *l = p;
    w_i64(b, l->n);
    for (u32 k = 0; k < l->n; k++) w_ints(b, l->v[k]);
    return;
  }
  case HLO_AK_WINDOW: {
    const hlo_window *w = p;
    w_i64(b, w->n);
    for (u32 k = 0; k < w->n; k++) {
      const hlo_window_dim *d = &w->v[k];
      const i64 v[] = {d->size,       d->stride,     d->pad_low, d->pad_high,
                       d->lhs_dilate, d->rhs_dilate, d->reversal};
      w_ints(b, (hlo_ints){HS_COUNT(v), v});
    }
    return;
  }
  case HLO_AK_DIM_LABELS: {
    const hlo_dim_labels *d = p;
    const i64 v[] = {d->lhs_batch,          d->lhs_feature, d->rhs_input_feature,
                     d->rhs_output_feature, d->out_batch,   d->out_feature};
    w_ints(b, (hlo_ints){HS_COUNT(v), v});
    w_ints(b, (hlo_ints){d->nspatial, d->lhs_spatial});
    w_ints(b, (hlo_ints){d->nspatial, d->rhs_spatial});
    w_ints(b, (hlo_ints){d->nspatial, d->out_spatial});
    return;
  }
  case HLO_AK_SHAPES: {
    const hlo_shapes *s = p;
    w_i64(b, s->n);
    for (u32 k = 0; k < s->n; k++) w_i64(b, (i64)s->v[k]->hash);
    return;
  }
  case HLO_AK_PROGRAM_SHAPE: {
    const hlo_program_shape *s = p;
    w_i64(b, s->n);
    for (u32 k = 0; k < s->n; k++) w_i64(b, (i64)s->params[k]->hash);
    w_i64(b, (i64)s->result->hash);
    return;
  }
  case HLO_AK_REPLICA_GROUPS: {
    const hlo_replica_groups *g = p;
    w_i64(b, g->form);
    w_i64(b, g->groups.n);
    for (u32 k = 0; k < g->groups.n; k++) w_ints(b, g->groups.v[k]);
    w_ints(b, g->dims), w_ints(b, g->reshape), w_ints(b, g->perm);
    w_mesh(b, g->mesh), w_axes(b, g->axes);
    return;
  }
  case HLO_AK_OUTPUT_ALIASING:
  case HLO_AK_IO_ALIAS:
  case HLO_AK_DONORS: w_aliases(b, p); return;
  case HLO_AK_SHARDING: w_sharding(b, p); return;
  case HLO_AK_DOMAIN: {
    const hlo_domain *d = p;
    w_str(b, d->kind), w_sharding(b, d->entry), w_sharding(b, d->exit);
    return;
  }
  case HLO_AK_FRONTEND: {
    const hlo_frontend *f = p;
    w_i64(b, f->n);
    for (u32 k = 0; k < f->n; k++) w_str(b, f->v[k].key), w_str(b, f->v[k].value);
    return;
  }
  case HLO_AK_STATISTICS: {
    const hlo_statistics *s = p;
    w_i64(b, s->visualizing_index), w_i64(b, s->n);
    for (u32 k = 0; k < s->n; k++) w_str(b, s->v[k].name), w_f64(b, s->v[k].value);
    return;
  }
  case HLO_AK_RESULT_ACCURACY: {
    const hlo_result_accuracy *r = p;
    w_i64(b, r->has_mode + 2 * r->has_tolerance);
    w_i64(b, r->mode);
    w_f64(b, r->atol);
    w_f64(b, r->rtol);
    w_i64(b, r->ulps);
    return;
  }
  case HLO_AK_ORIGIN: {
    const hlo_origin *o = p;
    w_i64(b, o->synthetic), w_origin(b, o->root);
    return;
  }
  case HLO_AK_METADATA: w_metadata(b, p); return;
  case HLO_AK_SPARSITY: {
    const hlo_sparsity *s = p;
    w_side(b, &s->lhs), w_side(b, &s->rhs);
    return;
  }
  default: w_i64(b, a->v.i); return;
  }
}

bool hlo_attr_equal(const hlo_attr *a, const hlo_attr *b) {
  if (a->id != b->id) return false;
  switch (hlo_attr_kind_of(a->id)) {
  case HLO_AK_LITERAL: return hlo_literal_equal(a->v.literal, b->v.literal);
  case HLO_AK_SHAPE: return a->v.shape == b->v.shape;
  default: break;
  }
  hs_str v, w;
  if (one_run(a, &v) && one_run(b, &w)) return hs_str_eq(v, w);
  hs_buf x = {0}, y = {0};
  flatten(&x, a);
  flatten(&y, b);
  bool same = x.n == y.n && !memcmp(x.p, y.p, x.n);
  hs_buf_free(&x);
  hs_buf_free(&y);
  return same;
}

bool hlo_attrs_equal(const hlo_attrs *a, const hlo_attrs *b, bool (*skip)(hlo_attr_id)) {
  if (a == b) return true;
  u32 i = 0, j = 0, na = a ? a->n : 0, nb = b ? b->n : 0;
  for (;;) {
    while (i < na && skip && skip(a->v[i].id)) i++;
    while (j < nb && skip && skip(b->v[j].id)) j++;
    if (i == na || j == nb) return i == na && j == nb;
    if (!hlo_attr_equal(&a->v[i++], &b->v[j++])) return false;
  }
}

u64 hlo_attr_hash(const hlo_attr *a, u64 seed) {
  hs_str v;
  if (one_run(a, &v)) return hs_hash_bytes(v.p, v.n, hs_mix(seed, a->id));
  if (hlo_attr_kind_of(a->id) == HLO_AK_LITERAL)
    return hs_mix(hs_mix(seed, a->id), hlo_literal_hash(a->v.literal));
  if (hlo_attr_kind_of(a->id) == HLO_AK_SHAPE) return hs_mix(hs_mix(seed, a->id), a->v.shape->hash);
  hs_buf b = {0};
  flatten(&b, a);
  u64 h = hs_hash_bytes(b.p, b.n, seed);
  hs_buf_free(&b);
  return h;
}

u64 hlo_attrs_hash(const hlo_attrs *a, u64 seed, bool (*skip)(hlo_attr_id)) {
  for (u32 k = 0; a && k < a->n; k++)
    if (!skip || !skip(a->v[k].id)) seed = hlo_attr_hash(&a->v[k], seed);
  return seed;
}

// ---- deep copy ----------------------------------------------------------------------------------

static hs_str c_str(hs_arena *m, hs_str s) {
  return s.p ? (hs_str){hs_arena_strndup(m, s.p, s.n), s.n} : s;
}
static hlo_ints c_ints(hs_arena *m, hlo_ints v) {
  return (hlo_ints){v.n, hs_arena_dup(m, v.v, v.n * sizeof(i64))};
}

static hlo_axes c_axes(hs_arena *m, hlo_axes a) {
  hlo_axis *v = hs_arena_dup(m, a.v, a.n * sizeof *v);
  for (u32 k = 0; k < a.n; k++) v[k].name = hs_arena_strndup(m, a.v[k].name, strlen(a.v[k].name));
  return (hlo_axes){a.n, v};
}

static const hlo_mesh *c_mesh(hs_arena *m, const hlo_mesh *s) {
  if (!s) return NULL;
  hlo_mesh *r = hs_arena_dup(m, s, sizeof *s);
  const char **names = HS_NEW_ARRAY(m, const char *, s->naxes);
  for (u32 k = 0; k < s->naxes; k++)
    names[k] = hs_arena_strndup(m, s->names[k], strlen(s->names[k]));
  r->names = names;
  r->sizes = hs_arena_dup(m, s->sizes, s->naxes * sizeof(i64));
  r->devices = hs_arena_dup(m, s->devices, s->ndevices * sizeof(i64));
  r->reshape = c_ints(m, s->reshape);
  r->perm = c_ints(m, s->perm);
  return r;
}

static const hlo_metadata *c_metadata(hs_arena *m, const hlo_metadata *s) {
  hlo_metadata *r = hs_arena_dup(m, s, sizeof *s);
  r->op_type = c_str(m, s->op_type);
  r->op_name = c_str(m, s->op_name);
  r->source_file = c_str(m, s->source_file);
  if (s->rest) {
    hlo_metadata_rest *rest = HS_NEW(m, hlo_metadata_rest);
    *rest = (hlo_metadata_rest){c_str(m, s->rest->deduplicated_name),
                                c_str(m, s->rest->scheduling_name), c_str(m, s->rest->payload),
                                c_ints(m, s->rest->profile_type)};
    r->rest = rest;
  }
  return r;
}

static const hlo_sharding *c_sharding(hs_arena *m, const hlo_sharding *s) {
  if (!s) return NULL;
  hlo_sharding *r = hs_arena_dup(m, s, sizeof *s);
  const hlo_sharding **kids = HS_NEW_ARRAY(m, const hlo_sharding *, s->nchildren);
  for (u32 k = 0; k < s->nchildren; k++) kids[k] = c_sharding(m, s->children[k]);
  r->children = kids;
  r->dims = c_ints(m, s->dims);
  r->devices = c_ints(m, s->devices);
  r->reshape = c_ints(m, s->reshape);
  r->perm = c_ints(m, s->perm), r->last_tile_dims = c_ints(m, s->last_tile_dims);
  const hlo_metadata **md = HS_NEW_ARRAY(m, const hlo_metadata *, s->nmetadata);
  for (u32 k = 0; k < s->nmetadata; k++) md[k] = c_metadata(m, s->metadata[k]);
  r->metadata = md;
  r->mesh = c_mesh(m, s->mesh);
  hlo_dim_sharding *ds = hs_arena_dup(m, s->dim_shardings, s->ndim_shardings * sizeof *ds);
  for (u32 k = 0; k < s->ndim_shardings; k++) ds[k].axes = c_axes(m, s->dim_shardings[k].axes);
  r->dim_shardings = ds;
  r->replicated_axes = c_axes(m, s->replicated_axes);
  r->unreduced_axes = c_axes(m, s->unreduced_axes);
  r->manual_axes = c_axes(m, s->manual_axes);
  return r;
}

static const hlo_origin_node *c_origin(hs_arena *m, const hlo_origin_node *s) {
  if (!s) return NULL;
  hlo_origin_node *r = hs_arena_dup(m, s, sizeof *s);
  const hlo_origin_node **kids = HS_NEW_ARRAY(m, const hlo_origin_node *, s->nchildren);
  for (u32 k = 0; k < s->nchildren; k++) kids[k] = c_origin(m, s->children[k]);
  r->children = kids;
  r->name = c_str(m, s->name);
  r->index = c_ints(m, s->index);
  return r;
}

// What is a count and an array of plain values.
#define C_FLAT(type, name)                              \
  static const type *name(hs_arena *m, const type *s) { \
    type *d = hs_arena_dup(m, s, sizeof *s);            \
    d->v = hs_arena_dup(m, s->v, s->n * sizeof *s->v);  \
    return d;                                           \
  }
C_FLAT(hlo_slices, c_slices)
C_FLAT(hlo_padding, c_padding)
C_FLAT(hlo_window, c_window)
C_FLAT(hlo_shapes, c_shapes)
#undef C_FLAT

static const hlo_int_lists *c_int_lists(hs_arena *m, const hlo_int_lists *s) {
  hlo_int_lists *d = hs_arena_dup(m, s, sizeof *s);
  hlo_ints *v = HS_NEW_ARRAY(m, hlo_ints, s->n);
  for (u32 k = 0; k < s->n; k++) v[k] = c_ints(m, s->v[k]);
  d->v = v;
  return d;
}

static const hlo_dim_labels *c_dim_labels(hs_arena *m, const hlo_dim_labels *s) {
  hlo_dim_labels *d = hs_arena_dup(m, s, sizeof *s);
  d->lhs_spatial = hs_arena_dup(m, s->lhs_spatial, s->nspatial * sizeof(i64));
  d->rhs_spatial = hs_arena_dup(m, s->rhs_spatial, s->nspatial * sizeof(i64));
  d->out_spatial = hs_arena_dup(m, s->out_spatial, s->nspatial * sizeof(i64));
  d->text = s->text ? hs_arena_strndup(m, s->text, strlen(s->text)) : NULL;
  return d;
}

static const hlo_program_shape *c_program_shape(hs_arena *m, const hlo_program_shape *s) {
  hlo_program_shape *d = hs_arena_dup(m, s, sizeof *s);
  d->params = hs_arena_dup(m, s->params, s->n * sizeof *s->params);
  return d;
}

static const hlo_replica_groups *c_replica_groups(hs_arena *m, const hlo_replica_groups *s) {
  hlo_replica_groups *d = hs_arena_dup(m, s, sizeof *s);
  hlo_ints *v = HS_NEW_ARRAY(m, hlo_ints, s->groups.n);
  for (u32 k = 0; k < s->groups.n; k++) v[k] = c_ints(m, s->groups.v[k]);
  d->groups.v = v;
  d->dims = c_ints(m, s->dims), d->reshape = c_ints(m, s->reshape), d->perm = c_ints(m, s->perm);
  d->mesh = c_mesh(m, s->mesh), d->axes = c_axes(m, s->axes);
  return d;
}

static const hlo_aliases *c_aliases(hs_arena *m, const hlo_aliases *s) {
  hlo_aliases *d = hs_arena_dup(m, s, sizeof *s);
  hlo_alias_entry *v = hs_arena_dup(m, s->v, s->n * sizeof *v);
  for (u32 k = 0; k < s->n; k++)
    v[k].out_index = c_ints(m, s->v[k].out_index),
    v[k].param_index = c_ints(m, s->v[k].param_index);
  d->v = v;
  return d;
}

static const hlo_domain *c_domain(hs_arena *m, const hlo_domain *s) {
  hlo_domain *d = hs_arena_dup(m, s, sizeof *s);
  d->kind = c_str(m, s->kind);
  d->entry = c_sharding(m, s->entry);
  d->exit = c_sharding(m, s->exit);
  return d;
}

static const hlo_frontend *c_frontend(hs_arena *m, const hlo_frontend *s) {
  hlo_frontend *d = hs_arena_dup(m, s, sizeof *s);
  hlo_frontend_entry *v = hs_arena_dup(m, s->v, s->n * sizeof *v);
  for (u32 k = 0; k < s->n; k++)
    v[k].key = c_str(m, s->v[k].key), v[k].value = c_str(m, s->v[k].value);
  d->v = v;
  return d;
}

static const hlo_statistics *c_statistics(hs_arena *m, const hlo_statistics *s) {
  hlo_statistics *d = hs_arena_dup(m, s, sizeof *s);
  hlo_stat *v = hs_arena_dup(m, s->v, s->n * sizeof *v);
  for (u32 k = 0; k < s->n; k++) v[k].name = c_str(m, s->v[k].name);
  d->v = v;
  return d;
}

static const hlo_backend_config *c_backend_config(hs_arena *m, const hlo_backend_config *s) {
  hlo_backend_config *d = hs_arena_dup(m, s, sizeof *s);
  d->text = c_str(m, s->text);
  return d;
}

static const hlo_origin *c_origin_tree(hs_arena *m, const hlo_origin *s) {
  hlo_origin *d = hs_arena_dup(m, s, sizeof *s);
  d->root = c_origin(m, s->root);
  return d;
}

static hlo_computation **c_comps(hs_arena *m, hlo_computation *const *from, u32 n,
                                 hlo_computation *(*map)(void *, hlo_computation *), void *arg) {
  hlo_computation **v = HS_NEW_ARRAY(m, hlo_computation *, n);
  for (u32 k = 0; k < n; k++) v[k] = map ? map(arg, from[k]) : from[k];
  return v;
}

hlo_attr hlo_attr_clone(hs_arena *m, const hlo_attr *a,
                        hlo_computation *(*map)(void *, hlo_computation *), void *arg) {
  hlo_attr r = *a;
  const void *p = a->v.p;
  switch (hlo_attr_kind_of(a->id)) {
  case HLO_AK_STRING:
  case HLO_AK_TEXT: r.v.s = c_str(m, a->v.s); break;
  case HLO_AK_INTS:
  case HLO_AK_BOOLS:
  case HLO_AK_PRECISIONS: r.v.ints = c_ints(m, a->v.ints); break;
  case HLO_AK_PAIRS:
    r.v.ints.v = hs_arena_dup(m, a->v.ints.v, a->v.ints.n * 2 * sizeof(i64));
    break;
  case HLO_AK_COMP:
    if (map && a->v.comp) r.v.comp = map(arg, a->v.comp);
    break;
  case HLO_AK_COMPS: r.v.comps.v = c_comps(m, a->v.comps.v, a->v.comps.n, map, arg); break;
  case HLO_AK_INT_LISTS: r.v.p = c_int_lists(m, p); break;
  case HLO_AK_SLICES: r.v.p = c_slices(m, p); break;
  case HLO_AK_PADDING: r.v.p = c_padding(m, p); break;
  case HLO_AK_WINDOW: r.v.p = c_window(m, p); break;
  case HLO_AK_SHAPES: r.v.p = c_shapes(m, p); break;
  case HLO_AK_DIM_LABELS: r.v.p = c_dim_labels(m, p); break;
  case HLO_AK_PROGRAM_SHAPE: r.v.p = c_program_shape(m, p); break;
  case HLO_AK_REPLICA_GROUPS: r.v.p = c_replica_groups(m, p); break;
  case HLO_AK_OUTPUT_ALIASING:
  case HLO_AK_IO_ALIAS:
  case HLO_AK_DONORS: r.v.p = c_aliases(m, p); break;
  case HLO_AK_SHARDING: r.v.p = c_sharding(m, p); break;
  case HLO_AK_DOMAIN: r.v.p = c_domain(m, p); break;
  case HLO_AK_FRONTEND: r.v.p = c_frontend(m, p); break;
  case HLO_AK_STATISTICS: r.v.p = c_statistics(m, p); break;
  case HLO_AK_RESULT_ACCURACY: r.v.p = hs_arena_dup(m, p, sizeof(hlo_result_accuracy)); break;
  case HLO_AK_SPARSITY: r.v.p = hs_arena_dup(m, p, sizeof(hlo_sparsity)); break;
  case HLO_AK_ORIGIN: r.v.p = c_origin_tree(m, p); break;
  case HLO_AK_METADATA: r.v.p = c_metadata(m, p); break;
  case HLO_AK_BACKEND_CONFIG: r.v.p = c_backend_config(m, p); break;
  default: break;  // scalars, shapes, literals (the caller takes the reference)
  }
  return r;
}

const hs_str *hlo_frontend_find(const hlo_attr *a, const char *key) {
  const hlo_frontend *f = a ? a->v.p : NULL;
  for (u32 k = 0; f && k < f->n; k++)
    if (hs_str_eq(f->v[k].key, hs_str_of(key))) return &f->v[k].value;
  return NULL;
}

const hlo_shape *hlo_shape_at(const hlo_shape *s, hlo_ints path, u32 *leaf) {
  u32 at = 0;
  for (u32 k = 0; k < path.n; k++) {
    if (!hlo_shape_is_tuple(s) || path.v[k] < 0 || path.v[k] >= s->nelems) return NULL;
    if (leaf) at += hlo_shape_leaf_offset(s, path.v[k]);
    s = s->elems[path.v[k]];
  }
  if (leaf) *leaf = at;
  return s;
}

u32 hlo_shape_leaf_at(const hlo_shape *s, hlo_ints path) {
  u32 leaf;
  const hlo_shape *at = hlo_shape_at(s, path, &leaf);
  return at && !hlo_shape_is_tuple(at) ? leaf : HLO_NO_LEAF;
}

bool hlo_iota_ids(hlo_ints reshape, hlo_ints perm, i64 n, i64 *ids) {
  i64 strides[HLO_MAX_RANK], step[HLO_MAX_RANK], dims[HLO_MAX_RANK], all = 1;
  if (reshape.n > HLO_MAX_RANK || (perm.n && perm.n != reshape.n)) return false;
  for (u32 d = 0; d < reshape.n; d++) all = hs_mul_sat_i64(all, reshape.v[d]);
  if (all != n) return false;
  hlo_row_major_strides(reshape.n, reshape.v, strides);
  for (u32 d = 0; d < reshape.n; d++) {
    i64 from = perm.n ? perm.v[d] : d;
    if (from < 0 || from >= reshape.n) return false;
    dims[d] = reshape.v[from], step[d] = strides[from];
  }
  for (i64 at = 0; at < n; at++) {
    i64 rest = at;
    ids[at] = 0;
    for (u32 d = reshape.n; d-- > 0; rest /= dims[d]) ids[at] += rest % dims[d] * step[d];
  }
  return true;
}
