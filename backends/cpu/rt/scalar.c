// scalar.c — a register interpreter for scalar computations. See scalar.h.
//
// The computation is translated once into a list of operations over registers, one per instruction.
// Values are kept as double or i64; every result is rounded to its own
// type, so that f32 arithmetic in double is exact where one rounding follows another (add,
// subtract, multiply, divide, square root).
#include "backends/cpu/rt/scalar.h"

#include <math.h>

enum { MAX_REGS = 96 };
typedef union reg {
  double f;
  i64 i;
} reg;
typedef struct scalar_op {
  hlo_opcode op;
  hlo_dtype t, from;
  u8 a, b, c, to, direction;
  bool total;
} scalar_op;

struct cpu_scalar {
  u32 nparams, nops, nresults;
  hlo_dtype param_type[MAX_REGS], result_type[MAX_REGS];
  u8 result[MAX_REGS];
  u32 nregs;
  reg init[MAX_REGS];  // constants in place
  scalar_op ops[MAX_REGS];
};

static bool is_real(hlo_dtype t) { return hlo_dtype_is_float(t); }

// Of equal ones, as the two zeros are, the first.
static double fmax_nan(double a, double b) { return a != a ? a : b > a || b != b ? b : a; }
static double fmin_nan(double a, double b) { return a != a ? a : b < a || b != b ? b : a; }

// False when there is no such operation on real numbers.
static bool real_op(hlo_opcode op, reg a, reg b, reg *out) {
  switch (op) {
  case HLO_ADD: return out->f = a.f + b.f, true;
  case HLO_SUBTRACT: return out->f = a.f - b.f, true;
  case HLO_MULTIPLY: return out->f = a.f * b.f, true;
  case HLO_DIVIDE: return out->f = a.f / b.f, true;
  case HLO_MAXIMUM: return out->f = fmax_nan(a.f, b.f), true;
  case HLO_MINIMUM: return out->f = fmin_nan(a.f, b.f), true;
  case HLO_NEGATE: return out->f = -a.f, true;
  case HLO_ABS: return out->f = fabs(a.f), true;
  case HLO_SQRT: return out->f = sqrt(a.f), true;
  case HLO_EXP: return out->f = exp(a.f), true;
  case HLO_LOG: return out->f = log(a.f), true;
  case HLO_TANH: return out->f = tanh(a.f), true;
  case HLO_FLOOR: return out->f = floor(a.f), true;
  case HLO_CEIL: return out->f = ceil(a.f), true;
  case HLO_POWER: return out->f = pow(a.f, b.f), true;
  default: return false;
  }
}

static bool op_ok(const hlo_instr *i) {
  hlo_dtype t = i->shape->dtype;
  if (!hlo_shape_is_scalar(i->shape) || hlo_dtype_is_complex(t)) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (!hlo_shape_is_scalar(hlo_operand(i, k)->shape) ||
        hlo_dtype_is_complex(hlo_operand(i, k)->shape->dtype))
      return false;
  switch (i->opcode) {
  case HLO_PARAMETER:
  case HLO_ADD:
  case HLO_SUBTRACT:
  case HLO_MULTIPLY:
  case HLO_MAXIMUM:
  case HLO_MINIMUM:
  case HLO_NEGATE:
  case HLO_ABS:
  case HLO_COMPARE:
  case HLO_SELECT:
  case HLO_CONVERT:
  case HLO_COPY: return true;
  case HLO_CONSTANT: return hlo_constant_value(i) && !hlo_literal_has_elided(hlo_constant_value(i));
  case HLO_AND:
  case HLO_OR:
  case HLO_XOR:
  case HLO_NOT: return !is_real(t);
  default: return is_real(t) && real_op(i->opcode, (reg){0}, (reg){0}, &(reg){0});
  }
}

bool cpu_scalar_ok(const hlo_computation *c) {
  if (!c || c->ninstrs > MAX_REGS - 1) return false;
  hlo_for_each_instr(i, c) {
    if (i->opcode == HLO_TUPLE && hlo_is_root(i)) continue;
    if (!op_ok(i)) return false;
  }
  return true;
}

static reg load(hlo_dtype t, const void *p) {
  reg r;
  float f;
  if (t == HLO_F32) memcpy(&f, p, sizeof f), r.f = (double)f;  // at any alignment
  else if (is_real(t)) r.f = hlo_elem_to_f64(t, p);
  else r.i = hlo_elem_to_i64(t, p);
  return r;
}

