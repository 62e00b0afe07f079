// pjrt.c — the backend `pjrt`: modules compiled and run by a PJRT plug-in, such as real XLA.
//
// The backend `jax` is the same with a Python in the plug-in's place (pjrt_compile_in).
//
// The shell side only: it writes the module and the compile options as protocol buffers, packs
// arguments into shared memory once, and reads results in place. A compiled program keeps its
// request; when the worker that had it is gone it is compiled again before its next run, without a
// message. What the plug-in reports of its executable (optimized module, cost, memory) is kept
// unchanged for pjrt_compiled_result.
#include "backends/pjrt/pjrt.h"
#include "backends/ffi.h"
#include "backends/pjrt/plugin.h"
#include "core/proto/proto.h"
#include "profiler/model/prof.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#define MOST_BYTES ((i64)1 << 50)  // that a plug-in may say something takes

// The process that has a program.
typedef struct place {
  const pjrt_child *child;
  pjrt_host *host;
  u64 generation;
} place;

struct backend_exe {
  backend_context *context, *own;  // own: NULL, or the same, to be freed with the program
  // another process for it, until a measurement tells which of the two is faster
  place rival;
  u64 id, generation;  // of the worker that has it
  pjrt_host *host;
  hs_arena arena;
  char *path, *target, *flags;
  pjrt_config config;
  hs_buf request;
  worker_shm program;
  double deadline_s;
  u32 nparams;
  const hlo_shape **param;  // of the module as given, tuples whole
  const hlo_shape *result;
  char *dumps;  // folder that the plug-in writes to while it compiles; NULL
  u32 replicas, ndevices, nargs, nouts;
  pjrt_tiles *arg, *out;  // per leaf
  backend_compiled info;
  pjrt_result reported;
};

static hs_status pjrt_probe(void) {
  char *path;
  HS_TRY(pjrt_find(NULL, &path));
  hs_free(path);
  return HS_GOOD;
}

bool pjrt_supports(const hlo_instr *i, hs_buf *why) {
  (void)i;
  (void)why;
  return true;
}

// ---- the request --------------------------------------------------------------------------------

static void put_array(hs_buf *q, const hlo_shape *s) {
  wire_put_u32(q, (u32)pj_type((int)s->dtype));
  wire_put_u32(q, s->rank);
  wire_put_i64(q, (i64)block_leaf_bytes(s));
  wire_put(q, s->dims, s->rank * sizeof(i64));
  for (u32 k = 0; k < s->rank; k++)
    wire_put_i64(q, s->layout ? s->layout->minor_to_major[k] : (i64)(s->rank - 1 - k));
}

static const hlo_sharding *keep_sharding(backend_exe *e, const hlo_sharding *s) {
  const hlo_attr a = {.id = HLO_ATTR_SHARDING, .v.p = s};
  return s ? hlo_attr_clone(&e->arena, &a, NULL, NULL).v.p : NULL;
}

static hs_status make_tiles(backend_exe *e, const pjrt_ready *m) {
  e->nargs = m->nargs;
  e->nouts = m->nouts;
  e->arg = HS_NEW_ARRAY(&e->arena, pjrt_tiles, m->nargs + 1);
  e->out = HS_NEW_ARRAY(&e->arena, pjrt_tiles, m->nouts + 1);
  u32 n = m->partitions;
  for (u32 k = 0; k < m->nargs; k++)
    HS_TRY(
        pjrt_tiles_make(m->m->ctx, m->arg[k], keep_sharding(e, m->arg_sharding[k]), n, &e->arg[k]));
  for (u32 k = 0; k < m->nouts; k++)
    HS_TRY(
        pjrt_tiles_make(m->m->ctx, m->out[k], keep_sharding(e, m->out_sharding[k]), n, &e->out[k]));
  return HS_GOOD;
}

