// read.c — HloModuleProto to a module. Computations come callees first and instructions
// operands first, so one pass over each is enough; the list then gets the order of the ids, that of
// a scheduled module the order of its schedule. Attributes that are one field are read by the table
// in fields.h, driven by the row of the opcode in ops.def.
#include "core/proto/keep.h"
#include "core/proto/read.h"
#include "core/proto/recovery.h"
#include "core/proto/schema.h"

typedef struct id_entry {
  i64 id;
  void *what;
} id_entry;
typedef struct id_map {
  id_entry *v;
  size_t n, cap;
} id_map;

static void *id_find(const id_map *t, i64 id) {
  if (!t->cap) return NULL;
  for (size_t k = (size_t)hs_mix(0, (u64)id) & (t->cap - 1); t->v[k].what;
       k = (k + 1) & (t->cap - 1))
    if (t->v[k].id == id) return t->v[k].what;
  return NULL;
}

static void id_put(id_map *t, i64 id, void *what) {
  if (t->n * 2 >= t->cap) {
    id_map old = *t;
    *t = (id_map){hs_calloc(old.cap ? old.cap * 2 : 64, sizeof *t->v), 0,
                  old.cap ? old.cap * 2 : 64};
    for (size_t k = 0; k < old.cap; k++)
      if (old.v[k].what) id_put(t, old.v[k].id, old.v[k].what);
    hs_free(old.v);
  }
  size_t k = (size_t)hs_mix(0, (u64)id) & (t->cap - 1);
  while (t->v[k].what && t->v[k].id != id) k = (k + 1) & (t->cap - 1);
  t->n += !t->v[k].what;
  t->v[k] = (id_entry){id, what};
}

typedef HS_VEC(hlo_kept_part) parts;
typedef struct builder {
  proto_reader r;
  id_map comps, instrs;  // of the module, of the computation at hand
  pb schedule;
  bool scheduled;
  HS_VEC(hlo_instr *) ops;
  HS_VEC(id_entry) read;          // instructions in the order of the proto
  parts kept_comps, kept_instrs;  // by id
} builder;

static void keep_part(parts *all, u32 at, hlo_kept_part part) {
  while (all->n <= at) hs_vec_push(all, ((hlo_kept_part){.id = -1}));
  all->v[at] = part;
}

// Instruction ids hold the computation in their upper half in new files; only the lower half
// counts.
static i64 local_id(i64 id) { return id & 0xFFFFFFFF; }

// ---- attributes ---------------------------------------------------------------------------------
static hlo_computation *called(builder *b, pb i, u32 k) {
  hlo_ints ids = proto_ints(&b->r, i, 38);
  return k < ids.n ? id_find(&b->comps, ids.v[k]) : NULL;
}

static bool read_comp_attr(builder *b, pb i, hlo_opcode op, hlo_attr *a) {
  hlo_ints ids = proto_ints(&b->r, i, 38);
  u32 at = 0;
  bool indexed = op == HLO_CONDITIONAL && b->ops.n && b->ops.v[0]->shape->dtype != HLO_PRED;
  switch (a->id) {
  case HLO_ATTR_CONDITION:
  case HLO_ATTR_SCATTER: at = 1; break;
  case HLO_ATTR_TRUE_COMPUTATION:
    if (indexed) return false;
    break;
  case HLO_ATTR_FALSE_COMPUTATION:
    if (indexed) return false;
    at = 1;
    break;
  case HLO_ATTR_BRANCH_COMPUTATIONS:
    if (op == HLO_CONDITIONAL && !indexed) return false;
    break;
  case HLO_ATTR_TO_APPLY:
    if (op == HLO_CUSTOM_CALL) return false;
    break;
  case HLO_ATTR_CALLS:
    if (op == HLO_ASYNC_UPDATE || op == HLO_ASYNC_DONE) return false;
    break;
  default: break;
  }
  if (hlo_attr_kind_of(a->id) == HLO_AK_COMP) {
    a->v.comp = called(b, i, at);
    if (!a->v.comp)
      proto_error(&b->r, "%s: %s names no computation that was read before", hlo_op_text(op),
                  hlo_attr_text(a->id));
    return true;
  }
  hlo_computation **all = HS_NEW_ARRAY(b->r.arena, hlo_computation *, ids.n + 1);
  for (u32 k = 0; k < ids.n; k++)
    if (!(all[k] = id_find(&b->comps, ids.v[k])))
      proto_error(&b->r, "%s calls a computation that was not read before", hlo_op_text(op));
  a->v.comps = (hlo_comps){ids.n, all};
  return ids.n > 0;
}

