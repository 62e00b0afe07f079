// cuda_api.h — what this backend uses of the CUDA driver API: types, numbers, and the table of
// its functions (cuda.def). NVIDIA's headers are not needed to build.
//
// Handles are pointers to structures that nobody here looks into; device addresses are 64-bit
// numbers. A cuda_driver is filled by cuda_driver_open (driver.h) from a library, or from whatever
// else knows the functions by name: the emulator, a test.
#ifndef CUDA_API_H
#define CUDA_API_H

#include "core/base/base.h"

typedef int cuda_result;  // CUDA_OK, or a row of errors.def
typedef int cuda_device;  // its ordinal
typedef u64 cuda_ptr;     // an address on the device
typedef struct cuda_context cuda_context;
typedef struct cuda_module cuda_module;
typedef struct cuda_function cuda_function;
typedef struct cuda_stream cuda_stream;
typedef struct cuda_event cuda_event;
typedef struct cuda_graph cuda_graph;
typedef struct cuda_graph_node cuda_graph_node;
typedef struct cuda_graph_exec cuda_graph_exec;
typedef void cuda_host_fn(void *arg);

enum {
  CUDA_OK = 0,
#define CUDA_ERROR(number, name, scope, code, advice) CUDA_##name = number,
#include "backends/gpu/cuda/errors.def"
#undef CUDA_ERROR
};

// Attributes of a device (cuDeviceGetAttribute).
enum {
  CUDA_DEVICE_MAX_THREADS_PER_BLOCK = 1,
  CUDA_DEVICE_MAX_BLOCK_X = 2,
  CUDA_DEVICE_MAX_BLOCK_Y = 3,
  CUDA_DEVICE_MAX_BLOCK_Z = 4,
  CUDA_DEVICE_MAX_GRID_X = 5,
  CUDA_DEVICE_MAX_GRID_Y = 6,
  CUDA_DEVICE_MAX_GRID_Z = 7,
  CUDA_DEVICE_SHARED_PER_BLOCK = 8,
  CUDA_DEVICE_WARP_SIZE = 10,
  CUDA_DEVICE_REGISTERS_PER_BLOCK = 12,
  CUDA_DEVICE_CLOCK_KHZ = 13,
  CUDA_DEVICE_MULTIPROCESSORS = 16,
  CUDA_DEVICE_HAS_TIMEOUT = 17,
  CUDA_DEVICE_INTEGRATED = 18,
  CUDA_DEVICE_COMPUTE_MODE = 20,
  CUDA_DEVICE_ECC = 32,
  CUDA_DEVICE_MEMORY_CLOCK_KHZ = 36,
  CUDA_DEVICE_MEMORY_BUS_BITS = 37,
  CUDA_DEVICE_L2_BYTES = 38,
  CUDA_DEVICE_THREADS_PER_MULTIPROCESSOR = 39,
  CUDA_DEVICE_ASYNC_ENGINES = 40,
  CUDA_DEVICE_UNIFIED_ADDRESSING = 41,
  CUDA_DEVICE_MAJOR = 75,
  CUDA_DEVICE_MINOR = 76,
  CUDA_DEVICE_SHARED_PER_MULTIPROCESSOR = 81,
  CUDA_DEVICE_REGISTERS_PER_MULTIPROCESSOR = 82,
  CUDA_DEVICE_COOPERATIVE_LAUNCH = 95,
  CUDA_DEVICE_SHARED_PER_BLOCK_OPTIN = 97,
  CUDA_DEVICE_BLOCKS_PER_MULTIPROCESSOR = 106,
  CUDA_DEVICE_SHARED_RESERVED = 111,
  CUDA_DEVICE_MEMORY_POOLS = 115,
};

// Attributes of a function (cuFuncGetAttribute, cuFuncSetAttribute).
enum {
  CUDA_FUNCTION_MAX_THREADS = 0,
  CUDA_FUNCTION_SHARED_BYTES = 1,
  CUDA_FUNCTION_CONST_BYTES = 2,
  CUDA_FUNCTION_LOCAL_BYTES = 3,
  CUDA_FUNCTION_REGISTERS = 4,
  CUDA_FUNCTION_PTX_VERSION = 5,
  CUDA_FUNCTION_BINARY_VERSION = 6,
  CUDA_FUNCTION_MAX_DYNAMIC_SHARED = 8,
};

// Options of cuModuleLoadDataEx; each value is a number or a pointer in the place of a pointer.
enum {
  CUDA_JIT_WALL_TIME = 2,
  CUDA_JIT_INFO_LOG = 3,
  CUDA_JIT_INFO_LOG_BYTES = 4,
  CUDA_JIT_ERROR_LOG = 5,
  CUDA_JIT_ERROR_LOG_BYTES = 6,
  CUDA_JIT_OPTIMIZATION = 7,
};

// Flags.
enum {
  CUDA_STREAM_NON_BLOCKING = 1,   // cuStreamCreate: does not wait for the default stream
  CUDA_EVENT_DEFAULT = 0,         // cuEventCreate
  CUDA_EVENT_NO_TIMING = 2,       // cuEventCreate
  CUDA_CAPTURE_THREAD_LOCAL = 1,  // cuStreamBeginCapture
  CUDA_HOST_PORTABLE = 1,         // cuMemHostAlloc
  CUDA_PROC_ADDRESS_DEFAULT = 0,  // cuGetProcAddress
  CUDA_PROC_ADDRESS_FOUND = 0,    // its answer
  CUDA_PROC_ADDRESS_MISSING = 1,
  CUDA_PROC_ADDRESS_TOO_NEW = 2,
};

// A node to be added to a graph (CUgraphNodeParams): of its kinds we add conditional ones. The
// driver gives back the graphs of its bodies, which are the node's.
enum {
  CUDA_NODE_CONDITIONAL = 13,
  CUDA_NODE_IF = 0,
  CUDA_NODE_WHILE = 1,
  CUDA_CAPTURE_ACTIVE = 1,     // cuStreamGetCaptureInfo
  CUDA_CAPTURE_SET_AFTER = 1,  // cuStreamUpdateCaptureDependencies: these nodes, and no others
  CUDA_CONDITIONS_SINCE = 12040,
};
typedef struct cuda_node {
  int type, reserved0[3];
  union {
    i64 room[29];
    struct {
      u64 condition;
      int kind;
      unsigned nbodies;
      cuda_graph **bodies;
      cuda_context *context;
    } conditional;
  };
  i64 reserved1;
} cuda_node;

// A pointer to each function that cuda.def names; NULL for an optional one that is not there.
typedef struct cuda_driver {
#define CUDA_FN(field, symbol, base, version, need, args) cuda_result(*field) args;
#include "backends/gpu/cuda/cuda.def"
#undef CUDA_FN
  int version;    // of the API that the driver has: 1000 * major + 10 * minor
  void *library;  // as dlopen gave it; NULL when it is none
} cuda_driver;

#endif
