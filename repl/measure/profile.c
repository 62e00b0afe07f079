// profile.c: where the time of a run goes, kernel by kernel (kernels.h), beside its estimate for
// the device of `target` and how near it comes to what that device allows. What the rows leave of a
// run is named: time between kernels; and what the probes cost is said where it is more than 2 %.
// Times of isolated kernels (isolated.c) are no parts of a run, and are marked.
#include <math.h>
#include <stdio.h>

#include "profiler/units.h"
#include "repl/measure/kernels.h"
#include "repl/measure/power.h"
#include "repl/kernel/sample.h"

enum { LEAST_KEY = 28, MOST_KEY = 56 };  // columns for what a row is of

// As many as the widest key of the rows shown takes, within these.
static int key_columns(const kernel_row *rows, u32 n) {
  int w = LEAST_KEY;
  for (u32 k = 0; k < n; k++) w = HS_MAX(w, repl_width(rows[k].key));
  return HS_MIN(w, MOST_KEY);
}

static void say_key(repl_cmd *c, const char *key, int columns) {
  hs_buf b = {0};
  repl_pad(&b, repl_tail(c->scratch, key, columns), columns);
  repl_say(c->out, "%s ", hs_buf_cstr(&b));
  hs_buf_free(&b);
}

static void say_row(repl_cmd *c, const kernel_row *r, int columns, double whole) {
  char t[32], lo[32], hi[32], e[32], span[72], calls[32];
  snprintf(span, sizeof span, "%s..%s", repl_time(lo, r->t.p10 * 1e-3),
           repl_time(hi, r->t.p90 * 1e-3));
  repl_count(calls, r->calls);
  double ms = r->t.median;
  say_key(c, r->key, columns);
  repl_say(c->out, "%-16.16s %6s %9s %20s %5.1f%% %8.2f %8.2f %5.1f%% %-8s %9s\n", r->kind, calls,
           repl_time(t, ms * 1e-3), span, prof_percent(ms, whole),
           ms > 0 ? r->bytes / ms * 1e-6 : 0, ms > 0 ? r->flops / ms * 1e-6 : 0,
           prof_percent(r->roof_ms, ms), kernel_bound(r), repl_time(e, r->estimated_ms * 1e-3));
}

static void json_row(repl_json *list, const char *by, const kernel_row *r, double whole) {
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, strcmp(by, "kernel") == 0 ? "name" : by, r->key);
  repl_json_str(j, "kind", r->kind);
  repl_json_int(j, "kernels", r->kernels);
  repl_json_num(j, "calls", r->calls);
  repl_json_num(j, "measured_ms", r->t.median);
  repl_json_num(j, "p10_ms", r->t.p10);
  repl_json_num(j, "p90_ms", r->t.p90);
  repl_json_num(j, "share", prof_percent(r->t.median, whole) / 100);
  repl_json_num(j, "bytes", r->bytes);
  repl_json_num(j, "flops", r->flops);
  repl_json_num(j, "roof_ms", r->roof_ms);
  repl_json_str(j, "bound", kernel_bound(r));
  repl_json_num(j, "estimated_ms", r->estimated_ms);
  repl_json_num(j, "read_bytes", r->counted.read_bytes);
  repl_json_num(j, "written_bytes", r->counted.written_bytes);
  repl_json_num(j, "tensor_share", r->counted.tensor);
}

// What the device counted; a dash for what it did not.
static void say_counted(repl_cmd *c, const kernel_row *r, int columns) {
  const prof_counters *q = &r->counted;
  double both = q->read_bytes + q->written_bytes, ms = r->t.median;
  char read[32] = "-", written[32] = "-", rate[32] = "-", of[32] = "-", tensor[32] = "-";
  if (!isnan(q->read_bytes)) repl_bytes(read, q->read_bytes);
  if (!isnan(q->written_bytes)) repl_bytes(written, q->written_bytes);
  if (!isnan(both) && ms > 0) snprintf(rate, sizeof rate, "%.2f", both / ms * 1e-6);
  if (!isnan(both) && r->bytes > 0) snprintf(of, sizeof of, "%.2f", both / r->bytes);
  if (!isnan(q->tensor)) snprintf(tensor, sizeof tensor, "%.1f%%", 100 * q->tensor);
  say_key(c, r->key, columns);
  repl_say(c->out, "%12s %12s %9s %10s %8s\n", read, written, rate, of, tensor);
}

