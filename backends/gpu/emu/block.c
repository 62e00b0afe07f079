// block.c — running a grid: blocks one after the other, and the threads of each.
//
// Where nothing in the kernel waits, one fiber runs all threads of a block, each to its end: the
// fiber is there so that a fault can leave the kernel without returning through it. Where threads
// wait for one another each is a fiber. The scheduler goes from warp to warp and in each continues
// what is ready until all of its threads wait or are done; the last thread to arrive at a barrier
// or a warp's operation makes the others ready. When nothing is ready and not all are done, the
// threads wait for something that does not come, and that is the fault.
//
// Threads run in an order of their own, always the same: a kernel that is in order gives the same
// results on every run, on one host thread also where it adds atomically.
#include "backends/gpu/emu/run.h"

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "backends/worker.h"

#ifdef HS_ASAN
#define STACK_LEAST ((size_t)256 << 10)
#else
#define STACK_LEAST ((size_t)36 << 10)
#endif
#define HOST_THREADS_MOST 64

_Thread_local emu_thread *emu_current;

emu_thread *emu_self(void) { return emu_current; }

// ---- faults -------------------------------------------------------------------------------------
static void put_block(hs_buf *o, const emu_block *b) {
  hs_buf_printf(o, "block (%u,%u,%u)", b->ctaid[0], b->ctaid[1], b->ctaid[2]);
}

emu_thread_name emu_name_thread(const emu_block *b, u32 index) {
  u32 xy = b->ntid[0] * b->ntid[1];
  emu_thread_name n;
  (void)snprintf(n.text, sizeof n.text, "thread (%u,%u,%u)", index % b->ntid[0],
                 index % xy / b->ntid[0], index / xy);
  return n;
}

// Leaves the thread for the scheduler.
static void leave(emu_thread *t, bool for_good) {
  emu_fiber_switch(&t->fiber, &t->block->host, for_good);
}

void emu_fault(emu_thread *t, const emu_site *site, emu_fault_kind kind, const char *fmt, ...) {
  emu_block *b = t->block;
  hs_buf *o = &b->fault_text;
  b->fault = kind;
  o->n = 0;
  hs_buf_printf(o, "kernel %s", b->kernel->name);
  if (site && site->hlo) hs_buf_printf(o, " (%s)", site->hlo);
  if (site && strcmp(site->function, b->kernel->name) != 0)
    hs_buf_printf(o, ", in %s", site->function);
  hs_buf_puts(o, ": ");
  hs_buf_puts(o, emu_name_thread(b, t->index).text);
  hs_buf_puts(o, " of ");
  put_block(o, b);
  hs_buf_putc(o, ' ');
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(o, fmt, ap);
  va_end(ap);
  leave(t, true);
}

void emu_wait(emu_thread *t, emu_state state) {
  t->state = state;
  leave(t, false);
}

void emu_exit(emu_thread *t) {
  t->state = EMU_DONE;
  leave(t, true);
}

void emu_trap(emu_thread *t, const emu_site *site) { emu_fault(t, site, EMU_TRAPPED, "traps"); }

void emu_set_condition(emu_thread *t, const emu_site *site, u64 condition, u32 value) {
  if (!emu_device_set_condition(t->block->device, condition, value))
    emu_fault(t, site, EMU_OUT_OF_BOUNDS, "sets condition %llx, which no running graph has",
              (unsigned long long)condition);
}

// ---- the threads of a block ---------------------------------------------------------------------
static void place(emu_thread *t, emu_block *b, u32 index) {
  u32 x = b->ntid[0], y = b->ntid[1];
  t->block = b;
  t->index = index;
  t->tid[0] = index % x;
  t->tid[1] = index / x % y;
  t->tid[2] = index / x / y;
  t->lane = index % EMU_LANES;
  t->warp = index / EMU_LANES;
  t->shared = b->shared;
  t->dynamic = b->shared + b->kernel->static_bytes;
  t->state = EMU_READY;
}

static void thread_main(void) {
  emu_fiber_begin();
  emu_thread *t = emu_current;
  t->block->kernel->entry(t->block->params);
  emu_exit(t);
}

// All threads of a block, then of the next one.
static void straight_main(void) {
  emu_fiber_begin();
  for (;;) {
    emu_thread *t = emu_current;
    emu_block *b = t->block;
    for (u32 x = 0, k = 0; k < b->nthreads; k++) {
      t->index = k;
      t->tid[0] = x;
      t->lane = k % EMU_LANES;
      t->warp = k / EMU_LANES;
      b->kernel->entry(b->params);
      if (++x < b->ntid[0]) continue;
      x = 0;
      if (++t->tid[1] < b->ntid[1]) continue;
      t->tid[1] = 0;
      t->tid[2]++;
    }
    emu_wait(t, EMU_DONE);
  }
}

