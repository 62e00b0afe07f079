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

// The least time of a chunk, as the cpu backend cuts them (backends/emit/nest/schedule.c).
#define CHUNK_S 20e-6

static double both(double a, double b) { return HS_MAX(a, b) + PROF_EXPOSED * HS_MIN(a, b); }

// Seconds of a byte that is read, and of one that is written: of loops that only read or only
// write. Beside reading, writing takes what a stream of both takes less that, for a line is read
// before it is written and written back; over what the loop reads only the latter.
static double byte_time(const prof_calibration *c, bool all, double distance, const prof_place *p,
                        bool reads) {
  if (!reads) return 1 / prof_curve_at(&c->fill[all], distance);
  double read = 1 / prof_curve_at(&c->load[all], distance);
  if (!p->written) return read;
  double both = 2 / prof_curve_at(&c->stream[all], distance);
  double apart = HS_MIN(HS_MAX(both - read, both / 4), both * 3 / 4);
  double over = HS_MAX(both - 2 * read, both / 8);
  return apart + (HS_MIN(over, apart) - apart) * p->over;
}

// Beyond the caches that one thread has to itself, on any processor.
#define OWN_CACHE_BYTES (2.0 * (1 << 20))

// Each thread has a run of consecutive chunks, the same in every loop over as many elements, so
// that it finds its part of an array where it left it. What other threads wrote last is handed
// over, but for one part in n, no faster than from the cache that all share.
static double memory_time(const prof_calibration *c, bool all, u32 threads, u32 n,
                          const prof_place *p) {
  double s = 0, read = 0, written = 0;
  for (u32 k = 0; k < n; k++) *(p[k].written ? &written : &read) += p[k].bytes;
  bool reads = read > written / 16;
  const double far = 2 * threads * OWN_CACHE_BYTES;  // in none of theirs
  for (u32 k = 0; k < n; k++) {
    if (!(p[k].bytes > 0)) continue;
    double own = HS_MAX(p[k].distance, p[k].bytes);
    double byte = byte_time(c, all, own, &p[k], reads);
    if (threads > 1 && p[k].handed > 0 && far > own) {
      double other = byte_time(c, all, far, &p[k], reads);
      byte += HS_MAX(other - byte, 0) * p[k].handed * (threads - 1) / threads;
    }
    s += p[k].bytes * byte;
  }
  return s;
}

// ---- loops over elements ------------------------------------------------------------------------
// The distance by which elements are priced that lie apart: its largest power of two. Elements 4096
// bytes apart fall into one set of a cache, those 3136 bytes apart into all. Our loops read along
// lines and store apart; XLA's the other way round, and those were measured by the distance itself.
static double spread(const prof_calibration *c, double loaded, double stored) {
  if (c->xla || !(stored >= 1) || stored > 1e15) return loaded;
  u64 pitch = (u64)stored;
  return (double)(pitch & ~(pitch - 1));
}

// Seconds of an element combined against its order. Our loops go along memory all the same; XLA's
// keep to the order, and were measured with so many bytes between the elements.
static double against_time(const prof_work *w, const prof_calibration *c) {
  const double measured = PROF_AGAINST_BYTES;
  if (!(w->against > 0) || !c->xla) return c->against_s;
  return c->against_s * prof_curve_at(&c->transposes[0], measured) /
         prof_curve_at(&c->transposes[0], w->against_pitch);
}

