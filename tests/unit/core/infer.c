// infer.c — shape inference: the root of a small module is inferred anew and compared with the
// expected text, or with a part of the expected message (rows that start with '!'). Rows that the
// reader itself refuses count as refused with its message, since the text of shapes can then not
// even be written down.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/infer/infer.h"
#include "core/infer/build.h"
#include "core/text/text.h"
#include "core/verify/verify.h"

static const char *const helpers =
    "HloModule m\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
    "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), "
    "direction=GE }\n"
    "argmax { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] "
    "parameter(3) ROOT r = (f32[], s32[]) tuple(a, i) }\n"
    "before { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] "
    "parameter(3) ROOT r = pred[] compare(a, b), direction=LT }\n"
    "neg { a = f32[4] parameter(0) ROOT r = f32[4] negate(a) }\n"
    "dyn { a = f32[4] parameter(0) ROOT r = f32[<=4] custom-call(a), custom_call_target=\"d\" }\n"
    "cond { a = (s32[], f32[4]) parameter(0) ROOT r = pred[] constant(true) }\n"
    "body { a = (s32[], f32[4]) parameter(0) ROOT r = (s32[], f32[4]) copy(a) }\n"
    "step { x = f32[8] parameter(0) c = f32[8] parameter(1) s = f32[8] add(x, c) ROOT r = (f32[8], "
    "f32[8]) tuple(s, s) }\n";

