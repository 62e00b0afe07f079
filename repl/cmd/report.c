// report.c: report DIR writes a bundle that replays; replay DIR runs one again and compares. A
// bundle is written under a temporary name beside its destination and then renamed, so it appears
// complete or not at all. Its files: bundle.h.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/ffi.h"
#include "backends/pjrt/pjrt.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/bundle.h"
#include "repl/shell/exec.h"
#include "repl/formats/npy.h"
#include "repl/shell/plugin.h"

static hs_status write_in(const char *dir, const char *name, const hs_buf *b) {
  char *path = hs_format("%s/%s", dir, name);
  hs_status s = repl_write_file(path, b->p ? b->p : "", b->n, false);
  hs_free(path);
  return s;
}

static hs_status write_module(const char *dir, const char *name, const hlo_module *m,
                              bool metadata) {
  hlo_print_options o = hlo_print_full();
  o.print_metadata = metadata;  // op names and source paths may say more than a reporter wants to
  hs_buf b = {0};
  hlo_print_module(&b, m, &o);
  if (b.n && b.p[b.n - 1] != '\n') hs_buf_putc(&b, '\n');
  hs_status s = write_in(dir, name, &b);
  hs_buf_free(&b);
  return s;
}

static hs_status write_values(const char *dir, const char *sub, const char *name,
                              const hlo_literal *v) {
  char *prefix = hs_format("%s/%s/%s", dir, sub, name);
  hs_status s = repl_npy_write_tree(prefix, v);
  hs_free(prefix);
  return s;
}

static void write_pass_log(const repl_module *mod, hs_buf *b) {
  const repl_version *path[4096];
  u32 n = 0;
  for (const repl_version *v = mod->at; v && n < HS_COUNT(path); v = v->parent) path[n++] = v;
  while (n-- > 0) {
    hs_buf_printf(b, "@%u  %s\n", path[n]->number, path[n]->parent ? path[n]->label : "as loaded");
    for (size_t k = 0; k < path[n]->log.n; k++) {
      const pass_result *r = &path[n]->log.v[k];
      hs_buf_printf(b, "    %-40s %s %u -> %u instructions, %.1f ms\n", r->pass,
                    r->changed ? "changed" : "nothing", r->before.instructions,
                    r->after.instructions, r->ms);
    }
  }
}

typedef struct outcome {
  hlo_literal *value;
  hs_code code;
  char *error;
} outcome;

static void outcome_free(outcome *o) {
  hlo_literal_unref(o->value);
  hs_free(o->error);
}

