// run.h — what the files of the emulator share: threads and blocks while they run, sites, and the
// functions that compiled kernels call.
#ifndef GPU_EMU_RUN_H
#define GPU_EMU_RUN_H

#include "backends/gpu/emu/emu.h"
#include "backends/gpu/emu/fiber.h"

#define EMU_LANES 32
#define EMU_BARRIERS 16
#define EMU_BLOCK_MOST 1024  // threads

// Bytes that nobody may touch below each stack: a page.
#if defined(__x86_64__)
#define EMU_STACK_GAP 4096
#else
#define EMU_STACK_GAP 65536
#endif

// ---- sites: what is known of an instruction when its module is rewritten ------------------------
typedef enum emu_access { EMU_READ = 1, EMU_WRITE = 2, EMU_ATOMIC = 4 } emu_access;
enum { EMU_GENERIC = 0, EMU_GLOBAL = 1, EMU_SHARED = 3, EMU_CONSTANT = 4, EMU_LOCAL = 5 };

typedef struct emu_site {
  const char *function;  // that it stands in
  const char *hlo;       // NULL: not said
  const char *object;    // the variable that it goes into, where that is known; else NULL
  u64 object_bytes;
  u32 bytes, align;  // align: 0 and 1: any
  u8 access;         // of emu_access
  u8 space;          // address space
} emu_site;

// ---- shadow of shared memory --------------------------------------------------------------------
// Per byte: who wrote it and read it last. Times are numbers of barriers: `big` counts those of the
// block (over all blocks that ran before, so that no table is cleared), `small` those of the warp.
typedef struct emu_cell {
  u32 written_big, read_big;  // 0: never
  u32 written_small, read_small;
  u16 writer, reader;
  u8 wrote_atomically, read_atomically, several_readers, several_warps;
} emu_cell;

// ---- threads and blocks -------------------------------------------------------------------------
typedef enum emu_state { EMU_READY, EMU_AT_BARRIER, EMU_AT_WARP, EMU_DONE } emu_state;

typedef enum emu_warp_op {
  EMU_SHFL_IDX,
  EMU_SHFL_UP,
  EMU_SHFL_DOWN,
  EMU_SHFL_BFLY,
  EMU_VOTE_ALL,
  EMU_VOTE_ANY,
  EMU_VOTE_UNI,
  EMU_VOTE_BALLOT,
  EMU_MATCH_ANY,
  EMU_MATCH_ALL,
  EMU_REDUX_ADD,
  EMU_REDUX_UMIN,
  EMU_REDUX_UMAX,
  EMU_REDUX_MIN,
  EMU_REDUX_MAX,
  EMU_REDUX_AND,
  EMU_REDUX_OR,
  EMU_REDUX_XOR,
  EMU_WARP_SYNC,
  EMU_LOAD_SQUARES,
  EMU_LOAD_TURNED,
  EMU_MULTIPLY_BF16,
  EMU_MULTIPLY_F16,
  EMU_MULTIPLY_S8,
  EMU_MULTIPLY_U8,
} emu_warp_op;

typedef enum emu_barrier_op {
  EMU_SYNC,
  EMU_ARRIVE,
  EMU_POPC,
  EMU_AND,
  EMU_OR,
  EMU_ALIGNED = 8  // added to one of them
} emu_barrier_op;

typedef struct emu_block emu_block;
typedef struct emu_thread {
  // Compiled code reads these (rewrite.c).
  u32 tid[3];
  u32 lane, warp;
  u32 pred;     // second result of the latest warp operation
  u8 *shared;   // the block's shared memory
  u8 *dynamic;  // the part of it that the launch asked for
  emu_block *block;
  // Ours.
  u32 index;  // in the block, x fastest
  emu_state state;
  const emu_site *site;  // where it waits
  emu_warp_op op;
  u32 mask, b, c;
  u64 value, result;
  u32 *fragment;  // of an operation on matrices: what it brings, and takes
  u32 barrier;
  emu_fiber fiber;
} emu_thread;

typedef struct emu_barrier {
  u32 arrived, expected;
  u32 popc;
} emu_barrier;

// What a warp waits for: the lanes that have come so far. Where masks split a warp: one group's.
typedef struct emu_meeting {
  const emu_site *site;
  emu_warp_op op;
  u32 mask, arrived;
  const emu_thread *at_barrier;  // the latest of its threads that came to a barrier
} emu_meeting;

