// devices.c: the table of devices. What a column means: devices.def.
#include "profiler/model/calibration.h"
#include "profiler/model/prof.h"

const prof_device prof_devices[] = {
#define DEVICE(name_, summary_, family_, f32, f64, trans, m32, m64, m16, m8, bw, cbw, cbytes, mem, \
               launch, loop, cores_, tm, tn, tk, link_, lbw, ls, node_, nbw, ns)                   \
  {.name = name_,                                                                                  \
   .summary = summary_,                                                                            \
   .family = PROF_##family_,                                                                       \
   .flops_f32 = f32,                                                                               \
   .flops_f64 = f64,                                                                               \
   .transcendentals = trans,                                                                       \
   .matrix_f32 = m32,                                                                              \
   .matrix_f64 = m64,                                                                              \
   .flops_bf16 = m16,                                                                              \
   .matrix_8 = m8,                                                                                 \
   .bandwidth = bw,                                                                                \
   .cache_bandwidth = cbw,                                                                         \
   .cache_bytes = cbytes,                                                                          \
   .memory_bytes = mem,                                                                            \
   .launch_s = launch,                                                                             \
   .loop_s = loop,                                                                                 \
   .cores = cores_,                                                                                \
   .tile_m = tm,                                                                                   \
   .tile_n = tn,                                                                                   \
   .tile_k = tk,                                                                                   \
   .link = link_,                                                                                  \
   .link_bandwidth = lbw,                                                                          \
   .link_s = ls,                                                                                   \
   .node = node_,                                                                                  \
   .network_bandwidth = nbw,                                                                       \
   .network_s = ns,                                                                                \
   .measured = PROF_##family_ == PROF_CPU ? &prof_generic : NULL,                                  \
   .threads = PROF_##family_ == PROF_CPU ? 2 : 0},
#include "profiler/model/devices.def"
};
const u32 prof_device_count = HS_COUNT(prof_devices);

const prof_device *prof_device_find(const char *name) {
  for (u32 k = 0; k < prof_device_count; k++)
    if (!strcmp(prof_devices[k].name, name)) return &prof_devices[k];
  return NULL;
}

bool prof_device_is_calibrated(const prof_device *d) {
  return d->measured && d->measured != &prof_generic;
}

prof_device prof_device_calibrated(const prof_calibration *c) {
  prof_device d = *prof_device_find("cpu");
  d.measured = c;
  d.threads = c->threads;
  d.summary = c->key;
  d.flops_f32 = prof_curve_at(&c->product_f32[1], 1e18);
  d.flops_f64 = prof_curve_at(&c->product_f64[1], 1e18);
  d.bandwidth = prof_curve_at(&c->stream[1], 1e18);
  d.cache_bandwidth = prof_curve_at(&c->stream[1], 256 << 10);
  d.transcendentals = c->threads / c->op_s[HLO_EXP][PROF_F32];
  d.launch_s = c->kernel_s;
  d.loop_s = c->loop_s;
  return d;
}
