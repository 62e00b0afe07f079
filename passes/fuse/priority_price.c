// priority_price.c — what priority-fusion asks about one kernel and about one producer in it:
// what it costs on a GPU, what kind of code it becomes, and whether it may be (XLA's
// xla/service/gpu/model/gpu_performance_model.cc, gpu_hlo_cost_analysis.cc, gpu_fusible.cc and
// hlo_fusion_analysis.cc; the numbers are ours).
//
// A kernel is looked at once (`priority_look`): from its result down to its parameters it is
// counted how often each element is evaluated. An elementwise operation evaluates its operands
// where it is evaluated itself, so that two such readers share the value; any other reader is a
// place of its own, with its share of the operand's elements: less than one for a slice, more for
// a broadcast. That gives operations, size of the code, and bytes. A pair is then priced from the
// two kernels: the producer runs as often as the consumer reads it.
//
// Time is arithmetic and traffic, which overlap. Traffic: each byte of an operand once from memory,
// what is read again from the caches. The rates are an H100's; that they are another device's
// changes few decisions, as most kernels are bound by memory or by their launch.
#include "passes/fuse/priority.h"
#include "passes/fuse/fusion_rules.h"

#include <math.h>

const double priority_launch_s = 1e-6;
static const double memory_rate = 3.35e12, cache_rate = 5.5e12,
                    near_rate = 20e12;  // bytes a second
static const double thread_rate = 1.7e9, most_threads = 132 * 128;
enum {
  WARP = 32,
  MOST_PLACES = 64,    // readers of one instruction in a body
  MOST_SIZE = 2000,    // operations in the code of a kernel
  MOST_SPLITS = 10,    // XLA's kMaxBasicBlockSplitsPerFusion
  MOST_BUFFERS = 96,   // operands and results: XLA's MaxOperandsAndOutputsPerFusion
  MOST_REDUCES = 8,    // XLA's kMaxUnnestedReductionOutputsPerFusion
  LONG_REDUCTION = 16  // elements, from which on it is not computed inside another one
};

// ---- shapes -------------------------------------------------------------------------------------

static const hlo_shape *array_of(const hlo_instr *i) {
  const hlo_shape *s = i->shape;
  while (hlo_shape_is_tuple(s) && s->nelems) s = s->elems[0];
  return s;
}

static double elements_of(const hlo_instr *i) {
  const hlo_shape *s = array_of(i);
  return hlo_shape_is_array(s) ? HS_MAX((double)s->elements, 1) : 1;
}

static bool is_transpose(const hlo_instr *i) {
  if (i->opcode != HLO_TRANSPOSE && i->opcode != HLO_COPY) return false;
  const hlo_shape *in = hlo_operand(i, 0)->shape, *out = i->shape;
  u32 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
  if (!hlo_shape_is_array(in) || !hlo_shape_is_array(out)) return false;
  u32 n = pass_physical_order(in, from), m = pass_physical_order(out, to);
  if (n == 0 || m != n) return false;
  hlo_ints p = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  u32 minor = i->opcode == HLO_TRANSPOSE ? (u32)p.v[to[n - 1]] : to[n - 1];
  return minor != from[n - 1];
}

// Whether threads share a reduction, as its dimensions lie beside each other in memory and are many
// (XLA's IsReductionFromOrToContiguousDimensions).
static bool is_shared_reduction(const hlo_instr *i) {
  if (i->opcode != HLO_REDUCE) return false;
  const hlo_shape *in = hlo_operand(i, 0)->shape;
  u32 order[HLO_MAX_RANK], n = pass_physical_order(in, order), runs = 0;
  double size[HLO_MAX_RANK];
  bool last = false;
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < n; k++) {
    bool reduced = false;
    for (u32 j = 0; j < d.n; j++) reduced |= d.v[j] == (i64)order[k];
    if (!runs || reduced != last) size[runs++] = 1;
    size[runs - 1] *= (double)in->dims[order[k]];
    last = reduced;
  }
  if (in->elements == 0 || runs == 0 || runs > 3 || (runs == 1 && !last)) return false;
  if (last) return size[runs - 1] >= WARP || WARP % (i64)size[runs - 1] == 0;
  double rows = size[runs - 2], columns = size[runs - 1];
  return rows >= WARP && (rows >= 2 * WARP || columns >= WARP) &&
         (rows >= 4 * WARP || columns >= 8) && (rows >= 8 * WARP || columns >= 3);
}