static bool read_slices(builder *b, pb i, hlo_attr *a) {
  hlo_slice_dim dims[HLO_MAX_RANK];
  hlo_slices *s = HS_NEW(b->r.arena, hlo_slices);
  for (pb_field f; pb_next(&i, &f);)
    if (f.num == 17 && f.wire == 2 && s->n < HLO_MAX_RANK)
      dims[s->n++] = (hlo_slice_dim){pb_int(f.sub, 1, 0), pb_int(f.sub, 2, 0), pb_int(f.sub, 3, 0)};
  s->v = hs_arena_dup(b->r.arena, dims, s->n * sizeof *dims);
  a->v.p = s;
  return true;
}

static bool read_padding(builder *b, pb i, hlo_attr *a) {
  hlo_pad_dim dims[HLO_MAX_RANK];
  hlo_padding *p = HS_NEW(b->r.arena, hlo_padding);
  for (pb m = pb_sub(i, 21), *it = &m; it;) {
    pb_field f;
    if (!pb_next(it, &f)) break;
    if (f.num == 1 && f.wire == 2 && p->n < HLO_MAX_RANK)
      dims[p->n++] = (hlo_pad_dim){pb_int(f.sub, 1, 0), pb_int(f.sub, 2, 0), pb_int(f.sub, 3, 0)};
  }
  p->v = hs_arena_dup(b->r.arena, dims, p->n * sizeof *dims);
  a->v.p = p;
  return true;
}

static bool read_pairs(builder *b, pb i, hlo_attr *a) {
  HS_VEC(i64) v = {0};
  for (pb_field f; pb_next(&i, &f);) {
    if (f.num != 52 || f.wire != 2) continue;
    hs_vec_push(&v, pb_int(f.sub, 1, 0));
    hs_vec_push(&v, pb_int(f.sub, 2, 0));
  }
  a->v.ints = (hlo_ints){(u32)v.n / 2, hs_arena_dup(b->r.arena, v.v, v.n * sizeof *v.v)};
  hs_vec_free(&v);
  return true;
}

static bool read_permute_sizes(builder *b, pb i, hlo_attr *a) {  // flattened, one list per slice
  hlo_ints flat = proto_ints(&b->r, i, 20);
  const hlo_shape *s = b->ops.n ? b->ops.v[0]->shape : NULL;
  while (s && hlo_shape_is_tuple(s) && s->nelems) s = s->elems[0];
  u32 rank = s && s->rank ? s->rank : flat.n;
  if (!flat.n || flat.n % rank) return false;
  hlo_int_lists *l = HS_NEW(b->r.arena, hlo_int_lists);
  hlo_ints *v = HS_NEW_ARRAY(b->r.arena, hlo_ints, flat.n / rank);
  for (u32 k = 0; k < flat.n / rank; k++) v[k] = (hlo_ints){rank, flat.v + k * rank};
  *l = (hlo_int_lists){flat.n / rank, v};
  a->v.p = l;
  return true;
}

static bool read_shapes(builder *b, pb i, hlo_attr *a) {
  if (!pb_int(i, 56, 0)) return false;
  HS_VEC(const hlo_shape *) all = {0};
  for (pb_field f; pb_next(&i, &f);)
    if (f.num == 57 && f.wire == 2)
      hs_vec_push(&all, hlo_shape_fill_layout(b->r.ctx, proto_shape(&b->r, f.sub)));
  hlo_shapes *s = HS_NEW(b->r.arena, hlo_shapes);
  *s = (hlo_shapes){(u32)all.n, hs_arena_dup(b->r.arena, all.v, all.n * sizeof *all.v)};
  hs_vec_free(&all);
  a->v.p = s;
  return true;
}

static bool read_sparsity(builder *b, pb i, hlo_attr *a) {
  pb_field f, side;
  if (!pb_get(i, 98, &f) || f.wire != 2) return false;
  hlo_sparsity *s = HS_NEW(b->r.arena, hlo_sparsity);
  for (u32 k = 1; k <= 2; k++)
    if (pb_get(f.sub, k, &side) && side.wire == 2)
      *(k == 1 ? &s->lhs : &s->rhs) = (hlo_sparsity_side){true,
                                                          pb_int(side.sub, 1, 0),
                                                          pb_int(side.sub, 2, 0),
                                                          pb_int(side.sub, 3, 0),
                                                          pb_int(side.sub, 4, 0),
                                                          pb_int(side.sub, 5, 0)};
  a->v.p = s;
  return s->lhs.present || s->rhs.present;  // XLA writes an empty message for every convolution
}

// The text names the sides as seen from inside the domain, the proto as seen from the instruction:
// entry there is exit here.
static bool read_domain(builder *b, pb i, hlo_attr *a) {
  hlo_domain *d = HS_NEW(b->r.arena, hlo_domain);
  *d = (hlo_domain){HS_STR("sharding"), proto_sharding(&b->r, pb_sub(i, 55)),
                    proto_sharding(&b->r, pb_sub(i, 54))};
  a->v.p = d;
  return true;
}

