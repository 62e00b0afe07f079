// check.c: check. Does the current version, on the chosen backend, compute what the reference
// computes on the module as loaded? The reference is the evaluator unless another backend is named.
// When the results differ, the first instruction on which the two differ is searched (diverge.c).
// The modules of a folder are checked one by one and listed by error, largest first.
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/analysis/agree.h"
#include "core/text/text.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/diverge.h"
#include "repl/debug/dump_folder.h"
#include "repl/shell/gate.h"
#include "repl/shell/plugin.h"

typedef struct check {
  const backend *be, *ref;
  hlo_tolerance tol;
  bool detail, search;
} check;

typedef struct outcome {
  double abs, rel;
  u64 ulp;
  i64 mismatches;
} outcome;

// The figures of all leaves together, and a status for those that differ.
static hs_status judge(repl_cmd *c, const hlo_literal *want, const hlo_literal *got, const check *k,
                       bool quiet, outcome *o) {
  hlo_comparisons list;
  HS_TRY(hlo_agree_leaves(c->m->entry->root, want, got, k->tol, &list));
  repl_json *leaves = quiet ? NULL : repl_json_array(c->doc, "results");
  for (size_t q = 0; q < list.n; q++) {
    const hlo_comparison *x = &list.v[q];
    o->abs =
        fmax(o->abs, x->nan_mismatches || (x->mismatches && !x->nfixes) ? INFINITY : x->max_abs);
    o->rel = fmax(o->rel, x->max_rel);
    o->ulp = HS_MAX(o->ulp, x->max_ulp);
    o->mismatches += x->mismatches;
    repl_json *j = repl_json_object(leaves, NULL);
    repl_json_str(j, "path", x->path);
    repl_json_int(j, "elements", x->elements);
    repl_json_int(j, "mismatches", x->mismatches);
    repl_json_int(j, "nan_mismatches", x->nan_mismatches);
    repl_json_num(j, "abs_error", x->max_abs);
    repl_json_num(j, "rel_error", x->max_rel);
    repl_json_int(j, "ulp", (i64)HS_MIN(x->max_ulp, (u64)INT64_MAX));
    repl_json *fixes = repl_json_array(j, "would_pass");
    for (u32 f = 0; f < x->nfixes; f++) {
      repl_json *t = repl_json_object(fixes, NULL);
      repl_json_num(t, "abs", x->fixes[f].abs), repl_json_num(t, "rel", x->fixes[f].rel);
    }
    repl_json *top = repl_json_array(j, "worst");
    for (u32 f = 0; f < x->ntop; f++) {
      repl_json *t = repl_json_object(top, NULL);
      hs_buf at = {0};
      hlo_index_print(&at, x->shape, x->top[f].at);
      repl_json_str(t, "index", hs_buf_cstr(&at));
      repl_json_num(t, "expected", x->top[f].want), repl_json_num(t, "actual", x->top[f].got);
      hs_buf_free(&at);
    }
    if (!quiet && !c->doc && k->detail) {
      hs_buf b = {0};
      hlo_comparison_print(&b, x, true);
      repl_say(c->out, "%s: %lld of %lld elements differ\n%s", x->path, (long long)x->mismatches,
               (long long)x->elements, hs_buf_cstr(&b));
      hs_buf_free(&b);
    }
  }
  hlo_comparisons_free(&list);
  return o->mismatches ? hlo_agree(c->m->entry->root, want, got, k->tol) : HS_GOOD;
}

static hs_status value_on(repl_cmd *c, const backend *be, const repl_version *v,
                          hlo_literal **out) {
  hlo_module *m;
  HS_TRY(repl_runnable(c, v, true, &m));
  hs_status s = repl_memory_check(c, v ? m : c->m, backend_has(be, BACKEND_EVALUATOR), 0);
  if (hs_ok(s) && backend_has(be, BACKEND_EVALUATOR))
    s = watch_run(c, m, &(watch_options){.iteration = -1}, NULL, out);
  else if (hs_ok(s)) s = cut_run(c, be, m, c->mod->ninputs, c->mod->inputs, out);
  hlo_module_free(m);
  return s;
}

// What may have changed the meaning between the module as loaded and the current version: passes,
// or what the user edited (a version that no pass made).
static const char *what_changed(const repl_module *mod) {
  bool passes = false, edits = false;
  for (const repl_version *v = mod->at; v != repl_base(mod) && v->parent; v = v->parent) {
    bool passed = v->log.n || v->stepped;
    passes |= passed, edits |= !passed;
  }
  if (!edits) return "a pass changed the meaning; bisect finds it";
  return passes ? "an edit or a pass changed the meaning; history lists them, bisect tries passes"
                : "an edit changed the meaning; history lists the edits";
}

