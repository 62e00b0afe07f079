// fusion.c — producer-consumer fusion by cost: which instructions form one kernel.
//
// One fusion is one kernel: the code generator never fuses again. The plan is made from users to
// producers. A producer is either fused into all kernels that use it, and never stored in memory,
// or it is materialized as the root of its own kernel. It is fused when that is legal for each
// kernel and the estimated saving is positive:
//
//     saved = launch + (write it + read it in each kernel) / bandwidth - (evaluations beyond the
//     first, reads of its inputs)
//
// Bandwidth is that of the cache level the value would live in. Fusing into all users or none
// keeps the plan acyclic and avoids values that are both fused and materialized; the exceptions are
// scalar constants, iota, broadcast scalars and single elements of what is stored anyway, which are
// cloned into every kernel that uses them.
//
// How often a member is evaluated follows from its index classes (fusion.h): users with the
// same index share one evaluation; a broadcast, slice or pad in between makes another class. Values
// that depend on outer loops only are evaluated once per outer iteration, which the code generator
// does by hoisting.
//
// The contract with the code generator (backends/emit):
//   pointwise kernels    one root of any dims; members elementwise (maps of elementwise functions,
//                        too), broadcast, reshape, transpose, slice, reverse, pad, concatenate,
//                        iota, dynamic-slice, gather, scalar constants. A transpose that moves the
//                        minor dimension of a large array is only ever a root, never below another
//                        instruction.
//   reductions           one reduce (also variadic, as the root) over pointwise members, then
//                        possibly a pointwise epilogue of exactly the reduction's dimensions,
//                        using parameters and the reduction's result: the scale of a mean, a
//                        bias. An epilogue may read several reductions over the same loops (a
//                        variance from two sums). kind=kInput; all others kLoop.
//   row-wise groups      any of the above whose members read a reduction of the kernel's own space
//                        along trailing dims, through a broadcast back to that space: softmax,
//                        norms; reshapes may lie between, as long as the rows stay outer loops of
//                        the kernel. Several such reductions may feed one another. The reduction
//                        runs once per row; what both it and the rest read is evaluated in each,
//                        from cache.
//   updates              a dynamic-update-slice at the end of pointwise members that make the new
//                        part. Nothing else of its operand is read but the part replaced, element
//                        by element, so that the kernel may work in the operand's memory.
//   multi-output         made by multi_output_fusion.c: a tuple of same-dims pointwise roots, or of
//                        sibling reductions.
#include "passes/fuse/fusion.h"
#include "passes/fuse/fuse.h"
#include "core/analysis/live.h"
#include "core/ir/rename.h"
#include "passes/control/calls.h"

#include <math.h>
#include <stdlib.h>

const double pass_fusion_launch_ns = 600;

double pass_fusion_move_ns(double bytes) {
  return bytes / (bytes <= 256e3 ? 60.0 : bytes <= 8e6 ? 30.0 : 12.0);
}

static bool scalar_like(const hlo_instr *i) {
  return hlo_shape_is_array(i->shape) && i->shape->elements == 1;
}

bool pass_fusion_expensive(const hlo_instr *i) {
  if (i->opcode == HLO_MAP) {
    hlo_for_each_instr(x, hlo_attr_comp(i, HLO_ATTR_TO_APPLY))
      if (pass_fusion_expensive(x)) return true;
    return false;
  }
  return hlo_op_cost(i->opcode)->expensive;
}

double pass_fusion_eval_ns(const hlo_instr *i) {
  if (i->opcode == HLO_MAP) {
    double ns = 0;
    hlo_for_each_instr(x, hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) ns += pass_fusion_eval_ns(x);
    return ns;
  }
  const hlo_cost_info *c = hlo_op_cost(i->opcode);
  double ns = hlo_dtype_is_integer(i->shape->dtype) ? c->int_ns : c->ns;
  // A gather is bound by memory latency, whatever the element size.
  return i->opcode == HLO_GATHER ? ns : ns * HS_MAX(hlo_dtype_bits(i->shape->dtype), 8) / 32.0;
}

static bool moves_minor(const hlo_instr *t) {
  hlo_ints p = hlo_attr_ints(t, HLO_ATTR_DIMENSIONS);
  for (u32 k = p.n; k-- > 0;)
    if (t->shape->dims[k] != 1) {
      // The last real dimension of the result must be the last real one of the operand.
      for (i64 j = hlo_operand(t, 0)->shape->rank - 1; j > p.v[k]; j--)
        if (hlo_operand(t, 0)->shape->dims[j] != 1) return true;
      return false;
    }
  return false;
}

