// buffer.c — buffers: dense row-major bytes on the host, shared by reference between a buffer,
// the programs that read it, and who holds its pointer. Deleting a buffer, or giving it away,
// drops its reference; the bytes live as long as somebody has one.
#include "plugin/plugin.h"

#include "backends/block.h"
#include "core/types/literal.h"

#include <stdlib.h>

// ---- bytes --------------------------------------------------------------------------------------
static void count(pj_client *c, i64 n) {
  i64 now = atomic_fetch_add(&c->bytes, n) + n, peak = atomic_load(&c->peak);
  while (now > peak && !atomic_compare_exchange_weak(&c->peak, &peak, now)) {}
  if (n > 0) atomic_fetch_add(&c->allocations, 1);
}

plug_bytes *plug_bytes_new(pj_client *c, size_t n) {
  void *p = NULL;
  if (posix_memalign(&p, 64, HS_MAX(block_align(n), (size_t)64)) != 0) return NULL;
  plug_bytes *b = hs_calloc(1, sizeof *b);
  *b = (plug_bytes){.client = c, .p = p, .n = n};
  atomic_init(&b->refs, 1);
  count(c, (i64)n);
  return b;
}

void plug_bytes_drop(plug_bytes *b) {
  if (!b || atomic_fetch_sub(&b->refs, 1) > 1) return;
  if (b->gone) b->gone(b->p, b->gone_arg);
  else free(b->p);
  count(b->client, -(i64)b->n);
  hs_free(b);
}

// ---- buffers ------------------------------------------------------------------------------------
hlo_dtype plug_dtype(int type) {
  for (int t = 0; type > 0 && t < HLO_DTYPE_COUNT; t++)
    if (pj_type(t) == type) return (hlo_dtype)t;
  return HLO_DT_INVALID;
}

pj_buffer *plug_buffer_new(pj_device *d, hlo_dtype t, u32 rank, const i64 *dims, plug_bytes *take) {
  pj_buffer *b = hs_calloc(1, sizeof *b);
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

// Copies: what the caller has may change when this returns.
pj_error *plug_Client_BufferFromHostBuffer(void *args) {
  pj_from_host *a = args;
  PLUG_CHECK(a, buffer);
  hlo_dtype t;
  size_t n;
  pj_error *e = size_of(a->type, a->rank, a->dims, &t, &n);
  if (e) return e;
  if (a->nstrides && a->nstrides != a->rank)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: %zu strides of %zu dimensions", a->nstrides,
                     a->rank);
  pj_device *d = a->memory ? a->memory->device : a->device;
  if (!d) return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no device for the buffer");
  plug_bytes *b = plug_bytes_new(d->client, n);
  if (!b) return plug_fail(PJ_RESOURCE_EXHAUSTED, "hlosh: no memory for %zu bytes", n);
  size_t size = hlo_dtype_storage(t);
  if (n && (!a->nstrides || is_dense(size, a->rank, a->dims, a->byte_strides)))
    memcpy(b->p, a->data, n);
  else if (n) gather(b->p, a->data, size, a->rank, a->dims, a->byte_strides);
  a->buffer = plug_buffer_new(d, t, (u32)a->rank, a->dims, b);
  a->done = plug_event();
  return NULL;
}

// The arguments of CreateViewOfDeviceBuffer: memory of others, given back through a callback.
typedef struct view_args {
  PJ_HEAD;
  pj_client *client;
  void *p;
  const i64 *dims;
  size_t rank;
  int type;
  pj_layout *layout;
  pj_device *device;
  void (*gone)(void *p, void *arg);
  void *gone_arg;
  intptr_t stream;
  pj_buffer *buffer;
  pj_memory *memory;
} view_args;

static void not_ours(void *p, void *arg) { (void)p, (void)arg; }

