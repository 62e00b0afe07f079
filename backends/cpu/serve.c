// serve.c — worker side: handles requests to compile, run, dump and release programs, which have
// numbers given by the shell.
//
// A compile request carries the module's text with large constants elided; their bytes come in
// shared memory, grouped by computation in list order. With it may come object code that a process
// before made of the same module; the answer has the code that is to be kept. A run request carries
// the arguments' leaves in one shared block, each 64-byte aligned; the results go back in another.
// Both are copied into the program's own memory before the clock starts. Arguments that the shell
// keeps have a number: they are copied once, and then only those that a run has overwritten.
//
// A program knows its kind (serve.h): the cpu's is at the end of this file, a device's beside its
// runtime. Only the request to compile differs between them.
#include "backends/cpu/serve.h"
#include "core/text/text.h"

#include <math.h>

static HS_VEC(served *) programs;

worker_handler cpu_serve_compile, serve_run, serve_dump, serve_release;

static served *find(u64 id) {
  for (size_t k = 0; k < programs.n; k++)
    if (programs.v[k]->id == id) return programs.v[k];
  return NULL;
}

static hs_status no_such_program(void) {
  return hs_fail(HS_E_INTERNAL, "the worker has no such program");
}

static void free_served(served *s) {
  s->kind->free(s);
  hlo_module_free(s->m);
  if (s->ctx) hlo_ctx_free(s->ctx);
  hs_free(s);
}

// ---- compile ------------------------------------------------------------------------------------

static bool load_leaves(hlo_literal *l, const serve_map *blob, size_t *at) {
  for (u32 k = 0; k < l->nchildren; k++)
    if (!load_leaves(l->children[k], blob, at)) return false;
  if (!hlo_shape_is_array(l->shape)) return true;
  *at = block_align(*at);
  if (*at > blob->n || l->bytes > blob->n - *at) return false;
  if (l->bytes) memcpy(l->data, blob->p + *at, l->bytes);
  *at += l->bytes;
  return true;
}

// Sets the bytes of every constant; the text may have elided or rounded them.
static hs_status load_constants(hlo_module *m, wire_reader *r, const serve_map *blob) {
  size_t at = 0;
  u32 count = wire_get_u32(r);
  for (u32 k = 0; k < count && !r->bad; k++) {
    hs_str name = wire_get_str(r);
    char *z = hs_format("%.*s", (int)name.n, name.p);
    hlo_instr *i = hlo_find_instr(m, z);
    hs_free(z);
    if (!i || i->opcode != HLO_CONSTANT)
      return hs_fail(HS_E_INTERNAL, "the worker read no constant %.*s", (int)name.n, name.p);
    hlo_literal *l;
    HS_TRY(hlo_literal_new(i->shape, &l));
    if (!load_leaves(l, blob, &at)) {
      hlo_literal_unref(l);
      return hs_fail(HS_E_INTERNAL, "constants are missing");
    }
    hlo_set_attr(i, (hlo_attr){.id = HLO_ATTR_LITERAL, .v.literal = l});
    hlo_literal_unref(l);  // the module holds its own reference
  }
  return r->bad ? hs_fail(HS_E_INTERNAL, "bad compile request") : HS_GOOD;
}

// A compile request without what a client puts before it: the program's number, whether code is to
// be kept, threads, options (u32: per_instruction, plan_only, one_device, no_contract,
// keep_denormals), the module's text, its constants.
typedef struct request {
  u64 id;
  u32 threads;
  cpu_lower_options options;
  emit_code code;
  hlo_ctx *ctx;
  hlo_module *m;
  double cpu0;  // when it began: processor and wall clock
  u64 t0;
} request;

// Reads the module, with its constants from the shared block. After an error too, the caller frees
// m and ctx.
static hs_status read_request(wire_reader *r, const serve_map *constants, request *out) {
  *out = (request){.id = (u64)wire_get_i64(r)};
  out->code.wanted = wire_get_u32(r);
  out->threads = wire_get_u32(r);
  cpu_lower_options *o = &out->options;
  o->per_instruction = wire_get_u32(r);
  o->plan_only = wire_get_u32(r);
  o->one_device = wire_get_u32(r);
  o->no_contract = wire_get_u32(r);
  o->keep_denormals = wire_get_u32(r);
  hs_str text = wire_get_str(r);
  serve_peak_rss(true);
  out->cpu0 = serve_cpu_ms();
  out->t0 = hs_now_ns();
  out->ctx = hlo_ctx_new();
  worker_doing = "reading the module";
  hlo_parse_options po = {.file = "<worker>"};
  HS_TRY(hlo_parse(out->ctx, text.p, text.n, &po, &out->m));
  hlo_journal_disable(out->m);
  return load_constants(out->m, r, constants);
}

