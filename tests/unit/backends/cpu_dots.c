// cpu_dots.c — dots of every form and type: of floats as the evaluator has them, of small
// integers exact at the ends of their ranges, whichever library or loop computes them.
#include "backends/cpu/rt/rt.h"
#include "core/types/float.h"
#include "tests/unit/backends/cpu.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

typedef struct dot_types {
  const char *a, *b, *c;
} dot_types;
// dims by letter: b and h batch, m and n free, k and l (of size 2) contracted
typedef struct form {
  const char *a, *b, *c, *layout;
} form;

static i64 size_of(char dim, const i64 *mnk) {
  return dim == 'm' ? mnk[0] : dim == 'n' ? mnk[1] : dim == 'k' ? mnk[2] : 2;
}

static void put_shape(hs_buf *out, const char *type, const char *dims, const i64 *mnk) {
  hs_buf_puts(out, type);
  for (const char *d = dims; *d; d++)
    hs_buf_printf(out, d == dims ? "[%lld" : ",%lld", (long long)size_of(*d, mnk));
  hs_buf_puts(out, *dims ? "]" : "[]");
}

// The places of the dims of `which` in an operand, as an attribute; nothing where the operand has
// none of them.
static void put_places(hs_buf *out, const char *attribute, const char *which, const char *dims) {
  bool any = false;
  for (const char *w = which; *w; w++) {
    const char *at = strchr(dims, *w);
    if (!at) continue;
    if (any) hs_buf_printf(out, ",%d", (int)(at - dims));
    else hs_buf_printf(out, ", %s={%d", attribute, (int)(at - dims));
    any = true;
  }
  if (any) hs_buf_putc(out, '}');
}

// A module of one dot for every shape and form.
static hlo_module *dots(const dot_types *t, const i64 (*shapes)[3], size_t nshapes,
                        const form *forms, size_t nforms) {
  hs_buf text = {0}, types = {0}, names = {0};
  hs_buf_puts(&text, "HloModule t\nENTRY e {\n");
  for (size_t k = 0; k < nshapes * nforms; k++) {
    const form *f = &forms[k % nforms];
    const i64 *mnk = shapes[k / nforms];
    hs_buf_printf(&text, "a%zu = ", k);
    put_shape(&text, t->a, f->a, mnk);
    hs_buf_printf(&text, " parameter(%zu)\nb%zu = ", 2 * k, k);
    put_shape(&text, t->b, f->b, mnk);
    hs_buf_printf(&text, " parameter(%zu)\nd%zu = ", 2 * k + 1, k);
    put_shape(&text, t->c, f->c, mnk);
    hs_buf_printf(&text, "%s dot(a%zu, b%zu)", f->layout, k, k);
    put_places(&text, "lhs_batch_dims", "bh", f->a);
    put_places(&text, "lhs_contracting_dims", "kl", f->a);
    put_places(&text, "rhs_batch_dims", "bh", f->b);
    put_places(&text, "rhs_contracting_dims", "kl", f->b);
    hs_buf_putc(&text, '\n');
    if (k) hs_buf_putc(&types, ',');
    put_shape(&types, t->c, f->c, mnk);
    hs_buf_printf(&types, "%s", f->layout);
    hs_buf_printf(&names, k ? ", d%zu" : "d%zu", k);
  }
  hs_buf_printf(&text, "ROOT r = (%s) tuple(%s) }", hs_buf_cstr(&types), hs_buf_cstr(&names));
  hlo_module *m = parse(hs_buf_cstr(&text));
  hs_buf_free(&text);
  hs_buf_free(&types);
  hs_buf_free(&names);
  return m;
}

