// rt_fft.c — fft: mixed-radix Stockham, many lines at once.
//
// Up to LANES lines are loaded side by side into split real and imaginary arrays [position][lane];
// every butterfly is then a straight loop over lanes that the compiler turns into vector code,
// whatever dimension the lines run along. Passes are the decimation-in-frequency autosort form
// (Stockham; see Van Loan, Computational Frameworks for the FFT, 1992): radix 4 by hand, any other
// prime factor by its small DFT. Real transforms go through the complex one; several dims one after
// the other.
#include <math.h>

#include "backends/cpu/cpu.h"

enum { LANES = 16, MAX_FACTORS = 64 };

// tables of n entries
typedef struct line_plan {
  i64 n;
  u32 nf;
  i64 f[MAX_FACTORS];
  double *cosine, *sine;
  bool inverse;
} line_plan;

typedef struct fft {
  bool wide;  // c128 / f64
  i64 type;   // HLO_FFT_TYPE_*
  u32 rank, nd;
  i64 in[HLO_MAX_RANK], out[HLO_MAX_RANK], len[3];
  line_plan plan[3];
} fft;

static bool plan_line(line_plan *p, i64 n, bool inverse) {
  *p = (line_plan){.n = n, .inverse = inverse};
  i64 rest = n;
  while (rest % 4 == 0) {
    p->f[p->nf++] = 4;
    rest /= 4;
  }
  for (i64 r = 2; rest > 1; r++) {
    while (rest % r == 0) {
      p->f[p->nf++] = r;
      rest /= r;
    }
    if (r * r > rest && rest > 1) {
      p->f[p->nf++] = rest;
      rest = 1;
    }
  }
  p->cosine = hs_try_alloc(sizeof(double) * (size_t)n);
  p->sine = hs_try_alloc(sizeof(double) * (size_t)n);
  if (!p->cosine || !p->sine) return false;
  for (i64 k = 0; k < n; k++) {
    double a = 2 * M_PI * (double)k / (double)n;
    p->cosine[k] = cos(a);
    p->sine[k] = inverse ? sin(a) : -sin(a);
  }
  return true;
}

