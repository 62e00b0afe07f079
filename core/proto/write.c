// write.c — a module as HloModuleProto, in the field numbers and conventions of XLA's
// HloModule::ToProto: computations callees first, instructions operands first, ids (computation <<
// 32 | local), element data in layout order.
#include <stdio.h>

#include "core/proto/fields.h"
#include "core/proto/recovery.h"
#include "core/proto/schema.h"
#include "core/proto/write.h"

typedef struct writer {
  hs_buf *b;
  const hlo_module *m;
  const hlo_proto_kept *kept;  // NULL when the module was not read from a proto
  hs_arena scratch;
  i64 *ids, *comp_ids;  // by id of the instruction, of the computation
  bool tool;            // as XLA's tools print a module: ids from 0, empty messages written
  bool elided;          // a constant has no value to write
  u32 lost;             // kept fields that could not be put back
} writer;

// Writes the message `num` as an empty one unless it is there, in what was written since `mark`.
static void put_if_absent(hs_buf *b, size_t mark, u32 num) {
  pb_field f;
  if (!pb_get((pb){(const u8 *)b->p + mark, (const u8 *)b->p + b->n, false}, num, &f))
    pb_end(b, num, pb_begin(b));
}

static i64 comp_id(const writer *w, const hlo_computation *c) { return w->comp_ids[c->id]; }

// ---- attributes ---------------------------------------------------------------------------------
static void put_leaf(hs_buf *b, u32 num, hlo_attr_kind kind, const hlo_attr *a) {
  switch (kind) {
  case HLO_AK_INT:
  case HLO_AK_BOOL:
    if (a->id == HLO_ATTR_CROSS_PROGRAM_PREFETCH_INDEX) pb_put_int_always(b, num, a->v.i);
    else if (a->id == HLO_ATTR_IOTA_DIMENSION || a->id == HLO_ATTR_INFERRED_DIMENSION)
      pb_put_ints(b, num, &a->v.i, 1);
    else pb_put_int(b, num, a->v.i);
    break;
  case HLO_AK_INTS:
  case HLO_AK_BOOLS:
  case HLO_AK_PRECISIONS: pb_put_ints(b, num, a->v.ints.v, a->v.ints.n); break;
  case HLO_AK_STRING: proto_put_str(b, num, a->v.s); break;
  case HLO_AK_FLOAT: pb_put_float(b, num, (float)a->v.f); break;
  case HLO_AK_SHAPE: proto_put_shape(b, num, a->v.shape); break;
  default:
    if (a->id == HLO_ATTR_DIRECTION || a->id == HLO_ATTR_COMPARE_TYPE || a->id == HLO_ATTR_KIND)
      proto_put_str(b, num, hs_str_of(hlo_enum_text(kind, a->v.i)));
    else pb_put_int(b, num, a->v.i);
  }
}

static void put_statistics(hs_buf *b, const hlo_statistics *s) {
  size_t mark = pb_begin(b);
  pb_put_int(b, 1, s->visualizing_index);
  for (u32 k = 0; k < s->n; k++) {
    size_t at = pb_begin(b);
    proto_put_str(b, 1, s->v[k].name);
    pb_put_double(b, 2, s->v[k].value);
    pb_end(b, 2, at);
  }
  pb_end(b, 82, mark);
}

static void put_accuracy(hs_buf *b, const hlo_result_accuracy *r) {
  size_t mark = pb_begin(b);
  if (r->has_tolerance) {
    size_t at = pb_begin(b);
    pb_put_double(b, 1, r->atol);
    pb_put_double(b, 2, r->rtol);
    pb_put_int(b, 3, r->ulps);
    pb_end(b, 2, at);
  } else {
    pb_put_int_always(b, 1, r->mode);
  }
  pb_end(b, 91, mark);
}

