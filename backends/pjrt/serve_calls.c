// serve_calls.c — worker side: custom calls that the plug-in has no handler for, computed by
// hlosh.
//
// Plug-ins have handlers for XLA's own calls; those of JAX's libraries (LAPACK above all) they
// refuse to compile. Through the plug-in's FFI extension a handler is registered for each such
// target of a module: the user's own library when one is loaded for it (`customcall load`), else
// ours, which evaluates the instruction as the interpreter would. The plug-in's own handlers are
// not replaced.
//
// A call frame has dimensions and attributes, but neither the target's name nor layouts. So every
// target has a function of its own, and layouts come from the compiled module, whose calls of that
// target, those shapes and numbers must agree on them. Our handlers work on host memory: on another
// platform than the host they answer an error when they are called, which lets a module be compiled
// for a device that is not here.
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>

#include "backends/ffi_abi.h"
#include "backends/pjrt/serve.h"
#include "core/ir/config.h"
#include "core/eval/ops.h"
#include "core/proto/proto.h"

enum { MAX_TARGETS = 64 };
// ON_HOST: computed by hlosh, on host memory. ON_DEVICE: registered, but returns an error. LIBRARY:
// the user's handler. PLUGIN: the plug-in's own.
typedef struct known_target {
  char *name;
  enum { ON_HOST, ON_DEVICE, LIBRARY, PLUGIN } how;
  ffi_handler *library;
} known_target;
static struct {
  known_target v[MAX_TARGETS];
  u32 n;
  pthread_mutex_t lock;
  hlo_ctx *ctx;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- attributes as MLIR text --------------------------------------------------------------------

static void put_type(hs_buf *b, hlo_dtype t) {
  const char *text = hlo_dtype_text(t);
  hs_buf_printf(b, "%s%s",
                t == HLO_PRED  ? "i1"
                : *text == 'u' ? "ui"
                : *text == 's' ? "i"
                               : text,
                t == HLO_PRED                  ? ""
                : *text == 'u' || *text == 's' ? text + 1
                                               : "");
}

static void put_number(hs_buf *b, hlo_dtype t, const void *p) {
  if (hlo_dtype_is_float(t)) hs_buf_printf(b, "%.17g", hlo_elem_to_f64(t, p));
  else hs_buf_i64(b, hlo_elem_to_i64(t, p));
}

static void put_attrs(hs_buf *b, const ffi_attrs *a) {
  hs_buf_puts(b, "{");
  for (int64_t k = 0; k < a->size; k++) {
    hs_buf_printf(b, "%s%.*s = ", k ? ", " : "", (int)a->names[k]->len, a->names[k]->ptr);
    if (a->types[k] == FFI_ATTR_STRING) {
      const ffi_span *s = a->attrs[k];
      hs_buf_printf(b, "\"%.*s\"", (int)s->len, s->ptr);
    } else if (a->types[k] == FFI_ATTR_SCALAR) {
      const ffi_scalar *s = a->attrs[k];
      hlo_dtype t = hlo_dtype_from_proto(s->dtype);
      put_number(b, t, s->value);
      hs_buf_puts(b, " : ");
      put_type(b, t);
    } else if (a->types[k] == FFI_ATTR_ARRAY) {
      const ffi_array *s = a->attrs[k];
      hlo_dtype t = hlo_dtype_from_proto(s->dtype);
      hs_buf_puts(b, "array<");
      put_type(b, t);
      for (size_t j = 0; j < s->size; j++) {
        hs_buf_puts(b, j ? ", " : ": ");
        put_number(b, t, (const char *)s->data + j * hlo_dtype_storage(t));
      }
      hs_buf_puts(b, ">");
    } else put_attrs(b, a->attrs[k]);
  }
  hs_buf_puts(b, "}");
}

// ---- one call -----------------------------------------------------------------------------------

static u32 result_count(const hlo_instr *i) {
  return hlo_shape_is_tuple(i->shape) ? i->shape->nelems : 1;
}
static const hlo_shape *result_shape(const hlo_instr *i, u32 k) {
  return hlo_shape_is_tuple(i->shape) ? i->shape->elems[k] : i->shape;
}

static bool same_array(const ffi_buffer *b, const hlo_shape *s) {
  if (!hlo_shape_is_array(s) || hlo_dtypes[s->dtype].proto != b->dtype ||
      b->rank != (int64_t)s->rank)
    return false;
  for (u32 d = 0; d < s->rank; d++)
    if (b->dims[d] != s->dims[d]) return false;
  return true;
}

// Compares the numbers among the attributes; the others rarely differ between calls.
static bool same_numbers(const hlo_instr *i, const ffi_attrs *a) {
  for (int64_t k = 0; k < a->size; k++) {
    if (a->types[k] != FFI_ATTR_SCALAR) continue;
    const ffi_scalar *s = a->attrs[k];
    hlo_dtype t = hlo_dtype_from_proto(s->dtype);
    char *name = hs_format("%.*s", (int)a->names[k]->len, a->names[k]->ptr);
    double v = hlo_dtype_is_float(t) ? hlo_elem_to_f64(t, s->value)
                                     : (double)hlo_elem_to_i64(t, s->value),
           stated = hlo_config_number(i, NULL, name, v);
    hs_free(name);
    if (fabs(v - stated) > 1e-6 * fabs(v)) return false;
  }
  return true;
}

static bool fits(const hlo_instr *i, const ffi_frame *f) {
  if (f->args.size != i->noperands || f->rets.size != result_count(i)) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (!same_array(f->args.values[k], hlo_operand(i, k)->shape)) return false;
  for (u32 k = 0; k < result_count(i); k++)
    if (!same_array(f->rets.values[k], result_shape(i, k))) return false;
  return same_numbers(i, &f->attrs);
}

static bool same_layouts(const hlo_instr *a, const hlo_instr *b) {
  for (u32 k = 0; k < a->noperands; k++)
    if (hlo_operand(a, k)->shape != hlo_operand(b, k)->shape) return false;
  return a->shape == b->shape;
}

// The compiled module's call that this frame belongs to, or one that is like it.
static hs_status find_call(const char *target, const ffi_frame *f, const hlo_instr **out) {
  *out = NULL;
  for (size_t k = 0; pjs.running && k < pjs.running->calls.n; k++) {
    const hlo_instr *i = pjs.running->calls.v[k];
    if (!hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), hs_str_of(target)) || !fits(i, f))
      continue;
    if (*out && !same_layouts(*out, i))
      return hs_fail(HS_E_UNSUPPORTED,
                     "custom calls of %s with equal shapes and attributes, and unequal layouts",
                     target);
    *out = i;
  }
  return *out ? HS_GOOD
              : hs_fail(HS_E_RUN, "no custom call of %s in the compiled module has these shapes",
                        target);
}

