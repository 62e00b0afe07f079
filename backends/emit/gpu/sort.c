// sort.c — putting rows of elements in order, by a network of comparisons.
//
// Two sorted halves become one sorted whole by comparing the elements at equal distances from both
// ends, then at distances of a half, a quarter, and so on, each pair exchanged where its second
// comes before its first (Batcher's bitonic network, in the form that compares in one direction
// only: what lies behind the end of a row counts as last, and is never touched). Whatever the
// comparison says, elements are only exchanged: none gets lost where it is no order. Equal elements
// keep their order by the places that they had, which go with them.
//
// Tiles are sorted in shared memory. Rows of several tiles are merged in memory as long as pairs
// are further apart than a tile; what follows is done in tiles again. Rows shorter than a tile
// share one. Long rows whose comparison is known go by digits instead (radix.c).
#include "backends/emit/gpu.h"
#include "backends/emit/gpu/code.h"

#define MOST_VALUES GPU_SORT_VALUES
typedef gpu_sorter sorter;

static u32 parts(const sorter *s) { return s->n + (s->o->unique ? 0 : 1); }
static LLVMValueRef add(cg *c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildNSWAdd(c->b, a, b, "");
}
static LLVMValueRef times(cg *c, LLVMValueRef a, i64 k) {
  return LLVMBuildNSWMul(c->b, a, cg_ixc(c, k), "");
}
static LLVMValueRef less_than(cg *c, LLVMValueRef a, i64 n) {
  return LLVMBuildICmp(c->b, LLVMIntSLT, a, cg_ixc(c, n), "");
}

// ---- elements in memory -------------------------------------------------------------------------
// The loops of the order stand at the element.
static void stand_at(cg *c, const sorter *s, LLVMValueRef row, LLVMValueRef element) {
  u32 bit = c->n->vars.v[s->o->along].loop;
  gpu_set_loops(c, row, s->o->stage.nloops, s->o->stage.loops, 1ull << bit, 1);
  c->loop_val[bit] = element;
  c->loop_level[bit] = c->open;
  c->open_mask |= 1ull << bit;
}
static void leave(cg *c, const sorter *s) {
  gpu_unset_loops(c, s->o->stage.nloops, s->o->stage.loops, 0);
}

static LLVMValueRef place_at(cg *c, const sorter *s, LLVMValueRef row, LLVMValueRef element) {
  return cg_gep(c, c->i32, c->bufs[s->o->places], add(c, times(c, row, s->p.size), element));
}

static LLVMValueRef value_at(cg *c, const sorter *s, u32 k, hs_status *st) {
  const nest_store *w = &s->o->stage.stores.v[k];
  LLVMValueRef at = NULL;
  if (hs_ok(*st)) *st = cg_expr(c, w->e, NEST_NONE, &at);
  cg_at_level(c, c->open);
  return at ? cg_gep(c, cg_mem(c, c->n->bufs.v[w->buf].dtype), c->bufs[w->buf], at) : NULL;
}

static hs_status load_element(cg *c, const sorter *s, LLVMValueRef row, LLVMValueRef element,
                              LLVMValueRef *v) {
  hs_status st = HS_GOOD;
  stand_at(c, s, row, element);
  for (u32 k = 0; k < s->n && hs_ok(st); k++) {
    hlo_dtype t = c->n->bufs.v[s->o->stage.stores.v[k].buf].dtype;
    LLVMValueRef p = value_at(c, s, k, &st);
    if (p) v[k] = cg_from_mem(c, t, LLVMBuildLoad2(c->b, cg_mem(c, t), p, ""));
  }
  if (!s->o->unique) v[s->n] = LLVMBuildLoad2(c->b, c->i32, place_at(c, s, row, element), "");
  leave(c, s);
  return st;
}

