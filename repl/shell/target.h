// target.h — the device that estimates and XLA's compiler are for: a row of the device table, or
// a description read from a file.
#ifndef REPL_TARGET_H
#define REPL_TARGET_H

#include "backends/pjrt/pjrt.h"
#include "repl/shell/command.h"

// Whether a target is a file, with a description in the format of XLA's GPU specs.
bool repl_is_device_file(const char *name);
// That description: the device, its names in the arena, and the text. E_IO, E_INPUT.
hs_status repl_read_device(const char *path, hs_arena *names, hs_buf *text, prof_device *out);
// A device by its name in the table, "cpu" as repl_here; or of such a file, for as long as the
// command runs. E_USAGE with the nearest name, or what is wrong with the file.
hs_status repl_find_device(const repl_cmd *, const char *name, const prof_device **out);
// This machine, with the threads that are set, as the session's backend does things: real XLA where
// it was calibrated, else the cpu backend.
const prof_device *repl_here(repl_session *);
// "cpu", "jax 0.10.2", "pjrt xla_cpu_pjrt.so 1f6a0c22" (of its size and time): whose kernels a
// calibration describes. Backends without kernels on this processor are as cpu. E_NOT_BUILT and
// others when there is no such XLA.
hs_status repl_calibration_name(const backend *, const char *plugin, const char *python,
                                char out[48]);
// Takes the calibration of this machine from its file, when there is one: for `here`. A file that
// does not fit is not taken, and calibration_problem says why.
void repl_load_calibration(repl_session *);
// "calibrated: KEY", "data sheet", "typical, not measured": where a device's figures come from.
const char *repl_device_origin(const prof_device *);
// What stands behind one estimate: the device's name, "a typical cpu" where it was not measured.
const char *repl_device_label(const prof_device *);
// How the xla commands compile: as the session's plug-in does, or, when the target is a GPU, for
// that GPU with the first plug-in that can. *plugin: what `out` borrows, the caller's to free.
hs_status repl_xla_options(repl_session *, backend_options *out, char **plugin);
bool repl_xla_for_gpu(const repl_session *);  // the xla commands compile for a GPU
// Prints the notes on a compilation for a GPU that is not installed: that it is not tuned, which
// fields of its description were left out, which custom calls have no code there.
void repl_say_gpu_target(repl_cmd *, const pjrt_result *);

#endif
