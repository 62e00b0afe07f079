// oracle.c — the evaluator against values that something else computed (tests/oracle/make.py:
// Python integers, NumPy, ml_dtypes, SciPy, real XLA through JAX).
//
//   oracle FILE... [--only SUBSTRING | --complete yes]
//
// A file (text, or compressed) holds two kinds of case. An elementwise one is a line
//     ew NAME TOLERANCE OPCODE[|ATTRIBUTES] TYPE=HEX ... > TYPE=HEX
// with lists of element values; it is run on arrays of every shape class, which take their elements
// from the lists in turn. A module stands as
//     hlo NAME TOLERANCE
//     | text of the module ...
//     arg SHAPE HEX        (as many as there are)
//     out SHAPE HEX        (the leaves of the result, in order)
// TOLERANCE: `=` the same bits (any NaN for a NaN), `uN` N units in the last place, `aX` absolute,
// `rX` relative to the largest magnitude of the array. `k` in front: denormals are kept, else they
// are flushed as XLA:CPU does. HEX is the little-endian storage of the elements. Prints FAIL lines
// and `oracle: P/T`.
//
// Coverage: a module called OPCODE[+OPCODE...]/TYPE/CLASS is the case of these triples, an
// elementwise line is the case of its opcode and last operand type for every class, and
//     none OPCODES TYPES CLASSES REASON...      (each a comma list or `*`)
// says what has no case and why. With --complete every opcode of core/types/ops.def x array type x
// class must be one of the two; one that is neither, or both, or unknown is a FAIL by its name.
#include "core/text/text.h"
#include "core/base/compress.h"
#include "core/types/compare.h"
#include "core/eval/eval.h"
#include "tests/harness/driver.h"

#include <math.h>
#include <stdlib.h>

typedef struct tolerance {
  bool keep, bits;
  double ulps, abs, rel;
} tolerance;
// The shape classes, and at the end the whole list of an elementwise case.
static const struct {
  const char *name;
  u32 rank;
  i64 dims[6];
} classes[] = {
    {"scalar", 0, {0}},
    {"empty", 1, {0}},
    {"one", 1, {1}},
    {"rank1", 1, {7}},
    {"rank2", 2, {3, 5}},
    {"empty3", 3, {2, 0, 3}},
    {"rank3", 3, {2, 3, 5}},
    {"rank4", 4, {1, 3, 1, 2}},
    {"rank5", 5, {2, 1, 2, 1, 3}},
    {"rank6", 6, {1, 2, 1, 3, 1, 2}},
    {"list", 1, {-1}},
};
enum { CLASSES = HS_COUNT(classes) - 1, BY_CASE = 1, EXCUSED = 2 };
typedef struct coverage {
  u8 spoken[HLO_OPCODE_COUNT][HLO_DTYPE_COUNT][CLASSES];
} coverage;
typedef struct tally {
  u32 run, passed;
  const char *only;
  coverage *cover;
} tally;

static bool read_tolerance(const char *s, tolerance *t) {
  *t = (tolerance){0};
  if (*s == 'k') {
    t->keep = true;
    s++;
  }
  double v = s[0] ? strtod(s + 1, NULL) : 0;
  switch (*s) {
  case '=': t->bits = true; return true;
  case 'u': t->ulps = v; return true;
  case 'a': t->abs = v; return true;
  case 'r': t->rel = v; return true;
  default: return false;
  }
}

