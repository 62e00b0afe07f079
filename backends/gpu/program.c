// program.c — a program for a device: steps with kernels, loaded code, and its memory. See gpu.h.
//
// Lowering and buffer assignment are the cpu backend's; this file is the maker of the kernels
// (cpu_maker). Everything a program needs lies in one allocation: constants, arguments, results,
// temporaries. Constants are copied there once.
//
// A real device gets the kernels as PTX, which its driver compiles; the emulator gets LLVM's
// bitcode of the same module, behind eight letters that say so.
#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/emu/api.h"
#include "backends/gpu/gpu.h"
#include "core/eval/eval.h"

#if HAVE_LLVM

// What computes the instruction on the device; NULL: nothing does.
static hs_status find_kernel(gpu_program *g, const hlo_instr *i, const emit_gpu_kernel **out,
                             i64 *workspace) {
  *workspace = 0;
  HS_TRY(gpu_collective_add(g, i, out));
  if (*out) return HS_GOOD;
  if (!emit_gpu_supports(i, NULL)) return gpu_library_alone(g, i, out, workspace);
  hs_status s = emit_gpu_add(g->unit, i, out);
  if (!hs_ok(s) && s.err->code == HS_E_UNSUPPORTED) {
    hs_status_drop(s);
    return HS_GOOD;
  }
  HS_TRY(s);
  return gpu_library_wants(g, i, workspace);
}

// The kernel as the steps, buffers and plans of backends/cpu know it.
static hs_status add_kernel(void *ctx, const hlo_instr *i, cpu_step *s) {
  gpu_program *g = ctx;
  const emit_gpu_kernel *k;
  i64 workspace;
  HS_TRY(find_kernel(g, i, &k, &workspace));
  if (!k) return HS_GOOD;
  emit_kernel *e = HS_NEW(&g->arena, emit_kernel);
  *e = (emit_kernel){.instr = i,
                     .kind = k->kind,
                     .chunks = k->grid + k->nbefore,
                     .finish_chunks = k->finish_grid,
                     .scratch_bytes = HS_MAX(k->scratch_bytes, workspace),
                     .nupdates = k->nupdates,
                     .updates = k->updates,
                     .nshares = k->nshares,
                     .shares = k->shares};
  s->kernel = e;
  s->device = k;
  return HS_GOOD;
}

// The call of a library that stands for the step's kernel, or may do so; NULL: none.
static const gpu_call *call_of(const gpu_program *g, const cpu_step *s) {
  if (g->kernels) return g->kernels[s->kernel_index].call;
  return s->device ? gpu_call_alone(g, s->device) : NULL;
}

const char *gpu_step_kind(const gpu_program *g, const cpu_step *s) {
  static _Thread_local char text[96];
  const gpu_call *c = call_of(g, s);
  if (gpu_call_chosen(c)) return gpu_call_text(c);
  if (s->device) return emit_kind_name(s->kernel->kind);
  (void)snprintf(text, sizeof text, "host: %s", cpu_step_kind_text(s));
  return text;
}

u32 gpu_step_launches(const gpu_program *g, const cpu_step *s) {
  const emit_gpu_kernel *k = s->device;
  if (!k) return 0;
  if (gpu_call_chosen(call_of(g, s))) return 1;
  return k->nbefore + (k->grid > 0) + (k->finish_grid > 0);
}

// ---- loading ------------------------------------------------------------------------------------

// Makes of code what a driver takes: text that ends, or what the emulator calls an image.
static void make_image(const gpu_device *dev, hs_buf *code) {
  if (!dev->bitcode) {
    hs_buf_putc(code, '\0');
    return;
  }
  hs_buf image = {0};
  u64 n = code->n;
  hs_buf_puts(&image, EMU_IMAGE);
  hs_buf_put(&image, (const char *)&n, sizeof n);
  hs_buf_put(&image, code->p ? code->p : "", code->n);
  hs_buf_free(code);
  *code = image;
}