static double loop_time(const prof_work *w, const prof_calibration *c) {
  double s = 0;
  if (c->xla && w->copied) return 0;
  for (u32 k = 0; k < w->ncounts; k++)
    s += w->counts[k].elements * c->op_s[w->counts[k].op][w->counts[k].type];
  // ours go over short rows as over columns, with steps between what is loaded
  double across = c->xla ? 0 : w->short_row, rows = w->rows - (c->xla ? 0 : w->short_rows);
  s += (w->reduced_row - across) * c->row_s + (w->reduced_column + across) * c->column_s;
  s += across * c->gapped_s + w->against * against_time(w, c);
  s += rows * c->row_end_s + w->extremes * c->extreme_s;
  if (w->slid > 0) s += w->slid / prof_curve_at(&c->slides[0], w->slid_window);
  s += w->slid_rows * c->slide_rows_s;
  s += w->scanned * c->scan_s + w->scanned_rows * c->scan_rows_s + w->narrow * c->narrow_s;
  s += w->whole * c->op_s[HLO_ADD][PROF_F32] + w->gapped * c->gapped_s;
  s += w->divided * c->divide_s + w->divided_long * c->divide_long_s;
  s += w->windowed * c->windowed_s + w->combined * c->combined_s;
  // XLA's loops store in order, and so many lines have to stay until the next of their elements is
  // loaded; measured with squares of four bytes
  double apart = c->xla ? 4 * w->crossed : spread(c, w->pitch, w->store_pitch);
  if (w->strided > 0) s += w->strided / prof_curve_at(&c->transposes[0], apart);
  return s + w->indexed * c->indexed_s + w->widened * c->widen_s;
}

// ---- products -----------------------------------------------------------------------------------
static double flops_of(const prof_product *p) { return 2 * p->m * p->n * p->k; }

// With few rows short values are widened as they are read: f32's rate, and the reading, which
// pack_bf16_s is of such products.
static const prof_curve *product_curve(const prof_calibration *c, const prof_product *p, bool all) {
  enum { FEW_ROWS = 8 };
  hlo_dtype t = p->type;
  if (hlo_dtype_is_integer(t)) return &c->product_s8[all];
  switch (prof_type_of(t)) {
  case PROF_F64: return &c->product_f64[all];
  case PROF_F16:
  case PROF_F8: return p->m <= FEW_ROWS ? &c->product_f32[all] : &c->product_bf16[all];
  default: return &c->product_f32[all];
  }
}

static bool is_short_float(hlo_dtype t) {
  return prof_type_of(t) == PROF_F16 || prof_type_of(t) == PROF_F8;
}

// Columns that do not fill a vector.
#define FEW 8

static bool is_vector(const prof_product *p) { return HS_MIN(p->m, p->n) < 2; }

// Among how many threads a product is shared. Ours are cut by their multiplications (backends/cpu/
// rt/dot_tiles.c): few run where they are called, many products and small ones in groups, others in
// strips of each. A vector's matrix is cut by its elements (dot_rows.c). s: with one thread.
static double product_cut(const prof_product *p, const prof_calibration *c, double s, u32 threads) {
  const double serial = 1 << 17, group = 1 << 18, matrix = 1 << 14;
  enum { ENOUGH = 16, STRIPS = 8 };
  double one = p->m * p->n * p->k, chunks = 1;
  if (is_vector(p)) chunks = c->xla ? floor(s / CHUNK_S) : floor(p->batch * one / matrix);
  else if (c->xla) return p->batch > 1 ? HS_MIN(p->batch, threads) : threads;
  else if (p->batch * one >= serial && (p->batch >= ENOUGH || one < 2 * serial))
    chunks = ceil(p->batch / HS_MAX(floor(group / one), 1));
  else if (p->batch * one >= serial)
    chunks = p->batch * exp2(floor(log2(HS_MIN(one / serial, STRIPS))));
  chunks = HS_MAX(chunks, 1);
  return chunks / ceil(chunks / threads);
}

// The part of a cube's rate that is left with one extent of so much. The curve is of one short
// extent beside two that are long; in a cube none is short, whatever its size.
static double narrow(const prof_curve *curve, double extent, const prof_product *p) {
  double side = cbrt(p->m * p->n * p->k), measured = cbrt(extent * PROF_LONG * PROF_LONG);
  if (extent >= HS_MIN(side, PROF_LONG)) return 1;
  double weight = log(side / extent) / log(measured / extent);
  return pow(prof_curve_at(curve, extent), HS_MIN(weight, 1));
}

