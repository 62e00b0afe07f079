// triangular.c — Cholesky and LU factors and triangular systems, by halves, and QR factors, by
// panels: see triangular.h.
//
// A matrix is halved until BASE rows are left (Gustavson, Recursion leads to automatic variable
// blocking for dense linear-algebra algorithms, 1997). All but those smallest blocks are products
// of matrices, which are our own (dot_tiles.c) and use all threads:
//
//   a = (a11    )   L11 = factor(a11), L21 = a21 / L11^H, L22 = factor(a22 - L21 L21^H)
//       (a21 a22)
//
// and a lower system solves for its first half, takes what follows from that off the second, and
// solves for it; an upper one begins with the second. Products are added in place, so what is to be
// taken off is negated in a copy first, which conjugates too. Everything else is a matter of
// strides: the upper factor is the lower one of the transposed matrix, X A = B is A^T X^T = B^T.
//
// LU goes by halves of the columns (Toledo, Locality of reference in LU decomposition with partial
// pivoting, 1997): a column of what is left has to be searched for its pivot before the next one.
//
// A system with a few columns is no product: its matrix is read once, at memory speed.
//
// The same shape gives the same operations in the same order, on any number of threads.
#include "backends/cpu/rt/triangular.h"

#include <math.h>

#include "backends/cpu/rt/cx.h"
#include "backends/cpu/rt/dot.h"

enum {
  BASE = CPU_TRI_BASE,
  WIDE = 256,   // bytes of a row that a base block solves for at a time: chains enough to keep busy
  NARROW = 64,  // and of one with few columns: a vector
  THIN = 4,     // columns of a system that is no product
  CHUNK = 64,   // columns that a thread solves for
  PANEL = 16,   // columns of LU that are no product
  QR_PANEL = 32,  // and of QR, which are worked on at a time
};

// The smallest parts for one type, triangular_base.h.
typedef struct tri_base {
  i64 (*factor)(tri_matrix, i64 n);
  i64 (*lu)(tri_matrix, i64 m, i64 n, i32 *pivots, void *memory);
  void (*exchange)(tri_matrix, i64 columns, i64 n, const i32 *pivots);
  void (*pack)(const tri *, i64 n, void *to);
  void (*solve)(const tri *, const void *packed, i64 n, tri_matrix x, i64 from, i64 to);
  void (*few)(const tri *, i64 n, tri_matrix x, i64 columns);
  void (*thin)(const tri *, i64 n, void *x);
  void (*negate)(tri_matrix to, tri_matrix from, i64 m, i64 n, bool conj);
  void (*add_lower)(tri_matrix, const void *, i64 n);
} tri_base;

// And those of a QR factor, of real types. space: n + 1 columns of m, column_step apart.
typedef struct qr_base {
  void (*qr)(tri_matrix, i64 m, i64 n, void *tau, void *space);
  void (*product)(tri_matrix, i64 m, i64 n, i64 k, const void *tau, void *space);
  void (*spell)(tri_matrix, i64 m, i64 n, void *v);
  void (*join)(const void *gram, i64 n, const void *tau, void *t);
  void (*finish)(tri_matrix, i64 top, i64 from, i64 to);
} qr_base;

