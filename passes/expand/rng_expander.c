// rng_expander.c — rng-expander (xla/hlo/transforms/expanders/rng_expander.cc): rng becomes a
// call of a computation that makes its numbers by Philox (prng.h), one for each distribution and
// shapes.
//
// Philox needs a key and a counter. The counter is the program's (rng-get-and-update-state, which
// moves on by as many words as are made). The key is the program's seed, asked for at run time by a
// custom call, mixed with a number of the instruction and, where there are replicas, with theirs,
// so that two rngs and two devices make different numbers.
#include "passes/expand/prng.h"

#define GOLDEN_RATIO 0x9E3779B97F4A7C15ULL  // spreads small numbers over 64 bits

typedef struct made {
  i64 distribution;
  const hlo_shape *result, *a, *b;
  hlo_computation *comp;
} made;
typedef HS_VEC(made) made_list;

static const hlo_shape *u64_shape(const hlo_instr *like, u32 rank, const i64 *dims) {
  hlo_ctx *ctx = like->parent->module->ctx;
  const hlo_shape *s = hlo_shape_array(ctx, HLO_U64, rank, dims);
  return like->shape != like->shape->logical ? hlo_shape_fill_layout(ctx, s) : s;
}

static hlo_instr *key_of(hlo_computation *c, hlo_instr *op_seed) {
  hlo_instr *seed = hlo_add(c, HLO_CUSTOM_CALL, op_seed->shape, 0, NULL, NULL);
  hlo_set_attr_str(seed, HLO_ATTR_CUSTOM_CALL_TARGET, HS_STR("GetRngSeed"));
  hlo_instr *key = prng_binary(HLO_XOR, seed, op_seed);
  if (hlo_module_int(c->module, HLO_ATTR_REPLICA_COUNT, 1) <= 1) return key;
  const hlo_shape *u32_scalar = hlo_shape_with_dtype(c->module->ctx, op_seed->shape, HLO_U32);
  hlo_instr *replica = hlo_add(c, HLO_REPLICA_ID, u32_scalar, 0, NULL, NULL);
  return prng_binary(HLO_XOR, key, hlo_build_convert(replica, HLO_U64));
}

static hlo_computation *numbers(hlo_module *m, const hlo_instr *rng, const made *want) {
  hlo_computation *c = hlo_add_computation(m, "rng");
  hlo_instr *op_seed = hlo_add_parameter(c, 0, u64_shape(rng, 0, NULL), "op_seed"),
            *state = hlo_add_parameter(c, 1, u64_shape(rng, 1, &(i64){2}), "state"),
            *a = hlo_add_parameter(c, 2, want->a, "a_or_mean"),
            *b = hlo_add_parameter(c, 3, want->b, "b_or_sigma");
  hlo_instr *key = key_of(c, op_seed), *v;
  if (want->distribution == HLO_DISTRIBUTION_NORMAL) {
    v = prng_binary(HLO_MULTIPLY, b, prng_normal(key, state, want->result).value);
    v = prng_binary(HLO_ADD, a, v);
  } else {
    v = prng_uniform(key, state, a, b, want->result).value;
  }
  hlo_set_root(c, v);
  return c;
}

static hlo_computation *find(made_list *l, const hlo_instr *rng) {
  made want = {hlo_attr_int(rng, HLO_ATTR_DISTRIBUTION, HLO_DISTRIBUTION_UNIFORM), rng->shape,
               hlo_operand(rng, 0)->shape, hlo_operand(rng, 1)->shape, NULL};
  for (size_t k = 0; k < l->n; k++)
    if (l->v[k].distribution == want.distribution && l->v[k].result == want.result &&
        l->v[k].a == want.a && l->v[k].b == want.b)
      return l->v[k].comp;
  want.comp = numbers(rng->parent->module, rng, &want);
  hs_vec_push(l, want);
  return want.comp;
}

