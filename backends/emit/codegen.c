// codegen.c — loop nest -> LLVM IR: the function of a kernel, its stages, and the loops of a
// stage.
//
// A stage opens its loops and emits its stores; nodes are emitted on demand from the stores
// backwards (codegen_nodes.c). `ins[k]` is the still unterminated end of the code of level k, so
// that code can be added in front of an open loop: the loop's preheader gets its branch only when
// the loop is closed (codegen_loops.c).
//
// Lanes: one loop at a time runs W lanes wide, U vectors per iteration. A node that depends on that
// loop is U vectors, any other a scalar. What is left of the loop runs one masked vector at a time;
// masked lanes neither load nor store. Where guards change their value along the lane loop, the
// loop is cut, so that each part has constant guards. Transposes run two loops in square tiles.
#include "backends/emit/codegen.h"
#include "backends/emit/unit.h"

// ---- stages -------------------------------------------------------------------------------------
hs_status cg_emit_stores(cg *c) {
  bool rows = false;  // a result that holds rows is read before it is written
  LLVMValueRef *p;
  for (size_t k = 0; k < c->stage->stores.n; k++)
    rows |= c->n->bufs.v[c->stage->stores.v[k].buf].holds_rows;
  for (size_t k = 0; rows && k < c->stage->stores.n; k++) NODE(c, c->stage->stores.v[k].node, &p);
  u32 ways = c->stage->ways ? c->stage->ways : 2;
  for (size_t k = 0; k < c->stage->stores.n;) {
    const nest_store *st = &c->stage->stores.v[k];
    bool woven = k + ways <= c->stage->stores.n && cg_are_neighbours(c, st, ways);
    HS_TRY(woven ? cg_emit_interleaved(c, st, ways) : cg_emit_store(c, st, c->open));
    k += woven ? ways : 1;
  }
  return HS_GOOD;
}

// The lane loop from start to end: full iterations, then a masked tail.
static hs_status vector_loop(cg *c, u32 bit, LLVMValueRef start, LLVMValueRef end, bool full,
                             bool tail, bool only_tail) {
  LLVMValueRef at = start;
  c->lane = 1ull << bit;
  c->W = c->stage->lanes;
  if (!only_tail) {
    c->U = c->stage->unroll;
    c->stride = c->aligned ? (i64)(c->U * c->W) : 0;
    HS_TRY(cg_open_loop(c, bit, start, end, (i64)(c->U * c->W), !full, 0, NULL));
    HS_TRY(cg_emit_stores(c));
    at = cg_close_loop(c, NULL);
    if (c->stride) cg_forget(c, CG_MAX_LEVELS, 1ull << bit);  // other lanes follow
    c->stride = 0;
  }
  if (tail) {
    c->U = 1;
    LLVMValueRef stop = LLVMBuildAdd(c->b, end, cg_ixc(c, (i64)c->W - 1), "");
    HS_TRY(cg_open_loop(c, bit, at, stop, (i64)c->W, !only_tail || !full, 0, NULL));
    c->mask[0] = cg_tail_mask(c, c->loop_val[bit], end);
    HS_TRY(cg_emit_stores(c));
    c->mask[0] = NULL;
    (void)cg_close_loop(c, NULL);
  }
  c->lane = 0;
  c->W = c->U = 1;
  return HS_GOOD;
}

// The positions at which guards that vary over the lane loop alone change their value, with 0 and
// n, in order: the loop is cut there. At most 12.
static u32 lane_cuts(const cg *c, u32 var, i64 n, i64 *cuts) {
  u32 k = 0;
  cuts[k++] = 0;
  cuts[k++] = n;
  for (size_t i = 0; i < c->n->nodes.n; i++) {
    const nest_node *x = &c->n->nodes.v[i];
    if (x->kind != NEST_GUARD || !nest_coef(x->e, var)) continue;
    i64 coef = nest_coef(x->e, var), lo = x->e->c, hi = x->e->c;
    bool plain = true;
    for (u32 t = 0; t < x->e->n; t++) {
      const nest_var *v = &c->n->vars.v[x->e->t[t].var];
      if (x->e->t[t].var == var) continue;
      bool reduced = v->kind == NEST_LOOP;
      for (u32 l = 0; l < c->stage->nloops && reduced; l++)
        reduced = c->stage->loops[l] != x->e->t[t].var;
      plain &= reduced;  // a loop of a reduction: only its range matters
      lo += x->e->t[t].coef * (x->e->t[t].coef > 0 ? v->lo : v->hi);
      hi += x->e->t[t].coef * (x->e->t[t].coef > 0 ? v->hi : v->lo);
    }
    if (!plain || coef < 0) continue;
    i64 a = x->lo - lo, b = x->hi - 1 - hi;  // true for all: coef*x >= a and coef*x <= b
    i64 from = a <= 0 ? 0 : (a + coef - 1) / coef, to = b < 0 ? 0 : b / coef + 1;
    for (int s = 0; s < 2; s++) {
      i64 cut = s ? to : from;
      if (cut <= 0 || cut >= n || k >= 10) continue;
      u32 p = k;
      while (p > 0 && cuts[p - 1] > cut) p--;
      if (p > 0 && cuts[p - 1] == cut) continue;
      memmove(cuts + p + 1, cuts + p, (k - p) * sizeof *cuts);
      cuts[p] = cut;
      k++;
    }
  }
  return k;
}

