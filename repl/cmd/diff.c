// diff.c: diff. The differences of two versions, or of two modules.
//
// Instructions are matched by what they compute (core/diff/graph_diff.h), not by name: an
// instruction that a pass moved into a fusion is "moved", not removed and added. One matching is
// shown as a list by computation (the default), as unified text (--text), in two columns
// (--side-by-side), or by kernels (--kernels, diff_kernels.h). In the texts, instructions of the
// left side have the names of their counterparts.
#include "repl/cmd/cmd.h"
#include "repl/shell/gate.h"
#include "repl/debug/diff_kernels.h"
#include "repl/debug/say_diff.h"

// One side: a version of a module, as a private copy.
typedef struct side {
  repl_module *mod;
  repl_version *version;
  hlo_module *m;
  char *label;
} side;

// ---- which two ----------------------------------------------------------------------------------
// VERSION of the current module, or MODULE@VERSION.
static hs_status side_arg(repl_cmd *c, const char *text, side *out) {
  const char *at = strrchr(text, '@');
  out->mod = c->mod;
  if (at && at != text) {
    const char *name = hs_arena_strndup(c->scratch, text, (size_t)(at - text));
    out->mod = repl_session_find(c->s, name);
    if (!out->mod)
      return hs_with_note(hs_fail(HS_E_NO_OBJECT, "there is no module %s", name),
                          "modules lists them");
    out->version = repl_version_find(out->mod, at + 1);
    if (!out->version)
      return hs_with_note(hs_fail(HS_E_NO_HISTORY, "%s has no version %s", name, at + 1),
                          "history shows them all");
    return HS_GOOD;
  }
  return cmd_arg_version(c, text, &out->version);
}

static void open_side(repl_cmd *c, side *s, bool other_module) {
  s->m = repl_module_at(s->mod, s->version);
  hs_buf b = {0};
  if (other_module) hs_buf_puts(&b, s->mod->m->name);
  hs_buf_printf(&b, "@%u", s->version->number);
  s->label = hs_arena_strndup(c->scratch, b.p, b.n);
  hs_buf_free(&b);
}

// ---- the command --------------------------------------------------------------------------------
hs_status cmd_diff(repl_cmd *c) {
  side a = {c->mod, c->mod->at->parent, NULL, NULL}, b = {c->mod, c->mod->at, NULL, NULL};
  if (repl_arg(c, 0)) HS_TRY(side_arg(c, repl_arg(c, 0), &a));
  if (repl_arg(c, 1)) HS_TRY(side_arg(c, repl_arg(c, 1), &b));
  if (repl_flag(c, "--kernels")) {
    if (a.version) HS_TRY(repl_gate_version(c, a.mod, a.version));
    HS_TRY(repl_gate_version(c, b.mod, b.version));
  }
  if (!a.version)
    return hs_with_note(
        hs_fail(HS_E_NO_HISTORY, "%s is as it was loaded: nothing to compare with", c->m->name),
        "a pass or an edit makes a version; diff 1@0 2@0 compares two modules");
  open_side(c, &a, a.mod != b.mod);
  // a copy of a large module takes a while and does not poll
  hs_status s = hs_poll();
  if (hs_ok(s)) open_side(c, &b, a.mod != b.mod), s = hs_poll();
  repl_diff_view v;
  if (hs_ok(s)) s = repl_diff_open(c, c->doc, a.m, b.m, &v);
  if (hs_ok(s)) {
    repl_diff_say_head(&v, a.label, b.label);
    if (repl_flag(c, "--kernels")) repl_diff_kernels(c, &v.d);
    else if (repl_flag(c, "--text") || repl_flag(c, "--side-by-side"))
      repl_diff_say_texts(&v, repl_flag(c, "--side-by-side") != NULL);
    else if (!repl_flag(c, "--summary")) repl_diff_say_list(&v);
    s = hs_poll();
  }
  hlo_module_free(a.m);
  hlo_module_free(b.m);
  return s;
}
