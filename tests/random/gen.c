// gen.c — the state of a module being made: random numbers, values, parameters, text. See gen.h.
#include "tests/random/gen.h"

#include <math.h>
#include <stdio.h>

#include "core/base/base.h"

// ---- random numbers: splitmix64 (Steele, Lea and Flood, 2014) -----------------------------------
static u64 next64(gen *g) {
  u64 z = g->state += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
u32 gen_below(gen *g, u32 n) { return n ? (u32)(next64(g) >> 33) % n : 0; }
bool gen_chance(gen *g, u32 percent) { return gen_below(g, 100) < percent; }

// ---- types --------------------------------------------------------------------------------------
double gen_eps(hlo_dtype t) { return hlo_dtype_epsilon(hlo_dtype_real_part(t)); }
double gen_type_lo(hlo_dtype t) {
  return hlo_dtype_is_signed(t) ? -ldexp(1, hlo_dtype_bits(t) - 1) : 0;
}
double gen_type_hi(hlo_dtype t) {
  if (t == HLO_PRED) return 1;
  return hlo_dtype_is_signed(t) ? ldexp(1, hlo_dtype_bits(t) - 1) - 1
                                : ldexp(1, hlo_dtype_bits(t)) - 1;
}
hlo_dtype gen_float(gen *g) {
  static const hlo_dtype t[] = {HLO_F32, HLO_F32, HLO_F32,  HLO_F32,  HLO_F32,
                                HLO_F64, HLO_F64, HLO_BF16, HLO_BF16, HLO_F16};
  return t[gen_below(g, HS_COUNT(t))];
}
hlo_dtype gen_int(gen *g) {
  static const hlo_dtype t[] = {HLO_S32, HLO_S32, HLO_S32, HLO_U32, HLO_S64,
                                HLO_U64, HLO_S8,  HLO_U8,  HLO_S16, HLO_U16};
  return t[gen_below(g, HS_COUNT(t))];
}
hlo_dtype gen_any_type(gen *g) {
  static const hlo_dtype more[] = {HLO_PRED,   HLO_C64, HLO_C128, HLO_F8E4M3FN,
                                   HLO_F8E5M2, HLO_S4,  HLO_U4};
  u32 k = gen_below(g, 10);
  return k < 5 ? gen_float(g) : k < 8 ? gen_int(g) : more[gen_below(g, HS_COUNT(more))];
}

// ---- values -------------------------------------------------------------------------------------
i64 gen_count(const gen_value *v) {
  i64 n = 1;
  for (u32 k = 0; k < v->rank; k++) n *= v->dims[k];
  return n;
}
double gen_magnitude(const gen_value *v) { return fmax(fabs(v->lo), fabs(v->hi)); }

gen_value gen_shape_of(hlo_dtype t, u32 rank, const i64 *dims) {
  gen_value v = {.type = t, .rank = rank};
  for (u32 k = 0; k < rank; k++) v.dims[k] = dims[k];
  return v;
}

void gen_dims(gen *g, u32 rank, i64 *dims) {
  static const i64 sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17};
  for (;;) {
    i64 n = 1;
    for (u32 k = 0; k < rank; k++) {
      dims[k] = gen_below(g, 200) == 0 ? 0 : sizes[gen_below(g, rank > 2 ? 7 : HS_COUNT(sizes))];
      n *= dims[k];
    }
    if (n <= GEN_MAX_ELEMENTS) return;
  }
}

enum { RING = 16 };
static char *ring(void) {
  static _Thread_local char text[RING][256];
  static _Thread_local u32 at;
  return text[at++ % RING];
}

const char *gen_ints(u32 n, const i64 *v) {
  char *p = ring();
  size_t at = 0;
  p[0] = '\0';
  for (u32 k = 0; k < n && at < 230; k++)
    at += (size_t)snprintf(p + at, 256 - at, "%s%lld", k ? "," : "", (long long)v[k]);
  return p;
}

const char *gen_perm(gen *g, u32 n, i64 *perm) {
  for (u32 k = 0; k < n; k++) perm[k] = k;
  for (u32 k = n; k > 1; k--) {
    u32 j = gen_below(g, k);
    i64 t = perm[k - 1];
    perm[k - 1] = perm[j];
    perm[j] = t;
  }
  return gen_ints(n, perm);
}

const char *gen_shape_text(const gen_value *v) {
  char *p = ring();
  snprintf(p, 256, "%s[%s]", hlo_dtype_text(v->type), gen_ints(v->rank, v->dims));
  return p;
}

