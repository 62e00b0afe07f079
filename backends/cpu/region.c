// region.c — which parts of a program become one function, and what that function does.
//
// A loop of the entry, with the loops and branches inside it, is a region (emit/region.h): steps
// that are one serial kernel are written into it, or called where they are large; library calls,
// kernels for several threads and large copies go back to exec.c. Slots that are small and that
// only kernels touch live in the function's registers.
//
// Programs for several devices and the per-instruction baseline have no regions: there each step
// is run by exec.c, as it is while kernels are timed.
#include "backends/cpu/region.h"

#if HAVE_LLVM

enum {
  REGISTER_BYTES = 64,       // the largest slot that lives on the stack: one vector
  INLINED_BYTES = 16 << 10,  // the largest result of a kernel that is inlined
  MOST_INLINED = 256,        // kernels of one region; LLVM's time grows with the function
  COPIED_BYTES = 512 << 10,  // larger copies are made by all threads
};

typedef struct builder {
  cpu_program *p;
  cpu_region *x;
  i32 first, last;  // positions of the region's steps
  u32 ninlined;
  u8 *written;  // by slot: some step writes it
} builder;

static u32 slot_of(const builder *b, u32 v) {
  return v == CPU_NONE ? EMIT_NO_SLOT : b->p->values.v[v].slot;
}

// ---- operations ---------------------------------------------------------------------------------

static void add_copy(builder *b, emit_ops *out, u32 to, u32 from, size_t bytes) {
  if (to == from || bytes == 0) return;
  b->written[to] = 1;
  if (bytes <= COPIED_BYTES) {
    emit_op o = {.kind = EMIT_OP_COPY, .to = to, .from = from, .bytes = bytes};
    hs_vec_push(out, o);
    return;
  }
  u32 *slots = HS_NEW_ARRAY(&b->p->arena, u32, 2);
  slots[0] = to, slots[1] = from;
  cpu_region_call call = {.bytes = bytes};
  hs_vec_push(&b->x->calls, call);
  emit_op o = {
      .kind = EMIT_OP_CALL, .nin = 2, .n = 2, .slots = slots, .number = (u32)b->x->calls.n - 1};
  hs_vec_push(out, o);
}

// As run_moves of exec.c: all at once, where one's source is another's destination through a
// temporary.
static void add_moves(builder *b, emit_ops *out, const cpu_moves *m) {
  const cpu_value *values = b->p->values.v;
  for (size_t k = 0; k < m->n; k++)
    if (m->v[k].through_temp)
      add_copy(b, out, m->v[k].temp, slot_of(b, m->v[k].src), values[m->v[k].src].bytes);
  for (size_t k = 0; k < m->n; k++) {
    const cpu_move *x = &m->v[k];
    u32 src = slot_of(b, x->src), dst = slot_of(b, x->dst);
    if (x->swap) {
      emit_op o = {.kind = EMIT_OP_SWAP, .to = dst, .from = src};
      b->x->code.slots[src].exchanged = b->x->code.slots[dst].exchanged = true;
      hs_vec_push(out, o);
    } else if (!x->through_temp) add_copy(b, out, dst, src, values[x->src].bytes);
  }
  for (size_t k = 0; k < m->n; k++)
    if (m->v[k].through_temp)
      add_copy(b, out, slot_of(b, m->v[k].dst), m->v[k].temp, values[m->v[k].src].bytes);
}

static bool is_small(const builder *b, const cpu_step *s) {
  size_t bytes = 0;
  for (u32 k = s->nin; k < s->nvals; k++) bytes += b->p->values.v[s->vals[k]].bytes;
  return bytes <= INLINED_BYTES;
}

static void add_plain(builder *b, emit_ops *out, cpu_step *s) {
  if (s->kind == CPU_STEP_EMIT && s->kernel->chunks == 0) return;
  u32 *slots = HS_NEW_ARRAY(&b->p->arena, u32, s->nvals + 1);
  for (u32 k = 0; k < s->nvals; k++) {
    slots[k] = slot_of(b, s->vals[k]);
    if (k >= s->nin) b->written[slots[k]] = 1;
  }
  emit_op o = {.nin = s->nin, .n = s->nvals, .slots = slots};
  if (s->kind == CPU_STEP_EMIT && s->kernel->chunks == 1 && s->kernel->finish_chunks <= 1) {
    for (u32 k = 0; k < s->kernel->nupdates; k++) {
      u32 to = s->nin + s->kernel->updates[k].out;
      add_copy(b, out, slots[to], slots[s->kernel->updates[k].in],
               b->p->values.v[s->vals[to]].bytes);
    }
    o.kind = EMIT_OP_KERNEL;
    o.kernel = s->kernel;
    o.scratch = s->scratch_slot == CPU_NONE ? EMIT_NO_SLOT : s->scratch_slot;
    o.inlined = is_small(b, s) && b->ninlined < MOST_INLINED;
    b->ninlined += o.inlined;
  } else {
    cpu_region_call call = {.step = s};
    hs_vec_push(&b->x->calls, call);
    o.kind = EMIT_OP_CALL;
    o.number = (u32)b->x->calls.n - 1;
  }
  hs_vec_push(out, o);
}

