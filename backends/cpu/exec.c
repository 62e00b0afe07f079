// exec.c — runs a program: its steps in order, with loops and branches, without allocating memory
// (except where a step is called, see called.c).
//
// Three areas of memory live as long as the program: arguments, results, temporaries, each one
// mapping with huge pages where the system has them. In a worker what a program leaves is the next
// one's: the first run of a small program is mostly page faults otherwise. Pointers of a step are
// looked up once, except in programs whose loops exchange buffers.
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cpu/in_step.h"
#include "backends/cpu/region.h"

enum { AREA_TEMP, AREA_ARGS, AREA_OUT };

enum { HUGE_PAGE = 2 << 20 };

size_t cpu_mapped_bytes(size_t bytes) {
  size_t n = HS_MAX(bytes, (size_t)1), huge = HUGE_PAGE;
  return n > huge ? (n + huge - 1) & ~(huge - 1) : n;
}

// ---- memory of programs that are gone -----------------------------------------------------------
// Kept are mappings of up to a quarter of all that is kept; those go first that came first.
enum { SPARE_LEAST = 64 << 10, SPARE_BYTES = 256 << 20, MOST_SPARES = 16 };
static struct {
  bool on;
  u32 n;
  size_t bytes;
  struct {
    void *at;
    size_t bytes;
  } v[MOST_SPARES];
} spares;  // the worker's own state

void cpu_exec_keep_memory(void) { spares.on = true; }

static void *remove_spare(u32 k, size_t *bytes) {
  void *at = spares.v[k].at;
  *bytes = spares.v[k].bytes;
  spares.bytes -= *bytes;
  spares.n--;
  memmove(spares.v + k, spares.v + k + 1, (spares.n - k) * sizeof *spares.v);
  return at;
}

static void drop_spare(u32 k) {
  size_t bytes;
  void *at = remove_spare(k, &bytes);
  (void)munmap(at, bytes);
}

// The smallest that is large enough, cut to n bytes; NULL when there is none below twice that.
static void *take_spare(size_t n) {
  u32 best = spares.n;
  for (u32 k = 0; k < spares.n; k++)
    if (spares.v[k].bytes >= n && spares.v[k].bytes <= 2 * n &&
        (best == spares.n || spares.v[k].bytes < spares.v[best].bytes))
      best = k;
  if (best == spares.n) return NULL;
  size_t bytes;
  char *at = remove_spare(best, &bytes);
  size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (n + page - 1) & ~(page - 1);
  if (bytes > used) (void)munmap(at + used, bytes - used);
  return at;
}

static void leave_area(void *at, size_t bytes) {
  if (!spares.on || bytes < SPARE_LEAST || bytes > SPARE_BYTES / 4) {
    (void)munmap(at, bytes);
    return;
  }
  while (spares.n == MOST_SPARES || (spares.n && spares.bytes + bytes > SPARE_BYTES)) drop_spare(0);
  spares.v[spares.n].at = at;
  spares.v[spares.n++].bytes = bytes;
  spares.bytes += bytes;
}

void cpu_exec_free(cpu_program *p) {
  for (int k = 0; k < 3; k++)
    if (p->area[k]) leave_area(p->area[k], p->area_bytes[k]);
}

static void *map(size_t n) {
  enum { HOW = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };
  void *q = mmap(NULL, n, PROT_READ | PROT_WRITE, HOW, -1, 0);
  if (q == MAP_FAILED && spares.n) {
    while (spares.n) drop_spare(0);
    q = mmap(NULL, n, PROT_READ | PROT_WRITE, HOW, -1, 0);
  }
  return q == MAP_FAILED ? NULL : q;
}

// ---- areas --------------------------------------------------------------------------------------
static hs_status new_area(cpu_program *p, int k, size_t bytes) {
  size_t one = HS_MAX(block_align(bytes), (size_t)1);
  if (one > CPU_MAX_BYTES / p->ndevices)
    return hs_fail(HS_E_NO_MEMORY, "%zu bytes for each of %u devices", bytes, p->ndevices);
  size_t n = cpu_mapped_bytes(one * p->ndevices);
  p->area_stride[k] = one;
  void *q = take_spare(n);
  if (!q) {
    q = map(n);
    if (q && n >= HUGE_PAGE) madvise(q, n, MADV_HUGEPAGE);
  }
  if (!q) return hs_fail(HS_E_NO_MEMORY, "%zu bytes for the program's buffers", bytes);
  p->area[k] = q;
  p->area_bytes[k] = n;
  return HS_GOOD;
}

