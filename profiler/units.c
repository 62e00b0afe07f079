// units.c: numbers for people. See units.h.
#include "profiler/units.h"

#include <math.h>
#include <stdio.h>

static const char *put(char buf[32], const char *text) {
  snprintf(buf, 32, "%s", text);
  return buf;
}

// Three digits that count, of a value below 1000; whole numbers that are exact without a fraction.
static void digits(char buf[32], double v, bool exact, const char *unit) {
  double a = fabs(v);
  int behind = exact && a == floor(a) ? 0 : a < 9.995 ? 2 : a < 99.95 ? 1 : 0;
  snprintf(buf, 32, "%.*f%s", behind, v, unit);
}

// A value in the largest of the units, `step` apart, that leaves 1 or more before the point.
static const char *scaled(char buf[32], double v, const char *const *units, u32 n) {
  if (!isfinite(v)) return put(buf, "-");
  u32 u = 0;
  while (u + 1 < n && fabs(v) >= 999.5) v /= 1000, u++;
  if (fabs(v) >= 1e6) snprintf(buf, 32, "%.0fM%s", v / 1e6, units[u]);  // beyond the last unit
  else digits(buf, v, u == 0, units[u]);
  return buf;
}

const char *prof_time_text(char buf[32], double s) {
  static const struct {
    double below, s;
    const char *unit;
  } units[] = {{999.5e-9, 1e-9, " ns"},
               {999.5e-6, 1e-6, " us"},
               {999.5e-3, 1e-3, " ms"},
               {999.5, 1, " s"},
               {7200, 60, " min"},
               {99.95 * 3600, 3600, " h"},
               {999.5 * 86400, 86400, " days"}};
  double a = fabs(s);
  if (!isfinite(s)) return put(buf, "-");
  if (a < 1e-13) return put(buf, "0 s");
  for (size_t k = 0; k < HS_COUNT(units); k++)
    if (a < units[k].below) {
      // three digits without zeros behind; never an exponent in this range
      snprintf(buf, 32, "%.3g%s", s / units[k].s, units[k].unit);
      return buf;
    }
  return scaled(buf, s / (86400 * 365.25), (const char *const[]){" years", "k years"}, 2);
}

const char *prof_bytes_text(char buf[32], double v) {
  static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB", " EB"};
  // a sum of sizes is saturated at INT64_MAX: the true value may be larger
  if (v == 0x1p63) return put(buf, ">= 9.22 EB");
  return scaled(buf, v, units, HS_COUNT(units));
}

const char *prof_bytes_delta(char buf[32], double v) {
  char text[32];
  if (v == 0) return put(buf, "0");
  snprintf(buf, 32, "%s%.30s", v < 0 ? "-" : "+", prof_bytes_text(text, fabs(v)));
  return buf;
}

const char *prof_flops_text(char buf[32], double v) {
  static const char *const units[] = {" FLOP",  " kFLOP", " MFLOP", " GFLOP",
                                      " TFLOP", " PFLOP", " EFLOP"};
  return scaled(buf, v, units, HS_COUNT(units));
}

const char *prof_count_text(char buf[32], double v) {
  static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
  return scaled(buf, v, units, HS_COUNT(units));
}

const char *prof_ratio_text(char buf[32], double r) {
  double a = fabs(r);
  if (!isfinite(r)) return put(buf, "-");
  if (a >= 1e6) {
    char count[32];
    snprintf(buf, 32, "%.30sx", prof_count_text(count, r));
  } else if (a >= 99.95) snprintf(buf, 32, "%.0fx", r);
  else if (a >= 9.995) snprintf(buf, 32, "%.1fx", r);
  else if (a >= 0.0995 || a == 0) snprintf(buf, 32, "%.2fx", r);
  else if (a >= 1e-6) snprintf(buf, 32, "%.*fx", (int)ceil(-log10(a)) + 2, r);
  else put(buf, "0.00x");
  return buf;
}

const char *prof_about_ratio(char buf[32], double r) {
  if (!isfinite(r) || !(r > 0)) return put(buf, "-");
  if (r >= 1e6 || r < 1e-6) return put(buf, r >= 1 ? "over 1000000x" : "~0x");
  double unit = pow(10, floor(log10(r)) - 1);
  snprintf(buf, 32, "~%.*fx", (int)fmax(round(-log10(unit)), 0), round(r / unit) * unit);
  return buf;
}

const char *prof_noisy_text(char buf[128], prof_interval r) {
  char lo[32], hi[32];
  const char *low = prof_about_ratio(lo, r.low), *high = prof_about_ratio(hi, r.high);
  const char *way = r.low > 1    ? "faster, by how much is "
                    : r.high < 1 ? "slower, by how much is "
                                 : "";
  snprintf(buf, 128, "%stoo noisy to say (between %s and %s)", way, low + (*low == '~'),
           high + (*high == '~'));
  return buf;
}

double prof_percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }
