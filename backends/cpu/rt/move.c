// move.c — dynamic-slice, dynamic-update-slice and gather: copies of boxes whose position
// is known at run time only.
//
// All three copy boxes between an array and another at an offset that comes from index operands,
// clamped so that the box stays inside. Contiguous inner dims are merged into one run, so that most
// of them are a few memcpy calls.
#include "backends/cpu/rt/rt.h"

// ---- index values -------------------------------------------------------------------------------

static i64 read_index(const void *p, hlo_dtype t, i64 at) {
  switch (t) {
  case HLO_S32: return ((const i32 *)p)[at];
  case HLO_S64: return ((const i64 *)p)[at];
  case HLO_U32: return ((const u32 *)p)[at];
  case HLO_U64: {
    u64 v = ((const u64 *)p)[at];
    return v > INT64_MAX ? INT64_MAX : (i64)v;
  }
  default: return hlo_elem_to_i64(t, (const char *)p + (size_t)at * hlo_dtype_storage(t));
  }
}

static i64 clamp(i64 v, i64 lo, i64 hi) { return v < lo ? lo : v > hi ? hi : v; }

// ---- boxes --------------------------------------------------------------------------------------

// strides in bytes
typedef struct box {
  u32 rank;
  i64 dims[HLO_MAX_RANK], big[HLO_MAX_RANK], small[HLO_MAX_RANK];
  i64 run;
} box;

// A box of `dims` elements inside an array of `array` dims; the other side is dense.
static box make_box(u32 rank, const i64 *dims, const i64 *array, size_t elem) {
  box b = {.run = (i64)elem};
  i64 bs[HLO_MAX_RANK], ss[HLO_MAX_RANK];
  hlo_row_major_strides(rank, array, bs);
  hlo_row_major_strides(rank, dims, ss);
  u32 d = rank;
  bool whole = true;
  // the contiguous tail: dims fully covered, and the first partial one
  while (d > 0 && whole) {
    d--;
    b.run *= dims[d];
    whole = dims[d] == array[d];
  }
  for (u32 k = 0; k < d; k++) {
    if (dims[k] == 1) continue;
    b.dims[b.rank] = dims[k];
    b.big[b.rank] = bs[k] * (i64)elem;
    b.small[b.rank++] = ss[k] * (i64)elem;
  }
  return b;
}

static void copy_box(const box *b, u32 d, char *big, char *small, bool out) {
  if (d == b->rank) {
    if (out) memcpy(small, big, (size_t)b->run);
    else memcpy(big, small, (size_t)b->run);
    return;
  }
  if (d + 1 == b->rank && b->run <= 16) {  // short runs: no call per element
    // At any alignment: what is moved may begin at any element of a narrower type.
#define RUN(N)                                                                    \
  for (i64 k = 0; k < b->dims[d]; k++) {                                          \
    if (out) __builtin_memcpy(small + k * b->small[d], big + k * b->big[d], (N)); \
    else __builtin_memcpy(big + k * b->big[d], small + k * b->small[d], (N));     \
  }                                                                               \
  return;
    switch (b->run) {
    case 1: RUN(1)
    case 2: RUN(2)
    case 4: RUN(4)
    case 8: RUN(8)
    default: break;
    }
#undef RUN
  }
  for (i64 k = 0; k < b->dims[d]; k++)
    copy_box(b, d + 1, big + k * b->big[d], small + k * b->small[d], out);
}

typedef struct box_job {
  const box *b;
  char *big, *small;
  bool out;
} box_job;
static void box_chunk(void *ctx, i64 k, u32 thread) {
  (void)thread;
  const box_job *j = ctx;
  copy_box(j->b, 1, j->big + k * j->b->big[0], j->small + k * j->b->small[0], j->out);
}

static void move_box(const box *b, char *big, char *small, bool out) {
  i64 bytes = b->run;
  for (u32 k = 0; k < b->rank; k++) bytes *= b->dims[k];
  if (bytes == 0) return;
  if (bytes < (256 << 10) || b->rank == 0) {
    copy_box(b, 0, big, small, out);
    return;
  }
  box_job j = {b, big, small, out};
  cpu_par_for(box_chunk, &j, b->dims[0]);
}

// ---- dynamic-slice and dynamic-update-slice -----------------------------------------------------