static void take_int(void *arg, i64 v) {
  proto_reader *r = arg;
  hs_vec_push(&r->ints, v);
}

// A list at the end of a path; a submessage may be given in parts, which are merged.
static void gather_ints(proto_reader *r, pb m, const u32 *path) {
  if (!path[1]) {
    pb_each_int(m, path[0], take_int, r);
    return;
  }
  for (pb_field f; pb_next(&m, &f);)
    if (f.num == path[0] && f.wire == 2) gather_ints(r, f.sub, path + 1);
}

// An attribute of the opcode; false when it is absent.
static bool read_own(builder *b, pb i, hlo_opcode op, bool required, hlo_attr *a) {
  proto_reader *r = &b->r;
  pb_field f;
  u32 path[4];
  hlo_attr_kind kind = hlo_attr_kind_of(a->id);
  switch (kind) {
  case HLO_AK_COMP:
  case HLO_AK_COMPS: return read_comp_attr(b, i, op, a);
  case HLO_AK_SLICES: return read_slices(b, i, a);
  case HLO_AK_PADDING: return read_padding(b, i, a);
  case HLO_AK_WINDOW: a->v.p = proto_window(r, pb_sub(i, 15)); return true;
  case HLO_AK_DIM_LABELS:
    if (!pb_get(i, 16, &f)) return false;
    a->v.p = proto_dim_labels(r, f.sub);
    return true;
  case HLO_AK_LITERAL: return pb_get(i, 8, &f) && (a->v.literal = proto_literal(r, f.sub));
  case HLO_AK_PAIRS: return read_pairs(b, i, a);
  case HLO_AK_INT_LISTS: return read_permute_sizes(b, i, a);
  case HLO_AK_SHAPES: return read_shapes(b, i, a);
  case HLO_AK_REPLICA_GROUPS: a->v.p = proto_groups(r, i); return true;
  case HLO_AK_OUTPUT_ALIASING: a->v.p = proto_aliases(r, i, 74, kind); return true;
  case HLO_AK_DOMAIN: return read_domain(b, i, a);
  case HLO_AK_SPARSITY: return read_sparsity(b, i, a);
  default: break;
  }
  if (a->id == HLO_ATTR_IS_ASSOCIATIVE) return a->v.i = pb_int(i, 96, 0) == 1, true;
  if (!proto_path(op, a->id, path)) return false;
  bool found = pb_find(i, path, &f);
  u32 leaf = path[2] ? path[2] : path[1] ? path[1] : path[0];
  switch (kind) {
  case HLO_AK_INTS:
  case HLO_AK_PRECISIONS:
  case HLO_AK_BOOLS:
    r->ints.n = 0;
    gather_ints(r, i, path);
    a->v.ints =
        (hlo_ints){(u32)r->ints.n, hs_arena_dup(r->arena, r->ints.v, r->ints.n * sizeof(i64))};
    return a->v.ints.n || required || kind == HLO_AK_INTS;
  case HLO_AK_STRING:
    if (!found || f.wire != 2) return required ? (a->v.s = HS_STR(""), true) : false;
    a->v.s =
        (hs_str){hs_arena_strndup(r->arena, (const char *)f.sub.p, (size_t)(f.sub.end - f.sub.p)),
                 (size_t)(f.sub.end - f.sub.p)};
    return true;
  case HLO_AK_SHAPE: a->v.shape = proto_shape(r, found ? f.sub : (pb){0}); return found;
  case HLO_AK_FLOAT: a->v.f = pb_double(i, leaf); return true;
  case HLO_AK_INT:
  case HLO_AK_BOOL:
    if (a->id == HLO_ATTR_IOTA_DIMENSION || a->id == HLO_ATTR_INFERRED_DIMENSION) {
      hlo_ints d = proto_ints(r, i, 14);
      a->v.i = d.n ? d.v[0] : 0;
      return d.n || required;
    }
    a->v.i = found ? (i64)f.v : 0;
    if (a->id == HLO_ATTR_CHANNEL_ID && a->v.i <= 0) a->v.i = pb_int(i, 45, 0);
    if (a->id == HLO_ATTR_CHANNEL_ID) return a->v.i > 0;
    if (a->id == HLO_ATTR_CROSS_PROGRAM_PREFETCH_INDEX) return found;
    // XLA reads less as 1
    if (a->id == HLO_ATTR_FEATURE_GROUP_COUNT || a->id == HLO_ATTR_BATCH_GROUP_COUNT)
      return a->v.i > 1;
    // a zero that is written is no zero that is meant
    return kind == HLO_AK_BOOL || required || a->v.i != 0;
  default:  // enums: by name or by number
    if (found && f.wire == 2)
      a->v.i = hlo_enum_find(kind, (hs_str){(const char *)f.sub.p, (size_t)(f.sub.end - f.sub.p)},
                             false);
    else a->v.i = found ? (i64)f.v : 0;
    if (a->id == HLO_ATTR_API_VERSION && a->v.i == HLO_API_VERSION_UNSPECIFIED)
      a->v.i = HLO_API_VERSION_ORIGINAL;
    if (required && found && !hlo_enum_text(kind, a->v.i))
      proto_error(r, "%s: unknown value of %s", hlo_op_text(op), hlo_attr_text(a->id));
    return required || found;
  }
}

