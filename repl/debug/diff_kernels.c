// diff_kernels.c: diff --kernels. Which kernels of one module correspond to which kernels of
// another?
//
// A kernel is an instruction that is launched: a fusion or a single operation of the entry or of a
// computation that the entry calls. Its members are the instructions it computes. Two kernels are
// linked when a member of one is the counterpart of a member of the other (core/diff/graph_diff.h),
// or, for kernels without such members, when members stem from the same operation of the program
// (the op_name and position in their metadata), in order when there are several. A connected
// component of links is a group. A group is "same" when it has one kernel on each side with the
// same members, unchanged, moving as many bytes; "alike": one on each side; "merged": several
// become one; "split": one becomes several; else "regrouped". Kernels without links are listed
// alone.
#include "repl/debug/diff_kernels.h"

#include <math.h>
#include <stdlib.h>

#include "core/analysis/cost.h"
#include "passes/run/rewrite.h"
#include "profiler/model/prof.h"

// clean: members with an unchanged counterpart; named: linked by metadata
typedef struct kernel {
  const hlo_instr *i;
  u32 members, linked, clean, group;
  bool named;
  double bytes, seconds;
} kernel;
// of: by instruction id, 1 + number; 0: none
typedef struct kernels {
  const hlo_module *m;
  kernel *v;
  u32 n, cap;
  u32 *of;
} kernels;
typedef struct group {
  u32 from, to, matched, members[2], linked, clean;
  double bytes[2], seconds[2];
} group;

// ---- kernels and members ------------------------------------------------------------------------
static bool counts(const hlo_instr *i) {
  return !hlo_graph_diff_is_forwarding(i) && i->opcode != HLO_PARAMETER &&
         i->opcode != HLO_CONSTANT && i->opcode != HLO_BITCAST;
}

static void add_members(kernels *k, const hlo_instr *i, u32 depth) {
  const hlo_computation *c = i->opcode == HLO_FUSION && depth < 64 ? hlo_fusion_comp(i) : NULL;
  if (c) {
    hlo_for_each_instr(j, c) add_members(k, j, depth + 1);
  } else if (counts(i)) {
    k->of[i->id] = k->n;
    k->v[k->n - 1].members++;
  }
}

static void add_kernels(kernels *k, const hlo_computation *c, const prof_device *device, bool *seen,
                        hs_arena *a, u32 depth) {
  if (seen[c->id] || depth > 200) return;
  seen[c->id] = true;
  hlo_instr **order = hlo_post_order(c, a);
  for (u32 n = 0; n < c->ninstrs; n++) {
    const hlo_instr *i = order[n];
    if (hlo_op_has(i->opcode, HLO_F_CONTROL)) {
      for (u32 j = 0; j < hlo_ncalled(i); j++)
        add_kernels(k, hlo_called(i, j), device, seen, a, depth + 1);
      continue;
    }
    if (hlo_op_has(i->opcode, HLO_F_FREE) || !counts(i) ||
        (i->opcode == HLO_RESHAPE && pass_reshape_is_bitcast(hlo_operand(i, 0)->shape, i->shape)))
      continue;
    hlo_cost cost = hlo_cost_instr(i);
    k->v[k->n++] = (kernel){.i = i,
                            .group = UINT32_MAX,
                            .bytes = cost.bytes_read + cost.bytes_written,
                            .seconds = device ? prof_estimate_instr(i, device) : 0};
    add_members(k, i, 0);
  }
}

static kernels list_kernels(const hlo_module *m, const prof_device *device, hs_arena *a) {
  kernels k = {.m = m,
               .v = HS_NEW_ARRAY(a, kernel, m->next_instr_id + 1),
               .of = HS_NEW_ARRAY(a, u32, m->next_instr_id + 1)};
  if (m->entry) add_kernels(&k, m->entry, device, HS_NEW_ARRAY(a, bool, m->next_comp_id + 1), a, 0);
  return k;
}

// ---- groups -------------------------------------------------------------------------------------
static u32 root(u32 *up, u32 k) {
  while (up[k] != k) k = up[k] = up[up[k]];
  return k;
}

