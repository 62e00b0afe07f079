// Unit tests of the passes, the runner and the pipelines, the costs and the memory estimate.
//
// tests/hlo/passes/ROOM/*.hlo, with the rooms of passes/, carry what to
// run and what must hold in leading comments:
//   run: PIPELINE TEXT            gone: OPCODE (none left)        has: OPCODE <=|>= N
//   entry: OPCODE (in the entry)  state: N (elements of the loop)
//   operands: OPCODE N            computations: N            text: PART OF THE PRINTED MODULE
// Each module is verified after every pass, must have changed, and must evaluate to what it did
// before.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/eval/eval.h"
#include "tests/unit/modules.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

static u32 count(const hlo_module *m, const char *opcode) {
  u32 n = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) n += strcmp(hlo_op_text(i->opcode), opcode) == 0;
  return n;
}

// ---- the data-driven cases ----------------------------------------------------------------------
static const hlo_instr *first(const hlo_module *m, const char *opcode) {
  hlo_for_each_instr(i, m->entry)
    if (strcmp(hlo_op_text(i->opcode), opcode) == 0) return i;
  return NULL;
}

static bool holds(const hlo_module *m, const char *key, const char *rest) {
  char word[64] = "", relation[8] = "";
  int n = 0;
  if (strcmp(key, "gone") == 0) return sscanf(rest, "%63s", word) == 1 && count(m, word) == 0;
  if (strcmp(key, "has") == 0)
    return sscanf(rest, "%63s %7s %d", word, relation, &n) == 3 &&
           (relation[0] == '<' ? (int)count(m, word) <= n : (int)count(m, word) >= n);
  if (strcmp(key, "entry") == 0) return sscanf(rest, "%63s", word) == 1 && first(m, word);
  if (strcmp(key, "state") == 0)
    return first(m, "while") && (int)first(m, "while")->shape->nelems == atoi(rest);
  if (strcmp(key, "operands") == 0)
    return sscanf(rest, "%63s %d", word, &n) == 2 && first(m, word) &&
           (int)first(m, word)->noperands == n;
  if (strcmp(key, "computations") == 0) return (int)m->ncomputations == atoi(rest);
  return strcmp(key, "text") == 0 && says(m, rest);
}

static void same_value(const hlo_module *before, const hlo_module *after) {
  hlo_literal **args, *x, *y;
  u32 n;
  assert_true(hs_ok(hlo_inputs_random(ctx, before, 3, &args, &n)));
  assert_true(hs_ok(hlo_eval_module(before, n, args, NULL, &x)));
  hs_status s = hlo_eval_module(after, n, args, NULL, &y);
  if (hs_ok(s)) s = hlo_compare(x, y, hlo_near(1e-5, 1e-4));
  if (!hs_ok(s)) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  hlo_literal_unref(x);
  hlo_literal_unref(y);
  hlo_inputs_free(args, n);
}

static void one_file(const char *path) {
  hlo_module *m;
  hs_status s = hlo_load_file(ctx, path, NULL, &m);
  if (!hs_ok(s)) print_error("%s: %s\n", path, s.err->message);
  assert_true(hs_ok(s));
  hlo_module *before = hlo_module_clone(m, m->name);
  FILE *f = fopen(path, "r");
  char line[512], key[32], rest[400], run[400] = "";
  u32 expectations = 0;
  while (fgets(line, sizeof line, f) && sscanf(line, "// %31[a-z]: %399[^\n]", key, rest) == 2) {
    if (strcmp(key, "run") == 0) {
      snprintf(run, sizeof run, "%s", rest);
      u64 hash = hlo_text_hash(m);
      run_verified(m, run);
      if (hash == hlo_text_hash(m)) print_error("%s: unchanged\n", path);
      assert_true(hash != hlo_text_hash(m));
      same_value(before, m);
      continue;
    }
    if (!holds(m, key, rest)) print_error("%s: %s: %s does not hold\n", path, key, rest);
    assert_true(holds(m, key, rest));
    expectations++;
  }
  fclose(f);
  assert_true(run[0] && expectations);
  hlo_module_free(m);
  hlo_module_free(before);
}

static void data_cases(void **state) {
  (void)state;
  glob_t files;
  assert_int_equal(glob("tests/hlo/passes/*/*.hlo", 0, NULL, &files), 0);
  for (size_t k = 0; k < files.gl_pathc; k++) one_file(files.gl_pathv[k]);
  assert_true(files.gl_pathc >= 80);
  globfree(&files);
}