hs_status gpu_code_load(gpu_device *dev, hs_buf *code, const char *what, cuda_module **out) {
  enum { LOG = 16 << 10 };
  make_image(dev, code);
  char *log = hs_calloc(LOG, 1);
  int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)LOG};
  hs_status s = gpu_check(dev, dev->d.module_load(out, code->p, 2, options, values), what);
  log[LOG - 1] = 0;
  if (!hs_ok(s) && *log) s = hs_with_note(s, "%s", log);
  hs_free(log);
  hs_buf_free(code);
  return s;
}

// Lanes load the same code: it is generated for the first one, and kept until all have it.
static hs_status load_module(gpu_program *g) {
  hs_buf code = {0}, *kept = &g->first->code;
  hs_status s = HS_GOOD;
  if (!kept->n) s = g->dev->bitcode ? emit_gpu_bitcode(g->unit, kept) : emit_gpu_ptx(g->unit, kept);
  if (!hs_ok(s)) return s;
  hs_buf_put(&code, kept->p ? kept->p : "", kept->n);
  worker_doing = "loading the kernels";
  return gpu_code_load(g->dev, &code, worker_doing, &g->module);
}

static hs_status find_function(gpu_program *g, const char *name, const char *suffix,
                               cuda_function **out) {
  char *full = hs_format("%s%s", name, suffix);
  hs_status s = gpu_check(g->dev, g->dev->d.module_function(out, g->module, full), full);
  hs_free(full);
  return s;
}

static hs_status find_functions(gpu_program *g) {
  g->kernels = HS_NEW_ARRAY(&g->arena, gpu_kernel, g->p->kernels.n + 1);
  for (size_t j = 0; j < g->p->kernels.n; j++) {
    gpu_kernel *x = &g->kernels[j];
    x->k = g->p->kernels.v[j]->device;
    x->call = gpu_call_alone(g, x->k);
    if (!x->k || (x->k->grid == 0 && x->k->nbefore == 0)) continue;
    if (!g->module) HS_TRY(load_module(g));
    for (u32 n = 0; n < x->k->nbefore; n++) {
      const emit_gpu_launch *l = &x->k->before[n];
      if (!x->before[l->part]) HS_TRY(find_function(g, x->k->name, l->suffix, &x->before[l->part]));
    }
    if (x->k->grid) HS_TRY(find_function(g, x->k->name, "", &x->main));
    if (x->k->finish_grid) HS_TRY(find_function(g, x->k->name, "_finish", &x->finish));
  }
  return HS_GOOD;
}

static size_t aligned(size_t n) { return (n + GPU_ALIGN - 1) & ~(GPU_ALIGN - 1); }

// Whether the slot is a constant that a kernel on the device reads, or that moves to another one.
// That a constant is read by the host only is rare enough to be copied in vain.
static size_t constant_bytes(const cpu_slot *s) {
  return s->kind == CPU_CONST ? aligned(s->bytes) : 0;
}

static hs_status allocate(gpu_program *g) {
  const cpu_program *p = g->p;
  size_t n = 0;
  for (size_t k = 0; k < p->slots.n; k++) n += constant_bytes(&p->slots.v[k]);
  g->args_at = n;
  g->out_at = g->args_at + aligned(p->arg_bytes);
  g->temp_at = g->out_at + aligned(p->out_bytes);
  size_t counters_at = g->temp_at + aligned(p->temp_bytes);
  g->memory_bytes = HS_MAX(counters_at, GPU_ALIGN);
  if (gpu_control_is_in(p)) g->memory_bytes = counters_at + GPU_ALIGN;
  hs_status s =
      gpu_check(g->dev, g->dev->d.alloc(&g->memory, g->memory_bytes), "memory for the program");
  if (!hs_ok(s)) return hs_with_note(s, "it needs %zu bytes on the device", g->memory_bytes);
  g->counters = g->memory + counters_at;
  g->addr = HS_NEW_ARRAY(&g->arena, cuda_ptr, p->slots.n + 1);
  size_t at = 0;
  for (size_t k = 0; k < p->slots.n; k++) {
    const cpu_slot *x = &p->slots.v[k];
    if (x->kind != CPU_CONST) continue;
    g->addr[k] = g->memory + at;
    if (x->data) HS_TRY(gpu_upload(g->dev, g->addr[k], x->data, x->bytes));
    at += constant_bytes(x);
  }
  return HS_GOOD;
}

