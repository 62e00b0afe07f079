// price_accelerator.c: seconds of a kernel on a GPU or TPU, from the device's description. See
// price.h.
//
// A roofline whose roofs depend on the size. Memory: a kernel with little to move does not keep
// enough requests in flight for the full bandwidth (Little's law), and what fits the cache comes
// from it. Computation: a product is cut into tiles that are dealt to the cores; edges are padded
// (to the matrix unit on a GPU, to the systolic array on a TPU) and the last wave of tiles leaves
// cores idle. Libraries choose among a few tiles, so the best is taken. Loads and computation of a
// kernel overlap; launches follow each other.
#include <math.h>

#include "profiler/model/price.h"

// Bytes in flight that full bandwidth needs: this latency times the bandwidth.
#define MEMORY_LATENCY_S 0.6e-6
// The part of the peaks that good kernels reach, as vendors' own libraries do on large arrays.
#define REACHED_MEMORY 0.9
#define REACHED_PRODUCT 0.8
#define REACHED_VECTOR 0.7

// ---- memory -------------------------------------------------------------------------------------
// Bytes at the bandwidth of where they are; the latency of the first is not in it.
static double memory_time(const prof_device *d, u32 n, const prof_place *p) {
  double s = 0, all = 0;
  for (u32 k = 0; k < n; k++) {
    bool cached = HS_MAX(p[k].distance, p[k].bytes) <= 0.8 * (double)d->cache_bytes;
    double bandwidth = (cached ? HS_MAX(d->cache_bandwidth, d->bandwidth) : d->bandwidth);
    s += p[k].bytes / (bandwidth * REACHED_MEMORY);
    all += p[k].bytes;
  }
  return all > 0 ? s : 0;
}

// ---- products -----------------------------------------------------------------------------------
static double vector_peak(const prof_device *d, hlo_dtype t) {
  double peak = prof_type_of(t) == PROF_F64 ? d->flops_f64 : d->flops_f32;
  // a type that the hardware lacks is put together from the other
  return peak > 0 ? peak : d->flops_f32 / 16;
}

double prof_product_peak(const prof_device *d, hlo_dtype t) {
  double matrix = hlo_dtype_bits(t) <= 8 ? d->matrix_8 : 0;
  switch (prof_type_of(t)) {
  case PROF_F64: matrix = d->matrix_f64; break;
  case PROF_F16:
    if (hlo_dtype_bits(t) == 16 || matrix == 0) matrix = d->flops_bf16;
    break;
  // XLA lets f32 products of the default precision use TF32 where there is some, and passes of
  // bf16 on a TPU
  case PROF_F32: matrix = d->matrix_f32; break;
  default: break;
  }
  return HS_MAX(matrix, vector_peak(d, t));
}

static double padded(double n, double to) { return ceil(HS_MAX(n, 1) / to) * to; }

static double wave_part(double tiles, double cores) {
  return tiles / (ceil(tiles / cores) * cores);
}

double prof_product_utilization(const prof_product *p, const prof_device *d) {
  double work = p->batch * p->m * p->n * p->k, best = 0;
  if (!(work > 0)) return 1;
  if (d->family == PROF_TPU) {
    // weights stay in the array, k by n; rows stream through it, either operand may be the rows
    for (u32 swap = 0; swap < 2; swap++) {
      double rows = padded(swap ? p->n : p->m, d->tile_m), n = swap ? p->m : p->n;
      double tiles = p->batch * ceil(n / d->tile_n) * ceil(p->k / d->tile_k);
      double full = p->batch * rows * padded(n, d->tile_n) * padded(p->k, d->tile_k);
      // filling and draining the array takes its depth in rows, once per tile, half of it hidden
      double fill = rows / (rows + 0.5 * d->tile_k);
      best = HS_MAX(best, work / full * fill * wave_part(tiles * ceil(rows / 512), d->cores));
    }
    return best;
  }
  static const double tiles[][2] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128},
                                    {64, 64},   {64, 32},   {32, 64},   {32, 32}};
  for (size_t t = 0; t < HS_COUNT(tiles); t++) {
    double m = tiles[t][0], n = tiles[t][1];
    double count = p->batch * ceil(p->m / m) * ceil(p->n / n);
    // long products are also cut along k, until the cores have work
    double cuts = HS_MIN(HS_MAX(floor(d->cores / count), 1), HS_MAX(floor(p->k / 512), 1));
    double full = p->batch * padded(p->m, m) * padded(p->n, n) * padded(p->k, 2 * d->tile_k);
    // a small tile loads more per operation: it cannot keep the matrix units busy
    double intensity = HS_MIN(1, sqrt(m * n) / 128);
    best = HS_MAX(best, work / full * wave_part(count * cuts, d->cores) * intensity);
  }
  return best;
}

