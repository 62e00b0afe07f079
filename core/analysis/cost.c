// cost.c — what an instruction costs, by the rules of XLA's HloCostAnalysis
// (xla/service/hlo_cost_analysis.cc).
//
// Cost classes (costs.def) count flops or transcendentals per element, or have a rule here. Counts
// are exact doubles; XLA keeps its sums in float32, and so does its reading here. Two readings of
// the same rules: ours multiplies a loop by its trip count and lists what it cannot know; XLA's
// counts a loop once and adds -1 for every custom-call, so that its figures can be reproduced
// (hlo_cost_xla). Costs of called computations are kept per computation, so that a shared callee is
// looked at once.
#include "core/analysis/customcall.h"

#include <math.h>

#define POINTER_BYTES 8

typedef struct costing {
  bool xla;        // XLA's reading
  hlo_cost *comp;  // per computation id
  u8 *state;       // by computation id
  u32 ncomps, unknown, unknown_loops;
  hs_arena *arena;
  double *nested;   // by instruction id: see nested_read; NULL until it is needed
  hlo_cost *by_id;  // of each instruction of a known computation; NULL: not kept
} costing;

// A computation's cost is not known, its callees are being looked at, it is being computed, known.
enum { UNKNOWN, OPENED, BEGUN, KNOWN };

static hlo_cost cost_of(costing *, const hlo_instr *);

static hlo_cost plus(hlo_cost a, hlo_cost b, double times) {
  a.flops += b.flops * times;
  a.transcendentals += b.transcendentals * times;
  a.bytes_read += b.bytes_read * times;
  a.bytes_written += b.bytes_written * times;
  return a;
}

// XLA's sums: float32, in post order, bytes in one figure.
static hlo_cost plus_f32(hlo_cost a, hlo_cost b) {
  a.flops = (float)a.flops + (float)b.flops;
  a.transcendentals = (float)a.transcendentals + (float)b.transcendentals;
  a.bytes_read = (float)a.bytes_read + (float)(b.bytes_read + b.bytes_written);
  return a;
}

static hlo_cost comp_cost(costing *k, const hlo_computation *c) {
  if (!c || c->id >= k->ncomps || k->state[c->id] == BEGUN) return (hlo_cost){0};
  if (k->state[c->id] == KNOWN) return k->comp[c->id];
  k->state[c->id] = BEGUN;
  hlo_cost sum = {0};
  hs_arena a = {0};
  hlo_instr **order = k->xla ? hlo_post_order(c, &a) : NULL;
  if (k->xla)
    for (u32 t = 0; t < c->ninstrs; t++) sum = plus_f32(sum, cost_of(k, order[t]));
  else
    hlo_for_each_instr(i, c) {
      hlo_cost one = cost_of(k, i);
      if (k->by_id) k->by_id[i->id] = one;
      sum = plus(sum, one, 1);
    }
  hs_arena_free(&a);
  k->state[c->id] = KNOWN;
  return k->comp[c->id] = sum;
}

// Bytes that XLA counts for one shape: a tuple is its table of pointers; dynamic arrays carry their
// sizes.
static double shape_bytes(const hlo_shape *s) {
  if (hlo_shape_is_tuple(s)) return s->laid_out ? (double)s->nelems * POINTER_BYTES : 0;
  if (!hlo_shape_is_array(s) || !s->laid_out) return 0;
  double extra = s->dynamic && hlo_shape_is_dynamic(s) ? 4.0 * s->rank : 0;
  return hlo_shape_is_unbounded(s) ? extra : (double)hlo_shape_bytes(s) + extra;
}

static double leaf_bytes(const hlo_shape *s) {
  if (!hlo_shape_is_tuple(s)) return shape_bytes(s);
  double sum = 0;
  for (u32 k = 0; k < s->nelems; k++) sum += leaf_bytes(s->elems[k]);
  return sum;
}

static double leaf_elements(const hlo_shape *s) {
  double sum = 0;
  for (u32 k = 0, n = hlo_shape_leaves(s); k < n; k++)
    sum += (double)hlo_shape_leaf(s, k)->elements;
  return sum;
}

static double elements(const hlo_shape *s) {
  while (hlo_shape_is_tuple(s) && s->nelems) s = s->elems[0];
  if (hlo_shape_is_unbounded(s)) return 0;
  return (double)s->elements;
}

