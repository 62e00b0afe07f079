// pjrt_programs.c — what is sent to a PJRT plug-in: compile options, sizes of structs, flattened
// arguments, tiles of partitioned programs, replica groups.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/pjrt/api.h"
#include "backends/pjrt/pjrt.h"
#include "backends/pjrt/serve.h"
#include "core/text/text.h"
#include "core/verify/verify.h"
#include "profiler/model/gpu.h"
#include "tests/unit/backends/plugins.h"
#include "tests/unit/skip.h"

static void compile_options(void **st) {
  (void)st;
  pjrt_ready r = {.replicas = 1, .partitions = 1};
  hs_buf b = {0};
  pjrt_options(&b, &r, false, 0, NULL);
  const u8 least[] = {0x1a, 0x0f, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                      0xff, 0xff, 0xff, 0x01, 0x20, 0x01, 0x28, 0x01};
  assert_int_equal(b.n, sizeof least);
  assert_memory_equal(b.p, least, sizeof least);
  b.n = 0;
  const backend_flag flags[] = {{"xla_x", "dce"}, {"b", "true"}};
  r.partitions = 8;
  r.shardy = true;
  pjrt_options(&b, &r, true, 2, flags);
  const u8 more[] = {0x1a, 0x16, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
                     0x20, 0x01, 0x28, 0x08, 0x30, 0x01, 0x58, 0x01, 0x98, 0x01, 0x01, 0x3a, 0x0e,
                     0x0a, 0x05, 'x',  'l',  'a',  '_',  'x',  0x12, 0x05, 0x0a, 0x03, 'd',  'c',
                     'e',  0x3a, 0x07, 0x0a, 0x01, 'b',  0x12, 0x02, 0x10, 0x01};
  assert_int_equal(b.n, sizeof more);
  assert_memory_equal(b.p, more, sizeof more);
  hs_buf_free(&b);
}

// Sizes of the structs as plug-ins of version 0.81 and later check them.
static void struct_sizes(void **st) {
  (void)st;
  assert_int_equal(sizeof(pj_api), 984);
  assert_int_equal(PJ_SIZE(pj_client_create, kv_try_get_arg), 88);
  assert_int_equal(PJ_SIZE(pj_client_compile, executable), 56);
  assert_int_equal(PJ_SIZE(pj_layout, type), 76);
  assert_int_equal(PJ_SIZE(pj_from_host, buffer), 120);
  assert_int_equal(PJ_SIZE(pj_execute_options, incarnations), 112);
  assert_int_equal(PJ_SIZE(pj_execute, device), 80);
  assert_int_equal(PJ_SIZE(pj_memory_stats, peak), 112);
  assert_int_equal(PJ_SIZE(pj_register_handler, traits), 52);
  assert_int_equal(PJ_SIZE(pj_serialize, free), 56);
  assert_int_equal(sizeof(pj_ext_ffi), 48);
}

static void flattened(void **st) {
  (void)st;
  hlo_module *m = parse(tuples);
  pjrt_ready r;
  assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
  assert_int_equal(r.nargs, 4);
  assert_int_equal(r.nouts, 3);
  assert_int_equal(r.m->entry->nparams, 4);
  assert_true(hs_ok(hlo_verify(r.m, NULL)));
  pjrt_ready_free(&r);
  hlo_module_free(m);
  m = parse(
      "HloModule a, input_output_alias={ {1}: (0, {1}, may-alias) }\n"
      "ENTRY e { p = (f32[2], f32[3]) parameter(0) a = f32[2] get-tuple-element(p), index=0 b = "
      "f32[3] get-tuple-element(p), index=1\n"
      "  ROOT r = (f32[2], f32[3]) tuple(a, b) }\n");
  assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
  assert_false(r.donated[0]);
  assert_true(r.donated[1]);
  const hlo_aliases *a = hlo_attrs_find(r.m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS)->v.p;
  assert_int_equal(a->n, 1);
  assert_int_equal(a->v[0].param, 1);
  assert_int_equal(a->v[0].param_index.n, 0);
  assert_int_equal(a->v[0].out_index.v[0], 1);
  pjrt_ready_free(&r);
  hlo_module_free(m);
}

