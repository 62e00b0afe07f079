// diverge.c: see diverge.h.
//
// The instructions of a computation are put together into one module, each between its own
// parameters and results, so that a chunk of hundreds of them takes one compilation. When a backend
// fails on a chunk, the chunk is halved, down to the instruction that the backend cannot run.
// Chunks have a limit in bytes; the evaluator runs once per chunk and keeps only that chunk's
// values.
#include "backends/ffi.h"
#include "repl/debug/diverge.h"

#include <stdlib.h>

#include "core/analysis/agree.h"
#include "core/types/stats.h"

enum { CHUNK_INSTRS = 400, MAX_DEPTH = 16 };
#define CHUNK_BYTES ((i64)1 << 29)

typedef struct search {
  repl_cmd *c;
  const hlo_module *m;
  const backend *test, *ref;
  hlo_tolerance tol;
  divergence *d;
  bool found;
  // the first diverging instruction so far, with its values (references)
  const hlo_instr *instr;
  hlo_literal *want, *got, **operands;
} search;

static void drop_culprit(search *h) {
  for (u32 k = 0; h->operands && k < h->instr->noperands; k++) hlo_literal_unref(h->operands[k]);
  hs_free(h->operands);
  hlo_literal_unref(h->want);
  hlo_literal_unref(h->got);
  h->operands = NULL;
  h->want = h->got = NULL;
  h->instr = NULL;
}

static bool is_interp(const backend *b) { return backend_has(b, BACKEND_EVALUATOR); }

// Whether an instruction can be compared by itself: it computes something, deterministically,
// without other devices or the host.
static bool testable(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_PARAMETER:
  case HLO_CONSTANT:
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_AFTER_ALL:
  case HLO_OPT_BARRIER:
  case HLO_DOMAIN:
  case HLO_ADD_DEPENDENCY:
  case HLO_RNG:
  case HLO_RNG_GET_AND_UPDATE_STATE:
  case HLO_PARTITION_ID:
  case HLO_REPLICA_ID: return false;
  default: break;
  }
  if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE) || hlo_has_side_effect(i) ||
      !hlo_shape_leaves(i->shape))
    return false;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *s = hlo_operand(i, k)->shape;
    for (u32 l = 0; l < hlo_shape_leaves(s); l++)
      if (!hlo_shape_is_array(hlo_shape_leaf(s, l))) return false;
  }
  for (u32 l = 0; l < hlo_shape_leaves(i->shape); l++)
    if (!hlo_shape_is_array(hlo_shape_leaf(i->shape, l))) return false;
  return true;
}

// ---- the evaluator's values ---------------------------------------------------------------------
typedef struct keeper {
  const hlo_computation *comp;
  const bool *wanted;
  hlo_literal **value;
  u32 n;
  u64 count;
  repl_out *out;
} keeper;

static hs_status keep(void *arg, const hlo_observation *o) {
  keeper *k = arg;
  if ((++k->count & 63) == 0 && repl_progress_due(k->out))
    repl_progress_text(k->out, "looking for the first difference: %llu instructions evaluated",
                       (unsigned long long)k->count);
  if (o->site || o->instr->parent != k->comp || o->instr->id >= k->n || !k->wanted[o->instr->id])
    return HS_GOOD;
  hlo_literal_unref(k->value[o->instr->id]);
  k->value[o->instr->id] = hlo_literal_ref(o->value);
  return HS_GOOD;
}

static hs_status evaluate(search *h, const hlo_computation *comp, u32 n, hlo_literal *const *args,
                          hs_status (*see)(void *, const hlo_observation *), void *arg) {
  hlo_eval_options eo = {.peer = &ffi_peer,
                         .keep_denormals = h->c->s->set.keep_denormals,
                         .observe = see,
                         .observe_arg = arg};
  hlo_literal *out = NULL;
  hs_status s = comp == h->m->entry ? hlo_eval_module(h->m, n, args, &eo, &out)
                                    : hlo_eval_computation(comp, n, args, &eo, &out);
  hlo_literal_unref(out);
  return s;
}

// ---- one chunk ----------------------------------------------------------------------------------
static hs_status differs(search *h, const hlo_instr *i, const hlo_literal *want,
                         const hlo_literal *got, bool *yes) {
  hlo_comparisons list;
  HS_TRY(hlo_agree_leaves(i, want, got, h->tol, &list));
  *yes = false;
  for (size_t k = 0; k < list.n; k++) *yes |= list.v[k].mismatches > 0;
  hlo_comparisons_free(&list);
  return HS_GOOD;
}