// ---- numbers near the limit of 64 bits ----------------------------------------------------------
// Strides and steps whose product does not fit. A rewrite that would need it is left undone; only
// one whose result multiplies in the same type may count on it wrapping around.
static void numbers_near_the_limit(void **state) {
  (void)state;
  static const struct {
    const char *text;
    hlo_opcode stays;
  } cases[] = {{"HloModule strides\nENTRY e {\n  x = f32[9] parameter(0)\n"
                "  s = f32[2] slice(x), slice={[1:9:4]}\n"
                "  t = f32[1] slice(s), slice={[0:2:4611686018427387904]}\n"
                "  ROOT r = f32[1] negate(t)\n}\n",
                HLO_SLICE},
               {"HloModule steps\nENTRY e {\n  at = s32[] parameter(0)\n"
                "  c = s64[3] constant({0, 6917529027641081856, -4611686018427387904})\n"
                "  ROOT r = s64[1] dynamic-slice(c, at), dynamic_slice_sizes={1}\n}\n",
                HLO_MULTIPLY}};
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hlo_module *m = parse(cases[k].text);
    pass_run_options o = pass_run_default();
    o.verify_all = true;
    expect_good(pipeline_run(m, "fix(algsimp)", &o, NULL), m->name);
    assert_true(m->nops[cases[k].stays] > 0);
    hlo_module_free(m);
  }
}

// ---- the runner ---------------------------------------------------------------------------------
static const char small[] =
    "HloModule small\nENTRY main {\n  a = f32[4] parameter(0)\n  b = f32[4] negate(a)\n"
    "  ROOT c = f32[4] add(b, b)\n}\n";

static hs_status fails_half_way(pass_ctx *c) {
  hlo_replace(c->m->entry->root, hlo_operand(c->m->entry->root, 0));
  return hs_fail(HS_E_INTERNAL, "on purpose");
}

static hs_status leaves_rubbish(pass_ctx *c) {
  hlo_set_shape(c->m->entry->root, hlo_shape_scalar(c->m->ctx, HLO_F32));
  return HS_GOOD;
}

static void rolled_back(void **state) {
  (void)state;
  static const pass_info bad[] = {{.name = "half-way", .run = fails_half_way},
                                  {.name = "rubbish", .run = leaves_rubbish}};
  for (int k = 0; k < 2; k++) {
    hlo_module *m = parse(small);
    u64 hash = hlo_text_hash(m);
    pass_run_options o = pass_run_default();
    pass_result r;
    hs_status s = pass_run(m, &bad[k], NULL, &o, &r);
    assert_false(hs_ok(s));
    assert_int_equal(s.err->code, HS_E_PASS);
    assert_string_equal(s.err->subject, bad[k].name);
    assert_non_null(s.err->next);
    hs_status_drop(s);
    assert_true(hlo_text_hash(m) == hash);
    assert_true(hs_ok(hlo_verify(m, NULL)));
    hlo_module_free(m);
  }
}

static void changes_are_seen(void **state) {
  (void)state;
  hlo_module *m =
      parse("HloModule m\nENTRY main {\n  a = f32[4] parameter(0)\n  b = f32[4] negate(a)\n"
            "  ROOT c = f32[4] add(a, a)\n}\n");
  pass_run_options o = pass_run_default();
  pass_result r;
  assert_true(hs_ok(pass_run(m, pass_find(&pass_builtin, "dce"), NULL, &o, &r)));
  assert_true(r.changed);
  assert_int_equal(r.before.instructions, 3);
  assert_int_equal(r.after.instructions, 2);
  assert_int_equal(r.rewrites, 1);
  assert_true(hs_ok(pass_run(m, pass_find(&pass_builtin, "dce"), NULL, &o, &r)));
  assert_false(r.changed);
  hlo_module_free(m);
}

// An edit that bypasses the edit API.
static hs_status edits_behind_the_api(pass_ctx *c) {
  c->m->entry->root->name = "renamed";
  return HS_GOOD;
}

static void unreported_changes(void **state) {
  (void)state;
  static const pass_info bad = {.name = "silent", .run = edits_behind_the_api};
  hlo_module *m = parse(small);
  pass_run_options o = pass_run_default();
  o.verify_all = true;
  pass_result r;
  hs_status s = pass_run(m, &bad, NULL, &o, &r);
  assert_true(!hs_ok(s) && s.err->code == HS_E_PASS);
  hs_status_drop(s);
  m->entry->root->name = "r";
  o.verify_all = false;
  s = pass_run(m, &bad, NULL, &o, &r);  // checked builds compare the text in any case
  assert_int_equal(hs_ok(s), !HS_CHECKED);
  hs_status_drop(s);
  hlo_module_free(m);
}