// A transpose that is a bitcast: its layouts leave all elements in place.
static bool moves_nothing(const hlo_instr *t) {
  const hlo_shape *out = t->shape, *in = hlo_operand(t, 0)->shape;
  hlo_ints p = hlo_attr_ints(t, HLO_ATTR_DIMENSIONS);
  if (!out->layout || !in->layout || out->layout->rank != out->rank || in->layout->rank != in->rank)
    return false;
  for (u32 k = 0; k < p.n; k++)
    if (p.v[out->layout->minor_to_major[k]] != in->layout->minor_to_major[k]) return false;
  return true;
}

fusion_role pass_fusion_role(const hlo_instr *i) {
  if (hlo_is_controlled(i) || hlo_shape_is_dynamic(i->shape)) return FUSION_OPAQUE;
  for (u32 k = 0; k < i->noperands; k++)
    if (!hlo_shape_is_array(hlo_operand(i, k)->shape) || pass_is_cut(hlo_operand(i, k)))
      return FUSION_OPAQUE;
  if (i->opcode == HLO_REDUCE) return FUSION_REDUCE;
  if (!hlo_shape_is_array(i->shape)) return FUSION_OPAQUE;
  switch (i->opcode) {
  case HLO_CONSTANT:
    return i->shape->elements == 1 && hlo_constant_value(i) && !hlo_constant_value(i)->elided
               ? FUSION_POINT
               : FUSION_OPAQUE;
  case HLO_STOCHASTIC_CONVERT: return FUSION_OPAQUE;
  case HLO_BROADCAST:
  case HLO_RESHAPE:
  case HLO_TRANSPOSE:
  case HLO_SLICE:
  case HLO_REVERSE:
  case HLO_PAD:
  case HLO_CONCATENATE:
  case HLO_IOTA:
  case HLO_DYNAMIC_SLICE:
  case HLO_GATHER:
  case HLO_COPY: return FUSION_POINT;
  case HLO_BITCAST:
  case HLO_BITCAST_CONVERT:
    return hlo_operand(i, 0)->shape->dtype == i->shape->dtype ||
                   hlo_shape_same_dims(hlo_operand(i, 0)->shape, i->shape)
               ? FUSION_POINT
               : FUSION_OPAQUE;
  case HLO_MAP:
    return pass_not_liftable(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) ? FUSION_OPAQUE : FUSION_POINT;
  default: return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) ? FUSION_POINT : FUSION_OPAQUE;
  }
}

// ---- index classes ------------------------------------------------------------------------------
static bool leading_dims(const hlo_instr *b) {
  hlo_ints d = hlo_attr_ints(b, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < d.n; k++)
    if (d.v[k] != k) return false;
  return true;
}

// The dimensions of a broadcast's result up to the last one of its operand: with those beyond, the
// value does not change.
static u32 changing_dims(const hlo_instr *b) {
  hlo_ints d = hlo_attr_ints(b, HLO_ATTR_DIMENSIONS);
  i64 last = -1;
  for (u32 k = 0; k < d.n; k++) last = HS_MAX(last, d.v[k]);
  return (u32)(last + 1);
}

static double first_elements(const hlo_shape *s, u32 rank) {
  double n = 1;
  for (u32 k = 0; k < rank; k++) n *= (double)s->dims[k];
  return n;
}

static bool degenerate_reshape(const hlo_shape *a, const hlo_shape *b) {
  u32 i = 0, j = 0;
  for (;;) {
    while (i < a->rank && a->dims[i] == 1) i++;
    while (j < b->rank && b->dims[j] == 1) j++;
    if (i == a->rank || j == b->rank) return i == a->rank && j == b->rank;
    if (a->dims[i++] != b->dims[j++]) return false;
  }
}

// The reduced dimensions are the last ones.
static bool trailing(const hlo_instr *reduce) {
  hlo_ints d = hlo_attr_ints(reduce, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < d.n; k++)
    if (d.v[k] < (i64)(hlo_operand(reduce, 0)->shape->rank - d.n)) return false;
  return true;
}

