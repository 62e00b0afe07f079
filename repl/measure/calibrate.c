// calibrate.c: measures what this machine takes for elementary work, through the cpu backend: every
// figure comes from a module that is generated here, compiled in the worker and timed there, as any
// user's module is. See calibrate.h.
//
// A measurement is the least time of many short runs: what else runs on the machine only ever
// adds, and a run shorter than a time slice is sometimes left alone. All is measured twice, some
// seconds apart, where a minute suffices for it, and the better of the two is taken. Where one run
// is longer than that (SLICE_S), one thread is timed by the worker's processor clock, and rates of
// all threads are those of one times what all gained at the largest size below. Operations are
// measured in fused loops over arrays in the second-level cache, with the model's own rule turned
// round, so that the loads, the stores and the call are not in them. Figures that contain others (a
// transpose contains its bytes) have them taken off.
#include "repl/measure/calibrate_bench.h"

#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/eval/inputs.h"
#include "core/text/text.h"
#include "profiler/model/price.h"
#include "repl/formats/files.h"
#include "repl/shell/command.h"

// Wall time of one measurement, and of those of arrays beyond the caches.
#define SECONDS 0.025
// Runs longer than this are interrupted on a busy machine.
#define SLICE_S 1.5e-3
// ---- one module ---------------------------------------------------------------------------------
// The processor time of one run: what two runs take above one.
static hs_status cpu_time(const calibrate_bench *b, backend_exe *x, u32 nargs,
                          hlo_literal *const *args, double *s) {
  const backend *be = b->of->be;
  const worker *w = backend_context_worker(b->of->options->context);
  double took[2];
  for (u32 k = 0; k < 2; k++) {
    const backend_run_options ro = {.min_runs = 1 + 2 * k, .max_runs = 1 + 2 * k};
    backend_result r = {0};
    double before = worker_cpu_s(w);
    HS_TRY(be->run(x, nargs, args, &ro, &r));
    took[k] = worker_cpu_s(w) - before;
    backend_result_free(&r);
  }
  *s = (took[1] - took[0]) / 2;
  return HS_GOOD;
}

static hs_status time_text(calibrate_bench *b, const char *text, u32 threads, bool alone,
                           double *out) {
  const backend *be = b->of->be;
  hlo_ctx *ctx = hlo_ctx_new();
  hlo_module *m = NULL;
  hlo_literal **args = NULL;
  u32 nargs = 0;
  backend_exe *x = NULL;
  backend_result r = {0};
  backend_options o = *b->of->options;
  o.threads = threads;
  o.per_instruction = alone;
  const backend_run_options ro = {
      .min_runs = 10, .max_runs = 20000, .min_seconds = SECONDS, .max_seconds = SECONDS};
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (hs_ok(s)) s = hlo_inputs_random(ctx, m, 1, &args, &nargs);
  if (hs_ok(s)) s = be->compile(m, &o, &x);
  if (hs_ok(s)) s = be->run(x, nargs, args, &ro, &r);
  // longer, where a run is seldom left alone
  if (hs_ok(s) && r.timing.samples_ms[0] > SLICE_S * 1e3) {
    backend_run_options longer = ro;
    longer.min_seconds = longer.max_seconds = 4 * SECONDS;
    backend_result_free(&r);
    r = (backend_result){0};
    s = be->run(x, nargs, args, &longer, &r);
  }
  if (hs_ok(s)) {
    *out = INFINITY;
    for (u32 k = 0; k < r.timing.runs; k++) *out = fmin(*out, r.timing.samples_ms[k] * 1e-3);
    double cpu = *out;
    if (threads == 1 && *out > SLICE_S && !b->xla) s = cpu_time(b, x, nargs, args, &cpu);
    if (cpu > 0) *out = fmin(*out, cpu);
  }
  if (!hs_ok(s) && b->xla && m && !hs_interrupted()) s = calibrate_refused_xla(b, m, s, out);
  if (hs_ok(s)) s = hs_poll();
  backend_result_free(&r);
  if (x) be->release(x);
  hlo_inputs_free(args, nargs);
  hlo_module_free(m);
  hlo_ctx_free(ctx);
  return s;
}