// *cut: the threads that share it.
static double product_time(const prof_product *p, const prof_calibration *c, u32 threads,
                           double *cut) {
  double flops = flops_of(p);
  if (hlo_dtype_is_complex(p->type)) flops *= 4;
  if (is_vector(p)) {
    double rows = p->batch * HS_MAX(p->m, p->n);
    double column_s = HS_MAX(p->m, p->n) < FEW ? c->vector_few_s : c->vector_product_s;
    double s = p->by_rows ? p->batch * flops * c->vector_rows_s + rows * c->vector_row_s
                          : p->batch * flops * column_s;
    if (is_short_float(p->type)) s += p->operands * c->pack_bf16_s;
    *cut = product_cut(p, c, s, threads);
    return c->product_s + s / *cut + (*cut > 1 ? c->parallel_s : 0);
  }
  *cut = product_cut(p, c, 0, threads);
  // several products share the threads: each runs as on one
  bool alone = p->batch <= 1, shared = threads > 1 && alone;
  double rate = prof_curve_at(product_curve(c, p, shared), flops) *
                narrow(&c->narrow_m[shared], p->m, p) * narrow(&c->narrow_n[shared], p->n, p) *
                narrow(&c->narrow_k[shared], p->k, p);
  double pack = is_short_float(p->type) ? p->operands * c->pack_bf16_s
                                        : p->packed * c->pack_s + p->turned * c->turn_s;
  double opening = !alone && *cut > 1 ? c->parallel_s : 0;  // the curves of one have it in them
  return c->product_s + opening + p->batch * flops / rate / (alone ? 1 : *cut) + pack / *cut;
}

// Among how many threads a convolution is shared. *all: by the library's own, which the curves of
// all are of.
static double convolution_cut(const prof_work *w, const prof_calibration *c, u32 threads,
                              bool *all) {
  const double library = 1 << 25;  // operations from which it is left to them
  double pieces = w->product.pieces;
  *all = threads > 1 && (c->xla || (pieces < 2 && w->flops >= library));
  return *all ? threads : pieces / ceil(pieces / threads);
}

static double convolution_time(const prof_work *w, const prof_calibration *c, u32 threads,
                               double *cut) {
  const prof_product *p = &w->product;
  double flops = w->flops;
  const prof_curve *rate = c->convolution;
  if (p->grouped) rate = p->k <= p->taps ? c->convolution_grouped : c->convolution_groups;
  else if (prof_type_of(p->type) == PROF_F16) rate = c->convolution_bf16;
  else if (p->gradient) rate = c->convolution_weights;
  else if (p->dilated) rate = c->convolution_dilated;
  bool all;
  *cut = convolution_cut(w, c, threads, &all);
  double s = flops / prof_curve_at(&rate[all], flops) / (all ? 1 : *cut);
  return c->convolution_s + s + p->filter * c->filter_s / (p->by_features ? *cut : 1);
}

// ---- chunks -------------------------------------------------------------------------------------
// Into how many parts the cpu backend cuts a loop. It decides that before anything has run, by the
// weights of core/types/costs.def and a fixed time per byte, and so it is decided here: by measured
// times a loop of 10 us would be one part that in truth has ten.
static double chunks_of(const prof_work *w) {
  enum { VECTOR_BYTES = 64, SHORTEST = 4, MOST = 128, SPLIT = 4 };
  const double cycle_s = 0.4e-9, byte_s = 0.1e-9;
  static const double bytes[PROF_TYPE_COUNT] = {4, 8, 4, 4, 8, 4, 1};
  double cycles = w->reduced_row + w->reduced_column + w->against + w->whole + w->indexed,
         widest = 1;
  for (u32 k = 0; k < w->ncounts; k++) {
    const prof_count *n = &w->counts[k];
    widest = HS_MAX(widest, bytes[n->type]);
    cycles += n->elements * hlo_op_cost(n->op)->cycles * (bytes[n->type] == 8 ? 2 : 1);
  }
  double lanes = w->row < SHORTEST ? 1 : VECTOR_BYTES / widest;
  double s = HS_MAX(cycles * cycle_s / lanes, (w->read + w->written) * byte_s);
  // a sum of everything is split where each part has enough to do
  if (w->single) return s < SPLIT * CHUNK_S ? 1 : HS_MIN(floor(s / CHUNK_S / 2), MOST / 2);
  return HS_MIN(HS_MAX(floor(s / CHUNK_S), 1), MOST);
}

// ---- what runs as a loop of its own -------------------------------------------------------------
static double log2_of(double n) { return n > 2 ? log2(n) : 1; }

