// xla_disable.c: xla disable PASS..., xla enable PASS..., xla disabled: passes that the plug-in
// skips.
//
// XLA takes them as the flag xla_disable_hlo_passes and ignores unknown names silently, so names
// are checked here against the passes that its pipeline runs on the current module. The flag is the
// only state: `set xla.xla_disable_hlo_passes` shows and changes the same value, every compilation
// by the plug-in uses it, and bundles record it.
#include <stdio.h>

#include "repl/xla/xla.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"
#include "repl/debug/xla_steps.h"

#define FLAG "xla_disable_hlo_passes"

typedef HS_VEC(const char *) names;  // in the command's scratch memory

static bool has(const names *v, const char *name) {
  for (size_t k = 0; k < v->n; k++)
    if (strcmp(v->v[k], name) == 0) return true;
  return false;
}

static void split(const repl_cmd *c, const char *list, names *out) {
  for (const char *p = list; *p;) {
    size_t n = strcspn(p, ",");
    if (n) hs_vec_push(out, hs_arena_strndup(c->scratch, p, n));
    p += n + (p[n] == ',');
  }
}

static hs_status keep(repl_cmd *c, const names *v) {
  hs_buf b = {0};
  for (size_t k = 0; k < v->n; k++) hs_buf_printf(&b, "%s%s", k ? "," : "", v->v[k]);
  hs_status s = repl_set_flag(c, NULL, FLAG, v->n ? hs_buf_cstr(&b) : "default");
  hs_buf_free(&b);
  return s;
}

static void say(repl_cmd *c, const names *v) {
  repl_json *list = repl_json_array(c->doc, "disabled");
  for (size_t k = 0; k < v->n; k++) repl_json_str(list, NULL, v->v[k]);
  if (c->doc) return;
  repl_say(c->out, v->n ? "XLA leaves out:" : "no pass is disabled");
  for (size_t k = 0; k < v->n; k++) repl_say(c->out, "%s %s", k ? "," : "", v->v[k]);
  repl_say(c->out, "\n");
}

// XLA's spelling of a pass that it runs here. A pass that does not run on this module may still
// exist: hlo-opt's names are known.
static hs_status spelled(repl_cmd *c, const xla_steps *x, const char *name, const char **out) {
  for (size_t k = 0; k < x->log.n; k++)
    if (xla_same_name(x->log.v[k].pass, name)) {
      *out = hs_arena_strndup(c->scratch, x->log.v[k].pass, strlen(x->log.v[k].pass));
      return HS_GOOD;
    }
  const pass_info *ours = pass_find(c->s->passes, name);
  if (!ours) return xla_steps_unknown(c, x, name);
  repl_note(c->out, "XLA runs no %s on this module", ours->name);
  *out = ours->name;
  return HS_GOOD;
}

static hs_status disable(repl_cmd *c, const names *given, names *v) {
  hlo_module *m;
  HS_TRY(repl_runnable(c, NULL, false, &m));
  xla_steps x;
  hs_status s = xla_steps_make(c, m, NULL, true, &x);
  // A pass may be left out because compiling fails with it: what was logged until then is enough.
  if (!hs_ok(s) && x.log.n) hs_status_drop(s), s = HS_GOOD;
  if (hs_ok(s) && !x.log.n && !x.log.pipelines)
    s = hs_fail(HS_E_UNSUPPORTED,
                "this plug-in does not log its passes; set xla." FLAG " takes names unchecked");
  for (size_t k = 0; k < given->n && hs_ok(s); k++) {
    const char *name = given->v[k];
    if (has(v, name)) continue;
    if (x.log.open && xla_same_name(x.log.open, name))
      name = hs_arena_strndup(c->scratch, x.log.open, strlen(x.log.open));
    else s = spelled(c, &x, name, &name);
    if (hs_ok(s) && !has(v, name)) hs_vec_push(v, name);
  }
  xla_steps_free(&x);
  hlo_module_free(m);
  return s;
}

static hs_status enable(const names *given, names *v) {
  if (!given->n) v->n = 0;
  for (size_t g = 0; g < given->n; g++) {
    const char *name = given->v[g];
    size_t at = 0;
    while (at < v->n && !xla_same_name(v->v[at], name)) at++;
    if (at == v->n) {
      const char *near = v->n ? hs_nearest(name, v->v, v->n) : NULL;
      hs_status s = hs_fail(HS_E_NO_PASS, "xla enable: %s is not disabled", name);
      return hs_with_note(s, near ? "did you mean %s?" : "xla disabled lists the disabled passes",
                          near);
    }
    memmove(&v->v[at], &v->v[at + 1], (v->n - at - 1) * sizeof *v->v);
    v->n--;
  }
  return HS_GOOD;
}

hs_status xla_choose_passes(repl_cmd *c, const char *verb) {
  names v = {0}, given = {0};
  split(c, repl_disabled_passes(c->s), &v);
  for (u32 k = 1; k < c->args.npos; k++) split(c, c->args.pos[k], &given);
  bool off = strcmp(verb, "disable") == 0, on = strcmp(verb, "enable") == 0;
  hs_status s = off && !given.n          ? repl_usage_error(c, "xla disable PASS...")
                : !off && !on && given.n ? repl_usage_error(c, "xla disabled takes no names")
                                         : HS_GOOD;
  if (hs_ok(s) && off) s = disable(c, &given, &v);
  if (hs_ok(s) && on) s = enable(&given, &v);
  if (hs_ok(s) && (on || off)) s = keep(c, &v);
  if (hs_ok(s)) say(c, &v);
  hs_vec_free(&v);
  hs_vec_free(&given);
  return s;
}
