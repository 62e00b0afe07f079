// estimate.c: the estimate of a module: every kernel priced once, multiplied by how often it runs.
//
// Kernels are priced by price_cpu.c or price_accelerator.c (a roofline each, Williams et al. 2009).
// This file adds what lies around them:
//
// Calls. Computations are visited callers first, so that each is looked at once however many paths
// lead to it. A loop's body counts once per iteration (where nothing says how many there are,
// PROF_GUESSED_TRIPS, and that is counted), a conditional's branches are equally likely. Naive:
// every instruction is a kernel and every intermediate result goes through memory. Otherwise a
// fusion is one kernel.
//
// Caches. An operand is found in the smallest cache that held everything touched since it was
// written or read (LRU stack distance; Mattson et al. 1970), with the computation's own order, one
// execution after another; it is never more than what is live at the module's peak, because memory
// is used again. A result goes where something lay that nobody needs any more, the smallest that is
// large enough; else anywhere within what is live.
//
// Devices. On this machine's processor the devices of a module run one after the other, so that its
// time is of all of them; elsewhere it is one device's share, and the network between them. A
// module that says how its arrays are to be sharded and is not partitioned yet has the shapes of
// all devices together: every kernel then does its part, as if all of it could be divided.
//
// Overlap. Kernels follow each other. Only a collective between its start and its done runs beside
// them: the network is a second clock.
#include <math.h>

#include "core/analysis/customcall.h"
#include "core/eval/eval.h"
#include "profiler/model/calibration.h"
#include "profiler/model/prof.h"
#include "profiler/model/price.h"
#include "profiler/model/residency.h"

const char *prof_bound_text(prof_bound b) {
  static const char *const texts[] = {"memory", "compute", "launch", "network"};
  return texts[b];
}

// ---- one kernel ---------------------------------------------------------------------------------
enum { MOST_PLACES = 16 };

static void price(const prof_work *w, const prof_device *d, u32 n, const prof_place *p,
                  prof_kernel *out) {
  if (d->family == PROF_CPU) prof_price_cpu(w, d, n, p, out);
  else prof_price_accelerator(w, d, n, p, out);
}

void prof_estimate_kernel(const hlo_instr *i, const prof_device *d, prof_kernel *out) {
  *out = (prof_kernel){0};
  hlo_cost c = hlo_cost_instr(i);
  prof_work w;
  prof_count_work(i, &c, &w);
  if (w.free) return;
  const prof_place all[] = {{w.read, w.read + w.written, false, 0, 0},
                            {w.written, w.read + w.written, true, 0, 0}};
  price(&w, d, 2, all, out);
  out->unknown = w.special == PROF_UNKNOWN;
  if (w.special == PROF_COLLECTIVE) {
    out->network_s = prof_collective_instr(i, prof_module_devices(i->parent->module), d);
    out->seconds += out->network_s;
  }
}

double prof_estimate_instr(const hlo_instr *i, const prof_device *d) {
  prof_kernel k;
  prof_estimate_kernel(i, d, &k);
  return k.seconds;
}

// ---- a module -----------------------------------------------------------------------------------
// Memory that was last touched when the clock of bytes stood at `at`.
enum { MOST_FREE = 64 };
typedef struct free_block {
  double bytes, at;
} free_block;

typedef struct estimator {
  const prof_device *d;
  prof_options o;
  const hlo_cost *cost;  // by instruction id
  prof_module *out;
  double launches;
  bool *apart;      // by computation id: fusions of that body are its kernels (hlo_heavy_bodies)
  double *times;    // by computation id: executions of it in one of the module
  double *traffic;  // by computation id: bytes of one execution; loops once
  double *touched;  // by instruction id: the clock of bytes when it was last touched
  u32 *source;      // by instruction id: the instruction whose memory its value is
  double live;      // bytes that the module has live at its peak
  double now, net;  // clocks of one execution of the computation at hand: kernels, network
  double *arrives;  // by instruction id: when a started collective is done
  double together;  // devices whose work this processor does, one after the other
  double *bytes;    // by instruction id: of the memory that it was given, 0: it has none of its own
  u32 *uses;        // by instruction id: of that memory that are still to come
  u32 nfree;        // blocks of memory that nobody needs any more
  free_block free[MOST_FREE];  // the oldest first
  hlo_live_plan *plan;         // of memory, as a backend shares it, or naive
  prof_residency *residency;   // of the computation at hand; NULL: not simulated
  u32 simulated;               // computations that were
} estimator;

