// inputs.c — arguments for a module: by the formula of NAME.args files, or at random with the module's own constraints.
//
// The formula is a hash of (argument, element), so that no data files are needed: z = GAMMA * (k + 1) + i through the
// finalizer of splitmix64 (Steele, Lea and Flood, 2014). Random inputs follow XLA's run_hlo_module: floats in
// [-0.1, 0.2), integers that index arrays within their bounds, initial values of reductions the reducer's identity, keys
// of sorts all different.
#include <stdio.h>
#include <stdlib.h>
#include "core/eval_ops.h"

static u64 mix64(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
static u64 hash_at(u64 k, u64 i) { return mix64(0x9E3779B97F4A7C15ull * (k + 1) + i); }
static double unit_at(u64 k, u64 i) { return (double)(hash_at(k, i) >> 40) * 0x1p-24; }

typedef enum input_kind { IN_UNIFORM, IN_INT, IN_PRED, IN_ZEROS, IN_ONES, IN_IOTA } input_kind;
typedef struct input_spec { input_kind kind; double lo, hi; i64 ilo, ihi; } input_spec;

static input_spec default_spec(hlo_dtype t) {
  if (t == HLO_PRED) return (input_spec){.kind = IN_PRED};
  if (hlo_dtype_is_integer(t)) return (input_spec){.kind = IN_INT, .ilo = 0, .ihi = 2};
  return (input_spec){.kind = IN_UNIFORM, .lo = -1, .hi = 1};
}

// A float of the formula: rounded to f32 first, narrower types once more.
static void put_float(hlo_dtype t, void *p, double v) {
  if (t == HLO_F64) hlo_elem_from_f64(t, p, v);
  else hlo_elem_from_f64(t, p, (double)(float)v);
}

static void fill(hlo_literal *l, u64 k, const input_spec *s) {
  hlo_dtype t = l->shape->dtype;
  size_t w = hlo_dtype_storage(t);
  i64 n = l->shape->elements;
  char *p = l->data;
  bool complex = hlo_dtype_is_complex(t), floating = hlo_dtype_is_float(t);
  for (i64 i = 0; i < n; i++, p += w) switch (s->kind) {
    case IN_ZEROS: case IN_ONES: hlo_elem_from_i64(t, p, s->kind == IN_ONES); break;
    case IN_IOTA: hlo_elem_from_i64(t, p, i); break;
    case IN_PRED: hlo_elem_from_i64(t, p, (i64)(hash_at(k, (u64)i) & 1)); break;
    case IN_INT: hlo_elem_from_i64(t, p, (i64)((u64)s->ilo + (s->ihi > s->ilo ? hash_at(k, (u64)i) % ((u64)s->ihi - (u64)s->ilo) : 0))); break;
    case IN_UNIFORM:
      if (complex) {
        put_float(hlo_dtype_real_part(t), p, s->lo + (s->hi - s->lo) * unit_at(k, 2 * (u64)i));
        put_float(hlo_dtype_real_part(t), p + w / 2, s->lo + (s->hi - s->lo) * unit_at(k, 2 * (u64)i + 1));
      } else if (floating) put_float(t, p, s->lo + (s->hi - s->lo) * unit_at(k, (u64)i));
      else hlo_elem_from_f64(t, p, s->lo + (s->hi - s->lo) * unit_at(k, (u64)i));
      break;
    }
}

// Tuples are filled leaf by leaf; every leaf is an argument number of its own.
static hs_status make(const hlo_shape *s, u64 *leaf, const input_spec *given, hlo_literal **out) {
  HS_TRY(hlo_literal_new(s, out));
  hlo_literal *l = *out;
  if (hlo_shape_is_array(s)) {
    input_spec d = default_spec(s->dtype);
    fill(l, (*leaf)++, given ? given : &d);
    return HS_GOOD;
  }
  for (u32 k = 0; k < l->nchildren; k++) {
    hlo_literal *child;
    HS_TRY(make(s->elems[k], leaf, NULL, &child));
    hlo_literal_unref(l->children[k]);
    l->children[k] = child;
  }
  return HS_GOOD;
}

// ---- NAME.args -----------------------------------------------------------------------------------------------------------
static hs_status bad_line(u32 line, const char *what) { return hs_fail(HS_E_INPUT, "line %u of the arguments file: %s", line, what); }

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

hs_status hlo_inputs_formula(hlo_ctx *ctx, const hlo_module *m, const char *text, size_t size, hlo_literal ***out, u32 *count) {
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
    if (len >= sizeof buf) { st = bad_line(line, "too long"); break; }
    memcpy(buf, p, len);
    buf[len] = 0;
    p = eol ? eol + 1 : end;
    if (strncmp(buf, "arg ", 4) != 0) continue;
    u32 k = 0;
    input_spec s;
    st = read_spec(buf, line, &k, shape, &s);
    if (!hs_ok(st)) break;
    if (k >= n) { st = bad_line(line, "the module has fewer parameters"); break; }
    if (hlo_shape_is_array(c->params[k]->shape) && !same_shape(c->params[k]->shape, shape)) { st = bad_line(line, "the shape is not the parameter's"); break; }
    specs[k] = s;
    given[k] = true;
  }
  hlo_literal **args = hs_calloc(n + 1, sizeof *args);
  for (u32 k = 0; k < n && hs_ok(st); k++) {
    u64 leaf = k;
    st = make(c->params[k]->shape, &leaf, given[k] ? &specs[k] : NULL, &args[k]);
  }
  hs_free(specs); hs_free(given);
  if (!hs_ok(st)) { hlo_inputs_free(args, n); return st; }
  *out = args;
  *count = n;
  return HS_GOOD;
}

