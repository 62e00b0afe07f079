// order.c — the two orders everything is walked in, and numbers for the instructions of one
// computation.
//
// A walk keeps nothing in the module, so that threads may walk one module at once. What it
// remembers is a table by instruction id, and its size follows the computation, not the module:
// where ids lie close together the id is the place in the table, where they are few in a wide range
// (a small body that passes edited) they are hashed. Who holds the module alone (a pass; putting a
// list in order, which is an edit) marks and numbers the instructions themselves: hlo_instr.place.
#include "core/ir/journal.h"

// ---- tables by id -------------------------------------------------------------------------------

// Places for n ids of this computation in a table of mask + 1 slots, a power of two of at least
// twice as many or as the ids span.
typedef struct places {
  u32 low, factor, shift, mask;
} places;

static places places_for(const hlo_computation *c, u32 n) {
  u32 low = c->ninstrs ? c->low_id : 0, span = c->end_id - low, bits = 1;
  bool close = span / 8 <= n;
  while (bits < 31 && (1u << bits) < (close ? span : 2 * n)) bits++;
  // Fibonacci hashing (Knuth, volume 3, 6.4)
  return (places){low, close ? 1 : 0x9E3779B1u, close ? 0 : 32 - bits, (1u << bits) - 1};
}

static u32 place_of(const places *p, u32 id) {
  return ((id - p->low) * p->factor >> p->shift) & p->mask;
}

hlo_numbers hlo_number_instrs(const hlo_computation *c, u32 n, hlo_instr *const *v, hs_arena *a) {
  places p = places_for(c, n);
  hlo_numbers r = {p.low, p.factor, p.shift, p.mask, HS_NEW_ARRAY(a, hlo_numbered, p.mask + 1)};
  for (u32 k = 0; k < n; k++) {
    u32 at = place_of(&p, v[k]->id);
    while (r.slots[at].id1) at = (at + 1) & p.mask;
    r.slots[at] = (hlo_numbered){v[k]->id + 1, k};
  }
  return r;
}

// ---- instructions -------------------------------------------------------------------------------

// Marks of the post-order, in a table (2 * (id + 1) is on the stack with its operands pushed, one
// more is placed) or, without one, in the instructions: `met` is on the stack, what is larger is
// placed.
typedef struct marks {
  places p;
  u32 *v;
  u32 met;
} marks;
typedef enum mark { NEW, ON_STACK, PLACED } mark;

static u32 *mark_of(const marks *m, const hlo_instr *i) {
  u32 at = place_of(&m->p, i->id), key = i->id + 1;
  while (m->v[at] && m->v[at] >> 1 != key) at = (at + 1) & m->p.mask;
  return &m->v[at];
}

static inline mark marked(const marks *m, const hlo_instr *i) {
  u32 x = m->v ? *mark_of(m, i) : i->place;
  if (m->v) return !x ? NEW : x & 1 ? PLACED : ON_STACK;
  return x < m->met ? NEW : x == m->met ? ON_STACK : PLACED;
}

static inline void set_mark(const marks *m, hlo_instr *i, mark to, u32 number) {
  if (m->v) *mark_of(m, i) = (i->id + 1) * 2 + (to == PLACED);
  else i->place = m->met + (to == PLACED) + number;
}

typedef HS_VEC(hlo_instr *) instr_stack;

static inline void push_new(const marks *m, instr_stack *stack, hlo_instr *i,
                            const hlo_computation *c) {
  if (i->parent != c || marked(m, i) != NEW) return;
  hs_vec_push(stack, i);
}

static inline hlo_instr **post_order(const hlo_computation *c, const marks *m, hs_arena *a) {
  hlo_instr **order = hs_arena_alloc(a, (c->ninstrs + 1) * sizeof *order);
  u32 n = 0;
  instr_stack stack = {0};
  for (int sweep = 0; sweep < 2 && n < c->ninstrs; sweep++) {
    // The second sweep only finds instructions of a cyclic graph (invalid, but it must not be lost
    // or loop).
    hlo_for_each_instr(top, c) {
      if ((sweep == 0 && top->nuses) || marked(m, top) != NEW) continue;
      hs_vec_push(&stack, top);
      while (stack.n) {
        hlo_instr *i = stack.v[stack.n - 1];
        mark now = marked(m, i);
        if (now != NEW) {
          stack.n--;
          if (now == ON_STACK) set_mark(m, i, PLACED, n), order[n++] = i;
          continue;
        }
        set_mark(m, i, ON_STACK, 0);
        for (u32 k = i->noperands; k-- > 0;) push_new(m, &stack, i->operands[k].def, c);
        for (u32 k = 0; i->has_ctrl_preds && k < i->ctrl_preds->n; k++)
          push_new(m, &stack, i->ctrl_preds->v[k], c);
      }
    }
  }
  hs_vec_free(&stack);
  order[n] = NULL;
  return order;
}

hlo_instr **hlo_post_order(const hlo_computation *c, hs_arena *a) {
  marks m = {.p = places_for(c, c->ninstrs)};
  m.v = hs_calloc((size_t)m.p.mask + 1, sizeof *m.v);
  hlo_instr **order = post_order(c, &m, a);
  hs_free(m.v);
  return order;
}

// ---- the list -----------------------------------------------------------------------------------
static u32 count_before(const hlo_instr *i) {
  return i->noperands + (i->has_ctrl_preds ? i->ctrl_preds->n : 0);
}

static hlo_instr *nth_before(const hlo_instr *i, u32 k) {
  return k < i->noperands ? hlo_operand(i, k) : i->ctrl_preds->v[k - i->noperands];
}