static bool is_kernel(const estimator *x, const hlo_instr *i) {
  return i->opcode == HLO_FUSION && !x->o.naive && !x->apart[hlo_fusion_comp(i)->id];
}

// Adds the executions of the computations whose instructions `i` runs as its own; false when it is
// a kernel itself.
static bool spread_times(estimator *x, const hlo_instr *i, double times) {
  if (is_kernel(x, i)) return false;
  switch (i->opcode) {
  case HLO_FUSION:
  case HLO_CALL:
  case HLO_ASYNC_START:
    if (hlo_fusion_comp(i)) x->times[hlo_fusion_comp(i)->id] += times;
    return true;
  case HLO_WHILE: {
    double trips = hlo_expected_trips(i), n = trips >= 0 ? trips : PROF_GUESSED_TRIPS;
    if (trips < 0) x->out->total.unknown_loops++;
    x->times[hlo_attr_comp(i, HLO_ATTR_BODY)->id] += times * n;
    x->times[hlo_attr_comp(i, HLO_ATTR_CONDITION)->id] += times * (n + 1);
    x->out->total.time_s += times * n * x->d->loop_s;
    x->out->total.launch_s += times * n * x->d->loop_s;
    return true;
  }
  case HLO_CONDITIONAL: {
    u32 n = hlo_ncalled(i);
    for (u32 k = 0; k < n; k++) x->times[hlo_called(i, k)->id] += times / n;
    return true;
  }
  default: return false;
  }
}

// The value whose memory `i` is, when it only renames one.
static u32 source_of(const estimator *x, const hlo_instr *i, const prof_work *w) {
  bool renames = i->noperands && (w ? w->free : hlo_op_has(i->opcode, HLO_F_FREE)) &&
                 i->opcode != HLO_TUPLE && i->opcode != HLO_AFTER_ALL;
  if (!renames) return i->id;
  const hlo_instr *o = hlo_operand(i, 0);
  if (i->opcode == HLO_GET_TUPLE_ELEMENT && o->opcode == HLO_TUPLE) {
    i64 k = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
    if (k >= 0 && (u32)k < o->noperands) return x->source[hlo_operand(o, (u32)k)->id];
  }
  // elements of one tuple are different memory
  return i->opcode == HLO_GET_TUPLE_ELEMENT ? i->id : x->source[o->id];
}

// What `i` is another name for, itself if it is none.
static const hlo_instr *named_by(const hlo_instr *i) {
  while (i->noperands && i->opcode != HLO_TUPLE && hlo_moves_nothing(i)) i = hlo_operand(i, 0);
  return i;
}

// An update of part of an array is done in place where nobody else needs the array; else all of it
// is copied first.
static void add_copy(const estimator *x, const hlo_instr *i, prof_work *w) {
  double bytes = prof_updated_bytes(i);
  if (bytes <= 0) return;
  const hlo_instr *o = prof_updated_operand(i);
  // the parameter of a loop's body may be changed, one of the entry may not
  const hlo_instr *from = o ? named_by(o) : NULL;
  bool kept = !o || x->o.naive || (o->first_use && o->first_use->next) ||
              from->opcode == HLO_CONSTANT ||
              (from->opcode == HLO_PARAMETER && from->parent == from->parent->module->entry);
  if (!kept) return;
  w->read += bytes;
  w->written += bytes;
}

// ---- memory that is used again ------------------------------------------------------------------
static u32 count_uses(const hlo_instr *i) {
  u32 n = i == i->parent->root;
  for (const hlo_use *u = i->first_use; u; u = u->next) n++;
  return n;
}

