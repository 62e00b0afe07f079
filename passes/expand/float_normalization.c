// float_normalization.c — float-normalization-bf16
// (xla/hlo/transforms/simplifiers/float_normalization.cc): operations without bf16 support
// compute in f32, between converts.
//
// Support is defined per operand, for the result, and for mixing both types. By default the
// operations that the CPU backend and XLA:CPU support are left alone: data movement, control flow,
// collectives and dots. The options name other sets of opcodes; ":N" after one restricts it to
// operand N. A reducer follows its caller: a clone has f32 parameters and result around its bf16
// arithmetic. Reducers of collectives are not changed, because all devices must use the same.
#include "passes/clean/clean.h"

typedef struct normalizer {
  pass_ctx *c;
  const char *operands, *results, *mixed;  // sets of opcodes, "" for the default
  bool *skip;                              // computations that collectives apply, by id
  u32 nskip;
} normalizer;

// ---- support ------------------------------------------------------------------------------------
static bool by_default(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_COPY:
  case HLO_RESHAPE:
  case HLO_TRANSPOSE:
  case HLO_SLICE:
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_CONCATENATE:
  case HLO_REVERSE:
  case HLO_GATHER:
  case HLO_SCATTER:
  case HLO_SORT:
  case HLO_MAP:
  case HLO_REDUCE_WINDOW:
  case HLO_SELECT_AND_SCATTER:
  case HLO_OPT_BARRIER:
  case HLO_ADD_DEPENDENCY:
  case HLO_AFTER_ALL:
  case HLO_RNG_BIT_GENERATOR:
  case HLO_GET_DIMENSION_SIZE:
  case HLO_SET_DIMENSION_SIZE:
  case HLO_TOPK:
  case HLO_SCAN:
  case HLO_STOCHASTIC_CONVERT:
  case HLO_DOT: return true;
  default: return hlo_op_has(i->opcode, HLO_F_ASYNC | HLO_F_COLLECTIVE);
  }
}

// Whether a set such as "add dot:0" contains the opcode, for operand k (-1: any operand).
static bool in_set(const char *set, const hlo_instr *i, i64 k) {
  const char *name = hlo_op_text(i->opcode);
  size_t n = strlen(name);
  for (const char *p = set; *p;) {
    size_t len = strcspn(p, " ");
    if (len >= n && strncmp(p, name, n) == 0 &&
        (len == n || (p[n] == ':' && (k < 0 || p[n + 1] == (char)('0' + k)))))
      return true;
    p += len;
    while (*p == ' ') p++;
  }
  return false;
}

static bool takes(const normalizer *z, const hlo_instr *i, u32 k) {
  return *z->operands ? in_set(z->operands, i, k) : by_default(i);
}
static bool gives(const normalizer *z, const hlo_instr *i) {
  return *z->results ? in_set(z->results, i, -1) : by_default(i);
}
static bool mixes(const normalizer *z, const hlo_instr *i) {
  return *z->operands || *z->results || *z->mixed ? in_set(z->mixed, i, -1) : by_default(i);
}

// Entry and exit of computations, tuples, control flow, and what interprets bits.
static bool left_alone(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_CONSTANT:
  case HLO_DOMAIN:
  case HLO_PARAMETER:
  case HLO_FUSION:
  case HLO_CONVERT:
  case HLO_CALL:
  case HLO_CUSTOM_CALL:
  case HLO_WHILE:
  case HLO_CONDITIONAL:
  case HLO_BITCAST_CONVERT:
  case HLO_BITCAST:
  case HLO_ASYNC_START:
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE: return true;
  default:
    return hlo_op_has(i->opcode, HLO_F_SIDE_EFFECT) && !hlo_op_has(i->opcode, HLO_F_COLLECTIVE);
  }
}

// Whether rounding operand k first does not change the result.
static bool rounds_alike(const hlo_instr *i, u32 k) {
  switch (i->opcode) {
  case HLO_ABS:
  case HLO_ALL_GATHER:
  case HLO_ALL_TO_ALL:
  case HLO_BROADCAST:
  case HLO_CLAMP:
  case HLO_COLLECTIVE_BROADCAST:
  case HLO_COLLECTIVE_PERMUTE:
  case HLO_CONCATENATE:
  case HLO_COPY:
  case HLO_MAXIMUM:
  case HLO_MINIMUM:
  case HLO_PAD:
  case HLO_RESHAPE:
  case HLO_REVERSE:
  case HLO_SLICE:
  case HLO_SORT:
  case HLO_TRANSPOSE: return true;
  case HLO_DYNAMIC_SLICE:
  case HLO_GATHER: return k == 0;
  case HLO_DYNAMIC_UPDATE_SLICE: return k <= 1;
  case HLO_SELECT: return k >= 1;
  default: return false;
  }
}

