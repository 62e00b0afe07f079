// estimate.c: estimate, calibrate: figures from models; calibrate measures what the model of this
// machine is made of.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/analysis/customcall.h"
#include "profiler/units.h"
#include "repl/measure/calibrate.h"
#include "repl/measure/kernels.h"
#include "repl/shell/exec.h"
#include "repl/shell/measure_scope.h"
#include "repl/shell/target.h"

// ---- estimate -----------------------------------------------------------------------------------
static void estimate_row(repl_cmd *c, const char *what, const char *key, const prof_device *d,
                         const prof_estimate *e) {
  char t[32], p[32], f[32], b[32];
  if (!c->doc)
    repl_say(c->out, "%-34s %10s %8u %14s %10s %10s\n", what, repl_time(t, e->time_s), e->kernels,
             repl_flops(f, e->flops), repl_bytes(b, e->bytes),
             repl_bytes(p, (double)e->peak_bytes));
  repl_json *j = repl_json_object(c->doc, key);
  repl_json_str(j, "source", "estimated");
  repl_json_str(j, "device", d->name);
  repl_json_num(j, "time_ms", e->time_s * 1e3);
  repl_json_num(j, "memory_ms", e->memory_s * 1e3);
  repl_json_num(j, "compute_ms", e->compute_s * 1e3);
  repl_json_num(j, "launch_ms", e->launch_s * 1e3);
  repl_json_num(j, "network_ms", e->network_s * 1e3);
  repl_json_num(j, "fresh_ms", e->fresh_s * 1e3);
  repl_json_num(j, "hidden_ms", e->hidden_s * 1e3);
  repl_json_int(j, "kernels", e->kernels);
  repl_json_num(j, "flops", e->flops);
  repl_json_num(j, "bytes_moved", e->bytes);
  repl_json_int(j, "peak_bytes", e->peak_bytes);
  repl_json_bool(j, "fits", e->peak_bytes <= d->memory_bytes);
  repl_json_int(j, "unknown_calls", e->unknown_calls);
  repl_json_int(j, "unknown_loops", e->unknown_loops);
}

// Whether what the entry is given is still cut into the devices' parts by the program itself.
static bool takes_whole_arrays(const hlo_module *m) {
  hlo_for_each_instr(i, m->entry)
    if (i->opcode == HLO_CUSTOM_CALL && hlo_custom_is_of_devices(i)) return true;
  return false;
}

// Before any figure: that it does not fit, what it is estimated for, and from what.
static void say_device(repl_cmd *c, const prof_device *d, const prof_estimate *now) {
  char a[32], b[32];
  bool fits = now->peak_bytes <= d->memory_bytes;
  if (!c->doc) {
    if (!fits)
      repl_say(c->out, "does not fit in %s: the module needs %s at its peak\n",
               repl_bytes(a, (double)d->memory_bytes), repl_bytes(b, (double)now->peak_bytes));
    repl_say(c->out, "estimated for %s: %s", d->name, d->summary);
    if (d->measured) repl_say(c->out, ", %u thread%s", d->threads, d->threads == 1 ? "" : "s");
    repl_say(c->out, " (%s)\n", repl_device_origin(d));
    if (d->measured && !prof_device_is_calibrated(d))
      repl_say(c->out,
               "  `calibrate` measures this machine; until then the figures are a typical one's\n");
    if (now->here > 1)
      repl_say(c->out, "  all of its %u devices, which run here one after the other\n", now->here);
    else if (now->parts > 1)
      repl_say(c->out,
               "  not partitioned yet: figures are of everything divided by %u, one device's share "
               "at best,\n  without what they exchange\n",
               now->parts);
    else if (now->devices > 1)
      repl_say(c->out, "  one device's share of %u, and what they exchange over %s%s\n",
               now->devices, d->link,
               takes_whole_arrays(c->m)
                   ? "; arguments and results are\n  counted whole, for nothing has cut them yet"
                   : "");
  }
  bool of_xla = c->s->be && backend_has(c->s->be, BACKEND_XLA);
  if (d == &c->s->here && of_xla && prof_device_is_calibrated(d) && !d->measured->xla)
    repl_note(c->out, "the figures are of the cpu backend; `calibrate` measures %s",
              c->s->be->name);
  if (d == &c->s->here && c->s->calibration_problem)
    repl_note(c->out, "warning: the calibration is not used: %s", c->s->calibration_problem);
  repl_json_str(c->doc, "device", d->name);
  repl_json_str(c->doc, "summary", d->summary);
  repl_json_str(c->doc, "origin", repl_device_origin(d));
  repl_json_bool(c->doc, "calibrated", prof_device_is_calibrated(d));
  repl_json_int(c->doc, "devices", now->devices);
  repl_json_int(c->doc, "devices_here", now->here);
  repl_json_int(c->doc, "divided_by", now->parts);
  repl_json_bool(c->doc, "fits", fits);
}

