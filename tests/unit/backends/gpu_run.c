// gpu_run.c — kernels for GPUs, run on the host's emulation against the evaluator: each form that
// the schedule knows, at sizes around its edges. The emulation looks at every access: what reads or
// writes out of bounds, races in shared memory or leaves a barrier out, fails too.
#if HAVE_LLVM
#include "backends/emit/gpu.h"
#include "backends/gpu/emu/emu.h"
#include "tests/unit/backends/kernels.h"

#define SUM "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
#define MAX \
  "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"

static emit_gpu_unit *gpu;
static emu_module *module;
static emu_device *device;
static HS_VEC(const emit_gpu_kernel *) kernels;  // by case

static int begin(void **state) {
  (void)state;
  ctx = hlo_ctx_new();
  _mm_setcsr(_mm_getcsr() | 0x8040);
  assert_true(hs_ok(emit_gpu_unit_new(&(emit_gpu_options){.sm = 80, .verify = true}, &gpu)));
  return 0;
}

static int end(void **state) {
  (void)state;
  for (size_t k = 0; k < cases.n; k++) hlo_module_free(cases.v[k].m);
  hs_vec_free(&cases);
  hs_vec_free(&kernels);
  cases.n = kernels.n = 0;
  emit_gpu_unit_free(gpu);
  emu_module_free(module);
  emu_device_free(device);
  gpu = NULL, module = NULL, device = NULL;
  hlo_ctx_free(ctx);
  return 0;
}

// The root instruction of a module; numbers may be off by `ulp`, sums (above 100) of the largest.
static void add(double ulp, bool wide, const char *text) {
  kcase c = {.m = parsed(text), .ulp = ulp, .seed = (u32)cases.n * 7919 + 13, .wide = wide};
  const emit_gpu_kernel *k = NULL;
  hs_status s = emit_gpu_add(gpu, c.m->entry->root, &k);
  if (!hs_ok(s)) {
    show(s, text);
    fail();
  }
  hs_vec_push(&cases, c);
  hs_vec_push(&kernels, k);
}

static void launch(const char *name, u32 grid, u32 block, u64 number, const kbufs *b) {
  void *params[35];
  const emu_kernel *k = emu_module_kernel(module, name);
  assert_non_null(k);
  for (u32 n = 0; n < b->n; n++) params[n] = (void *)(uintptr_t)&b->p[n];
  params[b->n] = (void *)(uintptr_t)&b->scratch;
  params[b->n + 1] = &number;
  hs_status s = emu_launch(k, device, &(emu_grid){.blocks = {grid, 1, 1}, .threads = {block, 1, 1}},
                           params, NULL);
  if (hs_ok(s)) return;
  show(s, name);
  fail();
}

static void run_launches(const void *kernel, const kbufs *b) {
  const emit_gpu_kernel *k = kernel;
  for (u32 n = 0; n < b->n; n++)
    if (b->bytes[n]) emu_device_add(device, b->p[n], b->bytes[n]);
  if (b->scratch_bytes) emu_device_add(device, b->scratch, b->scratch_bytes);
  for (u32 n = 0; n < k->nbefore; n++) {
    char *name = hs_format("%s%s", k->name, k->before[n].suffix);
    launch(name, k->before[n].grid, k->before[n].block, k->before[n].number, b);
    hs_free(name);
  }
  if (k->grid) launch(k->name, k->grid, k->block, 0, b);
  if (k->finish_grid) {
    char *name = hs_format("%s_finish", k->name);
    launch(name, k->finish_grid, k->finish_block, 0, b);
    hs_free(name);
  }
  for (u32 n = 0; n < b->n; n++)
    if (b->bytes[n]) emu_device_remove(device, b->p[n]);
  if (b->scratch_bytes) emu_device_remove(device, b->scratch);
}

static void run_all(void) {
  hs_buf code = {0};
  hs_status s = emit_gpu_bitcode(gpu, &code);
  if (hs_ok(s)) s = emu_module_load(code.p, code.n, &(emu_load_options){.checked = true}, &module);
  hs_buf_free(&code);
  if (!hs_ok(s)) {
    show(s, "bitcode");
    fail();
  }
  device = emu_device_new();
  for (size_t k = 0; k < cases.n; k++)
    check_run(&cases.v[k], (size_t)kernels.v[k]->scratch_bytes, kernels.v[k]->nupdates,
              kernels.v[k]->updates, run_launches, kernels.v[k]);
}

// ---- reductions ---------------------------------------------------------------------------------
static void reduce(double ulp, const char *in, const char *dims, const char *out, const char *by) {
  char *text = hs_format("HloModule m\n" SUM MAX "ENTRY e { p = f32%s parameter(0)\n"
                         " z = f32[] constant(%s)\n"
                         " ROOT r = f32%s reduce(p, z), dimensions={%s}, to_apply=%s }\n",
                         in, !strcmp(by, "add") ? "0" : "-inf", out, dims, by);
  add(ulp, false, text);
  hs_free(text);
}

