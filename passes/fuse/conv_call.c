// conv_call.c — calls of cuDNN as XLA writes them: targets, names, and the configuration of what
// is done to the convolution where it is stored (CudnnConvBackendConfig of
// xla/service/gpu/backend_configs.proto). What the calls mean is in core/eval/library.c.
//
// The configuration is JSON with every field written out, also those that have their default.
#include <stdio.h>
#include <stdlib.h>

#include "core/ir/config.h"
#include "passes/fuse/conv_call.h"

static const struct {
  const char *target, *name;
} kinds[CONV_KINDS] = {
    [CONV_FORWARD] = {"__cudnn$convForward", "cudnn-conv"},
    [CONV_FUSED] = {"__cudnn$convBiasActivationForward", "cudnn-conv-bias-activation"},
    [CONV_INPUT] = {"__cudnn$convBackwardInput", "cudnn-conv-bw-input"},
    [CONV_FILTER] = {"__cudnn$convBackwardFilter", "cudnn-conv-bw-filter"},
};

conv_kind pass_conv_kind(const hlo_instr *i) {
  if (i->opcode != HLO_CUSTOM_CALL) return CONV_KINDS;
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  u32 k = 0;
  while (k < CONV_KINDS && !hs_str_eq(target, hs_str_of(kinds[k].target))) k++;
  return (conv_kind)k;
}

const char *pass_conv_target(conv_kind k) { return kinds[k].target; }
const char *pass_conv_name(conv_kind k) { return kinds[k].name; }

// Whether two dimensions and the spatial ones are those of the array, each once.
static bool names_all(const hlo_shape *s, i64 a, i64 b, u32 n, const i64 *spatial) {
  u32 seen = 0;
  if (!hlo_shape_is_array(s) || hlo_shape_is_dynamic(s) || s->rank != n + 2) return false;
  for (u32 k = 0; k < n + 2; k++) {
    i64 d = k == 0 ? a : k == 1 ? b : spatial[k - 2];
    if (d < 0 || d >= s->rank || seen >> d & 1) return false;
    seen |= (u32)1 << d;
  }
  return true;
}

static bool is_small(i64 v) { return v >= -(1 << 30) && v <= 1 << 30; }

bool pass_conv_is_sound(const hlo_instr *i, const hlo_shape *result) {
  const hlo_dim_labels *l = hlo_attr_ptr(i, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  if (!l || i->noperands < 2 || l->nspatial + 2 > HLO_MAX_RANK || (w ? w->n : 0) != l->nspatial)
    return false;
  for (u32 k = 0; k < l->nspatial; k++) {
    const hlo_window_dim *v = &w->v[k];
    const i64 numbers[] = {v->size,     v->stride,     v->pad_low,
                           v->pad_high, v->lhs_dilate, v->rhs_dilate};
    for (u32 j = 0; j < HS_COUNT(numbers); j++)
      if (!is_small(numbers[j])) return false;
  }
  return names_all(hlo_operand(i, 0)->shape, l->lhs_batch, l->lhs_feature, l->nspatial,
                   l->lhs_spatial) &&
         names_all(hlo_operand(i, 1)->shape, l->rhs_input_feature, l->rhs_output_feature,
                   l->nspatial, l->rhs_spatial) &&
         names_all(result, l->out_batch, l->out_feature, l->nspatial, l->out_spatial);
}

void pass_put_number(hs_buf *b, double v) {
  char text[40];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v) break;
  }
  hs_buf_puts(b, text);
}

conv_config pass_conv_config(const hlo_instr *call) {
  static const char *const activations[] = {"kNone", "kRelu", "kRelu6", "kElu", "kLeakyRelu"};
  hs_str text = HS_STR("kNone");
  conv_config c = {.scale = hlo_config_number(call, NULL, "conv_result_scale", 1),
                   .side = hlo_config_number(call, NULL, "side_input_scale", 0),
                   .leaky = hlo_config_number(call, NULL, "leakyrelu_alpha", 0)};
  hlo_config_find(call, NULL, "activation_mode", &text);
  for (u32 k = 0; k < HS_COUNT(activations); k++)
    if (hs_str_eq(text, hs_str_of(activations[k]))) c.activation = activations[k];
  return c;
}

void pass_conv_set_config(hlo_instr *call, const conv_config *c) {
  hlo_module *m = call->parent->module;
  hs_buf b = {0};
  hs_buf_printf(&b,
                "{\"operation_queue_id\":\"0\",\"cudnn_conv_backend_config\":{"
                "\"activation_mode\":\"%s\",\"conv_result_scale\":",
                c->activation);
  pass_put_number(&b, c->scale);
  hs_buf_puts(&b, ",\"side_input_scale\":");
  pass_put_number(&b, c->side);
  hs_buf_puts(&b, ",\"leakyrelu_alpha\":");
  pass_put_number(&b, c->leaky);
  hs_buf_puts(&b, "},\"force_earliest_schedule\":false}");
  hlo_backend_config *to = HS_NEW(&m->arena, hlo_backend_config);
  *to = (hlo_backend_config){{hs_arena_strndup(&m->arena, b.p, b.n), b.n}, true};
  hs_buf_free(&b);
  hlo_set_attr_ptr(call, HLO_ATTR_BACKEND_CONFIG, to);
}