hs_status gpu_sort_store(cg *c, const sorter *s, LLVMValueRef row, LLVMValueRef element,
                         const LLVMValueRef *v) {
  hs_status st = HS_GOOD;
  stand_at(c, s, row, element);
  for (u32 k = 0; k < s->n && hs_ok(st); k++) {
    hlo_dtype t = c->n->bufs.v[s->o->stage.stores.v[k].buf].dtype;
    LLVMValueRef p = value_at(c, s, k, &st);
    if (p) LLVMBuildStore(c->b, cg_to_mem(c, t, v[k]), p);
  }
  if (!s->o->unique && s->p.several && !s->p.digits)
    LLVMBuildStore(c->b, v[s->n], place_at(c, s, row, element));
  leave(c, s);
  return st;
}

// The element as it is computed from the kernel's operands.
hs_status gpu_sort_compute(cg *c, const sorter *s, LLVMValueRef row, LLVMValueRef element,
                           LLVMValueRef *v) {
  LLVMValueRef *p;
  stand_at(c, s, row, element);
  for (u32 k = 0; k < s->n; k++) {
    NODE(c, s->o->stage.stores.v[k].node, &p);
    v[k] = p[0];
  }
  cg_at_level(c, c->open);
  if (!s->o->unique) v[s->n] = LLVMBuildIntCast2(c->b, element, c->i32, false, "");
  leave(c, s);
  return HS_GOOD;
}

// ---- elements in the tile -----------------------------------------------------------------------
static void make_tile(cg *c, sorter *s) {
  for (u32 k = 0; k < parts(s); k++) {
    LLVMTypeRef t =
        k < s->n ? cg_rep(c, c->n->nodes.v[s->o->stage.stores.v[k].node].dtype) : c->i32;
    s->type[k] = t == c->i1 ? c->i8 : t;
    s->array[k] =
        gpu_shared(c, s->type[k], t == c->f64 || t == c->i64 ? 8 : 4, (u64)s->p.tile * s->p.each);
  }
}

static void take(cg *c, const sorter *s, LLVMValueRef at, LLVMValueRef *v) {
  for (u32 k = 0; k < parts(s); k++) {
    v[k] = LLVMBuildLoad2(c->b, s->type[k], cg_gep(c, s->type[k], s->array[k], at), "");
    if (k < s->n && c->n->nodes.v[s->o->stage.stores.v[k].node].dtype == HLO_PRED)
      v[k] = LLVMBuildICmp(c->b, LLVMIntNE, v[k], LLVMConstNull(c->i8), "");
  }
}

static void put(cg *c, const sorter *s, LLVMValueRef at, const LLVMValueRef *v) {
  for (u32 k = 0; k < parts(s); k++) {
    LLVMValueRef x = LLVMTypeOf(v[k]) == c->i1 ? LLVMBuildZExt(c->b, v[k], c->i8, "") : v[k];
    LLVMBuildStore(c->b, x, cg_gep(c, s->type[k], s->array[k], at));
  }
}

// Row and element of number `at` in the tile.
static void find(cg *c, const sorter *s, LLVMValueRef at, LLVMValueRef *row,
                 LLVMValueRef *element) {
  *row = s->row, *element = at;
  if (s->p.each > 1) {
    *row = add(c, *row, LLVMBuildUDiv(c->b, at, cg_ixc(c, s->p.tile), ""));
    *element = LLVMBuildURem(c->b, at, cg_ixc(c, s->p.tile), "");
  }
  *element = add(c, *element, s->first);
}

// Opens this thread's share of n items.
static hs_status open_share(cg *c, i64 n) {
  HS_TRY(cg_open_loop(c, NEST_NONE, gpu_of(c)->thread, cg_ixc(c, n + GPU_ORDER_THREADS - 1),
                      GPU_ORDER_THREADS, true, 0, NULL));
  return HS_GOOD;
}

static LLVMValueRef exists(cg *c, const sorter *s, LLVMValueRef row, LLVMValueRef element) {
  LLVMValueRef ok = less_than(c, element, s->p.size);
  return s->p.each > 1 ? LLVMBuildAnd(c->b, ok, less_than(c, row, s->p.rows), "") : ok;
}

// Elements from memory into the tile, or back.
typedef hs_status element_fn(cg *, const sorter *, LLVMValueRef row, LLVMValueRef element,
                             LLVMValueRef *v);

