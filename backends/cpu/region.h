// region.h — parts of a program that are one function (emit/region.h). Private to region.c, which
// builds them, exec.c, which runs them, and program.c.
#ifndef CPU_REGION_H
#define CPU_REGION_H

#include "backends/cpu/cpu.h"
#include "backends/emit/region.h"

// What the function asks exec.c for: to run a step, or to copy.
typedef struct cpu_region_call {
  cpu_step *step;
  size_t bytes;  // of a copy, where there is no step
} cpu_region_call;

struct cpu_region {
  cpu_program *p;
  emit_region code;
  HS_VEC(cpu_region_call) calls;
  hs_status status;  // of the call that ended the function
};

// Makes the regions of a program whose slots are assigned; the next emit_finish compiles them.
void cpu_make_regions(cpu_program *);
void cpu_region_free(cpu_region *);  // what it holds, not itself; NULL is fine

#endif
