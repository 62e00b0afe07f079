// fake_pjrt.c — a PJRT plug-in of our own for tests: computes with hlosh's evaluator, and
// misbehaves on request.
//
// What it does stands in its own file name, so that one source serves every test: NAME-MODE.so.
// Modes:
//   ok             compiles and runs
//   old            says API 0.20
//   tiny           a table too short for its functions
//   short          the first 60 functions only
//   missing        no Client_Compile
//   null           GetPjrtApi gives NULL
//   future         API 0.200, a larger table
//   picky          demands longer structs than exist yet
//   error          Compile answers code 3
//   unimplemented  everything optional answers code 12
//   hang           Compile never returns
//   abort          Compile stops the process as XLA's checks do
//   segv           Compile crashes
//   shape          tells another output shape
//   runerror       Execute answers code 13
//   runhang        Execute never returns
//   runabort       Execute stops the process
//   size           a result of another size than the module's
//   copies         does not take memory that is given away
//   wraps          tells sizes of memory that have wrapped around
//   layout         stops the process over a module with fusions
//   rude, rudeend  its errors, costs and words on standard error hold what a terminal would obey;
//                  the second one stops the process with them
//   options        its client is not made; the error says with which options it was to be
//   gpu            no devices; compiles for a described one, of which it does not know the field
//                  `unknown_field`, and dumps kernels
//   ffi            takes handlers of custom calls; a module whose root is a call on its parameters
//                  is run by its handler
//   wrong, passabort, heavy a pass of its pipeline does that (fake_passes.h)
//   codegen        wrong results while commuter runs
//   badcode        wrong results always
//   nopasses       compiles without passes, and logs none
//   refuse         its verifier objects to what commuter leaves
// It is loaded into hlosh (or a test) and uses that program's own functions. Buffers and events are
// counted: an executable that is destroyed while one is alive stops the process, so every test also
// tests for leaks.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/ffi_abi.h"
#include "backends/pjrt/api.h"
#include "core/eval/eval.h"
#include "core/proto/proto.h"
#include "tests/plugin/fake_passes.h"

struct pj_error {
  int code;
  char text[400];
};
struct pj_event {
  int unused;
};
struct pj_buffer {
  hlo_literal *value;
};
struct pj_executable {
  hlo_module *m;
  bool stumbles;
  u32 nouts;
  int types[64];
  size_t ranks[64];
  i64 dims[512];
  i64 ndims;
  hs_buf serialized;
};
struct pj_loaded {
  pj_executable *e;
};
struct pj_client {
  hlo_ctx *ctx;
};
struct pj_topology {
  hlo_ctx *ctx;
};
struct pj_device {
  int id;
};

static pj_device device;
static pj_device *devices[] = {&device};
static int live;

static const char *mode(void) {
  static char text[64];
  Dl_info i;
  if (*text || !dladdr((void *)(uintptr_t)mode, &i) || !i.dli_fname) return text;
  const char *dash = strrchr(i.dli_fname, '-');
  if (dash) snprintf(text, sizeof text, "%s", dash + 1);
  char *dot = strchr(text, '.');
  if (dot) *dot = '\0';
  if (!*text) snprintf(text, sizeof text, "ok");
  return text;
}
static bool is(const char *m) { return strcmp(mode(), m) == 0; }

static pj_error *fail(int code, const char *text) {
  pj_error *e = hs_calloc(1, sizeof *e);
  e->code = code;
  snprintf(e->text, sizeof e->text, "%s", text);
  return e;
}
static pj_error *from_status(hs_status s) {
  if (hs_ok(s)) return NULL;
  pj_error *e = fail(PJ_INTERNAL, s.err->message);
  hs_status_drop(s);
  return e;
}
static pj_event *event(void) {
  live++;
  return hs_calloc(1, sizeof(pj_event));
}

#define RUDE "\033]52;c;x\007\033[8;45m\302\233\233\xE2\x80\xAE\b\r\xFF"

