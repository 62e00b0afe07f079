// rules_sdy.c — Shardy: a mesh is a name (sharding.c), a constraint is a custom call,
// and a computation by devices is a call between two custom calls that change the shapes, as XLA
// hands them to its partitioner.
#include "core/mlir/rules.h"

bool mlir_rule_mesh(mlir_reader *R, mlir_op *op) { return (void)R, (void)op, true; }

// A call of `target` from n values to shapes, with the given attributes of the framework.
static hlo_instr *marker(mlir_reader *R, hs_str target, u32 n, hlo_instr *const *in,
                         const hlo_shape *to, u32 nattrs, hlo_frontend_entry *e) {
  hlo_attr a[3] = {{HLO_ATTR_CUSTOM_CALL_TARGET, {.s = target}},
                   {HLO_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, {.i = 1}}};
  (void)mlir_frontend(R, nattrs, e, &a[2]);
  return mlir_emit(R, HLO_CUSTOM_CALL, to, n, in, 3, a);
}

// In generic form the value is whole already.
static hs_str text_of(mlir_reader *R, const char *before, mlir_span s, const char *after) {
  if (s.n > strlen(before) && memcmp(s.p, before, strlen(before)) == 0) before = after = "";
  char *p = hs_format("%s%.*s%s", before, (int)s.n, s.p, after);
  hs_str text = {hs_arena_strndup(&R->arena, p, strlen(p)), strlen(p)};
  hs_free(p);
  return text;
}

hlo_instr *mlir_result_sharding(mlir_reader *R, hlo_instr *i, mlir_span sharding) {
  const char *open = memchr(sharding.p, '<', sharding.n);
  if (open) sharding = (mlir_span){open, (size_t)(sharding.p + sharding.n - open)};
  hlo_frontend_entry e = {HS_STR("xla.sdy.sharding"),
                          text_of(R, "#sdy.sharding_per_value<[", sharding, "]>")};
  return marker(R, HS_STR("xla.sdy.FuncResultSharding"), 1, &i, i->shape->logical, 1, &e);
}

bool mlir_rule_sharding_constraint(mlir_reader *R, mlir_op *op) {
  hlo_instr *i = op->nops == 1 ? mlir_operand(R, op, 0) : NULL;
  mlir_span s;
  hs_buf b = {0};
  if (!i || !mlir_get(R, &op->attrs, "sharding|value", &s))
    return RX->failed ? false : mlir_fail(R, HS_E_ATTR, "a constraint without a sharding");
  hlo_attr a[3] = {{HLO_ATTR_CUSTOM_CALL_TARGET, {.s = HS_STR("Sharding")}},
                   {HLO_ATTR_SHARDING, {0}}};
  const char *open = memchr(s.p, '<', s.n);
  if (open) s = (mlir_span){open, (size_t)(s.p + s.n - open)};
  hlo_frontend_entry e = {HS_STR("xla.sdy.sharding"),
                          text_of(R, "#sdy.sharding_per_value<[", s, "]>")};
  bool ok = mlir_sdy_sharding(R, s, &b) &&
            hlo_lex_status(RX, hlo_parse_attr(R->m, b.p, b.n, &a[1]), op->at) &&
            mlir_frontend(R, 1, &e, &a[2]);
  hs_buf_free(&b);
  return ok &&
         mlir_bind_results(R, op, mlir_emit(R, HLO_CUSTOM_CALL, op->res[0].shape, 1, &i, 3, a));
}

// The elements of a tuple, or the value itself.
static bool split(mlir_reader *R, hlo_instr *i, u32 n, hlo_instr **out) {
  for (u32 k = 0; i && k < n; k++)
    if (!(out[k] = n == 1 ? i : mlir_gte(R, i, k))) return false;
  return i != NULL;
}

static const hlo_shape *shape_of(mlir_reader *R, u32 n, const mlir_value *v) {
  const hlo_shape **s = HS_NEW_ARRAY(&R->arena, const hlo_shape *, n + 1);
  for (u32 k = 0; k < n; k++) s[k] = v[k].shape;
  return n == 1 ? s[0] : hlo_shape_tuple(R->ctx, n, s);
}

