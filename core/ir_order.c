// ir_order.c — the two orders everything is walked in, and numbers for the instructions of one computation.
//
// Nothing is kept in the module, so that threads may walk one module at once. What a walk remembers is a table by
// instruction id, and its size follows the computation, not the module: where ids lie close together the id is the place
// in the table, where they are few in a wide range (a small body that passes edited) they are hashed.
#include "core/ir_journal.h"

// ---- tables by id ---------------------------------------------------------------------------------------------------------

// Places for n ids of this computation in a table of mask + 1 slots, a power of two of at least twice as many or as
// the ids span.
typedef struct places { u32 low, factor, shift, mask; } places;

static places places_for(const hlo_computation *c, u32 n) {
  u32 low = 0, span = c->module->next_instr_id, bits = 1;
  if (span / 8 > n) {
    u32 high = 0;
    low = UINT32_MAX;
    hlo_for_each_instr(i, c) low = HS_MIN(low, i->id), high = HS_MAX(high, i->id);
    span = n ? high - low + 1 : 0;
  }
  bool close = span / 8 <= n;
  while (bits < 31 && (1u << bits) < (close ? span : 2 * n)) bits++;
  return (places){low, close ? 1 : 0x9E3779B1u, close ? 0 : 32 - bits, (1u << bits) - 1};   // Fibonacci hashing (Knuth, volume 3, 6.4)
}

static u32 place_of(const places *p, u32 id) { return ((id - p->low) * p->factor >> p->shift) & p->mask; }

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

// ---- instructions -----------------------------------------------------------------------------------------------------------

// Marks of the post-order: 2 * (id + 1) is on the stack with its operands pushed, one more is placed.
typedef struct marks { places p; u32 *v; } marks;

static u32 *mark_of(const marks *m, const hlo_instr *i) {
  u32 at = place_of(&m->p, i->id), key = i->id + 1;
  while (m->v[at] && m->v[at] >> 1 != key) at = (at + 1) & m->p.mask;
  return &m->v[at];
}

typedef HS_VEC(hlo_instr *) instr_stack;

static void push_unmarked(const marks *m, instr_stack *stack, hlo_instr *i, const hlo_computation *c) {
  if (i->parent == c && !*mark_of(m, i)) hs_vec_push(stack, i);
}

hlo_instr **hlo_post_order(const hlo_computation *c, hs_arena *a) {
  marks m = {.p = places_for(c, c->ninstrs)};
  m.v = hs_calloc((size_t)m.p.mask + 1, sizeof *m.v);
  hlo_instr **order = HS_NEW_ARRAY(a, hlo_instr *, c->ninstrs + 1);
  u32 n = 0;
  instr_stack stack = {0};
  for (int sweep = 0; sweep < 2 && n < c->ninstrs; sweep++) {
    // The second sweep only finds instructions of a cyclic graph (invalid, but it must not be lost or loop).
    hlo_for_each_instr(top, c) {
      if ((sweep == 0 && top->nuses) || *mark_of(&m, top)) continue;
      hs_vec_push(&stack, top);
      while (stack.n) {
        hlo_instr *i = stack.v[stack.n - 1];
        u32 *mark = mark_of(&m, i), on_stack = (i->id + 1) * 2;
        if (*mark) {
          stack.n--;
          if (*mark == on_stack) *mark = on_stack + 1, order[n++] = i;
          continue;
        }
        *mark = on_stack;
        for (u32 k = i->noperands; k-- > 0;) push_unmarked(&m, &stack, i->operands[k].def, c);
        for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++) push_unmarked(&m, &stack, i->ctrl_preds->v[k], c);
      }
    }
  }
  hs_vec_free(&stack);
  hs_free(m.v);
  return order;
}

// ---- computations -----------------------------------------------------------------------------------------------------------

