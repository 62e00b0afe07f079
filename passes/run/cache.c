// cache.c — the cache of traversal orders, call graph and edits that cache.h describes.
//
// Each entry stores the generation of the module or computation at which it was computed, and is
// recomputed when the generation has changed. All answers are copies in the asking pass's scratch
// memory: an edit during iteration does not invalidate them.
#include "passes/run/cache.h"

// generation: the computation's, plus 1; 0: not computed
typedef struct order {
  u64 generation;
  hlo_instr **v;
  u32 n;
} order;

struct pass_cache {
  u64 serial;  // of the module that the entries describe
  u32 cap;
  order *orders;        // by computation id
  u64 call_generation;  // call_generation of the module for the members below, plus 1
  hs_arena mem;         // holds the members below
  hlo_call_list calls;
  struct {
    hlo_computation **v;
    u32 n;
  } comps[2];  // [strict]; NULL: not computed
  u32 *counts;
  HS_VEC(hlo_instr *) edited;  // in this era
  // known: the module's generation up to which `edited` is complete
  u64 era, known;
};

pass_cache *pass_cache_new(void) { return hs_calloc(1, sizeof(pass_cache)); }

static void clear(pass_cache *p) {
  for (u32 k = 0; k < p->cap; k++) hs_free(p->orders[k].v);
  hs_free(p->orders);
  hs_arena_free(&p->mem);
  hs_vec_free(&p->edited);
  *p = (pass_cache){.era = p->era + 1};
}

void pass_cache_free(pass_cache *p) {
  if (p) clear(p);
  hs_free(p);
}

static pass_cache *cache_of(pass_ctx *c) {
  pass_cache *p = c->cache;
  if (p->serial != c->m->serial) clear(p);
  p->serial = c->m->serial;
  if (p->cap >= c->m->next_comp_id) return p;
  u32 cap = HS_MAX(p->cap * 2, c->m->next_comp_id);
  p->orders = hs_realloc(p->orders, cap * sizeof *p->orders);
  memset(p->orders + p->cap, 0, (cap - p->cap) * sizeof *p->orders);
  p->cap = cap;
  return p;
}

hlo_instr **pass_post_order(pass_ctx *c, const hlo_computation *comp) {
  order *o = &cache_of(c)->orders[comp->id];
  size_t bytes = comp->ninstrs * sizeof *o->v;
  if (o->v && o->generation == comp->generation + 1) return hs_arena_dup(c->scratch, o->v, bytes);
  hlo_instr **v = hlo_post_order(comp, c->scratch);
  o->v = hs_realloc(o->v, bytes);
  memcpy(o->v, v, bytes);
  o->n = comp->ninstrs;
  o->generation = comp->generation + 1;
  return v;
}

hlo_instr **pass_any_order(pass_ctx *c, const hlo_computation *comp) {
  if (comp->unsorted) return pass_post_order(c, comp);
  hlo_instr **v = hs_arena_alloc(c->scratch, comp->ninstrs * sizeof *v);
  u32 n = 0;
  hlo_for_each_instr(i, comp) v[n++] = i;
  return v;
}

hlo_instr **pass_of_op(pass_ctx *c, const hlo_computation *comp, hlo_opcode a, hlo_opcode b,
                       u32 *n) {
  *n = 0;
  if (!c->m->nops[a] && !c->m->nops[b]) return NULL;
  HS_VEC(hlo_instr *) found = {0};
  hlo_for_each_instr(i, comp)
    if (i->opcode == a || i->opcode == b) hs_vec_push(&found, i);
  *n = (u32)found.n;
  hlo_instr **v = found.n ? hs_arena_dup(c->scratch, found.v, found.n * sizeof *v) : NULL;
  hs_vec_free(&found);
  return v;
}

// ---- calls --------------------------------------------------------------------------------------
static pass_cache *with_calls(pass_ctx *c) {
  pass_cache *p = cache_of(c);
  if (p->call_generation == c->m->call_generation + 1) return p;
  hs_arena_free(&p->mem);
  p->calls = hlo_find_calls(c->m, &p->mem);
  p->comps[0].v = p->comps[1].v = NULL;
  p->counts = NULL;
  p->call_generation = c->m->call_generation + 1;
  return p;
}