static void reductions(void **state) {
  (void)state;
  reduce(200, "[100000]", "0", "[]", "add");  // in two launches
  reduce(0, "[1048576]", "0", "[]", "max");
  reduce(0, "[300001]", "0", "[]", "max");
  reduce(200, "[300,401]", "0,1", "[]", "add");
  reduce(200, "[300,401]", "1", "[300]", "add");
  reduce(200, "[300,401]", "0", "[401]", "add");
  reduce(200, "[3000,64]", "0", "[64]", "add");  // columns, split
  reduce(0, "[3000,64]", "1", "[3000]", "max");  // several rows in a warp
  reduce(200, "[3,70000]", "1", "[3]", "add");   // rows, split
  reduce(200, "[7,33,50]", "1", "[7,50]", "add");
  reduce(200, "[7,33,50]", "0,2", "[33]", "add");
  reduce(200, "[2001,12]", "1", "[2001]", "add");
  reduce(200, "[2000,5]", "1", "[2000]", "add");
  reduce(0, "[16,8,1000]", "1,2", "[16]", "max");
  reduce(200, "[150000,4]", "1", "[150000]", "add");
  run_all();
}

static void reducers(void **state) {
  (void)state;
  // argmax, ties to the smaller index: any order; then one that needs its order
  add(0, false,
      "HloModule m\ng { a = f32[] parameter(0)\n i = s32[] parameter(1)\n"
      " b = f32[] parameter(2)\n j = s32[] parameter(3)\n gt = pred[] compare(a, b), direction=GT\n"
      " eq = pred[] compare(a, b), direction=EQ\n lt = pred[] compare(i, j), direction=LT\n"
      " t = pred[] and(eq, lt)\n o = pred[] or(gt, t)\n v = f32[] select(o, a, b)\n"
      " w = s32[] select(o, i, j)\n ROOT r = (f32[], s32[]) tuple(v, w) }\n"
      "ENTRY e { p = f32[50,3000] parameter(0)\n q = s32[50,3000] parameter(1)\n"
      " n = f32[] constant(-inf)\n z = s32[] constant(0)\n"
      " ROOT r = (f32[50], s32[50]) reduce(p, q, n, z), dimensions={1}, to_apply=g }\n");
  add(0, false,
      "HloModule m\ng { a = s32[] parameter(0)\n b = s32[] parameter(1)\n"
      " t = s32[] constant(3)\n c = s32[] multiply(a, t)\n ROOT r = s32[] subtract(c, b) }\n"
      "ENTRY e { p = s32[50,300] parameter(0)\n z = s32[] constant(1)\n"
      " ROOT r = s32[50] reduce(p, z), dimensions={1}, to_apply=g }\n");
  static const char *const ops[] = {"and", "or"};
  for (size_t k = 0; k < HS_COUNT(ops); k++) {
    char *text = hs_format("HloModule m\ng { a = pred[] parameter(0)\n b = pred[] parameter(1)\n"
                           " ROOT r = pred[] %s(a, b) }\nENTRY e { p = pred[9,2048] parameter(0)\n"
                           " z = pred[] constant(%s)\n"
                           " ROOT r = pred[9] reduce(p, z), dimensions={1}, to_apply=g }\n",
                           ops[k], k ? "false" : "true");
    add(0, false, text);
    hs_free(text);
  }
  add(200, false,
      "HloModule m\ng { a = f64[] parameter(0)\n b = f64[] parameter(1)\n"
      " ROOT r = f64[] add(a, b) }\nENTRY e { p = f64[9,2051] parameter(0)\n"
      " z = f64[] constant(1)\n ROOT r = f64[9] reduce(p, z), dimensions={1}, to_apply=g }\n");
  // the smallest of each column and where it is, shared by threads of several warps
  add(0, false,
      "HloModule m\nleast { a = f32[] parameter(0)\n i = s32[] parameter(1)\n"
      " b = f32[] parameter(2)\n j = s32[] parameter(3)\n p = pred[] compare(a, b), direction=LT\n"
      " q = pred[] compare(a, b), direction=EQ\n l = pred[] compare(i, j), direction=LT\n"
      " t = pred[] and(q, l)\n u = pred[] or(p, t)\n x = f32[] select(p, a, b)\n"
      " y = s32[] select(u, i, j)\n ROOT r = (f32[], s32[]) tuple(x, y) }\n"
      "f { p = f32[300,40] parameter(0)\n n = s32[300,40] iota(), iota_dimension=0\n"
      " z = f32[] constant(inf)\n o = s32[] constant(0)\n ROOT r = (f32[40], s32[40])"
      " reduce(p, n, z, o), dimensions={0}, to_apply=least }\n"
      "ENTRY e { p = f32[300,40] parameter(0)\n"
      " ROOT r = (f32[40], s32[40]) fusion(p), kind=kInput, calls=f }\n");
  run_all();
}

// Mean and variance of rows, and the normalized row: three loops over a row that is read once.
static void norms(void **state) {
  (void)state;
  static const int shapes[][2] = {{9, 1000},  {300, 64},  {40, 2048},
                                  {3, 20000}, {1000, 17}, {2, 30}};
  for (size_t k = 0; k < HS_COUNT(shapes); k++) {
    int r = shapes[k][0], n = shapes[k][1];
    char *text = hs_format(
        "HloModule m\n" SUM "f { p = f32[%d,%d] parameter(0)\n z = f32[] constant(0)\n"
        " s = f32[%d] reduce(p, z), dimensions={1}, to_apply=add\n c = f32[] constant(%d)\n"
        " cb = f32[%d] broadcast(c), dimensions={}\n m = f32[%d] divide(s, cb)\n"
        " mb = f32[%d,%d] broadcast(m), dimensions={0}\n d = f32[%d,%d] subtract(p, mb)\n"
        " q = f32[%d,%d] multiply(d, d)\n"
        " v = f32[%d] reduce(q, z), dimensions={1}, to_apply=add\n w = f32[%d] divide(v, cb)\n"
        " i = f32[%d] rsqrt(w)\n ib = f32[%d,%d] broadcast(i), dimensions={0}\n"
        " x = f32[%d,%d] multiply(d, ib)\n ROOT t = (f32[%d,%d], f32[%d]) tuple(x, m) }\n"
        "ENTRY e { p = f32[%d,%d] parameter(0)\n"
        " ROOT r = (f32[%d,%d], f32[%d]) fusion(p), kind=kInput, calls=f }\n",
        r, n, r, n, r, r, r, n, r, n, r, n, r, r, r, r, n, r, n, r, n, r, r, n, r, n, r);
    add(300, false, text);
    hs_free(text);
  }
  run_all();
}

