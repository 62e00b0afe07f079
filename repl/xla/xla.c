// xla.c: xla. What the plug-in's compiler made of the current version: its optimized module as a
// new module of the session, its cost analysis and memory statistics beside ours, its kernels and
// their PTX.
//
// When the target is a GPU, all of it is for that GPU, which need not be installed (target.h).
// Figures are shown as the plug-in reports them, with known errors marked beside them: XLA:CPU's
// peak excludes the temporaries, its code size is always 0, its cost analysis counts the body of a
// loop once, and XLA:GPU has no cost analysis without a device.
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "backends/pjrt/pjrt.h"
#include "repl/xla/xla.h"
#include "repl/shell/exec.h"
#include "repl/shell/plugin.h"
#include "repl/shell/target.h"

static hs_status made(repl_cmd *c, repl_exe **x, const pjrt_result **out) {
  HS_TRY(repl_compiled_xla(c, x));
  *out = pjrt_compiled_result((*x)->exe);
  return HS_GOOD;
}

static hs_status optimized(const pjrt_result *r, const hlo_module **m) {
  *m = r->optimized;
  if (*m) return HS_GOOD;
  if (r->unreadable)
    return hs_fail(HS_E_PROTO, "the plug-in's optimized module cannot be read: %s", r->unreadable);
  return hs_fail(HS_E_UNSUPPORTED, "this plug-in does not return the optimized module");
}

// ---- xla module ---------------------------------------------------------------------------------
static hs_status say_module(repl_cmd *c, const pjrt_result *r) {
  const hlo_module *m;
  HS_TRY(optimized(r, &m));
  char *name = hs_format("%s.xla", c->m->name);
  u32 from = c->mod->number, version = c->mod->at->number;
  char a[32], b[32];
  repl_module *mod = repl_session_add(c->s, hlo_module_clone(m, name), NULL);
  hs_free(name);
  mod->xla_of = from;
  mod->xla_of_version = version;
  pass_totals t;
  HS_TRY(pass_measure(mod->m, NULL, &t));
  repl_json_int(c->doc, "module", mod->number);
  repl_json_str(c->doc, "name", mod->m->name);
  repl_json_int(c->doc, "instructions", t.instructions);
  repl_json_int(c->doc, "kernels", t.kernels);
  if (!c->doc)
    repl_say(c->out,
             "module %u, %s: %s, %s; diff %u@%u %u@0 compares it with its "
             "source, --kernels kernel by kernel\n",
             mod->number, mod->m->name, repl_plural(a, t.instructions, "instruction"),
             repl_plural(b, t.kernels, "kernel"), from, version, mod->number);
  repl_say_xla_line(c);
  return HS_GOOD;
}

// ---- xla cost -----------------------------------------------------------------------------------
static bool total(const char *name) {
  return !strcmp(name, "flops") || !strcmp(name, "transcendentals") ||
         !strcmp(name, "bytes accessed");
}

static void cost_row(repl_cmd *c, repl_json *list, const char *name, double theirs, double ours) {
  char a[32], b[32];
  if (!c->doc)
    repl_say(c->out, "  %-28s %14s %14s\n", name,
             isnan(theirs) ? "not reported" : repl_count(a, theirs),
             isnan(ours) ? "" : repl_count(b, ours));
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "property", name);
  if (isnan(theirs)) repl_json_null(j, "xla");
  else repl_json_num(j, "xla", theirs);
  if (isnan(ours)) repl_json_null(j, "hlosh");
  else repl_json_num(j, "hlosh", ours);
}