hs_status calibrate_time(calibrate_bench *b, u32 threads, char *text, double *s) {
  *s = 0;
  hs_status st = time_text(b, text, threads, false, s);
  hs_free(text);
  return st;
}

hs_status calibrate_time_apart(calibrate_bench *b, const char *text, double *s) {
  *s = 0;
  return time_text(b, text, 1, true, s);
}

double calibrate_above(double s, double floor_s) { return HS_MAX(s - floor_s, LEAST_S); }

enum { PASSES = 2 };  // over all of it

void calibrate_say(calibrate_bench *b, const char *what) {
  enum { STEPS = 9 };
  if (b->progress) b->progress(b->arg, what, (double)b->step / (STEPS * PASSES));
  b->step++;
}

// What takes longer than this is shared by threads in most kernels.
#define SHARED_S 1e-4

static hs_status measure_curve(calibrate_bench *b, curve_text *text, const void *arg, u32 n,
                               const double *work, double base, const double *extra, bool bytes,
                               prof_curve *out) {
  enum { AGAIN = 2 };
  double gain = 1;
  for (u32 all = 0; all < 2; all++) {
    out[all] = (prof_curve){0};
    for (u32 k = 0; k < n; k++) {
      double one = all ? out[0].y[k] : 0, s;
      if (all && work[k] / one > SLICE_S) {
        prof_curve_add(&out[1], work[k], one * gain);
        continue;
      }
      HS_TRY(calibrate_time(b, all ? b->threads : 1, text(arg, k), &s));
      // no gain from more threads: perhaps something else had their cores
      for (u32 again = 0; again < AGAIN && all && s > SHARED_S && work[k] / s < one * 1.3;
           again++) {
        double other;
        HS_TRY(calibrate_time(b, b->threads, text(arg, k), &other));
        s = HS_MIN(s, other);
      }
      // at most half of it: what is taken off was measured apart
      double less = HS_MIN(extra ? extra[k] / (all ? b->threads : 1) : 0, s / 2);
      double rate = work[k] / calibrate_above(s, base + less);
      if (!all) prof_curve_add(&out[0], work[k], rate);
      else prof_curve_add_all(out, work[k], rate, b->threads, bytes);
      if (all) gain = out[1].y[k] / out[0].y[k];
    }
  }
  return HS_GOOD;
}

hs_status calibrate_curve(calibrate_bench *b, curve_text *text, const void *arg, u32 n,
                          const double *work, double base, const double *extra, prof_curve *out) {
  return measure_curve(b, text, arg, n, work, base, extra, false, out);
}

// ---- memory -------------------------------------------------------------------------------------
static char *stream_text(const void *arg, u32 k) {
  u32 n = (u32)(((const double *)arg)[k] / 8);
  return hs_format("HloModule stream\nENTRY e {\n  p = f32[%u] parameter(0)\n"
                   "  ROOT r = f32[%u] negate(p)\n}\n",
                   n, n);
}

static char *fill_text(const void *arg, u32 k) {
  u32 n = (u32)(((const double *)arg)[k] / 4);
  return hs_format("HloModule fill\nENTRY e {\n  p = f32[] parameter(0)\n"
                   "  ROOT r = f32[%u] broadcast(p), dimensions={}\n}\n",
                   n);
}

static char *load_text(const void *arg, u32 k) {
  u32 n = (u32)(((const double *)arg)[k] / 4 / 256);
  return hs_format("HloModule load\n" CALIBRATE_ADD
                   "ENTRY e {\n  p = f32[%u,256] parameter(0)\n  z = f32[] constant(0)\n"
                   "  ROOT r = f32[] reduce(p, z), dimensions={0,1}, to_apply=a\n}\n",
                   n);
}

