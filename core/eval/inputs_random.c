// inputs_random.c — random arguments that respect the constraints of a module's own instructions.
// See inputs.h.
//
// The uses of a parameter say what it may hold. A value is followed through data movement,
// conversions, tuples and calls to the uses that constrain it: as an index, as the initial value of
// a reduction, as a sort key. XLA's tests do the same (MakeFakeArguments in
// xla/tests/test_utils.cc); where those leave the identity of a reducer open (all but sums and
// products) the true one is taken here, and windows of gathers and scatters lie inside as a whole.
#include <math.h>
#include <stdlib.h>

#include "core/eval/inputs_fill.h"

// The wish of all uses together.
typedef struct wish {
  bool index;
  i64 bound;            // 0 ... bound
  bool sorted, unique;  // of indices
  bool identity;
  hlo_opcode reducer;
  bool distinct;  // sort keys
  // per instruction id: visited already (tuple elements: once per instruction and constraint)
  u8 *seen;
} wish;

static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

static void want_index(wish *w, i64 bound) {
  if (!w->index || bound < w->bound) w->bound = HS_MAX(bound, 0);
  w->index = true;
}

static void collect(const hlo_instr *v, wish *w);
static void collect_element(const hlo_instr *tuple, i64 index, wish *w);

static void want_slice_index(const hlo_instr *i, u32 slot, u32 first, wish *w) {
  const hlo_shape *from = hlo_operand(i, 0)->shape,
                  *part = i->opcode == HLO_DYNAMIC_SLICE ? i->shape : hlo_operand(i, 1)->shape;
  for (u32 d = 0; d < from->rank; d++)
    if (hlo_operand(i, slot)->shape->rank == 1 || slot - first == d)
      want_index(w, from->dims[d] - part->dims[d]);
}

static void want_gather_index(const hlo_instr *i, wish *w) {
  hlo_ints map = hlo_attr_ints(i, HLO_ATTR_START_INDEX_MAP),
           size = hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES);
  for (u32 q = 0; q < map.n; q++)
    want_index(w, hlo_operand(i, 0)->shape->dims[map.v[q]] - size.v[map.v[q]]);
  w->sorted |= hlo_attr_int(i, HLO_ATTR_INDICES_ARE_SORTED, 0) != 0;
}

static void want_scatter_index(const hlo_instr *i, u32 slot, wish *w) {
  hlo_ints map = hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
           ins = hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS),
           win = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS),
           batch = hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS);
  const hlo_shape *to = hlo_operand(i, 0)->shape, *up = hlo_operand(i, slot + 1)->shape;
  u32 at = 0;
  for (u32 d = 0; d < to->rank; d++) {
    i64 size = 1;
    if (!holds(ins, d) && !holds(batch, d) && at < win.n) size = up->dims[win.v[at++]];
    if (holds(map, d)) want_index(w, to->dims[d] - size);
  }
  w->sorted |= hlo_attr_int(i, HLO_ATTR_INDICES_ARE_SORTED, 0) != 0;
  w->unique |= hlo_attr_int(i, HLO_ATTR_UNIQUE_INDICES, 0) != 0 && map.n == 1;
}

static void want_identity(const hlo_computation *c, wish *w) {
  if (!c) return;
  w->identity = true;
  w->reducer = ev_reducer(c);
}

static void collect_called(const hlo_computation *c, u32 slot, i64 element, wish *w) {
  if (!c || slot >= c->nparams) return;
  if (element < 0) collect(c->params[slot], w);
  else collect_element(c->params[slot], element, w);
}

