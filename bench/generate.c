// generate.c — synthetic modules as text on stdout, for measuring how things scale.
//
//   generate BYTES                   of about so many bytes, for the reader
//   generate SHAPE INSTRUCTIONS      of about so many instructions, for the passes
//
// The first has what makes a loader quadratic if anything does: one computation with half of all
// instructions, many small ones with the same names in each (so that every name must be made
// unique), calls nested a thousand deep, stack-frame tables that grow with the module, metadata
// that differs from line to line, a constant with many elements, and a value with users by the
// thousand.
//
// The shapes are what programs look like at their extremes: `deep` is one network of layer upon
// layer, `wide` is many short chains side by side whose results all leave, `many` has small
// computations by the thousand (loops, conditionals, reductions) and `nested` a chain of calls as
// long as the module allows. The output depends on the arguments only.
#include "core/base/base.h"

#include <stdio.h>
#include <stdlib.h>

// ---- for the reader -----------------------------------------------------------------------------
enum { NEST = 1000, SMALL_BYTES = 1000, LINE_BYTES = 190 };

static u32 random_state = 1;
static u32 below(u32 n) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % n;
}

static void frames(u32 n) {
  printf("\nFileNames\n");
  for (u32 k = 1; k <= n / 16 + 1; k++)
    printf("%u \"/home/user/project/model/layer_%u.py\"\n", k, k);
  printf("\nFunctionNames\n");
  for (u32 k = 1; k <= n / 8 + 1; k++) printf("%u \"Model.block_%u.<locals>.apply\"\n", k, k);
  printf("\nFileLocations\n");
  for (u32 k = 1; k <= n; k++)
    printf("%u {file_name_id=%u function_name_id=%u line=%u end_line=%u column=%u end_column=%u}\n",
           k, (k - 1) / 16 + 1, (k - 1) / 8 + 1, k, k, k % 80, k % 80 + 9);
  printf("\nStackFrames\n");
  for (u32 k = 1; k <= n; k++)
    printf("%u {file_location_id=%u parent_frame_id=%u}\n", k, k, k > 1 ? below(k - 1) + 1 : 1);
  printf("\n\n");
}

// The k-th small computation; within a nest each calls the one before. All use the same names
// inside.
static void small(u32 k) {
  printf("%%block.%u (Arg_0: f32[128,256]) -> f32[128,256] {\n", k);
  printf("  %%Arg_0 = f32[128,256]{1,0} parameter(0), metadata={op_name=\"block_%u/input\"}\n", k);
  printf("  %%constant = f32[] constant(%u.25)\n", k % 1000);
  printf("  %%broadcast.1 = f32[128,256]{1,0} broadcast(%%constant), dimensions={}\n");
  printf("  %%multiply = f32[128,256]{1,0} multiply(%%Arg_0, %%broadcast.1), "
         "metadata={op_name=\"block_%u/mul\" stack_frame_id=%u}\n",
         k, k % 7 + 1);
  if (k % NEST)
    printf("  %%call.1 = f32[128,256]{1,0} call(%%multiply), to_apply=%%block.%u\n", k - 1);
  else printf("  %%call.1 = f32[128,256]{1,0} tanh(%%multiply)\n");
  printf(
      "  ROOT %%add = f32[128,256]{1,0} add(%%call.1, %%Arg_0), metadata={op_name=\"block_%u/add\" "
      "stack_frame_id=%u}\n}\n\n",
      k, k % 5 + 1);
}

static void big(u32 lines, u32 blocks, u32 nframes) {
  static const char *const ops[] = {"add", "multiply", "subtract", "maximum"};
  printf("ENTRY %%main (Arg_0: f32[128,256]) -> f32[128,256] {\n"
         "  %%Arg_0.in = f32[128,256]{1,0} parameter(0), metadata={op_name=\"x\"}\n");
  printf("  %%table = s32[%u]{0} constant({", lines / 4 + 1);
  for (u32 k = 0; k <= lines / 4; k++) printf("%s%u", k ? ", " : "", below(100000));
  printf("})\n");
  for (u32 k = 0; k < lines; k++) {
    const char *op = ops[below(4)];
    char a[32] = "Arg_0.in", b[32] = "Arg_0.in";  // of it, many users
    if (k) snprintf(a, sizeof a, "value.%u", k - 1);
    if (k && below(4)) snprintf(b, sizeof b, "value.%u", k - 1 - below(HS_MIN(k, 5000u)));
    if (blocks && k % 50 == 49)
      printf("  %%value.%u = f32[128,256]{1,0} call(%%%s), to_apply=%%block.%u\n", k, a,
             below(blocks));
    else
      printf("  %%value.%u = f32[128,256]{1,0} %s(%%%s, %%%s), "
             "metadata={op_name=\"jit(step)/model/layer_%u/%s\" stack_frame_id=%u}\n",
             k, op, a, b, k / 3, op, below(nframes) + 1);
  }
  printf("  ROOT %%out = f32[128,256]{1,0} negate(%%value.%u)\n}\n", lines - 1);
}

