// sweep_cases.c: see sweep.h. The elementwise operations come from the table of operations: a row
// of core/types/ops.def that is elementwise is swept as soon as it is there. The rest stands in
// sweep.def. Which types an operation takes is the verifier's to say: what it refuses is no case.
#include "core/text/text.h"
#include "tests/harness/mutate.h"
#include "tests/harness/sweep.h"

#include <math.h>
#include <stdio.h>

#define X(id, name, what) [id] = name,
const char *const sweep_kind_names[] = {SWEEP_KINDS(X)};
#undef X

static sweep_tolerance tolerance_of(hlo_opcode op, hlo_dtype t) {
  static const struct {
    double wide, narrow;
  } rows[HLO_OPCODE_COUNT] = {
#define ULPS(id, wide, narrow) [HLO_##id] = {wide, narrow},
#define SHAPED(name, helpers, body)
#include "tests/harness/sweep.def"
#undef ULPS
#undef SHAPED
  };
  bool narrow = hlo_dtype_is_float(t) && hlo_dtype_bits(t) <= 16;
  double ulps = narrow ? rows[op].narrow : rows[op].wide;
  // of complex numbers only sums and moves are exact
  if (hlo_dtype_is_complex(t) &&
      (op == HLO_MULTIPLY || op == HLO_DIVIDE || op == HLO_SQRT || op == HLO_SIGN || op == HLO_ABS))
    ulps = 4;
  // next to a pole or to a zero the last places count; c64 is computed in f64
  if (t == HLO_C128) ulps *= 16;
  return (sweep_tolerance){.ulps = hlo_dtype_is_integer(t) ? 0 : ulps, .zeros = ulps > 0};
}

// ---- building -----------------------------------------------------------------------------------
static void free_case(sweep_case *c) {
  hs_free(c->name);
  hs_free(c->helpers);
  hs_free(c->body);
}
static void add(sweep_block *b, sweep_tolerance tol, const char *name, const char *helpers,
                const char *body) {
  sweep_case c = {
      .name = hs_strdup(name), .helpers = hs_strdup(helpers), .body = hs_strdup(body), .tol = tol};
  hs_vec_push(&b->cases, c);
}
HS_PRINTF(4, 5)
static void add_f(sweep_block *b, sweep_tolerance tol, const char *name, const char *fmt, ...) {
  hs_buf text = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&text, fmt, ap);
  va_end(ap);
  add(b, tol, name, "", hs_buf_cstr(&text));
  hs_buf_free(&text);
}

static const hlo_shape *shape(sweep_block *b, hlo_dtype t, u32 rank, i64 d0, i64 d1) {
  return hlo_shape_array(b->ctx, t, rank, (const i64[]){d0, d1});
}
static hlo_literal *param(sweep_block *b, const char *name, const hlo_shape *s) {
  sweep_param p = {.name = name};
  hs_status st = hlo_literal_new(s, &p.value);
  if (!hs_ok(st)) hs_status_drop(st);
  else hs_vec_push(&b->params, p);
  return p.value;
}
static i64 count(hlo_dtype t, const sweep_bytes *v) { return (i64)(v->n / hlo_dtype_storage(t)); }
// Element k of a literal becomes element `from` of a list.
static void copy_element(hlo_literal *l, i64 k, const sweep_bytes *list, i64 from) {
  size_t s = hlo_dtype_storage(l->shape->dtype);
  memcpy((char *)l->data + (size_t)k * s, list->v + (size_t)from * s, s);
}
static void fill(hlo_literal *l, const sweep_bytes *list, i64 first, i64 stride) {
  i64 n = count(l->shape->dtype, list);
  for (i64 k = 0; k < l->shape->elements; k++) copy_element(l, k, list, (first + k * stride) % n);
}

// ---- elementwise --------------------------------------------------------------------------------
static bool plain(hlo_opcode op) {
  return hlo_op_has(op, HLO_F_ELEMENTWISE) && op != HLO_CONVERT && op != HLO_COMPARE &&
         op != HLO_REDUCE_PRECISION && op != HLO_STOCHASTIC_CONVERT && hlo_ops[op].arity >= 1 &&
         hlo_ops[op].arity <= 2;
}
static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
static const sweep_tolerance exact = {0};

