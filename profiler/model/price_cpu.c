// price_cpu.c: seconds of a kernel on a machine with a calibration. See price.h.
//
// A kernel is priced for one thread first: its operations at the rates of vector loops, its bytes
// at the bandwidth of the cache that still holds them. The smaller of the two hides in the larger
// but for a part. What takes long enough is cut into chunks for all threads (chunks depend on
// shapes only, as in the cpu backend), and there the bandwidth of all of them bounds it. Library
// calls have rates by size instead.
#include <math.h>

#include "profiler/model/calibration.h"
#include "profiler/model/price.h"

// The least time of a chunk, as the cpu backend cuts them.
#define CHUNK_S 20e-6

static double both(double a, double b) { return HS_MAX(a, b) + PROF_EXPOSED * HS_MIN(a, b); }

// Seconds of a byte that is read, and of one that is written: of loops that only read or only
// write. Beside reading, writing takes what a stream of both takes less that.
static double byte_time(const prof_calibration *c, bool all, double distance, bool written,
                        bool reads) {
  double both = 2 / prof_curve_at(&c->stream[all], distance),
         read = 1 / prof_curve_at(&c->load[all], distance);
  if (!reads) return 1 / prof_curve_at(&c->fill[all], distance);
  return written ? HS_MIN(HS_MAX(both - read, both / 4), both * 3 / 4) : read;
}

static double memory_time(const prof_calibration *c, bool all, u32 n, const prof_place *p) {
  double s = 0, read = 0, written = 0;
  for (u32 k = 0; k < n; k++) *(p[k].written ? &written : &read) += p[k].bytes;
  bool reads = read > written / 16;
  for (u32 k = 0; k < n; k++)
    if (p[k].bytes > 0)
      s += p[k].bytes * byte_time(c, all, HS_MAX(p[k].distance, p[k].bytes), p[k].written, reads);
  return s;
}

// ---- loops over elements ------------------------------------------------------------------------
static double loop_time(const prof_work *w, const prof_calibration *c) {
  double s = 0;
  if (c->xla && w->copied) return 0;
  for (u32 k = 0; k < w->ncounts; k++)
    s += w->counts[k].elements * c->op_s[w->counts[k].op][w->counts[k].type];
  s += w->reduced_row * c->row_s + w->reduced_column * c->column_s + w->against * c->against_s;
  s += w->rows * c->row_end_s + w->extremes * c->extreme_s;
  s += w->slid * c->slide_s + w->slid_rows * c->slide_rows_s;
  s += w->scanned * c->scan_s + w->scanned_rows * c->scan_rows_s + w->narrow * c->narrow_s;
  s += w->whole * c->op_s[HLO_ADD][PROF_F32] + w->gapped * c->gapped_s;
  s += w->divided * c->divide_s + w->divided_long * c->divide_long_s;
  s += w->windowed * c->windowed_s + w->combined * c->combined_s;
  if (w->strided > 0) s += w->strided / prof_curve_at(&c->transposes[0], w->pitch);
  return s + w->indexed * c->indexed_s + w->widened * c->widen_s;
}

// ---- products -----------------------------------------------------------------------------------
static double flops_of(const prof_product *p) { return 2 * p->m * p->n * p->k; }

static const prof_curve *product_curve(const prof_calibration *c, hlo_dtype t, bool all) {
  if (hlo_dtype_is_integer(t)) return &c->product_s8[all];
  switch (prof_type_of(t)) {
  case PROF_F64: return &c->product_f64[all];
  case PROF_F16:
  case PROF_F8: return &c->product_bf16[all];
  default: return &c->product_f32[all];
  }
}

static bool is_short_float(hlo_dtype t) {
  return prof_type_of(t) == PROF_F16 || prof_type_of(t) == PROF_F8;
}

// Columns that do not fill a vector.
#define FEW 8

static double product_time(const prof_product *p, const prof_calibration *c, u32 threads) {
  double flops = flops_of(p), least = HS_MIN(p->m, HS_MIN(p->n, p->k));
  if (hlo_dtype_is_complex(p->type)) flops *= 4;
  if (least < 2 && (p->m < 2 || p->n < 2)) {
    double rows = p->batch * HS_MAX(p->m, p->n);
    double column_s = HS_MAX(p->m, p->n) < FEW ? c->vector_few_s : c->vector_product_s;
    double s = p->by_rows ? p->batch * flops * c->vector_rows_s + rows * c->vector_row_s
                          : p->batch * flops * column_s;
    double cut = HS_MIN(HS_MAX(floor(s / CHUNK_S), 1), threads);
    return c->product_s + s / cut;
  }
  bool all = threads > 1;
  // several products share the threads: each runs as on one
  double together = p->batch > 1 ? HS_MIN(p->batch, threads) : 1;
  bool shared = all && together == 1;
  double rate = prof_curve_at(product_curve(c, p->type, shared), flops) *
                prof_curve_at(&c->narrow_m[shared], p->m) *
                prof_curve_at(&c->narrow_n[shared], p->n) *
                prof_curve_at(&c->narrow_k[shared], p->k);
  double pack = is_short_float(p->type) ? p->operands * c->pack_bf16_s
                                        : p->packed * c->pack_s + p->turned * c->turn_s;
  return c->product_s + p->batch * flops / rate / together + pack / threads;
}

