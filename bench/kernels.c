// kernels.c — dots, convolutions and transforms of the cpu backend, each alone, beside the
// library called directly: oneDNN with its own threads for dots of f32, bf16 and s8 and for
// convolutions in the orders JAX writes.
//
// Both sides work on the same arrays in this process, with the same number of threads, in turns; a
// line has the fastest run of each, ours in GF/s (products and sums of the plain algorithm), and
// the library's time divided by ours. A part of a name as argument picks cases.
//
//   kernels [--threads N] [--seconds S] [NAME...]
#include "backends/cpu/cpu.h"
#include "core/eval/eval.h"
#include "core/text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if HAVE_DNNL
#include <dnnl.h>
#endif
#if HAVE_OPENMP
#include <omp.h>
#endif

typedef struct bench_case {
  const char *name, *text;  // the instruction, of x and y
  double work;              // 0: not known
} bench_case;

#define DOT(name, t, c, m, n, k, rest)                                                   \
  {                                                                                      \
    name,                                                                                \
        "x = " t "[" #m "," #k "] parameter(0)\ny = " t "[" #k "," #n "] parameter(1)\n" \
        "ROOT r = " c "[" #m "," #n                                                      \
        "] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}" rest,          \
        2.0 * m *n *k                                                                    \
  }
static const bench_case cases[] = {
    DOT("f32 256", "f32", "f32", 256, 256, 256, ""),
    DOT("f32 1024", "f32", "f32", 1024, 1024, 1024, ""),
    DOT("f32 64", "f32", "f32", 64, 64, 64, ""),
    DOT("f32 32", "f32", "f32", 32, 32, 32, ""),
    DOT("f32 8", "f32", "f32", 8, 8, 8, ""),
    DOT("f32 odd", "f32", "f32", 251, 387, 129, ""),
    DOT("f32 tall n8", "f32", "f32", 4096, 8, 1024, ""),
    DOT("f32 m4", "f32", "f32", 4, 4096, 1024, ""),
    DOT("f32 m8", "f32", "f32", 8, 4096, 1024, ""),
    DOT("f32 gemv", "f32", "f32", 1, 4096, 4096, ""),
    {"f32 gemv t",
     "x = f32[4096,4096] parameter(0)\ny = f32[4096] parameter(1)\n"
     "ROOT r = f32[4096] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     2.0 * 4096 * 4096},
    {"f32 nt 512",
     "x = f32[512,512] parameter(0)\ny = f32[512,512] parameter(1)\n"
     "ROOT r = f32[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
     2.0 * 512 * 512 * 512},
    {"f32 heads",
     "x = f32[4,256,12,64] parameter(0)\ny = f32[4,256,12,64] parameter(1)\n"
     "ROOT r = f32[4,12,256,256] dot(x, y), lhs_batch_dims={0,2}, lhs_contracting_dims={3}, "
     "rhs_batch_dims={0,2}, rhs_contracting_dims={3}",
     2.0 * 48 * 256 * 256 * 64},
    {"f32 batch 32",
     "x = f32[512,32,32] parameter(0)\ny = f32[512,32,32] parameter(1)\n"
     "ROOT r = f32[512,32,32] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_batch_dims={0}, rhs_contracting_dims={1}",
     2.0 * 512 * 32 * 32 * 32},
    DOT("f64 64", "f64", "f64", 64, 64, 64, ""),
    DOT("f64 512", "f64", "f64", 512, 512, 512, ""),
    DOT("f64 1024", "f64", "f64", 1024, 1024, 1024, ""),
    DOT("bf16 512", "bf16", "bf16", 512, 512, 512, ""),
    DOT("bf16 1024", "bf16", "f32", 1024, 1024, 1024, ""),
    DOT("f16 512", "f16", "f16", 512, 512, 512, ""),
    DOT("f8 512", "f8e4m3fn", "f32", 512, 512, 512, ""),
    DOT("s8 512", "s8", "s32", 512, 512, 512, ""),
    DOT("s8 1024", "s8", "s32", 1024, 1024, 1024, ""),
    DOT("u8 512", "u8", "s32", 512, 512, 512, ""),
    DOT("c64 256", "c64", "c64", 256, 256, 256, ""),
    {"conv 3x3 64",
     "x = f32[16,56,56,64] parameter(0)\ny = f32[3,3,64,64] parameter(1)\n"
     "ROOT r = f32[16,56,56,64] convolution(x, y), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f",
     2.0 * 16 * 56 * 56 * 64 * 64 * 9},
    {"conv 3x3 batch 1",
     "x = f32[1,56,56,64] parameter(0)\ny = f32[3,3,64,64] parameter(1)\n"
     "ROOT r = f32[1,56,56,64] convolution(x, y), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f",
     2.0 * 56 * 56 * 64 * 64 * 9},
    {"conv 3x3 512",
     "x = f32[8,7,7,512] parameter(0)\ny = f32[3,3,512,512] parameter(1)\n"
     "ROOT r = f32[8,7,7,512] convolution(x, y), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f",
     2.0 * 8 * 49 * 512 * 512 * 9},
    {"conv 7x7 s2",
     "x = f32[8,224,224,3] parameter(0)\ny = f32[7,7,3,64] parameter(1)\n"
     "ROOT r = f32[8,112,112,64] convolution(x, y), window={size=7x7 stride=2x2 pad=3_3x3_3}, "
     "dim_labels=b01f_01io->b01f",
     2.0 * 8 * 112 * 112 * 64 * 3 * 49},
    {"conv 1x1",
     "x = f32[16,56,56,256] parameter(0)\ny = f32[1,1,256,64] parameter(1)\n"
     "ROOT r = f32[16,56,56,64] convolution(x, y), window={size=1x1}, dim_labels=b01f_01io->b01f",
     2.0 * 16 * 56 * 56 * 64 * 256},
    {"conv depthwise",
     "x = f32[8,112,112,128] parameter(0)\ny = f32[3,3,1,128] parameter(1)\n"
     "ROOT r = f32[8,112,112,128] convolution(x, y), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f, feature_group_count=128",
     2.0 * 8 * 112 * 112 * 128 * 9},
    {"conv grouped",
     "x = f32[8,56,56,128] parameter(0)\ny = f32[3,3,4,128] parameter(1)\n"
     "ROOT r = f32[8,56,56,128] convolution(x, y), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f, feature_group_count=32",
     2.0 * 8 * 56 * 56 * 128 * 9 * 4},
    {"conv nchw",
     "x = f32[16,64,56,56] parameter(0)\ny = f32[64,64,3,3] parameter(1)\n"
     "ROOT r = f32[16,64,56,56] convolution(x, y), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=bf01_oi01->bf01",
     2.0 * 16 * 56 * 56 * 64 * 64 * 9},
    {"conv grad input",
     "x = f32[16,28,28,128] parameter(0)\ny = f32[3,3,64,128] parameter(1)\n"
     "ROOT r = f32[16,56,56,64] convolution(x, y), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 "
     "rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f",
     2.0 * 16 * 28 * 28 * 64 * 128 * 9},
    {"conv grad filter",
     "x = f32[16,56,56,64] parameter(0)\ny = f32[16,56,56,64] parameter(1)\n"
     "ROOT r = f32[3,3,64,64] convolution(x, y), window={size=56x56 pad=1_1x1_1}, "
     "dim_labels=f01b_i01o->01bf",
     2.0 * 16 * 56 * 56 * 64 * 64 * 9},
    {"conv bf16",
     "x = bf16[4,32,32,64] parameter(0)\ny = bf16[3,3,64,64] parameter(1)\n"
     "ROOT r = bf16[4,32,32,64] convolution(x, y), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f",
     2.0 * 4 * 32 * 32 * 64 * 64 * 9},
#define FFT(name, type, in, out, len, work)                                                     \
  {                                                                                             \
    name,                                                                                       \
        "x = " in " parameter(0)\nROOT r = " out " fft(x), fft_type=" type ", fft_length={" len \
        "}",                                                                                    \
        work                                                                                    \
  }
    FFT("fft 64 x 1024", "FFT", "c64[64,1024]", "c64[64,1024]", "1024", 5.0 * 64 * 1024 * 10),
    FFT("fft 4096 x 256", "FFT", "c64[4096,256]", "c64[4096,256]", "256", 5.0 * 4096 * 256 * 8),
    FFT("fft 16384", "FFT", "c64[16384]", "c64[16384]", "16384", 5.0 * 16384 * 14),
    FFT("fft 1M", "FFT", "c64[1048576]", "c64[1048576]", "1048576", 5.0 * 1048576 * 20),
    FFT("fft 1000", "FFT", "c64[64,1000]", "c64[64,1000]", "1000", 5.0 * 64 * 1000 * 9.97),
    FFT("fft 1009", "FFT", "c64[64,1009]", "c64[64,1009]", "1009", 5.0 * 64 * 1009 * 9.98),
    FFT("fft 2d 512", "FFT", "c64[8,512,512]", "c64[8,512,512]", "512,512", 5.0 * 8 * 262144 * 18),
    FFT("fft c128 1024", "FFT", "c128[64,1024]", "c128[64,1024]", "1024", 5.0 * 64 * 1024 * 10),
    FFT("rfft 2d 256", "RFFT", "f32[16,256,256]", "c64[16,256,129]", "256,256",
        2.5 * 16 * 65536 * 16),
    FFT("irfft 2d 256", "IRFFT", "c64[16,256,129]", "f32[16,256,256]", "256,256",
        2.5 * 16 * 65536 * 16),
};

typedef struct arrays {
  void *buf[3];
} arrays;

static void fill(void *p, const hlo_shape *s, u64 seed) {
  hlo_dtype part = hlo_dtype_is_complex(s->dtype) ? hlo_dtype_real_part(s->dtype) : s->dtype;
  size_t e = hlo_dtype_storage(part);
  i64 n = s->elements * (part != s->dtype ? 2 : 1);
  for (i64 k = 0; k < n; k++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double v = (double)(seed >> 40) / (1 << 24) - 0.5;
    if (hlo_dtype_is_float(part)) hlo_elem_from_f64(part, (char *)p + (size_t)k * e, v);
    else hlo_elem_from_i64(part, (char *)p + (size_t)k * e, (i64)(v * 200));
  }
}

// ---- the library, called directly ---------------------------------------------------------------

typedef struct direct {
#if HAVE_DNNL
  dnnl_primitive_t prim;
  dnnl_stream_t stream;
  dnnl_exec_arg_t args[4];
  int nargs;
#endif
  bool there;
} direct;

#if HAVE_DNNL
static bool dnnl_type(hlo_dtype t, dnnl_data_type_t *out) {
  switch (t) {
  case HLO_F32: *out = dnnl_f32; return true;
  case HLO_BF16: *out = dnnl_bf16; return true;
  case HLO_S8: *out = dnnl_s8; return true;
  case HLO_S32: *out = dnnl_s32; return true;
  default: return false;
  }
}

static bool describe(const hlo_shape *s, const int *order, dnnl_memory_desc_t *out) {
  dnnl_data_type_t t;
  dnnl_dims_t dims, strides;
  i64 st[HLO_MAX_RANK];
  if (!dnnl_type(s->dtype, &t)) return false;
  cpu_strides(s, st);
  for (u32 k = 0; k < s->rank; k++) {
    dims[k] = s->dims[order ? order[k] : (int)k];
    strides[k] = st[order ? order[k] : (int)k];
  }
  return !dnnl_memory_desc_init_by_strides(out, (int)s->rank, dims, t, strides);
}

static void direct_dot(const hlo_instr *i, const arrays *a, direct *d) {
  const hlo_shape *x = hlo_operand(i, 0)->shape, *y = hlo_operand(i, 1)->shape, *r = i->shape;
  if (x->rank != 2 || y->rank != 2 || hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS).v[0] != 1)
    return;
  static const int turned[] = {1, 0};
  bool nt = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS).v[0] == 1;
  dnnl_memory_desc_t m[3];
  dnnl_matmul_desc_t md;
  dnnl_primitive_desc_t pd;
  dnnl_engine_t e = cpu_dnnl_engine();
  if (!describe(x, NULL, &m[0]) || !describe(y, nt ? turned : NULL, &m[1]) ||
      !describe(r, NULL, &m[2]) || dnnl_matmul_desc_init(&md, &m[0], &m[1], NULL, &m[2]) ||
      dnnl_primitive_desc_create(&pd, &md, NULL, e, NULL))
    return;
  if (dnnl_primitive_create(&d->prim, pd)) return;
  static const int arg[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  for (int k = 0; k < 3; k++) {
    d->args[k].arg = arg[k];
    dnnl_memory_create(&d->args[k].memory, &m[k], e, a->buf[k]);
  }
  d->nargs = 3;
  d->there = true;
}