// Kernels of b have the numbers after those of a.
static void link_kernels(const hlo_graph_diff *d, kernels *a, kernels *b, u32 *up) {
  hlo_for_each_comp(c, d->a)
    hlo_for_each_instr(x, c) {
      const hlo_instr *y = d->of_a[x->id];
      u32 ka = a->of[x->id], kb = y ? b->of[y->id] : 0;
      if (!ka || !kb) continue;
      bool clean = !(d->change[y->id] & ~(u8)(HLO_DIFF_MOVED | HLO_DIFF_OPERANDS));
      a->v[ka - 1].linked++;
      b->v[kb - 1].linked++;
      a->v[ka - 1].clean += clean;
      b->v[kb - 1].clean += clean;
      up[root(up, ka - 1)] = root(up, a->n + kb - 1);
    }
}

// ---- by metadata --------------------------------------------------------------------------------
typedef struct named {
  u64 key;
  u32 kernel, order;
} named;
typedef HS_VEC(named) named_list;

static int by_key(const void *a, const void *b) {
  const named *x = a, *y = b;
  return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                          : (x->order > y->order) - (x->order < y->order);
}

// Kernels by the operations of the program that their members stem from; `alone`: those without
// links only. Each kernel is listed once per key.
static void list_named(const kernels *k, bool alone, bool opcodes, named_list *out) {
  hlo_for_each_comp(c, k->m)
    hlo_for_each_instr(i, c) {
      u32 n = k->of[i->id];
      const hlo_metadata *md = hlo_metadata_of(i);
      if (!n || (alone && k->v[n - 1].linked) || !md || !md->op_name.n) continue;
      u64 key = hs_hash_bytes(md->op_name.p, md->op_name.n, opcodes ? (u64)i->opcode : 0);
      named v = {hs_mix(key, (u64)md->source_line), n - 1, n - 1};
      hs_vec_push(out, v);
    }
  if (out->n) qsort(out->v, out->n, sizeof *out->v, by_key);
  size_t kept = 0;
  for (size_t j = 0; j < out->n; j++)
    if (!kept || out->v[kept - 1].key != out->v[j].key ||
        out->v[kept - 1].kernel != out->v[j].kernel)
      out->v[kept++] = out->v[j];
  out->n = kept;
}

// Kernels of `lone` that have no link join those of `other` that do the same operation: the n-th of
// one the n-th of the other.
static void link_named(kernels *lone, u32 first_lone, const kernels *other, u32 first_other,
                       bool opcodes, u32 *up) {
  named_list x = {0}, y = {0};
  list_named(lone, true, opcodes, &x);
  list_named(other, false, opcodes, &y);
  for (size_t j = 0, k = 0; j < x.n; j++) {
    size_t nth = 0;
    while (nth < j && x.v[j - nth - 1].key == x.v[j].key) nth++;
    while (k < y.n && y.v[k].key < x.v[j].key) k++;
    size_t m = k;
    if (m >= y.n || y.v[m].key != x.v[j].key) continue;
    while (nth-- && m + 1 < y.n && y.v[m + 1].key == x.v[j].key) m++;
    kernel *q = &lone->v[x.v[j].kernel];
    if (q->linked) continue;  // by another of its members, just now
    q->linked = 1;
    q->named = true;
    up[root(up, first_lone + x.v[j].kernel)] = root(up, first_other + y.v[m].kernel);
  }
  hs_vec_free(&x);
  hs_vec_free(&y);
}

static const char *kind_of(const group *g) {
  if (!g->from) return "added";
  if (!g->to) return "removed";
  // or they work on something else
  bool as_much = fabs(g->bytes[0] - g->bytes[1]) <= 0.01 * HS_MAX(g->bytes[0], g->bytes[1]);
  if (g->from == 1 && g->to == 1)
    return g->clean == g->members[0] && g->clean == g->members[1] && as_much ? "same" : "alike";
  return g->to == 1 ? "merged" : g->from == 1 ? "split" : "regrouped";
}

static void names(const kernels *k, u32 number, hs_buf *text, repl_json *list) {
  for (u32 n = 0; n < k->n; n++) {
    if (k->v[n].group != number) continue;
    hs_buf_printf(text, "%s%s", text->n ? " + " : "", k->v[n].i->name);
    repl_json_str(list, NULL, k->v[n].i->name);
  }
  if (!text->n) hs_buf_puts(text, "-");
}