static hs_status say_cost(repl_cmd *c, const pjrt_result *r) {
  if (!r->ncost && !(r->optimized && repl_xla_for_gpu(c->s)))
    return hs_fail(HS_E_UNSUPPORTED, "this plug-in gives no cost analysis");
  hlo_xla_cost ours = {NAN, NAN, NAN};
  if (r->optimized) ours = hlo_cost_xla(r->optimized);
  repl_json *list = repl_json_array(c->doc, "properties");
  if (!c->doc)
    repl_say(c->out, "of the optimized module; each loop body counted once\n  %-28s %14s %14s\n",
             "", "xla", "hlosh");
  if (!r->ncost) {  // XLA:GPU without a device
    cost_row(c, list, "flops", NAN, ours.flops);
    cost_row(c, list, "transcendentals", NAN, ours.transcendentals);
    cost_row(c, list, "bytes accessed", NAN, ours.bytes);
    return HS_GOOD;
  }
  for (u32 pass = 0; pass < 2; pass++)
    for (u32 k = 0; k < r->ncost; k++) {
      const char *n = r->cost[k].name;
      if (total(n) != (pass == 0) || (pass && !repl_flag(c, "--all"))) continue;
      cost_row(c, list, n, r->cost[k].value,
               !strcmp(n, "flops")             ? ours.flops
               : !strcmp(n, "transcendentals") ? ours.transcendentals
               : !strcmp(n, "bytes accessed")  ? ours.bytes
                                               : NAN);
    }
  if (!c->doc && !repl_flag(c, "--all"))
    repl_say(c->out, "  (%u properties in all; --all shows them)\n", r->ncost);
  return HS_GOOD;
}

// ---- xla memory ---------------------------------------------------------------------------------
static hs_status say_memory(repl_cmd *c, const repl_exe *x, const pjrt_result *r) {
  if (!r->memory.known) return hs_fail(HS_E_UNSUPPORTED, "this plug-in gives no memory statistics");
  hlo_memory ours;
  HS_TRY(hlo_memory_estimate(c->m, false, &ours));
  const pjrt_memory *m = &r->memory;
  const char *sum = repl_xla_for_gpu(c->s) ? "peak" : "peak, by these";
  const struct {
    const char *key, *label;
    i64 xla, hlosh;
    const char *fault;
  } rows[] = {{"argument_bytes", "arguments", m->arguments, ours.argument_bytes, ""},
              {"output_bytes", "outputs", m->outputs, ours.output_bytes, ""},
              {"alias_bytes", "aliased", m->alias, ours.alias_bytes, ""},
              {"temp_bytes", "temporaries", m->temp, ours.temp_bytes, ""},
              {"peak_bytes", sum, x->be->compiled(x->exe)->peak_bytes, ours.peak_bytes, ""},
              {"told_peak_bytes", "peak, as reported", m->peak, -1,
               m->peak < 0                                     ? "not reported"
               : m->peak < x->be->compiled(x->exe)->peak_bytes ? "leaves the temporaries out"
                                                               : ""},
              {"code_bytes", "code", m->code, -1, m->code ? "" : "not reported"}};
  i64 parts = hlo_module_int(c->m, HLO_ATTR_NUM_PARTITIONS, 1);
  bool one_of_many = parts > 1;
  if (one_of_many && !c->doc)
    repl_say(c->out, "of one of %lld devices; the estimate is of the whole program on one\n",
             (long long)parts);
  if (one_of_many) repl_json_int(c->doc, "devices", parts);
  if (!c->doc) repl_say(c->out, "  %-16s %12s %20s\n", "", "xla", "hlosh (estimated)");
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    char a[32], b[32];
    if (!c->doc)
      repl_say(c->out, "  %-16s %12s %20s  %s\n", rows[k].label,
               rows[k].xla < 0 ? "-" : repl_bytes(a, (double)rows[k].xla),
               rows[k].hlosh < 0 ? "" : repl_bytes(b, (double)rows[k].hlosh), rows[k].fault);
    repl_json *j = repl_json_object(c->doc, rows[k].key);
    if (rows[k].xla < 0) repl_json_null(j, "xla");
    else repl_json_int(j, "xla", rows[k].xla);
    if (rows[k].hlosh < 0) repl_json_null(j, "hlosh");
    else repl_json_int(j, "hlosh", rows[k].hlosh);
    if (*rows[k].fault) repl_json_str(j, "fault", rows[k].fault);
  }
  return HS_GOOD;
}

static hs_status say_kernels(repl_cmd *c, const repl_exe *x) {
  const backend_compiled *k = x->be->compiled(x->exe);
  repl_json *list = repl_json_array(c->doc, "kernels");
  for (u32 j = 0; j < k->nkernels; j++) {
    char a[32], b[32];
    if (!c->doc)
      repl_say(c->out, "  %-40s %-24s %10s %12s\n", k->kernels[j].name, k->kernels[j].kind,
               repl_bytes(a, k->kernels[j].bytes), repl_flops(b, k->kernels[j].flops));
    repl_json *e = repl_json_object(list, NULL);
    repl_json_str(e, "name", k->kernels[j].name);
    repl_json_str(e, "kind", k->kernels[j].kind);
    repl_json_num(e, "bytes", k->kernels[j].bytes);
    repl_json_num(e, "flops", k->kernels[j].flops);
  }
  return HS_GOOD;
}

