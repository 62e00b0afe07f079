// dot_tiles.c — matrix times matrix by our own kernels (dot_micro.c), in any order of the
// operands and for any types that widen to the kernel's.
//
// Both operands are cut along k, and each block is packed into panels of as many rows, or columns,
// as the kernel takes. Packing converts elements and reads through any strides, so that operands of
// other types or orders are neither converted nor transposed as a whole. An operand that the kernel
// can read where it lies, and would read too seldom for a copy to pay, is not packed. Then the
// result is computed tile by tile. Packing and tiles of one large product are shared among the
// pool's threads; of many products, and of small ones, each thread computes whole ones. A product
// between these is cut into strips, which a thread computes alone: what one thread has packed would
// cost another more to fetch than to pack. Where the result is not stored as the kernel writes it,
// it is summed in memory of the thread and converted at the end.
//
// Complex products go through the real kernels: a row of A is read as 2 K real numbers, and each
// element of B becomes the two by two matrix (re, im; -im, re). The 8-bit kernel wants unsigned
// values on the left: 128 is added to signed ones and 128 times the column's sum taken back.
//
// Each element is summed in an order given by the shape: its blocks along k one after the other.
#include "backends/cpu/rt/dot.h"

enum {
  K_BYTES = 1536,    // of a block along k, for one row
  MOST_ROWS = 1536,  // of A in packed form; of B: columns
  MOST_COLS = 4096,
  TILE_PANELS = 4,  // of A in a tile
  TILE_COLS = 128,
  PACK = 16384,           // elements that a thread packs at a time, at least
  ENOUGH = 16,            // products to give each thread whole ones
  STRIPS = 8,             // of a product at most
  NEAR_BYTES = 32 << 10,  // of A, which the kernel can read anywhere in the first cache
  KEPT = 2048,  // rows, or columns, of the other operand: with more, packing costs next to nothing
};
#define PRODUCT_WORK ((i64)1 << 18)  // multiplications of a chunk of products at least
#define SERIAL_WORK ((i64)1 << 17)   // below it the caller's thread does it all
#define STRIP_WORK ((i64)1 << 17)    // of a strip at least
#define SHARED_WORK ((i64)1 << 24)   // of a product from which threads share what they pack

struct dot_tiles {
  const dot_micro *micro;
  dot_compute kernel;  // the type of panels
  bool complex;
  bool direct_a, direct_b, direct_c;
  bool late_a;            // panels of A are used once: packed where that is, row by row
  bool offset;            // the left operand has 128 added
  hlo_dtype ta, tb, tc;   // as they lie in memory, or in scratch
  i64 M, N, K;            // as the kernel sees them: N and K are doubled where complex
  i64 height, width;      // rows of a panel of A, columns of one of B
  i64 rows, cols, depth;  // of a block of the whole product
  i64 group;              // blocks of a chunk; 0: the threads share each block
  size_t unit, at_b, at_edge, at_c, bytes;  // memory of the thread
};

// ---- packing ------------------------------------------------------------------------------------

// One operand as packing sees it: `lanes` run along a row of a panel.
typedef struct lanes {
  hlo_dtype t;
  dot_compute ct;  // what elements become; DOT_S8: they stay bytes
  const char *at;  // the first element
  i64 lane, k;     // strides, in elements
} lanes;

typedef u32 v4u32 __attribute__((vector_size(16), aligned(1), may_alias));

// Rows of whole panels as they are: bytes of a row, a multiple of 32, and rows apart. In vectors
// that every machine has: wider ones would go through the stack here.
static void copy_rows(char *to, i64 bytes, const char *from, i64 stride, i64 n) {
  for (i64 k = 0; k < n; k++, to += bytes, from += stride)
    for (i64 q = 0; q < bytes; q += 32) {
      v4u32 low = *(const v4u32 *)(const void *)(from + q);
      v4u32 high = *(const v4u32 *)(const void *)(from + q + 16);
      *(v4u32 *)(void *)(to + q) = low;
      *(v4u32 *)(void *)(to + q + 16) = high;
    }
}