static void part(repl_cmd *c, const char *what, double s) {
  char t[32];
  if (s > 0) repl_say(c->out, "  %s %s", what, repl_time(t, s));
}

// What the time consists of, and what is not known.
static void say_parts(repl_cmd *c, const hlo_module *m, const prof_module *e) {
  const prof_estimate *t = &e->total;
  if (!c->doc) {
    repl_say(c->out, "  kernels one by one:");
    part(c, "memory", t->memory_s);
    part(c, "compute", t->compute_s);
    part(c, "launch", t->launch_s);
    part(c, "network", t->network_s);
    part(c, "of that hidden", t->hidden_s);
    part(c, "fresh memory", t->fresh_s);
    repl_say(c->out, "  (memory and compute of a kernel overlap)\n");
    if (t->unknown_loops)
      repl_say(c->out,
               "  %u loop%s: nothing says how often, %d iterations are assumed (see trips)\n",
               t->unknown_loops, t->unknown_loops == 1 ? "" : "s", PROF_GUESSED_TRIPS);
  }
  repl_json *list = repl_json_array(c->doc, "unknown");
  u32 said = 0;
  hlo_for_each_comp(k, m) {
    hlo_for_each_instr(i, k) {
      if (i->id >= e->n || !e->kernels[i->id].unknown) continue;
      const hlo_attr *a = hlo_attr_get(i, HLO_ATTR_CUSTOM_CALL_TARGET);
      const char *target = a ? hs_arena_strndup(c->scratch, a->v.s.p, a->v.s.n) : "?";
      repl_json_str(repl_json_object(list, NULL), "target", target);
      if (!c->doc && said++ < 8)
        repl_say(c->out, "  unknown: custom call %s of %s, only its bytes are counted\n", i->name,
                 target);
    }
  }
  if (!c->doc && said > 8) repl_say(c->out, "  (%u more custom calls are unknown)\n", said - 8);
}

// ---- its kernels --------------------------------------------------------------------------------
typedef struct costly {
  const hlo_instr *i;
  double s, measured_s;  // of all executions in a run; measured: < 0: not known
} costly;
static int slowest(const void *a, const void *b) {
  const costly *x = a, *y = b;
  return x->s != y->s ? (x->s < y->s ? 1 : -1) : x->i->id < y->i->id ? -1 : 1;
}

// Kernels of the module as the backend runs them, or as a profile has them, for the model's error
// beside each estimate.
static hs_status measure_kernels(repl_cmd *c, double *by_id, u32 n) {
  kernel_run p;
  HS_TRY(kernels_record(c, &p));
  for (u32 k = 0; k < p.rec->nkernels; k++) {
    const hlo_instr *i = hlo_find_instr(c->m, p.kernels[k].name);
    // what is left without its probes can be below zero
    double ms = HS_MAX(prof_recorded_kernel(p.rec, k).median, 0);
    if (i && i->id < n) by_id[i->id] = ms * 1e-3;
  }
  kernels_free(&p);
  return HS_GOOD;
}

