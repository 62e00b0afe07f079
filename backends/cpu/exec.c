// exec.c — runs a program: its steps in order, with loops and branches, without allocating memory
// (except where a step falls back to the evaluator).
//
// Three areas of memory live as long as the program: arguments, results, temporaries, each one
// mapping with huge pages where the system has them. Pointers of a step are looked up once, except
// in programs whose loops exchange buffers.
#include <sys/mman.h>

#include "backends/cpu/cpu.h"

enum { AREA_TEMP, AREA_ARGS, AREA_OUT };

static hs_status new_area(cpu_program *p, int k, size_t bytes) {
  size_t n = HS_MAX(bytes, (size_t)1), huge = (size_t)2 << 20;
  if (n > huge) n = (n + huge - 1) & ~(huge - 1);
  void *q =
      mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (q == MAP_FAILED) return hs_fail(HS_E_NO_MEMORY, "%zu bytes for the program's buffers", bytes);
  if (n >= huge) madvise(q, n, MADV_HUGEPAGE);
  p->area[k] = q;
  p->area_bytes[k] = n;
  return HS_GOOD;
}

static void *slot_address(const cpu_program *p, const cpu_slot *s) {
  if (s->kind == CPU_CONST) return (void *)(uintptr_t)s->data;
  int area = s->kind == CPU_ARG ? AREA_ARGS : s->output ? AREA_OUT : AREA_TEMP;
  return (char *)p->area[area] + s->offset;
}

static void reset_addresses(cpu_program *p) {
  for (size_t k = 0; k < p->slots.n; k++) p->addr[k] = slot_address(p, &p->slots.v[k]);
}

static void *address(const cpu_program *p, u32 v) { return p->addr[p->values.v[v].slot]; }

static void look_up(cpu_program *p, cpu_step *s) {
  for (u32 k = 0; k < s->nvals; k++)
    s->bufs[k] = s->vals[k] == CPU_NONE ? NULL : address(p, s->vals[k]);
}

static void look_up_block(cpu_program *p, cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++) {
    look_up(p, &b->steps.v[k]);
    for (u32 j = 0; j < b->steps.v[k].nblocks; j++) look_up_block(p, &b->steps.v[k].blocks[j]);
  }
}

hs_status cpu_exec_prepare(cpu_program *p) {
  HS_TRY(new_area(p, AREA_TEMP, p->temp_bytes));
  HS_TRY(new_area(p, AREA_ARGS, p->arg_bytes));
  HS_TRY(new_area(p, AREA_OUT, p->out_bytes));
  p->addr = HS_NEW_ARRAY(&p->arena, void *, p->slots.n + 1);
  reset_addresses(p);
  look_up_block(p, &p->entry);
  return HS_GOOD;
}

// ---- moving -------------------------------------------------------------------------------------

enum { COPY_CHUNK = 256 << 10 };
typedef struct copy_job {
  char *to;
  const char *from;
  size_t n;
} copy_job;

static void copy_chunk(void *ctx, i64 k, u32 thread) {
  (void)thread;
  const copy_job *j = ctx;
  size_t at = (size_t)k * COPY_CHUNK;
  memcpy(j->to + at, j->from + at, HS_MIN(j->n - at, (size_t)COPY_CHUNK));
}

static void copy(void *to, const void *from, size_t n) {
  if (n <= 2 * COPY_CHUNK) {
    memcpy(to, from, n);
    return;
  }
  copy_job j = {to, from, n};
  cpu_par_for(copy_chunk, &j, (i64)((n + COPY_CHUNK - 1) / COPY_CHUNK));
}

// All moves of a block at once: sources that another move overwrites are first copied to
// temporaries.
static void run_moves(cpu_program *p, const cpu_moves *m) {
  for (size_t k = 0; k < m->n; k++)
    if (m->v[k].through_temp)
      copy(p->addr[m->v[k].temp], address(p, m->v[k].src), p->values.v[m->v[k].src].bytes);
  for (size_t k = 0; k < m->n; k++) {
    const cpu_move *x = &m->v[k];
    u32 a = p->values.v[x->src].slot, b = p->values.v[x->dst].slot;
    if (x->swap) {
      void *t = p->addr[a];
      p->addr[a] = p->addr[b];
      p->addr[b] = t;
    } else if (!x->through_temp) copy(p->addr[b], p->addr[a], p->values.v[x->src].bytes);
  }
  for (size_t k = 0; k < m->n; k++)
    if (m->v[k].through_temp)
      copy(address(p, m->v[k].dst), p->addr[m->v[k].temp], p->values.v[m->v[k].src].bytes);
}

// ---- steps --------------------------------------------------------------------------------------

typedef struct chunk_job {
  emit_entry *fn;
  void *const *bufs;
  void *scratch;
} chunk_job;
static void run_chunk(void *ctx, i64 k, u32 thread) {
  (void)thread;
  const chunk_job *j = ctx;
  j->fn(j->bufs, k, j->scratch);
}

static void run_emitted(const cpu_program *p, const cpu_step *s) {
  void *scratch = s->scratch_slot == CPU_NONE ? NULL : p->addr[s->scratch_slot];
  const emit_kernel *k = s->kernel;
  if (k->chunks == 1) k->fn(s->bufs, 0, scratch);
  else {
    chunk_job j = {k->fn, s->bufs, scratch};
    cpu_par_for(run_chunk, &j, k->chunks);
  }
  if (k->finish_chunks == 1) k->finish(s->bufs, 0, scratch);
  else if (k->finish_chunks) {
    chunk_job j = {k->finish, s->bufs, scratch};
    cpu_par_for(run_chunk, &j, k->finish_chunks);
  }
}

