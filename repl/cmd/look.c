// look.c: print, info, list, stats, signature, cost, verify: the module as text and in figures.
#include <stdio.h>
#include <stdlib.h>

#include "core/mlir/mlir.h"
#include "core/analysis/cost.h"
#include "core/verify/verify.h"
#include "repl/cmd/cmd.h"
#include "repl/shell/gate.h"
#include "repl/shell/expr.h"
#include "repl/shell/value.h"

// ---- print --------------------------------------------------------------------------------------
// --with=NAME,... and --without=NAME,...: switches under XLA's names.
static hs_status set_switches(hlo_print_options *o, const char *names, bool on) {
  for (const char *p = names; p && *p;) {
    size_t n = strcspn(p, ",");
    char *name = hs_format("%.*s", (int)n, p);
    bool *b = hlo_print_option(o, name);
    hs_status s = HS_GOOD;
    if (b) {
      *b = on;
    } else {
      HS_VEC(const char *) all = {0};
      for (size_t k = 0; hlo_print_option_name(k); k++) hs_vec_push(&all, hlo_print_option_name(k));
      const char *near = hs_nearest(name, all.v, all.n);
      s = hs_fail(HS_E_USAGE, "print: there is no option %s", name);
      s = near ? hs_with_note(s, "did you mean %s?", near)
               : hs_with_note(s, "help print-options lists them");
      hs_vec_free(&all);
    }
    hs_free(name);
    HS_TRY(s);
    p += n + (p[n] == ',');
  }
  return HS_GOOD;
}

static hs_status print_options(const repl_cmd *c, hlo_print_options *o) {
  *o = hlo_print_default();
  if (repl_flag(c, "--short")) *o = hlo_print_short_parsable();
  if (repl_flag(c, "--canonical")) *o = hlo_print_canonical();
  if (repl_flag(c, "--long")) *o = hlo_print_full();
  if (repl_flag(c, "--compact")) *o = hlo_print_compact();
  if (!c->s->set.metadata) o->print_metadata = false;
  if (!c->s->set.backend_config) o->print_backend_config = false;
  o->vintage = (hlo_vintage)c->s->set.vintage;
  o->color = c->out->color && !repl_flag(c, "-o");
  HS_TRY(set_switches(o, repl_flag(c, "--with"), true));
  return set_switches(o, repl_flag(c, "--without"), false);
}

static bool any(const hlo_instr *i) { return i != NULL; }

// The instructions and computations that are named, one after the other; without a name the module.
static hs_status print_named(repl_cmd *c, const hlo_print_options *o, hs_buf *b) {
  if (!c->args.npos) hlo_print_module(b, c->m, o);
  for (u32 k = 0; k < c->args.npos; k++) {
    hlo_instr *i;
    hlo_computation *comp;
    HS_TRY(repl_arg_object(c, k, &i, &comp));
    if (i) hlo_print_instr(b, i, o);
    else hlo_print_computation(b, comp, o);
    if (b->n && b->p[b->n - 1] != '\n') hs_buf_putc(b, '\n');
  }
  return HS_GOOD;
}

hs_status cmd_print(repl_cmd *c) {
  if (repl_asks_for_value(c)) return repl_print_value(c);
  static const char *const whole[] = {"--fingerprint", "--stablehlo"};
  for (size_t k = 0; c->args.npos && k < HS_COUNT(whole); k++)
    if (repl_flag(c, whole[k])) return repl_usage_error(c, "%s is of the whole module", whole[k]);
  if (repl_flag(c, "--fingerprint")) {
    char hex[20];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hlo_fingerprint(c->m));
    repl_json_str(c->doc, "fingerprint", hex);
    if (!c->doc) repl_say(c->out, "%s\n", hex);
    return HS_GOOD;
  }
  hlo_print_options o;
  HS_TRY(print_options(c, &o));
  if (o.subcomputations == 1) HS_TRY(hlo_check_expansion(c->m, any, "bodies printed in full"));
  hs_buf b = {0};
  hs_status s = repl_flag(c, "--stablehlo") ? hlo_mlir_print(c->m, &b) : print_named(c, &o, &b);
  if (b.n && b.p[b.n - 1] != '\n') hs_buf_putc(&b, '\n');
  if (hs_ok(s)) s = hs_poll();
  const char *file = repl_flag(c, "-o");
  if (hs_ok(s) && file && strcmp(file, "-") != 0) s = hs_write_file(file, b.p, b.n, false);
  else if (hs_ok(s)) repl_say_painted(c->out, b.p, b.n);
  hs_buf_free(&b);
  return s;
}

