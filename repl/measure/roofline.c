// roofline.c: how near the kernels of a program come to what the device of `target` allows: in the
// terminal, and with -o as SVG. With --on nothing runs, and the kernels are where the model of a
// device has them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/model/price.h"
#include "profiler/units.h"
#include "repl/formats/files.h"
#include "repl/measure/kernels.h"
#include "repl/shell/target.h"
#include "viz/svg.h"

enum { CHART_WIDTH = 78, CHART_HEIGHT = 18 };

// The highest of the device's peaks for products of the module, and their type; 0: it has none.
static double fastest_products(const hlo_module *m, const prof_device *d, hlo_dtype *type) {
  double peak = 0;
  hlo_for_each_comp(k, m) {
    hlo_for_each_instr(i, k) {
      if (i->opcode != HLO_DOT && i->opcode != HLO_CONVOLUTION) continue;
      double p = prof_product_peak(d, hlo_operand(i, 0)->shape->dtype);
      if (p > peak) peak = p, *type = hlo_operand(i, 0)->shape->dtype;
    }
  }
  return peak;
}

static u32 roofs_of(repl_cmd *c, const prof_device *d, viz_roof roofs[4]) {
  u32 n = 0;
  hlo_dtype type = HLO_F32;
  double products = fastest_products(c->m, d, &type);
  roofs[n++] = (viz_roof){.name = "f32 peak", .flops = d->flops_f32};
  if (products > d->flops_f32) {
    hs_buf b = {0};
    hs_buf_printf(&b, "%s products", hlo_dtype_text(type));
    roofs[n++] = (viz_roof){.name = hs_arena_strndup(c->scratch, b.p, b.n), .flops = products};
    hs_buf_free(&b);
  }
  roofs[n++] = (viz_roof){.name = "memory", .bandwidth = d->bandwidth};
  if (d->cache_bandwidth > d->bandwidth)
    roofs[n++] = (viz_roof){.name = "cache", .bandwidth = d->cache_bandwidth};
  return n;
}

// ---- estimated ----------------------------------------------------------------------------------
static int longer_first(const void *a, const void *b) {
  double x = ((const kernel_row *)a)->estimated_ms, y = ((const kernel_row *)b)->estimated_ms;
  return (x < y) - (x > y);
}

// What the model has of each kernel, in place of a run.
static kernel_row *estimated_rows(repl_cmd *c, const prof_module *e, u32 *n) {
  u32 most = 0;
  *n = 0;
  for (u32 k = 0; k < e->n; k++) most += e->kernels[k].seconds * e->times[k] > 0;
  kernel_row *rows = HS_NEW_ARRAY(c->scratch, kernel_row, most + 1);
  hlo_for_each_comp(k, c->m) {
    hlo_for_each_instr(i, k) {
      if (i->id >= e->n || !(e->kernels[i->id].seconds * e->times[i->id] > 0)) continue;
      const prof_kernel *q = &e->kernels[i->id];
      double times = e->times[i->id], ms = 1e3 * times;
      rows[(*n)++] = (kernel_row){.key = i->name,
                                  .kind = "",
                                  .kernels = 1,
                                  .calls = times,
                                  .bytes = times * q->bytes,
                                  .flops = times * q->flops,
                                  .estimated_ms = ms * q->seconds,
                                  .memory_ms = ms * q->memory_s,
                                  .compute_ms = ms * q->compute_s,
                                  .launch_ms = ms * q->launch_s,
                                  .network_ms = ms * q->network_s,
                                  .roof_ms = ms * HS_MAX(q->memory_s, q->compute_s),
                                  .t.median = NAN};
    }
  }
  if (*n) qsort(rows, *n, sizeof *rows, longer_first);
  return rows;
}

static double row_ms(const kernel_row *r) {
  return isnan(r->t.median) ? r->estimated_ms : r->t.median;
}

static void say_point(repl_cmd *c, u32 k, const viz_roof_point *p, const kernel_row *r) {
  char t[32];
  double ms = row_ms(r);
  char mark = k < 26 ? (char)('a' + k) : '.', measured[32] = "-";
  if (!isnan(r->t.median)) (void)snprintf(measured, sizeof measured, "%.4g", p->measured * 1e-9);
  if (r->flops > 0)
    repl_say(c->out, "%c  %-32.32s %9s %10.3g %10s %10.4g %7.1f%%  %s\n", mark, r->key,
             repl_time(t, ms * 1e-3), p->intensity, measured, p->estimated * 1e-9,
             prof_percent(r->roof_ms, ms), kernel_bound(r));
  else
    repl_say(c->out, "   %-32.32s %9s %10s %10s %10s %7.1f%%  %s\n", r->key,
             repl_time(t, ms * 1e-3), "0", "-", "-", prof_percent(r->roof_ms, ms), kernel_bound(r));
}

