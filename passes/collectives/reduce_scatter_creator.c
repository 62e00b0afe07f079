// reduce_scatter_creator.c — reduce-scatter-creator
// (xla/backends/gpu/transforms/reduce_scatter_creator.cc): an all-reduce of which each device takes
// a slice of its own becomes a reduce-scatter.
//
//   dynamic-slice(all-reduce(x), ..., position of the device in its group * size, ...)
//     ->  reduce-scatter(x)
//
// XLA recognizes forms of that offset: products and differences of ids and of tables that are
// looked up by ids. Here the offset is computed for each device of the module, with its ids put in
// (`value_on`), and must be its position times the size; so every form counts. Slices that would
// have to be moved back into the array do not: that is no position of the device.
//
// Where the slices of a group do not reach the end of the array, the rest is cut off before; a
// reshape between the two that leaves the dimension alone follows the reduce-scatter.
#include "passes/collectives/groups.h"

enum { MOST_STEPS = 200 };  // of the computation of one offset

// ---- what an offset is on a device --------------------------------------------------------------

typedef struct device {
  i64 replica, partition;
  u32 steps;
} device;

static bool value_on(const hlo_instr *i, device *d, i64 *out);

// Element `at` of a table: a constant, or an iota.
static bool table_at(const hlo_instr *t, i64 at, i64 *out) {
  const hlo_literal *l = hlo_constant_value(t);
  at = HS_MAX(0, HS_MIN(at, t->shape->elements - 1));
  if (t->shape->elements < 1 || !hlo_dtype_is_integer(t->shape->dtype)) return false;
  if (t->opcode == HLO_IOTA) return *out = at, t->shape->rank == 1;
  if (!l || l->elided) return false;
  *out = hlo_literal_i64(l, at);
  return true;
}

static bool looked_up(const hlo_instr *i, device *d, i64 *out) {
  const hlo_instr *table = hlo_operand(i, 0);
  i64 at;
  return i->shape->elements == 1 && table->shape->rank == 1 &&
         value_on(hlo_operand(i, 1), d, &at) && table_at(table, at, out);
}

static bool combined(hlo_opcode op, i64 x, i64 y, i64 *out) {
  switch (op) {
  case HLO_ADD: return *out = x + y, true;
  case HLO_SUBTRACT: return *out = x - y, true;
  case HLO_MULTIPLY: return *out = x * y, true;
  case HLO_MINIMUM: return *out = HS_MIN(x, y), true;
  case HLO_MAXIMUM: return *out = HS_MAX(x, y), true;
  case HLO_DIVIDE: return x >= 0 && y > 0 ? (*out = x / y, true) : false;
  case HLO_REMAINDER: return x >= 0 && y > 0 ? (*out = x % y, true) : false;
  default: return false;
  }
}

// Whether the type holds the value, and sums and products of two such do not overflow ours.
static bool fits(const hlo_shape *s, i64 v) {
  i64 bits = HS_MIN((i64)hlo_dtype_bits(s->dtype), 32);
  i64 most = (i64)1 << (bits - 1);
  return hlo_dtype_is_signed(s->dtype) ? v >= -most && v < most : v >= 0 && v < 2 * most;
}

// The value of an integer of one element; false where it is not known.
static bool value_on(const hlo_instr *i, device *d, i64 *out) {
  i64 x, y, z;
  if (++d->steps > MOST_STEPS || !hlo_shape_is_array(i->shape) || i->shape->elements != 1 ||
      !hlo_dtype_is_integer(i->shape->dtype))
    return false;
  switch (i->opcode) {
  case HLO_REPLICA_ID: *out = d->replica; break;
  case HLO_PARTITION_ID: *out = d->partition; break;
  case HLO_CONSTANT:
    if (!table_at(i, 0, out)) return false;
    break;
  case HLO_CONVERT:
  case HLO_RESHAPE:
  case HLO_COPY:
    if (!value_on(hlo_operand(i, 0), d, out)) return false;
    break;
  case HLO_BITCAST:
    if (hlo_operand(i, 0)->shape->dtype != i->shape->dtype || !value_on(hlo_operand(i, 0), d, out))
      return false;
    break;
  case HLO_DYNAMIC_SLICE:
    if (!looked_up(i, d, out)) return false;
    break;
  case HLO_CLAMP:
    if (!value_on(hlo_operand(i, 0), d, &x) || !value_on(hlo_operand(i, 1), d, &y) ||
        !value_on(hlo_operand(i, 2), d, &z))
      return false;
    *out = HS_MIN(HS_MAX(x, y), z);
    break;
  default:
    if (i->noperands != 2 || !value_on(hlo_operand(i, 0), d, &x) ||
        !value_on(hlo_operand(i, 1), d, &y) || !combined(i->opcode, x, y, out))
      return false;
  }
  return fits(i->shape, *out);
}

