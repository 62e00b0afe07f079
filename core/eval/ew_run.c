// ew_run.c — elementwise operations on arrays: a kernel of ew.c applied to whole literals in
// chunks that stay in the cache.
//
// A kernel computes in a host type. Narrow floats are widened to f32 block by block and rounded
// back; integers below a byte live in a byte each, sign-extended, and are cut to their width after
// the kernel. Operations that look at single bits of those (shifts to the right, clz, popcnt,
// mulhi) have loops of their own, as the sign extension would count. reduce-precision follows XLA's
// EmitReducePrecisionIR (elemental_ir_emitter.cc): round to nearest even on the mantissa kept, then
// clamp the exponent.
#include "core/eval/ops.h"
#include "core/eval/fast.h"

static void wrap_subbyte(hlo_dtype t, void *p, i64 n) {
  u8 *b = p;
  int bits = hlo_dtype_bits(t), mask = (1 << bits) - 1,
      sign = hlo_dtype_is_signed(t) ? 1 << (bits - 1) : 0;
  for (i64 i = 0; i < n; i++) b[i] = (u8)(((b[i] & mask) ^ sign) - sign);
}

// Bit-level operations whose result depends on the width, not only on the value modulo it.
static void run_subbyte(const ew *k, void *out, const void *const *in, i64 n) {
  int bits = hlo_dtype_bits(k->out), mask = (1 << bits) - 1;
  const u8 *a = in[0], *b = k->nin > 1 ? in[1] : NULL;
  const i8 *sa = in[0], *sb = (const i8 *)b;
  u8 *r = out;
  bool is_signed = hlo_dtype_is_signed(k->out);
  for (i64 i = 0; i < n; i++) {
    int x = a[i] & mask;
    switch (k->bitwise) {
    case HLO_SHIFT_RIGHT_LOGICAL:
      r[i] = (u8)((b[i] & mask) >= bits ? 0 : x >> (b[i] & mask));
      break;
    case HLO_SHIFT_RIGHT_ARITH:
      r[i] = (u8)(((x ^ 1 << (bits - 1)) - (1 << (bits - 1))) >> HS_MIN(b[i] & mask, bits));
      break;
    case HLO_CLZ: r[i] = (u8)(x ? __builtin_clz((u32)x) - (32 - bits) : bits); break;
    case HLO_POPCNT: r[i] = (u8)__builtin_popcount((u32)x); break;
    default: r[i] = (u8)((is_signed ? sa[i] * sb[i] : x * (b[i] & mask)) >> bits); break;
    }
  }
  wrap_subbyte(k->out, out, n);
}

// Rounds to a format of fewer bits, keeping the storage type; overflow goes to infinity, below the
// least normal to zero.
static double reduce_precision(double v, int ebits, int mbits) {
  u64 b;
  memcpy(&b, &v, sizeof b);
  u64 sign = b & 1ull << 63, mag = b & ~(1ull << 63);
  if (mag >= 0x7ffull << 52) {
    // no mantissa bit left to tell a NaN by
    if (mag > 0x7ffull << 52 && mbits == 0) mag = 0x7ffull << 52;
  } else {
    int shift = 52 - mbits;
    if (shift > 0) {
      u64 half = 1ull << (shift - 1), odd = mag >> shift & 1;
      mag = (mag + half - 1 + odd) & ~((1ull << shift) - 1);
    }
    int e = (int)(mag >> 52) - 1023, bias = (1 << (ebits - 1)) - 1;
    if (e > bias) mag = 0x7ffull << 52;
    else if (e < 1 - bias) mag = 0;
  }
  b = sign | mag;
  memcpy(&v, &b, sizeof v);
  return v;
}

static void run_reduce_precision(const ew *k, void *out, const void *const *in, i64 n) {
  if (k->out == HLO_F64) {
    const double *a = in[0];
    double *r = out;
    for (i64 i = 0; i < n; i++) r[i] = reduce_precision(a[i], k->ebits, k->mbits);
    return;
  }
  float buf[512];
  size_t s = hlo_dtype_storage(k->out);
  int mbits = HS_MIN(k->mbits, 23), ebits = HS_MIN(k->ebits, 8);
  for (i64 i = 0; i < n; i += 512) {
    i64 m = HS_MIN(512, n - i);
    hlo_floats_to_f32(k->in[0], (const char *)in[0] + (size_t)i * s, buf, m);
    for (i64 j = 0; j < m; j++) buf[j] = (float)reduce_precision((double)buf[j], ebits, mbits);
    hlo_floats_from_f32(k->out, buf, (char *)out + (size_t)i * s, m);
  }
}

static void run_narrow(const ew *k, void *out, const void *const *in, i64 n) {
  enum { N = 512 };
  float buf[3][N];
  double res[N];  // room for any result type
  for (i64 i = 0; i < n; i += N) {
    i64 m = HS_MIN(N, n - i);
    const void *p[3];
    for (u32 j = 0; j < k->nin; j++) {
      const char *src = (const char *)in[j] + (size_t)i * hlo_dtype_storage(k->in[j]);
      if (ev_is_narrow(k->in[j])) hlo_floats_to_f32(k->in[j], src, buf[j], m);
      p[j] = ev_is_narrow(k->in[j]) ? (const void *)buf[j] : src;
    }
    char *dst = (char *)out + (size_t)i * hlo_dtype_storage(k->out);
    if (ev_is_narrow(k->out)) {
      k->fn(res, p, m);
      hlo_floats_from_f32(k->out, (float *)(void *)res, dst, m);
    } else {
      k->fn(dst, p, m);
    }
  }
}

