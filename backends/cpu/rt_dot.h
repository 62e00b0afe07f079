// rt_dot.h — a dot product in its collapsed form, shared by the files of the dot kernel:
//
//   rt_dot_pack.c   compute types, packing of strided operands to dense ones and back
//   rt_dot_loops.c  loops of our own: matrix times matrix, matrix times vector
//   rt_dot_dnnl.c   oneDNN's matmul
//   rt_dot.c        collapses a dot, chooses among them, runs it
//
// The first knows none of the others, the next two only the first, and rt_dot.c calls all three.
//
// The collapsed form is C[b,m,n] = sum over k of A[b,m,k] B[b,k,n]. All strides are in elements,
// all scratch offsets in bytes.
#ifndef CPU_RT_DOT_H
#define CPU_RT_DOT_H

#include "backends/cpu/cpu.h"

// Strides of one operand, or of the result: batch, row and column.
typedef struct dot_side {
  i64 b, r, c;
} dot_side;

// What elements are while they are multiplied and added. DOT_S16 is for operands only: their
// products are added in DOT_U32.
typedef enum dot_compute {
  DOT_F32,
  DOT_F64,
  DOT_U32,
  DOT_U64,
  DOT_C64,
  DOT_C128,
  DOT_S16
} dot_compute;

typedef struct dot_dnnl dot_dnnl;  // a prepared oneDNN primitive, see rt_dot_dnnl.c

typedef struct dot {
  i64 B, M, N, K;
  dot_side a, b, c;
  hlo_dtype ta, tb, tc;  // element types in memory; ta and tb are exchanged when `swapped` is set
  hlo_dtype rhs_type;    // of the right operand as the instruction has it
  // of the sums and of the operands; they differ for DOT_S16 only
  dot_compute sum_type, operand_type;
  // Dims and strides of the arrays as they lie in memory, ordered by group (batch, row, column):
  // what packing goes through when an array does not collapse.
  u32 ra, rb, rc;
  i64 da[HLO_MAX_RANK], sa[HLO_MAX_RANK], db[HLO_MAX_RANK], sb[HLO_MAX_RANK], dc[HLO_MAX_RANK],
      sc[HLO_MAX_RANK];
  bool pack_a, pack_b, pack_c;  // through scratch, in their compute type
  i64 at_a, at_b, at_c;         // scratch offsets
  bool vector;                  // M = 1: cpu_dot_vector computes it
  // the operands are exchanged: N was 1, or the result is stored by columns
  bool swapped;
  dot_dnnl *dnnl;  // NULL: our own loops compute it; owned
} dot;

// ---- rt_dot_pack.c ------------------------------------------------------------------------------
size_t cpu_dot_compute_size(dot_compute);  // bytes of an element
// Whether values of the type in memory are already what loops over the compute type read.
bool cpu_dot_stored_as(hlo_dtype, dot_compute);
// Copies between an array of type t with the given dims and strides and a dense row-major array of
// the compute type: from the array to the dense one, or back when `store` is set. Runs on all
// threads when it is large.
void cpu_dot_pack(void *dense, void *array, hlo_dtype t, dot_compute, u32 rank, const i64 *dims,
                  const i64 *strides, bool store);
// Sets the strides of those operands, and of the result, that go through scratch.
void cpu_dot_pack_strides(dot *);

// ---- rt_dot_loops.c -----------------------------------------------------------------------------
// a, b: operands of the compute type operand_type, with the strides of d->a and d->b; c: the result
// in sum_type. Runs on all threads when it is large.
void cpu_dot_gemm(const dot *, const void *a, const void *b, void *c);
// The same for M = 1: x is dense in sum_type, b as it lies in memory (tb: f32, bf16, s8 or u8).
void cpu_dot_vector(const dot *, const void *x, const void *b, void *c);

// ---- rt_dot_dnnl.c ------------------------------------------------------------------------------
// Prepares oneDNN for the dot when it has a fast and exact primitive for it: fills d->dnnl and what
// has to be packed. False, with d as it was but for what is packed, when it has none (or is not
// built in): then the loops compute it.
bool cpu_dot_dnnl_prepare(dot *);
hs_status cpu_dot_dnnl_run(const dot *, const void *a, const void *b, void *c);
void cpu_dot_dnnl_free(dot_dnnl *);  // NULL is fine

#endif
