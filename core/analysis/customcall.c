// customcall.c — the table of custom calls: finding a target's row, its shape rule and its cost.
//
// Calls to libraries often return their result in a tuple with scratch space; "the result" below is
// the first array.
#include "core/ir/config.h"
#include "core/analysis/customcall.h"

typedef struct row {
  const char *target;
  bool (*shape)(const hlo_instr *);
  hlo_cost (*cost)(const hlo_instr *);
  u32 flags;
} row;

enum { MARKER = 1, DEVICES = 2, BODY = 4, JAX = 8 };  // the flags of customcalls.def

// ---- shapes -------------------------------------------------------------------------------------
static const hlo_shape *result_array(const hlo_instr *i) {
  const hlo_shape *s = i->shape;
  while (hlo_shape_is_tuple(s) && s->nelems) s = s->elems[0];
  return s;
}
static bool arrays(const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++)
    if (!hlo_shape_is_array(hlo_operand(i, k)->shape)) return false;
  return true;
}
static bool custom_shape_any(const hlo_instr *i) {
  (void)i;
  return true;
}
static bool custom_shape_array(const hlo_instr *i) {
  return i->noperands && hlo_shape_is_array(i->shape) && arrays(i);
}
static bool custom_shape_first(const hlo_instr *i) {
  return i->noperands && hlo_shape_compatible(i->shape, hlo_operand(i, 0)->shape);
}
static bool same_array(const hlo_shape *a, const hlo_shape *b) {
  return hlo_shape_is_array(a) && hlo_shape_is_array(b) && a->dtype == b->dtype &&
         a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}
