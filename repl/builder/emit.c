// emit.c — from operands and attributes to an instruction. Instructions are made by HLO's own
// reader from a line of text (hlo_parse_instr_into), so that its checks, defaults and shapes are
// those of a module that is read; its errors get the place in what was typed. See builder.h.
#include <stdio.h>

#include "core/infer/infer.h"
#include "core/text/text.h"
#include "repl/builder/builder.h"

// ---- one line -----------------------------------------------------------------------------------
hs_status build_emit(builder *b, const char *at, const char *shape, hlo_opcode op, u32 n,
                     hlo_instr *const *operands, const char *attrs, hlo_instr **out) {
  char name[128];
  snprintf(name, sizeof name, "%.100s", hlo_op_text(op));
  for (u32 k = 1; hlo_find_instr(b->m, name); k++)
    snprintf(name, sizeof name, "%.100s.%u", hlo_op_text(op), k);
  hs_buf line = {0};
  hs_buf_printf(&line, "%s = %s%s%s(", name, shape ? shape : "", shape ? " " : "", hlo_op_text(op));
  for (u32 k = 0; k < n; k++) hs_buf_printf(&line, "%s%%%s", k ? ", " : "", operands[k]->name);
  hs_buf_printf(&line, ")%s", attrs ? attrs : "");
  hs_status s = hlo_parse_instr_into(b->comp, line.p, line.n, out);
  hs_buf_free(&line);
  HS_TRY(build_at(b, s, at));
  hs_vec_push(&b->made, *out);
  return HS_GOOD;
}

hs_status build_convert(builder *b, const char *at, hlo_instr *i, hlo_dtype t, hlo_instr **out) {
  if (!hlo_shape_is_array(i->shape))
    return build_error(b, HS_E_SHAPE, at, "%s is no array, and has no other type", i->name);
  *out = i;
  if (i->shape->dtype == t) return HS_GOOD;
  const hlo_shape *shape = hlo_shape_with_dtype(b->m->ctx, i->shape, t);
  hs_buf text = {0};
  hlo_shape_print(&text, shape, true);
  hs_status s = build_emit(b, at, hs_buf_cstr(&text), HLO_CONVERT, 1, &i, NULL, out);
  hs_buf_free(&text);
  return s;
}

// ---- literals -----------------------------------------------------------------------------------
// The literal's text for a type. An infinity of a type that has none is its largest value.
static void put_literal(hs_buf *t, const build_value *v, hlo_dtype type) {
  const hlo_dtype_info *d = &hlo_dtypes[type];
  bool negative = v->text[0] == '-', complex = d->cls == HLO_CLASS_COMPLEX;
  if (complex) hs_buf_putc(t, '(');
  if (v->kind == BUILD_INF && hlo_dtype_is_unsigned(type)) {
    u64 top = d->bits >= 64 ? UINT64_MAX : ((u64)1 << d->bits) - 1;
    hs_buf_printf(t, "%llu", negative ? 0ull : (unsigned long long)top);
  } else if (v->kind == BUILD_INF && hlo_dtype_is_signed(type)) {
    i64 top = d->bits >= 64 ? INT64_MAX : ((i64)1 << (d->bits - 1)) - 1;
    hs_buf_printf(t, "%lld", (long long)(negative ? -top - 1 : top));
  } else if (type == HLO_PRED && v->kind == BUILD_INT) {
    hs_buf_puts(t, strcmp(v->text, "0") == 0 ? "false" : "true");
  } else if (v->kind == BUILD_BOOL && type != HLO_PRED) {
    hs_buf_puts(t, strcmp(v->text, "true") == 0 ? "1" : "0");
  } else {
    hs_buf_puts(t, v->text);
  }
  if (complex) hs_buf_puts(t, ", 0)");
}

static hlo_dtype own_type(const build_value *v) {
  return v->kind == BUILD_BOOL ? HLO_PRED : v->kind == BUILD_INT ? HLO_S32 : HLO_F32;
}

hs_status build_constant(builder *b, const build_value *v, hlo_dtype type, hlo_instr **out) {
  if (type == HLO_DT_INVALID) type = own_type(v);
  hs_buf text = {0};
  hlo_literal *value = NULL;
  put_literal(&text, v, type);
  hs_status s =
      hlo_parse_literal(b->m->ctx, hlo_shape_scalar(b->m->ctx, type), text.p, text.n, &value);
  hs_buf_free(&text);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    return build_error(b, HS_E_LITERAL, v->at, "%s is no value of %s", v->text,
                       hlo_dtype_text(type));
  }
  *out = hlo_add_constant(b->comp, value, "constant");
  hs_vec_push(&b->made, *out);
  return HS_GOOD;
}

hs_status build_settle(builder *b, const build_value *v, hlo_instr **out) {
  *out = v->i;
  return v->kind == BUILD_INSTR ? HS_GOOD : build_constant(b, v, HLO_DT_INVALID, out);
}

// ---- operands -----------------------------------------------------------------------------------
// Operands that are scalars of another operand's element type: where they begin, whose type it is.
// With `per_operand`, the k-th of them goes with operand k.
typedef struct scalar_rule {
  hlo_opcode op;
  u8 from, of;
  bool index, per_operand;  // index: s32 unless the others of them say otherwise
} scalar_rule;
static const scalar_rule scalar_rules[] = {
    {HLO_PAD, 1, 0, false, false},
    {HLO_SELECT_AND_SCATTER, 2, 0, false, false},
    {HLO_DYNAMIC_SLICE, 1, 0, true, false},
    {HLO_DYNAMIC_UPDATE_SLICE, 2, 0, true, false},
    {HLO_SET_DIMENSION_SIZE, 1, 0, true, false},
    {HLO_REDUCE, 0, 0, false, true},
    {HLO_REDUCE_WINDOW, 0, 0, false, true},
};