// ---- info ---------------------------------------------------------------------------------------
static const char *shape_text(repl_cmd *c, const hlo_shape *s) {
  hs_buf b = {0};
  hlo_shape_print(&b, s, true);
  char *t = hs_arena_strndup(c->scratch, b.p, b.n);
  hs_buf_free(&b);
  return t;
}

static void info_neighbours(repl_cmd *c, const hlo_instr *i) {
  repl_json *ops = repl_json_array(c->doc, "operands"), *users = repl_json_array(c->doc, "users");
  repl_say(c->out, "operands:\n");
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *d = hlo_operand(i, k);
    repl_say(c->out, "  %s = %s %s\n", d->name, shape_text(c, d->shape), hlo_op_text(d->opcode));
    repl_json_str(ops, NULL, d->name);
  }
  repl_say(c->out, "users:\n");
  const hlo_instr *last = NULL;
  u32 n = 0;
  hlo_for_each_use(u, i) {
    if (u->user == last) continue;
    last = u->user;
    if (n++ < 50)
      repl_say(c->out, "  %s = %s %s\n", last->name, shape_text(c, last->shape),
               hlo_op_text(last->opcode));
    repl_json_str(users, NULL, last->name);
  }
  if (n > 50) repl_say(c->out, "  ... and %u more\n", n - 50);
}

static void info_metadata(repl_cmd *c, const hlo_instr *i) {
  const hlo_metadata *md = hlo_metadata_of(i);
  if (md && md->op_name.n)
    repl_say(c->out, "op_name: %.*s\n", (int)md->op_name.n, md->op_name.p),
        repl_json_strn(c->doc, "op_name", md->op_name.p, md->op_name.n);
  if (md && md->op_type.n)
    repl_say(c->out, "op_type: %.*s\n", (int)md->op_type.n, md->op_type.p),
        repl_json_strn(c->doc, "op_type", md->op_type.p, md->op_type.n);
  if (md && md->source_file.n) {
    repl_say(c->out, "source: %.*s:%d\n", (int)md->source_file.n, md->source_file.p,
             md->source_line);
    repl_json_strn(c->doc, "source_file", md->source_file.p, md->source_file.n);
    repl_json_int(c->doc, "source_line", md->source_line);
  }
}

