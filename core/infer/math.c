// math.c — shape rules of contractions (dot, convolution and kin), windows, transforms,
// linear algebra and batch normalization. Source of the rules: xla/service/shape_inference.cc.
#include "core/infer/rules.h"

// The result type of a contraction is free: the written one wins, else the wider of the operands'.
static hlo_dtype contraction_type(const infer_args *a, hlo_dtype x, hlo_dtype y) {
  return a->stated && hlo_shape_is_array(a->stated) ? a->stated->dtype : infer_wider(x, y);
}

// ---- dot ----------------------------------------------------------------------------------------
typedef struct dot_side {
  const hlo_shape *s;
  hlo_ints batch, contract;
  bool taken[HLO_MAX_RANK];
} dot_side;

static hs_status bad_dot(const infer_args *a, const char *why) {
  return hs_fail(HS_E_SHAPE, "Cannot infer shape for %s operation: %s <dot> %s. %s",
                 hlo_op_text(a->op), infer_text(a->in[0]), infer_text(a->in[1]), why);
}
static bool take_dims(dot_side *d, hlo_ints dims, bool *range) {
  for (u32 i = 0; i < dims.n; i++) {
    i64 k = dims.v[i];
    if (k < 0 || k >= d->s->rank) return *range = true, false;
    if (d->taken[k]) return *range = false, false;
    d->taken[k] = true;
  }
  return true;
}
static hs_status dot_sides(const infer_args *a, dot_side *l, dot_side *r, const hlo_shape *lhs,
                           const hlo_shape *rhs) {
  HS_TRY(infer_expect_array(lhs, "lhs of dot"));
  HS_TRY(infer_expect_array(rhs, "rhs of dot"));
  *l = (dot_side){lhs,
                  infer_ints(a, HLO_ATTR_LHS_BATCH_DIMS),
                  infer_ints(a, HLO_ATTR_LHS_CONTRACTING_DIMS),
                  {0}};
  *r = (dot_side){rhs,
                  infer_ints(a, HLO_ATTR_RHS_BATCH_DIMS),
                  infer_ints(a, HLO_ATTR_RHS_CONTRACTING_DIMS),
                  {0}};
  bool range = false;
  if (!take_dims(l, l->contract, &range) || !take_dims(l, l->batch, &range) ||
      !take_dims(r, r->contract, &range) || !take_dims(r, r->batch, &range))
    return bad_dot(a, range ? "A dimension number is out of range in Dot."
                            : "A dimension number is not unique in Dot.");
  if (l->contract.n != r->contract.n)
    return bad_dot(a, "Must specify the same number of contracting dimensions for lhs and rhs.");
  for (u32 i = 0; i < l->contract.n; i++)
    if (!infer_dims_fit(lhs->dims[l->contract.v[i]], rhs->dims[r->contract.v[i]]))
      return bad_dot(a, "Contracting dimension sizes are not compatible.");
  if (l->batch.n != r->batch.n)
    return bad_dot(a, "Must specify the same number of batch dimensions for lhs and rhs.");
  for (u32 i = 0; i < l->batch.n; i++)
    if (!infer_dims_fit(lhs->dims[l->batch.v[i]], rhs->dims[r->batch.v[i]]))
      return bad_dot(a, "Batch dimension sizes are not compatible.");
  return HS_GOOD;
}
static void push_batch(infer_dims *d, const dot_side *l, const dot_side *r) {
  for (u32 i = 0; i < l->batch.n; i++) {
    u32 p = (u32)l->batch.v[i], q = (u32)r->batch.v[i];
    if (l->s->dims[p] == HLO_UNBOUNDED) infer_push_dim(d, r->s, q);
    else infer_push_dim(d, l->s, p);
  }
}
static void push_free(infer_dims *d, const dot_side *x, i64 but) {
  for (u32 i = 0; i < x->s->rank; i++)
    if (!x->taken[i] && i != but) infer_push_dim(d, x->s, i);
}

