// same.c — see same.h. Instructions are paired from the roots on, operands in order; a pair that
// contradicts an earlier one is a difference, so that what one module shares the other shares too.
#include "tests/harness/same.h"

#include "core/text/text.h"

typedef struct walk {
  const hlo_instr **of;          // by id in a: its counterpart
  const hlo_computation **comp;  // by id in a
  bool *taken;                   // by id in b
  hs_buf *why;
} walk;

static bool differ(walk *w, const hlo_instr *a, const hlo_instr *b, const char *what) {
  hs_buf_printf(w->why, "%s: ", what);
  hlo_print_options o = hlo_print_short_parsable();
  o.print_result_shape = true;
  hlo_print_instr(w->why, a, &o);
  hs_buf_puts(w->why, " | ");
  hlo_print_instr(w->why, b, &o);
  return false;
}

// What says how the two are computed: annotations aside, computations are walked.
static bool compared(const hlo_attr *a) {
  switch (hlo_attr_kind_of(a->id)) {
  case HLO_AK_COMP:
  case HLO_AK_COMPS:
  case HLO_AK_CONTROL:
  case HLO_AK_METADATA:
  case HLO_AK_ORIGIN:
  case HLO_AK_STATISTICS: return false;
  default: return true;
  }
}

static bool same_attrs(const hlo_attrs *a, const hlo_attrs *b, hlo_attr_id *which) {
  u32 n = a ? a->n : 0, m = b ? b->n : 0, i = 0, j = 0;
  for (;; i++, j++) {
    while (i < n && !compared(&a->v[i])) i++;
    while (j < m && !compared(&b->v[j])) j++;
    *which = i < n ? a->v[i].id : j < m ? b->v[j].id : HLO_ATTR_NONE;
    if (i >= n || j >= m) return i >= n && j >= m;
    if (!hlo_attr_equal(&a->v[i], &b->v[j])) return false;
  }
}

static bool same_comps(walk *w, const hlo_computation *a, const hlo_computation *b);

static bool same_instrs(walk *w, const hlo_instr *a, const hlo_instr *b) {
  if (w->of[a->id] == b) return true;
  if (w->of[a->id] || w->taken[b->id])
    return differ(w, a, b, w->of[a->id] ? "one for several" : "several for one");
  w->of[a->id] = b;
  w->taken[b->id] = true;
  hlo_attr_id which;
  if (a->opcode != b->opcode) return differ(w, a, b, "operation");
  if (a->shape->logical != b->shape->logical) return differ(w, a, b, "shape");
  if (a->shape != b->shape) return differ(w, a, b, "layout");
  if (!same_attrs(a->attrs, b->attrs, &which)) return differ(w, a, b, hlo_attr_text(which));
  if (a->noperands != b->noperands || hlo_ncalled(a) != hlo_ncalled(b))
    return differ(w, a, b, "operands");
  for (u32 k = 0; k < a->noperands; k++)
    if (!same_instrs(w, hlo_operand(a, k), hlo_operand(b, k))) return false;
  for (u32 k = 0; k < hlo_ncalled(a); k++)
    if (!same_comps(w, hlo_called(a, k), hlo_called(b, k))) return false;
  return true;
}

static bool same_comps(walk *w, const hlo_computation *a, const hlo_computation *b) {
  if (w->comp[a->id] == b) return true;
  if (w->comp[a->id]) {
    hs_buf_printf(w->why, "computation %s is %s and %s", a->name, w->comp[a->id]->name, b->name);
    return false;
  }
  w->comp[a->id] = b;
  if (a->nparams != b->nparams)
    return hs_buf_printf(w->why, "parameters of %s, %s", a->name, b->name), false;
  for (u32 k = 0; k < a->nparams; k++)
    if (!same_instrs(w, a->params[k], b->params[k])) return false;
  if (!same_instrs(w, a->root, b->root)) return false;
  for (const hlo_instr *i = b->first; i; i = i->next)
    if (!w->taken[i->id] && hlo_has_side_effect(i))
      return hs_buf_printf(w->why, "missing: %s", i->name), false;
  if (a->ninstrs <= b->ninstrs) return true;
  for (const hlo_instr *i = a->first; i; i = i->next)
    if (!w->of[i->id]) hs_buf_printf(w->why, "unused: %s ", i->name);
  return false;
}

bool same_modules(const hlo_module *a, const hlo_module *b, hs_buf *why) {
  walk w = {hs_calloc(a->next_instr_id + 1, sizeof *w.of),
            hs_calloc(a->next_comp_id + 1, sizeof *w.comp), hs_calloc(b->next_instr_id + 1, 1),
            why};
  hlo_attr_id which;
  bool ok = same_comps(&w, a->entry, b->entry);
  if (ok && !same_attrs(a->attrs, b->attrs, &which)) {
    hs_buf_printf(why, "module: %s", hlo_attr_text(which));
    ok = false;
  }
  hs_free(w.of);
  hs_free(w.comp);
  hs_free(w.taken);
  return ok;
}
