// rt_scatter.c — scatter and select-and-scatter.
//
// Scatter: updates are applied in index order, so that results do not depend on the number of
// threads. Chunks own disjoint parts of the operand: the update window is divided into column
// ranges, and each chunk applies every update to its own columns; batching dims are divided as
// well. Windows that are out of bounds are skipped as a whole, as HLO says.
//
// Select-and-scatter: for each source element the window of the operand is searched for the element
// that `select` keeps (first one wins among equals), and the source is combined into that position.
// Windows may overlap, so a chunk is one index of the leading dims that the window does not span.
#include "backends/cpu/scalar.h"

enum { MAXN = 16 };

typedef struct scatter {
  u32 n;  // arrays
  hlo_dtype type[MAXN], it;
  size_t bytes[MAXN];
  cpu_combine comb;
  cpu_scalar *fn;
  u32 nmap;
  i64 map_stride[HLO_MAX_RANK], map_limit[HLO_MAX_RANK];
  i64 index_step;
  cpu_batch batch;  // in elements
  u32 nwin;
  i64 wdims[HLO_MAX_RANK], wop[HLO_MAX_RANK], wupd[HLO_MAX_RANK];
  // runs of `run` elements, contiguous or strided alike on both sides
  i64 updates, window, runs, run, cols;
  // leading batch dims whose elements never share a destination
  u32 own;
  i64 owners;
} scatter;

static i64 index_at(const void *p, hlo_dtype t, i64 at) {
  if (t == HLO_S32) return ((const i32 *)p)[at];
  if (t == HLO_S64) return ((const i64 *)p)[at];
  return hlo_elem_to_i64(t, (const char *)p + (size_t)at * hlo_dtype_storage(t));
}

bool cpu_scatter_supports(const hlo_instr *i) {
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  u32 n = i->noperands / 2;
  if (!c || n == 0 || n > MAXN || i->noperands != 2 * n + 1 ||
      !hlo_dtype_is_integer(hlo_operand(i, n)->shape->dtype))
    return false;
  // operands, updates, results and the computation in the same precision
  for (u32 k = 0; k < n; k++) {
    const hlo_shape *r = hlo_shape_is_tuple(i->shape) ? i->shape->elems[k] : i->shape;
    hlo_dtype from = hlo_operand(i, k)->shape->dtype;
    if (r->dtype != from || hlo_operand(i, n + 1 + k)->shape->dtype != from ||
        c->params[k]->shape->dtype != from || c->params[n + k]->shape->dtype != from)
      return false;
  }
  if (cpu_scalar_ok(c)) return true;
  hlo_dtype t = hlo_operand(i, 0)->shape->dtype;
  return n == 1 && cpu_combine_of(c) == CPU_COMB_SECOND && hlo_dtype_is_array(t);
}

// Combines `n` updates into the operand, both with a stride.
static void combine_run(const scatter *s, char *op, i64 os, const char *up, i64 us, i64 n) {
  size_t e = hlo_dtype_storage(s->type[0]);
#define LOOP(T, EXPR)                         \
  {                                           \
    T *o = (T *)(void *)op;                   \
    const T *u = (const T *)(const void *)up; \
    for (i64 k = 0; k < n; k++) {             \
      T a = o[k * os], b = u[k * us];         \
      o[k * os] = (T)(EXPR);                  \
    }                                         \
    return;                                   \
  }
#define ALL(T)                                                                         \
  switch (s->comb) {                                                                   \
  case CPU_COMB_ADD: LOOP(T, a + b) case CPU_COMB_MUL : LOOP(T, a *b) default : break; \
  }
  if (s->comb == CPU_COMB_SECOND) {
    if (os == 1 && us == 1) {
      memcpy(op, up, (size_t)n * e);
      return;
    }
    for (i64 k = 0; k < n; k++) memcpy(op + (size_t)(k * os) * e, up + (size_t)(k * us) * e, e);
    return;
  }
  switch (s->type[0]) {
  case HLO_F32: ALL(float) break;
  case HLO_F64: ALL(double) break;
  case HLO_S32:
  case HLO_U32: ALL(u32) break;
  case HLO_S64:
  case HLO_U64: ALL(u64) break;
  default: break;
  }
  for (i64 k = 0; k < n; k++) {
    const void *in[2] = {op + (size_t)(k * os) * e, up + (size_t)(k * us) * e};
    void *out[1] = {op + (size_t)(k * os) * e};
    cpu_scalar_run(s->fn, in, out);
  }
#undef ALL
#undef LOOP
}