// A use of an array; with element >= 0 the use of a tuple of which that element is meant.
static void collect_use(const hlo_use *u, i64 element, wish *w) {
  const hlo_instr *i = u->user;
  u32 k = hlo_slot(u);
  switch (i->opcode) {
  case HLO_DYNAMIC_SLICE:
    if (k >= 1) want_slice_index(i, k, 1, w);
    break;
  case HLO_DYNAMIC_UPDATE_SLICE:
    if (k >= 2) want_slice_index(i, k, 2, w);
    break;
  case HLO_GATHER:
    if (k == 1) want_gather_index(i, w);
    break;
  case HLO_SCATTER:
    if (k == (i->noperands - 1) / 2) want_scatter_index(i, k, w);
    break;
  case HLO_REDUCE:
  case HLO_REDUCE_WINDOW:
    if (k >= i->noperands / 2) want_identity(hlo_attr_comp(i, HLO_ATTR_TO_APPLY), w);
    break;
  case HLO_SELECT_AND_SCATTER:
    if (k == 2) want_identity(hlo_attr_comp(i, HLO_ATTR_SCATTER), w);
    break;
  case HLO_SORT:
    if (k == 0 && (i->noperands > 1 || hlo_attr_int(i, HLO_ATTR_IS_STABLE, 0))) w->distinct = true;
    break;
  case HLO_CONVERT:
  case HLO_REDUCE_PRECISION:
  case HLO_RESHAPE:
  case HLO_BROADCAST:
  case HLO_COPY:
  case HLO_SLICE:
  case HLO_TRANSPOSE:
  case HLO_BITCAST:
  case HLO_CONCATENATE:
  case HLO_REVERSE:
  case HLO_CLAMP:
    if (i->opcode != HLO_CLAMP || k == 1) collect(i, w);
    break;
  case HLO_OPT_BARRIER:
    if (element < 0) collect(i, w);
    else collect_element(i, element, w);
    break;
  // of nested tuples the outer element is followed
  case HLO_TUPLE: collect_element(i, k, w); break;
  case HLO_GET_TUPLE_ELEMENT:
    if (element >= 0 && hlo_attr_int(i, HLO_ATTR_INDEX, -1) == element) collect(i, w);
    break;
  case HLO_CALL:
  case HLO_FUSION: collect_called(hlo_fusion_comp(i), k, element, w); break;
  case HLO_WHILE:
    collect_called(hlo_attr_comp(i, HLO_ATTR_BODY), 0, element, w);
    collect_called(hlo_attr_comp(i, HLO_ATTR_CONDITION), 0, element, w);
    break;
  case HLO_CONDITIONAL:
    if (k >= 1 && k - 1 < hlo_ncalled(i)) collect_called(hlo_called(i, k - 1), 0, element, w);
    break;
  default: break;
  }
}

static void collect(const hlo_instr *v, wish *w) {
  if (w->seen[v->id]) return;
  w->seen[v->id] = 1;
  hlo_for_each_use(u, v) collect_use(u, -1, w);
}

static void collect_element(const hlo_instr *tuple, i64 index, wish *w) {
  u8 mark = (u8)(2 + (u64)index % 200);
  if (w->seen[tuple->id] == mark) return;
  w->seen[tuple->id] = mark;
  hlo_for_each_use(u, tuple) collect_use(u, index, w);
}

static wish wish_of(const hlo_module *m, const hlo_instr *v, i64 element) {
  wish w = {.seen = hs_calloc(m->next_instr_id + 1, 1)};
  if (element < 0) collect(v, &w);
  else collect_element(v, element, &w);
  hs_free(w.seen);
  w.seen = NULL;
  return w;
}

// ---- filling ------------------------------------------------------------------------------------
static void shuffle(hlo_literal *l, u64 stream) {
  size_t b = hlo_dtype_storage(l->shape->dtype);
  for (i64 i = l->shape->elements - 1; i > 0 && !hs_stops(i); i--) {
    i64 j = (i64)(input_hash(stream, (u64)i) % (u64)(i + 1));
    char tmp[16], *p = l->data;
    memcpy(tmp, p + (size_t)i * b, b);
    memcpy(p + (size_t)i * b, p + (size_t)j * b, b);
    memcpy(p + (size_t)j * b, tmp, b);
  }
}

