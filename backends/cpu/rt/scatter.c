// scatter.c — scatter.
//
// What arrives at an element is applied in index order. The places of a block of updates are
// computed first, then one loop per type and operation applies them, rows of a window at a time.
// Threads never share an element: where no two windows overlap in part, each thread has the
// elements of its own blocks of the operand and passes over all indices (owner computes); the
// results do not depend on how many there are. Many updates of a few places, as in a histogram or
// in segment sums, are combined into private copies instead, one per fixed chunk of the updates,
// which are then combined in order. Windows that are out of bounds are skipped as a whole, as HLO
// says.
#include <complex.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/rt/scalar.h"

enum {
  MAXN = 16,
  BLOCK = 256,      // updates whose places are computed together
  SERIAL = 8192,    // elements that are not worth a thread
  PRIVATE = 65536,  // elements of a private copy, at most
};

// n updates of `width` neighbours each, at these offsets in elements.
typedef void apply_fn(void *operand, const void *updates, const i64 *to, const i64 *from, i64 n,
                      i64 width);

// The same for neighbouring updates of one element each, those from `limit` on going nowhere.
typedef void elements_fn(void *operand, const void *updates, const u32 *to, i64 n, u32 limit);
typedef struct operation {
  apply_fn *apply;
  elements_fn *elements;
} operation;

typedef struct scatter {
  u32 n;  // arrays
  hlo_dtype type[MAXN], it;
  size_t size[MAXN], bytes[MAXN];  // of an element, of the array
  operation op;                    // NULL: one of these two
  cpu_lanes lanes;
  cpu_scalar *fn;
  u64 identity;  // where private copies are possible
  i64 copies;    // how many; 0: none
  i64 elements;  // of the operand
  u32 nmap;
  i64 map_stride[HLO_MAX_RANK], map_limit[HLO_MAX_RANK];
  i64 index_step;
  cpu_batch batch;  // in elements
  u32 nwin;
  i64 wdims[HLO_MAX_RANK], wop[HLO_MAX_RANK], wupd[HLO_MAX_RANK];
  // a window: runs of `width` neighbours; window = runs * width
  i64 updates, window, runs, width;
  bool plain;     // updates follow each other, places in 32 bits: `plain_places` does for blocks
  bool disjoint;  // windows are the same or have nothing in common
  int shift;      // offsets of one owner's blocks: 1 << shift elements
  // leading batch dims whose updates never share a destination
  i64 owners;
} scatter;

// ---- operations ---------------------------------------------------------------------------------

typedef struct pair {
  u64 v[2];
} pair;