static void set_culprit(search *h, const hlo_instr *i, hlo_literal *const *value,
                        const hlo_literal *want, const hlo_literal *got) {
  drop_culprit(h);
  h->found = true;
  h->instr = i;
  h->want = hlo_literal_ref(want);
  h->got = hlo_literal_ref(got);
  h->operands = hs_calloc(i->noperands + 1, sizeof(hlo_literal *));
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *d = hlo_operand(i, k);
    h->operands[k] =
        hlo_literal_ref(d->opcode == HLO_CONSTANT ? hlo_constant_value(d) : value[d->id]);
  }
}

static hs_status try_chunk(search *h, u32 n, hlo_instr *const *chosen, hlo_literal *const *value);

// After the backend failed on a chunk: tries its halves, or reports its only instruction.
static hs_status narrow(search *h, u32 n, hlo_instr *const *chosen, hlo_literal *const *value,
                        hs_status failed) {
  if (hs_is_stop(failed)) return failed;
  if (n > 1) {
    hs_status_drop(failed);
    HS_TRY(try_chunk(h, n / 2, chosen, value));
    return h->found ? HS_GOOD : try_chunk(h, n - n / 2, chosen + n / 2, value);
  }
  set_culprit(h, chosen[0], value, value[chosen[0]->id], NULL);
  hs_free(h->d->failure);
  h->d->failure = hs_strdup(failed.err->message);
  hs_status_drop(failed);
  return HS_GOOD;
}

static hs_status try_chunk(search *h, u32 n, hlo_instr *const *chosen, hlo_literal *const *value) {
  hlo_module *part;
  u32 nops;
  const hlo_instr **ops;
  HS_TRY(cut_instructions(h->m, n, chosen, false, &part, &nops, &ops));
  hlo_literal **args = hs_calloc(nops + 1, sizeof *args), *got = NULL, *want = NULL;
  for (u32 k = 0; k < nops; k++) args[k] = value[ops[k]->id];
  hs_status s = cut_run(h->c, h->test, part, nops, args, &got);
  if (hs_ok(s) && !is_interp(h->ref)) s = cut_run(h->c, h->ref, part, nops, args, &want);
  if (!hs_ok(s)) s = narrow(h, n, chosen, value, s);
  else
    for (u32 k = 0; k < n && hs_ok(s) && !h->found; k++) {
      const hlo_literal *w = want ? want->children[k] : value[chosen[k]->id];
      bool yes = false;
      s = differs(h, chosen[k], w, got->children[k], &yes);
      if (hs_ok(s) && yes) set_culprit(h, chosen[k], value, w, got->children[k]);
    }
  hlo_literal_unref(got);
  hlo_literal_unref(want);
  hs_free(args);
  hs_free(ops);
  hlo_module_free(part);
  return s;
}

// ---- one computation ----------------------------------------------------------------------------
static i64 bytes_around(const hlo_instr *i) {
  i64 n = hlo_shape_bytes(i->shape);
  for (u32 k = 0; k < i->noperands; k++)
    n = hs_add_sat_i64(n, hlo_shape_bytes(hlo_operand(i, k)->shape));
  return n;
}

// The values of the chosen instructions and of their operands.
static hs_status gather(search *h, const hlo_computation *comp, u32 nargs, hlo_literal *const *args,
                        u32 n, hlo_instr *const *chosen, hlo_literal **value) {
  bool *wanted = hs_calloc(h->m->next_instr_id + 1, sizeof *wanted);
  for (u32 k = 0; k < n; k++) {
    wanted[chosen[k]->id] = true;
    for (u32 j = 0; j < chosen[k]->noperands; j++) wanted[hlo_operand(chosen[k], j)->id] = true;
  }
  keeper kp = {
      .comp = comp, .wanted = wanted, .value = value, .n = h->m->next_instr_id, .out = h->c->out};
  hs_status s = evaluate(h, comp, nargs, args, keep, &kp);
  hs_free(wanted);
  return s;
}

// What was not evaluated (nothing needs it) has no values to compare.
static u32 only_evaluated(u32 n, hlo_instr **chosen, hlo_literal *const *value) {
  u32 kept = 0;
  for (u32 k = 0; k < n; k++) {
    bool all = value[chosen[k]->id] != NULL;
    for (u32 j = 0; j < chosen[k]->noperands && all; j++)
      all =
          hlo_operand(chosen[k], j)->opcode == HLO_CONSTANT || value[hlo_operand(chosen[k], j)->id];
    if (all) chosen[kept++] = chosen[k];
  }
  return kept;
}

typedef hs_status chunk_fn(search *, u32 n, hlo_instr *const *chosen, hlo_literal *const *value);