struct emu_block {
  // Compiled code reads these.
  u32 ctaid[3], ntid[3], nctaid[3];
  u32 trusted;  // what parameters declare is registered
  // Ours.
  u32 nthreads, nwarps;
  const emu_kernel *kernel;
  const emu_device *device;
  void **params;
  emu_thread *threads;  // nthreads of them; one when they run one after the other
  emu_fiber host;       // the scheduler
  emu_barrier barriers[EMU_BARRIERS];
  emu_meeting meetings[EMU_BLOCK_MOST / EMU_LANES];
  u8 *shared;
  size_t shared_bytes;
  emu_cell *cells;                        // shared_bytes of them
  u32 big;                                // now
  u32 small[EMU_BLOCK_MOST / EMU_LANES];  // now, per warp
  u32 first_big;         // at the start of this block: what was written before is not written
  const u8 *low, *high;  // the registered range of the latest global access
  emu_fault_kind fault;
  hs_buf fault_text;
};

// The thread that runs on this host thread.
extern _Thread_local emu_thread *emu_current;

// Ends the launch: the first fault of a block is its status. Does not return: the fiber that called
// it is never continued.
void emu_fault(emu_thread *, const emu_site *, emu_fault_kind, const char *fmt, ...)
    HS_PRINTF(4, 5);
// "thread (1,0,0)"
typedef struct emu_thread_name {
  char text[48];
} emu_thread_name;
emu_thread_name emu_name_thread(const emu_block *, u32 index);
// Back to the scheduler, until it continues this thread.
void emu_wait(emu_thread *, emu_state);

// Runs one after the other the blocks that `next` hands out, until there are none or one fails.
typedef struct emu_job {
  const emu_kernel *kernel;
  emu_device *device;
  emu_grid grid;
  void **params;
  bool trusted;
  u64 nblocks, next;  // next: atomic
  u64 last;           // the first block that failed, behind which none begins; atomic
  hs_interrupt *interrupt;
} emu_job;

// Everything that running needs on one host thread, kept by the device between launches.
typedef struct emu_runner {
  emu_block block;
  emu_thread *threads;
  u32 nthreads;
  u8 *stacks;  // mapping of nstacks stacks with a gap before each
  size_t stack_bytes;
  u32 nstacks;
  size_t shared_room, cells_room;
  hs_status status;  // of the latest job
  u64 number;        // of the block that ran last
  struct emu_runner *next;
} emu_runner;
void emu_runner_free(emu_runner *);
emu_runner *emu_device_runner(emu_device *);  // a free one, or a new one
void emu_device_give_back(emu_device *, emu_runner *);
// As emu_device_find, for an address outside of all: the range that it may have been meant for.
bool emu_device_near(const emu_device *, const void *p, const void **start, size_t *n);
bool emu_device_set_condition(const emu_device *, u64 condition, u32 value);
// n bytes at p lie in a global variable of the module.
bool emu_module_has(const emu_module *, const void *p, u64 n);

// ---- called by compiled kernels -----------------------------------------------------------------
emu_thread *emu_self(void);
// An access of site->bytes at p. object: the start of what site->object names, or NULL.
void emu_check(emu_thread *, const u8 *p, const emu_site *, const u8 *object);
// The same for n bytes (memcpy and its kind).
void emu_check_bytes(emu_thread *, const u8 *p, const emu_site *, const u8 *object, u64 n);
u64 emu_warp_call(emu_thread *, const emu_site *, u32 op, u32 mask, u64 value, u32 b, u32 c);
// Squares of 8 rows of 16 bytes, `count` of them: a row at each lane's address in turn, a word of
// each square into out.
void emu_load_squares(emu_thread *, const emu_site *, u32 op, u32 count, const u8 *row, u32 *out);
// 16 rows by 32 bytes (words 0 to 3) times as many by 8 columns (4, 5), added to words 6 to 9.
void emu_multiply(emu_thread *, const emu_site *, u32 op, u32 *words);
u32 emu_barrier_call(emu_thread *, const emu_site *, u32 op, u32 id, u32 count, u32 pred);
void emu_trap(emu_thread *, const emu_site *);
void emu_set_condition(emu_thread *, const emu_site *, u64 condition, u32 value);
void emu_exit(emu_thread *);
u32 emu_active_mask(const emu_thread *);
u32 emu_is_space(const emu_thread *, const u8 *p, u32 space);

// ---- matrix.c -----------------------------------------------------------------------------------
// The operation of a whole warp on matrices, from what its threads brought.
void emu_matrix(emu_thread *lanes, emu_warp_op);

// ---- rewriting ----------------------------------------------------------------------------------
struct emu_module {
  hs_arena arena;  // names, sites, tables
  bool checked;
  u32 nkernels;
  emu_kernel *kernels;
  u32 nglobals;
  struct emu_global {
    const char *name, *symbol;
    size_t bytes;
    void *at;
  } * globals;
  void *jit;  // LLVMOrcLLJITRef
};

#endif
