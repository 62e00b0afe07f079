// Unit tests of passes that clean up: what they write into the module or into attributes, where
// values alone do not show it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "passes/run/rewrite.h"
#include "tests/unit/modules.h"

// Arguments that nothing reads leave the program, its layout and its donors; one that an output is
// written over stays.
static void program_parameters(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m, input_output_alias={ {}: (3, {}, may-alias) }, buffer_donor={ (0, {}), (2, {}) "
      "}, entry_computation_layout={(f32[2]{0}, f32[3,2]{0,1}, f32[4]{0}, f32[4]{0})->f32[4]{0}}\n"
      "ENTRY e {\n"
      "  a = f32[2] parameter(0)\n"
      "  b = f32[3,2]{0,1} parameter(1)\n"
      "  c = f32[4] parameter(2)\n"
      "  d = f32[4] parameter(3)\n"
      "  unread = f32[3,2]{0,1} negate(b)\n"
      "  ROOT r = f32[4] negate(c)\n"
      "}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "dce"));
  assert_int_equal(m->entry->nparams, 4);
  assert_true(run_verified(m, "dce{remove_dead_parameters_from_entry_computation=true}"));
  assert_int_equal(m->entry->nparams, 2);
  assert_true(says(m, "entry_computation_layout={(f32[4]{0}, f32[4]{0})->f32[4]{0}}"));
  assert_true(says(m, "input_output_alias={ {}: (1, {}, may-alias) }"));
  assert_true(says(m, "buffer_donor={ (0, {}) }"));
  hlo_module_free(m);
}

// What an asynchronous operation does not read of its operands leaves its shape, too.
static void async_operands(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "wrapped {\n  x = f32[4] parameter(0)\n  y = f32[3] parameter(1)\n"
      "  ROOT r = f32[3] negate(y)\n}\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[3] parameter(1)\n"
      "  big = f32[4] exponential(a)\n  s = ((f32[4], f32[3]), f32[3], s32[]) async-start(big, b), "
      "calls=wrapped\n"
      "  u = ((f32[4], f32[3]), f32[3], s32[]) async-update(s)\n  ROOT d = f32[3] async-done(u)\n"
      "}\n";
  hlo_module *m = parse(text);
  assert_false(run_verified(m, "dce"));
  assert_true(run_verified(m, "dce{use_call_analysis=true}"));
  assert_int_equal(hlo_find_instr(m, "s")->noperands, 1);
  assert_int_equal(m->nops[HLO_EXP], 0);
  hlo_module_free(m);
}

// Outputs go over arguments of as many bytes, large ones first; of those that are declared, or of
// any.
static void outputs_over_arguments(void **state) {
  (void)state;
  static const char text[] = "HloModule m, buffer_donor={ (0, {}), (1, {1}) }\n"
                             "ENTRY e {\n"
                             "  a = f32[4] parameter(0)\n"
                             "  p = (f32[2,2], f32[8]) parameter(1)\n"
                             "  b = f32[2,2] get-tuple-element(p), index=0\n"
                             "  c = f32[8] get-tuple-element(p), index=1\n"
                             "  x = f32[4] exponential(a)\n"
                             "  y = s32[2,2] convert(b)\n"
                             "  z = f32[2,4] reshape(c)\n"
                             "  u = (s32[2,2], f32[2,4]) tuple(y, z)\n"
                             "  ROOT t = (f32[4], (s32[2,2], f32[2,4])) tuple(x, u)\n"
                             "}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "optimize_input_output_buffer_alias"));
  assert_true(
      says(m, "input_output_alias={ {1,1}: (1, {1}, may-alias), {0}: (0, {}, may-alias) }"));
  assert_false(run_verified(m, "optimize_input_output_buffer_alias"));
  assert_true(
      run_verified(m, "optimize_input_output_buffer_alias{registered_buffer_donor_only=false}"));
  assert_true(says(m, "{1,0}: (1, {0}, may-alias)"));
  hlo_module_free(m);
}

// Copies carry the call's name before their own, once, and what it says of fusing; the root what it
// says at all.
static void inlined_names(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "f {\n  x = f32[4] parameter(0)\n  y = f32[4] negate(x), metadata={op_name=\"neg\"}\n"
      "  z = f32[4] exponential(y), metadata={op_name=\"top/exp\"}\n  ROOT r = f32[4] sine(z)\n}\n"
      "g {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] cosine(x)\n}\n"
      "ENTRY e {\n"
      "  a = f32[4] parameter(0)\n"
      "  b = f32[4] call(a), to_apply=f, frontend_attributes={MUST_FUSE=\"g\",other=\"o\"}, "
      "metadata={op_name=\"top/\"}\n"
      "  ROOT r = f32[4] call(b), to_apply=g, frontend_attributes={other=\"o\"}, "
      "sharding={replicated}\n"
      "}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "call-inliner"));
  assert_true(
      says(m, "negate(%a), frontend_attributes={MUST_FUSE=\"g\"}, metadata={op_name=\"top/neg\"}"));
  assert_true(says(m, "frontend_attributes={MUST_FUSE=\"g\"}, metadata={op_name=\"top/exp\"}"));
  assert_true(
      says(m, "sine(%z.1), frontend_attributes={MUST_FUSE=\"g\"}, metadata={op_name=\"top\"}"));
  assert_true(says(m, "sharding={replicated}, frontend_attributes={other=\"o\"}"));
  hlo_module_free(m);
}

// A body inlined twice talks over two channels.
static void channels_of_copies(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n}\n"
      "f {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), channel_id=7, "
      "replica_groups={{0}}, use_global_device_ids=true, to_apply=sum\n}\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[4] call(a), to_apply=f\n"
      "  ROOT c = f32[4] call(b), to_apply=f\n}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "call-inliner{uniquify_channel_ids=true}"));
  assert_true(says(m, "channel_id=8"));
  assert_true(says(m, "channel_id=9"));
  hlo_module_free(m);
}

