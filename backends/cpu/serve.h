// serve.h — the parts of serve.c that the handlers of other backends share (client.h has their
// shell's side): reading a compile request, answering it, arguments and results in their blocks.
#ifndef CPU_SERVE_H
#define CPU_SERVE_H

#include "backends/cpu/cpu.h"
#include "backends/serve.h"

// A compile request without what a client puts before it: the program's number, threads, options
// (u32: per_instruction, plan_only, one_device, no_contract), the module's text, its constants.
typedef struct cpu_request {
  u64 id;
  u32 threads;
  cpu_lower_options options;
  hlo_ctx *ctx;
  hlo_module *m;
  double cpu0;  // when it began: processor and wall clock
  u64 t0;
} cpu_request;
// Reads the module, with its constants from the shared block. After an error too, the caller frees
// m and ctx.
hs_status cpu_request_read(wire_reader *, const serve_map *constants, cpu_request *out);
// The answer: times, sizes, and the table of kernels. kind: of a step, NULL: as on the cpu.
void cpu_request_answer(const cpu_request *, const cpu_program *,
                        const char *(*kind)(const cpu_step *), hs_buf *reply);
const char *cpu_step_kind_text(const cpu_step *);  // "row-reduce", "sort (radix)", "evaluator"

// Where each of n leaves begins in a block; the end is the last of n + 1 numbers.
void cpu_leaf_offsets(u32 n, const hlo_shape *const *leaf, size_t *at);

#endif
