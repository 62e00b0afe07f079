// work.c: what one execution of a kernel does. See work.h.
//
// A fusion is walked once, from results to parameters. A value inside it is not stored: it is
// evaluated again for every user that asks for it at another index. Users of one index share an
// evaluation. So each value has a list of the indices that it is asked at (an index is the path of
// instructions that change it, as a hash) with the number of elements of each. An elementwise
// operation asks its operands at its own indices; a slice, a pad or a reduction at a new one. So a
// tree of strided slices evaluates its leaves once per path. Not so a reduction along rows that the
// results go through again: a softmax keeps the exponentials of a row from the sum for the
// quotient, unless the row is too long for that. Lists have a bounded length; what does not fit is
// added to the last entry, which keeps the number of evaluations.
#include "profiler/model/work.h"

#include <math.h>

#include "core/analysis/customcall.h"

prof_type prof_type_of(hlo_dtype t) {
  t = hlo_dtype_real_part(t);
  int bits = hlo_dtype_bits(t);
  if (hlo_dtype_is_float(t))
    return bits == 64 ? PROF_F64 : bits == 32 ? PROF_F32 : bits > 8 ? PROF_F16 : PROF_F8;
  return bits == 64 ? PROF_I64 : bits > 8 ? PROF_I32 : PROF_I8;
}

static bool is_integer(prof_type t) { return t == PROF_I8 || t == PROF_I32 || t == PROF_I64; }

static const hlo_shape *first_array(const hlo_shape *s) {
  const hlo_shape *leaf = hlo_shape_leaf(s, 0);
  return leaf ? leaf : s;
}

static double elements_of(const hlo_shape *s) {
  s = first_array(s);
  return hlo_shape_is_array(s) ? (double)s->elements : 0;
}

// The length of the dimension that is fastest in memory and longer than 1.
static double fastest(const hlo_shape *s) {
  s = first_array(s);
  for (u32 k = 0; k < s->rank; k++) {
    i64 d = s->layout ? s->layout->minor_to_major[k] : (i64)(s->rank - 1 - k);
    if (s->dims[d] > 1) return (double)s->dims[d];
  }
  return 1;
}

// That dimension's number; -1 when all have length 1.
static i64 fastest_dim(const hlo_shape *s) {
  s = first_array(s);
  for (u32 k = 0; k < s->rank; k++) {
    i64 d = s->layout ? s->layout->minor_to_major[k] : (i64)(s->rank - 1 - k);
    if (s->dims[d] > 1) return d;
  }
  return -1;
}

static void count(prof_work *w, hlo_opcode op, prof_type t, double elements) {
  if (elements <= 0) return;
  for (u32 k = 0; k < w->ncounts; k++)
    if (w->counts[k].op == op && w->counts[k].type == t) {
      w->counts[k].elements += elements;
      return;
    }
  if (w->ncounts == PROF_MOST_COUNTS) w->counts[PROF_MOST_COUNTS - 1].elements += elements;
  else w->counts[w->ncounts++] = (prof_count){op, t, elements};
}

// ---- products -----------------------------------------------------------------------------------
static double dims_product(const hlo_shape *s, hlo_ints dims) {
  double p = 1;
  for (u32 k = 0; k < dims.n; k++)
    if (dims.v[k] >= 0 && dims.v[k] < (i64)s->rank) p *= (double)s->dims[dims.v[k]];
  return p;
}

// Whether the dimensions are side by side and in order, so that one step leads through them.
static bool are_together(hlo_ints dims) {
  for (u32 k = 1; k < dims.n; k++)
    if (dims.v[k] != dims.v[k - 1] + 1) return false;
  return true;
}

