// buffer.c — buffers: dense row-major bytes on the host, shared by reference between a buffer,
// the programs that read it, and who holds its pointer. Deleting a buffer, or giving it away,
// drops its reference; the bytes live as long as somebody has one.
#include "plugin/plugin.h"

#include "backends/block.h"
#include "core/types/literal.h"

// ---- bytes --------------------------------------------------------------------------------------
static void count(pj_client *c, i64 n) {
  i64 now = atomic_fetch_add(&c->bytes, n) + n, peak = atomic_load(&c->peak);
  while (now > peak && !atomic_compare_exchange_weak(&c->peak, &peak, now)) {}
  if (n > 0) atomic_fetch_add(&c->allocations, 1);
}

plug_bytes *plug_bytes_promised(pj_client *c, size_t n) {
  plug_bytes *b = hs_alloc(sizeof *b);
  *b = (plug_bytes){.client = plug_client_share(c), .n = n};
  atomic_init(&b->refs, 1);
  return b;
}

bool plug_bytes_make(plug_bytes *b) {
  if (b->p) return true;
  b->p = plug_memory_take(b->client->memory, b->n);
  if (b->p) count(b->client, (i64)b->n);
  return b->p != NULL;
}

// NULL: not that much memory.
static plug_bytes *bytes_new(pj_client *c, size_t n) {
  plug_bytes *b = plug_bytes_promised(c, n);
  if (plug_bytes_make(b)) return b;
  plug_bytes_drop(b);
  return NULL;
}

bool plug_bytes_take_over(plug_bytes *b, plug_bytes *from, u32 refs) {
  if (from->gone || from->n != b->n || b->p || !from->p || atomic_load(&from->refs) != refs)
    return false;
  b->p = from->p;
  from->p = NULL;
  return true;
}

void plug_bytes_drop(plug_bytes *b) {
  if (!b || atomic_fetch_sub(&b->refs, 1) > 1) return;
  if (b->gone) b->gone(b->p, b->gone_arg);
  else if (b->p) plug_memory_drop(b->client->memory, b->p, b->n);
  if (b->p || b->gone) count(b->client, -(i64)b->n);
  plug_ready_drop(b->ready);
  plug_client_drop(b->client);
  hs_free(b);
}

// ---- buffers ------------------------------------------------------------------------------------
hlo_dtype plug_dtype(int type) {
  for (int t = 0; type > 0 && t < HLO_DTYPE_COUNT; t++)
    if (pj_type(t) == type) return (hlo_dtype)t;
  return HLO_DT_INVALID;
}

pj_buffer *plug_buffer_new(pj_device *d, hlo_dtype t, u32 rank, const i64 *dims, plug_bytes *take) {
  pj_buffer *b = plug_handle_new(PLUG_BUFFER, sizeof *b);
  (void)plug_client_share(d->client);
  b->device = d;
  b->type = t;
  b->rank = rank;
  for (u32 k = 0; k < rank; k++) {
    b->dims[k] = dims[k];
    b->minor_to_major[k] = (i64)(rank - 1 - k);
  }
  pthread_mutex_init(&b->lock, NULL);
  b->bytes = take;
  return b;
}

plug_bytes *plug_buffer_bytes(pj_buffer *b) {
  pthread_mutex_lock(&b->lock);
  plug_bytes *r = b->bytes;
  if (r) atomic_fetch_add(&r->refs, 1);
  pthread_mutex_unlock(&b->lock);
  return r;
}

void plug_buffer_delete(pj_buffer *b) {
  pthread_mutex_lock(&b->lock);
  plug_bytes *r = b->bytes;
  b->bytes = NULL;
  pthread_mutex_unlock(&b->lock);
  plug_bytes_drop(r);
}

static pj_error *gone(void) {
  return plug_fail(PJ_FAILED_PRECONDITION, "hlosh: the buffer was deleted or donated");
}