// Operands that are tuples count as their tables; results as their leaves.
static hlo_cost moved(const hlo_instr *i) {
  hlo_cost c = {.bytes_written = leaf_bytes(i->shape)};
  for (u32 k = 0; k < i->noperands; k++) c.bytes_read += shape_bytes(hlo_operand(i, k)->shape);
  return c;
}

// flops and transcendentals of an applied computation, times how often it is applied; its bytes
// stay in registers.
static hlo_cost applied(costing *k, hlo_cost c, const hlo_computation *f, double times) {
  hlo_cost one = comp_cost(k, f);
  c.flops += one.flops * times;
  c.transcendentals += one.transcendentals * times;
  return c;
}

static double dot_flops(const costing *k, const hlo_instr *i) {
  const hlo_shape *l = hlo_operand(i, 0)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS),
           ragged = hlo_attr_ints(i, HLO_ATTR_LHS_RAGGED_DIMS);
  double depth = 1;
  for (u32 d = 0; d < dims.n; d++)
    if (dims.v[d] >= 0 && dims.v[d] < l->rank && l->dims[dims.v[d]] != HLO_UNBOUNDED)
      depth *= (double)l->dims[dims.v[d]];
  double out = elements(i->shape);
  // Groups over the contracting dimension split its length among them; groups over rows leave each
  // row with one. XLA divides the second case by the result's first dimension and does not see the
  // first.
  if (i->opcode == HLO_RAGGED_DOT && ragged.n) {
    bool contracting = false, batch = false;
    hlo_ints b = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS);
    for (u32 d = 0; d < dims.n; d++) contracting |= dims.v[d] == ragged.v[0];
    for (u32 d = 0; d < b.n; d++) batch |= b.v[d] == ragged.v[0];
    double by = 1;
    if (k->xla && !contracting && !batch && i->shape->rank) by = (double)i->shape->dims[0];
    if (!k->xla && contracting) by = elements(hlo_operand(i, 2)->shape);
    out /= HS_MAX(1.0, by);
  }
  return 2 * out * depth;
}

// The least x >= 0 with s * x = r modulo m, and *period to the next one; -1 when there is none.
// Extended Euclid.
static i128 solve_congruence(i128 s, i128 r, i128 m, i128 *period) {
  i128 a = s % m, b = m, x = 1, y = 0;  // a = s * x, b = s * y modulo m
  while (b) {
    i128 q = a / b, t = a - q * b;
    a = b, b = t;
    t = x - q * y, x = y, y = t;
  }
  *period = m / a;
  r %= m;
  if (r < 0) r += m;
  if (r % a) return -1;
  x %= *period;
  if (x < 0) x += *period;
  return x * (r / a % *period) % *period;
}

// Positions of a window over one dimension that read real data, neither padding nor a dilation
// hole: the number of (output, window element) pairs, by window element in closed form. Sizes may
// be anything that fits 63 bits. Windows longer than 2^22 count as that long.
static double valid_positions(const hlo_window_dim *w, i64 in, i64 out) {
  if (in <= 0 || out <= 0) return 0;
  if (w->lhs_dilate == 1 && w->rhs_dilate == 1 && w->pad_low == 0 && w->pad_high == 0 &&
      w->stride == 1)
    return (double)out * (double)w->size;
  i128 base = HS_MAX(w->lhs_dilate, (i64)1), limit = (in - 1) * base, s = HS_MAX(w->stride, (i64)1);
  double n = 0;
  i64 steps = HS_MIN(w->size, (i64)1 << 22);
  for (i64 f = 0; f < steps; f++) {
    // index(o) = o * stride - pad_low + f * rhs_dilate must lie in [0, limit] and be a multiple of
    // base
    i128 at = (i128)f * w->rhs_dilate - w->pad_low, period;
    i128 lo = at >= 0 ? 0 : (-at + s - 1) / s, hi = at > limit ? -1 : (limit - at) / s;
    hi = HS_MIN(hi, (i128)out - 1);
    if (hi < lo) continue;
    i128 first = solve_congruence(s, -at, base, &period);
    if (first < 0) continue;
    if (first < lo) first += (lo - first + period - 1) / period * period;
    if (first <= hi) n += (double)((hi - first) / period + 1);
  }
  return n;
}

