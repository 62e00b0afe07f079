// write_value.c — shapes, literals, shardings and other struct-kinded values as messages:
// value.c the other way. Each function appends one field, `num`, with its tag; those of an
// instruction know their own number.
#include "core/proto/fields.h"
#include "core/proto/write.h"

// ---- shapes and literals ------------------------------------------------------------------------
static void put_layout(hs_buf *b, const hlo_layout *l) {
  pb_put_ints(b, 1, l->minor_to_major, l->rank);
  for (u32 k = 0; k < l->ntiles; k++) {
    size_t mark = pb_begin(b);
    pb_put_ints(b, 1, l->tiles[k].dims, l->tiles[k].rank);
    pb_end(b, 6, mark);
  }
  pb_put_int(b, 7, l->element_bits);
  pb_put_int(b, 8, l->memory_space);
  if (l->index_type) pb_put_int(b, 11, hlo_dtypes[l->index_type].proto);
  if (l->pointer_type) pb_put_int(b, 12, hlo_dtypes[l->pointer_type].proto);
  pb_put_int(b, 15, l->metadata_prefix);
  pb_put_int(b, 16, l->tail_alignment);
  for (u32 k = 0; k < l->nsplits; k++) {
    size_t mark = pb_begin(b);
    pb_put_int(b, 1, l->splits[k].dim);
    pb_put_ints(b, 2, l->splits[k].indices, l->splits[k].n);
    pb_end(b, 17, mark);
  }
}

void proto_put_shape(hs_buf *b, u32 num, const hlo_shape *s) {
  size_t mark = pb_begin(b);
  pb_put_int(b, 2, hlo_dtypes[s->dtype].proto);
  pb_put_ints(b, 3, s->dims, s->rank);
  for (u32 k = 0; k < s->nelems; k++) proto_put_shape(b, 4, s->elems[k]);
  if (s->layout) {
    size_t at = pb_begin(b);
    put_layout(b, s->layout);
    pb_end(b, 5, at);
  }
  if (hlo_shape_is_array(s) && s->rank) {
    i64 dynamic[HLO_MAX_RANK];
    for (u32 k = 0; k < s->rank; k++) dynamic[k] = hlo_dim_is_dynamic(s, k);
    pb_put_ints(b, 6, dynamic, s->rank);
  }
  pb_end(b, num, mark);
}

void proto_layout_order(const hlo_literal *l, char *out) {
  const hlo_shape *s = l->shape;
  size_t size = hlo_dtype_storage(s->dtype);
  if (hlo_shape_is_row_major(s)) {
    if (l->bytes) memcpy(out, l->data, l->bytes);
    return;
  }
  i64 strides[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0};
  hlo_row_major_strides(s->rank, s->dims, strides);
  for (i64 k = 0; k < s->elements; k++, out += size) {
    i64 at = 0;
    for (u32 d = 0; d < s->rank; d++) at += index[d] * strides[d];
    memcpy(out, (const char *)l->data + (size_t)at * size, size);
    for (u32 d = 0; d < s->rank; d++) {
      i64 dim = s->layout->minor_to_major[d];
      if (++index[dim] < s->dims[dim]) break;
      index[dim] = 0;
    }
  }
}

// A literal holds one element per byte, whatever the layout says of the array in memory.
const hlo_shape *proto_unpacked(hlo_ctx *ctx, const hlo_shape *s) {
  if (!s->layout || !s->layout->element_bits) return s;
  hlo_layout l = *s->layout;
  l.element_bits = 0;
  return hlo_shape_with_layout(ctx, s, hlo_layout_intern(ctx, &l));
}

