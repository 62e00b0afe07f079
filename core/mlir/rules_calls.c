// rules_calls.c — operations that call computations: functions, loops, branches, reducers,
// comparators; collectives and custom calls; and convolution, which shares windows with them.
#include "core/mlir/rules.h"

static bool want_regions(mlir_reader *R, const mlir_op *op, u32 n) {
  return op->nregions == n || mlir_fail(R, HS_E_ARITY, "%.*s has %u regions, not %u",
                                        (int)HS_MIN(op->name.n, 60u), op->name.p, op->nregions, n);
}

static bool push_comp(mlir_reader *R, mlir_op *op, u32 k, hlo_attr_id id, mlir_hlo_attrs *out) {
  hlo_computation *c = mlir_build_region(R, op->regions[k], NULL, MLIR_PLAIN);
  if (c) hs_vec_push(out, ((hlo_attr){id, {.comp = c}}));
  return c != NULL;
}

bool mlir_finish(mlir_reader *R, mlir_op *op, bool ok, u32 n, hlo_instr *const *in,
                 mlir_hlo_attrs *attrs) {
  hlo_instr *i = NULL;
  if (ok && mlir_row_attrs(R, op, attrs))
    i = mlir_emit(R, op->row->opcode, mlir_result_shape(R, op), n, in, (u32)attrs->n, attrs->v);
  hs_vec_free(attrs);
  return i && mlir_bind_results(R, op, i);
}

bool mlir_rule_with_region(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  if (!want_regions(R, op, 1) || !mlir_operands(R, op, &in)) return false;
  return mlir_finish(R, op, push_comp(R, op, 0, HLO_ATTR_TO_APPLY, &attrs), op->nops, in, &attrs);
}

bool mlir_rule_sort(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  i64 dim = -1, stable = 0;
  if (!want_regions(R, op, 1) || !mlir_operands(R, op, &in) ||
      !mlir_get_int(R, op, "dimension", &dim) || !mlir_get_int(R, op, "is_stable", &stable))
    return false;
  if (dim < 0) dim += in[0]->shape->rank;
  hs_vec_push(&attrs, mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, 1, &dim));
  if (stable) hs_vec_push(&attrs, ((hlo_attr){HLO_ATTR_IS_STABLE, {.i = 1}}));
  return mlir_finish(R, op, push_comp(R, op, 0, HLO_ATTR_TO_APPLY, &attrs), op->nops, in, &attrs);
}

// [@f, @g]
static bool called_by(mlir_reader *R, const mlir_op *op, hlo_comps *out) {
  mlir_span s, *v;
  u32 n = 0;
  *out = (hlo_comps){0, NULL};
  if (!mlir_get(R, &op->attrs, "called_computations", &s)) return true;
  if (!mlir_array_of(R, s, &n, &v)) return false;
  hlo_computation **c = HS_NEW_ARRAY(&R->m->arena, hlo_computation *, HS_MAX(n, 1u));
  for (u32 k = 0; k < n; k++) {
    hs_str name;
    if (!mlir_string_of(R, v[k], &name)) return false;
    mlir_func *f = mlir_names_find(&R->func_names, name, NULL);
    if (!f)
      return mlir_fail(R, HS_E_NAME, "there is no function '@%.*s'", (int)HS_MIN(name.n, 80u),
                       name.p);
    if (!(c[k] = mlir_build_func(R, f))) return false;
  }
  *out = (hlo_comps){n, c};
  return true;
}

// The one function that a call names, as the computation of an operation without a region.
static bool push_called(mlir_reader *R, const mlir_op *op, hlo_attr_id id, mlir_hlo_attrs *out) {
  hlo_comps called;
  if (!called_by(R, op, &called)) return false;
  if (called.n != 1)
    return mlir_fail(R, HS_E_ATTR, "%.*s names %u functions, not one", (int)HS_MIN(op->name.n, 60u),
                     op->name.p, called.n);
  hs_vec_push(out, ((hlo_attr){id, {.comp = called.v[0]}}));
  return true;
}