static double conv_flops(const hlo_instr *i) {
  const hlo_dim_labels *d = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *l = hlo_operand(i, 0)->shape, *r = hlo_operand(i, 1)->shape, *o = i->shape;
  if (hlo_shape_is_tuple(o)) o = o->elems[0];
  if (!d || l->rank < 2 || r->rank < 2 || o->rank < 2) return 0;
  double n = 1;
  for (u32 k = 0; k < d->nspatial; k++) {
    static const hlo_window_dim unit = {1, 1, 0, 0, 1, 1, false};
    const hlo_window_dim *x = w && k < w->n ? &w->v[k] : &unit;
    n *= valid_positions(x, l->dims[d->lhs_spatial[k]], o->dims[d->out_spatial[k]]);
  }
  i64 groups = hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1),
      batches = hlo_attr_int(i, HLO_ATTR_BATCH_GROUP_COUNT, 1);
  double in = (double)(l->dims[d->lhs_feature] / HS_MAX(groups, 1)),
         batch = (double)(l->dims[d->lhs_batch] / HS_MAX(batches, 1));
  return 2 * in * (double)o->dims[d->out_feature] * batch * n;
}

// The body runs once per step; XLA multiplies it by the elements of operand 1 instead.
static double scan_steps(const costing *k, const hlo_instr *i) {
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  const hlo_shape *x = i->noperands ? hlo_operand(i, 0)->shape : i->shape;
  if (k->xla) return elements(i->noperands > 1 ? hlo_operand(i, 1)->shape : x);
  return d.n && d.v[0] >= 0 && d.v[0] < x->rank ? (double)x->dims[d.v[0]] : 1;
}

static double window_elements(const hlo_instr *i) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  double n = 1;
  for (u32 k = 0; w && k < w->n; k++) n *= (double)w->v[k].size;
  return n;
}

// How often the reducer runs. A window of 2n-1 over a dimension of n, padded by n-1 on both sides,
// is a reduction whose result is broadcast back; XLA counts it as that.
static double window_applications(const hlo_instr *i, double out) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  u32 wide = 0, at = 0;
  for (u32 d = 0; w && d < w->n; d++)
    if (w->v[d].size != 1) wide++, at = d;
  if (wide == 1 && at < s->rank && hlo_shape_is_array(i->shape)) {
    const hlo_window_dim *x = &w->v[at];
    i64 n = s->dims[at];
    if (n > 0 && x->size - (n - 1) == n && x->pad_low == n - 1 && x->pad_high == n - 1 &&
        x->stride == 1)
      return out / (double)n + (double)(n - 1);
  }
  return out * (window_elements(i) - 1);
}

static double log2_ceiling(double n) {
  double r = 0;
  for (double p = 1; p < n; p *= 2) r++;
  return r;
}

static double fft_flops(const hlo_instr *i) {
  hlo_ints len = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
  double logs = 1;
  for (u32 k = 0; k < len.n; k++) logs *= floor(log2((double)HS_MAX(len.v[k], 1)));
  return 2 * 4 * logs * elements(hlo_operand(i, 0)->shape);
}

static double parameter_read(costing *k, const hlo_instr *p, int depth);

// parameter_read of a nested fusion's parameter, computed once: fusions that share callees have
// exponentially many paths.
static double nested_read(costing *k, const hlo_instr *p, int depth) {
  if (!k->nested) k->nested = HS_NEW_ARRAY(k->arena, double, p->parent->module->next_instr_id + 1);
  double *known = &k->nested[p->id];
  if (*known == 0) *known = 1 + parameter_read(k, p, depth);
  return *known - 1;
}

// What a fusion (or a nested one) reads of one of its parameters: slices read only themselves, an
// in-place update reads nothing of its target, all other users share one read.
static double parameter_read(costing *k, const hlo_instr *p, int depth) {
  double sum = 0;
  bool shared = false;
  hlo_for_each_use(u, p) {
    const hlo_instr *x = u->user;
    if (x->opcode == HLO_GET_TUPLE_ELEMENT && depth < 32) {
      sum += parameter_read(k, x, depth + 1);
    } else if (x->opcode == HLO_FUSION && k->xla && hlo_is_root(x)) {
      continue;
    } else if (x->opcode == HLO_FUSION && depth < 32) {
      const hlo_computation *c = hlo_fusion_comp(x);
      if (c && hlo_slot(u) < c->nparams) sum += nested_read(k, c->params[hlo_slot(u)], depth + 1);
    } else if (x->opcode == HLO_SLICE || (x->opcode == HLO_DYNAMIC_SLICE && hlo_slot(u) == 0)) {
      sum += shape_bytes(x->shape);
    } else if (x->opcode == HLO_DYNAMIC_UPDATE_SLICE && hlo_slot(u) == 0) {
      continue;
    } else if (x->opcode == HLO_BROADCAST || x->opcode == HLO_RESHAPE) {
      sum += shape_bytes(p->shape);
    } else if (!shared) {
      shared = true;
      sum += shape_bytes(p->shape);
    }
  }
  return sum;
}

