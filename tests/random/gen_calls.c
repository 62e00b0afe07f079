// gen_calls.c — operations of random modules that call computations: map, call, fusion,
// conditional, while, async pairs, and collectives among one device. The bodies are elementwise
// chains.
#include "tests/random/gen.h"

#include <math.h>
#include <stdio.h>

// Appends a chain of n elementwise operations on `x` of this shape to a region; gives the last
// name. Affine steps keep ranges known: like is updated.
static const char *chain(gen *g, hs_buf *b, const char *x, gen_value *like, u32 n) {
  static _Thread_local char names[8][16];
  char shape[64];
  const char *at = x;
  snprintf(shape, sizeof shape, "%s", gen_shape_text(like));
  bool whole = hlo_dtype_is_integer(like->type);
  for (u32 k = 0; k < n && k < 8; k++) {
    static const char *const fops[] = {"add",    "subtract", "maximum", "minimum",
                                       "negate", "tanh",     "multiply"},
                             *const iops[] = {"add",    "subtract", "maximum", "minimum",
                                              "negate", "xor",      "multiply"};
    u32 op = gen_below(g, 7);
    double eps = gen_eps(like->type), m = gen_magnitude(like);
    hs_buf_printf(b, "  c%u = %s %s(%s%s%s)\n", k, shape, whole ? iops[op] : fops[op], at,
                  op == 4 || (op == 5 && !whole) ? "" : ", ",
                  op == 4 || (op == 5 && !whole) ? ""
                  : k % 2                        ? x
                                                 : at);
    hs_buf_printf(&g->used, "%s ", whole ? iops[op] : fops[op]);
    at = names[k];
    hs_buf nm = {0};
    hs_buf_printf(&nm, "c%u", k);
    memcpy(names[k], hs_buf_cstr(&nm), nm.n + 1);
    hs_buf_free(&nm);
    if (whole) continue;
    m = op == 6 ? m * m : op == 5 ? 1 : op < 2 ? 2 * m : m;
    like->soft = op == 6 ? 2 * sqrt(m) * like->soft : op < 2 ? 2 * like->soft : like->soft;
    like->hi = fmax(m, gen_magnitude(like));
    like->lo = -like->hi;
    bool exact = like->integral && op != 5 && like->hi * eps < 1;
    if (!exact) like->soft += 8 * eps * fmax(like->hi, 1);
    like->integral = exact;
  }
  if (whole) like->lo = gen_type_lo(like->type), like->hi = gen_type_hi(like->type);
  like->err = like->soft;
  return at;
}

static bool too_big(const gen_value *v) {
  return !hlo_dtype_is_integer(v->type) &&
         gen_magnitude(v) > (gen_eps(v->type) > 0x1p-12 ? 2e3 : 1e6);
}
static hlo_dtype body_type(gen *g) { return gen_chance(g, 65) ? gen_float(g) : gen_int(g); }

// A region of one parameter of a's shape: its name, and in `like` what comes out. The text is
// appended unless the values would grow too large.
static const char *one_parameter(gen *g, const gen_value *a, gen_value *like, bool scalar,
                                 u32 steps) {
  hs_buf b = {0};
  const char *name = gen_region_name(g);
  gen_value inner = *a;
  if (scalar) inner.rank = 0;
  hs_buf_printf(&b, "%s {\n  x = %s parameter(0)\n", name, gen_shape_text(&inner));
  const char *last = chain(g, &b, "x", &inner, steps);
  hs_buf_printf(&b, "  ROOT r = %s copy(%s)\n}\n", gen_shape_text(&inner), last);
  *like = inner;
  like->rank = a->rank;
  for (u32 k = 0; k < a->rank; k++) like->dims[k] = a->dims[k];
  bool ok = !too_big(like);
  if (ok) hs_buf_put(&g->regions, b.p, b.n);
  hs_buf_free(&b);
  return ok ? name : NULL;
}

