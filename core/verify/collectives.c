// collectives.c — the verifier's rules for several devices: replica groups against the
// module's replica and partition counts, source-target pairs, channels, send/recv order, shardings.
//
// How the numbers of a replica group are read depends on the mode
// (xla/service/collective_ops_utils.h): without a channel they are replicas; with one they are
// partitions, replicas of every partition, or (use_global_device_ids) flattened ids.
#include "core/verify/rules.h"

typedef enum group_mode { MODE_REPLICA, MODE_PARTITION, MODE_BOTH, MODE_FLAT } group_mode;

static group_mode mode_of(const hlo_instr *i) {
  bool channel = hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) > 0,
       flat = hlo_attr_int(i, HLO_ATTR_USE_GLOBAL_DEVICE_IDS, 0) != 0;
  if (!channel) return flat ? MODE_FLAT : MODE_REPLICA;
  bool has_flag = hlo_op_takes_attr(i->opcode, HLO_ATTR_USE_GLOBAL_DEVICE_IDS);
  return flat ? MODE_FLAT : has_flag ? MODE_BOTH : MODE_PARTITION;
}
static i64 mul_sat(i64 a, i64 b) {  // saturating: the counts come from a file
  i64 r;
  return hs_mul_ok(a, b, &r) ? r : INT64_MAX;
}
// Size of the largest group, and the number of ids in all; false when the groups are given by a
// mesh.
static bool group_sizes(const hlo_replica_groups *g, i64 *size, i64 *total, bool *uniform) {
  *size = *total = 0, *uniform = true;
  if (!g) return true;
  if (g->form == HLO_GROUPS_MESH) return false;
  if (g->form == HLO_GROUPS_IOTA) {
    if (g->dims.n != 2) return false;
    *size = g->dims.v[1];
    return hs_mul_ok(g->dims.v[0], g->dims.v[1], total);
  }
  for (u32 k = 0; k < g->groups.n; k++) {
    *uniform &= g->groups.v[k].n == g->groups.v[0].n;
    *size = HS_MAX(*size, (i64)g->groups.v[k].n), *total += g->groups.v[k].n;
  }
  return true;
}

static void check_group_list(verifier *v, const hlo_instr *i, const hlo_replica_groups *g,
                             i64 total) {
  bool *seen = hs_calloc((size_t)total + 1, sizeof *seen);
  for (u32 k = 0; k < g->groups.n; k++) {
    if (!g->groups.v[k].n) {
      verify_report(v, i, "Instruction cannot have an empty replica group");
      goto done;
    }
    for (u32 j = 0; j < g->groups.v[k].n; j++) {
      i64 id = g->groups.v[k].v[j];
      if (id >= 0 && id < total && !seen[id]) seen[id] = true;
      else if (id >= 0 && id < total) {
        verify_report(v, i, "Repeated replica id %lld in instruction %s", (long long)id, i->name);
        goto done;
      }
    }
  }
  for (i64 id = 0; id < total; id++)
    if (!seen[id]) {
      verify_report(v, i, "Replica %lld is not named in instruction %s.", (long long)id, i->name);
      break;
    }
done:
  hs_free(seen);
}

static void check_groups(verifier *v, const hlo_instr *i, i64 *group_size) {
  const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
  i64 size, total, replicas = hlo_module_int(v->m, HLO_ATTR_REPLICA_COUNT, 1),
                   parts = hlo_module_int(v->m, HLO_ATTR_NUM_PARTITIONS, 1);
  group_mode mode = mode_of(i);
  bool uniform;
  *group_size = 1;
  if (!group_sizes(g, &size, &total, &uniform)) return;
  NEED(v, i, mode != MODE_FLAT || total, "Replica groups must be specified in flattened-id mode");
  if (!total) {
    if (g && g->groups.n) check_group_list(v, i, g, 0);
    *group_size = mode == MODE_PARTITION ? parts
                  : mode == MODE_BOTH    ? mul_sat(replicas, parts)
                                         : replicas;
    return;
  }
  if (g->form == HLO_GROUPS_LIST) {
    u32 before = v->nerrors;
    check_group_list(v, i, g, total);
    if (v->nerrors != before) return;
  }
  bool unknown = mode == MODE_BOTH && !hlo_attrs_find(v->m->attrs, HLO_ATTR_NUM_PARTITIONS);
  *group_size = unknown ? 1 : mode == MODE_BOTH ? mul_sat(size, parts) : size;
  bool any_size = i->opcode == HLO_ALL_REDUCE || i->opcode == HLO_ALL_REDUCE_START ||
                  i->opcode == HLO_COLLECTIVE_BROADCAST;
  NEED(v, i, uniform || any_size, "Replica groups expected to be of uniform size");
  if (v->o.ignore_group_counts) return;
  static const char *const names[] = {"kCrossReplica", "kCrossPartition",
                                      "kCrossReplicaAndPartition", "kFlattenedID"};
  static const char *const things[] = {"replicas", "partitions", "replicas", "flattened IDs"};
  i64 want = mode == MODE_PARTITION ? parts
             : mode == MODE_FLAT    ? mul_sat(replicas, parts)
                                    : replicas;
  NEED(v, i, want == 1 || total == want,
       "In %s mode, replica groups should contain %lld %s, but found %lld", names[mode],
       (long long)want, things[mode], (long long)total);
}