// The bytes of an array of the interface's type; INVALID_ARGUMENT for what is none.
static pj_error *size_of(int type, size_t rank, const i64 *dims, hlo_dtype *t, size_t *bytes) {
  *t = plug_dtype(type);
  if (*t == HLO_DT_INVALID)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: element type %d is not known", type);
  if (rank > HLO_MAX_RANK)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: %zu dimensions, %d are the most", rank,
                     HLO_MAX_RANK);
  if (rank && !dims) return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no dimensions");
  *bytes = hlo_dtype_storage(*t);
  for (size_t k = 0; k < rank; k++)
    if (dims[k] < 0 || __builtin_mul_overflow(*bytes, (size_t)dims[k], bytes) ||
        *bytes > BLOCK_TOO_LARGE)
      return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: an array of too many bytes");
  return NULL;
}

// ---- from the host ------------------------------------------------------------------------------
// From any strides (bytes) to dense row-major.
static void gather(char *to, const char *from, size_t size, size_t rank, const i64 *dims,
                   const i64 *strides) {
  i64 index[HLO_MAX_RANK] = {0};
  for (;;) {
    memcpy(to, from, size);
    to += size;
    size_t k = rank;
    while (k-- > 0) {
      from += strides[k];
      if (++index[k] < dims[k]) break;
      from -= strides[k] * dims[k];
      index[k] = 0;
    }
    if (k == SIZE_MAX) return;
  }
}

static bool is_dense(size_t size, size_t rank, const i64 *dims, const i64 *strides) {
  i64 want = (i64)size;
  for (size_t k = rank; k-- > 0; want *= dims[k])
    if (dims[k] != 1 && strides[k] != want) return false;
  return true;
}

// The device that a buffer is wanted on: the memory's, else the device.
static pj_error *place_of(const pj_client *c, pj_device *d, pj_memory *m, pj_device **out) {
  if (m) {
    PLUG_WANT(m, MEMORY);
    d = m->device;
  }
  PLUG_WANT(d, DEVICE);
  if (d->client != c)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: the device is another client's");
  return *out = d, NULL;
}

// Integers of less than a byte: only the low bits of the caller's bytes are theirs (ml_dtypes of
// NumPy leaves zeros above them); here the byte is the number.
static void extend(hlo_dtype t, u8 *p, size_t n) {
  int bits = hlo_dtype_bits(t);
  if (!hlo_dtype_is_signed(t) || bits >= 8) return;
  u8 sign = (u8)(1u << (bits - 1)), mask = (u8)((1u << bits) - 1);
  for (size_t k = 0; k < n; k++) p[k] = (u8)(((p[k] & mask) ^ sign) - sign);
}

// Copies: what the caller has may change when this returns.
pj_error *plug_Client_BufferFromHostBuffer(pj_from_host *a) {
  hlo_dtype t;
  size_t n;
  pj_error *e = size_of(a->type, a->rank, a->dims, &t, &n);
  if (e) return e;
  if ((n && !a->data) || (a->nstrides && !a->byte_strides))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no data or no strides");
  if (a->nstrides && a->nstrides != a->rank)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: %zu strides of %zu dimensions", a->nstrides,
                     a->rank);
  pj_device *d;
  if ((e = place_of(a->client, a->device, a->memory, &d))) return e;
  plug_bytes *b = bytes_new(d->client, n);
  if (!b) return plug_fail(PJ_RESOURCE_EXHAUSTED, "hlosh: no memory for %zu bytes", n);
  size_t size = hlo_dtype_storage(t);
  if (n && (!a->nstrides || is_dense(size, a->rank, a->dims, a->byte_strides)))
    memcpy(b->p, a->data, n);
  else if (n) gather(b->p, a->data, size, a->rank, a->dims, a->byte_strides);
  extend(t, b->p, n);
  a->buffer = plug_buffer_new(d, t, (u32)a->rank, a->dims, b);
  a->done = plug_event(NULL);
  return NULL;
}

// Memory of others, given back through a callback.
static void not_ours(void *p, void *arg) { (void)p, (void)arg; }

