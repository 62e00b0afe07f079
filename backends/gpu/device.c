// device.c — an open device: its driver, context, stream, and transfers. See gpu.h.
//
// The primary context is used, which libraries of NVIDIA's use too. Transfers between the device
// and memory that is not pinned go through two halves of a pinned block, so that one half is filled
// while the other is on its way.
#include <stdio.h>

#include "backends/gpu/emu/api.h"
#include "backends/gpu/gpu.h"

#define EMU_NAME "emulated GPU"  // as the emulator calls its device

enum { HALF = 4 << 20 };

hs_status gpu_check(gpu_device *dev, cuda_result r, const char *what) {
  if (HS_LIKELY(r == CUDA_OK)) return HS_GOOD;
  dev->failed |= cuda_sticky(r);
  hs_status s = cuda_check(r, what);
#if HAVE_LLVM
  // what a device cannot say: which thread of which kernel did it
  if (dev->bitcode && *emu_api_why()) s = hs_with_note(s, "%s", emu_api_why());
#endif
  return s;
}

static void *symbol_of_emulator(void *from, const char *symbol) {
  (void)from;
#if HAVE_LLVM
  return emu_api_symbol(symbol);
#else
  (void)symbol;
  return NULL;
#endif
}

static hs_status attribute(gpu_device *dev, int which, int *out) {
  return gpu_check(dev, dev->d.device_attribute(out, which, dev->number),
                   "asking for a property of the device");
}

hs_status gpu_device_count(gpu_device *dev, u32 *out) {
  int n = 0;
  GPU_TRY(dev, dev->d.device_count(&n), "counting devices");
  *out = (u32)HS_MAX(n, 0);
  return HS_GOOD;
}

static hs_status open_context(gpu_device *dev, u32 number) {
  int major = 0, minor = 0;
  u32 count = 0;
  GPU_TRY(dev, dev->d.init(0), "starting the CUDA driver");
  HS_TRY(gpu_device_count(dev, &count));
  if (count < 1) return cuda_check(CUDA_NO_DEVICE, "looking for a device");
  GPU_TRY(dev, dev->d.device_get(&dev->number, (int)number), "opening a device");
  GPU_TRY(dev, dev->d.device_name(dev->name, sizeof dev->name, dev->number), "naming the device");
  dev->bitcode = strcmp(dev->name, EMU_NAME) == 0;
  HS_TRY(attribute(dev, CUDA_DEVICE_MAJOR, &major));
  HS_TRY(attribute(dev, CUDA_DEVICE_MINOR, &minor));
  dev->sm = (u32)(10 * major + minor);
  GPU_TRY(dev, dev->d.context_retain(&dev->context, dev->number), "opening a context");
  GPU_TRY(dev, dev->d.context_set(dev->context), "entering the context");
  GPU_TRY(dev, dev->d.stream_new(&dev->stream, CUDA_STREAM_NON_BLOCKING), "making a stream");
  for (int k = 0; k < 2; k++) {
    GPU_TRY(dev, dev->d.event_new(&dev->free_again[k], CUDA_EVENT_NO_TIMING), "making an event");
    GPU_TRY(dev, dev->d.event_record(dev->free_again[k], dev->stream), "recording an event");
  }
  void *pinned;
  GPU_TRY(dev, dev->d.host_alloc(&pinned, 2 * (size_t)HALF, CUDA_HOST_PORTABLE), "pinning memory");
  dev->pinned = pinned;
  return HS_GOOD;
}

static hs_status open_device(gpu_device *dev, bool emulated) {
  if (!emulated) HS_TRY(cuda_driver_open(dev->path, &dev->d));
  else HS_TRY(cuda_driver_fill(&dev->d, symbol_of_emulator, NULL, "the emulator"));
#if HAVE_LLVM
  if (emulated) emu_api_behave(&(emu_behaviour){.devices = EMU_MOST_DEVICES});
#endif
  return open_context(dev, 0);
}

static bool same_path(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

// The devices of this process: the worker's own state.
static struct {
  gpu_device *device[GPU_MOST_DEVICES];
  bool emulated;
} opened;

hs_status gpu_device_use(gpu_device *dev) {
  if (dev->failed)
    return hs_with_note(hs_fail(HS_E_DEVICE, "the device was lost by an earlier error"),
                        "the next run starts a new process");
  return gpu_check(dev, dev->d.context_set(dev->context), "entering the context");
}

// What was opened of it stays with the driver: after an error the process is of no use any more.
static hs_status open_another(u32 number, gpu_device **out) {
  const gpu_device *first = opened.device[0];
  gpu_device *dev = hs_calloc(1, sizeof *dev);
  dev->d = first->d;
  dev->path = first->path;
  hs_status s = open_context(dev, number);
  if (hs_ok(s)) opened.device[number] = *out = dev;
  else hs_free(dev);
  return s;
}

hs_status gpu_device_get(bool emulated, const char *driver, u32 number, gpu_device **out) {
  HS_REQUIRE(number < GPU_MOST_DEVICES);
  gpu_device *dev = *out = opened.device[number];
  const gpu_device *first = opened.device[0];
  if (first && (opened.emulated != emulated || !same_path(first->path, driver)))
    return hs_fail_subject(HS_E_DEVICE, GPU_OTHER_DRIVER, "the process has another driver open");
  if (dev) return gpu_device_use(dev);
  if (first) return open_another(number, out);
  dev = hs_calloc(1, sizeof *dev);
  dev->path = driver ? hs_strdup(driver) : NULL;
  hs_status s = open_device(dev, emulated);
  if (!hs_ok(s)) {  // what was opened stays with the driver: the process is of no use any more
    cuda_driver_close(&dev->d);
    hs_free(dev->path);
    hs_free(dev);
    return s;
  }
  opened.device[0] = *out = dev;
  opened.emulated = emulated;
  return HS_GOOD;
}

hs_status gpu_upload(gpu_device *dev, cuda_ptr to, const void *from, size_t n) {
  for (size_t at = 0, k = 0; at < n; at += HALF, k ^= 1) {
    size_t m = HS_MIN(n - at, (size_t)HALF);
    char *half = dev->pinned + k * HALF;
    GPU_TRY(dev, dev->d.event_wait(dev->free_again[k]), "waiting for a transfer");
    memcpy(half, (const char *)from + at, m);
    GPU_TRY(dev, dev->d.copy_in(to + at, half, m, dev->stream), "copying to the device");
    GPU_TRY(dev, dev->d.event_record(dev->free_again[k], dev->stream), "recording an event");
  }
  return HS_GOOD;
}

// A half is read when its transfer is through, while the next one is on its way to the other.
hs_status gpu_download(gpu_device *dev, void *to, cuda_ptr from, size_t n) {
  size_t parts = (n + HALF - 1) / HALF;
  for (size_t k = 0; k <= parts; k++) {
    if (k < parts) {
      size_t at = k * HALF;
      GPU_TRY(dev,
              dev->d.copy_out(dev->pinned + (k & 1) * HALF, from + at, HS_MIN(n - at, (size_t)HALF),
                              dev->stream),
              "copying from the device");
      GPU_TRY(dev, dev->d.event_record(dev->free_again[k & 1], dev->stream), "recording an event");
    }
    if (k == 0) continue;
    size_t at = (k - 1) * HALF;
    GPU_TRY(dev, dev->d.event_wait(dev->free_again[(k - 1) & 1]), "waiting for a transfer");
    memcpy((char *)to + at, dev->pinned + ((k - 1) & 1) * HALF, HS_MIN(n - at, (size_t)HALF));
  }
  return HS_GOOD;
}