enum { LOWEST, HIGHEST, MIXED };
static void fill_ends(hlo_literal *l, int how) {
  hlo_dtype t = l->shape->dtype;
  i64 bits = hlo_dtypes[t].bits, low = hlo_dtype_is_unsigned(t) ? 0 : -((i64)1 << (bits - 1)),
      high = low + ((i64)1 << bits) - 1;
  i64 ends[] = {low, high, low + 1, 1, high - 1, low, high};
  for (i64 k = 0; k < l->shape->elements; k++)
    hlo_elem_from_i64(t, (char *)l->data + (size_t)k * hlo_dtype_storage(t),
                      how == MIXED ? ends[((u64)k * 2654435761u >> 16) % HS_COUNT(ends)]
                                   : ends[how]);
}

static void dots_agree(hlo_module *m, u32 threads) {
  static const int fills[][2] = {
      {LOWEST, LOWEST}, {LOWEST, HIGHEST}, {HIGHEST, LOWEST}, {HIGHEST, HIGHEST}, {MIXED, MIXED}};
  const backend *interp = backend_find("interp");
  backend_exe *ours = NULL, *theirs = NULL;
  hlo_literal **args = NULL;
  u32 n = 0;
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  explain(cpu->compile(m, &(backend_options){.context = backends, .threads = threads}, &ours));
  explain(interp->compile(m, NULL, &theirs));
  for (size_t f = 0; f < HS_COUNT(fills); f++) {
    for (u32 k = 0; k < n; k++) fill_ends(args[k], fills[f][k % 2]);
    backend_result got = {0}, want = {0};
    explain(cpu->run(ours, n, args, NULL, &got));
    explain(interp->run(theirs, n, args, NULL, &want));
    explain(hlo_compare(want.outputs, got.outputs, hlo_near(0, 0)));
    backend_result_free(&got);
    backend_result_free(&want);
  }
  cpu->release(ours);
  interp->release(theirs);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
}

static void extreme_integers(void **st) {
  (void)st;
  static const dot_types types[] = {
      {"s8", "s8", "s32"},   {"u8", "u8", "s32"},  {"s8", "u8", "s32"}, {"u8", "s8", "s32"},
      {"s16", "s16", "s32"}, {"s16", "u8", "s32"}, {"s4", "s8", "s32"}, {"s8", "s8", "s8"},
      {"u8", "u8", "u16"},   {"s32", "s8", "s32"}, {"s8", "s8", "s64"},
  };
  static const form forms[] = {
      {"mk", "kn", "mn", ""},
      {"km", "nk", "mn", ""},
      {"mk", "nk", "mn", "{0,1}"},
      {"km", "kn", "mn", ""},
      {"bmk", "bkn", "bmn", ""},
      {"mbk", "nkb", "bmn", "{0,1,2}"},
      {"mkl", "lkn", "mn", ""},
      {"k", "kn", "n", ""},
      {"mk", "k", "m", ""},
      {"k", "k", "", ""},
      {"bmhk", "bnhk", "bhmn", "{3,1,2,0}"},
  };
  // Large enough for the library and for several threads, with sums beyond 2^24 and, of u8, beyond
  // 2^31; and empty ones.
  static const i64 others[][3] = {{33, 17, 130}, {32, 32, 32}, {1, 300, 33},
                                  {300, 1, 33},  {5, 7, 530},  {2, 2, 33100},
                                  {0, 3, 5},     {3, 0, 5},    {3, 5, 0}};
  static const i64 sizes[] = {1, 2, 5, 17};
  i64 small[4 * 4 * 4][3];
  for (size_t k = 0; k < HS_COUNT(small); k++)
    small[k][0] = sizes[k / 16], small[k][1] = sizes[k / 4 % 4], small[k][2] = sizes[k % 4];
  for (size_t t = 0; t < HS_COUNT(types); t++) {
    dots_agree(dots(&types[t], small, HS_COUNT(small), forms, HS_COUNT(forms)), 1);
    dots_agree(dots(&types[t], others, HS_COUNT(others), forms, HS_COUNT(forms)), 0);
  }
}

