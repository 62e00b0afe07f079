// gen_data.c — operations of random modules that move data: no arithmetic, so nothing about the
// values changes.
#include "tests/random/gen.h"

#include <math.h>

static gen_value *any(gen *g, u32 least, u32 most) {
  return gen_of_type(g, gen_any_type(g), least, most, GEN_ANY);
}

static void join(gen_value *like, const gen_value *b) {
  like->lo = fmin(like->lo, b->lo);
  like->hi = fmax(like->hi, b->hi);
  like->err = fmax(like->err, b->err);
  like->soft = fmax(like->soft, b->soft);
  like->integral = like->integral && b->integral;
}

// As an operand the value may have skipped a rounding; moving it makes that visible.
static gen_value moved(const gen_value *a) {
  gen_value like = *a;
  like.err = a->soft;
  return like;
}

bool gen_broadcast(gen *g) {
  gen_value *a = any(g, 0, 3), like = moved(a);
  u32 rank = a->rank + gen_below(g, 4 - a->rank) + (a->rank == 0);
  i64 at[GEN_MAX_RANK], n = 1;
  gen_dims(g, rank, like.dims);
  like.rank = rank;
  u32 from = 0;
  // which of the result's dimensions are the operand's, ascending
  for (u32 k = 0; k < rank && from < a->rank; k++)
    if (rank - k == a->rank - from || gen_chance(g, 50))
      at[from] = k, like.dims[k] = a->dims[from++];
  for (u32 k = 0; k < rank; k++) n *= like.dims[k];
  if (n > 2 * GEN_MAX_ELEMENTS) return false;
  gen_put(g, &like, "broadcast(%s), dimensions={%s}", a->name, gen_ints(a->rank, at));
  return true;
}

bool gen_reshape(gen *g) {
  gen_value *a = any(g, 0, 4), like = moved(a);
  i64 n = gen_count(a);
  like.rank = 0;
  while (n > 1 && like.rank < 3) {
    i64 d = 1 + gen_below(g, (u32)HS_MIN(n, 12));
    while (n % d) d--;
    if (d == 1 && gen_chance(g, 70)) d = n;
    like.dims[like.rank++] = d;
    n /= d;
  }
  if (n != 1 || gen_chance(g, 20)) like.dims[like.rank++] = n;
  gen_put(g, &like, "reshape(%s)", a->name);
  return true;
}

bool gen_transpose(gen *g) {
  gen_value *a = any(g, 1, 4), like = moved(a);
  i64 perm[GEN_MAX_RANK];
  const char *text = gen_perm(g, a->rank, perm);
  for (u32 k = 0; k < a->rank; k++) like.dims[k] = a->dims[perm[k]];
  gen_put(g, &like, "transpose(%s), dimensions={%s}", a->name, text);
  return true;
}

bool gen_slice(gen *g) {
  gen_value *a = any(g, 1, 4), like = moved(a);
  hs_buf b = {0};
  for (u32 k = 0; k < a->rank; k++) {
    i64 start = gen_below(g, (u32)a->dims[k] + 1),
        limit = start + gen_below(g, (u32)(a->dims[k] - start) + 1),
        stride = 1 + (gen_chance(g, 30) ? gen_below(g, 3) : 0);
    if (gen_chance(g, 60)) start = 0;
    like.dims[k] = (limit - start + stride - 1) / stride;
    hs_buf_printf(&b, "%s[%lld:%lld:%lld]", k ? ", " : "", (long long)start, (long long)limit,
                  (long long)stride);
  }
  gen_put(g, &like, "slice(%s), slice={%s}", a->name, hs_buf_cstr(&b));
  hs_buf_free(&b);
  return true;
}

bool gen_reverse(gen *g) {
  gen_value *a = any(g, 1, 4), like = moved(a);
  i64 dims[GEN_MAX_RANK];
  u32 n = 0;
  for (u32 k = 0; k < a->rank; k++)
    if (gen_chance(g, 50)) dims[n++] = k;
  gen_put(g, &like, "reverse(%s), dimensions={%s}", a->name, gen_ints(n, dims));
  return true;
}

bool gen_concatenate(gen *g) {
  gen_value *a = any(g, 1, 3), like = moved(a), *part[3] = {a};
  u32 dim = gen_below(g, a->rank), n = 1 + gen_below(g, 3);
  hs_buf b = {0};
  for (u32 k = 1; k < n; k++) {
    i64 dims[GEN_MAX_RANK];
    for (u32 d = 0; d < a->rank; d++) dims[d] = a->dims[d];
    if (gen_chance(g, 50)) dims[dim] = 1 + gen_below(g, 6);
    part[k] = gen_operand(g, a->type, a->rank, dims, GEN_ANY);
    gen_value m = moved(part[k]);
    join(&like, &m);
    like.dims[dim] += dims[dim];
  }
  for (u32 k = 0; k < n; k++) hs_buf_printf(&b, "%s%s", k ? ", " : "", part[k]->name);
  gen_put(g, &like, "concatenate(%s), dimensions={%u}", hs_buf_cstr(&b), dim);
  hs_buf_free(&b);
  return true;
}

