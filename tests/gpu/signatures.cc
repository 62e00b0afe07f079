// signatures.cc — compiled, never run: every function of NVIDIA's libraries takes what its row in
// backends/gpu's tables says, argument by argument, and so does every version of the driver's that
// is asked for (tests/cuda_headers.sh, which makes driver_versions.h of cuda.def).
//
// Our rows name handles by types of our own, write enumerations as int, and addresses as cuda_ptr.
// So two types agree where they are passed alike and mean alike: the same handle, numbers of one
// size and sign (an enumeration has none), an address for a pointer, pointers to what agrees.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cufft.h>
#include <cupti.h>
#include <cusolverDn.h>
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif
#if __has_include(<nvml.h>)
#include <nvml.h>
#endif

// ---- our types, as the rows name them ----
typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;
enum class cuda_ptr : uint64_t {};
typedef int cuda_result, cuda_device, blas_result, dnn_result, fft_result, fft_plan, solver_result,
    nccl_result, cupti_result, ml_result;
typedef void cuda_host_fn(void *arg);
typedef void cupti_requested(u8 **buffer, size_t *size, size_t *most_records);
typedef void cupti_completed(void *context, u32 stream, u8 *buffer, size_t size, size_t valid);

// What a type of ours stands for; void: it is no handle or structure.
template <class T> struct meaning { typedef void type; };
#define MEANS(ours, theirs) \
  struct ours;              \
  template <> struct meaning<ours> { typedef std::remove_pointer<theirs>::type type; };
MEANS(cuda_context, CUcontext)
MEANS(cuda_module, CUmodule)
MEANS(cuda_function, CUfunction)
MEANS(cuda_stream, CUstream)
MEANS(cuda_event, CUevent)
MEANS(cuda_graph, CUgraph)
MEANS(cuda_graph_node, CUgraphNode)
MEANS(cuda_graph_exec, CUgraphExec)
MEANS(cuda_node, CUgraphNodeParams)
MEANS(blas_handle, cublasLtHandle_t)
MEANS(blas_desc, cublasLtMatmulDesc_t)
MEANS(blas_layout, cublasLtMatrixLayout_t)
MEANS(blas_preference, cublasLtMatmulPreference_t)
MEANS(blas_choice, cublasLtMatmulHeuristicResult_t)
MEANS(blas_algorithm, cublasLtMatmulAlgo_t)
MEANS(cublas_handle, cublasHandle_t)
MEANS(solver_handle, cusolverDnHandle_t)
MEANS(solver_jacobi, syevjInfo_t)

// ---- what agrees ----
template <class O, class T> constexpr bool same_number() {
  typedef std::is_signed<O> ours;
  typedef std::is_signed<T> theirs;
  return sizeof(O) == sizeof(T) &&
         std::is_floating_point<O>::value == std::is_floating_point<T>::value &&
         (std::is_enum<T>::value || ours::value == theirs::value);
}

template <class O, class T> constexpr bool agrees();

template <class... O> struct arguments {
  template <class... T> static constexpr bool same() {
    if constexpr (sizeof...(O) == sizeof...(T)) return (agrees<O, T>() && ...);
    else return false;
  }
};
template <class R, class... O> struct ours_of;
template <class R, class... O> struct ours_of<R(O...)> {
  template <class S, class... T> static constexpr bool same_as(S (*)(T...)) {
    return agrees<R, S>() && arguments<O...>::template same<T...>();
  }
};

template <class O, class T> constexpr bool points_alike() {
  typedef typename std::remove_cv<O>::type o;
  typedef typename std::remove_cv<T>::type t;
  // the function may write only where our row lets it
  if (std::is_const<O>::value && !std::is_const<T>::value && !std::is_pointer<T>::value)
    return false;
  if constexpr (!std::is_void<typename meaning<o>::type>::value)
    return std::is_same<typename meaning<o>::type, t>::value;
  else if constexpr (std::is_function<o>::value && std::is_function<t>::value)
    return ours_of<o>::same_as(static_cast<t *>(nullptr));
  else if constexpr (std::is_void<o>::value) return !std::is_function<t>::value;
  else if constexpr (std::is_void<t>::value) return !std::is_pointer<o>::value;
  else return agrees<o, t>();
}

template <class O, class T> constexpr bool agrees() {
  if constexpr (std::is_same<O, cuda_ptr>::value)
    return std::is_pointer<T>::value || std::is_same<T, CUdeviceptr>::value;
  else if constexpr (std::is_void<O>::value) return std::is_void<T>::value;
  else if constexpr (std::is_pointer<O>::value && std::is_pointer<T>::value)
    return points_alike<typename std::remove_pointer<O>::type,
                        typename std::remove_pointer<T>::type>();
  else if constexpr (std::is_pointer<O>::value || std::is_pointer<T>::value) return false;
  else if constexpr (std::is_class<T>::value) return false;
  else return same_number<O, T>();
}

#define AGREES(result, args, theirs, name)                                   \
  static_assert(ours_of<result args>::same_as(static_cast<theirs>(nullptr)), \
                name " takes something else");

// ---- the tables ----
#define CUDA_FN(field, symbol, base, version, need, args) \
  AGREES(cuda_result, args, decltype(&symbol), #symbol)   \
  typedef cuda_result driver_##field args;
#include "backends/gpu/cuda/cuda.def"
#undef CUDA_FN
// VERSION(field, type): the type that NVIDIA has for the version in the row.
#define VERSION(field, type)                                                  \
  static_assert(ours_of<driver_##field>::same_as(static_cast<type>(nullptr)), \
                #type " takes something else");
#include "driver_versions.h"

#define BLAS_FN(field, symbol, need, args) AGREES(blas_result, args, decltype(&symbol), #symbol)
#include "backends/gpu/cuda/cublaslt.def"
#define CUBLAS_FN(field, symbol, args) AGREES(blas_result, args, decltype(&symbol), #symbol)
#include "backends/gpu/cuda/cublas.def"
#define FFT_FN(field, symbol, args) AGREES(fft_result, args, decltype(&symbol), #symbol)
#include "backends/gpu/cuda/cufft.def"
#define SOLVER_FN(field, symbol, args) AGREES(solver_result, args, decltype(&symbol), #symbol)
#include "backends/gpu/cuda/cusolver.def"
#define CUPTI_FN(field, symbol, args) AGREES(cupti_result, args, decltype(&symbol), #symbol)
#include "backends/gpu/cupti/cupti.def"
#if __has_include(<cudnn.h>)
MEANS(dnn_handle, cudnnHandle_t)
struct dnn_desc;  // theirs is a pointer to anything
#define DNN_FN(field, symbol, args) AGREES(dnn_result, args, decltype(&symbol), #symbol)
#include "backends/gpu/cuda/cudnn.def"
#endif
#if __has_include(<nccl.h>)
MEANS(nccl_comm, ncclComm_t)
#define NCCL_FN(field, symbol, args) AGREES(nccl_result, args, decltype(&symbol), #symbol)
#include "backends/gpu/nccl/nccl.def"
#endif
#if __has_include(<nvml.h>)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
MEANS(ml_device, nvmlDevice_t)
#define ML_FN(field, symbol, need, args) AGREES(ml_result, args, decltype(&symbol), #symbol)
#include "backends/gpu/nvml/nvml.def"
#endif
