// serve_state.c — worker side: what the worker holds, the plug-in and its compiled programs, and
// questions about them. The lowest file of the handlers: serve.c, serve_run.c and serve_calls.c
// share it and call each other one way only. Requests come one at a time, so nothing is locked.
#include "backends/pjrt/serve.h"

pjs_state pjs;

pjs_program *pjs_find(u64 id) {
  for (size_t k = 0; k < pjs.programs.n; k++)
    if (pjs.programs.v[k]->id == id) return pjs.programs.v[k];
  return NULL;
}

size_t pjs_block(u32 n, const pjs_array *v) {
  size_t at = 0;
  for (u32 k = 0; k < n; k++) at += block_align(v[k].bytes);
  return at;
}