static void rewrite_limit(void **state) {
  (void)state;
  hlo_module *m =
      parse("HloModule m\nENTRY main {\n  a = f32[4] parameter(0)\n  b = f32[4] negate(a)\n"
            "  c = f32[4] cosine(a)\n  ROOT d = f32[4] add(a, a)\n}\n");
  pass_run_options o = pass_run_default();
  o.rewrite_limit = 1;
  pass_result r;
  assert_true(hs_ok(pass_run(m, pass_find(&pass_builtin, "dce"), NULL, &o, &r)));
  assert_int_equal(hlo_instr_count(m), 3);
  hlo_module_free(m);
}

static void names(void **state) {
  (void)state;
  assert_ptr_equal(pass_find(&pass_builtin, "constant-folding"),
                   pass_find(&pass_builtin, "constant_folding"));
  assert_null(pass_find(&pass_builtin, "no-such-pass"));
  static const struct {
    const char *name, *note;
  } unknown[] = {{"tuple-simplifer", "did you mean 'tuple-simplifier'?"},
                 {"simplify", "'simplify-while-loops', 'simplify-conditional', 'simplify-sorts' or "
                              "'simplify-fp-conversions'?"},
                 {"fold-constants", "did you mean 'constant_folding'"},
                 {"simplication", "did you mean 'simplification'?"},  // a pipeline
                 {"zzzzzzz", "passes lists them all"}};
  for (size_t k = 0; k < HS_COUNT(unknown); k++) {
    hs_status s = pass_unknown(&pass_builtin, NULL, unknown[k].name);
    assert_int_equal(s.err->code, HS_E_NO_PASS);
    assert_non_null(strstr(s.err->note, unknown[k].note));
    hs_status_drop(s);
  }
  for (u32 k = 0; k < pass_builtin.npasses; k++)
    for (u32 j = 0; j < k; j++)
      assert_string_not_equal(pass_builtin.passes[k]->name, pass_builtin.passes[j]->name);
}

static hs_status parses(const char *text, u32 *n) {
  pipeline_program *p;
  HS_TRY(pipeline_parse(text, &pass_builtin, NULL, &p));
  *n = p->npasses;
  pipeline_free(p);
  return HS_GOOD;
}

static void pipelines(void **state) {
  (void)state;
  u32 n;
  pipeline_program *p;
  assert_true(hs_ok(pipeline_parse("dce, fix(cse{layout_sensitive=true}, dce), no-such-pass?",
                                   &pass_builtin, NULL, &p)));
  assert_int_equal(p->npasses, 3);
  assert_string_equal(p->ops.v[2].text, "cse{layout_sensitive=true}");
  pipeline_free(p);
  for (u32 k = 0; k < pass_builtin.npipelines; k++)
    assert_true(hs_ok(parses(pass_builtin.pipelines[k].name, &n)));
  static const char *const bad[] = {"dce, no-such-pass", "fix(dce", "dce)",
                                    "dce{use_call_analysis=1", "dce,,{}"};
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    hs_status s = parses(bad[k], &n);
    assert_false(hs_ok(s));
    hs_status_drop(s);
  }
  // Named pipelines may name only passes that exist.
  for (u32 k = 0; k < pass_builtin.npipelines; k++)
    assert_null(strchr(pass_builtin.pipelines[k].text, '?'));
}

