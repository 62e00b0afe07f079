// xla_steps.c: observing a compilation by the plug-in. See xla_steps.h.
#include "repl/debug/xla_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "repl/debug/bundle.h"
#include "repl/shell/exec.h"
#include "repl/shell/target.h"
#include "repl/shell/plugin.h"

#define MOST_ALIKE 8  // names that hold the one asked for

u32 xla_steps_states(const xla_steps *x) { return x->dumps ? (u32)x->dumps->steps.n : 0; }

bool xla_same_name(const char *a, const char *b) {
  for (; *a && *b; a++, b++)
    if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_'))) return false;
  return *a == *b;
}

// In names of files XLA writes '_' for what is no letter, digit, '-' or '.'.
static bool is_in_file_name(const char *name, const char *file) {
  for (; *name && *file; name++, file++)
    if (*name != *file && *file != '_') return false;
  return *name == *file;
}

// ---- dumps and runs joined ----------------------------------------------------------------------
static bool starts_pipeline(const dump_step *d) {
  return d->pass && strcmp(d->pass, "pipeline-start") == 0;
}

static bool may_be(const dump_step *d, const pjrt_step *r, u32 pipelines, bool counted) {
  return is_in_file_name(r->pass, d->pass) && is_in_file_name(r->pipeline, d->pipeline) &&
         (!counted || r->pipelines[1] == pipelines);
}

// By run: the dump that it wrote. Between two starts of pipelines a name may occur twice; the run
// that changed the hash is meant.
static void find_written(xla_steps *x, u32 *written, bool counted) {
  size_t at = 0;
  u32 pipelines = 0;
  for (u32 k = 0; k < xla_steps_states(x); k++) {
    const dump_step *d = &x->dumps->steps.v[k];
    pipelines += starts_pipeline(d);
    if (!d->pass || starts_pipeline(d)) continue;
    size_t found = x->log.n;
    for (size_t j = at; j < x->log.n; j++) {
      if (!may_be(d, &x->log.v[j], pipelines, counted)) continue;
      if (found == x->log.n || x->log.v[j].changed) found = j;
      if (x->log.v[j].changed) break;
    }
    // stages inside a pass have dumps of their own and no run
    if (found == x->log.n) continue;
    written[found] = k;
    x->log.v[found].changed = true;
    at = found + 1;
  }
}

// The last state that existed when `runs` runs had ended and `pipelines` pipelines had started.
static u32 state_at(const xla_steps *x, const u32 *written, size_t runs, u32 pipelines,
                    bool counted) {
  u32 last = 0, started = 0;
  for (size_t k = 0; k < runs; k++)
    if (written[k] != XLA_NO_STATE) last = HS_MAX(last, written[k]);
  for (u32 k = 0; counted && k < xla_steps_states(x); k++)
    if (starts_pipeline(&x->dumps->steps.v[k]) && ++started <= pipelines) last = HS_MAX(last, k);
  return last;
}

static void join(xla_steps *x) {
  size_t n = x->log.n;
  u32 *written = HS_NEW_ARRAY(&x->arena, u32, n + 1), starts = 0;
  x->from = HS_NEW_ARRAY(&x->arena, u32, n + 1);
  x->to = HS_NEW_ARRAY(&x->arena, u32, n + 1);
  for (size_t k = 0; k < n; k++) x->from[k] = x->to[k] = written[k] = XLA_NO_STATE;
  if (!x->dumps) return;
  for (u32 k = 0; k < xla_steps_states(x); k++) starts += starts_pipeline(&x->dumps->steps.v[k]);
  bool counted = starts == x->log.pipelines;
  find_written(x, written, counted);
  for (size_t k = 0; k < n; k++) {
    const pjrt_step *r = &x->log.v[k];
    x->from[k] = state_at(x, written, r->begun, r->pipelines[0], counted);
    x->to[k] =
        written[k] != XLA_NO_STATE ? written[k] : state_at(x, written, k, r->pipelines[1], counted);
  }
}

// ---- compiling ----------------------------------------------------------------------------------
static void find_dumps(xla_steps *x, const char *name) {
  hs_status_drop(dump_folder_read(x->dir, &x->folder));
  for (size_t k = 0; k < x->folder.modules.n; k++) {
    const dump_module *d = &x->folder.modules.v[k];
    if (!x->dumps || (strcmp(d->name, name) == 0 && strcmp(x->dumps->name, name) != 0))
      x->dumps = d;
  }
}

