// build.c — building a module at the prompt: new, param, NAME = op(...), root. Each line is
// one version.
#include <stdlib.h>

#include "repl/cmd/cmd.h"

hs_status cmd_new(repl_cmd *c) {
  const char *name = repl_arg(c, 0) ? repl_arg(c, 0) : "module";
  for (const char *p = name; *p; p++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *p))
      return repl_usage_error(c, "a module's name holds letters, digits, _ . and -, not '%c'", *p);
  hlo_module *m = hlo_module_new(c->s->ctx, name);
  hlo_computation *entry = hlo_add_computation(m, "main");
  hlo_set_entry(m, entry);
  hlo_delta *made = hlo_commit(m);
  if (made) hlo_delta_free(m, made);
  repl_module *mod = repl_session_add(c->s, m, NULL);
  mod->building = entry;
  mod->built = true;
  hs_free(mod->at->label);
  mod->at->label = hs_strdup("new");
  return HS_GOOD;
}

static void say_instr(repl_cmd *c, const hlo_instr *i) {
  hlo_print_options o = hlo_print_short_parsable();
  hs_buf b = {0};
  hlo_print_instr(&b, i, &o);
  if (!c->doc) repl_say(c->out, "%s\n", hs_buf_cstr(&b));
  repl_json_str(c->doc, "instruction", hs_buf_cstr(&b));
  repl_json_str(c->doc, "name", i->name);
  b.n = 0;
  hlo_shape_print(&b, i->shape, true);
  repl_json_str(c->doc, "shape", hs_buf_cstr(&b));
  hs_buf_free(&b);
}

hs_status cmd_param(repl_cmd *c) {
  hs_buf text = {0};  // a tuple's shape may hold blanks
  for (u32 k = 1; k < c->args.npos; k++) hs_buf_puts(&text, c->args.pos[k]);
  const hlo_shape *shape;
  hs_status s = hlo_parse_shape(c->s->ctx, text.p, text.n, &shape);
  hs_buf_free(&text);
  HS_TRY(s);
  const char *name = repl_arg(c, 0);
  if (hlo_find_instr(c->m, *name == '%' ? name + 1 : name))
    return hs_fail_subject(HS_E_REDEFINED, name, "%s is already defined", name);
  hlo_instr *p =
      hlo_add_parameter(c->m->entry, c->m->entry->nparams, hlo_shape_fill_layout(c->s->ctx, shape),
                        *name == '%' ? name + 1 : name);
  if (!c->m->entry->root) hlo_set_root(c->m->entry, p);
  say_instr(c, p);
  return HS_GOOD;
}

hs_status cmd_define(repl_cmd *c) {
  if (!c->mod)
    return hs_with_note(hs_fail(HS_E_NO_MODULE, "there is no module to add an instruction to"),
                        "new NAME starts one");
  const char *text = c->args.raw;
  bool root = strncmp(text, "ROOT ", 5) == 0;
  if (root) text += 5;
  while (*text == ' ') text++;
  size_t n = strcspn(text, " =");
  const char *name = hs_arena_strndup(c->scratch, text + (*text == '%'), n - (*text == '%'));
  if (hlo_find_instr(c->m, name))
    return hs_fail_subject(HS_E_REDEFINED, name, "%s is already defined", name);
  hlo_instr *i = NULL;
  HS_TRY(hlo_parse_instr_into(c->m->entry, text, strlen(text), &i));
  // While a module is being built, its last instruction is the root, unless `root` or ROOT has
  // chosen another.
  if (root || c->mod->building) hlo_set_root(c->m->entry, i);
  HS_TRY(hlo_verify_computation(c->m->entry, NULL));
  say_instr(c, i);
  return HS_GOOD;
}

hs_status cmd_root(repl_cmd *c) {
  hlo_instr *i;
  HS_TRY(repl_arg_instr(c, 0, &i));
  if (i->parent != c->m->entry && !c->mod->building)
    repl_note(c->out, "%s is in computation %s", i->name, i->parent->name);
  hlo_set_root(i->parent, i);
  c->mod->building = NULL;
  HS_TRY(hlo_verify_computation(i->parent, NULL));
  say_instr(c, i);
  return HS_GOOD;
}
