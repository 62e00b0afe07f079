// resize.c — `resize PARAM.DIM=N` and `fit SIZE PARAM.DIM`: another size for a dimension of a
// parameter, and the largest one whose peak fits in a memory.
#include "repl/measure/resize.h"

#include <ctype.h>
#include <stdlib.h>

#include "core/verify/verify.h"
#include "profiler/memory.h"
#include "repl/shell/inputs.h"

hs_status resize_parse(repl_cmd *c, const char *text, size_t n, resize_target *out) {
  const hlo_computation *e = c->m->entry;
  char *name = hs_arena_strndup(c->scratch, text, n), *dot = strrchr(name, '.'), *end;
  if (!dot || !isdigit((unsigned char)dot[1]))
    return repl_usage_error(c, "PARAM.DIM is a parameter and a dimension, x.0, not \"%s\"", name);
  i64 dim = strtol(dot + 1, &end, 10);
  if (*end) return repl_usage_error(c, "\"%s\" is not a dimension", dot + 1);
  *dot = 0;
  char *brace = strchr(name, '{');
  if (brace) *brace++ = 0;
  *out = (resize_target){.dim = (u32)HS_MIN(dim, (i64)UINT32_MAX)};
  u32 k;
  if (!repl_find_param(e, name, strlen(name), &k)) return repl_no_param(HS_E_NO_OBJECT, e, name);
  out->param = e->params[k];
  const hlo_shape *s = out->param->shape;
  for (char *p = brace; p && *p && *p != '}'; p = *end == ',' ? end + 1 : end) {
    i64 at = strtol(p, &end, 10);
    if (end == p || at < 0 || !hlo_shape_is_tuple(s) || at >= (i64)s->nelems)
      return hs_fail(HS_E_NO_OBJECT, "%s has no element {%s", out->param->name, brace);
    out->leaf += hlo_shape_leaf_offset(s, at);
    s = s->elems[at];
  }
  if (!hlo_shape_is_array(s) || out->dim >= s->rank)
    return hs_fail(HS_E_NO_OBJECT, "%s has no dimension %lld", out->param->name, (long long)dim);
  out->from = s->dims[out->dim];
  return HS_GOOD;
}

// Whether two calls lead to the same computation.
static bool shares_calls(const hlo_module *m) {
  hs_arena a = {0};
  hlo_call_list calls = hlo_find_calls(m, &a);
  const u32 *n = hlo_count_callers(m, &calls, &a);
  bool shared = false;
  for (u32 k = 0; k < calls.n && !shared; k++)
    for (u32 j = 0; j < calls.callees[k].n && calls.v[k]->opcode == HLO_CALL; j++)
      shared |= n[1 + calls.callees[k].v[j]->id] > 1;
  hs_arena_free(&a);
  return shared;
}

static void tell(repl_cmd *c, const resize_report *r) {
  if (!c->doc) repl_say(c->out, "%u shapes and %u attributes changed\n", r->shapes, r->attributes);
  repl_json_int(c->doc, "shapes", r->shapes);
  repl_json_int(c->doc, "attributes", r->attributes);
  repl_json *list = repl_json_array(c->doc, "followers");
  for (size_t k = 0; k < r->followers.n; k++) {
    const resize_follower *f = &r->followers.v[k];
    if (!c->doc)
      repl_say(c->out, "  %s.%u follows: %lld -> %lld\n", f->param->name, f->dim,
               (long long)f->from, (long long)f->to);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "parameter", f->param->name);
    repl_json_int(j, "leaf", f->leaf);
    repl_json_int(j, "dimension", f->dim);
    repl_json_int(j, "from", f->from);
    repl_json_int(j, "to", f->to);
  }
  list = repl_json_array(c->doc, "equal");
  for (size_t k = 0; k < r->equal.n; k++) {
    const resize_follower *f = &r->equal.v[k];
    if (!c->doc && k < 16)
      repl_say(c->out, "  %s.%u is %lld long, too, but nothing ties it to this one: it stays\n",
               f->param->name, f->dim, (long long)f->from);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "parameter", f->param->name);
    repl_json_int(j, "leaf", f->leaf);
    repl_json_int(j, "dimension", f->dim);
  }
  list = repl_json_array(c->doc, "constants");
  for (size_t k = 0; k < r->constants.n; k++) {
    const resize_constant *x = &r->constants.v[k];
    static const char *const kinds[] = {"extended", "bound", "left"};
    if (!c->doc && k < 16 && x->kind == RESIZE_EXTENDED)
      repl_say(c->out, "  %s: its data was extended or cut\n", x->instr->name);
    else if (!c->doc && k < 16 && x->kind == RESIZE_BOUND)
      repl_say(c->out, "  %s, of a loop over the dimension: %g now\n", x->instr->name, x->value);
    else if (!c->doc && k < 16)
      repl_say(c->out, "  %s is %g: if it stands for the old size, it is wrong now\n",
               x->instr->name, x->value);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "instruction", x->instr->name);
    repl_json_str(j, "kind", kinds[x->kind]);
    if (x->kind != RESIZE_EXTENDED) repl_json_num(j, "value", x->value);
    else repl_json_null(j, "value");
  }
}

