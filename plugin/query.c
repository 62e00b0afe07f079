// query.c — what is asked about programs, and programs as bytes. A serialized program is what was
// sent to be compiled, and the object code that was made of it: passes run again when it is read,
// and code is taken where it is that of the same kernels for the same processor (emit_code).
#include "plugin/plugin.h"

#include "core/analysis/cost.h"
#include "core/proto/proto.h"
#include "core/proto/wire.h"
#include "core/proto/write.h"

// ---- loaded programs ----------------------------------------------------------------------------
pj_error *plug_LoadedExecutable_Destroy(pj_loaded_arg *a) {
  if (!a->executable) return NULL;
  plug_handle_end(&a->executable->h);
  plug_exe_drop(a->executable->e);
  hs_free(a->executable->devices);
  plug_handle_free(PLUG_LOADED, a->executable);
  return NULL;
}

// Each is destroyed by its holder.
static pj_executable *handle_to(plug_exe *e) {
  pj_executable *x = plug_handle_new(PLUG_EXECUTABLE, sizeof *x);
  x->e = plug_exe_share(e);
  return x;
}

ANSWER(LoadedExecutable_GetExecutable, pj_get_executable, a->executable = handle_to(a->loaded->e))
ANSWER(LoadedExecutable_AddressableDevices, pj_loaded_devices,
       (a->v = a->executable->devices, a->n = plug_ndevices(a->executable->e)))
ANSWER(LoadedExecutable_Delete, pj_loaded_arg, atomic_store(&a->executable->deleted, true))
ANSWER(LoadedExecutable_IsDeleted, pj_loaded_flag, a->yes = atomic_load(&a->executable->deleted))
ANSWER(LoadedExecutable_Fingerprint, pj_loaded_text, SAY(a->executable->e->fingerprint))

static void nothing(void *handle) { (void)handle; }

// DeviceAssignmentProto: a column a partition, its rows the replicas.
pj_error *plug_LoadedExecutable_GetDeviceAssignment(pj_assignment *a) {
  plug_exe *e = a->executable->e;
  pthread_mutex_lock(&e->lock);
  hs_buf *b = &e->assignment;
  if (!b->n) {
    i64 ids[PLUG_MOST_DEVICES];
    pb_put_int(b, 1, e->replicas);
    pb_put_int(b, 2, e->partitions);
    for (u32 p = 0; p < e->partitions; p++) {
      for (u32 r = 0; r < e->replicas; r++) ids[r] = e->devices[r * e->partitions + p];
      size_t mark = pb_begin(b);
      pb_put_ints(b, 1, ids, e->replicas);
      pb_end(b, 3, mark);
    }
  }
  a->bytes = b->p;
  a->n = b->n;
  a->handle = e;  // the program's own; it must not be NULL
  a->free = nothing;
  pthread_mutex_unlock(&e->lock);
  return NULL;
}

// ---- programs -----------------------------------------------------------------------------------
pj_error *plug_Executable_Destroy(pj_executable_arg *a) {
  if (!a->executable) return NULL;
  plug_handle_end(&a->executable->h);
  plug_exe_drop(a->executable->e);
  plug_handle_free(PLUG_EXECUTABLE, a->executable);
  return NULL;
}

ANSWER(Executable_Name, pj_executable_text, SAY(a->executable->e->given->name))
ANSWER(Executable_Fingerprint, pj_executable_text, SAY(a->executable->e->fingerprint))
ANSWER(Executable_NumReplicas, pj_executable_size, a->n = a->executable->e->replicas)
ANSWER(Executable_NumPartitions, pj_executable_size, a->n = a->executable->e->partitions)
ANSWER(Executable_NumOutputs, pj_executable_size, a->n = a->executable->e->nouts)
ANSWER(Executable_SizeOfGeneratedCodeInBytes, pj_executable_size, a->n = 0)  // not known

