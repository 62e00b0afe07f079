// buffers.c — buffer assignment: which slot each value gets, and where the slot lies in memory.
//
// 1. Values take slots in order of definition. A result may take over an operand's slot when that
//    operand's live range ends at this step and the kernel may work in place (cpu_may_share). Loop
//    state, results of conditionals and donated arguments are *targets*: a value that must end up
//    there takes that slot when the live range of the old content has ended, which makes
//    dynamic-update-slice in a loop, and parameter updates of a training step, free of copies.
// 2. A value that could not take its target's slot is moved there at the end of the block. Large
//    loop state exchanges buffers with its new value instead (double buffering); then both slots
//    stay reserved for the union of their live ranges.
// 3. Temporaries that are dead before a result is begun lie in that result's memory.
// 4. Slots of other temporaries get offsets in one arena by a heap simulation
//    (core/analysis/heap.h).
//
// In the per-instruction baseline nothing is shared or computed in place: one buffer per value,
// freed after its last use.
#include <stdlib.h>

#include "backends/cpu/cpu.h"
#include "core/analysis/heap.h"

enum { SWAP_MIN = 1024 };
#define FOREVER INT32_MAX

// ---- may a kernel work in place? ----------------------------------------------------------------

static bool is_pointwise(const hlo_instr *i) {
  return (hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->opcode == HLO_COPY ||
          i->opcode == HLO_BITCAST_CONVERT) &&
         hlo_shape_is_array(i->shape);
}

static bool same_elements(const hlo_shape *a, const hlo_shape *b) {
  return hlo_shape_is_array(a) && hlo_shape_is_array(b) && a->elements == b->elements &&
         hlo_dtype_storage(a->dtype) == hlo_dtype_storage(b->dtype);
}

// Whether what lies at a place in memory is computed from what the operand has at that place.
static bool keeps_places(const hlo_instr *i, const hlo_instr *operand) {
  if (i->opcode == HLO_BITCAST) return same_elements(i->shape, operand->shape);
  if (i->opcode == HLO_RESHAPE) return cpu_same_bytes(i->shape, operand->shape);
  return is_pointwise(i) && cpu_same_order(i->shape, operand->shape);
}

// Whether the emitted code always reads element k of the parameter when it computes element k of
// `i`. Where the condition of a select is constant over a part of the loop, the code for that part
// leaves the other side out; the same holds for conjunctions.
static bool always_reads(const hlo_instr *i, const u8 *always) {
  u32 n = 0;
  for (u32 k = 0; k < i->noperands; k++) n += always[hlo_operand(i, k)->id];
  if (i->opcode == HLO_SELECT) return always[hlo_operand(i, 0)->id] || n >= 2;
  return i->opcode == HLO_AND || i->opcode == HLO_OR ? n == i->noperands : n > 0;
}

// Whether element k in memory of every result depends on no element of fusion parameter `param` but
// element k: everything computed from the parameter is elementwise up to the root, or another shape
// of the same elements.
// Results are stored one after the other, and a value stays in registers once it is read: when a
// result after `out` depends on the parameter too, `out` itself must have read it.
static bool fusion_pointwise_in(const hlo_computation *c, const hlo_instr *param, u32 out) {
  u32 n = c->module->next_instr_id + 1;
  u8 *depends = hs_calloc(n, 2), *always = depends + n;
  depends[param->id] = always[param->id] = 1;
  bool ok = true;
  hlo_for_each_instr(i, c) {
    bool tuple = i->opcode == HLO_TUPLE && hlo_is_root(i);
    for (u32 k = 0; k < i->noperands; k++) {
      if (!depends[hlo_operand(i, k)->id]) continue;
      depends[i->id] = 1;
      ok &= tuple || keeps_places(i, hlo_operand(i, k));
    }
    if (depends[i->id] && i != param) always[i->id] = always_reads(i, always);
    if (!ok) break;
  }
  const hlo_instr *root = c->root, *at = root->opcode == HLO_TUPLE ? hlo_operand(root, out) : root;
  ok = ok && (depends[at->id] || cpu_same_order(at->shape, param->shape));
  for (u32 k = out + 1; root->opcode == HLO_TUPLE && k < root->noperands && ok; k++)
    ok = !depends[hlo_operand(root, k)->id] || always[at->id];
  hs_free(depends);
  return ok;
}

