// collective_quantizer.c — collective-quantizer
// (xla/hlo/transforms/collectives/collective_quantizer.cc): what devices exchange is exchanged in
// the narrower of two types. A convert to a wider type before an all-gather, all-to-all,
// collective-broadcast or collective-permute moves behind it, one to a narrower type behind it
// moves before it, and so do the factors of a (de)quantization:
//
//   ag(convert(x) * scale)               ->  convert(ag(x)) * scale
//   convert(clamp(l, ag(x) / scale, h))  ->  ag(convert(clamp(l, x / scale, h)))
//
// Reshapes, slices, copies and bitcasts between the two stay on their side of the collective. A
// scale must be one number, the same on all devices that exchange (`is_same`): a constant, a
// parameter that is annotated as replicated, an all-reduce over groups that contain those of the
// collective, or what is computed from such, calls included. XLA's replication analysis knows more.
//
// A device that nothing is sent to has zeros. They stay zeros: a clamp must include zero, and a
// scale is taken to be a finite number other than zero.
#include "passes/run/rewrite.h"

enum { MOST_MOVES = 16, MOST_CALLS = 8, MOST_STEPS = 64 };

// A convert with what is around it.
typedef struct conversion {
  hlo_instr *convert;
  hlo_instr *scaled;            // the product or quotient; NULL: only a convert
  hlo_instr *scale;             // its scalar
  hlo_instr *clamp;             // of a quantization with a scale
  hlo_instr *move[MOST_MOVES];  // between the conversion and the collective, operands first
  u32 nmoves;
} conversion;

static bool is_exchange(const hlo_instr *i) {
  return (i->opcode == HLO_ALL_GATHER || i->opcode == HLO_ALL_TO_ALL ||
          i->opcode == HLO_COLLECTIVE_BROADCAST || i->opcode == HLO_COLLECTIVE_PERMUTE) &&
         i->noperands == 1 && hlo_shape_is_array(i->shape) && !hlo_shape_is_dynamic(i->shape) &&
         !hlo_is_controlled(i) && !hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0);
}

static bool is_move(const hlo_instr *i) {
  return (i->opcode == HLO_BITCAST || i->opcode == HLO_COPY || i->opcode == HLO_RESHAPE ||
          i->opcode == HLO_SLICE) &&
         i->shape->dtype == hlo_operand(i, 0)->shape->dtype && !hlo_is_controlled(i);
}

// Bits that the convert adds to each element.
static i64 widening(const hlo_instr *convert) {
  return (i64)hlo_dtype_bits(convert->shape->dtype) -
         (i64)hlo_dtype_bits(hlo_operand(convert, 0)->shape->dtype);
}

static hlo_instr *scalar_of(const hlo_instr *broadcast) {
  if (broadcast->opcode != HLO_BROADCAST) return NULL;
  hlo_instr *x = hlo_operand(broadcast, 0);
  return hlo_shape_is_scalar(x->shape) ? x : NULL;
}

// Which operand of a product or quotient is scaled; 2: it is neither, or by no scalar.
static u32 scaled_operand(const hlo_instr *i) {
  if (i->opcode != HLO_MULTIPLY && i->opcode != HLO_DIVIDE) return 2;
  if (scalar_of(hlo_operand(i, 1))) return 0;
  return i->opcode == HLO_MULTIPLY && scalar_of(hlo_operand(i, 0)) ? 1 : 2;
}

// ---- whether a number is the same on all devices that exchange ----------------------------------

// The groups of devices; NULL: all of them together. False: they are not known here. Of one
// replica, so that numbers of partitions and flattened ones are the same.
static bool groups_of(const hlo_instr *i, const hlo_replica_groups **out) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  bool by_partition = i->opcode == HLO_ALL_TO_ALL || i->opcode == HLO_COLLECTIVE_BROADCAST,
       flat = hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0) != 0;
  *out = NULL;
  if (hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) <= 0) return false;
  if (i->opcode == HLO_COLLECTIVE_PERMUTE || !g || (!by_partition && !flat)) return true;
  if (g->form != HLO_GROUPS_LIST) return false;
  if (g->groups.n) *out = g;
  return true;
}

static bool contains(hlo_ints outer, hlo_ints inner) {
  for (u32 k = 0; k < inner.n; k++) {
    u32 j = 0;
    while (j < outer.n && outer.v[j] != inner.v[k]) j++;
    if (j == outer.n) return false;
  }
  return true;
}

