// interp.c — how fast the reference evaluator is, and what it holds in memory.
//
//   interp
//
// CPU time of this thread, the best of several runs, so that a busy machine changes little.
// Elementwise operations in elements per second, a dot of 1024^3, how reduce-window and scatter
// grow when their work doubles (2 is linear), and the peak of a chain of operations against the
// values that are alive at once. Exit 1 when a figure misses its aim.
#include "core/eval/eval.h"
#include "core/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Best time of `runs` evaluations on seeded inputs; negative when it cannot be evaluated (said on
// stderr).
static double best_time(const char *text, int runs, i64 max_bytes) {
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hlo_literal **args = NULL;
  u32 n = 0;
  double best = 1e9;
  hs_status st = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (hs_ok(st)) st = hlo_inputs_random(ctx, m, 1, &args, &n);
  for (int k = 0; k < runs && hs_ok(st); k++) {
    hlo_literal *out = NULL;
    hlo_eval_options opt = {.max_bytes = max_bytes};
    double t = cpu_seconds();
    st = hlo_eval_module(m, n, args, &opt, &out);
    t = cpu_seconds() - t;
    best = t < best ? t : best;
    hlo_literal_unref(out);
  }
  if (!hs_ok(st) && max_bytes == 0) fprintf(stderr, "%s\n", st.err->message);
  bool fine = hs_ok(st);
  hs_status_drop(st);
  hlo_inputs_free(args, n);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return fine ? best : -1;
}

static bool figure(const char *name, double value, const char *unit, bool least, double aim) {
  bool ok = value > 0 && (least ? value >= aim : value <= aim);
  printf("%-28s %10.3g %-14s aim %s %g%s\n", name, value, unit, least ? ">=" : "<=", aim,
         ok ? "" : "   MISSED");
  return ok;
}

static bool elementwise(const char *name, const char *params, const char *op) {
  enum { N = 1 << 20, CHAIN = 8 };
  hs_buf b = {0};
  hs_buf_printf(
      &b,
      "HloModule m\nENTRY e { a = f32[%d] parameter(0) b = f32[%d] parameter(1) %s v0 = f32[%d] "
      "add(a, b)\n",
      N, N, params, N);
  for (int k = 1; k <= CHAIN; k++) hs_buf_printf(&b, op, k, N, k - 1);
  hs_buf_printf(&b, "ROOT r = f32[%d] negate(v%d) }", N, CHAIN);
  double t = best_time(hs_buf_cstr(&b), 12, 0);
  hs_buf_free(&b);
  return figure(name, t > 0 ? (double)N * (CHAIN + 2) / t * 1e-6 : -1, "M elements/s", true, 300);
}

static double window_time(int n) {
  char *text = hs_format(
      "HloModule m\nf { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }\n"
      "ENTRY e { a = f32[%d,64] parameter(0) z = f32[] constant(0) ROOT r = f32[%d,64] "
      "reduce-window(a, z), window={size=3x3 pad=1_1x1_1}, to_apply=f }",
      n, n);
  double t = best_time(text, 9, 0);
  hs_free(text);
  return t;
}

static double scatter_time(int n) {
  char *text = hs_format(
      "HloModule m\nf { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }\n"
      "ENTRY e { a = f32[4096,16] parameter(0) i = s32[%d] parameter(1) u = f32[%d,16] "
      "parameter(2) ROOT r = f32[4096,16] scatter(a, i, u), update_window_dims={1}, "
      "inserted_window_dims={0},"
      " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }",
      n, n);
  double t = best_time(text, 9, 0);
  hs_free(text);
  return t;
}

// The least limit that a chain of elementwise operations on 4 MiB arrays runs under, in arrays: two
// are alive at a time.
static double peak_in_arrays(void) {
  static const char text[] =
      "HloModule m\nENTRY e { a = f32[1048576] parameter(0) b = f32[1048576] exponential(a) c = "
      "f32[1048576] add(b, b) d = f32[1048576] multiply(c, b)\n"
      " e = f32[1048576] tanh(d) f = f32[1048576] add(e, d) g = f32[1024,1024] reshape(f) h = "
      "f32[1024,1024] transpose(g), dimensions={1,0} ROOT i = f32[1024,1024] add(h, g) }";
  for (int quarter = 1; quarter < 64; quarter++)
    if (best_time(text, 1, (i64)quarter << 20) >= 0) return quarter / 4.0;
  return -1;
}

int main(void) {
  bool ok = true;
  ok &= elementwise("add f32", "", "v%d = f32[%d] add(v%d, b)\n");
  ok &= elementwise("multiply f32", "", "v%d = f32[%d] multiply(v%d, b)\n");
  ok &= elementwise("select f32", "c = pred[1048576] parameter(2)",
                    "v%d = f32[%d] select(c, v%d, b)\n");
  ok &= figure(
      "dot 1024x1024x1024 f32",
      best_time(
          "HloModule m\nENTRY e { a = f32[1024,1024] parameter(0) b = f32[1024,1024] parameter(1) "
          "ROOT r = f32[1024,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
          5, 0),
      "s", false, 0.5);
  ok &= figure("reduce-window, twice the work", window_time(8192) / window_time(4096), "times",
               false, 2.5);
  ok &= figure("scatter, twice the work", scatter_time(131072) / scatter_time(65536), "times",
               false, 2.5);
  ok &= figure("peak, arrays (2 are alive)", peak_in_arrays(), "arrays", false, 4);
  return ok ? 0 : 1;
}
