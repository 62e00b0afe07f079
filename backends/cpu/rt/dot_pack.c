// dot_pack.c — the compute types of dot, and packing: strided elements of any type to a dense
// array of a compute type, and back.
//
// Rows are independent and go through cpu_par_for in groups. The group size comes from the shape
// only, and every element is converted on its own, so that the result does not depend on the number
// of threads.
#include "backends/cpu/rt/dot.h"

size_t cpu_dot_compute_size(dot_compute c) {
  static const size_t n[] = {4, 8, 4, 8, 8, 16, 2, 1};
  return n[c];
}

hlo_dtype cpu_dot_dtype(dot_compute c) {
  static const hlo_dtype t[] = {HLO_F32, HLO_F64,  HLO_U32, HLO_U64,
                                HLO_C64, HLO_C128, HLO_S16, HLO_S8};
  return t[c];
}

bool cpu_dot_stored_as(hlo_dtype t, dot_compute c) {
  return t == cpu_dot_dtype(c) || (c == DOT_U32 && t == HLO_S32) || (c == DOT_U64 && t == HLO_S64);
}

static void dense_steps(const dot *d, i64 inner, i64 *step) {
  for (u32 k = d->nbatch; k-- > 0; inner *= d->batch[k]) step[k] = inner;
}

void cpu_dot_pack_strides(dot *d) {
  if (d->pack_a) {
    d->a = d->turned_a ? (dot_side){.r = 1, .c = d->M} : (dot_side){.r = d->K, .c = 1};
    dense_steps(d, d->M * d->K, d->step_a);
  }
  if (d->pack_b) {
    bool k_last = d->turned_b || d->operand_type == DOT_S16;
    d->b = k_last ? (dot_side){.r = 1, .c = d->K} : (dot_side){.r = d->N, .c = 1};
    dense_steps(d, d->K * d->N, d->step_b);
  }
  if (d->pack_c) {
    d->c = (dot_side){.r = d->N, .c = 1};
    dense_steps(d, d->M * d->N, d->step_c);
  }
}

void cpu_dot_batch(const dot *d, i64 k, i64 *a, i64 *b, i64 *c) {
  *a = *b = *c = 0;
  for (u32 n = d->nbatch; n-- > 0; k /= d->batch[n]) {
    i64 at = k % d->batch[n];
    *a += at * d->step_a[n];
    *b += at * d->step_b[n];
    *c += at * d->step_c[n];
  }
}

// ---- one run of elements ------------------------------------------------------------------------

static void widen_complex(double *to, hlo_dtype t, const char *from, i64 stride, i64 n) {
  for (i64 k = 0; k < n; k++) {
    if (t == HLO_C128) memcpy(to + 2 * k, from + k * stride * 16, 16);
    else {
      float v[2];
      memcpy(v, from + k * stride * 8, 8);
      to[2 * k] = (double)v[0];
      to[2 * k + 1] = (double)v[1];
    }
  }
}

// A copy of elements of the same size.
static void gather(void *to, const void *from, size_t e, i64 stride, i64 n) {
  if (stride == 1) {
    memcpy(to, from, (size_t)n * e);
    return;
  }
#define EACH(T) \
  for (i64 k = 0; k < n; k++) ((T *)to)[k] = ((const T *)from)[k * stride]
  switch (e) {
  case 1: EACH(u8); break;
  case 2: EACH(u16); break;
  case 4: EACH(u32); break;
  default: EACH(u64); break;
  }
#undef EACH
}

void cpu_dot_widen(void *to, dot_compute ct, const void *from, hlo_dtype t, i64 stride, i64 n) {
  const char *f = from;
  size_t e = hlo_dtype_storage(t), step = (size_t)stride * e;
  if (ct == DOT_C128) {
    widen_complex(to, t, f, stride, n);
    return;
  }
  if (cpu_dot_stored_as(t, ct) || ct == DOT_S8) {
    gather(to, from, e, stride, n);
    return;
  }
  if (ct == DOT_F32 && stride == 1) {
    cpu_to_f32(to, from, t, n);
    return;
  }
  for (i64 k = 0; k < n; k++, f += step) {
    switch (ct) {
    case DOT_F32:
      if (t == HLO_BF16 || (e == 1 && hlo_dtype_is_float(t))) cpu_to_f32((float *)to + k, f, t, 1);
      else ((float *)to)[k] = (float)hlo_elem_to_f64(t, f);
      break;
    case DOT_F64: ((double *)to)[k] = hlo_elem_to_f64(t, f); break;
    case DOT_U32: ((u32 *)to)[k] = (u32)hlo_elem_to_i64(t, f); break;
    case DOT_U64: ((u64 *)to)[k] = (u64)hlo_elem_to_i64(t, f); break;
    case DOT_S16:
      ((i16 *)to)[k] = t == HLO_S8   ? *(const i8 *)f
                       : t == HLO_U8 ? *(const u8 *)f
                                     : (i16)hlo_elem_to_i64(t, f);
      break;
    default: break;  // stored so, or complex
    }
  }
}

