// sample.c — a pass shown by example: the sample of its descriptor before and after.
//
// The pass runs on request, so help shows what the pass really does. Both texts are printed without
// layouts and without the module's header line unless they matter: layouts when one is not
// row-major, the header when it has an attribute, such as aliases or a schedule.
#include "core/text/text.h"
#include "passes/passes.h"

static bool has_layouts(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      for (u32 k = 0; k < hlo_shape_leaves(i->shape); k++)
        if (!hlo_shape_is_row_major(hlo_shape_leaf(i->shape, k))) return true;
  return false;
}

static bool has_attributes(const hlo_module *m) {
  for (u32 k = 0; m->attrs && k < m->attrs->n; k++)
    if (m->attrs->v[k].id != HLO_ATTR_ENTRY_COMPUTATION_LAYOUT) return true;
  return false;
}

static void print(hs_buf *b, const hlo_module *m, bool whole, bool layouts) {
  hlo_print_options o = hlo_print_short_parsable();
  o.include_layout_in_shapes = layouts;
  hs_buf all = {0};
  hlo_print_module(&all, m, &o);
  const char *p = hs_buf_cstr(&all), *end = p + all.n;
  if (!whole) p += strcspn(p, "\n");
  while (*p == '\n') p++;
  while (end > p && end[-1] == '\n') end--;
  hs_buf_put(b, p, (size_t)(end - p));
  hs_buf_putc(b, '\n');
  hs_buf_free(&all);
}

static hs_status run_sample(hlo_ctx *ctx, const pass_info *p, const char *text, hs_buf *before,
                            hs_buf *after) {
  hlo_module *m = NULL;
  HS_TRY(hlo_parse(ctx, text, strlen(text), NULL, &m));
  hlo_module *was = hlo_module_clone(m, m->name);
  pass_run_options o = pass_run_default();
  pass_result r;
  hs_status s = pass_run(m, p, NULL, &o, &r);
  if (hs_ok(s)) {
    bool layouts = has_layouts(was) || has_layouts(m),
         whole = layouts || has_attributes(was) || has_attributes(m);
    print(before, was, whole, layouts);
    print(after, m, whole, layouts);
  }
  hlo_module_free(was);
  hlo_module_free(m);
  return s;
}

hs_status pass_sample(const pass_info *p, hs_buf *before, hs_buf *after) {
  hlo_ctx *ctx = hlo_ctx_new();
  hs_status s = run_sample(ctx, p, p->sample, before, after);
  hlo_ctx_free(ctx);
  return s;
}