// Four rows of bytes as one row of units.
__attribute__((target_clones("default", "avx2"))) static void weave(char *restrict to,
                                                                    const char *restrict a,
                                                                    const char *restrict b,
                                                                    const char *restrict c,
                                                                    const char *restrict d, i64 n) {
  for (i64 l = 0; l < n; l++) {
    to[4 * l] = a[l];
    to[4 * l + 1] = b[l];
    to[4 * l + 2] = c[l];
    to[4 * l + 3] = d[l];
  }
}

static void clear_lanes(char *to, i64 step, i64 from, i64 n, size_t unit) {
  if (from < step)
    for (i64 k = 0; k < n; k++)
      memset(to + (size_t)(k * step + from) * unit, 0, (size_t)(step - from) * unit);
}

// Floating-point panels: to[k][lane], `step` lanes wide, of which `count` hold something.
static void pack_floats(char *to, i64 step, const lanes *p, i64 count, i64 n) {
  size_t unit = cpu_dot_compute_size(p->ct), e = hlo_dtype_storage(p->t);
  bool same = cpu_dot_stored_as(p->t, p->ct);
  clear_lanes(to, step, count, n, unit);
  if (same && p->k == 1) {
    cpu_turn(to, step, p->at, p->lane * (i64)e, count, n, unit);
    return;
  }
  if (same && p->lane == 1 && count == step && (size_t)step * unit % 32 == 0) {
    copy_rows(to, step * (i64)unit, p->at, p->k * (i64)e, n);
    return;
  }
  if (p->lane == 1 || p->k != 1) {
    cpu_dot_widen_rows(to, (size_t)step * unit, p->ct, p->at, p->t, p->k, p->lane, count, n);
    return;
  }
  enum { SOME = 8 };
  char some[SOME * K_BYTES];
  for (i64 l = 0; l < count; l += SOME) {
    i64 m = HS_MIN(count - l, (i64)SOME);
    cpu_dot_widen_rows(some, K_BYTES, p->ct, p->at + (size_t)(l * p->lane) * e, p->t, p->lane, p->k,
                       n, m);
    cpu_turn(to + (size_t)l * unit, step, some, K_BYTES, m, n, unit);
  }
}

// Panels of bytes, four neighbours along k in one unit.
static void pack_bytes(char *to, i64 step, const lanes *p, i64 count, i64 n) {
  i64 whole = n / 4, units = (n + 3) / 4;
  clear_lanes(to, step, count, units, 4);
  if (p->k == 1) cpu_turn(to, step, p->at, p->lane, count, whole, 4);
  else
    for (i64 g = 0; g < whole; g++) {
      const char *r = p->at + 4 * g * p->k;
      char *w = to + g * step * 4;
      if (p->lane == 1) weave(w, r, r + p->k, r + 2 * p->k, r + 3 * p->k, count);
      else
        for (i64 l = 0; l < count; l++)
          for (int q = 0; q < 4; q++) w[4 * l + q] = r[l * p->lane + q * p->k];
    }
  if (whole == units) return;
  for (i64 l = 0; l < count; l++)
    for (i64 j = 0; j < 4; j++)
      to[(whole * step + l) * 4 + j] =
          4 * whole + j < n ? p->at[l * p->lane + (4 * whole + j) * p->k] : 0;
}

// (-128) times the sums over k of a panel of bytes, to the row behind it.
__attribute__((target_clones("default", "avx2"))) static void put_corrections(char *panel, i64 step,
                                                                              i64 units, bool any) {
  u32 *restrict sum = (u32 *)(void *)(panel + units * step * 4);  // which may wrap around
  memset(sum, 0, (size_t)step * 4);
  if (!any) return;
  for (i64 g = 0; g < units; g++) {
    const u32 *b = (const u32 *)(const void *)panel + g * step;
    for (i64 l = 0; l < step; l++)  // the signed bytes of a unit
      sum[l] -= (u32)(((i32)b[l] >> 24) + ((i32)(b[l] << 8) >> 24) + ((i32)(b[l] << 16) >> 24) +
                      ((i32)(b[l] << 24) >> 24));
  }
  for (i64 l = 0; l < step; l++) sum[l] *= 128;
}

