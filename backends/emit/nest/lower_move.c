// lower_move.c — lowering of data movement: an element of the result is an element of an operand
// at rewritten indices.
//
// Concatenation, padding and update slices choose between operands: each is read under the guard
// that its element exists, so that nothing is read out of bounds whichever operand is chosen.
// Start indices are clamped as HLO says.
#include "backends/emit/nest/lower.h"

// ---- index maps ---------------------------------------------------------------------------------
void lower_reshape_index(nest *n, u32 rout, const i64 *out, const nest_expr *const *idx, u32 rin,
                         const i64 *in, const nest_expr **res) {
  u32 i = 0, j = 0;
  while (i < rin || j < rout) {
    u32 i0 = i, j0 = j;
    i64 pi = i < rin ? in[i++] : 1, pj = j < rout ? out[j++] : 1;
    while (pi != pj) {
      if (pi < pj && i < rin) pi *= in[i++];
      else if (j < rout) pj *= out[j++];
      else break;
    }
    if (i < rin || j < rout) {  // trailing dims of 1 join the group before them
      while (i < rin && in[i] == 1 && j == rout) i++;
      while (j < rout && out[j] == 1 && i == rin) j++;
    }
    const nest_expr *lin = nest_const(n, 0);
    for (u32 k = j0; k < j; k++)
      lin = nest_add(n, nest_mul(n, lin, out[k]), out[k] == 1 ? nest_const(n, 0) : idx[k]);
    i64 left = pi;
    for (u32 k = i; k-- > i0;) {
      left = in[k] ? left / in[k] : 0;
      res[k] = in[k] == 1 ? nest_const(n, 0) : left <= 1 ? lin : nest_mod(n, lin, in[k]);
      if (in[k] > 1 && left > 1) lin = nest_div(n, lin, in[k]);
    }
  }
}

void lower_physical(const hlo_shape *s, i64 *dims, u32 *order) {
  bool lay = s->layout && s->layout->rank == s->rank;
  for (u32 k = 0; k < s->rank; k++) {
    order[k] = lay ? (u32)s->layout->minor_to_major[s->rank - 1 - k] : k;
    dims[k] = s->dims[order[k]];
  }
}

// ---- values of other widths ---------------------------------------------------------------------
// Whether an element can be cut into others, or joined from them: not one of six bits, as which no
// integer is.
static bool cuts_and_joins(hlo_dtype t) {
  int bits = hlo_dtype_bits(t);
  return lower_dtype_ok(t) && !hlo_dtype_is_complex(t) && t != HLO_PRED && (bits & (bits - 1)) == 0;
}

// The k-th part, of the type `to`, of a wider value.
static nest_val cut(nest *n, nest_val v, hlo_dtype from, hlo_dtype to, const nest_expr *k) {
  hlo_dtype uf = nest_uint_of(hlo_dtype_bits(from)), ut = nest_uint_of(hlo_dtype_bits(to));
  u32 x = nest_bitcast(n, v, from, uf).re;
  u32 shift = nest_node_add(
      n,
      &(nest_node){.kind = NEST_INDEX, .dtype = HLO_S64, .e = nest_mul(n, k, hlo_dtype_bits(to))});
  x = nest_op2(n, HLO_SHIFT_RIGHT_LOGICAL, uf, x, nest_op1(n, HLO_CONVERT, uf, shift));
  return nest_bitcast(n, (nest_val){nest_op1(n, HLO_CONVERT, ut, x), NEST_NONE}, ut, to);
}

// The value of the wider type `to` that the parts make.
static nest_val join(nest *n, const nest_val *parts, hlo_dtype from, hlo_dtype to) {
  int wf = hlo_dtype_bits(from), wt = hlo_dtype_bits(to);
  hlo_dtype uf = nest_uint_of(wf), ut = nest_uint_of(wt);
  u32 acc = NEST_NONE;
  for (int k = 0; k < wt / wf; k++) {
    u32 x = nest_op1(n, HLO_CONVERT, ut, nest_bitcast(n, parts[k], from, uf).re);
    u8 bits[8] = {(u8)(k * wf)};
    x = nest_op2(n, HLO_SHIFT_LEFT, ut, x, nest_const_bits(n, ut, bits));
    acc = acc == NEST_NONE ? x : nest_op2(n, HLO_OR, ut, acc, x);
  }
  return nest_bitcast(n, (nest_val){acc, NEST_NONE}, ut, to);
}
enum { MOST_PARTS = 64 };  // bits of the widest type

