// estimate.c — the estimator: the time of a module on a device, computed from shapes alone.
//
// Model (a roofline per kernel, Williams et al. 2009): a kernel takes launch + max(bytes /
// bandwidth, flops / peak, transcendentals / rate); memory traffic and computation overlap, kernels
// do not. A kernel whose operands and results fit the cache together is served at cache bandwidth.
// Naive: every instruction is a kernel and every intermediate result goes through memory. Otherwise
// a fusion is one kernel. The body of a loop counts once per iteration (core/analysis/cost.h), once
// where the number of iterations is unknown; unknown custom calls count the bytes of their operands
// and results.
#include "profiler/prof.h"

#include <math.h>

const prof_device prof_devices[] = {
#define DEVICE(name, summary, f32, bf16, f64, trans, bw, cbw, cbytes, launch, mem) \
  {name, summary, f32, bf16, f64, trans, bw, cbw, cbytes, launch, mem},
#include "profiler/devices.def"
#undef DEVICE
};
const u32 prof_device_count = HS_COUNT(prof_devices);

const prof_device *prof_device_find(const char *name) {
  for (u32 k = 0; k < prof_device_count; k++)
    if (!strcmp(prof_devices[k].name, name)) return &prof_devices[k];
  return NULL;
}

static double peak_of(const prof_device *d, hlo_dtype t) {
  t = hlo_dtype_real_part(t);
  if (!hlo_dtype_is_float(t)) return d->flops_f32;
  return hlo_dtype_bits(t) == 64   ? d->flops_f64
         : hlo_dtype_bits(t) == 16 ? d->flops_bf16
                                   : d->flops_f32;
}

static hlo_dtype first_dtype(const hlo_shape *s) {
  const hlo_shape *leaf = hlo_shape_leaf(s, 0);
  return leaf ? leaf->dtype : HLO_F32;
}

// Seconds of one execution of a kernel with this cost.
static double kernel_seconds(const hlo_cost *c, hlo_dtype t, const prof_device *d) {
  double bytes = c->bytes_read + c->bytes_written;
  double bandwidth = bytes <= (double)d->cache_bytes ? d->cache_bandwidth : d->bandwidth;
  double seconds = bytes / bandwidth;
  seconds = HS_MAX(seconds, c->flops / peak_of(d, t));
  seconds = HS_MAX(seconds, c->transcendentals / d->transcendentals);
  return seconds + d->launch_s;
}

double prof_estimate_instr(const hlo_instr *i, const prof_device *d) {
  if (hlo_op_has(i->opcode, HLO_F_FREE)) return 0;
  hlo_cost c = hlo_cost_instr(i);
  // Products run on operands of their own type (bf16 x bf16 -> f32 uses the bf16 units).
  hlo_dtype t = i->noperands && (i->opcode == HLO_DOT || i->opcode == HLO_CONVOLUTION)
                    ? first_dtype(hlo_operand(i, 0)->shape)
                    : first_dtype(i->shape);
  return kernel_seconds(&c, t, d);
}

typedef struct estimator {
  const prof_device *d;
  bool naive;
  prof_estimate e;
  double launches;
  u32 depth;
} estimator;

static void add_computation(estimator *x, const hlo_computation *c, double times);

static void add_instr(estimator *x, const hlo_instr *i, double times) {
  if (hlo_op_has(i->opcode, HLO_F_FREE)) return;
  switch (i->opcode) {
  case HLO_CALL:
  case HLO_ASYNC_START:
    if (hlo_fusion_comp(i)) add_computation(x, hlo_fusion_comp(i), times);
    return;
  case HLO_FUSION:
    if (!x->naive) break;
    add_computation(x, hlo_fusion_comp(i), times);
    return;
  case HLO_WHILE: {
    i64 trips = hlo_trip_count(i);
    double n = trips >= 0 ? (double)trips : 1;
    add_computation(x, hlo_attr_comp(i, HLO_ATTR_BODY), times * n);
    add_computation(x, hlo_attr_comp(i, HLO_ATTR_CONDITION), times * (n + 1));
    return;
  }
  case HLO_CONDITIONAL: {  // branches are assumed to be equally likely
    hlo_computation *branch[64];
    u32 n = HS_MIN(hlo_called(i, branch, HS_COUNT(branch)), (u32)HS_COUNT(branch));
    for (u32 k = 0; k < n; k++) add_computation(x, branch[k], times / n);
    return;
  }
  default: break;
  }
  hlo_cost c = hlo_cost_instr(i);
  x->e.time_s += times * prof_estimate_instr(i, x->d);
  x->e.flops += times * c.flops;
  x->e.bytes += times * (c.bytes_read + c.bytes_written);
  x->launches += times >= 1 ? floor(times) : 1;
}

static void add_computation(estimator *x, const hlo_computation *c, double times) {
  if (++x->depth > 200) {  // deeper than calls of any real program
    x->depth--;
    return;
  }
  hlo_for_each_instr(i, c) add_instr(x, i, times);
  x->depth--;
}

hs_status prof_estimate_module(const hlo_module *m, const prof_device *d, bool naive,
                               prof_estimate *out) {
  estimator x = {.d = d, .naive = naive};
  add_computation(&x, m->entry, 1);
  hlo_memory memory;
  HS_TRY(hlo_memory_estimate(m, naive, &memory));
  x.e.peak_bytes = memory.peak_bytes;
  x.e.kernels = (u32)HS_MIN(x.launches, (double)UINT32_MAX);
  *out = x.e;
  return HS_GOOD;
}

hs_status prof_savings_from(double time, double memory, double speedup, double memory_factor,
                            prof_savings *out) {
  if (!(time >= 0) || !(memory >= 0))
    return hs_fail(HS_E_USAGE, "baseline time and memory must not be negative");
  if (!(speedup > 0) || !(memory_factor > 0))
    return hs_fail(HS_E_USAGE, "speedup and memory factors must be greater than zero");
  prof_savings s = {
      .time = time, .memory = memory, .speedup = speedup, .memory_factor = memory_factor};
  s.opt_time = time / speedup;
  s.opt_memory = memory / memory_factor;
  s.time_saved = time - s.opt_time;
  s.memory_saved = memory - s.opt_memory;
  s.time_percent = time > 0 ? 100 * s.time_saved / time : 0;
  s.memory_percent = memory > 0 ? 100 * s.memory_saved / memory : 0;
  *out = s;
  return HS_GOOD;
}
