// The code generator against the evaluator: operation x type x shape, each compiled as its own
// kernel and run over its chunks. All kernels of a group are compiled together, as the cpu backend
// does. Integers and moves must agree in every bit; floats within the ULP stated per operation (in
// the precision of the result type).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/eval/eval.h"
#include "core/text/text.h"

#if HAVE_LLVM
#include "backends/emit/emit.h"
#include "backends/emit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xmmintrin.h>

typedef struct kcase {
  hlo_module *m;
  const emit_kernel *k;
  double ulp;
  u32 seed;
  bool wide;
} kcase;
static hlo_ctx *ctx;
static emit_unit *unit;
static HS_VEC(kcase) cases;

static int setup(void **state) {
  (void)state;
  ctx = hlo_ctx_new();
  _mm_setcsr(_mm_getcsr() | 0x8040);  // as every worker thread does
  assert_true(hs_ok(emit_unit_new(&(emit_options){.verify = true}, &unit)));
  return 0;
}

static int teardown(void **state) {
  (void)state;
  for (size_t i = 0; i < cases.n; i++) hlo_module_free(cases.v[i].m);
  hs_vec_free(&cases);
  emit_unit_free(unit);
  hlo_ctx_free(ctx);
  return 0;
}

static void show(hs_status s, const char *text) {
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  print_error("%s\n%s\n", text, hs_buf_cstr(&b));
  hs_buf_free(&b);
}

// Parses a module and adds its root instruction as a kernel.
static void add_case(const char *text, double ulp, bool wide) {
  kcase c = {.ulp = ulp, .seed = (u32)cases.n * 7919 + 13, .wide = wide};
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &c.m);
  if (!hs_ok(s)) show(s, text);
  assert_non_null(c.m);
  s = emit_add(unit, c.m->entry->root, &c.k);
  if (!hs_ok(s)) {
    show(s, text);
    fail();
  }
  hs_vec_push(&cases, c);
}

static u64 rnd(u64 *z) {
  u64 x = (*z += 0x9E3779B97F4A7C15ull);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Values that matter first (zeros, ones, infinities, NaN, extremes), then random ones.
static void fill(hlo_literal *l, u64 *z, bool wide) {
  static const double special[] = {0,    -0.0, 1,   -1,   INFINITY, -INFINITY, NAN,  0.5,
                                   -2.5, 3.5,  100, -100, 1e-3,     7,         1e30, -1e30};
  hlo_dtype t = l->shape->dtype, r = hlo_dtype_real_part(t);
  size_t parts = hlo_dtype_is_complex(t) ? 2 : 1, n = (size_t)l->shape->elements * parts,
         w = hlo_dtype_storage(r);
  for (size_t i = 0; i < n; i++) {
    void *p = (char *)l->data + i * w;
    u64 x = rnd(z);
    if (t == HLO_PRED) *(u8 *)p = x & 1;
    else if (hlo_dtype_is_integer(t)) {
      i64 v = wide ? (i64)x >> (x & 31) : (i64)(x % 13) - (hlo_dtype_is_signed(t) ? 6 : 0);
      if (hlo_dtype_bits(t) < 8)
        v = hlo_dtype_is_signed(t)
                ? (i64)(x % (1u << hlo_dtype_bits(t))) - (1 << (hlo_dtype_bits(t) - 1))
                : (i64)(x % (1u << hlo_dtype_bits(t)));
      else if (wide && x % 7 == 0)
        v = hlo_dtype_is_signed(t) ? (i64)(~0ull << (hlo_dtype_bits(t) - 1)) : -1;
      if (wide && x % 11 == 0) v = 0;
      hlo_elem_from_i64(t, p, v);
    } else {
      double u = (double)(x >> 11) * 0x1p-53;
      double v =
          wide ? (rnd(z) & 1 ? (u - 0.5) * 8 : ldexp(u - 0.5, (int)(x % 40) - 20)) : u * 4 - 2;
      if (wide && parts == 1 && x % 5 == 0) v = special[x / 5 % HS_COUNT(special)];
      hlo_elem_from_f64(r, p, v);
    }
  }
}

static double ulp_of(hlo_dtype t, double v) {
  int bits = t == HLO_F64   ? 52
             : t == HLO_F32 ? 23
             : t == HLO_F16 ? 10
                            : 7,
      emin = t == HLO_F64   ? -1022
             : t == HLO_F16 ? -14
                            : -126,
      e;
  (void)frexp(v, &e);
  return ldexp(1, HS_MAX(e - 1, emin) - bits);
}

static bool same(hlo_dtype t, const void *a, const void *b, double ulp, double scale) {
  if (!hlo_dtype_is_float(t)) return memcmp(a, b, hlo_dtype_storage(t)) == 0;
  double x = hlo_elem_to_f64(t, a), y = hlo_elem_to_f64(t, b);
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  if (x == y) return true;
  if (isinf(x) || isinf(y)) return false;
  return fabs(x - y) <= ulp * ulp_of(t, HS_MAX(fabs(y), scale)) ||
         (fabs(x) < 1.2e-38 && fabs(y) < 1.2e-38 && t != HLO_F16);
}

static void *aligned(const void *data, size_t bytes) {
  void *p = NULL;
  if (posix_memalign(&p, 64, bytes + 64)) return NULL;
  memset(p, 0xA5, bytes + 64);
  if (data) memcpy(p, data, bytes);
  return p;
}

static void check(const kcase *c) {
  const hlo_instr *i = c->m->entry->root;
  hlo_literal *args[16], *want = NULL;
  void *bufs[32], *scratch = aligned(NULL, (size_t)c->k->scratch_bytes);
  u64 z = c->seed;
  u32 nb = 0;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *op = hlo_operand(i, k);
    if (op->opcode == HLO_CONSTANT) args[k] = hlo_literal_ref(hlo_constant_value(op));
    else {
      assert_true(hs_ok(hlo_literal_new(op->shape, &args[k])));
      fill(args[k], &z, c->wide);
    }
    bufs[nb++] = aligned(args[k]->data, args[k]->bytes);
  }
  hlo_eval_options o = {0};
  hs_status s = hlo_eval_instr(i, i->noperands, args, &o, &want);
  if (!hs_ok(s)) {
    show(s, i->name);
    fail();
  }
  u32 leaves = hlo_shape_leaves(i->shape), first = nb;
  for (u32 k = 0; k < leaves; k++) {
    const hlo_shape *ls = hlo_shape_leaf(i->shape, k);
    bufs[nb++] = aligned(NULL, (size_t)ls->elements * hlo_dtype_storage(ls->dtype));
  }
  for (i64 ch = c->k->chunks; ch-- > 0;) c->k->fn(bufs, ch, scratch);
  for (i64 ch = c->k->finish_chunks; ch-- > 0;) c->k->finish(bufs, ch, scratch);
  for (u32 k = 0; k < leaves; k++) {
    const hlo_literal *w = want->nchildren ? want->children[k] : want;
    hlo_dtype t = hlo_dtype_real_part(w->shape->dtype);
    size_t esz = hlo_dtype_storage(t), n = w->bytes / esz;
    double scale = 0;
    if (c->ulp > 100)  // sums: relative to the largest result
      for (size_t e = 0; e < n && hlo_dtype_is_float(t); e++) {
        double v = fabs(hlo_elem_to_f64(t, (const char *)w->data + e * esz));
        if (v > scale && v < INFINITY) scale = v;
      }
    for (size_t e = 0; e < n; e++) {
      if (same(t, (char *)bufs[first + k] + e * esz, (const char *)w->data + e * esz, c->ulp,
               scale))
        continue;
      hs_buf b = {0};
      hlo_print_options po = hlo_print_default();
      hlo_print_instr(&b, i, &po);
      for (u32 a = 0; a < i->noperands; a++)
        if (args[a]->shape->elements && hlo_shape_same_dims(args[a]->shape, w->shape))
          hs_buf_printf(&b, "\n  operand %u: %.17g", a, hlo_literal_f64(args[a], (i64)e));
      print_error("%s\nresult %u element %zu: %.17g, evaluator %.17g\n", hs_buf_cstr(&b), k, e,
                  hlo_elem_to_f64(t, (char *)bufs[first + k] + e * esz),
                  hlo_elem_to_f64(t, (const char *)w->data + e * esz));
      hs_buf_free(&b);
      fail();
    }
    const u8 *guard = (const u8 *)bufs[first + k] + w->bytes;  // nothing written past the end
    for (int g = 0; g < 64; g++) assert_int_equal(guard[g], 0xA5);
  }
  for (u32 k = 0; k < nb; k++) free(bufs[k]);
  free(scratch);
  for (u32 k = 0; k < i->noperands; k++) hlo_literal_unref(args[k]);
  hlo_literal_unref(want);
}