static hs_status each_chunk(search *h, const hlo_computation *comp, u32 nargs,
                            hlo_literal *const *args, chunk_fn *fn) {
  hs_arena arena = {0};
  hlo_instr **order = hlo_post_order(comp, &arena),
            **chosen = HS_NEW_ARRAY(&arena, hlo_instr *, comp->ninstrs + 1);
  hs_status s = HS_GOOD;
  for (u32 at = 0; at < comp->ninstrs && hs_ok(s) && !h->found;) {
    u32 n = 0;
    i64 bytes = 0;
    for (; at < comp->ninstrs && n < CHUNK_INSTRS && (n == 0 || bytes < CHUNK_BYTES); at++)
      if (testable(order[at])) chosen[n++] = order[at], bytes += bytes_around(order[at]);
    if (!n) break;
    hlo_literal **value = hs_calloc(h->m->next_instr_id + 1, sizeof *value);
    s = gather(h, comp, nargs, args, n, chosen, value);
    if (hs_ok(s)) n = only_evaluated(n, chosen, value);
    if (hs_ok(s) && n) s = fn(h, n, chosen, value);
    for (u32 k = 0; k < h->m->next_instr_id; k++) hlo_literal_unref(value[k]);
    hs_free(value);
    if (hs_ok(s)) s = hs_poll();
  }
  hs_arena_free(&arena);
  return s;
}

// ---- inside loops, calls, branches and fusions --------------------------------------------------
typedef struct inside {
  search *h;
  const hlo_instr *caller;
  const hlo_computation *comp;  // that was entered
  hlo_literal **args;
  u32 nargs;
  i64 iteration;
  backend_exe *exe;  // the loop's body on the tested backend
  bool hit;
} inside;

static void drop_args(inside *in) {
  for (u32 k = 0; k < in->nargs; k++) hlo_literal_unref(in->args[k]);
  hs_free(in->args);
  in->args = NULL;
  in->nargs = 0;
}

static hs_status body_differs(inside *in, const hlo_literal *want, bool *yes) {
  search *h = in->h;
  if (!in->exe) {
    hlo_module *m = cut_computation(h->m, in->comp);
    backend_options bo = repl_backend_options(h->c->s);
    hs_status s = h->test->compile(m, &bo, &in->exe);
    hlo_module_free(m);
    HS_TRY(s);
  }
  backend_run_options o = {.min_runs = 1, .max_runs = 1, .want_outputs = true};
  backend_result r = {0};
  hs_status s = h->test->run(in->exe, in->nargs, in->args, &o, &r);
  if (hs_ok(s)) s = differs(h, in->caller, want, r.outputs, yes);
  backend_result_free(&r);
  return s;
}

static hs_status see_inside(void *arg, const hlo_observation *o) {
  inside *in = arg;
  const hlo_computation *comp = o->instr->parent;
  if (!o->site || o->site->outer || o->site->caller != in->caller) return HS_GOOD;
  if (in->caller->opcode == HLO_WHILE && comp != hlo_attr_comp(in->caller, HLO_ATTR_BODY))
    return HS_GOOD;
  if (o->instr->opcode == HLO_PARAMETER) {
    if (in->comp != comp || in->iteration != o->site->iteration) {
      drop_args(in);
      in->comp = comp;
      in->iteration = o->site->iteration;
      in->nargs = comp->nparams;
      in->args = hs_calloc(comp->nparams + 1, sizeof(hlo_literal *));
    }
    u64 k = (u64)hlo_param_number(o->instr);
    hlo_literal_unref(in->args[k]);
    in->args[k] = hlo_literal_ref(o->value);
    return HS_GOOD;
  }
  if (o->instr != comp->root || in->comp != comp) return HS_GOOD;
  in->hit = true;
  if (in->caller->opcode == HLO_WHILE) HS_TRY(body_differs(in, o->value, &in->hit));
  return in->hit ? hs_fail(HS_E_DIFFER, "found") : HS_GOOD;
}

static hs_status search_computation(search *h, const hlo_computation *comp, u32 nargs,
                                    hlo_literal *const *args, u32 depth);