// ---- windows ------------------------------------------------------------------------------------
// One entry of a list per dimension, or its default.
static i64 entry(hlo_ints v, u32 k, i64 absent) { return k < v.n ? v.v[k] : absent; }

static bool push_window(mlir_reader *R, u32 n, const i64 *sizes, const hlo_ints lists[5],
                        mlir_hlo_attrs *out) {
  hlo_window_dim *v = HS_NEW_ARRAY(&R->m->arena, hlo_window_dim, HS_MAX(n, 1u));
  for (u32 k = 0; k < 5; k++)
    if (lists[k].n && lists[k].n != n * (k == 1 ? 2 : 1))
      return mlir_fail(R, HS_E_ATTR, "a window's lists want an entry for each of %u dimensions", n);
  for (u32 k = 0; k < n; k++)
    v[k] = (hlo_window_dim){.size = sizes[k],
                            .stride = entry(lists[0], k, 1),
                            .pad_low = entry(lists[1], 2 * k, 0),
                            .pad_high = entry(lists[1], 2 * k + 1, 0),
                            .lhs_dilate = entry(lists[2], k, 1),
                            .rhs_dilate = entry(lists[3], k, 1),
                            .reversal = entry(lists[4], k, 0) != 0};
  if (!n) return true;
  hlo_window *w = HS_NEW(&R->m->arena, hlo_window);
  *w = (hlo_window){n, v};
  hs_vec_push(out, ((hlo_attr){HLO_ATTR_WINDOW, {.p = w}}));
  return true;
}

static bool window_of(mlir_reader *R, mlir_op *op, mlir_hlo_attrs *out) {
  hlo_ints size = {0, NULL}, lists[5] = {{0, NULL}, {0, NULL}, {0, NULL}, {0, NULL}, {0, NULL}};
  if (!mlir_get_ints(R, op, "window_dimensions", &size) ||
      !mlir_get_ints(R, op, "window_strides", &lists[0]) ||
      !mlir_get_ints(R, op, "padding", &lists[1]) ||
      !mlir_get_ints(R, op, "base_dilations", &lists[2]) ||
      !mlir_get_ints(R, op, "window_dilations", &lists[3]))
    return false;
  // dense<0> : tensor<4x2xi64> has all of its elements; one number stands for all
  return push_window(R, size.n, size.v, lists, out);
}

bool mlir_rule_reduce_window(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  bool called = mlir_has(R, &op->attrs, "called_computations");
  if ((!called && !want_regions(R, op, 1)) || !mlir_operands(R, op, &in)) return false;
  bool ok = window_of(R, op, &attrs) && (called ? push_called(R, op, HLO_ATTR_TO_APPLY, &attrs)
                                                : push_comp(R, op, 0, HLO_ATTR_TO_APPLY, &attrs));
  return mlir_finish(R, op, ok, op->nops, in, &attrs);
}

bool mlir_rule_select_and_scatter(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  if (!want_regions(R, op, 2) || !mlir_operands(R, op, &in)) return false;
  bool ok = window_of(R, op, &attrs) && push_comp(R, op, 0, HLO_ATTR_SELECT, &attrs) &&
            push_comp(R, op, 1, HLO_ATTR_SCATTER, &attrs);
  return mlir_finish(R, op, ok, op->nops, in, &attrs);
}

// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], also inside #stablehlo.conv<..>, as HLO writes it:
// b01f_01io->b01f.
static bool dim_labels(mlir_reader *R, mlir_op *op, hlo_attr *out) {
  mlir_span s;
  hs_buf b = {0};
  if (!mlir_get(R, &op->attrs, "dim_numbers|dimension_numbers", &s))
    return mlir_fail(R, HS_E_ATTR, "convolution without dim_numbers");
  const char *p = memchr(s.p, '[', s.n), *end = s.p + s.n;
  if (!p || memmem(s.p, s.n, "raw", 3))
    return mlir_fail(R, HS_E_NO_HLO, "dimension numbers in raw form are not converted");
  for (bool inside = false; p < end; p++) {
    if (*p == '[') inside = true;
    else if (*p == ']') inside = false;
    else if (inside && *p != ',' && *p != ' ') hs_buf_putc(&b, *p);
    else if (!inside && *p == 'x') hs_buf_putc(&b, '_');
    else if (!inside && *p == '-') hs_buf_puts(&b, "->");
  }
  *out = (hlo_attr){HLO_ATTR_DIM_LABELS, {0}};
  bool ok = hlo_lex_status(RX, hlo_parse_attr(R->m, b.p ? b.p : "", b.n, out), s.p);
  hs_buf_free(&b);
  return ok;
}