bool gen_pad(gen *g) {
  gen_value *a = any(g, 1, 4), like = moved(a), *v = gen_operand(g, a->type, 0, NULL, GEN_ANY);
  hs_buf b = {0};
  gen_value m = moved(v);
  join(&like, &m);
  for (u32 k = 0; k < a->rank; k++) {
    i64 low = (i64)gen_below(g, 6) - 2, high = (i64)gen_below(g, 6) - 2,
        interior = gen_chance(g, 25) ? 1 + gen_below(g, 2) : 0;
    i64 size = a->dims[k] + (a->dims[k] ? (a->dims[k] - 1) * interior : 0) + low + high;
    if (size < 0) high -= size, size = 0;
    like.dims[k] = size;
    hs_buf_printf(&b, "%s%lld_%lld_%lld", k ? "x" : "", (long long)low, (long long)high,
                  (long long)interior);
  }
  bool ok = gen_count(&like) <= 3 * GEN_MAX_ELEMENTS;
  if (ok) gen_put(g, &like, "pad(%s, %s), padding=%s", a->name, v->name, hs_buf_cstr(&b));
  hs_buf_free(&b);
  return ok;
}

bool gen_iota(gen *g) {
  hlo_dtype t = gen_chance(g, 50) ? gen_float(g) : gen_int(g);
  gen_value like = gen_shape_of(t, 1 + gen_below(g, 3), (i64[GEN_MAX_RANK]){0});
  gen_dims(g, like.rank, like.dims);
  u32 dim = gen_below(g, like.rank);
  like.hi = (double)HS_MAX(like.dims[dim] - 1, 0);
  like.integral = true;
  gen_put(g, &like, "iota(), iota_dimension=%u", dim);
  return true;
}

bool gen_copy(gen *g) {
  gen_value *a = any(g, 0, 4), like = moved(a);
  if (gen_chance(g, 50)) gen_put(g, &like, "copy(%s)", a->name);
  else gen_put(g, &like, "opt-barrier(%s)", a->name);
  return true;
}

// ---- by index -----------------------------------------------------------------------------------
static gen_value *indices(gen *g, u32 rank, const i64 *dims, i64 most) {
  hlo_dtype t = gen_chance(g, 80) ? HLO_S32 : HLO_S64;
  // sometimes outside: clamped by reads, left out by writes
  i64 out = gen_chance(g, 30) ? 3 : 0;
  return gen_parameter(g, t, rank, dims, (double)-out, (double)(HS_MAX(most, 0) + out), true);
}

static void start_names(gen *g, const gen_value *a, const i64 *sizes, hs_buf *b) {
  hlo_dtype t = gen_chance(g, 80) ? HLO_S32 : HLO_U8;
  for (u32 k = 0; k < a->rank; k++) {
    i64 out = t == HLO_S32 && gen_chance(g, 20) ? 2 : 0;
    hs_buf_printf(
        b, ", %s",
        gen_parameter(g, t, 0, NULL, (double)-out, (double)(a->dims[k] - sizes[k] + out), true)
            ->name);
  }
}

bool gen_dynamic_slice(gen *g) {
  gen_value *a = any(g, 1, 3), like = moved(a);
  hs_buf b = {0};
  for (u32 k = 0; k < a->rank; k++)
    like.dims[k] = a->dims[k] ? 1 + gen_below(g, (u32)a->dims[k]) : 0;
  start_names(g, a, like.dims, &b);
  gen_put(g, &like, "dynamic-slice(%s%s), dynamic_slice_sizes={%s}", a->name, hs_buf_cstr(&b),
          gen_ints(like.rank, like.dims));
  hs_buf_free(&b);
  return true;
}

bool gen_dynamic_update_slice(gen *g) {
  gen_value *a = any(g, 1, 3), like = moved(a);
  i64 dims[GEN_MAX_RANK];
  for (u32 k = 0; k < a->rank; k++) dims[k] = a->dims[k] ? 1 + gen_below(g, (u32)a->dims[k]) : 0;
  gen_value *u = gen_operand(g, a->type, a->rank, dims, GEN_ANY), m = moved(u);
  hs_buf b = {0};
  join(&like, &m);
  start_names(g, a, dims, &b);
  gen_put(g, &like, "dynamic-update-slice(%s, %s%s)", a->name, u->name, hs_buf_cstr(&b));
  hs_buf_free(&b);
  return true;
}