static hs_status measure_stream(calibrate_bench *b) {
  enum { KB = 1024 };
  // close where second and last caches end on some processor
  static const double bytes[] = {32 * KB,    64 * KB,    128 * KB,   256 * KB,   512 * KB,
                                 1024 * KB,  2048 * KB,  3072 * KB,  4096 * KB,  12288 * KB,
                                 24576 * KB, 28672 * KB, 31744 * KB, 32768 * KB, 49152 * KB,
                                 65536 * KB, 81920 * KB, 98304 * KB, 131072 * KB};
  calibrate_say(b, "bandwidth by size");
  if (b->xla) return calibrate_streams_xla(b);
  memcpy(b->c->fresh, prof_generic.fresh, sizeof b->c->fresh);
  static const struct {
    curve_text *text;
    size_t curve;
  } forms[] = {{fill_text, offsetof(prof_calibration, fill)},
               {load_text, offsetof(prof_calibration, load)},
               {stream_text, offsetof(prof_calibration, stream)}};
  for (size_t k = 0; k < HS_COUNT(forms); k++) {
    prof_curve *curve = (prof_curve *)(void *)((char *)b->c + forms[k].curve);
    HS_TRY(measure_curve(b, forms[k].text, bytes, HS_COUNT(bytes), bytes,
                         b->c->kernel_s + b->c->run_s, NULL, true, curve));
  }
  return HS_GOOD;
}

// ---- operations ---------------------------------------------------------------------------------
static const char *const type_texts[] = {
#define TYPE(id, text) text,
    PROF_TYPES(TYPE)
#undef TYPE
};
enum { CHAIN_ELEMENTS = 16384 };

// A fused chain of n operations. Binary ones take the second argument again; two of them in turn,
// so that nothing can be combined.
static char *chain(const char *op, const char *other, const char *type, u32 n, bool binary) {
  hs_buf b = {0};
  hs_buf_printf(&b, "HloModule chain\nf {\n  v0 = %s[%d] parameter(0)\n  q = %s[%d] parameter(1)\n",
                type, CHAIN_ELEMENTS, type, CHAIN_ELEMENTS);
  for (u32 k = 1; k <= n; k++)
    hs_buf_printf(&b, "  %sv%u = %s[%d] %s(v%u%s)\n", k == n ? "ROOT " : "", k, type,
                  CHAIN_ELEMENTS, k % 2 ? op : other, k - 1, binary ? ", q" : "");
  hs_buf_printf(&b,
                "}\nENTRY e {\n  p = %s[%d] parameter(0)\n  q = %s[%d] parameter(1)\n"
                "  ROOT r = %s[%d] fusion(p, q), kind=kLoop, calls=f\n}\n",
                type, CHAIN_ELEMENTS, type, CHAIN_ELEMENTS, type, CHAIN_ELEMENTS);
  char *text = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return text;
}

double calibrate_computing(const calibrate_bench *b, double s, double memory) {
  s = calibrate_above(s, b->c->kernel_s + b->c->run_s);
  double own = s - PROF_EXPOSED * memory;
  return HS_MAX(own >= memory ? own : (s - memory) / PROF_EXPOSED, LEAST_S);
}

// Seconds per element of an operation, from a loop of it alone, so that iterations overlap as they
// do in most programs. The model's rule is turned round: of memory and computation, the smaller
// one costs a part even so.
static hs_status measure_op(calibrate_bench *b, hlo_opcode op, prof_type t, double *s) {
  static const double bytes[PROF_TYPE_COUNT] = {4, 8, 2, 4, 8, 1, 1};
  enum { LONGER = 5 };
  const prof_calibration *c = b->c;
  double all;
  const char *text = hlo_op_text(op);
  bool binary = hlo_ops[op].arity == 2;
  HS_TRY(calibrate_time(b, 1, chain(text, text, type_texts[t], 1, binary), &all));
  double moved = (binary ? 3 : 2) * bytes[t] * CHAIN_ELEMENTS,
         memory = moved / prof_curve_at(&c->stream[0], moved);
  *s = calibrate_computing(b, all, memory);
  // what hides behind the memory shows in a chain
  if (*s < memory) {
    double more;
    HS_TRY(calibrate_time(b, 1, chain(text, text, type_texts[t], LONGER, binary), &more));
    *s = HS_MAX(*s, (more - all) / (LONGER - 1));
  }
  *s = HS_MAX(*s / CHAIN_ELEMENTS, c->op_s[HLO_ADD][t]);
  return HS_GOOD;
}

static bool is_plain(hlo_opcode op) { return hlo_ops[op].cost == HLO_COST_EW; }
static bool is_slow(hlo_opcode op) {
  hlo_cost_class c = hlo_ops[op].cost;
  return c == HLO_COST_DIV || c == HLO_COST_REM || c == HLO_COST_ROOT || c == HLO_COST_EXP ||
         c == HLO_COST_POLY || c == HLO_COST_TRANS || c == HLO_COST_POW;
}

