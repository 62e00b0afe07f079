// op.c — what an operation's row in ops.def does not say of its text: attributes that are
// structs, operands that HLO keeps as attributes or in tuples, and regions.
#include "core/mlir/print/print.h"

const mlir_dot_algorithm mlir_dot_algorithms[] = {
    {HLO_ALGORITHM_F16_F16_F16, "f16", "f16", 1},
    {HLO_ALGORITHM_F16_F16_F32, "f16", "f32", 1},
    {HLO_ALGORITHM_BF16_BF16_BF16, "bf16", "bf16", 1},
    {HLO_ALGORITHM_BF16_BF16_F32, "bf16", "f32", 1},
    {HLO_ALGORITHM_BF16_BF16_F32_X3, "bf16", "f32", 3},
    {HLO_ALGORITHM_BF16_BF16_F32_X6, "bf16", "f32", 6},
    {HLO_ALGORITHM_BF16_BF16_F32_X9, "bf16", "f32", 9},
    {HLO_ALGORITHM_TF32_TF32_F32, "tf32", "f32", 1},
    {HLO_ALGORITHM_TF32_TF32_F32_X3, "tf32", "f32", 3},
    {HLO_ALGORITHM_F32_F32_F32, "f32", "f32", 1},
    {HLO_ALGORITHM_F64_F64_F64, "f64", "f64", 1},
    {0, NULL, NULL, 0},
};

static void put(print_op *o, const char *name) {
  print_comma(&o->props);
  hs_buf_printf(&o->props, "%s = ", name);
}

static void put_array(print_op *o, const char *name, u32 n, const i64 *v) {
  put(o, name);
  print_ints(&o->props, n ? "array<i64: " : "array<i64", n, v, ">");
}

// The elements of one tuple operand become the operands.
static void unpack(mlir_printer *P, const hlo_instr *tuple, print_op *o) {
  o->noperands = tuple->shape->nelems;
  o->operands = HS_NEW_ARRAY(&P->arena, const char *, o->noperands + 1);
  o->operand_shapes = HS_NEW_ARRAY(&P->arena, const hlo_shape *, o->noperands + 1);
  for (u32 k = 0; k < o->noperands; k++) {
    o->operands[k] = print_part(P, tuple, k);
    o->operand_shapes[k] = tuple->shape->elems[k];
  }
}

// ---- dot, convolution, windows ------------------------------------------------------------------
static bool dot(mlir_printer *P, const hlo_instr *i, print_op *o) {
  static const struct {
    hlo_attr_id id;
    const char *name;
  } dims[] = {{HLO_ATTR_LHS_BATCH_DIMS, "lhs_batching_dimensions"},
              {HLO_ATTR_RHS_BATCH_DIMS, "rhs_batching_dimensions"},
              {HLO_ATTR_LHS_CONTRACTING_DIMS, "lhs_contracting_dimensions"},
              {HLO_ATTR_RHS_CONTRACTING_DIMS, "rhs_contracting_dimensions"}};
  put(o, "dot_dimension_numbers");
  for (size_t k = 0; k < HS_COUNT(dims); k++) {
    hlo_ints v = hlo_attr_ints(i, dims[k].id);
    hs_buf_printf(&o->props, "%s%s = ", k ? ", " : "#stablehlo.dot<", dims[k].name);
    print_ints(&o->props, "[", v.n, v.v, "]");
  }
  hs_buf_putc(&o->props, '>');
  i64 algorithm = hlo_attr_int(i, HLO_ATTR_ALGORITHM, HLO_ALGORITHM_UNSET);
  if (algorithm == HLO_ALGORITHM_UNSET) return true;
  const mlir_dot_algorithm *a = mlir_dot_algorithms;
  while (a->type && a->hlo != algorithm) a++;
  if (!a->type) return print_fail(P, i, "the algorithm");
  put(o, "algorithm");
  hs_buf_printf(&o->props,
                "#stablehlo.dot_algorithm<lhs_precision_type = %s, rhs_precision_type = %s, "
                "accumulation_type = %s, lhs_component_count = 1, rhs_component_count = 1, "
                "num_primitive_operations = %d, allow_imprecise_accumulation = false>",
                a->type, a->type, a->sum, a->operations);
  return true;
}

typedef struct window_names {
  const char *size, *stride, *lhs, *rhs, *reversal;
} window_names;