static double written_by(const hlo_instr *root, const hlo_shape *s) {
  if (root->opcode == HLO_DYNAMIC_UPDATE_SLICE) return shape_bytes(hlo_operand(root, 1)->shape);
  if (root->opcode != HLO_TUPLE || s->nelems != root->noperands) return leaf_bytes(s);
  double sum = 0;
  for (u32 k = 0; k < root->noperands; k++) sum += written_by(hlo_operand(root, k), s->elems[k]);
  return sum;
}

static hlo_cost fusion_cost(costing *k, const hlo_instr *i) {
  const hlo_computation *f = hlo_fusion_comp(i);
  hlo_cost c = comp_cost(k, f);
  c.bytes_read = 0;
  c.bytes_written = f ? written_by(f->root, i->shape) : leaf_bytes(i->shape);
  if (!f) return c;
  for (u32 p = 0; p < f->nparams; p++) c.bytes_read += parameter_read(k, f->params[p], 0);
  hlo_for_each_instr(x, f)
    if (x->opcode == HLO_CONSTANT && x->shape->elements > 1) c.bytes_read += shape_bytes(x->shape);
  return c;
}

static hlo_cost branches_cost(costing *k, const hlo_instr *i) {
  hlo_cost c = {0};
  for (u32 b = 0; b < hlo_ncalled(i); b++) {
    hlo_cost one = comp_cost(k, hlo_called(i, b));
    if (b == 0) {
      c = one;
      continue;
    }
    c.flops = fmax(c.flops, one.flops);
    c.transcendentals = fmax(c.transcendentals, one.transcendentals);
    if (one.bytes_read + one.bytes_written > c.bytes_read + c.bytes_written)
      c.bytes_read = one.bytes_read, c.bytes_written = one.bytes_written;
  }
  return c;
}

static hlo_cost while_cost(costing *k, const hlo_instr *i) {
  hlo_cost body = comp_cost(k, hlo_attr_comp(i, HLO_ATTR_BODY)),
           cond = comp_cost(k, hlo_attr_comp(i, HLO_ATTR_CONDITION));
  double trips = 1, tests = 1;
  if (!k->xla) {
    double n = hlo_expected_trips(i);
    if (n < 0) k->unknown++, k->unknown_loops++;
    else trips = n, tests = n + 1;
  }
  return plus(plus((hlo_cost){0}, body, trips), cond, tests);
}

static hlo_cost linalg_cost(const hlo_instr *i) {
  hlo_cost c = moved(i);
  const hlo_shape *a = hlo_operand(i, 0)->shape;
  double n = a->rank ? (double)a->dims[a->rank - 1] : 1;
  c.bytes_read -= shape_bytes(a) / 2;  // a triangle only
  if (i->opcode == HLO_CHOLESKY) {
    c.bytes_written /= 2;
    c.flops = n * elements(a) / 3;
  } else {
    c.flops = 2 * n * elements(hlo_operand(i, 1)->shape);
  }
  return c;
}

static hlo_cost custom_cost(costing *k, const hlo_instr *i) {
  if (k->xla) return (hlo_cost){-1, 0, -1, 0};
  hlo_cost c;
  if (hlo_custom_cost(i, &c)) return c;
  k->unknown++;
  c = (hlo_cost){.bytes_written = leaf_bytes(i->shape)};
  for (u32 o = 0; o < i->noperands; o++) c.bytes_read += leaf_bytes(hlo_operand(i, o)->shape);
  return c;
}