void gen_note_opcode(gen *g, const char *call) {
  size_t n = strcspn(call, "( ");
  hs_buf_put(&g->used, call, n);
  hs_buf_putc(&g->used, ' ');
}

static gen_value *new_value(gen *g, const gen_value *like) {
  gen_value *v = hs_calloc(1, sizeof *v);
  *v = *like;
  v->used = false;
  v->soft = fmax(v->soft, v->err);
  snprintf(v->name, sizeof v->name, "v%u", g->next++);
  return v;
}

static void mark_used(gen *g, const char *text) {
  for (size_t k = 0; k < g->values.n; k++) {
    gen_value *v = g->values.v[k];
    size_t n = strlen(v->name);
    for (const char *p = text; !v->used && (p = strstr(p, v->name)); p += n)
      v->used = (p == text || !strchr("abcdefghijklmnopqrstuvwxyz0123456789_", p[-1])) &&
                !(p[n] >= '0' && p[n] <= '9');
  }
}

gen_value *gen_put(gen *g, const gen_value *like, const char *call, ...) {
  gen_value *v = new_value(g, like);
  hs_buf text = {0};
  va_list ap;
  va_start(ap, call);
  hs_buf_vprintf(&text, call, ap);
  va_end(ap);
  mark_used(g, hs_buf_cstr(&text));
  hs_buf_printf(&g->body, "  %s = %s %s\n", v->name, gen_shape_text(v), hs_buf_cstr(&text));
  gen_note_opcode(g, hs_buf_cstr(&text));
  hs_buf_free(&text);
  hs_vec_push(&g->values, v);
  g->ops++;
  return v;
}

gen_value *gen_put_tuple(gen *g, u32 n, const gen_value *like, const char *call, ...) {
  gen_value tuple = {.type = HLO_TUPLE_TYPE}, *v = new_value(g, &tuple);
  hs_buf text = {0}, shape = {0};
  va_list ap;
  va_start(ap, call);
  hs_buf_vprintf(&text, call, ap);
  va_end(ap);
  for (u32 k = 0; k < n; k++)
    hs_buf_printf(&shape, "%s%s", k ? ", " : "", gen_shape_text(&like[k]));
  mark_used(g, hs_buf_cstr(&text));
  hs_buf_printf(&g->body, "  %s = (%s) %s\n", v->name, hs_buf_cstr(&shape), hs_buf_cstr(&text));
  gen_note_opcode(g, hs_buf_cstr(&text));
  hs_buf_free(&text);
  hs_buf_free(&shape);
  hs_vec_push(&g->values, v);
  v->used = true;
  g->ops++;
  return v;
}

gen_value *gen_element(gen *g, gen_value *tuple, u32 index, const gen_value *like) {
  return gen_put(g, like, "get-tuple-element(%s), index=%u", tuple->name, index);
}

// ---- parameters and constants -------------------------------------------------------------------
gen_value *gen_parameter(gen *g, hlo_dtype t, u32 rank, const i64 *dims, double lo, double hi,
                         bool integral) {
  gen_value like = gen_shape_of(t, rank, dims);
  bool whole = integral || hlo_dtype_is_integer(t) || t == HLO_PRED;
  like.lo = lo;
  like.hi = hi;
  like.integral = whole;
  u32 k = g->nparams++;
  gen_value *v = gen_put(g, &like, "parameter(%u)", k);
  const char *shape = gen_shape_text(v);
  if (t == HLO_PRED) hs_buf_printf(&g->args, "arg %u %s pred\n", k, shape);
  else if (whole)
    hs_buf_printf(&g->args, "arg %u %s int %.0f %.0f\n", k, shape, fmax(lo, -9e18),
                  fmin(hi + 1, 9e18));
  else hs_buf_printf(&g->args, "arg %u %s uniform %.17g %.17g\n", k, shape, lo, hi);
  return v;
}

static gen_value *parameter_of_type(gen *g, hlo_dtype t, u32 rank, const i64 *dims, gen_want want) {
  if (t == HLO_PRED) return gen_parameter(g, t, rank, dims, 0, 1, true);
  if (hlo_dtype_is_integer(t)) {
    bool full = gen_chance(g, 40) || hlo_dtype_bits(t) < 8;
    double lo = full                     ? gen_type_lo(t)
                : hlo_dtype_is_signed(t) ? -9
                                         : 0,
           hi = full ? gen_type_hi(t) : 12;
    return gen_parameter(g, t, rank, dims, lo, hi, true);
  }
  bool integral = want == GEN_INTEGRAL || gen_chance(g, 20);
  double r = integral ? 4 : gen_chance(g, 70) ? 2 : 0.5;
  return gen_parameter(g, t, rank, dims, integral ? -r : -r + 0.25, r, integral);
}