// For the baseline, where every instruction is a kernel: the passes to disable. Not fusion-wrapper:
// it puts single instructions into fusions, the only form in which code is generated for a scatter.
static const char *const unfused =
    "fusion,multi_output_fusion,cpu_instruction_fusion,priority-fusion,"
    "xnn-graph-fusion,dot-library-rewriter";

static void write_options(hs_buf *out, const backend_exe *e, const pjrt_ready *m,
                          const backend_options *o) {
  backend_flag *flags = hs_calloc(o->nflags + 2u, sizeof *flags);
  char *joined = NULL;
  u32 n = 0;
  const char *disabled = o->per_instruction ? unfused : NULL;
  for (u32 k = 0; k < o->nflags; k++) {
    if (disabled && !strcmp(o->flags[k].name, "xla_disable_hlo_passes"))
      disabled = joined = hs_format("%s,%s", o->flags[k].value, unfused);
    else flags[n++] = o->flags[k];
  }
  if (disabled) flags[n++] = (backend_flag){"xla_disable_hlo_passes", disabled};
  if (e->dumps) flags[n++] = (backend_flag){"xla_dump_to", e->dumps};
  pjrt_options(out, m, o->backend_only, n, flags);
  hs_free(flags);
  hs_free(joined);
}

// Custom calls that hlosh or a loaded library can compute: target, and the user's library with its
// symbol where one is loaded.
static void put_calls(hs_buf *q, const hlo_module *m) {
  HS_VEC(hs_str) targets = {0};
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) {
      if (i->opcode != HLO_CUSTOM_CALL ||
          hlo_attr_int(i, HLO_ATTR_API_VERSION, 0) != HLO_API_VERSION_TYPED_FFI)
        continue;
      hs_str t = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
      bool known = !ffi_peer.covers(ffi_peer.arg, i) && !hlo_eval_supports(i, NULL);
      for (size_t k = 0; k < targets.n && !known; k++) known = hs_str_eq(targets.v[k], t);
      if (!known) hs_vec_push(&targets, t);
    }
  wire_put_u32(q, (u32)targets.n);
  for (size_t k = 0; k < targets.n; k++) {
    char *library = NULL, *symbol = NULL;
    ffi_find(targets.v[k], &library, &symbol);
    wire_put_bytes(q, targets.v[k].p, targets.v[k].n);
    wire_put_str(q, library);
    wire_put_str(q, symbol);
    hs_free(library);
    hs_free(symbol);
  }
  hs_vec_free(&targets);
}

static hs_status make_request(backend_exe *e, const pjrt_ready *m, const backend_options *o) {
  hs_buf proto = {0}, options = {0};
  hs_status s = hlo_proto_write(&proto, m->m, false);
  if (hs_ok(s)) s = worker_shm_new(proto.n, &e->program);
  if (hs_ok(s) && proto.n) memcpy(e->program.p, proto.p, proto.n);
  if (hs_ok(s)) s = worker_shm_seal(&e->program);
  if (hs_ok(s)) {
    write_options(&options, e, m, o);
    hs_buf *q = &e->request;
    wire_put_i64(q, (i64)e->id);
    wire_put_i64(q, (i64)proto.n);
    wire_put_bytes(q, options.p, options.n);
    wire_put_str(q, e->config.target);
    wire_put_u32(q, e->ndevices);
    wire_put_u32(q, e->config.devices);
    wire_put_u32(q, e->nargs);
    for (u32 k = 0; k < e->nargs; k++) put_array(q, e->arg[k].part);
    wire_put_u32(q, e->nouts);
    for (u32 k = 0; k < e->nouts; k++) put_array(q, e->out[k].part);
    wire_put(q, m->donated, e->nargs * sizeof *m->donated);
    put_calls(q, m->m);
  }
  hs_buf_free(&proto);
  hs_buf_free(&options);
  return s;
}

// ---- what the plug-in reports -------------------------------------------------------------------

static char *keep(backend_exe *e, hs_str s) { return hs_arena_strndup(&e->arena, s.p, s.n); }

