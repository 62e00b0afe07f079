// emitted.c — the code generator's kernels beside the best that we can write by hand.
//
//   emitted [--threads N] [--seconds S] [NAME...]
//
// Each row is one operation: an HLO instruction or fusion, compiled as the cpu backend does, and a
// kernel with AVX-512 intrinsics, over the same arrays, on the same threads and the same pool, by
// turns. Times are the best of all turns, and the ratio is the hand-written time divided by ours:
// 1 is as fast. A transpose is held against a copy of as many bytes with non-temporal stores, which
// moves the least there is to move. Results are compared. Exit 1 when one differs or a ratio
// misses its aim; without AVX-512 nothing is measured.
#include "backends/cpu/cpu.h"
#include "core/text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if HAVE_LLVM && defined(__x86_64__)
#ifdef __clang__
#include <immintrin.h>
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma")
#include <immintrin.h>
#endif

#define BIG (16 << 20)  // elements: 64 MiB of f32, beyond the last cache
#define SMALL (1 << 15)
#define ROWS 4096
#define COLUMNS 4096

typedef struct arrays {
  const float *x, *y;
  float *r;
  i64 n;
  float *partial;
} arrays;

// ---- by hand ------------------------------------------------------------------------------------
enum { CHUNKS = 64 };

static void copy_big(void *ctx, i64 k, u32 thread) {
  const arrays *a = ctx;
  (void)thread;
  i64 n = a->n / CHUNKS;
  for (i64 i = k * n; i < (k + 1) * n; i += 64) {
    __m512 v[4];
    for (int u = 0; u < 4; u++) v[u] = _mm512_load_ps(a->x + i + 16 * u);
    for (int u = 0; u < 4; u++) _mm512_stream_ps(a->r + i + 16 * u, v[u]);
  }
  _mm_sfence();
}

static void add_big(void *ctx, i64 k, u32 thread) {
  const arrays *a = ctx;
  (void)thread;
  i64 n = a->n / CHUNKS;
  for (i64 i = k * n; i < (k + 1) * n; i += 64) {
    __m512 v[4];
    for (int u = 0; u < 4; u++)
      v[u] = _mm512_add_ps(_mm512_load_ps(a->x + i + 16 * u), _mm512_load_ps(a->y + i + 16 * u));
    for (int u = 0; u < 4; u++) _mm512_stream_ps(a->r + i + 16 * u, v[u]);
  }
  _mm_sfence();
}

static void add_small(void *ctx, i64 k, u32 thread) {
  const arrays *a = ctx;
  (void)thread, (void)k;
  for (i64 i = 0; i < a->n; i += 64) {
    __m512 v[4];
    for (int u = 0; u < 4; u++)
      v[u] = _mm512_add_ps(_mm512_load_ps(a->x + i + 16 * u), _mm512_load_ps(a->y + i + 16 * u));
    for (int u = 0; u < 4; u++) _mm512_store_ps(a->r + i + 16 * u, v[u]);
  }
}

static void sum_all(void *ctx, i64 k, u32 thread) {
  const arrays *a = ctx;
  (void)thread;
  i64 n = a->n / CHUNKS;
  __m512 s[8];
  for (int u = 0; u < 8; u++) s[u] = _mm512_setzero_ps();
  for (i64 i = k * n; i < (k + 1) * n; i += 128)
    for (int u = 0; u < 8; u++) s[u] = _mm512_add_ps(s[u], _mm512_load_ps(a->x + i + 16 * u));
  for (int u = 1; u < 8; u++) s[0] = _mm512_add_ps(s[0], s[u]);
  a->partial[k] = _mm512_reduce_add_ps(s[0]);
}

static void sum_rows(void *ctx, i64 k, u32 thread) {
  const arrays *a = ctx;
  (void)thread;
  for (i64 r = k * (ROWS / CHUNKS); r < (k + 1) * (ROWS / CHUNKS); r++) {
    __m512 s[8];
    for (int u = 0; u < 8; u++) s[u] = _mm512_setzero_ps();
    for (i64 i = r * COLUMNS; i < (r + 1) * COLUMNS; i += 128)
      for (int u = 0; u < 8; u++) s[u] = _mm512_add_ps(s[u], _mm512_load_ps(a->x + i + 16 * u));
    for (int u = 1; u < 8; u++) s[0] = _mm512_add_ps(s[0], s[u]);
    a->r[r] = _mm512_reduce_add_ps(s[0]);
  }
}