static void window(const hlo_instr *i, u32 n, const window_names *names, print_op *o) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  i64 v[5][HLO_MAX_RANK], pad[2 * HLO_MAX_RANK];
  bool reversed = false;
  for (u32 k = 0; k < n; k++) {
    const hlo_window_dim one = {.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
    const hlo_window_dim *d = w && k < w->n ? &w->v[k] : &one;
    v[0][k] = d->size, v[1][k] = d->stride, v[2][k] = d->lhs_dilate, v[3][k] = d->rhs_dilate;
    pad[2 * k] = d->pad_low, pad[2 * k + 1] = d->pad_high;
    reversed |= v[4][k] = d->reversal;
  }
  const char *const list[] = {names->size, names->stride, names->lhs, names->rhs};
  for (u32 k = 0; k < HS_COUNT(list); k++)
    if (list[k]) put_array(o, list[k], n, v[k]);
  put(o, "padding");
  print_rows(&o->props, n, 2, pad);
  if (!names->reversal || !reversed) return;
  put(o, names->reversal);
  hs_buf_puts(&o->props, "array<i1: ");
  for (u32 k = 0; k < n; k++)
    hs_buf_printf(&o->props, "%s%s", k ? ", " : "", v[4][k] ? "true" : "false");
  hs_buf_putc(&o->props, '>');
}

static void one_label(hs_buf *b, u32 rank, i64 x, char cx, i64 y, char cy, u32 n,
                      const i64 *spatial) {
  hs_buf_putc(b, '[');
  for (u32 d = 0; d < rank; d++) {
    if (d) hs_buf_puts(b, ", ");
    if (d == x) hs_buf_putc(b, cx);
    else if (d == y) hs_buf_putc(b, cy);
    for (u32 k = 0; k < n; k++)
      if (spatial[k] == d) hs_buf_printf(b, "%u", k);
  }
  hs_buf_putc(b, ']');
}

static bool convolution(mlir_printer *P, const hlo_instr *i, print_op *o) {
  static const window_names names = {NULL, "window_strides", "lhs_dilation", "rhs_dilation",
                                     "window_reversal"};
  const hlo_dim_labels *d = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  if (!d || i->noperands != 2 || hlo_attr_get(i, HLO_ATTR_CONVOLUTION_KIND) ||
      d->nspatial + 2 != i->shape->rank)
    return print_fail(P, i, "this convolution");
  put(o, "dimension_numbers");
  hs_buf *b = &o->props;
  u32 n = d->nspatial;
  hs_buf_puts(b, "#stablehlo.conv<");
  one_label(b, n + 2, d->lhs_batch, 'b', d->lhs_feature, 'f', n, d->lhs_spatial);
  hs_buf_putc(b, 'x');
  one_label(b, n + 2, d->rhs_input_feature, 'i', d->rhs_output_feature, 'o', n, d->rhs_spatial);
  hs_buf_puts(b, "->");
  one_label(b, n + 2, d->out_batch, 'b', d->out_feature, 'f', n, d->out_spatial);
  hs_buf_putc(b, '>');
  window(i, n, &names, o);
  return true;
}

// ---- collectives --------------------------------------------------------------------------------
// Groups as rows, shorter ones filled up with -1.
static bool groups(mlir_printer *P, const hlo_instr *i, print_op *o, u32 *size) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  *size = 0;
  put(o, "replica_groups");
  if (!g) return print_rows(&o->props, 0, 0, NULL), true;
  if (g->form == HLO_GROUPS_MESH) return print_fail(P, i, "groups by a mesh");
  if (g->form == HLO_GROUPS_IOTA) {
    i64 n = 1;
    for (u32 k = 0; k < g->reshape.n; k++) n = hs_mul_sat_i64(n, g->reshape.v[k]);
    if (g->dims.n != 2 || n > 1 << 20) return print_fail(P, i, "its groups");
    i64 *v = HS_NEW_ARRAY(&P->arena, i64, n + 1);
    if (!hlo_iota_ids(g->reshape, g->perm, n, v)) return print_fail(P, i, "its groups");
    *size = (u32)g->dims.v[1];
    return print_rows(&o->props, (u32)g->dims.v[0], *size, v), true;
  }
  u32 rows = g->groups.n;
  for (u32 k = 0; k < rows; k++) *size = HS_MAX(*size, g->groups.v[k].n);
  i64 *v = HS_NEW_ARRAY(&P->arena, i64, (size_t)rows * *size + 1);
  for (u32 k = 0; k < rows; k++)
    for (u32 j = 0; j < *size; j++)
      v[k * *size + j] = j < g->groups.v[k].n ? g->groups.v[k].v[j] : -1;
  return print_rows(&o->props, rows, *size, v), true;
}