// ---- converting ---------------------------------------------------------------------------------
static u32 count(const hlo_shape *s, hlo_dtype t) {
  u32 n = 0;
  for (u32 k = 0; k < hlo_shape_leaves(s); k++) n += hlo_shape_leaf(s, k)->dtype == t;
  return n;
}

static const hlo_shape *retyped(normalizer *z, const hlo_shape *s, hlo_dtype from, hlo_dtype to) {
  if (s->dtype == from) return hlo_shape_with_dtype(z->c->m->ctx, s, to);
  if (!hlo_shape_is_tuple(s)) return s;
  const hlo_shape **e = HS_NEW_ARRAY(z->c->scratch, const hlo_shape *, s->nelems + 1);
  for (u32 k = 0; k < s->nelems; k++) e[k] = retyped(z, s->elems[k], from, to);
  return hlo_shape_tuple(z->c->m->ctx, s->nelems, e);
}

static bool sets_hidden(const hlo_instr *i) {
  return i->opcode == HLO_SET_DIMENSION_SIZE && pass_hides_size(i);
}

// i as an array of another type. A size that is set under a static type is set behind the convert.
static hlo_instr *converted_array(hlo_instr *i, hlo_dtype to) {
  if (!sets_hidden(i)) return hlo_build_convert(i, to);
  hlo_instr *x = hlo_operand(i, 0),
            *ops[] = {x->shape->dtype == to ? x : converted_array(x, to), hlo_operand(i, 1)};
  return hlo_clone_instr(i->parent, i, pass_shape_as(i, to), 2, ops);
}

// i with its arrays of one type converted to the other; the convert of a convert from that type is
// its operand.
static hlo_instr *converted(normalizer *z, hlo_instr *i, hlo_dtype from, hlo_dtype to) {
  if (!count(i->shape, from)) return i;
  if (i->opcode == HLO_CONVERT && from == HLO_F32 && hlo_operand(i, 0)->shape->dtype == to)
    return hlo_operand(i, 0);
  if (hlo_shape_is_array(i->shape)) return converted_array(i, to);
  hlo_instr **e = HS_NEW_ARRAY(z->c->scratch, hlo_instr *, i->shape->nelems + 1);
  for (u32 k = 0; k < i->shape->nelems; k++) e[k] = converted(z, hlo_add_gte(i, k), from, to);
  return hlo_add_tuple(i->parent, i->shape->nelems, e);
}

static void convert_operand(normalizer *z, hlo_instr *i, u32 k, hlo_dtype from, hlo_dtype to) {
  hlo_instr *o = hlo_operand(i, k), *w = NULL;
  for (u32 j = 0; j < k && !w; j++) {
    hlo_instr *p = hlo_operand(i, j);
    if (p->opcode == HLO_CONVERT && hlo_operand(p, 0) == o && p->shape->dtype == to) w = p;
  }
  hlo_set_operand(i, k, w ? w : converted(z, o, from, to));
}

// Redirects the uses of `i` that existed when they were counted to `now`.
typedef struct users {
  hlo_use **v;
  u32 n;
  bool root;
} users;
static users users_of(normalizer *z, hlo_instr *i) {
  users u = {HS_NEW_ARRAY(z->c->scratch, hlo_use *, i->nuses + 1), 0, hlo_is_root(i)};
  hlo_for_each_use(x, i) u.v[u.n++] = x;
  return u;
}
static void hand_over(const users *u, hlo_instr *now) {
  for (u32 k = 0; k < u->n; k++) hlo_set_operand(u->v[k]->user, hlo_slot(u->v[k]), now);
  if (u->root) hlo_set_root(now->parent, now);
}

// Gives the instruction an f32 result, converted back for its users.
static void widen_result(normalizer *z, hlo_instr *i) {
  if (!count(i->shape, HLO_BF16)) return;
  const hlo_shape *old = i->shape;
  users u = users_of(z, i);
  hlo_set_shape(i, retyped(z, old, HLO_BF16, HLO_F32));
  hlo_instr *back;
  if (hlo_shape_is_array(old)) {
    back = converted_array(i, HLO_BF16);
  } else {
    hlo_instr **e = HS_NEW_ARRAY(z->c->scratch, hlo_instr *, old->nelems + 1);
    for (u32 k = 0; k < old->nelems; k++) {
      e[k] = hlo_add_gte(i, k);
      if (old->elems[k]->dtype == HLO_BF16) e[k] = hlo_build_convert(e[k], HLO_BF16);
    }
    back = hlo_add_tuple(i->parent, old->nelems, e);
  }
  hand_over(&u, back);
}

