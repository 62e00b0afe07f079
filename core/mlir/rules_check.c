// rules_check.c — the dialects check and interpreter, in which StableHLO's tests say what they
// expect: a check is a custom call of its name with the value and what is expected of it, and
// programs run side by side are one program that every device runs.
#include "core/mlir/rules.h"

// check.expect_eq %a, %b; check.expect_eq_const %a, dense<..>: both of them expect_eq(a, b). What
// else is stated is the configuration, "tolerance=0.1;".
bool mlir_rule_check(mlir_reader *R, mlir_op *op) {
  static const char *const options[] = {"tolerance", "max_ulp_difference", "min_ulp_difference"};
  hlo_instr *in[2] = {NULL, NULL};
  mlir_span s;
  hs_str name = op->name;
  if (op->nops < 1 || op->nops > 2)
    return mlir_fail(R, HS_E_ARITY, "%.*s has %u operands", (int)HS_MIN(name.n, 60u), name.p,
                     op->nops);
  for (u32 k = 0; k < op->nops; k++)
    if (!(in[k] = mlir_operand(R, op, k))) return false;
  if (op->nops == 1) {
    hlo_literal *l;
    if (!mlir_get(R, &op->attrs, "value", &s))
      return mlir_fail(R, HS_E_ATTR, "a check without the value that is expected");
    if (!mlir_dense(R, s, op->ops[0]->shape, &l)) return false;
    if (!(in[1] = mlir_constant(R, l))) return false;
    if (name.n > 6 && !memcmp(name.p + name.n - 6, "_const", 6)) name.n -= 6;
  }
  hs_buf b = {0};
  for (size_t k = 0; k < HS_COUNT(options); k++)
    if (mlir_get(R, &op->attrs, options[k], &s))
      hs_buf_printf(&b, "%s=%.*s;", options[k], (int)strcspn(s.p, " :"), s.p);
  hlo_attr a[3] = {{HLO_ATTR_CUSTOM_CALL_TARGET,
                    {.s = {hs_arena_strndup(&R->m->arena, name.p, name.n), name.n}}},
                   {HLO_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, {.i = 1}}};
  if (b.n) {
    hlo_backend_config *c = HS_NEW(&R->m->arena, hlo_backend_config);
    *c = (hlo_backend_config){{hs_arena_strndup(&R->m->arena, b.p, b.n), b.n}, false};
    a[2] = (hlo_attr){HLO_ATTR_BACKEND_CONFIG, {.p = c}};
  }
  u32 n = b.n ? 3 : 2;
  hs_buf_free(&b);
  return mlir_emit(R, HLO_CUSTOM_CALL, hlo_shape_tuple(R->ctx, 0, NULL), 2, in, n, a) != NULL;
}

// A value that is written to a file or printed on the way: itself.
bool mlir_rule_probe(mlir_reader *R, mlir_op *op) {
  hlo_instr *i = op->nops ? mlir_operand(R, op, 0) : NULL;
  if (i && op->nres == 1) mlir_bind(R, &op->res[0], i);
  return i != NULL;
}

// ---- programs side by side ----------------------------------------------------------------------
typedef struct grid {
  u32 replicas, partitions, n;
  hs_str name;        // of the function that all run
  hlo_instr *device;  // number of the device that runs this, u32
} grid;

// [[@f, @f], [@f, @f]]: a row for each replica.
static bool read_grid(mlir_reader *R, mlir_op *op, grid *g) {
  mlir_span s, *rows, *v;
  u32 n;
  if (!mlir_get(R, &op->attrs, "programs", &s) || !mlir_array_of(R, s, &g->replicas, &rows))
    return RX->failed ? false : mlir_fail(R, HS_E_ATTR, "run_parallel without programs");
  if (mlir_has(R, &op->attrs, "infeed"))
    return mlir_fail(R, HS_E_NO_HLO, "functions that feed a queue have no form in HLO");
  for (u32 k = 0; k < g->replicas; k++) {
    if (!mlir_array_of(R, rows[k], &n, &v)) return false;
    if (!n || (k && n != g->partitions))
      return mlir_fail(R, HS_E_ATTR, "the rows of programs differ in length");
    g->partitions = n;
    for (u32 j = 0; j < n; j++) {
      hs_str name;
      if (!mlir_string_of(R, v[j], &name)) return false;
      if (g->name.n && !hs_str_eq(g->name, name))
        return mlir_fail(R, HS_E_NO_HLO, "different programs side by side have no form in HLO");
      g->name = name;
    }
  }
  g->n = g->replicas * g->partitions;
  return g->n > 0 || mlir_fail(R, HS_E_ATTR, "run_parallel without programs");
}