// The value that the reducer leaves others alone with; sums when it is not known.
static void fill_identity(hlo_literal *l, hlo_opcode reducer) {
  hlo_dtype t = l->shape->dtype;
  bool real = hlo_dtype_is_float(t), high = reducer == HLO_MINIMUM;
  int bits = hlo_dtype_bits(t);
  for (i64 i = 0; i < l->shape->elements && !hs_stops(i); i++) {
    if (reducer == HLO_MULTIPLY) hlo_literal_set_i64(l, i, 1);
    else if (reducer == HLO_AND) hlo_literal_set_i64(l, i, t == HLO_PRED ? 1 : -1);
    else if (reducer != HLO_MAXIMUM && reducer != HLO_MINIMUM) hlo_literal_set_i64(l, i, 0);
    else if (real) hlo_literal_set_f64(l, i, high ? INFINITY : -INFINITY);
    else if (t == HLO_PRED) hlo_literal_set_i64(l, i, high);
    else if (hlo_dtype_is_signed(t))
      hlo_literal_set_i64(l, i,
                          high ? (i64)(((u64)1 << (bits - 1)) - 1) : (i64)(~(u64)0 << (bits - 1)));
    else hlo_literal_set_i64(l, i, high ? -1 : 0);
  }
}

static int compare_i64(const void *a, const void *b) {
  return (*(const i64 *)a > *(const i64 *)b) - (*(const i64 *)a < *(const i64 *)b);
}

// Different numbers of 0 ... bound when there are enough: all of them in steps of a stride
// that is prime to their number.
static i64 unique_index(u64 stream, i64 i, i64 bound) {
  u64 n = (u64)bound + 1, stride = n > 2 ? input_hash(stream, 0) % (n - 1) + 1 : 1;
  for (u64 a = n, b = stride;;) {
    while (b) {
      u64 r = a % b;
      a = b, b = r;
    }
    if (a == 1) break;
    stride = stride % n + 1;
    a = n, b = stride;
  }
  return (i64)((unsigned __int128)(u64)i * stride % n);
}

static void fill_index(hlo_literal *l, u64 stream, const wish *w) {
  i64 n = l->shape->elements, *v = hs_alloc_or_stop(((size_t)n + 1) * sizeof *v);
  if (!v) return;
  for (i64 i = 0; i < n && !hs_stops(i); i++)
    v[i] = w->unique ? unique_index(stream, i, w->bound)
                     : (i64)(input_hash(stream, (u64)i) % ((u64)w->bound + 1));
  if (hs_interrupted()) n = 0;  // they are not all there
  if (w->sorted && n) qsort(v, (size_t)n, sizeof *v, compare_i64);
  for (i64 i = 0; i < n && !hs_stops(i); i++) hlo_literal_set_i64(l, i, v[i]);
  hs_free(v);
}

// Uniform in the exponent over the normal numbers; one in a million is 0, 1 or infinite, of either
// sign.
static void fill_large(hlo_literal *l, u64 stream) {
  hlo_dtype t = l->shape->dtype, part = hlo_dtype_real_part(t);
  bool complex = hlo_dtype_is_complex(t);
  double range = part == HLO_F64 || part == HLO_C128   ? 1023
                 : part == HLO_F32 || part == HLO_BF16 ? 126
                 : part == HLO_F16                     ? 14
                                                       : 6;
  size_t w = hlo_dtype_storage(part);
  i64 n = l->shape->elements * (complex ? 2 : 1);
  for (i64 i = 0; i < n && !hs_stops(i); i++) {
    u64 h = input_hash(stream, (u64)i);
    double sign = h & 1 ? -1 : 1,
           v = sign * exp2((input_unit(stream ^ 0x5bd1e995, (u64)i) * 2 - 1) * range);
    if ((h >> 2) % 1000000 < 6)
      v = sign * ((h >> 2) % 3 == 0 ? 0.0 : (h >> 2) % 3 == 1 ? 1.0 : INFINITY);
    hlo_elem_from_f64(part, (char *)l->data + (size_t)i * w, v);
  }
}

