// client.c — the client with its devices: HLOSH_DEVICES of them (1), all on the host, each with
// one memory.
#include "plugin/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// ---- the plug-in --------------------------------------------------------------------------------
ANSWER(Plugin_Initialize, pj_initialize, (void)a)

// The version that is asked for is the newest that this reader was tried with.
pj_error *plug_Plugin_Attributes(pj_attributes *a) {
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
  plug_handle_init(&d->h, PLUG_DEVICE);
  plug_handle_init(&d->description.h, PLUG_DESCRIPTION);
  plug_handle_init(&d->memory.h, PLUG_MEMORY);
  d->client = c;
  d->description.id = (int)k;
  snprintf(d->description.text, sizeof d->description.text, "HloshDevice(id=%u)", k);
  snprintf(d->description.debug, sizeof d->description.debug, "HLOSH_%u", k);
  c->descriptions[k] = &d->description;
  d->memory.device = d->self[0] = d;
  snprintf(d->memory.text, sizeof d->memory.text, "HLOSH_MEMORY_%u", k);
  d->memories[0] = c->memories[k] = &d->memory;
}

static pj_client *make_client(u32 n) {
  const size_t lists = sizeof(pj_device *) + sizeof(pj_memory *) + sizeof(pj_description *);
  pj_client *c = plug_handle_new(PLUG_CLIENT, sizeof *c + n * (sizeof *c->devices + lists));
  atomic_init(&c->refs, 1);
  c->n = n;
  c->devices = (pj_device *)(c + 1);
  c->list = (pj_device **)(c->devices + n);
  c->memories = (pj_memory **)(c->list + n);
  c->descriptions = (pj_description **)(c->memories + n);
  for (u32 k = 0; k < n; k++) make_device(c, k);
  plug_handle_init(&c->topology.h, PLUG_TOPOLOGY);
  c->topology.client = c;
  c->queue = plug_queue_new();
  c->memory = plug_memory_new();
  return c;
}

pj_client *plug_client_share(pj_client *c) {
  atomic_fetch_add(&c->refs, 1);
  return c;
}

void plug_client_drop(pj_client *c) {
  if (atomic_fetch_sub(&c->refs, 1) > 1) return;
  plug_queue_drop(c->queue);
  plug_memory_free(c->memory);
  plug_worker_free(c->worker);
  hs_free(c->journal);
  plug_handle_free(PLUG_CLIENT, c);
}

pj_error *plug_Client_Create(pj_client_create *a) {
  u32 n = count_devices(a);
  if (!n || n > PLUG_MOST_DEVICES)
    return plug_fail(PJ_INVALID_ARGUMENT,
                     "hlosh: the number of devices (HLOSH_DEVICES) is not from 1 to %d",
                     PLUG_MOST_DEVICES);
  plug_worker *w;
  pj_error *bad = plug_worker_new(&w);
  if (bad) return bad;
  pj_client *c = make_client(n);
  c->worker = w;
  const char *journal = getenv("HLOSH_JOURNAL");
  if (journal && *journal) c->journal = hs_strdup(journal);
  a->client = c;
  return NULL;
}

// What is under way is done first; buffers and programs that are left keep the client's memory.
pj_error *plug_Client_Destroy(pj_client_arg *a) {
  pj_client *c = a->client;
  if (!c) return NULL;
  for (u32 k = 0; k < c->n; k++) {
    plug_handle_end(&c->devices[k].h);
    plug_handle_end(&c->devices[k].description.h);
    plug_handle_end(&c->devices[k].memory.h);
  }
  plug_handle_end(&c->topology.h);
  plug_queue_close(c->queue);
  plug_handle_end(&c->h);
  plug_client_drop(c);
  return NULL;
}

// ---- answers ------------------------------------------------------------------------------------
ANSWER(Client_PlatformName, pj_client_text, SAY(PLUG_NAME))
ANSWER(Client_PlatformVersion, pj_client_text, SAY("hlosh 1, StableHLO 0.9 to 1.21"))
ANSWER(Client_ProcessIndex, pj_client_number, a->n = 0)
ANSWER(Client_Devices, pj_client_devices, (a->v = a->client->list, a->n = a->client->n))
ANSWER(Client_AddressableDevices, pj_client_devices, (a->v = a->client->list, a->n = a->client->n))
ANSWER(Client_AddressableMemories, pj_client_memories,
       (a->v = a->client->memories, a->n = a->client->n))