typedef struct scatter_job {
  const scatter *s;
  void *const *bufs;
} scatter_job;

static void combine_many(const scatter *s, void *const *bufs, i64 op, i64 up) {
  const void *in[2 * MAXN];
  void *out[MAXN];
  u64 tmp[MAXN][2];
  for (u32 k = 0; k < s->n; k++) {
    size_t e = hlo_dtype_storage(s->type[k]);
    in[k] = (char *)bufs[2 * s->n + 1 + k] + (size_t)op * e;
    in[s->n + k] = (char *)bufs[s->n + 1 + k] + (size_t)up * e;
    out[k] = tmp[k];
  }
  cpu_scalar_run(s->fn, in, out);
  for (u32 k = 0; k < s->n; k++)
    memcpy((char *)bufs[2 * s->n + 1 + k] + (size_t)op * hlo_dtype_storage(s->type[k]), tmp[k],
           hlo_dtype_storage(s->type[k]));
}

// One update, columns [c0, c1) of each run of its window.
static void apply_update(const scatter *s, void *const *bufs, i64 n, i64 c0, i64 c1) {
  i64 at, ix, up;
  cpu_batch_at(&s->batch, n, &ix, &at, &up);
  for (u32 k = 0; k < s->nmap; k++) {
    i64 v = index_at(bufs[s->n], s->it, ix + (i64)k * s->index_step);
    if (v < 0 || v > s->map_limit[k]) return;
    at += v * s->map_stride[k];
  }
  u32 last = s->nwin ? s->nwin - 1 : 0;
  i64 os = s->nwin ? s->wop[last] : 1, us = s->nwin ? s->wupd[last] : 1;
  size_t e = hlo_dtype_storage(s->type[0]);
  for (i64 r = 0; r < s->runs; r++) {
    i64 o = at, u = up, q = r;
    for (u32 d = last; d-- > 0;) {
      o += q % s->wdims[d] * s->wop[d];
      u += q % s->wdims[d] * s->wupd[d];
      q /= s->wdims[d];
    }
    if (s->n == 1)
      combine_run(s, (char *)bufs[3] + (size_t)(o + c0 * os) * e, os,
                  (char *)bufs[2] + (size_t)(u + c0 * us) * e, us, c1 - c0);
    else
      for (i64 k = c0; k < c1; k++) combine_many(s, bufs, o + k * os, u + k * us);
  }
}

static void scatter_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const scatter_job *j = ctx;
  const scatter *s = j->s;
  i64 parts = (s->run + s->cols - 1) / s->cols, c0 = chunk % parts * s->cols,
      per = s->updates / s->owners, first = chunk / parts * per;
  for (i64 n = first; n < first + per; n++)
    apply_update(s, j->bufs, n, c0, HS_MIN(s->run, c0 + s->cols));
}

static void copy_array(void *to, const void *from, size_t n) {
  if (to == from || !n) return;
  enum { LINE = 4096 };
  i64 dims[3] = {(i64)(n / LINE / 16), 16, LINE}, st[3] = {16 * LINE, LINE, 1};
  size_t head = (size_t)dims[0] * 16 * LINE;
  if (dims[0]) cpu_relayout(to, st, from, st, 3, dims, 1);
  memcpy((char *)to + head, (const char *)from + head, n - head);
}

