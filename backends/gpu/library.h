// library.h — steps that NVIDIA's libraries compute instead of our kernels, private to
// backends/gpu.
//
//   product.c  what a dot is to BLAS: sizes, strides, types (products.def)
//   epilogue.c what may be done to its result before it is stored
//   blas.c     cuBLASLt: which dots, by which of its algorithms, how they are run
//   window.c   cuDNN: convolutions, as dots, with what follows them
//   fourier.c  cuFFT: transforms
//   factor.c, triangular.c  cuSOLVER and cuBLAS: Cholesky factors, triangular systems
//   lapack.c, routines.c  cuSOLVER, and cuBLAS for many: LU, QR, eigenvalues, singular values
//   library.c  what they have in common: the library that is open, and the calls of a program
//
// A dot or convolution has our kernel as well: it is what the library is measured against, and what
// runs where that does not do it. Where there is no kernel of ours a library does the step *alone*:
// without it the host does. Around its call there may be *helpers*, kernels of ours made from HLO
// text.
#ifndef GPU_LIBRARY_H
#define GPU_LIBRARY_H

#include "backends/gpu/cuda/cublas.h"
#include "backends/gpu/cuda/cudnn.h"
#include "backends/gpu/cuda/cufft.h"
#include "backends/gpu/cuda/cusolver.h"
#include "backends/gpu/gpu.h"

// ---- calls --------------------------------------------------------------------------------------
typedef struct gpu_call_kind {
  bool unrecorded;  // its calls may not be part of a recorded sequence
  // Enqueues what computes the step.
  hs_status (*run)(gpu_program *, const cpu_step *, gpu_call *);
  // Of a call that does its step alone, when the program is on the device; NULL: nothing to do.
  hs_status (*ready)(gpu_program *, const cpu_step *, gpu_call *);
  void (*print)(const gpu_call *, hs_buf *);  // what is computed: "128 x 128 by 64"
  void (*free)(gpu_program *, gpu_call *);    // what is kept for it
} gpu_call_kind;

enum { GPU_MOST_HELPERS = 6 };  // of a call

// The first member of every sort of call; in the program's arena.
struct gpu_call {
  const gpu_call_kind *kind;
  const emit_gpu_kernel *alone;  // the kernel that stands for its step, where it does that alone
  bool chosen;                   // and not our kernel
  u32 nhelpers;
  const emit_gpu_kernel *helper[GPU_MOST_HELPERS];
  cuda_function *function[GPU_MOST_HELPERS];  // of each, when the program is on the device
  char text[64], note[200];                   // in tables; in `dump schedule`
};
// Adds it to the program's, which frees it.
void gpu_call_add(gpu_program *, gpu_call *);
// Makes the kernel that stands for the step of an instruction, when the call has its helpers.
void gpu_call_stands(gpu_program *, gpu_call *, const hlo_instr *);

// ---- libraries ----------------------------------------------------------------------------------
// The first member of every sort of library; belongs to the device.
struct gpu_library {
  bool open;
  char *why;  // it is not
};
typedef struct gpu_library_kind {
  size_t bytes;  // of its structure
  const char *name, *variable;
  hs_status (*open)(gpu_library *);
} gpu_library_kind;
// The device's library, opened when it is first asked for; afterwards the reason why it is not open
// is kept, and is the error.
hs_status gpu_library_find(gpu_device *, gpu_library **at, const gpu_library_kind *, void *out);

// ---- helpers ------------------------------------------------------------------------------------
// The call's next one: a kernel for the fusion that is the root of a module, of which text is the
// source. E_UNSUPPORTED.
hs_status gpu_helper_add(gpu_program *, hlo_ctx *, const char *text, gpu_call *);
// Launches the call's helper of that number: on operands, results and the scratch block.
hs_status gpu_helper_run(gpu_program *, const gpu_call *, u32 number, u32 n, cuda_ptr *params);

// ---- addresses of matrices ----------------------------------------------------------------------
// Lists of them, as calls for several matrices take them from the device's memory.
typedef struct gpu_addresses {
  cuda_ptr *list;  // pinned; NULL: there is none yet
  cuda_ptr first[2];
} gpu_addresses;
// Enqueues the copy of the lists, one after the other, to `to`: of `sets` lists (2 at most) each
// has n addresses that are bytes[k] apart. Not for a recorded sequence.
hs_status gpu_addresses_put(gpu_program *, gpu_addresses *, u32 sets, const cuda_ptr *first,
                            const i64 *bytes, i64 n, cuda_ptr to);
