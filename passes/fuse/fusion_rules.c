// fusion_rules.c — the legality and profitability rules of XLA's greedy fusion, for
// fusion_greedy.c (xla/service/instruction_fusion.cc, xla/service/cpu/cpu_instruction_fusion.cc,
// xla/service/fusion_node_indexing_evaluation.cc, and UseKind in xla/hlo/ir/hlo_instruction.cc).
//
// Nothing here edits. Two rules look at more than one instruction: whether an in-place operation
// would, with the producer fused, read elements that it has overwritten; and how often the
// generated code would contain an operation, if each different index duplicates it.
#include "passes/fuse/fusion_rules.h"
#include "passes/buffer/copies.h"

bool fusion_rule_elementwise(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_CONSTANT:
  case HLO_COPY:
  case HLO_BITCAST_CONVERT:
  case HLO_RNG: return true;
  case HLO_MAP: {
    hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
    for (u32 k = 0; k < d.n; k++)
      if (d.v[k] != k) return false;
    return d.n == 0 || d.n == i->shape->rank;
  }
  case HLO_FUSION:
    if (hlo_attr_int(i, HLO_ATTR_KIND, HLO_FUSION_KIND_LOOP) != HLO_FUSION_KIND_LOOP) return false;
    hlo_for_each_instr(x, hlo_fusion_comp(i))
      if (x->opcode != HLO_PARAMETER && !fusion_rule_elementwise(x)) return false;
    return true;
  default: return hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
  }
}

static bool one_element(const hlo_shape *s) { return hlo_shape_is_array(s) && s->elements == 1; }

static bool one_value(const hlo_instr *i) {
  if (i->opcode == HLO_BROADCAST) i = hlo_operand(i, 0);
  return i->opcode == HLO_CONSTANT && one_element(i->shape);
}

bool fusion_rule_expensive(const hlo_instr *i, bool cpu) {
  switch (i->opcode) {
  case HLO_ABS:
  case HLO_SIGN:
  case HLO_COSINE:
  case HLO_SIN:
  case HLO_TAN: return hlo_dtype_is_complex(i->shape->dtype);
  case HLO_SINH: return cpu || hlo_dtype_is_complex(i->shape->dtype);
  case HLO_CONVERT:
    return cpu && i->shape->dtype == HLO_BF16 && hlo_operand(i, 0)->shape->dtype == HLO_F32;
  // by a constant they are multiplications; that XLA:CPU looks at the other operand is its own
  case HLO_DIVIDE:
  case HLO_REMAINDER:
    return !hlo_dtype_is_integer(i->shape->dtype) || !one_value(hlo_operand(i, cpu ? 0 : 1));
  case HLO_BITCAST:
  case HLO_BITCAST_CONVERT:
  case HLO_BROADCAST:
  case HLO_CONCATENATE:
  case HLO_CONSTANT:
  case HLO_COPY:
  case HLO_COPY_START:
  case HLO_COPY_DONE:
  case HLO_DYNAMIC_RESHAPE:
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_INFEED:
  case HLO_IOTA:
  case HLO_OPT_BARRIER:
  case HLO_OUTFEED:
  case HLO_PAD:
  case HLO_PARTITION_ID:
  case HLO_REPLICA_ID:
  case HLO_RESHAPE:
  case HLO_REVERSE:
  case HLO_SLICE:
  case HLO_STOCHASTIC_CONVERT:
  case HLO_TRANSPOSE:
  case HLO_TUPLE: return false;
  default: return !hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || hlo_op_is_transcendental(i->opcode);
  }
}

static bool has_buffer(const hlo_shape *s) {
  for (u32 k = 0; hlo_shape_is_tuple(s) && k < s->nelems; k++)
    if (has_buffer(s->elems[k])) return true;
  return s->dtype == HLO_BUFFER;
}