// What XLA prints before one of its checks ends the process.
static void stop(const char *what) {
  fprintf(stderr,
          "F0000 00:00:00.000000    1234 fake_check.cc:42] Check failed: %s (-1 vs. 0) \n"
          "*** Check failure stack trace: ***\n",
          what);
  fflush(stderr);
  raise(SIGABRT);
}

// ---- errors, events, plug-in, client ------------------------------------------------------------
static void error_destroy(pj_error_destroy *a) { hs_free(a->error); }
static void error_message(pj_error_message *a) {
  a->text = a->error->text;
  a->n = strlen(a->text);
}
static pj_error *error_code(pj_error_code *a) {
  a->code = a->error->code;
  return NULL;
}
static pj_error *event_destroy(pj_event_arg *a) {
  live--;
  hs_free(a->event);
  return NULL;
}
static pj_error *event_await(pj_event_arg *a) {
  return a->event ? NULL : fail(PJ_INVALID_ARGUMENT, "no event");
}
static pj_error *initialize(pj_initialize *a) {
  (void)a;
  return NULL;
}
static pj_error *attributes(pj_attributes *a) {
  static const i64 version[3] = {1, 2, 3};
  static const pj_named v = {.struct_size = PJ_SIZE(pj_named, n),
                             .name = "stablehlo_current_version",
                             .name_n = 25,
                             .type = PJ_INT64_LIST,
                             .v.list = version,
                             .n = 3};
  a->v = &v;
  a->n = 1;
  return NULL;
}
static char told[300];
static pj_error *client_create(pj_client_create *a) {
  if (is("gpu")) return fail(PJ_FAILED_PRECONDITION, "No visible GPU devices.");
  size_t want = PJ_SIZE(pj_client_create, kv_try_get_arg) + (is("picky") ? 64 : 0);
  if (a->struct_size < want) {
    char text[200];
    snprintf(text, sizeof text,
             "Unexpected PJRT_Client_Create_Args size: expected %zu, got %zu. The plugin is likely "
             "built with a later version.",
             want, a->struct_size);
    return fail(PJ_INVALID_ARGUMENT, text);
  }
  // tells what it was given, as its answer
  for (size_t k = 0; k < a->noptions && is("options"); k++) {
    const pj_named *o = &a->options[k];
    size_t n = strlen(told);
    if (o->type == PJ_STRING)
      snprintf(told + n, sizeof told - n, "%.*s=%.*s ", (int)o->name_n, o->name, (int)o->n, o->v.s);
    if (o->type == PJ_INT64)
      snprintf(told + n, sizeof told - n, "%.*s=%lld ", (int)o->name_n, o->name, (long long)o->v.i);
    if (o->type == PJ_BOOL)
      snprintf(told + n, sizeof told - n, "%.*s=%s ", (int)o->name_n, o->name,
               o->v.b ? "yes" : "no");
    if (o->type == PJ_FLOAT)
      snprintf(told + n, sizeof told - n, "%.*s=%g ", (int)o->name_n, o->name, (double)o->v.f);
    if (o->type == PJ_INT64_LIST)
      snprintf(told + n, sizeof told - n, "%.*s=%zu of them, last %lld ", (int)o->name_n, o->name,
               o->n, o->n ? (long long)o->v.list[o->n - 1] : 0);
  }
  if (is("options")) return fail(PJ_INVALID_ARGUMENT, told);
  a->client = hs_calloc(1, sizeof *a->client);
  a->client->ctx = hlo_ctx_new();
  return NULL;
}
static pj_error *client_devices(pj_client_devices *a) {
  a->v = devices;
  a->n = 1;
  return NULL;
}

