// rules.h — what the shape inference files share; private to core/infer and core/verify.
#ifndef HLO_INFER_RULES_H
#define HLO_INFER_RULES_H

#include "core/ir/ir.h"

// One question: the shapes of the operands (layouts already dropped), the attributes, and the
// written result shape.
typedef struct infer_args {
  hlo_ctx *ctx;
  hlo_opcode op;
  u32 n;
  const hlo_shape *const *in;
  const hlo_attrs *attrs;
  const hlo_shape *stated;  // logical; NULL when the text left it out
} infer_args;
typedef hs_status infer_rule(const infer_args *, const hlo_shape **out);

// A dimension list under construction; twice the maximal rank, as products of two shapes are built
// before the check.
typedef struct infer_dims {
  u32 n;
  i64 size[2 * HLO_MAX_RANK];
  bool dyn[2 * HLO_MAX_RANK];
} infer_dims;
static inline void infer_push(infer_dims *d, i64 size, bool dyn) {
  if (d->n < 2 * HLO_MAX_RANK)
    d->size[d->n] = size, d->dyn[d->n] = dyn || size == HLO_UNBOUNDED, d->n++;
}
static inline void infer_push_dim(infer_dims *d, const hlo_shape *s, u32 i) {
  infer_push(d, s->dims[i], hlo_dim_is_dynamic(s, i));
}
hs_status infer_array(const infer_args *, hlo_dtype, const infer_dims *, const hlo_shape **out);

// Text of a shape without layout, for messages; a ring of buffers, so up to 8 in one message.
const char *infer_text(const hlo_shape *);
const char *infer_ints_text(u32 n, const i64 *v);  // "2,3"; same ring

// Compatibility as XLA means it: layouts and dynamism ignored, an unbounded dimension fits any.
// floating types of any precision are alike; element types ignored
enum { INFER_ANY_FLOAT = 1, INFER_ANY_TYPE = 2 };
bool infer_compatible(const hlo_shape *, const hlo_shape *, unsigned flags);
bool infer_same_type_class(hlo_dtype, hlo_dtype);  // equal, or both floating
hlo_dtype infer_wider(hlo_dtype, hlo_dtype);       // the type of a mixed-precision result
bool infer_dims_fit(i64 a, i64 b);                 // equal, or one of them unbounded

hs_status infer_expect_array(const hlo_shape *, const char *what);
i64 infer_int(const infer_args *, hlo_attr_id, i64 absent);
hlo_ints infer_ints(const infer_args *, hlo_attr_id);
const void *infer_ptr(const infer_args *, hlo_attr_id);
hlo_computation *infer_comp(const infer_args *, hlo_attr_id);
hs_status infer_need_comp(const infer_args *, hlo_attr_id, hlo_computation **out);
hs_status infer_need_operands(const infer_args *, u32 least);
// The one dimension of concatenate, sort, all-gather...
i64 infer_dimension(const infer_args *);
// Output of a window sliding over `base` (conv: spatial dimensions only); dims of `out` are
// appended.
hs_status infer_window(const hlo_shape *base, const i64 *base_dims, u32 n, const hlo_window *,
                       infer_dims *out);
// Reducer signature: n accumulators then n elements, returning n accumulators.
hs_status infer_check_reducer(const hlo_computation *, u32 n, const hlo_shape *const *init,
                              const hlo_dtype *elements);

// One rule per name in the infer column of ops.def; see infer_rule.
#define OP(id, text, arity, inf, infer, eval, cost, flags, color, attrs) \
  infer_rule hlo_infer_##infer;
#include "core/types/ops.def"
#undef OP

#endif