static hs_status emit_lane_loop(cg *c, u32 var, LLVMValueRef start, LLVMValueRef end, bool whole,
                                bool aligned) {
  nest_var keep = c->n->vars.v[var];
  u32 bit = keep.loop;
  i64 n = keep.hi + 1, step = (i64)(c->stage->unroll * c->stage->lanes), cuts[16];
  u32 ncuts = lane_cuts(c, var, n, cuts);
  hs_status s = HS_GOOD;
  c->aligned = ncuts == 2 && (whole || aligned);
  if (ncuts == 2) {
    bool tail = n % step != 0 || (!whole && !aligned);
    return vector_loop(c, bit, start, end, whole ? n >= step : false, tail, n < step);
  }
  for (u32 k = 0; k + 1 < ncuts && hs_ok(s); k++) {
    i64 a = cuts[k], b = cuts[k + 1];
    c->n->vars.v[var].lo = a;
    c->n->vars.v[var].hi = b - 1;
    cg_at_level(c, c->open);
    LLVMValueRef from = cg_ixc(c, a), to = cg_ixc(c, b);
    if (!whole) from = cg_clip(c, true, from, start), to = cg_clip(c, false, to, end);
    s = vector_loop(c, bit, from, to, whole, !whole || (b - a) % step != 0, b - a < step);
    c->n->vars.v[var] = keep;
  }
  return s;
}

// The same, behind branches on choices that all of it makes alike (codegen_choice.c).
static hs_status emit_chosen_loop(cg *c, u32 var, LLVMValueRef start, LLVMValueRef end, bool whole,
                                  bool aligned) {
  u32 p = cg_find_choice(c, 1ull << c->n->vars.v[var].loop);
  if (p == NEST_NONE) return emit_lane_loop(c, var, start, end, whole, aligned);
  LLVMValueRef *v;
  NODE(c, p, &v);
  LLVMValueRef yes = v[0];
  for (int arm = 1; arm >= 0; arm--) {
    cg_at_level(c, c->open);
    HS_TRY(cg_open_if(c, arm ? yes : LLVMBuildNot(c->b, yes, "")));
    c->chosen[c->nchosen].node = p;
    c->chosen[c->nchosen++].yes = arm;
    HS_TRY(emit_chosen_loop(c, var, start, end, whole, aligned));
    c->nchosen--;
    cg_close_if(c);
  }
  return HS_GOOD;
}

#define TILE_BLOCK 512

// What a whole tile of two loops is, while its code is made.
static void enter_tile(cg *c, u64 ibit, u64 jbit) {
  c->tile = jbit;
  c->lane = ibit | jbit;
  c->W = c->U = c->stage->lanes;
  c->aligned = true;
}
static void leave_tile(cg *c) {
  c->tile = c->lane = 0;
  c->W = c->U = 1;
}

// One tile of two loops; i_left, j_left: what is left of them in a partial tile, or NULL.
static hs_status one_tile(cg *c, u64 ibit, u64 jbit, LLVMValueRef i_left, LLVMValueRef j_left) {
  enter_tile(c, ibit, jbit);
  c->aligned = !i_left;
  c->lane_left = i_left;
  c->tile_left = j_left;
  cg_at_level(c, c->loop_level[__builtin_ctzll(ibit)]);
  c->lane_mask = i_left ? cg_below(c, i_left) : NULL;
  cg_at_level(c, c->open);
  for (u32 u = 0; u < c->U; u++) {
    c->mask[u] = c->lane_mask;
    if (j_left)
      c->mask[u] =
          cg_and_mask(c, c->lane_mask,
                      cg_splat(c, LLVMBuildICmp(c->b, LLVMIntSLT, cg_ixc(c, u), j_left, ""), c->W));
  }
  hs_status s = cg_emit_stores(c);
  memset(c->mask, 0, sizeof c->mask);
  c->lane_left = c->tile_left = c->lane_mask = NULL;
  leave_tile(c);
  return s;
}

