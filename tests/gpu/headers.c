// headers.c — compiled, never run: what backends/gpu/cuda says of NVIDIA's libraries is what
// their own headers say: numbers, structures, and what functions take (tests/cuda_headers.sh).
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

// The functions are there, and those with numbers among their arguments take what we pass.
static inline void functions_exist(const void **out) {
#define BLAS_FN(field, symbol, need, args) *out++ = (const void *)(size_t)symbol;
#include "backends/gpu/cuda/cublaslt.def"
#undef BLAS_FN
}
static inline void arguments(void) {
  cublasStatus_t (*layout_new)(cublasLtMatrixLayout_t *, cudaDataType, u64, u64, i64) =
      cublasLtMatrixLayoutCreate;
  cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *,
                             size_t) = cublasLtMatmulDescSetAttribute;
  cublasStatus_t (*heuristic)(
      cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
      cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
      cublasLtMatmulHeuristicResult_t *, int *) = cublasLtMatmulAlgoGetHeuristic;
  cublasStatus_t (*multiply)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                             cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t,
                             const void *, const void *, cublasLtMatrixLayout_t, void *,
                             cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,
                             cudaStream_t) = cublasLtMatmul;
  size_t (*version)(void) = cublasLtGetVersion;
  (void)layout_new, (void)desc_set, (void)heuristic, (void)multiply, (void)version;
}
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

static inline void transforms_exist(const void **out) {
#define FFT_FN(field, symbol, args) *out++ = (const void *)(size_t)symbol;
#include "backends/gpu/cuda/cufft.def"
#undef FFT_FN
}
static inline void transform_arguments(void) {
  cufftResult (*make)(int, int, long long *, long long *, long long, long long, long long *,
                      long long, long long, cufftType, long long, size_t *) = cufftMakePlanMany64;
  cufftResult (*c2c)(int, cufftComplex *, cufftComplex *, int) = cufftExecC2C;
  cufftResult (*c2r)(int, cufftComplex *, cufftReal *) = cufftExecC2R;
  cufftResult (*work)(int, void *) = cufftSetWorkArea;
  cufftResult (*stream)(int, cudaStream_t) = cufftSetStream;
  (void)make, (void)c2c, (void)c2r, (void)work, (void)stream;
}
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

static inline void linear_algebra_exists(const void **out) {
#define CUBLAS_FN(field, symbol, args) *out++ = (const void *)(size_t)symbol;
#include "backends/gpu/cuda/cublas.def"
#undef CUBLAS_FN
#define SOLVER_FN(field, symbol, args) *out++ = (const void *)(size_t)symbol;
#include "backends/gpu/cuda/cusolver.def"
#undef SOLVER_FN
}
static inline void linear_arguments(void) {
  cublasStatus_t (*one)(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,
                        cublasDiagType_t, int, int, const cuComplex *, const cuComplex *, int,
                        cuComplex *, int) = cublasCtrsm_v2;
  cublasStatus_t (*all)(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,
                        cublasDiagType_t, int, int, const double *, const double *const *, int,
                        double *const *, int, int) = cublasDtrsmBatched;
  cusolverStatus_t (*room)(cusolverDnHandle_t, cublasFillMode_t, int, float *, int, int *) =
      cusolverDnSpotrf_bufferSize;
  cusolverStatus_t (*factor)(cusolverDnHandle_t, cublasFillMode_t, int, double *, int, double *,
                             int, int *) = cusolverDnDpotrf;
  cusolverStatus_t (*factors)(cusolverDnHandle_t, cublasFillMode_t, int, cuComplex **, int, int *,
                              int) = cusolverDnCpotrfBatched;
  (void)one, (void)all, (void)room, (void)factor, (void)factors;
}
static inline void lapack_arguments(void) {
  cusolverStatus_t (*lu)(cusolverDnHandle_t, int, int, float *, int, float *, int *, int *) =
      cusolverDnSgetrf;
  cusolverStatus_t (*qr)(cusolverDnHandle_t, int, int, double *, int, double *, double *, int,
                         int *) = cusolverDnDgeqrf;
  cusolverStatus_t (*q)(cusolverDnHandle_t, int, int, int, cuComplex *, int, const cuComplex *,
                        cuComplex *, int, int *) = cusolverDnCungqr;
  cusolverStatus_t (*by_q)(cusolverDnHandle_t, cublasSideMode_t, cublasOperation_t, int, int, int,
                           const float *, int, const float *, float *, int, float *, int, int *) =
      cusolverDnSormqr;
  cusolverStatus_t (*by_q_room)(cusolverDnHandle_t, cublasSideMode_t, cublasOperation_t, int, int,
                                int, const float *, int, const float *, const float *, int, int *) =
      cusolverDnSormqr_bufferSize;
  cusolverStatus_t (*eigen)(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int,
                            cuComplex *, int, float *, cuComplex *, int, int *) = cusolverDnCheevd;
  cusolverStatus_t (*eigen_room)(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int,
                                 const double *, int, const double *, int *) =
      cusolverDnDsyevd_bufferSize;
  cusolverStatus_t (*svd)(cusolverDnHandle_t, signed char, signed char, int, int, cuComplex *, int,
                          float *, cuComplex *, int, cuComplex *, int, cuComplex *, int, float *,
                          int *) = cusolverDnCgesvd;
  cusolverStatus_t (*eigens)(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int,
                             cuComplex *, int, float *, cuComplex *, int, int *, syevjInfo_t, int) =
      cusolverDnCheevjBatched;
  cublasStatus_t (*lus)(cublasHandle_t, int, double *const *, int, int *, int *, int) =
      cublasDgetrfBatched;
  cublasStatus_t (*qrs)(cublasHandle_t, int, int, float *const *, int, float *const *, int *, int) =
      cublasSgeqrfBatched;
  (void)eigens, (void)lus, (void)qrs;
  cusolverStatus_t (*svd_room)(cusolverDnHandle_t, int, int, int *) = cusolverDnSgesvd_bufferSize;
  (void)lu, (void)qr, (void)q, (void)by_q, (void)by_q_room;
  (void)eigen, (void)eigen_room, (void)svd, (void)svd_room;
}
_Static_assert((int)CUSOLVER_EIG_MODE_NOVECTOR == SOLVER_VALUES &&
                   (int)CUSOLVER_EIG_MODE_VECTOR == SOLVER_VECTORS,
               "what is asked of eigenproblems has other numbers");
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