// ---- kernels for a GPU --------------------------------------------------------------------------
// Finds the instruction of a kernel when the plug-in does not name it: the kernel has the
// instruction's name, with characters that symbols cannot contain replaced by _.
static const hlo_instr *instr_of(const hlo_module *m, const pjrt_kernel *k) {
  const char *kernel = k->name;
  size_t n = strlen(kernel);
  if (m && k->instr) return hlo_find_instr(m, k->instr);
  if (m && k->grid[0])
    hlo_for_each_comp(c, m)
      hlo_for_each_instr(i, c) {
        size_t j = 0;
        for (; i->name[j] && j < n; j++)
          if (i->name[j] != kernel[j] && (kernel[j] != '_' || isalnum((unsigned char)i->name[j])))
            break;
        if (j == n && !i->name[j]) return i;
      }
  return NULL;
}

static const char *known(char buf[32], i64 v) {
  if (v < 0) snprintf(buf, 32, "-");
  else snprintf(buf, 32, "%lld", (long long)v);
  return buf;
}

static void three(char buf[64], const i64 v[3]) {
  if (v[1] <= 1 && v[2] <= 1) snprintf(buf, 64, "%lld", (long long)v[0]);
  else if (v[2] <= 1) snprintf(buf, 64, "%lldx%lld", (long long)v[0], (long long)v[1]);
  else snprintf(buf, 64, "%lldx%lldx%lld", (long long)v[0], (long long)v[1], (long long)v[2]);
}

static void json_three(repl_json *j, const char *key, const i64 v[3]) {
  repl_json *list = repl_json_array(j, key);
  for (u32 k = 0; k < 3; k++) repl_json_int(list, NULL, v[k]);
}

static void json_known(repl_json *j, const char *key, i64 v) {
  if (v < 0) repl_json_null(j, key);
  else repl_json_int(j, key, v);
}

static void say_launch(repl_cmd *c, repl_json *list, const pjrt_kernel *k, const hlo_instr *i) {
  char grid[64], threads[64], shared[32], registers[32], frame[32], a[32], b[32];
  hlo_cost cost = {0};
  if (i) cost = hlo_cost_instr(i);
  three(grid, k->grid);
  three(threads, k->block);
  i64 all = k->shared < 0 && k->static_shared < 0
                ? -1
                : HS_MAX(k->shared, 0) + HS_MAX(k->static_shared, 0);
  if (!c->doc)
    repl_say(c->out, "  %*s%-*s %10s %8s %8s %5s %6s %10s %12s\n", (int)k->depth * 2, "",
             (int)(44 - HS_MIN(k->depth * 2, 40u)), k->name, grid, threads, known(shared, all),
             known(registers, k->registers), known(frame, k->frame),
             i ? repl_bytes(a, cost.bytes_read + cost.bytes_written) : "",
             i ? repl_flops(b, cost.flops) : "");
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", k->name);
  repl_json_str(j, "kind", k->thunk);
  repl_json_int(j, "depth", k->depth);
  json_three(j, "grid", k->grid);
  json_three(j, "block", k->block);
  json_known(j, "shared_bytes", all);
  json_known(j, "registers", k->registers);
  json_known(j, "stack_bytes", k->frame);
  json_known(j, "code_bytes", k->code_bytes);
  if (i) {
    repl_json_str(j, "instruction", i->name);
    repl_json_num(j, "bytes", cost.bytes_read + cost.bytes_written);
    repl_json_num(j, "flops", cost.flops);
  } else repl_json_null(j, "instruction");
}

