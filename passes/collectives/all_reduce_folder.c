// all_reduce_folder.c — all-reduce-folder (xla/hlo/transforms/simplifiers/all_reduce_folder.cc):
// an all-reduce of an all-reduce becomes one, over groups that are put together of those of both.
//
//   all-reduce(all-reduce(x) over {0,1},{2,3}) over {0,2},{1,3}   ->   all-reduce(x) over {0,1,2,3}
//
// A member of the outer group brings the values of its inner group. That is one reduction of all of
// them only where no value comes in twice, and where all devices that it names see the same ones.
#include <stdlib.h>

#include "passes/collectives/groups.h"

static int ascending(const void *a, const void *b) {
  i64 x = *(const i64 *)a, y = *(const i64 *)b;
  return (x > y) - (x < y);
}

static const hlo_ints *group_with(const hlo_int_lists *g, i64 id) {
  for (u32 k = 0; k < g->n; k++)
    for (u32 j = 0; j < g->v[k].n; j++)
      if (g->v[k].v[j] == id) return &g->v[k];
  return NULL;
}

// What reaches the members of an outer group, ascending; false: some of it twice.
static bool put_together(const hlo_ints *outer, const hlo_int_lists *inner, hs_arena *a,
                         hlo_ints *out) {
  u32 n = 0, most = 0;
  for (u32 k = 0; k < inner->n; k++) most += inner->v[k].n;
  i64 *v = HS_NEW_ARRAY(a, i64, most + 1);
  for (u32 k = 0; k < outer->n; k++) {
    const hlo_ints *g = group_with(inner, outer->v[k]);
    if (!g || n + g->n > most) return false;
    memcpy(v + n, g->v, g->n * sizeof *v);
    n += g->n;
  }
  qsort(v, n, sizeof *v, ascending);
  for (u32 k = 1; k < n; k++)
    if (v[k] == v[k - 1]) return false;
  *out = (hlo_ints){n, v};
  return true;
}

// The groups of both in one; false: there are none that mean the same.
static bool joined(const hlo_int_lists *inner, const hlo_int_lists *outer, hs_arena *a,
                   hlo_int_lists *out) {
  hlo_ints *all = HS_NEW_ARRAY(a, hlo_ints, outer->n + 1);
  u32 n = 0, nids = 0, nouter = 0;
  if (inner->n == 0 || outer->n == 0) return false;
  for (u32 k = 0; k < inner->n; k++) nids += inner->v[k].n;
  for (u32 k = 0; k < outer->n; k++) nouter += outer->v[k].n;
  if (nids != nouter || nids > PASS_MAX_DEVICES) return false;
  *out = (hlo_int_lists){0, all};
  for (u32 k = 0; k < outer->n; k++) {
    hlo_ints g;
    if (!put_together(&outer->v[k], inner, a, &g)) return false;
    u32 known = 0, same = n;
    for (u32 j = 0; j < n; j++) {
      bool equal = hlo_ints_equal(all[j], g);
      if (equal) same = j;
      for (u32 q = 0; q < g.n && !equal; q++) known += group_with(out, g.v[q]) == &all[j];
    }
    if (known) return false;  // two groups that share some of their values
    if (same == n) all[n++] = g, out->n = n;
  }
  // each device is in the group whose values it sees: as many names as there are devices
  u32 named = 0;
  for (u32 k = 0; k < n; k++) named += all[k].n;
  for (u32 k = 0; k < outer->n; k++)
    for (u32 j = 0; j < outer->v[k].n; j++) {
      hlo_ints seen;
      const hlo_ints *mine = group_with(out, outer->v[k].v[j]);
      if (!mine || !put_together(&outer->v[k], inner, a, &seen) || !hlo_ints_equal(*mine, seen))
        return false;
    }
  return named == nids;
}

static bool may_differ(hlo_attr_id id) {
  return id == HLO_ATTR_CHANNEL_ID || id == HLO_ATTR_TO_APPLY || id == HLO_ATTR_REPLICA_GROUPS ||
         hlo_attr_is_annotation(id);
}

static const char *refuses(const hlo_instr *outer, const hlo_instr *inner, hs_arena *a) {
  static const char key[] = "collective_group_key";
  const hs_str *x = pass_frontend(outer, key), *y = pass_frontend(inner, key);
  if (hlo_is_root(inner) || inner->nuses != 1) return "others read the inner one too";
  if (hlo_is_controlled(inner) || hlo_is_controlled(outer)) return "their order is fixed";
  if (!hlo_attrs_equal(inner->attrs, outer->attrs, may_differ) || !x != !y ||
      (x && !hs_str_eq(*x, *y)) ||
      !hlo_attr_get(inner, HLO_ATTR_CHANNEL_ID) != !hlo_attr_get(outer, HLO_ATTR_CHANNEL_ID))
    return "they are not of one kind";
  hlo_dtype t = outer->shape->dtype;
  if (inner->shape->dtype != t || hlo_operand(inner, 0)->shape->dtype != t)
    return "they state other precisions";
  return pass_comp_equal(hlo_called(inner, 0), hlo_called(outer, 0), false, a)
             ? NULL
             : "they combine by other operations";
}

