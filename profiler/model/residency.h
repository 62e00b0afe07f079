// residency.h: where a computation's arrays were left by the kernels before: the distance
// of each operand and result, by the plan of memory that a backend makes (core/analysis/live.h).
#ifndef PROF_RESIDENCY_H
#define PROF_RESIDENCY_H

#include "core/analysis/live.h"
#include "profiler/model/price.h"

typedef struct prof_residency prof_residency;

// Of a computation that runs again and again, after so many bytes of other memory were touched
// each time; costs are by instruction id.
// The plan is of its module and stays until the simulation is freed. *out is NULL for one with more
// buffers than are worth placing, or too large ones. Poll errors.
hs_status prof_residency_new(hlo_live_plan *, const hlo_computation *, const hlo_cost *,
                             double between, const prof_device *, prof_residency **out);
void prof_residency_free(prof_residency *);

// The places of what instruction `i` of it reads and writes, so many bytes of each, at most
// `most` (2 at least) of them: as many as the return value says. From then on it has run, by
// threads as they share it.
u32 prof_residency_touch(prof_residency *, const hlo_instr *i, double read, double written,
                         prof_sharing, u32 most, prof_place *);

#endif
