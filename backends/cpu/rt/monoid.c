// monoid.c — associative operations on arrays, as scans, windows and scatters need them:
// element by element, with one operand in all places, and running along an array.
//
// Sums, products, maxima and minima of the machine's types are loops over vectors of 64 bytes here;
// the compiler makes one copy per instruction set. A running operation combines the elements of a
// vector in log2 of its lanes steps (Hillis and Steele 1986), then the vector with what came before
// it, so that only that last step waits for the vector before. Maxima and minima of floats are
// those of integers that order alike; a NaN becomes the largest or the smallest of them.
//
// Any other computation is compiled over LANES elements (cpu_lanes). It runs along an array as in
// that many parts side by side, whose totals are then combined.
#include "backends/cpu/rt/scalar.h"

enum { LANES = 64 };

typedef struct cpu_monoid_code {
  hlo_dtype type, also;  // integers of either sign
  cpu_combine op;
  void (*combine)(void *out, const void *a, const void *b, i64 n);
  void (*offset)(void *out, const void *c, const void *a, i64 n);
  void (*scan)(void *out, const void *in, i64 n, bool reverse);
  u64 identity, identity2;  // the bits of what changes nothing
} monoid_code;

// ---- vectors ------------------------------------------------------------------------------------

#define VECTOR(T) __attribute__((vector_size(64), aligned(sizeof(T)), may_alias))
typedef float f32v VECTOR(float);
typedef double f64v VECTOR(double);
typedef i32 i32v VECTOR(i32);
typedef u32 u32v VECTOR(u32);
typedef i64 i64v VECTOR(i64);
typedef u64 u64v VECTOR(u64);

// Lanes of two vectors by number, those of the second counted on from the first's.
#if defined(__clang__)
#define PICK(I, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(I, a, b, ...) __builtin_shuffle(a, b, (I){__VA_ARGS__})
#endif

// One step of a running operation: each lane with the one d below (above) it, or the identity.
#define STEP(I, K, OP, ...) u = PICK(I, v, id, __VA_ARGS__), v = OP(K, u, v);
#define UP_4(I, K, OP)                                                 \
  STEP(I, K, OP, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14) \
  STEP(I, K, OP, 16, 17, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13) \
  STEP(I, K, OP, 16, 17, 18, 19, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) \
  STEP(I, K, OP, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7)
