// sample.h: `profile --sample`: where the program's time goes by samples, without probes.
#ifndef REPL_KERNEL_SAMPLE_H
#define REPL_KERNEL_SAMPLE_H

#include "repl/cmd/cmd.h"

// Runs the current version for --seconds (1) while the worker's threads are sampled, and prints a
// row per function: kernels by the addresses of their code, the rest by the file that it is from.
hs_status sample_profile(repl_cmd *, double seconds, u32 rows);

#endif