static hs_status info_instr(repl_cmd *c, const hlo_instr *i) {
  bool verified = repl_is_verified(c->mod);
  hlo_cost cost = verified ? hlo_cost_instr(i) : (hlo_cost){0};
  char flops[32], bytes[32], size[32];
  repl_say(c->out, "instruction: %s\n", i->name);
  repl_say(c->out, "opcode: %s\n", hlo_op_text(i->opcode));
  repl_say(c->out, "shape: %s (%s)\n", shape_text(c, i->shape),
           repl_bytes(size, (double)hlo_shape_bytes(i->shape)));
  repl_say(c->out, "computation: %s%s%s\n", i->parent->name,
           i->parent == c->m->entry ? " (entry)" : "", hlo_is_root(i) ? ", its root" : "");
  if (verified)
    repl_say(c->out, "cost: %s, %s moved (estimated)\n",
             repl_flops(flops, cost.flops + cost.transcendentals),
             repl_bytes(bytes, cost.bytes_read + cost.bytes_written));
  repl_json_str(c->doc, "instruction", i->name);
  repl_json_str(c->doc, "opcode", hlo_op_text(i->opcode));
  repl_json_str(c->doc, "shape", shape_text(c, i->shape));
  repl_json_str(c->doc, "computation", i->parent->name);
  repl_json_bool(c->doc, "root", hlo_is_root(i));
  if (verified) {
    repl_json_num(c->doc, "flops", cost.flops);
    repl_json_num(c->doc, "transcendentals", cost.transcendentals);
    repl_json_num(c->doc, "bytes", cost.bytes_read + cost.bytes_written);
  }
  info_metadata(c, i);
  hlo_print_options o = hlo_print_default();
  if (!c->s->set.metadata) o.print_metadata = false;
  for (u32 k = 0; i->attrs && k < i->attrs->n; k++) {
    const hlo_attr *a = &i->attrs->v[k];
    if (a->id == HLO_ATTR_METADATA || i->opcode == HLO_CONSTANT || i->opcode == HLO_PARAMETER)
      continue;
    hs_buf b = {0};
    hlo_print_attr_value(&b, i, a, &o);
    repl_say(c->out, "%s: %s\n", hlo_attr_text(a->id), hs_buf_cstr(&b));
    hs_buf_free(&b);
  }
  if (i->opcode == HLO_FUSION && hlo_fusion_comp(i))
    repl_say(c->out, "fused root: %s\n", hlo_fusion_comp(i)->root->name);
  if (i->opcode == HLO_WHILE && verified) {
    double trips = hlo_expected_trips(i);
    if (trips < 0) repl_say(c->out, "trips: not known (`trips` counts or states them)\n");
    else repl_say(c->out, "trips: %g%s\n", trips, hlo_trip_count(i) < 0 ? ", as stated" : "");
  }
  info_neighbours(c, i);
  return HS_GOOD;
}

static hs_status info_comp(repl_cmd *c, const hlo_computation *comp) {
  repl_say(c->out, "computation: %s%s\n", comp->name, comp == c->m->entry ? " (entry)" : "");
  repl_say(c->out, "instructions: %u\n", comp->ninstrs);
  repl_json_str(c->doc, "computation", comp->name);
  repl_json_bool(c->doc, "entry", comp == c->m->entry);
  repl_json_int(c->doc, "instructions", comp->ninstrs);
  repl_json *params = repl_json_array(c->doc, "parameters"),
            *callers = repl_json_array(c->doc, "callers"),
            *called = repl_json_array(c->doc, "calls");
  repl_say(c->out, "parameters:\n");
  for (u32 k = 0; k < comp->nparams; k++) {
    repl_say(c->out, "  %s: %s\n", comp->params[k]->name, shape_text(c, comp->params[k]->shape));
    repl_json_str(params, NULL, comp->params[k]->name);
  }
  if (comp->root) {
    repl_say(c->out, "root: %s = %s %s\n", comp->root->name, shape_text(c, comp->root->shape),
             hlo_op_text(comp->root->opcode));
    repl_json_str(c->doc, "root", comp->root->name);
  }
  repl_say(c->out, "calls:\n");
  hlo_for_each_instr(i, comp) {
    for (u32 k = 0; k < hlo_ncalled(i); k++) {
      const hlo_computation *callee = hlo_called(i, k);
      if (!callee) continue;
      repl_say(c->out, "  %s by %s\n", callee->name, i->name);
      repl_json_str(called, NULL, callee->name);
    }
  }
  repl_say(c->out, "called by:\n");
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr(i, k)
      if (hlo_calls(i, comp)) {
        repl_say(c->out, "  %s in %s\n", i->name, k->name);
        repl_json_str(callers, NULL, i->name);
      }
  return HS_GOOD;
}

hs_status cmd_info(repl_cmd *c) {
  hlo_instr *i;
  hlo_computation *comp;
  HS_TRY(repl_arg_object(c, 0, &i, &comp));
  HS_TRY(i ? info_instr(c, i) : info_comp(c, comp));
  if (c->doc) c->out->text.n = 0;
  return HS_GOOD;
}