static void put_attr(writer *w, const hlo_instr *i, const hlo_attr *a) {
  hs_buf *b = w->b;
  hlo_attr_kind kind = hlo_attr_kind_of(a->id);
  u32 path[4];
  i64 index[33];
  size_t mark;
  if (proto_path(i->opcode, a->id, path)) {
    size_t marks[3];
    u32 n = 0;
    for (; path[n + 1]; n++) marks[n] = pb_begin(b);
    put_leaf(b, path[n], kind, a);
    while (n-- > 0) pb_end(b, path[n], marks[n]);
    return;
  }
  switch (kind) {
  case HLO_AK_SLICES: {
    const hlo_slices *s = a->v.p;
    for (u32 k = 0; k < s->n; k++) {
      mark = pb_begin(b);
      pb_put_int(b, 1, s->v[k].start);
      pb_put_int(b, 2, s->v[k].limit);
      pb_put_int(b, 3, s->v[k].stride);
      pb_end(b, 17, mark);
    }
    break;
  }
  case HLO_AK_PADDING: {
    const hlo_padding *p = a->v.p;
    mark = pb_begin(b);
    for (u32 k = 0; k < p->n; k++) {
      size_t at = pb_begin(b);
      pb_put_int(b, 1, p->v[k].low);
      pb_put_int(b, 2, p->v[k].high);
      pb_put_int(b, 3, p->v[k].interior);
      pb_end(b, 1, at);
    }
    pb_end(b, 21, mark);
    break;
  }
  case HLO_AK_PAIRS:
    for (u32 k = 0; k < a->v.ints.n; k++) {
      mark = pb_begin(b);
      pb_put_int(b, 1, a->v.ints.v[2 * k]);
      pb_put_int(b, 2, a->v.ints.v[2 * k + 1]);
      pb_end(b, 52, mark);
    }
    break;
  case HLO_AK_INT_LISTS: {
    const hlo_int_lists *l = a->v.p;
    for (u32 k = 0; k < l->n; k++) pb_put_ints(b, 20, l->v[k].v, l->v[k].n);
    break;
  }
  case HLO_AK_SHAPES: {
    const hlo_shapes *s = a->v.p;
    pb_put_int(b, 56, 1);
    for (u32 k = 0; k < s->n; k++) proto_put_shape(b, 57, s->v[k]);
    break;
  }
  case HLO_AK_SPARSITY: {
    const hlo_sparsity *s = a->v.p;
    mark = pb_begin(b);
    proto_put_side(b, 1, &s->lhs);
    proto_put_side(b, 2, &s->rhs);
    pb_end(b, 98, mark);
    break;
  }
  case HLO_AK_DOMAIN:
    proto_put_sharding(b, 54, ((const hlo_domain *)a->v.p)->exit);  // crosswise: see read_domain
    proto_put_sharding(b, 55, ((const hlo_domain *)a->v.p)->entry);
    break;
  case HLO_AK_ORIGIN: {
    const hlo_origin *o = a->v.p;
    mark = pb_begin(b);
    if (o->root) proto_put_origin(b, o->root, index, 0);
    pb_put_int(b, 2, o->synthetic);
    pb_end(b, 88, mark);
    break;
  }
  case HLO_AK_WINDOW: proto_put_window(b, a->v.p); break;
  case HLO_AK_DIM_LABELS: proto_put_dim_labels(b, a->v.p); break;
  case HLO_AK_LITERAL: w->elided |= !proto_put_literal(b, w->m->ctx, 8, a->v.literal); break;
  case HLO_AK_REPLICA_GROUPS: proto_put_groups(b, a->v.p); break;
  case HLO_AK_OUTPUT_ALIASING: proto_put_aliases(b, 74, kind, a->v.p); break;
  case HLO_AK_SHARDING: proto_put_sharding(b, 40, a->v.p); break;
  case HLO_AK_FRONTEND: proto_put_frontend(b, 68, a->v.p); break;
  case HLO_AK_STATISTICS: put_statistics(b, a->v.p); break;
  case HLO_AK_RESULT_ACCURACY: put_accuracy(b, a->v.p); break;
  case HLO_AK_METADATA: proto_put_metadata(b, 7, a->v.p); break;
  case HLO_AK_BACKEND_CONFIG:
    proto_put_str(b, 43, ((const hlo_backend_config *)a->v.p)->text);
    break;
  default:
    // a tri-state; computations are written elsewhere
    if (a->id == HLO_ATTR_IS_ASSOCIATIVE) pb_put_int(b, 96, a->v.i ? 1 : 2);
  }
}