// Elements in the same order, as outer loops around inner ones.
static bool keeps_order(const hlo_instr *reshape) {
  const hlo_shape *from = hlo_operand(reshape, 0)->shape, *to = reshape->shape;
  return from->dtype == to->dtype && to->elements > 0 && hlo_shape_is_row_major(from) &&
         hlo_shape_is_row_major(to);
}

// So many outer loops of an aligned class are the first `rank` dimensions of a shape that is read
// in it; UINT32_MAX: no whole loops.
static u32 loops_of(const fusion_class *c, const hlo_shape *s, u32 rank) {
  if (!c->space) return rank;
  double want = first_elements(s, rank), have = 1;
  u32 n = 0;
  while (have < want && n < c->space->rank) have *= (double)c->space->dims[n++];
  return have == want ? n : UINT32_MAX;
}

// The class in which user `u` (in class c) reads operand `slot`.
static fusion_class class_below(const hlo_instr *u, u32 slot, fusion_class c) {
  const hlo_instr *p = hlo_operand(u, slot);
  double share = u->shape->elements > 0 && hlo_shape_is_array(u->shape)
                     ? (double)p->shape->elements / (double)u->shape->elements
                     : 1;
  fusion_class r = c;
  u32 changing, loops;
  if (p->shape->elements == 1 && p->opcode != HLO_REDUCE)
    return (fusion_class){.hash = 1, .evals = 1};
  if (hlo_op_has(u->opcode, HLO_F_ELEMENTWISE) || u->opcode == HLO_MAP ||
      u->opcode == HLO_BITCAST_CONVERT || u->opcode == HLO_COPY)
    return r;
  if ((u->opcode == HLO_RESHAPE || u->opcode == HLO_BITCAST) &&
      degenerate_reshape(p->shape, u->shape))
    return r;
  r.hash = hs_mix(hs_mix(c.hash, u->opcode), hs_mix(p->shape->serial, u->shape->serial));
  if (u->opcode == HLO_CONCATENATE) r.hash = hs_mix(r.hash, u->id * 64 + slot);
  else r.hash = hs_mix(r.hash, hlo_attrs_hash(u->attrs, slot, hlo_attr_is_annotation));
  if (u->opcode == HLO_DYNAMIC_SLICE || u->opcode == HLO_GATHER) r.hash = hs_mix(r.hash, u->id);
  r.aligned = false, r.rows = NULL;
  r.looked_up |= u->opcode == HLO_GATHER && slot == 0;
  switch (u->opcode) {
  case HLO_BROADCAST:
    changing = changing_dims(u);
    loops = loops_of(&c, u->shape, changing);
    if (!c.aligned || loops == UINT32_MAX) break;
    r.evals = HS_MIN(c.evals, first_elements(u->shape, changing));
    if (!leading_dims(u)) break;
    r.rows = u->shape;
    // the same outer loops, from whichever reduction
    if (loops <= c.outer) r.hash = hs_mix(0x726f7773, p->shape->rank);
    break;
  case HLO_BITCAST:
  case HLO_RESHAPE:
    r.aligned = c.aligned && keeps_order(u);
    if (!c.space) r.space = u->shape;
    break;
  case HLO_CONCATENATE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_PAD: r.evals = c.evals * HS_MIN(share, 1.0); break;
  case HLO_REDUCE:
    r.evals = (double)p->shape->elements, r.aligned = true, r.space = NULL;
    r.outer = trailing(u) ? p->shape->rank - hlo_attr_ints(u, HLO_ATTR_DIMENSIONS).n : 0;
    break;
  default: break;
  }
  return r;
}

// ---- the plan -----------------------------------------------------------------------------------
// A use of the instruction being placed, and the kernel that contains the user.
typedef struct reading {
  const hlo_use *u;
  const fusion_member *m;
} reading;

typedef struct planner {
  pass_ctx *p;
  hs_arena *a;
  u32 n;                  // instructions of the computation
  hlo_positions at;       // their positions in its post-order
  fusion_members *where;  // by position: the kernels that compute it
  HS_VEC(fusion_kernel *) kernels;
  // Of the instruction being placed: its uses, and its class in each kernel.
  HS_VEC(reading) readings;
  HS_VEC(fusion_member) drafts;
  HS_VEC(fusion_class) classes;
} planner;