// Eight rows at a time are added to the partial sums of all columns.
static void sum_columns(void *ctx, i64 k, u32 thread) {
  const arrays *a = ctx;
  (void)thread;
  float *p = a->partial + k * COLUMNS;
  for (i64 r = k * (ROWS / CHUNKS); r < (k + 1) * (ROWS / CHUNKS); r += 8)
    for (i64 c = 0; c < COLUMNS; c += 16) {
      __m512 s = r == k * (ROWS / CHUNKS) ? _mm512_setzero_ps() : _mm512_load_ps(p + c);
      for (int u = 0; u < 8; u++)
        s = _mm512_add_ps(s, _mm512_load_ps(a->x + (r + u) * COLUMNS + c));
      _mm512_store_ps(p + c, s);
    }
}

static __m512 exp16(__m512 x) {  // for x <= 0, as the exponentials of a softmax
  x = _mm512_max_ps(x, _mm512_set1_ps(-104.5f));
  __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0),
         r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693359375f), x);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), r);
  static const float co[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                             4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  __m512 p = _mm512_set1_ps(co[0]);
  for (int k = 1; k < 6; k++) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(co[k]));
  p = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r), _mm512_set1_ps(1));
  return _mm512_scalef_ps(p, n);
}

#define WIDTH 1024
static void softmax(void *ctx, i64 k, u32 thread) {
  const arrays *a = ctx;
  (void)thread;
  i64 rows = a->n / WIDTH / CHUNKS;
  for (i64 r = k * rows; r < (k + 1) * rows; r++) {
    const float *x = a->x + r * WIDTH;
    float row[WIDTH] __attribute__((aligned(64)));
    __m512 m[4], s[4];
    for (int u = 0; u < 4; u++) m[u] = _mm512_set1_ps(-INFINITY), s[u] = _mm512_setzero_ps();
    for (i64 i = 0; i < WIDTH; i += 64)
      for (int u = 0; u < 4; u++) m[u] = _mm512_max_ps(m[u], _mm512_load_ps(x + i + 16 * u));
    __m512 most = _mm512_set1_ps(
        _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3]))));
    for (i64 i = 0; i < WIDTH; i += 64)
      for (int u = 0; u < 4; u++) {
        __m512 e = exp16(_mm512_sub_ps(_mm512_load_ps(x + i + 16 * u), most));
        s[u] = _mm512_add_ps(s[u], e);
        _mm512_store_ps(row + i + 16 * u, e);
      }
    float sum =
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
    __m512 by = _mm512_set1_ps(sum);
    for (i64 i = 0; i < WIDTH; i += 16)
      _mm512_stream_ps(a->r + r * WIDTH + i, _mm512_div_ps(_mm512_load_ps(row + i), by));
  }
  _mm_sfence();
}

// ---- the table ----------------------------------------------------------------------------------
#define ADD "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
#define MAX \
  "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"

typedef struct row {
  const char *name, *text;
  cpu_par_fn *by_hand;
  i64 chunks, n;   // of the kernel by hand; elements of an operand
  double streams;  // arrays of n elements moved
  double aim;      // least ratio
  u32 operands;
  bool partial;  // the kernel by hand leaves partial sums only
  bool compare;  // both compute the same
} row;

