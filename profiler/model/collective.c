// collective.c: seconds of a collective operation among devices. See prof.h.
//
// Ring algorithms move the least bytes and pay a step per device; trees pay a step per doubling
// (Thakur, Rabenseifner and Gropp, 2005, "Optimization of collective communication operations in
// MPICH"). The faster of the two is taken, as libraries do. A group larger than a node goes at the
// slower of its links and the network.
#include "profiler/model/prof.h"

#include <math.h>

#include "core/analysis/customcall.h"
#include "core/eval/eval.h"

static double first_bytes(const hlo_instr *i) {
  double b = 0;
  for (u32 k = 0; k < i->noperands; k++) b += (double)hlo_shape_bytes(hlo_operand(i, k)->shape);
  return b;
}

// The tiles that a sharding speaks of.
static i64 tiles_of(const hlo_sharding *s) {
  i64 most = 1, n = 1;
  if (!s) return 1;
  for (u32 k = 0; k < s->nchildren; k++) most = HS_MAX(most, tiles_of(s->children[k]));
  for (u32 k = 0; k < s->dims.n && s->type == HLO_SH_TILED; k++)
    n = hs_mul_sat_i64(n, HS_MAX(s->dims.v[k], 1));
  return HS_MAX(most, n);
}

// A module that does not say how many partitions it is for, as text from JAX, has those that its
// collectives, manual regions or shardings speak of.
static void count_devices(const hlo_module *m, i64 *replicas, i64 *partitions) {
  hlo_count_devices(m, replicas, partitions);
  if (*replicas > 1 || *partitions > 1 || hlo_attrs_find(m->attrs, HLO_ATTR_NUM_PARTITIONS)) return;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      i64 n = tiles_of(hlo_attr_ptr(i, HLO_ATTR_SHARDING));
      *partitions = HS_MAX(*partitions, n);
    }
}

u32 prof_module_devices(const hlo_module *m) {
  i64 replicas, partitions;
  count_devices(m, &replicas, &partitions);
  double n = (double)HS_MAX(replicas, 1) * (double)HS_MAX(partitions, 1);
  return (u32)HS_MIN(n, 1e6);
}

// Whether some dimension is cut.
static bool is_cut(const hlo_sharding *s) {
  if (!s) return false;
  for (u32 k = 0; k < s->nchildren; k++)
    if (is_cut(s->children[k])) return true;
  u32 last = s->last_tile_dims.n + s->replicate_last, n = s->dims.n - HS_MIN(last, s->dims.n);
  for (u32 k = 0; k < n && s->type == HLO_SH_TILED; k++)
    if (s->dims.v[k] > 1) return true;
  return false;
}

u32 prof_module_undivided(const hlo_module *m) {
  i64 replicas, partitions;
  count_devices(m, &replicas, &partitions);
  if (partitions < 2) return 1;
  bool cut = false;
  hlo_for_each_comp(c, m) {
    hlo_for_each_instr(i, c) {
      if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE)) return 1;
      if (i->opcode == HLO_CUSTOM_CALL && hlo_custom_is_of_devices(i)) return 1;
      cut |= is_cut(hlo_attr_ptr(i, HLO_ATTR_SHARDING));
    }
  }
  return cut ? (u32)HS_MIN(partitions, 1000000) : 1;
}

// Devices that exchange with each other.
static u32 group_size(const hlo_instr *i, u32 devices) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  if (!g) return devices;
  switch (g->form) {
  case HLO_GROUPS_LIST: return g->groups.n && g->groups.v[0].n ? g->groups.v[0].n : devices;
  case HLO_GROUPS_IOTA: return g->dims.n > 1 ? (u32)g->dims.v[1] : devices;
  default: return devices;
  }
}

static prof_collective collective_of(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_ALL_REDUCE:
  case HLO_ALL_REDUCE_START: return PROF_ALL_REDUCE;
  case HLO_ALL_GATHER:
  case HLO_ALL_GATHER_START: return PROF_ALL_GATHER;
  case HLO_REDUCE_SCATTER: return PROF_REDUCE_SCATTER;
  case HLO_COLLECTIVE_PERMUTE:
  case HLO_COLLECTIVE_PERMUTE_START: return PROF_PERMUTE;
  case HLO_COLLECTIVE_BROADCAST: return PROF_BROADCAST;
  default: return PROF_ALL_TO_ALL;
  }
}

double prof_collective_seconds(prof_collective kind, double bytes, u32 p, const prof_device *d) {
  if (p < 2) return 0;
  bool far = p > d->node;
  double bandwidth = far ? HS_MIN(d->link_bandwidth, d->network_bandwidth) : d->link_bandwidth;
  double step = far ? HS_MAX(d->network_s, d->link_s) : d->link_s;
  if (bandwidth <= 0) return 0;
  double n = p, part = (n - 1) / n, logs = ceil(log2(n)), whole = bytes / bandwidth;
  switch (kind) {
  case PROF_ALL_REDUCE:
    return HS_MIN(2 * part * whole + 2 * (n - 1) * step, 2 * whole + 2 * logs * step);
  case PROF_ALL_GATHER:
  case PROF_REDUCE_SCATTER: return part * whole + HS_MIN(n - 1, logs) * step;
  case PROF_ALL_TO_ALL: return part * whole + HS_MIN(n - 1, logs) * step;
  case PROF_BROADCAST: return whole + logs * step;
  case PROF_PERMUTE: return whole + step;
  }
  return 0;
}

double prof_collective_instr(const hlo_instr *i, u32 devices, const prof_device *d) {
  prof_collective kind = collective_of(i);
  u32 p = kind == PROF_PERMUTE ? devices : group_size(i, devices);
  double in = first_bytes(i);
  // an all-gather makes p times its operand
  return prof_collective_seconds(kind, kind == PROF_ALL_GATHER ? in * p : in, p, d);
}
