// fft_lanes.h — the kernels of fft for one element type and one instruction set; included by
// fft.c once for each, with these defined (and compiled to nothing without them):
//
//   FFT_T       float or double             FFT_BYTES   of a vector
//   FFT_TARGET  the target attribute        FFT_(name)  the name with a suffix
//
// Lines lie side by side: one position of W lines is a vector of real and one of imaginary parts,
// x[2 k] and x[2 k + 1], so that a butterfly is straight vector code whatever the length. Passes
// are the decimation-in-frequency autosort form (Stockham; see Van Loan, Computational Frameworks
// for the FFT, 1992): radix 8, 4 and 2 by hand, odd primes by pairs of terms with the same cosine.
#ifdef FFT_T
#define W (FFT_BYTES / (int)sizeof(FFT_T))

typedef FFT_T FFT_(vec) __attribute__((vector_size(FFT_BYTES), aligned(sizeof(FFT_T)), may_alias));

// ---- passes -------------------------------------------------------------------------------------
// One pass: the remaining length r * m with s results between neighbours. tw: for each of the m
// positions the r - 1 twiddle factors (cosine, sine); last: m is 1, and they are all 1.

#define PUT(k, re, im)                              \
  do {                                              \
    FFT_(vec) pr_ = re, pi_ = im;                   \
    if (!last && (k) > 0) {                         \
      FFT_T c_ = t[2 * (k)-2], s_ = t[2 * (k)-1];   \
      b[2 * (z + (k)*s)] = pr_ * c_ - pi_ * s_;     \
      b[2 * (z + (k)*s) + 1] = pr_ * s_ + pi_ * c_; \
    } else {                                        \
      b[2 * (z + (k)*s)] = pr_;                     \
      b[2 * (z + (k)*s) + 1] = pi_;                 \
    }                                               \
  } while (0)
#define RE(j) a[2 * (z + (j)*s * m)]
#define IM(j) a[2 * (z + (j)*s * m) + 1]

FFT_TARGET static inline __attribute__((always_inline)) void FFT_(pass2)(
    i64 m, i64 s, const FFT_T *t, const FFT_(vec) * x, FFT_(vec) * y, const bool last) {
  for (i64 q = 0; q < m; q++, t += 2) {
    const FFT_(vec) *a = x + 2 * s * q;
    FFT_(vec) *b = y + 4 * s * q;
    for (i64 z = 0; z < s; z++) {
      FFT_(vec) r0 = RE(0), i0 = IM(0), r1 = RE(1), i1 = IM(1);
      PUT(0, r0 + r1, i0 + i1);
      PUT(1, r0 - r1, i0 - i1);
    }
  }
}

FFT_TARGET static inline __attribute__((always_inline)) void FFT_(pass4)(
    i64 m, i64 s, const FFT_T *t, const FFT_(vec) * x, FFT_(vec) * y, const bool last) {
  for (i64 q = 0; q < m; q++, t += 6) {
    const FFT_(vec) *a = x + 2 * s * q;
    FFT_(vec) *b = y + 8 * s * q;
    for (i64 z = 0; z < s; z++) {
      FFT_(vec)
      pr = RE(0) + RE(2), pi = IM(0) + IM(2), mr = RE(0) - RE(2), mi = IM(0) - IM(2),
      qr = RE(1) + RE(3), qi = IM(1) + IM(3), dr = RE(1) - RE(3), di = IM(1) - IM(3);
      PUT(0, pr + qr, pi + qi);
      PUT(1, mr + di, mi - dr);
      PUT(2, pr - qr, pi - qi);
      PUT(3, mr - di, mi + dr);
    }
  }
}