// The number of devices of a program is in HloModuleConfig, not in HloModuleProto.
static void state_devices(hlo_module *m, hlo_attr_id id, u32 n) {
  if (n > 1 && !hlo_attrs_find(m->attrs, id))
    hlo_set_module_attr(m, (hlo_attr){.id = id, .v.i = n});
}

static void read_optimized(backend_exe *e, hlo_ctx *ctx, hs_str bytes) {
  if (!bytes.n) return;
  hs_status s =
      hlo_proto_read(ctx, bytes.p, bytes.n, "<optimized by the plug-in>", &e->reported.optimized);
  if (hs_ok(s)) {
    state_devices(e->reported.optimized, HLO_ATTR_REPLICA_COUNT, e->replicas);
    state_devices(e->reported.optimized, HLO_ATTR_NUM_PARTITIONS, e->ndevices / e->replicas);
  }
  e->reported.unreadable =
      hs_ok(s) ? NULL : hs_arena_strndup(&e->arena, s.err->message, strlen(s.err->message));
  hs_status_drop(s);
}

// A process whose answer makes no sense is not asked again.
static hs_status distrust(backend_exe *e, hs_status s) {
  if (!hs_ok(s) && s.err->code == HS_E_WORKER) worker_kill(pjrt_host_worker(e->host));
  return s;
}

static void fill_info(backend_exe *e, const hlo_module *m) {
  backend_compiled *c = &e->info;
  if (e->reported.optimized && e->reported.optimized->entry) {
    c->kernels = pjrt_list_launched(e->reported.optimized, m, &e->arena, &c->nkernels);
  }
  const pjrt_memory *s = &e->reported.memory;
  c->argument_bytes = s->arguments;
  c->output_bytes = s->outputs;
  c->alias_bytes = s->alias;
  c->temp_bytes = s->temp;
  c->devices = e->ndevices;
  // XLA:CPU's peak leaves the temporaries out, so there it is the sum, as for every other backend;
  // XLA:GPU's is a peak.
  c->peak_bytes =
      s->temp < 0 ? -1
      : e->target && s->peak > 0
          ? s->peak
          : hs_add_sat_i64(hs_add_sat_i64(s->arguments, s->outputs - s->alias), s->temp);
}

// The partitioner may shard results that have no sharding in the module; the optimized module says
// how.
static hs_status adopt_outputs(backend_exe *e, hlo_ctx *ctx, const i64 *dims, hs_str bytes) {
  const hlo_sharding *all = NULL;
  for (u32 k = 0; k < e->nouts; dims += e->out[k++].whole->rank) {
    const hlo_shape *part = e->out[k].part, *whole = e->out[k].whole;
    if (!part->rank || !memcmp(part->dims, dims, part->rank * sizeof *dims)) continue;
    if (!all) HS_TRY(hlo_proto_output_sharding(bytes.p, bytes.n, &e->arena, &all));
    const hlo_sharding *s =
        all && all->type == HLO_SH_TUPLE ? (k < all->nchildren ? all->children[k] : NULL) : all;
    pjrt_tiles_free(&e->out[k]);
    HS_TRY(pjrt_tiles_make(ctx, whole, s, e->ndevices, &e->out[k]));
    if (whole->rank && memcmp(e->out[k].part->dims, dims, whole->rank * sizeof *dims))
      return hs_fail(HS_E_UNSUPPORTED,
                     "the plug-in shards output %u over the devices in a way it does not report",
                     k);
  }
  return HS_GOOD;
}