static const hlo_statistics *read_statistics(builder *b, pb m) {
  HS_VEC(hlo_stat) all = {0};
  hlo_statistics *s = HS_NEW(b->r.arena, hlo_statistics);
  s->visualizing_index = pb_int(m, 1, 0);
  for (pb_field f; pb_next(&m, &f);)
    if (f.num == 2 && f.wire == 2)
      hs_vec_push(&all, ((hlo_stat){proto_str(&b->r, f.sub, 1), pb_double(f.sub, 2)}));
  s->n = (u32)all.n;
  s->v = hs_arena_dup(b->r.arena, all.v, all.n * sizeof *all.v);
  hs_vec_free(&all);
  return s;
}

static bool read_common(builder *b, pb i, const hlo_shape *shape, hlo_attr *a) {
  static const u32 nums[][2] = {{HLO_ATTR_SHARDING, 40},      {HLO_ATTR_FRONTEND_ATTRIBUTES, 68},
                                {HLO_ATTR_STATISTICS, 82},    {HLO_ATTR_RESULT_ACCURACY, 91},
                                {HLO_ATTR_ORIGIN, 88},        {HLO_ATTR_METADATA, 7},
                                {HLO_ATTR_BACKEND_CONFIG, 43}};
  proto_reader *r = &b->r;
  u32 num = 0;
  for (size_t k = 0; k < HS_COUNT(nums); k++)
    if (nums[k][0] == a->id) num = nums[k][1];
  pb_field f;
  if (!pb_get(i, num, &f) || f.wire != 2) {
    if (a->id != HLO_ATTR_BACKEND_CONFIG || !pb_find(i, PB_PATH(99, 1), &f)) return false;
  }
  switch (a->id) {
  case HLO_ATTR_SHARDING: a->v.p = proto_sharding(r, f.sub); return true;
  case HLO_ATTR_FRONTEND_ATTRIBUTES: a->v.p = proto_frontend(r, f.sub); return true;
  case HLO_ATTR_STATISTICS: {
    const hlo_statistics *s = read_statistics(b, f.sub);
    a->v.p = s;
    return s->n > 0;
  }
  case HLO_ATTR_RESULT_ACCURACY: {
    hlo_result_accuracy *x = HS_NEW(r->arena, hlo_result_accuracy);
    pb_field t;
    x->has_tolerance = pb_get(f.sub, 2, &t) && t.wire == 2;
    if (x->has_tolerance)
      x->atol = pb_double(t.sub, 1), x->rtol = pb_double(t.sub, 2), x->ulps = pb_int(t.sub, 3, 0);
    else x->has_mode = true, x->mode = pb_int(f.sub, 1, 0);
    a->v.p = x;
    return true;
  }
  case HLO_ATTR_ORIGIN: a->v.p = proto_origin(r, f.sub, shape); return true;
  case HLO_ATTR_METADATA: a->v.p = proto_metadata(r, f.sub); return f.sub.end > f.sub.p;
  default: {
    hlo_backend_config *c = HS_NEW(r->arena, hlo_backend_config);
    size_t n = (size_t)(f.sub.end - f.sub.p);
    c->text = (hs_str){hs_arena_strndup(r->arena, n ? (const char *)f.sub.p : "", n), n};
    c->raw_json = n && c->text.p[0] == '{';
    a->v.p = c;
    return n > 0;
  }
  }
}

// ---- instructions -------------------------------------------------------------------------------
// Comparisons once had an opcode each.
static hlo_opcode opcode_of(hs_str s, i64 *direction) {
  static const struct {
    const char *text;
    i64 direction;
  } old[] = {{"equal-to", HLO_DIRECTION_EQ},
             {"not-equal-to", HLO_DIRECTION_NE},
             {"greater-than-or-equal-to", HLO_DIRECTION_GE},
             {"greater-than", HLO_DIRECTION_GT},
             {"less-than-or-equal-to", HLO_DIRECTION_LE},
             {"less-than", HLO_DIRECTION_LT}};
  *direction = -1;
  hlo_opcode op = hlo_op_find(s);
  for (size_t k = 0; op == HLO_OP_INVALID && k < HS_COUNT(old); k++)
    if (hs_str_eq(s, hs_str_of(old[k].text))) *direction = old[k].direction, op = HLO_COMPARE;
  return op;
}