static void resume(emu_block *b, emu_thread *t) {
  emu_current = t;
  emu_fiber_switch(&b->host, &t->fiber, false);
}

static bool run_warp(emu_block *b, u32 warp) {
  u32 from = warp * EMU_LANES, to = HS_MIN(from + EMU_LANES, b->nthreads);
  bool any = false, more = true;
  while (more) {
    more = false;
    for (u32 k = from; k < to; k++) {
      if (b->threads[k].state != EMU_READY) continue;
      resume(b, &b->threads[k]);
      if (b->fault) return true;
      more = any = true;
    }
  }
  return any;
}

static bool all_done(const emu_block *b) {
  for (u32 k = 0; k < b->nthreads; k++)
    if (b->threads[k].state != EMU_DONE) return false;
  return true;
}

// What a thread that does not come does instead.
static const char *instead(const emu_thread *t) {
  switch (t->state) {
  case EMU_DONE: return "has ended";
  case EMU_AT_BARRIER: return "waits at a barrier";
  case EMU_AT_WARP: return "waits at another operation of its warp";
  default: return "runs";
  }
}

// Nothing is ready: the text for the first thread that waits, made as if it had found the fault.
static void stuck(emu_block *b) {
  emu_thread *t = b->threads, *other = NULL;
  for (u32 k = 0; k < b->nthreads; k++)
    if (b->threads[k].state == EMU_AT_WARP) {
      t = &b->threads[k];
      break;
    } else if (b->threads[k].state == EMU_AT_BARRIER && t->state != EMU_AT_BARRIER) {
      t = &b->threads[k];
    }
  bool warp = t->state == EMU_AT_WARP;
  for (u32 k = 0; k < b->nthreads && !other; k++) {
    emu_thread *o = &b->threads[k];
    if (warp) {
      bool named = o->warp == t->warp && (t->mask >> o->lane & 1);
      if (named && (o->state != EMU_AT_WARP || o->site != t->site || o->mask != t->mask)) other = o;
    } else if (o->state != EMU_AT_BARRIER || o->barrier != t->barrier) {
      other = o;
    }
  }
  emu_thread_name name = {"a thread that does not exist"};
  if (other) name = emu_name_thread(b, other->index);
  const char *what = other ? instead(other) : "never comes";
  t->fiber = b->host;  // emu_fault leaves from here: no thread runs
  b->fault = EMU_DIVERGED;
  hs_buf *o = &b->fault_text;
  o->n = 0;
  hs_buf_printf(o, "kernel %s", b->kernel->name);
  if (t->site->hlo) hs_buf_printf(o, " (%s)", t->site->hlo);
  hs_buf_puts(o, ": ");
  hs_buf_puts(o, emu_name_thread(b, t->index).text);
  hs_buf_puts(o, " of ");
  put_block(o, b);
  if (warp)
    hs_buf_printf(o, " waits at a warp's operation whose mask %08x names %s, which %s", t->mask,
                  name.text, what);
  else hs_buf_printf(o, " waits at barrier %u for %s, which %s", t->barrier, name.text, what);
}

static void run_waiting(emu_runner *r) {
  emu_block *b = &r->block;
  b->threads = r->threads;
  for (u32 k = 0; k < b->nthreads; k++) {
    place(&b->threads[k], b, k);
    // Not all at the same offset in a page, where they would be in each other's way in the cache.
    emu_fiber_prepare(&b->threads[k].fiber, r->stacks + k * (r->stack_bytes + EMU_STACK_GAP),
                      r->stack_bytes - k * 320 % 4096, thread_main);
  }
  for (;;) {
    bool any = false;
    for (u32 w = 0; w < b->nwarps && !b->fault; w++) any |= run_warp(b, w);
    if (b->fault || all_done(b)) return;
    if (!any) return stuck(b);
  }
}

// ---- blocks -------------------------------------------------------------------------------------
static void begin_block(emu_block *b, const emu_job *j, u64 number) {
  u64 x = j->grid.blocks[0], y = j->grid.blocks[1];
  b->ctaid[0] = (u32)(number % x);
  b->ctaid[1] = (u32)(number / x % y);
  b->ctaid[2] = (u32)(number / x / y);
  memset(b->barriers, 0, sizeof b->barriers);
  memset(b->meetings, 0, b->nwarps * sizeof *b->meetings);
  if (b->big > UINT32_MAX - 2) {
    if (b->cells) memset(b->cells, 0, b->shared_bytes * sizeof *b->cells);
    b->big = 0;
  }
  b->first_big = ++b->big;
}