// ---- moves --------------------------------------------------------------------------------------
static void transpose(const char *in, const char *out, const char *dims) {
  char *text = hs_format("HloModule m\nENTRY e { p = %s parameter(0)\n"
                         " ROOT r = %s transpose(p), dimensions={%s} }\n",
                         in, out, dims);
  add(0, false, text);
  hs_free(text);
}

static void transposes(void **state) {
  (void)state;
  transpose("f32[64,96]", "f32[96,64]", "1,0");
  transpose("f32[67,131]", "f32[131,67]", "1,0");
  transpose("bf16[100,200]", "bf16[200,100]", "1,0");
  transpose("s8[70,130]", "s8[130,70]", "1,0");
  transpose("pred[40,50]", "pred[50,40]", "1,0");
  transpose("f64[70,40]", "f64[40,70]", "1,0");
  transpose("c64[40,50]", "c64[50,40]", "1,0");
  transpose("f32[5,40,70]", "f32[5,70,40]", "0,2,1");
  transpose("f32[40,5,70]", "f32[70,5,40]", "2,1,0");
  transpose("f32[20,30,40]", "f32[40,20,30]", "2,0,1");
  transpose("f32[32,8,16]", "f32[8,32,16]", "1,0,2");
  add(1, false,
      "HloModule m\nf { p = f32[70,90] parameter(0)\n q = f32[90,70] parameter(1)\n"
      " w = bf16[70,90] parameter(2)\n t = f32[90,70] transpose(p), dimensions={1,0}\n"
      " u = f32[70,90] convert(w)\n v = f32[90,70] transpose(u), dimensions={1,0}\n"
      " a = f32[90,70] multiply(t, q)\n ROOT r = f32[90,70] add(a, v) }\n"
      "ENTRY e { p = f32[70,90] parameter(0)\n q = f32[90,70] parameter(1)\n"
      " w = bf16[70,90] parameter(2)\n"
      " ROOT r = f32[90,70] fusion(p, q, w), kind=kLoop, calls=f }\n");
  run_all();
}

