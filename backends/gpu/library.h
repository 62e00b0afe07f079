// library.h — steps that NVIDIA's libraries compute instead of our kernels, private to
// backends/gpu.
//
//   product.c  what a dot is to BLAS: sizes, strides, types (products.def)
//   library.c  cuBLASLt on a device: which dots, by which of its algorithms, how they are run
//
// A step that a library computes has our kernel as well: it is what is measured against, and what
// runs where the library does not do it.
#ifndef GPU_LIBRARY_H
#define GPU_LIBRARY_H

#include "backends/gpu/cuda/cublaslt.h"
#include "backends/gpu/gpu.h"

typedef struct gpu_matrix {
  bool turned;         // stored with rows and columns exchanged
  i64 leading, batch;  // elements from column to column as stored, from matrix to matrix
} gpu_matrix;

// D = A B: m rows, n columns, sums of k; column-major.
typedef struct gpu_product {
  i64 m, n, k, batch;
  gpu_matrix a, b, d;
  hlo_dtype type[3];  // of a, b, d
  u32 a_in, b_in;     // operands
  int compute, scale;
} gpu_product;
// Whether the instruction is one, of types that the compute capability multiplies.
bool gpu_product_of(const hlo_instr *, u32 sm, gpu_product *);
double gpu_product_steps(const gpu_product *);  // multiplications

#endif
