// shapes.c — the verifier's rules for single instructions: the written shape against the
// inferred one, and what inference does not see (fusion bodies, comparison types, aliasing,
// layouts, threads, composite calls...).
//
// How exactly written and inferred shape must agree depends on the opcode, as in XLA: operations
// that hand buffers through (tuple, while, call, ...) admit no change of precision or layout, all
// others may define another layout and, unless mixed precision is disallowed, another float
// precision.
#include "core/infer/infer.h"
#include "core/verify/rules.h"

// ---- written shape against inferred shape -------------------------------------------------------
static bool passes_buffers_through(hlo_opcode op) {
  switch (op) {
  case HLO_BITCAST:
  case HLO_CALL:
  case HLO_CONDITIONAL:
  case HLO_CONSTANT:
  case HLO_CUSTOM_CALL:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_INFEED:
  case HLO_OUTFEED:
  case HLO_OPT_BARRIER:
  case HLO_PARAMETER:
  case HLO_RECV:
  case HLO_RECV_DONE:
  case HLO_SEND:
  case HLO_SEND_DONE:
  case HLO_TUPLE:
  case HLO_WHILE: return true;
  default: return false;
  }
}
static bool host_memory(const hlo_shape *s) {
  return s->layout && s->layout->memory_space == VERIFY_HOST_MEMORY;
}

static bool shape_agrees(const verifier *v, const hlo_instr *i, const hlo_shape *want) {
  // layouts: rule_layouts below
  if (passes_buffers_through(i->opcode)) return infer_compatible(i->shape, want, 0);
  if (i->opcode == HLO_DYNAMIC_UPDATE_SLICE) return infer_compatible(i->shape, want, 0);
  if (i->opcode == HLO_COPY && v->o.layout_sensitive &&
      host_memory(hlo_operand(i, 0)->shape) != host_memory(i->shape))
    return infer_compatible(i->shape, want, 0);
  return infer_compatible(i->shape, want, v->o.disallow_mixed_precision ? 0 : INFER_ANY_FLOAT);
}
static void check_inferred(verifier *v, const hlo_instr *i) {
  const hlo_shape *want;
  hs_status s = hlo_infer_instr(i, &want);
  if (!hs_ok(s)) {
    verify_report(v, i, "%s", s.err->message);
    hs_status_drop(s);
    return;
  }
  if (i->opcode == HLO_FUSION) return;  // rule_fusion compares it
  bool agrees = shape_agrees(v, i, want);
  // to show its layout
  if (!agrees && i->noperands && want == hlo_operand(i, 0)->shape->logical)
    want = hlo_operand(i, 0)->shape;
  NEED(v, i, agrees, "Expected instruction to have shape equal to %s, actual shape is %s",
       verify_shape_text(v, want), verify_shape_text(v, i->shape));
}

// With layouts: what hands a buffer through keeps its layout.
static void rule_layouts(verifier *v, const hlo_instr *i) {
  const hlo_shape *want = NULL;
  if (i->opcode == HLO_GET_TUPLE_ELEMENT)
    want = hlo_operand(i, 0)->shape->elems[hlo_attr_int(i, HLO_ATTR_INDEX, 0)];
  else if (i->opcode == HLO_WHILE || i->opcode == HLO_OPT_BARRIER) want = hlo_operand(i, 0)->shape;
  else if (i->opcode == HLO_CALL) want = hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root->shape;
  if (want)
    NEED(v, i, verify_same(v, i->shape, want),
         "Expected instruction to have shape equal to %s, actual shape is %s",
         verify_shape_text(v, want), verify_shape_text(v, i->shape));
  for (u32 k = 0; i->opcode == HLO_TUPLE && k < i->noperands; k++)
    NEED(v, i, verify_same(v, i->shape->elems[k], hlo_operand(i, k)->shape),
         "Expected instruction to have shape equal to %s at index {%u}, actual shape is %s",
         verify_shape_text(v, hlo_operand(i, k)->shape), k,
         verify_shape_text(v, i->shape->elems[k]));
}