static void channel(const hlo_instr *i, print_op *o) {
  i64 id = hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, -1);
  if (id >= 0) {
    put(o, "channel_handle");
    hs_buf_printf(&o->props, "#stablehlo.channel_handle<handle = %lld, type = 1>", (long long)id);
  }
  if (hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0)) {
    print_comma(&o->props);
    hs_buf_puts(&o->props, "use_global_device_ids");
  }
}

static bool collective(mlir_printer *P, const hlo_instr *i, print_op *o) {
  u32 size;
  channel(i, o);
  if (i->opcode == HLO_COLLECTIVE_PERMUTE) {
    hlo_ints pairs = hlo_attr_ints(i, HLO_ATTR_SOURCE_TARGET_PAIRS);
    if (i->noperands != 1 || hlo_attr_get(i, HLO_ATTR_PERMUTE_SLICE_SIZES))
      return print_fail(P, i, "a permutation of several values");
    put(o, "source_target_pairs");
    print_rows(&o->props, pairs.n, 2, pairs.v);
    return true;
  }
  if (!groups(P, i, o, &size)) return false;
  if (i->opcode != HLO_ALL_TO_ALL) return true;
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  if (d.n != 1 || !size) return print_fail(P, i, "an exchange between the elements of a tuple");
  hs_buf_printf(&o->props,
                ", split_dimension = %lld : i64, concat_dimension = %lld : i64, split_count = %u "
                ": i64",
                (long long)d.v[0], (long long)d.v[0], size);
  return true;
}

// ---- custom calls -------------------------------------------------------------------------------
static bool put_layouts(print_op *o, const char *name, u32 n, const hlo_shape *const *v) {
  put(o, name);
  for (u32 k = 0; k < n; k++) {
    const hlo_layout *l = v[k]->layout;
    u32 rank = l ? l->rank : 0;
    hs_buf_puts(&o->props, k ? ", dense<" : "[dense<");
    if (rank) print_ints(&o->props, "[", rank, l->minor_to_major, "]");
    hs_buf_printf(&o->props, "> : tensor<%uxindex>", rank);
  }
  hs_buf_puts(&o->props, n ? "]" : "[]");
  return true;
}

static bool custom_call(mlir_printer *P, const hlo_instr *i, print_op *o) {
  const hlo_backend_config *c = hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG);
  const hlo_shapes *layouts = hlo_attr_ptr(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  const hlo_aliases *alias = hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  i64 api = hlo_attr_int(i, HLO_ATTR_API_VERSION, 1);
  if (hlo_attr_get(i, HLO_ATTR_WINDOW) || hlo_attr_get(i, HLO_ATTR_DIM_LABELS) ||
      hlo_attr_get(i, HLO_ATTR_LITERAL))
    return print_fail(P, i, "a custom call with a window or a literal");
  put(o, "call_target_name");
  print_string(&o->props, hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET));
  if (hlo_attr_int(i, HLO_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, 0)) {
    put(o, "has_side_effect");
    hs_buf_puts(&o->props, "true");
  }
  put(o, "api_version");
  hs_buf_printf(&o->props, "%lld : i32", (long long)HS_MAX(api, 1));
  if (c) {
    put(o, "backend_config");
    if (api == HLO_API_VERSION_TYPED_FFI && c->text.n && *c->text.p == '{')
      hs_buf_printf(&o->props, "%.*s", (int)c->text.n, c->text.p);
    else if (api == HLO_API_VERSION_TYPED_FFI) return print_fail(P, i, "its configuration");
    else print_string(&o->props, c->text);
  }
  if (layouts) {
    put_layouts(o, "operand_layouts", layouts->n, layouts->v);
    put_layouts(o, "result_layouts", o->nresults, o->results);
  }
  u32 called = hlo_ncalled(i);
  for (u32 k = 0; k < called; k++) {
    if (!k) put(o, "called_computations");
    hs_buf_puts(&o->props, k ? ", " : "[");
    print_symbol(&o->props, P->functions[hlo_called(i, k)->id]);
  }
  if (called) hs_buf_putc(&o->props, ']');
  for (u32 k = 0; alias && k < alias->n; k++) {
    const hlo_alias_entry *e = &alias->v[k];
    if (!k) put(o, "output_operand_aliases");
    hs_buf_puts(&o->props, k ? ", #stablehlo.output_operand_alias<output_tuple_indices = "
                             : "[#stablehlo.output_operand_alias<output_tuple_indices = ");
    print_ints(&o->props, "[", e->out_index.n, e->out_index.v, "], operand_index = ");
    hs_buf_printf(&o->props, "%lld, operand_tuple_indices = ", (long long)e->param);
    print_ints(&o->props, "[", e->param_index.n, e->param_index.v, "]>");
  }
  if (alias && alias->n) hs_buf_putc(&o->props, ']');
  return true;
}

