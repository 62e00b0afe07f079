// reduce_window_rewriter.c — reduce-window-rewriter
// (xla/hlo/transforms/simplifiers/reduce_window_rewriter.cc): prefix reductions in two levels.
//
// A reduce-window that is a prefix (running) reduction along one dimension does N*N work. When the
// dimension is longer than base_length, it is split into tiles of base_length: a prefix reduction
// inside each tile, another one over the totals of the tiles, and the two combined (an exclusive
// one is then padded). Other reduce-windows over vectors get a second dimension of size 1, for code
// generators that require two. Variadic ones are handled in the same way.
#include "passes/run/rewrite.h"
#include "passes/simplify/algsimp.h"

typedef struct shaped {
  u32 rank;
  i64 dims[HLO_MAX_RANK], minor[HLO_MAX_RANK];
  bool layout;
} shaped;

static shaped shaped_of(const hlo_shape *s) {
  shaped r = {.rank = s->rank, .layout = s->layout != NULL};
  for (u32 k = 0; k < s->rank; k++)
    r.dims[k] = s->dims[k],
    r.minor[k] = s->layout ? s->layout->minor_to_major[k] : (i64)(s->rank - 1 - k);
  return r;
}

static const hlo_shape *shape_from(hlo_ctx *ctx, hlo_dtype t, const shaped *x) {
  const hlo_shape *s = hlo_shape_array(ctx, t, x->rank, x->dims);
  if (!x->layout) return s;
  hlo_layout l = *hlo_layout_default(ctx, x->rank);
  l.minor_to_major = x->minor;
  return hlo_shape_with_layout(ctx, s, hlo_layout_intern(ctx, &l));
}

// the major one
static void append_dim(shaped *x, i64 size) {
  x->dims[x->rank] = size, x->minor[x->rank] = x->rank, x->rank++;
}
static void drop_last(shaped *x) {
  u32 n = 0;
  for (u32 k = 0; k < x->rank; k++)
    if (x->minor[k] != (i64)x->rank - 1) x->minor[n++] = x->minor[k];
  x->rank--;
}

// ---- building -----------------------------------------------------------------------------------
static hlo_instr *reshaped(hlo_instr *x, const shaped *to) {
  return hlo_add(x->parent, HLO_RESHAPE, shape_from(x->parent->module->ctx, x->shape->dtype, to), 1,
                 &x, NULL);
}

static hlo_instr *sliced(hlo_instr *x, u32 dim, i64 start, i64 limit) {
  hs_arena *a = &x->parent->module->arena;
  shaped s = shaped_of(x->shape);
  hlo_slices *sl = HS_NEW(a, hlo_slices);
  hlo_slice_dim *v = HS_NEW_ARRAY(a, hlo_slice_dim, s.rank);
  for (u32 k = 0; k < s.rank; k++) v[k] = (hlo_slice_dim){0, s.dims[k], 1};
  v[dim].start = start, v[dim].limit = limit;
  s.dims[dim] = limit - start;
  *sl = (hlo_slices){s.rank, v};
  hlo_instr *r = hlo_add(x->parent, HLO_SLICE,
                         shape_from(x->parent->module->ctx, x->shape->dtype, &s), 1, &x, NULL);
  hlo_set_attr_ptr(r, HLO_ATTR_SLICE, sl);
  return r;
}

static hlo_instr *swapped(hlo_instr *x, u32 d, u32 e) {
  shaped s = shaped_of(x->shape);
  i64 perm[HLO_MAX_RANK];
  for (u32 k = 0; k < s.rank; k++) perm[k] = k == d ? e : k == e ? d : k;
  for (u32 k = 0; k < s.rank; k++)
    s.dims[k] = x->shape->dims[perm[k]], s.minor[k] = perm[s.minor[k]];
  hlo_instr *t = hlo_add(x->parent, HLO_TRANSPOSE,
                         shape_from(x->parent->module->ctx, x->shape->dtype, &s), 1, &x, NULL);
  hlo_set_attr_ints(t, HLO_ATTR_DIMENSIONS, s.rank, perm);
  return t;
}

static hlo_instr *padded(hlo_instr *x, hlo_instr *init, u32 dim, i64 before, i64 behind) {
  hs_arena *a = &x->parent->module->arena;
  shaped s = shaped_of(x->shape);
  hlo_padding *p = HS_NEW(a, hlo_padding);
  hlo_pad_dim *v = HS_NEW_ARRAY(a, hlo_pad_dim, s.rank);
  v[dim].low = before, v[dim].high = behind, s.dims[dim] += before + behind;
  *p = (hlo_padding){s.rank, v};
  hlo_instr *r =
      hlo_add(x->parent, HLO_PAD, shape_from(x->parent->module->ctx, x->shape->dtype, &s), 2,
              (hlo_instr *[]){x, init}, NULL);
  hlo_set_attr_ptr(r, HLO_ATTR_PADDING, p);
  return r;
}