// ---- instructions, computations -----------------------------------------------------------------
// XLA's order in the proto: the body of a while before its condition, select before scatter,
// branches in order.
static void put_called(writer *w, const hlo_instr *i) {
  i64 ids[2];
  const hlo_attr *all = hlo_attr_get(i, HLO_ATTR_BRANCH_COMPUTATIONS);
  if (!all) all = hlo_attr_get(i, HLO_ATTR_CALLED_COMPUTATIONS);
  if (all) {
    i64 *v = HS_NEW_ARRAY(&w->scratch, i64, all->v.comps.n + 1);
    for (u32 k = 0; k < all->v.comps.n; k++) v[k] = comp_id(w, all->v.comps.v[k]);
    pb_put_ints(w->b, 38, v, all->v.comps.n);
    return;
  }
  static const hlo_attr_id pairs[][2] = {{HLO_ATTR_BODY, HLO_ATTR_CONDITION},
                                         {HLO_ATTR_TRUE_COMPUTATION, HLO_ATTR_FALSE_COMPUTATION},
                                         {HLO_ATTR_SELECT, HLO_ATTR_SCATTER},
                                         {HLO_ATTR_TO_APPLY, HLO_ATTR_CALLS}};
  for (size_t k = 0; k < HS_COUNT(pairs); k++) {
    size_t n = 0;
    for (u32 j = 0; j < 2; j++) {
      const hlo_computation *c = hlo_attr_comp(i, pairs[k][j]);
      if (c) ids[n++] = comp_id(w, c);
    }
    pb_put_ints(w->b, 38, ids, n);
  }
}

// XLA wants layouts; a shape that was read without one stays as it was.
static const hlo_shape *shape_of(const writer *w, const hlo_instr *i) {
  const hlo_proto_kept *k = w->kept;
  bool as_read =
      k && i->id < k->ninstrs && k->instrs[i->id].id >= 0 && k->instrs[i->id].shape == i->shape;
  return as_read ? i->shape : hlo_shape_fill_layout(w->m->ctx, i->shape);
}

// Messages that XLA wants to see for an opcode, though they be empty.
static void put_obligatory(hs_buf *b, size_t mark, hlo_opcode op) {
  static const struct {
    u8 op, num;
  } wanted[] = {{HLO_DOT, 30},
                {HLO_RAGGED_DOT, 90},
                {HLO_CONVOLUTION, 15},
                {HLO_CONVOLUTION, 16},
                {HLO_CONVOLUTION, 51},
                {HLO_REDUCE_WINDOW, 15},
                {HLO_SELECT_AND_SCATTER, 15},
                {HLO_PAD, 21},
                {HLO_GATHER, 33},
                {HLO_SCATTER, 48},
                {HLO_TRIANGULAR_SOLVE, 59},
                {HLO_CHOLESKY, 62}};
  for (size_t k = 0; k < HS_COUNT(wanted); k++)
    if (wanted[k].op == op) put_if_absent(b, mark, wanted[k].num);
}

// Attributes that lie in one submessage were written separately: they become one, as XLA
// writes it.
static void join_pieces(hs_buf *b, size_t mark) {
  pb m = {(const u8 *)b->p + mark, (const u8 *)b->p + b->n, false};
  if (pb_conforms(m, PB_HloInstructionProto, 0)) return;
  hs_buf joined = {0};
  (void)pb_conform(&joined, m, PB_HloInstructionProto);
  b->n = mark;
  hs_buf_put(b, joined.p, joined.n);
  hs_buf_free(&joined);
}