static hs_status descend(search *h, const hlo_computation *comp, u32 nargs,
                         hlo_literal *const *args, u32 depth) {
  const hlo_instr *i = h->instr;
  if (depth >= MAX_DEPTH || (i->opcode != HLO_WHILE && i->opcode != HLO_CALL &&
                             i->opcode != HLO_CONDITIONAL && i->opcode != HLO_FUSION))
    return HS_GOOD;
  inside in = {.h = h, .caller = i, .iteration = -2};
  hs_status s = evaluate(h, comp, nargs, args, see_inside, &in);
  if (!hs_ok(s) && s.err->code == HS_E_DIFFER) hs_status_drop(s), s = HS_GOOD;
  bool usable = hs_ok(s) && in.hit;
  // parameters that nothing needs have no value
  for (u32 k = 0; usable && k < in.nargs; k++) usable = in.args[k] != NULL;
  if (usable) {
    search inner = *h;
    inner.found = false;
    inner.instr = NULL;
    inner.want = inner.got = NULL;
    inner.operands = NULL;
    char *outer_failure = h->d->failure;
    h->d->failure = NULL;
    s = search_computation(&inner, in.comp, in.nargs, in.args, depth + 1);
    if (hs_ok(s) && inner.found) {
      hs_buf place = {0};
      hs_buf_printf(&place, "%s", in.comp->name);
      if (in.iteration >= 0)
        hs_buf_printf(&place, ", iteration %lld of %%%s", (long long)in.iteration, i->name);
      else hs_buf_printf(&place, ", called by %%%s", i->name);
      char *deeper = h->d->place;
      h->d->place = deeper ? hs_format("%s; %s", deeper, hs_buf_cstr(&place))
                           : hs_strdup(hs_buf_cstr(&place));
      hs_free(deeper);
      hs_buf_free(&place);
      drop_culprit(h);
      *h = inner;
      hs_free(outer_failure);
    } else {
      hs_free(h->d->failure);
      h->d->failure = outer_failure;
    }
  }
  if (in.exe) h->test->release(in.exe);
  drop_args(&in);
  return s;
}

static hs_status search_computation(search *h, const hlo_computation *comp, u32 nargs,
                                    hlo_literal *const *args, u32 depth) {
  HS_TRY(each_chunk(h, comp, nargs, args, try_chunk));
  return h->found ? descend(h, comp, nargs, args, depth) : HS_GOOD;
}

// ---- when no instruction differs by itself ------------------------------------------------------
static hs_status whole_chunk(search *h, u32 n, hlo_instr *const *chosen,
                             hlo_literal *const *value) {
  hlo_module *m = hlo_module_clone(h->m, h->m->name);
  hlo_journal_disable(m);
  hlo_instr **mine = hs_calloc(n + 1, sizeof *mine);
  for (u32 k = 0; k < n; k++) mine[k] = hlo_find_instr(m, chosen[k]->name);
  cut_add_results(m, n, mine);
  hlo_literal *got = NULL;
  hs_status s = cut_run(h->c, h->test, m, h->c->mod->ninputs, h->c->mod->inputs, &got);
  for (u32 k = 0; k < n && hs_ok(s) && !h->found; k++) {
    bool yes = false;
    s = differs(h, chosen[k], value[chosen[k]->id], got->children[k + 1], &yes);
    if (hs_ok(s) && yes)
      set_culprit(h, chosen[k], value, value[chosen[k]->id], got->children[k + 1]);
  }
  hlo_literal_unref(got);
  hs_free(mine);
  hlo_module_free(m);
  return s;
}

// ---- the report ---------------------------------------------------------------------------------
static void describe_operand(hs_buf *b, const search *h, u32 k, const hlo_comparison *worst) {
  const hlo_literal *v = h->operands[k];
  hs_buf_printf(b, "  operand %u, %%%s: ", k, hlo_operand(h->instr, k)->name);
  if (v) hlo_shape_print(b, v->shape, false);
  if (v && hlo_shape_is_array(v->shape)) {
    hlo_stats s = hlo_literal_stats(v);
    bool same = worst && hlo_op_has(h->instr->opcode, HLO_F_ELEMENTWISE) &&
                v->shape->elements == worst->shape->elements;
    if (same || v->shape->elements == 1)
      hs_buf_printf(b, " %.9g there,", hlo_literal_f64(v, same ? worst->top[0].at : 0));
    hs_buf_printf(b, " from %g to %g", s.min, s.max);
    if (s.nan) hs_buf_printf(b, ", %lld NaN", (long long)s.nan);
    if (s.inf) hs_buf_printf(b, ", %lld infinite", (long long)s.inf);
  }
  hs_buf_putc(b, '\n');
}

// Whether all that differs is one step of a type narrower than what is computed in: two values that
// differ in their last digits were rounded to neighbours.
static bool rounded_apart(const hlo_comparison *c) {
  hlo_dtype t = hlo_dtype_real_part(c->shape->dtype);
  return hlo_dtype_is_float(t) && hlo_dtype_bits(t) < 32 && c->max_ulp == 1 && !c->nan_mismatches;
}