static hs_status scalars(builder *b, hlo_opcode op, build_values *v) {
  const scalar_rule *r = NULL;
  for (size_t k = 0; k < HS_COUNT(scalar_rules); k++)
    if (scalar_rules[k].op == op) r = &scalar_rules[k];
  if (!r) return HS_GOOD;
  size_t from = r->per_operand ? v->n / 2 : r->from;
  hlo_dtype index = HLO_S32;
  for (size_t k = from; k < v->n && r->index; k++)
    if (v->v[k].kind == BUILD_INSTR) index = v->v[k].i->shape->dtype;
  for (size_t k = from; k < v->n; k++) {
    const build_value *whose = &v->v[r->per_operand ? k - from : r->of];
    hlo_dtype type = r->index ? index
                     : whose->kind == BUILD_INSTR && hlo_shape_is_array(whose->i->shape)
                         ? whose->i->shape->dtype
                         : HLO_DT_INVALID;
    if (v->v[k].kind != BUILD_INSTR) {
      HS_TRY(build_constant(b, &v->v[k], type, &v->v[k].i));
      v->v[k].kind = BUILD_INSTR;
    } else if (b->infer && type != HLO_DT_INVALID && hlo_shape_is_scalar(v->v[k].i->shape)) {
      HS_TRY(build_convert(b, v->v[k].at, v->v[k].i, type, &v->v[k].i));
    }
  }
  return HS_GOOD;
}

// ---- shapes -------------------------------------------------------------------------------------
// Operations whose shape HLO's text must state although the operands and attributes say it.
static bool shape_follows(hlo_opcode op) {
  return op == HLO_SLICE || op == HLO_DYNAMIC_SLICE || op == HLO_DYNAMIC_UPDATE_SLICE ||
         op == HLO_REDUCE_PRECISION || op == HLO_ALL_REDUCE || op == HLO_ALL_GATHER ||
         op == HLO_COLLECTIVE_PERMUTE;
}

static hs_status inferred(builder *b, hlo_opcode op, u32 n, hlo_instr *const *ops,
                          const build_keys *keys, const char *at, hs_buf *text) {
  hlo_attrs *attrs = hs_arena_alloc(b->scratch, sizeof *attrs + (keys->n + 1) * sizeof *attrs->v);
  attrs->n = 0;
  for (const hlo_op_attr *a = hlo_ops[op].attrs; a->id; a++)
    for (size_t k = 0; k < keys->n; k++) {
      if (strcmp(keys->v[k].key, hlo_attr_text(a->id)) != 0) continue;
      hlo_attr value = {.id = a->id};
      const char *v = keys->v[k].value;
      HS_TRY(build_at(b, hlo_parse_attr(b->m, v, strlen(v), &value), keys->v[k].at));
      u32 place = attrs->n++;
      for (; place && attrs->v[place - 1].id > a->id; place--)
        attrs->v[place] = attrs->v[place - 1];
      attrs->v[place] = value;
    }
  const hlo_shape **in = hs_arena_alloc(b->scratch, (n + 1) * sizeof *in), *shape;
  for (u32 k = 0; k < n; k++) in[k] = ops[k]->shape;
  HS_TRY(build_at(b, hlo_infer_shape(b->m->ctx, op, n, in, attrs, NULL, &shape), at));
  hlo_shape_print(text, hlo_shape_fill_layout(b->m->ctx, shape), true);
  return HS_GOOD;
}

// ---- a call -------------------------------------------------------------------------------------
static bool wants_computation(hlo_opcode op, const char *key) {
  for (const hlo_op_attr *a = hlo_ops[op].attrs; a->id; a++)
    if (a->id >= HLO_ATTR_TO_APPLY && a->id <= HLO_ATTR_FALSE_COMPUTATION &&
        strcmp(hlo_attr_text(a->id), key) == 0)
      return true;
  return false;
}

hs_status build_call(builder *b, hlo_opcode op, const char *shape, build_values *v,
                     build_keys *keys, const char *at, hlo_instr **out) {
  HS_TRY(hs_poll());
  bool elementwise = hlo_op_has(op, HLO_F_ELEMENTWISE) && hlo_op_takes(op, (u32)v->n);
  if (elementwise) HS_TRY(build_fit(b, op, v, at));
  if (hlo_op_takes(op, (u32)v->n)) HS_TRY(scalars(b, op, v));
  hlo_instr **ops = hs_arena_alloc(b->scratch, (v->n + 1) * sizeof *ops);
  for (size_t k = 0; k < v->n; k++) HS_TRY(build_settle(b, &v->v[k], &ops[k]));
  for (size_t k = 0; k < v->n; k++) v->v[k].i = ops[k], v->v[k].kind = BUILD_INSTR;
  hs_buf attrs = {0}, stated = {0};
  hs_status s = HS_GOOD;
  for (size_t k = 0; hs_ok(s) && k < keys->n; k++) {
    if (wants_computation(op, keys->v[k].key))
      s = build_applied(b, op, v, &keys->v[k], &keys->v[k].value);
    if (hs_ok(s)) hs_buf_printf(&attrs, ", %s=%s", keys->v[k].key, keys->v[k].value);
  }
  if (hs_ok(s) && !shape && shape_follows(op) && hlo_op_takes(op, (u32)v->n)) {
    s = inferred(b, op, (u32)v->n, ops, keys, at, &stated);
    shape = hs_buf_cstr(&stated);
  }
  if (hs_ok(s))
    s = build_emit(b, at, shape, op, (u32)v->n, ops, attrs.n ? hs_buf_cstr(&attrs) : NULL, out);
  hs_buf_free(&attrs);
  hs_buf_free(&stated);
  return s;
}