static void say_group(repl_cmd *c, repl_json *list, const group *g, u32 number, const kernels *a,
                      const kernels *b) {
  hs_buf from = {0}, to = {0};
  char moved[2][32];
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "kind", kind_of(g));
  names(a, number, &from, repl_json_array(j, "from"));
  names(b, number, &to, repl_json_array(j, "to"));
  repl_json_int(j, "matched", g->matched);
  for (u32 k = 0; k < 2; k++) {
    repl_json_int(j, k ? "to_members" : "from_members", g->members[k]);
    repl_json_num(j, k ? "to_bytes" : "from_bytes", g->bytes[k]);
    repl_json_num(j, k ? "to_time_ms" : "from_time_ms", g->seconds[k] * 1e3);
    repl_bytes(moved[k], g->bytes[k]);
  }
  if (!c->doc)
    repl_say(c->out, "  %-9s %-40s | %-40s %4u of %u, %u  %10s | %s\n", kind_of(g),
             hs_buf_cstr(&from), hs_buf_cstr(&to), g->matched, g->members[0], g->members[1],
             g->from ? moved[0] : "-", g->to ? moved[1] : "-");
  hs_buf_free(&from);
  hs_buf_free(&to);
}

static u32 collect(kernels *k, const u32 *up_of, u32 first, u32 *number, group *groups, u32 n,
                   int which) {
  for (u32 j = 0; j < k->n; j++) {
    u32 r = up_of[first + j];
    if (number[r] == UINT32_MAX) number[r] = n, groups[n++] = (group){0};
    group *g = &groups[k->v[j].group = number[r]];
    if (which) g->to++;
    else g->from++, g->matched += k->v[j].named ? 0 : k->v[j].linked, g->clean += k->v[j].clean;
    g->members[which] += k->v[j].members;
    g->bytes[which] += k->v[j].bytes;
    g->seconds[which] += k->v[j].seconds;
  }
  return n;
}

void repl_diff_kernels(repl_cmd *c, const hlo_graph_diff *d) {
  kernels a = list_kernels(d->a, c->s->target, c->scratch),
          b = list_kernels(d->b, c->s->target, c->scratch);
  u32 all = a.n + b.n, *up = HS_NEW_ARRAY(c->scratch, u32, all + 1),
      *number = HS_NEW_ARRAY(c->scratch, u32, all + 1), totals[6] = {0};
  for (u32 k = 0; k < all; k++) up[k] = k, number[k] = UINT32_MAX;
  link_kernels(d, &a, &b, up);
  for (int opcodes = 1; opcodes >= 0; opcodes--) {
    link_named(&a, 0, &b, a.n, opcodes, up);
    link_named(&b, a.n, &a, 0, opcodes, up);
  }
  for (u32 k = 0; k < all; k++) up[k] = root(up, k);
  for (u32 k = 0; k < all; k++) up[k] = root(up, k);
  group *groups = HS_NEW_ARRAY(c->scratch, group, all + 1);
  u32 n = collect(&a, up, 0, number, groups, 0, 0);
  n = collect(&b, up, a.n, number, groups, n, 1);
  static const char *const kinds[] = {"same",      "alike",   "merged", "split",
                                      "regrouped", "removed", "added"};
  u32 of_kind[HS_COUNT(kinds)] = {0};
  repl_json *list = repl_json_array(c->doc, "kernels");
  if (!c->doc && n)
    repl_say(c->out, "  %-9s %-40s | %-40s members matched   moved (estimated)\n", "", "from",
             "to");
  for (u32 k = 0; k < n; k++) {
    say_group(c, list, &groups[k], k, &a, &b);
    for (size_t w = 0; w < HS_COUNT(kinds); w++)
      of_kind[w] += !strcmp(kinds[w], kind_of(&groups[k]));
  }
  for (u32 k = 0; k < n; k++)
    totals[groups[k].from && groups[k].to ? 0 : 1] += groups[k].from,
        totals[groups[k].from && groups[k].to ? 2 : 3] += groups[k].to;
  if (!c->doc)
    repl_say(c->out, "kernels: %u of %u correspond to %u of %u;", totals[0], a.n, totals[2], b.n);
  repl_json *sum = repl_json_object(c->doc, "kernel_groups");
  repl_json_int(sum, "from", a.n);
  repl_json_int(sum, "to", b.n);
  repl_json_int(sum, "from_matched", totals[0]);
  repl_json_int(sum, "to_matched", totals[2]);
  for (size_t w = 0, told = 0; w < HS_COUNT(kinds); w++) {
    repl_json_int(sum, kinds[w], of_kind[w]);
    if (!c->doc && of_kind[w])
      repl_say(c->out, "%s %u %s", told++ ? "," : "", of_kind[w], kinds[w]);
  }
  if (!c->doc) repl_say(c->out, "\n");
}