static bool calling(gen *g, const char *format, bool scalar, bool lists_dims) {
  gen_value *a = gen_of_type(g, body_type(g), 0, 3, GEN_ANY), like;
  const char *name = one_parameter(g, a, &like, scalar, 1 + gen_below(g, 4));
  if (!name) return false;
  i64 dims[GEN_MAX_RANK];
  for (u32 k = 0; k < a->rank; k++) dims[k] = k;
  hs_buf call = {0};
  hs_buf_printf(&call, "%s(%s), ", format, a->name);
  if (lists_dims) hs_buf_printf(&call, "dimensions={%s}, ", gen_ints(a->rank, dims));
  hs_buf_printf(&call, "%s=%s", strcmp(format, "fusion") ? "to_apply" : "kind=kLoop, calls", name);
  gen_put(g, &like, "%s", hs_buf_cstr(&call));
  hs_buf_free(&call);
  return true;
}

bool gen_map(gen *g) { return calling(g, "map", true, true); }
bool gen_call(gen *g) { return calling(g, "call", false, false); }
bool gen_fusion(gen *g) { return calling(g, "fusion", false, false); }

bool gen_conditional(gen *g) {
  gen_value *a = gen_of_type(g, body_type(g), 0, 3, GEN_ANY), like[3];
  bool predicate = gen_chance(g, 50);
  u32 n = predicate ? 2 : 2 + gen_below(g, 2);
  const char *names[3];
  for (u32 k = 0; k < n; k++)
    if (!(names[k] = one_parameter(g, a, &like[k], false, 1 + gen_below(g, 3)))) return false;
  gen_value out = like[0], *which = predicate ? gen_operand(g, HLO_PRED, 0, NULL, GEN_ANY)
                                              : gen_parameter(g, HLO_S32, 0, NULL, -1, 4, true);
  for (u32 k = 1; k < n; k++) {
    out.lo = fmin(out.lo, like[k].lo);
    out.hi = fmax(out.hi, like[k].hi);
    out.soft = out.err = fmax(out.err, like[k].err);
    out.integral = out.integral && like[k].integral;
  }
  hs_buf operands = {0}, branches = {0};
  for (u32 k = 0; k < n; k++) {
    hs_buf_printf(&operands, ", %s", a->name);
    hs_buf_printf(&branches, "%s%s", k ? ", " : "", names[k]);
  }
  if (predicate)
    gen_put(g, &out, "conditional(%s%s), true_computation=%s, false_computation=%s", which->name,
            hs_buf_cstr(&operands), names[0], names[1]);
  else
    gen_put(g, &out, "conditional(%s%s), branch_computations={%s}", which->name,
            hs_buf_cstr(&operands), hs_buf_cstr(&branches));
  hs_buf_free(&operands);
  hs_buf_free(&branches);
  return true;
}