static int by_text(hs_str a, hs_str b) {
  int order = memcmp(a.p, b.p, HS_MIN(a.n, b.n));
  return order ? order : (a.n > b.n) - (a.n < b.n);
}

// Frontend attributes of both: of one that they have with two values, "inner,outer".
static const hlo_frontend *both_frontends(hs_arena *a, const hlo_instr *inner,
                                          const hlo_instr *outer) {
  const hlo_frontend *f = hlo_attr_ptr(inner, HLO_ATTR_FRONTEND_ATTRIBUTES),
                     *g = hlo_attr_ptr(outer, HLO_ATTR_FRONTEND_ATTRIBUTES);
  if (!f || !g) return f ? f : g;
  hlo_frontend_entry *v = HS_NEW_ARRAY(a, hlo_frontend_entry, f->n + g->n);
  u32 n = 0;
  for (u32 j = 0, k = 0; j < f->n || k < g->n;) {
    int order = j == f->n ? 1 : k == g->n ? -1 : by_text(f->v[j].key, g->v[k].key);
    v[n] = order <= 0 ? f->v[j] : g->v[k];
    if (order == 0 && !hs_str_eq(f->v[j].value, g->v[k].value)) {
      hs_str x = f->v[j].value, y = g->v[k].value;
      char *text = hs_arena_alloc(a, x.n + y.n + 2);
      memcpy(text, x.p, x.n), text[x.n] = ',', memcpy(text + x.n + 1, y.p, y.n);
      text[x.n + y.n + 1] = '\0';
      v[n].value = (hs_str){text, x.n + y.n + 1};
    }
    n++, j += order <= 0, k += order >= 0;
  }
  hlo_frontend *out = HS_NEW(a, hlo_frontend);
  *out = (hlo_frontend){n, v};
  return out;
}

static const hlo_replica_groups *as_attribute(hs_arena *a, const hlo_int_lists *g) {
  hlo_ints *v = HS_NEW_ARRAY(a, hlo_ints, g->n);
  for (u32 k = 0; k < g->n; k++)
    v[k] = (hlo_ints){g->v[k].n, hs_arena_dup(a, g->v[k].v, g->v[k].n * sizeof(i64))};
  hlo_replica_groups *out = HS_NEW(a, hlo_replica_groups);
  *out = (hlo_replica_groups){.form = HLO_GROUPS_LIST, .groups = {g->n, v}};
  return out;
}

static bool is_single(const hlo_instr *i) {
  return i->opcode == HLO_ALL_REDUCE && i->noperands == 1 && hlo_shape_is_array(i->shape) &&
         !hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0);
}

static hs_status visit(pass_ctx *p, hlo_computation *c) {
  hs_arena *m = &p->m->arena;
  hlo_instr **order = hlo_post_order(c, p->scratch);
  for (u32 k = 0, n = c->ninstrs; k < n; k++) {
    hlo_instr *outer = order[k];
    if (outer->dead || !is_single(outer) || !is_single(hlo_operand(outer, 0))) continue;
    HS_TRY(hs_poll());
    hlo_instr *inner = hlo_operand(outer, 0);
    hlo_int_lists a, b, g;
    const char *why = refuses(outer, inner, p->scratch);
    if (!why && (!pass_group_ids(inner, p->scratch, &a) || !pass_group_ids(outer, p->scratch, &b) ||
                 !joined(&a, &b, p->scratch, &g)))
      why = "no groups give both";
    if (why) {
      pass_note_declined(p, outer, inner, "%s", why);
      continue;
    }
    if (!pass_may_rewrite(p)) return HS_GOOD;
    pass_note_done(p, outer, inner, "one all-reduce over %u groups", g.n);
    const hlo_frontend *f = both_frontends(m, inner, outer);
    hlo_set_attr_ptr(outer, HLO_ATTR_REPLICA_GROUPS, as_attribute(m, &g));
    if (f) hlo_set_attr_ptr(outer, HLO_ATTR_FRONTEND_ATTRIBUTES, f);
    hlo_set_operand(outer, 0, hlo_operand(inner, 0));
    hlo_add_provenance(outer, inner);
    hlo_remove(inner);
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) {
  hlo_for_each_comp(c, p->m)
    if (!hlo_is_fusion_comp(c)) HS_TRY(visit(p, c));
  return HS_GOOD;
}

const pass_info pass_all_reduce_folder = {
    .name = "all-reduce-folder",
    .summary = "makes an all-reduce of an all-reduce one over larger groups",
    .xla_source = "xla/hlo/transforms/simplifiers/all_reduce_folder.cc",
    .run = run,
    .needs = {HLO_ALL_REDUCE},
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[8] parameter(0)\n"
                       "  a = f32[8] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=sum\n"
                       "  ROOT b = f32[8] all-reduce(a), replica_groups={{0,2},{1,3}}, "
                       "to_apply=sum\n"
                       "}\n",
};