static void elementwise(sweep_block *b, bool full) {
  hlo_dtype t = b->type;
  const char *text = hlo_dtype_text(t);
  sweep_bytes values = {0}, edges = {0};
  sweep_values(t, full, &values);
  sweep_edges(t, &edges);
  i64 n = count(t, &edges), triples = HS_MIN(n * n * n, 4096);
  fill(param(b, "u", shape(b, t, 1, count(t, &values), 0)), &values, 0, 1);
  hlo_literal *x = param(b, "a", shape(b, t, 1, n * n, 0)),
              *y = param(b, "b", shape(b, t, 1, n * n, 0)),
              *l[3] = {param(b, "lo", shape(b, t, 1, triples, 0)),
                       param(b, "x", shape(b, t, 1, triples, 0)),
                       param(b, "hi", shape(b, t, 1, triples, 0))},
              *p = param(b, "p", shape(b, HLO_PRED, 1, triples, 0));
  for (i64 k = 0; k < n * n; k++)
    copy_element(x, k, &edges, k / n), copy_element(y, k, &edges, k % n);
  u64 state = 2;
  for (i64 k = 0; k < triples; k++) {
    // all of them where they are few
    i64 at = n * n * n <= 4096 ? k : (i64)mutate_below(&state, (size_t)(n * n * n));
    copy_element(l[0], k, &edges, at / (n * n));
    copy_element(l[1], k, &edges, at / n % n);
    copy_element(l[2], k, &edges, at % n);
    ((u8 *)p->data)[k] = (u8)(at % 7 % 2);
  }
  for (hlo_opcode op = 1; op < HLO_OPCODE_COUNT; op++)
    if (plain(op)) {
      const char *name = hlo_op_text(op);
      add_f(b, tolerance_of(op, t), name, hlo_ops[op].arity == 1 ? "@ = %s(u)" : "@ = %s(a, b)",
            name);
    }
  for (size_t d = 0; d < HS_COUNT(directions); d++) {
    char name[40];
    snprintf(name, sizeof name, "compare/%s", directions[d]);
    add_f(b, exact, name, "@ = compare(a, b), direction=%s", directions[d]);
    snprintf(name, sizeof name, "compare/%s/total", directions[d]);
    add_f(b, exact, name, "@ = compare(a, b), direction=%s, type=TOTALORDER", directions[d]);
  }
  add_f(b, exact, "clamp", "@ = clamp(lo, x, hi)");
  add_f(b, exact, "select", "@ = select(p, x, hi)");
  for (i64 k = 0; k < 3; k++) {
    char name[40];
    snprintf(name, sizeof name, "clamp/scalars/%d", (int)k);
    add_f(b, exact, name,
          "@a = %s[1] slice(lo), slice={[%d:%d]}\n @b = %s[] reshape(@a)\n @c = %s[1] slice(hi), "
          "slice={[%d:%d]}\n @d = %s[] reshape(@c)\n @ = clamp(@b, u, @d)",
          text, (int)(k * triples / 4), (int)(k * triples / 4) + 1, text, text,
          (int)(k * triples / 4), (int)(k * triples / 4) + 1, text);
  }
  static const int precisions[][2] = {{5, 10}, {8, 7}, {4, 3}, {5, 2},   {8, 23}, {2, 1},
                                      {1, 0},  {8, 0}, {3, 4}, {11, 52}, {5, 23}, {11, 10}};
  for (size_t k = 0; k < HS_COUNT(precisions); k++) {
    char name[40];
    snprintf(name, sizeof name, "reduce-precision/%d,%d", precisions[k][0], precisions[k][1]);
    add_f(b, exact, name, "@ = %s[%d] reduce-precision(u), exponent_bits=%d, mantissa_bits=%d",
          text, (int)count(t, &values), precisions[k][0], precisions[k][1]);
  }
  hs_vec_free(&values);
  hs_vec_free(&edges);
}

