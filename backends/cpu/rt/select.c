// select.c — select-and-scatter.
//
// For each source element the window of the operand is searched for the element that `select` keeps
// (first one wins among equals), and the source is combined into that position. Windows may
// overlap, so a chunk is one index of the leading dims that the window does not span.
#include "backends/cpu/rt/scalar.h"

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
