// kernel.c — the functions of a kernel: parameters, the blocks of each stage, and the forms in
// which a stage is divided over threads (plan.h).
//
// All threads of a block run through the same reductions: rows past the last are computed as if
// they were the last, and not stored, so that warps and blocks stay together wherever they exchange
// values.
#include "backends/emit/gpu/code.h"

#include <stdio.h>

// ---- the forms ----------------------------------------------------------------------------------
// The stores of this thread's items: number `first`, then every `stride`-th below n. Loops in
// `rows` have their values already.
static hs_status items(cg *c, const nest_stage *st, const gpu_stage *s, u64 rows,
                       LLVMValueRef first, i64 stride, i64 n) {
  bool loop = stride < n;
  HS_TRY(loop ? cg_open_loop(c, NEST_NONE, first, cg_ixc(c, n + stride - 1), stride, true, 0, NULL)
              : cg_open_if(c, LLVMBuildICmp(c->b, LLVMIntSLT, first, cg_ixc(c, n), "")));
  gpu_set_loops(c, loop ? c->loops[c->open].phi : first, st->nloops, st->loops, rows, s->lanes);
  if (s->lanes > 1) c->lane = 1ull << c->n->vars.v[st->loops[st->nloops - 1]].loop;
  c->W = s->lanes;
  HS_TRY(cg_emit_stores(c));
  c->lane = 0;
  c->W = 1;
  if (loop) (void)cg_close_loop(c, NULL);
  else cg_close_if(c);
  gpu_unset_loops(c, st->nloops, st->loops, rows);
  return HS_GOOD;
}

static hs_status points(cg *c, const nest_stage *st, const gpu_stage *s) {
  gpu_code *g = gpu_of(c);
  i64 block = g->phase->block;
  LLVMValueRef no =
      LLVMBuildNSWAdd(c->b, LLVMBuildNSWMul(c->b, g->block, cg_ixc(c, block), ""), g->thread, "");
  return items(c, st, s, 0, no, (i64)s->grid * block, s->items);
}

// The points of a row, by the threads of its team.
static hs_status row_points(cg *c, const nest_stage *st, const gpu_stage *s) {
  i64 n = 1;
  for (u32 k = 0; k < st->nloops; k++)
    if (!(s->rows & 1ull << c->n->vars.v[st->loops[k]].loop)) n *= cg_extent(c, st->loops[k]);
  return items(c, st, s, s->rows, gpu_of(c)->lane, s->team, n / s->lanes);
}

// Emits the reductions that the stores need at the rows' level, before code that only some threads
// run is opened.
static hs_status row(cg *c, const nest_stage *st, const gpu_stage *s, LLVMValueRef valid) {
  gpu_code *g = gpu_of(c);
  u64 all = 0;
  for (u32 k = 0; k < st->nloops; k++) all |= 1ull << c->n->vars.v[st->loops[k]].loop;
  if (all & ~s->rows) {
    if (valid) HS_TRY(cg_open_if(c, valid));
    HS_TRY(row_points(c, st, s));
    if (valid) cg_close_if(c);
    return HS_GOOD;
  }
  LLVMValueRef one = LLVMBuildICmp(c->b, LLVMIntEQ, g->lane, cg_ixc(c, 0), "");
  HS_TRY(cg_open_if(c, valid ? LLVMBuildAnd(c->b, one, valid, "") : one));
  HS_TRY(cg_emit_stores(c));
  cg_close_if(c);
  return HS_GOOD;
}

