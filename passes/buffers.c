// buffers.c — outputs written over arguments: optimize_input_output_buffer_alias
// (xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc). An argument that the module declares as a donor may
// hold an output of the same shape (no other argument, as in XLA:CPU); the pairs are written into input_output_alias.
#include "passes/util.h"

hs_status pass_optimize_input_output_buffer_alias(pass_ctx *c) {
  hlo_module *m = c->m;
  const hlo_attr *da = hlo_attrs_find(m->attrs, HLO_ATTR_BUFFER_DONOR), *aa = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *donors = da ? da->v.p : NULL, *have = aa ? aa->v.p : NULL;
  if (!donors || !donors->n) return HS_GOOD;
  const hlo_shape *out = m->entry->root->shape;
  u32 nout = hlo_shape_is_tuple(out) ? out->nelems : 1, n = have ? have->n : 0;
  hlo_alias_entry *v = HS_NEW_ARRAY(&m->arena, hlo_alias_entry, n + nout);
  if (n) memcpy(v, have->v, n * sizeof *v);
  u32 nd = 0;
  hlo_alias_entry *rest = HS_NEW_ARRAY(&m->arena, hlo_alias_entry, donors->n);
  bool *taken = HS_NEW_ARRAY(c->scratch, bool, nout + 1);
  for (u32 k = 0; k < n; k++) {
    i64 at = v[k].out_index.n ? v[k].out_index.v[0] : 0;
    if (at >= 0 && at < (i64)nout) taken[at] = true;
  }
  u32 before = n;
  for (u32 d = 0; d < donors->n; d++) {
    const hlo_alias_entry *e = &donors->v[d];
    const hlo_shape *s = e->param >= 0 && e->param < (i64)m->entry->nparams ? m->entry->params[e->param]->shape : NULL;
    for (u32 k = 0; s && k < e->param_index.n; k++) s = e->param_index.v[k] >= 0 && (u32)e->param_index.v[k] < s->nelems ? s->elems[e->param_index.v[k]] : NULL;
    bool used = false;
    for (u32 o = 0; s && o < nout && !used; o++) {
      const hlo_shape *os = hlo_shape_is_tuple(out) ? out->elems[o] : out;
      if (taken[o] || os != s || !hlo_shape_is_array(s) || !pass_may_rewrite(c)) continue;
      taken[o] = used = true;
      i64 at = o;
      v[n] = *e;
      v[n].out_index = hlo_shape_is_tuple(out) ? (hlo_ints){1, hs_arena_dup(&m->arena, &at, sizeof at)} : (hlo_ints){0, NULL};
      v[n++].must = false;
    }
    if (!used) rest[nd++] = *e;
  }
  if (n == before) return HS_GOOD;
  pass_note_done(c, m->entry->root, NULL, "%u outputs written over donated arguments", n - before);
  hlo_aliases *now = HS_NEW(&m->arena, hlo_aliases), *left = HS_NEW(&m->arena, hlo_aliases);
  *now = (hlo_aliases){n, v};
  *left = (hlo_aliases){nd, rest};
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_INPUT_OUTPUT_ALIAS, .v.p = now});
  if (nd) hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_BUFFER_DONOR, .v.p = left});
  else hlo_remove_module_attr(m, HLO_ATTR_BUFFER_DONOR);
  return HS_GOOD;
}