FFT_TARGET static inline __attribute__((always_inline)) void FFT_(pass8)(
    i64 m, i64 s, const FFT_T *t, const FFT_(vec) * x, FFT_(vec) * y, const bool last) {
  const FFT_T h = (FFT_T)M_SQRT1_2;
  for (i64 q = 0; q < m; q++, t += 14) {
    const FFT_(vec) *a = x + 2 * s * q;
    FFT_(vec) *b = y + 16 * s * q;
    for (i64 z = 0; z < s; z++) {
      FFT_(vec)
      b0r = RE(0) + RE(4), b0i = IM(0) + IM(4), c0r = RE(0) - RE(4), c0i = IM(0) - IM(4),
      b1r = RE(1) + RE(5), b1i = IM(1) + IM(5), d1r = RE(1) - RE(5), d1i = IM(1) - IM(5),
      b2r = RE(2) + RE(6), b2i = IM(2) + IM(6), d2r = RE(2) - RE(6), d2i = IM(2) - IM(6),
      b3r = RE(3) + RE(7), b3i = IM(3) + IM(7), d3r = RE(3) - RE(7), d3i = IM(3) - IM(7);
      // times (1 - i) / sqrt 2, -i, and (-1 - i) / sqrt 2
      FFT_(vec)
      c1r = (d1r + d1i) * h, c1i = (d1i - d1r) * h, c2r = d2i, c2i = -d2r, c3r = (d3i - d3r) * h,
      c3i = -(d3r + d3i) * h;
      FFT_(vec)
      e0r = b0r + b2r, e0i = b0i + b2i, e1r = b0r - b2r, e1i = b0i - b2i, e2r = b1r + b3r,
      e2i = b1i + b3i, e3r = b1r - b3r, e3i = b1i - b3i;
      PUT(0, e0r + e2r, e0i + e2i);
      PUT(4, e0r - e2r, e0i - e2i);
      PUT(2, e1r + e3i, e1i - e3r);
      PUT(6, e1r - e3i, e1i + e3r);
      e0r = c0r + c2r, e0i = c0i + c2i, e1r = c0r - c2r, e1i = c0i - c2i;
      e2r = c1r + c3r, e2i = c1i + c3i, e3r = c1r - c3r, e3i = c1i - c3i;
      PUT(1, e0r + e2r, e0i + e2i);
      PUT(5, e0r - e2r, e0i - e2i);
      PUT(3, e1r + e3i, e1i - e3r);
      PUT(7, e1r - e3i, e1i + e3r);
    }
  }
}

// The results k, k + 1, ... (some of them) and those that mirror them, of sums and differences of
// the r / 2 pairs of terms: each term that is loaded serves all of them.
FFT_TARGET static inline __attribute__((always_inline)) void FFT_(odd_results)(
    const int some, i64 k, i64 r, const FFT_T *roots, const FFT_(vec) pair[][4],
    const FFT_(vec) * a, FFT_(vec) (*to)[4]) {
  i64 at[FFT_MOST_RESULTS];
  for (int i = 0; i < some; i++) {
    at[i] = k + i;
    to[i][0] = a[0], to[i][1] = a[1];
    to[i][2] = to[i][3] = (FFT_(vec)){0};
  }
  for (i64 j = 0; j < r / 2; j++)
    for (int i = 0; i < some; i++) {
      const FFT_T c = roots[2 * at[i]], d = roots[2 * at[i] + 1];
      to[i][0] += pair[j][0] * c, to[i][1] += pair[j][1] * c;
      to[i][2] += pair[j][2] * d, to[i][3] += pair[j][3] * d;
      at[i] += k + i - (at[i] + k + i >= r ? r : 0);
    }
}