// The bytes stay where they are. Between widths the narrower array has one more dimension in
// memory, the parts of an element.
nest_val lower_bitcast(lowering *l, lower_frame *f, const hlo_instr *i, const nest_expr *const *idx,
                       u32 guard) {
  const hlo_instr *op = hlo_operand(i, 0);
  const hlo_shape *o = i->shape, *s = op->shape;
  i64 od[HLO_MAX_RANK + 1], sd[HLO_MAX_RANK + 1];
  u32 oo[HLO_MAX_RANK], so[HLO_MAX_RANK];
  const nest_expr *pi[HLO_MAX_RANK + 1], *ps[HLO_MAX_RANK + 1], *res[HLO_MAX_RANK];
  int wo = hlo_dtype_bits(o->dtype), ws = hlo_dtype_bits(s->dtype);
  if (wo != ws && !(cuts_and_joins(o->dtype) && cuts_and_joins(s->dtype)))
    return lower_refuse(l, i, "changes the element size");
  if (hs_mul_sat_i64(o->elements, wo) != hs_mul_sat_i64(s->elements, ws))
    return lower_refuse(l, i, "changes the size");
  u32 parts = wo == ws ? 1 : (u32)(HS_MAX(wo, ws) / HS_MIN(wo, ws)), ro = o->rank, rs = s->rank;
  lower_physical(o, od, oo);
  lower_physical(s, sd, so);
  if (wo > ws) od[ro++] = parts;
  if (ws > wo) sd[rs++] = parts;
  for (u32 k = 0; k < o->rank; k++) pi[k] = idx[oo[k]];
  nest_val v[MOST_PARTS];
  for (u32 part = 0; part < (wo > ws ? parts : 1); part++) {
    if (wo > ws) pi[o->rank] = nest_const(l->n, part);
    lower_reshape_index(l->n, ro, od, pi, rs, sd, ps);
    for (u32 k = 0; k < s->rank; k++) res[so[k]] = ps[k];
    v[part] = lower_value(l, f, op, 0, s->rank, res, guard);
    if (lower_failed(l)) return LOWER_NONE;
  }
  if (wo > ws) return join(l->n, v, s->dtype, o->dtype);
  if (ws > wo) return cut(l->n, v[0], s->dtype, o->dtype, ps[s->rank]);
  return o->dtype == s->dtype ? v[0] : nest_bitcast(l->n, v[0], s->dtype, o->dtype);
}

// The clamped value of a start index.
static const nest_expr *start_index(lowering *l, lower_frame *f, const hlo_instr *op, u32 rank,
                                    const nest_expr *const *idx, i64 max, u32 guard) {
  if (max <= 0) return nest_const(l->n, 0);
  nest_val v = lower_value(l, f, op, 0, rank, idx, guard);
  if (lower_failed(l)) return nest_const(l->n, 0);
  const nest_node *x = &l->n->nodes.v[v.re];
  if (x->kind == NEST_CONST) {
    i64 c = hlo_elem_to_i64(x->dtype, x->bits);
    return nest_const(l->n,
                      hlo_dtype_is_unsigned(x->dtype) && c < 0 ? max : HS_MIN(HS_MAX(c, 0), max));
  }
  return nest_of_var(l->n, nest_new_value(l->n, v.re, 0, max), 1);
}

static nest_val select_val(lowering *l, hlo_dtype t, u32 p, nest_val a, nest_val b) {
  hlo_dtype r = hlo_dtype_real_part(t);
  if (lower_failed(l)) return LOWER_NONE;
  return (nest_val){nest_select(l->n, r, p, a.re, b.re),
                    a.im == NEST_NONE ? NEST_NONE : nest_select(l->n, r, p, a.im, b.im)};
}

// ---- movement -----------------------------------------------------------------------------------
nest_val lower_concat(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                      const nest_expr *const *idx, u32 guard) {
  u32 d = (u32)hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
  const nest_expr *sub[HLO_MAX_RANK];
  memcpy(sub, idx, rank * sizeof *sub);
  i64 lo, hi, at = i->shape->dims[d];
  nest_range(l->n, idx[d], &lo, &hi);
  nest_val v = LOWER_NONE;
  for (u32 k = i->noperands; k-- > 0 && !lower_failed(l);) {
    const hlo_instr *op = hlo_operand(i, k);
    i64 size = op->shape->dims[d], begin = at - size;
    at = begin;
    if (size == 0 || begin > hi || begin + size <= lo) continue;
    u32 own = nest_guard(l->n, idx[d], begin, begin + size, NEST_NONE);
    u32 g = own == NEST_NONE     ? guard
            : guard == NEST_NONE ? own
                                 : nest_op2(l->n, HLO_AND, HLO_PRED, guard, own);
    sub[d] = nest_add(l->n, idx[d], nest_const(l->n, -begin));
    nest_val w = lower_in_type(l->n, lower_value(l, f, op, 0, rank, sub, g), op->shape->dtype,
                               i->shape->dtype);
    v = v.re == NEST_NONE || own == NEST_NONE ? w : select_val(l, i->shape->dtype, own, w, v);
  }
  return v;
}

