// gpu.h — descriptions of GPUs in XLA's form, the text of a GpuTargetConfigProto (XLA's specs,
// *.txtpb): written from gpus.def for the GPUs listed there, and read from any file.
#ifndef PROF_GPU_H
#define PROF_GPU_H

#include "profiler/model/prof.h"

// Appends the description of the GPU of that target name; false when there is none.
bool prof_gpu_text(const char *target, hs_buf *out);
// A device for estimates, from a description. Names are in the arena. E_INPUT names a required
// field that is missing. Others are derived: cache bandwidth as 24 bytes per core and clock,
// transcendentals as a quarter of f32.
hs_status prof_gpu_device(const char *text, hs_arena *, prof_device *out);

#endif