// ---- the pattern --------------------------------------------------------------------------------

typedef struct scattered {
  hlo_instr *ar, *reshape;  // reshape: between the two, or NULL
  u32 dim, from;            // the dimension of the slice, and of what is reduced
  i64 size, group;          // of a slice; devices of a group
} scattered;

// The one dimension that is sliced; its rank: none, or several. Where all of a dimension
// is taken, its offset does not matter.
static u32 sliced_dim(const hlo_instr *ds) {
  const hlo_shape *in = hlo_operand(ds, 0)->shape;
  u32 dim = in->rank;
  for (u32 k = 0; k < in->rank; k++) {
    if (in->dims[k] == ds->shape->dims[k]) continue;
    if (dim != in->rank) return in->rank;
    dim = k;
  }
  return dim;
}

// The dimension of `from` that dimension `dim` of its reshape is, whole; from->rank: none.
static u32 same_dim(const hlo_shape *from, const hlo_shape *to, u32 dim, hs_arena *a) {
  hlo_dim_group *g = HS_NEW_ARRAY(a, hlo_dim_group, from->rank + to->rank + 2);
  u32 n = pass_dim_groups(from, to, g);
  for (u32 k = 0; k < n; k++)
    if (g[k].to == dim && g[k + 1].to == dim + 1 && g[k + 1].from == g[k].from + 1)
      return g[k].from;
  return from->rank;
}

// Whether each device takes the slice at its position in its group.
static bool is_own_slice(const hlo_instr *ds, scattered *s, hs_arena *a) {
  pass_devices d;
  if (!pass_device_groups(s->ar, a, &d)) return false;
  s->group = d.group[0].n;
  for (u32 k = 0; k < d.replicas * d.partitions; k++) {
    device on = {k / d.partitions, k % d.partitions, 0};
    i64 at;
    u32 position = 0;
    if (d.group[k].n != s->group || !value_on(hlo_operand(ds, 1 + s->dim), &on, &at)) return false;
    while (d.group[k].v[position] != k) position++;
    if (at != position * s->size) return false;
  }
  return s->group > 1;
}

static const char *refuses(const hlo_instr *ds, scattered *s, hs_arena *a) {
  const hlo_shape *x = s->ar->shape;
  if (hlo_is_controlled(ds) || hlo_is_controlled(s->ar) ||
      (s->reshape && hlo_is_controlled(s->reshape)))
    return "their order is fixed";
  if (s->ar->nuses != 1 || hlo_is_root(s->ar) ||
      (s->reshape && (s->reshape->nuses != 1 || hlo_is_root(s->reshape))))
    return "others read what is reduced too";
  if (hlo_attr_int(s->ar, HLO_ATTR_CONSTRAIN_LAYOUT, 0)) return "its layout is fixed";
  if (ds->shape->dtype != x->dtype || (s->reshape && s->reshape->shape->dtype != x->dtype))
    return "they state other precisions";
  s->dim = sliced_dim(ds);
  if (s->dim == ds->shape->rank) return "not one dimension is sliced";
  s->size = ds->shape->dims[s->dim];
  s->from = s->reshape ? same_dim(x, s->reshape->shape, s->dim, a) : s->dim;
  if (s->from == x->rank) return "the reshape does not leave the dimension alone";
  if (!is_own_slice(ds, s, a)) return "a device's slice is not that at its position in the group";
  if (hs_mul_sat_i64(s->size, s->group) > x->dims[s->from]) return "the slices are too many";
  return s->reshape && s->size * s->group != x->dims[s->from] ? "the rest would be reshaped too"
                                                              : NULL;
}

