// gpu.h — the parts of the gpu backends, private to backends/gpu.
//
// In the worker, lowest first; each calls only those above it in this list:
//
//   cuda/      the driver's functions by name, its errors (a room of its own)
//   nvml/      NVML: energy and clock of a device (a room of its own)
//   emu/       the emulator: the same functions on this CPU (a room of its own)
//   device.c   an open device: context, stream, transfers through pinned memory
//   program.c  HLO -> steps (backends/cpu/program.c) with kernels for the device; its memory
//   library.h  steps that NVIDIA's libraries compute: product.c, epilogue.c, blas.c, window.c,
//              fourier.c, factor.c, triangular.c, lapack.c, library.c
//   exec.c     runs steps: launches, copies, what the host has to do; recorded launch sequences
//   control.c  loops and branches as conditional nodes of recorded sequences
//   collective.c  what happens between devices: by NCCL, or on the host
//   lanes.c    programs for several devices
//   record.c   times of single kernels
//   counters.c what the device's counters say of them
//   power.c    what runs take from the device, by NVML
//   serve.c    the request handlers
//
// In the shell: gpu.c has the two backends, target.c the devices that can be compiled for, tools.c
// runs NVIDIA's assembler where it is installed.
//
// A program is a cpu_program: the same lowering, values, slots and buffer assignment. Its slots lie
// in one block of device memory. A step has a kernel for the device, or it runs on the host with
// the cpu backend's code, on copies of its operands: then it is a fallback, counted and named.
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "backends/cpu/serve.h"
#include "backends/emit/gpu.h"
#include "backends/gpu/cuda/driver.h"
#include "backends/gpu/target.h"

#define GPU_ALIGN ((size_t)256)  // of every buffer in device memory

typedef struct gpu_library gpu_library;
typedef struct gpu_control gpu_control;
typedef struct gpu_call gpu_call;
enum { GPU_CUBLASLT, GPU_CUFFT, GPU_CUSOLVER, GPU_CUBLAS, GPU_CUDNN, GPU_NCCL, GPU_LIBRARIES };
enum { GPU_MOST_DEVICES = 64 };  // of a process

// ---- device.c -----------------------------------------------------------------------------------
typedef struct gpu_device {
  cuda_driver d;
  cuda_device number;
  cuda_context *context;
  cuda_stream *stream;
  char *path;    // of its driver; NULL: the installed one
  bool bitcode;  // its code is LLVM's: the emulator, or a driver made of it
  u32 sm;
  char name[96];
  // transfers of what is not pinned go through the two halves of `pinned`
  char *pinned;
  cuda_event *free_again[2];  // of each half
  bool failed;                // by an error that the process does not survive
  // each of them, or why it cannot be used; NULL: nobody asked yet
  gpu_library *library[GPU_LIBRARIES];
  gpu_control *control;
} gpu_device;
// The subject of the error that the process has another device open: a new process has not.
#define GPU_OTHER_DRIVER "another driver"
// One of the process's devices, of the emulator or of a driver (NULL: the installed one), opened
// the first time; the first of them first. They stay open, and are all of one driver. E_DEVICE, ...
hs_status gpu_device_get(bool emulated, const char *driver, u32 number, gpu_device **out);
hs_status gpu_device_count(gpu_device *, u32 *out);  // that the driver has
hs_status gpu_device_use(gpu_device *);              // enters its context; E_DEVICE when it is lost
// The status of a call; notes when the device is lost.
hs_status gpu_check(gpu_device *, cuda_result, const char *what);
#define GPU_TRY(dev, call, what) HS_TRY(gpu_check((dev), (call), (what)))
// Copy n bytes in stream order. The host's memory may be used again after gpu_upload; it is there
// after gpu_download.
hs_status gpu_upload(gpu_device *, cuda_ptr to, const void *from, size_t n);
hs_status gpu_download(gpu_device *, void *to, cuda_ptr from, size_t n);