// NULL for instructions created since, or of another computation.
static fusion_members *kernels_of(const planner *f, const hlo_instr *i) {
  u32 k = hlo_position_of(&f->at, i);
  return k < f->n ? &f->where[k] : NULL;
}

// i becomes a member of n more kernels, by number ascending; there is room for them behind those it
// has.
static void join(planner *f, hlo_instr *i, u32 n, const fusion_member *members) {
  fusion_members *w = kernels_of(f, i);
  for (u32 j = 0; j < n; j++) {
    fusion_member m = members[j];
    fusion_kernel *k = m.kernel;
    m.c = hs_arena_dup(f->a, m.c, m.n * sizeof *m.c);
    w->v[w->n++] = m;
    hs_vec_push(&k->members, i);
    k->ops += i->opcode == HLO_CONSTANT ? 0 : HS_MAX(m.n, 1);
    if (pass_fusion_expensive(i)) k->expensive += HS_MAX(m.n, 1);
    if (i->opcode != HLO_REDUCE) continue;
    if (m.c[0].rows) k->row_reduces++;
    else k->reduce = i;
  }
}

static void start_kernel(planner *f, hlo_instr *i) {
  fusion_kernel *k = HS_NEW(f->a, fusion_kernel);
  k->root = i;
  k->number = (u32)f->kernels.n;
  hs_vec_push(&f->kernels, k);
  const hlo_shape *s = hlo_shape_is_array(i->shape) ? i->shape : i->shape->elems[0];
  fusion_class whole = {.hash = 0, .evals = (double)s->elements, .aligned = true, .outer = s->rank};
  k->whole = whole;
  join(f, i, 1, &(fusion_member){.kernel = k, .n = 1, .c = &whole});
}

static const fusion_member *in_kernel(const planner *f, const hlo_instr *i,
                                      const fusion_kernel *k) {
  const fusion_members *w = kernels_of(f, i);
  u32 low = 0, high = w ? w->n : 0;
  while (low < high) {
    u32 mid = low + (high - low) / 2;
    if (w->v[mid].kernel->number < k->number) low = mid + 1;
    else high = mid;
  }
  return w && low < w->n && w->v[low].kernel == k ? &w->v[low] : NULL;
}

// Whether it is in memory, as reductions and what is made of their single results mostly are: what
// is pointwise and has not been placed yet may still become a member of its readers.
static bool stored(const planner *f, const hlo_instr *i) {
  const fusion_members *w = kernels_of(f, i);
  return pass_fusion_role(i) != FUSION_POINT || scalar_like(i) || !w || w->n > 0;
}

// Inputs that kernel k reads, with `extra` counted as a member; *sure: those that are stored. Both
// may be NULL.
static u32 count_inputs(const planner *f, const fusion_kernel *k, const hlo_instr *extra,
                        u32 *sure) {
  const hlo_instr *seen[2 * FUSION_MAX_INPUTS];
  u32 n = 0, in_memory = 0;
  for (size_t j = 0; j <= k->members.n; j++) {
    const hlo_instr *m = j < k->members.n ? k->members.v[j] : extra;
    for (u32 o = 0; m && o < m->noperands; o++) {
      const hlo_instr *d = hlo_operand(m, o);
      if (d == extra || in_kernel(f, d, k)) continue;
      u32 t = 0;
      while (t < n && seen[t] != d) t++;
      if (t < n || n == HS_COUNT(seen)) continue;
      seen[n++] = d;
      in_memory += stored(f, d);
    }
  }
  if (sure) *sure = in_memory;
  return n;
}

// The same number everywhere: at which indices it is read does not matter.
static bool uniform(const hlo_instr *p) {
  return p->opcode == HLO_BROADCAST && scalar_like(hlo_operand(p, 0));
}

// The classes in which a kernel would read p, from its readings; false when there are more than
// out->c has room for.
static bool classes_of(const hlo_instr *p, u32 n, const reading *v, fusion_member *out) {
  out->kernel = v->m->kernel, out->n = 0;
  for (u32 k = 0; k < n; k++) {
    const fusion_member *m = v[k].m;
    for (u32 j = 0; j < m->n; j++) {
      fusion_class c = class_below(v[k].u->user, hlo_slot(v[k].u), m->c[j]);
      u32 t = 0;
      while (t < out->n && out->c[t].hash != c.hash) t++;
      if (t && uniform(p)) t = 0;
      if (t == out->n && out->n == FUSION_MAX_CLASSES) return false;
      if (t == out->n) out->c[out->n++] = c;
      else out->c[t].evals = HS_MAX(out->c[t].evals, c.evals);
    }
  }
  return true;
}

