// calibration.c: what a machine takes for elementary work. See calibration.h.
#include "profiler/model/calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// ---- curves -------------------------------------------------------------------------------------
double prof_curve_at(const prof_curve *c, double x) {
  if (!c->n) return 0;
  if (x <= c->x[0]) return c->y[0];
  for (u32 k = 1; k < c->n; k++)
    if (x <= c->x[k]) {
      double t = log(x / c->x[k - 1]) / log(c->x[k] / c->x[k - 1]);
      return c->y[k - 1] * pow(c->y[k] / c->y[k - 1], t);
    }
  return c->y[c->n - 1];
}

void prof_curve_add(prof_curve *c, double x, double y) {
  HS_ASSERT(c->n < PROF_CURVE_POINTS && (c->n == 0 || x > c->x[c->n - 1]));
  c->x[c->n] = x;
  c->y[c->n++] = y;
}

void prof_curve_add_all(prof_curve c[2], double x, double y, u32 threads, bool bytes) {
  double *one = &c[0].y[c[1].n];
  prof_curve_add(&c[1], x, HS_MAX(y, *one));
  if (!bytes) *one = HS_MAX(*one, y / threads);
}

// ---- what is not measured -----------------------------------------------------------------------
// Picoseconds of an element by cost class (core/types/costs.def).
#define COST(class, counts, ns, int_ns, cycles, expensive) \
  PS_##class = (int)((ns)*1000), INT_PS_##class = (int)((int_ns)*1000),
enum {
#include "core/types/costs.def"
};
#undef COST