static hs_status measure_type(calibrate_bench *b, prof_type t) {
  // XLA's runs take another microsecond every time, as long as 16 operations do
  const u32 longer = b->xla ? 129 : 17;
  prof_calibration *c = b->c;
  bool integer = t == PROF_I32 || t == PROF_I64 || t == PROF_I8;
  double one, many;
  const char *x = integer ? "xor" : "add", *y = integer ? "add" : "multiply", *type = type_texts[t];
  HS_TRY(calibrate_time(b, 1, chain(x, y, type, 1, true), &one));
  HS_TRY(calibrate_time(b, 1, chain(x, y, type, longer, true), &many));
  double plain = HS_MAX((many - one) / ((longer - 1) * (double)CHAIN_ELEMENTS), LEAST_S);
  for (u32 op = 0; op < HLO_OPCODE_COUNT; op++)
    if (is_plain((hlo_opcode)op)) c->op_s[op][t] = plain;
  if (integer) {
    HS_TRY(measure_op(b, HLO_DIVIDE, t, &c->op_s[HLO_DIVIDE][t]));
    c->op_s[HLO_REMAINDER][t] = c->op_s[HLO_DIVIDE][t];
  }
  for (u32 op = 0; op < HLO_OPCODE_COUNT && !integer && t != PROF_F16 && t != PROF_F8; op++)
    if (is_slow((hlo_opcode)op)) HS_TRY(measure_op(b, (hlo_opcode)op, t, &c->op_s[op][t]));
  return HS_GOOD;
}

// An element that comes from one of two arrays, as in a concatenation or a pad: rows of 128 that
// are turned around inside a loop, beside the same loop without.
static hs_status measure_moves(calibrate_bench *b) {
  const char *turned = "  x = f32[128,1] slice(q), slice={[0:128], [127:128]}\n"
                       "  y = f32[128,127] slice(q), slice={[0:128], [0:127]}\n"
                       "  c = f32[128,128] concatenate(x, y), dimensions={1}\n";
  double s[2];
  for (u32 k = 0; k < 2; k++)
    HS_TRY(calibrate_time(
        b, 1,
        hs_format("HloModule turn\nf {\n  p = f32[128,128] parameter(0)\n"
                  "  q = f32[128,128] parameter(1)\n%s  ROOT r = f32[128,128] add(p, %s)\n}\n"
                  "ENTRY e {\n  p = f32[128,128] parameter(0)\n  q = f32[128,128] parameter(1)\n"
                  "  ROOT r = f32[128,128] fusion(p, q), kind=kLoop, calls=f\n}\n",
                  k ? turned : "", k ? "c" : "q"),
        &s[k]));
  double one = calibrate_above(s[1], s[0]) / CHAIN_ELEMENTS;
  for (u32 t = 0; t < PROF_TYPE_COUNT; t++)
    b->c->op_s[HLO_CONCATENATE][t] = b->c->op_s[HLO_PAD][t] = HS_MAX(one, LEAST_S);
  return HS_GOOD;
}

// Integers divided by a constant that is no power of two, so that the remainder takes all of it.
static hs_status measure_divisions(calibrate_bench *b) {
  static const char *const types[] = {"u32", "u64"};
  double *const out[] = {&b->c->divide_s, &b->c->divide_long_s};
  for (u32 k = 0; k < 2; k++) {
    double s;
    HS_TRY(calibrate_time(b, 1,
                          hs_format("HloModule divide\nf {\n  p = %s[%d] parameter(0)\n"
                                    "  c = %s[] constant(10007)\n"
                                    "  d = %s[%d] broadcast(c), dimensions={}\n"
                                    "  ROOT r = %s[%d] remainder(p, d)\n}\nENTRY e {\n"
                                    "  p = %s[%d] parameter(0)\n"
                                    "  ROOT r = %s[%d] fusion(p), kind=kLoop, calls=f\n}\n",
                                    types[k], CHAIN_ELEMENTS, types[k], types[k], CHAIN_ELEMENTS,
                                    types[k], CHAIN_ELEMENTS, types[k], CHAIN_ELEMENTS, types[k],
                                    CHAIN_ELEMENTS),
                          &s));
    double moved = (k ? 16.0 : 8.0) * CHAIN_ELEMENTS;
    *out[k] = HS_MAX(calibrate_computing(b, s, moved / prof_curve_at(&b->c->stream[0], moved)) /
                         CHAIN_ELEMENTS,
                     LEAST_S);
  }
  return HS_GOOD;
}

