// fit.c — operands that do not have one type and one shape yet. See builder.h for the rules.
//
// An operand is brought to the dimensions of the others by a mapping: for each of its own
// dimensions, which one of the result it lies along. There may be two sources of a mapping. One is
// where the operand stems from: the dimensions that a reduce kept. The other is the trailing
// dimensions. The first is certain when the reduce was of what it now meets (x - max(x)), else both
// have to say the same.
#include "repl/builder/builder.h"

enum { MOST_RANK = 32, MOST_SEEN = 256 };

typedef struct mapping {
  u32 n;
  i64 to[MOST_RANK];
} mapping;

static bool same_mapping(const mapping *a, const mapping *b) {
  return a->n == b->n && memcmp(a->to, b->to, a->n * sizeof *a->to) == 0;
}

// ---- where a value stems from -------------------------------------------------------------------
typedef struct seen {
  u32 n;
  const hlo_instr *v[MOST_SEEN];
} seen;

static bool see(seen *s, const hlo_instr *i) {
  for (u32 k = 0; k < s->n; k++)
    if (s->v[k] == i) return false;
  if (s->n == MOST_SEEN) return false;
  s->v[s->n++] = i;
  return true;
}

// All values of i's dimensions that i is made of element by element, i among them.
static void cone(const hlo_instr *i, seen *s) {
  see(s, i);
  for (u32 at = 0; at < s->n; at++) {
    const hlo_instr *x = s->v[at];
    if (!hlo_op_has(x->opcode, HLO_F_ELEMENTWISE) && !hlo_is(x, HLO_COPY)) continue;
    for (u32 k = 0; k < x->noperands; k++) {
      const hlo_instr *o = hlo_operand(x, k);
      if (hlo_shape_same_dims(o->shape, i->shape) && !hlo_is(o, HLO_BROADCAST)) see(s, o);
    }
  }
}

static bool meet(const hlo_instr *a, const hlo_instr *b) {
  seen *s = hs_calloc(2, sizeof *s);
  cone(a, &s[0]);
  cone(b, &s[1]);
  bool yes = false;
  for (u32 k = 0; k < s[0].n && !yes; k++)
    for (u32 j = 0; j < s[1].n && !yes; j++) yes = s[0].v[k] == s[1].v[j];
  hs_free(s);
  return yes;
}

// The kept dimensions of the reduces that v is made of, of operands with these dimensions. *sure:
// one of `others` is made of what was reduced.
static u32 kept_ways(const hlo_instr *v, const hlo_shape *target, u32 nothers,
                     hlo_instr *const *others, mapping out[4], bool *sure) {
  seen *s = hs_calloc(1, sizeof *s);
  cone(v, s);
  u32 n = 0;
  *sure = false;
  for (u32 k = 0; k < s->n; k++) {
    const hlo_instr *r = s->v[k];
    if (!hlo_is(r, HLO_REDUCE) || hlo_shape_is_tuple(r->shape)) continue;
    const hlo_instr *of = hlo_operand(r, 0);
    if (!hlo_shape_same_dims(of->shape, target)) continue;
    hlo_ints gone = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
    mapping m = {0};
    for (u32 d = 0; d < target->rank && d < MOST_RANK; d++)
      if (!hlo_ints_has(gone, d)) m.to[m.n++] = d;
    if (m.n != v->shape->rank) continue;
    bool related = false;
    for (u32 o = 0; o < nothers && !related; o++) related = meet(of, others[o]);
    if (related && !*sure) n = 0;  // what is certain goes before what is not
    if (*sure && !related) continue;
    *sure |= related;
    bool known = false;
    for (u32 j = 0; j < n; j++) known |= same_mapping(&out[j], &m);
    if (!known && n < 4) out[n++] = m;
  }
  hs_free(s);
  return n;
}

static bool trailing_way(const hlo_shape *v, const hlo_shape *target, mapping *m) {
  if (v->rank > target->rank) return false;
  *m = (mapping){.n = v->rank};
  u32 off = target->rank - v->rank;
  for (u32 d = 0; d < v->rank; d++) {
    m->to[d] = off + d;
    if (v->dims[d] != target->dims[off + d] && v->dims[d] != 1) return false;
  }
  return true;
}

// ---- bringing an operand to the dimensions of the result ----------------------------------------
static void put_way(hs_buf *t, const hlo_instr *v, const hlo_shape *target, const mapping *m) {
  hlo_shape_print(t, hlo_shape_with_dtype(v->parent->module->ctx, target, v->shape->dtype), false);
  hs_buf_printf(t, " broadcast(%s, dims={", v->name);
  for (u32 d = 0; d < m->n; d++) hs_buf_printf(t, "%s%lld", d ? "," : "", (long long)m->to[d]);
  hs_buf_puts(t, "})");
}

