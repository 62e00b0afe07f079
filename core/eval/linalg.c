// linalg.c — fft, cholesky, triangular-solve and the batch norms, computed in double
// (complex) and rounded once.
//
// Transforms are radix-2 for powers of two (Cooley and Tukey, 1965) and Bluestein's chirp algorithm
// (1970) for every other length; factorizations are the textbook row-by-row ones (Golub and Van
// Loan). This is the reference: clear rather than fast.
#include <complex.h>
#include <math.h>
#include "core/eval/library.h"

typedef double _Complex zz;

static zz zmake(double re, double im) {
  union {
    double v[2];
    zz z;
  } u = {.v = {re, im}};
  return u.z;
}
static zz zprod(zz a, zz b) {
  return zmake(creal(a) * creal(b) - cimag(a) * cimag(b),
               creal(a) * cimag(b) + cimag(a) * creal(b));
}

static zz *to_complex(const hlo_literal *l) {
  i64 n = l->shape->elements;
  zz *z = hs_try_alloc((size_t)HS_MAX(n, 1) * sizeof *z);
  if (z) ev_convert(l->shape->dtype, l->data, HLO_C128, z, n);
  return z;
}

// ---- fft ----------------------------------------------------------------------------------------
// m: power of two for Bluestein, 0 when n is one
typedef struct transform {
  i64 n, m;
  zz *roots, *chirp, *chirp_hat, *buf;
} transform;

static void radix2(zz *a, i64 n, const zz *roots, i64 nroots, bool inverse) {
  for (i64 i = 1, j = 0; i < n; i++) {
    i64 bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      zz t = a[i];
      a[i] = a[j];
      a[j] = t;
    }
  }
  for (i64 len = 2; len <= n; len <<= 1)
    for (i64 i = 0; i < n; i += len)
      for (i64 k = 0; k < len / 2; k++) {
        zz w = roots[nroots / len * k], u = a[i + k],
           v = zprod(a[i + k + len / 2], inverse ? conj(w) : w);
        a[i + k] = u + v;
        a[i + k + len / 2] = u - v;
      }
}

static zz root_of_unity(i64 k, i64 n) {
  double x = -2 * M_PI * (double)(k % n) / (double)n;
  return zmake(cos(x), sin(x));
}

static void transform_free(transform *t) {
  hs_free(t->roots);
  hs_free(t->chirp);
  hs_free(t->chirp_hat);
  hs_free(t->buf);
}

static hs_status transform_init(transform *t, i64 n) {
  *t = (transform){.n = n};
  i64 p = n;
  if (n & (n - 1))
    for (p = t->m = 1; p < 2 * n - 1; p <<= 1) t->m = p << 1;
  t->roots = hs_try_alloc((size_t)p * sizeof *t->roots);
  if (t->m) {
    t->chirp = hs_try_alloc((size_t)n * sizeof(zz));
    t->chirp_hat = hs_try_alloc((size_t)p * sizeof(zz));
    t->buf = hs_try_alloc((size_t)p * sizeof(zz));
  }
  if (!t->roots || (t->m && (!t->chirp || !t->chirp_hat || !t->buf))) {
    transform_free(t);
    return hs_fail(HS_E_NO_MEMORY, "no memory for a transform of length %lld", (long long)n);
  }
  for (i64 k = 0; k < p / 2 || k < 1; k++) t->roots[k] = root_of_unity(k, p);
  if (!t->m) return HS_GOOD;
  for (i64 k = 0; k < n; k++)
    t->chirp[k] = root_of_unity((i64)((u64)k * (u64)k % (u64)(2 * n)), 2 * n);
  for (i64 k = 0; k < p; k++) t->chirp_hat[k] = 0;
  for (i64 k = 0; k < n; k++) t->chirp_hat[k] = t->chirp_hat[(p - k) % p] = conj(t->chirp[k]);
  radix2(t->chirp_hat, p, t->roots, p, false);
  return HS_GOOD;
}