static inline void convolutions_exist(const void **out) {
#define DNN_FN(field, symbol, args) *out++ = (const void *)(size_t)symbol;
#include "backends/gpu/cuda/cudnn.def"
#undef DNN_FN
}
static inline void convolution_arguments(void) {
  cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                       cudnnBackendAttributeType_t, i64, const void *) = cudnnBackendSetAttribute;
  cudnnStatus_t (*get)(cudnnBackendDescriptor_t const, cudnnBackendAttributeName_t,
                       cudnnBackendAttributeType_t, i64, i64 *, void *) = cudnnBackendGetAttribute;
  cudnnStatus_t (*make)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *) =
      cudnnBackendCreateDescriptor;
  cudnnStatus_t (*run)(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) =
      cudnnBackendExecute;
  size_t (*version)(void) = cudnnGetVersion;
  (void)set, (void)get, (void)make, (void)run, (void)version;
}
_Static_assert(CUDNN_VERSION >= DNN_OLDEST && CUDNN_VERSION < DNN_TOO_NEW,
               "the version that is installed is one that is taken");
_Static_assert(sizeof(cudnnBackendDescriptor_t) == sizeof(dnn_desc *) &&
                   sizeof(cudnnDataType_t) == sizeof(int) &&
                   sizeof(cudnnBackendNumericalNote_t) == sizeof(int),
               "descriptors are pointers, enumerations are ints");
#endif

// ---- the driver's conditional nodes -------------------------------------------------------------
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
// In CUDA 13 the plain names are those of the versions that cuda.def asks for.
static inline void condition_arguments(void) {
  CUresult (*info)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **,
                   const CUgraphEdgeData **, size_t *) = cuStreamGetCaptureInfo;
  CUresult (*after)(CUstream, CUgraphNode *, const CUgraphEdgeData *, size_t, unsigned) =
      cuStreamUpdateCaptureDependencies;
  CUresult (*into)(CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                   CUstreamCaptureMode) = cuStreamBeginCaptureToGraph;
  CUresult (*add)(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                  CUgraphNodeParams *) = cuGraphAddNode;
  CUresult (*condition)(CUgraphConditionalHandle *, CUgraph, CUcontext, unsigned, unsigned) =
      cuGraphConditionalHandleCreate;
  (void)info, (void)after, (void)into, (void)add, (void)condition;
}
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
_Static_assert(sizeof TEXT(cuGraphAddNode) == sizeof "cuGraphAddNode_v2" &&
                   sizeof TEXT(cuStreamGetCaptureInfo) == sizeof "cuStreamGetCaptureInfo_v3" &&
                   sizeof TEXT(cuStreamUpdateCaptureDependencies) ==
                       sizeof "cuStreamUpdateCaptureDependencies_v2",
               "the versions that the headers mean are those that are asked for");

// ---- NCCL ---------------------------------------------------------------------------------------
#if __has_include(<nccl.h>)
#include <nccl.h>

#include "backends/gpu/nccl/nccl.h"

