// The cpu backend against the evaluator on small modules of our own: runtime kernels, control flow,
// buffers in place, donation, layouts, measuring; and what happens to a run when its worker dies.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/worker.h"
#include "core/text/text.h"
#include "tests/unit/modules.h"

static const backend *cpu;
static backend_context *backends;

static void explain(hs_status s) {
  if (hs_ok(s)) return;
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  print_error("%s\n", hs_buf_cstr(&b));
  hs_buf_free(&b);
  hs_status_drop(s);
  fail();
}

static backend_result run_on(const backend *b, const hlo_module *m, const backend_options *o,
                             const backend_run_options *ro, backend_compiled *info) {
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_exe *e = NULL;
  backend_result r = {0};
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  backend_options shared = o ? *o : (backend_options){0};
  shared.context = backends;
  explain(b->compile(m, &shared, &e));
  if (info) *info = *b->compiled(e);
  explain(b->run(e, n, args, ro, &r));
  b->release(e);
  hlo_inputs_free(args, n);
  return r;
}

// The same result as the evaluator, whole and one kernel per instruction, on one thread and on all.
static void agrees(const char *text) {
  hlo_module *m = parse(text);
  backend_result want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
  for (int mode = 0; mode < 3; mode++) {
    backend_options o = {
        .context = backends, .threads = mode == 1, .per_instruction = mode == 2, .deadline_s = 120};
    backend_result got = run_on(cpu, m, &o, NULL, NULL);
    explain(hlo_compare(want.outputs, got.outputs, (hlo_tolerance){1e-4, 1e-4}));
    backend_result_free(&got);
  }
  backend_result_free(&want);
  hlo_module_free(m);
}

#define MODULE(body) "HloModule t\n" body

