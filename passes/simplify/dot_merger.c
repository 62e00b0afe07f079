// dot_merger.c — dots that share an operand become one: x*A and x*B are slices of x*[A B].
//
// Dots may share an operand through different transposes and reshapes: the traversal goes from each
// operand up to its source, the last value of which each dimension is of one kind (batch,
// contracting, free). On the way the operand's dimensions are split into atoms, the largest factors
// that every shape on the path keeps intact; each atom has a position in the dot's operand and, by
// its index in the list, in the source. Dots with one source that agree on the kinds of its
// dimensions and on the arithmetic are merged, unless one depends on another. The source keeps its
// order, without dimensions of size 1 and with contracting dimensions that follow each other as
// one; every other operand becomes [batch, contracting, free] or [batch, free, contracting],
// whichever keeps its minor dimension minor, with one free dimension, along which they are
// concatenated. Each dot's slice of the product is transposed and reshaped to its result. A dot
// larger than max_size_to_merge bytes (its other operand and its result) gains nothing by itself,
// so a group takes at most one of those. After DotMerger
// (xla/hlo/transforms/simplifiers/dot_merger.cc). Not part of the tuned pipeline: on a CPU the
// copies that concatenate cost more than one large product saves.
#include "passes/run/rewrite.h"

#include <stdlib.h>

// factors above 1 of an element count below 2^63; visited instructions; moves in a row
enum { MAX_ATOMS = 64, PATH_LIMIT = 20000, MOVES_LIMIT = 64 };

typedef enum kind { BATCH, CONTRACTING, FREE } kind;
static const hlo_attr_id batch_dims[2] = {HLO_ATTR_LHS_BATCH_DIMS, HLO_ATTR_RHS_BATCH_DIMS};
static const hlo_attr_id contracting_dims[2] = {HLO_ATTR_LHS_CONTRACTING_DIMS,
                                                HLO_ATTR_RHS_CONTRACTING_DIMS};

// A factor of dimension `home` of a dot's operand; stride is how many steps of that dimension one
// step of the atom makes.
typedef struct atom {
  i64 size, stride;
  u32 home;
  kind kind;
} atom;
typedef struct atoms {
  u32 n;
  atom v[MAX_ATOMS];
} atoms;

// One dot seen from one of its operands, the shared one.
typedef struct usage {
  hlo_instr *dot;
  u32 shared, steps;       // the side; instructions between the dot and its source
  u32 source;              // id of the source when it was found: merging may replace it
  u64 batch, contracting;  // sets of the source's dimensions; those of size 1 are in neither
  i64 own;                 // elements of the other operand's free dimensions
  const atoms *atoms;      // in the order of the source
} usage;

static kind kind_of(const hlo_instr *dot, u32 side, i64 dim) {
  return hlo_ints_has(hlo_attr_ints(dot, batch_dims[side]), dim)         ? BATCH
         : hlo_ints_has(hlo_attr_ints(dot, contracting_dims[side]), dim) ? CONTRACTING
                                                                         : FREE;
}

static bool usable(const hlo_instr *d) {
  if (d->opcode != HLO_DOT || d->noperands != 2 || hlo_is_controlled(d) ||
      hlo_shape_is_dynamic(d->shape))
    return false;
  for (u32 k = 0; k < 2; k++) {
    const hlo_instr *o = hlo_operand(d, k);
    if (!o->shape->elements || o->shape->rank > MAX_ATOMS || pass_is_cut(o)) return false;
    // Packed elements, and what widens them: libraries read those in place.
    if (hlo_dtype_bits((o->opcode == HLO_CONVERT ? hlo_operand(o, 0) : o)->shape->dtype) < 8)
      return false;
  }
  return true;
}