// Passes over N * LANES numbers: at each, length n splits into r interleaved parts of m = n / r,
// with stride s between elements of a part (see the head of the file).
#define DEFINE_PASSES(name, T)                                                                     \
  typedef T name##_vec                                                                             \
      __attribute__((vector_size(sizeof(T) * LANES), aligned(sizeof(T)), may_alias));              \
  __attribute__((target_clones("default", "avx2", "avx512f"))) static void name(                   \
      const line_plan *p, T *xr, T *xi, T *yr, T *yi) {                                            \
    i64 n = p->n, s = 1, N = p->n;                                                                 \
    T *ar = xr, *ai = xi, *br = yr, *bi = yi, e = p->inverse ? -1 : 1;                             \
    for (u32 f = 0; f < p->nf; f++) {                                                              \
      i64 r = p->f[f], m = n / r, tw = N / n, in = s * m;                                          \
      for (i64 q = 0; q < m; q++) {                                                                \
        const name##_vec *vr = (const name##_vec *)(ar + s * q * LANES),                           \
                         *vi = (const name##_vec *)(ai + s * q * LANES);                           \
        name##_vec *or_ = (name##_vec *)(br + s * r * q * LANES),                                  \
                   *oi = (name##_vec *)(bi + s * r * q * LANES);                                   \
        if (r == 4) {                                                                              \
          T c1 = (T)p->cosine[q * tw], s1 = (T)p->sine[q * tw], c2 = (T)p->cosine[2 * q % n * tw], \
            s2 = (T)p->sine[2 * q % n * tw];                                                       \
          T c3 = (T)p->cosine[3 * q % n * tw], s3 = (T)p->sine[3 * q % n * tw];                    \
          for (i64 z = 0; z < s; z++) {                                                            \
            name##_vec pr = vr[z] + vr[z + 2 * in], pi = vi[z] + vi[z + 2 * in],                   \
                       mr = vr[z] - vr[z + 2 * in], mi = vi[z] - vi[z + 2 * in];                   \
            name##_vec qr = vr[z + in] + vr[z + 3 * in], qi = vi[z + in] + vi[z + 3 * in];         \
            name##_vec dr = (vr[z + in] - vr[z + 3 * in]) * e,                                     \
                       di = (vi[z + in] - vi[z + 3 * in]) * e;                                     \
            name##_vec r1 = mr + di, i1 = mi - dr, r2 = pr - qr, i2 = pi - qi, r3 = mr - di,       \
                       i3 = mi + dr;                                                               \
            or_[z] = pr + qr;                                                                      \
            oi[z] = pi + qi;                                                                       \
            or_[z + s] = r1 * c1 - i1 * s1;                                                        \
            oi[z + s] = r1 * s1 + i1 * c1;                                                         \
            or_[z + 2 * s] = r2 * c2 - i2 * s2;                                                    \
            oi[z + 2 * s] = r2 * s2 + i2 * c2;                                                     \
            or_[z + 3 * s] = r3 * c3 - i3 * s3;                                                    \
            oi[z + 3 * s] = r3 * s3 + i3 * c3;                                                     \
          }                                                                                        \
          continue;                                                                                \
        }                                                                                          \
        for (i64 k = 0; k < r; k++) {                                                              \
          T wr = (T)p->cosine[q * k % n * tw], wi = (T)p->sine[q * k % n * tw];                    \
          for (i64 z = 0; z < s; z++) {                                                            \
            name##_vec sr = vr[z], si = vi[z];                                                     \
            for (i64 j = 1; j < r; j++) {                                                          \
              T c = (T)p->cosine[j * k % r * (N / r)], d = (T)p->sine[j * k % r * (N / r)];        \
              sr += vr[z + j * in] * c - vi[z + j * in] * d;                                       \
              si += vr[z + j * in] * d + vi[z + j * in] * c;                                       \
            }                                                                                      \
            or_[z + k * s] = sr * wr - si * wi;                                                    \
            oi[z + k * s] = sr * wi + si * wr;                                                     \
          }                                                                                        \
        }                                                                                          \
      }                                                                                            \
      T *t = ar;                                                                                   \
      ar = br;                                                                                     \
      br = t;                                                                                      \
      t = ai;                                                                                      \
      ai = bi;                                                                                     \
      bi = t;                                                                                      \
      n = m;                                                                                       \
      s *= r;                                                                                      \
    }                                                                                              \
    if (ar != xr) {                                                                                \
      memcpy(xr, ar, sizeof(T) * (size_t)(N * LANES));                                             \
      memcpy(xi, ai, sizeof(T) * (size_t)(N * LANES));                                             \
    }                                                                                              \
  }
DEFINE_PASSES(passes_f32, float)
DEFINE_PASSES(passes_f64, double)

// A set of lines along one dim: how to read and write them.
typedef struct pass_job {
  bool failed;  // set by any thread that had no memory for its lines
  const fft *f;
  const line_plan *p;
  const char *src;
  char *dst;
  bool src_real, dst_real, half;  // half: the source holds n / 2 + 1 of a Hermitian line
  // inner: stride of the dim, the same number of lines on both sides
  i64 src_len, dst_len, src_inner, dst_inner, lines;
  double scale;
} pass_job;

static i64 line_at(i64 line, i64 inner, i64 len) {
  return line / inner * inner * len + line % inner;
}

#define DEFINE_CHUNK(name, T, passes)                                                              \
  static void name(void *ctx, i64 chunk, u32 thread) {                                             \
    (void)thread;                                                                                  \
    pass_job *j = ctx;                                                                             \
    i64 n = j->p->n, l0 = chunk * LANES, nl = HS_MIN(j->lines - l0, (i64)LANES), size = n * LANES; \
    T *x = hs_try_alloc(sizeof(T) * 4 * (size_t)size);                                             \
    if (!x) return __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);                           \
    T *xr = x, *xi = x + size, *yr = x + 2 * size, *yi = x + 3 * size;                             \
    memset(x, 0, sizeof(T) * 2 * (size_t)size);                                                    \
    const T *src = (const T *)(const void *)j->src;                                                \
    T *dst = (T *)(void *)j->dst;                                                                  \
    for (i64 l = 0; l < nl; l++) {                                                                 \
      i64 at = line_at(l0 + l, j->src_inner, j->src_len);                                          \
      for (i64 k = 0; k < HS_MIN(n, j->src_len); k++) {                                            \
        i64 e = at + k * j->src_inner;                                                             \
        xr[k * LANES + l] = j->src_real ? src[e] : src[2 * e];                                     \
        xi[k * LANES + l] = j->src_real ? 0 : src[2 * e + 1];                                      \
      }                                                                                            \
      if (j->half) {                                                                               \
        xi[l] = 0;                                                                                 \
        if (n % 2 == 0 && n / 2 < j->src_len) xi[n / 2 * LANES + l] = 0;                           \
        for (i64 k = n / 2 + 1; k < n; k++) {                                                      \
          xr[k * LANES + l] = xr[(n - k) * LANES + l];                                             \
          xi[k * LANES + l] = -xi[(n - k) * LANES + l];                                            \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    passes(j->p, xr, xi, yr, yi);                                                                  \
    T scale = (T)j->scale;                                                                         \
    for (i64 l = 0; l < nl; l++) {                                                                 \
      i64 at = line_at(l0 + l, j->dst_inner, j->dst_len);                                          \
      for (i64 k = 0; k < j->dst_len; k++) {                                                       \
        i64 e = at + k * j->dst_inner;                                                             \
        if (j->dst_real) dst[e] = xr[k * LANES + l] * scale;                                       \
        else {                                                                                     \
          dst[2 * e] = xr[k * LANES + l] * scale;                                                  \
          dst[2 * e + 1] = xi[k * LANES + l] * scale;                                              \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    hs_free(x);                                                                                    \
  }
DEFINE_CHUNK(chunk_f32, float, passes_f32)
DEFINE_CHUNK(chunk_f64, double, passes_f64)

static hs_status transform(const fft *f, u32 k, const void *src, bool src_real, bool half,
                           const i64 *src_dims, void *dst, bool dst_real, const i64 *dst_dims) {
  u32 d = f->rank - f->nd + k;
  pass_job j = {.f = f,
                .p = &f->plan[k],
                .src = src,
                .dst = dst,
                .src_real = src_real,
                .dst_real = dst_real,
                .half = half,
                .src_len = src_dims[d],
                .dst_len = dst_dims[d],
                .src_inner = 1,
                .dst_inner = 1,
                .lines = 1,
                .scale = f->plan[k].inverse ? 1.0 / (double)f->len[k] : 1.0};
  for (u32 q = d + 1; q < f->rank; q++) {
    j.src_inner *= src_dims[q];
    j.dst_inner *= dst_dims[q];
  }
  for (u32 q = 0; q < f->rank; q++)
    if (q != d) j.lines *= src_dims[q];
  if (j.lines && j.p->n)
    cpu_par_for(f->wide ? chunk_f64 : chunk_f32, &j, (j.lines + LANES - 1) / LANES);
  return j.failed ? hs_fail(HS_E_NO_MEMORY, "no memory for lines of %lld", (long long)j.p->n)
                  : HS_GOOD;
}

static hs_status run_fft(void *state, void *const *bufs, void *scratch) {
  const fft *f = state;
  u32 last = f->nd - 1;
  // other dims first, on a copy; then the last to real
  if (f->type == HLO_FFT_TYPE_IRFFT) {
    const void *at = bufs[0];
    for (u32 k = 0; k < last; k++) {
      HS_TRY(transform(f, k, at, false, false, f->in, scratch, false, f->in));
      at = scratch;
    }
    return transform(f, last, at, false, true, f->in, bufs[1], true, f->out);
  }
  HS_TRY(transform(f, last, bufs[0], f->type == HLO_FFT_TYPE_RFFT, false, f->in, bufs[1], false,
                   f->out));
  for (u32 k = last; k-- > 0;)
    HS_TRY(transform(f, k, bufs[1], false, false, f->out, bufs[1], false, f->out));
  return HS_GOOD;
}

static void free_fft(void *state) {
  fft *f = state;
  for (u32 k = 0; k < f->nd; k++) {
    hs_free(f->plan[k].cosine);
    hs_free(f->plan[k].sine);
  }
  hs_free(f);
}

bool cpu_fft_supports(const hlo_instr *i) {
  hlo_ints len = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
  const hlo_shape *s = hlo_operand(i, 0)->shape, *o = i->shape;
  i64 type = hlo_attr_int(i, HLO_ATTR_FFT_TYPE, -1);
  if (len.n < 1 || len.n > 3 || len.n > s->rank || type < 0) return false;
  for (u32 k = 0; k < len.n; k++) {
    i64 full = len.v[k], want_in = full, want_out = full;
    if (k + 1 == len.n && type == HLO_FFT_TYPE_RFFT) want_out = full / 2 + 1;
    if (k + 1 == len.n && type == HLO_FFT_TYPE_IRFFT) want_in = full / 2 + 1;
    if (full < 1 || full > (1 << 26) || s->dims[s->rank - len.n + k] != want_in ||
        o->dims[s->rank - len.n + k] != want_out)
      return false;
  }
  return true;
}

hs_status cpu_fft_prepare(const hlo_instr *i, cpu_rt *out) {
  hlo_ints len = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
  const hlo_shape *s = hlo_operand(i, 0)->shape, *o = i->shape;
  fft *f = hs_calloc(1, sizeof *f);
  f->type = hlo_attr_int(i, HLO_ATTR_FFT_TYPE, 0);
  f->wide = s->dtype == HLO_C128 || s->dtype == HLO_F64;
  f->rank = s->rank;
  f->nd = len.n;
  memcpy(f->in, s->dims, s->rank * sizeof *f->in);
  memcpy(f->out, o->dims, s->rank * sizeof *f->out);
  bool inverse = f->type == HLO_FFT_TYPE_IFFT || f->type == HLO_FFT_TYPE_IRFFT;
  for (u32 k = 0; k < len.n; k++) {
    f->len[k] = len.v[k];
    if (!plan_line(&f->plan[k], len.v[k], inverse)) {
      free_fft(f);
      return hs_fail(HS_E_NO_MEMORY, "no memory for a transform of length %lld",
                     (long long)len.v[k]);
    }
  }
  *out = (cpu_rt){.kind = "fft",
                  .state = f,
                  .run = run_fft,
                  .release = free_fft,
                  .scratch_bytes =
                      f->type == HLO_FFT_TYPE_IRFFT && f->nd > 1 ? (i64)block_leaf_bytes(s) : 0};
  return HS_GOOD;
}
