// replay.c: replay BUNDLE runs a bundle of `report` again and compares.
//
// A bundle is a stranger's: a folder or an archive is read as formats/folder.h reads, so nothing
// outside of it is opened, and what it says is not believed. It names a backend, a number of
// threads, a deadline, a tolerance, and for a PJRT plug-in its path and flags. Of these a bundle
// may choose what it likes among what this program does anyway; a library from the bundle's path,
// and flags that could make the compiler write or read files, take --trust. What will run is said
// before it runs. A fault of passes (what `shrink PIPELINE` found) is judged again, too: the passes
// run on the module as it was before them.
#include <sys/mman.h>
#include <unistd.h>

#include "backends/pjrt/pjrt.h"
#include "core/analysis/agree.h"
#include "core/types/ctx.h"
#include "core/verify/verify.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/bundle.h"
#include "repl/shrink/shrink.h"
#include "repl/formats/npy.h"
#include "repl/shell/plugin.h"

#define JSON_MOST ((size_t)16 << 20)

static hs_status bad_bundle(const char *dir, const char *what) {
  return hs_fail(HS_E_BUNDLE, "%s: %s", dir, what);
}

// ---- what it asks for ---------------------------------------------------------------------------
typedef struct wish {
  const backend *be;
  const char *plugin, *target;  // borrowed from the document
  u32 threads;
  double deadline;
  HS_VEC(backend_flag) flags;
} wish;

static void wish_free(wish *w) { hs_vec_free(&w->flags); }

// A number of the document within bounds; absent is 0.
static hs_status number(const char *dir, const repl_json *j, const char *key, double most,
                        double *out) {
  *out = repl_json_get_num(j, key, 0);
  return *out >= 0 && *out <= most
             ? HS_GOOD
             : hs_fail(HS_E_BUNDLE, "%s: %s is not from 0 to %g", dir, key, most);
}

// Flags that change code and nothing else. Others may name files.
static bool harmless(const char *flag) {
  static const char *const known[] = {"xla_disable_hlo_passes", "xla_backend_optimization_level",
                                      "xla_allow_excess_precision", "xla_cpu_enable_fast_math",
                                      "xla_cpu_enable_fast_min_max"};
  for (size_t k = 0; k < HS_COUNT(known); k++)
    if (strcmp(flag, known[k]) == 0) return true;
  return false;
}

static hs_status read_flags(const char *dir, const repl_json *flags, bool trust, wish *w) {
  for (const repl_json *f = repl_json_at(flags, 0); f; f = repl_json_next(f)) {
    const char *name = repl_json_key(f), *value = repl_json_text(f);
    if (!name || !value) return bad_bundle(dir, "a flag of the plug-in has no value");
    if (!trust && !harmless(name))
      return hs_with_note(
          hs_fail(HS_E_BUNDLE, "%s: it sets the plug-in's flag %s to %s", dir, name, value),
          "such a flag can make the compiler read or write files; replay --trust sets it");
    hs_vec_push(&w->flags, ((backend_flag){name, value}));
  }
  return HS_GOOD;
}

static hs_status read_wish(const char *dir, const repl_json *j, bool trust, wish *w) {
  const char *name = repl_json_get_str(j, "backend");
  double threads;
  w->be = name ? backend_find(name) : NULL;
  if (!w->be) return bad_bundle(dir, "its backend is not in this build");
  HS_TRY(number(dir, j, "threads", 4096, &threads));
  HS_TRY(number(dir, j, "deadline", 1e9, &w->deadline));
  w->threads = (u32)threads;
  w->plugin = repl_json_get_str(j, "plugin");
  w->target = repl_json_get_str(j, "plugin_target");
  return read_flags(dir, repl_json_get(j, "plugin_flags"), trust, w);
}

