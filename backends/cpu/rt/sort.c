// sort.c — sort.
//
// The comparator is analysed when the program is prepared. When it compares the operands' elements
// one after the other (core/analysis/sort_keys.h), the elements become order-preserving unsigned
// keys, and sorting is a stable least-significant-digit radix sort of (key, index), from the last
// key to the first. A single operand is sorted as keys alone, where no two different elements have
// the same one. Any other comparator is compiled, or interpreted (scalar.c) without the emitter,
// and called by a stable merge sort.
//
// Lines are sorted independently and in parallel; a few long lines one after the other, by all
// threads together: each counts and moves a part of the line. How many there are makes no
// difference, because there is only one stable order. Where no reader wants more than the first few
// of each line, the others are left out (order.c).
//
// A long line of neighbours is divided first: all operands go to their results by a digit of the
// first key. What is in a bin is then a short line, and is sorted where it lies, in memory of a
// thread that the second cache holds. So the line needs no memory of its own, unless most of it is
// in one bin.
#include <math.h>
#include <stdlib.h>

#include "backends/cpu/rt/scalar.h"
#include "core/analysis/sort_keys.h"

enum {
  LONG = 65536,  // elements of a line that all threads sort together
  SHORT = 64,    // that are merged
  BINS = CPU_RADIX_BINS,
  BIN_GROUP = 16,       // bins of a divided line that one task sorts
  BIN_BYTES = 1 << 20,  // of a bin's space that a thread has memory for
  DIGIT = 11,           // bits
};

typedef struct sorter {
  u32 n;  // operands
  hlo_dtype type[64];
  // extent and stride of the sorted dim; line l starts at l / inner * len * inner + l % inner
  i64 len, lines, inner;
  i64 wanted;  // elements of a line that somebody reads
  u32 nkeys;   // 0: comparator
  hlo_sort_key key[HLO_SORT_KEYS];
  cpu_scalar *cmp;
  cpu_lanes lanes;
  bool whole;     // a line at a time, by all threads
  size_t record;  // bytes of what is sorted
} sorter;

// Whether its lines are divided by a digit of the first key, into the results.
static bool is_divided(const sorter *s) { return s->whole && s->inner == 1; }

bool cpu_sort_supports(const hlo_instr *i) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  if (!c || i->noperands == 0 || i->noperands > 64) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k)->shape->elements >= (i64)UINT32_MAX) return false;
  sorter s = {0};
  s.nkeys = hlo_sort_keys(c, s.key);
  if (s.nkeys || cpu_scalar_ok(c)) return true;
  cpu_lanes l;
  bool compiles = cpu_lanes_make(c, 1, &l);
  cpu_lanes_free(&l);
  return compiles;
}

// ---- keys ---------------------------------------------------------------------------------------

static int key_bits(hlo_dtype t) { return HS_MAX(hlo_dtype_bits(t), 8); }
static u64 flipped(const sorter *s, const hlo_sort_key *k) {
  int bits = key_bits(s->type[k->operand]);
  return k->descending ? (bits == 64 ? ~(u64)0 : ((u64)1 << bits) - 1) : 0;
}

// A digit of the first key of n neighbours from `at` on.
static void digits_of(const sorter *s, const char *line, i64 at, i64 n, int shift, u32 *out) {
  const hlo_sort_key *k = &s->key[0];
  const hlo_dtype t = s->type[k->operand];
  const size_t e = hlo_dtype_storage(t);
  const u64 flip = flipped(s, k);
  const char *p = line + (size_t)at * e;
  if (key_bits(t) <= 32) {
    cpu_narrow_keys(t, k->canonical, (u32)flip, p, e, n, out);
    for (i64 j = 0; j < n; j++) out[j] = out[j] >> shift & (BINS - 1);
  } else
    for (i64 j = 0; j < n; j++)
      out[j] =
          (u32)((cpu_order_key(t, p + (size_t)j * e, k->canonical) ^ flip) >> shift) & (BINS - 1);
}

