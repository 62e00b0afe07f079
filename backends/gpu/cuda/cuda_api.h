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

enum {
#define CUDA_NUMBER(name, theirs, value) CUDA_##name = value,
#include "backends/gpu/cuda/cuda_numbers.def"
#undef CUDA_NUMBER
};

// A node to be added to a graph (CUgraphNodeParams): of its kinds we add conditional ones. The
// driver gives back the graphs of its bodies, which are the node's.
enum { CUDA_CONDITIONS_SINCE = 12040 };
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
