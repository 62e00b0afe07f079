// lapack.h — calls of LAPACK's routines, as lapack.c runs them by a library and routines.c
// describes them. Private to the two.
#ifndef GPU_LAPACK_H
#define GPU_LAPACK_H

#include "backends/gpu/library.h"

enum { MOST_ARRAYS = 3, MOST_VECTORS = 3, NOWHERE = UINT32_MAX };

// Matrices that the library reads or writes, one for each of the batch.
typedef struct matrices {
  i64 rows, columns;
  u32 from, to;             // the operand, the result, or NOWHERE
  bool turn_from, turn_to;  // which lies the other way round than the library has it
  // the result has so many of the library's columns, as its columns or rows, in the order in which
  // they lie or turned, or the conjugate numbers; kept 0: it is the library's but for turn_to
  i64 kept;
  bool turned, conjugate;
  bool own;  // no operand or result is worked on
  i64 at;    // in the scratch block, where one of these is so
  u32 helper_from, helper_to;
} matrices;

// Vectors that the library reads or writes, one for each of the batch.
typedef struct vector_set {
  u32 leaf;   // operands first
  i64 bytes;  // of one
} vector_set;

typedef struct lapack_call lapack_call;
// All matrices of a batch by one call, or what is done by more than a call.
typedef struct together {
  const char *library, *call;
  // Whether that is meant and can be done here; asks for its workspace, adds its helpers.
  hs_status (*open)(gpu_program *, const hlo_instr *, lapack_call *, bool *may);
  hs_status (*run)(gpu_program *, lapack_call *, const cuda_ptr *array, const cuda_ptr *vector,
                   cuda_ptr scratch, cuda_ptr info);
} together;
typedef struct routine {
  const char *target, *name;  // in front of and behind LAPACK's letter; name "": it has none
  const char *call;           // cuSOLVER's
  // Whether it is one; describes its arrays.
  bool (*fits)(lapack_call *, const hlo_instr *);
  hs_status (*room)(lapack_call *);
  solver_result (*run)(const lapack_call *, const cuda_ptr *array, const cuda_ptr *vector,
                       cuda_ptr work, cuda_ptr info);
  const together *all;  // NULL: there is no such call
} routine;

struct lapack_call {
  gpu_call call;
  const gpu_solver *solver;
  const gpu_cublas *blas;
  const routine *routine;
  const together *all;  // how it is done; NULL: one by one
  solver_jacobi *jacobi;
  solver_turns *turns;
  solver_params *params;
  void *host;  // pinned: a workspace
  size_t device_bytes, host_bytes;
  u32 unpack;  // helper
  gpu_addresses list;
  hlo_dtype type;
  u32 number;          // of the type: row of the tables of functions
  i64 batch, m, n, k;  // of the first matrices; k: of what is computed
  matrices array[MOST_ARRAYS];
  vector_set vector[MOST_VECTORS];
  u32 narrays, nvectors;
  u32 zeros[2], nzeros;             // results that nobody asked for: zeros, as in the evaluator
  u32 info;                         // leaf, operands first; NOWHERE
  char mode, triangle;              // LAPACK's letters
  bool left, adjoint;               // ormqr
  int room;                         // elements of the workspace
  i64 work_bytes;                   // of it and what lies behind it; 0: of its elements
  i64 values_at, info_at, list_at;  // in the scratch block
};

// Whether a routine of cuSOLVER does the instruction's call; describes it.
bool gpu_lapack_describe(const hlo_instr *, lapack_call *);
// Leaf k of the results; NULL: there is none.
const hlo_shape *gpu_lapack_result(const hlo_instr *, u32 k);

#endif