static bool fits(const gen_value *v, hlo_dtype t, gen_want want) {
  if (v->type != t) return false;
  if (want == GEN_INTEGRAL) return v->integral && v->soft == 0 && gen_magnitude(v) <= 64;
  if (want == GEN_EXACT) return v->soft == 0;
  return v->soft <= 1e-2 * fmax(gen_magnitude(v), 1e-3) &&
         gen_magnitude(v) < (gen_eps(t) > 0x1p-12 ? 1e3 : 1e5);
}

gen_value *gen_operand(gen *g, hlo_dtype t, u32 rank, const i64 *dims, gen_want want) {
  gen_value shape = gen_shape_of(t, rank, dims);
  bool whole = hlo_dtype_is_integer(t) || t == HLO_PRED;
  if (gen_chance(g, 80)) {
    u32 start = gen_below(g, (u32)g->values.n + 1);
    for (size_t k = 0; k < g->values.n; k++) {
      gen_value *v = g->values.v[(start + k) % g->values.n];
      if ((whole ? v->type == t : fits(v, t, want)) && v->rank == rank &&
          !memcmp(v->dims, shape.dims, rank * sizeof *dims))
        return v;
    }
  }
  return parameter_of_type(g, t, rank, dims, want);
}

gen_value *gen_of_type(gen *g, hlo_dtype t, u32 least, u32 most, gen_want want) {
  bool whole = hlo_dtype_is_integer(t) || t == HLO_PRED;
  if (gen_chance(g, 75) && g->values.n) {
    u32 start = gen_below(g, (u32)g->values.n);
    for (size_t k = 0; k < g->values.n; k++) {
      gen_value *v = g->values.v[(start + k) % g->values.n];
      if ((whole ? v->type == t : fits(v, t, want)) && v->rank >= least && v->rank <= most)
        return v;
    }
  }
  i64 dims[GEN_MAX_RANK];
  u32 rank = least + gen_below(g, HS_MIN(most, 4u) - least + 1);
  gen_dims(g, rank, dims);
  return parameter_of_type(g, t, rank, dims, want);
}

gen_value *gen_scalar_constant(gen *g, hlo_dtype t, double x) {
  gen_value like = gen_shape_of(t, 0, NULL);
  like.lo = like.hi = x;
  like.integral = x == floor(x);
  if (t == HLO_PRED) return gen_put(g, &like, "constant(%s)", x != 0 ? "true" : "false");
  if (hlo_dtype_is_complex(t)) return gen_put(g, &like, "constant((%.17g, %.17g))", x, x);
  // doubles end at 2^64
  if (t == HLO_U64 && x > 1.8e19) return gen_put(g, &like, "constant(18446744073709551615)");
  if (t == HLO_S64 && x > 9.2e18) return gen_put(g, &like, "constant(9223372036854775807)");
  if (hlo_dtype_is_integer(t)) return gen_put(g, &like, "constant(%.0f)", x);
  return gen_put(g, &like, "constant(%.17g)", x);
}

gen_value *gen_clamped(gen *g, gen_value *v, double lo, double hi) {
  if (v->lo >= lo && v->hi <= hi) return v;
  gen_value *a = gen_scalar_constant(g, v->type, lo), *b = gen_scalar_constant(g, v->type, hi),
            like = *v;
  like.lo = fmin(fmax(v->lo, lo), hi);
  like.hi = fmin(fmax(v->hi, lo), hi);
  like.integral = v->integral && lo == floor(lo) && hi == floor(hi);
  return gen_put(g, &like, "clamp(%s, %s, %s)", a->name, v->name, b->name);
}

double gen_sum_error(const gen_value *v, i64 n) {
  if (v->integral && v->soft == 0) return 0;
  return (double)n * (v->soft + ((double)n + 2) * gen_eps(v->type) * gen_magnitude(v));
}

// ---- regions ------------------------------------------------------------------------------------
const char *gen_region_name(gen *g) {
  char *p = hs_format("region%u", g->nregions++);
  hs_vec_push(&g->region_names, p);
  return p;
}

const char *gen_reducer(gen *g, const char *op, hlo_dtype t) {
  char *name = ring();
  snprintf(name, 256, "do_%s_%s", op, hlo_dtype_text(t));
  char *head = hs_format("%s {", name);
  if (!g->regions.n || !strstr(hs_buf_cstr(&g->regions), head))
    hs_buf_printf(
        &g->regions,
        "%s\n  x = %s[] parameter(0)\n  y = %s[] parameter(1)\n  ROOT r = %s[] %s(x, y)\n}\n", head,
        hlo_dtype_text(t), hlo_dtype_text(t), hlo_dtype_text(t), op);
  hs_free(head);
  return name;
}