// The elements stay where they are: only the names of the dimensions change.
static bool transpose_is_bitcast(const hlo_instr *i) {
  const hlo_shape *in = hlo_operand(i, 0)->shape, *out = i->shape;
  hlo_ints perm = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  if (!in->layout || !out->layout || perm.n != out->rank) return false;
  i64 a[HLO_MAX_RANK], b[HLO_MAX_RANK];
  u32 na = 0, nb = 0;
  for (u32 k = 0; k < in->rank; k++)
    if (in->dims[in->layout->minor_to_major[k]] != 1) a[na++] = in->layout->minor_to_major[k];
  for (u32 k = 0; k < out->rank; k++)
    if (out->dims[out->layout->minor_to_major[k]] != 1)
      b[nb++] = perm.v[out->layout->minor_to_major[k]];
  return na == nb && memcmp(a, b, na * sizeof *a) == 0;
}

static double operand_bytes(const hlo_instr *i, u32 k) {
  return k < i->noperands ? shape_bytes(hlo_operand(i, k)->shape) : 0;
}

static hlo_cost sized_cost(costing *k, const hlo_instr *i, hlo_cost c) {
  double out = shape_bytes(i->shape);
  switch (hlo_ops[i->opcode].cost) {
  case HLO_COST_GATHER: return (hlo_cost){0, 0, out + operand_bytes(i, 1), out};
  case HLO_COST_DSLICE: return (hlo_cost){0, 0, out + operand_bytes(i, 1), out};
  case HLO_COST_DUS: {
    double update = operand_bytes(i, 1);
    return (hlo_cost){0, 0, update + operand_bytes(i, 2), update};
  }
  case HLO_COST_SCATTER: {
    u32 n = i->noperands / 2;
    double updates = 0;
    for (u32 u = 0; u < n; u++) updates += operand_bytes(i, n + 1 + u);
    c = (hlo_cost){0, 0, 2 * updates + operand_bytes(i, n), updates};
    return applied(k, c, hlo_attr_comp(i, HLO_ATTR_TO_APPLY),
                   n < i->noperands ? elements(hlo_operand(i, n + 1)->shape) : 0);
  }
  default: return c;
  }
}

// Classes without a rule of their own: the bytes, and what the class counts per element.
static hlo_cost plain_cost(const hlo_instr *i) {
  hlo_cost c = moved(i);
  if (i->opcode == HLO_SLICE) c.bytes_read = c.bytes_written;
  if (i->opcode == HLO_OUTFEED) c.bytes_read = leaf_bytes(hlo_operand(i, 0)->shape);
  if (i->opcode == HLO_TRANSPOSE && transpose_is_bitcast(i)) return (hlo_cost){0};
  hlo_cost_counts counts = hlo_op_cost(i->opcode)->counts;
  if (counts == HLO_COUNTS_FLOPS) c.flops = elements(i->shape);
  if (counts == HLO_COUNTS_TRANS) c.transcendentals = elements(i->shape);
  return c;
}

static hlo_cost cost_of(costing *k, const hlo_instr *i) {
  if (hlo_op_cost(i->opcode)->counts != HLO_COUNTS_RULE) return plain_cost(i);
  hlo_cost c = moved(i);
  double out = elements(i->shape);
  switch (hlo_ops[i->opcode].cost) {
  case HLO_COST_FREE:
    if (i->opcode == HLO_TUPLE) return (hlo_cost){.bytes_written = shape_bytes(i->shape)};
    // XLA counts these as if they moved their operands; they cost nothing when run.
    if (k->xla && (i->opcode == HLO_OPT_BARRIER || i->opcode == HLO_SET_DIMENSION_SIZE ||
                   i->opcode == HLO_PARTITION_ID || i->opcode == HLO_REPLICA_ID))
      return c;
    if (k->xla && hlo_op_has(i->opcode, HLO_F_ASYNC)) return c;
    return (hlo_cost){0};
  case HLO_COST_DOT: c.flops = dot_flops(k, i); return c;
  case HLO_COST_CONV: c.flops = conv_flops(i); return c;
  case HLO_COST_REDUCE: {
    // By XLA's rule an empty array costs less than nothing.
    double applications = elements(hlo_operand(i, 0)->shape) - out;
    if (!k->xla) applications = HS_MAX(applications, 0);
    return applied(k, c, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), applications);
  }
  case HLO_COST_RWIN:
    return applied(k, c, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), window_applications(i, out));
  case HLO_COST_SAS: {
    double source = elements(hlo_operand(i, 1)->shape);
    c = applied(k, c, hlo_attr_comp(i, HLO_ATTR_SELECT), source * (window_elements(i) - 1));
    return applied(k, c, hlo_attr_comp(i, HLO_ATTR_SCATTER), source);
  }
  case HLO_COST_GATHER:
  case HLO_COST_DSLICE:
  case HLO_COST_DUS:
  case HLO_COST_SCATTER: return sized_cost(k, i, c);
  case HLO_COST_SORT:
    if (i->opcode == HLO_SORT)
      c.flops =
          elements(hlo_operand(i, 0)->shape) * log2_ceiling(elements(hlo_operand(i, 0)->shape));
    return c;
  case HLO_COST_MAP: return applied(k, c, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), out);
  case HLO_COST_SCAN: return applied(k, c, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), scan_steps(k, i));
  case HLO_COST_CALL:
    if (i->opcode == HLO_FUSION) return fusion_cost(k, i);
    return comp_cost(k, i->opcode == HLO_CALL ? hlo_attr_comp(i, HLO_ATTR_TO_APPLY)
                                              : hlo_attr_comp(i, HLO_ATTR_CALLS));
  case HLO_COST_WHILE: return while_cost(k, i);
  case HLO_COST_COND: return branches_cost(k, i);
  case HLO_COST_FFT: c.flops = fft_flops(i); return c;
  case HLO_COST_LINALG: return linalg_cost(i);
  case HLO_COST_RNG: c.transcendentals = leaf_elements(i->shape); return c;
  case HLO_COST_COLL:
    if (i->opcode == HLO_ALL_REDUCE || i->opcode == HLO_ALL_REDUCE_START)
      c.flops = leaf_elements(i->shape);
    return c;
  case HLO_COST_CUSTOM: return custom_cost(k, i);
  default: return c;
  }
}

