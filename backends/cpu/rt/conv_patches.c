// conv_patches.c — a convolution as a matrix product, for what oneDNN has no kernel for: f64,
// complex numbers, unusual windows.
//
// Some output positions at a time are the rows of a matrix whose columns are the elements that
// their windows see (their patch, "im2col"), zero where a window leaves the image or falls between
// elements of a dilated one. That matrix times the filter, [window and input feature][output
// feature], is the result. It is written for one chunk of positions and one run of columns at a
// time, into memory of the thread, where our own kernels (dot_tiles.c) multiply it; only the
// filter, which the caller brings to that order, is kept whole.
//
// Patches lie position by position where input features are neighbours in memory, so that they are
// written in runs of features; else column by column, in runs of positions. The last chunk and
// the last run are as long as the others: positions past the end are computed and not stored, rows
// of the filter past its end are zero.
//
// Each result is summed in the order of its columns, run after run: by the shape alone.
#include "backends/cpu/rt/conv.h"
#include "backends/cpu/rt/dot.h"

enum {
  POSITIONS = 48,  // of a chunk: the kernels then read the filter where it lies
  MOST_COLUMNS = 768,
  FEW_FEATURES = 4,  // fewer of them, or of columns, and plain loops are as fast
  FEW_COLUMNS = 8,
};

struct conv_patches {
  dot set, add;       // the product of a run of columns: the first one, and those that follow
  size_t elem;        // bytes of an element
  i64 columns, runs;  // of the matrix in one run; how many runs
  i64 features;       // output features of a group
  i64 positions;      // of the output, over all batch elements
  bool by_position;   // how patches lie
  size_t at_sums, at_tiles, bytes;  // memory of the thread
};

// ---- writing patches ----------------------------------------------------------------------------

// A position of the output: the first element of its batch element's image, the place of its
// window in the image, which may be dilated, and its place in the result. whole: where the first
// element of its window is, when all of it is in an image that is not dilated; else -1.
typedef struct place {
  i64 image, at[CONV_MOST_SPATIAL], out, whole;
} place;
typedef struct places {
  i64 n;
  place v[POSITIONS];
} places;

static i64 whole_window(const conv *c, const place *p) {
  i64 offset = p->image;
  for (u32 s = 0; s < c->ns; s++) {
    if (c->ld[s] > 1 || p->at[s] < 0 || p->at[s] + (c->k[s] - 1) * c->rd[s] >= c->in[s]) return -1;
    offset += p->at[s] * c->ls[s];
  }
  return offset;
}