bool proto_put_literal(hs_buf *b, hlo_ctx *ctx, u32 num, const hlo_literal *l) {
  size_t mark = pb_begin(b);
  const hlo_shape *s = proto_unpacked(ctx, hlo_shape_fill_layout(ctx, l->shape));
  bool whole = !l->elided;
  proto_put_shape(b, 1, s);
  for (u32 k = 0; k < l->nchildren; k++) whole &= proto_put_literal(b, ctx, 10, l->children[k]);
  const hlo_dtype_info *t = &hlo_dtypes[s->dtype];
  bool varints = t->coding == HLO_CODING_VARINT;
  if (!l->elided && hlo_shape_is_array(s) && l->bytes) {
    char *bytes = hs_alloc_or_stop(l->bytes);
    if (!bytes) return false;
    proto_layout_order(l, bytes);
    int bits = hlo_dtype_bits(s->dtype);
    // no sign extension
    for (size_t k = 0; bits < 8 && !varints && k < l->bytes; k++)
      bytes[k] = (char)(bytes[k] & ((1 << bits) - 1));
    if (!varints) {
      pb_put_bytes(b, t->literal_field, bytes, l->bytes);
    } else {
      size_t at = pb_begin(b);
      for (i64 k = 0; k < s->elements; k++)
        pb_put_varint(
            b, (u64)hlo_elem_to_i64(s->dtype, bytes + (size_t)k * hlo_dtype_storage(s->dtype)));
      pb_end(b, t->literal_field, at);
    }
    hs_free(bytes);
  }
  if (l->dynamic_sizes && hlo_shape_is_array(s)) {
    i64 sizes[HLO_MAX_RANK];
    for (u32 d = 0; d < s->rank; d++) sizes[d] = l->dynamic_sizes[d];
    pb_put_ints(b, 34, sizes, s->rank);
  }
  pb_end(b, num, mark);
  return whole;
}

// ---- struct-kinded values -----------------------------------------------------------------------
void proto_put_str(hs_buf *b, u32 num, hs_str s) { pb_put_bytes(b, num, s.p, s.n); }

void proto_put_metadata(hs_buf *b, u32 num, const hlo_metadata *d) {
  size_t mark = pb_begin(b);
  const hlo_metadata_rest *rest = hlo_metadata_rest_of(d);
  proto_put_str(b, 1, d->op_type);
  proto_put_str(b, 2, d->op_name);
  proto_put_str(b, 3, d->source_file);
  pb_put_int(b, 4, d->source_line);
  pb_put_ints(b, 5, rest->profile_type.v, rest->profile_type.n);
  proto_put_str(b, 12, rest->deduplicated_name);
  pb_put_int(b, 15, d->stack_frame_id);
  proto_put_str(b, 16, rest->scheduling_name);
  pb_put_int(b, 17, d->source_end_line);
  pb_put_int(b, 18, d->source_column);
  pb_put_int(b, 19, d->source_end_column);
  if (rest->payload.n) {
    size_t at = pb_begin(b);
    proto_put_str(b, 1, rest->payload);
    pb_end(b, 20, at);
  }
  pb_end(b, num, mark);
}

void proto_put_frontend(hs_buf *b, u32 num, const hlo_frontend *f) {
  size_t mark = pb_begin(b);
  for (u32 k = 0; k < f->n; k++) {
    size_t at = pb_begin(b);
    proto_put_str(b, 1, f->v[k].key);
    proto_put_str(b, 2, f->v[k].value);
    pb_end(b, 1, at);
  }
  pb_end(b, num, mark);
}

static void put_mesh(hs_buf *b, u32 num, const hlo_mesh *m) {
  size_t mark = pb_begin(b);
  for (u32 k = 0; k < m->naxes; k++) {
    size_t at = pb_begin(b);
    proto_put_str(b, 1, hs_str_of(m->names[k]));
    pb_put_int_always(b, 2, m->sizes[k]);
    pb_end(b, 1, at);
  }
  if (m->maximal) pb_put_ints(b, 2, &m->device_id, 1);
  else pb_put_ints(b, 2, m->devices, m->ndevices);
  if (m->reshape.n) {
    size_t at = pb_begin(b);
    pb_put_ints(b, 1, m->reshape.v, m->reshape.n);
    pb_put_ints(b, 2, m->perm.v, m->perm.n);
    pb_end(b, 3, at);
  }
  pb_end(b, num, mark);
}

