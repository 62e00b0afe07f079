// dot.h — a dot product in its collapsed form, shared by the files of the dot kernel:
//
//   dot_pack.c   compute types, packing of strided operands to dense ones and back
//   dot_micro.c  kernels for a block of the result that stays in registers
//   dot_tiles.c  matrix times matrix by those kernels
//   dot_rows.c   a few rows times a matrix, at memory speed
//   dot_dnnl.c   oneDNN's matmul
//   dot.c        collapses a dot, chooses among them and plain loops, runs it
//
// The first two know none of the others, the next three only those, and dot.c calls them all.
//
// The collapsed form is C[b,m,n] = sum over k of A[b,m,k] B[b,k,n], where b may run over several
// dims. All strides are in elements, all scratch offsets in bytes.
#ifndef CPU_RT_DOT_H
#define CPU_RT_DOT_H

#include "backends/cpu/rt/rt.h"

// Strides of one operand, or of the result: row and column.
typedef struct dot_side {
  i64 r, c;
} dot_side;

// What elements are while they are multiplied and added. DOT_S16 and DOT_S8 are for operands only:
// their products are added in DOT_U32. DOT_S8: bytes, the right operand's signed.
typedef enum dot_compute {
  DOT_F32,
  DOT_F64,
  DOT_U32,
  DOT_U64,
  DOT_C64,
  DOT_C128,
  DOT_S16,
  DOT_S8
} dot_compute;

typedef struct dot_dnnl dot_dnnl;    // prepared oneDNN primitives, see dot_dnnl.c
typedef struct dot_tiles dot_tiles;  // how a product is cut, see dot_tiles.c

typedef struct dot {
  i64 B, M, N, K;
  dot_side a, b, c;
  // the batch dims, outermost first, and the steps along each in A, B and C
  u32 nbatch;
  i64 batch[HLO_MAX_RANK], step_a[HLO_MAX_RANK], step_b[HLO_MAX_RANK], step_c[HLO_MAX_RANK];
  hlo_dtype ta, tb, tc;  // element types in memory; ta and tb are exchanged when `swapped` is set
  // of the sums and of the operands; they differ for DOT_S16 and DOT_S8 only
  dot_compute sum_type, operand_type;
  // Dims and strides of the arrays as they lie in memory, ordered by group (batch, row, column):
  // what packing goes through when an array does not collapse.
  u32 ra, rb, rc;
  i64 da[HLO_MAX_RANK], sa[HLO_MAX_RANK], db[HLO_MAX_RANK], sb[HLO_MAX_RANK], dc[HLO_MAX_RANK],
      sc[HLO_MAX_RANK];
  u32 groups[3], free_b;        // how many dims are batch, rows and k of A; columns of B
  bool add;                     // to what C holds; by cpu_dot_tiles only, where rows of C are dense
  bool pack_a, pack_b, pack_c;  // through scratch, in their compute type
  bool fixed_a, fixed_b;        // the same in every run: what is packed of them is kept
  bool keep_a, keep_b;          // kept as they are packed, else in scratch
  bool each_a;                  // of rows: each thread packs A, in its own memory
  bool panels_a, panels_b;      // kept in panels (dot_tiles.c)
  i64 at_panels_a, at_panels_b;
  cpu_kept kept;
  bool turned_a, turned_b;  // packed with rows, or k, last
  i64 at_a, at_b, at_c;     // scratch offsets
  // the operands are exchanged: M was the larger of the two, or the result is stored by columns
  bool swapped;
  // at most one of these: cpu_dot_rows computes it; else who owns what; else plain loops
  bool rows;
  i64 parts, at_parts;  // of rows: along k, and the scratch for their sums
  dot_tiles *tiles;
  dot_dnnl *dnnl;
} dot;

// ---- dot.c -----------------------------------------------------------------------------------
// The collapsed form of an instruction, nothing chosen yet: A and B are its operands in order.
void cpu_dot_read(const hlo_instr *, dot *);

