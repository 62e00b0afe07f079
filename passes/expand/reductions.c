// reductions.c — splitting and ordering reductions.
//
// tree_reduction_rewriter (xla/hlo/transforms/simplifiers/tree_reduction_rewriter.cc): a long
// reduction becomes a
//   reduce-window over tiles followed by a shorter one, which sums more accurately. Option
//   reduce_window_size (32). Both start from the initial value; XLA leaves it to the program that
//   this is the identity, here a constant that is not keeps the reduction whole.
// reduce-decomposer (xla/service/reduce_decomposer.cc): a reduce whose result is stored in another
// order than its operand's
//   remaining dimensions gets the natural order, and a copy makes the asked one, behind the
//   conversion that alone uses the result; several operands take the order of the first. Option
//   custom_layout_allowed: results may be in any order.
#include "passes/simplify/algsimp.h"
#include "passes/run/util.h"

static const hlo_instr *unconverted(const hlo_instr *v) {
  while (v->opcode == HLO_CONVERT) v = hlo_operand(v, 0);
  return v;
}

// An initial value that changes the result when it goes in once per tile.
static bool counts_init_again(const hlo_instr *r) {
  const hlo_instr *f = unconverted(hlo_attr_comp(r, HLO_ATTR_TO_APPLY)->root),
                  *init = unconverted(hlo_operand(r, 1));
  hlo_opcode op = f->opcode;
  if ((op != HLO_ADD && op != HLO_MULTIPLY && op != HLO_XOR) ||
      unconverted(hlo_operand(f, 0))->opcode != HLO_PARAMETER)
    return false;
  return unconverted(hlo_operand(f, 1))->opcode == HLO_PARAMETER && init->opcode == HLO_CONSTANT &&
         !pass_alg_is_identity(op, init);
}

static bool tree_reduce(pass_ctx *c, hlo_instr *r, i64 size) {
  if (r->noperands != 2 || !hlo_shape_is_array(r->shape)) {
    pass_note_declined(c, r, NULL, "it reduces several arrays");
    return false;
  }
  hlo_instr *x = hlo_operand(r, 0);
  hlo_ints dims = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  const hlo_shape *s = x->shape;
  if (hlo_shape_is_dynamic(s)) return false;
  bool big = false;
  for (u32 k = 0; k < dims.n; k++) big |= s->dims[dims.v[k]] > size;
  if (!big) return false;
  if (counts_init_again(r)) {
    pass_note_declined(c, r, hlo_operand(r, 1),
                       "its initial value is not the identity, and each tile would start from it");
    return false;
  }
  if (!pass_may_rewrite(c)) return false;
  hlo_window_dim *w = HS_NEW_ARRAY(&c->m->arena, hlo_window_dim, s->rank);
  i64 out[HLO_MAX_RANK];
  for (u32 d = 0; d < s->rank; d++)
    w[d] = (hlo_window_dim){1, 1, 0, 0, 1, 1, false}, out[d] = s->dims[d];
  for (u32 k = 0; k < dims.n; k++) {
    i64 d = dims.v[k], tile = HS_MIN(size, s->dims[d]);
    if (tile == 0) continue;
    i64 tiles = (s->dims[d] + tile - 1) / tile, padding = tiles * tile - s->dims[d];
    w[d].size = w[d].stride = tile;
    w[d].pad_low = padding / 2;
    w[d].pad_high = padding - w[d].pad_low;
    out[d] = tiles;
  }
  const hlo_shape *shape = hlo_shape_array(c->m->ctx, s->dtype, s->rank, out);
  if (s->layout) shape = hlo_shape_with_layout(c->m->ctx, shape, s->layout);
  hlo_instr *ops[] = {x, hlo_operand(r, 1)},
            *rw = hlo_add(r->parent, HLO_REDUCE_WINDOW, shape, 2, ops, NULL);
  hlo_window *win = HS_NEW(&c->m->arena, hlo_window);
  *win = (hlo_window){s->rank, w};
  hlo_set_attr_ptr(rw, HLO_ATTR_WINDOW, win);
  hlo_set_attr_comp(rw, HLO_ATTR_TO_APPLY, hlo_attr_comp(r, HLO_ATTR_TO_APPLY));
  hlo_add_provenance(rw, r);
  const hlo_attr *md = hlo_attr_get(r, HLO_ATTR_METADATA);
  if (md) hlo_set_attr(rw, *md);
  hlo_move_before(rw, r);
  hlo_set_operand(r, 0, rw);
  pass_note_done(c, r, rw, "tiles of %lld are reduced first", (long long)size);
  return true;
}

