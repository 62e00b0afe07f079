// ffi.c — shell side of loadable custom calls: the list of loaded libraries, and calls as
// requests to a worker.
//
// The list, and the worker that opens the libraries, belong to the process, because the evaluator
// reaches them through ffi_peer, a constant. One lock guards both. Each request names its library,
// so that a new worker opens it again after the old one has died. A confined worker may read the
// libraries that were loaded and no others, so a new library means a new worker.
#include <pthread.h>
#include <stdlib.h>
#include "backends/block.h"
#include "backends/ffi.h"

// name NULL: any symbol of the library
typedef struct target {
  char *name, *symbol, *library;
} target;

static struct {
  pthread_mutex_t lock;
  HS_VEC(target) v;
  worker *w;  // NULL until a library is loaded
  sandbox_mode sandbox;
  u64 memory;
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Called with the lock held.
static worker *the_worker(void) {
  if (!loaded.w) {
    loaded.w = worker_new(NULL);
    worker_confine(loaded.w, loaded.sandbox, loaded.memory);
  }
  return loaded.w;
}

void ffi_confine(sandbox_mode mode, u64 memory) {
  pthread_mutex_lock(&loaded.lock);
  loaded.sandbox = mode;
  loaded.memory = memory;
  if (loaded.w) worker_confine(loaded.w, mode, memory);
  pthread_mutex_unlock(&loaded.lock);
}

void ffi_leave_worker(void) { loaded.w = NULL; }

bool ffi_refused(hs_buf *b) {
  pthread_mutex_lock(&loaded.lock);
  bool any = loaded.w && worker_refused(loaded.w, b);
  pthread_mutex_unlock(&loaded.lock);
  return any;
}

// Called with the lock held.
static hs_status ask(const char *step, u32 kind, const hs_buf *request, const int *fds, u32 nfds,
                     bool *yes) {
  void *reply = NULL;
  size_t n = 0;
  HS_TRY(worker_call(the_worker(), step, kind, request->p, request->n, fds, nfds, 0, &reply, &n));
  wire_reader r = {.p = reply, .n = n};
  if (yes) *yes = wire_get_u32(&r) != 0;
  hs_free(reply);
  return HS_GOOD;
}

// Whether the library opens and has the symbol ("" asks for the library alone).
static hs_status probe(const char *library, const char *symbol, bool *yes) {
  hs_buf b = {0};
  wire_put_str(&b, library);
  wire_put_str(&b, symbol);
  hs_status st = ask("loading a library", WORKER_REQ_FFI_OPEN, &b, NULL, 0, yes);
  hs_buf_free(&b);
  return st;
}

static void add(const char *name, size_t n, const char *symbol, const char *library) {
  target t = {.symbol = hs_strdup(symbol), .library = hs_strdup(library)};
  if (name) {
    t.name = hs_calloc(n + 1, 1);
    memcpy(t.name, name, n);
  }
  hs_vec_push(&loaded.v, t);
}

hs_status ffi_load(const char *path, u32 n, const char *const *names) {
  char *library = realpath(path, NULL);
  if (!library) return hs_fail_errno(HS_E_INPUT, path);
  bool yes = false;
  pthread_mutex_lock(&loaded.lock);
  worker_may_read(the_worker(), library);
  hs_status st = probe(library, "", &yes);
  for (u32 k = 0; k < n && hs_ok(st); k++) {
    const char *eq = strchr(names[k], '='), *symbol = eq ? eq + 1 : names[k];
    st = probe(library, symbol, &yes);
    if (hs_ok(st) && !yes) st = hs_fail(HS_E_INPUT, "%s has no handler %s", path, symbol);
    if (hs_ok(st)) add(names[k], eq ? (size_t)(eq - names[k]) : strlen(names[k]), symbol, library);
  }
  if (hs_ok(st) && n == 0) add(NULL, 0, "", library);
  pthread_mutex_unlock(&loaded.lock);
  free(library);
  return st;
}

void ffi_unload_all(void) {
  pthread_mutex_lock(&loaded.lock);
  for (size_t k = 0; k < loaded.v.n; k++) {
    hs_free(loaded.v.v[k].name);
    hs_free(loaded.v.v[k].symbol);
    hs_free(loaded.v.v[k].library);
  }
  hs_vec_free(&loaded.v);
  worker_free(loaded.w);
  loaded.w = NULL;
  pthread_mutex_unlock(&loaded.lock);
}

void ffi_list(hs_buf *b) {
  pthread_mutex_lock(&loaded.lock);
  for (size_t k = 0; k < loaded.v.n; k++) {
    const target *t = &loaded.v.v[k];
    if (t->name) hs_buf_printf(b, "%s  %s (%s)\n", t->name, t->library, t->symbol);
    else hs_buf_printf(b, "*  %s\n", t->library);
  }
  pthread_mutex_unlock(&loaded.lock);
}

// The library and symbol of a target; later libraries come first. Called with the lock held.
static const target *find(hs_str name, char **symbol) {
  for (size_t k = loaded.v.n; k-- > 0;) {
    const target *t = &loaded.v.v[k];
    if (t->name && !hs_str_eq(name, hs_str_of(t->name))) continue;
    *symbol = t->name ? hs_strdup(t->symbol)
                      : hs_format("%.*s", (int)HS_MIN(name.n, (size_t)500), name.p);
    if (t->name) return t;
    bool yes = false;
    hs_status st = probe(t->library, *symbol, &yes);
    if (hs_ok(st) && yes) return t;
    hs_status_drop(st);
    hs_free(*symbol);
    *symbol = NULL;
  }
  return NULL;
}

void ffi_find(hs_str name, char **library, char **symbol) {
  *library = *symbol = NULL;
  pthread_mutex_lock(&loaded.lock);
  const target *t = loaded.v.n ? find(name, symbol) : NULL;
  if (t) *library = hs_strdup(t->library);
  pthread_mutex_unlock(&loaded.lock);
}

static bool covers(void *arg, const hlo_instr *i) {
  (void)arg;
  char *symbol = NULL;
  pthread_mutex_lock(&loaded.lock);
  bool yes = loaded.v.n && find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), &symbol) != NULL;
  pthread_mutex_unlock(&loaded.lock);
  hs_free(symbol);
  return yes;
}