static void run_cases(void) {
  double ms = 0;
  hs_status s = emit_finish(unit, 2, &ms);
  if (!hs_ok(s)) show(s, "emit_finish");
  assert_true(cases.n > 0 && cases.v[0].k->fn);
  for (size_t i = 0; i < cases.n; i++) check(&cases.v[i]);
}

// ---- elementwise --------------------------------------------------------------------------------
static const char *const shapes[] = {"[]", "[0]", "[1]", "[67]", "[3,5,9]"};
static const char *const ints[] = {"s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"};
static const char *const floats[] = {"f16", "bf16", "f32", "f64"};

static void unary_case(const char *op, const char *in, const char *out, const char *shape,
                       const char *attrs, double ulp) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY e {\n  x = %s%s parameter(0)\n  ROOT r = %s%s %s(x)%s\n}\n", in,
           shape, out, shape, op, attrs);
  add_case(text, ulp, true);
}
static void binary_case(const char *op, const char *in, const char *out, const char *shape,
                        const char *attrs, double ulp) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY e {\n  x = %s%s parameter(0)\n  y = %s%s parameter(1)\n"
           "  ROOT r = %s%s %s(x, y)%s\n}\n",
           in, shape, in, shape, out, shape, op, attrs);
  add_case(text, ulp, true);
}

static void integers(void **state) {
  (void)state;
  static const char *const two[] = {"add",
                                    "subtract",
                                    "multiply",
                                    "divide",
                                    "remainder",
                                    "maximum",
                                    "minimum",
                                    "and",
                                    "or",
                                    "xor",
                                    "shift-left",
                                    "shift-right-arithmetic",
                                    "shift-right-logical",
                                    "power"};
  static const char *const one[] = {"abs",  "negate", "not",
                                    "sign", "popcnt", "count-leading-zeros"};
  for (size_t t = 0; t < HS_COUNT(ints); t++) {
    for (size_t k = 0; k < HS_COUNT(two); k++)
      binary_case(two[k], ints[t], ints[t], shapes[(k + t) % 5 == 1 ? 0 : 3], "", 0);
    for (size_t k = 0; k < HS_COUNT(one); k++)
      if (!(one[k][0] == 'n' && one[k][1] == 'e' && ints[t][0] == 'u'))
        unary_case(one[k], ints[t], ints[t], "[67]", "", 0);
  }
  run_cases();
}

