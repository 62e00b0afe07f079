// scan.c — prefix reductions: each result is the one before it and one more element.
//
// A row is cut into segments, and the reduction of what comes before a segment is made first, by a
// launch of its own (lower_window.c). Along memory a team runs through a segment: each thread
// reduces a few elements that follow each other, leaves that in shared memory, starts from what
// comes before its own, and stores the results one by one. Across memory each thread has a segment
// of its own column.
#include "backends/emit/gpu/code.h"

typedef struct scan {
  const nest_stage *st;
  const nest_group *g;
  u32 segment, within;  // variables: the stage's last two loops
  i64 size, n;          // of a segment, of the row
  LLVMValueRef left;    // of the row, from the segment's start on; NULL: all of the segment
} scan;

// Both the stage and the reduction stand at element r of the segment.
static void stand_at(cg *c, const scan *s, LLVMValueRef r) {
  u32 vars[2] = {s->within, s->g->loops[0]};
  for (u32 k = 0; k < 2; k++) {
    u32 bit = c->n->vars.v[vars[k]].loop;
    c->loop_val[bit] = r;
    c->loop_level[bit] = c->open;
    c->open_mask |= 1ull << bit;
  }
}

static void leave(cg *c, const scan *s) {
  u64 bits = 1ull << c->n->vars.v[s->within].loop | 1ull << c->n->vars.v[s->g->loops[0]].loop;
  c->open_mask &= ~bits;
  cg_forget(c, CG_MAX_LEVELS, bits);
}

// acc with the element where the code stands.
static hs_status step(cg *c, const scan *s, LLVMValueRef *acc) {
  LLVMValueRef in[NEST_MAX_ACCS], next[NEST_MAX_ACCS], *p;
  for (u32 k = 0; k < s->g->nacc; k++) {
    NODE(c, s->g->in[k], &p);
    in[k] = p[0];
  }
  cg_at_level(c, c->open);
  HS_TRY(cg_apply(c, s->g, acc, in, next));
  memcpy(acc, next, s->g->nacc * sizeof *acc);
  return HS_GOOD;
}

static hs_status store(cg *c, const scan *s, const LLVMValueRef *acc) {
  for (u32 k = 0; k < s->g->nacc; k++) {
    cg_memo *m = &c->memo[s->g->out[k]];
    m->v[0] = acc[k];
    m->set = true;
    m->level = c->open;
    hs_vec_push(&c->memoed, s->g->out[k]);
  }
  return cg_emit_stores(c);
}

static hs_status nodes(cg *c, u32 n, const u32 *ids, LLVMValueRef *out) {
  LLVMValueRef *p;
  for (u32 k = 0; k < n; k++) {
    NODE(c, ids[k], &p);
    out[k] = p[0];
  }
  cg_at_level(c, c->open);
  return HS_GOOD;
}

// A thread runs through a segment.
static hs_status alone(cg *c, const scan *s) {
  LLVMValueRef acc[NEST_MAX_ACCS];
  HS_TRY(nodes(c, s->g->nacc, s->g->init, acc));
  LLVMValueRef end = s->left ? cg_clip(c, false, s->left, cg_ixc(c, s->size)) : cg_ixc(c, s->size);
  HS_TRY(cg_open_loop(c, NEST_NONE, cg_ixc(c, 0), end, 1, s->left != NULL, s->g->nacc, acc));
  stand_at(c, s, c->loops[c->open].phi);
  HS_TRY(step(c, s, acc));
  HS_TRY(store(c, s, acc));
  (void)cg_close_loop(c, acc);
  leave(c, s);
  return HS_GOOD;
}

// Element e of this thread; *ok: whether there is one, NULL if always.
static void own_element(cg *c, const scan *s, u32 each, u32 e, LLVMValueRef *ok) {
  const gpu_code *g = gpu_of(c);
  LLVMValueRef r = LLVMBuildNSWMul(c->b, g->lane, cg_ixc(c, each), "");
  if (e) r = LLVMBuildNSWAdd(c->b, r, cg_ixc(c, e), "");
  *ok = NULL;
  LLVMValueRef end = s->left;
  if (!end && (i64)g->stage->team * each > s->size) end = cg_ixc(c, s->size);
  if (end) {
    *ok = LLVMBuildICmp(c->b, LLVMIntSLT, r, end, "");
    r = cg_clip(c, false, r, LLVMBuildNSWSub(c->b, end, cg_ixc(c, 1), ""));
  }
  stand_at(c, s, r);
}