static void load_complex(const lanes *p, i64 l, i64 k, double *re, double *im) {
  const char *at = p->at + (size_t)(l * p->lane + k * p->k) * hlo_dtype_storage(p->t);
  if (p->t == HLO_C128) {
    memcpy(re, at, 8);
    memcpy(im, at + 8, 8);
  } else {
    float v[2];
    memcpy(v, at, 8);
    *re = (double)v[0];
    *im = (double)v[1];
  }
}
static void store_real(char *to, i64 at, size_t unit, double v) {
  if (unit == 8) memcpy(to + at * 8, &v, 8);
  else {
    float f = (float)v;
    memcpy(to + at * 4, &f, 4);
  }
}

// count, n: of real numbers; right: of B, where an element becomes two by two of them.
static void pack_complex(char *to, i64 step, const lanes *p, i64 count, i64 n, bool right) {
  size_t unit = p->ct == DOT_F32 ? 4 : 8;
  clear_lanes(to, step, count, n, unit);
  for (i64 k = 0; k < n / 2; k++)
    for (i64 l = 0; l < (right ? count / 2 : count); l++) {
      double re, im;
      load_complex(p, l, k, &re, &im);
      if (right) {
        store_real(to, 2 * k * step + 2 * l, unit, re);
        store_real(to, 2 * k * step + 2 * l + 1, unit, im);
        store_real(to, (2 * k + 1) * step + 2 * l, unit, -im);
        store_real(to, (2 * k + 1) * step + 2 * l + 1, unit, re);
      } else {
        store_real(to, 2 * k * step + l, unit, re);
        store_real(to, (2 * k + 1) * step + l, unit, im);
      }
    }
}

static void pack_panel(const dot_tiles *t, char *to, i64 step, const lanes *p, i64 count, i64 n,
                       bool right) {
  if (t->complex) pack_complex(to, step, p, count, n, right);
  else if (t->kernel != DOT_S8) pack_floats(to, step, p, count, n);
  else {
    pack_bytes(to, step, p, count, n);
    i64 units = (n + 3) / 4;
    if (right) put_corrections(to, step, units, t->offset);
    else if (t->offset)
      for (u32 *u = (u32 *)(void *)to, *end = u + units * step; u < end; u++) *u ^= 0x80808080u;
  }
}

// ---- one product --------------------------------------------------------------------------------

// A block of one product.
typedef struct work {
  const dot *d;
  const dot_tiles *t;
  const char *a, *b;      // the block's first elements
  i64 rows, cols, depth;  // of the block
  bool first;             // along k
  bool left, right;       // which of the operands are packed
  char *pa, *pb, *edge;   // panels
  char *c;                // where kernels write: the result, or sums
  i64 cr;                 // its rows apart, in units
} work;

static i64 units_of(const dot_tiles *t, i64 depth) {
  return t->kernel == DOT_S8 ? (depth + 3) / 4 : depth;
}
// Rows of a panel of B, its corrections included.
static i64 right_units(const dot_tiles *t, i64 depth) {
  return units_of(t, depth) + (t->kernel == DOT_S8);
}
static i64 panels(i64 n, i64 of) { return (n + of - 1) / of; }
static i64 group_of(i64 panel, i64 depth) { return HS_MAX((i64)1, PACK / (panel * depth)); }

// One chunk: some panels of A, or of B; those of A first.
static void pack_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const work *w = ctx;
  const dot_tiles *t = w->t;
  i64 ga = group_of(t->height, w->depth), gb = group_of(t->width, w->depth),
      na = w->left ? panels(panels(w->rows, t->height), ga) : 0;
  bool right = chunk >= na;
  i64 of = right ? t->width : t->height, group = right ? gb : ga, n = right ? w->cols : w->rows,
      units = right ? right_units(t, w->depth) : units_of(t, w->depth), two = t->complex ? 2 : 1;
  const dot_side *s = right ? &w->d->b : &w->d->a;
  hlo_dtype type = right ? t->tb : t->ta;
  size_t e = hlo_dtype_storage(type);
  for (i64 q = 0, p = (chunk - (right ? na : 0)) * group * of; q < group && p < n; q++, p += of) {
    bool edge = right && t->direct_b;
    if (edge && p + of <= n) continue;
    lanes l = {type, t->kernel, w->b, s->c, s->r};
    if (right) l.at += (size_t)(p / two * s->c) * e;
    else l = (lanes){type, t->kernel, w->a + (size_t)(p * s->r) * e, s->r, s->c};
    char *to = edge ? w->edge : (right ? w->pb : w->pa) + (size_t)(p * units) * t->unit;
    pack_panel(t, to, of, &l, HS_MIN(of, n - p), w->depth, right);
  }
}

