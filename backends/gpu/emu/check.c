// check.c — looking at each access to memory: is it where memory is registered, in the variable
// that it goes into, aligned; and for shared memory, has the byte been written, and does a barrier
// lie between this access and those of other threads?
//
// Shared memory has a shadow, a cell for each byte (run.h). Two accesses of different threads race
// when one of them writes, not both are atomic, and they lie in the same span between two barriers
// of the block; for threads of one warp, also between two bar.warp.sync. A shuffle orders nothing,
// as on the device.
#include "backends/gpu/emu/run.h"

static const char *verb(const emu_site *s) {
  return s->access & EMU_ATOMIC ? "updates" : s->access & EMU_WRITE ? "writes" : "reads";
}

static bool in_stack(const emu_thread *t, const u8 *p, u64 n) {
  uintptr_t at = (uintptr_t)p - (uintptr_t)t->fiber.stack;
  return at < t->fiber.bytes && n <= t->fiber.bytes - at;
}

static bool in_shared(const emu_block *b, const u8 *p) {
  return (uintptr_t)p - (uintptr_t)b->shared < b->shared_bytes;
}

// ---- outside ------------------------------------------------------------------------------------
static void out_of_shared(emu_thread *t, const u8 *p, const emu_site *s, u64 n) {
  const emu_block *b = t->block;
  emu_fault(t, s, EMU_OUT_OF_BOUNDS, "%s %llu bytes of shared memory at offset %lld of %zu",
            verb(s), (unsigned long long)n, (long long)(p - b->shared), b->shared_bytes);
}

static void out_of_object(emu_thread *t, const u8 *p, const emu_site *s, const u8 *object, u64 n) {
  emu_fault(t, s, EMU_OUT_OF_BOUNDS, "%s %llu bytes at offset %lld of %s, which has %llu", verb(s),
            (unsigned long long)n, (long long)(p - object), s->object,
            (unsigned long long)s->object_bytes);
}

// A global access that no registered range holds: says how it lies to the nearest.
static void out_of_memory(emu_thread *t, const u8 *p, const emu_site *s, u64 n) {
  const emu_block *b = t->block;
  const void *start;
  size_t bytes;
  if (!p)
    emu_fault(t, s, EMU_OUT_OF_BOUNDS, "%s %llu bytes at the address 0", verb(s),
              (unsigned long long)n);
  if (in_shared(b, p))
    emu_fault(t, s, EMU_OUT_OF_BOUNDS, "%s %llu bytes of shared memory as if it were global",
              verb(s), (unsigned long long)n);
  if (emu_device_near(b->device, p, &start, &bytes))
    emu_fault(t, s, EMU_OUT_OF_BOUNDS, "%s %llu bytes at offset %lld of an allocation of %zu",
              verb(s), (unsigned long long)n, (long long)(p - (const u8 *)start), bytes);
  emu_fault(t, s, EMU_OUT_OF_BOUNDS, "%s %llu bytes where no memory is allocated", verb(s),
            (unsigned long long)n);
}

static void check_global(emu_thread *t, const u8 *p, const emu_site *s, u64 n) {
  emu_block *b = t->block;
  const void *start;
  size_t bytes;
  if (p >= b->low && p < b->high && n <= (u64)(b->high - p)) return;
  if (emu_device_find(b->device, p, &start, &bytes)) {
    const u8 *low = start, *high = low + bytes;
    if (n <= (u64)(high - p)) {
      b->low = low;
      b->high = high;
      return;
    }
  }
  if (emu_module_has(b->kernel->module, p, n)) return;
  if (s->space != EMU_GLOBAL && s->space != EMU_CONSTANT && in_stack(t, p, n)) return;
  out_of_memory(t, p, s, n);
}

// ---- shared memory ------------------------------------------------------------------------------
static void race(emu_thread *t, const emu_site *s, u64 offset, const char *other, u32 index) {
  emu_thread_name name = emu_name_thread(t->block, index);
  emu_fault(t, s, EMU_RACE,
            "%s shared memory at offset %llu, which %s %s without a barrier between", verb(s),
            (unsigned long long)offset, name.text, other);
}

