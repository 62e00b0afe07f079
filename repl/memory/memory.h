// memory.h — the parts of the command `memory`: each says what it found and adds it to the JSON
// document.
#ifndef REPL_MEASURE_MEMORY_H
#define REPL_MEASURE_MEMORY_H

#include "profiler/memory.h"
#include "repl/cmd/cmd.h"

// The backend's plan of any module, which must have no elided constants.
hs_status memory_plan_of(repl_cmd *, const hlo_module *, prof_memory *out);

// memory_show.c. quiet: JSON only.
void memory_show_buffers(repl_cmd *, const prof_memory *, bool quiet);
void memory_show_peak(repl_cmd *, const prof_memory *, i64 limit, bool quiet);
void memory_show_timeline(repl_cmd *, const prof_memory *, bool quiet);
// Writes the picture of a plan.
hs_status memory_svg(repl_cmd *, const prof_memory *, const char *path);

// donation.c: which parameters are donated, which donations fail and why, which could be declared.
hs_status memory_donation(repl_cmd *, const prof_memory *, const char *by, i64 limit, bool quiet);
// recompute.c: what recomputing cheap values at the peak would save, and cost.
hs_status memory_recompute(repl_cmd *, i64 limit, bool quiet);
// xla_memory.c: XLA's report beside ours.
hs_status memory_beside_xla(repl_cmd *, const prof_memory *, const char *path, i64 limit);

#endif