// Unscaled transform of one line in place.
static void transform_run(const transform *t, zz *a, bool inverse) {
  i64 n = t->n, m = t->m;
  if (!m) {
    radix2(a, n, t->roots, n, inverse);
    return;
  }
  for (i64 k = 0; k < n; k++) t->buf[k] = zprod(inverse ? conj(a[k]) : a[k], t->chirp[k]);
  for (i64 k = n; k < m; k++) t->buf[k] = 0;
  radix2(t->buf, m, t->roots, m, false);
  for (i64 k = 0; k < m; k++) t->buf[k] = zprod(t->buf[k], t->chirp_hat[k]);
  radix2(t->buf, m, t->roots, m, true);
  for (i64 k = 0; k < n; k++) {
    zz v = zprod(t->buf[k], t->chirp[k]) / (double)m;
    a[k] = inverse ? conj(v) : v;
  }
}

// Transforms every line along dimension `dim` of a dense array.
static hs_status transform_dim(zz *a, u32 rank, const i64 *dims, u32 dim, bool inverse) {
  i64 n = dims[dim], inner = ev_product(rank - dim - 1, dims + dim + 1),
      outer = ev_product(dim, dims);
  if (n < 1) return HS_GOOD;
  transform t;
  HS_TRY(transform_init(&t, n));
  zz *line = hs_try_calloc((size_t)n, sizeof *line);
  hs_status st = line ? HS_GOOD : hs_fail(HS_E_NO_MEMORY, "no memory for a line of a transform");
  for (i64 o = 0; o < outer && hs_ok(st); o++)
    for (i64 j = 0; j < inner && hs_ok(st); j++) {
      zz *p = a + o * n * inner + j;
      for (i64 k = 0; k < n; k++) line[k] = p[k * inner];
      transform_run(&t, line, inverse);
      for (i64 k = 0; k < n; k++) p[k * inner] = inverse ? line[k] / (double)n : line[k];
      st = hs_poll();
    }
  hs_free(line);
  transform_free(&t);
  return st;
}

// Lines of `from` elements become lines of `to`: cut or filled with zeros; for a real inverse the
// missing half is the mirror image of the given one. The caller polls.
static zz *resize_lines(zz *a, i64 lines, i64 from, i64 to, bool hermitian) {
  zz *b = hs_try_alloc((size_t)HS_MAX(lines * to, 1) * sizeof *b);
  for (i64 l = 0; b && l < lines && !hs_interrupted(); l++)
    for (i64 k = 0; k < to; k++) {
      i64 m = to - k;
      b[l * to + k] = k < from && (!hermitian || k <= to / 2) ? a[l * from + k]
                      : hermitian && m < from                 ? conj(a[l * from + m])
                                                              : 0;
    }
  hs_free(a);
  return b;
}

hs_status hlo_eval_fft(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *from = ops[0]->shape, *to = i->shape;
  i64 type = hlo_attr_int(i, HLO_ATTR_FFT_TYPE, 0), dims[HLO_MAX_RANK];
  hlo_ints len = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
  if (len.n < 1 || len.n > from->rank || from->rank != to->rank)
    return ev_unsupported(i, "with this fft_length");
  for (u32 k = 0; k < len.n; k++)
    if (len.v[k] < 1) return ev_unsupported(i, "of length 0");
  HS_TRY(ev_new(e, to, out));
  u32 last = from->rank - 1, first = from->rank - len.n;
  ev_batch_sizes(first, ops[0], *out);
  if (!to->elements) return HS_GOOD;
  if (!from->elements) {
    memset((*out)->data, 0, (*out)->bytes);
    return HS_GOOD;
  }
  bool inverse = type == HLO_FFT_TYPE_IFFT || type == HLO_FFT_TYPE_IRFFT,
       real_out = type == HLO_FFT_TYPE_IRFFT;
  zz *a = to_complex(ops[0]);
  memcpy(dims, from->dims, from->rank * sizeof *dims);
  hs_status st = a ? HS_GOOD : hs_fail(HS_E_NO_MEMORY, "no memory for a transform");
  if (hs_ok(st) && type == HLO_FFT_TYPE_RFFT) {
    st = transform_dim(a, from->rank, dims, last, false);
    if (hs_ok(st)) a = resize_lines(a, ev_product(last, dims), dims[last], to->dims[last], false);
    dims[last] = to->dims[last];
  }
  for (u32 d = last; hs_ok(st) && a && d-- > first;)
    st = transform_dim(a, from->rank, dims, d, inverse);
  if (hs_ok(st) && a && type != HLO_FFT_TYPE_RFFT) {
    if (real_out) a = resize_lines(a, ev_product(last, dims), dims[last], to->dims[last], true);
    dims[last] = to->dims[last];
    if (a) st = transform_dim(a, from->rank, dims, last, inverse);
  }
  if (hs_ok(st) && !a) st = hs_fail(HS_E_NO_MEMORY, "no memory for a transform");
  if (hs_ok(st)) st = hs_poll();
  if (hs_ok(st)) ev_convert(HLO_C128, a, to->dtype, (*out)->data, to->elements);
  hs_free(a);
  return st;
}

