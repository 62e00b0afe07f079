// gather_scatter_expander.c — gather_expander and scatter_expander
// (xla/service/gather_expander.cc, scatter_expander.cc): gathers and scatters as loops over
// their index vectors.
//
// - gather_expander: each iteration reads one dynamic-slice of the operand and writes it to row i
//   of the accumulated result, [N, slice without its collapsed dimensions]. A gather that takes the
//   whole operand every time is a broadcast. mode=simple expands those and gathers of one slice,
//   mode=all every gather.
// - scatter_expander: each iteration reads a window of the operand, combines it with row i of the
//   updates, selects the old window where the index is out of bounds, and writes it back with a
//   dynamic-update-slice. mode=simple expands scatters of one update, mode=indeterminate those
//   whose result may depend on the order of the updates, mode=all every scatter.
//
// Loops of one iteration are left to simplify-while-loops, as in XLA. Batching dimensions of the
// operand are indexed by the iteration number, delinearized into the coordinates of the index
// array.
#include "passes/control/loops.h"

// ---- shared by both -----------------------------------------------------------------------------
// Number of index vectors in an index array.
static i64 vector_count(const hlo_instr *idx, i64 vector_dim) {
  i64 n = 1;
  for (u32 d = 0; d < idx->shape->rank; d++)
    if ((i64)d != vector_dim) n *= idx->shape->dims[d];
  return n;
}

static hlo_instr *vector_dim_last(hlo_instr *idx, i64 vector_dim) {
  u32 rank = idx->shape->rank, n = 0;
  if (vector_dim + 1 >= (i64)rank) return idx;
  i64 perm[HLO_MAX_RANK];
  for (u32 d = 0; d < rank; d++)
    if ((i64)d != vector_dim) perm[n++] = d;
  perm[n] = vector_dim;
  return hlo_build_transpose(idx, perm);
}

// The first n dimensions as one (n = 0: a new one of size 1).
static hlo_instr *collapse_first(hlo_instr *x, u32 n) {
  i64 dims[HLO_MAX_RANK + 1] = {1};
  u32 rank = 1;
  for (u32 d = 0; d < x->shape->rank; d++)
    if (d < n) dims[0] *= x->shape->dims[d];
    else dims[rank++] = x->shape->dims[d];
  return hlo_build_reshape(x, rank, dims);
}

static hlo_instr *without_dims(hlo_instr *x, hlo_ints gone, hlo_ints gone_too) {
  i64 dims[HLO_MAX_RANK];
  u32 rank = 0;
  for (u32 d = 0; d < x->shape->rank; d++)
    if (!hlo_ints_has(gone, d) && !hlo_ints_has(gone_too, d)) dims[rank++] = x->shape->dims[d];
  return hlo_build_reshape(x, rank, dims);
}

static hlo_instr *without_first(hlo_instr *x) {
  return hlo_build_reshape(x, x->shape->rank - 1, x->shape->dims + 1);
}

static hlo_instr *vector_constant(hlo_computation *c, hlo_dtype t, u32 n, const i64 *v) {
  hlo_ctx *ctx = c->module->ctx;
  i64 dims = n;
  hlo_literal *l = NULL;
  hs_status s =
      hlo_literal_new(hlo_shape_with_default_layout(ctx, hlo_shape_array(ctx, t, 1, &dims)), &l);
  HS_ASSERT(hs_ok(s));
  for (u32 k = 0; k < n; k++) hlo_literal_set_i64(l, k, v[k]);
  return hlo_add_constant(c, l, NULL);
}

static hlo_instr *part(hlo_instr *vector, i64 k) {
  return hlo_build_slice(vector, &k, &(i64){k + 1}, NULL);
}

// `vector`, followed by `zeros` zeros.
static hlo_instr *pad_zeros(hlo_instr *vector, i64 zeros) {
  hlo_instr *zero = hlo_build_scalar_i64(vector->parent, vector->shape->dtype, 0);
  return hlo_build_pad(vector, zero, &(hlo_pad_dim){0, zeros, 0});
}

