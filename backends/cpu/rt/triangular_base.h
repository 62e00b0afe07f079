// triangular_base.h — the smallest parts of triangular.c, for one element type. It is included
// once for each:
//
//   TRI_T, TRI_R          the type, and that of its real part
//   TRI_(name)            the name with a suffix
//   TRI_SUM, TRI_SUM_SQRT of real types: a wider type, in which sums of squares stay finite
//   TRI_TIMES(a, b), TRI_CONJ(a), TRI_REAL(a), TRI_ABS(a), TRI_SQRT(x of TRI_R)
//
// Blocks are copied to dense ones first, whose loops the compiler turns into vectors. Without these
// it is empty.
#ifdef TRI_T

static inline TRI_T *TRI_(at)(tri_matrix a, i64 i, i64 j) {
  return (TRI_T *)(void *)a.p + (i * a.r + j * a.c);
}

// Cholesky of n <= BASE rows, column after column: each takes its products off the columns behind
// it, so that nothing is added up across a vector. u: the columns, each a row here, of whole
// vectors; what is left of the diagonal means nothing.
TRI_CLONES static i64 TRI_(factor)(tri_matrix a, i64 n) {
  enum { LANES = NARROW / sizeof(TRI_T) };
  _Alignas(NARROW) TRI_T u[BASE * BASE];
  const i64 width = (n + LANES - 1) / LANES * LANES;
  for (i64 k = 0; k < n; k++) {
    memset(u + k * BASE, 0, (size_t)width * sizeof *u);
    const TRI_T *from = TRI_(at)(a, 0, k);
    for (i64 i = k; i < n; i++) u[k * BASE + i] = from[i * a.r];
  }
  i64 k = 0;
  for (; k < n; k++) {
    TRI_T *first = u + k * BASE;
    TRI_R d = TRI_REAL(first[k]);
    if (!(d > 0)) break;
    d = TRI_SQRT(d);
    for (i64 i = k / LANES * LANES; i < n; i += LANES)
      TRI_VECTOR for (i64 e = 0; e < LANES; e++) first[i + e] /= d;
    first[k] = d;
    for (i64 j = k + 1; j < n; j++) {
      TRI_T f = TRI_CONJ(first[j]), *row = u + j * BASE;
      for (i64 i = j / LANES * LANES; i < n; i += LANES)
        TRI_VECTOR for (i64 e = 0; e < LANES; e++) row[i + e] -= TRI_TIMES(f, first[i + e]);
    }
  }
  for (i64 c = 0; c < n; c++)
    for (i64 i = c; i < n; i++) *TRI_(at)(a, i, c) = u[c * BASE + i];
  return k < n ? k + 1 : 0;
}

// LU factors with pivots of a few columns: each is taken off those behind it. u: the columns, each
// a row here, of whole vectors. l, behind them: the part of one below the diagonal, zeros above it.
TRI_CLONES static i64 TRI_(lu)(tri_matrix a, i64 m, i64 n, i32 *pivots, void *memory) {
  enum { LANES = NARROW / sizeof(TRI_T) };
  const i64 width = (m + LANES - 1) / LANES * LANES, step = column_step(m, sizeof(TRI_T));
  TRI_T *u = memory, *l = u + n * step;
  for (i64 j = 0; j < n; j++) {
    const TRI_T *from = TRI_(at)(a, 0, j);
    TRI_T *to = u + j * step;
    if (a.r == 1) memcpy(to, from, (size_t)m * sizeof *to);
    else
      for (i64 i = 0; i < m; i++) to[i] = from[i * a.r];
    memset(to + m, 0, (size_t)(width - m) * sizeof *to);
  }
  i64 bad = 0;
  for (i64 k = 0; k < m && k < n; k++) {
    TRI_T *column = u + k * step;
    i64 p = k, from = (k + 1) / LANES * LANES;
    TRI_R most = TRI_ABS(column[k]);
    for (i64 i = k + 1; i < m; i++) {
      TRI_R v = TRI_ABS(column[i]);
      if (v > most) most = v, p = i;
    }
    pivots[k] = (i32)p + 1;
    for (i64 j = 0; j < n && p != k; j++) {
      TRI_T v = u[j * step + k];
      u[j * step + k] = u[j * step + p];
      u[j * step + p] = v;
    }
    TRI_T d = column[k];
    if (d == 0 && !bad) bad = k + 1;
    for (i64 i = from; i < width; i += LANES)
      TRI_VECTOR for (i64 e = 0; e < LANES; e++) l[i + e] = column[i + e] / (d == 0 ? 1 : d);
    for (i64 i = from; i <= k; i++) l[i] = 0;
    for (i64 i = k + 1; i < m; i++) column[i] = l[i];
    for (i64 j = k + 1; j < n; j++) {
      TRI_T *row = u + j * step, f = row[k];
      if (TRI_TIMES(f, (TRI_T)0) == 0)
        for (i64 i = from; i < width; i += LANES)
          TRI_VECTOR for (i64 e = 0; e < LANES; e++) row[i + e] -= TRI_TIMES(f, l[i + e]);
      else  // infinite, or NaN: nothing times that is 0
        for (i64 i = k + 1; i < m; i++) row[i] -= TRI_TIMES(f, l[i]);
    }
  }
  for (i64 j = 0; j < n; j++) {
    TRI_T *to = TRI_(at)(a, 0, j);
    const TRI_T *from = u + j * step;
    if (a.r == 1) memcpy(to, from, (size_t)m * sizeof *to);
    else
      for (i64 i = 0; i < m; i++) to[i * a.r] = from[i];
  }
  return bad;
}