static const row rows[] = {
    {"copy 64 MiB", "ENTRY e { x = f32[16777216] parameter(0)\n ROOT r = f32[16777216] copy(x) }",
     copy_big, CHUNKS, BIG, 2, 0.9, 1, false, true},
    {"add 64 MiB",
     "ENTRY e { x = f32[16777216] parameter(0)\n y = f32[16777216] parameter(1)\n"
     " ROOT r = f32[16777216] add(x, y) }",
     add_big, CHUNKS, BIG, 3, 0.9, 2, false, true},
    {"add 128 KiB",
     "ENTRY e { x = f32[32768] parameter(0)\n y = f32[32768] parameter(1)\n"
     " ROOT r = f32[32768] add(x, y) }",
     add_small, 1, SMALL, 3, 0.9, 2, false, true},
    {"sum of all",
     ADD "ENTRY e { x = f32[16777216] parameter(0)\n z = f32[] constant(0)\n"
         " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add }",
     sum_all, CHUNKS, BIG, 1, 0.9, 1, true, false},
    {"sum of rows",
     ADD "ENTRY e { x = f32[4096,4096] parameter(0)\n z = f32[] constant(0)\n"
         " ROOT r = f32[4096] reduce(x, z), dimensions={1}, to_apply=add }",
     sum_rows, CHUNKS, BIG, 1, 0.9, 1, false, false},
    {"sum of columns",
     ADD "ENTRY e { x = f32[4096,4096] parameter(0)\n z = f32[] constant(0)\n"
         " ROOT r = f32[4096] reduce(x, z), dimensions={0}, to_apply=add }",
     sum_columns, CHUNKS, BIG, 1, 0.9, 1, true, false},
    {"softmax of rows of 1024",
     ADD MAX "f { x = f32[16384,1024] parameter(0)\n n = f32[] constant(-inf)\n"
             " z = f32[] constant(0)\n m = f32[16384] reduce(x, n), dimensions={1}, to_apply=max\n"
             " mb = f32[16384,1024] broadcast(m), dimensions={0}\n"
             " s = f32[16384,1024] subtract(x, mb)\n e = f32[16384,1024] exponential(s)\n"
             " t = f32[16384] reduce(e, z), dimensions={1}, to_apply=add\n"
             " tb = f32[16384,1024] broadcast(t), dimensions={0}\n"
             " ROOT d = f32[16384,1024] divide(e, tb) }\n"
             "ENTRY e { x = f32[16384,1024] parameter(0)\n"
             " ROOT r = f32[16384,1024] fusion(x), kind=kInput, calls=f }",
     softmax, CHUNKS, BIG, 2, 0.9, 1, false, true},
    {"transpose, beside a copy",
     "ENTRY e { x = f32[4096,4096] parameter(0)\n ROOT r = f32[4096,4096] transpose(x), "
     "dimensions={1,0} }",
     copy_big, CHUNKS, BIG, 2, 0.75, 1, false, false},
};

// ---- ours ---------------------------------------------------------------------------------------
typedef struct chunks_of {
  emit_entry *fn;
  void **bufs;
  void *scratch;
} chunks_of;
static void run_chunk(void *ctx, i64 k, u32 thread) {
  const chunks_of *c = ctx;
  (void)thread;
  c->fn(c->bufs, k, c->scratch);
}

static void par(cpu_par_fn *fn, void *ctx, i64 chunks) {
  if (chunks == 1) fn(ctx, 0, 0);
  else if (chunks) cpu_par_for(fn, ctx, chunks);
}

static double seconds(void) { return (double)hs_now_ns() * 1e-9; }

static float *array_of(i64 n) {
  size_t bytes = ((size_t)n * sizeof(float) + (2 << 20)) & ~(size_t)((2 << 20) - 1);
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  (void)madvise(p, bytes, MADV_HUGEPAGE);
  memset(p, 0, bytes);
  return p;
}