static hlo_literal *operand_literal(const hlo_shape *s, void *const **bufs) {
  if (hlo_shape_is_tuple(s)) {
    hlo_literal **kids = hs_calloc(s->nelems + 1, sizeof *kids);
    for (u32 k = 0; k < s->nelems; k++) kids[k] = operand_literal(s->elems[k], bufs);
    hlo_literal *t = hlo_literal_tuple(s, s->nelems, kids);
    hs_free(kids);
    return t;
  }
  hlo_literal *l = NULL;
  hs_status st = hlo_literal_new(s, &l);
  if (!hs_ok(st)) {
    hs_status_drop(st);
    return NULL;
  }
  if (hlo_shape_is_array(s)) {
    i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
    cpu_strides(s, from);
    hlo_row_major_strides(s->rank, s->dims, to);
    cpu_relayout(l->data, to, **bufs, from, s->rank, s->dims, hlo_dtype_storage(s->dtype));
  }
  ++*bufs;
  return l;
}

static void store_literal(const hlo_literal *l, const hlo_shape *s, void *const **bufs) {
  if (hlo_shape_is_tuple(s)) {
    for (u32 k = 0; k < s->nelems; k++) store_literal(l->children[k], s->elems[k], bufs);
    return;
  }
  if (hlo_shape_is_array(s)) {
    i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
    cpu_strides(s, to);
    hlo_row_major_strides(s->rank, s->dims, from);
    cpu_relayout(**bufs, to, l->data, from, s->rank, s->dims, hlo_dtype_storage(s->dtype));
  }
  ++*bufs;
}

// An instruction that only the evaluator knows (counted in backend_compiled.fallbacks).
static hs_status run_evaluated(const cpu_step *s) {
  const hlo_instr *i = s->instr;
  void *const *bufs = s->bufs;
  hlo_literal **ops = hs_calloc(i->noperands + 1, sizeof *ops), *out = NULL;
  for (u32 k = 0; k < i->noperands; k++) ops[k] = operand_literal(hlo_operand(i, k)->shape, &bufs);
  hs_status st = hlo_eval_instr(i, i->noperands, ops, NULL, &out);
  if (hs_ok(st)) store_literal(out, i->shape, &bufs);
  hlo_literal_unref(out);
  for (u32 k = 0; k < i->noperands; k++) hlo_literal_unref(ops[k]);
  hs_free(ops);
  return st;
}

static hs_status run_block(cpu_program *p, cpu_block *b);

static hs_status run_while(cpu_program *p, cpu_step *s) {
  u32 n = s->nin;
  for (u32 k = 0; k < n; k++)
    if (s->vals[n + k] != CPU_NONE && s->bufs[k] != s->bufs[n + k])
      copy(s->bufs[n + k], s->bufs[k], p->values.v[s->vals[k]].bytes);
  for (;;) {
    HS_TRY(run_block(p, &s->blocks[0]));
    if (!*(const u8 *)address(p, s->pred)) return HS_GOOD;
    HS_TRY(run_block(p, &s->blocks[1]));
    run_moves(p, &s->blocks[1].moves);
  }
}

static hs_status run_conditional(cpu_program *p, cpu_step *s) {
  const void *sel = s->bufs[0];
  i64 k;
  if (hlo_operand(s->instr, 0)->shape->dtype == HLO_PRED) k = *(const u8 *)sel ? 0 : 1;
  else {
    i32 v;
    memcpy(&v, sel, sizeof v);
    k = v < 0 || v >= (i64)s->nblocks ? (i64)s->nblocks - 1 : v;
  }
  HS_TRY(run_block(p, &s->blocks[k]));
  run_moves(p, &s->blocks[k].moves);
  return HS_GOOD;
}

static hs_status run_step(cpu_program *p, cpu_step *s) {
  if (p->swaps) look_up(p, s);
  worker_doing = s->instr->name;
  switch (s->kind) {
  case CPU_STEP_EMIT: run_emitted(p, s); return HS_GOOD;
  case CPU_STEP_RT:
    return s->rt.run(s->rt.state, s->bufs,
                     s->scratch_slot == CPU_NONE ? NULL : p->addr[s->scratch_slot]);
  case CPU_STEP_EVAL: return run_evaluated(s);
  case CPU_STEP_WHILE: return run_while(p, s);
  case CPU_STEP_COND: return run_conditional(p, s);
  }
  return HS_GOOD;
}

static hs_status run_block(cpu_program *p, cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++) {
    cpu_step *s = &b->steps.v[k];
    if (HS_LIKELY(!p->kernel_ns || s->kernel_index == CPU_NONE)) {
      HS_TRY(run_step(p, s));
      continue;
    }
    u64 t0 = hs_now_ns();
    HS_TRY(run_step(p, s));
    p->kernel_ns[s->kernel_index] += hs_now_ns() - t0;
  }
  return HS_GOOD;
}

hs_status cpu_exec_run(cpu_program *p) {
  if (p->swaps) reset_addresses(p);
  HS_TRY(run_block(p, &p->entry));
  run_moves(p, &p->entry.moves);
  return HS_GOOD;
}