static hs_status dot_of(const infer_args *a, const hlo_shape *lhs, const hlo_shape *rhs,
                        const hlo_shape **out) {
  dot_side l, r;
  HS_TRY(dot_sides(a, &l, &r, lhs, rhs));
  infer_dims d = {0};
  push_batch(&d, &l, &r);
  push_free(&d, &l, -1);
  push_free(&d, &r, -1);
  return infer_array(a, contraction_type(a, lhs->dtype, rhs->dtype), &d, out);
}
hs_status hlo_infer_dot(const infer_args *a, const hlo_shape **out) {
  return dot_of(a, a->in[0], a->in[1], out);
}

// A scale is a scalar (absent), or has its operand's rank and sizes that divide its operand's.
static hs_status check_scale(const hlo_shape *x, const hlo_shape *scale, const char *side) {
  HS_TRY(infer_expect_array(scale, "scale of scaled-dot"));
  if (scale->rank == 0) return HS_GOOD;
  if (scale->rank != x->rank)
    return hs_fail(HS_E_SHAPE,
                   "%s scale of scaled-dot must have the rank of its operand: %s vs %s.", side,
                   infer_text(scale), infer_text(x));
  for (u32 i = 0; i < x->rank; i++)
    if (x->dims[i] != HLO_UNBOUNDED && scale->dims[i] != HLO_UNBOUNDED &&
        (scale->dims[i] == 0 ? x->dims[i] != 0 : x->dims[i] % scale->dims[i] != 0))
      return hs_fail(
          HS_E_SHAPE,
          "%s dimension %u of size %lld should be a multiple of dimension %u of its scale, %lld.",
          side, i, (long long)x->dims[i], i, (long long)scale->dims[i]);
  return HS_GOOD;
}
hs_status hlo_infer_scaled_dot(const infer_args *a, const hlo_shape **out) {
  HS_TRY(dot_of(a, a->in[0], a->in[1], out));
  HS_TRY(check_scale(a->in[0], a->in[2], "LHS"));
  return check_scale(a->in[1], a->in[3], "RHS");
}

// Where the one ragged dimension of lhs lies decides the mode: free (rhs has a group dimension),
// contracting (the result gets a leading group dimension) or batch. Group sizes are [groups], or
// one such row for each of the dimensions of lhs that stand before the ragged one in (batch, free
// or contracting) order.
hs_status hlo_infer_ragged_dot(const infer_args *a, const hlo_shape **out) {
  dot_side l, r;
  const hlo_shape *groups = a->in[2];
  hlo_ints ragged = infer_ints(a, HLO_ATTR_LHS_RAGGED_DIMS),
           group = infer_ints(a, HLO_ATTR_RHS_GROUP_DIMS);
  if (ragged.n != 1) return bad_dot(a, "There must be exactly one ragged dimension in the lhs.");
  HS_TRY(dot_sides(a, &l, &r, a->in[0], a->in[1]));
  HS_TRY(infer_expect_array(groups, "group_sizes of ragged dot"));
  i64 rd = ragged.v[0];
  if (rd < 0 || rd >= l.s->rank) return bad_dot(a, "The ragged dimension is out of range.");
  bool contracting = false, batch = false;
  for (u32 i = 0; i < l.contract.n; i++) contracting |= l.contract.v[i] == rd;
  for (u32 i = 0; i < l.batch.n; i++) batch |= l.batch.v[i] == rd;
  bool free = !contracting && !batch;
  if (free && group.n != 1)
    return bad_dot(
        a, "There must be exactly one group dimension in the rhs when the ragged dimension is "
           "non-contracting.");
  if (!free && group.n)
    return bad_dot(
        a, "There must be zero group dimensions in the rhs when the ragged dimension is batch or "
           "contracting.");
  if (free && (group.v[0] < 0 || group.v[0] >= r.s->rank || r.taken[group.v[0]]))
    return bad_dot(
        a, "The rhs group dimension must be neither batch nor contracting, and within range.");
  infer_dims prefix = {0};
  if (!batch)
    for (u32 i = 0; i < l.batch.n; i++) infer_push_dim(&prefix, l.s, (u32)l.batch.v[i]);
  for (u32 i = 0; batch && i < l.batch.n && l.batch.v[i] != rd; i++)
    infer_push_dim(&prefix, l.s, (u32)l.batch.v[i]);
  for (u32 i = 0; free && i < (u32)rd; i++)
    if (!l.taken[i]) infer_push_dim(&prefix, l.s, i);
  for (u32 i = 0; contracting && i < l.contract.n && l.contract.v[i] != rd; i++)
    infer_push_dim(&prefix, l.s, (u32)l.contract.v[i]);
  if (groups->rank != 1 && groups->rank != prefix.n + 1)
    return hs_fail(HS_E_SHAPE, "expected group_sizes to have rank %s%u, got %u",
                   prefix.n ? "1 or " : "", prefix.n + 1, groups->rank);
  i64 ngroups = groups->dims[groups->rank - 1];
  if (groups->rank > 1) {
    infer_push(&prefix, ngroups, false);
    for (u32 i = 0; i < prefix.n; i++)
      if (!infer_dims_fit(prefix.size[i], groups->dims[i]))
        return hs_fail(HS_E_SHAPE, "group_sizes is expected to have shape [%s], got [%s]",
                       infer_ints_text(prefix.n, prefix.size),
                       infer_ints_text(groups->rank, groups->dims));
  }
  if (free && !infer_dims_fit(r.s->dims[group.v[0]], ngroups))
    return bad_dot(a, "The rhs group dimension must have one entry per group.");
  infer_dims d = {0};
  if (contracting) infer_push(&d, ngroups, hlo_dim_is_dynamic(groups, groups->rank - 1));
  push_batch(&d, &l, &r);
  push_free(&d, &l, -1);
  push_free(&d, &r, free ? group.v[0] : -1);
  return infer_array(a, contraction_type(a, l.s->dtype, r.s->dtype), &d, out);
}