const prof_calibration prof_generic = {
    .key = "generic",
    .threads = 2,
    .run_s = 0.05e-6,
    .cheap_run_s = 0.05e-6,
    .kernel_s = 0.05e-6,
    .parallel_s = 3e-6,
    .loop_s = 0.05e-6,
    .narrow_s = 3e-9,
    .widen_s = 3e-9,
    .row_s = 0.06e-9,
    .row_end_s = 5e-9,
    .extreme_s = 0.05e-9,
    .column_s = 0.08e-9,
    .against_s = 0.06e-9,
    .scan_s = 0.4e-9,
    .slide_rows_s = 0.1e-9,
    .scan_rows_s = 0.2e-9,
    .scalar_s = 1e-9,
    .divide_s = 0.2e-9,
    .divide_long_s = 0.8e-9,
    .gapped_s = 0.3e-9,
    .meeting_s = 20e-6,
    .reshard_s = 20e-6,
    .strided_s = 0.6e-9,
    .indexed_s = 1.5e-9,
    .scatter_element_s = 1e-9,
    .comparator_s = 15e-9,
    .topk_s = 2e-9,
    .fft_s = 0.5e-9,
    .window_s = 2e-9,
    .random_s = 0.5e-9,
    .product_s = 0.5e-6,
    .convolution_s = 5e-6,
    .filter_s = 0.7e-9,
    .pack_s = 0.7e-9,
    .pack_bf16_s = 1.5e-9,
    .turn_s = 0.3e-9,
    .vector_product_s = 0.1e-9,
    .vector_few_s = 0.3e-9,
    .vector_rows_s = 0.1e-9,
    .vector_row_s = 10e-9,
    .windowed_s = 0.06e-9,
    .combined_s = 1e-12,
    .slides = {{1, {16}, {3e9}}, {1, {16}, {3e9}}},
    .transposes = {{1, {1e6}, {1.7e9}}, {1, {1e6}, {1.7e9}}},
    .stream = {{3, {65536, 1 << 20, 1 << 26}, {50e9, 30e9, 10e9}},
               {3, {65536, 1 << 20, 1 << 26}, {100e9, 60e9, 15e9}}},
    .fill = {{3, {65536, 1 << 20, 1 << 26}, {40e9, 25e9, 8e9}},
             {3, {65536, 1 << 20, 1 << 26}, {80e9, 50e9, 12e9}}},
    .load = {{3, {65536, 1 << 20, 1 << 26}, {50e9, 30e9, 12e9}},
             {3, {65536, 1 << 20, 1 << 26}, {100e9, 60e9, 18e9}}},
    .fresh = {{1, {1e6}, {PROF_NOTHING_FRESH}}, {1, {1e6}, {PROF_NOTHING_FRESH}}},
    .product_f32 = {{2, {1e5, 1e8}, {20e9, 80e9}}, {2, {1e5, 1e8}, {20e9, 150e9}}},
    .product_f64 = {{2, {1e5, 1e8}, {10e9, 40e9}}, {2, {1e5, 1e8}, {10e9, 75e9}}},
    .product_bf16 = {{2, {1e5, 1e8}, {10e9, 30e9}}, {2, {1e5, 1e8}, {10e9, 60e9}}},
    .product_s8 = {{2, {1e5, 1e8}, {10e9, 60e9}}, {2, {1e5, 1e8}, {10e9, 120e9}}},
    .narrow_m = {{2, {4, 64}, {0.3, 1}}, {2, {4, 64}, {0.3, 1}}},
    .narrow_n = {{2, {4, 64}, {0.3, 1}}, {2, {4, 64}, {0.3, 1}}},
    .narrow_k = {{2, {4, 64}, {0.3, 1}}, {2, {4, 64}, {0.3, 1}}},
    .convolution = {{2, {1e6, 1e8}, {20e9, 70e9}}, {2, {1e6, 1e8}, {20e9, 130e9}}},
    .convolution_weights = {{2, {1e6, 1e8}, {20e9, 60e9}}, {2, {1e6, 1e8}, {20e9, 110e9}}},
    .convolution_bf16 = {{2, {1e6, 1e8}, {15e9, 50e9}}, {2, {1e6, 1e8}, {15e9, 90e9}}},
    .convolution_grouped = {{2, {1e6, 1e8}, {5e9, 8e9}}, {2, {1e6, 1e8}, {5e9, 16e9}}},
    .convolution_dilated = {{2, {1e6, 1e8}, {10e9, 40e9}}, {2, {1e6, 1e8}, {10e9, 80e9}}},
    .convolution_groups = {{2, {1e6, 1e8}, {10e9, 30e9}}, {2, {1e6, 1e8}, {10e9, 60e9}}},
    .solves = {{2, {64, 4e6}, {0.3e9, 4e9}}, {2, {64, 4e6}, {0.3e9, 4e9}}},
    .factors = {{2, {20, 1e6}, {0.1e9, 2e9}}, {2, {20, 1e6}, {0.1e9, 2e9}}},
    .gathers = {{2, {1e5, 1e7}, {200e6, 60e6}}, {2, {1e5, 1e7}, {200e6, 60e6}}},
    .scatters = {{2, {1e5, 1e7}, {100e6, 40e6}}, {2, {1e5, 1e7}, {100e6, 40e6}}},
    .keys = {{2, {1e4, 1e6}, {350e6, 200e6}}, {2, {1e4, 1e6}, {350e6, 350e6}}},
    .pairs = {{2, {1e4, 1e6}, {250e6, 100e6}}, {2, {1e4, 1e6}, {250e6, 180e6}}},
    .op_s =
        {
#define OP(ID, text, arity, x, infer, eval, cost, ...)                                     \
  [HLO_##ID] = {PS_##cost * 1e-12,      PS_##cost * 2e-12,     PS_##cost * 1.5e-12,        \
                INT_PS_##cost * 1e-12,  INT_PS_##cost * 2e-12, (PS_##cost + 8000) * 1e-12, \
                INT_PS_##cost * 0.5e-12},
#include "core/types/ops.def"
#undef OP
        },
};

// ---- where it is kept ---------------------------------------------------------------------------
void prof_processor_name(char out[96]) {
  char line[256];
  snprintf(out, 96, "unknown processor");
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon || !colon[1]) continue;
    colon += 2;
    colon[strcspn(colon, "\n")] = 0;
    snprintf(out, 96, "%.95s", colon);
    break;
  }
  if (f) fclose(f);
}

void prof_calibration_key(char out[192], const char *backend, const char *version, u32 threads) {
  char model[96];
  prof_processor_name(model);
  // what is built to find faults is many times slower
#if HS_CHECKED || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  const char *build = ", checked";
#else
  const char *build = "";
#endif
  snprintf(out, 192, "%s, %u threads, backend %.32s, hlosh %.16s%s", model, threads, backend,
           version, build);
}

char *prof_calibration_path(const char *key) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if ((!cache || !*cache) && (!home || !*home)) return NULL;
  char name[192];
  size_t n = 0;
  for (const char *s = key; *s && n + 1 < sizeof name; s++) {
    bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');
    if (plain || *s == '.') name[n++] = *s;
    else if (n && name[n - 1] != '-') name[n++] = '-';
  }
  name[n] = 0;
  return cache && *cache ? hs_format("%s/hlosh/calibration/%s.txt", cache, name)
                         : hs_format("%s/.cache/hlosh/calibration/%s.txt", home, name);
}