static hs_status rows(cg *c, const nest_stage *st, const gpu_stage *s) {
  gpu_code *g = gpu_of(c);
  i64 per = g->phase->block / s->team, stride = (i64)s->grid * per;
  u32 apart = s->across ? s->across : s->team;
  LLVMValueRef within = LLVMBuildURem(c->b, g->thread, cg_ixc(c, apart), ""),
               outer = LLVMBuildUDiv(c->b, g->thread, cg_ixc(c, apart), "");
  g->lane = s->across ? outer : per > 1 ? within : g->thread;
  g->team = s->across ? within : per > 1 ? outer : cg_ixc(c, 0);
  for (size_t k = 0; k < c->n->bufs.n; k++) {
    const nest_buf *b = &c->n->bufs.v[k];
    if (b->arg != NEST_BUF_ROW) continue;
    LLVMTypeRef mt = cg_mem(c, b->dtype);
    u32 size = (u32)hlo_dtype_storage(b->dtype);
    i64 length = (b->elements * size + 15) / 16 * 16 / size;
    LLVMValueRef array = gpu_shared(c, mt, size, (u64)(length * per)),
                 at = LLVMBuildNSWMul(c->b, g->team, cg_ixc(c, length), "");
    c->bufs[k] = cg_gep(c, mt, array, at);
  }
  LLVMValueRef first = LLVMBuildNSWMul(c->b, g->block, cg_ixc(c, per), "");
  bool loop = stride < s->items;
  if (loop)
    HS_TRY(
        cg_open_loop(c, NEST_NONE, first, cg_ixc(c, s->items + stride - 1), stride, true, 0, NULL));
  LLVMValueRef no = loop ? c->loops[c->open].phi : first, valid = NULL;
  if (per > 1) no = LLVMBuildNSWAdd(c->b, no, g->team, "");
  if (s->items % per) {
    valid = LLVMBuildICmp(c->b, LLVMIntSLT, no, cg_ixc(c, s->items), "");
    no = cg_clip(c, false, no, cg_ixc(c, s->items - 1));
  }
  u64 others = 0;
  for (u32 k = 0; k < st->nloops; k++) others |= 1ull << c->n->vars.v[st->loops[k]].loop;
  others &= ~s->rows;
  gpu_set_loops(c, no, st->nloops, st->loops, others, 1);
  HS_TRY(st->scan ? gpu_scan(c, st, valid) : row(c, st, s, valid));
  if (loop) (void)cg_close_loop(c, NULL);
  gpu_unset_loops(c, st->nloops, st->loops, 0);
  return HS_GOOD;
}

// ---- tiles --------------------------------------------------------------------------------------
typedef struct tile {
  u32 i, j;  // loops of the nest: the last one, and the one against it
  i64 ni, nj;
  LLVMValueRef i0, j0;  // of the tile's corner
} tile;

// Element e of this thread in the square: `fast` runs from thread to thread.
static void element(cg *c, u32 e, LLVMValueRef *fast, LLVMValueRef *slow) {
  gpu_code *g = gpu_of(c);
  i64 edge = g->stage->edge, rows = g->phase->block / edge;
  *fast = LLVMBuildURem(c->b, g->thread, cg_ixc(c, edge), "");
  *slow = LLVMBuildUDiv(c->b, g->thread, cg_ixc(c, edge), "");
  if (e) *slow = LLVMBuildNSWAdd(c->b, *slow, cg_ixc(c, (i64)e * rows), "");
}

static void set_loop(cg *c, u32 var, LLVMValueRef v) {
  u32 bit = c->n->vars.v[var].loop;
  c->loop_val[bit] = v;
  c->loop_level[bit] = c->open;
  c->open_mask |= 1ull << bit;
}

static i64 padded(const nest_node *x, u32 edge) {
  u32 size = (u32)hlo_dtype_storage(x->dtype);
  return edge + (size < 4 ? 4 / size : 1);
}

// Along the tile loop: loads into the square, from clamped places where it reaches past the end.
static hs_status fill_square(cg *c, const tile *t) {
  gpu_code *g = gpu_of(c);
  u32 edge = g->stage->edge, each = edge * edge / g->phase->block;
  u64 own = 1ull << c->n->vars.v[t->i].loop | 1ull << c->n->vars.v[t->j].loop;
  for (u32 e = 0; e < each; e++) {
    LLVMValueRef fast, slow, *v;
    element(c, e, &fast, &slow);
    LLVMValueRef i = LLVMBuildNSWAdd(c->b, t->i0, slow, ""),
                 j = LLVMBuildNSWAdd(c->b, t->j0, fast, "");
    if (t->ni % edge) i = cg_clip(c, false, i, cg_ixc(c, t->ni - 1));
    if (t->nj % edge) j = cg_clip(c, false, j, cg_ixc(c, t->nj - 1));
    set_loop(c, t->i, i);
    set_loop(c, t->j, j);
    for (u32 k = 0; k < g->nheld; k++) {
      const nest_node x = c->n->nodes.v[g->held[k].node];
      NODE(c, g->held[k].node, &v);
      LLVMTypeRef mt = cg_mem(c, x.dtype);
      LLVMValueRef at = LLVMBuildNSWMul(c->b, slow, cg_ixc(c, padded(&x, edge)), "");
      at = LLVMBuildNSWAdd(c->b, at, fast, "");
      LLVMBuildStore(c->b, cg_to_mem(c, x.dtype, v[0]), cg_gep(c, mt, g->held[k].array, at));
    }
    cg_forget(c, CG_MAX_LEVELS, own);
  }
  return HS_GOOD;
}