// Whether two elements that differ may have the same key: then keys alone do not tell them apart.
static bool ambiguous(hlo_dtype t, const char *p, i64 n) {
  bool found = false;
  if (t == HLO_F32)
    for (i64 k = 0; k < n; k++) {
      u32 b;
      memcpy(&b, p + 4 * k, 4);
      found |= b == 0x80000000u || (b & 0x7fffffffu) > 0x7f800000u;
    }
  return found;
}

// The element of a key.
static u32 element_of(hlo_dtype t, u32 k) {
  if (t == HLO_U32) return k;
  if (t == HLO_S32) return k ^ 0x80000000u;
  return k & 0x80000000u ? k ^ 0x80000000u : ~k;
}

static bool keys_alone(const sorter *s) {
  hlo_dtype t = s->type[0];
  return s->n == 1 && s->nkeys == 1 && s->inner == 1 &&
         (t == HLO_F32 || t == HLO_S32 || t == HLO_U32);
}

// ---- any comparator -----------------------------------------------------------------------------

// step: bytes between elements of a line
typedef struct by_cmp {
  const sorter *s;
  char *const *line;
  size_t step[64];
} by_cmp;

static bool less(const by_cmp *c, u32 x, u32 y) {
  _Alignas(64) char tmp[129][64];
  const sorter *s = c->s;
  void *p[129];
  for (u32 k = 0; k < s->n; k++) {
    size_t e = hlo_dtype_storage(s->type[k]);
    memcpy(p[2 * k] = tmp[2 * k], c->line[k] + x * c->step[k], e);
    memcpy(p[2 * k + 1] = tmp[2 * k + 1], c->line[k] + y * c->step[k], e);
  }
  p[2 * s->n] = tmp[2 * s->n];
  if (s->lanes.instr) cpu_lanes_run(&s->lanes, p);
  else cpu_scalar_run(s->cmp, (const void *const *)p, p + 2 * s->n);
  return tmp[2 * s->n][0];
}

// Stable merge sort of indices under the comparator.
static void merge_indices(const by_cmp *c, u32 *a, u32 *t, i64 n) {
  for (i64 w = 1; w < n; w *= 2) {
    for (i64 lo = 0; lo < n; lo += 2 * w) {
      i64 mid = HS_MIN(lo + w, n), hi = HS_MIN(lo + 2 * w, n), x = lo, y = mid, z = lo;
      while (x < mid && y < hi) {
        if (less(c, a[y], a[x])) t[z++] = a[y++];
        else t[z++] = a[x++];
      }
      while (x < mid) t[z++] = a[x++];
      while (y < hi) t[z++] = a[y++];
    }
    memcpy(a, t, (size_t)n * sizeof *a);
  }
}

// ---- lines --------------------------------------------------------------------------------------

// A line being sorted, by one thread or by all: `parts`. A bin of a divided line is one, too.
typedef struct line {
  const sorter *s;
  i64 len, wanted;  // at first those of the sorter
  size_t record;
  int rest;  // bits of the first key in which elements may differ
  char *in[64], *out[64];
  char *space;  // two times len records; of keys alone len, see sort_keys_alone
  u32 *perm;    // at the end of it, see perm_in
  u32 *count;
  i64 parts;
  u32 at;    // the key or operand whose turn it is
  bool odd;  // set by any thread that found an ambiguous element
} line;

static void whole_line(cpu_par_fn *fn, line *l) {
  if (l->parts == 1) fn(l, 0, 0);
  else cpu_par_for(fn, l, l->parts);
}

static i64 part_from(const line *l, i64 part) { return l->len * part / l->parts; }

static void part_of(const line *l, i64 part, i64 *lo, i64 *hi) {
  *lo = part_from(l, part);
  *hi = part_from(l, part + 1);
}