void prof_calibration_complete(prof_calibration *c) {
  if (!(c->windowed_s > 0)) c->windowed_s = c->row_s;
  for (u32 k = 0; k < 2; k++)
    if (!c->transposes[k].n && c->strided_s > 0)
      prof_curve_add(&c->transposes[k], 1e6, 1 / c->strided_s);
}

// ---- two measurements ---------------------------------------------------------------------------
static void improve_curve(prof_curve *c, const prof_curve *other) {
  for (u32 k = 0; k < c->n && k < other->n; k++) c->y[k] = HS_MAX(c->y[k], other->y[k]);
}

void prof_calibration_improve(prof_calibration *c, const prof_calibration *other) {
#define FIGURE(name, what) c->name = HS_MIN(c->name, other->name);
  PROF_FIGURES(FIGURE)
#undef FIGURE
#define CURVE(name, what) \
  for (u32 k = 0; k < 2; k++) improve_curve(&c->name[k], &other->name[k]);
  PROF_CURVES(CURVE)
#undef CURVE
  for (u32 op = 0; op < HLO_OPCODE_COUNT; op++)
    for (u32 t = 0; t < PROF_TYPE_COUNT; t++)
      c->op_s[op][t] = HS_MIN(c->op_s[op][t], other->op_s[op][t]);
}

// ---- text ---------------------------------------------------------------------------------------
static const char *const type_names[] = {
#define TYPE(id, text) text,
    PROF_TYPES(TYPE)
#undef TYPE
};

static void print_curve(hs_buf *b, const char *name, u32 threads, const prof_curve *c) {
  hs_buf_printf(b, "curve %s %s", name, threads ? "all" : "one");
  for (u32 k = 0; k < c->n; k++) hs_buf_printf(b, " %.9g:%.9g", c->x[k], c->y[k]);
  hs_buf_puts(b, "\n");
}

#define FORMAT "hlosh calibration "
#define VERSION "4"