// Along the last loop: everything else, with what the square holds.
static hs_status drain_square(cg *c, const tile *t) {
  gpu_code *g = gpu_of(c);
  u32 edge = g->stage->edge, each = edge * edge / g->phase->block;
  u64 own = 1ull << c->n->vars.v[t->i].loop | 1ull << c->n->vars.v[t->j].loop;
  g->holding = true;
  for (u32 e = 0; e < each; e++) {
    LLVMValueRef fast, slow;
    element(c, e, &fast, &slow);
    LLVMValueRef i = LLVMBuildNSWAdd(c->b, t->i0, fast, ""),
                 j = LLVMBuildNSWAdd(c->b, t->j0, slow, ""), ok = NULL;
    if (t->ni % edge) ok = LLVMBuildICmp(c->b, LLVMIntSLT, i, cg_ixc(c, t->ni), "");
    if (t->nj % edge)
      ok = cg_and_mask(c, ok, LLVMBuildICmp(c->b, LLVMIntSLT, j, cg_ixc(c, t->nj), ""));
    g->place = LLVMBuildNSWAdd(
        c->b,
        LLVMBuildNSWMul(c->b, fast, cg_ixc(c, padded(&c->n->nodes.v[g->held[0].node], edge)), ""),
        slow, "");
    if (ok) HS_TRY(cg_open_if(c, ok));
    set_loop(c, t->i, i);
    set_loop(c, t->j, j);
    HS_TRY(cg_emit_stores(c));
    if (ok) cg_close_if(c);
    cg_forget(c, CG_MAX_LEVELS, own);
  }
  g->holding = false;
  return HS_GOOD;
}

static void find_held(cg *c, const nest_stage *st, const gpu_stage *s) {
  gpu_code *g = gpu_of(c);
  u64 loops = 0;
  g->nheld = 0;
  for (u32 k = 0; k < st->nloops; k++) loops |= 1ull << c->n->vars.v[st->loops[k]].loop;
  for (u32 k = 0; k < c->n->nodes.n && g->nheld < HS_COUNT(g->held); k++) {
    const nest_node *x = &c->n->nodes.v[k];
    bool again = (x->deps & ~loops) != 0 || !gpu_tile_holds(c->n, st, s, x);
    // one width for all places
    again |= g->nheld &&
             hlo_dtype_storage(c->n->nodes.v[g->held[0].node].dtype) != hlo_dtype_storage(x->dtype);
    for (u32 h = 0; h < g->nheld; h++)
      again |=
          c->n->nodes.v[g->held[h].node].buf == x->buf && c->n->nodes.v[g->held[h].node].e == x->e;
    if (again) continue;
    u32 size = (u32)hlo_dtype_storage(x->dtype);
    u64 n = (u64)padded(x, s->edge) * s->edge;
    if (g->shared_bytes + n * size > GPU_SHARED_BYTES) return;
    g->held[g->nheld++] = (gpu_held){k, gpu_shared(c, cg_mem(c, x->dtype), size, n)};
  }
}

static hs_status tiles(cg *c, const nest_stage *st, const gpu_stage *s) {
  gpu_code *g = gpu_of(c);
  tile t = {.i = st->loops[st->nloops - 1], .j = st->loops[s->tile]};
  t.ni = cg_extent(c, t.i), t.nj = cg_extent(c, t.j);
  i64 ti = (t.ni + s->edge - 1) / s->edge, tj = (t.nj + s->edge - 1) / s->edge;
  find_held(c, st, s);
  HS_REQUIRE(g->nheld > 0);
  bool loop = s->grid < s->items;
  if (loop)
    HS_TRY(cg_open_loop(c, NEST_NONE, g->block, cg_ixc(c, s->items + s->grid - 1), s->grid, true, 0,
                        NULL));
  LLVMValueRef no = loop ? c->loops[c->open].phi : g->block;
  if (loop) g->target->barrier(c);
  t.i0 = LLVMBuildURem(c->b, no, cg_ixc(c, ti), "");
  no = LLVMBuildUDiv(c->b, no, cg_ixc(c, ti), "");
  t.j0 = LLVMBuildURem(c->b, no, cg_ixc(c, tj), "");
  no = LLVMBuildUDiv(c->b, no, cg_ixc(c, tj), "");
  t.i0 = LLVMBuildNSWMul(c->b, t.i0, cg_ixc(c, s->edge), "");
  t.j0 = LLVMBuildNSWMul(c->b, t.j0, cg_ixc(c, s->edge), "");
  u64 own = 1ull << c->n->vars.v[t.i].loop | 1ull << c->n->vars.v[t.j].loop;
  gpu_set_loops(c, no, st->nloops, st->loops, own, 1);
  HS_TRY(fill_square(c, &t));
  g->target->barrier(c);
  HS_TRY(drain_square(c, &t));
  if (loop) (void)cg_close_loop(c, NULL);
  gpu_unset_loops(c, st->nloops, st->loops, 0);
  return HS_GOOD;
}

