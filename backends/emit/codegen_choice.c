// codegen_choice.c — choices that a lane loop makes alike: select(flip[image], mirror, row).
// Where an arm is dear to load, such as a row of mirrored pixels or one that lies across, the loop
// is written twice, behind a branch, each with the arm that is taken; otherwise both arms are
// loaded and one of the two vectors is kept.
#include "backends/emit/codegen.h"

// MOST_NODES: of a loop that may be written several times.
enum { MOST_NODES = 160 };

typedef struct search {
  const cg *c;
  u64 lane;
  u8 *seen, *dear;  // by node; dear: of those that were seen, whether a dear load is below
  u32 count;
  u32 found;
} search;

int cg_chosen(const cg *c, u32 node) {
  for (u32 k = 0; k < c->nchosen; k++)
    if (c->chosen[k].node == node) return c->chosen[k].yes;
  return -1;
}

// Whether neighbours along the lanes are no neighbours in memory.
static bool is_dear_load(const search *s, const nest_node *x) {
  const nest *n = s->c->n;
  if (x->kind != NEST_LOAD || !(nest_deps(n, x->e) & s->lane)) return false;
  if (!nest_is_linear(n, x->e, s->lane)) return true;
  for (u32 k = 0; k < x->e->n; k++) {
    const nest_var *v = &n->vars.v[x->e->t[k].var];
    if (v->kind == NEST_LOOP && (1ull << v->loop & s->lane))
      return x->e->t[k].coef != 1 && x->e->t[k].coef != -1;
  }
  return false;
}

// Whether the node needs a dear load; on the way the first predicate over such is found, outermost
// choices first.
static bool visit(search *s, u32 id) {
  if (id == NEST_NONE || s->seen[id]) return id != NEST_NONE && s->dear[id];
  s->seen[id] = 1;
  s->count++;
  const nest_node *x = &s->c->n->nodes.v[id];
  if (!(x->deps & s->lane)) return false;
  bool choice = x->kind == NEST_OP && x->op == HLO_SELECT, dear = is_dear_load(s, x);
  int taken = choice ? cg_chosen(s->c, x->args[0]) : -1;
  for (u32 k = 0; k < x->nargs; k++)
    if (taken < 0 || k == (taken ? 1u : 2u)) dear |= visit(s, x->args[k]);
  if (x->kind == NEST_LOAD) dear |= visit(s, x->guard);
  if (choice && taken < 0 && dear) {
    u64 deps = s->c->n->nodes.v[x->args[0]].deps;
    if (!(deps & s->lane) && !(deps & ~s->c->open_mask)) s->found = x->args[0];
  }
  s->dear[id] = dear;
  return dear;
}

u32 cg_find_choice(const cg *c, u64 lane) {
  const nest *n = c->n;
  if (n->groups.n || c->nchosen == CG_MOST_CHOSEN || c->target->load) return NEST_NONE;
  search s = {.c = c,
              .lane = lane,
              .seen = hs_calloc(n->nodes.n + 1, 1),
              .dear = hs_calloc(n->nodes.n + 1, 1),
              .found = NEST_NONE};
  for (size_t k = 0; k < c->stage->stores.n; k++) (void)visit(&s, c->stage->stores.v[k].node);
  hs_free(s.seen);
  hs_free(s.dear);
  return s.count <= MOST_NODES ? s.found : NEST_NONE;
}
