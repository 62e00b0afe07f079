// version.c — moving among versions: undo, redo, back, mark, goto, history.

#include "repl/cmd/cmd.h"

static hs_status say_here(repl_cmd *c) {
  const repl_version *v = c->mod->at;
  if (!c->doc)
    repl_say(c->out, "@%u%s%s  %s\n", v->number, v->mark ? " " : "", v->mark ? v->mark : "",
             v->label);
  repl_json_str(c->doc, "label", v->label);
  return HS_GOOD;
}

hs_status cmd_where(repl_cmd *c) {
  HS_TRY(say_here(c));
  if (c->mod->stepping || c->mod->imported) cmd_say_next(c);
  return HS_GOOD;
}

static hs_status count_arg(repl_cmd *c, i64 *n) {
  *n = 1;
  return repl_arg(c, 0) ? repl_arg_int(c, "N", repl_arg(c, 0), 1, INT32_MAX, n) : HS_GOOD;
}

// N versions along the path, or as many as there are.
static hs_status move(repl_cmd *c, bool forward) {
  i64 n;
  HS_TRY(count_arg(c, &n));
  repl_version *to = c->mod->at, *next;
  for (; n > 0 && (next = forward ? to->redo : to->parent) != NULL; n--) to = next;
  if (to == c->mod->at && forward)
    return hs_fail(HS_E_NO_HISTORY, "nothing to redo from @%u", to->number);
  if (to == c->mod->at)
    return hs_fail(HS_E_NO_HISTORY, "%s is as it was loaded: nothing to undo", c->m->name);
  repl_goto(c->mod, to);
  return say_here(c);
}

hs_status cmd_undo(repl_cmd *c) { return move(c, false); }
hs_status cmd_redo(repl_cmd *c) { return move(c, true); }

hs_status cmd_back(repl_cmd *c) {
  i64 n;
  HS_TRY(count_arg(c, &n));
  repl_version *to = c->mod->at;
  for (; n > 0 && to->stepped; n--) to = to->parent;
  if (to == c->mod->at)
    return hs_with_note(hs_fail(HS_E_NO_HISTORY, "the current version was not made by next"),
                        "undo goes back from any version");
  repl_goto(c->mod, to);
  HS_TRY(say_here(c));
  if (c->mod->stepping || c->mod->imported) cmd_say_next(c);
  return HS_GOOD;
}

hs_status cmd_mark(repl_cmd *c) {
  const char *name = repl_arg(c, 0);
  if (!name) {
    repl_json *list = repl_json_object(c->doc, "marks");
    bool any = false;
    for (size_t k = 0; k < c->mod->versions.n; k++) {
      const repl_version *v = c->mod->versions.v[k];
      if (!v->mark) continue;
      if (!c->doc) repl_say(c->out, "@%u  %s\n", v->number, v->mark);
      repl_json_int(list, v->mark, v->number);
      any = true;
    }
    if (!any) repl_note(c->out, "no marks; mark NAME names this version");
    return HS_GOOD;
  }
  if (*name == '@' || (*name >= '0' && *name <= '9'))
    return repl_usage_error(c, "a mark begins with a letter, not \"%c\"", *name);
  for (size_t k = 0; k < c->mod->versions.n; k++) {
    repl_version *v = c->mod->versions.v[k];
    if (v->mark && strcmp(v->mark, name) == 0) hs_free(v->mark), v->mark = NULL;
  }
  hs_free(c->mod->at->mark);
  c->mod->at->mark = hs_strdup(name);
  return say_here(c);
}

hs_status cmd_arg_version(repl_cmd *c, const char *text, repl_version **out) {
  *out = repl_version_find(c->mod, text);
  return *out ? HS_GOOD
              : hs_with_note(hs_fail(HS_E_NO_HISTORY, "%s has no version %s", c->m->name, text),
                             "history shows them all");
}

hs_status cmd_goto(repl_cmd *c) {
  repl_version *v;
  HS_TRY(cmd_arg_version(c, repl_arg(c, 0), &v));
  repl_goto(c->mod, v);
  return say_here(c);
}

// ---- history ------------------------------------------------------------------------------------
static void change_text(hs_buf *b, const repl_version *v) {
  const pass_result *first = NULL, *last = NULL;
  for (size_t k = 0; k < v->log.n; k++)
    if (v->log.v[k].changed) {
      if (!first) first = &v->log.v[k];
      last = &v->log.v[k];
    }
  if (first) cmd_put_delta(b, &first->before, &last->after, true);
}

// Draws v and what came after it.
static void draw(repl_cmd *c, repl_json *list, const repl_module *mod, const repl_version *v,
                 u32 depth) {
  while (v) {
    hs_buf b = {0};
    change_text(&b, v);
    if (!c->doc)
      repl_say(c->out, "%*s%c @%u%s%s  %s%s\n", (int)(2 * HS_MIN(depth, 30u)), "",
               v == mod->at ? '*' : ' ', v->number, v->mark ? " " : "", v->mark ? v->mark : "",
               v->label, hs_buf_cstr(&b));
    repl_json *j = repl_json_object(list, NULL);
    repl_json_int(j, "version", v->number);
    if (v->parent) repl_json_int(j, "parent", v->parent->number);
    repl_json_str(j, "label", v->label);
    if (v->mark) repl_json_str(j, "mark", v->mark);
    repl_json_bool(j, "current", v == mod->at);
    if (v->delta) repl_json_int(j, "bytes", (i64)hlo_delta_bytes(v->delta));
    hs_buf_free(&b);
    // The branch that `redo` follows goes on below, at the same depth; the others are drawn first,
    // indented.
    for (size_t k = v->number + 1; k < mod->versions.n; k++) {
      const repl_version *child = mod->versions.v[k];
      if (child->parent == v && child != v->redo) draw(c, list, mod, child, depth + 1);
    }
    v = v->redo;
  }
}

hs_status cmd_history(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "versions");
  draw(c, list, c->mod, c->mod->versions.v[0], 0);
  return HS_GOOD;
}