static hs_status read_reply(backend_exe *e, wire_reader *r, const hlo_module *m) {
  e->info.compile_ms = wire_get_f64(r);
  e->info.compile_cpu_ms = wire_get_f64(r);
  e->info.compile_peak_bytes = wire_get_i64(r);
  r->bad |= !isfinite(e->info.compile_ms) || e->info.compile_ms < 0;
  r->bad |= !isfinite(e->info.compile_cpu_ms) || e->info.compile_cpu_ms < 0;
  r->bad |= e->info.compile_peak_bytes < -1;
  u32 ndims = 0;
  for (u32 k = 0; k < e->nouts; k++) ndims += e->out[k].whole->rank;
  i64 *dims = HS_NEW_ARRAY(&e->arena, i64, ndims + 1);
  wire_get(r, dims, ndims * sizeof *dims);
  pjrt_memory *s = &e->reported.memory;
  s->known = wire_get_u32(r) != 0;
  bool wrapped = false;
  i64 *const fields[] = {&s->code, &s->arguments, &s->outputs, &s->alias, &s->temp, &s->peak};
  for (size_t k = 0; k < HS_COUNT(fields); k++) {
    *fields[k] = wire_get_i64(r);
    // no size, but a sum of more than 64 bits hold, which XLA lets wrap around
    wrapped |= *fields[k] < -1 || *fields[k] > MOST_BYTES;
  }
  for (size_t k = 0; wrapped && k < HS_COUNT(fields); k++) *fields[k] = -1;
  s->known &= !wrapped;
  u32 n = wire_get_u32(r);
  enum { LEAST_BYTES = 16 };  // of a property
  r->bad |= n > r->n / LEAST_BYTES;
  if (r->bad) n = 0;
  pjrt_property *cost = HS_NEW_ARRAY(&e->arena, pjrt_property, n + 1);
  for (u32 k = 0; k < n && !r->bad; k++) {
    cost[k].name = keep(e, wire_get_bytes(r));
    cost[k].value = wire_get_f64(r);
    e->reported.ncost++;
  }
  e->reported.cost = cost;
  e->reported.fingerprint = keep(e, wire_get_bytes(r));
  e->reported.refused = keep(e, wire_get_bytes(r));
  pjrt_read_kernels(e->dumps, r, &e->arena, &e->reported.kernels);
  hs_str format = wire_get_bytes(r), code = wire_get_bytes(r);
  if (r->bad) return hs_fail(HS_E_WORKER, "the worker's answer to a compile request is cut short");
  hs_str bytes = pj_module_bytes(format, code);
  read_optimized(e, m->ctx, bytes);
  fill_info(e, m);
  return adopt_outputs(e, m->ctx, dims, bytes);
}

// ---- compile ------------------------------------------------------------------------------------

static hs_status send_compile(backend_exe *e, void **reply, size_t *n) {
  HS_TRY(pjrt_host_get(e->context, &e->config, &e->host));
  HS_TRY(pjrt_host_call(e->host, "compiling", WORKER_REQ_PJRT_COMPILE, &e->request, &e->program.fd,
                        1, e->deadline_s, reply, n));
  e->generation = worker_generation(pjrt_host_worker(e->host));
  return HS_GOOD;
}

static bool worker_has_program(const backend_exe *e) {
  worker *w = e->host ? pjrt_host_worker(e->host) : NULL;
  return w && worker_pid(w) && worker_generation(w) == e->generation;
}

// The program goes to the other process, which compiles it when it has not yet.
static void change_places(backend_exe *e) {
  place p = {e->config.child, e->host, e->generation};
  e->config.child = e->rival.child;
  e->host = e->rival.host;
  e->generation = e->rival.generation;
  e->rival = p;
}

static void drop_program(backend_exe *e) {
  if (!worker_has_program(e)) return;
  hs_buf q = {0};
  wire_put_i64(&q, (i64)e->id);
  hs_status_drop(
      pjrt_host_call(e->host, "releasing", WORKER_REQ_PJRT_RELEASE, &q, NULL, 0, 10, NULL, NULL));
  hs_buf_free(&q);
}

