// pass.c: passes, pass, pipeline, time-passes.
//
// Each pass that changes the module prints one line with what changed; the others are counted. The
// edits of a command make one version, which keeps the log of its passes and their notes. When a
// pass fails, the whole command is rolled back, and the input of that pass is saved to a file that
// the error message names.
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "profiler/units.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/xla_dump.h"
#include "repl/shell/expr.h"
#include "repl/shell/target.h"

// ---- delta lines --------------------------------------------------------------------------------
// A change too small for a percentage with one decimal is shown as a number.
static void flops_part(hs_buf *b, double before, double after) {
  char x[32];
  if (before == after) return;
  double part = before > 0 ? (after - before) / before * 100 : 0;
  if (fabs(part) >= 0.05) hs_buf_printf(b, "  %+.1f%% flops", part);
  else hs_buf_printf(b, "  %c%s", after < before ? '-' : '+', repl_flops(x, fabs(after - before)));
}

static void peak_part(hs_buf *b, i64 before, i64 after) {
  char x[32], y[32];
  if (before == after) return;
  hs_buf_printf(b, "  peak %s -> %s", repl_bytes(x, (double)before), repl_bytes(y, (double)after));
  if (strcmp(x, y) == 0)
    hs_buf_printf(b, " (%s)", prof_bytes_delta(x, (double)after - (double)before));
}

static void signed_bytes(hs_buf *b, double delta, const char *unit) {
  char text[32];
  if (delta == 0) return;
  hs_buf_printf(b, "  %c%s %s", delta < 0 ? '-' : '+', repl_bytes(text, fabs(delta)), unit);
}

void cmd_put_delta(hs_buf *b, const pass_totals *x, const pass_totals *y, bool brief) {
  char text[32];
  i64 di = (i64)y->instructions - (i64)x->instructions,
      dc = (i64)y->computations - (i64)x->computations;
  if (di) hs_buf_printf(b, "  %+lld instr", (long long)di);
  else if (!brief) hs_buf_puts(b, "  rewritten");
  if (dc) hs_buf_printf(b, "  %+lld comp", (long long)dc);
  if (!brief) flops_part(b, x->flops, y->flops);
  if (!brief) signed_bytes(b, y->bytes - x->bytes, "bytes");
  peak_part(b, x->peak_bytes, y->peak_bytes);
  if (x->kernels != y->kernels) hs_buf_printf(b, "  kernels %u -> %u", x->kernels, y->kernels);
  // sums in another order differ in the last bits
  double saved = x->seconds - y->seconds;
  if (!brief && fabs(saved) > 1e-9 * x->seconds)
    hs_buf_printf(b, "  est. %c%s", saved > 0 ? '-' : '+', repl_time(text, fabs(saved)));
}

// device: that the times are estimated for
static void delta_line(hs_buf *b, const pass_result *r, size_t width, const char *device) {
  hs_buf_printf(b, "%-*s", (int)width, r->pass);
  cmd_put_delta(b, &r->before, &r->after, false);
  bool timed = r->before.seconds != r->after.seconds;
  if (timed && device) hs_buf_printf(b, " on %s", device);
  if (r->ms >= 0) hs_buf_printf(b, "  %.1f ms", r->ms);
  hs_buf_putc(b, '\n');
}

static void totals_json(repl_json *parent, const char *key, const pass_totals *t) {
  repl_json *j = repl_json_object(parent, key);
  repl_json_int(j, "instructions", t->instructions);
  repl_json_int(j, "computations", t->computations);
  repl_json_int(j, "kernels", t->kernels);
  repl_json_num(j, "flops", t->flops);
  repl_json_num(j, "bytes", t->bytes);
  repl_json_int(j, "peak_bytes", t->peak_bytes);
  if (t->seconds > 0) repl_json_num(j, "estimated_time_ms", t->seconds * 1e3);
  else repl_json_null(j, "estimated_time_ms");
}

static const char *device_name(const repl_cmd *c) {
  return c->s->target ? repl_device_label(c->s->target) : NULL;
}

// Columns that the names of the passes take.
static size_t name_width(const pass_log *log, size_t from) {
  size_t width = 8;
  for (size_t k = from; k < log->n; k++)
    if (log->v[k].changed) width = HS_MAX(width, HS_MIN(strlen(log->v[k].pass), (size_t)40));
  return width;
}