// What the framework's attributes say of a composite; without a name it is a call.
static bool composite(mlir_printer *P, const hlo_instr *i, print_op *o) {
  const hlo_frontend *f = hlo_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  hs_str value[3] = {{0}, {0}, HS_STR("0")};
  static const char *const keys[] = {"composite.name", "composite.attributes", "composite.version"};
  for (u32 k = 0; f && k < f->n; k++)
    for (u32 j = 0; j < 3; j++)
      if (hs_str_eq(f->v[k].key, hs_str_of(keys[j]))) value[j] = f->v[k].value;
  if (!value[0].n) return print_fail(P, i, "a composite without a name");
  o->name = "stablehlo.composite";
  put(o, "name");
  print_string(&o->props, value[0]);
  put(o, "decomposition");
  print_symbol(&o->props, P->functions[hlo_called(i, 0)->id]);
  put(o, "version");
  hs_buf_printf(&o->props, "%.*s : i32", (int)value[2].n, value[2].p);
  put(o, "composite_attributes");
  if (value[1].n) hs_buf_printf(&o->props, "%.*s", (int)value[1].n, value[1].p);
  else hs_buf_puts(&o->props, "{}");
  o->composite = true;
  return true;
}

// ---- queues -------------------------------------------------------------------------------------
// The elements of the data are results, before the token.
static bool infeed(mlir_printer *P, const hlo_instr *i, print_op *o) {
  const hlo_shape *data = i->shape->elems[0];
  hs_str config = hlo_attr_str(i, HLO_ATTR_INFEED_CONFIG);
  if (!hlo_shape_is_tuple(data)) return print_fail(P, i, "a value that is no tuple");
  for (u32 k = 0; k < data->nelems; k++)
    if (hlo_shape_is_tuple(data->elems[k])) return print_fail(P, i, "a tuple in a tuple");
  o->nresults = data->nelems + 1;
  o->results = HS_NEW_ARRAY(&P->arena, const hlo_shape *, o->nresults);
  for (u32 k = 0; k < data->nelems; k++) o->results[k] = data->elems[k];
  o->results[data->nelems] = i->shape->elems[1];
  if (config.n) {
    put(o, "infeed_config");
    print_string(&o->props, config);
  }
  return true;
}

static bool outfeed(mlir_printer *P, const hlo_instr *i, print_op *o) {
  const hlo_instr *data = hlo_operand(i, 0);
  hs_str config = hlo_attr_str(i, HLO_ATTR_OUTFEED_CONFIG);
  if (!hlo_shape_is_tuple(data->shape)) return print_fail(P, i, "a value that is no tuple");
  unpack(P, data, o);
  o->operands[o->noperands] = print_one(P, hlo_operand(i, 1));
  o->operand_shapes[o->noperands++] = hlo_operand(i, 1)->shape;
  if (config.n) {
    put(o, "outfeed_config");
    print_string(&o->props, config);
  }
  return true;
}

// ---- operations with regions --------------------------------------------------------------------
static void regions(const hlo_instr *i, print_op *o) {
  o->nregions = hlo_ncalled(i);
  for (u32 k = 0; k < o->nregions && k < 2; k++) o->regions[k] = hlo_called(i, k);
}

static void conditional(mlir_printer *P, const hlo_instr *i, print_op *o) {
  o->nregions = hlo_ncalled(i);
  hlo_computation **v = HS_NEW_ARRAY(&P->arena, hlo_computation *, o->nregions + 1);
  for (u32 k = 0; k < o->nregions; k++) v[k] = hlo_called(i, k);
  o->branches = v;
  o->noperands = 1;
  o->captured = i;
  if (hlo_operand(i, 0)->shape->dtype == HLO_PRED) o->name = "stablehlo.if";
}

