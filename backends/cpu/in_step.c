// in_step.c — loops and branches of devices that run in step. See in_step.h.
//
// When devices that are away could be met at another collective, which real devices would, the
// program is one that no backend here runs.
#include "backends/cpu/in_step.h"

// Runs the block on those that are here, then its moves.
static hs_status run_block(const cpu_in_step *x, cpu_block *b) {
  HS_TRY(x->block(x->ctx, b));
  for (u32 d = 0; d < x->n; d++)
    if (x->here[d]) HS_TRY(x->moves(x->ctx, d, &b->moves));
  return HS_GOOD;
}

// Those that go on stay here.
static hs_status ask(const cpu_in_step *x, const cpu_step *s, bool *any) {
  *any = false;
  for (u32 d = 0; d < x->n; d++) {
    i64 goes_on = 0;
    if (x->here[d]) HS_TRY(x->decide(x->ctx, d, s, &goes_on));
    x->here[d] = goes_on != 0;
    *any |= x->here[d];
  }
  return HS_GOOD;
}

static hs_status iterate(const cpu_in_step *x, cpu_step *s, i64 trips) {
  for (u32 d = 0; d < x->n; d++)
    if (x->here[d]) HS_TRY(x->enter(x->ctx, d, s));
  for (i64 k = 0; trips < 0 || k < trips; k++) {
    bool any = true;
    if (trips < 0) {
      HS_TRY(x->block(x->ctx, &s->blocks[0]));
      HS_TRY(ask(x, s, &any));
    }
    if (!any) break;
    HS_TRY(run_block(x, &s->blocks[1]));
  }
  return HS_GOOD;
}

hs_status cpu_while_in_step(const cpu_in_step *x, cpu_step *s, i64 trips) {
  bool *before = hs_alloc(x->n);
  memcpy(before, x->here, x->n);
  hs_status st = iterate(x, s, trips);
  memcpy(x->here, before, x->n);
  hs_free(before);
  return st;
}

static hs_status branches(const cpu_in_step *x, cpu_step *s, const bool *before, i64 *branch) {
  for (u32 d = 0; d < x->n; d++)
    if (before[d]) HS_TRY(x->decide(x->ctx, d, s, &branch[d]));
  for (u32 k = 0; k < s->nblocks; k++) {
    bool any = false;
    for (u32 d = 0; d < x->n; d++) any |= x->here[d] = before[d] && branch[d] == (i64)k;
    if (any) HS_TRY(run_block(x, &s->blocks[k]));
  }
  return HS_GOOD;
}

hs_status cpu_branches_in_step(const cpu_in_step *x, cpu_step *s) {
  bool *before = hs_alloc(x->n);
  i64 *branch = hs_calloc(x->n, sizeof *branch);
  memcpy(before, x->here, x->n);
  hs_status st = branches(x, s, before, branch);
  memcpy(x->here, before, x->n);
  hs_free(before);
  hs_free(branch);
  return st;
}

hs_status cpu_did_not_meet(const hlo_module *m, const hlo_instr *i, hs_status deadlock) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(other, c)
      if (other != i && hlo_op_has(other->opcode, HLO_F_COLLECTIVE) && hlo_eval_meets(i, other)) {
        hs_status_drop(deadlock);
        return hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(i->opcode),
                               "unsupported: devices that meet at %s and at %s, in two branches",
                               i->name, other->name);
      }
  return deadlock;
}