#define DOWN_4(I, K, OP)                                                   \
  STEP(I, K, OP, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)    \
  STEP(I, K, OP, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)   \
  STEP(I, K, OP, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19) \
  STEP(I, K, OP, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
#define LAST_4(I, v) PICK(I, v, v, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15)
#define FIRST_4(I, v) PICK(I, v, v, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
#define UP_8(I, K, OP)                   \
  STEP(I, K, OP, 8, 0, 1, 2, 3, 4, 5, 6) \
  STEP(I, K, OP, 8, 9, 0, 1, 2, 3, 4, 5) \
  STEP(I, K, OP, 8, 9, 10, 11, 0, 1, 2, 3)
#define DOWN_8(I, K, OP)                 \
  STEP(I, K, OP, 1, 2, 3, 4, 5, 6, 7, 8) \
  STEP(I, K, OP, 2, 3, 4, 5, 6, 7, 8, 9) \
  STEP(I, K, OP, 4, 5, 6, 7, 8, 9, 10, 11)
#define LAST_8(I, v) PICK(I, v, v, 7, 7, 7, 7, 7, 7, 7, 7)
#define FIRST_8(I, v) PICK(I, v, v, 0, 0, 0, 0, 0, 0, 0, 0)

// On vectors of keys K, and on two elements.
#define ADD(K, a, b) ((a) + (b))
#define MUL(K, a, b) ((a) * (b))
#define MAX(K, a, b) (((a) & (K)((a) > (b))) | ((b) & ~(K)((a) > (b))))
#define MIN(K, a, b) (((a) & (K)((a) < (b))) | ((b) & ~(K)((a) < (b))))
#define ADD1(a, b) ((a) + (b))
#define MUL1(a, b) ((a) * (b))
#define MAX1(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define MIN1(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))

// Elements to keys and back. An integer's is itself.
#define PLAIN(x) (x)
#define SIGN32 ((i32)0x80000000)
#define SIGN64 INT64_MIN
#define KEY32(b) ((b) ^ (((b) >> 31) & ~SIGN32))
#define KEY64(b) ((b) ^ (((b) >> 63) & ~SIGN64))
#define F32_MAX(x) KEY32((i32v)(x) & ~((i32v)((x) != (x)) & SIGN32))
#define F32_MIN(x) KEY32((i32v)(x) | ((i32v)((x) != (x)) & SIGN32))
#define F64_MAX(x) KEY64((i64v)(x) & ~((i64v)((x) != (x)) & SIGN64))
#define F64_MIN(x) KEY64((i64v)(x) | ((i64v)((x) != (x)) & SIGN64))
#define F32_KEY(k) ((f32v)KEY32(k))
#define F64_KEY(k) ((f64v)KEY64(k))

// T: elements, V: vectors of them, I: of integers as wide, K: of keys, S: size of an element.
// Loads come before the stores to the same places: out may be one of the operands.
#define DEFINE(name, T, V, I, K, S, IN, OUT, OP, OP1, ID)                                     \
  __attribute__((target_clones("default", "avx2", "avx512f"))) static void combine_##name(    \
      void *out, const void *first, const void *second, i64 n) {                              \
    enum { W = 64 / S };                                                                      \
    const T *x = first, *y = second;                                                          \
    T *o = out;                                                                               \
    i64 k = 0;                                                                                \
    for (; k + W <= n; k += W) {                                                              \
      V p = *(const V *)(const void *)(x + k), q = *(const V *)(const void *)(y + k);         \
      K a = IN(p), b = IN(q), r = OP(K, a, b);                                                \
      *(V *)(void *)(o + k) = OUT(r);                                                         \
    }                                                                                         \
    for (; k < n; k++) o[k] = OP1(x[k], y[k]);                                                \
  }                                                                                           \
  __attribute__((target_clones("default", "avx2", "avx512f"))) static void offset_##name(     \
      void *out, const void *scalar, const void *array, i64 n) {                              \
    enum { W = 64 / S };                                                                      \
    const T *x = array, c = *(const T *)scalar;                                               \
    T *o = out;                                                                               \
    i64 k = 0;                                                                                \
    V cs = c - (V){0};                                                                        \
    K a = IN(cs);                                                                             \
    for (; k + W <= n; k += W) {                                                              \
      V q = *(const V *)(const void *)(x + k);                                                \
      K b = IN(q), r = OP(K, a, b);                                                           \
      *(V *)(void *)(o + k) = OUT(r);                                                         \
    }                                                                                         \
    for (; k < n; k++) o[k] = OP1(c, x[k]);                                                   \
  }                                                                                           \
  __attribute__((target_clones("default", "avx2", "avx512f"))) static void scan_##name(       \
      void *out, const void *in, i64 n, bool reverse) {                                       \
    enum { W = 64 / S };                                                                      \
    const T *x = in;                                                                          \
    T *o = out;                                                                               \
    K id = (ID) - (K){0}, carry = id, u;                                                      \
    i64 k = 0;                                                                                \
    if (reverse) {                                                                            \
      for (k = n; k >= W; k -= W) {                                                           \
        V p = *(const V *)(const void *)(x + k - W);                                          \
        K v = IN(p);                                                                          \
        DOWN_##S(I, K, OP) u = FIRST_##S(I, v), v = OP(K, carry, v), carry = OP(K, carry, u); \
        *(V *)(void *)(o + k - W) = OUT(v);                                                   \
      }                                                                                       \
      for (; k-- > 0;) o[k] = k + 1 < n ? OP1(x[k], o[k + 1]) : x[k];                         \
      return;                                                                                 \
    }                                                                                         \
    for (; k + W <= n; k += W) {                                                              \
      V p = *(const V *)(const void *)(x + k);                                                \
      K v = IN(p);                                                                            \
      UP_##S(I, K, OP) u = LAST_##S(I, v), v = OP(K, carry, v), carry = OP(K, carry, u);      \
      *(V *)(void *)(o + k) = OUT(v);                                                         \
    }                                                                                         \
    for (; k < n; k++) o[k] = k ? OP1(o[k - 1], x[k]) : x[k];                                 \
  }

