// roofline.c: how near the kernels of a program come to what the device of `target` allows: in the
// terminal, and with -o as SVG.
#include "profiler/units.h"
#include "repl/formats/files.h"
#include "repl/measure/kernels.h"
#include "viz/svg.h"

enum { CHART_WIDTH = 78, CHART_HEIGHT = 18 };

static u32 roofs_of(const prof_device *d, viz_roof roofs[3]) {
  u32 n = 0;
  roofs[n++] = (viz_roof){.name = "f32 peak", .flops = d->flops_f32};
  roofs[n++] = (viz_roof){.name = "memory", .bandwidth = d->bandwidth};
  if (d->cache_bandwidth > d->bandwidth)
    roofs[n++] = (viz_roof){.name = "cache", .bandwidth = d->cache_bandwidth};
  return n;
}

static void say_point(repl_cmd *c, u32 k, const viz_roof_point *p, const kernel_row *r) {
  char t[32];
  double ms = r->t.median;
  char mark = k < 26 ? (char)('a' + k) : '.';
  if (r->flops > 0)
    repl_say(c->out, "%c  %-32.32s %9s %10.3g %10.4g %10.4g %7.1f%%  %s\n", mark, r->key,
             repl_time(t, ms * 1e-3), p->intensity, p->measured * 1e-9, p->estimated * 1e-9,
             prof_percent(r->roof_ms, ms), kernel_bound(r));
  else
    repl_say(c->out, "   %-32.32s %9s %10s %10s %10s %7.1f%%  %s\n", r->key,
             repl_time(t, ms * 1e-3), "0", "-", "-", prof_percent(r->roof_ms, ms), kernel_bound(r));
}

static void json_point(repl_json *list, const viz_roof_point *p, const kernel_row *r) {
  repl_json *j = repl_json_object(list, NULL);
  repl_json_str(j, "name", r->key);
  repl_json_num(j, "measured_ms", r->t.median);
  repl_json_num(j, "flops", r->flops);
  repl_json_num(j, "bytes", r->bytes);
  repl_json_num(j, "intensity", p->intensity);
  repl_json_num(j, "flops_per_second", p->measured);
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

hs_status cmd_roofline(repl_cmd *c) {
  i64 top = 20;
  if (repl_flag(c, "-n")) HS_TRY(repl_arg_int(c, "-n", repl_flag(c, "-n"), 0, INT32_MAX, &top));
  kernel_run p;
  HS_TRY(kernels_record(c, &p));
  const prof_device *d = p.device;
  u32 n, shown = (u32)top;
  kernel_row *rows = kernels_rows(c, &p, "kernel", &n);
  double whole = prof_recorded_run(p.rec).median;
  viz_roof roofs[3];
  viz_roof_point *points = HS_NEW_ARRAY(c->scratch, viz_roof_point, n + 1);
  char *title = hs_format("%s on %s, roofs of %s", c->m->name, p.where, d->name);
  viz_roofline v = {
      .title = title, .roofs = roofs, .nroofs = roofs_of(d, roofs), .points = points, .npoints = n};
  repl_say(c->out, "%s\n", title);
  repl_json *list = repl_json_array(c->doc, "kernels");
  repl_json_str(c->doc, "device", d->name);
  for (u32 k = 0; k < n; k++) {
    const kernel_row *r = &rows[k];
    double ms = r->t.median;
    points[k] = (viz_roof_point){
        .name = r->key,
        .intensity = r->bytes > 0 ? r->flops / r->bytes : 0,
        .measured = ms > 0 ? r->flops / ms * 1e3 : 0,
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