static void no_fusions_among_parts(void **st) {
  (void)st;
  hlo_module *m = parse(plugin_fused_parts);
  pjrt_ready r;
  assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
  assert_ptr_equal(r.m->first, r.m->entry);
  assert_null(r.m->entry->next);
  hlo_for_each_instr(i, r.m->entry) {
    assert_int_not_equal(i->opcode, HLO_FUSION);
    assert_non_null(i->shape->layout);
  }
  assert_true(hs_ok(hlo_verify(r.m, NULL)));
  pjrt_ready_free(&r);
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_NUM_PARTITIONS, .v.i = 1});
  for (int gpu = 0; gpu < 2; gpu++) {  // on one device they stay, but for a GPU
    assert_true(hs_ok(pjrt_prepare(m, false, gpu, &r)));
    u32 n = 0;
    hlo_for_each_instr(i, r.m->entry) n += i->opcode == HLO_FUSION;
    assert_int_equal(n, !gpu);
    pjrt_ready_free(&r);
  }
  hlo_module_free(m);
}

// XLA may not choose tiles for a parameter: each device gets the whole array. The number of devices
// is what the collectives need where the module does not say it.
static void pinned_parameters(void **st) {
  (void)st;
  static const char text[] =
      "HloModule m%s, frontend_attributes={xla.sdy.meshes={rows = #sdy.mesh<[\"r\"=4]>}}\n"
      "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
      "ENTRY e { p = f32[8,3] parameter(0) q = f32[] parameter(1), sharding={replicated}\n"
      "  h = (f32[2,3]) custom-call(p), custom_call_target=\"xla.sdy.GlobalToLocalShape\", "
      "frontend_attributes={xla.sdy.in_shardings=\"#sdy.sharding_per_value<[<@rows, "
      "[{\\22r\\22}, {}]>]>\",xla.sdy.manual_axes=\"#sdy<manual_axes{\\22r\\22}>\"}\n"
      "  g = f32[2,3] get-tuple-element(h), index=0\n"
      "  t = f32[2,3] all-reduce(g), channel_id=1, replica_groups={{0,1,2,3}}, "
      "use_global_device_ids=true, to_apply=sum\n"
      "  ROOT r = f32[8,3] custom-call(t), custom_call_target=\"xla.sdy.LocalToGlobalShape\", "
      "frontend_attributes={xla.sdy.out_shardings=\"#sdy.sharding_per_value<[<@rows, "
      "[{\\22r\\22}, {}]>]>\",xla.sdy.manual_axes=\"#sdy<manual_axes{\\22r\\22}>\"} }\n";
  for (u32 k = 0; k < 2; k++) {
    char *module = hs_format(text, k ? ", num_partitions=4" : "");
    hlo_module *m = parse(module);
    hs_free(module);
    pjrt_ready r;
    assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
    assert_int_equal(r.partitions, 4);
    const hlo_instr *p = r.m->entry->params[0], *q = r.m->entry->params[1];
    assert_int_equal(r.arg_sharding[0]->type, HLO_SH_REPLICATED);
    const hs_str *stated =
        hlo_frontend_find(hlo_attr_get(p, HLO_ATTR_FRONTEND_ATTRIBUTES), "xla.sdy.sharding");
    assert_true(stated && hs_str_eq(*stated, HS_STR("#sdy.sharding<@rows, [{}, {}]>")));
    assert_null(hlo_attr_get(q, HLO_ATTR_FRONTEND_ATTRIBUTES));
    pjrt_ready_free(&r);
    hlo_module_free(m);
  }
}

static void tiles(void **st) {
  (void)st;
  hlo_module *m = parse("HloModule s, num_partitions=4\nENTRY e { p = s32[5,4] parameter(0), "
                        "sharding={devices=[2,2]<=[2,2]T(1,0)} ROOT r = s32[5,4] copy(p) }\n");
  const hlo_instr *p = m->entry->params[0];
  pjrt_tiles t;
  assert_true(hs_ok(pjrt_tiles_make(ctx, p->shape, hlo_attr_ptr(p, HLO_ATTR_SHARDING), 4, &t)));
  assert_int_equal(t.part->dims[0], 3);
  assert_int_equal(t.part->dims[1], 2);
  i32 whole[20], back[20] = {0}, part[6];
  for (i32 k = 0; k < 20; k++) whole[k] = k;
  for (u32 d = 0; d < 4; d++) {
    memset(part, 0, sizeof part);
    pjrt_tiles_cut(&t, d, whole, part);
    // device 1: lower left
    if (d == 1) {
      assert_int_equal(part[0], 12);
      assert_int_equal(part[3], 17);
      assert_int_equal(part[5], 0);
    }
    pjrt_tiles_join(&t, d, part, back);
  }
  assert_memory_equal(whole, back, sizeof whole);
  pjrt_tiles_free(&t);
  hlo_module_free(m);
}

