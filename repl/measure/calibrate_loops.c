// calibrate_loops.c: what this machine takes for loops over elements that are not streams.
//
// Rows and columns that are combined, arrays that are read in another order than they lie, windows
// that slide, running totals, short rows and slices with steps. Where the cost depends on a size
// that programs have many of (the distance of elements in memory, the length of a window) it is a
// curve. What the same bytes would take as a stream is taken off.
#include <math.h>

#include "repl/measure/calibrate_bench.h"

// Short rows, whose ends show, and rows of which the greatest element is wanted.
static hs_status measure_rows(calibrate_bench *b) {
  prof_calibration *c = b->c;
  const double n = 65536, loads = 4 * n / prof_curve_at(&c->load[0], 4 * n);
  double s;
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule rows\n" CALIBRATE_ADD
                "ENTRY e {\n  p = f32[2048,32] parameter(0)\n  z = f32[] constant(0)\n"
                "  ROOT r = f32[2048] reduce(p, z), dimensions={1}, to_apply=a\n}\n"),
      &s));
  c->row_end_s = calibrate_above(calibrate_computing(b, s, loads), n * c->row_s) / 2048;
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule greatest\na {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                "  ROOT r = f32[] maximum(x, y)\n}\n"
                "ENTRY e {\n  p = f32[512,128] parameter(0)\n  z = f32[] constant(-inf)\n"
                "  ROOT r = f32[512] reduce(p, z), dimensions={1}, to_apply=a\n}\n"),
      &s));
  double rest = n * c->row_s + 512 * c->row_end_s;
  c->extreme_s = calibrate_above(calibrate_computing(b, s, loads), rest) / n;
  return HS_GOOD;
}

hs_status calibrate_transpose(calibrate_bench *b, u32 e, double *s) {
  return calibrate_time(b, 1,
                        hs_format("HloModule transpose\nENTRY e {\n  p = f32[%u,%u] parameter(0)\n"
                                  "  ROOT r = f32[%u,%u] transpose(p), dimensions={1,0}\n}\n",
                                  e, e, e, e),
                        s);
}

// Square arrays, turned: the further apart elements lie that follow each other in the result, the
// more lines and pages are open at a time, and the fewer sets of a cache they fall into.
static hs_status measure_transposes(calibrate_bench *b) {
  static const u32 extents[] = {64, 128, 256, 512, 1024, 2048};
  prof_calibration *c = b->c;
  c->transposes[0] = (prof_curve){0};
  for (size_t k = 0; k < HS_COUNT(extents); k++) {
    u32 e = extents[k];
    double s, n = (double)e * e;
    HS_TRY(calibrate_transpose(b, e, &s));
    double moved = 8 * n / prof_curve_at(&c->stream[0], 8 * n);
    double own = HS_MAX(calibrate_computing(b, s, moved), n * LEAST_S);
    prof_curve_add(&c->transposes[0], 4.0 * e, n / own);
    if (e == 256) c->strided_s = own / n;
  }
  c->transposes[1] = c->transposes[0];
  return HS_GOOD;
}

// Windows by their length: short ones are built by doubling, longer ones of totals of blocks.
static hs_status measure_slides(calibrate_bench *b) {
  static const u32 lengths[] = {2, 4, 8, 16, 64};
  enum { ROWS = 16, ROW = 4096 };
  prof_calibration *c = b->c;
  c->slides[0] = (prof_curve){0};
  for (size_t k = 0; k < HS_COUNT(lengths); k++) {
    u32 w = lengths[k];
    double s;
    HS_TRY(calibrate_time(
        b, 1,
        hs_format("HloModule windows\n" CALIBRATE_ADD
                  "ENTRY e {\n  p = f32[%d,%d] parameter(0)\n  z = f32[] constant(0)\n"
                  "  ROOT r = f32[%d,%u] reduce-window(p, z), window={size=1x%u}, to_apply=a\n}\n",
                  ROWS, ROW, ROWS, ROW + 1 - w, w),
        &s));
    prof_curve_add(&c->slides[0], w, ROWS * ROW / calibrate_above(s, c->kernel_s + c->run_s));
  }
  c->slides[1] = c->slides[0];
  return HS_GOOD;
}