static bool starts(const hlo_instr *i) {
  const char *text = hlo_op_text(i->opcode);
  size_t n = strlen(text);
  return hlo_op_has(i->opcode, HLO_F_ASYNC) && n > 6 && strcmp(text + n - 6, "-start") == 0;
}

bool fusion_rule_fusible(const hlo_instr *i) {
  if (has_buffer(i->shape)) return false;  // not an operand or result of fusions
  for (u32 k = 0; k < i->noperands; k++)
    // what has started is seen by its own done
    if (has_buffer(hlo_operand(i, k)->shape) || starts(hlo_operand(i, k))) return false;
  switch (i->opcode) {
  case HLO_DOMAIN:
  case HLO_PARAMETER:
  case HLO_WHILE:
  case HLO_CONDITIONAL:
  case HLO_CALL: return false;
  // XLA's verifier lets operands be that no parameter takes
  case HLO_FUSION: return hlo_fusion_comp(i)->nparams == i->noperands;
  case HLO_MAP:
  case HLO_REDUCE:
  case HLO_REDUCE_WINDOW: return true;
  case HLO_RNG: return !i->first_use || !fusion_rule_has_other_users(i, i->first_use->user);
  default: return !hlo_op_has(i->opcode, HLO_F_ASYNC) && !hlo_has_side_effect(i);
  }
}

bool fusion_rule_duplicable(const hlo_instr *i) {
  return i->opcode == HLO_BROADCAST ||
         (i->opcode == HLO_CONVERT &&
          hlo_shape_bytes(hlo_operand(i, 0)->shape) < hlo_shape_bytes(i->shape));
}

static i64 true_rank(const hlo_shape *s) {
  i64 n = 0;
  if (hlo_shape_is_tuple(s))
    for (u32 k = 0; k < s->nelems; k++) n = HS_MAX(n, true_rank(s->elems[k]));
  else
    for (u32 k = 0; hlo_shape_is_array(s) && k < s->rank; k++) n += s->dims[k] != 1;
  return n;
}

bool fusion_rule_at_most_unary(const hlo_instr *i) {
  i64 rank = true_rank(i->shape);
  u32 large = 0;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *x = hlo_operand(i, k);
    if (x->opcode == HLO_BROADCAST || x->opcode == HLO_IOTA ||
        (x->opcode == HLO_CONSTANT && one_element(x->shape)))
      continue;
    large += (hlo_shape_is_array(x->shape) ? true_rank(x->shape) : 0) >= rank;
  }
  return large <= 1;
}

bool fusion_rule_has_other_users(const hlo_instr *producer, const hlo_instr *consumer) {
  hlo_for_each_use(u, producer)
    if (u->user != consumer) return true;
  return false;
}

// ---- uses of elements ---------------------------------------------------------------------------
typedef enum element_use { USE_NONE, USE_AGAIN, USE_MOVED, USE_PLAIN } element_use;

static element_use both(element_use a, element_use b) {
  if (a == USE_NONE || b == USE_NONE) return a == USE_NONE ? b : a;
  // moved twice, each element may come twice
  return a == USE_PLAIN && b == USE_PLAIN ? USE_PLAIN : USE_AGAIN;
}

static element_use use_inside(const hlo_computation *, const hlo_instr *p);
static element_use use_of(const hlo_instr *i, u32 operand) {
  switch (i->opcode) {
  case HLO_BITCAST:
  case HLO_CONCATENATE:
  case HLO_RESHAPE:
  case HLO_REVERSE:
  case HLO_SLICE:
  case HLO_TRANSPOSE: return USE_MOVED;
  case HLO_PAD: return operand ? USE_AGAIN : USE_MOVED;
  case HLO_REDUCE: return operand >= i->noperands / 2 ? USE_AGAIN : USE_MOVED;
  case HLO_DYNAMIC_UPDATE_SLICE: return operand < 2 ? USE_MOVED : USE_AGAIN;
  case HLO_GATHER: return operand ? USE_PLAIN : USE_MOVED;
  case HLO_DOT:  // a matrix is read once by a product with a vector
    return i->shape->rank <= 1 && hlo_operand(i, 1 - operand)->shape->rank <= 1 ? USE_PLAIN
                                                                                : USE_AGAIN;
  case HLO_FUSION: return use_inside(hlo_fusion_comp(i), hlo_fusion_comp(i)->params[operand]);
  default: return fusion_rule_elementwise(i) ? USE_PLAIN : USE_AGAIN;
  }
}