// The chunks of one product: shared, or all here where a thread computes whole ones.
static void share(const dot_tiles *t, cpu_par_fn *fn, void *ctx, i64 chunks) {
  if (!t->group) cpu_par_for(fn, ctx, chunks);
  else
    for (i64 k = 0; k < chunks; k++) fn(ctx, k, 0);
}

static void pack_blocks(work *w) {
  const dot_tiles *t = w->t;
  i64 na = w->left ? panels(panels(w->rows, t->height), group_of(t->height, w->depth)) : 0,
      nb = w->right ? panels(panels(w->cols, t->width), group_of(t->width, w->depth)) : 0;
  if (na + nb) share(t, pack_chunk, w, na + nb);
}

// A block of the result that is narrower than the kernel's vectors goes through memory of its own.
static void narrow_block(const work *w, dot_micro_fn *fn, i64 n, const char *a, i64 ar, i64 ac,
                         const char *b, i64 br, char *to, i64 rows, i64 cols, i64 padded) {
  _Alignas(64) char some[DOT_MOST_ROWS * 2 * DOT_VECTOR_BYTES];
  size_t e = w->t->unit;
  for (i64 i = 0; i < rows && !w->first; i++)
    memcpy(some + (size_t)(i * padded) * e, to + (size_t)(i * w->cr) * e, (size_t)cols * e);
  fn(n, a, ar, ac, b, br, some, padded, !w->first);
  for (i64 i = 0; i < rows; i++)
    memcpy(to + (size_t)(i * w->cr) * e, some + (size_t)(i * padded) * e, (size_t)cols * e);
}

// A panel of A, row by row: turning what is converted along k would not pay for the few columns.
static void widen_rows(char *to, const lanes *p, i64 count, i64 n) {
  cpu_dot_widen_rows(to, (size_t)n * cpu_dot_compute_size(p->ct), p->ct, p->at, p->t, p->lane, 1, n,
                     count);
}

static void tile_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const work *w = ctx;
  const dot_tiles *t = w->t;
  const dot_micro *u = t->micro;
  const i64 n = units_of(t, w->depth), step = right_units(t, w->depth),
            tm = TILE_PANELS * t->height, down = panels(w->rows, tm), m0 = chunk % down * tm,
            m1 = HS_MIN(w->rows, m0 + tm), n0 = chunk / down * TILE_COLS,
            n1 = HS_MIN(w->cols, n0 + TILE_COLS);
  const size_t e = t->unit;
  _Alignas(64) char panel[DOT_MOST_ROWS * K_BYTES];
  for (i64 m = m0; m < m1; m += t->height) {
    i64 h = HS_MIN(t->height, m1 - m), ar = t->direct_a ? w->d->a.r : t->late_a ? n : 1;
    i64 ac = t->direct_a ? w->d->a.c : t->late_a ? 1 : t->height;
    const char *a = panel;
    if (t->direct_a) a = w->a + (size_t)(m * ar) * e;
    else if (t->late_a)
      widen_rows(panel,
                 &(lanes){t->ta, t->kernel,
                          w->a + (size_t)(m * w->d->a.r) * hlo_dtype_storage(t->ta), w->d->a.r, 1},
                 h, n);
    else a = w->pa + (size_t)(m * n) * e;
    for (i64 j = n0; j < n1; j += t->width) {
      i64 cols = HS_MIN(t->width, n1 - j), vecs = cols > u->lanes ? 2 : 1, br = t->width;
      const char *b = w->pb + (size_t)(j * step) * e;
      if (t->direct_b) {
        b = cols == t->width ? w->b + (size_t)j * e : w->edge;
        br = cols == t->width ? w->d->b.r : br;
      }
      char *to = w->c + (size_t)(m * w->cr + j) * e;
      dot_micro_fn *fn = u->fn[vecs - 1][h - 1];
      if (cols == vecs * u->lanes || !t->direct_c) fn(n, a, ar, ac, b, br, to, w->cr, !w->first);
      else narrow_block(w, fn, n, a, ar, ac, b, br, to, h, cols, vecs * u->lanes);
    }
  }
}

