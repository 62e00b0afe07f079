// journal.c — records, undo, redo, deltas. See journal.h for the kinds of record.
//
// Invariant: all changes of linked lists go through the four link/unlink primitives below, and undo
// replays them in strictly reverse order, so an unlinked element can be put back exactly where it
// was by remembering its successor.
#include "core/ir/journal.h"
#include "core/ir/names.h"

struct hlo_delta {
  rec_log log;
};

static void touch(hlo_module *m, hlo_computation *c) {
  m->generation++;
  if (c) c->generation = m->generation;
}

// ---- the log ------------------------------------------------------------------------------------
// records; the largest fill a block that arenas share
enum { BLOCK_FIRST = 64, BLOCK_MOST = (64 << 10) - 4 };

static rec_block *more_room(rec_log *l) {
  rec_block *b = l->last;
  if (b && b->next) {  // from before a rollback
    b->next->before = b->before + b->n;
    b->next->n = 0;
    return l->last = b->next;
  }
  u32 cap = b ? HS_MIN(b->cap * 2, (u32)BLOCK_MOST) : BLOCK_FIRST;
  rec_block *fresh = hs_arena_alloc(&l->mem, sizeof *fresh + cap * sizeof *fresh->v);
  *fresh = (rec_block){.prev = b, .before = b ? b->before + b->n : 0, .cap = cap};
  if (b) b->next = fresh;
  else l->first = fresh;
  return l->last = fresh;
}

static void push(hlo_module *m, record r) {
  m->generation++;
  if (m->journal->off) return;
  rec_block *b = m->journal->log.last;
  if (!b || b->n == b->cap) b = more_room(&m->journal->log);
  b->v[b->n++] = r;
}

// A field of the instruction added last.
static bool is_fresh(const hlo_module *m, const void *field) {
  const hlo_instr *i = m->journal->fresh;
  return i && (uintptr_t)field - (uintptr_t)i < sizeof *i;
}

void hlo_log_free_(rec_log *l) {
  hs_arena_free(&l->mem);
  *l = (rec_log){0};
}

// ---- the lists themselves -----------------------------------------------------------------------

static void edge_in(hlo_use *u, hlo_instr *def, hlo_use *before) {
  u->def = def;
  u->next = before;
  u->prev = before ? before->prev : def->last_use;
  if (u->prev) u->prev->next = u;
  else def->first_use = u;
  if (before) before->prev = u;
  else def->last_use = u;
  def->nuses++;
  touch(def->parent->module, def->parent);
}

static hlo_use *edge_out(hlo_use *u) {
  hlo_instr *def = u->def;
  hlo_use *next = u->next;
  if (u->prev) u->prev->next = u->next;
  else def->first_use = u->next;
  if (u->next) u->next->prev = u->prev;
  else def->last_use = u->prev;
  def->nuses--;
  touch(def->parent->module, def->parent);
  return next;
}

// What hlo_is_fusion_comp answers from: how many live fusions call a computation.
static void count_fusion(const hlo_instr *i, bool more) {
  if (i->opcode != HLO_FUSION || i->dead || i->parent->dead) return;
  hlo_computation *body = hlo_attr_comp(i, HLO_ATTR_CALLS);
  if (body && more) body->nfusion_callers++;
  if (body && !more) body->nfusion_callers--;
}

// A computation comes or goes with all that is in it.
static void count_all(const hlo_computation *c, bool more) {
  hlo_for_each_instr(i, c) {
    count_fusion(i, more);
    c->module->nops[i->opcode] += more ? 1 : UINT32_MAX;
  }
}

// What the computation and the module count of their instructions.
static void count_in(const hlo_instr *i) {
  hlo_computation *c = i->parent;
  c->ninstrs++;
  c->module->nops[i->opcode] += !c->dead;
  c->module->call_generation += hlo_op_has(i->opcode, HLO_F_CALLS);
  count_fusion(i, true);
}