// Between memory in the shape's layout and a literal, which is row-major.
static void relay(const hlo_shape *s, void *laid_out, hlo_literal *l, bool in) {
  i64 logical[HLO_MAX_RANK], physical[HLO_MAX_RANK], stride = 1;
  hlo_row_major_strides(s->rank, s->dims, logical);
  for (u32 k = 0; k < s->rank; k++) {
    i64 d = s->layout ? s->layout->minor_to_major[k] : (i64)(s->rank - 1 - k);
    physical[d] = stride;
    stride *= s->dims[d];
  }
  size_t w = hlo_dtype_storage(s->dtype);
  if (!l->bytes) return;
  if (in) ev_copy(w, s->rank, s->dims, l->data, logical, laid_out, physical);
  else ev_copy(w, s->rank, s->dims, laid_out, physical, l->data, logical);
}

static hs_status evaluate(const hlo_instr *like, const ffi_frame *f) {
  hlo_module *m = hlo_module_new(known.ctx, "call");
  hlo_computation *c = hlo_add_computation(m, "call");
  hlo_instr **params = hs_calloc(like->noperands + 1u, sizeof *params);
  hlo_literal **ops = hs_calloc(like->noperands + 1u, sizeof *ops), *out = NULL;
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < like->noperands && hs_ok(s); k++) {
    const ffi_buffer *b = f->args.values[k];
    params[k] = hlo_add_parameter(c, k, hlo_operand(like, k)->shape, "p");
    s = hlo_literal_new(params[k]->shape, &ops[k]);
    if (hs_ok(s)) relay(params[k]->shape, b->data, ops[k], true);
  }
  if (hs_ok(s)) {
    hlo_instr *i = hlo_clone_instr(c, like, like->shape, like->noperands, params);
    hs_buf text = {0};
    put_attrs(&text, &f->attrs);
    hlo_backend_config *config = HS_NEW(&m->arena, hlo_backend_config);
    *config = (hlo_backend_config){{hs_arena_strndup(&m->arena, text.p, text.n), text.n}, true};
    hlo_set_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG, config);
    hs_buf_free(&text);
    s = hlo_eval_instr(i, i->noperands, ops, NULL, &out);
  }
  for (u32 k = 0; k < result_count(like) && hs_ok(s); k++) {
    const ffi_buffer *b = f->rets.values[k];
    relay(result_shape(like, k), b->data, hlo_shape_is_tuple(like->shape) ? out->children[k] : out,
          false);
  }
  hlo_literal_unref(out);
  for (u32 k = 0; k < like->noperands; k++) hlo_literal_unref(ops[k]);
  hs_free(ops);
  hs_free(params);
  hlo_module_free(m);
  return s;
}

