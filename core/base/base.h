// base.h — what every other file includes: integer names, assertions, checked arithmetic,
// hashing, strings with a length, growable arrays, arenas, text buffers, the clock and interrupts.
//
// Three classes of failure, never mixed:
//   1. what a user or a file can cause: hs_status (diag.h), returned by value and must-use;
//   2. a bug of ours: HS_ASSERT, HS_ALWAYS, HS_NEVER below and HS_REQUIRE (diag.h). They trap in
//      builds for finding faults; a release build takes the safe path and goes on;
//   3. foreign code that dies (LLVM, compiled kernels, Graphviz): it runs in a child process
//      (backends/worker.h, viz/render.h).
//
// Nothing here has state that two contexts could share: memory is recycled in pools that a context
// owns, and the flag that interrupts a thread is chosen per thread.
#ifndef HLO_BASE_H
#define HLO_BASE_H

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
typedef __int128 i128;  // sums and products of any two i64

#if defined(__clang__)
#define HS_MUST_USE __attribute__((warn_unused_result))
#else
#define HS_MUST_USE [[nodiscard]]
#endif
#define HS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define HS_UNUSED __attribute__((unused))
// of what has large arrays, beside functions that call themselves
#define HS_NOINLINE __attribute__((noinline))
#define HS_LIKELY(x) __builtin_expect(!!(x), 1)
#define HS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HS_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HS_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HS_MAX(a, b) ((a) > (b) ? (a) : (b))

// Statements about our own code, after SQLite's ALWAYS and NEVER. HS_CHECKED is 1 in the builds for
// finding faults (debug, asan, fuzz); there a wrong statement traps. In release
//   HS_ASSERT(x)             is not evaluated: for what needs no second line of defence;
//   HS_ALWAYS(x), HS_NEVER(x) have the value of x: the code handles the impossible case as well,
//                             if (HS_NEVER(n > cap)) return false;
#ifndef HS_CHECKED
#define HS_CHECKED 0
#endif
#if HS_CHECKED
#define HS_ASSERT(x) ((x) ? (void)0 : __builtin_trap())
#define HS_ALWAYS(x) ((x) ? true : (__builtin_trap(), false))
#define HS_NEVER(x) ((x) ? (__builtin_trap(), true) : false)
#else
#define HS_ASSERT(x) ((void)sizeof(!(x)))
#define HS_ALWAYS(x) HS_LIKELY(x)
#define HS_NEVER(x) HS_UNLIKELY(x)
#endif

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

// Stops. A thread watches at most one flag, which says why work is to stop; 0: it goes on. While it
// is set, long loops end with the status of that reason (hs_poll, diag.h). The owner of the flag
// sets it, from a signal handler, say, or a timer's, and clears it before the next piece of work;
// hs_stop_raise sets it from within the work. A thread begins without a flag, and one that is
// started to help another takes over the starter's. NULL: nothing stops it.
typedef enum hs_stop { HS_STOP_NONE, HS_STOP_INTERRUPT, HS_STOP_DEADLINE, HS_STOP_MEMORY } hs_stop;
typedef volatile sig_atomic_t hs_interrupt;  // of hs_stop
extern _Thread_local hs_interrupt *hs_interrupt_;
static inline void hs_interrupt_watch(hs_interrupt *flag) { hs_interrupt_ = flag; }
static inline hs_interrupt *hs_interrupt_watched(void) { return hs_interrupt_; }
// The reason; HS_STOP_NONE while work goes on.
static inline hs_stop hs_stop_reason(void) {
  hs_interrupt *flag = hs_interrupt_;
  return HS_UNLIKELY(flag) ? (hs_stop)__atomic_load_n(flag, __ATOMIC_RELAXED) : HS_STOP_NONE;
}
static inline bool hs_interrupted(void) { return HS_UNLIKELY(hs_stop_reason() != HS_STOP_NONE); }
// Whether a loop without a status that has come to element `at` is to stop: asked now and then, so
// that cheap steps stay cheap. Its caller polls afterwards.
static inline bool hs_stops(i64 at) { return (at & 0xffff) == 0 && hs_interrupted(); }
// Sets the flag that this thread watches, unless it is set already: the first reason counts.
void hs_stop_raise(hs_stop why);