// What an asynchronous operation wraps stays one instruction.
static void wrapped_calls(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "f {\n  x = f32[4] parameter(0)\n  y = f32[4] negate(x)\n  ROOT r = f32[4] exponential(y)\n"
      "}\n"
      "wrapped {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] call(x), to_apply=f\n}\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  s = ((f32[4]), f32[4], s32[]) async-start(a), "
      "calls=wrapped\n  ROOT d = f32[4] async-done(s)\n}\n";
  hlo_module *m = parse(text);
  assert_false(run_verified(m, "call-inliner"));
  hlo_module_free(m);
}

// Reducers of collectives are not shared with those of others.
static void reducers_of_collectives(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n}\n"
      "sum_too {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n"
      "}\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
      "  b = f32[4] all-reduce(a), replica_groups={}, to_apply=sum\n"
      "  ROOT r = f32[] reduce(b, z), dimensions={0}, to_apply=sum_too\n}\n";
  hlo_module *m = parse(text);
  assert_false(run_verified(m, "computation-deduplicator"));
  hlo_module_free(m);
}

// What differs in sharding or configuration is not one, whatever it computes.
static void told_apart(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[4] negate(a), "
      "frontend_attributes={xla.sdy.sharding=\"x\"}\n"
      "  c = f32[4] negate(a), frontend_attributes={xla.sdy.sharding=\"y\"}\n"
      "  d = f32[4] sine(a), sharding={replicated}\n  f = f32[4] sine(a), sharding={manual}\n"
      "  g = f32[4] cosine(a), backend_config={\"k\":1}\n  h = f32[4] cosine(a)\n"
      "  ROOT t = (f32[4], f32[4], f32[4], f32[4], f32[4], f32[4]) tuple(b, c, d, f, g, h)\n}\n";
  hlo_module *m = parse(text);
  assert_false(run_verified(m, "cse"));
  hlo_module_free(m);
  m = parse("HloModule m\nENTRY e {\n  a = f32[] constant(2)\n  b = f32[] negate(a)\n"
            "  d = f32[] domain(b), domain={kind=\"sharding\", entry={replicated}, exit={manual}}\n"
            "  k = f32[] constant(2)\n  ROOT r = f32[] multiply(d, k)\n}\n");
  assert_false(run_verified(m, "cse"));
  hlo_module_free(m);
  m = parse(
      "HloModule m\nENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[4] sine(a)\n"
      "  c = f32[4] sine(a), sharding={replicated}\n  ROOT t = (f32[4], f32[4]) tuple(b, c)\n}\n");
  assert_true(run_verified(m, "cse"));
  hlo_module_free(m);
}