// Records of a part for key `at`, in the order of the permutation, if there is one already.
static void make_records(void *ctx, i64 part, u32 thread) {
  (void)thread;
  line *l = ctx;
  const sorter *s = l->s;
  const hlo_sort_key *key = &s->key[l->at];
  hlo_dtype t = s->type[key->operand];
  bool first = l->at + 1 == s->nkeys;
  size_t e = hlo_dtype_storage(t), step = e * (size_t)s->inner;
  const char *p = l->in[key->operand];
  u64 flip = flipped(s, key);
  i64 lo, hi;
  part_of(l, part, &lo, &hi);
  if (l->record == 4) {
    if (key->canonical && ambiguous(t, p + lo * 4, hi - lo))
      __atomic_store_n(&l->odd, true, __ATOMIC_RELAXED);
    cpu_narrow_keys(t, key->canonical, (u32)flip, p + lo * 4, 4, hi - lo, (u32 *)l->space + lo);
    return;
  }
  for (i64 k = lo; k < hi;) {
    u32 keys[256];
    i64 n = HS_MIN(hi - k, (i64)256);
    if (l->record == 8 && first) {
      cpu_narrow_keys(t, key->canonical, (u32)flip, p + (size_t)k * step, step, n, keys);
      u64 *a = (u64 *)(void *)l->space + k;
      for (i64 j = 0; j < n; j++) a[j] = (u64)keys[j] << 32 | (u64)(k + j);
    } else
      for (i64 j = k; j < k + n; j++) {
        u32 from = first ? (u32)j : l->perm[j];
        u64 v = cpu_order_key(t, p + from * step, key->canonical) ^ flip;
        if (l->record == 8) ((u64 *)(void *)l->space)[j] = v << 32 | from;
        else ((cpu_item *)(void *)l->space)[j] = (cpu_item){v, from};
      }
    k += n;
  }
}

static void take_order(void *ctx, i64 part, u32 thread) {
  (void)thread;
  line *l = ctx;
  i64 lo, hi;
  part_of(l, part, &lo, &hi);
  for (i64 k = lo; k < hi; k++)
    l->perm[k] = l->record == 8 ? (u32)((u64 *)(void *)l->space)[k]
                                : ((cpu_item *)(void *)l->space)[k].index;
}

static void write_elements(void *ctx, i64 part, u32 thread) {
  (void)thread;
  line *l = ctx;
  i64 lo, hi;
  part_of(l, part, &lo, &hi);
  u32 flip = (u32)flipped(l->s, &l->s->key[0]), *out = (u32 *)(void *)l->out[0];
  for (i64 k = lo; k < hi; k++)
    out[k] = element_of(l->s->type[0], ((u32 *)(void *)l->space)[k] ^ flip);
}

typedef struct pair {
  u64 v[2];
} pair;

// to[place[k]] = from[k], of elements of e bytes.
static void scatter(char *to, const u32 *place, const char *from, i64 n, size_t e) {
#define SCATTER(T)                                                                              \
  for (i64 k = 0; k < n; k++) ((T *)(void *)to)[place[k]] = ((const T *)(const void *)from)[k]; \
  return
  switch (e) {
  case 1: SCATTER(u8);
  case 2: SCATTER(u16);
  case 4: SCATTER(u32);
  case 8: SCATTER(u64);
  default: SCATTER(pair);
  }
#undef SCATTER
}

// Elements of operand `at` in their new order: into the result, or where that is the same array or
// not of neighbours into the space, and from there into the result.
static bool directly(const line *l) { return l->s->inner == 1 && l->in[l->at] != l->out[l->at]; }

static void gather_elements(void *ctx, i64 part, u32 thread) {
  (void)thread;
  line *l = ctx;
  const sorter *s = l->s;
  size_t e = hlo_dtype_storage(s->type[l->at]), step = e * (size_t)s->inner;
  const char *from = l->in[l->at];
  char *to = directly(l) ? l->out[l->at] : l->space;
  i64 lo, hi;
  part_of(l, part, &lo, &hi);
  hi = HS_MIN(hi, l->wanted);
#define GATHER(T)                                                                \
  for (i64 k = lo; k < hi; k++)                                                  \
    ((T *)(void *)to)[k] = *(const T *)(const void *)(from + l->perm[k] * step); \
  return
  switch (e) {
  case 1: GATHER(u8);
  case 2: GATHER(u16);
  case 4: GATHER(u32);
  case 8: GATHER(u64);
  default: GATHER(pair);
  }
#undef GATHER
}

