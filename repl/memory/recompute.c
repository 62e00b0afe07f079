// recompute.c — `memory recompute`: an estimate of what rematerialization would save and cost.
#include "passes/buffer/recompute.h"

#include "repl/memory/memory.h"

hs_status memory_recompute(repl_cmd *c, i64 limit, bool quiet) {
  recompute_estimate e;
  hs_status s = recompute_find(c->m, &e);
  if (!hs_ok(s)) {
    hs_vec_free(&e.values);
    return s;
  }
  char b[4][32];
  bool text = !quiet && !c->doc;
  double percent = e.total_flops > 0 ? 100 * e.flops / e.total_flops : 0;
  if (text && !e.values.n)
    repl_say(c->out, "no cheap value is kept across the peak: recomputing saves nothing\n");
  else if (text) {
    repl_say(c->out,
             "estimated: temporaries live at once %s, %s when %zu values are made again\n"
             "cost: %s (%.2f%% more) and %s moved; nothing is rewritten, and a schedule of its own "
             "could do better or worse\n",
             repl_bytes(b[0], (double)e.peak_before), repl_bytes(b[1], (double)e.peak_after),
             e.values.n, repl_flops(b[2], e.flops), percent, repl_bytes(b[3], e.bytes));
  }
  repl_json *j = repl_json_object(c->doc, "recompute");
  repl_json_str(j, "source", "estimated");
  repl_json_int(j, "live_bytes_before", e.peak_before);
  repl_json_int(j, "live_bytes_after", e.peak_after);
  repl_json_num(j, "extra_flops", e.flops);
  repl_json_num(j, "extra_flops_percent", percent);
  repl_json_num(j, "extra_bytes_moved", e.bytes);
  repl_json *list = repl_json_array(j, "values");
  for (size_t k = 0; k < e.values.n; k++) {
    const recompute_value *v = &e.values.v[k];
    if (text && (i64)k < limit)
      repl_say(c->out, "%10s  %-20s %-18s not kept from step %u to %u\n",
               repl_bytes(b[0], (double)v->bytes), v->instr->name, hlo_op_text(v->instr->opcode),
               v->from, v->to);
    repl_json *o = repl_json_object(list, NULL);
    repl_json_str(o, "instruction", v->instr->name);
    repl_json_int(o, "bytes", v->bytes);
    repl_json_int(o, "from", v->from);
    repl_json_int(o, "to", v->to);
  }
  if (text && (i64)e.values.n > limit)
    repl_say(c->out, "%zu more; --limit=N shows more\n", e.values.n - (size_t)limit);
  hs_vec_free(&e.values);
  return HS_GOOD;
}