static void moves_and_products(void **state) {
  (void)state;
  static const struct {
    double ulp;
    const char *text;
  } entries[] = {
      {0, "a = f32[61,50] parameter(0)\n z = f32[] constant(3)\n"
          " ROOT r = f32[70,64] pad(a, z), padding=4_5x10_4"},
      {0, "a = f32[61,52] parameter(0)\n b = f32[13,52] parameter(1)\n"
          " ROOT r = f32[74,52] concatenate(a, b), dimensions={0}"},
      {0, "a = f32[61,52] parameter(0)\n b = f32[61,12] parameter(1)\n"
          " ROOT r = f32[61,64] concatenate(a, b), dimensions={1}"},
      {0, "a = f32[6100] parameter(0)\n ROOT r = f32[6100] reverse(a), dimensions={0}"},
      {0, "ROOT r = f32[100,64] iota(), iota_dimension=1"},
      {10, "a = c64[1000] parameter(0)\n b = c64[1000] parameter(1)\n"
           " ROOT r = c64[1000] multiply(a, b)"},
      {0, "a = f32[40,30] parameter(0)\n b = f32[9,8] parameter(1)\n i = s32[] parameter(2)\n"
          " j = s32[] parameter(3)\n ROOT r = f32[40,30] dynamic-update-slice(a, b, i, j)"},
      {0, "a = f32[40,30] parameter(0)\n i = s32[12,1] parameter(1)\n"
          " ROOT r = f32[12,30] gather(a, i), offset_dims={1}, collapsed_slice_dims={0},"
          " start_index_map={0}, index_vector_dim=1, slice_sizes={1,30}"},
      {200, "a = f32[64,64] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[32,32]"
            " reduce-window(a, z), window={size=3x3 stride=2x2 pad=0_1x0_1}, to_apply=add"},
      {300, "a = f32[60,50] parameter(0)\n b = f32[50,70] parameter(1)\n ROOT r = f32[60,70]"
            " dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {300, "a = f32[600,500] parameter(0)\n b = f32[500] parameter(1)\n ROOT r = f32[600]"
            " dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {3000, "a = f32[6,50000] parameter(0)\n b = f32[50000,7] parameter(1)\n ROOT r = f32[6,7]"
             " dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      // more items than blocks may be launched
      {0, "a = s8[16900037] parameter(0)\n ROOT r = s8[16900037] negate(a)"},
  };
  for (size_t k = 0; k < HS_COUNT(entries); k++) {
    char *text = hs_format("HloModule m\n" SUM "ENTRY e { %s }\n", entries[k].text);
    add(entries[k].ulp, false, text);
    hs_free(text);
  }
  add(2, false,
      "HloModule m\nf { a = f32[1000] parameter(0)\n b = f32[77] parameter(1)\n"
      " x = f32[1000] negate(a)\n y = f32[77] exponential(b)\n"
      " ROOT r = (f32[1000], f32[77]) tuple(x, y) }\nENTRY e { a = f32[1000] parameter(0)\n"
      " b = f32[77] parameter(1)\n"
      " ROOT r = (f32[1000], f32[77]) fusion(a, b), kind=kLoop, calls=f }\n");
  run_all();
}

// ---- squares ------------------------------------------------------------------------------------
static void dot(double ulp, const char *a, const char *b, const char *out, const char *how) {
  char *text = hs_format("HloModule m\nENTRY e { a = %s parameter(0)\n b = %s parameter(1)\n"
                         " ROOT r = %s dot(a, b), %s }\n",
                         a, b, out, how);
  add(ulp, false, text);
  hs_free(text);
}

// Each square and its edges, memory along either side and along the steps, batches, parts of a
// split reduction, several loops on a side.
static void squares(void **state) {
  (void)state;
  static const char nn[] = "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                    nt[] = "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
                    tn[] = "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                    tt[] = "lhs_contracting_dims={0}, rhs_contracting_dims={1}";
  dot(500, "f32[100,70]", "f32[70,90]", "f32[100,90]", nn);
  dot(500, "f32[100,72]", "f32[92,72]", "f32[100,92]", nt);
  dot(500, "f32[33,100]", "f32[33,92]", "f32[100,92]", tn);
  dot(500, "f32[40,100]", "f32[60,40]", "f32[100,60]", tt);
  dot(500, "f32[1400,40]", "f32[40,1400]", "f32[1400,1400]", nn);
  dot(1000, "f32[20,3000]", "f32[3000,24]", "f32[20,24]", nn);
  dot(1000, "f32[20,3001]", "f32[3001,24]", "f32[20,24]", nn);
  dot(500, "f32[16,40]", "f32[40,256]", "f32[16,256]", nn);
  dot(500, "f32[200,40]", "f32[40,17]", "f32[200,17]", nn);
  dot(20, "f64[100,70]", "f64[70,90]", "f64[100,90]", nn);
  dot(500, "c64[40,50]", "c64[50,36]", "c64[40,36]", nn);
  dot(0, "s32[40,50]", "s32[50,36]", "s32[40,36]", nn);
  dot(500, "f32[3,40,50]", "f32[3,50,36]", "f32[3,40,36]",
      "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}");
  dot(500, "f32[5,8,6,7]", "f32[6,7,9,4]", "f32[5,8,9,4]",
      "lhs_contracting_dims={2,3}, rhs_contracting_dims={0,1}");
  // tensor cores
  dot(1, "bf16[100,72]", "bf16[72,90]", "bf16[100,90]", nn);
  dot(500, "bf16[100,72]", "bf16[96,72]", "f32[100,96]", nt);
  dot(500, "bf16[72,100]", "bf16[72,96]", "f32[100,96]", tn);
  dot(500, "bf16[72,96]", "bf16[104,72]", "f32[96,104]", tt);
  dot(500, "bf16[1400,40]", "bf16[40,1400]", "f32[1400,1400]", nn);
  dot(500, "bf16[640,40]", "bf16[40,640]", "f32[640,640]", nn);
  dot(1000, "bf16[20,3001]", "bf16[3001,24]", "f32[20,24]", nn);
  dot(500, "bf16[16,40]", "bf16[40,256]", "f32[16,256]", nn);
  dot(500, "bf16[200,40]", "bf16[40,17]", "f32[200,17]", nn);
  dot(1, "f16[100,70]", "f16[70,90]", "f16[100,90]", nn);
  dot(500, "f8e4m3fn[64,64]", "f8e5m2[64,64]", "f32[64,64]", nn);
  dot(0, "s8[100,70]", "s8[70,90]", "s32[100,90]", nn);
  dot(0, "s8[100,96]", "s8[80,96]", "s32[100,80]", nt);
  dot(0, "u8[100,96]", "u8[96,80]", "u32[100,80]", nn);
  add(500, false,
      "HloModule m\nf { a = bf16[48,64] parameter(0)\n b = f32[64,40] parameter(1)\n"
      " c = f32[40] parameter(2)\n n = bf16[48,64] negate(a)\n w = bf16[64,40] convert(b)\n"
      " d = f32[48,40] dot(n, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " e = f32[48,40] broadcast(c), dimensions={1}\n s = f32[48,40] add(d, e)\n"
      " ROOT t = f32[48,40] tanh(s) }\nENTRY e { a = bf16[48,64] parameter(0)\n"
      " b = f32[64,40] parameter(1)\n c = f32[40] parameter(2)\n"
      " ROOT r = f32[48,40] fusion(a, b, c), kind=kLoop, calls=f }\n");
  run_all();
  hs_buf plan = {0};
  assert_true(hs_ok(emit_gpu_dump(gpu, "schedule", &plan)));
  assert_non_null(strstr(hs_buf_cstr(&plan), "128 x 128"));
  assert_non_null(strstr(hs_buf_cstr(&plan), "tensor cores: s8"));
  assert_non_null(strstr(hs_buf_cstr(&plan), "finish"));
  assert_null(strstr(hs_buf_cstr(&plan), ": empty"));
  hs_buf_free(&plan);
}

// ---- convolution, scatter, sort -----------------------------------------------------------------
static void convolutions(void **state) {
  (void)state;
  static const struct {
    const char *in, *kernel, *out, *attrs;
  } rows[] = {
      {"f32[2,9,9,3]", "f32[3,3,3,5]", "f32[2,9,9,5]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
      {"f32[2,9,9,3]", "f32[3,3,3,5]", "f32[2,4,4,5]",
       "window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f"},
      {"f32[2,9,9,4]", "f32[3,3,1,8]", "f32[2,9,9,8]",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4"},
      {"f32[2,9,9,3]", "f32[3,3,3,5]", "f32[2,17,17,5]",
       "window={size=3x3 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x1},"
       " dim_labels=b01f_01io->b01f"},
      {"f32[2,9,9,3]", "f32[3,3,3,5]", "f32[2,5,5,5]",
       "window={size=3x3 rhs_dilate=2x2}, dim_labels=b01f_01io->b01f"},
      {"f32[4,9,3]", "f32[3,3,8]", "f32[2,7,8]",
       "window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=2"},
      {"bf16[1,16,16,8]", "bf16[3,3,8,16]", "bf16[1,14,14,16]",
       "window={size=3x3}, dim_labels=b01f_01io->b01f"},
  };
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    char *text = hs_format("HloModule m\nENTRY e { a = %s parameter(0)\n k = %s parameter(1)\n"
                           " ROOT r = %s convolution(a, k), %s }\n",
                           rows[k].in, rows[k].kernel, rows[k].out, rows[k].attrs);
    add(300, false, text);
    hs_free(text);
  }
  run_all();
}

static void scatters(void **state) {
  (void)state;
  static const char *const entries[] = {
      "o = f32[20] parameter(0)\n i = s32[50,1] parameter(1)\n u = f32[50] parameter(2)\n"
      " ROOT r = f32[20] scatter(o, i, u), update_window_dims={}, inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
      "o = f32[20,8] parameter(0)\n i = s32[50] parameter(1)\n u = f32[50,8] parameter(2)\n"
      " ROOT r = f32[20,8] scatter(o, i, u), update_window_dims={1}, inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
      "o = f32[7,9] parameter(0)\n i = s32[5,2] parameter(1)\n u = f32[5,3,2] parameter(2)\n"
      " ROOT r = f32[7,9] scatter(o, i, u), update_window_dims={1,2}, inserted_window_dims={},"
      " scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=set",
      "o = f32[12] parameter(0)\n i = u8[30,1] parameter(1)\n u = f32[30] parameter(2)\n"
      " ROOT r = f32[12] scatter(o, i, u), update_window_dims={}, inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=max",
      "o = f32[4,20] parameter(0)\n i = s32[4,10,1] parameter(1)\n u = f32[4,10] parameter(2)\n"
      " ROOT r = f32[4,20] scatter(o, i, u), update_window_dims={}, inserted_window_dims={1},"
      " scatter_dims_to_operand_dims={1}, input_batching_dims={0},"
      " scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add",
      // updates put in order first; many for each place
      "o = f32[20] parameter(0)\n i = s8[3000,1] parameter(1)\n u = f32[3000] parameter(2)\n"
      " ROOT r = f32[20] scatter(o, i, u), update_window_dims={}, inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
      "o = f32[100] parameter(0)\n i = u8[3000,1] parameter(1)\n u = f32[3000] parameter(2)\n"
      " ROOT r = f32[100] scatter(o, i, u), update_window_dims={}, inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set",
      "o = f32[100,40] parameter(0)\n i = s8[30,20] parameter(1)\n"
      " u = f32[30,20,36] parameter(2)\n"
      " ROOT r = f32[100,40] scatter(o, i, u), update_window_dims={2}, inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add",
      "o = f32[70,64,90] parameter(0)\n i = s8[50,2] parameter(1)\n"
      " u = f32[50,1,64] parameter(2)\n"
      " ROOT r = f32[70,64,90] scatter(o, i, u), update_window_dims={1,2},"
      " inserted_window_dims={2}, scatter_dims_to_operand_dims={2,0}, index_vector_dim=1,"
      " to_apply=set",
      "o = bf16[64,64] parameter(0)\n i = s32[64,2] parameter(1)\n"
      " u = bf16[64,1,64] parameter(2)\n"
      " ROOT r = bf16[64,64] scatter(o, i, u), update_window_dims={1,2},"
      " inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1,"
      " to_apply=addb",
      "o = f32[4,200] parameter(0)\n i = u8[4,100,1] parameter(1)\n"
      " u = f32[4,100] parameter(2)\n"
      " ROOT r = f32[4,200] scatter(o, i, u), update_window_dims={}, inserted_window_dims={1},"
      " scatter_dims_to_operand_dims={1}, input_batching_dims={0},"
      " scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add",
  };
  for (size_t k = 0; k < HS_COUNT(entries); k++) {
    char *text = hs_format("HloModule m\n" SUM MAX "set { a = f32[] parameter(0)\n"
                           " ROOT b = f32[] parameter(1) }\naddb { a = bf16[] parameter(0)\n"
                           " b = bf16[] parameter(1)\n ROOT c = bf16[] add(a, b) }\n"
                           "ENTRY e { %s }\n",
                           entries[k]);
    add(200, false, text);
    hs_free(text);
  }
  add(200, false,
      "HloModule m\n" SUM "f { i = u8[500,1] parameter(0)\n u = f32[500,16] parameter(1)\n"
      " z = f32[] constant(0)\n o = f32[200,16] broadcast(z), dimensions={}\n"
      " s = f32[200,16] scatter(o, i, u), update_window_dims={1}, inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add\n"
      " ROOT r = f32[200,16] negate(s) }\nENTRY e { i = u8[500,1] parameter(0)\n"
      " u = f32[500,16] parameter(1)\n ROOT r = f32[200,16] fusion(i, u), kind=kLoop, calls=f }\n");
  run_all();
  hs_buf plan = {0};
  assert_true(hs_ok(emit_gpu_dump(gpu, "schedule", &plan)));
  assert_non_null(strstr(hs_buf_cstr(&plan), "put in order"));
  hs_buf_free(&plan);
}

// The gradient of a pooling: windows that overlap, padded ones, and a tie for the first.
static void pools(void **state) {
  (void)state;
  static const struct {
    const char *from, *source, *window;
  } rows[] = {{"f32[2,8,8,3]", "f32[2,4,4,3]", "size=1x2x2x1 stride=1x2x2x1"},
              {"f32[2,9,9,3]", "f32[2,4,4,3]", "size=1x3x3x1 stride=1x2x2x1"},
              // a window for each of two columns, of which one has none
              {"f32[1,8,2]", "f32[1,4,1]", "size=1x2x2 stride=1x2x1"},
              {"f32[12]", "f32[6]", "size=4 stride=2 pad=1_1"},
              {"f32[12]", "f32[12]", "size=3 pad=1_1"}};
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    char *text = hs_format(
        "HloModule m\n" SUM "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT c = pred[] compare(a, b), direction=GE }\nENTRY e { p = %s parameter(0)\n"
        " s = %s parameter(1)\n z = f32[] constant(0)\n ROOT r = %s select-and-scatter(p, s, z),"
        " window={%s}, select=ge, scatter=add }\n",
        rows[k].from, rows[k].source, rows[k].from, rows[k].window);
    add(200, k == 4, text);
    hs_free(text);
  }
  run_all();
}

static void sorts(void **state) {
  (void)state;
  static const char less[] = "HloModule m\nless { a = f32[] parameter(0)\n"
                             " b = f32[] parameter(1)\n"
                             " ROOT c = pred[] compare(a, b), direction=LT }\n"
                             "ENTRY e { o = f32[500] parameter(0)\n"
                             " ROOT r = f32[500] sort(o), dimensions={0}, to_apply=less }\n";
  add(0, true, less);  // with NaN
  add(0, false,
      "HloModule m\ng { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " x = s32[] parameter(2)\n y = s32[] parameter(3)\n"
      " ROOT c = pred[] compare(a, b), direction=GT, type=TOTALORDER }\n"
      "ENTRY e { o = f32[7,100] parameter(0)\n i = s32[7,100] parameter(1)\n"
      " ROOT r = (f32[7,100], s32[7,100]) sort(o, i), dimensions={1}, is_stable=true,"
      " to_apply=g }\n");
  add(0, true,
      "HloModule m\ng { a = s32[] parameter(0)\n b = s32[] parameter(1)\n"
      " ROOT c = pred[] compare(a, b), direction=LT }\nENTRY e { o = s32[40,30] parameter(0)\n"
      " ROOT r = s32[40,30] sort(o), dimensions={0}, is_stable=true, to_apply=g }\n");
  // rows of several tiles, one of them not full; short rows that share one
  add(0, true,
      "HloModule m\ng { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " x = s32[] parameter(2)\n y = s32[] parameter(3)\n"
      " ROOT c = pred[] compare(a, b), direction=LT }\n"
      "ENTRY e { o = f32[2,9001] parameter(0)\n i = s32[2,9001] parameter(1)\n"
      " ROOT r = (f32[2,9001], s32[2,9001]) sort(o, i), dimensions={1}, is_stable=true,"
      " to_apply=g }\n");
  add(0, true,
      "HloModule m\ng { a = u8[] parameter(0)\n b = u8[] parameter(1)\n"
      " ROOT c = pred[] compare(a, b), direction=GT }\nENTRY e { o = u8[4100] parameter(0)\n"
      " ROOT r = u8[4100] sort(o), dimensions={0}, to_apply=g }\n");
  add(0, true,
      "HloModule m\ng { a = s16[] parameter(0)\n b = s16[] parameter(1)\n"
      " x = c64[] parameter(2)\n y = c64[] parameter(3)\n"
      " ROOT c = pred[] compare(a, b), direction=LT }\n"
      "ENTRY e { o = s16[333,5] parameter(0)\n i = c64[333,5] parameter(1)\n"
      " ROOT r = (s16[333,5], c64[333,5]) sort(o, i), dimensions={1}, is_stable=true,"
      " to_apply=g }\n");
  run_all();
}

// Long rows by the digits of their keys: floats with NaN and both zeros as the comparison says,
// either direction, keys of several operands, updates of a scatter.
static void digits(void **state) {
  (void)state;
#define KEYED(type, out, order, rest)                                                            \
  "HloModule m\ng { a = " type "[] parameter(0)\n b = " type "[] parameter(1)\n"                 \
  " x = s32[] parameter(2)\n y = s32[] parameter(3)\n" rest "ROOT c = pred[] compare" order      \
  " }\nENTRY e { o = " type out " parameter(0)\n i = s32" out " iota(), iota_dimension=0\n"      \
  " ROOT r = (" type out ", s32" out ") sort(o, i), dimensions={0}, is_stable=true, to_apply=g " \
  "}\n"
#define ONE(k)                                                                                \
  " z" k " = f32[] constant(0)\n n" k " = f32[] constant(nan)\n e" k " = pred[] compare(" k   \
  ", z" k "), direction=EQ\n s" k " = f32[] select(e" k ", z" k ", " k ")\n u" k              \
  " = pred[] compare(" k ", " k "), direction=NE\n t" k " = f32[] select(u" k ", n" k ", s" k \
  ")\n"
  add(0, true, KEYED("bf16", "[10001]", "(a, b), direction=LT", ""));
  add(0, true, KEYED("bf16", "[10001]", "(a, b), direction=GT", ""));
  add(0, true, KEYED("f16", "[17000]", "(b, a), direction=LT, type=TOTALORDER", ""));
  add(0, true, KEYED("s16", "[9000,2]", "(a, b), direction=GT", ""));
  add(0, true, KEYED("u8", "[9000]", "(a, b), direction=LT", ""));
  add(0, true, KEYED("f32", "[34000]", "(a, b), direction=LT", ""));
  add(0, true,
      KEYED("f32", "[34000]", "(ta, tb), direction=GT, type=TOTALORDER", ONE("a") ONE("b")));
  add(0, true,
      "HloModule m\ng { a = s8[] parameter(0)\n b = s8[] parameter(1)\n x = u16[] parameter(2)\n"
      " y = u16[] parameter(3)\n l = pred[] compare(a, b), direction=GT\n"
      " e = pred[] compare(a, b), direction=EQ\n m = pred[] compare(x, y), direction=LT\n"
      " n = pred[] and(e, m)\n ROOT c = pred[] or(l, n) }\n"
      "ENTRY e { o = s8[20000] parameter(0)\n i = u16[20000] parameter(1)\n"
      " ROOT r = (s8[20000], u16[20000]) sort(o, i), dimensions={0}, is_stable=true, to_apply=g "
      "}\n");
  add(200, false,
      "HloModule m\n" SUM "ENTRY e { t = f32[300] parameter(0)\n i = u16[20000,1] parameter(1)\n"
      " u = f32[20000] parameter(2)\n k = u16[] constant(301)\n ks = u16[20000,1] broadcast(k), "
      "dimensions={}\n j = u16[20000,1] remainder(i, ks)\n ROOT r = f32[300] scatter(t, j, u), "
      "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=1, to_apply=add }\n");
  add(0, true,
      "HloModule m\nENTRY e { o = bf16[2,9001] parameter(0)\n"
      " ROOT r = (bf16[2,7], s32[2,7]) topk(o), k=7, largest=true }\n");
  add(0, true,
      "HloModule m\nENTRY e { o = s16[2,9001] parameter(0)\n"
      " ROOT r = (s16[2,9001], s32[2,9001]) topk(o), k=9001, largest=false }\n");
  // rows of one tile: by the network
  add(0, true,
      "HloModule m\nENTRY e { o = f32[5,300] parameter(0)\n"
      " ROOT r = (f32[5,8], s32[5,8]) topk(o), k=8, largest=true }\n");
  run_all();
  for (size_t k = 0; k + 1 < kernels.n; k++)
    assert_string_equal(kernels.v[k]->before[0].suffix, "_keys");
}

// A comparison that is no order: some arrangement of the elements, all of them.
static void no_order(void **state) {
  (void)state;
  enum { N = 5000 };
  const emit_gpu_kernel *k = NULL;
  hlo_module *m = parsed("HloModule m\ng { a = s32[] parameter(0)\n b = s32[] parameter(1)\n"
                         " s = s32[] add(a, b)\n t = s32[] constant(3)\n u = s32[] and(s, t)\n"
                         " z = s32[] constant(1)\n ROOT c = pred[] compare(u, z), direction=LE }\n"
                         "ENTRY e { o = s32[5000] parameter(0)\n"
                         " ROOT r = s32[5000] sort(o), dimensions={0}, to_apply=g }\n");
  assert_true(hs_ok(emit_gpu_add(gpu, m->entry->root, &k)));
  hs_buf code = {0};
  assert_true(hs_ok(emit_gpu_bitcode(gpu, &code)));
  assert_true(
      hs_ok(emu_module_load(code.p, code.n, &(emu_load_options){.checked = true}, &module)));
  hs_buf_free(&code);
  device = emu_device_new();
  static _Alignas(256) i32 in[N], out[N];
  static u8 seen[N];
  void *scratch = NULL;
  assert_int_equal(posix_memalign(&scratch, 256, (size_t)k->scratch_bytes + 256), 0);
  for (i32 n = 0; n < N; n++) in[n] = n, out[n] = -1;
  kbufs b = {.n = 2, .p = {in, out}, .bytes = {sizeof in, sizeof out}};
  b.scratch = scratch, b.scratch_bytes = (size_t)k->scratch_bytes + 256;
  run_launches(k, &b);
  for (u32 n = 0; n < N; n++) {
    assert_in_range(out[n], 0, N - 1);
    assert_int_equal(seen[out[n]]++, 0);
  }
  free(scratch);
  hlo_module_free(m);
}

// From either end, along memory and across it, in one launch and in two.
static void prefixes(void **state) {
  (void)state;
  static const struct {
    const char *shape, *window, *by;
  } rows[] = {
      {"f32[5000]", "size=5000 pad=4999_0", "add"},
      {"f32[5000]", "size=5000 pad=0_4999", "add"},
      {"f32[1000]", "size=1000 pad=999_0", "max"},
      {"f32[7,100]", "size=1x100 pad=0_0x99_0", "add"},
      {"f32[9,4099]", "size=1x4099 pad=0_0x4098_0", "max"},
      {"f32[3,2048]", "size=1x2048 pad=0_0x0_2047", "max"},
      {"f32[300,50]", "size=300x1 pad=299_0x0_0", "add"},
      {"f32[300,50]", "size=300x1 pad=0_299x0_0", "max"},
      {"f32[4,77,13]", "size=1x77x1 pad=0_0x76_0x0_0", "add"},
      {"f32[40,128,3]", "size=1x128x1 pad=0_0x0_127x0_0", "max"},
  };
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    char *text = hs_format("HloModule m\n" SUM MAX "ENTRY e { p = %s parameter(0)\n"
                           " z = f32[] constant(%s)\n"
                           " ROOT r = %s reduce-window(p, z), window={%s}, to_apply=%s }\n",
                           rows[k].shape, !strcmp(rows[k].by, "add") ? "1.5" : "-inf",
                           rows[k].shape, rows[k].window, rows[k].by);
    add(!strcmp(rows[k].by, "add") ? 400 : 0, false, text);
    hs_free(text);
  }
  add(2, false,
      "HloModule m\ng { a = bf16[] parameter(0)\n b = bf16[] parameter(1)\n"
      " ROOT c = bf16[] maximum(a, b) }\nENTRY e { p = bf16[6,3000] parameter(0)\n"
      " z = bf16[] constant(-inf)\n ROOT r = bf16[6,3000] reduce-window(p, z),"
      " window={size=1x3000 pad=0_0x2999_0}, to_apply=g }\n");
  add(0, false,
      "HloModule m\ng { a = s32[] parameter(0)\n b = s32[] parameter(1)\n"
      " ROOT c = s32[] add(a, b) }\nENTRY e { p = s32[70000] parameter(0)\n"
      " z = s32[] constant(7)\n ROOT r = s32[70000] reduce-window(p, z),"
      " window={size=70000 pad=69999_0}, to_apply=g }\n");
  run_all();
}