// Whether each group of `inner` lies within one of `outer`.
static bool covers(const hlo_replica_groups *outer, const hlo_replica_groups *inner) {
  if (!outer || !inner) return !outer;
  for (u32 k = 0; k < inner->groups.n; k++) {
    u32 j = 0;
    while (j < outer->groups.n && !contains(outer->groups.v[j], inner->groups.v[k])) j++;
    if (j == outer->groups.n) return false;
  }
  return true;
}

// The calls that led into a computation, and the steps that the search may still take.
typedef struct search {
  const hlo_replica_groups *groups;
  const hlo_instr *call[MOST_CALLS];
  u32 ncalls, left;
} search;

static bool is_same(search *s, const hlo_instr *i) {
  const hlo_replica_groups *own;
  if (s->left == 0) return false;
  s->left--;
  if (i->opcode == HLO_CONSTANT) return true;
  if (i->opcode == HLO_ALL_REDUCE)
    return i->noperands == 1 && groups_of(i, &own) && covers(own, s->groups);
  if (i->opcode == HLO_PARAMETER && s->ncalls == 0) {
    const hlo_sharding *sharding = hlo_attr_ptr(i, HLO_ATTR_SHARDING);
    return i->parent == i->parent->module->entry && sharding && sharding->type == HLO_SH_REPLICATED;
  }
  if (i->opcode == HLO_PARAMETER) {
    const hlo_instr *call = s->call[--s->ncalls];
    bool same = is_same(s, hlo_operand(call, (u32)hlo_param_number(i)));
    s->call[s->ncalls++] = call;
    return same;
  }
  if (i->opcode == HLO_CALL) {
    const hlo_computation *f = hlo_called(i, 0);
    if (!f || s->ncalls == MOST_CALLS) return false;
    s->call[s->ncalls++] = i;
    bool same = is_same(s, f->root);
    s->ncalls--;
    return same;
  }
  if (!hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && i->opcode != HLO_BROADCAST && !is_move(i))
    return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (!is_same(s, hlo_operand(i, k))) return false;
  return true;
}

static bool scale_is_same(const hlo_instr *exchange, const hlo_instr *scale) {
  i64 replicas = hlo_module_int(exchange->parent->module, HLO_ATTR_REPLICA_COUNT, 1);
  search s = {.left = MOST_STEPS};
  return replicas <= 1 && groups_of(exchange, &s.groups) && is_same(&s, scale);
}

// ---- the conversion before the collective -------------------------------------------------------

static bool find_before(const hlo_instr *exchange, conversion *c) {
  hlo_instr *i = hlo_operand(exchange, 0);
  u32 n = 0;
  for (*c = (conversion){0}; is_move(i); i = hlo_operand(i, 0)) {
    if (n == MOST_MOVES) return false;
    c->move[n++] = i;
  }
  c->nmoves = n;
  for (u32 k = 0; k < n / 2; k++) {
    hlo_instr *x = c->move[k];
    c->move[k] = c->move[n - 1 - k], c->move[n - 1 - k] = x;
  }
  u32 k = scaled_operand(i);
  if (k < 2) {
    c->scaled = i, c->scale = scalar_of(hlo_operand(i, 1 - k));
    i = hlo_operand(i, k);
  }
  c->convert = i;
  return i->opcode == HLO_CONVERT && widening(i) > 0 && !hlo_is_controlled(i);
}

// The moves of the conversion, done on x.
static hlo_instr *moved(const conversion *c, hlo_instr *x) {
  for (u32 k = 0; k < c->nmoves; k++)
    x = hlo_clone_instr(x->parent, c->move[k], pass_shape_as(c->move[k], x->shape->dtype), 1, &x);
  return x;
}

// The product or quotient with another array, and the scale in its shape.
static hlo_instr *rescaled(const conversion *c, hlo_instr *x) {
  u32 k = scaled_operand(c->scaled);
  hlo_instr *ops[2];
  ops[k] = x;
  ops[1 - k] = hlo_add_broadcast(c->scale, x->shape, 0, NULL);
  return hlo_clone_instr(x->parent, c->scaled, x->shape, 2, ops);
}

static void move_behind(hlo_instr *exchange, const conversion *c) {
  hlo_instr *x = moved(c, hlo_operand(c->convert, 0)),
            *now = hlo_clone_instr(exchange->parent, exchange,
                                   pass_shape_as(exchange, x->shape->dtype), 1, &x);
  now = hlo_clone_instr(now->parent, c->convert, exchange->shape, 1, &now);
  if (c->scaled) now = rescaled(c, now);
  hlo_replace(exchange, now);
}

// ---- the conversion behind it -------------------------------------------------------------------