static hs_status run_scatter(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const scatter *s = state;
  for (u32 k = 0; k < s->n; k++) copy_array(bufs[2 * s->n + 1 + k], bufs[k], s->bytes[k]);
  if (s->updates == 0 || s->window == 0) return HS_GOOD;
  scatter_job j = {s, bufs};
  i64 chunks = s->owners * ((s->run + s->cols - 1) / s->cols);
  if (s->updates * s->window < 8192)
    for (i64 k = 0; k < chunks; k++) scatter_chunk(&j, k, 0);
  else cpu_par_for(scatter_chunk, &j, chunks);
  return HS_GOOD;
}

static void free_scatter(void *state) {
  scatter *s = state;
  cpu_scalar_free(s->fn);
  hs_free(s);
}

// Window dims of operand and updates side by side; merged where both are contiguous.
static void add_window_dim(scatter *s, i64 dim, i64 op, i64 up) {
  s->window *= dim;
  if (dim == 1) return;
  u32 k = s->nwin;
  if (k && s->wop[k - 1] == op * dim && s->wupd[k - 1] == up * dim) {
    s->wdims[k - 1] *= dim;
    s->wop[k - 1] = op;
    s->wupd[k - 1] = up;
    return;
  }
  s->wdims[k] = dim;
  s->wop[k] = op;
  s->wupd[k] = up;
  s->nwin++;
}

hs_status cpu_scatter_prepare(const hlo_instr *i, cpu_rt *out) {
  scatter *s = hs_calloc(1, sizeof *s);
  s->n = i->noperands / 2;
  const hlo_shape *op = hlo_operand(i, 0)->shape, *ix = hlo_operand(i, s->n)->shape,
                  *up = hlo_operand(i, s->n + 1)->shape;
  hlo_ints uw = hlo_attr_ints(i, HLO_ATTR_UPDATE_WINDOW_DIMS),
           ins = hlo_attr_ints(i, HLO_ATTR_INSERTED_WINDOW_DIMS),
           map = hlo_attr_ints(i, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
  hlo_ints ob = hlo_attr_ints(i, HLO_ATTR_INPUT_BATCHING_DIMS),
           ib = hlo_attr_ints(i, HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS);
  i64 ivd = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0), os[HLO_MAX_RANK], is[HLO_MAX_RANK],
      us[HLO_MAX_RANK], size[HLO_MAX_RANK];
  const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  hlo_row_major_strides(op->rank, op->dims, os);
  hlo_row_major_strides(ix->rank, ix->dims, is);
  hlo_row_major_strides(up->rank, up->dims, us);
  for (u32 k = 0; k < s->n; k++) {
    s->type[k] = hlo_operand(i, k)->shape->dtype;
    s->bytes[k] = block_leaf_bytes(hlo_operand(i, k)->shape);
  }
  s->it = ix->dtype;
  s->comb = s->n == 1 ? cpu_combine_of(c) : CPU_COMB_OTHER;
  s->fn = cpu_scalar_compile(c);
  s->updates = s->window = s->owners = 1;
  for (u32 d = 0, k = 0; d < op->rank; d++) {
    size[d] = 1;
    if (hlo_ints_has(ins, d) || hlo_ints_has(ob, d)) continue;
    size[d] = up->dims[uw.v[k]];
    add_window_dim(s, size[d], os[d], us[uw.v[k++]]);
  }
  s->run = s->nwin ? s->wdims[s->nwin - 1] : 1;
  s->runs = s->run ? s->window / s->run : 0;
  s->cols = HS_MAX((i64)64, (s->run + 15) / 16);
  s->nmap = map.n;
  s->index_step = ivd < ix->rank ? is[ivd] : 1;
  for (u32 k = 0; k < map.n; k++) {
    s->map_stride[k] = os[map.v[k]];
    s->map_limit[k] = op->dims[map.v[k]] - size[map.v[k]];
  }
  bool owning = true;
  for (u32 d = 0, id = 0; d < up->rank; d++) {
    if (hlo_ints_has(uw, d)) continue;
    if ((i64)id == ivd) id++;
    u32 n = s->batch.n++;
    s->batch.dims[n] = up->dims[d];
    s->batch.third[n] = us[d];
    s->batch.index[n] = is[id];
    bool batching = false;
    for (u32 k = 0; k < ib.n; k++)
      if (ib.v[k] == id) {
        s->batch.operand[n] = os[ob.v[k]];
        batching = true;
      }
    // leading batching dims own disjoint parts of the operand
    owning = owning && batching;
    if (owning) s->owners *= HS_MAX(up->dims[d], (i64)1);
    s->updates *= up->dims[d];
    id++;
  }
  *out = (cpu_rt){.kind = "scatter",
                  .state = s,
                  .run = run_scatter,
                  .release = free_scatter,
                  .inplace = (1u << s->n) - 1};
  return HS_GOOD;
}

