// calibrate.h: measuring what this machine takes for elementary work, which
// profiler/model/calibration.h keeps.
#ifndef REPL_CALIBRATE_H
#define REPL_CALIBRATE_H

#include "backends/backend.h"
#include "profiler/model/calibration.h"

// Called before each group of measurements with its name, and the part that is done.
typedef void calibrate_progress(void *arg, const char *what, double done);

// Generates modules, compiles and times them on the cpu backend of the context, with one thread and
// with `threads` (0: all). About half a minute. E_INTERRUPTED; E_UNSUPPORTED where the backend
// cannot do what is to be measured.
hs_status calibrate_machine(backend_context *, u32 threads, calibrate_progress *, void *arg,
                            prof_calibration *out);
// Writes it to its place (prof_calibration_path), folders included; *path is the caller's.
hs_status calibrate_save(const prof_calibration *, char **path);

#endif