// ---- dot_pack.c ------------------------------------------------------------------------------
size_t cpu_dot_compute_size(dot_compute);  // bytes of an element
hlo_dtype cpu_dot_dtype(dot_compute);      // the element type that has its representation
// Whether values of the type in memory are already what loops over the compute type read.
bool cpu_dot_stored_as(hlo_dtype, dot_compute);
// Where the k-th product of the batch begins in each array, in elements.
void cpu_dot_batch(const dot *, i64 k, i64 *a, i64 *b, i64 *c);
// n elements of type t, `stride` elements apart, to a dense run of the compute type, and back.
void cpu_dot_widen(void *to, dot_compute, const void *from, hlo_dtype t, i64 stride, i64 n);
// So many rows of them: `step` bytes apart, and `row` elements.
void cpu_dot_widen_rows(void *to, size_t step, dot_compute, const void *from, hlo_dtype t, i64 row,
                        i64 stride, i64 n, i64 rows);
void cpu_dot_narrow(void *to, hlo_dtype t, i64 stride, const void *from, dot_compute, i64 n);
// Copies between an array of type t with the given dims and strides and a dense row-major array of
// the compute type: from the array to the dense one, or back when `store` is set. Runs on all
// threads when it is large.
void cpu_dot_pack(void *dense, void *array, hlo_dtype t, dot_compute, u32 rank, const i64 *dims,
                  const i64 *strides, bool store);
// Sets the strides of those operands, and of the result, that go through scratch.
void cpu_dot_pack_strides(dot *);

// ---- dot_micro.c -----------------------------------------------------------------------------
// C (or what is in it, when `add` is set) plus the sum over k of A[i][k] B[k][j]. A: element (i, k)
// at a[i * ar + k * ac]; B: row k at b[k * br], whole vectors; C: row i at c[i * cr], the same.
// All in units of the kernel: its compute type, or 32 bits for DOT_S8, where k counts groups of
// four and a row of corrections to C follows the last row of B.
typedef void dot_micro_fn(i64 K, const void *a, i64 ar, i64 ac, const void *b, i64 br, void *c,
                          i64 cr, bool add);
enum { DOT_MOST_ROWS = 12, DOT_VECTOR_BYTES = 64 };
typedef struct dot_micro {
  i64 rows, lanes;  // most rows of a block; units of a vector
  // by vectors (one or two) and rows of the block
  dot_micro_fn *fn[2][DOT_MOST_ROWS];
} dot_micro;
// The kernels for this machine: f32, f64, and DOT_S8 where it has the instruction; else NULL.
const dot_micro *cpu_dot_micro(dot_compute);

// ---- dot_tiles.c -----------------------------------------------------------------------------
// Cuts the product, which is not empty, into tiles: fills d->tiles, a plain allocation. False when
// there is no kernel for its types. Operands that are set to be packed are read packed.
// Of operands that are fixed it keeps the panels, where packing them is a part of the work that
// counts; cpu_dot_tiles_fill packs these, in memory that d->kept has by then.
bool cpu_dot_tiles_prepare(dot *);
void cpu_dot_tiles_fill(const dot *, const void *a, const void *b);
hs_status cpu_dot_tiles_run(const dot *, const void *a, const void *b, void *c);
// A single product (B = 1), from within a chunk of a parallel loop, in the given memory of so many
// bytes.
size_t cpu_dot_tiles_bytes(const dot *);
void cpu_dot_tiles_product(const dot *, const void *a, const void *b, void *c, void *memory);

// ---- dot_rows.c ------------------------------------------------------------------------------
enum { DOT_FEW_ROWS = 8 };
// Whether there is a kernel for rows of the sum type times a matrix of type t.
bool cpu_dot_rows_supports(hlo_dtype t, dot_compute sums);
// Sets d->parts by the shape; bytes of scratch for their sums.
i64 cpu_dot_rows_prepare(dot *);
// Whether each thread packs A, few rows of little memory and many columns to use them for.
bool cpu_dot_rows_packs(const dot *);
// x: the rows of A, dense in sum_type, or A as it lies in memory with d->each_a; b: the matrix as
// it lies in memory; c: in sum_type, with the strides of C; parts: the scratch. E_NO_MEMORY.
hs_status cpu_dot_rows(const dot *, void *x, const void *b, void *c, void *parts);

// ---- dot_dnnl.c ------------------------------------------------------------------------------
// Prepares oneDNN for the dot when it has a fast and exact primitive for it: fills d->dnnl and what
// has to be packed. False, with d as it was but for what is packed, when it has none (or is not
// built in).
bool cpu_dot_dnnl_prepare(dot *);
hs_status cpu_dot_dnnl_run(const dot *, const void *a, const void *b, void *c);
void cpu_dot_dnnl_free(dot_dnnl *);  // NULL is fine

#endif