static bool did_something(const repl_version *v, const pass_info *p) {
  for (size_t k = 0; k < v->log.n; k++)
    if (v->log.v[k].changed && strcmp(v->log.v[k].pass, p->name) == 0) return true;
  return false;
}

// The passes that do not keep values and changed something since the module as loaded.
static void name_inexact_passes(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "inexact_passes");
  for (u32 k = 0; k < c->s->passes->npasses; k++) {
    const pass_info *p = c->s->passes->passes[k];
    const repl_version *v = c->mod->at, *base = repl_base(c->mod);
    while (p->inexact && v && v != base && !did_something(v, p)) v = v->parent;
    if (!p->inexact || !v || v == base) continue;
    repl_json_str(list, NULL, p->name);
    if (!c->doc) repl_say(c->out, "%s in @%u %s\n", p->name, v->number, p->inexact);
  }
}

// Finds why the results differ: a version changed the meaning, or the backend computes an
// instruction differently.
static hs_status explain(repl_cmd *c, const check *k, const hlo_literal *want) {
  hlo_module *m;
  HS_TRY(repl_runnable(c, NULL, true, &m));
  hs_status s = HS_GOOD;
  bool passes = false;
  if (c->mod->at != repl_base(c->mod)) {
    hlo_literal *now = NULL;
    s = cut_run(c, backend_with(BACKEND_EVALUATOR), m, c->mod->ninputs, c->mod->inputs, &now);
    outcome o = {0};
    if (hs_ok(s)) s = judge(c, want, now, k, true, &o);
    passes = !hs_ok(s) && s.err->code == HS_E_DIFFER;
    if (passes) hs_status_drop(s), s = HS_GOOD;
    hlo_literal_unref(now);
  }
  repl_json_bool(c->doc, "passes_changed_the_result", passes);
  if (passes && !c->doc)
    repl_say(c->out, "the evaluator's results for @%u and @%u differ too: %s\n", c->mod->at->number,
             repl_base(c->mod)->number, what_changed(c->mod));
  if (passes) name_inexact_passes(c);
  if (hs_ok(s) && !passes && k->be != k->ref) {
    divergence d;
    s = diverge_find(c, m, k->be, k->ref, k->tol, &d);
    if (hs_ok(s) && !c->doc && d.found) repl_say(c->out, "%s", hs_buf_cstr(&d.lines));
    divergence_free(&d);
  }
  hlo_module_free(m);
  return s;
}

static hs_status check_module(repl_cmd *c, const check *k, bool quiet, outcome *o) {
  HS_TRY(repl_gate_version(c, c->mod, c->mod->at));
  HS_TRY(repl_inputs(c));
  hlo_literal *want = NULL, *got = NULL;
  hs_status s = value_on(c, k->be, NULL, &got);
  if (hs_ok(s)) s = value_on(c, k->ref, repl_base(c->mod), &want);
  if (hs_ok(s)) s = judge(c, want, got, k, quiet, o);
  bool differ = !hs_ok(s) && s.err->code == HS_E_DIFFER;
  if (!quiet && (hs_ok(s) || differ)) {
    repl_json_bool(c->doc, "agree", hs_ok(s));
    repl_json_num(c->doc, "abs_error", o->abs);
    repl_json_num(c->doc, "rel_error", o->rel);
    repl_json_str(c->doc, "backend", k->be->name);
    repl_json_str(c->doc, "reference", k->ref->name);
  }
  if (hs_ok(s) && !quiet && !c->doc)
    repl_say(
        c->out,
        "%s@%u on %s agrees with %s on @%u: largest error %.3g absolute, %.3g relative, %llu ulp "
        "(%s)\n",
        c->m->name, c->mod->at->number, k->be->name, k->ref->name, repl_base(c->mod)->number,
        o->abs, o->rel, (unsigned long long)o->ulp, c->mod->inputs_from);
  if (differ && !quiet && k->search && want && got) {
    hs_status e = explain(c, k, want);
    if (!hs_ok(e) && hs_is_stop(e))
      repl_note(c->out, "the search for the first difference was interrupted");
    else if (!hs_ok(e)) repl_note(c->out, "the first difference was not found: %s", e.err->message);
    hs_status_drop(e);
  }
  hlo_literal_unref(want);
  hlo_literal_unref(got);
  return s;
}