static inline float from_bf16(u16 v) {
  u32 b = (u32)v << 16;
  float f;
  memcpy(&f, &b, 4);
  return f;
}
static inline u16 to_bf16(float f) {
  u32 b;
  memcpy(&b, &f, 4);
  return (u16)((b & 0x7fffffff) > 0x7f800000 ? b >> 16 | 0x40 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
}

#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define LARGER(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))
#define BOTH(a, b) ((a) & (b))
#define EITHER(a, b) ((a) | (b))
#define DIFFER(a, b) ((a) ^ (b))
// in f32, rounded at each step
#define PLUS_BF16(a, b) to_bf16(from_bf16(a) + from_bf16(b))
#define TIMES_BF16(a, b) to_bf16(from_bf16(a) * from_bf16(b))
#define LARGER_BF16(a, b) to_bf16(LARGER(from_bf16(a), from_bf16(b)))
#define SMALLER_BF16(a, b) to_bf16(SMALLER(from_bf16(a), from_bf16(b)))
#define PLUS_F16(a, b) hlo_f32_to_f16(hlo_f16_to_f32(a) + hlo_f16_to_f32(b))
#define LARGER_F16(a, b) hlo_f32_to_f16(LARGER(hlo_f16_to_f32(a), hlo_f16_to_f32(b)))
#define SMALLER_F16(a, b) hlo_f32_to_f16(SMALLER(hlo_f16_to_f32(a), hlo_f16_to_f32(b)))

#define VECTORS __attribute__((target_clones("default", "avx2", "avx512f")))
#define SCALARS
#define F32_INF 0x7f800000
#define F64_INF ((u64)0x7ff << 52)

// NAME(copies by instruction set, element, expression), type, others of the same bits, operation,
// and whether there is an identity, with its bits
#define APPLIED(X)                                                                 \
  X(f32_add, VECTORS, float, PLUS, F32, F32, ADD, true, 0)                         \
  X(f32_mul, VECTORS, float, TIMES, F32, F32, MUL, true, 0x3f800000)               \
  X(f32_max, VECTORS, float, LARGER, F32, F32, MAX, true, F32_INF | 0x80000000)    \
  X(f32_min, VECTORS, float, SMALLER, F32, F32, MIN, true, F32_INF)                \
  X(f64_add, VECTORS, double, PLUS, F64, F64, ADD, true, 0)                        \
  X(f64_mul, VECTORS, double, TIMES, F64, F64, MUL, true, (u64)0x3ff << 52)        \
  X(f64_max, VECTORS, double, LARGER, F64, F64, MAX, true, F64_INF | (u64)1 << 63) \
  X(f64_min, VECTORS, double, SMALLER, F64, F64, MIN, true, F64_INF)               \
  X(bf16_add, VECTORS, u16, PLUS_BF16, BF16, BF16, ADD, false, 0)                  \
  X(bf16_mul, VECTORS, u16, TIMES_BF16, BF16, BF16, MUL, false, 0)                 \
  X(bf16_max, VECTORS, u16, LARGER_BF16, BF16, BF16, MAX, true, 0xff80)            \
  X(bf16_min, VECTORS, u16, SMALLER_BF16, BF16, BF16, MIN, true, 0x7f80)           \
  X(f16_add, SCALARS, u16, PLUS_F16, F16, F16, ADD, false, 0)                      \
  X(f16_max, SCALARS, u16, LARGER_F16, F16, F16, MAX, true, 0xfc00)                \
  X(f16_min, SCALARS, u16, SMALLER_F16, F16, F16, MIN, true, 0x7c00)               \
  X(c64_add, SCALARS, float complex, PLUS, C64, C64, ADD, true, 0)                 \
  X(c128_add, SCALARS, double complex, PLUS, C128, C128, ADD, false, 0)            \
  X(u8_add, SCALARS, u8, PLUS, U8, S8, ADD, true, 0)                               \
  X(u8_and, SCALARS, u8, BOTH, U8, S8, AND, true, UINT8_MAX)                       \
  X(u8_or, SCALARS, u8, EITHER, U8, S8, OR, true, 0)                               \
  X(pred_and, SCALARS, u8, BOTH, PRED, PRED, AND, true, 1)                         \
  X(pred_or, SCALARS, u8, EITHER, PRED, PRED, OR, true, 0)                         \
  X(u16_add, SCALARS, u16, PLUS, U16, S16, ADD, true, 0)                           \
  X(u32_add, VECTORS, u32, PLUS, U32, S32, ADD, true, 0)                           \
  X(u32_mul, VECTORS, u32, TIMES, U32, S32, MUL, true, 1)                          \
  X(u32_max, VECTORS, u32, LARGER, U32, U32, MAX, true, 0)                         \
  X(u32_min, VECTORS, u32, SMALLER, U32, U32, MIN, true, UINT32_MAX)               \
  X(s32_max, VECTORS, i32, LARGER, S32, S32, MAX, true, 0x80000000)                \
  X(s32_min, VECTORS, i32, SMALLER, S32, S32, MIN, true, INT32_MAX)                \
  X(u32_and, SCALARS, u32, BOTH, U32, S32, AND, true, UINT32_MAX)                  \
  X(u32_or, SCALARS, u32, EITHER, U32, S32, OR, true, 0)                           \
  X(u32_xor, SCALARS, u32, DIFFER, U32, S32, XOR, true, 0)                         \
  X(u64_add, SCALARS, u64, PLUS, U64, S64, ADD, true, 0)                           \
  X(u64_mul, SCALARS, u64, TIMES, U64, S64, MUL, true, 1)                          \
  X(u64_max, SCALARS, u64, LARGER, U64, U64, MAX, true, 0)                         \
  X(u64_min, SCALARS, u64, SMALLER, U64, U64, MIN, true, UINT64_MAX)               \
  X(s64_max, SCALARS, i64, LARGER, S64, S64, MAX, true, (u64)1 << 63)              \
  X(s64_min, SCALARS, i64, SMALLER, S64, S64, MIN, true, INT64_MAX)

// Rows in pieces of constant length, which are vectors without more ado; rows of the lengths that
// are most frequent have loops of their own.
#define PIECES(n, T, ...)               \
  for (; width - w >= (n); w += (n))    \
    for (i64 j = w; j < w + (n); j++) { \
      T a = o[j], b = u[j];             \
      o[j] = (T)__VA_ARGS__;            \
    }
#define ROWS_OF(length, name)                           \
  case length:                                          \
    rows_##name(operand, updates, to, from, n, length); \
    return;
#define APPLY(name, clones, T, ...)                                                                \
  static inline __attribute__((always_inline)) void rows_##name(                                   \
      T *restrict operand, const T *restrict updates, const i64 *to, const i64 *from, i64 n,       \
      const i64 width) {                                                                           \
    for (i64 k = 0; k < n; k++) {                                                                  \
      T *restrict o = operand + to[k];                                                             \
      const T *restrict u = updates + from[k];                                                     \
      i64 w = 0;                                                                                   \
      PIECES(16, T, __VA_ARGS__)                                                                   \
      PIECES(8, T, __VA_ARGS__)                                                                    \
      PIECES(4, T, __VA_ARGS__)                                                                    \
      PIECES(1, T, __VA_ARGS__)                                                                    \
    }                                                                                              \
  }                                                                                                \
  clones static void apply_##name(void *restrict operand, const void *restrict updates,            \
                                  const i64 *to, const i64 *from, i64 n, i64 width) {              \
    switch (width) {                                                                               \
      ROWS_OF(1, name)                                                                             \
      ROWS_OF(2, name)                                                                             \
      ROWS_OF(3, name)                                                                             \
      ROWS_OF(4, name)                                                                             \
      ROWS_OF(8, name)                                                                             \
      ROWS_OF(16, name)                                                                            \
      ROWS_OF(32, name)                                                                            \
    default: rows_##name(operand, updates, to, from, n, width);                                    \
    }                                                                                              \
  }                                                                                                \
  static void elements_##name(void *restrict operand, const void *restrict updates, const u32 *to, \
                              i64 n, u32 limit) {                                                  \
    T *restrict o = operand;                                                                       \
    const T *restrict u = updates;                                                                 \
    for (i64 k = 0; k < n; k++)                                                                    \
      if (to[k] < limit) {                                                                         \
        T a = o[to[k]], b = u[k];                                                                  \
        o[to[k]] = (T)__VA_ARGS__;                                                                 \
      }                                                                                            \
  }