static void remove_block(estimator *x, u32 k) {
  memmove(&x->free[k], &x->free[k + 1], (--x->nfree - k) * sizeof *x->free);
}

// The clock when the block that a new value gets was last touched; -1: none that is free fits.
static double take_block(estimator *x, double bytes) {
  u32 best = MOST_FREE;
  for (u32 k = 0; k < x->nfree; k++)
    if (x->free[k].bytes >= bytes && (best == MOST_FREE || x->free[k].bytes <= x->free[best].bytes))
      best = k;
  if (best == MOST_FREE) return -1;
  double at = x->free[best].at;
  x->free[best].bytes -= bytes;
  if (x->free[best].bytes <= 0) remove_block(x, best);
  return at;
}

// One use of that memory less; after the last it is free. With too many blocks the oldest goes.
static void release(estimator *x, u32 source) {
  if (!(x->bytes[source] > 0) || !x->uses[source] || --x->uses[source]) return;
  if (x->nfree == MOST_FREE) remove_block(x, 0);
  u32 k = x->nfree++;
  for (; k && x->free[k - 1].at > x->touched[source]; k--) x->free[k] = x->free[k - 1];
  x->free[k] = (free_block){x->bytes[source], x->touched[source]};
}

// `i` is another name of its operand's memory.
static void rename_memory(estimator *x, const hlo_instr *i) {
  u32 s = x->source[i->id];
  if (s == i->id || !x->uses[s]) return;
  x->uses[s] += count_uses(i);
  if (i->opcode != HLO_GET_TUPLE_ELEMENT) x->uses[s]--;
}

// Places of the operands and the result, and the clock behind them.
static u32 find_places(estimator *x, const hlo_instr *i, const prof_work *w, double all,
                       double *clock, prof_place *p) {
  double total = 0, own = w->read + w->written, reuse = HS_MIN(all, x->live);
  u32 n = 0;
  for (u32 k = 0; k < i->noperands; k++) total += (double)hlo_shape_bytes(hlo_operand(i, k)->shape);
  for (u32 k = 0; k < i->noperands && total > 0; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    double bytes = w->read * (double)hlo_shape_bytes(o->shape) / total;
    double *at = &x->touched[x->source[o->id]];
    double distance = *at < 0 ? all : *clock - *at + own;
    if (k && *at == *clock + own) continue;  // the same array again: it is at hand
    if (n < MOST_PLACES - 1)
      p[n++] = (prof_place){bytes, HS_MIN(distance, HS_MAX(all, own)), false, 0, 0};
    else p[n - 1].bytes += bytes;
    *at = *clock + own;
  }
  double result = (double)hlo_shape_bytes(i->shape), at = take_block(x, result);
  double far = at < 0 ? reuse : HS_MIN(*clock - at + own, reuse);
  p[n++] = (prof_place){w->written, HS_MAX(far, own), true, 0, 0};
  *clock += own;
  x->touched[i->id] = *clock;
  x->bytes[i->id] = result;
  x->uses[i->id] = count_uses(i);
  for (u32 k = 0; k < i->noperands; k++) release(x, x->source[hlo_operand(i, k)->id]);
  return n;
}

// Both clocks: kernels one after another, a collective between start and done beside them.
static void run_on_clocks(estimator *x, const hlo_instr *i, const prof_kernel *k, double *hidden) {
  if (x->d->family != PROF_CPU && hlo_op_has(i->opcode, HLO_F_ASYNC) && k->network_s > 0) {
    x->net = HS_MAX(x->net, x->now) + k->network_s;
    x->arrives[i->id] = x->net;
    x->now += k->launch_s;
    *hidden += k->network_s;
    return;
  }
  if (k->network_s > 0) x->now = HS_MAX(x->now, x->net);
  x->now += k->seconds;
  if (k->network_s > 0) x->net = x->now;
}