pj_error *plug_Client_CreateViewOfDeviceBuffer(pj_view *a) {
  hlo_dtype t;
  size_t n;
  pj_error *e = size_of(a->type, a->rank, a->dims, &t, &n);
  if (e) return e;
  pj_memory *m = a->struct_size >= PJ_SIZE(pj_view, memory) ? a->memory : NULL;
  pj_device *d;
  if ((e = place_of(a->client, a->device, m, &d))) return e;
  if (n && !a->p) return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no memory to view");
  if (a->layout && a->layout->type == 0 && a->layout->tiled.n != a->rank)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: a layout of another number of dimensions");
  for (size_t k = 0; a->layout && a->layout->type == 0 && k < a->layout->tiled.n; k++)
    if (a->layout->tiled.minor_to_major[k] != (i64)(a->rank - 1 - k))
      return plug_fail(PJ_UNIMPLEMENTED, "hlosh: a view of memory that is not row-major");
  plug_bytes *b = hs_calloc(1, sizeof *b);
  *b = (plug_bytes){.client = plug_client_share(d->client), .p = a->p, .n = n};
  b->gone = a->gone ? a->gone : not_ours;
  b->gone_arg = a->gone_arg;
  atomic_init(&b->refs, 1);
  count(d->client, (i64)n);
  a->buffer = plug_buffer_new(d, t, (u32)a->rank, a->dims, b);
  return NULL;
}

