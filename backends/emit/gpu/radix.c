// radix.c — putting rows in order by the digits of their keys, the lowest first, each time
// stably.
//
// A key is an unsigned number made of the comparator's operands (nest_order.key). First every
// element's key and number are written; then, for each digit of 8 bits, three launches: a block
// counts the digits of its tile; a block for each digit adds up what the tiles before have of it;
// a block moves its tile's keys to where they belong: behind all lower digits, behind those of the
// tiles before, and behind those before them in the tile. At the end the elements are computed
// again, each where its number says, and stored in order. Keys and numbers lie in two pairs of
// buffers, and go from one to the other.
//
// Within a tile 256 elements at a time are ranked: lanes of a warp with the same digit know of each
// other (gpu_target.same), warps by what each has of a digit in shared memory. The same bits in
// every run: shared memory is added to atomically only to count, and nothing waits for another
// block. (Duane Merrill and Andrew Grimshaw, High Performance and Scalable Radix Sorting, 2011,
// have the three steps.)
#include "backends/emit/gpu/code.h"

enum {
  THREADS = GPU_ORDER_THREADS,
  BINS = 1 << GPU_ORDER_BITS,
  WARPS = THREADS / GPU_WARP,
  TILE = GPU_ORDER_TILE_OF_DIGITS
};
_Static_assert(BINS == THREADS, "a thread for each digit");

static LLVMValueRef add(cg *c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildNSWAdd(c->b, a, b, "");
}
static LLVMValueRef times(cg *c, LLVMValueRef a, i64 k) {
  return LLVMBuildNSWMul(c->b, a, cg_ixc(c, k), "");
}
static LLVMValueRef below(cg *c, LLVMValueRef a, i64 n) {
  return LLVMBuildICmp(c->b, LLVMIntSLT, a, cg_ixc(c, n), "");
}
static LLVMValueRef index_of(cg *c, LLVMValueRef v) {
  return LLVMBuildIntCast2(c->b, v, c->ix, false, "");
}
static void barrier(cg *c) { gpu_of(c)->target->barrier(c); }
static LLVMValueRef i32_of(cg *c, u32 v) { return LLVMConstInt(c->i32, v, false); }

static LLVMValueRef load(cg *c, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef at) {
  return LLVMBuildLoad2(c->b, t, cg_gep(c, t, p, at), "");
}
static void store(cg *c, LLVMTypeRef t, LLVMValueRef v, LLVMValueRef p, LLVMValueRef at) {
  LLVMBuildStore(c->b, v, cg_gep(c, t, p, at));
}

static LLVMTypeRef key_type(cg *c, const gpu_sorter *s) {
  return cg_rep(c, c->n->bufs.v[s->o->keys[0]].dtype);
}

static i64 tiles_of(const gpu_sorter *s) { return (s->p.size + TILE - 1) / TILE; }

// The buffer of two that the number says, or the other one.
static LLVMValueRef side(cg *c, const u32 *of, LLVMValueRef number, bool other) {
  LLVMValueRef second =
      LLVMBuildICmp(c->b, LLVMIntUGE, number, LLVMConstInt(c->i64, GPU_ORDER_SHIFTS, false), "");
  return LLVMBuildSelect(c->b, second, c->bufs[of[other ? 0 : 1]], c->bufs[of[other ? 1 : 0]], "");
}

static LLVMValueRef digit_of(cg *c, LLVMValueRef key, LLVMValueRef number) {
  LLVMValueRef by =
      LLVMBuildAnd(c->b, number, LLVMConstInt(c->i64, GPU_ORDER_SHIFTS - 1, false), "");
  by = LLVMBuildIntCast2(c->b, by, LLVMTypeOf(key), false, "");
  LLVMValueRef d = LLVMBuildLShr(c->b, key, by, "");
  d = LLVMBuildAnd(c->b, d, LLVMConstInt(LLVMTypeOf(key), BINS - 1, false), "");
  return LLVMBuildIntCast2(c->b, d, c->i32, false, "");
}

