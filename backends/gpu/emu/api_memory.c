// api_memory.c — memory of the emulated device: each allocation is a mapping of its own,
// registered with its exact size. New memory holds no zeros: what reads it before writing it sees
// values that a comparison notices.
#include <sys/mman.h>

#include "backends/gpu/emu/api_state.h"

#include <stdlib.h>

#define FILLED ((size_t)64 << 20)  // larger allocations are not touched

static api_memory *find(const void *p) {
  for (size_t k = 0; k < api.memory.n; k++)
    if (api.memory.v[k].p == p) return &api.memory.v[k];
  return NULL;
}

bool api_on_device(const void *p, size_t n) {
  const void *start;
  size_t bytes;
  if (n == 0) return true;
  for (u32 k = 0; k < EMU_MOST_DEVICES; k++)
    if (api.contexts[k] && emu_device_find(api.contexts[k]->device, p, &start, &bytes))
      return n <= bytes - (size_t)((const u8 *)p - (const u8 *)start);
  return false;
}

static cuda_result allocate(cuda_ptr *at, size_t bytes) {
  if (!at || bytes == 0) return CUDA_INVALID_VALUE;
  u64 total = api.how.memory_bytes ? api.how.memory_bytes : (u64)hs_memory_machine();
  if (api.how.allocations && api.allocations >= api.how.allocations) return CUDA_OUT_OF_MEMORY;
  if (bytes > total || api.memory_used > total - bytes) return CUDA_OUT_OF_MEMORY;
  if (!hs_memory_take(bytes)) return CUDA_OUT_OF_MEMORY;
  api_memory m = {.context = api.context, .n = bytes, .mapped = bytes};
  m.p =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m.p == MAP_FAILED) {
    hs_memory_give(bytes);
    return CUDA_OUT_OF_MEMORY;
  }
  if (bytes <= FILLED && !api.unchecked) memset(m.p, 0xFF, bytes);
  api.allocations++;
  api.memory_used += bytes;
  emu_device_add(api.context->device, m.p, bytes);
  hs_vec_push(&api.memory, m);
  *at = (cuda_ptr)(uintptr_t)m.p;
  return CUDA_OK;
}

static void unmap(const api_memory *m) {
  (void)munmap(m->p, m->mapped);
  hs_memory_give(m->mapped);
}

cuda_result api_release(cuda_ptr at) {
  api_memory *m = find((const void *)(uintptr_t)at);
  if (!m) return CUDA_INVALID_VALUE;
  emu_device_remove(m->context->device, m->p);
  api.memory_used -= m->n;
  unmap(m);
  *m = api.memory.v[--api.memory.n];
  return CUDA_OK;
}

void api_free_memory(const cuda_context *c) {
  size_t n = 0;
  for (size_t k = 0; k < api.memory.n; k++) {
    if (api.memory.v[k].context != c) {
      api.memory.v[n++] = api.memory.v[k];
      continue;
    }
    api.memory_used -= api.memory.v[k].n;
    unmap(&api.memory.v[k]);
  }
  api.memory.n = n;
  n = 0;
  for (size_t k = 0; k < api.pinned.n; k++)
    if (api.pinned.v[k].context == c) free(api.pinned.v[k].p);
    else api.pinned.v[n++] = api.pinned.v[k];
  api.pinned.n = n;
  if (api.memory.n == 0) hs_vec_free(&api.memory);
  if (api.pinned.n == 0) hs_vec_free(&api.pinned);
}

cuda_result emu_cuMemAlloc_v2(cuda_ptr *at, size_t bytes) {
  API_CALL();
  cuda_result r = api_no_capture();
  return r != CUDA_OK ? r : allocate(at, bytes);
}

// The driver waits for everything before it frees.
cuda_result emu_cuMemFree_v2(cuda_ptr at) {
  API_CALL();
  if (!at) return CUDA_OK;
  if (!find((const void *)(uintptr_t)at)) return CUDA_INVALID_VALUE;
  cuda_result r = api_no_capture();
  if (r == CUDA_OK) r = api_drain_all();
  return r != CUDA_OK ? r : api_release(at);
}

cuda_result emu_cuMemAllocAsync(cuda_ptr *at, size_t bytes, cuda_stream *stream) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  return s->capture ? CUDA_NOT_SUPPORTED : allocate(at, bytes);
}

cuda_result emu_cuMemFreeAsync(cuda_ptr at, cuda_stream *stream) {
  API_CALL();
  cuda_stream *s;
  cuda_result r = api_stream_of(stream, &s);
  if (r != CUDA_OK) return r;
  if (!find((const void *)(uintptr_t)at)) return CUDA_INVALID_VALUE;
  if (s->capture) return CUDA_NOT_SUPPORTED;
  return api_submit(stream, (api_op){.kind = OP_FREE, .to = (u8 *)(uintptr_t)at});
}

// ---- memory of the host -------------------------------------------------------------------------
cuda_result emu_cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
  API_CALL();
  if (!at || flags > 7) return CUDA_INVALID_VALUE;
  if (bytes > SIZE_MAX - 4095) return CUDA_OUT_OF_MEMORY;
  api_memory m = {.context = api.context, .n = bytes};
  m.p = aligned_alloc(4096, HS_MAX((bytes + 4095) & ~(size_t)4095, 4096));
  if (!m.p) return CUDA_OUT_OF_MEMORY;
  hs_vec_push(&api.pinned, m);
  *at = m.p;
  return CUDA_OK;
}

