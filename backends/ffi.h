// ffi.h — custom calls of the user's own: shared libraries with handlers of XLA's FFI, called in
// the worker process.
#ifndef BACKEND_FFI_H
#define BACKEND_FFI_H

#include "backends/sandbox.h"
#include "core/eval/eval.h"

// Opens a library in the worker and looks for the handlers. names: "TARGET" or "TARGET=SYMBOL";
// none: every custom-call target that the library has a symbol for (looked up when called). E_INPUT
// when the library or a symbol is missing.
hs_status ffi_load(const char *path, u32 n, const char *const *names);
void ffi_unload_all(void);
// How the worker that opens them is confined; auto and without a limit of memory until called. See
// worker_confine.
void ffi_confine(sandbox_mode, u64 memory);
// In a forked child: the worker is its parent's; the next call starts another one.
void ffi_leave_worker(void);
// Appends what the sandbox has refused them since the last call.
bool ffi_refused(hs_buf *);
// Lines "TARGET  LIBRARY (SYMBOL)" of what is loaded.
void ffi_list(hs_buf *);
// The library and symbol of a target, malloc'ed; NULL when no library has it.
void ffi_find(hs_str target, char **library, char **symbol);
// What the evaluator calls for targets that it does not know.
extern const hlo_eval_peer ffi_peer;

#endif
