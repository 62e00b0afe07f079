// plan.c — the buffers of a program as a plan of memory (profiler/memory.h), and plans as
// messages.
//
// A slot is a buffer of the plan; the values in it are the leaves of instructions, with the steps
// that make and last read them. Slots without a value are what a kernel works in, or what a move
// goes through. The worker makes the plan and the shell reads it, checked.
#include "backends/cpu/cpu.h"
#include "backends/wire.h"

// ---- program to plan ----------------------------------------------------------------------------

static prof_buffer_kind kind_of(const cpu_slot *s) {
  if (s->kind == CPU_ARG) return PROF_BUFFER_PARAMETER;
  if (s->kind == CPU_CONST) return PROF_BUFFER_CONSTANT;
  return s->output || s->host ? PROF_BUFFER_OUTPUT : PROF_BUFFER_TEMPORARY;
}

// Names the steps of a block, and whose scratch a slot is. Positions between those of steps are the
// ends of loops and branches.
static void name_steps(const cpu_block *b, prof_memory *out, const char **scratch) {
  for (size_t k = 0; k < b->steps.n; k++) {
    const cpu_step *s = &b->steps.v[k];
    out->steps[s->pos].instr = s->instr->name;
    if (s->scratch_slot != CPU_NONE) scratch[s->scratch_slot] = s->instr->name;
    if (s->kept_slot) scratch[s->kept_slot - 1] = s->instr->name;
    for (u32 j = 0; j < s->nblocks; j++) name_steps(&s->blocks[j], out, scratch);
  }
  for (size_t k = 0; k < b->moves.n; k++)
    if (b->moves.v[k].through_temp) scratch[b->moves.v[k].temp] = "a move";
}

static void put_values(const cpu_program *p, const char *const *scratch, prof_memory *out) {
  u32 nslots = (u32)p->slots.n, *end = HS_NEW_ARRAY(&out->arena, u32, nslots + 2);
  for (u32 k = 0; k < nslots; k++) end[k + 1] += scratch[k] != NULL;
  for (size_t v = 0; v < p->values.n; v++) end[p->values.v[v].slot + 1]++;
  for (u32 k = 0; k < nslots; k++) end[k + 1] += end[k];
  out->nvalues = end[nslots];
  out->values = HS_NEW_ARRAY(&out->arena, prof_buffer_value, out->nvalues + 1);
  for (u32 k = 0; k < nslots; k++)
    if (scratch[k])
      out->values[end[k]++] = (prof_buffer_value){.buffer = k,
                                                  .instr = scratch[k],
                                                  .bytes = (i64)p->slots.v[k].bytes,
                                                  .first = p->slots.v[k].start,
                                                  .last = p->slots.v[k].end,
                                                  .scratch = true};
  for (size_t v = 0; v < p->values.n; v++) {
    const cpu_value *x = &p->values.v[v];
    out->values[end[x->slot]++] = (prof_buffer_value){.buffer = x->slot,
                                                      .instr = x->instr ? x->instr->name : "",
                                                      .leaf = x->leaf,
                                                      .bytes = (i64)x->bytes,
                                                      .first = x->def,
                                                      .last = x->last_use};
  }
}

void cpu_plan_of(const cpu_program *p, prof_memory *out) {
  *out = (prof_memory){.nsteps = (u32)p->npos,
                       .nbuffers = (u32)p->slots.n,
                       .argument_bytes = (i64)p->arg_bytes,
                       .output_bytes = (i64)(p->out_bytes + p->alias_bytes),
                       .alias_bytes = (i64)p->alias_bytes,
                       .temp_bytes = (i64)(p->per_instruction ? p->temp_live_bytes : p->temp_bytes),
                       .live_bytes = (i64)p->temp_live_bytes,
                       .mapped_bytes =
                           (i64)(cpu_mapped_bytes(p->arg_bytes) + cpu_mapped_bytes(p->out_bytes) +
                                 cpu_mapped_bytes(p->temp_bytes) + p->kept_bytes),
                       .resident_bytes = cpu_resident_bytes(p)};
  out->steps = HS_NEW_ARRAY(&out->arena, prof_memory_step, out->nsteps + 1);
  out->buffers = HS_NEW_ARRAY(&out->arena, prof_buffer, out->nbuffers + 1);
  const char **scratch = HS_NEW_ARRAY(&out->arena, const char *, out->nbuffers + 1);
  name_steps(&p->entry, out, scratch);
  const char *last = "";
  for (u32 t = 0; t < out->nsteps; t++) {
    out->steps[t].end = !out->steps[t].instr;
    last = out->steps[t].instr = out->steps[t].instr ? out->steps[t].instr : last;
  }
  for (u32 k = 0; k < out->nbuffers; k++) {
    const cpu_slot *s = &p->slots.v[k];
    bool always = s->kind != CPU_TEMP;
    size_t before = s->host ? p->slots.v[s->host - 1].offset : 0;
    out->buffers[k] = (prof_buffer){.kind = kind_of(s),
                                    .bytes = (i64)s->bytes,
                                    .offset = (i64)(s->offset + before),
                                    .first = always ? 0 : s->start,
                                    .last = always ? p->npos : s->end,
                                    .output = s->output};
  }
  put_values(p, scratch, out);
}

