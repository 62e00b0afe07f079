// fourier.c — Fourier transforms by cuFFT. See library.h.
//
// A transform is planned when its instruction is lowered, which says what memory the library wants:
// that is a scratch block of the step like any other, and the library allocates none of its own.
// Arrays must be row-major; dimensions before those that are transformed are the batch.
//
// cuFFT's inverse transforms are not divided by the number of elements, and those to real numbers
// may overwrite what they read. As transforms are linear, the numbers are divided before: by a
// helper, to the result's place where that has the same shape (cuFFT then works in place), else to
// the scratch block, where they may be overwritten.
#include "backends/gpu/library.h"

#include <stdio.h>

#if HAVE_LLVM

enum { MOST_RANK = 3 };

typedef struct gpu_fourier {
  gpu_library l;
  fft_api api;
} gpu_fourier;

typedef struct transform {
  int type;
  bool wide, inverse;  // f64; from frequencies
  int rank;
  i64 n[MOST_RANK], in[MOST_RANK], out[MOST_RANK], in_elements, out_elements, batch;
} transform;

typedef struct fourier_call {
  gpu_call call;
  transform t;
  const gpu_fourier *fourier;
  fft_plan plan;
  bool planned;
  i64 work_at;  // in the scratch block, behind the copy
  size_t work_bytes;
} fourier_call;

static hs_status open_fourier(gpu_library *l) { return fft_open(NULL, &((gpu_fourier *)l)->api); }

static const gpu_library_kind cufft = {
    .bytes = sizeof(gpu_fourier),
    .name = "cuFFT",
    .variable = "HLOSH_LIBCUFFT",
    .open = open_fourier,
};

// ---- which transforms ---------------------------------------------------------------------------

static const struct {
  i64 fft_type;
  int type[2];  // of f32, of f64
  bool inverse;
} types[] = {
    {HLO_FFT_TYPE_FFT, {FFT_C2C, FFT_Z2Z}, false},
    {HLO_FFT_TYPE_IFFT, {FFT_C2C, FFT_Z2Z}, true},
    {HLO_FFT_TYPE_RFFT, {FFT_R2C, FFT_D2Z}, false},
    {HLO_FFT_TYPE_IRFFT, {FFT_C2R, FFT_Z2D}, true},
};

static bool is_plain(const hlo_shape *s) {
  return !hlo_shape_is_dynamic(s) && s->elements > 0 && hlo_shape_is_row_major(s);
}

static i64 last_dims(const hlo_shape *s, u32 rank, i64 *out) {
  i64 n = 1;
  for (u32 k = 0; k < rank; k++) n *= out[k] = s->dims[s->rank - rank + k];
  return n;
}

static bool transform_of(const hlo_instr *i, transform *t) {
  if (i->opcode != HLO_FFT) return false;
  const hlo_shape *in = hlo_operand(i, 0)->shape, *out = i->shape;
  hlo_ints n = hlo_attr_ints(i, HLO_ATTR_FFT_LENGTH);
  i64 asked = hlo_attr_int(i, HLO_ATTR_FFT_TYPE, HLO_FFT_TYPE_FFT);
  if (!is_plain(in) || !is_plain(out) || n.n == 0 || n.n > MOST_RANK) return false;
  size_t k = 0;
  while (k + 1 < HS_COUNT(types) && types[k].fft_type != asked) k++;
  *t = (transform){.wide = out->dtype == HLO_F64 || out->dtype == HLO_C128,
                   .inverse = types[k].inverse,
                   .rank = (int)n.n};
  t->type = types[k].type[t->wide];
  for (u32 d = 0; d < n.n; d++) t->n[d] = n.v[d];
  t->in_elements = last_dims(in, n.n, t->in);
  t->out_elements = last_dims(out, n.n, t->out);
  t->batch = out->elements / t->out_elements;
  return true;
}

bool gpu_fourier_is(const hlo_instr *i) {
  transform t;
  return transform_of(i, &t);
}

static bool is_in_place(const transform *t) { return t->type == FFT_C2C || t->type == FFT_Z2Z; }

// ---- plans --------------------------------------------------------------------------------------

#define FFT_TRY(call, what) HS_TRY(fft_check((call), (what)))

static hs_status plan(fourier_call *c, size_t *work) {
  static const char what[] = "planning a transform";
  const fft_api *api = &c->fourier->api;
  transform *t = &c->t;
  FFT_TRY(api->create(&c->plan), what);
  c->planned = true;
  FFT_TRY(api->allocates(c->plan, false), what);
  return fft_check(api->make(c->plan, t->rank, t->n, t->in, 1, t->in_elements, t->out, 1,
                             t->out_elements, t->type, t->batch, work),
                   what);
}

