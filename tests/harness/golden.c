// golden.c — NAME.golden files: what real XLA made of a module (format: corpus/GOLDENS.md), read
// and compared.
//
// Tolerances follow that page's table, those of types core/types/tolerance.def. What the page
// derives from "the terms" is taken from the evaluator itself: while the module runs, the observer
// below gathers per instruction the largest value that went into a sum, a product or a polynomial,
// and the bounds are built from those. The comparison within them is everybody's
// (core/types/compare.h).
#include "tests/harness/golden.h"

#include "core/analysis/agree.h"
#include "core/text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Parses in place: the item strings point into `text`.
golden golden_parse(char *text) {
  golden g = {0};
  u32 cap = 0;
  for (char *line = text, *next; line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    if (strncmp(line, "status ", 7) == 0) {
      snprintf(g.status, sizeof g.status, "%.*s", (int)HS_MIN(strcspn(line + 7, " "), 31u),
               line + 7);
      g.status_text = line + 7;
    }
    g.reassoc |= strcmp(line, "reassoc 1") == 0;
    g.lowacc |= strcmp(line, "lowacc 1") == 0;
    g.badinit |= strcmp(line, "badinit 1") == 0;
    bool arg = strncmp(line, "arg ", 4) == 0,
         out = strncmp(line, "out ", 4) == 0 || strncmp(line, "out.", 4) == 0;
    if (!arg && !out) continue;
    golden_item it = {.out = out};
    char *p = line + 3 + arg;
    if (out && *p == '.') p++;
    while (*p >= '0' && *p <= '9' && it.depth < 8) {
      it.path[it.depth++] = strtoll(p, &p, 10);
      if (*p == '.') p++;
    }
    while (*p == ' ') p++;
    size_t n = strcspn(p, " ");
    it.shape = (hs_str){p, n};
    p += n;
    while (*p == ' ') p++;
    it.value = hs_str_of(p);
    if (g.n == cap) g.items = hs_realloc(g.items, (cap = cap ? cap * 2 : 16) * sizeof *g.items);
    g.items[g.n++] = it;
  }
  return g;
}

// A dynamic shape's literal holds the elements in use: its dimensions are those of the braces.
static hs_status golden_literal(hlo_ctx *ctx, hs_str shape_text, hs_str value, hlo_literal **out) {
  const hlo_shape *s;
  HS_TRY(hlo_parse_shape(ctx, shape_text.p, shape_text.n, &s));
  if (hlo_shape_is_dynamic(s)) {
    i64 dims[HLO_MAX_RANK] = {0}, seen[HLO_MAX_RANK + 1] = {0};
    u32 level = 0;
    bool any[HLO_MAX_RANK + 1] = {0};
    for (size_t k = 0; k < value.n; k++) {
      char c = value.p[k];
      if (c == '{' && level < s->rank) {
        if (level) any[level] = true;
        level++;
        seen[level] = 0;
        any[level] = false;
      } else if (c == '}' && level) {
        dims[level - 1] = any[level] ? seen[level] + 1 : 0;
        level--;
      } else if (c == ',' && level) seen[level]++;
      else if (c != ' ' && level) any[level] = true;
    }
    s = hlo_shape_array(ctx, s->dtype, s->rank, dims);
  }
  return hlo_parse_literal(ctx, s, value.p, value.n, out);
}

// ---- arguments ----------------------------------------------------------------------------------
hs_status golden_arg(hlo_ctx *ctx, const golden *g, const hlo_shape *s, i64 *path, u32 depth,
                     hlo_literal **out) {
  if (hlo_shape_is_tuple(s) && depth < 8) {
    hlo_literal **kids = hs_calloc(s->nelems + 1, sizeof *kids);
    hs_status st = HS_GOOD;
    u32 n = 0;
    for (; n < s->nelems && hs_ok(st); n++) {
      path[depth] = n;
      st = golden_arg(ctx, g, s->elems[n], path, depth + 1, &kids[n]);
      if (!hs_ok(st)) break;
    }
    if (hs_ok(st)) *out = hlo_literal_tuple(s, s->nelems, kids);
    else
      for (u32 k = 0; k < n; k++) hlo_literal_unref(kids[k]);
    hs_free(kids);
    return st;
  }
  for (u32 k = 0; k < g->n; k++) {
    const golden_item *it = &g->items[k];
    if (!it->out && it->depth == depth && memcmp(it->path, path, depth * sizeof *path) == 0)
      return golden_literal(ctx, it->shape, it->value, out);
  }
  return hs_fail(HS_E_INPUT, "the golden has no argument %lld", (long long)path[0]);
}

