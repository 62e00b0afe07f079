// rules_host.c — what leaves the program: infeed, outfeed, send, receive; composites; and
// operations that HLO has no form for, refused by their names.
#include "core/mlir/rules.h"

#include <stdlib.h>

static hs_str kept(mlir_reader *R, hs_str s) {
  return (hs_str){hs_arena_strndup(&R->m->arena, s.p, s.n), s.n};
}

bool mlir_rule_foreign(mlir_reader *R, mlir_op *op) {
  return mlir_fail(R, HS_E_NO_HLO, "%.*s has no form in HLO", (int)HS_MIN(op->name.n, 80u),
                   op->name.p);
}

// ---- queues -------------------------------------------------------------------------------------
// Results of `op` but the last are elements of `data`, the last is the token.
static bool bind_data(mlir_reader *R, mlir_op *op, hlo_instr *data, hlo_instr *token) {
  bool tuple = data && hlo_shape_is_tuple(data->shape);
  for (u32 k = 0; data && token && k + 1 < op->nres; k++) {
    hlo_instr *e = tuple ? mlir_gte(R, data, k) : data;
    if (!e) return false;
    mlir_bind(R, &op->res[k], e);
  }
  if (data && token) mlir_bind(R, &op->res[op->nres - 1], token);
  return data && token;
}

static bool wants_token(mlir_reader *R, const mlir_op *op, const mlir_value *v) {
  return v->shape->dtype == HLO_TOKEN || mlir_fail(R, HS_E_SHAPE, "the last of %.*s is no token",
                                                   (int)HS_MIN(op->name.n, 60u), op->name.p);
}

// The shapes of values but the last, which is a token.
static const hlo_shape *data_shape(mlir_reader *R, u32 n, const mlir_value *v) {
  const hlo_shape **s = HS_NEW_ARRAY(&R->arena, const hlo_shape *, n + 1);
  for (u32 k = 0; k < n; k++) s[k] = v[k].shape;
  return hlo_shape_tuple(R->ctx, n, s);
}

static u32 config_of(mlir_reader *R, const mlir_op *op, const char *name, hlo_attr_id id,
                     hlo_attr *out) {
  hs_str s = {0};
  if (!mlir_get_string(R, &op->attrs, name, &s) || !s.n) return 0;
  *out = (hlo_attr){id, {.s = kept(R, s)}};
  return 1;
}

bool mlir_rule_infeed(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  hlo_attr a;
  if (!mlir_operands(R, op, &in) || !op->nres || !wants_token(R, op, &op->res[op->nres - 1]))
    return false;
  const hlo_shape *parts[2] = {data_shape(R, op->nres - 1, op->res), hlo_shape_token(R->ctx)};
  u32 n = config_of(R, op, "infeed_config", HLO_ATTR_INFEED_CONFIG, &a);
  hlo_instr *i = mlir_emit(R, HLO_INFEED, hlo_shape_tuple(R->ctx, 2, parts), 1, in, n, &a);
  hlo_instr *token = i ? mlir_gte(R, i, 1) : NULL;
  return bind_data(R, op, i ? mlir_gte(R, i, 0) : NULL, token);
}

bool mlir_rule_outfeed(mlir_reader *R, mlir_op *op) {
  hlo_instr **in = HS_NEW_ARRAY(&R->arena, hlo_instr *, op->nops + 1);
  if (!op->nops || op->nres != 1 || !wants_token(R, op, op->ops[op->nops - 1])) return false;
  for (u32 k = 0; k < op->nops; k++)
    if (!(in[k] = mlir_operand(R, op, k))) return false;
  hlo_instr *pair[2] = {mlir_tuple(R, op->nops - 1, in), in[op->nops - 1]};
  if (!pair[0]) return false;
  hlo_attr a[2] = {{HLO_ATTR_OUTFEED_SHAPE, {.shape = pair[0]->shape}}};
  u32 n = 1 + config_of(R, op, "outfeed_config", HLO_ATTR_OUTFEED_CONFIG, &a[1]);
  return mlir_bind_results(R, op,
                           mlir_emit(R, HLO_OUTFEED, hlo_shape_token(R->ctx), 2, pair, n, a));
}

// ---- messages -----------------------------------------------------------------------------------
static u32 channel(mlir_reader *R, mlir_op *op, hlo_attr a[2]) {
  i64 id = 0, host = 0;
  if (!mlir_get_int(R, op, "channel_handle.handle", &id) ||
      !mlir_get_int(R, op, "is_host_transfer", &host))
    return 0;
  a[0] = (hlo_attr){HLO_ATTR_CHANNEL_ID, {.i = id}};
  a[1] = (hlo_attr){HLO_ATTR_IS_HOST_TRANSFER, {.i = 1}};
  return host ? 2 : 1;
}

static const hlo_shape *in_flight(mlir_reader *R, const hlo_shape *data) {
  const hlo_shape *s[3] = {data, hlo_shape_scalar(R->ctx, HLO_U32), hlo_shape_token(R->ctx)};
  return hlo_shape_tuple(R->ctx, 3, s);
}