// ---- windows ------------------------------------------------------------------------------------
static bool dilate(i64 size, i64 by, i64 *out) {
  i64 t;
  if (size <= 0) return *out = 0, true;
  return hs_mul_ok(size - 1, by, &t) && hs_add_ok(t, 1, out);
}
hs_status infer_window(const hlo_shape *base, const i64 *base_dims, u32 n, const hlo_window *w,
                       infer_dims *out) {
  u32 wn = w ? w->n : 0;
  if (wn != n)
    return hs_fail(HS_E_SHAPE, "Window has dimension %u but base shape has dimension %u.", wn, n);
  for (u32 i = 0; i < n; i++) {
    const hlo_window_dim *k = &w->v[i];
    u32 at = base_dims ? (u32)base_dims[i] : i;
    const char *bad = k->size <= 0        ? "dimension"
                      : k->stride <= 0    ? "stride"
                      : k->lhs_dilate < 1 ? "base area dilation factor"
                      : k->rhs_dilate < 1 ? "window dilation factor"
                                          : NULL;
    if (bad) return hs_fail(HS_E_SHAPE, "Window has a non-positive %s in dimension %u.", bad, i);
    i64 size = base->dims[at], win;
    if (size == HLO_UNBOUNDED) {
      infer_push(out, size, true);
      continue;
    }
    if (!dilate(size, k->lhs_dilate, &size) || !hs_add_ok(size, k->pad_low, &size) ||
        !hs_add_ok(size, k->pad_high, &size) || !dilate(k->size, k->rhs_dilate, &win))
      return hs_fail(HS_E_LIMIT, "window dimension %u overflows", i);
    infer_push(out, size <= 0 || win > size ? 0 : (size - win) / k->stride + 1,
               hlo_dim_is_dynamic(base, at));
  }
  return HS_GOOD;
}