static hlo_instr *scalar(mlir_reader *R, i64 v) {
  return mlir_constant(R, hlo_literal_scalar_i64(R->ctx, HLO_U32, v));
}

static hlo_instr *device_number(mlir_reader *R, const grid *g) {
  hlo_instr *replica = mlir_emit(R, HLO_REPLICA_ID, NULL, 0, NULL, 0, NULL),
            *partition = replica ? mlir_emit(R, HLO_PARTITION_ID, NULL, 0, NULL, 0, NULL) : NULL,
            *count = partition ? scalar(R, g->partitions) : NULL;
  if (!count) return NULL;
  hlo_instr *row[2] = {replica, count};
  hlo_instr *both[2] = {mlir_emit(R, HLO_MULTIPLY, NULL, 2, row, 0, NULL), partition};
  return both[0] ? mlir_emit(R, HLO_ADD, NULL, 2, both, 0, NULL) : NULL;
}

static const hlo_shape *stacked(mlir_reader *R, const hlo_shape *s, i64 n) {
  i64 dims[HLO_MAX_RANK + 1] = {n};
  for (u32 k = 0; k < s->rank; k++) dims[k + 1] = s->dims[k];
  return hlo_shape_array(R->ctx, s->dtype, s->rank + 1, dims);
}

// Of the values of all devices, in their order, this one's.
static hlo_instr *own_value(mlir_reader *R, const grid *g, hlo_instr *const *v) {
  const hlo_shape *s = v[0]->shape->logical, *one;
  if (!hlo_shape_is_array(s)) return v[0];
  if (s->rank == HLO_MAX_RANK) return mlir_fail(R, HS_E_LIMIT, "too many dimensions"), NULL;
  hlo_instr **rows = HS_NEW_ARRAY(&R->arena, hlo_instr *, g->n),
            **in = HS_NEW_ARRAY(&R->arena, hlo_instr *, s->rank + 2);
  one = stacked(R, s, 1);
  for (u32 k = 0; k < g->n; k++)
    if (v[k]->shape->logical != s || !(rows[k] = mlir_emit(R, HLO_RESHAPE, one, 1, &v[k], 0, NULL)))
      return RX->failed ? NULL : (mlir_fail(R, HS_E_SHAPE, "the devices' operands differ"), NULL);
  i64 zero = 0;
  hlo_attr a = mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, 1, &zero);
  in[0] = mlir_emit(R, HLO_CONCATENATE, NULL, g->n, rows, 1, &a);
  in[1] = g->device;
  for (u32 k = 0; in[0] && k < s->rank; k++)
    if (!(in[k + 2] = scalar(R, 0))) return NULL;
  a = mlir_ints_attr(R, HLO_ATTR_DYNAMIC_SLICE_SIZES, one->rank, one->dims);
  hlo_instr *i = in[0] ? mlir_emit(R, HLO_DYNAMIC_SLICE, one, s->rank + 2, in, 1, &a) : NULL;
  return i ? mlir_emit(R, HLO_RESHAPE, s, 1, &i, 0, NULL) : NULL;
}

// What every device has, on every device.
static hlo_instr *everywhere(mlir_reader *R, const grid *g, hlo_instr *i) {
  const hlo_shape *s = i->shape->logical;
  i64 zero = 0, *ids = HS_NEW_ARRAY(&R->m->arena, i64, g->n);
  hlo_ints *row = HS_NEW(&R->m->arena, hlo_ints);
  hlo_replica_groups *groups = HS_NEW(&R->m->arena, hlo_replica_groups);
  for (u32 k = 0; k < g->n; k++) ids[k] = k;
  *row = (hlo_ints){g->n, ids};
  *groups = (hlo_replica_groups){.form = HLO_GROUPS_LIST, .groups = {1, row}};
  // a number that no program has
  const hlo_attr a[] = {{HLO_ATTR_CHANNEL_ID, {.i = 1 << 20}},
                        {HLO_ATTR_REPLICA_GROUPS, {.p = groups}},
                        mlir_ints_attr(R, HLO_ATTR_DIMENSIONS, 1, &zero),
                        {HLO_ATTR_USE_GLOBAL_DEVICE_IDS, {.i = 1}}};
  i = mlir_emit(R, HLO_RESHAPE, stacked(R, s, 1), 1, &i, 0, NULL);
  return i ? mlir_emit(R, HLO_ALL_GATHER, stacked(R, s, g->n), 1, &i, HS_COUNT(a), a) : NULL;
}