static hs_status put_shapes(const hlo_instr *i, hs_buf *b, u32 n, const hlo_shape *const *shapes) {
  u32 total = 0;
  for (u32 k = 0; k < n; k++) total += hlo_shape_leaves(shapes[k]);
  wire_put_u32(b, total);
  for (u32 k = 0; k < n; k++)
    for (u32 j = 0, m = hlo_shape_leaves(shapes[k]); j < m; j++) {
      const hlo_shape *s = hlo_shape_leaf(shapes[k], j);
      if (!hlo_shape_is_array(s) || hlo_dtype_bits(s->dtype) < 8)
        return hs_fail_subject(
            HS_E_UNSUPPORTED, "custom-call",
            "unsupported: custom-call %s with values of a type that libraries cannot take",
            i->name);
      wire_put_u32(b, (u32)hlo_dtypes[s->dtype].proto);
      wire_put_u32(b, s->rank);
      for (u32 d = 0; d < s->rank; d++) wire_put_i64(b, s->dims[d]);
    }
  return HS_GOOD;
}

static hs_status call(void *arg, const hlo_instr *i, u32 n, hlo_literal *const *ops,
                      hlo_literal **out) {
  (void)arg;
  char *symbol = NULL;
  // one call at a time: the worker answers one request at a time
  pthread_mutex_lock(&loaded.lock);
  const target *t = find(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), &symbol);
  hs_status st = t ? HS_GOOD : hs_fail(HS_E_RUN, "%s: its library is not loaded any more", i->name);
  hs_buf b = {0};
  const hlo_shape **shapes = hs_calloc(n + 1, sizeof *shapes);
  for (u32 k = 0; k < n; k++) shapes[k] = ops[k]->shape;
  worker_shm args = {0};
  block *results = NULL;
  if (hs_ok(st)) {
    const hlo_backend_config *c = hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG);
    wire_put_str(&b, t->library);
    wire_put_str(&b, symbol);
    wire_put_bytes(&b, c ? c->text.p : "", c ? c->text.n : 0);
    st = put_shapes(i, &b, n, shapes);
  }
  if (hs_ok(st)) st = put_shapes(i, &b, 1, &i->shape);
  if (hs_ok(st)) st = block_pack(n, shapes, n, ops, &args);
  if (hs_ok(st)) st = block_new(block_bytes(i->shape), &results);
  if (hs_ok(st)) {
    int fds[2] = {args.fd, results->shm.fd};
    st = hs_with_note(ask("running a custom call", WORKER_REQ_FFI_CALL, &b, fds, 2, NULL),
                      "custom-call %s to %s of %s", i->name, symbol, t->library);
  }
  if (hs_ok(st) && worker_confined(the_worker())) st = block_own(results);
  size_t at = 0;
  if (hs_ok(st)) *out = block_literal(i->shape, results, &at);
  block_drop(results);
  worker_shm_free(&args);
  hs_buf_free(&b);
  hs_free(shapes);
  hs_free(symbol);
  pthread_mutex_unlock(&loaded.lock);
  return st;
}

const hlo_eval_peer ffi_peer = {.covers = covers, .call = call};