// Elements that a fusion must hold stay its own.
static void fused_on_purpose(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[4] negate(a), "
      "frontend_attributes={MUST_FUSE=\"x\"}\n  c = f32[4] negate(a), "
      "frontend_attributes={MUST_FUSE=\"x\"}\n"
      "  d = f32[4] sine(a)\n  f = f32[4] sine(a)\n  g = f32[4] add(b, c)\n  h = f32[4] add(d, f)\n"
      "  ROOT r = f32[4] subtract(g, h)\n}\n";
  hlo_module *m = parse(text);
  assert_false(run_verified(m, "cse{only_fusion_computations=true}"));
  assert_false(run_verified(m, "cse{only_scalars=true}"));
  assert_true(run_verified(m, "cse"));
  assert_int_equal(m->nops[HLO_NEGATE], 2);
  assert_int_equal(m->nops[HLO_SIN], 1);
  hlo_module_free(m);
}

// ---- sizes --------------------------------------------------------------------------------------
// A call that only its library knows keeps its dynamic types, between two calls that make them so;
// dynamic_padder leaves what it made.
static void size_into_an_unknown_call(void **state) {
  (void)state;
  hlo_module *m = parse(
      "HloModule m\n"
      "ENTRY e {\n  x = s32[4] parameter(0)\n  n = s32[] parameter(1)\n"
      "  cut = s32[<=4] set-dimension-size(x, n), dimensions={0}\n"
      "  y = s32[<=4] custom-call(cut), custom_call_target=\"nobody knows\"\n"
      "  z = s32[<=4] negate(y)\n  ROOT k = s32[] get-dimension-size(z), dimensions={0}\n}\n");
  assert_true(run_verified(m, "dynamic_padder"));
  assert_int_equal(m->nops[HLO_CUSTOM_CALL], 3);
  assert_int_equal(m->nops[HLO_SET_DIMENSION_SIZE], 0);
  assert_false(run_verified(m, "dynamic_padder"));
  hlo_module_free(m);
}

// ---- loops --------------------------------------------------------------------------------------
// The counter starts as a sum, and condition and step are inside of a fusion and a call; its user
// after the loop knows its end.
static void counted_through_calls(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "below {\n  i = s32[] parameter(0)\n  n = s32[] constant(9)\n"
      "  ROOT lt = pred[] compare(i, n), direction=LT\n}\n"
      "next {\n  i = s32[] parameter(0)\n  two = s32[] constant(2)\n  ROOT s = s32[] add(i, two)\n"
      "}\n"
      "cond {\n  s = (f32[3], s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=1\n"
      "  ROOT f = pred[] fusion(i), kind=kLoop, calls=below\n}\n"
      "body {\n  s = (f32[3], s32[]) parameter(0)\n  x = f32[3] get-tuple-element(s), index=0\n"
      "  i = s32[] get-tuple-element(s), index=1\n  j = s32[] call(i), to_apply=next\n"
      "  y = f32[3] negate(x)\n  ROOT t = (f32[3], s32[]) tuple(y, j)\n}\n"
      "ENTRY e {\n  a = f32[3] parameter(0)\n  one = s32[] constant(1)\n"
      "  start = s32[] add(one, one)\n  t = (f32[3], s32[]) tuple(a, start)\n"
      "  w = (f32[3], s32[]) while(t), condition=cond, body=body, "
      "backend_config={\"known_trip_count\":{\"n\":\"77\"}}\n"
      "  ROOT i = s32[] get-tuple-element(w), index=1\n}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "while-loop-trip-count-annotator"));
  assert_true(says(
      m, "{\"known_trip_count\":{\"n\":\"4\"},\"known_init_step\":{\"init\":\"2\",\"step\":\"2\"},"
         "\"known_induction_variable\":{\"tuple_index\":\"1\"}}"));
  assert_int_equal(m->entry->root->opcode, HLO_CONSTANT);
  assert_int_equal(hlo_literal_i64(hlo_constant_value(m->entry->root), 0), 10);
  hlo_module_free(m);
}