static void put_axes(hs_buf *b, u32 num, const hlo_mesh *m, hlo_axes axes) {
  for (u32 k = 0; k < axes.n; k++) {
    size_t mark = pb_begin(b);
    u32 index = 0;
    while (index + 1 < m->naxes && strcmp(m->names[index], axes.v[k].name) != 0) index++;
    pb_put_int(b, 1, index);
    if (axes.v[k].size) {
      size_t at = pb_begin(b);
      pb_put_int(b, 1, axes.v[k].pre);
      pb_put_int(b, 2, axes.v[k].size);
      pb_end(b, 2, at);
    }
    pb_end(b, num, mark);
  }
}

static void put_named(hs_buf *b, const hlo_sharding *s) {
  size_t mark = pb_begin(b);
  put_mesh(b, 2, s->mesh);
  for (u32 k = 0; k < s->ndim_shardings; k++) {
    size_t at = pb_begin(b);
    put_axes(b, 1, s->mesh, s->dim_shardings[k].axes);
    pb_put_int(b, 2, !s->dim_shardings[k].open);
    pb_end(b, 3, at);
  }
  put_axes(b, 4, s->mesh, s->replicated_axes);
  put_axes(b, 5, s->mesh, s->unreduced_axes);
  put_axes(b, 7, s->mesh, s->manual_axes);
  if (s->unreduced_op) pb_put_int(b, 8, s->unreduced_op - 1);
  pb_end(b, 14, mark);
}

void proto_put_sharding(hs_buf *b, u32 num, const hlo_sharding *s) {
  size_t mark = pb_begin(b);
  // fully replicated, manual or unreduced meshes
  bool whole = s->type == HLO_SH_NAMED && s->named_whole != HLO_SH_TILED;
  hlo_sharding_type type = whole ? s->named_whole : s->type;
  pb_put_int(b, 1, type == HLO_SH_NAMED ? 0 : proto_sharding_type[type]);
  pb_put_ints(b, 3, s->dims.v, s->dims.n);
  if (type == HLO_SH_MAXIMAL) {
    pb_put_ints(b, 4, &s->device, 1);
  } else {
    pb_put_ints(b, 4, s->devices.v, s->devices.n);
  }
  for (u32 k = 0; k < s->nchildren; k++) proto_put_sharding(b, 5, s->children[k]);
  pb_put_int(b, 6, s->replicate_last);
  for (u32 k = 0; k < s->nmetadata; k++) proto_put_metadata(b, 7, s->metadata[k]);
  if (s->last_tile_dims.n) {
    i64 types[HLO_MAX_RANK];
    u32 n = HS_MIN(s->last_tile_dims.n, HLO_MAX_RANK);
    for (u32 k = 0; k < n; k++) types[k] = proto_sharding_type[s->last_tile_dims.v[k]];
    pb_put_ints(b, 8, types, n);
  }
  pb_put_ints(b, 9, s->reshape.v, s->reshape.n);
  if (s->reshape.n == 1) {
    i64 zero = 0;
    pb_put_ints(b, 10, &zero, 1);
  } else {
    pb_put_ints(b, 10, s->perm.v, s->perm.n);
  }
  if (s->shard_group_kind) {
    pb_put_int(b, 11, 1);
    pb_put_int(b, 12, s->shard_group);
    pb_put_int(b, 13, s->shard_group_kind - 1);
  }
  if (type == HLO_SH_NAMED) put_named(b, s);
  pb_end(b, num, mark);
}

static void put_lists(hs_buf *b, u32 num, const hlo_int_lists *l) {
  for (u32 k = 0; k < l->n; k++) {
    size_t mark = pb_begin(b);
    pb_put_ints(b, 1, l->v[k].v, l->v[k].n);
    pb_end(b, num, mark);
  }
}