// The same, but that dimensions which one calls dynamic the other may not.
static bool same_bounds(const hlo_shape *a, const hlo_shape *b) {
  if (hlo_shape_compatible(a, b) || same_array(a, b)) return true;
  if (!hlo_shape_is_tuple(a) || !hlo_shape_is_tuple(b) || a->nelems != b->nelems) return false;
  for (u32 k = 0; k < a->nelems; k++)
    if (!same_bounds(a->elems[k], b->elems[k])) return false;
  return true;
}
// One result per operand, of its shape (one of either stands without a tuple); without operands the
// empty tuple.
static bool custom_shape_same(const hlo_instr *i) {
  if (i->noperands == 1 && same_bounds(i->shape, hlo_operand(i, 0)->shape)) return true;
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != i->noperands) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (!same_bounds(i->shape->elems[k], hlo_operand(i, k)->shape)) return false;
  return true;
}
// As `same`, but sizes of arrays may differ: one side is a tile of the other.
static bool custom_shape_ranks(const hlo_instr *i) {
  bool one = i->noperands == 1 && !hlo_shape_is_tuple(i->shape);
  if (!i->noperands ||
      (!one && (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != i->noperands)))
    return false;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *a = hlo_operand(i, k)->shape, *b = one ? i->shape : i->shape->elems[k];
    bool tile = hlo_shape_is_array(a) && a->dtype == b->dtype && a->rank == b->rank;
    if (!tile && !hlo_shape_compatible(a, b)) return false;
  }
  return true;
}
static const hlo_computation *called(const hlo_instr *i) {
  return hlo_ncalled(i) == 1 ? hlo_called(i, 0) : NULL;
}
static bool custom_shape_body(const hlo_instr *i) {
  const hlo_computation *c = called(i);
  if (!c || c->nparams != i->noperands || !hlo_shape_compatible(c->root->shape, i->shape))
    return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (!hlo_shape_compatible(c->params[k]->shape, hlo_operand(i, k)->shape)) return false;
  return true;
}
// Calls into libraries: arrays to an array, or to a tuple of them.
static bool custom_shape_library(const hlo_instr *i) {
  const hlo_shape *s = i->shape;
  if (!i->noperands || !arrays(i)) return false;
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems; k++)
    if (!hlo_shape_is_array(s->elems[k])) return false;
  return hlo_shape_is_tuple(s) ? s->nelems != 0 : hlo_shape_is_array(s);
}
// A buffer is the array in it.
static const hlo_shape *held(const hlo_shape *s) {
  return s->dtype == HLO_BUFFER && s->nelems ? s->elems[0] : s;
}
static bool custom_shape_held(const hlo_instr *i) {
  return i->noperands == 1 && hlo_shape_compatible(held(i->shape), held(hlo_operand(i, 0)->shape));
}
// Sizes follow the array: one scalar of integers for each of its dimensions.
static bool is_size(const hlo_shape *s) {
  return hlo_shape_is_scalar(s) && hlo_dtype_is_integer(s->dtype);
}
static bool custom_shape_sized(const hlo_instr *i) {
  if (!i->noperands || !same_array(hlo_operand(i, 0)->shape, i->shape) ||
      i->noperands != i->shape->rank + 1u)
    return false;
  for (u32 k = 1; k < i->noperands; k++)
    if (!is_size(hlo_operand(i, k)->shape)) return false;
  return true;
}
static bool custom_shape_sizes(const hlo_instr *i) {
  if (i->noperands != 1 || !hlo_shape_is_tuple(i->shape) || !i->shape->nelems ||
      !same_array(hlo_operand(i, 0)->shape, i->shape->elems[0]) ||
      i->shape->nelems != i->shape->elems[0]->rank + 1u)
    return false;
  for (u32 k = 1; k < i->shape->nelems; k++)
    if (!is_size(i->shape->elems[k])) return false;
  return true;
}
static bool custom_shape_matrix(const hlo_instr *i) {
  return i->noperands && arrays(i) && hlo_operand(i, 0)->shape->rank >= 2 &&
         hlo_shape_is_array(result_array(i));
}
// Of an array the first k of each line of its last dimension, and where they stood.
static bool custom_shape_topk(const hlo_instr *i) {
  const hlo_shape *to = i->shape, *s = i->noperands == 1 ? hlo_operand(i, 0)->shape : NULL;
  if (!s || !hlo_shape_is_array(s) || !s->rank || !hlo_shape_is_tuple(to) || to->nelems != 2)
    return false;
  for (u32 k = 0; k < 2; k++) {
    const hlo_shape *r = to->elems[k];
    if (!hlo_shape_is_array(r) || r->dtype != (k ? HLO_S32 : s->dtype) || r->rank != s->rank)
      return false;
    for (u32 d = 0; d + 1 < s->rank; d++)
      if (r->dims[d] != s->dims[d]) return false;
  }
  i64 k = to->elems[0]->dims[s->rank - 1];
  return k == to->elems[1]->dims[s->rank - 1] && k <= s->dims[s->rank - 1];
}
static bool custom_shape_conv(const hlo_instr *i) {
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  return l && (w ? w->n : 0) == l->nspatial && i->noperands >= 2 && arrays(i) &&
         hlo_shape_is_array(result_array(i)) && result_array(i)->rank == l->nspatial + 2 &&
         hlo_operand(i, 0)->shape->rank == l->nspatial + 2 &&
         hlo_operand(i, 1)->shape->rank == l->nspatial + 2;
}
// As `conv`, of two arrays to one.
static bool custom_shape_conv_one(const hlo_instr *i) {
  return i->noperands == 2 && hlo_shape_is_array(i->shape) && custom_shape_conv(i);
}