// ---- compiling ----------------------------------------------------------------------------------
static void describe(pj_executable *e) {
  const hlo_shape *r = e->m->entry->root->shape;
  e->nouts = hlo_shape_leaves(r);
  for (u32 k = 0; k < e->nouts && k < 64; k++) {
    const hlo_shape *s = hlo_shape_leaf(r, k);
    static const int types[HLO_DTYPE_COUNT] = {
        [HLO_PRED] = 1, [HLO_S32] = 4, [HLO_F32] = 11, [HLO_F64] = 12};
    e->types[k] = types[s->dtype];
    e->ranks[k] = s->rank;
    for (u32 d = 0; d < s->rank && e->ndims < 512; d++)
      e->dims[e->ndims++] = s->dims[d] + (is("shape") ? 1 : 0);
  }
}
static pj_error *make_executable(hlo_ctx *ctx, const pj_program *program, const char *options,
                                 size_t options_n, fake_compile *f, pj_executable **out) {
  if (program->format_n != 3 || memcmp(program->format, "hlo", 3) != 0)
    return fail(PJ_INVALID_ARGUMENT, "Unknown program format");
  hs_str unknown =
      fake_read_flags(f, (pb){(const u8 *)options, (const u8 *)options + options_n, false});
  if (unknown.n) {
    char text[200];
    snprintf(text, sizeof text, "No such compile option: '%.*s'", (int)unknown.n, unknown.p);
    return fail(PJ_INVALID_ARGUMENT, text);
  }
  pj_executable *e = hs_calloc(1, sizeof *e);
  hs_status s = hlo_proto_read(ctx, program->code, program->code_n, NULL, &e->m);
  if (!hs_ok(s)) {
    hs_free(e);
    return from_status(s);
  }
  f->m = e->m;
  hlo_for_each_comp(c, e->m)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_FUSION && is("layout")) stop("has_layout()");
  if (!is("nopasses") && !f->backend_only) fake_optimize(f);
  if (is("refuse") && !fake_named(f->disabled, "commuter")) {
    hlo_module_free(e->m);
    hs_free(e);
    return fail(PJ_INTERNAL,
                "during context [hlo verifier]: a fake rule is broken\n\nFailed after commuter");
  }
  e->stumbles = is("badcode") || (is("codegen") && !fake_named(f->disabled, "commuter"));
  s = hlo_proto_write(&e->serialized, e->m, false);
  if (!hs_ok(s)) {
    hlo_module_free(e->m);
    hs_free(e);
    return from_status(s);
  }
  describe(e);
  *out = e;
  return NULL;
}
static pj_error *compile(pj_client_compile *a) {
  if (is("error")) return fail(PJ_INVALID_ARGUMENT, "the fake plug-in refuses this module");
  if (is("hang"))
    for (;;) pause();
  if (is("abort")) stop("pointer_size > 0");
  if (is("rude")) fputs("E0000 fake.cc:1] " RUDE "\n", stderr);
  if (is("rudeend")) stop(RUDE);
  if (is("segv")) raise(SIGSEGV);
  pj_executable *made = NULL;
  fake_compile f = {0};
  pj_error *e = make_executable(a->client->ctx, a->program, a->options, a->options_n, &f, &made);
  if (e) return e;
  a->executable = hs_calloc(1, sizeof *a->executable);
  a->executable->e = made;
  return NULL;
}

// ---- without a device ---------------------------------------------------------------------------
static pj_error *topology_create(pj_topology_create *a) {
  bool described = false;
  for (size_t k = 0; k < a->noptions; k++) {
    const pj_named *o = &a->options[k];
    if (o->name_n != 13 || memcmp(o->name, "target_config", 13) != 0) continue;
    described = memmem(o->v.s, o->n, "gpu_device_info", 15) != NULL;
    if (memmem(o->v.s, o->n, "unknown_field", 13)) {
      fprintf(stderr,
              "E0000 text_format.cc:399] Message type \"GpuDeviceInfoProto\" has no field named "
              "\"unknown_field\".\n");
      fflush(stderr);
      return fail(PJ_INVALID_ARGUMENT, "Failed to parse target config");
    }
  }
  if (!described) return fail(PJ_FAILED_PRECONDITION, "No visible GPU devices.");
  a->topology = hs_calloc(1, sizeof *a->topology);
  a->topology->ctx = hlo_ctx_new();
  return NULL;
}
static pj_error *topology_name(pj_topology_text *a) {
  a->text = "cuda";
  a->n = 4;
  return NULL;
}