static void put_elements(void *ctx, i64 part, u32 thread) {
  (void)thread;
  line *l = ctx;
  const sorter *s = l->s;
  size_t e = hlo_dtype_storage(s->type[l->at]), step = e * (size_t)s->inner;
  i64 lo, hi;
  part_of(l, part, &lo, &hi);
  hi = HS_MIN(hi, l->wanted);
  if (hi <= lo) return;
  if (step == e)
    memcpy(l->out[l->at] + (size_t)lo * e, l->space + (size_t)lo * e, (size_t)(hi - lo) * e);
  else
    for (i64 k = lo; k < hi; k++)
      memcpy(l->out[l->at] + (size_t)k * step, l->space + (size_t)k * e, e);
}

// With few wanted: the least, in order.
static bool few_wanted(const sorter *s) {
  return s->nkeys == 1 && key_bits(s->type[s->key[0].operand]) <= 32 && s->wanted <= s->len / 8;
}

static void find_order(line *l) {
  const sorter *s = l->s;
  if (s->nkeys == 0) {
    by_cmp c = {.s = s, .line = l->in};
    for (u32 k = 0; k < s->n; k++) c.step[k] = hlo_dtype_storage(s->type[k]) * (size_t)s->inner;
    for (i64 k = 0; k < l->len; k++) l->perm[k] = (u32)k;
    merge_indices(&c, l->perm, (u32 *)(void *)l->space, l->len);
    return;
  }
  if (few_wanted(s)) {
    const hlo_sort_key *k = &s->key[0];
    hlo_dtype t = s->type[k->operand];
    u64 *best = (u64 *)(void *)l->space;
    cpu_least(t, k->canonical, (u32)flipped(s, k), l->in[k->operand],
              hlo_dtype_storage(t) * (size_t)s->inner, 0, l->len, l->wanted, best);
    for (i64 j = 0; j < l->wanted; j++) l->perm[j] = (u32)best[j];
    return;
  }
  for (u32 k = s->nkeys; k-- > 0;) {
    int bits = key_bits(s->type[s->key[k].operand]);
    if (k == 0) bits = HS_MIN(bits, l->rest);
    if (bits == 0) break;  // there is an order, by the other keys
    l->at = k;
    whole_line(make_records, l);
    void *a = l->space, *t = l->space + (size_t)l->len * l->record;
    if (l->record == 8) cpu_radix_u64(a, t, l->len, 32, bits, l->count, l->parts);
    else cpu_radix_item(a, t, l->len, 0, bits, l->count, l->parts);
    whole_line(take_order, l);
  }
}

// False: different elements may have the same keys. The result's storage is the second array, also
// where it is the operand's: all that is read of that is in the records by then.
static bool sort_keys_alone(line *l) {
  l->record = sizeof(u32);
  l->odd = false, l->at = 0;
  whole_line(make_records, l);
  if (!l->odd) {
    u32 *a = (u32 *)(void *)l->space, *t = (u32 *)(void *)l->out[0];
    cpu_radix_u32(a, t, l->len, 0, HS_MIN(32, l->rest), l->count, l->parts);
    whole_line(write_elements, l);
  }
  l->record = l->s->record;
  return !l->odd;
}

// Bytes of the space of a line: keys alone need no order, and their second array is the result.
static bool has_order(const sorter *s) { return !keys_alone(s) || few_wanted(s); }

static size_t line_bytes(const sorter *s, i64 len) {
  size_t most = s->record;  // what is gathered has room as well
  for (u32 k = 0; k < s->n; k++) most = HS_MAX(most, hlo_dtype_storage(s->type[k]));
  return (size_t)len * (s->record + most) + 4096;  // at least what cpu_least wants
}

static size_t space_bytes(const sorter *s, i64 len) {
  return has_order(s) ? line_bytes(s, len) : (size_t)len * sizeof(u32);
}

// The permutation is the end of a line's space: the second array of records, which is behind the
// first, holds nothing between two sorts, and neither what is gathered nor cpu_least gets so far.
static void give_space(line *l, char *space) {
  l->space = space;
  l->perm = (u32 *)(void *)(space + line_bytes(l->s, l->len) - (size_t)l->len * sizeof(u32));
}