// How the body of a fusion uses its parameter p.
static element_use use_inside(const hlo_computation *c, const hlo_instr *p) {
  hs_arena a = {0};
  hlo_instr **order = hlo_post_order(c, &a);
  hlo_positions at = hlo_positions_in(c->ninstrs, order, &a);
  element_use *use = HS_NEW_ARRAY(&a, element_use, c->ninstrs + 1), root;
  for (u32 k = 0; k < c->ninstrs; k++) {
    if (order[k] == p) use[k] = USE_PLAIN;
    for (u32 o = 0; o < order[k]->noperands; o++) {
      element_use here = use_of(order[k], o),
                  below = use[hlo_position_of(&at, hlo_operand(order[k], o))];
      use[k] = both(use[k], HS_MIN(here, below));
    }
  }
  root = use[hlo_position_of(&at, c->root)];
  hs_arena_free(&a);
  return root;
}

bool fusion_rule_reuses(const hlo_instr *i, u32 operand) { return use_of(i, operand) == USE_AGAIN; }

// ---- in-place operations ------------------------------------------------------------------------
typedef bool picks(const hlo_instr *);
static bool not_elementwise(const hlo_instr *i) {
  return i->opcode != HLO_PARAMETER && !fusion_rule_elementwise(i);
}
static bool is_update(const hlo_instr *i) { return i->opcode == HLO_DYNAMIC_UPDATE_SLICE; }
static bool moves(const hlo_instr *i) {
  return i->opcode != HLO_FUSION && i->opcode != HLO_BITCAST && i->opcode != HLO_PARAMETER &&
         !fusion_rule_elementwise(i);
}

// The number of instructions of i (itself, or those in its body) that fn accepts, and the first.
static u32 pick(const hlo_instr *i, picks *fn, const hlo_instr **first) {
  u32 n = 0;
  *first = NULL;
  if (fn(i)) return *first = i, 1;
  if (i->opcode != HLO_FUSION) return 0;
  hlo_for_each_instr(x, hlo_fusion_comp(i))
    if (fn(x) && !n++) *first = x;
  return n;
}

// Whether what a fusion reads as `operand`, or what comes of it, gets to an instruction in it
// (`but` apart) that fn picks.
static bool gets_to(const hlo_instr *fusion, u32 operand, picks *fn, const hlo_instr *but,
                    hs_arena *a) {
  const hlo_computation *c = hlo_fusion_comp(fusion);
  hlo_positions at = hlo_positions_in(c->ninstrs, hlo_post_order(c, a), a);
  HS_VEC(const hlo_instr *) todo = {0};
  bool *seen = HS_NEW_ARRAY(a, bool, c->ninstrs + 1), hit = false;
  hs_vec_push(&todo, c->params[operand]);
  while (todo.n && !hit) {
    const hlo_instr *i = hs_vec_pop(&todo);
    hit = i != but && fn(i);
    hlo_for_each_use(u, i) {
      u32 k = hlo_position_of(&at, u->user);
      if (!seen[k]) seen[k] = true, hs_vec_push(&todo, u->user);
    }
  }
  hs_vec_free(&todo);
  return hit;
}

// The element that a fusion's result `leaf` is, behind its tuple.
static const hlo_instr *result_of(const hlo_instr *fusion, u32 leaf) {
  const hlo_instr *r = hlo_fusion_comp(fusion)->root;
  if (r->opcode == HLO_TUPLE) r = leaf < r->noperands ? hlo_operand(r, leaf) : r;
  return r;
}

