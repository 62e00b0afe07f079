// library.c — what NVIDIA's libraries have in common here: the device's open ones, the calls of a
// program, and kernels of ours around them. See library.h.
#include "backends/gpu/library.h"

#include <stdlib.h>

#include "core/text/text.h"

#if HAVE_LLVM

// ---- libraries ----------------------------------------------------------------------------------

static hs_status open_library(const gpu_device *dev, const gpu_library_kind *kind, gpu_library *l) {
  if (dev->bitcode && !getenv(kind->variable))
    return hs_with_note(hs_fail(HS_E_NOT_BUILT, "%s does not work on the emulation", kind->name),
                        "%s may name one that does", kind->variable);
  return kind->open(l);
}

hs_status gpu_library_find(gpu_device *dev, gpu_library **at, const gpu_library_kind *kind,
                           void *out) {
  bool first = !*at;
  if (first) *at = hs_calloc(1, kind->bytes);
  gpu_library *l = *(gpu_library **)out = *at;
  if (first) {
    hs_status s = open_library(dev, kind, l);
    l->open = hs_ok(s);
    if (!l->open) l->why = hs_strdup(s.err->message);
    return s;
  }
  if (l->open) return HS_GOOD;
  return hs_with_note(hs_fail(HS_E_NOT_BUILT, "%s", l->why),
                      "`set gpu.libraries off` does without");
}

// ---- helpers ------------------------------------------------------------------------------------

hs_status gpu_helper_add(gpu_program *g, hlo_ctx *ctx, const char *text, gpu_call *c) {
  hlo_module *m = NULL;
  HS_REQUIRE(c->nhelpers < GPU_MOST_HELPERS);
  const emit_gpu_kernel **out = &c->helper[c->nhelpers++];
  if (g->again) return *out = g->again->helper[c->nhelpers - 1], HS_GOOD;
  HS_TRY(hlo_parse(ctx, text, strlen(text), &(hlo_parse_options){.file = "<helper>"}, &m));
  hs_vec_push(&g->helpers, m);
  return emit_gpu_add(g->unit, m->entry->root, out);
}

hs_status gpu_helper_run(gpu_program *g, const gpu_call *c, u32 number, u32 n, cuda_ptr *params) {
  enum { MOST = 8 };
  HS_REQUIRE(number < c->nhelpers && n <= MOST);
  const emit_gpu_kernel *k = c->helper[number];
  void *at[MOST];
  HS_REQUIRE(k->nbefore == 0 && k->finish_grid == 0);
  for (u32 p = 0; p < n; p++) at[p] = &params[p];
  g->launches++;
  return gpu_check(g->dev,
                   g->dev->d.launch(c->function[number], k->grid, 1, 1, k->block, 1, 1, 0,
                                    g->dev->stream, at, NULL),
                   k->name);
}

static hs_status find_helpers(gpu_program *g, gpu_call *c) {
  for (u32 k = 0; k < c->nhelpers; k++)
    GPU_TRY(g->dev, g->dev->d.module_function(&c->function[k], g->module, c->helper[k]->name),
            c->helper[k]->name);
  return HS_GOOD;
}

// ---- addresses of matrices ----------------------------------------------------------------------

i64 gpu_aligned(i64 n) { return (n + (i64)GPU_ALIGN - 1) & ~((i64)GPU_ALIGN - 1); }

u32 gpu_linear_type(hlo_dtype t) {
  static const hlo_dtype types[] = {HLO_F32, HLO_F64, HLO_C64, HLO_C128};
  u32 k = 0;
  while (k + 1 < HS_COUNT(types) && types[k] != t) k++;
  return k;
}

// Buffers that loops exchange have other addresses: what the last copy still reads must not change.
hs_status gpu_addresses_put(gpu_program *g, gpu_addresses *x, u32 sets, const cuda_ptr *first,
                            const i64 *bytes, i64 n, cuda_ptr to) {
  const cuda_driver *d = &g->dev->d;
  size_t all = sets * (size_t)n * sizeof *x->list;
  bool same = x->list != NULL;
  if (!x->list) {
    void *pinned;
    GPU_TRY(g->dev, d->host_alloc(&pinned, all, CUDA_HOST_PORTABLE), "memory for addresses");
    x->list = pinned;
  } else {
    for (u32 k = 0; k < sets; k++) same &= x->first[k] == first[k];
    if (!same) GPU_TRY(g->dev, d->stream_wait(g->dev->stream), "waiting for addresses");
  }
  for (u32 k = 0; k < sets && !same; k++) {
    x->first[k] = first[k];
    for (i64 j = 0; j < n; j++) x->list[k * n + j] = first[k] + (cuda_ptr)(j * bytes[k]);
  }
  return gpu_check(g->dev, d->copy_in(to, x->list, all, g->dev->stream), "copying addresses");
}

