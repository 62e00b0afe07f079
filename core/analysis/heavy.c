// heavy.c — fusions that are too much for one kernel of loops over their results.
//
// Modules that XLA has optimized hold fusions made for its own libraries: a dot with what follows
// it, a whole attention. Loops over the result would compute such a dot element by element, without
// blocks that stay in cache. A CPU runs the body's instructions instead, each dot, convolution and
// long window with a kernel of its own; the code generator and the estimator ask here which fusions
// these are.
//
// So are bodies that read their own values at more and more places: steps that each add to a value
// the same value shifted. Loops evaluate a value once for each index that it is asked at, and the
// number of these doubles with every step.
#include "core/analysis/cost.h"

// Whether its own kernel is so much faster than loops within a fusion that it is worth a pass
// through memory.
static bool is_heavy(const hlo_instr *i) {
  enum { FEW_FLOPS = 1 << 15, LONG_WINDOW = 64 };
  switch (i->opcode) {
  case HLO_DOT:
  case HLO_CONVOLUTION: return hlo_cost_instr(i).flops > FEW_FLOPS;
  case HLO_REDUCE_WINDOW:
    return hlo_shape_is_array(i->shape) &&
           hlo_cost_instr(i).flops > HS_MAX(FEW_FLOPS, LONG_WINDOW * (double)i->shape->elements);
  default: return false;
  }
}

// ---- values that are asked at many indices ------------------------------------------------------
// An index is the path of instructions that changed it, as a hash; RESULT: that of the results.
typedef HS_VEC(u64) indices;
enum { RESULT = 1, MOST_EVALUATED = 1024, MOST_TIMES = 4 };

// What loops over a body's results evaluate, and how many instructions it has, those of fusions in
// it too. asked: at which indices each parameter is read; NULL: at those of the results only.
typedef struct body_reads {
  size_t evaluated, size;
  u32 nparams;
  indices *asked;
} body_reads;

static void insert(indices *v, u64 index) {
  for (size_t k = 0; k < v->n; k++)
    if (v->v[k] == index) return;
  hs_vec_push(v, index);
}

static bool keeps_index(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || hlo_op_has(i->opcode, HLO_F_FREE) ||
         i->opcode == HLO_RESHAPE || i->opcode == HLO_COPY;
}

// Where `i`, at an index, asks its operand.
static u64 index_behind(const hlo_instr *i, u32 operand, u64 index) {
  if (hlo_operand(i, operand)->shape->elements == 1) return 0;  // there is no other
  if (keeps_index(i)) return index;
  if (i->opcode != HLO_REVERSE) return hs_mix(hs_mix(index, i->id + 1), operand);
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  u64 h = HLO_REVERSE;
  for (u32 k = 0; k < d.n; k++) h = hs_mix(h, (u64)d.v[k]);
  return index ^ h;  // twice is where it was
}

// `i`, asked at an index, asks its operand o, whose list is `to`.
static void ask(const hlo_instr *i, u32 o, u64 index, const body_reads *of, indices *to) {
  const body_reads *inner = i->opcode == HLO_FUSION ? &of[hlo_fusion_comp(i)->id] : NULL;
  if (!inner) insert(to, index_behind(i, o, index));
  else if (!inner->asked) insert(to, index);
  else
    for (size_t k = 0; o < inner->nparams && k < inner->asked[o].n; k++) {
      u64 x = inner->asked[o].v[k];
      insert(to, x == RESULT ? index : x ? hs_mix(index, x) : 0);
    }
}

// More evaluations than this are too many: a long body may have as many anyway.
static size_t most_evaluated(const body_reads *r) {
  return HS_MAX((size_t)MOST_EVALUATED, MOST_TIMES * r->size);
}

// What evaluating an instruction once evaluates: of a fusion, its body.
static size_t evaluated_by(const hlo_instr *i, const body_reads *of) {
  return i->opcode == HLO_FUSION ? of[hlo_fusion_comp(i)->id].evaluated
                                 : i->opcode != HLO_PARAMETER;
}

static body_reads reads_of(const hlo_computation *c, const body_reads *of, hs_arena *keep) {
  body_reads r = {.nparams = c->nparams};
  bool keeps = true;
  hlo_for_each_instr(i, c) {
    const body_reads *inner = i->opcode == HLO_FUSION ? &of[hlo_fusion_comp(i)->id] : NULL;
    r.size += inner ? inner->size : i->opcode != HLO_PARAMETER;
    r.evaluated += evaluated_by(i, of);
    keeps &= inner ? !inner->asked : keeps_index(i);
  }
  if (keeps) return r;
  hs_arena a = {0};
  u32 n = c->ninstrs;
  hlo_instr **order = hlo_post_order(c, &a);
  hlo_positions at = hlo_positions_in(n, order, &a);
  indices *asked = HS_NEW_ARRAY(&a, indices, n + 1);
  insert(&asked[hlo_position_of(&at, c->root)], RESULT);
  r.evaluated = 0;
  for (u32 k = n; k-- > 0 && r.evaluated <= most_evaluated(&r) && !hs_stops(k);) {
    const hlo_instr *i = order[k];
    r.evaluated += asked[k].n * evaluated_by(i, of);
    for (u32 o = 0; o < i->noperands; o++)
      for (size_t j = 0; j < asked[k].n; j++)
        ask(i, o, asked[k].v[j], of, &asked[hlo_position_of(&at, hlo_operand(i, o))]);
  }
  r.asked = HS_NEW_ARRAY(keep, indices, r.nparams + 1);
  for (u32 p = 0; p < r.nparams; p++) {
    indices *v = &asked[hlo_position_of(&at, c->params[p])];
    r.asked[p] = *v;
    *v = (indices){0};
  }
  for (u32 k = 0; k < n; k++) hs_vec_free(&asked[k]);
  hs_arena_free(&a);
  return r;
}

bool *hlo_heavy_bodies(const hlo_module *m, hs_arena *a) {
  u32 n;
  hlo_computation **order = hlo_comp_callees_first(m, a, &n);
  bool *heavy = HS_NEW_ARRAY(a, bool, m->next_comp_id + 1);
  body_reads *of = HS_NEW_ARRAY(a, body_reads, m->next_comp_id + 1);
  for (u32 k = 0; k < n && !hs_interrupted(); k++) {
    u32 id = order[k]->id;
    if (hlo_is_fusion_comp(order[k])) of[id] = reads_of(order[k], of, a);
    heavy[id] = of[id].evaluated > most_evaluated(&of[id]);
    hlo_for_each_instr(i, order[k])
      heavy[id] |= i->opcode == HLO_FUSION ? heavy[hlo_fusion_comp(i)->id] : is_heavy(i);
  }
  for (u32 k = 0; k < n; k++)
    for (u32 p = 0; of[order[k]->id].asked && p < of[order[k]->id].nparams; p++)
      hs_vec_free(&of[order[k]->id].asked[p]);
  return heavy;
}
