// ffi_host.c — see ffi_host.h.
//
// There is no stream and no user data; scratch memory comes from malloc, tasks run immediately.
// Attributes are the MLIR dictionary in the call's backend_config: numbers with their types,
// strings, true and false, array<T: ...>, and dictionaries in it.
#include "backends/ffi_host.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/types/literal.h"

// ---- the api ------------------------------------------------------------------------------------
struct ffi_error {
  char *message;
  int32_t code;
};
struct ffi_future {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool done;
  ffi_error *error;
};
struct ffi_context {
  void *state;
};

static ffi_error *error_new(ffi_code code, const char *text) {
  ffi_error *e = hs_calloc(1, sizeof *e);
  *e = (ffi_error){hs_strdup(text), (int32_t)code};
  return e;
}
static ffi_error *api_error_create(ffi_error_create *a) {
  return error_new((ffi_code)a->code, a->message ? a->message : "");
}
static void api_error_message(ffi_error_message *a) { a->message = a->error->message; }
static void api_error_destroy(ffi_error_destroy *a) {
  if (a->error) hs_free(a->error->message);
  hs_free(a->error);
}

typedef struct registered {
  char *name;
  ffi_handler *execute;
} registered;
static struct {
  pthread_mutex_t lock;
  HS_VEC(registered) v;  // later ones come first
} handlers = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ffi_register(hs_str name, ffi_handler *execute) {
  char *own = hs_calloc(name.n + 1, 1);
  memcpy(own, name.p, name.n);
  pthread_mutex_lock(&handlers.lock);
  hs_vec_push(&handlers.v, ((registered){own, execute}));
  pthread_mutex_unlock(&handlers.lock);
}

ffi_handler *ffi_registered(hs_str name) {
  ffi_handler *found = NULL;
  pthread_mutex_lock(&handlers.lock);
  for (size_t k = handlers.v.n; k-- > 0 && !found;)
    if (hs_str_eq(name, hs_str_of(handlers.v.v[k].name))) found = handlers.v.v[k].execute;
  pthread_mutex_unlock(&handlers.lock);
  return found;
}

static ffi_error *api_handler_register(ffi_handler_register *a) {
  if (!a->bundle.execute) return error_new(FFI_INVALID_ARGUMENT, "a handler without execute");
  ffi_register((hs_str){a->name.ptr, a->name.len}, a->bundle.execute);
  return NULL;
}
static ffi_error *api_stream_get(ffi_stream_get *a) {
  a->stream = NULL;
  return error_new(FFI_UNIMPLEMENTED, "there is no stream on the host");
}
static ffi_error *api_type_register(ffi_type_register *a) {
  static _Atomic int64_t last;
  if (a->id && a->id->id == 0) a->id->id = ++last;
  return NULL;
}
static ffi_error *api_context_get(ffi_context_get *a) {
  a->data = NULL;
  return error_new(FFI_NOT_FOUND, "no user data of this type");
}
static ffi_error *api_state_set(ffi_state *a) {
  a->ctx->state = a->state;
  return NULL;
}
static ffi_error *api_state_get(ffi_state *a) {
  a->state = a->ctx->state;
  return a->state ? NULL : error_new(FFI_NOT_FOUND, "no state was set");
}
static ffi_error *api_allocate(ffi_allocate *a) {
  size_t align = a->alignment > sizeof(void *) ? a->alignment : sizeof(void *);
  a->data = NULL;
  return posix_memalign(&a->data, align, a->size ? a->size : 1) == 0
             ? NULL
             : error_new(FFI_RESOURCE_EXHAUSTED, "no memory");
}
static ffi_error *api_free(ffi_free *a) {
  free(a->data);
  return NULL;
}
static ffi_error *api_schedule(ffi_schedule *a) {
  a->task(a->data);
  return NULL;
}
static ffi_error *api_num_threads(ffi_num_threads *a) {
  *a->n = 1;
  return NULL;
}
static ffi_error *api_future_create(ffi_future_create *a) {
  a->future = hs_calloc(1, sizeof *a->future);
  pthread_mutex_init(&a->future->lock, NULL);
  pthread_cond_init(&a->future->changed, NULL);
  return NULL;
}
static ffi_error *finish(ffi_future *f, ffi_error *e) {
  pthread_mutex_lock(&f->lock);
  f->done = true;
  f->error = e;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
  return NULL;
}
// the struct ends before `error`
static ffi_error *api_future_available(ffi_future_done *a) { return finish(a->future, NULL); }
static ffi_error *api_future_error(ffi_future_done *a) { return finish(a->future, a->error); }
static ffi_error *api_run_id(ffi_run_id *a) {
  a->id = 1;
  return NULL;
}
static ffi_error *api_ordinal(ffi_ordinal *a) {
  a->ordinal = 0;
  return NULL;
}

