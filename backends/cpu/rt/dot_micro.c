// dot_micro.c — the innermost kernels of our own matrix product: a block of C that stays in
// registers while k runs.
//
// A block has up to `rows` rows and one or two vectors of columns. For each k one vector or two of
// B are loaded, and each row adds a broadcast element of A times them (an outer product; Goto and
// van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008). Twelve rows by two
// vectors fill the 32 registers of AVX-512, six by two the 16 of the sets before it.
//
// There is one function for each number of rows, so that the compiler sees constant bounds and
// keeps the block in registers. Elements of A are read through strides, so that A need not be
// packed. The 8-bit kernel (AVX-512 VNNI) takes four neighbours along k as one 32-bit unit of
// unsigned values on the left and signed ones on the right, and adds a row of corrections that
// stands behind the panel of B.
#include "backends/cpu/rt/dot.h"

enum { AHEAD = 12 };  // rows of B
#define UNROLLED _Pragma("GCC unroll 16")
#define SPLAT_TIMES(acc, x, y) (acc) += (x) * (y)

// BYTES: of a vector. MOST: rows of a full block. STEP(acc, x, y): acc += x * y.
#define DEFINE_BLOCK(name, TARGET, T, BYTES, MOST, STEP, CORRECT)                               \
  typedef T name##_vec __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));      \
  TARGET static inline __attribute__((always_inline)) void name##_block(                        \
      i64 K, const T *a, i64 ar, i64 ac, const T *b, i64 br, T *c, i64 cr, bool add,            \
      const int rows, const int vecs) {                                                         \
    enum { W = BYTES / (int)sizeof(T) };                                                        \
    name##_vec acc[MOST][2];                                                                    \
    const T *p[(MOST + 2) / 3];                                                                 \
    UNROLLED for (int i = 0; i < rows; i++) UNROLLED for (int v = 0; v < vecs; v++) acc[i][v] = \
        (name##_vec){0};                                                                        \
    UNROLLED for (int i = 0; i < rows; i += 3) p[i / 3] = a + i * ar;                           \
    for (i64 k = 0; k < K; k++) {                                                               \
      name##_vec y[2];                                                                          \
      UNROLLED for (int v = 0; v < vecs; v++) y[v] = *(const name##_vec *)(b + v * W);          \
      UNROLLED for (int v = 0; v < vecs; v++) __builtin_prefetch(b + AHEAD * br + v * W);       \
      UNROLLED for (int i = 0; i < rows; i++) {                                                 \
        T x = p[i / 3][i % 3 * ar];                                                             \
        UNROLLED for (int v = 0; v < vecs; v++) STEP(acc[i][v], x, y[v]);                       \
      }                                                                                         \
      UNROLLED for (int i = 0; i < rows; i += 3) p[i / 3] += ac;                                \
      b += br;                                                                                  \
    }                                                                                           \
    UNROLLED for (int i = 0; i < rows; i++) UNROLLED for (int v = 0; v < vecs; v++) {           \
      name##_vec *to = (name##_vec *)(c + i * cr + v * W);                                      \
      name##_vec sum = acc[i][v];                                                               \
      CORRECT(sum, b, name##_vec, v *W);                                                        \
      if (add) sum += *to;                                                                      \
      *to = sum;                                                                                \
    }                                                                                           \
  }

#define ROWS(name, TARGET, T, n)                                                                 \
  TARGET static void name##_##n##_1(i64 K, const void *a, i64 ar, i64 ac, const void *b, i64 br, \
                                    void *c, i64 cr, bool add) {                                 \
    name##_block(K, a, ar, ac, b, br, c, cr, add, n, 1);                                         \
  }                                                                                              \
  TARGET static void name##_##n##_2(i64 K, const void *a, i64 ar, i64 ac, const void *b, i64 br, \
                                    void *c, i64 cr, bool add) {                                 \
    name##_block(K, a, ar, ac, b, br, c, cr, add, n, 2);                                         \
  }
#define UP_TO_6(X, ...) \
  X(__VA_ARGS__, 1)     \
  X(__VA_ARGS__, 2) X(__VA_ARGS__, 3) X(__VA_ARGS__, 4) X(__VA_ARGS__, 5) X(__VA_ARGS__, 6)
#define UP_TO_12(X, ...)  \
  UP_TO_6(X, __VA_ARGS__) \
  X(__VA_ARGS__, 7)       \
  X(__VA_ARGS__, 8) X(__VA_ARGS__, 9) X(__VA_ARGS__, 10) X(__VA_ARGS__, 11) X(__VA_ARGS__, 12)
#define ONE(name, n) name##_##n##_1,
#define TWO(name, n) name##_##n##_2,
#define NOTHING(sum, b, V, at) (void)0

// The instruction set that every machine of the architecture has.
DEFINE_BLOCK(f32_base, , float, 16, 6, SPLAT_TIMES, NOTHING)
DEFINE_BLOCK(f64_base, , double, 16, 6, SPLAT_TIMES, NOTHING)
UP_TO_6(ROWS, f32_base, , float)
UP_TO_6(ROWS, f64_base, , double)
static const dot_micro f32_base = {6, 4, {{UP_TO_6(ONE, f32_base)}, {UP_TO_6(TWO, f32_base)}}},
                       f64_base = {6, 2, {{UP_TO_6(ONE, f64_base)}, {UP_TO_6(TWO, f64_base)}}};

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma")))
#define VNNI __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,fma")))
DEFINE_BLOCK(f32_avx2, AVX2, float, 32, 6, SPLAT_TIMES, NOTHING)
DEFINE_BLOCK(f64_avx2, AVX2, double, 32, 6, SPLAT_TIMES, NOTHING)
UP_TO_6(ROWS, f32_avx2, AVX2, float)
UP_TO_6(ROWS, f64_avx2, AVX2, double)
static const dot_micro f32_avx2 = {6, 8, {{UP_TO_6(ONE, f32_avx2)}, {UP_TO_6(TWO, f32_avx2)}}},
                       f64_avx2 = {6, 4, {{UP_TO_6(ONE, f64_avx2)}, {UP_TO_6(TWO, f64_avx2)}}};

DEFINE_BLOCK(f32_avx512, AVX512, float, 64, 12, SPLAT_TIMES, NOTHING)
DEFINE_BLOCK(f64_avx512, AVX512, double, 64, 12, SPLAT_TIMES, NOTHING)
UP_TO_12(ROWS, f32_avx512, AVX512, float)
UP_TO_12(ROWS, f64_avx512, AVX512, double)
static const dot_micro f32_avx512 = {12,
                                     16,
                                     {{UP_TO_12(ONE, f32_avx512)}, {UP_TO_12(TWO, f32_avx512)}}},
                       f64_avx512 = {
                           12, 8, {{UP_TO_12(ONE, f64_avx512)}, {UP_TO_12(TWO, f64_avx512)}}};

// The instruction as text: with the intrinsic, GCC 12 keeps the block in memory.
#define SUM_OF_FOUR(acc, x, y)                                    \
  do {                                                            \
    s8_vnni_vec t_ = acc, x_ = (s8_vnni_vec){0} + (x), y_ = y;    \
    __asm__("vpdpbusd %2, %1, %0" : "+v"(t_) : "v"(x_), "v"(y_)); \
    acc = t_;                                                     \
  } while (0)
#define CORRECTED(sum, b, V, at) (sum) += *(const V *)((b) + (at))
// Sums wrap around: unsigned elements.
DEFINE_BLOCK(s8_vnni, VNNI, u32, 64, 12, SUM_OF_FOUR, CORRECTED)
UP_TO_12(ROWS, s8_vnni, VNNI, u32)
static const dot_micro s8_vnni = {12, 16, {{UP_TO_12(ONE, s8_vnni)}, {UP_TO_12(TWO, s8_vnni)}}};
#endif

const dot_micro *cpu_dot_micro(dot_compute c) {
#if defined(__x86_64__)
  static const dot_micro *const of[][2] = {
      {&f32_base, &f64_base}, {&f32_avx2, &f64_avx2}, {&f32_avx512, &f64_avx512}};
  if (c == DOT_S8)
    return cpu_vectors() == CPU_AVX512 && __builtin_cpu_supports("avx512vnni") ? &s8_vnni : NULL;
#else
  static const dot_micro *const of[][2] = {{&f32_base, &f64_base}};
#endif
  return c == DOT_F32 || c == DOT_F64 ? of[cpu_vectors()][c == DOT_F64] : NULL;
}
