// ffi_host.h — the side of XLA's foreign function interface that calls: the functions that
// handlers call back, handlers by name, and calls on buffers of this process. Used where foreign
// code may run: in a worker (ffi_serve.c), and by the plug-in in its user's process.
#ifndef BACKEND_FFI_HOST_H
#define BACKEND_FFI_HOST_H

#include "backends/ffi_abi.h"
#include "core/base/diag.h"
#include "core/types/dtype.h"

// What libraries that register their handlers themselves look for in the host.
const ffi_api *XLA_FFI_GetApi(void);

// Handlers by the name of their target; a later one replaces an earlier one. From any thread.
void ffi_register(hs_str name, ffi_handler *execute);
ffi_handler *ffi_registered(hs_str name);  // NULL: none

// Lists of n buffers in the arena, each to be set; gives the place of its sizes.
ffi_values ffi_values_new(hs_arena *, u32 n);
int64_t *ffi_values_set(hs_arena *, ffi_values *, u32 k, hlo_dtype, u32 rank, void *data);

// Calls a handler. config: the attributes, as in the backend_config of the call. E_UNSUPPORTED when
// they cannot be read, E_RUN with what the handler says.
hs_status ffi_invoke(ffi_handler *, const ffi_values *args, const ffi_values *rets, hs_str config,
                     hs_arena *);

#endif