// The tiles of W lanes of the last loop, along the tile loop: loads go along their cache lines, so
// that the machine sees W streams, and stores fill whole lines wherever they go.
static hs_status tile_row(cg *c, u32 i, u32 j, LLVMValueRef j0, LLVMValueRef j1, bool j_tail,
                          LLVMValueRef i_left) {
  i64 W = (i64)c->stage->lanes;
  HS_TRY(cg_open_loop(c, j, j0, j1, W, true, 0, NULL));
  HS_TRY(one_tile(c, 1ull << i, 1ull << j, i_left, NULL));
  LLVMValueRef at = cg_close_loop(c, NULL);
  if (!j_tail) return HS_GOOD;
  HS_TRY(cg_open_loop(c, j, at, LLVMBuildAdd(c->b, j1, cg_ixc(c, W - 1), ""), W, true, 0, NULL));
  HS_TRY(one_tile(c, 1ull << i, 1ull << j, i_left, LLVMBuildSub(c->b, j1, c->loop_val[j], "")));
  (void)cg_close_loop(c, NULL);
  return HS_GOOD;
}

// Opens a loop over blocks of `size` from..to; gives the bounds of the block.
static hs_status open_blocks(cg *c, LLVMValueRef from, LLVMValueRef to, i64 size, LLVMValueRef *b,
                             LLVMValueRef *e) {
  HS_TRY(cg_open_loop(c, NEST_NONE, from, LLVMBuildAdd(c->b, to, cg_ixc(c, size - 1), ""), size,
                      false, 0, NULL));
  *b = c->loops[c->open].phi;
  *e = cg_clip(c, false, LLVMBuildAdd(c->b, *b, cg_ixc(c, size), ""), to);
  return HS_GOOD;
}

// Blocks of two rows of tiles, 512 elements long: as many streams as the machine follows for the
// loads, and pages of the result that it still knows when their turn comes again. Where stores go
// past the caches, blocks are two tiles wide and 512 elements deep: stores follow each other in
// whole pages, and what the next block loads, two lines of each row, is fetched meanwhile
// (tile_load).
static hs_status emit_tiles(cg *c, LLVMValueRef i0, LLVMValueRef i1, LLVMValueRef j0,
                            LLVMValueRef j1) {
  const nest_stage *st = c->stage;
  u32 vi = st->loops[st->nloops - 1], vj = st->loops[st->tile], i = c->n->vars.v[vi].loop,
      j = c->n->vars.v[vj].loop;
  i64 W = (i64)st->lanes;
  bool i_tail = cg_extent(c, vi) % W != 0, j_tail = cg_extent(c, vj) % W != 0;
  LLVMValueRef ib, ie, jb, je;
  enter_tile(c, 1ull << i, 1ull << j);
  c->ahead = cg_all_stream(c);
  leave_tile(c);
  HS_TRY(open_blocks(c, i0, i1, c->ahead ? TILE_BLOCK : 2 * W, &ib, &ie));
  HS_TRY(open_blocks(c, j0, j1, c->ahead ? 2 * W : TILE_BLOCK, &jb, &je));
  HS_TRY(cg_open_loop(c, i, ib, ie, W, true, 0, NULL));
  HS_TRY(tile_row(c, i, j, jb, je, j_tail, NULL));
  LLVMValueRef at = cg_close_loop(c, NULL);
  if (i_tail) {
    HS_TRY(cg_open_loop(c, i, at, LLVMBuildAdd(c->b, ie, cg_ixc(c, W - 1), ""), W, true, 0, NULL));
    HS_TRY(tile_row(c, i, j, jb, je, j_tail, LLVMBuildSub(c->b, ie, c->loop_val[i], "")));
    (void)cg_close_loop(c, NULL);
  }
  c->ahead = false;
  (void)cg_close_loop(c, NULL);
  (void)cg_close_loop(c, NULL);
  return HS_GOOD;
}

