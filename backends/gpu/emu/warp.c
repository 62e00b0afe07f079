// warp.c — where threads wait for one another: barriers of a block, and the operations of a warp
// (shuffles, votes, matches, reductions, fragments of matrices).
//
// A warp's operation happens when the last of the threads that its mask names has arrived at it,
// from the values that all of them brought. A mask that names a lane which is not there is found at
// once, one that names a thread which has ended or waits elsewhere when nothing else can run
// (block.c).
#include "backends/gpu/emu/run.h"

// ---- barriers -----------------------------------------------------------------------------------
void emu_order_block(emu_block *b) { b->big++; }
void emu_order_warp(emu_block *b, u32 warp) { b->small[warp]++; }

// The barrier is complete: all that wait at it go on.
static void release(emu_block *b, u32 id) {
  emu_barrier *bar = &b->barriers[id];
  for (u32 k = 0; k < b->nthreads; k++) {
    emu_thread *t = &b->threads[k];
    if (t->state != EMU_AT_BARRIER || t->barrier != id) continue;
    t->state = EMU_READY;
    t->value = bar->popc;
    t->result = bar->expected;
  }
  emu_order_block(b);
  *bar = (emu_barrier){0};
}

static u32 reduced(u32 op, u32 popc, u32 expected) {
  return op == EMU_POPC ? popc : op == EMU_AND ? popc == expected : popc > 0;
}

// All threads of a warp come to a barrier that is declared aligned by the same instruction.
static void check_aligned(emu_thread *t, const emu_site *site, u32 id) {
  emu_block *b = t->block;
  u32 from = t->warp * EMU_LANES, to = HS_MIN(from + EMU_LANES, b->nthreads);
  for (u32 k = from; k < to; k++) {
    const emu_thread *o = &b->threads[k];
    if (o->state != EMU_AT_BARRIER || o->barrier != id || o->site == site) continue;
    hs_buf text = {0};
    emu_put_thread(&text, b, k);
    emu_fault(t, site, EMU_DIVERGED, "arrives at barrier %u at another place than %s of its warp",
              id, hs_buf_cstr(&text));
  }
}

u32 emu_barrier_call(emu_thread *t, const emu_site *site, u32 op, u32 id, u32 count, u32 pred) {
  emu_block *b = t->block;
  bool aligned = op & EMU_ALIGNED;
  op &= ~(u32)EMU_ALIGNED;
  if (id >= EMU_BARRIERS) emu_fault(t, site, EMU_DIVERGED, "uses barrier %u of 16", id);
  emu_barrier *bar = &b->barriers[id];
  u32 whole = b->nwarps * EMU_LANES;
  u32 expected = count == 0 || count == whole ? b->nthreads : count;
  if (count % EMU_LANES != 0 || count > whole)
    emu_fault(t, site, EMU_DIVERGED, "arrives at barrier %u of %u threads, in a block of %u", id,
              count, b->nthreads);
  if (bar->arrived && bar->expected != expected)
    emu_fault(t, site, EMU_DIVERGED, "arrives at barrier %u of %u threads, others at one of %u", id,
              expected, bar->expected);
  if (aligned) check_aligned(t, site, id);
  bar->expected = expected;
  bar->arrived++;
  bar->popc += pred & 1;
  u32 popc = bar->popc;
  if (bar->arrived == expected) {
    release(b, id);
    return reduced(op, popc, expected);
  }
  if (op == EMU_ARRIVE) return 0;
  t->site = site;
  t->barrier = id;
  emu_wait(t, EMU_AT_BARRIER);
  return reduced(op, (u32)t->value, (u32)t->result);
}

// ---- operations of a warp -----------------------------------------------------------------------
// The lane that a shuffle reads from; *valid: within the segment that it is confined to.
static u32 shuffle_lane(u32 op, u32 lane, u32 b, u32 c, u32 *valid) {
  u32 at = b & 31, clamp = c & 31, segment = c >> 8 & 31;
  u32 least = lane & segment, most = least | (clamp & ~segment);
  i32 j = (i32)lane;
  switch (op) {
  case EMU_SHFL_UP:
    j = (i32)lane - (i32)at;
    *valid = j >= (i32)most;
    return *valid ? (u32)j : lane;
  case EMU_SHFL_DOWN: j = (i32)(lane + at); break;
  case EMU_SHFL_BFLY: j = (i32)(lane ^ at); break;
  default: j = (i32)(least | (at & ~segment)); break;
  }
  *valid = j <= (i32)most;
  return *valid ? (u32)j : lane;
}