bool mlir_rule_convolution(mlir_reader *R, mlir_op *op) {
  static const char *const pretty[] = {"stride", "pad", "lhs_dilate", "rhs_dilate", "reverse"};
  static const char *const generic[] = {"window_strides", "padding", "lhs_dilation", "rhs_dilation",
                                        "window_reversal"};
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  hlo_ints lists[5] = {{0, NULL}, {0, NULL}, {0, NULL}, {0, NULL}, {0, NULL}};
  hlo_attr labels;
  mlir_span s;
  mlir_attrs dict = {0};
  if (!mlir_operands(R, op, &in) || !dim_labels(R, op, &labels)) return false;
  if (op->nops != 2) return mlir_fail(R, HS_E_ARITY, "convolution has two operands");
  if (mlir_get(R, &op->attrs, "window", &s) && !mlir_dict_of(R, s, &dict)) return false;
  for (u32 k = 0; k < 5; k++) {
    if (!mlir_get_ints(R, op, generic[k], &lists[k])) return false;
    if (mlir_get(R, &dict, pretty[k], &s) && !mlir_ints_of(R, s, &lists[k], NULL)) return false;
  }
  const hlo_dim_labels *d = labels.v.p;
  i64 sizes[HLO_MAX_RANK];
  const hlo_shape *kernel = in[1]->shape;
  if (d->nspatial > HLO_MAX_RANK) return mlir_fail(R, HS_E_LIMIT, "too many dimensions");
  for (u32 k = 0; k < d->nspatial; k++) {
    if (d->rhs_spatial[k] >= kernel->rank)
      return mlir_fail(R, HS_E_SHAPE, "the kernel has too few dimensions");
    sizes[k] = kernel->dims[d->rhs_spatial[k]];
  }
  hs_vec_push(&attrs, labels);
  return mlir_finish(R, op, push_window(R, d->nspatial, sizes, lists, &attrs), op->nops, in,
                     &attrs);
}

// ---- functions and control flow -----------------------------------------------------------------
bool mlir_call(mlir_reader *R, mlir_op *op, hs_str name, hlo_instr **out) {
  hlo_instr **in = HS_NEW_ARRAY(&R->arena, hlo_instr *, op->nops + 1);
  for (u32 k = 0; k < op->nops; k++)
    if (!(in[k] = mlir_operand(R, op, k))) return false;
  mlir_func *f = mlir_names_find(&R->func_names, name, NULL);
  if (!f)
    return mlir_fail(R, HS_E_NAME, "there is no function '@%.*s'", (int)HS_MIN(name.n, 80u),
                     name.p);
  if (f->op->regions[0]->nargs != op->nops || f->nresults != op->nres)
    return mlir_fail(R, HS_E_ARITY, "'@%.*s' takes %u values and gives %u",
                     (int)HS_MIN(name.n, 80u), name.p, f->op->regions[0]->nargs, f->nresults);
  hlo_computation *c = mlir_take_arguments(R, f, op) ? mlir_build_func(R, f) : NULL;
  hlo_attr a = {HLO_ATTR_TO_APPLY, {.comp = c}};
  *out = c ? mlir_emit(R, HLO_CALL, NULL, op->nops, in, 1, &a) : NULL;
  return *out && mlir_bind_results(R, op, *out);
}