static prof_product dot_form(const hlo_instr *i) {
  const hlo_shape *l = first_array(hlo_operand(i, 0)->shape),
                  *r = first_array(hlo_operand(i, 1)->shape);
  hlo_ints lb = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
           lc = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS);
  prof_product p = {.batch = dims_product(l, lb), .k = dims_product(l, lc), .type = l->dtype};
  double both = HS_MAX(p.batch * p.k, 1);
  p.m = (double)l->elements / both;
  p.n = (double)r->elements / both;
  p.operands = (double)l->elements + (double)r->elements;
  hlo_ints rc = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
  if (!are_together(lc)) p.packed += (double)l->elements;
  if (!are_together(rc)) p.packed += (double)r->elements;
  bool turned = p.m > 1 && p.n > 1 && rc.n == 1 && rc.v[0] == fastest_dim(r);
  p.turned = turned ? (double)r->elements : 0;
  const hlo_shape *matrix = p.m < 2 ? r : l;
  hlo_ints mc = p.m < 2 ? hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS) : lc;
  for (u32 k = 0; k < mc.n; k++) p.by_rows |= mc.v[k] == fastest_dim(matrix);
  if (i->opcode == HLO_RAGGED_DOT) p.n = fastest(i->shape), p.batch = 1;
  return p;
}

// ---- one instruction ----------------------------------------------------------------------------
// The elements of an operand whose fastest dimension is another one than the result's.
static double lies_otherwise(const hlo_shape *in, const hlo_shape *out) {
  in = first_array(in), out = first_array(out);
  if (!hlo_shape_is_array(in) || in->rank != out->rank || in->elements != out->elements) return 0;
  i64 a = fastest_dim(in), b = fastest_dim(out);
  return a < 0 || b < 0 || a == b ? 0 : (double)in->elements;
}

// The order in which a loop goes through the elements of an instruction: its result's, and in a
// fusion that of what is stored, where the values between have no place and so no order.
static const hlo_shape *order_of(const hlo_instr *i) {
  const hlo_shape *own = first_array(i->shape), *root = first_array(i->parent->root->shape);
  bool same = hlo_is_fusion_comp(i->parent) && root->rank == own->rank;
  for (u32 k = 0; same && k < own->rank; k++) same = root->dims[k] == own->dims[k];
  return same ? root : own;
}

// Bytes that are read along another dimension than they lie.
static double strided_of(const hlo_instr *i) {
  if (hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && i->opcode != HLO_COPY) {
    double n = 0;
    for (u32 k = 0; k < i->noperands; k++) {
      const hlo_instr *o = hlo_operand(i, k);
      // inside of a fusion only what is loaded lies anywhere, and it is loaded once
      bool loads = o->opcode == HLO_PARAMETER && o->first_use->user == i;
      if (loads || !hlo_is_fusion_comp(i->parent))
        n = HS_MAX(n, lies_otherwise(o->shape, order_of(i)));
    }
    return n;
  }
  if (i->opcode != HLO_TRANSPOSE && i->opcode != HLO_COPY) return 0;
  const hlo_shape *in = first_array(hlo_operand(i, 0)->shape), *out = first_array(i->shape);
  if (!hlo_shape_is_array(in) || in->rank != out->rank) return 0;
  i64 a = fastest_dim(in), b = fastest_dim(out);
  if (a < 0 || b < 0) return 0;
  if (i->opcode == HLO_TRANSPOSE) b = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[b];
  return a == b ? 0 : (double)out->elements;
}

double prof_updated_bytes(const hlo_instr *i) {
  const hlo_instr *r = i->opcode == HLO_FUSION && hlo_fusion_comp(i) ? hlo_fusion_comp(i)->root : i;
  if (r->opcode != HLO_DYNAMIC_UPDATE_SLICE && r->opcode != HLO_SCATTER) return 0;
  return (double)hlo_shape_bytes(i->shape);
}

const hlo_instr *prof_updated_operand(const hlo_instr *i) {
  if (i->opcode != HLO_FUSION) return hlo_operand(i, 0);
  const hlo_instr *t = hlo_operand(hlo_fusion_comp(i)->root, 0);
  i64 k = t->opcode == HLO_PARAMETER ? hlo_param_number(t) : -1;
  return k >= 0 && (u32)k < i->noperands ? hlo_operand(i, (u32)k) : NULL;
}

// Bytes between elements of `in` that follow each other along a dimension.
static double pitch_of(const hlo_shape *in, i64 dim) {
  double bytes = (double)hlo_dtype_storage(in->dtype);
  for (u32 k = 0; k < in->rank; k++) {
    i64 d = in->layout ? in->layout->minor_to_major[k] : (i64)(in->rank - 1 - k);
    if (d == dim) break;
    bytes *= (double)HS_MAX(in->dims[d], 1);
  }
  return bytes;
}