static void float_arithmetic(void **state) {
  (void)state;
  static const char *const two[] = {"add", "subtract", "multiply", "divide", "maximum", "minimum"};
  static const char *const one[] = {
      "abs", "negate", "floor", "ceil", "round-nearest-even", "round-nearest-afz", "sign"};
  for (size_t t = 0; t < HS_COUNT(floats); t++) {
    for (size_t s = 0; s < HS_COUNT(shapes); s++)
      binary_case("add", floats[t], floats[t], shapes[s], "", 0);
    for (size_t k = 0; k < HS_COUNT(two); k++)
      binary_case(two[k], floats[t], floats[t], "[67]", "", 0);
    for (size_t k = 0; k < HS_COUNT(one); k++)
      unary_case(one[k], floats[t], floats[t], "[131]", "", 0);
    unary_case("is-finite", floats[t], "pred", "[67]", "", 0);
    unary_case("sqrt", floats[t], floats[t], "[67]", "", 1);
    binary_case("remainder", floats[t], floats[t], "[67]", "", 1);
    unary_case("reduce-precision", floats[t], floats[t], "[131]",
               ", exponent_bits=5, mantissa_bits=6", 0);
  }
  run_cases();
}

// ULP against the evaluator, per operation.
static const struct {
  const char *op;
  double f32, f64;
  bool two;
} math_ops[] = {
    {"exponential", 2, 2, false},  {"log", 2, 2, false},
    {"log-plus-one", 4, 4, false}, {"exponential-minus-one", 4, 4, false},
    {"logistic", 4, 4, false},     {"tanh", 4, 4, false},
    {"erf", 5, 2, false},          {"sine", 3, 2, false},
    {"cosine", 3, 2, false},       {"tan", 3, 2, false},
    {"rsqrt", 2, 2, false},        {"cbrt", 2, 2, false},
    {"power", 2, 2, true},         {"atan2", 4, 2, true},
};

static void math(void **state) {
  (void)state;
  for (size_t k = 0; k < HS_COUNT(math_ops); k++)
    for (size_t t = 0; t < HS_COUNT(floats); t++) {
      double ulp = t == 3 ? math_ops[k].f64 : t == 2 ? math_ops[k].f32 : 1;
      if (math_ops[k].two) binary_case(math_ops[k].op, floats[t], floats[t], "[1031]", "", ulp);
      else unary_case(math_ops[k].op, floats[t], floats[t], "[1031]", "", ulp);
    }
  run_cases();
}