static bool measure(const row *w, hlo_ctx *ctx, double budget) {
  static float *x, *y, *r, *want, *scratch;
  if (!x) {
    x = array_of(BIG), y = array_of(BIG), r = array_of(BIG), want = array_of(BIG);
    scratch = array_of(BIG);
    if (!x || !y || !r || !want || !scratch) {
      printf("FAIL %s: no memory\n", w->name);
      return false;
    }
    u32 z = 1;
    for (i64 i = 0; i < BIG; i++) {
      z = z * 1664525 + 1013904223;
      x[i] = (float)(z >> 8) * 0x1p-22f - 2;
      y[i] = -x[i] * 0.5f;
    }
  }
  hlo_module *m = NULL;
  emit_unit *u = NULL;
  const emit_kernel *k = NULL;
  char *text = hs_format("HloModule m\n%s\n", w->text);
  hs_status s = hlo_parse(ctx, text, strlen(text), NULL, &m);
  if (hs_ok(s)) s = emit_unit_new(&(emit_options){.contract = true}, &u);
  if (hs_ok(s)) s = emit_add(u, m->entry->root, &k);
  if (hs_ok(s)) s = emit_finish(u, true, 1, NULL);
  bool good = hs_ok(s);
  if (good) {
    // constants among the operands are never read: the code has them
    float zero[16] = {0};
    void *bufs[4];
    u32 nb = 0, arrays_seen = 0;
    const hlo_instr *root = m->entry->root;
    for (u32 o = 0; o < root->noperands; o++)
      bufs[nb++] = hlo_operand(root, o)->opcode == HLO_CONSTANT ? (void *)zero
                   : arrays_seen++                              ? (void *)y
                                                                : (void *)x;
    bufs[nb] = r;
    chunks_of main_part = {k->fn, bufs, scratch}, finish = {k->finish, bufs, scratch};
    arrays a = {x, y, want, w->n, scratch};
    double ours = 1e9, hand = 1e9, end = seconds() + budget;
    int turns = 0, repeat = w->n <= SMALL ? 200 : 1;
    do {
      double t0 = seconds();
      for (int i = 0; i < repeat; i++) par(w->by_hand, &a, w->chunks);
      double t1 = seconds();
      for (int i = 0; i < repeat; i++) {
        par(run_chunk, &main_part, k->chunks);
        par(run_chunk, &finish, k->finish_chunks);
      }
      double t2 = seconds();
      hand = HS_MIN(hand, (t1 - t0) / repeat);
      ours = HS_MIN(ours, (t2 - t1) / repeat);
    } while (++turns < 5 || seconds() < end);
    double gb = w->streams * (double)w->n * 4e-9, ratio = hand / ours;
    bool same = true;
    for (i64 i = 0; w->compare && i < w->n && same; i++)
      same = fabsf(r[i] - want[i]) <= 1e-6f * fmaxf(fabsf(want[i]), 1e-3f);
    good = same && ratio >= w->aim;
    printf("%-26s %9.4f ms %6.1f GB/s   by hand %9.4f ms %6.1f GB/s   %5.2f%s%s\n", w->name,
           ours * 1e3, gb / ours, hand * 1e3, gb / hand, ratio, same ? "" : "  FAIL differs",
           ratio >= w->aim ? "" : "  below its aim");
  } else {
    hs_buf b = {0};
    hs_status_render(s, &b, false);
    printf("FAIL %s: %s\n", w->name, hs_buf_cstr(&b));
    hs_buf_free(&b);
  }
  emit_unit_free(u);
  hlo_module_free(m);
  hs_free(text);
  return good;
}

int main(int argc, char **argv) {
  u32 threads = 0;
  double budget = 1;
  int first = 1;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    if (!strcmp(argv[first], "--threads")) threads = (u32)strtoul(argv[first + 1], NULL, 10);
    else if (!strcmp(argv[first], "--seconds")) budget = strtod(argv[first + 1], NULL);
    else break;
  }
  if (first < argc && argv[first][0] == '-') {
    (void)fprintf(stderr, "usage: kernels [--threads N] [--seconds S] [NAME...]\n");
    return 2;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq")) {
    printf("SKIP kernels: the kernels by hand need AVX-512\n");
    return 0;
  }
  hlo_ctx *ctx = hlo_ctx_new();
  bool good = true;
  cpu_par_begin(threads);
  for (size_t k = 0; k < HS_COUNT(rows); k++) {
    bool wanted = first >= argc;
    for (int a = first; a < argc; a++) wanted |= strstr(rows[k].name, argv[a]) != NULL;
    if (wanted) good &= measure(&rows[k], ctx, budget);
  }
  cpu_par_end();
  hlo_ctx_free(ctx);
  return good ? 0 : 1;
}

#ifdef __clang__
#pragma clang attribute pop
#endif
#else
int main(void) {
  puts("SKIP kernels: the code generator or the kernels by hand are not in this build");
  return 0;
}
#endif