static void json_point(repl_json *list, const viz_roof_point *p, const kernel_row *r) {
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", r->key);
  repl_json_num(j, "measured_ms", r->t.median);
  repl_json_num(j, "estimated_ms", r->estimated_ms);
  repl_json_num(j, "flops", r->flops);
  repl_json_num(j, "bytes", r->bytes);
  repl_json_num(j, "intensity", p->intensity);
  repl_json_num(j, "flops_per_second", isnan(r->t.median) ? (double)NAN : p->measured);
  repl_json_num(j, "estimated_flops_per_second", p->estimated);
  repl_json_num(j, "roof_ms", r->roof_ms);
  repl_json_num(j, "share", p->share);
  repl_json_str(j, "bound", kernel_bound(r));
}

static void say_chart(repl_cmd *c, const viz_roofline *v) {
  hs_buf b = {0};
  viz_roofline_text(v, CHART_WIDTH, CHART_HEIGHT, &b);
  repl_say(c->out, "%s", hs_buf_cstr(&b));
  hs_buf_free(&b);
}

static hs_status write_chart(repl_cmd *c, const viz_roofline *v, const char *file) {
  hs_buf b = {0};
  viz_roofline_svg(v, &b);
  hs_status s = hs_write_file(file, b.p, b.n, false);
  hs_buf_free(&b);
  if (!hs_ok(s)) return s;
  if (!c->doc) repl_say(c->out, "wrote %s\n", file);
  repl_json_str(c->doc, "file", file);
  return HS_GOOD;
}

// The kernels of a run, or with --on the model's.
static hs_status rows_of(repl_cmd *c, kernel_run *p, kernel_row **rows, u32 *n, double *whole_ms) {
  const char *on = repl_flag(c, "--on");
  if (!on) {
    HS_TRY(kernels_record(c, p));
    *rows = kernels_rows(c, p, "kernel", n);
    *whole_ms = prof_recorded_run(p->rec).median;
    return HS_GOOD;
  }
  for (const char *const *k = (const char *const[]){"--here", "--isolated", "--seconds", "--seed",
                                                    "--allow-fallback", NULL};
       *k; k++)
    if (repl_flag(c, *k)) return repl_usage_error(c, "--on runs nothing, and %s is of runs", *k);
  *p = (kernel_run){.where = "estimated"};
  HS_TRY(repl_find_device(c, on, &p->device));
  const prof_options o = {.naive = repl_flag(c, "--per-instruction") != NULL};
  HS_TRY(prof_estimate_kernels(c->m, p->device, &o, &p->model));
  *rows = estimated_rows(c, &p->model, n);
  *whole_ms = 1e3 * p->model.total.time_s;
  return HS_GOOD;
}

hs_status cmd_roofline(repl_cmd *c) {
  i64 top = 20;
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 0, INT32_MAX, &top));
  kernel_run p;
  kernel_row *rows = NULL;
  u32 n, shown = (u32)top;
  double whole = 0;
  HS_TRY(rows_of(c, &p, &rows, &n, &whole));
  const prof_device *d = p.device;
  viz_roof roofs[4];
  viz_roof_point *points = HS_NEW_ARRAY(c->scratch, viz_roof_point, n + 1);
  char *title = p.rec ? hs_format("%s on %s, roofs of %s", c->m->name, p.where, d->name)
                      : hs_format("%s, estimated for %s", c->m->name, d->name);
  viz_roofline v = {.title = title,
                    .roofs = roofs,
                    .nroofs = roofs_of(c, d, roofs),
                    .points = points,
                    .npoints = n};
  repl_say(c->out, "%s\n", title);
  if (d->measured && !prof_device_is_calibrated(d))
    repl_say(c->out,
             "  the roofs are a typical machine's, and kernels may come to more than 100 %% "
             "of them; `calibrate` measures this one's\n");
  repl_json_bool(c->doc, "calibrated", prof_device_is_calibrated(d));
  repl_json *list = repl_json_array(c->doc, "kernels");
  repl_json_str(c->doc, "device", d->name);
  repl_json_str(c->doc, "source", p.rec ? "measured" : "estimated");
  for (u32 k = 0; k < n; k++) {
    const kernel_row *r = &rows[k];
    double ms = row_ms(r);
    points[k] = (viz_roof_point){
        .name = r->key,
        .intensity = r->bytes > 0 ? r->flops / r->bytes : 0,
        .measured = p.rec && ms > 0 ? r->flops / ms * 1e3 : 0,
        .estimated = r->estimated_ms > 0 ? r->flops / r->estimated_ms * 1e3 : 0,
        .share = whole > 0 ? HS_MIN(ms / whole, 1) : 0,
    };
    json_point(list, &points[k], r);
  }
  if (!c->doc) say_chart(c, &v);
  repl_say(c->out, "   %-32s %9s %10s %10s %10s %8s  %s\n", "kernel", "time", "FLOP/byte",
           "GFLOP/s", "estimated", "of roof", "bound by");
  for (u32 k = 0; k < n && k < shown; k++) say_point(c, k, &points[k], &rows[k]);
  if (n > shown) repl_say(c->out, "(%u more; -n=%u shows all)\n", n - shown, n);
  const char *file = repl_flag(c, "-o");
  hs_status s = file ? write_chart(c, &v, file) : HS_GOOD;
  hs_free(title);
  kernels_free(&p);
  return s;
}