static void count_out(const hlo_instr *i) {
  hlo_computation *c = i->parent;
  c->ninstrs--;
  c->module->nops[i->opcode] -= !c->dead;
  c->module->call_generation += hlo_op_has(i->opcode, HLO_F_CALLS);
  count_fusion(i, false);
}

static void list_in(hlo_instr *i, hlo_instr *before) {
  hlo_computation *c = i->parent;
  i->next = before;
  i->prev = before ? before->prev : c->last;
  if (i->prev) i->prev->next = i;
  else c->first = i;
  if (before) before->prev = i;
  else c->last = i;
  c->unsorted |= before != NULL;  // at the end it comes after all that it may need
  touch(c->module, c);
}

static hlo_instr *list_out(hlo_instr *i) {
  hlo_computation *c = i->parent;
  hlo_instr *next = i->next;
  if (i->prev) i->prev->next = i->next;
  else c->first = i->next;
  if (i->next) i->next->prev = i->prev;
  else c->last = i->prev;
  touch(c->module, c);
  return next;
}

// An instruction and its edges, which go back to where their own links say.
static void instr_in(hlo_instr *i, hlo_instr *before) {
  i->dead = false;
  list_in(i, before);
  count_in(i);
  for (u32 k = 0; k < i->noperands; k++)
    edge_in(&i->operands[k], i->operands[k].def, i->operands[k].next);
}

static hlo_instr *instr_out(hlo_instr *i) {
  for (u32 k = i->noperands; k-- > 0;) edge_out(&i->operands[k]);
  hlo_instr *next = list_out(i);
  count_out(i);
  i->dead = true;
  return next;
}

static void comp_in(hlo_computation *c, hlo_computation *before) {
  hlo_module *m = c->module;
  c->next = before;
  c->prev = before ? before->prev : m->last;
  if (c->prev) c->prev->next = c;
  else m->first = c;
  if (before) before->prev = c;
  else m->last = c;
  m->ncomputations++;
  c->dead = false;
  count_all(c, true);
  m->call_generation++;
  touch(m, c);
}

static hlo_computation *comp_out(hlo_computation *c) {
  hlo_module *m = c->module;
  hlo_computation *next = c->next;
  if (c->prev) c->prev->next = c->next;
  else m->first = c->next;
  if (c->next) c->next->prev = c->prev;
  else m->last = c->prev;
  m->ncomputations--;
  count_all(c, false);
  m->call_generation++;
  c->dead = true;
  touch(m, c);
  return next;
}

// ---- recording edits ----------------------------------------------------------------------------

void hlo_rec_ptr_(hlo_module *m, hlo_computation *c, void *field, const void *value) {
  void *old;
  memcpy(&old, field, sizeof old);
  if (old == value) return;
  if (!is_fresh(m, field))
    push(m, (record){.kind = REC_PTR, .where = field, .old = old, .prev = c});
  memcpy(field, &value, sizeof value);
  touch(m, c);
}

void hlo_rec_field_(hlo_instr *i, void *field, const void *value) {
  hlo_module *m = i->parent->module;
  void *old;
  memcpy(&old, field, sizeof old);
  if (old == value) return;
  if (!is_fresh(m, field))
    push(m, (record){.kind = REC_FIELD, .where = field, .old = old, .prev = i});
  memcpy(field, &value, sizeof value);
  touch(m, i->parent);
}

void hlo_rec_u32_(hlo_module *m, hlo_computation *c, u32 *field, u32 value) {
  if (*field == value) return;
  if (!is_fresh(m, field))
    push(m, (record){.kind = REC_U32, .where = field, .old_u32 = *field, .prev = c});
  *field = value;
  touch(m, c);
}

// The first attribute from k on that names computations.
static const hlo_attr *next_callees(const hlo_attrs *a, u32 *k) {
  for (; a && *k < a->n; (*k)++) {
    hlo_attr_kind kind = hlo_attr_kind_of(a->v[*k].id);
    if (kind == HLO_AK_COMP || kind == HLO_AK_COMPS) return &a->v[(*k)++];
  }
  return NULL;
}