// The operands of a dynamic-slice or -update-slice at `first` and the coordinates in a vector.
static hlo_instr **at_vector(hlo_instr *vector, u32 nfirst, hlo_instr *const *first, u32 rank,
                             hs_arena *a) {
  hlo_instr **ops = HS_NEW_ARRAY(a, hlo_instr *, nfirst + rank + 1);
  memcpy(ops, first, nfirst * sizeof *ops);
  for (u32 d = 0; d < rank; d++) ops[nfirst + d] = hlo_build_reshape(part(vector, d), 0, NULL);
  return ops;
}

static hlo_instr *slice_at(hlo_instr *x, hlo_instr *vector, const i64 *size, hs_arena *a) {
  hlo_ctx *ctx = x->parent->module->ctx;
  const hlo_shape *s = hlo_shape_array(ctx, x->shape->dtype, x->shape->rank, size);
  if (x->shape->layout) s = hlo_shape_with_default_layout(ctx, s);
  hlo_instr *r = hlo_add(x->parent, HLO_DYNAMIC_SLICE, s, x->shape->rank + 1,
                         at_vector(vector, 1, &x, x->shape->rank, a), NULL);
  hlo_set_attr_ints(r, HLO_ATTR_DYNAMIC_SLICE_SIZES, x->shape->rank, size);
  return r;
}

static hlo_instr *update_at(hlo_instr *x, hlo_instr *update, hlo_instr *vector, hs_arena *a) {
  hlo_instr *first[] = {x, update};
  return hlo_add(x->parent, HLO_DYNAMIC_UPDATE_SLICE, x->shape, x->shape->rank + 2,
                 at_vector(vector, 2, first, x->shape->rank, a), NULL);
}

// How index vectors map to the operand's dimensions.
typedef struct index_map {
  const hlo_shape *indices;  // the index array as written
  i64 vector_dim;
  hlo_ints to_operand, batching, operand_batching;
} index_map;

// The coordinates that the batching dimensions of the index array have in iteration `trip`; at[k]
// for batching.v[k].
static void batch_coordinates(const index_map *m, hlo_instr *trip, hlo_instr **at) {
  u32 rank = m->indices->rank, left = m->vector_dim == (i64)rank ? rank : rank - 1;
  hlo_instr *rest = trip;
  for (u32 d = rank; m->batching.n && d-- > 0;) {
    if ((i64)d == m->vector_dim) continue;
    u32 which = 0;
    while (which < m->batching.n && m->batching.v[which] != (i64)d) which++;
    if (--left == 0) {
      if (which < m->batching.n) at[which] = rest;
      return;
    }
    hlo_instr *extent = hlo_build_scalar_i64(trip->parent, trip->shape->dtype, m->indices->dims[d]);
    if (which < m->batching.n) at[which] = hlo_build_binary(HLO_REMAINDER, rest, extent);
    rest = hlo_build_binary(HLO_DIVIDE, rest, extent);
  }
}

// The index vector of iteration i, taken from `indices` ([N] or [N, K]), as a start in all
// dimensions of the operand.
static hlo_instr *operand_start(const index_map *m, u32 operand_rank, hlo_instr *indices,
                                hlo_instr *i, hlo_instr *i_vector, hs_arena *a) {
  hlo_dtype t = indices->shape->dtype;
  hlo_instr *vector;
  if (indices->shape->rank == 1) vector = slice_at(indices, i_vector, &(i64){1}, a);
  else
    vector = without_first(
        slice_at(indices, pad_zeros(i_vector, 1), (i64[]){1, indices->shape->dims[1]}, a));
  if (operand_rank == 0) return vector_constant(i->parent, t, 0, NULL);
  hlo_instr *zero = vector_constant(i->parent, t, 1, &(i64){0}),
            **parts = HS_NEW_ARRAY(a, hlo_instr *, operand_rank), *batch[HLO_MAX_RANK];
  batch_coordinates(m, m->batching.n && t != HLO_S32 ? hlo_build_convert(i, t) : i, batch);
  u32 nbatch = 0;
  for (u32 d = 0; d < operand_rank; d++) {
    u32 k = 0;
    while (k < m->to_operand.n && m->to_operand.v[k] != (i64)d) k++;
    if (k < m->to_operand.n) parts[d] = part(vector, k);
    else
      parts[d] = hlo_ints_has(m->operand_batching, d)
                     ? hlo_build_broadcast(batch[nbatch++], 1, &(i64){1}, NULL)
                     : zero;
  }
  return hlo_build_concatenate(operand_rank, parts, 0);
}