// Operands of operations outside the list below must all have one float precision when mixing is
// disallowed.
static bool may_mix_precision(hlo_opcode op) {
  switch (op) {
  case HLO_CALL:
  case HLO_CONDITIONAL:
  case HLO_CONSTANT:
  case HLO_CONVOLUTION:
  case HLO_DOT:
  case HLO_RAGGED_DOT:
  case HLO_SCALED_DOT:
  case HLO_ALL_REDUCE:
  case HLO_ALL_REDUCE_START:
  case HLO_ALL_REDUCE_DONE:
  case HLO_ALL_GATHER:
  case HLO_ALL_GATHER_START:
  case HLO_ALL_GATHER_DONE:
  case HLO_ALL_TO_ALL:
  case HLO_ASYNC_START:
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE:
  case HLO_COLLECTIVE_PERMUTE:
  case HLO_COLLECTIVE_PERMUTE_START:
  case HLO_COLLECTIVE_PERMUTE_DONE:
  case HLO_COPY_START:
  case HLO_COPY_DONE:
  case HLO_CUSTOM_CALL:
  case HLO_DOMAIN:
  case HLO_FUSION:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_INFEED:
  case HLO_OPT_BARRIER:
  case HLO_OUTFEED:
  case HLO_PARAMETER:
  case HLO_RECV:
  case HLO_RECV_DONE:
  case HLO_REDUCE_PRECISION:
  case HLO_REDUCE:
  case HLO_REDUCE_SCATTER:
  case HLO_REDUCE_WINDOW:
  case HLO_SEND:
  case HLO_SEND_DONE:
  case HLO_SORT:
  case HLO_TUPLE:
  case HLO_WHILE:
  case HLO_SCAN:
  case HLO_COLLECTIVE_BROADCAST:
  case HLO_STOCHASTIC_CONVERT:
  case HLO_AFTER_ALL:
  case HLO_ADD_DEPENDENCY:
  case HLO_MAP: return true;
  default: return false;
  }
}
static hlo_dtype first_float(const hlo_shape *s, hlo_dtype had, bool *mixed) {
  if (hlo_shape_is_tuple(s)) {
    for (u32 k = 0; k < s->nelems; k++) had = first_float(s->elems[k], had, mixed);
    return had;
  }
  if (!hlo_dtype_is_float(s->dtype)) return had;
  if (had != HLO_DT_INVALID && had != s->dtype) *mixed = true;
  return s->dtype;
}
static void check_precision(verifier *v, const hlo_instr *i) {
  if (i->opcode == HLO_MAP || i->opcode == HLO_REDUCE) {
    const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
    for (u32 k = 0; k < i->noperands && k < c->nparams; k++)
      NEED(v, i, hlo_operand(i, k)->shape->dtype == c->params[k]->shape->dtype,
           "Shape mismatch between to_apply computation parameter and operand %u: %s and %s", k,
           infer_text(c->params[k]->shape), infer_text(hlo_operand(i, k)->shape));
  }
  if (may_mix_precision(i->opcode)) return;
  bool mixed = false;
  hlo_dtype t = HLO_DT_INVALID;
  for (u32 k = 0; k < i->noperands; k++) t = first_float(hlo_operand(i, k)->shape, t, &mixed);
  NEED(
      v, i, !mixed,
      "Seen floating point types of different precisions in %s, but mixed precision is disallowed.",
      i->name);
}