// The hash that every table here uses: one value mixed into a running hash h. Not stable across
// releases, printed only as a fingerprint.
static inline u64 hs_mix(u64 h, u64 v) {
  h ^= v + 0x9E3779B97F4A7C15ull + (h << 6) + (h >> 2);
  h *= 0xFF51AFD7ED558CCDull;
  return h ^ (h >> 32);
}
// Loads at any alignment, in the machine's byte order.
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
// Hash of n bytes. Names and the texts of shapes mostly have at most 16: two loads, which may
// overlap, cover them.
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

// memcmp(a, b, n) == 0, inline: names are short, and a call costs more than the comparison.
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

// Growable arrays. HS_VEC(T) declares the type; zero-initialised is valid and empty. The storage is
// malloc'ed, belongs to the vector and moves when it grows.
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
// Room for `count` elements in all; those that were there are lost.
#define hs_vec_room(vec, count) \
  ((vec)->v = hs_room_((vec)->v, &(vec)->cap, (count), sizeof *(vec)->v))
// Exactly `count` elements, all zero.
#define hs_vec_zeros(vec, count) \
  ((vec)->v = hs_zeros_((vec)->v, &(vec)->cap, (count), sizeof *(vec)->v), (vec)->n = (count))
#define hs_vec_free(vec) (hs_free((vec)->v), (vec)->v = NULL, (vec)->n = (vec)->cap = 0)
void *hs_grow_(void *p, size_t *cap, size_t elem);
void *hs_room_(void *p, size_t *cap, size_t n, size_t elem);
void *hs_zeros_(void *p, size_t *cap, size_t n, size_t elem);

// Memory whose size follows from what is in memory already: never NULL. When the system has none
// left, the reserve serves the request and HS_STOP_MEMORY is raised, so that the work ends with
// E_NO_MEMORY at its next poll; when the reserve is used up too, the process says so and ends.
// Sizes that a file, a shape or a user chose go through hs_try_alloc, which may return NULL, and
// become E_NO_MEMORY by hs_fail; HS_CHECKED builds trap when hs_alloc is asked for more than
// HS_CHOSEN bytes and more than twice what is held. hs_free takes all of them, and NULL.
void *hs_alloc(size_t n);
void *hs_calloc(size_t n, size_t size);  // zeros
// As hs_calloc, in huge pages when large: for tables read at random. n * size must not overflow.
void *hs_calloc_table(size_t n, size_t size);
void *hs_realloc(void *p, size_t n);
void *hs_try_alloc(size_t n);
void *hs_try_calloc(size_t n, size_t size);
void *hs_alloc_or_stop(size_t n);         // NULL, and HS_STOP_MEMORY is raised
void *hs_try_realloc(void *p, size_t n);  // NULL: p stays as it was
void hs_free(void *p);
void *hs_alloc_block_(size_t n);
char *hs_strdup(const char *s);
char *hs_format(const char *fmt, ...) HS_PRINTF(1, 2);  // the caller frees the text
#define HS_CHOSEN ((size_t)16 << 20)

// The limit on all that is held by the functions above, by arenas and by what hs_memory_take
// counts; 0: none. Above it hs_try_alloc returns NULL, and hs_alloc raises HS_STOP_MEMORY.
void hs_memory_limit(size_t bytes);
size_t hs_memory_used(void);
bool hs_memory_tight(void);  // more than half of the limit is held
// Before each piece of work: refills the reserve, which is at least so large, where it was drawn on
// or what is held has grown, and allows a few megabytes beyond a limit that is exceeded already.
void hs_memory_ready(size_t least);
// Counts a mapping of n bytes; false, and it is not to be made, above the limit.
bool hs_memory_take(size_t n);
void hs_memory_give(size_t n);
// The latest refusal, for messages. limit: 0 when the system refused.
typedef struct hs_memory {
  size_t asked, used, limit;
} hs_memory;
hs_memory hs_memory_refused(void);
// What this process may have in all: of the machine's memory, its control group's limit (less what
// other processes of ours need) and the limit of the address space, the least.
size_t hs_memory_machine(void);
// What the system has to give now, to this process or a child of it.
size_t hs_memory_free(void);