static void store(hlo_dtype t, void *p, reg r) {
  float f = t == HLO_F32 ? (float)r.f : 0;
  if (t == HLO_F32) memcpy(p, &f, sizeof f);
  else if (is_real(t)) hlo_elem_from_f64(t, p, r.f);
  else hlo_elem_from_i64(t, p, r.i);
}

// The value a register has after passing through its type.
static reg round_to(hlo_dtype t, reg r) {
  u64 raw[2];
  if (t == HLO_F64 || t == HLO_S64) return r;
  if (t == HLO_F32) return (reg){.f = (double)(float)r.f};
  store(t, raw, r);
  return load(t, raw);
}

cpu_scalar *cpu_scalar_compile(const hlo_computation *c) {
  if (!cpu_scalar_ok(c)) return NULL;
  cpu_scalar *s = hs_calloc(1, sizeof *s);
  hs_arena scratch = {0};
  hlo_instr **order = hlo_post_order(c, &scratch);  // lists need not put operands first
  hlo_positions at = hlo_positions_in(c->ninstrs, order, &scratch);
  u8 reg_of[MAX_REGS] = {0};
  s->nparams = c->nparams;
  for (u32 k = 0; k < c->nparams; k++) {
    reg_of[hlo_position_of(&at, c->params[k])] = (u8)s->nregs++;
    s->param_type[k] = c->params[k]->shape->dtype;
  }
  for (u32 k = 0; k < c->ninstrs; k++) {
    const hlo_instr *i = order[k];
    if (i->opcode == HLO_PARAMETER || i->opcode == HLO_TUPLE) continue;
    u8 r = (u8)s->nregs++;
    reg_of[k] = r;
    if (i->opcode == HLO_CONSTANT) {
      s->init[r] = load(i->shape->dtype, hlo_constant_value(i)->data);
      continue;
    }
    scalar_op o = {.op = i->opcode,
                   .t = i->shape->dtype,
                   .from = hlo_operand(i, 0)->shape->dtype,
                   .a = reg_of[hlo_position_of(&at, hlo_operand(i, 0))],
                   .to = r};
    if (i->noperands > 1) o.b = reg_of[hlo_position_of(&at, hlo_operand(i, 1))];
    if (i->noperands > 2) o.c = reg_of[hlo_position_of(&at, hlo_operand(i, 2))];
    if (i->opcode == HLO_COMPARE) {
      o.direction = (u8)hlo_attr_int(i, HLO_ATTR_DIRECTION, 0);
      o.total = hlo_attr_int(i, HLO_ATTR_COMPARE_TYPE, HLO_COMPARE_TYPE_FLOAT) ==
                HLO_COMPARE_TYPE_TOTALORDER;
    }
    s->ops[s->nops++] = o;
  }
  const hlo_instr *root = c->root;
  s->nresults = root->opcode == HLO_TUPLE ? root->noperands : 1;
  for (u32 k = 0; k < s->nresults; k++) {
    const hlo_instr *v = root->opcode == HLO_TUPLE ? hlo_operand(root, k) : root;
    s->result[k] = reg_of[hlo_position_of(&at, v)];
    s->result_type[k] = v->shape->dtype;
  }
  hs_arena_free(&scratch);
  return s;
}

void cpu_scalar_free(cpu_scalar *s) { hs_free(s); }

static bool compare(const scalar_op *o, reg a, reg b) {
  int lt, eq;
  if (is_real(o->from) && o->total) {
    u64 x, y;
    x = cpu_order_key(HLO_F64, &a.f, false);
    y = cpu_order_key(HLO_F64, &b.f, false);
    lt = x < y;
    eq = x == y;
  } else if (is_real(o->from)) {
    switch (o->direction) {
    case HLO_DIRECTION_EQ: return a.f == b.f;
    case HLO_DIRECTION_NE: return a.f != b.f;
    case HLO_DIRECTION_GE: return a.f >= b.f;
    case HLO_DIRECTION_GT: return a.f > b.f;
    case HLO_DIRECTION_LE: return a.f <= b.f;
    default: return a.f < b.f;
    }
  } else if (hlo_dtype_is_unsigned(o->from)) {
    lt = (u64)a.i < (u64)b.i;
    eq = a.i == b.i;
  } else {
    lt = a.i < b.i;
    eq = a.i == b.i;
  }
  switch (o->direction) {
  case HLO_DIRECTION_EQ: return eq;
  case HLO_DIRECTION_NE: return !eq;
  case HLO_DIRECTION_GE: return !lt;
  case HLO_DIRECTION_GT: return !lt && !eq;
  case HLO_DIRECTION_LE: return lt || eq;
  default: return lt;
  }
}