hs_status resize_calls(hlo_module *m, const resize_target *t, i64 size, bool follow,
                       resize_report *r) {
  size_t mark = hlo_journal_mark(m);
  i64 param = hlo_param_number(t->param);
  hs_status s = resize_module(m, param, t->leaf, t->dim, size, follow, r);
  if (hs_ok(s) || hs_interrupted() || !shares_calls(m)) return s;
  hlo_journal_rollback(m, mark);
  resize_report again;
  pass_run_options o = pass_run_default();
  hs_status flat = pipeline_run(m, "flatten-call-graph", &o, NULL);
  bool ran = hs_ok(flat);
  hs_status_drop(flat);
  hs_status second = ran ? resize_module(m, param, t->leaf, t->dim, size, follow, &again) : HS_GOOD;
  if (ran && hs_ok(second)) {
    resize_report_free(r);
    hs_status_drop(s);
    *r = again;
    return HS_GOOD;
  }
  if (ran) resize_report_free(&again);
  hs_status_drop(second);
  return s;
}

hs_status cmd_resize(repl_cmd *c) {
  const char *text = c->args.npos ? repl_arg(c, 0) : "", *eq = strchr(text, '=');
  if (!eq) return repl_usage_error(c, "needs PARAM.DIM=N");
  resize_target t;
  i64 size;
  HS_TRY(resize_parse(c, text, (size_t)(eq - text), &t));
  bool times = eq[1] == 'x';
  HS_TRY(repl_arg_int(c, "the size", eq + 1 + times, 1, (i64)1 << 40, &size));
  if (times && !hs_mul_ok(size, t.from, &size))
    return repl_usage_error(c, "%lld times that is too large", (long long)size);
  resize_report r;
  hs_status s = resize_calls(c->m, &t, size, repl_flag(c, "--follow") != NULL, &r);
  if (hs_ok(s)) s = hlo_verify(c->m, NULL);
  if (hs_ok(s)) {
    if (!c->doc)
      repl_say(c->out, "%s.%u: %lld -> %lld, ", t.param->name, t.dim, (long long)t.from,
               (long long)size);
    tell(c, &r);
  }
  resize_report_free(&r);
  return s;
}

// ---- fit ----------------------------------------------------------------------------------------

// The peak of the model with that size; *fits false also for sizes that the module cannot take.
typedef struct fitter {
  repl_cmd *c;
  resize_target t;
  i64 memory;
  i64 peak;           // of the last that was tried and taken
  hs_status refused;  // why the last was not taken
  u32 tries;
} fitter;

static hs_status try_size(fitter *f, i64 size, bool *fits) {
  repl_progress_text(f->c->out, "trying %lld", (long long)size);
  hlo_module *m = hlo_module_clone(f->c->m, NULL);
  resize_report r;
  hlo_memory mem = {0};
  hs_status s = resize_calls(m, &f->t, size, true, &r);
  resize_report_free(&r);
  hs_status_drop(f->refused);
  f->refused = HS_GOOD;
  *fits = false;
  f->tries++;
  if (!hs_ok(s) && !hs_interrupted()) {
    f->refused = s;
    s = HS_GOOD;
  } else if (hs_ok(s)) {
    s = hlo_memory_estimate(m, false, &mem);
    f->peak = mem.peak_bytes;
    *fits = mem.peak_bytes <= f->memory;
  }
  hlo_module_free(m);
  return s;
}