#define X(name, clones, T, OP, type, also, op, has, bits) APPLY(name, clones, T, (OP(a, b)))
APPLIED(X)
#undef X

// Without an operation: rows are copied.
#define SET(T)                                                                             \
  static void set_##T(void *restrict operand, const void *restrict updates, const i64 *to, \
                      const i64 *from, i64 n, i64 width) {                                 \
    T *restrict o = operand;                                                               \
    const T *restrict u = updates;                                                         \
    for (i64 k = 0; k < n && width == 1; k++) o[to[k]] = u[from[k]];                       \
    for (i64 k = 0; k < n && width > 1; k++)                                               \
      memcpy(o + to[k], u + from[k], (size_t)width * sizeof(T));                           \
  }                                                                                        \
  static void set_elements_##T(void *restrict operand, const void *restrict updates,       \
                               const u32 *to, i64 n, u32 limit) {                          \
    T *restrict o = operand;                                                               \
    const T *restrict u = updates;                                                         \
    for (i64 k = 0; k < n; k++)                                                            \
      if (to[k] < limit) o[to[k]] = u[k];                                                  \
  }
SET(u8)
SET(u16)
SET(u32)
SET(u64)
SET(pair)

static const struct applied {
  hlo_dtype type, also;
  cpu_combine op;
  operation code;
  bool has_identity;
  u64 identity;
} applied[] = {
#define X(name, clones, T, OP, type, also, op, has, bits) \
  {HLO_##type, HLO_##also, CPU_COMB_##op, {apply_##name, elements_##name}, has, bits},
    APPLIED(X)
#undef X
};

static operation setter(size_t size) {
  switch (size) {
  case 1: return (operation){set_u8, set_elements_u8};
  case 2: return (operation){set_u16, set_elements_u16};
  case 4: return (operation){set_u32, set_elements_u32};
  case 8: return (operation){set_u64, set_elements_u64};
  default: return (operation){set_pair, set_elements_pair};
  }
}

static const struct applied *find_applied(hlo_dtype t, cpu_combine op) {
  for (size_t k = 0; k < HS_COUNT(applied); k++)
    if (applied[k].op == op && (applied[k].type == t || applied[k].also == t)) return &applied[k];
  return NULL;
}

bool cpu_scatter_supports(const hlo_instr *i) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  u32 n = i->noperands / 2;
  if (!c || n == 0 || n > MAXN || i->noperands != 2 * n + 1 ||
      !hlo_dtype_is_integer(hlo_operand(i, n)->shape->dtype))
    return false;
  // operands, updates, results and the computation in the same precision
  hlo_dtype types[MAXN];
  for (u32 k = 0; k < n; k++) {
    const hlo_shape *r = hlo_shape_is_tuple(i->shape) ? i->shape->elems[k] : i->shape;
    hlo_dtype from = types[k] = hlo_operand(i, k)->shape->dtype;
    if (r->dtype != from || hlo_operand(i, n + 1 + k)->shape->dtype != from ||
        c->params[k]->shape->dtype != from || c->params[n + k]->shape->dtype != from ||
        !hlo_dtype_is_array(from))
      return false;
  }
  cpu_combine op = cpu_combine_of(c);
  if (cpu_scalar_ok(c) || (n == 1 && (op == CPU_COMB_SECOND || find_applied(types[0], op))))
    return true;
  cpu_lanes l;
  bool compiles = cpu_lanes_make(c, 1, &l);
  cpu_lanes_free(&l);
  return compiles;
}

