// client.c — errors, events, and the client with its devices: HLOSH_DEVICES of them (1), all on
// the host, each with one memory.
#include "plugin/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// ---- errors -------------------------------------------------------------------------------------
pj_error *plug_fail(int code, const char *fmt, ...) {
  pj_error *e = hs_calloc(1, sizeof *e);
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  e->code = code;
  e->text = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
  return e;
}

static int code_of(hs_code c) {
  switch (c) {
  case HS_E_UNSUPPORTED:
  case HS_E_NO_HLO:
  case HS_E_NOT_BUILT: return PJ_UNIMPLEMENTED;
  case HS_E_NO_MEMORY:
  case HS_E_LIMIT: return PJ_RESOURCE_EXHAUSTED;
  case HS_E_INTERNAL:
  case HS_E_RUN: return PJ_INTERNAL;
  default: return PJ_INVALID_ARGUMENT;
  }
}

pj_error *plug_status(hs_status s) {
  if (hs_ok(s)) return NULL;
  hs_buf b = {0};
  hs_status_render(s, &b, false);
  while (b.n && b.p[b.n - 1] == '\n') b.n--;
  pj_error *e = plug_fail(code_of(s.err->code), "hlosh: %s", hs_buf_cstr(&b));
  hs_buf_free(&b);
  hs_status_drop(s);
  return e;
}

pj_error *plug_check_size_(const char *name, size_t got, size_t want) {
  return plug_fail(PJ_INVALID_ARGUMENT,
                   "%s: the arguments have %zu bytes, %zu are needed (API version %d.%d)", name,
                   got, want, PLUG_API_MAJOR, PLUG_API_MINOR);
}

// The three functions of errors give no error of their own.
pj_error *plug_Error_Destroy(void *args) {
  pj_error_destroy *a = args;
  if (a->error) hs_free(a->error->text);
  hs_free(a->error);
  return NULL;
}
pj_error *plug_Error_Message(void *args) {
  pj_error_message *a = args;
  a->text = a->error->text;
  a->n = strlen(a->text);
  return NULL;
}
pj_error *plug_Error_GetCode(void *args) {
  pj_error_code *a = args;
  PLUG_CHECK(a, code);
  a->code = a->error->code;
  return NULL;
}

// ---- events -------------------------------------------------------------------------------------
pj_event *plug_event(void) { return hs_calloc(1, sizeof(pj_event)); }

pj_error *plug_Event_Destroy(void *args) {
  pj_event_arg *a = args;
  PLUG_CHECK(a, event);
  hs_free(a->event);
  return NULL;
}
pj_error *plug_Event_IsReady(void *args) {
  pj_event_ready *a = args;
  PLUG_CHECK(a, ready);
  a->ready = true;
  return NULL;
}
pj_error *plug_Event_Error(void *args) { return (void)args, NULL; }
pj_error *plug_Event_Await(void *args) { return (void)args, NULL; }
pj_error *plug_Event_OnReady(void *args) {
  pj_event_on_ready *a = args;
  PLUG_CHECK(a, arg);
  a->call(NULL, a->arg);
  return NULL;
}

// ---- the plug-in --------------------------------------------------------------------------------
pj_error *plug_Plugin_Initialize(void *args) { return (void)args, NULL; }

// The version that is asked for is the newest that this reader was tried with.
pj_error *plug_Plugin_Attributes(void *args) {
  static const i64 current[] = {1, 13, 0}, minimum[] = {0, 9, 0};
  static const pj_named list[] = {
      {.struct_size = PJ_SIZE(pj_named, n),
       .name = "xla_version",
       .name_n = 11,
       .type = PJ_INT64,
       .v.i = 2,
       .n = 1},
      {.struct_size = PJ_SIZE(pj_named, n),
       .name = "stablehlo_current_version",
       .name_n = 25,
       .type = PJ_INT64_LIST,
       .v.list = current,
       .n = 3},
      {.struct_size = PJ_SIZE(pj_named, n),
       .name = "stablehlo_minimum_version",
       .name_n = 25,
       .type = PJ_INT64_LIST,
       .v.list = minimum,
       .n = 3},
  };
  pj_attributes *a = args;
  PLUG_CHECK(a, n);
  a->v = list;
  a->n = HS_COUNT(list);
  return NULL;
}