void ew_run(const ew *k, void *out, const void *const *in, i64 n) {
  switch (k->mode) {
  case EW_DIRECT:
    if (k->bitwise) run_subbyte(k, out, in, n);
    else k->fn(out, in, n);
    return;
  case EW_NARROW: run_narrow(k, out, in, n); return;
  case EW_SUBBYTE:
    if (k->bitwise) {
      run_subbyte(k, out, in, n);
      return;
    }
    k->fn(out, in, n);
    wrap_subbyte(k->out, out, n);
    return;
  case EW_CONVERT: ev_convert(k->in[0], in[0], k->out, out, n); return;
  case EW_REDUCE_PRECISION: run_reduce_precision(k, out, in, n); return;
  default: return;
  }
}

// ---- whole arrays -------------------------------------------------------------------------------
static hs_status run_array(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  enum { CHUNK = 1 << 16 };
  ew k;
  // of the values: floats of other precision than the result's have been converted
  hlo_dtype types[3];
  if (i->noperands < 1 || i->noperands > 3) return ev_unsupported(i, "with so many operands");
  for (u32 j = 0; j < i->noperands; j++) types[j] = ops[j]->shape->dtype;
  if (!ew_compile_types(i->opcode, i, i->noperands, types, i->shape->dtype, &k))
    return ev_unsupported(i, "on these types");
  i64 n = i->shape->elements;
  const char *in[3];
  size_t step[3];
  for (u32 j = 0; j < k.nin; j++) {
    in[j] = ops[j]->data;
    step[j] = hlo_dtype_storage(k.in[j]);
    if (ops[j]->shape->elements == n) continue;
    if (ops[j]->shape->elements != 1) return ev_unsupported(i, "with operands of different sizes");
    step[j] = 0;  // a scalar operand of select or clamp
  }
  u32 victim = k.nin;
  for (u32 j = 0; j < k.nin && victim == k.nin; j++)
    if (step[j] == hlo_dtype_storage(k.out) && ev_writable(ops[j]) && k.mode != EW_CONVERT)
      victim = j;
  // Elements in use in every operand are in use in the result.
  bool dyn = false;
  i32 sizes[HLO_MAX_RANK];
  for (u32 j = 0; j < k.nin; j++) {
    if (!ops[j]->dynamic_sizes || ops[j]->shape->rank != i->shape->rank) continue;
    for (u32 d = 0; d < i->shape->rank; d++)
      sizes[d] = dyn ? HS_MIN(sizes[d], ops[j]->dynamic_sizes[d]) : ops[j]->dynamic_sizes[d];
    dyn = true;
  }
  HS_TRY(victim < k.nin ? ev_reuse(e, &ops[victim], i->shape, out) : ev_new(e, i->shape, out));
  if (dyn && (*out)->dynamic_sizes)
    memcpy((*out)->dynamic_sizes, sizes, i->shape->rank * sizeof(i32));
  char *spread[3] = {NULL, NULL, NULL};
  for (u32 j = 0; j < k.nin; j++)
    if (!step[j] && n) {
      size_t s = hlo_dtype_storage(k.in[j]);
      spread[j] = hs_alloc((size_t)HS_MIN(n, CHUNK) * s);
      ev_fill(s, spread[j], in[j], HS_MIN(n, CHUNK));
    }
  hs_status st = HS_GOOD;
  for (i64 done = 0; done < n && hs_ok(st); done += CHUNK) {
    i64 m = HS_MIN(CHUNK, n - done);
    const void *p[3];
    for (u32 j = 0; j < k.nin; j++) p[j] = spread[j] ? spread[j] : in[j] + (size_t)done * step[j];
    ew_run(&k, (char *)(*out)->data + (size_t)done * hlo_dtype_storage(k.out), p, m);
    st = hs_poll();
  }
  for (u32 j = 0; j < 3; j++) hs_free(spread[j]);
  return st;
}

hs_status hlo_eval_unary(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return run_array(e, i, ops, out);
}
hs_status hlo_eval_binary(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return run_array(e, i, ops, out);
}
hs_status hlo_eval_compare(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return run_array(e, i, ops, out);
}
hs_status hlo_eval_select(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  if (hlo_shape_is_array(i->shape)) return run_array(e, i, ops, out);
  u32 k = *(const u8 *)ops[0]->data ? 1 : 2;  // a select between tuples
  *out = ops[k];
  ops[k] = NULL;
  return HS_GOOD;
}
hs_status hlo_eval_clamp(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return run_array(e, i, ops, out);
}
hs_status hlo_eval_complex(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return run_array(e, i, ops, out);
}
hs_status hlo_eval_convert(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return run_array(e, i, ops, out);
}
hs_status hlo_eval_real_imag(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  return run_array(e, i, ops, out);
}
hs_status hlo_eval_reduce_precision(ev *e, const hlo_instr *i, hlo_literal **ops,
                                    hlo_literal **out) {
  return run_array(e, i, ops, out);
}
