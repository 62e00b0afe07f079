// layout.c — layouts: the strides of a shape, whether two shapes have the same element order, and
// copies from one order to another.
//
// The copy drops dims of extent 1, takes the others in the order of the destination, merges those
// that are contiguous on both sides, and does the two innermost in blocks, the one where the source
// has neighbours among them, so that a transpose uses whole cache lines of both sides; elements of
// 4 and 8 bytes are turned in registers; large ones run in parallel over the outermost dim.
#include "backends/cpu/rt/rt.h"

// ---- strides ------------------------------------------------------------------------------------

void cpu_strides(const hlo_shape *s, i64 *strides) {
  if (!s->layout) {
    hlo_row_major_strides(s->rank, s->dims, strides);
    return;
  }
  i64 step = 1;
  for (u32 k = 0; k < s->rank; k++) {
    i64 d = s->layout->minor_to_major[k];
    strides[d] = step;
    step *= s->dims[d];
  }
}

bool cpu_same_order(const hlo_shape *a, const hlo_shape *b) {
  if (a->rank != b->rank || a->elements != b->elements) return false;
  i64 sa[HLO_MAX_RANK], sb[HLO_MAX_RANK];
  cpu_strides(a, sa);
  cpu_strides(b, sb);
  for (u32 d = 0; d < a->rank; d++)
    if (a->dims[d] != b->dims[d] || (a->dims[d] > 1 && sa[d] != sb[d])) return false;
  return true;
}

bool cpu_same_bytes(const hlo_shape *a, const hlo_shape *b) {
  if (a == b || (hlo_shape_is_row_major(a) && hlo_shape_is_row_major(b))) return true;
  return a->logical == b->logical && cpu_same_order(a, b);
}

// ---- transposes in registers --------------------------------------------------------------------

typedef u32 v4u32 __attribute__((vector_size(16), aligned(1), may_alias));
typedef u32 v8u32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef u64 v4u64 __attribute__((vector_size(32), aligned(1), may_alias));

// to[k][lane] = from[lane][k] for 8 lanes; strides in bytes and, of `to`, in units.
__attribute__((target_clones("default", "avx2"))) static void turn_8x32(u32 *to, i64 step,
                                                                        const char *from, i64 lane,
                                                                        i64 n) {
  i64 k = 0;
  for (; k + 8 <= n; k += 8) {
    v8u32 r[8], s[8];
    for (int i = 0; i < 8; i++) r[i] = *(const v8u32 *)(const void *)(from + i * lane + 4 * k);
    for (int i = 0; i < 8; i += 2) {
      s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
      s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
      r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
      r[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
      s[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
      s[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i++) *(v8u32 *)(to + (k + i) * step) = s[i];
  }
  for (; k < n; k++)
    for (int i = 0; i < 8; i++) memcpy(to + k * step + i, from + i * lane + 4 * k, 4);
}

__attribute__((target_clones("default", "avx2"))) static void turn_4x64(u64 *to, i64 step,
                                                                        const char *from, i64 lane,
                                                                        i64 n) {
  i64 k = 0;
  for (; k + 4 <= n; k += 4) {
    v4u64 r[4], s[4];
    for (int i = 0; i < 4; i++) r[i] = *(const v4u64 *)(const void *)(from + i * lane + 8 * k);
    for (int i = 0; i < 4; i += 2) {
      s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 4, 2, 6);
      s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 5, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
      *(v4u64 *)(to + (k + i) * step) = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 4, 5);
      *(v4u64 *)(to + (k + i + 2) * step) = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 6, 7);
    }
  }
  for (; k < n; k++)
    for (int i = 0; i < 4; i++) memcpy(to + k * step + i, from + i * lane + 8 * k, 8);
}