// What a partitioner leaves is one device's part; put between whole arrays it computes what the
// program computes.
static void whole_from_a_part(void **st) {
  (void)st;
  hlo_module *m = parse(
      "HloModule s, num_partitions=4\nENTRY e { p = f32[5,4] parameter(0), "
      "sharding={devices=[2,2]<=[2,2]T(1,0)} q = f32[4] parameter(1)\n"
      "  b = f32[5,4] broadcast(q), dimensions={1} a = f32[5,4] add(p, b) ROOT r = (f32[5,4], "
      "f32[4]) tuple(a, q) }\n");
  hlo_module *part = parse(
      "HloModule s, num_partitions=4, is_scheduled=true\nENTRY e { p = f32[3,2] parameter(0) q = "
      "f32[4] parameter(1) i = u32[] partition-id()\n"
      "  two = u32[] constant(2) c = u32[] divide(i, two) k = u32[] multiply(c, two) d = f32[2] "
      "dynamic-slice(q, k), dynamic_slice_sizes={2}\n"
      "  b = f32[3,2] broadcast(d), dimensions={1} a = f32[3,2] add(p, b) ROOT r = (f32[3,2], "
      "f32[4]) tuple(a, q) }\n");
  const hlo_instr *p = m->entry->params[0], *q = m->entry->params[1];
  const hlo_sharding *cut = hlo_attr_ptr(p, HLO_ATTR_SHARDING);
  pjrt_tiles arg[2], out[2];
  assert_true(hs_ok(pjrt_tiles_make(ctx, p->shape, cut, 4, &arg[0])));
  assert_true(hs_ok(pjrt_tiles_make(ctx, q->shape, NULL, 4, &arg[1])));
  assert_true(hs_ok(pjrt_tiles_make(ctx, p->shape, cut, 4, &out[0])));
  assert_true(hs_ok(pjrt_tiles_make(ctx, q->shape, NULL, 4, &out[1])));
  hlo_module *whole;
  assert_true(hs_ok(pjrt_whole(part, 2, arg, 2, out, &whole)));
  hs_status s = hlo_verify(whole, NULL);
  if (!hs_ok(s)) print_error("%s\n", s.err->message);
  assert_true(hs_ok(s));
  hlo_literal **args, *want, *got;
  u32 n;
  assert_true(hs_ok(hlo_inputs_random(ctx, m, 3, &args, &n)));
  assert_true(hs_ok(hlo_eval_module(m, n, args, NULL, &want)));
  assert_true(hs_ok(hlo_eval_module(whole, n, args, NULL, &got)));
  assert_true(hlo_literal_equal(want, got));
  hlo_literal_unref(want);
  hlo_literal_unref(got);
  hlo_module_free(whole);
  assert_true(hs_ok(pjrt_whole(m, 2, arg, 2, out, &whole)));  // whole already
  assert_int_equal(hlo_fingerprint(whole), hlo_fingerprint(m));
  hlo_module_free(whole);
  hlo_module *other = parse(add_one);
  s = pjrt_whole(other, 2, arg, 2, out, &whole);
  assert_int_equal(s.err->code, HS_E_UNSUPPORTED);
  hs_status_drop(s);
  hlo_inputs_free(args, n);
  for (u32 k = 0; k < 2; k++) pjrt_tiles_free(&arg[k]), pjrt_tiles_free(&out[k]);
  hlo_module_free(other);
  hlo_module_free(part);
  hlo_module_free(m);
}

// Plug-ins of any age read the devices of a collective as lists.
static void listed_groups(void **st) {
  (void)st;
  hlo_module *m = parse(
      "HloModule g, num_partitions=8\ns { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = "
      "f32[] add(a, b) }\n"
      "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] all-reduce(p), channel_id=1, "
      "replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true, to_apply=s }\n");
  pjrt_ready r;
  assert_true(hs_ok(pjrt_prepare(m, false, false, &r)));
  const hlo_replica_groups *g = hlo_attr_ptr(r.m->entry->root, HLO_ATTR_REPLICA_GROUPS);
  assert_int_equal(g->form, HLO_GROUPS_LIST);
  assert_int_equal(g->groups.n, 2);
  assert_int_equal(g->groups.v[1].n, 4);
  assert_int_equal(g->groups.v[1].v[0], 1);
  assert_int_equal(g->groups.v[1].v[3], 7);
  pjrt_ready_free(&r);
  hlo_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compile_options),   cmocka_unit_test(struct_sizes),
      cmocka_unit_test(flattened),         cmocka_unit_test(no_fusions_among_parts),
      cmocka_unit_test(pinned_parameters), cmocka_unit_test(tiles),
      cmocka_unit_test(whole_from_a_part), cmocka_unit_test(listed_groups),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
