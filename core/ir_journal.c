// ir_journal.c — records, undo, redo, deltas. See ir_journal.h for the kinds of record.
//
// Invariant: all changes of linked lists go through the four link/unlink primitives below, and undo replays them in
// strictly reverse order, so an unlinked element can be put back exactly where it was by remembering its successor.
#include "core/ir_journal.h"
#include "core/ir_names.h"

struct hlo_delta { record *v; size_t n; };

static void touch(hlo_module *m, hlo_computation *c) {
  m->generation++;
  if (c) c->generation = m->generation;
}

static void push(hlo_module *m, record r) {
  m->generation++;
  if (!m->journal->off) hs_vec_push(&m->journal->log, r);
}

// ---- the lists themselves -------------------------------------------------------------------------------------------

static void edge_in(hlo_use *u, hlo_instr *def, hlo_use *before) {
  u->def = def;
  u->next = before;
  u->prev = before ? before->prev : def->last_use;
  if (u->prev) u->prev->next = u; else def->first_use = u;
  if (before) before->prev = u; else def->last_use = u;
  def->nuses++;
  touch(def->parent->module, def->parent);
}

static hlo_use *edge_out(hlo_use *u) {
  hlo_instr *def = u->def;
  hlo_use *next = u->next;
  if (u->prev) u->prev->next = u->next; else def->first_use = u->next;
  if (u->next) u->next->prev = u->prev; else def->last_use = u->prev;
  def->nuses--;
  touch(def->parent->module, def->parent);
  return next;
}

// What hlo_is_fusion_comp answers from: how many live fusions call a computation.
static void count_fusion(const hlo_instr *i, bool more) {
  if (i->opcode != HLO_FUSION || i->dead || i->parent->dead) return;
  hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_CALLS);
  if (body) body->nfusions += more ? 1 : UINT32_MAX;
}

// A computation comes or goes with all that is in it.
static void count_all(const hlo_computation *c, bool more) {
  hlo_for_each_instr(i, c) {
    count_fusion(i, more);
    c->module->nops[i->opcode] += more ? 1 : UINT32_MAX;
  }
}

static void instr_in(hlo_instr *i, hlo_instr *before) {
  hlo_computation *c = i->parent;
  i->next = before;
  i->prev = before ? before->prev : c->last;
  if (i->prev) i->prev->next = i; else c->first = i;
  if (before) before->prev = i; else c->last = i;
  c->ninstrs++;
  c->ncalls += hlo_op_has(i->opcode, HLO_F_CALLS);
  i->dead = false;
  count_fusion(i, true);
  c->module->nops[i->opcode] += !c->dead;
  touch(c->module, c);
}

static hlo_instr *instr_out(hlo_instr *i) {
  hlo_computation *c = i->parent;
  hlo_instr *next = i->next;
  if (i->prev) i->prev->next = i->next; else c->first = i->next;
  if (i->next) i->next->prev = i->prev; else c->last = i->prev;
  c->ninstrs--;
  c->ncalls -= hlo_op_has(i->opcode, HLO_F_CALLS);
  count_fusion(i, false);
  c->module->nops[i->opcode] -= !c->dead;
  i->dead = true;
  touch(c->module, c);
  return next;
}

static void comp_in(hlo_computation *c, hlo_computation *before) {
  hlo_module *m = c->module;
  c->next = before;
  c->prev = before ? before->prev : m->last;
  if (c->prev) c->prev->next = c; else m->first = c;
  if (before) before->prev = c; else m->last = c;
  m->ncomputations++;
  c->dead = false;
  count_all(c, true);
  touch(m, c);
}

static hlo_computation *comp_out(hlo_computation *c) {
  hlo_module *m = c->module;
  hlo_computation *next = c->next;
  if (c->prev) c->prev->next = c->next; else m->first = c->next;
  if (c->next) c->next->prev = c->prev; else m->last = c->prev;
  m->ncomputations--;
  count_all(c, false);
  c->dead = true;
  touch(m, c);
  return next;
}

// ---- recording edits ------------------------------------------------------------------------------------------------

void hlo_rec_ptr_(hlo_module *m, hlo_computation *c, void *field, const void *value) {
  void *old;
  memcpy(&old, field, sizeof old);
  if (old == value) return;
  push(m, (record){.kind = REC_PTR, .where = field, .old = old, .prev = c});
  memcpy(field, &value, sizeof value);
  touch(m, c);
}

void hlo_rec_u32_(hlo_module *m, hlo_computation *c, u32 *field, u32 value) {
  if (*field == value) return;
  push(m, (record){.kind = REC_U32, .where = field, .old_u32 = *field, .prev = c});
  *field = value;
  touch(m, c);
}

static void put_attrs(hlo_instr *i, const hlo_attrs *attrs) {
  count_fusion(i, false);
  i->attrs = attrs;
  count_fusion(i, true);
  touch(i->parent->module, i->parent);
}

void hlo_rec_attrs_(hlo_instr *i, const hlo_attrs *attrs) {
  if (i->attrs == attrs) return;
  push(i->parent->module, (record){.kind = REC_ATTRS, .where = i, .old = (void *)(uintptr_t)i->attrs});
  put_attrs(i, attrs);
}

void hlo_rec_edge_(hlo_module *m, hlo_use *u, hlo_instr *def) {
  if (u->def == def) return;
  hlo_instr *old = u->def;
  hlo_use *stood_before = edge_out(u);
  push(m, (record){.kind = REC_EDGE, .where = u, .old = old, .prev = stood_before});
  edge_in(u, def, NULL);
}

