// target.c — the devices that can be compiled for, and how many warps of a kernel they hold.
//
// A core holds as many blocks as fit in each of its limits: threads, blocks, registers (given to
// whole warps in units), shared memory. Occupancy is the warps of those blocks over the most warps
// that the core can hold.
#include "backends/gpu/target.h"

#include <stdio.h>
#include <stdlib.h>

static const gpu_target targets[] = {
#define TARGET(name, sm, cores, threads, blocks, registers, shared, unit, reserved) \
  {name, sm, cores, threads, blocks, registers, shared, unit, reserved},
#define CHIP(name, chip)
#include "backends/gpu/targets.def"
#undef CHIP
#undef TARGET
};

static const struct {
  const char *name, *chip;
} chips[] = {
#define TARGET(name, sm, cores, threads, blocks, registers, shared, unit, reserved)
#define CHIP(name, chip) {name, chip},
#include "backends/gpu/targets.def"
#undef CHIP
#undef TARGET
};

const char *gpu_chip_find(const char *name) {
  for (size_t k = 0; k < HS_COUNT(chips); k++)
    if (strcmp(chips[k].name, name) == 0) return chips[k].chip;
  return NULL;
}

const gpu_target *gpu_target_of_sm(u32 sm) {
  for (size_t k = 0; k < HS_COUNT(targets); k++)
    if (targets[k].sm == sm) return &targets[k];
  return NULL;
}

const gpu_target *gpu_target_find(const char *name) {
  if (strncmp(name, "sm_", 3) == 0) {
    char *end;
    unsigned long sm = strtoul(name + 3, &end, 10);
    // sm_90a is sm_90 with what only that chip has
    bool whole = end > name + 3 && (!*end || (strchr("af", *end) && !end[1]));
    return whole ? gpu_target_of_sm((u32)sm) : NULL;
  }
  for (size_t k = 0; k < HS_COUNT(targets); k++)
    if (strcmp(targets[k].name, name) == 0) return &targets[k];
  return NULL;
}

double gpu_occupancy(const gpu_target *t, u32 threads, u32 registers, u32 shared) {
  enum { WARP = 32 };
  if (!threads || threads > t->threads) return 0;
  u32 warps = (threads + WARP - 1) / WARP;
  u32 blocks = HS_MIN(t->blocks, t->threads / (warps * WARP));
  u32 per_warp = (registers * WARP + t->register_unit - 1) / t->register_unit * t->register_unit;
  if (per_warp) blocks = HS_MIN(blocks, t->registers / per_warp / warps);
  u32 per_block = shared + t->shared_reserved;
  if (per_block) blocks = HS_MIN(blocks, t->shared / per_block);
  return (double)(blocks * warps) / (double)(t->threads / WARP);
}
