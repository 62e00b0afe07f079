// recompute.c — what rematerialization would buy. See recompute.h.
//
// `live` holds the bytes of temporaries per position, kept up to date by every choice. The uses of
// a buffer are the positions of the instructions that write or read any value in it; between two of
// them nothing looks at it, and in that gap it need not be kept.
#include "passes/buffer/recompute.h"

#include "core/analysis/live.h"

typedef struct chooser {
  hlo_live live;
  hs_arena arena;
  u32 *position;  // per instruction id
  i64 *bytes;     // temporaries per position
  // per buffer: its uses, ascending, are uses[first[b]] .. uses[first[b + 1] - 1]
  u32 *first, *uses, *cursor;
  bool *done;    // per buffer: chosen already
  u32 *kept_to;  // per buffer: its last position, later ones for the sake of chosen values included
} chooser;

static bool temporary(const hlo_live_buffer *b) {
  return !b->parameter && !b->constant && !b->output && b->bytes > 0;
}

static bool cheap(const hlo_instr *i) {
  if (!hlo_shape_is_array(i->shape) || hlo_has_side_effect(i)) return false;
  switch (i->opcode) {
  case HLO_BROADCAST:
  case HLO_IOTA:
  case HLO_CONVERT:
  case HLO_RESHAPE:
  case HLO_TRANSPOSE:
  case HLO_REVERSE:
  case HLO_SLICE:
  case HLO_PAD:
  case HLO_CONCATENATE: return true;
  default: return i->opcode != HLO_PARAMETER && hlo_op_has(i->opcode, HLO_F_ELEMENTWISE);
  }
}

static void count_use(chooser *c, u32 b, u32 t) {
  (void)t;
  c->first[b + 1]++;
}
static void note_use(chooser *c, u32 b, u32 t) { c->uses[c->cursor[b]++] = t; }

// Calls fn for the buffers of the values that position t makes and reads.
static void each_touched(chooser *c, u32 t, void (*fn)(chooser *, u32 b, u32 t)) {
  const hlo_instr *i = c->live.order[t];
  const u32 *first = c->live.first_leaf;
  for (u32 l = first[t]; l < first[t + 1]; l++) fn(c, c->live.leaf_buffer[l], t);
  for (u32 k = 0; k < i->noperands; k++) {
    u32 o = c->position[hlo_operand(i, k)->id];
    for (u32 l = first[o]; l < first[o + 1]; l++) fn(c, c->live.leaf_buffer[l], t);
  }
}

static void prepare(chooser *c, const hlo_module *m) {
  hlo_live *v = &c->live;
  c->position = HS_NEW_ARRAY(&c->arena, u32, m->next_instr_id);
  for (u32 t = 0; t < v->n; t++) c->position[v->order[t]->id] = t;
  c->first = HS_NEW_ARRAY(&c->arena, u32, v->nbuffers + 2);
  for (u32 t = 0; t < v->n; t++) each_touched(c, t, count_use);
  for (u32 b = 0; b < v->nbuffers; b++) c->first[b + 1] += c->first[b];
  c->uses = HS_NEW_ARRAY(&c->arena, u32, c->first[v->nbuffers] + 1);
  c->cursor = hs_arena_dup(&c->arena, c->first, (v->nbuffers + 1) * sizeof *c->first);
  for (u32 t = 0; t < v->n; t++) each_touched(c, t, note_use);
  c->bytes = HS_NEW_ARRAY(&c->arena, i64, v->n + 2);
  for (u32 b = 0; b < v->nbuffers; b++) {
    if (!temporary(&v->buffers[b])) continue;
    c->bytes[v->buffers[b].first] += v->buffers[b].bytes;
    c->bytes[v->buffers[b].last + 1] -= v->buffers[b].bytes;
  }
  for (u32 t = 1; t < v->n; t++) c->bytes[t] += c->bytes[t - 1];
  for (u32 t = 0; t < v->n; t++) c->bytes[t] += v->inside[t];
  c->done = HS_NEW_ARRAY(&c->arena, bool, v->nbuffers + 1);
  c->kept_to = HS_NEW_ARRAY(&c->arena, u32, v->nbuffers + 1);
  for (u32 b = 0; b < v->nbuffers; b++) c->kept_to[b] = v->buffers[b].last;
}

static u32 peak_of(const chooser *c) {
  u32 at = 0;
  for (u32 t = 1; t < c->live.n; t++)
    if (c->bytes[t] > c->bytes[at]) at = t;
  return at;
}