// A reduce-window over n arrays with their initial values; `w` is copied. The result's dimensions
// are `out`.
static hlo_instr *windowed(pass_ctx *c, hlo_instr *like, u32 n, hlo_instr *const *x,
                           const hlo_window_dim *w, const shaped *out) {
  hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, 2 * n);
  const hlo_shape **shapes = HS_NEW_ARRAY(c->scratch, const hlo_shape *, n);
  for (u32 k = 0; k < n; k++)
    ops[k] = x[k], ops[n + k] = hlo_operand(like, n + k),
    shapes[k] = shape_from(c->m->ctx, x[k]->shape->dtype, out);
  bool tuple = hlo_shape_is_tuple(like->shape);
  hlo_instr *r =
      hlo_add(like->parent, HLO_REDUCE_WINDOW,
              tuple ? hlo_shape_tuple(c->m->ctx, n, shapes) : shapes[0], 2 * n, ops, NULL);
  hlo_copy_attrs(r, like);
  hlo_window *win = HS_NEW(&c->m->arena, hlo_window);
  *win = (hlo_window){out->rank, hs_arena_dup(&c->m->arena, w, out->rank * sizeof *w)};
  hlo_set_attr_ptr(r, HLO_ATTR_WINDOW, win);
  hlo_add_provenance(r, like);
  return r;
}

static hlo_instr *result_of(hlo_instr *r, u32 k) {
  return hlo_shape_is_tuple(r->shape) ? hlo_add_gte(r, k) : r;
}

// ---- running reductions -------------------------------------------------------------------------
// exclusive: one result more than there are elements, each over the preceding elements (or the
// following ones, when backward).
typedef struct running {
  u32 dim;
  bool forward, exclusive;
} running;

static bool is_running(const hlo_instr *i, running *out) {
  const hlo_window *w = hlo_attr_ptr(i, HLO_ATTR_WINDOW);
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  bool found = false;
  for (u32 k = 0; w && k < w->n; k++) {
    const hlo_window_dim *d = &w->v[k];
    if (d->stride != 1 || d->lhs_dilate != 1 || d->rhs_dilate != 1 || d->reversal) return false;
    if (d->size == 1 && !d->pad_low && !d->pad_high) continue;
    bool forward = (d->pad_low == d->size - 1 || d->pad_low == d->size) && !d->pad_high;
    bool backward = (d->pad_high == d->size - 1 || d->pad_high == d->size) && !d->pad_low;
    if (found || d->size != s->dims[k] || (!forward && !backward)) return false;
    found = true, *out = (running){k, forward, HS_MAX(d->pad_low, d->pad_high) == d->size};
  }
  return found;
}

static void in_two_levels(pass_ctx *c, hlo_instr *i, running run, i64 base) {
  u32 n = i->noperands / 2, rank = hlo_operand(i, 0)->shape->rank, last = rank - 1;
  bool tuple = hlo_shape_is_tuple(i->shape);
  i64 length = hlo_operand(i, 0)->shape->dims[run.dim], columns = (length + base - 1) / base;
  hlo_instr **x = HS_NEW_ARRAY(c->scratch, hlo_instr *, 4 * n), **total = x + n,
            **spread = x + 2 * n, **done = x + 3 * n;
  for (u32 k = 0; k < n; k++) {
    x[k] = hlo_operand(i, k);
    if (run.dim != last) x[k] = swapped(x[k], run.dim, last);
    if (columns * base != length)
      x[k] = padded(x[k], hlo_operand(i, n + k), last, 0, columns * base - length);
  }
  shaped flat = shaped_of(x[0]->shape), tiled = flat;
  tiled.dims[last] = columns;
  shaped column = tiled, wider = tiled;
  append_dim(&tiled, base);
  for (u32 k = 0; k < n; k++) x[k] = reshaped(x[k], &tiled);
  hlo_window_dim w[HLO_MAX_RANK];
  for (u32 k = 0; k <= rank; k++) w[k] = (hlo_window_dim){1, 1, 0, 0, 1, 1, false};
  w[rank].size = base;
  *(run.forward ? &w[rank].pad_low : &w[rank].pad_high) = base - 1;
  hlo_instr *inner = windowed(c, i, n, x, w, &tiled),
            **within = HS_NEW_ARRAY(c->scratch, hlo_instr *, n);
  for (u32 k = 0; k < n; k++) within[k] = result_of(inner, k);
  for (u32 k = 0; k < n; k++) {
    hlo_instr *edge =
        sliced(result_of(inner, k), rank, run.forward ? base - 1 : 0, run.forward ? base : 1);
    total[k] = reshaped(edge, &column);
  }
  // The totals of the tiles before each: one window more than there are tiles, the last one of all
  // of them is left out.
  w[rank] = (hlo_window_dim){1, 1, 0, 0, 1, 1, false};
  w[last].size = columns;
  *(run.forward ? &w[last].pad_low : &w[last].pad_high) = columns;
  wider.dims[last] = columns + 1;
  hlo_instr *outer = windowed(c, i, n, total, w, &wider);
  i64 most[HLO_MAX_RANK];
  for (u32 k = 0; k <= rank; k++) most[k] = k;
  for (u32 k = 0; k < n; k++) {
    hlo_instr *before =
        sliced(result_of(outer, k), last, run.forward ? 0 : 1, run.forward ? columns : columns + 1);
    spread[k] =
        hlo_add_broadcast(before, shape_from(c->m->ctx, before->shape->dtype, &tiled), rank, most);
  }
  hlo_computation *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
  hlo_instr **args = HS_NEW_ARRAY(c->scratch, hlo_instr *, 2 * n);
  for (u32 k = 0; k < n; k++) args[k] = within[k], args[n + k] = spread[k];
  for (u32 k = 0; k < n; k++) {
    hlo_instr *r =
        hlo_add_call(i->parent, HLO_MAP, shape_from(c->m->ctx, x[k]->shape->dtype, &tiled),
                     HLO_ATTR_TO_APPLY, pass_element_of(f, k), 2 * n, args);
    r = reshaped(r, &flat);
    if (run.dim != last) r = swapped(r, run.dim, last);
    if (columns * base != length) r = sliced(r, run.dim, 0, length);
    if (run.exclusive)
      r = padded(r, hlo_operand(i, n + k), run.dim, run.forward ? 1 : 0, run.forward ? 0 : 1);
    const hlo_shape *want = tuple ? i->shape->elems[k] : i->shape;
    if (r->shape != want) hlo_set_shape(r, want);
    done[k] = r;
  }
  hlo_replace(i, tuple ? hlo_add_tuple(i->parent, n, done) : done[0]);
}

