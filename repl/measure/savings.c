// savings.c: what was saved, and whether it is enough: `savings` from the last `speedup` of the
// module, pass by pass (causes.c), or from four numbers; `assert` over counts, estimates and that
// measurement.
#include <math.h>

#include "profiler/units.h"
#include "repl/measure/causes.h"
#include "repl/measure/subject.h"
#include "repl/shell/measure_scope.h"

// The plain calculator: from a baseline and two factors.
static hs_status calculate(repl_cmd *c) {
  static const char *const names[] = {"TIME", "MEMORY", "SPEEDUP", "FACTOR"};
  double v[4];
  if (!repl_arg(c, 3)) return repl_usage_error(c, "it takes all four numbers, or none");
  for (u32 k = 0; k < 4; k++) HS_TRY(repl_arg_num(c, names[k], repl_arg(c, k), &v[k]));
  prof_savings s;
  HS_TRY(prof_savings_from(v[0], v[1], v[2], v[3], &s));
  if (!c->doc) {
    char a[32], b[32], d[32], x[32];
    repl_say(c->out, "           baseline   optimized       saved\n");
    repl_say(c->out, "time     %10s  %10s  %10s  (%.1f %%, %s)\n", prof_count_text(a, s.time),
             prof_count_text(b, s.opt_time), prof_count_text(d, s.time_saved), s.time_percent,
             prof_ratio_text(x, s.speedup));
    repl_say(c->out, "memory   %10s  %10s  %10s  (%.1f %%, %s)\n", prof_count_text(a, s.memory),
             prof_count_text(b, s.opt_memory), prof_count_text(d, s.memory_saved), s.memory_percent,
             prof_ratio_text(x, s.memory_factor));
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

// ---- from the last measurement ------------------------------------------------------------------
static hs_status money(repl_cmd *c, const char *flag, double *out) {
  *out = 0;
  if (!repl_flag(c, flag)) return HS_GOOD;
  HS_TRY(repl_arg_num(c, flag, repl_flag(c, flag), out));
  return *out > 0 ? HS_GOOD : repl_usage_error(c, "%s is a number above 0", flag);
}

// Optimizing costs its passes and the difference in compile time once.
static void say_break_even(repl_cmd *c, const repl_measurement *m) {
  double gain = m->ms - m->opt_ms;
  char a[32], b[32];
  if (!(m->extra_ms >= 0)) return;
  if (gain > 0 && m->extra_ms > 0) {
    double runs = ceil(m->extra_ms / gain);
    repl_say(c->out, "  pays after %s run%s: optimizing and compiling takes %s more\n",
             repl_count(a, runs), runs == 1 ? "" : "s", repl_time(b, m->extra_ms * 1e-3));
    repl_json_num(c->doc, "break_even_runs", runs);
  } else repl_json_null(c->doc, "break_even_runs");
}

// Nothing can be reckoned with a ratio that is too noisy.
static void say_too_noisy(repl_cmd *c, double runs) {
  repl_json_null(c->doc, "break_even_runs");
  if (runs > 0) {
    repl_json_null(c->doc, "hours_per_day");
    repl_json_null(c->doc, "cost_per_day");
    repl_say(c->out, "  what that saves a day cannot be said");
  } else {
    repl_say(c->out, "  after how many runs it pays cannot be said");
  }
  repl_say(c->out, ": `speedup --until=5%%` measures until the ratio is known\n");
}

// In money of the unit that the price has.
static void say_money(repl_cmd *c, const repl_measurement *m, double price, double runs) {
  char a[32], b[32];
  double hours = (m->ms - m->opt_ms) * runs / 3.6e6;
  repl_say(c->out, "  %s runs a day: %s a day %s", repl_count(a, runs),
           prof_time_text(b, fabs(hours) * 3600), hours < 0 ? "more" : "less");
  if (price > 0)
    repl_say(c->out, ", at %g an hour %.4g a day, %.4g a year", price, fabs(hours * price),
             fabs(hours * price * 365));
  repl_say(c->out, "\n");
  repl_json_num(c->doc, "hours_per_day", hours);
  if (price > 0) repl_json_num(c->doc, "cost_per_day", hours * price);
  else repl_json_null(c->doc, "cost_per_day");
}

static hs_status from_measurement(repl_cmd *c) {
  if (!c->mod)
    return repl_usage_error(c, "without a module savings takes TIME MEMORY SPEEDUP FACTOR");
  const repl_measurement *m = &c->mod->measured;
  if (!m->known)
    return hs_with_note(hs_fail(HS_E_USAGE, "%s has not been measured yet", c->m->name),
                        "run `speedup` first, or give TIME MEMORY SPEEDUP FACTOR");
  double price, runs;
  HS_TRY(money(c, "--price", &price));
  HS_TRY(money(c, "--runs-per-day", &runs));
  if (price > 0 && !(runs > 0)) return repl_usage_error(c, "--price needs --runs-per-day");
  char a[32], b[32], x[32], lo[32], hi[32], text[128];
  bool noisy = !m->estimated && prof_judge(m->ratio) == PROF_TOO_NOISY;
  repl_say(c->out, "%s on %s, %s, %s\n", c->m->name, m->device, m->what,
           m->estimated ? "estimated" : "measured");
  repl_say(c->out, "  time    %s -> %s", repl_time(a, m->ms * 1e-3),
           repl_time(b, m->opt_ms * 1e-3));
  if (noisy) repl_say(c->out, ", %s\n", prof_noisy_text(text, m->ratio));
  else if (m->estimated) repl_say(c->out, ", %s\n", prof_ratio_text(x, m->ratio.value));
  else
    repl_say(c->out, ", %s (between %s and %s)\n", prof_ratio_text(x, m->ratio.value),
             prof_ratio_text(lo, m->ratio.low), prof_ratio_text(hi, m->ratio.high));
  repl_say(c->out, "  memory  %s -> %s\n", repl_bytes(a, (double)m->peak),
           repl_bytes(b, (double)m->opt_peak));
  repl_json_str(c->doc, "source", m->estimated ? "estimated" : "measured");
  repl_json_str(c->doc, "device", m->device);
  repl_json_num(c->doc, "time_ms", m->ms);
  repl_json_num(c->doc, "optimized_time_ms", m->opt_ms);
  repl_json_num(c->doc, "speedup", m->ratio.value);
  repl_json_num(c->doc, "speedup_low", m->estimated ? (double)NAN : m->ratio.low);
  repl_json_num(c->doc, "speedup_high", m->estimated ? (double)NAN : m->ratio.high);
  if (m->estimated) repl_json_null(c->doc, "verdict");
  else repl_json_str(c->doc, "verdict", prof_verdict_text(prof_judge(m->ratio)));
  repl_json_int(c->doc, "peak_bytes", m->peak);
  repl_json_int(c->doc, "optimized_peak_bytes", m->opt_peak);
  if (noisy) {
    say_too_noisy(c, runs);
    return HS_GOOD;
  }
  say_break_even(c, m);
  if (runs > 0) say_money(c, m, price, runs);
  return HS_GOOD;
}

hs_status cmd_savings(repl_cmd *c) {
  const char *by = repl_flag(c, "--by");
  if (!by) return repl_arg(c, 0) ? calculate(c) : from_measurement(c);
  if (strcmp(by, "pass") != 0 || repl_arg(c, 0))
    return repl_usage_error(c, "--by is pass, and goes without numbers");
  return causes_by_pass(c);
}

// ---- assert -------------------------------------------------------------------------------------
// Whether the expression says the same at both ends of the interval of what was measured.
static bool is_certain(repl_cmd *c, repl_module_scope at, bool holds) {
  const prof_interval r = *at.measured;
  bool same = true;
  for (u32 end = 0; end < 2; end++) {
    const prof_interval one = {end ? r.high : r.low, r.low, r.high};
    repl_scope scope = repl_scope_of_module(&at);
    repl_value v;
    at.measured = &one;
    hs_status s = repl_eval(c->args.raw, &scope, &v);
    same &= hs_ok(s) && repl_truth(v) == holds;
    hs_status_drop(s);
  }
  return same;
}

hs_status cmd_assert(repl_cmd *c) {
  repl_module_scope ms;
  HS_TRY(repl_module_scope_open(&ms, c->m, c->s->target, c->mod->at->number));
  ms.measured = c->mod->measured.known ? &c->mod->measured.ratio : NULL;
  repl_scope scope = repl_scope_of_module(&ms);
  repl_value v;
  HS_TRY(repl_eval(c->args.raw, &scope, &v));
  if (ms.lacked_measurement)
    return hs_with_note(hs_fail(HS_E_USAGE, "%s has not been measured yet", c->m->name),
                        "run `speedup` first: speedup is the ratio that it finds");
  bool holds = repl_truth(v);
  const prof_interval *r = ms.measured;
  bool certain = !r || c->mod->measured.estimated || is_certain(c, ms, holds);
  repl_json_bool(c->doc, "holds", holds);
  repl_json_bool(c->doc, "certain", certain);
  char lo[32], hi[32];
  if (!certain && !c->doc)
    repl_say(c->out, "%s, but not at both ends of the interval of the speedup, %s to %s\n",
             holds ? "it holds" : "it does not hold", prof_ratio_text(lo, r->low),
             prof_ratio_text(hi, r->high));
  if (holds) return HS_GOOD;
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
