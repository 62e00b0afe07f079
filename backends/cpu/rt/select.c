// select.c — select-and-scatter.
//
// For each source element the window of the operand is searched for the element that `select` keeps
// (first one wins among equals), and the source is combined into that position. Windows may
// overlap, so a chunk is one index of the leading dims that the window does not span.
//
// Where the greatest (or least) is kept and sources are added, as in the gradient of a pooling, the
// windows of neighbouring sources are searched side by side, in lanes: neighbours along the
// trailing dims that the window does not span (channels last), which are also divided among
// chunks, or else along the last dim. Each element still gets its sources in their order.
#include "backends/cpu/rt/scalar.h"

typedef struct sas {
  hlo_dtype type;
  u32 rank;
  // operand and source
  i64 od[HLO_MAX_RANK], sd[HLO_MAX_RANK], os[HLO_MAX_RANK], ss[HLO_MAX_RANK];
  i64 size[HLO_MAX_RANK], stride[HLO_MAX_RANK], pad[HLO_MAX_RANK];
  i64 dir;  // of the comparison of the two; -1: something else is computed
  cpu_combine comb;
  cpu_scalar *select, *scatter;
  u32 lead;
  i64 chunks;  // product of the leading dims that the window does not span
  // in lanes: dims [lead, last) are walked; 0 lanes: one window after the other
  u32 last;
  i64 lanes, step;  // sources side by side, their windows `step` elements apart
  i64 block;        // lanes of a chunk, where lanes are divided among chunks
  i64 ntaps;
  i32 *tap;  // of each element of the window: its place in dims [lead, last], then its offset
} sas;

bool cpu_select_and_scatter_supports(const hlo_instr *i) {
  return hlo_shape_is_array(i->shape) && !hlo_dtype_is_complex(i->shape->dtype) &&
         hlo_attr_ptr(i, HLO_ATTR_WINDOW) && cpu_scalar_ok(hlo_attr_comp(i, HLO_ATTR_SELECT)) &&
         cpu_scalar_ok(hlo_attr_comp(i, HLO_ATTR_SCATTER));
}

static i64 select_direction(const hlo_computation *c) {
  const hlo_instr *r = c->root;
  if (r->opcode != HLO_COMPARE || hlo_operand(r, 0) != c->params[0] ||
      hlo_operand(r, 1) != c->params[1] ||
      hlo_attr_int(r, HLO_ATTR_COMPARE_TYPE, HLO_COMPARE_TYPE_FLOAT) != HLO_COMPARE_TYPE_FLOAT)
    return -1;
  return hlo_attr_int(r, HLO_ATTR_DIRECTION, -1);
}

static bool keeps(const sas *s, const char *kept, const char *other) {
  if (s->type == HLO_F32 && (s->dir == HLO_DIRECTION_GE || s->dir == HLO_DIRECTION_GT)) {
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
  const void *init;
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

// ---- in lanes -----------------------------------------------------------------------------------

enum { MOST_LANES = 64, FEW_LANES = 16, CHUNKS = 8 };
// what s->tap has of an element of the window
#define TAP_WORDS(rank) ((rank) + 3)
enum { TAP_OFFSET, TAP_LOW, TAP_HIGH };  // behind its place; the lanes that have it: [low, high)

#define VECTORS __attribute__((target_clones("default", "avx2", "avx512f")))
// One element of the windows of lanes [lo, hi): p[l * step], at `where` + l * step.
#define SEARCH(T, OP, STEP)                           \
  for (i64 l = lo; l < hi; l++) {                     \
    T v = p[l * (STEP)];                              \
    bool keep = (at[l] >= 0) & (best[l] OP v);        \
    best[l] = keep ? best[l] : v;                     \
    at[l] = keep ? at[l] : (i32)(where + l * (STEP)); \
  }
#define SEARCH_BY(T, STEP)                          \
  switch (dir) {                                    \
  case HLO_DIRECTION_GE: SEARCH(T, >=, STEP) break; \
  case HLO_DIRECTION_GT: SEARCH(T, >, STEP) break;  \
  case HLO_DIRECTION_LE: SEARCH(T, <=, STEP) break; \
  default: SEARCH(T, <, STEP) break;                \
  }
#define DEFINE_SEARCH(T)                                                                   \
  VECTORS static void search_##T(const T *restrict p, i64 step, i64 lo, i64 hi, i64 where, \
                                 i64 dir, T *restrict best, i32 *restrict at) {            \
    if (step == 1) SEARCH_BY(T, 1)                                                         \
    else if (step == 2) SEARCH_BY(T, 2)                                                    \
    else SEARCH_BY(T, step)                                                                \
  }                                                                                        \
  static void add_##T(T *restrict out, const T *restrict src, const i32 *at, i64 n) {      \
    for (i64 l = 0; l < n; l++)                                                            \
      if (at[l] >= 0) out[at[l]] += src[l];                                                \
  }                                                                                        \
  static void fill_##T(T *out, T v, i64 n) {                                               \
    for (i64 k = 0; k < n; k++) out[k] = v;                                                \
  }