// Row k of these columns is exchanged for row pivots[k] - 1, for each k: at once for a column that
// lies as one.
static void TRI_(exchange)(tri_matrix a, i64 columns, i64 n, const i32 *pivots) {
  if (a.r == 1)
    for (i64 j = 0; j < columns; j++) {
      TRI_T *x = TRI_(at)(a, 0, j);
      for (i64 k = 0; k < n; k++) {
        TRI_T v = x[k];
        x[k] = x[pivots[k] - 1];
        x[pivots[k] - 1] = v;
      }
    }
  else
    for (i64 k = 0; k < n; k++) {
      TRI_T *x = TRI_(at)(a, k, 0), *y = TRI_(at)(a, pivots[k] - 1, 0);
      for (i64 j = 0; j < columns && x != y; j++) {
        TRI_T v = x[j * a.c];
        x[j * a.c] = y[j * a.c];
        y[j * a.c] = v;
      }
    }
}

#ifdef TRI_SUM
// Columns of reflectors and of what they are applied to, of whole vectors, and one reflector, v,
// with zeros around it.
typedef struct TRI_(columns) {
  TRI_T *at, *v;
  i64 step, width;
} TRI_(columns);

static TRI_(columns) TRI_(take_columns)(tri_matrix a, i64 m, i64 n, void *space) {
  enum { LANES = NARROW / sizeof(TRI_T) };
  const i64 step = column_step(m, sizeof(TRI_T)), width = (m + LANES - 1) / LANES * LANES;
  TRI_(columns) u = {space, (TRI_T *)space + n * step, step, width};
  cpu_relayout(u.at, (i64[]){step, 1}, a.p, (i64[]){a.c, a.r}, 2, (i64[]){n, m}, sizeof(TRI_T));
  for (i64 j = 0; j < n; j++)
    for (i64 i = m; i < width; i++) u.at[j * step + i] = 0;
  for (i64 i = m; i < width; i++) u.v[i] = 0;
  return u;
}
static void TRI_(put_columns)(const TRI_(columns) * u, tri_matrix a, i64 m, i64 n) {
  cpu_relayout(a.p, (i64[]){a.c, a.r}, u->at, (i64[]){u->step, 1}, 2, (i64[]){n, m}, sizeof(TRI_T));
}