// Options are checked before anything runs: names (with the nearest), types, words, and that each
// is given once.
static void pipeline_options(void **state) {
  (void)state;
  static const struct {
    const char *text, *message, *note;
  } bad[] = {
      {"dce{x=1}", "pass dce has no option 'x'",
       "its options are use_call_analysis, remove_cross_partition_collective_ops"},
      {"fix(dce{use_call_analyses=true})", "pass dce has no option 'use_call_analyses'",
       "did you mean 'use_call_analysis'?"},
      {"map-inline{x}", "pass map-inline has no option 'x'", "it takes none"},
      {"dce{use_call_analysis=maybe}", "use_call_analysis is true or false, not 'maybe'", NULL},
      {"dce{use_call_analysis=}", "use_call_analysis is true or false, not ''", NULL},
      {"tree_reduction_rewriter{reduce_window_size=3x}",
       "reduce_window_size is a whole number, not '3x'", NULL},
      {"tree_reduction_rewriter{reduce_window_size=99999999999999999999}",
       "reduce_window_size is a whole number", NULL},
      {"gather_expander{mode=some}", "mode is one of simple|all, not 'some'", NULL},
      {"dce{use_call_analysis; use-call-analysis=false}", "use_call_analysis is given twice", NULL},
      {"cpu{x=1}", "pipeline cpu takes no options", NULL},
  };
  for (size_t k = 0; k < HS_COUNT(bad); k++) {
    u32 n;
    hs_status s = parses(bad[k].text, &n);
    if (hs_ok(s)) fail_msg("%s was taken", bad[k].text);
    hs_buf b = {0};
    hs_status_render(s, &b, false);
    if (!strstr(hs_buf_cstr(&b), bad[k].message) ||
        (bad[k].note && !strstr(hs_buf_cstr(&b), bad[k].note)))
      fail_msg("%s: %s", bad[k].text, hs_buf_cstr(&b));
    hs_buf_free(&b);
    hs_status_drop(s);
  }
  static const char *const good[] = {"dce{use_call_analysis}", "dce{ use-call-analysis = 0 }",
                                     "tree-reduction-rewriter{reduce_window_size=-1}",
                                     "scatter_expander{mode=indeterminate}"};
  for (size_t k = 0; k < HS_COUNT(good); k++) {
    u32 n;
    assert_true(hs_ok(parses(good[k], &n)));
  }
}

static void dead_collectives(void **state) {
  (void)state;
  static const char text[] = "HloModule m\n"
                             "sum {\n"
                             "  p = f32[] parameter(0)\n"
                             "  q = f32[] parameter(1)\n"
                             "  ROOT s = f32[] add(p, q)\n"
                             "}\n"
                             "body {\n"
                             "  x = f32[3] parameter(0)\n"
                             "  ROOT r = f32[3] all-reduce(x), channel_id=2, replica_groups={{0}}, "
                             "use_global_device_ids=true, to_apply=sum\n"
                             "}\n"
                             "cond {\n"
                             "  x = f32[3] parameter(0)\n"
                             "  ROOT no = pred[] constant(false)\n"
                             "}\n"
                             "ENTRY e {\n"
                             "  a = f32[3] parameter(0)\n"
                             "  unread = f32[3] all-reduce(a), channel_id=1, replica_groups={{0}}, "
                             "use_global_device_ids=true, to_apply=sum\n"
                             "  w = f32[3] while(a), body=body, condition=cond\n"
                             "  ROOT r = f32[3] negate(a)\n"
                             "}\n";
  hlo_module *m = parse(text);
  run_verified(m, "dce");
  assert_int_equal(count(m, "all-reduce"), 2);
  run_verified(m, "dce{remove_cross_partition_collective_ops=true}");
  assert_int_equal(count(m, "all-reduce"), 0);
  assert_int_equal(count(m, "while"), 0);
  hlo_module_free(m);
}

// XLA's frontend attribute decides for instructions that would stay, or go.
static void dead_marked(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "ENTRY e {\n"
      "  a = f32[3] parameter(0)\n"
      "  kept = f32[3] sine(a), frontend_attributes={xla_allow_dce_side_effecting_op=\"false\"}\n"
      "  unread = f32[3] custom-call(a), custom_call_target=\"tpu_custom_call\", "
      "custom_call_has_side_effect=true, "
      "frontend_attributes={xla_allow_dce_side_effecting_op=\"true\"}\n"
      "  other = f32[3] custom-call(a), custom_call_target=\"other\", "
      "custom_call_has_side_effect=true, "
      "frontend_attributes={xla_allow_dce_side_effecting_op=\"true\"}\n"
      "  plain = f32[3] cosine(a)\n"
      "  ROOT r = f32[3] negate(a)\n"
      "}\n";
  hlo_module *m = parse(text);
  run_verified(m, "dce");
  assert_int_equal(count(m, "sine"), 1);
  assert_int_equal(count(m, "custom-call"), 1);
  assert_int_equal(count(m, "cosine"), 0);
  hlo_module_free(m);
}