// ---- convolution --------------------------------------------------------------------------------
static bool conv_dims_ok(const hlo_dim_labels *l, u32 rank, i64 b, i64 f, const i64 *spatial) {
  bool seen[HLO_MAX_RANK] = {0};
  for (u32 i = 0; i < l->nspatial + 2; i++) {
    i64 d = i == 0 ? b : i == 1 ? f : spatial[i - 2];
    if (d < 0 || d >= rank || seen[d]) return false;
    seen[d] = true;
  }
  return true;
}
static hs_status check_sparsity(const infer_args *a) {
  const hlo_sparsity *sp = infer_ptr(a, HLO_ATTR_SPARSITY_CONFIG);
  if (!sp) return HS_GOOD;
  const hlo_sparsity_side *side[2] = {&sp->lhs, &sp->rhs};
  for (int i = 0; i < 2; i++)
    if (side[i]->present && side[i]->num_non_zero <= 0)
      return hs_fail(HS_E_SHAPE, "Only 1:N sparsity is currently supported.");
  return HS_GOOD;
}
hs_status hlo_infer_convolution(const infer_args *a, const hlo_shape **out) {
  HS_TRY(infer_need_operands(a, 2));
  const hlo_shape *x = a->in[0], *k = a->in[1];
  const hlo_dim_labels *l = infer_ptr(a, HLO_ATTR_DIM_LABELS);
  const hlo_window *w = infer_ptr(a, HLO_ATTR_WINDOW);
  HS_TRY(infer_expect_array(x, "lhs of convolution"));
  HS_TRY(infer_expect_array(k, "rhs of convolution"));
  if (!l) return hs_fail(HS_E_ATTR, "convolution needs the attribute dim_labels");
  HS_TRY(check_sparsity(a));
  i64 kind = infer_int(a, HLO_ATTR_CONVOLUTION_KIND, HLO_CONV_KIND_UNSET);
  // Gradients written as such, and packed filters with their side operands, leave sizes to the
  // library: the text decides.
  bool sparse = infer_ptr(a, HLO_ATTR_SPARSITY_CONFIG) != NULL;
  if (kind == HLO_CONV_KIND_DGRAD || kind == HLO_CONV_KIND_WGRAD || sparse ||
      (l->text && strchr(l->text, '?')))
    return hlo_infer_stated(a, out);
  i64 fg = infer_int(a, HLO_ATTR_FEATURE_GROUP_COUNT, 1),
      bg = infer_int(a, HLO_ATTR_BATCH_GROUP_COUNT, 1);
  if (fg <= 0)
    return hs_fail(HS_E_SHAPE, "feature_group_count must be a positive number, got %lld",
                   (long long)fg);
  if (bg <= 0)
    return hs_fail(HS_E_SHAPE, "batch_group_count must be a positive number, got %lld",
                   (long long)bg);
  if (fg > 1 && bg > 1)
    return hs_fail(
        HS_E_SHAPE,
        "both batch_group_count %lld and feature_group_count %lld cannot be greater than 1",
        (long long)bg, (long long)fg);
  u32 ns = l->nspatial;
  if (x->rank != ns + 2)
    return hs_fail(HS_E_SHAPE, "The LHS argument to a convolution should have rank %u; lhs: %s.",
                   ns + 2, infer_text(x));
  if (k->rank != ns + 2)
    return hs_fail(HS_E_SHAPE, "The RHS argument to a convolution should have rank %u; rhs: %s.",
                   ns + 2, infer_text(k));
  if (!conv_dims_ok(l, ns + 2, l->lhs_batch, l->lhs_feature, l->lhs_spatial) ||
      !conv_dims_ok(l, ns + 2, l->rhs_input_feature, l->rhs_output_feature, l->rhs_spatial) ||
      !conv_dims_ok(l, ns + 2, l->out_batch, l->out_feature, l->out_spatial))
    return hs_fail(HS_E_SHAPE,
                   "Dimension numbers for convolution are out of range or contain duplicates.");
  i64 batch = x->dims[l->lhs_batch], feat = x->dims[l->lhs_feature],
      kin = k->dims[l->rhs_input_feature], kout = k->dims[l->rhs_output_feature];
  if (feat != HLO_UNBOUNDED && kin != HLO_UNBOUNDED && (feat % fg || feat / fg != kin))
    return hs_fail(
        HS_E_SHAPE,
        "Expected LHS feature dimension (value %lld) to be a multiple of feature_group_count "
        "(value %lld), and LHS "
        "feature dimension / feature_group_count = RHS feature dimension (value %lld); got "
        "<conv>(%s, %s)",
        (long long)feat, (long long)fg, (long long)kin, infer_text(x), infer_text(k));
  if (kout != HLO_UNBOUNDED && (kout % fg || kout % bg))
    return hs_fail(
        HS_E_SHAPE,
        "Expected output feature dimension (value %lld) to be divisible by feature_group_count "
        "(value %lld) and "
        "batch_group_count (value %lld); got <conv>(%s, %s)",
        (long long)kout, (long long)fg, (long long)bg, infer_text(x), infer_text(k));
  if (batch != HLO_UNBOUNDED && batch % bg)
    return hs_fail(
        HS_E_SHAPE,
        "Expected input batch dimension (value %lld) to be divisible by batch_group_count (value "
        "%lld); got <conv>(%s, %s)",
        (long long)batch, (long long)bg, infer_text(x), infer_text(k));
  for (u32 i = 0; w && i < w->n && i < ns; i++)
    if (!infer_dims_fit(w->v[i].size, k->dims[l->rhs_spatial[i]]))
      return hs_fail(
          HS_E_SHAPE,
          "Window dimensions do not match RHS shape: window size %lld in spatial dimension %u, RHS "
          "shape %s.",
          (long long)w->v[i].size, i, infer_text(k));
  infer_dims sp = {0}, d = {.n = ns + 2};
  HS_TRY(infer_window(x, l->lhs_spatial, ns, w, &sp));
  d.size[l->out_batch] = batch == HLO_UNBOUNDED ? batch : batch / bg;
  d.dyn[l->out_batch] = hlo_dim_is_dynamic(x, (u32)l->lhs_batch);
  d.size[l->out_feature] = kout,
  d.dyn[l->out_feature] = hlo_dim_is_dynamic(k, (u32)l->rhs_output_feature);
  for (u32 i = 0; i < ns; i++)
    d.size[l->out_spatial[i]] = sp.size[i], d.dyn[l->out_spatial[i]] = sp.dyn[i];
  return infer_array(a, contraction_type(a, x->dtype, k->dtype), &d, out);
}

