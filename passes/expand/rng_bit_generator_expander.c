// rng_bit_generator_expander.c — rng-bit-generator-expander
// (xla/hlo/transforms/expanders/rng_bit_generator_expander.cc): a call of a computation that makes
// the bits by ThreeFry or Philox (prng.h), one for each pair of shapes and algorithm.
//
// The state of ThreeFry is a key and a counter, that of Philox a key and a counter of two words, or
// of one: then the counter is the whole state, reversed. From a longer state XLA makes a call whose
// result is not what the computation returns, which is no valid module; so does this pass when it
// is asked to, for those who compare with XLA's.
#include "passes/expand/prng.h"

typedef struct made {
  const hlo_shape *state, *data;
  i64 algorithm;
  hlo_computation *comp;
} made;
typedef HS_VEC(made) made_list;

static hlo_computation *generator(hlo_module *m, const made *want) {
  hlo_computation *c = hlo_add_computation(m, "rng");
  hlo_instr *state = hlo_add_parameter(c, 0, want->state, "state");
  i64 words = want->state->dims[0];
  hlo_instr *key = hlo_build_slice(state, &(i64){0}, &(i64){1}, NULL);
  key = hlo_build_reshape(key, 0, NULL);
  prng_out out;
  if (want->algorithm == HLO_RNG_ALGORITHM_THREE_FRY) {
    hlo_instr *counter = hlo_build_slice(state, &(i64){1}, &(i64){2}, NULL);
    out = prng_three_fry(key, counter, want->data);
  } else {
    hlo_instr *counter = words >= 3 ? hlo_build_slice(state, &(i64){1}, &(i64){3}, NULL)
                                    : hlo_build_reverse(state, 1, &(i64){0});
    out = prng_philox(key, counter, want->data);
    if (words < 3) out.state = hlo_build_slice(out.state, &(i64){0}, &(i64){1}, NULL);
  }
  // the bits are unsigned; other types of the same width have them as they are
  if (out.value->shape->dtype != want->data->dtype)
    out.value = hlo_add(c, HLO_BITCAST_CONVERT, want->data, 1, &out.value, NULL);
  hlo_instr *parts[] = {hlo_build_reshape(key, 1, &(i64){1}), out.state};
  hlo_instr *both[] = {hlo_build_concatenate(2, parts, 0), out.value};
  hlo_set_root(c, hlo_add_tuple(c, 2, both));
  return c;
}

static const char *why_not(const hlo_instr *i, i64 algorithm, bool any_state) {
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  if (!hlo_shape_is_tuple(i->shape) || i->shape->nelems != 2) return "its result is no pair";
  const hlo_shape *data = i->shape->elems[1];
  u32 bits = (u32)hlo_dtype_bits(data->dtype);
  if (s->rank != 1 || s->dtype != HLO_U64 || s->dims[0] < 2)
    return "its state is not u64[2] or more";
  if (s->dims[0] > (algorithm == HLO_RNG_ALGORITHM_PHILOX ? 3 : 2) && !any_state)
    return "its state is longer than that of the algorithm";
  if (hlo_dtype_is_complex(data->dtype) || data->dtype == HLO_PRED || bits < 8)
    return "no bits are made for this type";
  if (hlo_shape_is_dynamic(data)) return "its result has a dynamic dimension";
  return NULL;
}

static hlo_computation *find(made_list *l, hlo_module *m, made want) {
  for (size_t k = 0; k < l->n; k++)
    if (l->v[k].state == want.state && l->v[k].data == want.data &&
        l->v[k].algorithm == want.algorithm)
      return l->v[k].comp;
  want.comp = generator(m, &want);
  hs_vec_push(l, want);
  return want.comp;
}

static hs_status run(pass_ctx *c) {
  i64 absent =
      pass_option_bool(c, "three_fry") ? HLO_RNG_ALGORITHM_THREE_FRY : HLO_RNG_ALGORITHM_PHILOX;
  bool any_state = pass_option_bool(c, "any_state");
  made_list l = {0};
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_RNG_BIT_GENERATOR) continue;
      i64 algorithm = hlo_attr_int(i, HLO_ATTR_RNG_ALGORITHM, HLO_RNG_ALGORITHM_DEFAULT);
      if (algorithm == HLO_RNG_ALGORITHM_DEFAULT) algorithm = absent;
      const char *why = why_not(i, algorithm, any_state);
      if (why) {
        pass_note_declined(c, i, NULL, "%s", why);
        continue;
      }
      if (!pass_may_rewrite(c)) goto done;
      hlo_instr *state = hlo_operand(i, 0);
      made want = {state->shape, i->shape->elems[1], algorithm, NULL};
      pass_note_done(c, i, NULL, "expanded to %s",
                     algorithm == HLO_RNG_ALGORITHM_PHILOX ? "Philox" : "ThreeFry");
      hlo_instr *call = hlo_add_call(comp, HLO_CALL, i->shape, HLO_ATTR_TO_APPLY,
                                     find(&l, c->m, want), 1, &state);
      hlo_replace(i, call);
    }
  }
done:
  hs_vec_free(&l);
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"three_fry", PASS_BOOL, "false", "rng_default stands for ThreeFry, else for Philox"},
    {"any_state", PASS_BOOL, "false",
     "expand from longer states too, though the call is not valid"},
};

const pass_info pass_rng_bit_generator_expander = {
    .name = "rng-bit-generator-expander",
    .summary = "expands rng-bit-generator into ThreeFry or Philox",
    .xla_source = "xla/hlo/transforms/expanders/rng_bit_generator_expander.cc",
    .run = run,
    .needs = {HLO_RNG_BIT_GENERATOR},
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  s = u64[2] parameter(0)\n"
              "  ROOT r = (u64[2], u32[6]) rng-bit-generator(s), algorithm=rng_three_fry\n"
              "}\n",
};
