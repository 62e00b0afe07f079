// watch.c: observing the evaluator. See watch.h.
//
// A run with a trap evaluates twice. The first run checks every value until an instruction gives a
// NaN (or infinity) although its operands contain none (for an elementwise instruction: in an
// element where its operands have none), and stops there. The second runs to the same point and
// keeps that instruction's operands for the report; evaluation is deterministic, so the point is
// the same. Instructions that only pass values on (loops, calls, tuples, parameters, constants) are
// never reported: the instruction within has been seen before.
#include "backends/ffi.h"
#include "repl/debug/watch.h"
#include "repl/shell/value.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/types/stats.h"

typedef struct watch {
  repl_cmd *c;
  const watch_options *o;
  u64 count;  // instructions run
  u32 nids;
  bool *wanted;          // per instruction id: captured
  u8 *holds;             // per instruction id: specials in its latest value
  hlo_literal **latest;  // per instruction id: that value, kept only when it holds specials
  u32 *times;            // per instruction id: how often it ran
  repl_values *values;
  // the culprit
  const hlo_instr *culprit;
  u32 kind;
  u32 culprit_time;
  i64 at;
  hlo_literal *made, **operands;  // second run
  char *place;
} watch;

bool watch_matches(const char *patterns, const char *name) {
  if (*name == '%') name++;
  for (const char *p = patterns; p && *p;) {
    size_t n = strcspn(p, ", ");
    char one[256];
    const char *from = *p == '%' ? p + 1 : p;
    snprintf(one, sizeof one, "%.*s", (int)(n - (size_t)(from - p)), from);
    if (n && fnmatch(one, name, 0) == 0) return true;
    p += n + (p[n] != 0);
  }
  return false;
}

hs_status watch_trap_kinds(const repl_cmd *c, const char *text, u32 *out) {
  *out = 0;
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, ",");
    if (n == 3 && memcmp(p, "nan", 3) == 0) *out |= HLO_HAS_NAN;
    else if (n == 3 && memcmp(p, "inf", 3) == 0) *out |= HLO_HAS_INF;
    else if (n == 3 && memcmp(p, "all", 3) == 0) *out |= HLO_HAS_NAN | HLO_HAS_INF;
    else return repl_usage_error(c, "--trap is nan, inf or nan,inf, not \"%s\"", text);
    p += n + (p[n] != 0);
  }
  return *out ? HS_GOOD : repl_usage_error(c, "--trap is nan, inf or nan,inf");
}

// "iteration 3 of while.1, called from ..." for an observation; "" in the entry.
static void put_place(hs_buf *b, const hlo_eval_site *s) {
  for (; s; s = s->outer) {
    if (b->n) hs_buf_puts(b, ", ");
    if (s->iteration >= 0)
      hs_buf_printf(b, "iteration %lld of %%%s", (long long)s->iteration, s->caller->name);
    else hs_buf_printf(b, "called by %%%s", s->caller->name);
  }
}

// ---- values -------------------------------------------------------------------------------------
void repl_values_keep(repl_values *v, const char *name, const hlo_literal *l, const char *place) {
  for (size_t k = 0; k < v->n; k++)
    if (strcmp(v->v[k].name, name) == 0) {
      hlo_literal *old = v->v[k].value;
      v->v[k].value = hlo_literal_ref(l);
      hlo_literal_unref(old);
      hs_free(v->v[k].place);
      v->v[k].place = hs_strdup(place);
      v->v[k].times++;
      return;
    }
  repl_kept one = {
      .name = hs_strdup(name), .place = hs_strdup(place), .value = hlo_literal_ref(l), .times = 1};
  hs_vec_push(v, one);
}

const repl_kept *repl_values_find(const repl_values *v, const char *name) {
  for (size_t k = 0; k < v->n; k++)
    if (strcmp(v->v[k].name, name) == 0) return &v->v[k];
  return NULL;
}

// ---- observing ----------------------------------------------------------------------------------
static void report_progress(const watch *w, const hlo_observation *o) {
  if ((w->count & 63) || !repl_progress_due(w->c->out)) return;
  const hlo_eval_site *loop = NULL;
  for (const hlo_eval_site *s = o->site; s; s = s->outer)
    if (s->iteration >= 0) loop = s;  // the outermost
  if (loop)
    repl_progress_text(w->c->out, "%llu instructions, iteration %lld of %%%s",
                       (unsigned long long)w->count, (long long)loop->iteration,
                       loop->caller->name);
  else
    repl_progress_text(w->c->out, "%llu instructions, at %%%s", (unsigned long long)w->count,
                       o->instr->name);
}