static void put_instr(writer *w, const hlo_instr *i) {
  hs_buf *b = w->b;
  size_t mark = pb_begin(b);
  proto_put_str(b, 1, hs_str_of(i->name));
  proto_put_str(b, 2, hs_str_of(hlo_op_text(i->opcode)));
  proto_put_shape(b, 3, shape_of(w, i));
  if (hlo_is(i, HLO_PARAMETER)) pb_put_int(b, 9, hlo_param_number(i));
  bool metadata = false, inside = false;  // inside: some lie in a submessage
  for (u32 k = 0; i->attrs && k < i->attrs->n; k++) {
    u32 path[4];
    inside |= proto_path(i->opcode, i->attrs->v[k].id, path) && path[1];
    put_attr(w, i, &i->attrs->v[k]);
    metadata |= i->attrs->v[k].id == HLO_ATTR_METADATA;
  }
  if (!metadata) pb_end(b, 7, pb_begin(b));
  // Counts of 1 and full permutations are implied in the text and stated in the proto.
  if (hlo_is(i, HLO_CONVOLUTION) || hlo_is(i, HLO_CUSTOM_CALL)) {
    if (!hlo_attr_get(i, HLO_ATTR_FEATURE_GROUP_COUNT)) pb_put_int(b, 50, 1);
    if (!hlo_attr_get(i, HLO_ATTR_BATCH_GROUP_COUNT)) pb_put_int(b, 58, 1);
  }
  if (hlo_is(i, HLO_CUSTOM_CALL) && !hlo_attr_get(i, HLO_ATTR_API_VERSION))
    pb_put_int(b, 77, HLO_API_VERSION_ORIGINAL);
  if (hlo_is(i, HLO_TOPK) && !hlo_attr_get(i, HLO_ATTR_IS_STABLE)) pb_put_int(b, 60, 1);
  if (hlo_is(i, HLO_COMPARE) && !hlo_attr_get(i, HLO_ATTR_COMPARE_TYPE)) {
    hlo_dtype t = hlo_operand(i, 0)->shape->dtype;
    proto_put_str(b, 72,
                  hlo_dtype_is_float(t) || hlo_dtype_is_complex(t) ? HS_STR("FLOAT")
                  : hlo_dtype_is_signed(t)                         ? HS_STR("SIGNED")
                                                                   : HS_STR("UNSIGNED"));
  }
  if ((hlo_is(i, HLO_DOT) || hlo_is(i, HLO_CONVOLUTION)) &&
      !hlo_attr_get(i, HLO_ATTR_OPERAND_PRECISION)) {
    const i64 defaults[2] = {0, 0};
    size_t at = pb_begin(b);
    pb_put_ints(b, 1, defaults, 2);
    pb_end(b, 51, at);
  }
  if (hlo_is(i, HLO_MAP)) {
    i64 dims[HLO_MAX_RANK];
    for (u32 k = 0; k < i->shape->rank; k++) dims[k] = k;
    pb_put_ints(b, 14, dims, i->shape->rank);
  }
  pb_put_int(b, 35, w->ids[i->id]);
  i64 *v = HS_NEW_ARRAY(&w->scratch, i64, i->noperands + 1);
  for (u32 k = 0; k < i->noperands; k++) v[k] = w->ids[hlo_operand(i, k)->id];
  pb_put_ints(b, 36, v, i->noperands);
  u32 n = i->ctrl_preds ? i->ctrl_preds->n : 0;
  v = HS_NEW_ARRAY(&w->scratch, i64, n + 1);
  for (u32 k = 0; k < n; k++) v[k] = w->ids[i->ctrl_preds->v[k]->id];
  pb_put_ints(b, 37, v, n);
  put_called(w, i);
  put_obligatory(b, mark, i->opcode);
  if (w->tool) put_if_absent(b, mark, 68), put_if_absent(b, mark, 82);
  if (inside) join_pieces(b, mark);
  const hlo_kept_part *kept = w->kept && i->id < w->kept->ninstrs ? &w->kept->instrs[i->id] : NULL;
  if (kept && kept->fields) {
    if (kept->opcode == i->opcode && kept->shape == i->shape)
      w->lost += pb_restore(b, mark, PB_HloInstructionProto, kept->fields);
    else w->lost++;  // rewritten: what was said of it may not hold any more
  }
  pb_end(b, 2, mark);
}

// names: the computation whose parameters lend their names; NULL: p0, p1 and so on
static void put_program_shape(hs_buf *b, u32 num, u32 n, const hlo_shape *const *params,
                              const hlo_shape *result, const hlo_computation *names) {
  size_t mark = pb_begin(b);
  for (u32 k = 0; k < n; k++) proto_put_shape(b, 1, params[k]);
  proto_put_shape(b, 2, result);
  for (u32 k = 0; k < n && (!names || k < names->nparams); k++) {
    char number[16];
    (void)snprintf(number, sizeof number, "p%u", k);
    proto_put_str(b, 3, hs_str_of(names ? names->params[k]->name : number));
  }
  pb_end(b, num, mark);
}

