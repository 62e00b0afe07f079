// query.c — what is asked about programs, and programs as bytes. A serialized program is what was
// sent to be compiled, and is compiled again when it is read: code is not kept, since it is made
// for the machine at hand.
#include "plugin/plugin.h"

#include "core/analysis/cost.h"
#include "core/proto/proto.h"
#include "core/proto/wire.h"
#include "core/proto/write.h"

// ---- loaded programs ----------------------------------------------------------------------------
pj_error *plug_LoadedExecutable_Destroy(void *args) {
  pj_loaded_arg *a = args;
  PLUG_CHECK(a, executable);
  if (!a->executable) return NULL;
  plug_executable_drop(a->executable->e);
  hs_free(a->executable->devices);
  hs_free(a->executable);
  return NULL;
}
pj_error *plug_LoadedExecutable_GetExecutable(void *args) {
  pj_get_executable *a = args;
  PLUG_CHECK(a, executable);
  a->executable = a->loaded->e;
  atomic_fetch_add(&a->executable->refs, 1);
  return NULL;
}
pj_error *plug_LoadedExecutable_AddressableDevices(void *args) {
  pj_loaded_devices *a = args;
  PLUG_CHECK(a, n);
  a->v = a->executable->devices;
  a->n = plug_ndevices(a->executable->e);
  return NULL;
}
pj_error *plug_LoadedExecutable_Delete(void *args) {
  pj_loaded_arg *a = args;
  PLUG_CHECK(a, executable);
  atomic_store(&a->executable->deleted, true);
  return NULL;
}
pj_error *plug_LoadedExecutable_IsDeleted(void *args) {
  pj_loaded_flag *a = args;
  PLUG_CHECK(a, yes);
  a->yes = atomic_load(&a->executable->deleted);
  return NULL;
}
pj_error *plug_LoadedExecutable_Fingerprint(void *args) {
  pj_loaded_text *a = args;
  PLUG_CHECK(a, n);
  a->text = a->executable->e->fingerprint;
  a->n = strlen(a->text);
  return NULL;
}

static void nothing(void *handle) { (void)handle; }