typedef struct store {
  const dot *d;
  const char *sums;
  char *c;
  i64 rows, cols, cr;
} store;
static void store_chunk(void *ctx, i64 row, u32 thread) {
  (void)thread;
  const store *x = ctx;
  const dot_tiles *t = x->d->tiles;
  cpu_dot_narrow(x->c + (size_t)(row * x->d->c.r) * hlo_dtype_storage(t->tc), t->tc, x->d->c.c,
                 x->sums + (size_t)(row * x->cr) * t->unit, x->d->sum_type,
                 x->cols / (t->complex ? 2 : 1));
}

// Where the panels of a block lie among those that are kept of an operand: of the batch-th product,
// n of `all` rows (right: columns) from the first one, from k on. Blocks along k follow each other.
static size_t kept_at(const dot_tiles *t, bool right, i64 batch, i64 all, i64 first, i64 n, i64 k) {
  i64 of = right ? t->width : t->height,
      (*units)(const dot_tiles *, i64) = right ? right_units : units_of;
  i64 step = units(t, t->depth), rest = t->K % t->depth,
      deep = t->K / t->depth * step + (rest ? units(t, rest) : 0),
      lines = (batch * panels(all, of) * of + first) * deep;
  return (size_t)(lines + panels(n, of) * of * (k / t->depth) * step) * t->unit;
}

// A block of the batch-th product, whose row m, column n and k are its first.
static work block_of(const dot *d, const char *a, const char *b, i64 batch, i64 m, i64 n, i64 k) {
  const dot_tiles *t = d->tiles;
  const i64 two = t->complex ? 2 : 1;
  i64 ba, bb, bc;
  cpu_dot_batch(d, batch, &ba, &bb, &bc);
  ba += m * d->a.r + k / two * d->a.c;
  bb += n / two * d->b.c + k / two * d->b.r;
  work w = {.d = d,
            .t = t,
            .a = a + (size_t)ba * hlo_dtype_storage(t->ta),
            .b = b + (size_t)bb * hlo_dtype_storage(t->tb),
            .rows = HS_MIN(t->rows, t->M - m),
            .cols = HS_MIN(t->cols, t->N - n),
            .depth = HS_MIN(t->depth, t->K - k),
            .first = k == 0 && !d->add};
  w.left = !t->direct_a && !t->late_a && !d->panels_a;
  w.right = !d->panels_b && !(t->direct_b && w.cols % t->width == 0);
  if (d->panels_a)
    w.pa = d->kept.at + d->at_panels_a + kept_at(t, false, batch, t->M, m, w.rows, k);
  if (d->panels_b) w.pb = d->kept.at + d->at_panels_b + kept_at(t, true, batch, t->N, n, w.cols, k);
  return w;
}

void cpu_dot_tiles_fill(const dot *d, const void *a, const void *b) {
  const dot_tiles *t = d->tiles;
  for (i64 batch = 0; batch < d->B; batch++)
    for (i64 k = 0; k < t->K; k += t->depth) {
      for (i64 m = 0; m < t->M && d->panels_a; m += t->rows) {
        work w = block_of(d, a, b, batch, m, 0, k);
        w.left = true, w.right = false;
        pack_blocks(&w);
      }
      for (i64 n = 0; n < t->N && d->panels_b; n += t->cols) {
        work w = block_of(d, a, b, batch, 0, n, k);
        w.left = false, w.right = true;
        pack_blocks(&w);
      }
    }
}

// Of a product.
static i64 blocks_of(const dot_tiles *t) { return panels(t->M, t->rows) * panels(t->N, t->cols); }