// NAME(type, operation), type, the other sign's, operation, key and result, identity as a key, its
// bits, and others that change nothing
#define MONOIDS(X)                                                                               \
  X(f32_add, F32, F32, ADD, float, f32v, i32v, f32v, 4, PLAIN, PLAIN, -0.0f, 0, 0x80000000)      \
  X(f32_mul, F32, F32, MUL, float, f32v, i32v, f32v, 4, PLAIN, PLAIN, 1.0f, 0x3f800000,          \
    0x3f800000)                                                                                  \
  X(f32_max, F32, F32, MAX, float, f32v, i32v, i32v, 4, F32_MAX, F32_KEY, SIGN32, 0xff800000,    \
    0xff800000)                                                                                  \
  X(f32_min, F32, F32, MIN, float, f32v, i32v, i32v, 4, F32_MIN, F32_KEY, INT32_MAX, 0x7f800000, \
    0x7f800000)                                                                                  \
  X(f64_add, F64, F64, ADD, double, f64v, i64v, f64v, 8, PLAIN, PLAIN, -0.0, 0, (u64)1 << 63)    \
  X(f64_mul, F64, F64, MUL, double, f64v, i64v, f64v, 8, PLAIN, PLAIN, 1.0, (u64)0x3ff << 52,    \
    (u64)0x3ff << 52)                                                                            \
  X(f64_max, F64, F64, MAX, double, f64v, i64v, i64v, 8, F64_MAX, F64_KEY, SIGN64,               \
    (u64)0xfff << 52, (u64)0xfff << 52)                                                          \
  X(f64_min, F64, F64, MIN, double, f64v, i64v, i64v, 8, F64_MIN, F64_KEY, INT64_MAX,            \
    (u64)0x7ff << 52, (u64)0x7ff << 52)                                                          \
  X(u32_add, U32, S32, ADD, u32, u32v, i32v, u32v, 4, PLAIN, PLAIN, 0u, 0, 0)                    \
  X(u32_mul, U32, S32, MUL, u32, u32v, i32v, u32v, 4, PLAIN, PLAIN, 1u, 1, 1)                    \
  X(u32_max, U32, U32, MAX, u32, u32v, i32v, u32v, 4, PLAIN, PLAIN, 0u, 0, 0)                    \
  X(u32_min, U32, U32, MIN, u32, u32v, i32v, u32v, 4, PLAIN, PLAIN, UINT32_MAX, UINT32_MAX,      \
    UINT32_MAX)                                                                                  \
  X(s32_max, S32, S32, MAX, i32, i32v, i32v, i32v, 4, PLAIN, PLAIN, SIGN32, 0x80000000,          \
    0x80000000)                                                                                  \
  X(s32_min, S32, S32, MIN, i32, i32v, i32v, i32v, 4, PLAIN, PLAIN, INT32_MAX, INT32_MAX,        \
    INT32_MAX)                                                                                   \
  X(u64_add, U64, S64, ADD, u64, u64v, i64v, u64v, 8, PLAIN, PLAIN, (u64)0, 0, 0)                \
  X(u64_mul, U64, S64, MUL, u64, u64v, i64v, u64v, 8, PLAIN, PLAIN, (u64)1, 1, 1)                \
  X(u64_max, U64, U64, MAX, u64, u64v, i64v, u64v, 8, PLAIN, PLAIN, (u64)0, 0, 0)                \
  X(u64_min, U64, U64, MIN, u64, u64v, i64v, u64v, 8, PLAIN, PLAIN, UINT64_MAX, UINT64_MAX,      \
    UINT64_MAX)                                                                                  \
  X(s64_max, S64, S64, MAX, i64, i64v, i64v, i64v, 8, PLAIN, PLAIN, SIGN64, (u64)1 << 63,        \
    (u64)1 << 63)                                                                                \
  X(s64_min, S64, S64, MIN, i64, i64v, i64v, i64v, 8, PLAIN, PLAIN, INT64_MAX, INT64_MAX, INT64_MAX)

