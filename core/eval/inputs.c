// inputs.c — arguments by the formula of NAME.args files, and single values by words. Random
// inputs for a whole module are in inputs_random.c.
//
// The formula is a hash of (argument, element), so that no data files are needed: z = GAMMA * (k +
// 1) + i through the finalizer of splitmix64 (Steele, Lea and Flood, 2014).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/eval/inputs_fill.h"

static input_spec default_spec(hlo_dtype t) {
  if (t == HLO_PRED) return (input_spec){.kind = IN_PRED};
  if (hlo_dtype_is_integer(t)) return (input_spec){.kind = IN_INT, .ilo = 0, .ihi = 2};
  return (input_spec){.kind = IN_UNIFORM, .lo = -1, .hi = 1};
}

// A float of the formula: rounded to f32 first, narrower types once more.
static void put_float(hlo_dtype t, void *p, double v) {
  if (t == HLO_F8E8M0FNU) v = v < 0 ? -v : v > 0 ? v : 1;  // has neither a sign nor a zero
  if (t == HLO_F64) hlo_elem_from_f64(t, p, v);
  else hlo_elem_from_f64(t, p, (double)(float)v);
}

void input_fill(hlo_literal *l, u64 k, const input_spec *s) {
  hlo_dtype t = l->shape->dtype;
  size_t w = hlo_dtype_storage(t);
  const i64 all = l->shape->elements;
  i64 n = s->period > 0 ? HS_MIN(s->period, all) : all;
  char *p = l->data;
  bool complex = hlo_dtype_is_complex(t), floating = hlo_dtype_is_float(t);
  bool real = floating || complex;
  for (i64 i = 0; i < n && !hs_stops(i); i++, p += w) switch (s->kind) {
    case IN_VALUE: hlo_elem_from_f64(t, p, s->lo); break;
    case IN_NORMAL: {
      // Box and Muller
      double u = input_unit(k, 2 * (u64)i), v = input_unit(k, 2 * (u64)i + 1),
             radius = sqrt(-2 * log(1 - u)), angle = 2 * M_PI * v;
      if (real) put_float(hlo_dtype_real_part(t), p, s->lo + s->hi * radius * cos(angle));
      else hlo_elem_from_f64(t, p, s->lo + s->hi * radius * cos(angle));
      if (complex)
        put_float(hlo_dtype_real_part(t), p + w / 2, s->lo + s->hi * radius * sin(angle));
      break;
    }
    case IN_ZEROS:
    case IN_ONES: hlo_elem_from_i64(t, p, s->kind == IN_ONES); break;
    case IN_IOTA: hlo_elem_from_i64(t, p, i); break;
    case IN_BITS: hlo_elem_from_i64(t, p, (i64)input_hash(k, (u64)i)); break;
    case IN_PRED: hlo_elem_from_i64(t, p, (i64)(input_hash(k, (u64)i) & 1)); break;
    case IN_INT:
      hlo_elem_from_i64(
          t, p,
          (i64)((u64)s->ilo +
                (s->ihi > s->ilo ? input_hash(k, (u64)i) % ((u64)s->ihi - (u64)s->ilo) : 0)));
      break;
    case IN_UNIFORM:
      if (complex) {
        put_float(hlo_dtype_real_part(t), p, s->lo + (s->hi - s->lo) * input_unit(k, 2 * (u64)i));
        put_float(hlo_dtype_real_part(t), p + w / 2,
                  s->lo + (s->hi - s->lo) * input_unit(k, 2 * (u64)i + 1));
      } else if (floating) put_float(t, p, s->lo + (s->hi - s->lo) * input_unit(k, (u64)i));
      else hlo_elem_from_f64(t, p, s->lo + (s->hi - s->lo) * input_unit(k, (u64)i));
      break;
    }
  for (i64 at = n; at < all && !hs_interrupted(); at += n)
    memcpy((char *)l->data + (size_t)at * w, l->data, (size_t)HS_MIN(n, all - at) * w);
}