static void floats(void **st) {
  (void)st;
  static const dot_types types[] = {
      {"f32", "f32", "f32"}, {"f64", "f64", "f64"},   {"bf16", "bf16", "f32"},
      {"f16", "f16", "f32"}, {"bf16", "f32", "f32"},  {"f8e4m3fn", "f8e5m2", "f32"},
      {"c64", "c64", "c64"}, {"c128", "c64", "c128"},
  };
  static const form forms[] = {
      {"mk", "kn", "mn", ""},         {"km", "nk", "mn", ""},
      {"mk", "nk", "mn", "{0,1}"},    {"km", "kn", "mn", ""},
      {"bmk", "bkn", "bmn", ""},      {"mbk", "nkb", "bmn", "{0,1,2}"},
      {"mkl", "lkn", "mn", ""},       {"k", "kn", "n", ""},
      {"mk", "k", "m", ""},           {"k", "k", "", ""},
      {"bmhk", "bnhk", "bhmn", ""},   {"bhmk", "bhkn", "bhmn", "{3,1,2,0}"},
      {"blhkm", "hbkln", "bhmn", ""}, {"klm", "nkl", "mn", ""},
      {"lmk", "knl", "mn", "{0,1}"},
  };
  // Around the kernels' rows and columns, a few rows of a larger matrix, more than one block along
  // each dim, and a long sum of few elements.
  static const i64 shapes[][3] = {
      {1, 1, 1},    {3, 40, 70},   {70, 5, 90},   {8, 600, 30},  {13, 37, 11}, {50, 20, 17},
      {65, 33, 64}, {14, 90, 800}, {1, 70, 500},  {200, 17, 33}, {2, 2, 9000}, {7, 0, 3},
      {4, 3, 0},    {97, 131, 20}, {22, 192, 64}, {35, 150, 64}, {1, 1, 37},   {1, 1, 530}};
  const backend *interp = backend_find("interp");
  for (size_t t = 0; t < HS_COUNT(types); t++) {
    hlo_module *m = dots(&types[t], shapes, HS_COUNT(shapes), forms, HS_COUNT(forms));
    backend_result want = run_on(interp, m, NULL, NULL, NULL);
    for (u32 threads = 0; threads < 2; threads++) {
      backend_result got = run_on(cpu, m, &(backend_options){.threads = threads}, NULL, NULL);
      explain(hlo_compare(want.outputs, got.outputs, hlo_near(1e-4, 1e-4)));
      backend_result_free(&got);
    }
    backend_result_free(&want);
    hlo_module_free(m);
  }
}

// Small numbers are zero, as in every worker thread.
static int flush(void **st) {
  (void)st;
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  return 0;
}
static int keep(void **st) {
  (void)st;
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
  return 0;
}

static bool is_narrow(hlo_dtype t) { return hlo_dtype_is_float(t) && hlo_dtype_storage(t) <= 2; }

// Conversions of runs have the bits of core/types/float.c: every code of 8 bits, and numbers around
// every code of each type; in runs of every length, too, and without a number more than that.
static void widening_has_the_bits(void **state) {
  (void)state;
  u8 codes[256];
  float want[256], got[256];
  for (u32 k = 0; k < 256; k++) codes[k] = (u8)k;
  for (hlo_dtype t = 0; t < HLO_DTYPE_COUNT; t++) {
    if (!is_narrow(t)) continue;
    u32 n = 256 / (u32)hlo_dtype_storage(t);
    hlo_floats_to_f32(t, codes, want, n);
    cpu_to_f32(got, codes, t, n);
    assert_memory_equal(want, got, n * sizeof *want);
    for (u32 run = 0; run < 40; run++) {
      memset(got, 0xee, sizeof got);
      cpu_to_f32_rows(got, 41, codes, 43, t, run, 2);
      for (size_t k = 0; k < 2 * 41; k++) {
        if (k % 41 < run) assert_memory_equal(&want[k / 41 * 43 + k % 41], &got[k], 4);
        else assert_memory_equal("\xee\xee\xee\xee", &got[k], 4);
      }
    }
  }
}

