// shard.c — arrays of partitioned programs: split into the devices' tiles, and joined again. XLA
// pads tiles at the upper edge to the size of the others; the padding is zero here and dropped when
// the tiles are joined.
//
// pjrt_whole does the same with modules: XLA's optimized module of a partitioned program is the
// program of one device. Called between XLA's markers of manual regions (SPMDFullToShardShape and
// SPMDShardToFullShape), which the evaluator knows, it is a program on whole arrays again.
#include "backends/pjrt/pjrt.h"
#include "core/eval/eval.h"

hs_status pjrt_tiles_make(hlo_ctx *ctx, const hlo_shape *whole, const hlo_sharding *s, u32 ndevices,
                          pjrt_tiles *out) {
  *out = (pjrt_tiles){.whole = whole, .part = whole, .ndevices = ndevices, .sharding = s};
  if (!s || ndevices < 2) return HS_GOOD;
  out->coord = hs_calloc((size_t)ndevices * HS_MAX(whole->rank, 1u), sizeof *out->coord);
  out->share = hs_calloc(ndevices, sizeof *out->share);
  if (!hlo_sharding_tiles(s, whole->rank, ndevices, out->coord, out->share)) {
    pjrt_tiles_free(out);
    return hs_fail(HS_E_UNSUPPORTED,
                   "a sharding of an argument or result is no tiling of the devices");
  }
  for (u32 k = 0; k < ndevices; k++) out->sum |= out->share[k].addend > 0;
  if (out->sum && !hlo_add_bytes(whole->dtype, NULL, NULL, 0)) {
    pjrt_tiles_free(out);
    return hs_fail(HS_E_UNSUPPORTED, "a sum over devices of a type without addition");
  }
  i64 dims[HLO_MAX_RANK];
  bool cut = false;
  for (u32 d = 0; d < whole->rank; d++) {
    i64 tiles = 1;
    for (u32 k = 0; k < ndevices; k++)
      tiles = HS_MAX(tiles, out->coord[(size_t)k * whole->rank + d] + 1);
    dims[d] = (whole->dims[d] + tiles - 1) / tiles;
    cut |= tiles > 1;
  }
  if (cut)
    out->part = hlo_shape_with_layout(ctx, hlo_shape_array(ctx, whole->dtype, whole->rank, dims),
                                      whole->layout);
  return HS_GOOD;
}

void pjrt_tiles_free(pjrt_tiles *t) {
  hs_free(t->coord);
  hs_free(t->share);
  t->coord = NULL;
  t->share = NULL;
}

// Copies the rows of a tile; `into` says in which direction.
static void copy(const pjrt_tiles *t, u32 device, char *whole, char *part, bool into) {
  const hlo_shape *w = t->whole, *p = t->part;
  size_t size = hlo_dtype_storage(w->dtype);
  i64 ws[HLO_MAX_RANK], ps[HLO_MAX_RANK], n[HLO_MAX_RANK], index[HLO_MAX_RANK] = {0}, base = 0;
  hlo_row_major_strides(w->rank, w->dims, ws);
  hlo_row_major_strides(p->rank, p->dims, ps);
  for (u32 d = 0; d < w->rank; d++) {
    i64 start = t->coord[(size_t)device * w->rank + d] * p->dims[d];
    n[d] = HS_MIN(p->dims[d], w->dims[d] - start);
    if (n[d] <= 0) return;
    base += start * ws[d];
  }
  if (!w->rank) {
    memcpy(into ? whole : part, into ? part : whole, size);
    return;
  }
  u32 last = w->rank - 1;
  for (;;) {
    i64 a = base, b = 0;
    for (u32 d = 0; d < last; d++) a += index[d] * ws[d], b += index[d] * ps[d];
    char *x = whole + (size_t)a * size, *y = part + (size_t)b * size;
    memcpy(into ? x : y, into ? y : x, (size_t)n[last] * size);
    u32 d = last;
    while (d-- > 0 && ++index[d] == n[d]) index[d] = 0;
    if (d == UINT32_MAX) return;
  }
}

void pjrt_tiles_cut(const pjrt_tiles *t, u32 device, const void *whole, void *part) {
  if (t->sum && t->share[device].addend) return;
  copy(t, device, (char *)(uintptr_t)whole, part, false);
}

// Where the array is a sum, the tile is added.
void pjrt_tiles_join(const pjrt_tiles *t, u32 device, const void *part, void *whole) {
  if (!t->sum) {
    copy(t, device, whole, (char *)(uintptr_t)part, true);
    return;
  }
  if (t->share[device].copy) return;
  char *x = hs_calloc((size_t)HS_MAX(t->whole->elements, 1), hlo_dtype_storage(t->whole->dtype));
  copy(t, device, x, (char *)(uintptr_t)part, true);
  (void)hlo_add_bytes(t->whole->dtype, whole, x, t->whole->elements);  // pjrt_tiles_make asked
  hs_free(x);
}