static double evals_of(const fusion_member *m) {
  double n = 0;
  for (u32 j = 0; j < m->n; j++) n += m->c[j].evals;
  return n;
}

static bool same_space(const hlo_instr *a, const hlo_instr *b) {
  return hlo_shape_is_array(a->shape) && hlo_shape_is_array(b->shape) &&
         degenerate_reshape(a->shape, b->shape);
}

// A reduction of the kernel's space along its trailing dims, read once per row.
static bool row_reduction(const hlo_instr *p, const fusion_class *c) {
  const hlo_shape *in = hlo_operand(p, 0)->shape;
  return c->rows && hlo_shape_same_dims(in, c->rows) && trailing(p) && hlo_shape_is_row_major(in);
}

// Reductions over the same loops: one pass over the data gives both.
static bool siblings(const hlo_instr *p, const hlo_instr *q) {
  hlo_ints d = hlo_attr_ints(p, HLO_ATTR_DIMENSIONS), e = hlo_attr_ints(q, HLO_ATTR_DIMENSIONS);
  return hlo_shape_is_array(q->shape) &&
         hlo_shape_same_dims(hlo_operand(p, 0)->shape, hlo_operand(q, 0)->shape) &&
         hlo_ints_equal(d, e);
}

static bool legal_reduce(planner *f, const hlo_instr *p, fusion_kernel *k, const fusion_member *m) {
  if (!hlo_shape_is_array(p->shape)) return false;
  if (m->n == 1 && row_reduction(p, &m->c[0])) {
    double rows = (double)p->shape->elements;
    if (rows >= 8 || hlo_operand(p, 0)->shape->elements <= 32768) return true;
    pass_note_declined(f->p, p, k->root, "not fused: only %.0f rows to share among threads", rows);
    return false;
  }
  bool aligned = (m->c[0].aligned && !m->c[0].space) || p->shape->elements == 1;
  bool epilogue = m->n == 1 && same_space(p, k->root) && aligned;
  if (epilogue && (!k->reduce || siblings(p, k->reduce))) return true;
  pass_note_declined(
      f->p, p, k->root,
      k->reduce ? "not fused: the kernel has a reduction already"
                : "not fused: the reduction's result is read by more than a pointwise epilogue");
  return false;
}

// Whether p may be computed in the kernel of an update for these uses.
static bool legal_update(const hlo_instr *p, u32 n, const reading *v, const fusion_member *m) {
  const hlo_instr *update = v->m->kernel->root;
  for (u32 k = 0; k < n; k++)
    if (v[k].u->user == update && hlo_slot(v[k].u) != 1 &&
        (hlo_slot(v[k].u) == 0 || p->opcode != HLO_CONSTANT))
      return false;
  if (p->opcode == HLO_REDUCE) return false;
  fusion_class part = class_below(update, 1, v->m->kernel->whole);
  for (u32 o = 0; o < p->noperands; o++)
    if (hlo_operand(p, o) == hlo_operand(update, 0) &&
        (!hlo_is_replaced_part(p, update) || m->n != 1 || m->c[0].hash != part.hash))
      return false;
  return true;
}