// ---- list ---------------------------------------------------------------------------------------
static hs_status list_computations(repl_cmd *c) {
  repl_json *list = repl_json_array(c->doc, "computations");
  hlo_for_each_comp(k, c->m) {
    if (!c->doc)
      repl_say(c->out, "%s%s  %u instructions\n", k->name, k == c->m->entry ? " (entry)" : "",
               k->ninstrs);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", k->name);
    repl_json_bool(j, "entry", k == c->m->entry);
    repl_json_int(j, "instructions", k->ninstrs);
  }
  return HS_GOOD;
}

static bool str_matches(repl_cmd *c, hs_str s, const char *pattern) {
  return s.n && repl_matches(hs_arena_strndup(c->scratch, s.p, s.n), pattern);
}

static bool list_hit(repl_cmd *c, const hlo_instr *i, const char *field, const char *pattern) {
  const hlo_metadata *md = hlo_metadata_of(i);
  bool any = strcmp(field, "any") == 0;
  if ((any || strcmp(field, "name") == 0) && repl_matches(i->name, pattern)) return true;
  if ((any || strcmp(field, "op_name") == 0) && md && str_matches(c, md->op_name, pattern))
    return true;
  return (any || strcmp(field, "op_type") == 0) && md && str_matches(c, md->op_type, pattern);
}

hs_status cmd_list(repl_cmd *c) {
  const char *w0 = repl_arg(c, 0), *w1 = repl_arg(c, 1), *field = "any", *pattern = w0 ? w0 : "";
  if (c->args.npos > 2) return repl_usage_error(c, "too many words");
  if (w0 && !w1 && strcmp(w0, "computations") == 0) return list_computations(c);
  if (w1) {
    if (strcmp(w0, "name") != 0 && strcmp(w0, "op_name") != 0 && strcmp(w0, "op_type") != 0)
      return repl_usage_error(c, "is list name, list op_name or list op_type, not \"%s\"", w0);
    field = w0;
    pattern = w1;
  }
  i64 limit = INT64_MAX;
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 0, INT32_MAX, &limit));
  repl_json *list = repl_json_array(c->doc, "instructions");
  i64 n = 0;
  hlo_for_each_comp(k, c->m) {
    HS_TRY(hs_poll());
    hlo_for_each_instr(i, k) {
      if (!list_hit(c, i, field, pattern)) continue;
      if (n++ >= limit) continue;
      const hlo_metadata *md = hlo_metadata_of(i);
      if (c->doc) {
        repl_json *j = repl_json_object(list, NULL);
        repl_json_str(j, "name", i->name);
        repl_json_str(j, "opcode", hlo_op_text(i->opcode));
        repl_json_str(j, "computation", k->name);
        if (md) repl_json_strn(j, "op_name", md->op_name.p ? md->op_name.p : "", md->op_name.n);
        continue;
      }
      repl_say(c->out, "%s  %s", i->name, hlo_op_text(i->opcode));
      if (md && md->op_type.n)
        repl_say(c->out, "  op_type=%.*s", (int)md->op_type.n, md->op_type.p);
      if (md && md->op_name.n)
        repl_say(c->out, "  op_name=%.*s", (int)md->op_name.n, md->op_name.p);
      repl_say(c->out, "\n");
    }
  }
  if (n > limit && !c->doc) repl_say(c->out, "... %lld more\n", (long long)(n - limit));
  repl_json_int(c->doc, "matches", n);
  if (!n) repl_note(c->out, "nothing matches \"%s\"", pattern);
  return HS_GOOD;
}

// ---- stats, signature, cost, verify -------------------------------------------------------------
typedef struct tally {
  hlo_opcode op;
  u32 n;
  double flops, bytes;
} tally;
static int by_count(const void *a, const void *b) {
  const tally *x = a, *y = b;
  return x->n != y->n ? (x->n < y->n ? 1 : -1) : (int)x->op - (int)y->op;
}

// What the figures of a module leave out.
static void say_unknown(const repl_cmd *c, const hlo_cost_table *t) {
  char n[32];
  u32 calls = t->unknown - t->unknown_loops;
  if (!c->doc && t->unknown_loops)
    repl_say(c->out, "%s: nothing says how often, counted once (see trips)\n",
             repl_plural(n, t->unknown_loops, "loop"));
  if (!c->doc && calls)
    repl_say(c->out, "%s of unknown cost: only bytes are counted\n",
             repl_plural(n, calls, "custom call"));
}

