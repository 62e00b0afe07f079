// print_attr.c — attribute values by their kind, exactly as XLA prints them (ToString of the
// classes concerned: HloSharding, ReplicaGroup, Window, OpMetadata, ...).
#include "core/base/scan.h"
#include "core/text/print.h"

#include <stdio.h>

// ---- strings and lists --------------------------------------------------------------------------
void hlo_put_escaped(hs_buf *b, hs_str s) {
  size_t done = 0;
  for (size_t i = 0; i < s.n; i++) {
    u8 c = (u8)s.p[i];
    const char *e = c == '\n'   ? "\\n"
                    : c == '\r' ? "\\r"
                    : c == '\t' ? "\\t"
                    : c == '"'  ? "\\\""
                    : c == '\'' ? "\\'"
                    : c == '\\' ? "\\\\"
                                : NULL;
    if (!e && c >= 32 && c < 127) continue;
    hs_buf_put(b, s.p + done, i - done);
    done = i + 1;
    if (e) hs_buf_puts(b, e);
    else hs_buf_printf(b, "\\%03o", c);
  }
  hs_buf_put(b, s.p + done, s.n - done);
}

static void put_quoted(hs_buf *b, hs_str s) {
  hs_buf_putc(b, '"');
  hlo_put_escaped(b, s);
  hs_buf_putc(b, '"');
}

static void put_ints(hs_buf *b, char open, hlo_ints l, char close, const char *sep) {
  if (open) hs_buf_putc(b, open);
  for (u32 i = 0; i < l.n; i++) {
    if (i) hs_buf_puts(b, sep);
    hs_buf_i64(b, l.v[i]);
  }
  if (close) hs_buf_putc(b, close);
}

static void put_flags(hs_buf *b, hlo_ints l) {
  hs_buf_putc(b, '{');
  for (u32 i = 0; i < l.n; i++) hs_buf_printf(b, "%s%s", i ? "," : "", l.v[i] ? "true" : "false");
  hs_buf_putc(b, '}');
}

static void put_lists(hs_buf *b, const hlo_int_lists *l) {
  hs_buf_putc(b, '{');
  for (u32 i = 0; i < l->n; i++) {
    if (i) hs_buf_putc(b, ',');
    put_ints(b, '{', l->v[i], '}', ",");
  }
  hs_buf_putc(b, '}');
}

// ---- shardings and replica groups ---------------------------------------------------------------
static void put_iota(hs_buf *b, hlo_ints reshape, hlo_ints perm) {
  put_ints(b, '[', reshape, ']', ",");
  if (perm.n > 1) {
    hs_buf_putc(b, 'T');
    put_ints(b, '(', perm, ')', ",");
  }
}

static void put_mesh(hs_buf *b, const hlo_mesh *m) {
  if (m->maximal) {
    hs_buf_printf(b, "maximal_mesh[device_id=%lld]", (long long)m->device_id);
    return;
  }
  hs_buf_puts(b, "mesh[");
  for (u32 i = 0; i < m->naxes; i++)
    hs_buf_printf(b, "%s'%s'=%lld", i ? "," : "", m->names[i], (long long)m->sizes[i]);
  hs_buf_putc(b, ']');
  if (!m->ndevices && !m->reshape.n) return;
  hs_buf_puts(b, ", device_ids=(");
  if (m->reshape.n) put_iota(b, m->reshape, m->perm);
  else put_ints(b, 0, (hlo_ints){m->ndevices, m->devices}, 0, ",");
  hs_buf_putc(b, ')');
}

static void put_axes(hs_buf *b, hlo_axes a, const char *sep, bool open) {
  hs_buf_putc(b, '{');
  for (u32 i = 0; i < a.n; i++) {
    hs_buf_printf(b, "%s'%s'", i ? sep : "", a.v[i].name);
    if (a.v[i].size) hs_buf_printf(b, ":(%lld)%lld", (long long)a.v[i].pre, (long long)a.v[i].size);
  }
  if (open) hs_buf_printf(b, "%s?", a.n ? sep : "");
  hs_buf_putc(b, '}');
}