static hs_status run_tree_reduction_rewriter(pass_ctx *c) {
  i64 size = pass_option_int(c, "reduce_window_size");
  if (size < 2) return HS_GOOD;
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr(i, comp)
      if (i->opcode == HLO_REDUCE) tree_reduce(c, i, size);
  }
  return HS_GOOD;
}

static const pass_option_info tree_reduction_rewriter_options[] = {
    {"reduce_window_size", PASS_INT, "32",
     "elements of a tile along a reduced dimension; below 2: nothing is done"},
};

const pass_info pass_tree_reduction_rewriter = {
    .name = "tree_reduction_rewriter",
    .summary = "reduces long dimensions in tiles",
    .xla_source = "xla/hlo/transforms/simplifiers/tree_reduction_rewriter.cc",
    .run = run_tree_reduction_rewriter,
    .needs = {HLO_REDUCE},
    .again = true,
    .options = tree_reduction_rewriter_options,
    .noptions = HS_COUNT(tree_reduction_rewriter_options),
    .sample = "sum {\n  sum_a = f32[] parameter(0)\n"
              "  sum_b = f32[] parameter(1)\n"
              "  ROOT sum_c = f32[] add(sum_a, sum_b)\n}\n"
              "ENTRY e {\n"
              "  x = f32[100] parameter(0)\n"
              "  zero = f32[] constant(0)\n"
              "  ROOT y = f32[] reduce(x, zero), dimensions={0}, to_apply=sum\n"
              "}\n",
};

// The order that the operand's layout gives to the result's dimensions.
static const hlo_shape *natural_shape(const hlo_instr *r, const hlo_shape *out) {
  const hlo_shape *s = hlo_operand(r, 0)->shape;
  hlo_ints dims = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  i64 number[HLO_MAX_RANK], order[HLO_MAX_RANK];
  u32 n = 0, m = 0;
  for (u32 d = 0; d < s->rank; d++) {
    bool gone = false;
    for (u32 k = 0; k < dims.n; k++) gone |= dims.v[k] == (i64)d;
    number[d] = gone ? -1 : (i64)n++;
  }
  for (u32 k = 0; k < s->rank; k++)
    if (number[s->layout->minor_to_major[k]] >= 0)
      order[m++] = number[s->layout->minor_to_major[k]];
  hlo_layout l = *out->layout;
  l.minor_to_major = order;
  return hlo_shape_with_layout(r->parent->module->ctx, out,
                               hlo_layout_intern(r->parent->module->ctx, &l));
}

// Operands of one reduction are in the order of the first.
static void equalize(pass_ctx *c, hlo_instr *r) {
  const hlo_shape *first = hlo_operand(r, 0)->shape;
  for (u32 k = 1; k < r->noperands / 2; k++) {
    hlo_instr *x = hlo_operand(r, k);
    if (!x->shape->layout ||
        memcmp(x->shape->layout->minor_to_major, first->layout->minor_to_major,
               first->rank * sizeof(i64)) == 0 ||
        !pass_may_rewrite(c))
      continue;
    pass_note_done(c, r, x, "operand %u takes the order of the first", k);
    hlo_layout l = *x->shape->layout;
    l.minor_to_major = first->layout->minor_to_major;
    hlo_instr *copy = hlo_add_before(
        r, HLO_COPY, hlo_shape_with_layout(c->m->ctx, x->shape, hlo_layout_intern(c->m->ctx, &l)),
        1, &x, NULL);
    hlo_set_operand(r, k, copy);
  }
}

