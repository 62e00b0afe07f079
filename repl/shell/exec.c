// exec.c: runnable copies of modules, their arguments, and compiled programs. See exec.h.
#include "repl/shell/exec.h"
#include "repl/shell/gate.h"
#include "repl/shell/plugin.h"
#include "repl/shell/target.h"

static hs_status elided_policy(repl_cmd *c, bool insist, repl_elided *out) {
  const char *how = repl_flag(c, "--elided");
  *out = c->s->set.elided;
  if (how && strcmp(how, "random") == 0) *out = REPL_ELIDED_RANDOM;
  else if (how && strcmp(how, "zeros") == 0) *out = REPL_ELIDED_ZEROS;
  else if (how) return repl_usage_error(c, "--elided is random or zeros, not \"%s\"", how);
  if (*out != REPL_ELIDED_ASK) return HS_GOOD;
  if (insist)
    return hs_with_note(
        hs_fail(HS_E_ELIDED, "%s: %s has constants printed as {...}", c->command->name, c->m->name),
        "use --elided=random or --elided=zeros, or dump again with --xla_dump_large_constants");
  *out = REPL_ELIDED_RANDOM;
  repl_note(c->out,
            "warning: %s has constants printed as {...}; seeded random values are used instead",
            c->m->name);
  return HS_GOOD;
}

hs_status repl_runnable(repl_cmd *c, const repl_version *v, bool insist, hlo_module **out) {
  HS_TRY(repl_gate_version(c, c->mod, v ? v : c->mod->at));
  return repl_filled(c, v, insist, out);
}

hs_status repl_filled(repl_cmd *c, const repl_version *v, bool insist, hlo_module **out) {
  repl_elided how = REPL_ELIDED_ASK;
  if (c->mod->elided) HS_TRY(elided_policy(c, insist, &how));
  HS_TRY(hs_poll());  // a copy of a large module takes a while, and commands make several
  hlo_module *m = repl_module_at(c->mod, v ? c->mod->versions.v[v->number] : c->mod->at);
  hlo_journal_disable(m);
  if (v) hlo_state_trips(m, c->mod->m);  // what is compared is estimated alike
  hs_status s = hs_poll();
  if (hs_ok(s) && c->mod->elided) s = hlo_fill_elided(m, how == REPL_ELIDED_ZEROS, c->s->set.seed);
  if (!hs_ok(s)) {
    hlo_module_free(m);
    return s;
  }
  *out = m;
  return HS_GOOD;
}

// ---- memory ------------------------------------------------------------------------------------
// The estimate; of the current version it is made once.
static hs_status memory_of(const repl_cmd *c, const hlo_module *m, bool evaluator,
                           hlo_memory *out) {
  repl_version *v = c->mod && m == c->mod->m ? c->mod->at : NULL;
  if (!v) return hlo_memory_estimate(m, evaluator, out);
  if (!v->memory_known[evaluator]) HS_TRY(hlo_memory_estimate(m, evaluator, &v->memory[evaluator]));
  v->memory_known[evaluator] = true;
  *out = v->memory[evaluator];
  return HS_GOOD;
}

hs_status repl_memory_check(repl_cmd *c, const hlo_module *m, bool evaluator, i64 extra) {
  if (hlo_known_invalid(m)) return HS_GOOD;  // what computes will refuse it, and says why
  hlo_memory mem;
  hs_status s = memory_of(c, m, evaluator, &mem);
  if (!hs_ok(s)) {
    hs_status_drop(s);
    return HS_GOOD;
  }  // without an estimate there is nothing to check
  double held = extra < 0 ? -(double)extra : 0, more = extra > 0 ? (double)extra : 0;
  double limit = c->s->set.memory_limit, need = (double)mem.peak_bytes + more;
  bool own = limit > 0;
  if (!own) limit = (double)hs_memory_free() + held;
  if (!(limit > 0) || need <= limit) return HS_GOOD;
  char a[32], b[32], d[32], e[32], f[32];
  hs_status r =
      hs_fail(HS_E_LIMIT, "%s: needs %s of memory at its peak, %s %s", c->command->name,
              repl_bytes(a, need), own ? "the limit is" : "available are", repl_bytes(b, limit));
  r = hs_with_note(
      r, "arguments %s, results %s, temporaries %s", repl_bytes(d, (double)mem.argument_bytes),
      repl_bytes(e, (double)mem.output_bytes), repl_bytes(f, (double)mem.temp_bytes + more));
  return hs_with_note(r, "set memory_limit N allows N bytes (8G, 12Gi)");
}

// ---- compiled programs --------------------------------------------------------------------------
const char *repl_falls_back_to(const backend *b) {
  return b->falls_back ? "on the host" : "by the evaluator";
}