nest_val lower_pad(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                   const nest_expr *const *idx, u32 guard) {
  const hlo_padding *p = hlo_attr_ptr(i, HLO_ATTR_PADDING);
  const hlo_instr *op = hlo_operand(i, 0);
  const nest_expr *sub[HLO_MAX_RANK];
  u32 own = NEST_NONE;
  hlo_dtype t = i->shape->dtype, from = op->shape->dtype;
  nest_val fill = lower_in_type(l->n, lower_value(l, f, hlo_operand(i, 1), 0, 0, NULL, guard),
                                hlo_operand(i, 1)->shape->dtype, t);
  if (op->shape->elements == 0 || lower_failed(l)) return fill;
  for (u32 k = 0; k < rank; k++) {
    const nest_expr *e = nest_add(l->n, idx[k], nest_const(l->n, -p->v[k].low));
    i64 step = p->v[k].interior + 1, n = op->shape->dims[k];
    own = nest_guard(l->n, e, 0, (n - 1) * step + 1, own);
    if (step > 1) {
      own = nest_guard(l->n, nest_mod(l->n, e, step), 0, 1, own);
      e = nest_div(l->n, e, step);
    }
    sub[k] = n == 1 ? nest_const(l->n, 0) : e;
  }
  u32 g = own == NEST_NONE     ? guard
          : guard == NEST_NONE ? own
                               : nest_op2(l->n, HLO_AND, HLO_PRED, guard, own);
  nest_val v = lower_value(l, f, op, 0, rank, sub, g);
  if (lower_failed(l)) return LOWER_NONE;
  v = lower_in_type(l->n, v, from, t);
  return own == NEST_NONE ? v : select_val(l, t, own, v, fill);
}

// Start operands of dynamic-slice and dynamic-update-slice: scalars from operand `first` on, or one
// vector.
const nest_expr *lower_dynamic_start(lowering *l, lower_frame *f, const hlo_instr *i, u32 first,
                                     u32 k, i64 max, u32 guard) {
  const hlo_instr *op = hlo_operand(i, first);
  if (op->shape->rank == 1)
    return start_index(l, f, op, 1, (const nest_expr *[]){nest_const(l->n, k)}, max, guard);
  return start_index(l, f, hlo_operand(i, first + k), 0, NULL, max, guard);
}

nest_val lower_dynamic_slice(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                             const nest_expr *const *idx, u32 guard) {
  const hlo_instr *op = hlo_operand(i, 0);
  const nest_expr *sub[HLO_MAX_RANK];
  for (u32 k = 0; k < rank; k++)
    sub[k] =
        nest_add(l->n, idx[k],
                 lower_dynamic_start(l, f, i, 1, k, op->shape->dims[k] - i->shape->dims[k], guard));
  return lower_failed(l) ? LOWER_NONE : lower_value(l, f, op, 0, rank, sub, guard);
}

nest_val lower_dynamic_update_slice(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                                    const nest_expr *const *idx, u32 guard) {
  const hlo_instr *op = hlo_operand(i, 0), *up = hlo_operand(i, 1);
  const nest_expr *sub[HLO_MAX_RANK];
  u32 own = NEST_NONE;
  // it may be done in place
  if (op->shape->dtype != i->shape->dtype || up->shape->dtype != i->shape->dtype)
    return lower_refuse(l, i, "of several precisions");
  if (up->shape->elements == 0) return lower_value(l, f, op, 0, rank, idx, guard);
  for (u32 k = 0; k < rank; k++) {
    const nest_expr *s =
        lower_dynamic_start(l, f, i, 2, k, op->shape->dims[k] - up->shape->dims[k], guard);
    if (lower_failed(l)) return LOWER_NONE;
    sub[k] = nest_add(l->n, idx[k], nest_mul(l->n, s, -1));
    own = nest_guard(l->n, sub[k], 0, up->shape->dims[k], own);
    if (up->shape->dims[k] == 1) sub[k] = nest_const(l->n, 0);
  }
  if (own == NEST_NONE) return lower_value(l, f, up, 0, rank, sub, guard);
  u32 g = guard == NEST_NONE ? own : nest_op2(l->n, HLO_AND, HLO_PRED, guard, own);
  nest_val a = lower_value(l, f, up, 0, rank, sub, g);
  return select_val(l, i->shape->dtype, own, a, lower_value(l, f, op, 0, rank, idx, guard));
}

