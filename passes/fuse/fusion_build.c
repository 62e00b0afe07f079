// fusion_build.c — carries out what a fusion plan decided: the body computation and the fusion
// instruction. Also grows a fusion by one producer at a time, for the passes that decide so, and
// says which computations are executed instruction by instruction, the only ones where fusing
// makes sense.
#include "passes/fuse/fusion.h"
#include "passes/run/cache.h"

#include <stdio.h>

hlo_computation **pass_fusion_computations(hlo_module *m, hs_arena *a, u32 *n) {
  bool *runs = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  u32 all;
  hlo_computation **order = hlo_comp_callees_first(m, a, &all);
  runs[m->entry->id] = true;
  for (u32 k = all; k-- > 0;) {
    if (!runs[order[k]->id]) continue;
    hlo_for_each_instr(i, order[k])
      for (u32 j = 0; hlo_op_has(i->opcode, HLO_F_CONTROL) && j < hlo_ncalled(i); j++)
        runs[hlo_called(i, j)->id] = true;
  }
  *n = 0;
  for (u32 k = 0; k < all; k++)
    if (runs[order[k]->id]) order[(*n)++] = order[k];
  return order;
}

// "multiply_add_fusion": the last producer's and the root's opcode, as XLA names its fusions.
static void fusion_name(char *buf, size_t size, const hlo_instr *root, u32 n,
                        hlo_instr *const *members) {
  const char *first = NULL;
  for (u32 k = n; k-- > 0 && !first;)
    if (members[k] != root && hlo_op_has(members[k]->opcode, HLO_F_ELEMENTWISE))
      first = hlo_op_text(members[k]->opcode);
  for (u32 k = n; k-- > 0 && !first;)
    if (members[k] != root && members[k]->opcode != HLO_CONSTANT)
      first = hlo_op_text(members[k]->opcode);
  if (first) snprintf(buf, size, "%s_%s_fusion", first, hlo_op_text(root->opcode));
  else snprintf(buf, size, "%s_fusion", hlo_op_text(root->opcode));
}

hlo_instr *pass_fusion_build(hlo_module *m, hs_arena *a, u32 n, hlo_instr *const *members,
                             u32 noutputs, hlo_instr *const *outputs, i64 kind, hlo_instr *before) {
  hlo_computation *body = hlo_add_computation(m, "fused_computation");
  if (before->parent->execution_thread.n)
    hlo_set_execution_thread(body, before->parent->execution_thread);
  HS_VEC(hlo_instr *) inputs = {0};
  hlo_instr **copy = HS_NEW_ARRAY(a, hlo_instr *, n);
  for (u32 k = 0; k < n; k++) {
    hlo_instr *i = members[k], **ops = HS_NEW_ARRAY(a, hlo_instr *, i->noperands + 1);
    for (u32 o = 0; o < i->noperands; o++) {
      hlo_instr *d = hlo_operand(i, o);
      ops[o] = NULL;
      for (u32 j = 0; j < k && !ops[o]; j++)
        if (members[j] == d) ops[o] = copy[j];
      for (size_t j = 0; j < inputs.n && !ops[o]; j++)
        if (inputs.v[j] == d) ops[o] = body->params[j];
      if (ops[o]) continue;
      ops[o] = hlo_add_parameter(body, (i64)inputs.n, d->shape, NULL);
      hs_vec_push(&inputs, d);
    }
    copy[k] = hlo_clone_instr(body, i, NULL, i->noperands, ops);
  }
  hlo_instr **results = HS_NEW_ARRAY(a, hlo_instr *, noutputs);
  for (u32 r = 0; r < noutputs; r++)
    for (u32 k = 0; k < n; k++)
      if (members[k] == outputs[r]) results[r] = copy[k];
  hlo_set_root(body, noutputs == 1 ? results[0] : hlo_add_tuple(body, noutputs, results));
  char name[128];
  fusion_name(name, sizeof name, outputs[0], n, members);
  hlo_instr *f =
      hlo_add_before(before, HLO_FUSION, body->root->shape, (u32)inputs.n, inputs.v, name);
  hlo_set_attr_int(f, HLO_ATTR_KIND, kind);
  hlo_set_attr_comp(f, HLO_ATTR_CALLS, body);
  const hlo_metadata *md = hlo_metadata_of(outputs[0]);
  if (md) hlo_set_attr_ptr(f, HLO_ATTR_METADATA, md);
  for (u32 k = 0; k < n; k++) hlo_add_provenance(f, members[k]);
  hs_vec_free(&inputs);
  return f;
}