static hs_status measure_ops(calibrate_bench *b) {
  prof_calibration *c = b->c;
  memcpy(c->op_s, prof_generic.op_s, sizeof c->op_s);
  calibrate_say(b, "operations by type");
  for (u32 t = 0; t < PROF_TYPE_COUNT; t++) HS_TRY(measure_type(b, (prof_type)t));
  double half[2];
  for (u32 up = 0; up < 2; up++)
    HS_TRY(calibrate_time(b, 1,
                          hs_format("HloModule convert\nENTRY e {\n  p = %s[%d] parameter(0)\n"
                                    "  ROOT r = %s[%d] convert(p)\n}\n",
                                    up ? "f8e4m3fn" : "f32", CHAIN_ELEMENTS,
                                    up ? "f32" : "f8e4m3fn", CHAIN_ELEMENTS),
                          &half[up]));
  c->op_s[HLO_CONVERT][PROF_F8] = calibrate_above(half[0], c->kernel_s + c->run_s) / CHAIN_ELEMENTS;
  c->widen_s = calibrate_above(half[1], c->kernel_s + c->run_s) / CHAIN_ELEMENTS;
  // to an integer, with what that does to numbers out of range
  double whole;
  HS_TRY(calibrate_time(b, 1,
                        hs_format("HloModule convert\nENTRY e {\n  p = f32[%d] parameter(0)\n"
                                  "  ROOT r = s32[%d] convert(p)\n}\n",
                                  CHAIN_ELEMENTS, CHAIN_ELEMENTS),
                        &whole));
  c->op_s[HLO_CONVERT][PROF_I32] =
      HS_MAX(calibrate_above(whole, c->kernel_s + c->run_s) / CHAIN_ELEMENTS,
             c->op_s[HLO_CONVERT][PROF_I32]);
  c->op_s[HLO_CONVERT][PROF_I64] = 2 * c->op_s[HLO_CONVERT][PROF_I32];
  c->op_s[HLO_CONVERT][PROF_I8] =
      HS_MAX(c->op_s[HLO_CONVERT][PROF_I32], c->op_s[HLO_CONVERT][PROF_I8]);
  HS_TRY(measure_moves(b));
  HS_TRY(measure_divisions(b));
  // short floating-point values are computed with as f32, and rounded where that can be needed
  double rounding = HS_MAX(c->op_s[HLO_ADD][PROF_F16] - c->op_s[HLO_ADD][PROF_F32], 0);
  static const hlo_opcode exact[] = {HLO_COMPARE, HLO_SELECT, HLO_MAXIMUM,   HLO_MINIMUM,
                                     HLO_CLAMP,   HLO_ABS,    HLO_NEGATE,    HLO_SIGN,
                                     HLO_FLOOR,   HLO_CEIL,   HLO_IS_FINITE, HLO_BITCAST_CONVERT};
  for (size_t k = 0; k < HS_COUNT(exact); k++)
    c->op_s[exact[k]][PROF_F16] = c->op_s[exact[k]][PROF_F32];
  double rounding8 = HS_MAX(c->op_s[HLO_ADD][PROF_F8] - c->op_s[HLO_ADD][PROF_F32], 0);
  for (u32 op = 0; op < HLO_OPCODE_COUNT; op++) {
    if (!is_slow((hlo_opcode)op)) continue;
    c->op_s[op][PROF_F16] = c->op_s[op][PROF_F32] + rounding;
    c->op_s[op][PROF_F8] = c->op_s[op][PROF_F32] + rounding8;
  }
  return HS_GOOD;
}

// ---- indices, sorts and others ------------------------------------------------------------------
// The bytes of a figure's kernel, at the rate of arrays of that size.
static double bytes_time(const calibrate_bench *b, double bytes) {
  return bytes / prof_curve_at(&b->c->stream[0], bytes) + b->c->kernel_s + b->c->run_s;
}