static bool is_long_reduction(const hlo_instr *i) {
  return i->opcode == HLO_REDUCE && hlo_shape_is_array(i->shape) &&
         elements_of(hlo_operand(i, 0)) >= LONG_REDUCTION * elements_of(i);
}

// ---- what may be in a kernel --------------------------------------------------------------------

bool priority_is_bitcast(const hlo_instr *i) {
  return i->opcode == HLO_BITCAST &&
         hlo_dtype_bits(i->shape->dtype) == hlo_dtype_bits(hlo_operand(i, 0)->shape->dtype);
}

static bool is_custom(const hlo_instr *i) {
  return i->opcode == HLO_FUSION && hlo_attr_int(i, HLO_ATTR_KIND, 0) == HLO_FUSION_KIND_CUSTOM;
}

bool priority_is_triton(const hlo_instr *i) {
  const hlo_backend_config *c = hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG);
  return is_custom(i) && c && strstr(c->text.p, "\"__triton\"");
}

static bool has_arrays_only(const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *s = hlo_operand(i, k)->shape;
    if (!hlo_shape_is_array(s) || hlo_shape_is_dynamic(s)) return false;
  }
  return !hlo_shape_is_dynamic(i->shape);
}

// Operations that a kernel may hold; fusions among each other aside.
static bool is_held(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_CONSTANT:
  case HLO_IOTA:
  case HLO_REDUCE:
  case HLO_BROADCAST:
  case HLO_CONCATENATE:
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_GATHER:
  case HLO_PAD:
  case HLO_REDUCE_WINDOW:
  case HLO_RESHAPE:
  case HLO_REVERSE:
  case HLO_SCATTER:
  case HLO_SLICE:
  case HLO_TRANSPOSE: return true;
  default: return priority_is_bitcast(i) || fusion_rule_elementwise(i);
  }
}

bool priority_fusible(const hlo_instr *i) {
  return !hlo_is_controlled(i) && !is_custom(i) && has_arrays_only(i) && fusion_rule_fusible(i) &&
         (i->opcode == HLO_FUSION || is_held(i));
}

// ---- kinds --------------------------------------------------------------------------------------

// Whether code for its operand also gives the instruction: one operand, the same elements.
static bool is_between(const hlo_instr *i) {
  if (i->noperands != 1) return false;
  switch (i->opcode) {
  case HLO_BITCAST: return true;
  case HLO_RESHAPE: return pass_reshape_is_bitcast(hlo_operand(i, 0)->shape, i->shape);
  case HLO_TRANSPOSE:
  case HLO_COPY: return !is_transpose(i);
  default: return i->opcode != HLO_FUSION && fusion_rule_elementwise(i);
  }
}

// Of a fusion of no results, the empty tuple.
static const hlo_instr *result_of(const hlo_instr *i, u32 k) {
  const hlo_instr *r = i->opcode == HLO_FUSION ? hlo_fusion_comp(i)->root : i;
  if (i->opcode != HLO_FUSION || r->opcode != HLO_TUPLE || !r->noperands) return k ? NULL : r;
  return k < r->noperands ? hlo_operand(r, k) : NULL;
}

// What decides about the result r of `in`: the first of its operands that is more than a step on
// the way. Goes on in the producer where r comes from it.
static const hlo_instr *hero_of(const hlo_instr *r, const hlo_instr *in,
                                const hlo_instr *producer) {
  const hlo_instr *from = r;
  for (;;) {
    bool inside =
        in->opcode == HLO_FUSION && r->opcode == HLO_PARAMETER && r->parent == hlo_fusion_comp(in);
    const hlo_instr *next = inside ? hlo_operand(in, (u32)hlo_param_number(r)) : NULL;
    if (inside && next == producer) {
      in = producer, producer = NULL;
      r = result_of(in, 0);
    } else if (is_between(r) && (in->opcode == HLO_FUSION || hlo_operand(r, 0) == producer)) {
      next = hlo_operand(r, 0);
      if (in->opcode == HLO_FUSION && next->nuses > 1) return from;
      if (in->opcode != HLO_FUSION) in = producer, producer = NULL, next = result_of(in, 0);
      r = next;
    } else {
      return r->opcode == HLO_PARAMETER ? from : r;
    }
  }
}