typedef struct dslice {
  box b;
  u32 rank, first_index;  // leaf of the first index operand
  bool vector;            // old form: one index array
  hlo_dtype it;
  i64 limit[HLO_MAX_RANK], stride[HLO_MAX_RANK];
  size_t bytes;  // of the whole operand
} dslice;

static bool plain_index(hlo_dtype t) { return hlo_dtype_is_integer(t) && hlo_dtype_bits(t) >= 8; }

static bool dslice_ok(const hlo_instr *i, u32 first) {
  if (!hlo_shape_is_array(i->shape)) return false;
  for (u32 k = first; k < i->noperands; k++)
    if (!plain_index(hlo_operand(i, k)->shape->dtype)) return false;
  return true;
}
bool cpu_dynamic_slice_supports(const hlo_instr *i) { return dslice_ok(i, 1); }
bool cpu_dynamic_update_slice_supports(const hlo_instr *i) { return dslice_ok(i, 2); }

static i64 dslice_offset(const dslice *d, void *const *bufs) {
  i64 at = 0;
  for (u32 k = 0; k < d->rank; k++) {
    i64 v = d->vector ? read_index(bufs[d->first_index], d->it, k)
                      : read_index(bufs[d->first_index + k], d->it, 0);
    at += clamp(v, 0, d->limit[k]) * d->stride[k];
  }
  return at;
}

static hs_status run_dynamic_slice(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const dslice *d = state;
  u32 out = d->first_index + (d->vector ? 1 : d->rank);
  move_box(&d->b, (char *)bufs[0] + dslice_offset(d, bufs), bufs[out], true);
  return HS_GOOD;
}

static void copy_whole(void *to, const void *from, size_t n) {
  if (to != from && n) {
    i64 dim = (i64)n, one = 1;
    cpu_relayout(to, &one, from, &one, 1, &dim, 1);
  }
}

static hs_status run_dynamic_update_slice(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const dslice *d = state;
  u32 out = d->first_index + (d->vector ? 1 : d->rank);
  copy_whole(bufs[out], bufs[0], d->bytes);
  move_box(&d->b, (char *)bufs[out] + dslice_offset(d, bufs), bufs[1], false);
  return HS_GOOD;
}

static dslice *make_dslice(const hlo_instr *i, const hlo_shape *array, const hlo_shape *part,
                           u32 first) {
  dslice *d = hs_calloc(1, sizeof *d);
  size_t e = hlo_dtype_storage(array->dtype);
  d->rank = array->rank;
  d->first_index = first;
  d->vector = i->noperands == first + 1 && hlo_operand(i, first)->shape->rank == 1;
  d->it = i->noperands > first ? hlo_operand(i, first)->shape->dtype : HLO_S32;
  d->b = make_box(array->rank, part->dims, array->dims, e);
  d->bytes = block_leaf_bytes(array);
  hlo_row_major_strides(array->rank, array->dims, d->stride);
  for (u32 k = 0; k < array->rank; k++) {
    d->limit[k] = array->dims[k] - part->dims[k];
    d->stride[k] *= (i64)e;
  }
  return d;
}

hs_status cpu_dynamic_slice_prepare(const hlo_instr *i, cpu_rt *out) {
  *out = (cpu_rt){.kind = "dynamic-slice",
                  .state = make_dslice(i, hlo_operand(i, 0)->shape, i->shape, 1),
                  .run = run_dynamic_slice};
  return HS_GOOD;
}

hs_status cpu_dynamic_update_slice_prepare(const hlo_instr *i, cpu_rt *out) {
  *out = (cpu_rt){.kind = "dynamic-update-slice",
                  .state = make_dslice(i, i->shape, hlo_operand(i, 1)->shape, 2),
                  .run = run_dynamic_update_slice,
                  .inplace = 1};
  return HS_GOOD;
}

// ---- gather -------------------------------------------------------------------------------------

typedef struct gather {
  box b;  // one slice: operand side big, dense side small
  // the same slice in the result: result side big, dense side small
  box into;
  bool direct;  // the slice is contiguous in the result
  u32 nmap;     // indices per slice position
  hlo_dtype it;
  i64 map_stride[HLO_MAX_RANK], map_limit[HLO_MAX_RANK];  // bytes per index step; clamp
  cpu_batch batch;  // operand and result in bytes, indices in elements
  i64 index_step;   // between components of one index vector
  i64 slices, slice_bytes, chunk;
} gather;

