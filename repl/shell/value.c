// value.c — parts and pictures of arrays. See value.h.
#include "repl/shell/value.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- slices -------------------------------------------------------------------------------------
typedef struct range {
  i64 start, count, step;
  bool drop;
} range;

static hs_status bad_index(const char *index, const char *why) {
  return hs_fail(HS_E_USAGE, "[%s]: %s", index, why);
}

static void skip_blanks(const char **p) {
  while (isspace((unsigned char)**p)) ++*p;
}

// An optional number; *given says whether there was one.
static bool read_number(const char **p, i64 *v, bool *given) {
  skip_blanks(p);
  char *end;
  *given = false;
  if (!isdigit((unsigned char)**p) && **p != '-' && **p != '+') return true;
  *v = strtoll(*p, &end, 10);
  if (end == *p) return false;
  *p = end;
  skip_blanks(p);
  return *given = true;
}

// One entry between commas, for a dimension of size n, by Python's rules.
static hs_status read_range(const char *index, const char **p, i64 n, range *r) {
  i64 v[3] = {0};
  bool given[3] = {false};
  u32 k = 0;
  for (;; k++) {
    if (k == 3) return bad_index(index, "too many colons");
    if (!read_number(p, &v[k], &given[k])) return bad_index(index, "a number is expected");
    if (**p != ':') break;
    ++*p;
  }
  if (k == 0) {
    if (!given[0]) return bad_index(index, "an index or a range is expected");
    i64 at = v[0] < 0 ? v[0] + n : v[0];
    if (at < 0 || at >= n)
      return hs_fail(HS_E_USAGE, "[%s]: the index %lld is outside of a dimension of size %lld",
                     index, (long long)v[0], (long long)n);
    *r = (range){at, 1, 1, true};
    return HS_GOOD;
  }
  i64 step = given[2] ? v[2] : 1;
  if (!step) return bad_index(index, "the step is zero");
  i64 low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1, at[2];
  for (u32 q = 0; q < 2; q++) {
    at[q] = v[q] < 0 ? v[q] + n : v[q];
    at[q] = HS_MIN(HS_MAX(at[q], low), high);
    if (!given[q]) at[q] = (q == 0) == (step > 0) ? low : high;
    if (!given[q] && step < 0) at[q] = q == 0 ? high : low;
  }
  i64 span = step > 0 ? at[1] - at[0] : at[0] - at[1], size = step > 0 ? step : -step;
  *r = (range){at[0], span > 0 ? (span + size - 1) / size : 0, step, false};
  return HS_GOOD;
}

static hs_status read_index(const hlo_shape *s, const char *index, range *r) {
  u32 d = 0, entries = 1;
  bool dots = strstr(index, "...") != NULL;
  for (const char *p = index; *p; p++) entries += *p == ',';
  const char *p = index;
  skip_blanks(&p);
  if (!*p) entries = 0;
  if (entries - dots > s->rank)
    return hs_fail(HS_E_USAGE, "[%s]: %u indices for rank %u", index, entries - dots, s->rank);
  while (*p) {
    skip_blanks(&p);
    if (strncmp(p, "...", 3) == 0) {
      if (!dots) return bad_index(index, "... may occur once");
      dots = false;
      p += 3;
      for (u32 fill = s->rank - (entries - 1); fill; fill--, d++)
        r[d] = (range){0, s->dims[d], 1, false};
      skip_blanks(&p);
    } else {
      HS_TRY(read_range(index, &p, s->dims[d], &r[d]));
      d++;
    }
    if (*p == ',') p++;
    else if (*p) return bad_index(index, "a comma is expected");
  }
  for (; d < s->rank; d++) r[d] = (range){0, s->dims[d], 1, false};
  return HS_GOOD;
}

hs_status repl_slice(hlo_ctx *ctx, const hlo_literal *a, const char *index, hlo_literal **out) {
  const hlo_shape *s = a->shape;
  range r[HLO_MAX_RANK];
  i64 dims[HLO_MAX_RANK], strides[HLO_MAX_RANK], at[HLO_MAX_RANK] = {0};
  u32 rank = 0;
  *out = NULL;
  HS_TRY(read_index(s, index, r));
  for (u32 d = 0; d < s->rank; d++)
    if (!r[d].drop) dims[rank++] = r[d].count;
  HS_TRY(hlo_literal_new(hlo_shape_array(ctx, s->dtype, rank, dims), out));
  hlo_row_major_strides(s->rank, s->dims, strides);
  size_t w = hlo_dtype_storage(s->dtype);
  for (i64 k = 0; k < (*out)->shape->elements && !hs_stops(k); k++) {
    i64 from = 0;
    for (u32 d = 0; d < s->rank; d++) from += (r[d].start + at[d] * r[d].step) * strides[d];
    memcpy((char *)(*out)->data + (size_t)k * w, (const char *)a->data + (size_t)from * w, w);
    for (u32 d = s->rank; d-- > 0;) {
      if (++at[d] < r[d].count) break;
      at[d] = 0;
    }
  }
  return HS_GOOD;
}