static hs_status emit_stage(cg *c, const nest_stage *st, LLVMValueRef chunk) {
  LLVMValueRef from[NEST_MAX_LOOPS], to[NEST_MAX_LOOPS], rest = chunk;
  c->stage = st;
  cg_at_level(c, 0);
  // the chunk number is mixed radix over the split loops
  for (u32 k = st->nloops; k-- > 0;) {
    i64 n = cg_extent(c, st->loops[k]);
    from[k] = cg_ixc(c, 0);
    to[k] = cg_ixc(c, n);
    if (st->split[k] <= 1) continue;
    LLVMValueRef at = LLVMBuildURem(c->b, rest, cg_ixc(c, st->split[k]), "");
    rest = LLVMBuildUDiv(c->b, rest, cg_ixc(c, st->split[k]), "");
    from[k] = LLVMBuildNSWMul(c->b, at, cg_ixc(c, st->block[k]), "");
    to[k] = LLVMBuildNSWAdd(c->b, from[k], cg_ixc(c, st->block[k]), "");
    if (st->split[k] * st->block[k] != n) to[k] = cg_clip(c, false, to[k], cg_ixc(c, n));
  }
  u32 scalar = st->vector ? st->nloops - 1 : st->nloops, base = c->open;
  for (u32 k = 0; k < scalar; k++) {
    if (k == st->tile) continue;
    HS_TRY(cg_open_loop(c, c->n->vars.v[st->loops[k]].loop, from[k], to[k], 1, false, 0, NULL));
  }
  if (st->tile != NEST_NONE) {
    cg_at_level(c, c->open);
    HS_TRY(emit_tiles(c, from[scalar], to[scalar], from[st->tile], to[st->tile]));
  } else if (st->vector) {
    u32 k = st->nloops - 1;
    i64 step = (i64)(st->unroll * st->lanes);
    HS_TRY(emit_chosen_loop(c, st->loops[k], from[k], to[k], st->split[k] <= 1,
                            st->block[k] % step == 0));
  } else {
    c->lane = 0;
    c->W = c->U = 1;
    HS_TRY(cg_emit_stores(c));
  }
  while (c->open > base) (void)cg_close_loop(c, NULL);
  return HS_GOOD;
}

static void fn_attr(LLVMContextRef ctx, LLVMValueRef fn, const char *key, const char *value) {
  LLVMAddAttributeAtIndex(
      fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
      LLVMCreateStringAttribute(ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

void cg_function_attributes(LLVMContextRef ctx, LLVMValueRef fn, const emit_options *o) {
  fn_attr(ctx, fn, "prefer-vector-width", o->vector_bytes == 64 ? "512" : "256");
  fn_attr(ctx, fn, "min-legal-vector-width", o->vector_bytes == 64 ? "512" : "256");
  // Where the threads flush denormals (backends/cpu/rt/par.c) no folding may count on their being
  // there.
  fn_attr(ctx, fn, "denormal-fp-math",
          o->keep_denormals ? "ieee,ieee" : "preserve-sign,preserve-sign");
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(ctx, nounwind, 0));
}

// A constant array is a symbol, whose address the linker is told (jit.c): code without addresses of
// this process can be kept for another one.
static LLVMValueRef constant_array(cg *c, const char *body, size_t k) {
  char symbol[EMIT_SYMBOL_BYTES];
  emit_constant_symbol(body, k, symbol);
  LLVMValueRef g = LLVMGetNamedGlobal(c->mod, symbol);
  if (g) return g;
  const nest_buf *b = &c->n->bufs.v[k];
  u64 bytes = (u64)b->elements * hlo_dtype_storage(b->dtype);
  g = LLVMAddGlobal(c->mod, LLVMArrayType2(c->i8, bytes), symbol);
  LLVMSetGlobalConstant(g, true);
  return g;
}

// body: the kernel's own name, of which `name` is the first or second phase
static void begin_function(cg *c, const char *name, const char *body) {
  LLVMTypeRef params[3] = {c->ptr, c->i64, c->ptr};
  c->fn = LLVMAddFunction(c->mod, name,
                          LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), params, 3, false));
  const emit_options o = {.vector_bytes = c->vector_bytes, .keep_denormals = c->keep_denormals};
  cg_function_attributes(c->ctx, c->fn, &o);
  c->args = LLVMGetParam(c->fn, 0);
  c->chunk = LLVMGetParam(c->fn, 1);
  c->scratch = LLVMGetParam(c->fn, 2);
  c->open = 0;
  c->ins[0] = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  cg_at_level(c, 0);
  bool guards = false;
  for (size_t k = 0; k < c->n->nodes.n; k++)
    guards |= c->n->nodes.v[k].kind == NEST_LOAD && c->n->nodes.v[k].guard != NEST_NONE;
  if (guards) {
    LLVMTypeRef line = LLVMVectorType(c->i64, 8);
    c->safe = LLVMBuildAlloca(c->b, LLVMArrayType2(line, CG_SAFE_LINES), "");
    LLVMSetAlignment(c->safe, 64);
    for (i64 k = 0; k < CG_SAFE_LINES; k++)
      LLVMBuildStore(c->b, LLVMConstNull(line), cg_gep(c, line, c->safe, cg_ixc(c, k)));
  }
  for (size_t k = 0; k < c->n->bufs.n; k++) {
    const nest_buf *b = &c->n->bufs.v[k];
    if (b->arg == NEST_BUF_CONST) c->bufs[k] = constant_array(c, body, k);
    else if (b->arg == NEST_BUF_ROW)
      c->bufs[k] = cg_slot(c, LLVMArrayType2(cg_mem(c, b->dtype), (u64)b->elements));
    else if (b->arg == NEST_BUF_SCRATCH)
      c->bufs[k] = cg_gep(c, c->i8, c->scratch, cg_ixc(c, b->offset));
    else
      c->bufs[k] = LLVMBuildLoad2(c->b, c->ptr, cg_gep(c, c->ptr, c->args, cg_ixc(c, b->arg)), "");
  }
}