// ---- fft, linear algebra ------------------------------------------------------------------------
hs_status hlo_infer_fft(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0];
  hlo_ints len = infer_ints(a, HLO_ATTR_FFT_LENGTH);
  i64 type = infer_int(a, HLO_ATTR_FFT_TYPE, HLO_FFT_TYPE_FFT);
  const char *name = hlo_enum_text(HLO_AK_ENUM_FFT_TYPE, type);
  HS_TRY(infer_expect_array(x, "fft"));
  if (len.n < 1 || len.n > 3)
    return hs_fail(HS_E_SHAPE, "FFT only supports ranks 1-3; got %u.", len.n);
  if (x->rank < len.n)
    return hs_fail(HS_E_SHAPE,
                   "FFT requires input of at least same rank as FFT rank; got input of rank %u",
                   x->rank);
  bool real_in = type == HLO_FFT_TYPE_RFFT;
  if (real_in ? x->dtype != HLO_F32 && x->dtype != HLO_F64 : !hlo_dtype_is_complex(x->dtype))
    return hs_fail(HS_E_SHAPE, "%s requires %s input type, found %s.", name,
                   real_in ? "F32 or F64" : "complex", hlo_dtype_text(x->dtype));
  infer_dims d = {0};
  u32 lead = x->rank - len.n;
  for (u32 i = 0; i < x->rank; i++) infer_push_dim(&d, x, i);
  for (u32 i = 0; i < len.n; i++) {
    bool last = i + 1 == len.n, half = type == HLO_FFT_TYPE_IRFFT && last;
    if (len.v[i] < 0)
      return hs_fail(HS_E_SHAPE, "fft_length must not be negative; got %lld.", (long long)len.v[i]);
    i64 want = half && len.v[i] ? len.v[i] / 2 + 1 : len.v[i];
    // XLA checks these two only when it runs them
    bool whole = type == HLO_FFT_TYPE_FFT || type == HLO_FFT_TYPE_IFFT;
    if (!whole && !infer_dims_fit(x->dims[lead + i], want))
      return hs_fail(
          HS_E_SHAPE,
          "%s requires %s dimension to match %s, but dimension %u is %lld and should be %lld.",
          name, last ? "innermost" : "all but innermost", half ? "fft_length/2+1" : "fft_length",
          lead + i, (long long)x->dims[lead + i], (long long)want);
    if (real_in && last && d.size[lead + i] != 0)
      d.size[lead + i] = len.v[i] / 2 + 1, d.dyn[lead + i] &= x->dims[lead + i] != HLO_UNBOUNDED;
    if (half) d.size[lead + i] = len.v[i], d.dyn[lead + i] &= x->dims[lead + i] != HLO_UNBOUNDED;
  }
  hlo_dtype t = real_in                      ? (x->dtype == HLO_F32 ? HLO_C64 : HLO_C128)
                : type == HLO_FFT_TYPE_IRFFT ? hlo_dtype_real_part(x->dtype)
                                             : x->dtype;
  return infer_array(a, t, &d, out);
}