// while (i < n) x = x op y, with a count known or read from a parameter. Steps keep the range:
// maximum, minimum, xor, or adding.
bool gen_loop(gen *g) {
  hlo_dtype t = body_type(g);
  gen_value *x = gen_of_type(g, t, 0, 3, GEN_ANY),
            *y = gen_operand(g, t, x->rank, x->dims, GEN_ANY),
            like[4] = {gen_shape_of(HLO_S32, 0, NULL), *x, *y, gen_shape_of(HLO_S32, 0, NULL)};
  bool whole = hlo_dtype_is_integer(t), known = gen_chance(g, 50);
  static const char *const fops[] = {"add", "subtract", "maximum", "minimum"}, *const iops[] = {
                                                                                   "add",
                                                                                   "multiply",
                                                                                   "xor",
                                                                                   "subtract"};
  u32 op = gen_below(g, 4), trips = gen_below(g, 7);
  const char *condition = gen_region_name(g), *body = gen_region_name(g),
             *bound = known ? "limit" : "n";
  char s[64];
  snprintf(s, sizeof s, "%s", gen_shape_text(x));
  hs_buf state = {0};
  hs_buf_printf(&state, "(s32[], %s, %s, s32[])", s, s);
  const char *st = hs_buf_cstr(&state);
  hs_buf_printf(&g->regions,
                "%s {\n  p = %s parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n",
                condition, st);
  if (known) hs_buf_printf(&g->regions, "  limit = s32[] constant(%u)\n", trips);
  else hs_buf_printf(&g->regions, "  n = s32[] get-tuple-element(p), index=3\n");
  hs_buf_printf(&g->regions, "  ROOT r = pred[] compare(i, %s), direction=LT\n}\n", bound);
  hs_buf_printf(&g->regions,
                "%s {\n  p = %s parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
                "  x = %s get-tuple-element(p), index=1\n  y = %s get-tuple-element(p), index=2\n"
                "  n = s32[] get-tuple-element(p), index=3\n  one = s32[] constant(1)\n"
                "  j = s32[] add(i, one)\n  z = %s %s(x, y)\n  ROOT r = %s tuple(j, z, y, n)\n}\n",
                body, st, s, s, s, whole ? iops[op] : fops[op], st);
  gen_value *zero = gen_scalar_constant(g, HLO_S32, 0),
            *n = gen_parameter(g, HLO_S32, 0, NULL, 0, 6, true);
  gen_value *start = gen_put_tuple(g, 4, (gen_value[]){like[0], *x, *y, like[3]},
                                   "tuple(%s, %s, %s, %s)", zero->name, x->name, y->name, n->name);
  if (whole) like[1].lo = gen_type_lo(t), like[1].hi = gen_type_hi(t), like[1].integral = true;
  else {
    double m = gen_magnitude(x) + 7 * gen_magnitude(y);
    like[1].hi = m;
    like[1].lo = -m;
    like[1].integral = x->integral && y->integral && m * gen_eps(t) < 1;
    like[1].soft = x->soft + 7 * y->soft + (like[1].integral ? 0 : 16 * gen_eps(t) * m);
    like[1].err = like[1].soft;
  }
  like[0].hi = 7;
  like[0].integral = true;
  gen_value *w =
      gen_put_tuple(g, 4, like, "while(%s), condition=%s, body=%s", start->name, condition, body);
  gen_element(g, w, 0, &like[0]);
  gen_element(g, w, 1, &like[1]);
  hs_buf_free(&state);
  return true;
}

// One device is a group too.
bool gen_collective(gen *g) {
  hlo_dtype t = gen_chance(g, 60) ? HLO_F32 : gen_int(g);
  gen_value *a = gen_of_type(g, t, 1, 3, GEN_ANY), like = *a, id = gen_shape_of(HLO_U32, 0, NULL);
  like.err = a->soft;
  id.integral = true;
  u32 dim = gen_below(g, a->rank);
  switch (gen_below(g, 7)) {
  case 0:
    gen_put(g, &like, "all-reduce(%s), replica_groups={{0}}, to_apply=%s", a->name,
            gen_reducer(g, "add", t));
    break;
  case 1:
    gen_put(g, &like, "all-gather(%s), replica_groups={{0}}, dimensions={%u}", a->name, dim);
    break;
  case 2:
    gen_put(g, &like, "reduce-scatter(%s), replica_groups={{0}}, dimensions={%u}, to_apply=%s",
            a->name, dim, gen_reducer(g, "add", t));
    break;
  case 3: gen_put(g, &like, "collective-permute(%s), source_target_pairs={{0,0}}", a->name); break;
  case 4:
    gen_put(g, &like, "all-to-all(%s), replica_groups={{0}}, dimensions={%u}", a->name, dim);
    break;
  case 5: gen_put(g, &id, "replica-id()"); break;
  default: gen_put(g, &id, "partition-id()"); break;
  }
  return true;
}

// A computation started and awaited.
bool gen_async(gen *g) {
  gen_value *a = gen_of_type(g, body_type(g), 0, 2, GEN_ANY), like;
  const char *name = one_parameter(g, a, &like, false, 1 + gen_below(g, 3));
  if (!name) return false;
  char s[64];
  snprintf(s, sizeof s, "%s", gen_shape_text(a));
  a->used = true;
  hs_buf_printf(&g->body, "  start%u = ((%s), %s, u32[]) call-start(%s), to_apply=%s\n",
                g->nregions, s, s, a->name, name);
  gen_note_opcode(g, "async-start");
  hs_buf call = {0};
  hs_buf_printf(&call, "call-done(start%u)", g->nregions);
  gen_put(g, &like, "%s", hs_buf_cstr(&call));
  hs_buf_free(&call);
  return true;
}
