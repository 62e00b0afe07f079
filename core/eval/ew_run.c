// ew_run.c — elementwise operations on arrays: a kernel of ew.c applied to whole literals in
// chunks that stay in the cache.
//
// A kernel computes in a host type. Narrow floats are widened to f32 block by block and rounded
// back; integers below a byte live in a byte each, sign-extended, and are cut to their width after
// the kernel. Operations that look at single bits of those (shifts to the right, clz, popcnt,
// mulhi) have loops of their own, as the sign extension would count. reduce-precision follows XLA's
// EmitReducePrecisionIR (elemental_ir_emitter.cc): on the bits of the type, round to nearest even
// on the mantissa kept, then clamp the exponent; NaN stays NaN.
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

// The bits of a format of eb exponent and mb mantissa bits, rounded to one of e and m: the mantissa
// to nearest even; an exponent that only the wider range has goes to infinity or zero.
static u64 reduce_bits(u64 b, int eb, int mb, int e, int m) {
  u64 top = (((u64)1 << eb) - 1) << mb, sign = b & (u64)1 << (eb + mb), mag = b ^ sign;
  if (mag > top) return b | (u64)1 << (mb - 1);  // NaN
  if (m < mb) {
    int cut = mb - m;
    mag += ((u64)1 << (cut - 1)) - 1 + (mag >> cut & 1);
    mag &= ~(((u64)1 << cut) - 1);
  }
  if (e < eb) {
    u64 bias = ((u64)1 << (eb - 1)) - 1, reach = ((u64)1 << (e - 1)) - 1, ex = mag & top;
    if (ex > (bias + reach) << mb) mag = top;
    else if (ex <= (bias - reach) << mb) mag = 0;
  }
  return sign | mag;
}

// Formats narrower than f16 are taken for f16, where that has their range: XLA computes them there.
static void run_reduce_precision(const ew *k, void *out, const void *const *in, i64 n) {
  int e = k->ebits, m = k->mbits;
  if (k->out == HLO_F64) {
    const u64 *a = in[0];
    u64 *r = out;
    for (i64 i = 0; i < n; i++) r[i] = reduce_bits(a[i], 11, 52, e, m);
    return;
  }
  float buf[512];
  size_t s = hlo_dtype_storage(k->out);
  const hlo_float_format *f = hlo_float_format_of(k->out);
  bool half = f && f->top != HLO_TOP_E8M0;
  for (i64 i = 0; i < n; i += 512) {
    i64 len = HS_MIN(512, n - i);
    hlo_floats_to_f32(k->in[0], (const char *)in[0] + (size_t)i * s, buf, len);
    for (i64 j = 0; j < len; j++) {
      if (half) {
        buf[j] = hlo_f16_to_f32((u16)reduce_bits(hlo_f32_to_f16(buf[j]), 5, 10, e, m));
        continue;
      }
      u32 bits;
      memcpy(&bits, &buf[j], sizeof bits);
      bits = (u32)reduce_bits(bits, 8, 23, e, m);
      memcpy(&buf[j], &bits, sizeof bits);
    }
    hlo_floats_from_f32(k->out, buf, (char *)out + (size_t)i * s, len);
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
// Sizes in use of a result: along each dimension the operands' smallest, where one that has only
// one element in use counts as spread along those of the other, also along none of them, as XLA's
// dynamic padder takes it.
static ev_used used_sizes(const hlo_instr *i, u32 nin, hlo_literal *const *ops) {
  ev_used u = {0};
  bool told[HLO_MAX_RANK] = {false};
  for (u32 d = 0; d < i->shape->rank; d++) u.size[d] = (i32)HS_MIN(i->shape->dims[d], INT32_MAX);
  for (u32 j = 0; j < nin; j++) {
    const hlo_shape *s = ops[j]->shape;
    if (!ops[j]->dynamic_sizes || s->rank != i->shape->rank) continue;
    for (u32 d = 0; d < s->rank; d++) {
      i32 n = ops[j]->dynamic_sizes[d], had = u.size[d];
      // all of a dimension is a size of its own only where something sets it
      if (n == s->dims[d] && !(nin == 2 && ev_has_size(hlo_operand(i, j), d))) continue;
      bool spreads = nin == 2 && (n == 1 || had == 1);
      u.size[d] = !told[d] ? n : !spreads ? HS_MIN(n, had) : had == 1 ? n : had;
      told[d] = true;
    }
    u.dynamic = true;
  }
  return u;
}

// The operand with its one element in use along some dimensions repeated along all of them: where
// the result's type is static, what was beyond the other operand's elements counts too.
static hs_status spread_used(ev *e, const ev_used *u, hlo_literal **op) {
  const hlo_shape *s = (*op)->shape;
  const i32 *has = (*op)->dynamic_sizes;
  i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
  bool any = false;
  hlo_row_major_strides(s->rank, s->dims, from);
  hlo_row_major_strides(s->rank, s->dims, to);
  for (u32 d = 0; has && d < s->rank; d++) {
    bool here = has[d] == 1 && u->size[d] > 1;
    any |= here;
    if (here) from[d] = 0;
  }
  if (!any) return HS_GOOD;
  hlo_literal *r;
  HS_TRY(ev_new(e, s, &r));
  size_t w = hlo_dtype_storage(s->dtype);
  ev_copy(w, s->rank, s->dims, r->data, to, (*op)->data, from);
  for (u32 d = 0; d < s->rank && r->dynamic_sizes; d++) r->dynamic_sizes[d] = u->size[d];
  hlo_literal_unref(*op);
  *op = r;
  return HS_GOOD;
}

hs_status ev_join_sizes(ev *e, const hlo_instr *i, u32 nin, hlo_literal **ops, ev_used *u) {
  *u = used_sizes(i, nin, ops);
  for (u32 j = 0; j < nin && u->dynamic && ops[j]->shape->rank == i->shape->rank; j++)
    HS_TRY(spread_used(e, u, &ops[j]));
  return HS_GOOD;
}

void ev_use(hlo_literal *out, const ev_used *u) {
  if (u->dynamic && out->dynamic_sizes)
    memcpy(out->dynamic_sizes, u->size, out->shape->rank * sizeof(i32));
}

static hs_status run_array(ev *e, const hlo_instr *i, hlo_literal **ops, hlo_literal **out) {
  enum { CHUNK = 1 << 16 };
  ew k;
  // of the values: floats of other precision than the result's have been converted
  hlo_dtype types[3];
  if (i->noperands < 1 || i->noperands > 3) return ev_unsupported(i, "with so many operands");
  for (u32 j = 0; j < i->noperands; j++) types[j] = ops[j]->shape->dtype;
  if (!ew_compile_types(i->opcode, i, i->noperands, types, i->shape->dtype, &k))
    return ev_unsupported(i, "on these types");
  ev_used u;
  HS_TRY(ev_join_sizes(e, i, k.nin, ops, &u));
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
  HS_TRY(victim < k.nin ? ev_reuse(e, &ops[victim], i->shape, out) : ev_new(e, i->shape, out));
  ev_use(*out, &u);
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