// The session as the bundle wants it; the stricter deadline holds.
static hs_status session_for(repl_cmd *c, const wish *w, repl_session *with) {
  *with = *c->s;
  with->set.threads = w->threads;
  if (w->deadline > 0 && (with->set.deadline <= 0 || w->deadline < with->set.deadline))
    with->set.deadline = w->deadline;
  bool trust = repl_flag(c, "--trust") != NULL;
  bool there = w->plugin && access(w->plugin, R_OK) == 0;
  if (!with->plugin && there && trust) with->plugin = (char *)(uintptr_t)w->plugin;
  HS_TRY(repl_backend_usable(with, w->be));
  if (w->plugin && !with->plugin) {
    char *found = NULL;
    hs_status_drop(pjrt_find(NULL, &found));
    const char *have = found ? strrchr(found, '/') : NULL;
    bool same = have && strcmp(have + 1, w->plugin) == 0;  // a bundle may name only the file
    if (!same && !there)
      repl_note(c->out, "%s is not installed: another plug-in is used", w->plugin);
    else if (!same && (!found || strcmp(found, w->plugin) != 0))
      repl_note(c->out, "%s is loaded with --trust only: another plug-in is used", w->plugin);
    hs_free(found);
  }
  if (w->target) with->plugin_target = (char *)(uintptr_t)w->target;
  memset(&with->flags, 0, sizeof with->flags);
  for (size_t k = 0; k < w->flags.n; k++) hs_vec_push(&with->flags, w->flags.v[k]);
  return HS_GOOD;
}

static void say_plan(repl_cmd *c, const char *dir, const wish *w, const hlo_module *m) {
  hs_buf b = {0};
  u32 n = hlo_instr_count(m);
  hs_buf_printf(&b, "%s: runs %s, %u instruction%s, on %s", dir, m->name, n, n == 1 ? "" : "s",
                w->be->name);
  if (w->threads) hs_buf_printf(&b, ", threads %u", w->threads);
  if (w->deadline > 0) hs_buf_printf(&b, ", deadline %g s", w->deadline);
  for (size_t k = 0; k < w->flags.n; k++)
    hs_buf_printf(&b, ", %s=%s", w->flags.v[k].name, w->flags.v[k].value);
  const char *confined = backend_confined(w->be, c->s->set.sandbox);
  if (confined) hs_buf_printf(&b, ", %s", confined);
  repl_note(c->out, "%s", hs_buf_cstr(&b));
  repl_json *j = repl_json_object(c->doc, "runs");
  repl_json_str(j, "module", m->name);
  repl_json_int(j, "instructions", n);
  repl_json_str(j, "backend", w->be->name);
  repl_json_int(j, "threads", w->threads);
  repl_json_num(j, "deadline", w->deadline);
  if (confined) repl_json_str(j, "sandbox", confined);
  repl_json *flags = repl_json_object(j, "plugin_flags");
  for (size_t k = 0; k < w->flags.n; k++)
    repl_json_str(flags, w->flags.v[k].name, w->flags.v[k].value);
  hs_buf_free(&b);
}

