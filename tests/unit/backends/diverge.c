// diverge.c — the first instruction on which two backends differ, found in a backend that is
// wrong on purpose: the evaluator, but every tanh is off by a little and every sine makes it fail.
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/infer/build.h"
#include "core/text/text.h"
#include "repl/registry.h"
#include "repl/debug/diverge.h"

struct backend_exe {
  hlo_module *m;
};
static u32 compiled;

static void wrong_release(backend_exe *e) {
  hlo_module_free(e->m);
  hs_free(e);
}

static hs_status wrong_compile(const hlo_module *m, const backend_options *o, backend_exe **out) {
  (void)o;
  compiled++;
  hlo_module *w = hlo_module_clone(m, m->name);
  hlo_journal_disable(w);
  bool sine = false;
  hlo_for_each_comp(c, w) {
    // what is added behind it is not looked at again
    hlo_instr *last = c->last;
    for (hlo_instr *i = c->first, *next; i; i = next) {
      next = i == last ? NULL : i->next;
      sine |= i->opcode == HLO_SIN;
      if (i->opcode != HLO_TANH) continue;
      hlo_instr *more = hlo_clone_instr(c, i, NULL, 1, &(hlo_instr *){hlo_operand(i, 0)});
      hlo_instr *off = hlo_build_binary(HLO_ADD, more, hlo_build_full(c, i->shape, 0.125));
      hlo_replace_uses(i, off);
      // The evaluator goes by the list: what was appended stands where the tanh stood.
      for (hlo_instr *added = last->next, *then; added && i->next && i != last; added = then)
        then = added->next, hlo_move_before(added, next);
    }
  }
  *out = hs_calloc(1, sizeof **out);
  (*out)->m = w;
  if (!sine) return HS_GOOD;
  wrong_release(*out);
  *out = NULL;
  return hs_fail(HS_E_WORKER, "the worker died of a sine");
}

static hs_status wrong_run(backend_exe *e, u32 n, hlo_literal *const *args,
                           const backend_run_options *o, backend_result *r) {
  (void)o;
  *r = (backend_result){0};
  return hlo_eval_module(e->m, n, args, NULL, &r->outputs);
}

static const backend wrong = {.name = "wrong",
                              .summary = "off on purpose",
                              .compile = wrong_compile,
                              .run = wrong_run,
                              .release = wrong_release};

#define CHAIN                                                                                    \
  "a = f32[8] multiply(x, x) b = f32[8] add(a, x) c = f32[8] tanh(b) d = f32[8] exponential(c) " \
  "e = f32[8] tanh(d)\n"
static const struct {
  const char *text, *name, *place;
  bool failure;
} cases[] = {
    {"HloModule plain\nENTRY main { x = f32[8] parameter(0) " CHAIN " ROOT r = f32[8] negate(e) }",
     "c", "main", false},
    {"HloModule none\nENTRY main { x = f32[8] parameter(0) a = f32[8] multiply(x, x) ROOT r = "
     "f32[8] negate(a) }",
     NULL, NULL, false},
    {"HloModule fused\nbody { x = f32[8] parameter(0) " CHAIN " ROOT r = f32[8] negate(e) }\n"
     "ENTRY main { y = f32[8] parameter(0) f = f32[8] fusion(y), kind=kLoop, calls=body ROOT g = "
     "f32[8] negate(f) }",
     "c", "body, called by %f", false},
    {"HloModule loop\n"
     "cond { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] "
     "constant(5) ROOT l = pred[] compare(i, n), direction=LT }\n"
     "yes { v = f32[8] parameter(0) ROOT w = f32[8] tanh(v) }\n"
     "no { u = f32[8] parameter(0) ROOT k = f32[8] negate(u) }\n"
     "body { q = (s32[], f32[8]) parameter(0) i1 = s32[] get-tuple-element(q), index=0 x = f32[8] "
     "get-tuple-element(q), index=1 one = s32[] constant(1)\n"
     "  three = s32[] constant(3) third = pred[] compare(i1, three), direction=EQ j = s32[] "
     "add(i1, one)\n"
     "  z = f32[8] conditional(third, x, x), true_computation=yes, false_computation=no ROOT t = "
     "(s32[], f32[8]) tuple(j, z) }\n"
     "ENTRY main { y = f32[8] parameter(0) zero = s32[] constant(0) s = (s32[], f32[8]) "
     "tuple(zero, y) lp = (s32[], f32[8]) while(s), condition=cond, body=body\n"
     "  ROOT r = f32[8] get-tuple-element(lp), index=1 }",
     "w", "yes, called by %z; body, iteration 3 of %lp", false},
    {"HloModule dies\nENTRY main { x = f32[8] parameter(0) a = f32[8] multiply(x, x) b = f32[8] "
     "sine(a) c = f32[8] negate(b) ROOT r = f32[8] add(c, a) }",
     "b", "main", true}};

static void check_case(size_t k, u32 *runs) {
  repl_session *s = repl_session_new(repl_commands, repl_command_count);
  hlo_module *m;
  hs_status st = hlo_parse(s->ctx, cases[k].text, strlen(cases[k].text), NULL, &m);
  if (!hs_ok(st)) fail_msg("case %zu: %s", k, st.err->message);
  hs_arena scratch = {0};
  repl_out out = {.quiet = true};
  repl_cmd c = {.s = s, .out = &out, .scratch = &scratch, .command = repl_command_find(s, "check")};
  c.mod = repl_session_add(s, m, NULL);
  c.m = m;
  assert_true(hs_ok(repl_inputs_seed(&c, 1, false)));
  divergence d;
  compiled = 0;
  st = diverge_find(&c, m, &wrong, backend_find("interp"), hlo_near(1e-3, 1e-3), &d);
  if (!hs_ok(st)) fail_msg("case %zu: %s", k, st.err->message);
  *runs = compiled;
  assert_true(d.found == (cases[k].name != NULL));
  if (d.found) {
    assert_string_equal(d.name, cases[k].name);
    const char *text = hs_buf_cstr(&d.lines);
    if (!strstr(text, cases[k].place)) fail_msg("case %zu: not in %s: %s", k, cases[k].place, text);
    assert_true((d.failure != NULL) == cases[k].failure);
    if (d.failure) assert_non_null(strstr(text, "died of a sine"));
    else assert_non_null(strstr(text, "abs 0.125"));
    assert_non_null(strstr(text, "operand 0"));
  }
  divergence_free(&d);
  hs_arena_free(&scratch);
  hs_buf_free(&out.text);
  repl_session_free(s);
}

static void the_first_wrong_instruction_is_named(void **state) {
  (void)state;
  u32 runs;
  for (size_t k = 0; k < HS_COUNT(cases); k++) check_case(k, &runs);
}

// A long chain is one compilation, not one per instruction.
static void a_chunk_is_compiled_once(void **state) {
  (void)state;
  u32 runs;
  check_case(0, &runs);
  assert_int_equal(runs, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_wrong_instruction_is_named),
                                     cmocka_unit_test(a_chunk_is_compiled_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