// Where the condition is not an order, the turns are known, but start and step are not written
// down.
static void counted_by_trying(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "cond {\n  s = (s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(9)\n  ROOT ne = pred[] compare(i, n), direction=NE\n}\n"
      "body {\n  s = (s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  ROOT t = (s32[]) tuple(j)\n}\n"
      "ENTRY e {\n  two = s32[] constant(2)\n  t = (s32[]) tuple(two)\n"
      "  w = (s32[]) while(t), condition=cond, body=body\n  ROOT i = s32[] get-tuple-element(w), "
      "index=0\n}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "while-loop-trip-count-annotator"));
  assert_true(says(
      m,
      "{\"known_trip_count\":{\"n\":\"7\"},\"known_induction_variable\":{\"tuple_index\":\"0\"}}"));
  assert_int_equal(m->entry->root->opcode, HLO_GET_TUPLE_ELEMENT);
  hlo_module_free(m);
}

// A bound that the state carries is not a counter's alone: nothing is written down.
static void not_counted(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "cond {\n  s = (s32[], s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] get-tuple-element(s), index=1\n  ROOT lt = pred[] compare(i, n), direction=LT\n"
      "}\n"
      "body {\n  s = (s32[], s32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n  ROOT t = (s32[], s32[]) tuple(j, n)\n}\n"
      "ENTRY e {\n  n = s32[] parameter(0)\n  zero = s32[] constant(0)\n"
      "  t = (s32[], s32[]) tuple(zero, n)\n  ROOT w = (s32[], s32[]) while(t), condition=cond, "
      "body=body\n}\n";
  hlo_module *m = parse(text);
  assert_false(run_verified(m, "while-loop-trip-count-annotator"));
  hlo_module_free(m);
}

// A body that moves slices to the host names the elements that say where they lie: the counter, one
// that trails it by a turn, and one that goes its own way.
static void places_on_the_host(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "cond {\n  s = (s32[], s32[], s32[], f32[9,2]) parameter(0)\n"
      "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(5)\n"
      "  ROOT lt = pred[] compare(i, n), direction=LT\n}\n"
      "body {\n  s = (s32[], s32[], s32[], f32[9,2]) parameter(0)\n"
      "  i = s32[] get-tuple-element(s), index=0\n  late = s32[] get-tuple-element(s), index=1\n"
      "  own = s32[] get-tuple-element(s), index=2\n"
      "  x = f32[9,2] get-tuple-element(s), index=3\n  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n  k = s32[] subtract(own, one)\n  z = s32[] constant(0)\n"
      "  part = f32[1,2] dynamic-slice(x, late, z), dynamic_slice_sizes={1,2}\n"
      "  here = f32[1,2] custom-call(part), custom_call_target=\"MoveToDevice\"\n"
      "  at = s32[] add(own, i)\n  y = f32[9,2] dynamic-update-slice(x, here, at, z)\n"
      "  ROOT t = (s32[], s32[], s32[], f32[9,2]) tuple(j, i, k, y)\n}\n"
      "ENTRY e {\n  a = f32[9,2] parameter(0)\n  zero = s32[] constant(0)\n"
      "  before = s32[] constant(-1)\n  four = s32[] constant(4)\n"
      "  t = (s32[], s32[], s32[], f32[9,2]) tuple(zero, before, four, a)\n"
      "  ROOT w = (s32[], s32[], s32[], f32[9,2]) while(t), condition=cond, body=body\n}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "while-loop-trip-count-annotator"));
  assert_true(says(m,
                   "\"dynamic_variables\":[{\"tuple_index\":\"0\",\"init\":\"0\",\"step\":\"1\"},"
                   "{\"tuple_index\":\"1\",\"init\":\"-1\",\"step\":\"1\"},{\"tuple_index\":\"2\","
                   "\"init\":\"4\",\"step\":\"-1\"}]}"));
  hlo_module_free(m);
}