static hs_status fill(cg *c, const sorter *s, element_fn *from) {
  LLVMValueRef v[MOST_VALUES], row, element;
  HS_TRY(open_share(c, (i64)s->p.tile * s->p.each));
  LLVMValueRef at = c->loops[c->open].phi;
  find(c, s, at, &row, &element);
  HS_TRY(cg_open_if(c, exists(c, s, row, element)));
  HS_TRY(from(c, s, row, element, v));
  put(c, s, at, v);
  cg_close_if(c);
  (void)cg_close_loop(c, NULL);
  gpu_of(c)->target->barrier(c);
  return HS_GOOD;
}

static hs_status empty(cg *c, const sorter *s) {
  LLVMValueRef v[MOST_VALUES], row, element;
  HS_TRY(open_share(c, (i64)s->p.tile * s->p.each));
  LLVMValueRef at = c->loops[c->open].phi;
  find(c, s, at, &row, &element);
  HS_TRY(cg_open_if(c, exists(c, s, row, element)));
  take(c, s, at, v);
  HS_TRY(gpu_sort_store(c, s, row, element, v));
  cg_close_if(c);
  (void)cg_close_loop(c, NULL);
  return HS_GOOD;
}

// ---- pairs --------------------------------------------------------------------------------------
// Pair number p at bit h: its first element, and the mask that leads to its second; ends: from both
// ends of 2^(h+1) elements.
static void pair(cg *c, LLVMValueRef p, LLVMValueRef h, LLVMValueRef ends, LLVMValueRef *first,
                 LLVMValueRef *second) {
  LLVMValueRef one = cg_ixc(c, 1), bit = LLVMBuildShl(c->b, one, h, ""),
               below = LLVMBuildSub(c->b, bit, one, "");
  LLVMValueRef high =
      LLVMBuildShl(c->b, LLVMBuildLShr(c->b, p, h, ""), LLVMBuildAdd(c->b, h, one, ""), "");
  *first = LLVMBuildOr(c->b, high, LLVMBuildAnd(c->b, p, below, ""), "");
  LLVMValueRef mask = LLVMBuildSelect(c->b, ends, LLVMBuildOr(c->b, bit, below, ""), bit, "");
  *second = LLVMBuildXor(c->b, *first, mask, "");
}

// Whether b comes before a, which stands before it.
static hs_status wrong(cg *c, const sorter *s, const LLVMValueRef *a, const LLVMValueRef *b,
                       LLVMValueRef *out) {
  LLVMValueRef other;
  HS_TRY(cg_apply(c, &s->o->less, b, a, out));
  if (s->o->unique) return HS_GOOD;
  HS_TRY(cg_apply(c, &s->o->less, a, b, &other));
  LLVMValueRef later = LLVMBuildICmp(c->b, LLVMIntULT, b[s->n], a[s->n], "");
  other = LLVMBuildAnd(c->b, LLVMBuildNot(c->b, other, ""), later, "");
  *out = LLVMBuildOr(c->b, *out, other, "");
  return HS_GOOD;
}

// All pairs of the tile at bit h.
static hs_status tile_pairs(cg *c, const sorter *s, LLVMValueRef h, LLVMValueRef ends) {
  LLVMValueRef i, j, row, element, a[MOST_VALUES], b[MOST_VALUES], swap;
  HS_TRY(open_share(c, (i64)s->p.tile * s->p.each / 2));
  pair(c, c->loops[c->open].phi, h, ends, &i, &j);
  find(c, s, j, &row, &element);
  HS_TRY(cg_open_if(c, exists(c, s, row, element)));
  take(c, s, i, a);
  take(c, s, j, b);
  HS_TRY(wrong(c, s, a, b, &swap));
  HS_TRY(cg_open_if(c, swap));
  put(c, s, i, b);
  put(c, s, j, a);
  cg_close_if(c);
  cg_close_if(c);
  (void)cg_close_loop(c, NULL);
  gpu_of(c)->target->barrier(c);
  return HS_GOOD;
}