static costing costing_of(const hlo_module *m, bool xla, hs_arena *a) {
  costing k = {.xla = xla, .ncomps = m->next_comp_id, .arena = a};
  k.comp = HS_NEW_ARRAY(a, hlo_cost, k.ncomps + 1);
  k.state = HS_NEW_ARRAY(a, u8, k.ncomps + 1);
  return k;
}

static const hlo_computation *unknown_callee(const costing *k, const hlo_instr *i) {
  for (u32 n = 0; n < hlo_ncalled(i); n++)
    if (k->state[hlo_called(i, n)->id] == UNKNOWN) return hlo_called(i, n);
  return NULL;
}

// Costs what an instruction calls, callees first: comp_cost would recurse as deep as they nest.
static void cost_callees(costing *k, const hlo_instr *i) {
  typedef struct opened {
    const hlo_computation *c;
    const hlo_instr *at;  // what comes before calls nothing unknown
  } opened;
  HS_VEC(opened) stack = {0};
  for (const hlo_computation *c; (c = unknown_callee(k, i));) {
    hs_vec_push(&stack, ((opened){c, c->first}));
    k->state[c->id] = OPENED;
    while (stack.n) {
      opened *top = &stack.v[stack.n - 1];
      const hlo_computation *next = NULL;
      while (top->at && !(next = unknown_callee(k, top->at))) top->at = top->at->next;
      if (next) {
        k->state[next->id] = OPENED;
        hs_vec_push(&stack, ((opened){next, next->first}));
        continue;
      }
      (void)comp_cost(k, top->c);
      stack.n--;
    }
  }
  hs_vec_free(&stack);
}

hlo_cost hlo_cost_instr(const hlo_instr *i) {
  hs_arena a = {0};
  // Tables that are only touched where the instruction leads: most modules are larger than that.
  u32 n = hlo_op_has(i->opcode, HLO_F_CALLS) ? i->parent->module->next_comp_id : 0;
  costing k = {.ncomps = n, .arena = &a};
  k.comp = n ? hs_calloc(n, sizeof *k.comp) : NULL;
  k.state = n ? hs_calloc(n, sizeof *k.state) : NULL;
  if (n) cost_callees(&k, i);
  hlo_cost c = cost_of(&k, i);
  hs_free(k.comp);
  hs_free(k.state);
  hs_arena_free(&a);
  return c;
}

hlo_xla_cost hlo_cost_xla(const hlo_module *m) {
  hs_arena a = {0};
  costing k = costing_of(m, true, &a);
  u32 n;
  hlo_computation **order = hlo_comp_callees_first(m, &a, &n);
  for (u32 c = 0; c < n; c++) (void)comp_cost(&k, order[c]);  // callees first: no deep recursion
  hlo_cost t = comp_cost(&k, m->entry);
  hs_arena_free(&a);
  return (hlo_xla_cost){t.flops, t.transcendentals, t.bytes_read + t.bytes_written};
}