#define NCCL_NUMBER(name, theirs, value) \
  _Static_assert((long)(theirs) == (value), #theirs " has another number");
#include "backends/gpu/nccl/nccl_numbers.def"
#undef NCCL_NUMBER
static inline void collectives_exist(const void **out) {
#define NCCL_FN(field, symbol, args) *out++ = (const void *)(size_t)symbol;
#include "backends/gpu/nccl/nccl.def"
#undef NCCL_FN
}
static inline void collective_arguments(void) {
  ncclResult_t (*all)(ncclComm_t *, int, const int *) = ncclCommInitAll;
  ncclResult_t (*split)(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *) = ncclCommSplit;
  ncclResult_t (*failed)(ncclComm_t, ncclResult_t *) = ncclCommGetAsyncError;
  ncclResult_t (*reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                         cudaStream_t) = ncclAllReduce;
  ncclResult_t (*scatter)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                          cudaStream_t) = ncclReduceScatter;
  ncclResult_t (*gather)(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t) =
      ncclAllGather;
  ncclResult_t (*broadcast)(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
                            cudaStream_t) = ncclBroadcast;
  ncclResult_t (*send)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) =
      ncclSend;
  ncclResult_t (*recv)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) = ncclRecv;
  (void)all, (void)split, (void)failed, (void)reduce, (void)scatter, (void)gather;
  (void)broadcast, (void)send, (void)recv;
}
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

// one of them is deprecated: it is for drivers that have no other
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline void counters_exist(const void **out) {
#define ML_FN(field, symbol, need, args) *out++ = (const void *)(size_t)symbol;
#include "backends/gpu/nvml/nvml.def"
#undef ML_FN
}
static inline void counter_arguments(void) {
  nvmlReturn_t (*start)(void) = nvmlInit_v2;
  nvmlReturn_t (*find)(const char *, nvmlDevice_t *) = nvmlDeviceGetHandleByPciBusId_v2;
  nvmlReturn_t (*energy)(nvmlDevice_t, unsigned long long *) = nvmlDeviceGetTotalEnergyConsumption;
  nvmlReturn_t (*clock)(nvmlDevice_t, nvmlClockType_t, unsigned *) = nvmlDeviceGetClockInfo;
  nvmlReturn_t (*why)(nvmlDevice_t, unsigned long long *) = nvmlDeviceGetCurrentClocksEventReasons;
  nvmlReturn_t (*before)(nvmlDevice_t, unsigned long long *) =
      nvmlDeviceGetCurrentClocksThrottleReasons;
  (void)start, (void)find, (void)energy, (void)clock, (void)why, (void)before;
}
_Static_assert(sizeof(nvmlReturn_t) == sizeof(ml_result) &&
                   sizeof(nvmlClockType_t) == sizeof(int) &&
                   sizeof(nvmlDevice_t) == sizeof(ml_device *),
               "enumerations are ints, devices are pointers");
#endif

// ---- CUPTI's counters ---------------------------------------------------------------------------
#if __has_include(<cupti_range_profiler.h>) && __has_include(<cupti_profiler_host.h>)
#include <cupti_target.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>

#include "backends/gpu/cupti/counters.h"

// Sizes up to the last member, and where some in the middle lie.
#define COUNTERS_FN(field, symbol, args, last, theirs)                                     \
  _Static_assert(offsetof(args, last) + sizeof(((args *)0)->last) == theirs##_STRUCT_SIZE, \
                 #theirs " has another size");                                             \
  static inline CUptiResult call_##field(theirs *p) { return symbol(p); }
#include "backends/gpu/cupti/counters.def"
#undef COUNTERS_FN
#define SAME_FIELD(ours, member, type, theirs) \
  _Static_assert(offsetof(ours, member) == offsetof(type, theirs), #type " is laid out otherwise");
SAME_FIELD(counters_host, chip, CUpti_Profiler_Host_Initialize_Params, pChipName)
SAME_FIELD(counters_evaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex)
SAME_FIELD(counters_data_size, nodes, CUpti_RangeProfiler_GetCounterDataSize_Params,
           maxNumRangeTreeNodes)
SAME_FIELD(counters_set, range, CUpti_RangeProfiler_SetConfig_Params, range)
SAME_FIELD(counters_set, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels)
SAME_FIELD(counters_set, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex)
SAME_FIELD(counters_stop, level, CUpti_RangeProfiler_Stop_Params, targetNestingLevel)
_Static_assert((int)CUPTI_PROFILER_TYPE_RANGE_PROFILER == COUNTERS_BY_RANGE &&
                   (int)CUPTI_UserRange == COUNTERS_OUR_RANGES &&
                   (int)CUPTI_UserReplay == COUNTERS_OUR_REPLAY,
               "CUPTI has other numbers");
#endif
