// session.c — modules and their version trees. See session.h.
#include "repl/shell/session.h"

#include <stdlib.h>
#include <strings.h>

#include "repl/shell/settings.h"
#include "repl/shell/target.h"

hs_interrupt repl_interrupt;

repl_session *repl_session_new(const repl_command *commands, u32 ncommands) {
  repl_session *s = hs_calloc(1, sizeof *s);
  s->commands = commands;
  s->ncommands = ncommands;
  s->ctx = hlo_ctx_new();
  s->next_number = 1;
  s->passes = &pass_builtin;
  s->backends = backend_context_new();
  s->set = (repl_settings){.seed = 42,
                           .abs_error = HLO_TYPES_OWN,
                           .rel_error = HLO_TYPES_OWN,
                           .verify = true,
                           .contract = true,
                           .metadata = true,
                           .backend_config = true,
                           .show_fusions = true,
                           .pager = true,
                           .cache = true,
                           .cache_size = CODE_CACHE_DEFAULT_BYTES};
  repl_apply_cache(s);
  s->be = backend_find("cpu");
  if (s->be) {
    hs_status usable = s->be->probe();
    if (!hs_ok(usable)) s->be = NULL;
    hs_status_drop(usable);
  }
  if (!s->be) s->be = backend_with(BACKEND_EVALUATOR);
  repl_load_calibration(s);
  s->target = &s->here;
  return s;
}

static void version_free(repl_module *mod, repl_version *v) {
  if (v->delta) hlo_delta_free(mod->m, v->delta);
  hs_free(v->label);
  hs_free(v->mark);
  hs_vec_free(&v->log);
  for (size_t k = 0; k < v->notes.n; k++) hs_free(v->notes.v[k].text);
  hs_vec_free(&v->notes);
  hs_free(v);
}

void repl_drop_exe(repl_exe *x) {
  if (x->exe) x->be->release(x->exe);
  hlo_module_free(x->m);
  *x = (repl_exe){0};
}

void repl_drop_inputs(repl_module *mod) {
  if (mod->inputs) hlo_inputs_free(mod->inputs, mod->ninputs);
  hs_free(mod->inputs_from);
  mod->inputs = NULL;
  mod->ninputs = 0;
  mod->inputs_from = NULL;
}

void repl_values_free(repl_values *v) {
  for (size_t k = 0; k < v->n; k++) {
    hs_free(v->v[k].name);
    hs_free(v->v[k].place);
    hlo_literal_unref(v->v[k].value);
  }
  hs_vec_free(v);
}

void repl_kernel_times_free(repl_kernel_times *t) {
  for (size_t k = 0; k < t->n; k++) hs_free(t->v[k].name);
  hs_vec_free(t);
}

void repl_keep_values(repl_module *mod, repl_values *take) {
  repl_values_free(&mod->values);
  mod->values = *take;
  mod->values_version = mod->at->number;
  *take = (repl_values){0};
}

void repl_recorded_free(repl_recorded *r) {
  if (!r) return;
  prof_recording_free(r->rec);
  hs_arena_free(&r->arena);
  hs_free(r);
}

static void module_free(repl_module *mod) {
  repl_drop_exe(&mod->exe);
  repl_drop_exe(&mod->xla);
  repl_values_free(&mod->values);
  repl_kernel_times_free(&mod->kernel_times);
  repl_drop_inputs(mod);
  for (size_t k = 0; k < mod->versions.n; k++) version_free(mod, mod->versions.v[k]);
  hs_vec_free(&mod->versions);
  pipeline_free(mod->stepping);
  hs_free(mod->path);
  repl_recorded_free(mod->recorded);
  hs_buf_free(&mod->findings);
  hlo_module_free(mod->m);
  hs_free(mod);
}

void repl_session_free(repl_session *s) {
  for (size_t k = 0; k < s->modules.n; k++) module_free(s->modules.v[k]);
  hs_vec_free(&s->modules);
  for (size_t k = 0; k < s->aliases.n; k++)
    hs_free(s->aliases.v[k].name), hs_free(s->aliases.v[k].text);
  hs_vec_free(&s->aliases);
  for (size_t k = 0; k < s->flags.n; k++)
    hs_free((void *)(uintptr_t)s->flags.v[k].name), hs_free((void *)(uintptr_t)s->flags.v[k].value);
  hs_vec_free(&s->flags);
  hs_free(s->plugin);
  hs_free(s->python);
  hs_free(s->plugin_target);
  hs_free(s->target_text);
  hs_free(s->calibration);
  hs_free(s->calibration_problem);
  hs_arena_free(&s->target_names);
  hs_vec_free(&s->pipelines);
  for (size_t k = 0; k < s->stops.n; k++) hs_free(s->stops.v[k].when);
  hs_vec_free(&s->stops);
  backend_context_free(s->backends);
  hlo_ctx_free(s->ctx);
  hs_free(s);
}