static void fill_random(hlo_literal *l, u64 stream, const wish *w, const hlo_random_options *o) {
  hlo_dtype t = l->shape->dtype;
  bool real = hlo_dtype_is_float(t) || hlo_dtype_is_complex(t);
  input_spec s = real ? (input_spec){.kind = IN_UNIFORM, .lo = -0.1, .hi = 0.2}
                      : (input_spec){.kind = t == HLO_PRED ? IN_PRED : IN_BITS};
  s.period = o->period;
  if (w->identity) {
    fill_identity(l, w->reducer);
  } else if (w->distinct && t != HLO_PRED) {  // a shuffled iota
    for (i64 i = 0; i < l->shape->elements && !hs_stops(i); i++) hlo_literal_set_i64(l, i, i);
    shuffle(l, stream);
  } else if (!real && t != HLO_PRED && w->index) {
    fill_index(l, stream, w);
  } else if (real && o->large_range) {
    fill_large(l, stream);
  } else {
    input_fill(l, stream, &s);
  }
}

// The element of a parameter is asked for its uses when the parameter is a tuple; of deeper tuples
// all leaves share one wish.
static void fill_leaves(const hlo_module *m, hlo_literal *l, const hlo_instr *param, i64 element,
                        u64 stream, const hlo_random_options *o) {
  if (hlo_shape_is_array(l->shape)) {
    wish w = wish_of(m, param, element);
    fill_random(l, stream, &w, o);
  }
  for (u32 k = 0; k < l->nchildren; k++)
    fill_leaves(m, l->children[k], param, element < 0 ? (i64)k : element, input_mix(stream + k + 1),
                o);
}

hs_status hlo_inputs_random_with(const hlo_module *m, const hlo_random_options *o,
                                 hlo_literal ***out, u32 *count) {
  const hlo_computation *c = m->entry;
  *out = NULL;
  *count = 0;
  if (!c) return hs_fail(HS_E_INPUT, "the module has no entry computation");
  hlo_literal **args = hs_calloc(c->nparams + 1, sizeof *args);
  for (u32 k = 0; k < c->nparams; k++) {
    hs_status st = hlo_literal_new(c->params[k]->shape, &args[k]);
    if (hs_ok(st)) {
      fill_leaves(m, args[k], c->params[k], -1, input_mix(o->seed * 0x9E3779B97F4A7C15ull + k + 1),
                  o);
      st = hs_poll();
    }
    if (!hs_ok(st)) {
      hlo_inputs_free(args, c->nparams);
      return st;
    }
  }
  *out = args;
  *count = c->nparams;
  return HS_GOOD;
}

hs_status hlo_inputs_random(hlo_ctx *ctx, const hlo_module *m, u64 seed, hlo_literal ***out,
                            u32 *count) {
  (void)ctx;
  return hlo_inputs_random_with(m, &(hlo_random_options){.seed = seed}, out, count);
}

hs_status hlo_fill_elided(hlo_module *m, bool zeros, u64 seed) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      if (i->opcode != HLO_CONSTANT) continue;
      const hlo_literal *old = hlo_constant_value(i);
      if (!old || !hlo_literal_has_elided(old)) continue;
      hlo_literal *l;
      HS_TRY(hlo_literal_new(i->shape, &l));
      if (!zeros && hlo_shape_is_array(i->shape)) {
        wish w = wish_of(m, i, -1);
        w.identity = false;
        fill_random(l, input_mix(seed * 0x9E3779B97F4A7C15ull + 0x10000 + i->id), &w,
                    &(hlo_random_options){0});
      }
      // the journal keeps a reference of its own
      hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = l});
      hlo_literal_unref(l);
      HS_TRY(hs_poll());
    }
  return HS_GOOD;
}
