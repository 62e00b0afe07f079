// runner.c — runs one pass as a transaction.
//
// Everything that concerns all passes is done here: the runner checks the options, skips a pass
// that has nothing to work on, marks the journal, times the pass, restores the topological order of
// edited computations, verifies them, and fills in the totals before and after. When the pass fails
// or leaves an invalid module, its edits are rolled back to the mark and the error names the pass.
//
// "Changed" is what the edit API saw, not what the pass claims: the module's generation increased.
// With verify_all, and in checked builds (HS_CHECKED), the whole module is verified and the hash of
// its text is compared as well: a change that bypassed the edit API is an error of the pass. With
// verify_all an edit that restored the previous text does not count as a change; in checked builds
// alone it does, so that results do not depend on the build.
#include "core/text/text.h"
#include "passes/run/rewrite.h"

hs_status pass_measure(const hlo_module *m, const pass_run_options *o, pass_totals *out) {
  *out = (pass_totals){.instructions = hlo_instr_count(m), .computations = m->ncomputations};
  hlo_cost_table t;
  HS_TRY(hlo_cost_module(m, &t));
  out->kernels = t.kernels;
  out->flops = t.total.flops;
  out->bytes = t.total.bytes_read + t.total.bytes_written;
  hlo_live_plan *plan;
  hlo_memory memory;
  hs_status s = hlo_live_plan_new(m, false, &plan);
  if (hs_ok(s)) s = hlo_live_plan_memory(plan, &memory);
  if (hs_ok(s)) out->peak_bytes = memory.peak_bytes;
  if (hs_ok(s) && o && o->estimate)
    s = o->estimate(o->estimate_arg, m, t.by_id, plan, &out->seconds);
  hlo_live_plan_free(plan);
  hlo_cost_free(&t);
  return s;
}

// Passes append new instructions to the list; this puts operands before users again.
static void sort_edited(hlo_module *m, u64 since) {
  hlo_for_each_comp(c, m)
    if (c->generation > since) hlo_put_in_order(c);
}

// Verifies the computations edited since a generation of the module, or everything.
static hs_status verify_edited(hlo_module *m, u64 since, const pass_run_options *o, hs_arena *a) {
  if (o->verify_all || HS_CHECKED) return hlo_verify(m, NULL);
  const hlo_computation **edited = hs_arena_alloc(a, m->ncomputations * sizeof *edited);
  u32 n = 0;
  hlo_for_each_comp(c, m)
    if (c->generation > since) edited[n++] = c;
  return hlo_verify_computations(m, n, edited, NULL);
}

// Whether the module has none of what the pass works on.
static bool is_idle(const hlo_module *m, const pass_info *p) {
  if (p->needs_dtype && !hlo_ctx_has_dtype(m->ctx, p->needs_dtype)) return true;
  if (p->needs_empty && !hlo_ctx_has_empty(m->ctx)) return true;
  if (!p->needs[0]) return false;
  for (size_t k = 0; k < HS_COUNT(p->needs) && p->needs[k]; k++)
    if (m->nops[p->needs[k]]) return false;
  return true;
}

// Stops and limits are no faults of the pass, and their messages stand alone.
static bool says_why(hs_code c) {
  return c == HS_E_INTERRUPTED || c == HS_E_DEADLINE || c == HS_E_NO_MEMORY || c == HS_E_LIMIT;
}

static hs_status failed(const pass_info *p, hlo_module *m, size_t mark, const char *what,
                        hs_status cause) {
  hlo_journal_rollback(m, mark);
  if (cause.err && says_why(cause.err->code)) return cause;
  return hs_chain(hs_fail_subject(HS_E_PASS, p->name, "pass %s %s", p->name, what), cause);
}

hs_status pass_run(hlo_module *m, const pass_info *p, const pass_options *options,
                   const pass_run_options *o, pass_result *out) {
  HS_ASSERT(!hlo_known_invalid(m));
  *out = (pass_result){.pass = p->name};
  HS_TRY(pass_check_options(p, options));
  if (o->measure) HS_TRY(pass_measure(m, o, &out->before));
  bool idle = is_idle(m, p);
  if (idle && !o->verify_all) {
    out->after = out->before;
    return HS_GOOD;
  }
  hs_arena scratch = {.pool = hlo_ctx_pool(m->ctx)};
  u64 generation = m->generation;
  bool compare_text = o->verify_all || HS_CHECKED;
  u64 hash = compare_text ? hlo_text_hash(m) : 0;
  size_t mark = hlo_journal_mark(m);
  pass_ctx c = {.m = m,
                .since = o->since,
                .cache = o->cache ? o->cache : pass_cache_new(),
                .options = options,
                .scratch = &scratch,
                .notes = o->notes,
                .pass = p,
                .rewrite_limit = o->rewrite_limit};

  u64 start = hs_now_ns();
  hs_status s = p->run(&c);
  if (hs_ok(s) && m->generation != generation) sort_edited(m, generation);
  out->ms = (double)(hs_now_ns() - start) * 1e-6;
  out->rewrites = c.rewrites;
  out->options_read = c.options_read;
  out->changed = m->generation != generation;
  if (!hs_ok(s)) s = failed(p, m, mark, "failed", s);
  else if (c.undeclared)
    s = failed(p, m, mark, "read an option that it does not declare",
               hs_fail_subject(HS_E_INTERNAL, c.undeclared, "option %s", c.undeclared));
  else if (idle && out->changed)
    s = failed(p, m, mark, "found something to do where its descriptor says that there is nothing",
               HS_GOOD);
  else if (compare_text && (hash != hlo_text_hash(m)) != out->changed) {
    if (!out->changed) s = failed(p, m, mark, "changed the module without the edit API", HS_GOOD);
    else if (o->verify_all) out->changed = false;
  }
  if (hs_ok(s) && out->changed && (o->verify || o->verify_all)) {
    s = verify_edited(m, generation, o, &scratch);
    if (!hs_ok(s)) s = failed(p, m, mark, "left an invalid module", s);
  }
  hs_arena_free(&scratch);
  if (o->cache && o->noted) pass_cache_note(c.cache, m, generation, mark);
  if (!o->cache) pass_cache_free(c.cache);
  out->partial = c.partial;
  HS_TRY(s);
  if (o->measure && out->changed) HS_TRY(pass_measure(m, o, &out->after));
  else out->after = out->before;
  return HS_GOOD;
}
