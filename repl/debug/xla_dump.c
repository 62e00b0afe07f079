// xla_dump.c — see xla_dump.h.
#include "repl/debug/xla_dump.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "core/proto/proto.h"
#include "core/text/text.h"
#include "repl/debug/dump_folder.h"
#include "viz/viz.h"

// ---- files --------------------------------------------------------------------------------------
static void write_file(xla_dump *d, const char *what, const char *extension, const hs_buf *b) {
  char *path = hs_format("%s/%s.%s%s", d->dir, d->key, what, extension);
  if (hs_ok(d->failed)) d->failed = hs_write_file(path, b->p, b->n, false);
  d->files++;
  hs_free(path);
}

static void write_state(xla_dump *d, const hlo_module *m, const char *what) {
  const repl_xla_flags *f = d->flags;
  bool proto = xla_flags_on(f, XLA_FLAG_dump_hlo_as_proto),
       dot = xla_flags_on(f, XLA_FLAG_dump_hlo_as_dot),
       html = xla_flags_on(f, XLA_FLAG_dump_hlo_as_html),
       text = xla_flags_on(f, XLA_FLAG_dump_hlo_as_text) || !(proto || dot || html);
  hs_buf b = {0};
  if (text) {
    hlo_print_options o = hlo_print_default();
    if (xla_flags_on(f, XLA_FLAG_dump_large_constants)) o.print_large_constants = true;
    if (xla_flags_on(f, XLA_FLAG_dump_disable_metadata)) o.print_metadata = false;
    hlo_print_module(&b, m, &o);
    write_file(d, what, ".txt", &b);
  }
  if (proto) {
    b.n = 0;
    hs_status s = hlo_proto_write(&b, m, true);
    if (hs_ok(s)) write_file(d, what, ".hlo.pb", &b);
    else if (hs_ok(d->failed)) d->failed = s;
    else hs_status_drop(s);
  }
  if (dot) {
    b.n = 0;
    char *note = NULL;
    hs_status s = viz_dot(m, &(viz_options){.show_fusions = true}, &b, &note);
    hs_free(note);
    if (hs_ok(s)) write_file(d, what, ".dot", &b);
    else if (hs_ok(d->failed)) d->failed = s;
    else hs_status_drop(s);
  }
  hs_buf_free(&b);
}

static void write_step(xla_dump *d, const hlo_module *m, const pipeline_op *op, const char *after,
                       const char *before) {
  const char *pipeline = op->pipeline                    ? op->pipeline
                         : d->flags && d->flags->as_tool ? "transforms_pipeline"
                                                         : "pipeline";
  if (d->has_passes && regexec(&d->passes, op->pass->name, 0, NULL, 0) != 0 &&
      regexec(&d->passes, pipeline, 0, NULL, 0) != 0)
    return;
  char *what = hs_format("%04u.%s.after_%s.before_%s", d->step++, pipeline, after, before);
  write_state(d, m, what);
  hs_free(what);
}

// ---- a run of passes ----------------------------------------------------------------------------
static const char *in_words(const xla_dump *d, bool after) {
  bool one = d->flags && d->flags->as_tool;  // hlo-opt writes them in the singular
  return after ? one ? "after_optimization" : "after_optimizations"
         : one ? "before_optimization"
               : "before_optimizations";
}

static hs_status compile(regex_t *r, const char *text) {
  return regcomp(r, text, REG_EXTENDED | REG_NOSUB) == 0
             ? HS_GOOD
             : hs_fail(HS_E_USAGE, "\"%s\" is no regular expression", text);
}

static hs_status wanted(const repl_xla_flags *f, const hlo_module *m, bool *yes) {
  const char *which = xla_flags_value(f, XLA_FLAG_dump_hlo_module_re);
  *yes = true;
  if (!which) return HS_GOOD;
  regex_t r;
  HS_TRY(compile(&r, which));
  *yes = regexec(&r, m->name, 0, NULL, 0) == 0;
  regfree(&r);
  return HS_GOOD;
}

// The files of two runs must not mix: `load` would read them as one run.
static hs_status not_there(const xla_dump *d) {
  dump_folder there;
  HS_TRY(dump_folder_read(d->dir, &there));
  bool old = false;
  for (size_t k = 0; k < there.modules.n; k++) old |= strcmp(there.modules.v[k].key, d->key) == 0;
  dump_folder_free(&there);
  return old ? hs_with_note(hs_fail(HS_E_USAGE, "%s holds dumps of %s already", d->dir, d->key),
                            "remove them or give another folder")
             : HS_GOOD;
}

hs_status xla_dump_open(repl_cmd *c, const char *dir, xla_dump *d) {
  *d = (xla_dump){.dir = dir, .each = true};
  const repl_xla_flags *f = c->s->xla_flags;
  const char *to = xla_flags_value(f, XLA_FLAG_dump_to);
  bool yes;
  if (!dir && (!to || !*to)) return HS_GOOD;
  if (!dir) {
    HS_TRY(wanted(f, c->m, &yes));
    if (!yes) return HS_GOOD;
    const char *passes = xla_flags_value(f, XLA_FLAG_dump_hlo_pass_re);
    if (passes) HS_TRY(compile(&d->passes, passes));
    d->dir = to;
    d->flags = f;
    d->each = d->has_passes = passes != NULL;
  }
  char *name = repl_file_name(c->m->name);
  char *key = hs_format("module_%04u.%s", c->mod->number, name);
  hs_free(name);
  for (char *p = key; *p; p++)
    if (strchr("/\\[] ", *p)) *p = '_';  // as XLA has it
  d->key = hs_arena_strndup(c->scratch, key, strlen(key));
  hs_free(key);
  hs_status s = repl_make_folder(d->dir);
  if (hs_ok(s) && dir) s = not_there(d);
  if (!hs_ok(s) && d->has_passes) regfree(&d->passes);
  return s;
}

void xla_dump_before(xla_dump *d, const hlo_module *m) {
  if (d->dir) write_state(d, m, in_words(d, false));
}

void xla_dump_event(xla_dump *d, const hlo_module *m, const pipeline_event *e) {
  if (!d->dir || !d->each) return;
  if (!e->result && e->op->first) write_step(d, m, e->op, "pipeline-start", e->op->pass->name);
  if (e->result && e->result->changed) write_step(d, m, e->op, e->op->pass->name, e->op->before);
}

hs_status xla_dump_close(xla_dump *d, const hlo_module *m, bool ok) {
  if (!d->dir) return HS_GOOD;
  if (ok) write_state(d, m, in_words(d, true));
  if (ok && d->flags) {
    hs_buf b = {0};
    xla_flags_print(d->flags, &b);
    write_file(d, "debug_options", "", &b);
    hs_buf_free(&b);
  }
  if (d->has_passes) regfree(&d->passes);
  return d->failed;
}