// Elements from one column to the next where LU and QR work on columns of m: whole vectors, and one
// more, so that columns of a power of two do not lie over each other in the first cache.
static inline i64 column_step(i64 m, size_t size) {
  i64 lanes = NARROW / (i64)size;
  return (m + lanes - 1) / lanes * lanes + lanes;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TRI_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TRI_CLONES
#endif
// Before a loop over one vector: unrolled too early, it would not become one.
#define TRI_VECTOR _Pragma("GCC unroll 1")
#define TRI_PLAIN(a, b) ((a) * (b))
#define TRI_SAME(a) (a)
// What LAPACK chooses pivots by.
static inline float abs_c64(float complex a) { return fabsf(crealf(a)) + fabsf(cimagf(a)); }
static inline double abs_c128(double complex a) { return fabs(creal(a)) + fabs(cimag(a)); }

#define TRI_(name) name##_f32
#define TRI_T float
#define TRI_R float
#define TRI_TIMES TRI_PLAIN
#define TRI_CONJ TRI_SAME
#define TRI_REAL TRI_SAME
#define TRI_SQRT sqrtf
#define TRI_ABS fabsf
#define TRI_SUM double
#define TRI_SUM_SQRT sqrt
#include "backends/cpu/rt/triangular_base.h"
#undef TRI_
#undef TRI_T
#undef TRI_R
#undef TRI_SQRT
#undef TRI_ABS
#undef TRI_SUM
#undef TRI_SUM_SQRT
#define TRI_(name) name##_f64
#define TRI_SUM long double
#define TRI_SUM_SQRT sqrtl
#define TRI_T double
#define TRI_ABS fabs
#define TRI_R double
#define TRI_SQRT sqrt
#include "backends/cpu/rt/triangular_base.h"
#undef TRI_
#undef TRI_T
#undef TRI_TIMES
#undef TRI_CONJ
#undef TRI_REAL
#undef TRI_ABS
#undef TRI_SUM
#undef TRI_SUM_SQRT
#define TRI_(name) name##_c128
#define TRI_ABS abs_c128
#define TRI_T double complex
#define TRI_TIMES cpu_times_c128
#define TRI_CONJ conj
#define TRI_REAL creal
#include "backends/cpu/rt/triangular_base.h"
#undef TRI_
#undef TRI_T
#undef TRI_R
#undef TRI_TIMES
#undef TRI_CONJ
#undef TRI_REAL
#undef TRI_SQRT
#undef TRI_ABS
#define TRI_(name) name##_c64
#define TRI_ABS abs_c64
#define TRI_T float complex
#define TRI_R float
#define TRI_TIMES cpu_times_c64
#define TRI_CONJ conjf
#define TRI_REAL crealf
#define TRI_SQRT sqrtf
#include "backends/cpu/rt/triangular_base.h"

typedef struct work {
  hlo_dtype type;
  dot_compute compute;
  const tri_base *base;
  size_t size;  // of an element
  char *copy;   // of negated blocks; NULL where there are none
  char *panel;  // columns that LU works on
} work;

static i64 first_half(i64 n) { return (n / 2 + BASE - 1) / BASE * BASE; }

static bool is_small(i64 m, i64 n) { return HS_MAX(m, n) <= BASE; }

// The first place in memory where vectors may lie; NARROW bytes more hold it.
static char *aligned(char *memory) {
  return memory + (NARROW - (uintptr_t)memory % NARROW) % NARROW;
}

static hs_status no_memory(i64 n) {
  return hs_fail(HS_E_NO_MEMORY, "no memory for a part of a matrix of %lld rows", (long long)n);
}

static const tri_base *base_of(hlo_dtype t) {
  return t == HLO_F32   ? &base_f32
         : t == HLO_F64 ? &base_f64
         : t == HLO_C64 ? &base_c64
                        : &base_c128;
}

static hs_status start(work *w, hlo_dtype t, i64 n, bool products) {
  *w = (work){.type = t, .size = hlo_dtype_storage(t), .base = base_of(t)};
  w->compute = t == HLO_F32 ? DOT_F32 : t == HLO_F64 ? DOT_F64 : t == HLO_C64 ? DOT_C64 : DOT_C128;
  if (n <= BASE || !products) return HS_GOOD;
  // a block beside the diagonal of n rows or fewer has h (n - h) elements
  w->copy = hs_try_alloc((size_t)((n * n + 3) / 4) * w->size);
  return w->copy ? HS_GOOD : no_memory(n);
}

static tri_matrix part(const work *w, tri_matrix a, i64 i, i64 j) {
  a.p += (i * a.r + j * a.c) * (i64)w->size;
  return a;
}

// c, of m by n elements, becomes a b, or with `add` c + a b.
static hs_status multiply(const work *w, tri_matrix c, bool add, tri_matrix a, tri_matrix b, i64 m,
                          i64 n, i64 k) {
  if (c.c != 1) {
    tri_matrix left = tri_transposed(b);
    b = tri_transposed(a), a = left, c = tri_transposed(c);
    i64 rows = n;
    n = m, m = rows;
  }
  dot d = {.B = 1,
           .M = m,
           .N = n,
           .K = k,
           .a = {a.r, a.c},
           .b = {b.r, b.c},
           .c = {c.r, c.c},
           .ta = w->type,
           .tb = w->type,
           .tc = w->type,
           .sum_type = w->compute,
           .operand_type = w->compute,
           .add = add};
  HS_REQUIRE(cpu_dot_tiles_prepare(&d));
  hs_status s = cpu_dot_tiles_run(&d, a.p, b.p, c.p);
  hs_free(d.tiles);
  return s;
}

// A negated copy of a, of m by n elements.
static tri_matrix negated(const work *w, tri_matrix a, i64 m, i64 n, bool conj) {
  tri_matrix to = {w->copy, a.c == 1 ? n : 1, a.c == 1 ? 1 : m};
  w->base->negate(to, a, m, n, conj);
  return to;
}

// ---- systems ------------------------------------------------------------------------------------
typedef struct columns {
  const work *w;
  const tri *l;
  const void *packed;
  tri_matrix x;
  i64 n, k;
} columns;

static void solve_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const columns *c = ctx;
  i64 from = chunk * CHUNK, to = HS_MIN(from + CHUNK, c->k);
  c->w->base->solve(c->l, c->packed, c->n, c->x, from, to);
}

