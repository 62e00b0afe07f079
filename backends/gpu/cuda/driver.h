// driver.h — the CUDA driver: found and loaded at run time, its functions by name, its errors as
// statuses.
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include "backends/gpu/cuda/cuda_api.h"
#include "core/base/diag.h"

// The oldest API that is used: that of CUDA 11.4 (driver 470).
#define CUDA_OLDEST 11040

// Where functions come from, by the names that a library exports; NULL for those that it lacks.
typedef void *cuda_lookup(void *from, const char *symbol);
// Fills the table and asks for the version. E_DEVICE when a required function is missing or the API
// is older than CUDA_OLDEST; `what` names the source in messages. Initializes nothing.
hs_status cuda_driver_fill(cuda_driver *, cuda_lookup *, void *from, const char *what);
// Loads the library and fills the table. path NULL: the environment variable HLOSH_LIBCUDA, else
// libcuda.so.1 where the system and known distributions have it. E_DEVICE says what was looked for.
hs_status cuda_driver_open(const char *path, cuda_driver *out);
// The table goes; the library stays loaded, as drivers do not like to be unloaded.
void cuda_driver_close(cuda_driver *);
// Whether a library of the driver can be found, without loading it; appends where.
bool cuda_driver_present(hs_buf *where);
hs_status cuda_driver_missing(void);  // the error when it cannot

// What an error costs: see errors.def.
typedef enum cuda_scope { CUDA_SCOPE_CALL, CUDA_SCOPE_STICKY, CUDA_SCOPE_MACHINE } cuda_scope;
typedef struct cuda_error {
  cuda_result number;
  const char *name;  // as the headers have it, without CUDA_ERROR_
  cuda_scope scope;
  hs_code code;
  const char *advice;
} cuda_error;
// Its row; one that stands for unknown errors when there is none.
const cuda_error *cuda_error_of(cuda_result);
// The result of a call as a status: "what: CUDA error 2 (OUT_OF_MEMORY)", with the advice as note.
hs_status cuda_check(cuda_result, const char *what);
// Whether every later call of the process will fail like this one.
bool cuda_sticky(cuda_result);

#endif
