// fusion_wrapper.c — fusion-wrapper (xla/codegen/emitters/transforms/fusion_wrapper.cc): every instruction that is a
// kernel of its own becomes a fusion of one, so that the code generator sees fusions only. What runs as a library call, as
// control flow, or costs nothing stays. Option using_new_fusion_emitter (default true): false leaves the operations that an
// older code generator has no formula for.
#include "passes/util.h"

static bool wraps(const hlo_instr *i) {
  if (hlo_op_has(i->opcode, HLO_F_FREE | HLO_F_ASYNC | HLO_F_COLLECTIVE | HLO_F_SIDE_EFFECT)) return false;
  switch (i->opcode) {
    case HLO_FUSION: case HLO_CALL: case HLO_WHILE: case HLO_CONDITIONAL: case HLO_CUSTOM_CALL: case HLO_DOT: case HLO_CONVOLUTION: case HLO_FFT:
    case HLO_SORT: case HLO_TOPK: case HLO_SCAN: case HLO_CHOLESKY: case HLO_TRIANGULAR_SOLVE: case HLO_RNG: case HLO_RNG_BIT_GENERATOR:
    case HLO_RNG_GET_AND_UPDATE_STATE: case HLO_COPY: case HLO_BITCAST: case HLO_RAGGED_DOT: case HLO_SCALED_DOT: case HLO_GET_DIMENSION_SIZE:
    case HLO_SET_DIMENSION_SIZE: case HLO_PARTITION_ID: case HLO_REPLICA_ID: case HLO_DYNAMIC_RESHAPE: case HLO_STOCHASTIC_CONVERT:
    case HLO_BATCH_NORM_GRAD: case HLO_BATCH_NORM_INFERENCE: case HLO_BATCH_NORM_TRAINING: return false;
    default: return !hlo_shape_is_dynamic(i->shape);
  }
}

static bool newer(hlo_opcode op) {
  switch (op) {
    case HLO_ACOS: case HLO_ACOSH: case HLO_ASIN: case HLO_ASINH: case HLO_ATANH: case HLO_COSH: case HLO_SINH: case HLO_MULHI: return true;
    default: return false;
  }
}

static void wrap(pass_ctx *c, hlo_instr *i) {
  hs_buf name = {0};
  hs_buf_printf(&name, "wrapped_%s_computation", hlo_op_text(i->opcode));
  for (size_t k = 0; k < name.n; k++) if (name.p[k] == '-') name.p[k] = '_';
  hlo_computation *body = hlo_add_computation(c->m, hs_buf_cstr(&name));
  if (i->parent->execution_thread.n) hlo_set_execution_thread(body, i->parent->execution_thread);
  u32 n = i->noperands, np = 0;
  hlo_instr **args = HS_NEW_ARRAY(c->scratch, hlo_instr *, n + 1), **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, n + 1);
  for (u32 k = 0; k < n; k++) {
    u32 j = 0;
    while (j < k && hlo_operand(i, j) != hlo_operand(i, k)) j++;
    if (j < k) { ops[k] = ops[j]; continue; }
    args[np] = hlo_operand(i, k);
    ops[k] = hlo_add_parameter(body, np++, hlo_operand(i, k)->shape, NULL);
  }
  hlo_instr *inner = hlo_clone_instr(body, i, NULL, n, ops);
  hlo_set_root(body, inner);
  hlo_instr *f = hlo_add_call(i->parent, HLO_FUSION, i->shape, HLO_ATTR_CALLS, body, np, args);
  hlo_set_attr_int(f, HLO_ATTR_KIND, HLO_FUSION_KIND_LOOP);
  name.n = 0;
  hs_buf_printf(&name, "wrapped_%s", hlo_op_text(i->opcode));
  for (size_t k = 0; k < name.n; k++) if (name.p[k] == '-') name.p[k] = '_';
  hlo_set_name(f, hs_buf_cstr(&name));
  hs_buf_free(&name);
  hlo_move_before(f, i);
  hlo_replace(i, f);
}

hs_status pass_fusion_wrapper(pass_ctx *c) {
  u32 n;
  hlo_computation **comps = hlo_comp_post_order(c->m, c->scratch, &n);
  bool *launched = HS_NEW_ARRAY(c->scratch, bool, c->m->next_comp_id + 1);
  launched[c->m->entry->id] = true;
  bool all = pass_option_bool(c, "using_new_fusion_emitter", true);
  for (u32 k = n; k-- > 0;) {
    if (!launched[comps[k]->id]) continue;
    hlo_for_each_instr_safe(i, comps[k]) {
      if (i->opcode == HLO_WHILE || i->opcode == HLO_CALL || i->opcode == HLO_CONDITIONAL || i->opcode == HLO_ASYNC_START) {
        hlo_computation **v;
        u32 nv;
        pass_called_all(i, c->scratch, &v, &nv);
        for (u32 j = 0; j < nv; j++) launched[v[j]->id] = true;
      }
      if (!wraps(i) || (!all && newer(i->opcode))) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      wrap(c, i);
    }
  }
  return HS_GOOD;
}
