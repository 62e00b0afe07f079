// chain.c — attention and its like without its scores: a product whose result only a kernel along
// its rows reads, whose result in turn is only the left operand of a product, is computed for some
// rows at a time. The rows between the two products stay in the caches of the core that computes
// them, and memory for all of them is not needed. (FlashAttention, Dao and others 2022, cuts the
// rows, too, which here nothing forces: a core's cache holds many whole ones.)
//
// The kernel is the one that the emitter makes for the whole array. It works in place, each chunk
// on rows of its own, so that it can be given a pointer to where row 0 would be if the piece lay in
// the whole array; it touches the piece alone. The products are those of dot_tiles.c, with memory
// of the thread for what they pack. Pieces follow from shapes: same bits for any number of threads.
#include "backends/cpu/rt/dot.h"

enum {
  LEAST_BYTES = 2 << 20,  // of all rows: less stays in the caches anyway
  PIECE_BYTES = 2 << 20,
  ENOUGH_ROWS = 256,  // that packing the right operands once a piece costs little
  LEAST_PIECES = 16,
  MOST_OPERANDS = 32,  // of the kernel
};

typedef struct chain {
  dot whole[2];  // where each product of the batch begins
  dot part[2];   // one piece
  const emit_kernel *rows;
  u32 nin, in;
  i64 N;                   // elements of a row
  i64 piece_rows, pieces;  // rows of a piece; M is a multiple of it
  size_t at_tiles, bytes;  // of a thread's memory
} chain;

static void free_chain(void *state) {
  chain *c = state;
  hs_free(c->part[0].tiles);
  hs_free(c->part[1].tiles);
  hs_free(c);
}

// Whether a side of a product is the rows between the two, dense and in order.
static bool is_rows(const dot *d, bool result, i64 cols) {
  const dot_side *s = result ? &d->c : &d->a;
  if (s->c != 1 || s->r != cols) return false;
  for (i64 k = 0; k < d->B; k++) {
    i64 a, b, c;
    cpu_dot_batch(d, k, &a, &b, &c);
    if ((result ? c : a) != k * d->M * cols) return false;
  }
  return true;
}

static bool is_plain(const dot *d) {
  return d->ta == HLO_F32 && d->tb == HLO_F32 && d->tc == HLO_F32 && d->sum_type == DOT_F32 &&
         d->operand_type == DOT_F32 && !d->pack_a && !d->pack_b && !d->pack_c && d->K > 0;
}

// The most rows, of those that a chunk's number divides and that divide M, which fit; 0: none.
static i64 rows_of_piece(const dot *d, i64 chunk_rows) {
  i64 all = d->B * d->M, best = 0;
  for (i64 r = chunk_rows; r <= HS_MIN(d->M, HS_MAX(chunk_rows, (i64)ENOUGH_ROWS)); r += chunk_rows)
    if (d->M % r == 0 && r * d->N * (i64)sizeof(float) <= PIECE_BYTES && all / r >= LEAST_PIECES)
      best = r;
  return best;
}

// One piece of a product: rows of one of the batch, the side of the rows between being dense.
static bool make_part(const dot *whole, i64 rows, bool first, dot *part) {
  *part = *whole;
  part->B = 1;
  part->nbatch = 0;
  part->M = rows;
  if (first) part->c = (dot_side){part->N, 1};
  else part->a = (dot_side){part->K, 1};
  return cpu_dot_tiles_prepare(part);
}

typedef struct job {
  const chain *c;
  void *const *bufs;
  _Atomic bool failed;
} job;

static float *at(void *const *bufs, u32 k, i64 element) { return (float *)bufs[k] + element; }

static void run_piece(void *arg, i64 piece, u32 thread) {
  (void)thread;
  job *j = arg;
  const chain *c = j->c;
  char *mine = cpu_par_memory(c->bytes);
  if (!mine) {
    j->failed = true;
    return;
  }
  const dot *x = &c->whole[0], *y = &c->whole[1];
  i64 row = piece * c->piece_rows, k = row / x->M, m = row % x->M, a, b, to, none;
  cpu_dot_batch(x, k, &a, &b, &none);
  cpu_dot_tiles_product(&c->part[0], at(j->bufs, 0, a + m * x->a.r), at(j->bufs, 1, b), mine,
                        mine + c->at_tiles);
  void *bufs[MOST_OPERANDS + 1];
  memcpy(bufs, j->bufs + 2, c->nin * sizeof *bufs);
  bufs[c->in] = bufs[c->nin] = (void *)((uintptr_t)mine - (uintptr_t)(row * c->N) * sizeof(float));
  i64 chunk = row / c->rows->chunk_rows, end = (row + c->piece_rows) / c->rows->chunk_rows;
  for (; chunk < end; chunk++) c->rows->fn(bufs, chunk, NULL);
  cpu_dot_batch(y, k, &none, &b, &to);
  cpu_dot_tiles_product(&c->part[1], mine, at(j->bufs, 2 + c->nin, b),
                        at(j->bufs, 3 + c->nin, to + m * y->c.r), mine + c->at_tiles);
}

static hs_status run_chain(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  job j = {.c = state, .bufs = bufs};
  cpu_par_for(run_piece, &j, j.c->pieces);
  return j.failed ? hs_fail(HS_E_NO_MEMORY, "no memory for rows of %zu bytes", j.c->bytes)
                  : HS_GOOD;
}

bool cpu_chain_make(const hlo_instr *first, const emit_kernel *rows, u32 nin, u32 in,
                    const hlo_instr *last, cpu_rt *out) {
  dot d[2];
  cpu_dot_read(first, &d[0]);
  cpu_dot_read(last, &d[1]);
  i64 M = d[0].M, N = d[0].N;
  if (!rows->chunk_rows || rows->row_elements != N || rows->scratch_bytes || rows->finish_chunks ||
      nin > MOST_OPERANDS)
    return false;
  if (!is_plain(&d[0]) || !is_plain(&d[1])) return false;
  if (d[0].B != d[1].B || M != d[1].M || N != d[1].K || N % 16) return false;
  if (hs_mul_sat_i64(d[0].B * M, N) < LEAST_BYTES / (i64)sizeof(float)) return false;
  if (!is_rows(&d[0], true, N) || !is_rows(&d[1], false, N)) return false;
  chain *c = hs_calloc(1, sizeof *c);
  *c = (chain){.whole = {d[0], d[1]}, .rows = rows, .nin = nin, .in = in, .N = N};
  c->piece_rows = rows_of_piece(&d[0], rows->chunk_rows);
  if (!c->piece_rows || !make_part(&d[0], c->piece_rows, true, &c->part[0]) ||
      !make_part(&d[1], c->piece_rows, false, &c->part[1])) {
    free_chain(c);
    return false;
  }
  c->pieces = d[0].B * M / c->piece_rows;
  c->at_tiles = block_align((size_t)(c->piece_rows * N) * sizeof(float));
  size_t tiles[2] = {cpu_dot_tiles_bytes(&c->part[0]), cpu_dot_tiles_bytes(&c->part[1])};
  c->bytes = c->at_tiles + HS_MAX(tiles[0], tiles[1]);
  *out =
      (cpu_rt){.kind = "dots by rows (tiles)", .state = c, .run = run_chain, .release = free_chain};
  return true;
}