// ---- collective-permute -------------------------------------------------------------------------
static void check_pairs(verifier *v, const hlo_instr *i) {
  hlo_ints p = hlo_attr_ints(i, HLO_ATTR_SOURCE_TARGET_PAIRS);
  const hlo_int_lists *slices = hlo_attr_ptr(i, HLO_ATTR_PERMUTE_SLICE_SIZES);
  u32 allowed = slices && slices->n ? slices->n : 1;
  bool partitions = hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) > 0;
  i64 limit =
      hlo_module_int(v->m, partitions ? HLO_ATTR_NUM_PARTITIONS : HLO_ATTR_REPLICA_COUNT, 1);
  for (u32 side = 0; side < 2; side++)
    for (u32 k = 0; k < p.n; k++) {
      i64 id = p.v[2 * k + side];
      NEED(v, i, id >= 0, "%s %lld in the instruction's source-target pair must be >= 0",
           side ? "Target" : "Source", (long long)id);
      NEED(v, i, limit == 1 || v->o.ignore_group_counts || id < limit,
           "%s %lld in the instruction's source-target pair must be < %lld",
           side ? "Target" : "Source", (long long)id, (long long)limit);
      u32 times = 0;
      for (u32 j = 0; j < p.n && p.n <= 4096; j++) times += p.v[2 * j + side] == id;
      NEED(v, i, times <= allowed || allowed > 1,
           "%s %lld appears more than once in instruction's source-target pairs",
           side ? "Target" : "Source", (long long)id);
      NEED(v, i, times <= allowed,
           "%s %lld appears more than %u times in instruction's source-target pairs: it appears %u "
           "times",
           side ? "Target" : "Source", (long long)id, allowed, times);
    }
}
static bool scalars(const hlo_shape *s) {
  for (u32 k = 0; k < s->nelems; k++)
    if (!hlo_shape_is_scalar(s->elems[k])) return false;
  return true;
}
// Offsets of one buffer: a tuple of `rank` scalars, or a tuple of such tuples, one per slice.
static bool offsets_fit(const hlo_shape *buffer, const hlo_shape *off) {
  if (!hlo_shape_is_array(buffer) || !hlo_shape_is_tuple(off)) return false;
  if (off->nelems && hlo_shape_is_tuple(off->elems[0])) {
    for (u32 k = 0; k < off->nelems; k++)
      if (!hlo_shape_is_tuple(off->elems[k]) || !scalars(off->elems[k]) ||
          off->elems[k]->nelems != buffer->rank)
        return false;
    return true;
  }
  return scalars(off) && (off->nelems == buffer->rank || off->nelems == 0);
}
static bool all_offsets_fit(const hlo_shape *buffers, const hlo_shape *off) {
  if (!hlo_shape_is_tuple(buffers)) return offsets_fit(buffers, off);
  if (!hlo_shape_is_tuple(off) || off->nelems != buffers->nelems) return false;
  for (u32 k = 0; k < off->nelems; k++)
    if (!offsets_fit(buffers->elems[k], off->elems[k])) return false;
  return true;
}
static void check_inplace_permute(verifier *v, const hlo_instr *i) {
  const hlo_int_lists *slices = hlo_attr_ptr(i, HLO_ATTR_PERMUTE_SLICE_SIZES);
  if (!slices || !slices->n) return;
  NEED(v, i, i->noperands == 4, "an in-place collective-permute takes 4 operands, found %u",
       i->noperands);
  const hlo_shape *in = hlo_operand(i, 0)->shape, *out = hlo_operand(i, 1)->shape;
  NEED(v, i,
       hlo_shape_is_tuple(in) == hlo_shape_is_tuple(out) &&
           (!hlo_shape_is_tuple(in) || in->nelems == out->nelems),
       "Unmatching input buffers and output buffers: %s and %s", infer_text(in), infer_text(out));
  NEED(v, i, all_offsets_fit(in, hlo_operand(i, 2)->shape),
       "Unmatching input buffers and input offset.");
  NEED(v, i, all_offsets_fit(out, hlo_operand(i, 3)->shape),
       "Unmatching output buffers and output offset.");
}