bool mlir_rule_manual_computation(mlir_reader *R, mlir_op *op) {
  mlir_span in_text, out_text, axes;
  u32 n = op->nops, most = HS_MAX(op->nops, op->nres);
  hlo_instr **v = HS_NEW_ARRAY(&R->arena, hlo_instr *, most + 1), *i = NULL;
  if (op->nregions != 1 || op->regions[0]->nargs != n)
    return mlir_fail(R, HS_E_ARITY, "a manual computation wants an argument for each operand");
  if (!mlir_get(R, &op->attrs, "in_shardings", &in_text) ||
      !mlir_get(R, &op->attrs, "out_shardings", &out_text) ||
      !mlir_get(R, &op->attrs, "manual_axes", &axes))
    return mlir_fail(R, HS_E_ATTR, "a manual computation without shardings or axes");
  hlo_frontend_entry e[2] = {
      {HS_STR("xla.sdy.in_shardings"), text_of(R, "#sdy.sharding_per_value<", in_text, ">")},
      {HS_STR("xla.sdy.manual_axes"), text_of(R, "#sdy<manual_axes", axes, ">")}};
  for (u32 k = 0; k < n; k++)
    if (!(v[k] = mlir_operand(R, op, k))) return false;
  const hlo_shape *local = shape_of(R, n, op->regions[0]->args);
  if (n) {
    i = marker(R, HS_STR("xla.sdy.GlobalToLocalShape"), n, v, local, 2, e);
    if (!split(R, i, n, v)) return false;
  }
  hlo_computation *c = mlir_build_region(R, op->regions[0], NULL, MLIR_PLAIN);
  if (!c) return false;
  hlo_set_computation_name(c, "xla.sdy.manual_computation_body");
  hlo_attr a[2] = {{HLO_ATTR_TO_APPLY, {.comp = c}}};
  hlo_frontend_entry whole = {HS_STR("inlineable"), HS_STR("false")};
  (void)mlir_frontend(R, 1, &whole, &a[1]);
  i = mlir_emit(R, HLO_CALL, NULL, n, v, 2, a);
  if (!i || (hlo_shape_is_tuple(i->shape) ? i->shape->nelems : 1) != op->nres)
    return RX->failed ? false
                      : mlir_fail(R, HS_E_ARITY, "a manual computation returns other values");
  if (!split(R, i, op->nres, v)) return false;
  for (u32 k = 0; op->nres > 1 && k < op->nres; k++) hlo_set_attr(v[k], a[1]);
  e[0] = (hlo_frontend_entry){HS_STR("xla.sdy.out_shardings"),
                              text_of(R, "#sdy.sharding_per_value<", out_text, ">")};
  if (!op->nres) return true;
  i = marker(R, HS_STR("xla.sdy.LocalToGlobalShape"), op->nres, v, shape_of(R, op->nres, op->res),
             2, e);
  return mlir_bind_results(R, op, i);
}

bool mlir_rule_scan(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  mlir_hlo_attrs attrs = {0};
  hlo_ints groups = {0, NULL};
  if (op->nregions != 1 || !mlir_operands(R, op, &in) ||
      !mlir_get_ints(R, op, "operandSegmentSizes", &groups))
    return RX->failed ? false : mlir_fail(R, HS_E_ARITY, "scan has one region");
  i64 carries = groups.n == 2 ? groups.v[1] : (i64)op->nops - 1;
  hlo_computation *c = mlir_build_region(R, op->regions[0], NULL, MLIR_PLAIN);
  hs_vec_push(&attrs, ((hlo_attr){HLO_ATTR_NUM_CARRIES, {.i = carries}}));
  if (c) hs_vec_push(&attrs, ((hlo_attr){HLO_ATTR_TO_APPLY, {.comp = c}}));
  return mlir_finish(R, op, c != NULL, op->nops, in, &attrs);
}