// r: an odd prime; roots: cosine and sine of 2 pi j / r.
FFT_TARGET static inline __attribute__((always_inline)) void FFT_(pass_odd)(
    const i64 r, i64 m, i64 s, const FFT_T *roots, const FFT_T *t, const FFT_(vec) * x,
    FFT_(vec) * y, const bool last) {
  enum { SOME = FFT_BYTES == 64 ? FFT_MOST_RESULTS : 2 };  // as many as there are registers for
  for (i64 q = 0; q < m; q++, t += 2 * (r - 1)) {
    const FFT_(vec) *a = x + 2 * s * q;
    FFT_(vec) *b = y + 2 * r * s * q;
    for (i64 z = 0; z < s; z++) {
      FFT_(vec)
      pair[FFT_MOST_PRIME / 2][4], sum[SOME][4], first[2] = {RE(0), IM(0)}, sr = first[0],
                                                 si = first[1];
      for (i64 j = 1; j <= r / 2; j++) {
        FFT_(vec) *w = pair[j - 1];
        w[0] = RE(j) + RE(r - j), w[1] = IM(j) + IM(r - j);
        w[2] = RE(j) - RE(r - j), w[3] = IM(j) - IM(r - j);
        sr += w[0], si += w[1];
      }
      PUT(0, sr, si);
      for (i64 k = 1, some; k <= r / 2; k += some) {
        i64 left = r / 2 + 1 - k;
        some = left >= SOME ? SOME : left >= 2 ? 2 : 1;
        if (some == SOME) FFT_(odd_results)(SOME, k, r, roots, pair, first, sum);
        else if (some == 2) FFT_(odd_results)(2, k, r, roots, pair, first, sum);
        else FFT_(odd_results)(1, k, r, roots, pair, first, sum);
        for (i64 i = 0; i < some; i++) {
          PUT(k + i, sum[i][0] + sum[i][3], sum[i][1] - sum[i][2]);
          PUT(r - k - i, sum[i][0] - sum[i][3], sum[i][1] + sum[i][2]);
        }
      }
    }
  }
}

// Transforms W lines of p->n positions in x, with y as large; where the result is: x or y.
FFT_TARGET static FFT_(vec) * FFT_(columns)(const fft_plan *p, FFT_(vec) * x, FFT_(vec) * y) {
  const FFT_T *t = p->table;
  i64 n = p->n, s = 1;
  for (u32 f = 0; f < p->npasses; f++) {
    i64 r = p->radix[f], m = n / r;
    const FFT_T *roots = t;
    if (r % 2) t += 2 * r;
    switch (r) {
    case 2:
      if (m == 1) FFT_(pass2)(m, s, t, x, y, true);
      else FFT_(pass2)(m, s, t, x, y, false);
      break;
    case 3: FFT_(pass_odd)(3, m, s, roots, t, x, y, false); break;
    case 4:
      if (m == 1) FFT_(pass4)(m, s, t, x, y, true);
      else FFT_(pass4)(m, s, t, x, y, false);
      break;
    case 5: FFT_(pass_odd)(5, m, s, roots, t, x, y, false); break;
    case 8:
      if (m == 1) FFT_(pass8)(m, s, t, x, y, true);
      else FFT_(pass8)(m, s, t, x, y, false);
      break;
    default: FFT_(pass_odd)(r, m, s, roots, t, x, y, false); break;
    }
    t += 2 * m * (r - 1);
    FFT_(vec) *other = x;
    x = y;
    y = other;
    n = m;
    s *= r;
  }
  return x;
}
#undef PUT
#undef RE
#undef IM

// ---- lines to lanes and back --------------------------------------------------------------------
// Complex numbers in memory are pairs; swap exchanges real and imaginary parts, which turns a
// transform into its inverse.

FFT_TARGET static inline __attribute__((always_inline)) void FFT_(split)(const FFT_T *from,
                                                                         FFT_(vec) * to,
                                                                         bool swap) {
  FFT_(vec) a = *(const FFT_(vec) *)from, b = *(const FFT_(vec) *)(from + W);
  to[swap] = __builtin_shufflevector(a, b, FFT_EVEN);
  to[!swap] = __builtin_shufflevector(a, b, FFT_ODD);
}
FFT_TARGET static inline __attribute__((always_inline)) void FFT_(join)(FFT_T *to,
                                                                        const FFT_(vec) * from,
                                                                        FFT_T scale, bool swap) {
  FFT_(vec) re = from[swap] * scale, im = from[!swap] * scale;
  *(FFT_(vec) *)to = __builtin_shufflevector(re, im, FFT_LOW);
  *(FFT_(vec) *)(to + W) = __builtin_shufflevector(re, im, FFT_HIGH);
}

