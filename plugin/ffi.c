// ffi.c — the FFI extension: handlers of custom calls that the user registers (jax.ffi, Python
// callbacks), called on the buffers of the program that runs.
//
// Handlers belong to the process, as in XLA: they are registered without a client. The typed
// interface is answered (api versions 1 and later of a call: 4 in HLO), with its execute stage; the
// older untyped one is not.
#include "plugin/plugin.h"

#include "backends/ffi_host.h"

// ---- custom calls of the user -------------------------------------------------------------------
static ffi_handler *handler_of(const hlo_instr *i) {
  return ffi_registered(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET));
}
static bool covers(void *arg, const hlo_instr *i) { return (void)arg, handler_of(i) != NULL; }

static u32 count_leaves(u32 n, hlo_literal *const *v) {
  u32 total = 0;
  for (u32 k = 0; k < n; k++) total += hlo_shape_leaves(v[k]->shape);
  return total;
}

static hs_status put_leaves(hs_arena *a, hlo_literal *l, ffi_values *v, u32 *at) {
  const hlo_shape *s = l->shape;
  if (hlo_shape_is_tuple(s)) {
    for (u32 k = 0; k < l->nchildren; k++) HS_TRY(put_leaves(a, l->children[k], v, at));
    return HS_GOOD;
  }
  bool fits = s->dtype == HLO_TOKEN || (hlo_shape_is_array(s) && hlo_dtype_bits(s->dtype) >= 8);
  if (!fits)
    return hs_fail_subject(HS_E_UNSUPPORTED, "custom-call",
                           "unsupported: a custom call with values of type %s",
                           hlo_dtype_text(s->dtype));
  int64_t *dims = ffi_values_set(a, v, (*at)++, s->dtype, s->rank, l->data);
  for (u32 d = 0; d < s->rank; d++) dims[d] = s->dims[d];
  return HS_GOOD;
}

static hs_status call(void *arg, const hlo_instr *i, u32 n, hlo_literal *const *ops,
                      hlo_literal **out) {
  (void)arg;
  hs_arena a = {0};
  const hlo_backend_config *c = hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG);
  hs_status s = hlo_literal_new(i->shape, out);
  u32 at = 0;
  if (hs_ok(s)) {
    ffi_values in = ffi_values_new(&a, count_leaves(n, ops)),
               to = ffi_values_new(&a, hlo_shape_leaves(i->shape));
    for (u32 k = 0; k < n && hs_ok(s); k++) s = put_leaves(&a, ops[k], &in, &at);
    at = 0;
    if (hs_ok(s)) s = put_leaves(&a, *out, &to, &at);
    // what is called may call the library, or wait for a thread that does
    bool paused = cpu_local_pause();
    if (hs_ok(s)) s = ffi_invoke(handler_of(i), &in, &to, c ? c->text : (hs_str){0}, &a);
    if (paused) cpu_local_resume();
  }
  if (!hs_ok(s)) {
    hlo_literal_unref(*out);
    *out = NULL;
  }
  hs_arena_free(&a);
  return s;
}

const hlo_eval_peer plug_peer = {.covers = covers, .call = call};

// ---- the extension ------------------------------------------------------------------------------
static pj_error *register_handler(pj_register_handler *a) {
  if (!a || a->struct_size < PJ_SIZE(pj_register_handler, platform_n) || !a->target ||
      !a->target_n || !a->handler)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: a handler needs a target and a function");
  ffi_handler *f;
  memcpy(&f, &a->handler, sizeof f);
  ffi_register((hs_str){a->target, a->target_n}, f);
  return NULL;
}

// The arguments of the other two: what is to be known by a type's number is nobody's here.
typedef struct type_args {
  PJ_HEAD;
  const char *name;
  size_t name_n;
  i64 id;
} type_args;
static pj_error *register_type(type_args *a) {
  static _Atomic i64 last;
  if (!a || a->struct_size < PJ_SIZE(type_args, id))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no place for the type's number");
  if (!a->id) a->id = atomic_fetch_add(&last, 1) + 1;
  return NULL;
}
static pj_error *add_user_data(void *args) {
  (void)args;
  return plug_fail(PJ_UNIMPLEMENTED, "hlosh: handlers get no user data");
}

pj_extension *plug_ffi_extension(void) {
  static pj_ext_ffi ext = {.base = {.struct_size = sizeof ext, .type = PJ_EXT_FFI}};
  ext.type_register = (void *)(uintptr_t)register_type;
  ext.user_data_add = (void *)(uintptr_t)add_user_data;
  ext.register_handler = (void *)(uintptr_t)register_handler;
  cpu_local_peer(&plug_peer);
  return &ext.base;
}