// ---- from a dot's operand to its source ---------------------------------------------------------
// Splits atoms so that each dimension of s is a run of whole ones, all of a kind. False (and a is
// as it was) if that cannot be.
static bool refine(atoms *a, const hlo_shape *s) {
  atoms rest = *a, r = {0};
  u32 at = 0;
  for (u32 d = 0; d < s->rank; d++) {
    u32 first = r.n;
    for (i64 left = s->dims[d]; left > 1;) {
      if (at == rest.n || r.n == MAX_ATOMS) return false;
      atom *x = &rest.v[at], *y = &r.v[r.n++];
      *y = *x;
      if (left % x->size == 0) {
        left /= x->size, at++;
      } else if (x->size % left == 0) {
        x->size /= left;
        y->size = left, y->stride *= x->size;
        left = 1;
      } else {
        return false;
      }
      if (y->kind != r.v[first].kind) return false;
    }
  }
  *a = r;
  return true;
}

// From the order of a transpose's result to that of its operand.
static void transpose_back(atoms *a, const hlo_instr *t) {
  hlo_ints perm = hlo_attr_ints(t, HLO_ATTR_DIMENSIONS);
  u32 first[HLO_MAX_RANK + 1], at = 0;
  for (u32 d = 0; d < t->shape->rank; d++) {
    first[d] = at;
    for (i64 left = t->shape->dims[d]; left > 1; left /= a->v[at++].size) continue;
  }
  first[t->shape->rank] = at;
  atoms r = {0};
  for (u32 j = 0; j < perm.n; j++) {
    u32 d = 0;
    while (perm.v[d] != j) d++;
    for (u32 k = first[d]; k < first[d + 1]; k++) r.v[r.n++] = a->v[k];
  }
  *a = r;
}

static usage find_source(hlo_instr *dot, u32 shared, hs_arena *arena) {
  usage w = {.dot = dot, .shared = shared, .own = 1};
  atoms *a = HS_NEW(arena, atoms);
  hlo_instr *v = hlo_operand(dot, shared);
  for (u32 d = 0; d < v->shape->rank; d++)
    if (v->shape->dims[d] > 1)
      a->v[a->n++] = (atom){v->shape->dims[d], 1, d, kind_of(dot, shared, d)};
  for (; v->opcode == HLO_TRANSPOSE || v->opcode == HLO_RESHAPE; v = hlo_operand(v, 0), w.steps++) {
    if (v->opcode == HLO_TRANSPOSE) transpose_back(a, v);
    else if (hlo_operand(v, 0)->shape->rank > MAX_ATOMS || !refine(a, hlo_operand(v, 0)->shape))
      break;
  }
  u32 at = 0;
  for (u32 d = 0; d < v->shape->rank; d++) {
    if (v->shape->dims[d] > 1 && a->v[at].kind == BATCH) w.batch |= UINT64_C(1) << d;
    if (v->shape->dims[d] > 1 && a->v[at].kind == CONTRACTING) w.contracting |= UINT64_C(1) << d;
    for (i64 left = v->shape->dims[d]; left > 1; left /= a->v[at++].size) continue;
  }
  const hlo_shape *o = hlo_operand(dot, 1 - shared)->shape;
  for (u32 d = 0; d < o->rank; d++)
    if (kind_of(dot, 1 - shared, d) == FREE) w.own *= o->dims[d];
  w.source = v->id, w.atoms = a;
  return w;
}

static hlo_instr *source_of(const usage *w) {
  hlo_instr *v = hlo_operand(w->dot, w->shared);
  for (u32 k = 0; k < w->steps; k++) v = hlo_operand(v, 0);
  return v;
}

// The atom of a dimension of the operand that comes next within it after stride `after`;
// UINT32_MAX: no more.
static u32 next_atom(const usage *w, i64 home, i64 after) {
  u32 best = UINT32_MAX;
  for (u32 k = 0; k < w->atoms->n; k++) {
    const atom *x = &w->atoms->v[k];
    if (x->home == home && x->stride < after &&
        (best == UINT32_MAX || x->stride > w->atoms->v[best].stride))
      best = k;
  }
  return best;
}

// ---- classes ------------------------------------------------------------------------------------
#define ORDER(x, y)                            \
  do {                                         \
    if ((x) != (y)) return (x) < (y) ? -1 : 1; \
  } while (0)