// ---- the rewrite --------------------------------------------------------------------------------

// The shape with another size of one dimension.
static const hlo_shape *resized(hlo_ctx *ctx, const hlo_shape *s, u32 dim, i64 size) {
  i64 dims[HLO_MAX_RANK];
  memcpy(dims, s->dims, s->rank * sizeof *dims);
  dims[dim] = size;
  const hlo_shape *out = hlo_shape_array(ctx, s->dtype, s->rank, dims);
  return s->layout ? hlo_shape_with_layout(ctx, out, s->layout) : out;
}

static void rewrite(pass_ctx *p, hlo_instr *ds, const scattered *s) {
  hlo_instr *ar = s->ar, *x = hlo_operand(ar, 0);
  if (s->size * s->group != ar->shape->dims[s->from]) {
    i64 start[HLO_MAX_RANK] = {0}, limit[HLO_MAX_RANK], stride[HLO_MAX_RANK];
    for (u32 k = 0; k < x->shape->rank; k++) limit[k] = x->shape->dims[k], stride[k] = 1;
    limit[s->from] = s->size * s->group;
    x = hlo_build_slice(x, start, limit, stride);
  }
  i64 dim = s->from;
  const hlo_shape *out = resized(p->m->ctx, ar->shape, s->from, s->size);
  hlo_instr *rs = hlo_add_before(ds, HLO_REDUCE_SCATTER, out, 1, &x, NULL), *now = rs;
  hlo_copy_attrs(rs, ar);
  hlo_set_attr_ints(rs, HLO_ATTR_DIMENSIONS, 1, &dim);
  hlo_add_provenance(rs, ar);
  pass_note_done(p, rs, ar, "each device takes its own slice of dimension %u", s->from);
  if (s->reshape) now = hlo_add_before(ds, HLO_RESHAPE, ds->shape, 1, &rs, NULL);
  hlo_replace(ds, now);
  if (s->reshape && !s->reshape->dead) hlo_remove(s->reshape);
  if (!ar->dead) hlo_remove(ar);
}

static hs_status visit(pass_ctx *p, hlo_computation *c) {
  hlo_instr **order = hlo_post_order(c, p->scratch);
  for (u32 k = 0, n = c->ninstrs; k < n; k++) {
    hlo_instr *ds = order[k];
    if (ds->dead || ds->opcode != HLO_DYNAMIC_SLICE || hlo_shape_is_dynamic(ds->shape)) continue;
    scattered s = {.ar = hlo_operand(ds, 0)};
    if (s.ar->opcode == HLO_RESHAPE) s.reshape = s.ar, s.ar = hlo_operand(s.reshape, 0);
    if (s.ar->opcode != HLO_ALL_REDUCE || s.ar->noperands != 1 ||
        !hlo_shape_is_array(s.ar->shape) || hlo_shape_is_dynamic(s.ar->shape))
      continue;
    HS_TRY(hs_poll());
    const char *why = refuses(ds, &s, p->scratch);
    if (why) {
      pass_note_declined(p, s.ar, ds, "%s", why);
      continue;
    }
    if (!pass_may_rewrite(p)) return HS_GOOD;
    rewrite(p, ds, &s);
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) {
  hlo_for_each_comp(c, p->m)
    if (!hlo_is_fusion_comp(c)) HS_TRY(visit(p, c));
  return HS_GOOD;
}

const pass_info pass_reduce_scatter_creator = {
    .name = "reduce-scatter-creator",
    .summary = "makes an all-reduce of which each device takes its slice a reduce-scatter",
    .xla_source = "xla/backends/gpu/transforms/reduce_scatter_creator.cc",
    .run = run,
    .needs = {HLO_ALL_REDUCE},
    .sample = "HloModule two, replica_count=2\n" PASS_SUM "ENTRY e {\n"
              "  x = f32[8] parameter(0)\n"
              "  r = f32[8] all-reduce(x), replica_groups={}, to_apply=sum\n"
              "  n = u32[] replica-id()\n"
              "  four = u32[] constant(4)\n"
              "  at = u32[] multiply(n, four)\n"
              "  ROOT s = f32[4] dynamic-slice(r, at), dynamic_slice_sizes={4}\n"
              "}\n",
};
