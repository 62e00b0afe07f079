// async.c — what belongs to a chain of asynchronous instructions (async.h).
#include "core/ir/async.h"

enum { MAX_STEPS = 100000 };  // a chain in a text that is not verified yet may be anything

bool hlo_has_own_async(hlo_opcode op) {
  return op == HLO_ALL_GATHER || op == HLO_ALL_REDUCE || op == HLO_COLLECTIVE_PERMUTE ||
         op == HLO_COPY || op == HLO_RECV || op == HLO_SEND;
}

static const struct {
  hlo_opcode start, done;
} pairs[] = {{HLO_ALL_REDUCE_START, HLO_ALL_REDUCE_DONE},
             {HLO_ALL_GATHER_START, HLO_ALL_GATHER_DONE},
             {HLO_COLLECTIVE_PERMUTE_START, HLO_COLLECTIVE_PERMUTE_DONE},
             {HLO_COPY_START, HLO_COPY_DONE}};

hlo_opcode hlo_start_of(hlo_opcode done) {
  for (size_t k = 0; k < HS_COUNT(pairs); k++)
    if (pairs[k].done == done) return pairs[k].start;
  return HLO_OP_INVALID;
}

hlo_opcode hlo_done_of(hlo_opcode start) {
  for (size_t k = 0; k < HS_COUNT(pairs); k++)
    if (pairs[k].start == start) return pairs[k].done;
  return HLO_OP_INVALID;
}

hlo_instr *hlo_async_origin(hlo_instr *i, bool *lost) {
  HS_VEC(i64) path = {0};  // elements taken on the way, the innermost last
  hlo_instr *start = NULL;
  bool out = false;
  for (u32 steps = 0; i && !start && steps < MAX_STEPS; steps++) {
    switch (i->opcode) {
    case HLO_ASYNC_START: start = i; break;
    case HLO_ASYNC_UPDATE:
    case HLO_COPY:
    case HLO_OPT_BARRIER:
    case HLO_WHILE: i = i->noperands ? hlo_operand(i, 0) : NULL; break;
    case HLO_GET_TUPLE_ELEMENT:
      hs_vec_push(&path, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
      i = hlo_operand(i, 0);
      break;
    case HLO_TUPLE: {
      i64 k = path.n ? hs_vec_pop(&path) : -1;
      i = k >= 0 && k < i->noperands ? hlo_operand(i, (u32)k) : NULL;
      break;
    }
    default: i = NULL, out = true;
    }
  }
  hs_vec_free(&path);
  if (lost) *lost = out;
  return start;
}

hlo_computation *hlo_async_wrapped(const hlo_instr *i) {
  hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_CALLS);
  if (c || hlo_is(i, HLO_ASYNC_START)) return c;
  const hlo_instr *s = i->noperands ? hlo_async_origin(hlo_operand(i, 0), NULL) : NULL;
  return s ? hlo_attr_comp(s, HLO_ATTR_CALLS) : NULL;
}

void hlo_set_thread_deep(hlo_computation *c, hs_str thread) {
  if (hs_str_eq(thread, HS_STR("main"))) thread = (hs_str){0};
  HS_VEC(hlo_computation *) all = {0};
  hs_vec_push(&all, c);
  for (size_t at = 0; at < all.n; at++) {
    if (!hs_str_eq(all.v[at]->execution_thread, thread))
      hlo_set_execution_thread(all.v[at], thread);
    hlo_for_each_instr(i, all.v[at]) {
      if (hlo_is(i, HLO_ASYNC_START) && thread.n)
        hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_ASYNC_EXECUTION_THREAD, .v.s = thread});
      else if (hlo_is(i, HLO_ASYNC_START)) hlo_remove_attr(i, HLO_ATTR_ASYNC_EXECUTION_THREAD);
      for (u32 k = 0; k < hlo_ncalled(i); k++) {
        hlo_computation *callee = hlo_called(i, k);
        bool seen = false;
        for (size_t j = 0; j < all.n && !seen; j++) seen = all.v[j] == callee;
        if (!seen) hs_vec_push(&all, callee);
      }
    }
  }
  hs_vec_free(&all);
}