static int by_class(const usage *a, const usage *b) {
  ORDER(a->source, b->source);
  ORDER(a->batch, b->batch);
  ORDER(a->contracting, b->contracting);
  ORDER(a->dot->shape->dtype, b->dot->shape->dtype);
  ORDER(hlo_operand(a->dot, 1 - a->shared)->shape->dtype,
        hlo_operand(b->dot, 1 - b->shared)->shape->dtype);
  ORDER(hlo_attr_int(a->dot, HLO_ATTR_ALGORITHM, 0), hlo_attr_int(b->dot, HLO_ATTR_ALGORITHM, 0));
  hlo_ints p = hlo_attr_ints(a->dot, HLO_ATTR_OPERAND_PRECISION),
           q = hlo_attr_ints(b->dot, HLO_ATTR_OPERAND_PRECISION);
  ORDER(p.n, q.n);
  for (u32 k = 0; k < p.n; k++) ORDER(p.v[k], q.v[k]);
  return 0;
}

// Within a class in the order of the program, in which a group takes its members.
static int by_class_and_order(const void *pa, const void *pb) {
  const usage *a = pa, *b = pb;
  int c = by_class(a, b);
  if (c) return c;
  ORDER(a->dot->id, b->dot->id);
  ORDER(a->shared, b->shared);
  return 0;
}

static i64 weight(const usage *w) {
  return hs_add_sat_i64(hlo_shape_bytes(w->dot->shape),
                        hlo_shape_bytes(hlo_operand(w->dot, 1 - w->shared)->shape));
}

// What is known of an instruction beside a group: a member needs it, it is one, or it needs one.
enum { NEEDED = 1, MEMBER, NEEDS };
// The dots of a group, and by instruction id what is known.
typedef struct group {
  HS_VEC(const usage *) members;
  HS_VEC(hlo_instr *) path;  // of the candidate that is looked at
  u8 *known;
  u32 *seen, looks;  // seen by which look
} group;

// Takes a dot that no member needs and that needs no member. What a member needs does not need
// another one, so the search goes no further there.
static bool join(group *g, const usage *w) {
  if (g->known[w->dot->id]) return false;
  u32 look = ++g->looks;
  g->path.n = 0;
  hs_vec_push(&g->path, w->dot);
  g->seen[w->dot->id] = look;
  for (size_t at = 0; at < g->path.n; at++) {
    const hlo_instr *i = g->path.v[at];
    if (at > PATH_LIMIT || g->known[i->id]) return g->known[w->dot->id] = NEEDS, false;
    u32 ncontrol = i->ctrl_preds ? i->ctrl_preds->n : 0;
    for (u32 k = 0; k < i->noperands + ncontrol; k++) {
      hlo_instr *o = k < i->noperands ? hlo_operand(i, k) : i->ctrl_preds->v[k - i->noperands];
      if (g->seen[o->id] == look || g->known[o->id] == NEEDED) continue;
      g->seen[o->id] = look, hs_vec_push(&g->path, o);
    }
  }
  for (size_t k = 0; k < g->path.n; k++) g->known[g->path.v[k]->id] = NEEDED;
  g->known[w->dot->id] = MEMBER;
  hs_vec_push(&g->members, w);
  return true;
}

// ---- merging ------------------------------------------------------------------------------------
static bool has_dims(const hlo_instr *x, u32 n, const i64 *dims) {
  return hlo_ints_equal((hlo_ints){x->shape->rank, x->shape->dims}, (hlo_ints){n, dims});
}

// x cut into pieces of the given sizes, those permuted, and the result seen as dims; only the steps
// that are needed.
static hlo_instr *rearranged(hlo_instr *x, u32 n, const i64 *sizes, const i64 *perm, u32 rank,
                             const i64 *dims) {
  bool straight = true;
  for (u32 k = 0; k < n; k++) straight &= perm[k] == (i64)k;
  if (!straight) {
    if (!has_dims(x, n, sizes)) x = hlo_build_reshape(x, n, sizes);
    x = hlo_build_transpose(x, perm);
  }
  return has_dims(x, rank, dims) ? x : hlo_build_reshape(x, rank, dims);
}

