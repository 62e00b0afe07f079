// computation_deduplicator.c — computation-deduplicator
// (xla/hlo/transforms/hlo_computation_deduplicator.cc): callers of equal computations call the
// first of them.
//
// Callees are visited first, so equal call trees are merged from the leaves up. Never merged: the
// entry, fusion bodies (each belongs to one fusion), reductions of collectives, long computations
// and those with large constants. With mark_fusion_duplications nothing is merged; fusions with
// equal bodies get the same deduplicated_name in their metadata.
#include "passes/run/rewrite.h"

enum { MOST_CONSTANT_BYTES = 1024, MOST_INSTRUCTIONS = 128 };

static bool too_long(const hlo_computation *c) {
  i64 bytes = 0;
  hlo_for_each_instr(i, c)
    if (i->opcode == HLO_CONSTANT && bytes <= MOST_CONSTANT_BYTES)
      bytes = hs_add_sat_i64(bytes, hlo_shape_bytes(i->shape));
  return c->ninstrs > MOST_INSTRUCTIONS || bytes > MOST_CONSTANT_BYTES;
}

// Marks the reductions of collectives, by computation id; they identify the collective's kind.
static bool *find_collective_reductions(const hlo_module *m, hs_arena *a) {
  bool *of_collective = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE) && hlo_fusion_comp(i))
        of_collective[hlo_fusion_comp(i)->id] = true;
  return of_collective;
}

static const hlo_attr *redirect(hlo_module *m, const hlo_attr *a, hlo_computation *const *to,
                                hlo_attr *out) {
  *out = *a;
  if (hlo_attr_kind_of(a->id) == HLO_AK_COMP) {
    if (!to[a->v.comp->id]) return NULL;
    out->v.comp = to[a->v.comp->id];
    return out;
  }
  if (hlo_attr_kind_of(a->id) != HLO_AK_COMPS) return NULL;
  bool any = false;
  hlo_computation **v = HS_NEW_ARRAY(&m->arena, hlo_computation *, a->v.comps.n);
  for (u32 k = 0; k < a->v.comps.n; k++) {
    v[k] = a->v.comps.v[k];
    if (to[v[k]->id]) v[k] = to[v[k]->id], any = true;
  }
  out->v.comps.v = v;
  return any ? out : NULL;
}

static void redirect_calls(hlo_module *m, hlo_computation *c, hlo_computation *const *to) {
  hlo_for_each_instr(i, c) {
    if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
    const hlo_attrs *attrs = i->attrs;  // attribute sets are immutable
    for (u32 k = 0; attrs && k < attrs->n; k++) {
      hlo_attr now;
      if (redirect(m, &attrs->v[k], to, &now)) hlo_set_attr(i, now);
    }
  }
}

// The execution thread of each computation: its own, or the one inherited from its callers.
static void find_threads(const hlo_module *m, hs_str *thread) {
  hlo_for_each_comp(c, m) thread[c->id] = c->execution_thread;
  for (bool changed = true; changed;) {
    changed = false;
    hlo_for_each_comp(c, m) {
      if (!thread[c->id].n) continue;
      hlo_for_each_instr(i, c) {
        u32 n = hlo_op_has(i->opcode, HLO_F_CALLS) ? hlo_ncalled(i) : 0;
        for (u32 k = 0; k < n; k++) {
          u32 id = hlo_called(i, k)->id;
          if (!thread[id].n) thread[id] = thread[c->id], changed = true;
        }
      }
    }
  }
}

// ---- marking fusions ----------------------------------------------------------------------------
static void set_deduplicated(hlo_instr *i, const char *name) {
  hs_arena *a = &i->parent->module->arena;
  const hlo_metadata *old = hlo_metadata_of(i);
  hlo_metadata *now = HS_NEW(a, hlo_metadata);
  hlo_metadata_rest *rest = HS_NEW(a, hlo_metadata_rest);
  if (old) *now = *old;
  if (old && old->rest) *rest = *old->rest;
  rest->deduplicated_name = hs_str_of(hs_arena_strndup(a, name, strlen(name)));
  now->rest = rest;
  if (old && old->rest && hs_str_eq(old->rest->deduplicated_name, rest->deduplicated_name)) return;
  hlo_set_attr_ptr(i, HLO_ATTR_METADATA, now);
}