void hlo_rec_link_edge_(hlo_module *m, hlo_use *u) {
  push(m, (record){.kind = REC_LINK_EDGE, .where = u});
  edge_in(u, u->def, NULL);
}

void hlo_rec_unlink_edge_(hlo_module *m, hlo_use *u) {
  push(m, (record){.kind = REC_UNLINK_EDGE, .where = u, .old = edge_out(u)});
}

void hlo_rec_link_instr_(hlo_module *m, hlo_instr *i, hlo_instr *before) {
  push(m, (record){.kind = REC_LINK_INSTR, .where = i});
  instr_in(i, before);
}

// The readers' way: with the journal off, the links and nothing else.
void hlo_rec_append_(hlo_module *m, hlo_instr *i) {
  if (!m->journal->off) {
    hlo_rec_link_instr_(m, i, NULL);
    for (u32 k = 0; k < i->noperands; k++) hlo_rec_link_edge_(m, &i->operands[k]);
    return;
  }
  instr_in(i, NULL);
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_use *u = &i->operands[k];
    hlo_instr *def = u->def;
    u->prev = def->last_use;
    if (u->prev) u->prev->next = u; else def->first_use = u;
    def->last_use = u;
    def->nuses++;
  }
}

void hlo_rec_unlink_instr_(hlo_module *m, hlo_instr *i) {
  push(m, (record){.kind = REC_UNLINK_INSTR, .where = i, .old = instr_out(i)});
}

void hlo_rec_link_comp_(hlo_module *m, hlo_computation *c, hlo_computation *before) {
  push(m, (record){.kind = REC_LINK_COMP, .where = c});
  comp_in(c, before);
}

void hlo_rec_unlink_comp_(hlo_module *m, hlo_computation *c) {
  push(m, (record){.kind = REC_UNLINK_COMP, .where = c, .old = comp_out(c)});
}

void hlo_journal_name_(hlo_module *m, void *node) {
  if (!m->journal->off) hs_vec_push(&m->journal->log, ((record){.kind = REC_NAME, .where = node}));
}

// Applies one record to the present state and turns it into its inverse.
static void swap_record(hlo_module *m, record *r) {
  m->generation++;
  switch (r->kind) {
  case REC_PTR: {
    void *now;
    memcpy(&now, r->where, sizeof now);
    memcpy(r->where, &r->old, sizeof now);
    r->old = now;
    touch(m, r->prev);
    break;
  }
  case REC_U32: {
    u32 *field = r->where, now = *field;
    *field = r->old_u32;
    r->old_u32 = now;
    touch(m, r->prev);
    break;
  }
  case REC_ATTRS: {
    hlo_instr *i = r->where;
    const hlo_attrs *now = i->attrs;
    put_attrs(i, r->old);
    r->old = (void *)(uintptr_t)now;
    break;
  }
  case REC_EDGE: {
    hlo_use *u = r->where;
    hlo_instr *now = u->def;
    hlo_use *stood_before = edge_out(u);
    edge_in(u, r->old, r->prev);
    r->old = now;
    r->prev = stood_before;
    break;
  }
  case REC_LINK_EDGE: r->old = edge_out(r->where); r->kind = REC_UNLINK_EDGE; break;
  case REC_UNLINK_EDGE: edge_in(r->where, ((hlo_use *)r->where)->def, r->old); r->kind = REC_LINK_EDGE; break;
  case REC_LINK_INSTR: r->old = instr_out(r->where); r->kind = REC_UNLINK_INSTR; break;
  case REC_UNLINK_INSTR: instr_in(r->where, r->old); r->kind = REC_LINK_INSTR; break;
  case REC_LINK_COMP: r->old = comp_out(r->where); r->kind = REC_UNLINK_COMP; break;
  case REC_UNLINK_COMP: comp_in(r->where, r->old); r->kind = REC_LINK_COMP; break;
  case REC_NAME: hlo_name_toggle_(m, r->where); break;
  }
}

// ---- versions ---------------------------------------------------------------------------------------------------------

size_t hlo_journal_mark(const hlo_module *m) { return m->journal->log.n; }
bool hlo_changed_since(const hlo_module *m, size_t mark) { return m->journal->log.n > mark; }

void hlo_journal_rollback(hlo_module *m, size_t mark) {
  while (m->journal->log.n > mark) swap_record(m, &m->journal->log.v[m->journal->log.n - 1]), m->journal->log.n--;
}

void hlo_abort(hlo_module *m) { hlo_journal_rollback(m, 0); }

hlo_delta *hlo_commit(hlo_module *m) {
  size_t n = m->journal->log.n;
  if (!n) return NULL;
  hlo_delta *d = hs_alloc(sizeof *d);
  d->n = n;
  d->v = hs_realloc(m->journal->log.v, n * sizeof *d->v);
  m->journal->log.v = NULL;
  m->journal->log.n = m->journal->log.cap = 0;
  return d;
}

void hlo_delta_undo(hlo_module *m, hlo_delta *d) {
  for (size_t k = d->n; k-- > 0;) swap_record(m, &d->v[k]);
}

void hlo_delta_redo(hlo_module *m, hlo_delta *d) {
  for (size_t k = 0; k < d->n; k++) swap_record(m, &d->v[k]);
}

size_t hlo_delta_bytes(const hlo_delta *d) { return d ? sizeof *d + d->n * sizeof *d->v : 0; }

void hlo_delta_free(hlo_module *m, hlo_delta *d) {
  (void)m;
  if (!d) return;
  hs_free(d->v);
  hs_free(d);
}

void hlo_journal_disable(hlo_module *m) {
  m->journal->off = true;
  hs_vec_free(&m->journal->log);
}

void hlo_journal_enable(hlo_module *m) { m->journal->off = false; }