// One block of all products, in the given memory.
static void compute_block(const dot *d, const char *a, const char *b, char *c, i64 number,
                          char *mine) {
  const dot_tiles *t = d->tiles;
  const size_t ec = hlo_dtype_storage(t->tc);
  const i64 two = t->complex ? 2 : 1, batch = number / blocks_of(t), at = number % blocks_of(t),
            m = at / panels(t->N, t->cols) * t->rows, n = at % panels(t->N, t->cols) * t->cols;
  i64 ba, bb, bc, rows = HS_MIN(t->rows, t->M - m), cols = HS_MIN(t->cols, t->N - n);
  cpu_dot_batch(d, batch, &ba, &bb, &bc);
  char *to = c + (size_t)(bc + m * d->c.r + n / two * d->c.c) * ec,
       *sums = t->direct_c ? to : mine + t->at_c;
  i64 cr = t->direct_c ? d->c.r * two : panels(cols, t->width) * t->width;
  for (i64 k = 0; k < t->K; k += t->depth) {
    work w = block_of(d, a, b, batch, m, n, k);
    w.c = sums;
    w.cr = cr;
    w.edge = mine + t->at_edge;
    if (!d->panels_a) w.pa = mine;
    if (!d->panels_b) w.pb = mine + t->at_b;
    pack_blocks(&w);
    share(t, tile_chunk, &w, panels(w.rows, TILE_PANELS * t->height) * panels(w.cols, TILE_COLS));
  }
  store x = {d, sums, to, rows, cols, cr};
  if (!t->direct_c) share(t, store_chunk, &x, rows);
}

static void compute_blocks(const dot *d, const char *a, const char *b, char *c, i64 from, i64 to,
                           char *mine) {
  for (i64 k = from; k < to; k++) compute_block(d, a, b, c, k, mine);
}

// ---- all of them --------------------------------------------------------------------------------

typedef struct products {
  const dot *d;
  const char *a, *b;
  char *c;
  bool failed;  // some thread had no memory
} products;

static void products_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  products *x = ctx;
  const dot_tiles *t = x->d->tiles;
  char *mine = cpu_par_memory(t->bytes);
  if (!mine) return __atomic_store_n(&x->failed, true, __ATOMIC_RELAXED);
  compute_blocks(x->d, x->a, x->b, x->c, chunk * t->group,
                 HS_MIN((chunk + 1) * t->group, x->d->B * blocks_of(t)), mine);
}

hs_status cpu_dot_tiles_run(const dot *d, const void *a, const void *b, void *c) {
  const dot_tiles *t = d->tiles;
  products x = {.d = d, .a = a, .b = b, .c = c};
  const i64 blocks = d->B * blocks_of(t);
  if (t->group) cpu_par_for(products_chunk, &x, panels(blocks, t->group));
  else {
    char *mine = cpu_par_memory(t->bytes);
    x.failed = !mine;
    if (mine) compute_blocks(d, a, b, c, 0, blocks, mine);
  }
  return x.failed ? hs_fail(HS_E_NO_MEMORY, "no memory for tiles of %zu bytes", t->bytes) : HS_GOOD;
}

size_t cpu_dot_tiles_bytes(const dot *d) { return d->tiles->bytes; }

void cpu_dot_tiles_product(const dot *d, const void *a, const void *b, void *c, void *memory) {
  compute_blocks(d, a, b, c, 0, blocks_of(d->tiles), memory);
}

// ---- what is cut, and how -----------------------------------------------------------------------

static i64 round_up(i64 n, i64 to) { return panels(n, to) * to; }

// The kernel for the dot's types; false when there is none.
static bool choose_kernel(const dot *d, dot_tiles *t) {
  t->kernel = d->sum_type;
  if (d->sum_type == DOT_C64 || d->sum_type == DOT_C128) {
    t->complex = true;
    t->kernel = d->sum_type == DOT_C64 ? DOT_F32 : DOT_F64;
  }
  if (d->operand_type == DOT_S8) {
    t->kernel = DOT_S8;
    t->offset = d->ta != HLO_U8;
  }
  t->micro = t->kernel == DOT_U32 || t->kernel == DOT_U64 ? NULL : cpu_dot_micro(t->kernel);
  return t->micro != NULL;
}

// Cuts one product of so many multiplications into strips of whole panels along its longer side.
static void cut_strips(dot_tiles *t, i64 one) {
  i64 strips = 1;
  while (strips < STRIPS && 2 * strips * STRIP_WORK <= one) strips *= 2;
  if (t->N >= t->M) t->cols = HS_MIN(t->cols, round_up(panels(t->N, strips), t->width));
  else t->rows = HS_MIN(t->rows, round_up(panels(t->M, strips), t->height));
  t->group = blocks_of(t) > 1;
}