static void say_kernel(repl_cmd *c, repl_json *list, const costly *v, const prof_module *e) {
  const prof_kernel *k = &e->kernels[v->i->id];
  char t[32], b[32], f[32], m[32], x[32], tiles[16] = "", error[80] = "";
  double times = e->times[v->i->id];
  if (k->utilization > 0) snprintf(tiles, sizeof tiles, "%.0f %%", 100 * k->utilization);
  // less than a probe tells apart, or a branch that was not taken
  static const double nothing_s = 2e-9;
  if (v->measured_s >= 0 && v->measured_s < nothing_s)
    snprintf(error, sizeof error, "  measured: next to nothing");
  else if (v->measured_s >= 0)
    snprintf(error, sizeof error, "  measured %.16s, off by %.16s", repl_time(m, v->measured_s),
             prof_ratio_text(x, HS_MAX(v->s, v->measured_s) /
                                    HS_MAX(HS_MIN(v->s, v->measured_s), 1e-12)));
  if (!c->doc)
    repl_say(c->out, "%10s  %-8s %5.1f%% %10s %12s %6s  %-18s %s%s\n", repl_time(t, v->s),
             prof_bound_text(k->bound), e->total.time_s > 0 ? 100 * v->s / e->total.time_s : 0,
             repl_bytes(b, times * k->bytes), repl_flops(f, times * k->flops), tiles,
             hlo_op_text(v->i->opcode), v->i->name, error);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", v->i->name);
  repl_json_str(j, "opcode", hlo_op_text(v->i->opcode));
  repl_json_num(j, "time_ms", v->s * 1e3);
  repl_json_num(j, "times", times);
  repl_json_str(j, "bound", prof_bound_text(k->bound));
  repl_json_num(j, "memory_ms", times * k->memory_s * 1e3);
  repl_json_num(j, "compute_ms", times * k->compute_s * 1e3);
  repl_json_num(j, "launch_ms", times * k->launch_s * 1e3);
  repl_json_num(j, "network_ms", times * k->network_s * 1e3);
  repl_json_num(j, "bytes", k->bytes);
  repl_json_num(j, "flops", k->flops);
  repl_json_bool(j, "unknown", k->unknown);
  if (k->utilization > 0) repl_json_num(j, "utilization", k->utilization);
  else repl_json_null(j, "utilization");
  if (v->measured_s >= 0) repl_json_num(j, "measured_ms", v->measured_s * 1e3);
  else repl_json_null(j, "measured_ms");
}

static hs_status say_kernels(repl_cmd *c, const hlo_module *m, const prof_module *e, i64 rows) {
  bool beside = repl_flag(c, "--measured") != NULL;
  double *measured = HS_NEW_ARRAY(c->scratch, double, e->n + 1);
  for (u32 k = 0; k < e->n; k++) measured[k] = -1;
  if (beside) HS_TRY(measure_kernels(c, measured, e->n));
  HS_VEC(costly) v = {0};
  hlo_for_each_comp(k, m) {
    hlo_for_each_instr(i, k) {
      double s = i->id < e->n ? e->kernels[i->id].seconds * e->times[i->id] : 0;
      if (s > 0) hs_vec_push(&v, ((costly){i, s, measured[i->id]}));
    }
  }
  if (v.n) qsort(v.v, v.n, sizeof *v.v, slowest);
  repl_json *list = repl_json_array(c->doc, "instructions");
  if (!c->doc)
    repl_say(c->out, "%10s  %-8s %6s %10s %12s %6s  %-18s %s\n", "time", "bound by", "share",
             "moved", "compute", "tiles", "opcode", "instruction");
  double own = 0, real = 0, off = 0;
  for (size_t k = 0; k < v.n; k++) {
    if ((i64)k < rows) say_kernel(c, list, &v.v[k], e);
    if (v.v[k].measured_s < 0) continue;
    own += v.v[k].s, real += v.v[k].measured_s, off += fabs(v.v[k].s - v.v[k].measured_s);
  }
  char a[32], b[32];
  if (beside && real > 0) {
    if (!c->doc)
      repl_say(c->out, "measured kernels: %s, estimated %s; off by %.0f %% kernel by kernel\n",
               repl_time(a, real), repl_time(b, own), 100 * off / real);
    repl_json_num(c->doc, "measured_ms", real * 1e3);
    repl_json_num(c->doc, "error", off / real);
  }
  hs_vec_free(&v);
  return HS_GOOD;
}

