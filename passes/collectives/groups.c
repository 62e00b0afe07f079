// groups.c — which devices meet in a collective: its groups written out, as ids and as devices.
//
// What an id is depends on the channel (XLA's CollectiveOpGroupMode): without one a replica, and
// each partition reduces by itself; with one and use_global_device_ids a device; with one and
// without that a replica with all its partitions.
#include "passes/collectives/groups.h"

bool pass_group_ids(const hlo_instr *i, hs_arena *a, hlo_int_lists *out) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  *out = (hlo_int_lists){0};
  if (!g) return true;
  if (g->form == HLO_GROUPS_LIST) {
    bool empty = g->groups.n == 1 && g->groups.v[0].n == 0;
    if (!empty) *out = g->groups;
    return true;
  }
  if (g->form != HLO_GROUPS_IOTA || g->dims.n != 2) return false;
  i64 n = g->dims.v[0], size = g->dims.v[1], all = hs_mul_sat_i64(n, size);
  if (n < 1 || size < 1 || all > PASS_MAX_DEVICES) return false;
  i64 *ids = HS_NEW_ARRAY(a, i64, (size_t)all);
  hlo_ints *lists = HS_NEW_ARRAY(a, hlo_ints, (size_t)n);
  if (!hlo_iota_ids(g->reshape, g->perm, all, ids)) return false;
  for (i64 k = 0; k < n; k++) lists[k] = (hlo_ints){(u32)size, ids + k * size};
  *out = (hlo_int_lists){(u32)n, lists};
  return true;
}

pass_devices pass_devices_of(const hlo_module *m) {
  i64 replicas = hlo_module_int(m, HLO_ATTR_REPLICA_COUNT, 1),
      partitions = hlo_module_int(m, HLO_ATTR_NUM_PARTITIONS, 1);
  if (replicas < 1 || partitions < 1 || replicas > PASS_MAX_DEVICES ||
      partitions > PASS_MAX_DEVICES || replicas * partitions > PASS_MAX_DEVICES)
    return (pass_devices){0};
  return (pass_devices){(u32)replicas, (u32)partitions, NULL};
}

// Devices of a group of ids, as seen by partition `part`.
static hlo_ints as_devices(hlo_ints ids, const pass_devices *d, bool global, bool all_parts,
                           u32 part, hs_arena *a) {
  u32 each = all_parts ? d->partitions : 1;
  i64 *v = HS_NEW_ARRAY(a, i64, (size_t)ids.n * each + 1);
  for (u32 k = 0; k < ids.n; k++)
    for (u32 p = 0; p < each; p++)
      v[k * each + p] = global ? ids.v[k] : ids.v[k] * d->partitions + (all_parts ? p : part);
  return (hlo_ints){ids.n * each, v};
}

bool pass_device_groups(const hlo_instr *i, hs_arena *a, pass_devices *out) {
  hlo_int_lists ids;
  *out = pass_devices_of(i->parent->module);
  if (!out->replicas || !pass_group_ids(i, a, &ids)) return false;
  bool channel = hlo_attr_get(i, HLO_ATTR_CHANNEL_ID) != NULL,
       global = channel && hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0);
  u32 n = out->replicas * out->partitions, nids = global ? n : out->replicas;
  hlo_ints every = {nids, HS_NEW_ARRAY(a, i64, nids)};
  for (u32 k = 0; k < nids; k++) ((i64 *)every.v)[k] = k;
  if (!ids.n) {
    hlo_ints *one = HS_NEW(a, hlo_ints);
    *one = every;
    ids = (hlo_int_lists){1, one};
  }
  out->group = HS_NEW_ARRAY(a, hlo_ints, n);
  bool parts_apart = !channel;
  for (u32 k = 0; k < ids.n; k++)
    for (u32 j = 0; j < ids.v[k].n; j++)
      if (ids.v[k].v[j] < 0 || ids.v[k].v[j] >= nids) return false;
  for (u32 k = 0; k < ids.n; k++)
    for (u32 part = 0; part < (parts_apart ? out->partitions : 1); part++) {
      hlo_ints g = as_devices(ids.v[k], out, global, channel && !global, part, a);
      for (u32 j = 0; j < g.n; j++) out->group[g.v[j]] = g;
    }
  for (u32 k = 0; k < n; k++)
    if (!out->group[k].n) return false;
  return true;
}
