// order.c — the orders in which modules are traversed: instructions with operands first,
// computations with callees first; and the positions of instructions in an order.
//
// A traversal writes nothing to the module, so that threads may read one module at once. Its marks
// are a table by instruction id whose size follows the computation, not the module: where the ids
// lie close together an id is an index into the table, where they are few in a wide range (a small
// body that passes edited) they are hashed.
#include "core/ir/journal.h"

// ---- tables by id -------------------------------------------------------------------------------

// Slots for n ids from low on: a table of mask + 1, a power of two larger than twice n or than the
// range of the ids. Some slot stays free, which ends a search.
typedef struct id_range {
  u32 low, high;
} id_range;
typedef struct id_slots {
  u32 low, factor, shift, mask;
} id_slots;

static void widen(id_range *r, const hlo_instr *i) {
  r->low = HS_MIN(r->low, i->id);
  r->high = HS_MAX(r->high, i->id);
}

static id_slots slots_for(id_range r, u32 n) {
  u32 low = n ? r.low : 0, span = n ? r.high - r.low + 1 : 0, bits = 1;
  bool close = span / 8 <= n;
  while (bits < 31 && (1u << bits) <= (close ? span : 2 * n)) bits++;
  // Fibonacci hashing (Knuth, volume 3, 6.4)
  return (id_slots){low, close ? 1 : 0x9E3779B1u, close ? 0 : 32 - bits, (1u << bits) - 1};
}

static u32 slot_of(const id_slots *s, u32 id) {
  return ((id - s->low) * s->factor >> s->shift) & s->mask;
}

hlo_positions hlo_positions_in(u32 n, hlo_instr *const *order, hs_arena *a) {
  id_range r = {UINT32_MAX, 0};
  for (u32 k = 0; k < n; k++) widen(&r, order[k]);
  id_slots s = slots_for(r, n);
  hlo_positions p = {s.low, s.factor, s.shift, s.mask,
                     HS_NEW_ARRAY(a, struct hlo_position, s.mask + 1)};
  for (u32 k = 0; k < n; k++) {
    u32 at = slot_of(&s, order[k]->id);
    while (p.slots[at].id1) at = (at + 1) & s.mask;
    p.slots[at] = (struct hlo_position){order[k]->id + 1, k};
  }
  return p;
}

// Marks of a traversal of one computation: a slot holds 2 * (id + 1), plus 1 when the instruction
// is placed. Only instructions of the computation may be asked for.
typedef struct marks {
  id_slots slots;
  u32 *v;
} marks;
typedef enum mark { NEW, ON_STACK, PLACED } mark;

static marks marks_for(const hlo_computation *c) {
  id_range r = {UINT32_MAX, 0};
  hlo_for_each_instr(i, c) widen(&r, i);
  marks m = {.slots = slots_for(r, c->ninstrs)};
  m.v = hs_calloc((size_t)m.slots.mask + 1, sizeof *m.v);
  return m;
}

static u32 *mark_of(const marks *m, const hlo_instr *i) {
  u32 at = slot_of(&m->slots, i->id), key = i->id + 1;
  while (m->v[at] && m->v[at] >> 1 != key) at = (at + 1) & m->slots.mask;
  return &m->v[at];
}

static mark marked(const marks *m, const hlo_instr *i) {
  u32 x = *mark_of(m, i);
  return !x ? NEW : x & 1 ? PLACED : ON_STACK;
}

static void set_mark(const marks *m, const hlo_instr *i, mark to) {
  *mark_of(m, i) = (i->id + 1) * 2 + (to == PLACED);
}

// ---- instructions -------------------------------------------------------------------------------

typedef HS_VEC(hlo_instr *) instr_stack;

static void push_new(const marks *m, instr_stack *stack, hlo_instr *i, const hlo_computation *c) {
  if (i->parent == c && marked(m, i) == NEW) hs_vec_push(stack, i);
}

hlo_instr **hlo_post_order(const hlo_computation *c, hs_arena *a) {
  hlo_instr **order = hs_arena_alloc(a, (c->ninstrs + 1) * sizeof *order);
  marks m = marks_for(c);
  u32 n = 0;
  instr_stack stack = {0};
  for (int sweep = 0; sweep < 2 && n < c->ninstrs; sweep++) {
    // The second sweep only finds instructions of a cyclic graph (invalid, but it must not be lost
    // or loop).
    hlo_for_each_instr(top, c) {
      if ((sweep == 0 && top->nuses) || marked(&m, top) != NEW) continue;
      hs_vec_push(&stack, top);
      while (stack.n) {
        hlo_instr *i = stack.v[stack.n - 1];
        mark now = marked(&m, i);
        if (now != NEW) {
          stack.n--;
          if (now == ON_STACK) set_mark(&m, i, PLACED), order[n++] = i;
          continue;
        }
        set_mark(&m, i, ON_STACK);
        for (u32 k = i->noperands; k-- > 0;) push_new(&m, &stack, i->operands[k].def, c);
        for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
          push_new(&m, &stack, i->ctrl_preds->v[k], c);
      }
    }
  }
  hs_vec_free(&stack);
  hs_free(m.v);
  order[n] = NULL;
  return order;
}