static void say_counters(repl_cmd *c, const char *by, const kernel_run *p, const kernel_row *rows,
                         u32 n) {
  const prof_recording *rec = p->rec;
  if (rec->counters) {
    int columns = key_columns(rows, n);
    say_key(c, by, columns);
    repl_say(c->out, "%12s %12s %9s %10s %8s\n", "memory read", "written", "GB/s", "of shapes'",
             "tensor");
    for (u32 k = 0; k < n; k++) say_counted(c, &rows[k], columns);
  }
  if (rec->counted[0]) repl_say(c->out, "%s\n", rec->counted);
  else repl_say(c->out, "not counted: backend gpu reads counters, %s does not\n", p->where);
}

// Kernels that were measured alone are no parts of a run: their sum stands beside one.
static void say_isolated(repl_cmd *c, const kernel_run *p, double kernels) {
  char a[32], b[32], d[32];
  repl_say(c->out,
           "isolated: %u kernels, %u of them different, each compiled and run alone on %s, less %s "
           "for the call: %s together; a run of the whole takes %s\n",
           p->rec->nkernels, p->distinct, p->where, repl_time(a, p->call_ms * 1e-3),
           repl_time(b, kernels * 1e-3),
           p->plain.n ? repl_time(d, p->plain.median * 1e-3) : "(not run)");
  if (p->left_out)
    repl_say(c->out, "%u kernel%s could not be measured\n", p->left_out,
             p->left_out == 1 ? "" : "s");
  if (p->late)
    repl_say(c->out,
             "%u kernels, %.1f %% of the estimate, were not reached in time: a longer --seconds is "
             "for all of them together\n",
             p->late, 100 * p->late_share);
}

// A run is what its kernels mostly take, what lies between them, and what the medians leave out:
// that now one kernel and now another takes longer, by which every run is longer. ms.
static void say_parts(repl_cmd *c, const kernel_run *p, double run, double kernels, double between,
                      double tails) {
  char a[32], b[32], d[32], many[32];
  repl_say(c->out, "a run takes %s: %s in %s (%.1f %%), %s between them (%.1f %%)",
           repl_time(a, run * 1e-3), repl_time(b, kernels * 1e-3),
           repl_plural(many, p->rec->nkernels, "kernel"), prof_percent(kernels, run),
           repl_time(d, between * 1e-3), prof_percent(between, run));
  double dispatch = p->result.timing.dispatch_ms;
  if (!p->file && dispatch > 0 && between > 0.03 * run)
    repl_say(c->out, ", starting kernels %s of it, loops, branches and waiting the rest",
             repl_time(a, fmin(dispatch, between) * 1e-3));
  if (fabs(tails) > 0.03 * run)
    repl_say(c->out,
             tails > 0 ? "; %s (%.1f %%) are kernels that take longer in some runs, not "
                         "the same ones: medians leave it out"
                       : "; medians come to %s (%.1f %%) too much, as kernels take long in "
                         "different runs",
             repl_time(b, fabs(tails) * 1e-3), prof_percent(fabs(tails), run));
  repl_say(c->out, "\n");
}

// Of a device that has an energy counter, in the runs without probes.
static void say_power(repl_cmd *c, const kernel_run *p) {
  const backend_power *power = &p->result.timing.power;
  char a[64];
  if (p->file || !(power->seconds > 0)) return;
  double joules = backend_power_of_run(power);
  repl_say(c->out, "energy of a run: %s%s\n", power_text(a, power),
           joules < 0 ? ", the runs were too short for the device's counter" : "");
  power_say_slowed(c, "", power);
  repl_json_num(c->doc, "joules", joules < 0 ? NAN : joules);
  power_json(c->doc, power);
}