static void wait_for(estimator *x, const hlo_instr *i, double *hidden) {
  if (!hlo_op_has(i->opcode, HLO_F_ASYNC) || !i->noperands) return;
  double at = x->arrives[hlo_operand(i, 0)->id];
  x->arrives[i->id] = at;
  if (at <= x->now) return;
  *hidden -= at - x->now;
  x->now = at;
}

static void add_total(estimator *x, const prof_kernel *k, double times) {
  prof_estimate *e = &x->out->total;
  e->memory_s += times * k->memory_s;
  e->compute_s += times * k->compute_s;
  e->launch_s += times * k->launch_s;
  e->network_s += times * k->network_s;
  e->flops += times * k->flops;
  e->bytes += times * k->bytes;
  e->unknown_calls += k->unknown;
  x->launches += times >= 1 ? floor(times) : 1;
}

// Whether devices that run here one after the other have to come together for it.
static bool is_meeting(const estimator *x, const hlo_instr *i) {
  return x->together > 1 && (hlo_op_has(i->opcode, HLO_F_COLLECTIVE) ||
                             (i->opcode == HLO_CUSTOM_CALL && hlo_custom_is_of_devices(i)));
}

// One part of so many of a kernel's work.
static void divide(prof_work *w, double parts) {
  double *const amounts[] = {&w->items,    &w->points,    &w->reduced_row,     &w->reduced_column,
                             &w->rows,     &w->extremes,  &w->whole,           &w->against,
                             &w->slid,     &w->slid_rows, &w->scanned,         &w->scanned_rows,
                             &w->narrow,   &w->widened,   &w->strided,         &w->indexed,
                             &w->gapped,   &w->divided,   &w->divided_long,    &w->read,
                             &w->written,  &w->flops,     &w->transcendentals, &w->windowed,
                             &w->combined, &w->short_row, &w->short_rows};
  for (size_t k = 0; k < HS_COUNT(amounts); k++) *amounts[k] /= parts;
  for (u32 k = 0; k < w->ncounts; k++) w->counts[k].elements /= parts;
  prof_product *p = &w->product;
  double *longest = p->batch >= parts ? &p->batch : p->m >= p->n ? &p->m : &p->n;
  *longest = HS_MAX(*longest / parts, 1);
  p->operands /= parts;
}

// Of all devices that this processor stands for: one after the other, or with XLA each by a thread
// of its own, where its kernels do not take all of them, as its products do.
static void add_devices(const estimator *x, const hlo_instr *i, const prof_work *w, u32 n,
                        const prof_place *p, prof_kernel *k) {
  const prof_calibration *c = x->d->measured;
  double turns = x->together;
  if (c->xla && w->special != PROF_PRODUCT) {
    prof_device one = *x->d;
    one.threads = 1;
    price(w, &one, n, p, k);
    turns /= HS_MIN(x->together, HS_MAX(x->d->threads, 1));
  }
  double each = i->opcode == HLO_CUSTOM_CALL ? c->reshard_s : c->meeting_s;
  k->network_s = is_meeting(x, i) ? x->together * each : 0;
  k->memory_s *= turns;
  k->compute_s *= turns;
  k->launch_s *= turns;
  k->seconds = k->seconds * turns + k->network_s;
  if (k->network_s > HS_MAX(k->memory_s, k->compute_s)) k->bound = PROF_NETWORK;
}

// On a processor a loop is one function with its small kernels in it (backends/cpu/region.c), but
// where instructions or devices are run one by one.
static bool is_inlined(const estimator *x, const hlo_instr *i, const prof_work *w, double times) {
  enum { INLINED_BYTES = 16 << 10 };
  return x->d->family == PROF_CPU && !x->o.naive && x->together <= 1 && times > 1 &&
         i->parent != i->parent->module->entry && w->special == PROF_STREAM &&
         w->written <= INLINED_BYTES;
}

