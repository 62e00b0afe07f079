// devices.h — programs for several devices, which run in step and decide differently: what every
// backend that has several must give, as tests/unit/backends/cpu.h runs modules.
#ifndef TESTS_UNIT_DEVICES_H
#define TESTS_UNIT_DEVICES_H

#include "tests/unit/backends/cpu.h"

#define ADD "add { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b) }\n"
#define FOUR "HloModule t, num_partitions=4\n"

static void collectives(void **state) {
  (void)state;
  agrees(FOUR ADD
         "ENTRY e { p = u32[] partition-id()\n i = s32[] convert(p)\n"
         " x = s32[3] parameter(0)\n b = s32[3] broadcast(i), dimensions={}\n"
         " y = s32[3] multiply(x, b)\n"
         " r = s32[3] all-reduce(y), channel_id=1, use_global_device_ids=true,"
         " replica_groups={{0,1},{2,3}}, to_apply=add\n"
         " g = s32[12] all-gather(r), channel_id=2, use_global_device_ids=true,"
         " replica_groups={{0,1,2,3}}, dimensions={0}\n"
         " q = s32[3] collective-permute(y), channel_id=3, source_target_pairs={{0,1},{3,0}}\n"
         " ROOT t = (s32[12], s32[3]) tuple(g, q) }");
  // replicas, and no groups: all of them
  agrees("HloModule t, replica_count=3\n" ADD
         "ENTRY e { r = u32[] replica-id()\n i = s32[] convert(r)\n"
         " ROOT s = s32[] all-reduce(i), replica_groups={}, to_apply=add }");
  // on one device each is its own group
  agrees(MODULE(ADD "ENTRY e { x = s32[4] parameter(0)\n r = u32[] replica-id()\n"
                    " i = s32[] convert(r)\n b = s32[4] broadcast(i), dimensions={}\n"
                    " s = s32[4] all-reduce(x), replica_groups={{0}}, to_apply=add\n"
                    " ROOT y = s32[4] add(s, b) }"));
}

// Trip counts and branches that depend on the device; a collective inside of a loop that all leave
// together.
static void control_flow(void **state) {
  (void)state;
  agrees(FOUR ADD
         "c { s = (s32[], s32[], f32[300]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
         " n = s32[] get-tuple-element(s), index=1\n"
         " ROOT c = pred[] compare(i, n), direction=LT }\n"
         "b { s = (s32[], s32[], f32[300]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
         " n = s32[] get-tuple-element(s), index=1\n x = f32[300] get-tuple-element(s), index=2\n"
         " one = s32[] constant(1)\n j = s32[] add(i, one)\n"
         " r = f32[300] reverse(x), dimensions={0}\n y = f32[300] add(r, x)\n"
         " ROOT t = (s32[], s32[], f32[300]) tuple(j, n, y) }\n"
         "ENTRY e { p = u32[] partition-id()\n n = s32[] convert(p)\n x = f32[300] parameter(0)\n"
         " i = s32[] constant(0)\n t = (s32[], s32[], f32[300]) tuple(i, n, x)\n"
         " w = (s32[], s32[], f32[300]) while(t), condition=c, body=b\n"
         " k = s32[] get-tuple-element(w), index=0\n y = f32[300] get-tuple-element(w), index=2\n"
         " n1 = s32[1] reshape(n)\n"
         " g = s32[4] all-gather(n1), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0},"
         " use_global_device_ids=true\n"
         " h = f32[1200] all-gather(y), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={0},"
         " use_global_device_ids=true\n"
         " ROOT r = (s32[4], f32[1200]) tuple(g, h) }");
  agrees(FOUR ADD
         "p { x = s32[2] parameter(0)\n ROOT y = s32[2] negate(x) }\n"
         "q { x = s32[2] parameter(0)\n ROOT y = s32[2] add(x, x) }\n"
         "ENTRY e { p = u32[] partition-id()\n i = s32[] convert(p)\n x = s32[2] parameter(0)\n"
         " two = s32[] constant(2)\n less = pred[] compare(i, two), direction=LT\n"
         " y = s32[2] conditional(less, x, x), true_computation=p, false_computation=q\n"
         " ROOT r = s32[2] all-reduce(y), channel_id=1, use_global_device_ids=true,"
         " replica_groups={{0,1,2,3}}, to_apply=add }");
  agrees(FOUR ADD
         "c { s = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
         " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
         "b { s = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
         " x = s32[] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
         " j = s32[] add(i, one)\n p = u32[] partition-id()\n k = s32[] convert(p)\n"
         " y = s32[] add(x, k)\n"
         " r = s32[] all-reduce(y), channel_id=1, use_global_device_ids=true,"
         " replica_groups={{0,1,2,3}}, to_apply=add\n ROOT t = (s32[], s32[]) tuple(j, r) }\n"
         "ENTRY e { x = s32[] parameter(0)\n i = s32[] constant(0)\n"
         " t = (s32[], s32[]) tuple(i, x)\n"
         " ROOT w = (s32[], s32[]) while(t), condition=c, body=b }");
}