// What the rows come to, and where the rest of a run is.
static void say_sum(repl_cmd *c, const kernel_run *p, const kernel_row *rows, u32 n) {
  const prof_recording *rec = p->rec;
  double kernels = 0, estimated = 0, error = 0;
  for (u32 k = 0; k < n; k++) {
    kernels += rows[k].t.median;
    estimated += rows[k].estimated_ms;
    error += fabs(rows[k].estimated_ms - rows[k].t.median);
  }
  prof_stats probed = prof_recorded_run(rec), raw = prof_summarize(rec->run_ms, rec->nruns);
  double between = prof_recorded_rest(rec).median, tails = probed.median - kernels - between;
  double overhead = (rec->slowdown > 0 ? rec->slowdown : raw.median / p->plain.median) - 1;
  char a[32], b[32], e[32];
  if (p->isolated) say_isolated(c, p, kernels);
  else say_parts(c, p, probed.median, kernels, between, tails);
  if (p->file)
    repl_say(c->out, "%u run%s on %s, as recorded in %s\n", rec->nruns, rec->nruns == 1 ? "" : "s",
             p->where, p->file);
  else if (!p->isolated)
    repl_say(c->out, "%u runs with probes of %s a kernel%s, %u without: %s\n", rec->nruns,
             repl_time(a, rec->probe_ns * 1e-9), overhead > 0.02 ? ", which slow it down" : "",
             p->plain.n, repl_time(b, p->plain.median * 1e-3));
  if (rec->how[0]) repl_say(c->out, "times by %s\n", rec->how);
  say_power(c, p);
  repl_say(c->out, "estimated for %s: %s, which is off by %.0f %% kernel by kernel%s\n",
           p->device->name, repl_time(e, estimated * 1e-3), prof_percent(error, kernels),
           p->device->measured && !prof_device_is_calibrated(p->device)
               ? "; `calibrate` measures this machine"
               : "");
  repl_json_num(c->doc, "measured_ms", kernels);
  repl_json_str(c->doc, "counted", rec->counted[0] ? rec->counted : NULL);
  bool probes = !p->file && !p->isolated;
  repl_json_num(c->doc, "between_ms", p->isolated ? NAN : between);
  repl_json_num(c->doc, "tails_ms", p->isolated ? NAN : tails);
  repl_json_num(c->doc, "probed_run_ms", p->isolated ? NAN : probed.median);
  repl_json_str(c->doc, "where", p->where);
  repl_json_str(c->doc, "recorded_in", p->file);
  repl_json_bool(c->doc, "isolated", p->isolated);
  repl_json_num(c->doc, "call_ms", p->isolated ? p->call_ms : NAN);
  if (p->isolated) repl_json_int(c->doc, "left_out", p->left_out);
  else repl_json_null(c->doc, "left_out");
  repl_json_num(c->doc, "late_share", p->isolated ? p->late_share : NAN);
  repl_json_num(c->doc, "run_ms", p->plain.n ? p->plain.median : NAN);
  if (rec->how[0]) repl_json_str(c->doc, "clock", rec->how);
  else repl_json_null(c->doc, "clock");
  repl_json_num(c->doc, "probe_ns", probes ? rec->probe_ns : NAN);
  repl_json_num(c->doc, "overhead", probes ? overhead : NAN);
  repl_json_int(c->doc, "runs", rec->nruns);
  repl_json_num(c->doc, "estimated_ms", estimated);
  repl_json_str(c->doc, "device", p->device->name);
}

static hs_status sample(repl_cmd *c, u32 rows) {
  double seconds = 1;
  static const char *const others[] = {"--by", "--isolated"};
  for (size_t k = 0; k < HS_COUNT(others); k++)
    if (repl_flag(c, others[k]))
      return repl_usage_error(c, "--sample is by function, and cannot be with %s", others[k]);
  HS_TRY(repl_arg_seconds(c, &seconds));
  return sample_profile(c, HS_MIN(HS_MAX(seconds, 0.01), 3600), rows);
}

hs_status cmd_profile(repl_cmd *c) {
  static const char *const groupings[] = {"kernel", "opcode", "scope", "source", "pass"};
  i64 top = 20;
  const char *by = repl_flag(c, "--by") ? repl_flag(c, "--by") : "kernel";
  bool known = false;
  for (size_t k = 0; k < HS_COUNT(groupings); k++) known |= strcmp(by, groupings[k]) == 0;
  if (!known) return repl_usage_error(c, "--by is kernel, opcode, scope, source or pass");
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 0, INT32_MAX, &top));
  kernel_run p;
  u32 n, shown = (u32)top;
  if (repl_flag(c, "--sample")) return sample(c, shown);
  HS_TRY(kernels_record(c, &p));
  kernel_row *rows = kernels_rows(c, &p, by, &n);
  double whole = prof_recorded_run(p.rec).median;
  int columns = key_columns(rows, HS_MIN(n, shown));
  say_key(c, by, columns);
  repl_say(c->out, "%-16s %6s %9s %20s %6s %8s %8s %6s %-8s %9s\n", "kind", "calls", "time",
           "p10..p90", "share", "GB/s", "GFLOP/s", "roof", "bound by", "estimate");
  repl_json *list = repl_json_array(c->doc, "kernels");
  repl_json_str(c->doc, "by", by);
  for (u32 k = 0; k < n; k++) {
    if (k < shown) say_row(c, &rows[k], columns, whole);
    json_row(list, by, &rows[k], whole);
  }
  if (n > shown) repl_say(c->out, "(%u more; -n=%u shows all)\n", n - shown, n);
  if (repl_flag(c, "--counters")) say_counters(c, by, &p, rows, HS_MIN(n, shown));
  say_sum(c, &p, rows, n);
  kernels_free(&p);
  return HS_GOOD;
}