// `some` columns from j on become those of I - tau v v^T times them. The zeros before and behind v
// take nothing off, unless what they are multiplied by is not finite.
static inline __attribute__((always_inline)) void TRI_(reflect_some)(const TRI_(columns) * u,
                                                                     TRI_T tau, i64 k, i64 m, i64 j,
                                                                     const int some) {
  enum { LANES = NARROW / sizeof(TRI_T), MOST = 4 };
  const i64 from = k / LANES * LANES, step = u->step;
  const TRI_T *v = u->v;
  TRI_T sums[MOST][LANES] = {{0}}, *x = u->at + j * step, w[MOST];
  for (i64 i = from; i < u->width; i += LANES)
    for (int c = 0; c < some; c++)
      TRI_VECTOR for (i64 e = 0; e < LANES; e++) sums[c][e] += v[i + e] * x[c * step + i + e];
  bool finite = true;
  for (int c = 0; c < some; c++) {
    TRI_T *sum = sums[c];
    TRI_VECTOR for (i64 e = 0; e < 8 && LANES > 8; e++) sum[e] += sum[(e + 8) % LANES];
    TRI_VECTOR for (i64 e = 0; e < 4; e++) sum[e] += sum[e + 4];
    TRI_VECTOR for (i64 e = 0; e < 2; e++) sum[e] += sum[e + 2];
    sum[0] += sum[1];
    w[c] = sums[c][0] * tau;
    finite &= w[c] - w[c] == 0;
  }
  for (i64 i = from; i < u->width && finite; i += LANES)
    for (int c = 0; c < some; c++)
      TRI_VECTOR for (i64 e = 0; e < LANES; e++) x[c * step + i + e] -= w[c] * v[i + e];
  for (i64 i = k; i < m && !finite; i++)
    for (int c = 0; c < some; c++) x[c * step + i] -= w[c] * v[i];
}

// Those behind k.
static inline __attribute__((always_inline)) void TRI_(reflect)(const TRI_(columns) * u, TRI_T tau,
                                                                i64 k, i64 m, i64 n) {
  i64 j = k + 1;
  for (; j + 4 <= n; j += 4) TRI_(reflect_some)(u, tau, k, m, j, 4);
  for (; j < n; j++) TRI_(reflect_some)(u, tau, k, m, j, 1);
}

// In double, and again in a wider type where that may have lost some.
static inline __attribute__((always_inline)) TRI_SUM TRI_(squares)(const TRI_T *v, i64 n) {
  enum { SUMS = 16 };
  double sums[SUMS] = {0}, all = 0;
  i64 i = 0;
  for (; i + SUMS <= n; i += SUMS)
    TRI_VECTOR for (i64 e = 0; e < SUMS; e++) sums[e] += (double)v[i + e] * v[i + e];
  for (; i < n; i++) sums[0] += (double)v[i] * v[i];
  for (i64 e = 0; e < SUMS; e++) all += sums[e];
  if (sizeof(TRI_T) < sizeof(double) || (all > 1e-250 && all < 1e250)) return all;
  TRI_SUM wide = 0;
  for (i = 0; i < n; i++) wide += (TRI_SUM)v[i] * v[i];
  return wide;
}

// Householder's reflectors, column after column.
TRI_CLONES static void TRI_(qr)(tri_matrix a, i64 m, i64 n, void *taus, void *space) {
  TRI_(columns) u = TRI_(take_columns)(a, m, n, space);
  TRI_T *tau = taus, *v = u.v;
  for (i64 k = 0; k < m && k < n; k++) {
    TRI_T *x = u.at + k * u.step;
    TRI_SUM first = x[k], below = TRI_(squares)(x + k + 1, m - k - 1);
    tau[k] = 0;
    if (k) v[k - 1] = 0;
    if (below == 0) continue;
    TRI_SUM norm = TRI_SUM_SQRT(first * first + below), d = first < 0 ? norm : -norm;
    TRI_T scale = (TRI_T)(first - d);
    tau[k] = (TRI_T)((d - first) / d);
    v[k] = 1;
    for (i64 i = k + 1; i < m; i++) x[i] = v[i] = x[i] / scale;
    x[k] = (TRI_T)d;
    TRI_(reflect)(&u, tau[k], k, m, n);
  }
  TRI_(put_columns)(&u, a, m, n);
}

// The last reflector first: what it is applied to is the unit matrix above it.
TRI_CLONES static void TRI_(product)(tri_matrix q, i64 m, i64 n, i64 k, const void *taus,
                                     void *space) {
  TRI_(columns) u = TRI_(take_columns)(q, m, n, space);
  const TRI_T *tau = taus;
  for (i64 i = 0; i < k; i++) u.v[i] = 0;
  for (i64 j = k; j < n; j++)
    for (i64 i = 0; i < m; i++) u.at[j * u.step + i] = i == j;
  for (i64 c = k; c-- > 0;) {
    TRI_T *x = u.at + c * u.step;
    u.v[c] = 1;
    for (i64 i = c + 1; i < m; i++) u.v[i] = x[i];
    TRI_(reflect)(&u, tau[c], c, m, n);
    for (i64 i = 0; i < c; i++) x[i] = 0;
    x[c] = 1 - tau[c];
    for (i64 i = c + 1; i < m; i++) x[i] = -tau[c] * u.v[i];
  }
  TRI_(put_columns)(&u, q, m, n);
}

