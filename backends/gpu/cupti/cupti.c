// cupti.c — CUPTI: loading, its records, and which call of ours caused which. See cupti.h.
//
// Records are plain structures that grow at their ends from version to version; what is read here
// lies in the part that has kept its place since CUDA 9 (kernels) and 11 (the rest). Each buffer is
// decoded when CUPTI gives it back, possibly on a thread of its own, so the collector has a lock.
// Callbacks carry no argument: the trace that is on is the process's.
//
// A launch has a correlation number; before a launch we push a number of our own, and CUPTI records
// which correlations were made under it. Names are not used to join: equal kernels share one.
#include "backends/gpu/cupti/cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

// ---- the library --------------------------------------------------------------------------------

hs_status cupti_check(cupti_result r, const char *what) {
  if (HS_LIKELY(r == CUPTI_OK)) return HS_GOOD;
  static const struct {
    int number;
    const char *name, *advice;
  } errors[] = {
#define CUPTI_ERROR(number, name, advice) {number, #name, advice},
#include "backends/gpu/cupti/cupti_errors.def"
#undef CUPTI_ERROR
  };
  size_t k = 0;
  while (k + 1 < HS_COUNT(errors) && errors[k].number != r) k++;
  return hs_with_note(hs_fail_subject(HS_E_DEVICE, errors[k].name, "%s: CUPTI error %d (%s)", what,
                                      r, errors[k].name),
                      "%s", errors[k].advice);
}

static const char *const places[] = {
    "libcupti.so.13",
    "libcupti.so.12",
    "/usr/local/cuda/lib64/libcupti.so",
    "/usr/local/cuda/lib/libcupti.so",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
    "libcupti.so.11.8",
    "libcupti.so",
};

hs_status cupti_open(const char *path, cupti_api *out) {
  *out = (cupti_api){0};
  const char *own = path && *path ? path : getenv("HLOSH_LIBCUPTI");
  hs_buf looked = {0};
  if (own && *own) {
    out->library = dlopen(own, RTLD_NOW | RTLD_LOCAL);
    if (!out->library) hs_buf_puts(&looked, dlerror());
  } else {
    for (size_t k = 0; k < HS_COUNT(places) && !out->library; k++) {
      out->library = dlopen(places[k], RTLD_NOW | RTLD_LOCAL);
      hs_buf_printf(&looked, "%s%s", k ? ", " : "looked for ", places[k]);
    }
  }
  hs_status s = HS_GOOD;
  if (!out->library)
    s = hs_with_note(
        hs_with_note(hs_fail(HS_E_NOT_BUILT, "there is no CUPTI here"), "%s", hs_buf_cstr(&looked)),
        "fix: install it (a part of NVIDIA's CUDA toolkit: cuda-cupti), or name the "
        "library in HLOSH_LIBCUPTI");
  hs_buf_free(&looked);
  if (!hs_ok(s)) return s;
  struct {
    const char *symbol;
    void **fn;
  } const fns[] = {
#define CUPTI_FN(field, symbol, args) {#symbol, (void **)(void *)&out->field},
#include "backends/gpu/cupti/cupti.def"
#undef CUPTI_FN
  };
  for (size_t k = 0; k < HS_COUNT(fns); k++)
    if (!(*fns[k].fn = dlsym(out->library, fns[k].symbol)))
      return hs_with_note(hs_fail(HS_E_NOT_BUILT, "this CUPTI has no %s", fns[k].symbol),
                          "fix: install that of CUDA 11.4 or newer");
  return cupti_check(out->get_version(&out->version), "the version of CUPTI");
}

// ---- records ------------------------------------------------------------------------------------

// Where a field lies in the records of a kind, by its number; 0: it has none (at 0 is the kind).
typedef struct layout {
  u8 correlation, begin, end, bytes, name, grid, block, registers, shared;
} layout;
static const layout layouts[] = {
#define CUPTI_RECORD(kind, field, at, theirs, oldest, member) [CUPTI_##kind].field = (at),
#include "backends/gpu/cupti/cupti_records.def"
#undef CUPTI_RECORD
};

static u32 get32(const char *r, u8 at) {
  u32 v = 0;
  if (at) memcpy(&v, r + at, sizeof v);
  return v;
}

static u64 get64(const char *r, u8 at) {
  u64 v = 0;
  if (at) memcpy(&v, r + at, sizeof v);
  return v;
}

bool cupti_decode(const void *record, cupti_activity *out) {
  const char *r = record;
  u32 kind;
  memcpy(&kind, r, sizeof kind);
  const layout *l = kind < HS_COUNT(layouts) ? &layouts[kind] : NULL;
  if (!l || !(l->correlation | l->begin)) return false;
  *out = (cupti_activity){.kind = (cupti_kind)kind,
                          .correlation = get32(r, l->correlation),
                          .begin = get64(r, l->begin),
                          .end = get64(r, l->end),
                          .grid = get32(r, l->grid),
                          .block = get32(r, l->block)};
  u64 bytes = get64(r, l->bytes);
  if (kind == CUPTI_EXTERNAL) out->external = bytes;
  else out->bytes = bytes;
  if (l->name) memcpy(&out->name, r + l->name, sizeof out->name);
  u16 registers = 0;
  if (l->registers) memcpy(&registers, r + l->registers, sizeof registers);
  out->registers = registers;
  if (l->shared) out->shared = get32(r, l->shared) + get32(r, (u8)(l->shared + 4));
  if (out->end < out->begin) out->end = out->begin;  // not finished: CUPTI says so with zeros
  return true;
}

// ---- collecting ---------------------------------------------------------------------------------

enum { BUFFER = 1 << 20 };

