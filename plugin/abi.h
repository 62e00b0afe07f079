// abi.h — arguments of the functions that only a plug-in answers; the others are in
// backends/pjrt/api.h. Facts of the same binary interface, version 0.81.
#ifndef PLUGIN_ABI_H
#define PLUGIN_ABI_H

#include "backends/pjrt/api.h"

typedef struct pj_description pj_description;
typedef struct pj_context pj_context;

// ---- events -------------------------------------------------------------------------------------
typedef struct pj_event_ready {
  PJ_HEAD;
  pj_event *event;
  bool ready;
} pj_event_ready;
typedef struct pj_event_on_ready {
  PJ_HEAD;
  pj_event *event;
  void (*call)(pj_error *take, void *arg);
  void *arg;
} pj_event_on_ready;

// ---- client, devices, memories ------------------------------------------------------------------
typedef struct pj_client_number {
  PJ_HEAD;
  pj_client *client;
  int n;
} pj_client_number;
typedef struct pj_lookup_device {
  PJ_HEAD;
  pj_client *client;
  int id;
  pj_device *device;
} pj_lookup_device;
typedef struct pj_client_memories {
  PJ_HEAD;
  pj_client *client;
  pj_memory *const *v;
  size_t n;
} pj_client_memories;
typedef struct pj_client_topology {
  PJ_HEAD;
  pj_client *client;
  pj_topology *topology;
} pj_client_topology;
typedef struct pj_default_assignment {
  PJ_HEAD;
  pj_client *client;
  int replicas, partitions;
  size_t room;
  int *v;
} pj_default_assignment;
typedef struct pj_description_number {
  PJ_HEAD;
  pj_description *description;
  int n;
} pj_description_number;
typedef struct pj_description_text {
  PJ_HEAD;
  pj_description *description;
  const char *text;
  size_t n;
} pj_description_text;
typedef struct pj_description_attributes {
  PJ_HEAD;
  pj_description *description;
  size_t n;
  const pj_named *v;
} pj_description_attributes;
typedef struct pj_device_description {
  PJ_HEAD;
  pj_device *device;
  pj_description *description;
} pj_device_description;
typedef struct pj_device_flag {
  PJ_HEAD;
  pj_device *device;
  bool yes;
} pj_device_flag;
typedef struct pj_device_number {
  PJ_HEAD;
  pj_device *device;
  int n;
} pj_device_number;
typedef struct pj_device_memories {
  PJ_HEAD;
  pj_device *device;
  pj_memory *const *v;
  size_t n;
} pj_device_memories;
typedef struct pj_device_memory {
  PJ_HEAD;
  pj_device *device;
  pj_memory *memory;
} pj_device_memory;
typedef struct pj_counted {
  i64 n;
  bool set;
} pj_counted;
typedef struct pj_device_stats {
  PJ_HEAD;
  pj_device *device;
  i64 in_use;
  pj_counted peak, allocations, largest, limit, reserved, peak_reserved, reservable, largest_free,
      pool, peak_pool;
} pj_device_stats;
typedef struct pj_memory_number {
  PJ_HEAD;
  pj_memory *memory;
  int n;
} pj_memory_number;
typedef struct pj_memory_text {
  PJ_HEAD;
  pj_memory *memory;
  const char *text;
  size_t n;
} pj_memory_text;
typedef struct pj_memory_devices {
  PJ_HEAD;
  pj_memory *memory;
  pj_device *const *v;
  size_t n;
} pj_memory_devices;
typedef struct pj_topology_attributes {
  PJ_HEAD;
  pj_topology *topology;
  const pj_named *v;
  size_t n;
} pj_topology_attributes;
typedef struct pj_topology_descriptions {
  PJ_HEAD;
  pj_topology *topology;
  pj_description *const *v;
  size_t n;
} pj_topology_descriptions;

// ---- executables --------------------------------------------------------------------------------
typedef struct pj_memory_kinds {
  PJ_HEAD;
  pj_executable *executable;
  size_t n;
  const char *const *kinds;
  const size_t *sizes;
} pj_memory_kinds;
typedef struct pj_loaded_flag {
  PJ_HEAD;
  pj_loaded *executable;
  bool yes;
} pj_loaded_flag;
typedef struct pj_loaded_text {
  PJ_HEAD;
  pj_loaded *executable;
  const char *text;
  size_t n;
} pj_loaded_text;
// GetDeviceAssignment; `free` gets `handle`
typedef struct pj_assignment {
  PJ_HEAD;
  pj_loaded *executable;
  const char *bytes;
  size_t n;
  void *handle;
  void (*free)(void *handle);
} pj_assignment;
typedef struct pj_deserialize {
  PJ_HEAD;
  pj_client *client;
  const char *bytes;
  size_t n;
  pj_loaded *executable;
  const char *options;
  size_t options_n;
} pj_deserialize;
typedef struct pj_context_arg {
  PJ_HEAD;
  pj_context *context;
} pj_context_arg;