// A row is combined in the order of its dimensions, whatever their order in memory: the last one
// that is reduced; -1 where all have length 1.
static i64 last_reduced(const hlo_instr *i) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_shape *s = first_array(hlo_operand(i, 0)->shape);
  i64 last = -1;
  for (u32 k = 0; k < dims.n; k++)
    if (dims.v[k] < (i64)s->rank && s->dims[dims.v[k]] > 1) last = HS_MAX(last, dims.v[k]);
  return last;
}

static bool reduces_against(const hlo_instr *i) {
  i64 last = last_reduced(i);
  return last >= 0 && last != fastest_dim(hlo_operand(i, 0)->shape);
}

static bool reduces_row(const hlo_instr *i) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 f = fastest_dim(hlo_operand(i, 0)->shape);
  for (u32 k = 0; k < dims.n; k++)
    if (dims.v[k] == f) return true;
  return false;
}

// Operations of a computation that is applied to elements (a reducer, a comparator, a map); how
// many they are for an element.
static u32 count_applied(prof_work *w, const hlo_computation *c, double times, int depth) {
  u32 n = 0;
  if (!c || depth > 8) return 0;
  hlo_for_each_instr(i, c) {
    if (hlo_op_has(i->opcode, HLO_F_FREE)) continue;
    if (i->opcode == HLO_CALL || i->opcode == HLO_FUSION)
      n += count_applied(w, hlo_fusion_comp(i), times, depth + 1);
    else count(w, i->opcode, prof_type_of(first_array(i->shape)->dtype), times), n++;
  }
  return n;
}

// Two parameters and what combines them: part of the price of a reduced element.
static bool is_one_operation(const hlo_computation *c) { return c && c->ninstrs == 3; }

static bool finds_extremes(const hlo_computation *c) {
  return is_one_operation(c) &&
         (c->root->opcode == HLO_MAXIMUM || c->root->opcode == HLO_MINIMUM) &&
         !is_integer(prof_type_of(c->root->shape->dtype));
}

// A window of its own is slid over one dimension after the other, whole rows doubling to its
// length; one that is as long as the dimension is a running total, and a few rows are combined one
// by one (backends/cpu/rt/window.c).
static void count_windows(prof_work *w, const hlo_instr *i) {
  enum { MOST_DOUBLINGS = 8, MOST_DIRECT = 4 };
  const hlo_window *window = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *in = first_array(hlo_operand(i, 0)->shape), *out = first_array(i->shape);
  double n = (double)in->elements, all = 0;
  for (u32 k = 0; window && k < window->n && k < in->rank; k++) {
    double size = (double)window->v[k].size, extent = HS_MAX((double)in->dims[k], 1);
    double left = n * (double)out->dims[k] / extent;
    bool rows = (i64)k != fastest_dim(in);
    double steps = HS_MAX(n, left) * HS_MIN(ceil(log2(HS_MAX(size, 1))), MOST_DOUBLINGS);
    if (size >= extent && size > 1) *(rows ? &w->scanned_rows : &w->scanned) += n;
    else if (size > 1 && rows && size <= MOST_DIRECT) w->reduced_column += left * size;
    else if (rows) w->slid_rows += steps;
    else if (size > 1) w->slid += HS_MAX(n, left), w->slid_window = HS_MAX(w->slid_window, size);
    all += size >= extent ? n : steps;
    n = left;
  }
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (!is_one_operation(c)) count_applied(w, c, all, 0);
}

static double window_size(const hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  double n = 1;
  for (u32 k = 0; w && k < w->n; k++) n *= (double)w->v[k].size;
  return n;
}

// Windows that cut the fastest dimension into pieces combine each as a row: no two share an
// element, and so there are no lanes of windows next to each other.
static bool cuts_rows(const hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  i64 f = fastest_dim(hlo_operand(i, 0)->shape);
  return w && f >= 0 && f < (i64)w->n && w->v[f].size > 1 && w->v[f].stride >= w->v[f].size;
}

static bool converts_from_f8(const hlo_instr *i) {
  return prof_type_of(first_array(hlo_operand(i, 0)->shape)->dtype) == PROF_F8 &&
         prof_type_of(first_array(i->shape)->dtype) != PROF_F8;
}

