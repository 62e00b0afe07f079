// cpu_programs.c — whole programs on the cpu backend against the evaluator: control flow,
// buffers updated in place, donation, layouts, measuring, custom calls that stand for their
// operands. And programs in the calling process, in its caller's memory.
#include "backends/cpu/local.h"
#include "core/analysis/heap.h"
#include "tests/unit/backends/cpu.h"

// Loops whose state is updated in place, handed through, exchanged, and read by results.
static void control_flow(void **st) {
  (void)st;
  agrees(MODULE(
      "cond { s = (s32[], f32[20,3], f32[3]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(20)\n"
      " ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[20,3], f32[3]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n a = f32[20,3] get-tuple-element(s), index=1\n"
      " v = f32[3] get-tuple-element(s), index=2\n"
      "one = s32[] constant(1)\n j = s32[] add(i, one)\n w = f32[3] multiply(v, v)\n"
      " u = f32[1,3] reshape(w)\n z = s32[] constant(0)\n b = f32[20,3] dynamic-update-slice(a, u, "
      "i, z)\n"
      "ROOT t = (s32[], f32[20,3], f32[3]) tuple(j, b, v) }\n"
      "ENTRY e { a = f32[20,3] parameter(0)\n v = f32[3] parameter(1)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[20,3], f32[3]) tuple(i, a, v)\n"
      "w = (s32[], f32[20,3], f32[3]) while(t), condition=cond, body=body\n"
      " r = f32[20,3] get-tuple-element(w), index=1\n q = f32[20,3] add(r, a)\n"
      " ROOT o = (f32[20,3], f32[20,3]) tuple(r, q) }"));
  // State is rotated (x, y) <- (y, x + y) and grown large enough to be exchanged instead of copied.
  agrees(MODULE(
      "cond { s = (s32[], f32[600], f32[600]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(7)\n"
      " ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[600], f32[600]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[600] get-tuple-element(s), index=1\n"
      " y = f32[600] get-tuple-element(s), index=2\n"
      "one = s32[] constant(1)\n j = s32[] add(i, one)\n r = f32[600] reverse(x), dimensions={0}\n"
      " z = f32[600] add(r, y)\n ROOT t = (s32[], f32[600], f32[600]) tuple(j, y, z) }\n"
      "ENTRY e { x = f32[600] parameter(0)\n y = f32[600] parameter(1)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[600], f32[600]) tuple(i, x, y)\n ROOT w = (s32[], f32[600], f32[600]) "
      "while(t), condition=cond, body=body }"));
  // A loop in a loop over the same state, reversed every step.
  agrees(MODULE(
      "ic { s = (s32[], f32[500]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "ib { s = (s32[], f32[500]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " x = f32[500] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n"
      "r = f32[500] reverse(x), dimensions={0}\n y = f32[500] add(r, x)\n"
      " ROOT t = (s32[], f32[500]) tuple(j, y) }\n"
      "oc { s = (s32[], f32[500]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " n = s32[] constant(2)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "ob { s = (s32[], f32[500]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " x = f32[500] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n z = s32[] constant(0)\n"
      "t0 = (s32[], f32[500]) tuple(z, x)\n w = (s32[], f32[500]) while(t0), condition=ic, "
      "body=ib\n y = f32[500] get-tuple-element(w), index=1\n ROOT t = (s32[], f32[500]) tuple(j, "
      "y) }\n"
      "ENTRY e { x = f32[500] parameter(0)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[500]) tuple(i, x)\n ROOT w = (s32[], f32[500]) while(t), condition=oc, "
      "body=ob }"));
  agrees(MODULE(
      "p { x = f32[9] parameter(0)\n ROOT y = f32[9] negate(x) }\nq { x = f32[9] parameter(0)\n"
      " ROOT y = f32[9] copy(x) }\n"
      "ENTRY e { x = f32[9] parameter(0)\n s = s32[] constant(1)\n"
      " c = f32[9] conditional(s, x, x), branch_computations={p, q}\n t = s32[] constant(-3)\n"
      " d = f32[9] conditional(t, c, x), branch_computations={q, p}\n"
      " ROOT r = f32[9] add(c, d) }"));
  agrees(MODULE(
      "f { x = f32[9] parameter(0)\n ROOT y = (f32[9], f32[9]) tuple(x, x) }\n"
      "ENTRY e { x = f32[9] parameter(0)\n c = (f32[9], f32[9]) call(x), to_apply=f\n"
      " k = f32[9] constant({1,2,3,4,5,6,7,8,9})\n ROOT t = ((f32[9], f32[9]), f32[9], f32[9]) "
      "tuple(c, x, k) }"));
}

// One new value for two states, both large enough to be exchanged.
static void state_shared(void **st) {
  (void)st;
  agrees(MODULE(
      "cond { s = (s32[], f32[600], f32[600]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(5)\n"
      " ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[600], f32[600]) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[600] get-tuple-element(s), index=1\n"
      " y = f32[600] get-tuple-element(s), index=2\n"
      "one = s32[] constant(1)\n j = s32[] add(i, one)\n r = f32[600] reverse(x), dimensions={0}\n"
      " z = f32[600] add(r, y)\n ROOT t = (s32[], f32[600], f32[600]) tuple(j, z, z) }\n"
      "ENTRY e { x = f32[600] parameter(0)\n y = f32[600] parameter(1)\n i = s32[] constant(0)\n"
      " t = (s32[], f32[600], f32[600]) tuple(i, x, y)\n ROOT w = (s32[], f32[600], f32[600]) "
      "while(t), condition=cond, body=body }"));
}

// Bytes of temporaries of a softmax along `dim` of [rows, n] between two products.
static i64 bytes_of_softmax(int rows, int n, int dim, const char *type) {
  char *text = hs_format(
      MODULE("add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
             "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
             " ROOT c = f32[] maximum(a, b) }\n"
             "f { p = %s[%d,%d] parameter(0)\n x = f32[%d,%d] convert(p)\n"
             " n = f32[] constant(-inf)\n z = f32[] constant(0)\n"
             " m = f32[%d] reduce(x, n), dimensions={%d}, to_apply=max\n"
             " mb = f32[%d,%d] broadcast(m), dimensions={%d}\n s = f32[%d,%d] subtract(x, mb)\n"
             " e = f32[%d,%d] exponential(s)\n"
             " t = f32[%d] reduce(e, z), dimensions={%d}, to_apply=add\n"
             " tb = f32[%d,%d] broadcast(t), dimensions={%d}\n d = f32[%d,%d] divide(e, tb)\n"
             " ROOT r = %s[%d,%d] convert(d) }\n"
             "ENTRY e { a = %s[%d,7] parameter(0)\n b = %s[7,%d] parameter(1)\n"
             " d = %s[%d,%d] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
             " s = %s[%d,%d] fusion(d), kind=kInput, calls=f\n"
             " ROOT r = %s[%d,7] dot(s, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }"),
      type, rows, n, rows, n, dim ? rows : n, dim, rows, n, !dim, rows, n, rows, n, dim ? rows : n,
      dim, rows, n, !dim, rows, n, type, rows, n, type, rows, type, n, type, rows, n, type, rows, n,
      type, rows);
  agrees(text);
  i64 bytes = temporaries(text);
  hs_free(text);
  return bytes;
}

// A kernel along rows stores each where it read it, when nobody reads it later; one along columns,
// and one whose rows' exponentials are kept where the result goes, does not.
static void rows_in_place(void **st) {
  (void)st;
  assert_in_range(bytes_of_softmax(300, 400, 1, "f32"), 300 * 400 * 4, 300 * 400 * 5);
  assert_in_range(bytes_of_softmax(33, 77, 1, "f32"), 33 * 77 * 4, 33 * 77 * 4 + 4096);
  assert_in_range(bytes_of_softmax(300, 400, 0, "f32"), 2 * 300 * 400 * 4, 300 * 400 * 10);
  assert_in_range(bytes_of_softmax(3, 20000, 1, "f32"), 2 * 3 * 20000 * 4, 3 * 20000 * 10);
}

// Chunks of a reduction down columns divide long rows among them, and work in the results; of short
// rows each chunk has a partial result.
static void parts_of_columns(void **st) {
  (void)st;
#define REDUCE(x, r, dim)                                                                       \
  MODULE("add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n" \
         "ENTRY e { x = f32" x " parameter(0)\n z = f32[] constant(3)\n"                        \
         " ROOT r = f32" r " reduce(x, z), dimensions={" dim "}, to_apply=add }")
  static const struct {
    const char *text;
    i64 least, most;
  } all[] = {{REDUCE("[2051,4100]", "[4100]", "0"), 0, 0},
             {REDUCE("[40,1027,260]", "[40,260]", "1"), 0, 0},
             {REDUCE("[65536,128]", "[128]", "0"), 2 * 128 * 4, 16 * 128 * 4 + 256}};
#undef REDUCE
  for (size_t k = 0; k < HS_COUNT(all); k++) {
    agrees(all[k].text);
    assert_in_range(temporaries(all[k].text), all[k].least, all[k].most);
  }
  // the least of each column and where it is, and a mean, which is not what the passes come to
  agrees(
      MODULE("least { a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n"
             " j = s32[] parameter(3)\n l = pred[] compare(a, b), direction=LT\n"
             " q = pred[] compare(a, b), direction=EQ\n k = pred[] compare(i, j), direction=LT\n"
             " n = pred[] and(q, k)\n o = pred[] or(l, n)\n v = f32[] select(o, a, b)\n"
             " w = s32[] select(o, i, j)\n ROOT t = (f32[], s32[]) tuple(v, w) }\n"
             "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
             "f { x = f32[1030,4100] parameter(0)\n i = s32[1030,4100] iota(), iota_dimension=0\n"
             " z = f32[] constant(inf)\n k = s32[] constant(2147483647)\n"
             " ROOT r = (f32[4100], s32[4100]) reduce(x, i, z, k), dimensions={0}, "
             "to_apply=least }\n"
             "g { x = f32[1030,4100] parameter(0)\n z = f32[] constant(0)\n"
             " s = f32[4100] reduce(x, z), dimensions={0}, to_apply=add\n"
             " k = f32[] constant(0.001)\n b = f32[4100] broadcast(k), dimensions={}\n"
             " ROOT m = f32[4100] multiply(s, b) }\n"
             "ENTRY e { x = f32[1030,4100] parameter(0)\n"
             " r = (f32[4100], s32[4100]) fusion(x), kind=kInput, calls=f\n"
             " v = f32[4100] get-tuple-element(r), index=0\n"
             " i = s32[4100] get-tuple-element(r), index=1\n"
             " m = f32[4100] fusion(x), kind=kInput, calls=g\n"
             " ROOT t = (f32[4100], s32[4100], f32[4100]) tuple(v, i, m) }"));
}

static void layouts(void **st) {
  (void)st;
  agrees(MODULE(
      "ENTRY e { x = f32[5,6,7]{0,2,1} parameter(0)\n ROOT t = f32[5,6,7]{1,0,2} copy(x) }"));
  agrees(MODULE(LT "ENTRY e { x = f32[20,9]{0,1} parameter(0)\n ROOT s = f32[20,9]{0,1} sort(x), "
                   "dimensions={0}, to_apply=lt }"));
}

// Transposes that are nothing but a layout are no steps; one of a loop's state is still another
// value, and the result of one that is an argument is not the argument.
static void transposes_by_layout(void **st) {
  (void)st;
  static const char text[] = MODULE(
      "ENTRY e { x = f32[8,20,30,3] parameter(0)\n y = f32[8,20,30,3] negate(x)\n"
      " t = f32[8,3,20,30]{1,3,2,0} transpose(y), dimensions={0,3,1,2}\n"
      " z = f32[8,3,20,30]{1,3,2,0} exponential(t)\n"
      " u = f32[3,20,8,30]{0,3,1,2} transpose(z), dimensions={1,2,0,3}\n"
      " v = f32[30,3,20,8]{1,0,2,3} transpose(x), dimensions={2,3,1,0}\n"
      " ROOT r = (f32[3,20,8,30]{0,3,1,2}, f32[30,3,20,8]{1,0,2,3}, f32[8,3,20,30]{1,3,2,0}) "
      "tuple(u, v, t) }");
  agrees(text);
  hlo_module *m = parse(text);
  backend_options o = {.context = backends};
  backend_exe *e = NULL;
  explain(cpu->compile(m, &o, &e));
  assert_int_equal(cpu->compiled(e)->nkernels, 2);
  cpu->release(e);
  hlo_module_free(m);
  agrees(MODULE("cond { s = (s32[], f32[40,40]) parameter(0)\n"
                " i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
                " ROOT c = pred[] compare(i, n), direction=LT }\n"
                "body { s = (s32[], f32[40,40]) parameter(0)\n"
                " i = s32[] get-tuple-element(s), index=0\n one = s32[] constant(1)\n"
                " x = f32[40,40] get-tuple-element(s), index=1\n j = s32[] add(i, one)\n"
                " y = f32[40,40]{0,1} transpose(x), dimensions={1,0}\n"
                " ROOT t = (s32[], f32[40,40]{0,1}) tuple(j, y) }\n"
                "ENTRY e { x = f32[40,40] parameter(0)\n i = s32[] constant(0)\n"
                " t = (s32[], f32[40,40]) tuple(i, x)\n"
                " ROOT w = (s32[], f32[40,40]) while(t), condition=cond, body=body }"));
}

// An array handed through under another layout: to and from a call, as a tuple element, as loop
// state and in and out of a loop's computations, through a branch, and as the result of the module.
static void layouts_change_on_the_way(void **st) {
  (void)st;
  agrees(MODULE(
      "f { x = f32[5,7]{1,0} parameter(0)\n y = f32[7,5]{1,0} parameter(1)\n"
      " t = f32[5,7]{0,1} transpose(y), dimensions={1,0}\n s = f32[5,7]{1,0} subtract(x, t)\n"
      "ROOT r = (f32[7,5]{0,1}, f32[5,7]{0,1}) tuple(y, s) }\n"
      "ENTRY e { x = f32[5,7]{0,1} parameter(0)\n y = f32[7,5]{0,1} parameter(1)\n"
      " c = (f32[7,5]{1,0}, f32[5,7]{1,0}) call(x, y), to_apply=f\n"
      "g = f32[7,5]{0,1} get-tuple-element(c), index=0\n h = f32[5,7]{0,1} get-tuple-element(c), "
      "index=1\n"
      "k = f32[5,7]{1,0} transpose(g), dimensions={1,0}\n d = f32[5,7]{1,0} add(k, h)\n"
      "o = f32[5,7]{0,1} opt-barrier(d)\n ROOT t = (f32[5,7]{1,0}, f32[7,5]{1,0}, f32[5,7]{0,1}) "
      "tuple(o, g, x) }"));
  agrees(MODULE(
      "cond { s = (s32[], f32[5,7]{0,1}, f32[5,7]{1,0}) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[5,7]{0,1} get-tuple-element(s), index=1\n"
      "y = f32[1,1] slice(x), slice={[1:2],[3:4]}\n z = f32[] reshape(y)\n"
      " m = f32[] constant(1e9)\n p = pred[] compare(z, m), direction=LT\n"
      "n = s32[] constant(3)\n c = pred[] compare(i, n), direction=LT\n"
      " ROOT a = pred[] and(c, p) }\n"
      "body { s = (s32[], f32[5,7]{0,1}, f32[5,7]{0,1}) parameter(0)\n"
      " i = s32[] get-tuple-element(s), index=0\n x = f32[5,7]{1,0} get-tuple-element(s), index=1\n"
      "y = f32[5,7]{0,1} get-tuple-element(s), index=2\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n r = f32[5,7]{1,0} reverse(x), dimensions={0}\n"
      " z = f32[5,7]{1,0} add(r, y)\n"
      "ROOT t = (s32[], f32[5,7]{0,1}, f32[5,7]{1,0}) tuple(j, z, y) }\n"
      "ENTRY e { x = f32[5,7]{0,1} parameter(0)\n y = f32[5,7]{0,1} parameter(1)\n"
      " i = s32[] constant(0)\n t = (s32[], f32[5,7]{0,1}, f32[5,7]{0,1}) tuple(i, x, y)\n"
      "ROOT w = (s32[], f32[5,7]{1,0}, f32[5,7]{1,0}) while(t), condition=cond, body=body }"));
  agrees(MODULE(
      "a { x = f32[5,7]{1,0} parameter(0)\n ROOT r = f32[5,7]{0,1} reverse(x), dimensions={1} }\n"
      " b { ROOT x = f32[5,7]{0,1} parameter(0) }\n"
      "ENTRY e { x = f32[5,7]{0,1} parameter(0)\n y = f32[5,7]{1,0} parameter(1)\n"
      " z = f32[] constant(0)\n s = f32[1,1] slice(y), slice={[0:1],[0:1]}\n v = f32[] reshape(s)\n"
      "p = pred[] compare(v, z), direction=LT\n q = pred[] not(p)\n"
      " c = f32[5,7]{1,0} conditional(p, x, y), true_computation=a, false_computation=b\n"
      "d = f32[5,7]{1,0} conditional(q, x, y), true_computation=a, false_computation=b\n"
      " ROOT t = (f32[5,7]{1,0}, f32[5,7]{1,0}) tuple(c, d) }"));
  agrees(MODULE("f { x = f32[5,7]{1,0} parameter(0)\n y = f32[5,7]{0,1} parameter(1)\n"
                " n = f32[5,7]{0,1} negate(x)\n s = f32[5,7]{1,0} multiply(x, y)\n"
                " ROOT t = (f32[5,7]{0,1}, f32[5,7]{1,0}) tuple(n, s) }\n"
                "ENTRY e { x = f32[5,7]{0,1} parameter(0)\n y = f32[5,7]{1,0} parameter(1)\n"
                " ROOT r = (f32[5,7]{1,0}, f32[5,7]{0,1}) fusion(x, y), kind=kLoop, calls=f }"));
}

// A donated argument is updated in its own memory, and the caller's copy stays as it was.
static void donation(void **st) {
  (void)st;
  hlo_module *m = parse("HloModule t, input_output_alias={ {}: (0, {}, may-alias) }\n"
                        "ENTRY e { x = f32[64] parameter(0)\n y = f32[64] parameter(1)\n"
                        " ROOT s = f32[64] add(x, y) }");
  backend_result want = run_on(backend_find("interp"), m, NULL, NULL, NULL);
  backend_run_options ro = {.want_outputs = true, .warmup = 2, .min_runs = 4, .max_runs = 4};
  backend_compiled info;
  backend_result got = run_on(cpu, m, NULL, &ro, &info);
  explain(hlo_compare(want.outputs, got.outputs, hlo_near(1e-6, 1e-6)));
  assert_int_equal(got.timing.runs, 4);
  assert_int_equal(info.alias_bytes, 256);
  backend_result_free(&got);
  backend_result_free(&want);
  hlo_module_free(m);
}

// Arguments that are kept are as good as ones that are copied: also after runs that overwrote them,
// after other programs and other arguments; and copying them is part of the time asked for.
static void kept_arguments(void **st) {
  (void)st;
  hlo_module *m[2] = {parse("HloModule t, input_output_alias={ {}: (0, {}, may-alias) }\n"
                            "ENTRY e { x = f32[64] parameter(0)\n y = f32[64] parameter(1)\n"
                            " ROOT s = f32[64] add(x, y) }"),
                      parse("HloModule u\nENTRY e { x = f32[64] parameter(0)\n"
                            " y = f32[64] parameter(1)\n ROOT s = f32[64] multiply(x, y) }")};
  const backend_options bo = {.context = backends};
  backend_run_options ro = {.want_outputs = true, .min_runs = 4, .max_runs = 4};
  ro.keep_arguments = true;
  backend_exe *exe[2];
  for (int k = 0; k < 2; k++) explain(cpu->compile(m[k], &bo, &exe[k]));
  for (u32 round = 0; round < 6; round++) {
    u32 k = round % 2, n;
    hlo_literal **args;
    explain(hlo_inputs_random(m[k]->ctx, m[0], round / 4, &args, &n));
    // the same literals twice in a row
    for (int again = 0; again < 2; again++) {
      backend_result got = {0};
      hlo_literal *want;
      explain(cpu->run(exe[k], n, args, &ro, &got));
      explain(hlo_eval_module(m[k], n, args, NULL, &want));
      explain(hlo_compare(want, got.outputs, hlo_near(1e-6, 1e-6)));
      assert_int_equal(got.timing.runs, 4);
      hlo_literal_unref(want);
      backend_result_free(&got);
    }
    hlo_inputs_free(args, n);
  }
  // the program overwrites its argument, and the time is over when that is in its place
  hlo_literal **args;
  u32 n;
  backend_result got = {0};
  ro = (backend_run_options){.min_runs = 1,
                             .max_runs = 1000,
                             .min_seconds = 1e-9,
                             .max_seconds = 1e-9,
                             .keep_arguments = true};
  explain(hlo_inputs_random(m[0]->ctx, m[0], 1, &args, &n));
  explain(cpu->run(exe[0], n, args, &ro, &got));
  assert_int_equal(got.timing.runs, 1);
  backend_result_free(&got);
  hlo_inputs_free(args, n);
  for (int k = 0; k < 2; k++) {
    cpu->release(exe[k]);
    hlo_module_free(m[k]);
  }
}

// Several results of one kernel, each in the memory of an argument where the order of reading and
// writing allows it.
static void donation_to_several(void **st) {
  (void)st;
  static const struct {
    const char *text;
    i64 donated;
  } cases[] = {
      {"f { m = f32[9,70] parameter(0)\n g = f32[9,70] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " n = f32[9,70] add(m, g)\n q = f32[9,70] subtract(p, n)\n"
       " ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       2},
      {"f { m = f32[9,70] parameter(0)\n g = f32[70,9] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " h = f32[9,70] transpose(g), dimensions={1,0}\n n = f32[9,70] add(m, h)\n"
       "q = f32[9,70] subtract(p, n)\n ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       2},
      // The first result would overwrite what only the second reads.
      {"f { m = f32[9,70] parameter(0)\n g = f32[9,70] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " n = f32[9,70] add(p, g)\n q = f32[9,70] subtract(m, p)\n"
       " ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       1},
      // The second reads the first's argument elsewhere.
      {"f { m = f32[9,70] parameter(0)\n g = f32[9,70] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " n = f32[9,70] add(m, g)\n r = f32[9,70] reverse(m), dimensions={0}\n"
       " q = f32[9,70] subtract(p, r)\n"
       "ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       1},
      // Half of the first leaves its argument unread, and the second wants all of it.
      {"f { m = f32[9,70] parameter(0)\n g = f32[9,70] parameter(1)\n p = f32[9,70] parameter(2)\n"
       " k = s32[9,70] iota(), iota_dimension=1\n c = s32[] constant(32)\n"
       " cb = s32[9,70] broadcast(c), dimensions={}\n"
       "l = pred[9,70] compare(k, cb), direction=LT\n n = f32[9,70] select(l, m, g)\n"
       " q = f32[9,70] subtract(p, m)\n ROOT t = (f32[9,70], f32[9,70]) tuple(n, q) }\n",
       1},
  };
  for (size_t k = 0; k < HS_COUNT(cases); k++) {
    hs_buf b = {0};
    const char *g = strstr(cases[k].text, "g = f32[70,9]") ? "f32[70,9]" : "f32[9,70]";
    hs_buf_printf(
        &b,
        "HloModule t, input_output_alias={ {0}: (0, {}, may-alias), {1}: (2, {}, may-alias) }\n%s"
        "ENTRY e { m = f32[9,70] parameter(0)\n g = %s parameter(1)\n p = f32[9,70] parameter(2)\n"
        " ROOT r = (f32[9,70], f32[9,70]) fusion(m, g, p), kind=kLoop, calls=f }",
        cases[k].text, g);
    agrees(hs_buf_cstr(&b));
    hlo_module *m = parse(hs_buf_cstr(&b));
    backend_compiled info;
    backend_result r = run_on(cpu, m, NULL, NULL, &info);
#if HAVE_LLVM
    assert_int_equal(info.alias_bytes, cases[k].donated * 9 * 70 * 4);
#endif
    backend_result_free(&r);
    hlo_module_free(m);
    hs_buf_free(&b);
  }
}

static void measures(void **st) {
  (void)st;
  hlo_module *m = parse(MODULE(
      "ENTRY e { a = f32[64,64] parameter(0)\n b = f32[64,64] dot(a, a), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n ROOT c = f32[64,64] dot(b, a), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0} }"));
  backend_run_options ro = {.warmup = 1, .min_runs = 3, .max_runs = 5, .want_kernel_times = true};
  backend_compiled info;
  backend_result r = run_on(cpu, m, NULL, &ro, &info);
  assert_null(r.outputs);
  assert_in_range(r.timing.runs, 3, 5);
  assert_true(r.timing.first_ms > 0);
  const prof_recording *rec = r.timing.kernels;
  assert_non_null(rec);
  assert_int_equal(rec->nkernels, 2);
  assert_true(rec->nruns >= 3 && rec->dropped == 0 && rec->nevents == 2);
  assert_true(rec->events[0].begin_ns + rec->events[0].ns <= rec->events[1].begin_ns);
  double sum = 0;
  for (u32 k = 0; k < 2; k++) {
    assert_int_equal(rec->calls[k], 1);
    assert_true(prof_recorded_kernel(rec, k).median > 0);
    sum += rec->ms[k];
  }
  assert_true(sum <= rec->run_ms[0]);
  backend_result_free(&r);
  hlo_module_free(m);
}

// Every marker of the table, with one value, with a value whose layout it changes, with a tuple and
// with several values.
static void markers(void **st) {
  (void)st;
  enum { MARKER = 1, DEVICES = 2, BODY = 4, JAX = 8 };
  static const struct {
    const char *target;
    int flags;
  } rows[] = {
#define CUSTOM(id, target, shape, eval, cost, flags) {target, flags},
#include "core/analysis/customcalls.def"
#undef CUSTOM
  };
  static const char *const bodies[] = {
      " y = f32[3,4]{1,0} custom-call(x), custom_call_target=\"%s\"\n"
      " ROOT r = f32[3,4]{1,0} negate(y) }",
      " y = f32[3,4]{0,1} custom-call(x), custom_call_target=\"%s\"\n"
      " ROOT r = f32[3,4]{0,1} negate(y) }",
      " z = f32[3,4]{1,0} negate(x)\n t = (f32[3,4]{1,0}, f32[3,4]{1,0}) tuple(x, z)\n"
      " ROOT y = (f32[3,4]{1,0}, f32[3,4]{1,0}) custom-call(t), custom_call_target=\"%s\" }",
      " z = f32[3,4]{1,0} negate(x)\n"
      " ROOT y = (f32[3,4]{1,0}, f32[3,4]{0,1}) custom-call(x, z), custom_call_target=\"%s\" }",
  };
  u32 found = 0;
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    if (!(rows[k].flags & MARKER)) continue;
    found++;
    int n = (int)strcspn(rows[k].target, "*");
    char *target = hs_format("%.*s%s", n, rows[k].target, rows[k].target[n] ? "any" : "");
    for (size_t b = 0; b < HS_COUNT(bodies); b++) {
      char *head =
          hs_format("HloModule t\nENTRY e { x = f32[3,4]{1,0} parameter(0)\n%s", bodies[b]);
      const char *mark = strstr(head, "%s");
      char *text = hs_format("%.*s%s%s", (int)(mark - head), head, target, mark + 2);
      agrees(text);
      hs_free(text);
      hs_free(head);
    }
    hs_free(target);
  }
  assert_true(found >= 10);
}

static void unsupported_names_the_opcode(void **st) {
  (void)st;
  hlo_module *m =
      parse(MODULE("ENTRY e { t = token[] after-all()\n i = ((f32[3]), token[]) infeed(t)\n"
                   " ROOT r = (f32[3]) get-tuple-element(i), index=0 }"));
  backend_exe *e = NULL;
  hs_status s = cpu->compile(m, NULL, &e);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, HS_E_UNSUPPORTED);
  assert_non_null(strstr(s.err->message, "unsupported: infeed"));
  hs_status_drop(s);
  hlo_module_free(m);
}

// ---- in the calling process ---------------------------------------------------------------------
enum { N = 600 };

static cpu_local *compile_here(const char *text, hlo_module **m) {
  const cpu_local_options o = {.in_place = true};
  cpu_local *l = NULL;
  *m = parse(text);
  explain(cpu_local_compile(*m, &o, &l));
  return l;
}

static void fill(float *v, float from) {
  for (u32 k = 0; k < N; k++) v[k] = from + (float)k;
}

#define UPDATE                                                                                 \
  "HloModule t, input_output_alias={ {0}: (0, {}, may-alias) }\n"                              \
  "ENTRY e { x = f32[600] parameter(0)\n y = f32[600] parameter(1)\n s = f32[600] add(x, y)\n" \
  " p = f32[600] multiply(y, y)\n ROOT t = (f32[600], f32[600]) tuple(s, p) }"

static void runs(cpu_local *l, float *x, float *y, float *sum, float *product) {
  for (u32 again = 0; again < 3; again++) {
    fill(x, 1), fill(y, 5);
    const void *args[] = {x, y};
    void *results[] = {sum, product};
    explain(cpu_local_run(l, args, results, NULL));
    for (u32 k = 0; k < N; k++) {
      float a = 1 + (float)k, b = 5 + (float)k;
      assert_float_equal(y[k], b, 0);
      assert_float_equal(product[k], b * b, 0);
      assert_float_equal(sum[k], a + b, 0);
      if (sum != x) assert_float_equal(x[k], a, 0);
    }
  }
}

// Arguments that become results, and memory that is not aligned.
static void in_callers_memory(void **state) {
  (void)state;
  static _Alignas(64) float v[4][N + 16];
  hlo_module *m;
  cpu_local *l = compile_here(UPDATE, &m);
  assert_int_equal(cpu_local_argument_of(l, 0), 0);
  assert_int_equal(cpu_local_argument_of(l, 1), UINT32_MAX);
  runs(l, v[0], v[1], v[2], v[3]);
  runs(l, v[0], v[1], v[0], v[3]);  // the argument is the result
  // neither is aligned, then other memory than in the run before
  runs(l, v[0] + 1, v[1] + 1, v[2] + 1, v[3] + 1);
  runs(l, v[1], v[2], v[3], v[0]);
  cpu_local_free(l);
  hlo_module_free(m);
}

// Two buffers exchanged in every iteration; whatever lies where at the end, the result is there.
static void exchanged_in_callers_memory(void **state) {
  (void)state;
  static _Alignas(64) float x[N], y[N];
  hlo_module *m;
  cpu_local *l = compile_here(
      "HloModule t\nc { s = (s32[], f32[600]) parameter(0)\n i = s32[] get-tuple-element(s), "
      "index=0\n n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "b { s = (s32[], f32[600]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " x = f32[600] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n r = f32[600] reverse(x), dimensions={0}\n"
      " ROOT t = (s32[], f32[600]) tuple(j, r) }\n"
      "ENTRY e { x = f32[600] parameter(0)\n z = s32[] constant(0)\n"
      " t = (s32[], f32[600]) tuple(z, x)\n"
      " w = (s32[], f32[600]) while(t), condition=c, body=b\n"
      " ROOT y = f32[600] get-tuple-element(w), index=1 }",
      &m);
  for (u32 again = 0; again < 3; again++) {
    fill(x, (float)again);
    const void *args[] = {x};
    void *results[] = {y};
    explain(cpu_local_run(l, args, results, NULL));
    for (u32 k = 0; k < N; k++) {
      assert_float_equal(x[k], (float)(again + k), 0);
      assert_float_equal(y[k], (float)(again + N - 1 - k), 0);
    }
  }
  cpu_local_free(l);
  hlo_module_free(m);
}

#define REVERSED(n, of) " " n " = f32[600] reverse(" of "), dimensions={0}\n"
#define THREE_TIMES                                                       \
  "HloModule t\nENTRY e { x = f32[600] parameter(0)\n" REVERSED("a", "x") \
      REVERSED("b", "a") " ROOT" REVERSED("c", "b") "}"

// The first array is dead before the last result is begun, and lies in its memory, wherever it is.
static void before_the_result(void **state) {
  (void)state;
  static _Alignas(64) float v[3][N + 16];
  hlo_module *m;
  agrees(THREE_TIMES);
  assert_int_equal(temporaries(THREE_TIMES), hlo_heap_align(4 * N));
  cpu_local *l = compile_here(THREE_TIMES, &m);
  for (u32 again = 0; again < 4; again++) {
    float *x = v[again % 2] + (again == 2), *y = v[2] + (again == 1);
    fill(x, (float)again);
    const void *args[] = {x};
    void *results[] = {y};
    explain(cpu_local_run(l, args, results, NULL));
    for (u32 k = 0; k < N; k++) {
      assert_float_equal(x[k], (float)(again + k), 0);
      assert_float_equal(y[k], (float)(again + N - 1 - k), 0);
    }
  }
  cpu_local_free(l);
  hlo_module_free(m);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(control_flow),
      cmocka_unit_test(state_shared),
      cmocka_unit_test(rows_in_place),
      cmocka_unit_test(parts_of_columns),
      cmocka_unit_test(layouts),
      cmocka_unit_test(transposes_by_layout),
      cmocka_unit_test(layouts_change_on_the_way),
      cmocka_unit_test(donation),
      cmocka_unit_test(kept_arguments),
      cmocka_unit_test(donation_to_several),
      cmocka_unit_test(measures),
      cmocka_unit_test(markers),
      cmocka_unit_test(unsupported_names_the_opcode),
      cmocka_unit_test(in_callers_memory),
      cmocka_unit_test(exchanged_in_callers_memory),
      cmocka_unit_test(before_the_result),
  };
  return run_cpu_tests(argc, argv, "cpu_programs", tests, HS_COUNT(tests));
}
