// resize.c — resizing a parameter's dimension: a worklist over the module, then the edits. See
// resize.h, and resize_rules.h for the terms.
//
// 1. The size asked for is set on its node. Rules run for the instructions that look at a changed
//    node until none sets anything more; all that is certain is then known.
// 2. With `choosing`, the rules may decide what the module leaves open, one instruction after
//    another in the order of the computations, and after each what follows for certain is set.
// 3. With `follow`, loops over the dimension tie what else they go over, and 1 begins again.
// 4. Shapes and attributes are edited, and shape inference is asked whether it agrees, instruction
//    by instruction: what could not follow is found here at the latest, by name.
#include "passes/buffer/resize.h"

#include "core/infer/infer.h"
#include "passes/buffer/resize_rules.h"

#define MOST ((i64)1 << 40)

static hs_status refused(const hlo_instr *i, const char *why) {
  return hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(i->opcode), "%s (%s) cannot follow: %s",
                         i->name, hlo_op_text(i->opcode), why);
}

// ---- nodes and the worklist ---------------------------------------------------------------------

// A node of its own has changed.
static bool touched(const resizer *r, const hlo_instr *i) {
  u32 leaves = hlo_shape_leaves(i->shape);
  for (u32 n = r->first[i->id][0]; n < r->first[i->id][leaves]; n++)
    if (changed(r, n)) return true;
  return false;
}

static void enqueue(resizer *r, hlo_instr *i) {
  if (r->queued[i->id]) return;
  r->queued[i->id] = true;
  hs_vec_push(&r->queue, i);
}

void resize_set_part(resizer *r, u32 node, i64 size, i64 low, i64 high) {
  hlo_instr *i = r->owner.v[node];
  if (!hs_ok(r->failed) || size == size_at(r, node)) return;
  if (changed(r, node) || size <= 0 || size > MOST) {
    r->failed = hs_fail(HS_E_SHAPE, "%s cannot follow: %s would be both %lld and %lld long",
                        r->at ? r->at->name : i->name, i->name, (long long)size_at(r, node),
                        (long long)size);
    return;
  }
  r->now.v[node] = size;
  r->low.v[node] = low;
  r->high.v[node] = high;
  enqueue(r, i);
  hlo_for_each_use(u, i) enqueue(r, u->user);
  if (i->opcode == HLO_PARAMETER || hlo_is_root(i))
    for (size_t k = 0; k < r->callers[i->parent->id].n; k++)
      enqueue(r, r->callers[i->parent->id].v[k]);
}

void resize_set(resizer *r, u32 node, i64 size) {
  resize_set_part(r, node, size, 1, r->old.v[node]);
}

static void apply_rule(resizer *r, hlo_instr *i) {
  resize_rule *rule = resize_rule_of(i);
  r->at = i;
  if (rule) rule(r, i);
}

static void drain(resizer *r) {
  for (size_t at = 0; at < r->queue.n && hs_ok(r->failed) && !hs_interrupted(); at++) {
    hlo_instr *i = r->queue.v[at];
    r->queued[i->id] = false;
    apply_rule(r, i);
    if (at == r->queue.n - 1) {
      r->queue.n = 0;
      break;
    }
  }
}

// Lets every instruction choose in turn; true when one did.
static bool choose(resizer *r) {
  bool any = false;
  u32 n;
  hlo_computation **order = hlo_comp_post_order(r->m, &r->arena, &n);
  for (u32 k = n; k-- > 0;) {  // the entry first
    hlo_instr **list = hlo_post_order(order[k], &r->arena);
    for (u32 t = 0; t < order[k]->ninstrs && hs_ok(r->failed) && !hs_interrupted(); t++) {
      r->choosing = true;
      apply_rule(r, list[t]);
      r->choosing = false;
      any |= r->queue.n > 0;
      drain(r);
    }
  }
  return any;
}

static bool tie_loops(resizer *r, i64 to) {
  resize_tie_loops(r, to);
  bool any = r->queue.n > 0;
  drain(r);
  return any;
}