// ---- shapes by themselves -----------------------------------------------------------------------
static void check_shape_itself(verifier *v, const hlo_instr *i, const hlo_shape *s) {
  if (hlo_shape_is_tuple(s) || s->dtype == HLO_BUFFER) {
    for (u32 k = 0; k < s->nelems && s->elems; k++) check_shape_itself(v, i, s->elems[k]);
    return;
  }
  if (!hlo_shape_is_array(s)) return;
  for (u32 k = 0; k < s->rank && !v->o.allow_unbounded; k++)
    NEED(v, i, s->dims[k] != HLO_UNBOUNDED, "Unbounded dynamism is disabled for instruction %s: %s",
         i->name, infer_text(s));
  const hlo_layout *l = s->layout;
  if (!l) return;
  NEED(v, i, l->rank == s->rank,
       "Instruction has mismatched minor-to-major size and dimension size: %u and %u", l->rank,
       s->rank);
  u64 seen = 0;
  for (u32 k = 0; k < l->rank; k++) {
    i64 d = l->minor_to_major[k];
    NEED(v, i, d >= 0 && d < s->rank && !(seen >> d & 1),
         "the layout is not a permutation of the %u dimensions of %s", s->rank, infer_text(s));
    seen |= (u64)1 << d;
  }
  for (u32 k = 0; k < l->ntiles; k++) {
    const hlo_tile *t = &l->tiles[k];
    bool fits = t->rank > 0;
    for (u32 d = 0; d < t->rank; d++) fits &= t->dims[d] != 0;
    NEED(v, i, fits, "layout has invalid tiles: %s", infer_text(s));
  }
  NEED(v, i, l->element_bits >= 0, "layout element_size_in_bits field is negative: %lld",
       (long long)l->element_bits);
  NEED(v, i, !v->o.no_host_memory || !host_memory(s),
       "Instruction shouldn't have the layout of host memory space: %s", verify_shape_text(v, s));
  NEED(v, i, !v->o.cpu_gpu || !l->element_bits || hlo_dtype_bits(s->dtype) < 8,
       "The XLA CPU/GPU backend does not support custom element sizes on non-sub-byte types: %s",
       verify_shape_text(v, s));
}