static bool same_callees(const hlo_attrs *a, const hlo_attrs *b) {
  for (u32 k = 0, j = 0;;) {
    const hlo_attr *x = next_callees(a, &k), *y = next_callees(b, &j);
    if (!x || !y) return !x && !y;
    if (!hlo_attr_equal(x, y)) return false;
  }
}

static void put_attrs(hlo_instr *i, const hlo_attrs *attrs) {
  if (hlo_op_has(i->opcode, HLO_F_CALLS) && !same_callees(i->attrs, attrs))
    i->parent->module->call_generation++;
  count_fusion(i, false);
  i->attrs = attrs;
  count_fusion(i, true);
  touch(i->parent->module, i->parent);
}

void hlo_rec_attrs_(hlo_instr *i, const hlo_attrs *attrs) {
  if (i->attrs == attrs) return;
  if (!is_fresh(i->parent->module, &i->attrs))
    push(i->parent->module,
         (record){.kind = REC_ATTRS, .where = i, .old = (void *)(uintptr_t)i->attrs});
  put_attrs(i, attrs);
}

void hlo_rec_edge_(hlo_module *m, hlo_use *u, hlo_instr *def) {
  if (u->def == def) return;
  hlo_instr *old = u->def;
  hlo_use *stood_before = edge_out(u);
  push(m, (record){.kind = REC_EDGE, .where = u, .old = old, .prev = stood_before});
  edge_in(u, def, NULL);
  u->user->parent->unsorted = true;
}

void hlo_rec_link_edge_(hlo_module *m, hlo_use *u) {
  push(m, (record){.kind = REC_LINK_EDGE, .where = u});
  edge_in(u, u->def, NULL);
  u->user->parent->unsorted = true;
}

void hlo_rec_unlink_edge_(hlo_module *m, hlo_use *u) {
  push(m, (record){.kind = REC_UNLINK_EDGE, .where = u, .old = edge_out(u)});
}

// The readers' way: with the journal off, the links and nothing else.
static void append(hlo_instr *i) {
  list_in(i, NULL);
  count_in(i);
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_use *u = &i->operands[k];
    hlo_instr *def = u->def;
    u->prev = def->last_use;
    if (u->prev) u->prev->next = u;
    else def->first_use = u;
    def->last_use = u;
    def->nuses++;
  }
}

void hlo_rec_insert_(hlo_module *m, hlo_instr *i, hlo_instr *before) {
  if (m->journal->off && !before) {
    append(i);
    return;
  }
  rec_block *b = m->journal->log.last;
  record *named = b && b->n ? &b->v[b->n - 1] : NULL;
  if (!m->journal->off && named && named->kind == REC_NAME &&
      named->where == hlo_name_node_of_(i->name)) {
    m->generation++;
    named->kind = REC_CREATE, named->where = i;
  } else {
    push(m, (record){.kind = REC_INSERT, .where = i});
  }
  for (u32 k = 0; k < i->noperands; k++) i->operands[k].next = NULL;
  instr_in(i, before);
  m->journal->fresh = i;
}

void hlo_rec_remove_(hlo_module *m, hlo_instr *i) {
  push(m, (record){.kind = REC_REMOVE, .where = i, .old = instr_out(i)});
}

void hlo_rec_move_(hlo_module *m, hlo_instr *i, hlo_instr *before) {
  push(m, (record){.kind = REC_MOVE, .where = i, .old = list_out(i)});
  list_in(i, before);
}

static void read_list(const hlo_computation *c, hlo_instr **v) {
  u32 n = 0;
  hlo_for_each_instr(i, c) v[n++] = i;
}

static void write_list(hlo_computation *c, hlo_instr *const *v) {
  hlo_instr *last = NULL;
  for (u32 k = 0; k < c->ninstrs; last = v[k++]) {
    v[k]->prev = last;
    if (last) last->next = v[k];
    else c->first = v[k];
  }
  if (last) last->next = NULL;
  c->last = last;
  touch(c->module, c);
}