static hs_status solve(const work *w, tri l, i64 n, tri_matrix x, i64 k) {
  if (n <= BASE && k * (i64)w->size <= NARROW) {
    w->base->few(&l, n, x, k);
    return HS_GOOD;
  }
  if (n <= BASE) {
    double complex packed[BASE * BASE];  // the largest type
    w->base->pack(&l, n, packed);
    columns c = {w, &l, packed, x, n, k};
    cpu_par_for(solve_chunk, &c, (k + CHUNK - 1) / CHUNK);
    return HS_GOOD;
  }
  i64 h = first_half(n), done = l.lower ? 0 : h, rest = l.lower ? h : 0;
  i64 ndone = l.lower ? h : n - h, nrest = n - ndone;
  tri first = l, second = l;
  first.m = part(w, l.m, done, done);
  second.m = part(w, l.m, rest, rest);
  tri_matrix x1 = part(w, x, done, 0), x2 = part(w, x, rest, 0);
  HS_TRY(solve(w, first, ndone, x1, k));
  tri_matrix off = negated(w, part(w, l.m, rest, done), nrest, ndone, l.conj);
  HS_TRY(multiply(w, x2, true, off, x1, nrest, k, ndone));
  return solve(w, second, nrest, x2, k);
}

static hs_status solve_thin(const work *w, tri l, i64 n, tri_matrix x, i64 k) {
  char *v = hs_try_alloc((size_t)n * w->size);
  if (!v) return no_memory(n);
  for (i64 c = 0; c < k; c++) {
    char *column = part(w, x, 0, c).p;
    size_t step = (size_t)x.r * w->size;
    for (i64 i = 0; i < n; i++) memcpy(v + (size_t)i * w->size, column + (size_t)i * step, w->size);
    w->base->thin(&l, n, v);
    for (i64 i = 0; i < n; i++) memcpy(column + (size_t)i * step, v + (size_t)i * w->size, w->size);
  }
  hs_free(v);
  return HS_GOOD;
}

hs_status cpu_triangular_solve(hlo_dtype t, tri l, i64 n, tri_matrix x, i64 k) {
  work w;
  bool thin = k < THIN && n > BASE;
  HS_TRY(start(&w, t, n, !thin));
  hs_status s = thin ? solve_thin(&w, l, n, x, k) : solve(&w, l, n, x, k);
  hs_free(w.copy);
  return s;
}

// ---- Cholesky -----------------------------------------------------------------------------------

// The lower triangle of c, n by n, takes a b^T more; a and b are n by k.
static hs_status add_to_lower(const work *w, tri_matrix c, tri_matrix a, tri_matrix b, i64 n,
                              i64 k) {
  if (n <= BASE) {
    double complex t[BASE * BASE];
    HS_TRY(multiply(w, (tri_matrix){(char *)t, BASE, 1}, false, a, tri_transposed(b), n, n, k));
    w->base->add_lower(c, t, n);
    return HS_GOOD;
  }
  i64 h = first_half(n);
  tri_matrix a2 = part(w, a, h, 0), b2 = part(w, b, h, 0);
  HS_TRY(add_to_lower(w, c, a, b, h, k));
  HS_TRY(multiply(w, part(w, c, h, 0), true, a2, tri_transposed(b), n - h, h, k));
  return add_to_lower(w, part(w, c, h, h), a2, b2, n - h, k);
}

static hs_status factor(const work *w, tri_matrix a, i64 n, i64 *bad) {
  if (n <= BASE) {
    *bad = w->base->factor(a, n);
    return HS_GOOD;
  }
  i64 h = first_half(n);
  tri_matrix a21 = part(w, a, h, 0), a22 = part(w, a, h, h);
  HS_TRY(factor(w, a, h, bad));
  if (*bad) return HS_GOOD;
  tri l11 = {.m = a, .lower = true, .conj = true};
  HS_TRY(solve(w, l11, h, tri_transposed(a21), n - h));
  tri_matrix off = negated(w, a21, n - h, h, true);
  HS_TRY(add_to_lower(w, a22, a21, off, n - h, h));
  HS_TRY(factor(w, a22, n - h, bad));
  if (*bad) *bad += h;
  return HS_GOOD;
}