priority_kind priority_kind_of(const hlo_instr *consumer, const hlo_instr *producer) {
  const hlo_instr *r;
  priority_kind kind = PRIORITY_LOOP;
  for (u32 k = 0; (r = result_of(consumer, k)); k++) {
    const hlo_instr *hero = hero_of(r, consumer, producer);
    if (hero->opcode == HLO_SCATTER) return PRIORITY_SCATTER;
    if (is_shared_reduction(hero)) kind = PRIORITY_REDUCTION;
    else if (kind == PRIORITY_LOOP && is_transpose(hero)) kind = PRIORITY_TRANSPOSE;
  }
  return kind;
}

// ---- one kernel ---------------------------------------------------------------------------------

// Evaluations of an operand for one of the whole instruction, divided by its elements.
static double share_of(const hlo_instr *i, u32 slot) {
  double in = elements_of(hlo_operand(i, slot)), out = elements_of(i);
  switch (i->opcode) {
  case HLO_BROADCAST: return out / in;
  case HLO_SLICE: return out / in;
  case HLO_DYNAMIC_SLICE:
  case HLO_GATHER: return slot ? 1 : out / in;
  case HLO_REDUCE_WINDOW: {
    const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
    for (u32 k = 0; w && k < w->n; k++) out *= (double)w->v[k].size;
    return slot < i->noperands / 2 ? out / in : 1;
  }
  default: return 1;
  }
}

static double ops_of(const hlo_instr *i) {
  double each = hlo_op_cost(i->opcode)->cycles;
  switch (i->opcode) {
  case HLO_PARAMETER:
  case HLO_CONSTANT:
  case HLO_TUPLE:
  case HLO_BITCAST: return 0;
  case HLO_REDUCE: return elements_of(hlo_operand(i, 0));
  case HLO_REDUCE_WINDOW: return share_of(i, 0) * elements_of(hlo_operand(i, 0));
  case HLO_SCATTER: return elements_of(hlo_operand(i, i->noperands - 1));
  default: return each * elements_of(i);
  }
}

// A branch or a loop of its own in the code; a pad is one comparison.
static bool splits_code(const hlo_instr *i) {
  return i->opcode == HLO_CONCATENATE || i->opcode == HLO_REDUCE || i->opcode == HLO_REDUCE_WINDOW;
}

static void count(priority_kernel *k, const hlo_instr *i, double times, u32 copies) {
  k->ops += ops_of(i) * times;
  k->size += copies;
  if (splits_code(i)) k->splits += copies;
  k->reduces |= is_long_reduction(i);
  k->scatters |= i->opcode == HLO_SCATTER;
  k->foreign |= i->opcode != HLO_PARAMETER && i->opcode != HLO_TUPLE && !is_held(i);
}

// Where an instruction of a body is evaluated: places, each a reading of it that is not
// elementwise.
typedef struct place {
  double times;
  u32 copies;
  bool scattered;
} place;
typedef struct spot {
  u32 n, at[MOST_PLACES];
  bool full;
} spot;

static void put(spot *s, u32 at) {
  for (u32 k = 0; k < s->n; k++)
    if (s->at[k] == at) return;
  if (s->n < MOST_PLACES) s->at[s->n++] = at;
  else s->full = true;
}

static bool is_through(const hlo_instr *i) {
  return i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT || fusion_rule_elementwise(i);
}