bool cpu_gather_supports(const hlo_instr *i) {
  return hlo_shape_is_array(i->shape) && hlo_operand(i, 0)->shape->elements &&
         plain_index(hlo_operand(i, 1)->shape->dtype);
}

typedef struct gather_job {
  const gather *g;
  char *op;
  const char *idx;
  char *out;
  bool failed;  // set by any thread that had no memory for a slice
} gather_job;

static void gather_one(const gather_job *j, i64 n, char *tmp) {
  const gather *g = j->g;
  i64 at, ix, to;
  cpu_batch_at(&g->batch, n, &ix, &at, &to);
  for (u32 k = 0; k < g->nmap; k++)
    at += clamp(read_index(j->idx, g->it, ix + (i64)k * g->index_step), 0, g->map_limit[k]) *
          g->map_stride[k];
  if (g->direct) {
    copy_box(&g->b, 0, j->op + at, j->out + to, true);
    return;
  }
  copy_box(&g->b, 0, j->op + at, tmp, true);
  copy_box(&g->into, 0, j->out + to, tmp, false);
}

// Where slices n, n + 1, ... are in the operand and in the result, in bytes. Along the innermost
// batch dim all of it advances by steps.
enum { GATHER_BLOCK = 256 };
#define ADD_INDEX(T)                                                  \
  for (i64 k = 0; k < run; k++) {                                     \
    i64 v = (i64)((const T *)(const void *)j->idx)[first + k * step]; \
    at[k] += (v < 0 ? 0 : v > limit ? limit : v) * stride;            \
  }
static void gather_places(const gather_job *j, i64 n, i64 count, i64 *at, i64 *to) {
  const gather *g = j->g;
  const cpu_batch *b = &g->batch;
  for (i64 run; count > 0; n += run, count -= run, at += run, to += run) {
    i64 ix, op, res, d = (i64)b->n - 1, step = d < 0 ? 0 : b->index[d];
    cpu_batch_at(b, n, &ix, &op, &res);
    run = d < 0 ? 1 : HS_MIN(count, b->dims[d] - n % b->dims[d]);
    for (i64 k = 0; k < run; k++) {
      at[k] = d < 0 ? op : op + k * b->operand[d];
      to[k] = d < 0 ? res : res + k * b->third[d];
    }
    for (u32 c = 0; c < g->nmap; c++) {
      i64 first = ix + (i64)c * g->index_step, limit = g->map_limit[c], stride = g->map_stride[c];
      if (g->it == HLO_S32) ADD_INDEX(i32)
      else if (g->it == HLO_U32) ADD_INDEX(u32)
      else if (g->it == HLO_S64) ADD_INDEX(i64)
      else
        for (i64 k = 0; k < run; k++)
          at[k] += clamp(read_index(j->idx, g->it, first + k * step), 0, limit) * stride;
    }
  }
}

// Slices whose elements are neighbours on both sides: rows.
#define ROWS(N)                                                                         \
  for (i64 k = 0; k < count; k++) __builtin_memcpy(j->out + to[k], j->op + at[k], (N)); \
  break
static void gather_rows(const gather_job *j, i64 n, i64 end) {
  i64 at[GATHER_BLOCK], to[GATHER_BLOCK];
  for (; n < end; n += GATHER_BLOCK) {
    i64 count = HS_MIN(end - n, (i64)GATHER_BLOCK), bytes = j->g->b.run;
    gather_places(j, n, count, at, to);
    switch (bytes) {
    case 1: ROWS(1);
    case 2: ROWS(2);
    case 4: ROWS(4);
    case 8: ROWS(8);
    case 12: ROWS(12);
    case 16: ROWS(16);
    case 32: ROWS(32);
    case 64: ROWS(64);
    default: ROWS((size_t)bytes);
    }
  }
}
#undef ROWS
#undef ADD_INDEX

static void gather_chunk(void *ctx, i64 k, u32 thread) {
  (void)thread;
  gather_job *j = ctx;
  if (j->g->direct && j->g->b.rank == 0) {
    gather_rows(j, k * j->g->chunk, HS_MIN((k + 1) * j->g->chunk, j->g->slices));
    return;
  }
  char local[4096], *tmp = local;
  if (!j->g->direct && j->g->slice_bytes > (i64)sizeof local)
    tmp = hs_try_alloc((size_t)j->g->slice_bytes);
  if (!tmp) return __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
  for (i64 n = k * j->g->chunk, end = HS_MIN(n + j->g->chunk, j->g->slices); n < end; n++)
    gather_one(j, n, tmp);
  if (tmp != local) hs_free(tmp);
}