static bool scan(mlir_printer *P, const hlo_instr *i, print_op *o) {
  int carries = (int)hlo_attr_int(i, HLO_ATTR_NUM_CARRIES, 0);
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  if (d.n != 1) return print_fail(P, i, "a scan along several dimensions");
  hs_buf_printf(&o->props,
                "operandSegmentSizes = array<i32: %d, %d>, resultSegmentSizes = array<i32: %d, %d>",
                (int)i->noperands - carries, carries, (int)o->nresults - carries, carries);
  return regions(i, o), true;
}

static bool compare(const hlo_instr *i, print_op *o) {
  const char *how = hlo_enum_text(HLO_AK_ENUM_DIRECTION, hlo_attr_int(i, HLO_ATTR_DIRECTION, 0));
  const hlo_attr *type = hlo_attr_get(i, HLO_ATTR_COMPARE_TYPE);
  put(o, "comparison_direction");
  hs_buf_printf(&o->props, "#stablehlo<comparison_direction %s>", how ? how : "EQ");
  if (!type) return true;
  const char *text = hlo_enum_text(HLO_AK_ENUM_COMPARE_TYPE, type->v.i);
  put(o, "compare_type");
  hs_buf_printf(&o->props, "#stablehlo<comparison_type %s>", text ? text : "FLOAT");
  return true;
}

static void slice(const hlo_instr *i, print_op *o) {
  const hlo_slices *s = hlo_attr_ptr(i, HLO_ATTR_SLICE);
  i64 v[3][HLO_MAX_RANK];
  for (u32 k = 0; k < s->n; k++)
    v[0][k] = s->v[k].start, v[1][k] = s->v[k].limit, v[2][k] = s->v[k].stride;
  put_array(o, "start_indices", s->n, v[0]);
  put_array(o, "limit_indices", s->n, v[1]);
  put_array(o, "strides", s->n, v[2]);
}

static void pad(const hlo_instr *i, print_op *o) {
  const hlo_padding *p = hlo_attr_ptr(i, HLO_ATTR_PADDING);
  i64 v[3][HLO_MAX_RANK];
  for (u32 k = 0; k < p->n; k++)
    v[0][k] = p->v[k].low, v[1][k] = p->v[k].high, v[2][k] = p->v[k].interior;
  put_array(o, "edge_padding_low", p->n, v[0]);
  put_array(o, "edge_padding_high", p->n, v[1]);
  put_array(o, "interior_padding", p->n, v[2]);
}

// The shape is an operand of StableHLO's rng.
static void rng(mlir_printer *P, const hlo_instr *i, print_op *o) {
  static const char *const names[] = {"INVALID", "UNIFORM", "NORMAL"};
  i64 d = hlo_attr_int(i, HLO_ATTR_DISTRIBUTION, 1);
  u32 rank = i->shape->rank;
  i64 dims[1] = {rank};
  hs_buf name = {0};
  hs_buf_printf(&name, "%%$%u", P->fresh++);
  o->operands = HS_NEW_ARRAY(&P->arena, const char *, 4);
  o->operand_shapes = HS_NEW_ARRAY(&P->arena, const hlo_shape *, 4);
  for (u32 k = 0; k < 2; k++) {
    o->operands[k] = print_one(P, hlo_operand(i, k));
    o->operand_shapes[k] = hlo_operand(i, k)->shape;
  }
  o->operands[2] = hs_arena_strndup(&P->arena, name.p, name.n);
  o->operand_shapes[2] = hlo_shape_array(P->m->ctx, HLO_S64, 1, dims);
  o->noperands = 3;
  print_indent(P);
  hs_buf_printf(P->b, "%s = \"stablehlo.constant\"() <{value = dense<", o->operands[2]);
  if (rank) print_ints(P->b, "[", rank, i->shape->dims, "]");
  hs_buf_printf(P->b, "> : tensor<%uxi64>}> : () -> tensor<%uxi64>\n", rank, rank);
  hs_buf_free(&name);
  put(o, "rng_distribution");
  hs_buf_printf(&o->props, "#stablehlo<rng_distribution %s>",
                names[d == HLO_DISTRIBUTION_NORMAL ? 2 : 1]);
}

static void put_int(print_op *o, const char *name, i64 v, const char *type) {
  put(o, name);
  hs_buf_printf(&o->props, "%lld : %s", (long long)v, type);
}