// ---- the list -----------------------------------------------------------------------------------

// What has to stand before an instruction: its operands, then its control predecessors.
static u32 count_before(const hlo_instr *i) {
  return i->noperands + (i->ctrl_preds ? i->ctrl_preds->n : 0);
}

static hlo_instr *nth_before(const hlo_instr *i, u32 k) {
  return k < i->noperands ? hlo_operand(i, k) : i->ctrl_preds->v[k - i->noperands];
}

static bool is_in_order(const hlo_computation *c) {
  marks m = marks_for(c);
  bool good = true;
  for (const hlo_instr *i = c->first; i && good; i = i->next) {
    for (u32 k = count_before(i); k-- > 0 && good;)
      good = nth_before(i, k)->parent != c || marked(&m, nth_before(i, k)) == PLACED;
    set_mark(&m, i, PLACED);
  }
  hs_free(m.v);
  return good;
}

typedef struct order_frame {
  hlo_instr *i;
  u32 next;  // the next of what has to stand before it
} order_frame;

void hlo_put_in_order(hlo_computation *c) {
  if (!c->unsorted || is_in_order(c)) {
    c->unsorted = false;
    return;
  }
  marks m = marks_for(c);
  HS_VEC(order_frame) stack = {0};
  for (hlo_instr *i = c->first, *next; i; i = next) {
    next = i->next;
    if (marked(&m, i) == PLACED) continue;
    hs_vec_push(&stack, ((order_frame){i, 0}));
    set_mark(&m, i, ON_STACK);
    while (stack.n) {
      order_frame *f = &stack.v[stack.n - 1];
      u32 n = count_before(f->i);
      while (f->next < n && (nth_before(f->i, f->next)->parent != c ||
                             marked(&m, nth_before(f->i, f->next)) != NEW))
        f->next++;
      if (f->next < n) {
        hlo_instr *x = nth_before(f->i, f->next);
        set_mark(&m, x, ON_STACK);
        hs_vec_push(&stack, ((order_frame){x, 0}));
        continue;
      }
      hlo_instr *x = f->i;
      set_mark(&m, x, PLACED);
      (void)hs_vec_pop(&stack);
      if (x == i) continue;
      if (x == next) next = x->next;
      hlo_move_before(x, i);
    }
  }
  hs_vec_free(&stack);
  hs_free(m.v);
  c->unsorted = false;
}

// ---- computations -------------------------------------------------------------------------------

hlo_call_list hlo_find_calls(const hlo_module *m, hs_arena *a) {
  HS_VEC(hlo_instr *) calls = {0};
  HS_VEC(hlo_callees) callees = {0};
  hlo_call_list l = {.first = HS_NEW_ARRAY(a, u32, m->next_comp_id + 1),
                     .end = HS_NEW_ARRAY(a, u32, m->next_comp_id + 1)};
  hlo_for_each_comp(c, m) {
    l.first[c->id] = (u32)calls.n;
    hlo_for_each_instr(i, c) {
      if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
      u32 called = hlo_ncalled(i);
      hlo_computation **v = hs_arena_alloc(a, (called + 1) * sizeof *v);
      for (u32 k = 0; k < called; k++) v[k] = hlo_called(i, k);
      hs_vec_push(&calls, i);
      hs_vec_push(&callees, ((hlo_callees){called, v}));
    }
    l.end[c->id] = (u32)calls.n;
  }
  l.n = (u32)calls.n;
  l.v = hs_arena_dup(a, calls.v, calls.n * sizeof *l.v);
  l.callees = hs_arena_dup(a, callees.v, callees.n * sizeof *l.callees);
  hs_vec_free(&calls);
  hs_vec_free(&callees);
  return l;
}

u32 *hlo_count_callers(const hlo_module *m, const hlo_call_list *l, hs_arena *a) {
  u32 *counts = HS_NEW_ARRAY(a, u32, m->next_comp_id + 1);
  counts[0] = m->next_comp_id;
  for (u32 k = 0; k < l->n; k++)
    for (u32 j = 0; j < l->callees[k].n; j++)
      if (l->callees[k].v[j]) counts[1 + l->callees[k].v[j]->id]++;
  return counts;
}

