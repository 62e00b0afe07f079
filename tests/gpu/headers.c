// headers.c — compiled, never run: what backends/gpu says of NVIDIA's libraries is what their own
// headers say: numbers and structures (tests/cuda_headers.sh). signatures.c has what functions
// take.
#include <cublasLt.h>

#include "backends/gpu/cuda/cublaslt.h"

#define BLAS_NUMBER(name, theirs, value) \
  _Static_assert((long)(theirs) == (value), #theirs " has another number");
#include "backends/gpu/cuda/cublaslt_numbers.def"
#undef BLAS_NUMBER

#define BLAS_ERROR(number, name, code, advice) ERROR_##name(number)
#define SAME_ERROR(name, number) \
  _Static_assert((int)CUBLAS_STATUS_##name == (number), #name " has another number");
#define ERROR_NOT_INITIALIZED(n) SAME_ERROR(NOT_INITIALIZED, n)
#define ERROR_ALLOC_FAILED(n) SAME_ERROR(ALLOC_FAILED, n)
#define ERROR_INVALID_VALUE(n) SAME_ERROR(INVALID_VALUE, n)
#define ERROR_ARCH_MISMATCH(n) SAME_ERROR(ARCH_MISMATCH, n)
#define ERROR_MAPPING_ERROR(n) SAME_ERROR(MAPPING_ERROR, n)
#define ERROR_EXECUTION_FAILED(n) SAME_ERROR(EXECUTION_FAILED, n)
#define ERROR_INTERNAL_ERROR(n) SAME_ERROR(INTERNAL_ERROR, n)
#define ERROR_NOT_SUPPORTED(n) SAME_ERROR(NOT_SUPPORTED, n)
#define ERROR_LICENSE_ERROR(n) SAME_ERROR(LICENSE_ERROR, n)
#define ERROR_UNKNOWN(n)  // ours, for all others
#include "backends/gpu/cuda/cublaslt_errors.def"
#undef BLAS_ERROR
#undef SAME_ERROR

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

#define FFT_NUMBER(name, theirs, value) \
  _Static_assert((long)(theirs) == (value), #theirs " has another number");
#include "backends/gpu/cuda/cufft_numbers.def"
#undef FFT_NUMBER

#define FFT_ERROR(number, name, code, advice) FFT_ERROR_##name(number)
#define SAME_FFT(name, number) \
  _Static_assert((int)CUFFT_##name == (number), #name " has another number");
#define FFT_ERROR_INVALID_PLAN(n) SAME_FFT(INVALID_PLAN, n)
#define FFT_ERROR_ALLOC_FAILED(n) SAME_FFT(ALLOC_FAILED, n)
#define FFT_ERROR_INVALID_TYPE(n) SAME_FFT(INVALID_TYPE, n)
#define FFT_ERROR_INVALID_VALUE(n) SAME_FFT(INVALID_VALUE, n)
#define FFT_ERROR_INTERNAL_ERROR(n) SAME_FFT(INTERNAL_ERROR, n)
#define FFT_ERROR_EXEC_FAILED(n) SAME_FFT(EXEC_FAILED, n)
#define FFT_ERROR_SETUP_FAILED(n) SAME_FFT(SETUP_FAILED, n)
#define FFT_ERROR_INVALID_SIZE(n) SAME_FFT(INVALID_SIZE, n)
#define FFT_ERROR_NOT_SUPPORTED(n) SAME_FFT(NOT_SUPPORTED, n)
#define FFT_ERROR_UNKNOWN(n)  // ours, for all others
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
#define CUBLAS_NUMBER(name, theirs, value) \
  _Static_assert((long)(theirs) == (value), #theirs " has another number");
#include "backends/gpu/cuda/cublas_numbers.def"
#undef CUBLAS_NUMBER

#include "backends/gpu/cuda/cusolver.h"

#define SOLVER_ERROR(number, name, code, advice) SOLVER_ERROR_##name(number)
#define SAME_SOLVER(name, number) \
  _Static_assert((int)CUSOLVER_STATUS_##name == (number), #name " has another number");
#define SOLVER_ERROR_NOT_INITIALIZED(n) SAME_SOLVER(NOT_INITIALIZED, n)
#define SOLVER_ERROR_ALLOC_FAILED(n) SAME_SOLVER(ALLOC_FAILED, n)
#define SOLVER_ERROR_INVALID_VALUE(n) SAME_SOLVER(INVALID_VALUE, n)
#define SOLVER_ERROR_ARCH_MISMATCH(n) SAME_SOLVER(ARCH_MISMATCH, n)
#define SOLVER_ERROR_EXECUTION_FAILED(n) SAME_SOLVER(EXECUTION_FAILED, n)
#define SOLVER_ERROR_INTERNAL_ERROR(n) SAME_SOLVER(INTERNAL_ERROR, n)
#define SOLVER_ERROR_NOT_SUPPORTED(n) SAME_SOLVER(NOT_SUPPORTED, n)
#define SOLVER_ERROR_UNKNOWN(n)  // ours, for all others
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

#define DNN_NUMBER(name, theirs, value) \
  _Static_assert((long)(theirs) == (value), #theirs " has another number");
#include "backends/gpu/cuda/cudnn_numbers.def"
#undef DNN_NUMBER

#define DNN_ERROR(number, name, code, advice) DNN_ERROR_##name(number)
#define SAME_DNN(name, number) \
  _Static_assert((int)CUDNN_STATUS_##name == (number), #name " has another number");
#define DNN_ERROR_NOT_INITIALIZED(n) SAME_DNN(NOT_INITIALIZED, n)
#define DNN_ERROR_SUBLIBRARY_LOADING_FAILED(n) SAME_DNN(SUBLIBRARY_LOADING_FAILED, n)
#define DNN_ERROR_BAD_PARAM(n) SAME_DNN(BAD_PARAM, n)
#define DNN_ERROR_NOT_SUPPORTED(n) SAME_DNN(NOT_SUPPORTED, n)
#define DNN_ERROR_NOT_SUPPORTED_ARCH_MISMATCH(n) SAME_DNN(NOT_SUPPORTED_ARCH_MISMATCH, n)
#define DNN_ERROR_INTERNAL_ERROR(n) SAME_DNN(INTERNAL_ERROR, n)
#define DNN_ERROR_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED(n) \
  SAME_DNN(INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, n)
#define DNN_ERROR_EXECUTION_FAILED(n) SAME_DNN(EXECUTION_FAILED, n)
#define DNN_ERROR_UNKNOWN(n)  // ours, for all others
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
_Static_assert((int)CU_GRAPH_NODE_TYPE_CONDITIONAL == CUDA_NODE_CONDITIONAL &&
                   (int)CU_GRAPH_COND_TYPE_IF == CUDA_NODE_IF &&
                   (int)CU_GRAPH_COND_TYPE_WHILE == CUDA_NODE_WHILE &&
                   (int)CU_STREAM_CAPTURE_STATUS_ACTIVE == CUDA_CAPTURE_ACTIVE &&
                   (int)CU_STREAM_SET_CAPTURE_DEPENDENCIES == CUDA_CAPTURE_SET_AFTER,
               "numbers of conditional nodes");
#define SAME_NUMBER(ours, theirs) \
  _Static_assert((int)(theirs) == (int)(ours), #theirs " has another number");
#define SAME_ERROR(ours, theirs) SAME_NUMBER(CUDA_##ours, theirs)
SAME_ERROR(INVALID_VALUE, CUDA_ERROR_INVALID_VALUE)
SAME_ERROR(OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
SAME_ERROR(NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED)
SAME_ERROR(DEINITIALIZED, CUDA_ERROR_DEINITIALIZED)
SAME_ERROR(PROFILER_DISABLED, CUDA_ERROR_PROFILER_DISABLED)
SAME_ERROR(STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY)
SAME_ERROR(NEEDS_NEWER_DRIVER, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)
SAME_ERROR(DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE)
SAME_ERROR(NO_DEVICE, CUDA_ERROR_NO_DEVICE)
SAME_ERROR(INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE)
SAME_ERROR(NOT_LICENSED, CUDA_ERROR_DEVICE_NOT_LICENSED)
SAME_ERROR(INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE)
SAME_ERROR(INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT)
SAME_ERROR(MAP_FAILED, CUDA_ERROR_MAP_FAILED)
SAME_ERROR(NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU)
SAME_ERROR(ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE)
SAME_ERROR(UNSUPPORTED_LIMIT, CUDA_ERROR_UNSUPPORTED_LIMIT)
SAME_ERROR(INVALID_PTX, CUDA_ERROR_INVALID_PTX)
SAME_ERROR(NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE)
SAME_ERROR(NO_JIT_COMPILER, CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
SAME_ERROR(PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
SAME_ERROR(JIT_DISABLED, CUDA_ERROR_JIT_COMPILATION_DISABLED)
SAME_ERROR(CONTAINED, CUDA_ERROR_CONTAINED)
SAME_ERROR(INVALID_SOURCE, CUDA_ERROR_INVALID_SOURCE)
SAME_ERROR(FILE_NOT_FOUND, CUDA_ERROR_FILE_NOT_FOUND)
SAME_ERROR(SYMBOL_NOT_FOUND, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND)
SAME_ERROR(LIBRARY_INIT, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)
SAME_ERROR(OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM)
SAME_ERROR(INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE)
SAME_ERROR(ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE)
SAME_ERROR(NOT_FOUND, CUDA_ERROR_NOT_FOUND)
SAME_ERROR(NOT_READY, CUDA_ERROR_NOT_READY)
SAME_ERROR(ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS)
SAME_ERROR(LAUNCH_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
SAME_ERROR(LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT)
SAME_ERROR(CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED)
SAME_ERROR(ASSERT, CUDA_ERROR_ASSERT)
SAME_ERROR(HOST_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
SAME_ERROR(HOST_NOT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
SAME_ERROR(HARDWARE_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR)
SAME_ERROR(ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION)
SAME_ERROR(MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS)
SAME_ERROR(ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE)
SAME_ERROR(INVALID_PC, CUDA_ERROR_INVALID_PC)
SAME_ERROR(LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED)
SAME_ERROR(COOPERATIVE_TOO_LARGE, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
SAME_ERROR(NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED)
SAME_ERROR(NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED)
SAME_ERROR(SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY)
SAME_ERROR(DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
SAME_ERROR(COMPAT_NOT_SUPPORTED, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)
SAME_ERROR(MPS_CONNECTION, CUDA_ERROR_MPS_CONNECTION_FAILED)
SAME_ERROR(MPS_NOT_READY, CUDA_ERROR_MPS_SERVER_NOT_READY)
SAME_ERROR(MPS_MAX_CLIENTS, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED)
SAME_ERROR(CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
SAME_ERROR(CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
SAME_ERROR(CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
SAME_ERROR(TIMEOUT, CUDA_ERROR_TIMEOUT)
SAME_ERROR(GRAPH_UPDATE, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
SAME_ERROR(UNKNOWN, CUDA_ERROR_UNKNOWN)
#undef SAME_ERROR
#define SAME_DEVICE(ours, theirs) SAME_NUMBER(CUDA_DEVICE_##ours, CU_DEVICE_ATTRIBUTE_##theirs)
SAME_DEVICE(MAX_THREADS_PER_BLOCK, MAX_THREADS_PER_BLOCK)
SAME_DEVICE(MAX_BLOCK_X, MAX_BLOCK_DIM_X)
SAME_DEVICE(MAX_BLOCK_Y, MAX_BLOCK_DIM_Y)
SAME_DEVICE(MAX_BLOCK_Z, MAX_BLOCK_DIM_Z)
SAME_DEVICE(MAX_GRID_X, MAX_GRID_DIM_X)
SAME_DEVICE(MAX_GRID_Y, MAX_GRID_DIM_Y)
SAME_DEVICE(MAX_GRID_Z, MAX_GRID_DIM_Z)
SAME_DEVICE(SHARED_PER_BLOCK, MAX_SHARED_MEMORY_PER_BLOCK)
SAME_DEVICE(WARP_SIZE, WARP_SIZE)
SAME_DEVICE(REGISTERS_PER_BLOCK, MAX_REGISTERS_PER_BLOCK)
SAME_DEVICE(CLOCK_KHZ, CLOCK_RATE)
SAME_DEVICE(MULTIPROCESSORS, MULTIPROCESSOR_COUNT)
SAME_DEVICE(HAS_TIMEOUT, KERNEL_EXEC_TIMEOUT)
SAME_DEVICE(INTEGRATED, INTEGRATED)
SAME_DEVICE(COMPUTE_MODE, COMPUTE_MODE)
SAME_DEVICE(ECC, ECC_ENABLED)
SAME_DEVICE(MEMORY_CLOCK_KHZ, MEMORY_CLOCK_RATE)
SAME_DEVICE(MEMORY_BUS_BITS, GLOBAL_MEMORY_BUS_WIDTH)
SAME_DEVICE(L2_BYTES, L2_CACHE_SIZE)
SAME_DEVICE(THREADS_PER_MULTIPROCESSOR, MAX_THREADS_PER_MULTIPROCESSOR)
SAME_DEVICE(ASYNC_ENGINES, ASYNC_ENGINE_COUNT)
SAME_DEVICE(UNIFIED_ADDRESSING, UNIFIED_ADDRESSING)
SAME_DEVICE(MAJOR, COMPUTE_CAPABILITY_MAJOR)
SAME_DEVICE(MINOR, COMPUTE_CAPABILITY_MINOR)
SAME_DEVICE(SHARED_PER_MULTIPROCESSOR, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
SAME_DEVICE(REGISTERS_PER_MULTIPROCESSOR, MAX_REGISTERS_PER_MULTIPROCESSOR)
SAME_DEVICE(COOPERATIVE_LAUNCH, COOPERATIVE_LAUNCH)
SAME_DEVICE(SHARED_PER_BLOCK_OPTIN, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
SAME_DEVICE(BLOCKS_PER_MULTIPROCESSOR, MAX_BLOCKS_PER_MULTIPROCESSOR)
SAME_DEVICE(SHARED_RESERVED, RESERVED_SHARED_MEMORY_PER_BLOCK)
SAME_DEVICE(MEMORY_POOLS, MEMORY_POOLS_SUPPORTED)
#define SAME_FUNCTION(ours, theirs) SAME_NUMBER(CUDA_FUNCTION_##ours, CU_FUNC_ATTRIBUTE_##theirs)
SAME_FUNCTION(MAX_THREADS, MAX_THREADS_PER_BLOCK)
SAME_FUNCTION(SHARED_BYTES, SHARED_SIZE_BYTES)
SAME_FUNCTION(CONST_BYTES, CONST_SIZE_BYTES)
SAME_FUNCTION(LOCAL_BYTES, LOCAL_SIZE_BYTES)
SAME_FUNCTION(REGISTERS, NUM_REGS)
SAME_FUNCTION(PTX_VERSION, PTX_VERSION)
SAME_FUNCTION(BINARY_VERSION, BINARY_VERSION)
SAME_FUNCTION(MAX_DYNAMIC_SHARED, MAX_DYNAMIC_SHARED_SIZE_BYTES)
#define SAME_JIT(ours, theirs) SAME_NUMBER(CUDA_JIT_##ours, CU_JIT_##theirs)
SAME_JIT(WALL_TIME, WALL_TIME)
SAME_JIT(INFO_LOG, INFO_LOG_BUFFER)
SAME_JIT(INFO_LOG_BYTES, INFO_LOG_BUFFER_SIZE_BYTES)
SAME_JIT(ERROR_LOG, ERROR_LOG_BUFFER)
SAME_JIT(ERROR_LOG_BYTES, ERROR_LOG_BUFFER_SIZE_BYTES)
SAME_JIT(OPTIMIZATION, OPTIMIZATION_LEVEL)
SAME_NUMBER(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING)
SAME_NUMBER(CUDA_EVENT_DEFAULT, CU_EVENT_DEFAULT)
SAME_NUMBER(CUDA_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING)
SAME_NUMBER(CUDA_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
SAME_NUMBER(CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE)
SAME_NUMBER(CUDA_PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_DEFAULT)
SAME_NUMBER(CUDA_PROC_ADDRESS_FOUND, CU_GET_PROC_ADDRESS_SUCCESS)
SAME_NUMBER(CUDA_PROC_ADDRESS_MISSING, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
SAME_NUMBER(CUDA_PROC_ADDRESS_TOO_NEW, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
_Static_assert(sizeof(CUresult) == sizeof(cuda_result) && sizeof(CUdevice) == sizeof(cuda_device) &&
                   sizeof(CUdeviceptr) == sizeof(cuda_ptr) && sizeof(CUjit_option) == sizeof(int),
               "enumerations and devices are ints, addresses have 64 bits");

// ---- NCCL ---------------------------------------------------------------------------------------
#if __has_include(<nccl.h>)
#include <nccl.h>

#include "backends/gpu/nccl/nccl.h"

#define NCCL_NUMBER(name, theirs, value) \
  _Static_assert((long)(theirs) == (value), #theirs " has another number");
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

#define ML_NUMBER(name, theirs, value) \
  _Static_assert((long)(theirs) == (value), #theirs " has another number");
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

enum {
#define CUPTI_ERROR(number, name, advice) OUR_##name = number,
#include "backends/gpu/cupti/cupti_errors.def"
#undef CUPTI_ERROR
};
SAME_NUMBER(OUR_OUT_OF_MEMORY, CUPTI_ERROR_OUT_OF_MEMORY)
SAME_NUMBER(OUR_API_NOT_IMPLEMENTED, CUPTI_ERROR_API_NOT_IMPLEMENTED)
SAME_NUMBER(OUR_NOT_COMPATIBLE, CUPTI_ERROR_NOT_COMPATIBLE)
SAME_NUMBER(OUR_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED)
SAME_NUMBER(OUR_HARDWARE_BUSY, CUPTI_ERROR_HARDWARE_BUSY)
SAME_NUMBER(OUR_NOT_SUPPORTED, CUPTI_ERROR_NOT_SUPPORTED)
SAME_NUMBER(OUR_VIRTUALIZED, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED)
SAME_NUMBER(OUR_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
SAME_NUMBER(OUR_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
SAME_NUMBER(OUR_VIRTUALIZED_PRIVILEGES, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)
SAME_NUMBER(OUR_CONFIDENTIAL, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED)
SAME_NUMBER(OUR_MIG, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED)
SAME_NUMBER(OUR_WSL, CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED)
SAME_NUMBER(OUR_UNKNOWN, CUPTI_ERROR_UNKNOWN)

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
#define SAME_FIELD(ours, member, type, theirs) \
  _Static_assert(offsetof(ours, member) == offsetof(type, theirs), #type " is laid out otherwise");
SAME_FIELD(counters_host, kind, CUpti_Profiler_Host_Initialize_Params, profilerType)
SAME_FIELD(counters_host, chip, CUpti_Profiler_Host_Initialize_Params, pChipName)
SAME_FIELD(counters_host, available, CUpti_Profiler_Host_Initialize_Params,
           pCounterAvailabilityImage)
SAME_FIELD(counters_host, host, CUpti_Profiler_Host_Initialize_Params, pHostObject)
SAME_FIELD(counters_host_end, host, CUpti_Profiler_Host_Deinitialize_Params, pHostObject)
SAME_FIELD(counters_add, host, CUpti_Profiler_Host_ConfigAddMetrics_Params, pHostObject)
SAME_FIELD(counters_add, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames)
SAME_FIELD(counters_add, n, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics)
SAME_FIELD(counters_config_size, host, CUpti_Profiler_Host_GetConfigImageSize_Params, pHostObject)
SAME_FIELD(counters_config_size, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params,
           configImageSize)
SAME_FIELD(counters_config, host, CUpti_Profiler_Host_GetConfigImage_Params, pHostObject)
SAME_FIELD(counters_config, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize)
SAME_FIELD(counters_config, image, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage)
SAME_FIELD(counters_passes, bytes, CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize)
SAME_FIELD(counters_passes, image, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage)
SAME_FIELD(counters_passes, passes, CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses)
SAME_FIELD(counters_evaluate, host, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pHostObject)
SAME_FIELD(counters_evaluate, data, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
           pCounterDataImage)
SAME_FIELD(counters_evaluate, bytes, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
           counterDataImageSize)
SAME_FIELD(counters_evaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex)
SAME_FIELD(counters_evaluate, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames)
SAME_FIELD(counters_evaluate, n, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics)
SAME_FIELD(counters_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues)
SAME_FIELD(counters_chip, device, CUpti_Device_GetChipName_Params, deviceIndex)
SAME_FIELD(counters_chip, name, CUpti_Device_GetChipName_Params, pChipName)
SAME_FIELD(counters_available, context, CUpti_Profiler_GetCounterAvailability_Params, ctx)
SAME_FIELD(counters_available, bytes, CUpti_Profiler_GetCounterAvailability_Params,
           counterAvailabilityImageSize)
SAME_FIELD(counters_available, image, CUpti_Profiler_GetCounterAvailability_Params,
           pCounterAvailabilityImage)
SAME_FIELD(counters_enable, context, CUpti_RangeProfiler_Enable_Params, ctx)
SAME_FIELD(counters_enable, profiler, CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject)
SAME_FIELD(counters_of, profiler, CUpti_RangeProfiler_Disable_Params, pRangeProfilerObject)
SAME_FIELD(counters_data_size, profiler, CUpti_RangeProfiler_GetCounterDataSize_Params,
           pRangeProfilerObject)
SAME_FIELD(counters_data_size, names, CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames)
SAME_FIELD(counters_data_size, n, CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics)
SAME_FIELD(counters_data_size, ranges, CUpti_RangeProfiler_GetCounterDataSize_Params,
           maxNumOfRanges)
SAME_FIELD(counters_data_size, nodes, CUpti_RangeProfiler_GetCounterDataSize_Params,
           maxNumRangeTreeNodes)
SAME_FIELD(counters_data_size, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params,
           counterDataSize)
SAME_FIELD(counters_data, profiler, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
           pRangeProfilerObject)
SAME_FIELD(counters_data, bytes, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
           counterDataSize)
SAME_FIELD(counters_data, image, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
           pCounterData)
SAME_FIELD(counters_set, profiler, CUpti_RangeProfiler_SetConfig_Params, pRangeProfilerObject)
SAME_FIELD(counters_set, config_bytes, CUpti_RangeProfiler_SetConfig_Params, configSize)
SAME_FIELD(counters_set, config, CUpti_RangeProfiler_SetConfig_Params, pConfig)
SAME_FIELD(counters_set, data_bytes, CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize)
SAME_FIELD(counters_set, data, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage)
SAME_FIELD(counters_set, range, CUpti_RangeProfiler_SetConfig_Params, range)
SAME_FIELD(counters_set, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode)
SAME_FIELD(counters_set, ranges, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass)
SAME_FIELD(counters_set, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels)
SAME_FIELD(counters_set, least_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel)
SAME_FIELD(counters_set, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex)
SAME_FIELD(counters_set, level, CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel)
SAME_FIELD(counters_of, profiler, CUpti_RangeProfiler_Start_Params, pRangeProfilerObject)
SAME_FIELD(counters_stop, profiler, CUpti_RangeProfiler_Stop_Params, pRangeProfilerObject)
SAME_FIELD(counters_stop, pass, CUpti_RangeProfiler_Stop_Params, passIndex)
SAME_FIELD(counters_stop, level, CUpti_RangeProfiler_Stop_Params, targetNestingLevel)
SAME_FIELD(counters_stop, all, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted)
SAME_FIELD(counters_push, profiler, CUpti_RangeProfiler_PushRange_Params, pRangeProfilerObject)
SAME_FIELD(counters_push, name, CUpti_RangeProfiler_PushRange_Params, pRangeName)
SAME_FIELD(counters_of, profiler, CUpti_RangeProfiler_PopRange_Params, pRangeProfilerObject)
SAME_FIELD(counters_decode, profiler, CUpti_RangeProfiler_DecodeData_Params, pRangeProfilerObject)
SAME_FIELD(counters_decode, dropped, CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped)
SAME_FIELD(counters_ranges, data, CUpti_RangeProfiler_GetCounterDataInfo_Params, pCounterDataImage)
SAME_FIELD(counters_ranges, bytes, CUpti_RangeProfiler_GetCounterDataInfo_Params,
           counterDataImageSize)
SAME_FIELD(counters_ranges, n, CUpti_RangeProfiler_GetCounterDataInfo_Params, numTotalRanges)
SAME_FIELD(counters_range, data, CUpti_RangeProfiler_CounterData_GetRangeInfo_Params,
           pCounterDataImage)
SAME_FIELD(counters_range, bytes, CUpti_RangeProfiler_CounterData_GetRangeInfo_Params,
           counterDataImageSize)
SAME_FIELD(counters_range, range, CUpti_RangeProfiler_CounterData_GetRangeInfo_Params, rangeIndex)
SAME_FIELD(counters_range, delimiter, CUpti_RangeProfiler_CounterData_GetRangeInfo_Params,
           rangeDelimiter)
SAME_FIELD(counters_range, name, CUpti_RangeProfiler_CounterData_GetRangeInfo_Params, rangeName)
SAME_NUMBER(COUNTERS_BY_RANGE, CUPTI_PROFILER_TYPE_RANGE_PROFILER)
SAME_NUMBER(COUNTERS_OUR_RANGES, CUPTI_UserRange)
SAME_NUMBER(COUNTERS_OUR_REPLAY, CUPTI_UserReplay)
SAME_NUMBER(COUNTERS_NO_METRIC, CUPTI_ERROR_INVALID_METRIC_NAME)
#endif
