// nccl.h — NCCL, the library of what devices do together: found at run time like the driver; what
// is used of its interface. NVIDIA's headers are not needed to build.
//
// A communicator is one device's part of a group; calls for several devices of one thread stand
// between group_start and group_end, and are enqueued in each device's stream.
#ifndef NCCL_NCCL_H
#define NCCL_NCCL_H

#include "backends/gpu/cuda/cuda_api.h"
#include "backends/gpu/cuda/library.h"

typedef int nccl_result;  // NCCL_OK, or a row of nccl_errors.def
typedef struct nccl_comm nccl_comm;

enum {
  NCCL_OK = 0,
#define NCCL_ERROR(number, name, code, advice) NCCL_##name = number,
#include "backends/gpu/nccl/nccl_errors.def"
#undef NCCL_ERROR
};
enum {
#define NCCL_NUMBER(name, theirs, value) NCCL_NUMBER_##name = value,
#include "backends/gpu/nccl/nccl_numbers.def"
#undef NCCL_NUMBER
};

// The versions that are taken, as the library counts: from 2.18, which splits groups, to before 3.
#define NCCL_OLDEST 21801
#define NCCL_TOO_NEW 30000

typedef struct nccl_api {
#define NCCL_FN(field, symbol, args) nccl_result(*field) args;
#include "backends/gpu/nccl/nccl.def"
#undef NCCL_FN
  void *library;  // stays loaded
} nccl_api;

extern const cuda_library cuda_nccl;

// path NULL: the environment variable HLOSH_LIBNCCL, else where the loader and the toolkit have it.
// E_NOT_BUILT says what was looked for, what it lacks, or which version it has.
hs_status nccl_open(const char *path, nccl_api *out);
// "what: NCCL error 3 (INTERNAL)", with the next step as note.
hs_status nccl_check(nccl_result, const char *what);

#endif