// ---- cholesky -----------------------------------------------------------------------------------
hs_status hlo_eval_cholesky(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *s = i->shape;
  bool lower = hlo_attr_int(i, HLO_ATTR_LOWER, 0) != 0;
  if (s->rank < 2) return ev_unsupported(i, "of less than two dimensions");
  i64 n = s->dims[s->rank - 1], batches = n ? s->elements / (n * n) : 0;
  zz *a = to_complex(ops[0]);
  if (!a) return hs_fail(HS_E_NO_MEMORY, "no memory for a factorization");
  hs_status st = ev_new(e, s, out);
  if (hs_ok(st)) ev_batch_sizes(s->rank - 2, ops[0], *out);
  for (i64 b = 0; b < batches && hs_ok(st); b++) {
    zz *m = a + b * n * n;
    // Work on the lower triangle; an upper one is its conjugate mirror.
    for (i64 r = 0; r < n; r++)
      for (i64 c = 0; c < r; c++)
        if (!lower) m[r * n + c] = conj(m[c * n + r]);
    for (i64 r = 0; r < n && !hs_interrupted(); r++)
      for (i64 c = 0; c <= r; c++) {
        zz v = m[r * n + c];
        for (i64 k = 0; k < c; k++) v -= zprod(m[r * n + k], conj(m[c * n + k]));
        if (r == c) m[r * n + c] = creal(v) > 0 ? zmake(sqrt(creal(v)), 0) : zmake(NAN, 0);
        else m[r * n + c] = v / creal(m[c * n + c]);
      }
    // as XLA has it, nothing is known of a matrix that is not positive definite
    if (n && creal(m[n * n - 1]) != creal(m[n * n - 1])) {
      for (i64 k = 0; k < n * n; k++) m[k] = zmake(NAN, 0);
      continue;
    }
    for (i64 r = 0; r < n; r++)
      for (i64 c = r + 1; c < n; c++) {
        if (!lower) m[r * n + c] = conj(m[c * n + r]), m[c * n + r] = 0;
        else m[r * n + c] = 0;
      }
    st = hs_poll();
  }
  if (hs_ok(st)) ev_convert(HLO_C128, a, s->dtype, (*out)->data, s->elements);
  hs_free(a);
  return st;
}

// ---- qr -----------------------------------------------------------------------------------------
// Householder QR as LAPACK stores it: r above the diagonal, the reflectors' tails below, their
// scales apart; reflector k is I - tau v v^H with v[k] = 1.
hs_status ev_qr(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *s = ops[0]->shape, *to = i->shape;
  if (!hlo_shape_is_tuple(to) || to->nelems < 2 || s->rank < 2 ||
      to->elems[0]->elements != s->elements)
    return ev_unsupported(i, "with these results");
  i64 m = s->dims[s->rank - 2], n = s->dims[s->rank - 1], k = HS_MIN(m, n),
      batches = m > 0 && n > 0 ? s->elements / (m * n) : 0;
  if (to->elems[1]->elements != k * batches) return ev_unsupported(i, "with these results");
  zz *a = to_complex(ops[0]), *tau = hs_try_alloc((size_t)HS_MAX(k * batches, 1) * sizeof *tau);
  hs_status st =
      a && tau ? ev_new(e, to, out) : hs_fail(HS_E_NO_MEMORY, "no memory for a factorization");
  for (i64 b = 0; b < batches && hs_ok(st); b++) {
    zz *q = a + b * m * n;
    for (i64 j = 0; j < k && !hs_interrupted(); j++) {
      double tail = 0;
      for (i64 r = j + 1; r < m; r++)
        tail +=
            creal(q[r * n + j]) * creal(q[r * n + j]) + cimag(q[r * n + j]) * cimag(q[r * n + j]);
      zz alpha = q[j * n + j], t = 0;
      if (tail > 0 || cimag(alpha) != 0) {
        double norm = sqrt(creal(alpha) * creal(alpha) + cimag(alpha) * cimag(alpha) + tail),
               beta = creal(alpha) >= 0 ? -norm : norm;
        t = zmake((beta - creal(alpha)) / beta, -cimag(alpha) / beta);
        for (i64 r = j + 1; r < m; r++) q[r * n + j] = q[r * n + j] / (alpha - beta);
        for (i64 c = j + 1; c < n; c++) {
          zz w = q[j * n + c];
          for (i64 r = j + 1; r < m; r++) w += zprod(conj(q[r * n + j]), q[r * n + c]);
          w = zprod(conj(t), w);
          q[j * n + c] -= w;
          for (i64 r = j + 1; r < m; r++) q[r * n + c] -= zprod(q[r * n + j], w);
        }
        q[j * n + j] = beta;
      }
      tau[b * k + j] = t;
    }
    st = hs_poll();
  }
  if (hs_ok(st)) {
    ev_convert(HLO_C128, a, to->elems[0]->dtype, (*out)->children[0]->data, s->elements);
    ev_convert(HLO_C128, tau, to->elems[1]->dtype, (*out)->children[1]->data, k * batches);
  }
  hs_free(a);
  hs_free(tau);
  return st;
}

