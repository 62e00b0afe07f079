// fft.c — fft: plans, and who computes which lines.
//
// A transform of several dims is one stage per dim. A stage takes its lines in one of three ways,
// chosen by the shape:
//
//   lines   as many lines as a vector has lanes, side by side; all of a line's values stay in
//           cache. For short lines, and for any dim but the last, where neighbours are adjacent.
//   split   one long line as a matrix, first the transforms of its columns, then of its rows (the
//           four-step form; Bailey, FFTs in External or Hierarchical Memory, 1990), so that a line
//           alone fills vectors, caches and threads.
//   chirp   a length with a large prime factor as a convolution with a chirp, through transforms of
//           a length with small factors (Bluestein, 1970), side by side or each one split.
//
// Real lines of even length n go through complex ones of n / 2. The kernels are in fft_lanes.h.
// Why our own: FFTW is GPL, and pocketfft is C++ and leaves a single long line to one core.
#include <math.h>

#include "backends/cpu/rt/rt.h"

enum { FFT_MOST_PRIME = 127, FFT_MOST_RESULTS = 4, FFT_MOST_PASSES = 48, FFT_MOST_LANES = 16 };

// The passes of a length with small prime factors. table: for each pass, for odd radices their
// roots of unity, then its twiddle factors; turns: e^(-2 pi i k / 2n), of a half of a real line.
typedef struct fft_plan {
  i64 n;
  u32 npasses;
  i64 radix[FFT_MOST_PASSES];
  void *table, *turns;
} fft_plan;

// A length as n1 rows of n2. turns: the factors between the two, a vector of real and one of
// imaginary parts for each row of each group of columns; NULL: it is not split.
typedef struct fft_split {
  fft_plan plan[2];
  void *turns;
} fft_split;

typedef enum fft_kind {
  FFT_COMPLEX,
  FFT_FROM_HALF,  // real, of even length, to complex; plan.n is half of it
  FFT_TO_HALF,
  FFT_FROM_REAL,  // of odd length
  FFT_TO_REAL
} fft_kind;

typedef enum fft_way { FFT_LINES, FFT_CHIRP_LINES, FFT_SPLIT, FFT_CHIRP } fft_way;

typedef struct fft_stage {
  fft_kind kind;
  fft_way way;
  bool inverse;   // of complex numbers
  bool shared;    // the threads share one line after the other
  double scale;   // of the result
  fft_plan plan;  // n: complex numbers of a line; passes where `way` is lines
  fft_split split;
  // chirp: its transforms have m numbers, of one plan or split; the chirp, n, and the transform of
  // its inverse, m
  i64 m;
  fft_plan whole;
  void *chirp, *filter;
  // lines begin at outer * len + inner; len and steps in numbers of the array
  i64 lines, inner, src_len, dst_len;
  i64 at_between, at_a, at_b, bytes;  // memory for a line
} fft_stage;

typedef struct fft_lanes {
  bool near;  // lines are neighbours: only at[0] counts
  i64 lanes, step;
  i64 at[FFT_MOST_LANES];
} fft_lanes;

typedef struct fft_kernels {
  i64 lanes;
  void (*lines)(const fft_stage *, const void *src, void *dst, const fft_lanes *from,
                const fft_lanes *to, void *memory);
  void (*first)(const fft_split *, const void *src, void *between, i64 group, bool swap,
                void *memory);
  void (*second)(const fft_split *, const void *between, void *dst, i64 group, double scale,
                 bool swap, void *memory);
  void (*gather)(const fft_stage *, const void *src, i64 at, void *line);
  void (*scatter)(const fft_stage *, const void *line, void *dst, i64 at);
  void (*times)(void *to, const void *a, const void *b, i64 n);
} fft_kernels;

#define EVEN_2 0, 2
#define ODD_2 1, 3
#define LOW_2 0, 2
#define HIGH_2 1, 3
#define EVEN_4 0, 2, 4, 6
#define ODD_4 1, 3, 5, 7
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