typedef struct row {
  const char *body, *want;
} row;
static const row rows[] = {
    {"x = f32[4,8] parameter(0) ROOT r = f32[4,8] tanh(x)", "f32[4,8]"},
    {"x = c64[4] parameter(0) ROOT r = f32[4] abs(x)", "f32[4]"},
    {"x = c128[4] parameter(0) ROOT r = f64[4] imag(x)", "f64[4]"},
    {"x = s32[4] parameter(0) ROOT r = s32[4] floor(x)", "!floating for floor"},
    {"x = f32[4] parameter(0) ROOT r = f32[4] not(x)", "!pred or an integral"},
    {"x = bf16[4] parameter(0) ROOT r = pred[4] is-finite(x)", "pred[4]"},
    {"x = bf16[4] parameter(0) y = f32[4] parameter(1) ROOT r = f32[4] add(x, y)", "f32[4]"},
    {"x = s32[4] parameter(0) y = f32[4] parameter(1) ROOT r = f32[4] add(x, y)",
     "!different element types"},
    {"x = f32[4] parameter(0) y = f32[5] parameter(1) ROOT r = f32[4] add(x, y)",
     "!incompatible shapes"},
    {"x = f32[<=4] parameter(0) y = f32[4] parameter(1) ROOT r = f32[<=4] add(x, y)", "f32[<=4]"},
    {"x = f32[4] parameter(0) y = f32[4] parameter(1) ROOT r = c64[4] complex(x, y)", "c64[4]"},
    {"x = u8[4] parameter(0) y = u8[4] parameter(1) ROOT r = pred[4] compare(x, y), direction=LT",
     "pred[4]"},
    {"p = pred[] parameter(0) x = s4[4] parameter(1) y = s4[4] parameter(2) ROOT r = s4[4] "
     "select(p, x, y)",
     "s4[4]"},
    {"p = s32[4] parameter(0) x = f32[4] parameter(1) ROOT r = f32[4] select(p, x, x)",
     "!must have PRED"},
    {"l = f32[] parameter(0) x = f32[4] parameter(1) h = f32[4] parameter(2) ROOT r = f32[4] "
     "clamp(l, x, h)",
     "f32[4]"},
    {"x = f32[4] parameter(0) ROOT r = s8[4] convert(x)", "s8[4]"},
    {"x = f32[4] parameter(0) ROOT r = u8[4,4] bitcast-convert(x)", "u8[4,4]"},
    {"x = u8[3,4] parameter(0) ROOT r = f32[3] bitcast-convert(x)", "f32[3]"},
    {"x = u8[3,3] parameter(0) ROOT r = f32[3] bitcast-convert(x)", "!undivisible"},
    {"x = f32[4,8] parameter(0) ROOT r = f32[8,4] transpose(x), dimensions={1,0}", "f32[8,4]"},
    {"x = f32[4,8] parameter(0) ROOT r = f32[8,4] transpose(x), dimensions={1,1}",
     "!not a permutation"},
    {"x = f32[4] parameter(0) ROOT r = f32[3,4,5] broadcast(x), dimensions={1}", "f32[3,4,5]"},
    {"x = f32[4] parameter(0) ROOT r = f32[3,4] broadcast(x), dimensions={0}", "!output dimension"},
    {"x = f32[<=6] parameter(0) ROOT r = f32[3,2] reshape(x)", "f32[<=3,2]"},
    {"x = f32[<=6,4] parameter(0) ROOT r = f32[1,6,4,1] reshape(x)", "f32[1,<=6,4,1]"},
    {"x = f32[9] parameter(0) ROOT r = f32[3] slice(x), slice={[1:9:3]}", "f32[3]"},
    {"x = f32[9] parameter(0) ROOT r = f32[10] slice(x), slice={[0:10]}", "!limit index"},
    {"x = f32[9,5] parameter(0) i = s32[] parameter(1) ROOT r = f32[2,5] dynamic-slice(x, i, i), "
     "dynamic_slice_sizes={2,5}",
     "f32[2,5]"},
    {"x = f32[9] parameter(0) i = s32[] parameter(1) ROOT r = f32[10] dynamic-slice(x, i), "
     "dynamic_slice_sizes={10}",
     "!greater than dynamic slice"},
    {"x = f32[9] parameter(0) u = f32[3] parameter(1) i = s64[] parameter(2) ROOT r = f32[9] "
     "dynamic-update-slice(x, u, i)",
     "f32[9]"},
    {"x = f32[9] parameter(0) u = f32[3] parameter(1) i = f32[] parameter(2) ROOT r = f32[9] "
     "dynamic-update-slice(x, u, i)",
     "!integral type"},
    {"x = f32[2,3] parameter(0) y = f32[2,5] parameter(1) ROOT r = f32[2,8] concatenate(x, y), "
     "dimensions={1}",
     "f32[2,8]"},
    {"x = f32[2,3] parameter(0) y = f32[3,5] parameter(1) ROOT r = f32[2,8] concatenate(x, y), "
     "dimensions={1}",
     "!other than the one being concatenated"},
    {"x = f32[5] parameter(0) z = f32[] parameter(1) ROOT r = f32[12] pad(x, z), padding=1_-2_2",
     "f32[12]"},
    {"x = f32[5] parameter(0) z = f32[] parameter(1) ROOT r = f32[0] pad(x, z), padding=-4_-4",
     "!negative size"},
    {"x = f32[5] parameter(0) ROOT r = f32[5] reverse(x), dimensions={1}", "!out-of-bounds"},
    {"x = f32[2,3,4] parameter(0) y = f32[2,4,5] parameter(1) ROOT r = f32[2,3,5] dot(x, y), "
     "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
     "f32[2,3,5]"},
    {"x = s8[3,4] parameter(0) y = s8[4,5] parameter(1) ROOT r = s32[3,5] dot(x, y), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "s32[3,5]"},
    {"x = f32[3,4] parameter(0) y = f32[5,4] parameter(1) ROOT r = f32[3,4] dot(x, y), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "!Contracting dimension sizes"},
    {"x = f32[11,5] parameter(0) y = f32[3,5,7] parameter(1) g = s32[3] parameter(2) ROOT r = "
     "f32[11,7] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
     "lhs_ragged_dims={0}, rhs_group_dims={0}",
     "f32[11,7]"},
    {"x = f32[11,5] parameter(0) y = f32[5,7] parameter(1) g = s32[3] parameter(2) ROOT r = "
     "f32[11,7] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
     "lhs_ragged_dims={0}",
     "!exactly one group dimension"},
    {"x = f32[11,5] parameter(0) y = f32[11,7] parameter(1) g = s32[3] parameter(2) ROOT r = "
     "f32[3,5,7] ragged-dot(x, y, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
     "lhs_ragged_dims={0}",
     "f32[3,5,7]"},
    {"x = f32[2,9,9,3] parameter(0) k = f32[3,3,3,8] parameter(1) ROOT r = f32[2,5,5,8] "
     "convolution(x, k), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
     "f32[2,5,5,8]"},
    {"x = f32[2,9,9,4] parameter(0) k = f32[3,3,2,8] parameter(1) ROOT r = f32[2,7,7,8] "
     "convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2",
     "f32[2,7,7,8]"},
    {"x = f32[2,9,9,4] parameter(0) k = f32[3,3,4,8] parameter(1) ROOT r = f32[2,7,7,8] "
     "convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2",
     "!multiple of feature_group_count"},
    {"x = f32[4,10] parameter(0) ROOT r = c64[4,6] fft(x), fft_type=RFFT, fft_length={10}",
     "c64[4,6]"},
    {"x = c64[4,6] parameter(0) ROOT r = f32[4,10] fft(x), fft_type=IRFFT, fft_length={10}",
     "f32[4,10]"},
    {"x = f32[4,10] parameter(0) ROOT r = c64[4,10] fft(x), fft_type=FFT, fft_length={10}",
     "!complex input type"},
    {"x = f32[2,3,4] parameter(0) ROOT r = f32[2,3,4] cholesky(x)", "!equal size"},
    {"a = f32[3,3] parameter(0) b = f32[3,5] parameter(1) ROOT r = f32[3,5] triangular-solve(a, "
     "b), left_side=true",
     "f32[3,5]"},
    {"x = f32[2,4,6] parameter(0) s = f32[4] parameter(1) ROOT r = (f32[2,4,6], f32[4], f32[4]) "
     "batch-norm-training(x, s, s), epsilon=0.1, feature_index=1",
     "(f32[2,4,6], f32[4], f32[4])"},
    {"x = f32[4,8] parameter(0) z = f32[] constant(0) ROOT r = f32[4] reduce(x, z), "
     "dimensions={1}, to_apply=add",
     "f32[4]"},
    {"x = f32[4,8] parameter(0) z = f32[] constant(0) ROOT r = f32[4] reduce(x, z), "
     "dimensions={1,1}, to_apply=add",
     "!Duplicate reduction"},
    {"x = f32[4,8] parameter(0) i = s32[4,8] parameter(1) z = f32[] constant(0) j = s32[] "
     "constant(0) ROOT r = (f32[8], s32[8]) reduce(x, i, z, j), dimensions={0}, to_apply=argmax",
     "(f32[8], s32[8])"},
    {"x = f32[4,8] parameter(0) z = f32[] constant(0) ROOT r = f32[4,4] reduce-window(x, z), "
     "window={size=1x2 stride=1x2}, to_apply=add",
     "f32[4,4]"},
    {"x = f32[8,6] parameter(0) s = f32[4,3] parameter(1) z = f32[] constant(0) ROOT r = f32[8,6] "
     "select-and-scatter(x, s, z), window={size=2x2 stride=2x2}, select=ge, scatter=add",
     "f32[8,6]"},
    {"x = f32[8,6] parameter(0) s = f32[4,4] parameter(1) z = f32[] constant(0) ROOT r = f32[8,6] "
     "select-and-scatter(x, s, z), window={size=2x2 stride=2x2}, select=ge, scatter=add",
     "!Source shape"},
    {"x = f32[8] parameter(0) y = f32[8] parameter(1) ROOT r = f32[8] map(x, y), dimensions={0}, "
     "to_apply=add",
     "f32[8]"},
    {"x = f32[8] parameter(0) v = s32[8] parameter(1) ROOT r = (f32[8], s32[8]) sort(x, v), "
     "dimensions={0}, to_apply=before",
     "(f32[8], s32[8])"},
    {"x = f32[8] parameter(0) ROOT r = f32[8] sort(x), dimensions={0}, to_apply=add",
     "!scalar predicate shape"},
    {"x = f32[3,9] parameter(0) ROOT r = (f32[3,2], s32[3,2]) topk(x), k=2, largest=true",
     "(f32[3,2], s32[3,2])"},
    {"x = f32[5,8] parameter(0) c = f32[8] parameter(1) ROOT r = (f32[5,8], f32[8]) scan(x, c), "
     "dimensions={0}, num_carries=1, to_apply=step",
     "(f32[5,8], f32[8])"},
    {"x = f32[9,5] parameter(0) i = s32[7] parameter(1) ROOT r = f32[7,5] gather(x, i), "
     "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
     "slice_sizes={1,5}",
     "f32[7,5]"},
    {"x = f32[9,5] parameter(0) i = s32[7] parameter(1) ROOT r = f32[7,5] gather(x, i), "
     "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
     "slice_sizes={2,5}",
     "!collapse slice dims"},
    {"x = f32[9,5] parameter(0) i = s32[7] parameter(1) u = f32[7,5] parameter(2) ROOT r = "
     "f32[9,5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     "f32[9,5]"},
    {"x = f32[9,5] parameter(0) i = s32[7] parameter(1) u = f32[8,5] parameter(2) ROOT r = "
     "f32[9,5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     "!same as the bounds"},
    {"x = (s32[], f32[4]) parameter(0) ROOT r = (s32[], f32[4]) while(x), condition=cond, "
     "body=body",
     "(s32[], f32[4])"},
    {"x = f32[4] parameter(0) ROOT r = f32[4] while(x), condition=cond, body=body",
     "!must all have the same shape"},
    {"p = pred[] parameter(0) x = f32[4] parameter(1) ROOT r = f32[<=4] conditional(p, x, x), "
     "true_computation=neg, false_computation=dyn",
     "f32[<=4]"},
    {"x = f32[5] parameter(0) ROOT r = f32[4] call(x), to_apply=neg", "!must match argument"},
    {"x = (f32[4], s8[]) parameter(0) ROOT r = s8[] get-tuple-element(x), index=1", "s8[]"},
    {"x = f32[4,2] parameter(0) ROOT r = f32[16,2] all-gather(x), dimensions={0}, "
     "replica_groups={}",
     "f32[16,2]"},
    {"x = f32[4,2] parameter(0) ROOT r = f32[3,2] reduce-scatter(x), dimensions={0}, "
     "replica_groups={}, to_apply=add",
     "!whole factor"},
    {"x = f32[4] parameter(0) y = f32[2] parameter(1) ROOT r = (f32[4], f32[2]) all-reduce(x, y), "
     "replica_groups={}, to_apply=add",
     "(f32[4], f32[2])"},
    {"x = f32[<=4] parameter(0) ROOT r = s32[] get-dimension-size(x), dimensions={0}", "s32[]"},
    {"x = f32[4] parameter(0) n = s32[] parameter(1) ROOT r = f32[<=4] set-dimension-size(x, n), "
     "dimensions={0}",
     "f32[<=4]"},
};

static void infers_each_rule(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  u32 bad = 0;
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    char *text = hs_format("%sENTRY e { %s }\n", helpers, rows[k].body);
    hlo_module *m = NULL;
    const hlo_shape *got = NULL;
    hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
    if (hs_ok(s)) s = hlo_infer_instr(m->entry->root, &got);
    hs_buf b = {0};
    if (got) hlo_shape_print(&b, got, false);
    bool ok = rows[k].want[0] == '!' ? !hs_ok(s) && strstr(s.err->message, rows[k].want + 1)
                                     : hs_ok(s) && strcmp(hs_buf_cstr(&b), rows[k].want) == 0;
    if (!ok)
      print_error("%s\n  wanted %s, got %s %s\n", rows[k].body, rows[k].want, hs_buf_cstr(&b),
                  hs_ok(s) ? "" : s.err->message),
          bad++;
    hs_buf_free(&b);
    hs_status_drop(s);
    hlo_module_free(m);
    hs_free(text);
  }
  hlo_ctx_free(ctx);
  assert_int_equal(bad, 0);
}

// Dimensions at the edge of i64 must come back as an error, never as a wrapped size.
static void refuses_overflow(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = hlo_module_new(ctx, "m");
  i64 big = (i64)1 << 62;
  hlo_pad_dim pad = {.low = INT64_MAX, .high = INT64_MAX, .interior = INT64_MAX};
  hlo_padding p = {1, &pad};
  hlo_attrs *a = hlo_attrs_with(&m->arena, NULL, &(hlo_attr){HLO_ATTR_PADDING, {.p = &p}});
  const hlo_shape *in[2] = {hlo_shape_array(ctx, HLO_F32, 1, (i64[]){3}),
                            hlo_shape_scalar(ctx, HLO_F32)},
                  *out;
  hs_status s = hlo_infer_shape(ctx, HLO_PAD, 2, in, a, NULL, &out);
  assert_false(hs_ok(s));
  hs_status_drop(s);
  i64 zero = 0;
  hlo_attrs *cat =
      hlo_attrs_with(&m->arena, NULL, &(hlo_attr){HLO_ATTR_DIMENSIONS, {.ints = {1, &zero}}});
  const hlo_shape *parts[2] = {hlo_shape_array(ctx, HLO_S8, 1, &big),
                               hlo_shape_array(ctx, HLO_S8, 1, &big)};
  s = hlo_infer_shape(ctx, HLO_CONCATENATE, 2, parts, cat, NULL, &out);
  assert_false(hs_ok(s));
  assert_null(out);
  hs_status_drop(s);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

// Whatever the operands, a rule answers or refuses; it does not read what is not there.
static void survives_missing_attributes(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  const hlo_shape *pool[] = {
      hlo_shape_scalar(ctx, HLO_F32),
      hlo_shape_array(ctx, HLO_F32, 2, (i64[]){4, 8}),
      hlo_shape_array(ctx, HLO_S32, 1, (i64[]){3}),
      hlo_shape_token(ctx),
      hlo_shape_tuple(ctx, 0, NULL),
      hlo_shape_dynamic(ctx, HLO_F32, 2, (i64[]){HLO_UNBOUNDED, 5}, (bool[]){true, true}, NULL)};
  for (int op = HLO_OP_INVALID; op <= HLO_OPCODE_COUNT; op++)
    for (u32 n = 0; n <= 6; n++)
      for (size_t k = 0; k < HS_COUNT(pool) * 4; k++) {
        const hlo_shape *in[6], *out;
        for (u32 i = 0; i < n; i++)
          in[i] = pool[(k + i * (1 + k / HS_COUNT(pool))) % HS_COUNT(pool)];
        hs_status s = hlo_infer_shape(ctx, (hlo_opcode)op, n, in, NULL,
                                      k & 1 ? pool[k % HS_COUNT(pool)] : NULL, &out);
        assert_true(hs_ok(s) == (out != NULL));
        hs_status_drop(s);
      }
  hlo_ctx_free(ctx);
}

static void builds_with_shapes(void **state) {
  (void)state;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = hlo_module_new(ctx, "m");
  hlo_computation *c = hlo_add_computation(m, "e");
  const hlo_shape *s =
      hlo_shape_with_default_layout(ctx, hlo_shape_array(ctx, HLO_F32, 2, (i64[]){4, 8}));
  hlo_instr *x = hlo_add_parameter(c, 0, s, "x"),
            *t = hlo_build_transpose(hlo_build_unary(HLO_EXP, x), (i64[]){1, 0});
  hlo_computation *add = hlo_build_scalar_computation(m, HLO_ADD, HLO_F32);
  assert_ptr_equal(add, hlo_build_scalar_computation(m, HLO_ADD, HLO_F32));
  hlo_instr *z = hlo_build_scalar_f64(c, HLO_F32, 0),
            *r = hlo_build_reduce(t, z, 1, (i64[]){0}, add);
  hlo_instr *full = hlo_build_full(c, r->shape, 2.5),
            *lt = hlo_build_compare(r, full, HLO_DIRECTION_LT);
  hlo_instr *sel = hlo_build_select(lt, r, full),
            *cat = hlo_build_concatenate(2, (hlo_instr *const[]){sel, r}, 0);
  hlo_instr *sl = hlo_build_slice(cat, (i64[]){1}, (i64[]){7}, (i64[]){2}),
            *pd = hlo_build_pad(sl, z, &(hlo_pad_dim){1, 0, 0});
  hlo_instr *out = hlo_build_reshape(
      hlo_build_reverse(hlo_build_convert(pd, HLO_S32), 1, (i64[]){0}), 2, (i64[]){2, 2});
  hlo_set_root(c, out);
  hlo_set_entry(m, c);
  hs_buf b = {0};
  hlo_shape_print(&b, out->shape, true);
  assert_string_equal(hs_buf_cstr(&b), "s32[2,2]{1,0}");
  hs_status v = hlo_verify(m, &(hlo_verify_options){.layout_sensitive = true});
  if (v.err) print_error("%s\n", v.err->message);
  assert_true(hs_ok(v));
  hs_buf_free(&b);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(infers_each_rule), cmocka_unit_test(refuses_overflow),
      cmocka_unit_test(survives_missing_attributes), cmocka_unit_test(builds_with_shapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