// ---- one producer at a time ---------------------------------------------------------------------
hlo_instr *pass_fusion_start(hlo_module *m, hs_arena *a, hlo_instr *consumer,
                             const hlo_instr *producer, i64 kind) {
  char name[128];
  snprintf(name, sizeof name, "%s_%s_fusion", hlo_op_text(producer->opcode),
           hlo_op_text(consumer->opcode));
  hlo_instr *f = pass_fusion_build(m, a, 1, &consumer, 1, &consumer, kind, consumer);
  hlo_set_name(f, name);
  hlo_replace_uses(consumer, f);
  hlo_remove(consumer);
  return f;
}

// The parameter of f's body that stands for x; x becomes an operand of f if it is none.
typedef HS_VEC(hlo_instr *) operands;
static hlo_instr *parameter_for(hlo_computation *body, operands *v, hlo_instr *x) {
  for (size_t k = 0; k < v->n; k++)
    if (v->v[k] == x) return body->params[k];
  hs_vec_push(v, x);
  return hlo_add_parameter(body, (i64)v->n - 1, x->shape, NULL);
}

// A copy of i in the body, its operands read as `inside` (by place in i's own computation) or as
// operands of the fusion.
static hlo_instr *copy_into(hlo_computation *body, operands *v, const hlo_instr *i,
                            const hlo_positions *at, hlo_instr *const *inside, hs_arena *a) {
  hlo_instr **ops = HS_NEW_ARRAY(a, hlo_instr *, i->noperands + 1);
  for (u32 k = 0; k < i->noperands; k++)
    ops[k] = at ? inside[hlo_position_of(at, hlo_operand(i, k))]
                : parameter_for(body, v, hlo_operand(i, k));
  return hlo_clone_instr(body, i, NULL, i->noperands, ops);
}

// The body of a producer that is a fusion, in the body of another.
static hlo_instr *merge_body(hlo_computation *body, operands *v, const hlo_instr *producer,
                             hs_arena *a) {
  const hlo_computation *c = hlo_fusion_comp(producer);
  hlo_instr **order = hlo_post_order(c, a), **inside = HS_NEW_ARRAY(a, hlo_instr *, c->ninstrs + 1);
  hlo_positions at = hlo_positions_in(c->ninstrs, order, a);
  for (u32 k = 0; k < c->ninstrs; k++)
    inside[k] = order[k]->opcode == HLO_PARAMETER
                    ? parameter_for(body, v, hlo_operand(producer, (u32)hlo_param_number(order[k])))
                    : copy_into(body, v, order[k], &at, inside, a);
  return inside[hlo_position_of(&at, c->root)];
}

// Copies of a fusion, as unrolled loops make them, share its body until one of them is changed.
static hlo_computation *own_body(hlo_instr *fusion) {
  hlo_computation *body = hlo_fusion_comp(fusion);
  if (body->nfusion_callers > 1)
    hlo_set_attr_comp(fusion, HLO_ATTR_CALLS, body = hlo_clone_computation(body, body->name, NULL));
  return body;
}

void pass_fusion_take_in(hs_arena *a, hlo_instr *fusion, hlo_instr *producer) {
  hlo_computation *body = own_body(fusion);
  operands v = {0};
  u32 gone = 0;
  for (u32 k = 0; k < fusion->noperands; k++) hs_vec_push(&v, hlo_operand(fusion, k));
  while (v.v[gone] != producer) gone++;
  const hlo_instr *p = body->params[gone];
  if (p->nuses || hlo_is_root(p)) {  // else the fusion does not read it
    hlo_instr *copy = producer->opcode == HLO_FUSION ? merge_body(body, &v, producer, a)
                                                     : copy_into(body, &v, producer, NULL, NULL, a);
    hlo_replace_uses(body->params[gone], copy);
  }
  hlo_remove_parameter(body, gone);
  for (size_t k = gone; k + 1 < v.n; k++) v.v[k] = v.v[k + 1];
  hlo_set_operands(fusion, (u32)v.n - 1, v.v);
  hlo_add_provenance(fusion, producer);
  hs_vec_free(&v);
}

hs_status pass_fusion_each(pass_ctx *p, hs_status (*work)(pass_ctx *, hlo_computation *)) {
  u32 n;
  hlo_computation **comps = pass_fusion_computations(p->m, p->scratch, &n);
  for (u32 k = 0; k < n; k++) HS_TRY(work(p, comps[k]));
  return HS_GOOD;
}