bool mlir_rule_call(mlir_reader *R, mlir_op *op) {
  hs_str name = {0};
  hlo_instr *i;
  return mlir_get_string(R, &op->attrs, "callee", &name) && mlir_call(R, op, name, &i);
}

// One value, or a tuple of any other number.
static hlo_instr *packed(mlir_reader *R, const mlir_values *v) {
  hlo_instr **in = HS_NEW_ARRAY(&R->arena, hlo_instr *, HS_MAX(v->n, 1u));
  for (size_t k = 0; k < v->n; k++)
    if (!(in[k] = mlir_value_instr(R, v->v[k]))) return NULL;
  return v->n == 1 ? in[0] : mlir_tuple(R, (u32)v->n, in);
}

bool mlir_rule_while(mlir_reader *R, mlir_op *op) {
  mlir_values captured = {0}, state = {0};
  hlo_attr a[2] = {{HLO_ATTR_CONDITION, {0}}, {HLO_ATTR_BODY, {0}}};
  hlo_instr *in = NULL, *i = NULL;
  if (!want_regions(R, op, 2)) return false;
  R->serial++;
  bool ok = op->nops == op->nres ||
            mlir_fail(R, HS_E_ARITY, "while has %u values and %u results", op->nops, op->nres);
  ok = ok && mlir_captured(R, op->regions[0], &captured) &&
       mlir_captured(R, op->regions[1], &captured);
  for (u32 k = 0; ok && k < op->nops; k++)
    for (u32 j = 0; j < 2; j++)
      if (k < op->regions[j]->nargs)
        mlir_take_shape(&op->regions[j]->args[k], mlir_real(op->ops[k])->shape);
  ok = ok && (a[1].v.comp = mlir_build_region(R, op->regions[1], &captured, MLIR_LOOP_BODY)) &&
       (a[0].v.comp = mlir_build_region(R, op->regions[0], &captured, MLIR_TUPLED));
  for (u32 k = 0; k < op->nops && ok; k++)
    if (!op->res[k].same) hs_vec_push(&state, op->ops[k]);
  for (size_t k = 0; k < captured.n; k++) hs_vec_push(&state, captured.v[k]);
  if (ok) in = packed(R, &state);
  if (in) i = mlir_emit(R, HLO_WHILE, NULL, 1, &in, 2, a);
  ok = i != NULL;
  for (u32 k = 0, at = 0; ok && k < op->nres; k++) {
    if (op->res[k].same) continue;
    hlo_instr *e = state.n == 1 ? i : mlir_gte(R, i, at++);
    if ((ok = e != NULL)) mlir_bind(R, &op->res[k], e);
  }
  hs_vec_free(&captured);
  hs_vec_free(&state);
  return ok;
}

// if: true and false computation; case: branches. Each has its captured values as operand.
bool mlir_rule_conditional(mlir_reader *R, mlir_op *op) {
  u32 n = op->nregions;
  hlo_instr **in = HS_NEW_ARRAY(&R->arena, hlo_instr *, n + 1), *i = NULL;
  hlo_computation **comps = HS_NEW_ARRAY(&R->m->arena, hlo_computation *, HS_MAX(n, 1u));
  if (op->nops != 1 || !n)
    return mlir_fail(R, HS_E_ARITY, "a conditional has one operand, and branches");
  bool pred = op->ops[0]->shape && op->ops[0]->shape->dtype == HLO_PRED;
  if (pred && n != 2) return mlir_fail(R, HS_E_ARITY, "if has two regions");
  bool ok = (in[0] = mlir_operand(R, op, 0)) != NULL;
  for (u32 k = 0; ok && k < n; k++) {
    mlir_values captured = {0};
    R->serial++;
    ok = mlir_captured(R, op->regions[k], &captured) &&
         (comps[k] = mlir_build_region(R, op->regions[k], &captured, MLIR_TUPLED)) &&
         (in[k + 1] = packed(R, &captured));
    hs_vec_free(&captured);
  }
  if (ok && pred) {
    const hlo_attr a[2] = {{HLO_ATTR_TRUE_COMPUTATION, {.comp = comps[0]}},
                           {HLO_ATTR_FALSE_COMPUTATION, {.comp = comps[1]}}};
    i = mlir_emit(R, HLO_CONDITIONAL, NULL, n + 1, in, 2, a);
  } else if (ok) {
    const hlo_attr a = {HLO_ATTR_BRANCH_COMPUTATIONS, {0}};
    hlo_attr b = a;
    *(hlo_comps *)&b.v = (hlo_comps){n, comps};
    i = mlir_emit(R, HLO_CONDITIONAL, NULL, n + 1, in, 1, &b);
  }
  return i && mlir_bind_results(R, op, i);
}

