// transcripts.c — our passes against what XLA's did to the same modules.
// usage: transcripts DIR [--pass NAME] [-j N]
//
// DIR/index.tsv names pairs PASS/NNN.before.hlo, PASS/NNN.after.hlo. Our pass runs on `before`;
// dead code is dropped on both sides, and the result is held against `after` by the rule for that
// pass:
//   GRAPH    equal up to names, order and annotations
//   COST     that, or instructions, flops and bytes no higher than XLA's result, and lower than
//            before wherever XLA's are
//   KERNELS  that, or kernels and bytes accessed no higher than XLA's result, and the module did
//            change
// Before the lines of each pass stands a table of its families: those that are held by GRAPH and by
// KERNELS, those of algsimp, reshape-mover and the loops (COST), the other passes of hlosh, and the
// passes that hlosh does not have; a share for each. In every case what the module means must not
// have changed: before and after are evaluated on the same random inputs where the evaluator covers
// the module and the work is bounded. A pass that does nothing fails every rule.
#include "core/text/text.h"
#include "passes/passes.h"
#include "passes/run/rewrite.h"
#include "tests/harness/driver.h"
#include "tests/harness/meaning.h"

typedef enum { COST, GRAPH, KERNELS } rule;
// Folders whose rule is not COST, or whose text to run is not the folder's own name (NULL).
#define XLA_CPU                                              \
  "supports_non_canonical_dots=false;executing_on_cpu=true;" \
  "rewrite_no_op_bitcast_convert_to_bitcast=true"
static const struct special {
  const char *folder;
  rule rule;
  const char *text;
} specials[] = {
    {"algsimp", COST, "fix(algsimp{" XLA_CPU "})"},
    {"pipeline.simplification", KERNELS, "simplification"},
    {"pipeline.post_scatter_expansion_simplification", KERNELS, "simplification"},
    {"pipeline.simplification_after_layout_assignment", KERNELS,
     "fix(algsimp{layout_sensitive=true;" XLA_CPU "},dce,cse{layout_sensitive=true})"},
    {"pipeline.all", KERNELS, "cpu"},
    {"fusion", KERNELS, "fusion{mode=greedy_cpu}"},
    {"gather_expander", GRAPH, "gather_expander{mode=simple}"},
    {"scatter_expander", GRAPH, "scatter_expander{mode=simple}"},
    {"reduce-window-rewriter", GRAPH, "fix(reduce-window-rewriter{base_length=16})"},
    {"dce", GRAPH, NULL},
    {"cse", GRAPH, NULL},
    {"tuple-simplifier", GRAPH, NULL},
    {"call-inliner", GRAPH, NULL},
    {"flatten-call-graph", GRAPH, NULL},
    {"select_and_scatter_expander", GRAPH, NULL},
    {"batchnorm_expander", GRAPH, NULL},
    {"logistic-expander", GRAPH, NULL},
    {"dot_decomposer", GRAPH, NULL},
    {"reshape-decomposer", GRAPH, NULL},
    {"conditional-canonicalizer", GRAPH, NULL},
    {"conditional-to-select", GRAPH, NULL},
    {"while-loop-trip-count-annotator", GRAPH, NULL},
    {"tree_reduction_rewriter", GRAPH, NULL},
    {"gather_simplifier", GRAPH, NULL},
    {"scatter_simplifier", GRAPH, NULL},
    {"fusion-wrapper", GRAPH, NULL},
    {"reduce-decomposer", GRAPH, NULL},
    {"broadcast_canonicalizer", GRAPH, NULL},
    {"dot_dimension_merger", GRAPH, NULL},
    {"map-inline", GRAPH, NULL},
    {"zero_sized_hlo_elimination", GRAPH, NULL},
    {"simplify-sorts", GRAPH, NULL},
    {"cse_barrier_expander", GRAPH, NULL},
};

typedef struct run {
  drv_table t;
  const char *dir, *only;
  hs_arena names;
  struct tally {
    const char *pass;
    u32 passed, total;
  } tallies[128], families[5];
  u32 ntallies, passed, total;
} run;