static void dump(const char *dir, const char *name, const char *text) {
  char path[400];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "w");
  if (!f) return;
  fputs(text, f);
  fclose(f);
}
static pj_error *compile_for(pj_compile *a) {
  fake_compile f = {0};
  pj_error *e =
      make_executable(a->topology->ctx, a->program, a->options, a->options_n, &f, &a->executable);
  if (e || !f.dump_to.n) return e;
  char dir[256];
  snprintf(dir, sizeof dir, "%.*s", (int)f.dump_to.n, f.dump_to.p);
  dump(dir, "module_0000.m.thunk_sequence.txt",
       "001: kCustomKernel [source | next=002 (1)] fused_b grid: [16, 2, 1] threads: [128, 1, 1]  "
       "shared_memory: 64 bytes\n"
       "002: kWhile        [prev=001 (1) | sink ]   \nbody:\n    003: kCopy [source | sink] kCopy\n"
       "    004: kCustomKernel [source | sink] r grid: [1, 1, 1] threads: [32, 1, 1]  "
       "shared_memory: 0 bytes\n");
  dump(
      dir, "module_0000.m.thunk_metadata.txt",
      "thunk_metadata {\n  thunk_info {\n    profile_annotation: \"parameter-of-none\"\n  }\n}\n"
      "thunk_metadata {\n  thunk_info {\n    profile_annotation: \"x\"\n    thunk_id: 3\n  }\n}\n");
  dump(dir, "module_0000.m.1.ptx",
       ".version 9.0\n.target sm_90a\n.shared .align 4 .b8 tile[4224];\n"
       ".extern .shared .align 16 .b8 more[];\n.visible .entry fused_b(\n)\n{ ret; }\n");
  dump(dir, "module_0000.m.2.ptx",
       ".version 9.0\n.target sm_90a\n.visible .entry r(\n)\n{ ret; }\n");
  return NULL;
}
static pj_error *get_executable(pj_get_executable *a) {
  a->executable = a->loaded->e;
  return NULL;
}
static pj_error *executable_destroy(pj_executable_arg *a) {
  (void)a;
  return NULL;
}
static pj_error *loaded_destroy(pj_loaded_arg *a) {
  if (live) stop("no buffer or event is alive");
  hlo_module_free(a->executable->e->m);
  hs_buf_free(&a->executable->e->serialized);
  hs_free(a->executable->e);
  hs_free(a->executable);
  return NULL;
}
static pj_error *num_outputs(pj_executable_size *a) {
  a->n = a->executable->nouts;
  return NULL;
}
static pj_error *output_types(pj_output_types *a) {
  a->v = a->executable->types;
  a->n = a->executable->nouts;
  return NULL;
}
static pj_error *output_dims(pj_output_dims *a) {
  a->n = a->executable->nouts;
  a->dims = a->executable->dims;
  a->ranks = a->executable->ranks;
  return NULL;
}
static pj_error *optimized(pj_optimized *a) {
  const hs_buf *b = &a->executable->serialized;
  if (is("unimplemented")) return fail(PJ_UNIMPLEMENTED, "not here");
  if (a->program->code) memcpy(a->program->code, b->p, b->n);
  a->program->code_n = b->n;
  a->program->format = "hlo";
  a->program->format_n = 3;
  return NULL;
}
static pj_error *cost(pj_cost *a) {
  static pj_named v = {.struct_size = PJ_SIZE(pj_named, n),
                       .name = "flops",
                       .name_n = 5,
                       .type = PJ_FLOAT,
                       .v.f = 7,
                       .n = 1};
  if (is("unimplemented")) return fail(PJ_UNIMPLEMENTED, "not here");
  if (is("rude")) v.name = RUDE, v.name_n = strlen(RUDE);
  a->v = &v;
  a->n = 1;
  return NULL;
}
static pj_error *memory_stats(pj_memory_stats *a) {
  if (is("unimplemented")) return fail(PJ_UNIMPLEMENTED, "not here");
  a->arguments = 16;
  a->outputs = 16;
  a->temp = is("wraps") ? INT64_MIN : 64;
  return NULL;
}
static pj_error *unimplemented(void *a) {
  (void)a;
  return fail(PJ_UNIMPLEMENTED, "the fake plug-in lacks this function");
}