// Do this thread and thread `other`, which was here at small time `then` since the latest barrier
// of the block, race?
static bool unordered(const emu_thread *t, u32 other, u32 then) {
  return other != t->index && (other / EMU_LANES != t->warp || then == t->block->small[t->warp]);
}

static void note_read(emu_thread *t, emu_cell *c, bool atomic) {
  const emu_block *b = t->block;
  u32 small = b->small[t->warp];
  bool fresh = c->read_big != b->big;
  if (fresh) {
    c->read_big = b->big;
    c->several_readers = c->several_warps = 0;
    c->read_atomically = atomic;
  } else if (c->reader / EMU_LANES != t->warp) c->several_warps = 1;
  else if (c->read_small != small) c->several_readers = 0;
  else if (c->reader != t->index) c->several_readers = 1;
  c->reader = (u16)t->index;
  c->read_small = small;
  c->read_atomically &= (u8)atomic;
}

static void check_cell(emu_thread *t, const emu_site *s, emu_cell *c, u64 offset) {
  emu_block *b = t->block;
  bool atomic = s->access & EMU_ATOMIC;
  if ((s->access & EMU_READ) && c->written_big < b->first_big)
    emu_fault(t, s, EMU_UNINITIALIZED,
              "%s shared memory at offset %llu, which nobody has written yet", verb(s),
              (unsigned long long)offset);
  if (c->written_big == b->big && !(atomic && c->wrote_atomically) &&
      unordered(t, c->writer, c->written_small))
    race(t, s, offset, "writes", c->writer);
  if ((s->access & EMU_WRITE) && c->read_big == b->big && !(atomic && c->read_atomically)) {
    bool other = c->several_warps || unordered(t, c->reader, c->read_small) ||
                 (c->several_readers && c->read_small == b->small[t->warp]);
    if (other && c->reader != t->index) race(t, s, offset, "reads", c->reader);
    if (other) race(t, s, offset, "and others read", t->index);
  }
  if (s->access & EMU_READ) note_read(t, c, atomic);
  if (s->access & EMU_WRITE) {
    c->written_big = b->big;
    c->written_small = b->small[t->warp];
    c->writer = (u16)t->index;
    c->wrote_atomically = atomic;
  }
}

static void check_shared(emu_thread *t, const u8 *p, const emu_site *s, u64 n) {
  emu_block *b = t->block;
  u64 at = (uintptr_t)p - (uintptr_t)b->shared;
  if (at >= b->shared_bytes || n > b->shared_bytes - at) out_of_shared(t, p, s, n);
  for (u64 k = 0; k < n; k++) check_cell(t, s, &b->cells[at + k], at + k);
}

// ---- the calls ----------------------------------------------------------------------------------
void emu_check_bytes(emu_thread *t, const u8 *p, const emu_site *s, const u8 *object, u64 n) {
  if (s->align > 1 && ((uintptr_t)p & (s->align - 1)))
    emu_fault(t, s, EMU_MISALIGNED, "%s %llu bytes at an address that is not a multiple of %u",
              verb(s), (unsigned long long)n, s->align);
  if (n == 0) return;
  if (object) {
    u64 at = (uintptr_t)p - (uintptr_t)object;
    if (at >= s->object_bytes || n > s->object_bytes - at) out_of_object(t, p, s, object, n);
    if (s->space == EMU_LOCAL) return;
  }
  if (s->space == EMU_SHARED || (s->space == EMU_GENERIC && in_shared(t->block, p)))
    check_shared(t, p, s, n);
  else if (s->space == EMU_LOCAL) {
    if (!in_stack(t, p, n))
      emu_fault(t, s, EMU_OUT_OF_BOUNDS, "%s %llu bytes outside of its local memory", verb(s),
                (unsigned long long)n);
  } else check_global(t, p, s, n);
}

void emu_check(emu_thread *t, const u8 *p, const emu_site *s, const u8 *object) {
  emu_check_bytes(t, p, s, object, s->bytes);
}

u32 emu_is_space(const emu_thread *t, const u8 *p, u32 space) {
  bool shared = in_shared(t->block, p), local = in_stack(t, p, 1);
  switch (space) {
  case EMU_SHARED: return shared;
  case EMU_LOCAL: return local;
  case EMU_GLOBAL: return !shared && !local;
  default: return 0;
  }
}