static double special_time(const prof_work *w, const prof_calibration *c, u32 threads) {
  switch (w->special) {
  case PROF_SORT: {
    // lines are sorted side by side, some thousand elements by one thread; a single one by keys by
    // all of them
    const double task = 4096;
    double lines = HS_MAX(w->items / HS_MAX(w->line, 1), 1),
           tasks = ceil(lines / HS_MAX(floor(task / HS_MAX(w->line, 1)), 1)),
           cut = tasks / ceil(tasks / threads);
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

static void price_loop(const prof_work *w, const prof_calibration *c, u32 threads, u32 n,
                       const prof_place *places, prof_kernel *out) {
  bool serial = is_serial(w->special, c->xla),
       cut_by_shape = !c->xla && (w->special == PROF_STREAM || w->special == PROF_GATHER);
  double one = loop_time(w, c) + special_time(w, c, threads), chunks = 1;
  if (cut_by_shape) chunks = chunks_of(w);
  else if (!serial)
    chunks = HS_MAX(floor(both(one, memory_time(c, false, threads, n, places)) / CHUNK_S), 1);
  // as long as the thread with the most chunks
  double cut = chunks / ceil(chunks / threads);
  // what a scatter changes is copied by all
  bool copied = w->special == PROF_SCATTER && !c->xla && threads > 1;
  out->compute_s = one / cut;
  out->memory_s = memory_time(c, cut > 1 || copied, threads, n, places);
  if (cut > 1) out->memory_s *= threads / cut, out->launch_s += c->parallel_s;
  out->seconds = out->launch_s + both(out->compute_s, out->memory_s);
}

// What is combined across rows is not of the threads that have the rows.
prof_sharing prof_cpu_sharing(const prof_work *w, const prof_device *d) {
  const prof_calibration *c = d->measured;
  if (d->family != PROF_CPU || d->threads < 2 || is_serial(w->special, c->xla)) return PROF_BY_ONE;
  double cut = 2;
  bool all;
  if (w->special == PROF_PRODUCT && w->product.convolution)
    cut = convolution_cut(w, c, d->threads, &all);
  else if (w->special == PROF_PRODUCT) (void)product_time(&w->product, c, d->threads, &cut);
  else if (w->special == PROF_STREAM || w->special == PROF_GATHER) cut = chunks_of(w);
  if (cut <= 1) return PROF_BY_ONE;
  bool across = w->reduced_column > 0 || w->against > 0;
  return across ? PROF_ACROSS : PROF_IN_RUNS;
}

void prof_price_cpu(const prof_work *w, const prof_device *d, u32 n, const prof_place *places,
                    prof_kernel *out) {
  const prof_calibration *c = d->measured;
  u32 threads = HS_MAX(d->threads, 1);
  *out = (prof_kernel){.bytes = w->read + w->written, .flops = w->flops, .launch_s = c->kernel_s};
  if (w->special == PROF_PRODUCT) {
    double cut;
    out->compute_s = w->product.convolution ? convolution_time(w, c, threads, &cut)
                                            : product_time(&w->product, c, threads, &cut);
    out->memory_s = memory_time(c, cut > 1, threads, n, places);
    // rates by size were measured with operands in a cache. A narrow product does too little with
    // each element to hide that it comes from further away, and a convolution loads and stores
    // images between its operations
    const prof_product *p = &w->product;
    bool hides = !p->convolution && HS_MIN(p->m, p->n) > PROF_NARROW;
    out->seconds = out->launch_s +
                   (hides ? both(out->compute_s, out->memory_s) : out->compute_s + out->memory_s);
  } else if (w->special == PROF_SORT) {
    out->compute_s = special_time(w, c, threads);
    out->memory_s = memory_time(c, false, threads, n, places);
    out->seconds = out->launch_s + both(out->compute_s, out->memory_s);
  } else price_loop(w, c, threads, n, places, out);
  out->bound = out->launch_s > HS_MAX(out->compute_s, out->memory_s) ? PROF_LAUNCH
               : out->memory_s >= out->compute_s                     ? PROF_MEMORY
                                                                     : PROF_COMPUTE;
}