// Whether what moves data in the fusion, the one that writes apart, would read the producer's
// array.
static bool conflict_inside(const hlo_instr *fusion, const hlo_instr *producer, u32 leaf,
                            hs_arena *a) {
  u32 operand = 0;
  while (operand < fusion->noperands && hlo_operand(fusion, operand) != producer) operand++;
  return operand < fusion->noperands && gets_to(fusion, operand, moves, result_of(fusion, leaf), a);
}

static const hlo_instr *outside(const hlo_instr *of, const hlo_instr *x) {
  return of->opcode == HLO_FUSION && x->opcode == HLO_PARAMETER
             ? hlo_operand(of, (u32)hlo_param_number(x))
             : x;
}

static bool integer_constant(const hlo_instr *x, i64 *v) {
  const hlo_literal *l = x->opcode == HLO_CONSTANT ? hlo_constant_value(x) : NULL;
  if (!l || l->elided || !hlo_shape_is_array(l->shape) || l->shape->elements < 1 ||
      !hlo_dtype_is_integer(l->shape->dtype))
    return false;
  *v = hlo_literal_i64(l, 0);
  return true;
}

// The producer's slice `s` reads just what the update writes.
static const char *same_place(const hlo_instr *producer, const hlo_instr *s,
                              const hlo_instr *consumer, const hlo_instr *update) {
  const hlo_slices *dims = s->opcode == HLO_SLICE ? hlo_attr_ptr(s, HLO_ATTR_SLICE) : NULL;
  if (s->shape != hlo_operand(update, 1)->shape)
    return "it reads a slice of another shape than the update has";
  for (u32 k = 0; k < update->shape->rank; k++) {
    const hlo_instr *to = outside(consumer, hlo_operand(update, 2 + k));
    i64 at, from;
    bool fixed = integer_constant(to, &at);
    if (dims) {
      if (!fixed || at != dims->v[k].start || dims->v[k].stride != 1)
        return "the update and the slice start at different places";
    } else {
      const hlo_instr *start = outside(producer, hlo_operand(s, 1 + k));
      bool known = integer_constant(start, &from);
      if (known != fixed || (known ? from != at : start != to))
        return "the update and the dynamic-slice start at different places";
    }
  }
  return NULL;
}

static const char *pair_conflict(const hlo_instr *producer, const hlo_instr *consumer, u32 operand,
                                 u32 leaf, hs_arena *a) {
  const hlo_instr *written = hlo_operand(consumer, operand), *mover, *update;
  for (u32 k = 0; k < consumer->noperands; k++)
    if (k != operand && hlo_operand(consumer, k) == written)
      return "the consumer writes over an operand that it reads as another one";
  bool reads = written == producer;
  for (u32 k = 0; k < producer->noperands; k++) reads |= hlo_operand(producer, k) == written;
  if (!reads) return "";
  u32 movers = pick(producer, moves, &mover);
  if (movers > 1)
    return "it moves data in several ways, and the consumer writes over an operand of it";
  if (movers == 0)
    return consumer->opcode == HLO_FUSION && conflict_inside(consumer, producer, leaf, a)
               ? "the consumer moves data of what it writes over"
               : NULL;
  u32 updates = pick(consumer, is_update, &update);
  if (updates == 0) return NULL;
  if (updates > 1) return "the consumer writes over several arrays";
  if (mover->opcode != HLO_SLICE && mover->opcode != HLO_DYNAMIC_SLICE)
    return "it moves data of what the consumer writes over";
  const char *why = same_place(producer, mover, consumer, update);
  if (why || consumer->opcode != HLO_FUSION) return why;
  for (u32 k = 0; k < consumer->noperands; k++)
    if (hlo_operand(consumer, k) == producer && gets_to(consumer, k, not_elementwise, update, a))
      return "another operation in the consumer would move data of what it writes over";
  return NULL;
}

