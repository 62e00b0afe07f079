// perf_events.h: samples of where another process's threads execute, by Linux's perf events.
// Nothing is added to the code that is sampled.
#ifndef REPL_KERNEL_PERF_EVENTS_H
#define REPL_KERNEL_PERF_EVENTS_H

#include <sys/types.h>

#include "core/base/diag.h"

typedef struct sampler sampler;
typedef HS_VEC(u64) sampler_addresses;

// Samples all threads that the process has now, each about `hz` times per second of its own time,
// in user space. By the processor's clock cycles, or where these cannot be counted by the system's
// clock. E_UNSUPPORTED where the kernel forbids it or has no perf events, with a note that says how
// to allow it; the caller frees the sampler.
hs_status sampler_open(pid_t, u32 hz, sampler **out);
void sampler_close(sampler *);               // NULL is fine
const char *sampler_event(const sampler *);  // "cycles" or "cpu-clock"
u32 sampler_threads(const sampler *);
// Appends the instruction addresses seen since the last call. It has to be called at least every
// few seconds; what did not fit is counted in *lost.
void sampler_read(sampler *, sampler_addresses *, u64 *lost);

#endif