// What the merged dot reads: the source's dimensions by kind, in its order.
typedef struct target {
  u32 rank, n[3];
  i64 dims[MAX_ATOMS];  // all
  i64 at[3][MAX_ATOMS], sizes[3][MAX_ATOMS];
  // the shared operand is on the right; the others end with their free dimension
  bool right, free_last;
} target;

static void target_add(target *t, kind k, i64 size) {
  t->at[k][t->n[k]] = t->rank, t->sizes[k][t->n[k]++] = size;
  t->dims[t->rank++] = size;
}

static target target_of(const usage *w) {
  const hlo_shape *s = source_of(w)->shape;
  target t = {0};
  i64 product = 1;
  u32 ncontracting = 0, runs = 0;
  kind before = FREE;
  for (u32 d = 0; d < s->rank; d++) {
    if (s->dims[d] == 1) continue;
    bool contracting = w->contracting >> d & 1;
    ncontracting += contracting, runs += contracting && before != CONTRACTING;
    if (contracting) product *= s->dims[d];
    before = contracting ? CONTRACTING : FREE;
  }
  bool joined = ncontracting > 1 && runs == 1, done = false;
  for (u32 d = 0; d < s->rank; d++) {
    if (s->dims[d] == 1) continue;
    kind k = w->batch >> d & 1 ? BATCH : w->contracting >> d & 1 ? CONTRACTING : FREE;
    if (k != CONTRACTING || !joined) target_add(&t, k, s->dims[d]);
    else if (!done) target_add(&t, k, product), done = true;
  }
  return t;
}

// The target's batch dimensions and those of a second kind, with the dots' own dimension between or
// after them.
static u32 target_dims(const target *t, kind second, bool own_last, i64 own, i64 *dims) {
  u32 n = 0;
  for (u32 k = 0; k < t->n[BATCH]; k++) dims[n++] = t->sizes[BATCH][k];
  if (!own_last) dims[n++] = own;
  for (u32 k = 0; k < t->n[second]; k++) dims[n++] = t->sizes[second][k];
  if (own_last) dims[n++] = own;
  return n;
}

// The other operand as the merged dot reads it: [batch, contracting, free], or [batch, free,
// contracting].
static hlo_instr *other_operand(const usage *w, const target *t) {
  hlo_instr *x = hlo_operand(w->dot, 1 - w->shared);
  hlo_ints mine[2] = {hlo_attr_ints(w->dot, batch_dims[w->shared]),
                      hlo_attr_ints(w->dot, contracting_dims[w->shared])};
  hlo_ints its[2] = {hlo_attr_ints(w->dot, batch_dims[1 - w->shared]),
                     hlo_attr_ints(w->dot, contracting_dims[1 - w->shared])};
  i64 sizes[2 * MAX_ATOMS], perm[2 * MAX_ATOMS], dims[MAX_ATOMS + 1], where[MAX_ATOMS],
      own[MAX_ATOMS];
  u32 n = 0, nown = 0, at = 0;
  for (u32 d = 0; d < x->shape->rank; d++) {
    kind k = kind_of(w->dot, 1 - w->shared, d);
    if (k == FREE) {
      if (x->shape->dims[d] > 1) own[nown++] = n, sizes[n++] = x->shape->dims[d];
      continue;
    }
    u32 pair = 0;
    while (its[k].v[pair] != d) pair++;
    i64 after = INT64_MAX;
    for (u32 a; (a = next_atom(w, mine[k].v[pair], after)) != UINT32_MAX;
         after = w->atoms->v[a].stride)
      where[a] = n, sizes[n++] = w->atoms->v[a].size;
  }
  for (u32 a = 0; a < w->atoms->n; a++)
    if (w->atoms->v[a].kind == BATCH) perm[at++] = where[a];
  if (!t->free_last)
    for (u32 k = 0; k < nown; k++) perm[at++] = own[k];
  for (u32 a = 0; a < w->atoms->n; a++)
    if (w->atoms->v[a].kind == CONTRACTING) perm[at++] = where[a];
  if (t->free_last)
    for (u32 k = 0; k < nown; k++) perm[at++] = own[k];
  u32 rank = target_dims(t, CONTRACTING, t->free_last, w->own, dims);
  return rearranged(x, n, sizes, perm, rank, dims);
}