// ---- rules of single opcodes --------------------------------------------------------------------
static void rule_elementwise(verifier *v, const hlo_instr *i) {
  // scalar bounds and predicates are meant
  if (i->opcode == HLO_CLAMP || i->opcode == HLO_SELECT) return;
  for (u32 k = 0; k < i->noperands; k++)
    NEED(v, i, infer_compatible(hlo_operand(i, k)->shape, i->shape, INFER_ANY_TYPE),
         "Implicit broadcast is not allowed in HLO. Found different shapes: output %s, operand %s",
         infer_text(i->shape), infer_text(hlo_operand(i, k)->shape));
}
static void rule_compare(verifier *v, const hlo_instr *i) {
  const hlo_attr *a = hlo_attr_get(i, HLO_ATTR_COMPARE_TYPE);
  hlo_dtype t = hlo_operand(i, 0)->shape->dtype;
  if (!a) return;
  if (hlo_dtype_is_float(t) || hlo_dtype_is_complex(t))
    NEED(v, i, a->v.i == HLO_COMPARE_TYPE_FLOAT || a->v.i == HLO_COMPARE_TYPE_TOTALORDER,
         "Expected comparison type FLOAT or TOTALORDER.");
  else if (hlo_dtype_is_signed(t))
    NEED(v, i, a->v.i == HLO_COMPARE_TYPE_SIGNED, "Expected comparison type SIGNED.");
  else NEED(v, i, a->v.i == HLO_COMPARE_TYPE_UNSIGNED, "Expected comparison type UNSIGNED.");
}
static void rule_broadcast(verifier *v, const hlo_instr *i) {
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  for (u32 k = 1; v->o.broadcast_dims_ordered && k < d.n; k++)
    NEED(v, i, d.v[k - 1] < d.v[k], "Broadcast dimensions should be ordered, got: %s",
         infer_ints_text(d.n, d.v));
}
static void rule_iota(verifier *v, const hlo_instr *i) {
  i64 d = hlo_attr_int(i, HLO_ATTR_IOTA_DIMENSION, 0);
  NEED(v, i, hlo_shape_is_array(i->shape) && i->shape->rank, "Iota does not support scalars.");
  NEED(v, i, d >= 0 && d < i->shape->rank,
       "The iota dimension cannot go beyond the operation rank or be negative.");
  NEED(v, i, i->shape->dtype != HLO_PRED,
       "Only support iota of integral, floating point or complex primitive types, got pred");
}
static void rule_constant(verifier *v, const hlo_instr *i) {
  const hlo_literal *l = hlo_constant_value(i);
  NEED(v, i, l, "a constant without a value");
  NEED(v, i, infer_compatible(l->shape, i->shape, 0),
       "Constant's literal has the shape %s, the instruction %s", infer_text(l->shape),
       infer_text(i->shape));
}
// Bits of the buffer; -1 when they do not fit an i64.
static i64 bitcast_bits(const hlo_shape *s) {
  i64 bits = s->layout && s->layout->element_bits ? s->layout->element_bits
                                                  : (i64)hlo_dtype_storage(s->dtype) * 8,
      all;
  return hs_mul_ok(s->elements, bits, &all) ? all : -1;
}
static void rule_bitcast(verifier *v, const hlo_instr *i) {
  const hlo_shape *x = hlo_operand(i, 0)->shape;
  NEED(v, i, hlo_shape_is_array(x) == hlo_shape_is_array(i->shape),
       "Bitcast between an array and a non-array: %s and %s", infer_text(x), infer_text(i->shape));
  if (!hlo_shape_is_array(x) || !v->o.layout_sensitive || (x->layout && x->layout->ntiles) ||
      (i->shape->layout && i->shape->layout->ntiles))
    return;
  NEED(v, i, bitcast_bits(x) == bitcast_bits(i->shape),
       "Bitcast cannot have different shape sizes of output (%lld) and operand (%lld) (%s) (%s)",
       (long long)(bitcast_bits(i->shape) + 7) / 8, (long long)(bitcast_bits(x) + 7) / 8,
       verify_shape_text(v, i->shape), verify_shape_text(v, x));
}
static void rule_rng(verifier *v, const hlo_instr *i) {
  hlo_dtype t = i->shape->dtype;
  NEED(v, i, i->noperands == 2, "Expected two operands for Rng instruction, got %u", i->noperands);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *p = hlo_operand(i, k)->shape;
    NEED(v, i, hlo_shape_is_scalar(p), "The parameters of an rng must be scalars; got %s.",
         infer_text(p));
    NEED(v, i, p->dtype == t,
         "Expected compatible element types between the result and the two operands: %s and %s",
         hlo_dtype_text(t), hlo_dtype_text(p->dtype));
  }
  bool normal = hlo_attr_int(i, HLO_ATTR_DISTRIBUTION, 0) == HLO_DISTRIBUTION_NORMAL;
  NEED(v, i, hlo_dtype_is_float(t) || (!normal && (hlo_dtype_is_integer(t) || t == HLO_PRED)),
       "Element type not supported. Expected element to be of %s for %s: %s.",
       normal ? "floating point type" : "floating point type, integral type or predicate type",
       normal ? "RngNormal" : "RngUniform", hlo_dtype_text(t));
}
static void rule_rng_bits(verifier *v, const hlo_instr *i) {
  if (hlo_shape_is_tuple(i->shape))
    NEED(v, i,
         i->shape->nelems == 2 && infer_compatible(i->shape->elems[0], hlo_operand(i, 0)->shape, 0),
         "rng-bit-generator must return (state, bits); got %s for a state %s", infer_text(i->shape),
         infer_text(hlo_operand(i, 0)->shape));
}
static void rule_dynamic_slice_memory(verifier *v, const hlo_instr *i) {
  if (!v->o.layout_sensitive) return;
  const char *name = i->opcode == HLO_DYNAMIC_SLICE ? "DynamicSlice" : "DynamicUpdateSlice";
  bool from = host_memory(hlo_operand(i, 0)->shape), to = host_memory(i->shape);
  if (i->opcode == HLO_DYNAMIC_SLICE)
    NEED(v, i, from || !to,
         "%s instruction shouldn't change layout memory space from device to host", name);
  else
    NEED(v, i, from == to, "%s instruction shouldn't change layout memory space from %s", name,
         from ? "host to device" : "device to host");
}
static void rule_reshape(verifier *v, const hlo_instr *i) {
  if (!v->o.reshape_is_bitcast || !v->o.layout_sensitive) return;
  const hlo_shape *x = hlo_operand(i, 0)->shape;
  NEED(v, i, !hlo_shape_is_row_major(x) || hlo_shape_is_row_major(i->shape) || i->shape->rank < 2,
       "Reshape should be a physical bitcast, got: %s to %s", verify_shape_text(v, x),
       verify_shape_text(v, i->shape));
}