const char *cpu_step_kind_text(const cpu_step *s) {
  return s->kind == CPU_STEP_EMIT ? emit_kind_name(s->kernel->kind)
         : s->kind == CPU_STEP_RT ? s->rt.kind
                                  : cpu_called_text(s->called);
}

// The answer: times, sizes, and the table of kernels.
static void answer(const request *q, const served *s, hs_buf *reply) {
  const cpu_program *p = s->p;
  wire_put_f64(reply, (double)(hs_now_ns() - q->t0) / 1e6);
  wire_put_f64(reply, serve_cpu_ms() - q->cpu0);
  wire_put_i64(reply, serve_peak_rss(false));
  size_t temp = p->per_instruction ? p->temp_live_bytes : p->temp_bytes;
  const i64 sizes[] = {(i64)p->arg_bytes, (i64)(p->out_bytes + p->alias_bytes), (i64)p->alias_bytes,
                       (i64)temp};
  for (size_t k = 0; k < HS_COUNT(sizes); k++) wire_put_i64(reply, sizes[k]);
  wire_put_u32(reply, p->ndevices);
  wire_put_u32(reply, p->fallbacks);
  wire_put_u32(reply, (u32)p->kernels.n);
  for (size_t k = 0; k < p->kernels.n; k++) {
    wire_put_str(reply, p->kernels.v[k]->instr->name);
    wire_put_str(reply, s->kind->step_text(s, p->kernels.v[k]));
    const hlo_instr *const all[] = {p->kernels.v[k]->instr, p->kernels.v[k]->joined[0],
                                    p->kernels.v[k]->joined[1]};
    double flops = 0, bytes = 0;
    for (size_t j = 0; j < HS_COUNT(all) && all[j]; j++) {
      hlo_cost cost = hlo_cost_instr(all[j]);
      flops += cost.flops, bytes += cost.bytes_read + cost.bytes_written;
    }
    wire_put_f64(reply, flops);
    wire_put_f64(reply, bytes);
    wire_put_u32(reply, s->kind->launches ? s->kind->launches(s, p->kernels.v[k]) : 0);
    wire_put_i64(reply, (i64)p->kernels.v[k]->scratch_bytes);
  }
  wire_put_u32(reply, q->code.taken);
  wire_put_bytes(reply, q->code.made.p, q->code.made.n);
}

static hs_status build(served *s, const void *options, wire_reader *r, const serve_map *constants,
                       const serve_map *code, hs_buf *reply) {
  request q;
  hs_status st = read_request(r, constants, &q);
  s->id = q.id, s->threads = q.threads, s->ctx = q.ctx, s->m = q.m;
  HS_TRY(st);
  if (!q.options.per_instruction) HS_TRY(cpu_unfuse(s->m, s->kind->device));
  worker_doing = "generating code";
  cpu_par_begin(s->threads);
  q.options.threads = cpu_par_threads();
  q.options.code = &q.code;
  q.code.given = code->p, q.code.n = code->n;
  st = s->kind->build(s, &q.options, options);
  cpu_par_end();
  if (hs_ok(st)) answer(&q, s, reply);
  hs_buf_free(&q.code.made);
  return st;
}

hs_status serve_compile(const served_kind *kind, const void *options, wire_reader *r,
                        const int *fds, u32 nfds, hs_buf *reply) {
  if (nfds < 1) return hs_fail(HS_E_INTERNAL, "compile request without constants");
  serve_map constants = {0}, code = {0};
  HS_TRY(serve_map_fd(fds[0], false, &constants));
  hs_status st = nfds > 1 ? serve_map_fd(fds[1], false, &code) : HS_GOOD;
  if (!hs_ok(st)) {
    serve_unmap(&constants);
    return st;
  }
  served *s = hs_calloc(1, sizeof *s);
  s->kind = kind;
  s->dispatch_ms = -1;
  st = build(s, options, r, &constants, &code, reply);
  serve_unmap(&constants);
  serve_unmap(&code);
  if (!hs_ok(st)) free_served(s);
  else hs_vec_push(&programs, s);
  return st;
}

// ---- run ----------------------------------------------------------------------------------------

// Where each of n leaves begins in a block; the end is the last of n + 1 numbers.
static void leaf_offsets(u32 n, const hlo_shape *const *leaf, size_t *at) {
  at[0] = 0;
  for (u32 k = 0; k < n; k++) at[k + 1] = at[k] + block_align(block_leaf_bytes(leaf[k]));
}

typedef struct run_request {
  served *s;
  serve_map args;
  size_t *from;  // offset of each argument leaf in the shared block
  u64 number;    // of the arguments; 0: not kept
} run_request;