void proto_put_groups(hs_buf *b, const hlo_replica_groups *g) {
  // the legacy field, which every reader knows
  if (g->form == HLO_GROUPS_LIST) put_lists(b, 49, &g->groups);
  size_t mark = pb_begin(b);
  switch (g->form) {
  case HLO_GROUPS_LIST:
    put_lists(b, 1, &g->groups);
    pb_end(b, 87, mark);
    break;
  case HLO_GROUPS_IOTA: {
    i64 zero = 0;
    pb_put_int(b, 1, g->dims.v[0]);
    pb_put_int(b, 2, g->dims.v[1]);
    pb_put_ints(b, 3, g->reshape.v, g->reshape.n);
    if (g->reshape.n == 1) pb_put_ints(b, 4, &zero, 1);
    else pb_put_ints(b, 4, g->perm.v, g->perm.n);
    pb_end(b, 92, mark);
    break;
  }
  case HLO_GROUPS_MESH:
    put_mesh(b, 1, g->mesh);
    put_axes(b, 2, g->mesh, g->axes);
    pb_end(b, 93, mark);
    break;
  }
}

void proto_put_aliases(hs_buf *b, u32 num, hlo_attr_kind kind, const hlo_aliases *l) {
  for (u32 k = 0; k < l->n; k++) {
    const hlo_alias_entry *e = &l->v[k];
    bool donor = kind == HLO_AK_DONORS;
    size_t mark = pb_begin(b);
    if (!donor) pb_put_ints(b, 1, e->out_index.v, e->out_index.n);
    pb_put_int(b, donor ? 1 : 2, e->param);
    pb_put_ints(b, donor ? 2 : 3, e->param_index.v, e->param_index.n);
    if (kind == HLO_AK_IO_ALIAS) pb_put_int(b, 4, e->must ? 2 : 1);
    pb_end(b, num, mark);
  }
}

void proto_put_window(hs_buf *b, const hlo_window *w) {
  size_t mark = pb_begin(b);
  for (u32 k = 0; k < w->n; k++) {
    size_t at = pb_begin(b);
    const hlo_window_dim *d = &w->v[k];
    const i64 v[] = {d->size,       d->stride,     d->pad_low, d->pad_high,
                     d->rhs_dilate, d->lhs_dilate, d->reversal};
    for (u32 f = 0; f < HS_COUNT(v); f++) pb_put_int(b, f + 1, v[f]);
    pb_end(b, 1, at);
  }
  pb_end(b, 15, mark);
}

void proto_put_dim_labels(hs_buf *b, const hlo_dim_labels *d) {
  size_t mark = pb_begin(b);
  pb_put_int(b, 3, d->rhs_input_feature);
  pb_put_int(b, 4, d->rhs_output_feature);
  pb_put_ints(b, 6, d->rhs_spatial, d->nspatial);
  pb_put_int(b, 7, d->lhs_batch);
  pb_put_int(b, 8, d->lhs_feature);
  pb_put_int(b, 9, d->out_batch);
  pb_put_int(b, 10, d->out_feature);
  pb_put_ints(b, 11, d->lhs_spatial, d->nspatial);
  pb_put_ints(b, 12, d->out_spatial, d->nspatial);
  pb_end(b, 16, mark);
}

void proto_put_origin(hs_buf *b, const hlo_origin_node *n, i64 *path, u32 depth) {
  for (u32 k = 0; n->tuple && k < n->nchildren && depth < 32; k++) {
    path[depth] = k;
    proto_put_origin(b, n->children[k], path, depth + 1);
  }
  if (n->tuple) return;
  size_t mark = pb_begin(b);
  pb_put_ints(b, 1, path, depth);
  if (n->present) {
    size_t at = pb_begin(b);
    proto_put_str(b, 1, n->name);
    pb_put_ints(b, 2, n->index.v, n->index.n);
    pb_end(b, 2, at);
  }
  pb_end(b, 1, mark);
}

void proto_put_side(hs_buf *b, u32 num, const hlo_sparsity_side *s) {
  if (!s->present) return;
  size_t mark = pb_begin(b);
  const i64 v[] = {s->num_non_zero, s->block_size, s->dimension, s->stride, s->idx};
  for (u32 f = 0; f < HS_COUNT(v); f++) pb_put_int(b, f + 1, v[f]);
  pb_end(b, num, mark);
}