// Prints log entries from `from` on.
void cmd_say_log(repl_cmd *c, const pass_log *log, size_t from, bool quiet) {
  size_t width = name_width(log, from), idle = 0;
  double idle_ms = 0;
  repl_json *list = repl_json_array(c->doc, "passes");
  hs_buf b = {0};
  for (size_t k = from; k < log->n; k++) {
    const pass_result *r = &log->v[k];
    if (r->changed) delta_line(&b, r, width, device_name(c));
    else idle++, idle_ms += r->ms;
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", r->pass);
    repl_json_bool(j, "changed", r->changed);
    if (r->ms >= 0) repl_json_num(j, "ms", r->ms);
    else repl_json_null(j, "ms");
    repl_json_int(j, "rewrites", r->rewrites);
    if (r->changed) totals_json(j, "before", &r->before), totals_json(j, "after", &r->after);
  }
  if (idle)
    hs_buf_printf(&b, "(%zu pass%s changed nothing, %.1f ms)\n", idle, idle == 1 ? "" : "es",
                  idle_ms);
  if (!c->doc && !quiet) hs_buf_put(&c->out->text, b.p ? b.p : "", b.n);
  hs_buf_free(&b);
}

static void say_total(repl_cmd *c, const pass_log *log) {
  pass_result sum = {.pass = "total"};
  u32 changed = 0;
  for (size_t k = 0; k < log->n; k++) {
    const pass_result *r = &log->v[k];
    if (r->changed && !changed++) sum.before = r->before;
    if (r->changed) sum.after = r->after;
    sum.ms += r->ms;
  }
  repl_json *j = repl_json_object(c->doc, "total");
  repl_json_int(j, "runs", (i64)log->n);
  repl_json_int(j, "changed", changed);
  repl_json_num(j, "ms", sum.ms);
  if (changed) totals_json(j, "before", &sum.before), totals_json(j, "after", &sum.after);
  if (changed < 2 || c->doc) return;
  hs_buf b = {0};
  delta_line(&b, &sum, name_width(log, 0), device_name(c));
  hs_buf_put(&c->out->text, b.p, b.n);
  hs_buf_free(&b);
}

static hs_status estimate(void *arg, const hlo_module *m, const hlo_cost *cost, hlo_live_plan *plan,
                          double *seconds) {
  prof_module p;
  HS_TRY(prof_estimate_kernels(m, arg, &(prof_options){.cost = cost, .plan = plan}, &p));
  *seconds = p.total.time_s;
  prof_module_free(&p);
  return HS_GOOD;
}

static void warn(void *arg, const char *text) { repl_note(arg, "warning: %s", text); }

pass_run_options cmd_pass_options(repl_cmd *c) {
  pass_run_options o = pass_run_default();
  o.verify = c->s->set.verify;
  o.measure = true;
  o.notes = c->notes;
  o.registry = c->s->passes;
  o.own = &c->s->pipelines;
  o.warn = warn;
  o.warn_arg = c->out;
  // For the "est." column: evaluated after every pass that changed the module.
  o.estimate = c->s->target ? estimate : NULL;
  o.estimate_arg = (void *)(uintptr_t)c->s->target;
  return o;
}

hs_status cmd_pass_failed(repl_cmd *c, hs_status s) {
  if (hs_ok(s) || s.err->code != HS_E_PASS) return s;
  // Rolled back by the runner: the module is what the pass was given.
  hlo_print_options o = hlo_print_full();
  const char *pass = s.err->subject ? s.err->subject : "PASS";
  hs_buf text = {0}, path = {0};
  hlo_print_module(&text, c->m, &o);
  static const char *const folders[] = {".", "/tmp"};
  hs_status saved = HS_GOOD;
  for (size_t k = 0; k < HS_COUNT(folders); k++) {
    u32 n = 1;
    do {
      path.n = 0;
      hs_buf_printf(&path, "%s/hlosh-failed-%.*s.%u.hlo", folders[k], (int)strcspn(pass, "{"), pass,
                    n);
    } while (access(hs_buf_cstr(&path), F_OK) == 0 && ++n < 1000);
    hs_status_drop(saved);
    saved = hs_write_file(hs_buf_cstr(&path), text.p, text.n, false);
    if (hs_ok(saved)) break;
  }
  if (hs_ok(saved))
    s = hs_with_note(s, "its input is in %s: hlosh %s -c 'pass %s' repeats the failure", path.p,
                     path.p, pass);
  else s = hs_with_note(s, "its input could not be saved: %s", saved.err->message);
  if (hs_ok(saved)) repl_json_str(c->doc, "failed_input", path.p);
  hs_status_drop(saved);
  hs_buf_free(&text);
  hs_buf_free(&path);
  return s;
}

