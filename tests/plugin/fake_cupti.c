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
//   older   has no cuptiRangeProfilerStart (likewise)
//   uncounted  this user may not have counters
//   fewer   its chip does not count what tensor cores do
//   full    has room for two ranges
//
// Its counters: a kernel reads four bytes and writes two for each of its threads, and a quarter of
// its time is tensor cores'. Each of them takes a pass of its own. Structures of another size,
// names that it does not know, and calls out of order are refused, and it says on stderr which.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/cupti/counters.h"
#include "backends/gpu/emu/api.h"
#include "tests/plugin/fake_mode.h"

enum { COPY = 1, SET = 2, DRIVER = 4, KERNEL = 10, EXTERNAL = 39, GRAPH = 51, KINDS = 64 };
enum {
  OK = 0,
  INVALID = 1,
  MAX_LIMIT = 12,
  QUEUE_EMPTY = 18,
  INVALID_KIND = 21,
  DENIED = 35,
  BUSY = 39,
  NO_SUCH_METRIC = 17
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
typedef struct call_record {
  u32 kind, function;
  u64 start, end;
  u32 process, thread, correlation, answer;
} call_record;
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
_Static_assert(sizeof(external_record) == 24 && sizeof(graph_record) == 48 &&
                   sizeof(call_record) == 40,
               "as CUPTI's");

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
  case DRIVER: return sizeof(call_record);
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

// ---- ranges -------------------------------------------------------------------------------------
enum { MOST_METRICS = 8, MOST_CALLS = 1 << 16, NAME = 24, NONE = -1 };
typedef struct counted {
  char name[NAME];
  double value[COUNTERS_METRICS];
} counted;
typedef struct image {
  u64 magic;
  size_t bytes, room, used;
  u8 have[COUNTERS_METRICS];  // passes
  counted range[];
} image;
#define MAGIC 0x6b6e617266616bULL

static struct {
  bool enabled, set, in_pass, open;
  image *data;
  int metric[MOST_METRICS];                           // of each pass
  size_t passes, pass, next, room, dropped, running;  // running: of the open range
  i32 range_of[MOST_CALLS];                           // by correlation; NONE
} ranges;

static void count_kernel(const emu_work *w) {
  i32 at = ranges.range_of[w->correlation % MOST_CALLS];
  if (!ranges.in_pass || at == NONE) return;
  double threads = 1, ns = (double)(w->end_ns - w->begin_ns);
  for (int k = 0; k < 3; k++) threads *= (double)w->grid[k] * w->block[k];
  double *v = ranges.data->range[at].value;
  switch (ranges.metric[ranges.pass]) {
  case COUNTERS_READ: v[COUNTERS_READ] += 4 * threads; break;
  case COUNTERS_WRITTEN: v[COUNTERS_WRITTEN] += 2 * threads; break;
  case COUNTERS_TENSOR: v[COUNTERS_TENSOR] = 25; break;
  default: v[COUNTERS_TIME] += ns + 1; break;
  }
}

// ---- what the driver does -----------------------------------------------------------------------
static void end_graph(void) {
  if (fake.graph.kind) put(&fake.graph, sizeof fake.graph);
  fake.graph.kind = 0;
}

static void asked(u32 correlation) {
  (void)pthread_mutex_lock(&fake.lock);
  end_graph();
  ranges.range_of[correlation % MOST_CALLS] =
      ranges.in_pass && ranges.open && ranges.next <= ranges.room ? (i32)ranges.next - 1 : NONE;
  ranges.running += ranges.range_of[correlation % MOST_CALLS] != NONE;
  external_record r = {.kind = EXTERNAL, .external_kind = CUSTOM, .correlation = correlation};
  call_record call = {.kind = DRIVER, .correlation = correlation};
  // numbers go with the records of calls, before them
  if (depth && fake.enabled[EXTERNAL] && fake.enabled[DRIVER]) {
    r.id = external[depth - 1];
    put(&r, sizeof r);
  }
  if (fake.enabled[DRIVER]) put(&call, sizeof call);
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
  if (w->kind == EMU_WORK_KERNEL) count_kernel(w);
  ranges.running -= ranges.running && ranges.range_of[w->correlation % MOST_CALLS] != NONE;
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

// ---- counters -----------------------------------------------------------------------------------
#define COUNTERS_FN(field, symbol, args, last, theirs) EXPORT int symbol(args *);
#include "backends/gpu/cupti/counters.def"
#undef COUNTERS_FN
enum {
#define COUNTERS_FN(field, symbol, args, last, theirs) \
  BYTES_##field = offsetof(args, last) + sizeof(((args *)0)->last),
#include "backends/gpu/cupti/counters.def"
#undef COUNTERS_FN
};
#define RULE(x) \
  if (!(x)) return (void)fprintf(stderr, "fake_cupti: %s\n", #x), INVALID
#define SIZED(field) RULE(p && p->bytes_of == BYTES_##field && !p->unused)

static const char *const metrics[] = {
#define METRIC(NAME, name) name,
#include "backends/gpu/cupti/metrics.def"
#undef METRIC
};

typedef struct host {
  u64 magic;
  int metric[MOST_METRICS];
  size_t n;
} host;

static int metric_of(const char *name) {
  int k = 0;
  while (k < COUNTERS_METRICS && strcmp(metrics[k], name) != 0) k++;
  return k == COUNTERS_METRICS || (is("fewer") && k == COUNTERS_TENSOR) ? NONE : k;
}

int cuptiProfilerInitialize(counters_any *p) {
  SIZED(start_up);
  return OK;
}

int cuptiDeviceGetChipName(counters_chip *p) {
  SIZED(chip);
  RULE(p->device == 0);
  p->name = "GH100";
  return OK;
}

int cuptiProfilerGetCounterAvailability(counters_available *p) {
  SIZED(available);
  RULE(p->context && !ranges.enabled);
  if (is("uncounted")) return DENIED;
  if (p->image) RULE(p->bytes == 8);
  p->bytes = 8;
  if (p->image) memset(p->image, 0x5a, p->bytes);
  return OK;
}

int cuptiProfilerHostInitialize(counters_host *p) {
  SIZED(host_new);
  RULE(p->kind == COUNTERS_BY_RANGE && p->chip && strcmp(p->chip, "GH100") == 0);
  RULE(p->available && p->available[0] == 0x5a);
  host *h = calloc(1, sizeof *h);
  h->magic = MAGIC;
  p->host = h;
  return OK;
}

int cuptiProfilerHostDeinitialize(counters_host_end *p) {
  SIZED(host_free);
  host *h = p->host;
  RULE(h && h->magic == MAGIC);
  h->magic = 0;
  return free(h), OK;
}

int cuptiProfilerHostConfigAddMetrics(counters_add *p) {
  SIZED(add);
  host *h = p->host;
  RULE(h && h->magic == MAGIC && h->n + p->n <= MOST_METRICS);
  for (size_t k = 0; k < p->n; k++) {
    int m = metric_of(p->names[k]);
    if (m == NONE) return NO_SUCH_METRIC;
    h->metric[h->n++] = m;
  }
  return OK;
}

int cuptiProfilerHostGetConfigImageSize(counters_config_size *p) {
  SIZED(config_size);
  RULE(p->host);
  p->bytes = sizeof(host);
  return OK;
}

int cuptiProfilerHostGetConfigImage(counters_config *p) {
  SIZED(config);
  RULE(p->host && p->image && p->bytes == sizeof(host));
  memcpy(p->image, p->host, sizeof(host));
  return OK;
}

int cuptiProfilerHostGetNumOfPasses(counters_passes *p) {
  SIZED(passes);
  RULE(p->image && p->bytes == sizeof(host));
  p->passes = ((const host *)(const void *)p->image)->n;
  return OK;
}

int cuptiRangeProfilerEnable(counters_enable *p) {
  SIZED(enable);
  RULE(p->context && !ranges.enabled);
  ranges.enabled = true;
  ranges.set = ranges.in_pass = ranges.open = false;
  ranges.running = 0;
  ranges.data = NULL;
  p->profiler = &ranges;
  emu_api_observe(&(emu_observer){asked, did});
  return OK;
}

int cuptiRangeProfilerDisable(counters_of *p) {
  SIZED(disable);
  RULE(p->profiler == &ranges && ranges.enabled && !ranges.in_pass);
  ranges.enabled = false;
  return OK;
}

int cuptiRangeProfilerGetCounterDataSize(counters_data_size *p) {
  SIZED(data_size);
  RULE(p->profiler == &ranges && ranges.enabled && p->n && p->ranges && p->nodes >= p->ranges);
  for (size_t k = 0; k < p->n; k++) RULE(metric_of(p->names[k]) != NONE);
  p->bytes = sizeof(image) + p->ranges * sizeof(counted);
  return OK;
}

int cuptiRangeProfilerCounterDataImageInitialize(counters_data *p) {
  SIZED(data_new);
  RULE(p->profiler == &ranges && p->image && p->bytes > sizeof(image));
  image *d = (image *)(void *)p->image;
  memset(d, 0, p->bytes);
  *d = (image){.magic = MAGIC, .bytes = p->bytes, .room = (p->bytes - sizeof *d) / sizeof(counted)};
  return OK;
}

int cuptiRangeProfilerSetConfig(counters_set *p) {
  SIZED(set);
  RULE(p->profiler == &ranges && ranges.enabled && !ranges.in_pass);
  RULE(p->config && p->config_bytes == sizeof(host) && p->data);
  image *d = (image *)(void *)p->data;
  RULE(d->magic == MAGIC && d->bytes == p->data_bytes && p->ranges <= d->room);
  RULE(p->range == COUNTERS_OUR_RANGES && p->replay == COUNTERS_OUR_REPLAY);
  RULE(p->levels == 1 && p->least_level == 1 && p->pass == 0);
  const host *h = (const host *)(const void *)p->config;
  RULE(h->magic == MAGIC && h->n > 0);
  ranges.passes = h->n;
  memcpy(ranges.metric, h->metric, sizeof h->metric);
  ranges.room = is("full") ? 2 : p->ranges;
  ranges.data = d;
  ranges.pass = ranges.dropped = 0;
  ranges.set = true;
  return OK;
}

int cuptiRangeProfilerStart(counters_of *p) {
  SIZED(start);
  RULE(p->profiler == &ranges && ranges.set && !ranges.in_pass && ranges.pass < ranges.passes);
  ranges.in_pass = true;
  ranges.next = 0;
  return OK;
}

int cuptiRangeProfilerStop(counters_stop *p) {
  SIZED(stop);
  RULE(p->profiler == &ranges && ranges.in_pass && !ranges.open);
  ranges.in_pass = false;
  ranges.data->have[ranges.metric[ranges.pass]] = 1;
  p->pass = ++ranges.pass;
  p->level = 1;
  p->all = ranges.pass == ranges.passes;
  return OK;
}

int cuptiRangeProfilerPushRange(counters_push *p) {
  SIZED(push);
  RULE(p->profiler == &ranges && ranges.in_pass && !ranges.open);
  RULE(p->name && strlen(p->name) < NAME);
  ranges.open = true;
  size_t at = ranges.next++;
  if (at >= ranges.room) return ranges.dropped++, OK;
  counted *r = &ranges.data->range[at];
  if (ranges.pass) RULE(strcmp(r->name, p->name) == 0);  // the same work again
  strcpy(r->name, p->name);
  if (ranges.data->used <= at) ranges.data->used = at + 1;
  return OK;
}

int cuptiRangeProfilerPopRange(counters_of *p) {
  SIZED(pop);
  RULE(p->profiler == &ranges && ranges.in_pass && ranges.open && ranges.running == 0);
  ranges.open = false;
  return OK;
}

int cuptiRangeProfilerDecodeData(counters_decode *p) {
  SIZED(decode);
  RULE(p->profiler == &ranges && ranges.set && !ranges.in_pass && ranges.pass == ranges.passes);
  p->dropped = ranges.dropped;
  return OK;
}

int cuptiRangeProfilerGetCounterDataInfo(counters_ranges *p) {
  SIZED(ranges);
  const image *d = (const image *)(const void *)p->data;
  RULE(d && d->magic == MAGIC && d->bytes == p->bytes);
  p->n = d->used;
  return OK;
}

int cuptiRangeProfilerCounterDataGetRangeInfo(counters_range *p) {
  SIZED(range);
  const image *d = (const image *)(const void *)p->data;
  RULE(d && d->magic == MAGIC && d->bytes == p->bytes && p->range < d->used && p->delimiter);
  p->name = d->range[p->range].name;
  return OK;
}

int cuptiProfilerHostEvaluateToGpuValues(counters_evaluate *p) {
  SIZED(evaluate);
  const image *d = (const image *)(const void *)p->data;
  RULE(p->host && d && d->magic == MAGIC && d->bytes == p->bytes && p->range < d->used);
  for (size_t k = 0; k < p->n; k++) {
    int m = metric_of(p->names[k]);
    if (m == NONE) return NO_SUCH_METRIC;
    p->values[k] = d->have[m] ? d->range[p->range].value[m] : (double)NAN;
  }
  return OK;
}