hs_status hlo_infer_cholesky(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *x = a->in[0];
  HS_TRY(infer_expect_array(x, "cholesky"));
  if (!hlo_dtype_is_float(x->dtype) && !hlo_dtype_is_complex(x->dtype))
    return hs_fail(HS_E_SHAPE,
                   "Expected element type to be floating or complex for Cholesky; got %s.",
                   hlo_dtype_text(x->dtype));
  if (x->rank < 2)
    return hs_fail(HS_E_SHAPE, "The 'a' argument to Cholesky must have rank >= 2, got shape %s",
                   infer_text(x));
  if (!infer_dims_fit(x->dims[x->rank - 1], x->dims[x->rank - 2]))
    return hs_fail(HS_E_SHAPE,
                   "The two minor dimensions of 'a' must have equal size or compatible, got %s.",
                   infer_text(x));
  *out = x;
  return HS_GOOD;
}
hs_status hlo_infer_triangular_solve(const infer_args *a, const hlo_shape **out) {
  const hlo_shape *m = a->in[0], *b = a->in[1];
  HS_TRY(infer_expect_array(m, "a of triangular-solve"));
  HS_TRY(infer_expect_array(b, "b of triangular-solve"));
  if ((!hlo_dtype_is_float(m->dtype) && !hlo_dtype_is_complex(m->dtype)) || m->dtype != b->dtype)
    return hs_fail(HS_E_SHAPE,
                   "Expected element types in shape to be floating or complex and the same for "
                   "TriangularSolve; got %s and %s.",
                   hlo_dtype_text(m->dtype), hlo_dtype_text(b->dtype));
  if (m->rank < 2)
    return hs_fail(HS_E_SHAPE,
                   "The 'a' argument to TriangularSolve must have rank >= 2, got shape %s",
                   infer_text(m));
  if (m->rank != b->rank)
    return hs_fail(HS_E_SHAPE, "Arguments to triangular solve must have equal rank; got %s and %s.",
                   infer_text(b), infer_text(m));
  u32 r = m->rank;
  if (!infer_dims_fit(m->dims[r - 1], m->dims[r - 2]))
    return hs_fail(HS_E_SHAPE, "The two minor dimensions of 'a' must have equal size, got %s.",
                   infer_text(m));
  bool left = infer_int(a, HLO_ATTR_LEFT_SIDE, 0) != 0;
  if (!infer_dims_fit(m->dims[r - 1], b->dims[left ? r - 2 : r - 1]))
    return hs_fail(HS_E_SHAPE,
                   "The shared dimension of 'a' and 'b' does not match, got shapes %s and %s",
                   infer_text(m), infer_text(b));
  for (u32 i = 0; i + 2 < r; i++)
    if (!infer_dims_fit(m->dims[i], b->dims[i]))
      return hs_fail(
          HS_E_SHAPE,
          "The major batch dimensions of the arguments to triangular solve must be equal; got %s "
          "and %s.",
          infer_text(m), infer_text(b));
  if (infer_int(a, HLO_ATTR_TRANSPOSE_A, HLO_TRANSPOSE_NO_TRANSPOSE) > HLO_TRANSPOSE_ADJOINT)
    return hs_fail(HS_E_SHAPE, "Invalid transpose option value for triangular solve.");
  *out = b;
  return HS_GOOD;
}