static reg int_op(const scalar_op *o, reg a, reg b) {
  bool u = hlo_dtype_is_unsigned(o->t);
  bool less = u ? (u64)a.i < (u64)b.i : a.i < b.i;
  switch (o->op) {
  case HLO_ADD: return (reg){.i = (i64)((u64)a.i + (u64)b.i)};
  case HLO_SUBTRACT: return (reg){.i = (i64)((u64)a.i - (u64)b.i)};
  case HLO_MULTIPLY: return (reg){.i = (i64)((u64)a.i * (u64)b.i)};
  case HLO_MAXIMUM: return less ? b : a;
  case HLO_MINIMUM: return less ? a : b;
  case HLO_NEGATE: return (reg){.i = (i64)(0 - (u64)a.i)};
  case HLO_ABS: return (reg){.i = a.i < 0 && !u ? (i64)(0 - (u64)a.i) : a.i};
  case HLO_AND: return (reg){.i = a.i & b.i};
  case HLO_OR: return (reg){.i = a.i | b.i};
  case HLO_XOR: return (reg){.i = a.i ^ b.i};
  case HLO_NOT: return (reg){.i = o->t == HLO_PRED ? !a.i : ~a.i};
  default: return a;
  }
}

static reg convert(const scalar_op *o, reg a) {
  bool rf = is_real(o->t), af = is_real(o->from);
  if (rf == af) return a;
  if (rf) return (reg){.f = hlo_dtype_is_unsigned(o->from) ? (double)(u64)a.i : (double)a.i};
  if (o->t == HLO_PRED) return (reg){.i = a.f != 0};
  // Saturates; NaN gives 0.
  bool sg = hlo_dtype_is_signed(o->t);
  double hi = ldexp(1.0, hlo_dtype_bits(o->t) - (sg ? 1 : 0)), lo = sg ? -hi : 0;
  if (a.f != a.f) return (reg){.i = 0};
  if (a.f >= hi) return (reg){.i = (i64)(~(u64)0 >> (64 - hlo_dtype_bits(o->t) + (sg ? 1 : 0)))};
  if (a.f <= lo) return (reg){.i = sg ? -(i64)((u64)1 << (hlo_dtype_bits(o->t) - 1)) : 0};
  return (reg){.i = sg ? (i64)a.f : (i64)(u64)a.f};
}

void cpu_scalar_run(const cpu_scalar *s, const void *const *params, void *const *results) {
  reg r[MAX_REGS];
  memcpy(r, s->init, s->nregs * sizeof *r);
  for (u32 k = 0; k < s->nparams; k++) r[k] = load(s->param_type[k], params[k]);
  for (u32 k = 0; k < s->nops; k++) {
    const scalar_op *o = &s->ops[k];
    reg v = r[o->a];  // a copy
    if (o->op == HLO_COMPARE) v.i = compare(o, r[o->a], r[o->b]);
    else if (o->op == HLO_SELECT) v = r[o->a].i ? r[o->b] : r[o->c];
    else if (o->op == HLO_CONVERT) v = round_to(o->t, convert(o, r[o->a]));
    else if (!is_real(o->t)) v = round_to(o->t, int_op(o, r[o->a], r[o->b]));
    else if (real_op(o->op, r[o->a], r[o->b], &v)) v = round_to(o->t, v);
    r[o->to] = v;
  }
  for (u32 k = 0; k < s->nresults; k++) store(s->result_type[k], results[k], r[s->result[k]]);
}

cpu_combine cpu_combine_of(const hlo_computation *c) {
  if (c->nparams != 2 || !hlo_shape_is_scalar(c->root->shape)) return CPU_COMB_OTHER;
  const hlo_instr *r = c->root;
  if (r == c->params[1]) return CPU_COMB_SECOND;
  if (!hlo_commutes_on(r, c->params[0], c->params[1])) return CPU_COMB_OTHER;
  switch (r->opcode) {
  case HLO_ADD: return CPU_COMB_ADD;
  case HLO_MULTIPLY: return CPU_COMB_MUL;
  case HLO_MINIMUM: return CPU_COMB_MIN;
  case HLO_MAXIMUM: return CPU_COMB_MAX;
  case HLO_AND: return CPU_COMB_AND;
  case HLO_OR: return CPU_COMB_OR;
  case HLO_XOR: return CPU_COMB_XOR;
  default: return CPU_COMB_OTHER;
  }
}