// Divides numbers, of which complex ones are two.
static hs_status add_division(gpu_program *g, const hlo_instr *i, fourier_call *c) {
  const transform *t = &c->t;
  const char *type = t->wide ? "f64" : "f32";
  double n = 1;
  for (int k = 0; k < t->rank; k++) n *= (double)t->n[k];
  long long numbers = 2LL * hlo_operand(i, 0)->shape->elements;
  char *text = hs_format(
      "HloModule division\n"
      "divide { x = %s[%lld] parameter(0)\n c = %s[] constant(%.17g)\n"
      " b = %s[%lld] broadcast(c), dimensions={}\n ROOT y = %s[%lld] multiply(x, b) }\n"
      "ENTRY e { x = %s[%lld] parameter(0)\n"
      " ROOT fft_division = %s[%lld] fusion(x), kind=kLoop, calls=divide }\n",
      type, numbers, type, 1 / n, type, numbers, type, numbers, type, numbers, type, numbers);
  hs_status s = gpu_helper_add(g, i->parent->module->ctx, text, &c->call);
  hs_free(text);
  return s;
}

// ---- calls --------------------------------------------------------------------------------------

static hs_status execute(const fourier_call *c, cuda_ptr in, cuda_ptr out) {
  const fft_api *api = &c->fourier->api;
  const transform *t = &c->t;
  const struct {
    int type;
    fft_result (*run)(fft_plan, cuda_ptr, cuda_ptr);
  } real[] = {{FFT_R2C, api->r2c}, {FFT_D2Z, api->d2z}, {FFT_C2R, api->c2r}, {FFT_Z2D, api->z2d}};
  int direction = t->inverse ? FFT_INVERSE : FFT_FORWARD;
  if (is_in_place(t))
    return fft_check((t->wide ? api->z2z : api->c2c)(c->plan, in, out, direction), "a transform");
  size_t k = 0;
  while (k + 1 < HS_COUNT(real) && real[k].type != t->type) k++;
  return fft_check(real[k].run(c->plan, in, out), "a transform");
}

static hs_status run_call(gpu_program *g, const cpu_step *s, gpu_call *x) {
  const fourier_call *c = (const fourier_call *)x;
  cuda_ptr in = gpu_address(g, s->vals[0]), out = gpu_address(g, s->vals[s->nin]);
  if (c->t.inverse) {
    cuda_ptr divided = is_in_place(&c->t) ? out : g->addr[s->scratch_slot];
    HS_TRY(gpu_helper_run(g, x, 0, 3, (cuda_ptr[]){in, divided, 0}));
    in = divided;
  }
  g->launches++;
  // bodies of loops are recorded in streams of their own
  HS_TRY(fft_check(c->fourier->api.stream(c->plan, g->dev->stream), "a transform"));
  return execute(c, in, out);
}

// Scratch blocks stay where they are, whatever buffers loops exchange. A plan that needs no memory
// is told so.
static hs_status ready_call(gpu_program *g, const cpu_step *s, gpu_call *x) {
  const fourier_call *c = (const fourier_call *)x;
  cuda_ptr at = c->work_bytes ? g->addr[s->scratch_slot] + (cuda_ptr)c->work_at : 0;
  return fft_check(c->fourier->api.work(c->plan, at), "memory of a transform");
}

static void print_call(const gpu_call *x, hs_buf *out) {
  const transform *t = &((const fourier_call *)x)->t;
  hs_buf_printf(out, "%lld of %lld", (long long)t->batch, (long long)t->n[0]);
  for (int k = 1; k < t->rank; k++) hs_buf_printf(out, " x %lld", (long long)t->n[k]);
}

static void free_call(gpu_program *g, gpu_call *x) {
  (void)g;
  fourier_call *c = (fourier_call *)x;
  if (c->planned) (void)c->fourier->api.free(c->plan);
}

static const gpu_call_kind transforms = {
    .run = run_call, .ready = ready_call, .print = print_call, .free = free_call};

static hs_status make(gpu_program *g, const hlo_instr *i, fourier_call *c, i64 *scratch) {
  size_t work = 0;
  HS_TRY(plan(c, &work));
  i64 in_bytes = hlo_shape_bytes(hlo_operand(i, 0)->shape);
  c->work_at = c->t.inverse && !is_in_place(&c->t) ? gpu_aligned(in_bytes) : 0;
  c->work_bytes = work;
  *scratch = c->work_at + (i64)work;
  if (c->t.inverse) HS_TRY(add_division(g, i, c));
  gpu_call_stands(g, &c->call, i);
  (void)snprintf(c->call.text, sizeof c->call.text, "cuFFT");
  (void)snprintf(c->call.note, sizeof c->call.note, "cuFFT, workspace %zu B", work);
  return HS_GOOD;
}

hs_status gpu_fourier_add(gpu_program *g, const hlo_instr *i, gpu_call **out, i64 *scratch) {
  gpu_library *l;
  HS_TRY(gpu_library_find(g->dev, &g->dev->library[GPU_CUFFT], &cufft, &l));
  fourier_call *c = HS_NEW(&g->arena, fourier_call);
  *c = (fourier_call){.call.kind = &transforms, .fourier = (const gpu_fourier *)l};
  HS_REQUIRE(transform_of(i, &c->t));
  gpu_call_add(g, &c->call);
  HS_TRY(make(g, i, c, scratch));
  *out = &c->call;
  return HS_GOOD;
}

#endif
