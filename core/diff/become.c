// become.c — edits a module into another one, so that two modules that were read separately (a
// pass's input and output in a dump) become two versions of one: undo, diff and blame work on them
// as on hlosh's own passes.
//
// An instruction with the same name and opcode in both, in a computation of the same name and
// parameters, is kept and edited; the others are removed or added. XLA never reuses a name within a
// module, so names identify instructions. An added instruction that replaces a removed one as an
// operand has that one as its provenance.
#include "core/ir/journal.h"
#include "core/ir/names.h"

typedef struct become {
  hlo_module *m;
  const hlo_module *t;
  hlo_computation **comp;  // by id in t
  hlo_instr **instr;       // by id in t
  bool *keep, *keep_comp;  // by id in m
} become;

static hlo_computation *comp_of(void *arg, hlo_computation *c) {
  return ((become *)arg)->comp[c->id];
}

// ---- what is kept -------------------------------------------------------------------------------
static bool same_parameters(const hlo_computation *a, const hlo_computation *b) {
  if (a->nparams != b->nparams) return false;
  for (u32 k = 0; k < a->nparams; k++)
    if (strcmp(a->params[k]->name, b->params[k]->name) != 0) return false;
  return true;
}

static void match(become *b) {
  hlo_for_each_comp(c, b->t) {
    hlo_computation *old = hlo_find_comp(b->m, c->name);
    if (!old || !same_parameters(old, c)) continue;
    b->comp[c->id] = old;
    b->keep_comp[old->id] = true;
    hlo_for_each_instr(i, c) {
      hlo_instr *o = hlo_find_instr(b->m, i->name);
      if (!o || o->parent != old || o->opcode != i->opcode) continue;
      if (i->opcode == HLO_PARAMETER && hlo_param_number(i) != hlo_param_number(o)) continue;
      b->instr[i->id] = o;
      b->keep[o->id] = true;
    }
  }
}

static void release_names(become *b) {
  hlo_for_each_comp(c, b->m) {
    if (!b->keep_comp[c->id]) hlo_release_name_(b->m, c->name);
    hlo_for_each_instr(i, c)
      if (!b->keep[i->id]) hlo_release_name_(b->m, i->name);
  }
}

// ---- what is made -------------------------------------------------------------------------------
static void make_missing(become *b) {
  hlo_for_each_comp(c, b->t)
    if (!b->comp[c->id]) b->comp[c->id] = hlo_add_computation(b->m, c->name);
  hlo_for_each_comp(c, b->t) {
    hlo_computation *into = b->comp[c->id];
    hlo_for_each_instr(i, c)
      if (!b->instr[i->id]) b->instr[i->id] = hlo_add(into, i->opcode, i->shape, 0, NULL, i->name);
    bool moved = into->nparams != c->nparams;
    for (u32 k = 0; !moved && k < c->nparams; k++)
      moved = into->params[k] != b->instr[c->params[k]->id];
    if (!moved) continue;
    u32 cap = 1;  // a power of two, as hlo_set_params_ asks
    while (cap < c->nparams) cap *= 2;
    hlo_instr **params = HS_NEW_ARRAY(&b->m->arena, hlo_instr *, cap);
    for (u32 k = 0; k < c->nparams; k++) params[k] = b->instr[c->params[k]->id];
    hlo_set_params_(into, c->nparams, params);
  }
}

static bool same_attr(const become *b, const hlo_attr *x, const hlo_attr *y) {
  switch (hlo_attr_kind_of(x->id)) {
  case HLO_AK_COMP: return x->id == y->id && x->v.comp == b->comp[y->v.comp->id];
  case HLO_AK_COMPS:
    if (x->id != y->id || x->v.comps.n != y->v.comps.n) return false;
    for (u32 k = 0; k < x->v.comps.n; k++)
      if (x->v.comps.v[k] != b->comp[y->v.comps.v[k]->id]) return false;
    return true;
  default: return hlo_attr_equal(x, y);
  }
}

static bool same_attrs(const become *b, const hlo_attrs *x, const hlo_attrs *y) {
  u32 n = x ? x->n : 0;
  if (n != (y ? y->n : 0)) return false;
  for (u32 k = 0; k < n; k++)
    if (!same_attr(b, &x->v[k], &y->v[k])) return false;
  return true;
}

static void set_attrs(become *b, hlo_instr *i, const hlo_attrs *want) {
  if (same_attrs(b, i->attrs, want)) return;
  u32 n = want ? want->n : 0;
  hlo_attr *v = hs_alloc((n + 1) * sizeof *v);
  for (u32 k = 0; k < n; k++) v[k] = hlo_attr_clone(&b->m->arena, &want->v[k], comp_of, b);
  hlo_set_attrs(i, n, v);
  hs_free(v);
}

// `now` replaces `old` and has it as its provenance.
static void inherit(const become *b, hlo_instr *now, const hlo_instr *old, u32 first_new) {
  if (now->id >= first_new && old->id < first_new && !b->keep[old->id])
    hlo_add_provenance(now, old);
}

static void set_operands(become *b, hlo_instr *i, const hlo_instr *want, u32 first_new) {
  for (u32 k = 0; k < HS_MIN(i->noperands, want->noperands); k++) {
    hlo_instr *now = b->instr[hlo_operand(want, k)->id], *old = hlo_operand(i, k);
    if (now == old) continue;
    inherit(b, now, old, first_new);
    if (i->noperands == want->noperands) hlo_set_operand(i, k, now);
  }
  if (i->noperands == want->noperands) return;
  hlo_instr **ops = hs_alloc((want->noperands + 1) * sizeof *ops);
  for (u32 k = 0; k < want->noperands; k++) ops[k] = b->instr[hlo_operand(want, k)->id];
  hlo_set_operands(i, want->noperands, ops);
  hs_free(ops);
}