static void put_comp(writer *w, const hlo_computation *c) {
  hs_buf *b = w->b;
  size_t mark = pb_begin(b);
  proto_put_str(b, 1, hs_str_of(c->name));
  hlo_instr **order = hlo_post_order(c, &w->scratch);
  for (u32 k = 0; k < c->ninstrs && !hs_interrupted(); k++) put_instr(w, order[k]);
  const hlo_shape **params = HS_NEW_ARRAY(&w->scratch, const hlo_shape *, c->nparams + 1);
  for (u32 k = 0; k < c->nparams; k++) params[k] = shape_of(w, c->params[k]);
  put_program_shape(b, 4, c->nparams, params, shape_of(w, c->root), c);
  pb_put_int(b, 5, comp_id(w, c));
  pb_put_int(b, 6, w->ids[c->root->id]);
  pb_put_int(b, 7, hlo_is_fusion_comp(c));
  if (c->execution_thread.n || !w->tool)
    proto_put_str(b, 8, c->execution_thread.n ? c->execution_thread : HS_STR("main"));
  if (w->kept && c->id < w->kept->ncomps)
    w->lost += pb_restore(b, mark, PB_HloComputationProto, w->kept->comps[c->id].fields);
  pb_end(b, 3, mark);
}

static void put_schedule(writer *w) {
  hs_buf *b = w->b;
  size_t mark = pb_begin(b);
  hlo_for_each_comp(c, w->m) {
    if (hlo_is_fusion_comp(c)) continue;
    size_t entry = pb_begin(b);
    pb_put_int(b, 1, comp_id(w, c));
    size_t sequence = pb_begin(b), n = 0;
    i64 *v = HS_NEW_ARRAY(&w->scratch, i64, c->ninstrs + 1);
    hlo_for_each_instr(i, c) v[n++] = w->ids[i->id];
    pb_put_ints(b, 1, v, n);
    pb_end(b, 2, sequence);
    pb_end(b, 1, entry);
  }
  pb_end(b, 7, mark);
}

static void put_frames(hs_buf *b, const hlo_stack_frames *f) {
  size_t mark = pb_begin(b);
  for (u32 pass = 1; pass <= 2; pass++)
    for (u32 k = 0; k < (pass == 1 ? f->nfiles : f->nfunctions); k++) {
      hs_str s = pass == 1 ? f->files[k] : f->functions[k];
      pb_put_tag(b, pass, 2);
      pb_put_varint(b, s.n);
      hs_buf_put(b, s.p, s.n);
    }
  for (u32 k = 0; k < f->nlocations; k++) {
    size_t at = pb_begin(b);
    const struct hlo_file_location *l = &f->locations[k];
    const i64 v[] = {l->file, l->function, l->line, l->column, l->end_line, l->end_column};
    for (u32 n = 0; n < HS_COUNT(v); n++) pb_put_int(b, n + 1, v[n]);
    pb_end(b, 3, at);
  }
  for (u32 k = 0; k < f->nframes; k++) {
    size_t at = pb_begin(b);
    pb_put_int(b, 1, f->frames[k].location);
    pb_put_int(b, 2, f->frames[k].parent);
    pb_end(b, 4, at);
  }
  pb_end(b, 17, mark);
}

// Ids of the file that was read are kept, for what refers to them from outside (a buffer
// assignment); others go on behind.
static void number_comps(writer *w) {
  const hlo_proto_kept *k = w->kept;
  i64 next = w->tool ? 0 : 1;
  for (u32 c = 0; k && c < k->ncomps; c++) next = HS_MAX(next, k->comps[c].id + 1);
  hlo_for_each_comp(c, w->m)
    w->comp_ids[c->id] =
        k && c->id < k->ncomps && k->comps[c->id].id >= 0 ? k->comps[c->id].id : next++;
}