static void prepare(resizer *r) {
  hlo_module *m = r->m;
  r->first = HS_NEW_ARRAY(&r->arena, u32 *, m->next_instr_id + 1);
  r->queued = HS_NEW_ARRAY(&r->arena, bool, m->next_instr_id + 1);
  r->callers = HS_NEW_ARRAY(&r->arena, resize_instrs, m->next_comp_id + 1);
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      u32 leaves = hlo_shape_leaves(i->shape);
      u32 *first = r->first[i->id] = HS_NEW_ARRAY(&r->arena, u32, leaves + 1);
      for (u32 l = 0; l < leaves; l++) {
        const hlo_shape *s = hlo_shape_leaf(i->shape, l);
        first[l] = (u32)r->old.n;
        for (u32 d = 0; hlo_shape_is_array(s) && d < s->rank; d++) {
          hs_vec_push(&r->old, s->dims[d]);
          hs_vec_push(&r->now, 0);
          hs_vec_push(&r->low, 0);
          hs_vec_push(&r->high, 0);
          hs_vec_push(&r->owner, i);
        }
      }
      first[leaves] = (u32)r->old.n;
    }
  r->calls = hlo_find_calls(m, &r->arena);
  for (u32 k = 0; k < r->calls.n; k++)
    for (u32 j = 0; j < r->calls.callees[k].n; j++)
      if (r->calls.callees[k].v[j])
        hs_vec_push(&r->callers[r->calls.callees[k].v[j]->id], r->calls.v[k]);
}

static void cleanup(resizer *r) {
  for (u32 k = 0; r->callers && k <= r->m->next_comp_id; k++) hs_vec_free(&r->callers[k]);
  hs_vec_free(&r->old);
  hs_vec_free(&r->now);
  hs_vec_free(&r->low);
  hs_vec_free(&r->high);
  hs_vec_free(&r->owner);
  hs_vec_free(&r->queue);
  hs_arena_free(&r->arena);
}

// ---- edits --------------------------------------------------------------------------------------

// A shape with the new dimensions of an instruction's leaves, from leaf *leaf on.
const hlo_shape *resize_shape(resizer *r, const hlo_shape *s, const hlo_instr *i, u32 *leaf) {
  hlo_ctx *ctx = r->m->ctx;
  if (hlo_shape_is_tuple(s)) {
    const hlo_shape **v = HS_NEW_ARRAY(&r->arena, const hlo_shape *, s->nelems + 1);
    for (u32 k = 0; k < s->nelems; k++) v[k] = resize_shape(r, s->elems[k], i, leaf);
    return hlo_shape_tuple(ctx, s->nelems, v);
  }
  u32 at = r->first[i->id][(*leaf)++];
  if (!hlo_shape_is_array(s)) return s;
  i64 dims[HLO_MAX_RANK];
  for (u32 d = 0; d < s->rank; d++) dims[d] = size_at(r, at + d);
  return hlo_shape_dynamic(ctx, s->dtype, s->rank, dims, s->dynamic, s->layout);
}

static bool near_an_edit(const resizer *r, const hlo_instr *i) {
  bool any = touched(r, i);
  for (u32 k = 0; k < i->noperands && !any; k++) any = touched(r, hlo_operand(i, k));
  return any;
}

static hs_status check_limits(const hlo_instr *i) {
  for (u32 l = 0, n = hlo_shape_leaves(i->shape); l < n; l++) {
    const hlo_shape *s = hlo_shape_leaf(i->shape, l);
    if (hlo_shape_is_array(s)) HS_TRY(hlo_shape_check_limits(s->dtype, s->rank, s->dims));
  }
  return HS_GOOD;
}

static hs_status has_rule(const hlo_instr *i) {
  if (!resize_rule_of(i)) return refused(i, "there is no rule for this operation");
  if (i->opcode == HLO_CUSTOM_CALL && !resize_custom_rule(i))
    return refused(i, "nothing is known of the sizes of this custom call");
  return HS_GOOD;
}