// Windows of the operand at N places; which dimensions are indexed and which are collapsed is
// random.
typedef struct windows {
  i64 sizes[GEN_MAX_RANK], map[GEN_MAX_RANK], collapsed[GEN_MAX_RANK], offset[GEN_MAX_RANK],
      wdims[GEN_MAX_RANK];
  u32 nmap, ncollapsed, nwindow;
  i64 places;
  gen_value *index;
} windows;

static bool make_windows(gen *g, const gen_value *a, windows *w) {
  *w = (windows){.places = 1 + gen_below(g, 6)};
  i64 least = INT64_MAX;
  for (u32 k = 0; k < a->rank; k++) {
    if (!a->dims[k]) return false;
    bool indexed = gen_chance(g, 60), one = indexed && gen_chance(g, 60);
    w->sizes[k] = one ? 1 : indexed ? 1 + gen_below(g, (u32)a->dims[k]) : a->dims[k];
    if (indexed) w->map[w->nmap++] = k, least = HS_MIN(least, a->dims[k] - w->sizes[k]);
    if (one) w->collapsed[w->ncollapsed++] = k;
    else w->wdims[w->nwindow++] = w->sizes[k];
  }
  if (!w->nmap) return false;
  w->index = indices(g, 2, (i64[]){w->places, w->nmap}, least);
  for (u32 k = 0; k < w->nwindow; k++) w->offset[k] = k + 1;
  return true;
}

bool gen_gather(gen *g) {
  gen_value *a = any(g, 1, 3), like = moved(a);
  windows w;
  if (!make_windows(g, a, &w)) return false;
  like.rank = 1 + w.nwindow;
  like.dims[0] = w.places;
  for (u32 k = 0; k < w.nwindow; k++) like.dims[k + 1] = w.wdims[k];
  gen_put(g, &like,
          "gather(%s, %s), offset_dims={%s}, collapsed_slice_dims={%s}, start_index_map={%s}, "
          "index_vector_dim=1, slice_sizes={%s}",
          a->name, w.index->name, gen_ints(w.nwindow, w.offset),
          gen_ints(w.ncollapsed, w.collapsed), gen_ints(w.nmap, w.map), gen_ints(a->rank, w.sizes));
  return true;
}

bool gen_scatter(gen *g) {
  hlo_dtype t = gen_chance(g, 50) ? gen_int(g) : gen_chance(g, 80) ? HLO_F32 : HLO_F64;
  gen_value *a = gen_of_type(g, t, 1, 3, GEN_INTEGRAL), like = *a;
  windows w;
  if (!make_windows(g, a, &w)) return false;
  i64 dims[GEN_MAX_RANK] = {w.places};
  for (u32 k = 0; k < w.nwindow; k++) dims[k + 1] = w.wdims[k];
  gen_value *u = gen_operand(g, t, 1 + w.nwindow, dims, GEN_INTEGRAL);
  static const char *const ops[] = {"add", "maximum", "minimum"};
  const char *op = ops[gen_below(g, HS_COUNT(ops))];
  like.lo = a->lo + HS_MIN(u->lo, 0) * (double)w.places;
  like.hi = a->hi + HS_MAX(u->hi, 0) * (double)w.places;
  if (hlo_dtype_is_integer(t)) like.lo = gen_type_lo(t), like.hi = gen_type_hi(t);
  like.integral = a->integral && u->integral;
  if (!like.integral || (hlo_dtype_is_float(t) && a->soft + u->soft > 0)) return false;
  gen_put(g, &like,
          "scatter(%s, %s, %s), update_window_dims={%s}, inserted_window_dims={%s}, "
          "scatter_dims_to_operand_dims={%s}, index_vector_dim=1, to_apply=%s",
          a->name, w.index->name, u->name, gen_ints(w.nwindow, w.offset),
          gen_ints(w.ncollapsed, w.collapsed), gen_ints(w.nmap, w.map), gen_reducer(g, op, t));
  return true;
}

bool gen_dimension_size(gen *g) {
  gen_value *a = any(g, 1, 3), like = gen_shape_of(HLO_S32, 0, NULL);
  u32 dim = gen_below(g, a->rank);
  like.lo = like.hi = (double)a->dims[dim];
  like.integral = true;
  gen_put(g, &like, "get-dimension-size(%s), dimensions={%u}", a->name, dim);
  return true;
}