// ---- buffers and running ------------------------------------------------------------------------
static hlo_dtype dtype_of(int type) {
  return type == 1 ? HLO_PRED : type == 4 ? HLO_S32 : type == 12 ? HLO_F64 : HLO_F32;
}
static pj_error *from_host(pj_from_host *a) {
  if (is("copies") && a->semantics == PJ_MUTABLE_ZERO_COPY)
    return fail(PJ_INVALID_ARGUMENT, "unknown semantics");
  const hlo_shape *s = hlo_shape_array(a->client->ctx, dtype_of(a->type), (u32)a->rank, a->dims);
  hlo_literal *l;
  hs_status st = hlo_literal_new(s, &l);
  if (!hs_ok(st)) return from_status(st);
  if (l->bytes) memcpy(l->data, a->data, l->bytes);
  live++;
  a->buffer = hs_calloc(1, sizeof *a->buffer);
  a->buffer->value = l;
  a->done = event();
  return NULL;
}
static pj_error *buffer_destroy(pj_buffer_arg *a) {
  live--;
  hlo_literal_unref(a->buffer->value);
  hs_free(a->buffer);
  return NULL;
}
static pj_error *to_host(pj_to_host *a) {
  const hlo_literal *l = a->src->value;
  if (!a->dst) {
    a->n = l->bytes + (is("size") ? 1000000 : 0);
    return NULL;
  }
  memcpy(a->dst, l->data, l->bytes);
  a->event = event();
  return NULL;
}
static u32 put_outputs(hlo_literal *v, pj_buffer **out, u32 n) {
  if (hlo_shape_is_tuple(v->shape)) {
    for (u32 k = 0; k < v->nchildren; k++) n = put_outputs(v->children[k], out, n);
    return n;
  }
  live++;
  out[n] = hs_calloc(1, sizeof *out[n]);
  out[n]->value = hlo_literal_ref(v);
  return n + 1;
}
// ---- custom calls through handlers --------------------------------------------------------------
struct ffi_error {
  char text[400];
};
static struct {
  char target[64];
  ffi_handler *handler;
} handlers[64];
static u32 nhandlers;

static ffi_error *ffi_fail(ffi_error_create *a) {
  ffi_error *e = hs_calloc(1, sizeof *e);
  snprintf(e->text, sizeof e->text, "%s", a->message);
  return e;
}
static const ffi_api fake_ffi = {
    .struct_size = sizeof fake_ffi,
    .version = {.struct_size = sizeof(ffi_version), .major = 0, .minor = 1},
    .error_create = ffi_fail};

static pj_error *register_handler(pj_register_handler *a) {
  ffi_metadata about = {.struct_size = sizeof about, .version = {.major = -1}};
  ffi_metadata_extension ext = {{sizeof ext, FFI_EXTENSION_METADATA, NULL}, &about};
  ffi_frame ask = {.struct_size = sizeof ask, .extension = &ext.base};
  ffi_handler *h = (ffi_handler *)(uintptr_t)a->handler;
  if (a->platform_n != 4 || memcmp(a->platform, "Host", 4) != 0)
    return fail(PJ_INVALID_ARGUMENT, "another platform");
  if (h(&ask) || about.version.major != 0)
    return fail(PJ_INVALID_ARGUMENT, "the handler does not tell its version");
  snprintf(handlers[nhandlers].target, sizeof handlers[0].target, "%.*s", (int)a->target_n,
           a->target);
  handlers[nhandlers++].handler = h;
  return NULL;
}

// A literal's elements in memory as the layout says, or back.
static void relay(const hlo_shape *s, char *laid_out, hlo_literal *l, bool out) {
  size_t w = hlo_dtype_storage(s->dtype);
  for (i64 k = 0; k < s->elements; k++) {
    i64 index[HLO_MAX_RANK], rest = k, at = 0, stride = 1;
    for (u32 d = s->rank; d-- > 0; rest /= s->dims[d]) index[d] = rest % s->dims[d];
    for (u32 d = 0; d < s->rank; d++) {
      i64 dim = s->layout->minor_to_major[d];
      at += index[dim] * stride;
      stride *= s->dims[dim];
    }
    char *x = laid_out + (size_t)at * w, *y = (char *)l->data + (size_t)k * w;
    memcpy(out ? x : y, out ? y : x, w);
  }
}