// Kernels that compute every element once, from operand elements at the same index, without
// reductions.
static bool computes_in_place(const emit_kernel *k) {
  return !k->finish_chunks && emit_kind_in_place(k->kind);
}

bool cpu_may_share(const cpu_step *s, u32 in, u32 out) {
  if (s->kind == CPU_STEP_RT) return in == out && (s->rt.inplace >> out & 1) != 0;
  if (s->kind != CPU_STEP_EMIT) return false;
  for (u32 k = 0; k < s->kernel->nupdates; k++)  // what else it reads of it, it reads in time
    if (s->kernel->updates[k].in == in && s->kernel->updates[k].out == out) return true;
  for (u32 k = 0; k < s->kernel->nshares; k++)
    if (s->kernel->shares[k].in == in && s->kernel->shares[k].out == out) return true;
  if (!computes_in_place(s->kernel)) return false;
  const hlo_instr *i = s->instr;
  u32 nout = s->nvals - s->nin;
  if (s->nin != i->noperands) return false;  // tuples among the operands
  const hlo_shape *o = hlo_operand(i, in)->shape, *r = hlo_shape_leaf(i->shape, out);
  if (!same_elements(o, r)) return false;
  if (i->opcode != HLO_FUSION) return nout == 1 && is_pointwise(i) && cpu_same_order(o, r);
  const hlo_computation *c = hlo_fusion_comp(i);
  if (nout > 1 && (c->root->opcode != HLO_TUPLE || c->root->noperands != nout)) return false;
  return fusion_pointwise_in(c, c->params[in], out);
}

// ---- slots --------------------------------------------------------------------------------------

typedef struct assign {
  cpu_program *p;
  u8 *target_taken;  // per value
} assign;

static cpu_value *value(assign *a, u32 v) { return &a->p->values.v[v]; }

static void join(assign *a, u32 v, u32 slot) {
  cpu_slot *s = &a->p->slots.v[slot];
  cpu_value *x = value(a, v);
  x->slot = slot;
  s->start = HS_MIN(s->start, x->def);
  s->end = HS_MAX(s->end, x->live_end);
  s->bytes = HS_MAX(s->bytes, x->bytes);
}

static u32 new_slot(assign *a, u32 v) {
  const cpu_value *x = value(a, v);
  cpu_slot s = {.bytes = x->bytes,
                .start = x->def,
                .end = x->live_end,
                .kind = x->kind,
                .index = x->index,
                .data = x->data};
  hs_vec_push(&a->p->slots, s);
  u32 slot = (u32)a->p->slots.n - 1;
  value(a, v)->slot = slot;
  return slot;
}

// Results of one step never share storage.
static bool holds_result(assign *a, const cpu_step *s, u32 out, u32 slot) {
  for (u32 k = s->nin; k < s->nin + out; k++)
    if (s->vals[k] != CPU_NONE && value(a, s->vals[k])->slot == slot) return true;
  return false;
}

// Whether value v, written at step pos, may take over the storage of target t, whose readers are
// inputs `ins` of the step when they read at pos itself.
static bool take_target(assign *a, u32 v, const cpu_step *s, u32 out) {
  u32 t = value(a, v)->target;
  if (t != CPU_NONE && value(a, t)->fresh && value(a, t)->bytes == value(a, v)->bytes) {
    join(a, v, value(a, t)->slot);
    return true;
  }
  if (t == CPU_NONE || a->target_taken[t] || value(a, t)->slot == CPU_NONE ||
      value(a, t)->bytes != value(a, v)->bytes)
    return false;
  i32 pos = value(a, v)->def;
  if (value(a, t)->last_use > pos || holds_result(a, s, out, value(a, t)->slot)) return false;
  if (a->p->per_instruction && value(a, t)->last_use == pos) return false;
  if (value(a, t)->last_use == pos && pos != value(a, t)->def)
    for (u32 k = 0; k < s->nin; k++) {
      u32 in = s->vals[k];
      if (value(a, in)->slot != value(a, t)->slot) continue;
      if (s->kind == CPU_STEP_WHILE ? k != out : !cpu_may_share(s, k, out)) return false;
    }
  a->target_taken[t] = 1;
  join(a, v, value(a, t)->slot);
  return true;
}