// Bits of f32: all upper halves, with lower halves that decide about ties, and that do not.
static void narrowing_has_the_bits(void **state) {
  (void)state;
  static const u32 low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  enum { LOW = HS_COUNT(low), RUN = 256 * LOW };
  u32 bits[RUN];
  u16 want[RUN], got[RUN];
  for (hlo_dtype t = 0; t < HLO_DTYPE_COUNT; t++)
    for (u32 high = 0; is_narrow(t) && high < 256; high++) {
      for (u32 k = 0; k < RUN; k++) bits[k] = high << 24 | k / LOW << 16 | low[k % LOW];
      float from[RUN];
      memcpy(from, bits, sizeof bits);
      hlo_floats_from_f32(t, from, want, RUN);
      cpu_from_f32(got, t, from, RUN);
      assert_memory_equal(want, got, RUN * hlo_dtype_storage(t));
      u32 some = high % 40;
      memset(got, 0xee, sizeof got);
      cpu_from_f32(got, t, from, some);
      size_t bytes = some * hlo_dtype_storage(t);
      assert_memory_equal(want, got, bytes);
      assert_int_equal(((const u8 *)got)[bytes], 0xee);
    }
}

// Narrow types times few columns are converted where they are used: the same bits as when all of
// them are converted before, for any number of threads.
static void few_columns_of_narrow_types(void **st) {
  (void)st;
  static const char *const types[] = {"f16", "f8e4m3fn"};
  static const i64 sizes[][3] = {{30, 7, 3}, {100, 400, 100}, {1600, 390, 20}, {49, 1000, 128}};
  for (size_t t = 0; t < HS_COUNT(types); t++)
    for (size_t k = 0; k < HS_COUNT(sizes); k++) {
      hs_buf text = {0};
      int m = (int)sizes[k][0], deep = (int)sizes[k][1], n = (int)sizes[k][2];
      hs_buf_printf(&text,
                    "HloModule t\nENTRY e { a = %s[%d,%d] parameter(0)\n b = %s[%d,%d] "
                    "parameter(1)\n wa = f32[%d,%d] convert(a)\n wb = f32[%d,%d] convert(b)\n",
                    types[t], m, deep, types[t], deep, n, m, deep, deep, n);
      const char *how = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
      hs_buf_printf(&text,
                    " x = f32[%d,%d] dot(a, b)%s y = f32[%d,%d] dot(wa, wb)%s"
                    " ROOT r = f32[%d,%d] subtract(x, y) }\n",
                    m, n, how, m, n, how, m, n);
      hlo_module *module = parse(hs_buf_cstr(&text));
      for (u32 threads = 1; threads < 3; threads++) {
        backend_result got =
            run_on(cpu, module, &(backend_options){.threads = threads}, NULL, NULL);
        const float *off = got.outputs->data;
        for (i64 at = 0; at < got.outputs->shape->elements; at++) assert_float_equal(off[at], 0, 0);
        backend_result_free(&got);
      }
      hlo_module_free(module);
      hs_buf_free(&text);
    }
}

// Many products share the threads in another way than one does, and so does a product that is
// larger than the blocks that are packed at once.
// By the instructions that are the faster ones on this machine.
static void bf16_by_the_faster_way(void **st) {
  (void)st;
  static const char text[] = MODULE(
      "ENTRY e { x = bf16[96,200] parameter(0)\n w = bf16[200,130] parameter(1)\n"
      " ROOT d = bf16[96,130] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }");
  runs_as(text, cpu_dnnl_fast_bf16() ? "dot (oneDNN)" : "dot (tiles)");
}