// Whether the index type can represent all iteration numbers, which become indices when there are
// batching dimensions.
static bool trips_fit(const index_map *m, hlo_dtype t, i64 trips) {
  return !m->batching.n || hlo_dtype_bits(t) >= 32 || trips <= (i64)1 << (hlo_dtype_bits(t) - 1);
}

static void with_metadata(hlo_instr *loop, const hlo_instr *from) {
  const hlo_attr *md = hlo_attr_get(from, HLO_ATTR_METADATA);
  if (md) hlo_set_attr(loop, *md);
}

static void with_layout_of(hlo_instr *r, const hlo_instr *old) {
  if (r->shape != old->shape) hlo_set_shape(r, old->shape);
}

// A loop counts in s32.
static hs_status too_many(const hlo_instr *i, const char *what, const char *of) {
  return hs_fail_subject(HS_E_UNSUPPORTED, i->name,
                         "%s operations with more than %d %s indices are not supported. This error "
                         "occurred for %%%s",
                         what, INT32_MAX, of, i->name);
}

// ---- gather -------------------------------------------------------------------------------------
static index_map gather_map(const hlo_instr *g) {
  return (index_map){hlo_operand(g, 1)->shape, hlo_attr_int(g, HLO_ATTR_INDEX_VECTOR_DIM, 0),
                     hlo_attr_ints(g, HLO_ATTR_START_INDEX_MAP),
                     hlo_attr_ints(g, HLO_ATTR_START_INDICES_BATCHING_DIMS),
                     hlo_attr_ints(g, HLO_ATTR_OPERAND_BATCHING_DIMS)};
}

// Every slice is the whole operand.
static bool takes_all(const hlo_instr *g) {
  hlo_ints size = hlo_attr_ints(g, HLO_ATTR_SLICE_SIZES);
  return !size.n || memcmp(size.v, hlo_operand(g, 0)->shape->dims, size.n * sizeof *size.v) == 0;
}

// A slice of no elements has none at the dimensions that the result keeps either.
static bool takes_nothing(const hlo_instr *g) {
  hlo_ints size = hlo_attr_ints(g, HLO_ATTR_SLICE_SIZES);
  for (u32 d = 0; d < size.n; d++)
    if (size.v[d] == 0) return true;
  return false;
}

static void gather_to_broadcast(hlo_instr *g) {
  hlo_ints off = hlo_attr_ints(g, HLO_ATTR_OFFSET_DIMS);
  hlo_instr *x = without_dims(hlo_operand(g, 0), hlo_attr_ints(g, HLO_ATTR_COLLAPSED_SLICE_DIMS),
                              hlo_attr_ints(g, HLO_ATTR_OPERAND_BATCHING_DIMS));
  hlo_replace(g, hlo_add_broadcast(x, g->shape, off.n, off.v));
}