// What a start makes is its operand and the result that the done hands out: of several operands
// tuples of them, in place the two buffers (XLA's InferCollectivePermuteStartShape).
static void check_permute_start(verifier *v, const hlo_instr *i) {
  const hlo_int_lists *slices = hlo_attr_ptr(i, HLO_ATTR_PERMUTE_SLICE_SIZES);
  bool inplace = slices && slices->n;
  NEED(v, i, hlo_shape_is_tuple(i->shape) && i->shape->nelems >= 2,
       "a collective-permute-start makes a tuple of two elements or more, not %s",
       infer_text(i->shape));
  for (u32 k = 0; k < 2; k++) {
    const hlo_shape *part = i->shape->elems[k];
    bool same = hlo_shape_is_tuple(part) && part->nelems == i->noperands;
    if (inplace) same = hlo_shape_compatible(part, hlo_operand(i, k)->shape);
    else if (i->noperands == 1) same = hlo_shape_compatible(part, hlo_operand(i, 0)->shape);
    for (u32 j = 0; same && !inplace && i->noperands > 1 && j < i->noperands; j++)
      same = hlo_shape_compatible(part->elems[j], hlo_operand(i, j)->shape);
    NEED(v, i, same,
         "element %u of a collective-permute-start's result is %s, which is not what "
         "it permutes",
         k, infer_text(part));
  }
}

// ---- shapes that depend on the groups -----------------------------------------------------------
static void check_shards(verifier *v, const hlo_instr *i, bool gather, i64 group) {
  i64 dim =
      hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).n ? hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0] : -1;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *x = hlo_operand(i, k)->shape,
                    *r = hlo_shape_is_tuple(i->shape) ? i->shape->elems[k] : i->shape;
    i64 small = gather ? x->dims[dim] : r->dims[dim], big = gather ? r->dims[dim] : x->dims[dim];
    if (small <= 0 || big == HLO_UNBOUNDED) continue;
    NEED(v, i, group == 1 || big / small == group,
         "the sizes do not fit the replica groups: shard_count = %lld, subgroup_size = %lld",
         (long long)(big / small), (long long)group);
  }
}
// What a start makes is its operand and the result that the done hands out, of several operands
// tuples of them (XLA's InferAllGatherStartShape). How long the result is, the groups say.
static void check_gather_start(verifier *v, const hlo_instr *i) {
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  i64 dim = dims.n ? dims.v[0] : -1;
  bool one = i->noperands == 1;
  NEED(v, i, hlo_shape_is_tuple(i->shape) && i->shape->nelems >= 2,
       "an all-gather-start makes a tuple of two elements or more, not %s", infer_text(i->shape));
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_shape *x = hlo_operand(i, k)->shape, *part[2];
    NEED(v, i, dim >= 0 && dim < x->rank,
         "all-gather-start dimension %lld is out of bounds for %s.", (long long)dim, infer_text(x));
    for (u32 j = 0; j < 2; j++) {
      const hlo_shape *all = i->shape->elems[j];
      bool several = hlo_shape_is_tuple(all) && all->nelems == i->noperands;
      NEED(v, i, one || several,
           "element %u of an all-gather-start's result is %s, for %u operands", j, infer_text(all),
           i->noperands);
      part[j] = one ? all : all->elems[k];
    }
    NEED(v, i,
         infer_compatible(part[0], x, 0) && hlo_shape_is_array(part[1]) && part[1]->rank == x->rank,
         "an all-gather-start of %s cannot make %s and %s", infer_text(x), infer_text(part[0]),
         infer_text(part[1]));
  }
}
void verify_collective(verifier *v, const hlo_instr *i) {
  NEED(v, i, i->noperands > 0, "%s expects at least 1 operands, but has 0 operands",
       hlo_op_text(i->opcode));
  i64 group = 1;
  u32 before = v->nerrors;
  if (hlo_op_takes_attr(i->opcode, HLO_ATTR_REPLICA_GROUPS)) check_groups(v, i, &group);
  if (v->nerrors != before) return;
  switch (i->opcode) {
  case HLO_ALL_GATHER: check_shards(v, i, true, group); break;
  case HLO_ALL_GATHER_START: check_gather_start(v, i); break;
  case HLO_REDUCE_SCATTER: check_shards(v, i, false, group); break;
  case HLO_ALL_TO_ALL:
    if (!hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).n) {
      const hlo_replica_groups *g = hlo_attr_ptr(i, HLO_ATTR_REPLICA_GROUPS);
      for (u32 k = 1; k < i->noperands; k++)
        NEED(v, i, hlo_operand(i, k)->shape->layout == hlo_operand(i, 0)->shape->layout,
             "HLO all-to-all has operands with different shapes: the layouts of operand 0 and "
             "operand %u differ",
             k);
      NEED(v, i, !g || group == 1 || i->noperands == group,
           "hlo->operand_count() == split_count does not hold: %u operands, groups of %lld",
           i->noperands, (long long)group);
    } else {
      i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
      const hlo_shape *x = hlo_operand(i, 0)->shape;
      if (dim < 0 || dim >= x->rank || x->dims[dim] == HLO_UNBOUNDED) break;  // inference says so
      NEED(v, i, group > 0 && x->dims[dim] % group == 0,
           "AllToAll split dimension size %lld must be dividable by split_count %lld.",
           (long long)x->dims[dim], (long long)group);
    }
    break;
  case HLO_COLLECTIVE_PERMUTE:
  case HLO_COLLECTIVE_PERMUTE_START:
    check_pairs(v, i);
    if (v->nerrors == before) check_inplace_permute(v, i);
    if (v->nerrors == before && i->opcode == HLO_COLLECTIVE_PERMUTE_START)
      check_permute_start(v, i);
    break;
  default: break;
  }
}