static const char *reduction_text(int op) {
  return op == 1 ? "sum" : op == 2 ? "max" : op == 3 ? "min" : "";
}

static void put_named(hs_buf *b, const hlo_sharding *s) {
  if (s->named_whole == HLO_SH_REPLICATED) {
    hs_buf_puts(b, "replicated");
    return;
  }
  if (s->named_whole == HLO_SH_UNREDUCED) {
    hs_buf_puts(b, "unreduced");
    return;
  }
  put_mesh(b, s->mesh);
  if (s->named_whole == HLO_SH_MANUAL) {
    hs_buf_puts(b, ", manual");
    return;
  }
  hs_buf_puts(b, ", [");
  for (u32 i = 0; i < s->ndim_shardings; i++) {
    if (i) hs_buf_puts(b, ", ");
    put_axes(b, s->dim_shardings[i].axes, ", ", s->dim_shardings[i].open);
  }
  hs_buf_putc(b, ']');
  if (s->replicated_axes.n)
    hs_buf_puts(b, ", replicated="), put_axes(b, s->replicated_axes, ", ", false);
  if (s->unreduced_axes.n)
    hs_buf_printf(b, ", unreduced=%s", reduction_text(s->unreduced_op)),
        put_axes(b, s->unreduced_axes, ", ", false);
  if (s->manual_axes.n) hs_buf_puts(b, ", manual="), put_axes(b, s->manual_axes, ", ", false);
}

static const char *tile_type_text(i64 t) {
  return t == HLO_SH_MANUAL       ? "manual"
         : t == HLO_SH_REPLICATED ? "replicated"
         : t == HLO_SH_MAXIMAL    ? "maximal"
                                  : "unreduced";
}

static void put_tiled(hs_buf *b, const hlo_sharding *s) {
  hs_buf_puts(b, "devices=");
  put_ints(b, '[', s->dims, ']', ",");
  if (s->reshape.n) {
    hs_buf_puts(b, "<=");
    put_iota(b, s->reshape, s->perm);
  } else {
    put_ints(b, 0, s->devices, 0, ",");
  }
  if (s->replicate_last) hs_buf_puts(b, " last_tile_dim_replicate");
  if (!s->last_tile_dims.n) return;
  hs_buf_puts(b, " last_tile_dims={");
  for (u32 i = 0; i < s->last_tile_dims.n; i++)
    hs_buf_printf(b, "%s%s", i ? ", " : "", tile_type_text(s->last_tile_dims.v[i]));
  hs_buf_putc(b, '}');
}

void hlo_put_sharding(hs_buf *b, const hlo_sharding *s, bool metadata) {
  hs_buf_putc(b, '{');
  switch (s->type) {
  case HLO_SH_TUPLE:
    for (u32 i = 0; i < s->nchildren; i++) {
      if (i) hs_buf_puts(b, ", ");
      if (i && i % 5 == 0) hs_buf_printf(b, "/*index=%u*/", i);
      hlo_put_sharding(b, s->children[i], metadata);
    }
    break;
  case HLO_SH_REPLICATED: hs_buf_puts(b, "replicated"); break;
  case HLO_SH_MANUAL: hs_buf_puts(b, "manual"); break;
  case HLO_SH_UNKNOWN: hs_buf_puts(b, "unknown"); break;
  case HLO_SH_UNREDUCED: hs_buf_puts(b, "unreduced"); break;
  case HLO_SH_MAXIMAL:
    if (s->mesh) put_mesh(b, s->mesh);
    else hs_buf_printf(b, "maximal device=%lld", (long long)s->device);
    break;
  case HLO_SH_NAMED: put_named(b, s); break;
  case HLO_SH_TILED: put_tiled(b, s); break;
  }
  if (s->shard_group_kind)
    hs_buf_printf(b, " %s %lld", s->shard_group_kind == 1 ? "shard_as" : "shard_like",
                  (long long)s->shard_group);
  if (metadata && s->nmetadata) {
    hs_buf_puts(b, s->type == HLO_SH_NAMED ? ", metadata=" : " metadata=");
    if (s->nmetadata > 1) hs_buf_putc(b, '{');
    for (u32 i = 0; i < s->nmetadata; i++) {
      if (i) hs_buf_puts(b, ", ");
      hs_buf_putc(b, '{');
      hlo_put_metadata(b, s->metadata[i]);
      hs_buf_putc(b, '}');
    }
    if (s->nmetadata > 1) hs_buf_putc(b, '}');
  }
  hs_buf_putc(b, '}');
}