void hlo_rec_order_(hlo_computation *c, hlo_instr *const *order) {
  hlo_journal *j = c->module->journal;
  hlo_instr **old = j->off ? NULL : hs_arena_alloc(&j->log.mem, c->ninstrs * sizeof *old);
  if (old) read_list(c, old), j->log.orders = true;
  push(c->module, (record){.kind = REC_ORDER, .old_u32 = c->ninstrs, .where = c, .old = old});
  write_list(c, order);
}

void hlo_rec_link_comp_(hlo_module *m, hlo_computation *c, hlo_computation *before) {
  push(m, (record){.kind = REC_LINK_COMP, .where = c});
  comp_in(c, before);
}

void hlo_rec_unlink_comp_(hlo_module *m, hlo_computation *c) {
  push(m, (record){.kind = REC_UNLINK_COMP, .where = c, .old = comp_out(c)});
}

void hlo_journal_name_(hlo_module *m, void *node, u32 *count, u32 was) {
  push(m, (record){.kind = REC_NAME, .where = node, .old = count, .old_u32 = was});
}

static void swap_name(hlo_module *m, record *r, void *node) {
  u32 *count = r->old, now = count ? *count : 0;
  hlo_name_toggle_(m, node);
  if (count) *count = r->old_u32, r->old_u32 = now;
}