hs_status calibrate_loops(calibrate_bench *b) {
  prof_calibration *c = b->c;
  double s, n = 65536, base = c->kernel_s + c->run_s;
  calibrate_say(b, "reductions and transposes");
  for (u32 d = 0; d < 2; d++) {
    HS_TRY(calibrate_time(
        b, 1,
        hs_format("HloModule reduce\n" CALIBRATE_ADD
                  "ENTRY e {\n  p = f32[128,512] parameter(0)\n  z = f32[] constant(0)\n"
                  "  ROOT r = f32[%u] reduce(p, z), dimensions={%u}, to_apply=a\n}\n",
                  d ? 128 : 512, d),
        &s));
    double memory = 4 * n / prof_curve_at(&c->load[0], 4 * n);
    *(d ? &c->row_s : &c->column_s) = HS_MAX(calibrate_computing(b, s, memory) / n, LEAST_S);
  }
  HS_TRY(measure_rows(b));
  HS_TRY(measure_transposes(b));
  HS_TRY(measure_slides(b));
  HS_TRY(
      calibrate_time(b, 1,
                     hs_format("HloModule against\n" CALIBRATE_ADD
                               "ENTRY e {\n  p = f32[256,256]{0,1} parameter(0)\n"
                               "  z = f32[] constant(0)\n"
                               "  ROOT r = f32[] reduce(p, z), dimensions={0,1}, to_apply=a\n}\n"),
                     &s));
  c->against_s = calibrate_above(s, base) / n;
  // rows of three, of two arrays that each lack another dimension
  HS_TRY(calibrate_time(b, 1,
                        hs_format("HloModule narrow\nf {\n  p = f32[128,3] parameter(0)\n"
                                  "  x = f32[128,128,3] broadcast(p), dimensions={0,2}\n"
                                  "  y = f32[128,128,3] broadcast(p), dimensions={1,2}\n"
                                  "  ROOT r = f32[128,128,3] subtract(x, y)\n}\n"
                                  "ENTRY e {\n  p = f32[128,3] parameter(0)\n"
                                  "  ROOT r = f32[128,128,3] fusion(p), kind=kLoop, calls=f\n}\n"),
                        &s));
  c->narrow_s = calibrate_above(s, base) / (128 * 128 * 3);
  HS_TRY(calibrate_time(
      b, 1,
      hs_format("HloModule windows\n" CALIBRATE_ADD
                "ENTRY e {\n  p = f32[512,64] parameter(0)\n  z = f32[] constant(0)\n"
                "  ROOT r = f32[497,64] reduce-window(p, z), window={size=16x1}, to_apply=a\n}\n"),
      &s));
  c->slide_rows_s = calibrate_above(s, base) / (64 * 512 * 4);
  for (u32 rows = 0; rows < 2; rows++) {
    u32 a = rows ? 512 : 64, d = rows ? 64 : 512;
    HS_TRY(calibrate_time(
        b, 1,
        hs_format("HloModule totals\n" CALIBRATE_ADD
                  "ENTRY e {\n  p = f32[%u,%u] parameter(0)\n  z = f32[] constant(0)\n"
                  "  ROOT r = f32[%u,%u] reduce-window(p, z), window={size=%s}, to_apply=a\n}\n",
                  a, d, a, d, rows ? "512x1 pad=511_0x0_0" : "1x512 pad=0_0x511_0"),
        &s));
    *(rows ? &c->scan_rows_s : &c->scan_s) = calibrate_above(s, base) / (64 * 512);
  }
  HS_TRY(calibrate_time(b, 1,
                        hs_format("HloModule gaps\nf {\n  p = f32[32768] parameter(0)\n"
                                  "  x = f32[16384] slice(p), slice={[0:32768:2]}\n"
                                  "  y = f32[16384] slice(p), slice={[1:32768:2]}\n"
                                  "  ROOT r = f32[16384] add(x, y)\n}\n"
                                  "ENTRY e {\n  p = f32[32768] parameter(0)\n"
                                  "  ROOT r = f32[16384] fusion(p), kind=kLoop, calls=f\n}\n"),
                        &s));
  double gaps = 2 * 16384, moved = 4 * gaps + 4 * 16384;
  c->gapped_s = HS_MAX(
      calibrate_computing(b, s, moved / prof_curve_at(&c->stream[0], moved)) / gaps, LEAST_S);
  return HS_GOOD;
}