// ---- collectives --------------------------------------------------------------------------------
static bool groups_of(mlir_reader *R, mlir_op *op, mlir_hlo_attrs *out) {
  hlo_ints v = {0, NULL}, dims = {0, NULL};
  mlir_span s;
  if (!mlir_get(R, &op->attrs, "replica_groups", &s)) return true;
  if (!mlir_ints_of(R, s, &v, &dims)) return false;
  i64 rows = dims.n == 2 ? dims.v[0] : 0, columns = dims.n == 2 ? dims.v[1] : 0;
  hlo_replica_groups *g = HS_NEW(&R->m->arena, hlo_replica_groups);
  hlo_ints *lists = HS_NEW_ARRAY(&R->m->arena, hlo_ints, HS_MAX(rows, 1));
  for (i64 k = 0; k < rows; k++) {
    u32 n = 0;
    while (n < columns && v.v[k * columns + n] >= 0) n++;  // filled up with -1
    lists[k] = (hlo_ints){n, v.v + k * columns};
  }
  g->form = HLO_GROUPS_LIST;
  g->groups = (hlo_int_lists){(u32)rows, lists};
  hs_vec_push(out, ((hlo_attr){HLO_ATTR_REPLICA_GROUPS, {.p = g}}));
  return true;
}

static bool channel_of(mlir_reader *R, mlir_op *op, mlir_hlo_attrs *out) {
  i64 id = 0, global = 0;
  if (!mlir_get_int(R, op, "channel_handle.handle|channel_id", &id) ||
      !mlir_get_int(R, op, "use_global_device_ids", &global))
    return false;
  // 0 stands for none
  bool zero = R->opt.as_written && mlir_has(R, &op->attrs, "channel_handle");
  if (id > 0 || zero) hs_vec_push(out, ((hlo_attr){HLO_ATTR_CHANNEL_ID, {.i = id}}));
  if (global) hs_vec_push(out, ((hlo_attr){HLO_ATTR_USE_GLOBAL_DEVICE_IDS, {.i = 1}}));
  return true;
}

bool mlir_rule_collective(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  mlir_span s;
  if (!mlir_operands(R, op, &in)) return false;
  bool ok = channel_of(R, op, &attrs) && groups_of(R, op, &attrs);
  if (ok && mlir_get(R, &op->attrs, "source_target_pairs", &s)) {
    hlo_ints v = {0, NULL};
    ok = mlir_ints_of(R, s, &v, NULL);
    v.n /= 2;
    hs_vec_push(&attrs, ((hlo_attr){HLO_ATTR_SOURCE_TARGET_PAIRS, {.ints = v}}));
  }
  if (ok && op->nregions) ok = push_comp(R, op, 0, HLO_ATTR_TO_APPLY, &attrs);
  return mlir_finish(R, op, ok, op->nops, in, &attrs);
}

