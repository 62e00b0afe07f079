// sharding.c — the shardings of results of which the program says nothing. XLA's partitioner
// finds one for each; here it follows from what made the result, behind calls and elementwise
// operations: the end of a manual region says which tile of it a device has, a constraint what it
// is to be, and everything else is on all devices.
#include "plugin/plugin.h"

// The result of a manual region behind a root, and which one of it; NULL: it is something else.
static const hlo_instr *region_end(const hlo_instr *i, u32 *which) {
  *which = 0;
  if (i->opcode == HLO_GET_TUPLE_ELEMENT) {
    *which = (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0);
    i = hlo_operand(i, 0);
  }
  bool end = i->opcode == HLO_CUSTOM_CALL && hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET),
                                                       HS_STR("xla.sdy.LocalToGlobalShape"));
  return end ? i : NULL;
}

// coord[device * rank + dimension] as tiles of which `rest` devices have each the same; NULL: it is
// not so, or there is one tile.
static const hlo_sharding *of_tiles(hs_arena *a, u32 rank, u32 n, const i64 *coord) {
  i64 *dims = HS_NEW_ARRAY(a, i64, rank + 1), *devices = HS_NEW_ARRAY(a, i64, n), tiles = 1;
  u32 *taken = HS_NEW_ARRAY(a, u32, n);
  for (u32 d = 0; d < rank; d++) {
    dims[d] = 1;
    for (u32 k = 0; k < n; k++) dims[d] = HS_MAX(dims[d], coord[k * rank + d] + 1);
    if ((tiles *= dims[d]) > n) return NULL;
  }
  if (tiles == 1 || n % tiles) return NULL;
  u32 rest = n / (u32)tiles;
  for (u32 k = 0; k < n; k++) {
    i64 tile = 0;
    for (u32 d = 0; d < rank; d++) tile = tile * dims[d] + coord[k * rank + d];
    if (taken[tile] == rest) return NULL;
    devices[tile * rest + taken[tile]++] = k;
  }
  dims[rank] = rest;
  hlo_sharding *s = HS_NEW(a, hlo_sharding);
  *s = (hlo_sharding){.type = HLO_SH_TILED,
                      .dims = {rank + (rest > 1), dims},
                      .devices = {n, devices},
                      .replicate_last = rest > 1};
  return s;
}

// The value that a called computation returns in the place of this one; NULL: it is no call's.
static const hlo_instr *returned(const hlo_instr *i) {
  bool element = i->opcode == HLO_GET_TUPLE_ELEMENT;
  const hlo_instr *call = element ? hlo_operand(i, 0) : i;
  const hlo_computation *c =
      call->opcode == HLO_CALL ? hlo_attr_comp(call, HLO_ATTR_TO_APPLY) : NULL;
  if (!c || !element) return c ? c->root : NULL;
  i64 k = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
  return c->root->opcode == HLO_TUPLE && k < c->root->noperands ? hlo_operand(c->root, (u32)k)
                                                                : NULL;
}

enum { MOST_STEPS = 256 };  // that are looked at for one result

// What gives a value its sharding: the elementwise operations on the way keep it. Of several
// operands the first that is sharded at all has its way.
static const hlo_instr *maker_of(const hlo_instr *i, u32 *steps) {
  u32 which;
  if (*steps == 0 || hlo_attr_ptr(i, HLO_ATTR_SHARDING) || region_end(i, &which)) return i;
  --*steps;
  const hlo_instr *inner = returned(i);
  if (inner) return maker_of(inner, steps);
  if (!hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && i->opcode != HLO_COPY) return i;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *from = maker_of(hlo_operand(i, k), steps);
    bool sharded = from->opcode != HLO_PARAMETER &&
                   (hlo_attr_ptr(from, HLO_ATTR_SHARDING) || region_end(from, &which));
    if (sharded && hlo_shape_is_array(from->shape) && from->shape->rank == i->shape->rank)
      return from;
  }
  return i;
}

static const hlo_sharding whole = {.type = HLO_SH_REPLICATED};

// A manual region of whose result each device has all: along the other axes it is as a constraint
// inside has it.
static const hlo_sharding *inside(const hlo_instr *end, u32 which, u32 *steps) {
  if (which >= end->noperands) return &whole;
  const hlo_instr *i = hlo_operand(end, which);
  const hlo_shape *out = hlo_shape_is_tuple(end->shape) ? end->shape->elems[which] : end->shape;
  if (i->shape->logical != out->logical) return &whole;
  i = maker_of(i, steps);
  const hlo_sharding *stated = hlo_attr_ptr(i, HLO_ATTR_SHARDING);
  bool tiled = i->opcode == HLO_CUSTOM_CALL && stated && stated->type == HLO_SH_TILED;
  return tiled ? stated : &whole;
}

static const hlo_sharding *found_for(hlo_module *m, const hlo_instr *i, u32 partitions) {
  u32 steps = MOST_STEPS;
  i = maker_of(i, &steps);
  const hlo_sharding *stated = hlo_attr_ptr(i, HLO_ATTR_SHARDING);
  if (i->opcode == HLO_CUSTOM_CALL && stated && stated->type == HLO_SH_TILED) return stated;
  u32 which, rank = i->shape->rank;
  const hlo_instr *end = hlo_shape_is_array(i->shape) ? region_end(i, &which) : NULL;
  if (!end) return &whole;
  i64 *coord = hs_calloc((size_t)partitions * HS_MAX(rank, 1u), sizeof *coord);
  const hlo_sharding *s = NULL;
  if (hlo_manual_tiles(end, which, rank, partitions, coord))
    s = of_tiles(&m->arena, rank, partitions, coord);
  hs_free(coord);
  return s ? s : inside(end, which, &steps);
}

void plug_state_result_shardings(hlo_module *m, u32 partitions) {
  hlo_instr *root = m->entry->root;
  bool nothing = root->opcode == HLO_TUPLE && !root->noperands;
  if (partitions < 2 || nothing || root->opcode == HLO_PARAMETER ||
      hlo_attr_ptr(root, HLO_ATTR_SHARDING))
    return;
  const hlo_sharding *all = NULL;
  if (root->opcode == HLO_TUPLE) {
    u32 n = root->noperands;
    const hlo_sharding **v = HS_NEW_ARRAY(&m->arena, const hlo_sharding *, n + 1);
    for (u32 k = 0; k < n; k++) {
      if (!hlo_shape_is_array(hlo_operand(root, k)->shape)) return;
      v[k] = found_for(m, hlo_operand(root, k), partitions);
    }
    hlo_sharding *s = HS_NEW(&m->arena, hlo_sharding);
    *s = (hlo_sharding){.type = HLO_SH_TUPLE, .nchildren = n, .children = v};
    all = s;
  } else if (hlo_shape_is_array(root->shape)) {
    all = found_for(m, root, partitions);
  }
  if (all) hlo_set_attr(root, (hlo_attr){HLO_ATTR_SHARDING, {.p = all}});
}