// A loop that must wait for another instruction keeps its state, but not constants in it; what
// moves out of it leaves it waiting.
static void loops_that_wait(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "cond {\n  s = (s32[], s32[], f32[3], f32[3]) parameter(0)\n"
      "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] get-tuple-element(s), index=1\n"
      "  ROOT lt = pred[] compare(i, n), direction=LT\n}\n"
      "body {\n  s = (s32[], s32[], f32[3], f32[3]) parameter(0)\n"
      "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] get-tuple-element(s), index=1\n"
      "  x = f32[3] get-tuple-element(s), index=2\n"
      "  k = f32[3] get-tuple-element(s), index=3\n  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n  e = f32[3] exponential(k)\n  y = f32[3] add(x, e)\n"
      "  ROOT t = (s32[], s32[], f32[3], f32[3]) tuple(j, n, y, k)\n}\n"
      "ENTRY e {\n  a = f32[3] parameter(0)\n  b = f32[3] parameter(1)\n  c = f32[3] negate(a)\n"
      "  zero = s32[] constant(0)\n  four = s32[] constant(4)\n"
      "  t = (s32[], s32[], f32[3], f32[3]) tuple(zero, four, a, b)\n"
      "  w = (s32[], s32[], f32[3], f32[3]) while(t), condition=cond, body=body, "
      "control-predecessors={c}\n  x = f32[3] get-tuple-element(w), index=2\n"
      "  ROOT r = f32[3] add(x, c)\n}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "simplify-while-loops"));
  assert_int_equal(hlo_find_instr(m, "w")->shape->nelems, 4);
  assert_true(run_verified(m, "while-loop-invariant-code-motion"));
  assert_int_equal(hlo_find_instr(m, "w")->shape->nelems, 5);
  assert_int_equal(hlo_find_instr(m, "w")->ctrl_preds->n, 1);
  hlo_module_free(m);
}

// What only waits, for elements that nobody needs, goes with them; what waited for it waits for
// what it waited for.
static void waiting_inside(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "cond {\n  s = (s32[], f32[3], f32[3]) parameter(0)\n  i = s32[] get-tuple-element(s), "
      "index=0\n  n = s32[] constant(5)\n  ROOT lt = pred[] compare(i, n), direction=LT\n}\n"
      "body {\n  s = (s32[], f32[3], f32[3]) parameter(0)\n  i = s32[] get-tuple-element(s), "
      "index=0\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
      "  x = f32[3] get-tuple-element(s), index=1\n"
      "  unread = f32[3] get-tuple-element(s), index=2\n  z = f32[3] sine(x)\n"
      "  y = f32[3] negate(unread), control-predecessors={z}\n"
      "  e = f32[3] exponential(x), control-predecessors={y}\n"
      "  v = f32[3] add(e, z)\n  ROOT t = (s32[], f32[3], f32[3]) tuple(j, v, y), "
      "control-predecessors={y}\n}\n"
      "ENTRY e {\n  a = f32[3] parameter(0)\n  zero = s32[] constant(0)\n"
      "  t = (s32[], f32[3], f32[3]) tuple(zero, a, a)\n"
      "  w = (s32[], f32[3], f32[3]) while(t), condition=cond, body=body\n"
      "  ROOT x = f32[3] get-tuple-element(w), index=1\n}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "simplify-while-loops"));
  assert_int_equal(m->nops[HLO_NEGATE], 0);
  assert_int_equal(hlo_find_instr(m, "e")->ctrl_preds->n, 1);
  assert_ptr_equal(hlo_find_instr(m, "e")->ctrl_preds->v[0], hlo_find_instr(m, "z"));
  hlo_module_free(m);
}