// ---- to the host --------------------------------------------------------------------------------
// Strides in bytes of a layout by order; false: the layout is of another kind, or it reaches
// outside of `room` bytes.
static bool strides_of(const pj_buffer *b, const pj_layout *l, size_t room, i64 *out) {
  i64 at = (i64)hlo_dtype_storage(b->type);
  if (l->tiled.n != b->rank || (b->rank && !l->tiled.minor_to_major)) return false;
  if (l->type == 0) {
    u64 seen = 0;
    if (l->tiled.ntiles) return false;
    for (size_t k = 0; k < l->tiled.n; k++) {
      i64 d = l->tiled.minor_to_major[k];
      if (d < 0 || d >= (i64)b->rank || (seen >> d & 1)) return false;
      seen |= (u64)1 << d;
      out[d] = at;
      at *= b->dims[d];
    }
    return true;
  }
  // byte_strides and their number stand where the order stands
  u64 last = (u64)at;
  for (u32 k = 0; k < b->rank; k++) {
    i64 stride = out[k] = l->tiled.minor_to_major[k];
    u64 steps = b->dims[k] > 0 ? (u64)b->dims[k] - 1 : 0, reach;
    if (stride < 0 || __builtin_mul_overflow((u64)stride, steps, &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return l->type == 1 && last <= room;
}

// The other way, to any strides.
static void scatter(char *to, const char *from, size_t size, size_t rank, const i64 *dims,
                    const i64 *strides) {
  i64 index[HLO_MAX_RANK] = {0};
  for (;;) {
    memcpy(to, from, size);
    from += size;
    size_t k = rank;
    while (k-- > 0) {
      to += strides[k];
      if (++index[k] < dims[k]) break;
      to -= strides[k] * dims[k];
      index[k] = 0;
    }
    if (k == SIZE_MAX) return;
  }
}

// A copy out of a buffer: at once when its bytes are there, else when the queue comes to it.
typedef struct copy {
  plug_bytes *from;
  plug_ready *ready;
  void *to;
  size_t offset, n;
  bool strided;
  u32 rank;
  hlo_dtype type;
  i64 *dims, *strides;  // one block
} copy;

static void run_copy(void *take) {
  copy *c = take;
  pj_error *bad = plug_ready_wait(c->from->ready);
  const char *from = (char *)c->from->p + c->offset;
  if (!bad && c->n) {
    if (c->strided) scatter(c->to, from, hlo_dtype_storage(c->type), c->rank, c->dims, c->strides);
    else memcpy(c->to, from, c->n);
  }
  plug_ready_set(c->ready, bad);
  plug_error_free(bad);
  plug_ready_drop(c->ready);
  plug_bytes_drop(c->from);
  hs_free(c->dims);
  hs_free(c);
}

// Takes the reference to the bytes.
static pj_event *start_copy(copy it) {
  copy *c = hs_alloc(sizeof *c);
  it.ready = plug_ready_new();
  *c = it;
  pj_event *e = plug_event(c->ready);
  if (plug_ready_is(c->from->ready)) run_copy(c);
  else plug_queue_add(c->from->client->queue, run_copy, c);
  return e;
}

pj_error *plug_Buffer_ToHostBuffer(pj_to_host *a) {
  plug_bytes *r = plug_buffer_bytes(a->src);
  if (!r) return gone();
  const pj_buffer *b = a->src;
  i64 strides[HLO_MAX_RANK];
  pj_error *e = NULL;
  if (!a->dst) a->n = r->n;
  else if (a->n < r->n)
    e = plug_fail(PJ_INVALID_ARGUMENT, "hlosh: room for %zu bytes of %zu", a->n, r->n);
  else if (a->layout && !strides_of(b, a->layout, a->n, strides))
    e = plug_fail(PJ_UNIMPLEMENTED, "hlosh: a copy to a layout that is no order of dimensions");
  if (!a->dst || e) return plug_bytes_drop(r), e;
  copy c = {.from = r, .to = a->dst, .n = r->n, .type = b->type, .rank = b->rank};
  if (a->layout && b->rank) {
    c.strided = true;
    c.dims = hs_alloc(2 * b->rank * sizeof *c.dims);
    c.strides = c.dims + b->rank;
    memcpy(c.dims, b->dims, b->rank * sizeof *c.dims);
    memcpy(c.strides, strides, b->rank * sizeof *c.strides);
  }
  a->event = start_copy(c);
  return NULL;
}

pj_error *plug_Buffer_CopyRawToHost(pj_copy_raw *a) {
  plug_bytes *r = plug_buffer_bytes(a->buffer);
  if (!r) return gone();
  bool fits =
      a->offset >= 0 && a->n >= 0 && (u64)a->offset <= r->n && (u64)a->n <= r->n - (u64)a->offset;
  if (!fits || (a->n && !a->dst)) {
    plug_bytes_drop(r);
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: a copy from outside of the buffer, or to NULL");
  }
  a->event =
      start_copy((copy){.from = r, .to = a->dst, .offset = (size_t)a->offset, .n = (size_t)a->n});
  return NULL;
}

// ---- between devices ----------------------------------------------------------------------------
// Buffers are never written, so a copy is one more reference.
static pj_error *copy_to(pj_buffer *b, pj_device *d, pj_buffer **out) {
  plug_bytes *r = plug_buffer_bytes(b);
  if (!r) return gone();
  *out = plug_buffer_new(d, b->type, b->rank, b->dims, r);
  return NULL;
}
pj_error *plug_Buffer_CopyToDevice(pj_copy_to_device *a) {
  PLUG_WANT(a->device, DEVICE);
  return copy_to(a->buffer, a->device, &a->out);
}
pj_error *plug_Buffer_CopyToMemory(pj_copy_to_memory *a) {
  PLUG_WANT(a->memory, MEMORY);
  return copy_to(a->buffer, a->memory->device, &a->out);
}

// ---- pointers -----------------------------------------------------------------------------------
static pj_error *pointer_of(pj_buffer *b, void **out) {
  plug_bytes *r = plug_buffer_bytes(b);
  if (!r) return gone();
  pj_error *bad = plug_ready_wait(r->ready);
  *out = r->p;
  plug_bytes_drop(r);
  return bad;
}
pj_error *plug_Buffer_UnsafePointer(pj_buffer_pointer *a) { return pointer_of(a->buffer, &a->p); }
pj_error *plug_Buffer_OpaqueDeviceMemoryDataPointer(pj_buffer_pointer *a) {
  return plug_Buffer_UnsafePointer(a);
}
// The bytes outlive the buffer's end while somebody holds the pointer.
pj_error *plug_Buffer_IncreaseExternalReferenceCount(pj_buffer_arg *a) {
  pj_buffer *b = a->buffer;
  plug_bytes *r = plug_buffer_bytes(b);
  if (!r) return gone();
  pthread_mutex_lock(&b->lock);
  bool first = b->external++ == 0;
  if (first) b->held = r;
  pthread_mutex_unlock(&b->lock);
  if (!first) plug_bytes_drop(r);
  return NULL;
}
pj_error *plug_Buffer_DecreaseExternalReferenceCount(pj_buffer_arg *a) {
  pj_buffer *b = a->buffer;
  plug_bytes *last = NULL;
  pthread_mutex_lock(&b->lock);
  bool any = b->external > 0;
  if (any && --b->external == 0) last = b->held, b->held = NULL;
  pthread_mutex_unlock(&b->lock);
  plug_bytes_drop(last);
  return any ? NULL : plug_fail(PJ_INVALID_ARGUMENT, "hlosh: nobody holds the buffer's pointer");
}

// ---- answers ------------------------------------------------------------------------------------
pj_error *plug_Buffer_Destroy(pj_buffer_arg *a) {
  pj_buffer *b = a->buffer;
  if (!b) return NULL;
  pj_client *c = b->device->client;
  plug_handle_end(&b->h);
  plug_bytes_drop(b->bytes);
  plug_bytes_drop(b->held);
  pthread_mutex_destroy(&b->lock);
  plug_handle_free(PLUG_BUFFER, b);
  plug_client_drop(c);
  return NULL;
}

static bool is_deleted(pj_buffer *b) {
  pthread_mutex_lock(&b->lock);
  bool deleted = !b->bytes;
  pthread_mutex_unlock(&b->lock);
  return deleted;
}

static size_t size_on_device(const pj_buffer *b) {
  size_t n = hlo_dtype_storage(b->type);
  for (u32 k = 0; k < b->rank; k++) n *= (size_t)b->dims[k];
  return n;
}

static pj_layout layout_of(const pj_buffer *b) {
  return (pj_layout){.struct_size = sizeof(pj_layout),
                     .tiled = {.struct_size = sizeof(pj_tiled),
                               .minor_to_major = b->minor_to_major,
                               .n = b->rank}};
}

// Of a deleted one too: it waits for nothing.
static pj_event *event_of(pj_buffer *b) {
  plug_bytes *r = plug_buffer_bytes(b);
  pj_event *e = plug_event(r ? r->ready : NULL);
  plug_bytes_drop(r);
  return e;
}

ANSWER(Buffer_Delete, pj_buffer_arg, plug_buffer_delete(a->buffer))
ANSWER(Buffer_IsDeleted, pj_buffer_flag, a->yes = is_deleted(a->buffer))
ANSWER(Buffer_ElementType, pj_buffer_number, a->n = pj_type((int)a->buffer->type))
ANSWER(Buffer_Dimensions, pj_buffer_dims, (a->v = a->buffer->dims, a->n = a->buffer->rank))
ANSWER(Buffer_UnpaddedDimensions, pj_buffer_dims, (a->v = a->buffer->dims, a->n = a->buffer->rank))
ANSWER(Buffer_DynamicDimensionIndices, pj_buffer_dynamic, (a->v = NULL, a->n = 0))
ANSWER(Buffer_GetMemoryLayout, pj_buffer_layout, a->layout = layout_of(a->buffer))
ANSWER(Buffer_OnDeviceSizeInBytes, pj_buffer_size, a->n = size_on_device(a->buffer))
ANSWER(Buffer_Device, pj_buffer_device, a->device = a->buffer->device)
ANSWER(Buffer_Memory, pj_buffer_memory, a->memory = &a->buffer->device->memory)
ANSWER(Buffer_IsOnCpu, pj_buffer_flag, a->yes = true)
ANSWER(Buffer_ReadyEvent, pj_buffer_event, a->event = event_of(a->buffer))