// ---- conversions --------------------------------------------------------------------------------
static void conversions(sweep_block *b, bool full) {
  hlo_dtype t = b->type;
  sweep_bytes values = {0};
  sweep_values(t, full, &values);
  i64 n = HS_MAX(count(t, &values) / 8 * 8, 8);  // whole elements of any wider type
  fill(param(b, "u", shape(b, t, 1, n, 0)), &values, 0, 1);
  for (hlo_dtype to = 1; to < HLO_DTYPE_COUNT; to++) {
    if (!hlo_dtype_is_array(to)) continue;
    const char *text = hlo_dtype_text(to);
    char name[40];
    snprintf(name, sizeof name, "convert/%s", text);
    add_f(b, exact, name, "@ = %s[%d] convert(u)", text, (int)n);
    int from_bits = hlo_dtype_bits(t), to_bits = hlo_dtype_bits(to);
    snprintf(name, sizeof name, "bitcast-convert/%s", text);
    if (from_bits == to_bits) add_f(b, exact, name, "@ = %s[%d] bitcast-convert(u)", text, (int)n);
    else if (from_bits % to_bits == 0)
      add_f(b, exact, name, "@ = %s[%d,%d] bitcast-convert(u)", text, (int)n, from_bits / to_bits);
    else if (to_bits % from_bits == 0 && n % (to_bits / from_bits) == 0)
      add_f(b, exact, name, "@r = %s[%d,%d] reshape(u)\n @ = %s[%d] bitcast-convert(@r)",
            hlo_dtype_text(t), (int)(n / (to_bits / from_bits)), to_bits / from_bits, text,
            (int)(n / (to_bits / from_bits)));
  }
  hs_vec_free(&values);
}

// Through a type in between, and two unary operations in a row: what simplification takes for one.
static void chains(sweep_block *b, bool full) {
  hlo_dtype t = b->type;
  sweep_bytes edges = {0};
  sweep_edges(t, &edges);
  i64 n = count(t, &edges);
  fill(param(b, "x", shape(b, t, 1, n, 0)), &edges, 0, 1);
  char name[80];
  for (hlo_dtype mid = 1; mid < HLO_DTYPE_COUNT; mid++)
    for (hlo_dtype to = 1; to < HLO_DTYPE_COUNT; to++) {
      if (!hlo_dtype_is_array(mid) || !hlo_dtype_is_array(to) || mid == t) continue;
      if (!full && to != t && hlo_dtype_bits(to) != hlo_dtype_bits(t)) continue;
      snprintf(name, sizeof name, "convert/%s/%s", hlo_dtype_text(mid), hlo_dtype_text(to));
      add_f(b, exact, name, "@m = %s[%d] convert(x)\n @ = %s[%d] convert(@m)", hlo_dtype_text(mid),
            (int)n, hlo_dtype_text(to), (int)n);
    }
  for (hlo_opcode f = 1; f < HLO_OPCODE_COUNT; f++)
    for (hlo_opcode g = 1; g < HLO_OPCODE_COUNT; g++) {
      if (!plain(f) || hlo_ops[f].arity != 1 || !plain(g) || hlo_ops[g].arity != 1) continue;
      sweep_tolerance tol = tolerance_of(g, t);
      tol.ulps = HS_MAX(tol.ulps, tolerance_of(f, t).ulps);
      snprintf(name, sizeof name, "%s/%s", hlo_op_text(g), hlo_op_text(f));
      add_f(b, tol, name, "@m = %s(x)\n @ = %s(@m)", hlo_op_text(f), hlo_op_text(g));
    }
  hs_vec_free(&edges);
}