// The largest multiple of `step` that fits, between one that does and one that does not.
static hs_status bisect(fitter *f, i64 step, i64 good, i64 bad, i64 *out, i64 *peak) {
  while (bad - good > step) {
    i64 mid = good + (bad - good) / 2 / step * step;
    if (mid == good) mid = good + step;
    bool fits;
    HS_TRY(try_size(f, mid, &fits));
    if (fits) good = mid, *peak = f->peak;
    else bad = mid;
  }
  *out = good;
  return HS_GOOD;
}

// Sizes must often be multiples of something (a reshape that splits the dimension): the smallest of
// 1, 2, 4, ... and the old size that is accepted next to the old size.
static hs_status find_step(fitter *f, i64 *step) {
  for (i64 k = 1; k < f->t.from; k *= 2) {
    bool fits;
    if (f->t.from % k) continue;
    HS_TRY(try_size(f, f->t.from + k, &fits));
    if (hs_ok(f->refused)) {
      *step = k;
      return HS_GOOD;
    }
  }
  *step = f->t.from;
  return HS_GOOD;
}

static hs_status search(fitter *f, i64 *best, i64 *peak, i64 *step) {
  bool fits;
  HS_TRY(find_step(f, step));
  HS_TRY(try_size(f, f->t.from + *step, &fits));
  if (!hs_ok(f->refused)) {
    hs_status s = f->refused;
    f->refused = HS_GOOD;
    return s;
  }
  HS_TRY(try_size(f, f->t.from, &fits));
  *peak = f->peak;
  *best = 0;
  if (!fits) {
    HS_TRY(try_size(f, *step, &fits));
    if (!fits) return f->refused.err ? bisect(f, *step, 0, f->t.from, best, peak) : HS_GOOD;
    *peak = f->peak;
    return bisect(f, *step, *step, f->t.from, best, peak);
  }
  i64 good = f->t.from, bad = good;
  while (fits && good < (i64)1 << 39) {
    bad = 2 * good;
    HS_TRY(try_size(f, bad, &fits));
    if (fits) good = bad, *peak = f->peak;
  }
  return fits ? (*best = good, HS_GOOD) : bisect(f, *step, good, bad, best, peak);
}

hs_status cmd_fit(repl_cmd *c) {
  fitter f = {.c = c};
  double memory;
  i64 best = 0, peak = 0, step = 1;
  HS_TRY(repl_arg_num(c, "SIZE", repl_arg(c, 0), &memory));
  if (!(memory >= 1 && memory < 9e18))
    return repl_usage_error(c, "SIZE is a number of bytes, 80GB or 24GiB");
  f.memory = (i64)memory;
  HS_TRY(resize_parse(c, repl_arg(c, 1), strlen(repl_arg(c, 1)), &f.t));
  hs_status s = search(&f, &best, &peak, &step);
  repl_progress_end(c->out);
  hs_status_drop(f.refused);
  HS_TRY(s);
  char b[2][32];
  repl_json_str(c->doc, "source", "estimated");
  repl_json_str(c->doc, "parameter", f.t.param->name);
  repl_json_int(c->doc, "dimension", f.t.dim);
  repl_json_int(c->doc, "from", f.t.from);
  repl_json_int(c->doc, "memory_bytes", f.memory);
  repl_json_int(c->doc, "step", step);
  repl_json_int(c->doc, "tries", f.tries);
  if (!best) {
    repl_json_null(c->doc, "size");
    return hs_fail(HS_E_ASSERT, "even %s.%u = %lld does not fit in %s", f.t.param->name, f.t.dim,
                   (long long)step, repl_bytes(b[0], memory));
  }
  repl_json_int(c->doc, "size", best);
  repl_json_int(c->doc, "peak_bytes", peak);
  if (!c->doc) {
    repl_say(c->out, "estimated: %s.%u = %lld fits in %s, peak %s (now %lld)\n", f.t.param->name,
             f.t.dim, (long long)best, repl_bytes(b[0], memory), repl_bytes(b[1], (double)peak),
             (long long)f.t.from);
    if (step > 1)
      repl_say(c->out, "in steps of %lld, which the module's shapes ask for\n", (long long)step);
    repl_say(c->out, "resize %s.%u=%lld --follow\n", f.t.param->name, f.t.dim, (long long)best);
  }
  return HS_GOOD;
}