// ---- program.c ----------------------------------------------------------------------------------
// A step's kernel as the device has it.
typedef struct gpu_kernel {
  const emit_gpu_kernel *k;  // NULL: the step runs on the host
  gpu_call *call;            // of a library, which does the step; NULL: there is none
  cuda_function *before[EMIT_GPU_SUFFIXES], *main, *finish;
} gpu_kernel;

// A run of steps that is recorded once and launched as one.
typedef struct gpu_segment {
  u32 n;       // steps; 0: none begins here
  bool tried;  // and there is no exec: it cannot be recorded
  cuda_graph_exec *exec;
} gpu_segment;

typedef struct gpu_probes gpu_probes;
typedef struct gpu_counting gpu_counting;

typedef struct gpu_program gpu_program;
struct gpu_program {
  cpu_program *p;
  hs_arena arena;
  // A program for several devices has a lane for each: a program of its own, which shares the code
  // and the steps with the first one, and has what lies on its device. replicas times partitions
  u32 replicas, partitions, ndevices;
  u32 number;           // of this lane: partition number % partitions of a replica
  gpu_program *first;   // itself, where there is one device
  gpu_program **lanes;  // of the first one; NULL: there is one device, or none is here
  bool *here;           // of the first one: devices that run the block that is running
  hs_buf code;          // of the first one, while lanes are loaded
  emit_gpu_unit *unit;
  u32 sm;
  const char *chip;  // AMD's, and sm is 75, what every GPU can do; NULL: none
  backend_libraries libraries;
  HS_VEC(gpu_call *) calls;
  HS_VEC(hlo_module *) helpers;  // kernels of ours around calls
  const gpu_call *again;  // the first device's, of the call that a lane makes now; NULL: none
  bool filled;            // its memory, for trials
  hs_buf refused;         // what libraries do not do, a line each
  // what follows is there when it was loaded onto a device
  gpu_device *dev;
  cuda_module *module;
  gpu_kernel *kernels;  // by kernel index
  cuda_ptr memory;
  size_t memory_bytes, args_at, out_at, temp_at;
  cuda_ptr *addr;         // by slot, now
  char *host;             // pinned: copies of what steps on the host read and write
  char *scratch;          // of steps on the host
  void *predicate;        // pinned: a loop's condition, a branch's number
  gpu_segment *segments;  // by position of their first step; NULL: nothing is recorded
  gpu_segment whole;      // all steps and moves
  cuda_event *from, *to;  // around a run
  u64 runs;
  bool recording;  // of a segment, now
  // loops and branches: of conditional nodes, now: how deep, and how many in what is recorded
  u32 depth, nodes;
  cuda_ptr counters;       // of loops, by depth
  u32 on_device, by_host;  // how many
  char *why_host;          // what a driver lacks or refused; NULL: nothing
  u64 round_trips;         // of the host, for conditions and for what it computes, in the last run
  gpu_probes *probes;      // while kernels are timed
  gpu_counting *counting;  // while they are counted; NULL: now they are not
  u64 launches;            // of kernels and copies on the device, in the last run
  u64 graph_launches;
};

typedef struct gpu_options {
  bool load;           // onto a device; otherwise it can be looked at only
  bool emulated;       // the device is the emulator
  const char *driver;  // path of the library; NULL: the installed one
  u32 sm;              // 0: the device's own
  const char *chip;    // an AMD one, of targets.def; NULL: none
  backend_libraries libraries;
} gpu_options;
// Loads code (PTX, or bitcode where the device is made of the emulator), which is freed.
hs_status gpu_code_load(gpu_device *, hs_buf *code, const char *what, cuda_module **out);
// Lowers, compiles and, if asked to, loads. The module outlives it. E_UNSUPPORTED, E_DEVICE, ...
hs_status gpu_program_new(const hlo_module *, const cpu_lower_options *, const gpu_options *,
                          gpu_program **out);
void gpu_program_free(gpu_program *);  // NULL is fine
// "row-reduce", "cuBLASLt algo 21", or "host: sort (radix)".
const char *gpu_step_kind(const gpu_program *, const cpu_step *);
u32 gpu_step_launches(const gpu_program *, const cpu_step *);  // 0: on the host, or unknown