// The first columns of H(0) H(1) ... H(k-1), from the packed reflectors.
hs_status ev_householder_product(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  const hlo_shape *s = ops[0]->shape;
  if (i->noperands != 2 || s->rank < 2 || i->shape->elements != s->elements)
    return ev_unsupported(i, "with these operands");
  i64 m = s->dims[s->rank - 2], n = s->dims[s->rank - 1],
      batches = m > 0 && n > 0 ? s->elements / (m * n) : 0;
  i64 k = batches ? ops[1]->shape->elements / batches : 0;
  if (k > HS_MIN(m, n)) return ev_unsupported(i, "with these operands");
  zz *a = to_complex(ops[0]), *tau = to_complex(ops[1]),
     *q = hs_try_alloc((size_t)HS_MAX(s->elements, 1) * sizeof *q);
  hs_status st = a && tau && q ? ev_new(e, i->shape, out)
                               : hs_fail(HS_E_NO_MEMORY, "no memory for a factorization");
  for (i64 b = 0; b < batches && hs_ok(st); b++) {
    const zz *v = a + b * m * n;
    zz *x = q + b * m * n;
    for (i64 r = 0; r < m; r++)
      for (i64 c = 0; c < n; c++) x[r * n + c] = r == c;
    for (i64 j = k; j-- > 0 && !hs_interrupted();)
      for (i64 c = 0; c < n; c++) {
        zz w = x[j * n + c];
        for (i64 r = j + 1; r < m; r++) w += zprod(conj(v[r * n + j]), x[r * n + c]);
        w = zprod(tau[b * k + j], w);
        x[j * n + c] -= w;
        for (i64 r = j + 1; r < m; r++) x[r * n + c] -= zprod(v[r * n + j], w);
      }
    st = hs_poll();
  }
  if (hs_ok(st)) ev_convert(HLO_C128, q, i->shape->dtype, (*out)->data, s->elements);
  hs_free(a);
  hs_free(tau);
  hs_free(q);
  return st;
}

