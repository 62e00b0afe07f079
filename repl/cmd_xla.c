// cmd_xla.c — what the plug-in's compiler made of the current version: its optimized module as a module of the session,
// its own cost analysis and memory statistics beside ours, its kernels.
//
// Figures are shown as the plug-in tells them. Known faults are marked where they stand: XLA:CPU's peak leaves the
// temporaries out, its code size is always 0, and its cost analysis counts the body of a loop once.
#include <math.h>

#include "backends/pjrt/pjrt.h"
#include "repl/exec.h"
#include "repl/plugin.h"

static hs_status made(repl_cmd *c, repl_exe **x, const pjrt_result **out) {
  HS_TRY(repl_compiled(c, backend_find("pjrt"), false, false, x));
  *out = pjrt_compiled_result((*x)->exe);
  return HS_GOOD;
}

static hs_status optimized(const pjrt_result *r, const hlo_module **m) {
  *m = r->optimized;
  if (*m) return HS_GOOD;
  if (r->unreadable) return hs_fail(HS_E_PROTO, "the plug-in's optimized module cannot be read: %s", r->unreadable);
  return hs_fail(HS_E_UNSUPPORTED, "this plug-in does not tell what it made of a module");
}

// ---- xla module ---------------------------------------------------------------------------------------------------------
static hs_status say_module(repl_cmd *c, const pjrt_result *r) {
  const hlo_module *m;
  HS_TRY(optimized(r, &m));
  char *name = hs_format("%s.xla", c->m->name);
  u32 from = c->mod->number, version = c->mod->at->number;
  repl_module *mod = repl_session_add(c->s, hlo_module_clone(m, name), NULL);
  hs_free(name);
  pass_totals t;
  HS_TRY(pass_measure(mod->m, NULL, &t));
  repl_json_int(c->doc, "module", mod->number);
  repl_json_str(c->doc, "name", mod->m->name);
  repl_json_int(c->doc, "instructions", t.instructions);
  repl_json_int(c->doc, "kernels", t.kernels);
  if (!c->doc) repl_say(c->out, "module %u, %s: %u instructions, %u kernels; diff %u@%u %u@0 compares it with what it was made of\n", mod->number, mod->m->name, t.instructions, t.kernels, from, version, mod->number);
  repl_say_plugin_line(c);
  return HS_GOOD;
}

// ---- xla cost -----------------------------------------------------------------------------------------------------------
static bool total(const char *name) { return !strcmp(name, "flops") || !strcmp(name, "transcendentals") || !strcmp(name, "bytes accessed"); }

static void cost_row(repl_cmd *c, repl_json *list, const char *name, double theirs, double ours) {
  char a[32], b[32];
  if (!c->doc) repl_say(c->out, "  %-28s %14s %14s\n", name, repl_count(a, theirs), isnan(ours) ? "" : repl_count(b, ours));
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "property", name);
  repl_json_num(j, "xla", theirs);
  if (isnan(ours)) repl_json_null(j, "hlosh"); else repl_json_num(j, "hlosh", ours);
}

static hs_status say_cost(repl_cmd *c, const pjrt_result *r) {
  if (!r->ncost) return hs_fail(HS_E_UNSUPPORTED, "this plug-in gives no cost analysis");
  hlo_xla_cost ours = {NAN, NAN, NAN};
  if (r->optimized) ours = hlo_cost_xla(r->optimized);
  repl_json *list = repl_json_array(c->doc, "properties");
  if (!c->doc) repl_say(c->out, "of the optimized module; each loop body counted once\n  %-28s %14s %14s\n", "", "xla", "hlosh");
  for (u32 pass = 0; pass < 2; pass++)
    for (u32 k = 0; k < r->ncost; k++) {
      const char *n = r->cost[k].name;
      if (total(n) != (pass == 0) || (pass && !repl_flag(c, "--all"))) continue;
      cost_row(c, list, n, r->cost[k].value, !strcmp(n, "flops") ? ours.flops : !strcmp(n, "transcendentals") ? ours.transcendentals : !strcmp(n, "bytes accessed") ? ours.bytes : NAN);
    }
  if (!c->doc && !repl_flag(c, "--all")) repl_say(c->out, "  (%u properties in all; --all shows them)\n", r->ncost);
  return HS_GOOD;
}