// ---- places -------------------------------------------------------------------------------------

// Components of index vectors `step` apart, times the operand's stride, added to the places. One
// that is out of bounds leaves NOWHERE for good.
#define NOWHERE UINT32_MAX
#define ADD_INDEX(T, S)                                                        \
  for (i64 k = 0; k < n; k++) {                                                \
    T v = p[k * (S)];                                                          \
    to[k] = v > limit || to[k] == NOWHERE ? NOWHERE : to[k] + (u32)v * stride; \
  }
#define DEFINE_ADD_INDEX(T)                                                              \
  VECTORS static void add_##T(const T *restrict p, i64 step, u32 stride, T limit, i64 n, \
                              u32 *restrict to) {                                        \
    if (step == 1) ADD_INDEX(T, 1)                                                       \
    else if (step == 2) ADD_INDEX(T, 2)                                                  \
    else ADD_INDEX(T, step)                                                              \
  }
DEFINE_ADD_INDEX(u32)
DEFINE_ADD_INDEX(u64)

static void begin_places(u32 *to, i64 n, u32 at, u32 step) {
  for (i64 k = 0; k < n; k++) to[k] = at + (u32)k * step;
}

// Where updates u, u + 1, ... go: places in 32 bits. Along the innermost dim of the batch indices
// and places advance by steps.
static void plain_places(const scatter *s, const void *indices, i64 u, i64 n, u32 *to) {
  const cpu_batch *b = &s->batch;
  const u32 d = HS_MAX(b->n, 1) - 1;
  for (i64 run = n; n > 0; n -= run, u += run, to += run) {
    i64 ix, at, from, step = b->n ? b->index[d] : 1;
    cpu_batch_at(b, u, &ix, &at, &from);
    if (b->n) run = HS_MIN(n, b->dims[d] - u % b->dims[d]);
    begin_places(to, run, (u32)at, (u32)b->operand[d]);
    for (u32 c = 0; c < s->nmap; c++) {
      i64 first = ix + (i64)c * s->index_step;
      u32 stride = (u32)s->map_stride[c];
      if (hlo_dtype_storage(s->it) == 4)
        add_u32((const u32 *)indices + first, step, stride, (u32)s->map_limit[c], run, to);
      else add_u64((const u64 *)indices + first, step, stride, (u64)s->map_limit[c], run, to);
    }
  }
}

// Where updates u, u + 1, ... go, negative: nowhere; and where they are.
static void places(const scatter *s, const void *indices, i64 u, i64 n, i64 *to, i64 *from) {
  for (i64 k = 0; k < n; k++) {
    i64 ix;
    cpu_batch_at(&s->batch, u + k, &ix, &to[k], &from[k]);
    for (u32 c = 0; c < s->nmap; c++) {
      const char *p = indices;
      i64 v = hlo_elem_to_i64(s->it,
                              p + (size_t)(ix + (i64)c * s->index_step) * hlo_dtype_storage(s->it));
      to[k] = to[k] < 0 || v < 0 || v > s->map_limit[c] ? -1 : to[k] + v * s->map_stride[c];
    }
  }
}

