// nvml.h — NVML (libnvidia-ml): what a device has used in energy, its clock, and why that is low.
// It comes with NVIDIA's driver, is looked for at run time (library.h), and nothing needs it.
#ifndef CUDA_NVML_H
#define CUDA_NVML_H

#include "backends/gpu/cuda/library.h"

typedef int ml_result;  // ML_OK, or an error
typedef struct ml_device ml_device;

enum {
#define ML_NUMBER(name, theirs, value) ML_##name = value,
#include "backends/gpu/nvml/nvml_numbers.def"
#undef ML_NUMBER
};
enum {
#define ML_REASON(name, theirs, bit, text) ML_REASON_##name = bit,
#include "backends/gpu/nvml/nvml_reasons.def"
#undef ML_REASON
};

extern const cuda_library cuda_nvml;

// A pointer to each function that nvml.def names; NULL for an optional one that is not there.
typedef struct ml_api {
#define ML_FN(field, symbol, need, args) ml_result(*field) args;
#include "backends/gpu/nvml/nvml.def"
#undef ML_FN
  void *library;
} ml_api;

// path NULL: the environment variable HLOSH_LIBNVML, else where drivers have it. Starts it.
// E_DEVICE, E_NOT_BUILT.
hs_status ml_open(const char *path, ml_api *out);
// One device, found by its PCI bus id, which is as CUDA has it ("0000:3b:00.0"). E_DEVICE.
hs_status ml_find(const ml_api *, const char *bus_id, ml_device **out);

typedef struct ml_reading {
  double joules;  // since the driver was loaded, of the whole device
  u32 mhz;        // clock of its multiprocessors now; 0: not known
  u64 reasons;    // bits, why it is not higher; 0: none, or not known
} ml_reading;
// E_DEVICE where the device has no such counter.
hs_status ml_read(const ml_api *, ml_device *, ml_reading *out);
// "power cap, temperature"; "" for none that lower the clock of a device at work. Cut where there
// is no room.
void ml_reasons_text(u64 reasons, char *out, size_t room);

#endif