static hs_status place_arguments(const run_request *x, bool all) {
  served *s = x->s;
  for (u32 k = 0; k < s->p->nargs; k++)
    if (all || s->p->arg_donated[k]) HS_TRY(s->kind->place(s, k, x->args.p + x->from[k]));
  s->overwritten = false;
  return HS_GOOD;
}

static hs_status timed_run(void *arg, double *ms) {
  const run_request *x = arg;
  served *s = x->s;
  if (s->overwritten) HS_TRY(place_arguments(x, false));
  s->overwritten = true;
  return s->kind->run(s, ms);
}

static bool overwrites_arguments(const cpu_program *p) {
  for (u32 k = 0; k < p->nargs; k++)
    if (p->arg_donated[k]) return true;
  return false;
}

// The samples of a request; from: when it began. Where arguments are kept, what was copied since
// then is part of the time asked for. A program that overwrites its arguments runs each time on
// ones that were just copied, so that its first run is as good as the others, but in fresh memory.
static hs_status measure(run_request *x, const backend_run_options *o, u64 from, double first,
                         hs_buf *samples) {
  backend_run_options left = *o;
  if (!x->number) return serve_measure(&left, first, timed_run, x, samples);
  double spent = (double)(hs_now_ns() - from) * 1e-9;
  bool enough = spent >= o->max_seconds && o->min_runs <= 1 && !o->warmup && !o->fresh_memory;
  if (enough && overwrites_arguments(x->s->p)) {
    hs_buf_put(samples, (const char *)&first, sizeof first);
    return HS_GOOD;
  }
  // 0 would be no limit
  if (o->max_seconds > 0) left.max_seconds = fmax(o->max_seconds - spent, 1e-9);
  left.min_seconds = fmin(o->min_seconds, left.max_seconds);
  return serve_measure(&left, first, timed_run, x, samples);
}

static hs_status run_program(run_request *x, const backend_run_options *o, const serve_map *out,
                             hs_buf *reply) {
  served *s = x->s;
  const served_kind *kind = s->kind;
  const cpu_program *p = s->p;
  u64 begin = hs_now_ns(), t0 = begin;
  if (o->fresh_memory && kind->renew) {
    kind->renew(s);
    s->placed = 0;
  }
  if (!x->number || s->placed != x->number) {
    s->placed = 0;
    HS_TRY(place_arguments(x, true));
    s->placed = x->number;
  }
  if (kind->placed) HS_TRY(kind->placed(s));
  double transfer = (double)(hs_now_ns() - t0) / 1e6, first;
  if (kind->dispatch_ms && o->max_runs > 1 && s->dispatch_ms < 0)
    s->dispatch_ms = kind->dispatch_ms(s);
  HS_TRY(timed_run(x, &first));
  t0 = hs_now_ns();
  size_t at = 0;
  for (u32 k = 0; out->p && k < p->nouts; k++) {
    size_t n = block_leaf_bytes(p->out_shape[k]);
    if (at + n > out->n) return hs_fail(HS_E_INTERNAL, "result block too small");
    HS_TRY(kind->fetch(s, k, out->p + at));
    at += block_align(n);
  }
  transfer += (double)(hs_now_ns() - t0) / 1e6;
  hs_buf samples = {0};
  prof_recording *kernels = NULL;
  backend_power power = {0};
  if (kind->power_begin) kind->power_begin(s);
  hs_status st = measure(x, o, begin, first, &samples);
  u32 runs = (u32)(samples.n / sizeof(double));
  if (kind->power_end) kind->power_end(o->warmup + runs, &power);
  if (hs_ok(st) && o->want_kernel_times)
    st = kind->record(s, o->max_seconds / 2, timed_run, x, &kernels);
  if (hs_ok(st) && o->want_counters && kernels && kind->count)
    st = kind->count(s, timed_run, x, kernels);
  if (hs_ok(st)) {
    const backend_timing t = {.first_ms = first,
                              .transfer_ms = transfer,
                              .dispatch_ms = s->dispatch_ms,
                              .power = power,
                              .runs = runs,
                              .samples_ms = (double *)(void *)samples.p,
                              .kernels = kernels};
    block_put_timing(reply, &t);
  }
  hs_buf_free(&samples);
  prof_recording_free(kernels);
  return st;
}

// Descriptors: arguments, and results when they are wanted.
hs_status serve_run(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  wire_reader r = {payload, n, false};
  served *s = find((u64)wire_get_i64(&r));
  if (!s || nfds < 1) return no_such_program();
  HS_TRY(s->kind->ready(s));
  run_request x = {.s = s, .number = (u64)wire_get_i64(&r)};
  backend_run_options o;
  wire_get(&r, &o, sizeof o);
  HS_TRY(serve_map_fd(fds[0], false, &x.args));
  serve_map out = {0};
  hs_status st = nfds > 1 ? serve_map_fd(fds[1], true, &out) : HS_GOOD;
  x.from = hs_calloc(s->p->nargs + 1, sizeof *x.from);
  leaf_offsets(s->p->nargs, s->p->arg_shape, x.from);
  if (hs_ok(st) && x.from[s->p->nargs] > x.args.n)
    st = hs_fail(HS_E_INTERNAL, "argument block too small");
  if (hs_ok(st)) {
    cpu_par_begin(s->threads);
    if (s->p->keep_denormals) cpu_par_keep_denormals();
    st = run_program(&x, &o, &out, reply);
    cpu_par_end();
  }
  hs_free(x.from);
  serve_unmap(&x.args);
  serve_unmap(&out);
  return st;
}