// ---- applying -----------------------------------------------------------------------------------

// A part of the work: of these updates, those whose place belongs to `owner` of `owners` (a power
// of two), columns [c0, c1) of each run.
typedef struct part {
  i64 first, last, owner, owners, c0, c1;
} part;
typedef struct scatter_job {
  const scatter *s;
  void *const *bufs;
  i64 parts, cols;
  char *copies;
} scatter_job;

// One element of all arrays.
static void apply_computed(const scatter *s, void *const *bufs, i64 to, i64 from) {
  _Alignas(64) char tmp[3 * MAXN][64];
  void *p[3 * MAXN];
  for (u32 k = 0; k < 3 * s->n; k++) p[k] = tmp[k];
  for (u32 k = 0; k < s->n; k++) {
    memcpy(p[k], (char *)bufs[2 * s->n + 1 + k] + (size_t)to * s->size[k], s->size[k]);
    memcpy(p[s->n + k], (char *)bufs[s->n + 1 + k] + (size_t)from * s->size[k], s->size[k]);
  }
  if (s->lanes.instr) cpu_lanes_run(&s->lanes, p);
  else cpu_scalar_run(s->fn, (const void *const *)p, p + 2 * s->n);
  for (u32 k = 0; k < s->n; k++)
    memcpy((char *)bufs[2 * s->n + 1 + k] + (size_t)to * s->size[k], p[2 * s->n + k], s->size[k]);
}

static void apply_runs(const scatter *s, void *const *bufs, const i64 *to, const i64 *from, i64 n,
                       i64 width) {
  if (s->op.apply) {
    s->op.apply(bufs[2 * s->n + 1], bufs[s->n + 1], to, from, n, width);
    return;
  }
  for (i64 k = 0; k < n; k++)
    for (i64 w = 0; w < width; w++) apply_computed(s, bufs, to[k] + w, from[k] + w);
}

// All runs of one window.
static void apply_window(const scatter *s, void *const *bufs, i64 to, i64 from, i64 width) {
  i64 ts[BLOCK], fs[BLOCK], inner = s->wdims[s->nwin - 1], os = s->wop[s->nwin - 1],
                            us = s->wupd[s->nwin - 1];
  for (i64 r = 0; r < s->runs;) {
    i64 q = r / inner, o = to, u = from, x = r % inner, n = HS_MIN(inner - x, (i64)BLOCK);
    for (u32 d = s->nwin - 1; d-- > 0;) {
      o += q % s->wdims[d] * s->wop[d];
      u += q % s->wdims[d] * s->wupd[d];
      q /= s->wdims[d];
    }
    for (i64 k = 0; k < n; k++) ts[k] = o + (x + k) * os, fs[k] = u + (x + k) * us;
    apply_runs(s, bufs, ts, fs, n, width);
    r += n;
  }
}

// Neighbouring single elements at places in 32 bits; an index that is its own place is not copied.
static void apply_elements(const scatter *s, void *const *bufs, i64 first, i64 last) {
  u32 to[BLOCK];
  const char *updates = bufs[2];
  if (s->nmap == 1 && s->map_stride[0] == 1 && s->batch.n == 1 && s->batch.index[0] == 1 &&
      s->batch.operand[0] == 0 && hlo_dtype_storage(s->it) == 4) {
    s->op.elements(bufs[3], updates + (size_t)first * s->size[0], (const u32 *)bufs[1] + first,
                   last - first, (u32)(s->map_limit[0] + 1));
    return;
  }
  for (i64 u = first; u < last; u += BLOCK) {
    i64 n = HS_MIN(last - u, (i64)BLOCK);
    plain_places(s, bufs[1], u, n, to);
    s->op.elements(bufs[3], updates + (size_t)u * s->size[0], to, n, NOWHERE);
  }
}

// Of n places those that somebody has, with their numbers: how many are left.
#define OWN(k)                                \
  mine[kept] = t[k], number[kept] = (u32)(k); \
  kept += (t[k] != NOWHERE) & ((t[k] >> shift & mask) == owner)