// ---- a thread for each element ------------------------------------------------------------------
// Row and element, and the place of its key, of a thread, of `each` elements of a row: opens an if.
static hs_status open_element(cg *c, const gpu_sorter *s, i64 each, LLVMValueRef *at,
                              LLVMValueRef *row, LLVMValueRef *element) {
  gpu_code *g = gpu_of(c);
  LLVMValueRef number = add(c, times(c, g->block, THREADS), g->thread);
  HS_TRY(cg_open_if(c, below(c, number, s->p.rows * each)));
  *row = LLVMBuildUDiv(c->b, number, cg_ixc(c, each), "");
  *element = LLVMBuildURem(c->b, number, cg_ixc(c, each), "");
  *at = add(c, times(c, *row, s->p.size), *element);
  return HS_GOOD;
}

static hs_status make_keys(cg *c, const gpu_sorter *s) {
  LLVMValueRef at, row, element, v[GPU_SORT_VALUES], key;
  HS_TRY(open_element(c, s, s->p.size, &at, &row, &element));
  HS_TRY(gpu_sort_compute(c, s, row, element, v));
  HS_TRY(cg_apply(c, &s->o->key, v, v, &key));
  store(c, key_type(c, s), key, c->bufs[s->o->keys[0]], at);
  LLVMValueRef own = LLVMBuildIntCast2(c->b, element, c->i32, false, "");
  store(c, c->i32, own, c->bufs[s->o->from[0]], at);
  cg_close_if(c);
  return HS_GOOD;
}

static hs_status gather(cg *c, const gpu_sorter *s, LLVMValueRef number) {
  LLVMValueRef at, row, element, v[GPU_SORT_VALUES];
  HS_TRY(open_element(c, s, s->p.wanted, &at, &row, &element));
  LLVMValueRef from = index_of(c, load(c, c->i32, side(c, s->o->from, number, false), at));
  HS_TRY(gpu_sort_compute(c, s, row, from, v));
  HS_TRY(gpu_sort_store(c, s, row, element, v));
  cg_close_if(c);
  return HS_GOOD;
}

// ---- sums over the block ------------------------------------------------------------------------
// The sum of the threads' numbers up to its own, by ever longer strides; *all: of all of them.
static LLVMValueRef sums(cg *c, LLVMValueRef v, LLVMValueRef array, LLVMValueRef *all) {
  LLVMValueRef thread = gpu_of(c)->thread, zero = i32_of(c, 0), sum = v;
  store(c, c->i32, v, array, thread);
  barrier(c);
  for (u32 k = 1; k < THREADS; k *= 2) {
    LLVMValueRef has = LLVMBuildNot(c->b, below(c, thread, k), ""),
                 at = cg_clip(c, true, LLVMBuildSub(c->b, thread, cg_ixc(c, k), ""), cg_ixc(c, 0));
    LLVMValueRef other = LLVMBuildSelect(c->b, has, load(c, c->i32, array, at), zero, "");
    barrier(c);
    sum = LLVMBuildAdd(c->b, sum, other, "");
    store(c, c->i32, sum, array, thread);
    barrier(c);
  }
  *all = load(c, c->i32, array, cg_ixc(c, THREADS - 1));
  barrier(c);  // all have read it
  return sum;
}

// ---- a block for each tile ----------------------------------------------------------------------
typedef struct tile_at {
  LLVMValueRef row, first, tile;  // of the elements, their first one; its number in the row
} tile_at;

static tile_at find_tile(cg *c, const gpu_sorter *s) {
  tile_at t;
  t.row = LLVMBuildUDiv(c->b, gpu_of(c)->block, cg_ixc(c, tiles_of(s)), "");
  t.tile = LLVMBuildURem(c->b, gpu_of(c)->block, cg_ixc(c, tiles_of(s)), "");
  t.first = times(c, t.tile, TILE);
  return t;
}

// The place of a digit's count: rows, digits, tiles.
static LLVMValueRef count_at(cg *c, const gpu_sorter *s, LLVMValueRef row, LLVMValueRef digit,
                             LLVMValueRef tile) {
  return add(c, times(c, add(c, times(c, row, BINS), digit), tiles_of(s)), tile);
}

static hs_status open_rounds(cg *c) {
  return cg_open_loop(c, NEST_NONE, gpu_of(c)->thread, cg_ixc(c, TILE + THREADS - 1), THREADS,
                      false, 0, NULL);
}

