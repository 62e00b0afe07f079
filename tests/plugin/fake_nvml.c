// fake_nvml.c — an NVML of our own for tests: one device, that with the emulated driver's bus id,
// which takes 200 W all the time, and misbehaves on request.
//
// It is strict: nothing before it was started, the device that it gave, addresses to write to, and
// reasons for the clock by their name of now where it has that. What breaks a rule answers
// INVALID_ARGUMENT and says on stderr which. Its counter stands still for 50 ms at a time.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok           as it should be; the device says that it has nothing to do
//   slowed       the clock is low for the power cap, temperature, and a reason that nobody knows
//   old          has no nvmlDeviceGetCurrentClocksEventReasons (the test renames it in its copy),
//                and is slowed by the power cap
//   missing      has no nvmlDeviceGetTotalEnergyConsumption (likewise)
//   denied       does not start
//   elsewhere    does not know the device
//   unsupported  the device has no counter
//   still        the counter never moves
//   back         the counter is set to zero between two readings
#include "backends/gpu/nvml/nvml.h"

#include "tests/plugin/fake_library.h"

#define FAKE_NAME "fake_nvml"
#define FAKE_BROKEN ML_INVALID_ARGUMENT

enum { WATTS = 200, UPDATE_MS = 50 };
static bool started;
static char device;

#define STARTED() \
  if (!started) return (void)fprintf(stderr, FAKE_NAME ": not started\n"), ML_UNINITIALIZED

#define ML_FN(field, symbol, need, args) EXPORT ml_result symbol args;
#include "backends/gpu/nvml/nvml.def"
#undef ML_FN

ml_result nvmlInit_v2(void) {
  if (is("denied")) return ML_NO_PERMISSION;
  started = true;
  return ML_OK;
}

ml_result nvmlDeviceGetHandleByPciBusId_v2(const char *id, ml_device **out) {
  STARTED();
  RULE(id && out);
  if (is("elsewhere") || strcmp(id, "0000:00:00.0") != 0) return ML_NOT_FOUND;
  *out = (ml_device *)(void *)&device;
  return ML_OK;
}

ml_result nvmlDeviceGetTotalEnergyConsumption(ml_device *d, unsigned long long *millijoules) {
  static unsigned readings;
  STARTED();
  RULE(d == (ml_device *)(void *)&device && millijoules);
  if (is("unsupported")) return ML_NOT_SUPPORTED;
  unsigned long long updates = hs_now_ns() / 1000000 / UPDATE_MS;
  *millijoules = is("still")                    ? 1234567
                 : is("back") && readings++ % 2 ? 0
                                                : updates * UPDATE_MS * WATTS;
  return ML_OK;
}

ml_result nvmlDeviceGetClockInfo(ml_device *d, int clock, unsigned *mhz) {
  STARTED();
  RULE(d == (ml_device *)(void *)&device && mhz && clock == ML_CLOCK_SM);
  *mhz = is("ok") ? 1980 : 1410;
  return ML_OK;
}

ml_result nvmlDeviceGetCurrentClocksEventReasons(ml_device *d, unsigned long long *reasons) {
  STARTED();
  RULE(d == (ml_device *)(void *)&device && reasons && !is("old"));
  *reasons = is("slowed") ? ML_REASON_POWER_CAP | ML_REASON_THERMAL | 0x8000 : ML_REASON_IDLE;
  return ML_OK;
}

ml_result nvmlDeviceGetCurrentClocksThrottleReasons(ml_device *d, unsigned long long *reasons) {
  STARTED();
  RULE(d == (ml_device *)(void *)&device && reasons && is("old"));
  *reasons = ML_REASON_IDLE | ML_REASON_POWER_CAP;
  return ML_OK;
}