// Split and concatenated along one dimension, HLO's form with a dimension does both at once; along
// two, the parts are then moved from the one to the other.
static hlo_instr *move_parts(mlir_reader *R, hlo_instr *i, i64 count, i64 split, i64 concat,
                             const hlo_shape *to) {
  u32 rank = i->shape->rank, n = 0;
  i64 sizes[HLO_MAX_RANK + 1], perm[HLO_MAX_RANK + 1];
  if (rank >= HLO_MAX_RANK || split < 0 || split >= rank || concat < 0 || concat >= rank ||
      count < 1 || i->shape->dims[split] % count)
    return mlir_fail(R, HS_E_ATTR, "all_to_all does not divide the dimension"), NULL;
  for (u32 k = 0; k < rank; k++) {
    if (k == split) sizes[n++] = count;
    sizes[n++] = k == split ? i->shape->dims[k] / count : i->shape->dims[k];
  }
  n = 0;
  for (u32 k = 0; k <= rank; k++) {
    if (k == split) continue;
    if ((k > split ? k - 1 : k) == concat) perm[n++] = split;
    perm[n++] = k;
  }
  hlo_attr a = mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, n, perm);
  const hlo_shape *parts = hlo_shape_array(R->ctx, i->shape->dtype, n, sizes);
  i = mlir_emit(R, HLO_RESHAPE, parts, 1, &i, 0, NULL);
  if (i) i = mlir_emit(R, HLO_TRANSPOSE, NULL, 1, &i, 1, &a);
  return i ? mlir_emit(R, HLO_RESHAPE, to, 1, &i, 0, NULL) : NULL;
}

bool mlir_rule_all_to_all(mlir_reader *R, mlir_op *op) {
  i64 split = 0, concat = 0, count = 1;
  hlo_instr **in, *i = NULL;
  mlir_hlo_attrs attrs = {0};
  if (!mlir_operands(R, op, &in) || !mlir_get_int(R, op, "split_dimension", &split) ||
      !mlir_get_int(R, op, "concat_dimension", &concat) ||
      !mlir_get_int(R, op, "split_count", &count))
    return false;
  if (op->nops != 1)
    return mlir_fail(R, HS_E_NO_HLO, "all_to_all of several operands is not converted");
  bool ok = channel_of(R, op, &attrs) && groups_of(R, op, &attrs);
  hs_vec_push(&attrs, mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, 1, &split));
  const hlo_shape *same = split == concat ? op->res[0].shape : in[0]->shape->logical;
  if (ok) i = mlir_emit(R, HLO_ALL_TO_ALL, same, 1, in, (u32)attrs.n, attrs.v);
  hs_vec_free(&attrs);
  if (i && split != concat) i = move_parts(R, i, count, split, concat, op->res[0].shape);
  return mlir_bind_results(R, op, i);
}

// ---- custom calls -------------------------------------------------------------------------------
static hs_str kept(mlir_reader *R, hs_str s) {
  return (hs_str){hs_arena_strndup(&R->m->arena, s.p, s.n), s.n};
}

// A list of layouts, one for each of the shapes; the arrays among them get theirs.
static bool with_layouts(mlir_reader *R, const mlir_op *op, const char *name, u32 n,
                         const hlo_shape **shapes, bool *given) {
  mlir_span s, *v;
  u32 count;
  *given = mlir_get(R, &op->attrs, name, &s);
  if (!*given) return true;
  if (!mlir_array_of(R, s, &count, &v)) return false;
  if (n != count) return mlir_fail(R, HS_E_ATTR, "%u values and %u of %s", n, count, name);
  for (u32 k = 0; k < n; k++) {
    hlo_ints order = {0, NULL};
    u64 seen = 0;
    if (!mlir_ints_of(R, v[k], &order, NULL)) return false;
    if (!hlo_shape_is_array(shapes[k])) continue;
    for (u32 j = 0; j < order.n; j++)
      if (order.v[j] >= 0 && order.v[j] < HLO_MAX_RANK) seen |= (u64)1 << order.v[j];
    if (order.n != shapes[k]->rank || __builtin_popcountll(seen) != (int)order.n ||
        (order.n < HLO_MAX_RANK && seen >> order.n))
      return hlo_lex_error(RX, HS_E_LAYOUT, v[k].p, "no order of the dimensions of value %u", k);
    hlo_layout l = {.rank = order.n, .minor_to_major = order.v, .tail_alignment = 1};
    shapes[k] = hlo_shape_with_layout(R->ctx, shapes[k], hlo_layout_intern(R->ctx, &l));
  }
  return true;
}