// ---- the rest -----------------------------------------------------------------------------------
// Seconds of all operations at full occupancy, weighted as the emitter weighs them (costs.def).
static double loop_time(const prof_work *w, const prof_device *d) {
  double s = 0;
  for (u32 k = 0; k < w->ncounts; k++) {
    const hlo_cost_info *c = hlo_op_cost(w->counts[k].op);
    bool trans = c->counts == HLO_COUNTS_TRANS;
    double rate = w->counts[k].type == PROF_F64 ? vector_peak(d, HLO_F64) : d->flops_f32;
    // an instruction is one operation of a multiply-add's two
    double one = 2 * (trans ? 1 : c->cycles) / rate;
    if (trans) one = HS_MAX(c->cycles / 20.0, 0.5) / d->transcendentals * (d->flops_f32 / rate);
    s += w->counts[k].elements * one;
  }
  return (s + 2 * (w->reduced_row + w->reduced_column + w->whole) / d->flops_f32) / REACHED_VECTOR;
}

// Passes over memory that the algorithms of libraries make.
static double extra_passes(const prof_work *w) {
  switch (w->special) {
  case PROF_SORT: return w->comparator ? 2 * log2(HS_MAX(w->line, 2)) / 4 : 2 * w->digits;
  case PROF_TOPK: return 2;
  case PROF_FFT: return HS_MAX(ceil(log2(HS_MAX(w->line, 2)) / 9), 1) - 1;
  case PROF_SCATTER: return 1;
  default: return 0;
  }
}

// The part of the cores that have a block of the kernel to run.
static double occupancy(const prof_work *w, const prof_device *d) {
  double blocks = ceil(HS_MAX(w->points, w->items) / 1024);
  return blocks >= d->cores ? wave_part(blocks, d->cores * 4.0 > blocks ? d->cores : 1)
                            : HS_MAX(blocks, 1) / d->cores;
}

void prof_price_accelerator(const prof_work *w, const prof_device *d, u32 n,
                            const prof_place *places, prof_kernel *out) {
  *out = (prof_kernel){.bytes = w->read + w->written, .flops = w->flops, .launch_s = d->launch_s};
  out->memory_s = memory_time(d, n, places) * (1 + extra_passes(w));
  if (w->special == PROF_PRODUCT || w->fused_product) {
    const prof_product *p = &w->product;
    out->utilization = prof_product_utilization(p, d);
    double flops = HS_MAX(w->flops, 0) * (hlo_dtype_is_complex(p->type) ? 4 : 1);
    out->compute_s =
        flops / (prof_product_peak(d, p->type) * REACHED_PRODUCT * HS_MAX(out->utilization, 1e-6));
  } else {
    double busy = HS_MAX(occupancy(w, d), 1e-3);
    out->compute_s = loop_time(w, d) / busy;
    if (w->special == PROF_SOLVE)  // one column after another
      out->compute_s += w->flops / (vector_peak(d, HLO_F32) * 0.05) + sqrt(w->points) * 2e-6;
    // a few blocks cannot ask for the whole bandwidth: about eight times their share
    out->memory_s *= HS_MIN(HS_MAX(0.125 / busy, 1), 16);
  }
  if (out->memory_s > 0) out->memory_s += MEMORY_LATENCY_S;
  out->seconds = out->launch_s + HS_MAX(out->compute_s, out->memory_s);
  out->bound = out->launch_s > HS_MAX(out->compute_s, out->memory_s) ? PROF_LAUNCH
               : out->memory_s >= out->compute_s                     ? PROF_MEMORY
                                                                     : PROF_COMPUTE;
}