static void manual_regions(void **state) {
  (void)state;
  agrees(FOUR ADD "ENTRY e { x = s32[8,2] parameter(0)\n"
                  " s = s32[8,2] custom-call(x), custom_call_target=\"Sharding\","
                  " sharding={devices=[4,1]<=[4]}\n"
                  " m = s32[2,2] custom-call(s), custom_call_target=\"SPMDFullToShardShape\","
                  " sharding={manual}\n"
                  " p = u32[] partition-id()\n i = s32[] convert(p)\n"
                  " b = s32[2,2] broadcast(i), dimensions={}\n y = s32[2,2] add(m, b)\n"
                  " ROOT f = s32[8,2] custom-call(y), custom_call_target=\"SPMDShardToFullShape\","
                  " sharding={devices=[4,1]<=[4]} }");
}

static void fails(const char *text, hs_code code, const char *says) {
  hlo_module *m = parse(text);
  hlo_literal **args = NULL, *out = NULL;
  u32 n = 0;
  explain(hlo_inputs_formula(ctx, m, NULL, 0, &args, &n));
  const backend_options o = {.context = backends, .deadline_s = 60};
  hs_status s = backend_run_once(cpu, m, &o, n, args, &out);
  assert_false(hs_ok(s));
  assert_int_equal(s.err->code, code);
  assert_non_null(strstr(s.err->message, says));
  hs_status_drop(s);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
}

#define BRANCHES(second)                                                                          \
  FOUR ADD "p { x = s32[] parameter(0)\n"                                                         \
           " ROOT r = s32[] all-reduce(x), channel_id=1, use_global_device_ids=true,"             \
           " replica_groups={{0,1,2,3}}, to_apply=add }\n"                                        \
           "q { x = s32[] parameter(0)\n" second " }\n"                                           \
           "ENTRY e { p = u32[] partition-id()\n i = s32[] convert(p)\n x = s32[] parameter(0)\n" \
           " two = s32[] constant(2)\n less = pred[] compare(i, two), direction=LT\n"             \
           " ROOT y = s32[] conditional(less, x, x), true_computation=p, false_computation=q }"

// Half of the devices come to the collective: as on real ones, those wait for the others for ever.
static void a_deadlock_is_an_error(void **state) {
  (void)state;
  fails(BRANCHES(" ROOT y = s32[] negate(x)"), HS_E_RUN, "deadlock");
  collectives(state);  // the worker goes on
}

// Each half comes to its own: real devices would meet there.
static void two_places_to_meet(void **state) {
  fails(BRANCHES(" y = s32[] negate(x)\n"
                 " ROOT s = s32[] all-reduce(y), channel_id=1, use_global_device_ids=true,"
                 " replica_groups={{0,1,2,3}}, to_apply=add"),
        HS_E_UNSUPPORTED, "two branches");
  fails(BRANCHES(" y = s32[] negate(x)\n"
                 " ROOT s = s32[] all-reduce(y), channel_id=2, use_global_device_ids=true,"
                 " replica_groups={{0,1,2,3}}, to_apply=add"),
        HS_E_RUN, "deadlock");
  collectives(state);
}

// Sizes are those of one device, and how many there are is said.
static void sizes_of_each(void **state) {
  (void)state;
  hlo_module *m =
      parse("HloModule t, replica_count=4\n"
            "ENTRY e { x = f32[64] parameter(0)\n r = f32[64] reverse(x), dimensions={0}\n"
            " n = f32[64] collective-permute(x), source_target_pairs={{0,1}}\n"
            " ROOT y = f32[64] subtract(r, n) }");
  backend_compiled info;
  backend_result r = run_on(cpu, m, NULL, NULL, &info);
  assert_int_equal(info.devices, 4);
  assert_int_equal(info.argument_bytes, 256);
  backend_result_free(&r);
  hlo_module_free(m);
}

#define TESTS_OF_DEVICES                                                                           \
  cmocka_unit_test(collectives), cmocka_unit_test(control_flow), cmocka_unit_test(manual_regions), \
      cmocka_unit_test(a_deadlock_is_an_error), cmocka_unit_test(two_places_to_meet),              \
      cmocka_unit_test(sizes_of_each)

#endif