void pjrt_release(backend_exe *e) {
  if (!e) return;
  drop_program(e);
  if (e->rival.child) {
    change_places(e);
    drop_program(e);
  }
  for (u32 k = 0; e->arg && k < e->nargs; k++) pjrt_tiles_free(&e->arg[k]);
  for (u32 k = 0; e->out && k < e->nouts; k++) pjrt_tiles_free(&e->out[k]);
  hlo_module_free(e->reported.optimized);
  hs_vec_free(&e->reported.kernels);
  pjrt_remove_dumps(e->dumps);
  worker_shm_free(&e->program);
  hs_buf_free(&e->request);
  hs_free(e->path);
  hs_free(e->target);
  hs_free(e->flags);
  hs_arena_free(&e->arena);
  backend_context_free(e->own);
  hs_free(e);
}

static void keep_shapes(backend_exe *e, const hlo_module *m) {
  e->nparams = m->entry->nparams;
  e->param = HS_NEW_ARRAY(&e->arena, const hlo_shape *, e->nparams + 1);
  for (u32 k = 0; k < e->nparams; k++) e->param[k] = m->entry->params[k]->shape;
  e->result = m->entry->root->shape;
}

// The end of the field that begins at `p`: that of its line, or the one behind the brace that
// closes its block.
static const char *field_end(const char *p) {
  p += strcspn(p, ":{\n");
  if (*p == ':') p++, p += strspn(p, " ");
  if (*p != '{') return p + strcspn(p, "\n}");
  for (int depth = 0; *p; p++) {
    depth += (*p == '{') - (*p == '}');
    if (!depth) return p + 1;
  }
  return p;
}

// Target descriptions may hold fields that are newer than the plug-in, which refuses them by name.
// Removes such a field from the text; false when the plug-in's log names none.
static bool drop_unknown_field(backend_exe *e) {
  size_t n;
  const char *log = pjrt_host_log(e->host, &n), *mark = strstr(log, "has no field named \"");
  if (!e->target || !mark) return false;
  mark += strlen("has no field named \"");
  size_t length = strcspn(mark, "\"");
  char *key = hs_format("%.*s", (int)length, mark), *at = e->target;
  while (length && (at = strstr(at, key)) &&
         (isalnum((unsigned char)at[length]) || at[length] == '_' ||
          (at > e->target && !isspace((unsigned char)at[-1]) && at[-1] != '{')))
    at++;
  bool found = length && at;
  if (found) {
    const char *end = field_end(at);
    memmove(at, end, strlen(end) + 1);
    bool again = e->reported.dropped && strstr(e->reported.dropped, key);
    char *all = again ? hs_strdup(e->reported.dropped)
                      : hs_format("%s%s%s", e->reported.dropped ? e->reported.dropped : "",
                                  e->reported.dropped ? ", " : "", key);
    e->reported.dropped = hs_arena_strndup(&e->arena, all, strlen(all));
    hs_free(all);
  }
  hs_free(key);
  return found;
}

// Sends the request; repeats it as long as the plug-in refuses a field of the target that can be
// left out.
static hs_status compile_request(backend_exe *e, const pjrt_ready *ready, const backend_options *o,
                                 void **reply, size_t *n) {
  enum { MOST_FIELDS = 64 };
  for (u32 tries = 0;; tries++) {
    HS_TRY(make_request(e, ready, o));
    hs_status s = send_compile(e, reply, n);
    if (hs_ok(s) || tries == MOST_FIELDS || s.err->code != HS_E_COMPILE || !drop_unknown_field(e))
      return s;
    hs_status_drop(s);
    e->request.n = 0;
    worker_shm_free(&e->program);
  }
}

// Kernels for a GPU are read from the plug-in's dumps; a folder given by the user is used as it is.
static bool dumps_already(const backend_options *o) {
  for (u32 k = 0; k < o->nflags; k++)
    if (!strcmp(o->flags[k].name, "xla_dump_to")) return true;
  return false;
}

