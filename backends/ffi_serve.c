// ffi_serve.c — worker side of loadable custom calls: libraries, and calls by ffi_host.c.
//
// Handlers are found by symbol, or register themselves when the library is opened (it finds
// XLA_FFI_GetApi here).
#include <dlfcn.h>

#include "backends/backend.h"
#include "backends/block.h"
#include "backends/ffi_host.h"
#include "backends/serve.h"

worker_handler ffi_serve_open, ffi_serve_call;  // rows of worker_requests.def

// ---- requests -----------------------------------------------------------------------------------
static hs_status open_library(hs_str path, void **out) {
  *out = dlopen(path.p, RTLD_NOW | RTLD_LOCAL);  // opened once, however often it is asked for
  if (*out) return HS_GOOD;
  hs_status s = hs_fail(HS_E_INPUT, "%s", dlerror());
  if (!sandbox_confined()) return s;
  return hs_with_note(s, "in the sandbox it may read that file and the system's libraries");
}

static ffi_handler *find_handler(void *library, hs_str symbol) {
  ffi_handler *known = ffi_registered(symbol);
  if (known) return known;
  void *p = dlsym(library, symbol.p);
  ffi_handler *f;
  memcpy(&f, &p, sizeof f);
  return f;
}

// Strings of a request end with a NUL in the arena.
static hs_str terminated(hs_arena *a, hs_str s) {
  return (hs_str){hs_arena_strndup(a, s.p, s.n), s.n};
}

hs_status ffi_serve_open(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  (void)fds;
  (void)nfds;
  wire_reader r = {.p = payload, .n = n};
  hs_arena a = {0};
  hs_str path = terminated(&a, wire_get_str(&r)), symbol = terminated(&a, wire_get_str(&r));
  void *library = NULL;
  hs_status st = open_library(path, &library);
  if (hs_ok(st)) wire_put_u32(reply, symbol.n == 0 || find_handler(library, symbol) != NULL);
  hs_arena_free(&a);
  return st;
}

static void read_buffers(wire_reader *r, hs_arena *a, serve_map map, ffi_values *v) {
  u32 n = wire_get_u32(r);
  size_t at = 0;
  if (n > 4096) r->bad = true, n = 0;
  *v = ffi_values_new(a, n);
  for (u32 k = 0; k < n && !r->bad; k++) {
    hlo_dtype t = hlo_dtype_from_proto((int)wire_get_u32(r));
    u32 rank = wire_get_u32(r);
    if (rank > HLO_MAX_RANK) r->bad = true, rank = 0;
    at = block_align(at);
    size_t bytes = hlo_dtype_storage(t);
    int64_t *dims = ffi_values_set(a, v, k, t, rank, map.p + HS_MIN(at, map.n));
    for (u32 d = 0; d < rank; d++) bytes *= (size_t)(dims[d] = wire_get_i64(r));
    if (at + bytes > map.n) r->bad = true;
    at += bytes;
  }
}

hs_status ffi_serve_call(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  (void)reply;
  wire_reader r = {.p = payload, .n = n};
  hs_arena a = {0};
  hs_str path = terminated(&a, wire_get_str(&r)), symbol = terminated(&a, wire_get_str(&r)),
         config = terminated(&a, wire_get_bytes(&r));
  serve_map args = {0}, rets = {0};
  void *library = NULL;
  hs_status st = nfds == 2 ? open_library(path, &library)
                           : hs_fail(HS_E_WORKER, "the call request has no shared memory");
  if (hs_ok(st)) st = serve_map_fd(fds[0], false, &args);
  if (hs_ok(st)) st = serve_map_fd(fds[1], true, &rets);
  ffi_handler *handler = hs_ok(st) ? find_handler(library, symbol) : NULL;
  if (hs_ok(st) && !handler) st = hs_fail(HS_E_INPUT, "%s has no handler %s", path.p, symbol.p);
  if (hs_ok(st)) {
    ffi_values in, out;
    read_buffers(&r, &a, args, &in);
    read_buffers(&r, &a, rets, &out);
    if (r.bad) st = hs_fail(HS_E_WORKER, "the call request is cut short");
    else {
      char *doing = hs_format("custom call %s of %s", symbol.p, path.p);
      worker_doing = doing;
      st = ffi_invoke(handler, &in, &out, config, &a);
      worker_doing = NULL;
      hs_free(doing);
    }
  }
  serve_unmap(&args);
  serve_unmap(&rets);
  hs_arena_free(&a);
  return st;
}