static void gather_to_loop(pass_ctx *c, hlo_instr *g, i64 trips) {
  hs_arena *a = c->scratch;
  index_map m = gather_map(g);
  hlo_instr *x = hlo_operand(g, 0), *idx = vector_dim_last(hlo_operand(g, 1), m.vector_dim);
  hlo_ints size = hlo_attr_ints(g, HLO_ATTR_SLICE_SIZES),
           collapsed = hlo_attr_ints(g, HLO_ATTR_COLLAPSED_SLICE_DIMS),
           off = hlo_attr_ints(g, HLO_ATTR_OFFSET_DIMS);
  bool scalars = m.vector_dim == (i64)m.indices->rank;
  idx = collapse_first(idx, idx->shape->rank - (scalars ? 0 : 1));
  i64 dims[HLO_MAX_RANK + 1] = {trips}, perm[HLO_MAX_RANK];
  u32 rank = 1;
  for (u32 d = 0; d < x->shape->rank; d++)
    if (!hlo_ints_has(collapsed, d) && !hlo_ints_has(m.operand_batching, d))
      dims[rank++] = size.v[d];
  const hlo_shape *rows = hlo_shape_array(c->m->ctx, g->shape->dtype, rank, dims);
  hlo_instr *init[] = {
      x, idx,
      hlo_build_full(g->parent,
                     x->shape->layout ? hlo_shape_with_default_layout(c->m->ctx, rows) : rows, 0)};
  pass_counted l;
  pass_counted_open(&l, g->parent, (i32)trips, 3, init, a);
  hlo_instr *i_vector = hlo_build_broadcast(l.index, 1, &(i64){1}, NULL);
  hlo_instr *start = operand_start(&m, x->shape->rank, l.state[1], l.index, i_vector, a);
  hlo_instr *row = collapse_first(
      without_dims(slice_at(l.state[0], start, size.v, a), collapsed, m.operand_batching), 0);
  hlo_instr *next[] = {l.state[0], l.state[1],
                       update_at(l.state[2], row, pad_zeros(i_vector, rank - 1), a)};
  hlo_instr *w = pass_counted_close(&l, next, a), *r = hlo_add_gte(w, 3);
  with_metadata(w, g);
  u32 n = 0, nbatch, b = 0, o = 0;
  i64 out[HLO_MAX_RANK];
  for (u32 d = 0; d < m.indices->rank; d++)
    if ((i64)d != m.vector_dim) out[n++] = m.indices->dims[d];
  nbatch = n;
  for (u32 d = 1; d < rank; d++) out[n++] = dims[d];
  r = hlo_build_reshape(r, n, out);
  bool straight = true;
  for (u32 d = 0; d < n; d++) {
    perm[d] = hlo_ints_has(off, d) ? nbatch + o++ : b++;
    straight &= perm[d] == (i64)d;
  }
  if (!straight) r = hlo_build_transpose(r, perm);
  with_layout_of(r, g);
  hlo_replace(g, r);
}

static hs_status run_gather_expander(pass_ctx *c) {
  enum { SIMPLE, ALL };
  u32 mode = pass_option_choice(c, "mode");
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_GATHER || hlo_shape_is_dynamic(i->shape) || i->shape->elements == 0)
        continue;
      if (hlo_operand(i, 0)->shape->elements == 0) {
        if (!hlo_dtype_has_zero(i->shape->dtype)) {
          pass_note_declined(c, i, NULL, "its type has no zero");
          continue;
        }
        if (!pass_may_rewrite(c)) return HS_GOOD;
        pass_note_done(c, i, NULL, "from an operand without elements: zeros");
        hlo_replace(i, hlo_build_full(comp, i->shape, 0));
        continue;
      }
      i64 n = vector_count(hlo_operand(i, 1), hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0));
      bool all = takes_all(i);
      index_map m = gather_map(i);
      if (mode == SIMPLE && n != 1 && !all) {
        pass_note_declined(c, i, NULL, "%lld slices: kept whole", (long long)n);
        continue;
      }
      if (takes_nothing(i)) {
        pass_note_declined(c, i, NULL, "its slices have no elements");
        continue;
      }
      if (n > INT32_MAX && !all) return too_many(i, "Gather", "gather");
      if (!all && !trips_fit(&m, m.indices->dtype, n)) {
        pass_note_declined(c, i, NULL, "%lld slices are too many for a loop", (long long)n);
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL,
                     all ? "takes the whole operand: broadcast" : "a loop over %lld slices",
                     (long long)n);
      if (all) gather_to_broadcast(i);
      else gather_to_loop(c, i, n);
    }
  }
  return HS_GOOD;
}

