// serve.c — worker side: opens the plug-in, compiles, queries executables, releases them.
//
// The environment is set before the plug-in is loaded, because that is when it is read (threads,
// flags, logging). Its stderr goes to memory that the shell maps too: after a crash the shell
// can still read it. The client is created by the first compilation, so that `backends` can ask a
// plug-in for its version without one.
#include "backends/pjrt/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

worker_handler pjrt_serve_open, pjrt_serve_compile, pjrt_serve_release;

// ---- open ---------------------------------------------------------------------------------------

static void put_value(hs_buf *b, const pj_named *v) {
  switch (v->type) {
  case PJ_STRING: hs_buf_printf(b, "%.*s", (int)HS_MIN(v->n, (size_t)200), v->v.s); break;
  case PJ_INT64: hs_buf_i64(b, v->v.i); break;
  case PJ_INT64_LIST:
    for (size_t k = 0; k < v->n && k < 16; k++)
      hs_buf_printf(b, "%s%lld", k ? "." : "", (long long)v->v.list[k]);
    break;
  case PJ_FLOAT: hs_buf_printf(b, "%g", (double)v->v.f); break;
  case PJ_BOOL: hs_buf_puts(b, v->v.b ? "true" : "false"); break;
  default: hs_buf_puts(b, "?");
  }
}

static void describe(hs_buf *reply) {
  const pj_plugin *p = &pjs.plugin;
  hs_buf attributes = {0}, extensions = {0}, version[2] = {{0}, {0}};
  static const char *const wanted[2] = {"stablehlo_current_version", "stablehlo_minimum_version"};
  pj_attributes a = PJ_ARGS(pj_attributes, n);
  hs_status s = pj_do(p, HS_E_WORKER, PJ_Plugin_Attributes, &a);
  for (size_t k = 0; hs_ok(s) && k < a.n; k++) {
    const pj_named *v = &a.v[k];
    hs_buf_printf(&attributes, "%s%.*s=", k ? " " : "", (int)v->name_n, v->name);
    put_value(&attributes, v);
    for (u32 w = 0; w < 2; w++)
      if (v->name_n == strlen(wanted[w]) && !memcmp(v->name, wanted[w], v->name_n))
        put_value(&version[w], v);
  }
  hs_status_drop(s);
  for (const pj_extension *e = p->api->ext; e; e = e->next)
    hs_buf_printf(&extensions, "%s%s", extensions.n ? " " : "", pj_extension_name(e->type));
  wire_put_u32(reply, (u32)p->api->version.major);
  wire_put_u32(reply, (u32)p->api->version.minor);
  wire_put_u32(reply, (u32)p->slots);
  hs_buf *texts[] = {&version[0], &version[1], &attributes, &extensions};
  for (size_t k = 0; k < HS_COUNT(texts); k++) {
    wire_put_bytes(reply, texts[k]->p, texts[k]->n);
    hs_buf_free(texts[k]);
  }
}

static hs_status make_topology(const char *target, u32 devices) {
  char *shape = hs_format("1x1x%u", HS_MAX(devices, 1u));
  const pj_named options[] = {{.struct_size = PJ_SIZE(pj_named, n),
                               .name = "target_config",
                               .name_n = 13,
                               .type = PJ_STRING,
                               .v.s = target,
                               .n = strlen(target)},
                              {.struct_size = PJ_SIZE(pj_named, n),
                               .name = "topology",
                               .name_n = 8,
                               .type = PJ_STRING,
                               .v.s = shape,
                               .n = strlen(shape)}};
  pj_topology_create c = PJ_ARGS(pj_topology_create, topology, .name = "cuda", .name_n = 4,
                                 .options = options, .noptions = HS_COUNT(options));
  worker_doing = "making a topology";
  hs_status s = pj_do(&pjs.plugin, HS_E_COMPILE, PJ_TopologyDescription_Create, &c);
  hs_free(shape);
  pjs.topology = c.topology;
  return s;
}