// Integer division by a constant: a multiplication and shifts.
static bool divides_by_constant(const hlo_instr *i) {
  if (i->opcode != HLO_DIVIDE && i->opcode != HLO_REMAINDER) return false;
  const hlo_instr *by = hlo_operand(i, 1);
  while (by->opcode == HLO_BROADCAST || by->opcode == HLO_RESHAPE) by = hlo_operand(by, 0);
  return by->opcode == HLO_CONSTANT && is_integer(prof_type_of(first_array(i->shape)->dtype));
}

// The type that an operation computes in: comparisons that of their operand, conversions the
// slower of the two.
static prof_type computes_in(const hlo_instr *i) {
  prof_type out = prof_type_of(first_array(i->shape)->dtype);
  if ((i->opcode != HLO_COMPARE && i->opcode != HLO_CONVERT) || !i->noperands) return out;
  prof_type in = prof_type_of(first_array(hlo_operand(i, 0)->shape)->dtype);
  if (i->opcode == HLO_COMPARE) return in;
  if (is_integer(out) != is_integer(in)) return out;
  // 16-bit floats are widened by a shift, and narrowed with rounding
  if (in == PROF_F16 && out != PROF_F8) return out;
  return out == PROF_F8 || out == PROF_F16 ? out : in;
}

static bool converts_integers(const hlo_instr *i) {
  return is_integer(prof_type_of(first_array(hlo_operand(i, 0)->shape)->dtype));
}

static void count_strided(prof_work *w, const hlo_instr *i, double times) {
  double n = strided_of(i) * times;
  if (!(n > 0)) return;
  const hlo_shape *out = i->opcode == HLO_TRANSPOSE ? first_array(i->shape) : order_of(i);
  hlo_ints turn = {0};
  if (i->opcode == HLO_TRANSPOSE) turn = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 dim = fastest_dim(out);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *in = first_array(hlo_operand(i, k)->shape);
    i64 own = fastest_dim(in), there = own;
    if (!hlo_shape_is_array(in) || in->rank != out->rank || own < 0) continue;
    for (u32 d = 0; d < turn.n; d++)
      if (turn.v[d] == own) there = d;
    if (there == dim) continue;
    w->pitch = HS_MAX(w->pitch, pitch_of(in, turn.n ? turn.v[dim] : dim));
    w->store_pitch = HS_MAX(w->store_pitch, pitch_of(out, there));
    w->crossed = HS_MAX(w->crossed, (double)out->dims[dim]);
  }
  w->strided += n;
}

// Shorter ones do not run in lanes.
enum { SHORT_ROW = 8 };

// Adds what the evaluation of so many elements of `i` takes as part of a loop.
static void count_in_loop(prof_work *w, const hlo_instr *i, double elements) {
  double own = HS_MAX(elements_of(i->shape), 1);
  double in = i->noperands ? elements_of(hlo_operand(i, 0)->shape) * elements / own : 0;
  prof_type t = computes_in(i);
  switch (hlo_ops[i->opcode].cost) {
  case HLO_COST_FREE: return;
  case HLO_COST_REDUCE:
    w->single |= own <= 1;
    if (reduces_row(i) && reduces_against(i))
      w->against_pitch = pitch_of(first_array(hlo_operand(i, 0)->shape), last_reduced(i));
    *(!reduces_row(i)      ? &w->reduced_column
      : reduces_against(i) ? &w->against
      : own <= 1           ? &w->whole
                           : &w->reduced_row) += in;
    if (reduces_row(i) && own > 1) {
      bool too_short = fastest(hlo_operand(i, 0)->shape) < SHORT_ROW;
      w->rows += elements;
      if (too_short && !reduces_against(i)) w->short_rows += elements, w->short_row += in;
      if (finds_extremes(hlo_attr_comp(i, HLO_ATTR_TO_APPLY))) w->extremes += in;
    }
    if (!is_one_operation(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)))
      w->combined += in * count_applied(w, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), in, 0);
    return;
  case HLO_COST_MAP: count_applied(w, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), elements, 0); return;
  case HLO_COST_RWIN: {
    double in_windows = elements * window_size(i);
    if (!cuts_rows(i)) w->windowed += in_windows;
    else {
      w->reduced_row += in_windows, w->rows += elements;
      if (finds_extremes(hlo_attr_comp(i, HLO_ATTR_TO_APPLY))) w->extremes += in_windows;
    }
    if (!is_one_operation(hlo_attr_comp(i, HLO_ATTR_TO_APPLY))) {
      u32 n = count_applied(w, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), in_windows, 0);
      w->combined += in_windows * n;
    }
    return;
  }
  case HLO_COST_GATHER: w->indexed += elements; return;
  case HLO_COST_DUS:
  case HLO_COST_DSLICE: return;  // moved as bytes
  case HLO_COST_DOT:
  case HLO_COST_CONV: {
    double flops = hlo_cost_instr(i).flops * elements / own;
    count(w, HLO_MULTIPLY, t, flops / 2);
    w->reduced_row += flops / 2;
    return;
  }
  case HLO_COST_VIEW:
    count_strided(w, i, elements / own);
    if (i->opcode == HLO_IOTA) count(w, HLO_IOTA, t, elements);
    return;
  default: break;
  }
  count_strided(w, i, elements / own);
  if (i->opcode == HLO_CONVERT && converts_from_f8(i)) w->widened += elements;
  else if (divides_by_constant(i)) *(t == PROF_I64 ? &w->divided_long : &w->divided) += elements;
  else if (i->opcode == HLO_CONVERT && is_integer(t) && converts_integers(i))
    count(w, HLO_BITCAST_CONVERT, t, elements);
  else count(w, i->opcode, t, elements);
}

