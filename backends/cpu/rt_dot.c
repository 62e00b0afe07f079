// rt_dot.c — dot: collapsed to a batched matrix product, then oneDNN or our own loops.
//
// Every dot is first brought to the form C[b,m,n] = sum over k of A[b,m,k] B[b,k,n]: the batch,
// free and contracted dims of each operand merge into one dim each when their strides nest, which
// covers nearly everything that occurs without moving data. What does not merge is packed into
// scratch. Then, by type and size:
//   f32, bf16, f16   oneDNN matmul (f32 accumulation); bf16 and f16 matrices that it cannot read
//                    are widened to f32 first
//   M = 1 or N = 1   our own loops at memory speed: oneDNN is 2.5 to 4 times slower there
//   small            our own loops: a primitive costs more to call than the work
//   8 and 16 bits    our own loops that widen to 16 bits and add pairs of products in 32; s8 by
//                    oneDNN where that is exact
//   other types      our own loops over a compute type: f64, u32 (all narrow integers wrap alike),
//                    u64, c64, c128
//
// The choice depends on shapes, types and the machine's instruction set, never on the threads.
#include "backends/cpu/rt_dot.h"

static bool is_small_float(hlo_dtype t) { return hlo_dtype_is_float(t) && t != HLO_F64; }

bool cpu_dot_supports(const hlo_instr *i) {
  hlo_dtype a = hlo_operand(i, 0)->shape->dtype, b = hlo_operand(i, 1)->shape->dtype,
            c = i->shape->dtype;
  if (hlo_attr_get(i, HLO_ATTR_SPARSITY_CONFIG)) return false;
  if (!hlo_dtype_is_array(a) || !hlo_dtype_is_array(b) || !hlo_dtype_is_array(c)) return false;
  bool ca = hlo_dtype_is_complex(a), cb = hlo_dtype_is_complex(b), cc = hlo_dtype_is_complex(c);
  if (ca != cb || cb != cc) return false;
  bool fa = hlo_dtype_is_float(a) || ca, fb = hlo_dtype_is_float(b) || cb,
       fc = hlo_dtype_is_float(c) || cc;
  return fa == fb && fb == fc;
}

static dot_compute compute_type(hlo_dtype a, hlo_dtype b, hlo_dtype c) {
  if (c == HLO_C64 && a == HLO_C64 && b == HLO_C64) return DOT_C64;
  if (hlo_dtype_is_complex(c)) return DOT_C128;
  if (is_small_float(a) && is_small_float(b) && is_small_float(c)) return DOT_F32;
  if (hlo_dtype_is_float(c)) return DOT_F64;
  return hlo_dtype_storage(c) == 8 ? DOT_U64 : DOT_U32;
}

// For operands whose sums are u32, hence integers: one byte holds values within [-128, 255].
static bool fits_s16(hlo_dtype t) { return t == HLO_S16 || hlo_dtype_storage(t) == 1; }

static dot_compute operand_type(hlo_dtype a, hlo_dtype b, dot_compute sums) {
  return sums == DOT_U32 && fits_s16(a) && fits_s16(b) ? DOT_S16 : sums;
}

static void free_dot(void *state) {
  dot *d = state;
  cpu_dot_dnnl_free(d->dnnl);
  hs_free(d);
}

static hs_status run_dot(void *state, void *const *bufs, void *scratch) {
  const dot *d = state;
  char *s = scratch;
  const void *a = bufs[d->swapped], *b = bufs[!d->swapped];
  void *c = bufs[2];
  if (d->vector) {
    cpu_dot_pack(s + d->at_a, bufs[d->swapped], d->ta, d->sum_type, d->ra, d->da, d->sa, false);
    if (d->pack_c) c = s + d->at_c;
    cpu_dot_vector(d, s + d->at_a, bufs[!d->swapped], c);
    if (d->pack_c) cpu_dot_pack(c, bufs[2], d->tc, d->sum_type, d->rc, d->dc, d->sc, true);
    return HS_GOOD;
  }
  if (d->pack_a) {
    cpu_dot_pack(s + d->at_a, bufs[0], d->ta, d->operand_type, d->ra, d->da, d->sa, false);
    a = s + d->at_a;
  }
  if (d->pack_b) {
    cpu_dot_pack(s + d->at_b, bufs[1], d->tb, d->operand_type, d->rb, d->db, d->sb, false);
    b = s + d->at_b;
  }
  if (d->pack_c) c = s + d->at_c;
  if (d->dnnl) HS_TRY(cpu_dot_dnnl_run(d, a, b, c));
  else cpu_dot_gemm(d, a, b, c);
  if (d->pack_c) cpu_dot_pack(c, bufs[2], d->tc, d->sum_type, d->rc, d->dc, d->sc, true);
  return HS_GOOD;
}

