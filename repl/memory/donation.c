// donation.c — `memory donation`: parameters that give their memory to results.
//
// What the rules say (passes/buffer/donation.h) is checked against the backend's plan where there
// is one: a declared pair works when the plan has the result in the argument's memory, and what
// could be declared more is declared on a copy, whose plan tells what that saves.
#include "passes/buffer/donation.h"

#include "repl/memory/memory.h"
#include "repl/shell/exec.h"

// Whether a plan has a result in the memory of that parameter's array.
static bool honoured(const prof_memory *p, const char *param, u32 leaf) {
  for (u32 v = 0; v < p->nvalues; v++) {
    const prof_buffer_value *x = &p->values[v];
    const prof_buffer *b = &p->buffers[x->buffer];
    if (b->kind == PROF_BUFFER_PARAMETER && b->output && x->leaf == leaf &&
        !strcmp(x->instr, param))
      return true;
  }
  return false;
}

static void say(repl_cmd *c, repl_json *list, const donation *d, bool shown) {
  static const char *const states[] = {"donated", "fails", "possible"};
  const hlo_computation *e = c->m->entry;
  hs_buf from = {0}, to = {0};
  bool known = d->param >= 0 && d->param < (i64)e->nparams && d->param_leaf != DONATION_NONE;
  if (known) {
    hs_buf_puts(&from, e->params[d->param]->name);
    donation_path(e->params[d->param]->shape, d->param_leaf, &from);
  } else hs_buf_printf(&from, "parameter %lld", (long long)d->param);
  if (d->out_leaf != DONATION_NONE) {
    hs_buf_puts(&to, "output ");
    donation_path(e->root->shape, d->out_leaf, &to);
  }
  char b[32];
  if (shown && !c->doc)
    repl_say(c->out, "%-9s %10s  %s%s%s%s%s\n", states[d->state], repl_bytes(b, (double)d->bytes),
             hs_buf_cstr(&from), to.n ? " -> " : "", hs_buf_cstr(&to), *d->why ? ": " : "", d->why);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "state", states[d->state]);
  repl_json_int(j, "parameter", d->param);
  repl_json_str(j, "from", hs_buf_cstr(&from));
  if (d->out_leaf != DONATION_NONE) repl_json_int(j, "output_leaf", d->out_leaf);
  else repl_json_null(j, "output_leaf");
  repl_json_int(j, "bytes", d->bytes);
  repl_json_bool(j, "must", d->must);
  repl_json_str(j, "why", *d->why ? d->why : NULL);
  hs_buf_free(&from);
  hs_buf_free(&to);
}

// Declared pairs by the plan; *possible: how many could be declared.
static void check_declared(repl_cmd *c, const prof_memory *plan, donations *v, size_t *possible) {
  *possible = 0;
  for (size_t k = 0; k < v->n; k++) {
    donation *d = &v->v[k];
    *possible += d->state == DONATION_POSSIBLE;
    if (d->state == DONATION_POSSIBLE || d->out_leaf == DONATION_NONE ||
        d->param_leaf == DONATION_NONE)
      continue;
    bool works = honoured(plan, c->m->entry->params[d->param]->name, d->param_leaf);
    if (works) {
      d->state = DONATION_WORKS;
      d->why = "";
    } else if (d->state == DONATION_WORKS) {
      d->state = DONATION_FAILS;
      d->why = "what makes the result does not work in place in this backend";
    }
  }
}

// Declares what is possible on a copy, drops what its plan does not honour, and tells what that
// plan saves.
static hs_status try_possible(repl_cmd *c, const prof_memory *plan, donations *v, i64 *saves) {
  hlo_module *m;
  HS_TRY(repl_runnable(c, NULL, false, &m));
  for (size_t k = 0; k < v->n; k++)
    if (v->v[k].state == DONATION_POSSIBLE) donation_declare(m, &v->v[k]);
  prof_memory with;
  hs_status s = memory_plan_of(c, m, &with);
  hlo_module_free(m);
  HS_TRY(s);
  size_t n = 0;
  for (size_t k = 0; k < v->n; k++) {
    const donation *d = &v->v[k];
    if (d->state != DONATION_POSSIBLE ||
        honoured(&with, c->m->entry->params[d->param]->name, d->param_leaf))
      v->v[n++] = *d;
  }
  v->n = n;
  *saves = prof_memory_peak(plan) - prof_memory_peak(&with);
  prof_memory_free(&with);
  return HS_GOOD;
}

hs_status memory_donation(repl_cmd *c, const prof_memory *plan, const char *by, i64 limit,
                          bool quiet) {
  donations v;
  HS_TRY(donation_find(c->m, c->scratch, &v));
  size_t possible = 0;
  i64 saves = 0;
  hs_status s = HS_GOOD;
  if (strcmp(by, "model") != 0) {
    check_declared(c, plan, &v, &possible);
    if (possible) s = try_possible(c, plan, &v, &saves);
  } else
    for (size_t k = 0; k < v.n; k++)
      if (v.v[k].state == DONATION_POSSIBLE) possible++, saves += v.v[k].bytes;
  if (!hs_ok(s)) {
    hs_vec_free(&v);
    return s;
  }
  repl_json *j = repl_json_object(c->doc, "donation"), *list = repl_json_array(j, "pairs");
  repl_json_int(j, "possible_saving_bytes", saves);
  i64 bytes[3] = {0};
  u32 count[3] = {0};
  for (size_t k = 0; k < v.n; k++) {
    count[v.v[k].state]++;
    bytes[v.v[k].state] = hs_add_sat_i64(bytes[v.v[k].state], v.v[k].bytes);
    say(c, list, &v.v[k], !quiet && (i64)k < limit);
  }
  if (!quiet && !c->doc) {
    char b[3][32];
    if ((i64)v.n > limit) repl_say(c->out, "%zu more; --limit=N shows more\n", v.n - (size_t)limit);
    if (!v.n) repl_say(c->out, "no parameter is donated, and none could be\n");
    else
      repl_say(c->out, "donated: %u arrays, %s; %u fail, %s; %u more could be: that saves %s\n",
               count[0], repl_bytes(b[0], (double)bytes[0]), count[1],
               repl_bytes(b[1], (double)bytes[1]), count[2], repl_bytes(b[2], (double)saves));
  }
  hs_vec_free(&v);
  return HS_GOOD;
}