// New ids follow the order of the list (the messages come operands first).
static void number_instrs(writer *w, const hlo_computation *c) {
  const hlo_proto_kept *k = w->kept;
  i64 upper = comp_id(w, c) << 32, next = w->tool ? 0 : 1;
  hlo_for_each_instr(i, c) {
    const hlo_kept_part *part =
        k && i->id < k->ninstrs && k->instrs[i->id].comp == c->id ? &k->instrs[i->id] : NULL;
    w->ids[i->id] = part ? part->id : -1;
    if (part && part->id >= 0) next = HS_MAX(next, (part->id & 0xFFFFFFFF) + 1);
  }
  hlo_for_each_instr(i, c)
    if (w->ids[i->id] < 0) w->ids[i->id] = upper | next++;
}

static void put_module(writer *w) {
  const hlo_module *m = w->m;
  hs_buf *b = w->b;
  size_t start = b->n;
  proto_put_str(b, 1, hs_str_of(m->name));
  proto_put_str(b, 2, hs_str_of(m->entry->name));
  u32 n = 0;
  hlo_computation **order = hlo_comp_callees_first(m, &w->scratch, &n);
  number_comps(w);
  for (u32 c = 0; c < n; c++) number_instrs(w, order[c]);
  for (u32 c = 0; c < n; c++) put_comp(w, order[c]);
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  const hlo_program_shape *layout = a ? a->v.p : NULL;
  if (layout)
    put_program_shape(b, 4, layout->n, layout->params, layout->result, w->tool ? NULL : m->entry);
  pb_put_int(b, 5, !w->tool);
  pb_put_int(b, 6, comp_id(w, m->entry));
  if (hlo_is_scheduled(m)) put_schedule(w);
  static const struct {
    hlo_attr_id id;
    u32 num;
    hlo_attr_kind kind;
  } tables[] = {{HLO_ATTR_INPUT_OUTPUT_ALIAS, 8, HLO_AK_IO_ALIAS},
                {HLO_ATTR_BUFFER_DONOR, 18, HLO_AK_DONORS}};
  for (size_t k = 0; k < HS_COUNT(tables); k++) {
    if (!(a = hlo_attrs_find(m->attrs, tables[k].id))) continue;
    size_t mark = pb_begin(b);
    proto_put_aliases(b, 1, tables[k].kind, a->v.p);
    pb_end(b, tables[k].num, mark);
  }
  if (m->frames) put_frames(b, m->frames);
  // the bytes that were read say more than their text
  bool kept = w->kept && w->kept->module && pb_kept_has(w->kept->module, 20);
  if (!kept && (a = hlo_attrs_find(m->attrs, HLO_ATTR_ORIGIN_RECOVERY_TABLE)))
    proto_put_recovery(b, 20, m->ctx, a->v.s, proto_write_module);
  if ((a = hlo_attrs_find(m->attrs, HLO_ATTR_FRONTEND_ATTRIBUTES)))
    proto_put_frontend(b, 19, a->v.p);
  for (u32 k = 0; w->tool && k < 3; k++) put_if_absent(b, start, (const u32[]){8, 18, 19}[k]);
}

static hs_status write_module(hs_buf *b, const hlo_module *m, bool tool, u32 *lost) {
  writer w = {.b = b,
              .tool = tool,
              .m = m,
              .kept = m->proto_kept,
              .ids = hs_calloc(m->next_instr_id + 1, sizeof(i64)),
              .comp_ids = hs_calloc(m->next_comp_id + 1, sizeof(i64))};
  size_t start = b->n;
  put_module(&w);
  if (w.kept) w.lost += pb_restore(b, start, PB_HloModuleProto, w.kept->module);
  *lost += w.lost;
  hs_arena_free(&w.scratch);
  hs_free(w.ids);
  hs_free(w.comp_ids);
  hs_status s = hs_poll();
  if (hs_ok(s) && w.elided) s = hs_fail(HS_E_ELIDED, "an elided constant has no value to write");
  if (!hs_ok(s)) b->n = start;
  return s;
}

hs_status proto_write_module(hs_buf *b, const hlo_module *m, u32 *lost) {
  return write_module(b, m, false, lost);
}

hs_status proto_write_as_tool(hs_buf *b, const hlo_module *m, u32 *lost) {
  return write_module(b, m, true, lost);
}