bool cpu_has_order_key(hlo_dtype t) {
  return t == HLO_F32 || t == HLO_F64 || t == HLO_F16 || t == HLO_BF16 || hlo_dtype_is_integer(t) ||
         t == HLO_PRED;
}

u64 cpu_order_key(hlo_dtype t, const void *p, bool canonical) {
  u64 b, sign, inf;
  switch (t) {
  case HLO_F32:
    b = *(const u32 *)p;
    sign = 0x80000000u;
    inf = 0x7f800000u;
    break;
  case HLO_F64:
    b = *(const u64 *)p;
    sign = (u64)1 << 63;
    inf = (u64)0x7ff << 52;
    break;
  case HLO_F16:
    b = *(const u16 *)p;
    sign = 0x8000;
    inf = 0x7c00;
    break;
  case HLO_BF16:
    b = *(const u16 *)p;
    sign = 0x8000;
    inf = 0x7f80;
    break;
  default: {
    i64 v = hlo_elem_to_i64(t, p);
    if (!hlo_dtype_is_signed(t)) return (u64)v;
    int bits = HS_MAX(hlo_dtype_bits(t), 8);
    return ((u64)v ^ (u64)1 << (bits - 1)) & (~(u64)0 >> (64 - bits));
  }
  }
  if (canonical) {
    if ((b & ~sign) == 0) b = 0;
    else if ((b & ~sign) > inf) b = inf + 1;
  }
  return b & sign ? ~b & (sign | (sign - 1)) : b | sign;
}

// ---- compiled -----------------------------------------------------------------------------------

#if HAVE_LLVM
// The computation as a fusion over arrays: a map for each result, which share what they have in
// common once they are lowered.
bool cpu_lanes_make(const hlo_computation *c, i64 lanes, cpu_lanes *out) {
  *out = (cpu_lanes){0};
  u32 nin = c->nparams, nout = hlo_shape_leaves(c->root->shape);
  bool several = hlo_shape_is_tuple(c->root->shape);
  if (several && c->root->opcode != HLO_TUPLE) return false;
  for (u32 k = 0; k < nin + nout; k++)
    if (!hlo_shape_is_scalar(k < nin ? c->params[k]->shape
                                     : hlo_shape_leaf(c->root->shape, k - nin)))
      return false;
  hlo_ctx *ctx = c->module->ctx;
  hlo_module *m = out->m = hlo_module_new(ctx, "lanes");
  hlo_computation *entry = hlo_add_computation(m, "entry"), *body = hlo_add_computation(m, "body");
  hlo_set_entry(m, entry);
  hlo_instr **args = hs_calloc(2 * (size_t)nin + nout, sizeof *args), **outer = args + nin,
            **results = args + 2 * nin;
  for (u32 k = 0; k < nin; k++) {
    const hlo_shape *s = hlo_shape_array(ctx, c->params[k]->shape->dtype, 1, &lanes);
    args[k] = hlo_add_parameter(body, k, s, "x");
    outer[k] = hlo_add_parameter(entry, k, s, "x");
  }
  for (u32 k = 0; k < nout; k++) {
    const hlo_shape *s = hlo_shape_array(ctx, hlo_shape_leaf(c->root->shape, k)->dtype, 1, &lanes);
    hlo_computation *one = hlo_clone_computation_into(m, c, "one");
    if (several) hlo_set_root(one, hlo_operand(one->root, k));
    results[k] = hlo_add_call(body, HLO_MAP, s, HLO_ATTR_TO_APPLY, one, nin, args);
    hlo_set_attr_ints(results[k], HLO_ATTR_DIMENSIONS, 1, (const i64[]){0});
  }
  hlo_set_root(body, several ? hlo_add_tuple(body, nout, results) : results[0]);
  hlo_instr *f =
      hlo_add_call(entry, HLO_FUSION, body->root->shape, HLO_ATTR_CALLS, body, nin, outer);
  hlo_set_root(entry, f);
  hs_free(args);
  out->instr = f;
  if (emit_supports(f, NULL)) return true;
  cpu_lanes_free(out);
  return false;
}
#else
bool cpu_lanes_make(const hlo_computation *c, i64 lanes, cpu_lanes *out) {
  (void)c, (void)lanes;
  *out = (cpu_lanes){0};
  return false;
}
#endif

void cpu_lanes_free(cpu_lanes *l) {
  if (l->m) hlo_module_free(l->m);
  *l = (cpu_lanes){0};
}

void cpu_lanes_run(const cpu_lanes *l, void *const *bufs) {
  for (i64 k = 0; k < l->kernel->chunks; k++) l->kernel->fn(bufs, k, NULL);
}
