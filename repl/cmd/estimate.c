// estimate.c: memory, estimate, savings, assert: figures from models, not from measurement.
#include <math.h>
#include <stdlib.h>

#include "repl/cmd/cmd.h"
#include "repl/shell/exec.h"
#include "repl/shell/measure_scope.h"
#include "repl/shell/target.h"

static void memory_row(repl_cmd *c, const char *what, const char *key, const hlo_memory *naive,
                       const hlo_memory *now) {
  char a[6][32];
  if (!c->doc)
    repl_say(c->out, "%-12s %10s %10s %12s %10s %10s\n", what,
             repl_bytes(a[0], (double)now->argument_bytes),
             repl_bytes(a[1], (double)now->output_bytes), repl_bytes(a[2], (double)now->temp_bytes),
             repl_bytes(a[3], (double)now->alias_bytes), repl_bytes(a[4], (double)now->peak_bytes));
  repl_json *j = repl_json_object(c->doc, key);
  repl_json_str(j, "source", "estimated");
  repl_json_int(j, "argument_bytes", now->argument_bytes);
  repl_json_int(j, "output_bytes", now->output_bytes);
  repl_json_int(j, "alias_bytes", now->alias_bytes);
  repl_json_int(j, "temp_bytes", now->temp_bytes);
  repl_json_int(j, "peak_bytes", now->peak_bytes);
  (void)naive;
}

static const hlo_instr *instr_by_id(const hlo_module *m, u32 id) {
  hlo_for_each_comp(k, m)
    hlo_for_each_instr(i, k)
      if (i->id == id) return i;
  return NULL;
}

hs_status cmd_memory(repl_cmd *c) {
  hlo_memory naive, now;
  HS_TRY(hlo_memory_estimate(c->m, true, &naive));
  HS_TRY(hlo_memory_estimate(c->m, false, &now));
  if (!c->doc)
    repl_say(c->out, "estimated     arguments    outputs  temporaries    aliased       peak\n");
  memory_row(c, "unshared", "naive", NULL, &naive);
  memory_row(c, "shared", "current", NULL, &now);
  const hlo_instr *peak = instr_by_id(c->m, now.peak_at);
  if (peak) {
    if (!c->doc)
      repl_say(c->out, "the peak is at %s (%s)\n", peak->name, hlo_op_text(peak->opcode));
    repl_json_str(c->doc, "peak_at", peak->name);
  }
  if (!c->doc && naive.peak_bytes > now.peak_bytes) {
    char b[32];
    repl_say(c->out, "sharing buffers saves %s (%.1f%%)\n",
             repl_bytes(b, (double)(naive.peak_bytes - now.peak_bytes)),
             100.0 * (double)(naive.peak_bytes - now.peak_bytes) / (double)naive.peak_bytes);
  }
  return HS_GOOD;
}

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
  repl_json_int(j, "kernels", e->kernels);
  repl_json_num(j, "flops", e->flops);
  repl_json_num(j, "bytes_moved", e->bytes);
  repl_json_int(j, "peak_bytes", e->peak_bytes);
}

typedef struct timed {
  const hlo_instr *i;
  double s;
} timed;
static int slowest(const void *a, const void *b) {
  const timed *x = a, *y = b;
  return x->s != y->s ? (x->s < y->s ? 1 : -1) : x->i->id < y->i->id ? -1 : 1;
}