// ---- triangular-solve: op(a) x = b, or x op(a) = b ----------------------------------------------
hs_status hlo_eval_triangular_solve(ev *e, const hlo_instr *i, hlo_literal **ops,
                                    hlo_literal **out) {
  const hlo_shape *s = i->shape, *as = ops[0]->shape;
  bool left = hlo_attr_int(i, HLO_ATTR_LEFT_SIDE, 0) != 0,
       lower = hlo_attr_int(i, HLO_ATTR_LOWER, 0) != 0,
       unit = hlo_attr_int(i, HLO_ATTR_UNIT_DIAGONAL, 0) != 0;
  i64 trans = hlo_attr_int(i, HLO_ATTR_TRANSPOSE_A, HLO_TRANSPOSE_NO_TRANSPOSE);
  if (s->rank < 2 || as->rank != s->rank) return ev_unsupported(i, "of less than two dimensions");
  i64 n = as->dims[as->rank - 1], rows = s->dims[s->rank - 2], cols = s->dims[s->rank - 1];
  i64 batches = rows > 0 && cols > 0 ? s->elements / (rows * cols) : 0, count = left ? cols : rows;
  zz *a = to_complex(ops[0]), *x = to_complex(ops[1]);
  hs_status st =
      a && x ? ev_new(e, s, out) : hs_fail(HS_E_NO_MEMORY, "no memory for a triangular solve");
  if (hs_ok(st)) ev_batch_sizes(s->rank - 2, ops[0], *out);
  bool transposed = trans == HLO_TRANSPOSE_TRANSPOSE || trans == HLO_TRANSPOSE_ADJOINT;
  // x op(a) = b is op(a)^T x^T = b^T: the matrix is transposed once more.
  bool flip = transposed == left, conjugate = trans == HLO_TRANSPOSE_ADJOINT,
       forward = lower != flip;
  for (i64 b = 0; b < batches && hs_ok(st); b++) {
    const zz *m = a + b * n * n;
    zz *v = x + b * rows * cols;
    for (i64 q = 0; q < count && !hs_interrupted(); q++) {
      zz *p = left ? v + q : v + q * cols;
      i64 step = left ? cols : 1;
      for (i64 t = 0; t < n; t++) {
        i64 r = forward ? t : n - 1 - t;
        zz sum = p[r * step];
        for (i64 k = forward ? 0 : r + 1; k < (forward ? r : n); k++) {
          zz w = flip ? m[k * n + r] : m[r * n + k];
          sum -= zprod(conjugate ? conj(w) : w, p[k * step]);
        }
        zz d = conjugate ? conj(m[r * n + r]) : m[r * n + r];
        p[r * step] = unit                               ? sum
                      : cimag(d) == 0 && cimag(sum) == 0 ? zmake(creal(sum) / creal(d), 0)
                                                         : sum / d;
      }
    }
    st = hs_poll();
  }
  if (hs_ok(st)) ev_convert(HLO_C128, x, s->dtype, (*out)->data, s->elements);
  hs_free(a);
  hs_free(x);
  return st;
}

// ---- batch norms --------------------------------------------------------------------------------
// Everything as doubles; element k of an array belongs to feature (k / inner) % features. What is
// not in use counts in no sum, nor among the elements that a feature has.
typedef struct norm {
  i64 features, inner, n, per;
  double *in[5];
  bool *unused;  // by element of the activation; NULL: all are in use
  double eps;
} norm;

static void norm_free(norm *b) {
  for (int k = 0; k < 5; k++) hs_free(b->in[k]);
  hs_free(b->unused);
}

static i64 in_use(const hlo_literal *l, i64 d) {
  return l->dynamic_sizes ? l->dynamic_sizes[d] : l->shape->dims[d];
}

// A gradient's arrays have the same sizes; what there is of each feature has all, or as many as the
// activation.
static bool sizes_agree(u32 n, hlo_literal *const *ops, i64 f) {
  const hlo_literal *x = ops[0];
  for (u32 k = 1; k < n; k++) {
    bool large = k == 4 && ops[k]->shape->rank == x->shape->rank;
    for (u32 d = 0; large && d < x->shape->rank; d++)
      if (in_use(ops[k], d) != in_use(x, d)) return false;
    if (!large && ev_is_cut(ops[k]) && in_use(ops[k], 0) != in_use(x, f)) return false;
  }
  return true;
}

static hs_status find_unused(const hlo_literal *x, i64 f, norm *b) {
  if (!ev_is_cut(x)) return HS_GOOD;
  b->unused = hs_try_calloc((size_t)b->n + 1, sizeof *b->unused);
  if (!b->unused) return hs_fail(HS_E_NO_MEMORY, "no memory for a batch norm");
  const hlo_shape *s = x->shape;
  i64 at[HLO_MAX_RANK] = {0}, k = 0;
  b->per = 1;
  for (u32 d = 0; d < s->rank; d++)
    if (d != f) b->per *= x->dynamic_sizes[d];
  if (b->n) do {
      for (u32 d = 0; d < s->rank; d++) b->unused[k] |= at[d] >= x->dynamic_sizes[d];
      k++;
    } while (ev_next(s->rank, s->dims, at));
  return HS_GOOD;
}

