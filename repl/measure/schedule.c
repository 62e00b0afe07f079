// schedule.c — `schedule`: how the loops of an instruction run, and schedules by hand.
//
// A schedule by hand is an attribute of its instruction (core/analysis/tuning.h), so setting one is
// an edit like any other: a version, undone, saved and reported with the module. What it comes to
// is the code generator's to say: the same lines that `dump schedule` prints of the whole module.
#include "repl/cmd/cmd.h"
#include "repl/measure/tune.h"
#include "repl/shell/exec.h"

// What the compiled program runs for the instruction.
static hs_status show(repl_cmd *c, const hlo_instr *i, const hlo_tuning *t) {
  repl_exe *x;
  hs_buf text = {0}, kept = {0}, by_hand = {0};
  if (hlo_tuning_write(t, &by_hand)) {
    repl_json_str(c->doc, "by_hand", hs_buf_cstr(&by_hand));
    repl_say(c->out, "by hand: %s\n", by_hand.p);
  } else {
    repl_json_null(c->doc, "by_hand");
  }
  hs_buf_free(&by_hand);
  HS_TRY(repl_compiled(c, c->s->be, false, false, &x));
  hs_status s = x->be->dump
                    ? x->be->dump(x->exe, "schedule", &text)
                    : hs_fail(HS_E_UNSUPPORTED, "the backend %s has no schedules", x->be->name);
  if (hs_ok(s)) s = tune_schedule_of(i, hs_buf_cstr(&text), &kept);
  if (hs_ok(s)) repl_say(c->out, "%s", hs_buf_cstr(&kept));
  if (hs_ok(s)) repl_json_str(c->doc, "schedule", hs_buf_cstr(&kept));
  hs_buf_free(&text);
  hs_buf_free(&kept);
  return s;
}

// Every schedule by hand, or what one may say.
static hs_status list(repl_cmd *c) {
  repl_json *all = repl_json_array(c->doc, "instructions");
  u32 n = 0;
  hlo_for_each_comp(comp, c->m)
    hlo_for_each_instr(i, comp) {
      hlo_tuning t;
      hs_buf b = {0};
      HS_TRY(hlo_tuning_of(i, &t));
      if (hlo_tuning_write(&t, &b)) {
        repl_json *e = repl_json_object(all, NULL);
        repl_json_str(e, "name", i->name);
        repl_json_str(e, "by_hand", hs_buf_cstr(&b));
        repl_say(c->out, "%-30s %s\n", i->name, hs_buf_cstr(&b));
        n++;
      }
      hs_buf_free(&b);
    }
  if (n) return HS_GOOD;
  repl_say(c->out, "no schedule by hand. schedule X KNOB=N... makes one:\n");
  for (u32 k = 0; k < HLO_TUNING_ROWS; k++) {
    const hlo_tuning_row *r = &hlo_tuning_rows[k];
    repl_say(c->out, "  %-6s %d to %-5d %s\n", r->name, r->least, r->most, r->meaning);
  }
  return HS_GOOD;
}

// Looks for a faster one and sets it.
static hs_status find_faster(repl_cmd *c, hlo_instr *i) {
  double seconds = 5;
  const char *text = repl_flag(c, "--search");
  tune_result r;
  char chosen[32], best[32];
  if (*text) HS_TRY(repl_arg_num(c, "--search", text, &seconds));
  HS_TRY(tune_search(c, i, seconds, &r));
  repl_json_int(c->doc, "tried", r.tried);
  repl_json_num(c->doc, "chosen_ms", r.chosen_ms);
  repl_json_num(c->doc, "best_ms", r.faster ? r.best_ms : r.chosen_ms);
  (void)repl_time(chosen, r.chosen_ms / 1e3), (void)repl_time(best, r.best_ms / 1e3);
  if (!r.faster) {
    repl_say(c->out, "none of %u schedules is faster than the chosen one, which takes %s\n",
             r.tried, chosen);
    return HS_GOOD;
  }
  repl_say(c->out, "the best of %u schedules takes %s, the chosen one %s: %.2fx\n", r.tried, best,
           chosen, r.chosen_ms / r.best_ms);
  hlo_tuning_set(i, &r.best);
  (void)repl_settle(c, c->line, 0);
  return show(c, i, &r.best);
}

hs_status cmd_schedule(repl_cmd *c) {
  hlo_instr *i;
  hlo_tuning t;
  bool drop = repl_flag(c, "--default") != NULL;
  bool search = repl_flag(c, "--search") != NULL;
  if (!c->args.npos && (drop || search))
    return repl_usage_error(c, "the schedule of which instruction?");
  if (!c->args.npos) return list(c);
  HS_TRY(repl_arg_instr(c, 0, &i));
  if (drop + search + (c->args.npos > 1) > 1)
    return repl_usage_error(c, "--default, --search, or what it should be");
  hs_status s = hlo_tuning_of(i, &t);
  if (drop || !hs_ok(s)) hs_status_drop(s), t = hlo_tuning_none();
  if (!drop && !search && c->args.npos == 1) return show(c, i, &t);
  for (u32 k = 1; k < c->args.npos; k++) HS_TRY(hlo_tuning_read(hs_str_of(repl_arg(c, k)), &t));
  if (!backend_has(c->s->be, BACKEND_TUNED_BY_HAND))
    return hs_with_note(
        hs_fail(HS_E_UNSUPPORTED, "the backend %s chooses its schedules itself", c->s->be->name),
        "backend cpu obeys schedules by hand");
  if (search) return find_faster(c, i);
  hlo_tuning_set(i, &t);
  (void)repl_settle(c, c->line, 0);  // what is compiled is a version
  return show(c, i, &t);
}
