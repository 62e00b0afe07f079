// cpu.c — shell side of the cpu backend: sends modules and arguments to the worker, receives
// results and measurements.
//
// No foreign code runs here. A compiled program keeps its compile request: when the worker has died
// the program is compiled again in a new one before its next run, without a message.
//
// Other backends whose programs live in a worker are clients too (client.h): they differ in the
// requests that they send.
#include "backends/cpu/client.h"
#include "backends/cpu/prepare.h"
#include "core/base/file.h"
#include "core/text/text.h"
#include "passes/dynamic/arguments.h"

#include <math.h>
#include <stdio.h>

struct backend_exe {
  const cpu_client *client;
  backend_context *context, *own;  // own: NULL, or the same, to be freed with the program
  u64 id, generation;              // of the worker that has it
  hs_arena arena;
  hs_buf request;  // compile request
  worker_shm constants;
  double deadline_s;
  bool perf_map;
  bool keeps;  // code on disk, under this key
  code_cache_key key;
  // what the worker's program takes and gives; shapes are in ctx, tuples whole
  u32 nargs;
  const hlo_shape **arg_shape;
  const hlo_shape *result;
  // of a module with dynamic dimensions: what that takes and gives, and the last sizes
  hlo_ctx *ctx;
  u32 ngiven, nsizes;
  const hlo_shape **given_shape;
  const hlo_shape *given_result;
  hlo_literal **sizes;
  backend_compiled info;
};

static hs_status cpu_probe(void) {
#if HAVE_LLVM
  return HS_GOOD;
#else
  return hs_with_note(hs_fail(HS_E_NOT_BUILT, "this build has no LLVM"),
                      "fix: apt-get install llvm-19-dev, then make");
#endif
}

static bool has_opaque(const hlo_instr *i) {
  return i->shape->types & (UINT64_C(1) << HLO_OPAQUE | UINT64_C(1) << HLO_BUFFER);
}

// With dynamic dimensions it is not what is lowered (prepare.c).
static bool can_do(const hlo_instr *i, hs_buf *why) {
  return cpu_is_dynamic(i) ? pass_dynamic_covers(i) : cpu_lowers(i, why);
}

bool cpu_client_supports(const hlo_instr *i, hs_buf *why) {
  hs_buf reason = {0};
  if (!has_opaque(i) && can_do(i, &reason)) {
    hs_buf_free(&reason);
    return true;
  }
  if (why) {
    static const char prefix[] = "unsupported: ";
    const char *name = hlo_op_text(i->opcode), *r = hs_buf_cstr(&reason);
    if (!strncmp(r, prefix, sizeof prefix - 1)) r += sizeof prefix - 1;
    hs_buf_printf(why, "%s%s", prefix, name);
    if (*r && strcmp(r, name) != 0) hs_buf_printf(why, " (%s)", r);
  }
  hs_buf_free(&reason);
  return false;
}

// ---- compile ------------------------------------------------------------------------------------

// The bytes of the leaves of every constant, one after the other at 64-byte steps; the request
// names the constants in that order.
static size_t constant_bytes(const hlo_literal *l, size_t at, char *to) {
  for (u32 k = 0; k < l->nchildren; k++) at = constant_bytes(l->children[k], at, to);
  if (!hlo_shape_is_array(l->shape)) return at;
  at = block_align(at);
  if (to && l->bytes) memcpy(to + at, l->data, l->bytes);
  return at + l->bytes;
}

static hs_status pack_constants(const hlo_module *m, hs_buf *req, worker_shm *shm) {
  size_t total = 0;
  u32 n = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      if (i->opcode != HLO_CONSTANT) continue;
      const hlo_literal *l = hlo_constant_value(i);
      if (!l || hlo_literal_has_elided(l))
        return hs_fail(HS_E_ELIDED, "%%%s is an elided constant", i->name);
      total = constant_bytes(l, total, NULL);
      n++;
    }
  HS_TRY(worker_shm_new(total, shm));
  size_t at = 0;
  wire_put_u32(req, n);
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      if (i->opcode != HLO_CONSTANT) continue;
      wire_put_str(req, i->name);
      at = constant_bytes(hlo_constant_value(i), at, shm->p);
    }
  return worker_shm_seal(shm);
}