// Records an error as the outcome; an interrupt is passed on.
static hs_status settle(outcome *o, hs_status s) {
  if (hs_ok(s) || s.err->code == HS_E_INTERRUPTED) return s;
  o->code = s.err->code;
  o->error = hs_strdup(s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

static hs_status run_on(const repl_session *s, const backend *be, const hlo_module *m, u32 n,
                        hlo_literal *const *args, hlo_literal **out) {
  const backend_options bo = repl_backend_options(s);
  return backend_run_once(be, m, &bo, n, args, out);
}

static hs_status write_outcome(const char *dir, const char *sub, const outcome *o) {
  char *path = hs_format("%s/%s", dir, sub);
  hs_status s = bundle_mkdir(path);
  hs_free(path);
  HS_TRY(s);
  return o->value ? write_values(dir, sub, "result", o->value) : HS_GOOD;
}

static void json_outcome(repl_json *parent, const char *key, const outcome *o) {
  repl_json *j = repl_json_object(parent, key);
  repl_json_str(j, "status", o->value ? "ok" : "error");
  if (o->value) return;
  repl_json_str(j, "code", hs_code_text(o->code));
  repl_json_str(j, "message", o->error);
}

// Which plug-in, for which device, and its flags: the passes left out are one of them.
static void json_plugin(const repl_session *s, repl_json *j) {
  char *path = NULL;
  hs_status_drop(pjrt_find(s->plugin, &path));
  repl_json_str(j, "plugin", path);
  repl_json_str(j, "plugin_target", s->plugin_target);
  repl_json *flags = repl_json_object(j, "plugin_flags");
  for (size_t k = 0; k < s->flags.n; k++)
    repl_json_str(flags, s->flags.v[k].name, s->flags.v[k].value);
  hs_free(path);
}

static hs_status write_json(repl_cmd *c, const char *dir, const outcome *expected,
                            const outcome *actual) {
  repl_json *j = repl_json_root();
  repl_json_str(j, "schema", BUNDLE_SCHEMA);
  repl_json_str(j, "module", c->m->name);
  repl_json_int(j, "version", c->mod->at->number);
  repl_json_str(j, "backend", c->s->be->name);
  repl_json_str(j, "inputs",
                c->mod->inputs_from && strncmp(c->mod->inputs_from, "random", 6) == 0
                    ? c->mod->inputs_from
                    : "files");
  repl_json_int(j, "arguments", c->mod->ninputs);
  repl_json_int(j, "threads", c->s->set.threads);
  repl_json_num(j, "deadline", c->s->set.deadline);
  repl_json_bool(j, "keep_denormals", c->s->set.keep_denormals);
  repl_json_bool(j, "allow_fallback", c->s->set.allow_fallback);
  repl_json_num(j, "abs_error", c->s->set.abs_error);
  repl_json_num(j, "rel_error", c->s->set.rel_error);
  if (backend_has(c->s->be, BACKEND_PLUGIN)) json_plugin(c->s, j);
  json_outcome(j, "expected", expected);
  json_outcome(j, "actual", actual);
  hs_buf b = {0};
  repl_json_print(j, &b);
  hs_buf_putc(&b, '\n');
  hs_status s = write_in(dir, "bundle.json", &b);
  hs_buf_free(&b);
  repl_json_free(j);
  return s;
}

static hs_status write_pages(repl_cmd *c, const char *dir, const char *verdict) {
  hs_buf b = {0};
  bundle_environment(&b);
  hs_status s = write_in(dir, "environment.txt", &b);
  b.n = 0;
  write_pass_log(c->mod, &b);
  if (hs_ok(s)) s = write_in(dir, "passes.txt", &b);
  b.n = 0;
  hs_buf_printf(&b, "# %s\n\n%s\n\n", c->m->name, verdict);
  hs_buf_printf(
      &b,
      "`sh run.sh` runs it again (set HLOSH when hlosh is not on the PATH): exit status 0 when the "
      "outcome is the same,\n"
      "6 when it is another one. By hand: `hlosh -c 'replay .'`.\n\n"
      "- original.hlo: the module as loaded; module.hlo: after the passes of passes.txt (version "
      "@%u); all constants are in the text\n"
      "- inputs/: the arguments; expected/: the evaluator's result on original.hlo; actual/: that "
      "of the %s backend on module.hlo\n"
      "- environment.txt, bundle.json: versions, CPU, settings, tolerance\n\n"
      "With XLA's own tool: `run_hlo_module --platform=CPU module.hlo`\n",
      c->mod->at->number, c->s->be->name);
  if (hs_ok(s)) s = write_in(dir, "README.md", &b);
  b.n = 0;
  hs_buf_puts(
      &b,
      "#!/bin/sh\n# Replays this bundle: exit status 0 when the outcome is the same, 6 when it is "
      "another one.\n"
      "cd \"$(dirname \"$0\")\" || exit 3\nexec \"${HLOSH:-hlosh}\" -c 'replay .'\n");
  if (hs_ok(s)) s = write_in(dir, "run.sh", &b);
  hs_buf_free(&b);
  char *sh = hs_format("%s/run.sh", dir);
  if (hs_ok(s) && chmod(sh, 0755) != 0) s = hs_fail_errno(HS_E_IO, sh);
  hs_free(sh);
  return s;
}

static hs_status fill_bundle(repl_cmd *c, const char *dir, const hlo_module *loaded,
                             const hlo_module *now, char **verdict) {
  outcome expected = {0}, actual = {0};
  hlo_eval_options eo = {.peer = &ffi_peer, .keep_denormals = c->s->set.keep_denormals};
  hs_status s = settle(
      &expected, hlo_eval_module(loaded, c->mod->ninputs, c->mod->inputs, &eo, &expected.value));
  if (hs_ok(s))
    s = settle(&actual,
               run_on(c->s, c->s->be, now, c->mod->ninputs, c->mod->inputs, &actual.value));
  if (hs_ok(s)) {
    hlo_tolerance tol = {c->s->set.abs_error, c->s->set.rel_error};
    if (!actual.value)
      *verdict = hs_format("The %s backend fails: %s", c->s->be->name, actual.error);
    else if (!expected.value)
      *verdict = hs_format("The %s backend runs it; the evaluator does not: %s", c->s->be->name,
                           expected.error);
    else {
      hs_status d = hlo_compare(expected.value, actual.value, tol);
      *verdict = hs_ok(d) ? hs_format("The %s backend and the evaluator agree.", c->s->be->name)
                          : hs_format("The %s backend's result is wrong: %s", c->s->be->name,
                                      d.err->message);
      hs_status_drop(d);
    }
  }
  bool metadata = repl_flag(c, "--metadata") != NULL;
  if (hs_ok(s)) s = write_module(dir, "original.hlo", loaded, metadata);
  if (hs_ok(s)) s = write_module(dir, "module.hlo", now, metadata);
  char *inputs = hs_format("%s/inputs", dir);
  if (hs_ok(s)) s = bundle_mkdir(inputs);
  hs_free(inputs);
  for (u32 k = 0; k < c->mod->ninputs && hs_ok(s); k++) {
    char *name = hs_format("arg%u", k);
    s = write_values(dir, "inputs", name, c->mod->inputs[k]);
    hs_free(name);
  }
  if (hs_ok(s)) s = write_outcome(dir, "expected", &expected);
  if (hs_ok(s)) s = write_outcome(dir, "actual", &actual);
  if (hs_ok(s)) s = write_pages(c, dir, *verdict);
  if (hs_ok(s)) s = write_json(c, dir, &expected, &actual);
  outcome_free(&expected);
  outcome_free(&actual);
  return s;
}

// Moves the finished folder to its destination by a rename, or packs it into one archive there.
static hs_status place(repl_cmd *c, const char *made, const char *want) {
  if (bundle_is_archive(want)) {
    size_t n = strlen(want);
    const char *how = n > 4 && strcmp(want + n - 4, ".zst") == 0   ? "--zstd"
                      : n > 4 && strcmp(want + n - 4, ".tar") == 0 ? "--no-auto-compress"
                                                                   : "--gzip";
    char *tmp = hs_format("%s.part", want);
    const char *argv[] = {"tar", how, "-cf", tmp, "-C", made, ".", NULL};
    hs_status s = bundle_tar(argv);
    if (hs_ok(s) && rename(tmp, want) != 0) s = hs_fail_errno(HS_E_IO, want);
    if (!hs_ok(s)) unlink(tmp);
    hs_free(tmp);
    bundle_remove(made);
    return s;
  }
  if (repl_flag(c, "--force") && bundle_is(want)) bundle_remove(want);
  return rename(made, want) == 0 ? HS_GOOD : hs_fail_errno(HS_E_IO, want);
}

hs_status cmd_report(repl_cmd *c) {
  const char *want = repl_arg(c, 0);
  if (!repl_json_built()) return hs_fail(HS_E_NOT_BUILT, "report: this build lacks cJSON");
  if (access(want, F_OK) == 0 &&
      !(repl_flag(c, "--force") && (bundle_is(want) || bundle_is_archive(want))))
    return hs_with_note(hs_fail(HS_E_USAGE, "report: %s exists", want),
                        bundle_is(want) ? "--force overwrites it"
                                        : "choose a folder that does not exist");
  HS_TRY(repl_inputs(c));
  hlo_module *loaded = NULL, *now = NULL;
  HS_TRY(repl_runnable(c, repl_base(c->mod), true, &loaded));
  hs_status s = repl_runnable(c, NULL, true, &now);
  char *tmp = hs_format("%s.XXXXXX", want), *verdict = NULL;
  if (hs_ok(s) && !mkdtemp(tmp)) s = hs_fail_errno(HS_E_IO, want);
  if (hs_ok(s)) {
    (void)chmod(tmp, 0755);
    s = fill_bundle(c, tmp, loaded, now, &verdict);
    if (hs_ok(s)) s = hs_poll();
    if (hs_ok(s)) s = place(c, tmp, want);
    if (!hs_ok(s)) bundle_remove(tmp);
  }
  if (hs_ok(s)) {
    if (!c->doc) repl_say(c->out, "%s\nwrote %s; replay %s runs it again\n", verdict, want, want);
    repl_json_str(c->doc, "bundle", want);
    repl_json_str(c->doc, "verdict", verdict);
  }
  hs_free(tmp);
  hs_free(verdict);
  hlo_module_free(loaded);
  hlo_module_free(now);
  return s;
}

// ---- replay -------------------------------------------------------------------------------------
static hs_status bad_bundle(const char *dir, const char *what) {
  return hs_fail(HS_E_BUNDLE, "%s: %s", dir, what);
}

static hs_status read_inputs(const char *dir, const hlo_module *m, hlo_literal **v) {
  for (u32 k = 0; k < m->entry->nparams; k++) {
    char *prefix = hs_format("%s/inputs/arg%u", dir, k);
    hs_status s = repl_npy_read_tree(prefix, m->entry->params[k]->shape, &v[k]);
    hs_free(prefix);
    HS_TRY(s);
  }
  return HS_GOOD;
}

// Compares an outcome with the recorded one and says so.
static hs_status judge(repl_cmd *c, const char *dir, const repl_json *j, const hlo_module *m,
                       const outcome *got) {
  const repl_json *rec = repl_json_get(j, "actual");
  const char *status = repl_json_get_str(rec, "status"), *code = repl_json_get_str(rec, "code");
  if (!status) return bad_bundle(dir, "bundle.json names no outcome");
  if (strcmp(status, "ok") != 0) {
    bool same = !got->value && code && strcmp(code, hs_code_text(got->code)) == 0;
    repl_json_bool(c->doc, "same", same);
    if (same && !c->doc) repl_say(c->out, "same: it fails as recorded, %s: %s\n", code, got->error);
    if (same) return HS_GOOD;
    return hs_fail(HS_E_DIFFER, "different: the bundle records a failure (%s), now %s%s",
                   code ? code : "?",
                   got->value ? "it runs" : "it fails otherwise: ", got->value ? "" : got->error);
  }
  if (!got->value) {
    repl_json_bool(c->doc, "same", false);
    return hs_fail(HS_E_DIFFER, "different: the bundle records a result, now it fails: %s",
                   got->error);
  }
  hlo_literal *want = NULL;
  char *prefix = hs_format("%s/actual/result", dir);
  hs_status s = repl_npy_read_tree(prefix, m->entry->root->shape, &want);
  hs_free(prefix);
  if (!hs_ok(s)) return hs_chain(bad_bundle(dir, "the recorded result cannot be read"), s);
  bool bits = hlo_literal_equal(want, got->value);
  hlo_tolerance tol = {repl_json_get_num(j, "abs_error", HLO_TYPES_OWN),
                       repl_json_get_num(j, "rel_error", HLO_TYPES_OWN)};
  s = bits ? HS_GOOD : hlo_compare(want, got->value, tol);
  hlo_literal_unref(want);
  repl_json_bool(c->doc, "same", hs_ok(s));
  repl_json_bool(c->doc, "identical", bits);
  if (hs_ok(s) && !c->doc)
    repl_say(c->out, "same: %s\n",
             bits ? "every bit is as recorded" : "within the tolerance of what was recorded");
  return hs_ok(s)
             ? s
             : hs_chain(hs_fail(HS_E_DIFFER, "different: the result is not the recorded one"), s);
}

static hs_status replay_module(repl_cmd *c, const char *dir, const repl_json *j,
                               const hlo_module *m) {
  const char *name = repl_json_get_str(j, "backend");
  const backend *be = name ? backend_find(name) : NULL;
  if (!be) return bad_bundle(dir, "its backend is not in this build");
  repl_session with = *c->s;
  with.set.threads = (u32)repl_json_get_num(j, "threads", 0);
  with.set.deadline = repl_json_get_num(j, "deadline", 0);
  const repl_json *flags = repl_json_get(j, "plugin_flags");
  const char *plugin = repl_json_get_str(j, "plugin"),
             *target = repl_json_get_str(j, "plugin_target");
  if (!with.plugin && plugin && access(plugin, R_OK) == 0) with.plugin = (char *)(uintptr_t)plugin;
  HS_TRY(repl_backend_usable(&with, be));
  if (plugin && !with.plugin)
    repl_note(c->out, "%s is not installed: another plug-in is used", plugin);
  u32 n = m->entry->nparams;
  hlo_literal **args = hs_calloc(n ? n : 1, sizeof *args);
  hs_status s = read_inputs(dir, m, args);
  if (!hs_ok(s)) s = hs_chain(bad_bundle(dir, "an input cannot be read"), s);
  outcome got = {0};
  if (target) with.plugin_target = (char *)(uintptr_t)target;
  memset(&with.flags, 0, sizeof with.flags);
  for (u32 k = 0; k < repl_json_count(flags); k++) {
    const repl_json *f = repl_json_at(flags, k);
    hs_vec_push(&with.flags, ((backend_flag){repl_json_key(f), repl_json_text(f)}));
  }
  if (hs_ok(s)) s = settle(&got, run_on(&with, be, m, n, args, &got.value));
  if (hs_ok(s)) s = judge(c, dir, j, m, &got);
  if (hs_ok(s) && got.value) {
    hlo_literal *want = NULL;
    char *prefix = hs_format("%s/expected/result", dir);
    hs_status e = repl_npy_read_tree(prefix, m->entry->root->shape, &want);
    hs_free(prefix);
    hlo_tolerance tol = {repl_json_get_num(j, "abs_error", HLO_TYPES_OWN),
                         repl_json_get_num(j, "rel_error", HLO_TYPES_OWN)};
    if (hs_ok(e)) {
      e = hlo_compare(want, got.value, tol);
      if (!c->doc)
        repl_say(c->out, "%s\n",
                 hs_ok(e) ? "it agrees with the expected result"
                          : "it still differs from the expected result");
      repl_json_bool(c->doc, "as_expected", hs_ok(e));
    }
    hs_status_drop(e);
    hlo_literal_unref(want);
  }
  hs_vec_free(&with.flags);
  outcome_free(&got);
  for (u32 k = 0; k < n; k++) hlo_literal_unref(args[k]);
  hs_free(args);
  return s;
}

static hs_status replay_folder(repl_cmd *c, const char *dir) {
  hs_buf text = {0};
  char *path = hs_format("%s/bundle.json", dir);
  hs_status s = repl_read_file(path, (size_t)16 << 20, &text);
  hs_free(path);
  if (!hs_ok(s)) {
    hs_buf_free(&text);
    return hs_chain(bad_bundle(dir, "no readable bundle.json"), s);
  }
  repl_json *j = repl_json_parse(text.p ? text.p : "", text.n);
  hs_buf_free(&text);
  const char *schema = repl_json_get_str(j, "schema");
  if (!schema || strcmp(schema, BUNDLE_SCHEMA) != 0)
    s = bad_bundle(dir, "bundle.json is not of the schema " BUNDLE_SCHEMA);
  hlo_module *m = NULL;
  path = hs_format("%s/module.hlo", dir);
  if (hs_ok(s)) {
    hlo_parse_options o = {.file = path};
    s = hlo_load_file(c->s->ctx, path, &o, &m);
    if (!hs_ok(s)) s = hs_chain(bad_bundle(dir, "module.hlo cannot be read"), s);
    else if (!m->entry || !m->entry->root)
      s = bad_bundle(dir, "module.hlo has no entry computation");
  }
  hs_free(path);
  if (hs_ok(s)) s = replay_module(c, dir, j, m);
  hlo_module_free(m);
  repl_json_free(j);
  return s;
}

hs_status cmd_replay(repl_cmd *c) {
  const char *what = repl_arg(c, 0);
  if (!repl_json_built()) return hs_fail(HS_E_NOT_BUILT, "replay: this build lacks cJSON");
  if (!bundle_is_archive(what)) return replay_folder(c, what);
  if (access(what, R_OK) != 0) return hs_fail_errno(HS_E_IO, what);
  const char *base = getenv("TMPDIR");
  char *tmp = hs_format("%s/hlosh-replay.XXXXXX", base && *base ? base : "/tmp");
  hs_status s = mkdtemp(tmp) ? HS_GOOD : hs_fail_errno(HS_E_IO, tmp);
  if (hs_ok(s)) {
    const char *argv[] = {"tar", "-xf", what, "-C", tmp, NULL};
    s = bundle_tar(argv);
    if (!hs_ok(s)) s = hs_chain(bad_bundle(what, "the archive cannot be unpacked"), s);
    if (hs_ok(s)) s = replay_folder(c, tmp);
    bundle_remove(tmp);
  }
  hs_free(tmp);
  return s;
}