// ---- tolerances ---------------------------------------------------------------------------------

static double type_eps(hlo_dtype t) {
  return HS_MIN(hlo_dtype_epsilon(hlo_dtype_real_part(t)), 0x1p-3);
}

static double max_abs(const hlo_literal *l) {
  double m = 0;
  if (hlo_shape_is_tuple(l->shape)) {
    for (u32 k = 0; k < l->nchildren; k++) m = fmax(m, max_abs(l->children[k]));
    return m;
  }
  if (!l->data || !hlo_shape_is_array(l->shape)) return 0;
  i64 n = l->shape->elements;
  bool complex = hlo_dtype_is_complex(l->shape->dtype);
  hlo_dtype part = hlo_dtype_real_part(l->shape->dtype);
  size_t size = hlo_dtype_storage(part);
  for (i64 k = 0; k < (complex ? 2 * n : n); k++) {
    double v = complex ? hlo_elem_to_f64(part, (const char *)l->data + (size_t)k * size)
                       : hlo_literal_f64(l, k);
    if (isfinite(v)) m = fmax(m, fabs(v));
  }
  return m;
}

static i64 elements_of(const hlo_shape *s) {
  return hlo_shape_is_array(s) ? HS_MAX(s->elements, 1) : 1;
}

// LAPACK adds in an order of the machine's: OpenBLAS has other kernels for other processors, and
// one program gives other last bits with each (OPENBLAS_CORETYPE shows it).
static bool is_lapack(const hlo_instr *i) {
  hs_str target =
      hlo_is(i, HLO_CUSTOM_CALL) ? hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET) : (hs_str){0};
  return target.n > 7 && memcmp(target.p, "lapack_", 7) == 0;
}