typedef struct comp_frame {
  hlo_computation *c;
  u32 at;  // the next of its calls
  bool entered;
} comp_frame;
typedef struct comp_traversal {
  // a computation counts as visited when it is pushed, not when it is entered
  bool early;
  bool *visited;
  const hlo_call_list *calls;
  hlo_computation **order;
  u32 n;
  HS_VEC(comp_frame) stack;
} comp_traversal;

// Pushed last, the first one is processed first.
static void push_callees(comp_traversal *w, hlo_callees to) {
  for (u32 k = to.n; k-- > 0;) {
    if (!to.v[k] || w->visited[to.v[k]->id]) continue;
    if (w->early) w->visited[to.v[k]->id] = true;
    hs_vec_push(&w->stack, ((comp_frame){to.v[k], 0, w->early}));
  }
}

// Appends to the order what is reached from a computation, callees first.
static void visit_from(comp_traversal *w, hlo_computation *top_level) {
  if (w->visited[top_level->id]) return;
  hs_vec_push(&w->stack, ((comp_frame){top_level, 0, false}));
  while (w->stack.n) {
    comp_frame *top = &w->stack.v[w->stack.n - 1];
    // a deeper frame was faster
    if (!top->entered && w->visited[top->c->id]) {
      w->stack.n--;
      continue;
    }
    top->entered = w->visited[top->c->id] = true;
    u32 next = w->calls->first[top->c->id] + top->at;
    if (next == w->calls->end[top->c->id]) {
      w->order[w->n++] = top->c;
      w->stack.n--;
      continue;
    }
    top->at++;
    push_callees(w, w->calls->callees[next]);  // moves the stack
  }
}

hlo_computation **hlo_order_comps(const hlo_module *m, const hlo_call_list *calls, bool strict,
                                  hs_arena *a, u32 *count) {
  hs_arena tmp = {0};
  comp_traversal w = {.early = !strict,
                      .visited = HS_NEW_ARRAY(&tmp, bool, m->next_comp_id),
                      .calls = calls,
                      .order = HS_NEW_ARRAY(a, hlo_computation *, m->ncomputations + 1)};
  const u32 *callers = strict ? NULL : hlo_count_callers(m, calls, &tmp);
  if (callers)
    hlo_for_each_comp(c, m)
      if (!callers[1 + c->id]) visit_from(&w, c);
  // unless strict, only call cycles of invalid modules are left
  hlo_for_each_comp(c, m) visit_from(&w, c);
  hs_vec_free(&w.stack);
  hs_arena_free(&tmp);
  *count = w.n;
  return w.order;
}

static hlo_computation **order_comps(const hlo_module *m, bool strict, hs_arena *a, u32 *count) {
  hs_arena tmp = {0};
  hlo_call_list calls = hlo_find_calls(m, &tmp);
  hlo_computation **order = hlo_order_comps(m, &calls, strict, a, count);
  hs_arena_free(&tmp);
  return order;
}

hlo_computation **hlo_comp_callees_first(const hlo_module *m, hs_arena *a, u32 *count) {
  return order_comps(m, true, a, count);
}
hlo_computation **hlo_comp_post_order(const hlo_module *m, hs_arena *a, u32 *count) {
  return order_comps(m, false, a, count);
}

// ---- growth along paths of calls ----------------------------------------------------------------
// Instructions of an instruction and all that it stands for; callees are counted already.
static i64 expanded(const hlo_instr *i, const i64 *sizes, bool (*copied)(const hlo_instr *)) {
  if (!hlo_op_has(i->opcode, HLO_F_CALLS) || !copied(i)) return 1;
  i64 sum = 1;
  for (u32 k = 0; k < hlo_ncalled(i); k++) {
    const hlo_computation *c = hlo_called(i, k);
    if (c) sum = hs_add_sat_i64(sum, sizes[c->id]);
  }
  return sum;
}

hs_status hlo_check_expansion(const hlo_module *m, bool (*copied)(const hlo_instr *),
                              const char *who) {
  hs_arena a = {0};
  i64 *sizes = HS_NEW_ARRAY(&a, i64, m->next_comp_id + 1);
  u32 n;
  hlo_computation **order = hlo_comp_callees_first(m, &a, &n);
  for (u32 k = 0; k < n; k++)
    hlo_for_each_instr(i, order[k]) {
      i64 *size = &sizes[order[k]->id];
      *size = hs_add_sat_i64(*size, expanded(i, sizes, copied));
    }
  i64 total = sizes[m->entry->id];
  hs_arena_free(&a);
  if (total <= HLO_MAX_EXPANDED) return HS_GOOD;
  u32 log = 63 - (u32)__builtin_clzll((u64)total);
  return hs_with_note(hs_fail(HS_E_LIMIT, "%s would make %s2^%u instructions; the limit is %d", who,
                              total == INT64_MAX ? "at least " : "about ", log, HLO_MAX_EXPANDED),
                      "computations call others more than once, along many paths");
}