// The last use of a buffer before position `peak`, and the first one behind it; false when it is
// used at the peak, or on one side only.
static bool gap(const chooser *c, u32 b, u32 peak, u32 *from, u32 *to) {
  u32 lo = c->first[b], hi = c->first[b + 1];
  while (lo < hi) {
    u32 mid = lo + (hi - lo) / 2;
    if (c->uses[mid] < peak) lo = mid + 1;
    else hi = mid;
  }
  if (lo == c->first[b] || lo == c->first[b + 1] || c->uses[lo] == peak) return false;
  *from = c->uses[lo - 1];
  *to = c->uses[lo];
  return true;
}

// The latest position up to `t` that makes the content of buffer b: what is there then.
static u32 content(const chooser *c, u32 b, u32 t) {
  u32 found = UINT32_MAX;
  for (u32 k = c->first[b]; k < c->first[b + 1] && c->uses[k] <= t; k++) {
    u32 at = c->uses[k];
    for (u32 l = c->live.first_leaf[at]; l < c->live.first_leaf[at + 1]; l++)
      if (c->live.leaf_buffer[l] == b) found = at;
  }
  return found;
}

// Bytes that must be kept longer so that operand k of i is there at position `to`; -1: it is
// overwritten by then, or it is itself to be dropped.
static i64 keeping(const chooser *c, const hlo_instr *i, u32 k, u32 to, u32 *buffer) {
  u32 at = c->position[hlo_operand(i, k)->id];
  if (c->live.first_leaf[at + 1] - c->live.first_leaf[at] != 1) return -1;
  u32 b = *buffer = c->live.leaf_buffer[c->live.first_leaf[at]];
  const hlo_live_buffer *x = &c->live.buffers[b];
  if (!temporary(x)) return 0;
  if (c->done[b] || content(c, b, to) != content(c, b, at)) return -1;
  return c->kept_to[b] >= to ? 0 : x->bytes;
}

typedef struct choice {
  u32 buffer, from, to;
  const hlo_instr *instr;
  i64 gain;  // bytes at the peak
} choice;

static choice best_at(const chooser *c, u32 peak) {
  choice best = {.gain = 0};
  for (u32 b = 0; b < c->live.nbuffers; b++) {
    const hlo_live_buffer *x = &c->live.buffers[b];
    u32 from, to;
    if (!temporary(x) || c->done[b] || x->first >= peak || x->last <= peak || x->bytes <= best.gain)
      continue;
    if (!gap(c, b, peak, &from, &to)) continue;
    u32 made = content(c, b, from);
    if (made == UINT32_MAX || !cheap(c->live.order[made])) continue;
    const hlo_instr *i = c->live.order[made];
    i64 gain = x->bytes;
    for (u32 k = 0, o; k < i->noperands && gain > 0; k++) {
      i64 more = keeping(c, i, k, to, &o);
      gain = more < 0 ? 0 : gain - more;
    }
    if (gain > best.gain) best = (choice){b, from, to, i, gain};
  }
  return best;
}

static void take(chooser *c, const choice *x) {
  i64 bytes = c->live.buffers[x->buffer].bytes;
  c->done[x->buffer] = true;
  for (u32 t = x->from + 1; t < x->to; t++) c->bytes[t] -= bytes;
  for (u32 k = 0, b; k < x->instr->noperands; k++) {
    i64 more = keeping(c, x->instr, k, x->to, &b);
    if (more <= 0) continue;
    for (u32 t = c->kept_to[b] + 1; t <= x->to; t++) c->bytes[t] += more;
    c->kept_to[b] = x->to;
  }
}

hs_status recompute_find(const hlo_module *m, recompute_estimate *out) {
  *out = (recompute_estimate){0};
  chooser c = {0};
  hlo_cost_table cost = {0};
  hs_status s = hlo_live_ranges(m->entry, false, &c.arena, &c.live);
  if (hs_ok(s)) s = hlo_cost_module(m, &cost);
  if (hs_ok(s) && c.live.n) {
    out->total_flops = cost.total.flops;
    prepare(&c, m);
    out->peak_before = out->peak_after = c.bytes[peak_of(&c)];
    size_t good = 0;  // choices up to the lowest peak so far
    for (u32 k = 0; k < RECOMPUTE_MOST && !hs_interrupted(); k++) {
      choice x = best_at(&c, peak_of(&c));
      if (!x.gain) break;
      take(&c, &x);
      hs_vec_push(&out->values,
                  ((recompute_value){x.instr, c.live.buffers[x.buffer].bytes, x.from, x.to}));
      i64 peak = c.bytes[peak_of(&c)];
      if (peak < out->peak_after) out->peak_after = peak, good = out->values.n;
    }
    out->values.n = good;
    for (size_t k = 0; k < good; k++) {
      hlo_cost again = hlo_cost_instr(out->values.v[k].instr);
      out->flops += again.flops;
      out->bytes += again.bytes_read + again.bytes_written;
    }
    s = hs_poll();
  }
  hlo_cost_free(&cost);
  hs_arena_free(&c.arena);
  return s;
}
