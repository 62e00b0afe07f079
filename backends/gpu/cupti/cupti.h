// cupti.h — what the device did and when, as NVIDIA's profiling library CUPTI records it: found
// at run time like the driver; its records decoded here, its headers not needed.
#ifndef CUDA_CUPTI_H
#define CUDA_CUPTI_H

#include "core/base/diag.h"

typedef int cupti_result;
typedef void cupti_requested(u8 **buffer, size_t *size, size_t *most_records);
typedef void cupti_completed(void *context, u32 stream, u8 *buffer, size_t size, size_t valid);

// Kinds of records, by CUPTI's numbers.
typedef enum cupti_kind {
  CUPTI_COPY = 1,
  CUPTI_SET = 2,
  CUPTI_DRIVER = 4,   // a call of the driver's API
  CUPTI_RUNTIME = 5,  // or of the runtime's
  CUPTI_KERNEL = 10,
  CUPTI_OVERHEAD = 17,  // of the profiler itself
  CUPTI_EXTERNAL = 39,  // joins a launch to a number of ours
  CUPTI_GRAPH = 51,     // a recorded sequence, launched as one
} cupti_kind;
enum { CUPTI_OK = 0, CUPTI_MAX_LIMIT = 12, CUPTI_FLUSH_FORCED = 1, CUPTI_CUSTOM = 3 };

typedef struct cupti_api {
#define CUPTI_FN(field, symbol, args) cupti_result(*field) args;
#include "backends/gpu/cupti/cupti.def"
#undef CUPTI_FN
  u32 version;
  void *library;
} cupti_api;
// path NULL: the environment variable HLOSH_LIBCUPTI, else where the loader and the toolkit have
// it. E_NOT_BUILT says what was looked for.
hs_status cupti_open(const char *path, cupti_api *out);
hs_status cupti_check(cupti_result, const char *what);  // E_DEVICE, with the next step as note

// One record. Times are CUPTI's clock, ns; what its kind does not have is 0.
typedef struct cupti_activity {
  cupti_kind kind;
  u32 correlation;  // of the call that caused it
  u64 begin, end;
  u64 bytes;                                  // COPY, SET
  u64 external;                               // EXTERNAL: our number
  u32 grid, block, registers, shared, graph;  // KERNEL: first dims, bytes of shared memory
  const char *name;                           // KERNEL; CUPTI's own text
} cupti_activity;
// False for kinds that nothing is read of.
bool cupti_decode(const void *record, cupti_activity *out);

// A recording of the process: one at a time.
typedef struct cupti_trace {
  const cupti_api *api;
  HS_VEC(cupti_activity) all;
  u64 dropped;   // records that CUPTI had no room for
  u64 overhead;  // of CUPTI, ns
  u64 began;     // the clock's reading at the start of the run (cupti_trace_mark)
  bool full;     // there was no memory for a record
} cupti_trace;
hs_status cupti_trace_begin(const cupti_api *, cupti_trace *);
hs_status cupti_trace_mark(cupti_trace *);  // forgets what there is; a run begins now
// Number `id` goes with the calls of this thread until the next cupti_trace_leave.
hs_status cupti_trace_enter(cupti_trace *, u64 id);
hs_status cupti_trace_leave(cupti_trace *);
// Waits for the records of what is done, and appends them.
hs_status cupti_trace_take(cupti_trace *);
void cupti_trace_end(cupti_trace *);

// What a number's launches did: first begin after the start of the run, and time busy; 0 where it
// has none. Kernels only count as busy when `copies` is false.
typedef struct cupti_span {
  u64 begin_ns, busy_ns;
  u32 records;
} cupti_span;
// span[id] for id below n. Returns how many kernel records belong to no number.
u32 cupti_join(const cupti_trace *, bool copies, u64 n, cupti_span *span);

#endif