// An operand whose live range ends here and that may be overwritten.
static bool take_operand(assign *a, u32 v, const cpu_step *s, u32 out) {
  if (a->p->per_instruction || value(a, v)->bytes == 0) return false;
  for (u32 k = 0; k < s->nin; k++) {
    const cpu_value *in = value(a, s->vals[k]);
    if (in->kind != CPU_TEMP || in->slot == CPU_NONE || in->bytes != value(a, v)->bytes) continue;
    if (a->p->slots.v[in->slot].kind != CPU_TEMP || a->p->slots.v[in->slot].end != s->pos) continue;
    bool ok = !holds_result(a, s, out, in->slot);  // every operand in that storage must allow it
    for (u32 j = 0; j < s->nin && ok; j++)
      if (value(a, s->vals[j])->slot == in->slot)
        ok = s->kind == CPU_STEP_WHILE ? j == out : cpu_may_share(s, j, out);
    if (ok) {
      join(a, v, in->slot);
      return true;
    }
  }
  return false;
}

static void place(assign *a, u32 v, const cpu_step *s, u32 out) {
  if (value(a, v)->slot != CPU_NONE) return;
  if (take_target(a, v, s, out) || take_operand(a, v, s, out)) return;
  new_slot(a, v);
}

static void assign_block(assign *a, cpu_block *b);

static void assign_while(assign *a, cpu_step *s) {
  u32 n = s->nin;
  for (u32 k = 0; k < n; k++) {
    u32 in = s->vals[n + k], result = s->vals[2 * n + k];
    if (in == CPU_NONE) continue;
    cpu_value *x = value(a, in), *r = value(a, result);
    i32 end = r->def;        // the step that ends the loop
    i32 keep = x->last_use;  // targets are checked against the last reader
    x->live_end = HS_MAX(end, r->live_end);
    x->target = r->target;
    r->target = CPU_NONE;
    place(a, in, s, k);
    x->last_use = keep;
    join(a, result, x->slot);
  }
  for (u32 j = 0; j < s->nblocks; j++) assign_block(a, &s->blocks[j]);
}

static void assign_block(assign *a, cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++) {
    cpu_step *s = &b->steps.v[k];
    if (s->kind == CPU_STEP_WHILE) {
      assign_while(a, s);
      continue;
    }
    for (u32 j = s->nin; j < s->nvals; j++) place(a, s->vals[j], s, j - s->nin);
    for (u32 j = 0; j < s->nblocks; j++) assign_block(a, &s->blocks[j]);
    if (s->scratch_bytes && (s->device || !a->p->away)) {
      cpu_slot sc = {.bytes = s->scratch_bytes,
                     .start = s->pos,
                     .end = s->pos,
                     .kind = CPU_TEMP,
                     .index = CPU_NONE};
      hs_vec_push(&a->p->slots, sc);
      s->scratch_slot = (u32)a->p->slots.n - 1;
    }
    if (s->rt.kept_bytes && !a->p->away) {
      cpu_slot kept = {.bytes = (size_t)s->rt.kept_bytes, .kind = CPU_CONST, .index = CPU_NONE};
      hs_vec_push(&a->p->slots, kept);
      s->kept_slot = (u32)a->p->slots.n;
      a->p->kept_bytes += kept.bytes;
    }
  }
}

// ---- moves at the end of blocks -----------------------------------------------------------------

static u32 slot_of(const cpu_program *p, u32 v) { return p->values.v[v].slot; }

static bool is_destination(const cpu_program *p, const cpu_block *b, u32 slot,
                           const cpu_move *except) {
  for (size_t k = 0; k < b->moves.n; k++)
    if (&b->moves.v[k] != except && slot_of(p, b->moves.v[k].dst) == slot) return true;
  return false;
}