// ---- library.c ----------------------------------------------------------------------------------
// Bytes of workspace that a library wants for an instruction that has a kernel of ours; -1: none
// computes it. Opens the library when it is first needed. An error only where libraries are
// insisted on.
hs_status gpu_library_wants(gpu_program *, const hlo_instr *, i64 *workspace);
// The same for one that has none: the kernel that stands for its step; NULL: no library does it.
hs_status gpu_library_alone(gpu_program *, const hlo_instr *, const emit_gpu_kernel **out,
                            i64 *scratch);
// Its name, for one without a kernel of ours; NULL: none does it. Opens nothing.
const char *gpu_library_name(const hlo_instr *);
// Of a loaded program, before it runs: what is in its memory, constants aside, is lost.
hs_status gpu_library_prepare(gpu_program *);
hs_status gpu_call_run(gpu_program *, const cpu_step *, gpu_call *);
// The call that does alone what the kernel stands for; NULL: none.
gpu_call *gpu_call_alone(const gpu_program *, const emit_gpu_kernel *);
bool gpu_call_recorded(const gpu_call *);              // or may be; NULL is fine
bool gpu_call_chosen(const gpu_call *);                // and not our kernel; NULL is fine
const char *gpu_call_text(const gpu_call *);           // "cuBLASLt algo 21", of a chosen one
void gpu_library_dump(const gpu_program *, hs_buf *);  // for `dump schedule`
void gpu_library_close(gpu_program *, bool lost);      // calls and helpers; lost: with the device

// ---- control.c ----------------------------------------------------------------------------------
enum {
  GPU_MOST_RECORDED = 1 << 13,  // launches of one sequence; the driver's memory grows with them
  GPU_MOST_DEPTH = 6,           // of conditional nodes in each other
};
// Whether some of the program's steps are loops or branches.
bool gpu_control_is_in(const cpu_program *);
// Gets ready what conditional nodes need; without it the program says why (why_host).
hs_status gpu_control_prepare(gpu_program *);
// Launches of a step, of a block and its moves, as part of a sequence; -1: it cannot be part of
// one.
i64 gpu_fixed_launches(const gpu_program *, const cpu_step *);
i64 gpu_fixed_block(const gpu_program *, const cpu_block *);
// Iterations, as far as the code shows them; what a module only says of itself is not believed.
i64 gpu_trips(const cpu_step *);
// While a sequence is recorded: whether the loop is one node instead of its iterations.
bool gpu_loop_is_node(const gpu_program *, const cpu_step *);
// Records it, on what its initial values were copied to. An error that leaves why_host set means
// that the sequence cannot be recorded in this way.
hs_status gpu_loop_record(gpu_program *, cpu_step *);
hs_status gpu_branches_record(gpu_program *, cpu_step *);
// How many loops and branches are on the device, how many the host drives.
void gpu_control_count(gpu_program *);
// "; the host drives loops: ..." for who times kernels; "" without any.
void gpu_control_note(const gpu_program *, char *out, size_t n);

// ---- collective.c -------------------------------------------------------------------------------
// The library that does the operation between devices; NULL: the host does.
const char *gpu_collective_library(const hlo_instr *);
// What each device does for itself, without any library: its number, the done of a collective.
bool gpu_collective_is_own(const hlo_instr *);
// The kernel that stands for the step of an operation between devices; NULL: it is the host's.
hs_status gpu_collective_add(gpu_program *, const hlo_instr *, const emit_gpu_kernel **out);
// The step on all devices that are here.
hs_status gpu_collective_run(gpu_program *, cpu_step *);
bool gpu_collective_is(const cpu_step *);  // that all devices do together

// ---- lanes.c ------------------------------------------------------------------------------------
// Opens the devices of a program that is to be loaded, the first of which is open. E_UNSUPPORTED
// when there are fewer.
hs_status gpu_lanes_open(gpu_program *, const gpu_options *);
// Loads what is on each device.
hs_status gpu_lanes_load(gpu_program *, hs_status (*load)(gpu_program *lane));
// All of a run but the clock: as gpu_exec_run.
hs_status gpu_lanes_run(gpu_program *);
// Makes the streams of all devices begin behind what the first one's has to do, and that one go on
// when they are through.
hs_status gpu_lanes_fork(gpu_program *);
hs_status gpu_lanes_join(gpu_program *);
hs_status gpu_lanes_wait(gpu_program *);  // for all streams