typedef struct comp_frame { hlo_computation *c; u32 at; bool entered; } comp_frame;   // at: the next of the computation's calls
typedef struct comp_walk {
  bool early;                // a computation counts as visited when it is pushed, not when it is entered
  bool *visited, *called;
  u32 *first;                // by computation id: its calls are calls[first[id]] and on, ncalls of them, in list order
  const hlo_instr **calls;
  hlo_computation **order; u32 n;
  HS_VEC(comp_frame) stack;
} comp_walk;

// Calls fn for each computation that an instruction calls, the last one first.
static void each_called(comp_walk *w, const hlo_instr *i, void (*fn)(comp_walk *, hlo_computation *)) {
  hlo_computation *few[8], **all = few;
  u32 n = hlo_called(i, few, HS_COUNT(few));
  if (n > HS_COUNT(few)) {
    all = hs_alloc(n * sizeof *all);
    hlo_called(i, all, n);
  }
  for (u32 k = n; k-- > 0;)
    if (all[k]) fn(w, all[k]);
  if (all != few) hs_free(all);
}

static void mark_called(comp_walk *w, hlo_computation *c) { w->called[c->id] = true; }

// Pushed last, the first one is processed first.
static void push_called(comp_walk *w, hlo_computation *c) {
  if (w->visited[c->id]) return;
  if (w->early) w->visited[c->id] = true;
  hs_vec_push(&w->stack, ((comp_frame){c, 0, w->early}));
}

// Appends to the order what is reached from a computation, callees first.
static void walk_from(comp_walk *w, hlo_computation *top_level) {
  if (w->visited[top_level->id]) return;
  hs_vec_push(&w->stack, ((comp_frame){top_level, 0, false}));
  while (w->stack.n) {
    comp_frame *top = &w->stack.v[w->stack.n - 1];
    if (!top->entered && w->visited[top->c->id]) { w->stack.n--; continue; }   // a deeper frame was faster
    top->entered = w->visited[top->c->id] = true;
    if (top->at == top->c->ncalls) {
      w->order[w->n++] = top->c;
      w->stack.n--;
      continue;
    }
    each_called(w, w->calls[w->first[top->c->id] + top->at++], push_called);   // `top` may have moved
  }
}

static comp_walk new_walk(const hlo_module *m, hs_arena *a, bool early) {
  u32 ids = m->next_comp_id + 1, ncalls = 0, n = 0;
  hlo_for_each_comp(c, m) ncalls += c->ncalls;
  comp_walk w = {.early = early, .visited = hs_calloc(ids, sizeof(bool)), .called = hs_calloc(ids, sizeof(bool)), .first = hs_calloc(ids, sizeof(u32)),
                 .calls = hs_alloc((ncalls + 1) * sizeof *w.calls), .order = HS_NEW_ARRAY(a, hlo_computation *, m->ncomputations + 1)};
  hlo_for_each_comp(c, m) {
    w.first[c->id] = n;
    hlo_for_each_call(i, c) w.calls[n++] = i;
  }
  return w;
}

static hlo_computation **end_walk(comp_walk *w, u32 *count) {
  hs_vec_free(&w->stack);
  hs_free(w->visited);
  hs_free(w->called);
  hs_free(w->first);
  hs_free(w->calls);
  *count = w->n;
  return w->order;
}

hlo_computation **hlo_comp_callees_first(const hlo_module *m, hs_arena *a, u32 *count) {
  comp_walk w = new_walk(m, a, false);
  hlo_for_each_comp(c, m) walk_from(&w, c);
  return end_walk(&w, count);
}

hlo_computation **hlo_comp_post_order(const hlo_module *m, hs_arena *a, u32 *count) {
  comp_walk w = new_walk(m, a, true);
  u32 ncalls = 0;
  hlo_for_each_comp(c, m) ncalls += c->ncalls;
  for (u32 k = 0; k < ncalls; k++) each_called(&w, w.calls[k], mark_called);
  hlo_for_each_comp(c, m) if (!w.called[c->id]) walk_from(&w, c);
  hlo_for_each_comp(c, m) walk_from(&w, c);   // call cycles of invalid modules
  return end_walk(&w, count);
}