static const ffi_api api = {
    .struct_size = sizeof api,
    .version = {.struct_size = sizeof(ffi_version), .major = FFI_MAJOR, .minor = FFI_MINOR},
    .error_create = api_error_create,
    .error_message = api_error_message,
    .error_destroy = api_error_destroy,
    .handler_register = api_handler_register,
    .stream_get = api_stream_get,
    .type_register = api_type_register,
    .context_get = api_context_get,
    .state_set = api_state_set,
    .state_get = api_state_get,
    .allocate = api_allocate,
    .free = api_free,
    .schedule = api_schedule,
    .num_threads = api_num_threads,
    .future_create = api_future_create,
    .future_available = api_future_available,
    .future_error = api_future_error,
    .run_id = api_run_id,
    .ordinal = api_ordinal,
};
const ffi_api *XLA_FFI_GetApi(void) { return &api; }

// ---- attributes ---------------------------------------------------------------------------------
typedef struct reader {
  const char *p, *end;
  hs_arena *a;
  bool bad;
} reader;

static void blanks(reader *r) {
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == ',')) r->p++;
}
static bool word_char(char c) {
  return c == '_' || c == '.' || c == '$' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}
static hs_str word(reader *r) {
  const char *from = r->p;
  while (r->p < r->end && word_char(*r->p)) r->p++;
  return (hs_str){from, (size_t)(r->p - from)};
}
static bool take(reader *r, char c) {
  blanks(r);
  if (r->p >= r->end || *r->p != c) return false;
  r->p++;
  return true;
}
static hs_str quoted(reader *r) {
  char *to = hs_arena_alloc(r->a, (size_t)(r->end - r->p) + 1);
  size_t n = 0;
  for (r->p++; r->p < r->end && *r->p != '"'; r->p++) {
    if (*r->p == '\\' && r->p + 1 < r->end) r->p++;
    to[n++] = *r->p;
  }
  if (r->p < r->end) r->p++;
  else r->bad = true;
  return (hs_str){to, n};
}

// i32, ui8, si64, f32, bf16, i1 as MLIR writes them.
static hlo_dtype mlir_type(hs_str t) {
  char name[16] = "";
  if (t.n >= sizeof name - 1) return HLO_DT_INVALID;
  if (hs_str_eq(t, HS_STR("i1"))) return HLO_PRED;
  const char *digits = t.p;
  while (digits < t.p + t.n && (*digits < '0' || *digits > '9')) digits++;
  size_t letters = (size_t)(digits - t.p);
  bool uns = letters == 2 && t.p[0] == 'u' && t.p[1] == 'i',
       sig = (letters == 1 && t.p[0] == 'i') || (letters == 2 && t.p[0] == 's' && t.p[1] == 'i');
  if (uns || sig) {
    name[0] = uns ? 'u' : 's';
    memcpy(name + 1, digits, t.n - letters);
  } else {
    memcpy(name, t.p, t.n);
  }
  return hlo_dtype_find(hs_str_of(name));
}

