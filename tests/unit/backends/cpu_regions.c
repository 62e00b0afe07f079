// cpu_regions.c — loops that become one function, against the evaluator: scalar and array state,
// state that is read after the loop, exchanged, handed to library calls, written by branches; loops
// in loops; and the same program with its kernels timed one by one.
#include "tests/unit/backends/cpu.h"

#define COUNT(state, n)                                                           \
  "cond { s = " state " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " n = s32[] constant(" #n ")\n ROOT c = pred[] compare(i, n), direction=LT }\n"
#define STEP(state)                                                               \
  "body { s = " state " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " one = s32[] constant(1)\n j = s32[] add(i, one)\n"
#define NEXT " condition=cond, body=body "

static hs_buf schedule(const char *text) {
  hlo_module *m = parse(text);
  backend_exe *e = NULL;
  hs_buf out = {0};
  explain(cpu->compile(m, &(backend_options){.context = backends}, &e));
  explain(cpu->dump(e, "schedule", &out));
  cpu->release(e);
  hlo_module_free(m);
  return out;
}

// clang-format off
#define LCG \
  MODULE(COUNT("(s32[], u32[], f32[])", 1000) STEP( \
      "(s32[], u32[], f32[])") " u = u32[] get-tuple-element(s), index=1\n" \
      " f = f32[] get-tuple-element(s), index=2\n" \
      " a = u32[] constant(1664525)\n b = u32[] constant(1013904223)\n" \
      " v = u32[] multiply(u, a)\n w = u32[] add(v, b)\n" \
      " x = f32[] convert(w)\n" \
      " k = f32[] constant(2.3e-10)\n" \
      " y = f32[] multiply(x, k)\n g = f32[] add(f, y)\n" \
      " ROOT t = (s32[], u32[], f32[]) tuple(j, w, g) }\n" \
      "ENTRY e { u = u32[] parameter(0)\n" \
      " f = f32[] parameter(1)\n i = s32[] constant(0)\n" \
      " t = (s32[], u32[], f32[]) tuple(i, u, f)\n" \
      " w = (s32[], u32[], f32[]) while(t)," NEXT \
      "\n g = f32[] get-tuple-element(w), index=2\n" \
      " v = u32[] get-tuple-element(w)," \
      " index=1\n h = f32[] add(g, g)\n" \
      " ROOT r = (u32[], f32[], f32[]) tuple(v, g, h) }")

static void scalar_state(void **st) {
  (void)st;
  agrees(LCG);
  hs_buf s = schedule(LCG);
  assert_non_null(strstr(hs_buf_cstr(&s), "while, one function"));
  hs_buf_free(&s);
}

// What a library call reads and writes may be small enough for a register: its copy is in memory.
static void library_calls(void **st) {
  (void)st;
  agrees(MODULE(LT COUNT("(s32[], f32[6], f32[700])", 5) STEP(
      "(s32[], f32[6], f32[700])") " x = f32[6] get-tuple-element(s), index=1\n"
      " y = f32[700] get-tuple-element(s), index=2\n"
      " r = f32[6] reverse(x),"
      " dimensions={0}\n o = f32[6] sort(r), dimensions={0}, to_apply=lt\n"
      " p = f32[6] multiply(o, r)\n"
      " q = f32[700] sort(y), dimensions={0}, to_apply=lt\n"
      " b = f32[1] slice(p), slice={[2:3]}\n"
      " c = f32[] reshape(b)\n"
      " d = f32[700] broadcast(c), dimensions={}\n"
      " z = f32[700] subtract(q, d)\n"
      " ROOT t = (s32[], f32[6], f32[700]) tuple(j, p, z) }\n"
      "ENTRY e { x = f32[6] parameter(0)\n"
      " y = f32[700] parameter(1)\n"
      " i = s32[] constant(0)\n t = (s32[], f32[6], f32[700]) tuple(i, x, y)\n"
      " ROOT w = (s32[], f32[6], f32[700]) while(t)," NEXT "}"));
}