// What the threads before this one come to, after `acc`.
static hs_status before(cg *c, const scan *s, const LLVMValueRef *own, LLVMValueRef *acc) {
  const gpu_code *g = gpu_of(c);
  LLVMValueRef arrays[NEST_MAX_ACCS], v[NEST_MAX_ACCS], next[NEST_MAX_ACCS];
  LLVMTypeRef types[NEST_MAX_ACCS];
  u32 team = g->stage->team;
  LLVMValueRef base = LLVMBuildNSWMul(c->b, g->team, cg_ixc(c, team), ""),
               at = LLVMBuildNSWAdd(c->b, base, g->lane, "");
  g->target->barrier(c);
  for (u32 k = 0; k < s->g->nacc; k++) {
    types[k] = LLVMTypeOf(own[k]) == c->i1 ? c->i8 : LLVMTypeOf(own[k]);
    arrays[k] =
        gpu_shared(c, types[k], types[k] == c->f64 || types[k] == c->i64 ? 8 : 4, g->phase->block);
    LLVMBuildStore(c->b,
                   types[k] == c->i8 && LLVMTypeOf(own[k]) == c->i1
                       ? LLVMBuildZExt(c->b, own[k], c->i8, "")
                       : own[k],
                   cg_gep(c, types[k], arrays[k], at));
  }
  g->target->barrier(c);
  HS_TRY(cg_open_loop(c, NEST_NONE, cg_ixc(c, 0), g->lane, 1, true, s->g->nacc, acc));
  LLVMValueRef other = LLVMBuildNSWAdd(c->b, base, c->loops[c->open].phi, "");
  for (u32 k = 0; k < s->g->nacc; k++) {
    v[k] = LLVMBuildLoad2(c->b, types[k], cg_gep(c, types[k], arrays[k], other), "");
    if (LLVMTypeOf(own[k]) == c->i1)
      v[k] = LLVMBuildICmp(c->b, LLVMIntNE, v[k], LLVMConstNull(c->i8), "");
  }
  HS_TRY(cg_apply(c, s->g, acc, v, next));
  memcpy(acc, next, s->g->nacc * sizeof *acc);
  (void)cg_close_loop(c, acc);
  return HS_GOOD;
}

static hs_status together(cg *c, const scan *s, LLVMValueRef valid) {
  const gpu_code *g = gpu_of(c);
  u32 nacc = s->g->nacc, each = (u32)((s->size + g->stage->team - 1) / g->stage->team);
  LLVMValueRef acc[NEST_MAX_ACCS], own[NEST_MAX_ACCS], was[NEST_MAX_ACCS], ok;
  HS_TRY(nodes(c, nacc, s->g->init, acc));
  HS_TRY(nodes(c, nacc, s->g->start, own));
  for (u32 e = 0; e < each; e++) {
    memcpy(was, own, sizeof was);
    own_element(c, s, each, e, &ok);
    HS_TRY(step(c, s, own));
    for (u32 k = 0; k < nacc && ok; k++) own[k] = LLVMBuildSelect(c->b, ok, own[k], was[k], "");
    leave(c, s);
  }
  HS_TRY(before(c, s, own, acc));
  for (u32 e = 0; e < each; e++) {
    own_element(c, s, each, e, &ok);
    HS_TRY(step(c, s, acc));  // past the end nobody sees it
    ok = cg_and_mask(c, ok, valid);
    if (ok) HS_TRY(cg_open_if(c, ok));
    HS_TRY(store(c, s, acc));
    if (ok) cg_close_if(c);
    leave(c, s);
  }
  return HS_GOOD;
}

hs_status gpu_scan(cg *c, const nest_stage *st, LLVMValueRef valid) {
  const gpu_code *g = gpu_of(c);
  scan s = {.st = st, .g = &c->n->groups.v[st->scan - 1], .n = st->scanned};
  s.within = st->loops[st->nloops - 1];
  s.size = cg_extent(c, s.within);
  if (st->segment != NEST_NONE && s.n % s.size) {
    u32 bit = c->n->vars.v[st->segment].loop;
    LLVMValueRef from = LLVMBuildNSWMul(c->b, c->loop_val[bit], cg_ixc(c, s.size), "");
    s.left = LLVMBuildNSWSub(c->b, cg_ixc(c, s.n), from, "");
  }
  if (g->stage->team > 1) return together(c, &s, valid);
  if (valid) HS_TRY(cg_open_if(c, valid));
  HS_TRY(alone(c, &s));
  if (valid) cg_close_if(c);
  return HS_GOOD;
}
