// sizes.c — elements in use of dynamic dimensions, for operations that compute: what is not used
// of their operands does not count, and which of the result is follows from the operands' sizes,
// as xla/service/dynamic_dimension_inference.cc has it. Operations that move elements see to it
// themselves (move.c).
#include "core/eval/library.h"

static bool holds(hlo_ints v, i64 x) {
  for (u32 k = 0; k < v.n; k++)
    if (v.v[k] == x) return true;
  return false;
}

bool ev_is_cut(const hlo_literal *l) {
  for (u32 d = 0; l->dynamic_sizes && d < l->shape->rank; d++)
    if (l->dynamic_sizes[d] < l->shape->dims[d]) return true;
  return false;
}

// Does the way to a value set how much of dimension d is in use, or does only a type call it
// dynamic? Then it has no size of its own, to XLA's dynamic padder neither. What comes from
// elsewhere (a parameter, a call) has a size where its type says so, and so has what is too long a
// way off.
static bool is_sized(const hlo_instr *i, i64 d, u32 *steps) {
  const hlo_shape *s = i->shape;
  const hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  bool stated = hlo_dim_is_dynamic(s, d);
  if (i->opcode == HLO_SET_DIMENSION_SIZE && dims.v[0] == d) return true;
  if (i->opcode != HLO_SET_DIMENSION_SIZE && !stated) return false;
  if (*steps == 0) return stated;
  --*steps;
  if (i->opcode == HLO_SET_DIMENSION_SIZE || i->opcode == HLO_COPY || i->opcode == HLO_REVERSE)
    return is_sized(hlo_operand(i, 0), d, steps);
  if (i->opcode == HLO_TRANSPOSE) return is_sized(hlo_operand(i, 0), dims.v[d], steps);
  if (i->opcode == HLO_IOTA || i->opcode == HLO_RNG) return false;
  if (i->opcode == HLO_BROADCAST) {
    for (u32 k = 0; k < dims.n; k++)
      if (dims.v[k] == d) return is_sized(hlo_operand(i, 0), k, steps);
    return false;
  }
  if (!hlo_op_has(i->opcode, HLO_F_ELEMENTWISE)) return true;
  bool any = false;
  for (u32 k = 0; k < i->noperands && !any; k++)
    any = hlo_operand(i, k)->shape->rank == s->rank && is_sized(hlo_operand(i, k), d, steps);
  return any;
}

bool ev_has_size(const hlo_instr *i, u32 dim) {
  u32 steps = 64;
  return is_sized(i, dim, &steps);
}

hs_status ev_fill_unused(ev *e, hlo_literal **op, const void *value) {
  hlo_literal *own = *op;
  if (!ev_is_cut(own) || !own->shape->elements) return HS_GOOD;
  if (!ev_writable(own)) {
    HS_TRY(ev_new(e, own->shape, &own));
    memcpy(own->data, (*op)->data, own->bytes);
    ev_keep_sizes(own, *op);
    hlo_literal_unref(*op);
    *op = own;
  }
  i64 index[HLO_MAX_RANK] = {0}, at = 0;
  size_t w = hlo_dtype_storage(own->shape->dtype);
  do {
    bool used = true;
    for (u32 d = 0; d < own->shape->rank; d++) used &= index[d] < own->dynamic_sizes[d];
    void *p = (char *)own->data + (size_t)at++ * w;
    if (!used && value) memcpy(p, value, w);
    else if (!used) memset(p, 0, w);
  } while (ev_next(own->shape->rank, own->shape->dims, index));
  return HS_GOOD;
}

static void set_used(hlo_literal *out, i64 dim, const hlo_literal *from, i64 from_dim) {
  if (out->dynamic_sizes && from->dynamic_sizes)
    out->dynamic_sizes[dim] = from->dynamic_sizes[from_dim];
}

void ev_batch_sizes(u32 n, const hlo_literal *from, hlo_literal *out) {
  for (u32 d = 0; d < n; d++) set_used(out, d, from, d);
}

void ev_dot_sizes(const ev_dims *d, hlo_literal *const *ops, hlo_literal *out) {
  const hlo_ints batch[] = {d->lhs_batch, d->rhs_batch},
                 sum[] = {d->lhs_contracting, d->rhs_contracting};
  u32 to = 0;
  for (u32 j = 0; j < batch[0].n; j++, to++)  // as many as both have
    for (u32 k = 0; k < 2 && out->dynamic_sizes; k++)
      if (ops[k]->dynamic_sizes)
        out->dynamic_sizes[to] =
            HS_MIN(out->dynamic_sizes[to], ops[k]->dynamic_sizes[batch[k].v[j]]);
  for (u32 k = 0; k < 2; k++)
    for (u32 j = 0; j < ops[k]->shape->rank; j++)
      if (!holds(batch[k], j) && !holds(sum[k], j)) set_used(out, to++, ops[k], j);
}

static i64 windows(i64 n, const hlo_window_dim *w) {
  i64 base = n > 0 ? (n - 1) * HS_MAX(w->lhs_dilate, 1) + 1 : 0,
      room = base + w->pad_low + w->pad_high - (w->size - 1) * HS_MAX(w->rhs_dilate, 1) - 1;
  return room < 0 ? 0 : room / HS_MAX(w->stride, 1) + 1;
}

void ev_window_size(const hlo_window_dim *w, const hlo_literal *from, i64 from_dim,
                    hlo_literal *out, i64 dim) {
  if (out->dynamic_sizes && from->dynamic_sizes)
    out->dynamic_sizes[dim] =
        (i32)HS_MIN(windows(from->dynamic_sizes[from_dim], w), out->shape->dims[dim]);
}

void ev_conv_sizes(const ev_conv *c, hlo_literal *const *ops, hlo_literal *out) {
  const hlo_dim_labels *l = c->labels;
  if (c->batches <= 1) set_used(out, l->out_batch, ops[0], l->lhs_batch);
  set_used(out, l->out_feature, ops[1], l->rhs_output_feature);
  for (u32 k = 0; c->window && k < c->window->n; k++)
    ev_window_size(&c->window->v[k], ops[0], l->lhs_spatial[k], out, l->out_spatial[k]);
}