static const pass_option_info gather_expander_options[] = {
    {"mode", PASS_CHOICE, "simple|all",
     "simple: gathers of one slice; all: every gather becomes a loop over its slices"},
};

const pass_info pass_gather_expander = {
    .name = "gather_expander",
    .summary = "expands gathers into loops over their slices",
    .xla_source = "xla/service/gather_expander.cc",
    .run = run_gather_expander,
    .needs = {HLO_GATHER},
    .options = gather_expander_options,
    .noptions = HS_COUNT(gather_expander_options),
    .sample = "ENTRY e {\n"
              "  x = f32[5,4] parameter(0)\n"
              "  row = s32[1] parameter(1)\n"
              "  ROOT y = f32[4] gather(x, row), offset_dims={0}, collapsed_slice_dims={0}, "
              "start_index_map={0}, index_vector_dim=0, slice_sizes={1,4}\n"
              "}\n",
};

// ---- scatter ------------------------------------------------------------------------------------
static index_map scatter_map(const hlo_instr *s) {
  return (index_map){hlo_operand(s, s->noperands / 2)->shape,
                     hlo_attr_int(s, HLO_ATTR_INDEX_VECTOR_DIM, 0),
                     hlo_attr_ints(s, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
                     hlo_attr_ints(s, HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS),
                     hlo_attr_ints(s, HLO_ATTR_INPUT_BATCHING_DIMS)};
}

// Index vectors as [N, K], or [N] when they have one coordinate, which is the last or an implied
// dimension.
static hlo_instr *scatter_vectors(hlo_instr *idx, i64 vector_dim) {
  hlo_instr *last = vector_dim_last(idx, vector_dim);
  u32 rank = idx->shape->rank;
  bool scalars =
      vector_dim == (i64)rank || (vector_dim + 1 == (i64)rank && idx->shape->dims[vector_dim] == 1);
  return collapse_first(last, rank - (scalars ? 0 : 1));
}

// An update array as [N, window].
static hlo_instr *scatter_rows(hlo_instr *u, hlo_ints window, u32 nscatter) {
  i64 perm[HLO_MAX_RANK];
  u32 n = 0;
  for (u32 d = 0; d < u->shape->rank; d++)
    if (!hlo_ints_has(window, d)) perm[n++] = d;
  for (u32 k = 0; k < window.n; k++) perm[n++] = window.v[k];
  return collapse_first(hlo_build_transpose(u, perm), nscatter);
}

// A scalar predicate, broadcast to the window: every coordinate is in [0, operand - window].
static hlo_instr *window_inside(hlo_instr *start, const hlo_shape *operand, const i64 *window) {
  hlo_computation *c = start->parent;
  hlo_dtype t = start->shape->dtype;
  i64 most[HLO_MAX_RANK], dim = 0;
  int bits = HS_MIN(hlo_dtype_bits(t) - (hlo_dtype_is_signed(t) ? 1 : 0), 62);
  for (u32 d = 0; d < operand->rank; d++)
    most[d] = HS_MIN(operand->dims[d] - window[d], ((i64)1 << bits) - 1);
  hlo_instr *zeros = hlo_build_full(c, start->shape, 0);
  hlo_instr *low = hlo_build_compare(zeros, start, HLO_DIRECTION_LE);
  hlo_instr *high =
      hlo_build_compare(vector_constant(c, t, operand->rank, most), start, HLO_DIRECTION_GE);
  hlo_instr *both = hlo_build_binary(HLO_AND, low, high),
            *yes = hlo_build_scalar_i64(c, HLO_PRED, 1);
  hlo_computation *all = hlo_build_scalar_computation(c->module, HLO_AND, HLO_PRED);
  return hlo_build_broadcast(hlo_build_reduce(both, yes, 1, &dim, all), operand->rank, window,
                             NULL);
}

static hlo_instr *as_type(hlo_instr *x, hlo_dtype t) {
  return x->shape->dtype == t ? x : hlo_build_convert(x, t);
}

static void scatter_to_loop(pass_ctx *c, hlo_instr *s, i64 trips) {
  hs_arena *a = c->scratch;
  u32 n = s->noperands / 2, rank = hlo_operand(s, 0)->shape->rank;
  index_map m = scatter_map(s);
  hlo_ints window = hlo_attr_ints(s, HLO_ATTR_UPDATE_WINDOW_DIMS),
           inserted = hlo_attr_ints(s, HLO_ATTR_INSERTED_WINDOW_DIMS);
  u32 nscatter = hlo_operand(s, n + 1)->shape->rank - window.n;
  hlo_instr **init = HS_NEW_ARRAY(a, hlo_instr *, 2 * n + 1),
            **next = HS_NEW_ARRAY(a, hlo_instr *, 2 * n + 1),
            **pair = HS_NEW_ARRAY(a, hlo_instr *, 2 * n),
            **combined = HS_NEW_ARRAY(a, hlo_instr *, 2 * n);
  const hlo_computation *combiner = hlo_attr_comp(s, HLO_ATTR_TO_APPLY);
  for (u32 k = 0; k < n; k++) {
    // where the result states another precision, all is done in the combiner's
    bool other = hlo_shape_leaf(s->shape, k)->dtype != hlo_operand(s, k)->shape->dtype;
    init[k] =
        other ? as_type(hlo_operand(s, k), combiner->params[k]->shape->dtype) : hlo_operand(s, k);
    init[n + 1 + k] = scatter_rows(hlo_operand(s, n + 1 + k), window, nscatter);
  }
  init[n] = scatter_vectors(hlo_operand(s, n), m.vector_dim);
  pass_counted l;
  pass_counted_open(&l, s->parent, (i32)trips, 2 * n + 1, init, a);
  hlo_instr *i_vector = hlo_build_broadcast(l.index, 1, &(i64){1}, NULL);
  hlo_instr *start = operand_start(&m, rank, l.state[n], l.index, i_vector, a);
  hlo_instr *row_start = pad_zeros(i_vector, window.n);
  i64 size[HLO_MAX_RANK], row[HLO_MAX_RANK];
  memcpy(row, init[n + 1]->shape->dims, (window.n + 1) * sizeof *row);
  row[0] = 1;
  for (u32 d = 0, w = 0; d < rank; d++)
    size[d] = hlo_ints_has(inserted, d) || hlo_ints_has(m.operand_batching, d) ? 1 : row[1 + w++];
  for (u32 k = 0; k < n; k++) {
    hlo_instr *u = without_first(slice_at(l.state[n + 1 + k], row_start, row, a));
    pair[n + k] = window.n == rank ? u : hlo_build_reshape(u, rank, size);
    pair[k] = slice_at(l.state[k], start, size, a);
  }
  hlo_instr *inside = rank ? window_inside(start, hlo_operand(s, 0)->shape, size) : NULL;
  for (u32 k = 0; k < n; k++) {
    hlo_computation *f = pass_element_of(hlo_attr_comp(s, HLO_ATTR_TO_APPLY), k);
    // the combiner may have another float type
    for (u32 j = 0; k == 0 && j < 2 * n; j++)
      combined[j] = as_type(pair[j], f->params[j]->shape->dtype);
    const hlo_shape *mapped =
        hlo_shape_with_dtype(c->m->ctx, pair[k]->shape, f->root->shape->dtype);
    hlo_instr *now =
        as_type(hlo_add_call(l.body, HLO_MAP, mapped, HLO_ATTR_TO_APPLY, f, 2 * n, combined),
                pair[k]->shape->dtype);
    next[k] =
        update_at(l.state[k], inside ? hlo_build_select(inside, now, pair[k]) : now, start, a);
  }
  memcpy(next + n, l.state + n, (n + 1) * sizeof *next);
  hlo_instr *w = pass_counted_close(&l, next, a), **results = HS_NEW_ARRAY(a, hlo_instr *, n);
  with_metadata(w, s);
  for (u32 k = 0; k < n; k++) results[k] = hlo_add_gte(w, k + 1);
  hlo_instr *r = n == 1 ? results[0] : hlo_add_tuple(s->parent, n, results);
  hlo_replace(s, pass_as_stated(r, s->shape));
}

// Combiners for which the order of the updates does not matter.
static bool any_order(const hlo_computation *f) {
  const hlo_instr *r = f->root;
  if (f->ninstrs != 3) return false;
  switch (r->opcode) {
  case HLO_MINIMUM:
  case HLO_MAXIMUM: return true;
  case HLO_ADD:
  case HLO_MULTIPLY:
  case HLO_OR:
  case HLO_XOR: return hlo_dtype_is_integer(r->shape->dtype);
  default: return false;
  }
}

// Of the indices or updates only some may be in use, which a loop over all of them does not know.
static bool has_dynamic(const hlo_instr *i) {
  return hlo_shape_is_dynamic(i->shape) || pass_reads_cut(i);
}

static hs_status run_scatter_expander(pass_ctx *c) {
  enum { ALL, SIMPLE, INDETERMINATE };
  u32 mode = pass_option_choice(c, "mode");
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_SCATTER || has_dynamic(i)) continue;
      u32 nops = i->noperands / 2;
      index_map m = scatter_map(i);
      i64 n = vector_count(hlo_operand(i, nops), m.vector_dim);
      if (mode == SIMPLE && n != 1) {
        pass_note_declined(c, i, NULL, "%lld updates: kept whole", (long long)n);
        continue;
      }
      bool fixed = n == 1 || hlo_attr_int(i, HLO_ATTR_UNIQUE_INDICES, 0) ||
                   any_order(hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
      if (mode == INDETERMINATE && fixed) {
        pass_note_declined(c, i, NULL, "its result does not depend on the order of the updates");
        continue;
      }
      if (n > INT32_MAX) return too_many(i, "Scatter", "scatter");
      if (!trips_fit(&m, m.indices->dtype, n)) {
        pass_note_declined(c, i, NULL, "%lld updates are too many for a loop", (long long)n);
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      bool none =
          hlo_operand(i, nops + 1)->shape->elements == 0 || hlo_operand(i, 0)->shape->elements == 0;
      pass_note_done(c, i, NULL,
                     none ? "there is nothing to update, or to update with"
                          : "a loop over %lld updates",
                     (long long)n);
      if (!none) {
        scatter_to_loop(c, i, n);
        continue;
      }
      hlo_instr **same = HS_NEW_ARRAY(c->scratch, hlo_instr *, nops);
      for (u32 k = 0; k < nops; k++) same[k] = hlo_operand(i, k);
      hlo_instr *now = nops == 1 ? same[0] : hlo_add_tuple(comp, nops, same);
      hlo_replace(i, pass_as_stated(now, i->shape));
    }
  }
  return HS_GOOD;
}

static const pass_option_info scatter_expander_options[] = {
    {"mode", PASS_CHOICE, "all|simple|indeterminate",
     "simple: scatters of one update; indeterminate: those whose result may depend on the order "
     "of updates"},
};

const pass_info pass_scatter_expander = {
    .name = "scatter_expander",
    .summary = "expands scatters into loops over their updates",
    .xla_source = "xla/service/scatter_expander.cc",
    .run = run_scatter_expander,
    .needs = {HLO_SCATTER},
    .options = scatter_expander_options,
    .noptions = HS_COUNT(scatter_expander_options),
    .sample =
        PASS_SUM "ENTRY e {\n"
                 "  x = f32[5,4] parameter(0)\n"
                 "  row = s32[1] parameter(1)\n"
                 "  u = f32[4] parameter(2)\n"
                 "  ROOT y = f32[5,4] scatter(x, row, u), update_window_dims={0}, "
                 "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, "
                 "to_apply=sum\n"
                 "}\n",
};