hs_status cmd_stats(repl_cmd *c) {
  pass_totals t;
  HS_TRY(pass_measure(c->m, NULL, &t));
  hlo_memory mem;
  HS_TRY(hlo_memory_estimate(c->m, false, &mem));
  hlo_cost_table cost;
  HS_TRY(hlo_cost_module(c->m, &cost));
  tally *ops = HS_NEW_ARRAY(c->scratch, tally, HLO_OPCODE_COUNT);
  for (int k = 0; k < HLO_OPCODE_COUNT; k++) ops[k].op = (hlo_opcode)k;
  hlo_for_each_comp(comp, c->m)
    hlo_for_each_instr(i, comp) {
      ops[i->opcode].n++;
      if (i->id < cost.n)
        ops[i->opcode].flops += cost.by_id[i->id].flops,
            ops[i->opcode].bytes += cost.by_id[i->id].bytes_read + cost.by_id[i->id].bytes_written;
    }
  qsort(ops, HLO_OPCODE_COUNT, sizeof *ops, by_count);
  char b0[32], b1[32], b2[32], b3[32];
  if (!c->doc) {
    repl_say(c->out, "%s: %s, %s, %s\n", c->m->name, repl_plural(b0, t.instructions, "instruction"),
             repl_plural(b1, t.computations, "computation"), repl_plural(b2, t.kernels, "kernel"));
    repl_say(c->out, "cost (estimated): %s, %s moved\n", repl_flops(b0, t.flops),
             repl_bytes(b1, t.bytes));
    repl_say(c->out, "memory (estimated): arguments %s, outputs %s, temporaries %s, peak %s\n",
             repl_bytes(b0, (double)mem.argument_bytes), repl_bytes(b1, (double)mem.output_bytes),
             repl_bytes(b2, (double)mem.temp_bytes), repl_bytes(b3, (double)mem.peak_bytes));
    say_unknown(c, &cost);
  }
  repl_json_int(c->doc, "instructions", t.instructions);
  repl_json_int(c->doc, "computations", t.computations);
  repl_json_int(c->doc, "kernels", t.kernels);
  repl_json_num(c->doc, "flops", t.flops);
  repl_json_num(c->doc, "bytes", t.bytes);
  repl_json_int(c->doc, "peak_bytes", mem.peak_bytes);
  repl_json_int(c->doc, "unknown_costs", cost.unknown);
  repl_json *list = repl_json_object(c->doc, "opcodes");
  for (int k = 0; k < HLO_OPCODE_COUNT && ops[k].n; k++) {
    repl_json_int(list, hlo_op_text(ops[k].op), ops[k].n);
    if (c->doc) continue;
    if (ops[k].flops > 0)
      repl_say(c->out, "%8u  %-24s  %s\n", ops[k].n, hlo_op_text(ops[k].op),
               repl_flops(b0, ops[k].flops));
    else repl_say(c->out, "%8u  %s\n", ops[k].n, hlo_op_text(ops[k].op));
  }
  hlo_cost_free(&cost);
  return HS_GOOD;
}

hs_status cmd_signature(repl_cmd *c) {
  const hlo_computation *e = c->m->entry;
  repl_json *list = repl_json_array(c->doc, "parameters");
  char size[32];
  for (u32 k = 0; k < e->nparams; k++) {
    const hlo_instr *p = e->params[k];
    if (!c->doc)
      repl_say(c->out, "%3u  %s: %s  %s\n", k, p->name, shape_text(c, p->shape),
               repl_bytes(size, (double)hlo_shape_bytes(p->shape)));
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "name", p->name);
    repl_json_str(j, "shape", shape_text(c, p->shape));
    repl_json_int(j, "bytes", hlo_shape_bytes(p->shape));
  }
  if (!c->doc)
    repl_say(c->out, " ->  %s  %s\n", shape_text(c, e->root->shape),
             repl_bytes(size, (double)hlo_shape_bytes(e->root->shape)));
  repl_json *r = repl_json_object(c->doc, "result");
  repl_json_str(r, "shape", shape_text(c, e->root->shape));
  repl_json_int(r, "bytes", hlo_shape_bytes(e->root->shape));
  return HS_GOOD;
}