static hs_status ambiguous(const builder *b, const char *at, const hlo_instr *v,
                           const hlo_shape *target, u32 n, const mapping *ways) {
  hs_buf t = {0};
  hlo_shape_print(&t, v->shape, false);
  hs_buf_puts(&t, " fits ");
  hlo_shape_print(&t, target, false);
  hs_status s = build_error(b, HS_E_AMBIGUOUS, at, "%s of shape %s in more than one way", v->name,
                            hs_buf_cstr(&t));
  for (u32 k = 0; k < n; k++) {
    t.n = 0;
    put_way(&t, v, target, &ways[k]);
    s = hs_with_note(s, "%s %s", k ? "or" : "write", hs_buf_cstr(&t));
  }
  hs_buf_free(&t);
  return s;
}

static hs_status broadcast(builder *b, hlo_instr *v, const hlo_shape *target, const mapping *m,
                           hlo_instr **out) {
  // Dimensions of size 1 that repeat go first: a broadcast cannot stretch them.
  hlo_ctx *ctx = b->m->ctx;
  i64 dims[MOST_RANK], to[MOST_RANK];
  u32 n = 0;
  for (u32 d = 0; d < m->n; d++)
    if (v->shape->dims[d] == target->dims[m->to[d]])
      dims[n] = v->shape->dims[d], to[n++] = m->to[d];
  if (n < m->n) {
    const hlo_shape *flat = hlo_shape_array(ctx, v->shape->dtype, n, dims);
    v = hlo_add(b->comp, HLO_RESHAPE, hlo_shape_fill_layout(ctx, flat), 1, &v, NULL);
    hs_vec_push(&b->made, v);
  }
  const hlo_shape *shape = hlo_shape_array(ctx, v->shape->dtype, target->rank, target->dims);
  *out = hlo_add_broadcast(v, hlo_shape_fill_layout(ctx, shape), n, to);
  hs_vec_push(&b->made, *out);
  return HS_GOOD;
}

static hs_status stretch(builder *b, build_value *v, const hlo_shape *target, u32 nothers,
                         hlo_instr *const *others) {
  const hlo_shape *s = v->i->shape;
  if (hlo_shape_same_dims(s, target)) return HS_GOOD;
  if (hlo_shape_is_dynamic(target) || hlo_shape_is_dynamic(s) || target->rank > MOST_RANK)
    return build_error(b, HS_E_SHAPE, v->at, "dynamic dimensions are not inferred");
  mapping ways[5];
  bool sure = false;
  u32 n = s->rank ? kept_ways(v->i, target, nothers, others, ways, &sure) : 0;
  mapping trailing;
  if (!sure && trailing_way(s, target, &trailing)) {
    bool known = false;
    for (u32 k = 0; k < n; k++) known |= same_mapping(&ways[k], &trailing);
    if (!known) ways[n++] = trailing;
  }
  if (n > 1) return ambiguous(b, v->at, v->i, target, n, ways);
  if (n == 1) return broadcast(b, v->i, target, &ways[0], &v->i);
  hs_buf t = {0};
  hlo_shape_print(&t, s, false);
  hs_buf_puts(&t, ", does not fit ");
  hlo_shape_print(&t, target, false);
  hs_status bad = build_error(b, HS_E_SHAPE, v->at, "%s, %s", v->i->name, hs_buf_cstr(&t));
  hs_buf_free(&t);
  return hs_with_note(bad, "broadcast, reshape or transpose one of them");
}

// ---- one type -----------------------------------------------------------------------------------
static hs_status two_types(const builder *b, const char *at, const hlo_instr *x,
                           const hlo_instr *y) {
  hs_status s =
      build_error(b, HS_E_AMBIGUOUS, at, "%s is %s and %s is %s", x->name,
                  hlo_dtype_text(x->shape->dtype), y->name, hlo_dtype_text(y->shape->dtype));
  return hs_with_note(hs_with_note(s, "write %s(%s)", hlo_dtype_text(y->shape->dtype), x->name),
                      "or %s(%s)", hlo_dtype_text(x->shape->dtype), y->name);
}