static u64 hash_of_parameters(const hlo_module *m) {
  u64 h = 0;
  for (u32 k = 0; m->entry && k < m->entry->nparams; k++) {
    const hlo_shape *s = m->entry->params[k]->shape->logical;  // interned
    h = hs_hash_bytes(&s, sizeof s, h);
  }
  return h;
}

static repl_version *add_version(repl_module *mod, repl_version *parent, hlo_delta *delta,
                                 const char *label) {
  repl_version *v = hs_calloc(1, sizeof *v);
  v->number = (u32)mod->versions.n;
  v->parent = parent;
  v->delta = delta;
  v->label = hs_strdup(label);
  v->takes = hash_of_parameters(mod->m);
  if (mod->stepping)
    v->cursor = HS_NEW(&mod->m->arena, pipeline_cursor), *v->cursor = mod->cursor,
    v->cursor_of = mod->steppings;
  if (parent) parent->redo = v;
  hs_vec_push(&mod->versions, v);
  mod->at = v;
  return v;
}

static bool has_elided(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_CONSTANT) {
        const hlo_literal *v = hlo_constant_value(i);
        if (v && hlo_literal_has_elided(v)) return true;
      }
  return false;
}

repl_module *repl_session_add(repl_session *s, hlo_module *take, const char *path) {
  repl_module *mod = hs_calloc(1, sizeof *mod);
  mod->number = s->next_number++;
  mod->m = take;
  mod->path = path ? hs_strdup(path) : NULL;
  mod->elided = has_elided(take);
  add_version(mod, NULL, NULL, "load");
  hs_vec_push(&s->modules, mod);
  s->current = mod;
  return mod;
}

void repl_session_remove(repl_session *s, repl_module *mod) {
  size_t k = 0;
  while (k < s->modules.n && s->modules.v[k] != mod) k++;
  if (k == s->modules.n) return;
  memmove(&s->modules.v[k], &s->modules.v[k + 1], (s->modules.n - k - 1) * sizeof s->modules.v[0]);
  s->modules.n--;
  if (s->current == mod)
    s->current = s->modules.n ? s->modules.v[k < s->modules.n ? k : s->modules.n - 1] : NULL;
  module_free(mod);
}

repl_module *repl_session_find(repl_session *s, const char *text) {
  char *end;
  unsigned long number = strtoul(text, &end, 10);
  for (size_t k = 0; k < s->modules.n; k++)
    if (end != text && !*end && s->modules.v[k]->number == number) return s->modules.v[k];
  for (size_t k = s->modules.n; k-- > 0;)
    if (strcmp(s->modules.v[k]->m->name, text) == 0) return s->modules.v[k];
  return NULL;
}

// ---- versions -----------------------------------------------------------------------------------
repl_version *repl_commit(repl_module *mod, const char *label) {
  hlo_delta *delta = hlo_commit(mod->m);
  if (!delta) return NULL;
  return add_version(mod, mod->at, delta, label);
}

static repl_version *before_passes(const repl_module *mod) {
  if (!mod->built && mod->versions.v[0]->verdict != REPL_INVALID) return mod->versions.v[0];
  repl_version *base = mod->at;
  for (repl_version *v = mod->at; v; v = v->parent)
    if (v->log.n && v->parent) base = v->parent;
  return base;
}

repl_version *repl_base(const repl_module *mod) {
  repl_version *base = before_passes(mod);
  if (base->takes != mod->at->takes)
    for (base = mod->at; base->parent && base->parent->takes == mod->at->takes;)
      base = base->parent;
  return base->verdict == REPL_INVALID ? mod->at : base;
}

static u32 depth_of(const repl_version *v) {
  u32 d = 0;
  for (; v->parent; v = v->parent) d++;
  return d;
}

static void step_up(repl_module *mod) {
  repl_version *v = mod->at;
  hlo_delta_undo(mod->m, v->delta);
  v->parent->redo = v;
  mod->at = v->parent;
}