void prof_calibration_print(const prof_calibration *c, hs_buf *b) {
  hs_buf_printf(b, FORMAT VERSION "\nkey %s\nthreads %u\nseconds %.3g\n", c->key, c->threads,
                c->seconds);
  if (c->xla) hs_buf_puts(b, "kernels xla\n");
#define FIGURE(name, what) hs_buf_printf(b, "figure %s %.9g  # %s\n", #name, c->name, what);
  PROF_FIGURES(FIGURE)
#undef FIGURE
#define CURVE(name, what) \
  for (u32 k = 0; k < 2; k++) print_curve(b, #name, k, &c->name[k]);
  PROF_CURVES(CURVE)
#undef CURVE
  for (u32 op = 0; op < HLO_OPCODE_COUNT; op++)
    for (u32 t = 0; t < PROF_TYPE_COUNT; t++)
      if (c->op_s[op][t] != prof_generic.op_s[op][t])
        hs_buf_printf(b, "op %s %s %.9g\n", hlo_op_text((hlo_opcode)op), type_names[t],
                      c->op_s[op][t]);
  hs_buf_puts(b, "end\n");
}

typedef struct parse {
  prof_calibration *out;
  bool ended;
} parse;

static bool parse_figure(parse *p, const char *name, double v) {
#define FIGURE(n, what)                    \
  if (strcmp(name, #n) == 0) {             \
    if (!(v > 0 && v < 1e3)) return false; \
    p->out->n = v;                         \
    return true;                           \
  }
  PROF_FIGURES(FIGURE)
#undef FIGURE
  return false;
}

static bool parse_points(prof_curve *c, const char *text) {
  *c = (prof_curve){0};
  for (;;) {
    text += strspn(text, " ");
    if (!*text) return c->n > 0;
    char *end;
    double x = strtod(text, &end);
    if (*end != ':') return false;
    double y = strtod(end + 1, &end);
    bool rises = c->n == 0 || x > c->x[c->n - 1];
    if (!(x > 0 && x < 1e18 && y > 0 && y < 1e18) || !rises || c->n == PROF_CURVE_POINTS)
      return false;
    c->x[c->n] = x;
    c->y[c->n++] = y;
    text = end;
  }
}

static bool parse_curve(parse *p, const char *name, const char *threads, const char *points) {
  bool all = strcmp(threads, "all") == 0;
  if (!all && strcmp(threads, "one") != 0) return false;
#define CURVE(n, what) \
  if (strcmp(name, #n) == 0) return parse_points(&p->out->n[all], points);
  PROF_CURVES(CURVE)
#undef CURVE
  return false;
}

static bool parse_op(parse *p, const char *op, const char *type, double v) {
  if (!(v >= 0 && v < 1e-3)) return false;
  for (u32 k = 0; k < HLO_OPCODE_COUNT; k++)
    for (u32 t = 0; strcmp(op, hlo_op_text((hlo_opcode)k)) == 0 && t < PROF_TYPE_COUNT; t++)
      if (strcmp(type, type_names[t]) == 0) {
        p->out->op_s[k][t] = v;
        return true;
      }
  return false;
}

static bool parse_line(parse *p, char *line) {
  char a[64], b[64];
  double v;
  int at = 0;
  line[strcspn(line, "#")] = 0;
  if (!line[strspn(line, " ")]) return true;
  if (strcmp(line, FORMAT VERSION) == 0) return true;
  if (strncmp(line, "key ", 4) == 0) {
    snprintf(p->out->key, sizeof p->out->key, "%.191s", line + 4);
    return true;
  }
  if (strcmp(line, "kernels xla") == 0) return p->out->xla = true;
  if (sscanf(line, "threads %u", &p->out->threads) == 1)
    return p->out->threads > 0 && p->out->threads < 4096;
  if (sscanf(line, "seconds %lf", &v) == 1) {
    p->out->seconds = v;
    return v >= 0;
  }
  if (sscanf(line, "figure %63s %lf", a, &v) == 2) return parse_figure(p, a, v);
  if (sscanf(line, "curve %63s %63s%n", a, b, &at) == 2) return parse_curve(p, a, b, line + at);
  if (sscanf(line, "op %63s %63s %lf", a, b, &v) == 3) return parse_op(p, a, b, v);
  p->ended = strcmp(line, "end") == 0;
  return p->ended;
}

hs_status prof_calibration_parse(const char *text, prof_calibration *out) {
  *out = (prof_calibration){0};
  const char *version =
      strncmp(text, FORMAT, strlen(FORMAT)) == 0 ? text + strlen(FORMAT) : VERSION;
  size_t digits = strspn(version, "0123456789");
  if (digits != strlen(VERSION) || strncmp(version, VERSION, strlen(VERSION)) != 0)
    return hs_fail(HS_E_INPUT, "calibration: it is of format %.*s, and this hlosh reads " VERSION,
                   (int)HS_MIN(digits, 9), version);
  memcpy(out->op_s, prof_generic.op_s, sizeof out->op_s);
  // files from before have none of these
  memcpy(out->fresh, prof_generic.fresh, sizeof out->fresh);
  out->combined_s = prof_generic.combined_s;
  out->filter_s = prof_generic.filter_s;
  parse p = {.out = out};
  u32 number = 0;
  for (const char *s = text; *s;) {
    size_t n = strcspn(s, "\n");
    char line[1024];
    number++;
    snprintf(line, sizeof line, "%.*s", (int)HS_MIN(n, sizeof line - 1), s);
    if (n >= sizeof line || !parse_line(&p, line))
      return hs_fail(HS_E_INPUT, "calibration: line %u is not valid", number);
    s += n + (s[n] == '\n');
  }
  if (!p.ended || !out->threads || !out->key[0])
    return hs_fail(HS_E_INPUT, "calibration: it does not end");
  prof_calibration_complete(out);
#define FIGURE(name, what) \
  if (!(out->name > 0)) return hs_fail(HS_E_INPUT, "calibration: no figure %s", #name);
  PROF_FIGURES(FIGURE)
#undef FIGURE
#define CURVE(name, what)                 \
  if (!out->name[0].n || !out->name[1].n) \
    return hs_fail(HS_E_INPUT, "calibration: no curve %s", #name);
  PROF_CURVES(CURVE)
#undef CURVE
  return HS_GOOD;
}

hs_status prof_calibration_load(const char *key, prof_calibration *out, bool *found) {
  enum { MOST = 1 << 16 };
  char *path = prof_calibration_path(key);
  FILE *f = path ? fopen(path, "r") : NULL;
  *found = f != NULL;
  if (!f) {
    hs_free(path);
    return HS_GOOD;
  }
  char *text = hs_alloc(MOST);
  text[fread(text, 1, MOST - 1, f)] = 0;
  fclose(f);
  hs_status s = prof_calibration_parse(text, out);
  if (hs_ok(s) && strcmp(out->key, key) != 0)
    s = hs_fail(HS_E_INPUT, "calibration: it is of another machine or version, \"%s\"", out->key);
  if (!hs_ok(s)) s = hs_with_note(s, "in %s; `calibrate` makes it anew", path);
  hs_free(text);
  hs_free(path);
  return s;
}