// Places for n instructions that are larger than all given before.
static u32 take_places(hlo_module *m, u32 n) {
  if (m->next_place > UINT32_MAX - n - 1) {
    hlo_for_each_comp(c, m)
      hlo_for_each_instr(i, c) i->place = 0;
    m->next_place = 0;
  }
  u32 first = m->next_place + 1;
  m->next_place += n;
  return first;
}

// The usual case: one walk finds every instruction behind what it needs.
static bool in_order(const hlo_computation *c) {
  u32 first = take_places(c->module, c->ninstrs), n = first;
  hlo_for_each_instr(i, c) {
    for (u32 k = count_before(i); k-- > 0;)
      if (nth_before(i, k)->parent == c && nth_before(i, k)->place < first) return false;
    i->place = n++;
  }
  return true;
}

hlo_instr **hlo_post_order_numbered(hlo_computation *c, u32 *first, hs_arena *a) {
  marks m = {.met = take_places(c->module, c->ninstrs + 1)};
  *first = m.met + 1;
  return post_order(c, &m, a);
}

u32 hlo_place_instrs(hlo_computation *c, u32 n, hlo_instr *const *v) {
  u32 first = take_places(c->module, n);
  for (u32 k = 0; k < n; k++) v[k]->place = first + k;
  return first;
}

typedef struct order_frame {
  hlo_instr *i;
  u32 next;
} order_frame;

void hlo_put_in_order(hlo_computation *c) {
  if (!c->unsorted || in_order(c)) {
    c->unsorted = false;
    return;
  }
  // marks: on the stack, and behind all that it needs
  u32 met = take_places(c->module, 2), placed = met + 1;
  HS_VEC(order_frame) stack = {0};
  for (hlo_instr *i = c->first, *next; i; i = next) {
    next = i->next;
    if (i->place == placed) continue;
    hs_vec_push(&stack, ((order_frame){i, 0}));
    i->place = met;
    while (stack.n) {
      order_frame *f = &stack.v[stack.n - 1];
      u32 n = count_before(f->i);
      while (f->next < n &&
             (nth_before(f->i, f->next)->parent != c || nth_before(f->i, f->next)->place >= met))
        f->next++;
      if (f->next < n) {
        hlo_instr *x = nth_before(f->i, f->next);
        x->place = met;
        hs_vec_push(&stack, ((order_frame){x, 0}));
        continue;
      }
      hlo_instr *x = f->i;
      x->place = placed;
      (void)hs_vec_pop(&stack);
      if (x == i) continue;
      if (x == next) next = x->next;
      hlo_move_before(x, i);
    }
  }
  hs_vec_free(&stack);
  c->unsorted = false;
}

// ---- computations -------------------------------------------------------------------------------

hlo_call_list hlo_find_calls(const hlo_module *m, hs_arena *a) {
  hlo_call_list l = {.first = HS_NEW_ARRAY(a, u32, m->next_comp_id + 1)};
  u32 n = 0, few = 2;
  hlo_for_each_comp(c, m) n += c->ncalls;
  l.v = hs_arena_alloc(a, (n + 1) * sizeof *l.v);
  l.callees = hs_arena_alloc(a, (n + 1) * sizeof *l.callees);
  hlo_for_each_comp(c, m) {
    l.first[c->id] = l.n;
    hlo_for_each_call(i, c) {
      hlo_computation **v = hs_arena_alloc(a, few * sizeof *v);
      u32 called = hlo_called(i, v, few);
      if (called > few) {
        v = hs_arena_alloc(a, called * sizeof *v);
        hlo_called(i, v, called);
      }
      l.v[l.n] = i;
      l.callees[l.n++] = (hlo_callees){called, v};
    }
  }
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

// at: the next of the computation's calls
typedef struct comp_frame {
  hlo_computation *c;
  u32 at;
  bool entered;
} comp_frame;
typedef struct comp_walk {
  // a computation counts as visited when it is pushed, not when it is entered
  bool early;
  bool *visited;
  const hlo_call_list *calls;
  hlo_computation **order;
  u32 n;
  HS_VEC(comp_frame) stack;
} comp_walk;

// Pushed last, the first one is processed first.
static void push_callees(comp_walk *w, hlo_callees to) {
  for (u32 k = to.n; k-- > 0;) {
    if (!to.v[k] || w->visited[to.v[k]->id]) continue;
    if (w->early) w->visited[to.v[k]->id] = true;
    hs_vec_push(&w->stack, ((comp_frame){to.v[k], 0, w->early}));
  }
}

// Appends to the order what is reached from a computation, callees first.
static void walk_from(comp_walk *w, hlo_computation *top_level) {
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
    if (top->at == top->c->ncalls) {
      w->order[w->n++] = top->c;
      w->stack.n--;
      continue;
    }
    // `top` may have moved
    push_callees(w, w->calls->callees[w->calls->first[top->c->id] + top->at++]);
  }
}

hlo_computation **hlo_order_comps(const hlo_module *m, const hlo_call_list *calls, bool strict,
                                  hs_arena *a, u32 *count) {
  hs_arena tmp = {0};
  comp_walk w = {.early = !strict,
                 .visited = HS_NEW_ARRAY(&tmp, bool, m->next_comp_id),
                 .calls = calls,
                 .order = HS_NEW_ARRAY(a, hlo_computation *, m->ncomputations + 1)};
  const u32 *callers = strict ? NULL : hlo_count_callers(m, calls, &tmp);
  if (callers)
    hlo_for_each_comp(c, m)
      if (!callers[1 + c->id]) walk_from(&w, c);
  // unless strict, only call cycles of invalid modules are left
  hlo_for_each_comp(c, m) walk_from(&w, c);
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