static hs_status measure_indexed(calibrate_bench *b) {
  prof_calibration *c = b->c;
  double s, n = 16384, base = c->kernel_s + c->run_s;
  calibrate_say(b, "gather, scatter, sort");
  const char *gather = "  p = f32[%u,%u] parameter(0)\n  i = s32[16384,1] parameter(1)\n"
                       "  %s = f32[16384,%u] gather(p, i), offset_dims={1}, "
                       "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                       "slice_sizes={1,%u}\n";
  hs_status st;
  char *inside = hs_format(gather, 16384u, 1u, "g", 1u, 1u);
  st = calibrate_time(
      b, 1,
      hs_format("HloModule indexed\nf {\n%s  ROOT m = f32[16384,1] multiply(g, g)\n}\n"
                "ENTRY e {\n  p = f32[16384,1] parameter(0)\n"
                "  i = s32[16384,1] parameter(1)\n"
                "  ROOT r = f32[16384,1] fusion(p, i), kind=kLoop, calls=f\n}\n",
                inside),
      &s);
  hs_free(inside);
  HS_TRY(st);
  c->indexed_s = HS_MAX(calibrate_above(s, base) / n, LEAST_S);
  const char *scatter =
      "HloModule scatter\n" CALIBRATE_ADD
      "ENTRY e {\n  p = f32[%u,%u] parameter(0)\n  i = s32[65536,1] parameter(1)\n"
      "  u = f32[65536,%u] parameter(2)\n"
      "  ROOT r = f32[%u,%u] scatter(p, i, u), update_window_dims={1}, "
      "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=1, to_apply=a\n}\n";
  // single elements, in arrays from the second-level cache to memory
  static const u32 rows[] = {16384, 262144, 2097152, 16777216};
  static const u32 changed[] = {256, 16384, 262144, 2097152};
  c->gathers[0] = c->scatters[0] = c->scatters[1] = (prof_curve){0};
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    char *one = hs_format(gather, rows[k], 1u, "ROOT g", 1u, 1u);
    st = calibrate_time(b, 1, hs_format("HloModule gather\nENTRY e {\n%s}\n", one), &s);
    hs_free(one);
    HS_TRY(st);
    prof_curve_add(&c->gathers[0], 4.0 * rows[k], n / calibrate_above(s, base));
  }
  const double updates = 65536;
  double narrow = 0, wide;
  for (u32 all = 0; all < 2; all++)
    for (size_t k = 0; k < HS_COUNT(changed); k++) {
      u32 threads = all ? b->threads : 1, of = changed[k];
      HS_TRY(calibrate_time(b, threads, hs_format(scatter, of, 1u, 1u, of, 1u), &s));
      // the operand is copied first
      s = HS_MAX(s - bytes_time(b, 2 * 4.0 * of) / threads, s / 2);
      prof_curve_add(&c->scatters[all], 4.0 * of, updates / s);
      if (k == 1 && !all) narrow = s;
    }
  c->gathers[1] = c->gathers[0];
  HS_TRY(calibrate_time(b, 1, hs_format(scatter, rows[0], 16u, 16u, rows[0], 16u), &wide));
  wide = calibrate_above(wide, bytes_time(b, 2 * 4 * 16.0 * rows[0]));
  c->scatter_element_s = HS_MAX((wide - narrow) / (updates * 15), LEAST_S);
  return HS_GOOD;
}

static char *keys_text(const void *arg, u32 k) {
  u32 n = (u32)((const double *)arg)[k];
  return hs_format("HloModule sort\nc {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                   "  ROOT l = pred[] compare(a, b), direction=LT\n}\n"
                   "ENTRY e {\n  p = f32[%u] parameter(0)\n"
                   "  ROOT r = f32[%u] sort(p), dimensions={0}, to_apply=c\n}\n",
                   n, n);
}

// Two arrays; by what the comparator says.
static char *pairs_of(const char *comparator, u32 n) {
  const char *sort = "HloModule sort\nc {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                     "  x = f32[] parameter(2)\n  y = f32[] parameter(3)\n%s}\n"
                     "ENTRY e {\n  p = f32[%u] parameter(0)\n  q = f32[%u] parameter(1)\n"
                     "  ROOT r = (f32[%u], f32[%u]) sort(p, q), dimensions={0}, to_apply=c\n}\n";
  return hs_format(sort, comparator, n, n, n, n);
}