void hlo_inputs_free(hlo_literal **args, u32 count) {
  for (u32 k = 0; args && k < count; k++) hlo_literal_unref(args[k]);
  hs_free(args);
}

// ---- random --------------------------------------------------------------------------------------------------------------
// What the uses of a parameter ask of its values; followed through operations that hand the value on.
typedef struct wish { bool index; i64 bound; bool identity; i64 value; bool distinct; u32 depth; } wish;

static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

static void want_index(wish *w, i64 bound) {
  if (!w->index || bound < w->bound) w->bound = HS_MAX(bound, 0);
  w->index = true;
}

static void collect(const hlo_instr *v, wish *w);

static void collect_use(const hlo_use *u, wish *w) {
  const hlo_instr *i = u->user;
  u32 k = u->slot;
  switch (i->opcode) {
  case HLO_DYNAMIC_SLICE: case HLO_DYNAMIC_UPDATE_SLICE: {
    u32 first = i->opcode == HLO_DYNAMIC_SLICE ? 1 : 2;
    if (k < first) break;
    const hlo_shape *from = hlo_operand(i, 0)->shape, *part = i->opcode == HLO_DYNAMIC_SLICE ? i->shape : hlo_operand(i, 1)->shape;
    for (u32 d = 0; d < from->rank; d++)
      if (hlo_operand(i, k)->shape->rank == 1 || k - first == d) want_index(w, from->dims[d] - part->dims[d]);
    break;
  }
  case HLO_GATHER:
    if (k == 1) {
      hlo_ints map = hlo_attr_ints(i, HLO_ATTR_START_INDEX_MAP), size = hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES);
      for (u32 q = 0; q < map.n; q++) want_index(w, hlo_operand(i, 0)->shape->dims[map.v[q]] - size.v[map.v[q]]);
    }
    break;
  case HLO_SCATTER:
    if (k == (i->noperands - 1) / 2) {
      hlo_ints map = hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS), ins = hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS),
               win = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS), batch = hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS);
      const hlo_shape *to = hlo_operand(i, 0)->shape, *up = hlo_operand(i, k + 1)->shape;
      u32 at = 0;
      for (u32 d = 0; d < to->rank; d++) {
        i64 size = 1;
        if (!holds(ins, d) && !holds(batch, d) && at < win.n) size = up->dims[win.v[at++]];
        if (holds(map, d)) want_index(w, to->dims[d] - size);
      }
    }
    break;
  case HLO_REDUCE: case HLO_REDUCE_WINDOW: case HLO_SELECT_AND_SCATTER: {
    u32 first = i->opcode == HLO_SELECT_AND_SCATTER ? 2 : i->noperands / 2;
    if (k < first) break;
    const hlo_computation *c = hlo_attr_comp(i, i->opcode == HLO_SELECT_AND_SCATTER ? HLO_ATTR_SCATTER : HLO_ATTR_TO_APPLY);
    if (c) w->identity = true, w->value = ev_reducer(c) == HLO_MULTIPLY || ev_reducer(c) == HLO_AND;
    break;
  }
  case HLO_SORT: if (k == 0 && (i->noperands > 1 || hlo_attr_int(i, HLO_ATTR_IS_STABLE, 0))) w->distinct = true; break;
  case HLO_CONVERT: case HLO_RESHAPE: case HLO_BROADCAST: case HLO_COPY: case HLO_SLICE: case HLO_TRANSPOSE: case HLO_BITCAST: case HLO_CONCATENATE:
    collect(i, w);
    break;
  case HLO_CALL: case HLO_FUSION: {
    const hlo_computation *c = hlo_fusion_comp(i);
    if (c && k < c->nparams) collect(c->params[k], w);
    break;
  }
  default: break;
  }
}