// Forward, f32, the orders b01f_01io->b01f and bf01_oi01->bf01: filters packed before, as a program
// with constant ones would have them.
static void direct_conv(const hlo_instr *i, const arrays *a, direct *d) {
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *x = hlo_operand(i, 0)->shape, *y = hlo_operand(i, 1)->shape, *r = i->shape;
  i64 groups = hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1);
  if (x->dtype != HLO_F32 || l->nspatial != 2 || l->lhs_batch != 0 || w->v[0].lhs_dilate > 1)
    return;
  const int xo[] = {0, (int)l->lhs_feature, (int)l->lhs_spatial[0], (int)l->lhs_spatial[1]},
            yo[] = {(int)l->rhs_output_feature, (int)l->rhs_input_feature, (int)l->rhs_spatial[0],
                    (int)l->rhs_spatial[1]},
            ro[] = {0, (int)l->out_feature, (int)l->out_spatial[0], (int)l->out_spatial[1]};
  dnnl_memory_desc_t m[3], any;
  i64 of = y->dims[yo[0]], if_ = y->dims[yo[1]], kh = w->v[0].size, kw = w->v[1].size;
  dnnl_dims_t plain = {of, if_, kh, kw}, grouped = {groups, of / groups, if_, kh, kw},
              st = {w->v[0].stride, w->v[1].stride}, pl = {w->v[0].pad_low, w->v[1].pad_low},
              pr = {w->v[0].pad_high, w->v[1].pad_high};
  dnnl_convolution_desc_t cd;
  dnnl_primitive_desc_t pd;
  dnnl_engine_t e = cpu_dnnl_engine();
  if (!describe(x, xo, &m[0]) || !describe(r, ro, &m[2]) ||
      dnnl_memory_desc_init_by_tag(&any, groups > 1 ? 5 : 4, groups > 1 ? grouped : plain, dnnl_f32,
                                   dnnl_format_tag_any))
    return;
  if (dnnl_convolution_forward_desc_init(&cd, dnnl_forward_inference, dnnl_convolution_direct,
                                         &m[0], &any, NULL, &m[2], st, pl, pr) ||
      dnnl_primitive_desc_create(&pd, &cd, NULL, e, NULL) || dnnl_primitive_create(&d->prim, pd))
    return;
  m[1] = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
  static const int arg[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  for (int k = 0; k < 3; k++) {
    d->args[k].arg = arg[k];
    dnnl_memory_create(&d->args[k].memory, &m[k], e, k == 1 ? DNNL_MEMORY_ALLOCATE : a->buf[k]);
    if (k == 1) {
      void *p;
      dnnl_memory_get_data_handle(d->args[k].memory, &p);
      memset(p, 0, dnnl_memory_desc_get_size(&m[1]));
    }
  }
  d->nargs = 3;
  d->there = true;
}

