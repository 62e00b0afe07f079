// base.h — the ground every other file stands on: integer names, must-use status values, growable
// vectors, checked arithmetic and the interrupt flag.
//
// Three classes of failure, never mixed:
//   1. what a user or a file can cause    -> hs_status (diag.h), returned by value and must-use;
//   2. our own bug                        -> HS_ASSERT: traps in debug builds, reported in release;
//   3. foreign code dying (LLVM, JIT, dot)-> it lives in a child process (backends/worker.h,
//      viz/render.h).
#ifndef HLO_BASE_H
#define HLO_BASE_H

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

#if defined(__clang__)
#define HS_MUST_USE __attribute__((warn_unused_result))
#else
#define HS_MUST_USE [[nodiscard]]
#endif
#define HS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define HS_UNUSED __attribute__((unused))
#define HS_LIKELY(x) __builtin_expect(!!(x), 1)
#define HS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HS_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HS_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HS_MAX(a, b) ((a) > (b) ? (a) : (b))
#define HS_ASSERT(x) assert(x)

// Checked multiply and add on i64: false on overflow, and *out then holds the wrapped value.
static inline bool hs_mul_ok(i64 a, i64 b, i64 *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool hs_add_ok(i64 a, i64 b, i64 *out) { return !__builtin_add_overflow(a, b, out); }
// Saturating forms for sums of sizes: INT64_MAX (INT64_MIN below) stands for "this much or more".
static inline i64 hs_add_sat_i64(i64 a, i64 b) {
  i64 r;
  return hs_add_ok(a, b, &r) ? r : b < 0 ? INT64_MIN : INT64_MAX;
}
static inline i64 hs_mul_sat_i64(i64 a, i64 b) {
  i64 r;
  return hs_mul_ok(a, b, &r) ? r : (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

// Set by the SIGINT handler and by nothing else; long loops call hs_poll() (diag.h).
extern volatile sig_atomic_t hs_interrupted;

// 64-bit mixing hash used by every table here (not stable across releases, never printed except as
// a fingerprint).
static inline u64 hs_mix(u64 h, u64 v) {
  h ^= v + 0x9E3779B97F4A7C15ull + (h << 6) + (h >> 2);
  h *= 0xFF51AFD7ED558CCDull;
  return h ^ (h >> 32);
}
static inline u64 hs_load64(const void *p) {
  u64 v;
  return memcpy(&v, p, sizeof v), v;
}
static inline u32 hs_load32(const void *p) {
  u32 v;
  return memcpy(&v, p, sizeof v), v;
}
// Both halves of the 128-bit product: one multiplication mixes 16 bytes.
static inline u64 hs_fold(u64 a, u64 b) {
  unsigned __int128 p = (unsigned __int128)a * b;
  return (u64)p ^ (u64)(p >> 64);
}
u64 hs_hash_long_(const u8 *p, size_t n, u64 seed);
// Names and shape spellings mostly have at most 16 bytes: two loads, which may overlap, take them
// whole.
static inline u64 hs_hash_bytes(const void *data, size_t n, u64 seed) {
  const u8 *p = data;
  u64 a = 0, b = 0;
  if (HS_UNLIKELY(n > 16)) return hs_hash_long_(p, n, seed);
  if (n >= 8) a = hs_load64(p), b = hs_load64(p + n - 8);
  else if (n >= 4) a = hs_load32(p), b = hs_load32(p + n - 4);
  else if (n) a = (u64)p[0] << 16 | (u64)p[n / 2] << 8 | p[n - 1];
  return hs_fold(hs_fold(a ^ 0x9E3779B97F4A7C15ull, b ^ 0xE7037ED1A0B428DBull ^ seed) ^ n,
                 0xA0761D6478BD642Full);
}

// memcmp(a, b, n) == 0, in line: names and spellings are short, and a call costs more than the
// comparison.
static inline bool hs_same_bytes(const char *a, const char *b, size_t n) {
  if (n < 8) {
    if (n >= 4) return hs_load32(a) == hs_load32(b) && hs_load32(a + n - 4) == hs_load32(b + n - 4);
    return n == 0 || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
  }
  for (size_t k = 0; k + 8 < n; k += 8)
    if (hs_load64(a + k) != hs_load64(b + k)) return false;
  return hs_load64(a + n - 8) == hs_load64(b + n - 8);
}

// A byte string with a length; `p` is also NUL-terminated when it comes from an arena or the intern
// table.
typedef struct hs_str {
  const char *p;
  size_t n;
} hs_str;
#define HS_STR(lit) ((hs_str){("" lit), sizeof(lit) - 1})
static inline hs_str hs_str_of(const char *s) { return (hs_str){s, s ? strlen(s) : 0}; }
static inline bool hs_str_eq(hs_str a, hs_str b) {
  return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

// Growable arrays. HS_VEC(T) declares the type; the storage is malloc'ed and owned by the vector.
#define HS_VEC(T)  \
  struct {         \
    T *v;          \
    size_t n, cap; \
  }
#define hs_vec_push(vec, x)                                                                       \
  (((vec)->n == (vec)->cap ? (void)((vec)->v = hs_grow_((vec)->v, &(vec)->cap, sizeof *(vec)->v)) \
                           : (void)0),                                                            \
   (vec)->v[(vec)->n++] = (x))
#define hs_vec_pop(vec) ((vec)->v[--(vec)->n])
#define hs_vec_room(vec, count)                        \
  ((vec)->v = hs_room_((vec)->v, &(vec)->cap, (count), \
                       sizeof *(vec)->v))  // for so many in all; what is there may go
#define hs_vec_zeros(vec, count)                                           \
  ((vec)->v = hs_zeros_((vec)->v, &(vec)->cap, (count), sizeof *(vec)->v), \
   (vec)->n = (count))  // that many, cleared
#define hs_vec_free(vec) (hs_free((vec)->v), (vec)->v = NULL, (vec)->n = (vec)->cap = 0)

// malloc that never returns NULL for sizes the program itself chose (it reports and ends the
// process); sizes a file or a user chose go through hs_try_alloc and come back as E_NO_MEMORY.
void *hs_alloc(size_t n);
void *hs_calloc(size_t n, size_t size);
void *hs_calloc_table(size_t n, size_t size);  // as hs_calloc; n * size does not overflow
void *hs_realloc(void *p, size_t n);
void *hs_try_alloc(size_t n);
void hs_free(void *p);
void *hs_grow_(void *p, size_t *cap, size_t elem);
void *hs_room_(void *p, size_t *cap, size_t n, size_t elem);
void *hs_zeros_(void *p, size_t *cap, size_t n, size_t elem);
char *hs_strdup(const char *s);
char *hs_format(const char *fmt, ...) HS_PRINTF(1, 2);  // malloc'ed

// Arena: bump allocation, freed as a whole. Zero-initialised struct is a valid empty arena.
// free room: [at, limit)
typedef struct hs_arena {
  u8 *at, *limit;
  struct hs_arena_block *head;
  size_t given;
} hs_arena;
void *hs_arena_more_(hs_arena *a, size_t n);
// 16-byte aligned, not cleared.
static inline void *hs_arena_alloc(hs_arena *a, size_t n) {
  n = (n + 15) & ~(size_t)15;
  if (HS_UNLIKELY((size_t)(a->limit - a->at) < n || !a->at)) return hs_arena_more_(a, n);
  void *p = a->at;
  a->at += n;
  return p;
}
// cleared
static inline void *hs_arena_zalloc(hs_arena *a, size_t n) {
  return memset(hs_arena_alloc(a, n), 0, n);
}
// about so many bytes will be asked for: one block serves them
void hs_arena_expect(hs_arena *a, size_t n);
void *hs_arena_dup(hs_arena *a, const void *p, size_t n);
char *hs_arena_strndup(hs_arena *a, const char *s, size_t n);
void hs_arena_free(hs_arena *a);
size_t hs_arena_bytes(const hs_arena *a);  // what its blocks take
#define HS_NEW(arena, T) ((T *)hs_arena_zalloc((arena), sizeof(T)))
#define HS_NEW_ARRAY(arena, T, n) ((T *)hs_arena_zalloc((arena), sizeof(T) * (size_t)(n)))

// Growable text buffer: what printers write into. Zero-initialised is valid and empty.
typedef struct hs_buf {
  char *p;
  size_t n, cap;
} hs_buf;
void hs_buf_put(hs_buf *b, const char *s, size_t n);
void hs_buf_puts(hs_buf *b, const char *s);
void hs_buf_putc(hs_buf *b, char c);
void hs_buf_i64(hs_buf *b, i64 v);
void hs_buf_printf(hs_buf *b, const char *fmt, ...) HS_PRINTF(2, 3);
void hs_buf_vprintf(hs_buf *b, const char *fmt, va_list ap);
void hs_buf_free(hs_buf *b);
const char *hs_buf_cstr(hs_buf *b);  // NUL-terminated view, valid until the next put

// Monotonic clock in nanoseconds.
u64 hs_now_ns(void);

#endif