static void set_control(become *b, hlo_instr *i, const hlo_instr_list *want) {
  u32 n = want ? want->n : 0;
  bool same = n == (i->ctrl_preds ? i->ctrl_preds->n : 0);
  for (u32 k = 0; same && k < n; k++) same = i->ctrl_preds->v[k] == b->instr[want->v[k]->id];
  if (same) return;
  hlo_instr **preds = hs_alloc((n + 1) * sizeof *preds);
  for (u32 k = 0; k < n; k++) preds[k] = b->instr[want->v[k]->id];
  hlo_set_ctrl_preds(i, n, preds);
  hs_free(preds);
}

static void set_bodies(become *b, u32 first_new) {
  hlo_for_each_comp(c, b->t) {
    hlo_computation *into = b->comp[c->id];
    hlo_for_each_instr(i, c) {
      hlo_instr *o = b->instr[i->id];
      if (o->shape != i->shape) hlo_set_shape(o, i->shape);
      set_attrs(b, o, i->attrs);
      set_operands(b, o, i, first_new);
      set_control(b, o, i->ctrl_preds);
    }
    hlo_instr *root = b->instr[c->root->id];
    if (into->root && into->root != root) inherit(b, root, into->root, first_new);
    if (into->root != root) hlo_set_root(into, root);
    if (!hs_str_eq(into->execution_thread, c->execution_thread))
      hlo_set_execution_thread(into, c->execution_thread);
  }
}

// ---- what goes ----------------------------------------------------------------------------------
static void remove_stale(become *b, u32 first_new, u32 first_new_comp) {
  hlo_for_each_comp(c, b->m) {
    if (c->id >= first_new_comp || !b->keep_comp[c->id]) continue;
    hlo_for_each_instr(i, c)
      if (i->id < first_new && !b->keep[i->id])
        hlo_set_operands(i, 0, NULL), hlo_set_ctrl_preds(i, 0, NULL);
    hlo_for_each_instr_safe(i, c)
      if (i->id < first_new && !b->keep[i->id]) hlo_remove(i);
  }
  for (hlo_computation *c = b->m->first, *next; c; c = next) {
    next = c->next;
    if (c->id < first_new_comp && !b->keep_comp[c->id]) hlo_remove_computation(c);
  }
}

static void set_order(become *b) {
  hlo_for_each_comp(c, b->t) {
    hlo_instr *at = b->comp[c->id]->first;
    hlo_for_each_instr(i, c) {
      hlo_instr *o = b->instr[i->id];
      if (o == at) at = at->next;
      else hlo_move_before(o, at);
    }
  }
}

static void set_module_attrs(become *b) {
  for (u32 id = 1; id < HLO_ATTR_COUNT; id++) {
    const hlo_attr *x = hlo_attrs_find(b->m->attrs, (hlo_attr_id)id),
                   *y = hlo_attrs_find(b->t->attrs, (hlo_attr_id)id);
    if (x && !y) hlo_remove_module_attr(b->m, (hlo_attr_id)id);
    if (y && (!x || !same_attr(b, x, y)))
      hlo_set_module_attr(b->m, hlo_attr_clone(&b->m->arena, y, comp_of, b));
  }
}

static bool same_strings(u32 n, const hs_str *a, const hs_str *b) {
  for (u32 k = 0; k < n; k++)
    if (!hs_str_eq(a[k], b[k])) return false;
  return true;
}

static bool same_frames(const hlo_stack_frames *a, const hlo_stack_frames *b) {
  if (!a || !b) return a == b;
  return a->nfiles == b->nfiles && a->nfunctions == b->nfunctions &&
         a->nlocations == b->nlocations && a->nframes == b->nframes &&
         same_strings(a->nfiles, a->files, b->files) &&
         same_strings(a->nfunctions, a->functions, b->functions) &&
         (!a->nlocations ||
          !memcmp(a->locations, b->locations, a->nlocations * sizeof *a->locations)) &&
         (!a->nframes || !memcmp(a->frames, b->frames, a->nframes * sizeof *a->frames));
}

void hlo_module_become(hlo_module *m, const hlo_module *t) {
  hs_arena a = {0};
  u32 first_new = m->next_instr_id, first_new_comp = m->next_comp_id;
  become b = {.m = m, .t = t};
  b.comp = HS_NEW_ARRAY(&a, hlo_computation *, t->next_comp_id + 1);
  b.instr = HS_NEW_ARRAY(&a, hlo_instr *, t->next_instr_id + 1);
  b.keep = HS_NEW_ARRAY(&a, bool, first_new + 1);
  b.keep_comp = HS_NEW_ARRAY(&a, bool, first_new_comp + 1);
  match(&b);
  release_names(&b);
  make_missing(&b);
  set_bodies(&b, first_new);
  if (m->entry != b.comp[t->entry->id]) hlo_set_entry(m, b.comp[t->entry->id]);
  set_module_attrs(&b);
  if (!same_frames(m->frames, t->frames))
    hlo_set_stack_frames(m, t->frames ? hlo_stack_frames_clone_(m, t->frames) : NULL);
  remove_stale(&b, first_new, first_new_comp);
  set_order(&b);
  hs_arena_free(&a);
}