static i64 own(const u32 *t, i64 n, int shift, u32 mask, u32 owner, u32 *mine, u32 *number) {
  i64 kept = 0;
  for (i64 k = 0; k < n; k++) { OWN(k); }
  return kept;
}
#if defined(__x86_64__)
// mine and number have room for a vector more
__attribute__((target("avx512f"))) static i64 own_avx512(const u32 *t, i64 n, int shift, u32 mask,
                                                         u32 owner, u32 *mine, u32 *number) {
  i64 kept = 0, k = 0;
  __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i step = _mm512_set1_epi32(16), wanted = _mm512_set1_epi32((int)owner),
                bits = _mm512_set1_epi32((int)mask), none = _mm512_set1_epi32((int)NOWHERE);
  const __m128i by = _mm_cvtsi32_si128(shift);
  for (; k + 16 <= n; k += 16, at = _mm512_add_epi32(at, step)) {
    __m512i v = _mm512_loadu_si512(t + k);
    __mmask16 keep = _mm512_cmpneq_epi32_mask(v, none);
    keep =
        _mm512_mask_cmpeq_epi32_mask(keep, _mm512_and_si512(_mm512_srl_epi32(v, by), bits), wanted);
    _mm512_storeu_si512(mine + kept, _mm512_maskz_compress_epi32(keep, v));
    _mm512_storeu_si512(number + kept, _mm512_maskz_compress_epi32(keep, at));
    kept += __builtin_popcount(keep);
  }
  for (; k < n; k++) { OWN(k); }
  return kept;
}
#endif

VECTORS static void widen(const u32 *mine, const u32 *number, i64 n, i64 c0, i64 at, i64 step,
                          i64 *restrict to, i64 *restrict from) {
  for (i64 k = 0; k < n; k++) to[k] = (i64)mine[k] + c0, from[k] = at + (i64)number[k] * step;
}

// Places of updates as `places` has them, without those that go nowhere or belong to others; how
// many are left.
static i64 own_places(const scatter *s, const void *indices, i64 u, i64 n, const part *p, i64 *to,
                      i64 *from) {
  u32 t[BLOCK], mine[BLOCK + 16], number[BLOCK + 16], mask = (u32)p->owners - 1;
  i64 step = s->batch.n ? s->batch.third[s->batch.n - 1] : 1, at = u * step + p->c0, kept;
  plain_places(s, indices, u, n, t);
#if defined(__x86_64__)
  if (cpu_vectors() == CPU_AVX512)
    kept = own_avx512(t, n, s->shift, mask, (u32)p->owner, mine, number);
  else
#endif
    kept = own(t, n, s->shift, mask, (u32)p->owner, mine, number);
  widen(mine, number, kept, p->c0, at, step, to, from);
  return kept;
}

static void apply_part(const scatter *s, void *const *bufs, const part *p) {
  i64 to[BLOCK], from[BLOCK];
  if (s->plain && s->window == 1 && s->op.elements && p->owners == 1 && s->batch.n > 0 &&
      s->batch.third[s->batch.n - 1] == 1) {
    apply_elements(s, bufs, p->first, p->last);
    return;
  }
  for (i64 u = p->first; u < p->last; u += BLOCK) {
    i64 n = HS_MIN(p->last - u, (i64)BLOCK), kept = 0;
    if (s->plain) kept = own_places(s, bufs[s->n], u, n, p, to, from);
    else {
      places(s, bufs[s->n], u, n, to, from);
      for (i64 k = 0; k < n; k++) {
        i64 t = to[k];
        bool keep = t >= 0 && (t >> s->shift & (p->owners - 1)) == p->owner;
        to[kept] = t + p->c0, from[kept] = from[k] + p->c0;
        kept += keep;
      }
    }
    if (s->runs == 1) apply_runs(s, bufs, to, from, kept, p->c1 - p->c0);
    else
      for (i64 k = 0; k < kept; k++) apply_window(s, bufs, to[k], from[k], p->c1 - p->c0);
  }
}

static void owner_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const scatter_job *j = ctx;
  apply_part(j->s, j->bufs, &(part){0, j->s->updates, chunk, j->parts, 0, j->s->width});
}

static void column_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const scatter_job *j = ctx;
  i64 c = chunk * j->cols;
  apply_part(j->s, j->bufs, &(part){0, j->s->updates, 0, 1, c, HS_MIN(c + j->cols, j->s->width)});
}

static void batch_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const scatter_job *j = ctx;
  i64 per = j->s->updates / j->s->owners;
  apply_part(j->s, j->bufs, &(part){chunk * per, (chunk + 1) * per, 0, 1, 0, j->s->width});
}

// ---- private copies -----------------------------------------------------------------------------

