// xplane.h: profiles as XLA's profilers write them (XSpace, *.xplane.pb: jax.profiler,
// XProf), read and written. Reading finds the programs that ran, the times of their kernels by run,
// and the modules that the file carries; writing makes such a file of a recording.
//
// An event is an execution of a kernel when it says which operation of HLO it is: by the statistic
// hlo_op, or by standing on a line "XLA Ops". Programs are told apart by device, program id and
// module name. Events that lie inside of another one on the same line (the body of a loop) are
// taken off its time, so that times add up.
#ifndef PROF_XPLANE_H
#define PROF_XPLANE_H

#include "core/base/diag.h"
#include "profiler/record.h"

// A module that the file carries: a serialized HloProto, in the bytes of the file.
typedef struct prof_xmodule {
  const char *name;
  u64 id;  // of the program
  const void *proto;
  size_t n;
} prof_xmodule;

// A program on a device.
typedef struct prof_xprogram {
  const char *module, *device;  // device: name of the plane, "/device:GPU:0"
  u64 id;                       // 0: not said
  const char *const *kernels;   // by number in the recording: names of instructions
  prof_recording *rec;          // its runs, the oldest first; probe_ns 0
  u32 left_out;                 // runs that began before the recording or ended after it
  double seconds;               // of all its kernels in all runs
} prof_xprogram;

typedef struct prof_xspace {
  hs_arena names;
  u32 nmodules, nprograms;
  prof_xmodule *modules;
  prof_xprogram *programs;  // the longest first
} prof_xspace;

// Whether the bytes look like an XSpace.
bool prof_is_xspace(const void *p, size_t n);
// E_PROTO when they are damaged; poll errors. The modules borrow from the bytes. Freed by
// prof_xspace_free, also after an error. file: for messages.
hs_status prof_xspace_read(const void *p, size_t n, const char *file, prof_xspace *out);
void prof_xspace_free(prof_xspace *);

// What to write: programs, and runs of them in the order of time.
typedef struct prof_xwritten {
  const char *module;
  u64 id;  // of the program, not 0
  u32 nkernels;
  const char *const *kernels, *const *kinds;
  const double *flops, *bytes;  // of one execution
  const void *proto;            // a serialized HloProto of the module
  size_t nproto;
} prof_xwritten;
typedef struct prof_xrun {
  u32 program, number;  // number: of the run among the program's
  u64 begin_ns, ns;     // begin: since the recording's
  u32 nevents;
  const prof_event *events;  // by begin, since the run's
} prof_xrun;
typedef struct prof_xtrace {
  const char *device;  // name of the plane
  u64 start_ns;        // when the recording began, by a clock of the reader's; 0: not said
  u32 nprograms, nruns;
  const prof_xwritten *programs;
  const prof_xrun *runs;
} prof_xtrace;
void prof_xspace_write(const prof_xtrace *, hs_buf *out);

#endif