// ---- folders ------------------------------------------------------------------------------------
// from best to worst
typedef enum verdict { AGREES, UNSUPPORTED, FAILS, DIFFERS, CRASHES } verdict;
static const char *const verdict_words[] = {"agrees", "unsupported", "fails", "differs", "crashes"};
typedef struct row {
  char *file, *error;
  verdict v;
  outcome o;
} row;
typedef HS_VEC(row) rows;
typedef HS_VEC(char *) names;

// A dump folder holds other files too: a module is recognized by its suffix, and a .txt file also
// by "HloModule" near its beginning.
static bool is_module_file(const char *path) {
  static const char *const beside[] = {"buffer-assignment", "memory-usage-report", "live-range",
                                       "thunk-sequence",    "debug_options",       "autotune"};
  bool ok = repl_is_module_name(path), text = repl_ends_in(path, ".txt");
  for (size_t k = 0; k < HS_COUNT(beside); k++) ok = ok && !strstr(path, beside[k]);
  if (!ok || !text) return ok;
  hs_buf head = {0};
  hs_status_drop(repl_read_head(path, 8192, &head));  // what cannot be read is no module
  ok = head.n && memmem(head.p, head.n, "HloModule", 9) != NULL;
  hs_buf_free(&head);
  return ok;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int worst_first(const void *a, const void *b) {
  const row *x = a, *y = b;
  if (x->v != y->v) return x->v > y->v ? -1 : 1;
  if (x->o.rel != y->o.rel) return x->o.rel > y->o.rel ? -1 : 1;
  return strcmp(x->file, y->file);
}

static hs_status check_file(repl_cmd *c, const check *k, const char *path, outcome *o) {
  hlo_module *m;
  hlo_parse_options po = {.file = path};
  HS_TRY(hlo_load_file(c->s->ctx, path, &po, &m));
  repl_module *before = c->mod, *mod = repl_session_add(c->s, m, path);
  c->mod = mod;
  c->m = mod->m;
  hs_status s = m->entry && m->entry->root ? check_module(c, k, true, o)
                                           : hs_fail(HS_E_VERIFY, "no entry computation");
  repl_session_remove(c->s, mod);
  c->s->current = c->mod = before;
  c->m = before ? before->m : NULL;
  return s;
}

static verdict verdict_of(hs_status s) {
  if (hs_ok(s)) return AGREES;
  switch (s.err->code) {
  case HS_E_DIFFER: return DIFFERS;
  case HS_E_WORKER: return CRASHES;
  case HS_E_UNSUPPORTED:
  case HS_E_NOT_BUILT: return UNSUPPORTED;
  default: return FAILS;
  }
}

// Of a module that a dump folder has in several states, or in two formats, the first state is the
// module, as text where it is there.
static void keep_first_states(const char *dir, names *files) {
  dump_folder there;
  hs_status s = dump_folder_read(dir, &there);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    return;
  }
  size_t n = 0;
  for (size_t f = 0; f < files->n; f++) {
    bool later = false;
    for (size_t k = 0; k < there.twins.n && !later; k++)
      later = strcmp(there.twins.v[k], files->v[f]) == 0;
    for (size_t k = 0; k < there.modules.n && !later; k++)
      for (size_t j = 1; j < there.modules.v[k].steps.n && !later; j++)
        later = strcmp(there.modules.v[k].steps.v[j].file, files->v[f]) == 0;
    if (later) hs_free(files->v[f]);
    else files->v[n++] = files->v[f];
  }
  files->n = n;
  dump_folder_free(&there);
}

static hs_status list_modules(const char *dir, names *out) {
  DIR *d = opendir(dir);
  if (!d) return hs_fail_errno(HS_E_IO, dir);
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    char *path = hs_format("%s/%s", dir, e->d_name);
    if (e->d_name[0] != '.' && repl_is_file(path) && is_module_file(path)) hs_vec_push(out, path);
    else hs_free(path);
  }
  closedir(d);
  keep_first_states(dir, out);
  if (out->n) qsort(out->v, out->n, sizeof out->v[0], by_text);
  return out->n ? HS_GOOD : hs_fail(HS_E_INPUT, "%s: no module files in this folder", dir);
}