void cpu_dot_widen_rows(void *to, size_t step, dot_compute ct, const void *from, hlo_dtype t,
                        i64 row, i64 stride, i64 n, i64 rows) {
  if (ct == DOT_F32 && stride == 1 && t != HLO_F32) {
    cpu_to_f32_rows(to, (i64)(step / sizeof(float)), from, row, t, n, rows);
    return;
  }
  for (i64 r = 0; r < rows; r++)
    cpu_dot_widen((char *)to + (size_t)r * step, ct,
                  (const char *)from + (size_t)(r * row) * hlo_dtype_storage(t), t, stride, n);
}

void cpu_dot_narrow(void *to, hlo_dtype t, i64 stride, const void *from, dot_compute ct, i64 n) {
  char *p = to;
  size_t e = hlo_dtype_storage(t), step = (size_t)stride * e;
  if (stride == 1 && cpu_dot_stored_as(t, ct)) {
    memcpy(to, from, (size_t)n * e);
    return;
  }
  if (stride == 1 && ct == DOT_F32) {
    cpu_from_f32(to, t, from, n);
    return;
  }
  for (i64 k = 0; k < n; k++, p += step) {
    switch (ct) {
    case DOT_F32:
      if (t == HLO_F32) memcpy(p, (const float *)from + k, 4);
      else cpu_from_f32(p, t, (const float *)from + k, 1);
      break;
    case DOT_F64: hlo_elem_from_f64(t, p, ((const double *)from)[k]); break;
    case DOT_U32: hlo_elem_from_i64(t, p, (i64)(i32)((const u32 *)from)[k]); break;
    case DOT_U64: hlo_elem_from_i64(t, p, (i64)((const u64 *)from)[k]); break;
    case DOT_C64: memcpy(p, (const char *)from + k * 8, 8); break;
    case DOT_C128:
      if (t == HLO_C128) memcpy(p, (const char *)from + k * 16, 16);
      else {
        float v[2] = {(float)((const double *)from)[2 * k],
                      (float)((const double *)from)[2 * k + 1]};
        memcpy(p, v, 8);
      }
      break;
    default: break;  // operands only
    }
  }
}

// ---- whole arrays -------------------------------------------------------------------------------

typedef struct pack_job {
  char *dense;
  char *array;
  hlo_dtype t;
  dot_compute ct;
  u32 rank;
  const i64 *dims, *strides;
  bool store;
  i64 inner, rows, group;
} pack_job;

// Packs one group of rows. Rows that share cache lines of the array are packed side by side, a few
// elements at a time: with a power-of-two stride the L1 cache cannot keep more of their lines.
static void pack_rows(void *ctx, i64 chunk, u32 thread) {
  (void)thread;
  const pack_job *j = ctx;
  i64 first = chunk * j->group, n = HS_MIN(j->group, j->rows - first),
      stride = j->strides[j->rank - 1], at[64];
  for (i64 i = 0; i < n; i++) {
    i64 r = first + i;
    at[i] = 0;
    for (u32 d = j->rank - 1; d-- > 0;) {
      at[i] += r % j->dims[d] * j->strides[d];
      r /= j->dims[d];
    }
  }
  for (i64 k = 0, step = j->group == 1 ? j->inner : 8; k < j->inner; k += step)
    for (i64 i = 0; i < n; i++) {
      char *dense = j->dense + (size_t)((first + i) * j->inner + k) * cpu_dot_compute_size(j->ct),
           *array = j->array + (size_t)(at[i] + k * stride) * hlo_dtype_storage(j->t);
      if (j->store) cpu_dot_narrow(array, j->t, stride, dense, j->ct, HS_MIN(step, j->inner - k));
      else cpu_dot_widen(dense, j->ct, array, j->t, stride, HS_MIN(step, j->inner - k));
    }
}

void cpu_dot_pack(void *dense, void *array, hlo_dtype t, dot_compute ct, u32 rank, const i64 *dims,
                  const i64 *strides, bool store) {
  if (rank == 0) {
    if (store) cpu_dot_narrow(array, t, 1, dense, ct, 1);
    else cpu_dot_widen(dense, ct, array, t, 1, 1);
    return;
  }
  if (cpu_dot_stored_as(t, ct)) {
    i64 plain[HLO_MAX_RANK];
    hlo_row_major_strides(rank, dims, plain);
    if (store) cpu_relayout(array, strides, dense, plain, rank, dims, hlo_dtype_storage(t));
    else cpu_relayout(dense, plain, array, strides, rank, dims, hlo_dtype_storage(t));
    return;
  }
  i64 rows = 1;
  for (u32 d = 0; d + 1 < rank; d++) rows *= dims[d];
  if (rows * dims[rank - 1] == 0) return;
  pack_job j = {dense, array, t, ct, rank, dims, strides, store, dims[rank - 1], rows, 1};
  if (rank > 1 && strides[rank - 2] == 1 && strides[rank - 1] != 1)
    j.group = HS_MAX((i64)1, HS_MIN(64 / (i64)hlo_dtype_storage(t), rows / 16));
  i64 chunks = (rows + j.group - 1) / j.group;
  if (rows * dims[rank - 1] < 16384)
    for (i64 k = 0; k < chunks; k++) pack_rows(&j, k, 0);
  else cpu_par_for(pack_rows, &j, chunks);
}