typedef struct FFT_(pair) {
  FFT_T v[2];
} FFT_(pair);

// Exchanges lines and positions of P lines of P numbers, a vector each, in registers.
#define P (W / 2)
typedef u64 FFT_(units) __attribute__((vector_size(FFT_BYTES), aligned(sizeof(FFT_T)), may_alias));
#define FFT_STAGE(d, ...)                                             \
  _Pragma("GCC unroll 8") for (int i = 0; i < P; i++) if (!(i & (d))) \
      FFT_EXCHANGE(r[i], r[i + (d)], __VA_ARGS__);
FFT_TARGET static inline __attribute__((always_inline)) void FFT_(turn)(FFT_(units) * r) {
  FFT_STAGES(void) r;
}

// P positions of W lines with positions next to each other.
FFT_TARGET static inline __attribute__((always_inline)) void FFT_(load_square)(FFT_(vec) * x,
                                                                               const FFT_T *src,
                                                                               const i64 *at,
                                                                               bool swap) {
  FFT_(units) r[2][P];
  for (int h = 0; h < 2; h++) {
    _Pragma("GCC unroll 8") for (int i = 0; i < P; i++) r[h][i] =
        *(const FFT_(units) *)(const void *)(src + 2 * at[h * P + i]);
    FFT_(turn)(r[h]);
  }
  _Pragma("GCC unroll 8") for (int j = 0; j < P; j++) {
    FFT_(vec) a = (FFT_(vec))r[0][j], b = (FFT_(vec))r[1][j];
    x[2 * j + swap] = __builtin_shufflevector(a, b, FFT_EVEN);
    x[2 * j + !swap] = __builtin_shufflevector(a, b, FFT_ODD);
  }
}
FFT_TARGET static inline __attribute__((always_inline)) void FFT_(store_square)(
    FFT_T *dst, const FFT_(vec) * x, const i64 *at, FFT_T scale, bool swap) {
  FFT_(units) r[2][P];
  _Pragma("GCC unroll 8") for (int j = 0; j < P; j++) {
    FFT_(vec) re = x[2 * j + swap] * scale, im = x[2 * j + !swap] * scale;
    r[0][j] = (FFT_(units))__builtin_shufflevector(re, im, FFT_LOW);
    r[1][j] = (FFT_(units))__builtin_shufflevector(re, im, FFT_HIGH);
  }
  for (int h = 0; h < 2; h++) {
    FFT_(turn)(r[h]);
    _Pragma("GCC unroll 8") for (int i = 0; i < P; i++) *
        (FFT_(units) *)(void *)(dst + 2 * at[h * P + i]) = r[h][i];
  }
}

// n positions of `lanes` lines: where lines are neighbours in memory (l->near) positions are
// l->step apart; else each line has its own beginning.
FFT_TARGET static void FFT_(load)(FFT_(vec) * x, const void *src, const fft_lanes *l, i64 n,
                                  bool swap) {
  enum { SOME = 8 };
  if (l->near) {
    const FFT_T *p = (const FFT_T *)src + 2 * l->at[0];
    FFT_T some[2 * W] = {0};
    for (i64 k = 0; k < n; k++, p += 2 * l->step) {
      if (l->lanes < W) memcpy(some, p, sizeof(FFT_T) * 2 * (size_t)l->lanes);
      FFT_(split)(l->lanes < W ? some : p, x + 2 * k, swap);
    }
    return;
  }
  FFT_(pair) some[SOME][W] = {0};
  i64 k = 0;
  for (; l->lanes == W && l->step == 1 && k + P <= n; k += P)
    FFT_(load_square)(x + 2 * k, (const FFT_T *)src + 2 * k, l->at, swap);
  for (; k < n; k += SOME) {
    i64 m = HS_MIN(n - k, (i64)SOME);
    for (i64 i = 0; i < l->lanes; i++) {
      const FFT_(pair) *p = (const FFT_(pair) *)src + l->at[i] + k * l->step;
      for (i64 j = 0; j < m; j++) some[j][i] = p[j * l->step];
    }
    for (i64 j = 0; j < m; j++) FFT_(split)(some[j][0].v, x + 2 * (k + j), swap);
  }
}