// The result is `natural`; its only user, a convert, follows, and a copy puts that in order.
static void copy_converted(hlo_instr *reduce, hlo_instr *natural, hlo_instr *convert) {
  const hlo_shape *want = convert->shape;
  hlo_set_operand(convert, 0, natural);
  hlo_set_shape(convert,
                hlo_shape_with_dtype(convert->parent->module->ctx, natural->shape, want->dtype));
  hlo_replace_uses(convert, hlo_add(convert->parent, HLO_COPY, want, 1, &convert, NULL));
  hlo_remove_dead(reduce);
}

static hs_status run_reduce_decomposer(pass_ctx *c) {
  bool any_layout = pass_option_bool(c, "custom_layout_allowed");
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_REDUCE || !hlo_operand(i, 0)->shape->layout) continue;
      equalize(c, i);
      if (any_layout) continue;
      bool tuple = hlo_shape_is_tuple(i->shape), differs = false;
      u32 n = tuple ? i->shape->nelems : 1;
      const hlo_shape **now = HS_NEW_ARRAY(c->scratch, const hlo_shape *, n);
      for (u32 k = 0; k < n; k++) {
        const hlo_shape *s = tuple ? i->shape->elems[k] : i->shape;
        if (!s->layout) {
          now[k] = s;
          continue;
        }
        now[k] = natural_shape(i, s);
        differs |= now[k] != s;
      }
      if (!differs || !pass_may_rewrite(c)) continue;
      pass_note_done(c, i, NULL, "the result keeps the operand's order; a copy reorders it");
      const hlo_shape *old = i->shape;
      hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, i->noperands),
                **elems = HS_NEW_ARRAY(c->scratch, hlo_instr *, n);
      for (u32 k = 0; k < i->noperands; k++) ops[k] = hlo_operand(i, k);
      hlo_instr *r = hlo_clone_instr(comp, i, tuple ? hlo_shape_tuple(c->m->ctx, n, now) : now[0],
                                     i->noperands, ops);
      hlo_instr *user = i->nuses == 1 && !hlo_is_root(i) ? i->first_use->user : NULL;
      if (!tuple && user && user->opcode == HLO_CONVERT) {
        copy_converted(i, r, user);
        continue;
      }
      for (u32 k = 0; k < n; k++) {
        hlo_instr *e = tuple ? hlo_add_gte(r, k) : r;
        const hlo_shape *want = tuple ? old->elems[k] : old;
        elems[k] = want == e->shape ? e : hlo_add(comp, HLO_COPY, want, 1, &e, NULL);
      }
      hlo_replace(i, tuple ? hlo_add_tuple(comp, n, elems) : elems[0]);
    }
  }
  return HS_GOOD;
}

static const pass_option_info reduce_decomposer_options[] = {
    {"custom_layout_allowed", PASS_BOOL, "false", "results may be in any order"},
};

const pass_info pass_reduce_decomposer = {
    .name = "reduce-decomposer",
    .summary = "reductions keep their operand's order",
    .xla_source = "xla/service/reduce_decomposer.cc",
    .run = run_reduce_decomposer,
    .needs = {HLO_REDUCE},
    .options = reduce_decomposer_options,
    .noptions = HS_COUNT(reduce_decomposer_options),
    .sample = "sum {\n  sum_a = f32[] parameter(0)\n"
              "  sum_b = f32[] parameter(1)\n"
              "  ROOT sum_c = f32[] add(sum_a, sum_b)\n}\n"
              "ENTRY e {\n"
              "  x = f32[2,3,4] parameter(0)\n"
              "  zero = f32[] constant(0)\n"
              "  ROOT y = f32[2,3]{0,1} reduce(x, zero), dimensions={2}, to_apply=sum\n"
              "}\n",
};
