// report.c: report DIR writes a bundle that replays (replay.c). A bundle is written under a
// temporary name beside its destination and then renamed, so it appears complete or not at all. Its
// files: bundle.h.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/ffi.h"
#include "backends/pjrt/pjrt.h"
#include "core/analysis/agree.h"
#include "repl/cmd/cmd.h"
#include "core/proto/proto.h"
#include "repl/debug/bundle.h"
#include "repl/debug/diverge.h"
#include "repl/debug/issue.h"
#include "repl/formats/arrays.h"
#include "repl/shell/exec.h"
#include "repl/formats/npy.h"
#include "repl/shell/plugin.h"

// Configurations and attributes are part of the program: paths in them stay, and the user is told.
static void warn_of_paths(repl_cmd *c, hs_buf *text) {
  for (const char *p = hs_buf_cstr(text); (p = strstr(p, "\"/")) != NULL; p++) {
    size_t n = strcspn(p + 1, "\"\n");
    if (!memchr(p + 2, '/', n > 1 ? n - 1 : 0)) continue;
    repl_note(c->out, "an attribute of the module holds a path, %.*s: look before you send it",
              (int)HS_MIN(n, 80), p + 1);
    return;
  }
}

static hs_status write_in(const char *dir, const char *name, const hs_buf *b) {
  char *path = hs_format("%s/%s", dir, name);
  hs_status s = hs_write_file(path, b->p ? b->p : "", b->n, false);
  hs_free(path);
  return s;
}

// text: receives what is written; the caller frees it.
static hs_status write_module(const char *dir, const char *name, const hlo_module *m, bool metadata,
                              hs_buf *text) {
  hlo_print_options o = hlo_print_full();
  o.print_metadata = metadata;  // op names and source paths may say more than a reporter wants to
  hlo_print_module(text, m, &o);
  if (text->n && text->p[text->n - 1] != '\n') hs_buf_putc(text, '\n');
  return write_in(dir, name, text);
}

static hs_status write_values(const char *dir, const char *sub, const char *name,
                              const hlo_literal *v) {
  char *prefix = hs_format("%s/%s/%s", dir, sub, name);
  hs_status s = repl_npy_write_tree(prefix, v);
  hs_free(prefix);
  return s;
}