bool cpu_dot_tiles_prepare(dot *d) {
  dot_tiles x = {0}, *t = &x;
  if (!choose_kernel(d, t)) return false;
  cpu_dot_pack_strides(d);
  t->unit = t->kernel == DOT_F64 ? 8 : 4;
  t->M = d->M;
  t->N = d->N * (t->complex ? 2 : 1);
  t->K = d->K * (t->complex ? 2 : 1);
  t->height = panels(t->M, panels(t->M, t->micro->rows));
  t->width = 2 * t->micro->lanes;
  t->rows = HS_MIN(t->M, MOST_ROWS / t->height * t->height);
  t->cols = HS_MIN(t->N, (i64)MOST_COLS);
  t->depth = HS_MIN(t->K, (i64)(K_BYTES / (t->kernel == DOT_S8 ? 1 : t->unit)));
  i64 one = hs_mul_sat_i64(t->M * t->N, t->K);
  // products that make no two strips are whole for a thread too, however few they are
  if (d->B >= ENOUGH || hs_mul_sat_i64(one, d->B) < SERIAL_WORK || one < 2 * STRIP_WORK)
    t->group = HS_MAX((i64)1, PRODUCT_WORK / one) * blocks_of(t);
  else if (one < SHARED_WORK) cut_strips(t, one);
  t->ta = d->pack_a ? cpu_dot_dtype(d->operand_type) : d->ta;
  t->tb = d->pack_b ? cpu_dot_dtype(d->operand_type) : d->tb;
  t->tc = d->pack_c ? cpu_dot_dtype(d->sum_type) : d->tc;
  bool plain = !t->complex && t->kernel != DOT_S8;
  // what is packed once for all runs is worth it for fewer columns
  const i64 read_for = d->fixed_a ? t->N : t->cols;
  const bool near = !d->fixed_a && d->a.c == 1 && t->rows * d->a.r * (i64)t->unit <= NEAR_BYTES;
  t->direct_a = plain && cpu_dot_stored_as(t->ta, t->kernel) && (read_for <= 2 * t->width || near);
  t->direct_b =
      plain && cpu_dot_stored_as(t->tb, t->kernel) && d->b.c == 1 && t->rows <= 4 * t->micro->rows;
  d->panels_a = d->fixed_a && !t->direct_a && t->N <= KEPT;
  t->late_a = plain && !d->panels_a && !cpu_dot_stored_as(t->ta, t->kernel) && d->a.c == 1 &&
              t->cols <= TILE_COLS;
  d->panels_b = d->fixed_b && t->M <= KEPT;
  t->direct_b &= !d->panels_b;
  if (d->panels_a) d->at_panels_a = cpu_keep(&d->kept, (i64)kept_at(t, false, d->B, t->M, 0, 0, 0));
  if (d->panels_b) d->at_panels_b = cpu_keep(&d->kept, (i64)kept_at(t, true, d->B, t->N, 0, 0, 0));
  t->direct_c = cpu_dot_stored_as(t->tc, d->sum_type) && (d->c.c == 1 || d->N == 1);
  HS_ASSERT(t->direct_c || !d->add);
  const i64 cols = round_up(t->cols, t->width), units = right_units(t, t->depth);
  size_t at = t->direct_a || t->late_a || d->panels_a
                  ? 0
                  : block_align((size_t)(round_up(t->rows, t->height) * units) * t->unit);
  t->at_b = at;
  if (!t->direct_b && !d->panels_b) at += block_align((size_t)(cols * units) * t->unit);
  t->at_edge = at;
  if (t->direct_b) at += block_align((size_t)(t->width * units) * t->unit);
  t->at_c = at;
  if (!t->direct_c) at += block_align((size_t)(t->rows * cols) * t->unit);
  t->bytes = HS_MAX(at, (size_t)DOT_VECTOR_BYTES);  // some: no memory is an error
  d->tiles = hs_alloc(sizeof x);
  *d->tiles = x;
  return true;
}
