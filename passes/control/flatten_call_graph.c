// flatten_call_graph.c — flatten-call-graph
// (xla/hlo/transforms/simplifiers/flatten_call_graph.cc): clones computations with several callers,
// reducers as well as loop bodies, so that every computation has a single caller and later passes
// may edit it.
//
// The first call site keeps the computation, every other gets a deep clone. Updates and dones of an
// asynchronous operation always name the computation of its start.
#include "passes/control/calls.h"

static hlo_computation *clone_of(const hlo_computation *x) {
  char *name = hs_format("%s.clone", x->name);
  hlo_computation *copy = hlo_clone_computation((hlo_computation *)x, name, NULL);
  hs_free(name);
  return copy;
}

// Updates and dones name the computation of their start.
static bool continues_async(const hlo_instr *i) {
  return i->opcode == HLO_ASYNC_UPDATE || i->opcode == HLO_ASYNC_DONE;
}

// Clones a computation and everything that it calls, except those with stays[id] (ids below
// `known`), which the clone shares with the original.
static hlo_computation *deep_clone(hlo_computation *x, hs_arena *a, u32 known, const bool *stays) {
  hlo_computation *top = clone_of(x);
  HS_VEC(hlo_computation *) work = {0};
  hs_vec_push(&work, top);
  while (work.n) {
    hlo_computation *y = hs_vec_pop(&work);
    hlo_for_each_instr(i, y) {
      if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
      hlo_computation **v;
      u32 n;
      pass_called_all(i, a, &v, &n);
      for (u32 k = 0; k < n && !continues_async(i); k++) {
        if (v[k]->id < known && stays[v[k]->id]) continue;
        hlo_computation *copy = clone_of(v[k]);
        pass_set_called(i, k, copy);
        hs_vec_push(&work, copy);
      }
    }
  }
  hs_vec_free(&work);
  return top;
}

// Computations that stay shared, by id. calls: those whose callers are all call instructions;
// plain: those without an asynchronous caller, directly or not.
static bool *find_shared(pass_ctx *c, bool calls, bool plain, u32 n,
                         hlo_computation *const *callees_first, const pass_call_sites *all) {
  bool *stays = HS_NEW_ARRAY(c->scratch, bool, c->m->next_comp_id + 1);
  for (u32 k = n; k-- > 0;) {
    u32 id = callees_first[k]->id;
    bool only_calls = true, async = false;
    for (u32 j = all->start[id]; j < all->start[id + 1]; j++) {
      const hlo_instr *i = all->sites[j].i;
      only_calls &= i->opcode == HLO_CALL;
      async |= i->opcode == HLO_ASYNC_START || continues_async(i) ||
               (plain && i->parent != c->m->entry && !stays[i->parent->id]);
    }
    stays[id] = (calls && only_calls) || (plain && !async);
  }
  return stays;
}

// Makes updates and dones name the computation that their start names now.
static void follow_starts(hlo_module *m, hs_arena *a) {
  hlo_for_each_comp(x, m)
    hlo_for_each_instr(i, x) {
      if (!hlo_op_has(i->opcode, HLO_F_CALLS)) continue;
      const hlo_instr *start = i;
      while (continues_async(start) && start->noperands) start = hlo_operand(start, 0);
      hlo_computation **v, **now;
      u32 n, nnow;
      if (start == i || start->opcode != HLO_ASYNC_START) continue;
      pass_called_all(i, a, &v, &n);
      pass_called_all(start, a, &now, &nnow);
      for (u32 k = 0; k < n && k < nnow; k++)
        if (v[k] != now[k]) pass_set_called(i, k, now[k]);
    }
}

static bool has_own(const hlo_instr *i) { return !continues_async(i); }

// An instruction that names a computation more than once gets a clone for each occurrence.
hs_status pass_flatten_calls(pass_ctx *c, bool skip_calls, bool skip_non_async) {
  hlo_module *m = c->m;
  if (m->ncomputations < 2) return HS_GOOD;
  if (!skip_calls && !skip_non_async) HS_TRY(hlo_check_expansion(m, has_own, "flatten-call-graph"));
  u32 n, nfirst, known = m->next_comp_id;
  hlo_computation **order = pass_comp_post_order(c, &n),
                  **callees_first = pass_comp_callees_first(c, &nfirst);
  pass_call_sites all = pass_find_sites(c);
  bool *stays = find_shared(c, skip_calls, skip_non_async, nfirst, callees_first, &all);
  for (u32 k = 0; k < n; k++) {
    hlo_computation *x = order[k];
    u32 from = all.start[x->id], to = all.start[x->id + 1];
    const hlo_instr *first = NULL;
    if (stays[x->id]) continue;
    for (u32 j = from; j < to; j++) {
      const pass_call_site *s = &all.sites[j];
      if (continues_async(s->i)) continue;
      bool twice =
          (j + 1 < to && all.sites[j + 1].i == s->i) || (j > from && all.sites[j - 1].i == s->i);
      if (!first) first = s->i;
      if (first == s->i && !twice) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, s->i, NULL, "%s cloned for this caller", x->name);
      pass_set_called(s->i, s->slot, deep_clone(x, c->scratch, known, stays));
    }
    HS_TRY(hs_poll());
  }
  if (m->nops[HLO_ASYNC_START]) follow_starts(m, c->scratch);
  return HS_GOOD;
}

static hs_status run(pass_ctx *c) {
  return pass_flatten_calls(c, pass_option_bool(c, "skip_cloning_for_calls"),
                            pass_option_bool(c, "skip_cloning_for_non_async"));
}

static const pass_option_info options[] = {
    {"skip_cloning_for_calls", PASS_BOOL, "false",
     "keep computations shared whose callers are all calls"},
    {"skip_cloning_for_non_async", PASS_BOOL, "false",
     "keep computations shared that have no asynchronous caller"},
};

const pass_info pass_flatten_call_graph = {
    .name = "flatten-call-graph",
    .summary = "gives every caller its own computations",
    .xla_source = "xla/hlo/transforms/simplifiers/flatten_call_graph.cc",
    .run = run,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "f {\n"
              "  a = f32[4] parameter(0)\n"
              "  ROOT b = f32[4] cosine(a)\n"
              "}\n"
              "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  y = f32[4] call(x), to_apply=f\n"
              "  ROOT z = f32[4] call(y), to_apply=f\n"
              "}\n",
};