// ---- for the passes -----------------------------------------------------------------------------
static const char add_region[] =
    "add_region {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n"
    "}\n\n";

// Layers of a network with what the passes simplify: broadcasts, products, reshapes and transposes
// there and back, a normalization over the rows. Each layer is some 20 instructions.
static void deep(u32 n) {
  printf("HloModule deep\n\n%sENTRY main {\n  x = f32[64,64] parameter(0)\n"
         "  w = f32[64,64] parameter(1)\n  b = f32[64] parameter(2)\n  zero = f32[] constant(0)\n"
         "  h0 = f32[64,64] copy(x)\n",
         add_region);
  u32 layers = n / 20 + 1;
  for (u32 k = 0; k < layers; k++) {
    printf("  one.%u = f32[] constant(1)\n  ones.%u = f32[64,64] broadcast(one.%u), dimensions={}\n"
           "  wk.%u = f32[64,64] multiply(w, ones.%u)\n",
           k, k, k, k, k);
    printf("  dot.%u = f32[64,64] dot(h%u, wk.%u), lhs_contracting_dims={1}, "
           "rhs_contracting_dims={0}, metadata={op_name=\"layer_%u/dot\"}\n",
           k, k, k, k);
    printf("  bias.%u = f32[64,64] broadcast(b), dimensions={1}\n  pre.%u = f32[64,64] add(dot.%u, "
           "bias.%u)\n  act.%u = f32[64,64] tanh(pre.%u)\n",
           k, k, k, k, k, k);
    printf("  flat.%u = f32[4096] reshape(act.%u)\n  cube.%u = f32[8,8,64] reshape(flat.%u)\n"
           "  back.%u = f32[64,64] reshape(cube.%u)\n",
           k, k, k, k, k, k);
    printf("  t.%u = f32[64,64] transpose(back.%u), dimensions={1,0}\n"
           "  u.%u = f32[64,64] transpose(t.%u), dimensions={1,0}\n",
           k, k, k, k);
    printf("  sum.%u = f32[64] reduce(u.%u, zero), dimensions={1}, to_apply=add_region\n"
           "  scale.%u = f32[] constant(%u.5)\n",
           k, k, k, k % 7 + 1);
    printf("  scales.%u = f32[64] broadcast(scale.%u), dimensions={}\n"
           "  mean.%u = f32[64] divide(sum.%u, scales.%u)\n",
           k, k, k, k, k);
    printf("  means.%u = f32[64,64] broadcast(mean.%u), dimensions={0}\n"
           "  centred.%u = f32[64,64] subtract(u.%u, means.%u)\n",
           k, k, k, k, k);
    printf("  %sh%u = f32[64,64] add(centred.%u, h%u)\n", k + 1 == layers ? "ROOT " : "", k + 1, k,
           k);
  }
  printf("}\n");
}

// An optimizer's step over many small weights: a chain of ten for each, and a tuple of all results.
static void wide(u32 n) {
  u32 chains = n / 11 + 1;
  printf("HloModule wide\n\nENTRY main {\n  rate = f32[] parameter(0)\n");
  for (u32 k = 0; k < chains; k++) {
    printf("  w.%u = f32[%u] parameter(%u)\n  rates.%u = f32[%u] broadcast(rate), dimensions={}\n",
           k, k % 5 + 8, k + 1, k, k % 5 + 8);
    printf("  two.%u = f32[] constant(2)\n  twos.%u = f32[%u] broadcast(two.%u), dimensions={}\n",
           k, k, k % 5 + 8, k);
    printf(
        "  square.%u = f32[%u] multiply(w.%u, w.%u)\n  grad.%u = f32[%u] multiply(w.%u, twos.%u)\n",
        k, k % 5 + 8, k, k, k, k % 5 + 8, k, k);
    printf("  root.%u = f32[%u] sqrt(square.%u)\n  ratio.%u = f32[%u] divide(grad.%u, root.%u)\n",
           k, k % 5 + 8, k, k, k % 5 + 8, k, k);
    printf("  step.%u = f32[%u] multiply(ratio.%u, rates.%u)\n  new.%u = f32[%u] subtract(w.%u, "
           "step.%u)\n",
           k, k % 5 + 8, k, k, k, k % 5 + 8, k, k);
  }
  printf("  ROOT out = (");
  for (u32 k = 0; k < chains; k++) printf("%sf32[%u]", k ? ", " : "", k % 5 + 8);
  printf(") tuple(");
  for (u32 k = 0; k < chains; k++) printf("%snew.%u", k ? ", " : "", k);
  printf(")\n}\n");
}

static const char state[] = "(s32[], f32[16], f32[16])";