// ---- families -----------------------------------------------------------------------------------
enum { BY_GRAPH, BY_COST, BY_KERNELS, OF_OURS, NOT_OURS };
static const char *const family_names[] = {
    [BY_GRAPH] = "clean-ups, expanders and canonicalizers (same graph)",
    [BY_COST] = "algsimp, reshape-mover and loops (same graph or no costlier)",
    [BY_KERNELS] = "fusion and pipelines (kernels and bytes)",
    [OF_OURS] = "other passes (same graph or no costlier)",
    [NOT_OURS] = "passes that hlosh does not have"};
static const char *const by_cost[] = {"algsimp", "reshape-mover", "simplify-while-loops",
                                      "while-loop-invariant-code-motion",
                                      "while-loop-constant-sinking"};

static hs_status load(hlo_ctx *ctx, const run *r, u32 k, const char *side, hlo_module **out) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s/%s.%s.hlo", r->dir, drv_cell(&r->t, k, "pass"),
           drv_cell(&r->t, k, "n"), side);
  return hlo_load_file(ctx, path, NULL, out);
}

// What XLA ran: its pipeline after layout assignment keeps layouts.
static const char *text_of(const char *folder, const char *pipeline, const struct special *sp) {
  if (strcmp(folder, "algsimp") == 0 &&
      strcmp(pipeline, "simplification_after_layout_assignment") == 0)
    return "fix(algsimp{layout_sensitive=true;" XLA_CPU "})";
  return sp && sp->text ? sp->text : folder;
}

static const struct special *special_of(const char *folder) {
  for (size_t k = 0; k < HS_COUNT(specials); k++)
    if (strcmp(specials[k].folder, folder) == 0) return &specials[k];
  return NULL;
}

static u32 family_of(const char *folder) {
  const struct special *sp = special_of(folder);
  for (size_t k = 0; k < HS_COUNT(by_cost); k++)
    if (strcmp(by_cost[k], folder) == 0) return BY_COST;
  if (!sp) return pass_find(&pass_builtin, folder) ? OF_OURS : NOT_OURS;
  return sp->rule == GRAPH ? BY_GRAPH : sp->rule == KERNELS ? BY_KERNELS : OF_OURS;
}

static hs_status run_text(hlo_module *m, const char *text) {
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  o.measure = false;
  return pipeline_run(m, text, &o, NULL);
}

static void report_opcodes(FILE *out, const hlo_module *a, const hlo_module *b) {
  int diff[HLO_OPCODE_COUNT] = {0};
  hlo_for_each_comp(c, a)
    hlo_for_each_instr(i, c) diff[i->opcode]++;
  hlo_for_each_comp(c, b)
    hlo_for_each_instr(i, c) diff[i->opcode]--;
  for (int k = 0; k < HLO_OPCODE_COUNT; k++)
    if (diff[k]) fprintf(out, " %s%+d", hlo_op_text((hlo_opcode)k), diff[k]);
  fputc('\n', out);
}

// No more than XLA's, and less than before where XLA's is less.
static bool as_good(double ours, double theirs, double before) {
  return ours <= theirs && (theirs >= before || ours < before);
}

static bool cheap_enough(rule r, const pass_totals *ours, const pass_totals *theirs,
                         const pass_totals *before) {
  switch (r) {
  case GRAPH: return false;
  case COST:
    return as_good(ours->instructions, theirs->instructions, before->instructions) &&
           as_good(ours->flops, theirs->flops, before->flops) &&
           as_good(ours->bytes, theirs->bytes, before->bytes);
  case KERNELS: return ours->kernels <= theirs->kernels && ours->bytes <= theirs->bytes;
  }
  return false;
}

