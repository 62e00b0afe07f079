// serve.h — programs in the worker: what serve.c does for all of them, and what each kind (for
// the cpu, for a device) brings of its own. client.h has the shell's side.
#ifndef CPU_SERVE_H
#define CPU_SERVE_H

#include "backends/cpu/cpu.h"
#include "backends/serve.h"

typedef struct served_kind served_kind;

// A program that was compiled, by the number that the shell gave it.
typedef struct served {
  const served_kind *kind;
  u64 id;
  u32 threads;
  hlo_ctx *ctx;
  hlo_module *m;
  cpu_program *p;      // its lowering, whatever it runs on
  void *own;           // of its kind
  double dispatch_ms;  // of one run; -1: not measured
  // The arguments that are in their places, by the number that the shell gave them (0: unknown),
  // and whether a run has overwritten the donated ones since.
  u64 placed;
  bool overwritten;
} served;

// Functions marked "or NULL" may be missing.
struct served_kind {
  bool device;  // its kernels are a maker's (cpu_maker)
  // Lowers m: sets p and own. options: what the request began with (serve_compile).
  hs_status (*build)(served *, const cpu_lower_options *, const void *options);
  // "row-reduce", "sort (radix)", "evaluator"
  const char *(*step_text)(const served *, const cpu_step *);
  u32 (*launches)(const served *, const cpu_step *);  // backend_kernel.launches; or NULL
  void (*free)(served *);                             // p and own, after an error of build too
  hs_status (*ready)(const served *);                 // whether it can run here
  // An argument's or result's leaf from or to its row-major bytes.
  hs_status (*place)(served *, u32 arg, const char *from);
  hs_status (*placed)(served *);  // waits until all arguments are there; or NULL
  void (*renew)(served *);        // backend_run_options.fresh_memory; or NULL
  hs_status (*fetch)(served *, u32 result, char *to);
  hs_status (*run)(served *, double *ms);  // once, by its own clock
  // Times of single kernels: runs `once` for about so many seconds. The recording is the caller's.
  hs_status (*record)(served *, double seconds, serve_once *once, void *arg, prof_recording **);
  // What the device's counters say of them, or why they do not, into the recording; or NULL.
  hs_status (*count)(served *, serve_once *once, void *arg, prof_recording *);
  // Reads the device's counters before the runs that are timed, and behind so many; or NULL, both.
  void (*power_begin)(const served *);
  void (*power_end)(u32 runs, backend_power *);
  double (*dispatch_ms)(const served *);  // what starting a run's kernels costs; or NULL
  i64 (*mapped_bytes)(const served *);    // of its memory, if not the plan's sum; or NULL
  // Appends what is asked for; of "schedule" the steps stand there already.
  hs_status (*dump)(served *, const char *what, hs_buf *);
};

// A compile request from where the fields of its kind end; they are in options.
hs_status serve_compile(const served_kind *, const void *options, wire_reader *, const int *fds,
                        u32 nfds, hs_buf *reply);

const char *cpu_step_kind_text(const cpu_step *);

// ---- record.c -----------------------------------------------------------------------------------
hs_status cpu_record(served *, double seconds, serve_once *once, void *arg, prof_recording **);
// Appends where the code of kernels and regions lies, a line each: first address and bytes in
// hexadecimal, name of the instruction. Equal kernels share an address.
void cpu_dump_addresses(const cpu_program *, hs_buf *);
// An estimate: an empty parallel loop per parallel kernel, 5 ns (an indirect call) per other one.
double cpu_dispatch_ms(const served *);

#endif