// ---- channels -----------------------------------------------------------------------------------
static hs_str frontend_value(const hlo_instr *i, const char *key) {
  const hs_str *v = hlo_frontend_find(hlo_attr_get(i, HLO_ATTR_FRONTEND_ATTRIBUTES), key);
  return v ? *v : (hs_str){"", 0};
}
// Host transfers that share a channel and a direction must name the same rendezvous.
void verify_channels(verifier *v) {
  HS_VEC(const hlo_instr *) host = {0};
  hlo_for_each_comp(c, v->m)
    hlo_for_each_instr(i, c)
      if ((i->opcode == HLO_SEND || i->opcode == HLO_RECV) &&
          hlo_attr_int(i, HLO_ATTR_IS_HOST_TRANSFER, 0) &&
          hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) > 0)
        hs_vec_push(&host, i);
  static const char key[] = "_xla_host_transfer_rendezvous";
  for (size_t a = 0; a < host.n && host.n <= 4096; a++)
    for (size_t b = 0; b < a; b++) {
      const hlo_instr *x = host.v[a], *y = host.v[b];
      if (x->opcode != y->opcode ||
          hlo_attr_int(x, HLO_ATTR_CHANNEL_ID, 0) != hlo_attr_int(y, HLO_ATTR_CHANNEL_ID, 0))
        continue;
      if (hs_str_eq(frontend_value(x, key), frontend_value(y, key))) continue;
      verify_report(
          v, x,
          "Host-transfer send/recv instructions that use the same channel must be identical; %s "
          "differs",
          y->name);
      goto done;
    }
done:
  hs_vec_free(&host);
}

// In a schedule, a send (or recv) waits for its counterpart with the same source-target pairs:
// another one of the same direction, or any other collective, before the counterpart means that the
// devices wait for each other for ever.
//
// A computation called from several paths is traversed on each, as it may find another state. Two
// facts keep that from growing exponentially: one that holds nothing of interest never changes the
// state, and one that left the state empty when it started empty will do so again.
enum { P2P_INERT = 1, P2P_BALANCED = 2, P2P_BALANCED_IN_GROUP = 4 };
typedef struct p2p_state {
  HS_VEC(const hlo_instr *) pending;
  u32 events;  // sends, receives and other collectives met so far
  u8 *known;   // per computation id: P2P_* flags
  bool bad;
} p2p_state;
static void traverse_p2p(verifier *, const hlo_computation *, p2p_state *, bool group, u32 depth);

static void traverse_p2p_once(verifier *v, const hlo_computation *c, p2p_state *s, bool group,
                              u32 depth) {
  if (!c || s->bad || depth > 64) return;
  u8 balanced = group ? P2P_BALANCED_IN_GROUP : P2P_BALANCED, *known = &s->known[c->id];
  bool empty = !s->pending.n;
  if (*known & P2P_INERT || (empty && *known & balanced)) return;
  u32 before = s->events;
  traverse_p2p(v, c, s, group, depth);
  if (s->events == before) *known |= P2P_INERT;
  if (empty && !s->pending.n) *known |= balanced;
}