FFT_TARGET static void FFT_(store)(void *dst, const FFT_(vec) * x, const fft_lanes *l, i64 n,
                                   FFT_T scale, bool swap) {
  enum { SOME = 8 };
  if (l->near) {
    FFT_T *p = (FFT_T *)dst + 2 * l->at[0], some[2 * W];
    for (i64 k = 0; k < n; k++, p += 2 * l->step) {
      FFT_(join)(l->lanes < W ? some : p, x + 2 * k, scale, swap);
      if (l->lanes < W) memcpy(p, some, sizeof(FFT_T) * 2 * (size_t)l->lanes);
    }
    return;
  }
  FFT_(pair) some[SOME][W];
  i64 k = 0;
  for (; l->lanes == W && l->step == 1 && k + P <= n; k += P)
    FFT_(store_square)((FFT_T *)dst + 2 * k, x + 2 * k, l->at, scale, swap);
  for (; k < n; k += SOME) {
    i64 m = HS_MIN(n - k, (i64)SOME);
    for (i64 j = 0; j < m; j++) FFT_(join)(some[j][0].v, x + 2 * (k + j), scale, swap);
    for (i64 i = 0; i < l->lanes; i++) {
      FFT_(pair) *p = (FFT_(pair) *)dst + l->at[i] + k * l->step;
      for (i64 j = 0; j < m; j++) p[j * l->step] = some[j][i];
    }
  }
}

// ---- real lines through complex ones of half the length -----------------------------------------

// The n / 2 + 1 results of real lines from the n / 2 of the same numbers taken as pairs.
FFT_TARGET static void FFT_(from_half)(const fft_plan *p, const FFT_(vec) * z, FFT_(vec) * x) {
  const FFT_T *w = p->turns;
  for (i64 k = 0, h = p->n; k <= h; k++) {
    const FFT_(vec) *a = z + 2 * (k == h ? 0 : k), *b = z + 2 * (k == 0 ? 0 : h - k);
    FFT_(vec)
    er = (a[0] + b[0]) * (FFT_T)0.5, ei = (a[1] - b[1]) * (FFT_T)0.5,
    or_ = (a[1] + b[1]) * (FFT_T)0.5, oi = (b[0] - a[0]) * (FFT_T)0.5;
    x[2 * k] = er + or_ * w[2 * k] - oi * w[2 * k + 1];
    x[2 * k + 1] = ei + or_ * w[2 * k + 1] + oi * w[2 * k];
  }
}

// The way back; the imaginary parts of the first and the last do not count. With real and imaginary
// parts exchanged, as an inverse transform wants them.
FFT_TARGET static void FFT_(to_half)(const fft_plan *p, const FFT_(vec) * x, FFT_(vec) * z) {
  const FFT_T *w = p->turns;
  for (i64 k = 0, h = p->n; k < h; k++) {
    const FFT_(vec) *a = x + 2 * k, *b = x + 2 * (h - k);
    FFT_(vec) none = {0}, ai = k ? a[1] : none, bi = k ? b[1] : none;
    FFT_(vec)
    er = (a[0] + b[0]) * (FFT_T)0.5, ei = (ai - bi) * (FFT_T)0.5, dr = (a[0] - b[0]) * (FFT_T)0.5,
    di = (ai + bi) * (FFT_T)0.5;
    FFT_(vec) or_ = dr * w[2 * k] + di * w[2 * k + 1], oi = di * w[2 * k] - dr * w[2 * k + 1];
    z[2 * k + 1] = er - oi;
    z[2 * k] = ei + or_;
  }
}

