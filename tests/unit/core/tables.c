// tables.c — what the tables of core/types promise: operations, cost classes, element types,
// custom calls. A row that breaks a rule fails here by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "core/analysis/customcall.h"
#include "core/types/float.h"
#include "core/types/literal.h"
#include "tests/unit/modules.h"

#define HOLDS(cond, row) \
  if (!(cond)) fail_msg("%s: %s", row, #cond)

// ---- operations ---------------------------------------------------------------------------------
static void ops_are_sorted(void **state) {
  (void)state;
  for (int op = 1; op < HLO_OPCODE_COUNT; op++) {
    const char *text = hlo_ops[op].text;
    HOLDS(hlo_ops[op].text_n == strlen(text), text);
    if (op > 1) HOLDS(strcmp(hlo_ops[op - 1].text, text) < 0, text);
    HOLDS(hlo_op_find(hs_str_of(text)) == (hlo_opcode)op, text);
  }
}

static void unknown_ops(void **state) {
  (void)state;
  static const char *const none[] = {"", "a", "ab", "absx", "ad", "tan_h", "xor2", "zzz", "\xff"};
  for (size_t k = 0; k < HS_COUNT(none); k++)
    HOLDS(hlo_op_find(hs_str_of(none[k])) == HLO_OP_INVALID, none[k]);
  assert_int_equal(hlo_op_find((hs_str){"tanh(x)", 4}), HLO_TANH);
}

static void codes_differ(void **state) {
  (void)state;
  for (int c = 1; c < HS_CODE_COUNT; c++)
    for (int d = 0; d < c; d++)
      HOLDS(strcmp(hs_code_text((hs_code)c), hs_code_text((hs_code)d)) != 0,
            hs_code_text((hs_code)c));
}

static void op_flags(void **state) {
  (void)state;
  for (int op = 1; op < HLO_OPCODE_COUNT; op++) {
    const hlo_op_info *o = &hlo_ops[op];
    u32 f = o->flags;
    HOLDS(o->arity >= HLO_VARIADIC - 3 && o->arity <= 8, o->text);
    if (f & HLO_F_ELEMENTWISE) HOLDS(o->arity >= 1 && o->arity <= 3, o->text);
    if (f & HLO_F_COMMUTATIVE) HOLDS(o->arity == 2 && (f & HLO_F_ELEMENTWISE), o->text);
    if (f & HLO_F_MONOID) HOLDS(f & HLO_F_COMMUTATIVE, o->text);
    if (f & HLO_F_MOVEMENT) HOLDS(o->arity != 0 && !(f & HLO_F_ELEMENTWISE), o->text);
    if (f & HLO_F_CONTROL) HOLDS(f & HLO_F_CALLS, o->text);
    if (f & HLO_F_ASYNC_WRAPPER) HOLDS(f & HLO_F_ASYNC, o->text);
    if (f & HLO_F_SEND_RECEIVE)
      HOLDS((f & HLO_F_SIDE_EFFECT) && (f & HLO_F_NEVER_REMOVED), o->text);
    if (f & (HLO_F_FREE | HLO_F_FORWARDS)) HOLDS(o->cost == HLO_COST_FREE, o->text);
    if (f & HLO_F_FORWARDS) HOLDS(o->arity >= 1, o->text);
    if (hlo_op_is_transcendental((hlo_opcode)op)) HOLDS(f & HLO_F_ELEMENTWISE, o->text);
    for (const hlo_op_attr *a = o->attrs; a->id; a++) {
      HOLDS(hlo_op_takes_attr((hlo_opcode)op, a->id), o->text);
      for (const hlo_op_attr *b = a + 1; b->id; b++) HOLDS(a->id != b->id, o->text);
    }
  }
}

// An elementwise operation's cost class counts something per element.
static void op_costs(void **state) {
  (void)state;
  bool used[HLO_COST_CLASS_COUNT] = {false};
  for (int op = 1; op < HLO_OPCODE_COUNT; op++) {
    const hlo_cost_info *c = hlo_op_cost((hlo_opcode)op);
    used[hlo_ops[op].cost] = true;
    if (hlo_op_has((hlo_opcode)op, HLO_F_ELEMENTWISE))
      HOLDS(c->counts == HLO_COUNTS_FLOPS || c->counts == HLO_COUNTS_TRANS, hlo_ops[op].text);
  }
  for (int k = 0; k < HLO_COST_CLASS_COUNT; k++) {
    const hlo_cost_info *c = &hlo_cost_classes[k];
    if (!used[k]) fail_msg("no operation has cost class %d", k);
    assert_true(c->ns > 0 && c->int_ns >= c->ns && c->cycles >= 1);
    if (c->counts == HLO_COUNTS_TRANS) assert_true(c->expensive);
  }
}

// ---- element types ------------------------------------------------------------------------------
static bool layout_fits(const hlo_dtype_info *d) {
  switch (d->cls) {
  case HLO_CLASS_PRED: return d->storage == 1;
  case HLO_CLASS_SINT:
  case HLO_CLASS_UINT:
  case HLO_CLASS_FLOAT: return d->storage == (d->bits + 7) / 8;
  case HLO_CLASS_COMPLEX: return d->storage * 8 == d->bits;
  case HLO_CLASS_OTHER: break;
  }
  return d->storage == 0 && d->bits == 0;
}

static void dtypes_agree(void **state) {
  (void)state;
  for (int t = 1; t < HLO_DTYPE_COUNT; t++) {
    const hlo_dtype_info *d = &hlo_dtypes[t];
    const hlo_float_format *f = &d->format;
    bool is_float = d->cls == HLO_CLASS_FLOAT, array = hlo_dtype_is_array((hlo_dtype)t);
    HOLDS(d->text_n == strlen(d->text), d->text);
    HOLDS(layout_fits(d), d->text);
    HOLDS((f->top != HLO_TOP_NONE) == is_float, d->text);
    if (is_float) HOLDS(f->ebits + f->mbits + (f->top != HLO_TOP_E8M0) == d->bits, d->text);
    HOLDS((d->literal_field != 0) == array && (d->coding != HLO_CODING_NONE) == array, d->text);
    HOLDS(hlo_dtype_from_proto(d->proto) == (hlo_dtype)t, d->text);
    hlo_dtype found = t == HLO_TUPLE_TYPE || t == HLO_BUFFER ? HLO_DT_INVALID : (hlo_dtype)t;
    HOLDS(hlo_dtype_find(hs_str_of(d->text)) == found, d->text);
    for (int u = t + 1; u < HLO_DTYPE_COUNT; u++) {
      const hlo_dtype_info *e = &hlo_dtypes[u];
      HOLDS(strcmp(d->text, e->text) != 0 && d->proto != e->proto, d->text);
      HOLDS(!d->literal_field || d->literal_field != e->literal_field, d->text);
      HOLDS(!d->pjrt || d->pjrt != e->pjrt, d->text);
      HOLDS(!*d->tensors || strcmp(d->tensors, e->tensors) != 0, d->text);
    }
  }
  assert_int_equal(hlo_dtype_find(hs_str_of("f33")), HLO_DT_INVALID);
  assert_int_equal(hlo_dtype_find((hs_str){NULL, 0}), HLO_DT_INVALID);
}

// The facts derived from a format, against the values that its codes decode to.
static void float_facts(void **state) {
  (void)state;
  for (int t = 1; t < HLO_DTYPE_COUNT; t++) {
    const hlo_float_format *f = hlo_float_format_of((hlo_dtype)t);
    if (!f) continue;
    double most = 0, above_one = INFINITY;
    for (u32 code = 0; code < 1u << hlo_dtype_bits((hlo_dtype)t); code++) {
      double v = hlo_float_decode(f, code);
      if (isfinite(v) && v > most) most = v;
      if (v > 1 && v < above_one) above_one = v;
    }
    int e;
    frexp(most, &e);
    HOLDS(hlo_dtype_max_exponent((hlo_dtype)t) == e, hlo_dtypes[t].text);
    HOLDS(above_one - 1 == hlo_dtype_epsilon((hlo_dtype)t), hlo_dtypes[t].text);
  }
  assert_int_equal(hlo_dtype_max_exponent(HLO_F32), 128);
  assert_int_equal(hlo_dtype_max_exponent(HLO_F64), 1024);
  assert_int_equal(hlo_dtype_max_exponent(HLO_BF16), 128);
  assert_int_equal(hlo_dtype_max_exponent(HLO_S32), 0);
  static const struct {
    hlo_dtype t;
    int digits, payload;
  } want[] = {{HLO_F16, 5, 10},     {HLO_BF16, 4, 7},     {HLO_F32, 9, 23},
              {HLO_F64, 17, 52},    {HLO_F8E4M3, 3, 3},   {HLO_F8E5M2FNUZ, 2, 0},
              {HLO_F4E2M1FN, 2, 0}, {HLO_F8E8M0FNU, 2, 0}};
  for (size_t k = 0; k < HS_COUNT(want); k++) {
    assert_int_equal(hlo_dtype_digits(want[k].t), want[k].digits);
    assert_int_equal(hlo_dtype_nan_payload(want[k].t), want[k].payload);
  }
}

// Integers narrower than a byte wrap to their width, whatever that is.
static void narrow_integers(void **state) {
  (void)state;
  for (int t = 1; t < HLO_DTYPE_COUNT; t++) {
    hlo_dtype d = (hlo_dtype)t;
    if (!hlo_dtype_is_integer(d) || hlo_dtype_bits(d) >= 8) continue;
    i64 span = (i64)1 << hlo_dtype_bits(d), low = hlo_dtype_is_signed(d) ? -span / 2 : 0;
    for (i64 v = -20; v < 20; v++) {
      u8 p;
      hlo_elem_from_i64(d, &p, v);
      i64 got = hlo_elem_to_i64(d, &p);
      HOLDS(got >= low && got < low + span && (got - v) % span == 0, hlo_dtypes[t].text);
    }
  }
}

// ---- custom calls -------------------------------------------------------------------------------
static bool marks(const char *call) {
  char text[400];
  snprintf(text, sizeof text, "HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT r = %s }", call);
  hlo_module *m = parse(text);
  bool yes = hlo_custom_is_marker(m->entry->root);
  hlo_module_free(m);
  return yes;
}

static void markers(void **state) {
  (void)state;
  assert_true(marks("f32[4] custom-call(x), custom_call_target=\"Sharding\""));
  assert_true(marks("f32[4] custom-call(x), custom_call_target=\"LayoutConstraint\""));
  assert_true(marks("f32[4] custom-call(x), custom_call_target=\"xla.sdy.FuncResultSharding\""));
  assert_true(marks("(f32[4], f32[4]) custom-call(x, x), custom_call_target=\"ShardBarrierTo\""));
  assert_false(marks("f32[2] custom-call(x), custom_call_target=\"Sharding\""));
  assert_false(marks("f32[4] custom-call(x), custom_call_target=\"SliceToDynamic\""));
  assert_false(marks("f32[4] custom-call(x), custom_call_target=\"unheard_of\""));
  assert_false(marks("f32[4] negate(x)"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ops_are_sorted), cmocka_unit_test(unknown_ops),
      cmocka_unit_test(codes_differ),   cmocka_unit_test(op_flags),
      cmocka_unit_test(op_costs),       cmocka_unit_test(dtypes_agree),
      cmocka_unit_test(float_facts),    cmocka_unit_test(narrow_integers),
      cmocka_unit_test(markers),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