// ---- select-and-scatter -------------------------------------------------------------------------

typedef struct sas {
  hlo_dtype type;
  u32 rank;
  // operand and source
  i64 od[HLO_MAX_RANK], sd[HLO_MAX_RANK], os[HLO_MAX_RANK], ss[HLO_MAX_RANK];
  i64 size[HLO_MAX_RANK], stride[HLO_MAX_RANK], pad[HLO_MAX_RANK];
  i64 dir;  // HLO_DIRECTION_GE / GT on floats for the fast path; -1
  cpu_combine comb;
  cpu_scalar *select, *scatter;
  u32 lead;
  i64 chunks;  // product of the leading dims that the window does not span
} sas;

bool cpu_select_and_scatter_supports(const hlo_instr *i) {
  return hlo_shape_is_array(i->shape) && !hlo_dtype_is_complex(i->shape->dtype) &&
         hlo_attr_ptr(i, HLO_ATTR_WINDOW) && cpu_scalar_ok(hlo_attr_comp(i, HLO_ATTR_SELECT)) &&
         cpu_scalar_ok(hlo_attr_comp(i, HLO_ATTR_SCATTER));
}

static i64 select_direction(const hlo_computation *c) {
  const hlo_instr *r = c->root;
  if (r->opcode != HLO_COMPARE || hlo_operand(r, 0) != c->params[0] ||
      hlo_operand(r, 1) != c->params[1])
    return -1;
  i64 d = hlo_attr_int(r, HLO_ATTR_DIRECTION, -1);
  return d == HLO_DIRECTION_GE || d == HLO_DIRECTION_GT ? d : -1;
}

static bool keeps(const sas *s, const char *kept, const char *other) {
  if (s->type == HLO_F32 && s->dir >= 0) {
    float a = *(const float *)(const void *)kept, b = *(const float *)(const void *)other;
    return s->dir == HLO_DIRECTION_GE ? a >= b : a > b;
  }
  u8 r = 0;
  const void *in[2] = {kept, other};
  void *out[1] = {&r};
  cpu_scalar_run(s->select, in, out);
  return r;
}

typedef struct sas_job {
  const sas *s;
  const char *op, *src;
  char *out;
} sas_job;

static void one_window(const sas_job *j, const i64 *at, i64 src) {
  const sas *s = j->s;
  size_t e = hlo_dtype_storage(s->type);
  i64 total = 1, best = -1;
  for (u32 d = s->lead; d < s->rank; d++) total *= s->size[d];
  i64 base = 0;
  for (u32 d = 0; d < s->lead; d++) base += at[d] * s->os[d];
  for (i64 w = 0; w < total; w++) {
    i64 q = w, o = base;
    bool inside = true;
    for (u32 d = s->rank; d-- > s->lead;) {
      i64 x = at[d] * s->stride[d] - s->pad[d] + q % s->size[d];
      q /= s->size[d];
      if (x < 0 || x >= s->od[d]) {
        inside = false;
        break;
      }
      o += x * s->os[d];
    }
    if (inside && (best < 0 || !keeps(s, j->op + (size_t)best * e, j->op + (size_t)o * e)))
      best = o;
  }
  if (best < 0) return;
  char *to = j->out + (size_t)best * e;
  const char *from = j->src + (size_t)src * e;
  if (s->type == HLO_F32 && s->comb == CPU_COMB_ADD) {
    *(float *)(void *)to += *(const float *)(const void *)from;
    return;
  }
  const void *in[2] = {to, from};  // what is there, then what comes, as in scatter
  void *out[1] = {to};
  cpu_scalar_run(s->scatter, in, out);
}