void cpu_exec_renew(const cpu_program *p) {
  // where it fails the pages stay, which is no error
  for (int k = 0; k < 3; k++) (void)madvise(p->area[k], p->area_bytes[k], MADV_DONTNEED);
}

i64 cpu_resident_bytes(const cpu_program *p) {
  enum { AT_ONCE = 4096 };
  unsigned char there[AT_ONCE];  // of a page each
  size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 0;
  for (int k = 0; k < 3; k++)
    for (size_t at = 0; at < p->area_bytes[k]; at += AT_ONCE * page) {
      size_t n = HS_MIN(p->area_bytes[k] - at, AT_ONCE * page);
      if (mincore((char *)p->area[k] + at, n, there) != 0) return -1;
      for (size_t j = 0; j < (n + page - 1) / page; j++) pages += there[j] & 1;
    }
  return (i64)(pages * page);
}

void *cpu_slot_address(const cpu_program *p, const cpu_slot *s, u32 device) {
  if (s->kind == CPU_CONST) return (void *)(uintptr_t)s->data;
  if (s->host) return (char *)cpu_slot_address(p, &p->slots.v[s->host - 1], device) + s->offset;
  int area = s->kind == CPU_ARG ? AREA_ARGS : s->output ? AREA_OUT : AREA_TEMP;
  return (char *)p->area[area] + device * p->area_stride[area] + s->offset;
}

void cpu_exec_reset(cpu_program *p) {
  for (u32 d = 0; d < p->ndevices; d++)
    for (size_t k = 0; k < p->slots.n; k++)
      p->addr_of[d][k] = cpu_slot_address(p, &p->slots.v[k], d);
  p->addr = p->addr_of[0];
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
  p->addr_of = HS_NEW_ARRAY(&p->arena, void **, p->ndevices);
  for (u32 d = 0; d < p->ndevices; d++)
    p->addr_of[d] = HS_NEW_ARRAY(&p->arena, void *, p->slots.n + 1);
  if (p->ndevices > 1) p->here = HS_NEW_ARRAY(&p->arena, bool, p->ndevices);
  cpu_exec_reset(p);
  look_up_block(p, &p->entry);
  cpu_bind_prepare(p);
  return HS_GOOD;
}

// ---- arguments and results ----------------------------------------------------------------------

void cpu_place(const hlo_shape *s, void *to, const void *row_major) {
  if (!hlo_shape_is_array(s)) return;
  if (hlo_shape_is_row_major(s)) {
    memcpy(to, row_major, block_leaf_bytes(s));
    return;
  }
  i64 a[HLO_MAX_RANK], b[HLO_MAX_RANK];
  hlo_row_major_strides(s->rank, s->dims, a);
  cpu_strides(s, b);
  cpu_relayout(to, b, row_major, a, s->rank, s->dims, hlo_dtype_storage(s->dtype));
}