// Whether p may be fused into the kernel of these n uses; notes the reason if not.
static bool legal(planner *f, const hlo_instr *p, u32 n_readings, const reading *v,
                  fusion_member *m) {
  fusion_kernel *k = v->m->kernel;
  if (!classes_of(p, n_readings, v, m)) {
    pass_note_declined(f->p, p, k->root, "not fused: read at more than %d different indices",
                       FUSION_MAX_CLASSES);
    return false;
  }
  if (k->ops + m->n > FUSION_MAX_OPS ||
      (pass_fusion_expensive(p) && k->expensive + m->n > FUSION_MAX_EXPENSIVE)) {
    pass_note_declined(f->p, p, k->root, "not fused: the kernel has %u operations already", k->ops);
    return false;
  }
  if (pass_fusion_update(k->root) && !legal_update(p, n_readings, v, m)) {
    pass_note_declined(f->p, p, k->root, "not fused: the update would not be in place");
    return false;
  }
  if (p->opcode == HLO_CONSTANT || p->opcode == HLO_IOTA) return true;
  u32 sure, inputs = count_inputs(f, k, p, &sure);
  if ((sure > FUSION_MAX_INPUTS || inputs == 2 * FUSION_MAX_INPUTS) &&
      inputs > count_inputs(f, k, NULL, NULL)) {
    pass_note_declined(f->p, p, k->root, "not fused: the kernel would read %u arrays", inputs);
    return false;
  }
  if (p->opcode == HLO_REDUCE) return legal_reduce(f, p, k, m);
  if (p->opcode == HLO_TRANSPOSE && p->shape->elements > 16384 && moves_minor(p) &&
      !moves_nothing(p)) {
    pass_note_declined(f->p, p, k->root, "not fused: transposed read of %lld elements",
                       (long long)p->shape->elements);
    return false;
  }
  double evals = evals_of(m), n = HS_MAX((double)p->shape->elements, 1);
  // once for a reduction along the row, once for the rest: priced in saving()
  bool twice = k->row_reduces && evals <= 2 * n;
  if (pass_fusion_expensive(p) && evals > n && evals > 64 && !twice) {
    pass_note_declined(f->p, p, k->root, "not fused: would recompute %s %.0fx",
                       hlo_op_text(p->opcode), ceil(evals / n));
    return false;
  }
  return true;
}

static bool moves_element(const hlo_instr *p) {
  return p->opcode == HLO_SLICE || p->opcode == HLO_RESHAPE || p->opcode == HLO_BITCAST;
}

// One element of an array that is stored anyway: every kernel may as well read it there.
static bool stored_element(const hlo_instr *p) {
  if (!scalar_like(p) || !moves_element(p)) return false;
  while (moves_element(p)) p = hlo_operand(p, 0);
  return pass_fusion_role(p) == FUSION_OPAQUE;
}

static bool free_to_copy(const hlo_instr *p) {
  return p->opcode == HLO_CONSTANT || p->opcode == HLO_IOTA || uniform(p) || stored_element(p);
}

// Bytes that reading all of d costs: what every kernel makes for itself is not read.
static double bytes_to_read(const hlo_instr *d) {
  while (d->opcode == HLO_BROADCAST) d = hlo_operand(d, 0);
  return d->opcode == HLO_IOTA || d->opcode == HLO_CONSTANT ? 0 : (double)hlo_shape_bytes(d->shape);
}

// An operand that is another one too, as of x * x, is read once.
static bool read_already(const hlo_instr *p, u32 operand) {
  for (u32 k = 0; k < operand; k++)
    if (hlo_operand(p, k) == hlo_operand(p, operand)) return true;
  return false;
}

// Nanoseconds saved by computing p inside its n kernels instead of in one of its own.
static double saving(planner *f, const hlo_instr *p, u32 n, const fusion_member *m) {
  // At an index that is only known at run time each element chooses among the operands; at others
  // the loop is split.
  const double choice_ns = 0.5;
  double bytes = (double)hlo_shape_bytes(p->shape), evals = 0, in_bytes = 0, inside = 0;
  double choosing = 0;
  double elements = HS_MAX((double)p->shape->elements, 1);
  for (u32 o = 0; o < p->noperands; o++)
    if (!read_already(p, o)) in_bytes += bytes_to_read(hlo_operand(p, o));
  double reads =
      HS_MIN(in_bytes, p->opcode == HLO_SLICE || p->opcode == HLO_DYNAMIC_SLICE ? bytes : in_bytes);
  for (u32 j = 0; j < n; j++) {
    double extra = 0;
    evals += evals_of(&m[j]);
    for (u32 c = 0; c < m[j].n && p->opcode == HLO_CONCATENATE; c++)
      if (m[j].c[c].looked_up) choosing += m[j].c[c].evals * choice_ns * (p->noperands - 1);
    for (u32 o = 0; o < p->noperands; o++)
      if (!in_kernel(f, hlo_operand(p, o), m[j].kernel) && !read_already(p, o))
        extra += bytes_to_read(hlo_operand(p, o));
    inside += pass_fusion_move_ns(HS_MIN(extra, reads));
  }
  double apart =
      pass_fusion_launch_ns + pass_fusion_move_ns(reads) + pass_fusion_move_ns(bytes) * (1 + n);
  return apart - inside - choosing - HS_MAX(0, evals - elements) * pass_fusion_eval_ns(p);
}

