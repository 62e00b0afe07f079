// bind.c — what a run in the calling process reads and writes where its caller has it.
//
// A slot of an argument or a result lies in an area of the program. For a run it can lie in the
// caller's memory instead, when that is aligned as the areas are and the bytes are in the order of
// the shape: arguments are read in place, and results are written where they are wanted. An
// argument whose storage a result takes over (buffers.c) is the result's from the start: it is
// copied to where the result is wanted, or is there already, and is updated in place. Temporaries
// that lie in a result go with it.
//
// Steps keep the pointers of their values (exec.c), so those to such slots are listed once and set
// before every run. Only what lies elsewhere after a run is copied out.
#include "backends/cpu/cpu.h"
#include "core/analysis/heap.h"

// ---- once for a program -------------------------------------------------------------------------

static u32 slot_of(const cpu_program *p, u32 v) { return p->values.v[v].slot; }

static void list_pointers(cpu_program *p, const cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++) {
    const cpu_step *s = &b->steps.v[k];
    for (u32 j = 0; j < s->nvals; j++) {
      if (s->vals[j] == CPU_NONE) continue;
      const cpu_slot *slot = &p->slots.v[slot_of(p, s->vals[j])];
      if (slot->kind == CPU_CONST || (slot->kind == CPU_TEMP && !slot->output && !slot->host))
        continue;
      cpu_pointer x = {&s->bufs[j], slot_of(p, s->vals[j])};
      hs_vec_push(&p->pointers, x);
    }
    for (u32 j = 0; j < s->nblocks; j++) list_pointers(p, &s->blocks[j]);
  }
}

static bool in_order(const hlo_shape *s) {
  return hlo_shape_is_array(s) && hlo_shape_is_row_major(s);
}

void cpu_bind_prepare(cpu_program *p) {
  p->arg_in_order = HS_NEW_ARRAY(&p->arena, bool, p->nargs + 1);
  p->out_in_order = HS_NEW_ARRAY(&p->arena, bool, p->nouts + 1);
  p->arg_result = HS_NEW_ARRAY(&p->arena, u32, p->nargs + 1);
  for (u32 k = 0; k < p->nargs; k++) {
    p->arg_in_order[k] = in_order(p->arg_shape[k]);
    p->arg_result[k] = CPU_NONE;
  }
  for (u32 k = 0; k < p->nouts; k++) {
    const cpu_slot *s = &p->slots.v[slot_of(p, p->out_value[k])];
    p->out_in_order[k] = in_order(p->out_shape[k]) && s->bytes == block_leaf_bytes(p->out_shape[k]);
    if (s->kind == CPU_ARG) p->arg_result[s->index] = k;
  }
  // else they are looked up at each step
  if (p->ndevices == 1 && !p->swaps) list_pointers(p, &p->entry);
}

u32 cpu_bind_argument_of(const cpu_program *p, u32 out) {
  for (u32 k = 0; k < p->nargs; k++)
    if (p->arg_result[k] == out && p->arg_in_order[k] && p->out_in_order[out]) return k;
  return CPU_NONE;
}

// ---- before and after a run ---------------------------------------------------------------------

static bool is_aligned(const void *p) { return p && (uintptr_t)p % HLO_HEAP_ALIGN == 0; }

static void bind_result(cpu_program *p, u32 device, u32 k, bool in_place, void *to) {
  u32 slot = slot_of(p, p->out_value[k]);
  p->addr_of[device][slot] = in_place && p->out_in_order[k] && is_aligned(to)
                                 ? to
                                 : cpu_slot_address(p, &p->slots.v[slot], device);
}

// After the results: the address of an argument that becomes one is there already.
static void bind_argument(cpu_program *p, u32 device, u32 k, bool in_place, const void *from) {
  u32 slot = slot_of(p, p->arg_value[k]);
  void **at = &p->addr_of[device][slot];
  if (p->arg_result[k] == CPU_NONE) {
    if (in_place && p->arg_in_order[k] && is_aligned(from)) {
      *at = (void *)(uintptr_t)from;
      return;
    }
    *at = cpu_slot_address(p, &p->slots.v[slot], device);
  }
  if (*at != from) cpu_place(p->arg_shape[k], *at, from);
}

void cpu_bind(cpu_program *p, bool in_place, const void *const *args, void *const *results) {
  if (p->swaps) cpu_exec_reset(p);
  for (u32 d = 0; d < p->ndevices; d++) {
    for (u32 k = 0; k < p->nouts; k++) bind_result(p, d, k, in_place, results[d * p->nouts + k]);
    for (u32 k = 0; k < p->nargs; k++) bind_argument(p, d, k, in_place, args[d * p->nargs + k]);
    for (u32 k = 0; k < p->nguests; k++) {
      const cpu_slot *s = &p->slots.v[p->guests[k]];
      p->addr_of[d][p->guests[k]] = (char *)p->addr_of[d][s->host - 1] + s->offset;
    }
  }
  for (size_t k = 0; k < p->pointers.n; k++)
    *p->pointers.v[k].at = p->addr_of[0][p->pointers.v[k].slot];
}

void cpu_bind_collect(const cpu_program *p, void *const *results) {
  for (u32 d = 0; d < p->ndevices; d++)
    for (u32 k = 0; k < p->nouts; k++) {
      void *to = results[d * p->nouts + k], *at = p->addr_of[d][slot_of(p, p->out_value[k])];
      if (to && to != at) cpu_fetch(p->out_shape[k], to, at);
    }
}