// 4 lanes of 32 bits.
static void turn_4x32(u32 *to, i64 step, const char *from, i64 lane, i64 n) {
  i64 k = 0;
  for (; k + 4 <= n; k += 4) {
    v4u32 r[4], s[4];
    for (int i = 0; i < 4; i++) r[i] = *(const v4u32 *)(const void *)(from + i * lane + 4 * k);
    for (int i = 0; i < 4; i += 2) {
      s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 4, 1, 5);
      s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
      *(v4u32 *)(to + (k + 2 * i) * step) = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 4, 5);
      *(v4u32 *)(to + (k + 2 * i + 1) * step) = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 6, 7);
    }
  }
  for (; k < n; k++)
    for (int i = 0; i < 4; i++) memcpy(to + k * step + i, from + i * lane + 4 * k, 4);
}

void cpu_turn(char *to, i64 step, const char *from, i64 lane, i64 count, i64 n, size_t unit) {
  i64 l = 0;
  for (; unit == 4 && l + 8 <= count; l += 8)
    turn_8x32((u32 *)(void *)to + l, step, from + l * lane, lane, n);
  for (; unit == 4 && l + 4 <= count; l += 4)
    turn_4x32((u32 *)(void *)to + l, step, from + l * lane, lane, n);
  for (; unit == 8 && l + 4 <= count; l += 4)
    turn_4x64((u64 *)(void *)to + l, step, from + l * lane, lane, n);
    // lanes that are left; of a size that is known, a copy is one instruction
#define LEFT(SIZE)                         \
  for (; unit == (SIZE) && l < count; l++) \
    for (i64 k = 0; k < n; k++)            \
  memcpy(to + (size_t)(k * step + l) * (SIZE), from + l * lane + k * (i64)(SIZE), (SIZE))
  LEFT(4);
  LEFT(8);
  LEFT(unit);
#undef LEFT
}

// ---- relayout: strided copy ---------------------------------------------------------------------

typedef struct relayout_job {
  char *dst;
  const char *src;
  u32 rank;
  // strides in elements, outermost first
  i64 dims[HLO_MAX_RANK], ds[HLO_MAX_RANK], ss[HLO_MAX_RANK];
  size_t elem;
} relayout_job;

// Copies the dims from `d` on. The two innermost are done in blocks, so that neither side is
// traversed with a long stride for more than a block.
static void relayout_inner(const relayout_job *j, u32 d, i64 dst, i64 src) {
  enum { B = 32 };
  u32 left = j->rank - d;
  if (left > 2) {
    for (i64 k = 0; k < j->dims[d]; k++)
      relayout_inner(j, d + 1, dst + k * j->ds[d], src + k * j->ss[d]);
    return;
  }
  i64 n = left == 2 ? j->dims[d] : 1, m = left ? j->dims[j->rank - 1] : 1;
  i64 dn = left == 2 ? j->ds[d] : 0, sn = left == 2 ? j->ss[d] : 0,
      dm = left ? j->ds[j->rank - 1] : 0, sm = left ? j->ss[j->rank - 1] : 0;
  if (dm == 1 && sm == 1) {
    for (i64 a = 0; a < n; a++)
      memcpy(j->dst + (size_t)(dst + a * dn) * j->elem, j->src + (size_t)(src + a * sn) * j->elem,
             (size_t)m * j->elem);
    return;
  }
  if (dm == 1 && sn == 1 && (j->elem == 4 || j->elem == 8)) {
    for (i64 a = 0; a < n; a += B)
      for (i64 b = 0; b < m; b += B)
        cpu_turn(j->dst + (size_t)(dst + a * dn + b) * j->elem, dn,
                 j->src + (size_t)(src + a + b * sm) * j->elem, sm * (i64)j->elem, HS_MIN(m - b, B),
                 HS_MIN(n - a, B), j->elem);
    return;
  }
#define BLOCKS(T)                                    \
  for (i64 a0 = 0; a0 < n; a0 += B)                  \
    for (i64 b0 = 0; b0 < m; b0 += B)                \
      for (i64 a = a0; a < HS_MIN(n, a0 + B); a++)   \
        for (i64 b = b0; b < HS_MIN(m, b0 + B); b++) \
          ((T *)j->dst)[dst + a * dn + b * dm] = ((const T *)j->src)[src + a * sn + b * sm];
  typedef struct {
    u64 v[2];
  } wide;
  switch (j->elem) {
  case 1: BLOCKS(u8) break;
  case 2: BLOCKS(u16) break;
  case 4: BLOCKS(u32) break;
  case 8: BLOCKS(u64) break;
  default: BLOCKS(wide) break;
  }
#undef BLOCKS
}