bool hlo_moves_nothing(const hlo_instr *i) {
  if (hlo_op_has(i->opcode, HLO_F_FREE)) return true;
  if (i->opcode == HLO_RESHAPE) {
    const hlo_shape *in = hlo_operand(i, 0)->shape;
    return hlo_shape_is_row_major(in) && hlo_shape_is_row_major(i->shape);
  }
  if (i->opcode == HLO_TRANSPOSE) return transpose_is_bitcast(i);
  return i->opcode == HLO_CUSTOM_CALL && hlo_custom_is_marker(i);
}

bool hlo_is_filter_gradient(const hlo_instr *i) {
  enum { LEAST_WINDOW = 16 };
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_dim_labels *d = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_shape *o = hlo_shape_leaf(i->shape, 0);
  if (!w || !d || !o || w->n != d->nspatial || o->rank != w->n + 2) return false;
  if (hlo_attr_int(i, HLO_ATTR_FEATURE_GROUP_COUNT, 1) > 1) return false;
  bool apart = true;  // windows side by side cut an image into patches
  double window = 1, positions = 1;
  for (u32 k = 0; k < w->n; k++) {
    const hlo_window_dim *x = &w->v[k];
    if (x->lhs_dilate > 1 || x->reversal) return false;
    apart &= HS_MAX(x->stride, (i64)1) >= x->size;
    window *= (double)x->size;
    positions *= (double)o->dims[d->out_spatial[k]];
  }
  return !apart && window > positions && window >= LEAST_WINDOW;
}

// Whether instructions of the computations that `i` calls are launched on their own.
static bool runs_callee(const hlo_instr *i) { return hlo_op_has(i->opcode, HLO_F_CONTROL); }

static void spread_times(const hlo_instr *i, double times, double *comp_times, bool *launched) {
  for (u32 k = 0; k < hlo_ncalled(i); k++) {
    const hlo_computation *c = hlo_called(i, k);
    double t = times;
    if (i->opcode == HLO_WHILE) {
      double trips = hlo_expected_trips(i);
      t *= trips < 0 ? 1 : trips + (c == hlo_attr_comp(i, HLO_ATTR_CONDITION));
    }
    comp_times[c->id] += t;
    if (runs_callee(i)) launched[c->id] = true;
  }
}

hs_status hlo_cost_module(const hlo_module *m, hlo_cost_table *out) {
  HS_ASSERT(!hlo_known_invalid(m));
  *out = (hlo_cost_table){.n = m->next_instr_id};
  hs_arena a = {0};
  costing k = costing_of(m, false, &a);
  double *comp_times = HS_NEW_ARRAY(&a, double, m->next_comp_id + 1);
  bool *launched = HS_NEW_ARRAY(&a, bool, m->next_comp_id + 1);
  u32 n;
  hlo_computation **order = hlo_comp_callees_first(m, &a, &n);
  out->by_id = k.by_id = hs_calloc(out->n + 1u, sizeof *out->by_id);
  for (u32 c = 0; c < n; c++) (void)comp_cost(&k, order[c]);
  out->times = hs_calloc(out->n + 1u, sizeof *out->times);
  comp_times[m->entry->id] = 1;
  launched[m->entry->id] = true;
  out->total = comp_cost(&k, m->entry);
  out->unknown = k.unknown;
  out->unknown_loops = k.unknown_loops;
  for (u32 c = n; c-- > 0 && !hs_interrupted();) {
    double t = comp_times[order[c]->id];
    hlo_for_each_instr(i, order[c]) {
      out->times[i->id] = t;
      bool kernel =
          hlo_ops[i->opcode].cost != HLO_COST_FREE && !hlo_moves_nothing(i) && !runs_callee(i);
      if (launched[order[c]->id] && kernel) out->kernels++;
      if (t > 0) spread_times(i, t, comp_times, launched);
    }
  }
  hs_arena_free(&a);
  hs_status s = hs_poll();
  if (!hs_ok(s)) hlo_cost_free(out);
  return s;
}

void hlo_cost_free(hlo_cost_table *t) {
  hs_free(t->by_id);
  hs_free(t->times);
  *t = (hlo_cost_table){0};
}