// What moves out of a loop or a call says whose it was; the loop's new element stands for it.
static void origins_of_what_moves(void **state) {
  (void)state;
  static const char loop[] =
      "HloModule m\n"
      "cond {\n  s = (s32[], f32[4], f32[4]) parameter(0)\n  i = s32[] get-tuple-element(s), "
      "index=0\n  n = s32[] constant(5)\n  ROOT lt = pred[] compare(i, n), direction=LT\n}\n"
      "body {\n  s = (s32[], f32[4], f32[4]) parameter(0)\n  i = s32[] get-tuple-element(s), "
      "index=0\n  x = f32[4] get-tuple-element(s), index=1\n  k = f32[4] get-tuple-element(s), "
      "index=2\n"
      "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
      "  e = f32[4] exponential(k), origin={{\"exp\"}}\n  y = f32[4] add(x, e)\n"
      "  ROOT t = (s32[], f32[4], f32[4]) tuple(j, y, k)\n}\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[4] parameter(1)\n"
      "  zero = s32[] constant(0)\n  t = (s32[], f32[4], f32[4]) tuple(zero, a, b)\n"
      "  ROOT w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body, origin={({\"w\" "
      "{0}}, {\"w\" {1}}, {\"w\" {2}})}\n}\n";
  hlo_module *m = parse(loop);
  assert_true(run_verified(m, "while-loop-invariant-code-motion"));
  assert_true(says(m, "exponential(%b), origin={{\"w#*/exp\"}}"));
  assert_true(says(m, "origin={({\"w\" {0}}, {\"w\" {1}}, {\"w\" {2}}, {\"w#*/exp\"})}"));
  hlo_module_free(m);
  static const char call[] =
      "HloModule m\n"
      "f {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] negate(x), origin={{\"r\"}}\n}\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[4] call(a), to_apply=f, origin={{\"b\"}}\n"
      "  ROOT c = f32[4] call(b), to_apply=f, origin={{\"c\"}}\n}\n";
  m = parse(call);
  assert_true(run_verified(m, "call-inliner"));
  assert_true(says(m, "negate(%a), origin={{\"b/r\"}}"));
  assert_true(says(m, "origin={{\"c/r\"}}"));
  hlo_module_free(m);
}

// Shardings of a state that gains an element would not fit it.
static void shardings_of_states(void **state) {
  (void)state;
  static const char text[] =
      "HloModule m\n"
      "cond {\n  s = (s32[], f32[4], f32[4]) parameter(0), "
      "sharding={{replicated},{devices=[2]<=[2]},{replicated}}\n"
      "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(5)\n"
      "  ROOT lt = pred[] compare(i, n), direction=LT\n}\n"
      "body {\n  s = (s32[], f32[4], f32[4]) parameter(0), "
      "sharding={{replicated},{devices=[2]<=[2]},{replicated}}\n"
      "  i = s32[] get-tuple-element(s), index=0\n  x = f32[4] get-tuple-element(s), index=1\n"
      "  k = f32[4] get-tuple-element(s), index=2\n  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n  e = f32[4] exponential(k)\n  y = f32[4] add(x, e)\n"
      "  ROOT t = (s32[], f32[4], f32[4]) tuple(j, y, k), "
      "sharding={{replicated},{devices=[2]<=[2]},{replicated}}\n}\n"
      "ENTRY e {\n  a = f32[4] parameter(0)\n  b = f32[4] parameter(1)\n"
      "  zero = s32[] constant(0)\n  t = (s32[], f32[4], f32[4]) tuple(zero, a, b)\n"
      "  ROOT w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body, "
      "sharding={{replicated},{devices=[2]<=[2]},{replicated}}\n}\n";
  hlo_module *m = parse(text);
  assert_true(run_verified(m, "while-loop-invariant-code-motion"));
  assert_true(run_verified(m, "simplify-while-loops"));
  hlo_module_free(m);
}

