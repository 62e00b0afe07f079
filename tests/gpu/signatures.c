// signatures.c — compiled, never run: every function of NVIDIA's libraries takes what its row in
// backends/gpu's tables says, and so does every version of the driver's that is asked for.
//
// tests/cuda_headers.sh makes a function of each row, which takes the row's arguments and calls the
// one of the headers with them; the compiler is told to refuse what the prototype would convert:
// other widths, other pointers, const lost (-Wtraditional-conversion and the like). Here is what
// our types stand for. An enumeration is an int in the rows; an address is a CUdeviceptr to the
// driver and a pointer to the libraries.
#include <stddef.h>
#include <stdint.h>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cufft.h>
#include <cupti.h>
#include <cusolverDn.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef int cuda_result, cuda_device, blas_result, dnn_result, fft_result, fft_plan, solver_result,
    nccl_result, cupti_result, ml_result;

#define MEANS(ours, theirs) typedef __typeof__(*(theirs)0) ours;
// ---- the driver ----
#define i64 int64_t
#define u64 uint64_t
#define cuda_ptr CUdeviceptr
MEANS(cuda_context, CUcontext)
MEANS(cuda_module, CUmodule)
MEANS(cuda_function, CUfunction)
MEANS(cuda_stream, CUstream)
MEANS(cuda_event, CUevent)
MEANS(cuda_graph, CUgraph)
MEANS(cuda_graph_node, CUgraphNode)
MEANS(cuda_graph_exec, CUgraphExec)
typedef CUgraphNodeParams cuda_node;
typedef void cuda_host_fn(void *arg);
#include "cuda_calls.h"
#undef cuda_ptr

// ---- CUPTI ----
typedef void cupti_requested(u8 **buffer, size_t *size, size_t *most_records);
typedef void cupti_completed(CUcontext context, u32 stream, u8 *buffer, size_t size, size_t valid);
#include "cupti_calls.h"

// ---- cuBLAS, cuSOLVER, cuFFT ----
#define cuda_ptr void *
MEANS(blas_handle, cublasLtHandle_t)
MEANS(blas_desc, cublasLtMatmulDesc_t)
MEANS(blas_layout, cublasLtMatrixLayout_t)
MEANS(blas_preference, cublasLtMatmulPreference_t)
typedef cublasLtMatmulHeuristicResult_t blas_choice;
typedef cublasLtMatmulAlgo_t blas_algorithm;
MEANS(cublas_handle, cublasHandle_t)
MEANS(solver_handle, cusolverDnHandle_t)
MEANS(solver_jacobi, syevjInfo_t)
MEANS(solver_turns, gesvdjInfo_t)
MEANS(solver_params, cusolverDnParams_t)
#include "cublas_calls.h"
#include "cublaslt_calls.h"
#include "cusolver_calls.h"

// ---- cuDNN and NCCL ----
#if __has_include(<cudnn.h>)
#include <cudnn.h>
MEANS(dnn_handle, cudnnHandle_t)
typedef void dnn_desc;  // theirs is a pointer to anything
#include "cudnn_calls.h"
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
MEANS(nccl_comm, ncclComm_t)
#include "nccl_calls.h"
#endif

// ---- those that write long long ----
#undef i64
#undef u64
#define i64 long long
#define u64 unsigned long long
#include "cufft_calls.h"
#if __has_include(<nvml.h>)
#include <nvml.h>
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
MEANS(ml_device, nvmlDevice_t)
#include "nvml_calls.h"
#endif