// The reflectors of n columns of a, column by column, with the ones and zeros that are not stored.
static void TRI_(spell)(tri_matrix a, i64 m, i64 n, void *to) {
  cpu_relayout(to, (i64[]){m, 1}, a.p, (i64[]){a.c, a.r}, 2, (i64[]){n, m}, sizeof(TRI_T));
  for (i64 j = 0; j < n; j++)
    for (i64 i = 0; i <= j && i < m; i++) ((TRI_T *)to)[j * m + i] = i == j;
}

// -T, where I - V T V^T is the product of n reflectors; g: V^T V. T is upper triangular (Schreiber
// and Van Loan, A storage-efficient WY representation for products of Householder transformations,
// 1989).
static void TRI_(join)(const void *gram, i64 n, const void *taus, void *to) {
  const TRI_T *g = gram, *tau = taus;
  TRI_T *t = to;
  memset(t, 0, (size_t)(n * n) * sizeof *t);
  for (i64 k = 0; k < n; k++) {
    for (i64 i = 0; i < k; i++) {
      TRI_T sum = 0;
      for (i64 j = i; j < k; j++) sum += t[i * n + j] * g[j * n + k];
      t[i * n + k] = -tau[k] * sum;
    }
    t[k * n + k] = -tau[k];
  }
}

// Zeros above row `top` of the columns, and a one more on the diagonal that begins there.
static void TRI_(finish)(tri_matrix q, i64 top, i64 from, i64 to) {
  for (i64 c = from; c < to; c++) {
    for (i64 i = 0; i < top; i++) *TRI_(at)(q, i, c) = 0;
    *TRI_(at)(q, top + (c - from), c) += 1;
  }
}

static const qr_base TRI_(qr_base) = {TRI_(qr), TRI_(product), TRI_(spell), TRI_(join),
                                      TRI_(finish)};
#endif

// The rows of l that are read, densely, its conjugate where that is meant.
static void TRI_(pack)(const tri *l, i64 n, void *to) {
  TRI_T *d = to;
  for (i64 i = 0; i < n; i++)
    for (i64 j = l->lower ? 0 : i; j <= (l->lower ? i : n - 1); j++) {
      TRI_T v = *TRI_(at)(l->m, i, j);
      d[i * BASE + j] = l->conj ? TRI_CONJ(v) : v;
    }
}

// Columns `from` to `to` of x, some at a time, turned in registers where they lie as columns. l: as
// pack left it.
TRI_CLONES static void TRI_(solve)(const tri *t, const void *packed, i64 n, tri_matrix x, i64 from,
                                   i64 to) {
  enum { LANES = WIDE / sizeof(TRI_T) };
  const size_t size = sizeof(TRI_T);
  const TRI_T *l = packed;
  TRI_T y[BASE][LANES];
  for (i64 c = from; c < to; c += LANES) {
    i64 m = HS_MIN(to - c, (i64)LANES);
    bool turn = x.r == 1 && m == LANES && size <= 8;
    char *place = (char *)TRI_(at)(x, 0, c);
    if (turn) cpu_turn((char *)y, LANES, place, x.c * (i64)size, m, n, size);
    else
      for (i64 i = 0; i < n; i++)
        for (i64 j = 0; j < LANES; j++) y[i][j] = j < m ? *TRI_(at)(x, i, c + j) : 0;
    for (i64 s = 0; s < n; s++) {
      i64 i = t->lower ? s : n - 1 - s, end = t->lower ? i : n;
      TRI_T row[LANES];
      memcpy(row, y[i], sizeof row);
      for (i64 q = t->lower ? 0 : i + 1; q < end; q++) {
        TRI_T f = l[i * BASE + q];
        for (i64 j = 0; j < LANES; j++) row[j] -= TRI_TIMES(f, y[q][j]);
      }
      for (i64 j = 0; j < LANES && !t->unit; j++) row[j] /= l[i * BASE + i];
      memcpy(y[i], row, sizeof row);
    }
    if (turn) cpu_turn(place, x.c, (const char *)y, sizeof y[0], n, m, size);
    else
      for (i64 i = 0; i < n; i++)
        for (i64 j = 0; j < m; j++) *TRI_(at)(x, i, c + j) = y[i][j];
  }
}