static void sas_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const sas_job *j = ctx;
  const sas *s = j->s;
  i64 at[HLO_MAX_RANK], n = 1, base = 0;
  for (u32 d = s->lead; d-- > 0;) {
    at[d] = chunk % s->sd[d];
    chunk /= s->sd[d];
    base += at[d] * s->ss[d];
  }
  for (u32 d = s->lead; d < s->rank; d++) n *= s->sd[d];
  for (i64 k = 0; k < n; k++) {
    i64 q = k, src = base;
    for (u32 d = s->rank; d-- > s->lead;) {
      at[d] = q % s->sd[d];
      q /= s->sd[d];
      src += at[d] * s->ss[d];
    }
    one_window(j, at, src);
  }
}

static hs_status run_sas(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const sas *s = state;
  size_t e = hlo_dtype_storage(s->type);
  i64 n = 1;
  for (u32 d = 0; d < s->rank; d++) n *= s->od[d];
  if (n == 0) return HS_GOOD;
  i64 zero[1] = {0}, one[1] = {1}, dim[1] = {n};
  cpu_relayout(bufs[3], one, bufs[2], zero, 1, dim, e);
  sas_job j = {s, bufs[0], bufs[1], bufs[3]};
  cpu_par_for(sas_chunk, &j, s->chunks);
  return HS_GOOD;
}

static void free_sas(void *state) {
  sas *s = state;
  cpu_scalar_free(s->select);
  cpu_scalar_free(s->scatter);
  hs_free(s);
}

hs_status cpu_select_and_scatter_prepare(const hlo_instr *i, cpu_rt *out) {
  const hlo_shape *op = hlo_operand(i, 0)->shape, *src = hlo_operand(i, 1)->shape;
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  sas *s = hs_calloc(1, sizeof *s);
  s->type = op->dtype;
  s->rank = op->rank;
  hlo_row_major_strides(op->rank, op->dims, s->os);
  hlo_row_major_strides(src->rank, src->dims, s->ss);
  s->chunks = 1;
  bool leading = true;
  for (u32 d = 0; d < op->rank; d++) {
    s->od[d] = op->dims[d];
    s->sd[d] = src->dims[d];
    s->size[d] = w->v[d].size;
    s->stride[d] = HS_MAX(w->v[d].stride, (i64)1);
    s->pad[d] = w->v[d].pad_low;
    leading = leading && s->size[d] == 1 && s->stride[d] == 1 && s->pad[d] == 0 &&
              s->od[d] == s->sd[d] && s->chunks < 256;
    if (leading) {
      s->lead = d + 1;
      s->chunks *= src->dims[d];
    }
  }
  s->dir = select_direction(hlo_attr_comp(i, HLO_ATTR_SELECT));
  s->comb = cpu_combine_of(hlo_attr_comp(i, HLO_ATTR_SCATTER));
  s->select = cpu_scalar_compile(hlo_attr_comp(i, HLO_ATTR_SELECT));
  s->scatter = cpu_scalar_compile(hlo_attr_comp(i, HLO_ATTR_SCATTER));
  *out = (cpu_rt){.kind = "select-and-scatter", .state = s, .run = run_sas, .release = free_sas};
  return HS_GOOD;
}