static int nibble(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
static bool unhex(const char *s, size_t n, void *out, size_t bytes) {
  if (n != 2 * bytes) return false;
  for (size_t k = 0; k < bytes; k++) {
    int hi = nibble(s[2 * k]), lo = nibble(s[2 * k + 1]);
    if (hi < 0 || lo < 0) return false;
    ((u8 *)out)[k] = (u8)(hi << 4 | lo);
  }
  return true;
}

// ---- comparison ---------------------------------------------------------------------------------
static bool element_agrees(hlo_dtype t, const void *want, const void *got, const tolerance *tol,
                           double largest) {
  if (memcmp(want, got, hlo_dtype_storage(t)) == 0) return true;
  if (!hlo_dtype_is_float(t)) return false;
  double w = hlo_elem_to_f64(t, want), g = hlo_elem_to_f64(t, got);
  if (tol->bits) return w != w && g != g;
  return hlo_close(t, w, g,
                   (hlo_tolerance){.abs = HS_MAX(tol->abs, tol->rel * largest), .ulps = tol->ulps},
                   NULL, NULL);
}

static hs_status compare(const hlo_literal *want, const hlo_literal *got, const tolerance *tol) {
  if (want->shape->logical != got->shape->logical)
    return hs_fail(HS_E_DIFFER, "the result has another shape");
  hlo_dtype t = want->shape->dtype, part = hlo_dtype_real_part(t);
  size_t w = hlo_dtype_storage(part);
  i64 n = want->shape->elements * (hlo_dtype_is_complex(t) ? 2 : 1);
  double largest = 0;
  for (i64 k = 0; k < n && tol->rel > 0; k++) {
    double v = fabs(hlo_elem_to_f64(part, (const char *)want->data + (size_t)k * w));
    if (v > largest && !isinf(v)) largest = v;
  }
  for (i64 k = 0; k < n; k++) {
    const char *a = (const char *)want->data + (size_t)k * w,
               *b = (const char *)got->data + (size_t)k * w;
    if (!element_agrees(part, a, b, tol, largest))
      return hs_fail(HS_E_DIFFER, "element %lld: want %.17g, got %.17g", (long long)k,
                     hlo_elem_to_f64(part, a), hlo_elem_to_f64(part, b));
  }
  return HS_GOOD;
}

static hs_status run_text(hlo_ctx *ctx, const char *text, size_t n, u32 nargs,
                          hlo_literal *const *args, const tolerance *tol, hlo_literal **out) {
  hlo_module *m = NULL;
  *out = NULL;
  hs_status st = hlo_parse(ctx, text, n, NULL, &m);
  // round_each_term: XLA's results are recorded without excess precision
  hlo_eval_options opt = {.keep_denormals = tol->keep, .round_each_term = true};
  if (hs_ok(st)) st = hlo_eval_module(m, nargs, args, &opt, out);
  hlo_module_free(m);
  return st;
}

static void report(tally *t, const char *name, hs_status st) {
  t->run++;
  if (hs_ok(st)) {
    t->passed++;
    return;
  }
  printf("FAIL %s: %s%s%s\n", name, st.err->message, st.err->note ? ": " : "",
         st.err->note ? st.err->note : "");
  hs_status_drop(st);
}

// ---- coverage -----------------------------------------------------------------------------------
// Is `name` in a list of names between commas? `*` holds everything.
static bool listed(const char *list, const char *name) {
  size_t n = strlen(name);
  if (!strcmp(list, "*")) return true;
  for (const char *p = list; p; p = strchr(p, ','), p += p != NULL)
    if (!strncmp(p, name, n) && (p[n] == ',' || !p[n])) return true;
  return false;
}

static u32 items(const char *list) {
  u32 n = 1;
  for (const char *p = list; *p; p++) n += *p == ',';
  return n;
}

// Marks the triples of three lists; false when one of the names is not known.
static bool speak(coverage *c, const char *ops, const char *types, const char *in_classes, u8 how) {
  u32 nops = 0, ntypes = 0, nclasses = 0;
  for (u32 o = 1; o < HLO_OPCODE_COUNT; o++) nops += listed(ops, hlo_ops[o].text);
  for (u32 d = 1; d < HLO_DTYPE_COUNT; d++)
    ntypes += hlo_dtype_is_array((hlo_dtype)d) && listed(types, hlo_dtypes[d].text);
  for (u32 s = 0; s < CLASSES; s++) nclasses += listed(in_classes, classes[s].name);
  for (u32 o = 1; o < HLO_OPCODE_COUNT; o++)
    for (u32 d = 1; d < HLO_DTYPE_COUNT; d++)
      for (u32 s = 0; s < CLASSES; s++)
        if (hlo_dtype_is_array((hlo_dtype)d) && listed(ops, hlo_ops[o].text) &&
            listed(types, hlo_dtypes[d].text) && listed(in_classes, classes[s].name))
          c->spoken[o][d][s] |= how;
  return (!strcmp(ops, "*") || nops == items(ops)) &&
         (!strcmp(types, "*") || ntypes == items(types)) &&
         (!strcmp(in_classes, "*") || nclasses == items(in_classes));
}

// A case named OPCODES/TYPE/CLASS stands for its triples; other names for none.
static bool speak_case(coverage *c, const char *name) {
  char copy[128], *type, *class;
  snprintf(copy, sizeof copy, "%s", name);
  if (!(type = strchr(copy, '/')) || !(class = strchr(type + 1, '/'))) return true;
  *type++ = 0;
  *class ++ = 0;
  hlo_dtype d = hlo_dtype_find(hs_str_of(type));
  u32 s = 0;
  while (s < CLASSES && strcmp(classes[s].name, class) != 0) s++;
  if (d == HLO_DT_INVALID || s == CLASSES) return false;
  for (char *op = copy, *next; op; op = next) {
    next = strchr(op, '+');
    if (next) *next++ = 0;
    hlo_opcode o = hlo_op_find(hs_str_of(op));
    if (o == HLO_OP_INVALID) return false;
    c->spoken[o][d][s] |= BY_CASE;
  }
  return true;
}

static bool read_excuse(coverage *c, const char *line) {
  char ops[2048], types[512], in_classes[256];
  int end = 0;
  return sscanf(line, "none %2047s %511s %255s %n", ops, types, in_classes, &end) == 3 &&
         line[end] && speak(c, ops, types, in_classes, EXCUSED);
}

static void check_coverage(tally *t) {
  const coverage *c = t->cover;
  u32 cases = 0, excused = 0;
  for (u32 o = 1; o < HLO_OPCODE_COUNT; o++)
    for (u32 d = 1; d < HLO_DTYPE_COUNT; d++)
      for (u32 s = 0; s < CLASSES && hlo_dtype_is_array((hlo_dtype)d); s++) {
        u8 how = c->spoken[o][d][s];
        cases += how == BY_CASE;
        excused += how == EXCUSED;
        t->run++;
        if (how == BY_CASE || how == EXCUSED) {
          t->passed++;
          continue;
        }
        printf("FAIL %s/%s/%s: %s\n", hlo_ops[o].text, hlo_dtypes[d].text, classes[s].name,
               how ? "has a case, yet is said to make no sense"
                   : "has no case, and no reason for that");
      }
  printf("triples: %u by a case, %u with the reason why not\n", cases, excused);
}

// ---- elementwise cases --------------------------------------------------------------------------
typedef struct values {
  hlo_dtype type;
  size_t n;
  char *data;
} values;

static bool read_values(char *word, values *v) {
  char *eq = strchr(word, '=');
  if (!eq) return false;
  *eq = 0;
  v->type = hlo_dtype_find(hs_str_of(word));
  if (v->type == HLO_DT_INVALID) return false;
  size_t w = hlo_dtype_storage(v->type), len = strlen(eq + 1);
  v->n = len / (2 * w);
  v->data = hs_alloc(v->n * w + 1);
  return unhex(eq + 1, len, v->data, v->n * w);
}

static hs_status fill_from(hlo_ctx *ctx, const values *v, u32 rank, const i64 *dims, size_t start,
                           hlo_literal **out) {
  HS_TRY(hlo_literal_new(hlo_shape_array(ctx, v->type, rank, dims), out));
  size_t w = hlo_dtype_storage(v->type);
  for (i64 k = 0; k < (*out)->shape->elements; k++)
    memcpy((char *)(*out)->data + (size_t)k * w, v->data + (start + (size_t)k) % v->n * w, w);
  return HS_GOOD;
}

static hs_status run_class(hlo_ctx *ctx, size_t which, const char *op, const char *attrs, u32 nin,
                           const values *in, const values *want, const tolerance *tol) {
  u32 rank = classes[which].rank;
  i64 dims[6];
  memcpy(dims, classes[which].dims, sizeof dims);
  if (rank == 1 && dims[0] < 0) dims[0] = (i64)want->n;
  size_t start = which * 5 % want->n;
  hlo_literal *args[4] = {0}, *expected = NULL, *got = NULL;
  hs_buf text = {0}, shape = {0};
  hs_buf_puts(&text, "HloModule m\nENTRY e {\n");
  hs_status st = fill_from(ctx, want, rank, dims, start, &expected);
  for (u32 k = 0; k < nin && hs_ok(st); k++) {
    st = fill_from(ctx, &in[k], rank, dims, start, &args[k]);
    if (!hs_ok(st)) break;
    hs_buf_printf(&text, "p%u = ", k);
    hlo_shape_print(&text, args[k]->shape, false);
    hs_buf_printf(&text, " parameter(%u)\n", k);
  }
  if (hs_ok(st)) {
    hs_buf_puts(&text, "ROOT r = ");
    hlo_shape_print(&text, expected->shape, false);
    hs_buf_printf(&text, " %s(", op);
    for (u32 k = 0; k < nin; k++) hs_buf_printf(&text, k ? ", p%u" : "p%u", k);
    hs_buf_printf(&text, ")%s%s }\n", *attrs ? ", " : "", attrs);
    st = run_text(ctx, text.p, text.n, nin, args, tol, &got);
  }
  if (hs_ok(st)) st = compare(expected, got, tol);
  if (!hs_ok(st) && expected) {
    hlo_shape_print(&shape, expected->shape, false);
    st = hs_with_note(st, "%s", hs_buf_cstr(&shape));
  }
  for (u32 k = 0; k < nin; k++) hlo_literal_unref(args[k]);
  hlo_literal_unref(expected);
  hlo_literal_unref(got);
  hs_buf_free(&text);
  hs_buf_free(&shape);
  return st;
}

static void elementwise(tally *t, char *line) {
  char *word[16];
  u32 n = 0;
  for (char *p = strtok_r(line, " ", &line); p && n < HS_COUNT(word);
       p = strtok_r(NULL, " ", &line))
    word[n++] = p;
  const char *name = n > 1 ? word[1] : "?";
  if (t->only && !strstr(name, t->only)) return;
  values in[4] = {0}, out = {0};
  tolerance tol;
  u32 nin = 0;
  bool fine = n >= 5 && read_tolerance(word[2], &tol);
  for (u32 k = 4; fine && k < n; k++) {
    if (!strcmp(word[k], ">")) {
      fine = k + 1 < n && read_values(word[k + 1], &out);
      break;
    }
    fine = nin < 4 && read_values(word[k], &in[nin]);
    nin += fine;
  }
  hs_status st = fine && out.n ? HS_GOOD : hs_fail(HS_E_FORMAT, "the case cannot be read");
  if (hs_ok(st)) {
    char *bar = strchr(word[3], '|');
    char *attrs = bar ? bar + 1 : word[3] + strlen(word[3]);
    if (bar) *bar = 0;
    for (char *c = attrs; *c; c++)
      if (*c == ';') *c = ' ';
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_opcode op = hlo_op_find(hs_str_of(word[3]));
    for (u32 s = 0; op != HLO_OP_INVALID && nin && s < CLASSES; s++)
      t->cover->spoken[op][in[nin - 1].type][s] |= BY_CASE;
    for (size_t k = 0; k < HS_COUNT(classes) && hs_ok(st); k++)
      st = run_class(ctx, k, word[3], attrs, nin, in, &out, &tol);
    hlo_ctx_free(ctx);
  }
  report(t, name, st);
  for (u32 k = 0; k < 4; k++) hs_free(in[k].data);
  hs_free(out.data);
}

// ---- modules ------------------------------------------------------------------------------------
typedef struct module_case {
  char name[128];
  tolerance tol;
  bool open;
  hs_buf text;
  u32 nargs, nouts;
  char *args[32], *outs[32];
} module_case;

static hs_status read_literal(hlo_ctx *ctx, const char *line, hlo_literal **out) {
  size_t n = strcspn(line, " ");
  const hlo_shape *s;
  HS_TRY(hlo_parse_shape(ctx, line, n, &s));
  HS_TRY(hlo_literal_new(s, out));
  const char *hex = line + n + (line[n] == ' ');
  return unhex(hex, strlen(hex), (*out)->data, (*out)->bytes)
             ? HS_GOOD
             : hs_fail(HS_E_FORMAT, "a literal cannot be read");
}

static hs_status check_leaf(hlo_ctx *ctx, const module_case *c, const hlo_literal *l, u32 *next) {
  if (hlo_shape_is_tuple(l->shape)) {
    for (u32 k = 0; k < l->nchildren; k++) HS_TRY(check_leaf(ctx, c, l->children[k], next));
    return HS_GOOD;
  }
  if (!hlo_shape_is_array(l->shape)) return HS_GOOD;
  if (*next >= c->nouts) return hs_fail(HS_E_DIFFER, "more results than expected");
  hlo_literal *want = NULL;
  hs_status st = read_literal(ctx, c->outs[(*next)++], &want);
  if (hs_ok(st)) st = hs_with_note(compare(want, l, &c->tol), "result %u", *next - 1);
  hlo_literal_unref(want);
  return st;
}

static void finish_module(tally *t, module_case *c) {
#if !HAVE_LAPACKE
  if (c->open && strstr(hs_buf_cstr(&c->text), "\"lapack_")) {
    printf("SKIP %s: no LAPACKE\n", c->name);
    c->open = false;
  }
#endif
  if (c->open && (!t->only || strstr(c->name, t->only))) {
    hlo_ctx *ctx = hlo_ctx_new();
    hlo_literal *args[32] = {0}, *got = NULL;
    hs_status st = HS_GOOD;
    u32 next = 0;
    for (u32 k = 0; k < c->nargs && hs_ok(st); k++) st = read_literal(ctx, c->args[k], &args[k]);
    if (hs_ok(st)) st = run_text(ctx, c->text.p, c->text.n, c->nargs, args, &c->tol, &got);
    if (hs_ok(st)) st = check_leaf(ctx, c, got, &next);
    if (hs_ok(st) && next != c->nouts) st = hs_fail(HS_E_DIFFER, "fewer results than expected");
    report(t, c->name, st);
    hlo_literal_unref(got);
    for (u32 k = 0; k < c->nargs; k++) hlo_literal_unref(args[k]);
    hlo_ctx_free(ctx);
  }
  hs_buf_free(&c->text);
  *c = (module_case){0};
}

static void run_lines(tally *t, char *text) {
  module_case c = {0};
  for (char *line = text, *next; line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    if (!strncmp(line, "| ", 2)) {
      hs_buf_puts(&c.text, line + 2);
      hs_buf_putc(&c.text, '\n');
      continue;
    }
    if (!strncmp(line, "arg ", 4) && c.nargs < HS_COUNT(c.args)) {
      c.args[c.nargs++] = line + 4;
      continue;
    }
    if (!strncmp(line, "out ", 4) && c.nouts < HS_COUNT(c.outs)) {
      c.outs[c.nouts++] = line + 4;
      continue;
    }
    finish_module(t, &c);
    if (!strncmp(line, "ew ", 3)) elementwise(t, line);
    if (!strncmp(line, "none ", 5) && !read_excuse(t->cover, line))
      report(t, line, hs_fail(HS_E_FORMAT, "names what is not known, or no reason"));
    if (strncmp(line, "hlo ", 4) != 0) continue;
    char tol[64] = "";
    c.open = sscanf(line, "hlo %127s %63s", c.name, tol) == 2 && read_tolerance(tol, &c.tol);
    if (!c.open || !speak_case(t->cover, c.name))
      report(t, line, hs_fail(HS_E_FORMAT, "the case cannot be read"));
  }
  finish_module(t, &c);
}

int main(int argc, char **argv) {
  static const char *const options[] = {"only", "complete", NULL};
  drv_args a;
  if (!drv_parse(argc, argv, options, &a) || a.n < 1) {
    fprintf(stderr, "usage: oracle FILE... [--only SUBSTRING | --complete yes]\n");
    return 2;
  }
  tally t = {.only = drv_option(&a, "only"), .cover = hs_calloc(1, sizeof *t.cover)};
  for (u32 k = 0; k < a.n; k++) {
    size_t n = 0;
    char *raw = drv_read(a.v[k], &n), *text = raw;
    if (!raw) {
      fprintf(stderr, "%s: cannot be read\n", a.v[k]);
      return 2;
    }
    if (hlo_is_compressed(raw, n)) {
      size_t m;
      hs_status st = hlo_decompress(raw, n, &(hlo_unpacking){.limit = (size_t)1 << 28}, &text, &m);
      if (!hs_ok(st)) {
        printf("SKIP %s: %s\n", a.v[k], st.err->message);
        hs_status_drop(st);
        hs_free(raw);
        continue;
      }
      text = hs_realloc(text, m + 1);
      text[m] = 0;
    }
    run_lines(&t, text);
    if (text != raw) hs_free(text);
    hs_free(raw);
  }
  if (drv_option(&a, "complete") && !t.only) check_coverage(&t);
  hs_free(t.cover);
  printf("oracle: %u/%u\n", t.passed, t.run);
  return t.passed == t.run ? 0 : 1;
}