// ---- modules ------------------------------------------------------------------------------------

// Sets a copy of the sharding.
static void mark(hlo_instr *i, const hlo_sharding *s) {
  hlo_module *m = i->parent->module;
  const hlo_attr a = {.id = HLO_ATTR_SHARDING, .v.p = s};
  if (s) hlo_set_attr(i, hlo_attr_clone(&m->arena, &a, NULL, NULL));
}

// A conversion between a tile and the whole array, marked with the sharding.
static hlo_instr *cross(hlo_instr *from, const pjrt_tiles *t, bool into) {
  if (pjrt_tiles_whole(t)) return from;
  hlo_instr *i = hlo_add(from->parent, HLO_CUSTOM_CALL, into ? t->part : t->whole, 1, &from, NULL);
  hlo_set_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET,
                   hs_str_of(into ? "SPMDFullToShardShape" : "SPMDShardToFullShape"));
  mark(into ? from : i, t->sharding);
  return i;
}

// Makes the root: the elements of the call's tuple, or its array, as whole arrays.
static void join_results(hlo_computation *c, hlo_instr *call, u32 nouts, const pjrt_tiles *out,
                         hs_arena *a) {
  if (hlo_shape_is_array(call->shape)) {
    hlo_set_root(c, cross(call, &out[0], false));
    return;
  }
  hlo_instr **kids = HS_NEW_ARRAY(a, hlo_instr *, nouts + 1);
  for (u32 k = 0; k < nouts; k++) kids[k] = cross(hlo_add_gte(call, k), &out[k], false);
  hlo_set_root(c, hlo_add_tuple(c, nouts, kids));
}

static bool takes(const hlo_computation *e, u32 nargs, const pjrt_tiles *arg, bool parts) {
  if (e->nparams != nargs) return false;
  for (u32 k = 0; k < nargs; k++)
    if (!hlo_shape_compatible(e->params[k]->shape, parts ? arg[k].part : arg[k].whole))
      return false;
  return true;
}

static bool gives(const hlo_shape *s, u32 nouts, const pjrt_tiles *out, bool parts) {
  if (hlo_shape_is_array(s))
    return nouts == 1 && hlo_shape_compatible(s, parts ? out[0].part : out[0].whole);
  if (s->nelems != nouts) return false;
  for (u32 k = 0; k < nouts; k++)
    if (!hlo_shape_compatible(s->elems[k], parts ? out[k].part : out[k].whole)) return false;
  return true;
}

hs_status pjrt_whole(const hlo_module *from, u32 nargs, const pjrt_tiles *arg, u32 nouts,
                     const pjrt_tiles *out, hlo_module **whole) {
  *whole = NULL;
  if (!from->entry || !from->entry->root)
    return hs_fail(HS_E_VERIFY, "the module has no entry computation");
  hlo_module *m = hlo_module_clone(from, from->name);
  hlo_journal_disable(m);
  *whole = m;
  hlo_computation *part = m->entry;
  if (takes(part, nargs, arg, false) && gives(part->root->shape, nouts, out, false)) return HS_GOOD;
  if (!takes(part, nargs, arg, true) || !gives(part->root->shape, nouts, out, true)) {
    hlo_module_free(m);
    *whole = NULL;
    return hs_fail(HS_E_UNSUPPORTED,
                   "%s takes or gives neither the program's arrays nor the tiles of one device",
                   from->name);
  }
  static const hlo_attr_id gone[] = {HLO_ATTR_IS_SCHEDULED, HLO_ATTR_INPUT_OUTPUT_ALIAS,
                                     HLO_ATTR_BUFFER_DONOR, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT};
  for (size_t k = 0; k < HS_COUNT(gone); k++) hlo_remove_module_attr(m, gone[k]);
  hs_arena a = {0};
  hlo_computation *c = hlo_add_computation(m, "all_devices");
  hlo_instr **args = HS_NEW_ARRAY(&a, hlo_instr *, nargs + 1);
  for (u32 k = 0; k < nargs; k++)
    args[k] = cross(hlo_add_parameter(c, k, arg[k].whole, NULL), &arg[k], true);
  join_results(c,
               hlo_add_call(c, HLO_CALL, part->root->shape, HLO_ATTR_TO_APPLY, part, nargs, args),
               nouts, out, &a);
  hlo_set_entry(m, c);
  hs_arena_free(&a);
  return HS_GOOD;
}