static ffi_error *answer(u32 slot, ffi_frame *f) {
  for (const ffi_extension *e = f->extension; e; e = e->next) {
    if (e->type != FFI_EXTENSION_METADATA) continue;
    ffi_metadata *about = ((const ffi_metadata_extension *)(const void *)e)->metadata;
    // any version will do: only what all of them have is used
    about->version.major = f->api ? f->api->version.major : FFI_MAJOR;
    about->version.minor = f->api ? f->api->version.minor : FFI_MINOR;
    about->traits = 0;
    return NULL;
  }
  if (f->stage != FFI_STAGE_EXECUTE) return NULL;
  if (known.v[slot].how == LIBRARY) return known.v[slot].library(f);
  const hlo_instr *like = NULL;
  // several devices and threads may call at once, and an hlo_ctx is for one thread
  pthread_mutex_lock(&known.lock);
  hs_status s =
      known.v[slot].how == ON_HOST
          ? find_call(known.v[slot].name, f, &like)
          : hs_fail(HS_E_UNSUPPORTED, "%s is computed on the host only", known.v[slot].name);
  if (hs_ok(s)) s = evaluate(like, f);
  pthread_mutex_unlock(&known.lock);
  if (hs_ok(s)) return NULL;
  ffi_error_create e = {.struct_size = sizeof e, .message = s.err->message, .code = FFI_INTERNAL};
  ffi_error *made = f->api->error_create(&e);
  hs_status_drop(s);
  return made;
}

// One function per target: slots 00 to 77, in octal.
#define SLOT(a, b) \
  static ffi_error *slot_##a##b(ffi_frame *f) { return answer(0##a##b, f); }
#define EIGHT(X, a) X(a, 0) X(a, 1) X(a, 2) X(a, 3) X(a, 4) X(a, 5) X(a, 6) X(a, 7)
#define ALL(X) \
  EIGHT(X, 0) EIGHT(X, 1) EIGHT(X, 2) EIGHT(X, 3) EIGHT(X, 4) EIGHT(X, 5) EIGHT(X, 6) EIGHT(X, 7)
ALL(SLOT)
#define NAME(a, b) slot_##a##b,
static ffi_handler *const slots[] = {ALL(NAME)};
_Static_assert(HS_COUNT(slots) == MAX_TARGETS, "a slot per target");

// ---- registering --------------------------------------------------------------------------------

