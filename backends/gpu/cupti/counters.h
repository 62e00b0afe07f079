// counters.h — what the device's hardware counters say, by CUPTI's range profiler: found at run
// time in the same library as its records, its structures declared here (tests/gpu/headers.c holds
// them against NVIDIA's).
//
// The hardware counts few things at once, so a session has several passes: the same work is done
// in each, and what stands between a push and a pop is counted as the range of that name.
#ifndef CUPTI_COUNTERS_H
#define CUPTI_COUNTERS_H

#include "backends/gpu/cupti/cupti.h"

// ---- CUPTI's structures -----------------------------------------------------------------------
// `bytes_of` is where CUPTI's end with the last member, whatever follows for alignment.
#define F(type, name, theirs) type name;
#define COUNTERS_ARGS(name, theirs, fields) \
  typedef struct name {                     \
    size_t bytes_of;                        \
    void *unused;                           \
    fields                                  \
  } name;
#include "backends/gpu/cupti/counters_args.def"
#undef COUNTERS_ARGS
#undef F

// CUPTI's numbers: the profiler of ranges; ranges that we name; passes that we repeat the work for.
enum {
  COUNTERS_BY_RANGE = 0,
  COUNTERS_OUR_RANGES = 2,
  COUNTERS_OUR_REPLAY = 3,
  COUNTERS_NO_METRIC = 17,  // the chip has none of that name
};

typedef struct counters_api {
#define COUNTERS_FN(field, symbol, args, last, theirs) cupti_result (*field)(args *);
#include "backends/gpu/cupti/counters.def"
#undef COUNTERS_FN
} counters_api;
// Those of an open CUPTI. E_NOT_BUILT names the one that it does not have.
hs_status counters_find(const cupti_api *, counters_api *out);

// ---- what is counted ----------------------------------------------------------------------------
typedef enum counters_metric {
#define METRIC(NAME, name) COUNTERS_##NAME,
#include "backends/gpu/cupti/metrics.def"
#undef METRIC
  COUNTERS_METRICS
} counters_metric;

// Memory that CUPTI fills in and reads.
typedef struct counters_image {
  u8 *p;
  size_t n;
} counters_image;

// What a chip counts of the metrics, by its name ("GH100"); available: what of it can be used on a
// device, or NULL. Needs no device.
typedef struct counters_plan {
  const counters_api *api;
  void *host;
  const char *names[COUNTERS_METRICS];  // of those that it has
  counters_metric metric[COUNTERS_METRICS];
  size_t n;
  counters_image config;
  size_t passes;
} counters_plan;
hs_status counters_plan_new(const counters_api *, const char *chip, const u8 *available,
                            counters_plan *out);
void counters_plan_free(counters_plan *);

// A session on a device, of which one is open in a process.
typedef struct counters_session {
  counters_plan plan;
  void *profiler;
  counters_image available, data;
  bool enabled, started;
  size_t done;     // passes
  size_t dropped;  // ranges that there was no room for
} counters_session;
// For so many ranges in a pass, of the context's device, which has that number. E_DEVICE, ...: the
// session need not be freed then.
hs_status counters_begin(const counters_api *, void *context, size_t device, size_t ranges,
                         counters_session *out);
hs_status counters_pass_begin(counters_session *);
hs_status counters_pass_end(counters_session *, bool *all);  // all: there are no more
hs_status counters_push_range(counters_session *, const char *name);
hs_status counters_pop_range(counters_session *);
// After all passes: calls `each` for every range; NAN: of what was not counted.
typedef void counters_each(void *ctx, const char *name, const double values[COUNTERS_METRICS]);
hs_status counters_read(counters_session *, counters_each *each, void *ctx);
void counters_end(counters_session *);

#endif