static hs_status make_client(u32 devices) {
  pj_named *all = HS_NEW_ARRAY(&pjs.arena, pj_named, pjs.noptions + 1);
  size_t n = pjs.noptions;
  if (n) memcpy(all, pjs.options, n * sizeof *all);
  // the number that the program needs replaces the user's
  for (size_t k = 0; devices > 1 && k < n; k++)
    if (all[k].name_n == 16 && !memcmp(all[k].name, "cpu_device_count", 16)) all[k--] = all[--n];
  if (devices > 1)
    all[n++] = (pj_named){.struct_size = PJ_SIZE(pj_named, n),
                          .name = "cpu_device_count",
                          .name_n = 16,
                          .type = PJ_INT64,
                          .v.i = devices,
                          .n = 1};
  pj_client_create c = PJ_ARGS(pj_client_create, kv_try_get_arg, .options = all, .noptions = n);
  worker_doing = "creating a client";
  hs_status s = pj_do(&pjs.plugin, HS_E_RUN, PJ_Client_Create, &c);
  // a plug-in of real devices may not know that option
  if (!hs_ok(s) && devices > 1) {
    hs_status_drop(s);
    c.noptions = n - 1;
    s = pj_do(&pjs.plugin, HS_E_RUN, PJ_Client_Create, &c);
  }
  HS_TRY(s);
  pjs.client = c.client;
  pj_client_devices d = PJ_ARGS(pj_client_devices, n, .client = c.client);
  HS_TRY(pj_do(&pjs.plugin, HS_E_RUN, PJ_Client_AddressableDevices, &d));
  pjs.devices = d.v;
  pjs.ndevices = d.n;
  return d.n ? HS_GOOD : hs_fail(HS_E_RUN, "%s has no devices", pjs.path);
}

// The user's options for the client; see pjrt_entry.
static void get_options(wire_reader *r) {
  u32 n = wire_get_u32(r);
  if (n > r->n) {
    r->bad = true;
    return;
  }
  pjs.options = HS_NEW_ARRAY(&pjs.arena, pj_named, n + 1);
  for (u32 k = 0; k < n && !r->bad; k++) {
    pj_named *o = &pjs.options[k];
    hs_str name = wire_get_str(r), s;
    *o = (pj_named){.struct_size = PJ_SIZE(pj_named, n),
                    .name = hs_arena_strndup(&pjs.arena, name.p, name.n),
                    .name_n = name.n,
                    .type = (int)wire_get_u32(r),
                    .n = 1};
    switch (o->type) {
    case PJ_STRING:
      s = wire_get_str(r), o->v.s = hs_arena_strndup(&pjs.arena, s.p, s.n), o->n = s.n;
      break;
    case PJ_INT64: o->v.i = wire_get_i64(r); break;
    case PJ_FLOAT: o->v.f = (float)wire_get_f64(r); break;
    case PJ_BOOL: o->v.b = wire_get_i64(r) != 0; break;
    case PJ_INT64_LIST: {
      o->n = wire_get_u32(r);
      if (o->n > r->n) {
        r->bad = true;
        return;
      }
      i64 *list = HS_NEW_ARRAY(&pjs.arena, i64, o->n + 1);
      wire_get(r, list, o->n * sizeof *list);
      o->v.list = list;
      break;
    }
    default: r->bad = true;
    }
  }
  pjs.noptions = r->bad ? 0 : n;
}

// Payload: path, number of environment variables, name and value of each, options for the client.
// Descriptor: where stderr goes.
hs_status pjrt_serve_open(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  wire_reader r = {payload, n, false};
  hs_str path = wire_get_str(&r);
  if (pjs.path) return hs_fail(HS_E_INTERNAL, "this worker has a plug-in already");
  if (nfds) dup2(fds[0], STDERR_FILENO);
  pjs.path = hs_format("%.*s", (int)path.n, path.p);
  for (u32 k = wire_get_u32(&r); k && !r.bad; k--) {
    hs_str name = wire_get_str(&r), value = wire_get_str(&r);
    char *key = hs_format("%.*s", (int)name.n, name.p),
         *text = hs_format("%.*s", (int)value.n, value.p);
    setenv(key, text, 1);
    hs_free(key);
    hs_free(text);
  }
  get_options(&r);
  if (r.bad) return hs_fail(HS_E_INTERNAL, "bad open request");
  worker_doing = "loading the plug-in";
  HS_TRY(pj_load(pjs.path, &pjs.plugin));
  describe(reply);
  return HS_GOOD;
}