// Of all that decides about the code: who makes it and for what processor, the request from where
// it speaks of the module, the constants. Those enter by their hash: the worker compares what it
// makes of them anyway, and they may be large.
static void make_key(backend_exe *e, size_t from) {
  hs_buf b = {0};
  const worker_shm *data = &e->constants;
  backend_context_compiler(e->context, &b);
  wire_put_i64(&b, (i64)data->bytes);
  for (u64 seed = 1; seed <= 2; seed++)
    wire_put_i64(&b, data->bytes ? (i64)hs_hash_bytes(data->p, data->bytes, seed) : 0);
  hs_sha256 h;
  hs_sha256_begin(&h);
  hs_sha256_put(&h, b.p, b.n);
  hs_sha256_put(&h, e->request.p + from, e->request.n - from);
  hs_sha256_end(&h, e->key);
  hs_buf_free(&b);
}

static hs_status make_request(backend_exe *e, const hlo_module *m, const backend_options *o) {
  wire_put_i64(&e->request, (i64)e->id);
  wire_put_u32(&e->request, e->keeps);
  size_t from = e->request.n;
  wire_put_u32(&e->request, o->threads);
  wire_put_u32(&e->request, o->per_instruction);
  wire_put_u32(&e->request, o->plan_only);
  wire_put_u32(&e->request, o->one_device);
  wire_put_u32(&e->request, o->no_contract);
  wire_put_u32(&e->request, o->keep_denormals);
  hlo_print_options po = hlo_print_default();
  po.print_large_constants = false;
  po.print_metadata = false;
  hs_buf text = {0};
  hlo_print_module(&text, m, &po);
  wire_put_str(&e->request, hs_buf_cstr(&text));
  hs_buf_free(&text);
  HS_TRY(pack_constants(m, &e->request, &e->constants));
  if (e->keeps) make_key(e, from);
  return HS_GOOD;
}

static hs_status damaged(void) {
  return hs_fail(HS_E_WORKER, "the worker's answer to a compile request is damaged");
}

// Whether code was taken, and the code to keep.
static void read_code(backend_exe *e, wire_reader *r, const char *what) {
  e->info.kept_code = wire_get_u32(r);
  hs_str made = wire_get_bytes(r);
  if (e->keeps && made.n && !r->bad)
    code_cache_put(backend_context_code(e->context), e->key, what, made.p, made.n);
}

// Figures and kernels of a compile reply, checked: the worker may be damaged.
static hs_status read_compiled(backend_exe *e, wire_reader *r, const hlo_module *m,
                               double wall_ms) {
  backend_compiled *c = &e->info;
  double worker_ms = wire_get_f64(r);
  c->compile_ms = wall_ms > 0 ? wall_ms : worker_ms;
  c->compile_cpu_ms = wire_get_f64(r);
  c->compile_peak_bytes = wire_get_i64(r);
  i64 *const sizes[] = {&c->argument_bytes, &c->output_bytes, &c->alias_bytes, &c->temp_bytes};
  for (size_t k = 0; k < HS_COUNT(sizes); k++) {
    *sizes[k] = wire_get_i64(r);
    r->bad |= *sizes[k] < 0 || *sizes[k] > (i64)CPU_MAX_BYTES;
  }
  if (r->bad || c->alias_bytes > c->output_bytes) return damaged();
  c->peak_bytes = c->argument_bytes + c->output_bytes - c->alias_bytes + c->temp_bytes;
  c->devices = wire_get_u32(r);
  c->fallbacks = wire_get_u32(r);
  c->nkernels = wire_get_u32(r);
  if (r->bad || c->nkernels > r->n / (4 * sizeof(i64)))
    return damaged();  // two strings and two figures each
  backend_kernel *k = HS_NEW_ARRAY(&e->arena, backend_kernel, c->nkernels + 1);
  for (u32 j = 0; j < c->nkernels && !r->bad; j++) {
    hs_str name = wire_get_str(r), kind = wire_get_str(r);
    k[j].name = hs_arena_strndup(&e->arena, name.p, name.n);
    k[j].kind = hs_arena_strndup(&e->arena, kind.p, kind.n);
    const hlo_instr *i = hlo_find_instr(m, k[j].name);
    k[j].instr = i ? i->id : CPU_NONE;
    k[j].flops = wire_get_f64(r);
    k[j].bytes = wire_get_f64(r);
    k[j].launches = wire_get_u32(r);
    k[j].scratch_bytes = wire_get_i64(r);
    r->bad |= k[j].scratch_bytes < 0;
    r->bad |= !(k[j].flops >= 0 && k[j].flops < INFINITY);
    r->bad |= !(k[j].bytes >= 0 && k[j].bytes < INFINITY);
  }
  c->kernels = k;
  if (!r->bad) read_code(e, r, m->name);
  r->bad |= !isfinite(c->compile_ms) || c->compile_ms < 0 || c->compile_peak_bytes < -1;
  r->bad |= !isfinite(c->compile_cpu_ms) || c->compile_cpu_ms < 0;
  return r->bad ? damaged() : HS_GOOD;
}