// Elements that only instructions with control edges read go, with those; the size that
// set-dimension-size gives stays.
static void left_alone(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "cond {\n  s = (s32[], f32[3], f32[3]) parameter(0)\n  i = s32[] get-tuple-element(s), "
      "index=0\n  n = s32[] constant(5)\n"
      "  ROOT lt = pred[] compare(i, n), direction=LT\n}\n"
      "body {\n  s = (s32[], f32[3], f32[3]) parameter(0)\n  i = s32[] get-tuple-element(s), "
      "index=0\n  one = s32[] constant(1)\n  next = s32[] add(i, one)\n"
      "  x = f32[3] get-tuple-element(s), index=1\n  unread = f32[3] get-tuple-element(s), "
      "index=2\n  y = f32[3] negate(unread)\n"
      "  ROOT t = (s32[], f32[3], f32[3]) tuple(next, x, y), control-predecessors={y}\n}\n"
      "ENTRY e {\n  a = f32[3] parameter(0)\n  z = s32[] constant(0)\n"
      "  t = (s32[], f32[3], f32[3]) tuple(z, a, a)\n"
      "  w = (s32[], f32[3], f32[3]) while(t), condition=cond, body=body\n"
      "  x = f32[3] get-tuple-element(w), index=1\n  n = s32[] constant(2)\n"
      "  cut = f32[3] set-dimension-size(x, n), dimensions={0}\n"
      "  ROOT size = s32[] get-dimension-size(cut), dimensions={0}\n}\n";
  hlo_module *m = parse(text);
  run_verified(m, "simplify-while-loops");
  assert_int_equal(count(m, "negate"), 0);
  run_verified(m, "constant_folding");
  assert_int_equal(count(m, "get-dimension-size"), 1);
  hlo_module_free(m);
}

// A user's pipeline may name others, but not itself.
static void own_pipelines(void **state) {
  (void)state;
  u32 n;
  pass_pipelines own = {0};
  pass_pipeline a = {"mine", "", "dce, fix(cse, yours)"}, b = {"yours", "", "algsimp"},
                loop = {"loop", "", "dce, loop"};
  hs_vec_push(&own, a);
  hs_vec_push(&own, b);
  hs_vec_push(&own, loop);
  pipeline_program *p;
  assert_true(hs_ok(pipeline_parse("mine, dce", &pass_builtin, &own, &p)));
  n = p->npasses;
  assert_int_equal(n, 4);
  assert_string_equal(p->ops.v[3].pipeline, "yours");
  // What stands behind each, by the names that XLA's dumps have.
  static const struct {
    const char *pass, *before;
    bool first;
  } listed[] = {{"dce", "cse", true},
                {"cse", "yours", false},
                {"algsimp", "pipeline-end", true},
                {"dce", "pipeline-end", false}};
  for (size_t k = 0, j = 0; k < p->ops.n; k++) {
    const pipeline_op *op = &p->ops.v[k];
    if (op->kind != PIPELINE_PASS) continue;
    assert_string_equal(op->pass->name, listed[j].pass);
    assert_string_equal(op->before, listed[j].before);
    assert_int_equal(op->first, listed[j].first);
    assert_int_equal(op->number, ++j);
  }
  pipeline_free(p);
  hs_status s = pipeline_parse("loop", &pass_builtin, &own, &p);
  assert_false(hs_ok(s));
  assert_non_null(strstr(s.err->message, "does it name itself"));
  hs_status_drop(s);
  hs_vec_free(&own);
}

