// rt_dot_pack.c — the compute types of dot, and packing: strided elements of any type to a dense
// array of a compute type, and back.
//
// Rows are independent and go through cpu_par_for in groups. The group size comes from the shape
// only, and every element is converted on its own, so that the result does not depend on the number
// of threads.
#include "backends/cpu/rt_dot.h"

size_t cpu_dot_compute_size(dot_compute c) {
  static const size_t n[] = {4, 8, 4, 8, 8, 16, 2};
  return n[c];
}

static hlo_dtype compute_dtype(dot_compute c) {
  static const hlo_dtype t[] = {HLO_F32, HLO_F64, HLO_U32, HLO_U64, HLO_C64, HLO_C128, HLO_S16};
  return t[c];
}

bool cpu_dot_stored_as(hlo_dtype t, dot_compute c) {
  return t == compute_dtype(c) || (c == DOT_U32 && t == HLO_S32) || (c == DOT_U64 && t == HLO_S64);
}

void cpu_dot_pack_strides(dot *d) {
  if (d->pack_a) d->a = (dot_side){.b = d->M * d->K, .r = d->K, .c = 1};
  if (d->pack_b)
    d->b = d->operand_type == DOT_S16 ? (dot_side){.b = d->N * d->K, .r = 1, .c = d->K}
                                      : (dot_side){.b = d->K * d->N, .r = d->N, .c = 1};
  if (d->pack_c) d->c = (dot_side){.b = d->M * d->N, .r = d->N, .c = 1};
}

// ---- one run of elements ------------------------------------------------------------------------

static void widen(void *to, dot_compute ct, const void *from, hlo_dtype t, i64 stride, i64 n) {
  const char *f = from;
  size_t e = hlo_dtype_storage(t);
  for (i64 k = 0; k < n; k++, f += (size_t)stride * e) {
    switch (ct) {
    case DOT_F32:
      ((float *)to)[k] = t == HLO_F32    ? *(const float *)f
                         : t == HLO_BF16 ? hlo_bf16_to_f32(*(const u16 *)f)
                                         : (float)hlo_elem_to_f64(t, f);
      break;
    case DOT_F64: ((double *)to)[k] = hlo_elem_to_f64(t, f); break;
    case DOT_U32: ((u32 *)to)[k] = (u32)hlo_elem_to_i64(t, f); break;
    case DOT_U64: ((u64 *)to)[k] = (u64)hlo_elem_to_i64(t, f); break;
    case DOT_S16:
      ((i16 *)to)[k] = t == HLO_S8   ? *(const i8 *)f
                       : t == HLO_U8 ? *(const u8 *)f
                                     : (i16)hlo_elem_to_i64(t, f);
      break;
    case DOT_C64: memcpy((char *)to + k * 8, f, 8); break;
    case DOT_C128:
      if (t == HLO_C128) memcpy((char *)to + k * 16, f, 16);
      else {
        ((double *)to)[2 * k] = ((const float *)f)[0];
        ((double *)to)[2 * k + 1] = ((const float *)f)[1];
      }
      break;
    }
  }
}

static void narrow(void *to, hlo_dtype t, i64 stride, const void *from, dot_compute ct, i64 n) {
  char *p = to;
  size_t e = hlo_dtype_storage(t);
  for (i64 k = 0; k < n; k++, p += (size_t)stride * e) {
    switch (ct) {
    case DOT_F32:
      if (t == HLO_F32) *(float *)p = ((const float *)from)[k];
      else if (t == HLO_BF16) *(u16 *)p = hlo_f32_to_bf16(((const float *)from)[k]);
      else hlo_elem_from_f64(t, p, (double)((const float *)from)[k]);
      break;
    case DOT_F64: hlo_elem_from_f64(t, p, ((const double *)from)[k]); break;
    case DOT_U32: hlo_elem_from_i64(t, p, (i64)(i32)((const u32 *)from)[k]); break;
    case DOT_U64: hlo_elem_from_i64(t, p, (i64)((const u64 *)from)[k]); break;
    case DOT_S16: break;  // operands only
    case DOT_C64: memcpy(p, (const char *)from + k * 8, 8); break;
    case DOT_C128:
      if (t == HLO_C128) memcpy(p, (const char *)from + k * 16, 16);
      else {
        ((float *)p)[0] = (float)((const double *)from)[2 * k];
        ((float *)p)[1] = (float)((const double *)from)[2 * k + 1];
      }
      break;
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
      if (j->store) narrow(array, j->t, stride, dense, j->ct, HS_MIN(step, j->inner - k));
      else widen(dense, j->ct, array, j->t, stride, HS_MIN(step, j->inner - k));
    }
}

void cpu_dot_pack(void *dense, void *array, hlo_dtype t, dot_compute ct, u32 rank, const i64 *dims,
                  const i64 *strides, bool store) {
  if (rank == 0) {
    if (store) narrow(array, t, 1, dense, ct, 1);
    else widen(dense, ct, array, t, 1, 1);
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