// A chunk: `rows` of the outermost dim.
typedef struct relayout_rows {
  const relayout_job *j;
  i64 rows;
} relayout_rows;

static void relayout_chunk(void *ctx, i64 k, u32 thread) {
  (void)thread;
  const relayout_rows *r = ctx;
  relayout_job part = *r->j;
  i64 first = k * r->rows;
  part.dims[0] = HS_MIN(r->rows, part.dims[0] - first);
  relayout_inner(&part, 0, first * part.ds[0], first * part.ss[0]);
}

static i64 magnitude(i64 v) { return v < 0 ? -v : v; }

static void insert_dim(relayout_job *j, u32 at, i64 dim, i64 ds, i64 ss) {
  for (u32 k = j->rank++; k > at; k--) {
    j->dims[k] = j->dims[k - 1];
    j->ds[k] = j->ds[k - 1];
    j->ss[k] = j->ss[k - 1];
  }
  j->dims[at] = dim;
  j->ds[at] = ds;
  j->ss[at] = ss;
}

// Merges dims with the one before where both sides are contiguous across the border.
static void merge_dims(relayout_job *j) {
  u32 n = 0;
  for (u32 d = 0; d < j->rank; d++) {
    i64 dim = j->dims[d], ds = j->ds[d], ss = j->ss[d];
    if (n && j->ds[n - 1] == ds * dim && j->ss[n - 1] == ss * dim) dim *= j->dims[--n];
    j->dims[n] = dim;
    j->ds[n] = ds;
    j->ss[n++] = ss;
  }
  j->rank = n;
}

// The dim with the source's nearest elements comes last but one, unless it is the last.
static void pair_dims(relayout_job *j) {
  u32 best = j->rank - 1;
  for (u32 d = 0; d + 1 < j->rank; d++)
    if (magnitude(j->ss[d]) < magnitude(j->ss[best])) best = d;
  if (best + 2 >= j->rank) return;
  i64 dim = j->dims[best], ds = j->ds[best], ss = j->ss[best];
  j->rank--;
  for (u32 d = best; d < j->rank; d++) {
    j->dims[d] = j->dims[d + 1];
    j->ds[d] = j->ds[d + 1];
    j->ss[d] = j->ss[d + 1];
  }
  insert_dim(j, j->rank - 1, dim, ds, ss);
}

void cpu_relayout(void *dst, const i64 *dst_strides, const void *src, const i64 *src_strides,
                  u32 rank, const i64 *dims, size_t elem) {
  enum { LARGE = 256 << 10, CHUNK = 64 << 10, ROWS = 32 };  // bytes, and rows of a block
  relayout_job j = {.dst = dst, .src = src, .elem = elem};
  i64 total = 1;
  for (u32 d = 0; d < rank; d++) {
    total *= dims[d];
    if (dims[d] == 1) continue;
    u32 at = j.rank;
    while (at > 0 && magnitude(j.ds[at - 1]) < magnitude(dst_strides[d])) at--;
    insert_dim(&j, at, dims[d], dst_strides[d], src_strides[d]);
  }
  if (total == 0) return;
  merge_dims(&j);
  if (j.rank > 2) pair_dims(&j);
  if ((size_t)total * elem <= LARGE) {
    relayout_inner(&j, 0, 0, 0);
    return;
  }
  i64 row = total / j.dims[0] * (i64)elem;
  relayout_rows r = {&j, (CHUNK + row - 1) / row};
  if (j.rank <= 2) r.rows = (r.rows + ROWS - 1) / ROWS * ROWS;
  cpu_par_for(relayout_chunk, &r, (j.dims[0] + r.rows - 1) / r.rows);
}
