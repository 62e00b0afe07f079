// fake_nccl.c — an NCCL of our own for tests: what several devices of the emulated driver do
// together, computed by its definition, and misbehaves on request.
//
// It is as strict as the library's documentation allows it to be. Where the real one would wait for
// ever, since one thread drives all devices, it answers INVALID_USAGE and says on stderr why: a
// device of a communicator that makes no call or fewer than another, calls that come in another
// order, differ in type, count, reduction or root, a send without its receive. Memory belongs to
// the communicator's device, and so does the stream. Only memory that is the same place may be read
// and written. Work is done when the streams of all devices have come to it, so that a driver that
// is late finds out who reads a result too soon.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok           as it should be
//   old, new     says version 2.17, 3.0
//   noinit       makes no communicators
//   failing      every group of calls fails
//   missing      has no ncclAllReduce (the test renames it in its copy)
#include "backends/gpu/nccl/nccl.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/types/literal.h"
#include "tests/plugin/fake_library.h"

#define FAKE_NAME "fake_nccl"
#define FAKE_BROKEN NCCL_INVALID_USAGE

#define NCCL_FN(field, symbol, args) EXPORT nccl_result symbol args;
#include "backends/gpu/nccl/nccl.def"
#undef NCCL_FN

enum { MOST = EMU_MOST_DEVICES, MOST_CALLS = 1 << 14 };

typedef enum call_kind { REDUCE, SCATTER, GATHER, BROADCAST, SEND, RECV, SPLIT } call_kind;
static const char *const kind_names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                         "send",       "receive",        "split"};

typedef struct clique {
  int n, alive;
  nccl_comm *rank[MOST];
} clique;
struct nccl_comm {
  bool alive;
  clique *all;
  int rank;
  cuda_device device;
  cuda_event *arrived, *done;
  nccl_comm *next;  // all of them: one that was destroyed is known as such
};
static nccl_comm *comms_made;
typedef struct call {
  call_kind kind;
  bool met;  // was joined with those of the other devices
  u8 *from, *to;
  size_t count;  // as the function counts
  int type, op;  // op: the root or the peer where nothing is reduced; a split's color
  int key;
  nccl_comm *comm, **out;
  cuda_stream *stream;
} call;
static call calls[MOST_CALLS];  // of the group that is open
static int ncalls, depth;
static nccl_result group_said;  // the first error of one of its calls

static bool broken(const char *why, const call *c) {
  (void)fprintf(stderr, "fake_nccl: device %d, %s: %s\n", c->comm->device, kind_names[c->kind],
                why);
  return false;
}

// ---- numbers ------------------------------------------------------------------------------------
static const u8 type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static bool is_real(int type) { return type >= NCCL_NUMBER_FLOAT16; }

static double real_at(int type, const u8 *p) {
  float f;
  double d;
  u16 h;
  if (type == NCCL_NUMBER_FLOAT64) return memcpy(&d, p, 8), d;
  if (type == NCCL_NUMBER_FLOAT32) return memcpy(&f, p, 4), (double)f;
  memcpy(&h, p, 2);
  return (double)(type == NCCL_NUMBER_FLOAT16 ? hlo_f16_to_f32(h) : hlo_bf16_to_f32(h));
}

static void real_put(int type, u8 *p, double v) {
  float f = (float)v;
  u16 h = type == NCCL_NUMBER_FLOAT16 ? hlo_f32_to_f16(f) : hlo_f32_to_bf16(f);
  if (type == NCCL_NUMBER_FLOAT64) memcpy(p, &v, 8);
  else if (type == NCCL_NUMBER_FLOAT32) memcpy(p, &f, 4);
  else memcpy(p, &h, 2);
}

static double real_of(int op, double a, double b) {
  if (op == NCCL_NUMBER_SUM) return a + b;
  if (op == NCCL_NUMBER_PROD) return a * b;
  return op == NCCL_NUMBER_MAX ? HS_MAX(a, b) : HS_MIN(a, b);
}

static bool is_signed(int type) {
  return type == NCCL_NUMBER_INT8 || type == NCCL_NUMBER_INT32 || type == NCCL_NUMBER_INT64;
}

static u64 whole_at(int type, const u8 *p) {
  u64 v = 0;
  memcpy(&v, p, type_bytes[type]);
  u32 unused = 64 - 8u * type_bytes[type];
  return is_signed(type) ? (u64)((i64)(v << unused) >> unused) : v;
}

static u64 whole_of(int type, int op, u64 a, u64 b) {
  if (op == NCCL_NUMBER_SUM) return a + b;
  if (op == NCCL_NUMBER_PROD) return a * b;
  bool less = is_signed(type) ? (i64)a < (i64)b : a < b;
  return less == (op == NCCL_NUMBER_MIN) ? a : b;
}