static char *dump_folder(void) {
  const char *tmp = getenv("TMPDIR");
  char *dir = hs_format("%s/hlosh-kernels-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (mkdtemp(dir)) return dir;
  hs_free(dir);
  return NULL;
}

static hs_status build(backend_exe *e, const hlo_module *m, const backend_options *o,
                       bool dissolve) {
  pjrt_ready ready;
  hs_status s = pjrt_prepare(m, o->backend_only, dissolve, &ready);
  if (hs_ok(s)) {
    keep_shapes(e, m);
    if (o->one_device) ready.replicas = ready.partitions = 1;
    e->replicas = ready.replicas;
    e->ndevices = ready.replicas * ready.partitions;
    e->target = o->target ? hs_strdup(o->target) : NULL;
    e->flags = o->process_flags ? hs_strdup(o->process_flags) : NULL;
    e->config = (pjrt_config){.path = e->path,
                              .child = e->config.child,
                              .threads = o->threads,
                              .devices = e->ndevices,
                              .target = e->target,
                              .trace = o->trace != NULL,
                              .flags = e->flags};
    if (e->target && !dumps_already(o)) e->dumps = dump_folder();
    s = make_tiles(e, &ready);
  }
  void *reply = NULL;
  size_t n = 0;
  if (hs_ok(s)) s = compile_request(e, &ready, o, &reply, &n);
  pjrt_ready_free(&ready);
  if (o->trace && e->host) {
    size_t length;
    const char *log = pjrt_host_log(e->host, &length);
    hs_buf_put(o->trace, log, length);
  }
  if (hs_ok(s)) {
    wire_reader r = {reply, n, false};
    s = distrust(e, read_reply(e, &r, m));
  }
  hs_free(reply);
  pjrt_remove_dumps(e->dumps);
  e->dumps = NULL;
  return s;
}

static hs_status try_compile(const hlo_module *m, const backend_options *o, const char *path,
                             const pjrt_child *child, bool dissolve, backend_exe **out) {
  backend_exe *e = hs_calloc(1, sizeof *e);
  e->path = hs_strdup(path);
  e->config.child = child;
  e->own = o->context ? NULL : backend_context_new();
  e->context = o->context ? o->context : e->own;
  e->id = backend_context_next_id(e->context);
  e->program.fd = -1;
  e->deadline_s = o->deadline_s;
  hs_status s = build(e, m, o, dissolve);
  if (!hs_ok(s)) {
    pjrt_release(e);
    e = NULL;
  }
  *out = e;
  return s;
}

static bool has_fusions(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_FUSION) return true;
  return false;
}

// XLA:GPU accepts no fusions from outside, XLA:CPU most of them. Where it stops at one (a layout
// inside that its passes miss, an instruction its emitters know only by itself, which ends the
// process), the module is sent once more without fusions and XLA makes its own.
hs_status pjrt_compile_in(const hlo_module *m, const backend_options *o, const char *path,
                          const pjrt_child *child, backend_exe **out) {
  hs_status s = try_compile(m, o, path, child, o->target != NULL, out);
  bool inside = !hs_ok(s) && (s.err->code == HS_E_WORKER || s.err->code == HS_E_COMPILE);
  if (!inside || o->target || o->backend_only || !has_fusions(m)) return s;
  if (o->trace) o->trace->n = 0;
  hs_status second = try_compile(m, o, path, child, true, out);
  hs_status_drop(hs_ok(second) ? s : second);
  return hs_ok(second) ? second : s;
}

static hs_status pjrt_compile(const hlo_module *m, const backend_options *opt, backend_exe **out) {
  static const backend_options defaults = {0};
  const backend_options *o = opt ? opt : &defaults;
  char *path;
  HS_TRY(pjrt_find(o->plugin, &path));
  hs_status s = pjrt_compile_in(m, o, path, NULL, out);
  hs_free(path);
  return s;
}