static hlo_instr *value_of(mlir_reader *R, hlo_instr *all, const hlo_shape *s, i64 device) {
  u32 n = s->rank + 1;
  hlo_slice_dim *v = HS_NEW_ARRAY(&R->m->arena, hlo_slice_dim, n);
  hlo_slices *p = HS_NEW(&R->m->arena, hlo_slices);
  v[0] = (hlo_slice_dim){device, device + 1, 1};
  for (u32 k = 1; k < n; k++) v[k] = (hlo_slice_dim){0, s->dims[k - 1], 1};
  *p = (hlo_slices){n, v};
  hlo_attr a = {HLO_ATTR_SLICE, {.p = p}};
  hlo_instr *i = mlir_emit(R, HLO_SLICE, NULL, 1, &all, 1, &a);
  return i ? mlir_emit(R, HLO_RESHAPE, s, 1, &i, 0, NULL) : NULL;
}

static bool bind_devices(mlir_reader *R, mlir_op *op, const grid *g, hlo_instr *made) {
  u32 n = op->nres / g->n;
  for (u32 j = 0; j < n; j++) {
    hlo_instr *own = n == 1 ? made : mlir_gte(R, made, j), *all;
    if (!own) return false;
    bool array = hlo_shape_is_array(own->shape);
    if (!(all = array ? everywhere(R, g, own) : own)) return false;
    for (u32 d = 0; d < g->n; d++) {
      hlo_instr *e = array ? value_of(R, all, own->shape->logical, d) : own;
      if (!e) return false;
      mlir_bind(R, &op->res[d * n + j], e);
    }
  }
  return true;
}

// Each device takes its operands out of all of them, calls the program, and shares the results.
bool mlir_rule_run_parallel(mlir_reader *R, mlir_op *op) {
  grid g = {0};
  if (!read_grid(R, op, &g)) return false;
  if (op->nops % g.n || op->nres % g.n)
    return mlir_fail(R, HS_E_ARITY, "the operands or results do not divide among the programs");
  mlir_func *f = mlir_names_find(&R->func_names, g.name, NULL);
  hlo_computation *c = f ? mlir_build_func(R, f) : NULL;
  if (!c)
    return RX->failed ? false
                      : mlir_fail(R, HS_E_NAME, "there is no function '@%.*s'",
                                  (int)HS_MIN(g.name.n, 80u), g.name.p);
  u32 n = op->nops / g.n;
  if (n != c->nparams || op->nres / g.n != f->nresults)
    return mlir_fail(R, HS_E_ARITY, "the program takes other operands or gives other results");
  hlo_instr **v = HS_NEW_ARRAY(&R->arena, hlo_instr *, g.n),
            **in = HS_NEW_ARRAY(&R->arena, hlo_instr *, n + 1);
  if (!(g.device = device_number(R, &g))) return false;
  for (u32 j = 0; j < n; j++) {
    for (u32 d = 0; d < g.n; d++)
      if (!(v[d] = mlir_operand(R, op, d * n + j))) return false;
    if (!(in[j] = own_value(R, &g, v))) return false;
  }
  hlo_attr a = {HLO_ATTR_TO_APPLY, {.comp = c}};
  hlo_instr *made = mlir_emit(R, HLO_CALL, NULL, n, in, 1, &a);
  if (g.replicas > 1)
    hlo_set_module_attr(R->m, (hlo_attr){HLO_ATTR_REPLICA_COUNT, {.i = g.replicas}});
  if (g.partitions > 1)
    hlo_set_module_attr(R->m, (hlo_attr){HLO_ATTR_NUM_PARTITIONS, {.i = g.partitions}});
  return made && bind_devices(R, op, &g, made);
}