// ---- with a constant ----------------------------------------------------------------------------
static void splats(sweep_block *b, bool full) {
  hlo_dtype t = b->type;
  const char *text = hlo_dtype_text(t);
  sweep_bytes edges = {0};
  sweep_edges(t, &edges);
  i64 n = count(t, &edges), few = full ? n : HS_MIN(n, 12);
  fill(param(b, "x", shape(b, t, 1, n, 0)), &edges, 0, 1);
  char name[120];
  for (hlo_opcode op = 1; op < HLO_OPCODE_COUNT; op++) {
    bool compare = op == HLO_COMPARE;
    if (!compare && (!plain(op) || hlo_ops[op].arity != 2)) continue;
    const char *f = hlo_op_text(op);
    sweep_tolerance tol = tolerance_of(op, t);
    // a division by a constant may become a multiplication
    if (op == HLO_DIVIDE && !hlo_dtype_is_integer(t)) tol.ulps = HS_MAX(tol.ulps, 1);
    for (size_t d = 0; d < (compare ? HS_COUNT(directions) : 1); d++) {
      char attrs[40] = "";
      if (compare) snprintf(attrs, sizeof attrs, ", direction=%s", directions[d]);
      snprintf(name, sizeof name, "%s%s%s/x,x", f, compare ? "/" : "",
               compare ? directions[d] : "");
      add_f(b, tol, name, "@ = %s(x, x)%s", f, attrs);
      for (i64 k = 0; k < few; k++) {
        hs_buf value = {0};
        hlo_literal *scalar = NULL;
        hs_status s = hlo_literal_new(shape(b, t, 0, 0, 0), &scalar);
        if (!hs_ok(s)) hs_status_drop(s);
        else {
          copy_element(scalar, 0, &edges, few == n ? k : k * n / few);
          hlo_print_literal(&value, scalar);
          for (int right = 0; right < 2; right++) {
            snprintf(name, sizeof name, "%s%s%s/%s%s%s", f, compare ? "/" : "",
                     compare ? directions[d] : "", right ? "x," : "", hs_buf_cstr(&value),
                     right ? "" : ",x");
            add_f(b, tol, name,
                  "@k = %s[] constant(%s)\n @s = %s[%d] broadcast(@k), "
                  "dimensions={}\n @ = %s(%s)%s",
                  text, hs_buf_cstr(&value), text, (int)n, f, right ? "x, @s" : "@s, x", attrs);
          }
        }
        hs_buf_free(&value);
        hlo_literal_unref(scalar);
      }
    }
  }
  hs_vec_free(&edges);
}

// ---- on arrays ----------------------------------------------------------------------------------
static void replace_all(hs_buf *out, const char *text, const char *from, const char *to) {
  for (const char *hit; (hit = strstr(text, from)) != NULL; text = hit + strlen(from))
    hs_buf_put(out, text, (size_t)(hit - text)), hs_buf_puts(out, to);
  hs_buf_puts(out, text);
}

// Small integers; of a float, rows with infinities and NaNs of their own.
static void small(hlo_literal *l, bool special) {
  static const double v[] = {1, 0, 2, -1, 1, 1, 0, -1, 2, 1, -1};
  hlo_dtype t = l->shape->dtype;
  for (i64 k = 0; k < l->shape->elements; k++) hlo_literal_set_f64(l, k, v[k % 11]);
  if (!special || !hlo_dtype_is_float(hlo_dtype_real_part(t))) return;
  i64 row = l->shape->dims[1];
  hlo_literal_set_f64(l, row + 2, INFINITY);
  hlo_literal_set_f64(l, 2 * row + 1, NAN);
  hlo_literal_set_f64(l, 3 * row, -INFINITY);
}
static void small_ints(hlo_literal *l, const int *v) {
  for (i64 k = 0; k < l->shape->elements; k++) hlo_literal_set_i64(l, k, v ? v[k] : (i64)k);
}