// Loops that count, conditionals and reductions in turn, each with computations of its own.
static void many(u32 n) {
  u32 groups = n / 28 + 1;
  printf("HloModule many\n\n");
  for (u32 k = 0; k < groups; k++) {
    printf(
        "add.%u {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n"
        "}\n\n",
        k);
    printf("cond.%u {\n  p = %s parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
           "  end = s32[] constant(%u)\n  ROOT less = pred[] compare(i, end), direction=LT\n}\n\n",
           k, state, k % 9 + 3);
    printf("body.%u {\n  p = %s parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
           "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n",
           k, state);
    printf(
        "  a = f32[16] get-tuple-element(p), index=1\n  b = f32[16] get-tuple-element(p), index=2\n"
        "  e = f32[16] exponential(b)\n  s = f32[16] add(a, e)\n"
        "  ROOT t = %s tuple(j, s, b)\n}\n\n",
        state);
    printf("yes.%u {\n  p = f32[16] parameter(0)\n  c = f32[] constant(2)\n"
           "  cs = f32[16] broadcast(c), dimensions={}\n  ROOT r = f32[16] multiply(p, cs)\n}\n\n",
           k);
    printf("no.%u {\n  p = f32[16] parameter(0)\n  ROOT r = f32[16] negate(p)\n}\n\n", k);
  }
  printf("ENTRY main {\n  v0 = f32[16] parameter(0)\n  zero = s32[] constant(0)\n"
         "  zerof = f32[] constant(0)\n");
  for (u32 k = 0; k < groups; k++) {
    printf(
        "  init.%u = %s tuple(zero, v%u, v%u)\n  loop.%u = %s while(init.%u), condition=cond.%u, "
        "body=body.%u\n",
        k, state, k, k ? k - 1 : 0, k, state, k, k, k);
    printf("  w.%u = f32[16] get-tuple-element(loop.%u), index=1\n"
           "  total.%u = f32[] reduce(w.%u, zerof), dimensions={0}, to_apply=add.%u\n",
           k, k, k, k, k);
    printf("  big.%u = pred[] compare(total.%u, zerof), direction=GT\n"
           "  v%u = f32[16] conditional(big.%u, w.%u, w.%u), true_computation=yes.%u, "
           "false_computation=no.%u\n",
           k, k, k + 1, k, k, k, k, k);
  }
  printf("  ROOT out = f32[16] tanh(v%u)\n}\n", groups);
}

// Each function calls the one before, as deep as there are functions.
static void nested(u32 n) {
  u32 levels = n / 7 + 1;
  printf("HloModule nested\n\n");
  for (u32 k = 0; k < levels; k++) {
    printf("level_%u {\n  p = f32[32] parameter(0)\n  c = f32[] constant(%u.25)\n"
           "  cs = f32[32] broadcast(c), dimensions={}\n  m = f32[32] multiply(p, cs)\n",
           k, k % 100);
    if (k)
      printf("  call = f32[32] call(m), to_apply=level_%u, metadata={op_name=\"level_%u\"}\n",
             k - 1, k - 1);
    else printf("  call = f32[32] tanh(m)\n");
    printf("  s = f32[32] add(call, p), metadata={op_name=\"add\"}\n"
           "  ROOT r = f32[32] tanh(s)\n}\n\n");
  }
  printf("ENTRY main {\n  x = f32[32] parameter(0)\n"
         "  ROOT y = f32[32] call(x), to_apply=level_%u\n}\n",
         levels - 1);
}

static bool shaped(const char *shape, u32 n) {
  static const struct {
    const char *name;
    void (*write)(u32 n);
  } shapes[] = {{"deep", deep}, {"wide", wide}, {"many", many}, {"nested", nested}};
  for (size_t k = 0; k < HS_COUNT(shapes); k++)
    if (strcmp(shape, shapes[k].name) == 0 && n) return shapes[k].write(n), true;
  return false;
}

int main(int argc, char **argv) {
  if (argc == 3 && shaped(argv[1], (u32)strtoul(argv[2], NULL, 10))) return 0;
  u64 bytes = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
  if (bytes < 1 << 14 || bytes > (u64)1 << 32)
    return fprintf(stderr,
                   "usage: generate BYTES   (16 kB to 4 GB)\n       generate deep|wide|many|nested "
                   "INSTRUCTIONS\n"),
           2;
  u32 blocks = (u32)(bytes * 2 / 5 / SMALL_BYTES * 2), nframes = (u32)(bytes / 10 / LINE_BYTES) + 1;
  printf(
      "HloModule generated, entry_computation_layout={(f32[128,256]{1,0})->f32[128,256]{1,0}}\n");
  frames(nframes);
  for (u32 k = 0; k < blocks; k++) small(k);
  big((u32)(bytes / 2 / LINE_BYTES), blocks, nframes);
  return 0;
}