static hs_status norm_init(const hlo_instr *i, u32 n, hlo_literal *const *ops, i64 f, double eps,
                           norm *b) {
  const hlo_shape *s = ops[0]->shape;
  *b = (norm){0};
  if (f < 0 || f >= s->rank) return ev_unsupported(i, "with this feature_index");
  if (!sizes_agree(n, ops, f)) return ev_unsupported(i, "with these sizes in use");
  b->features = s->dims[f];
  b->inner = ev_product(s->rank - (u32)f - 1, s->dims + f + 1);
  b->n = s->elements;
  b->per = b->features ? b->n / b->features : 0;
  b->eps = (double)(float)eps;
  for (u32 k = 0; k < n && k < 5; k++) {
    i64 len = ops[k]->shape->elements;
    if (k && len != (k == 4 && len == b->n ? b->n : b->features)) {
      norm_free(b);
      return ev_unsupported(i, "with these operands");
    }
    b->in[k] = hs_try_alloc((size_t)HS_MAX(len, 1) * sizeof(double));
    if (!b->in[k]) {
      norm_free(b);
      return hs_fail(HS_E_NO_MEMORY, "no memory for a batch norm");
    }
    ev_convert(ops[k]->shape->dtype, ops[k]->data, HLO_F64, b->in[k], len);
  }
  hs_status st = find_unused(ops[0], f, b);
  if (!hs_ok(st)) norm_free(b);
  return st;
}
static bool is_used(const norm *b, i64 k) { return !b->unused || !b->unused[k]; }
static i64 feature_of(const norm *b, i64 k) { return k / b->inner % b->features; }

// x: the activation, of which the first result has the sizes, and the others that of its features,
// along dimension f.
static hs_status norm_out(ev *e, const hlo_instr *i, const norm *b, const hlo_literal *x, i64 f,
                          u32 n, double *const *v, hlo_literal **out) {
  hlo_literal *r[3] = {0};
  hs_status st = HS_GOOD;
  HS_TRY(hs_poll());  // the loops may have stopped
  if (hlo_shape_is_tuple(i->shape) && i->shape->nelems < n)
    return ev_unsupported(i, "with these results");
  for (u32 k = 0; k < n && hs_ok(st); k++) {
    const hlo_shape *s = hlo_shape_is_tuple(i->shape) ? i->shape->elems[k] : i->shape;
    i64 have = n > 1 && k ? b->features : b->n;
    if (s->elements != have) {
      st = ev_unsupported(i, "with these results");
      break;
    }
    st = ev_new(e, s, &r[k]);
    if (hs_ok(st)) ev_convert(HLO_F64, v[k], s->dtype, r[k]->data, s->elements);
    if (hs_ok(st) && k && r[k]->dynamic_sizes) r[k]->dynamic_sizes[0] = (i32)in_use(x, f);
    if (hs_ok(st) && !k && r[k]->dynamic_sizes && s->rank == x->shape->rank) ev_keep_sizes(r[k], x);
  }
  if (!hs_ok(st)) {
    for (u32 k = 0; k < n; k++) hlo_literal_unref(r[k]);
    return st;
  }
  return ev_pack_results(i, n, r, out);
}

static hs_status norm_no_memory(norm *b, double *x, double *y) {
  hs_free(x);
  hs_free(y);
  norm_free(b);
  return hs_fail(HS_E_NO_MEMORY, "no memory for the features of a batch norm");
}

hs_status ev_norm_training(ev *e, const hlo_instr *i, u32 n, hlo_literal *const *ops, i64 feature,
                           double eps, bool inverse, hlo_literal **out) {
  norm b;
  HS_TRY(norm_init(i, n, ops, feature, eps, &b));
  double *mean = hs_try_calloc((size_t)b.features + 1, sizeof *mean),
         *var = hs_try_calloc((size_t)b.features + 1, sizeof *var);
  if (!mean || !var) return norm_no_memory(&b, mean, var);
  for (i64 k = 0; k < b.n && !hs_stops(k); k++)
    if (is_used(&b, k)) mean[feature_of(&b, k)] += b.in[0][k];
  for (i64 f = 0; f < b.features; f++) mean[f] /= (double)b.per;
  for (i64 k = 0; k < b.n && !hs_stops(k); k++) {
    double d = is_used(&b, k) ? b.in[0][k] - mean[feature_of(&b, k)] : 0;
    var[feature_of(&b, k)] += d * d;
  }
  for (i64 f = 0; f < b.features; f++) var[f] /= (double)b.per;
  for (i64 k = 0; k < b.n && !hs_stops(k); k++) {
    i64 f = feature_of(&b, k);
    b.in[0][k] = (b.in[0][k] - mean[f]) / sqrt(var[f] + b.eps) * b.in[1][f] + b.in[2][f];
  }
  for (i64 f = 0; f < b.features && inverse; f++) var[f] = 1 / sqrt(var[f] + b.eps);
  double *v[3] = {b.in[0], mean, var};
  hs_status st = norm_out(e, i, &b, ops[0], feature, 3, v, out);
  hs_free(mean);
  hs_free(var);
  norm_free(&b);
  return st;
}