// Every group listed: device k of the iota order is the k-th element of the transposed
// reshape.
static void put_full_iota(hs_buf *b, const hlo_replica_groups *g) {
  i64 total = g->dims.v[0] * g->dims.v[1], strides[HLO_MAX_RANK];
  u32 n = g->reshape.n;
  hlo_row_major_strides(n, g->reshape.v, strides);
  hs_buf_putc(b, '{');
  for (i64 k = 0; k < total; k++) {
    i64 rest = k, device = 0;
    for (u32 d = n; d-- > 0;) {
      u32 from = g->perm.n ? (u32)g->perm.v[d] : d;
      device += rest % g->reshape.v[from] * strides[from];
      rest /= g->reshape.v[from];
    }
    i64 in = k % g->dims.v[1];
    hs_buf_puts(b, in ? "," : k ? "},{" : "{");
    hs_buf_i64(b, device);
  }
  hs_buf_puts(b, "}}");
}

static void put_replica_groups(hs_buf *b, const hlo_replica_groups *g, bool full) {
  switch (g->form) {
  case HLO_GROUPS_LIST: put_lists(b, &g->groups); break;
  case HLO_GROUPS_IOTA:
    if (full) {
      put_full_iota(b, g);
      break;
    }
    put_ints(b, '[', g->dims, ']', ",");
    hs_buf_puts(b, "<=");
    put_iota(b, g->reshape, g->perm);
    break;
  case HLO_GROUPS_MESH:
    put_mesh(b, g->mesh);
    hs_buf_putc(b, ' ');
    put_axes(b, g->axes, ",", false);
    break;
  }
}

// ---- metadata and other annotations -------------------------------------------------------------
bool hlo_metadata_prints(const hlo_metadata *m) {
  return m->op_type.n || m->op_name.n || m->source_file.n || m->stack_frame_id ||
         hlo_metadata_rest_of(m)->scheduling_name.n || hlo_metadata_rest_of(m)->payload.n;
}

void hlo_put_metadata(hs_buf *b, const hlo_metadata *m) {
  size_t start = b->n;
  const hlo_metadata_rest *rest = hlo_metadata_rest_of(m);
#define GAP()                              \
  do {                                     \
    if (b->n > start) hs_buf_putc(b, ' '); \
  } while (0)
#define TEXT(key, s)           \
  do {                         \
    if ((s).n) {               \
      GAP();                   \
      hs_buf_puts(b, key "="); \
      put_quoted(b, s);        \
    }                          \
  } while (0)
#define NUM(key, v)            \
  do {                         \
    if (v) {                   \
      GAP();                   \
      hs_buf_puts(b, key "="); \
      hs_buf_i64(b, v);        \
    }                          \
  } while (0)
  TEXT("op_type", m->op_type);
  TEXT("op_name", m->op_name);
  TEXT("source_file", m->source_file);
  NUM("source_line", m->source_line);
  NUM("source_end_line", m->source_end_line);
  NUM("source_column", m->source_column);
  NUM("source_end_column", m->source_end_column);
  if (rest->profile_type.n) {
    GAP();
    hs_buf_puts(b, "profile_type=");
    put_ints(b, '{', rest->profile_type, '}', ",");
  }
  TEXT("deduplicated_name", rest->deduplicated_name);
  TEXT("scheduling_name", rest->scheduling_name);
  NUM("stack_frame_id", m->stack_frame_id);
  TEXT("metadata_payload", rest->payload);
#undef GAP
#undef TEXT
#undef NUM
}