static worker *worker_of(const backend_exe *e) {
  return e->client->device ? backend_context_device_worker(e->context)
                           : backend_context_worker(e->context);
}

// A device that has failed answers nothing any more to the process that made it fail.
static hs_status ended_by(const backend_exe *e, hs_status s) {
  if (!hs_ok(s) && e->client->ends && e->client->ends(s)) worker_kill(worker_of(e));
  return s;
}

static hs_status send_dump(const backend_exe *e, const char *what, void **reply, size_t *n) {
  hs_buf req = {0};
  wire_put_i64(&req, (i64)e->id);
  wire_put_str(&req, what);
  hs_status s = worker_call(worker_of(e), "dumping", WORKER_REQ_PROGRAM_DUMP, req.p, req.n, NULL, 0,
                            e->deadline_s, reply, n);
  hs_buf_free(&req);
  return s;
}

// Lines "ADDRESS BYTES NAME", hexadecimal, as perf wants them (tools/perf/Documentation/
// jit-interface.txt). A worker's first program begins the file anew: a process before may have had
// its number.
static hs_status write_perf_map(const backend_exe *e) {
  void *map = NULL;
  size_t n = 0;
  HS_TRY(send_dump(e, "addresses", &map, &n));
  char path[64];
  (void)snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)worker_pid(worker_of(e)));
  u64 *mapped = backend_context_mapped(e->context);
  hs_status s = hs_write_file(path, map, n, *mapped == e->generation);
  if (hs_ok(s)) *mapped = e->generation;
  hs_free(map);
  return s;
}

// The code that is kept for this program, in memory that the worker may read; without any, nothing.
static hs_status kept_code(const backend_exe *e, worker_shm *out) {
  char *p;
  size_t n;
  *out = (worker_shm){.fd = -1};
  if (!e->keeps || !code_cache_get(backend_context_code(e->context), e->key, &p, &n))
    return HS_GOOD;
  hs_status s = worker_shm_new(n, out);
  if (hs_ok(s)) memcpy(out->p, p, n);
  if (hs_ok(s)) s = worker_shm_seal(out);
  hs_free(p);
  return s;
}

static hs_status send_compile(backend_exe *e, void **reply, size_t *n) {
  worker *w = worker_of(e);
  worker_shm code;
  hs_status st = kept_code(e, &code);
  int fds[2] = {e->constants.fd, code.fd};
  if (hs_ok(st))
    st = ended_by(e, worker_call(w, "compiling", e->client->compile, e->request.p, e->request.n,
                                 fds, code.fd >= 0 ? 2 : 1, e->deadline_s, reply, n));
  worker_shm_free(&code);
  HS_TRY(st);
  e->generation = worker_generation(w);
  hs_status s = e->perf_map ? write_perf_map(e) : HS_GOOD;
  if (!hs_ok(s) && reply) {
    hs_free(*reply);
    *reply = NULL;
  }
  return s;
}

void cpu_client_release(backend_exe *e) {
  if (!e) return;
  worker *w = worker_of(e);
  if (e->generation && worker_pid(w) && worker_generation(w) == e->generation)
    hs_status_drop(worker_call(w, "releasing", WORKER_REQ_PROGRAM_RELEASE, &e->id, sizeof e->id,
                               NULL, 0, 10, NULL, NULL));
  worker_shm_free(&e->constants);
  hs_buf_free(&e->request);
  hlo_inputs_free(e->sizes, e->nsizes);
  hs_arena_free(&e->arena);
  backend_context_free(e->own);
  hs_free(e);
}