const char *fusion_rule_in_place(const hlo_instr *producer, const hlo_instr *consumer,
                                 hs_arena *a) {
  cp_pairs v = {0};
  cp_in_place(consumer, &v);
  const char *why = "";  // "": that pair says nothing, the next one may
  for (u32 k = 0; k < v.n && why && !*why; k++)
    why = pair_conflict(producer, consumer, v.v[k].operand, v.v[k].out_leaf, a);
  hs_vec_free(&v);
  return why && *why ? why : NULL;
}

// ---- XLA:CPU ------------------------------------------------------------------------------------
bool fusion_rule_loop(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_BITCAST:
  case HLO_BROADCAST:
  case HLO_CONCATENATE:
  case HLO_DYNAMIC_SLICE:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_GATHER:
  case HLO_IOTA:
  case HLO_PAD:
  case HLO_REDUCE:
  case HLO_RESHAPE:
  case HLO_REVERSE:
  case HLO_SLICE:
  case HLO_TRANSPOSE: return true;
  default: return fusion_rule_elementwise(i);
  }
}

bool fusion_rule_output(const hlo_instr *producer, const hlo_instr *consumer) {
  if (consumer->opcode != HLO_ADD || producer->opcode != HLO_DOT ||
      hlo_dtype_is_complex(producer->shape->dtype))
    return false;
  return producer->shape->rank <= 1 && hlo_attr_ints(producer, HLO_ATTR_LHS_BATCH_DIMS).n == 0 &&
         producer->nuses == 1;
}

bool fusion_rule_output_into_operand(const hlo_instr *i) {
  return i->opcode == HLO_ADD &&
         (fusion_rule_output(hlo_operand(i, 0), i) || fusion_rule_output(hlo_operand(i, 1), i));
}

bool fusion_rule_slow_concatenate(const hlo_instr *i) {
  if (i->opcode != HLO_CONCATENATE) return false;
  if (i->noperands > 8) return true;
  i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0],
      minor = i->shape->layout && i->shape->rank ? i->shape->layout->minor_to_major[0]
                                                 : (i64)i->shape->rank - 1;
  i64 size = HS_MAX(hlo_dtype_bits(i->shape->dtype), 8) / 8;
  return i->shape->rank > 1 && dim == minor && i->shape->dims[dim] * size >= 64 &&
         hlo_shape_bytes(i->shape) >= 2048;
}

bool fusion_rule_dot_reads(const hlo_instr *dot, u32 operand) {
  const hlo_shape *other = hlo_operand(dot, 1 - operand)->shape;
  return dot->shape->rank <= 1 && other->rank == 1 && hlo_shape_bytes(other) < 16 * 1024;
}

static bool is_or_broadcasts(const hlo_instr *i, const hlo_instr *x) {
  return i == x || (i->opcode == HLO_BROADCAST && hlo_operand(i, 0) == x);
}

bool fusion_rule_shifted_exponent(const hlo_instr *i) {
  if (i->opcode == HLO_FUSION || !fusion_rule_elementwise(i)) return false;
  const hlo_instr *largest = NULL;
  hlo_for_each_use(u, i)
    if (!largest && u->user->opcode == HLO_REDUCE && hlo_slot(u) == 0 &&
        hlo_fusion_comp(u->user)->root->opcode == HLO_MAXIMUM)
      largest = u->user;
  hlo_for_each_use(u, i) {
    const hlo_instr *s = u->user, *x, *y;
    if (!largest || s->opcode != HLO_SUBTRACT) continue;
    x = hlo_operand(s, 0), y = hlo_operand(s, 1);
    bool shift = is_or_broadcasts(x, i) || is_or_broadcasts(y, i);
    bool by_largest = (x != largest && is_or_broadcasts(x, largest)) ||
                      (y != largest && is_or_broadcasts(y, largest));
    if (!shift || !by_largest) continue;
    hlo_for_each_use(e, s)
      if (e->user->opcode == HLO_EXP) return true;
  }
  return false;
}