static int one(void *arg, u32 k, FILE *out) {
  run *r = arg;
  const char *folder = drv_cell(&r->t, k, "pass");
  const struct special *sp = special_of(folder);
  const char *text = text_of(folder, drv_cell(&r->t, k, "pipeline"), sp);
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m, *want, *before;
  if (!sp && !pass_find(&pass_builtin, folder)) return fprintf(out, "no such pass\n"), 1;
  hs_status s = load(ctx, r, k, "before", &m);
  if (!hs_ok(s)) return drv_status(out, "before not read", s), 1;
  s = load(ctx, r, k, "after", &want);
  if (!hs_ok(s)) return drv_status(out, "after not read", s), 1;
  before = hlo_module_clone(m, m->name);
  s = run_text(m, text);
  if (!hs_ok(s)) return drv_status(out, "pass failed", s), 1;
  u64 now = hlo_fingerprint(m), then = hlo_fingerprint(before);
  meaning same = meaning_compare(before, m, text, out);
  if (same == MEANS_OTHER) return 1;
  s = run_text(m, "dce");
  if (hs_ok(s)) s = run_text(want, "dce");
  if (!hs_ok(s)) return drv_status(out, "dce failed", s), 1;
  hs_arena a = {0};
  if (pass_comp_equal(m->entry, want->entry, false, &a)) return 0;
  pass_totals ours, theirs, start;
  s = pass_measure(m, NULL, &ours);
  if (hs_ok(s)) s = pass_measure(want, NULL, &theirs);
  if (hs_ok(s)) s = pass_measure(before, NULL, &start);
  if (!hs_ok(s)) return drv_status(out, "cost", s), 1;
  if (now != then && cheap_enough(sp ? sp->rule : COST, &ours, &theirs, &start)) return 0;
  fprintf(
      out,
      "ours / XLA / before: %u / %u / %u instructions, %u / %u / %u kernels, %g / %g / %g flops, "
      "%g / %g / %g bytes%s:",
      ours.instructions, theirs.instructions, start.instructions, ours.kernels, theirs.kernels,
      start.kernels, ours.flops, theirs.flops, start.flops, ours.bytes, theirs.bytes, start.bytes,
      now == then ? " (unchanged)" : "");
  report_opcodes(out, m, want);
  return 1;
}

static struct tally *tally_of(run *r, const char *pass) {
  for (u32 k = 0; k < r->ntallies; k++)
    if (strcmp(r->tallies[k].pass, pass) == 0) return &r->tallies[k];
  struct tally *t =
      &r->tallies[r->ntallies < HS_COUNT(r->tallies) - 1 ? r->ntallies++ : r->ntallies - 1];
  *t = (struct tally){.pass = pass};
  return t;
}

static void done(void *arg, u32 k, drv_result *result) {
  run *r = arg;
  if (result->verdict == 3) return;
  const char *pass = drv_cell(&r->t, k, "pass");
  struct tally *t = tally_of(r, pass);
  struct tally *f = &r->families[family_of(pass)];
  t->total++, f->total++, r->total++;
  if (result->verdict == 0) t->passed++, f->passed++, r->passed++;
  else printf("FAIL %s/%s: %s\n", pass, drv_cell(&r->t, k, "n"), drv_reason(result));
}

static int filtered(void *arg, u32 k, FILE *out) {
  run *r = arg;
  return r->only && strcmp(r->only, drv_cell(&r->t, k, "pass")) != 0 ? 3 : one(arg, k, out);
}

int main(int argc, char **argv) {
  drv_args a;
  run r = {0};
  if (!drv_open_cases(argc, argv, "transcripts", &a, &r.t)) return 2;
  r.dir = a.v[0];
  r.only = drv_option(&a, "pass");
  drv_run(r.t.nrows, a.jobs, 60, filtered, done, &r);
  for (u32 k = 0; k < HS_COUNT(r.families); k++) {
    const struct tally *f = &r.families[k];
    if (f->total)
      printf("%-62s %4u/%-4u %5.1f %%\n", family_names[k], f->passed, f->total,
             100.0 * f->passed / f->total);
  }
  for (u32 k = 0; k < r.ntallies; k++)
    printf("%s: %u/%u\n", r.tallies[k].pass, r.tallies[k].passed, r.tallies[k].total);
  printf("transcripts: %u/%u\n", r.passed, r.total);
  return r.passed != r.total;
}