// ---- listing ------------------------------------------------------------------------------------
hs_status cmd_passes(repl_cmd *c) {
  const char *word = repl_arg(c, 0);
  repl_json *list = repl_json_array(c->doc, "passes"), *pl = repl_json_array(c->doc, "pipelines");
  u32 n = 0;
  for (u32 k = 0; k < pass_builtin.npasses; k++) {
    const pass_info *p = pass_builtin.passes[k];
    if (word && !repl_matches(p->name, word) && !repl_matches(p->summary, word)) continue;
    n++;
    if (!c->doc) repl_say(c->out, "%-40s %s\n", p->name, p->summary);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", p->name);
    repl_json_str(j, "summary", p->summary);
    repl_json_str(j, "xla_source", p->xla_source);
  }
  for (u32 k = 0; k < pass_builtin.npipelines; k++) {
    const pass_pipeline *p = &pass_builtin.pipelines[k];
    if (word && !repl_matches(p->name, word)) continue;
    n++;
    if (!c->doc) repl_say(c->out, "pipeline %-31s %s\n", p->name, p->summary);
    repl_json *j = repl_json_object(pl, NULL);
    repl_json_str(j, "name", p->name);
    repl_json_str(j, "summary", p->summary);
  }
  if (!n) repl_note(c->out, "no pass matches \"%s\"", word);
  return HS_GOOD;
}

// ---- running ------------------------------------------------------------------------------------
void cmd_pass_progress(repl_out *o, const pipeline_event *e) {
  if (!e->result)
    repl_progress_text(o, "%s, pass %u of %u", e->op->pass->name, e->op->number,
                       e->program->npasses);
}

typedef struct running {
  repl_out *out;
  xla_dump dump;
} running;

static void on_event(void *arg, const hlo_module *m, const pipeline_event *e) {
  running *r = arg;
  cmd_pass_progress(r->out, e);
  xla_dump_event(&r->dump, m, e);
}

// The explorer's page of a state, for --xla_dump_hlo_as_html.
static hs_status dump_page(repl_cmd *c, xla_dump *d, const char *what) {
  if (!d->dir || !xla_flags_on(d->flags, XLA_FLAG_dump_hlo_as_html)) return HS_GOOD;
  char *path = hs_format("%s/%s.%s.html", d->dir, d->key, what);
  hs_status s = cmd_write_explorer(c, NULL, path);
  d->files++;
  hs_free(path);
  return s;
}

static hs_status run_text(repl_cmd *c, const char *text, pass_run_options *o) {
  running r = {.out = c->out};
  xla_dump *d = &r.dump;
  o->progress = on_event;
  o->progress_arg = &r;
  HS_TRY(xla_dump_open(c, repl_flag(c, "--dump"), d));
  xla_dump_before(d, c->m);
  hs_status s = dump_page(c, d, "before_optimizations");
  if (hs_ok(s)) s = cmd_pass_failed(c, pipeline_run(c->m, text, o, c->log));
  repl_progress_end(c->out);
  if (hs_ok(s)) s = dump_page(c, d, "after_optimizations");
  hs_status written = xla_dump_close(d, c->m, hs_ok(s));
  if (hs_ok(s)) s = written;
  else hs_status_drop(written);
  cmd_say_log(c, c->log, 0, repl_flag(c, "--quiet") != NULL);
  if (hs_ok(s)) say_total(c, c->log);
  if (!hs_ok(s) || !d->dir) return s;
  repl_flush(c->out);
  if (!d->flags || !d->flags->as_tool) repl_note(c->out, "dumped %u files to %s", d->files, d->dir);
  repl_json_str(c->doc, "dumped_to", d->dir);
  repl_json_int(c->doc, "files", d->files);
  return s;
}

// The words from `from` on as one pipeline; --passes=... as hlo-opt has it is such a word.
static const char *joined(repl_cmd *c, u32 from, const char *between) {
  hs_buf text = {0};
  for (u32 k = from; k < c->args.npos; k++)
    hs_buf_printf(&text, "%s%s", k > from ? between : "", c->args.pos[k]);
  if (repl_flag(c, "--passes"))
    hs_buf_printf(&text, "%s%s", c->args.npos > from ? between : "", repl_flag(c, "--passes"));
  const char *out = hs_arena_strndup(c->scratch, hs_buf_cstr(&text), text.n);
  hs_buf_free(&text);
  return out;
}