static void private_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const scatter_job *j = ctx;
  const scatter *s = j->s;
  char *mine = j->copies + (size_t)(chunk * s->elements) * s->size[0];
  size_t all = (size_t)s->elements * s->size[0], done = s->size[0];
  memcpy(mine, &s->identity, done);
  for (; done < all; done *= 2) memcpy(mine + done, mine, HS_MIN(done, all - done));
  void *bufs[] = {NULL, j->bufs[1], j->bufs[2], mine};
  apply_part(s, bufs,
             &(part){s->updates * chunk / s->copies, s->updates * (chunk + 1) / s->copies, 0, 1, 0,
                     s->width});
}

static void merge_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const scatter_job *j = ctx;
  const scatter *s = j->s;
  i64 at = chunk * j->cols, n = HS_MIN(j->cols, s->elements - at);
  for (i64 c = 0; c < s->copies; c++) {
    i64 from = c * s->elements + at;
    s->op.apply(j->bufs[3], j->copies, &at, &from, 1, n);
  }
}

// ---- the kernel ---------------------------------------------------------------------------------

static void copy_array(void *to, const void *from, size_t n) {
  if (to == from || !n) return;
  enum { LINE = 4096 };
  i64 dims[3] = {(i64)(n / LINE / 16), 16, LINE}, st[3] = {16 * LINE, LINE, 1};
  size_t head = (size_t)dims[0] * 16 * LINE;
  if (dims[0]) cpu_relayout(to, st, from, st, 3, dims, 1);
  memcpy((char *)to + head, (const char *)from + head, n - head);
}

static hs_status run_scatter(void *state, void *const *bufs, void *scratch) {
  const scatter *s = state;
  for (u32 k = 0; k < s->n; k++) copy_array(bufs[2 * s->n + 1 + k], bufs[k], s->bytes[k]);
  if (s->updates == 0 || s->window == 0 || s->elements == 0) return HS_GOOD;
  scatter_job j = {.s = s, .bufs = bufs, .copies = scratch, .parts = 1, .cols = 4096};
  if (s->copies) {
    cpu_par_for(private_chunk, &j, s->copies);
    cpu_par_for(merge_chunk, &j, (s->elements + j.cols - 1) / j.cols);
    return HS_GOOD;
  }
  // The order at each element is that of the updates however they are divided. Single elements are
  // in their places sooner than it is found out whose they are.
  bool quick = s->window == 1 && s->op.elements;
  i64 threads = s->updates * s->window < SERIAL || quick ? 1 : cpu_par_threads();
  while (2 * j.parts <= HS_MIN(threads, (i64)16)) j.parts *= 2;
  if (threads > 1 && (s->disjoint || s->updates == 1) && s->width >= 512 * j.parts) {
    j.cols = (s->width / j.parts + 63) / 64 * 64;
    cpu_par_for(column_chunk, &j, (s->width + j.cols - 1) / j.cols);
  } else if (threads > 1 && s->disjoint) cpu_par_for(owner_chunk, &j, j.parts);
  else if (threads > 1 && s->owners > 1) cpu_par_for(batch_chunk, &j, s->owners);
  else apply_part(s, bufs, &(part){0, s->updates, 0, 1, 0, s->width});
  return HS_GOOD;
}

static void free_scatter(void *state) {
  scatter *s = state;
  cpu_lanes_free(&s->lanes);
  cpu_scalar_free(s->fn);
  hs_free(s);
}

// Window dims of operand and updates side by side; merged where both are contiguous.
static void add_window_dim(scatter *s, i64 dim, i64 op, i64 up) {
  s->window *= dim;
  if (dim == 1) return;
  u32 k = s->nwin;
  if (k && s->wop[k - 1] == op * dim && s->wupd[k - 1] == up * dim) {
    s->wdims[k - 1] *= dim;
    s->wop[k - 1] = op;
    s->wupd[k - 1] = up;
    return;
  }
  s->wdims[k] = dim;
  s->wop[k] = op;
  s->wupd[k] = up;
  s->nwin++;
}