static bool layouts_of(mlir_reader *R, const mlir_op *op, hlo_instr *const *in, mlir_hlo_attrs *out,
                       const hlo_shape **result) {
  bool given;
  const hlo_shape **v = HS_NEW_ARRAY(&R->m->arena, const hlo_shape *, op->nops + op->nres + 1);
  for (u32 k = 0; k < op->nops; k++) v[k] = in[k]->shape->logical;
  for (u32 k = 0; k < op->nres; k++) v[op->nops + k] = op->res[k].shape->logical;
  if (!with_layouts(R, op, "operand_layouts", op->nops, v, &given)) return false;
  if (given) {
    hlo_shapes *p = HS_NEW(&R->m->arena, hlo_shapes);
    *p = (hlo_shapes){op->nops, v};
    hs_vec_push(out, ((hlo_attr){HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS, {.p = p}}));
  }
  const hlo_shape **r = v + op->nops;
  if (op->nres && !with_layouts(R, op, "result_layouts", op->nres, r, &given)) return false;
  *result = op->nres == 1 ? r[0] : hlo_shape_tuple(R->ctx, op->nres, r);
  return true;
}

// [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, ...>]
static bool aliases_of(mlir_reader *R, const mlir_op *op, mlir_hlo_attrs *out) {
  mlir_span s, *v;
  u32 n;
  if (!mlir_get(R, &op->attrs, "output_operand_aliases", &s)) return true;
  if (!mlir_array_of(R, s, &n, &v)) return false;
  hlo_alias_entry *e = HS_NEW_ARRAY(&R->m->arena, hlo_alias_entry, HS_MAX(n, 1u));
  for (u32 k = 0; k < n; k++) {
    mlir_attr a = {HS_STR("alias"), v[k]};
    const mlir_attrs one = {1, &a};
    if ((mlir_get(R, &one, "alias.output_tuple_indices", &s) &&
         !mlir_ints_of(R, s, &e[k].out_index, NULL)) ||
        (mlir_get(R, &one, "alias.operand_index", &s) && !mlir_int_of(R, s, &e[k].param)) ||
        (mlir_get(R, &one, "alias.operand_tuple_indices", &s) &&
         !mlir_ints_of(R, s, &e[k].param_index, NULL)))
      return false;
  }
  hlo_aliases *p = HS_NEW(&R->m->arena, hlo_aliases);
  *p = (hlo_aliases){n, e};
  if (n) hs_vec_push(out, ((hlo_attr){HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING, {.p = p}}));
  return true;
}

// ApproxTopK on values and what goes with them (indices), each with a start value: XLA's conversion
// sorts them all where its configuration, a dictionary, says is_fallback, and takes what comes
// first. Without that word it is for TPUs and stays a call. False also after an error.
static bool sorts_approximately(mlir_reader *R, const mlir_op *op, hs_str target, mlir_span config,
                                i64 *dim) {
  mlir_attrs dict = {0};
  mlir_span s;
  i64 sorts = 0;
  return !R->opt.as_written && hs_str_eq(target, HS_STR("ApproxTopK")) && config.n &&
         *config.p == '{' && op->nres && op->nops == 2 * op->nres &&
         mlir_dict_of(R, config, &dict) && mlir_get(R, &dict, "is_fallback", &s) &&
         mlir_int_of(R, s, &sorts) && sorts && mlir_get(R, &dict, "reduction_dim", &s) &&
         mlir_int_of(R, s, dim);
}