hs_status cmd_pass(repl_cmd *c) {
  const char *peer = repl_flag(c, "--compare");
  if (peer && strcmp(peer, "xla") != 0)
    return repl_usage_error(c, "--compare is xla, not \"%s\"", peer);
  if (peer && c->args.npos != 1) return repl_usage_error(c, "--compare=xla takes one pass");
  if (peer) return cmd_compare_pass(c, repl_arg(c, 0));
  if (repl_flag(c, "--run")) return repl_usage_error(c, "--run belongs to --compare=xla");
  if (!c->args.npos && !repl_flag(c, "--passes"))
    return repl_usage_error(c, "which pass? passes lists them");
  pass_run_options o = cmd_pass_options(c);
  if (repl_flag(c, "--limit"))
    HS_TRY(repl_arg_int(c, "--limit", repl_flag(c, "--limit"), 0, INT32_MAX, &o.rewrite_limit));
  return run_text(c, joined(c, 0, ","), &o);
}

// ---- pipelines ----------------------------------------------------------------------------------
static void say_pipeline(repl_cmd *c, repl_json *list, const pass_pipeline *p) {
  if (!c->doc) repl_say(c->out, "%-12s %s\n", p->name, p->summary);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", p->name);
  repl_json_str(j, "summary", p->summary);
  repl_json_str(j, "text", p->text);
}

static hs_status say_pipelines(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "pipelines");
  for (u32 k = 0; k < pass_builtin.npipelines; k++)
    say_pipeline(c, list, &pass_builtin.pipelines[k]);
  for (u32 k = 0; k < c->s->pipelines.n; k++) say_pipeline(c, list, &c->s->pipelines.v[k]);
  return HS_GOOD;
}

// The passes one below the other, and the text as `hlo-opt --passes=` takes it (fixpoints once, no
// options).
static hs_status show_pipeline(repl_cmd *c, const char *text) {
  pipeline_program *p;
  HS_TRY(pipeline_parse(text, c->s->passes, &c->s->pipelines, &p));
  repl_json *list = repl_json_array(c->doc, "passes");
  hs_buf flat = {0}, whole = {0};
  u32 depth = 0;
  bool lossy = false;
  for (size_t k = 0; k < p->ops.n; k++) {
    const pipeline_op *op = &p->ops.v[k];
    if (op->kind == PIPELINE_END) depth--;
    else if (k > 0 && p->ops.v[k - 1].kind != PIPELINE_FIX) hs_buf_puts(&whole, ", ");
    if (op->kind == PIPELINE_FIX && !c->doc)
      repl_say(c->out, "     %*sfix\n", (int)(2 * depth), "");
    if (op->kind == PIPELINE_FIX) depth++;
    hs_buf_puts(&whole, op->kind == PIPELINE_FIX   ? "fix("
                        : op->kind == PIPELINE_END ? ")"
                                                   : op->text);
    lossy |= op->kind != PIPELINE_PASS || op->options.n;
    if (op->kind != PIPELINE_PASS) continue;
    if (!c->doc) repl_say(c->out, "%3u  %*s%s\n", op->number, (int)(2 * depth), "", op->text);
    repl_json_str(list, NULL, op->text);
    hs_buf_printf(&flat, "%s%s", op->number > 1 ? "," : "", op->pass->name);
  }
  if (!c->doc) repl_say(c->out, "--passes=%s\n", hs_buf_cstr(&flat));
  if (lossy)
    repl_note(c->out,
              "hlo-opt has no fixpoints and no options: --passes= lists each pass once, with its "
              "defaults");
  repl_json_str(c->doc, "text", hs_buf_cstr(&whole));
  repl_json_str(c->doc, "hlo_opt_passes", hs_buf_cstr(&flat));
  hs_buf_free(&flat);
  hs_buf_free(&whole);
  pipeline_free(p);
  return HS_GOOD;
}