static int by_kernel(const void *a, const void *b) {
  u32 x = ((const reading *)a)->m->kernel->number, y = ((const reading *)b)->m->kernel->number;
  return (x > y) - (x < y);
}

// Fuses p into the kernels of all its users, or starts a kernel for it.
static void place(planner *f, hlo_instr *p) {
  fusion_role role = pass_fusion_role(p);
  if ((role == FUSION_OPAQUE && !pass_fusion_update(p)) || (p->nuses == 0 && !hlo_is_root(p)))
    return;
  if (role == FUSION_OPAQUE) {
    if (pass_fusion_reads_beside(p)) return;
    kernels_of(f, p)->v = HS_NEW(f->a, fusion_member);
    start_kernel(f, p);
    return;
  }
  bool opaque_user = hlo_is_root(p), sorted = true;
  f->readings.n = 0;
  hlo_for_each_use(u, p) {
    const fusion_members *w = kernels_of(f, u->user);
    if (!w || w->n == 0) opaque_user = true;
    for (u32 j = 0; w && j < w->n; j++) {
      reading r = {u, &w->v[j]};
      sorted &= !f->readings.n || by_kernel(&f->readings.v[f->readings.n - 1], &r) <= 0;
      hs_vec_push(&f->readings, r);
    }
  }
  reading *v = f->readings.v;
  u32 n = (u32)f->readings.n, targets = 0, ok = 0;
  if (!sorted) qsort(v, n, sizeof *v, by_kernel);
  for (u32 k = 0; k < n; k++) targets += !k || by_kernel(&v[k - 1], &v[k]);
  bool all = !opaque_user, copy = free_to_copy(p);
  hs_vec_room(&f->drafts, targets + 1);
  hs_vec_room(&f->classes, (size_t)targets * FUSION_MAX_CLASSES);
  fusion_member *m = f->drafts.v;
  for (u32 k = 0, end; k < n && (all || copy); k = end) {
    for (end = k + 1; end < n && !by_kernel(&v[k], &v[end]);) end++;
    m[ok].c = f->classes.v + (size_t)ok * FUSION_MAX_CLASSES;
    if (legal(f, p, end - k, &v[k], &m[ok])) ok++;
    else all = false;
  }
  if (all && targets > 1 && pass_fusion_expensive(p) && p->shape->elements > 64) {
    pass_note_declined(f->p, p, NULL, "not fused: %u kernels would each compute %s", targets,
                       hlo_op_text(p->opcode));
    all = false;
  }
  if (all && !copy) {
    double ns = saving(f, p, ok, m);
    if (ns <= 0) {
      pass_note_declined(f->p, p, m->kernel->root, "not fused: would lose %.1f us", -ns * 1e-3);
      all = false;
    }
  }
  bool own = !all && p->opcode != HLO_CONSTANT;
  ok = all || copy ? ok : 0;
  kernels_of(f, p)->v = hs_arena_alloc(f->a, (ok + own) * sizeof *m);
  join(f, p, ok, m);
  if (own) start_kernel(f, p);
}

// ---- applying the plan --------------------------------------------------------------------------
static bool worth_a_fusion(const fusion_kernel *k) {
  for (size_t j = 1; j < k->members.n; j++) {
    const hlo_instr *i = k->members.v[j];
    bool moved =
        pass_fusion_update(k->root) && (i->opcode == HLO_RESHAPE || i->opcode == HLO_BITCAST);
    if (i->opcode != HLO_CONSTANT && !moved) return true;
  }
  return false;
}

// Notes why the other instructions are not fused.
static void note_opaque(pass_ctx *p, const planner *f, const hlo_computation *c) {
  if (!p->notes) return;
  hlo_for_each_instr(i, c) {
    if (pass_fusion_role(i) != FUSION_OPAQUE || i->opcode == HLO_FUSION) continue;
    const fusion_members *w = kernels_of(f, i);
    if (w && w->n && worth_a_fusion(w->v[0].kernel)) continue;
    bool computes = i->opcode != HLO_PARAMETER && i->opcode != HLO_CONSTANT &&
                    i->opcode != HLO_TUPLE && i->opcode != HLO_GET_TUPLE_ELEMENT;
    if (computes)
      pass_note_declined(
          p, i, NULL,
          "not fused: %s runs by itself; a kernel holds elementwise operations, movement of data "
          "and reductions",
          hlo_op_text(i->opcode));
  }
}