// Bits from - 1 to 0; ends: whether the first of them pairs from both ends.
static hs_status tile_bits(cg *c, const sorter *s, LLVMValueRef from, bool ends) {
  LLVMValueRef zero = cg_ixc(c, 0), one = cg_ixc(c, 1);
  HS_TRY(cg_open_loop(c, NEST_NONE, zero, from, 1, true, 0, NULL));
  LLVMValueRef k = c->loops[c->open].phi,
               h = LLVMBuildSub(c->b, LLVMBuildSub(c->b, from, one, ""), k, ""),
               at_end = ends ? LLVMBuildICmp(c->b, LLVMIntEQ, k, zero, "")
                             : LLVMConstInt(c->i1, 0, false);
  HS_TRY(tile_pairs(c, s, h, at_end));
  (void)cg_close_loop(c, NULL);
  return HS_GOOD;
}

// ---- the functions ------------------------------------------------------------------------------
static void find_tile(cg *c, sorter *s) {
  gpu_code *g = gpu_of(c);
  s->row = times(c, g->block, s->p.each);
  s->first = cg_ixc(c, 0);
  if (!s->p.several) return;
  i64 tiles = (s->p.size + s->p.tile - 1) / s->p.tile;
  s->row = LLVMBuildUDiv(c->b, g->block, cg_ixc(c, tiles), "");
  s->first = times(c, LLVMBuildURem(c->b, g->block, cg_ixc(c, tiles), ""), s->p.tile);
}

static hs_status sort_tile(cg *c, sorter *s) {
  find_tile(c, s);
  make_tile(c, s);
  HS_TRY(fill(c, s, gpu_sort_compute));
  HS_TRY(cg_open_loop(c, NEST_NONE, cg_ixc(c, 1), cg_ixc(c, (i64)s->log + 1), 1, true, 0, NULL));
  HS_TRY(tile_bits(c, s, c->loops[c->open].phi, true));
  (void)cg_close_loop(c, NULL);
  return empty(c, s);
}

static hs_status merge_tile(cg *c, sorter *s) {
  find_tile(c, s);
  make_tile(c, s);
  HS_TRY(fill(c, s, load_element));
  HS_TRY(tile_bits(c, s, cg_ixc(c, s->log), false));
  return empty(c, s);
}

// A thread for each pair of a row as long as the next power of two.
static hs_status merge_pairs(cg *c, const sorter *s, LLVMValueRef number) {
  gpu_code *g = gpu_of(c);
  i64 pairs = (i64)1 << (gpu_order_log(s->p.size) - 1);
  LLVMValueRef i, j, a[MOST_VALUES], b[MOST_VALUES], swap;
  LLVMValueRef no = add(c, times(c, g->block, GPU_ORDER_THREADS), g->thread),
               row = LLVMBuildUDiv(c->b, no, cg_ixc(c, pairs), "");
  number = LLVMBuildIntCast2(c->b, number, c->ix, false, "");
  LLVMValueRef h = LLVMBuildAnd(c->b, number, cg_ixc(c, 255), ""),
               ends = LLVMBuildICmp(c->b, LLVMIntUGT, number, cg_ixc(c, 255), "");
  pair(c, LLVMBuildURem(c->b, no, cg_ixc(c, pairs), ""), h, ends, &i, &j);
  HS_TRY(cg_open_if(
      c, LLVMBuildAnd(c->b, less_than(c, row, s->p.rows), less_than(c, j, s->p.size), "")));
  HS_TRY(load_element(c, s, row, i, a));
  HS_TRY(load_element(c, s, row, j, b));
  HS_TRY(wrong(c, s, a, b, &swap));
  HS_TRY(cg_open_if(c, swap));
  HS_TRY(gpu_sort_store(c, s, row, i, b));
  HS_TRY(gpu_sort_store(c, s, row, j, a));
  cg_close_if(c);
  cg_close_if(c);
  return HS_GOOD;
}