void gpu_addresses_free(gpu_program *, gpu_addresses *);

i64 gpu_aligned(i64 bytes);      // the next multiple of GPU_ALIGN
u32 gpu_linear_type(hlo_dtype);  // 0 to 3: f32, f64, c64, c128

// ---- factor.c, triangular.c, lapack.c -----------------------------------------------------------
typedef struct gpu_solver {
  gpu_library l;
  solver_api api;
  solver_handle *handle;
} gpu_solver;
hs_status gpu_solver_find(gpu_device *, const gpu_solver **out);
// Whether it can say how many elements a workspace has: of large matrices no int holds them.
hs_status gpu_solver_room(int elements);
// As for fourier.c. An error says why the library does not do it.
bool gpu_factor_is(const hlo_instr *);
hs_status gpu_factor_add(gpu_program *, const hlo_instr *, gpu_call **out, i64 *scratch);
typedef struct gpu_cublas {
  gpu_library l;
  cublas_api api;
} gpu_cublas;
hs_status gpu_cublas_find(gpu_device *, const gpu_cublas **out);
bool gpu_triangular_is(const hlo_instr *);
hs_status gpu_triangular_add(gpu_program *, const hlo_instr *, gpu_call **out, i64 *scratch);
bool gpu_lapack_is(const hlo_instr *);
hs_status gpu_lapack_add(gpu_program *, const hlo_instr *, gpu_call **out, i64 *scratch);

// ---- fourier.c ----------------------------------------------------------------------------------
bool gpu_fourier_is(const hlo_instr *);  // a transform that cuFFT does
// A call for one that it is, with what its step needs. An error says why the library refuses it.
hs_status gpu_fourier_add(gpu_program *, const hlo_instr *, gpu_call **out, i64 *scratch);

// ---- blas.c, product.c, epilogue.c --------------------------------------------------------------
// Bytes of workspace that cuBLASLt wants for the instruction; -1: it does not compute it. Opens the
// library when it is first needed. An error only where libraries are insisted on.
hs_status gpu_blas_wants(gpu_program *, const hlo_instr *, i64 *workspace);
// Of a loaded program, before it runs: chooses an algorithm for a kernel that is a dot, or ours.
hs_status gpu_blas_prepare(gpu_program *, u32 kernel);
// The same of convolutions, by cuDNN.
hs_status gpu_window_wants(gpu_program *, const hlo_instr *, i64 *workspace);
hs_status gpu_window_prepare(gpu_program *, u32 kernel);

// Fills the memory of the program, constants aside, with numbers, the first time.
hs_status gpu_library_fill(gpu_program *);
// The time of what run enqueues, the least of a few, ms. run NULL: of our kernel.
typedef hs_status gpu_trial(gpu_program *, const cpu_step *, const void *arg);
hs_status gpu_library_time(gpu_program *, const cpu_step *, gpu_trial *run, const void *arg,
                           double *ms);
// Strides in elements, by dimension; false for what is not dense or has more dimensions.
bool gpu_strides(const hlo_shape *, u32 most_rank, i64 *out);

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
  // D = activation(A B + bias): the epilogue's number (cublaslt_numbers.def); 0: there is none
  u32 epilogue;
  bool bias, both;  // there is a bias; what the activation takes is the second result
  u32 bias_in;      // operand: m numbers of D's type
} gpu_product;
// Whether the instruction is one, of types that the compute capability multiplies: a dot, or a
// fusion of a dot and an epilogue.
bool gpu_product_of(const hlo_instr *, u32 sm, gpu_product *);
typedef enum gpu_epilogues {
  GPU_EPILOGUES_NONE,
  GPU_EPILOGUES_BIAS_RELU,
  GPU_EPILOGUES_ALL
} gpu_epilogues;
// Of a dot alone; and what epilogues the library has for its types.
bool gpu_product_of_dot(const hlo_instr *, u32 sm, gpu_product *, gpu_epilogues *);
// ", bias, gelu"; "" where there is none.
const char *gpu_epilogue_text(const gpu_product *);
double gpu_product_steps(const gpu_product *);  // multiplications

#endif