// Applies one record to the present state and turns it into its inverse.
static void swap_record(hlo_module *m, record *r) {
  m->generation++;
  if (r->kind == REC_EDGE || r->kind == REC_LINK_EDGE || r->kind == REC_UNLINK_EDGE)
    ((hlo_use *)r->where)->user->parent->unsorted = true;
  switch (r->kind) {
  case REC_PTR:
  case REC_FIELD: {
    void *now;
    memcpy(&now, r->where, sizeof now);
    memcpy(r->where, &r->old, sizeof now);
    r->old = now;
    touch(m, r->kind == REC_FIELD ? ((hlo_instr *)r->prev)->parent : r->prev);
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
  case REC_LINK_EDGE:
    edge_out(r->where);
    r->kind = REC_UNLINK_EDGE;
    break;
  case REC_UNLINK_EDGE:
    edge_in(r->where, ((hlo_use *)r->where)->def, ((hlo_use *)r->where)->next);
    r->kind = REC_LINK_EDGE;
    break;
  case REC_INSERT:
    r->old = instr_out(r->where);
    r->kind = REC_REMOVE;
    break;
  case REC_REMOVE:
    instr_in(r->where, r->old);
    r->kind = REC_INSERT;
    break;
  case REC_MOVE: {
    hlo_instr *stood_before = list_out(r->where);
    list_in(r->where, r->old);
    r->old = stood_before;
    break;
  }
  case REC_ORDER: {
    hlo_computation *c = r->where;
    hlo_instr **now = hs_alloc(c->ninstrs * sizeof *now);
    read_list(c, now);
    write_list(c, r->old);
    memcpy(r->old, now, c->ninstrs * sizeof *now);
    hs_free(now);
    c->unsorted = true;
    break;
  }
  case REC_LINK_COMP:
    r->old = comp_out(r->where);
    r->kind = REC_UNLINK_COMP;
    break;
  case REC_UNLINK_COMP:
    comp_in(r->where, r->old);
    r->kind = REC_LINK_COMP;
    break;
  case REC_NAME: swap_name(m, r, r->where); break;
  case REC_CREATE:
  case REC_UNCREATE: {
    hlo_instr *i = r->where;
    swap_name(m, r, hlo_name_node_of_(i->name));
    if (r->kind == REC_CREATE) r->prev = instr_out(i);
    else instr_in(i, r->prev);
    r->kind = r->kind == REC_CREATE ? REC_UNCREATE : REC_CREATE;
    break;
  }
  }
}

// ---- versions -----------------------------------------------------------------------------------

size_t hlo_journal_mark(const hlo_module *m) {
  m->journal->fresh = NULL;
  return hlo_log_count_(&m->journal->log);
}

bool hlo_changed_since(const hlo_module *m, size_t mark) {
  return hlo_log_count_(&m->journal->log) > mark;
}

static void say_edited(const record *r, void (*fn)(void *arg, hlo_instr *), void *arg) {
  switch (r->kind) {
  case REC_EDGE:
  case REC_LINK_EDGE:
  case REC_UNLINK_EDGE: {
    hlo_use *u = r->where;
    if (r->kind == REC_EDGE) fn(arg, r->old);  // the former operand
    fn(arg, u->user);
    fn(arg, u->def);
    break;
  }
  case REC_INSERT:
  case REC_REMOVE:
  case REC_CREATE:
  case REC_UNCREATE:
  case REC_ATTRS: fn(arg, r->where); break;
  case REC_FIELD: {
    hlo_instr *i = r->prev;
    if (r->where != (void *)&i->name && r->where != (void *)&i->provenance) fn(arg, i);
    break;
  }
  case REC_PTR: {
    hlo_computation *c = r->prev;
    if (!c || r->where != (void *)&c->root) break;
    if (r->old) fn(arg, r->old);
    fn(arg, c->root);
    break;
  }
  case REC_U32:
  case REC_MOVE:
  case REC_ORDER:
  case REC_LINK_COMP:
  case REC_UNLINK_COMP:
  case REC_NAME: break;
  }
}

void hlo_edited_since(const hlo_module *m, size_t mark, void (*fn)(void *arg, hlo_instr *),
                      void *arg) {
  const rec_log *l = &m->journal->log;
  if (hlo_log_count_(l) <= mark) return;
  const rec_block *b = l->last;
  while (b->before > mark) b = b->prev;
  for (u32 k = (u32)(mark - b->before);; b = b->next, k = 0) {
    for (; k < b->n; k++) say_edited(&b->v[k], fn, arg);
    if (b == l->last) return;
  }
}

void hlo_journal_rollback(hlo_module *m, size_t mark) {
  rec_log *l = &m->journal->log;
  m->journal->fresh = NULL;
  while (hlo_log_count_(l) > mark) {
    while (!l->last->n) l->last = l->last->prev;
    swap_record(m, &l->last->v[l->last->n - 1]);
    l->last->n--;
  }
}

void hlo_abort(hlo_module *m) { hlo_journal_rollback(m, 0); }

hlo_delta *hlo_commit(hlo_module *m) {
  rec_log *l = &m->journal->log;
  m->journal->fresh = NULL;
  if (!hlo_log_count_(l)) return NULL;
  hlo_delta *d = hs_calloc(1, sizeof *d);
  if (l->first != l->last || l->orders) {
    d->log = *l;
    *l = (rec_log){0};
    return d;
  }
  // A small version takes what it needs and no more; the journal keeps its block.
  size_t bytes = sizeof *l->first + l->first->n * sizeof *l->first->v;
  hs_arena_expect(&d->log.mem, bytes + 16);
  d->log.first = d->log.last = hs_arena_dup(&d->log.mem, l->first, bytes);
  l->first->n = 0;
  return d;
}

void hlo_delta_undo(hlo_module *m, hlo_delta *d) {
  m->journal->fresh = NULL;
  for (rec_block *b = d->log.last; b; b = b == d->log.first ? NULL : b->prev)
    for (u32 k = b->n; k-- > 0;) swap_record(m, &b->v[k]);
}

void hlo_delta_redo(hlo_module *m, hlo_delta *d) {
  m->journal->fresh = NULL;
  for (rec_block *b = d->log.first; b; b = b == d->log.last ? NULL : b->next)
    for (u32 k = 0; k < b->n; k++) swap_record(m, &b->v[k]);
}

size_t hlo_delta_bytes(const hlo_delta *d) {
  return d ? sizeof *d + hs_arena_bytes(&d->log.mem) : 0;
}

void hlo_delta_free(hlo_module *m, hlo_delta *d) {
  (void)m;
  if (!d) return;
  hlo_log_free_(&d->log);
  hs_free(d);
}

void hlo_journal_disable(hlo_module *m) {
  m->journal->off = true;
  m->journal->fresh = NULL;
  hlo_log_free_(&m->journal->log);
}

void hlo_journal_enable(hlo_module *m) { m->journal->off = false; }