static void look_inside(priority_kernel *k, const hlo_instr *fusion) {
  const hlo_computation *c = hlo_fusion_comp(fusion);
  hs_arena a = {0};
  hlo_instr **order = hlo_post_order(c, &a);
  hlo_positions pos = hlo_positions_in(c->ninstrs, order, &a);
  spot *spots = HS_NEW_ARRAY(&a, spot, c->ninstrs + 1);
  HS_VEC(place) places = {0};
  const hlo_instr *hero = hero_of(result_of(fusion, 0), fusion, NULL);
  place whole = {1, 1, false};
  hs_vec_push(&places, whole);
  put(&spots[hlo_position_of(&pos, c->root)], 0);
  for (u32 j = c->ninstrs; j-- > 0;) {
    const hlo_instr *i = order[j];
    place here = {0, 0, false};
    for (u32 q = 0; q < spots[j].n; q++) {
      const place *p = &places.v[spots[j].at[q]];
      here.times += p->times, here.copies += p->copies, here.scattered |= p->scattered;
    }
    if (spots[j].full) here.copies = MOST_SIZE + 1;
    here.copies = HS_MIN(here.copies, MOST_SIZE + 1);
    count(k, i, here.times, here.copies);
    k->size = HS_MIN(k->size, MOST_SIZE + 1), k->splits = HS_MIN(k->splits, MOST_SIZE + 1);
    if (i->opcode == HLO_PARAMETER)
      k->reads[hlo_param_number(i)] = (priority_read){here.times, here.copies, here.scattered};
    bool moved = here.scattered || (is_transpose(i) && i != hero);
    for (u32 o = 0; o < i->noperands; o++) {
      spot *to = &spots[hlo_position_of(&pos, hlo_operand(i, o))];
      if (is_through(i)) {
        for (u32 q = 0; q < spots[j].n; q++) put(to, spots[j].at[q]);
        continue;
      }
      place p = {here.times * share_of(i, o), here.copies, moved};
      put(to, (u32)places.n);
      hs_vec_push(&places, p);
    }
  }
  hs_vec_free(&places);
  hs_arena_free(&a);
}

priority_kernel priority_look(const hlo_instr *i, hs_arena *a) {
  priority_kernel k = {.kind = priority_kind_of(i, NULL)};
  k.reads = HS_NEW_ARRAY(a, priority_read, i->noperands + 1);
  if (i->opcode == HLO_FUSION) {
    look_inside(&k, i);
  } else {
    count(&k, i, 1, 1);
    for (u32 o = 0; o < i->noperands; o++) k.reads[o] = (priority_read){share_of(i, o), 1, false};
  }
  const hlo_instr *hero = hero_of(result_of(i, 0), i, NULL);
  k.threads = is_shared_reduction(hero) ? elements_of(hlo_operand(hero, 0)) / 8 : elements_of(i);
  return k;
}

// ---- price --------------------------------------------------------------------------------------

static double read_time(const hlo_instr *x, double times, bool scattered) {
  double bytes = (double)hlo_shape_bytes(x->shape), width = bytes / elements_of(x);
  double again = HS_MAX(times - 1, 0) * bytes, waste = scattered ? HS_MAX(32 / width, 1) : 1;
  if (elements_of(x) == 1) return bytes / memory_rate;
  return HS_MIN(times, 1) * bytes * waste / memory_rate +
         again * waste / (bytes <= 65536 ? near_rate : cache_rate);
}

static double total(double ops, double threads, double traffic) {
  double arithmetic = ops / (thread_rate * HS_MAX(HS_MIN(threads, most_threads), 1));
  return arithmetic + traffic - 0.95 * HS_MIN(arithmetic, traffic);
}

static double write_time(const hlo_instr *i) {
  return (double)hlo_shape_bytes(i->shape) / memory_rate;
}

double priority_time(const hlo_instr *i, const priority_kernel *k) {
  double traffic = write_time(i);
  for (u32 o = 0; o < i->noperands; o++)
    traffic += read_time(hlo_operand(i, o), k->reads[o].times, k->reads[o].scattered);
  return total(k->ops, k->threads, traffic);
}

static u32 slot_of(const hlo_instr *i, const hlo_instr *x) {
  u32 k = 0;
  while (k < i->noperands && hlo_operand(i, k) != x) k++;
  return k;
}