static void set_attrs(builder *b, hlo_instr *i, pb m, i64 direction) {
  static const hlo_attr_id common[] = {HLO_ATTR_SHARDING,      HLO_ATTR_FRONTEND_ATTRIBUTES,
                                       HLO_ATTR_STATISTICS,    HLO_ATTR_RESULT_ACCURACY,
                                       HLO_ATTR_ORIGIN,        HLO_ATTR_METADATA,
                                       HLO_ATTR_BACKEND_CONFIG};
  hlo_opcode op = i->opcode;
  for (const hlo_op_attr *row = hlo_ops[op].attrs; row->id && !b->r.failed; row++) {
    hlo_attr a = {.id = row->id};
    if (op == HLO_MAP && row->id == HLO_ATTR_DIMENSIONS) continue;
    bool got = row->id == HLO_ATTR_DIRECTION && direction >= 0
                   ? (a.v.i = direction, true)
                   : read_own(b, m, op, row->required, &a);
    if (!got && row->required)
      proto_error(&b->r, "%s lacks %s", hlo_op_text(op), hlo_attr_text(row->id));
    if (!got || b->r.failed || hlo_attr_droppable(op, &a)) continue;
    if (row->id == HLO_ATTR_DIMENSIONS && op == HLO_ALL_TO_ALL && a.v.ints.n == 0) continue;
    if (row->id == HLO_ATTR_COMPARE_TYPE) {
      hlo_dtype t = hlo_operand(i, 0)->shape->dtype;
      i64 usual = hlo_dtype_is_float(t) || hlo_dtype_is_complex(t) ? HLO_COMPARE_TYPE_FLOAT
                  : hlo_dtype_is_signed(t)                         ? HLO_COMPARE_TYPE_SIGNED
                                                                   : HLO_COMPARE_TYPE_UNSIGNED;
      if (a.v.i == usual || a.v.i < 0) continue;
    }
    hlo_set_attr(i, a);
    if (a.id == HLO_ATTR_LITERAL) hlo_literal_unref(a.v.literal);
  }
  for (size_t k = 0; k < HS_COUNT(common) && !b->r.failed; k++) {
    hlo_attr a = {.id = common[k]};
    if (read_common(b, m, i->shape, &a) && !hlo_attr_droppable(op, &a)) hlo_set_attr(i, a);
  }
}

static void read_control(builder *b, hlo_instr *i, pb m) {
  hlo_ints ids = proto_ints(&b->r, m, 37);
  b->ops.n = 0;
  for (u32 k = 0; k < ids.n; k++) {
    hlo_instr *p = id_find(&b->instrs, local_id(ids.v[k]));
    if (!p) {
      proto_error(&b->r, "%s has a control predecessor that was not read before", i->name);
      return;
    }
    hs_vec_push(&b->ops, p);
  }
  if (b->ops.n) hlo_set_ctrl_preds(i, (u32)b->ops.n, b->ops.v);
}