void repl_goto(repl_module *mod, repl_version *to) {
  repl_version *a = mod->at, *b = to;
  u32 da = depth_of(a), db = depth_of(b);
  u32 down = 0;
  while (da > db) step_up(mod), a = mod->at, da--;
  while (db > da) b = b->parent, db--, down++;
  while (a != b) step_up(mod), a = mod->at, b = b->parent, down++;
  // The path down is named by `redo` links, set from the target upwards.
  repl_version *v = to;
  for (u32 k = 0; k < down; k++) v->parent->redo = v, v = v->parent;
  for (u32 k = 0; k < down; k++) {
    mod->at = mod->at->redo;
    hlo_delta_redo(mod->m, mod->at->delta);
  }
  mod->cursor = mod->at->cursor && mod->at->cursor_of == mod->steppings ? *mod->at->cursor
                                                                        : (pipeline_cursor){0};
}

repl_version *repl_version_find(repl_module *mod, const char *text) {
  for (size_t k = 0; k < mod->versions.n; k++)
    if (mod->versions.v[k]->mark && strcmp(mod->versions.v[k]->mark, text) == 0)
      return mod->versions.v[k];
  if (*text == '@') text++;
  char *end;
  unsigned long number = strtoul(text, &end, 10);
  return end != text && !*end && *text != '-' && number < mod->versions.n ? mod->versions.v[number]
                                                                          : NULL;
}

repl_visit_state repl_visit(repl_module *mod, repl_version *v) {
  repl_visit_state was = {mod->at, mod->at->redo, mod->cursor};
  repl_goto(mod, v);
  return was;
}

void repl_return(repl_module *mod, const repl_visit_state *was) {
  repl_goto(mod, was->here);
  was->here->redo = was->redo;
  mod->cursor = was->cursor;
}

const repl_version *repl_version_with(repl_module *mod, const char *name, u32 *id,
                                      const char **found) {
  repl_visit_state was = repl_visit(mod, mod->at);
  const hlo_instr *i = NULL;
  while (!i && mod->at->parent) {
    repl_goto(mod, mod->at->parent);
    i = hlo_find_instr(mod->m, *name == '%' ? name + 1 : name);
  }
  const repl_version *v = i ? mod->at : NULL;
  if (i && id) *id = i->id;
  if (i && found) *found = i->name;
  repl_return(mod, &was);
  return v;
}

hlo_module *repl_module_at(repl_module *mod, repl_version *v) {
  if (v == mod->at) return hlo_module_clone(mod->m, mod->m->name);
  repl_visit_state was = repl_visit(mod, v);
  hlo_module *copy = hlo_module_clone(mod->m, mod->m->name);
  repl_return(mod, &was);
  return copy;
}

// ---- names --------------------------------------------------------------------------------------
hlo_instr *repl_find_instr(const hlo_module *m, const char *name) {
  if (*name == '%') name++;
  hlo_instr *i = hlo_find_instr(m, name);
  if (i) return i;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(k, c)
      if (strcasecmp(k->name, name) == 0) return k;
  return strcasecmp(name, "root") == 0 && m->entry ? m->entry->root : NULL;
}

hlo_computation *repl_find_comp(const hlo_module *m, const char *name) {
  if (*name == '%') name++;
  hlo_computation *c = hlo_find_comp(m, name);
  if (c) return c;
  hlo_for_each_comp(k, m)
    if (strcasecmp(k->name, name) == 0) return k;
  return strcasecmp(name, "entry") == 0 ? m->entry : NULL;
}

hs_status repl_no_object(const hlo_module *m, const char *name) {
  if (*name == '%') name++;
  hs_status s =
      hs_fail_subject(HS_E_NO_OBJECT, name, "no instruction or computation is named %s", name);
  HS_VEC(const char *) names = {0};
  // Edit distance over every name of a huge module would take longer than the user waits.
  size_t limit = 20000;
  hlo_for_each_comp(c, m) {
    if (names.n >= limit) break;
    hs_vec_push(&names, c->name);
    hlo_for_each_instr(i, c) {
      if (names.n >= limit) break;
      hs_vec_push(&names, i->name);
    }
  }
  const char *near = hs_nearest(name, names.v, names.n);
  hs_vec_free(&names);
  return near ? hs_with_note(s, "did you mean %s?", near)
              : hs_with_note(s, "list PATTERN searches the names, list computations has those");
}