static void put_number(hlo_dtype t, void *to, hs_str text) {
  char buf[64];
  size_t n = HS_MIN(text.n, sizeof buf - 1);
  memcpy(buf, text.p, n);
  buf[n] = 0;
  if (hlo_dtype_is_float(t)) hlo_elem_from_f64(t, to, strtod(buf, NULL));
  else
    hlo_elem_from_i64(t, to,
                      !strcmp(buf, "true") ? 1
                      : t == HLO_U64       ? (i64)strtoull(buf, NULL, 0)
                                           : strtoll(buf, NULL, 0));
}

static hs_str number_text(reader *r) {
  const char *from = r->p;
  if (r->p < r->end && (*r->p == '-' || *r->p == '+')) r->p++;
  while (r->p < r->end && (word_char(*r->p) || ((*r->p == '-' || *r->p == '+') &&
                                                (r->p[-1] == 'e' || r->p[-1] == 'E'))))
    r->p++;
  return (hs_str){from, (size_t)(r->p - from)};
}

static ffi_attrs *read_dictionary(reader *r, u32 depth);

// array<T: values>, or array<T>.
static ffi_array *read_array(reader *r) {
  ffi_array *a = HS_NEW(r->a, ffi_array);
  if (!take(r, '<')) {
    r->bad = true;
    return a;
  }
  blanks(r);
  hlo_dtype t = mlir_type(word(r));
  if (t == HLO_DT_INVALID) {
    r->bad = true;
    return a;
  }
  size_t w = hlo_dtype_storage(t);
  a->dtype = hlo_dtypes[t].proto;
  a->data = hs_arena_zalloc(r->a, ((size_t)(r->end - r->p) + 1) * w);
  take(r, ':');
  while (!take(r, '>')) {
    hs_str text = number_text(r);
    if (!text.n) {
      r->bad = true;
      return a;
    }
    put_number(t, (char *)a->data + a->size++ * w, text);
  }
  return a;
}

static void *read_attr(reader *r, int32_t *kind, u32 depth) {
  blanks(r);
  if (r->p >= r->end) {
    r->bad = true;
    return NULL;
  }
  if (*r->p == '"') {
    hs_str s = quoted(r);
    ffi_span *v = HS_NEW(r->a, ffi_span);
    *v = (ffi_span){s.p, s.n};
    *kind = FFI_ATTR_STRING;
    return v;
  }
  if (*r->p == '{') {
    *kind = FFI_ATTR_DICTIONARY;
    return read_dictionary(r, depth + 1);
  }
  hs_str text = number_text(r);
  if (hs_str_eq(text, HS_STR("array"))) {
    *kind = FFI_ATTR_ARRAY;
    return read_array(r);
  }
  bool truth = hs_str_eq(text, HS_STR("true")) || hs_str_eq(text, HS_STR("false"));
  if (!text.n || (!truth && !memchr("-+.0123456789", text.p[0], 13))) {
    r->bad = true;
    return NULL;
  }
  hlo_dtype t =
      truth ? HLO_PRED
      : memchr(text.p, '.', text.n) || (memchr(text.p, 'e', text.n) && !memchr(text.p, 'x', text.n))
          ? HLO_F64
          : HLO_S64;
  if (take(r, ':')) {
    blanks(r);
    t = mlir_type(word(r));
  }
  if (t == HLO_DT_INVALID) {
    r->bad = true;
    return NULL;
  }
  ffi_scalar *v = HS_NEW(r->a, ffi_scalar);
  v->dtype = hlo_dtypes[t].proto;
  v->value = hs_arena_zalloc(r->a, 16);
  put_number(t, v->value, text);
  *kind = FFI_ATTR_SCALAR;
  return v;
}