static hs_status run_gather(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const gather *g = state;
  if (g->slice_bytes == 0 || g->slices == 0) return HS_GOOD;
  gather_job j = {g, bufs[0], bufs[1], bufs[2], false};
  cpu_par_for(gather_chunk, &j, (g->slices + g->chunk - 1) / g->chunk);
  return j.failed ? hs_fail(HS_E_NO_MEMORY, "no memory for slices of %lld bytes",
                            (long long)g->slice_bytes)
                  : HS_GOOD;
}

hs_status cpu_gather_prepare(const hlo_instr *i, cpu_rt *out) {
  const hlo_shape *op = hlo_operand(i, 0)->shape, *ix = hlo_operand(i, 1)->shape, *res = i->shape;
  hlo_ints offset = hlo_attr_ints(i, HLO_ATTR_OFFSET_DIMS),
           collapsed = hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS),
           map = hlo_attr_ints(i, HLO_ATTR_START_INDEX_MAP);
  hlo_ints ob = hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS),
           ib = hlo_attr_ints(i, HLO_ATTR_START_INDICES_BATCHING_DIMS),
           size = hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES);
  i64 ivd = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0);
  gather *g = hs_calloc(1, sizeof *g);
  i64 e = (i64)hlo_dtype_storage(op->dtype), os[HLO_MAX_RANK], is[HLO_MAX_RANK], rs[HLO_MAX_RANK];
  hlo_row_major_strides(op->rank, op->dims, os);
  hlo_row_major_strides(ix->rank, ix->dims, is);
  hlo_row_major_strides(res->rank, res->dims, rs);
  i64 sizes[HLO_MAX_RANK];  // where the result has elements, a size of 0 takes one, too
  for (u32 d = 0; d < op->rank; d++) sizes[d] = res->elements ? HS_MAX(size.v[d], 1) : size.v[d];
  g->b = make_box(op->rank, sizes, op->dims, (size_t)e);
  // The same slice inside the result: offset dims in order hold the dims of the slice that are not
  // collapsed.
  i64 sd[HLO_MAX_RANK], bs[HLO_MAX_RANK];
  u32 ns = 0;
  g->slice_bytes = e;
  for (u32 d = 0, k = 0; d < op->rank; d++) {
    g->slice_bytes *= sizes[d];
    if (hlo_ints_has(collapsed, d) || hlo_ints_has(ob, d)) continue;
    sd[ns] = sizes[d];
    bs[ns++] = rs[offset.v[k++]];
  }
  g->into = (box){.run = e};
  i64 dense = e;
  bool contiguous = true;
  u32 d = ns;
  while (d > 0 && (sd[d - 1] == 1 || bs[d - 1] * e == g->into.run)) {
    d--;
    g->into.run *= sd[d];
    dense *= sd[d];
  }
  contiguous = d == 0;
  i64 small[HLO_MAX_RANK];
  for (u32 k = d; k-- > 0;) {
    small[k] = dense;
    dense *= sd[k];
  }
  for (u32 k = 0; k < d; k++) {
    g->into.dims[k] = sd[k];
    g->into.big[k] = bs[k] * e;
    g->into.small[k] = small[k];
  }
  g->into.rank = d;
  g->direct = contiguous;
  g->it = ix->dtype;
  g->nmap = map.n;
  g->index_step = ivd < ix->rank ? is[ivd] : 1;
  for (u32 k = 0; k < map.n; k++) {
    g->map_stride[k] = os[map.v[k]] * e;
    g->map_limit[k] = op->dims[map.v[k]] - sizes[map.v[k]];
  }
  g->slices = 1;
  for (u32 r = 0, id = 0; r < res->rank; r++) {
    if (hlo_ints_has(offset, r)) continue;
    if ((i64)id == ivd) id++;
    i64 along = 0;
    for (u32 k = 0; k < ib.n; k++)
      if (ib.v[k] == id) along = os[ob.v[k]] * e;
    cpu_batch_add(&g->batch, res->dims[r], is[id], along, rs[r] * e);
    g->slices *= res->dims[r];
    id++;
  }
  g->chunk = HS_MAX((i64)1, 65536 / HS_MAX(g->slice_bytes, (i64)16));
  *out = (cpu_rt){.kind = "gather", .state = g, .run = run_gather};
  return HS_GOOD;
}