static u32 readers_of(const cpu_program *p, const cpu_block *b, u32 slot) {
  u32 n = 0;
  for (size_t k = 0; k < b->moves.n; k++) n += slot_of(p, b->moves.v[k].src) == slot;
  return n;
}

static bool may_swap(const cpu_program *p, const cpu_block *b, const cpu_move *m, u32 loop) {
  const cpu_value *src = &p->values.v[m->src];
  const cpu_slot *from = &p->slots.v[src->slot], *to = &p->slots.v[slot_of(p, m->dst)];
  return src->kind == CPU_TEMP && src->loop == loop && src->bytes >= SWAP_MIN &&
         from->kind == CPU_TEMP && to->kind == CPU_TEMP &&
         // a result is read where it lies after the run, be it among the temporaries
         (from->bytes == to->bytes || (!from->output && !to->output)) &&
         !is_destination(p, b, src->slot, NULL) && readers_of(p, b, src->slot) == 1;
}

static bool is_no_op(const cpu_program *p, const cpu_move *m) {
  return slot_of(p, m->src) == slot_of(p, m->dst) || p->values.v[m->dst].bytes == 0;
}

// Decides before no-ops are removed from the list: a source that was computed in its own
// destination must not be exchanged with another destination that is also copied from it.
static void plan_moves(cpu_program *p, cpu_block *b, u32 loop) {
  for (size_t k = 0; k < b->moves.n; k++)
    b->moves.v[k].swap =
        loop && !is_no_op(p, &b->moves.v[k]) && may_swap(p, b, &b->moves.v[k], loop);
  size_t n = 0;
  for (size_t k = 0; k < b->moves.n; k++)
    if (!is_no_op(p, &b->moves.v[k])) b->moves.v[n++] = b->moves.v[k];
  b->moves.n = n;
  for (size_t k = 0; k < n; k++) {
    cpu_move *m = &b->moves.v[k];
    if (m->swap) p->swaps = true;
    else if (is_destination(p, b, slot_of(p, m->src), m)) {
      const cpu_slot *to = &p->slots.v[slot_of(p, m->dst)];
      cpu_slot t = {.bytes = p->values.v[m->src].bytes,
                    .start = to->start,
                    .end = to->end,
                    .kind = CPU_TEMP,
                    .index = CPU_NONE};
      hs_vec_push(&p->slots, t);
      m->through_temp = true;
      m->temp = (u32)p->slots.n - 1;
    }
  }
}

// Slots that exchange their memory need it for as long as any of them; loops in loops chain such
// pairs. True when a range grew.
static bool widen_exchanged(cpu_program *p, const cpu_block *b) {
  bool grew = false;
  for (size_t k = 0; k < b->moves.n; k++) {
    if (!b->moves.v[k].swap) continue;
    cpu_slot *x = &p->slots.v[slot_of(p, b->moves.v[k].src)],
             *y = &p->slots.v[slot_of(p, b->moves.v[k].dst)];
    grew |= x->start != y->start || x->end != y->end || x->bytes != y->bytes;
    x->start = y->start = HS_MIN(x->start, y->start);
    x->end = y->end = HS_MAX(x->end, y->end);
    x->bytes = y->bytes = HS_MAX(x->bytes, y->bytes);
  }
  for (size_t k = 0; k < b->steps.n; k++)
    for (u32 j = 0; j < b->steps.v[k].nblocks; j++)
      grew |= widen_exchanged(p, &b->steps.v[k].blocks[j]);
  return grew;
}

static void plan_block(cpu_program *p, cpu_block *b, u32 *loop) {
  for (size_t k = 0; k < b->steps.n; k++) {
    cpu_step *s = &b->steps.v[k];
    if (s->kind == CPU_STEP_WHILE) {
      u32 me = ++*loop;  // loops are numbered in the order of their steps
      plan_block(p, &s->blocks[0], loop);
      plan_block(p, &s->blocks[1], loop);
      plan_moves(p, &s->blocks[1], me);
    } else
      for (u32 j = 0; j < s->nblocks; j++) {
        plan_block(p, &s->blocks[j], loop);
        plan_moves(p, &s->blocks[j], 0);
      }
  }
}