// ---- fusions ------------------------------------------------------------------------------------
// The indices at which a value is asked for, and how many elements at each.
enum { MOST_ASKED = 12 };
typedef struct asked {
  u32 n;
  struct {
    u64 index;
    double elements;
  } v[MOST_ASKED];
} asked;

static void ask(asked *a, u64 index, double elements) {
  for (u32 k = 0; k < a->n; k++)
    if (a->v[k].index == index) {
      a->v[k].elements = HS_MAX(a->v[k].elements, elements);
      return;
    }
  if (a->n == MOST_ASKED) {
    a->v[MOST_ASKED - 1].elements += elements;
    return;
  }
  a->v[a->n].index = index;
  a->v[a->n++].elements = elements;
}

static double all_asked(const asked *a) {
  double n = 0;
  for (u32 k = 0; k < a->n; k++) n += a->v[k].elements;
  return n;
}

// Whether there is padding between elements along the fastest dimension.
static bool pads_inside(const hlo_instr *i) {
  const hlo_padding *p = hlo_attr_ptr(i, HLO_ATTR_PADDING);
  i64 f = fastest_dim(i->shape);
  return p && f >= 0 && f < (i64)p->n && p->v[f].interior > 0;
}

// The operand's elements per element of `i`, at an index other than its own; 0: at the same.
static double asks_elsewhere(const hlo_instr *i, u32 operand) {
  double out = HS_MAX(elements_of(i->shape), 1), in = elements_of(hlo_operand(i, operand)->shape);
  switch (hlo_ops[i->opcode].cost) {
  case HLO_COST_REDUCE:
  case HLO_COST_DOT:
  case HLO_COST_CONV: return in / out;
  case HLO_COST_RWIN: return operand ? 1 / out : window_size(i);
  default: break;
  }
  switch (i->opcode) {
  case HLO_SLICE:
  case HLO_DYNAMIC_SLICE:
  case HLO_GATHER:
  case HLO_TRANSPOSE:
  case HLO_REVERSE: return operand ? in / out : 1;
  case HLO_BROADCAST:
  case HLO_CONCATENATE: return HS_MIN(in / out, 1);
  case HLO_PAD:  // along the fastest dimension both sides of the choice are evaluated
    return operand || !pads_inside(i) ? HS_MIN(in / out, 1) : 1;
  case HLO_DYNAMIC_UPDATE_SLICE: return operand ? HS_MIN(in / out, 1) : 1;
  default: return 0;
  }
}