// ---- bringing a dot to the collapsed form -------------------------------------------------------

// Merges n dims into one: true when their strides nest; *extent and *stride are those of the merged
// dim. Dims of extent 1 do not matter.
static bool collapse(u32 n, const i64 *dims, const i64 *strides, i64 *extent, i64 *stride) {
  i64 e = 1, s = 1;
  bool any = false, ok = true;
  for (u32 k = n; k-- > 0;) {
    if (dims[k] == 1) continue;
    if (!any) {
      s = strides[k];
      any = true;
    } else if (strides[k] != s * e) ok = false;
    e *= dims[k];
  }
  *extent = e;
  *stride = any ? s : 1;
  return ok;
}

// How many dims each of the three groups has: batch, then row and column.
typedef struct groups {
  u32 n[3];
} groups;

// Extents and strides of the three groups; false when some group does not nest: then the array has
// to be packed.
static bool side_of(const i64 *dims, const i64 *strides, groups g, dot_side *out, i64 *extents) {
  bool ok = collapse(g.n[0], dims, strides, &extents[0], &out->b);
  ok = collapse(g.n[1], dims + g.n[0], strides + g.n[0], &extents[1], &out->r) && ok;
  return collapse(g.n[2], dims + g.n[0] + g.n[1], strides + g.n[0] + g.n[1], &extents[2],
                  &out->c) &&
         ok;
}

// Appends the listed dims of s, with their strides, at position n of both arrays; the new length.
static u32 put_dims(const hlo_shape *s, const i64 *strides, hlo_ints which, i64 *dims, i64 *out,
                    u32 n) {
  for (u32 k = 0; k < which.n; k++) {
    dims[n] = s->dims[which.v[k]];
    out[n++] = strides[which.v[k]];
  }
  return n;
}

// The same for the dims that are neither batch nor contracted.
static u32 put_free(const hlo_shape *s, const i64 *strides, hlo_ints batch, hlo_ints contract,
                    i64 *dims, i64 *out, u32 n) {
  for (u32 k = 0; k < s->rank; k++)
    if (!hlo_ints_has(batch, k) && !hlo_ints_has(contract, k)) {
      dims[n] = s->dims[k];
      out[n++] = strides[k];
    }
  return n;
}

static dot_side transposed(dot_side s) { return (dot_side){.b = s.b, .r = s.c, .c = s.r}; }

// Groups the dims of both operands and of the result, and collapses each group.
static void arrange(dot *d, const hlo_instr *i) {
  // 16-bit dot products run along k: the right operand is packed with k fastest
  const bool by_k = d->operand_type == DOT_S16;
  const hlo_shape *a = hlo_operand(i, 0)->shape, *b = hlo_operand(i, 1)->shape, *c = i->shape;
  hlo_ints ab = hlo_attr_ints(i, HLO_ATTR_LHS_BATCH_DIMS),
           ac = hlo_attr_ints(i, HLO_ATTR_LHS_CONTRACTING_DIMS);
  hlo_ints bb = hlo_attr_ints(i, HLO_ATTR_RHS_BATCH_DIMS),
           bc = hlo_attr_ints(i, HLO_ATTR_RHS_CONTRACTING_DIMS);
  i64 st[HLO_MAX_RANK], e[3];
  cpu_strides(a, st);
  u32 n1 = put_dims(a, st, ab, d->da, d->sa, 0), n2 = put_free(a, st, ab, ac, d->da, d->sa, n1);
  d->ra = put_dims(a, st, ac, d->da, d->sa, n2);
  groups ga = {{n1, n2 - n1, d->ra - n2}};
  d->pack_a = !side_of(d->da, d->sa, ga, &d->a, e);
  d->B = e[0];
  d->M = e[1];
  d->K = e[2];
  cpu_strides(b, st);
  n1 = put_dims(b, st, bb, d->db, d->sb, 0);
  n2 = by_k ? put_free(b, st, bb, bc, d->db, d->sb, n1) : put_dims(b, st, bc, d->db, d->sb, n1);
  d->rb = by_k ? put_dims(b, st, bc, d->db, d->sb, n2) : put_free(b, st, bb, bc, d->db, d->sb, n2);
  groups gb = {{n1, n2 - n1, d->rb - n2}};
  d->pack_b = !side_of(d->db, d->sb, gb, &d->b, e);
  d->N = e[by_k ? 1 : 2];
  if (by_k) d->b = transposed(d->b);
  cpu_strides(c, st);
  d->rc = c->rank;
  for (u32 k = 0; k < c->rank; k++) {
    d->dc[k] = c->dims[k];
    d->sc[k] = st[k];
  }
  groups gc = {{ab.n, ga.n[1], gb.n[by_k ? 1 : 2]}};
  d->pack_c = !side_of(d->dc, d->sc, gc, &d->c, e);
}