// ---- vectors ------------------------------------------------------------------------------------
static void as_matrix(pass_ctx *c, hlo_instr *i) {
  u32 n = i->noperands / 2;
  bool tuple = hlo_shape_is_tuple(i->shape);
  hlo_instr **x = HS_NEW_ARRAY(c->scratch, hlo_instr *, n);
  for (u32 k = 0; k < n; k++) {
    shaped s = shaped_of(hlo_operand(i, k)->shape);
    append_dim(&s, 1);
    x[k] = reshaped(hlo_operand(i, k), &s);
  }
  const hlo_shape *one = tuple ? i->shape->elems[0] : i->shape;
  shaped out = shaped_of(one);
  append_dim(&out, 1);
  hlo_window_dim w[2] = {((const hlo_window *)hlo_attr_ptr(i, HLO_ATTR_WINDOW))->v[0],
                         {1, 1, 0, 0, 1, 1, false}};
  hlo_instr *r = windowed(c, i, n, x, w, &out);
  drop_last(&out);
  for (u32 k = 0; k < n; k++) x[k] = reshaped(result_of(r, k), &out);
  hlo_replace(i, tuple ? hlo_add_tuple(i->parent, n, x) : x[0]);
}

static bool of_one_precision(const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands / 2; k++)
    if (hlo_shape_leaf(i->shape, k)->dtype != hlo_operand(i, k)->shape->dtype) return false;
  return true;
}

static hs_status run(pass_ctx *c) {
  i64 base = pass_option_int(c, "base_length");
  if (base < 2) return HS_GOOD;
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_instr **order = pass_post_order(c, comp);
    for (u32 k = 0, n = comp->ninstrs; k < n; k++) {
      hlo_instr *i = order[k];
      running run = {0};
      if (i->opcode != HLO_REDUCE_WINDOW || !i->noperands || pass_is_cut(hlo_operand(i, 0)))
        continue;
      const hlo_instr *root = hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root;
      bool by_element = !hlo_shape_is_tuple(root->shape) || root->opcode == HLO_TUPLE;
      bool scan =
          by_element && is_running(i, &run) && hlo_operand(i, 0)->shape->dims[run.dim] > base;
      if (!scan && hlo_operand(i, 0)->shape->rank != 1) {
        pass_note_declined(c, i, NULL, "not a running reduction longer than %lld", (long long)base);
        continue;
      }
      bool known = pass_alg_reducer(hlo_attr_comp(i, HLO_ATTR_TO_APPLY)) != HLO_OP_INVALID;
      if (scan && ((i->noperands == 2 && !known) || pass_alg_counts_init_again(i))) {
        pass_note_declined(c, i, NULL,
                           known ? "its initial value counts in each tile"
                                 : "its initial value may count in each tile");
        continue;
      }
      if (!of_one_precision(i)) {
        pass_note_declined(c, i, NULL, "its results have another precision than its operands");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL,
                     scan ? "running reduction over tiles, then over their totals"
                          : "over a second dimension of size 1");
      if (scan) in_two_levels(c, i, run, base);
      else as_matrix(c, i);
    }
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"base_length", PASS_INT, "128",
     "tile size; longer prefix reductions are split; below 2: none"},
};

const pass_info pass_reduce_window_rewriter = {
    .name = "reduce-window-rewriter",
    .summary = "splits running reductions into tiles and their totals",
    .xla_source = "xla/hlo/transforms/simplifiers/reduce_window_rewriter.cc",
    .run = run,
    .needs = {HLO_REDUCE_WINDOW},
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample =
        PASS_SUM "ENTRY e {\n"
                 "  x = f32[256] parameter(0)\n"
                 "  zero = f32[] constant(0)\n"
                 "  ROOT running = f32[256] reduce-window(x, zero), window={size=256 pad=255_0}, "
                 "to_apply=sum\n"
                 "}\n",
};