// What the dot gave, from its part of the product: [batch, the source's free, its own free], the
// last two exchanged with the source on the right.
static hlo_instr *own_result(const usage *w, const target *t, hlo_instr *part) {
  const hlo_shape *s = hlo_operand(w->dot, w->shared)->shape,
                  *o = hlo_operand(w->dot, 1 - w->shared)->shape;
  i64 sizes[2 * MAX_ATOMS], perm[2 * MAX_ATOMS], where[MAX_ATOMS], own[MAX_ATOMS];
  u32 n = 0, nown = 0, at = 0;
  for (u32 a = 0; a < w->atoms->n; a++)
    if (w->atoms->v[a].kind == BATCH) where[a] = n, sizes[n++] = w->atoms->v[a].size;
  for (u32 step = 0; step < 2; step++) {
    if ((step == 0) != t->right) {
      for (u32 a = 0; a < w->atoms->n; a++)
        if (w->atoms->v[a].kind == FREE) where[a] = n, sizes[n++] = w->atoms->v[a].size;
    } else {
      for (u32 d = 0; d < o->rank; d++)
        if (o->dims[d] > 1 && kind_of(w->dot, 1 - w->shared, d) == FREE)
          own[nown++] = n, sizes[n++] = o->dims[d];
    }
  }
  hlo_ints b = hlo_attr_ints(w->dot, batch_dims[w->shared]);
  for (u32 k = 0; k < b.n; k++) {
    i64 after = INT64_MAX;
    for (u32 a; (a = next_atom(w, b.v[k], after)) != UINT32_MAX; after = w->atoms->v[a].stride)
      perm[at++] = where[a];
  }
  for (u32 side = 0; side < 2; side++) {
    for (u32 k = 0; side != w->shared && k < nown; k++) perm[at++] = own[k];
    for (u32 d = 0; side == w->shared && d < s->rank; d++) {
      if (kind_of(w->dot, side, d) != FREE) continue;
      i64 after = INT64_MAX;
      for (u32 a; (a = next_atom(w, d, after)) != UINT32_MAX; after = w->atoms->v[a].stride)
        perm[at++] = where[a];
    }
  }
  hlo_instr *r = rearranged(part, n, sizes, perm, w->dot->shape->rank, w->dot->shape->dims);
  if (r->shape != w->dot->shape) hlo_set_shape(r, w->dot->shape);
  return r;
}

static void set_dims(hlo_instr *dot, hlo_attr_id id, u32 n, const i64 *dims, u32 start) {
  i64 counted[MAX_ATOMS];
  for (u32 k = 0; k < n; k++) counted[k] = start + k;
  if (n || id == HLO_ATTR_LHS_CONTRACTING_DIMS || id == HLO_ATTR_RHS_CONTRACTING_DIMS)
    hlo_set_attr_ints(dot, id, n, dims ? dims : counted);
}

// The earlier value that u only gives back: reshapes that follow each other, or transposes, and
// lead to its shape again; NULL when there is none.
static hlo_instr *given_back(const hlo_instr *u) {
  hlo_opcode op = u->opcode;
  if (op != HLO_RESHAPE && op != HLO_TRANSPOSE) return NULL;
  i64 perm[HLO_MAX_RANK];
  hlo_instr *found = NULL;
  for (u32 d = 0; d < u->shape->rank; d++) perm[d] = d;
  u32 steps = 0;
  for (const hlo_instr *i = u; i->opcode == op && steps < MOVES_LIMIT; steps++) {
    bool same = true;
    hlo_ints by = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
    for (u32 d = 0; op == HLO_TRANSPOSE && d < u->shape->rank; d++)
      perm[d] = by.v[perm[d]], same &= perm[d] == d;
    hlo_instr *x = hlo_operand(i, 0);
    if (same && x->shape == u->shape) found = x;
    i = x;
  }
  return found;
}