// ---- whole lines --------------------------------------------------------------------------------

// Transforms W lines of g->plan.n positions in x through a convolution with the chirp, with y as
// large as g->m; where the result is: x or y. The second transform is an inverse one, which is one
// with real and imaginary parts exchanged.
FFT_TARGET static FFT_(vec) * FFT_(chirp)(const fft_stage *g, FFT_(vec) * x, FFT_(vec) * y) {
  const FFT_T *c = g->chirp, *h = g->filter;
  const i64 n = g->plan.n, m = g->m;
  for (i64 k = 0; k < n; k++) {
    FFT_(vec) re = x[2 * k], im = x[2 * k + 1];
    x[2 * k] = re * c[2 * k] - im * c[2 * k + 1];
    x[2 * k + 1] = re * c[2 * k + 1] + im * c[2 * k];
  }
  for (i64 k = 2 * n; k < 2 * m; k++) x[k] = (FFT_(vec)){0};
  FFT_(vec) *r = FFT_(columns)(&g->whole, x, y);
  for (i64 k = 0; k < m; k++) {
    FFT_(vec) re = r[2 * k], im = r[2 * k + 1];
    r[2 * k + 1] = re * h[2 * k] - im * h[2 * k + 1];
    r[2 * k] = re * h[2 * k + 1] + im * h[2 * k];
  }
  r = FFT_(columns)(&g->whole, r, r == x ? y : x);
  for (i64 k = 0; k < n; k++) {
    FFT_(vec) re = r[2 * k + 1], im = r[2 * k];
    r[2 * k] = re * c[2 * k] - im * c[2 * k + 1];
    r[2 * k + 1] = re * c[2 * k + 1] + im * c[2 * k];
  }
  return r;
}

// W lines or fewer, each as a whole, in memory of 4 (n + 1) vectors, n that of their transforms.
FFT_TARGET static void FFT_(lines)(const fft_stage *g, const void *src, void *dst,
                                   const fft_lanes *from, const fft_lanes *to, void *memory) {
  const fft_plan *p = &g->plan;
  const bool inverse = g->inverse;
  const i64 n = p->n;
  const bool chirp = g->way == FFT_CHIRP_LINES;
  FFT_(vec) *x = memory, *y = x + 2 * ((chirp ? g->m : n) + 1);
  switch (g->kind) {
  case FFT_COMPLEX: FFT_(load)(x, src, from, n, inverse); break;
  case FFT_TO_HALF:
    FFT_(load)(y, src, from, n + 1, false);
    FFT_(to_half)(p, y, x);
    break;
  case FFT_FROM_HALF: FFT_(load)(x, src, from, n, false); break;
  case FFT_FROM_REAL:
    for (i64 k = 0; k < n; k++) {
      FFT_T v[W] = {0};
      for (i64 i = 0; i < from->lanes; i++)
        v[i] = ((const FFT_T *)src)[from->at[i] + k * from->step];
      memcpy(&x[2 * k], v, sizeof v);
      x[2 * k + 1] = (FFT_(vec)){0};
    }
    break;
  case FFT_TO_REAL:
    FFT_(load)(x, src, from, n / 2 + 1, true);
    x[0] = (FFT_(vec)){0};
    for (i64 k = n / 2 + 1; k < n; k++) {
      x[2 * k] = -x[2 * (n - k)];
      x[2 * k + 1] = x[2 * (n - k) + 1];
    }
    break;
  }
  FFT_(vec) *r = chirp ? FFT_(chirp)(g, x, y) : FFT_(columns)(p, x, y);
  const FFT_T scale = (FFT_T)g->scale;
  switch (g->kind) {
  case FFT_COMPLEX: FFT_(store)(dst, r, to, n, scale, inverse); break;
  case FFT_TO_HALF: FFT_(store)(dst, r, to, n, scale, true); break;
  case FFT_FROM_HALF: {
    FFT_(vec) *other = r == x ? y : x;
    FFT_(from_half)(p, r, other);
    FFT_(store)(dst, other, to, n + 1, scale, false);
    break;
  }
  case FFT_FROM_REAL: FFT_(store)(dst, r, to, n / 2 + 1, scale, false); break;
  case FFT_TO_REAL:
    for (i64 k = 0; k < n; k++)
      for (i64 i = 0; i < to->lanes; i++)
        ((FFT_T *)dst)[to->at[i] + k * to->step] = r[2 * k + 1][i] * scale;
    break;
  }
}