static hlo_computation **comps_of(pass_ctx *c, bool strict, u32 *n) {
  pass_cache *p = with_calls(c);
  if (!p->comps[strict].v)
    p->comps[strict].v = hlo_order_comps(c->m, &p->calls, strict, &p->mem, &p->comps[strict].n);
  *n = p->comps[strict].n;
  return hs_arena_dup(c->scratch, p->comps[strict].v, *n * sizeof(hlo_computation *));
}

hlo_computation **pass_comp_post_order(pass_ctx *c, u32 *n) { return comps_of(c, false, n); }
hlo_computation **pass_comp_callees_first(pass_ctx *c, u32 *n) { return comps_of(c, true, n); }

hlo_call_list pass_calls(pass_ctx *c) {
  const hlo_call_list *l = &with_calls(c)->calls;
  size_t ids = c->m->next_comp_id;
  return (hlo_call_list){.n = l->n,
                         .v = hs_arena_dup(c->scratch, l->v, l->n * sizeof *l->v),
                         .first = hs_arena_dup(c->scratch, l->first, ids * sizeof *l->first),
                         .end = hs_arena_dup(c->scratch, l->end, ids * sizeof *l->end)};
}

pass_call_sites pass_find_sites(pass_ctx *c) {
  const hlo_call_list *l = &with_calls(c)->calls;
  u32 ids = c->m->next_comp_id;
  pass_call_sites s = {HS_NEW_ARRAY(c->scratch, u32, ids + 2), NULL};
  u32 *count = s.start + 1, *at = HS_NEW_ARRAY(c->scratch, u32, ids + 1);
  for (u32 k = 0; k < l->n; k++)
    for (u32 j = 0; j < l->callees[k].n; j++)
      if (l->callees[k].v[j]) count[l->callees[k].v[j]->id]++;
  for (u32 id = 0; id < ids; id++) at[id] = s.start[id], s.start[id + 1] += s.start[id];
  s.sites = HS_NEW_ARRAY(c->scratch, pass_call_site, s.start[ids] + 1);
  for (u32 k = 0; k < l->n; k++)
    for (u32 j = 0; j < l->callees[k].n; j++)
      if (l->callees[k].v[j]) s.sites[at[l->callees[k].v[j]->id]++] = (pass_call_site){l->v[k], j};
  return s;
}

u32 *pass_caller_counts(pass_ctx *c) {
  pass_cache *p = with_calls(c);
  size_t n = c->m->next_comp_id;
  if (!p->counts) p->counts = hlo_count_callers(c->m, &p->calls, &p->mem);
  return hs_arena_dup(c->scratch, p->counts, (n + 1) * sizeof *p->counts);
}

// ---- edits --------------------------------------------------------------------------------------
void pass_cache_new_era(pass_cache *p) {
  p->edited.n = 0;
  p->era++;
}

pass_since pass_cache_now(pass_cache *p, const hlo_module *m) {
  // there were edits that are not recorded
  if (!p->era || p->serial != m->serial || p->known != m->generation) pass_cache_new_era(p);
  p->known = m->generation;
  return (pass_since){p->era, p->edited.n};
}

static void record(void *arg, hlo_instr *i) {
  pass_cache *p = arg;
  if (!p->edited.n || p->edited.v[p->edited.n - 1] != i) hs_vec_push(&p->edited, i);
}

void pass_cache_note(pass_cache *p, const hlo_module *m, u64 before, size_t mark) {
  if (p->known != before) return;
  hlo_edited_since(m, mark, record, p);
  p->known = m->generation;
}

bool pass_edited(pass_ctx *c, hlo_instr ***v, u32 *n) {
  pass_cache *p = cache_of(c);
  if (!c->since.era || c->since.era != p->era) return false;
  *n = 0;
  *v = hs_arena_alloc(c->scratch, (p->edited.n - c->since.at + 1) * sizeof **v);
  u8 *seen = HS_NEW_ARRAY(c->scratch, u8, c->m->next_instr_id);
  for (size_t k = c->since.at; k < p->edited.n; k++) {
    hlo_instr *i = p->edited.v[k];
    if (!i->parent->dead && !seen[i->id]) seen[i->id] = 1, (*v)[(*n)++] = i;
  }
  return c->partial = true;
}