// Two vectors of 64-bit units: the blocks of d units that change places when a square is turned.
#define FFT_EXCHANGE(a, b, X)                      \
  do {                                             \
    __typeof__(a) a_ = a, b_ = b;                  \
    a = __builtin_shufflevector(a_, b_, X##_UP);   \
    b = __builtin_shufflevector(a_, b_, X##_DOWN); \
  } while (0)
#define BY1_2_UP 0, 2
#define BY1_2_DOWN 1, 3
#define BY1_4_UP 0, 4, 2, 6
#define BY1_4_DOWN 1, 5, 3, 7
#define BY2_4_UP 0, 1, 4, 5
#define BY2_4_DOWN 2, 3, 6, 7
#define BY1_8_UP 0, 8, 2, 10, 4, 12, 6, 14
#define BY1_8_DOWN 1, 9, 3, 11, 5, 13, 7, 15
#define BY2_8_UP 0, 1, 8, 9, 4, 5, 12, 13
#define BY2_8_DOWN 2, 3, 10, 11, 6, 7, 14, 15
#define BY4_8_UP 0, 1, 2, 3, 8, 9, 10, 11
#define BY4_8_DOWN 4, 5, 6, 7, 12, 13, 14, 15

#define FFT_T float
#define FFT_BYTES 16
#define FFT_TARGET
#define FFT_(name) name##_f32_base
#define FFT_STAGES FFT_STAGE(1, BY1_2)
#define FFT_EVEN EVEN_4
#define FFT_ODD ODD_4
#define FFT_LOW LOW_4
#define FFT_HIGH HIGH_4
#include "backends/cpu/rt/fft_lanes.h"
#define FFT_T double
#define FFT_BYTES 16
#define FFT_TARGET
#define FFT_(name) name##_f64_base
#define FFT_STAGES
#define FFT_EVEN EVEN_2
#define FFT_ODD ODD_2
#define FFT_LOW LOW_2
#define FFT_HIGH HIGH_2
#include "backends/cpu/rt/fft_lanes.h"
#if defined(__x86_64__)
#define FFT_T float
#define FFT_BYTES 32
#define FFT_TARGET __attribute__((target("avx2,fma")))
#define FFT_(name) name##_f32_avx2
#define FFT_STAGES FFT_STAGE(1, BY1_4) FFT_STAGE(2, BY2_4)
#define FFT_EVEN EVEN_8
#define FFT_ODD ODD_8
#define FFT_LOW LOW_8
#define FFT_HIGH HIGH_8
#include "backends/cpu/rt/fft_lanes.h"
#define FFT_T double
#define FFT_BYTES 32
#define FFT_TARGET __attribute__((target("avx2,fma")))
#define FFT_(name) name##_f64_avx2
#define FFT_STAGES FFT_STAGE(1, BY2_4)
#define FFT_EVEN EVEN_4
#define FFT_ODD ODD_4
#define FFT_LOW LOW_4
#define FFT_HIGH HIGH_4
#include "backends/cpu/rt/fft_lanes.h"
#define FFT_T float
#define FFT_BYTES 64
#define FFT_TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma")))
#define FFT_(name) name##_f32_avx512
#define FFT_STAGES FFT_STAGE(1, BY1_8) FFT_STAGE(2, BY2_8) FFT_STAGE(4, BY4_8)
#define FFT_EVEN EVEN_16
#define FFT_ODD ODD_16
#define FFT_LOW LOW_16
#define FFT_HIGH HIGH_16
#include "backends/cpu/rt/fft_lanes.h"
#define FFT_T double
#define FFT_BYTES 64
#define FFT_TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma")))
#define FFT_(name) name##_f64_avx512
#define FFT_STAGES FFT_STAGE(1, BY2_8) FFT_STAGE(2, BY4_8)
#define FFT_EVEN EVEN_8
#define FFT_ODD ODD_8
#define FFT_LOW LOW_8
#define FFT_HIGH HIGH_8
#include "backends/cpu/rt/fft_lanes.h"
#endif

static const fft_kernels *kernels_of(bool wide) {
#if defined(__x86_64__)
  if (cpu_vectors() == CPU_AVX512) return wide ? &kernels_f64_avx512 : &kernels_f32_avx512;
  if (cpu_vectors() == CPU_AVX2) return wide ? &kernels_f64_avx2 : &kernels_f32_avx2;
#endif
  return wide ? &kernels_f64_base : &kernels_f32_base;
}

typedef struct fft {
  bool wide;  // f64 / c128
  const fft_kernels *k;
  u32 nstages;
  fft_stage stage[3];
  bool copies;  // inverse to real in several dims: the operand is copied to the scratch first
  i64 at_line;  // scratch for shared lines
} fft;

// ---- plans --------------------------------------------------------------------------------------

static void put(void *table, bool wide, i64 at, double angle) {
  if (wide) {
    ((double *)table)[2 * at] = cos(angle);
    ((double *)table)[2 * at + 1] = sin(angle);
  } else {
    ((float *)table)[2 * at] = (float)cos(angle);
    ((float *)table)[2 * at + 1] = (float)sin(angle);
  }
}

// e^(-2 pi i k / n)
static void put_turn(void *table, bool wide, i64 at, i64 k, i64 n) {
  put(table, wide, at, -2 * M_PI * (double)k / (double)n);
}

static void *new_table(bool wide, i64 n) {
  return hs_try_alloc((wide ? sizeof(double) : sizeof(float)) * 2 * (size_t)n);
}

// The passes of n; false when a prime factor is too large.
static bool factor(i64 n, fft_plan *p) {
  p->n = n;
  p->npasses = 0;
  for (i64 r = FFT_MOST_PRIME; r > 2; r -= 2)  // composites never divide what is left but as primes
    if (r == 3 || r == 5 || r == 7 || r == 11 || (r % 3 && r % 5 && r % 7 && r % 11))
      for (; n % r == 0; n /= r) p->radix[p->npasses++] = r;
  for (; n % 8 == 0 && n != 16 && n != 32; n /= 8) p->radix[p->npasses++] = 8;
  for (; n % 4 == 0; n /= 4) p->radix[p->npasses++] = 4;
  for (; n % 2 == 0; n /= 2) p->radix[p->npasses++] = 2;
  return n == 1;
}

static bool plan_passes(fft_plan *p, bool wide) {
  i64 size = 0, at = 0, n = p->n;
  for (u32 f = 0; f < p->npasses; f++) size += 2 * p->n + p->radix[f];
  p->table = new_table(wide, HS_MAX(size, (i64)1));
  if (!p->table) return false;
  for (u32 f = 0; f < p->npasses; f++) {
    i64 r = p->radix[f], m = n / r;
    for (i64 j = 0; j < r && r % 2; j++)
      put(p->table, wide, at++, 2 * M_PI * (double)j / (double)r);
    for (i64 q = 0; q < m; q++)
      for (i64 k = 1; k < r; k++) put_turn(p->table, wide, at++, q * k % n, n);
    n = m;
  }
  return true;
}

// Splits n into two factors near its root, both whole vectors where that can be; false when it has
// no good ones.
static bool split_length(i64 n, i64 lanes, fft_split *s) {
  i64 best = 0;
  for (i64 a = 2; a * a <= n; a++) {
    fft_plan p, q;
    if (n % a || !factor(a, &p) || !factor(n / a, &q)) continue;
    bool whole = a % lanes == 0 && n / a % lanes == 0;
    if (best == 0 || whole || best % lanes || n / best % lanes) best = a;
  }
  if (best < lanes) return false;
  factor(best, &s->plan[0]);
  factor(n / best, &s->plan[1]);
  return true;
}

static bool plan_split(fft_split *s, const fft *f) {
  i64 n1 = s->plan[0].n, n2 = s->plan[1].n, w = f->k->lanes, groups = (n2 + w - 1) / w, n = n1 * n2;
  s->turns = new_table(f->wide, groups * w * n1);
  if (!s->turns || !plan_passes(&s->plan[0], f->wide) || !plan_passes(&s->plan[1], f->wide))
    return false;
  for (i64 g = 0; g < groups; g++)
    for (i64 k = 0; k < n1; k++)
      for (i64 l = 0; l < w; l++) {
        double angle = -2 * M_PI * (double)((g * w + l) * k % n) / (double)n;
        i64 at = (g * n1 + k) * 2 * w + l;
        if (f->wide) {
          ((double *)s->turns)[at] = cos(angle);
          ((double *)s->turns)[at + w] = sin(angle);
        } else {
          ((float *)s->turns)[at] = (float)cos(angle);
          ((float *)s->turns)[at + w] = (float)sin(angle);
        }
      }
  return true;
}

// ---- one line -----------------------------------------------------------------------------------

static size_t number(const fft *f) { return f->wide ? 16 : 8; }  // bytes, complex

// Of a group of `n` positions.
static size_t lanes_memory(const fft *f, i64 n) {
  return number(f) * 2 * (size_t)((n + 1) * f->k->lanes);
}

typedef struct long_line {
  const fft *f;
  const fft_split *s;
  const void *src;
  void *between, *dst;
  bool swap, failed;
  double scale;
  char *memory;  // for the lanes; NULL: each thread has its own
} long_line;

static void *lanes_of(long_line *x) {
  if (x->memory) return x->memory;
  void *p = cpu_par_memory(lanes_memory(x->f, HS_MAX(x->s->plan[0].n, x->s->plan[1].n)));
  if (!p) __atomic_store_n(&x->failed, true, __ATOMIC_RELAXED);
  return p;
}
static void first_chunk(void *ctx, i64 group, u32 thread) {
  (void)thread;
  long_line *x = ctx;
  void *m = lanes_of(x);
  if (m) x->f->k->first(x->s, x->src, x->between, group, x->swap, m);
}
static void second_chunk(void *ctx, i64 group, u32 thread) {
  (void)thread;
  long_line *x = ctx;
  void *m = lanes_of(x);
  if (m) x->f->k->second(x->s, x->between, x->dst, group, x->scale, x->swap, m);
}

// Transforms one line of split length; memory as above. False when there was none.
static bool transform_line(const fft *f, const fft_split *s, const void *src, void *between,
                           void *dst, bool swap, double scale, char *memory) {
  long_line x = {f, s, src, between, dst, swap, false, scale, memory};
  i64 w = f->k->lanes, n1 = (s->plan[1].n + w - 1) / w, n2 = (s->plan[0].n + w - 1) / w;
  if (memory) {
    for (i64 g = 0; g < n1; g++) first_chunk(&x, g, 0);
    for (i64 g = 0; g < n2; g++) second_chunk(&x, g, 0);
  } else {
    cpu_par_for(first_chunk, &x, n1);
    cpu_par_for(second_chunk, &x, n2);
  }
  return !x.failed;
}

// One line, in memory m for its numbers and, unless threads share it, for the lanes.
static bool whole_line(const fft *f, const fft_stage *g, const void *src, void *dst, i64 line,
                       char *m, char *lanes) {
  i64 from = line / g->inner * g->inner * g->src_len + line % g->inner,
      to = line / g->inner * g->inner * g->dst_len + line % g->inner;
  char *a = m + g->at_a, *b = m + g->at_b, *between = m + g->at_between;
  const size_t e = number(f);
  if (g->way == FFT_SPLIT && g->inner == 1 && g->kind == FFT_COMPLEX)
    return transform_line(f, &g->split, (const char *)src + (size_t)from * e, between,
                          (char *)dst + (size_t)to * e, g->inverse, g->scale, lanes);
  f->k->gather(g, src, from, a);
  if (g->way == FFT_CHIRP) {
    f->k->times(a, a, g->chirp, g->plan.n);
    memset(a + (size_t)g->plan.n * e, 0, (size_t)(g->m - g->plan.n) * e);
    if (!transform_line(f, &g->split, a, between, b, false, 1, lanes)) return false;
    f->k->times(b, b, g->filter, g->m);
    if (!transform_line(f, &g->split, b, between, a, true, 1, lanes)) return false;
    f->k->times(a, a, g->chirp, g->plan.n);
    b = a;
  } else if (!transform_line(f, &g->split, a, between, b, false, 1, lanes)) return false;
  f->k->scatter(g, b, dst, to);
  return true;
}

// The chirp and the transform of the filter, in scratch of the heap.
static bool plan_chirp(fft *f, fft_stage *g) {
  const i64 n = g->plan.n, m = g->m;
  const bool split = g->way == FFT_CHIRP;
  const size_t e = number(f);
  g->chirp = new_table(f->wide, n);
  g->filter = new_table(f->wide, m);
  char *line = hs_try_alloc(2 * e * (size_t)m),
       *lanes = hs_try_alloc(
           64 + lanes_memory(f, split ? HS_MAX(g->split.plan[0].n, g->split.plan[1].n) : m));
  bool good = g->chirp && g->filter && line && lanes;
  if (good) {
    memset(line, 0, e * (size_t)m);
    for (i64 k = 0; k < n; k++) {
      i64 square = (i64)((unsigned __int128)k * (u64)k % (u64)(2 * n));
      put(g->chirp, f->wide, k, -M_PI * (double)square / (double)n);
      put(line, f->wide, k, M_PI * (double)square / (double)n);
      if (k) put(line, f->wide, m - k, M_PI * (double)square / (double)n);
    }
    char *at = (char *)(((uintptr_t)lanes + 63) & ~(uintptr_t)63);
    const double scale = 1.0 / (double)m;
    const fft_stage alone = {.plan = g->whole, .scale = scale};
    const fft_lanes one = {.lanes = 1, .step = 1};
    if (split)
      transform_line(f, &g->split, line, line + e * (size_t)m, g->filter, false, scale, at);
    else f->k->lines(&alone, line, g->filter, &one, &one, at);
  }
  hs_free(line);
  hs_free(lanes);
  return good;
}

// ---- running ------------------------------------------------------------------------------------

typedef struct stage_job {
  const fft *f;
  const fft_stage *g;
  const void *src;
  void *dst;
  bool failed;  // a thread had no memory
} stage_job;

static void lines_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  stage_job *j = ctx;
  const fft_stage *g = j->g;
  i64 w = j->f->k->lanes, across = g->inner >= w ? (g->inner + w - 1) / w : 0;
  void *memory = cpu_par_memory(lanes_memory(j->f, g->m));
  if (!memory) return __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
  fft_lanes from = {.near = across > 0, .step = g->inner}, to = from;
  if (across) {
    i64 outer = chunk / across * g->inner, in = chunk % across * w;
    from.lanes = to.lanes = HS_MIN(w, g->inner - in);
    from.at[0] = outer * g->src_len + in;
    to.at[0] = outer * g->dst_len + in;
  } else {
    from.lanes = to.lanes = HS_MIN(w, g->lines - chunk * w);
    for (i64 i = 0; i < from.lanes; i++) {
      i64 line = chunk * w + i;
      from.at[i] = line / g->inner * g->inner * g->src_len + line % g->inner;
      to.at[i] = line / g->inner * g->inner * g->dst_len + line % g->inner;
    }
  }
  j->f->k->lines(g, j->src, j->dst, &from, &to, memory);
}

static void line_chunk(void *ctx, i64 line, u32 thread) {
  (void)thread;
  stage_job *j = ctx;
  size_t numbers = block_align((size_t)j->g->bytes);
  char *memory = cpu_par_memory(
      numbers + lanes_memory(j->f, HS_MAX(j->g->split.plan[0].n, j->g->split.plan[1].n)));
  if (!memory || !whole_line(j->f, j->g, j->src, j->dst, line, memory, memory + numbers))
    __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
}

static hs_status run_stage(const fft *f, const fft_stage *g, const void *src, void *dst,
                           char *scratch) {
  stage_job j = {f, g, src, dst, false};
  i64 w = f->k->lanes;
  if (g->way == FFT_LINES || g->way == FFT_CHIRP_LINES)
    cpu_par_for(lines_chunk, &j,
                g->inner >= w ? g->lines / g->inner * ((g->inner + w - 1) / w)
                              : (g->lines + w - 1) / w);
  else if (!g->shared) cpu_par_for(line_chunk, &j, g->lines);
  else
    for (i64 k = 0; k < g->lines && !j.failed; k++)
      j.failed = !whole_line(f, g, src, dst, k, scratch + f->at_line, NULL);
  return j.failed ? hs_fail(HS_E_NO_MEMORY, "no memory for lines of %lld", (long long)g->plan.n)
                  : HS_GOOD;
}

static hs_status run_fft(void *state, void *const *bufs, void *scratch) {
  const fft *f = state;
  const void *at = bufs[0];
  for (u32 k = 0; k < f->nstages; k++) {
    void *to = f->copies && k + 1 < f->nstages ? scratch : bufs[1];
    if (f->stage[k].lines) HS_TRY(run_stage(f, &f->stage[k], at, to, scratch));
    at = to;
  }
  return HS_GOOD;
}

static void free_plan(fft_plan *p) {
  hs_free(p->table);
  hs_free(p->turns);
}

static void free_fft(void *state) {
  fft *f = state;
  for (u32 k = 0; k < f->nstages; k++) {
    fft_stage *g = &f->stage[k];
    free_plan(&g->plan);
    free_plan(&g->whole);
    free_plan(&g->split.plan[0]);
    free_plan(&g->split.plan[1]);
    hs_free(g->split.turns);
    hs_free(g->chirp);
    hs_free(g->filter);
  }
  hs_free(f);
}

// ---- preparing ----------------------------------------------------------------------------------

bool cpu_fft_supports(const hlo_instr *i) {
  hlo_ints len = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
  const hlo_shape *s = hlo_operand(i, 0)->shape, *o = i->shape;
  i64 type = hlo_attr_int(i, HLO_ATTR_FFT_TYPE, -1);
  if (len.n < 1 || len.n > 3 || len.n > s->rank || type < 0) return false;
  if (hlo_dtype_real_part(s->dtype) != hlo_dtype_real_part(o->dtype)) return false;
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

// The smallest length of at least n that splits into powers of two, one perhaps times 3 or 5.
static i64 chirp_length(i64 n, i64 lanes, fft_split *s) {
  i64 best = INT64_MAX;
  for (i64 odd = 1; odd <= 5; odd += 2) {
    i64 m = odd * lanes * lanes;
    while (m < n) m *= 2;
    best = HS_MIN(best, m);
  }
  split_length(best, lanes, s);
  return best;
}

// The smallest length of at least n that is a power of two, perhaps times 3, 5, 9 or 15.
static i64 whole_chirp_length(i64 n) {
  static const i64 odd[] = {1, 3, 5, 9, 15};
  i64 best = INT64_MAX;
  for (size_t k = 0; k < HS_COUNT(odd); k++) {
    i64 m = odd[k];
    while (m < n) m *= 2;
    best = HS_MIN(best, m);
  }
  return best;
}

// How the stage's lines are taken, and its plans; false when there is no memory for them.
static bool plan_stage(fft *f, fft_stage *g) {
  enum { CACHE = 512 << 10, FEW_LINES = 8, SHARED = 1 << 14 };
  const i64 w = f->k->lanes, n = g->plan.n;
  const size_t e = number(f);
  if (g->kind == FFT_FROM_HALF || g->kind == FFT_TO_HALF) {
    g->plan.turns = new_table(f->wide, n + 1);
    if (!g->plan.turns) return false;
    for (i64 k = 0; k <= n; k++) put_turn(g->plan.turns, f->wide, k, k, 2 * n);
  }
  bool smooth = factor(n, &g->plan);
  g->m = smooth ? n : whole_chirp_length(2 * n - 1);
  bool many = g->lines >= w / 2 && lanes_memory(f, g->m) <= CACHE;
  if (smooth && (many || g->inner >= w || !split_length(n, w, &g->split)))
    return plan_passes(&g->plan, f->wide);
  if (!smooth && many && factor(g->m, &g->whole)) {
    g->way = FFT_CHIRP_LINES;
    return plan_passes(&g->whole, f->wide) && plan_chirp(f, g);
  }
  g->way = smooth ? FFT_SPLIT : FFT_CHIRP;
  g->m = smooth ? n : chirp_length(2 * n - 1, w, &g->split);
  g->shared = g->lines < FEW_LINES && g->m >= SHARED;
  i64 line = (i64)block_align((size_t)g->m * e);
  bool direct = smooth && g->kind == FFT_COMPLEX && g->inner == 1;
  g->at_a = direct ? 0 : line;
  g->at_b = direct ? 0 : 2 * line;
  g->bytes = direct ? line : 3 * line;
  return plan_split(&g->split, f) && (smooth || plan_chirp(f, g));
}

hs_status cpu_fft_prepare(const hlo_instr *i, cpu_rt *out) {
  hlo_ints len = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
  const hlo_shape *s = hlo_operand(i, 0)->shape, *o = i->shape;
  i64 type = hlo_attr_int(i, HLO_ATTR_FFT_TYPE, 0);
  bool forward = type == HLO_FFT_TYPE_FFT || type == HLO_FFT_TYPE_RFFT,
       inverse_real = type == HLO_FFT_TYPE_IRFFT;
  fft *f = hs_calloc(1, sizeof *f);
  f->wide = s->dtype == HLO_C128 || s->dtype == HLO_F64;
  f->k = kernels_of(f->wide);
  f->nstages = len.n;
  f->copies = inverse_real && len.n > 1;
  i64 shared = 0;
  bool good = true;
  for (u32 k = 0; k < len.n && good; k++) {
    // the last dim first, but for an inverse to real, where it comes last
    u32 dim = inverse_real ? k : len.n - 1 - k, d = s->rank - len.n + dim;
    bool last = dim == len.n - 1;
    fft_stage *g = &f->stage[k];
    i64 n = len.v[dim];
    g->kind = last && type == HLO_FFT_TYPE_RFFT ? n % 2 ? FFT_FROM_REAL : FFT_FROM_HALF
              : last && inverse_real            ? n % 2 ? FFT_TO_REAL : FFT_TO_HALF
                                                : FFT_COMPLEX;
    bool half = g->kind == FFT_FROM_HALF || g->kind == FFT_TO_HALF;
    g->plan.n = half ? n / 2 : n;
    g->inverse = !forward && g->kind == FFT_COMPLEX;
    g->scale = forward ? 1 : 1.0 / (double)g->plan.n;
    g->inner = g->lines = 1;
    for (u32 q = d + 1; q < s->rank; q++) g->inner *= forward ? o->dims[q] : s->dims[q];
    for (u32 q = 0; q < s->rank; q++)
      if (q != d) g->lines *= forward && !last ? o->dims[q] : s->dims[q];
    // in complex numbers, real ones where the line is of odd length
    g->src_len = g->kind == FFT_FROM_HALF                           ? n / 2
                 : g->kind == FFT_TO_HALF || g->kind == FFT_TO_REAL ? n / 2 + 1
                                                                    : n;
    g->dst_len = g->kind == FFT_TO_HALF                                 ? n / 2
                 : g->kind == FFT_FROM_HALF || g->kind == FFT_FROM_REAL ? n / 2 + 1
                                                                        : n;
    good = plan_stage(f, g);
    if (g->shared) shared = HS_MAX(shared, g->bytes);
  }
  if (!good) {
    free_fft(f);
    return hs_fail(HS_E_NO_MEMORY, "no memory for the tables of a transform of %lld numbers",
                   (long long)o->elements);
  }
  f->at_line = f->copies ? (i64)block_align((size_t)block_leaf_bytes(s)) : 0;
  *out = (cpu_rt){.kind = "fft",
                  .state = f,
                  .run = run_fft,
                  .release = free_fft,
                  .scratch_bytes = f->at_line + shared};
  return HS_GOOD;
}