static void put_frontend(hs_buf *b, const hlo_frontend *f) {
  hs_buf_putc(b, '{');
  for (u32 i = 0; i < f->n; i++) {
    if (i) hs_buf_putc(b, ',');
    hs_buf_put(b, f->v[i].key.p, f->v[i].key.n);
    hs_buf_putc(b, '=');
    if (hlo_is_braced(f->v[i].value)) hs_buf_put(b, f->v[i].value.p, f->v[i].value.n);
    else put_quoted(b, f->v[i].value);
  }
  hs_buf_putc(b, '}');
}

static void put_aliases(hs_buf *b, hlo_attr_kind kind, const hlo_aliases *a) {
  bool outer = kind != HLO_AK_OUTPUT_ALIASING;  // module attributes have blanks inside the braces
  hs_buf_puts(b, outer ? "{ " : "{");
  for (u32 i = 0; i < a->n; i++) {
    const hlo_alias_entry *e = &a->v[i];
    if (i) hs_buf_puts(b, ", ");
    if (kind != HLO_AK_DONORS) {
      put_ints(b, '{', e->out_index, '}', ",");
      hs_buf_puts(b, ": ");
    }
    hs_buf_printf(b, "(%lld, ", (long long)e->param);
    put_ints(b, '{', e->param_index, '}', ",");
    hs_buf_puts(b, kind != HLO_AK_IO_ALIAS ? ")" : e->must ? ", must-alias)" : ", may-alias)");
  }
  hs_buf_puts(b, outer ? " }" : "}");
}

static void put_origin(hs_buf *b, const hlo_origin_node *n) {
  if (n->tuple) {
    hs_buf_putc(b, '(');
    for (u32 i = 0; i < n->nchildren; i++) {
      if (i) hs_buf_puts(b, ", ");
      put_origin(b, n->children[i]);
    }
    hs_buf_putc(b, ')');
    return;
  }
  hs_buf_putc(b, '{');
  if (n->present) {
    put_quoted(b, n->name);
    if (n->index.n) {
      hs_buf_putc(b, ' ');
      put_ints(b, '{', n->index, '}', ",");
    }
  }
  hs_buf_putc(b, '}');
}

static void put_result_accuracy(hs_buf *b, const hlo_result_accuracy *r) {
  if (!r->has_tolerance) {
    hs_buf_printf(b, "{mode=%s}", r->mode ? "highest" : "default");
    return;
  }
  hs_buf_printf(b, "{tolerance={atol=%.6g,rtol=%.6g,ulps=%lld}}", r->atol, r->rtol,
                (long long)r->ulps);
}

static void put_sparsity_side(hs_buf *b, const char *name, const hlo_sparsity_side *s,
                              hlo_vintage vintage) {
  hs_buf_printf(b, "%s={sparsity=%lldx%lld dimension=%lld stride=%lld", name,
                (long long)s->num_non_zero, (long long)s->block_size, (long long)s->dimension,
                (long long)s->stride);
  if (hlo_vintages[vintage].sparsity_idx) hs_buf_printf(b, " idx=%lld", (long long)s->idx);
  hs_buf_putc(b, '}');
}