static void capture(watch *w, const hlo_observation *o) {
  if (w->o->iteration >= 0) {
    const hlo_eval_site *s = o->site;
    while (s && s->iteration < 0) s = s->outer;
    if (s && s->iteration != w->o->iteration) return;
  }
  hs_buf b = {0};
  put_place(&b, o->site);
  repl_values_keep(w->values, o->instr->name, o->value, b.n ? hs_buf_cstr(&b) : "");
  hs_buf_free(&b);
}

static bool forwards_value(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_PARAMETER:
  case HLO_CONSTANT:
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_WHILE:
  case HLO_CALL:
  case HLO_CONDITIONAL:
  case HLO_FUSION:
  case HLO_OPT_BARRIER:
  case HLO_INFEED:
  case HLO_RECV:
  case HLO_RECV_DONE: return true;
  default: return false;
  }
}

// For an elementwise instruction whose operands contain the kind: an element of the result that has
// it while no operand does in that position; -1 for none.
static i64 made_element(const watch *w, const hlo_observation *o, u32 kind) {
  const hlo_instr *i = o->instr;
  if (!hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || !hlo_shape_is_array(i->shape)) return -1;
  for (i64 k = 0; k < o->value->shape->elements && !hs_stops(k); k++) {
    if (!(hlo_literal_special_at(o->value, k) & kind)) continue;
    bool inherited = false;
    for (u32 j = 0; j < i->noperands && !inherited; j++) {
      const hlo_literal *v = w->latest[hlo_operand(i, j)->id];
      if (v && hlo_shape_is_array(v->shape))
        inherited =
            (hlo_literal_special_at(v, v->shape->elements == o->value->shape->elements ? k : 0) &
             kind) != 0;
    }
    if (!inherited) return k;
  }
  return -1;
}

// The special kind that this value contains and no operand contained; 0 for none. w->at is the
// element when it is known already.
static u32 blame(watch *w, const hlo_observation *o) {
  const hlo_instr *i = o->instr;
  u32 have = hlo_literal_specials(o->value), before = 0;
  w->holds[i->id] = (u8)have;
  hlo_literal_unref(w->latest[i->id]);
  w->latest[i->id] = have ? hlo_literal_ref(o->value) : NULL;
  w->at = -1;
  if (!(have & w->o->trap) || forwards_value(i)) return 0;
  for (u32 k = 0; k < i->noperands; k++) before |= w->holds[hlo_operand(i, k)->id];
  u32 fresh = have & ~before & w->o->trap;
  for (u32 kind = HLO_HAS_NAN; !fresh && kind <= HLO_HAS_INF; kind <<= 1)
    if ((have & w->o->trap & kind) && (w->at = made_element(w, o, kind)) >= 0) fresh = kind;
  return fresh;
}

static hs_status observe(void *arg, const hlo_observation *o) {
  watch *w = arg;
  const hlo_instr *i = o->instr;
  w->count++;
  report_progress(w, o);
  if (i->id >= w->nids) return HS_GOOD;
  if (w->wanted && w->wanted[i->id]) capture(w, o);
  if (!w->o->trap) return HS_GOOD;
  w->times[i->id]++;
  u32 kind = blame(w, o);
  if (!kind) return HS_GOOD;
  hs_buf b = {0};
  put_place(&b, o->site);
  w->culprit = i;
  w->kind = kind & HLO_HAS_NAN ? HLO_HAS_NAN : HLO_HAS_INF;
  w->culprit_time = w->times[i->id];
  w->made = hlo_literal_ref(o->value);
  w->place = hs_strdup(b.n ? hs_buf_cstr(&b) : "");
  hs_buf_free(&b);
  return hs_fail(HS_E_TRAP, "trapped");
}

// The second run: latest values of the culprit's operands, until the culprit has run as often as
// before.
static hs_status observe_operands(void *arg, const hlo_observation *o) {
  watch *w = arg;
  w->count++;
  report_progress(w, o);
  for (u32 k = 0; k < w->culprit->noperands; k++)
    if (hlo_operand(w->culprit, k) == o->instr) {
      hlo_literal_unref(w->operands[k]);
      w->operands[k] = hlo_literal_ref(o->value);
    }
  if (o->instr != w->culprit || --w->culprit_time) return HS_GOOD;
  return hs_fail(HS_E_TRAP, "trapped");
}