static void many_and_large(void **st) {
  (void)st;
  agrees(
      MODULE("ENTRY e { a = f32[40,20,30] parameter(0)\n b = f32[40,30,50] parameter(1)\n"
             " d = f32[40,20,50] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
             "rhs_batch_dims={0}, rhs_contracting_dims={1}\n"
             " x = f32[1700,20] parameter(2)\n y = f32[20,4200] parameter(3)\n"
             " z = f32[1700,4200] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
             " ROOT t = (f32[40,20,50], f32[1700,4200]) tuple(d, z) }"));
}

// Fusions that XLA made for its libraries: an attention, a product with what comes before and after
// it, one inside of another, one in a loop. Their dots are kernels of their own; what lies around
// them is few, and each has the name of an instruction of the module.
static void in_fusions(void **st) {
  (void)st;
  static const char attention[] = MODULE(
      "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT m = f32[] maximum(a, b) }\n"
      "sum { c = f32[] parameter(0)\n d = f32[] parameter(1)\n ROOT s = f32[] add(c, d) }\n"
      "f { q = f32[2,64,32] parameter(0)\n k = f32[2,64,32] parameter(1)\n"
      " v = f32[2,64,32] parameter(2)\n"
      " qk = f32[2,64,64] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, "
      "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
      " low = f32[] constant(-inf)\n zero = f32[] constant(0)\n"
      " top = f32[2,64] reduce(qk, low), dimensions={2}, to_apply=max\n"
      " tops = f32[2,64,64] broadcast(top), dimensions={0,1}\n"
      " less = f32[2,64,64] subtract(qk, tops)\n e = f32[2,64,64] exponential(less)\n"
      " all = f32[2,64] reduce(e, zero), dimensions={2}, to_apply=sum\n"
      " alls = f32[2,64,64] broadcast(all), dimensions={0,1}\n"
      " share = f32[2,64,64] divide(e, alls)\n"
      " ROOT r = f32[2,64,32] dot(share, v), lhs_batch_dims={0}, rhs_batch_dims={0}, "
      "lhs_contracting_dims={2}, rhs_contracting_dims={1} }\n"
      "ENTRY e { x = f32[2,64,32] parameter(0)\n y = f32[2,64,32] parameter(1)\n"
      " z = f32[2,64,32] parameter(2)\n"
      " ROOT w = f32[2,64,32] fusion(x, y, z), kind=kCustom, calls=f }");
  agrees(attention);
  hlo_module *m = parse(attention);
  backend_options o = {.context = backends};
  backend_exe *e = NULL;
  explain(cpu->compile(m, &o, &e));
  const backend_compiled *c = cpu->compiled(e);
  assert_in_range(c->nkernels, 3, 4);
  for (u32 k = 0; k < c->nkernels; k++) assert_non_null(hlo_find_instr(m, c->kernels[k].name));
  assert_string_equal(c->kernels[0].name, "qk");
  assert_string_equal(c->kernels[c->nkernels - 2].name, "share");
  cpu->release(e);
  hlo_module_free(m);
  // multi-output, around a fusion with a convolution in it, and in a loop
  agrees(MODULE(
      "g { a = f32[1,20,20,8] parameter(0)\n b = f32[3,3,8,8] parameter(1)\n"
      " ROOT c = f32[1,20,20,8] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
      "dim_labels=b01f_01io->b01f }\n"
      "f { p = f32[1,20,20,8] parameter(0)\n w = f32[3,3,8,8] parameter(1)\n"
      " n = f32[1,20,20,8] negate(p)\n c = f32[1,20,20,8] fusion(n, w), kind=kLoop, calls=g\n"
      " t = f32[1,20,20,8] tanh(c)\n ROOT r = (f32[1,20,20,8], f32[1,20,20,8]) tuple(t, n) }\n"
      "ENTRY e { x = f32[1,20,20,8] parameter(0)\n y = f32[3,3,8,8] parameter(1)\n"
      " ROOT r = (f32[1,20,20,8], f32[1,20,20,8]) fusion(x, y), kind=kOutput, calls=f }"));
  agrees(MODULE(
      "f { p = f32[40,40] parameter(0)\n d = f32[40,40]{0,1} dot(p, p), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " ROOT t = f32[40,40]{0,1} tanh(d) }\n"
      "body { s = (s32[], f32[40,40]{0,1}) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " x = f32[40,40]{0,1} get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n y = f32[40,40]{0,1} fusion(x), kind=kLoop, calls=f\n"
      " ROOT r = (s32[], f32[40,40]{0,1}) tuple(j, y) }\n"
      "cond { s = (s32[], f32[40,40]{0,1}) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " n = s32[] constant(3)\n ROOT l = pred[] compare(i, n), direction=LT }\n"
      "ENTRY e { x = f32[40,40]{0,1} parameter(0)\n z = s32[] constant(0)\n"
      " s = (s32[], f32[40,40]{0,1}) tuple(z, x)\n"
      " w = (s32[], f32[40,40]{0,1}) while(s), condition=cond, body=body\n"
      " ROOT r = f32[40,40]{0,1} get-tuple-element(w), index=1 }"));
}