DEFINE_SEARCH(float)
DEFINE_SEARCH(double)

// Lanes [l0, l1) of the sources at one place of dims [lead, last). first: where its windows begin,
// in elements from the slice's beginning, and x: the same as a place.
static void search_lanes(const sas_job *j, i64 slice, const i64 *x, bool inside, i64 first, i64 src,
                         i64 l0, i64 l1) {
  const sas *s = j->s;
  _Alignas(64) union {
    float f[MOST_LANES];
    double d[MOST_LANES];
  } best = {0};
  i32 at[MOST_LANES];
  bool wide = s->type == HLO_F64;
  memset(at, -1, (size_t)(l1 - l0) * sizeof *at);
  for (i64 t = 0; t < s->ntaps; t++) {
    const i32 *tap = s->tap + t * TAP_WORDS(s->rank), *of = tap + s->rank;
    bool in = true;
    for (u32 d = s->lead; d < s->last && !inside; d++)
      in = in && x[d] + tap[d] >= 0 && x[d] + tap[d] < s->od[d];
    i64 lo = HS_MAX(l0, (i64)of[TAP_LOW]) - l0, hi = HS_MIN(l1, (i64)of[TAP_HIGH]) - l0;
    if (!in || lo >= hi) continue;
    i64 where = first + of[TAP_OFFSET] + l0 * s->step, p = slice + where;
    if (wide)
      search_double((const double *)(const void *)j->op + p, s->step, lo, hi, where, s->dir, best.d,
                    at);
    else
      search_float((const float *)(const void *)j->op + p, s->step, lo, hi, where, s->dir, best.f,
                   at);
  }
  if (wide)
    add_double((double *)(void *)j->out + slice, (const double *)(const void *)j->src + src + l0,
               at, l1 - l0);
  else
    add_float((float *)(void *)j->out + slice, (const float *)(const void *)j->src + src + l0, at,
              l1 - l0);
}

static void fill(const sas_job *j, i64 at, i64 n) {
  if (j->s->type == HLO_F64)
    fill_double((double *)(void *)j->out + at, *(const double *)j->init, n);
  else fill_float((float *)(void *)j->out + at, *(const float *)j->init, n);
}

static void lanes_chunk(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const sas_job *j = ctx;
  const sas *s = j->s;
  i64 blocks = (s->lanes + s->block - 1) / s->block, l0 = chunk % blocks * s->block,
      l1 = HS_MIN(l0 + s->block, s->lanes), lead = chunk / blocks, slice = 0, from = 0, n = 1,
      rows = 1, x[HLO_MAX_RANK];
  for (u32 d = s->lead; d-- > 0; lead /= s->sd[d]) {
    slice += lead % s->sd[d] * s->os[d];
    from += lead % s->sd[d] * s->ss[d];
  }
  for (u32 d = s->lead; d < s->last; d++) n *= s->sd[d], rows *= s->od[d];
  const i64 row = s->last ? s->os[s->last - 1] : s->od[0];  // lanes of the operand
  if (blocks == 1) fill(j, slice, rows * row);
  else
    for (i64 r = 0; r < rows; r++) fill(j, slice + r * row + l0, l1 - l0);
  for (i64 k = 0; k < n; k++) {
    i64 q = k, first = s->last < s->rank ? -s->pad[s->last] : 0, src = from;
    bool inside = true;
    for (u32 d = s->last; d-- > s->lead; q /= s->sd[d]) {
      i64 c = q % s->sd[d];
      x[d] = c * s->stride[d] - s->pad[d];
      inside = inside && x[d] >= 0 && x[d] + s->size[d] <= s->od[d];
      first += x[d] * s->os[d];
      src += c * s->ss[d];
    }
    for (i64 l = l0; l < l1; l += MOST_LANES)
      search_lanes(j, slice, x, inside, first, src, l, HS_MIN(l + MOST_LANES, l1));
  }
}