static bool keeps_computations(const hlo_instr *i) {
  return i->opcode == HLO_ALL_REDUCE || i->opcode == HLO_REDUCE_SCATTER ||
         i->opcode == HLO_ALL_REDUCE_START;
}

static bool is_low(const hlo_computation *c) {
  if (count(c->root->shape, HLO_BF16)) return true;
  for (u32 k = 0; k < c->nparams; k++)
    if (count(c->params[k]->shape, HLO_BF16)) return true;
  return false;
}

static bool is_high(const hlo_computation *c) {
  if (count(c->root->shape, HLO_F32)) return true;
  for (u32 k = 0; k < c->nparams; k++)
    if (count(c->params[k]->shape, HLO_F32)) return true;
  return false;
}

// Clones of the called computations with f32 parameters and results.
static void widen_called(normalizer *z, hlo_instr *i) {
  hlo_computation **v;
  u32 n;
  pass_called_all(i, z->c->scratch, &v, &n);
  for (u32 k = 0; k < n && !keeps_computations(i); k++) {
    if (!is_low(v[k])) continue;
    hlo_computation *c = hlo_clone_computation(v[k], v[k]->name, NULL);
    pass_set_called(i, k, c);
    if (count(c->root->shape, HLO_BF16)) {
      users u = users_of(z, c->root);
      hlo_instr *r = c->root, *wide = converted(z, r, HLO_BF16, HLO_F32);
      hand_over(&u, wide);
    }
    for (u32 p = 0; p < c->nparams; p++) widen_result(z, c->params[p]);
  }
}

// ---- one instruction ----------------------------------------------------------------------------
static bool all_of(const hlo_shape *s, hlo_dtype t) { return count(s, t) == hlo_shape_leaves(s); }

static bool fits_bf16(const normalizer *z, const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++)
    if (!all_of(hlo_operand(i, k)->shape, HLO_BF16) && !(rounds_alike(i, k) && takes(z, i, k)))
      return false;
  return true;
}

// Arrays that would be of more bytes than can be counted stay as they are: nothing can run them.
static bool too_large(const hlo_instr *i) {
  bool large = hlo_shape_bytes(i->shape) > INT64_MAX / 2;
  for (u32 k = 0; k < i->noperands; k++)
    large |= hlo_shape_bytes(hlo_operand(i, k)->shape) > INT64_MAX / 2;
  return large;
}

// Does a parameter or call hide a size of an operand, which a convert would end, or does the
// result's type show one that no operand's does, nor a set-dimension-size before it?
static bool shows_hidden_size(const hlo_instr *i) {
  const hlo_shape *s = i->shape;
  bool set = false, hidden = false;
  for (u32 k = 0; k < i->noperands; k++) {
    set |= sets_hidden(hlo_operand(i, k));
    hidden |= !sets_hidden(hlo_operand(i, k)) && pass_hides_size(hlo_operand(i, k));
  }
  if (set || hidden) return hidden;
  for (u32 d = 0; hlo_shape_is_array(s) && d < s->rank; d++) {
    bool shown = !hlo_dim_is_dynamic(s, d);
    for (u32 k = 0; k < i->noperands; k++) {
      const hlo_shape *x = hlo_operand(i, k)->shape;
      shown |= x->rank != s->rank || hlo_dim_is_dynamic(x, d);
    }
    if (!shown) return true;
  }
  return false;
}

