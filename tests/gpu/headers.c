// headers.c — compiled, never run: what backends/gpu says of NVIDIA's libraries is what their own
// headers say: numbers and structures (tests/cuda_headers.sh). signatures.c has what functions
// take.
#include <cublasLt.h>

#include "backends/gpu/cuda/cublaslt.h"

#define SAME_NUMBER(ours, theirs) \
  _Static_assert((long)(theirs) == (long)(ours), #theirs " has another number");

#define BLAS_NUMBER(name, theirs, value) SAME_NUMBER(value, theirs)
#include "backends/gpu/cuda/cublaslt_numbers.def"
#undef BLAS_NUMBER

enum { CUBLAS_STATUS_UNKNOWN = BLAS_UNKNOWN };  // ours, for all others
#define BLAS_ERROR(number, name, code, advice) SAME_NUMBER(number, CUBLAS_STATUS_##name)
#include "backends/gpu/cuda/cublaslt_errors.def"
#undef BLAS_ERROR

#define SAME_PLACE(ours, theirs)                                                 \
  _Static_assert(offsetof(blas_choice, ours) ==                                  \
                         offsetof(cublasLtMatmulHeuristicResult_t, theirs) &&    \
                     sizeof(((blas_choice *)0)->ours) ==                         \
                         sizeof(((cublasLtMatmulHeuristicResult_t *)0)->theirs), \
                 "blas_choice is laid out otherwise")
SAME_PLACE(algorithm, algo);
SAME_PLACE(workspace_bytes, workspaceSize);
SAME_PLACE(state, state);
SAME_PLACE(waves, wavesCount);
SAME_PLACE(reserved, reserved);
_Static_assert(sizeof(blas_choice) == sizeof(cublasLtMatmulHeuristicResult_t) &&
                   sizeof(blas_algorithm) == sizeof(cublasLtMatmulAlgo_t),
               "structures are as large");
_Static_assert(CUBLAS_VERSION >= BLAS_OLDEST && CUBLAS_VERSION < BLAS_TOO_NEW,
               "the toolkit's version is one that is taken");

_Static_assert(sizeof(cublasStatus_t) == sizeof(blas_result) &&
                   sizeof(cudaDataType) == sizeof(int) &&
                   sizeof(cublasComputeType_t) == sizeof(int) && sizeof(cuda_ptr) == sizeof(void *),
               "enumerations are ints, addresses are pointers");

// ---- cuFFT --------------------------------------------------------------------------------------
#include <cufft.h>

#include "backends/gpu/cuda/cufft.h"

#define FFT_NUMBER(name, theirs, value) SAME_NUMBER(value, theirs)
#include "backends/gpu/cuda/cufft_numbers.def"
#undef FFT_NUMBER

enum { CUFFT_UNKNOWN = FFT_UNKNOWN };  // ours, for all others
#define FFT_ERROR(number, name, code, advice) SAME_NUMBER(number, CUFFT_##name)
#include "backends/gpu/cuda/cufft_errors.def"
#undef FFT_ERROR

_Static_assert(sizeof(cufftResult) == sizeof(fft_result) &&
                   sizeof(cufftHandle) == sizeof(fft_plan) && sizeof(cufftType) == sizeof(int) &&
                   sizeof(long long) == sizeof(i64),
               "enumerations and plans are ints, sizes are 64 bits");
_Static_assert(CUFFT_VERSION >= FFT_OLDEST && CUFFT_VERSION < FFT_TOO_NEW,
               "the toolkit's version is one that is taken");

// ---- cuBLAS, cuSOLVER ---------------------------------------------------------------------------
#include <cublas_v2.h>
#include <cusolverDn.h>

// Names of ours that begin as theirs do.
#define CUBLAS_NUMBER(name, theirs, value) SAME_NUMBER(value, theirs)
#include "backends/gpu/cuda/cublas_numbers.def"
#undef CUBLAS_NUMBER

#include "backends/gpu/cuda/cusolver.h"

enum { CUSOLVER_STATUS_UNKNOWN = SOLVER_UNKNOWN };  // ours, for all others
#define SOLVER_ERROR(number, name, code, advice) SAME_NUMBER(number, CUSOLVER_STATUS_##name)
#include "backends/gpu/cuda/cusolver_errors.def"
#undef SOLVER_ERROR

_Static_assert((int)CUSOLVER_EIG_MODE_NOVECTOR == SOLVER_VALUES &&
                   (int)CUSOLVER_EIG_MODE_VECTOR == SOLVER_VECTORS,
               "what is asked of eigenproblems has other numbers");
_Static_assert((int)CUDA_R_32F == SOLVER_F32 && (int)CUDA_R_64F == SOLVER_F64 &&
                   (int)CUDA_C_32F == SOLVER_C64 && (int)CUDA_C_64F == SOLVER_C128,
               "types have other numbers");
_Static_assert(CUSOLVER_VERSION >= SOLVER_OLDEST && CUSOLVER_VERSION < SOLVER_TOO_NEW,
               "the toolkit's version is one that is taken");

// ---- cuDNN --------------------------------------------------------------------------------------
#if __has_include(<cudnn.h>)
#include <cudnn.h>

#include "backends/gpu/cuda/cudnn.h"

#define DNN_NUMBER(name, theirs, value) SAME_NUMBER(value, theirs)
#include "backends/gpu/cuda/cudnn_numbers.def"
#undef DNN_NUMBER

enum { CUDNN_STATUS_UNKNOWN = DNN_UNKNOWN };  // ours, for all others
#define DNN_ERROR(number, name, code, advice) SAME_NUMBER(number, CUDNN_STATUS_##name)
#include "backends/gpu/cuda/cudnn_errors.def"
#undef DNN_ERROR

_Static_assert(CUDNN_VERSION >= DNN_OLDEST && CUDNN_VERSION < DNN_TOO_NEW,
               "the version that is installed is one that is taken");
_Static_assert(sizeof(cudnnBackendDescriptor_t) == sizeof(dnn_desc *) &&
                   sizeof(cudnnDataType_t) == sizeof(int) &&
                   sizeof(cudnnBackendNumericalNote_t) == sizeof(int),
               "descriptors are pointers, enumerations are ints");
#endif

// ---- the driver ---------------------------------------------------------------------------------
#include <cuda.h>

#include "backends/gpu/cuda/cuda_api.h"

_Static_assert(sizeof(cuda_node) == sizeof(CUgraphNodeParams) &&
                   offsetof(cuda_node, conditional) == offsetof(CUgraphNodeParams, conditional) &&
                   sizeof(((cuda_node *)0)->conditional) == sizeof(CUDA_CONDITIONAL_NODE_PARAMS),
               "nodes are as large");
#define SAME_MEMBER(ours, theirs)                                     \
  _Static_assert(offsetof(cuda_node, conditional.ours) ==             \
                     offsetof(CUgraphNodeParams, conditional.theirs), \
                 "cuda_node is laid out otherwise")
SAME_MEMBER(condition, handle);
SAME_MEMBER(kind, type);
SAME_MEMBER(nbodies, size);
SAME_MEMBER(bodies, phGraph_out);
SAME_MEMBER(context, ctx);
#define CUDA_NUMBER(name, theirs, value) SAME_NUMBER(value, theirs)
#include "backends/gpu/cuda/cuda_numbers.def"
#undef CUDA_NUMBER
#define CUDA_ERROR(number, name, scope, code, advice) SAME_NUMBER(number, CUDA_ERROR_##name)
#include "backends/gpu/cuda/errors.def"
#undef CUDA_ERROR
_Static_assert(sizeof(CUresult) == sizeof(cuda_result) && sizeof(CUdevice) == sizeof(cuda_device) &&
                   sizeof(CUdeviceptr) == sizeof(cuda_ptr) && sizeof(CUjit_option) == sizeof(int),
               "enumerations and devices are ints, addresses have 64 bits");

// ---- NCCL ---------------------------------------------------------------------------------------
#if __has_include(<nccl.h>)
#include <nccl.h>

#include "backends/gpu/nccl/nccl.h"

#define NCCL_NUMBER(name, theirs, value) SAME_NUMBER(value, theirs)
#include "backends/gpu/nccl/nccl_numbers.def"
#undef NCCL_NUMBER
_Static_assert((int)ncclUnhandledCudaError == NCCL_UNHANDLED_CUDA &&
                   (int)ncclSystemError == NCCL_SYSTEM && (int)ncclInternalError == NCCL_INTERNAL &&
                   (int)ncclInvalidArgument == NCCL_INVALID_ARGUMENT &&
                   (int)ncclInvalidUsage == NCCL_INVALID_USAGE &&
                   (int)ncclRemoteError == NCCL_REMOTE,
               "errors have their numbers");
_Static_assert(sizeof(ncclResult_t) == sizeof(nccl_result) &&
                   sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int),
               "enumerations are ints");