bool print_special(mlir_printer *P, const hlo_instr *i, const mlir_row *row, print_op *o,
                   bool *done) {
  static const window_names reduced = {"window_dimensions", "window_strides", "base_dilations",
                                       "window_dilations", NULL},
                            scattered = {"window_dimensions", "window_strides", NULL, NULL, NULL};
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  (void)row;
  switch (i->opcode) {
  case HLO_CONSTANT: {
    put(o, "value");
    hs_buf *was = P->b;
    P->b = &o->props;
    bool ok = print_literal(P, i, hlo_constant_value(i));
    P->b = was;
    return ok;
  }
  case HLO_BROADCAST: return put_array(o, "broadcast_dimensions", d.n, d.v), true;
  case HLO_COMPARE: return compare(i, o);
  case HLO_DOT: return dot(P, i, o);
  case HLO_CONVOLUTION: return convolution(P, i, o);
  case HLO_SLICE: return slice(i, o), true;
  case HLO_PAD: return pad(i, o), true;
  case HLO_CHOLESKY:
    put(o, "lower");
    hs_buf_puts(&o->props, hlo_attr_int(i, HLO_ATTR_LOWER, 0) ? "true" : "false");
    return true;
  case HLO_REDUCE_PRECISION:
    put_int(o, "exponent_bits", hlo_attr_int(i, HLO_ATTR_EXPONENT_BITS, 0), "i32");
    put_int(o, "mantissa_bits", hlo_attr_int(i, HLO_ATTR_MANTISSA_BITS, 0), "i32");
    return true;
  case HLO_RNG: return rng(P, i, o), true;
  case HLO_OPT_BARRIER:
    if (hlo_shape_is_tuple(i->shape)) unpack(P, hlo_operand(i, 0), o);
    return true;
  case HLO_TOPK:
    if (!hlo_attr_int(i, HLO_ATTR_LARGEST, 1)) return print_fail(P, i, "the smallest elements");
    put_int(o, "k", hlo_attr_int(i, HLO_ATTR_K, 0), "i64");
    return true;
  case HLO_SORT:
    if (d.n != 1) return print_fail(P, i, "a sort along several dimensions");
    put_int(o, "dimension", d.v[0], "i64");
    put(o, "is_stable");
    hs_buf_puts(&o->props, hlo_attr_int(i, HLO_ATTR_IS_STABLE, 0) ? "true" : "false");
    return regions(i, o), true;
  case HLO_REDUCE_WINDOW:
    window(i, hlo_operand(i, 0)->shape->rank, &reduced, o);
    return regions(i, o), true;
  case HLO_SELECT_AND_SCATTER: {
    const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
    for (u32 k = 0; w && k < w->n; k++)
      if (w->v[k].lhs_dilate != 1 || w->v[k].rhs_dilate != 1)
        return print_fail(P, i, "a window with holes");
    window(i, hlo_operand(i, 0)->shape->rank, &scattered, o);
    return regions(i, o), true;
  }
  case HLO_MAP: {
    i64 all[HLO_MAX_RANK];
    for (u32 k = 0; k < i->shape->rank; k++) all[k] = k;
    put_array(o, "dimensions", i->shape->rank, all);
    *done = true;
    return regions(i, o), true;
  }
  case HLO_REDUCE:
  case HLO_SCATTER: return regions(i, o), true;
  case HLO_WHILE: {
    hlo_instr *state = hlo_operand(i, 0);
    if (hlo_shape_is_tuple(state->shape)) unpack(P, state, o);
    o->nregions = 2;
    o->regions[0] = hlo_attr_comp(i, HLO_ATTR_CONDITION);
    o->regions[1] = hlo_attr_comp(i, HLO_ATTR_BODY);
    return true;
  }
  case HLO_CONDITIONAL: return conditional(P, i, o), true;
  case HLO_CALL:
    if (hlo_attr_int(i, HLO_ATTR_IS_COMPOSITE, 0)) return composite(P, i, o);
    o->name = "func.call";
    put(o, "callee");
    print_symbol(&o->props, P->functions[hlo_called(i, 0)->id]);
    return true;
  case HLO_ALL_REDUCE:
  case HLO_REDUCE_SCATTER: regions(i, o); return collective(P, i, o);
  case HLO_ALL_GATHER:
  case HLO_ALL_TO_ALL:
  case HLO_COLLECTIVE_PERMUTE:
  case HLO_COLLECTIVE_BROADCAST: return collective(P, i, o);
  case HLO_CUSTOM_CALL: return *done = true, custom_call(P, i, o);
  case HLO_OUTFEED: return outfeed(P, i, o);
  case HLO_SCAN: return scan(P, i, o);
  case HLO_INFEED: return infeed(P, i, o);
  case HLO_DYNAMIC_RESHAPE: return print_fail(P, i, "its form");
  default: return true;
  }
}