hs_status cpu_cholesky(hlo_dtype t, tri_matrix a, i64 n, i64 *bad) {
  work w;
  *bad = 0;
  HS_TRY(start(&w, t, n, true));
  hs_status s = factor(&w, a, n, bad);
  hs_free(w.copy);
  return s;
}

// ---- LU -----------------------------------------------------------------------------------------
// By halves of the columns: those on the right are exchanged as those on the left were, solved for
// the rows that are done, and the product is taken off the others.
static hs_status lu(const work *w, tri_matrix a, i64 m, i64 n, i32 *pivots, i64 *bad) {
  const i64 done = HS_MIN(m, n), half = (done / 2 + PANEL - 1) / PANEL * PANEL;
  if (n <= PANEL) {
    *bad = w->base->lu(a, m, n, pivots, w->panel);
    return HS_GOOD;
  }
  const i64 h = done <= PANEL ? done : half, right = n - h, below = m - h;
  tri_matrix a12 = part(w, a, 0, h), a21 = part(w, a, h, 0), a22 = part(w, a, h, h);
  HS_TRY(lu(w, a, m, h, pivots, bad));
  w->base->exchange(a12, right, h, pivots);
  HS_TRY(solve(w, (tri){.m = a, .lower = true, .unit = true}, h, a12, right));
  if (!below) return HS_GOOD;
  // the smaller factor is the one that is copied
  tri_matrix l = a21, u = a12;
  if (below < right) l = negated(w, a21, below, h, false);
  else u = negated(w, a12, h, right, false);
  HS_TRY(multiply(w, a22, true, l, u, below, right, h));
  i64 worse;
  HS_TRY(lu(w, a22, below, right, pivots + h, &worse));
  w->base->exchange(a21, h, done - h, pivots + h);
  for (i64 k = h; k < done; k++) pivots[k] += (i32)h;
  if (worse && !*bad) *bad = worse + h;
  return HS_GOOD;
}

static i64 lu_small(hlo_dtype t, tri_matrix a, i64 m, i64 n, i32 *pivots) {
  _Alignas(NARROW) double complex memory[(BASE + 1) * (BASE + NARROW / sizeof(double complex))];
  return base_of(t)->lu(a, m, n, pivots, memory);
}

hs_status cpu_lu(hlo_dtype t, tri_matrix a, i64 m, i64 n, i32 *pivots, i64 *bad) {
  if (is_small(m, n)) return *bad = lu_small(t, a, m, n, pivots), HS_GOOD;
  work w;
  HS_TRY(start(&w, t, HS_MIN(m, n), false));
  const size_t least = (size_t)HS_MIN(m, n),
               panel = (PANEL + 1) * (size_t)column_step(m, w.size) * w.size,
               copy = (least * least + 3) / 4 * w.size;
  char *memory = hs_try_alloc(panel + copy + NARROW);
  if (!memory) return no_memory(m);
  w.panel = aligned(memory);
  w.copy = w.panel + panel;
  hs_status s = lu(&w, a, m, n, pivots, bad);
  hs_free(memory);
  return s;
}

// ---- QR -----------------------------------------------------------------------------------------
// A panel of columns at a time: their reflectors are found one by one, and are then applied to all
// columns behind them as one product, I - V T V^T.
typedef struct reflectors {
  work w;
  const qr_base *base;
  void *all;        // what the others lie in
  char *space;      // of a panel's columns, or those of a small matrix
  tri_matrix v, t;  // t: -T
  tri_matrix x, y;  // of a panel's rows, as wide as what they are applied to
} reflectors;

static tri_matrix dense(const work *w, char **at, i64 m, i64 n) {
  tri_matrix a = {*at, n, 1};
  *at += (size_t)(m * n) * w->size;
  return a;
}