// ---- a kernel along rows between two dots -------------------------------------------------------
#define SCORES "f32[2,8,256,256]"
// Softmax of the first parameter, plus the second along rows and the third in full.
static const char softmax[] =
    "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT m = f32[] maximum(a, b) }\n"
    "sum { c = f32[] parameter(0)\n d = f32[] parameter(1)\n ROOT s = f32[] add(c, d) }\n"
    "rows { p = " SCORES " parameter(0)\n u = f32[256] parameter(1)\n v = " SCORES
    " parameter(2)\n ub = " SCORES " broadcast(u), dimensions={3}\n"
    " pu = " SCORES " add(p, ub)\n x = " SCORES " add(pu, v)\n"
    " low = f32[] constant(-inf)\n zero = f32[] constant(0)\n"
    " top = f32[2,8,256] reduce(x, low), dimensions={3}, to_apply=max\n"
    " tops = " SCORES " broadcast(top), dimensions={0,1,2}\n"
    " less = " SCORES " subtract(x, tops)\n e = " SCORES " exponential(less)\n"
    " all = f32[2,8,256] reduce(e, zero), dimensions={3}, to_apply=sum\n"
    " alls = " SCORES " broadcast(all), dimensions={0,1,2}\n"
    " ROOT share = " SCORES " divide(e, alls) }\n";
#define TAKES " bias = f32[256] parameter(3)\n full = " SCORES " parameter(4)\n"
#define FIRST(q_batch, q_k, k_k)                                                    \
  " s = " SCORES " dot(q, k), lhs_batch_dims={" q_batch "}, rhs_batch_dims={0,1}, " \
  "lhs_contracting_dims={" q_k "}, rhs_contracting_dims={" k_k "}\n"
#define LAST                                                                     \
  " o = f32[2,8,256,24] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, " \
  "lhs_contracting_dims={3}, rhs_contracting_dims={2}\n"
#define ROWS " p = " SCORES " fusion(s, bias, full), kind=kInput, calls=rows\n"

static char *with_softmax(const char *rest) {
  return hs_format("HloModule t\n%s%s", softmax, rest);
}

// They are one kernel, or not, and compute the same.
static void chain(const char *rest, bool one) {
  char *text = with_softmax(rest);
  assert_int_equal(has_kernel(text, "dots by rows (tiles)"), one);
  if (one) assert_true(temporaries(text) < 1 << 20);  // the scores are 4 MB
  agrees(text);
  hs_free(text);
}

