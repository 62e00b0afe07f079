// warp.c — where threads wait for one another: barriers of a block, and the operations of a warp
// (shuffles, votes, matches, reductions, fragments of matrices).
//
// A warp's operation happens when the last of the threads that its mask names has arrived at it,
// from the values that all of them brought. A mask that names a lane which is not there is found at
// once, one that names a thread which has ended or waits elsewhere when nothing else can run
// (block.c).
#include "backends/gpu/emu/run.h"

// ---- barriers -----------------------------------------------------------------------------------
// After a barrier of the block, of a warp: what lies before it is ordered.
static void order_block(emu_block *b) { b->big++; }
static void order_warp(emu_block *b, u32 warp) { b->small[warp]++; }

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
  order_block(b);
  *bar = (emu_barrier){0};
}

static u32 reduced(u32 op, u32 popc, u32 expected) {
  return op == EMU_POPC ? popc : op == EMU_AND ? popc == expected : popc > 0;
}

// All threads of a warp come to a barrier that is declared aligned by the same instruction: by that
// of the one before it.
static void check_aligned(emu_thread *t, const emu_site *site, u32 id) {
  emu_block *b = t->block;
  const emu_thread *o = b->meetings[t->warp].at_barrier;
  b->meetings[t->warp].at_barrier = t;
  if (!o || o->state != EMU_AT_BARRIER || o->barrier != id || o->site == site) return;
  emu_thread_name name = emu_name_thread(b, o->index);
  emu_fault(t, site, EMU_DIVERGED, "arrives at barrier %u at another place than %s of its warp", id,
            name.text);
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

// ---- results of all lanes that the mask names ---------------------------------------------------
// Lanes whose value is that of lane k.
static u32 matches(const emu_thread *lanes, u32 mask, u32 k) {
  u32 same = 0;
  for (u32 l = 0; l < EMU_LANES; l++)
    if (mask >> l & 1) same |= (u32)(lanes[l].value == lanes[k].value) << l;
  return same;
}

// One result for all: of a vote or a reduction.
static u64 common_result(const emu_thread *lanes, u32 mask, emu_warp_op op) {
  u32 all = 0, r = 0;
  bool first = true;
  for (u32 l = 0; l < EMU_LANES; l++) {
    if (!(mask >> l & 1)) continue;
    u32 v = (u32)lanes[l].value;
    all |= (v & 1) << l;
    r = first ? v : redux(op, r, v);
    first = false;
  }
  switch (op) {
  case EMU_VOTE_ALL: return all == mask;
  case EMU_VOTE_ANY: return all != 0;
  case EMU_VOTE_UNI: return all == 0 || all == mask;
  case EMU_VOTE_BALLOT: return all;
  default: return r;
  }
}

static void exchange(emu_thread *lanes, u32 mask, emu_warp_op op) {
  u64 common = op > EMU_SHFL_BFLY && op != EMU_MATCH_ANY && op != EMU_MATCH_ALL
                   ? common_result(lanes, mask, op)
                   : 0;
  for (u32 k = 0; k < EMU_LANES; k++) {
    emu_thread *t = &lanes[k];
    if (!(mask >> k & 1)) continue;
    if (op <= EMU_SHFL_BFLY) {
      t->result = lanes[shuffle_lane(op, t->lane, t->b, t->c, &t->pred)].value;
    } else if (op == EMU_MATCH_ANY) {
      t->result = matches(lanes, mask, k);
    } else if (op == EMU_MATCH_ALL) {
      t->pred = matches(lanes, mask, k) == mask;
      t->result = t->pred ? mask : 0;
    } else {
      t->result = common;
    }
  }
}

static bool same_place(const emu_thread *a, const emu_thread *b) {
  return a->op == b->op && a->mask == b->mask && (a->site == b->site || a->op == EMU_WARP_SYNC);
}

// Notes that t has come. Are all here that its mask names?
static bool all_here(emu_thread *t, const emu_thread *lanes, u32 n) {
  emu_meeting *m = &t->block->meetings[t->warp];
  bool joins = m->arrived && m->op == t->op && m->mask == t->mask &&
               (m->site == t->site || t->op == EMU_WARP_SYNC);
  u32 here = joins ? m->arrived | 1u << t->lane : 0;
  for (u32 k = 0; k < n && !joins; k++)
    if (lanes[k].state == EMU_AT_WARP && same_place(&lanes[k], t)) here |= 1u << k;
  here &= t->mask;
  bool all = here == t->mask;
  if (joins) m->arrived = all ? 0 : here;
  else if (!m->arrived && !all) *m = (emu_meeting){t->site, t->op, t->mask, here, m->at_barrier};
  return all;
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
  if (!all_here(t, lanes, n)) {
    emu_wait(t, EMU_AT_WARP);
    return;
  }
  if (t->op == EMU_WARP_SYNC) order_warp(b, t->warp);
  else if (t->op > EMU_WARP_SYNC) emu_matrix(lanes, t->op);
  else exchange(lanes, t->mask, t->op);
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

void emu_load_squares(emu_thread *t, const emu_site *site, u32 op, u32 count, const u8 *row,
                      u32 *out) {
  if (t->lane < 8 * count && t->block->kernel->module->checked) emu_check(t, row, site, NULL);
  t->op = (emu_warp_op)op;
  t->mask = UINT32_MAX;
  t->value = (u64)(uintptr_t)row;
  t->b = count;
  t->fragment = out;
  meet(t, site);
}

void emu_multiply(emu_thread *t, const emu_site *site, u32 op, u32 *words) {
  t->op = (emu_warp_op)op;
  t->mask = UINT32_MAX;
  t->fragment = words;
  meet(t, site);
}