// A long line as a matrix of n1 rows and n2 columns: first its columns, W at a time, each result
// turned by its twiddle factor; then its rows, whose results are the columns of the result.
FFT_TARGET static void FFT_(first)(const fft_split *s, const void *src, void *between, i64 group,
                                   bool swap, void *memory) {
  i64 n1 = s->plan[0].n, n2 = s->plan[1].n;
  fft_lanes l = {.near = true, .lanes = HS_MIN(n2 - group * W, (i64)W), .step = n2};
  l.at[0] = group * W;
  FFT_(vec) *x = memory, *y = x + 2 * n1;
  FFT_(load)(x, src, &l, n1, swap);
  FFT_(vec) *r = FFT_(columns)(&s->plan[0], x, y);
  const FFT_(vec) *t = (const FFT_(vec) *)s->turns + 2 * group * n1;
  for (i64 k = 0; k < n1; k++) {
    FFT_(vec) re = r[2 * k], im = r[2 * k + 1];
    r[2 * k] = re * t[2 * k] - im * t[2 * k + 1];
    r[2 * k + 1] = re * t[2 * k + 1] + im * t[2 * k];
  }
  FFT_(store)(between, r, &l, n1, 1, false);
}

FFT_TARGET static void FFT_(second)(const fft_split *s, const void *between, void *dst, i64 group,
                                    double scale, bool swap, void *memory) {
  i64 n1 = s->plan[0].n, n2 = s->plan[1].n;
  fft_lanes l = {.lanes = HS_MIN(n1 - group * W, (i64)W), .step = 1};
  for (i64 i = 0; i < l.lanes; i++) l.at[i] = (group * W + i) * n2;
  FFT_(vec) *x = memory, *y = x + 2 * n2;
  FFT_(load)(x, between, &l, n2, false);
  FFT_(vec) *r = FFT_(columns)(&s->plan[1], x, y);
  l = (fft_lanes){.near = true, .lanes = l.lanes, .step = n1};
  l.at[0] = group * W;
  FFT_(store)(dst, r, &l, n2, (FFT_T)scale, swap);
}