// How the operation is computed, and whether on private copies.
static void choose(scatter *s, const hlo_computation *c) {
  cpu_combine op = s->n == 1 ? cpu_combine_of(c) : CPU_COMB_OTHER;
  const struct applied *a = s->n == 1 ? find_applied(s->type[0], op) : NULL;
  if (op == CPU_COMB_SECOND) s->op = setter(s->size[0]);
  else if (a) s->op = a->code;
  else if (!cpu_lanes_make(c, 1, &s->lanes)) s->fn = cpu_scalar_compile(c);
  const cpu_batch *b = &s->batch;
  bool plain = s->it == HLO_S32 || s->it == HLO_U32 || s->it == HLO_S64 || s->it == HLO_U64;
  for (u32 k = 1; k < b->n; k++) plain = plain && b->third[k - 1] == b->third[k] * b->dims[k];
  for (u32 k = 0; k < s->nmap; k++) plain = plain && s->map_limit[k] >= 0;
  s->plain = plain && s->elements < INT32_MAX;
  // a page for each in turn: nearer ones would fetch each other's lines
  for (s->shift = 10; s->shift > 6 && s->elements >> s->shift < 32;) s->shift--;
  i64 work = s->updates * s->window;
  if (!a || !a->has_identity || s->elements > PRIVATE || work < 16 * s->elements ||
      work < 4 * SERIAL)
    return;
  s->identity = a->identity;
  s->copies = HS_MIN(work / HS_MAX(16 * s->elements, 2 * (i64)SERIAL), (i64)32);
}

hs_status cpu_scatter_prepare(const hlo_instr *i, cpu_rt *out) {
  scatter *s = hs_calloc(1, sizeof *s);
  s->n = i->noperands / 2;
  const hlo_shape *op = hlo_operand(i, 0)->shape, *ix = hlo_operand(i, s->n)->shape,
                  *up = hlo_operand(i, s->n + 1)->shape;
  hlo_ints uw = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS),
           ins = hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS),
           map = hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
  hlo_ints ob = hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS),
           ib = hlo_attr_ints(i, HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS);
  i64 ivd = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0), os[HLO_MAX_RANK], is[HLO_MAX_RANK],
      us[HLO_MAX_RANK], size[HLO_MAX_RANK];
  hlo_row_major_strides(op->rank, op->dims, os);
  hlo_row_major_strides(ix->rank, ix->dims, is);
  hlo_row_major_strides(up->rank, up->dims, us);
  for (u32 k = 0; k < s->n; k++) {
    s->type[k] = hlo_operand(i, k)->shape->dtype;
    s->size[k] = hlo_dtype_storage(s->type[k]);
    s->bytes[k] = block_leaf_bytes(hlo_operand(i, k)->shape);
  }
  s->it = ix->dtype;
  s->elements = op->elements;
  s->updates = s->window = s->owners = 1;
  s->disjoint = true;
  for (u32 d = 0, k = 0; d < op->rank; d++) {
    size[d] = 1;
    if (hlo_ints_has(ins, d) || hlo_ints_has(ob, d)) continue;
    size[d] = up->dims[uw.v[k]];
    add_window_dim(s, size[d], os[d], us[uw.v[k++]]);
  }
  s->width = 1;
  if (s->nwin && s->wop[s->nwin - 1] == 1 && s->wupd[s->nwin - 1] == 1)
    s->width = s->wdims[--s->nwin];
  s->runs = s->width ? s->window / s->width : 0;
  s->nmap = map.n;
  s->index_step = ivd < ix->rank ? is[ivd] : 1;
  for (u32 k = 0; k < map.n; k++) {
    s->map_stride[k] = os[map.v[k]];
    s->map_limit[k] = op->dims[map.v[k]] - size[map.v[k]];
    s->disjoint = s->disjoint && size[map.v[k]] == 1;
  }
  bool owning = true;
  for (u32 d = 0, id = 0; d < up->rank; d++) {
    if (hlo_ints_has(uw, d)) continue;
    if ((i64)id == ivd) id++;
    i64 along = 0;
    bool batching = false;
    for (u32 k = 0; k < ib.n; k++)
      if (ib.v[k] == id) {
        along = os[ob.v[k]];
        batching = true;
      }
    cpu_batch_add(&s->batch, up->dims[d], is[id], along, us[d]);
    // leading batching dims own disjoint parts of the operand
    owning = owning && batching;
    if (owning) s->owners *= HS_MAX(up->dims[d], (i64)1);
    s->updates *= up->dims[d];
    id++;
  }
  choose(s, hlo_attr_comp(i, HLO_ATTR_TO_APPLY));
  *out = (cpu_rt){.kind = "scatter",
                  .state = s,
                  .run = run_scatter,
                  .release = free_scatter,
                  .scratch_bytes = s->copies * s->elements * (i64)s->size[0],
                  .inplace = (1u << s->n) - 1,
                  .compiled = &s->lanes};
  return HS_GOOD;
}