static ffi_buffer buffer_of(const hlo_shape *s) {
  return (ffi_buffer){.struct_size = sizeof(ffi_buffer),
                      .dtype = hlo_dtypes[s->dtype].proto,
                      .data = hs_calloc((size_t)s->elements + 1, 16),
                      .rank = s->rank,
                      .dims = (int64_t *)(uintptr_t)s->dims};
}

// One attribute is enough here: {NAME = NUMBER : ui8}, several of them.
static pj_error *call_handler(const hlo_instr *i, ffi_handler *h, hlo_literal **args,
                              hlo_literal **out) {
  ffi_buffer in[8], result[8];
  void *in_at[8], *out_at[8], *attr_at[8];
  int32_t kinds[8] = {1, 1, 1, 1, 1, 1, 1, 1}, types[8];
  ffi_span names[8], *name_at[8];
  ffi_scalar values[8];
  u8 bytes[8];
  const hlo_shape *r = i->shape;
  u32 nres = hlo_shape_is_tuple(r) ? r->nelems : 1, nattrs = 0;
  pj_error *e = from_status(hlo_literal_new(r, out));
  for (u32 k = 0; k < i->noperands && k < 8; k++) {
    in[k] = buffer_of(hlo_operand(i, k)->shape);
    relay(hlo_operand(i, k)->shape, in[k].data, args[hlo_param_number(hlo_operand(i, k))], true);
    in_at[k] = &in[k];
  }
  for (u32 k = 0; k < nres && k < 8; k++) {
    result[k] = buffer_of(hlo_shape_is_tuple(r) ? r->elems[k] : r);
    out_at[k] = &result[k];
  }
  const hlo_backend_config *c = hlo_attr_ptr(i, HLO_ATTR_BACKEND_CONFIG);
  for (const char *p = c ? c->text.p + 1 : NULL; p && nattrs < 8; nattrs++) {
    const char *equals = strchr(p, '=');
    if (!equals) break;
    names[nattrs] = (ffi_span){p, (size_t)(equals - 1 - p)};
    bytes[nattrs] = (u8)atoi(equals + 1);
    values[nattrs] = (ffi_scalar){hlo_dtypes[HLO_U8].proto, &bytes[nattrs]};
    name_at[nattrs] = &names[nattrs];
    attr_at[nattrs] = &values[nattrs];
    types[nattrs] = FFI_ATTR_SCALAR;
    p = strchr(equals, ',') ? strchr(equals, ',') + 2 : NULL;
  }
  ffi_frame f = {.struct_size = sizeof f,
                 .api = &fake_ffi,
                 .stage = FFI_STAGE_EXECUTE,
                 .args = {sizeof f.args, NULL, i->noperands, kinds, in_at},
                 .rets = {sizeof f.rets, NULL, nres, kinds, out_at},
                 .attrs = {sizeof f.attrs, NULL, nattrs, types, name_at, attr_at}};
  ffi_error *bad = e ? NULL : h(&f);
  if (bad) e = fail(PJ_INTERNAL, bad->text);
  hs_free(bad);
  for (u32 k = 0; k < nres && !e; k++)
    relay(hlo_shape_is_tuple(r) ? r->elems[k] : r, result[k].data,
          hlo_shape_is_tuple(r) ? (*out)->children[k] : *out, false);
  for (u32 k = 0; k < i->noperands; k++) hs_free(in[k].data);
  for (u32 k = 0; k < nres; k++) hs_free(result[k].data);
  return e;
}

static pj_error *compute(const hlo_module *m, u32 n, hlo_literal **args, hlo_literal **out) {
  const hlo_instr *root = m->entry->root;
  for (u32 k = 0; root->opcode == HLO_CUSTOM_CALL && k < nhandlers; k++)
    if (hs_str_eq(hlo_attr_str(root, HLO_ATTR_CUSTOM_CALL_TARGET), hs_str_of(handlers[k].target)))
      return call_handler(root, handlers[k].handler, args, out);
  if (root->opcode == HLO_CUSTOM_CALL && is("ffi"))
    return fail(PJ_NOT_FOUND, "no handler for the custom call");
  return from_status(hlo_eval_module(m, n, args, NULL, out));
}