// ---- the client ---------------------------------------------------------------------------------
// Number of devices: the option `devices`, else HLOSH_DEVICES, else one. 0: not a number.
static u32 count_devices(const pj_client_create *a) {
  const char *text = getenv("HLOSH_DEVICES");
  for (size_t k = 0; k < a->noptions; k++) {
    const pj_named *o = &a->options[k];
    if (o->name_n != 7 || memcmp(o->name, "devices", 7) != 0) continue;
    if (o->type == PJ_INT64) return o->v.i > 0 ? (u32)HS_MIN(o->v.i, UINT32_MAX) : 0;
    if (o->type == PJ_STRING) text = o->v.s;
  }
  if (!text || !*text) return 1;
  char *end;
  errno = 0;
  unsigned long n = strtoul(text, &end, 10);
  return *end || errno || n > UINT32_MAX ? 0 : (u32)n;
}

static void make_device(pj_client *c, u32 k) {
  pj_device *d = c->list[k] = &c->devices[k];
  d->client = c;
  d->description.id = (int)k;
  snprintf(d->description.text, sizeof d->description.text, "HloshDevice(id=%u)", k);
  snprintf(d->description.debug, sizeof d->description.debug, "HLOSH_%u", k);
  d->described = c->descriptions[k] = &d->description;
  d->memory.device = d->self[0] = d;
  snprintf(d->memory.text, sizeof d->memory.text, "HLOSH_MEMORY_%u", k);
  d->memories[0] = c->memories[k] = &d->memory;
}

pj_error *plug_Client_Create(void *args) {
  pj_client_create *a = args;
  PLUG_CHECK(a, client);
  u32 n = count_devices(a);
  if (!n || n > PLUG_MOST_DEVICES)
    return plug_fail(PJ_INVALID_ARGUMENT,
                     "hlosh: the number of devices (HLOSH_DEVICES) is not from 1 to %d",
                     PLUG_MOST_DEVICES);
  pj_client *c = hs_calloc(1, sizeof *c);
  c->n = n;
  c->devices = hs_calloc(n, sizeof *c->devices);
  c->list = hs_calloc(n, sizeof *c->list);
  c->memories = hs_calloc(n, sizeof *c->memories);
  c->descriptions = hs_calloc(n, sizeof *c->descriptions);
  for (u32 k = 0; k < n; k++) make_device(c, k);
  c->topology.client = c;
  const char *journal = getenv("HLOSH_JOURNAL");
  if (journal && *journal) c->journal = hs_strdup(journal);
  a->client = c;
  return NULL;
}

pj_error *plug_Client_Destroy(void *args) {
  pj_client_arg *a = args;
  PLUG_CHECK(a, client);
  pj_client *c = a->client;
  if (!c) return NULL;
  hs_free(c->devices);
  hs_free(c->list);
  hs_free(c->memories);
  hs_free(c->descriptions);
  hs_free(c->journal);
  hs_free(c);
  return NULL;
}

// ---- answers ------------------------------------------------------------------------------------
// ANSWER(function, type of its arguments, last field, what it sets)
#define ANSWER(name, type, last, set) \
  pj_error *plug_##name(void *args) { \
    type *a = args;                   \
    PLUG_CHECK(a, last);              \
    set;                              \
    return NULL;                      \
  }
#define SAY(s) a->text = (s), a->n = strlen(a->text)

ANSWER(Client_PlatformName, pj_client_text, n, SAY(PLUG_NAME))
ANSWER(Client_PlatformVersion, pj_client_text, n, SAY("hlosh 1, StableHLO 0.9 to 1.21"))
ANSWER(Client_ProcessIndex, pj_client_number, n, a->n = 0)
ANSWER(Client_Devices, pj_client_devices, n, (a->v = a->client->list, a->n = a->client->n))
ANSWER(Client_AddressableDevices, pj_client_devices, n,
       (a->v = a->client->list, a->n = a->client->n))
ANSWER(Client_AddressableMemories, pj_client_memories, n,
       (a->v = a->client->memories, a->n = a->client->n))