_Static_assert(NCCL_VERSION_CODE >= NCCL_OLDEST && NCCL_VERSION_CODE < NCCL_TOO_NEW,
               "the version that is installed is one that is taken");
#endif

// ---- NVML ---------------------------------------------------------------------------------------
#if __has_include(<nvml.h>)
#include <nvml.h>

#include "backends/gpu/nvml/nvml.h"

#define ML_NUMBER(name, theirs, value) SAME_NUMBER(value, theirs)
#include "backends/gpu/nvml/nvml_numbers.def"
#undef ML_NUMBER
#define ML_REASON(name, theirs, bit, text) \
  _Static_assert((long)(theirs) == (bit), #theirs " is another bit");
#include "backends/gpu/nvml/nvml_reasons.def"
#undef ML_REASON

_Static_assert(sizeof(nvmlReturn_t) == sizeof(ml_result) &&
                   sizeof(nvmlClockType_t) == sizeof(int) &&
                   sizeof(nvmlDevice_t) == sizeof(ml_device *),
               "enumerations are ints, devices are pointers");
#endif

// ---- CUPTI's records ----------------------------------------------------------------------------
#include <cupti.h>

#include "backends/gpu/cupti/cupti.h"

// Members lie where they are read, in the newest version and in the oldest one that is declared.
#define CUPTI_RECORD(kind, field, at, type, oldest, member)                          \
  _Static_assert(offsetof(type, member) == (at) && offsetof(oldest, member) == (at), \
                 #type " is laid out otherwise");
#include "backends/gpu/cupti/cupti_records.def"
#undef CUPTI_RECORD
SAME_NUMBER(CUPTI_COPY, CUPTI_ACTIVITY_KIND_MEMCPY)
SAME_NUMBER(CUPTI_SET, CUPTI_ACTIVITY_KIND_MEMSET)
SAME_NUMBER(CUPTI_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER)
SAME_NUMBER(CUPTI_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME)
SAME_NUMBER(CUPTI_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
SAME_NUMBER(CUPTI_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD)
SAME_NUMBER(CUPTI_EXTERNAL, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)
SAME_NUMBER(CUPTI_GRAPH, CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
SAME_NUMBER(CUPTI_OK, CUPTI_SUCCESS)
SAME_NUMBER(CUPTI_MAX_LIMIT, CUPTI_ERROR_MAX_LIMIT_REACHED)
SAME_NUMBER(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)
SAME_NUMBER(CUPTI_CUSTOM, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)

#define CUPTI_ERROR(number, name, advice) SAME_NUMBER(number, CUPTI_ERROR_##name)
#include "backends/gpu/cupti/cupti_errors.def"
#undef CUPTI_ERROR

// ---- CUPTI's counters ---------------------------------------------------------------------------
#if __has_include(<cupti_range_profiler.h>) && __has_include(<cupti_profiler_host.h>)
#include <cupti_target.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>

#include "backends/gpu/cupti/counters.h"

// Sizes up to the last member, and where each lies.
#define COUNTERS_FN(field, symbol, args, last, theirs)                                     \
  _Static_assert(offsetof(args, last) + sizeof(((args *)0)->last) == theirs##_STRUCT_SIZE, \
                 #theirs " has another size");                                             \
  static inline CUptiResult call_##field(theirs *p) { return symbol(p); }
#include "backends/gpu/cupti/counters.def"
#undef COUNTERS_FN
#define F(type, name, theirs) \
  _Static_assert(offsetof(our, name) == offsetof(their, theirs), #theirs " lies elsewhere");
#define COUNTERS_ARGS(name, theirs, fields) \
  static inline void same_##name(void) {    \
    typedef name our;                       \
    typedef theirs their;                   \
    (void)sizeof(our), (void)sizeof(their); \
    fields                                  \
  }
#include "backends/gpu/cupti/counters_args.def"
#undef COUNTERS_ARGS
#undef F
SAME_NUMBER(COUNTERS_BY_RANGE, CUPTI_PROFILER_TYPE_RANGE_PROFILER)
SAME_NUMBER(COUNTERS_OUR_RANGES, CUPTI_UserRange)
SAME_NUMBER(COUNTERS_OUR_REPLAY, CUPTI_UserReplay)
SAME_NUMBER(COUNTERS_NO_METRIC, CUPTI_ERROR_INVALID_METRIC_NAME)
#endif
