// kernels.h — the code generator against the evaluator: a module's root instruction is compiled
// as a kernel of its own and run over its chunks, on arguments that start with the values that
// matter.
//
// All kernels of a test are compiled together, as the cpu backend does. Integers and moves must
// agree in every bit; floats within the ULP stated per case, in the precision of the result
// type. A result has guard bytes behind it, which no kernel may write. Only with HAVE_LLVM.
#ifndef TESTS_UNIT_BACKENDS_KERNELS_H
#define TESTS_UNIT_BACKENDS_KERNELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

#include "backends/emit/emit.h"
#include "core/eval/eval.h"
#include "core/text/text.h"

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

static inline int setup(void **state) {
  (void)state;
  ctx = hlo_ctx_new();
  _mm_setcsr(_mm_getcsr() | 0x8040);  // as every worker thread does
  assert_true(hs_ok(emit_unit_new(&(emit_options){.verify = true}, &unit)));
  return 0;
}

static inline int teardown(void **state) {
  (void)state;
  for (size_t i = 0; i < cases.n; i++) hlo_module_free(cases.v[i].m);
  hs_vec_free(&cases);
  emit_unit_free(unit);
  hlo_ctx_free(ctx);
  return 0;
}

static inline void show(hs_status s, const char *text) {
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  print_error("%s\n%s\n", text, hs_buf_cstr(&b));
  hs_buf_free(&b);
}

// Parses a module and adds its root instruction as a kernel.
static inline hlo_module *parsed(const char *text) {
  hlo_module *m = NULL;
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (!hs_ok(s)) show(s, text);
  assert_non_null(m);
  return m;
}

// Parses a module and adds its root instruction as a kernel.
static inline void add_case(const char *text, double ulp, bool wide) {
  kcase c = {.m = parsed(text), .ulp = ulp, .seed = (u32)cases.n * 7919 + 13, .wide = wide};
  hs_status s = emit_add(unit, c.m->entry->root, &c.k);
  if (!hs_ok(s)) {
    show(s, text);
    fail();
  }
  hs_vec_push(&cases, c);
}

static inline u64 rnd(u64 *z) {
  u64 x = (*z += 0x9E3779B97F4A7C15ull);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Values that matter first (zeros, ones, infinities, NaN, extremes), then random ones.
static inline void fill(hlo_literal *l, u64 *z, bool wide) {
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

static inline bool same(hlo_dtype t, const void *a, const void *b, double ulp, double scale) {
  if (!hlo_dtype_is_float(t)) return memcmp(a, b, hlo_dtype_storage(t)) == 0;
  double x = hlo_elem_to_f64(t, a), y = hlo_elem_to_f64(t, b), one = hlo_unit_at(t, scale);
  return hlo_close(t, y, x, (hlo_tolerance){.abs = ulp * one, .ulps = ulp}, NULL, NULL) ||
         (fabs(x) < 1.2e-38 && fabs(y) < 1.2e-38 && t != HLO_F16);
}

static inline void *aligned(const void *data, size_t bytes) {
  void *p = NULL;
  if (posix_memalign(&p, 256, bytes + 64)) return NULL;
  memset(p, 0xA5, bytes + 64);
  if (data) memcpy(p, data, bytes);
  return p;
}

// The buffers of one run: leaves of the operands, of the result, and the scratch block.
typedef struct kbufs {
  u32 n;
  void *p[33], *scratch;
  size_t bytes[33], scratch_bytes;
} kbufs;
typedef void krun(const void *kernel, const kbufs *);

// Runs the root instruction's kernel on made-up arguments and compares with the evaluator.
static inline void check_run(const kcase *c, size_t scratch_bytes, u32 nupdates,
                             const emit_update *updates, krun *run, const void *kernel) {
  const hlo_instr *i = c->m->entry->root;
  hlo_literal *args[16], *want = NULL;
  kbufs all = {.scratch = aligned(NULL, scratch_bytes), .scratch_bytes = scratch_bytes};
  void **bufs = all.p, *scratch = all.scratch;
  u64 z = c->seed;
  u32 nb = 0;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *op = hlo_operand(i, k);
    if (op->opcode == HLO_CONSTANT) args[k] = hlo_literal_ref(hlo_constant_value(op));
    else {
      assert_true(hs_ok(hlo_literal_new(op->shape, &args[k])));
      fill(args[k], &z, c->wide);
    }
    all.bytes[nb] = args[k]->bytes;
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
    all.bytes[nb] = (size_t)ls->elements * hlo_dtype_storage(ls->dtype);
    bufs[nb] = aligned(NULL, all.bytes[nb]);
    nb++;
  }
  all.n = nb;
  for (u32 k = 0; k < nupdates; k++) {
    u32 to = updates[k].out;
    memcpy(bufs[first + to], bufs[updates[k].in],
           (size_t)hlo_shape_bytes(hlo_shape_leaf(i->shape, to)));
  }
  run(kernel, &all);
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

static inline void run_chunks(const void *kernel, const kbufs *b) {
  const emit_kernel *k = kernel;
  for (i64 ch = k->chunks; ch-- > 0;) k->fn(b->p, ch, b->scratch);
  for (i64 ch = k->finish_chunks; ch-- > 0;) k->finish(b->p, ch, b->scratch);
}

static inline void check(const kcase *c) {
  check_run(c, (size_t)c->k->scratch_bytes, c->k->nupdates, c->k->updates, run_chunks, c->k);
}

static inline void run_cases(void) {
  double ms = 0;
  hs_status s = emit_finish(unit, true, 2, &ms);
  if (!hs_ok(s)) show(s, "emit_finish");
  assert_true(cases.n > 0 && cases.v[0].k->fn);
  for (size_t i = 0; i < cases.n; i++) check(&cases.v[i]);
}

static inline void unary_case(const char *op, const char *in, const char *out, const char *shape,
                              const char *attrs, double ulp) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY e {\n  x = %s%s parameter(0)\n  ROOT r = %s%s %s(x)%s\n}\n", in,
           shape, out, shape, op, attrs);
  add_case(text, ulp, true);
}
static inline void binary_case(const char *op, const char *in, const char *out, const char *shape,
                               const char *attrs, double ulp) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY e {\n  x = %s%s parameter(0)\n  y = %s%s parameter(1)\n"
           "  ROOT r = %s%s %s(x, y)%s\n}\n",
           in, shape, in, shape, out, shape, op, attrs);
  add_case(text, ulp, true);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
