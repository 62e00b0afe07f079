// fake_cupti.c — a CUPTI of our own for tests: records of what the emulated driver did (its
// observer, backends/gpu/emu/api.h), laid out as CUPTI's, in buffers that it asks for; and it
// misbehaves on request.
//
// What it does stands in its own file name, as for fake_cuda.c: NAME-MODE.so. Modes:
//   ok      all records
//   small   gives buffers back after every second record
//   drops   loses every third record, and says so
//   busy    another profiler is there
//   denied  this user may not have records
//   short   has no cuptiActivityFlushAll (the test renames it in its copy)
#include <pthread.h>
#include <stdlib.h>

#include "backends/gpu/emu/api.h"
#include "tests/plugin/fake_mode.h"

enum { COPY = 1, SET = 2, KERNEL = 10, EXTERNAL = 39, GRAPH = 51, KINDS = 64 };
enum {
  OK = 0,
  INVALID = 1,
  MAX_LIMIT = 12,
  QUEUE_EMPTY = 18,
  INVALID_KIND = 21,
  DENIED = 35,
  BUSY = 39
};
enum { CUSTOM = 3, DEEPEST = 16 };

typedef struct kernel_record {
  u32 kind;
  u16 cache, registers;
  u32 partitioned[2];
  u64 start, end, completed;
  u32 device, context, stream;
  i32 grid[3], block[3];
  u32 static_bytes, dynamic_bytes, local_bytes, local_total, correlation;
  i64 grid_id;
  const char *name;
  u8 rest[208 - 112];
} kernel_record;
typedef struct transfer_record {  // copies and fills
  u32 kind;
  u8 how[4];
  u64 bytes, start, end;
  u32 device, context, stream, correlation;
  u8 rest[88 - 48];
} transfer_record;
typedef struct external_record {
  u32 kind, external_kind;
  u64 id;
  u32 correlation, pad;
} external_record;
typedef struct graph_record {
  u32 kind, correlation;
  u64 start, end;
  u32 device, graph, context, stream;
  void *rest;
} graph_record;
_Static_assert(sizeof(kernel_record) == 208 && offsetof(kernel_record, correlation) == 92 &&
                   offsetof(kernel_record, name) == 104,
               "as CUpti_ActivityKernel9");
_Static_assert(sizeof(transfer_record) == 88 && offsetof(transfer_record, correlation) == 44,
               "as CUpti_ActivityMemcpy5");
_Static_assert(sizeof(external_record) == 24 && sizeof(graph_record) == 48, "as CUPTI's");

typedef void requested_fn(u8 **buffer, size_t *size, size_t *most);
typedef void completed_fn(void *context, u32 stream, u8 *buffer, size_t size, size_t valid);

static struct {
  pthread_mutex_t lock;
  requested_fn *requested;
  completed_fn *completed;
  bool enabled[KINDS];
  u8 *buffer;
  size_t size, used, records;
  size_t dropped, seen;
  graph_record graph;  // of the launch that runs; kind 0: none
} fake = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};
static _Thread_local u64 external[DEEPEST];
static _Thread_local u32 depth;

// ---- buffers ------------------------------------------------------------------------------------
static size_t bytes_of(u32 kind) {
  switch (kind) {
  case KERNEL: return sizeof(kernel_record);
  case COPY:
  case SET: return sizeof(transfer_record);
  case EXTERNAL: return sizeof(external_record);
  case GRAPH: return sizeof(graph_record);
  default: return 0;
  }
}

static void give_back(void) {
  u8 *b = fake.buffer;
  fake.buffer = NULL;
  if (b) fake.completed(NULL, 0, b, fake.size, fake.used);
}

static void put(const void *record, size_t n) {
  if (is("drops") && ++fake.seen % 3 == 0) {
    fake.dropped++;
    return;
  }
  if (fake.buffer && (fake.size - fake.used < n || (is("small") && fake.records == 2))) give_back();
  if (!fake.buffer) {
    size_t most = 0;
    fake.used = fake.records = fake.size = 0;
    if (fake.requested) fake.requested(&fake.buffer, &fake.size, &most);
  }
  if (!fake.buffer || fake.size - fake.used < n) {
    fake.dropped++;
    return;
  }
  memcpy(fake.buffer + fake.used, record, n);
  fake.used += n;
  fake.records++;
}

// ---- what the driver does -----------------------------------------------------------------------
static void end_graph(void) {
  if (fake.graph.kind) put(&fake.graph, sizeof fake.graph);
  fake.graph.kind = 0;
}

static void asked(u32 correlation) {
  (void)pthread_mutex_lock(&fake.lock);
  end_graph();
  external_record r = {.kind = EXTERNAL, .external_kind = CUSTOM, .correlation = correlation};
  if (depth && fake.enabled[EXTERNAL]) {
    r.id = external[depth - 1];
    put(&r, sizeof r);
  }
  (void)pthread_mutex_unlock(&fake.lock);
}