static void traverse_p2p(verifier *v, const hlo_computation *c, p2p_state *s, bool group,
                         u32 depth) {
  static const char key[] = "_xla_send_recv_source_target_pairs";
  hlo_for_each_instr(i, c) {
    if (s->bad) return;
    if (i->opcode == HLO_WHILE) {
      traverse_p2p_once(v, hlo_attr_comp(i, HLO_ATTR_CONDITION), s, group, depth + 1);
      traverse_p2p_once(v, hlo_attr_comp(i, HLO_ATTR_BODY), s, group, depth + 1);
    } else if (i->opcode == HLO_CALL) {
      traverse_p2p_once(v, hlo_attr_comp(i, HLO_ATTR_TO_APPLY), s, group, depth + 1);
    } else if (i->opcode == HLO_ASYNC_START) {
      traverse_p2p_once(v, hlo_attr_comp(i, HLO_ATTR_CALLS), s, true, depth + 1);
    } else if (i->opcode == HLO_SEND || i->opcode == HLO_RECV) {
      if (hlo_attr_int(i, HLO_ATTR_IS_HOST_TRANSFER, 0)) continue;
      s->events++;
      if (!s->pending.n || (s->pending.v[0]->opcode == i->opcode && group)) {
        hs_vec_push(&s->pending, i);
        continue;
      }
      const char *text = NULL;
      size_t at = 0;
      if (s->pending.v[0]->opcode == i->opcode)
        text =
            i->opcode == HLO_RECV ? "Expected send to match recv" : "Expected recv to match send";
      while (!text && at < s->pending.n &&
             !hs_str_eq(frontend_value(s->pending.v[at], key), frontend_value(i, key)))
        at++;
      if (!text && at == s->pending.n)
        text =
            "Expected send and recv instructions to have the same source-target pairs, but could "
            "not match some instructions.";
      if (text) {
        verify_report(v, i, "%s (%s is waiting)", text, s->pending.v[0]->name);
        s->bad = true;
        return;
      }
      s->pending.v[at] = s->pending.v[--s->pending.n];
    } else if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE)) {
      s->events++;
      if (!s->pending.n) continue;
      verify_report(
          v, i,
          "Introducing the following instruction will cause a deadlock: %s, while %s is waiting",
          i->name, s->pending.v[0]->name);
      s->bad = true;
    }
  }
}
void verify_deadlocks(verifier *v, const hlo_computation *c) {
  if (c != v->m->entry) return;
  p2p_state s = {.known = hs_calloc(v->m->next_comp_id + 1, sizeof *s.known)};
  traverse_p2p_once(v, c, &s, false, 0);
  hs_vec_free(&s.pending);
  hs_free(s.known);
}

// ---- shardings ----------------------------------------------------------------------------------
static const char *sharding_error(const hlo_sharding *s, const hlo_shape *shape) {
  switch (s->type) {
  case HLO_SH_TUPLE: {
    u32 leaves = hlo_shape_leaves(shape);
    if (s->nchildren != HS_MAX(leaves, 1u) && s->nchildren != leaves)
      return "the tuple sharding does not have one entry per leaf of the shape";
    for (u32 k = 0; k < leaves && k < s->nchildren; k++) {
      const char *e = sharding_error(s->children[k], hlo_shape_leaf(shape, k));
      if (e) return e;
    }
    return NULL;
  }
  case HLO_SH_MAXIMAL: return s->device < 0 ? "device -1 is negative in tile assignment" : NULL;
  case HLO_SH_TILED: {
    u32 extra = s->replicate_last ? 1 : s->last_tile_dims.n;
    for (u32 k = 0; k < s->devices.n; k++)
      if (s->devices.v[k] < 0) return "device -1 is negative in tile assignment";
    if (hlo_shape_is_array(shape) && s->dims.n >= extra && s->dims.n - extra != shape->rank)
      return "Number of tile assignment dimensions (excluding subgroups) is different than the "
             "input rank.";
    return NULL;
  }
  default: return NULL;
  }
}
void verify_sharding(verifier *v, const hlo_instr *i) {
  const hlo_sharding *s = hlo_attr_ptr(i, HLO_ATTR_SHARDING);
  if (!s || i->opcode == HLO_OUTFEED || (hlo_shape_is_tuple(i->shape) && s->type != HLO_SH_TUPLE))
    return;
  const char *e = sharding_error(s, i->shape);
  NEED(v, i, !e, "Invalid sharding for instruction: %s", e);
}