void cpu_fetch(const hlo_shape *s, void *row_major, const void *from) {
  if (!hlo_shape_is_array(s)) return;
  if (hlo_shape_is_row_major(s)) {
    memcpy(row_major, from, block_leaf_bytes(s));
    return;
  }
  i64 a[HLO_MAX_RANK], b[HLO_MAX_RANK];
  cpu_strides(s, a);
  hlo_row_major_strides(s->rank, s->dims, b);
  cpu_relayout(row_major, b, from, a, s->rank, s->dims, hlo_dtype_storage(s->dtype));
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
    if (n) memcpy(to, from, n);
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

static void run_emitted(const cpu_program *p, const cpu_step *s, void *const *bufs, void *scratch) {
  const emit_kernel *k = s->kernel;
  for (u32 j = 0; j < k->nupdates; j++) {
    u32 in = k->updates[j].in, out = s->nin + k->updates[j].out;
    if (bufs[in] != bufs[out]) copy(bufs[out], bufs[in], p->values.v[s->vals[out]].bytes);
  }
  if (k->chunks == 1) k->fn(bufs, 0, scratch);
  else {
    chunk_job j = {k->fn, bufs, scratch};
    cpu_par_for(run_chunk, &j, k->chunks);
  }
  if (k->finish_chunks == 1) k->finish(bufs, 0, scratch);
  else if (k->finish_chunks) {
    chunk_job j = {k->finish, bufs, scratch};
    cpu_par_for(run_chunk, &j, k->finish_chunks);
  }
}

static hs_status run_block(cpu_program *p, cpu_block *b);

// vals of a loop: initial values, then those inside (CPU_NONE where unchanged), then results.
static void enter_loop(cpu_program *p, cpu_step *s) {
  u32 n = s->nin;
  for (u32 k = 0; k < n; k++)
    if (s->vals[n + k] != CPU_NONE && s->bufs[k] != s->bufs[n + k])
      copy(s->bufs[n + k], s->bufs[k], p->values.v[s->vals[k]].bytes);
}

static hs_status run_while(cpu_program *p, cpu_step *s) {
  enter_loop(p, s);
  for (;;) {
    HS_TRY(run_block(p, &s->blocks[0]));
    if (!*(const u8 *)address(p, s->pred)) return HS_GOOD;
    HS_TRY(run_block(p, &s->blocks[1]));
    run_moves(p, &s->blocks[1].moves);
  }
}

static i64 branch_of(const cpu_step *s, const void *sel) {
  if (hlo_operand(s->instr, 0)->shape->dtype == HLO_PRED) return *(const u8 *)sel ? 0 : 1;
  i32 v;
  memcpy(&v, sel, sizeof v);
  return v < 0 || v >= (i64)s->nblocks ? (i64)s->nblocks - 1 : v;
}

static hs_status run_conditional(cpu_program *p, cpu_step *s) {
  i64 k = branch_of(s, s->bufs[0]);
  HS_TRY(run_block(p, &s->blocks[k]));
  run_moves(p, &s->blocks[k].moves);
  return HS_GOOD;
}

hs_status cpu_step_run(const cpu_program *p, const cpu_step *s, void *const *bufs, void *scratch) {
  if (s->kind == CPU_STEP_EMIT) {
    run_emitted(p, s, bufs, scratch);
    return HS_GOOD;
  }
  if (s->kind == CPU_STEP_CALLED)
    return cpu_called_run(s->instr, 1, 1, NULL, (void *const *const[]){bufs}, p->rng[p->device]);
  return s->rt.run(s->rt.state, bufs, scratch);
}

static hs_status run_plain(const cpu_program *p, const cpu_step *s, void *const *bufs) {
  return cpu_step_run(p, s, bufs, s->scratch_slot == CPU_NONE ? NULL : p->addr[s->scratch_slot]);
}

// ---- regions ------------------------------------------------------------------------------------

static i32 called_by_region(void *ctx, u32 number, void *const *bufs) {
  cpu_region *x = ctx;
  const cpu_region_call *call = &x->calls.v[number];
  if (!call->step) {
    copy(bufs[0], bufs[1], call->bytes);
    return 0;
  }
  worker_doing = call->step->instr->name;
  x->status = run_plain(x->p, call->step, bufs);
  return !hs_ok(x->status);
}

static hs_status run_region(cpu_program *p, cpu_region *x) {
  const emit_env env = {called_by_region, x, x->code.fns};
  return x->code.fn(p->addr, &env) ? x->status : HS_GOOD;
}

// ---- several devices, in step -------------------------------------------------------------------

// The device's turn: its addresses, and those of the step's values.
static void turn(cpu_program *p, u32 device, cpu_step *s) {
  p->device = device;
  p->addr = p->addr_of[device];
  look_up(p, s);
}

static hs_status called_by_all(cpu_program *p, cpu_step *s) {
  size_t n = s->nvals + 1;
  void **all = hs_alloc(n * p->ndevices * sizeof *all);
  void *const **bufs = hs_alloc(p->ndevices * sizeof *bufs);
  for (u32 d = 0; d < p->ndevices; d++) {
    turn(p, d, s);
    memcpy(all + d * n, s->bufs, s->nvals * sizeof *all);
    bufs[d] = all + d * n;
  }
  hs_status st = cpu_called_run(s->instr, p->replicas, p->partitions, p->here, bufs, NULL);
  hs_free(all);
  hs_free(bufs);
  bool away = memchr(p->here, false, p->ndevices) != NULL;
  return !hs_ok(st) && away ? cpu_did_not_meet(p->m, s->instr, st) : st;
}

static hs_status enter_on(void *ctx, u32 device, cpu_step *s) {
  turn(ctx, device, s);
  enter_loop(ctx, s);
  return HS_GOOD;
}

static hs_status decide_on(void *ctx, u32 device, const cpu_step *s, i64 *out) {
  cpu_program *p = ctx;
  p->addr = p->addr_of[device];
  *out = s->kind == CPU_STEP_WHILE ? *(const u8 *)address(p, s->pred)
                                   : branch_of(s, address(p, s->pred));
  return HS_GOOD;
}

static hs_status block_on_devices(void *ctx, cpu_block *b) { return run_block(ctx, b); }

static hs_status moves_on(void *ctx, u32 device, const cpu_moves *m) {
  cpu_program *p = ctx;
  p->addr = p->addr_of[device];
  run_moves(p, m);
  return HS_GOOD;
}

static hs_status run_on_devices(cpu_program *p, cpu_step *s) {
  const cpu_in_step x = {p->ndevices, p->here, p, enter_on, decide_on, block_on_devices, moves_on};
  if (s->kind == CPU_STEP_WHILE) return cpu_while_in_step(&x, s, -1);
  if (s->kind == CPU_STEP_COND) return cpu_branches_in_step(&x, s);
  if (s->kind == CPU_STEP_CALLED && s->called == CPU_CALLED_DEVICES) return called_by_all(p, s);
  for (u32 d = 0; d < p->ndevices; d++)
    if (p->here[d]) {
      turn(p, d, s);
      HS_TRY(run_plain(p, s, s->bufs));
    }
  return HS_GOOD;
}

static hs_status run_step(cpu_program *p, cpu_step *s) {
  worker_doing = s->instr->name;
  if (p->here) return run_on_devices(p, s);
  if (s->region && !p->probes) return run_region(p, s->region);
  if (p->swaps) look_up(p, s);
  if (s->kind == CPU_STEP_WHILE) return run_while(p, s);
  if (s->kind == CPU_STEP_COND) return run_conditional(p, s);
  return run_plain(p, s, s->bufs);
}

static void note_time(cpu_probes *x, u32 kernel, u64 begin, u64 end) {
  x->ns[kernel] += end - begin;
  x->calls[kernel]++;
  if (x->nevents < PROF_MOST_EVENTS)
    x->events[x->nevents++] =
        (prof_event){.begin_ns = begin - x->start, .ns = end - begin, .kernel = kernel};
  else x->dropped++;
}

static hs_status run_block(cpu_program *p, cpu_block *b) {
  for (size_t k = 0; k < b->steps.n; k++) {
    cpu_step *s = &b->steps.v[k];
    if (HS_LIKELY(!p->probes || s->kernel_index == CPU_NONE)) {
      HS_TRY(run_step(p, s));
      continue;
    }
    u64 t0 = hs_now_ns();
    HS_TRY(run_step(p, s));
    note_time(p->probes, s->kernel_index, t0, hs_now_ns());
  }
  return HS_GOOD;
}

double cpu_probe_ns(void) {
  enum { TIMES = 1000, TRIES = 9 };
  u64 ns = 0, calls = 0, best = UINT64_MAX;
  prof_event *events = hs_alloc(TIMES * sizeof *events);
  for (u32 r = 0; r < TRIES; r++) {
    u64 begin = hs_now_ns();
    cpu_probes x = {.ns = &ns, .calls = &calls, .start = begin, .events = events};
    for (u32 k = 0; k < TIMES; k++) {
      u64 t0 = hs_now_ns();
      note_time(&x, 0, t0, hs_now_ns());
    }
    best = HS_MIN(best, hs_now_ns() - begin);
  }
  hs_free(events);
  return (double)best / TIMES;
}

hs_status cpu_exec_run(cpu_program *p) {
  cpu_exec_seed(p);
  if (p->swaps) cpu_exec_reset(p);
  for (u32 d = 1; p->here && d < p->ndevices; d++)  // all have the first one's arguments
    memcpy((char *)p->area[AREA_ARGS] + d * p->area_stride[AREA_ARGS], p->area[AREA_ARGS],
           p->arg_bytes);
  return cpu_exec_placed(p);
}

void cpu_exec_seed(cpu_program *p) {
  p->device = 0;
  for (u32 d = 0; d < p->ndevices; d++) hlo_eval_rng_begin(0, p->rng[d]);
}

hs_status cpu_exec_placed(cpu_program *p) {
  for (u32 d = 0; p->here && d < p->ndevices; d++) p->here[d] = true;
  HS_TRY(run_block(p, &p->entry));
  for (u32 d = p->ndevices; d-- > 0;) {  // the first one's addresses stay
    p->addr = p->addr_of[d];
    run_moves(p, &p->entry.moves);
  }
  return HS_GOOD;
}