// Of a recorded sequence one record is made, not one for each of its parts.
static bool part_of_graph(const emu_work *w) {
  if (!w->of_graph || !fake.enabled[GRAPH]) return false;
  if (fake.graph.kind && fake.graph.correlation != w->correlation) end_graph();
  if (!fake.graph.kind)
    fake.graph = (graph_record){.kind = GRAPH, .correlation = w->correlation, .start = w->begin_ns};
  fake.graph.end = w->end_ns;
  return true;
}

static void did(const emu_work *w) {
  (void)pthread_mutex_lock(&fake.lock);
  if (part_of_graph(w)) {
  } else if (w->kind == EMU_WORK_KERNEL && fake.enabled[KERNEL]) {
    kernel_record r = {
      .kind = KERNEL,
      .registers = 32,
      .start = w->begin_ns,
      .end = w->end_ns,
      .completed = w->end_ns,
      .static_bytes = w->static_bytes,
      .dynamic_bytes = w->dynamic_bytes,
      .correlation = w->correlation,
      .name = w->name
    };
    for (int k = 0; k < 3; k++) r.grid[k] = (i32)w->grid[k], r.block[k] = (i32)w->block[k];
    put(&r, sizeof r);
  } else if (w->kind != EMU_WORK_KERNEL && fake.enabled[w->kind == EMU_WORK_COPY ? COPY : SET]) {
    transfer_record r = {.kind = w->kind == EMU_WORK_COPY ? COPY : SET,
                         .how = {(u8)w->copy},
                         .bytes = w->bytes,
                         .start = w->begin_ns,
                         .end = w->end_ns,
                         .correlation = w->correlation};
    put(&r, sizeof r);
  }
  (void)pthread_mutex_unlock(&fake.lock);
}

// ---- its functions ------------------------------------------------------------------------------
EXPORT int cuptiGetVersion(u32 *version);
EXPORT int cuptiGetTimestamp(u64 *ns);
EXPORT int cuptiActivityRegisterCallbacks(requested_fn *requested, completed_fn *completed);
EXPORT int cuptiActivityEnable(int kind);
EXPORT int cuptiActivityDisable(int kind);
EXPORT int cuptiActivityFlushAll(u32 flags);
EXPORT int cuptiActivityGetNextRecord(u8 *buffer, size_t valid, void **record);
EXPORT int cuptiActivityGetNumDroppedRecords(void *context, u32 stream, size_t *count);
EXPORT int cuptiActivityPushExternalCorrelationId(int kind, u64 id);
EXPORT int cuptiActivityPopExternalCorrelationId(int kind, u64 *id);

int cuptiGetVersion(u32 *version) {
  *version = 130000;
  return OK;
}

int cuptiGetTimestamp(u64 *ns) {
  *ns = hs_now_ns();
  return OK;
}

int cuptiActivityRegisterCallbacks(requested_fn *requested, completed_fn *completed) {
  if (is("busy")) return BUSY;
  if (!requested || !completed) return INVALID;
  fake.requested = requested;
  fake.completed = completed;
  emu_api_observe(&(emu_observer){asked, did});
  return OK;
}

int cuptiActivityEnable(int kind) {
  if (is("denied")) return DENIED;
  if (kind <= 0 || kind >= KINDS) return INVALID_KIND;
  fake.enabled[kind] = true;
  return OK;
}

int cuptiActivityDisable(int kind) {
  if (kind <= 0 || kind >= KINDS) return INVALID_KIND;
  fake.enabled[kind] = false;
  return OK;
}

int cuptiActivityFlushAll(u32 flags) {
  (void)flags;
  (void)pthread_mutex_lock(&fake.lock);
  end_graph();
  give_back();
  (void)pthread_mutex_unlock(&fake.lock);
  return OK;
}

int cuptiActivityGetNextRecord(u8 *buffer, size_t valid, void **record) {
  u8 *next = buffer;
  u32 kind;
  if (*record) {
    memcpy(&kind, *record, sizeof kind);
    next = (u8 *)*record + bytes_of(kind);
  }
  if (next >= buffer + valid) return MAX_LIMIT;
  *record = next;
  return OK;
}

int cuptiActivityGetNumDroppedRecords(void *context, u32 stream, size_t *count) {
  (void)context, (void)stream;
  *count = fake.dropped;
  fake.dropped = 0;
  return OK;
}

int cuptiActivityPushExternalCorrelationId(int kind, u64 id) {
  if (kind != CUSTOM || depth == DEEPEST) return INVALID;
  external[depth++] = id;
  return OK;
}

int cuptiActivityPopExternalCorrelationId(int kind, u64 *id) {
  if (kind != CUSTOM) return INVALID;
  if (depth == 0) return QUEUE_EMPTY;
  *id = external[--depth];
  return OK;
}