// A line of ambiguous elements (NaNs of two kinds, zeros of both signs) has less memory than it
// needs: what it needs is allocated for it, because such lines are rare. False: there is none.
static bool sort_line(line *l) {
  char *own = NULL;
  if (!has_order(l->s)) {
    if (sort_keys_alone(l)) return true;
    own = hs_try_alloc(line_bytes(l->s, l->len));
    if (!own) return false;
    give_space(l, own);
  }
  find_order(l);
  for (l->at = 0; l->at < l->s->n; l->at++) {
    whole_line(gather_elements, l);
    if (!directly(l)) whole_line(put_elements, l);
  }
  hs_free(own);
  return true;
}

// Gives the line its space, and sorts it; its operands and results are said.
static bool sort_in(line *l, char *space) {
  if (!space) return false;
  l->record = l->s->record;
  if (has_order(l->s)) give_space(l, space);
  else l->space = space;
  return sort_line(l);
}

// ---- divided lines ------------------------------------------------------------------------------

typedef struct divided {
  const line *l;
  int shift;  // of the digit
  u32 *count;
  u32 end[BINS];
  bool failed;  // set by any thread that had no memory for a bin
} divided;

enum { BLOCK = 256 };

// The digits of the next block of a part, from *at on; how many, 0 at its end.
static i64 next_digits(const divided *d, i64 part, i64 *at, u32 *digit) {
  const line *l = d->l;
  i64 n = HS_MIN(part_from(l, part + 1) - *at, (i64)BLOCK);
  digits_of(l->s, l->in[l->s->key[0].operand], *at, n, d->shift, digit);
  *at += n;
  return n;
}

static void count_digits(void *ctx, i64 part, u32 thread) {
  (void)thread;
  const divided *d = ctx;
  u32 *c = d->count + part * BINS, digit[BLOCK];
  memset(c, 0, BINS * sizeof *c);
  for (i64 n, at = part_from(d->l, part); (n = next_digits(d, part, &at, digit)) > 0;)
    for (i64 k = 0; k < n; k++) c[digit[k]]++;
}

static void move_to_bins(void *ctx, i64 part, u32 thread) {
  (void)thread;
  const divided *d = ctx;
  const line *l = d->l;
  u32 *c = d->count + part * BINS, place[BLOCK];
  for (i64 n, at = part_from(l, part); (n = next_digits(d, part, &at, place)) > 0;) {
    for (i64 k = 0; k < n; k++) place[k] = c[place[k]]++;
    for (u32 o = 0; o < l->s->n; o++) {
      size_t e = hlo_dtype_storage(l->s->type[o]);
      scatter(l->out[o], place, l->in[o] + (size_t)(at - n) * e, n, e);
    }
  }
}

// The bin as a line, in the results; false: there is nothing to sort in it.
static bool bin_line(const divided *d, i64 bin, line *out) {
  const sorter *s = d->l->s;
  i64 lo = bin ? d->end[bin - 1] : 0, n = d->end[bin] - lo;
  if (n < 2 || (d->shift == 0 && s->nkeys == 1)) return false;
  out->s = s;
  out->len = out->wanted = n;
  out->rest = d->shift;
  for (u32 k = 0; k < s->n; k++)
    out->in[k] = out->out[k] = d->l->out[k] + (size_t)lo * hlo_dtype_storage(s->type[k]);
  return true;
}

static void sort_bins(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  divided *d = ctx;
  u32 count[BINS];
  line l = {.count = count, .parts = 1};
  for (i64 b = chunk * BIN_GROUP; b < (chunk + 1) * BIN_GROUP; b++) {
    if (!bin_line(d, b, &l)) continue;
    size_t bytes = space_bytes(l.s, l.len);
    if (bytes > BIN_BYTES) continue;
    if (!sort_in(&l, cpu_par_memory(BIN_BYTES)))
      __atomic_store_n(&d->failed, true, __ATOMIC_RELAXED);
  }
}

// Bins that are too large for a thread's memory, by all threads in memory of their own.
static void sort_large_bins(divided *d) {
  line l = {.count = d->count, .parts = d->l->parts};
  for (i64 b = 0; b < BINS && !d->failed; b++) {
    if (!bin_line(d, b, &l)) continue;
    size_t bytes = space_bytes(l.s, l.len);
    if (bytes <= BIN_BYTES) continue;
    char *own = hs_try_alloc(bytes);
    d->failed = !sort_in(&l, own);
    hs_free(own);
  }
}