// Small products are code of the loop; larger ones are the library's, which it calls.
static void products(void **st) {
  (void)st;
  for (int n = 16; n <= 48; n += 32) {
    hs_buf b = {0}, state = {0};
    hs_buf_printf(&state, "(s32[], f32[%d,%d], f32[%d,%d])", n, n, n, n);
    const char *t = hs_buf_cstr(&state);
    hs_buf_printf(&b,
                  "HloModule t\ncond { s = %s parameter(0)\n i = s32[] get-tuple-element(s), "
                  "index=0\n n = s32[] constant(5)\n ROOT c = pred[] compare(i, n), "
                  "direction=LT }\n",
                  t);
    hs_buf_printf(&b, STEP("%s") " x = f32[%d,%d] get-tuple-element(s), index=1\n", t, n, n);
    hs_buf_printf(&b,
                  " y = f32[%d,%d] get-tuple-element(s), index=2\n p = f32[%d,%d] dot(x, y), "
                  "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n q = f32[%d,%d] tanh(p)\n"
                  " ROOT t = %s tuple(j, q, y) }\n",
                  n, n, n, n, n, n, t);
    hs_buf_printf(&b,
                  "ENTRY e { x = f32[%d,%d] parameter(0)\n y = f32[%d,%d] parameter(1)\n"
                  " i = s32[] constant(0)\n t = %s tuple(i, x, y)\n ROOT w = %s while(t)," NEXT
                  "}",
                  n, n, n, n, t, t);
    agrees(hs_buf_cstr(&b));
    hs_buf s = schedule(hs_buf_cstr(&b));
    assert_non_null(strstr(hs_buf_cstr(&s), "while, one function"));
    assert_int_equal(strstr(hs_buf_cstr(&s), "dot (tiles)") != NULL, n > 16);
    hs_buf_free(&s);
    hs_buf_free(&state);
    hs_buf_free(&b);
  }
}