nest_val lower_gather(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                      const nest_expr *const *idx, u32 guard) {
  const hlo_instr *op = hlo_operand(i, 0), *si = hlo_operand(i, 1);
  hlo_ints offset = hlo_attr_ints(i, HLO_ATTR_OFFSET_DIMS),
           collapsed = hlo_attr_ints(i, HLO_ATTR_COLLAPSED_SLICE_DIMS),
           map = hlo_attr_ints(i, HLO_ATTR_START_INDEX_MAP),
           obatch = hlo_attr_ints(i, HLO_ATTR_OPERAND_BATCHING_DIMS),
           sbatch = hlo_attr_ints(i, HLO_ATTR_START_INDICES_BATCHING_DIMS),
           sizes = hlo_attr_ints(i, HLO_ATTR_SLICE_SIZES);
  i64 ivd = hlo_attr_int(i, HLO_ATTR_INDEX_VECTOR_DIM, 0);
  const nest_expr *si_idx[HLO_MAX_RANK], *sub[HLO_MAX_RANK];
  if (op->shape->elements == 0)  // nothing to take from: zeros, as XLA
    return nest_convert(l->n, (nest_val){nest_const_f64(l->n, HLO_F32, 0), NEST_NONE}, HLO_F32,
                        op->shape->dtype);
  u32 b = 0;
  for (u32 k = 0; k < rank; k++) {
    if (hlo_ints_has(offset, k)) continue;
    if ((i64)b == ivd) b++;
    if (b < si->shape->rank) si_idx[b] = idx[k];
    b++;
  }
  u32 off = 0;
  for (u32 d = 0; d < op->shape->rank; d++) {
    sub[d] = nest_const(l->n, 0);
    if (hlo_ints_has(collapsed, d) || hlo_ints_has(obatch, d)) continue;
    sub[d] = idx[offset.v[off++]];
  }
  for (u32 k = 0; k < obatch.n; k++)
    sub[obatch.v[k]] = nest_add(l->n, sub[obatch.v[k]], si_idx[sbatch.v[k]]);
  for (u32 k = 0; k < map.n && !lower_failed(l); k++) {
    u32 d = (u32)map.v[k];
    i64 last = op->shape->dims[d] - HS_MAX(sizes.v[d], 1);  // one element even of a size of 0
    if (ivd < (i64)si->shape->rank) si_idx[ivd] = nest_const(l->n, k);
    sub[d] = nest_add(l->n, sub[d], start_index(l, f, si, si->shape->rank, si_idx, last, guard));
  }
  return lower_failed(l) ? LOWER_NONE : lower_value(l, f, op, 0, op->shape->rank, sub, guard);
}

// bitcast-convert between widths adds or drops a trailing dimension.
nest_val lower_bitcast_convert(lowering *l, lower_frame *f, const hlo_instr *i, u32 rank,
                               const nest_expr *const *idx, u32 guard) {
  nest *n = l->n;
  const hlo_instr *op = hlo_operand(i, 0);
  hlo_dtype from = op->shape->dtype, to = i->shape->dtype;
  if (!lower_dtype_ok(from) || !lower_dtype_ok(to))
    return lower_refuse(l, i, hlo_dtype_text(lower_dtype_ok(from) ? to : from));
  int wf = hlo_dtype_bits(from), wt = hlo_dtype_bits(to);
  if (wf == wt) {
    nest_val v = lower_value(l, f, op, 0, op->shape->rank, idx, guard);
    return lower_failed(l) ? LOWER_NONE : nest_bitcast(n, v, from, to);
  }
  if (!cuts_and_joins(from) || !cuts_and_joins(to)) return lower_refuse(l, i, hlo_dtype_text(from));
  if (wf > wt) {
    nest_val v = lower_value(l, f, op, 0, rank - 1, idx, guard);
    return lower_failed(l) ? LOWER_NONE : cut(n, v, from, to, idx[rank - 1]);
  }
  const nest_expr *sub[HLO_MAX_RANK];
  memcpy(sub, idx, rank * sizeof *sub);
  nest_val parts[MOST_PARTS];
  for (int k = 0; k < wt / wf; k++) {
    sub[rank] = nest_const(n, k);
    parts[k] = lower_value(l, f, op, 0, rank + 1, sub, guard);
    if (lower_failed(l)) return LOWER_NONE;
  }
  return join(n, parts, from, to);
}