// ---- arithmetic ---------------------------------------------------------------------------------
// The functions that have code of their own here, and small floats both ways.
static void mathematics(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double f32, f64;
  } ops[] = {{"sine", 4, 4},        {"cosine", 4, 4}, {"tan", 4, 4},  {"sinh", 4, 6},
             {"cosh", 4, 6},        {"asin", 4, 4},   {"acos", 4, 4}, {"asinh", 4, 6},
             {"acosh", 4, 6},       {"atanh", 4, 6},  {"erf", 4, 3},  {"cbrt", 4, 4},
             {"exponential", 2, 2}, {"log", 2, 2},    {"tanh", 2, 2}};
  for (size_t k = 0; k < HS_COUNT(ops); k++)
    for (int wide = 0; wide < 2; wide++) {
      const char *t = wide ? "f64" : "f32";
      char *text = hs_format("HloModule m\nENTRY e { x = %s[1030] parameter(0)\n"
                             " ROOT r = %s[1030] %s(x) }\n",
                             t, t, ops[k].name);
      add(wide ? ops[k].f64 : ops[k].f32, true, text);
      hs_free(text);
    }
  static const char *const pairs[] = {"power", "atan2", "remainder"};
  for (size_t k = 0; k < HS_COUNT(pairs); k++)
    for (int wide = 0; wide < 2; wide++) {
      const char *t = wide ? "f64" : "f32";
      char *text = hs_format("HloModule m\nENTRY e { x = %s[1030] parameter(0)\n"
                             " y = %s[1030] parameter(1)\n ROOT r = %s[1030] %s(x, y) }\n",
                             t, t, t, pairs[k]);
      add(k == 2 ? 0 : 4, true, text);
      hs_free(text);
    }
  static const char *const small[] = {"f8e4m3fn",   "f8e5m2", "f8e4m3b11fnuz", "f8e4m3fnuz",
                                      "f8e5m2fnuz", "f8e3m4", "f8e4m3",        "f4e2m1fn",
                                      "bf16",       "f16"};
  for (size_t k = 0; k < HS_COUNT(small); k++)
    for (int back = 0; back < 2; back++) {
      char *text = hs_format("HloModule m\nENTRY e { x = %s[1000] parameter(0)\n"
                             " ROOT r = %s[1000] convert(x) }\n",
                             back ? small[k] : "f32", back ? "f32" : small[k]);
      add(0, true, text);
      hs_free(text);
    }
  run_all();
}

#define GPU(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
  const struct CMUnitTest tests[] = {
      GPU(reductions), GPU(reducers),     GPU(norms),    GPU(transposes), GPU(moves_and_products),
      GPU(squares),    GPU(convolutions), GPU(scatters), GPU(sorts),      GPU(digits),
      GPU(no_order),   GPU(prefixes),     GPU(pools),    GPU(mathematics)};
  return cmocka_run_group_tests_name("gpu_run", tests, NULL, NULL);
}

#else
#include "tests/unit/skip.h"

int main(void) { return skip_all("no LLVM in this build"); }
#endif