static void say_rows(repl_cmd *c, const char *dir, const rows *all) {
  repl_json *list = repl_json_array(c->doc, "files");
  if (!c->doc) repl_say(c->out, "%-12s %10s %10s  %s\n", "", "abs", "rel", "module");
  for (size_t k = 0; k < all->n; k++) {
    const row *r = &all->v[k];
    bool measured = r->v == AGREES || r->v == DIFFERS;
    const char *name = r->file + strlen(dir) + 1;
    if (!c->doc && measured)
      repl_say(c->out, "%-12s %10.3g %10.3g  %s", verdict_words[r->v], r->o.abs, r->o.rel, name);
    else if (!c->doc) repl_say(c->out, "%-12s %10s %10s  %s", verdict_words[r->v], "", "", name);
    if (!c->doc) repl_say(c->out, r->error ? ": %s\n" : "\n", r->error);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "file", r->file);
    repl_json_str(j, "verdict", verdict_words[r->v]);
    repl_json_bool(j, "agree", r->v == AGREES);
    if (measured)
      repl_json_num(j, "abs_error", r->o.abs), repl_json_num(j, "rel_error", r->o.rel),
          repl_json_int(j, "mismatches", r->o.mismatches);
    if (r->error) repl_json_str(j, "error", r->error);
  }
}

static hs_status check_folder(repl_cmd *c, const check *k, const char *dir) {
  names found = {0};
  rows all = {0};
  u32 count[HS_COUNT(verdict_words)] = {0};
  hs_status s = list_modules(dir, &found);
  for (size_t j = 0; j < found.n; j++) {
    if (hs_ok(s)) s = hs_poll();
    if (!hs_ok(s)) {
      hs_free(found.v[j]);
      continue;
    }
    row r = {.file = found.v[j]};
    repl_progress_text(c->out, "checking %zu of %zu, %s", j + 1, found.n, found.v[j]);
    hs_status one = check_file(c, k, found.v[j], &r.o);
    if (!hs_ok(one) && hs_is_stop(one)) {
      s = one;
      hs_free(found.v[j]);
      continue;
    }
    r.v = verdict_of(one);
    if (!hs_ok(one)) r.error = hs_strdup(one.err->message);
    hs_status_drop(one);
    count[r.v]++;
    hs_vec_push(&all, r);
  }
  repl_progress_end(c->out);
  hs_vec_free(&found);
  if (all.n) qsort(all.v, all.n, sizeof all.v[0], worst_first);
  if (hs_ok(s) || all.n) say_rows(c, dir, &all);
  size_t n = all.n;
  for (size_t j = 0; j < n; j++) hs_free(all.v[j].file), hs_free(all.v[j].error);
  hs_vec_free(&all);
  HS_TRY(s);
  if (!c->doc) repl_say(c->out, "check: %u/%zu agree\n", count[AGREES], n);
  repl_json_int(c->doc, "agree", count[AGREES]);
  repl_json_int(c->doc, "of", (i64)n);
  if (count[DIFFERS])
    return hs_fail(HS_E_DIFFER, "%u of %zu modules differ from the reference", count[DIFFERS], n);
  u32 failed = count[FAILS] + count[UNSUPPORTED] + count[CRASHES];
  return failed ? hs_fail(HS_E_RUN, "%u of %zu modules could not be checked", failed, n) : HS_GOOD;
}

// ---- the command --------------------------------------------------------------------------------
hs_status cmd_check(repl_cmd *c) {
  check k = {.be = c->s->be,
             .ref = backend_with(BACKEND_EVALUATOR),
             .tol = hlo_near(c->s->set.abs_error, c->s->set.rel_error),
             .detail = repl_flag(c, "--detail"),
             .search = !repl_flag(c, "--no-search")};
  const char *ref = repl_flag(c, "--reference"), *dir = NULL;
  u32 named = 0;
  for (u32 j = 0; j < c->args.npos; j++) {
    const char *word = repl_arg(c, j);
    const backend *b = backend_find(word);
    struct stat st;
    if (b && named < 2) *(named++ ? &k.ref : &k.be) = b;
    else if (dir || (named && stat(word, &st) != 0))
      return repl_usage_error(c, "%s is neither a backend nor a folder", word);
    else dir = word;
  }
  if (ref) k.ref = backend_find(ref);
  if (!k.ref) return repl_usage_error(c, "there is no backend %s", ref ? ref : "interp");
  HS_TRY(repl_backend_usable(c->s, k.be));
  HS_TRY(repl_backend_usable(c->s, k.ref));
  HS_TRY(repl_arg_tolerance(c, &k.tol));
  if (dir) return check_folder(c, &k, dir);
  if (!c->mod)
    return hs_with_note(hs_fail(HS_E_NO_MODULE, "check: no module is loaded"),
                        "load FILE reads one; check DIR checks a folder");
  if (!c->m->entry->root)
    return hs_fail(HS_E_VERIFY, "check: %s has no instructions yet", c->m->name);
  outcome o = {0};
  return check_module(c, &k, false, &o);
}