static i64 ceiling(i64 a, i64 b) { return a > 0 ? (a + b - 1) / b : 0; }

// Sets what is computed in lanes, if anything is; E_NO_MEMORY never: the table of taps is small.
static void choose_lanes(sas *s) {
  bool ordered = s->dir == HLO_DIRECTION_GE || s->dir == HLO_DIRECTION_GT ||
                 s->dir == HLO_DIRECTION_LE || s->dir == HLO_DIRECTION_LT;
  i64 taps = 1, slice = 1;
  if ((s->type != HLO_F32 && s->type != HLO_F64) || !ordered || s->comb != CPU_COMB_ADD ||
      s->lead >= s->rank)
    return;
  for (u32 d = s->lead; d < s->rank; d++) {
    taps = hs_mul_sat_i64(taps, s->size[d]);
    slice = hs_mul_sat_i64(slice, hs_mul_sat_i64(s->od[d], s->stride[d]) + s->size[d]);
  }
  if (taps > 4096 || slice > INT32_MAX / 2) return;
  s->last = s->rank;
  s->lanes = 1;
  while (s->last > s->lead && s->size[s->last - 1] == 1 && s->stride[s->last - 1] == 1 &&
         s->pad[s->last - 1] == 0 && s->od[s->last - 1] == s->sd[s->last - 1])
    s->lanes *= s->sd[--s->last];
  bool channels = s->last > s->lead && s->lanes >= 8;
  if (!channels) {
    s->last = s->rank - 1;
    s->lanes = s->sd[s->last];
  }
  s->step = channels ? 1 : s->stride[s->last];
  s->block = HS_MAX(s->lanes, (i64)1);
  if (channels)
    for (s->block = MOST_LANES; s->block > FEW_LANES && s->chunks * s->lanes / s->block < CHUNKS;)
      s->block /= 2;
  s->ntaps = taps;
  s->tap = hs_calloc((size_t)(taps * TAP_WORDS(s->rank)), sizeof *s->tap);
  for (i64 t = 0; t < taps; t++) {
    i32 *tap = s->tap + t * TAP_WORDS(s->rank), *of = tap + s->rank;
    i64 q = t;
    for (u32 d = s->rank; d-- > s->lead; q /= s->size[d]) {
      tap[d] = (i32)(q % s->size[d]);
      of[TAP_OFFSET] += tap[d] * (i32)s->os[d];
    }
    of[TAP_HIGH] = (i32)s->lanes;
    if (channels) continue;
    i64 room = s->od[s->last] - 1 + s->pad[s->last] - tap[s->last];
    of[TAP_LOW] = (i32)ceiling(s->pad[s->last] - tap[s->last], s->stride[s->last]);
    of[TAP_HIGH] = (i32)(room < 0 ? 0 : HS_MIN(s->lanes, room / s->stride[s->last] + 1));
  }
}

// ---- the kernel ---------------------------------------------------------------------------------

static hs_status run_sas(void *state, void *const *bufs, void *scratch) {
  (void)scratch;
  const sas *s = state;
  size_t e = hlo_dtype_storage(s->type);
  i64 n = 1;
  for (u32 d = 0; d < s->rank; d++) n *= s->od[d];
  if (n == 0) return HS_GOOD;
  i64 zero[1] = {0}, one[1] = {1}, dim[1] = {n};
  sas_job j = {s, bufs[0], bufs[1], bufs[2], bufs[3]};
  if (s->lanes) {
    cpu_par_for(lanes_chunk, &j, s->chunks * ((s->lanes + s->block - 1) / s->block));
    return HS_GOOD;
  }
  cpu_relayout(bufs[3], one, bufs[2], zero, 1, dim, e);
  cpu_par_for(sas_chunk, &j, s->chunks);
  return HS_GOOD;
}

static void free_sas(void *state) {
  sas *s = state;
  cpu_scalar_free(s->select);
  cpu_scalar_free(s->scatter);
  hs_free(s->tap);
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
  choose_lanes(s);
  s->select = cpu_scalar_compile(hlo_attr_comp(i, HLO_ATTR_SELECT));
  s->scatter = cpu_scalar_compile(hlo_attr_comp(i, HLO_ATTR_SCATTER));
  *out = (cpu_rt){.kind = "select-and-scatter", .state = s, .run = run_sas, .release = free_sas};
  return HS_GOOD;
}
