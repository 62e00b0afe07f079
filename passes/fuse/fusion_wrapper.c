// fusion_wrapper.c — fusion-wrapper (xla/codegen/emitters/fusion_wrapper_base.cc,
// xla/service/cpu/fusion_wrapper.cc): wraps every instruction that is a kernel in a fusion of
// one instruction, so that the code generator handles fusions only.
//
// Not wrapped: library calls, control flow, concatenations (copies of contiguous ranges),
// instructions without cost, and what reads a size that a type hides, which a parameter ends.
#include "passes/run/rewrite.h"

static bool tiles(hlo_dtype t) {
  switch (t) {
  case HLO_PRED:
  case HLO_S8:
  case HLO_S16:
  case HLO_S32:
  case HLO_S64:
  case HLO_U8:
  case HLO_U16:
  case HLO_U32:
  case HLO_U64:
  case HLO_F16:
  case HLO_BF16:
  case HLO_F32:
  case HLO_F64: return true;
  default: return false;
  }
}

static bool wraps(const hlo_instr *i, bool newer, bool tiled) {
  switch (i->opcode) {
  case HLO_SCATTER: return true;
  case HLO_COPY: return tiled && i->shape != hlo_operand(i, 0)->shape && tiles(i->shape->dtype);
  case HLO_BITCAST_CONVERT:
  case HLO_BROADCAST:
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_GATHER:
  case HLO_IOTA:
  case HLO_MAP:
  case HLO_PAD:
  case HLO_REDUCE:
  case HLO_REDUCE_WINDOW:
  case HLO_RESHAPE:
  case HLO_REVERSE:
  case HLO_SLICE:
  case HLO_TRANSPOSE: break;
  case HLO_LOGISTIC:
  case HLO_STOCHASTIC_CONVERT: return false;  // expanded before
  default:
    if (!hlo_op_has(i->opcode, HLO_F_ELEMENTWISE)) return false;
  }
  return newer && !hlo_shape_is_dynamic(i->shape);
}

static void wrap(pass_ctx *c, hlo_instr *i) {
  hs_buf name = {0};
  hs_buf_printf(&name, "wrapped_%s_computation", hlo_op_text(i->opcode));
  for (size_t k = 0; k < name.n; k++)
    if (name.p[k] == '-') name.p[k] = '_';
  hlo_computation *body = hlo_add_computation(c->m, hs_buf_cstr(&name));
  if (i->parent->execution_thread.n) hlo_set_execution_thread(body, i->parent->execution_thread);
  u32 n = i->noperands, np = 0;
  hlo_instr **args = HS_NEW_ARRAY(c->scratch, hlo_instr *, n + 1),
            **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, n + 1);
  for (u32 k = 0; k < n; k++) {
    u32 j = 0;
    while (j < k && hlo_operand(i, j) != hlo_operand(i, k)) j++;
    if (j < k) {
      ops[k] = ops[j];
      continue;
    }
    args[np] = hlo_operand(i, k);
    ops[k] = hlo_add_parameter(body, np++, hlo_operand(i, k)->shape, NULL);
  }
  hlo_instr *inner = hlo_clone_instr(body, i, NULL, n, ops);
  hlo_set_root(body, inner);
  hlo_instr *f = hlo_add_call(i->parent, HLO_FUSION, i->shape, HLO_ATTR_CALLS, body, np, args);
  hlo_set_attr_int(f, HLO_ATTR_KIND, HLO_FUSION_KIND_LOOP);
  name.n = 0;
  hs_buf_printf(&name, "wrapped_%s", hlo_op_text(i->opcode));
  for (size_t k = 0; k < name.n; k++)
    if (name.p[k] == '-') name.p[k] = '_';
  hlo_set_name(f, hs_buf_cstr(&name));
  hs_buf_free(&name);
  hlo_move_before(f, i);
  hlo_replace(i, f);
}

static hs_status run(pass_ctx *c) {
  u32 n;
  hlo_computation **comps = pass_comp_post_order(c, &n);
  bool *launched = HS_NEW_ARRAY(c->scratch, bool, c->m->next_comp_id + 1);
  launched[c->m->entry->id] = true;
  bool newer = pass_option_bool(c, "using_new_fusion_emitter"),
       tiled = pass_option_bool(c, "use_tiled_emitter");
  for (u32 k = n; k-- > 0;) {
    if (!launched[comps[k]->id]) continue;
    hlo_for_each_instr_safe(i, comps[k]) {
      if (hlo_op_has(i->opcode, HLO_F_CONTROL)) {
        hlo_computation **v;
        u32 nv;
        pass_called_all(i, c->scratch, &v, &nv);
        for (u32 j = 0; j < nv; j++) launched[v[j]->id] = true;
      }
      if (!wraps(i, newer, tiled) || pass_reads_hidden(i)) continue;
      HS_TRY(hs_poll());
      if (!pass_may_rewrite(c)) return HS_GOOD;
      wrap(c, i);
    }
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"using_new_fusion_emitter", PASS_BOOL, "true",
     "false: only scatters, all that the older emitter wants in a fusion"},
    {"use_tiled_emitter", PASS_BOOL, "false", "true: also wrap copies that change the layout"},
};

const pass_info pass_fusion_wrapper = {
    .name = "fusion-wrapper",
    .summary = "wraps every kernel in a fusion",
    .xla_source = "xla/codegen/emitters/transforms/fusion_wrapper.cc",
    .run = run,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  ROOT y = f32[4] exponential(x)\n"
              "}\n",
};