static void normalize(normalizer *z, hlo_instr *i) {
  if (too_large(i) || shows_hidden_size(i)) return;
  u32 low = count(i->shape, HLO_BF16), high = count(i->shape, HLO_F32), ncalled;
  bool operand = false;
  hlo_computation **called;
  pass_called_all(i, z->c->scratch, &called, &ncalled);
  for (u32 k = 0; k < i->noperands; k++) {
    low += count(hlo_operand(i, k)->shape, HLO_BF16);
    high += count(hlo_operand(i, k)->shape, HLO_F32);
    operand |= count(hlo_operand(i, k)->shape, HLO_BF16) && !takes(z, i, k);
  }
  for (u32 k = 0; k < ncalled && !keeps_computations(i); k++)
    low += is_low(called[k]), high += is_high(called[k]);
  bool result = count(i->shape, HLO_BF16) && !gives(z, i);
  if (!operand && !result && (mixes(z, i) || !low || !high)) return;
  if (!pass_may_rewrite(z->c)) return;
  pass_note_done(z->c, i, NULL, "computed in f32");
  for (u32 k = 0; operand && k < i->noperands; k++) {
    u32 n = count(hlo_operand(i, k)->shape, HLO_BF16);
    if (!n || takes(z, i, k)) continue;
    convert_operand(z, i, k, HLO_BF16, HLO_F32);
    low -= n, high += n;
  }
  if (result) {
    u32 n = count(i->shape, HLO_BF16);
    widen_result(z, i);
    low -= n, high += n;
  }
  if (mixes(z, i) || !low || !high) return;
  if (!ncalled && all_of(i->shape, HLO_BF16) && fits_bf16(z, i)) {
    for (u32 k = 0; k < i->noperands; k++) convert_operand(z, i, k, HLO_F32, HLO_BF16);
    return;
  }
  widen_result(z, i);
  for (u32 k = 0; k < i->noperands; k++) convert_operand(z, i, k, HLO_BF16, HLO_F32);
  widen_called(z, i);
}

// Computations that collectives apply stay unchanged; their other callers get a clone.
static void set_apart(normalizer *z) {
  hlo_module *m = z->c->m;
  u32 *counts = pass_caller_counts(z->c);
  z->nskip = m->next_comp_id;
  u32 most = 2 * m->next_comp_id + 1;
  z->skip = HS_NEW_ARRAY(z->c->scratch, bool, most);
  u32 *kept = HS_NEW_ARRAY(z->c->scratch, u32, z->nskip + 1);  // callers that keep it
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      hlo_computation *f = keeps_computations(i) ? hlo_attr_comp(i, HLO_ATTR_TO_APPLY) : NULL;
      if (f) kept[f->id]++;
    }
  u32 before = z->nskip;
  hlo_computation **own = HS_NEW_ARRAY(z->c->scratch, hlo_computation *, before + 1);
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      hlo_computation *f = keeps_computations(i) ? hlo_attr_comp(i, HLO_ATTR_TO_APPLY) : NULL;
      if (!f || f->id >= before) continue;
      if (kept[f->id] == counts[1 + f->id]) {
        z->skip[f->id] = true;
        continue;
      }
      if (!is_low(f)) continue;
      if (!own[f->id]) own[f->id] = hlo_clone_computation(f, f->name, NULL);
      hlo_set_attr_comp(i, HLO_ATTR_TO_APPLY, own[f->id]);
      if (own[f->id]->id < most) z->skip[own[f->id]->id] = true;
    }
  z->nskip = most;
}

static hs_status run(pass_ctx *c) {
  normalizer z = {.c = c,
                  .operands = pass_option_text(c, "operands"),
                  .results = pass_option_text(c, "results"),
                  .mixed = pass_option_text(c, "mixed")};
  size_t mark = hlo_journal_mark(c->m);
  i64 rewrites = c->rewrites;
  u32 n;
  hlo_computation **order = pass_comp_post_order(c, &n);
  set_apart(&z);
  for (u32 k = 0; k < n; k++) {
    if (order[k]->id < z.nskip && z.skip[order[k]->id]) continue;
    hlo_instr **v = pass_any_order(c, order[k]);
    for (u32 j = 0, ni = order[k]->ninstrs; j < ni; j++)
      if (!v[j]->dead && !left_alone(v[j])) normalize(&z, v[j]);
  }
  if (c->rewrites == rewrites) {  // nothing to do, so no clones
    hlo_journal_rollback(c->m, mark);
    return HS_GOOD;
  }
  HS_TRY(pass_simplify_tuples(c, false));
  return pass_remove_unused(c);
}

static const pass_option_info options[] = {
    {"operands", PASS_TEXT, "",
     "opcodes that take bf16, as in \"add dot:0\" (of dot the first operand only), in place of "
     "the usual ones"},
    {"results", PASS_TEXT, "", "opcodes with a bf16 result, likewise"},
    {"mixed", PASS_TEXT, "", "opcodes that may mix bf16 and f32, likewise"},
};

const pass_info pass_float_normalization_bf16 = {
    .name = "float-normalization-bf16",
    .summary = "does bf16 arithmetic in f32",
    .xla_source = "xla/hlo/transforms/simplifiers/float_normalization.cc",
    .run = run,
    .needs_dtype = HLO_BF16,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = bf16[4] parameter(0)\n"
              "  y = bf16[4] parameter(1)\n"
              "  s = bf16[4] add(x, y)\n"
              "  ROOT r = bf16[4] reverse(s), dimensions={0}\n"
              "}\n",
};
