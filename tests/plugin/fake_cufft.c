// fake_cufft.c — a cuFFT of our own for tests: transforms in the emulated device's memory, by the
// definition, and misbehaves on request.
//
// It is as strict as the library's documentation allows it to be: plans that are alive and made
// once, sizes, distances that let no two transforms overlap, a workspace that was set, memory that
// was allocated, functions that go with the plan's type. What breaks a rule answers INVALID_VALUE
// and says on stderr which. A transform to real numbers spoils what it reads, one that is not in
// place reads nothing of its result, the workspace is overwritten. Transforms are computed when the
// stream comes to them, so they are part of what is recorded.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok           as it should be
//   old, new     says version 10.0, 13.0
//   noplan       plans nothing
//   nowork       needs no workspace
//   failing      every transform fails
//   missing      has no cufftSetWorkArea (the test renames it in its copy)
#include "backends/gpu/cuda/cufft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/plugin/fake_library.h"
#include "tests/plugin/fake_numbers.h"

#define FAKE_NAME "fake_cufft"
#define FAKE_BROKEN FFT_INVALID_VALUE

enum { PLANS = 4096, MOST_RANK = 3, ALIGN = 256, WORK = 512 };

typedef struct side {
  i64 dims[MOST_RANK], distance;
} side;
typedef struct fourier {
  bool alive, made, own_memory, told;  // told: where its workspace is
  int rank, type;
  i64 n[MOST_RANK], batch;
  side in, out;
  u8 *work;
  cuda_stream *stream;
} fourier;
static fourier plans[PLANS];

#define PLAN(p, number)                                                               \
  RULE((number) > 0 && (number) < PLANS && plans[(number) > 0 ? (number) : 0].alive); \
  fourier *p = &plans[number]

#define FFT_FN(field, symbol, args) EXPORT fft_result symbol args;
#include "backends/gpu/cuda/cufft.def"
#undef FFT_FN

// ---- plans --------------------------------------------------------------------------------------
fft_result cufftGetVersion(int *version) {
  *version = is("old") ? 10000 : is("new") ? 13000 : 12000;
  return FFT_OK;
}

fft_result cufftCreate(fft_plan *plan) {
  int k = 1;
  while (k < PLANS && plans[k].alive) k++;
  if (k == PLANS) return FFT_ALLOC_FAILED;
  plans[k] = (fourier){.alive = true, .own_memory = true};
  *plan = k;
  return FFT_OK;
}

fft_result cufftDestroy(fft_plan plan) {
  PLAN(p, plan);
  p->alive = false;
  return FFT_OK;
}

fft_result cufftSetAutoAllocation(fft_plan plan, int whether) {
  PLAN(p, plan);
  RULE(!p->made);
  p->own_memory = whether != 0;
  return FFT_OK;
}

static bool reads_reals(int type) { return type == FFT_R2C || type == FFT_D2Z; }
static bool makes_reals(int type) { return type == FFT_C2R || type == FFT_Z2D; }
static bool is_wide(int type) { return type == FFT_Z2Z || type == FFT_D2Z || type == FFT_Z2D; }

// Elements of one transform on one side.
static i64 size_of(const fourier *p, bool half) {
  i64 n = 1;
  for (int k = 0; k < p->rank; k++) n *= half && k == p->rank - 1 ? p->n[k] / 2 + 1 : p->n[k];
  return n;
}

// Rows as they lie in memory are as long as what is transformed, or longer.
static bool holds(const fourier *p, const side *s, bool half) {
  i64 all = 1;
  for (int k = 0; k < p->rank; k++) {
    i64 n = half && k == p->rank - 1 ? p->n[k] / 2 + 1 : p->n[k];
    if (n < 1 || (k > 0 && s->dims[k] < n)) return false;
    all *= k > 0 ? s->dims[k] : n;
  }
  return p->batch == 1 || s->distance >= all;
}

fft_result cufftMakePlanMany64(fft_plan plan, int rank, i64 *n, i64 *in_dims, i64 in_stride,
                               i64 in_distance, i64 *out_dims, i64 out_stride, i64 out_distance,
                               int type, i64 batch, size_t *work_bytes) {
  PLAN(p, plan);
  RULE(!p->made && !p->own_memory);
  RULE(rank >= 1 && rank <= MOST_RANK && batch >= 1);
  RULE(in_dims && out_dims && in_stride == 1 && out_stride == 1);
  RULE(type == FFT_C2C || type == FFT_Z2Z || reads_reals(type) || makes_reals(type));
  if (is("noplan")) return FFT_NOT_SUPPORTED;
  p->rank = rank, p->type = type, p->batch = batch;
  p->in.distance = in_distance, p->out.distance = out_distance;
  for (int k = 0; k < rank; k++)
    p->n[k] = n[k], p->in.dims[k] = in_dims[k], p->out.dims[k] = out_dims[k];
  RULE(holds(p, &p->in, makes_reals(type)) && holds(p, &p->out, reads_reals(type)));
  p->made = true;
  *work_bytes = is("nowork") ? 0 : WORK;
  return FFT_OK;
}