// ---- offsets ------------------------------------------------------------------------------------

// Adds to the size of an area (or finds it as large as `used`); E_NO_MEMORY beyond what a process
// can address. Both numbers are at most CPU_MAX_BYTES, so the sum does not overflow.
static hs_status grow(size_t *area, size_t used, const char *what) {
  if (used > CPU_MAX_BYTES)
    return hs_fail(HS_E_NO_MEMORY, "the %s need %zu bytes, more than a process can hold", what,
                   used);
  *area = HS_MAX(*area, used);
  return HS_GOOD;
}

static size_t aligned(const cpu_program *p, size_t n) {
  return (n + p->align - 1) & ~(p->align - 1);
}

// ---- guests -------------------------------------------------------------------------------------

// Results at most that take temporaries in, and how many each does; smaller ones stay where they
// are.
enum { MOST_HOSTS = 16, MOST_GUESTS = 32, GUEST_LEAST = 1024 };

typedef struct sized {
  size_t bytes;
  u32 slot;
} sized;

static int larger_first(const void *a, const void *b) {
  const sized *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->slot < y->slot ? -1 : 1;
}

typedef struct host {
  u32 slot, n;
  u32 guests[MOST_GUESTS];
} host;

static void mark_exchanged(const cpu_program *p, const cpu_block *b, u8 *marked) {
  for (size_t k = 0; k < b->moves.n; k++)
    if (b->moves.v[k].swap)
      marked[slot_of(p, b->moves.v[k].src)] = marked[slot_of(p, b->moves.v[k].dst)] = 1;
  for (size_t k = 0; k < b->steps.n; k++)
    for (u32 j = 0; j < b->steps.v[k].nblocks; j++)
      mark_exchanged(p, &b->steps.v[k].blocks[j], marked);
}

// The lowest offset in the host, from `at` on, where no guest that is live meanwhile lies; SIZE_MAX
// when there is none.
static size_t room_in(const cpu_program *p, const host *h, const cpu_slot *x, size_t at) {
  if (at > p->slots.v[h->slot].bytes || x->bytes > p->slots.v[h->slot].bytes - at) return SIZE_MAX;
  for (u32 k = 0; k < h->n; k++) {
    const cpu_slot *g = &p->slots.v[h->guests[k]];
    bool meet = g->start <= x->end && x->start <= g->end;
    if (meet && g->offset < at + x->bytes && at < g->offset + g->bytes)
      return room_in(p, h, x, aligned(p, g->offset + g->bytes));
  }
  return at;
}

static bool take_in(cpu_program *p, host *h, u32 slot) {
  cpu_slot *x = &p->slots.v[slot];
  if (x->end >= p->slots.v[h->slot].start || h->n == MOST_GUESTS) return false;
  size_t at = room_in(p, h, x, 0);
  if (at == SIZE_MAX) return false;
  x->host = h->slot + 1;
  x->offset = at;
  h->guests[h->n++] = slot;
  p->guests[p->nguests++] = slot;
  return true;
}

// Puts temporaries, the largest first, into results that are begun when their last readers are
// through. A result in a loop is written again and again, and slots that exchange their memory keep
// it to themselves.
static void find_hosts(cpu_program *p) {
  u32 n = (u32)p->slots.n, nhosts = 0, ntemps = 0;
  u8 *marked = hs_calloc(n + 1, 1);
  sized *results = hs_alloc((n + 1) * sizeof *results), *temps = hs_alloc((n + 1) * sizeof *temps);
  host *h = hs_calloc(MOST_HOSTS, sizeof *h);
  mark_exchanged(p, &p->entry, marked);
  for (size_t v = 0; v < p->values.n; v++)
    if (p->values.v[v].loop && p->slots.v[slot_of(p, (u32)v)].output)
      marked[slot_of(p, (u32)v)] = 1;
  for (u32 k = 0; k < n; k++) {
    const cpu_slot *s = &p->slots.v[k];
    if (s->kind != CPU_TEMP || s->bytes < GUEST_LEAST || marked[k]) continue;
    if (s->output) results[nhosts++] = (sized){s->bytes, k};
    else temps[ntemps++] = (sized){s->bytes, k};
  }
  if (nhosts) qsort(results, nhosts, sizeof *results, larger_first);
  if (ntemps) qsort(temps, ntemps, sizeof *temps, larger_first);
  nhosts = HS_MIN(nhosts, (u32)MOST_HOSTS);
  p->guests = HS_NEW_ARRAY(&p->arena, u32, ntemps + 1);
  for (u32 k = 0; k < nhosts; k++) h[k].slot = results[k].slot;
  for (u32 k = 0; k < ntemps; k++)
    for (u32 j = nhosts; j-- > 0;)  // the smallest that has room leaves larger ones to others
      if (take_in(p, &h[j], temps[k].slot)) break;
  hs_free(h);
  hs_free(temps);
  hs_free(results);
  hs_free(marked);
}

