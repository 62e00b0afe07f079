// input_output_alias.c — optimize_input_output_buffer_alias
// (xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc): aliases
// outputs with arguments.
//
// An output may share the buffer of an argument, or of an element of one, of the same size and
// memory space. Both lists are sorted by memory space and size, and matched by a merge; the pairs
// are recorded in input_output_alias. Arrays of dynamic shape are excluded: their size in memory is
// not the size of the bound. By default only arguments that the module declares as donors are used,
// as for XLA:CPU.
#include "passes/run/rewrite.h"

#include <stdlib.h>

// An array of an argument (owner: the parameter number) or of the result (owner: -1); at: its tuple
// index.
typedef struct leaf {
  i64 owner, bytes;
  i64 *at;
  u32 depth, order;
  i64 space;
} leaf;
typedef HS_VEC(leaf) leaves;

static void collect(leaves *v, hs_arena *a, const hlo_shape *s, i64 owner, const i64 *at,
                    u32 depth) {
  if (hlo_shape_is_tuple(s)) {
    for (u32 k = 0; k < s->nelems; k++) {
      i64 *deeper = HS_NEW_ARRAY(a, i64, depth + 1);
      if (depth) memcpy(deeper, at, depth * sizeof *at);
      deeper[depth] = k;
      collect(v, a, s->elems[k], owner, deeper, depth + 1);
    }
  } else if (hlo_shape_is_array(s) && !hlo_shape_is_dynamic(s)) {
    hs_vec_push(v, ((leaf){owner, hlo_shape_bytes(s), (i64 *)at, depth, (u32)v->n,
                           s->layout ? s->layout->memory_space : 0}));
  }
}

static int large_first(const void *a, const void *b) {
  const leaf *x = a, *y = b;
  if (x->space != y->space) return x->space < y->space ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->order < y->order ? -1 : 1;
}

static bool same_index(hlo_ints at, const leaf *p) {
  bool same = at.n == p->depth;
  for (u32 k = 0; same && k < at.n; k++) same = at.v[k] == p->at[k];
  return same;
}

static bool names_argument(const hlo_aliases *l, const leaf *p) {
  for (u32 k = 0; l && k < l->n; k++)
    if (l->v[k].param == p->owner && same_index(l->v[k].param_index, p)) return true;
  return false;
}

static bool names_output(const hlo_aliases *l, const leaf *p) {
  for (u32 k = 0; l && k < l->n; k++)
    if (same_index(l->v[k].out_index, p)) return true;
  return false;
}

static hlo_ints kept(hs_arena *a, const leaf *p) {
  return p->depth ? (hlo_ints){p->depth, hs_arena_dup(a, p->at, p->depth * sizeof *p->at)}
                  : (hlo_ints){0, NULL};
}

static const void *module_list(const hlo_module *m, hlo_attr_id id) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, id);
  return a ? a->v.p : NULL;
}

// Matches the sorted lists; appends the pairs to v and returns how many.
static u32 match(pass_ctx *c, const leaves *donors, const leaves *outputs, hlo_alias_entry *v) {
  hs_arena *a = &c->m->arena;
  u32 n = 0;
  for (size_t d = 0, o = 0; d < donors->n && o < outputs->n;) {
    const leaf *x = &donors->v[d], *y = &outputs->v[o];
    if (x->space != y->space) *(x->space < y->space ? &d : &o) += 1;
    else if (x->bytes != y->bytes) *(x->bytes > y->bytes ? &d : &o) += 1;
    else {
      if (!pass_may_rewrite(c)) break;
      v[n++] =
          (hlo_alias_entry){.out_index = kept(a, y), .param = x->owner, .param_index = kept(a, x)};
      d++, o++;
    }
  }
  return n;
}

static void write_lists(hlo_module *m, const hlo_aliases *donors, u32 n, const hlo_alias_entry *v,
                        u32 had) {
  hlo_aliases *now = HS_NEW(&m->arena, hlo_aliases), *left = HS_NEW(&m->arena, hlo_aliases);
  *now = (hlo_aliases){n, v};
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_INPUT_OUTPUT_ALIAS, .v.p = now});
  if (!donors) return;
  hlo_alias_entry *rest = HS_NEW_ARRAY(&m->arena, hlo_alias_entry, donors->n);
  for (u32 d = 0; d < donors->n; d++) {
    const hlo_alias_entry *e = &donors->v[d];
    bool used = false;
    for (u32 k = had; k < n; k++) {
      bool same = v[k].param == e->param && v[k].param_index.n == e->param_index.n;
      for (u32 j = 0; same && j < e->param_index.n; j++)
        same = v[k].param_index.v[j] == e->param_index.v[j];
      used |= same;
    }
    if (!used) rest[left->n++] = *e;
  }
  left->v = rest;
  if (left->n) hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_BUFFER_DONOR, .v.p = left});
  else hlo_remove_module_attr(m, HLO_ATTR_BUFFER_DONOR);
}

static hs_status run(pass_ctx *c) {
  hlo_module *m = c->m;
  const hlo_aliases *donors = module_list(m, HLO_ATTR_BUFFER_DONOR),
                    *have = module_list(m, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_program_shape *program = module_list(m, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  bool declared = pass_option_bool(c, "registered_buffer_donor_only");
  const hlo_shape *result = program ? program->result : m->entry->root->shape;
  if ((declared && !donors) || hlo_shape_is_dynamic(result)) return HS_GOOD;
  leaves all = {0}, from = {0}, to = {0};
  for (u32 k = 0; k < m->entry->nparams; k++)
    collect(&all, c->scratch,
            program && k < program->n ? program->params[k] : m->entry->params[k]->shape, k, NULL,
            0);
  for (size_t k = 0; k < all.n; k++)
    if (!names_argument(have, &all.v[k]) && (!declared || names_argument(donors, &all.v[k])))
      hs_vec_push(&from, all.v[k]);
  all.n = 0;
  collect(&all, c->scratch, result, -1, NULL, 0);
  for (size_t k = 0; k < all.n; k++)
    if (!names_output(have, &all.v[k])) hs_vec_push(&to, all.v[k]);
  if (from.n) qsort(from.v, from.n, sizeof *from.v, large_first);
  if (to.n) qsort(to.v, to.n, sizeof *to.v, large_first);
  u32 had = have ? have->n : 0;
  hlo_alias_entry *v = HS_NEW_ARRAY(&m->arena, hlo_alias_entry, had + to.n + 1);
  if (had) memcpy(v, have->v, had * sizeof *v);
  u32 n = had + match(c, &from, &to, v + had);
  if (n > had) {
    pass_note_done(c, m->entry->root, NULL, "%u outputs aliased with arguments", n - had);
    write_lists(m, donors, n, v, had);
  }
  hs_vec_free(&all);
  hs_vec_free(&from);
  hs_vec_free(&to);
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"registered_buffer_donor_only", PASS_BOOL, "true",
     "false: use any argument, not only those in buffer_donor"},
};

const pass_info pass_optimize_input_output_buffer_alias = {
    .name = "optimize_input_output_buffer_alias",
    .summary = "lets outputs reuse the buffers of donated arguments",
    .xla_source = "xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc",
    .run = run,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "HloModule m, buffer_donor={ (0, {}) }\n"
              "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  step = f32[4] parameter(1)\n"
              "  ROOT y = f32[4] subtract(x, step)\n"
              "}\n",
};