static void between_dots(void **st) {
  (void)st;
  chain("ENTRY e { q = f32[2,8,256,32] parameter(0)\n k = f32[2,8,256,32] parameter(1)\n"
        " v = f32[2,8,256,24] parameter(2)\n" TAKES FIRST("0,1", "3", "3") ROWS LAST
        " ROOT r = f32[2,8,256,24] negate(o) }",
        true);
  // the left operand's heads lie inside, the right one is turned
  chain("ENTRY e { q = f32[2,256,8,32] parameter(0)\n k = f32[2,8,32,256] parameter(1)\n"
        " v = f32[2,8,256,24] parameter(2)\n" TAKES FIRST("0,2", "3", "2") ROWS LAST
        " ROOT r = f32[2,8,256,24] negate(o) }",
        true);
  // somebody else reads the scores, or what is made of them
  chain("ENTRY e { q = f32[2,8,256,32] parameter(0)\n k = f32[2,8,256,32] parameter(1)\n"
        " v = f32[2,8,256,24] parameter(2)\n" TAKES FIRST("0,1", "3", "3") ROWS LAST
        " ROOT r = (f32[2,8,256,24], " SCORES ") tuple(o, s) }",
        false);
  chain("ENTRY e { q = f32[2,8,256,32] parameter(0)\n k = f32[2,8,256,32] parameter(1)\n"
        " v = f32[2,8,256,24] parameter(2)\n" TAKES FIRST("0,1", "3", "3") ROWS LAST
        " ROOT r = (f32[2,8,256,24], " SCORES ") tuple(o, p) }",
        false);
  // the rows are contracted the other way
  chain("ENTRY e { q = f32[2,8,256,32] parameter(0)\n k = f32[2,8,256,32] parameter(1)\n"
        " v = f32[2,8,256,24] parameter(2)\n" TAKES FIRST("0,1", "3", "3") ROWS
        " o = f32[2,8,256,24] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
        " ROOT r = f32[2,8,256,24] negate(o) }",
        false);
}

// The operands live until the step that does it all; what is made in a loop is made in each round.
static void between_dots_in_a_loop(void **st) {
  (void)st;
  chain("body { t = (s32[], f32[2,8,256,24], f32[2,8,256,24], f32[256], " SCORES
        ") parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " q = f32[2,8,256,24] get-tuple-element(t), index=1\n"
        " v = f32[2,8,256,24] get-tuple-element(t), index=2\n"
        " bias = f32[256] get-tuple-element(t), index=3\n"
        " full = " SCORES
        " get-tuple-element(t), index=4\n k = f32[2,8,256,24] tanh(q)\n" FIRST("0,1", "3", "3")
            ROWS LAST
        " one = s32[] constant(1)\n j = s32[] add(i, one)\n w = f32[2,8,256,24] add(o, q)\n"
        " ROOT r = (s32[], f32[2,8,256,24], f32[2,8,256,24], f32[256], " SCORES
        ") tuple(j, w, v, bias, full) }\n"
        "cond { t = (s32[], f32[2,8,256,24], f32[2,8,256,24], f32[256], " SCORES
        ") parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(3)\n"
        " ROOT l = pred[] compare(i, n), direction=LT }\n"
        "ENTRY e { q = f32[2,8,256,24] parameter(0)\n v = f32[2,8,256,24] parameter(1)\n"
        " bias = f32[256] parameter(2)\n full = " SCORES " parameter(3)\n"
        " z = s32[] constant(0)\n"
        " t = (s32[], f32[2,8,256,24], f32[2,8,256,24], f32[256], " SCORES
        ") tuple(z, q, v, bias, full)\n"
        " w = (s32[], f32[2,8,256,24], f32[2,8,256,24], f32[256], " SCORES
        ") while(t), condition=cond, body=body\n"
        " ROOT r = f32[2,8,256,24] get-tuple-element(w), index=1 }",
        true);
}

