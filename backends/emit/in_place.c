// in_place.c — operands whose storage the result of a kernel along rows may take over.
//
// A softmax reads a row once for its maximum, once for its sum, and once more to store it. All of
// the row is read before any of it is stored, and no other row is read: the row may be stored where
// it was read. This is decided on the loop nest, after scheduling. Each load of the operand is
//
//   the element that is stored, read by the loops of the stage, or
//   an element of the same row, read by the loops of a reduction that runs before those loops
//   begin: its result does not depend on them, and neither does the part of it that it covers.
//
// Kernels without reductions are left to whoever knows the instruction (kind.h: in_place).
#include "backends/emit/nest.h"

// Whether the last k loops of the stage, none of which is shared among chunks, have the extents of
// the group's loops.
static bool runs_along(const nest *n, const nest_stage *st, const nest_group *g) {
  if (g->nloops == 0 || g->nloops > st->nloops) return false;
  for (u32 l = 0; l < g->nloops; l++) {
    u32 at = st->nloops - g->nloops + l;
    if (st->split[at] > 1 || n->vars.v[st->loops[at]].hi != n->vars.v[g->loops[l]].hi) return false;
  }
  return g->seg == NEST_NONE && g->cond == NEST_NONE && !g->from && !g->to && !g->resumes &&
         !g->start;
}

// Whether the load, in the loops of the group, reads what the stage stores when its last loops are
// where the group's are.
static bool same_row(const nest *n, const nest_stage *st, const nest_group *g,
                     const nest_expr *load, const nest_expr *store) {
  if (load->n != store->n || load->c != store->c) return false;
  for (u32 t = 0; t < store->n; t++) {
    u32 var = store->t[t].var;
    if (n->vars.v[var].kind != NEST_LOOP) return false;
    for (u32 l = 0; l < g->nloops; l++)
      if (var == st->loops[st->nloops - g->nloops + l]) {
        var = g->loops[l];
        break;
      }
    if (nest_coef(load, var) != store->t[t].coef) return false;
  }
  return true;
}

// Whether the group's results are known before the stage's last k loops begin.
static bool comes_first(const nest *n, const nest_stage *st, const nest_group *g) {
  u64 row = 0, deps = 0;
  for (u32 l = 0; l < g->nloops; l++) row |= 1ull << n->vars.v[st->loops[st->nloops - 1 - l]].loop;
  for (u32 k = 0; k < g->nacc; k++) deps |= n->nodes.v[g->out[k]].deps;
  return (deps & row) == 0;
}

static bool reads_in_time(const nest *n, const nest_stage *st, const nest_node *load) {
  const nest_expr *store = st->stores.v[0].e;
  if (load->guard != NEST_NONE) return false;
  if (load->e == store) return true;
  for (size_t k = 0; k < n->groups.n; k++) {
    const nest_group *g = &n->groups.v[k];
    const nest_group *root = &n->groups.v[g->merged_into];
    if (runs_along(n, st, root) && same_row(n, st, root, load->e, store) && comes_first(n, st, g) &&
        comes_first(n, st, root))
      return true;
  }
  return false;
}

bool nest_row_in_place(const nest *n, int in, int out) {
  if (n->stages.n != 1 || n->finish.n || n->updates.n || n->order) return false;
  const nest_stage *st = &n->stages.v[0];
  if (st->kind != EMIT_ROW_WISE || st->stores.n != 1 || st->is_split || st->scan || st->ways ||
      st->tile != NEST_NONE)
    return false;
  const nest_buf *to = &n->bufs.v[st->stores.v[0].buf];
  if (to->arg != out || to->holds_rows) return false;
  // a guard may put off a reduction until a part of the row has been stored
  for (size_t k = 0; k < n->nodes.n; k++)
    if (n->nodes.v[k].kind == NEST_GUARD) return false;
  for (size_t k = 0; k < n->nodes.n; k++) {
    const nest_node *x = &n->nodes.v[k];
    if (x->kind != NEST_LOAD || n->bufs.v[x->buf].arg != in) continue;
    if (n->bufs.v[x->buf].dtype != to->dtype || !reads_in_time(n, st, x)) return false;
  }
  return true;
}