static hs_status load(gpu_program *g) {
  HS_TRY(find_functions(g));
  HS_TRY(allocate(g));
  HS_TRY(gpu_exec_prepare(g));
  return gpu_library_prepare(g);
}

// ---- programs -----------------------------------------------------------------------------------

static hs_status make(gpu_program *g, const hlo_module *m, const cpu_lower_options *lower,
                      const gpu_options *o) {
  static const hlo_eval_options alone = {.nreplicas = 1, .npartitions = 1};
  bool transfers;
  HS_TRY(hlo_eval_devices(m, lower->one_device ? &alone : NULL, &g->replicas, &g->partitions,
                          &transfers));
  g->ndevices = g->replicas * g->partitions;
  g->first = g;
  if (o->load) HS_TRY(gpu_device_get(o->emulated, o->driver, 0, &g->dev));
  g->libraries = o->libraries;
  g->sm = o->sm ? o->sm : g->dev ? g->dev->sm : 90;
  if (o->chip) {
    g->chip = hs_arena_strndup(&g->arena, o->chip, strlen(o->chip));
    g->sm = 75;
  }
  if (g->dev && !g->dev->bitcode && g->sm != g->dev->sm) g->dev = NULL;  // compiled for another one
  if (g->dev) HS_TRY(gpu_lanes_open(g, o));
  const emit_gpu_options eo = {.sm = g->sm, .chip = g->chip, .contract = !lower->no_contract};
  HS_TRY(emit_gpu_unit_new(&eo, &g->unit));
  const cpu_maker makes = {g, add_kernel, GPU_ALIGN};
  cpu_lower_options lo = *lower;
  lo.maker = &makes;
  HS_TRY(cpu_lower(m, &lo, &g->p));
  if (lower->plan_only) return HS_GOOD;
  worker_doing = "generating code";
  HS_TRY(emit_gpu_finish(g->unit, lower->threads, NULL));
  return g->dev ? gpu_lanes_load(g, load) : HS_GOOD;
}

hs_status gpu_program_new(const hlo_module *m, const cpu_lower_options *lower, const gpu_options *o,
                          gpu_program **out) {
  gpu_program *g = hs_calloc(1, sizeof *g);
  *out = NULL;
  hs_status s = make(g, m, lower, o);
  if (hs_ok(s)) *out = g;
  else gpu_program_free(g);
  return s;
}

// Of a device that is lost nothing can be freed: that goes with the process.
static void unload(gpu_program *g) {
  const cuda_driver *d = &g->dev->d;
  (void)d->context_set(g->dev->context);
  (void)d->stream_wait(g->dev->stream);
  gpu_segments_free(g);
  if (g->memory) (void)d->free(g->memory);
  if (g->host) (void)d->host_free(g->host);
  if (g->predicate) (void)d->host_free(g->predicate);
  if (g->from) (void)d->event_free(g->from);
  if (g->to) (void)d->event_free(g->to);
  if (g->module) (void)d->module_unload(g->module);
}

static bool is_lost(const gpu_program *g) {
  bool lost = !g->dev || g->dev->failed;
  for (u32 d = 1; g->lanes && d < g->ndevices; d++) lost |= g->lanes[d] && g->lanes[d]->dev->failed;
  return lost;
}

// What a lane has of its own.
static void free_lane(gpu_program *g, bool lost) {
  if (!lost) unload(g);
  free(g->scratch);  // of posix_memalign
  hs_free(g->why_host);
}

void gpu_program_free(gpu_program *g) {
  if (!g) return;
  bool lost = is_lost(g);
  for (u32 d = 1; g->lanes && d < g->ndevices; d++) {
    if (!g->lanes[d]) continue;
    free_lane(g->lanes[d], lost);
    gpu_library_close(g->lanes[d], lost);
    hs_arena_free(&g->lanes[d]->arena);
    hs_free(g->lanes[d]);
  }
  free_lane(g, lost);
  cpu_program_free(g->p);
  emit_gpu_unit_free(g->unit);
  gpu_library_close(g, lost);
  hs_buf_free(&g->code);
  hs_arena_free(&g->arena);
  hs_free(g);
}

#endif