static hs_status start_reflectors(reflectors *r, hlo_dtype t, i64 m, i64 n) {
  HS_TRY(start(&r->w, t, 0, false));
  r->base = t == HLO_F64 ? &qr_base_f64 : &qr_base_f32;
  const i64 panel = is_small(m, n) ? 0 : QR_PANEL, wide = HS_MAX(n, panel);
  const i64 room = ((panel ? panel : n) + 1) * column_step(m, r->w.size);
  const i64 elements = room + m * panel + panel * panel + 2 * panel * wide;
  r->all = hs_try_alloc((size_t)elements * r->w.size + NARROW);
  if (!r->all) return no_memory(m);
  r->space = aligned(r->all);
  char *at = r->space + (size_t)room * r->w.size;
  r->v = tri_transposed(dense(&r->w, &at, panel, m)), r->t = dense(&r->w, &at, panel, panel);
  r->x = dense(&r->w, &at, panel, wide), r->y = dense(&r->w, &at, panel, wide);
  return HS_GOOD;
}

// V and -T of the n columns of a, which hold reflectors.
static hs_status join(reflectors *r, tri_matrix a, i64 m, i64 n, const char *tau) {
  r->v.c = m, r->t.r = r->x.r = n;
  r->base->spell(a, m, n, r->v.p);
  HS_TRY(multiply(&r->w, r->x, false, tri_transposed(r->v), r->v, n, n, m));
  r->base->join(r->x.p, n, tau, r->t.p);
  return HS_GOOD;
}

// c, n columns wide, becomes (I - V T V^T) c, or with `turned` its transpose's product.
static hs_status apply(reflectors *r, bool turned, tri_matrix c, i64 m, i64 n, i64 panel) {
  r->x.r = r->y.r = n;
  HS_TRY(multiply(&r->w, r->x, false, tri_transposed(r->v), c, panel, n, m));
  HS_TRY(multiply(&r->w, r->y, false, turned ? tri_transposed(r->t) : r->t, r->x, panel, n, panel));
  return multiply(&r->w, c, true, r->v, r->y, m, n, panel);
}

static hs_status factor_panels(reflectors *r, tri_matrix a, i64 m, i64 n, char *tau) {
  const i64 k = HS_MIN(m, n);
  for (i64 j = 0, panel; j < k; j += panel) {
    panel = HS_MIN(k - j, (i64)QR_PANEL);
    tri_matrix here = part(&r->w, a, j, j);
    char *own = tau + (size_t)j * r->w.size;
    r->base->qr(here, m - j, panel, own, r->space);
    if (j + panel == n) break;
    HS_TRY(join(r, here, m - j, panel, own));
    HS_TRY(apply(r, true, part(&r->w, a, j, j + panel), m - j, n - j - panel, panel));
  }
  return HS_GOOD;
}

hs_status cpu_qr(hlo_dtype t, tri_matrix a, i64 m, i64 n, void *tau) {
  reflectors r;
  HS_TRY(start_reflectors(&r, t, m, n));
  hs_status s = HS_GOOD;
  if (is_small(m, n)) r.base->qr(a, m, n, tau, r.space);
  else s = factor_panels(&r, a, m, n, tau);
  hs_free(r.all);
  return s;
}

// The last panel first: what it is applied to is the unit matrix above it. A panel itself becomes
// the first columns of its I - V T V^T.
static hs_status multiply_panels(reflectors *r, tri_matrix q, i64 m, i64 n, i64 k,
                                 const char *tau) {
  for (i64 c = k; c < n; c++) {
    char *column = part(&r->w, q, 0, c).p;
    for (i64 i = 0; i < m; i++) memset(column + i * q.r * (i64)r->w.size, 0, r->w.size);
  }
  r->base->finish(q, k, k, n);
  for (i64 end = k, j; end > 0; end = j) {
    j = (end - 1) / QR_PANEL * QR_PANEL;
    const i64 panel = end - j;
    tri_matrix here = part(&r->w, q, j, j);
    HS_TRY(join(r, here, m - j, panel, tau + (size_t)j * r->w.size));
    i64 behind = n - j - panel;
    if (behind) HS_TRY(apply(r, false, part(&r->w, q, j, j + panel), m - j, behind, panel));
    r->x.r = panel;
    HS_TRY(multiply(&r->w, r->x, false, r->t, tri_transposed(r->v), panel, panel, panel));
    HS_TRY(multiply(&r->w, here, false, r->v, r->x, m - j, panel, panel));
    r->base->finish(q, j, j, j + panel);
  }
  return HS_GOOD;
}

hs_status cpu_qr_product(hlo_dtype t, tri_matrix q, i64 m, i64 n, i64 k, const void *tau) {
  reflectors r;
  HS_TRY(start_reflectors(&r, t, m, n));
  hs_status s = HS_GOOD;
  if (is_small(m, n)) r.base->product(q, m, n, k, tau, r.space);
  else s = multiply_panels(&r, q, m, n, k, tau);
  hs_free(r.all);
  return s;
}