// What the lists of results are: types, sizes of one device's part, and memories. Made once, when
// the program is.
void plug_describe_results(plug_exe *e) {
  e->out_types = hs_calloc(e->nouts + 1, sizeof *e->out_types);
  e->out_ranks = hs_calloc(e->nouts + 1, sizeof *e->out_ranks);
  e->kinds = hs_calloc(e->nouts + 1, sizeof *e->kinds);
  e->kind_sizes = hs_calloc(e->nouts + 1, sizeof *e->kind_sizes);
  u32 all = 0, at = 0;
  for (u32 k = 0; k < e->nouts; k++) all += e->outs[k].tiles.part->rank;
  e->out_dims = hs_calloc(all + 1, sizeof *e->out_dims);
  for (u32 k = 0; k < e->nouts; k++) {
    const hlo_shape *s = e->outs[k].tiles.part;
    e->out_types[k] = pj_type((int)s->dtype);
    e->out_ranks[k] = s->rank;
    for (u32 d = 0; d < s->rank; d++) e->out_dims[at++] = s->dims[d];
    e->kinds[k] = PLUG_MEMORY_KIND;
    e->kind_sizes[k] = sizeof PLUG_MEMORY_KIND - 1;
  }
}

ANSWER(Executable_OutputElementTypes, pj_output_types,
       (a->v = a->executable->e->out_types, a->n = a->executable->e->nouts))
ANSWER(Executable_OutputDimensions, pj_output_dims,
       (a->n = a->executable->e->nouts, a->ranks = a->executable->e->out_ranks,
        a->dims = a->executable->e->out_dims))
ANSWER(Executable_OutputMemoryKinds, pj_memory_kinds,
       (a->n = a->executable->e->nouts, a->kinds = a->executable->e->kinds,
        a->sizes = a->executable->e->kind_sizes))

static pj_named cost(const char *name, double v) {
  return (pj_named){.struct_size = PJ_SIZE(pj_named, n),
                    .name = name,
                    .name_n = strlen(name),
                    .type = PJ_FLOAT,
                    .v.f = (float)v,
                    .n = 1};
}

// Of the module as it was sent, as XLA counts.
pj_error *plug_Executable_GetCostAnalysis(pj_cost *a) {
  plug_exe *e = a->executable->e;
  hs_status s = HS_GOOD;
  pthread_mutex_lock(&e->lock);
  if (!e->costs) {
    hlo_cost_table t = {0};
    s = hlo_cost_module(e->given, &t);
    if (hs_ok(s)) {
      e->costs = hs_calloc(3, sizeof *e->costs);
      e->costs[e->ncosts++] = cost("flops", t.total.flops);
      e->costs[e->ncosts++] = cost("transcendentals", t.total.transcendentals);
      e->costs[e->ncosts++] = cost("bytes accessed", t.total.bytes_read + t.total.bytes_written);
      hlo_cost_free(&t);
    }
  }
  a->v = e->costs;
  a->n = e->ncosts;
  pthread_mutex_unlock(&e->lock);
  return plug_status(s);
}

pj_error *plug_Executable_GetCompiledMemoryStats(pj_memory_stats *a) {
  plug_exe *e = a->executable->e;
  static const backend_compiled none = {0};
  const backend_compiled *f = e->program  ? cpu_local_figures(e->program)
                              : e->remote ? plug_worker_figures(e)
                                          : &none;
  a->code = a->host_code = a->host_arguments = a->host_outputs = a->host_alias = a->host_temp = 0;
  a->arguments = f->argument_bytes;
  a->outputs = f->output_bytes;
  a->alias = f->alias_bytes;
  a->temp = f->temp_bytes;
  if (a->struct_size >= PJ_SIZE(pj_memory_stats, peak)) a->peak = f->peak_bytes;
  return NULL;
}

// The shardings of the entry, from which a caller learns what its results are: every part has one,
// and where nothing is said every device has all of it.
static void put_shardings(const plug_exe *e, hs_buf *m) {
  enum { PARAMETERS = 14, RESULT = 12 };
  static const hlo_sharding whole = {.type = HLO_SH_REPLICATED};
  const hlo_computation *c = e->given->entry;
  if (e->partitions < 2) return;
  for (u32 k = 0; k < c->nparams; k++) {
    const hlo_sharding *s = hlo_attr_ptr(c->params[k], HLO_ATTR_SHARDING);
    proto_put_sharding(m, PARAMETERS, s ? s : &whole);
  }
  const hlo_sharding *s = hlo_attr_ptr(c->root, HLO_ATTR_SHARDING);
  u32 n = hlo_shape_is_tuple(c->root->shape) ? c->root->shape->nelems : 0;
  const hlo_sharding **parts = hs_calloc(n + 1, sizeof *parts);
  for (u32 k = 0; k < n; k++) parts[k] = &whole;
  hlo_sharding all = {.type = HLO_SH_TUPLE, .nchildren = n, .children = parts};
  proto_put_sharding(m, RESULT, s ? s : n ? &all : &whole);
  hs_free(parts);
}