// What a module is called with; `given`: the caller's, which m was prepared from.
static void set_signature(backend_exe *e, const hlo_module *given, const hlo_module *m) {
  e->nargs = m->entry->nparams;
  e->arg_shape = HS_NEW_ARRAY(&e->arena, const hlo_shape *, e->nargs + 1);
  for (u32 k = 0; k < e->nargs; k++) e->arg_shape[k] = m->entry->params[k]->shape;
  e->result = m->entry->root->shape;
  if (m == given) return;
  e->ctx = m->ctx;
  e->ngiven = given->entry->nparams;
  e->given_shape = HS_NEW_ARRAY(&e->arena, const hlo_shape *, e->ngiven + 1);
  for (u32 k = 0; k < e->ngiven; k++) e->given_shape[k] = given->entry->params[k]->shape;
  e->given_result = given->entry->root->shape;
  e->nsizes = cpu_dynamic_sizes(e->ngiven, e->given_shape);
  e->sizes = hs_calloc(e->nsizes + 1, sizeof *e->sizes);
}

static hs_status compile_prepared(const cpu_client *client, const hlo_module *given,
                                  const hlo_module *m, const backend_options *o,
                                  backend_exe **out) {
  backend_exe *e = hs_calloc(1, sizeof *e);
  e->client = client;
  e->own = o->context ? NULL : backend_context_new();
  e->context = o->context ? o->context : e->own;
  e->id = backend_context_next_id(e->context);
  e->constants.fd = -1;
  e->deadline_s = o->deadline_s;
  e->keeps =
      o->keep_code && !o->plan_only && !client->device && backend_context_code(e->context)->on;
  e->perf_map = o->perf_map && !o->plan_only && !client->device;
  set_signature(e, given, m);
  hs_status s = worker_start(worker_of(e));
  u64 t0 = hs_now_ns();
  if (hs_ok(s) && client->describe) s = client->describe(o, &e->request);
  if (hs_ok(s)) s = make_request(e, m, o);
  void *reply = NULL;
  size_t n = 0;
  if (hs_ok(s)) s = send_compile(e, &reply, &n);
  if (!hs_ok(s)) {
    cpu_client_release(e);
    return s;
  }
  wire_reader r = {reply, n, false};
  s = read_compiled(e, &r, given, (double)(hs_now_ns() - t0) / 1e6);
  hs_free(reply);
  if (hs_ok(s)) *out = e;
  else cpu_client_release(e);
  return s;
}

hs_status cpu_client_compile(const cpu_client *client, const hlo_module *m,
                             const backend_options *opt, backend_exe **out) {
  HS_ASSERT(!hlo_known_invalid(m));
  static const backend_options defaults = {0};
  hlo_module *now;
  *out = NULL;
  HS_TRY(cpu_prepare(backend_find(client->name), m, &now));
  hs_status s = compile_prepared(client, m, now ? now : m, opt ? opt : &defaults, out);
  hlo_module_free(now);
  return s;
}

const backend_compiled *cpu_client_compiled(const backend_exe *e) { return &e->info; }

// ---- run ----------------------------------------------------------------------------------------

// Compiles again when the worker that had the program is gone.
static hs_status ensure_compiled(backend_exe *e) {
  worker *w = worker_of(e);
  HS_TRY(worker_start(w));
  if (worker_generation(w) == e->generation) return HS_GOOD;
  HS_TRY(send_compile(e, NULL, NULL));
  return HS_GOOD;
}