// ---- xla memory ---------------------------------------------------------------------------------------------------------
static hs_status say_memory(repl_cmd *c, const repl_exe *x, const pjrt_result *r) {
  if (!r->memory.known) return hs_fail(HS_E_UNSUPPORTED, "this plug-in gives no memory statistics");
  hlo_memory ours;
  HS_TRY(hlo_memory_estimate(c->m, false, &ours));
  const pjrt_memory *m = &r->memory;
  const struct { const char *key, *label; i64 xla, hlosh; const char *fault; } rows[] = {
      {"argument_bytes", "arguments", m->arguments, ours.argument_bytes, ""}, {"output_bytes", "outputs", m->outputs, ours.output_bytes, ""},
      {"alias_bytes", "aliased", m->alias, ours.alias_bytes, ""}, {"temp_bytes", "temporaries", m->temp, ours.temp_bytes, ""},
      {"peak_bytes", "peak, by these", x->be->compiled(x->exe)->peak_bytes, ours.peak_bytes, ""},
      {"told_peak_bytes", "peak, as told", m->peak, -1, m->peak < x->be->compiled(x->exe)->peak_bytes ? "leaves the temporaries out" : ""},
      {"code_bytes", "code", m->code, -1, m->code ? "" : "never told on CPU"}};
  if (!c->doc) repl_say(c->out, "  %-16s %12s %20s\n", "", "xla", "hlosh (estimated)");
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    char a[32], b[32];
    if (!c->doc) repl_say(c->out, "  %-16s %12s %20s  %s\n", rows[k].label, repl_bytes(a, (double)rows[k].xla), rows[k].hlosh < 0 ? "" : repl_bytes(b, (double)rows[k].hlosh), rows[k].fault);
    repl_json *j = repl_json_object(c->doc, rows[k].key);
    repl_json_int(j, "xla", rows[k].xla);
    if (rows[k].hlosh < 0) repl_json_null(j, "hlosh"); else repl_json_int(j, "hlosh", rows[k].hlosh);
    if (*rows[k].fault) repl_json_str(j, "fault", rows[k].fault);
  }
  return HS_GOOD;
}

static hs_status say_kernels(repl_cmd *c, const repl_exe *x) {
  const backend_compiled *k = x->be->compiled(x->exe);
  repl_json *list = repl_json_array(c->doc, "kernels");
  for (u32 j = 0; j < k->nkernels; j++) {
    char a[32], b[32];
    if (!c->doc) repl_say(c->out, "  %-40s %-24s %10s %12s\n", k->kernels[j].name, k->kernels[j].kind, repl_bytes(a, k->kernels[j].bytes), repl_flops(b, k->kernels[j].flops));
    repl_json *e = repl_json_object(list, NULL);
    repl_json_str(e, "name", k->kernels[j].name);
    repl_json_str(e, "kind", k->kernels[j].kind);
    repl_json_num(e, "bytes", k->kernels[j].bytes);
    repl_json_num(e, "flops", k->kernels[j].flops);
  }
  return HS_GOOD;
}

hs_status cmd_xla(repl_cmd *c) {
  static const char *const words[] = {"module", "cost", "memory", "kernels", "disable", "enable", "disabled"};
  const char *what = repl_arg(c, 0) ? repl_arg(c, 0) : "module";
  bool known = false;
  for (size_t k = 0; k < HS_COUNT(words); k++) known |= strcmp(what, words[k]) == 0;
  if (!known) return repl_usage_error(c, "module, cost, memory, kernels, disable, enable or disabled, not \"%s\"", what);
  if (strstr(what, "able")) return repl_xla_passes(c, what);
  if (c->args.npos > 1) return repl_usage_error(c, "xla %s takes no names", what);
  repl_exe *x;
  const pjrt_result *r;
  HS_TRY(made(c, &x, &r));
  if (!strcmp(what, "cost")) return say_cost(c, r);
  if (!strcmp(what, "memory")) return say_memory(c, x, r);
  if (!strcmp(what, "kernels")) return say_kernels(c, x);
  return say_module(c, r);
}