static void golden_gather(golden_watch *w, const hlo_instr *i, const hlo_literal *l) {
  if (i->id >= w->n || hlo_literal_has_elided(l)) return;
  double mine = max_abs(l);
  w->value_max[i->id] = fmax(w->value_max[i->id], mine);
  const hlo_shape *s = i->shape;
  if (hlo_shape_is_tuple(s) && s->nelems) s = s->elems[0];
  bool real = hlo_dtype_is_float(s->dtype) || hlo_dtype_is_complex(s->dtype);
  if (!real) return;
  double eps = type_eps(s->dtype), acc = HS_MIN(eps, 0x1p-23);
  if (w->b.lowacc) acc = eps;
  i64 terms = 0;
  double largest = 0;
  hlo_cost_class c = is_lapack(i) ? HLO_COST_LINALG : hlo_ops[i->opcode].cost;
  w->b.lapack |= is_lapack(i);
  if (i->noperands && (c == HLO_COST_REDUCE || c == HLO_COST_RWIN || c == HLO_COST_SCATTER ||
                       c == HLO_COST_SAS || c == HLO_COST_SCAN || c == HLO_COST_COLL ||
                       c == HLO_COST_FFT || c == HLO_COST_LINALG || c == HLO_COST_BNORM)) {
    terms = HS_MAX(
        elements_of(hlo_operand(i, 0)->shape) / (c == HLO_COST_REDUCE ? elements_of(s) : 1), 1);
    if (c == HLO_COST_SCATTER) terms = elements_of(hlo_operand(i, i->noperands - 1)->shape);
    for (u32 k = 0; k < i->noperands; k++)
      if (hlo_operand(i, k)->id < w->n)
        largest = fmax(largest, w->value_max[hlo_operand(i, k)->id]);
    largest = fmax(largest, mine / (double)terms);
    if (c == HLO_COST_LINALG) largest = fmax(largest, mine) * 16;
  } else if (c == HLO_COST_DOT || c == HLO_COST_CONV) {
    const hlo_shape *a = hlo_operand(i, 0)->shape, *b = hlo_operand(i, 1)->shape;
    // contraction size of a dot
    double per = sqrt((double)elements_of(a) / (double)elements_of(s) * (double)elements_of(b));
    terms = c == HLO_COST_DOT ? (i64)HS_MAX(per, 1.0) : elements_of(b);
    largest = w->value_max[hlo_operand(i, 0)->id] * w->value_max[hlo_operand(i, 1)->id];
  }
  if (terms) {
    double n = w->b.lowacc ? (double)terms : sqrt((double)terms);
    w->b.sum_abs = fmax(w->b.sum_abs, 4 * acc * n * largest * (double)terms);
  }
  // a hypot, not exact either
  bool modulus = hlo_is(i, HLO_ABS) && hlo_dtype_is_complex(hlo_operand(i, 0)->shape->dtype);
  if (hlo_op_is_transcendental(i->opcode) || modulus) {
    w->b.trans = true;
    w->b.trans_max = fmax(w->b.trans_max, mine);
  }
  w->b.divide |= i->opcode == HLO_DIVIDE;
  // Of one complex product or quotient, two ways of computing it (with fused multiplications, by
  // Smith's rule, by the conjugate) differ by so many units of the modulus: Brent, Percival and
  // Zimmermann, Error bounds on complex floating-point multiplication, 2007; Baudin, Smith, 2012.
  if (hlo_dtype_is_complex(i->shape->dtype))
    w->b.complex_units = fmax(w->b.complex_units, i->opcode == HLO_MULTIPLY ? 2.25
                                                  : i->opcode == HLO_DIVIDE ? 7
                                                  : i->opcode == HLO_SIGN   ? 4
                                                                            : 0);
  if (i->opcode == HLO_MULTIPLY) w->b.product_max = fmax(w->b.product_max, mine);
  // a product and a sum: XLA may contract them
  w->b.sums |= i->opcode == HLO_ADD || i->opcode == HLO_SUBTRACT;
}

hs_status golden_observe(void *arg, const hlo_observation *o) {
  golden_gather(arg, o->instr, o->value);
  return HS_GOOD;
}

// The bounds for results of a type. Where XLA may contract products and sums, a product of complex
// numbers included, only the modulus of the error is bounded.
static hlo_tolerance bounds_of(hlo_dtype t, const golden *g, const golden_bounds *b) {
  hlo_type_tolerance row = hlo_tolerance_of(t);
  double eps = type_eps(t);
  hlo_tolerance tol = hlo_within(0, 0);
  if (b->trans) {
    tol.rel = row.function_ulps * eps;
    tol.abs = tol.rel * b->trans_max + row.function_abs;
  }
  if (b->divide) tol.rel = fmax(tol.rel, eps);
  if (hlo_dtype_is_complex(t)) tol.rel = fmax(tol.rel, b->complex_units * eps);
  if (b->sums && b->product_max > 0) tol.abs += eps * b->product_max, tol.rel = fmax(tol.rel, eps);
  if (g->reassoc || g->lowacc || b->lapack) {
    tol.abs += b->sum_abs;
    tol.rel = fmax(tol.rel, 4 * eps);
  }
  return tol;
}