// ---- messages -----------------------------------------------------------------------------------

void cpu_plan_put(const prof_memory *p, hs_buf *b) {
  const i64 sizes[] = {p->argument_bytes, p->output_bytes, p->alias_bytes,   p->temp_bytes,
                       p->live_bytes,     p->mapped_bytes, p->resident_bytes};
  wire_put(b, sizes, sizeof sizes);
  wire_put_u32(b, p->nsteps);
  wire_put_u32(b, p->nbuffers);
  wire_put_u32(b, p->nvalues);
  for (u32 k = 0; k < p->nsteps; k++) {
    wire_put_u32(b, p->steps[k].end);
    wire_put_str(b, p->steps[k].instr);
  }
  wire_put(b, p->buffers, p->nbuffers * sizeof *p->buffers);
  for (u32 k = 0; k < p->nvalues; k++) {
    const prof_buffer_value *v = &p->values[k];
    const i64 figures[] = {v->buffer, v->leaf, v->bytes, v->first, v->last, v->scratch};
    wire_put(b, figures, sizeof figures);
    wire_put_str(b, v->instr);
  }
}

static bool within(i64 v, i64 most) { return v >= 0 && v <= most; }

static bool sane_step(i64 v) { return v >= -1 && v <= INT32_MAX; }

static void get_values(wire_reader *r, prof_memory *p) {
  for (u32 k = 0; k < p->nvalues && !r->bad; k++) {
    i64 f[6];
    wire_get(r, f, sizeof f);
    hs_str name = wire_get_str(r);
    r->bad |= !within(f[0], (i64)p->nbuffers - 1) || !within(f[1], UINT32_MAX) ||
              !within(f[2], (i64)CPU_MAX_BYTES) || !sane_step(f[3]) || !sane_step(f[4]) ||
              (k && f[0] < p->values[k - 1].buffer);
    if (r->bad) break;
    p->values[k] = (prof_buffer_value){.buffer = (u32)f[0],
                                       .instr = hs_arena_strndup(&p->arena, name.p, name.n),
                                       .leaf = (u32)f[1],
                                       .bytes = f[2],
                                       .first = (i32)f[3],
                                       .last = (i32)f[4],
                                       .scratch = f[5] != 0};
  }
}

static void get_buffers(wire_reader *r, prof_memory *p) {
  for (u32 k = 0; k < p->nbuffers && !r->bad; k++) {
    prof_buffer *b = &p->buffers[k];
    u8 raw[sizeof *b];
    wire_get(r, raw, sizeof raw);
    raw[offsetof(prof_buffer, output)] &= 1;
    memcpy(b, raw, sizeof raw);
    r->bad |= !within((i64)b->kind, PROF_BUFFER_KINDS - 1) || !within(b->bytes, CPU_MAX_BYTES) ||
              !within(b->offset, CPU_MAX_BYTES) || !sane_step(b->first) || !sane_step(b->last);
  }
}

hs_status cpu_plan_get(const void *payload, size_t n, prof_memory *p) {
  *p = (prof_memory){0};
  wire_reader r = {payload, n, false};
  i64 *const sizes[] = {&p->argument_bytes, &p->output_bytes, &p->alias_bytes,   &p->temp_bytes,
                        &p->live_bytes,     &p->mapped_bytes, &p->resident_bytes};
  for (size_t k = 0; k < HS_COUNT(sizes); k++) {
    *sizes[k] = wire_get_i64(&r);
    r.bad |= *sizes[k] < -1 || *sizes[k] > 4 * (i64)CPU_MAX_BYTES ||
             (*sizes[k] < 0 && sizes[k] != &p->resident_bytes);
  }
  p->nsteps = wire_get_u32(&r);
  p->nbuffers = wire_get_u32(&r);
  p->nvalues = wire_get_u32(&r);
  // each takes bytes of the message
  r.bad |= p->nsteps > r.n || p->nbuffers > r.n || p->nvalues > r.n || p->nsteps > INT32_MAX;
  if (!r.bad) {
    p->steps = HS_NEW_ARRAY(&p->arena, prof_memory_step, p->nsteps + 1);
    p->buffers = HS_NEW_ARRAY(&p->arena, prof_buffer, p->nbuffers + 1);
    p->values = HS_NEW_ARRAY(&p->arena, prof_buffer_value, p->nvalues + 1);
  }
  for (u32 k = 0; k < p->nsteps && !r.bad; k++) {
    p->steps[k].end = wire_get_u32(&r) != 0;
    hs_str name = wire_get_str(&r);
    p->steps[k].instr = hs_arena_strndup(&p->arena, name.p, name.n);
  }
  if (!r.bad) get_buffers(&r, p);
  if (!r.bad) get_values(&r, p);
  if (!r.bad) return HS_GOOD;
  prof_memory_free(p);
  return hs_fail(HS_E_WORKER, "the worker's plan of memory is damaged");
}