ANSWER(Client_TopologyDescription, pj_client_topology, topology, a->topology = &a->client->topology)
ANSWER(TopologyDescription_PlatformName, pj_topology_text, n, SAY(PLUG_NAME))
ANSWER(TopologyDescription_PlatformVersion, pj_topology_text, n, SAY("hlosh 1"))
ANSWER(TopologyDescription_GetDeviceDescriptions, pj_topology_descriptions, n,
       (a->v = a->topology->client->descriptions, a->n = a->topology->client->n))
ANSWER(TopologyDescription_Attributes, pj_topology_attributes, n, (a->v = NULL, a->n = 0))
ANSWER(TopologyDescription_Destroy, pj_topology_arg, topology, (void)a)  // the client's own
ANSWER(DeviceDescription_Id, pj_description_number, n, a->n = a->description->id)
ANSWER(DeviceDescription_ProcessIndex, pj_description_number, n, a->n = 0)
ANSWER(DeviceDescription_Attributes, pj_description_attributes, v, (a->v = NULL, a->n = 0))
ANSWER(DeviceDescription_Kind, pj_description_text, n, SAY("hlosh cpu"))
ANSWER(DeviceDescription_DebugString, pj_description_text, n, SAY(a->description->debug))
ANSWER(DeviceDescription_ToString, pj_description_text, n, SAY(a->description->text))
ANSWER(Device_GetDescription, pj_device_description, description,
       a->description = &a->device->description)
ANSWER(Device_IsAddressable, pj_device_flag, yes, a->yes = true)
ANSWER(Device_LocalHardwareId, pj_device_number, n, a->n = a->device->description.id)
ANSWER(Device_AddressableMemories, pj_device_memories, n, (a->v = a->device->memories, a->n = 1))
ANSWER(Device_DefaultMemory, pj_device_memory, memory, a->memory = &a->device->memory)
ANSWER(Memory_Id, pj_memory_number, n, a->n = a->memory->device->description.id)
ANSWER(Memory_Kind_Id, pj_memory_number, n, a->n = 0)
ANSWER(Memory_Kind, pj_memory_text, n, SAY(PLUG_MEMORY_KIND))
ANSWER(Memory_DebugString, pj_memory_text, n, SAY(a->memory->text))
ANSWER(Memory_ToString, pj_memory_text, n, SAY(a->memory->text))
ANSWER(Memory_AddressableByDevices, pj_memory_devices, n,
       (a->v = a->memory->device->self, a->n = 1))
ANSWER(ExecuteContext_Create, pj_context_arg, context, a->context = hs_calloc(1, 1))
ANSWER(ExecuteContext_Destroy, pj_context_arg, context, hs_free(a->context))

static pj_error *look_up(pj_lookup_device *a) {
  if (a->id < 0 || (u32)a->id >= a->client->n)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: there is no device %d", a->id);
  a->device = a->client->list[a->id];
  return NULL;
}
pj_error *plug_Client_LookupDevice(void *args) {
  pj_lookup_device *a = args;
  PLUG_CHECK(a, device);
  return look_up(a);
}
pj_error *plug_Client_LookupAddressableDevice(void *args) { return plug_Client_LookupDevice(args); }

// Replica by replica.
pj_error *plug_Client_DefaultDeviceAssignment(void *args) {
  pj_default_assignment *a = args;
  PLUG_CHECK(a, v);
  if (a->replicas < 1 || a->partitions < 1 ||
      (u64)a->replicas * (u64)a->partitions > HS_MIN((u64)a->client->n, (u64)a->room))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: %d replicas and %d partitions on %u devices",
                     a->replicas, a->partitions, a->client->n);
  for (int k = 0; k < a->replicas * a->partitions; k++) a->v[k] = k;
  return NULL;
}

// What buffers of all devices take: they share the host's memory.
pj_error *plug_Device_MemoryStats(void *args) {
  pj_device_stats *a = args;
  PLUG_CHECK(a, peak_pool.set);
  pj_client *c = a->device->client;
  pj_counted none = {0, false};
  a->in_use = atomic_load(&c->bytes);
  a->peak = (pj_counted){atomic_load(&c->peak), true};
  a->allocations = (pj_counted){atomic_load(&c->allocations), true};
  i64 pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  a->limit = (pj_counted){pages * size, pages > 0 && size > 0};
  a->largest = a->reserved = a->peak_reserved = a->reservable = none;
  a->largest_free = a->pool = a->peak_pool = none;
  return NULL;
}