void gpu_addresses_free(gpu_program *g, gpu_addresses *x) {
  if (x->list) (void)g->dev->d.host_free(x->list);
}

// ---- calls --------------------------------------------------------------------------------------

void gpu_call_add(gpu_program *g, gpu_call *c) { hs_vec_push(&g->calls, c); }
bool gpu_call_recorded(const gpu_call *c) { return !c || !c->chosen || !c->kind->unrecorded; }
bool gpu_call_chosen(const gpu_call *c) { return c && c->chosen; }
const char *gpu_call_text(const gpu_call *c) { return c->text; }

hs_status gpu_call_run(gpu_program *g, const cpu_step *s, gpu_call *c) {
  return c->kind->run(g, s, c);
}

// An empty kernel where there is no helper, else the first one: so code is loaded.
void gpu_call_stands(gpu_program *g, gpu_call *c, const hlo_instr *i) {
  emit_gpu_kernel *own = HS_NEW(&g->arena, emit_gpu_kernel);
  *own = c->nhelpers ? *c->helper[0] : (emit_gpu_kernel){.name = ""};
  own->instr = i;
  own->kind = EMIT_LIBRARY;
  c->alone = own;
}

// ---- what libraries do alone --------------------------------------------------------------------

static const struct alone {
  u32 library;
  const char *name;
  bool (*is)(const hlo_instr *);
  hs_status (*add)(gpu_program *, const hlo_instr *, gpu_call **out, i64 *scratch);
} alone[] = {
    {GPU_CUFFT, "cuFFT", gpu_fourier_is, gpu_fourier_add},
    {GPU_CUSOLVER, "cuSOLVER", gpu_factor_is, gpu_factor_add},
    {GPU_CUBLAS, "cuBLAS", gpu_triangular_is, gpu_triangular_add},
    {GPU_CUSOLVER, "cuSOLVER", gpu_lapack_is, gpu_lapack_add},
};

static const struct alone *alone_of(const hlo_instr *i) {
  size_t k = 0;
  while (k < HS_COUNT(alone) && !alone[k].is(i)) k++;
  return k < HS_COUNT(alone) ? &alone[k] : NULL;
}

const char *gpu_library_name(const hlo_instr *i) {
  const struct alone *x = alone_of(i);
  return x ? x->name : gpu_collective_library(i);
}

// A library that is missing is an error where libraries are insisted on; what it refuses is the
// host's.
hs_status gpu_library_alone(gpu_program *g, const hlo_instr *i, const emit_gpu_kernel **out,
                            i64 *scratch) {
  gpu_call *c = NULL;
  const struct alone *x = alone_of(i);
  *out = NULL;
  *scratch = 0;
  if (!x || !g->dev || g->libraries == BACKEND_LIBRARIES_OFF) return HS_GOOD;
  hs_status s = x->add(g, i, &c, scratch);
  if (hs_ok(s)) {
    c->chosen = true;
    *out = c->alone;
    return s;
  }
  const gpu_library *l = g->dev->library[x->library];
  bool missing = !l || !l->open;
  if (g->dev->failed || (missing && g->libraries == BACKEND_LIBRARIES_ON)) return s;
  if (!missing) hs_buf_printf(&g->refused, "%s: on the host: %s\n", i->name, s.err->message);
  hs_status_drop(s);
  return HS_GOOD;
}

// What a call holds is its device's: a lane makes its own, with the helpers that the first one has.
static hs_status make_again(gpu_program *lane, u32 kernel) {
  const cpu_step *s = lane->p->kernels.v[kernel];
  const struct alone *x = alone_of(s->instr);
  gpu_kernel *own = &lane->kernels[kernel];
  gpu_call *c = NULL;
  i64 scratch = 0;
  if (!x || !own->call) return HS_GOOD;
  lane->again = own->call;
  hs_status st = x->add(lane, s->instr, &c, &scratch);
  lane->again = NULL;
  HS_TRY(st);
  if (scratch > (i64)s->scratch_bytes)
    return hs_fail_subject(HS_E_UNSUPPORTED, x->name,
                           "%s: %s wants more memory on device %u than on the first one",
                           s->instr->name, x->name, lane->number);
  c->chosen = true;
  own->call = c;
  return HS_GOOD;
}