// HloModuleProtoWithConfig: the module, and of its configuration the layout of the entry, which is
// the module's field 4, and the numbers of devices.
static hs_status write_proto(plug_exe *e) {
  enum { MODULE = 1, CONFIG = 2, SIGNATURE = 4, ENTRY_LAYOUT = 1, REPLICAS = 4, PARTITIONS = 5 };
  if (e->proto.n) return HS_GOOD;
  hs_buf m = {0};
  hs_status s = hlo_proto_write(&m, e->given, false);
  if (hs_ok(s)) {
    put_shardings(e, &m);
    pb_put_bytes(&e->proto, MODULE, m.p, m.n);
    hs_str layout = pb_str((pb){(const u8 *)m.p, (const u8 *)m.p + m.n, false}, SIGNATURE);
    size_t mark = pb_begin(&e->proto);
    pb_put_bytes(&e->proto, ENTRY_LAYOUT, layout.p, layout.n);
    pb_put_int(&e->proto, REPLICAS, e->replicas);
    pb_put_int(&e->proto, PARTITIONS, e->partitions);
    pb_end(&e->proto, CONFIG, mark);
  }
  hs_buf_free(&m);
  return s;
}

// Called twice: for the size, and with room for the bytes.
pj_error *plug_Executable_OptimizedProgram(pj_optimized *a) {
  static const char format[] = "hlo_with_config";
  pj_program *p = a->program;
  plug_exe *e = a->executable->e;
  if (!p || p->struct_size < PJ_SIZE(pj_program, format_n))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: no place for the program");
  pthread_mutex_lock(&e->lock);
  pj_error *bad = plug_status(write_proto(e));
  pthread_mutex_unlock(&e->lock);
  if (bad) return bad;
  p->format = format;
  p->format_n = sizeof format - 1;
  if (!p->code) p->code_n = e->proto.n;
  else if (p->code_n < e->proto.n)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: room for %zu bytes of %zu", p->code_n,
                     e->proto.n);
  else memcpy(p->code, e->proto.p, e->proto.n);
  return NULL;
}

// ---- as bytes -----------------------------------------------------------------------------------
static void drop_source(void *handle) { plug_exe_drop(handle); }

pj_error *plug_Executable_Serialize(pj_serialize *a) {
  plug_exe *e = plug_exe_share(a->executable->e);
  a->bytes = e->source.p;
  a->n = e->source.n;
  a->handle = e;
  a->free = drop_source;
  return NULL;
}

pj_error *plug_Executable_DeserializeAndLoad(pj_deserialize *a) {
  hs_str parts[5];  // options, format, module, digest, object code
  const size_t head = sizeof PLUG_SERIALIZED - 1;
  const char *p = a->bytes, *end = p ? p + a->n : NULL;
  bool ok = p && a->n >= head && !memcmp(p, PLUG_SERIALIZED, head);
  if (ok) p += head;
  for (size_t k = 0; ok && k < HS_COUNT(parts); k++) {
    u64 n = 0;
    ok = (size_t)(end - p) >= sizeof n;
    if (ok) memcpy(&n, p, sizeof n), p += sizeof n;
    ok = ok && n <= (u64)(end - p);
    if (ok) parts[k] = (hs_str){p, (size_t)n}, p += n;
  }
  if (!ok || p != end)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: the bytes are no executable of hlosh's");
  if (a->struct_size >= PJ_SIZE(pj_deserialize, options_n) && a->options && a->options_n)
    parts[0] = (hs_str){a->options, a->options_n};
  u8 digest[HS_SHA256_BYTES];
  plug_digest(parts[4], digest);
  bool whole = parts[3].n == sizeof digest && !memcmp(parts[3].p, digest, sizeof digest);
  const plug_sent sent = {.options = parts[0],
                          .format = parts[1],
                          .code = parts[2],
                          .objects = whole ? parts[4] : (hs_str){0}};
  return plug_build(a->client, &sent, false, &a->executable);
}