fft_result cufftSetStream(fft_plan plan, cuda_stream *stream) {
  PLAN(p, plan);
  RULE(p->made && stream);
  p->stream = stream;
  return FFT_OK;
}

fft_result cufftSetWorkArea(fft_plan plan, cuda_ptr at) {
  PLAN(p, plan);
  RULE(p->made && (is("nowork") ? at == 0 : on_device(at, WORK, ALIGN)));
  p->work = (u8 *)(uintptr_t)at;
  p->told = true;
  return FFT_OK;
}

// ---- transforms ---------------------------------------------------------------------------------
typedef struct work {
  fourier p;
  u8 *in, *out;
  int sign;
} work;

static i64 place(const fourier *p, const side *s, i64 batch, const i64 *at) {
  i64 x = at[0];
  for (int k = 1; k < p->rank; k++) x = x * s->dims[k] + at[k];
  return batch * s->distance + x;
}

static int number_type(bool real, int type) { return (real ? 0 : 2) + is_wide(type); }

static void next(const fourier *p, i64 *at) {
  for (int k = p->rank; k-- > 0;) {
    if (++at[k] < p->n[k]) return;
    at[k] = 0;
  }
}

// The element of the whole spectrum: half of it is not stored, and is what makes the result real.
static number element(const work *w, i64 batch, const i64 *at) {
  const fourier *p = &w->p;
  i64 from[MOST_RANK] = {at[0], at[1], at[2]};
  i64 last = p->n[p->rank - 1];
  bool mirrored = makes_reals(p->type) && at[p->rank - 1] > last / 2;
  for (int k = 0; k < p->rank && mirrored; k++) from[k] = (p->n[k] - at[k]) % p->n[k];
  number v = get(number_type(reads_reals(p->type), p->type), w->in, place(p, &p->in, batch, from));
  return mirrored ? conj(v) : v;
}

static number sum_of(const work *w, const number *all, const i64 *to) {
  const fourier *p = &w->p;
  i64 at[MOST_RANK] = {0}, n = size_of(p, false);
  number sum = 0;
  for (i64 k = 0; k < n; k++, next(p, at)) {
    double turns = 0;
    for (int d = 0; d < p->rank; d++) turns += (double)(at[d] * to[d] % p->n[d]) / (double)p->n[d];
    sum += all[k] * cexp(2 * M_PI * w->sign * turns * I);
  }
  return sum;
}

static void transform(void *arg) {
  const work *w = arg;
  const fourier *p = &w->p;
  i64 n = size_of(p, false);
  if (p->work) memset(p->work, 0xa5, WORK);
  number *all = calloc((size_t)n, sizeof *all);
  for (i64 b = 0; b < p->batch; b++) {
    i64 at[MOST_RANK] = {0};
    for (i64 k = 0; k < n; k++, next(p, at)) all[k] = element(w, b, at);
    memset(at, 0, sizeof at);
    for (i64 k = 0; k < n; k++, next(p, at))
      if (!reads_reals(p->type) || at[p->rank - 1] <= p->n[p->rank - 1] / 2)
        put(number_type(makes_reals(p->type), p->type), w->out, place(p, &p->out, b, at),
            sum_of(w, all, at));
  }
  free(all);
  if (makes_reals(p->type))
    memset(w->in, 0xff, (size_t)(p->batch * size_of(p, true)) * (is_wide(p->type) ? 16u : 8u));
}

static fft_result execute(fft_plan plan, int type, cuda_ptr in, cuda_ptr out, int sign) {
  PLAN(p, plan);
  RULE(p->made && p->type == type && p->stream && p->told);
  RULE(sign == FFT_FORWARD || sign == FFT_INVERSE);
  size_t one = is_wide(type) ? 8 : 4,
         in_bytes = (size_t)(p->batch * size_of(p, makes_reals(type))) *
                    (reads_reals(type) ? one : 2 * one),
         out_bytes = (size_t)(p->batch * size_of(p, reads_reals(type))) *
                     (makes_reals(type) ? one : 2 * one);
  RULE(on_device(in, (i64)in_bytes, 2 * one) && on_device(out, (i64)out_bytes, 2 * one));
  RULE(in == out ? in_bytes == out_bytes : in + in_bytes <= out || out + out_bytes <= in);
  if (is("failing")) return FFT_EXEC_FAILED;
  work *w = calloc(1, sizeof *w);  // as long as the process: it may be recorded
  *w = (work){*p, (u8 *)(uintptr_t)in, (u8 *)(uintptr_t)out, sign};
  return enqueue(p->stream, transform, w) ? FFT_OK : FFT_EXEC_FAILED;
}

#define EXECUTE(name, sign, ...)                                                     \
  fft_result cufftExec##name(fft_plan plan, cuda_ptr in, cuda_ptr out __VA_ARGS__) { \
    return execute(plan, FFT_##name, in, out, sign);                                 \
  }
#define DIRECTION , int direction
EXECUTE(C2C, direction, DIRECTION)
EXECUTE(Z2Z, direction, DIRECTION)
EXECUTE(R2C, FFT_FORWARD)
EXECUTE(D2Z, FFT_FORWARD)
EXECUTE(C2R, FFT_INVERSE)
EXECUTE(Z2D, FFT_INVERSE)
