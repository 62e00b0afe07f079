// value.c — values as text and JSON; parts and pictures of arrays. See value.h.
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

// ---- text and JSON ------------------------------------------------------------------------------
// The parts of a complex element.
static void parts_of(const hlo_literal *l, i64 at, double part[2]) {
  hlo_dtype t = l->shape->dtype, real = hlo_dtype_real_part(t);
  const char *p = (const char *)l->data + (size_t)at * hlo_dtype_storage(t);
  part[0] = hlo_elem_to_f64(real, p);
  part[1] = hlo_elem_to_f64(real, p + hlo_dtype_storage(real));
}

void repl_print_element(hs_buf *b, const hlo_literal *l, i64 at, int digits) {
  hlo_dtype t = l->shape->dtype;
  if (hlo_dtype_is_complex(t)) {
    double part[2];
    parts_of(l, at, part);
    hs_buf_printf(b, "%.*g%+.*gi", digits, part[0], digits, part[1]);
  } else if (t == HLO_U64) {
    hs_buf_printf(b, "%llu", (unsigned long long)hlo_literal_i64(l, at));
  } else if (t == HLO_PRED || hlo_dtype_is_integer(t)) {
    hs_buf_i64(b, hlo_literal_i64(l, at));
  } else {
    hs_buf_printf(b, "%.*g", digits, hlo_literal_f64(l, at));
  }
}

void repl_json_element(repl_json *parent, const char *key, const hlo_literal *l, i64 at) {
  hlo_dtype t = l->shape->dtype;
  if (hlo_dtype_is_complex(t)) {
    double part[2];
    parts_of(l, at, part);
    repl_json *pair = repl_json_array(parent, key);
    for (u32 k = 0; k < 2; k++) repl_json_num(pair, NULL, part[k]);
  } else if (t == HLO_U64) {
    repl_json_u64(parent, key, (u64)hlo_literal_i64(l, at));
  } else if (t == HLO_PRED || hlo_dtype_is_integer(t)) {
    repl_json_int(parent, key, hlo_literal_i64(l, at));
  } else {
    repl_json_num(parent, key, hlo_literal_f64(l, at));
  }
}

static void say_summary(repl_out *o, const hlo_literal *v) {
  double lo = 0, hi = 0, sum = 0;
  i64 nans = 0, infs = 0, n = v->shape->elements, least = 0, most = 0;
  for (i64 k = 0; k < n && !hs_stops(k); k++) {
    double x = hlo_literal_f64(v, k);
    if (isnan(x)) {
      nans++;
      continue;
    }
    if (isinf(x)) infs++;
    if (nans == k || x < lo) lo = x, least = k;
    if (nans == k || x > hi) hi = x, most = k;
    sum += x;
  }
  if (hs_interrupted()) return;
  repl_say(o, "  %lld elements", (long long)n);
  if (n > nans) {
    hs_buf b = {0};
    hs_buf_puts(&b, ", min ");
    repl_print_element(&b, v, least, 6);
    hs_buf_puts(&b, ", max ");
    repl_print_element(&b, v, most, 6);
    double mean = sum / (double)(n - nans);  // of inf and -inf a NaN, of either sign
    repl_say(o, "%s, mean %g", hs_buf_cstr(&b), isnan(mean) ? fabs(mean) : mean);
    hs_buf_free(&b);
  }
  if (nans) repl_say(o, ", %lld NaN", (long long)nans);
  if (infs) repl_say(o, ", %lld infinite", (long long)infs);
  repl_say(o, "\n");
}

// What of an array has a value. Without memory for it the array as it is.
static hlo_literal *in_use(hlo_ctx *ctx, const hlo_literal *v) {
  hlo_literal *used = NULL;
  hs_status_drop(hlo_literal_in_use(ctx, v, &used));
  return used ? used : hlo_literal_ref(v);
}

static void say_array(repl_out *o, hlo_ctx *ctx, const char *name, const hlo_literal *v,
                      i64 limit) {
  hlo_literal *used = in_use(ctx, v);
  hs_buf b = {0};
  hlo_shape_print(&b, v->shape, false);
  for (u32 d = 0; v->dynamic_sizes && d < used->shape->rank; d++)
    hs_buf_printf(&b, "%s%lld%s", d ? "," : "(", (long long)used->shape->dims[d],
                  d + 1 == used->shape->rank ? ")" : "");
  repl_say(o, "%s = %s ", name, hs_buf_cstr(&b));
  b.n = 0;
  if (used->shape->elements <= limit) {
    hlo_print_literal(&b, used);
    repl_say(o, "%s\n", hs_buf_cstr(&b));
  } else {
    for (i64 k = 0; k < limit; k++) {
      repl_print_element(&b, used, k, 6);
      hs_buf_puts(&b, ", ");
    }
    repl_say(o, "{%s...}\n", hs_buf_cstr(&b));
    if (!hlo_dtype_is_complex(v->shape->dtype)) say_summary(o, used);
  }
  hs_buf_free(&b);
  hlo_literal_unref(used);
}

void repl_say_literal(repl_out *o, hlo_ctx *ctx, const char *name, const hlo_literal *v,
                      i64 limit) {
  if (hlo_shape_is_tuple(v->shape)) {
    for (u32 k = 0; k < v->nchildren; k++) {
      char *child = hs_format("%s{%u}", name, k);
      repl_say_literal(o, ctx, child, v->children[k], limit);
      hs_free(child);
    }
    if (!v->nchildren) repl_say(o, "%s = ()\n", name);
  } else if (hlo_shape_is_array(v->shape)) {
    say_array(o, ctx, name, v, limit);
  } else {
    hs_buf b = {0};
    hlo_shape_print(&b, v->shape, false);
    repl_say(o, "%s = %s \n", name, hs_buf_cstr(&b));
    hs_buf_free(&b);
  }
}

void repl_json_literal(repl_json *parent, hlo_ctx *ctx, const char *key, const hlo_literal *v,
                       i64 limit) {
  if (!parent) return;
  repl_json *j = repl_json_object(parent, key);
  hs_buf b = {0};
  hlo_shape_print(&b, v->shape, false);
  repl_json_str(j, "shape", hs_buf_cstr(&b));
  hs_buf_free(&b);
  if (hlo_shape_is_tuple(v->shape)) {
    repl_json *list = repl_json_array(j, "elements");
    for (u32 k = 0; k < v->nchildren; k++)
      repl_json_literal(list, ctx, NULL, v->children[k], limit);
    return;
  }
  if (!hlo_shape_is_array(v->shape)) return;
  hlo_literal *used = in_use(ctx, v);
  repl_json *sizes = v->dynamic_sizes ? repl_json_array(j, "sizes") : NULL;
  for (u32 d = 0; sizes && d < used->shape->rank; d++)
    repl_json_int(sizes, NULL, used->shape->dims[d]);
  repl_json *list = repl_json_array(j, "values");
  i64 n = HS_MIN(used->shape->elements, limit);
  for (i64 k = 0; k < n; k++) repl_json_element(list, NULL, used, k);
  if (n < used->shape->elements) repl_json_bool(j, "cut", true);
  hlo_literal_unref(used);
}