// ---- duplication of code by indexing ------------------------------------------------------------
// `from`: the instructions, by place, whose new indices the instruction or operand is read with;
// UINT32_MAX: the fusion's own.
typedef HS_VEC(u32) places;
static void insert(places *v, u32 x) {
  for (size_t k = 0; k < v->n; k++)
    if (v->v[k] == x) return;
  hs_vec_push(v, x);
}

static i64 times(const places *v, const i64 *count) {
  i64 n = 0;
  for (size_t k = 0; k < v->n; k++) n += v->v[k] == UINT32_MAX ? 1 : count[v->v[k]];
  return n;
}

static bool starts_a_block(hlo_opcode op) {
  switch (op) {
  case HLO_CONCATENATE:
  case HLO_DOT:
  case HLO_DYNAMIC_UPDATE_SLICE:
  case HLO_PAD:
  case HLO_REDUCE:
  case HLO_REDUCE_WINDOW: return true;
  default: return false;
  }
}

static u32 readers(const hlo_instr *i) {
  u32 n = 0;
  hlo_for_each_use(u, i) {
    bool first = true;
    for (const hlo_use *v = i->first_use; v != u; v = v->next) first &= v->user != u->user;
    if (!first) continue;
    if (u->user->opcode != HLO_FUSION) {
      n++;
      continue;
    }
    const hlo_instr *p = hlo_fusion_comp(u->user)->params[hlo_slot(u)];
    hlo_for_each_use(x, p) {
      bool again = false;
      for (const hlo_use *y = p->first_use; y != x; y = y->next) again |= y->user == x->user;
      n += !again;
    }
  }
  return n;
}

// Dimensions and layout; the element type may differ.
static bool same_index(const hlo_instr *x, const hlo_instr *reader) {
  const hlo_shape *a = x->shape, *b = reader->shape;
  if (reader->opcode == HLO_TRANSPOSE) return true;
  if (!hlo_shape_is_array(a) || !hlo_shape_is_array(b)) return a == b;
  return hlo_shape_same_dims(a, b) && a->layout == b->layout;
}

bool fusion_rule_emitted_too_often(const hlo_instr *fusion, u32 operand, hs_arena *scratch) {
  enum { MOST = 15 };
  const hlo_instr *p = hlo_operand(fusion, operand);
  const hlo_computation *c = hlo_fusion_comp(fusion);
  if (p->opcode == HLO_BROADCAST) return false;
  u32 n = c->ninstrs;
  hlo_instr **order = hlo_post_order(c, scratch);
  hlo_positions at = hlo_positions_in(n, order, scratch);
  places *from = HS_NEW_ARRAY(scratch, places, n + 1);
  i64 *count = HS_NEW_ARRAY(scratch, i64, n + 1);
  insert(&from[hlo_position_of(&at, c->root)], UINT32_MAX);
  for (u32 k = n; k-- > 0;) {
    const hlo_instr *i = order[k];
    if (i->opcode == HLO_PARAMETER) continue;
    count[k] = times(&from[k], count);
    for (u32 o = 0; o < i->noperands; o++) {
      places *to = &from[hlo_position_of(&at, hlo_operand(i, o))];
      if (!same_index(hlo_operand(i, o), i)) {
        insert(to, k);
        continue;
      }
      for (size_t j = 0; j < from[k].n; j++) insert(to, from[k].v[j]);
    }
  }
  i64 emitted = times(&from[hlo_position_of(&at, c->params[operand])], count);
  for (u32 k = 0; k < n; k++) hs_vec_free(&from[k]);
  return emitted > MOST || (starts_a_block(p->opcode) && (emitted > 1 || readers(p) > 1));
}