static int by_name(const void *a, const void *b) {
  const ffi_span *x = *(ffi_span *const *)a, *y = *(ffi_span *const *)b;
  int c = memcmp(x->ptr, y->ptr, HS_MIN(x->len, y->len));
  return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

// Handlers look attributes up by binary search: names are sorted.
static ffi_attrs *read_dictionary(reader *r, u32 depth) {
  enum { MOST = 256, DEEP = 16 };
  ffi_attrs *d = HS_NEW(r->a, ffi_attrs);
  struct {
    ffi_span *name;
    int32_t kind;
    void *value;
  } all[MOST];
  *d = (ffi_attrs){.struct_size = sizeof *d};
  take(r, '{');
  while (!r->bad && !take(r, '}')) {
    blanks(r);
    if (r->p >= r->end && depth == 0) break;
    hs_str name = r->p < r->end && *r->p == '"' ? quoted(r) : word(r);
    if (!name.n || d->size == MOST || depth > DEEP || !take(r, '=')) {
      r->bad = true;
      break;
    }
    all[d->size].name = HS_NEW(r->a, ffi_span);
    *all[d->size].name = (ffi_span){name.p, name.n};
    all[d->size].value = read_attr(r, &all[d->size].kind, depth);
    d->size++;
  }
  u32 n = (u32)d->size;
  d->types = HS_NEW_ARRAY(r->a, int32_t, n + 1);
  d->names = HS_NEW_ARRAY(r->a, ffi_span *, n + 1);
  d->attrs = HS_NEW_ARRAY(r->a, void *, n + 1);
  for (u32 k = 0; k < n; k++) d->names[k] = all[k].name;
  qsort(d->names, n, sizeof *d->names, by_name);
  for (u32 k = 0; k < n; k++)
    for (u32 j = 0; j < n; j++)
      if (all[j].name == d->names[k]) d->types[k] = all[j].kind, d->attrs[k] = all[j].value;
  return d;
}

// ---- calls --------------------------------------------------------------------------------------
ffi_values ffi_values_new(hs_arena *a, u32 n) {
  return (ffi_values){.struct_size = sizeof(ffi_values),
                      .size = n,
                      .types = HS_NEW_ARRAY(a, int32_t, n + 1),
                      .values = HS_NEW_ARRAY(a, void *, n + 1)};
}

int64_t *ffi_values_set(hs_arena *a, ffi_values *v, u32 k, hlo_dtype t, u32 rank, void *data) {
  ffi_buffer *b = HS_NEW(a, ffi_buffer);
  *b = (ffi_buffer){.struct_size = sizeof *b,
                    .dtype = hlo_dtypes[t].proto,
                    .data = data,
                    .rank = rank,
                    .dims = HS_NEW_ARRAY(a, int64_t, rank + 1)};
  v->types[k] = FFI_KIND_BUFFER;
  v->values[k] = b;
  return b->dims;
}

static hs_status outcome(ffi_error *e, ffi_future *f) {
  if (!e && f) {
    pthread_mutex_lock(&f->lock);
    while (!f->done) pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
    e = f->error;
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    hs_free(f);
  }
  if (!e) return HS_GOOD;
  hs_status st = hs_fail(HS_E_RUN, "the handler says: %s", e->message);
  api_error_destroy(&(ffi_error_destroy){.error = e});
  return st;
}

hs_status ffi_invoke(ffi_handler *handler, const ffi_values *args, const ffi_values *rets,
                     hs_str config, hs_arena *a) {
  ffi_context ctx = {0};
  // XLA's size of it ends before its last field
  ffi_frame frame = {.struct_size = offsetof(ffi_frame, future),
                     .api = &api,
                     .ctx = &ctx,
                     .stage = FFI_STAGE_EXECUTE,
                     .args = *args,
                     .rets = *rets};
  reader attrs = {.p = config.p, .end = config.p + config.n, .a = a};
  frame.attrs = *read_dictionary(&attrs, 0);
  if (attrs.bad)
    return hs_fail(HS_E_UNSUPPORTED, "the attributes of the call cannot be read: %.*s",
                   (int)HS_MIN(config.n, 200u), config.p);
  ffi_error *e = handler(&frame);
  return outcome(e, frame.future);
}