// ---- judging ------------------------------------------------------------------------------------
// Compares an outcome with the recorded one and says so.
static hs_status judge(repl_cmd *c, repl_folder *from, const repl_json *j, const hlo_module *m,
                       const bundle_outcome *got) {
  const repl_json *rec = repl_json_get(j, "actual");
  const char *status = repl_json_get_str(rec, "status"), *code = repl_json_get_str(rec, "code");
  if (!status) return bad_bundle(from->path, "bundle.json names no outcome");
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
  hs_status s = repl_npy_read_tree(from, "actual/result", m->entry->root->shape, &want);
  if (!hs_ok(s)) return hs_chain(bad_bundle(from->path, "the recorded result cannot be read"), s);
  bool bits = hlo_literal_equal(want, got->value);
  hlo_tolerance tol = hlo_near(repl_json_get_num(j, "abs_error", HLO_TYPES_OWN),
                               repl_json_get_num(j, "rel_error", HLO_TYPES_OWN));
  s = bits ? HS_GOOD : hlo_agree(m->entry->root, want, got->value, tol);
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

static void judge_expected(repl_cmd *c, repl_folder *from, const repl_json *j, const hlo_module *m,
                           const hlo_literal *got) {
  hlo_literal *want = NULL;
  hs_status s = repl_npy_read_tree(from, "expected/result", m->entry->root->shape, &want);
  hlo_tolerance tol = hlo_near(repl_json_get_num(j, "abs_error", HLO_TYPES_OWN),
                               repl_json_get_num(j, "rel_error", HLO_TYPES_OWN));
  if (hs_ok(s)) {
    s = hlo_agree(m->entry->root, want, got, tol);
    if (!c->doc)
      repl_say(c->out, "%s\n",
               hs_ok(s) ? "it agrees with the expected result"
                        : "it still differs from the expected result");
    repl_json_bool(c->doc, "as_expected", hs_ok(s));
  }
  hs_status_drop(s);
  hlo_literal_unref(want);
}

// ---- running ------------------------------------------------------------------------------------
static hs_status read_inputs(repl_folder *from, const hlo_module *m, hlo_literal **v) {
  for (u32 k = 0; k < m->entry->nparams; k++) {
    char *prefix = hs_format("inputs/arg%u", k);
    hs_status s = repl_npy_read_tree(from, prefix, m->entry->params[k]->shape, &v[k]);
    hs_free(prefix);
    if (!hs_ok(s)) return hs_chain(bad_bundle(from->path, "an input cannot be read"), s);
  }
  return HS_GOOD;
}

static hs_status run_module(repl_cmd *c, repl_folder *from, const repl_json *j, const wish *w,
                            const hlo_module *m) {
  repl_session with;
  u32 n = m->entry->nparams;
  hlo_literal **args = hs_calloc(n ? n : 1, sizeof *args);
  bundle_outcome got = {0};
  hs_status s = session_for(c, w, &with);
  if (hs_ok(s)) {
    s = read_inputs(from, m, args);
    if (hs_ok(s)) say_plan(c, from->path, w, m);
    if (hs_ok(s)) s = bundle_settle(&got, bundle_run(&with, w->be, m, n, args, &got.value));
    if (hs_ok(s)) s = judge(c, from, j, m, &got);
    if (hs_ok(s) && got.value) judge_expected(c, from, j, m, got.value);
    hs_vec_free(&with.flags);
  }
  bundle_outcome_free(&got);
  for (u32 k = 0; k < n; k++) hlo_literal_unref(args[k]);
  hs_free(args);
  return s;
}

// A module goes through the loader of all files, from an anonymous file that holds a copy: the
// bundle's own may be a member of an archive.
static hs_status load_module(repl_cmd *c, repl_folder *from, const char *name, hlo_module **out) {
  hs_view v;
  HS_TRY(repl_folder_read(from, name, &v));
  int fd = memfd_create(name, MFD_CLOEXEC);
  char *path = hs_format("/proc/self/fd/%d", fd), *shown = hs_format("%s/%s", from->path, name);
  hs_status s = fd < 0 || !hs_write_all(fd, v.p, v.n) ? hs_fail_errno(HS_E_IO, shown) : HS_GOOD;
  hs_view_drop(&v);
  hlo_parse_options o = {.file = shown};
  if (hs_ok(s)) s = hlo_load_file(c->s->ctx, path, &o, out);
  if (!hs_ok(s)) s = hs_chain(hs_fail(HS_E_BUNDLE, "%s: %s cannot be read", from->path, name), s);
  else if (!(*out)->entry || !(*out)->entry->root)
    s = hs_fail(HS_E_BUNDLE, "%s: %s has no entry computation", from->path, name);
  else s = hlo_verify(*out, NULL);
  if (fd >= 0) close(fd);
  hs_free(path);
  hs_free(shown);
  return s;
}

// ---- a fault of passes --------------------------------------------------------------------------
static hs_status read_fault(repl_cmd *c, const char *dir, const repl_json *f, shrink_search *s) {
  const char *condition = repl_json_get_str(f, "condition"),
             *pipeline = repl_json_get_str(f, "pipeline"), *be = repl_json_get_str(f, "backend"),
             *reference = repl_json_get_str(f, "reference");
  if (!condition || !bisect_condition(condition, &s->t.kind, &s->t.changes))
    return bad_bundle(dir, "the fault is of no condition");
  if (!pipeline) return bad_bundle(dir, "the fault is of no pipeline");
  s->t.c = c;
  s->t.results_only = s->t.kind == BISECT_MISMATCH;
  s->t.tol = hlo_near(repl_json_get_num(f, "abs_error", HLO_TYPES_OWN),
                      repl_json_get_num(f, "rel_error", HLO_TYPES_OWN));
  if (be) s->t.be = backend_find(be);
  if (reference) s->reference = backend_find(reference);
  if ((be && !s->t.be) || (reference && !s->reference))
    return bad_bundle(dir, "the backend of its fault is not in this build");
  if (s->t.kind == BISECT_SLOWER && !be)
    return bad_bundle(dir, "its fault is slower code, and it names no backend");
  if (s->t.be) HS_TRY(repl_backend_usable(c->s, s->t.be));
  if (s->reference) HS_TRY(repl_backend_usable(c->s, s->reference));
  HS_TRY(shrink_pipeline_set(s, pipeline));
  double limit = repl_json_get_num(f, "limit", -1);
  s->passes.limit = limit >= 0 && limit < 1e15 ? (i64)limit : -1;
  return HS_GOOD;
}

// Runs the passes on the module as it was before them, and judges that as `shrink` did.
static hs_status replay_passes(repl_cmd *c, repl_folder *from, const repl_json *fault) {
  shrink_search s = {0};
  shrink_case x = {0};
  char *why = NULL;
  hs_status st = read_fault(c, from->path, fault, &s);
  if (hs_ok(st)) st = load_module(c, from, "original.hlo", &x.m);
  if (hs_ok(st)) {
    x.nargs = x.m->entry->nparams;
    x.args = hs_calloc(x.nargs + 1, sizeof *x.args);
    st = read_inputs(from, x.m, x.args);
  }
  if (hs_ok(st)) st = shrink_judge(&s, &x, &why);
  if (hs_ok(st)) {
    repl_json_bool(c->doc, "fault", why != NULL);
    if (!c->doc && why) repl_say(c->out, "same: pass %s: %s\n", s.pipeline, why);
    if (!why)
      st = hs_fail(HS_E_DIFFER, "different: pass %s has no such fault now: %s", s.pipeline,
                   repl_json_get_str(fault, "condition"));
  }
  hs_free(why);
  shrink_case_free(&x);
  shrink_end(&s);
  return st;
}

static hs_status replay_from(repl_cmd *c, repl_folder *from, const repl_json *j) {
  const char *dir = from->path, *schema = repl_json_get_str(j, "schema");
  if (!schema || strcmp(schema, BUNDLE_SCHEMA) != 0)
    return bad_bundle(dir, "bundle.json is not of the schema " BUNDLE_SCHEMA);
  hlo_module *m = NULL;
  wish w = {0};
  hs_status s = read_wish(dir, j, repl_flag(c, "--trust") != NULL, &w);
  if (hs_ok(s)) s = load_module(c, from, "module.hlo", &m);
  if (hs_ok(s)) s = run_module(c, from, j, &w, m);
  const repl_json *fault = repl_json_get(j, "fault");
  if (hs_ok(s) && fault) s = replay_passes(c, from, fault);
  hlo_module_free(m);
  wish_free(&w);
  return s;
}

static hs_status read_json(repl_folder *from, repl_json **out) {
  hs_view v;
  HS_TRY(repl_folder_read(from, "bundle.json", &v));
  hs_status s = v.n > JSON_MOST
                    ? hs_fail(HS_E_LIMIT, "bundle.json: larger than %zu bytes", JSON_MOST)
                    : HS_GOOD;
  if (hs_ok(s)) *out = repl_json_parse(v.n ? v.p : "", v.n);
  hs_view_drop(&v);
  return s;
}

static hs_status open_bundle(const char *what, size_t limit, repl_folder *out) {
  return bundle_is_archive(what) ? repl_folder_open_tar(what, limit, out)
                                 : repl_folder_open(what, limit, out);
}

// With a reader of its own, as what may be read of a bundle is limited.
static hs_status check_sums(const char *what, size_t limit) {
  repl_folder from;
  hs_status s = open_bundle(what, limit, &from);
  if (hs_ok(s)) s = bundle_check_sums(&from);
  repl_folder_close(&from);
  return s;
}

hs_status cmd_replay(repl_cmd *c) {
  const char *what = repl_arg(c, 0);
  if (!repl_json_built()) return hs_fail(HS_E_NOT_BUILT, "replay: this build lacks cJSON");
  size_t limit = hlo_ctx_load_limit(c->s->ctx);
  bool archive = bundle_is_archive(what);
  repl_folder from;
  repl_json *j = NULL;
  hs_status s = open_bundle(what, limit, &from);
  if (!hs_ok(s) && archive) return hs_chain(bad_bundle(what, "the archive cannot be unpacked"), s);
  if (!hs_ok(s)) return hs_chain(bad_bundle(what, "no readable bundle.json"), s);
  s = read_json(&from, &j);
  if (!hs_ok(s)) s = hs_chain(bad_bundle(what, "no readable bundle.json"), s);
  if (hs_ok(s) && !repl_flag(c, "--changed")) s = check_sums(what, limit);
  if (hs_ok(s)) s = replay_from(c, &from, j);
  repl_json_free(j);
  repl_folder_close(&from);
  return s;
}