// The same rng on f32, for a type that is too narrow; converted back for the users.
static hlo_instr *widened(hlo_instr *rng, hs_arena *scratch) {
  hlo_instr **in = HS_NEW_ARRAY(scratch, hlo_instr *, rng->noperands + 1);
  for (u32 k = 0; k < rng->noperands; k++) in[k] = hlo_build_convert(hlo_operand(rng, k), HLO_F32);
  hlo_ctx *ctx = rng->parent->module->ctx;
  hlo_instr *wide = hlo_clone_instr(
      rng->parent, rng, hlo_shape_with_dtype(ctx, rng->shape, HLO_F32), rng->noperands, in);
  hlo_replace_uses(rng, hlo_build_convert(wide, rng->shape->dtype));
  return wide;
}

static const char *why_not(const hlo_instr *i) {
  hlo_dtype t = i->shape->dtype;
  bool normal = hlo_attr_int(i, HLO_ATTR_DISTRIBUTION, 0) == HLO_DISTRIBUTION_NORMAL,
       real = t == HLO_F16 || t == HLO_BF16 || t == HLO_F32 || t == HLO_F64,
       whole = hlo_dtype_is_integer(t) && hlo_dtype_bits(t) >= 32;
  if (!(real || (whole && !normal))) return "no numbers are made for this type and distribution";
  if (i->noperands < 2) return "it has no bounds";
  return hlo_shape_is_dynamic(i->shape) ? "its result has a dynamic dimension" : NULL;
}

static void expand(pass_ctx *c, hlo_instr *old, made_list *l) {
  bool narrow = hlo_dtype_bits(old->shape->dtype) < 32;
  hlo_instr *rng = narrow ? widened(old, c->scratch) : old;
  hlo_computation *comp = rng->parent;
  i64 words = hlo_dtype_bits(rng->shape->dtype) / 32;
  for (u32 d = 0; d < rng->shape->rank; d++) words *= rng->shape->dims[d];
  hlo_computation *f = find(l, rng);
  u64 number = (u64)rng->id * GOLDEN_RATIO >> 32;
  hlo_instr *seed = hlo_build_scalar_i64(comp, HLO_U64, (i64)number);
  hlo_instr *state =
      hlo_add(comp, HLO_RNG_GET_AND_UPDATE_STATE, f->params[1]->shape, 0, NULL, NULL);
  hlo_set_attr_int(state, HLO_ATTR_DELTA, words);
  hlo_instr *args[] = {seed, state, hlo_operand(rng, 0), hlo_operand(rng, 1)};
  hlo_instr *call = hlo_add_call(comp, HLO_CALL, rng->shape, HLO_ATTR_TO_APPLY, f, 4, args);
  if (rng->ctrl_preds) hlo_set_ctrl_preds(call, rng->ctrl_preds->n, rng->ctrl_preds->v);
  hlo_replace_uses(rng, call);
  // dead code elimination keeps what has a side effect
  hlo_set_ctrl_preds(rng, 0, NULL);
  hlo_remove(rng);
  if (!narrow) return;
  hlo_set_ctrl_preds(old, 0, NULL);
  hlo_remove(old);
}

static hs_status run(pass_ctx *c) {
  made_list l = {0};
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_RNG) continue;
      const char *why = why_not(i);
      if (why) {
        pass_note_declined(c, i, NULL, "%s", why);
        continue;
      }
      if (!pass_may_rewrite(c)) goto done;
      pass_note_done(c, i, NULL, "expanded to Philox");
      expand(c, i, &l);
    }
  }
done:
  hs_vec_free(&l);
  return HS_GOOD;
}

const pass_info pass_rng_expander = {
    .name = "rng-expander",
    .summary = "expands rng into Philox and a distribution",
    .xla_source = "xla/hlo/transforms/expanders/rng_expander.cc",
    .run = run,
    .needs = {HLO_RNG},
    .sample = "ENTRY e {\n"
              "  low = f32[] parameter(0)\n"
              "  ROOT r = f32[6] rng(low, low), distribution=rng_uniform\n"
              "}\n",
};
