// triangular.h — factors (Cholesky, LU, QR) and triangular systems of matrices anywhere in
// memory: what linalg.c makes operations and calls of LAPACK from.
#ifndef CPU_RT_TRIANGULAR_H
#define CPU_RT_TRIANGULAR_H

#include "backends/cpu/rt/rt.h"

// Element (i, j) is i * r + j * c elements behind p; one of the strides is 1, or the matrix has one
// row or column.
typedef struct tri_matrix {
  char *p;
  i64 r, c;
} tri_matrix;

static inline tri_matrix tri_transposed(tri_matrix a) { return (tri_matrix){a.p, a.c, a.r}; }

// The rows and columns of a matrix that is worked on as a whole.
enum { CPU_TRI_BASE = 64 };

// A triangular matrix. The other triangle is not read, nor, with `unit`, the diagonal, which is 1.
typedef struct tri {
  tri_matrix m;
  bool lower, unit, conj;  // conj: its complex conjugate is meant
} tri;

// The lower triangle of the n by n matrix a, positive definite, becomes L, where a = L L^H; the
// upper one stays as it is. *bad: 0, or the order of the first leading minor that is not positive,
// and then the rest is left in between. For an upper factor, pass the transposed matrix. Types:
// f32, f64, c64, c128. Runs on all threads unless it is called in a chunk. E_NO_MEMORY.
hs_status cpu_cholesky(hlo_dtype, tri_matrix a, i64 n, i64 *bad);
// The m by n matrix a becomes L and U, where P a = L U: row k of a was exchanged for row
// pivots[k] - 1, k from 0 on. *bad: 0, or the first k + 1 whose pivot is 0. The same types and
// threads. E_NO_MEMORY.
hs_status cpu_lu(hlo_dtype, tri_matrix a, i64 m, i64 n, i32 *pivots, i64 *bad);
// The m by n matrix a becomes R and, below the diagonal, the reflectors whose product is Q, where
// a = Q R: H = I - tau[k] v v^T for each k, with 1 on v's diagonal. f32 and f64. What is not finite
// spreads over its panel. Runs on all threads unless it is called in a chunk. E_NO_MEMORY.
hs_status cpu_qr(hlo_dtype, tri_matrix a, i64 m, i64 n, void *tau);
// The m by n matrix q, k <= n <= m, of k reflectors as cpu_qr leaves them, becomes the first n
// columns of their product. As above.
hs_status cpu_qr_product(hlo_dtype, tri_matrix q, i64 m, i64 n, i64 k, const void *tau);
// The n by k matrix x becomes the solution y of l y = x.
hs_status cpu_triangular_solve(hlo_dtype, tri l, i64 n, tri_matrix x, i64 k);

#endif