static char *pairs_text(const void *arg, u32 k) {
  return pairs_of("  ROOT l = pred[] compare(a, b), direction=LT\n", (u32)((const double *)arg)[k]);
}

static hs_status measure_sorts(calibrate_bench *b) {
  prof_calibration *c = b->c;
  double s, base = c->kernel_s + c->run_s;
  const char *two = "  l = pred[] compare(a, b), direction=LT\n"
                    "  e = pred[] compare(a, b), direction=EQ\n"
                    "  m = pred[] compare(x, y), direction=LT\n  n = pred[] and(e, m)\n"
                    "  ROOT o = pred[] or(l, n)\n";
  static const double lines[] = {128, 1024, 16384, 131072, 262144, 1048576};
  HS_TRY(calibrate_curve(b, keys_text, lines, HS_COUNT(lines), lines, base, NULL, c->keys));
  HS_TRY(calibrate_curve(b, pairs_text, lines, HS_COUNT(lines), lines, base, NULL, c->pairs));
  // three passes over the digits of 32 bits
  for (u32 t = 0; t < 2; t++)
    for (size_t k = 0; k < HS_COUNT(lines); k++) c->keys[t].y[k] *= 3, c->pairs[t].y[k] *= 3;
  HS_TRY(calibrate_time(b, 1, pairs_of(two, 4096), &s));
  c->comparator_s = HS_MAX(calibrate_above(s, base) / (4096 * 12.0), LEAST_S);
  HS_TRY(
      calibrate_time(b, 1,
                     hs_format("HloModule topk\nENTRY e {\n  p = f32[16,4096] parameter(0)\n"
                               "  ROOT r = (f32[16,8], s32[16,8]) topk(p), k=8, largest=true\n}\n"),
                     &s));
  c->topk_s = HS_MAX(calibrate_above(s, base) / 65536, LEAST_S);
  return HS_GOOD;
}

static hs_status measure_others(calibrate_bench *b) {
  prof_calibration *c = b->c;
  double s, base = c->kernel_s + c->run_s;
  calibrate_say(b, "transforms, solves, random numbers");
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule fft\nENTRY e {\n  p = c64[64,256] parameter(0)\n"
                "  ROOT r = c64[64,256] fft(p), fft_type=FFT, fft_length={256}\n}\n"),
      &s));
  c->fft_s = HS_MAX(calibrate_above(s, base) / (64 * 256 * 8.0), LEAST_S);
  static const u32 extents[] = {4, 8, 16, 64, 192};
  c->solves[0] = c->factors[0] = (prof_curve){0};
  if (b->xla) calibrate_library_xla(b);
  for (size_t k = 0; k < HS_COUNT(extents) && !b->xla; k++) {
    u32 e = extents[k];
    double cube = (double)e * e * e;
    HS_TRY(calibrate_time(
        b, 1,
        hs_format("HloModule solve\nENTRY e {\n  p = f32[%u,%u] parameter(0)\n"
                  "  q = f32[%u,%u] parameter(1)\n  ROOT r = f32[%u,%u] triangular-solve(p, q), "
                  "left_side=true, lower=true, transpose_a=NO_TRANSPOSE\n}\n",
                  e, e, e, e, e, e),
        &s));
    prof_curve_add(&c->solves[0], cube, cube / calibrate_above(s, base));
    // of a matrix whose diagonal outweighs the rest
    HS_TRY(calibrate_time(
        b, 1,
        hs_format("HloModule factor\nf {\n  p = f32[%u,%u] parameter(0)\n"
                  "  i = s32[%u,%u] iota(), iota_dimension=0\n"
                  "  j = s32[%u,%u] iota(), iota_dimension=1\n"
                  "  d = pred[%u,%u] compare(i, j), direction=EQ\n  c = f32[] constant(1000)\n"
                  "  m = f32[%u,%u] broadcast(c), dimensions={}\n"
                  "  ROOT r = f32[%u,%u] select(d, m, p)\n}\nENTRY e {\n"
                  "  p = f32[%u,%u] parameter(0)\n"
                  "  q = f32[%u,%u] fusion(p), kind=kLoop, calls=f\n"
                  "  ROOT r = f32[%u,%u] cholesky(q), lower=true\n}\n",
                  e, e, e, e, e, e, e, e, e, e, e, e, e, e, e, e, e, e),
        &s));
    prof_curve_add(&c->factors[0], cube / 3, cube / 3 / calibrate_above(s, base));
  }
  c->solves[1] = c->solves[0], c->factors[1] = c->factors[0];
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule window\ng {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                "  ROOT r = pred[] compare(x, y), direction=GE\n}\n" CALIBRATE_ADD
                "ENTRY e {\n  p = f32[8,32,32,32] parameter(0)\n"
                "  q = f32[8,16,16,32] parameter(1)\n  z = f32[] constant(0)\n"
                "  ROOT r = f32[8,32,32,32] select-and-scatter(p, q, z), "
                "window={size=1x2x2x1 stride=1x2x2x1}, select=g, scatter=a\n}\n"),
      &s));
  c->window_s = HS_MAX(calibrate_above(s, base) / (8 * 16 * 16 * 32 * 4.0), LEAST_S);
  HS_TRY(calibrate_time(b, 1,
                        hs_format("HloModule random\nENTRY e {\n  p = u64[2] parameter(0)\n"
                                  "  ROOT r = (u64[2], u32[65536]) rng-bit-generator(p), "
                                  "algorithm=rng_three_fry\n}\n"),
                        &s));
  c->random_s = HS_MAX(calibrate_above(s, base) / 65536, LEAST_S);
  return HS_GOOD;
}