ANSWER(Client_TopologyDescription, pj_client_topology, a->topology = &a->client->topology)
ANSWER(TopologyDescription_PlatformName, pj_topology_text, SAY(PLUG_NAME))
ANSWER(TopologyDescription_PlatformVersion, pj_topology_text, SAY("hlosh 1"))
ANSWER(TopologyDescription_GetDeviceDescriptions, pj_topology_descriptions,
       (a->v = a->topology->client->descriptions, a->n = a->topology->client->n))
ANSWER(TopologyDescription_Attributes, pj_topology_attributes, (a->v = NULL, a->n = 0))
ANSWER(TopologyDescription_Destroy, pj_topology_arg, (void)a)  // the client's own
ANSWER(DeviceDescription_Id, pj_description_number, a->n = a->description->id)
ANSWER(DeviceDescription_ProcessIndex, pj_description_number, a->n = 0)
ANSWER(DeviceDescription_Attributes, pj_description_attributes, (a->v = NULL, a->n = 0))
ANSWER(DeviceDescription_Kind, pj_description_text, SAY("hlosh cpu"))
ANSWER(DeviceDescription_DebugString, pj_description_text, SAY(a->description->debug))
ANSWER(DeviceDescription_ToString, pj_description_text, SAY(a->description->text))
ANSWER(Device_GetDescription, pj_device_description, a->description = &a->device->description)
ANSWER(Device_IsAddressable, pj_device_flag, a->yes = true)
ANSWER(Device_LocalHardwareId, pj_device_number, a->n = a->device->description.id)
ANSWER(Device_AddressableMemories, pj_device_memories, (a->v = a->device->memories, a->n = 1))
ANSWER(Device_DefaultMemory, pj_device_memory, a->memory = &a->device->memory)
ANSWER(Memory_Id, pj_memory_number, a->n = a->memory->device->description.id)
ANSWER(Memory_Kind_Id, pj_memory_number, a->n = 0)
ANSWER(Memory_Kind, pj_memory_text, SAY(PLUG_MEMORY_KIND))
ANSWER(Memory_DebugString, pj_memory_text, SAY(a->memory->text))
ANSWER(Memory_ToString, pj_memory_text, SAY(a->memory->text))
ANSWER(Memory_AddressableByDevices, pj_memory_devices, (a->v = a->memory->device->self, a->n = 1))
ANSWER(ExecuteContext_Create, pj_context_arg,
       a->context = plug_handle_new(PLUG_CONTEXT, sizeof *a->context))
ANSWER(ExecuteContext_Destroy, pj_context_arg,
       if (a->context) plug_handle_free(PLUG_CONTEXT, a->context))

static pj_error *look_up(pj_lookup_device *a) {
  if (a->id < 0 || (u32)a->id >= a->client->n)
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: there is no device %d", a->id);
  a->device = a->client->list[a->id];
  return NULL;
}
pj_error *plug_Client_LookupDevice(pj_lookup_device *a) { return look_up(a); }
pj_error *plug_Client_LookupAddressableDevice(pj_lookup_device *a) {
  return plug_Client_LookupDevice(a);
}

// Replica by replica.
pj_error *plug_Client_DefaultDeviceAssignment(pj_default_assignment *a) {
  if (a->replicas < 1 || a->partitions < 1 ||
      (u64)a->replicas * (u64)a->partitions > HS_MIN((u64)a->client->n, (u64)a->room))
    return plug_fail(PJ_INVALID_ARGUMENT, "hlosh: %d replicas and %d partitions on %u devices",
                     a->replicas, a->partitions, a->client->n);
  for (int k = 0; k < a->replicas * a->partitions; k++) a->v[k] = k;
  return NULL;
}

// What buffers of all devices take: they share the host's memory.
pj_error *plug_Device_MemoryStats(pj_device_stats *a) {
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