pj_error *plug_Client_CreateViewOfDeviceBuffer(void *args) {
  view_args *a = args;
  PLUG_CHECK(a, buffer);
  hlo_dtype t;
  size_t n;
  pj_error *e = size_of(a->type, a->rank, a->dims, &t, &n);
  if (e) return e;
  pj_memory *m = a->struct_size >= PJ_SIZE(view_args, memory) ? a->memory : NULL;
  pj_device *d = m ? m->device : a->device;
  if (!d) return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no device for the buffer");
  for (size_t k = 0; a->layout && a->layout->type == 0 && k < a->layout->tiled.n; k++)
    if (a->layout->tiled.minor_to_major[k] != (i64)(a->rank - 1 - k))
      return plug_fail(PJ_UNIMPLEMENTED, "hlosh: a view of memory that is not row-major");
  plug_bytes *b = hs_calloc(1, sizeof *b);
  *b = (plug_bytes){.client = d->client, .p = a->p, .n = n};
  b->gone = a->gone ? a->gone : not_ours;
  b->gone_arg = a->gone_arg;
  atomic_init(&b->refs, 1);
  count(d->client, (i64)n);
  a->buffer = plug_buffer_new(d, t, (u32)a->rank, a->dims, b);
  return NULL;
}

// ---- to the host --------------------------------------------------------------------------------
// Strides in bytes of a layout by order; false: the layout is of another kind.
static bool strides_of(const pj_buffer *b, const pj_layout *l, i64 *out) {
  i64 at = (i64)hlo_dtype_storage(b->type);
  if (l->type == 0) {
    if (l->tiled.n != b->rank || l->tiled.ntiles) return false;
    for (size_t k = 0; k < l->tiled.n; k++) {
      i64 d = l->tiled.minor_to_major[k];
      if (d < 0 || d >= (i64)b->rank) return false;
      out[d] = at;
      at *= b->dims[d];
    }
    return true;
  }
  // byte_strides and their number stand where the order stands
  if (l->tiled.n != b->rank) return false;
  for (u32 k = 0; k < b->rank; k++) out[k] = l->tiled.minor_to_major[k];
  return true;
}

static void scatter(char *to, const char *from, const pj_buffer *b, const i64 *strides) {
  size_t size = hlo_dtype_storage(b->type);
  i64 index[HLO_MAX_RANK] = {0};
  for (;;) {
    memcpy(to, from, size);
    from += size;
    u32 k = b->rank;
    while (k-- > 0) {
      to += strides[k];
      if (++index[k] < b->dims[k]) break;
      to -= strides[k] * b->dims[k];
      index[k] = 0;
    }
    if (k == UINT32_MAX) return;
  }
}

pj_error *plug_Buffer_ToHostBuffer(void *args) {
  pj_to_host *a = args;
  PLUG_CHECK(a, event);
  plug_bytes *r = plug_buffer_bytes(a->src);
  pj_error *e = r ? NULL : gone();
  i64 strides[HLO_MAX_RANK];
  if (r && a->dst) {
    if (a->n < r->n)
      e = plug_fail(PJ_INVALID_ARGUMENT, "hlosh: room for %zu bytes of %zu", a->n, r->n);
    else if (a->layout && !strides_of(a->src, a->layout, strides))
      e = plug_fail(PJ_UNIMPLEMENTED, "hlosh: a copy to a layout that is no order of dimensions");
    else if (r->n && a->layout) scatter(a->dst, r->p, a->src, strides);
    else if (r->n) memcpy(a->dst, r->p, r->n);
    if (!e) a->event = plug_event();
  } else if (r) {
    a->n = r->n;
  }
  plug_bytes_drop(r);
  return e;
}