// What the results of a kernel and its reductions along rows need of one row is computed once and
// kept, when a row is not too long (backends/emit/nest/rows.c).
static bool keeps_row(const hlo_instr *i) {
  enum { ROW_BYTES = 256 << 10 };
  const hlo_shape *in = first_array(hlo_operand(i, 0)->shape),
                  *root = first_array(i->parent->root->shape);
  return i->opcode == HLO_REDUCE && reduces_row(i) && in->elements == root->elements &&
         fastest(in) * (double)hlo_dtype_storage(in->dtype) <= ROW_BYTES;
}

enum { ROOT_INDEX = 1 };

// Reductions of one form share a pass over what they reduce.
static u64 index_behind(const hlo_instr *i, u64 index) {
  if (keeps_row(i)) return ROOT_INDEX;
  u64 own = i->opcode == HLO_REDUCE
                ? hs_mix(i->shape->logical->hash, hlo_operand(i, 0)->shape->logical->hash)
                : i->id + 1;
  return hs_mix(index, own);
}

// Slices with steps and pads between elements, along the fastest dimension: their loads are not in
// sequence.
static bool leaves_gaps(const hlo_instr *i) {
  i64 f = i->opcode == HLO_SLICE ? fastest_dim(hlo_operand(i, 0)->shape) : -1;
  if (i->opcode == HLO_PAD) return pads_inside(i);
  const hlo_slices *s = f >= 0 ? hlo_attr_ptr(i, HLO_ATTR_SLICE) : NULL;
  return s && f < (i64)s->n && s->v[f].stride > 1;
}

// Whether the loop over the results is one flat run over memory.
static bool is_flat(const hlo_computation *f) {
  hlo_for_each_instr(i, f) {
    bool same = hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || hlo_op_has(i->opcode, HLO_F_FREE) ||
                i->opcode == HLO_RESHAPE || i->opcode == HLO_COPY ||
                (i->opcode == HLO_BROADCAST && elements_of(hlo_operand(i, 0)->shape) <= 1);
    if (!same) return false;
  }
  return true;
}

static void count_fusion(prof_work *w, const hlo_computation *f) {
  hs_arena a = {0};
  hlo_instr **order = hlo_post_order(f, &a);
  hlo_positions at = hlo_positions_in(f->ninstrs, order, &a);
  asked *of = HS_NEW_ARRAY(&a, asked, f->ninstrs + 1);
  double root = 0;
  for (u32 l = 0; l < hlo_shape_leaves(f->root->shape); l++)
    root = HS_MAX(root, (double)hlo_shape_leaf(f->root->shape, l)->elements);
  ask(&of[hlo_position_of(&at, f->root)], ROOT_INDEX, HS_MAX(elements_of(f->root->shape), 1));
  for (u32 k = f->ninstrs; k-- > 0;) {
    const hlo_instr *i = order[k];
    double n = all_asked(&of[k]);
    w->points = HS_MAX(w->points, n);
    count_in_loop(w, i, n);
    if (leaves_gaps(i)) w->gapped += n;
    for (u32 o = 0; o < i->noperands; o++) {
      asked *to = &of[hlo_position_of(&at, hlo_operand(i, o))];
      double ratio = asks_elsewhere(i, o);
      for (u32 c = 0; c < of[k].n; c++) {
        if (i->opcode == HLO_TUPLE) ask(to, ROOT_INDEX, elements_of(hlo_operand(i, o)->shape));
        else if (ratio > 0) ask(to, index_behind(i, of[k].v[c].index), of[k].v[c].elements * ratio);
        else ask(to, of[k].v[c].index, of[k].v[c].elements);
      }
    }
    double reads = i->opcode == HLO_REDUCE ? elements_of(hlo_operand(i, 0)->shape) : 0;
    w->points = HS_MAX(w->points, reads);
  }
  bool flat = is_flat(f);
  w->row = flat ? root : fastest(f->root->shape);
  hlo_for_each_instr(i, f)
    if (i->opcode == HLO_REDUCE && reduces_row(i)) {
      const hlo_shape *in = hlo_operand(i, 0)->shape;
      w->row = fastest(in);
      if (w->row < SHORT_ROW) w->narrow = HS_MAX(w->narrow, elements_of(in));
    }
  if (!flat && w->row < SHORT_ROW) w->narrow = HS_MAX(w->narrow, w->points);
  hs_arena_free(&a);
}