static void combine(int type, int op, u8 *to, const u8 *from) {
  if (is_real(type)) {
    real_put(type, to, real_of(op, real_at(type, to), real_at(type, from)));
    return;
  }
  u64 v = whole_of(type, op, whole_at(type, to), whole_at(type, from));
  memcpy(to, &v, type_bytes[type]);
}

// ---- work ---------------------------------------------------------------------------------------
typedef struct work {
  int n;
  call at[MOST];  // by rank; of a send and its receive: the one, the other
} work;

static size_t read_bytes(const call *c) {
  size_t n = c->count * type_bytes[c->type];
  if (c->kind == RECV) return 0;
  return c->kind == SCATTER ? n * (size_t)c->comm->all->n : n;
}

static size_t written_bytes(const call *c) {
  size_t n = c->count * type_bytes[c->type];
  if (c->kind == SEND) return 0;
  return c->kind == GATHER ? n * (size_t)c->comm->all->n : n;
}

static void reduce(const work *w, u8 *out, size_t n) {
  size_t one = type_bytes[w->at[0].type];
  memcpy(out, w->at[0].from, n);
  for (int r = 1; r < w->n; r++)
    for (size_t k = 0; k < n; k += one)
      combine(w->at[0].type, w->at[0].op, out + k, w->at[r].from + k);
}

// All of the result first, then its parts: results may lie where operands do. Runs once, as nothing
// here is recorded.
static void together(void *arg) {
  const work *w = arg;
  const call *c = &w->at[0];
  size_t one = c->count * type_bytes[c->type], all = one * (size_t)w->n;
  u8 *result = calloc(1, all + 1);
  if (c->kind == REDUCE) reduce(w, result, one);
  if (c->kind == SCATTER) reduce(w, result, all);
  if (c->kind == BROADCAST) memcpy(result, w->at[c->op].from, one);
  if (c->kind == SEND) memcpy(result, c->from, one);
  for (int r = 0; r < w->n && c->kind == GATHER; r++)
    memcpy(result + one * (size_t)r, w->at[r].from, one);
  for (int r = c->kind == SEND; r < w->n; r++)
    memcpy(w->at[r].to, result + (c->kind == SCATTER ? one * (size_t)r : 0),
           written_bytes(&w->at[r]));
  free(result);
  free(arg);
}