static hs_status run_static(backend_exe *e, u32 nargs, hlo_literal *const *args,
                            const backend_run_options *o, backend_result *out) {
  worker_shm in = {.fd = -1};
  block_kept *kept = o->keep_arguments ? backend_context_arguments(e->context) : NULL;
  HS_TRY(ensure_compiled(e));
  HS_TRY(kept ? block_keep(e->nargs, e->arg_shape, nargs, args, kept)
              : block_pack(e->nargs, e->arg_shape, nargs, args, &in));
  block *results = NULL;
  hs_status s = HS_GOOD;
  if (o->want_outputs) {
    s = block_new(block_bytes(e->result), &results);
    if (!hs_ok(s)) {
      worker_shm_free(&in);
      return s;
    }
  }
  hs_buf req = {0};
  wire_put_i64(&req, (i64)e->id);
  wire_put_i64(&req, kept ? (i64)kept->number : 0);
  wire_put(&req, o, sizeof *o);
  int fds[2] = {kept ? kept->shm.fd : in.fd, results ? results->shm.fd : -1};
  void *reply = NULL;
  size_t n = 0;
  s = ended_by(e, worker_call(worker_of(e), "running", WORKER_REQ_PROGRAM_RUN, req.p, req.n, fds,
                              results ? 2 : 1, e->deadline_s, &reply, &n));
  hs_buf_free(&req);
  worker_shm_free(&in);
  if (hs_ok(s)) {
    wire_reader r = {reply, n, false};
    s = block_get_timing(&r, e->info.nkernels, &out->timing);
    if (hs_ok(s) && results && worker_confined(worker_of(e))) s = block_own(results);
    size_t at = 0;
    if (hs_ok(s) && results) out->outputs = block_literal(e->result, results, &at);
  }
  block_drop(results);
  hs_free(reply);
  return s;
}

hs_status cpu_client_run(backend_exe *e, u32 nargs, hlo_literal *const *args,
                         const backend_run_options *opt, backend_result *out) {
  const backend_run_options *o = opt ? opt : &backend_once;
  *out = (backend_result){0};
  if (!e->given_result) return run_static(e, nargs, args, o, out);
  HS_TRY(cpu_dynamic_arguments(e->ctx, e->ngiven, e->given_shape, nargs, args, e->sizes));
  u32 n = nargs + e->nsizes;
  hlo_literal **all = hs_calloc(n + 1, sizeof *all);
  for (u32 k = 0; k < n; k++) all[k] = k < nargs ? args[k] : e->sizes[k - nargs];
  hs_status s = run_static(e, n, all, o, out);
  hs_free(all);
  if (out->outputs) out->outputs = cpu_dynamic_result(e->given_result, out->outputs);
  return s;
}

static hs_status ask_dump(backend_exe *e, const char *what, void **reply, size_t *n) {
  HS_TRY(ensure_compiled(e));
  return send_dump(e, what, reply, n);
}

hs_status cpu_client_plan(backend_exe *e, prof_memory *out) {
  *out = (prof_memory){0};
  void *reply = NULL;
  size_t n = 0;
  hs_status s = ask_dump(e, "plan", &reply, &n);
  if (hs_ok(s)) s = cpu_plan_get(reply, n, out);
  hs_free(reply);
  return s;
}

hs_status cpu_client_dump(backend_exe *e, const char *what, hs_buf *out) {
  if (!strcmp(what, "buffers")) {
    prof_memory plan;
    HS_TRY(cpu_client_plan(e, &plan));
    prof_memory_print(&plan, out);
    prof_memory_free(&plan);
    return HS_GOOD;
  }
  void *reply = NULL;
  size_t n = 0;
  hs_status s = ask_dump(e, what, &reply, &n);
  if (hs_ok(s)) hs_buf_put(out, reply, n);
  hs_free(reply);
  return s;
}

// ---- the cpu ------------------------------------------------------------------------------------

static const cpu_client client = {
    .name = "cpu",
    .compile = WORKER_REQ_CPU_COMPILE,
};

static hs_status cpu_compile(const hlo_module *m, const backend_options *o, backend_exe **out) {
  *out = NULL;
  HS_TRY(cpu_probe());
  return cpu_client_compile(&client, m, o, out);
}

const backend backend_cpu = {
    .name = "cpu",
    .summary = "LLVM code generation, oneDNN and LAPACK, in a worker process",
    .caps = BACKEND_TUNED_BY_HAND,
    .probe = cpu_probe,
    .supports = cpu_client_supports,
    .compile = cpu_compile,
    .compiled = cpu_client_compiled,
    .run = cpu_client_run,
    .dump = cpu_client_dump,
    .plan = cpu_client_plan,
    .release = cpu_client_release,
};