// ---- calls --------------------------------------------------------------------------------------
static void check_threads(verifier *v, const hlo_instr *i, const hlo_computation *c,
                          const char *what) {
  NEED(v, i, verify_tracked_thread_equal(c->execution_thread, i->parent->execution_thread),
       "%s to_apply computation execution thread does not match (%s vs %s)", what,
       c->execution_thread.n ? c->execution_thread.p : "main",
       i->parent->execution_thread.n ? i->parent->execution_thread.p : "main");
}
static void rule_call_threads(verifier *v, const hlo_instr *i) {
  hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  const hlo_attr *list = hlo_attr_get(i, HLO_ATTR_CALLED_COMPUTATIONS);
  if (c) check_threads(v, i, c, i->opcode == HLO_CUSTOM_CALL ? "custom" : i->name);
  for (u32 k = 0; list && k < list->v.comps.n; k++)
    check_threads(v, i, list->v.comps.v[k], i->opcode == HLO_CUSTOM_CALL ? "custom" : i->name);
}

static void rule_fusion(verifier *v, const hlo_instr *i) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_CALLS);
  NEED(v, i, verify_same(v, c->root->shape, i->shape),
       "Fused computation shape (%s) is not equal to the fusion shape (%s)",
       verify_shape_text(v, c->root->shape), verify_shape_text(v, i->shape));
  NEED(v, i, c->nparams <= i->noperands,
       "the fused computation has %u parameters but the fusion %u operands", c->nparams,
       i->noperands);
  for (u32 k = 0; k < c->nparams; k++)
    NEED(v, i, verify_same(v, c->params[k]->shape, hlo_operand(i, k)->shape),
         "Shape mismatch between parameter number %u and its operand: %s and %s", k,
         verify_shape_text(v, c->params[k]->shape), verify_shape_text(v, hlo_operand(i, k)->shape));
  NEED(
      v, i, verify_tracked_thread_equal(c->execution_thread, i->parent->execution_thread),
      "Callable instruction %s expects parent computation thread name same as called computation's "
      "thread name (%s vs %s).",
      i->name, i->parent->execution_thread.n ? i->parent->execution_thread.p : "main",
      c->execution_thread.n ? c->execution_thread.p : "main");
  hlo_for_each_instr(f, c)
    if (!f->nuses && f != c->root && f->opcode != HLO_PARAMETER && !hlo_has_side_effect(f)) {
      verify_report(v, i, "Non-root instruction %s in %s must have users.", f->name, i->name);
      return;
    }
}

static void rule_call(verifier *v, const hlo_instr *i) {
  if (!hlo_attr_int(i, HLO_ATTR_IS_COMPOSITE, 0)) return;
  const hlo_attr *f = hlo_attr_get(i, HLO_ATTR_FRONTEND_ATTRIBUTES);
  const hs_str *name = hlo_frontend_find(f, "composite.name"),
               *version = hlo_frontend_find(f, "composite.version");
  NEED(v, i, name && name->n,
       "A composite call op must have frontend attributes with key composite.name whose value is "
       "non-empty");
  bool digits = true;
  for (size_t k = 0; version && k < version->n; k++)
    digits &= (version->p[k] >= '0' && version->p[k] <= '9') || version->p[k] == '"';
  NEED(v, i, digits, "A composite call op's composite.version must be a non-negative integer");
}