static pj_error *execute(pj_execute *a) {
  if (is("runerror")) return fail(PJ_INTERNAL, "the fake plug-in will not run");
  if (is("rude")) return fail(PJ_INTERNAL, RUDE);
  if (is("runhang"))
    for (;;) pause();
  if (is("runabort")) stop("buffers are ready");
  if (is("heavy")) fake_waste(a->executable->e->m);
  hlo_literal *args[256], *r;
  for (size_t k = 0; k < a->nargs && k < 256; k++) args[k] = a->arguments[0][k]->value;
  pj_error *e = compute(a->executable->e->m, (u32)a->nargs, args, &r);
  if (e) return e;
  put_outputs(r, a->outputs[0], 0);
  if (a->executable->e->stumbles && r->shape->dtype == HLO_F32 && r->shape->elements)
    ((float *)r->data)[0] += 1;
  hlo_literal_unref(r);
  if (a->done) a->done[0] = event();
  return NULL;
}

// ---- the table ----------------------------------------------------------------------------------
__attribute__((visibility("default"))) const pj_api *GetPjrtApi(void);
const pj_api *GetPjrtApi(void) {
  static pj_api api = {.struct_size = sizeof(pj_api),
                       .version = {.struct_size = sizeof(pj_version), .minor = 81}};
  static const struct {
    pj_fn fn;
    void *at;
  } functions[] = {{PJ_Error_Destroy, error_destroy},
                   {PJ_Error_Message, error_message},
                   {PJ_Error_GetCode, error_code},
                   {PJ_Event_Destroy, event_destroy},
                   {PJ_Event_Await, event_await},
                   {PJ_Plugin_Initialize, initialize},
                   {PJ_Plugin_Attributes, attributes},
                   {PJ_Client_Create, client_create},
                   {PJ_Client_AddressableDevices, client_devices},
                   {PJ_Client_Compile, compile},
                   {PJ_LoadedExecutable_GetExecutable, get_executable},
                   {PJ_Executable_Destroy, executable_destroy},
                   {PJ_LoadedExecutable_Destroy, loaded_destroy},
                   {PJ_Executable_NumOutputs, num_outputs},
                   {PJ_Executable_OutputElementTypes, output_types},
                   {PJ_Executable_OutputDimensions, output_dims},
                   {PJ_Executable_OptimizedProgram, optimized},
                   {PJ_Executable_GetCostAnalysis, cost},
                   {PJ_Executable_GetCompiledMemoryStats, memory_stats},
                   {PJ_Client_BufferFromHostBuffer, from_host},
                   {PJ_Buffer_Destroy, buffer_destroy},
                   {PJ_Buffer_ToHostBuffer, to_host},
                   {PJ_LoadedExecutable_Execute, execute},
                   {PJ_Compile, compile_for},
                   {PJ_TopologyDescription_Create, topology_create},
                   {PJ_TopologyDescription_PlatformName, topology_name}};
  static pj_ext_ffi ffi = {.base = {.struct_size = sizeof ffi, .type = PJ_EXT_FFI},
                           .register_handler = register_handler};
  if (is("null")) return NULL;
  if (is("ffi")) api.ext = &ffi.base;
  for (u32 k = 0; k < PJ_FN_COUNT; k++) api.fn[k] = unimplemented;
  for (size_t k = 0; k < HS_COUNT(functions); k++) api.fn[functions[k].fn] = functions[k].at;
  api.fn[PJ_LoadedExecutable_AddressableDevices] = NULL;
  if (is("old")) api.version.minor = 20;
  if (is("future")) api.version.minor = 200, api.struct_size += 800;
  if (is("tiny")) api.struct_size = 24;
  if (is("short")) api.struct_size = offsetof(pj_api, fn) + 8 * 60;
  if (is("missing")) api.fn[PJ_Client_Compile] = NULL;
  return &api;
}