static struct {
  pthread_mutex_t lock;
  cupti_trace *trace;  // NULL: none is on
} collector = {.lock = PTHREAD_MUTEX_INITIALIZER};

// CUPTI's own threads come here too: no memory is taken that could end the process.
static void requested(u8 **buffer, size_t *size, size_t *most) {
  *buffer = aligned_alloc(8, BUFFER);
  *size = *buffer ? BUFFER : 0;
  *most = 0;
}

static void completed(void *context, u32 stream, u8 *buffer, size_t size, size_t valid) {
  (void)size;
  pthread_mutex_lock(&collector.lock);
  cupti_trace *t = collector.trace;
  void *record = NULL;
  while (t && t->api->next(buffer, valid, &record) == CUPTI_OK) {
    cupti_activity a;
    if (!cupti_decode(record, &a)) continue;
    if (a.kind == CUPTI_OVERHEAD) t->overhead += a.end - a.begin;
    else hs_vec_push(&t->all, a);
  }
  size_t dropped = 0;
  if (t && t->api->dropped(context, stream, &dropped) == CUPTI_OK) t->dropped += dropped;
  pthread_mutex_unlock(&collector.lock);
  free(buffer);
}

// Our numbers go with the records of calls, of the driver's API or of the runtime's, which NVIDIA's
// libraries use: without those there are none.
static const int kinds[] = {CUPTI_DRIVER, CUPTI_RUNTIME, CUPTI_KERNEL,   CUPTI_COPY,
                            CUPTI_SET,    CUPTI_GRAPH,   CUPTI_EXTERNAL, CUPTI_OVERHEAD};

hs_status cupti_trace_begin(const cupti_api *api, cupti_trace *t) {
  *t = (cupti_trace){.api = api};
  HS_TRY(cupti_check(api->callbacks(requested, completed), "registering with CUPTI"));
  pthread_mutex_lock(&collector.lock);
  collector.trace = t;
  pthread_mutex_unlock(&collector.lock);
  hs_status s = HS_GOOD;
  for (size_t k = 0; k < HS_COUNT(kinds) && hs_ok(s); k++) {
    s = cupti_check(api->enable(kinds[k]), "asking CUPTI for records");
    // records of sequences and of overhead are more than is needed
    if (!hs_ok(s) && (kinds[k] == CUPTI_GRAPH || kinds[k] == CUPTI_OVERHEAD))
      hs_status_drop(s), s = HS_GOOD;
  }
  if (!hs_ok(s)) cupti_trace_end(t);
  return s;
}

hs_status cupti_trace_mark(cupti_trace *t) {
  HS_TRY(cupti_check(t->api->flush(CUPTI_FLUSH_FORCED), "collecting CUPTI's records"));
  pthread_mutex_lock(&collector.lock);
  t->all.n = 0;
  t->dropped = t->overhead = 0;
  pthread_mutex_unlock(&collector.lock);
  return cupti_check(t->api->timestamp(&t->began), "CUPTI's clock");
}

hs_status cupti_trace_enter(cupti_trace *t, u64 id) {
  return cupti_check(t->api->push(CUPTI_CUSTOM, id), "numbering a launch");
}

hs_status cupti_trace_leave(cupti_trace *t) {
  u64 id;
  return cupti_check(t->api->pop(CUPTI_CUSTOM, &id), "numbering a launch");
}

hs_status cupti_trace_take(cupti_trace *t) {
  return cupti_check(t->api->flush(CUPTI_FLUSH_FORCED), "collecting CUPTI's records");
}

void cupti_trace_end(cupti_trace *t) {
  for (size_t k = 0; k < HS_COUNT(kinds); k++) (void)t->api->disable(kinds[k]);
  (void)t->api->flush(CUPTI_FLUSH_FORCED);
  pthread_mutex_lock(&collector.lock);
  collector.trace = NULL;
  hs_vec_free(&t->all);
  pthread_mutex_unlock(&collector.lock);
}

// ---- joining ------------------------------------------------------------------------------------

typedef struct launched {
  u32 correlation;
  u64 id;
} launched;

static int by_correlation(const void *a, const void *b) {
  u32 x = ((const launched *)a)->correlation, y = ((const launched *)b)->correlation;
  return (x > y) - (x < y);
}

u32 cupti_join(const cupti_trace *t, bool copies, u64 n, cupti_span *span) {
  HS_VEC(launched) links = {0};
  u32 lost = 0;
  for (size_t k = 0; k < t->all.n; k++)
    if (t->all.v[k].kind == CUPTI_EXTERNAL && t->all.v[k].external < n) {
      launched l = {t->all.v[k].correlation, t->all.v[k].external};
      hs_vec_push(&links, l);
    }
  if (links.n) qsort(links.v, links.n, sizeof *links.v, by_correlation);
  memset(span, 0, n * sizeof *span);
  for (size_t k = 0; k < t->all.n; k++) {
    const cupti_activity *a = &t->all.v[k];
    bool counts =
        a->kind == CUPTI_KERNEL || (copies && (a->kind == CUPTI_COPY || a->kind == CUPTI_SET));
    if (!counts || a->begin == 0) continue;
    const launched key = {.correlation = a->correlation};
    const launched *l =
        links.n ? bsearch(&key, links.v, links.n, sizeof key, by_correlation) : NULL;
    if (!l) {
      lost += a->kind == CUPTI_KERNEL;
      continue;
    }
    cupti_span *s = &span[l->id];
    u64 begin = a->begin > t->began ? a->begin - t->began : 0;  // the clocks' readings may cross
    s->begin_ns = s->records ? HS_MIN(s->begin_ns, begin) : begin;
    s->busy_ns += a->end - a->begin;
    s->records++;
  }
  hs_vec_free(&links);
  return lost;
}