cuda_result emu_cuMemAllocHost_v2(void **at, size_t bytes) {
  return emu_cuMemHostAlloc(at, bytes, 0);
}

cuda_result emu_cuMemFreeHost(void *at) {
  API_CALL();
  for (size_t k = 0; k < api.pinned.n; k++) {
    if (api.pinned.v[k].p != at) continue;
    cuda_result r = api_drain_all();
    free(at);
    api.pinned.v[k] = api.pinned.v[--api.pinned.n];
    return r;
  }
  return CUDA_INVALID_VALUE;
}

// ---- copies and fills ---------------------------------------------------------------------------
enum { TO_DEVICE = 1, FROM_DEVICE = 2, ON_DEVICE = 8 };

static cuda_result copy(void *to, const void *from, size_t n, u32 how, cuda_stream *stream) {
  if ((how & (TO_DEVICE | ON_DEVICE) && !api_on_device(to, n)) ||
      (how & (FROM_DEVICE | ON_DEVICE) && !api_on_device(from, n)) || (n && (!to || !from)))
    return CUDA_INVALID_VALUE;
  return api_submit(stream,
                    (api_op){.kind = OP_COPY, .to = to, .from = from, .bytes = n, .copy = how});
}

// In the default stream: after what is in the streams that wait for it, and only those.
static cuda_result copy_now(void *to, const void *from, size_t n, u32 how) {
  cuda_result r = api_no_capture();
  if (r == CUDA_OK) r = copy(to, from, n, how, NULL);
  return r == CUDA_OK ? api_drain(NULL) : r;
}

#define AT(p) ((void *)(uintptr_t)(p))
cuda_result emu_cuMemcpyHtoDAsync_v2(cuda_ptr to, const void *from, size_t n, cuda_stream *s) {
  API_CALL();
  return copy(AT(to), from, n, TO_DEVICE, s);
}
cuda_result emu_cuMemcpyDtoHAsync_v2(void *to, cuda_ptr from, size_t n, cuda_stream *s) {
  API_CALL();
  return copy(to, AT(from), n, FROM_DEVICE, s);
}
cuda_result emu_cuMemcpyDtoDAsync_v2(cuda_ptr to, cuda_ptr from, size_t n, cuda_stream *s) {
  API_CALL();
  return copy(AT(to), AT(from), n, ON_DEVICE, s);
}
cuda_result emu_cuMemcpyHtoD_v2(cuda_ptr to, const void *from, size_t n) {
  API_CALL();
  return copy_now(AT(to), from, n, TO_DEVICE);
}
cuda_result emu_cuMemcpyDtoH_v2(void *to, cuda_ptr from, size_t n) {
  API_CALL();
  return copy_now(to, AT(from), n, FROM_DEVICE);
}
cuda_result emu_cuMemcpyDtoD_v2(cuda_ptr to, cuda_ptr from, size_t n) {
  API_CALL();
  return copy_now(AT(to), AT(from), n, ON_DEVICE);
}

// The direction follows from the addresses.
static u32 direction(const void *to, const void *from) {
  u32 how = 0;
  if (api_on_device(to, 1)) how |= TO_DEVICE;
  if (api_on_device(from, 1)) how |= FROM_DEVICE;
  return how == (TO_DEVICE | FROM_DEVICE) ? ON_DEVICE : how;
}
cuda_result emu_cuMemcpyAsync(cuda_ptr to, cuda_ptr from, size_t n, cuda_stream *s) {
  API_CALL();
  return copy(AT(to), AT(from), n, direction(AT(to), AT(from)), s);
}
cuda_result emu_cuMemcpy(cuda_ptr to, cuda_ptr from, size_t n) {
  API_CALL();
  return copy_now(AT(to), AT(from), n, direction(AT(to), AT(from)));
}

static cuda_result fill(void *to, u32 value, size_t count, u32 width, cuda_stream *stream) {
  size_t n;
  if (__builtin_mul_overflow(count, width, &n) || !api_on_device(to, n) ||
      (uintptr_t)to % width != 0)
    return CUDA_INVALID_VALUE;
  return api_submit(stream,
                    (api_op){.kind = OP_SET, .to = to, .bytes = n, .value = value, .width = width});
}
cuda_result emu_cuMemsetD8Async(cuda_ptr to, unsigned char value, size_t n, cuda_stream *s) {
  API_CALL();
  return fill(AT(to), value, n, 1, s);
}
cuda_result emu_cuMemsetD32Async(cuda_ptr to, unsigned value, size_t n, cuda_stream *s) {
  API_CALL();
  return fill(AT(to), value, n, 4, s);
}
cuda_result emu_cuMemsetD8_v2(cuda_ptr to, unsigned char value, size_t n) {
  API_CALL();
  return fill(AT(to), value, n, 1, NULL);
}
cuda_result emu_cuMemsetD32_v2(cuda_ptr to, unsigned value, size_t n) {
  API_CALL();
  return fill(AT(to), value, n, 4, NULL);
}
