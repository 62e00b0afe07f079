// client.h — the shell's side of a backend whose programs live in a worker, be it for the cpu or
// for a device: sends modules, constants and arguments, receives results, keeps what it takes to
// compile again when the worker is gone.
#ifndef CPU_CLIENT_H
#define CPU_CLIENT_H

#include "backends/cpu/cpu.h"

// What differs. A compile request begins with what `describe` appends, and goes on as serve.h says;
// the other requests, and all replies, are the same.
typedef struct cpu_client {
  const char *name;  // of the backend
  u32 compile;       // kind of its request to compile: WORKER_REQ_*
  bool device;       // the worker that may use devices, not the confined one
  hs_status (*describe)(const backend_options *, hs_buf *);  // NULL: nothing
  bool (*ends)(hs_status);  // whether the worker cannot go on after this error; NULL: it can
} cpu_client;

hs_status cpu_client_compile(const cpu_client *, const hlo_module *, const backend_options *,
                             backend_exe **out);
// These are the functions of a backend as they stand (backend.h).
bool cpu_client_supports(const hlo_instr *, hs_buf *why);
const backend_compiled *cpu_client_compiled(const backend_exe *);
hs_status cpu_client_run(backend_exe *, u32 nargs, hlo_literal *const *args,
                         const backend_run_options *, backend_result *out);
hs_status cpu_client_dump(backend_exe *, const char *what, hs_buf *out);
hs_status cpu_client_plan(backend_exe *, prof_memory *out);
void cpu_client_release(backend_exe *);

#endif