// Moves behind a dot that undo each other stood for the shape of its result, and go with it.
static void drop_moves_behind(hlo_instr *r) {
  HS_VEC(hlo_instr *) found = {0};
  hs_vec_push(&found, r);
  for (size_t k = 0; k < found.n; k++)
    hlo_for_each_use(u, found.v[k])
      if (u->user->opcode == HLO_RESHAPE || u->user->opcode == HLO_TRANSPOSE)
        hs_vec_push(&found, u->user);
  for (size_t k = 1; k < found.n; k++) {
    hlo_instr *u = found.v[k];
    bool kept = u->dead || hlo_is_controlled(u) || (!u->nuses && !hlo_is_root(u));
    hlo_instr *x = kept ? NULL : given_back(u);
    if (x) hlo_replace(u, x);
  }
  hs_vec_free(&found);
}

static void merge(pass_ctx *p, u32 n, const usage *const *w) {
  hlo_instr *first = w[0]->dot, *source = source_of(w[0]),
            *x = hlo_operand(first, 1 - w[0]->shared);
  target t = target_of(w[0]);
  u32 nleft = 0;
  for (u32 k = 0; k < n; k++) nleft += w[k]->shared == 0;
  t.right = 2 * nleft <= n;
  if (x->shape->rank) {
    i64 minor = x->shape->layout ? x->shape->layout->minor_to_major[0] : (i64)x->shape->rank - 1;
    t.free_last = kind_of(first, 1 - w[0]->shared, minor) != CONTRACTING;
  }
  hlo_instr **parts = HS_NEW_ARRAY(p->scratch, hlo_instr *, n), *ops[2];
  i64 total = 0, dims[MAX_ATOMS + 1], start = 0;
  for (u32 k = 0; k < n; k++) parts[k] = other_operand(w[k], &t), total += w[k]->own;
  u32 nb = t.n[BATCH], nc = t.n[CONTRACTING];
  ops[t.right] =
      has_dims(source, t.rank, t.dims) ? source : hlo_build_reshape(source, t.rank, t.dims);
  ops[!t.right] = hlo_build_concatenate(n, parts, t.free_last ? nb + nc : nb);
  u32 rank = target_dims(&t, FREE, !t.right, total, dims), out = t.right ? nb : rank - 1;
  const hlo_shape *s = hlo_shape_array(p->m->ctx, first->shape->dtype, rank, dims);
  if (first->shape->layout) s = hlo_shape_with_default_layout(p->m->ctx, s);
  hlo_instr *dot = hlo_add(first->parent, HLO_DOT, s, 2, ops, NULL);
  set_dims(dot, batch_dims[t.right], nb, t.at[BATCH], 0);
  set_dims(dot, batch_dims[!t.right], nb, NULL, 0);
  set_dims(dot, contracting_dims[t.right], nc, t.at[CONTRACTING], 0);
  set_dims(dot, contracting_dims[!t.right], nc, NULL, nb + !t.free_last);
  static const hlo_attr_id arithmetic[] = {HLO_ATTR_OPERAND_PRECISION, HLO_ATTR_ALGORITHM};
  for (u32 k = 0; k < HS_COUNT(arithmetic); k++) {
    const hlo_attr *a = hlo_attr_get(first, arithmetic[k]);
    if (a) hlo_set_attr(dot, *a);
  }
  for (u32 k = 0; k < n && !hlo_attr_get(dot, HLO_ATTR_METADATA); k++) {
    const hlo_metadata *m = hlo_metadata_of(w[k]->dot);
    if (m && m->op_name.n) hlo_set_attr(dot, *hlo_attr_get(w[k]->dot, HLO_ATTR_METADATA));
  }
  for (u32 k = 0; k < n; k++) {
    i64 lo[MAX_ATOMS + 1] = {0}, hi[MAX_ATOMS + 1];
    memcpy(hi, dims, rank * sizeof *hi);
    lo[out] = start, hi[out] = start += w[k]->own;
    hlo_add_provenance(dot, w[k]->dot);
    hlo_instr *r = own_result(w[k], &t, hlo_build_slice(dot, lo, hi, NULL));
    pass_note_done(p, r, w[k]->dot, "a part of the product of %u dots with one operand in common",
                   n);
    hlo_replace(w[k]->dot, r);
    drop_moves_behind(r);
  }
}

