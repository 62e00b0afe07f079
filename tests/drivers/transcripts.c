// transcripts.c — our passes against what XLA's did to the same modules. usage: transcripts DIR [--pass NAME] [-j N]
//
// DIR/index.tsv names pairs PASS/NNN.before.hlo, PASS/NNN.after.hlo. Our pass runs on `before`; dead code is dropped on
// both sides, and the result is held against `after` by the rule for that pass:
//   same   equal up to names, order, layouts and annotations — or, failing that, as small:
//   small  no more instructions than XLA's result, and the pass did change the module
//   gone   the operations that the pass is there to expand are gone
// In every case what the module means must not have changed: before and after are evaluated on the same random inputs
// where the evaluator covers the module and the work is bounded.
#include "passes/util.h"
#include "tests/drivers/meaning.h"

typedef enum { SMALL, SAME, GONE } rule;
// Folders whose text to run, or whose rule, is not the folder's own name and SMALL.
static const struct special { const char *folder, *text; rule rule; hlo_opcode gone; } specials[] = {
    {"algsimp", "fix(algsimp)", SMALL, 0},
    {"pipeline.simplification", "simplification", SMALL, 0},
    {"pipeline.post_scatter_expansion_simplification", "simplification", SMALL, 0},
    {"pipeline.simplification_after_layout_assignment", "fix(algsimp{layout_sensitive=true},dce,cse{layout_sensitive=true})", SMALL, 0},
    {"pipeline.all", "cpu", SMALL, 0},
    {"gather_expander", "gather_expander{simple=true}", GONE, 0},
    {"scatter_expander", "scatter_expander{simple=true}", GONE, 0},
    {"select_and_scatter_expander", "select_and_scatter_expander", GONE, HLO_SELECT_AND_SCATTER},
    {"batchnorm_expander", "batchnorm_expander", GONE, 0},
    {"logistic-expander", "logistic-expander", SAME, HLO_LOGISTIC},
    {"dot_decomposer", "dot_decomposer", SAME, 0},
    {"reshape-decomposer", "reshape-decomposer", SAME, 0},
    {"flatten-call-graph", "flatten-call-graph", SAME, 0},
    {"conditional-canonicalizer", "conditional-canonicalizer", SAME, 0},
    {"while-loop-trip-count-annotator", "while-loop-trip-count-annotator", SAME, 0},
    {"tree_reduction_rewriter", "tree_reduction_rewriter", SAME, 0},
    {"float-normalization-bf16", "float-normalization-bf16", SMALL, 0},
};

typedef struct run { drv_table t; const char *dir, *only; hs_arena names; struct tally { const char *pass; u32 passed, total; } tallies[128]; u32 ntallies, passed, total; } run;

static hs_status load(hlo_ctx *ctx, const run *r, u32 k, const char *side, hlo_module **out) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s/%s.%s.hlo", r->dir, drv_cell(&r->t, k, "pass"), drv_cell(&r->t, k, "n"), side);
  return hlo_load_file(ctx, path, NULL, out);
}

static const struct special *special_of(const char *folder) {
  for (size_t k = 0; k < HS_COUNT(specials); k++)
    if (strcmp(specials[k].folder, folder) == 0) return &specials[k];
  return NULL;
}

static hs_status run_text(hlo_module *m, const char *text) {
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  o.measure = false;
  return pipeline_run(m, text, &o, NULL);
}

static u32 count_reachable(hlo_module *m, hlo_opcode op) {
  u32 n = 0;
  hlo_for_each_comp(c, m) hlo_for_each_instr(i, c) n += op == HLO_OP_INVALID || i->opcode == op;
  return n;
}

static void report_opcodes(FILE *out, const hlo_module *a, const hlo_module *b) {
  int diff[HLO_OPCODE_COUNT] = {0};
  hlo_for_each_comp(c, a) hlo_for_each_instr(i, c) diff[i->opcode]++;
  hlo_for_each_comp(c, b) hlo_for_each_instr(i, c) diff[i->opcode]--;
  for (int k = 0; k < HLO_OPCODE_COUNT; k++)
    if (diff[k]) fprintf(out, " %s%+d", hlo_op_text((hlo_opcode)k), diff[k]);
  fputc('\n', out);
}