hs_status cmd_estimate(repl_cmd *c) {
  const prof_device *d = c->s->target == &c->s->here ? repl_here(c->s) : c->s->target;
  if (repl_flag(c, "--on")) HS_TRY(repl_find_device(c, repl_flag(c, "--on"), &d));
  i64 rows = 0, mesh = 0;
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 0, INT32_MAX, &rows));
  if (repl_flag(c, "--mesh"))
    HS_TRY(repl_arg_int(c, "--mesh", repl_flag(c, "--mesh"), 1, 1 << 20, &mesh));
  bool beside = repl_flag(c, "--measured") != NULL;
  bool recorded = c->mod->recorded && c->mod->recorded->version == c->mod->at->number;
  if (beside && d != &c->s->here && (!recorded || repl_flag(c, "--here")))
    return repl_usage_error(c, "--measured is of this machine, and the estimate is for %s",
                            d->name);
  if (beside && !rows) rows = 20;
  hlo_module *loaded;
  const repl_version *base = repl_base(c->mod);
  HS_TRY(repl_runnable(c, base, false, &loaded));
  prof_options o = {.naive = true, .devices = (u32)mesh};
  prof_module naive, cur;
  hs_status s = prof_estimate_kernels(loaded, d, &o, &naive);
  hlo_memory plain;  // of the module as loaded, with buffers shared as in the current one
  if (hs_ok(s)) s = hlo_memory_estimate(loaded, false, &plain);
  hlo_module_free(loaded);
  const prof_estimate before = naive.total;
  prof_module_free(&naive);
  HS_TRY(s);
  o.naive = false;
  HS_TRY(prof_estimate_kernels(c->m, d, &o, &cur));
  const prof_estimate now = cur.total;
  plain.peak_bytes /= now.parts;
  say_device(c, d, &now);
  if (!c->doc)
    repl_say(c->out, "%-34s %10s %8s %14s %10s %10s\n", "", "time", "launches", "compute", "moved",
             "peak");
  char *label = base->takes == c->mod->versions.v[0]->takes
                    ? hs_strdup("as loaded, one kernel each")
                    : hs_format("@%u, one kernel each", base->number);
  estimate_row(c, label, "baseline", d, &before);
  hs_free(label);
  label = hs_format("current (@%u)", c->mod->at->number);
  estimate_row(c, label, "current", d, &now);
  hs_free(label);
  say_parts(c, c->m, &cur);
  repl_json *save = repl_json_object(c->doc, "saving");
  repl_json_num(save, "speedup", now.time_s > 0 ? before.time_s / now.time_s : NAN);
  repl_json_num(save, "time_ms", (before.time_s - now.time_s) * 1e3);
  repl_json_int(save, "memory_bytes", plain.peak_bytes - now.peak_bytes);
  char x[32], y[32];
  if (!c->doc && now.time_s > 0)
    repl_say(c->out,
             "speedup %s, memory %s (buffers shared on both sides); estimates, `time` and "
             "`speedup` measure\n",
             prof_ratio_text(x, before.time_s / now.time_s),
             prof_ratio_text(
                 y, now.peak_bytes > 0 ? (double)plain.peak_bytes / (double)now.peak_bytes : 1.0));
  if (rows) s = say_kernels(c, c->m, &cur, rows);
  prof_module_free(&cur);
  return s;
}

// ---- calibrate ----------------------------------------------------------------------------------
static void say_progress(void *arg, const char *what, double done) {
  const repl_cmd *c = arg;
  repl_note(c->out, "%3.0f %% %s ...", 100 * done, what);
}

hs_status cmd_calibrate(repl_cmd *c) {
  prof_calibration *k = hs_calloc(1, sizeof *k);
  char *path = NULL;
  char name[48];
  u32 refused = 0;
  const bool xla = backend_has(c->s->be, BACKEND_XLA);
  const backend_options o = repl_backend_options(c->s);
  const calibrate_of of = {xla ? c->s->be : backend_find("cpu"), &o, name};
  hs_status s = repl_calibration_name(of.be, o.plugin, o.python, name);
  if (hs_ok(s)) s = calibrate_machine(&of, 0, say_progress, c, k, &refused);
  if (hs_ok(s)) s = calibrate_save(k, &path);
  if (hs_ok(s)) {
    repl_load_calibration(c->s);
    const prof_device *d = repl_here(c->s);
    char a[32], b[32], f[32], g[32], t[32];
    if (!c->doc) {
      repl_say(c->out, "%s\n", k->key);
      repl_say(c->out, "  memory %s/s, cache %s/s, products %s/s f32 (%s/s with one thread)\n",
               repl_bytes(a, d->bandwidth), repl_bytes(b, d->cache_bandwidth),
               repl_flops(f, d->flops_f32), repl_flops(g, prof_curve_at(&k->product_f32[0], 1e18)));
      repl_say(c->out, "  a kernel costs %s, ", repl_time(t, k->kernel_s));
      repl_say(c->out, "a parallel loop %s\n", repl_time(t, k->parallel_s));
      if (refused)
        repl_say(c->out, "  %u programs are not taken by %s: typical figures stand in for them\n",
                 refused, of.be->name);
      repl_say(c->out, "measured in %s; %s\n", repl_time(t, k->seconds), path);
    }
    repl_json_str(c->doc, "key", k->key);
    repl_json_str(c->doc, "file", path);
    repl_json_num(c->doc, "seconds", k->seconds);
    repl_json_int(c->doc, "refused", refused);
    repl_json *j = repl_json_object(c->doc, "figures");
#define FIGURE(name, what) repl_json_num(j, #name, k->name);
    PROF_FIGURES(FIGURE)
#undef FIGURE
    if (c->s->calibration_problem) s = hs_fail(HS_E_INTERNAL, "%s", c->s->calibration_problem);
  }
  hs_free(path);
  hs_free(k);
  return s;
}