pj_error *plug_Buffer_CopyRawToHost(void *args) {
  pj_copy_raw *a = args;
  PLUG_CHECK(a, event);
  plug_bytes *r = plug_buffer_bytes(a->buffer);
  if (!r) return gone();
  bool fits =
      a->offset >= 0 && a->n >= 0 && (u64)a->offset <= r->n && (u64)a->n <= r->n - (u64)a->offset;
  if (fits && a->n) memcpy(a->dst, (char *)r->p + a->offset, (size_t)a->n);
  plug_bytes_drop(r);
  if (!fits) return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: a copy from outside of the buffer");
  a->event = plug_event();
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
pj_error *plug_Buffer_CopyToDevice(void *args) {
  pj_copy_to_device *a = args;
  PLUG_CHECK(a, out);
  return copy_to(a->buffer, a->device, &a->out);
}
pj_error *plug_Buffer_CopyToMemory(void *args) {
  pj_copy_to_memory *a = args;
  PLUG_CHECK(a, out);
  return copy_to(a->buffer, a->memory->device, &a->out);
}

// ---- pointers -----------------------------------------------------------------------------------
static pj_error *pointer_of(pj_buffer *b, void **out) {
  plug_bytes *r = plug_buffer_bytes(b);
  if (!r) return gone();
  *out = r->p;
  plug_bytes_drop(r);
  return NULL;
}
pj_error *plug_Buffer_UnsafePointer(void *args) {
  pj_buffer_pointer *a = args;
  PLUG_CHECK(a, p);
  return pointer_of(a->buffer, &a->p);
}
pj_error *plug_Buffer_OpaqueDeviceMemoryDataPointer(void *args) {
  return plug_Buffer_UnsafePointer(args);
}
// The bytes outlive the buffer's end while somebody holds the pointer.
pj_error *plug_Buffer_IncreaseExternalReferenceCount(void *args) {
  pj_buffer_arg *a = args;
  PLUG_CHECK(a, buffer);
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
pj_error *plug_Buffer_DecreaseExternalReferenceCount(void *args) {
  pj_buffer_arg *a = args;
  PLUG_CHECK(a, buffer);
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
pj_error *plug_Buffer_Destroy(void *args) {
  pj_buffer_arg *a = args;
  PLUG_CHECK(a, buffer);
  pj_buffer *b = a->buffer;
  if (!b) return NULL;
  plug_bytes_drop(b->bytes);
  plug_bytes_drop(b->held);
  pthread_mutex_destroy(&b->lock);
  hs_free(b);
  return NULL;
}
pj_error *plug_Buffer_Delete(void *args) {
  pj_buffer_arg *a = args;
  PLUG_CHECK(a, buffer);
  plug_buffer_delete(a->buffer);
  return NULL;
}
pj_error *plug_Buffer_IsDeleted(void *args) {
  pj_buffer_flag *a = args;
  PLUG_CHECK(a, yes);
  plug_bytes *r = plug_buffer_bytes(a->buffer);
  a->yes = !r;
  plug_bytes_drop(r);
  return NULL;
}
pj_error *plug_Buffer_ElementType(void *args) {
  pj_buffer_number *a = args;
  PLUG_CHECK(a, n);
  a->n = pj_type((int)a->buffer->type);
  return NULL;
}
pj_error *plug_Buffer_Dimensions(void *args) {
  pj_buffer_dims *a = args;
  PLUG_CHECK(a, n);
  a->v = a->buffer->dims;
  a->n = a->buffer->rank;
  return NULL;
}
pj_error *plug_Buffer_UnpaddedDimensions(void *args) { return plug_Buffer_Dimensions(args); }
pj_error *plug_Buffer_DynamicDimensionIndices(void *args) {
  pj_buffer_dynamic *a = args;
  PLUG_CHECK(a, n);
  a->v = NULL;
  a->n = 0;
  return NULL;
}
pj_error *plug_Buffer_GetMemoryLayout(void *args) {
  pj_buffer_layout *a = args;
  PLUG_CHECK(a, layout);
  a->layout = (pj_layout){.struct_size = sizeof a->layout,
                          .tiled = {.struct_size = sizeof a->layout.tiled,
                                    .minor_to_major = a->buffer->minor_to_major,
                                    .n = a->buffer->rank}};
  return NULL;
}
pj_error *plug_Buffer_OnDeviceSizeInBytes(void *args) {
  pj_buffer_size *a = args;
  PLUG_CHECK(a, n);
  a->n = hlo_dtype_storage(a->buffer->type);
  for (u32 k = 0; k < a->buffer->rank; k++) a->n *= (size_t)a->buffer->dims[k];
  return NULL;
}
pj_error *plug_Buffer_Device(void *args) {
  pj_buffer_device *a = args;
  PLUG_CHECK(a, device);
  a->device = a->buffer->device;
  return NULL;
}
pj_error *plug_Buffer_Memory(void *args) {
  pj_buffer_memory *a = args;
  PLUG_CHECK(a, memory);
  a->memory = &a->buffer->device->memory;
  return NULL;
}
pj_error *plug_Buffer_IsOnCpu(void *args) {
  pj_buffer_flag *a = args;
  PLUG_CHECK(a, yes);
  a->yes = true;
  return NULL;
}
pj_error *plug_Buffer_ReadyEvent(void *args) {
  pj_buffer_event *a = args;
  PLUG_CHECK(a, event);
  a->event = plug_event();
  return NULL;
}