// Arena: allocation by moving a pointer, freed as a whole. Zero-initialised is valid and empty; the
// free bytes are [at, limit) of the newest block. With a pool, large blocks come from it and go
// back to it, otherwise from and to the kernel.
typedef struct hs_arena {
  u8 *at, *limit;
  struct hs_arena_block *head;  // newest first
  size_t given;                 // bytes in blocks so far; sets the size of the next
  struct hs_arena_pool *pool;   // NULL: none; outlives the arena
} hs_arena;
// Large blocks waiting for their next arena: every pass has a scratch arena, and clearing pages
// fresh from the kernel costs more than most passes take. A context owns one (hlo_ctx_pool), and
// one thread at a time uses it, as with the context. Zero-initialised is valid and empty.
typedef struct hs_arena_pool {
  struct hs_arena_block *first;
  size_t bytes;  // held now
} hs_arena_pool;
void hs_arena_pool_free(hs_arena_pool *);

void *hs_arena_more_(hs_arena *a, size_t n);
// Under AddressSanitizer a gap that nobody may touch follows each allocation, as malloc has it.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)  // clang's name for it
#define HS_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HS_ASAN 1
#endif
#ifdef HS_ASAN
#include <sanitizer/asan_interface.h>
#define HS_ARENA_GAP 16
#define HS_POISON(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define HS_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define HS_ARENA_GAP 0
#define HS_POISON(p, n) ((void)0)
#define HS_UNPOISON(p, n) ((void)0)
#endif
// n bytes at an address that is a multiple of 16, not cleared.
static inline void *hs_arena_alloc(hs_arena *a, size_t n) {
  size_t room = (n + HS_ARENA_GAP + 15) & ~(size_t)15;
  void *p = a->at;
  if (HS_UNLIKELY((size_t)(a->limit - a->at) < room || !a->at)) p = hs_arena_more_(a, room);
  else a->at += room;
  HS_UNPOISON(p, n);
  return p;
}
// The same, cleared.
static inline void *hs_arena_zalloc(hs_arena *a, size_t n) {
  return memset(hs_arena_alloc(a, n), 0, n);
}
// About n bytes will be asked for: one block serves them.
void hs_arena_expect(hs_arena *a, size_t n);
void *hs_arena_dup(hs_arena *a, const void *p, size_t n);      // a copy of n bytes
char *hs_arena_strndup(hs_arena *a, const char *s, size_t n);  // n bytes and a NUL
void hs_arena_free(hs_arena *a);                               // empty again; keeps its pool
size_t hs_arena_bytes(const hs_arena *a);                      // bytes of its blocks
#define HS_NEW(arena, T) ((T *)hs_arena_zalloc((arena), sizeof(T)))
#define HS_NEW_ARRAY(arena, T, n) ((T *)hs_arena_zalloc((arena), sizeof(T) * (size_t)(n)))

// Growable text buffer: what printers write into. Zero-initialised is valid and empty; p[0..n) is
// the text, malloc'ed, without a NUL until hs_buf_cstr is asked for one. A large text that cannot
// grow ends there and raises HS_STOP_MEMORY: who sends a text to where it stays polls first.
typedef struct hs_buf {
  char *p;
  size_t n, cap;
} hs_buf;
void hs_buf_put(hs_buf *b, const char *s, size_t n);
void hs_buf_puts(hs_buf *b, const char *s);
void hs_buf_putc(hs_buf *b, char c);
void hs_buf_i64(hs_buf *b, i64 v);  // decimal
void hs_buf_printf(hs_buf *b, const char *fmt, ...) HS_PRINTF(2, 3);
void hs_buf_vprintf(hs_buf *b, const char *fmt, va_list ap);
void hs_buf_free(hs_buf *b);         // empty again
const char *hs_buf_cstr(hs_buf *b);  // NUL-terminated view, valid until the next put

// Monotonic clock in nanoseconds.
u64 hs_now_ns(void);

#endif