static hs_status edit_one(resizer *r, hlo_instr *i, resize_report *out) {
  if (touched(r, i)) {
    u32 leaf = 0;
    hlo_set_shape(i, resize_shape(r, i->shape, i, &leaf));
    HS_TRY(check_limits(i));
    out->shapes++;
  }
  const hlo_attrs *before = i->attrs;
  if (!resize_edit_of(i)(r, i))
    return refused(i, i->opcode == HLO_CONSTANT
                          ? "its data does not say how it goes on (it is neither the same along "
                            "the dimension nor counting)"
                          : "no attributes give these sizes");
  out->attributes += i->attrs != before;
  if (i->opcode == HLO_CONSTANT)
    hs_vec_push(&out->constants, ((resize_constant){i, RESIZE_EXTENDED, 0}));
  return HS_GOOD;
}

static bool same_sizes(const hlo_shape *a, const hlo_shape *b) {
  u32 n = hlo_shape_leaves(a);
  if (n != hlo_shape_leaves(b)) return false;
  for (u32 l = 0; l < n; l++) {
    const hlo_shape *x = hlo_shape_leaf(a, l), *y = hlo_shape_leaf(b, l);
    if (hlo_shape_is_array(x) != hlo_shape_is_array(y)) return false;
    if (hlo_shape_is_array(x) && !hlo_shape_same_dims(x, y)) return false;
  }
  return true;
}

static hs_status edit_all(resizer *r, resize_report *out) {
  HS_VEC(hlo_instr *) near = {0};
  hs_status s = HS_GOOD;
  hlo_for_each_comp(c, r->m)
    hlo_for_each_instr(i, c)
      if (near_an_edit(r, i)) hs_vec_push(&near, i);
  for (size_t k = 0; k < near.n && hs_ok(s); k++) s = has_rule(near.v[k]);
  for (size_t k = 0; k < near.n && hs_ok(s); k++) s = edit_one(r, near.v[k], out);
  for (size_t k = 0; k < near.n && hs_ok(s); k++) {
    const hlo_shape *shape;
    const hlo_instr *i = near.v[k];
    hs_status why = hlo_infer_instr(i, &shape);
    if (!hs_ok(why)) {
      s = hs_with_note(refused(i, "its new operands do not fit"), "%s", why.err->message);
    } else if (!same_sizes(shape, i->shape)) {
      s = refused(i, "its result has another size");
    }
    hs_status_drop(why);
  }
  hs_vec_free(&near);
  return hs_ok(s) ? hs_poll() : s;
}

