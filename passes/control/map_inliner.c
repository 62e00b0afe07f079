// map_inliner.c — map-inline (xla/service/map_inliner.cc): a map of a scalar elementwise function
// becomes that function on whole arrays, instruction by instruction.
//
// Parameters become the operands of the map, constants are broadcast, and every other instruction
// is cloned with the map's dimensions. What enters or leaves the function in another precision is
// converted. Declined when an instruction is not elementwise.
#include "passes/control/calls.h"

const hlo_instr *pass_not_liftable(const hlo_computation *f) {
  hlo_for_each_instr(i, f) {
    bool ok = hlo_shape_is_scalar(i->shape) && !i->ctrl_preds &&
              (i->opcode == HLO_PARAMETER || i->opcode == HLO_CONSTANT ||
               hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->opcode == HLO_BITCAST_CONVERT);
    if (!ok) return i;
  }
  return NULL;
}

static hlo_instr *in_type(hlo_instr *v, hlo_dtype t) {
  return v->shape->dtype == t ? v : hlo_build_convert(v, t);
}

static void lift_map(pass_ctx *c, hlo_instr *map, const hlo_computation *f) {
  hlo_instr **order = pass_post_order(c, f),
            **lifted = HS_NEW_ARRAY(c->scratch, hlo_instr *, f->ninstrs + 1);
  u32 n = f->ninstrs;
  hlo_positions position = hlo_positions_in(n, order, c->scratch);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    if (i->opcode == HLO_PARAMETER) {
      lifted[t] = in_type(hlo_operand(map, (u32)hlo_param_number(i)), i->shape->dtype);
    } else {
      hlo_instr *ops[3];
      for (u32 k = 0; k < i->noperands && k < 3; k++)
        ops[k] = lifted[hlo_position_of(&position, hlo_operand(i, k))];
      const hlo_shape *s = i->opcode == HLO_CONSTANT ? NULL : pass_shape_as(map, i->shape->dtype);
      lifted[t] = hlo_clone_instr(map->parent, i, s, i->noperands, ops);
      if (i->opcode == HLO_CONSTANT && map->shape->rank)
        lifted[t] = hlo_add_broadcast(lifted[t], pass_shape_as(map, i->shape->dtype), 0, NULL);
    }
  }
  hlo_replace(map, in_type(lifted[hlo_position_of(&position, f->root)], map->shape->dtype));
}

// Is a size lost where an operand takes the map's place, or is converted?
static bool loses_a_size(const hlo_instr *map, const hlo_computation *f) {
  for (u32 k = 0; k < map->noperands; k++) {
    const hlo_instr *x = hlo_operand(map, k), *p = f->params[k];
    bool result = f->root == p;
    if ((result || x->shape->dtype != p->shape->dtype) && pass_hides_size(x)) return true;
    if (result && !hlo_shape_same_dims(x->shape, map->shape)) return true;
  }
  return false;
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_MAP) continue;
      const hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
      const hlo_instr *obstacle = f ? pass_not_liftable(f) : i;
      if (obstacle || !hlo_shape_is_array(i->shape)) {
        pass_note_declined(c, i, NULL, "%s is not elementwise",
                           obstacle ? hlo_op_text(obstacle->opcode) : "its result");
        continue;
      }
      if (loses_a_size(i, f)) {
        pass_note_declined(c, i, NULL, "its type has other dynamic dimensions than its operand");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "applied %s to whole arrays", f->name);
      lift_map(c, i, f);
    }
  }
  return HS_GOOD;
}

const pass_info pass_map_inline = {
    .name = "map-inline",
    .summary = "replaces maps of elementwise functions by array operations",
    .xla_source = "xla/service/map_inliner.cc",
    .run = run,
    .needs = {HLO_MAP},
    .sample = "f {\n"
              "  a = f32[] parameter(0)\n"
              "  b = f32[] parameter(1)\n"
              "  k = f32[] constant(3)\n"
              "  m = f32[] multiply(a, k)\n"
              "  ROOT s = f32[] subtract(m, b)\n"
              "}\n"
              "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  y = f32[4] parameter(1)\n"
              "  ROOT z = f32[4] map(x, y), dimensions={0}, to_apply=f\n"
              "}\n",
};