// ---- results ------------------------------------------------------------------------------------
// The elements in use of a value with dynamic dimensions, as an array of that size.
static hs_status in_use(hlo_ctx *ctx, const hlo_literal *l, hlo_literal **out) {
  if (!l->dynamic_sizes) return *out = hlo_literal_ref(l), HS_GOOD;
  const hlo_shape *s = l->shape;
  i64 dims[HLO_MAX_RANK], strides[HLO_MAX_RANK];
  for (u32 d = 0; d < s->rank; d++) dims[d] = l->dynamic_sizes[d];
  hlo_row_major_strides(s->rank, s->dims, strides);
  const hlo_shape *small = hlo_shape_array(ctx, s->dtype, s->rank, dims);
  HS_TRY(hlo_literal_new(small, out));
  size_t w = hlo_dtype_storage(s->dtype);
  for (i64 k = 0; k < small->elements; k++) {
    i64 at = 0, rest = k;
    for (u32 d = s->rank; d-- > 0; rest /= dims[d]) at += rest % dims[d] * strides[d];
    memcpy((char *)(*out)->data + (size_t)k * w, (const char *)l->data + (size_t)at * w, w);
  }
  return HS_GOOD;
}

static hs_status compare_leaf(hlo_ctx *ctx, const hlo_literal *want, const hlo_literal *got,
                              const golden *g, const golden_bounds *b, i32 along,
                              const char *where) {
  const hlo_shape *ws = want->shape, *gs = got->shape;
  if (!hlo_shape_is_array(gs) || ws->dtype != gs->dtype || ws->rank != gs->rank)
    return hs_fail(HS_E_DIFFER, "%s: shapes differ", where);
  for (u32 d = 0; d < ws->rank; d++)
    if (ws->dims[d] != (got->dynamic_sizes ? got->dynamic_sizes[d] : gs->dims[d]))
      return hs_fail(HS_E_DIFFER, "%s: dimension %u differs", where, d);
  hlo_literal *used;
  HS_TRY(in_use(ctx, got, &used));
  hlo_comparisons list;
  hlo_phases phases = {1, &along};
  hs_status st = hlo_compare_phases(want, used, bounds_of(ws->dtype, g, b), &phases, &list);
  const hlo_comparison *c = list.n ? &list.v[0] : NULL;
  if (hs_ok(st) && c && c->mismatches)
    st =
        hs_fail(HS_E_DIFFER,
                "%s: %lld of %lld elements differ, first at %lld: want %.9g, got %.9g (error %.3g; "
                "bound %.3g + %.3g relative)",
                where, (long long)c->mismatches, (long long)ws->elements, (long long)c->first[0].at,
                c->first[0].want, c->first[0].got, c->first[0].abs, c->tol.abs, c->tol.rel);
  hlo_comparisons_free(&list);
  hlo_literal_unref(used);
  return st;
}

// Where the leaf at a path is among the leaves of a shape.
static u32 leaf_number(const hlo_shape *s, const i64 *path, u32 depth) {
  u32 n = 0;
  for (u32 d = 0; d < depth && hlo_shape_is_tuple(s) && path[d] < s->nelems; d++) {
    for (i64 k = 0; k < path[d]; k++) n += hlo_shape_leaves(s->elems[k]);
    s = s->elems[path[d]];
  }
  return n;
}

hs_status golden_compare(const hlo_module *m, const golden *g, const hlo_literal *result,
                         const golden_bounds *b) {
  hlo_ctx *ctx = m->ctx;
  hs_arena a = {0};
  hlo_phases phases = hlo_phases_of(m->entry->root, &a);
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < g->n && hs_ok(st); k++) {
    const golden_item *it = &g->items[k];
    if (!it->out) continue;
    const hlo_literal *l = result;
    for (u32 d = 0; d < it->depth && l; d++)
      l = it->path[d] < l->nchildren ? l->children[it->path[d]] : NULL;
    if (!l) {
      st = hs_fail(HS_E_DIFFER, "the result has no such element");
      break;
    }
    char where[80] = "out";
    for (u32 d = 0, n = 3; d < it->depth; d++)
      n += (u32)snprintf(where + n, sizeof where - n, ".%lld", (long long)it->path[d]);
    hlo_literal *want = NULL;
    u32 leaf = leaf_number(m->entry->root->shape, it->path, it->depth);
    st = golden_literal(ctx, it->shape, it->value, &want);
    if (hs_ok(st))
      st = compare_leaf(ctx, want, l, g, b, leaf < phases.n ? phases.along[leaf] : -1, where);
    hlo_literal_unref(want);
  }
  hs_arena_free(&a);
  return st;
}