bool mlir_rule_send(mlir_reader *R, mlir_op *op) {
  hlo_instr **in = HS_NEW_ARRAY(&R->arena, hlo_instr *, op->nops + 1);
  hlo_attr a[2];
  u32 n = channel(R, op, a);
  if (!n || !op->nops || op->nres != 1 || !wants_token(R, op, op->ops[op->nops - 1])) return false;
  for (u32 k = 0; k < op->nops; k++)
    if (!(in[k] = mlir_operand(R, op, k))) return false;
  hlo_instr *pair[2] = {op->nops == 2 ? in[0] : mlir_tuple(R, op->nops - 1, in), in[op->nops - 1]};
  if (!pair[0]) return false;
  hlo_instr *i = mlir_emit(R, HLO_SEND, in_flight(R, pair[0]->shape->logical), 2, pair, n, a);
  return i && mlir_bind_results(R, op,
                                mlir_emit(R, HLO_SEND_DONE, hlo_shape_token(R->ctx), 1, &i, n, a));
}

bool mlir_rule_recv(mlir_reader *R, mlir_op *op) {
  hlo_instr **in;
  hlo_attr a[2];
  u32 n = channel(R, op, a);
  if (!n || !mlir_operands(R, op, &in) || !op->nres || !wants_token(R, op, &op->res[op->nres - 1]))
    return false;
  const hlo_shape *data = op->nres == 2 ? op->res[0].shape : data_shape(R, op->nres - 1, op->res);
  const hlo_shape *done[2] = {data, hlo_shape_token(R->ctx)};
  hlo_instr *i = mlir_emit(R, HLO_RECV, in_flight(R, data), 1, in, n, a);
  if (i) i = mlir_emit(R, HLO_RECV_DONE, hlo_shape_tuple(R->ctx, 2, done), 1, &i, n, a);
  hlo_instr *token = i ? mlir_gte(R, i, 1) : NULL;
  return bind_data(R, op, i ? mlir_gte(R, i, 0) : NULL, token);
}

// ---- composites ---------------------------------------------------------------------------------
// A call of the decomposition that says what it stands for.
// A dictionary on one line, with single blanks, as MLIR prints it.
static hs_str on_one_line(mlir_reader *R, mlir_span s) {
  char *to = hs_arena_alloc(&R->arena, s.n + 1);
  size_t n = 0;
  bool quoted = false;
  for (size_t k = 0; k < s.n; k++) {
    char c = s.p[k];
    if (c == '"' && !(k && s.p[k - 1] == '\\')) quoted = !quoted;
    bool blank = !quoted && (c == ' ' || c == '\n' || c == '\t' || c == '\r');
    if (blank && n && (to[n - 1] == ' ' || to[n - 1] == '{')) continue;
    if (!quoted && c == '}' && n && to[n - 1] == ' ') n--;
    to[n++] = blank ? ' ' : c;
  }
  return (hs_str){to, n};
}

static int by_attr_name(const void *a, const void *b) {
  const mlir_attr *x = a, *y = b;
  int order = memcmp(x->name.p, y->name.p, HS_MIN(x->name.n, y->name.n));
  return order ? order : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}

// A dictionary as MLIR prints it: in the order of its names.
static bool print_dict(mlir_reader *R, mlir_span s, hs_buf *b) {
  mlir_attrs d = {0};
  if (!mlir_dict_of(R, s, &d)) return false;
  if (d.n) qsort(d.v, d.n, sizeof *d.v, by_attr_name);
  hs_buf_putc(b, '{');
  for (u32 k = 0; k < d.n; k++) {
    hs_str value = on_one_line(R, d.v[k].value);
    hs_buf_printf(b, "%s%.*s%s%.*s", k ? ", " : "", (int)d.v[k].name.n, d.v[k].name.p,
                  value.n ? " = " : "", (int)value.n, value.p);
  }
  return hs_buf_putc(b, '}'), true;
}

bool mlir_rule_composite(mlir_reader *R, mlir_op *op) {
  static const hs_str keys[] = {
      {"composite.attributes", 20}, {"composite.name", 14}, {"composite.version", 17}};
  hs_str name = {0}, decomposition = {0}, text = HS_STR("{}");
  i64 version = 0;
  mlir_span s;
  hlo_instr *i = NULL;
  if (!mlir_get_string(R, &op->attrs, "name|value", &name) ||
      !mlir_get_string(R, &op->attrs, "decomposition", &decomposition) ||
      !mlir_get_int(R, op, "version", &version))
    return false;
  hs_buf dict = {0};
  bool given = mlir_get(R, &op->attrs, "composite_attributes", &s);
  bool ok = !given || print_dict(R, s, &dict);
  if (given) text = (hs_str){hs_arena_strndup(&R->arena, dict.p ? dict.p : "", dict.n), dict.n};
  hs_buf_free(&dict);
  if (!ok) return false;
  if (op->nregions) return mlir_fail(R, HS_E_NO_HLO, "a composite with regions is not converted");
  if (!mlir_call(R, op, decomposition, &i)) return false;
  char *number = hs_format("%lld", (long long)version);
  const hs_str values[] = {text, name, hs_str_of(number)};
  hlo_frontend *f = HS_NEW(&R->m->arena, hlo_frontend);
  hlo_frontend_entry *e = HS_NEW_ARRAY(&R->m->arena, hlo_frontend_entry, HS_COUNT(keys));
  for (u32 k = 0; k < HS_COUNT(keys); k++)
    e[k] = (hlo_frontend_entry){kept(R, keys[k]), kept(R, values[k])};
  hs_free(number);
  *f = (hlo_frontend){HS_COUNT(keys), e};
  hlo_set_attr_int(i, HLO_ATTR_IS_COMPOSITE, 1);
  hlo_set_attr_ptr(i, HLO_ATTR_FRONTEND_ATTRIBUTES, f);
  return true;
}
