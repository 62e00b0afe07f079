// trips.c — `trips`: how often loops run, where their text does not say it.
//
// Costs and estimates multiply a loop's body by its iterations. Those of a loop over data (a solver
// that stops when it has converged, a search) are in no text; they are stated, by hand or by
// counting them in one run of the evaluator on the module's arguments. The number is an attribute
// of the loop (core/analysis/cost.h), so that stating it is an edit like any other: a version,
// undone, saved and reported with the module. Only figures believe it; no pass does.
#include <stdio.h>

#include "backends/ffi.h"
#include "core/analysis/cost.h"
#include "repl/cmd/cmd.h"
#include "repl/measure/trips.h"
#include "repl/shell/exec.h"
#include "repl/shell/inputs.h"

static void state(hlo_instr *loop, double trips) {
  char text[32];
  (void)snprintf(text, sizeof text, "%.6g", trips);
  hlo_set_frontend(loop, HLO_TRIPS_KEY, hs_str_of(text));
}

// ---- counting -----------------------------------------------------------------------------------
typedef struct counts {
  repl_out *out;
  u64 instructions;
  double *runs, *iterations;  // by instruction id, of while loops
} counts;

static hs_status observe(void *arg, const hlo_observation *o) {
  counts *n = arg;
  const hlo_instr *i = o->instr, *loop = o->site ? o->site->caller : NULL;
  if (n->out && (++n->instructions & 63) == 0 && repl_progress_due(n->out))
    repl_progress_text(n->out, "counting iterations: %llu instructions evaluated",
                       (unsigned long long)n->instructions);
  if (i->opcode == HLO_WHILE) n->runs[i->id]++;
  if (loop && loop->opcode == HLO_WHILE && i == hlo_attr_comp(loop, HLO_ATTR_BODY)->root)
    n->iterations[loop->id]++;
  return HS_GOOD;
}

bool trips_unknown(const hlo_module *m) {
  hlo_for_each_comp(comp, m)
    hlo_for_each_instr(i, comp)
      if (i->opcode == HLO_WHILE && hlo_expected_trips(i) < 0) return true;
  return false;
}

hs_status trips_count(hlo_module *m, u32 nargs, hlo_literal *const *args, bool keep_denormals,
                      repl_out *show) {
  u32 n = m->next_instr_id + 1;
  counts by = {.out = show,
               .runs = hs_calloc(n, sizeof *by.runs),
               .iterations = hs_calloc(n, sizeof *by.iterations)};
  hlo_eval_options eo = {
      .keep_denormals = keep_denormals, .peer = &ffi_peer, .observe = observe, .observe_arg = &by};
  hlo_literal *out = NULL;
  hs_status s = hlo_eval_module(m, nargs, args, &eo, &out);
  if (show) repl_progress_end(show);
  hlo_literal_unref(out);
  if (hs_ok(s))
    hlo_for_each_comp(comp, m)
      hlo_for_each_instr(i, comp)
        if (i->opcode == HLO_WHILE && hlo_trip_count(i) < 0 && by.runs[i->id] > 0)
          state(i, by.iterations[i->id] / by.runs[i->id]);
  hs_free(by.runs);
  hs_free(by.iterations);
  return s;
}

// ---- the command --------------------------------------------------------------------------------
static void list(repl_cmd *c) {
  repl_json *all = repl_json_array(c->doc, "loops");
  u32 n = 0, unknown = 0;
  hlo_for_each_comp(comp, c->m)
    hlo_for_each_instr(i, comp) {
      if (i->opcode != HLO_WHILE) continue;
      double trips = hlo_expected_trips(i);
      const char *source = hlo_trip_count(i) >= 0 ? "text" : trips >= 0 ? "stated" : "unknown";
      repl_json *e = repl_json_object(all, NULL);
      repl_json_str(e, "name", i->name);
      repl_json_str(e, "computation", comp->name);
      if (trips >= 0) repl_json_num(e, "trips", trips);
      else repl_json_null(e, "trips");
      repl_json_str(e, "source", source);
      if (trips >= 0 && !c->doc) repl_say(c->out, "%-30s %12g  %s\n", i->name, trips, source);
      else if (!c->doc) repl_say(c->out, "%-30s %12s  %s\n", i->name, "-", source);
      n++, unknown += trips < 0;
    }
  if (!n && !c->doc) repl_say(c->out, "no loops\n");
  if (unknown)
    repl_note(c->out, "trips --count counts them in a run of the evaluator; trips X N states one");
}

hs_status cmd_trips(repl_cmd *c) {
  bool counted = repl_flag(c, "--count") != NULL, drop = repl_flag(c, "--default") != NULL;
  if (counted + drop + (c->args.npos > 1) > 1 || (counted && c->args.npos))
    return repl_usage_error(c, "--count, X N, or X --default");
  if (counted) {
    HS_TRY(repl_inputs(c));
    HS_TRY(trips_count(c->m, c->mod->ninputs, c->mod->inputs, c->s->set.keep_denormals, c->out));
  }
  if (drop && !c->args.npos) return repl_usage_error(c, "which loop's?");
  if (c->args.npos) {
    hlo_instr *i;
    double n = 0;
    HS_TRY(repl_arg_instr(c, 0, &i));
    if (i->opcode != HLO_WHILE)
      return hs_fail_subject(HS_E_USAGE, i->name, "%%%s is no while loop but %s", i->name,
                             hlo_op_text(i->opcode));
    if (c->args.npos == 1 && !drop) return repl_usage_error(c, "how often does %s run?", i->name);
    if (!drop) {
      HS_TRY(repl_arg_num(c, "N", repl_arg(c, 1), &n));
      if (!(n >= 0) || n > 1e18) return repl_usage_error(c, "N is 0 or more, at most 1e18");
      if (hlo_trip_count(i) >= 0)
        repl_note(c->out, "the text of %s says how often it runs: %lld", i->name,
                  (long long)hlo_trip_count(i));
    }
    if (drop) hlo_set_frontend(i, HLO_TRIPS_KEY, (hs_str){0});
    else state(i, n);
  }
  list(c);
  return HS_GOOD;
}