// ---- kernels of their own -----------------------------------------------------------------------
static double all_bytes_per_element(const hlo_instr *i) {
  double b = 0;
  for (u32 k = 0; k < i->noperands; k++)
    b += (double)hlo_dtype_storage(first_array(hlo_operand(i, k)->shape)->dtype);
  return b;
}

static u32 count_operations(const hlo_computation *c, int depth) {
  u32 n = 0;
  hlo_for_each_instr(i, c) {
    if (hlo_op_has(i->opcode, HLO_F_FREE)) continue;
    bool calls = (i->opcode == HLO_CALL || i->opcode == HLO_FUSION) && depth < 8;
    n += calls ? count_operations(hlo_fusion_comp(i), depth + 1) : 1;
  }
  return n;
}

static void count_sort(prof_work *w, const hlo_instr *i) {
  const hlo_shape *s = first_array(hlo_operand(i, 0)->shape);
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  w->special = PROF_SORT;
  w->items = (double)s->elements;
  w->item_bytes = all_bytes_per_element(i);
  w->arrays = i->noperands;
  i64 at = d.n ? d.v[0] : (i64)s->rank - 1;
  w->line = at >= 0 && at < (i64)s->rank ? (double)s->dims[at] : w->items;
  w->digits = ceil(HS_MAX(hlo_dtype_bits(s->dtype), 8) / 11.0);
  // a comparator that looks at one array's elements only compares keys
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  u32 arrays = 0;
  for (u32 k = 0; c && k + 1 < c->nparams; k += 2)
    arrays += c->params[k]->first_use || c->params[k + 1]->first_use;
  w->comparator = arrays > 1;
  w->compares = c ? count_operations(c, 0) : 1;
}

static void count_indexed(prof_work *w, const hlo_instr *i, const hlo_shape *moved) {
  const hlo_shape *indices = first_array(hlo_operand(i, 1)->shape);
  u32 n = i->opcode == HLO_SCATTER ? i->noperands / 2 : 1;
  if (i->opcode == HLO_SCATTER) indices = first_array(hlo_operand(i, n)->shape);
  i64 dim = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, indices->rank);
  double items = (double)indices->elements;
  if (dim >= 0 && dim < (i64)indices->rank && indices->dims[dim] > 0)
    items /= (double)indices->dims[dim];
  w->special = i->opcode == HLO_SCATTER ? PROF_SCATTER : PROF_GATHER;
  w->items = HS_MAX(items, 1);
  w->item_bytes = (double)hlo_shape_bytes(moved) / w->items;
  w->slice = (double)moved->elements / w->items;
  w->table = (double)hlo_shape_bytes(first_array(hlo_operand(i, 0)->shape));
}

static void count_solve(prof_work *w, const hlo_instr *i) {
  const hlo_shape *s = first_array(hlo_operand(i, 0)->shape);
  w->special = PROF_SOLVE;
  w->line = s->rank ? (double)s->dims[s->rank - 1] : 1;
  w->items = HS_MAX((double)s->elements / HS_MAX(w->line * w->line, 1), 1);
  w->factors =
      i->opcode == HLO_CHOLESKY ||
      (i->opcode == HLO_CUSTOM_CALL &&
       hlo_custom_find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET)) == HLO_CUSTOM_LAPACK_POTRF);
}

// The only product of a fusion's body: an accelerator does what is fused around it while its
// numbers come and go.
static void count_product_within(prof_work *w, const hlo_computation *c) {
  const hlo_instr *one = NULL;
  hlo_for_each_instr(i, c) {
    if (i->opcode != HLO_DOT && i->opcode != HLO_CONVOLUTION) continue;
    w->fused_product = !one;
    if (one) return;
    one = i;
  }
  if (one && one->opcode == HLO_DOT) w->product = dot_form(one);
  else if (one) w->product = prof_conv_form(one, hlo_cost_instr(one).flops);
}

