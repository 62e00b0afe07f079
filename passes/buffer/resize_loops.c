// resize_loops.c — loops over the rows of a dimension that is resized: how often they run
// follows.
//
// A loop *scans* when it runs as often as the dimension was long and, in its body or what that
// calls, takes or writes one part of a resized dimension of that size at an index. Then all else of
// that size that it takes rows of, at an index that is no constant, is as long as the dimension;
// and the whole numbers of its condition and body that equal the old size (the bound, and in a loop
// that counts down the place that it counts from) are the new size. Nothing else about scalars is
// known: they are left, and told (resize.c).
#include "core/analysis/cost.h"
#include "passes/buffer/resize_rules.h"

typedef HS_VEC(hlo_computation *) comps;

// Adds a computation and all that its calls reach, each once.
static void reach(hlo_computation *c, bool *seen, comps *out) {
  size_t at = out->n;
  if (!seen[c->id]) hs_vec_push(out, c);
  seen[c->id] = true;
  for (; at < out->n; at++)
    hlo_for_each_instr(i, out->v[at])
      for (u32 k = 0; i->opcode == HLO_CALL && k < hlo_ncalled(i); k++) {
        hlo_computation *to = hlo_called(i, k);
        if (!seen[to->id]) hs_vec_push(out, to);
        seen[to->id] = true;
      }
}

// Calls fn for the dimensions of the old size of which instructions of these computations take or
// write a part.
typedef void each_row(resizer *r, u32 whole, u32 part, const hlo_instr *index, void *arg);
static void for_rows(resizer *r, const comps *all, each_row *fn, void *arg) {
  for (size_t k = 0; k < all->n; k++)
    hlo_for_each_instr(i, all->v[k]) {
      bool slice = i->opcode == HLO_DYNAMIC_SLICE;
      if (!slice && i->opcode != HLO_DYNAMIC_UPDATE_SLICE) continue;
      const hlo_instr *whole = hlo_operand(i, 0), *part = slice ? i : hlo_operand(i, 1);
      for (u32 d = 0, at = slice ? 1 : 2; d < leaf_rank(r, whole, 0); d++) {
        u32 n = node_of(r, whole, 0, d), m = node_of(r, part, 0, d);
        if (r->old.v[n] == r->from && r->old.v[m] < r->from)
          fn(r, n, m, at + d < i->noperands ? hlo_operand(i, at + d) : NULL, arg);
      }
    }
}

static void note_scanned(resizer *r, u32 whole, u32 part, const hlo_instr *index, void *arg) {
  (void)index;
  if (changed(r, whole) && !changed(r, part)) *(bool *)arg = true;
}
static void tie_row(resizer *r, u32 whole, u32 part, const hlo_instr *index, void *arg) {
  if (index && index->opcode != HLO_CONSTANT && !changed(r, part))
    resize_set(r, whole, *(const i64 *)arg);
}

// "known_trip_count":{"n":"32"} in the configuration of the loop.
static void edit_known_count(resizer *r, hlo_instr *w, i64 from, i64 to) {
  const hlo_backend_config *c = hlo_attr_ptr(w, HLO_ATTR_BACKEND_CONFIG);
  if (!c || !c->text.p) return;
  char *was = hs_format("\"known_trip_count\":{\"n\":\"%lld\"}", (long long)from);
  size_t n = strlen(was);
  const char *at = memmem(c->text.p, c->text.n, was, n);
  hs_free(was);
  if (!at) return;
  hs_buf b = {0};
  hs_buf_put(&b, c->text.p, (size_t)(at - c->text.p));
  hs_buf_printf(&b, "\"known_trip_count\":{\"n\":\"%lld\"}", (long long)to);
  hs_buf_put(&b, at + n, (size_t)(c->text.p + c->text.n - at) - n);
  hlo_backend_config *now = HS_NEW(&r->m->arena, hlo_backend_config);
  *now = *c;
  now->text = (hs_str){hs_arena_strndup(&r->m->arena, b.p, b.n), b.n};
  hlo_set_attr_ptr(w, HLO_ATTR_BACKEND_CONFIG, now);
  hs_buf_free(&b);
}

static bool holds(hlo_dtype t, i64 v) {
  u32 bits = (u32)hlo_dtype_bits(t) - (hlo_dtype_is_signed(t) ? 1u : 0u);
  return bits >= 63 || v < (i64)1 << bits;
}

static void edit_numbers(resizer *r, hlo_computation *c, i64 to, resize_constants *out) {
  hlo_for_each_instr(i, c) {
    const hlo_literal *l = i->opcode == HLO_CONSTANT ? hlo_constant_value(i) : NULL;
    if (!l || !hlo_shape_is_scalar(i->shape) || !hlo_dtype_is_integer(i->shape->dtype) ||
        hlo_literal_has_elided(l) || hlo_literal_i64(l, 0) != r->from ||
        !holds(i->shape->dtype, to))
      continue;
    hlo_literal *now = hlo_literal_scalar_i64(r->m->ctx, i->shape->dtype, to);
    hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = now});
    hlo_literal_unref(now);
    hs_vec_push(out, ((resize_constant){i, RESIZE_BOUND, (double)to}));
  }
}

typedef void each_loop(resizer *r, hlo_instr *loop, const comps *body, i64 to, void *arg);

// Calls fn for the loops that scan, with their bodies and what those call.
static void for_scans(resizer *r, i64 to, each_loop *fn, void *arg) {
  bool *seen = HS_NEW_ARRAY(&r->arena, bool, r->m->next_comp_id + 1);
  for (u32 k = 0; k < r->calls.n && !hs_interrupted(); k++) {
    hlo_instr *w = r->calls.v[k];
    if (w->opcode != HLO_WHILE || hlo_trip_count(w) != r->from) continue;
    comps all = {0};
    bool scans = false;
    reach(hlo_attr_comp(w, HLO_ATTR_BODY), seen, &all);
    for_rows(r, &all, note_scanned, &scans);
    if (scans) fn(r, w, &all, to, arg);
    for (size_t j = 0; j < all.n; j++) seen[all.v[j]->id] = false;
    hs_vec_free(&all);
  }
}

static void tie_loop(resizer *r, hlo_instr *loop, const comps *body, i64 to, void *arg) {
  (void)loop;
  (void)arg;
  for_rows(r, body, tie_row, &to);
}
void resize_tie_loops(resizer *r, i64 to) { for_scans(r, to, tie_loop, NULL); }

typedef struct found {
  HS_VEC(hlo_instr *) loops;
  HS_VEC(hlo_computation *) comps;
} found;

static void bound_loop(resizer *r, hlo_instr *loop, const comps *body, i64 to, void *arg) {
  found *f = arg;
  hs_vec_push(&f->loops, loop);
  hs_vec_push(&f->comps, hlo_attr_comp(loop, HLO_ATTR_CONDITION));
  for (size_t k = 0; k < body->n; k++) hs_vec_push(&f->comps, body->v[k]);
  (void)r;
  (void)to;
}

// All loops are found by their old counts before the first is edited.
void resize_bound_loops(resizer *r, i64 to, resize_constants *out) {
  found f = {0};
  for_scans(r, to, bound_loop, &f);
  for (size_t k = 0; k < f.comps.n; k++) edit_numbers(r, f.comps.v[k], to, out);
  for (size_t k = 0; k < f.loops.n; k++) edit_known_count(r, f.loops.v[k], r->from, to);
  hs_vec_free(&f.loops);
  hs_vec_free(&f.comps);
}