// ---- functions ----------------------------------------------------------------------------------
static hs_status stage(cg *c, size_t k) {
  gpu_code *g = gpu_of(c);
  const nest_stage *st = &g->phase->of[k];
  g->stage = &g->phase->stages[k];
  c->stage = st;
  switch (g->stage->form) {
  case GPU_ROWS: return rows(c, st, g->stage);
  case GPU_TILES: return tiles(c, st, g->stage);
  case GPU_DOT: return gpu_squares(c, st, g->stage);
  default: return points(c, st, g->stage);
  }
}

static LLVMValueRef constant_data(cg *c, size_t k) {
  const gpu_code *g = gpu_of(c);
  const nest_buf *b = &c->n->bufs.v[k];
  char name[300];
  (void)snprintf(name, sizeof name, "%.250s_const%zu", g->name, k);
  LLVMValueRef old = LLVMGetNamedGlobal(c->mod, name);
  if (old) return old;
  size_t bytes = (size_t)b->elements * hlo_dtype_storage(b->dtype);
  LLVMValueRef data = LLVMConstStringInContext(c->ctx, b->data, (unsigned)bytes, true),
               v = LLVMAddGlobalInAddressSpace(c->mod, LLVMTypeOf(data), name,
                                               g->target->constant_space);
  LLVMSetInitializer(v, data);
  LLVMSetGlobalConstant(v, true);
  LLVMSetLinkage(v, LLVMInternalLinkage);
  LLVMSetAlignment(v, 256);
  return v;
}

static LLVMValueRef number(cg *c, const char *intrinsic) {
  LLVMValueRef v = cg_intrinsic(c, intrinsic, 0, NULL, 0, NULL);
  return c->ix == c->i32 ? v : LLVMBuildZExt(c->b, v, c->ix, "");
}

static void attribute(cg *c, unsigned index, const char *key, const char *value) {
  LLVMAddAttributeAtIndex(c->fn, index,
                          LLVMCreateStringAttribute(c->ctx, key, (unsigned)strlen(key), value,
                                                    (unsigned)strlen(value)));
}

// For those who run it otherwise than on a GPU: which instruction it is, how much of each buffer it
// may touch.
static void describe(cg *c, u32 buffers) {
  char bytes[24];
  attribute(c, (unsigned)LLVMAttributeFunctionIndex, "hlo", gpu_of(c)->of);
  for (size_t k = 0; k < c->n->bufs.n; k++) {
    const nest_buf *b = &c->n->bufs.v[k];
    if (b->arg < 0) continue;
    (void)snprintf(bytes, sizeof bytes, "%lld",
                   (long long)(b->elements * (i64)hlo_dtype_storage(b->dtype)));
    attribute(c, (unsigned)b->arg + 1, "hlo-bytes", bytes);
  }
  (void)snprintf(bytes, sizeof bytes, "%lld", (long long)c->n->scratch_bytes);
  attribute(c, buffers + 1, "hlo-bytes", bytes);
}