// One line as g->plan.n complex numbers one after the other, and back.
FFT_TARGET static void FFT_(gather)(const fft_stage *g, const void *src, i64 at, void *line) {
  const FFT_(pair) *c = (const FFT_(pair) *)src + at;
  FFT_(pair) *z = line;
  const FFT_T *r = (const FFT_T *)src + at, *w = g->plan.turns;
  const i64 n = g->plan.n, step = g->inner;
  switch (g->kind) {
  case FFT_COMPLEX:
  case FFT_FROM_HALF:
    for (i64 k = 0; k < n; k++)
      z[k] = g->inverse ? (FFT_(pair)){{c[k * step].v[1], c[k * step].v[0]}} : c[k * step];
    break;
  case FFT_TO_HALF:
    for (i64 k = 0; k < n; k++) {
      FFT_(pair) a = c[k], b = c[n - k];
      if (k == 0) a.v[1] = b.v[1] = 0;
      FFT_T er = (a.v[0] + b.v[0]) / 2, ei = (a.v[1] - b.v[1]) / 2, dr = (a.v[0] - b.v[0]) / 2,
            di = (a.v[1] + b.v[1]) / 2;
      z[k].v[1] = er - (di * w[2 * k] - dr * w[2 * k + 1]);
      z[k].v[0] = ei + (dr * w[2 * k] + di * w[2 * k + 1]);
    }
    break;
  case FFT_FROM_REAL:
    for (i64 k = 0; k < n; k++) z[k] = (FFT_(pair)){{r[k], 0}};
    break;
  case FFT_TO_REAL:
    z[0] = (FFT_(pair)){{0, c[0].v[0]}};
    for (i64 k = 1; k <= n / 2; k++) {
      z[k] = (FFT_(pair)){{c[k].v[1], c[k].v[0]}};
      z[n - k] = (FFT_(pair)){{-c[k].v[1], c[k].v[0]}};
    }
    break;
  }
}

FFT_TARGET static void FFT_(scatter)(const fft_stage *g, const void *line, void *dst, i64 at) {
  const FFT_(pair) *z = line;
  FFT_(pair) *c = (FFT_(pair) *)dst + at;
  FFT_T *r = (FFT_T *)dst + at;
  const FFT_T *w = g->plan.turns, scale = (FFT_T)g->scale;
  const i64 n = g->plan.n, step = g->inner;
  const bool swap = g->inverse || g->kind == FFT_TO_HALF;
  switch (g->kind) {
  case FFT_COMPLEX:
  case FFT_TO_HALF:
    for (i64 k = 0; k < n; k++)
      c[k * step] = (FFT_(pair)){{z[k].v[swap] * scale, z[k].v[!swap] * scale}};
    break;
  case FFT_FROM_HALF:
    for (i64 k = 0; k <= n; k++) {
      FFT_(pair) a = z[k == n ? 0 : k], b = z[k == 0 ? 0 : n - k];
      FFT_T er = (a.v[0] + b.v[0]) / 2, ei = (a.v[1] - b.v[1]) / 2, or_ = (a.v[1] + b.v[1]) / 2,
            oi = (b.v[0] - a.v[0]) / 2;
      c[k].v[0] = er + or_ * w[2 * k] - oi * w[2 * k + 1];
      c[k].v[1] = ei + or_ * w[2 * k + 1] + oi * w[2 * k];
    }
    break;
  case FFT_FROM_REAL: memcpy(c, z, sizeof *c * (size_t)(n / 2 + 1)); break;
  case FFT_TO_REAL:
    for (i64 k = 0; k < n; k++) r[k] = z[k].v[1] * scale;
    break;
  }
}

// to[k] = a[k] times b[k], complex.
FFT_TARGET static void FFT_(times)(void *to, const void *a, const void *b, i64 n) {
  FFT_(pair) *t = to;
  const FFT_(pair) *x = a, *y = b;
  for (i64 k = 0; k < n; k++) {
    FFT_T re = x[k].v[0] * y[k].v[0] - x[k].v[1] * y[k].v[1];
    t[k].v[1] = x[k].v[0] * y[k].v[1] + x[k].v[1] * y[k].v[0];
    t[k].v[0] = re;
  }
}

static const fft_kernels FFT_(kernels) = {
    W, FFT_(lines), FFT_(first), FFT_(second), FFT_(gather), FFT_(scatter), FFT_(times)};

#undef W
#undef FFT_T
#undef FFT_BYTES
#undef FFT_TARGET
#undef FFT_
#undef FFT_EVEN
#undef FFT_ODD
#undef FFT_LOW
#undef FFT_HIGH
#undef FFT_STAGES
#undef FFT_STAGE
#undef P
#endif