hs_status ev_norm_inference(ev *e, const hlo_instr *i, u32 n, hlo_literal *const *ops, i64 feature,
                            double eps, hlo_literal **out) {
  norm b;
  HS_TRY(norm_init(i, n, ops, feature, eps, &b));
  for (i64 k = 0; k < b.n && !hs_stops(k); k++) {
    i64 f = feature_of(&b, k);
    b.in[0][k] = (b.in[0][k] - b.in[3][f]) / sqrt(b.in[4][f] + b.eps) * b.in[1][f] + b.in[2][f];
  }
  hs_status st = norm_out(e, i, &b, ops[0], feature, 1, b.in, out);
  norm_free(&b);
  return st;
}

hs_status ev_norm_gradient(ev *e, const hlo_instr *i, u32 n, hlo_literal *const *ops, i64 feature,
                           double eps, bool inverse, hlo_literal **out) {
  // operand, scale, mean, variance, gradient of the output
  norm b;
  HS_TRY(norm_init(i, n, ops, feature, eps, &b));
  double *scale = hs_try_calloc((size_t)b.features + 1, sizeof *scale),
         *offset = hs_try_calloc((size_t)b.features + 1, sizeof *offset);
  if (!scale || !offset) return norm_no_memory(&b, scale, offset);
  const double *x = b.in[0], *mean = b.in[2], *g = b.in[4];
  double *var = b.in[3];
  for (i64 f = 0; f < b.features && inverse; f++) var[f] = 1 / (var[f] * var[f]) - b.eps;
  for (i64 k = 0; k < b.n && !hs_stops(k); k++) {
    i64 f = feature_of(&b, k);
    if (!is_used(&b, k)) continue;
    offset[f] += g[k];
    scale[f] += g[k] * (x[k] - mean[f]);  // divided at the end: each term could be infinite
  }
  for (i64 k = 0; k < b.n && !hs_stops(k); k++) {
    i64 f = feature_of(&b, k);
    double inv = 1 / sqrt(var[f] + b.eps), m = (double)b.per;
    double slope = (x[k] - mean[f]) * scale[f] / (var[f] + b.eps);
    b.in[0][k] = b.in[1][f] * inv / m * (m * g[k] - offset[f] - slope);
  }
  for (i64 f = 0; f < b.features; f++) scale[f] /= sqrt(var[f] + b.eps);
  double *v[3] = {b.in[0], scale, offset};
  hs_status st = norm_out(e, i, &b, ops[0], feature, 3, v, out);
  hs_free(scale);
  hs_free(offset);
  norm_free(&b);
  return st;
}

static i64 feature_index(const hlo_instr *i) { return hlo_attr_int(i, HLO_ATTR_FEATURE_INDEX, 0); }
static double epsilon(const hlo_instr *i) {
  const hlo_attr *a = hlo_attr_get(i, HLO_ATTR_EPSILON);
  return a ? a->v.f : 0;
}
hs_status hlo_eval_batch_norm_train(ev *e, const hlo_instr *i, hlo_literal **ops,
                                    hlo_literal **out) {
  return ev_norm_training(e, i, 3, ops, feature_index(i), epsilon(i), false, out);
}
hs_status hlo_eval_batch_norm_inf(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return ev_norm_inference(e, i, 5, ops, feature_index(i), epsilon(i), out);
}
hs_status hlo_eval_batch_norm_grad(ev *e, const hlo_instr *i, hlo_literal **ops,
                                   hlo_literal **out) {
  return ev_norm_gradient(e, i, 5, ops, feature_index(i), epsilon(i), false, out);
}