// ---- buffers ------------------------------------------------------------------------------------
typedef struct pj_buffer_number {
  PJ_HEAD;
  pj_buffer *buffer;
  int n;
} pj_buffer_number;
typedef struct pj_buffer_size {
  PJ_HEAD;
  pj_buffer *buffer;
  size_t n;
} pj_buffer_size;
typedef struct pj_buffer_dims {
  PJ_HEAD;
  pj_buffer *buffer;
  const i64 *v;
  size_t n;
} pj_buffer_dims;
typedef struct pj_buffer_dynamic {
  PJ_HEAD;
  pj_buffer *buffer;
  const size_t *v;
  size_t n;
} pj_buffer_dynamic;
typedef struct pj_buffer_layout {
  PJ_HEAD;
  pj_buffer *buffer;
  pj_layout layout;
} pj_buffer_layout;
typedef struct pj_buffer_device {
  PJ_HEAD;
  pj_buffer *buffer;
  pj_device *device;
} pj_buffer_device;
typedef struct pj_buffer_memory {
  PJ_HEAD;
  pj_buffer *buffer;
  pj_memory *memory;
} pj_buffer_memory;
typedef struct pj_buffer_flag {
  PJ_HEAD;
  pj_buffer *buffer;
  bool yes;
} pj_buffer_flag;
typedef struct pj_buffer_event {
  PJ_HEAD;
  pj_buffer *buffer;
  pj_event *event;
} pj_buffer_event;
typedef struct pj_buffer_pointer {
  PJ_HEAD;
  pj_buffer *buffer;
  void *p;
} pj_buffer_pointer;
// CopyToDevice, CopyToMemory
typedef struct pj_copy_to_device {
  PJ_HEAD;
  pj_buffer *buffer;
  pj_device *device;
  pj_buffer *out;
} pj_copy_to_device;
typedef struct pj_copy_to_memory {
  PJ_HEAD;
  pj_buffer *buffer;
  pj_memory *memory;
  pj_buffer *out;
} pj_copy_to_memory;
typedef struct pj_copy_raw {
  PJ_HEAD;
  pj_buffer *buffer;
  void *dst;
  i64 offset, n;
  pj_event *event;
} pj_copy_raw;
// CreateViewOfDeviceBuffer: memory of others, given back through a callback
typedef struct pj_view {
  PJ_HEAD;
  pj_client *client;
  void *p;
  const i64 *dims;
  size_t rank;
  int type;
  pj_layout *layout;
  pj_device *device;
  void (*gone)(void *p, void *arg);
  void *gone_arg;
  intptr_t stream;
  pj_buffer *buffer;
  pj_memory *memory;
} pj_view;

// ---- extension: layouts -------------------------------------------------------------------------
typedef struct pj_memory_layout pj_memory_layout;
// parameter_layouts came with version 0.93: a caller sees by the size that it is there.
typedef struct pj_ext_layouts {
  pj_extension base;
  void *destroy, *serialize, *client_default, *buffer_layout, *topology_default, *output_layouts,
      *parameter_layouts;
} pj_ext_layouts;
typedef struct pj_layout_arg {
  PJ_HEAD;
  pj_memory_layout *layout;
} pj_layout_arg;
typedef struct pj_layout_serialize {
  PJ_HEAD;
  pj_memory_layout *layout;
  const char *bytes;
  size_t n;
  void *handle;
  void (*free)(void *handle);
} pj_layout_serialize;
typedef struct pj_layout_default {
  PJ_HEAD;
  const void *of;  // a client, or a topology
  int type;
  const i64 *dims;
  size_t rank;
  pj_memory_layout *layout;
} pj_layout_default;
typedef struct pj_layout_of_buffer {
  PJ_HEAD;
  pj_buffer *buffer;
  pj_memory_layout *layout;
} pj_layout_of_buffer;
typedef struct pj_layouts_of_executable {
  PJ_HEAD;
  pj_executable *executable;
  size_t n;
  pj_memory_layout **v;
} pj_layouts_of_executable;

// ---- extension: profiler ------------------------------------------------------------------------
// A table of its own, whose arguments have no extension pointer; those of its errors have one word
// there, so that they are pj_error_destroy and its kin.
enum { PJ_EXT_PROFILER = 1 };
typedef struct pj_profiler pj_profiler;
typedef struct pj_profiler_api {
  size_t struct_size;
  void *priv;
  void *error_destroy, *error_message, *error_code, *create, *destroy, *start, *stop, *collect;
} pj_profiler_api;
typedef struct pj_ext_profiler {
  pj_extension base;
  pj_profiler_api *api;
  i64 context;
} pj_ext_profiler;
typedef struct pj_profiler_create {
  size_t struct_size;
  const char *options;
  size_t options_n;
  pj_profiler *profiler;
} pj_profiler_create;
typedef struct pj_profiler_arg {
  size_t struct_size;
  pj_profiler *profiler;
} pj_profiler_arg;
typedef struct pj_profiler_collect {
  size_t struct_size;
  pj_profiler *profiler;
  u8 *buffer;
  size_t n;
} pj_profiler_collect;

#endif