// Batch elements run fastest where they are neighbours in the image, as in the gradient of a
// filter; else slowest.
static void find_places(const conv *c, i64 first, i64 n, places *p) {
  i64 dims[CONV_MOST_SPATIAL + 1], at[CONV_MOST_SPATIAL + 1];
  const u32 spatial = c->lb != 1, batch = spatial ? 0 : c->ns;
  for (u32 s = 0; s < c->ns; s++) dims[s + spatial] = c->out[s];
  dims[batch] = c->N;
  for (u32 d = c->ns + 1; d-- > 0;) {
    at[d] = first % dims[d];
    first /= dims[d];
  }
  p->n = n;
  for (i64 k = 0; k < n; k++) {
    place *v = &p->v[k];
    v->image = at[batch] * c->lb;
    v->out = at[batch] * c->ob;
    for (u32 s = 0; s < c->ns; s++) {
      v->at[s] = at[s + spatial] * c->stride[s] - c->pad[s];
      v->out += at[s + spatial] * c->os[s];
    }
    v->whole = whole_window(c, v);
    for (u32 d = c->ns + 1; d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
}

// A place of the window, and how far from its first element that lies.
typedef struct window_place {
  i64 at[CONV_MOST_SPATIAL], offset;
} window_place;

static window_place find_tap(const conv *c, i64 k) {
  window_place t = {.offset = 0};
  for (u32 s = c->ns; s-- > 0;) {
    t.at[s] = k % c->k[s] * c->rd[s];
    t.offset += t.at[s] * c->ls[s];
    k /= c->k[s];
  }
  return t;
}

// The offset of what a position sees there; -1: nothing.
static inline i64 seen(const conv *c, const place *p, const window_place *t) {
  if (p->whole >= 0) return p->whole + t->offset;
  i64 offset = p->image;
  for (u32 s = 0; s < c->ns; s++) {
    i64 x = p->at[s] + t->at[s];
    if (x < 0) return -1;
    if (c->ld[s] > 1) {  // a division is slow
      if (x % c->ld[s]) return -1;
      x /= c->ld[s];
    }
    if (x >= c->in[s]) return -1;
    offset += x * c->ls[s];
  }
  return offset;
}

typedef u64 v2u64 __attribute__((vector_size(16), aligned(1), may_alias));
static inline void copy(char *to, const char *from, size_t bytes) {
  for (; bytes >= sizeof(v2u64); bytes -= sizeof(v2u64)) {
    *(v2u64 *)(void *)to = *(const v2u64 *)(const void *)from;
    to += sizeof(v2u64), from += sizeof(v2u64);
  }
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) memcpy(to, from, 8);
  if (bytes) memcpy(to, from, 4);
}

// Positions whose elements are neighbours, or see nothing (offset -1).
typedef struct run {
  i64 from, n, offset;
} run;

static i64 find_runs(const conv *c, const places *p, const window_place *tap, run *runs) {
  i64 n = 0;
  for (i64 k = 0; k < p->n; k++) {
    i64 offset = seen(c, &p->v[k], tap);
    run *last = n ? &runs[n - 1] : NULL;
    if (last && (last->offset < 0 ? offset < 0 : offset == last->offset + last->n)) last->n++;
    else runs[n++] = (run){k, 1, offset};
  }
  return n;
}

// One tap's columns, features f0 to f1, from the given column on.
static void write_tap(const conv *c, const places *p, const window_place *tap, const char *image,
                      i64 f0, i64 f1, char *to, i64 column) {
  const conv_patches *t = c->patches;
  const size_t e = t->elem, width = (size_t)(f1 - f0) * e;
  if (t->by_position) {
    for (i64 k = 0; k < p->n; k++) {
      i64 offset = seen(c, &p->v[k], tap);
      char *at = to + (size_t)(k * t->columns + column) * e;
      if (offset < 0) memset(at, 0, width);
      else copy(at, image + (size_t)(offset + f0) * e, width);
    }
    return;
  }
  run runs[POSITIONS];
  i64 n = find_runs(c, p, tap, runs);
  for (i64 f = f0; f < f1; f++, column++)
    for (i64 k = 0; k < n; k++) {
      char *at = to + (size_t)(column * POSITIONS + runs[k].from) * e;
      size_t bytes = (size_t)runs[k].n * e;
      if (runs[k].offset < 0) memset(at, 0, bytes);
      else copy(at, image + (size_t)(runs[k].offset + f * c->lf) * e, bytes);
    }
}

// Columns [first, first + t->columns) of a chunk's patches; zero past the last column.
static void write_patches(const conv *c, const places *p, const char *image, i64 first, char *to) {
  const conv_patches *t = c->patches;
  i64 taps = 1, column = 0, k = first;
  for (u32 s = 0; s < c->ns; s++) taps *= c->k[s];
  for (i64 end = HS_MIN(first + t->columns, taps * c->IC); k < end;) {
    i64 f = k % c->IC, n = HS_MIN(c->IC - f, end - k);
    window_place at = find_tap(c, k / c->IC);
    write_tap(c, p, &at, image, f, f + n, to, column);
    column += n, k += n;
  }
  if (column == t->columns) return;
  for (i64 r = 0; t->by_position && r < p->n; r++)
    memset(to + (size_t)(r * t->columns + column) * t->elem, 0,
           (size_t)(t->columns - column) * t->elem);
  if (!t->by_position)
    memset(to + (size_t)(column * POSITIONS) * t->elem, 0,
           (size_t)((t->columns - column) * POSITIONS) * t->elem);
}

// ---- running ------------------------------------------------------------------------------------

typedef struct job {
  const conv *c;
  const char *image, *filter;
  char *out;
  bool failed;  // some thread had no memory
} job;

static void store(const conv *c, const places *p, i64 feature, const char *sums, char *out) {
  const conv_patches *t = c->patches;
  const size_t e = t->elem;
  for (i64 k = 0; k < p->n; k++) {
    char *to = out + (size_t)(p->v[k].out + feature * c->of) * e;
    const char *from = sums + (size_t)(k * t->features) * e;
    if (c->of == 1) copy(to, from, (size_t)t->features * e);
    else
      for (i64 f = 0; f < t->features; f++)
        memcpy(to + (size_t)(f * c->of) * e, from + (size_t)f * e, e);
  }
}

static void chunk_of(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  job *j = ctx;
  const conv *c = j->c;
  const conv_patches *t = c->patches;
  char *mine = cpu_par_memory(t->bytes);
  if (!mine) return __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
  const i64 group = chunk % c->G, first = chunk / c->G * POSITIONS;
  places p;
  find_places(c, first, HS_MIN((i64)POSITIONS, t->positions - first), &p);
  for (i64 r = 0; r < t->runs; r++) {
    write_patches(c, &p, j->image + (size_t)(group * c->IC * c->lf) * t->elem, r * t->columns,
                  mine);
    cpu_dot_tiles_product(r ? &t->add : &t->set, mine,
                          j->filter +
                              (size_t)(r * t->columns * c->OC + group * t->features) * t->elem,
                          mine + t->at_sums, mine + t->at_tiles);
  }
  store(c, &p, group * t->features, mine + t->at_sums, j->out);
}

hs_status cpu_conv_patches_run(const conv *c, const void *image, const void *filter, void *out) {
  const conv_patches *t = c->patches;
  job j = {.c = c, .image = image, .filter = filter, .out = out};
  cpu_par_for(chunk_of, &j, (t->positions + POSITIONS - 1) / POSITIONS * c->G);
  return j.failed ? hs_fail(HS_E_NO_MEMORY, "no memory for patches of %zu bytes", t->bytes)
                  : HS_GOOD;
}

void cpu_conv_patches_free(conv_patches *t) {
  if (!t) return;
  hs_free(t->set.tiles);
  hs_free(t->add.tiles);
  hs_free(t);
}

// ---- preparing ----------------------------------------------------------------------------------

static bool prepare_product(const conv *c, const conv_patches *t, hlo_dtype type,
                            dot_compute compute, bool add, dot *d) {
  *d = (dot){.B = 1,
             .M = POSITIONS,
             .N = t->features,
             .K = t->columns,
             .a = t->by_position ? (dot_side){t->columns, 1} : (dot_side){1, POSITIONS},
             .b = {c->OC, 1},
             .c = {t->features, 1},
             .ta = type,
             .tb = type,
             .tc = type,
             .sum_type = compute,
             .operand_type = compute,
             .add = add};
  return cpu_dot_tiles_prepare(d);
}

bool cpu_conv_patches_prepare(conv *c, hlo_dtype type, i64 *filter_rows) {
  static const struct {
    hlo_dtype type;
    dot_compute compute;
  } of[] = {{HLO_F32, DOT_F32}, {HLO_F64, DOT_F64}, {HLO_C128, DOT_C128}};
  size_t k = 0;
  while (k < HS_COUNT(of) && of[k].type != type) k++;
  i64 all = c->IC;
  for (u32 s = 0; s < c->ns; s++) all *= c->k[s];
  if (k == HS_COUNT(of) || c->BG > 1 || c->OC / c->G < FEW_FEATURES || all < FEW_COLUMNS ||
      c->no == 0)
    return false;
  conv_patches *t = hs_calloc(1, sizeof *t);
  t->elem = hlo_dtype_storage(type);
  t->features = c->OC / c->G;
  t->positions = c->N;
  for (u32 s = 0; s < c->ns; s++) t->positions *= c->out[s];
  t->by_position = c->lf == 1 && c->IC > 1;
  t->runs = (all + MOST_COLUMNS - 1) / MOST_COLUMNS;
  t->columns = (all + t->runs - 1) / t->runs;
  if (!prepare_product(c, t, type, of[k].compute, false, &t->set) ||
      !prepare_product(c, t, type, of[k].compute, true, &t->add)) {
    cpu_conv_patches_free(t);
    return false;
  }
  t->at_sums = block_align((size_t)(POSITIONS * t->columns) * t->elem);
  t->at_tiles = t->at_sums + block_align((size_t)(POSITIONS * t->features) * t->elem);
  t->bytes = t->at_tiles + cpu_dot_tiles_bytes(&t->set);
  c->patches = t;
  *filter_rows = t->runs * t->columns;
  return true;
}
