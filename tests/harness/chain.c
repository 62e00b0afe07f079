// chain.c — see chain.h. What does not verify goes no further: that it is refused is tested
// elsewhere. Errors that state a limit (unsupported, too large, too long) end a step, not the case;
// every other error of what works on a valid module is a fault.
//
// Results that rounding decides (a comparison of nearly equal numbers, a sum that cancels) differ
// between two right ways to compute them. Such a module is known by itself: evaluated on inputs
// that differ in their last places it gives another result, beyond the tolerance. It is
// counted, not reported. So is one that sorts by what is no order (order.h).
#include "core/analysis/agree.h"
#include "core/proto/proto.h"
#include "core/text/text.h"
#include "passes/passes.h"
#include "profiler/prof.h"
#include "tests/harness/chain.h"
#include "tests/harness/checks.h"
#include "tests/harness/meaning.h"
#include "tests/harness/mutate.h"
#include "tests/harness/nudge.h"
#include "tests/harness/order.h"
#include "viz/viz.h"

#include <stdio.h>

// What a case may evaluate, in operations and, as loops may have no end, in seconds: the
// interesting part is which, not how many.
#define CHAIN_WORK 3e6
#define CHAIN_EVALUATION 0.5
enum { CHAIN_INSTRUCTIONS = 400, CHAIN_SECONDS = 30 };

void chain_add(chain_counts *sum, const chain_counts *n) {
  sum->read += n->read, sum->valid += n->valid, sum->evaluated += n->evaluated;
  sum->ran += n->ran, sum->refused += n->refused, sum->unsettled += n->unsettled;
  sum->passes += n->passes, sum->changed += n->changed, sum->compared += n->compared;
  sum->declined += n->declined;
}
void chain_say(const chain_counts *n) {
  printf("%llu read, %llu of them valid, %llu evaluated; on cpu %llu compared, %llu declined; %llu "
         "runs of passes and pipelines, %llu changed their module, %llu compared, %llu declined; "
         "%llu results that rounding decides\n",
         (unsigned long long)n->read, (unsigned long long)n->valid,
         (unsigned long long)n->evaluated, (unsigned long long)n->ran,
         (unsigned long long)n->refused, (unsigned long long)n->passes,
         (unsigned long long)n->changed, (unsigned long long)n->compared,
         (unsigned long long)n->declined, (unsigned long long)n->unsettled);
}

void chain_open(chain *c) { c->backends = backend_context_new(); }
void chain_close(chain *c) { backend_context_free(c->backends); }

// One module on its way.
typedef struct way {
  chain *c;
  hlo_module *m;
  meaning_of meaning;
  chain_counts *n;
  hs_buf *why;
} way;

static void step(const way *w, const char *what) {
  if (w->c->step) w->c->step(w->c->arg, what);
}

// A limit or a stop, stated by any part of the error.
static bool stated_limit(hs_status s) {
  for (const hs_diag *d = s.err; d; d = d->next)
    if (d->code == HS_E_UNSUPPORTED || d->code == HS_E_LIMIT || d->code == HS_E_NO_MEMORY ||
        d->code == HS_E_INTERRUPTED || d->code == HS_E_DEADLINE || d->code == HS_E_NOT_BUILT ||
        d->code == HS_E_ELIDED)
      return true;
  return false;
}
static void say(way *w, const char *what, hs_status s) {
  hs_buf_printf(w->why, "%s", what);
  for (const hs_diag *d = s.err; d; d = d->next) hs_buf_printf(w->why, ": %s", d->message);
  hs_status_drop(s);
}
// Drops the status; false when it is a fault.
static bool fine(way *w, const char *what, hs_status s) {
  if (!hs_ok(s) && !stated_limit(s)) return say(w, what, s), false;
  return hs_status_drop(s), true;
}

// ---- is the result decided by rounding? ---------------------------------------------------------
// rng names no generator: each way to run it draws numbers of its own.
static bool draws(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_RNG) return true;
  return false;
}

// Does m, on these arguments, give another result than the module?
static bool differs(const meaning_side *side, hlo_literal **args, const hlo_module *m) {
  hlo_literal *y = NULL;
  meaning_side near = {.m = side->m, .args = args, .nargs = side->nargs, .seconds = side->seconds};
  hs_status s = meaning_value(&near, m, &y);
  bool moved = false;
  if (hs_ok(s)) {
    s = hlo_agree(side->m->entry->root, side->value, y, hlo_near(1e-4, 1e-3));
    moved = !hs_ok(s);
  }
  hs_status_drop(s);
  hlo_literal_unref(y);
  return moved;
}

static bool unsettled(way *w, const hlo_module *other) {
  const meaning_side *side = &w->meaning.narrow;
  if (draws(side->m) || sorts_without_order(side->m, side->nargs, side->args)) return true;
  bool moved = false;
  u64 state = 11;
  double by = 1e-7;
  for (u32 round = 0; round < 8 && !moved; round++) {
    by *= round % 2 ? 1 : 3;
    hlo_literal **args = hs_calloc(side->nargs + 1u, sizeof *args);
    for (u32 k = 0; k < side->nargs; k++) args[k] = nudge_literal(side->args[k], by, &state);
    moved = differs(side, args, round % 2 && other ? other : side->m);
    for (u32 k = 0; k < side->nargs; k++) hlo_literal_unref(args[k]);
    hs_free(args);
    hlo_module *inside = moved ? NULL : nudge_module(side->m, by, &state);
    if (inside) moved = differs(side, side->args, inside);
    hlo_module_free(inside);
  }
  return moved;
}