// ---- a module -----------------------------------------------------------------------------------
static const struct family {
  const char *name;
  u32 weight;
  gen_family *make;
} families[] = {
#define GEN_FAMILY(name, weight) {#name, weight, gen_##name},
#include "tests/random/gen_ops.def"
#undef GEN_FAMILY
};
const char *const gen_families[] = {
#define GEN_FAMILY(name, weight) #name,
#include "tests/random/gen_ops.def"
#undef GEN_FAMILY
};
const u32 gen_family_count = HS_COUNT(families);

static const struct family *draw(gen *g) {
  u32 total = 0;
  for (u32 k = 0; k < gen_family_count; k++) total += families[k].weight;
  u32 at = gen_below(g, total), k = 0;
  while (at >= families[k].weight) at -= families[k++].weight;
  return &families[k];
}

static const struct family *named(const char *name) {
  for (u32 k = 0; name && k < gen_family_count; k++)
    if (strcmp(families[k].name, name) == 0) return &families[k];
  return NULL;
}

// Everything that nobody uses is a result.
static void finish(gen *g, u64 seed, gen_module *out) {
  hs_buf text = {0}, root = {0}, shape = {0};
  HS_VEC(double) tolerance = {0};
  for (size_t k = 0; k < g->values.n; k++) {
    gen_value *v = g->values.v[k];
    if (v->used || v->type == HLO_TUPLE_TYPE) continue;
    hs_buf_printf(&root, "%s%s", root.n ? ", " : "", v->name);
    hs_buf_printf(&shape, "%s%s", shape.n ? ", " : "", gen_shape_text(v));
    hs_vec_push(&tolerance, v->err);
  }
  hs_buf_printf(
      &text, "HloModule gen_%llu\n\n%s\nENTRY main {\n%s  ROOT result = (%s) tuple(%s)\n}\n",
      (unsigned long long)seed, g->regions.n ? hs_buf_cstr(&g->regions) : "", hs_buf_cstr(&g->body),
      shape.n ? hs_buf_cstr(&shape) : "", root.n ? hs_buf_cstr(&root) : "");
  *out = (gen_module){.text = hs_strdup(hs_buf_cstr(&text)),
                      .args = hs_strdup(g->args.n ? hs_buf_cstr(&g->args) : ""),
                      .nouts = (u32)tolerance.n,
                      .tolerance = tolerance.v,
                      .opcodes = hs_strdup(g->used.n ? hs_buf_cstr(&g->used) : "")};
  hs_buf_free(&text);
  hs_buf_free(&root);
  hs_buf_free(&shape);
}

static void end(gen *g, u64 seed, gen_module *out) {
  finish(g, seed, out);
  for (size_t k = 0; k < g->values.n; k++) hs_free(g->values.v[k]);
  hs_vec_free(&g->values);
  for (size_t k = 0; k < g->region_names.n; k++) hs_free(g->region_names.v[k]);
  hs_vec_free(&g->region_names);
  hs_buf_free(&g->body);
  hs_buf_free(&g->regions);
  hs_buf_free(&g->args);
  hs_buf_free(&g->used);
}

void gen_make(u64 seed, const char *only, gen_module *out) {
  gen g = {.state = seed * 0x632BE59BD9B4E019ull + 0x9E37};
  const struct family *first = named(only);
  u32 want = gen_chance(&g, 35) ? 1 : 1 + gen_below(&g, 9);
  for (u32 tries = 0, made = 0; tries < 60 && made < want && g.ops < 60; tries++) {
    const struct family *f = made == 0 && first ? first : draw(&g);
    made += f->make(&g);
  }
  end(&g, seed, out);
}

void gen_make_for_passes(u64 seed, gen_module *out) {
  gen g = {.state = seed * 0x9FB21C651E98DF25ull + 0x51ED};
  u32 want = 2 + gen_below(&g, 10);
  for (u32 tries = 0, made = 0; tries < 60 && made < want && g.ops < 80; tries++)
    made += gen_chance(&g, 65) ? gen_pattern(&g) : draw(&g)->make(&g);
  end(&g, seed, out);
}
void gen_free(gen_module *m) {
  hs_free(m->text);
  hs_free(m->args);
  hs_free(m->tolerance);
  hs_free(m->opcodes);
  *m = (gen_module){0};
}