// Tuples are filled leaf by leaf; every leaf is an argument number of its own. After an error, *out
// is NULL or what there is of it, the caller's to free.
static hs_status make(const hlo_shape *s, u64 *leaf, const input_spec *given, hlo_literal **out) {
  HS_TRY(hlo_literal_new(s, out));
  hlo_literal *l = *out;
  if (hlo_shape_is_array(s)) {
    input_spec d = default_spec(s->dtype);
    input_fill(l, (*leaf)++, given ? given : &d);
    return hs_poll();
  }
  for (u32 k = 0; k < l->nchildren; k++) {
    hlo_literal *child = NULL;
    hs_status st = make(s->elems[k], leaf, NULL, &child);
    hlo_literal_unref(l->children[k]);
    l->children[k] = child;
    HS_TRY(st);
  }
  return HS_GOOD;
}

// ---- words --------------------------------------------------------------------------------------
static const char *const ways[] = {"zeros", "ones",   "iota",   "nan",
                                   "inf",   "random", "normal", "fill"};

bool hlo_input_is_words(const char *text) {
  size_t n = strcspn(text, "(");
  for (size_t k = 0; k < HS_COUNT(ways); k++)
    if (strlen(ways[k]) == n && memcmp(ways[k], text, n) == 0) return true;
  return false;
}

static hs_status parse_words(const char *text, const hlo_shape *s, input_spec *out) {
  char word[16];
  double a = 0, b = 0;
  char close = 0, after = 0;
  size_t n = strcspn(text, "(");
  bool real = !hlo_dtype_is_integer(s->dtype) && s->dtype != HLO_PRED;
  if (!hlo_input_is_words(text))
    return hs_fail(HS_E_INPUT, "\"%s\" does not say how to make a value", text);
  memcpy(word, text, n);
  word[n] = 0;
  int given = 0;
  if (text[n]) {
    if (sscanf(text + n, "(%lf,%lf%c%c", &a, &b, &close, &after) == 3) given = 2;
    else if (sscanf(text + n, "(%lf%c%c", &a, &close, &after) == 2) given = 1;
    if (!given || close != ')')
      return hs_fail(HS_E_INPUT, "\"%s\": expected numbers in parentheses", text);
  }
  *out = (input_spec){0};
  if (!strcmp(word, "zeros")) out->kind = IN_ZEROS;
  else if (!strcmp(word, "ones")) out->kind = IN_ONES;
  else if (!strcmp(word, "iota")) out->kind = IN_IOTA;
  else if (!strcmp(word, "nan") || !strcmp(word, "inf"))
    *out = (input_spec){.kind = IN_VALUE, .lo = word[0] == 'n' ? NAN : INFINITY};
  else if (!strcmp(word, "fill") && given == 1) *out = (input_spec){.kind = IN_VALUE, .lo = a};
  else if (!strcmp(word, "normal") && given != 1)
    *out = (input_spec){.kind = IN_NORMAL, .lo = a, .hi = given ? b : 1};
  else if (!strcmp(word, "random") && !given)
    *out = s->dtype == HLO_PRED ? (input_spec){.kind = IN_PRED}
           : real               ? (input_spec){.kind = IN_UNIFORM, .lo = -0.1, .hi = 0.2}
                                : (input_spec){.kind = IN_BITS};
  else if (!strcmp(word, "random") && given == 2 && !(a <= b))
    return hs_fail(HS_E_INPUT, "\"%s\": the range is empty", text);
  else if (!strcmp(word, "random") && given == 2)
    *out = real ? (input_spec){.kind = IN_UNIFORM, .lo = a, .hi = b}
                : (input_spec){.kind = IN_INT, .ilo = (i64)a, .ihi = (i64)b};
  else
    return hs_with_note(hs_fail(HS_E_INPUT,
                                "\"%s\": another number of values is expected in the parentheses",
                                text),
                        "random, random(LO,HI), normal, normal(MEAN,STD), fill(V)");
  return HS_GOOD;
}

static hs_status by_words(const hlo_shape *s, const char *text, u64 *stream, hlo_literal **out) {
  HS_TRY(hlo_literal_new(s, out));
  hlo_literal *l = *out;
  hs_status st = HS_GOOD;
  if (hlo_shape_is_array(s)) {
    input_spec spec;
    st = parse_words(text, s, &spec);
    if (hs_ok(st)) input_fill(l, (*stream)++, &spec), st = hs_poll();
  }
  for (u32 k = 0; k < l->nchildren && hs_ok(st); k++) {
    hlo_literal *child = NULL;
    st = by_words(s->elems[k], text, stream, &child);
    if (!hs_ok(st)) break;
    hlo_literal_unref(l->children[k]);
    l->children[k] = child;
  }
  if (!hs_ok(st)) {
    hlo_literal_unref(l);
    *out = NULL;
  }
  return st;
}