// ---- pictures -----------------------------------------------------------------------------------
void repl_draw_histogram(hs_buf *b, const hlo_literal *l, const hlo_stats *s, u32 bins,
                         bool unicode) {
  enum { WIDTH = 40, MOST = 64 };
  static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  i64 counts[MOST], most = 1;
  bins = HS_MIN(bins, (u32)MOST);
  if (s->values == s->nan + s->inf) return;
  if (!(s->max > s->min)) bins = 1;
  hlo_literal_histogram(l, s, bins, counts);
  for (u32 k = 0; k < bins; k++) most = HS_MAX(most, counts[k]);
  double width = (s->max - s->min) / bins;
  for (u32 k = 0; k < bins; k++) {
    i64 length = counts[k] * WIDTH * 8 / most;  // in eighths of a character
    hs_buf_printf(b, "  %12.5g ", s->min + width * k);
    for (i64 q = 0; q < length / 8; q++) hs_buf_puts(b, unicode ? "█" : "#");
    if (unicode) hs_buf_puts(b, eighths[length % 8]);
    else if (length % 8 >= 4 || (!(length / 8) && counts[k])) hs_buf_putc(b, '.');
    hs_buf_printf(b, " %lld\n", (long long)counts[k]);
  }
  hs_buf_printf(b, "  %12.5g\n", s->max);
}

// Mean of a block of the matrix; NaN when one of its elements is.
static double block_mean(const hlo_literal *m, i64 cols, i64 r0, i64 r1, i64 c0, i64 c1) {
  double sum = 0;
  for (i64 r = r0; r < r1; r++)
    for (i64 c = c0; c < c1; c++) sum += hlo_literal_f64(m, r * cols + c);
  return sum / (double)((r1 - r0) * (c1 - c0));
}

void repl_draw_heat(hs_buf *b, const hlo_literal *m, const hlo_stats *s, u32 columns, u32 rows,
                    bool unicode, bool color) {
  static const char *const blocks[] = {" ", "░", "▒", "▓", "█"};
  static const char ascii[] = " .:-=+*#%@";
  // From blue over grey to red; readable without telling red from green.
  static const u8 ramp[] = {17, 18, 19, 25, 31, 67, 103, 145, 187, 222, 215, 208, 202, 196, 160};
  i64 nr = m->shape->rank > 1 ? m->shape->dims[0] : 1,
      nc = m->shape->rank ? m->shape->dims[m->shape->rank - 1] : 1;
  i64 h = HS_MIN(nr, (i64)rows), w = HS_MIN(nc, (i64)columns);
  double span = s->max - s->min;
  for (i64 y = 0; y < h; y++) {
    hs_buf_puts(b, "  ");
    for (i64 x = 0; x < w; x++) {
      double v = block_mean(m, nc, y * nr / h, (y + 1) * nr / h, x * nc / w, (x + 1) * nc / w);
      double t = !isfinite(v) ? 0 : span > 0 ? (v - s->min) / span : 0.5;
      if (!isfinite(v)) hs_buf_puts(b, isnan(v) ? "?" : "!");
      else if (color)
        hs_buf_printf(b, "\033[48;5;%dm \033[0m",
                      ramp[HS_MIN((size_t)(t * (double)HS_COUNT(ramp)), HS_COUNT(ramp) - 1)]);
      else if (unicode) hs_buf_puts(b, blocks[HS_MIN((size_t)(t * 5), (size_t)4)]);
      else hs_buf_putc(b, ascii[HS_MIN((size_t)(t * 10), (size_t)9)]);
    }
    hs_buf_putc(b, '\n');
  }
  if (h < nr || w < nc)
    hs_buf_printf(b, "  each cell is the mean of up to %lld x %lld elements\n",
                  (long long)((nr + h - 1) / h), (long long)((nc + w - 1) / w));
}