static void read_instr(builder *b, hlo_computation *c, pb m) {
  proto_reader *r = &b->r;
  hs_str name = proto_name(r, m, 1), text = pb_str(m, 2);
  i64 direction, id = local_id(pb_int(m, 35, 0));
  if (pb_int(m, 35, 0) < 0) return proto_error(r, "an instruction's id is out of range");
  hlo_opcode op = opcode_of(text, &direction);
  if (op == HLO_OP_INVALID) {
    proto_error(r, "unknown opcode %.*s", (int)HS_MIN(text.n, 60u), text.n ? text.p : "");
    return;
  }
  const hlo_shape *shape = proto_shape(r, pb_sub(m, 3));
  hlo_ints ids = proto_ints(r, m, 36);
  b->ops.n = 0;
  for (u32 k = 0; k < ids.n; k++) {
    hlo_instr *o = id_find(&b->instrs, local_id(ids.v[k]));
    if (!o) {
      hs_str who = name.n ? name : text;
      proto_error(r, "%.*s has an operand that was not read before", (int)HS_MIN(who.n, 200u),
                  who.n ? who.p : "");
      return;
    }
    hs_vec_push(&b->ops, o);
  }
  if (!hlo_op_takes(op, ids.n)) {
    proto_error(r, "%s expects %s%u operands, but has %u operands", hlo_op_text(op),
                hlo_op_at_least(op), hlo_op_least(op), ids.n);
    return;
  }
  if (r->failed) return;
  const char *want = name.n ? name.p : hlo_op_text(op);
  hlo_instr *i = NULL;
  if (op == HLO_PARAMETER) {
    i64 number = pb_int(m, 9, 0);
    if (number < 0 || number >= 1 << 20 || (number < c->nparams && c->params[number])) {
      proto_error(r, "parameter number %lld is out of range or double", (long long)number);
      return;
    }
    i = hlo_add_parameter(c, number, shape, want);
  } else if (op == HLO_CONSTANT) {
    pb_field f;
    hlo_literal *l =
        pb_get(m, 8, &f) && f.wire == 2 ? proto_literal(r, f.sub) : hlo_literal_elided(shape);
    if (!l) return;
    i = hlo_add_constant(c, l, want);
    if (i->shape != shape && hlo_shape_compatible(i->shape, shape))
      hlo_set_shape(i, hlo_shape_fill_layout(r->ctx, shape));
  } else {
    i = hlo_add(c, op, shape, (u32)b->ops.n, b->ops.v, want);
  }
  if (op == HLO_GET_TUPLE_ELEMENT) {
    const hlo_shape *t = b->ops.v[0]->shape;
    i64 k = pb_int(m, 13, 0);
    if (!hlo_shape_is_tuple(t) || k < 0 || k >= t->nelems) {
      proto_error(r, "%s takes an element that the tuple does not have", i->name);
      return;
    }
  }
  set_attrs(b, i, m, direction);
  if (!r->failed) read_control(b, i, m);
  if (id_find(&b->instrs, id)) {
    proto_error(r, "two instructions of %s have the id %lld", c->name, (long long)id);
    return;
  }
  id_put(&b->instrs, id, i);
  keep_part(&b->kept_instrs, i->id,
            (hlo_kept_part){pb_int(m, 35, 0), c->id, op, i->shape,
                            pb_keep(r->arena, m, PB_HloInstructionProto)});
  hs_vec_push(&b->read, ((id_entry){id, i}));
}

static int by_id(const void *a, const void *b) {
  i64 x = ((const id_entry *)a)->id, y = ((const id_entry *)b)->id;
  return (x > y) - (x < y);
}

// A proto lists operands first; the order of a computation's own list is that of the ids.
static void order_by_id(builder *b) {
  bool ordered = true;
  for (size_t k = 1; k < b->read.n; k++) ordered &= b->read.v[k - 1].id <= b->read.v[k].id;
  if (!ordered) qsort(b->read.v, b->read.n, sizeof *b->read.v, by_id);
  for (size_t k = 0; k < b->read.n && !ordered; k++) hlo_move_before(b->read.v[k].what, NULL);
}

// Ids of the schedule of a computation, in order; empty when there is none.
static hlo_ints schedule_of(builder *b, i64 comp) {
  pb s = b->schedule;
  for (pb_field f; pb_next(&s, &f);)
    if (f.num == 1 && f.wire == 2 && local_id(pb_int(f.sub, 1, 0)) == local_id(comp))
      return proto_ints(&b->r, pb_sub(f.sub, 2), 1);
  return (hlo_ints){0};
}

// The list gets the order of the schedule, also of one that places an instruction before its
// operands: that is for the verifier to say.
static void order_by_schedule(builder *b, const hlo_computation *c, hlo_ints order) {
  if (b->read.n != order.n) {
    proto_error(&b->r, "the schedule of %s has %u instructions, the computation %zu", c->name,
                order.n, b->read.n);
    return;
  }
  id_map placed = {0};
  for (u32 k = 0; k < order.n && !b->r.failed; k++) {
    i64 id = local_id(order.v[k]);
    hlo_instr *i = id_find(&b->instrs, id);
    if (!i) proto_error(&b->r, "the schedule of %s names an unknown instruction", c->name);
    else if (id_find(&placed, id))
      proto_error(&b->r, "the schedule of %s names %s twice", c->name, i->name);
    else id_put(&placed, id, i), hlo_move_before(i, NULL);
  }
  hs_free(placed.v);
}

static void read_comp(builder *b, pb m) {
  hs_str name = proto_name(&b->r, m, 1), thread = proto_name(&b->r, m, 8);
  i64 id = pb_int(m, 5, 0), root = local_id(pb_int(m, 6, 0));
  if (id < 0 || id > INT32_MAX) {
    proto_error(&b->r, "a computation's id, %lld, is out of range", (long long)id);
    return;
  }
  if (id_find(&b->comps, id)) {
    proto_error(&b->r, "two computations have the id %lld", (long long)id);
    return;
  }
  hlo_computation *c = hlo_add_computation(b->r.m, name.n ? name.p : "computation");
  keep_part(&b->kept_comps, c->id,
            (hlo_kept_part){.id = id, .fields = pb_keep(b->r.arena, m, PB_HloComputationProto)});
  hlo_ints order = b->scheduled ? schedule_of(b, id) : (hlo_ints){0};
  b->instrs.n = 0;
  if (b->instrs.v) memset(b->instrs.v, 0, b->instrs.cap * sizeof *b->instrs.v);
  b->read.n = 0;
  for (pb_field f; !b->r.failed && !hs_interrupted() && pb_next(&m, &f);)
    if (f.num == 2 && f.wire == 2) read_instr(b, c, f.sub);
  if (b->r.failed) return;
  if (order.n) order_by_schedule(b, c, order);
  else order_by_id(b);
  hlo_instr *last = id_find(&b->instrs, root);
  if (!last && !b->r.failed) proto_error(&b->r, "computation %s has no root", c->name);
  if (b->r.failed) return;
  hlo_set_root(c, last);
  for (u32 k = 0; k < c->nparams; k++)
    if (!c->params[k]) {
      proto_error(&b->r, "parameter number %u is missing in %s", k, c->name);
      return;
    }
  if (thread.n && !hs_str_eq(thread, HS_STR("main"))) hlo_set_execution_thread(c, thread);
  id_put(&b->comps, id, c);
}

// ---- the module ---------------------------------------------------------------------------------
static void set_module_attr(hlo_module *m, hlo_attr_id id, const void *p) {
  hlo_attr a = {.id = id, .v.p = p};
  if (!hlo_attr_droppable(HLO_OP_INVALID, &a)) hlo_set_module_attr(m, a);
}

static void read_program_shape(builder *b, pb m) {
  HS_VEC(const hlo_shape *) params = {0};
  for (pb it = m, *p = &it; p;) {
    pb_field f;
    if (!pb_next(p, &f)) break;
    if (f.num == 1 && f.wire == 2) hs_vec_push(&params, proto_shape(&b->r, f.sub));
  }
  hlo_program_shape *s = HS_NEW(b->r.arena, hlo_program_shape);
  *s = (hlo_program_shape){(u32)params.n,
                           hs_arena_dup(b->r.arena, params.v, params.n * sizeof *params.v),
                           proto_shape(&b->r, pb_sub(m, 2))};
  if (params.n != b->r.m->entry->nparams)
    proto_error(&b->r, "the program shape has %zu parameters, the entry %u", params.n,
                b->r.m->entry->nparams);
  hs_vec_free(&params);
  set_module_attr(b->r.m, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, s);
}

static void read_frames(builder *b, pb m) {
  proto_reader *r = &b->r;
  hlo_stack_frames *s = HS_NEW(r->arena, hlo_stack_frames);
  HS_VEC(hs_str) text[2] = {{0}, {0}};
  HS_VEC(struct hlo_file_location) locs = {0};
  HS_VEC(struct hlo_stack_frame) frames = {0};
  for (pb_field f; pb_next(&m, &f);) {
    if (f.wire != 2) continue;
    if (f.num <= 2) {
      size_t n = (size_t)(f.sub.end - f.sub.p);
      hs_vec_push(&text[f.num - 1],
                  ((hs_str){hs_arena_strndup(r->arena, n ? (const char *)f.sub.p : "", n), n}));
    } else if (f.num == 3) {
      hs_vec_push(&locs,
                  ((struct hlo_file_location){(i32)pb_int(f.sub, 1, 0), (i32)pb_int(f.sub, 2, 0),
                                              (i32)pb_int(f.sub, 3, 0), (i32)pb_int(f.sub, 5, 0),
                                              (i32)pb_int(f.sub, 4, 0), (i32)pb_int(f.sub, 6, 0)}));
    } else if (f.num == 4) {
      hs_vec_push(&frames,
                  ((struct hlo_stack_frame){(i32)pb_int(f.sub, 1, 0), (i32)pb_int(f.sub, 2, 0)}));
    }
  }
  *s = (hlo_stack_frames){
      (u32)text[0].n, hs_arena_dup(r->arena, text[0].v, text[0].n * sizeof(hs_str)),
      (u32)text[1].n, hs_arena_dup(r->arena, text[1].v, text[1].n * sizeof(hs_str)),
      (u32)locs.n,    hs_arena_dup(r->arena, locs.v, locs.n * sizeof *locs.v),
      (u32)frames.n,  hs_arena_dup(r->arena, frames.v, frames.n * sizeof *frames.v)};
  if (locs.n || frames.n || text[0].n) hlo_set_stack_frames(r->m, s);
  hs_vec_free(&text[0]);
  hs_vec_free(&text[1]);
  hs_vec_free(&locs);
  hs_vec_free(&frames);
}

