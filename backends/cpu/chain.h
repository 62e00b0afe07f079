// chain.h — products that become one step with what lies between them: a pass over the steps of a
// program that is being lowered, before its live ranges are known. Private to program.c.
#ifndef CPU_CHAIN_H
#define CPU_CHAIN_H

#include "backends/cpu/leaves.h"

void cpu_join_chains(cpu_lowering *);

#endif