static void comparisons(void **state) {
  (void)state;
  static const char *const dirs[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  for (size_t d = 0; d < 6; d++) {
    char attr[64];
    snprintf(attr, sizeof attr, ", direction=%s", dirs[d]);
    for (size_t t = 0; t < HS_COUNT(ints); t++)
      binary_case("compare", ints[t], "pred", "[67]", attr, 0);
    for (size_t t = 0; t < HS_COUNT(floats); t++)
      binary_case("compare", floats[t], "pred", "[67]", attr, 0);
    binary_case("compare", "pred", "pred", "[67]", attr, 0);
    snprintf(attr, sizeof attr, ", direction=%s, type=TOTALORDER", dirs[d]);
    for (size_t t = 0; t < HS_COUNT(floats); t++)
      binary_case("compare", floats[t], "pred", "[131]", attr, 0);
  }
  run_cases();
}

static void converts(void **state) {
  (void)state;
  const char *all[16];
  size_t n = 0;
  for (size_t k = 0; k < HS_COUNT(ints); k++) all[n++] = ints[k];
  for (size_t k = 0; k < HS_COUNT(floats); k++) all[n++] = floats[k];
  all[n++] = "pred";
  for (size_t a = 0; a < n; a++)
    for (size_t b = 0; b < n; b++)
      if (a != b) unary_case("convert", all[a], all[b], "[131]", "", 0);
  unary_case("bitcast-convert", "f32", "s32", "[67]", "", 0);
  unary_case("bitcast-convert", "u16", "bf16", "[67]", "", 0);
  unary_case("bitcast-convert", "f64", "u64", "[67]", "", 0);
  add_case(
      "HloModule m\nENTRY e {\n x = u32[7] parameter(0)\n ROOT r = u8[7,4] bitcast-convert(x)\n}",
      0, true);
  add_case(
      "HloModule m\nENTRY e {\n x = u8[7,8] parameter(0)\n ROOT r = s64[7] bitcast-convert(x)\n}",
      0, true);
  run_cases();
}

// Formats below 8 bits and 8-bit floats: conversions both ways, arithmetic rounded or wrapped after
// each step.
static void small_types(void **state) {
  (void)state;
  static const char *const f8[] = {"f8e5m2",     "f8e4m3fn",   "f8e4m3b11fnuz",
                                   "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4"};
  static const char *const i4[] = {"s4", "u4", "s2", "u2"};
  for (size_t k = 0; k < HS_COUNT(f8); k++) {
    unary_case("convert", "f32", f8[k], "[131]", "", 0);
    unary_case("convert", f8[k], "f32", "[131]", "", 0);
    unary_case("convert", f8[k], "s32", "[131]", "", 0);
    binary_case("compare", f8[k], "pred", "[131]", ", direction=LT", 0);
    binary_case("multiply", f8[k], f8[k], "[131]", "", 0);
  }
  for (size_t k = 0; k < HS_COUNT(i4); k++) {
    unary_case("convert", "s32", i4[k], "[131]", "", 0);
    unary_case("convert", "f32", i4[k], "[131]", "", 0);
    unary_case("convert", i4[k], "s32", "[131]", "", 0);
    binary_case("add", i4[k], i4[k], "[131]", "", 0);
    binary_case("multiply", i4[k], i4[k], "[131]", "", 0);
    binary_case("maximum", i4[k], i4[k], "[131]", "", 0);
    binary_case("shift-right-logical", i4[k], i4[k], "[131]", "", 0);
  }
  run_cases();
}

static void complexes(void **state) {
  (void)state;
  static const char *const two[] = {"add", "subtract", "multiply", "divide"};
  for (size_t k = 0; k < 4; k++)
    for (int d = 0; d < 2; d++) {
      char text[512];
      const char *t = d ? "c128" : "c64";
      snprintf(text, sizeof text,
               "HloModule m\nENTRY e {\n x = %s[37] parameter(0)\n y = %s[37] parameter(1)\n"
               " ROOT r = %s[37] %s(x, y)\n}",
               t, t, t, two[k]);
      add_case(text, 1000, false);
    }
  add_case("HloModule m\nENTRY e {\n x = c64[37] parameter(0)\n ROOT r = f32[37] abs(x)\n}", 8,
           false);
  add_case("HloModule m\nENTRY e {\n x = c64[37] parameter(0)\n ROOT r = c64[37] exponential(x)\n}",
           1000, false);
  add_case("HloModule m\nENTRY e {\n x = f32[37] parameter(0)\n y = f32[37] parameter(1)\n"
           " ROOT r = c64[37] complex(x, y)\n}",
           0, true);
  add_case("HloModule m\nENTRY e {\n x = c64[9,5] parameter(0)\n ROOT r = c64[5,9] transpose(x), "
           "dimensions={1,0}\n}",
           0, false);
  add_case("HloModule m\nENTRY e {\n x = c64[37] parameter(0)\n ROOT r = f32[37] imag(x)\n}", 0,
           false);
  run_cases();
}

// ---- movement, reductions, fusions --------------------------------------------------------------
#define SUM "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
#define MAX \
  "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"
static const struct {
  double ulp;
  const char *text;
} modules[] = {
    {0, "ENTRY e {\n x = f32[5] parameter(0)\n ROOT r = f32[3,5,2] broadcast(x), "
        "dimensions={1}\n}"},
    {0, "ENTRY e {\n x = s32[] parameter(0)\n ROOT r = s32[33] broadcast(x), dimensions={}\n"
        "}"},
    {0, "ENTRY e {\n x = f32[6,35] parameter(0)\n ROOT r = f32[14,15] reshape(x)\n}"},
    {0, "ENTRY e {\n x = f32[3,4,35] parameter(0)\n ROOT r = f32[35,3,4] transpose(x), "
        "dimensions={2,0,1}\n}"},
    {0, "ENTRY e {\n x = f32[67,45] parameter(0)\n ROOT r = f32[45,67] transpose(x), "
        "dimensions={1,0}\n}"},
    {0, "ENTRY e {\n x = u8[67,133] parameter(0)\n ROOT r = u8[133,67] transpose(x), "
        "dimensions={1,0}\n}"},
    {0, "ENTRY e {\n x = f64[2,40,33] parameter(0)\n ROOT r = f64[2,33,40] transpose(x), "
        "dimensions={0,2,1}\n}"},
    {0, "ENTRY e {\n x = bf16[40,64] parameter(0)\n ROOT r = bf16[64,40] transpose(x), "
        "dimensions={1,0}\n}"},
    {0, "ENTRY e {\n x = f32[20,30] parameter(0)\n ROOT r = f32[5,20] slice(x), "
        "slice={[3:18:3], [2:22]}\n}"},
    {0, "ENTRY e {\n x = f32[201] parameter(0)\n ROOT r = f32[67] slice(x), "
        "slice={[0:201:3]}\n}"},
    {0, "ENTRY e {\n x = f64[129] parameter(0)\n ROOT r = f64[64] slice(x), "
        "slice={[1:129:2]}\n}"},
    {0, "ENTRY e {\n x = u8[600] parameter(0)\n ROOT r = u8[150] slice(x), slice={[0:600:4]}\n"
        "}"},
    {0, "f { x = f32[40,3] parameter(0)\n a = f32[40,50,3] broadcast(x), dimensions={0,2}\n"
        " b = f32[50,3] parameter(1)\n c = f32[40,50,3] broadcast(b), dimensions={1,2}\n"
        " ROOT r = f32[40,50,3] subtract(a, c) }\nENTRY e {\n x = f32[40,3] parameter(0)\n"
        " y = f32[50,3] parameter(1)\n ROOT r = f32[40,50,3] fusion(x, y), kind=kLoop, "
        "calls=f\n}"},
    {0, "f { x = f32[6,64] parameter(0)\n g = f32[6,16] parameter(1)\n"
        " a = f32[6,16,4] reshape(x)\n b = f32[6,16,4] broadcast(g), dimensions={0,1}\n"
        " c = f32[6,16,4] multiply(a, b)\n"
        " ROOT r = f32[6,64] reshape(c) }\nENTRY e {\n x = f32[6,64] parameter(0)\n"
        " y = f32[6,16] parameter(1)\n ROOT r = f32[6,64] fusion(x, y), kind=kLoop, calls=f\n"
        "}"},
    {0, "ENTRY e {\n x = f32[20,30] parameter(0)\n ROOT r = f32[20,30] reverse(x), "
        "dimensions={0,1}\n}"},
    {0, "ENTRY e {\n x = f32[7,9] parameter(0)\n v = f32[] parameter(1)\n"
        " ROOT r = f32[12,30] pad(x, v), padding=2_3x1_4_2\n}"},
    {0, "ENTRY e {\n x = f32[17,19] parameter(0)\n v = f32[] parameter(1)\n"
        " ROOT r = f32[15,23] pad(x, v), padding=-1_-1x3_1\n}"},
    {0, "ENTRY e {\n x = s8[3,40] parameter(0)\n y = s8[3,7] parameter(1)\n"
        " z = s8[3,0] parameter(2)\n ROOT r = s8[3,47] concatenate(x, z, y), dimensions={1}\n"
        "}"},
    {0, "ENTRY e {\n x = f32[3,40] parameter(0)\n y = f32[5,40] parameter(1)\n"
        " ROOT r = f32[8,40] concatenate(x, y), dimensions={0}\n}"},
    {0, "ENTRY e {\n ROOT r = f32[5,37] iota(), iota_dimension=1\n}"},
    {0, "ENTRY e {\n ROOT r = u8[300] iota(), iota_dimension=0\n}"},
    {0, "ENTRY e {\n x = f32[20,30] parameter(0)\n i = s32[] parameter(1)\n"
        " j = s32[] parameter(2)\n ROOT r = f32[4,30] dynamic-slice(x, i, j), "
        "dynamic_slice_sizes={4,30}\n}"},
    {0, "ENTRY e {\n x = f32[20,30] parameter(0)\n u = f32[3,25] parameter(1)\n"
        " i = s32[] parameter(2)\n j = u8[] parameter(3)\n"
        " ROOT r = f32[20,30] dynamic-update-slice(x, u, i, j)\n}"},
    {0, "ENTRY e {\n x = f32[11,33] parameter(0)\n i = s32[6,1] parameter(1)\n"
        " ROOT r = f32[6,33] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,33}\n}"},
    {0, "ENTRY e {\n x = f32[11,33] parameter(0)\n i = s64[50,2] parameter(1)\n"
        " ROOT r = f32[50] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, "
        "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}\n}"},
    {0, "ENTRY e {\n p = pred[] parameter(0)\n x = f32[40] parameter(1)\n"
        " y = f32[40] parameter(2)\n ROOT r = f32[40] select(p, x, y)\n}"},
    {0, "ENTRY e {\n p = pred[40] parameter(0)\n x = u8[40] parameter(1)\n"
        " y = u8[40] parameter(2)\n ROOT r = u8[40] select(p, x, y)\n}"},
    {0, "ENTRY e {\n l = f32[] parameter(0)\n x = f32[40] parameter(1)\n"
        " h = f32[] parameter(2)\n ROOT r = f32[40] clamp(l, x, h)\n}"},
    {4, "g { a = f32[] parameter(0)\n b = f32[] parameter(1)\n m = f32[] multiply(a, b)\n"
        " ROOT c = f32[] exponential(m) }\nENTRY e {\n x = f32[40] parameter(0)\n"
        " y = f32[40] parameter(1)\n"
        " ROOT r = f32[40] map(x, y), dimensions={0}, to_apply=g\n}"},
    {200, SUM "ENTRY e {\n x = f32[33,71] parameter(0)\n z = f32[] constant(0)\n"
              " ROOT r = f32[33] reduce(x, z), dimensions={1}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[71,33] parameter(0)\n z = f32[] constant(0)\n"
              " ROOT r = f32[33] reduce(x, z), dimensions={0}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[9,11,33] parameter(0)\n z = f32[] constant(1)\n"
              " ROOT r = f32[11] reduce(x, z), dimensions={0,2}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[700,1301] parameter(0)\n z = f32[] constant(2)\n"
              " ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[100003,6] parameter(0)\n z = f32[] constant(2)\n"
              " ROOT r = f32[6] reduce(x, z), dimensions={0}, to_apply=add\n}"},
    {200, SUM "ENTRY e {\n x = f32[3,0] parameter(0)\n z = f32[] constant(2)\n"
              " ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=add\n}"},
    {0, MAX "ENTRY e {\n x = f32[3,1000] parameter(0)\n z = f32[] constant(-inf)\n"
            " ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=max\n}"},
    {0, "m { a = s8[] parameter(0)\n b = s8[] parameter(1)\n ROOT c = s8[] minimum(a, b) }\n"
        "ENTRY e {\n x = s8[5,300] parameter(0)\n z = s8[] constant(127)\n"
        " ROOT r = s8[5] reduce(x, z), dimensions={1}, to_apply=m\n}"},
    {0, "m { a = pred[] parameter(0)\n b = pred[] parameter(1)\n ROOT c = pred[] and(a, b) }\n"
        "ENTRY e {\n x = pred[5,3] parameter(0)\n z = pred[] constant(true)\n"
        " ROOT r = pred[5] reduce(x, z), dimensions={1}, to_apply=m\n}"},
    {0, "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n h = f32[] constant(0.5)\n"
        " m = f32[] multiply(a, h)\n ROOT c = f32[] subtract(m, b) }\nENTRY e {\n"
        " x = f32[5,37] parameter(0)\n"
        " z = f32[] constant(1)\n ROOT r = f32[5] reduce(x, z), dimensions={1}, to_apply=s\n"
        "}"},
    {0, "am { v0 = f32[] parameter(0)\n i0 = s32[] parameter(1)\n v1 = f32[] parameter(2)\n"
        " i1 = s32[] parameter(3)\n g = pred[] compare(v0, v1), direction=GT\n"
        " q = pred[] compare(v0, v1), direction=EQ\n l = pred[] compare(i0, i1), "
        "direction=LT\n ql = pred[] and(q, l)\n p = pred[] or(g, ql)\n"
        " v = f32[] select(p, v0, v1)\n"
        " i = s32[] select(p, i0, i1)\n ROOT t = (f32[], s32[]) tuple(v, i) }\n"
        "f { x = f32[7,300] parameter(0)\n io = s32[7,300] iota(), iota_dimension=1\n"
        " ni = f32[] constant(-inf)\n"
        " z = s32[] constant(0)\n ROOT r = (f32[7], s32[7]) reduce(x, io, ni, z), "
        "dimensions={1}, to_apply=am }\nENTRY e {\n x = f32[7,300] parameter(0)\n"
        " ROOT r = (f32[7], s32[7]) fusion(x), kind=kInput, calls=f\n}"},
    {200, SUM MAX "f { x = f32[19,77] parameter(0)\n n = f32[] constant(-inf)\n"
                  " z = f32[] constant(0)\n m = f32[19] reduce(x, n), dimensions={1}, "
                  "to_apply=max\n"
                  " mb = f32[19,77] broadcast(m), dimensions={0}\n"
                  " s = f32[19,77] subtract(x, mb)\n ex = f32[19,77] exponential(s)\n"
                  " t = f32[19] reduce(ex, z), dimensions={1}, to_apply=add\n"
                  " tb = f32[19,77] broadcast(t), dimensions={0}\n"
                  " ROOT d = f32[19,77] divide(ex, tb) }\nENTRY e {\n"
                  " x = f32[19,77] parameter(0)\n ROOT r = f32[19,77] fusion(x), kind=kInput, "
                  "calls=f\n}"},
    {200,
     SUM MAX "f { x = f32[45,33] parameter(0)\n n = f32[] constant(-inf)\n z = f32[] constant(0)\n"
             " q = f32[45,33] multiply(x, x)\n a = f32[33] reduce(x, z), dimensions={0}, "
             "to_apply=add\n"
             " b = f32[33] reduce(q, z), dimensions={0}, to_apply=add\n"
             " c = f32[33] reduce(x, n), dimensions={0}, to_apply=max\n"
             " ROOT t = (f32[33], f32[33], f32[33], f32[45,33]) tuple(a, b, c, q) }\n"
             "ENTRY e {\n x = f32[45,33] parameter(0)\n ROOT r = (f32[33], f32[33], f32[33], "
             "f32[45,33]) fusion(x), kind=kInput, calls=f\n}"},
    {200, SUM "ENTRY e {\n x = f32[1,20,20,3] parameter(0)\n z = f32[] constant(0)\n"
              " ROOT r = f32[1,10,10,3] reduce-window(x, z), window={size=1x3x3x1 stride=1x2x2x1 "
              "pad=0_0x1_0x0_1x0_0}, to_apply=add\n}"},
    {0, MAX "ENTRY e {\n x = f32[40,21] parameter(0)\n z = f32[] constant(-inf)\n"
            " ROOT r = f32[40,21] reduce-window(x, z), window={size=1x21 pad=0_0x20_0}, "
            "to_apply=max\n}"},
    {200, "ENTRY e {\n x = f32[9,31] parameter(0)\n y = f32[31,20] parameter(1)\n"
          " ROOT r = f32[9,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
          "}"},
    {200, "ENTRY e {\n x = f32[4,9,31] parameter(0)\n y = f32[4,7,31] parameter(1)\n"
          " ROOT r = f32[4,9,7] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
          "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n}"},
    {0, "f { x = f32[8,50] parameter(0)\n a = f32[8,10] slice(x), slice={[0:8],[40:50]}\n"
        " b = f32[8,40] slice(x), slice={[0:8],[0:40]}\n c = f32[8,50] concatenate(a, b), "
        "dimensions={1}\n"
        " ROOT r = f32[8,50] add(c, x) }\nENTRY e {\n x = f32[8,50] parameter(0)\n"
        " ROOT r = f32[8,50] fusion(x), kind=kLoop, calls=f\n}"},
    {0, "f { x = f32[6,4,5] parameter(0)\n y = f32[120] parameter(1)\n"
        " a = f32[120] reshape(x)\n b = f32[120] add(a, y)\n ROOT r = f32[6,20] reshape(b) }\n"
        "ENTRY e {\n x = f32[6,4,5] parameter(0)\n"
        " y = f32[120] parameter(1)\n ROOT r = f32[6,20] fusion(x, y), kind=kLoop, calls=f\n"
        "}"},
    {0, "f { i = s32[] parameter(0)\n x = f32[20,8] parameter(1)\n z = s32[] constant(0)\n"
        " d = f32[1,8] dynamic-slice(x, i, z), dynamic_slice_sizes={1,8}\n"
        " r0 = f32[8] reshape(d)\n"
        " c = f32[8] constant({1,2,3,4,5,6,7,8})\n ROOT r = f32[8] multiply(r0, c) }\n"
        "ENTRY e {\n i = s32[] parameter(0)\n x = f32[20,8] parameter(1)\n"
        " ROOT r = f32[8] fusion(i, x), kind=kLoop, calls=f\n}"},
};

static void structure(void **state) {
  (void)state;
  for (size_t k = 0; k < HS_COUNT(modules); k++) {
    char *text = hs_format("HloModule m\n%s\n", modules[k].text);
    add_case(text, modules[k].ulp, false);
    hs_free(text);
  }
  run_cases();
}

static void equal_kernels_share_code(void **state) {
  (void)state;
  unary_case("exponential", "f32", "f32", "[64]", "", 2);
  unary_case("exponential", "f32", "f32", "[8,8]", "", 2);
  unary_case("exponential", "f32", "f32", "[65]", "", 2);
  run_cases();
  assert_ptr_equal(cases.v[0].k->fn, cases.v[1].k->fn);
  assert_ptr_not_equal(cases.v[0].k->fn, cases.v[2].k->fn);
}

static void refuses_by_name(void **state) {
  (void)state;
  const char *text =
      "HloModule m\nENTRY e {\n x = f32[8,8] parameter(0)\n ROOT r = f32[8,8] cholesky(x), "
      "lower=true\n}";
  hlo_module *m = NULL;
  assert_true(hs_ok(hlo_parse(ctx, text, strlen(text), NULL, &m)));
  hs_buf why = {0};
  assert_false(emit_supports(m->entry->root, &why));
  assert_non_null(strstr(hs_buf_cstr(&why), "cholesky"));
  hs_buf_free(&why);
  hlo_module_free(m);
}

static void dumps(void **state) {
  (void)state;
  unary_case("tanh", "f32", "f32", "[64]", "", 4);
  hs_buf b = {0};
  static const struct {
    const char *what, *has;
  } want[] = {{"llvm", "define void @k0"}, {"asm", "k0:"}, {"schedule", "pointwise"}};
  for (size_t k = 0; k < HS_COUNT(want); k++) {
    b.n = 0;
    assert_true(hs_ok(emit_dump(unit, want[k].what, &b)));
    assert_non_null(strstr(hs_buf_cstr(&b), want[k].has));
  }
  hs_buf_free(&b);
}

// ---- work and memory that must stay bounded -----------------------------------------------------

static hlo_module *parsed(const char *text) {
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (!hs_ok(s)) show(s, text);
  assert_non_null(m);
  return m;
}

// Thirty squarings, each of the one before, are 2^30 paths through 30 nodes.
static void shared_nodes_are_visited_once(void **state) {
  (void)state;
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                  " ROOT r = f32[] add(a, b) }\n"
                  "f { x0 = f32[16,16]{0,1} parameter(0)\n");
  for (int k = 1; k <= 30; k++)
    hs_buf_printf(&b, " x%d = f32[16,16]{0,1} multiply(x%d, x%d)\n", k, k - 1, k - 1);
  hs_buf_puts(&b, " z = f32[] constant(0)\n"
                  " ROOT r = f32[] reduce(x30, z), dimensions={0,1}, to_apply=add }\n"
                  "ENTRY e { x = f32[16,16]{0,1} parameter(0)\n"
                  " ROOT r = f32[] fusion(x), kind=kInput, calls=f }\n");
  u64 t0 = hs_now_ns();
  hlo_module *m = parsed(hs_buf_cstr(&b));
  const emit_kernel *k = NULL;
  assert_true(hs_ok(emit_add(unit, m->entry->root, &k)));
  assert_true(hs_ok(emit_finish(unit, 1, NULL)));
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hlo_module_free(m);
  hs_buf_free(&b);
}