// Two chains of computations, each of which calls the one below twice: 2^depth paths lead to the
// leaves, `leaf` and `other` being their operations.
static hlo_module *shared_calls(u32 depth, const char *leaf, const char *other) {
  hs_buf b = {0};
  hs_buf_puts(&b, "HloModule m\n");
  for (u32 chain = 0; chain < 2; chain++) {
    hs_buf_printf(&b, "f%u_0 {\n  x = f32[] parameter(0)\n  ROOT y = f32[] %s(x)\n}\n", chain,
                  chain ? other : leaf);
    for (u32 k = 1; k <= depth; k++)
      hs_buf_printf(&b,
                    "f%u_%u {\n  x = f32[] parameter(0)\n  a = f32[] call(x), to_apply=f%u_%u\n"
                    "  b = f32[] call(x), to_apply=f%u_%u\n  ROOT y = f32[] add(a, b)\n}\n",
                    chain, k, chain, k - 1, chain, k - 1);
  }
  hs_buf_printf(&b,
                "ENTRY e {\n  x = f32[] parameter(0)\n  a = f32[] call(x), to_apply=f0_%u\n"
                "  b = f32[] call(x), to_apply=f1_%u\n  ROOT y = f32[] add(a, b)\n}\n",
                depth, depth);
  hlo_module *m = parse(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return m;
}

// Structural comparison of shared call graphs takes time in their size, not in their paths.
static void shared_call_graphs(void **state) {
  (void)state;
  for (u32 different = 0; different < 2; different++) {
    hlo_module *m = shared_calls(60, "negate", different ? "exponential" : "negate");
    const hlo_instr *a = hlo_operand(m->entry->root, 0), *b = hlo_operand(m->entry->root, 1);
    hlo_computation *f = hlo_attr_comp(a, HLO_ATTR_TO_APPLY),
                    *g = hlo_attr_comp(b, HLO_ATTR_TO_APPLY);
    hs_arena scratch = {0};
    u64 *memo = HS_NEW_ARRAY(&scratch, u64, m->next_comp_id);
    assert_int_equal(pass_comp_equal(f, g, true, &scratch), !different);
    assert_int_equal(pass_attrs_equal(a, b, true, &scratch), !different);
    assert_int_equal(pass_comp_hash(f, memo) == pass_comp_hash(g, memo), !different);
    hs_arena_free(&scratch);
    run_verified(m, "cse");
    assert_int_equal(hlo_operand(m->entry->root, 0) == hlo_operand(m->entry->root, 1), !different);
    hlo_module_free(m);
  }
}

// A call that overwrites a buffer in a layout of its own does not force that layout on the argument
// that became the buffer.
static void buffers_overwritten(void **state) {
  (void)state;
  hlo_module *m = parse("ENTRY e {\n"
                        "  x = s32[2,8]{1,0} parameter(0)\n"
                        "  b = b(s32[2,8]) custom-call(x), custom_call_target=\"Pin\", "
                        "output_to_operand_aliasing={{}: (0, {})}\n"
                        "  c = b(s32[2,8]{0,1}) custom-call(b), custom_call_target=\"f\", "
                        "output_to_operand_aliasing={{}: (0, {})}, "
                        "operand_layout_constraints={b(s32[2,8]{0,1})}\n"
                        "  ROOT v = s32[2,8]{1,0} custom-call(c), custom_call_target=\"Unpin\", "
                        "output_to_operand_aliasing={{}: (0, {})}\n}\n");
  run_verified(m, "layout-assignment{cpu=false}");
  assert_true(says(m, "s32[2,8]{0,1} copy(%x)"));
  assert_true(says(m, "custom-call(%copy), custom_call_target=\"Pin\""));
  hlo_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shared_call_graphs),
                                     cmocka_unit_test(program_parameters),
                                     cmocka_unit_test(async_operands),
                                     cmocka_unit_test(outputs_over_arguments),
                                     cmocka_unit_test(inlined_names),
                                     cmocka_unit_test(channels_of_copies),
                                     cmocka_unit_test(wrapped_calls),
                                     cmocka_unit_test(reducers_of_collectives),
                                     cmocka_unit_test(fused_on_purpose),
                                     cmocka_unit_test(told_apart),
                                     cmocka_unit_test(size_into_an_unknown_call),
                                     cmocka_unit_test(counted_through_calls),
                                     cmocka_unit_test(not_counted),
                                     cmocka_unit_test(counted_by_trying),
                                     cmocka_unit_test(places_on_the_host),
                                     cmocka_unit_test(loops_that_wait),
                                     cmocka_unit_test(origins_of_what_moves),
                                     cmocka_unit_test(waiting_inside),
                                     cmocka_unit_test(shardings_of_states),
                                     cmocka_unit_test(buffers_overwritten)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