static hs_status define_pipeline(repl_cmd *c) {
  const char *name = repl_arg(c, 1), *text = joined(c, 2, " ");
  if (!name) return repl_usage_error(c, "define NAME = PASS,PASS,...");
  const char *eq = strchr(name, '=');
  if (eq) {  // NAME=PASS,...
    name = hs_arena_strndup(c->scratch, name, (size_t)(eq - name));
    text = strchr(joined(c, 1, " "), '=');
  }
  if (*text != '=') return repl_usage_error(c, "define NAME = PASS,PASS,...");
  text++;
  text += strspn(text, " ,");
  if (!*text) return repl_usage_error(c, "define %s = which passes?", name);
  if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") !=
          strlen(name) ||
      !*name)
    return repl_usage_error(
        c, "a pipeline's name is made of letters, digits, '-', '_' and '.', not \"%s\"", name);
  if (pass_find(c->s->passes, name) || pipeline_find(c->s->passes, name) ||
      strcmp(name, "fix") == 0 || strcmp(name, "define") == 0)
    return repl_usage_error(c, "\"%s\" is taken", name);
  pass_pipeline p = {hlo_intern_str(c->s->ctx, name), "defined here",
                     hlo_intern_str(c->s->ctx, text)};
  pass_pipelines *own = &c->s->pipelines;
  for (u32 k = 0; k < own->n; k++)
    if (strcmp(own->v[k].name, name) == 0) {
      pass_pipeline was = own->v[k];
      own->v[k] = p;
      // checks it, and that it does not name itself
      hs_status s = show_pipeline(c, name);
      if (!hs_ok(s)) own->v[k] = was;
      return s;
    }
  hs_vec_push(own, p);
  hs_status s = show_pipeline(c, name);
  if (!hs_ok(s)) own->n--;
  return s;
}

hs_status cmd_pipeline(repl_cmd *c) {
  const char *first = repl_arg(c, 0), *second = repl_arg(c, 1), *import = repl_flag(c, "--passes");
  if (!first && !import) return say_pipelines(c);
  if (first && strcmp(first, "define") == 0) return define_pipeline(c);
  if (first && strcmp(first, "show") == 0)
    return second || import ? show_pipeline(c, joined(c, 1, ","))
                            : repl_usage_error(c, "show which one? pipeline lists them");
  if (second && strcmp(second, "show") == 0) return show_pipeline(c, first);
  HS_TRY(repl_needs_module(c, false));
  pass_run_options o = cmd_pass_options(c);
  return run_text(c, joined(c, 0, ","), &o);
}

// ---- time-passes --------------------------------------------------------------------------------
typedef struct pass_time {
  const char *name;
  u32 runs, changed;
  double ms;
} pass_time;
static int slowest(const void *a, const void *b) {
  const pass_time *x = a, *y = b;
  return x->ms != y->ms ? (x->ms < y->ms ? 1 : -1) : strcmp(x->name, y->name);
}

// Runs a pipeline on a copy and sums the passes' own time (no verification, no cost model inside).
hs_status cmd_time_passes(repl_cmd *c) {
  pass_run_options o = pass_run_default();
  pass_log log = {0};
  running r = {.out = c->out};
  o.measure = o.verify = false;
  o.registry = c->s->passes;
  o.own = &c->s->pipelines;
  o.progress = on_event;
  o.progress_arg = &r;
  hlo_module *m = hlo_module_clone(c->m, c->m->name);
  u64 start = hs_now_ns();
  hs_status s = pipeline_run(m, c->args.npos ? joined(c, 0, ",") : "tuned", &o, &log);
  double wall = (double)(hs_now_ns() - start) * 1e-6, sum = 0;
  repl_progress_end(c->out);
  pass_time *t = HS_NEW_ARRAY(c->scratch, pass_time, log.n + 1);
  u32 n = 0;
  for (size_t k = 0; k < log.n; k++) {
    u32 j = 0;
    while (j < n && strcmp(t[j].name, log.v[k].pass) != 0) j++;
    if (j == n) t[n++].name = log.v[k].pass;
    t[j].runs++, t[j].changed += log.v[k].changed, t[j].ms += log.v[k].ms, sum += log.v[k].ms;
  }
  qsort(t, n, sizeof *t, slowest);
  repl_json *list = repl_json_array(c->doc, "passes");
  if (!c->doc) repl_say(c->out, "%10s %7s %7s %8s  pass\n", "ms", "share", "runs", "changed");
  for (u32 k = 0; k < n; k++) {
    if (!c->doc)
      repl_say(c->out, "%10.3f %6.1f%% %7u %8u  %s\n", t[k].ms, sum > 0 ? 100 * t[k].ms / sum : 0,
               t[k].runs, t[k].changed, t[k].name);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", t[k].name);
    repl_json_num(j, "ms", t[k].ms);
    repl_json_int(j, "runs", t[k].runs);
    repl_json_int(j, "changed", t[k].changed);
  }
  if (!c->doc)
    repl_say(c->out, "%10.3f ms in %zu pass runs, %.3f ms including the runner\n", sum, log.n,
             wall);
  repl_json_num(c->doc, "passes_ms", sum);
  repl_json_num(c->doc, "wall_ms", wall);
  hs_vec_free(&log);
  hlo_module_free(m);
  return s;
}