static void read_module(builder *b, pb m) {
  proto_reader *r = &b->r;
  pb_field f;
  hs_str name = proto_name(r, m, 1), entry = pb_str(m, 2);
  i64 entry_id = pb_int(m, 6, 0);
  r->m->name = hlo_intern(r->ctx, name.n ? name.p : "module", name.n ? name.n : 6);
  b->scheduled = pb_get(m, 7, &f) && f.wire == 2;
  if (b->scheduled) b->schedule = f.sub;
  hlo_computation *last = NULL;
  for (pb it = m; !r->failed && pb_next(&it, &f);) {
    if (f.num != 3 || f.wire != 2) continue;
    read_comp(b, f.sub);
    last = r->m->last;
    hs_str cname = pb_str(f.sub, 1);
    if (pb_int(f.sub, 5, 0) == entry_id && (!entry.n || hs_str_eq(cname, entry)))
      hlo_set_entry(r->m, last);
  }
  if (r->failed) return;
  if (!r->m->entry) {
    if (!last) {
      proto_error(r, "the module has no computation");
      return;
    }
    hlo_set_entry(r->m, last);
  }
  if (b->scheduled) hlo_set_module_attr(r->m, (hlo_attr){.id = HLO_ATTR_IS_SCHEDULED, .v.i = 1});
  if (pb_get(m, 4, &f) && f.wire == 2) read_program_shape(b, f.sub);
  if (pb_get(m, 8, &f) && f.wire == 2)
    set_module_attr(r->m, HLO_ATTR_INPUT_OUTPUT_ALIAS, proto_aliases(r, f.sub, 1, HLO_AK_IO_ALIAS));
  if (pb_get(m, 18, &f) && f.wire == 2)
    set_module_attr(r->m, HLO_ATTR_BUFFER_DONOR, proto_aliases(r, f.sub, 1, HLO_AK_DONORS));
  if (pb_get(m, 19, &f) && f.wire == 2)
    set_module_attr(r->m, HLO_ATTR_FRONTEND_ATTRIBUTES, proto_frontend(r, f.sub));
  if (pb_get(m, 17, &f) && f.wire == 2) read_frames(b, f.sub);
  if (pb_get(m, 20, &f) && f.wire == 2 && f.sub.p < f.sub.end)
    hlo_set_module_attr(r->m, (hlo_attr){.id = HLO_ATTR_ORIGIN_RECOVERY_TABLE,
                                         .v.s = proto_recovery_text(r, f.sub)});
}

static hs_status read_at_depth(hlo_ctx *ctx, pb m, const char *file, u32 depth, hlo_module **out) {
  *out = NULL;
  hlo_module *module = hlo_module_new(ctx, "module");
  builder b = {.r = {.ctx = ctx, .m = module, .arena = &module->arena, .depth = depth}};
  hlo_journal_disable(module);
  read_module(&b, m);
  hlo_journal_enable(module);
  hs_status s = HS_GOOD;
  if (b.r.failed) {
    s = hs_fail(b.r.code ? b.r.code : HS_E_PROTO, "%s%s%s", file ? file : "", file ? ": " : "",
                hs_buf_cstr(&b.r.message));
    hlo_module_free(module);
  } else {
    hlo_mark_sources(module);
    hlo_proto_kept *k = HS_NEW(&module->arena, hlo_proto_kept);
    *k = (hlo_proto_kept){.root = PB_HloModuleProto,
                          .generation = module->generation,
                          .module = pb_keep(&module->arena, m, PB_HloModuleProto),
                          .ncomps = (u32)b.kept_comps.n,
                          .comps = hs_arena_dup(&module->arena, b.kept_comps.v,
                                                b.kept_comps.n * sizeof *b.kept_comps.v),
                          .ninstrs = (u32)b.kept_instrs.n,
                          .instrs = hs_arena_dup(&module->arena, b.kept_instrs.v,
                                                 b.kept_instrs.n * sizeof *b.kept_instrs.v)};
    module->proto_kept = k;
    module->copy_kept = hlo_proto_kept_copy;
    *out = module;
  }
  hs_buf_free(&b.r.message);
  hs_vec_free(&b.r.ints);
  hs_vec_free(&b.ops);
  hs_vec_free(&b.read);
  hs_vec_free(&b.kept_comps);
  hs_vec_free(&b.kept_instrs);
  hs_free(b.comps.v);
  hs_free(b.instrs.v);
  return s;
}

hs_status proto_read_module(hlo_ctx *ctx, pb m, const char *file, hlo_module **out) {
  return read_at_depth(ctx, m, file, 0, out);
}
hs_status proto_read_nested(hlo_ctx *ctx, pb m, u32 depth, hlo_module **out) {
  return read_at_depth(ctx, m, NULL, depth, out);
}