static hlo_instr *only_user(const hlo_instr *i) {
  return i->nuses == 1 && !hlo_is_root(i) && !hlo_is_controlled(i->first_use->user)
             ? i->first_use->user
             : NULL;
}

static bool bound_of(const hlo_instr *clamp, u32 k, double *v) {
  const hlo_instr *x = scalar_of(hlo_operand(clamp, k));
  const hlo_literal *l = x && x->opcode == HLO_CONSTANT ? hlo_constant_value(x) : NULL;
  if (!l || l->elided) return false;
  *v = hlo_literal_f64(l, 0);
  return true;
}

static bool find_behind(const hlo_instr *exchange, conversion *c) {
  double low, high;
  const hlo_instr *from = exchange;
  hlo_instr *i = only_user(exchange);
  for (*c = (conversion){0}; i && is_move(i); from = i, i = only_user(i)) {
    if (c->nmoves == MOST_MOVES) return false;
    c->move[c->nmoves++] = i;
  }
  u32 k = i ? scaled_operand(i) : 2;
  if (k < 2 && hlo_operand(i, k) == from) {
    c->scaled = i, c->scale = scalar_of(hlo_operand(i, 1 - k));
    c->clamp = only_user(i);
    if (!c->clamp || c->clamp->opcode != HLO_CLAMP || hlo_operand(c->clamp, 1) != i ||
        !bound_of(c->clamp, 0, &low) || !bound_of(c->clamp, 2, &high))
      return false;
    if (low > 0 || high < 0) return false;  // zeros would not stay zeros
    i = only_user(c->clamp);
  }
  c->convert = i;
  return i && i->opcode == HLO_CONVERT && widening(i) < 0;
}

static void move_before(hlo_instr *exchange, const conversion *c) {
  hlo_instr *x = hlo_operand(exchange, 0), *now = x;
  if (c->scaled) {
    hlo_instr *ops[3] = {scalar_of(hlo_operand(c->clamp, 0)), rescaled(c, x),
                         scalar_of(hlo_operand(c->clamp, 2))};
    for (u32 k = 0; k < 3; k += 2) ops[k] = hlo_add_broadcast(ops[k], x->shape, 0, NULL);
    now = hlo_clone_instr(x->parent, c->clamp, x->shape, 3, ops);
  }
  hlo_dtype t = c->convert->shape->dtype;
  now = hlo_clone_instr(x->parent, c->convert, pass_shape_as(x, t), 1, &now);
  now = hlo_clone_instr(x->parent, exchange, pass_shape_as(exchange, t), 1, &now);
  hlo_replace(c->convert, moved(c, now));
  // with a channel it has an effect, and stays unless it is removed
  if (!exchange->dead && exchange->nuses == 0) hlo_remove(exchange);
}

// ---- the pass -----------------------------------------------------------------------------------

static hs_status visit(pass_ctx *p, hlo_computation *comp) {
  hlo_instr **order = hlo_post_order(comp, p->scratch);
  for (u32 k = 0, n = comp->ninstrs; k < n; k++) {
    hlo_instr *i = order[k];
    conversion c;
    if (i->dead || !is_exchange(i)) continue;
    HS_TRY(hs_poll());
    bool before = find_before(i, &c);
    if (!before && !find_behind(i, &c)) continue;
    if (c.scaled && !scale_is_same(i, c.scale)) {
      pass_note_declined(p, i, c.scaled, "the scale may differ between the devices");
      continue;
    }
    if (!pass_may_rewrite(p)) return HS_GOOD;
    const hlo_instr *narrow = before ? hlo_operand(c.convert, 0) : c.convert;
    pass_note_done(p, i, c.convert, "exchanges %s", hlo_dtype_text(narrow->shape->dtype));
    (before ? move_behind : move_before)(i, &c);
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) {
  hlo_for_each_comp(c, p->m)
    if (!hlo_is_fusion_comp(c)) HS_TRY(visit(p, c));
  return HS_GOOD;
}

const pass_info pass_collective_quantizer = {
    .name = "collective-quantizer",
    .summary = "has devices exchange the narrower type of a convert next to a collective",
    .xla_source = "xla/hlo/transforms/collectives/collective_quantizer.cc",
    .run = run,
    .needs = {HLO_ALL_GATHER, HLO_ALL_TO_ALL, HLO_COLLECTIVE_BROADCAST, HLO_COLLECTIVE_PERMUTE},
    .sample = "ENTRY e {\n"
              "  x = bf16[4] parameter(0)\n"
              "  w = f32[4] convert(x)\n"
              "  ROOT y = f32[4] all-gather(w), dimensions={0}, replica_groups={}\n"
              "}\n",
};