static hs_status count(cg *c, const gpu_sorter *s, LLVMValueRef number) {
  tile_at t = find_tile(c, s);
  LLVMValueRef has = gpu_shared(c, c->i32, 4, BINS), thread = gpu_of(c)->thread;
  store(c, c->i32, i32_of(c, 0), has, thread);
  barrier(c);
  HS_TRY(open_rounds(c));
  LLVMValueRef element = add(c, t.first, c->loops[c->open].phi);
  HS_TRY(cg_open_if(c, below(c, element, s->p.size)));
  LLVMValueRef at = add(c, times(c, t.row, s->p.size), element);
  LLVMValueRef key = load(c, key_type(c, s), side(c, s->o->keys, number, false), at);
  LLVMValueRef bin = cg_gep(c, c->i32, has, index_of(c, digit_of(c, key, number)));
  LLVMBuildAtomicRMW(c->b, LLVMAtomicRMWBinOpAdd, bin, i32_of(c, 1), LLVMAtomicOrderingMonotonic,
                     false);
  cg_close_if(c);
  (void)cg_close_loop(c, NULL);
  barrier(c);
  store(c, c->i32, load(c, c->i32, has, thread), c->bufs[s->o->counts],
        count_at(c, s, t.row, thread, t.tile));
  return HS_GOOD;
}

// A block for each digit of a row: counts become what the tiles before have.
static hs_status scan(cg *c, const gpu_sorter *s) {
  gpu_code *g = gpu_of(c);
  LLVMValueRef array = gpu_shared(c, c->i32, 4, THREADS), carry = i32_of(c, 0), all;
  i64 tiles = tiles_of(s), rounds = (tiles + THREADS - 1) / THREADS * THREADS;
  HS_TRY(cg_open_loop(c, NEST_NONE, cg_ixc(c, 0), cg_ixc(c, rounds), THREADS, false, 1, &carry));
  LLVMValueRef tile = add(c, c->loops[c->open].phi, g->thread), own = below(c, tile, tiles),
               first = times(c, g->block, tiles),
               at = add(c, first, cg_clip(c, false, tile, cg_ixc(c, tiles - 1)));
  LLVMValueRef v =
      LLVMBuildSelect(c->b, own, load(c, c->i32, c->bufs[s->o->counts], at), i32_of(c, 0), "");
  LLVMValueRef before = LLVMBuildSub(c->b, sums(c, v, array, &all), v, "");
  before = LLVMBuildAdd(c->b, before, carry, "");
  carry = LLVMBuildAdd(c->b, carry, all, "");
  HS_TRY(cg_open_if(c, own));
  store(c, c->i32, before, c->bufs[s->o->counts], add(c, first, tile));
  cg_close_if(c);
  (void)cg_close_loop(c, &carry);
  HS_TRY(cg_open_if(c, below(c, g->thread, 1)));
  store(c, c->i32, carry, c->bufs[s->o->totals], g->block);
  cg_close_if(c);
  return HS_GOOD;
}

// What the warp, or all warps (NULL), have of a digit before the round is over.
static LLVMValueRef of_warps(cg *c, LLVMValueRef has, LLVMValueRef digit, LLVMValueRef warp) {
  LLVMValueRef sum = i32_of(c, 0);
  for (u32 w = 0; w < WARPS; w++) {
    LLVMValueRef v = load(c, c->i32, has, add(c, digit, cg_ixc(c, (i64)w * BINS)));
    if (warp) {
      LLVMValueRef before = LLVMBuildICmp(c->b, LLVMIntUGT, warp, cg_ixc(c, w), "");
      v = LLVMBuildSelect(c->b, before, v, i32_of(c, 0), "");
    }
    sum = LLVMBuildAdd(c->b, sum, v, "");
  }
  return sum;
}

static void clear_warps(cg *c, LLVMValueRef has, LLVMValueRef digit) {
  for (u32 w = 0; w < WARPS; w++)
    store(c, c->i32, i32_of(c, 0), has, add(c, digit, cg_ixc(c, (i64)w * BINS)));
}

static LLVMValueRef ones(cg *c, LLVMValueRef v) { return cg_unary_intrinsic(c, "llvm.ctpop", v); }