static bool sort_and_take(mlir_reader *R, mlir_op *op, hlo_instr *const *in, i64 dim) {
  mlir_hlo_attrs sort = {0};
  hs_vec_push(&sort, mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, 1, &dim));
  bool ok = push_called(R, op, HLO_ATTR_TO_APPLY, &sort);
  hlo_instr *sorted = ok ? mlir_emit(R, HLO_SORT, NULL, op->nres, in, (u32)sort.n, sort.v) : NULL;
  hs_vec_free(&sort);
  for (u32 k = 0; sorted && k < op->nres; k++) {
    const hlo_shape *to = op->res[k].shape;
    hlo_instr *all = op->nres == 1 ? sorted : mlir_gte(R, sorted, k);
    if (!all || !hlo_shape_is_array(to) || to->rank != all->shape->rank)
      return !RX->failed && mlir_fail(R, HS_E_SHAPE, "ApproxTopK changes the number of dimensions");
    hlo_slice_dim *v = HS_NEW_ARRAY(&R->m->arena, hlo_slice_dim, to->rank + 1);
    for (u32 d = 0; d < to->rank; d++) v[d] = (hlo_slice_dim){0, to->dims[d], 1};
    hlo_slices *p = HS_NEW(&R->m->arena, hlo_slices);
    *p = (hlo_slices){to->rank, v};
    hlo_attr slice = {HLO_ATTR_SLICE, {.p = p}};
    if (!(all = mlir_emit(R, HLO_SLICE, to, 1, &all, 1, &slice))) return false;
    mlir_bind(R, &op->res[k], all);
  }
  return sorted != NULL;
}

bool mlir_rule_custom_call(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  hs_str target = {0}, config = {0};
  i64 effect = 0, api = 1;
  mlir_span s;
  if (!mlir_operands(R, op, &in) ||
      !mlir_get_string(R, &op->attrs, "callee|call_target_name", &target) ||
      !mlir_get_int(R, op, "has_side_effect", &effect) || !mlir_get_int(R, op, "api_version", &api))
    return false;
  bool done = false;
  if (hs_str_eq(target, HS_STR("stablehlo.dynamic_reduce_window")))
    return mlir_dynamic_reduce_window(R, op);
  if (hs_str_eq(target, HS_STR("shape_assertion")) && !mlir_size_assertion(R, op, &done))
    return false;
  if (done) return true;
  // a dictionary in mhlo's name is what a typed FFI call gets
  bool typed = mlir_get(R, &op->attrs, "mhlo.backend_config", &s) && s.n && *s.p == '{';
  i64 dim = 0;
  if (typed && sorts_approximately(R, op, target, s, &dim)) return sort_and_take(R, op, in, dim);
  if (RX->failed) return false;
  if (typed) api = HLO_API_VERSION_TYPED_FFI;
  hs_vec_push(&attrs, ((hlo_attr){HLO_ATTR_CUSTOM_CALL_TARGET, {.s = kept(R, target)}}));
  if (effect) hs_vec_push(&attrs, ((hlo_attr){HLO_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, {.i = 1}}));
  if (api > 1 && api < HLO_API_VERSION_COUNT)
    hs_vec_push(&attrs, ((hlo_attr){HLO_ATTR_API_VERSION, {.i = api}}));
  const hlo_shape *result = NULL;
  bool ok = layouts_of(R, op, in, &attrs, &result) && aliases_of(R, op, &attrs);
  if (ok && (typed || mlir_get(R, &op->attrs, "backend_config", &s)) && s.n) {
    bool dict = *s.p == '{';
    ok = dict || mlir_string_of(R, s, &config);
    if (dict) config = s;
    if (config.n) {
      hlo_backend_config *b = HS_NEW(&R->m->arena, hlo_backend_config);
      *b = (hlo_backend_config){kept(R, config), dict};
      hs_vec_push(&attrs, ((hlo_attr){HLO_ATTR_BACKEND_CONFIG, {.p = b}}));
    }
  }
  hlo_attr called = {HLO_ATTR_CALLED_COMPUTATIONS, {0}};
  ok = ok && called_by(R, op, &called.v.comps);
  if (called.v.comps.n) hs_vec_push(&attrs, called);
  hlo_instr *i =
      ok ? mlir_emit(R, HLO_CUSTOM_CALL, result, op->nops, in, (u32)attrs.n, attrs.v) : NULL;
  hs_vec_free(&attrs);
  return i && mlir_bind_results(R, op, i);
}