const backend_compiled *pjrt_compiled(const backend_exe *e) { return &e->info; }
const pjrt_result *pjrt_compiled_result(const backend_exe *e) { return &e->reported; }
const pjrt_child *pjrt_compiled_child(const backend_exe *e) {
  return e->rival.child ? NULL : e->config.child;
}
hs_status pjrt_compiled_whole(const backend_exe *e, const hlo_module *m, hlo_module **whole) {
  return pjrt_whole(m, e->nargs, e->arg, e->nouts, e->out, whole);
}

// ---- run ----------------------------------------------------------------------------------------

// Whole arrays once, shared by all devices; tiles once per device.
static hs_status pack(const backend_exe *e, const hlo_literal *const *leaf, worker_shm *shm,
                      i64 *offset) {
  size_t total = 0;
  for (u32 k = 0; k < e->nargs; k++)
    for (u32 d = 0; d < (pjrt_tiles_whole(&e->arg[k]) ? 1 : e->ndevices); d++)
      total = block_add(total, block_align(block_leaf_bytes(e->arg[k].part)));
  HS_TRY(worker_shm_new(total, shm));
  size_t at = 0;
  for (u32 k = 0; k < e->nargs; k++) {
    const pjrt_tiles *t = &e->arg[k];
    size_t n = block_leaf_bytes(t->part);
    if (pjrt_tiles_whole(t)) {
      HS_TRY(hs_copy((char *)shm->p + at, leaf[k]->data, n));
      for (u32 d = 0; d < e->ndevices; d++) offset[(size_t)d * e->nargs + k] = (i64)at;
      at += block_align(n);
    } else
      for (u32 d = 0; d < e->ndevices; d++, at += block_align(n)) {
        pjrt_tiles_cut(t, d % t->ndevices, leaf[k]->data, (char *)shm->p + at);
        offset[(size_t)d * e->nargs + k] = (i64)at;
      }
  }
  return HS_GOOD;
}

// The result in the shape of the module, with its tuples and tokens. Leaves that are replicated
// point into device 0's part of the block.
static hs_status unpack(const backend_exe *e, const hlo_shape *s, block *b, size_t *at, u32 *leaf,
                        size_t stride, hlo_literal **out) {
  if (hlo_shape_is_tuple(s)) {
    hlo_literal **kids = hs_calloc(s->nelems + 1u, sizeof *kids);
    hs_status st = HS_GOOD;
    u32 k = 0;
    for (; k < s->nelems && hs_ok(st); k++)
      st = unpack(e, s->elems[k], b, at, leaf, stride, &kids[k]);
    if (hs_ok(st)) *out = hlo_literal_tuple(s, s->nelems, kids);
    else
      for (u32 j = 0; j < k; j++) hlo_literal_unref(kids[j]);
    hs_free(kids);
    return st;
  }
  if (s->dtype == HLO_TOKEN) return hlo_literal_new(s, out);
  const pjrt_tiles *t = &e->out[(*leaf)++];
  if (pjrt_tiles_whole(t)) {
    *out = block_literal(s, b, at);
    return HS_GOOD;
  }
  HS_TRY(hlo_literal_new(s, out));
  for (u32 d = 0; d < t->ndevices; d++)
    pjrt_tiles_join(t, d, (char *)b->shm.p + *at + d * stride, (*out)->data);
  *at += block_align(block_leaf_bytes(t->part));
  return HS_GOOD;
}

static hs_status ensure_compiled(backend_exe *e) {
  return worker_has_program(e) ? HS_GOOD : send_compile(e, NULL, NULL);
}

static hs_status send_run(backend_exe *e, const backend_run_options *o, const worker_shm *in,
                          const i64 *offset, block *results, backend_result *out) {
  hs_buf q = {0};
  wire_put_i64(&q, (i64)e->id);
  block_put_options(&q, o);
  wire_put(&q, offset, sizeof *offset * e->ndevices * e->nargs);
  int fds[2] = {in->fd, results ? results->shm.fd : -1};
  void *reply = NULL;
  size_t n = 0;
  hs_status s = pjrt_host_call(e->host, "running", WORKER_REQ_PJRT_RUN, &q, fds, results ? 2 : 1,
                               e->deadline_s, &reply, &n);
  hs_buf_free(&q);
  if (hs_ok(s)) {
    wire_reader r = {reply, n, false};
    s = distrust(e, block_get_timing(&r, 0, &out->timing));
  }
  hs_free(reply);
  return s;
}