// Sizes that are multiples of higher powers of two come first, so that later parts start at
// aligned places.
static int by_alignment(const void *pa, const void *pb) {
  const usage *a = *(const usage *const *)pa, *b = *(const usage *const *)pb;
  ORDER(b->own & -b->own, a->own & -a->own);
  ORDER(b->own, a->own);
  ORDER(a->dot->id, b->dot->id);
  return 0;
}

// One group out of a class: the dots that are small enough by themselves, and at most one that is
// not, each taken as it comes in the program; laid side by side by alignment.
static bool merge_some(pass_ctx *p, size_t n, const usage *class, i64 limit, hs_arena *a) {
  group g = {.known = HS_NEW_ARRAY(a, u8, p->m->next_instr_id),
             .seen = HS_NEW_ARRAY(a, u32, p->m->next_instr_id)};
  for (size_t k = 0; k < n && !hs_interrupted(); k++)
    if (!class[k].dot->dead && weight(&class[k]) <= limit) join(&g, &class[k]);
  bool large = false;
  for (size_t k = 0; k < n && !large && !hs_interrupted(); k++)
    if (!class[k].dot->dead && weight(&class[k]) > limit) large = join(&g, &class[k]);
  bool merged = g.members.n > 1 && !hs_interrupted() && pass_may_rewrite(p);
  if (merged) {
    qsort(g.members.v, g.members.n, sizeof *g.members.v, by_alignment);
    merge(p, (u32)g.members.n, g.members.v);
  }
  hs_vec_free(&g.members);
  hs_vec_free(&g.path);
  return merged;
}

static hs_status merge_in(pass_ctx *p, hlo_computation *comp, i64 limit) {
  HS_VEC(usage) all = {0};
  hs_arena a = {0};
  hlo_for_each_instr(i, comp) {
    if (!usable(i)) continue;
    for (u32 side = 0; side < 2; side++) hs_vec_push(&all, find_source(i, side, &a));
  }
  if (all.n) qsort(all.v, all.n, sizeof *all.v, by_class_and_order);
  hs_status st = HS_GOOD;
  for (size_t k = 0, end; k < all.n && hs_ok(st); k = end) {
    for (end = k + 1; end < all.n && by_class(&all.v[k], &all.v[end]) == 0;) end++;
    for (bool again = end - k > 1; again;) {
      hs_arena work = {0};
      again = merge_some(p, end - k, &all.v[k], limit, &work);
      hs_arena_free(&work);
    }
    st = hs_poll();
  }
  hs_vec_free(&all);
  hs_arena_free(&a);
  return st;
}

static hs_status run(pass_ctx *p) {
  i64 limit = pass_option_int(p, "max_size_to_merge");
  u32 n;
  hlo_computation **comps = pass_comp_post_order(p, &n);
  for (u32 k = 0; k < n; k++)
    if (!hlo_is_fusion_comp(comps[k])) HS_TRY(merge_in(p, comps[k], limit));
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"max_size_to_merge", PASS_INT, "33554432",
     "bytes of a dot's own operand and result; of larger ones at most one is merged with others"},
};

const pass_info pass_dot_merger = {
    .name = "dot-merger",
    .summary = "merges dots that share an operand",
    .xla_source = "xla/hlo/transforms/simplifiers/dot_merger.cc",
    .run = run,
    .needs = {HLO_DOT},
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[2,3] parameter(0)\n"
              "  a = f32[3,4] parameter(1)\n"
              "  b = f32[3,5] parameter(2)\n"
              "  xa = f32[2,4] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
              "  xb = f32[2,5] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
              "  ROOT t = (f32[2,4], f32[2,5]) tuple(xa, xb)\n"
              "}\n",
};