// Gives fusions with equal bodies the name of the first one in `order`.
static void mark_fusions(pass_ctx *c, u32 n, hlo_computation *const *order) {
  u64 *memo = HS_NEW_ARRAY(c->scratch, u64, c->m->next_comp_id + 1);
  // by id: the first equal computation
  hlo_computation **same = HS_NEW_ARRAY(c->scratch, hlo_computation *, c->m->next_comp_id + 1);
  hlo_instr **fusion = HS_NEW_ARRAY(c->scratch, hlo_instr *, c->m->next_comp_id + 1);
  for (u32 k = 0; k < n; k++)
    hlo_for_each_instr(i, order[k])
      if (i->opcode == HLO_FUSION && hlo_fusion_comp(i)) fusion[hlo_fusion_comp(i)->id] = i;
  u32 cap = 16;
  while (cap < 2 * n) cap *= 2;
  hlo_computation **slots = HS_NEW_ARRAY(c->scratch, hlo_computation *, cap);
  for (u32 k = 0; k < n; k++) {
    hlo_computation *x = order[k];
    if (!fusion[x->id] || too_long(x)) continue;
    u64 h = pass_comp_hash(x, memo);
    u32 at = (u32)h & (cap - 1);
    while (slots[at] &&
           !(memo[slots[at]->id] == h && pass_comp_equal(slots[at], x, true, c->scratch)))
      at = (at + 1) & (cap - 1);
    if (slots[at]) same[x->id] = slots[at];
    else slots[at] = x;
  }
  for (u32 k = 0; k < n; k++) {
    hlo_computation *first = same[order[k]->id];
    if (!first || !pass_may_rewrite(c)) continue;
    hlo_instr *f = fusion[order[k]->id], *to = fusion[first->id];
    pass_note_done(c, f, to, "its body equals that of %s", to->name);
    set_deduplicated(to, to->name);
    set_deduplicated(f, to->name);
  }
}

static hs_status run(pass_ctx *c) {
  hlo_module *m = c->m;
  bool mark = pass_option_bool(c, "mark_fusion_duplications");
  u32 n;
  hlo_computation **order = pass_comp_callees_first(c, &n),
                  **kept = HS_NEW_ARRAY(c->scratch, hlo_computation *, n + 1);
  if (mark) return mark_fusions(c, n, order), HS_GOOD;
  hlo_computation **to = HS_NEW_ARRAY(c->scratch, hlo_computation *, m->next_comp_id + 1);
  u64 *memo = HS_NEW_ARRAY(c->scratch, u64, m->next_comp_id + 1),
      *hash = HS_NEW_ARRAY(c->scratch, u64, n + 1);
  hs_str *thread = HS_NEW_ARRAY(c->scratch, hs_str, m->next_comp_id + 1);
  find_threads(m, thread);
  bool any = false, *of_collective = find_collective_reductions(m, c->scratch);
  for (u32 k = 0; k < n; k++) {
    hlo_computation *x = order[k];
    if (any) redirect_calls(m, x, to);
    if (x == m->entry || hlo_is_fusion_comp(x) || of_collective[x->id] || too_long(x)) continue;
    hash[k] = pass_comp_hash(x, memo);
    for (u32 j = 0; j < k; j++) {
      if (!kept[j] || hash[j] != hash[k] || !hs_str_eq(thread[kept[j]->id], thread[x->id]) ||
          !pass_comp_equal(kept[j], x, true, c->scratch))
        continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, x->root, NULL, "computation %s equals %s", x->name, kept[j]->name);
      to[x->id] = kept[j];
      any = true;
      break;
    }
    if (!to[x->id]) kept[k] = x;
  }
  for (u32 k = 0; k < n; k++)
    if (to[order[k]->id]) hlo_remove_computation(order[k]);
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"mark_fusion_duplications", PASS_BOOL, "false",
     "merge nothing; give fusions with equal bodies one name in their metadata"},
};

const pass_info pass_computation_deduplicator = {
    .name = "computation-deduplicator",
    .summary = "merges equal computations",
    .xla_source = "xla/hlo/transforms/hlo_computation_deduplicator.cc",
    .run = run,
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = PASS_SUM "sum_again {\n  sum_again_a = f32[] parameter(0)\n"
                       "  sum_again_b = f32[] parameter(1)\n"
                       "  ROOT sum_again_c = f32[] add(sum_again_a, sum_again_b)\n}\n"
                       "ENTRY e {\n"
                       "  x = f32[4,3] parameter(0)\n"
                       "  zero = f32[] constant(0)\n"
                       "  rows = f32[4] reduce(x, zero), dimensions={1}, to_apply=sum\n"
                       "  ROOT all = f32[] reduce(rows, zero), dimensions={0}, to_apply=sum_again\n"
                       "}\n",
};