typedef struct ranked {
  const hlo_instr *i;
  hlo_cost cost;
} ranked;
static double weight(const ranked *r) {
  return r->cost.bytes_read + r->cost.bytes_written + r->cost.flops / 8;
}
static int by_weight(const void *a, const void *b) {
  double x = weight(a), y = weight(b);
  if (x != y) return x < y ? 1 : -1;
  u32 i = ((const ranked *)a)->i->id, j = ((const ranked *)b)->i->id;
  return i < j ? -1 : i > j;
}

static void cost_row(repl_cmd *c, repl_json *list, const hlo_instr *i, hlo_cost k) {
  char f[32], b[32];
  if (!c->doc)
    repl_say(c->out, "%14s  %10s  %-16s %s\n", repl_flops(f, k.flops + k.transcendentals),
             repl_bytes(b, k.bytes_read + k.bytes_written), hlo_op_text(i->opcode), i->name);
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", i->name);
  repl_json_num(j, "flops", k.flops);
  repl_json_num(j, "transcendentals", k.transcendentals);
  repl_json_num(j, "bytes", k.bytes_read + k.bytes_written);
}

hs_status cmd_cost(repl_cmd *c) {
  hlo_instr *one = NULL;
  if (repl_arg(c, 0)) HS_TRY(repl_arg_instr(c, 0, &one));
  i64 most = 20;
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 0, INT32_MAX, &most));
  repl_json *list = repl_json_array(c->doc, "instructions");
  if (one) {
    cost_row(c, list, one, hlo_cost_instr(one));
    return HS_GOOD;
  }
  hlo_cost_table t;
  HS_TRY(hlo_cost_module(c->m, &t));
  char f[32], b[32], x[32], y[32];
  if (!c->doc)
    repl_say(c->out, "%s, %s transcendentals, %s moved, %s (estimated)\n",
             repl_flops(f, t.total.flops), repl_count(x, t.total.transcendentals),
             repl_bytes(b, t.total.bytes_read + t.total.bytes_written),
             repl_plural(y, t.kernels, "kernel"));
  say_unknown(c, &t);
  repl_json_num(c->doc, "flops", t.total.flops);
  repl_json_num(c->doc, "transcendentals", t.total.transcendentals);
  repl_json_num(c->doc, "bytes", t.total.bytes_read + t.total.bytes_written);
  repl_json_int(c->doc, "kernels", t.kernels);
  repl_json_int(c->doc, "unknown", t.unknown);
  HS_VEC(ranked) v = {0};
  hlo_for_each_instr(i, c->m->entry) {
    ranked r = {i, i->id < t.n ? t.by_id[i->id] : (hlo_cost){0}};
    if (weight(&r) > 0) hs_vec_push(&v, r);
  }
  if (v.n) qsort(v.v, v.n, sizeof *v.v, by_weight);
  for (size_t k = 0; k < v.n && (i64)k < most; k++) cost_row(c, list, v.v[k].i, v.v[k].cost);
  if (!c->doc && (i64)v.n > most)
    repl_say(c->out, "... %zu more; cost -n %zu shows them\n", v.n - (size_t)most, v.n);
  hs_vec_free(&v);
  hlo_cost_free(&t);
  return HS_GOOD;
}

hs_status cmd_verify(repl_cmd *c) {
  hlo_verify_options o = {.layout_sensitive = repl_flag(c, "--layouts") != NULL};
  char a[32], b[32];
  HS_TRY(hlo_verify(c->m, &o));
  if (!c->doc)
    repl_say(c->out, "valid: %s in %s\n", repl_plural(a, hlo_instr_count(c->m), "instruction"),
             repl_plural(b, c->m->ncomputations, "computation"));
  repl_json_bool(c->doc, "valid", true);
  return HS_GOOD;
}