// A chain of reshapes and transposes that do not cancel: the index expressions double at each step
// unless they are shared. Right, and compiled in time.
static void index_expressions_are_shared(void **state) {
  (void)state;
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\nf { x0 = f32[77] parameter(0)\n");
  for (int k = 0; k < 40; k++)
    hs_buf_printf(&b,
                  " a%d = f32[7,11] reshape(x%d)\n b%d = f32[11,7] transpose(a%d), "
                  "dimensions={1,0}\n c%d = f32[77] reshape(b%d)\n x%d = f32[77] negate(c%d)\n",
                  k, k, k, k, k, k, k + 1, k);
  hs_buf_puts(&b, " ROOT r = f32[77] negate(x40) }\nENTRY e { x = f32[77] parameter(0)\n"
                  " ROOT r = f32[77] fusion(x), kind=kLoop, calls=f }\n");
  u64 t0 = hs_now_ns();
  add_case(hs_buf_cstr(&b), 0, false);
  run_cases();
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hs_buf_free(&b);
}

// Concatenations of concatenations double the elements asked for: refused by name, in time.
static void large_kernels_are_refused(void **state) {
  (void)state;
  hs_buf b = {0}, why = {0};
  hs_buf_puts(&b, "HloModule m\nf { x0 = f32[64] parameter(0)\n");
  for (int k = 0; k < 40; k++)
    hs_buf_printf(&b,
                  " p%d = f32[32] slice(x%d), slice={[16:48]}\n"
                  " x%d = f32[64] concatenate(p%d, p%d), dimensions={0}\n",
                  k, k, k + 1, k, k);
  hs_buf_puts(&b, " ROOT r = f32[64] negate(x40) }\nENTRY e { x = f32[64] parameter(0)\n"
                  " ROOT r = f32[64] fusion(x), kind=kLoop, calls=f }\n");
  hlo_module *m = parsed(hs_buf_cstr(&b));
  u64 t0 = hs_now_ns();
  assert_false(emit_supports(m->entry->root, &why));
  assert_non_null(strstr(hs_buf_cstr(&why), "too large"));
  assert_true(hs_now_ns() - t0 < 5000000000u);
  hlo_module_free(m);
  hs_buf_free(&b);
  hs_buf_free(&why);
}

// Every s-th element, in vectors of every width: nothing behind the last element is read. The
// operand ends where its page does, and the next page cannot be read.
static void strided_loads_stay_inside(void **state) {
  (void)state;
  enum { N = 4 };
  static const struct {
    const char *type;
    size_t bytes;
  } types[] = {{"f64", 8}, {"f32", 4}, {"u8", 1}};
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
  for (u32 width = 16; width <= emit_vector_bytes(); width *= 2)
    for (size_t t = 0; t < HS_COUNT(types); t++)
      for (u32 step = 2; step <= 4; step++)
        for (u32 n = N; n <= 64; n *= 2) {
          u32 last = step * (n - 1);
          char *text = hs_format("HloModule m\nENTRY e { x = %s[%u] parameter(0)\n"
                                 " ROOT r = %s[%u] slice(x), slice={[0:%u:%u]} }\n",
                                 types[t].type, last + 1, types[t].type, n, last + 1, step);
          hlo_module *m = parsed(text);
          emit_unit *u = NULL;
          const emit_kernel *k = NULL;
          assert_true(hs_ok(emit_unit_new(&(emit_options){.vector_bytes = width}, &u)));
          assert_true(hs_ok(emit_add(u, m->entry->root, &k)));
          assert_true(hs_ok(emit_finish(u, 1, NULL)));
          size_t bytes = (last + 1) * types[t].bytes;
          u8 *x = (u8 *)p + page - bytes, *r = aligned(NULL, n * types[t].bytes);
          for (size_t i = 0; i < bytes; i++) x[i] = (u8)(i * 37 + 11);
          void *bufs[2] = {x, r};
          for (i64 c = 0; c < k->chunks; c++) k->fn(bufs, c, NULL);
          for (u32 i = 0; i < n; i++)
            assert_memory_equal(r + i * types[t].bytes, x + i * step * types[t].bytes,
                                types[t].bytes);
          free(r);
          emit_unit_free(u);
          hlo_module_free(m);
          hs_free(text);
        }
  munmap(p, 2 * page);
}

// Code generation that stops inside of loops gives its memory back (LeakSanitizer looks).
static void failing_kernels_leak_nothing(void **state) {
  (void)state;
  hlo_module *m = parsed("HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                         " ROOT r = f32[] add(a, b) }\n"
                         "f { x = f32[64,64] parameter(0)\n y = f32[64,64] exponential(x)\n"
                         " z = f32[] constant(0)\n"
                         " ROOT r = f32[64] reduce(y, z), dimensions={0}, to_apply=add }\n"
                         "ENTRY e { x = f32[64,64] parameter(0)\n"
                         " ROOT r = f32[64] fusion(x), kind=kInput, calls=f }\n");
  emit_jit *jit = NULL;
  emit_body b = {.name = "k"}, *bodies[] = {&b};
  emit_options o = {.vector_bytes = emit_vector_bytes()};
  assert_true(hs_ok(nest_lower(&b.arena, m->entry->root, &b.n)));
  nest_simplify(b.n);
  nest_schedule(b.n, o.vector_bytes);
  for (size_t k = 0; k < b.n->nodes.n; k++)
    if (b.n->nodes.v[k].op == HLO_EXP) b.n->nodes.v[k].op = HLO_CHOLESKY;
  assert_true(hs_ok(emit_jit_new(&o, &jit)));
  hs_status s = emit_jit_compile(jit, 1, bodies, 1);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_UNSUPPORTED);
  hs_status_drop(s);
  emit_jit_free(jit);
  nest_free(b.n);
  hs_arena_free(&b.arena);
  hlo_module_free(m);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {TEST(integers),
                                     TEST(float_arithmetic),
                                     TEST(math),
                                     TEST(comparisons),
                                     TEST(converts),
                                     TEST(small_types),
                                     TEST(complexes),
                                     TEST(structure),
                                     TEST(equal_kernels_share_code),
                                     TEST(refuses_by_name),
                                     TEST(dumps),
                                     TEST(shared_nodes_are_visited_once),
                                     TEST(index_expressions_are_shared),
                                     TEST(large_kernels_are_refused),
                                     TEST(strided_loads_stay_inside),
                                     TEST(failing_kernels_leak_nothing)};
  return cmocka_run_group_tests_name("emit", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

static void needs_llvm(void **state) {
  (void)state;
  SKIP_TEST("no LLVM in this build");
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(needs_llvm)};
  return cmocka_run_group_tests_name("emit", tests, NULL, NULL);
}
#endif