static void shaped(sweep_block *b) {
  hlo_dtype t = b->type;
  sweep_bytes edges = {0};
  sweep_edges(t, &edges);
  fill(param(b, "e", shape(b, t, 2, 8, 8)), &edges, 3, 7);
  fill(param(b, "x", shape(b, t, 1, 64, 0)), &edges, 1, 5);
  hlo_literal *ordered[] = {param(b, "n", shape(b, t, 2, 8, 8)),
                            param(b, "m", shape(b, t, 1, 64, 0))};
  fill(ordered[0], &edges, 3, 7);
  fill(ordered[1], &edges, 1, 5);
  for (u32 p = 0; p < 2; p++)
    for (i64 k = 0; k < 64; k++)
      if (isnan(hlo_literal_f64(ordered[p], k))) hlo_literal_set_f64(ordered[p], k, 1);
  small(param(b, "t", shape(b, t, 2, 4, 6)), true);
  small(param(b, "g", shape(b, t, 2, 6, 4)), false);
  small(param(b, "c", shape(b, t, 2, 4, 4)), false);
  hlo_literal_set_f64(param(b, "z", shape(b, t, 0, 0, 0)), 0, 0);
  hlo_literal_set_f64(param(b, "o", shape(b, t, 0, 0, 0)), 0, 1);
  small_ints(param(b, "i", shape(b, HLO_S32, 2, 4, 1)), (const int[]){0, -1, 5, 100});
  small_ints(param(b, "j", shape(b, HLO_S32, 2, 4, 1)), (const int[]){2, 2, 7, 2});
  small_ints(param(b, "s", shape(b, HLO_S32, 1, 16, 0)), NULL);
  small_ints(param(b, "k", shape(b, HLO_S32, 2, 8, 8)), NULL);
  static const char *const rows[][3] = {
#define ULPS(id, wide, narrow)
#define SHAPED(name, helpers, body) {name, helpers, body},
#include "tests/harness/sweep.def"
#undef ULPS
#undef SHAPED
  };
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    hs_buf helpers = {0}, body = {0};
    replace_all(&helpers, rows[k][1], "$T", hlo_dtype_text(t));
    replace_all(&body, rows[k][2], "$T", hlo_dtype_text(t));
    sweep_tolerance tol = {.zeros = false};
    if (hlo_dtype_is_complex(t) && !strncmp(rows[k][0], "dot", 3))
      tol = (sweep_tolerance){.ulps = 4, .zeros = true};
    if (!strcmp(rows[k][0], "fft")) tol = (sweep_tolerance){.ulps = 16, .zeros = true};
    add(b, tol, rows[k][0], hs_buf_cstr(&helpers), hs_buf_cstr(&body));
    hs_buf_free(&helpers);
    hs_buf_free(&body);
  }
  // Values of the type as indices.
  for (i64 k = 0; hlo_dtype_is_integer(t) && k < HS_MIN(count(t, &edges), 64); k++) {
    char name[40];
    snprintf(name, sizeof name, "dynamic-slice/%d", (int)k);
    const char *text = hlo_dtype_text(t);
    add_f(b, exact, name,
          "@a = %s[1] slice(x), slice={[%d:%d]}\n @b = %s[] reshape(@a)\n @ = s32[3] "
          "dynamic-slice(s, @b), dynamic_slice_sizes={3}",
          text, (int)k, (int)k + 1, text);
    snprintf(name, sizeof name, "dynamic-update-slice/%d", (int)k);
    add_f(b, exact, name,
          "@a = %s[1] slice(x), slice={[%d:%d]}\n @b = %s[] reshape(@a)\n @u = s32[3] slice(s), "
          "slice={[2:5]}\n @ = s32[16] dynamic-update-slice(s, @u, @b)",
          text, (int)k, (int)k + 1, text);
  }
  if (hlo_dtype_is_integer(t)) {
    add_f(b, exact, "gather/by",
          "@r = %s[64,1] reshape(x)\n @ = gather(s, @r), offset_dims={1}, "
          "collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={2}",
          hlo_dtype_text(t));
    hs_buf body = {0};
    hs_buf_printf(&body,
                  "@r = %s[64,1] reshape(x)\n @u = s32[64] reshape(k)\n @ = scatter(s, @r, "
                  "@u), update_window_dims={}, inserted_window_dims={0}, "
                  "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=@f",
                  hlo_dtype_text(t));
    add(b, exact, "scatter/by",
        "@f { p = s32[] parameter(0) q = s32[] parameter(1) ROOT r = s32[] add(p, q) }\n",
        hs_buf_cstr(&body));
    hs_buf_free(&body);
  }
  hs_vec_free(&edges);
}