static double convolution_time(const prof_work *w, const prof_calibration *c, bool all) {
  const prof_product *p = &w->product;
  double flops = w->flops;
  const prof_curve *rate = c->convolution;
  if (p->grouped) rate = p->k <= p->taps ? c->convolution_grouped : c->convolution_groups;
  else if (prof_type_of(p->type) == PROF_F16) rate = c->convolution_bf16;
  else if (p->taps >= 16 && p->taps > p->m / 4) rate = c->convolution_weights;
  else if (p->dilated) rate = c->convolution_dilated;
  double r = prof_curve_at(&rate[all], flops);
  return c->convolution_s + flops / r;
}

// ---- what runs as a loop of its own -------------------------------------------------------------
static double log2_of(double n) { return n > 2 ? log2(n) : 1; }

static double special_time(const prof_work *w, const prof_calibration *c, u32 threads) {
  switch (w->special) {
  case PROF_SORT: {
    // lines are sorted side by side, each by one thread; a single one by keys by all of them
    double lines = HS_MAX(w->items / HS_MAX(w->line, 1), 1), cut = HS_MIN(lines, threads);
    if (w->comparator || (c->xla && w->compares > 1))
      return w->items * log2_of(w->line) * c->comparator_s / cut;
    bool all = lines < 2 && threads > 1;
    double key = 1 / prof_curve_at(&c->keys[all], w->line),
           pair = HS_MAX(1 / prof_curve_at(&c->pairs[all], w->line), key);
    return w->items * w->digits * (key + HS_MAX(w->arrays - 1, 0) * (pair - key)) / cut;
  }
  case PROF_GATHER: return w->items / prof_curve_at(&c->gathers[0], w->table);
  case PROF_SCATTER:
    return w->items / prof_curve_at(&c->scatters[threads > 1], w->table) +
           w->items * HS_MAX(w->slice - 1, 0) * c->scatter_element_s;
  case PROF_FFT: return w->items * log2_of(w->line) * c->fft_s;
  case PROF_SOLVE: {
    // each matrix by one thread
    double one = w->factors ? w->line * w->line * w->line / 3 : w->flops / w->items;
    double rate = prof_curve_at(w->factors ? c->factors : c->solves, HS_MAX(one, 1));
    return ceil(w->items / threads) * HS_MAX(one, 1) / rate;
  }
  case PROF_WINDOW: return w->items * c->window_s;
  case PROF_RANDOM: return w->items * c->random_s;
  case PROF_TOPK: return w->items * c->topk_s;
  default: return 0;
  }
}

static bool is_serial(prof_special s, bool xla) {
  return s == PROF_SCATTER || s == PROF_SOLVE || (xla && s == PROF_TOPK);
}

void prof_price_cpu(const prof_work *w, const prof_device *d, u32 n, const prof_place *places,
                    prof_kernel *out) {
  const prof_calibration *c = d->measured;
  u32 threads = HS_MAX(d->threads, 1);
  bool all = threads > 1;
  *out = (prof_kernel){.bytes = w->read + w->written, .flops = w->flops, .launch_s = c->kernel_s};
  double memory = memory_time(c, false, n, places);
  if (w->special == PROF_PRODUCT) {
    out->memory_s = memory_time(c, all, n, places);
    out->compute_s = w->product.convolution ? convolution_time(w, c, all)
                                            : product_time(&w->product, c, threads);
    // rates by size were measured with operands in a cache; a narrow product does too little with
    // each element to hide that it comes from further away
    bool narrow = !w->product.convolution && HS_MIN(w->product.m, w->product.n) <= PROF_NARROW;
    out->seconds = out->launch_s + (narrow ? out->compute_s + out->memory_s
                                           : HS_MAX(out->compute_s, out->memory_s));
  } else if (w->special == PROF_SORT) {
    out->compute_s = special_time(w, c, threads);
    out->memory_s = memory;
    out->seconds = out->launch_s + both(out->compute_s, out->memory_s);
  } else {
    double one = loop_time(w, c) + special_time(w, c, threads);
    double chunks = is_serial(w->special, c->xla) ? 1 : floor(both(one, memory) / CHUNK_S);
    double cut = HS_MIN(HS_MAX(chunks, 1), threads);
    out->compute_s = one / cut;
    out->memory_s = cut > 1 ? memory_time(c, true, n, places) : memory;
    if (cut > 1) out->launch_s += c->parallel_s;
    out->seconds = out->launch_s + both(out->compute_s, out->memory_s);
  }
  out->bound = out->launch_s > HS_MAX(out->compute_s, out->memory_s) ? PROF_LAUNCH
               : out->memory_s >= out->compute_s                     ? PROF_MEMORY
                                                                     : PROF_COMPUTE;
}