static void free_stacks(emu_runner *r) {
  size_t n = r->nstacks * (r->stack_bytes + EMU_STACK_GAP);
  if (!r->stacks) return;
  HS_UNPOISON(r->stacks - EMU_STACK_GAP, n);  // others may get these addresses
  (void)munmap(r->stacks - EMU_STACK_GAP, n);
  r->stacks = NULL;
  r->nstacks = 0;
}

static hs_status stacks_for(emu_runner *r, u32 n, size_t bytes) {
  size_t page = EMU_STACK_GAP;
  bytes = (bytes + page - 1) / page * page;
  if (r->nstacks >= n && r->stack_bytes >= bytes) return HS_GOOD;
  free_stacks(r);
  u8 *p =
      mmap(NULL, n * (bytes + page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return hs_fail_errno(HS_E_NO_MEMORY, "stacks of emulated threads");
  r->stacks = p + page;
  r->nstacks = n;
  r->stack_bytes = bytes;
  for (u32 k = 0; k < n; k++)
    if (mprotect(r->stacks + k * (bytes + page), bytes, PROT_READ | PROT_WRITE) != 0) {
      hs_status s = hs_fail_errno(HS_E_NO_MEMORY, "stacks of emulated threads");
      free_stacks(r);
      return s;
    }
  return HS_GOOD;
}

static hs_status room_for(emu_runner *r, const emu_job *j) {
  emu_block *b = &r->block;
  const emu_kernel *k = j->kernel;
  HS_TRY(stacks_for(r, k->waits ? b->nthreads : 1, STACK_LEAST + k->stack_bytes));
  u32 n = k->waits ? b->nthreads : 1;
  if (r->nthreads < n) {
    hs_free(r->threads);
    r->threads = hs_calloc(n, sizeof *r->threads);
    r->nthreads = n;
  }
  b->shared_bytes = (size_t)k->static_bytes + j->grid.dynamic_bytes;
  if (r->shared_room < b->shared_bytes || !b->shared) {
    // As a device's, it begins at a multiple of 1024.
    free(b->shared);
    r->shared_room = (b->shared_bytes + 1024) / 1024 * 1024;
    b->shared = aligned_alloc(1024, r->shared_room);
    if (!b->shared) {
      r->shared_room = 0;
      return hs_fail(HS_E_NO_MEMORY, "no memory for a block's shared memory");
    }
  }
  if (k->module->checked && r->cells_room < b->shared_bytes) {
    hs_free(b->cells);
    r->cells_room = r->shared_room;
    b->cells = hs_calloc(r->cells_room, sizeof *b->cells);
    b->big = 0;
  }
  return HS_GOOD;
}

static hs_status run_blocks(emu_runner *r, emu_job *j) {
  emu_block *b = &r->block;
  b->kernel = j->kernel;
  b->device = j->device;
  b->params = j->params;
  b->trusted = j->trusted;
  memcpy(b->ntid, j->grid.threads, sizeof b->ntid);
  memcpy(b->nctaid, j->grid.blocks, sizeof b->nctaid);
  b->nthreads = b->ntid[0] * b->ntid[1] * b->ntid[2];
  b->nwarps = (b->nthreads + EMU_LANES - 1) / EMU_LANES;
  b->low = b->high = NULL;
  b->fault = EMU_NO_FAULT;
  b->host = (emu_fiber){0};
  r->number = 0;
  HS_TRY(room_for(r, j));
  emu_thread *one = r->threads;
  if (!j->kernel->waits) emu_fiber_prepare(&one->fiber, r->stacks, r->stack_bytes, straight_main);
  for (;;) {
    u64 number = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED);
    if (number >= j->nblocks || number > __atomic_load_n(&j->last, __ATOMIC_RELAXED))
      return HS_GOOD;
    r->number = number;
    HS_TRY(hs_poll());
    begin_block(b, j, number);
    if (j->kernel->waits) {
      run_waiting(r);
    } else {
      b->threads = one;
      place(one, b, 0);
      resume(b, one);
    }
    if (b->fault) return hs_fail(HS_E_RUN, "%s", hs_buf_cstr(&b->fault_text));
  }
}

static void run_job(emu_runner *r, emu_job *j) {
  // The device's arithmetic: rounds to nearest, and keeps denormals unless the kernel says other.
  fenv_t before;
  (void)fegetenv(&before);
  (void)fesetenv(FE_DFL_ENV);
#if defined(__x86_64__)
  if (j->kernel->flushes) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  emu_thread *outer = emu_current;
  r->status = run_blocks(r, j);
  emu_current = outer;
  (void)fesetenv(&before);
  // Blocks after one that failed are not begun; those before it are, as if it ran alone.
  u64 last = __atomic_load_n(&j->last, __ATOMIC_RELAXED);
  while (!hs_ok(r->status) && r->number < last &&
         !__atomic_compare_exchange_n(&j->last, &last, r->number, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {}
}

void emu_runner_free(emu_runner *r) {
  if (!r) return;
  free_stacks(r);
  hs_free(r->threads);
  free(r->block.shared);
  hs_free(r->block.cells);
  hs_buf_free(&r->block.fault_text);
  hs_free(r);
}

// ---- launches -----------------------------------------------------------------------------------
typedef struct helper {
  pthread_t thread;
  emu_job *job;
  emu_runner *runner;
} helper;

static void *help(void *arg) {
  helper *h = arg;
  void *stack = worker_thread_begin();
  hs_interrupt_watch(h->job->interrupt);
  run_job(h->runner, h->job);
  worker_thread_end(stack);
  return NULL;
}

static hs_status valid_grid(const emu_kernel *k, const emu_grid *g) {
  u64 threads = 1;
  for (int d = 0; d < 3; d++) {
    if (g->blocks[d] == 0 || g->threads[d] == 0 || g->blocks[d] > (d ? 65535u : INT32_MAX))
      return hs_fail(HS_E_USAGE, "kernel %s: a grid of %u x %u x %u blocks of %u x %u x %u threads",
                     k->name, g->blocks[0], g->blocks[1], g->blocks[2], g->threads[0],
                     g->threads[1], g->threads[2]);
    threads *= g->threads[d];
    if (threads > k->max_threads)
      return hs_fail(HS_E_USAGE, "kernel %s: blocks of more than %u threads", k->name,
                     k->max_threads);
  }
  if ((u64)k->static_bytes + g->dynamic_bytes > EMU_SHARED_MOST)
    return hs_fail(HS_E_USAGE, "kernel %s: %llu bytes of shared memory, at most %u", k->name,
                   (unsigned long long)k->static_bytes + g->dynamic_bytes, EMU_SHARED_MOST);
  return HS_GOOD;
}

// Is all registered that the parameters declare? Then an access within that needs no more looking.
static bool all_registered(const emu_kernel *k, const emu_device *d, void **params) {
  for (u32 p = 0; p < k->nparams; p++) {
    const void *at, *start;
    size_t n;
    if (!k->declared[p]) continue;
    memcpy(&at, params[p], sizeof at);
    if (!emu_device_find(d, at, &start, &n)) return false;
    if (k->declared[p] > n - (size_t)((const u8 *)at - (const u8 *)start)) return false;
  }
  return true;
}

hs_status emu_launch(const emu_kernel *k, emu_device *device, const emu_grid *g, void **params,
                     emu_fault_kind *out_fault) {
  if (out_fault) *out_fault = EMU_NO_FAULT;
  HS_TRY(valid_grid(k, g));
  emu_job j = {.kernel = k,
               .device = device,
               .grid = *g,
               .params = params,
               .trusted = all_registered(k, device, params),
               .nblocks = (u64)g->blocks[0] * g->blocks[1] * g->blocks[2],
               .last = UINT64_MAX,
               .interrupt = hs_interrupt_watched()};
  helper helpers[HOST_THREADS_MOST];
  u64 want = HS_MIN(HS_MIN((u64)HS_MAX(g->host_threads, 1), j.nblocks), HOST_THREADS_MOST);
  u32 n = 1;
  for (helpers[0] = (helper){.job = &j, .runner = emu_device_runner(device)}; n < want; n++) {
    helpers[n] = (helper){.job = &j, .runner = emu_device_runner(device)};
    if (pthread_create(&helpers[n].thread, NULL, help, &helpers[n]) == 0) continue;
    emu_device_give_back(device, helpers[n].runner);
    break;
  }
  run_job(helpers[0].runner, &j);
  // Of several faults that of the first block counts.
  hs_status s = HS_GOOD;
  u64 first = UINT64_MAX;
  for (u32 h = 0; h < n; h++) {
    if (h) (void)pthread_join(helpers[h].thread, NULL);
    emu_runner *r = helpers[h].runner;
    bool counts = !hs_ok(r->status) && r->number < first;
    if (counts) {
      hs_status_drop(s);
      s = r->status;
      first = r->number;
      if (out_fault) *out_fault = r->block.fault;
    } else hs_status_drop(r->status);
    r->status = HS_GOOD;
    emu_device_give_back(device, r);
  }
  return s;
}