static hs_status fuse(pass_ctx *p, hlo_computation *c, bool keep_names) {
  hs_arena a = {0};
  planner f = {
      .p = p, .a = &a, .n = c->ninstrs, .where = HS_NEW_ARRAY(&a, fusion_members, c->ninstrs + 1)};
  hlo_instr **order = hlo_post_order(c, &a);
  f.at = hlo_positions_in(f.n, order, &a);
  for (u32 k = f.n; k-- > 0;) place(&f, order[k]);
  // Roots are replaced after all fusions are built, because a kernel may contain a clone of another
  // one's root. Kernels of producers come first: the plan was made from users to producers.
  hs_status s = HS_GOOD;
  hlo_instr **made = HS_NEW_ARRAY(&a, hlo_instr *, f.kernels.n + 1);
  for (size_t k = f.kernels.n; k-- > 0 && hs_ok(s);) {
    fusion_kernel *q = f.kernels.v[k];
    s = hs_poll();
    if (!hs_ok(s) || !worth_a_fusion(q) || !pass_may_rewrite(p)) continue;
    i64 kind = q->reduce || q->row_reduces ? HLO_FUSION_KIND_INPUT : HLO_FUSION_KIND_LOOP;
    hlo_instr *root = q->root, **members = HS_NEW_ARRAY(&a, hlo_instr *, q->members.n);
    for (size_t j = 0; j < q->members.n; j++) members[j] = q->members.v[q->members.n - 1 - j];
    hlo_instr *fusion =
        pass_fusion_build(p->m, &a, (u32)q->members.n, members, 1, &root, kind, root);
    pass_note_done(p, fusion, NULL, "fused %zu instructions into one kernel%s", q->members.n,
                   q->row_reduces ? ", row by row"
                   : q->reduce    ? " around a reduction"
                                  : "");
    made[k] = fusion;
  }
  note_opaque(p, &f, c);
  for (size_t k = f.kernels.n; k-- > 0;) {
    if (!made[k]) continue;
    const char *name = f.kernels.v[k]->root->name;
    hlo_replace(f.kernels.v[k]->root, made[k]);
    if (keep_names) hlo_take_name(made[k], name);
  }
  for (size_t k = 0; k < f.kernels.n; k++) hs_vec_free(&f.kernels.v[k]->members);
  hs_vec_free(&f.kernels);
  hs_vec_free(&f.readings);
  hs_vec_free(&f.drafts);
  hs_vec_free(&f.classes);
  hs_arena_free(&a);
  return s;
}

static hs_status fuse_computation(pass_ctx *p, hlo_computation *c) { return fuse(p, c, false); }

static hs_status run(pass_ctx *p) {
  u32 mode = pass_option_choice(p, "mode");
  bool may_duplicate = pass_option_bool(p, "may_duplicate");
  return mode ? pass_fusion_greedy(p, mode == 2, may_duplicate)
              : pass_fusion_each(p, fuse_computation);
}

static const pass_option_info options[] = {
    {"mode", PASS_CHOICE, "cost|greedy|greedy_cpu",
     "cost: by time saved; greedy: XLA's rules, whatever may join does; greedy_cpu: with "
     "XLA:CPU's on top"},
    {"may_duplicate", PASS_BOOL, "true",
     "greedy: a cheap producer may be cloned into several of its users"},
};

const pass_info pass_fusion = {
    .name = "fusion",
    .summary = "fuses producers into consumers by estimated time saved: one fusion is one kernel",
    .xla_source = "xla/service/instruction_fusion.cc",
    .run = run,
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[64] parameter(0)\n"
              "  y = f32[64] parameter(1)\n"
              "  s = f32[64] add(x, y)\n"
              "  k = f32[] constant(2)\n"
              "  ks = f32[64] broadcast(k), dimensions={}\n"
              "  p = f32[64] multiply(s, ks)\n"
              "  ROOT r = f32[64] tanh(p)\n"
              "}\n",
};

hs_status pass_fuse_body(hlo_computation *c) {
  hs_arena scratch = {0};
  pass_ctx p = {.m = c->module, .scratch = &scratch, .pass = &pass_fusion, .rewrite_limit = -1};
  hs_status s = fuse(&p, c, true);
  hs_arena_free(&scratch);
  return s;
}
