// same.c — see same.h. Instructions are paired from the roots on, operands in order; a pair that
// contradicts an earlier one is a difference, so that what one module shares the other shares too.
#include "tests/harness/same.h"

#include "core/text/text.h"

typedef struct walk {
  const hlo_instr **of;          // by id in a: its counterpart
  const hlo_computation **comp;  // by id in a
  bool *taken;                   // by id in b
  bool loose;
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
static bool compared(const walk *w, const hlo_instr *i, const hlo_attr *a) {
  bool forwards = i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT;
  bool placed = a->id == HLO_ATTR_SHARDING || a->id == HLO_ATTR_FRONTEND_ATTRIBUTES;
  // regions have arguments without attributes
  bool argument = i->opcode == HLO_PARAMETER && i->parent != i->parent->module->entry;
  // what is stated and what is left out mean the same
  bool usual = (a->id == HLO_ATTR_HAS_DYNAMIC_ROOT || a->id == HLO_ATTR_IS_STABLE) && !a->v.i;
  bool composite = a->id == HLO_ATTR_FRONTEND_ATTRIBUTES && hlo_attr_get(i, HLO_ATTR_IS_COMPOSITE);
  if (w->loose && (usual || composite || (i->opcode == HLO_MAP && a->id == HLO_ATTR_DIMENSIONS)))
    return false;
  if (w->loose && ((placed && (forwards || argument)) || hlo_attr_droppable(i->opcode, a)))
    return false;
  switch (hlo_attr_kind_of(a->id)) {
  case HLO_AK_COMP:
  case HLO_AK_COMPS:
  case HLO_AK_CONTROL:
  case HLO_AK_METADATA:
  case HLO_AK_ORIGIN:
  case HLO_AK_STATISTICS: return false;
  case HLO_AK_BACKEND_CONFIG: return !w->loose || i->opcode == HLO_CUSTOM_CALL;
  // the walk begins at the parameters, in their order
  default: return !w->loose || (a->id != HLO_ATTR_CONSTRAIN_LAYOUT && a->id != HLO_ATTR_ORIGIN);
  }
}

// The devices of groups, row after row; -1 ends one.
typedef HS_VEC(i64) devices;
static void expand(const hlo_replica_groups *g, devices *out) {
  i64 n = 1, dims[HLO_MAX_RANK], strides[HLO_MAX_RANK];
  if (g->form == HLO_GROUPS_LIST) {
    for (u32 k = 0; k < g->groups.n; k++) {
      for (u32 j = 0; j < g->groups.v[k].n; j++) hs_vec_push(out, g->groups.v[k].v[j]);
      hs_vec_push(out, -1);
    }
    return;
  }
  if (g->form != HLO_GROUPS_IOTA || g->dims.n != 2 || g->reshape.n > HLO_MAX_RANK) return;
  for (u32 k = 0; k < g->reshape.n; k++) n *= g->reshape.v[k];
  hlo_row_major_strides(g->reshape.n, g->reshape.v, strides);
  for (u32 k = 0; k < g->reshape.n; k++) dims[k] = g->reshape.v[g->perm.n ? g->perm.v[k] : k];
  for (i64 k = 0; k < n; k++) {
    i64 rest = k, at = 0;
    for (u32 d = g->reshape.n; d-- > 0; rest /= dims[d])
      at += rest % dims[d] * strides[g->perm.n ? g->perm.v[d] : d];
    hs_vec_push(out, at);
    if ((k + 1) % g->dims.v[1] == 0) hs_vec_push(out, -1);
  }
}

static bool same_groups(const hlo_replica_groups *a, const hlo_replica_groups *b) {
  devices x = {0}, y = {0};
  expand(a, &x);
  expand(b, &y);
  bool same = x.n == y.n && (!x.n || !memcmp(x.v, y.v, x.n * sizeof *x.v));
  hs_vec_free(&x);
  hs_vec_free(&y);
  return same;
}

static bool same_attr(const walk *w, const hlo_attr *a, const hlo_attr *b) {
  if (!w->loose || a->id != b->id || a->id != HLO_ATTR_REPLICA_GROUPS) return hlo_attr_equal(a, b);
  return same_groups(a->v.p, b->v.p);
}

static bool same_attrs(const walk *w, const hlo_instr *x, const hlo_instr *y, hlo_attr_id *which) {
  const hlo_attrs *a = x->attrs, *b = y->attrs;
  u32 n = a ? a->n : 0, m = b ? b->n : 0, i = 0, j = 0;
  for (;; i++, j++) {
    while (i < n && !compared(w, x, &a->v[i])) i++;
    while (j < m && !compared(w, y, &b->v[j])) j++;
    *which = i < n ? a->v[i].id : j < m ? b->v[j].id : HLO_ATTR_NONE;
    if (i >= n || j >= m) return i >= n && j >= m;
    if (!same_attr(w, &a->v[i], &b->v[j])) return false;
  }
}

// Loosely, a tuple of all elements of a tuple is that tuple, an element of a tuple that is put
// together is what was put there, and a tuple of one value is that value.
static const hlo_instr *real(const walk *w, const hlo_instr *i) {
  while (w->loose) {
    bool element = i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0)->shape->nelems == 1;
    if (element || (i->opcode == HLO_TUPLE && i->noperands == 1)) {
      i = hlo_operand(i, 0);
      continue;
    }
    if (i->opcode == HLO_GET_TUPLE_ELEMENT && hlo_operand(i, 0)->opcode == HLO_TUPLE) {
      i = hlo_operand(hlo_operand(i, 0), (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0));
      continue;
    }
    const hlo_instr *from = NULL;
    bool whole = i->opcode == HLO_TUPLE && i->noperands > 0;
    for (u32 k = 0; whole && k < i->noperands; k++) {
      const hlo_instr *e = hlo_operand(i, k);
      if (e->opcode == HLO_TUPLE) e = real(w, e);  // itself an element, put together
      whole = e->opcode == HLO_GET_TUPLE_ELEMENT && hlo_attr_int(e, HLO_ATTR_INDEX, 0) == k &&
              (!from || from == hlo_operand(e, 0));
      if (whole) from = hlo_operand(e, 0);
    }
    if (!whole || from->shape->nelems != i->noperands) return i;
    i = from;
  }
  return i;
}