// The type of the operands from `from` on: of arrays before that of scalars; HLO_DT_INVALID when
// all are literals. With infer, scalars that have another are converted.
static hs_status one_type(builder *b, build_values *v, size_t from, const char *at,
                          hlo_dtype *out) {
  const hlo_instr *array = NULL, *scalar = NULL;
  for (size_t k = from; k < v->n; k++) {
    const hlo_instr *i = v->v[k].i;
    if (v->v[k].kind != BUILD_INSTR || !hlo_shape_is_array(i->shape)) continue;
    const hlo_instr **one = i->shape->rank ? &array : &scalar;
    if (!*one) *one = i;
    else if (b->infer && (*one)->shape->dtype != i->shape->dtype && (i->shape->rank || !array))
      return two_types(b, at, *one, i);
  }
  const hlo_instr *whose = array ? array : scalar;
  *out = whose ? whose->shape->dtype : HLO_DT_INVALID;
  for (size_t k = from; k < v->n && b->infer && array; k++)
    if (v->v[k].kind == BUILD_INSTR && hlo_shape_is_scalar(v->v[k].i->shape))
      HS_TRY(build_convert(b, v->v[k].at, v->v[k].i, *out, &v->v[k].i));
  bool decimal = false;
  for (size_t k = from; k < v->n; k++)
    decimal |=
        v->v[k].kind == BUILD_DECIMAL || v->v[k].kind == BUILD_INF || v->v[k].kind == BUILD_NAN;
  if (*out == HLO_DT_INVALID && decimal) *out = HLO_F32;
  return HS_GOOD;
}

// Without infer operands have to fit as they are.
static hs_status refuse_mixed(const builder *b, hlo_opcode op, const build_values *v,
                              const char *at) {
  for (size_t k = 1; k < v->n && op != HLO_CLAMP; k++) {
    const hlo_instr *x = v->v[k - 1].i, *y = v->v[k].i;
    if (!hlo_shape_is_array(x->shape) || !hlo_shape_is_array(y->shape) ||
        hlo_shape_same_dims(x->shape, y->shape))
      continue;
    hs_buf t = {0};
    hs_buf_printf(&t, "%s is ", x->name);
    hlo_shape_print(&t, x->shape, false);
    hs_buf_printf(&t, " and %s is ", y->name);
    hlo_shape_print(&t, y->shape, false);
    hs_status s = build_error(b, HS_E_SHAPE, at, "%s", hs_buf_cstr(&t));
    hs_buf_free(&t);
    return hs_with_note(s, "set infer on broadcasts where one of them fits the other");
  }
  return HS_GOOD;
}

hs_status build_fit(builder *b, hlo_opcode op, build_values *v, const char *at) {
  if (v->n < 2) {
    for (size_t k = 0; k < v->n; k++) HS_TRY(build_settle(b, &v->v[k], &v->v[k].i));
    if (v->n) v->v[0].kind = BUILD_INSTR;
    return HS_GOOD;
  }
  size_t from = op == HLO_SELECT;  // its condition has a type of its own
  hlo_dtype type = HLO_DT_INVALID;
  HS_TRY(one_type(b, v, from, at, &type));
  for (size_t k = 0; k < v->n; k++) {
    if (v->v[k].kind == BUILD_INSTR) continue;
    HS_TRY(build_constant(b, &v->v[k], k < from ? HLO_PRED : type, &v->v[k].i));
    v->v[k].kind = BUILD_INSTR;
  }
  if (!b->infer) return refuse_mixed(b, op, v, at);
  // The result's dimensions: of the operand with the most, those of size 1 from another one.
  const hlo_shape *most = NULL;
  for (size_t k = 0; k < v->n; k++) {
    const hlo_shape *s = v->v[k].i->shape;
    if (!hlo_shape_is_array(s)) return HS_GOOD;  // refused by the operation
    if (!most || s->rank > most->rank) most = s;
  }
  i64 dims[MOST_RANK] = {0};
  if (most->rank > MOST_RANK) return HS_GOOD;
  for (u32 d = 0; d < most->rank; d++) dims[d] = most->dims[d];
  for (size_t k = 0; k < v->n; k++) {
    const hlo_shape *s = v->v[k].i->shape;
    for (u32 d = 0; d < s->rank && s->rank == most->rank; d++)
      if (dims[d] == 1) dims[d] = s->dims[d];
  }
  if (!hlo_shape_is_dynamic(most)) most = hlo_shape_array(b->m->ctx, most->dtype, most->rank, dims);
  hlo_instr **others = hs_arena_alloc(b->scratch, v->n * sizeof *others);
  for (size_t k = 0; k < v->n; k++) {
    u32 n = 0;
    if (op == HLO_CLAMP && k != 1 && !v->v[k].i->shape->rank) continue;  // may stay a scalar
    for (size_t j = 0; j < v->n; j++)
      if (j != k && v->v[j].i->shape->rank == most->rank) others[n++] = v->v[j].i;
    HS_TRY(stretch(b, &v->v[k], most, n, others));
  }
  return HS_GOOD;
}