static void write_report(search *h, bool whole) {
  divergence *d = h->d;
  const hlo_instr *i = h->instr;
  const char *where = d->place ? d->place : i->parent->name;
  d->found = true;
  d->name = hs_strdup(i->name);
  d->opcode = hs_strdup(hlo_op_text(i->opcode));
  repl_json *j = repl_json_object(h->c->doc, "divergence");
  repl_json_str(j, "instruction", i->name);
  repl_json_str(j, "opcode", d->opcode);
  repl_json_str(j, "place", where);
  repl_json_bool(j, "accumulated", whole);
  hs_buf *b = &d->lines;
  if (d->failure)
    hs_buf_printf(b, "the first instruction that %s does not run: %%%s (%s) in %s\n  %s\n",
                  h->test->name, i->name, d->opcode, where, d->failure);
  else if (whole)
    hs_buf_printf(b,
                  "each instruction run alone agrees; in the whole program %%%s (%s) in %s is the "
                  "first value to differ\n",
                  i->name, d->opcode, where);
  else
    hs_buf_printf(
        b, "the first instruction that diverges, given the evaluator's operands: %%%s (%s) in %s\n",
        i->name, d->opcode, where);
  if (d->failure) repl_json_str(j, "failure", d->failure);
  hlo_comparisons list = {0};
  const hlo_comparison *worst = NULL;
  if (h->got) hs_status_drop(hlo_agree_leaves(h->instr, h->want, h->got, h->tol, &list));
  for (size_t k = 0; k < list.n && !worst; k++)
    if (list.v[k].mismatches) worst = &list.v[k];
  if (worst) {
    const hlo_mismatch *t = &worst->top[0];
    hs_buf at = {0};
    hlo_index_print(&at, worst->shape, t->at);
    hs_buf_printf(b, "  %lld of %lld elements; at %s %s has %.9g, %s has %.9g (abs %.3g, rel %.3g",
                  (long long)worst->mismatches, (long long)worst->elements, hs_buf_cstr(&at),
                  h->ref->name, t->want, h->test->name, t->got, t->abs, t->rel);
    if (t->ulp != UINT64_MAX) hs_buf_printf(b, ", %llu ulp", (unsigned long long)t->ulp);
    hs_buf_puts(b, ")\n");
    hlo_dtype type = hlo_dtype_real_part(worst->shape->dtype);
    if (rounded_apart(worst))
      hs_buf_printf(b,
                    "  none by more than one step of %s: values that differ in their last digits, "
                    "rounded to either side; --rel=%g allows a step\n",
                    hlo_dtype_text(type), hlo_tolerance_of(type).epsilon);
    repl_json_bool(j, "one_rounding", rounded_apart(worst));
    repl_json_str(j, "index", hs_buf_cstr(&at));
    repl_json_int(j, "mismatches", worst->mismatches);
    repl_json_num(j, "expected", t->want), repl_json_num(j, "actual", t->got);
    repl_json_num(j, "abs_error", t->abs), repl_json_num(j, "rel_error", t->rel);
    hs_buf_free(&at);
  }
  for (u32 k = 0; k < i->noperands && k < 8; k++) describe_operand(b, h, k, worst);
  const hlo_metadata *md = hlo_metadata_of(i);
  if (md && md->source_file.n)
    hs_buf_printf(b, "  %.*s, %.*s:%d\n", (int)md->op_name.n, md->op_name.n ? md->op_name.p : "",
                  (int)md->source_file.n, md->source_file.p, md->source_line);
  hlo_comparisons_free(&list);
}

hs_status diverge_find(repl_cmd *c, const hlo_module *m, const backend *test, const backend *ref,
                       hlo_tolerance tol, divergence *out) {
  *out = (divergence){0};
  search h = {.c = c, .m = m, .test = test, .ref = ref, .tol = tol, .d = out};
  hs_status s = search_computation(&h, m->entry, c->mod->ninputs, c->mod->inputs, 0);
  bool whole = hs_ok(s) && !h.found;
  if (whole) s = each_chunk(&h, m->entry, c->mod->ninputs, c->mod->inputs, whole_chunk);
  repl_progress_end(c->out);
  if (hs_ok(s) && h.found) write_report(&h, whole);
  if (h.instr) drop_culprit(&h);
  return s;
}

void divergence_free(divergence *d) {
  hs_free(d->name);
  hs_free(d->opcode);
  hs_free(d->place);
  hs_free(d->failure);
  hs_buf_free(&d->lines);
}