// Nothing is called, and what is small stays in registers, each operation waiting for the last.
static void without_call(const estimator *x, const prof_work *w, prof_kernel *k) {
  enum { REGISTER_BYTES = 64 };
  k->seconds -= k->launch_s;
  k->launch_s = 0;
  if (w->written > REGISTER_BYTES || w->points > REGISTER_BYTES / 4) return;
  double n = 0;
  for (u32 q = 0; q < w->ncounts; q++) n += w->counts[q].elements / HS_MAX(w->points, 1);
  k->memory_s = 0;
  k->compute_s = HS_MAX(k->compute_s, n * x->d->measured->scalar_s);
  k->seconds = k->compute_s;
  k->bound = PROF_COMPUTE;
}

static void add_instr(estimator *x, const hlo_instr *i, double times, double all, double *clock,
                      double *hidden) {
  x->source[i->id] = i->id;
  x->out->times[i->id] = times;
  if (hlo_op_has(i->opcode, HLO_F_FREE)) {
    x->source[i->id] = source_of(x, i, NULL);
    rename_memory(x, i);
    wait_for(x, i, hidden);
    return;
  }
  if (spread_times(x, i, times)) {
    for (u32 k = 0; k < hlo_ncalled(i); k++) *clock += x->traffic[hlo_called(i, k)->id];
    x->touched[i->id] = *clock;
    const hlo_cost *c = &x->cost[i->id];
    if (x->residency)
      prof_residency_touch(x->residency, i, c->bytes_read, c->bytes_written, PROF_BY_ONE, 0, NULL);
    return;
  }
  prof_work w;
  prof_count_work(i, &x->cost[i->id], &w);
  if (w.free && !is_meeting(x, i)) {
    x->source[i->id] = source_of(x, i, &w);
    rename_memory(x, i);
    return;
  }
  add_copy(x, i, &w);
  if (x->out->total.parts > 1) divide(&w, x->out->total.parts);
  prof_place p[MOST_PLACES];
  u32 n = x->residency ? prof_residency_touch(x->residency, i, w.read, w.written,
                                              prof_cpu_sharing(&w, x->d), MOST_PLACES, p)
                       : find_places(x, i, &w, all, clock, p);
  prof_kernel *k = &x->out->kernels[i->id];
  price(&w, x->d, n, p, k);
  if (is_inlined(x, i, &w, times)) without_call(x, &w, k);
  k->unknown = w.special == PROF_UNKNOWN;
  if (x->together > 1) add_devices(x, i, &w, n, p, k);
  else if (w.special == PROF_COLLECTIVE) {
    k->network_s = prof_collective_instr(i, x->out->total.devices, x->d);
    k->seconds += k->network_s;
    if (k->network_s > HS_MAX(k->memory_s, k->compute_s)) k->bound = PROF_NETWORK;
  }
  run_on_clocks(x, i, k, hidden);
  add_total(x, k, times);
}

// A result has memory of its own, also where it is an argument or a constant by another name, and
// is a copy then; donated arguments aside.
static void add_kept_results(estimator *x, const hlo_instr *root) {
  bool all = root->opcode == HLO_TUPLE;
  if (hlo_attrs_find(root->parent->module->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS)) return;
  for (u32 k = 0, n = all ? root->noperands : 1; k < n; k++) {
    const hlo_instr *i = all ? hlo_operand(root, k) : root, *from = named_by(i);
    if (from->opcode != HLO_PARAMETER && from->opcode != HLO_CONSTANT) continue;
    double bytes = (double)hlo_shape_bytes(i->shape), far = HS_MAX(2 * bytes, x->live),
           points = (double)i->shape->elements;
    prof_work w = {.points = points, .row = points, .read = bytes, .written = bytes};
    const prof_place p[] = {{bytes, far, false, 0, 0}, {bytes, far, true, 0, 0}};
    prof_kernel copy;
    price(&w, x->d, HS_COUNT(p), p, &copy);
    x->now += copy.seconds;
    add_total(x, &copy, 1);
  }
}

// Where caches decide, with the places that a plan of memory gives. What is called once comes back
// after all the rest that is live.
static hs_status simulate(estimator *x, const hlo_computation *c, double times) {
  enum { MOST_SIMULATED = 64 };
  x->residency = NULL;
  if (x->d->family != PROF_CPU || c->ninstrs < 2 || x->simulated++ >= MOST_SIMULATED)
    return HS_GOOD;
  bool once = c != c->module->entry && times <= 1;
  return prof_residency_new(x->plan, c, x->cost, once ? x->live : 0, x->d, &x->residency);
}

