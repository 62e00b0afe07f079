// serve.h — worker side of the pjrt backend: what serve.c and serve_run.c share.
#ifndef PJRT_SERVE_H
#define PJRT_SERVE_H

#include "backends/block.h"
#include "backends/pjrt/plugin.h"
#include "backends/serve.h"

// One argument or result of one device.
// bytes: of the dense host array
typedef struct pjs_array {
  int type;
  u32 rank;
  i64 dims[HLO_MAX_RANK], minor_to_major[HLO_MAX_RANK];
  size_t bytes;
} pjs_array;

typedef struct pjs_program {
  u64 id;
  pj_loaded *loaded;  // NULL: compiled for a topology, cannot run
  pj_executable *executable;
  u32 nargs, nouts, ndevices;
  pjs_array *arg, *out;
  bool *donated;  // per argument
  // what was compiled, when custom calls of it are computed here; its custom calls
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

extern pjs_state pjs;
pjs_program *pjs_find(u64 id);
// bytes of one device's arrays, each 64-byte aligned
size_t pjs_block(u32 n, const pjs_array *v);

// serve_calls.c. Sees to a handler for a custom call's target; library and symbol may be empty.
// After compiling, the program learns its calls from the module.
hs_status pjs_offer_call(hs_str target, hs_str library, hs_str symbol);
void pjs_keep_calls(pjs_program *, hs_str module);
// a handler stands for it that cannot compute it on this platform
bool pjs_call_refuses(hs_str target);
// serve_cubin.c. Kernels in the machine code that stands somewhere in these bytes.
void pjs_put_machine_code(const char *bytes, size_t n, hs_buf *reply);

#endif