static void dots(void **st) {
  (void)st;
  agrees(
      MODULE("ENTRY e { a = f32[5,7] parameter(0)\n b = f32[7,3] parameter(1)\n"
             " ROOT d = f32[5,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(MODULE(
      "ENTRY e { a = f32[40,70] parameter(0)\n b = f32[50,70] parameter(1)\n"
      " ROOT d = f32[40,50] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }"));
  agrees(MODULE("ENTRY e { a = f32[3,4,20,30] parameter(0)\n b = f32[3,30,4,25] parameter(1)\n"
                "ROOT d = f32[3,4,20,25] dot(a, b), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, "
                "lhs_contracting_dims={3}, rhs_contracting_dims={1} }"));
  agrees(MODULE(
      "ENTRY e { a = f32[6,5,4] parameter(0)\n b = f32[4,6,9] parameter(1)\n"
      " ROOT d = f32[5,9] dot(a, b), lhs_contracting_dims={0,2}, rhs_contracting_dims={1,0} }"));
  agrees(
      MODULE("ENTRY e { a = f32[300] parameter(0)\n b = f32[300,40] parameter(1)\n"
             " ROOT d = f32[40] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0} }"));
  agrees(
      MODULE("ENTRY e { a = f64[9,8] parameter(0)\n b = f64[8,7] parameter(1)\n"
             " ROOT d = f64[9,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(
      MODULE("ENTRY e { a = s8[9,8] parameter(0)\n b = s8[8,7] parameter(1)\n"
             " ROOT d = s32[9,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(
      MODULE("ENTRY e { a = c64[4,6] parameter(0)\n b = c64[6,5] parameter(1)\n"
             " ROOT d = c64[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(MODULE(
      "ENTRY e { a = f32[33,65]{0,1} parameter(0)\n b = f32[65,47]{0,1} parameter(1)\n"
      " ROOT d = f32[33,47]{0,1} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  // A result stored by columns: the transposed product, as the gradient of a weight asks for it.
  agrees(MODULE(
      "ENTRY e { a = f32[65,33] parameter(0)\n b = f32[65,47] parameter(1)\n"
      " ROOT d = f32[33,47]{0,1} dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0} }"));
  agrees(MODULE("ENTRY e { a = f32[4,40,33] parameter(0)\n b = f32[4,40,47] parameter(1)\n"
                " ROOT d = f32[4,33,47]{1,2,0} dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                "lhs_contracting_dims={1}, rhs_contracting_dims={1} }"));
  agrees(
      MODULE("ENTRY e { a = f32[0,7] parameter(0)\n b = f32[7,3] parameter(1)\n"
             " ROOT d = f32[0,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
  agrees(
      MODULE("ENTRY e { a = f32[5,0] parameter(0)\n b = f32[0,3] parameter(1)\n"
             " ROOT d = f32[5,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
}

static void narrow_dots(void **st) {
  (void)st;
  agrees(MODULE("ENTRY e { a = bf16[1,64] parameter(0)\n b = bf16[64,40] parameter(1)\n"
                " d = f32[1,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                " ROOT r = f32[1,40] negate(d) }"));
  agrees(MODULE(
      "ENTRY e { a = bf16[3,64] parameter(0)\n b = bf16[40,64] parameter(1)\n"
      " ROOT d = f32[3,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }"));
  agrees(MODULE(
      "ENTRY e { a = f16[40,64] parameter(0)\n b = f16[64,48] parameter(1)\n"
      " ROOT d = f32[40,48] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"));
}

// ---- dots of small integers at the ends of their ranges: exact, whichever library or loop does
// them
typedef struct int_types {
  const char *a, *b, *c;
} int_types;
// dims by letter: b batch, m and n free, k and l (of size 2) contracted
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
static hlo_module *int_dots(const int_types *t, const i64 (*shapes)[3], size_t nshapes,
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
    put_places(&text, "lhs_batch_dims", "b", f->a);
    put_places(&text, "lhs_contracting_dims", "kl", f->a);
    put_places(&text, "rhs_batch_dims", "b", f->b);
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

static void int_dots_agree(hlo_module *m, u32 threads) {
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
    explain(hlo_compare(want.outputs, got.outputs, (hlo_tolerance){0, 0}));
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
  static const int_types types[] = {
      {"s8", "s8", "s32"},   {"u8", "u8", "s32"},  {"s8", "u8", "s32"}, {"u8", "s8", "s32"},
      {"s16", "s16", "s32"}, {"s16", "u8", "s32"}, {"s4", "s8", "s32"}, {"s8", "s8", "s8"},
      {"u8", "u8", "u16"},   {"s32", "s8", "s32"}, {"s8", "s8", "s64"},
  };
  static const form forms[] = {
      {"mk", "kn", "mn", ""},   {"km", "nk", "mn", ""},    {"mk", "nk", "mn", "{0,1}"},
      {"km", "kn", "mn", ""},   {"bmk", "bkn", "bmn", ""}, {"mbk", "nkb", "bmn", "{0,1,2}"},
      {"mkl", "lkn", "mn", ""}, {"k", "kn", "n", ""},      {"mk", "k", "m", ""},
      {"k", "k", "", ""},
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
    int_dots_agree(int_dots(&types[t], small, HS_COUNT(small), forms, HS_COUNT(forms)), 1);
    int_dots_agree(int_dots(&types[t], others, HS_COUNT(others), forms, HS_COUNT(forms)), 0);
  }
}

static void convolutions(void **st) {
  (void)st;
  agrees(MODULE("ENTRY e { x = f32[2,9,9,8] parameter(0)\n w = f32[3,3,8,16] parameter(1)\n"
                " ROOT c = f32[2,9,9,16] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
                "dim_labels=b01f_01io->b01f }"));
  agrees(
      MODULE("ENTRY e { x = f32[2,3,10,11] parameter(0)\n w = f32[5,3,3,2] parameter(1)\n"
             " ROOT c = f32[2,5,4,5] convolution(x, w), window={size=3x2 stride=2x2 pad=0_0x0_0}, "
             "dim_labels=bf01_oi01->bf01 }"));
  agrees(MODULE("ENTRY e { x = f32[2,8,8,8] parameter(0)\n w = f32[3,3,2,12] parameter(1)\n"
                " ROOT c = f32[2,8,8,12] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
                "dim_labels=b01f_01io->b01f, feature_group_count=4 }"));
  agrees(MODULE(
      "ENTRY e { x = f32[2,7,7,3] parameter(0)\n w = f32[3,3,3,4] parameter(1)\n"
      " ROOT c = f32[2,7,7,4] convolution(x, w), window={size=3x3 pad=2_2x2_2 rhs_dilate=2x2}, "
      "dim_labels=b01f_01io->b01f }"));
  agrees(MODULE(
      "ENTRY e { x = f32[2,6,6,4] parameter(0)\n w = f32[4,4,4,3] parameter(1)\n"
      " ROOT c = f32[2,12,12,3] convolution(x, w), window={size=4x4 pad=2_2x2_2 lhs_dilate=2x2}, "
      "dim_labels=b01f_01io->b01f }"));
  agrees(MODULE(
      "ENTRY e { x = f32[2,6,6,4] parameter(0)\n w = f32[3,3,4,3] parameter(1)\n"
      " ROOT c = f32[2,6,6,3] convolution(x, w), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, "
      "dim_labels=b01f_01io->b01f }"));
  agrees(MODULE("ENTRY e { x = f32[3,8,8,5] parameter(0)\n g = f32[3,8,8,6] parameter(1)\n"
                " ROOT c = f32[3,3,5,6] convolution(x, g), window={size=8x8 pad=1_1x1_1}, "
                "dim_labels=f01b_i01o->01bf }"));
  agrees(MODULE(
      "ENTRY e { x = f32[3,9,9,5] parameter(0)\n g = f32[3,4,4,6] parameter(1)\n"
      " ROOT c = f32[3,3,5,6] convolution(x, g), window={size=4x4 pad=0_0x0_0 rhs_dilate=2x2}, "
      "dim_labels=f01b_i01o->01bf }"));
  agrees(MODULE("ENTRY e { x = f32[3,8,8,4] parameter(0)\n g = f32[3,8,8,4] parameter(1)\n"
                " ROOT c = f32[3,3,1,4] convolution(x, g), window={size=8x8 pad=1_1x1_1}, "
                "dim_labels=f01b_i01o->01bf, batch_group_count=4 }"));
  agrees(MODULE("ENTRY e { x = f32[4,10] parameter(0)\n w = f32[10,6] parameter(1)\n"
                " ROOT c = f32[4,6] convolution(x, w), dim_labels=bf_io->bf }"));
  agrees(MODULE(
      "ENTRY e { x = f32[2,12,4] parameter(0)\n w = f32[3,4,6] parameter(1)\n"
      " ROOT c = f32[2,12,6] convolution(x, w), window={size=3 pad=2_0}, dim_labels=b0f_0io->b0f "
      "}"));
  agrees(MODULE(
      "ENTRY e { x = s32[2,7,7,3] parameter(0)\n w = s32[3,3,3,4] parameter(1)\n"
      " ROOT c = s32[2,5,5,4] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f }"));
  agrees(MODULE(
      "ENTRY e { x = f64[2,7,7,3] parameter(0)\n w = f64[3,3,3,4] parameter(1)\n"
      " ROOT c = f64[2,5,5,4] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f }"));
  agrees(MODULE("ENTRY e { x = f32[2,7,7,3] parameter(0)\n w = f32[3,3,3,4] parameter(1)\n"
                " ROOT c = f32[2,3,3,4] convolution(x, w), window={size=3x3 pad=-1_-1x-1_-1}, "
                "dim_labels=b01f_01io->b01f }"));
}

#define LT                                                                                 \
  "lt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), " \
  "direction=LT, type=TOTALORDER }\n"
static void sorts(void **st) {
  (void)st;
  agrees(MODULE(LT
                "ENTRY e { x = f32[700] parameter(0)\n ROOT s = f32[700] sort(x), dimensions={0}, "
                "is_stable=true, to_apply=lt }"));
  agrees(MODULE(
      LT "ENTRY e { x = f32[20,9] parameter(0)\n ROOT s = f32[20,9] sort(x), dimensions={0}, "
         "to_apply=lt }"));
  agrees(MODULE(
      "gt { a = s32[] parameter(0)\n b = s32[] parameter(1)\n p = f32[] parameter(2)\n"
      " q = f32[] parameter(3)\n ROOT c = pred[] compare(a, b), direction=GT }\n"
      "ENTRY e { x = f32[900] parameter(0)\n k = f32[] constant(10)\n"
      " kb = f32[900] broadcast(k), dimensions={}\n y = f32[900] multiply(x, kb)\n"
      " i = s32[900] convert(y)\n"
      "ROOT s = (s32[900], f32[900]) sort(i, x), dimensions={0}, is_stable=true, to_apply=gt }"));
  agrees(MODULE("c { a = s32[] parameter(0)\n b = s32[] parameter(1)\n p = f32[] parameter(2)\n"
                " q = f32[] parameter(3)\n l = pred[] compare(a, b), direction=LT\n"
                "e = pred[] compare(a, b), direction=EQ\n m = pred[] compare(p, q), direction=LT\n"
                " n = pred[] and(e, m)\n ROOT r = pred[] or(l, n) }\n"
                "ENTRY e { k = s32[40] parameter(0)\n v = f32[40] parameter(1)\n"
                " ROOT s = (s32[40], f32[40]) sort(k, v), dimensions={0}, to_apply=c }"));
  agrees(
      MODULE("ENTRY e { x = f32[5,60] parameter(0)\n ROOT t = (f32[5,7], s32[5,7]) topk(x), k=7, "
             "largest=true }"));
}

static void moves(void **st) {
  (void)st;
  agrees(
      MODULE("ENTRY e { x = f32[6,8] parameter(0)\n i = s32[] constant(3)\n j = s32[] constant(9)\n"
             " ROOT d = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3} }"));
  agrees(MODULE(
      "ENTRY e { x = f32[6,8] parameter(0)\n u = f32[2,3] parameter(1)\n i = s32[] constant(-4)\n"
      " j = s32[] constant(2)\n ROOT d = f32[6,8] dynamic-update-slice(x, u, i, j) }"));
  agrees(MODULE(
      "ENTRY e { x = f32[10,4] parameter(0)\n i = s32[5,1] constant({{3},{9},{0},{-2},{12}})\n"
      " ROOT g = f32[5,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4} }"));
  agrees(MODULE("ENTRY e { x = f32[4,10,3] parameter(0)\n i = s32[5] constant({3,9,0,1,2})\n"
                " ROOT g = f32[4,5,3] gather(x, i), offset_dims={0,2}, collapsed_slice_dims={1}, "
                "start_index_map={1}, index_vector_dim=1, slice_sizes={4,1,3} }"));
  agrees(MODULE(
      "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
      "ENTRY e { x = f32[10,4] parameter(0)\n i = s32[5,1] constant({{3},{9},{3},{-2},{12}})\n"
      " u = f32[5,4] parameter(1)\n"
      "ROOT g = f32[10,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }"));
  agrees(
      MODULE("ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
             " ROOT c = pred[] compare(a, b), direction=GE }\nadd { a = f32[] parameter(0)\n"
             " b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
             "ENTRY e { x = f32[2,8,8,3] parameter(0)\n s = f32[2,4,4,3] parameter(1)\n"
             " z = f32[] constant(0)\n ROOT r = f32[2,8,8,3] select-and-scatter(x, s, z), "
             "window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, select=ge, scatter=add }"));
}

static void linear_algebra(void **st) {
  (void)st;
#define SPD                                                                         \
  "x = f32[3,6,6] parameter(0)\n"                                                   \
  " y = f32[3,6,6] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, "             \
  "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"                            \
  "r = s32[6,6] iota(), iota_dimension=0\n c = s32[6,6] iota(), iota_dimension=1\n" \
  " p = pred[6,6] compare(r, c), direction=EQ\n"                                    \
  " pb = pred[3,6,6] broadcast(p), dimensions={1,2}\nk = f32[] constant(3)\n"       \
  " kb = f32[3,6,6] broadcast(k), dimensions={}\n ys = f32[3,6,6] add(y, kb)\n"     \
  " a = f32[3,6,6] select(pb, ys, y)\n"
  agrees(MODULE("ENTRY e { " SPD " ROOT l = f32[3,6,6] cholesky(a), lower=true }"));
  agrees(MODULE(
      "ENTRY e { " SPD
      " b = f32[3,6,4] parameter(1)\n ROOT s = f32[3,6,4] triangular-solve(a, b), left_side=true, "
      "lower=true, transpose_a=NO_TRANSPOSE }"));
  agrees(MODULE(
      "ENTRY e { " SPD
      " b = f32[3,6,4] parameter(1)\n ROOT s = f32[3,6,4] triangular-solve(a, b), left_side=true, "
      "lower=true, transpose_a=TRANSPOSE }"));
  agrees(MODULE(
      "ENTRY e { " SPD
      " b = f32[3,4,6] parameter(1)\n ROOT s = f32[3,4,6] triangular-solve(a, b), left_side=false, "
      "lower=false, transpose_a=NO_TRANSPOSE }"));
  agrees(MODULE(
      "ENTRY e { " SPD
      " b = f32[3,4,6] parameter(1)\n ROOT s = f32[3,4,6] triangular-solve(a, b), left_side=false, "
      "lower=true, transpose_a=TRANSPOSE, unit_diagonal=true }"));
}

static void ffts(void **st) {
  (void)st;
  agrees(MODULE("ENTRY e { x = c64[3,16] parameter(0)\n ROOT f = c64[3,16] fft(x), fft_type=FFT, "
                "fft_length={16} }"));
  agrees(MODULE("ENTRY e { x = c64[3,15] parameter(0)\n ROOT f = c64[3,15] fft(x), fft_type=IFFT, "
                "fft_length={15} }"));
  agrees(
      MODULE("ENTRY e { x = f32[2,6,14] parameter(0)\n ROOT f = c64[2,6,8] fft(x), fft_type=RFFT, "
             "fft_length={6,14} }"));
  agrees(
      MODULE("ENTRY e { x = c64[2,6,8] parameter(0)\n ROOT f = f32[2,6,15] fft(x), fft_type=IRFFT, "
             "fft_length={6,15} }"));
}

static void random_bits(void **st) {
  (void)st;
  agrees(MODULE(
      "ENTRY e { s = u64[2] parameter(0)\n ROOT r = (u64[2], u32[5,3]) rng-bit-generator(s), "
      "algorithm=rng_three_fry }"));
  agrees(MODULE(
      "ENTRY e { s = u64[2] parameter(0)\n ROOT r = (u64[2], u64[4,3]) rng-bit-generator(s), "
      "algorithm=rng_three_fry }"));
  agrees(
      MODULE("ENTRY e { s = u64[3] parameter(0)\n ROOT r = (u64[3], u32[7]) rng-bit-generator(s), "
             "algorithm=rng_philox }"));
  agrees(
      MODULE("ENTRY e { s = u64[3] parameter(0)\n ROOT r = (u64[3], u16[9]) rng-bit-generator(s), "
             "algorithm=rng_default }"));
}

// Loops whose state is updated in place, handed through, exchanged, and read by results.
static void control_flow(void **st) {
  (void)st;
  agrees(MODULE(
      "cond { s = (s32[], f32[20,3], f32[3]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(20)\n"
      " ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[20,3], f32[3]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n a = f32[20,3] get-tuple-element(s), index=1\n"
      " v = f32[3] get-tuple-element(s), index=2\n"
      "one = s32[] constant(1)\n j = s32[] add(i, one)\n w = f32[3] multiply(v, v)\n"
      " u = f32[1,3] reshape(w)\n z = s32[] constant(0)\n b = f32[20,3] dynamic-update-slice(a, u, "
      "i, z)\n"
      "ROOT t = (s32[], f32[20,3], f32[3]) tuple(j, b, v) }\n"
      "ENTRY e { a = f32[20,3] parameter(0)\n v = f32[3] parameter(1)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[20,3], f32[3]) tuple(i, a, v)\n"
      "w = (s32[], f32[20,3], f32[3]) while(t), condition=cond, body=body\n"
      " r = f32[20,3] get-tuple-element(w), index=1\n q = f32[20,3] add(r, a)\n"
      " ROOT o = (f32[20,3], f32[20,3]) tuple(r, q) }"));
  // State is rotated (x, y) <- (y, x + y) and grown large enough to be exchanged instead of copied.
  agrees(MODULE(
      "cond { s = (s32[], f32[600], f32[600]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(7)\n"
      " ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[600], f32[600]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[600] get-tuple-element(s), index=1\n"
      " y = f32[600] get-tuple-element(s), index=2\n"
      "one = s32[] constant(1)\n j = s32[] add(i, one)\n r = f32[600] reverse(x), dimensions={0}\n"
      " z = f32[600] add(r, y)\n ROOT t = (s32[], f32[600], f32[600]) tuple(j, y, z) }\n"
      "ENTRY e { x = f32[600] parameter(0)\n y = f32[600] parameter(1)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[600], f32[600]) tuple(i, x, y)\n ROOT w = (s32[], f32[600], f32[600]) "
      "while(t), condition=cond, body=body }"));
  // A loop in a loop over the same state, reversed every step.
  agrees(MODULE(
      "ic { s = (s32[], f32[500]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "ib { s = (s32[], f32[500]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " x = f32[500] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n"
      "r = f32[500] reverse(x), dimensions={0}\n y = f32[500] add(r, x)\n"
      " ROOT t = (s32[], f32[500]) tuple(j, y) }\n"
      "oc { s = (s32[], f32[500]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " n = s32[] constant(2)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "ob { s = (s32[], f32[500]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " x = f32[500] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n z = s32[] constant(0)\n"
      "t0 = (s32[], f32[500]) tuple(z, x)\n w = (s32[], f32[500]) while(t0), condition=ic, "
      "body=ib\n y = f32[500] get-tuple-element(w), index=1\n ROOT t = (s32[], f32[500]) tuple(j, "
      "y) }\n"
      "ENTRY e { x = f32[500] parameter(0)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[500]) tuple(i, x)\n ROOT w = (s32[], f32[500]) while(t), condition=oc, "
      "body=ob }"));
  agrees(MODULE(
      "p { x = f32[9] parameter(0)\n ROOT y = f32[9] negate(x) }\nq { x = f32[9] parameter(0)\n"
      " ROOT y = f32[9] copy(x) }\n"
      "ENTRY e { x = f32[9] parameter(0)\n s = s32[] constant(1)\n"
      " c = f32[9] conditional(s, x, x), branch_computations={p, q}\n t = s32[] constant(-3)\n"
      " d = f32[9] conditional(t, c, x), branch_computations={q, p}\n"
      " ROOT r = f32[9] add(c, d) }"));
  agrees(MODULE(
      "f { x = f32[9] parameter(0)\n ROOT y = (f32[9], f32[9]) tuple(x, x) }\n"
      "ENTRY e { x = f32[9] parameter(0)\n c = (f32[9], f32[9]) call(x), to_apply=f\n"
      " k = f32[9] constant({1,2,3,4,5,6,7,8,9})\n ROOT t = ((f32[9], f32[9]), f32[9], f32[9]) "
      "tuple(c, x, k) }"));
}

// One new value for two states, both large enough to be exchanged.
static void state_shared(void **st) {
  (void)st;
  agrees(MODULE(
      "cond { s = (s32[], f32[600], f32[600]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(5)\n"
      " ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[600], f32[600]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[600] get-tuple-element(s), index=1\n"
      " y = f32[600] get-tuple-element(s), index=2\n"
      "one = s32[] constant(1)\n j = s32[] add(i, one)\n r = f32[600] reverse(x), dimensions={0}\n"
      " z = f32[600] add(r, y)\n ROOT t = (s32[], f32[600], f32[600]) tuple(j, z, z) }\n"
      "ENTRY e { x = f32[600] parameter(0)\n y = f32[600] parameter(1)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[600], f32[600]) tuple(i, x, y)\n ROOT w = (s32[], f32[600], f32[600]) "
      "while(t), condition=cond, body=body }"));
}

static void layouts(void **st) {
  (void)st;
  agrees(MODULE(
      "ENTRY e { x = f32[5,6,7]{0,2,1} parameter(0)\n ROOT t = f32[5,6,7]{1,0,2} copy(x) }"));
  agrees(MODULE(LT "ENTRY e { x = f32[20,9]{0,1} parameter(0)\n ROOT s = f32[20,9]{0,1} sort(x), "
                   "dimensions={0}, to_apply=lt }"));
}

// An array handed through under another layout: to and from a call, as a tuple element, as loop
// state and in and out of a loop's computations, through a branch, and as the result of the module.
static void layouts_change_on_the_way(void **st) {
  (void)st;
  agrees(MODULE(
      "f { x = f32[5,7]{1,0} parameter(0)\n y = f32[7,5]{1,0} parameter(1)\n"
      " t = f32[5,7]{0,1} transpose(y), dimensions={1,0}\n s = f32[5,7]{1,0} subtract(x, t)\n"
      "ROOT r = (f32[7,5]{0,1}, f32[5,7]{0,1}) tuple(y, s) }\n"
      "ENTRY e { x = f32[5,7]{0,1} parameter(0)\n y = f32[7,5]{0,1} parameter(1)\n"
      " c = (f32[7,5]{1,0}, f32[5,7]{1,0}) call(x, y), to_apply=f\n"
      "g = f32[7,5]{0,1} get-tuple-element(c), index=0\n h = f32[5,7]{0,1} get-tuple-element(c), "
      "index=1\n"
      "k = f32[5,7]{1,0} transpose(g), dimensions={1,0}\n d = f32[5,7]{1,0} add(k, h)\n"
      "o = f32[5,7]{0,1} opt-barrier(d)\n ROOT t = (f32[5,7]{1,0}, f32[7,5]{1,0}, f32[5,7]{0,1}) "
      "tuple(o, g, x) }"));
  agrees(MODULE(
      "cond { s = (s32[], f32[5,7]{0,1}, f32[5,7]{1,0}) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[5,7]{0,1} get-tuple-element(s), index=1\n"
      "y = f32[1,1] slice(x), slice={[1:2],[3:4]}\n z = f32[] reshape(y)\n"
      " m = f32[] constant(1e9)\n p = pred[] compare(z, m), direction=LT\n"
      "n = s32[] constant(3)\n c = pred[] compare(i, n), direction=LT\n"
      " ROOT a = pred[] and(c, p) }\n"
      "body { s = (s32[], f32[5,7]{0,1}, f32[5,7]{0,1}) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[5,7]{1,0} get-tuple-element(s), index=1\n"
      "y = f32[5,7]{0,1} get-tuple-element(s), index=2\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n r = f32[5,7]{1,0} reverse(x), dimensions={0}\n"
      " z = f32[5,7]{1,0} add(r, y)\n"
      "ROOT t = (s32[], f32[5,7]{0,1}, f32[5,7]{1,0}) tuple(j, z, y) }\n"
      "ENTRY e { x = f32[5,7]{0,1} parameter(0)\n y = f32[5,7]{0,1} parameter(1)\n"
      " i = s32[] constant(0)\n t = (s32[], f32[5,7]{0,1}, f32[5,7]{0,1}) tuple(i, x, y)\n"
      "ROOT w = (s32[], f32[5,7]{1,0}, f32[5,7]{1,0}) while(t), condition=cond, body=body }"));
  agrees(MODULE(
      "a { x = f32[5,7]{1,0} parameter(0)\n ROOT r = f32[5,7]{0,1} reverse(x), dimensions={1} }\n"
      " b { ROOT x = f32[5,7]{0,1} parameter(0) }\n"
      "ENTRY e { x = f32[5,7]{0,1} parameter(0)\n y = f32[5,7]{1,0} parameter(1)\n"
      " z = f32[] constant(0)\n s = f32[1,1] slice(y), slice={[0:1],[0:1]}\n v = f32[] reshape(s)\n"
      "p = pred[] compare(v, z), direction=LT\n q = pred[] not(p)\n"
      " c = f32[5,7]{1,0} conditional(p, x, y), true_computation=a, false_computation=b\n"
      "d = f32[5,7]{1,0} conditional(q, x, y), true_computation=a, false_computation=b\n"
      " ROOT t = (f32[5,7]{1,0}, f32[5,7]{1,0}) tuple(c, d) }"));
  agrees(MODULE("f { x = f32[5,7]{1,0} parameter(0)\n y = f32[5,7]{0,1} parameter(1)\n"
                " n = f32[5,7]{0,1} negate(x)\n s = f32[5,7]{1,0} multiply(x, y)\n"
                " ROOT t = (f32[5,7]{0,1}, f32[5,7]{1,0}) tuple(n, s) }\n"
                "ENTRY e { x = f32[5,7]{0,1} parameter(0)\n y = f32[5,7]{1,0} parameter(1)\n"
                " ROOT r = (f32[5,7]{1,0}, f32[5,7]{0,1}) fusion(x, y), kind=kLoop, calls=f }"));
}

// A donated argument is updated in its own memory, and the caller's copy stays as it was.
static void donation(void **st) {
  (void)st;
  hlo_module *m = parse("HloModule t, input_output_alias={ {}: (0, {}, may-alias) }\n"
                        "ENTRY e { x = f32[64] parameter(0)\n y = f32[64] parameter(1)\n"
                        " ROOT s = f32[64] add(x, y) }");
  backend_result want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
  backend_run_options ro = {.want_outputs = true, .warmup = 2, .min_runs = 4, .max_runs = 4};
  backend_compiled info;
  backend_result got = run_on(cpu, m, NULL, &ro, &info);
  explain(hlo_compare(want.outputs, got.outputs, (hlo_tolerance){1e-6, 1e-6}));
  assert_int_equal(got.timing.runs, 4);
  assert_int_equal(info.alias_bytes, 256);
  backend_result_free(&got);
  backend_result_free(&want);
  hlo_module_free(m);
}

// Several results of one kernel, each in the memory of an argument where the order of reading and
// writing allows it.
static void donation_to_several(void **st) {
  (void)st;
  static const struct {
    const char *text;
    i64 donated;
  } cases[] = {
      {"f { m = f32[9,70] parameter(0)\n g = f32[9,70] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " n = f32[9,70] add(m, g)\n q = f32[9,70] subtract(p, n)\n"
       " ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       2},
      {"f { m = f32[9,70] parameter(0)\n g = f32[70,9] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " h = f32[9,70] transpose(g), dimensions={1,0}\n n = f32[9,70] add(m, h)\n"
       "q = f32[9,70] subtract(p, n)\n ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       2},
      // The first result would overwrite what only the second reads.
      {"f { m = f32[9,70] parameter(0)\n g = f32[9,70] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " n = f32[9,70] add(p, g)\n q = f32[9,70] subtract(m, p)\n"
       " ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       1},
      // The second reads the first's argument elsewhere.
      {"f { m = f32[9,70] parameter(0)\n g = f32[9,70] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " n = f32[9,70] add(m, g)\n r = f32[9,70] reverse(m), dimensions={0}\n"
       " q = f32[9,70] subtract(p, r)\n"
       "ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       1},
      // Half of the first leaves its argument unread, and the second wants all of it.
      {"f { m = f32[9,70] parameter(0)\n g = f32[9,70] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " k = s32[9,70] iota(), iota_dimension=1\n c = s32[] constant(32)\n"
       " cb = s32[9,70] broadcast(c), dimensions={}\n"
       "l = pred[9,70] compare(k, cb), direction=LT\n n = f32[9,70] select(l, m, g)\n"
       " q = f32[9,70] subtract(p, m)\n ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       1},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_buf b = {0};
    const char *g = strstr(cases[k].text, "g = f32[70,9]") ? "f32[70,9]" : "f32[9,70]";
    hs_buf_printf(
        &b,
        "HloModule t, input_output_alias={ {0}: (0, {}, may-alias), {1}: (2, {}, may-alias) }\n%s"
        "ENTRY e { m = f32[9,70] parameter(0)\n g = %s parameter(1)\n p = f32[9,70] parameter(2)\n"
        " ROOT r = (f32[9,70], f32[9,70]) fusion(m, g, p), kind=kLoop, calls=f }",
        cases[k].text, g);
    agrees(hs_buf_cstr(&b));
    hlo_module *m = parse(hs_buf_cstr(&b));
    backend_compiled info;
    backend_result r = run_on(cpu, m, NULL, NULL, &info);
#if HAVE_LLVM
    assert_int_equal(info.alias_bytes, cases[k].donated * 9 * 70 * 4);
#endif
    backend_result_free(&r);
    hlo_module_free(m);
    hs_buf_free(&b);
  }
}

static void measures(void **st) {
  (void)st;
  hlo_module *m = parse(MODULE(
      "ENTRY e { a = f32[64,64] parameter(0)\n b = f32[64,64] dot(a, a), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n ROOT c = f32[64,64] dot(b, a), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0} }"));
  backend_run_options ro = {.warmup = 1, .min_runs = 3, .max_runs = 5, .want_kernel_times = true};
  backend_compiled info;
  backend_result r = run_on(cpu, m, NULL, &ro, &info);
  assert_null(r.outputs);
  assert_in_range(r.timing.runs, 3, 5);
  assert_true(r.timing.first_ms > 0);
  assert_int_equal(r.timing.nkernels, 2);
  for (u32 k = 0; k < 2; k++) assert_true(r.timing.kernel_ms[k] > 0);
  backend_result_free(&r);
  hlo_module_free(m);
}

// ---- custom calls that stand for their operands
// --------------------------------------------------

// Every marker of the table, with one value, with a value whose layout it changes, with a tuple and
// with several values.
static void markers(void **st) {
  (void)st;
  enum { MARKER = 1 };
  static const struct {
    const char *target;
    int flags;
  } rows[] = {
#define CUSTOM(id, target, shape, eval, cost, flags) {target, flags},
#include "core/analysis/customcalls.def"
#undef CUSTOM
  };
  static const char *const bodies[] = {
      " y = f32[3,4]{1,0} custom-call(x), custom_call_target=\"%s\"\n"
      " ROOT r = f32[3,4]{1,0} negate(y) }",
      " y = f32[3,4]{0,1} custom-call(x), custom_call_target=\"%s\"\n"
      " ROOT r = f32[3,4]{0,1} negate(y) }",
      " z = f32[3,4]{1,0} negate(x)\n t = (f32[3,4]{1,0}, f32[3,4]{1,0}) tuple(x, z)\n"
      " ROOT y = (f32[3,4]{1,0}, f32[3,4]{1,0}) custom-call(t), custom_call_target=\"%s\" }",
      " z = f32[3,4]{1,0} negate(x)\n"
      " ROOT y = (f32[3,4]{1,0}, f32[3,4]{0,1}) custom-call(x, z), custom_call_target=\"%s\" }",
  };
  u32 found = 0;
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    if (!(rows[k].flags & MARKER)) continue;
    found++;
    int n = (int)strcspn(rows[k].target, "*");
    char *target = hs_format("%.*s%s", n, rows[k].target, rows[k].target[n] ? "any" : "");
    for (size_t b = 0; b < HS_COUNT(bodies); b++) {
      char *head =
          hs_format("HloModule t\nENTRY e { x = f32[3,4]{1,0} parameter(0)\n%s", bodies[b]);
      const char *mark = strstr(head, "%s");
      char *text = hs_format("%.*s%s%s", (int)(mark - head), head, target, mark + 2);
      agrees(text);
      hs_free(text);
      hs_free(head);
    }
    hs_free(target);
  }
  assert_true(found >= 10);
}

static void unsupported_names_the_opcode(void **st) {
  (void)st;
  hlo_module *m =
      parse(MODULE("ENTRY e { t = token[] after-all()\n i = ((f32[3]), token[]) infeed(t)\n"
                   " ROOT r = (f32[3]) get-tuple-element(i), index=0 }"));
  backend_exe *e = NULL;
  hs_status s = cpu->compile(m, NULL, &e);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_UNSUPPORTED);
  assert_non_null(strstr(s.err->message, "unsupported: infeed"));
  hs_status_drop(s);
  hlo_module_free(m);
}

// ---- what a run survives ------------------------------------------------------------------------

#define SPIN                                                                           \
  "cond { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " n = s32[] constant(0)\n ROOT c = pred[] compare(i, n), direction=GE }\n"           \
  "body { s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " x = f32[] get-tuple-element(s), index=1\n k = f32[] constant(0.5)\n"               \
  " y = f32[] multiply(x, k)\nz = f32[] add(y, k)\n m = s32[] constant(1)\n"           \
  " j = s32[] and(i, m)\n ROOT t = (s32[], f32[]) tuple(j, z) }\n"                     \
  "ENTRY e { x = f32[] parameter(0)\n i = s32[] constant(0)\n"                         \
  " t = (s32[], f32[]) tuple(i, x)\n"                                                  \
  " ROOT w = (s32[], f32[]) while(t), condition=cond, body=body }"
static int disturb_signal;
static hs_interrupt interrupt;
static void *disturb(void *p) {
  (void)p;
  usleep(500000);
  if (disturb_signal) kill(worker_pid(backend_context_worker(backends)), disturb_signal);
  else interrupt = 1;
  return NULL;
}

// A loop without end is running when it happens; afterwards the same program of another module runs
// again.
static void survives(int sig, double deadline, hs_code want) {
  hlo_module *endless = parse(MODULE(SPIN)),
             *good =
                 parse(MODULE("ENTRY e { x = f32[5] parameter(0)\n ROOT y = f32[5] negate(x) }"));
  backend_options o = {.context = backends, .deadline_s = deadline};
  backend_exe *bad = NULL, *ok = NULL;
  hlo_literal **args = NULL;
  u32 n = 0;
  backend_result r;
  explain(cpu->compile(good, &(backend_options){.context = backends}, &ok));
  explain(cpu->compile(endless, &o, &bad));
  explain(hlo_inputs_formula(ctx, endless, NULL, 0, &args, &n));
  pthread_t t;
  hs_interrupt_watch(&interrupt);
  disturb_signal = sig;
  if (deadline == 0) pthread_create(&t, NULL, disturb, NULL);
  hs_status s = cpu->run(bad, n, args, NULL, &r);
  if (deadline == 0) pthread_join(t, NULL);
  interrupt = 0;
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, want);
  assert_non_null(strstr(s.err->message, "running"));
  hs_status_drop(s);
  hlo_inputs_free(args, n);
  explain(hlo_inputs_formula(ctx, good, NULL, 0, &args, &n));
  explain(cpu->run(ok, n, args, NULL, &r));
  assert_true(hlo_literal_f64(r.outputs, 0) == -hlo_literal_f64(args[0], 0));
  backend_result_free(&r);
  hlo_inputs_free(args, n);
  cpu->release(bad);
  cpu->release(ok);
  hlo_module_free(endless);
  hlo_module_free(good);
}

static void survives_segv(void **st) {
  (void)st;
  survives(SIGSEGV, 0, HS_E_WORKER);
}
static void survives_kill(void **st) {
  (void)st;
  survives(SIGKILL, 0, HS_E_WORKER);
}
static void survives_stop(void **st) {
  (void)st;
  survives(SIGSTOP, 0, HS_E_DEADLINE);
}
static void survives_ctrl_c(void **st) {
  (void)st;
  survives(0, 0, HS_E_INTERRUPTED);
}
static void survives_deadline(void **st) {
  (void)st;
  survives(0, 2, HS_E_DEADLINE);
}

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  if (argc > 1) cmocka_set_test_filter(argv[1]);  // a name, with * and ?
  cpu = backend_find("cpu");
  hs_status s = cpu->probe();
  if (!hs_ok(s)) {
    printf("SKIP cpu: %s\n", s.err->message);
    hs_status_drop(s);
    return 0;
  }
  ctx = hlo_ctx_new();
  backends = backend_context_new();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dots),
      cmocka_unit_test(narrow_dots),
      cmocka_unit_test(extreme_integers),
      cmocka_unit_test(convolutions),
      cmocka_unit_test(sorts),
      cmocka_unit_test(moves),
      cmocka_unit_test(linear_algebra),
      cmocka_unit_test(ffts),
      cmocka_unit_test(random_bits),
      cmocka_unit_test(control_flow),
      cmocka_unit_test(state_shared),
      cmocka_unit_test(layouts),
      cmocka_unit_test(layouts_change_on_the_way),
      cmocka_unit_test(donation),
      cmocka_unit_test(donation_to_several),
      cmocka_unit_test(measures),
      cmocka_unit_test(markers),
      cmocka_unit_test(unsupported_names_the_opcode),
      cmocka_unit_test(survives_segv),
      cmocka_unit_test(survives_kill),
      cmocka_unit_test(survives_stop),
      cmocka_unit_test(survives_ctrl_c),
      cmocka_unit_test(survives_deadline),
  };
  int bad = cmocka_run_group_tests(tests, NULL, NULL);
  backend_context_free(backends);
  hlo_ctx_free(ctx);
  return bad;
}
