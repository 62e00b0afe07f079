// handlers.c — a small library of custom calls for the tests: XLA's FFI as a C program sees it,
// with declarations of its own, so that a mistake in the host's would show.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef struct {
  size_t size;
  void *ext;
  int32_t dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} buffer;
typedef struct {
  size_t size;
  void *ext;
  int64_t n;
  int32_t *types;
  void **v;
} values;
typedef struct {
  const char *p;
  size_t n;
} span;
typedef struct {
  size_t size;
  void *ext;
  int64_t n;
  int32_t *types;
  span **names;
  void **v;
} attrs;
typedef struct {
  size_t size;
  void *ext;
  const char *message;
  int32_t code;
} create;
typedef struct {
  size_t size;
  void *ext;
  struct {
    size_t size;
    void *ext;
    int major, minor;
  } version;
  const void *internal;
  void *(*error)(create *);
} api;
typedef struct {
  size_t size;
  void *ext;
  const api *a;
  void *ctx;
  int32_t stage;
  values args, rets;
  attrs at;
  void *future;
} frame;
typedef struct {
  int32_t dtype;
  void *value;
} scalar;
typedef struct {
  int32_t dtype;
  size_t n;
  void *data;
} array;

static void *attr(const frame *f, const char *name, int32_t kind) {
  for (int64_t k = 0; k < f->at.n; k++)
    if (f->at.types[k] == kind && f->at.names[k]->n == strlen(name) &&
        !memcmp(f->at.names[k]->p, name, strlen(name)))
      return f->at.v[k];
  return NULL;
}

static void *fail(const frame *f, const char *why) {
  create c = {sizeof c, NULL, why, 3};
  return f->a->error(&c);
}

// y = factor * x + the sum of offsets, for f32.
void *scale(frame *f);
void *scale(frame *f) {
  const buffer *x = f->args.v[0];
  buffer *y = f->rets.v[0];
  const scalar *factor = attr(f, "factor", 3);
  const array *offsets = attr(f, "offsets", 1);
  if (f->a->version.major != 0 || f->stage != 3) return fail(f, "another interface");
  if (f->args.n != 1 || f->rets.n != 1 || x->dtype != 11 || y->dtype != 11)
    return fail(f, "one array of f32, please");
  if (!factor || factor->dtype != 11) return fail(f, "no factor");
  float add = 0;
  for (size_t k = 0; offsets && k < offsets->n; k++)
    add += (float)((const int64_t *)offsets->data)[k];
  int64_t n = 1;
  for (int64_t d = 0; d < x->rank; d++) n *= x->dims[d];
  for (int64_t k = 0; k < n; k++)
    ((float *)y->data)[k] = *(float *)factor->value * ((float *)x->data)[k] + add;
  return NULL;
}

// Two results; the text of an attribute chooses which comes first.
void *min_max(frame *f);
void *min_max(frame *f) {
  const buffer *x = f->args.v[0];
  const span *first = attr(f, "first", 4);
  int64_t n = x->rank ? x->dims[0] : 1;
  int32_t lo = INT32_MAX, hi = INT32_MIN;
  for (int64_t k = 0; k < n; k++) {
    int32_t v = ((const int32_t *)x->data)[k];
    lo = v < lo ? v : lo, hi = v > hi ? v : hi;
  }
  int swap = first && first->n == 3 && !memcmp(first->p, "max", 3);
  *(int32_t *)((buffer *)f->rets.v[0])->data = swap ? hi : lo;
  *(int32_t *)((buffer *)f->rets.v[1])->data = swap ? lo : hi;
  return NULL;
}

void *crash(frame *f);
void *crash(frame *f) {
  (void)f;
  abort();
}

// Tries the network, and goes on without.
void *sneak(frame *f);
void *sneak(frame *f) {
  const buffer *x = f->args.v[0];
  buffer *y = f->rets.v[0];
  memcpy(y->data, x->data, 2 * sizeof(float));
  ((float *)y->data)[0] = socket(AF_INET, SOCK_STREAM, 0) >= 0;
  return NULL;
}