// ---- the report ---------------------------------------------------------------------------------
static void describe_value(hs_buf *b, const hlo_literal *l) {
  hlo_shape_print(b, l->shape, false);
  if (!hlo_shape_is_array(l->shape)) return;
  hlo_stats s = hlo_literal_stats(l);
  hs_buf_printf(b, ", %lld NaN, %lld infinite", (long long)s.nan, (long long)s.inf);
  if (s.values > s.nan + s.inf) hs_buf_printf(b, ", from %g to %g", s.min, s.max);
}

// The leaf of a value that holds the kind (a custom call may give tuples).
static const hlo_literal *leaf_with(const hlo_literal *l, u32 kind) {
  for (u32 k = 0; k < l->nchildren; k++) {
    const hlo_literal *r = leaf_with(l->children[k], kind);
    if (r) return r;
  }
  return hlo_shape_is_array(l->shape) && hlo_literal_find_special(l, kind) >= 0 ? l : NULL;
}

static void source_of(hs_buf *b, const hlo_instr *i) {
  const hlo_metadata *m = hlo_metadata_of(i);
  if (!m) return;
  if (m->op_name.n) hs_buf_printf(b, "%.*s", (int)m->op_name.n, m->op_name.p);
  if (m->source_file.n)
    hs_buf_printf(b, "%s%.*s:%d", b->n ? ", " : "", (int)m->source_file.n, m->source_file.p,
                  m->source_line);
}

static hs_status report(watch *w) {
  const hlo_instr *i = w->culprit;
  const hlo_literal *leaf = leaf_with(w->made, w->kind);
  const char *what = w->kind == HLO_HAS_NAN ? "NaN" : "infinity";
  i64 at = w->at >= 0 ? w->at : hlo_literal_find_special(leaf, w->kind);
  hs_buf index = {0}, shape = {0}, ops = {0}, source = {0};
  hlo_index_print(&index, leaf->shape, at);
  hlo_shape_print(&shape, leaf->shape, false);
  hs_status s =
      hs_fail_subject(HS_E_TRAP, i->name, "%%%s (%s) makes the first %s, at %s of %s", i->name,
                      hlo_op_text(i->opcode), what, hs_buf_cstr(&index), hs_buf_cstr(&shape));
  repl_json *j = repl_json_object(w->c->doc, "trap");
  repl_json_str(j, "instruction", i->name);
  repl_json_str(j, "opcode", hlo_op_text(i->opcode));
  repl_json_str(j, "computation", i->parent->name);
  repl_json_str(j, "kind", w->kind == HLO_HAS_NAN ? "nan" : "inf");
  repl_json_str(j, "index", hs_buf_cstr(&index));
  repl_json_int(j, "count", hlo_literal_count_special(leaf, w->kind));
  repl_json_str(j, "place", w->place);
  i64 sizes[HLO_MAX_RANK];
  s = hs_with_note(s, "in %s%s%s; %lld of %lld elements", i->parent->name, *w->place ? ", " : "",
                   w->place, (long long)hlo_literal_count_special(leaf, w->kind),
                   (long long)hlo_literal_sizes(leaf, sizes));
  repl_json *list = repl_json_array(j, "operands");
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_literal *v = w->operands ? w->operands[k] : NULL;
    ops.n = 0;
    repl_json *o = repl_json_object(list, NULL);
    repl_json_str(o, "name", hlo_operand(i, k)->name);
    if (!v) continue;
    bool same = hlo_shape_is_array(v->shape) && hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) &&
                v->shape->elements == leaf->shape->elements;
    i64 element = same ? at : hlo_shape_is_array(v->shape) && v->shape->elements == 1 ? 0 : -1;
    if (element >= 0) {
      hs_buf_puts(&ops, "is ");
      repl_print_element(&ops, v, element, 9);
      repl_json_element(o, "value", v, element);
      hs_buf_puts(&ops, same && v->shape->rank ? " there; " : "; ");
    }
    describe_value(&ops, v);
    if (hlo_shape_is_array(v->shape)) {
      hlo_stats st = hlo_literal_stats(v);
      repl_json_num(o, "min", st.min), repl_json_num(o, "max", st.max);
      repl_json_int(o, "nan", st.nan), repl_json_int(o, "inf", st.inf);
    }
    s = hs_with_note(s, "operand %u, %%%s, %s", k, hlo_operand(i, k)->name, hs_buf_cstr(&ops));
  }
  source_of(&source, i);
  if (source.n) s = hs_with_note(s, "%s", hs_buf_cstr(&source));
  if (source.n) repl_json_str(j, "source", hs_buf_cstr(&source));
  hs_buf_free(&index), hs_buf_free(&shape), hs_buf_free(&ops), hs_buf_free(&source);
  return s;
}

