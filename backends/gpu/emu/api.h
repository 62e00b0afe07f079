// api.h — the CUDA driver API on the emulator: the functions that backends/gpu/cuda/cuda.def and
// api_more.def name, with one device or several, all of which are this machine's processor. A
// kernel may use the memory of its own device only.
//
// A module is an image of LLVM bitcode for NVIDIA's GPUs in place of machine code: the eight
// letters EMU_IMAGE, the length of the rest as a u64, the rest. Everything else behaves as the
// driver's documentation has it, as far as a program can tell: handles that are gone are refused,
// a fault of a kernel fails every later call, what may not be called while a stream is captured
// breaks the capture. One instance per process, as with the driver; calls may come from any thread.
//
// The environment variable HLOSH_GPU_UNCHECKED=1 loads modules that do not look at each access to
// memory: several times faster, and a wrong kernel may end the process.
#ifndef GPU_EMU_API_H
#define GPU_EMU_API_H

#include "backends/gpu/cuda/cuda_api.h"

#define EMU_IMAGE "HLOSHEMU"

// The function that a driver exports under this name, with the suffix of its version
// ("cuMemAlloc_v2"); NULL: there is none.
void *emu_api_symbol(const char *symbol);
// The fault that every call fails with now, as text that names kernel, thread and block; "" before.
const char *emu_api_why(void);

// How the driver behaves; zeros: as a good one that is asked to wait for each launch.
enum { EMU_MOST_DEVICES = 16 };
typedef struct emu_behaviour {
  u32 devices;                       // EMU_MOST_DEVICES at most; 0: one
  int version;                       // of the API; 0: 13000
  bool no_device;                    // cuInit finds none
  bool late;                         // nothing runs before somebody waits for it
  bool asynchronous;                 // a fault shows at the next call, not at the launch
  bool hangs;                        // waiting never ends
  bool no_capture;                   // streams are not captured
  u32 conditions;                    // calls for conditional nodes that succeed, and one; 0: all
  u32 allocations;                   // that succeed, after which memory is out; 0: all
  u32 launches;                      // that succeed, after which every call fails; 0: all
  u64 memory_bytes;                  // of the device; 0: as much as this process may have
  const char *missing;               // cuGetProcAddress does not know this name; NULL: knows all
  void (*leaked)(const char *what);  // called when a context goes and something is left; or NULL
} emu_behaviour;
void emu_api_behave(const emu_behaviour *);  // copied; before the first call of the API

// What the device did: for profilers. Both may be called from any thread that calls the API.
typedef enum emu_work_kind { EMU_WORK_KERNEL, EMU_WORK_COPY, EMU_WORK_SET } emu_work_kind;
typedef struct emu_work {
  emu_work_kind kind;
  u32 correlation;       // of the call that asked for it
  u64 begin_ns, end_ns;  // hs_now_ns
  u64 bytes;
  u32 copy;          // 1: to the device, 2: from it, 8: on it
  const char *name;  // of a kernel
  u32 grid[3], block[3], static_bytes, dynamic_bytes;
  bool of_graph;
} emu_work;
typedef struct emu_observer {
  void (*asked)(u32 correlation);  // a call asks for work, on the thread that makes it
  void (*did)(const emu_work *);
} emu_observer;
void emu_api_observe(const emu_observer *);  // NULL: nobody looks

#endif