hs_status xla_steps_make(repl_cmd *c, const hlo_module *m, const char *process_flags,
                         bool for_target, xla_steps *x) {
  *x = (xla_steps){.dir = "/tmp/hlosh-steps-XXXXXX"};
  if (!mkdtemp(x->dir)) {
    hs_status s = hs_fail_errno(HS_E_IO, x->dir);
    *x->dir = '\0';
    return s;
  }
  const backend_flag dumps[] = {{"xla_dump_to", x->dir},
                                {"xla_dump_hlo_pass_re", ".*"},
                                {"xla_dump_hlo_as_text", "true"},
                                {"xla_dump_large_constants", "true"}};
  backend_options o = repl_backend_options(c->s);
  char *plugin = NULL;
  hs_status s = for_target ? repl_xla_options(c->s, &o, &plugin) : HS_GOOD;
  backend_flag *flags = hs_calloc(o.nflags + HS_COUNT(dumps), sizeof *flags);
  hs_buf log = {0};
  if (o.nflags) memcpy(flags, o.flags, o.nflags * sizeof *flags);
  memcpy(flags + o.nflags, dumps, sizeof dumps);
  o.flags = flags;
  o.nflags += (u32)HS_COUNT(dumps);
  o.trace = &log;
  o.process_flags = process_flags;
  const backend *be = x->be = repl_xla_backend(c->s);
  if (hs_ok(s)) s = be->compile(m, &o, &x->exe);
  if (x->exe) x->compile_ms = be->compiled(x->exe)->compile_ms;
  pjrt_read_steps(hs_buf_cstr(&log), &x->log);
  find_dumps(x, m->name);
  join(x);
  hs_buf_free(&log);
  hs_free(flags);
  hs_free(plugin);
  return s;
}

hs_status xla_steps_read(repl_cmd *c, const xla_steps *x, u32 state, hlo_module **out) {
  *out = NULL;
  if (state >= xla_steps_states(x))
    return hs_fail(HS_E_UNSUPPORTED, "this plug-in does not dump its modules");
  hlo_parse_options o = {.file = x->dumps->steps.v[state].file};
  return hlo_load_file(c->s->ctx, o.file, &o, out);
}

hs_status xla_steps_unknown(const repl_cmd *c, const xla_steps *x, const char *name) {
  const char *out = strstr(repl_disabled_passes(c->s), name);
  if (out && (out[strlen(name)] == ',' || !out[strlen(name)]))
    return hs_with_note(hs_fail(HS_E_NO_PASS, "XLA leaves %s out", name), "xla enable %s", name);
  const char **names = HS_NEW_ARRAY(c->scratch, const char *, x->log.n + 1);
  for (size_t k = 0; k < x->log.n; k++) names[k] = x->log.v[k].pass;
  const char *near = x->log.n ? hs_nearest(name, names, (u32)x->log.n) : NULL;
  hs_status s = hs_fail(HS_E_NO_PASS, "XLA's pipeline runs no pass %s on %s", name, c->m->name);
  hs_buf alike = {0};
  for (size_t k = 0, told = 0; !near && k < x->log.n && told < MOST_ALIKE; k++) {
    bool seen = !strstr(names[k], name);
    for (size_t j = 0; j < k && !seen; j++) seen = strcmp(names[j], names[k]) == 0;
    if (!seen) hs_buf_printf(&alike, "%s%s", told++ ? ", " : "", names[k]);
  }
  if (alike.n) s = hs_with_note(s, "it runs %s", hs_buf_cstr(&alike));
  hs_buf_free(&alike);
  return hs_with_note(s,
                      near ? "the nearest name is %s; steps xla --all lists all"
                           : "steps xla --all lists those it runs",
                      near);
}

void xla_steps_free(xla_steps *x) {
  if (x->exe) x->be->release(x->exe);
  pjrt_steps_free(&x->log);
  dump_folder_free(&x->folder);
  hs_arena_free(&x->arena);
  if (*x->dir) bundle_remove(x->dir);
  *x = (xla_steps){0};
}
