// gate.c: which modules commands may work on. See gate.h.
#include "repl/shell/gate.h"

#include "core/verify/verify.h"

// The verifier on the current version. Only what it says about the module is a verdict; stopping it
// is none.
hs_status repl_verified(repl_module *mod) {
  repl_version *v = mod->at;
  if (v->verdict == REPL_VALID) return HS_GOOD;
  hs_status s = hlo_verify(mod->m, NULL);
  if (hs_ok(s)) v->verdict = REPL_VALID;
  else if (s.err->code == HS_E_VERIFY) v->verdict = REPL_INVALID;
  hlo_mark_invalid(mod->m, v->verdict == REPL_INVALID);
  return s;
}

bool repl_is_verified(repl_module *mod) {
  if (mod->at->verdict == REPL_UNKNOWN) hs_status_drop(repl_verified(mod));
  return mod->at->verdict == REPL_VALID;
}

// Whether a parameter has a dimension of any size, as jax.export writes programs with symbolic
// sizes.
static bool has_open_sizes(const hlo_module *m) {
  for (u32 k = 0; m->entry && k < m->entry->nparams; k++)
    if (hlo_shape_has_unbounded(m->entry->params[k]->shape)) return true;
  return false;
}

static hs_status refused(const repl_cmd *c, const repl_module *mod, const repl_version *v,
                         hs_status why) {
  if (hs_ok(why) || why.err->code != HS_E_VERIFY) return why;
  hs_status s = hs_fail(HS_E_VERIFY, "%s: %s@%u is not a valid module", c->command->name,
                        mod->m->name, v->number);
  const char *what = mod->unchecked ? "load --unchecked lets only a plug-in have it: compile, "
                                      "run and time after backend pjrt"
                                    : "print, info, list, find, diff, plot and save work on it, "
                                      "edit mends it";
  s = hs_with_note(s, "%s", what);
  if (has_open_sizes(mod->m))
    s = hs_with_note(s, "its sizes are open (?): load FILE --sizes=PARAM.DIM=N,... reads StableHLO "
                        "with these sizes");
  return hs_chain(s, why);
}

// At own risk: the module goes to another process as it is.
static bool goes_to_a_plugin(const repl_cmd *c, const repl_module *mod) {
  return mod->unchecked && (c->command->needs & REPL_IN_WORKER) && c->s->be &&
         backend_has(c->s->be, BACKEND_XLA);
}

hs_status repl_gate(const repl_cmd *c) {
  return c->command->needs & REPL_ANY_MODULE ? HS_GOOD : repl_gate_version(c, c->mod, c->mod->at);
}

hs_status repl_gate_version(const repl_cmd *c, repl_module *mod, const repl_version *v) {
  if (v->verdict == REPL_VALID || goes_to_a_plugin(c, mod)) return HS_GOOD;
  repl_visit_state was = repl_visit(mod, mod->versions.v[v->number]);
  hs_status s = repl_verified(mod);
  repl_return(mod, &was);
  return refused(c, mod, v, s);
}

hs_status repl_still_invalid(repl_cmd *c, hs_status s) {
  if (hs_ok(s) || s.err->code != HS_E_VERIFY || c->mod->at->verdict != REPL_INVALID) return s;
  repl_note(c->out, "warning[%s]: %s is still not valid HLO: %s", hs_code_text(s.err->code),
            c->m->name, s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

hs_status repl_warn_unverified(repl_cmd *c, repl_module *mod) {
  hs_status s = repl_verified(mod);
  if (hs_ok(s) || s.err->code != HS_E_VERIFY) return s;
  repl_note(c->out, "warning[%s]: %s is not valid HLO: %s", hs_code_text(s.err->code), mod->m->name,
            s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}
