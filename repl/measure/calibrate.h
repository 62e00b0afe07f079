// calibrate.h: measuring what this machine takes for elementary work, which
// profiler/model/calibration.h keeps.
#ifndef REPL_CALIBRATE_H
#define REPL_CALIBRATE_H

#include "backends/backend.h"
#include "profiler/model/calibration.h"

// Called before each group of measurements with its name, and the part that is done.
typedef void calibrate_progress(void *arg, const char *what, double done);

// Whose kernels are measured.
typedef struct calibrate_of {
  const backend *be;
  const backend_options *options;  // context, and the plug-in or Python
  const char *name;                // in the key: the backend and what of it is not hlosh's version
} calibrate_of;

// Generates modules, compiles and times them, with one thread and with `threads` (0: all). About
// half a minute, on XLA a minute. E_INTERRUPTED; E_UNSUPPORTED where the cpu backend cannot do what
// is to be measured. *refused: programs that XLA does not take, for which figures of a typical
// machine stand in; may be NULL.
hs_status calibrate_machine(const calibrate_of *, u32 threads, calibrate_progress *, void *arg,
                            prof_calibration *out, u32 *refused);
// Writes it to its place (prof_calibration_path), folders included; *path is the caller's.
hs_status calibrate_save(const prof_calibration *, char **path);

#endif