// ---- all of it ----------------------------------------------------------------------------------
static hs_status measure_all(calibrate_bench *b) {
  HS_TRY(calibrate_calls(b));
  HS_TRY(measure_stream(b));
  HS_TRY(measure_ops(b));
  HS_TRY(calibrate_loops(b));
  if (b->xla) HS_TRY(calibrate_loops_xla(b));
  HS_TRY(measure_indexed(b));
  HS_TRY(measure_sorts(b));
  HS_TRY(measure_others(b));
  HS_TRY(calibrate_products(b));
  return calibrate_convolutions(b);
}

// A second pass is left out where it would end later than this: a busy machine is slow to measure.
#define MOST_S 55.0

hs_status calibrate_machine(const calibrate_of *of, u32 threads, calibrate_progress *progress,
                            void *arg, prof_calibration *out, u32 *refused) {
  u64 begin = hs_now_ns();
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  u32 n = threads ? threads : (u32)HS_MAX(cores, 1);
  prof_calibration *pass = hs_calloc(PASSES, sizeof *pass);
  calibrate_bench b = {.of = of,
                       .xla = backend_has(of->be, BACKEND_XLA),
                       .threads = n,
                       .progress = progress,
                       .arg = arg};
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < PASSES && hs_ok(s); k++) {
    if (k && 2e-9 * (double)(hs_now_ns() - begin) > MOST_S) break;
    pass[k].threads = n;
    pass[k].xla = b.xla;
    pass[k].combined_s = prof_generic.combined_s;
    b.c = &pass[k];
    s = measure_all(&b);
    if (hs_ok(s)) prof_calibration_complete(&pass[k]);
    if (hs_ok(s) && k) prof_calibration_improve(&pass[0], &pass[k]);
  }
  *out = pass[0];
  hs_free(pass);
  HS_TRY(s);
  if (refused) *refused = b.refused;
  prof_calibration_key(out->key, of->name, HLOSH_VERSION, n);
  out->seconds = (double)(hs_now_ns() - begin) * 1e-9;
  return HS_GOOD;
}

hs_status calibrate_save(const prof_calibration *c, char **path) {
  *path = prof_calibration_path(c->key);
  if (!*path)
    return hs_fail(HS_E_IO, "no place for the calibration: neither XDG_CACHE_HOME nor HOME");
  hs_make_folders(*path, UINT32_MAX);
  hs_buf text = {0};
  prof_calibration_print(c, &text);
  hs_status s = hs_write_file(*path, text.p, text.n, false);
  hs_buf_free(&text);
  return s;
}