// From counts to places, bin by bin, part after part. False: all elements are in one bin.
static bool lay_out(divided *d) {
  u32 sum = 0;
  bool several = true;
  for (u32 b = 0; b < BINS; b++) {
    u32 before = sum;
    for (i64 p = 0; p < d->l->parts; p++) {
      u32 *c = &d->count[p * BINS + b], x = *c;
      *c = sum;
      sum += x;
    }
    d->end[b] = sum;
    several &= sum - before < d->l->len;
  }
  return several;
}

// False: there is no memory.
static bool sort_divided(line *l) {
  const sorter *s = l->s;
  divided d = {.l = l, .shift = key_bits(s->type[s->key[0].operand]), .count = l->count};
  do {  // the first digit in which any two differ
    d.shift = HS_MAX(d.shift - DIGIT, 0);
    cpu_par_for(count_digits, &d, l->parts);
  } while (!lay_out(&d) && d.shift);
  cpu_par_for(move_to_bins, &d, l->parts);
  cpu_par_for(sort_bins, &d, BINS / BIN_GROUP);
  if (!d.failed) sort_large_bins(&d);
  return !d.failed;
}

// ---- whole lines --------------------------------------------------------------------------------

// Whether a plain comparison of floats puts no element of a whole line before another: of NaNs and
// equal numbers. Where there are other numbers too it is no order, and NaNs may as well be last, as
// their key is.
static bool all_equal(const line *l) {
  const sorter *s = l->s;
  if (s->nkeys != 1 || !s->key[0].partial) return false;
  u32 operand = s->key[0].operand;
  hlo_dtype t = s->type[operand];
  double one = NAN;
  for (i64 k = 0; k < l->len; k++) {
    size_t at = (size_t)(k * s->inner) * hlo_dtype_storage(t);
    double x = hlo_elem_to_f64(t, l->in[operand] + at);
    if (isnan(x) || x == one) continue;
    if (!isnan(one)) return false;
    one = x;
  }
  return true;
}

static void keep_order(const line *l) {
  const sorter *s = l->s;
  for (u32 o = 0; o < s->n; o++) {
    size_t e = hlo_dtype_storage(s->type[o]), step = e * (size_t)s->inner;
    for (i64 k = 0; k < l->wanted && l->in[o] != l->out[o]; k++)
      memcpy(l->out[o] + (size_t)k * step, l->in[o] + (size_t)k * step, e);
  }
}

// False: there is no memory.
static bool sort_whole(line *l, char *space) {
  if (all_equal(l)) return keep_order(l), true;
  return is_divided(l->s) ? sort_divided(l) : sort_in(l, space);
}

// ---- the kernel ---------------------------------------------------------------------------------

typedef struct sort_job {
  const sorter *s;
  void *const *bufs;
  i64 per;
  bool failed;  // set by any thread that had no memory for a line
} sort_job;

static void place_line(const sorter *s, void *const *bufs, i64 number, line *l) {
  size_t at = (size_t)(number / s->inner * s->len * s->inner + number % s->inner);
  l->s = s;
  l->len = s->len;
  l->wanted = s->wanted;
  l->rest = 64;
  for (u32 k = 0; k < s->n; k++) {
    l->in[k] = (char *)bufs[k] + at * hlo_dtype_storage(s->type[k]);
    l->out[k] = (char *)bufs[s->n + k] + at * hlo_dtype_storage(s->type[k]);
  }
}

static void sort_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  sort_job *j = ctx;
  const sorter *s = j->s;
  u32 count[BINS];
  char *memory = hs_try_alloc(space_bytes(s, s->len));
  bool ok = memory != NULL;
  line l = {.count = count, .parts = 1};
  for (i64 n = chunk * j->per, end = HS_MIN(n + j->per, s->lines); n < end && ok; n++) {
    place_line(s, j->bufs, n, &l);
    ok = sort_whole(&l, memory);
  }
  if (!ok) __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
  hs_free(memory);
}