// ---- windows, slices ----------------------------------------------------------------------------
static void put_window(hs_buf *b, const hlo_window *w) {
  bool stride = false, pad = false, lhs = false, rhs = false, rev = false;
  for (u32 i = 0; i < w->n; i++) {
    const hlo_window_dim *d = &w->v[i];
    stride |= d->stride != 1;
    pad |= d->pad_low || d->pad_high;
    lhs |= d->lhs_dilate != 1;
    rhs |= d->rhs_dilate != 1;
    rev |= d->reversal;
  }
#define LIST(on, key, fmt, ...)           \
  if (on) {                               \
    hs_buf_puts(b, key);                  \
    for (u32 i = 0; i < w->n; i++) {      \
      if (i) hs_buf_putc(b, 'x');         \
      hs_buf_printf(b, fmt, __VA_ARGS__); \
    }                                     \
  }
  hs_buf_putc(b, '{');
  LIST(true, "size=", "%lld", (long long)w->v[i].size)
  LIST(stride, " stride=", "%lld", (long long)w->v[i].stride)
  LIST(pad, " pad=", "%lld_%lld", (long long)w->v[i].pad_low, (long long)w->v[i].pad_high)
  LIST(lhs, " lhs_dilate=", "%lld", (long long)w->v[i].lhs_dilate)
  LIST(rhs, " rhs_dilate=", "%lld", (long long)w->v[i].rhs_dilate)
  LIST(rev, " rhs_reversal=", "%d", w->v[i].reversal)
  hs_buf_putc(b, '}');
#undef LIST
}

static void put_slices(hs_buf *b, const hlo_slices *s) {
  bool strides = false;
  for (u32 i = 0; i < s->n; i++) strides |= s->v[i].stride != 1;
  hs_buf_putc(b, '{');
  for (u32 i = 0; i < s->n; i++) {
    hs_buf_printf(b, "%s[%lld:%lld", i ? ", " : "", (long long)s->v[i].start,
                  (long long)s->v[i].limit);
    if (strides) hs_buf_printf(b, ":%lld", (long long)s->v[i].stride);
    hs_buf_putc(b, ']');
  }
  hs_buf_putc(b, '}');
}

static void put_padding(hs_buf *b, const hlo_padding *p) {
  bool interior = false;
  for (u32 i = 0; i < p->n; i++) interior |= p->v[i].interior != 0;
  for (u32 i = 0; i < p->n; i++) {
    hs_buf_printf(b, "%s%lld_%lld", i ? "x" : "", (long long)p->v[i].low, (long long)p->v[i].high);
    if (interior) hs_buf_printf(b, "_%lld", (long long)p->v[i].interior);
  }
}

static void put_label_group(hs_buf *b, char c1, i64 at1, char c2, i64 at2, const i64 *spatial,
                            u32 n) {
  char text[HLO_MAX_RANK + 2];
  i64 last = HS_MAX(at1, at2);  // of a proto: any numbers
  for (u32 i = 0; i < n; i++) last = HS_MAX(last, spatial[i]);
  i64 rank = HS_MAX(HS_MIN(last, HLO_MAX_RANK - 1), -1) + 1;
  memset(text, '?', (size_t)rank);
  if (at1 >= 0 && at1 < rank) text[at1] = c1;
  if (at2 >= 0 && at2 < rank) text[at2] = c2;
  for (u32 i = 0; i < n; i++)
    if (spatial[i] >= 0 && spatial[i] < rank) text[spatial[i]] = (char)('0' + i);
  hs_buf_put(b, text, (size_t)rank);
}

static void put_dim_labels(hs_buf *b, const hlo_dim_labels *d) {
  if (d->text) {
    hs_buf_puts(b, d->text);
    return;
  }
  put_label_group(b, 'b', d->lhs_batch, 'f', d->lhs_feature, d->lhs_spatial, d->nspatial);
  hs_buf_putc(b, '_');
  put_label_group(b, 'i', d->rhs_input_feature, 'o', d->rhs_output_feature, d->rhs_spatial,
                  d->nspatial);
  hs_buf_puts(b, "->");
  put_label_group(b, 'b', d->out_batch, 'f', d->out_feature, d->out_spatial, d->nspatial);
}