static void collect(const hlo_instr *v, wish *w) {
  if (w->depth > 32) return;
  w->depth++;
  hlo_for_each_use(u, v) collect_use(u, w);
  w->depth--;
}

static void fill_random(hlo_literal *l, u64 stream, const wish *w) {
  hlo_dtype t = l->shape->dtype;
  if (!hlo_shape_is_array(l->shape)) {
    for (u32 k = 0; k < l->nchildren; k++) fill_random(l->children[k], mix64(stream + k + 1), w);
    return;
  }
  i64 n = l->shape->elements;
  if (w->identity) { for (i64 i = 0; i < n; i++) hlo_literal_set_i64(l, i, w->value); return; }
  if (hlo_dtype_is_float(t) || hlo_dtype_is_complex(t)) {
    input_spec s = {.kind = IN_UNIFORM, .lo = -0.1, .hi = 0.2};
    fill(l, stream, &s);
    return;
  }
  if (t == HLO_PRED) { input_spec s = {.kind = IN_PRED}; fill(l, stream, &s); return; }
  if (w->distinct) {                                 // a shuffled iota
    for (i64 i = 0; i < n; i++) hlo_literal_set_i64(l, i, i);
    size_t b = hlo_dtype_storage(t);
    for (i64 i = n - 1; i > 0; i--) {
      i64 j = (i64)(hash_at(stream, (u64)i) % (u64)(i + 1));
      char tmp[16], *p = l->data;
      memcpy(tmp, p + (size_t)i * b, b);
      memcpy(p + (size_t)i * b, p + (size_t)j * b, b);
      memcpy(p + (size_t)j * b, tmp, b);
    }
    return;
  }
  // Integers without a constraint fill their type's range; indices stay inside.
  for (i64 i = 0; i < n; i++) {
    u64 h = hash_at(stream, (u64)i);
    hlo_literal_set_i64(l, i, w->index ? (i64)(h % ((u64)w->bound + 1)) : (i64)h);
  }
}

hs_status hlo_inputs_random(hlo_ctx *ctx, const hlo_module *m, u64 seed, hlo_literal ***out, u32 *count) {
  (void)ctx;
  const hlo_computation *c = m->entry;
  *out = NULL;
  *count = 0;
  if (!c) return hs_fail(HS_E_INPUT, "the module has no entry computation");
  hlo_literal **args = hs_calloc(c->nparams + 1, sizeof *args);
  for (u32 k = 0; k < c->nparams; k++) {
    wish w = {0};
    collect(c->params[k], &w);
    hs_status st = hlo_literal_new(c->params[k]->shape, &args[k]);
    if (!hs_ok(st)) { hlo_inputs_free(args, k); return st; }
    fill_random(args[k], mix64(seed * 0x9E3779B97F4A7C15ull + k + 1), &w);
  }
  *out = args;
  *count = c->nparams;
  return HS_GOOD;
}

hs_status hlo_fill_elided(hlo_module *m, bool zeros, u64 seed) {
  hlo_for_each_comp(c, m) hlo_for_each_instr(i, c) {
    if (i->opcode != HLO_CONSTANT) continue;
    const hlo_literal *old = hlo_constant_value(i);
    if (!old || !hlo_literal_has_elided(old)) continue;
    hlo_literal *l;
    HS_TRY(hlo_literal_new(i->shape, &l));
    if (!zeros) {
      wish w = {0};
      collect(i, &w);
      w.identity = false;
      fill_random(l, mix64(seed * 0x9E3779B97F4A7C15ull + 0x10000 + i->id), &w);
    }
    hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = l});   // the journal keeps a reference of its own
    hlo_literal_unref(l);
  }
  return HS_GOOD;
}