static hs_status run_sort(void *state, void *const *bufs, void *scratch) {
  const sorter *s = state;
  if (s->len == 0 || s->lines == 0 || s->wanted == 0) return HS_GOOD;
  sort_job j = {s, bufs, HS_MAX((i64)1, 4096 / s->len), false};
  if (s->whole) {
    line l = {.parts = HS_MIN((i64)cpu_par_threads(), (i64)CPU_RADIX_PARTS)};
    l.count = hs_try_alloc((size_t)l.parts * BINS * sizeof *l.count);
    j.failed = !l.count;
    for (i64 n = 0; n < s->lines && !j.failed; n++) {
      place_line(s, bufs, n, &l);
      j.failed = !sort_whole(&l, scratch);
    }
    hs_free(l.count);
  } else cpu_par_for(sort_chunk, &j, (s->lines + j.per - 1) / j.per);
  return j.failed ? hs_fail(HS_E_NO_MEMORY, "no memory to sort lines of %lld", (long long)s->len)
                  : HS_GOOD;
}

static void free_sort(void *state) {
  sorter *s = state;
  cpu_scalar_free(s->cmp);
  cpu_lanes_free(&s->lanes);
  hs_free(s);
}

// How many elements of the lines along dim d, of any of its values, somebody reads: `most` unless
// all readers are slices from the front.
static i64 wanted_of(const hlo_instr *i, i64 d, i64 most, u32 depth) {
  i64 n = 0;
  if (depth > 4 || hlo_is_root(i)) return most;
  hlo_for_each_use(u, i) {
    const hlo_instr *r = u->user;
    if (r->opcode == HLO_GET_TUPLE_ELEMENT) n = HS_MAX(n, wanted_of(r, d, most, depth + 1));
    else if (r->opcode == HLO_FUSION)
      n = HS_MAX(n, wanted_of(hlo_fusion_comp(r)->params[hlo_slot(u)], d, most, depth + 1));
    else if (r->opcode == HLO_SLICE)
      n = HS_MAX(n, ((const hlo_slices *)hlo_attr_ptr(r, HLO_ATTR_SLICE))->v[d].limit);
    else return most;
  }
  return n;
}

hs_status cpu_sort_prepare(const hlo_instr *i, cpu_rt *out) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  const hlo_shape *shape = hlo_operand(i, 0)->shape;
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 d = dims.n ? dims.v[0] : (i64)shape->rank - 1;
  sorter *s = hs_calloc(1, sizeof *s);
  s->n = i->noperands;
  for (u32 k = 0; k < s->n; k++) s->type[k] = hlo_operand(i, k)->shape->dtype;
  s->len = shape->rank ? shape->dims[d] : 1;
  s->inner = 1;
  for (u32 k = (u32)d + 1; k < shape->rank; k++) s->inner *= shape->dims[k];
  s->lines = s->len ? shape->elements / s->len : 0;
  s->nkeys = hlo_sort_keys(c, s->key);
  s->record = 8;
  for (u32 k = 0; k < s->nkeys; k++)
    if (key_bits(s->type[s->key[k].operand]) > 32) s->record = sizeof(cpu_item);
  if (s->nkeys == 0 && !cpu_lanes_make(c, 1, &s->lanes)) s->cmp = cpu_scalar_compile(c);
  s->wanted = shape->rank ? HS_MIN(s->len, wanted_of(i, d, s->len, 0)) : s->len;
  s->whole = s->nkeys && s->len >= LONG && s->lines < 8 && !few_wanted(s);
  if (!few_wanted(s)) s->wanted = s->len;
  *out = (cpu_rt){.kind = few_wanted(s)     ? "sort (selection)"
                          : s->nkeys == 0   ? "sort (merge, comparator)"
                          : s->len <= SHORT ? "sort (merge, keys)"
                                            : "sort (radix)",
                  .state = s,
                  .run = run_sort,
                  .release = free_sort,
                  .scratch_bytes = s->whole && !is_divided(s) ? (i64)space_bytes(s, s->len) : 0,
                  .inplace = s->n < 32 && !is_divided(s) ? (1u << s->n) - 1 : 0,
                  .compiled = &s->lanes};
  return HS_GOOD;
}