// DeviceAssignmentProto: a column a partition, its rows the replicas.
pj_error *plug_LoadedExecutable_GetDeviceAssignment(void *args) {
  pj_assignment *a = args;
  PLUG_CHECK(a, free);
  pj_executable *e = a->executable->e;
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
pj_error *plug_Executable_Destroy(void *args) {
  pj_executable_arg *a = args;
  PLUG_CHECK(a, executable);
  plug_executable_drop(a->executable);
  return NULL;
}
static pj_error *say(pj_executable_text *a, const char *text) {
  a->text = text;
  a->n = strlen(text);
  return NULL;
}
pj_error *plug_Executable_Name(void *args) {
  pj_executable_text *a = args;
  PLUG_CHECK(a, n);
  return say(a, a->executable->given->name);
}
pj_error *plug_Executable_Fingerprint(void *args) {
  pj_executable_text *a = args;
  PLUG_CHECK(a, n);
  return say(a, a->executable->fingerprint);
}
pj_error *plug_Executable_NumReplicas(void *args) {
  pj_executable_size *a = args;
  PLUG_CHECK(a, n);
  a->n = a->executable->replicas;
  return NULL;
}
pj_error *plug_Executable_NumPartitions(void *args) {
  pj_executable_size *a = args;
  PLUG_CHECK(a, n);
  a->n = a->executable->partitions;
  return NULL;
}
pj_error *plug_Executable_NumOutputs(void *args) {
  pj_executable_size *a = args;
  PLUG_CHECK(a, n);
  a->n = a->executable->nouts;
  return NULL;
}
pj_error *plug_Executable_SizeOfGeneratedCodeInBytes(void *args) {
  pj_executable_size *a = args;
  PLUG_CHECK(a, n);
  a->n = 0;  // not known
  return NULL;
}

pj_error *plug_Executable_OutputElementTypes(void *args) {
  pj_output_types *a = args;
  PLUG_CHECK(a, n);
  pj_executable *e = a->executable;
  pthread_mutex_lock(&e->lock);
  if (!e->out_types) {
    e->out_types = hs_calloc(e->nouts + 1, sizeof *e->out_types);
    for (u32 k = 0; k < e->nouts; k++) e->out_types[k] = pj_type((int)e->outs[k].shape->dtype);
  }
  a->v = e->out_types;
  a->n = e->nouts;
  pthread_mutex_unlock(&e->lock);
  return NULL;
}

// The sizes are those of one device's part.
pj_error *plug_Executable_OutputDimensions(void *args) {
  pj_output_dims *a = args;
  PLUG_CHECK(a, ranks);
  pj_executable *e = a->executable;
  pthread_mutex_lock(&e->lock);
  if (!e->out_ranks) {
    e->out_ranks = hs_calloc(e->nouts + 1, sizeof *e->out_ranks);
    e->out_dims = hs_calloc((size_t)e->nouts * HLO_MAX_RANK + 1, sizeof *e->out_dims);
    for (u32 k = 0, at = 0; k < e->nouts; k++) {
      const hlo_shape *s = e->outs[k].tiles.part;
      e->out_ranks[k] = s->rank;
      for (u32 d = 0; d < s->rank; d++) e->out_dims[at++] = s->dims[d];
    }
  }
  a->n = e->nouts;
  a->ranks = e->out_ranks;
  a->dims = e->out_dims;
  pthread_mutex_unlock(&e->lock);
  return NULL;
}

pj_error *plug_Executable_OutputMemoryKinds(void *args) {
  pj_memory_kinds *a = args;
  PLUG_CHECK(a, sizes);
  pj_executable *e = a->executable;
  pthread_mutex_lock(&e->lock);
  if (!e->kinds) {
    e->kinds = hs_calloc(e->nouts + 1, sizeof *e->kinds);
    e->kind_sizes = hs_calloc(e->nouts + 1, sizeof *e->kind_sizes);
    for (u32 k = 0; k < e->nouts; k++) {
      e->kinds[k] = PLUG_MEMORY_KIND;
      e->kind_sizes[k] = sizeof PLUG_MEMORY_KIND - 1;
    }
  }
  a->n = e->nouts;
  a->kinds = e->kinds;
  a->sizes = e->kind_sizes;
  pthread_mutex_unlock(&e->lock);
  return NULL;
}

static pj_named cost(const char *name, double v) {
  return (pj_named){.struct_size = PJ_SIZE(pj_named, n),
                    .name = name,
                    .name_n = strlen(name),
                    .type = PJ_FLOAT,
                    .v.f = (float)v,
                    .n = 1};
}

// Of the module as it was sent, as XLA counts.
pj_error *plug_Executable_GetCostAnalysis(void *args) {
  pj_cost *a = args;
  PLUG_CHECK(a, v);
  pj_executable *e = a->executable;
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

pj_error *plug_Executable_GetCompiledMemoryStats(void *args) {
  pj_memory_stats *a = args;
  PLUG_CHECK(a, temp);
  pj_executable *e = a->executable;
  static const backend_compiled none = {0};
  const backend_compiled *f = e->program ? cpu_local_figures(e->program) : &none;
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
static void put_shardings(const pj_executable *e, hs_buf *m) {
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
static hs_status write_proto(pj_executable *e) {
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
pj_error *plug_Executable_OptimizedProgram(void *args) {
  static const char format[] = "hlo_with_config";
  pj_optimized *a = args;
  PLUG_CHECK(a, program);
  pj_executable *e = a->executable;
  pthread_mutex_lock(&e->lock);
  pj_error *bad = plug_status(write_proto(e));
  if (!bad) {
    a->program->format = format;
    a->program->format_n = sizeof format - 1;
    if (!a->program->code) a->program->code_n = e->proto.n;
    else if (a->program->code_n < e->proto.n)
      bad = plug_fail(PJ_INVALID_ARGUMENT, "hlosh: room for %zu bytes of %zu", a->program->code_n,
                      e->proto.n);
    else memcpy(a->program->code, e->proto.p, e->proto.n);
  }
  pthread_mutex_unlock(&e->lock);
  return bad;
}

// ---- as bytes -----------------------------------------------------------------------------------
static void drop_source(void *handle) { plug_executable_drop(handle); }

pj_error *plug_Executable_Serialize(void *args) {
  pj_serialize *a = args;
  PLUG_CHECK(a, free);
  atomic_fetch_add(&a->executable->refs, 1);
  a->bytes = a->executable->source.p;
  a->n = a->executable->source.n;
  a->handle = a->executable;
  a->free = drop_source;
  return NULL;
}

pj_error *plug_Executable_DeserializeAndLoad(void *args) {
  pj_deserialize *a = args;
  PLUG_CHECK(a, executable);
  hs_str parts[3];
  const size_t head = sizeof PLUG_SERIALIZED - 1;
  const char *p = a->bytes, *end = a->bytes + a->n;
  bool ok = a->n >= head && !memcmp(p, PLUG_SERIALIZED, head);
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
  return plug_build(a->client, parts[2], parts[1], parts[0], false, &a->executable);
}
