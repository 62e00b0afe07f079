// local.h — the cpu backend in the calling process, without a worker: for libraries, whose user
// has decided to run compiled code (hlosh as a PJRT plug-in, libhlosh). The shell never does.
//
// A program is compiled once and run any number of times, from any thread; the pool of threads is
// one per process, so that programs run one after the other. The floating-point mode of the calling
// thread is as before after each call.
#ifndef CPU_LOCAL_H
#define CPU_LOCAL_H

#include "backends/backend.h"
#include "backends/emit/emit.h"

typedef struct cpu_local cpu_local;

typedef struct cpu_local_options {
  u32 threads;  // 0: all cores
  // a module in which nothing tells devices apart is run as by one device, whatever it says
  bool few_devices;
  // arguments are read and results written where the caller has them: they overlap nowhere, but a
  // result may be the argument whose storage it takes over
  bool in_place;
  // object code to take instead of compiling, where it fits, and code to keep; NULL: neither
  emit_code *code;
} cpu_local_options;

// The kernels of one run, in the caller's memory.
typedef struct cpu_local_times {
  prof_event *events;  // room for PROF_MOST_EVENTS; by begin, since the run's
  u32 nevents;
  u64 dropped;       // executions beyond that
  u64 begin_ns, ns;  // of the run, by hs_now_ns
} cpu_local_times;

// Compiles a module as it is (passes have been run). The module must outlive the program.
// E_UNSUPPORTED, E_NO_MEMORY, ...
hs_status cpu_local_compile(const hlo_module *, const cpu_local_options *, cpu_local **out);
// Devices that the program stands for; each has arguments and results of its own.
u32 cpu_local_devices(const cpu_local *);
// Figures; owned by the program.
const backend_compiled *cpu_local_figures(const cpu_local *);
// Runs it. args[d * n + k]: bytes of leaf k of the arguments of device d, dense and row-major;
// results likewise, NULL for what nobody wants. E_RUN for a program that is called from a custom
// call of its own.
// times: NULL, or what its kernels take, with probes around them (their loops run step by step).
hs_status cpu_local_run(cpu_local *, const void *const *args, void *const *results,
                        cpu_local_times *times);
// Kernel k of the figures' nkernels, by which events are numbered.
backend_kernel cpu_local_kernel(const cpu_local *, u32 k);
// The argument whose storage a result takes over, in place: it may be given as the result, too.
// UINT32_MAX: there is none.
u32 cpu_local_argument_of(const cpu_local *, u32 result);
void cpu_local_free(cpu_local *);
// Who computes custom calls that hlosh does not know; must outlive every program.
void cpu_local_peer(const hlo_eval_peer *);
// Around what such a peer does: meanwhile other programs may run, and denormals are not flushed.
// False where no program of this backend is what calls; then it is not resumed.
bool cpu_local_pause(void);
void cpu_local_resume(void);

#endif