static void run_direct(direct *d) {
  dnnl_primitive_execute(d->prim, d->stream, d->nargs, d->args);
  dnnl_stream_wait(d->stream);
}
#else
static void run_direct(direct *d) { (void)d; }
#endif

static void library_threads(u32 n) {
#if HAVE_OPENMP
  omp_set_num_threads((int)n);
#else
  (void)n;
#endif
}

static void find_direct(const hlo_instr *i, const arrays *a, direct *d) {
#if HAVE_DNNL
  if (!cpu_dnnl_engine()) return;
  d->stream = cpu_dnnl_stream();
  if (i->opcode == HLO_DOT) direct_dot(i, a, d);
  if (i->opcode == HLO_CONVOLUTION) direct_conv(i, a, d);
#else
  (void)i, (void)a, (void)d;
#endif
}

// ---- one case -----------------------------------------------------------------------------------

typedef struct options {
  u32 threads;
  double seconds;
} options;

static hs_status run_case(hlo_ctx *ctx, const bench_case *c, const options *o) {
  hs_buf text = {0};
  hs_buf_printf(&text, "HloModule t\nENTRY e {\n%s\n}\n", c->text);
  hlo_module *m = NULL;
  HS_TRY(hlo_parse(ctx, hs_buf_cstr(&text), text.n, NULL, &m));
  const hlo_instr *i = m->entry->root;
  cpu_rt rt;
  cpu_par_begin(o->threads);
  HS_TRY(cpu_rt_make(i, 0, &rt));
  arrays a = {0};
  for (u32 k = 0; k <= i->noperands; k++) {
    const hlo_shape *s = k < i->noperands ? hlo_operand(i, k)->shape : i->shape;
    a.buf[k] = aligned_alloc(4096, (block_leaf_bytes(s) + 4096) & ~(size_t)4095);
    memset(a.buf[k], 0, block_leaf_bytes(s));
    if (k < i->noperands) fill(a.buf[k], s, k + 1);
  }
  void *scratch = aligned_alloc(4096, ((size_t)rt.scratch_bytes + 4096) & ~(size_t)4095);
  direct d = {0};
  library_threads(cpu_par_threads());
  find_direct(i, &a, &d);
  library_threads(1);
  double best = INFINITY, theirs = INFINITY;
  u64 end = hs_now_ns() + (u64)(o->seconds * 1e9);
  for (int k = 0; k < 5 || hs_now_ns() < end; k++) {
    for (int r = 0; r < 3; r++) {
      u64 t = hs_now_ns();
      HS_TRY(rt.run(rt.state, a.buf, scratch));
      best = fmin(best, (double)(hs_now_ns() - t) * 1e-6);
    }
    if (!d.there) continue;
    library_threads(cpu_par_threads());
    for (int r = 0; r < 3; r++) {
      u64 t = hs_now_ns();
      run_direct(&d);
      theirs = fmin(theirs, (double)(hs_now_ns() - t) * 1e-6);
    }
    library_threads(1);
  }
  printf("%-18s %10.4f ms %7.1f GF/s", c->name, best, c->work / best * 1e-6);
  if (d.there) printf("  library %10.4f ms  %5.2f", theirs, theirs / best);
  printf("  %s\n", rt.kind);
  cpu_rt_free(&rt);
  hlo_module_free(m);
  free(scratch);
  for (u32 k = 0; k < 3; k++) free(a.buf[k]);
  hs_buf_free(&text);
  return HS_GOOD;
}

int main(int argc, char **argv) {
  options o = {.seconds = 0.5};
  int first = 1;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    if (!strcmp(argv[first], "--threads")) o.threads = (u32)atoi(argv[first + 1]);
    else if (!strcmp(argv[first], "--seconds")) o.seconds = atof(argv[first + 1]);
    else return fprintf(stderr, "usage: kernels [--threads N] [--seconds S] [NAME...]\n"), 2;
  }
  setenv("GOMP_SPINCOUNT", "10000", 0);
  hlo_ctx *ctx = hlo_ctx_new();
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    bool wanted = first == argc;
    for (int j = first; j < argc; j++) wanted |= strstr(cases[k].name, argv[j]) != NULL;
    if (!wanted) continue;
    hs_status s = run_case(ctx, &cases[k], &o);
    if (!hs_ok(s)) {
      printf("%-18s failed\n", cases[k].name);
      hs_status_drop(s);
    }
    fflush(stdout);
  }
  hlo_ctx_free(ctx);
  return 0;
}