// Stepping to the end does what running does; a copied cursor goes back.
static void steps_as_it_runs(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\nENTRY e {\n x = f32[4] parameter(0)\n n = f32[4] negate(x)\n"
      " nn = f32[4] negate(n)\n u = f32[4] add(nn, x)\n"
      " v = f32[4] add(nn, x)\n ROOT r = f32[4] multiply(u, v)\n}\n";
  hlo_module *a = parse(text), *b = parse(text);
  pass_run_options o = pass_run_default();
  pass_log ran = {0}, stepped = {0};
  assert_true(hs_ok(pipeline_run(a, "dce, fix(algsimp, cse, dce)", &o, &ran)));
  pipeline_program *p;
  pipeline_cursor at = {0};
  assert_true(hs_ok(pipeline_parse("dce, fix(algsimp, cse, dce)", &pass_builtin, NULL, &p)));
  const pipeline_op *next = pipeline_next(p, &at, b, &o);
  while (next) {
    const pipeline_op *op = next;
    assert_true(hs_ok(pipeline_step(b, p, &at, &o, &stepped, &next)));
    assert_string_equal(stepped.v[stepped.n - 1].pass, op->pass->name);
  }
  assert_null(pipeline_next(p, &at, b, &o));
  assert_int_equal(ran.n, stepped.n);
  for (size_t k = 0; k < ran.n; k++) assert_string_equal(ran.v[k].pass, stepped.v[k].pass);
  assert_int_equal(hlo_text_hash(a), hlo_text_hash(b));
  pipeline_free(p);
  hs_vec_free(&ran);
  hs_vec_free(&stepped);
  hlo_module_free(a);
  hlo_module_free(b);
}

// ---- costs and memory ---------------------------------------------------------------------------
static const char loop[] =
    "HloModule loop\n"
    "body {\n  s = (s32[], f32[256]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)\n  n = s32[] add(i, one)\n"
    "  x = f32[256] get-tuple-element(s), index=1\n  y = f32[256] add(x, x)\n"
    "  ROOT t = (s32[], f32[256]) tuple(n, y)\n}\n"
    "cond {\n  s = (s32[], f32[256]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  k = s32[] constant(10)\n  ROOT p = pred[] compare(i, k), direction=LT\n}\n"
    "ENTRY main {\n  a = f32[256] parameter(0)\n  z = s32[] constant(0)\n  b = f32[256] negate(a)\n"
    "  t = (s32[], f32[256]) tuple(z, b)\n"
    "  w = (s32[], f32[256]) while(t), condition=cond, body=body\n"
    "  ROOT r = f32[256] get-tuple-element(w), index=1\n}\n";

static void costs(void **state) {
  (void)state;
  hlo_module *m = parse(loop);
  hlo_cost_table t;
  assert_true(hs_ok(hlo_cost_module(m, &t)));
  // 256 negations; ten times 256 + 1 additions; eleven comparisons.
  assert_true(t.total.flops == 256 + 10 * 257 + 11);
  assert_true(t.times[hlo_find_instr(m, "y")->id] == 10);
  hlo_cost_free(&t);
  assert_true(hlo_cost_xla(m).flops == 256 + 257 + 1);
  i64 element, start, step;
  assert_int_equal(hlo_trip_count_pattern(hlo_find_instr(m, "w"), &element, &start, &step), 10);
  assert_int_equal(element, 0);
  assert_int_equal(step, 1);
  hlo_module_free(m);
  m = parse(
      "HloModule d\nENTRY main {\n  a = f32[4,5] parameter(0)\n  b = f32[5,6] parameter(1)\n"
      "  ROOT c = f32[4,6] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n");
  hlo_cost c = hlo_cost_instr(m->entry->root);
  assert_true(c.flops == 2 * 4 * 5 * 6);
  assert_true(c.bytes_read == 4 * (20 + 30) && c.bytes_written == 4 * 24);
  hlo_module_free(m);
}

static void memory(void **state) {
  (void)state;
  hlo_module *m = parse(loop);
  hlo_memory naive, shared;
  assert_true(hs_ok(hlo_memory_estimate(m, true, &naive)));
  assert_true(hs_ok(hlo_memory_estimate(m, false, &shared)));
  assert_int_equal(shared.argument_bytes, 1024);
  assert_int_equal(shared.output_bytes, 1024);
  // The state is the output and is updated in place: nothing beside it but the counter and scalars.
  assert_true(shared.temp_bytes < 64);
  assert_true(naive.temp_bytes >= 1024);
  hlo_module_free(m);
  // A chain of elementwise operations needs one buffer, or two without sharing.
  m = parse("HloModule c\nENTRY main {\n  a = f32[100] parameter(0)\n  b = f32[100] negate(a)\n"
            "  c = f32[100] cosine(b)\n  d = f32[100] sine(c)\n  ROOT e = f32[100] abs(d)\n}\n");
  assert_true(hs_ok(hlo_memory_estimate(m, true, &naive)));
  assert_true(hs_ok(hlo_memory_estimate(m, false, &shared)));
  assert_int_equal(naive.temp_bytes, 800);
  assert_true(shared.temp_bytes <= 400);
  hlo_module_free(m);
}

// A reshape that a broadcast no longer reads is remembered in the module's recovery table, once,
// and the table can be read back.
static void recovery_table(void **state) {
  (void)state;
  hlo_module *m = parse("HloModule t\n\nENTRY e {\n  a = f32[5] parameter(0), origin={{\"a\"}}\n"
                        "  b = f32[5] parameter(1)\n"
                        "  r = f32[1,5] reshape(a), origin={{\"r\" {0,1}}}\n"
                        "  s = f32[5,1] reshape(b), origin={{\"s__ovp4\"}}\n"
                        "  x = f32[3,1,5] broadcast(r), dimensions={1,2}\n"
                        "  y = f32[3,5,1] broadcast(s), dimensions={1,2}\n"
                        "  z = f32[2,1,5] broadcast(r), dimensions={1,2}\n"
                        "  ROOT o = (f32[3,1,5], f32[3,5,1], f32[2,1,5]) tuple(x, y, z)\n}\n");
  run_verified(m, "algsimp");
  assert_int_equal(count(m, "reshape"), 0);
  const hlo_attr *table = hlo_attrs_find(m->attrs, HLO_ATTR_ORIGIN_RECOVERY_TABLE);
  assert_non_null(table);
  char *text = calloc(table->v.s.n + 1, 1);
  memcpy(text, table->v.s.p, table->v.s.n);
  const char *r = strstr(text, "{\"r\" {0,1}} : {\"a\"}"),
             *s = strstr(text, "{\"s__ovp4\"} : {\"s__ovp5\"}");
  assert_non_null(r);
  assert_non_null(s);
  assert_null(strstr(r + 1, "{\"r\" {0,1}} :"));
  assert_non_null(strstr(s, "reshape("));
  free(text);
  const hlo_origin *origin = hlo_attr_ptr(m->entry->params[1], HLO_ATTR_ORIGIN);
  assert_non_null(origin);
  assert_true(hs_str_eq(origin->root->name, HS_STR("s__ovp5")));
  hs_buf b = {0};
  hlo_print_options o = hlo_print_default();
  hlo_print_module(&b, m, &o);
  hlo_module *again = parse(hs_buf_cstr(&b));
  table = hlo_attrs_find(again->attrs, HLO_ATTR_ORIGIN_RECOVERY_TABLE);
  assert_non_null(table);
  hs_buf_free(&b);
  hlo_module_free(again);
  hlo_module_free(m);
}

// ---- layouts ------------------------------------------------------------------------------------
// The layout of leaf k of the entry's instruction of this name; of a buffer, what it holds.
static const hlo_layout *layout_of(const hlo_module *m, const char *name, u32 k) {
  hlo_for_each_instr(i, m->entry) {
    if (strcmp(i->name, name) != 0) continue;
    const hlo_shape *s = hlo_shape_leaf(i->shape, k);
    return s->dtype == HLO_BUFFER ? s->elems[0]->layout : s->layout;
  }
  fail_msg("no %s", name);
  return NULL;
}

// A buffer cannot be copied: from the pin to the unpin it has the layout of the pin, which gets a
// copy of its own.
static void buffers_keep_their_layout(void **state) {
  (void)state;
  hlo_module *m = parse(
      "HloModule m, entry_computation_layout={(f32[2,8]{1,0})->(f32[2,8]{1,0}, f32[2,8]{1,0})}\n"
      "ENTRY e {\n"
      "  x = f32[2,8] parameter(0)\n"
      "  b0 = b(f32[2,8]{0,1}) custom-call(x), custom_call_target=\"Pin\", "
      "output_to_operand_aliasing={{}: (0, {})}, operand_layout_constraints={f32[2,8]{0,1}}\n"
      "  b1 = b(f32[2,8]) custom-call(b0), custom_call_target=\"AddOne\", "
      "output_to_operand_aliasing={{}: (0, {})}\n"
      "  v = f32[2,8] custom-call(b1), custom_call_target=\"Unpin\", "
      "output_to_operand_aliasing={{}: (0, {})}\n"
      "  ROOT t = (f32[2,8], f32[2,8]) tuple(v, x)\n"
      "}\n");
  run_verified(m, "layout-assignment");
  static const char *const chain[] = {"b0", "b1", "v"};
  for (u32 k = 0; k < 3; k++) assert_int_equal(layout_of(m, chain[k], 0)->minor_to_major[0], 0);
  assert_int_equal(layout_of(m, "x", 0)->minor_to_major[0], 1);
  assert_int_equal(count(m, "copy"), 2);  // before the pin, and of the result
  hlo_module_free(m);
}

// A pin whose operand has the right layout already still gets a copy: it would overwrite what
// others read.
static void pins_are_copied(void **state) {
  (void)state;
  hlo_module *m = parse(
      "HloModule m, entry_computation_layout={(f32[2,8]{0,1})->(f32[2,8]{0,1}, f32[2,8]{0,1})}\n"
      "ENTRY e {\n"
      "  x = f32[2,8] parameter(0)\n"
      "  b = b(f32[2,8]{0,1}) custom-call(x), custom_call_target=\"Pin\", "
      "output_to_operand_aliasing={{}: (0, {})}, operand_layout_constraints={f32[2,8]{0,1}}\n"
      "  v = f32[2,8] custom-call(b), custom_call_target=\"Unpin\", "
      "output_to_operand_aliasing={{}: (0, {})}\n"
      "  ROOT t = (f32[2,8], f32[2,8]) tuple(v, x)\n"
      "}\n");
  run_verified(m, "layout-assignment{cpu=false}");
  assert_int_equal(count(m, "copy"), 1);
  run_verified(m, "layout-assignment{cpu=false}");  // a copy that only the pin reads serves
  assert_int_equal(count(m, "copy"), 1);
  hlo_module_free(m);
}

// One array twice in a nested result, wanted in two layouts: one of them is copied.
static void nested_results(void **state) {
  (void)state;
  hlo_module *m = parse("HloModule m, entry_computation_layout={(f32[2,3]{1,0})->((f32[2,3]{1,0}), "
                        "(f32[2,3]{0,1}))}\n"
                        "ENTRY e {\n"
                        "  x = f32[2,3] parameter(0)\n"
                        "  t = (f32[2,3]) tuple(x)\n"
                        "  ROOT both = ((f32[2,3]), (f32[2,3])) tuple(t, t)\n"
                        "}\n");
  run_verified(m, "layout-assignment, algsimp{layout_sensitive=true}, dce");
  assert_int_equal(count(m, "copy"), 1);
  assert_int_equal(count(m, "get-tuple-element"), 0);
  assert_int_equal(hlo_shape_leaf(m->entry->root->shape, 0)->layout->minor_to_major[0], 1);
  assert_int_equal(hlo_shape_leaf(m->entry->root->shape, 1)->layout->minor_to_major[0], 0);
  hlo_module_free(m);
}

// An entry that fixes some layouts only: those hold, with their memory space; the others are free.
static void partly_fixed_entry(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m, entry_computation_layout={((f32[2,8]{0,1:S(5)}, f32[2,8]))->f32[2,8]}\n"
      "ENTRY e {\n"
      "  p = (f32[2,8], f32[2,8]) parameter(0)\n"
      "  a = f32[2,8] get-tuple-element(p), index=0\n"
      "  b = f32[2,8] get-tuple-element(p), index=1\n"
      "  ROOT r = f32[2,8] add(a, b)\n"
      "}\n";
  hlo_module *m = NULL;
  assert_true(hs_ok(
      hlo_parse(ctx, text, strlen(text), &(hlo_parse_options){.keep_missing_layouts = true}, &m)));
  run_verified(m, "layout-assignment{cpu=false}");
  for (u32 k = 0; k < 2; k++) {
    assert_int_equal(layout_of(m, "p", k)->minor_to_major[0], 0);
    assert_int_equal(layout_of(m, "p", k)->memory_space, 0);
  }
  assert_true(says(m, "{((f32[2,8]{0,1:S(5)}, f32[2,8]{0,1}))->"));
  assert_int_equal(layout_of(m, "r", 0)->minor_to_major[0], 0);
  assert_int_equal(layout_of(m, "r", 0)->memory_space, 0);
  assert_int_equal(count(m, "copy"), 0);
  hlo_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(data_cases),
                                     cmocka_unit_test(numbers_near_the_limit),
                                     cmocka_unit_test(rolled_back),
                                     cmocka_unit_test(changes_are_seen),
                                     cmocka_unit_test(unreported_changes),
                                     cmocka_unit_test(rewrite_limit),
                                     cmocka_unit_test(names),
                                     cmocka_unit_test(pipelines),
                                     cmocka_unit_test(pipeline_options),
                                     cmocka_unit_test(dead_collectives),
                                     cmocka_unit_test(dead_marked),
                                     cmocka_unit_test(left_alone),
                                     cmocka_unit_test(own_pipelines),
                                     cmocka_unit_test(steps_as_it_runs),
                                     cmocka_unit_test(costs),
                                     cmocka_unit_test(memory),
                                     cmocka_unit_test(recovery_table),
                                     cmocka_unit_test(buffers_keep_their_layout),
                                     cmocka_unit_test(pins_are_copied),
                                     cmocka_unit_test(nested_results),
                                     cmocka_unit_test(partly_fixed_entry)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
