// inputs.c — inputs: shows, makes, loads and saves the arguments of the current module.
#include "repl/cmd/cmd.h"
#include "repl/shell/value.h"

static hs_status read_options(repl_cmd *c, inputs_options *o) {
  const char *type = repl_flag(c, "--dtype"), *partition = repl_flag(c, "--partition"),
             *seed = repl_flag(c, "--seed");
  i64 v = 0;
  *o = (inputs_options){.seed = c->s->set.seed, .array.cast = repl_flag(c, "--cast") != NULL};
  for (hlo_dtype t = 1; type && t < HLO_DTYPE_COUNT; t++)
    if (hlo_dtype_is_array(t) && strcmp(hlo_dtype_text(t), type) == 0) o->array.as = t;
  if (type && !o->array.as) return repl_usage_error(c, "there is no element type %s", type);
  if (partition) HS_TRY(repl_arg_int(c, "--partition", partition, 0, UINT32_MAX, &v));
  o->partition = (u32)v;
  if (seed) {
    HS_TRY(repl_arg_int(c, "--seed", seed, 0, INT64_MAX / 2, &v));
    o->seed = (u64)v;
  }
  return HS_GOOD;
}

static hs_status make(repl_cmd *c, const inputs_options *o, u32 n, const char *const *sources) {
  const char *formula = repl_flag(c, "--formula");
  bool large = repl_flag(c, "--large-range");
  if (formula) return repl_inputs_from(c, 1, &formula, o);
  // a word for all parameters respects their uses
  bool all_random = n && strcmp(sources[0], "random") == 0;
  if (all_random || repl_flag(c, "--random") || large || (repl_flag(c, "--seed") && !n)) {
    HS_TRY(repl_inputs_seed(c, o->seed, large));
    if (all_random) n--, sources++;
  }
  if (n) return repl_inputs_from(c, n, sources, o);
  return c->mod->inputs ? HS_GOOD : repl_inputs(c);
}

hs_status cmd_inputs(repl_cmd *c) {
  u32 n = c->args.npos;
  const char *const *sources = c->args.pos;
  const char *save = repl_flag(c, "--save");
  inputs_options o;
  HS_TRY(read_options(c, &o));
  if (n == 2 && strcmp(sources[0], "save") == 0) save = sources[1], n = 0;
  HS_TRY(make(c, &o, n, sources));
  // again when the parameters have changed since
  if (!repl_flag(c, "--seed")) HS_TRY(repl_inputs(c));
  if (save) HS_TRY(repl_inputs_save(c, save));
  repl_json *list = repl_json_array(c->doc, "inputs");
  repl_json_str(c->doc, "from", c->mod->inputs_from);
  if (save) repl_json_str(c->doc, "saved", save);
  if (!c->doc) repl_say(c->out, "%s\n", c->mod->inputs_from);
  for (u32 k = 0; k < c->mod->ninputs; k++) {
    if (!c->doc)
      repl_say_literal(c->out, c->s->ctx, c->m->entry->params[k]->name, c->mod->inputs[k], 4);
    repl_json_literal(list, c->s->ctx, NULL, c->mod->inputs[k], 4);
    HS_TRY(hs_poll());
  }
  return HS_GOOD;
}
