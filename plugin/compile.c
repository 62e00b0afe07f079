// compile.c — from what a caller sends to a program that runs: StableHLO (bytecode or text) or a
// HloModuleProto is read and verified, the tuned pipeline runs on a copy, and the cpu backend
// compiles that in this process. What it has no code for, the reference evaluator runs.
#include "plugin/plugin.h"

#include "core/mlir/mlir.h"
#include "core/proto/proto.h"
#include "core/proto/wire.h"
#include "core/verify/verify.h"
#include "passes/passes.h"

// ---- reading ------------------------------------------------------------------------------------
static bool is_format(hs_str f, const char *name) { return hs_str_eq(f, hs_str_of(name)); }

static hs_status read_program(plug_exe *e, hs_str code, hs_str format) {
  if (is_format(format, "mlir")) {
    if (!hlo_is_mlir(code.p, code.n))
      return hs_fail(HS_E_FORMAT, "the program is neither MLIR text nor MLIR bytecode");
    const hlo_parse_options o = {.file = "<program>"};
    return hlo_mlir_read(e->ctx, code.p, code.n, &o, &e->given);
  }
  pb m = {(const u8 *)code.p, (const u8 *)code.p + code.n, false};
  if (is_format(format, "hlo_with_config")) m = pb_sub(m, 1);
  else if (!is_format(format, "hlo"))
    return hs_fail(HS_E_FORMAT, "programs of format '%.*s' are not known",
                   (int)HS_MIN(format.n, 40u), format.p);
  return hlo_proto_read(e->ctx, m.p, (size_t)(m.end - m.p), "<program>", &e->given);
}

// ---- arguments and results ----------------------------------------------------------------------
static hs_status make_leaf(plug_exe *e, const hlo_shape *s, const hlo_sharding *sharding,
                           plug_leaf *out) {
  out->shape = hlo_shape_with_default_layout(e->ctx, s);
  return pjrt_tiles_make(e->ctx, out->shape, sharding, e->partitions, &out->tiles);
}

static const hlo_sharding *part_of(const hlo_sharding *s, u32 k) {
  if (!s || s->type != HLO_SH_TUPLE) return s;
  return k < s->nchildren ? s->children[k] : NULL;
}

static hs_status make_leaves(plug_exe *e, const hlo_shape *s, const hlo_sharding *sharding,
                             plug_leaf *v) {
  for (u32 k = 0, n = hlo_shape_leaves(s); k < n; k++)
    HS_TRY(make_leaf(e, hlo_shape_leaf(s, k), part_of(sharding, k), &v[k]));
  return HS_GOOD;
}

// Arguments that the module gives to results, or that may be used for anything.
static void mark_donated(plug_exe *e, hlo_attr_id id) {
  const hlo_attr *a = e->given->attrs ? hlo_attrs_find(e->given->attrs, id) : NULL;
  const hlo_aliases *list = a ? a->v.p : NULL;
  for (u32 k = 0; list && k < list->n; k++) {
    i64 param = list->v[k].param;
    u32 at = 0;
    if (param < 0 || param >= (i64)e->given->entry->nparams) continue;
    for (i64 j = 0; j < param; j++) at += hlo_shape_leaves(e->given->entry->params[j]->shape);
    for (u32 j = 0, n = hlo_shape_leaves(e->given->entry->params[param]->shape); j < n; j++)
      e->args[at + j].donated = true;
  }
}