// XLA's name of the platform; that of the CPU is Host.
static void platform_name(char out[32]) {
  pj_client_text c = PJ_ARGS(pj_client_text, n, .client = pjs.client);
  pj_topology_text t = PJ_ARGS(pj_topology_text, n, .topology = pjs.topology);
  hs_status s = pjs.client ? pj_do(&pjs.plugin, HS_E_RUN, PJ_Client_PlatformName, &c)
                           : pj_do(&pjs.plugin, HS_E_RUN, PJ_TopologyDescription_PlatformName, &t);
  hs_str name = !hs_ok(s)    ? HS_STR("cpu")
                : pjs.client ? (hs_str){c.text, c.n}
                             : (hs_str){t.text, t.n};
  hs_status_drop(s);
  if (hs_str_eq(name, HS_STR("cpu"))) name = HS_STR("Host");
  size_t n = HS_MIN(name.n, (size_t)31);
  memcpy(out, name.p, n);
  out[n] = '\0';
}

// The user's handler; NULL when its library does not load or lacks the symbol.
static ffi_handler *library_handler(hs_str library, hs_str symbol) {
  char *file = hs_format("%.*s", (int)library.n, library.p),
       *name = hs_format("%.*s", (int)symbol.n, symbol.p);
  void *so = library.n ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL,
       *at = so ? dlsym(so, name) : NULL;
  hs_free(file);
  hs_free(name);
  return (ffi_handler *)(uintptr_t)at;
}

hs_status pjs_offer_call(hs_str target, hs_str library, hs_str symbol) {
  for (u32 k = 0; k < known.n; k++)
    if (hs_str_eq(target, hs_str_of(known.v[k].name))) return HS_GOOD;
  const pj_ext_ffi *x = (const void *)pj_find_extension(&pjs.plugin, PJ_EXT_FFI);
  // without handlers, compiling fails and names the call
  if (!x || x->base.struct_size < sizeof *x || !x->register_handler) return HS_GOOD;
  if (known.n == MAX_TARGETS)
    return hs_fail(HS_E_LIMIT, "more than %d different custom calls in one plug-in", MAX_TARGETS);
  char platform[32];
  platform_name(platform);
  known_target *t = &known.v[known.n];
  *t = (known_target){.name = hs_format("%.*s", (int)target.n, target.p),
                      .how = strcmp(platform, "Host") ? ON_DEVICE : ON_HOST};
  if (!known.ctx) known.ctx = hlo_ctx_new();
  t->library = library_handler(library, symbol);
  if (t->library) t->how = LIBRARY;
  pj_register_handler r = {.struct_size = PJ_SIZE(pj_register_handler, traits),
                           .target = t->name,
                           .target_n = target.n,
                           .handler = (void *)(uintptr_t)slots[known.n++],
                           .platform = platform,
                           .platform_n = strlen(platform)};
  hs_status s = pj_take_error(&pjs.plugin, HS_E_COMPILE, PJ_FN_COUNT,
                              ((pj_call *)(uintptr_t)x->register_handler)(&r));
  if (!hs_ok(s)) t->how = PLUGIN;  // the plug-in has one of its own
  hs_status_drop(s);
  return HS_GOOD;
}

bool pjs_call_refuses(hs_str target) {
  for (u32 k = 0; k < known.n; k++)
    if (hs_str_eq(target, hs_str_of(known.v[k].name))) return known.v[k].how == ON_DEVICE;
  return false;
}

// ---- the compiled module's calls ----------------------------------------------------------------

void pjs_keep_calls(pjs_program *g, hs_str module) {
  bool ours = false;
  for (u32 k = 0; k < known.n; k++) ours |= known.v[k].how == ON_HOST;
  if (!ours || !module.n) return;
  hs_status s = hlo_proto_read(known.ctx, module.p, module.n, NULL, &g->made);
  // a call that runs then fails because it is unknown
  if (!hs_ok(s)) {
    hs_status_drop(s);
    return;
  }
  hlo_for_each_comp(c, g->made)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_CUSTOM_CALL) hs_vec_push(&g->calls, i);
}