// ---- compile ------------------------------------------------------------------------------------

static pjs_array *get_arrays(wire_reader *r, u32 *n) {
  *n = wire_get_u32(r);
  if (r->bad || *n > r->n) {
    r->bad = true;
    *n = 0;
  }
  pjs_array *v = hs_calloc(*n + 1u, sizeof *v);
  for (u32 k = 0; k < *n && !r->bad; k++) {
    v[k].type = (int)wire_get_u32(r);
    v[k].rank = wire_get_u32(r);
    v[k].bytes = (size_t)wire_get_i64(r);
    if (v[k].rank > HLO_MAX_RANK) {
      r->bad = true;
      break;
    }
    wire_get(r, v[k].dims, v[k].rank * sizeof(i64));
    wire_get(r, v[k].minor_to_major, v[k].rank * sizeof(i64));
  }
  return v;
}

static void free_program(pjs_program *g) {
  pj_executable_arg x = PJ_ARGS(pj_executable_arg, executable, .executable = g->executable);
  pj_loaded_arg l = PJ_ARGS(pj_loaded_arg, executable, .executable = g->loaded);
  if (g->executable) hs_status_drop(pj_do(&pjs.plugin, HS_E_RUN, PJ_Executable_Destroy, &x));
  if (g->loaded) hs_status_drop(pj_do(&pjs.plugin, HS_E_RUN, PJ_LoadedExecutable_Destroy, &l));
  hs_free(g->arg);
  hs_free(g->out);
  hs_free(g->donated);
  hs_vec_free(&g->calls);
  hlo_module_free(g->made);
  hs_free(g);
}

// The plug-in's results must be what the module says, or copying them would overrun the blocks. On
// several devices the plug-in may shard a result that has no sharding in the module; then its tile
// has the plug-in's shape.
static hs_status take_output(const pjs_program *g, u32 k, int type, size_t rank, const i64 *dims) {
  pjs_array *a = &g->out[k];
  bool same = type == a->type && rank == a->rank;
  i64 had = 1, has = 1;
  for (u32 j = 0; same && j < a->rank; j++) {
    same = g->ndevices > 1 ? dims[j] >= 0 && dims[j] <= a->dims[j] : dims[j] == a->dims[j];
    had *= a->dims[j];
    has *= dims[j];
  }
  if (!same)
    return hs_fail(HS_E_COMPILE,
                   "the plug-in's executable gives another shape than the module for output %u", k);
  if (a->rank) memcpy(a->dims, dims, a->rank * sizeof *dims);
  if (had) a->bytes = a->bytes / (size_t)had * (size_t)has;
  return HS_GOOD;
}

static hs_status check_outputs(const pjs_program *g, hs_buf *reply) {
  pj_executable_size count = PJ_ARGS(pj_executable_size, n, .executable = g->executable);
  HS_TRY(pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_NumOutputs, &count));
  if (count.n != g->nouts)
    return hs_fail(HS_E_COMPILE, "the plug-in's executable has %zu outputs, the module has %u",
                   count.n, g->nouts);
  if (g->nouts && pj_find(&pjs.plugin, PJ_Executable_OutputElementTypes) &&
      pj_find(&pjs.plugin, PJ_Executable_OutputDimensions)) {
    pj_output_types t = PJ_ARGS(pj_output_types, n, .executable = g->executable);
    pj_output_dims d = PJ_ARGS(pj_output_dims, ranks, .executable = g->executable);
    HS_TRY(pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_OutputElementTypes, &t));
    HS_TRY(pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_OutputDimensions, &d));
    if (t.n != g->nouts || d.n != g->nouts)
      return hs_fail(HS_E_COMPILE, "the plug-in describes %zu types and %zu shapes for %u outputs",
                     t.n, d.n, g->nouts);
    const i64 *dims = d.dims;
    for (u32 k = 0; k < g->nouts; dims += d.ranks[k++])
      HS_TRY(take_output(g, k, t.v[k], d.ranks[k], dims));
  }
  for (u32 k = 0; k < g->nouts; k++) wire_put(reply, g->out[k].dims, g->out[k].rank * sizeof(i64));
  return HS_GOOD;
}