static void add_block(builder *b, emit_ops *out, cpu_block *from);

static void add_control(builder *b, emit_ops *out, cpu_step *s) {
  emit_op o = {.nblocks = s->nblocks, .pred = slot_of(b, s->pred)};
  o.blocks = hs_calloc(s->nblocks, sizeof *o.blocks);
  if (s->kind == CPU_STEP_WHILE) {
    // vals: initial values, then those inside (CPU_NONE where unchanged), then results
    for (u32 k = 0; k < s->nin; k++)
      if (s->vals[s->nin + k] != CPU_NONE)
        add_copy(b, out, slot_of(b, s->vals[s->nin + k]), slot_of(b, s->vals[k]),
                 b->p->values.v[s->vals[k]].bytes);
    o.kind = EMIT_OP_LOOP;
  } else {
    o.kind = EMIT_OP_SWITCH;
    o.predicate = hlo_operand(s->instr, 0)->shape->dtype == HLO_PRED;
  }
  for (u32 k = 0; k < s->nblocks; k++) add_block(b, &o.blocks[k], &s->blocks[k]);
  hs_vec_push(out, o);
}

static void add_block(builder *b, emit_ops *out, cpu_block *from) {
  for (size_t k = 0; k < from->steps.n; k++) {
    cpu_step *s = &from->steps.v[k];
    if (s->kind == CPU_STEP_WHILE || s->kind == CPU_STEP_COND) add_control(b, out, s);
    else add_plain(b, out, s);
  }
  add_moves(b, out, &from->moves);
}

// ---- slots --------------------------------------------------------------------------------------

static void describe_slots(builder *b) {
  for (u32 k = 0; k < b->x->code.nslots; k++) {
    emit_slot *e = &b->x->code.slots[k];
    const cpu_slot *s = &b->p->slots.v[k];
    e->bytes = s->bytes;
    if (s->kind == CPU_CONST) e->data = s->data;
    if (s->kind == CPU_CONST || e->exchanged || s->bytes == 0 || s->bytes > REGISTER_BYTES)
      continue;
    e->local = true;
    e->in = s->kind == CPU_ARG || s->start < b->first;
    // memory that is needed by nobody later may belong to another slot then
    e->out = b->written[k] && (s->kind == CPU_ARG || s->output || s->end > b->last);
  }
}

// ---- regions ------------------------------------------------------------------------------------

static void make_region(cpu_program *p, cpu_step *s, i32 last) {
  cpu_region *x = s->region = HS_NEW(&p->arena, cpu_region);
  u32 n = (u32)p->slots.n;
  builder b = {.p = p, .x = x, .first = s->pos, .last = last, .written = hs_calloc(n + 1, 1)};
  x->p = p;
  x->code.of = s->instr->name;
  x->code.nslots = n;
  x->code.slots = hs_calloc(n + 1, sizeof *x->code.slots);
  add_control(&b, &x->code.ops, s);
  describe_slots(&b);
  hs_free(b.written);
  emit_add_region(p->unit, &x->code);
}

void cpu_make_regions(cpu_program *p) {
  if (p->per_instruction || p->ndevices > 1) return;
  cpu_block *e = &p->entry;
  for (size_t k = 0; k < e->steps.n; k++) {
    cpu_step *s = &e->steps.v[k];
    // the position behind the last step is the end of the program
    i32 next = k + 1 < e->steps.n ? s[1].pos : p->npos - 1;
    if (s->kind == CPU_STEP_WHILE || s->kind == CPU_STEP_COND) make_region(p, s, next - 1);
  }
}

void cpu_region_free(cpu_region *x) {
  if (!x) return;
  emit_region_free(&x->code);
  hs_vec_free(&x->calls);
}

#else
void cpu_make_regions(cpu_program *p) { (void)p; }
void cpu_region_free(cpu_region *x) { (void)x; }
#endif