static const hlo_shape *stripped(const walk *w, const hlo_shape *s) {
  while (w->loose && hlo_shape_is_tuple(s) && s->nelems == 1) s = s->elems[0];
  return s->logical;
}

static bool same_comps(walk *w, const hlo_computation *a, const hlo_computation *b);

static bool same_instrs(walk *w, const hlo_instr *a, const hlo_instr *b) {
  a = real(w, a);
  b = real(w, b);
  if (w->of[a->id] == b) return true;
  bool forwards = w->loose && (a->opcode == HLO_TUPLE || a->opcode == HLO_GET_TUPLE_ELEMENT);
  if ((w->of[a->id] || w->taken[b->id]) && !forwards)
    return differ(w, a, b, w->of[a->id] ? "one for several" : "several for one");
  w->of[a->id] = b;
  w->taken[b->id] = true;
  hlo_attr_id which;
  bool empty = hlo_shape_is_tuple(a->shape) && !a->shape->nelems;
  if (w->loose && empty && a->shape->logical == b->shape->logical) return true;
  if (a->opcode != b->opcode) return differ(w, a, b, "operation");
  if (stripped(w, a->shape) != stripped(w, b->shape)) return differ(w, a, b, "shape");
  if (!w->loose && a->shape != b->shape) return differ(w, a, b, "layout");
  if (!same_attrs(w, a, b, &which)) return differ(w, a, b, hlo_attr_text(which));
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
  // loosely, each user may have a copy of the computation
  if (w->comp[a->id] && w->loose) {
    for (const hlo_instr *i = a->first; i; i = i->next) w->of[i->id] = NULL;
  } else if (w->comp[a->id]) {
    hs_buf_printf(w->why, "computation %s is %s and %s", a->name, w->comp[a->id]->name, b->name);
    return false;
  }
  w->comp[a->id] = b;
  if (a->nparams != b->nparams)
    return hs_buf_printf(w->why, "parameters of %s, %s", a->name, b->name), false;
  for (u32 k = 0; k < a->nparams; k++)
    if (!same_instrs(w, a->params[k], b->params[k])) return false;
  if (!same_instrs(w, a->root, b->root)) return false;
  i64 effects = 0;
  for (const hlo_instr *i = a->first; i && w->loose; i = i->next) effects += hlo_has_side_effect(i);
  for (const hlo_instr *i = b->first; i && w->loose; i = i->next) effects -= hlo_has_side_effect(i);
  if (effects) return hs_buf_printf(w->why, "effects lost in %s", a->name), false;
  if (w->loose) return true;
  for (const hlo_instr *i = b->first; i; i = i->next)
    if (!w->taken[i->id] && hlo_has_side_effect(i))
      return hs_buf_printf(w->why, "missing: %s", i->name), false;
  if (a->ninstrs <= b->ninstrs) return true;
  for (const hlo_instr *i = a->first; i; i = i->next)
    if (!w->of[i->id]) hs_buf_printf(w->why, "unused: %s ", i->name);
  return false;
}

bool same_modules(const hlo_module *a, const hlo_module *b, bool loose, hs_buf *why) {
  walk w = {hs_calloc(a->next_instr_id + 1, sizeof *w.of),
            hs_calloc(a->next_comp_id + 1, sizeof *w.comp), hs_calloc(b->next_instr_id + 1, 1),
            loose, why};
  bool ok = same_comps(&w, a->entry, b->entry);
  for (hlo_attr_id id = HLO_ATTR_NONE; ok && id < HLO_ATTR_COUNT; id++) {
    bool counts = id == HLO_ATTR_REPLICA_COUNT || id == HLO_ATTR_NUM_PARTITIONS;
    const hlo_attr *x = hlo_attrs_find(a->attrs, id), *y = hlo_attrs_find(b->attrs, id);
    if (loose && (!counts || (x ? x->v.i : 1) == (y ? y->v.i : 1))) continue;
    if ((!x && !y) || (x && y && hlo_attr_equal(x, y))) continue;
    hs_buf_printf(why, "module: %s", hlo_attr_text(id));
    ok = false;
  }
  hs_free(w.of);
  hs_free(w.comp);
  hs_free(w.taken);
  return ok;
}
