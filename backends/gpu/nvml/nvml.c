// nvml.c — NVML as one of NVIDIA's libraries (library.h). See nvml.h.
//
// Its functions have the version in their names, and keep their meaning under that name; so the
// library has no version to ask for.
#include "backends/gpu/nvml/nvml.h"

#include <stdio.h>

static const char *const places[] = {
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
};
const cuda_library cuda_nvml = {
    "NVML", "a part of NVIDIA's driver", "HLOSH_LIBNVML", places, HS_COUNT(places), 0,
    1,      "driver 470 or newer",
};

static hs_status check(ml_result r, const char *what) {
  if (r == ML_OK) return HS_GOOD;
  return hs_fail(HS_E_DEVICE, "%s: NVML error %d", what, r);
}

hs_status ml_open(const char *path, ml_api *out) {
  enum { REQUIRED = true, OPTIONAL = false };
  *out = (ml_api){0};
  const cuda_symbol symbols[] = {
#define ML_FN(field, symbol, need, args) {#symbol, need, (void **)(void *)&out->field},
#include "backends/gpu/nvml/nvml.def"
#undef ML_FN
  };
  HS_TRY(cuda_library_load(&cuda_nvml, path, &out->library));
  HS_TRY(cuda_library_fill(&cuda_nvml, out->library, symbols, HS_COUNT(symbols)));
  return check(out->init(), "starting NVML");
}

hs_status ml_find(const ml_api *api, const char *bus_id, ml_device **out) {
  return check(api->device_by_bus(bus_id, out), "looking for the device");
}

hs_status ml_read(const ml_api *api, ml_device *device, ml_reading *out) {
  unsigned long long millijoules = 0, reasons = 0;
  unsigned mhz = 0;
  *out = (ml_reading){0};
  HS_TRY(check(api->energy(device, &millijoules), "reading the energy counter"));
  out->joules = (double)millijoules * 1e-3;
  if (api->clock && api->clock(device, ML_CLOCK_SM, &mhz) == ML_OK) out->mhz = mhz;
  ml_result (*ask)(ml_device *, unsigned long long *) =
      api->reasons ? api->reasons : api->reasons_before;
  if (ask && ask(device, &reasons) == ML_OK) out->reasons = reasons;
  return HS_GOOD;
}

void ml_reasons_text(u64 reasons, char *out, size_t room) {
  static const struct {
    u64 bit;
    const char *text;
  } known[] = {
#define ML_REASON(name, theirs, bit, text) {bit, text},
#include "backends/gpu/nvml/nvml_reasons.def"
#undef ML_REASON
  };
  hs_buf b = {0};
  for (size_t k = 0; k < HS_COUNT(known); k++) {
    if ((reasons & known[k].bit) && *known[k].text)
      hs_buf_printf(&b, "%s%s", b.n ? ", " : "", known[k].text);
    reasons &= ~known[k].bit;
  }
  if (reasons) hs_buf_printf(&b, "%sanother reason", b.n ? ", " : "");
  (void)snprintf(out, room, "%s", hs_buf_cstr(&b));
  hs_buf_free(&b);
}