double priority_time_fused(const hlo_instr *producer, const priority_kernel *p,
                           const hlo_instr *consumer, const priority_kernel *c, u32 slot) {
  double traffic = write_time(consumer), runs = c->reads[slot].times;
  priority_kind kind = priority_kind_of(consumer, producer);
  bool moved =
      c->reads[slot].scattered || (p->kind == PRIORITY_TRANSPOSE && kind != PRIORITY_TRANSPOSE);
  for (u32 o = 0; o < consumer->noperands; o++) {
    const hlo_instr *x = hlo_operand(consumer, o);
    if (x == producer) continue;
    u32 both = slot_of(producer, x);
    double times = c->reads[o].times;
    if (both < producer->noperands) times += p->reads[both].times * runs;
    traffic += read_time(x, times, c->reads[o].scattered);
  }
  for (u32 o = 0; o < producer->noperands; o++) {
    const hlo_instr *x = hlo_operand(producer, o);
    if (slot_of(consumer, x) < consumer->noperands || slot_of(producer, x) < o) continue;
    traffic += read_time(x, p->reads[o].times * runs, moved || p->reads[o].scattered);
  }
  double threads =
      kind == PRIORITY_REDUCTION && c->kind != PRIORITY_REDUCTION ? p->threads : c->threads;
  return total(c->ops + p->ops * runs, threads, traffic);
}

// ---- legality -----------------------------------------------------------------------------------

const char *priority_scatter_refuses(const hlo_instr *producer, const hlo_instr *consumer) {
  const hlo_instr *s = result_of(consumer, 0);
  if (s->opcode != HLO_SCATTER) return NULL;
  for (u32 k = 0; k < s->noperands / 2; k++) {
    const hlo_instr *over = hlo_operand(s, k);
    if (consumer->opcode == HLO_FUSION && over->opcode == HLO_PARAMETER)
      over = hlo_operand(consumer, (u32)hlo_param_number(over));
    if (over == producer) return "a scatter writes over it";
    if (slot_of(producer, over) < producer->noperands)
      return "it reads what the scatter writes over";
  }
  return NULL;
}

// Operands and results of the kernel with the producer in it.
static u32 buffers_of(const hlo_instr *producer, const hlo_instr *consumer) {
  u32 n = consumer->noperands + (hlo_shape_is_tuple(consumer->shape) ? consumer->shape->nelems : 1);
  for (u32 k = 0; k < producer->noperands; k++)
    n += slot_of(consumer, hlo_operand(producer, k)) == consumer->noperands &&
         slot_of(producer, hlo_operand(producer, k)) == k;
  return n - 1;
}

static u32 shared_reductions(const hlo_instr *i) {
  u32 n = 0;
  if (i->opcode != HLO_FUSION) return is_shared_reduction(i);
  hlo_for_each_instr(x, hlo_fusion_comp(i)) n += is_shared_reduction(x);
  return n;
}

const char *priority_refuses(const hlo_instr *producer, const priority_kernel *p,
                             const hlo_instr *consumer, const priority_kernel *c, u32 slot,
                             hs_arena *a) {
  if (hlo_is_root(producer)) return "it is the result of the computation";
  if (!priority_fusible(producer) || !hlo_shape_is_array(producer->shape))
    return "no kernel computes it for another";
  if (!priority_fusible(consumer)) return "a reader is no kernel that computes its operands";
  if (priority_is_bitcast(consumer)) return "a bitcast is no reason for a kernel";
  if (p->foreign || c->foreign) return "one of the two holds a product, or what else is its own";
  if (p->scatters) return "nothing follows a scatter in its kernel";
  if (c->scatters && result_of(consumer, 0)->opcode != HLO_SCATTER)
    return "a reader has a scatter that is not its result";
  const char *why = priority_scatter_refuses(producer, consumer);
  if (why) return why;
  if (p->reduces && c->reduces) return "both it and a reader have a reduction";
  if (p->kind == PRIORITY_REDUCTION && priority_kind_of(consumer, producer) == PRIORITY_LOOP)
    return "a reader would make each of its threads reduce";
  if (shared_reductions(producer) + shared_reductions(consumer) > MOST_REDUCES)
    return "the kernel would have too many reductions";
  u32 buffers = buffers_of(producer, consumer);
  if (buffers > MOST_BUFFERS && buffers > consumer->noperands + 1)
    return "the kernel would have too many operands";
  u32 copies = consumer->opcode == HLO_FUSION ? c->reads[slot].copies : 1;
  if ((u64)copies * p->splits + c->splits > MOST_SPLITS ||
      (u64)copies * p->size + c->size > MOST_SIZE)
    return "the kernel's code would hold it too often";
  return fusion_rule_in_place(producer, consumer, a);
}