// Turns a product with M = 1 or N = 1 into vector times matrix with the vector first; false when it
// is not one.
static bool as_vector(dot *d) {
  if ((d->M != 1 && d->N != 1) || d->B * d->M * d->N * d->K == 0) return false;
  bool swap = d->M != 1;
  if (swap ? d->pack_a : d->pack_b) return false;
  hlo_dtype matrix = swap ? d->ta : d->tb;
  if (d->sum_type == DOT_F32 ? matrix != HLO_F32 && matrix != HLO_BF16
                             : d->sum_type != DOT_U32 || (matrix != HLO_S8 && matrix != HLO_U8))
    return false;
  if (swap) {
    dot_side a = d->a;
    d->b = (dot_side){.b = a.b, .r = a.c, .c = a.r};
    d->c = (dot_side){.b = d->c.b, .r = d->c.c, .c = d->c.r};
    d->tb = matrix;
    d->ta = d->rhs_type;
    memcpy(d->da, d->db, sizeof d->da);
    memcpy(d->sa, d->sb, sizeof d->sa);
    d->ra = d->rb;
    d->N = d->M;
    d->M = 1;
  }
  d->vector = true;
  d->swapped = swap;
  d->pack_c |= !cpu_dot_stored_as(d->tc, d->sum_type);
  if (d->pack_c) d->c = (dot_side){.b = d->N, .r = d->N, .c = 1};
  return true;
}

// A result stored column by column is the row-major result of the transposed product: C' = B' A'.
// Saves packing it.
static void as_transposed(dot *d) {
  if (d->c.c == 1 || d->c.r != 1 || d->pack_a || d->pack_b || d->pack_c) return;
  // Nothing may need packing, which works in the order of the operands as written.
  if (d->ta != HLO_F32 || d->tb != HLO_F32 || d->tc != HLO_F32) return;
  if ((d->a.r != 1 && d->a.c != 1) || (d->b.r != 1 && d->b.c != 1)) return;
  dot_side a = d->a;
  d->a = transposed(d->b);
  d->b = transposed(a);
  d->c = transposed(d->c);
  i64 m = d->M;
  d->M = d->N;
  d->N = m;
  d->swapped = true;
}

static i64 align64(i64 n) { return (n + 63) & ~(i64)63; }

hs_status cpu_dot_prepare(const hlo_instr *i, cpu_rt *out) {
  dot *d = hs_calloc(1, sizeof *d);
  d->ta = hlo_operand(i, 0)->shape->dtype;
  d->tb = hlo_operand(i, 1)->shape->dtype;
  d->tc = i->shape->dtype;
  d->rhs_type = d->tb;
  d->sum_type = compute_type(d->ta, d->tb, d->tc);
  d->operand_type = operand_type(d->ta, d->tb, d->sum_type);
  arrange(d, i);
  *out = (cpu_rt){.kind = "dot", .state = d, .run = run_dot, .release = free_dot};
  if (as_vector(d)) {
    out->kind = "dot (vector)";
    d->at_c = align64(d->B * d->K * 4);
    out->scratch_bytes = d->at_c + (d->pack_c ? align64(d->B * d->N * 4) : 0);
    return HS_GOOD;
  }
  as_transposed(d);
  if (cpu_dot_dnnl_prepare(d)) out->kind = "dot (oneDNN)";
  else {
    bool by_k = d->operand_type == DOT_S16;
    d->pack_a |= !cpu_dot_stored_as(d->ta, d->operand_type) || (by_k && d->a.c != 1);
    d->pack_b |= !cpu_dot_stored_as(d->tb, d->operand_type) || (by_k && d->b.r != 1);
    d->pack_c |= !cpu_dot_stored_as(d->tc, d->sum_type);
    cpu_dot_pack_strides(d);
  }
  i64 e = (i64)cpu_dot_compute_size(d->operand_type), at = 0;
  if (d->pack_a) {
    d->at_a = at;
    at += align64(d->B * d->M * d->K * e);
  }
  if (d->pack_b) {
    d->at_b = at;
    at += align64(d->B * d->K * d->N * e);
  }
  if (d->pack_c) {
    d->at_c = at;
    at += align64(d->B * d->M * d->N * (i64)cpu_dot_compute_size(d->sum_type));
  }
  out->scratch_bytes = at;
  return HS_GOOD;
}