// One execution of a computation, times how often it runs.
static hs_status add_computation(estimator *x, const hlo_computation *c, double times) {
  HS_TRY(simulate(x, c, times));
  hlo_instr **order = hlo_is_scheduled(c->module) ? NULL : hlo_live_plan_order(x->plan, c);
  double clock = 0, hidden = 0, all = HS_MIN(x->traffic[c->id], x->live);
  x->now = x->net = 0;
  x->nfree = 0;
  u32 at = 0;
  for (hlo_instr *i = order ? order[0] : c->first; i && !hs_interrupted();
       i = order ? order[++at] : i->next)
    add_instr(x, i, times, all, &clock, &hidden);
  if (c == c->module->entry) add_kept_results(x, c->root);
  x->out->total.time_s += times * HS_MAX(x->now, x->net);
  x->out->total.hidden_s += times * HS_MAX(hidden, 0);
  prof_residency_free(x->residency);
  return HS_GOOD;
}

// Bytes that one execution of a computation moves, its callees' once; callees are known.
static double traffic_of(const estimator *x, const hlo_computation *c) {
  double b = 0;
  hlo_for_each_instr(i, c) {
    if (hlo_op_has(i->opcode, HLO_F_CONTROL) || (i->opcode == HLO_FUSION && !is_kernel(x, i))) {
      for (u32 k = 0; k < hlo_ncalled(i); k++) b += x->traffic[hlo_called(i, k)->id];
    } else if (!hlo_op_has(i->opcode, HLO_F_FREE)) {
      b += x->cost[i->id].bytes_read + x->cost[i->id].bytes_written;
    }
  }
  return b;
}

static hs_status add_computations(estimator *x, const hlo_module *m) {
  hs_arena a = {0};
  hlo_cost_table cost = {0};
  if (!x->o.cost) HS_TRY(hlo_cost_module(m, &cost));
  x->cost = x->o.cost ? x->o.cost : cost.by_id;
  x->apart = x->d->family == PROF_CPU ? hlo_heavy_bodies(m, &a)
                                      : HS_NEW_ARRAY(&a, bool, m->next_comp_id + 1);
  x->times = HS_NEW_ARRAY(&a, double, m->next_comp_id + 1);
  x->traffic = HS_NEW_ARRAY(&a, double, m->next_comp_id + 1);
  x->touched = HS_NEW_ARRAY(&a, double, m->next_instr_id + 1);
  x->arrives = HS_NEW_ARRAY(&a, double, m->next_instr_id + 1);
  x->source = HS_NEW_ARRAY(&a, u32, m->next_instr_id + 1);
  x->bytes = HS_NEW_ARRAY(&a, double, m->next_instr_id + 1);
  x->uses = HS_NEW_ARRAY(&a, u32, m->next_instr_id + 1);
  for (u32 k = 0; k < m->next_instr_id; k++) x->touched[k] = -1;
  x->times[m->entry->id] = 1;
  u32 n;
  hlo_computation **order = hlo_comp_callees_first(m, &a, &n);
  for (u32 k = 0; k < n && !hs_interrupted(); k++)
    x->traffic[order[k]->id] = traffic_of(x, order[k]);
  hs_status s = hs_poll();
  for (u32 k = n; k-- > 0 && hs_ok(s);) {
    double times = x->times[order[k]->id];
    if (times > 0) s = add_computation(x, order[k], times);
    if (hs_ok(s)) s = hs_poll();
  }
  hlo_cost_free(&cost);
  hs_arena_free(&a);
  return s;
}