// So few columns that they are one vector: each row, when it is solved, is taken off those that
// follow, and l is read where it lies, once.
TRI_CLONES static void TRI_(few)(const tri *t, i64 n, tri_matrix x, i64 columns) {
  enum { LANES = NARROW / sizeof(TRI_T) };
  TRI_T y[BASE][LANES];
  for (i64 i = 0; i < n; i++)
    for (i64 j = 0; j < LANES; j++) y[i][j] = j < columns ? *TRI_(at)(x, i, j) : 0;
  for (i64 s = 0; s < n; s++) {
    i64 i = t->lower ? s : n - 1 - s, end = t->lower ? n : i;
    TRI_T d = *TRI_(at)(t->m, i, i), row[LANES];
    if (t->conj) d = TRI_CONJ(d);
    if (t->unit) d = 1;
    TRI_VECTOR for (i64 j = 0; j < LANES; j++) row[j] = y[i][j] / d;
    memcpy(y[i], row, sizeof row);
    for (i64 q = t->lower ? i + 1 : 0; q < end; q++) {
      TRI_T f = *TRI_(at)(t->m, q, i);
      if (t->conj) f = TRI_CONJ(f);
      TRI_VECTOR for (i64 j = 0; j < LANES; j++) y[q][j] -= TRI_TIMES(f, row[j]);
    }
  }
  for (i64 i = 0; i < n; i++)
    for (i64 j = 0; j < columns; j++) *TRI_(at)(x, i, j) = y[i][j];
}

// One column, v of n elements, dense: by rows of l where these are, else by its columns.
TRI_CLONES static void TRI_(thin)(const tri *t, i64 n, void *v) {
  enum { LANES = 64 / sizeof(TRI_T) };
  TRI_T *x = v;
  bool by_rows = t->m.c == 1;
  for (i64 s = 0; s < n; s++) {
    i64 i = t->lower ? s : n - 1 - s, from = t->lower == by_rows ? 0 : i + 1,
        end = t->lower == by_rows ? i : n;
    const TRI_T *line = by_rows ? TRI_(at)(t->m, i, 0) : TRI_(at)(t->m, 0, i);
    TRI_T d = *TRI_(at)(t->m, i, i), sums[LANES] = {0};
    if (by_rows) {
      i64 q = from;
      for (; q + LANES <= end; q += LANES)
        for (i64 j = 0; j < LANES; j++) {
          TRI_T f = line[q + j];
          sums[j] += TRI_TIMES(t->conj ? TRI_CONJ(f) : f, x[q + j]);
        }
      for (; q < end; q++) sums[0] += TRI_TIMES(t->conj ? TRI_CONJ(line[q]) : line[q], x[q]);
      for (i64 j = 0; j < LANES; j++) x[i] -= sums[j];
    }
    if (!t->unit) x[i] /= t->conj ? TRI_CONJ(d) : d;
    if (by_rows) continue;
    for (i64 q = from; q < end; q++) x[q] -= TRI_TIMES(t->conj ? TRI_CONJ(line[q]) : line[q], x[i]);
  }
}

// -conj(a) with `turn`, or -a, of m by n elements, in the order of a's strides.
static void TRI_(negate)(tri_matrix to, tri_matrix a, i64 m, i64 n, bool turn) {
  bool by_rows = a.c == 1;
  for (i64 i = 0; i < (by_rows ? m : n); i++) {
    const TRI_T *from = by_rows ? TRI_(at)(a, i, 0) : TRI_(at)(a, 0, i);
    TRI_T *out = by_rows ? TRI_(at)(to, i, 0) : TRI_(at)(to, 0, i);
    for (i64 j = 0; j < (by_rows ? n : m); j++) out[j] = -(turn ? TRI_CONJ(from[j]) : from[j]);
  }
}

// Adds the lower triangle of the n by n matrix t, dense rows of BASE.
static void TRI_(add_lower)(tri_matrix a, const void *t, i64 n) {
  for (i64 i = 0; i < n; i++)
    for (i64 j = 0; j <= i; j++) *TRI_(at)(a, i, j) += ((const TRI_T *)t)[i * BASE + j];
}

static const tri_base TRI_(base) = {TRI_(factor), TRI_(lu),     TRI_(exchange),
                                    TRI_(pack),   TRI_(solve),  TRI_(few),
                                    TRI_(thin),   TRI_(negate), TRI_(add_lower)};
#endif
