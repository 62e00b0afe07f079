// groups.h — which devices meet in a collective. Private to this folder.
#ifndef PASS_GROUPS_H
#define PASS_GROUPS_H

#include "passes/run/rewrite.h"

enum { PASS_MAX_DEVICES = 4096 };

// The groups of a collective as its attribute gives them, an iota written out; n = 0: all in one.
// What the ids count depends on the channel. False for groups by the axes of a mesh.
bool pass_group_ids(const hlo_instr *, hs_arena *, hlo_int_lists *out);

// Devices of a module: number partition + replica * partitions. group: of each device, its members
// in order; in the arena.
typedef struct pass_devices {
  u32 replicas, partitions;
  hlo_ints *group;  // by device
} pass_devices;
// Replicas and partitions that the module says, 1 where it does not; no groups.
pass_devices pass_devices_of(const hlo_module *);
// The groups of an all-reduce; false where a device has none, or there are too many devices.
bool pass_device_groups(const hlo_instr *, hs_arena *, pass_devices *out);

#endif
