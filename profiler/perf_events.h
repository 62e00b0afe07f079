// perf_events.h: samples of where another process's threads execute, by Linux's perf events.
// Nothing is added to the code that is sampled.
#ifndef PROF_PERF_EVENTS_H
#define PROF_PERF_EVENTS_H

#include <sys/types.h>

#include "core/base/diag.h"

typedef struct prof_sampler prof_sampler;
typedef HS_VEC(u64) prof_addresses;

// Samples all threads that the process has now, each about `hz` times per second of its own time,
// in user space. By the processor's clock cycles, or where these cannot be counted by the system's
// clock. E_UNSUPPORTED where the kernel forbids it or has no perf events, with a note that says how
// to allow it; the caller frees the sampler.
hs_status prof_sampler_open(pid_t, u32 hz, prof_sampler **out);
void prof_sampler_close(prof_sampler *);               // NULL is fine
const char *prof_sampler_event(const prof_sampler *);  // "cycles" or "cpu-clock"
u32 prof_sampler_threads(const prof_sampler *);
// Appends the instruction addresses seen since the last call. It has to be called at least every
// few seconds; what did not fit is counted in *lost.
void prof_sampler_read(prof_sampler *, prof_addresses *, u64 *lost);

#endif