static void end_function(cg *c) {
  if (c->streamed) (void)cg_intrinsic(c, "llvm.x86.sse.sfence", 0, NULL, 0, NULL);
  c->streamed = false;
  LLVMBuildRetVoid(c->b);
}

static hs_status emit_stages(cg *c, size_t count, const nest_stage *stages) {
  if (count == 1) {
    HS_TRY(emit_stage(c, &stages[0], c->chunk));
    end_function(c);
    return HS_GOOD;
  }
  i64 base = 0;
  // each stage owns a range of the chunk numbers
  for (size_t s = 0; s < count; s++) {
    i64 chunks = stages[s].chunks;
    cg_at_level(c, 0);
    LLVMBasicBlockRef here = LLVMAppendBasicBlockInContext(c->ctx, c->fn, ""),
                      next = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
    LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, c->chunk, cg_ixc(c, base + chunks), ""),
                    here, next);
    cg_forget(c, 0, 0);
    c->ins[0] = here;
    cg_at_level(c, 0);
    HS_TRY(emit_stage(c, &stages[s], LLVMBuildSub(c->b, c->chunk, cg_ixc(c, base), "")));
    end_function(c);
    cg_forget(c, 0, 0);
    c->ins[0] = next;
    base += chunks;
  }
  cg_at_level(c, 0);
  LLVMBuildRetVoid(c->b);
  return HS_GOOD;
}

cg *cg_begin(LLVMContextRef ctx, LLVMModuleRef mod, nest *n, LLVMTypeRef index) {
  static const cg_target cpu;
  cg *c = hs_calloc(1, sizeof *c);
  *c = (cg){.target = &cpu, .ctx = ctx, .mod = mod, .n = n, .ix = index, .W = 1, .U = 1};
  c->b = LLVMCreateBuilderInContext(ctx);
  c->i1 = LLVMInt1TypeInContext(ctx);
  c->i8 = LLVMInt8TypeInContext(ctx);
  c->i16 = LLVMInt16TypeInContext(ctx);
  c->i32 = LLVMInt32TypeInContext(ctx);
  c->i64 = LLVMInt64TypeInContext(ctx);
  c->f16 = LLVMHalfTypeInContext(ctx);
  c->f32 = LLVMFloatTypeInContext(ctx);
  c->f64 = LLVMDoubleTypeInContext(ctx);
  c->ptr = LLVMPointerTypeInContext(ctx, 0);
  c->bufs = hs_calloc(n->bufs.n + 1, sizeof *c->bufs);
  c->memo = hs_calloc(n->nodes.n + 1, sizeof *c->memo);
  c->tmemo = hs_calloc(n->nodes.n + 1, sizeof *c->tmemo);
  return c;
}

void cg_end(cg *c) {
  LLVMDisposeBuilder(c->b);
  hs_arena_free(&c->arena);
  hs_free(c->bufs);
  hs_free(c->memo);
  hs_free(c->tmemo);
  hs_vec_free(&c->memoed);
  hs_vec_free(&c->tmemoed);
  hs_free(c);
}

hs_status cg_kernel(LLVMContextRef ctx, LLVMModuleRef mod, nest *n, const char *name,
                    const emit_options *o) {
  cg *c = cg_begin(ctx, mod, n, LLVMInt64TypeInContext(ctx));
  c->vector_bytes = o->vector_bytes;
  c->contract = o->contract;
  c->keep_denormals = o->keep_denormals;
  begin_function(c, name, name);
  hs_status s = emit_stages(c, n->stages.n, n->stages.v);
  if (hs_ok(s) && n->finish.n) {
    char *second = hs_format("%s_finish", name);
    cg_forget(c, 0, 0);
    begin_function(c, second, name);
    hs_free(second);
    s = emit_stages(c, n->finish.n, n->finish.v);
  }
  cg_end(c);
  return s;
}