// `next`: where the next element of each digit goes; `has`: what each warp has of it in this round.
static hs_status move_round(cg *c, const gpu_sorter *s, LLVMValueRef number, const tile_at *t,
                            LLVMValueRef next, LLVMValueRef has) {
  LLVMValueRef thread = gpu_of(c)->thread,
               warp = LLVMBuildUDiv(c->b, thread, cg_ixc(c, GPU_WARP), ""),
               lane = LLVMBuildIntCast2(c->b, LLVMBuildURem(c->b, thread, cg_ixc(c, GPU_WARP), ""),
                                        c->i32, false, "");
  LLVMValueRef element = add(c, t->first, c->loops[c->open].phi),
               own = below(c, element, s->p.size), row = times(c, t->row, s->p.size),
               at = add(c, row, cg_clip(c, false, element, cg_ixc(c, s->p.size - 1)));
  LLVMValueRef key = load(c, key_type(c, s), side(c, s->o->keys, number, false), at),
               from = load(c, c->i32, side(c, s->o->from, number, false), at),
               digit = digit_of(c, key, number), bin = index_of(c, digit);
  // threads without an element have a digit of their own
  LLVMValueRef alike =
      gpu_of(c)->target->same(c, LLVMBuildSelect(c->b, own, digit, i32_of(c, BINS), ""));
  LLVMValueRef earlier =
      LLVMBuildSub(c->b, LLVMBuildShl(c->b, i32_of(c, 1), lane, ""), i32_of(c, 1), "");
  LLVMValueRef rank = ones(c, LLVMBuildAnd(c->b, alike, earlier, "")),
               first = LLVMBuildICmp(c->b, LLVMIntEQ, rank, i32_of(c, 0), "");
  HS_TRY(cg_open_if(c, LLVMBuildAnd(c->b, own, first, "")));
  store(c, c->i32, ones(c, alike), has, add(c, times(c, warp, BINS), bin));
  cg_close_if(c);
  barrier(c);
  HS_TRY(cg_open_if(c, own));
  LLVMValueRef place = LLVMBuildAdd(c->b, load(c, c->i32, next, bin), rank, "");
  place = LLVMBuildAdd(c->b, place, of_warps(c, has, bin, warp), "");
  LLVMValueRef to = add(c, row, index_of(c, place));
  store(c, key_type(c, s), key, side(c, s->o->keys, number, true), to);
  store(c, c->i32, from, side(c, s->o->from, number, true), to);
  cg_close_if(c);
  barrier(c);
  LLVMValueRef more = of_warps(c, has, thread, NULL);
  store(c, c->i32, LLVMBuildAdd(c->b, load(c, c->i32, next, thread), more, ""), next, thread);
  clear_warps(c, has, thread);
  barrier(c);
  return HS_GOOD;
}

static hs_status move(cg *c, const gpu_sorter *s, LLVMValueRef number) {
  tile_at t = find_tile(c, s);
  LLVMValueRef thread = gpu_of(c)->thread, next = gpu_shared(c, c->i32, 4, BINS),
               has = gpu_shared(c, c->i32, 4, BINS * WARPS), all;
  LLVMValueRef total =
      load(c, c->i32, c->bufs[s->o->totals], add(c, times(c, t.row, BINS), thread));
  LLVMValueRef start = LLVMBuildSub(c->b, sums(c, total, next, &all), total, "");
  LLVMValueRef before =
      load(c, c->i32, c->bufs[s->o->counts], count_at(c, s, t.row, thread, t.tile));
  store(c, c->i32, LLVMBuildAdd(c->b, start, before, ""), next, thread);
  clear_warps(c, has, thread);
  barrier(c);
  HS_TRY(open_rounds(c));
  HS_TRY(move_round(c, s, number, &t, next, has));
  (void)cg_close_loop(c, NULL);
  return HS_GOOD;
}

hs_status gpu_radix_part(cg *c, const gpu_sorter *s, gpu_order_part part, LLVMValueRef number) {
  switch (part) {
  case GPU_ORDER_KEYS: return make_keys(c, s);
  case GPU_ORDER_COUNT: return count(c, s, number);
  case GPU_ORDER_SCAN: return scan(c, s);
  case GPU_ORDER_MOVE: return move(c, s, number);
  default: return gather(c, s, number);
  }
}