#define DRIVER(r, symbol, args, ...)                     \
  do {                                                   \
    int(*fn_) args;                                      \
    *(void **)(void *)&fn_ = emu_api_symbol(#symbol);    \
    if ((r) && fn_(__VA_ARGS__) != CUDA_OK) (r) = false; \
  } while (0)
#define WAIT(r, stream, event) \
  DRIVER(r, cuStreamWaitEvent, (cuda_stream *, cuda_event *, unsigned), stream, event, 0)
#define MARK(r, event, stream) \
  DRIVER(r, cuEventRecord, (cuda_event *, cuda_stream *), event, stream)

// A copy, which is gone as soon as it is done.
static bool later(cuda_stream *stream, const work *w) {
  work *own = malloc(sizeof *own);
  *own = *w;
  return enqueue(stream, together, own);
}

// The first of the streams does the work, after all have come to it; the others wait for that.
static bool meet(const work *w) {
  const call *first = &w->at[0];
  bool ok = true;
  for (int r = 1; r < w->n; r++) {
    MARK(ok, w->at[r].comm->arrived, w->at[r].stream);
    WAIT(ok, first->stream, w->at[r].comm->arrived);
  }
  ok = ok && later(first->stream, w);
  MARK(ok, first->comm->done, first->stream);
  for (int r = 1; r < w->n; r++) WAIT(ok, w->at[r].stream, first->comm->done);
  return ok;
}

// ---- communicators ------------------------------------------------------------------------------
static bool on_its(cuda_device d, const u8 *p, size_t n) {
  API_CALL_ANY();
  const void *start;
  size_t bytes;
  cuda_context *c = api.contexts[d];
  if (n == 0) return true;
  return c && emu_device_find(c->device, p, &start, &bytes) &&
         n <= bytes - (size_t)(p - (const u8 *)start);
}

static nccl_comm *comm_new(clique *all, int rank, cuda_device device) {
  nccl_comm *c = calloc(1, sizeof *c);
  *c = (nccl_comm){.alive = true, .all = all, .rank = rank, .device = device, .next = comms_made};
  comms_made = c;
  cuda_context *before = api.context;
  bool ok = api.contexts[device] != NULL;
  DRIVER(ok, cuCtxSetCurrent, (cuda_context *), api.contexts[device]);
  DRIVER(ok, cuEventCreate, (cuda_event **, unsigned), &c->arrived, CUDA_EVENT_NO_TIMING);
  DRIVER(ok, cuEventCreate, (cuda_event **, unsigned), &c->done, CUDA_EVENT_NO_TIMING);
  bool back = true;
  DRIVER(back, cuCtxSetCurrent, (cuda_context *), before);
  all->rank[rank] = c;
  all->n = HS_MAX(all->n, rank + 1);
  return ok && back ? c : NULL;
}

nccl_result ncclGetVersion(int *version) {
  *version = is("old") ? 21706 : is("new") ? 30000 : 22703;
  return NCCL_OK;
}

nccl_result ncclCommInitAll(nccl_comm **comms, int n, const int *devices) {
  RULE(comms && n >= 1 && n <= MOST && !depth);
  if (is("noinit")) return NCCL_UNHANDLED_CUDA;
  for (int k = 0; k < n; k++) {
    int d = devices ? devices[k] : k;
    RULE(d >= 0 && d < MOST && api.contexts[d]);
    for (int j = 0; j < k && devices; j++) RULE(devices[j] != d);
  }
  clique *all = calloc(1, sizeof *all);
  for (int k = 0; k < n; k++)
    if (!(comms[k] = comm_new(all, k, devices ? devices[k] : k))) return NCCL_UNHANDLED_CUDA;
  return NCCL_OK;
}

nccl_result ncclCommDestroy(nccl_comm *comm) {
  RULE(comm && comm->alive && !depth);
  comm->alive = false;
  bool ok = true;
  DRIVER(ok, cuEventDestroy_v2, (cuda_event *), comm->arrived);
  DRIVER(ok, cuEventDestroy_v2, (cuda_event *), comm->done);
  return ok ? NCCL_OK : NCCL_UNHANDLED_CUDA;
}

nccl_result ncclCommGetAsyncError(nccl_comm *comm, nccl_result *what) {
  RULE(comm && comm->alive && what);
  *what = NCCL_OK;
  return NCCL_OK;
}

// ---- groups -------------------------------------------------------------------------------------
static bool of(const call *c, const nccl_comm *comm) {
  return !c->met && c->comm == comm && c->kind != SEND && c->kind != RECV;
}

static call *first_of(const nccl_comm *comm) {
  for (int k = 0; k < ncalls; k++)
    if (of(&calls[k], comm)) return &calls[k];
  return NULL;
}

// The next call of every device of a communicator, which must be the same.
static bool join_all(const call *c) {
  const clique *all = c->comm->all;
  work w = {.n = all->n};
  for (int r = 0; r < all->n; r++) {
    call *x = first_of(all->rank[r]);
    if (!x) return broken("another device of the communicator does not call", c);
    if (x->kind != c->kind) return broken("another device calls something else", c);
    if (x->type != c->type) return broken("another device has another type", c);
    if (x->count != c->count) return broken("another device has another count", c);
    if (x->op != c->op && c->kind != SPLIT)
      return broken("another device has another reduction or root", c);
    w.at[r] = *x;
    x->met = true;
  }
  if (c->kind != SPLIT) return meet(&w);
  clique *parts[MOST] = {0};
  for (int turn = 0; turn < all->n; turn++) {  // in order of keys, then of ranks
    int best = -1;
    for (int r = 0; r < all->n; r++)
      if (w.at[r].comm && (best < 0 || w.at[r].key < w.at[best].key)) best = r;
    call *x = &w.at[best];
    if (x->op >= MOST) return broken("a color that is too large", c);
    if (x->op >= 0 && !parts[x->op]) parts[x->op] = calloc(1, sizeof **parts);
    *x->out = x->op < 0 ? NULL : comm_new(parts[x->op], parts[x->op]->n, x->comm->device);
    if (x->op >= 0 && !*x->out) return broken("no events", c);
    x->comm = NULL;
  }
  return true;
}

static bool join_pair(call *c) {
  for (int k = 0; k < ncalls; k++) {
    call *x = &calls[k];
    if (x->met || x->comm->all != c->comm->all || x->kind + c->kind != SEND + RECV ||
        x->kind == c->kind || x->op != c->comm->rank || c->op != x->comm->rank)
      continue;
    if (x->type != c->type) return broken("its other end has another type", c);
    if (x->count != c->count) return broken("its other end has another count", c);
    c->met = x->met = true;
    bool self = x->comm == c->comm && x->stream == c->stream;
    work w = {.n = 2, .at = {c->kind == SEND ? *c : *x, c->kind == SEND ? *x : *c}};
    return self ? later(c->stream, &w) : meet(&w);
  }
  return broken("it has no other end", c);
}

nccl_result ncclGroupStart(void) {
  depth++;
  return NCCL_OK;
}

nccl_result ncclGroupEnd(void) {
  RULE(depth > 0);
  if (--depth) return NCCL_OK;
  nccl_result r = is("failing") && ncalls ? NCCL_INTERNAL : group_said;
  for (int k = 0; k < ncalls && r == NCCL_OK; k++) {
    call *c = &calls[k];
    if (c->met) continue;
    bool pair = c->kind == SEND || c->kind == RECV;
    if (!(pair ? join_pair(c) : join_all(c))) r = NCCL_INVALID_USAGE;
  }
  ncalls = 0;
  group_said = NCCL_OK;
  return r;
}

static bool apart(const call *c) {
  size_t in = read_bytes(c), out = written_bytes(c), one = c->count * type_bytes[c->type];
  if (!in || !out || c->from + in <= c->to || c->to + out <= c->from) return true;
  size_t mine = one * (size_t)c->comm->rank;
  return c->kind == GATHER    ? c->from == c->to + mine
         : c->kind == SCATTER ? c->to == c->from + mine
                              : c->from == c->to;
}

static nccl_result check(const call *c) {
  const nccl_comm *comm = c->comm;
  RULE(comm && comm->alive && ncalls < MOST_CALLS);
  if (c->kind == SPLIT) return NCCL_OK;
  RULE(c->type >= 0 && c->type < (int)HS_COUNT(type_bytes));
  RULE(c->op >= 0 && c->op < (c->kind <= SCATTER ? 4 : comm->all->n));
  RULE(api_is(c->stream, API_STREAM) && c->stream->o.context == api.contexts[comm->device]);
  RULE(!is_captured(c->stream));
  RULE((uintptr_t)c->from % type_bytes[c->type] == 0 &&
       (uintptr_t)c->to % type_bytes[c->type] == 0);
  bool reads = c->kind != BROADCAST || c->op == comm->rank;
  RULE(!reads || on_its(comm->device, c->from, read_bytes(c)));
  RULE(on_its(comm->device, c->to, written_bytes(c)));
  RULE(!reads || apart(c));
  return NCCL_OK;
}

// A call outside of a group is one of its own.
static nccl_result add(call c) {
  (void)ncclGroupStart();
  nccl_result r = check(&c);
  if (r == NCCL_OK) calls[ncalls++] = c;
  else if (group_said == NCCL_OK) group_said = r;
  nccl_result end = ncclGroupEnd();
  return r != NCCL_OK ? r : end;
}

#define AT(p) ((u8 *)(uintptr_t)(p))
nccl_result ncclCommSplit(nccl_comm *comm, int color, int key, nccl_comm **out, void *config) {
  RULE(out && !config && color >= -1 && key >= 0);
  return add((call){.kind = SPLIT, .comm = comm, .op = color, .key = key, .out = out});
}

nccl_result ncclAllReduce(cuda_ptr from, cuda_ptr to, size_t count, int type, int op,
                          nccl_comm *comm, cuda_stream *stream) {
  return add((call){REDUCE, false, AT(from), AT(to), count, type, op, 0, comm, NULL, stream});
}

nccl_result ncclReduceScatter(cuda_ptr from, cuda_ptr to, size_t received, int type, int op,
                              nccl_comm *comm, cuda_stream *stream) {
  return add((call){SCATTER, false, AT(from), AT(to), received, type, op, 0, comm, NULL, stream});
}

nccl_result ncclAllGather(cuda_ptr from, cuda_ptr to, size_t sent, int type, nccl_comm *comm,
                          cuda_stream *stream) {
  return add((call){GATHER, false, AT(from), AT(to), sent, type, 0, 0, comm, NULL, stream});
}

nccl_result ncclBroadcast(cuda_ptr from, cuda_ptr to, size_t count, int type, int root,
                          nccl_comm *comm, cuda_stream *stream) {
  return add((call){BROADCAST, false, AT(from), AT(to), count, type, root, 0, comm, NULL, stream});
}

nccl_result ncclSend(cuda_ptr from, size_t count, int type, int peer, nccl_comm *comm,
                     cuda_stream *stream) {
  return add((call){SEND, false, AT(from), NULL, count, type, peer, 0, comm, NULL, stream});
}

nccl_result ncclRecv(cuda_ptr to, size_t count, int type, int peer, nccl_comm *comm,
                     cuda_stream *stream) {
  return add((call){RECV, false, NULL, AT(to), count, type, peer, 0, comm, NULL, stream});
}