// ---- exec.c -------------------------------------------------------------------------------------
void gpu_addresses_reset(gpu_program *);  // every slot is in its place again
// A step without control flow, by what was chosen for it.
hs_status gpu_step_run(gpu_program *, cpu_step *);
hs_status gpu_loop_enter(gpu_program *, const cpu_step *);
// Waits for the device: whether a loop goes on, which branch is taken.
hs_status gpu_decide(gpu_program *, const cpu_step *, i64 *out);
// A step that the host computes: makes bufs point to pinned copies, gets operands there and waits;
// brings results back.
hs_status gpu_host_begin(gpu_program *, const cpu_step *, void **bufs);
hs_status gpu_host_end(gpu_program *, const cpu_step *, void *const *bufs);
hs_status gpu_block_run(gpu_program *, cpu_block *);
hs_status gpu_moves_run(gpu_program *, const cpu_moves *);
// Of a lane: whether a recorded sequence, of n steps, begins at the step, and can be launched now;
// and launches it, recording it first.
bool gpu_segment_is(const gpu_program *, const cpu_step *, u32 *n);
hs_status gpu_segment_run(gpu_program *, cpu_step *);
void gpu_segments_free(gpu_program *);
// Looks for parts that can be recorded, and makes room for steps on the host.
hs_status gpu_exec_prepare(gpu_program *);
// Enqueues one execution; where the host has to know or do something, waits for that. Arguments are
// in their places before it, results in theirs when the stream is through.
hs_status gpu_exec_run(gpu_program *);
// The same between two events: the time on the device, ms.
hs_status gpu_exec_time(gpu_program *, double *ms);
cuda_ptr gpu_address(const gpu_program *, u32 value);
hs_status gpu_copy(gpu_program *, cuda_ptr to, cuda_ptr from, size_t n);  // on the device
// The step by our kernel, whatever was chosen for it.
hs_status gpu_launch(gpu_program *, const cpu_step *);

// ---- record.c -----------------------------------------------------------------------------------
// Called around every kernel of a run in which single kernels are timed or counted: one of
// gpu_exec_time.
static inline bool gpu_is_probed(const gpu_program *g) { return g->probes || g->counting; }
hs_status gpu_probe_begin(gpu_program *, u32 kernel);
hs_status gpu_probe_end(gpu_program *);
hs_status gpu_probe_run(gpu_program *);  // called when such a run begins
// Runs with probes for about so many seconds, three times at least. once: one run, its time in ms.
hs_status gpu_record(gpu_program *, double seconds, serve_once *once, void *arg,
                     prof_recording **out);

// ---- counters.c ---------------------------------------------------------------------------------
// Runs as often as the device's counters need, and adds what they say to the recording, or why they
// do not. An error is one of the runs'.
hs_status gpu_count(gpu_program *, serve_once *once, void *arg, prof_recording *);
// What gpu_probe_run, gpu_probe_begin and gpu_probe_end are in such a run.
void gpu_counting_run(gpu_counting *);
hs_status gpu_counting_begin(gpu_counting *, u32 kernel);
hs_status gpu_counting_end(gpu_counting *);

// ---- power.c ------------------------------------------------------------------------------------
// Around runs that are timed: reads the device's counters. Without NVML *out says nothing; nor of a
// run on several devices (NULL).
void gpu_power_begin(gpu_device *);
void gpu_power_end(u32 runs, backend_power *out);

// ---- tools.c (shell) ----------------------------------------------------------------------------
// What NVIDIA's assembler makes of PTX: "sass", the machine code as text; "resources", a line for
// each kernel. E_NOT_BUILT names the program that is not installed.
hs_status gpu_assemble(const char *ptx, size_t n, const char *what, hs_buf *out);
// The table of "resources", from the PTX and what `ptxas -v` says of it.
void gpu_read_resources(const char *ptx, const char *said, hs_buf *out);

#endif