// For each limit how many elements lie below it, by bisection.
static hs_status find_starts(cg *c, const sorter *s) {
  gpu_code *g = gpu_of(c);
  const nest_order *o = s->o;
  LLVMValueRef no = add(c, times(c, g->block, GPU_ORDER_THREADS), g->thread), one = cg_ixc(c, 1),
               bounds[2] = {cg_ixc(c, 0), cg_ixc(c, s->p.size)};
  HS_TRY(cg_open_if(c, less_than(c, no, o->limits + 1)));
  LLVMValueRef limit = LLVMBuildShl(c->b, LLVMBuildIntCast2(c->b, no, c->i64, false, ""),
                                    LLVMConstInt(c->i64, 32, false), "");
  HS_TRY(cg_open_loop(c, NEST_NONE, cg_ixc(c, 0), cg_ixc(c, (i64)gpu_order_log(s->p.size) + 1), 1,
                      false, 2, bounds));
  LLVMValueRef middle = LLVMBuildLShr(c->b, LLVMBuildAdd(c->b, bounds[0], bounds[1], ""), one, "");
  // where nothing is left between the bounds they stay; the last element may be read in vain
  LLVMValueRef open = LLVMBuildICmp(c->b, LLVMIntSLT, bounds[0], bounds[1], ""),
               at = cg_clip(c, false, middle, cg_ixc(c, s->p.size - 1)),
               key = LLVMBuildLoad2(c->b, c->i64,
                                    cg_gep(c, c->i64, c->bufs[o->stage.stores.v[0].buf], at), ""),
               below = LLVMBuildICmp(c->b, LLVMIntULT, key, limit, "");
  LLVMValueRef up = LLVMBuildAnd(c->b, open, below, ""),
               down = LLVMBuildAnd(c->b, open, LLVMBuildNot(c->b, below, ""), "");
  bounds[0] = LLVMBuildSelect(c->b, up, add(c, middle, one), bounds[0], "");
  bounds[1] = LLVMBuildSelect(c->b, down, middle, bounds[1], "");
  (void)cg_close_loop(c, bounds);
  LLVMBuildStore(c->b, LLVMBuildIntCast2(c->b, bounds[0], c->i32, false, ""),
                 cg_gep(c, c->i32, c->bufs[o->starts], no));
  cg_close_if(c);
  return HS_GOOD;
}

static hs_status body(cg *c, sorter *s, gpu_order_part part, LLVMValueRef number) {
  switch (part) {
  case GPU_ORDER_SORT: return sort_tile(c, s);
  case GPU_ORDER_STEP: return merge_pairs(c, s, number);
  case GPU_ORDER_TILE: return merge_tile(c, s);
  case GPU_ORDER_STARTS: return find_starts(c, s);
  default: return gpu_radix_part(c, s, part, number);
  }
}

// Whether the order has launches of that part.
static bool has_part(const sorter *s, u32 part) {
  if (part == GPU_ORDER_STARTS) return s->o->starts != NEST_NONE;
  if (part >= GPU_ORDER_KEYS) return s->p.digits > 0;
  return !s->p.digits && (part == GPU_ORDER_SORT || s->p.several);
}

hs_status gpu_order_parts(cg *c, const char *name, u32 buffers, u32 *shared) {
  gpu_code *g = gpu_of(c);
  sorter s = {.o = c->n->order, .p = gpu_plan_order(c->n)};
  *shared = 0;
  if (!s.o) return HS_GOOD;
  s.n = (u32)s.o->stage.stores.n;
  s.log = gpu_order_log(s.p.tile);
  c->stage = &s.o->stage;
  const char *own = g->name;
  hs_status st = HS_GOOD;
  for (u32 part = 0; part < GPU_ORDER_PARTS && hs_ok(st); part++) {
    if (!has_part(&s, part)) continue;
    char *full = hs_format("%s%s", name, emit_gpu_suffixes[part]);
    g->name = full;
    g->shared_bytes = 0;
    gpu_begin(c, full, buffers, GPU_ORDER_THREADS, true);
    st = body(c, &s, (gpu_order_part)part, LLVMGetParam(c->fn, buffers + 1));
    cg_at_level(c, 0);
    LLVMBuildRetVoid(c->b);
    cg_forget(c, 0, 0);
    *shared = HS_MAX(*shared, g->shared_bytes);
    g->name = own;
    hs_free(full);
  }
  return st;
}