static void rule_custom_call(verifier *v, const hlo_instr *i) {
  hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  const hlo_shapes *want = hlo_attr_ptr(i, HLO_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  if (want) {
    NEED(v, i, want->n == i->noperands,
         "operand_layout_constraints gives %u shapes for %u operands", want->n, i->noperands);
    for (u32 k = 0; k < want->n; k++)
      NEED(v, i, infer_compatible(want->v[k], hlo_operand(i, k)->shape, 0),
           "operand_layout_constraints: operand %u is %s, but the constraint is %s", k,
           infer_text(hlo_operand(i, k)->shape), infer_text(want->v[k]));
  }
  if (hs_str_eq(target, HS_STR("GetRngSeed"))) {
    NEED(v, i, i->noperands == 0, "GetRngSeed custom-call must have 0 operands");
    NEED(v, i, i->shape->dtype == HLO_U64 && i->shape->rank == 0,
         "GetRngSeed custom-call must return U64 type");
  }
  verify_aliasing_attr(v, i);
}

// Entries {out index}: (operand, {operand index}): both exist and have the same shape. An
// async-start may name operands and results that are bound later: those are looked up in the
// wrapped computation.
static const hlo_shape *alias_operand(const hlo_instr *i, i64 k) {
  if (k < i->noperands) return hlo_operand(i, (u32)k)->shape;
  const hlo_computation *c = i->opcode == HLO_ASYNC_START ? hlo_attr_comp(i, HLO_ATTR_CALLS) : NULL;
  return c && k < c->nparams ? c->params[k]->shape : NULL;
}
static const hlo_shape *alias_result(const hlo_instr *i, hlo_ints index) {
  const hlo_computation *c = i->opcode == HLO_ASYNC_START ? hlo_attr_comp(i, HLO_ATTR_CALLS) : NULL;
  if (c && index.n && index.v[0] == 1)
    return hlo_shape_at(c->root->shape, (hlo_ints){index.n - 1, index.v + 1}, NULL);
  return hlo_shape_at(i->shape, index, NULL);
}
void verify_aliasing_attr(verifier *v, const hlo_instr *i) {
  const hlo_aliases *l = hlo_attr_ptr(i, HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  bool async = i->opcode == HLO_ASYNC_START || i->opcode == HLO_ASYNC_UPDATE;
  for (u32 k = 0; l && k < l->n; k++) {
    const hlo_alias_entry *a = &l->v[k];
    NEED(v, i, a->param >= 0, "Negative operand number in aliasing config.");
    const hlo_shape *x = alias_operand(i, a->param);
    if (async) {
      NEED(v, i, a->out_index.n, "Output index should not be empty.");
      NEED(v, i, x, "Invalid operand number in %s aliasing config", hlo_op_text(i->opcode));
    }
    NEED(v, i, x, "Invalid aliasing operand index.");
    const hlo_shape *in = hlo_shape_at(x, a->param_index, NULL),
                    *out = alias_result(i, a->out_index);
    NEED(v, i, in, "Invalid aliasing operand shape index.");
    NEED(v, i, out, "Invalid aliasing output shape index.");
    const hlo_shape *inner = in->dtype == HLO_BUFFER && in->elems ? in->elems[0] : in,
                    *outer = out->dtype == HLO_BUFFER && out->elems ? out->elems[0] : out;
    NEED(v, i, verify_same(v, inner, outer), "Different aliasing shapes: %s vs %s",
         verify_shape_text(v, in), verify_shape_text(v, out));
  }
}

// ---- one instruction ----------------------------------------------------------------------------
static void rules_of(verifier *v, const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_COMPARE: rule_compare(v, i); break;
  case HLO_BROADCAST: rule_broadcast(v, i); break;
  case HLO_IOTA: rule_iota(v, i); break;
  case HLO_CONSTANT: rule_constant(v, i); break;
  case HLO_BITCAST: rule_bitcast(v, i); break;
  case HLO_RNG: rule_rng(v, i); break;
  case HLO_RNG_BIT_GENERATOR: rule_rng_bits(v, i); break;
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE: rule_dynamic_slice_memory(v, i); break;
  case HLO_RESHAPE: rule_reshape(v, i); break;
  case HLO_FUSION:
    rule_fusion(v, i);
    verify_aliasing_attr(v, i);
    break;
  case HLO_CALL: rule_call(v, i); break;
  case HLO_CUSTOM_CALL: rule_custom_call(v, i); break;
  default: break;
  }
}

void verify_instr(verifier *v, const hlo_instr *i) {
  u32 before = v->nerrors;
  check_shape_itself(v, i, i->shape);
  check_inferred(v, i);
  if (v->nerrors != before) return;  // one complaint per instruction, the first cause
  if (hlo_op_has(i->opcode, HLO_F_ELEMENTWISE)) rule_elementwise(v, i);
  if (v->nerrors != before) return;
  rules_of(v, i);
  if (v->o.disallow_mixed_precision) check_precision(v, i);
  if (v->o.layout_sensitive) rule_layouts(v, i);
  if (v->o.call_threads && hlo_op_has(i->opcode, HLO_F_CALLS)) rule_call_threads(v, i);
  if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE) || i->opcode == HLO_COLLECTIVE_PERMUTE_START)
    verify_collective(v, i);
  verify_async(v, i);
  verify_sharding(v, i);
}