hs_status repl_refuse_fallback(const repl_cmd *c, const backend *be, const backend_compiled *b) {
  if (!b->fallbacks || c->s->set.allow_fallback || repl_flag(c, "--allow-fallback")) return HS_GOOD;
  return hs_with_note(hs_fail(HS_E_UNSUPPORTED, "%u instruction%s would be run %s", b->fallbacks,
                              b->fallbacks == 1 ? "" : "s", repl_falls_back_to(be)),
                      "`compile` shows them by the kind of their kernels; --allow-fallback "
                      "measures %s there",
                      be->falls_back ? "the host" : "the evaluator");
}

backend_options repl_backend_options(const repl_session *s) {
  return (backend_options){.context = s->backends,
                           .threads = s->set.threads,
                           .deadline_s = s->set.deadline,
                           .plugin = s->plugin,
                           .python = s->python,
                           .malloc = s->set.jax_malloc,
                           .no_contract = !s->set.contract,
                           .keep_denormals = s->set.keep_denormals,
                           .perf_map = s->set.perf_map,
                           .libraries = s->set.gpu_libraries,
                           .target = s->plugin_target,
                           .device =
                               s->target && s->target->family == PROF_GPU ? s->target->name : NULL,
                           .driver = *s->set.gpu_driver ? s->set.gpu_driver : NULL,
                           .nflags = (u32)s->flags.n,
                           .flags = s->flags.v};
}

// Whether both ask for the same program; plug-in, flags and target are counted by plugin_epoch.
static bool same_options(const backend_options *a, const backend_options *b) {
  return a->threads == b->threads && a->per_instruction == b->per_instruction &&
         a->backend_only == b->backend_only && a->malloc == b->malloc &&
         a->no_contract == b->no_contract && a->keep_denormals == b->keep_denormals &&
         a->libraries == b->libraries && a->perf_map == b->perf_map;
}

// Compiles into `x`, unless it holds the same program already.
static hs_status compiled(repl_cmd *c, const backend *be, backend_options *o, bool insist,
                          repl_exe *x) {
  u64 key = c->mod->elided
                ? hs_mix(c->s->set.seed,
                         (u64)c->s->set.elided * 31 +
                             (repl_flag(c, "--elided") ? (u64)repl_flag(c, "--elided")[0] : 0))
                : 0;
  // programs stay with the driver that they were compiled for
  if (*c->s->set.gpu_driver)
    key = hs_hash_bytes(c->s->set.gpu_driver, strlen(c->s->set.gpu_driver), key);
  if (x->exe && x->be == be && x->version == c->mod->at->number && x->fill_key == key &&
      x->plugin_epoch == c->s->plugin_epoch && same_options(&x->options, o))
    return HS_GOOD;
  hlo_module *m;
  HS_TRY(repl_runnable(c, NULL, insist, &m));
  backend_exe *exe;
  hs_status s = be->compile(m, o, &exe);
  if (!hs_ok(s)) {
    hlo_module_free(m);
    return s;
  }
  repl_drop_exe(x);
  *x = (repl_exe){.be = be,
                  .exe = exe,
                  .m = m,
                  .version = c->mod->at->number,
                  .options = *o,
                  .fill_key = key,
                  .plugin_epoch = c->s->plugin_epoch};
  return HS_GOOD;
}

hs_status repl_compiled(repl_cmd *c, const backend *be, bool per_instruction, bool insist,
                        repl_exe **out) {
  const char *codegen = repl_flag(c, "--codegen");
  if (codegen && strcmp(codegen, "xla") != 0)
    return repl_usage_error(c, "--codegen is xla, not \"%s\"", codegen);
  if (codegen) be = backend_with(BACKEND_PLUGIN);
  backend_options o = repl_backend_options(c->s);
  o.per_instruction = per_instruction;
  o.backend_only = codegen != NULL;
  o.keep_code = c->s->set.cache;
  HS_TRY(compiled(c, be, &o, insist, &c->mod->exe));
  *out = &c->mod->exe;
  return HS_GOOD;
}

// The compilation that produced the current module, when XLA did and nothing has changed since: a
// module that has been through XLA's passes is not a valid input to them.
static repl_exe *made_it(const repl_cmd *c) {
  for (size_t k = 0; c->mod->xla_of && c->mod->at->number == 0 && k < c->s->modules.n; k++) {
    repl_module *of = c->s->modules.v[k];
    if (of->number == c->mod->xla_of && of->xla.exe && of->xla.version == c->mod->xla_of_version &&
        of->xla.plugin_epoch == c->s->plugin_epoch)
      return &of->xla;
  }
  return NULL;
}

hs_status repl_compiled_xla(repl_cmd *c, repl_exe **out) {
  *out = made_it(c);
  if (*out) return HS_GOOD;
  backend_options o;
  char *plugin;
  HS_TRY(repl_xla_options(c->s, &o, &plugin));
  hs_status s = compiled(c, repl_xla_backend(c->s), &o, false, &c->mod->xla);
  hs_free(plugin);
  *out = &c->mod->xla;
  return s;
}