static int one(void *arg, u32 k, FILE *out) {
  run *r = arg;
  const char *folder = drv_cell(&r->t, k, "pass");
  const struct special *sp = special_of(folder);
  const char *text = sp ? sp->text : folder;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m, *want, *before;
  if (!sp && !pass_find(folder)) return fprintf(out, "no such pass\n"), 1;
  hs_status s = load(ctx, r, k, "before", &m);
  if (!hs_ok(s)) return drv_status(out, "before not read", s), 1;
  s = load(ctx, r, k, "after", &want);
  if (!hs_ok(s)) return drv_status(out, "after not read", s), 1;
  before = hlo_module_clone(m, m->name);
  s = run_text(m, text);
  if (!hs_ok(s)) return drv_status(out, "pass failed", s), 1;
  u64 now = hlo_fingerprint(m), then = hlo_fingerprint(before);
  meaning same = meaning_compare(before, m, out);
  if (same == MEANS_OTHER) return 1;
  s = run_text(m, "dce");
  if (hs_ok(s)) s = run_text(want, "dce");
  if (!hs_ok(s)) return drv_status(out, "dce failed", s), 1;
  hs_arena a = {0};
  if (pass_comp_equal(m->entry, want->entry, false, &a)) return 0;
  u32 ours = count_reachable(m, 0), theirs = count_reachable(want, 0);
  rule kind = sp ? sp->rule : SMALL;
  if (kind == GONE && sp->gone && count_reachable(m, sp->gone) == 0 && same == MEANS_SAME) return 0;
  if (kind == GONE && !sp->gone && ours <= theirs && same == MEANS_SAME) return 0;
  if (kind == SMALL && ours <= theirs && (now != then || hlo_instr_count(before) <= theirs) && (now != then)) return 0;
  fprintf(out, "%u instructions, XLA %u:%s", ours, theirs, now == then ? " (unchanged)" : "");
  report_opcodes(out, m, want);
  return 1;
}

static struct tally *tally_of(run *r, const char *pass) {
  for (u32 k = 0; k < r->ntallies; k++)
    if (strcmp(r->tallies[k].pass, pass) == 0) return &r->tallies[k];
  struct tally *t = &r->tallies[r->ntallies < HS_COUNT(r->tallies) - 1 ? r->ntallies++ : r->ntallies - 1];
  *t = (struct tally){.pass = pass};
  return t;
}

static void done(void *arg, u32 k, int verdict, const char *text) {
  run *r = arg;
  if (verdict == 3) return;
  const char *pass = drv_cell(&r->t, k, "pass");
  struct tally *t = tally_of(r, pass);
  t->total++, r->total++;
  if (verdict == 0) t->passed++, r->passed++;
  else printf("FAIL %s/%s: %s", pass, drv_cell(&r->t, k, "n"), text);
}

static int filtered(void *arg, u32 k, FILE *out) {
  run *r = arg;
  return r->only && strcmp(r->only, drv_cell(&r->t, k, "pass")) != 0 ? 3 : one(arg, k, out);
}

int main(int argc, char **argv) {
  static const char *const options[] = {"pass", NULL};
  drv_args a;
  run r = {0};
  char path[4096];
  bool ok = drv_parse(argc, argv, options, &a) && a.n == 1;
  if (ok) {
    snprintf(path, sizeof path, "%s/index.tsv", a.v[0]);
    ok = drv_table_read(path, &r.t);
  }
  if (!ok) {
    fprintf(stderr, "usage: transcripts DIR [--pass NAME] [-j N]   (DIR holds index.tsv)\n");
    return 2;
  }
  r.dir = a.v[0];
  r.only = drv_option(&a, "pass");
  drv_run(r.t.nrows, a.jobs, 60, filtered, done, &r);
  for (u32 k = 0; k < r.ntallies; k++) printf("%s: %u/%u\n", r.tallies[k].pass, r.tallies[k].passed, r.tallies[k].total);
  printf("transcripts: %u/%u\n", r.passed, r.total);
  return r.passed != r.total;
}