static hs_status compile(pjs_program *g, hs_str code, hs_str options) {
  const pj_program program = PJ_ARGS(pj_program, format_n, .code = (char *)(uintptr_t)code.p,
                                     .code_n = code.n, .format = "hlo", .format_n = 3);
  worker_doing = "compiling";
  if (pjs.topology) {
    pj_compile c = PJ_ARGS(pj_compile, executable, .topology = pjs.topology, .program = &program,
                           .options = options.p, .options_n = options.n);
    HS_TRY(pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Compile, &c));
    g->executable = c.executable;
    return HS_GOOD;
  }
  pj_client_compile c = PJ_ARGS(pj_client_compile, executable, .client = pjs.client,
                                .program = &program, .options = options.p, .options_n = options.n);
  HS_TRY(pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Client_Compile, &c));
  g->loaded = c.executable;
  pj_get_executable e = PJ_ARGS(pj_get_executable, executable, .loaded = g->loaded);
  HS_TRY(pj_do(&pjs.plugin, HS_E_COMPILE, PJ_LoadedExecutable_GetExecutable, &e));
  g->executable = e.executable;
  return HS_GOOD;
}

// The queries below are optional; what a plug-in does not answer stays unknown.
static void put_memory(const pjs_program *g, hs_buf *reply) {
  pj_memory_stats m = PJ_ARGS(pj_memory_stats, peak, .executable = g->executable);
  hs_status s = pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_GetCompiledMemoryStats, &m);
  wire_put_u32(reply, hs_ok(s));
  hs_status_drop(s);
  const i64 v[] = {m.code, m.arguments, m.outputs, m.alias, m.temp, m.peak};
  wire_put(reply, v, sizeof v);
}

static void put_cost(const pjs_program *g, hs_buf *reply) {
  pj_cost c = PJ_ARGS(pj_cost, v, .executable = g->executable);
  hs_status s = pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_GetCostAnalysis, &c);
  u32 n = hs_ok(s) ? (u32)c.n : 0;
  hs_status_drop(s);
  wire_put_u32(reply, n);
  for (u32 k = 0; k < n; k++) {
    wire_put_bytes(reply, c.v[k].name, c.v[k].name_n);
    wire_put_f64(reply, c.v[k].type == PJ_FLOAT   ? (double)c.v[k].v.f
                        : c.v[k].type == PJ_INT64 ? (double)c.v[k].v.i
                                                  : 0);
  }
}

static void put_fingerprint(const pjs_program *g, hs_buf *reply) {
  pj_executable_text t = PJ_ARGS(pj_executable_text, n, .executable = g->executable);
  hs_status s = pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_Fingerprint, &t);
  wire_put_bytes(reply, hs_ok(s) ? t.text : "", hs_ok(s) ? t.n : 0);
  hs_status_drop(s);
}

// For GPUs only: other executables have nothing to read.
static void put_machine_code(const pjs_program *g, hs_buf *reply) {
  pj_serialize a = PJ_ARGS(pj_serialize, free, .executable = g->executable);
  hs_status s =
      pjs.topology ? pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_Serialize, &a) : HS_GOOD;
  pjs_put_machine_code(a.bytes, hs_ok(s) ? a.n : 0, reply);
  if (hs_ok(s) && a.handle && a.free) a.free(a.handle);
  hs_status_drop(s);
}

// Asked twice: for the size, then for the bytes.
static void put_optimized(pjs_program *g, hs_buf *reply) {
  pj_program p = PJ_ARGS(pj_program, format_n);
  pj_optimized o = PJ_ARGS(pj_optimized, program, .executable = g->executable, .program = &p);
  hs_status s = pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_OptimizedProgram, &o);
  char *code = hs_ok(s) && p.code_n ? hs_try_alloc(p.code_n) : NULL;
  size_t n = p.code_n;
  p.code = code;
  if (code && hs_ok(s)) s = pj_do(&pjs.plugin, HS_E_COMPILE, PJ_Executable_OptimizedProgram, &o);
  bool have = code && hs_ok(s) && p.code_n <= n;
  wire_put_bytes(reply, p.format, have ? p.format_n : 0);
  wire_put_bytes(reply, code, have ? p.code_n : 0);
  if (have)
    pjs_keep_calls(g, pj_module_bytes((hs_str){p.format, p.format_n}, (hs_str){code, p.code_n}));
  hs_status_drop(s);
  hs_free(code);
}

