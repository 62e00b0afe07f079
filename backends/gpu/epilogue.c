// epilogue.c — a fusion of a dot and what is done to its result before it is stored, as cuBLASLt
// does it. See library.h.
//
// The pass dot-epilogue-fusion makes such fusions (passes/fuse/dot_epilogue.c, which also says what
// an epilogue is). Here they are read as calls of the library: the dot's sides must be operands of
// the fusion, its result and what follows lie in the same places, the bias along the rows of the
// column-major result. What the library then does differs from HLO in two things, as in XLA:
// numbers of 16 bits are rounded once, at the end, and nothing says that a NaN passes its relu.
#include "backends/gpu/library.h"
#include "passes/fuse/dot_epilogue.h"

#if HAVE_LLVM

enum {
  MOST_RANK = 16,
  BOTH_MULTIPLE = 8,  // of strides of what is stored before the activation
};

// The parameter's number, which is the operand's; false for anything computed.
static bool operand_of(const hlo_instr *i, u32 *out) {
  if (i->opcode != HLO_PARAMETER) return false;
  *out = (u32)hlo_param_number(i);
  return true;
}

// Whether equal elements lie in the same places.
static bool same_places(const hlo_shape *a, const hlo_shape *b) {
  i64 x[MOST_RANK], y[MOST_RANK];
  if (!hlo_shape_same_dims(a, b)) return hlo_shape_is_row_major(a) && hlo_shape_is_row_major(b);
  if (!gpu_strides(a, MOST_RANK, x) || !gpu_strides(b, MOST_RANK, y)) return false;
  for (u32 d = 0; d < a->rank; d++)
    if (a->dims[d] > 1 && x[d] != y[d]) return false;
  return true;
}

// Whether the broadcast adds its operand's number r to row r of each column.
static bool along_rows(const hlo_instr *broadcast, const gpu_product *p) {
  const hlo_shape *s = broadcast->shape, *v = hlo_operand(broadcast, 0)->shape;
  hlo_ints to = hlo_attr_ints(broadcast, HLO_ATTR_DIMENSIONS);
  i64 whole[MOST_RANK], own[MOST_RANK];
  if (v->elements != p->m || v->dtype != p->type[2] || p->d.leading != p->m ||
      !gpu_strides(s, MOST_RANK, whole) || !gpu_strides(v, MOST_RANK, own))
    return false;
  for (u32 k = 0; k < to.n; k++)
    if (v->dims[k] > 1 && (own[k] != whole[to.v[k]] || own[k] * v->dims[k] > p->m)) return false;
  return true;
}

static u32 number_of(const dot_epilogue *e, bool both) {
  static const u32 numbers[][2] = {
      [DOT_PLAIN] = {0, BLAS_BIAS},
      [DOT_RELU] = {BLAS_RELU, BLAS_RELU_BIAS},
      [DOT_GELU] = {BLAS_GELU, BLAS_GELU_BIAS},
  };
  static const u32 stored[] = {BLAS_GELU_BOTH, BLAS_GELU_BOTH_BIAS};
  return both ? stored[e->bias != NULL] : numbers[e->activation][e->bias != NULL];
}

static bool product_of_fusion(const hlo_instr *i, u32 sm, gpu_product *out) {
  dot_epilogue e;
  gpu_epilogues may;
  bool both;
  u32 side[2];
  for (u32 k = 0; k < i->noperands; k++)
    if (!hlo_shape_is_array(hlo_operand(i, k)->shape)) return false;
  if (!pass_dot_epilogue_body(hlo_fusion_comp(i), &e, &both) ||
      !gpu_product_of_dot(e.dot, sm, out, &may) || !operand_of(hlo_operand(e.dot, 0), &side[0]) ||
      !operand_of(hlo_operand(e.dot, 1), &side[1]))
    return false;
  out->a_in = side[out->a_in], out->b_in = side[out->b_in];
  out->bias = e.bias != NULL, out->both = both;
  out->epilogue = number_of(&e, both);
  if (may == GPU_EPILOGUES_NONE || (e.activation == DOT_GELU && may != GPU_EPILOGUES_ALL) ||
      !same_places(e.root->shape, e.dot->shape) || !same_places(e.before->shape, e.dot->shape))
    return false;
  if (both && (out->d.leading % BOTH_MULTIPLE || out->d.batch % BOTH_MULTIPLE)) return false;
  return !e.bias || (operand_of(hlo_operand(e.bias, 0), &out->bias_in) &&
                     same_places(e.bias->shape, e.root->shape) && along_rows(e.bias, out));
}

bool gpu_product_of(const hlo_instr *i, u32 sm, gpu_product *out) {
  gpu_epilogues may;
  return i->opcode == HLO_FUSION ? product_of_fusion(i, sm, out)
                                 : gpu_product_of_dot(i, sm, out, &may);
}

const char *gpu_epilogue_text(const gpu_product *p) {
  static const struct {
    u32 number;
    const char *text;
  } texts[] = {{BLAS_BIAS, ", bias"},
               {BLAS_RELU, ", relu"},
               {BLAS_RELU_BIAS, ", bias, relu"},
               {BLAS_GELU, ", gelu"},
               {BLAS_GELU_BIAS, ", bias, gelu"},
               {BLAS_GELU_BOTH, ", stored, gelu"},
               {BLAS_GELU_BOTH_BIAS, ", bias, stored, gelu"}};
  for (size_t k = 0; k < HS_COUNT(texts); k++)
    if (texts[k].number == p->epilogue) return texts[k].text;
  return "";
}

#endif
