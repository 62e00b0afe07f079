// power.c — what the runs of a program took from the device: its energy counter before them and
// behind them, and its clock behind them (nvml/nvml.h).
//
// The device of CUDA is found in NVML by its bus id, as the two number devices differently. Where
// there is no NVML, no such device in it (the emulator, drivers of our own) or no counter, nothing
// is said, and nothing is asked again in this process.
#include "backends/gpu/nvml/nvml.h"
#include "backends/gpu/gpu.h"

// The worker's own state, of the one device that it opens.
static struct {
  bool tried;
  ml_api api;
  ml_device *device;  // NULL: there is none
  u64 began_ns;
  ml_reading began;
} meter;

static hs_status find(gpu_device *dev) {
  char bus_id[32];
  GPU_TRY(dev, dev->d.device_bus_id(bus_id, sizeof bus_id, dev->number), "asking for the bus id");
  HS_TRY(ml_open(NULL, &meter.api));
  ml_device *found = NULL;
  HS_TRY(ml_find(&meter.api, bus_id, &found));
  meter.device = found;
  return HS_GOOD;
}

static bool read_now(ml_reading *out) {
  hs_status s = ml_read(&meter.api, meter.device, out);
  bool good = hs_ok(s);
  if (!good) meter.device = NULL;
  hs_status_drop(s);
  return good;
}

void gpu_power_begin(gpu_device *dev) {
  meter.began_ns = 0;
  if (!dev) return;
  // the emulator is no library
  bool first = !meter.tried && dev->d.library && dev->d.device_bus_id;
  meter.tried = true;
  if (first) hs_status_drop(find(dev));
  if (!meter.device || !read_now(&meter.began)) return;
  meter.began_ns = hs_now_ns();
}

void gpu_power_end(u32 runs, backend_power *out) {
  ml_reading now;
  *out = (backend_power){0};
  if (!meter.device || !meter.began_ns || !read_now(&now)) return;
  out->seconds = (double)(hs_now_ns() - meter.began_ns) * 1e-9;
  // a counter that went back was set to zero meanwhile
  out->joules = now.joules > meter.began.joules ? now.joules - meter.began.joules : 0;
  out->runs = runs;
  out->mhz = now.mhz;
  ml_reasons_text(now.reasons, out->slowed, sizeof out->slowed);
}