// The signature that the module states.
static void edit_signature(resizer *r) {
  const hlo_attr *a = hlo_attrs_find(r->m->attrs, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  const hlo_program_shape *was = a ? a->v.p : NULL;
  const hlo_computation *e = r->m->entry;
  if (!was || was->n != e->nparams) return;
  const hlo_shape **v = HS_NEW_ARRAY(&r->m->arena, const hlo_shape *, was->n + 1);
  u32 leaf = 0;
  for (u32 k = 0; k < was->n; k++, leaf = 0)
    v[k] = resize_shape(r, was->params[k], e->params[k], &leaf);
  hlo_program_shape *now = HS_NEW(&r->m->arena, hlo_program_shape);
  *now = (hlo_program_shape){was->n, v, resize_shape(r, was->result, e->root, &leaf)};
  hlo_set_module_attr(r->m, (hlo_attr){.id = HLO_ATTR_ENTRY_COMPUTATION_LAYOUT, .v.p = now});
}

// ---- what to tell -------------------------------------------------------------------------------

static hs_status tell_followers(resizer *r, u32 asked, bool follow, resize_report *out) {
  const hlo_computation *e = r->m->entry;
  hs_buf names = {0};
  for (u32 p = 0; p < e->nparams; p++)
    for (u32 l = 0, n = hlo_shape_leaves(e->params[p]->shape); l < n; l++)
      for (u32 d = 0; d < leaf_rank(r, e->params[p], l); d++) {
        u32 node = node_of(r, e->params[p], l, d);
        if (node == asked) continue;
        if (!changed(r, node) && d == 0 && r->from > 1 && r->old.v[node] == r->from)
          hs_vec_push(&out->equal, ((resize_follower){e->params[p], l, d, r->from, r->from}));
        if (!changed(r, node)) continue;
        resize_follower f = {e->params[p], l, d, r->old.v[node], r->now.v[node]};
        hs_vec_push(&out->followers, f);
        if (out->followers.n <= 16)
          hs_buf_printf(&names, "%s%s.%u %lld -> %lld", names.n ? ", " : "", f.param->name, d,
                        (long long)f.from, (long long)f.to);
      }
  hs_status s = HS_GOOD;
  if (out->followers.n && !follow)
    s = hs_with_note(hs_fail(HS_E_SHAPE,
                             "%zu other dimension%s of parameters would have to "
                             "follow: %s%s",
                             out->followers.n, out->followers.n > 1 ? "s" : "", hs_buf_cstr(&names),
                             out->followers.n > 16 ? ", ..." : ""),
                     "--follow resizes them, too");
  hs_buf_free(&names);
  return s;
}

// Scalars that may stand for the old size, as a count or as the factor of a mean.
static void tell_scalars(const resizer *r, resize_report *out) {
  double size = (double)r->from;
  hlo_for_each_comp(c, r->m)
    hlo_for_each_instr(i, c) {
      const hlo_literal *l = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
      if (r->from < 2 || !l || !hlo_shape_is_array(i->shape) || i->shape->rank ||
          hlo_literal_has_elided(l) || hlo_dtype_is_complex(i->shape->dtype) ||
          i->shape->dtype == HLO_PRED)
        continue;
      double v = hlo_literal_f64(l, 0);
      if (v == size || (v > 0 && v < 1 && v * size > 0.999999 && v * size < 1.000001))
        hs_vec_push(&out->constants, ((resize_constant){i, RESIZE_LEFT, v}));
    }
}

void resize_report_free(resize_report *o) {
  hs_vec_free(&o->followers);
  hs_vec_free(&o->equal);
  hs_vec_free(&o->constants);
}

hs_status resize_module(hlo_module *m, i64 param, u32 leaf, u32 dim, i64 size, bool follow,
                        resize_report *out) {
  *out = (resize_report){0};
  if (param < 0 || param >= (i64)m->entry->nparams)
    return hs_fail(HS_E_SHAPE, "there is no parameter %lld", (long long)param);
  hlo_instr *p = m->entry->params[param];
  if (leaf >= hlo_shape_leaves(p->shape) || dim >= hlo_shape_leaf(p->shape, leaf)->rank)
    return hs_fail(HS_E_SHAPE, "%s has no dimension %u", p->name, dim);
  if (hlo_shape_leaf(p->shape, leaf)->dynamic)
    return hs_fail(HS_E_UNSUPPORTED, "%s has dynamic dimensions", p->name);
  if (size < 1 || size > MOST)
    return hs_fail(HS_E_SHAPE, "a size is from 1 to %lld, not %lld", (long long)MOST,
                   (long long)size);
  resizer r = {.m = m};
  prepare(&r);
  u32 asked = node_of(&r, p, leaf, dim);
  r.from = r.old.v[asked];
  resize_set(&r, asked, size);
  drain(&r);
  while (hs_ok(r.failed) && !hs_interrupted() && (choose(&r) || (follow && tie_loops(&r, size)))) {}
  hs_status s = r.failed;
  if (hs_ok(s)) s = hs_poll();
  if (hs_ok(s)) s = tell_followers(&r, asked, follow, out);
  if (hs_ok(s) && size != r.from) {
    if (follow) resize_bound_loops(&r, size, &out->constants);
    s = edit_all(&r, out);
    if (hs_ok(s)) edit_signature(&r);
    if (hs_ok(s)) tell_scalars(&r, out);
  }
  cleanup(&r);
  return s;
}