// ---- costs --------------------------------------------------------------------------------------
static double leaf_bytes(const hlo_shape *s) {
  double sum = 0;
  for (u32 k = 0, n = hlo_shape_leaves(s); k < n; k++)
    if (hlo_shape_is_array(hlo_shape_leaf(s, k)))
      sum += (double)hlo_shape_bytes(hlo_shape_leaf(s, k));
  return sum;
}
static hlo_cost custom_cost_free(const hlo_instr *i) {
  (void)i;
  return (hlo_cost){0};
}
static hlo_cost custom_cost_move(const hlo_instr *i) {
  hlo_cost c = {.bytes_written = leaf_bytes(i->shape)};
  for (u32 k = 0; k < i->noperands; k++) c.bytes_read += leaf_bytes(hlo_operand(i, k)->shape);
  return c;
}
static double elements(const hlo_shape *s) {
  return hlo_shape_is_array(s) ? (double)s->elements : 0;
}
// 2 m n k: the contracted size is what both operands have and the result has not, so k² = |a| |b|
// / |result| for one batch.
static hlo_cost custom_cost_gemm(const hlo_instr *i) {
  hlo_cost c = custom_cost_move(i);
  i64 dims[8];
  const hlo_shape *a = i->noperands ? hlo_operand(i, 0)->shape : NULL;
  if (!a || !a->rank) return c;
  double k = (double)a->dims[a->rank - 1];
  u32 n = hlo_config_list(i, NULL, "lhs_contracting_dimensions", dims, HS_COUNT(dims));
  for (u32 d = 0; d < n; d++) {
    if (d == 0) k = 1;
    if (dims[d] >= 0 && dims[d] < a->rank) k *= (double)a->dims[dims[d]];
  }
  c.flops = 2 * k * elements(result_array(i));
  return c;
}
static hlo_cost custom_cost_conv(const hlo_instr *i) {
  hlo_cost c = custom_cost_move(i);
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  if (i->noperands < 2) return c;
  const hlo_shape *kernel = hlo_operand(i, 1)->shape;
  double features = l && l->rhs_output_feature >= 0 && l->rhs_output_feature < kernel->rank
                        ? (double)kernel->dims[l->rhs_output_feature]
                        : 1;
  c.flops = 2 * elements(result_array(i)) * elements(kernel) / (features > 0 ? features : 1);
  return c;
}
// A factorization: about n³ of each matrix.
static hlo_cost custom_cost_linalg(const hlo_instr *i) {
  hlo_cost c = custom_cost_move(i);
  const hlo_shape *a = i->noperands ? hlo_operand(i, 0)->shape : NULL;
  if (a && a->rank >= 2)
    c.flops = elements(a) * (double)HS_MIN(a->dims[a->rank - 1], a->dims[a->rank - 2]);
  return c;
}
static hlo_cost custom_cost_body(const hlo_instr *i) {
  hlo_cost c = custom_cost_move(i);
  const hlo_computation *body = called(i);
  if (body)
    hlo_for_each_instr(k, body) {
      hlo_cost one = hlo_cost_instr(k);
      c.flops += one.flops;
      c.transcendentals += one.transcendentals;
    }
  return c;
}

// ---- the table ----------------------------------------------------------------------------------
static const row rows[HLO_CUSTOM_COUNT] = {
#define CUSTOM(id, target, shape, eval, cost, flags) \
  [HLO_CUSTOM_##id] = {target, custom_shape_##shape, custom_cost_##cost, flags},
#include "core/analysis/customcalls.def"
#undef CUSTOM
};

static bool matches(const char *pattern, hs_str name) {
  for (size_t k = 0; k < name.n; k++, pattern++) {
    if (*pattern == '*') return true;
    if (*pattern == '?' ? !memchr("sdcz", name.p[k], 4) : *pattern != name.p[k]) return false;
  }
  return *pattern == 0 || *pattern == '*';
}

hlo_custom_id hlo_custom_find(hs_str target) {
  for (u32 id = 1; id < HLO_CUSTOM_COUNT; id++)
    if (matches(rows[id].target, target)) return (hlo_custom_id)id;
  return HLO_CUSTOM_UNKNOWN;
}

bool hlo_custom_shape_fits(hlo_custom_id id, const hlo_instr *i) {
  return id != HLO_CUSTOM_UNKNOWN && rows[id].shape(i);
}

static const row *row_of(const hlo_instr *i) {
  if (i->opcode != HLO_CUSTOM_CALL) return &rows[HLO_CUSTOM_UNKNOWN];
  return &rows[hlo_custom_find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET))];
}

bool hlo_custom_is_marker(const hlo_instr *i) {
  const row *r = row_of(i);
  return (r->flags & MARKER) && r->shape(i);
}

bool hlo_custom_is_of_devices(const hlo_instr *i) { return row_of(i)->flags & DEVICES; }

bool hlo_custom_is_body(const hlo_instr *i) {
  const row *r = row_of(i);
  return (r->flags & BODY) && r->shape(i);
}

bool hlo_custom_is_of_jaxlib(const hlo_instr *i) { return row_of(i)->flags & JAX; }

bool hlo_custom_cost(const hlo_instr *i, hlo_cost *out) {
  hlo_custom_id id = hlo_custom_find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET));
  if (!hlo_custom_shape_fits(id, i)) return false;
  *out = rows[id].cost(i);
  return true;
}