// ---- results of another precision ---------------------------------------------------------------
// HLO lets a shape state another float type than the operands have. Each case of a block becomes
// one for every such type: its last instruction gets the shape that it has, in that type.
static void mixed(sweep_block *b) {
  static const hlo_dtype types[] = {HLO_F16, HLO_BF16, HLO_F32, HLO_F64};
  u32 n = (u32)b->cases.n;
  for (u32 k = 0; k < n; k++) {
    hs_buf text = {0};
    hlo_module *m = NULL;
    sweep_text(b, k, k + 1, &text);
    hs_status s = hlo_parse(b->ctx, text.p, text.n, NULL, &m);
    const hlo_shape *r = hs_ok(s) ? hlo_operand(m->entry->root, 0)->shape : NULL;
    const char *body = b->cases.v[k].body, *last = body, *hit = body;
    for (; (hit = strstr(hit, "@ = ")) != NULL; hit++) last = hit + 4;
    // behind the shape, if there is one
    const char *op = last + strcspn(last, " (");
    op = *op == ' ' ? op + 1 : last;
    for (size_t t = 0; r && t < HS_COUNT(types); t++) {
      if (!hlo_dtype_is_float(r->dtype) || types[t] == r->dtype) continue;
      sweep_case c = b->cases.v[k];
      hs_buf name = {0}, text_in = {0};
      hs_buf_printf(&name, "%s/%s", c.name, hlo_dtype_text(types[t]));
      hs_buf_put(&text_in, body, (size_t)(last - body));
      hlo_shape_print(&text_in, hlo_shape_with_dtype(b->ctx, r, types[t]), false);
      hs_buf_printf(&text_in, " %s", op);
      sweep_tolerance tol = {.ulps = c.tol.ulps > 0 ? 4 : 1, .zeros = true};
      add(b, tol, hs_buf_cstr(&name), c.helpers, hs_buf_cstr(&text_in));
      hs_buf_free(&name);
      hs_buf_free(&text_in);
    }
    hs_status_drop(s);
    hlo_module_free(m);
    hs_buf_free(&text);
  }
  for (u32 k = 0; k < n; k++) free_case(&b->cases.v[k]);
  memmove(b->cases.v, b->cases.v + n, (b->cases.n - n) * sizeof *b->cases.v);
  b->cases.n -= n;
}

void sweep_make(hlo_ctx *ctx, sweep_kind kind, hlo_dtype t, bool full, sweep_block *b) {
  *b = (sweep_block){.ctx = ctx, .type = t};
  switch (kind) {
  case SWEEP_EW: elementwise(b, full); return;
  case SWEEP_CONVERT: conversions(b, full); return;
  case SWEEP_SPLAT: splats(b, full); return;
  case SWEEP_SHAPED: shaped(b); return;
  case SWEEP_CHAIN: chains(b, full); return;
  case SWEEP_MIXED:
    if (t != HLO_F16 && t != HLO_BF16 && t != HLO_F32 && t != HLO_F64) return;
    if (full) elementwise(b, false);
    else shaped(b);
    mixed(b);
    return;
  default: return;
  }
}

void sweep_free(sweep_block *b) {
  for (size_t k = 0; k < b->params.n; k++) hlo_literal_unref(b->params.v[k].value);
  for (size_t k = 0; k < b->cases.n; k++) free_case(&b->cases.v[k]);
  hs_vec_free(&b->params);
  hs_vec_free(&b->cases);
}

void sweep_text(const sweep_block *b, u32 from, u32 to, hs_buf *out) {
  hs_buf_puts(out, "HloModule sweep\n");
  char prefix[16];
  for (u32 k = from; k < to; k++) {
    snprintf(prefix, sizeof prefix, "case%u", k);
    replace_all(out, b->cases.v[k].helpers, "@", prefix);
  }
  hs_buf_puts(out, "ENTRY e {\n");
  for (size_t k = 0; k < b->params.n; k++) {
    hs_buf_printf(out, " %s = ", b->params.v[k].name);
    hlo_shape_print(out, b->params.v[k].value->shape, false);
    hs_buf_printf(out, " parameter(%zu)\n", k);
  }
  for (u32 k = from; k < to; k++) {
    snprintf(prefix, sizeof prefix, "case%u", k);
    hs_buf_puts(out, " ");
    replace_all(out, b->cases.v[k].body, "@", prefix);
    hs_buf_puts(out, "\n");
  }
  hs_buf_puts(out, " ROOT r = tuple(");
  for (u32 k = from; k < to; k++) hs_buf_printf(out, "%scase%u", k > from ? ", " : "", k);
  hs_buf_puts(out, ")\n}\n");
}
