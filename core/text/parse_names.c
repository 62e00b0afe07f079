// parse_names.c — resolving names. In the text a name is scoped to its computation; in the module
// names are unique (a second `add` becomes `add.1`). Nearly every name of a real module is unique
// as written: its node in the module's own table (ir/names.h) then gives the instruction, provided
// that it lies in the computation being read. Only names that had to change, and those of
// instructions that failed, need the parser's own table of bindings.
#include "core/text/parse.h"

static hlo_bind_slot *binding_slot(const hlo_bindings *b, u32 hash, hs_str name) {
  size_t k = hash & (b->cap - 1);
  for (;; k = (k + 1) & (b->cap - 1)) {
    hlo_bind_slot *s = &b->slots[k];
    if (!s->at || (s->hash == hash && hs_str_eq(b->v.v[s->at - 1].name, name))) return s;
  }
}

static void grow(hlo_bindings *b) {
  hlo_bind_slot *old = b->slots;
  size_t old_cap = b->cap;
  b->cap = old_cap ? old_cap * 2 : 256;
  b->slots = hs_calloc(b->cap, sizeof *b->slots);
  for (size_t i = 0; i < old_cap; i++) {
    if (!old[i].at) continue;
    size_t k = old[i].hash & (b->cap - 1);
    while (b->slots[k].at) k = (k + 1) & (b->cap - 1);
    b->slots[k] = old[i];
  }
  hs_free(old);
}

void *hlo_lookup(hlo_bindings *b, u32 scope, hs_str name, bool *poisoned) {
  *poisoned = false;
  if (!b->cap) return NULL;
  u32 at = binding_slot(b, hlo_name_hash_(name), name)->at;
  if (!at || b->v.v[at - 1].scope != scope) return NULL;
  *poisoned = b->v.v[at - 1].poisoned;
  return b->v.v[at - 1].what;
}

bool hlo_bind(hlo_bindings *b, u32 scope, bool nested, hs_str name, void *what, bool poisoned) {
  if (b->v.n * 2 >= b->cap) grow(b);
  u32 hash = hlo_name_hash_(name);
  hlo_bind_slot *s = binding_slot(b, hash, name);
  hlo_binding fresh = {name, what, scope, poisoned};
  if (!s->at) {
    hs_vec_push(&b->v, fresh);
    *s = (hlo_bind_slot){hash, (u32)b->v.n};
    return true;
  }
  hlo_binding *e = &b->v.v[s->at - 1];
  if (e->scope == scope) return e->poisoned;
  if (nested) hs_vec_push(&b->shadowed, ((hlo_shadow){s->at - 1, *e}));
  *e = fresh;
  return true;
}

void hlo_unshadow(hlo_bindings *b, size_t mark) {
  while (b->shadowed.n > mark) {
    hlo_shadow s = hs_vec_pop(&b->shadowed);
    b->v.v[s.at] = s.was;
  }
}

void hlo_bindings_free(hlo_bindings *b) {
  hs_free(b->slots);
  hs_vec_free(&b->v);
  hs_vec_free(&b->shadowed);
}

// ---- instructions -------------------------------------------------------------------------------
hlo_instr *hlo_lookup_instr(hlo_parser *P, hs_str name, bool *poisoned) {
  *poisoned = false;
  hlo_instr *i = hlo_unique_instr_(P, name);
  return HS_LIKELY(i) ? i : hlo_lookup(&P->instrs, P->scope, name, poisoned);
}

bool hlo_bind_instr(hlo_parser *P, hs_str name, hlo_instr *i) {
  // its node in the module's table says it
  if (i && !hlo_name_node_of_(i->name)->derived) return true;
  if (hlo_unique_instr_(P, name)) return !i;
  return hlo_bind(&P->instrs, P->scope, P->inline_depth > 0, name, i, !i);
}

static void suggest(hlo_parser *P, hs_str name, const char *const *all, size_t n) {
  char *word = hs_format("%.*s", (int)HS_MIN(name.n, 200u), name.p);
  const char *near = hs_nearest(word, all, n);
  if (near) hlo_lex_note(LX, "did you mean %s?", near);
  hs_free(word);
}

static bool no_instr(hlo_parser *P, hs_str name) {
  if (P->single && !P->inline_depth)
    return hlo_lex_error(LX, HS_E_NAME, name.p,
                         "Operand had no shape in HLO text: %.*s; a single instruction states the "
                         "shapes of its operands",
                         (int)HS_MIN(name.n, 200u), name.p);
  hlo_lex_error(LX, HS_E_NAME, name.p, "instruction does not exist: %.*s",
                (int)HS_MIN(name.n, 200u), name.p);
  HS_VEC(const char *) all = {0};
  hlo_for_each_instr(i, P->comp)
    if (!hlo_name_node_of_(i->name)->derived) hs_vec_push(&all, i->name);
  for (size_t k = 0; k < P->instrs.v.n; k++) {
    const hlo_binding *e = &P->instrs.v.v[k];
    if (e->scope == P->scope && e->what && !memchr(e->name.p, '#', e->name.n))
      hs_vec_push(&all, hlo_intern(P->ctx, e->name.p, e->name.n));
  }
  suggest(P, name, all.v, all.n);
  hs_vec_free(&all);
  return false;
}

bool hlo_give_up(hlo_parser *P) { return LX->failed = true, false; }

bool hlo_resolve(hlo_parser *P, hs_str name, hlo_instr **out) {
  bool poisoned;
  *out = hlo_lookup_instr(P, name, &poisoned);
  if (HS_LIKELY(*out)) return true;
  return poisoned ? hlo_give_up(P) : no_instr(P, name);
}

bool hlo_read_instr_name(hlo_parser *P, hlo_instr **out) {
  hs_str name;
  return hlo_name(LX, &name) && hlo_resolve(P, name, out);
}

// ---- computations -------------------------------------------------------------------------------
// As for instructions; a root tells that one was read to its end.
hlo_computation *hlo_lookup_comp(hlo_parser *P, hs_str name, bool *poisoned) {
  *poisoned = false;
  hlo_computation *c = P->comps.v.n ? hlo_lookup(&P->comps, 1, name, poisoned) : NULL;
  if (c || *poisoned) return c;
  const hlo_name_node *k = hlo_name_find_(P->m->names, name, hlo_name_hash_(name), true);
  // in a module made by hand, a name is what it is, whoever has made it up
  if (!k || (k->derived && !P->into) || !k->of.comp->root) return NULL;
  return !k->of.comp->dead && k->of.comp->name == k->text ? k->of.comp : NULL;
}

void hlo_bind_comp(hlo_parser *P, hs_str name, hlo_computation *c) {
  if (!c || hlo_name_node_of_(c->name)->derived) hlo_bind(&P->comps, 1, false, name, c, !c);
}

bool hlo_no_comp(hlo_parser *P, hs_str name) {
  hlo_lex_error(LX, HS_E_NAME, name.p, "computation does not exist: %.*s",
                (int)HS_MIN(name.n, 200u), name.p);
  HS_VEC(const char *) all = {0};
  hlo_for_each_comp(c, P->m)
    if (c->root && !hlo_name_node_of_(c->name)->derived) hs_vec_push(&all, c->name);
  for (size_t k = 0; k < P->comps.v.n; k++)
    if (P->comps.v.v[k].what)
      hs_vec_push(&all, hlo_intern(P->ctx, P->comps.v.v[k].name.p, P->comps.v.v[k].name.n));
  suggest(P, name, all.v, all.n);
  hs_vec_free(&all);
  return false;
}