static u32 redux(u32 op, u32 a, u32 b) {
  switch (op) {
  case EMU_REDUX_ADD: return a + b;
  case EMU_REDUX_UMIN: return HS_MIN(a, b);
  case EMU_REDUX_UMAX: return HS_MAX(a, b);
  case EMU_REDUX_MIN: return (u32)HS_MIN((i32)a, (i32)b);
  case EMU_REDUX_MAX: return (u32)HS_MAX((i32)a, (i32)b);
  case EMU_REDUX_AND: return a & b;
  case EMU_REDUX_OR: return a | b;
  default: return a ^ b;
  }
}

// What lane k gets. lanes: those of the warp.
static void result_of(emu_thread *lanes, u32 k) {
  emu_thread *t = &lanes[k];
  u32 all = 0, match = 0, r = (u32)t->value;
  bool first = true;
  for (u32 l = 0; l < EMU_LANES; l++) {
    if (!(t->mask >> l & 1)) continue;
    all |= (u32)(lanes[l].value & 1) << l;
    match |= (u32)(lanes[l].value == t->value) << l;
    if (t->op >= EMU_REDUX_ADD && t->op <= EMU_REDUX_XOR)
      r = first ? (u32)lanes[l].value : redux(t->op, r, (u32)lanes[l].value);
    first = false;
  }
  switch (t->op) {
  case EMU_SHFL_IDX:
  case EMU_SHFL_UP:
  case EMU_SHFL_DOWN:
  case EMU_SHFL_BFLY:
    t->result = lanes[shuffle_lane(t->op, t->lane, t->b, t->c, &t->pred)].value;
    break;
  case EMU_VOTE_ALL: t->result = all == t->mask; break;
  case EMU_VOTE_ANY: t->result = all != 0; break;
  case EMU_VOTE_UNI: t->result = all == 0 || all == t->mask; break;
  case EMU_VOTE_BALLOT: t->result = all; break;
  case EMU_MATCH_ANY: t->result = match; break;
  case EMU_MATCH_ALL:
    t->pred = match == t->mask;
    t->result = t->pred ? t->mask : 0;
    break;
  default: t->result = r; break;
  }
}

static bool same_place(const emu_thread *a, const emu_thread *b) {
  return a->op == b->op && a->mask == b->mask && (a->site == b->site || a->op == EMU_WARP_SYNC);
}

static void check_mask(emu_thread *t, const emu_site *site, u32 lanes) {
  u32 there = lanes >= EMU_LANES ? UINT32_MAX : (1u << lanes) - 1;
  if (!(t->mask >> t->lane & 1))
    emu_fault(t, site, EMU_DIVERGED, "takes part in an operation whose mask %08x lacks its lane %u",
              t->mask, t->lane);
  if (t->mask & ~there)
    emu_fault(t, site, EMU_DIVERGED,
              "takes part in an operation whose mask %08x names lanes beyond the %u of its warp",
              t->mask, lanes);
  if (t->op > EMU_SHFL_BFLY) return;
  u32 valid, from = shuffle_lane(t->op, t->lane, t->b, t->c, &valid);
  if (!(t->mask >> from & 1))
    emu_fault(t, site, EMU_DIVERGED, "reads from lane %u, which the mask %08x does not name", from,
              t->mask);
}

// Waits until all that the mask names are here; the results are those of t->op.
static void meet(emu_thread *t, const emu_site *site) {
  emu_block *b = t->block;
  emu_thread *lanes = &b->threads[t->warp * EMU_LANES];
  u32 n = HS_MIN(b->nthreads - t->warp * EMU_LANES, EMU_LANES);
  t->site = site;
  check_mask(t, site, n);
  t->state = EMU_AT_WARP;
  for (u32 k = 0; k < n; k++)
    if ((t->mask >> k & 1) && (lanes[k].state != EMU_AT_WARP || !same_place(&lanes[k], t))) {
      emu_wait(t, EMU_AT_WARP);
      return;
    }
  if (t->op == EMU_WARP_SYNC) emu_order_warp(b, t->warp);
  for (u32 k = 0; k < n; k++)
    if (t->mask >> k & 1) result_of(lanes, k);
  for (u32 k = 0; k < n; k++)
    if (t->mask >> k & 1) lanes[k].state = EMU_READY;
}

u64 emu_warp_call(emu_thread *t, const emu_site *site, u32 op, u32 mask, u64 value, u32 b, u32 c) {
  t->op = (emu_warp_op)op;
  t->mask = mask;
  t->value = value;
  t->b = b;
  t->c = c;
  meet(t, site);
  return t->result;
}

u32 emu_active_mask(const emu_thread *t) {
  const emu_block *b = t->block;
  u32 mask = 0, from = t->warp * EMU_LANES;
  for (u32 k = from; k < HS_MIN(from + EMU_LANES, b->nthreads); k++)
    mask |= (u32)(b->threads[k].state != EMU_DONE) << (k - from);
  return mask;
}