// Offsets of temporaries, and of results behind each other in their own area.
static hs_status place_slots(cpu_program *p) {
  hs_status st = HS_GOOD;
  u32 n = 0, steps = (u32)p->npos + 1;
  hlo_heap_buffer *heap = hs_alloc(sizeof *heap * (p->slots.n + 1));
  for (u32 k = 0; k < p->slots.n && hs_ok(st); k++) {
    cpu_slot *s = &p->slots.v[k];
    if (s->kind != CPU_TEMP || s->host) continue;
    if (s->output) {
      s->offset = p->out_bytes;
      st = grow(&p->out_bytes, p->out_bytes + aligned(p, s->bytes), "results");
    } else
      heap[n++] = (hlo_heap_buffer){aligned(p, s->bytes), 0, s->start, HS_MIN(s->end, p->npos)};
  }
  size_t total = 0;
  if (hs_ok(st) && !hlo_heap_place(n, heap, CPU_MAX_BYTES, &total)) st = hs_poll();
  if (hs_ok(st)) st = grow(&p->temp_bytes, total, "temporaries");
  p->temp_live_bytes = hlo_heap_live_peak(n, heap, steps, NULL);
  for (u32 k = 0, at = 0; k < p->slots.n && hs_ok(st); k++)
    if (p->slots.v[k].kind == CPU_TEMP && !p->slots.v[k].output && !p->slots.v[k].host)
      p->slots.v[k].offset = heap[at++].offset;
  hs_free(heap);
  return st;
}

hs_status cpu_assign(cpu_program *p) {
  assign a = {.p = p, .target_taken = hs_calloc(p->values.n + 1, 1)};
  for (u32 v = 0; v < p->values.n; v++)
    if (p->values.v[v].kind != CPU_TEMP) new_slot(&a, v);
  for (u32 k = 0; k < p->nouts; k++) {
    cpu_value *v = &p->values.v[p->out_value[k]];
    v->live_end = FOREVER;
  }
  assign_block(&a, &p->entry);
  for (u32 v = 0; v < p->values.n; v++)  // written by a final move, or tokens
    if (p->values.v[v].slot == CPU_NONE) new_slot(&a, v);
  hs_free(a.target_taken);
  for (u32 k = 0; k < p->nouts; k++) {
    cpu_slot *s = &p->slots.v[p->values.v[p->out_value[k]].slot];
    s->output = true;
    if (s->kind == CPU_ARG) p->alias_bytes += p->values.v[p->out_value[k]].bytes;
  }
  u32 loop = 0;
  plan_block(p, &p->entry, &loop);
  plan_moves(p, &p->entry, 0);
  while (widen_exchanged(p, &p->entry)) {}
  if (!p->per_instruction) find_hosts(p);
  for (u32 k = 0; k < p->nargs; k++) {
    p->arg_offset[k] = p->arg_bytes;
    p->slots.v[p->values.v[p->arg_value[k]].slot].offset = p->arg_bytes;
    HS_TRY(grow(&p->arg_bytes, p->arg_bytes + aligned(p, p->values.v[p->arg_value[k]].bytes),
                "arguments"));
  }
  return place_slots(p);
}