// ---- computations, shapes -----------------------------------------------------------------------
static void put_comp(hlo_printer *p, const hlo_computation *c) {
  if (p->o->subcomputations != 1) {
    hlo_put_comp_name(p, c);
    return;
  }
  hs_buf_putc(p->b, '\n');
  hlo_print_comp_body(p, c);
}

static void put_comps(hlo_printer *p, hlo_comps l) {
  hs_buf_putc(p->b, '{');
  for (u32 i = 0; i < l.n; i++) {
    if (i) hs_buf_puts(p->b, p->o->subcomputations == 1 ? "," : ", ");
    put_comp(p, l.v[i]);
  }
  if (p->o->subcomputations == 1 && l.n) hs_buf_putc(p->b, '\n');
  hs_buf_putc(p->b, '}');
}

static void put_shapes(hs_buf *b, u32 n, const hlo_shape *const *v, bool index) {
  for (u32 i = 0; i < n; i++) {
    if (i) hs_buf_puts(b, ", ");
    if (index && i && i % 5 == 0) hs_buf_printf(b, "/*index=%u*/", i);
    hlo_shape_print(b, v[i], true);
  }
}

void hlo_put_attr(hlo_printer *p, const hlo_instr *i, const hlo_attr *a) {
  hs_buf *b = p->b;
  hlo_attr_kind kind = hlo_attr_kind_of(a->id);
  switch (kind) {
  case HLO_AK_INT: hs_buf_i64(b, a->v.i); break;
  case HLO_AK_BOOL: hs_buf_puts(b, a->v.i ? "true" : "false"); break;
  case HLO_AK_FLOAT: hs_buf_printf(b, "%.6g", a->v.f); break;
  case HLO_AK_STRING: put_quoted(b, a->v.s); break;
  case HLO_AK_TEXT: hs_buf_put(b, a->v.s.p, a->v.s.n); break;
  case HLO_AK_INTS: put_ints(b, '{', a->v.ints, '}', ","); break;
  case HLO_AK_BOOLS: put_flags(b, a->v.ints); break;
  case HLO_AK_PAIRS:
    hs_buf_putc(b, '{');
    for (u32 k = 0; k < a->v.ints.n; k++)
      hs_buf_printf(b, "%s{%lld,%lld}", k ? "," : "", (long long)a->v.ints.v[2 * k],
                    (long long)a->v.ints.v[2 * k + 1]);
    hs_buf_putc(b, '}');
    break;
  case HLO_AK_INT_LISTS: put_lists(b, a->v.p); break;
  case HLO_AK_PRECISIONS:
    hs_buf_putc(b, '{');
    for (u32 k = 0; k < a->v.ints.n; k++)
      hs_buf_printf(b, "%s%s", k ? "," : "", hlo_enum_text(HLO_AK_ENUM_PRECISION, a->v.ints.v[k]));
    hs_buf_putc(b, '}');
    break;
  case HLO_AK_SLICES: put_slices(b, a->v.p); break;
  case HLO_AK_PADDING: put_padding(b, a->v.p); break;
  case HLO_AK_WINDOW: put_window(b, a->v.p); break;
  case HLO_AK_DIM_LABELS: put_dim_labels(b, a->v.p); break;
  case HLO_AK_COMP: put_comp(p, a->v.comp); break;
  case HLO_AK_COMPS: put_comps(p, a->v.comps); break;
  case HLO_AK_LITERAL: hlo_put_shaped_literal(b, a->v.literal); break;
  case HLO_AK_SHAPE: hlo_shape_print(b, a->v.shape, true); break;
  case HLO_AK_SHAPES: {
    const hlo_shapes *s = a->v.p;
    hs_buf_putc(b, '{');
    put_shapes(b, s->n, s->v, false);
    hs_buf_putc(b, '}');
    break;
  }
  case HLO_AK_PROGRAM_SHAPE: {
    const hlo_program_shape *s = a->v.p;
    hs_buf_puts(b, "{(");
    put_shapes(b, s->n, s->params, true);
    hs_buf_puts(b, ")->");
    hlo_shape_print(b, s->result, true);
    hs_buf_putc(b, '}');
    break;
  }
  case HLO_AK_REPLICA_GROUPS:
    put_replica_groups(b, a->v.p, p->o->print_full_replica_group_list);
    break;
  case HLO_AK_OUTPUT_ALIASING:
  case HLO_AK_IO_ALIAS:
  case HLO_AK_DONORS: put_aliases(b, kind, a->v.p); break;
  case HLO_AK_SHARDING: hlo_put_sharding(b, a->v.p, p->o->print_metadata); break;
  case HLO_AK_DOMAIN: {
    const hlo_domain *d = a->v.p;
    hs_buf_puts(b, "{kind=");
    put_quoted(b, d->kind);
    hs_buf_puts(b, ", entry=");
    hlo_put_sharding(b, d->entry, true);
    hs_buf_puts(b, ", exit=");
    hlo_put_sharding(b, d->exit, true);
    hs_buf_putc(b, '}');
    break;
  }
  case HLO_AK_FRONTEND: put_frontend(b, a->v.p); break;
  case HLO_AK_CONTROL:
    hs_buf_putc(b, '{');
    for (u32 k = 0; i && i->ctrl_preds && k < i->ctrl_preds->n; k++) {
      if (k) hs_buf_puts(b, ", ");
      hlo_put_instr_name(p, i->ctrl_preds->v[k]);
    }
    hs_buf_putc(b, '}');
    break;
  case HLO_AK_STATISTICS: {
    const hlo_statistics *s = a->v.p;
    hs_buf_printf(b, "{visualizing_index=%lld", (long long)s->visualizing_index);
    for (u32 k = 0; k < s->n; k++)
      hs_buf_printf(b, ",%.*s=%.6g", (int)s->v[k].name.n, s->v[k].name.p, s->v[k].value);
    hs_buf_putc(b, '}');
    break;
  }
  case HLO_AK_RESULT_ACCURACY: put_result_accuracy(b, a->v.p); break;
  case HLO_AK_ORIGIN: {
    const hlo_origin *o = a->v.p;
    hs_buf_putc(b, '{');
    if (o->synthetic) hs_buf_puts(b, "[synthetic_call]");
    else put_origin(b, o->root);
    hs_buf_putc(b, '}');
    break;
  }
  case HLO_AK_METADATA:
    hs_buf_putc(b, '{');
    if (p->o->print_metadata_only_op_name)
      hlo_put_metadata(b, &(hlo_metadata){.op_name = ((const hlo_metadata *)a->v.p)->op_name});
    else hlo_put_metadata(b, a->v.p);
    hs_buf_putc(b, '}');
    break;
  case HLO_AK_BACKEND_CONFIG: {
    const hlo_backend_config *c = a->v.p;
    if (hlo_is_braced(c->text)) hs_buf_put(b, c->text.p, c->text.n);
    else put_quoted(b, c->text);
    break;
  }
  case HLO_AK_SPARSITY: {
    const hlo_sparsity *s = a->v.p;
    hs_buf_putc(b, '{');
    if (s->lhs.present) put_sparsity_side(b, "lhs", &s->lhs, p->o->vintage);
    if (s->lhs.present && s->rhs.present) hs_buf_putc(b, ' ');
    if (s->rhs.present) put_sparsity_side(b, "rhs", &s->rhs, p->o->vintage);
    hs_buf_putc(b, '}');
    break;
  }
  default: {
    const char *t = hlo_enum_text(kind, a->v.i);
    if (t) hs_buf_puts(b, t);
    else hs_buf_i64(b, a->v.i);
  }
  }
}

void hlo_print_attr_value(hs_buf *b, const hlo_instr *i, const hlo_attr *a,
                          const hlo_print_options *o) {
  hlo_print_options def = hlo_print_default();
  hlo_printer p = {.b = b, .o = o ? o : &def, .visible = b->n};
  hlo_put_attr(&p, i, a);
}