// What has a kernel of its own, whose work is not a loop over its result; false: it is one.
static bool count_special(prof_work *w, const hlo_instr *i, const hlo_cost *c) {
  switch (hlo_ops[i->opcode].cost) {
  case HLO_COST_DOT:
    w->special = PROF_PRODUCT;
    w->product = dot_form(i);
    break;
  case HLO_COST_CONV:
    w->special = PROF_PRODUCT;
    w->product = prof_conv_form(i, c->flops);
    break;
  case HLO_COST_SORT:
    if (i->opcode == HLO_SORT) count_sort(w, i);
    else w->special = PROF_TOPK, w->items = elements_of(hlo_operand(i, 0)->shape);
    break;
  case HLO_COST_GATHER: count_indexed(w, i, first_array(i->shape)); break;
  case HLO_COST_SCATTER:
    count_indexed(w, i, first_array(hlo_operand(i, i->noperands - 1)->shape));
    count_applied(w, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), w->items, 0);
    break;
  case HLO_COST_FFT: {
    hlo_ints len = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
    w->special = PROF_FFT;
    w->line = 1;
    for (u32 k = 0; k < len.n; k++) w->line *= (double)len.v[k];
    w->items = elements_of(hlo_operand(i, 0)->shape);
    break;
  }
  case HLO_COST_LINALG: count_solve(w, i); break;
  case HLO_COST_SAS:
    w->special = PROF_WINDOW;
    w->items = elements_of(hlo_operand(i, 1)->shape) * window_size(i);
    break;
  case HLO_COST_RNG:
    w->special = PROF_RANDOM;
    w->items = elements_of(i->shape);
    break;
  case HLO_COST_COLL: w->special = PROF_COLLECTIVE; break;
  case HLO_COST_CUSTOM: {
    hlo_cost known = {0};
    if (i->noperands &&
        hlo_custom_find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET)) == HLO_CUSTOM_TOPK) {
      w->special = PROF_TOPK, w->items = elements_of(hlo_operand(i, 0)->shape);
      break;
    }
    w->special = hlo_custom_cost(i, &known) ? PROF_STREAM : PROF_UNKNOWN;
    if (known.flops > 0 && w->special == PROF_STREAM) count_solve(w, i);
    break;
  }
  default: return false;
  }
  return true;
}

// A loop over the result, alone or as the reduction that it is.
static void count_loop(prof_work *w, const hlo_instr *i) {
  w->copied = i->opcode == HLO_CONCATENATE;
  if (i->opcode == HLO_SLICE && leaves_gaps(i)) {  // what lies in the gaps comes along
    enum { LINE_BYTES = 64 };
    const hlo_slices *s = hlo_attr_ptr(i, HLO_ATTR_SLICE);
    double step = (double)s->v[fastest_dim(hlo_operand(i, 0)->shape)].stride;
    w->gapped += w->points;
    w->read *= HS_MIN(step, LINE_BYTES / (double)hlo_dtype_storage(i->shape->dtype));
  }
  if (hlo_ops[i->opcode].cost == HLO_COST_RWIN) count_windows(w, i);
  else count_in_loop(w, i, w->points);
  bool flat = hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->opcode == HLO_COPY ||
              (i->opcode == HLO_BROADCAST && elements_of(hlo_operand(i, 0)->shape) <= 1);
  if (flat) w->row = w->points;
  else if (w->row < SHORT_ROW) w->narrow = w->points;
  if (i->opcode == HLO_REDUCE) {
    w->points = elements_of(hlo_operand(i, 0)->shape);
    w->row = reduces_row(i) ? fastest(hlo_operand(i, 0)->shape) : w->row;
    w->narrow = w->row < SHORT_ROW ? w->points : 0;
  }
  if (i->opcode == HLO_COPY && w->strided == 0 &&
      first_array(i->shape) == first_array(hlo_operand(i, 0)->shape))
    w->free = true;
}

void prof_count_work(const hlo_instr *i, const hlo_cost *c, prof_work *w) {
  memset(w, 0, offsetof(prof_work, counts));
  w->read = c->bytes_read;
  w->written = c->bytes_written;
  w->flops = c->flops;
  w->transcendentals = c->transcendentals;
  w->points = elements_of(i->shape);
  w->row = fastest(i->shape);
  w->free = hlo_moves_nothing(i);
  if (w->free || count_special(w, i, c)) return;
  if (i->opcode == HLO_FUSION) {
    count_fusion(w, hlo_fusion_comp(i));
    count_product_within(w, hlo_fusion_comp(i));
  } else {
    count_loop(w, i);
  }
}