// ---- steps --------------------------------------------------------------------------------------
static bool estimates(way *w) {
  hlo_cost_table t = {0};
  hlo_memory memory;
  prof_estimate e;
  step(w, "cost");
  hs_status s = hlo_cost_module(w->m, &t);
  if (hs_ok(s)) hlo_cost_free(&t);
  if (!fine(w, "cost", s)) return false;
  (void)hlo_cost_xla(w->m);
  step(w, "memory");
  for (u32 k = 0; k < 2; k++)
    if (!fine(w, "memory", hlo_memory_estimate(w->m, k, &memory))) return false;
  step(w, "estimate");
  for (u32 k = 0; k < 2; k++)
    if (!fine(w, "estimate", prof_estimate_module(w->m, &prof_devices[0], k, &e))) return false;
  return true;
}

static bool pictures(way *w) {
  step(w, "plot");
  hs_buf b = {0};
  char *note = NULL;
  const viz_options all = {.show_fusions = true, .show_layouts = true, .show_metadata = true},
                    root = {.center = w->m->entry->root, .width = 2};
  bool ok = fine(w, "plot", viz_dot(w->m, &all, &b, &note));
  hs_free(note);
  note = NULL;
  if (ok) ok = fine(w, "plot", viz_dot(w->m, &root, &b, &note));
  hs_free(note);
  if (ok) ok = fine(w, "show", viz_terminal(w->m, &root, true, &b));
  hs_buf_free(&b);
  return ok;
}

static hs_status on_cpu(void *arg, const meaning_side *x, const hlo_module *m, hlo_literal **out) {
  const backend_options o = {
      .context = ((chain *)arg)->backends, .threads = 1, .deadline_s = CHAIN_SECONDS};
  return backend_run_once(backend_find("cpu"), m, &o, x->nargs, x->args, out);
}

static bool differential(way *w) {
  const backend *cpu = backend_find("cpu");
  if (!cpu || !w->meaning.narrow.value) return true;
  hs_status why = cpu->probe();
  if (!hs_ok(why)) return hs_status_drop(why), true;
  step(w, "cpu");
  meaning r = meaning_still_by(&w->meaning, w->m, "", on_cpu, w->c, &why);
  w->n->ran += r != NOT_EVALUATED;
  w->n->refused += r == NOT_EVALUATED;
  if (r != MEANS_OTHER) return hs_status_drop(why), true;
  if (stated_limit(why)) return w->n->refused++, hs_status_drop(why), true;
  if (why.err->code == HS_E_DIFFER && unsettled(w, NULL))
    return w->n->unsettled++, hs_status_drop(why), true;
  return say(w, "cpu is not interp", why), false;
}

static bool pass(way *w, const char *text) {
  step(w, text);
  w->n->passes++;
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  o.measure = false;
  hlo_module *m = hlo_module_clone(w->m, w->m->name);
  u64 generation = m->generation;
  hs_status s = pipeline_run(m, text, &o, NULL);
  bool ok = true;
  if (!hs_ok(s)) {
    w->n->declined++;
    ok = fine(w, text, s);
  } else if (m->generation != generation) {
    w->n->changed++;
    hs_status why = HS_GOOD;
    meaning r = w->meaning.narrow.value ? meaning_still(&w->meaning, m, text, &why) : NOT_EVALUATED;
    w->n->compared += r != NOT_EVALUATED;
    if (r == MEANS_OTHER && !stated_limit(why)) {
      if (why.err->code == HS_E_DIFFER && unsettled(w, m)) w->n->unsettled++;
      else hs_buf_printf(w->why, "%s: ", text), say(w, "means something else", why), ok = false;
      if (ok) hs_status_drop(why);
    } else {
      hs_status_drop(why);
    }
  }
  hlo_module_free(m);
  return ok;
}

static bool passes(way *w, u64 number) {
  const pass_registry *r = &pass_builtin;
  u64 state = number;
  for (u32 k = 0; k < (w->c->passes ? w->c->passes : r->npasses); k++) {
    u32 p = w->c->passes ? (u32)mutate_below(&state, r->npasses) : k;
    if (!pass(w, r->passes[p]->name)) return false;
  }
  return pass(w, "cpu") && pass(w, "tuned");
}

// Inputs and constants cost their bytes before anything is evaluated.
static bool small(const hlo_module *m) {
  i64 bytes = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) bytes = hs_add_sat_i64(bytes, hlo_shape_bytes(i->shape));
  return bytes <= 1 << 25;
}

static u32 instructions(const hlo_module *m) {
  u32 n = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) n += i != NULL;
  return n;
}

bool chain_check(chain *c, const char *bytes, size_t n, u64 number, chain_counts *counts,
                 hs_buf *why) {
  way w = {.c = c, .n = counts, .why = why};
  check_counts read = {0};
  bool proto = hlo_is_proto(bytes, n),
       ok = proto ? check_proto(bytes, n, &read, why) : check_text(bytes, n, &read, why);
  counts->read += read.read, counts->valid += read.valid;
  if (!ok || !read.valid) return ok;
  hlo_ctx *ctx = hlo_ctx_new();
  hs_status s =
      proto ? hlo_proto_read(ctx, bytes, n, "chain", &w.m) : hlo_parse(ctx, bytes, n, NULL, &w.m);
  if (hs_ok(s) && instructions(w.m) <= CHAIN_INSTRUCTIONS) {
    ok = estimates(&w) && pictures(&w);
    if (ok) {
      step(&w, "evaluating");
      meaning_open(&w.meaning, w.m, NULL, small(w.m) ? CHAIN_WORK : -1, CHAIN_EVALUATION);
      counts->evaluated += w.meaning.narrow.value != NULL;
      ok = differential(&w) && passes(&w, number);
      meaning_close(&w.meaning);
    }
  }
  hs_status_drop(s);
  hlo_module_free(w.m);
  hlo_ctx_free(ctx);
  return ok;
}