// What upstream's tools read: the arguments as one .npz, and all in one HloSnapshot. A value that
// these forms cannot hold is left out of them; the bundle has it as .npy.
static hs_status write_upstream(const repl_cmd *c, const char *dir, const hlo_module *loaded,
                                bool metadata, const bundle_outcome *actual, bool *snapshot) {
  u32 n = c->mod->ninputs;
  array_item *items = HS_NEW_ARRAY(c->scratch, array_item, n + 1);
  for (u32 k = 0; k < n; k++)
    items[k] = (array_item){loaded->entry->params[k]->name, c->mod->inputs[k]};
  char *path = hs_format("%s/inputs.npz", dir);
  hs_status s = n ? arrays_write(path, n, items) : HS_GOOD;
  hs_free(path);
  if (!hs_ok(s) && s.err->code == HS_E_INPUT) hs_status_drop(s), s = HS_GOOD;
  hlo_module *plain = NULL;
  if (hs_ok(s) && !metadata) {
    plain = hlo_module_clone(loaded, loaded->name);
    hlo_for_each_comp(comp, plain)
      hlo_for_each_instr(i, comp) hlo_remove_attr(i, HLO_ATTR_METADATA);
  }
  hs_buf b = {0};
  if (hs_ok(s)) {
    hs_status made = hlo_proto_write_snapshot(&b, plain ? plain : loaded, n, c->mod->inputs,
                                              actual->value, c->s->be->name);
    *snapshot = hs_ok(made);
    hs_status_drop(made);
  }
  if (hs_ok(s) && *snapshot) s = write_in(dir, "original.hlo.pb", &b);
  hs_buf_free(&b);
  hlo_module_free(plain);
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

static hs_status write_outcome(const char *dir, const char *sub, const bundle_outcome *o) {
  char *path = hs_format("%s/%s", dir, sub);
  hs_status s = bundle_mkdir(path);
  hs_free(path);
  HS_TRY(s);
  return o->value ? write_values(dir, sub, "result", o->value) : HS_GOOD;
}

static void json_outcome(repl_json *parent, const char *key, const bundle_outcome *o) {
  repl_json *j = repl_json_object(parent, key);
  repl_json_str(j, "status", o->value ? "ok" : "error");
  if (o->value) return;
  repl_json_str(j, "code", hs_code_text(o->code));
  repl_json_str(j, "message", o->error);
}

// Which plug-in, for which device, or which Python, and its flags: the passes left out are one of
// them. A Python is named for the reader only: replay takes the one of its own session.
static void json_xla(const repl_session *s, bool paths, repl_json *j) {
  char *path = NULL;
  if (backend_has(s->be, BACKEND_PYTHON)) {
    path = repl_xla_text(s, s->be, NULL);
    repl_json_str(j, "jaxlib", path);
  } else {
    hs_status_drop(pjrt_find(s->plugin, &path));
    const char *slash = path && !paths ? strrchr(path, '/') : NULL;
    repl_json_str(j, "plugin", slash ? slash + 1 : path);
    repl_json_str(j, "plugin_target", s->plugin_target);
  }
  repl_json *flags = repl_json_object(j, "plugin_flags");
  for (size_t k = 0; k < s->flags.n; k++)
    repl_json_str(flags, s->flags.v[k].name, s->flags.v[k].value);
  hs_free(path);
}

static void json_fault(const bundle_fault *f, repl_json *parent) {
  repl_json *j = repl_json_object(parent, "fault");
  repl_json_str(j, "condition", f->condition);
  repl_json_str(j, "pipeline", f->pipeline);
  if (f->limit >= 0) repl_json_int(j, "limit", f->limit);
  repl_json_str(j, "backend", f->backend);
  repl_json_str(j, "reference", f->reference);
  repl_json_num(j, "abs_error", f->tol.abs);
  repl_json_num(j, "rel_error", f->tol.rel);
  repl_json_str(j, "wrong", f->wrong);
}

static hs_status write_json(repl_cmd *c, const char *dir, const bundle_fault *fault,
                            const bundle_outcome *expected, const bundle_outcome *actual) {
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
  if (backend_has(c->s->be, BACKEND_XLA)) json_xla(c->s, repl_flag(c, "--metadata") != NULL, j);
  json_outcome(j, "expected", expected);
  json_outcome(j, "actual", actual);
  if (fault) json_fault(fault, j);
  hs_buf b = {0};
  repl_json_print(j, &b);
  hs_buf_putc(&b, '\n');
  hs_status s = write_in(dir, "bundle.json", &b);
  hs_buf_free(&b);
  repl_json_free(j);
  return s;
}

static hs_status write_pages(repl_cmd *c, const char *dir, const char *verdict) {
  bool paths = repl_flag(c, "--metadata") != NULL;
  hs_buf b = {0};
  bundle_environment(&b);
  hs_status s = write_in(dir, "environment.txt", &b);
  b.n = 0;
  write_pass_log(c->mod, &b);
  if (!paths) issue_hide_paths(&b);
  if (hs_ok(s)) s = write_in(dir, "passes.txt", &b);
  b.n = 0;
  hs_buf_printf(&b, "# %s\n\n%s\n\n", c->m->name, verdict);
  hs_buf_printf(
      &b,
      "`sh run.sh` runs it again (set HLOSH when hlosh is not on the PATH): exit status 0 when the "
      "outcome is the same,\n"
      "6 when it is another one. By hand: `hlosh -c 'replay .'`.\n\n"
      "- ISSUE.md: a report to file\n"
      "- original.hlo: the module as loaded; module.hlo: after the passes of passes.txt (version "
      "@%u); all constants are in the text\n"
      "- inputs.npz, original.hlo.pb: the arguments, and an HloSnapshot of original.hlo with them, "
      "for other tools\n"
      "- inputs/: the arguments; expected/: the evaluator's result on original.hlo; actual/: that "
      "of the %s backend on module.hlo\n"
      "- environment.txt, bundle.json: versions, CPU, settings, tolerance; SHA256SUMS: of all "
      "files\n\n"
      "With XLA's own tool: `run_hlo_module --platform=CPU original.hlo`\n",
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

// The page to file, with the first instruction that differs when the results do.
static hs_status write_issue(repl_cmd *c, const char *dir, issue *i, const hlo_module *now) {
  divergence d = {0};
  hs_buf page = {0};
  hs_status s = HS_GOOD;
  const backend *ref = backend_with(BACKEND_EVALUATOR);
  if (i->expected->value && i->actual->value && c->s->be != ref) {
    hlo_tolerance tol = hlo_near(c->s->set.abs_error, c->s->set.rel_error);
    s = hlo_agree(c->m->entry->root, i->expected->value, i->actual->value, tol);
    bool differ = !hs_ok(s);
    hs_status_drop(s);
    s = differ ? diverge_find(c, now, c->s->be, ref, tol, &d) : HS_GOOD;
    if (!hs_ok(s) && !hs_interrupted()) hs_status_drop(s), s = HS_GOOD;  // the rest is worth it
  }
  i->details = d.found ? hs_buf_cstr(&d.lines) : NULL;
  issue_write(c, i, repl_flag(c, "--metadata") != NULL, &page);
  if (hs_ok(s)) s = write_in(dir, "ISSUE.md", &page);
  hs_buf_free(&page);
  divergence_free(&d);
  return s;
}

static char *verdict_of(const repl_cmd *c, const bundle_fault *fault,
                        const bundle_outcome *expected, const bundle_outcome *actual) {
  const char *be = c->s->be->name;
  if (fault && fault->limit >= 0)
    return hs_format("pass %s --limit=%lld: %s", fault->pipeline, (long long)fault->limit,
                     fault->wrong);
  if (fault) return hs_format("pass %s: %s", fault->pipeline, fault->wrong);
  if (!actual->value) return hs_format("The %s backend fails: %s", be, actual->error);
  if (!expected->value)
    return hs_format("The %s backend runs it; the evaluator does not: %s", be, expected->error);
  hlo_tolerance tol = hlo_near(c->s->set.abs_error, c->s->set.rel_error);
  hs_status d = hlo_agree(c->m->entry->root, expected->value, actual->value, tol);
  char *text = hs_ok(d) ? hs_format("The %s backend and the evaluator agree.", be)
                        : hs_format("The %s backend's result is wrong: %s", be, d.err->message);
  hs_status_drop(d);
  return text;
}

static hs_status fill_bundle(repl_cmd *c, const char *dir, const hlo_module *loaded,
                             const hlo_module *now, const bundle_fault *fault, char **verdict) {
  bundle_outcome expected = {0}, actual = {0};
  hlo_eval_options eo = {.peer = &ffi_peer, .keep_denormals = c->s->set.keep_denormals};
  hs_status s = bundle_settle(
      &expected, hlo_eval_module(loaded, c->mod->ninputs, c->mod->inputs, &eo, &expected.value));
  if (hs_ok(s))
    s = bundle_settle(
        &actual, bundle_run(c->s, c->s->be, now, c->mod->ninputs, c->mod->inputs, &actual.value));
  if (hs_ok(s)) *verdict = verdict_of(c, fault, &expected, &actual);
  bool metadata = repl_flag(c, "--metadata") != NULL, snapshot = false;
  hs_buf original = {0}, module = {0};
  if (hs_ok(s)) s = write_module(dir, "original.hlo", loaded, metadata, &original);
  if (hs_ok(s) && !metadata) warn_of_paths(c, &original);
  if (hs_ok(s)) s = write_module(dir, "module.hlo", now, metadata, &module);
  if (hs_ok(s)) s = write_upstream(c, dir, loaded, metadata, &actual, &snapshot);
  hs_buf_free(&module);
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
  if (hs_ok(s))
    s = write_issue(c, dir,
                    &(issue){.original = loaded,
                             .text = hs_buf_cstr(&original),
                             .verdict = *verdict,
                             .expected = &expected,
                             .actual = &actual,
                             .snapshot = snapshot},
                    now);
  if (hs_ok(s)) s = write_json(c, dir, fault, &expected, &actual);
  if (hs_ok(s)) s = bundle_write_sums(dir);
  hs_buf_free(&original);
  bundle_outcome_free(&expected);
  bundle_outcome_free(&actual);
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

hs_status cmd_write_report(repl_cmd *c, const char *want, const bundle_fault *fault,
                           char **verdict) {
  *verdict = NULL;
  if (!repl_json_built()) return hs_fail(HS_E_NOT_BUILT, "report: this build lacks cJSON");
  if (access(want, F_OK) == 0 &&
      !(repl_flag(c, "--force") && (bundle_is(want) || bundle_is_archive(want))))
    return hs_with_note(hs_fail(HS_E_USAGE, "%s: %s exists", c->command->name, want),
                        bundle_is(want) ? "--force overwrites it"
                                        : "choose a folder that does not exist");
  HS_TRY(repl_inputs(c));
  hlo_module *loaded = NULL, *now = NULL;
  HS_TRY(repl_runnable(c, repl_base(c->mod), true, &loaded));
  hs_status s = repl_runnable(c, NULL, true, &now);
  char *tmp = hs_format("%s.XXXXXX", want);
  if (hs_ok(s) && !mkdtemp(tmp)) s = hs_fail_errno(HS_E_IO, want);
  if (hs_ok(s)) {
    (void)chmod(tmp, 0755);
    s = fill_bundle(c, tmp, loaded, now, fault, verdict);
    if (hs_ok(s)) s = hs_poll();
    if (hs_ok(s)) s = place(c, tmp, want);
    if (!hs_ok(s)) bundle_remove(tmp);
  }
  hs_free(tmp);
  hlo_module_free(loaded);
  hlo_module_free(now);
  return s;
}

hs_status cmd_report(repl_cmd *c) {
  const char *want = repl_arg(c, 0);
  char *verdict, *archive = NULL;
  if (repl_flag(c, "--tar") && !bundle_is_archive(want))
    want = archive = hs_format("%s.tar.gz", want);
  hs_status s = cmd_write_report(c, want, NULL, &verdict);
  if (hs_ok(s)) {
    if (!c->doc) repl_say(c->out, "%s\nwrote %s; replay %s runs it again\n", verdict, want, want);
    repl_json_str(c->doc, "bundle", want);
    repl_json_str(c->doc, "verdict", verdict);
  }
  hs_free(verdict);
  hs_free(archive);
  return s;
}