// Rows in several dims that do not nest: a product for each of the outer ones, without a copy of
// them, where the other operand is small; else one product of what is packed.
static void rows_apart(void **st) {
  (void)st;
  static const struct {
    const char *x, *w, *out, *numbers;
    bool packed;
  } cases[] = {
      {"f32[6,40,48]", "f32[40,24]", "f32[6,48,24]", "lhs_contracting_dims={1}", false},
      {"f64[3,2,40,20]", "f64[40,7]", "f64[3,2,20,7]", "lhs_contracting_dims={2}", false},
      {"f32[2,3,40,48]", "f32[2,40,24]", "f32[2,3,48,24]",
       "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}", false},
      {"f32[6,40,8]", "f32[40,24]", "f32[6,8,24]", "lhs_contracting_dims={1}", true},
      {"f32[2,300,48]", "f32[300,400]", "f32[2,48,400]", "lhs_contracting_dims={1}", true},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    char *text = hs_format("HloModule t\nENTRY e { x = %s parameter(0)\n w = %s parameter(1)\n"
                           " ROOT d = %s dot(x, w), %s, rhs_contracting_dims={%d} }",
                           cases[k].x, cases[k].w, cases[k].out, cases[k].numbers,
                           strstr(cases[k].numbers, "batch") != NULL);
    agrees(text);
    assert_int_equal(temporaries(text) > 0, cases[k].packed);
    hs_free(text);
  }
}

// Rows that lie as the kernel reads them are read where they are; others are copied, by each thread
// into its own memory.
static void rows_in_place(void **st) {
  (void)st;
  static const struct {
    const char *x, *w, *out, *rest;
    i64 least, most;  // bytes of temporaries; more rows have sums of 7 parts too
  } cases[] = {
      {"f32[400]", "f32[400,300]{0,1}", "f32[300]", "lhs_contracting_dims={0}", 0, 0},
      {"bf16[400]", "bf16[400,300]{0,1}", "f32[300]", "lhs_contracting_dims={0}", 0, 0},
      {"f32[4,400]", "f32[400,300]", "f32[4,300]", "lhs_contracting_dims={1}", 33600, 33600},
      {"f32[4,400]{0,1}", "f32[400,300]", "f32[4,300]", "lhs_contracting_dims={1}", 33600, 33600},
      {"f32[400,4]", "f32[400,300]", "f32[4,300]", "lhs_contracting_dims={0}", 33600, 33600},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    char *text = hs_format("HloModule t\nENTRY e { x = %s parameter(0)\n w = %s parameter(1)\n"
                           " ROOT d = %s dot(x, w), %s, rhs_contracting_dims={0} }",
                           cases[k].x, cases[k].w, cases[k].out, cases[k].rest);
    agrees(text);
    assert_in_range(temporaries(text), cases[k].least, cases[k].most);
    hs_free(text);
  }
  agrees(MODULE("ENTRY e { x = f32[5,3,400] parameter(0)\n w = f32[5,400,300] parameter(1)\n"
                " ROOT d = f32[5,3,300] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                "lhs_contracting_dims={2}, rhs_contracting_dims={1} }"));
  agrees(MODULE("ENTRY e { x = f32[3,5,400] parameter(0)\n w = f32[5,400,300] parameter(1)\n"
                " ROOT d = f32[5,3,300] dot(x, w), lhs_batch_dims={1}, rhs_batch_dims={0}, "
                "lhs_contracting_dims={2}, rhs_contracting_dims={1} }"));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_in_place),
      cmocka_unit_test(rows_apart),
      cmocka_unit_test(extreme_integers),
      cmocka_unit_test(floats),
      cmocka_unit_test(bf16_by_the_faster_way),
      cmocka_unit_test(few_columns_of_narrow_types),
      cmocka_unit_test_setup_teardown(widening_has_the_bits, flush, keep),
      cmocka_unit_test_setup_teardown(narrowing_has_the_bits, flush, keep),
      cmocka_unit_test(many_and_large),
      cmocka_unit_test(in_fusions),
      cmocka_unit_test(between_dots),
      cmocka_unit_test(between_dots_in_a_loop),
  };
  return run_cpu_tests(argc, argv, "cpu_dots", tests, HS_COUNT(tests));
}