static hs_status run_here(backend_exe *e, u32 nargs, hlo_literal *const *args,
                          const backend_run_options *o, backend_result *out) {
  *out = (backend_result){0};
  HS_TRY(ensure_compiled(e));
  const hlo_literal **leaf = hs_calloc(e->nargs + 1u, sizeof *leaf);
  i64 *offset = hs_calloc((size_t)e->ndevices * e->nargs + 1, sizeof *offset);
  worker_shm in = {.fd = -1};
  block *results = NULL;
  size_t stride = 0, at = 0;
  u32 first = 0;
  for (u32 k = 0; k < e->nouts; k++)
    stride = block_add(stride, block_align(block_leaf_bytes(e->out[k].part)));
  hs_status s = block_leaves(e->nparams, e->param, nargs, args, leaf);
  if (hs_ok(s)) s = pack(e, leaf, &in, offset);
  if (hs_ok(s) && o->want_outputs)
    s = block_new(stride > BLOCK_TOO_LARGE / e->ndevices ? BLOCK_TOO_LARGE : stride * e->ndevices,
                  &results);
  if (hs_ok(s)) s = send_run(e, o, &in, offset, results, out);
  if (hs_ok(s) && results) s = unpack(e, e->result, results, &at, &first, stride, &out->outputs);
  block_drop(results);
  worker_shm_free(&in);
  hs_free(offset);
  hs_free(leaf);
  if (!hs_ok(s)) backend_result_free(out);
  return s;
}

// ---- two processes ------------------------------------------------------------------------------
void pjrt_set_rival(backend_exe *e, const pjrt_child *child) { e->rival = (place){.child = child}; }

// Short measurements in turns; the lower of the medians wins. One round when it takes long.
static hs_status settle(backend_exe *e, u32 nargs, hlo_literal *const *args) {
  enum { ROUNDS = 3 };
  static const backend_run_options few = {
      .min_runs = 2, .max_runs = 1000, .min_seconds = 0.05, .max_seconds = 0.5};
  double best[2] = {INFINITY, INFINITY};
  u64 from = hs_now_ns();
  for (u32 k = 0; k < 2 * ROUNDS; k++) {
    if (k == 2 && hs_now_ns() - from > 2000000000u) break;
    backend_result r;
    HS_TRY(run_here(e, nargs, args, &few, &r));
    best[k % 2] = fmin(best[k % 2], prof_summarize(r.timing.samples_ms, r.timing.runs).median);
    backend_result_free(&r);
    change_places(e);
  }
  if (best[1] < best[0]) change_places(e);
  change_places(e);
  drop_program(e);
  change_places(e);
  e->rival = (place){0};
  return HS_GOOD;
}

hs_status pjrt_run(backend_exe *e, u32 nargs, hlo_literal *const *args,
                   const backend_run_options *opt, backend_result *out) {
  const backend_run_options *o = opt ? opt : &backend_once;
  *out = (backend_result){0};
  if (e->rival.child && o->max_runs > 1) HS_TRY(settle(e, nargs, args));
  return run_here(e, nargs, args, o, out);
}

const backend backend_pjrt = {
    .name = "pjrt",
    .summary = "a PJRT plug-in, such as real XLA, in a worker process",
    .caps = BACKEND_PLUGIN | BACKEND_XLA,
    .probe = pjrt_probe,
    .supports = pjrt_supports,
    .compile = pjrt_compile,
    .compiled = pjrt_compiled,
    .run = pjrt_run,
    .dump = NULL,
    .release = pjrt_release,
};