// ---- what libraries do beside our kernels -------------------------------------------------------

hs_status gpu_library_wants(gpu_program *g, const hlo_instr *i, i64 *workspace) {
  HS_TRY(gpu_blas_wants(g, i, workspace));
  return *workspace < 0 ? gpu_window_wants(g, i, workspace) : HS_GOOD;
}

hs_status gpu_library_fill(gpu_program *g) {
  // a byte that makes a number near 1 of f8 and f16, and a normal one of all
  enum { FILL = 0x3c };
  if (g->filled) return HS_GOOD;
  g->filled = true;
  return gpu_check(
      g->dev,
      g->dev->d.set8(g->memory + g->args_at, FILL, g->memory_bytes - g->args_at, g->dev->stream),
      "filling the program's memory");
}

hs_status gpu_library_time(gpu_program *g, const cpu_step *s, gpu_trial *run, const void *arg,
                           double *out) {
  enum { MOST_RUNS = 3, MOST_MS = 50 };  // after one that is not counted
  gpu_device *dev = g->dev;
  double all = 0;
  *out = 0;
  for (u32 k = 0; k <= MOST_RUNS && all < MOST_MS; k++) {
    float ms = 0;
    GPU_TRY(dev, dev->d.event_record(g->from, dev->stream), "recording an event");
    HS_TRY(run ? run(g, s, arg) : gpu_launch(g, s));
    GPU_TRY(dev, dev->d.event_record(g->to, dev->stream), "recording an event");
    GPU_TRY(dev, dev->d.event_wait(g->to), s->instr->name);
    GPU_TRY(dev, dev->d.event_elapsed(&ms, g->from, g->to), "the time of a call");
    all += (double)ms;
    if (k == 1 || (k && (double)ms < *out)) *out = (double)ms;
    if (k == 0) *out = (double)ms;
  }
  return HS_GOOD;
}

// Each step that a library does alone has a kernel of its own.
gpu_call *gpu_call_alone(const gpu_program *g, const emit_gpu_kernel *k) {
  const gpu_program *of = g->first;
  for (size_t n = 0; n < of->calls.n; n++)
    if (of->calls.v[n]->alone && of->calls.v[n]->alone == k) return of->calls.v[n];
  return NULL;
}

hs_status gpu_library_prepare(gpu_program *g) {
  for (size_t k = 0; k < g->p->kernels.n; k++) {
    if (g->number) HS_TRY(make_again(g, (u32)k));
    gpu_call *c = g->kernels[k].call;
    worker_doing = g->p->kernels.v[k]->instr->name;
    if (c) HS_TRY(find_helpers(g, c));
    if (c && c->kind->ready) HS_TRY(c->kind->ready(g, g->p->kernels.v[k], c));
    if (c || !g->kernels[k].k) continue;
    i64 wants;  // opens the libraries of other devices than the first
    if (g->number) HS_TRY(gpu_library_wants(g, g->p->kernels.v[k]->instr, &wants));
    HS_TRY(gpu_blas_prepare(g, (u32)k));
    HS_TRY(gpu_window_prepare(g, (u32)k));
  }
  return HS_GOOD;
}

static void dump_missing(const gpu_program *g, const gpu_library *l, hs_buf *out) {
  if (l && l->why && g->libraries == BACKEND_LIBRARIES_AUTO)
    hs_buf_printf(out, "no library: %s\n", l->why);
}

void gpu_library_dump(const gpu_program *g, hs_buf *out) {
  for (u32 k = 0; g->dev && k < GPU_LIBRARIES; k++) dump_missing(g, g->dev->library[k], out);
  if (g->refused.n) hs_buf_put(out, g->refused.p, g->refused.n);
  for (size_t k = 0; k < g->p->kernels.n; k++) {
    const gpu_call *c = g->kernels ? g->kernels[k].call : NULL;
    if (!c) continue;
    hs_buf_printf(out, "%s: ", g->p->kernels.v[k]->instr->name);
    c->kind->print(c, out);
    hs_buf_printf(out, ": %s\n", c->note);
  }
}

void gpu_library_close(gpu_program *g, bool lost) {
  for (size_t k = 0; k < g->calls.n && !lost; k++) g->calls.v[k]->kind->free(g, g->calls.v[k]);
  for (size_t k = 0; k < g->helpers.n; k++) hlo_module_free(g->helpers.v[k]);
  hs_vec_free(&g->calls);
  hs_vec_free(&g->helpers);
  hs_buf_free(&g->refused);
}

#endif