static hs_status build(pjs_program *g, wire_reader *r, const serve_map *program, hs_buf *refused,
                       hs_buf *reply) {
  g->id = (u64)wire_get_i64(r);
  size_t code_n = (size_t)wire_get_i64(r);
  hs_str options = wire_get_bytes(r), target = wire_get_str(r);
  g->ndevices = wire_get_u32(r);
  u32 client_devices = wire_get_u32(r);
  g->arg = get_arrays(r, &g->nargs);
  g->out = get_arrays(r, &g->nouts);
  g->donated = hs_calloc(g->nargs + 1u, sizeof *g->donated);
  wire_get(r, g->donated, g->nargs * sizeof *g->donated);
  if (r->bad || code_n > program->n) return hs_fail(HS_E_INTERNAL, "bad compile request");
  if (target.n && !pjs.topology) {
    char *text = hs_format("%.*s", (int)target.n, target.p);
    hs_status s = make_topology(text, client_devices);
    hs_free(text);
    HS_TRY(s);
  }
  if (!target.n && !pjs.client) HS_TRY(make_client(client_devices));
  for (u32 k = wire_get_u32(r); k && !r->bad; k--) {
    hs_str call = wire_get_bytes(r), library = wire_get_str(r), symbol = wire_get_str(r);
    if (r->bad) break;
    HS_TRY(pjs_offer_call(call, library, symbol));
    if (pjs_call_refuses(call))
      hs_buf_printf(refused, "%s%.*s", refused->n ? ", " : "", (int)call.n, call.p);
  }
  serve_peak_rss(true);
  double cpu0 = serve_cpu_ms();
  u64 t0 = hs_now_ns();
  HS_TRY(compile(g, (hs_str){program->p, code_n}, options));
  wire_put_f64(reply, (double)(hs_now_ns() - t0) / 1e6);
  wire_put_f64(reply, serve_cpu_ms() - cpu0);
  wire_put_i64(reply, serve_peak_rss(false));
  worker_doing = "asking about the executable";
  HS_TRY(check_outputs(g, reply));
  put_memory(g, reply);
  put_cost(g, reply);
  put_fingerprint(g, reply);
  wire_put_bytes(reply, refused->p, refused->n);
  put_machine_code(g, reply);
  put_optimized(g, reply);
  if (!g->made) pjs_keep_calls(g, (hs_str){program->p, code_n});
  return HS_GOOD;
}

// Descriptor: the serialized module.
hs_status pjrt_serve_compile(const void *payload, size_t n, const int *fds, u32 nfds,
                             hs_buf *reply) {
  if (nfds != 1 || !pjs.plugin.api)
    return hs_fail(HS_E_INTERNAL, "compile request without a program or a plug-in");
  serve_map program = {0};
  HS_TRY(serve_map_fd(fds[0], false, &program));
  wire_reader r = {payload, n, false};
  pjs_program *g = hs_calloc(1, sizeof *g);
  hs_buf refused = {0};
  hs_status s = build(g, &r, &program, &refused, reply);
  hs_buf_free(&refused);
  serve_unmap(&program);
  if (!hs_ok(s)) {
    free_program(g);
    return s;
  }
  hs_vec_push(&pjs.programs, g);
  return HS_GOOD;
}

hs_status pjrt_serve_release(const void *payload, size_t n, const int *fds, u32 nfds,
                             hs_buf *reply) {
  (void)fds, (void)nfds, (void)reply;
  u64 id = serve_program_id(payload, n);
  for (size_t k = 0; k < pjs.programs.n; k++) {
    if (pjs.programs.v[k]->id != id) continue;
    worker_doing = "releasing";
    free_program(pjs.programs.v[k]);
    pjs.programs.v[k] = pjs.programs.v[--pjs.programs.n];
    break;
  }
  return HS_GOOD;
}