hs_status cmd_estimate(repl_cmd *c) {
  const prof_device *d = c->s->target;
  if (repl_flag(c, "--on")) HS_TRY(repl_find_device(c, repl_flag(c, "--on"), &d));
  i64 rows = 0;
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 0, INT32_MAX, &rows));
  if (!d) return hs_fail(HS_E_USAGE, "estimate: no device is chosen");
  hlo_module *loaded, *now;
  HS_TRY(repl_runnable(c, repl_base(c->mod), false, &loaded));
  prof_estimate naive, cur;
  hs_status s = prof_estimate_module(loaded, d, true, &naive);
  hlo_module_free(loaded);
  HS_TRY(s);
  now = c->m;
  HS_TRY(prof_estimate_module(now, d, false, &cur));
  if (!c->doc)
    repl_say(c->out, "estimated for %s: %s\n%-34s %10s %8s %14s %10s %10s\n", d->name, d->summary,
             "", "time", "kernels", "compute", "moved", "peak");
  estimate_row(c, "as loaded, one kernel each", "baseline", d, &naive);
  char *label = hs_format("current (@%u)", c->mod->at->number);
  estimate_row(c, label, "current", d, &cur);
  hs_free(label);
  repl_json *save = repl_json_object(c->doc, "saving");
  repl_json_num(save, "speedup", cur.time_s > 0 ? naive.time_s / cur.time_s : NAN);
  repl_json_num(save, "time_ms", (naive.time_s - cur.time_s) * 1e3);
  repl_json_int(save, "memory_bytes", naive.peak_bytes - cur.peak_bytes);
  if (!c->doc && cur.time_s > 0)
    repl_say(c->out,
             "speedup %.2fx, memory %.2fx; estimates from a roofline model, `time` and `speedup` "
             "measure\n",
             naive.time_s / cur.time_s,
             cur.peak_bytes > 0 ? (double)naive.peak_bytes / (double)cur.peak_bytes : 1.0);
  if (!rows) return HS_GOOD;
  HS_VEC(timed) v = {0};
  hlo_for_each_instr(i, now->entry) {
    timed t = {i, prof_estimate_instr(i, d)};
    if (t.s > 0) hs_vec_push(&v, t);
  }
  if (v.n) qsort(v.v, v.n, sizeof *v.v, slowest);
  repl_json *list = repl_json_array(c->doc, "instructions");
  for (size_t k = 0; k < v.n && (i64)k < rows; k++) {
    char t[32];
    if (!c->doc)
      repl_say(c->out, "%10s  %-16s %s\n", repl_time(t, v.v[k].s), hlo_op_text(v.v[k].i->opcode),
               v.v[k].i->name);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", v.v[k].i->name);
    repl_json_num(j, "time_ms", v.v[k].s * 1e3);
  }
  hs_vec_free(&v);
  return HS_GOOD;
}

hs_status cmd_savings(repl_cmd *c) {
  static const char *const names[] = {"TIME", "MEMORY", "SPEEDUP", "FACTOR"};
  double v[4];
  for (u32 k = 0; k < 4; k++) HS_TRY(repl_arg_num(c, names[k], repl_arg(c, k), &v[k]));
  prof_savings s;
  HS_TRY(prof_savings_from(v[0], v[1], v[2], v[3], &s));
  if (!c->doc) {
    repl_say(c->out, "           baseline   optimized       saved\n");
    repl_say(c->out, "time     %10.6g  %10.6g  %10.6g  (%.4g%%, %.4gx)\n", s.time, s.opt_time,
             s.time_saved, s.time_percent, s.speedup);
    repl_say(c->out, "memory   %10.6g  %10.6g  %10.6g  (%.4g%%)\n", s.memory, s.opt_memory,
             s.memory_saved, s.memory_percent);
  }
  repl_json_num(c->doc, "time", s.time);
  repl_json_num(c->doc, "optimized_time", s.opt_time);
  repl_json_num(c->doc, "time_saved", s.time_saved);
  repl_json_num(c->doc, "time_percent", s.time_percent);
  repl_json_num(c->doc, "memory", s.memory);
  repl_json_num(c->doc, "optimized_memory", s.opt_memory);
  repl_json_num(c->doc, "memory_saved", s.memory_saved);
  repl_json_num(c->doc, "memory_percent", s.memory_percent);
  return HS_GOOD;
}

hs_status cmd_assert(repl_cmd *c) {
  repl_module_scope ms;
  HS_TRY(repl_module_scope_open(&ms, c->m, c->s->target, c->mod->at->number));
  repl_scope scope = repl_scope_of_module(&ms);
  repl_value v;
  HS_TRY(repl_eval(c->args.raw, &scope, &v));
  repl_json_bool(c->doc, "holds", repl_truth(v));
  if (repl_truth(v)) return HS_GOOD;
  // The value of the left side tells why it does not hold.
  size_t n = strcspn(c->args.raw, "<>=!~");
  hs_status s = hs_fail(HS_E_ASSERT, "assertion failed: %s", c->args.raw);
  if (!c->args.raw[n]) return s;
  repl_value left;
  hs_status ok = repl_eval(hs_arena_strndup(c->scratch, c->args.raw, n), &scope, &left);
  while (n && c->args.raw[n - 1] == ' ') n--;
  if (hs_ok(ok)) s = hs_with_note(s, "%.*s is %.10g", (int)n, c->args.raw, left.number);
  hs_status_drop(ok);
  return s;
}