// Arguments that already contain the kind are not reported as its cause, but they are mentioned.
static void mention_arguments(repl_cmd *c, u32 trap) {
  for (u32 k = 0; k < c->mod->ninputs; k++) {
    u32 have = hlo_literal_specials(c->mod->inputs[k]) & trap;
    if (have)
      repl_note(c->out, "the argument %s holds %s already", c->m->entry->params[k]->name,
                have & HLO_HAS_NAN ? have & HLO_HAS_INF ? "NaN and infinities" : "NaN"
                                   : "infinities");
  }
}

// ---- running ------------------------------------------------------------------------------------
static hs_status run_again(watch *w, const hlo_module *m, hlo_eval_options eo) {
  hlo_literal *out = NULL;
  w->operands = hs_calloc(w->culprit->noperands + 1, sizeof(hlo_literal *));
  eo.observe = observe_operands;
  hs_status s = hlo_eval_module(m, w->c->mod->ninputs, w->c->mod->inputs, &eo, &out);
  hlo_literal_unref(out);
  if (!hs_ok(s) && hs_is_stop(s)) return s;
  hs_status_drop(s);
  // The second run did not reach the point (infeed data was consumed by the first): the operands
  // kept are not those of the report.
  for (u32 k = 0; w->culprit_time && k < w->culprit->noperands; k++) {
    hlo_literal_unref(w->operands[k]);
    w->operands[k] = NULL;
  }
  return report(w);
}

hs_status watch_run(repl_cmd *c, const hlo_module *m, const watch_options *o, repl_values *values,
                    hlo_literal **out) {
  watch w = {.c = c, .o = o, .nids = m->next_instr_id, .values = values};
  *out = NULL;
  if (o->capture) {
    w.wanted = hs_calloc(w.nids + 1, sizeof *w.wanted);
    bool any = false;
    hlo_for_each_comp(k, m)
      hlo_for_each_instr(i, k)
        if (watch_matches(o->capture, i->name)) w.wanted[i->id] = any = true;
    if (!any) repl_note(c->out, "no instruction matches %s", o->capture);
  }
  if (o->trap) {
    mention_arguments(c, o->trap);
    w.holds = hs_calloc(w.nids + 1, sizeof *w.holds);
    w.times = hs_calloc(w.nids + 1, sizeof *w.times);
    w.latest = hs_calloc(w.nids + 1, sizeof(hlo_literal *));
  }
  hlo_eval_options eo = {.keep_denormals = c->s->set.keep_denormals,
                         .peer = &ffi_peer,
                         .host = o->host,
                         .observe = observe,
                         .observe_arg = &w};
  hs_status s = hlo_eval_module(m, c->mod->ninputs, c->mod->inputs, &eo, out);
  if (w.culprit) {
    hs_status_drop(s);
    s = run_again(&w, m, eo);
  }
  repl_progress_end(c->out);
  if (hs_ok(s) && o->trap) {
    repl_json_int(c->doc, "instructions_run", (i64)w.count);
    if (!c->doc)
      repl_say(c->out, "no %s was made in %llu instructions\n",
               o->trap == HLO_HAS_NAN   ? "NaN"
               : o->trap == HLO_HAS_INF ? "infinity"
                                        : "NaN or infinity",
               (unsigned long long)w.count);
  }
  for (u32 k = 0; w.operands && k < w.culprit->noperands; k++) hlo_literal_unref(w.operands[k]);
  hlo_literal_unref(w.made);
  for (u32 k = 0; w.latest && k < w.nids; k++) hlo_literal_unref(w.latest[k]);
  hs_free(w.latest);
  hs_free(w.operands);
  hs_free(w.place);
  hs_free(w.wanted);
  hs_free(w.holds);
  hs_free(w.times);
  return s;
}