void gpu_begin(cg *c, const char *name, u32 buffers, u32 block, bool numbered) {
  gpu_code *g = gpu_of(c);
  LLVMTypeRef *params = hs_alloc((buffers + 2) * sizeof(LLVMTypeRef));
  for (u32 k = 0; k <= buffers; k++) params[k] = c->ptr;
  params[buffers + 1] = c->i64;
  c->fn = LLVMAddFunction(
      c->mod, name,
      LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), params, buffers + (numbered ? 2 : 1), false));
  hs_free(params);
  cg_function_attributes(c->ctx, c->fn, &(emit_options){0});
  LLVMSetFunctionCallConv(c->fn, g->target->calling_convention);
  g->target->kernel(c, c->fn, block);
  unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
  for (u32 k = 0; k <= buffers; k++)
    LLVMAddAttributeAtIndex(c->fn, k + 1, LLVMCreateEnumAttribute(c->ctx, align, 256));
  describe(c, buffers);
  c->scratch = LLVMGetParam(c->fn, buffers);
  c->open = 0;
  c->ins[0] = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  cg_at_level(c, 0);
  for (size_t k = 0; k < c->n->bufs.n; k++) {
    const nest_buf *b = &c->n->bufs.v[k];
    if (b->arg == NEST_BUF_CONST) c->bufs[k] = constant_data(c, k);
    else if (b->arg == NEST_BUF_SCRATCH)
      c->bufs[k] = cg_gep(c, c->i8, c->scratch, LLVMConstInt(c->i64, (u64)b->offset, false));
    else if (b->arg >= 0) c->bufs[k] = LLVMGetParam(c->fn, (unsigned)b->arg);
  }
  g->thread = number(c, g->target->thread);
  g->block = number(c, g->target->block);
}

// Each stage has a range of blocks.
static hs_status function(cg *c, const char *name, u32 buffers) {
  gpu_code *g = gpu_of(c);
  gpu_begin(c, name, buffers, g->phase->block, false);
  LLVMValueRef all = g->block;
  for (size_t k = 0; k < g->phase->nstages; k++) {
    const gpu_stage *s = &g->phase->stages[k];
    cg_at_level(c, 0);
    if (g->phase->nstages == 1) {
      HS_TRY(stage(c, k));
      break;
    }
    LLVMBasicBlockRef here = LLVMAppendBasicBlockInContext(c->ctx, c->fn, ""),
                      next = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
    LLVMBuildCondBr(c->b,
                    LLVMBuildICmp(c->b, LLVMIntSLT, all, cg_ixc(c, (i64)s->first + s->grid), ""),
                    here, next);
    cg_forget(c, 0, 0);
    c->ins[0] = here;
    cg_at_level(c, 0);
    g->block = LLVMBuildNSWSub(c->b, all, cg_ixc(c, s->first), "");
    HS_TRY(stage(c, k));
    cg_at_level(c, 0);
    LLVMBuildRetVoid(c->b);
    cg_forget(c, 0, 0);
    c->ins[0] = next;
  }
  cg_at_level(c, 0);
  LLVMBuildRetVoid(c->b);
  cg_forget(c, 0, 0);
  return HS_GOOD;
}

hs_status gpu_kernel(LLVMContextRef ctx, LLVMModuleRef mod, const gpu_job *j, u32 *shared) {
  static const cg_target thread = {.load = gpu_load,
                                   .store = gpu_store,
                                   .held = gpu_load_held,
                                   .math = gpu_math,
                                   .team = gpu_team,
                                   .open = gpu_team_open,
                                   .close = gpu_team_close,
                                   .fold = gpu_team_fold,
                                   .again = gpu_unroll};
  LLVMTypeRef index =
      gpu_plan_fits32(j->n, j->phases) ? LLVMInt32TypeInContext(ctx) : LLVMInt64TypeInContext(ctx);
  cg *c = cg_begin(ctx, mod, j->n, index);
  gpu_code g = {.target = j->target, .name = j->name, .of = j->of, .phase = &j->phases[0]};
  c->target = &thread;
  c->of_target = &g;
  c->contract = j->contract;
  hs_status s = gpu_order_parts(c, j->name, j->buffers, shared);
  g.shared_bytes = 0;
  if (hs_ok(s) && j->phases[0].nstages) s = function(c, j->name, j->buffers);
  *shared = HS_MAX(*shared, g.shared_bytes);
  if (hs_ok(s) && j->phases[1].nstages) {
    char *second = hs_format("%s_finish", j->name);
    g.phase = &j->phases[1];
    g.name = second;
    g.shared_bytes = 0;
    s = function(c, second, j->buffers);
    *shared = HS_MAX(*shared, g.shared_bytes);
    hs_free(second);
  }
  cg_end(c);
  return s;
}