// Branches write the state, one of them with a loop of its own; the selector goes out of range.
static void branches(void **st) {
  (void)st;
  agrees(MODULE(
      "up { x = f32[4] parameter(0)\n ROOT y = f32[4] add(x, x) }\n"
      "same { ROOT x = f32[4] parameter(0) }\n"
      "ic { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "ib { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " x = f32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n r = f32[4] reverse(x), dimensions={0}\n y = f32[4] negate(r)\n"
      " ROOT t = (s32[], f32[4]) tuple(j, y) }\n"
      "loop { x = f32[4] parameter(0)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[4]) tuple(i, x)\n"
      " w = (s32[], f32[4]) while(t), condition=ic, body=ib\n"
      " ROOT y = f32[4] get-tuple-element(w), index=1 }\n" COUNT("(s32[], f32[4])", 7)
      STEP("(s32[], f32[4])")
      " x = f32[4] get-tuple-element(s), index=1\n"
      " two = s32[] constant(2)\n k = s32[] subtract(i, two)\n"
      " y = f32[4] conditional(k, x, x, x), branch_computations={up, same, loop}\n"
      " three = s32[] constant(3)\n p = pred[] compare(i, three), direction=GT\n"
      " z = f32[4] conditional(p, y, x), true_computation=up, false_computation=loop\n"
      " ROOT t = (s32[], f32[4]) tuple(j, z) }\n"
      "ENTRY e { x = f32[4] parameter(0)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[4]) tuple(i, x)\n w = (s32[], f32[4]) while(t)," NEXT
      "\n y = f32[4] get-tuple-element(w), index=1\n"
      " c = f32[4] conditional(i, y, y), branch_computations={loop, up}\n"
      " ROOT r = f32[4] subtract(c, x) }"));
}

#define PAIR "(s32[], f32[400], f32[400])"
#define INNER \
  "ic { s = " PAIR " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n" \
  "ib { s = " PAIR " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
  " x = f32[400] get-tuple-element(s), index=1\n y = f32[400] get-tuple-element(s), index=2\n" \
  " one = s32[] constant(1)\n j = s32[] add(i, one)\n r = f32[400] reverse(x)," \
  " dimensions={0}\n z = f32[400] add(r, y)\n ROOT t = " PAIR " tuple(j, y, z) }\n"

// Large state is exchanged in an inner loop, an odd number of times, and sorted in the outer one.
static void exchanged_state(void **st) {
  (void)st;
  agrees(MODULE(LT INNER COUNT(PAIR, 3) STEP(
      PAIR) " x = f32[400] get-tuple-element(s), index=1\n o = s32[] constant(0)\n"
            " y = f32[400] get-tuple-element(s), index=2\n u = " PAIR " tuple(o, x, y)\n"
            " w = " PAIR " while(u), condition=ic, body=ib\n"
            " a = f32[400] get-tuple-element(w), index=1\n"
            " b = f32[400] get-tuple-element(w), index=2\n"
            " q = f32[400] sort(a), dimensions={0}, to_apply=lt\n"
            " ROOT t = " PAIR " tuple(j, b, q) }\n"
            "ENTRY e { x = f32[400] parameter(0)\n y = f32[400] parameter(1)\n"
            " i = s32[] constant(0)\n t = " PAIR " tuple(i, x, y)\n w = " PAIR " while(t)," NEXT
            "\n a = f32[400] get-tuple-element(w), index=1\n n = f32[400] negate(a)\n"
            " ROOT r = (f32[400], f32[400]) tuple(n, a) }"));
}

// State that is the module's result is exchanged too, an odd number of times: the result is where
// the last step left it.
static void exchanged_results(void **st) {
  (void)st;
  const char *text = MODULE(
      COUNT("(s32[], f32[40,10])", 3) STEP("(s32[], f32[40,10])")
      " x = f32[40,10] get-tuple-element(s), index=1\n y = f32[40,10] reverse(x), dimensions={0}\n"
      " ROOT t = (s32[], f32[40,10]) tuple(j, y) }\n"
      "ENTRY e { x = f32[40,10] parameter(0)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[40,10]) tuple(i, x)\n w = (s32[], f32[40,10]) while(t)," NEXT "\n"
      " ROOT y = f32[40,10] get-tuple-element(w), index=1 }");
  agrees(text);
  hs_buf s = schedule(text);
  assert_non_null(strstr(hs_buf_cstr(&s), "exchange"));
  hs_buf_free(&s);
}

// A fusion that replaces a part of its operand and stores nothing else: where the operand dies, in
// its memory; where it is needed afterwards, or the part is read in another order, in a copy.
static void updates(void **st) {
  (void)st;
  static const char *const reads[] = {
      "a = f32[2,5] dynamic-slice(x, i, z), dynamic_slice_sizes={2,5}\n",
      ("b = f32[2,5] dynamic-slice(x, i, z), dynamic_slice_sizes={2,5}\n"
       " a = f32[2,5] reverse(b), dimensions={1}\n"),
      "a = f32[2,5] dynamic-slice(x, z, z), dynamic_slice_sizes={2,5}\n",
      "a = f32[2,5] slice(x), slice={[6:8], [1:6]}\n"};
  for (size_t k = 0; k < HS_COUNT(reads); k++)
    for (int twice = 0; twice < 2; twice++) {
      char *text = hs_format(
          "HloModule t\n"
          "f { x = f32[8,7] parameter(0)\n i = s32[] parameter(1)\n z = s32[] constant(1)\n %s"
          " c = f32[2,5] exponential(a)\n d = f32[2,5] add(c, a)\n"
          " ROOT r = f32[8,7] dynamic-update-slice(x, d, i, z) }\n" COUNT("(s32[], f32[8,7])", 9)
              STEP("(s32[], f32[8,7])") " x = f32[8,7] get-tuple-element(s), index=1\n"
          " y = f32[8,7] fusion(x, i), kind=kLoop, calls=f\n w = f32[8,7] %s\n"
          " ROOT t = (s32[], f32[8,7]) tuple(j, w) }\n"
          "ENTRY e { x = f32[8,7] parameter(0)\n i = s32[] constant(-1)\n"
          " t = (s32[], f32[8,7]) tuple(i, x)\n w = (s32[], f32[8,7]) while(t)," NEXT
          "\n y = f32[8,7] get-tuple-element(w), index=1\n"
          " ROOT r = f32[8,7] add(x, y) }",
          reads[k], twice ? "minimum(x, y)" : "negate(y)");
      agrees(text);
      hs_free(text);
    }
  hs_buf s = schedule(MODULE(
      "f { x = f32[80,7] parameter(0)\n i = s32[] parameter(1)\n z = s32[] constant(1)\n"
      " a = f32[2,5] dynamic-slice(x, i, z), dynamic_slice_sizes={2,5}\n"
      " d = f32[2,5] negate(a)\n ROOT r = f32[80,7] dynamic-update-slice(x, d, i, z) }\n"
      "ENTRY e { x = f32[80,7] parameter(0)\n i = s32[] parameter(1)\n y = f32[80,7] negate(x)\n"
      " ROOT r = f32[80,7] fusion(y, i), kind=kLoop, calls=f }"));
  assert_null(strstr(hs_buf_cstr(&s), "< 80\n  for i1 < 7"));
  assert_non_null(strstr(hs_buf_cstr(&s), "for i0 < 2"));
  hs_buf_free(&s);
}

// Small dots, slices and updates at every step of a loop are written into it.
static void small_steps(void **st) {
  (void)st;
  static const char *const types[] = {"f32", "bf16", "s32", "f64"};
  for (size_t k = 0; k < HS_COUNT(types); k++) {
    const char *t = types[k];
    char *text = hs_format(
        "HloModule t\n" COUNT("(s32[], T[5], T[9,5])", 9) STEP("(s32[], T[5], T[9,5])")
        " x = T[5] get-tuple-element(s), index=1\n y = T[9,5] get-tuple-element(s), index=2\n"
        " z = s32[] constant(0)\n a = T[1,5] dynamic-slice(y, i, z), dynamic_slice_sizes={1,5}\n"
        " b = T[5] reshape(a)\n c = T[5,5] dot(b, x), lhs_contracting_dims={}, "
        "rhs_contracting_dims={}\n d = T[5] dot(c, x), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}\n m = T[5] constant({1,0,-1,1,0})\n e = T[5] minimum(d, m)\n"
        " f = T[1,5] reshape(e)\n g = T[9,5] dynamic-update-slice(y, f, i, z)\n"
        " ROOT t = (s32[], T[5], T[9,5]) tuple(j, b, g) }\n"
        "ENTRY e { x = T[5] parameter(0)\n y = T[9,5] parameter(1)\n i = s32[] constant(0)\n"
        " t = (s32[], T[5], T[9,5]) tuple(i, x, y)\n"
        " ROOT w = (s32[], T[5], T[9,5]) while(t)," NEXT "}");
    hs_buf typed = {0};
    for (const char *p = text; *p; p++)
      if (p[0] == 'T' && p[1] == '[') hs_buf_puts(&typed, t);
      else hs_buf_putc(&typed, *p);
    agrees(hs_buf_cstr(&typed));
    hs_buf s = schedule(hs_buf_cstr(&typed));
    assert_null(strstr(hs_buf_cstr(&s), ": runtime"));
    hs_buf_free(&s);
    hs_buf_free(&typed);
    hs_free(text);
  }
}

// Kernels inside of a region are timed one by one by running them without it.
static void timed_kernels(void **st) {
  (void)st;
  hlo_module *m = parse(LCG);
  backend_run_options ro = {.min_runs = 3, .max_runs = 3, .want_kernel_times = true};
  backend_result r = run_on(cpu, m, NULL, &ro, NULL);
  const prof_recording *rec = r.timing.kernels;
  assert_non_null(rec);
  u64 calls = 0;
  for (u32 k = 0; k < rec->nkernels; k++) calls += rec->calls[k];
  assert_true(calls >= 2000);
  backend_result_free(&r);
  hlo_module_free(m);
}
// How many copies to another layout the program makes, all of which are outside of its loop.
static u32 relayouts_outside(const char *text) {
  hs_buf out = schedule(text);
  u32 n = 0;
  for (const char *p = hs_buf_cstr(&out); (p = strstr(p, "relayout")); p++, n++) {
    const char *line = p;
    while (line > hs_buf_cstr(&out) && line[-1] != '\n') line--;
    assert_true(line[6] == '%');  // not indented, as what is inside of the loop is
  }
  hs_buf_free(&out);
  return n;
}
// The loop has its state, some of it unchanged, in other orders than its body: both are brought
// into the body's once, outside of the loop.
static void other_layouts(void **st) {
  (void)st;
#define IN_BODY "(s32[], f32[30,20]{1,0}, f32[40,30,20]{2,1,0})"
#define OF_LOOP "(s32[], f32[30,20]{0,1}, f32[40,30,20]{0,2,1})"
  static const char text[] = MODULE(
      COUNT(IN_BODY, 9) STEP(IN_BODY)
      " a = f32[30,20]{1,0} get-tuple-element(s), index=1\n"
      " b = f32[40,30,20]{2,1,0} get-tuple-element(s), index=2\n z = s32[] constant(0)\n"
      " d = f32[1,30,20]{2,1,0} dynamic-slice(b, i, z, z), dynamic_slice_sizes={1,30,20}\n"
      " r = f32[30,20]{1,0} reshape(d)\n c = f32[30,20]{1,0} add(a, r)\n"
      " ROOT t = " IN_BODY " tuple(j, c, b) }\n"
      "ENTRY e { x = f32[30,20]{0,1} parameter(0)\n y = f32[40,30,20]{0,2,1} parameter(1)\n"
      " i = s32[] constant(0)\n t = " OF_LOOP " tuple(i, x, y)\n"
      " ROOT w = " OF_LOOP " while(t)," NEXT "}");
  agrees(text);
  assert_int_equal(relayouts_outside(text), 3);
}
// The body reads elements of its parameter, and returns them, in another order than the parameter
// has: the loop's state takes that order, and no iteration copies.
static void read_layouts(void **st) {
  (void)st;
#define GIVEN "(s32[], f32[30,20]{0,1}, f32[40,30,20]{0,2,1})"
#define READ "(s32[], f32[30,20]{1,0}, f32[40,30,20]{2,1,0})"
  static const char text[] = MODULE(
      COUNT(GIVEN, 9) STEP(GIVEN)
      " a = f32[30,20]{1,0} get-tuple-element(s), index=1\n"
      " b = f32[40,30,20]{2,1,0} get-tuple-element(s), index=2\n z = s32[] constant(0)\n"
      " d = f32[1,30,20]{2,1,0} dynamic-slice(b, i, z, z), dynamic_slice_sizes={1,30,20}\n"
      " r = f32[30,20]{1,0} reshape(d)\n c = f32[30,20]{1,0} add(a, r)\n"
      " ROOT t = " READ " tuple(j, c, b) }\n"
      "ENTRY e { x = f32[30,20]{0,1} parameter(0)\n y = f32[40,30,20]{0,2,1} parameter(1)\n"
      " i = s32[] constant(0)\n t = " GIVEN " tuple(i, x, y)\n"
      " ROOT w = " GIVEN " while(t)," NEXT "}");
  agrees(text);
  assert_int_equal(relayouts_outside(text), 3);
}
// clang-format on

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scalar_state),    cmocka_unit_test(library_calls),
      cmocka_unit_test(products),        cmocka_unit_test(branches),
      cmocka_unit_test(exchanged_state), cmocka_unit_test(exchanged_results),
      cmocka_unit_test(updates),         cmocka_unit_test(small_steps),
      cmocka_unit_test(timed_kernels),   cmocka_unit_test(other_layouts),
      cmocka_unit_test(read_layouts),
  };
  return run_cpu_tests(argc, argv, "cpu_regions", tests, HS_COUNT(tests));
}