// ---- batch normalization ------------------------------------------------------------------------
// Operand 0 is the activation; `vectors` of the others are rank 1, as long as the feature
// dimension.
static hs_status check_batch_norm(const infer_args *a, u32 vectors, i64 *feature) {
  const hlo_shape *x = a->in[0];
  *feature = infer_int(a, HLO_ATTR_FEATURE_INDEX, -1);
  HS_TRY(infer_expect_array(x, "operand of batch norm"));
  if (*feature < 0 || *feature >= x->rank)
    return hs_fail(
        HS_E_SHAPE,
        "Expected feature_index of %s to be within the rank of the operand; got feature_index "
        "%lld, and rank %u.",
        hlo_op_text(a->op), (long long)*feature, x->rank);
  if (!hlo_dtype_is_float(x->dtype))
    return hs_fail(
        HS_E_SHAPE,
        "The operand to %s must have a floating point element type, but the shape is %s.",
        hlo_op_text(a->op), infer_text(x));
  for (u32 i = 1; i <= vectors; i++) {
    const hlo_shape *v = a->in[i];
    HS_TRY(infer_expect_array(v, "vector operand of batch norm"));
    if (v->rank != 1 || !infer_same_type_class(v->dtype, x->dtype))
      return hs_fail(
          HS_E_SHAPE,
          "Operand %u of %s must have rank 1 and the operand's element type, but got %s.", i,
          hlo_op_text(a->op), infer_text(v));
    if (!infer_dims_fit(v->dims[0], x->dims[*feature]))
      return hs_fail(
          HS_E_SHAPE,
          "The size of operand %u of %s should be the same as feature count, but the size of it is "
          "%lld and the "
          "feature count is %lld.",
          i, hlo_op_text(a->op), (long long)v->dims[0], (long long)x->dims[*feature]);
  }
  return HS_GOOD;
}
static hs_status batch_norm_tuple(const infer_args *a, i64 feature, const hlo_shape **out) {
  infer_dims d = {0};
  const hlo_shape *vec;
  infer_push_dim(&d, a->in[0], (u32)feature);
  HS_TRY(infer_array(a, a->in[1]->dtype, &d, &vec));
  *out = hlo_shape_tuple(a->ctx, 3, (const hlo_shape *const[]){a->in[0], vec, vec});
  return HS_GOOD;
}
hs_status hlo_infer_batch_norm_train(const infer_args *a, const hlo_shape **out) {
  i64 feature;
  HS_TRY(check_batch_norm(a, 2, &feature));
  return batch_norm_tuple(a, feature, out);
}
hs_status hlo_infer_batch_norm_inf(const infer_args *a, const hlo_shape **out) {
  i64 feature;
  HS_TRY(check_batch_norm(a, 4, &feature));
  *out = a->in[0];
  return HS_GOOD;
}
hs_status hlo_infer_batch_norm_grad(const infer_args *a, const hlo_shape **out) {
  i64 feature;
  HS_TRY(check_batch_norm(a, 3, &feature));
  if (!infer_compatible(a->in[0], a->in[4], INFER_ANY_FLOAT))
    return hs_fail(
        HS_E_SHAPE,
        "Inputs of batch-norm-grad must have the same shape; got activation %s and gradient %s.",
        infer_text(a->in[0]), infer_text(a->in[4]));
  return batch_norm_tuple(a, feature, out);
}
