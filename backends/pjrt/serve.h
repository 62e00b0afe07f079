// serve.h — worker side of the pjrt backend: the state that the handlers share (serve_state.c),
// and what they call of each other.
#ifndef PJRT_SERVE_H
#define PJRT_SERVE_H

#include "backends/block.h"
#include "backends/pjrt/plugin.h"
#include "backends/serve.h"

// One argument or result of one device.
typedef struct pjs_array {
  int type;
  u32 rank;
  i64 dims[HLO_MAX_RANK], minor_to_major[HLO_MAX_RANK];
  size_t bytes;  // of the dense host array
} pjs_array;

typedef struct pjs_program {
  u64 id;
  pj_loaded *loaded;  // NULL: compiled for a topology, cannot run
  pj_executable *executable;
  u32 nargs, nouts, ndevices;
  pjs_array *arg, *out;
  bool *donated;  // per argument
  // the compiled module and its custom calls, when hlosh computes some of them; NULL
  hlo_module *made;
  HS_VEC(const hlo_instr *) calls;
} pjs_program;

typedef struct pjs_state {
  char *path;
  pj_plugin plugin;
  pj_client *client;
  pj_device *const *devices;
  size_t ndevices;
  pj_topology *topology;
  HS_VEC(pjs_program *) programs;
  hs_arena arena;
  pj_named *options;
  u32 noptions;                // for the client
  const pjs_program *running;  // while it runs
} pjs_state;

// ---- serve_state.c ------------------------------------------------------------------------------
extern pjs_state pjs;
pjs_program *pjs_find(u64 id);  // NULL when there is none
// Bytes of one device's arrays, each at a multiple of 64.
size_t pjs_block(u32 n, const pjs_array *v);

// serve_calls.c. Registers a handler for a custom call's target, unless the plug-in has one;
// library and symbol: the user's, or empty. E_LIMIT beyond the number of handlers there are.
hs_status pjs_offer_call(hs_str target, hs_str library, hs_str symbol);
// After compiling: keeps the compiled module (HloModuleProto bytes) for its custom calls.
void pjs_keep_calls(pjs_program *, hs_str module);
// Whether the target's handler only returns an error, because the platform is not the host.
bool pjs_call_refuses(hs_str target);
// serve_cubin.c. Appends a list of the kernels in the machine code that these bytes contain: how
// many, then name, registers, stack frame and code bytes of each (-1: unknown).
void pjs_put_machine_code(const char *bytes, size_t n, hs_buf *reply);

#endif