// What a run takes anew from the system, as it is touched the first time: each result, and a block
// for all temporaries.
static void add_fresh(const prof_device *d, const hlo_module *m, const hlo_memory *memory,
                      prof_estimate *e) {
  const prof_curve *rate = &d->measured->fresh[d->threads > 1];
  const hlo_shape *result = m->entry->root->shape;
  double temporaries = HS_MAX((double)memory->temp_bytes, 0);
  bool cheap = d->measured->xla && hlo_cost_xla(m).flops < PROF_XLA_CHEAP;
  e->time_s += cheap ? d->measured->cheap_run_s : d->measured->run_s;
  if (rate->y[rate->n - 1] >= PROF_NOTHING_FRESH) return;
  e->fresh_s = temporaries / prof_curve_at(rate, HS_MAX(temporaries, 1));
  for (u32 k = 0, n = hlo_shape_leaves(result); k < n; k++) {
    double bytes = (double)hlo_shape_bytes(hlo_shape_leaf(result, k));
    e->fresh_s += bytes / prof_curve_at(rate, HS_MAX(bytes, 1));
  }
  e->fresh_s *= e->here;
  e->time_s += e->fresh_s;
}

// The devices that this machine's processor runs one after the other; where there are too many to
// run here, as many as the module says.
static u32 simulated_devices(const hlo_module *m) {
  u32 replicas, partitions;
  bool transfers;
  hs_status s = hlo_eval_devices(m, NULL, &replicas, &partitions, &transfers);
  bool known = hs_ok(s);
  hs_status_drop(s);
  return known ? replicas * partitions : prof_module_devices(m);
}

// *plan: what the kernels' memory is planned by, made where there is none; memory: what that needs;
// shared: what it would need with memory that is shared, since what is touched again and again is
// what lives at the same time, copies that are none aside.
static hs_status plan_memory(const hlo_module *m, bool naive, hlo_live_plan **plan,
                             hlo_memory *memory, hlo_memory *shared) {
  bool given = *plan != NULL;
  if (!given) HS_TRY(hlo_live_plan_new(m, naive, plan));
  hs_status s = hlo_live_plan_memory(*plan, memory);
  *shared = *memory;
  if (hs_ok(s) && naive) s = hlo_memory_estimate(m, false, shared);
  if (!hs_ok(s) && !given) hlo_live_plan_free(*plan);
  return s;
}

hs_status prof_estimate_kernels(const hlo_module *m, const prof_device *d, const prof_options *o,
                                prof_module *out) {
  *out = (prof_module){.n = m->next_instr_id};
  hlo_live_plan *plan = o->plan;
  hlo_memory memory, shared;
  HS_TRY(plan_memory(m, o->naive, &plan, &memory, &shared));
  out->total.peak_bytes = memory.peak_bytes;
  out->total.devices = o->devices ? o->devices : prof_module_devices(m);
  out->kernels = hs_calloc(out->n + 1u, sizeof *out->kernels);
  out->times = hs_calloc(out->n + 1u, sizeof *out->times);
  out->total.parts = d->family == PROF_CPU ? 1 : prof_module_undivided(m);
  if (out->total.peak_bytes < INT64_MAX) out->total.peak_bytes /= out->total.parts;
  out->total.here = d->family == PROF_CPU ? simulated_devices(m) : 1;
  estimator x = {.d = d,
                 .o = *o,
                 .out = out,
                 .plan = plan,
                 .live = (double)shared.peak_bytes,
                 .together = out->total.here};
  hs_status s = add_computations(&x, m);
  if (!o->plan) hlo_live_plan_free(plan);
  if (d->family == PROF_CPU) add_fresh(d, m, &shared, &out->total);
  out->total.kernels = (u32)HS_MIN(x.launches, (double)UINT32_MAX);
  if (!hs_ok(s)) prof_module_free(out);
  return s;
}

void prof_module_free(prof_module *p) {
  hs_free(p->kernels);
  hs_free(p->times);
  *p = (prof_module){0};
}

hs_status prof_estimate_module(const hlo_module *m, const prof_device *d, bool naive,
                               prof_estimate *out) {
  prof_module p;
  HS_TRY(prof_estimate_kernels(m, d, &(prof_options){.naive = naive}, &p));
  *out = p.total;
  prof_module_free(&p);
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