static hs_status describe(plug_exe *e) {
  const hlo_computation *c = e->given->entry;
  for (u32 k = 0; k < c->nparams; k++) e->nargs += hlo_shape_leaves(c->params[k]->shape);
  e->nouts = hlo_shape_leaves(c->root->shape);
  e->args = hs_calloc(e->nargs + 1, sizeof *e->args);
  e->outs = hs_calloc(e->nouts + 1, sizeof *e->outs);
  for (u32 k = 0, at = 0; k < c->nparams; k++) {
    const hlo_instr *p = c->params[k];
    HS_TRY(make_leaves(e, p->shape, hlo_attr_ptr(p, HLO_ATTR_SHARDING), e->args + at));
    at += hlo_shape_leaves(p->shape);
  }
  HS_TRY(make_leaves(e, c->root->shape, hlo_attr_ptr(c->root, HLO_ATTR_SHARDING), e->outs));
  mark_donated(e, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  mark_donated(e, HLO_ATTR_BUFFER_DONOR);
  return HS_GOOD;
}

// ---- compiling ----------------------------------------------------------------------------------
// The number of devices is the caller's, whatever the module says.
static void state_devices(plug_exe *e) {
  hlo_set_module_attr(e->given, (hlo_attr){HLO_ATTR_REPLICA_COUNT, {.i = e->replicas}});
  hlo_set_module_attr(e->given, (hlo_attr){HLO_ATTR_NUM_PARTITIONS, {.i = e->partitions}});
}

static hs_status optimize(plug_exe *e) {
  e->optimized = hlo_module_clone(e->given, e->given->name);
  hlo_journal_disable(e->optimized);
  plug_order_results(e->optimized);
  pass_run_options o = pass_run_default();
  o.verify = o.measure = false;
  HS_TRY(pipeline_run(e->optimized, "tuned", &o, NULL));
  return hlo_verify(e->optimized, NULL);
}

static hs_status compile(plug_exe *e, emit_code *objects) {
  const cpu_local_options o = {.few_devices = true, .in_place = true, .code = objects};
  bool away = plug_worker_takes(e);
  hs_status s = away ? plug_worker_compile(e) : cpu_local_compile(e->optimized, &o, &e->program);
  for (u32 k = 0; k < e->nouts; k++)
    e->outs[k].in_place_of = e->program ? cpu_local_argument_of(e->program, k) : UINT32_MAX;
  if (hs_ok(s) || (s.err->code != HS_E_UNSUPPORTED && s.err->code != HS_E_NOT_BUILT)) return s;
  const hlo_eval_options eval = {.peer = &plug_peer};
  hs_status evaluated = hlo_eval_check(e->given, &eval);
  if (hs_ok(evaluated) && e->replicas == 1) return hs_status_drop(s), HS_GOOD;
  hs_status_drop(evaluated);
  return s;
}

// What is called may go with the caller's handle to the program (JAX keeps Python callbacks so).
static bool calls_out(const hlo_module *m) {
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (i->opcode == HLO_CUSTOM_CALL && plug_peer.covers(plug_peer.arg, i)) return true;
  return false;
}

static void fingerprint(plug_exe *e) {
  u64 h = 14695981039346656037u, g = 1099511628211u;
  for (size_t k = 0; k < e->source.n; k++) {
    h = (h ^ (u8)e->source.p[k]) * 1099511628211u;
    g = (g + (u8)e->source.p[k]) * 6364136223846793005u + 1442695040888963407u;
  }
  hs_buf b = {0};
  hs_buf_printf(&b, "%016llx%016llx", (unsigned long long)h, (unsigned long long)g);
  memcpy(e->fingerprint, hs_buf_cstr(&b), HS_MIN(b.n + 1, sizeof e->fingerprint));
  hs_buf_free(&b);
}

plug_exe *plug_exe_share(plug_exe *e) {
  atomic_fetch_add(&e->refs, 1);
  return e;
}

void plug_exe_drop(plug_exe *e) {
  if (!e || atomic_fetch_sub(&e->refs, 1) > 1) return;
  cpu_local_free(e->program);
  plug_worker_release(e);
  for (u32 k = 0; e->args && k < e->nargs; k++) pjrt_tiles_free(&e->args[k].tiles);
  for (u32 k = 0; e->outs && k < e->nouts; k++) pjrt_tiles_free(&e->outs[k].tiles);
  plug_layouts_free(e->arg_layouts, e->nargs);
  plug_layouts_free(e->out_layouts, e->nouts);
  if (e->optimized) hlo_module_free(e->optimized);
  if (e->given) hlo_module_free(e->given);
  hlo_ctx_free(e->ctx);
  hs_buf_free(&e->source);
  hs_buf_free(&e->proto);
  hs_buf_free(&e->assignment);
  void *const lists[] = {e->devices,  e->args,          e->outs,       e->out_types, e->out_ranks,
                         e->out_dims, (void *)e->kinds, e->kind_sizes, e->costs};
  for (size_t k = 0; k < HS_COUNT(lists); k++) hs_free(lists[k]);
  pthread_mutex_destroy(&e->lock);
  plug_client_drop(e->client);
  hs_free(e);
}

// What Serialize gives: parts with their sizes in front.
static void put_part(hs_buf *b, hs_str part) {
  u64 n = part.n;
  hs_buf_put(b, (const char *)&n, sizeof n);
  hs_buf_put(b, part.p, part.n);
}
static void keep_source(plug_exe *e, const plug_sent *p) {
  hs_buf_put(&e->source, PLUG_SERIALIZED, sizeof PLUG_SERIALIZED - 1);
  put_part(&e->source, p->options);
  put_part(&e->source, p->format);
  put_part(&e->source, p->code);
}

void plug_digest(hs_str objects, u8 out[HS_SHA256_BYTES]) {
  hs_sha256 h;
  hs_sha256_begin(&h);
  if (objects.n) hs_sha256_put(&h, objects.p, objects.n);
  hs_sha256_end(&h, out);
}
// Behind that: what the code was made into, or was taken from.
static void keep_objects(plug_exe *e, const emit_code *o) {
  hs_str objects = o->made.n ? (hs_str){o->made.p, o->made.n} : (hs_str){o->given, o->n};
  u8 digest[HS_SHA256_BYTES];
  plug_digest(objects, digest);
  put_part(&e->source, (hs_str){(const char *)digest, sizeof digest});
  put_part(&e->source, objects);
}

static hs_status build(plug_exe *e, const plug_sent *p, emit_code *objects, bool journal) {
  hs_str code = p->code;
  HS_TRY(read_program(e, code, p->format));
  hlo_journal_disable(e->given);
  if (journal) plug_journal(e->client, e->given, code.p, code.n);
  state_devices(e);
  plug_state_result_shardings(e->given, e->partitions);
  HS_TRY(hlo_verify(e->given, NULL));
  HS_TRY(describe(e));
  plug_describe_results(e);
  HS_TRY(optimize(e));
  e->calls_out = calls_out(e->optimized);
  return compile(e, objects);
}

pj_error *plug_build(pj_client *c, const plug_sent *p, bool journal, pj_loaded **out) {
  *out = NULL;
  plug_options o;
  pj_error *bad = plug_options_read(p->options.p, p->options.n, c, &o);
  if (bad) return hs_free(o.devices), bad;
  plug_exe *e = hs_calloc(1, sizeof *e);
  atomic_init(&e->refs, 1);
  pthread_mutex_init(&e->lock, NULL);
  e->client = plug_client_share(c);
  e->ctx = hlo_ctx_new();
  e->replicas = o.replicas;
  e->partitions = o.partitions;
  e->devices = o.devices;
  keep_source(e, p);
  fingerprint(e);
  emit_code objects = {
      .given = p->objects.n ? p->objects.p : NULL, .n = p->objects.n, .wanted = true};
  bad = plug_status(build(e, p, &objects, journal));
  keep_objects(e, &objects);
  hs_buf_free(&objects.made);
  if (bad) return plug_exe_drop(e), bad;
  pj_loaded *l = plug_handle_new(PLUG_LOADED, sizeof *l);
  l->e = e;
  l->devices = hs_calloc(plug_ndevices(e), sizeof *l->devices);
  for (u32 k = 0; k < plug_ndevices(e); k++) l->devices[k] = c->list[e->devices[k]];
  *out = l;
  return NULL;
}

pj_error *plug_Client_Compile(pj_client_compile *a) {
  const pj_program *p = a->program;
  if (!p || p->struct_size < PJ_SIZE(pj_program, format_n) || (p->code_n && !p->code) ||
      (p->format_n && !p->format) || (a->options_n && !a->options))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no program, format or options");
  const plug_sent sent = {.code = {p->code, p->code_n},
                          .format = {p->format, p->format_n},
                          .options = {a->options, a->options_n}};
  return plug_build(a->client, &sent, true, &a->executable);
}