static hs_status say_gpu_kernels(repl_cmd *c, const pjrt_result *r) {
  char many[32];
  repl_json *list = repl_json_array(c->doc, "kernels");
  u32 launches = 0;
  if (!c->doc)
    repl_say(c->out, "  %-44s %10s %8s %8s %5s %6s %10s %12s\n", "", "grid", "block", "shared",
             "regs", "stack", "moved", "compute");
  for (size_t n = 0; n < r->kernels.n; n++) {
    const pjrt_kernel *k = &r->kernels.v[n];
    launches += k->grid[0] != 0;
    if (k->grid[0]) {
      say_launch(c, list, k, instr_of(r->optimized, k));
      continue;
    }
    const hlo_instr *i = instr_of(r->optimized, k);
    if (!c->doc)
      repl_say(c->out, "  %*s%s%s%s\n", (int)k->depth * 2, "", k->thunk, i ? "  " : "",
               i ? i->name : "");
    repl_json *j = repl_json_object(list, NULL);
    if (i) repl_json_str(j, "instruction", i->name);
    else repl_json_null(j, "instruction");
    repl_json_str(j, "name", k->name);
    repl_json_str(j, "kind", k->thunk);
    repl_json_int(j, "depth", k->depth);
  }
  if (!c->doc)
    repl_say(c->out, "%s, %zu steps; moved and compute are estimates\n",
             repl_plural(many, launches, "kernel"), r->kernels.n);
  repl_json_int(c->doc, "launches", launches);
  return HS_GOOD;
}

static hs_status say_ptx(repl_cmd *c, const pjrt_result *r) {
  const char *name = repl_arg(c, 1), *last = NULL;
  bool any = false;
  repl_json *list = repl_json_array(c->doc, "ptx");
  HS_VEC(const char *) names = {0};
  for (size_t n = 0; n < r->kernels.n; n++) {
    const pjrt_kernel *k = &r->kernels.v[n];
    if (!k->ptx) continue;
    hs_vec_push(&names, k->name);
    const hlo_instr *i = name ? instr_of(r->optimized, k) : NULL;
    if (name && strcmp(name, k->name) != 0 && (!i || strcmp(i->name, name) != 0)) continue;
    if (k->ptx == last) continue;  // several kernels in one text
    last = k->ptx;
    any = true;
    if (!c->doc) repl_say(c->out, "// %s\n%s\n", k->name, k->ptx);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "kernel", k->name);
    repl_json_str(j, "text", k->ptx);
  }
  hs_status s = any       ? HS_GOOD
                : names.n ? hs_fail(HS_E_NO_OBJECT, "no kernel is called %s", name)
                          : hs_fail(HS_E_UNSUPPORTED, "the plug-in made no PTX of this module");
  const char *near = name && names.n ? hs_nearest(name, names.v, (u32)names.n) : NULL;
  if (!any && near) s = hs_with_note(s, "did you mean %s?", near);
  hs_vec_free(&names);
  return s;
}

hs_status cmd_xla(repl_cmd *c) {
  static const char *const words[] = {"module", "cost",    "memory", "kernels",
                                      "ptx",    "disable", "enable", "disabled"};
  const char *what = repl_arg(c, 0) ? repl_arg(c, 0) : "module";
  bool is_word = false, ptx = strcmp(what, "ptx") == 0;
  for (size_t k = 0; k < HS_COUNT(words); k++) is_word |= strcmp(what, words[k]) == 0;
  if (!is_word)
    return repl_usage_error(
        c, "module, cost, memory, kernels, ptx, disable, enable or disabled, not \"%s\"", what);
  if (strstr(what, "able")) return xla_choose_passes(c, what);
  if (c->args.npos > 1u + ptx)
    return repl_usage_error(c, ptx ? "xla ptx takes one kernel" : "xla %s takes no names", what);
  if (ptx && !repl_xla_for_gpu(c->s))
    return repl_usage_error(
        c, "PTX is made for GPUs: choose one with target h200, or another of target list");
  repl_exe *x;
  const pjrt_result *r;
  HS_TRY(made(c, &x, &r));
  if (!strcmp(what, "ptx")) return say_ptx(c, r);
  repl_say_gpu_target(c, r);
  if (!strcmp(what, "cost")) return say_cost(c, r);
  if (!strcmp(what, "memory")) return say_memory(c, x, r);
  if (!strcmp(what, "kernels")) return r->kernels.n ? say_gpu_kernels(c, r) : say_kernels(c, x);
  return say_module(c, r);
}