#define X(name, type, also, op, T, V, I, K, S, IN, OUT, ID, bits, bits2) \
  DEFINE(name, T, V, I, K, S, IN, OUT, op, op##1, ID)
MONOIDS(X)
#undef X

static const monoid_code codes[] = {
#define X(name, type, also, op, T, V, I, K, S, IN, OUT, ID, bits, bits2) \
  {HLO_##type, HLO_##also, CPU_COMB_##op, combine_##name, offset_##name, scan_##name, bits, bits2},
    MONOIDS(X)
#undef X
};

// ---- any computation ----------------------------------------------------------------------------

static void *at(const cpu_monoid *m, u32 k, const void *p, i64 element) {
  return (char *)(uintptr_t)p + element * (i64)m->size[k];
}

// LANES elements side by side, wherever the arrays are: kernels want them aligned.
typedef struct lanes {
  _Alignas(64) char a[CPU_MONOID_MOST][LANES * 16];
} lanes;

static void combine_lanes(const cpu_monoid *m, void *const *out, void *const *a, void *const *b,
                          i64 first, i64 n) {
  void *bufs[3 * CPU_MONOID_MOST] = {0};
  lanes x, y, z;
  bool whole = n == LANES;
  for (u32 k = 0; k < m->n; k++) {
    bufs[k] = at(m, k, a[k], first);
    bufs[m->n + k] = at(m, k, b[k], first);
    bufs[2 * m->n + k] = at(m, k, out[k], first);
    for (u32 p = 0; p < 3; p++) whole = whole && ((uintptr_t)bufs[p * m->n + k] & 63) == 0;
  }
  if (!whole)
    for (u32 k = 0; k < m->n; k++) {
      size_t bytes = (size_t)n * m->size[k], all = LANES * m->size[k];
      memset(x.a[k], 0, all), memset(y.a[k], 0, all);
      memcpy(x.a[k], bufs[k], bytes), memcpy(y.a[k], bufs[m->n + k], bytes);
      bufs[k] = x.a[k], bufs[m->n + k] = y.a[k], bufs[2 * m->n + k] = z.a[k];
    }
  cpu_lanes_run(&m->lanes, bufs);
  for (u32 k = 0; k < m->n && !whole; k++)
    memcpy(at(m, k, out[k], first), z.a[k], (size_t)n * m->size[k]);
}

void cpu_monoid_combine(const cpu_monoid *m, void *const *out, void *const *a, void *const *b,
                        i64 n) {
  if (m->code) {
    m->code->combine(out[0], a[0], b[0], n);
    return;
  }
  for (i64 k = 0; k < n; k += LANES) combine_lanes(m, out, a, b, k, HS_MIN(n - k, (i64)LANES));
}

static void repeat(void *to, const void *from, size_t size, i64 n) {
  for (i64 k = 0; k < n; k++) memcpy((char *)to + (size_t)k * size, from, size);
}

void cpu_monoid_offset(const cpu_monoid *m, void *const *out, void *const *c, void *const *a,
                       bool c_last, i64 n) {
  if (m->code) {
    m->code->offset(out[0], c[0], a[0], n);
    return;
  }
  lanes same;
  void *s[CPU_MONOID_MOST], *o[CPU_MONOID_MOST], *x[CPU_MONOID_MOST];
  for (u32 k = 0; k < m->n; k++) repeat(s[k] = same.a[k], c[k], m->size[k], LANES);
  for (i64 j = 0; j < n; j += LANES) {
    for (u32 k = 0; k < m->n; k++) o[k] = at(m, k, out[k], j), x[k] = at(m, k, a[k], j);
    combine_lanes(m, o, c_last ? x : s, c_last ? s : x, 0, HS_MIN(n - j, (i64)LANES));
  }
}

// Elements first, first + step, ... of an array to or from neighbouring ones.
#define MOVE(T)                                                                                 \
  for (i64 j = 0; j < n; j++) {                                                                 \
    if (gather) memcpy(side + j * (i64)sizeof(T), line + j * step * (i64)sizeof(T), sizeof(T)); \
    else memcpy(line + j * step * (i64)sizeof(T), side + j * (i64)sizeof(T), sizeof(T));        \
  }                                                                                             \
  return
static void move_lanes(char *side, char *line, i64 step, i64 n, size_t size, bool gather) {
  typedef struct {
    u64 v[2];
  } pair;
  switch (size) {
  case 1: MOVE(u8);
  case 2: MOVE(u16);
  case 4: MOVE(u32);
  case 8: MOVE(u64);
  default: MOVE(pair);
  }
}
#undef MOVE

// Position t of the scan's order.
static i64 place(i64 t, i64 n, bool reverse) { return reverse ? n - 1 - t : t; }

static void scan_serially(const cpu_monoid *m, void *const *out, void *const *in,
                          void *const *start, i64 n, bool reverse) {
  void *o[CPU_MONOID_MOST], *x[CPU_MONOID_MOST], *acc[CPU_MONOID_MOST];
  for (i64 t = 0; t < n; t++) {
    for (u32 k = 0; k < m->n; k++) {
      o[k] = at(m, k, out[k], place(t, n, reverse));
      x[k] = at(m, k, in[k], place(t, n, reverse));
      if (t) acc[k] = at(m, k, out[k], place(t - 1, n, reverse));
      else if (!start) memmove(o[k], x[k], m->size[k]);
    }
    if (t) combine_lanes(m, o, reverse ? x : acc, reverse ? acc : x, 0, 1);
    else if (start) combine_lanes(m, o, start, x, 0, 1);
  }
}

void cpu_monoid_scan(const cpu_monoid *m, void *const *out, void *const *in, void *const *start,
                     i64 n, bool reverse) {
  if (m->code) {
    m->code->scan(out[0], in[0], n, reverse);
    if (start) m->code->offset(out[0], start[0], out[0], n);
    return;
  }
  i64 part = n / LANES;  // of each lane; the rest comes after the last one
  if (part < 4) {
    scan_serially(m, out, in, start, n, reverse);
    return;
  }
  lanes acc, next;
  void *a[CPU_MONOID_MOST], *x[CPU_MONOID_MOST], *o[CPU_MONOID_MOST], *c[CPU_MONOID_MOST];
  for (u32 k = 0; k < m->n; k++) a[k] = acc.a[k], x[k] = next.a[k];
  for (i64 t = 0; t < part; t++) {
    for (u32 k = 0; k < m->n; k++) {
      i64 first = place(t, n, reverse), step = reverse ? -part : part;
      move_lanes(t ? x[k] : a[k], at(m, k, in[k], first), step, LANES, m->size[k], true);
    }
    if (t) combine_lanes(m, a, reverse ? x : a, reverse ? a : x, 0, LANES);
    else if (start) combine_lanes(m, a, start, a, 0, 1);
    for (u32 k = 0; k < m->n; k++)
      move_lanes(a[k], at(m, k, out[k], place(t, n, reverse)), reverse ? -part : part, LANES,
                 m->size[k], false);
  }
  // what precedes each lane's part is complete when its turn comes
  for (i64 l = 1; l < LANES; l++) {
    for (u32 k = 0; k < m->n; k++) {
      c[k] = at(m, k, out[k], place(l * part - 1, n, reverse));
      o[k] = at(m, k, out[k], reverse ? n - (l + 1) * part : l * part);
    }
    cpu_monoid_offset(m, o, c, o, reverse, part);
  }
  i64 done = part * LANES;
  for (i64 t = done; t < n; t++) {
    for (u32 k = 0; k < m->n; k++) {
      o[k] = at(m, k, out[k], place(t, n, reverse));
      x[k] = at(m, k, in[k], place(t, n, reverse));
      c[k] = at(m, k, out[k], place(t - 1, n, reverse));
    }
    combine_lanes(m, o, reverse ? x : c, reverse ? c : x, 0, 1);
  }
}

// ---- making -------------------------------------------------------------------------------------

bool cpu_monoid_is_identity(const cpu_monoid *m, void *const *value) {
  u64 bits = 0;
  if (!m->code) return false;
  memcpy(&bits, value[0], m->size[0]);
  return bits == m->code->identity || bits == m->code->identity2;
}

bool cpu_monoid_make(const hlo_computation *c, u32 n, const hlo_dtype *types, cpu_monoid *out) {
  *out = (cpu_monoid){.n = n};
  if (n == 0 || n > CPU_MONOID_MOST || c->nparams != 2 * n) return false;
  for (u32 k = 0; k < n; k++) {
    out->type[k] = types[k];
    out->size[k] = hlo_dtype_storage(types[k]);
  }
  cpu_combine op = n == 1 ? cpu_combine_of(c) : CPU_COMB_OTHER;
  for (size_t k = 0; k < HS_COUNT(codes) && n == 1; k++)
    if (codes[k].op == op && (codes[k].type == types[0] || codes[k].also == types[0]))
      out->code = &codes[k];
  return out->code || cpu_lanes_make(c, LANES, &out->lanes);
}

void cpu_monoid_free(cpu_monoid *m) { cpu_lanes_free(&m->lanes); }