hs_status hlo_input_by_words(const hlo_shape *s, const char *text, u64 stream, hlo_literal **out) {
  *out = NULL;
  return by_words(s, text, &stream, out);
}

// ---- NAME.args ----------------------------------------------------------------------------------
static hs_status bad_line(u32 line, const char *what) {
  return hs_fail(HS_E_INPUT, "line %u of the arguments file: %s", line, what);
}

static hs_status read_spec(char *words, u32 line, u32 *number, char shape[128], input_spec *s) {
  char kind[16], lo[64] = "", hi[64] = "", sh[128];
  int n = sscanf(words, "arg %u %127s %15s %63s %63s", number, sh, kind, lo, hi);
  if (n < 3) return bad_line(line, "expected: arg NUMBER SHAPE KIND");
  memcpy(shape, sh, sizeof sh);
  *s = (input_spec){0};
  if (!strcmp(kind, "uniform") || !strcmp(kind, "int")) {
    if (n != 5) return bad_line(line, "this kind needs a lower and an upper bound");
    s->kind = kind[0] == 'u' ? IN_UNIFORM : IN_INT;
    s->lo = strtod(lo, NULL), s->hi = strtod(hi, NULL);
    s->ilo = strtoll(lo, NULL, 10), s->ihi = strtoll(hi, NULL, 10);
  } else if (!strcmp(kind, "pred")) s->kind = IN_PRED;
  else if (!strcmp(kind, "zeros")) s->kind = IN_ZEROS;
  else if (!strcmp(kind, "ones")) s->kind = IN_ONES;
  else if (!strcmp(kind, "iota")) s->kind = IN_IOTA;
  else return bad_line(line, "unknown kind");
  return HS_GOOD;
}

// The written shape must be the parameter's; layouts do not matter.
static bool same_shape(const hlo_shape *s, const char *text) {
  hs_buf b = {0};
  hlo_shape_print(&b, s, false);
  const char *p = hs_buf_cstr(&b), *brace = strchr(text, '{');
  size_t n = brace ? (size_t)(brace - text) : strlen(text);
  bool ok = strlen(p) == n && memcmp(p, text, n) == 0;
  hs_buf_free(&b);
  return ok;
}

hs_status hlo_inputs_formula(hlo_ctx *ctx, const hlo_module *m, const char *text, size_t size,
                             hlo_literal ***out, u32 *count) {
  (void)ctx;
  const hlo_computation *c = m->entry;
  *out = NULL;
  *count = 0;
  if (!c) return hs_fail(HS_E_INPUT, "the module has no entry computation");
  u32 n = c->nparams;
  input_spec *specs = hs_calloc(n + 1, sizeof *specs);
  bool *given = hs_calloc(n + 1, sizeof *given);
  hs_status st = HS_GOOD;
  const char *p = text, *end = text ? text + size : NULL;
  for (u32 line = 1; p && p < end && hs_ok(st); line++) {
    const char *eol = memchr(p, '\n', (size_t)(end - p));
    size_t len = (size_t)((eol ? eol : end) - p);
    char buf[512], shape[128];
    if (len >= sizeof buf) {
      st = bad_line(line, "too long");
      break;
    }
    memcpy(buf, p, len);
    buf[len] = 0;
    p = eol ? eol + 1 : end;
    if (strncmp(buf, "arg ", 4) != 0) continue;
    u32 k = 0;
    input_spec s;
    st = read_spec(buf, line, &k, shape, &s);
    if (!hs_ok(st)) break;
    if (k >= n) {
      st = bad_line(line, "the module has fewer parameters");
      break;
    }
    if (hlo_shape_is_array(c->params[k]->shape) && !same_shape(c->params[k]->shape, shape)) {
      st = bad_line(line, "the shape is not the parameter's");
      break;
    }
    specs[k] = s;
    given[k] = true;
  }
  hlo_literal **args = hs_calloc(n + 1, sizeof *args);
  for (u32 k = 0; k < n && hs_ok(st); k++) {
    u64 leaf = k;
    st = make(c->params[k]->shape, &leaf, given[k] ? &specs[k] : NULL, &args[k]);
  }
  hs_free(specs);
  hs_free(given);
  if (!hs_ok(st)) {
    hlo_inputs_free(args, n);
    return st;
  }
  *out = args;
  *count = n;
  return HS_GOOD;
}