// ---- dump and release ---------------------------------------------------------------------------

hs_status serve_dump(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  (void)fds, (void)nfds;
  wire_reader r = {payload, n, false};
  served *s = find((u64)wire_get_i64(&r));
  hs_str what = wire_get_str(&r);
  if (!s) return no_such_program();
  if (hs_str_eq(what, HS_STR("plan"))) {
    prof_memory plan;
    cpu_plan_of(s->p, &plan);
    if (s->kind->mapped_bytes) plan.mapped_bytes = s->kind->mapped_bytes(s);
    cpu_plan_put(&plan, reply);
    prof_memory_free(&plan);
    return HS_GOOD;
  }
  if (hs_str_eq(what, HS_STR("schedule"))) cpu_dump_schedule(s->p, reply);
  char *z = hs_format("%.*s", (int)what.n, what.p);
  hs_status st = s->kind->dump(s, z, reply);
  hs_free(z);
  return st;
}

hs_status serve_release(const void *payload, size_t n, const int *fds, u32 nfds, hs_buf *reply) {
  (void)fds, (void)nfds, (void)reply;
  u64 id = serve_program_id(payload, n);
  for (size_t k = 0; k < programs.n; k++) {
    if (programs.v[k]->id != id) continue;
    free_served(programs.v[k]);
    programs.v[k] = programs.v[--programs.n];
    break;
  }
  return HS_GOOD;
}

// ---- programs for the cpu -----------------------------------------------------------------------

static hs_status cpu_build(served *s, const cpu_lower_options *o, const void *none) {
  (void)none;
  cpu_exec_keep_memory();
  return cpu_lower(s->m, o, &s->p);
}

static void cpu_free(served *s) { cpu_program_free(s->p); }

static hs_status cpu_ready(const served *s) {
  return s->p->addr ? HS_GOOD : hs_fail(HS_E_INTERNAL, "the worker has the program's plan only");
}

// One argument leaf from the shared block (row-major) to its area (physical order).
static hs_status cpu_place_argument(served *s, u32 k, const char *from) {
  cpu_place(s->p->arg_shape[k], (char *)s->p->area[1] + s->p->arg_offset[k], from);
  return HS_GOOD;
}

static void cpu_renew(served *s) { cpu_exec_renew(s->p); }

static hs_status cpu_fetch_result(served *s, u32 k, char *to) {
  const cpu_program *p = s->p;
  cpu_fetch(p->out_shape[k], to, p->addr[p->values.v[p->out_value[k]].slot]);
  return HS_GOOD;
}

static hs_status cpu_run(served *s, double *ms) {
  u64 t0 = hs_now_ns();
  if (s->p->probes) s->p->probes->start = t0;
  hs_status st = cpu_exec_run(s->p);
  *ms = (double)(hs_now_ns() - t0) / 1e6;
  return st;
}

static hs_status cpu_dump(served *s, const char *what, hs_buf *out) {
  if (!strcmp(what, "addresses")) {
    cpu_dump_addresses(s->p, out);
    return HS_GOOD;
  }
#if HAVE_LLVM
  if (!strcmp(what, "schedule") || !strcmp(what, "llvm") || !strcmp(what, "asm"))
    return emit_dump(s->p->unit, what, out);
#endif
  return out->n ? HS_GOOD : hs_fail(HS_E_USAGE, "code for this CPU has no %s", what);
}

static const char *step_text(const served *s, const cpu_step *x) {
  (void)s;
  return cpu_step_kind_text(x);
}

hs_status cpu_serve_compile(const void *payload, size_t n, const int *fds, u32 nfds,
                            hs_buf *reply) {
  static const served_kind kind = {
      .build = cpu_build,
      .step_text = step_text,
      .free = cpu_free,
      .ready = cpu_ready,
      .place = cpu_place_argument,
      .renew = cpu_renew,
      .fetch = cpu_fetch_result,
      .run = cpu_run,
      .record = cpu_record,
      .dispatch_ms = cpu_dispatch_ms,
      .dump = cpu_dump,
  };
  wire_reader r = {payload, n, false};
  return serve_compile(&kind, NULL, &r, fds, nfds, reply);
}
