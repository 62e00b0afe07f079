// api.h — the PJRT C API, as far as hlosh uses it: the facts of a binary interface, declared by
// us, so that nothing of a plug-in is needed to build.
//
// Every call takes one struct whose first field is its own size. The size says which version of the
// struct the caller knows: up to and with its last field, without tail padding (PJ_SIZE). A plug-in
// accepts longer structs than it knows and answers an error to shorter ones than it needs. Handles
// are opaque; every call but three returns NULL or an error to be destroyed. Layouts are those of
// version 0.81; tests/unit/backends/pjrt.c holds the sizes.
#ifndef PJRT_API_H
#define PJRT_API_H

#include "core/base/base.h"

#define PJ_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

typedef struct pj_extension {
  size_t struct_size;
  int type;
  struct pj_extension *next;
} pj_extension;
enum { PJ_EXT_LAYOUTS = 4, PJ_EXT_FFI = 5, PJ_EXT_XLA_TRANSFORM = 24, PJ_EXT_COUNT = 25 };

// FFI: handlers of custom calls (backends/ffi_abi.h). Its last function is called with the struct
// below, which has no extension pointer; `platform` is XLA's name of it: Host, CUDA.
typedef struct pj_ext_ffi {
  pj_extension base;
  void *type_register, *user_data_add, *register_handler;
} pj_ext_ffi;
typedef struct pj_register_handler {
  size_t struct_size;
  const char *target;
  size_t target_n;
  void *handler;
  const char *platform;
  size_t platform_n;
  int traits;
} pj_register_handler;

typedef struct pj_version {
  size_t struct_size;
  pj_extension *ext;
  int major, minor;
} pj_version;

typedef enum pj_fn {
#define FN(name) PJ_##name,
#include "backends/pjrt/functions.def"
#undef FN
  PJ_FN_COUNT
} pj_fn;

// The table itself. Only the functions below PJ_FN_COUNT have names; a newer plug-in has more.
typedef struct pj_api {
  size_t struct_size;
  pj_extension *ext;
  pj_version version;
  void *fn[PJ_FN_COUNT];
} pj_api;
_Static_assert(offsetof(pj_api, fn) == 40, "the table starts at byte 40");

typedef struct pj_error pj_error;
typedef struct pj_event pj_event;
typedef struct pj_client pj_client;
typedef struct pj_device pj_device;
typedef struct pj_memory pj_memory;
typedef struct pj_topology pj_topology;
typedef struct pj_executable pj_executable;
typedef struct pj_loaded pj_loaded;
typedef struct pj_buffer pj_buffer;
typedef pj_error *pj_call(void *args);

#define PJ_HEAD       \
  size_t struct_size; \
  pj_extension *ext
#define PJ_ARGS(type, last, ...) \
  (type) { .struct_size = PJ_SIZE(type, last), __VA_ARGS__ }

// ---- errors and events --------------------------------------------------------------------------
typedef struct pj_error_destroy {
  PJ_HEAD;
  pj_error *error;
} pj_error_destroy;
typedef struct pj_error_message {
  PJ_HEAD;
  const pj_error *error;
  const char *text;
  size_t n;
} pj_error_message;
typedef struct pj_error_code {
  PJ_HEAD;
  const pj_error *error;
  int code;
} pj_error_code;
enum {
  PJ_UNKNOWN = 2,
  PJ_INVALID_ARGUMENT = 3,
  PJ_NOT_FOUND = 5,
  PJ_RESOURCE_EXHAUSTED = 8,
  PJ_FAILED_PRECONDITION = 9,
  PJ_UNIMPLEMENTED = 12,
  PJ_INTERNAL = 13
};
// Destroy, Await, Error
typedef struct pj_event_arg {
  PJ_HEAD;
  pj_event *event;
} pj_event_arg;

// ---- plug-in and client -------------------------------------------------------------------------
enum { PJ_STRING, PJ_INT64, PJ_INT64_LIST, PJ_FLOAT, PJ_BOOL };
typedef struct pj_named {
  PJ_HEAD;
  const char *name;
  size_t name_n;
  int type;
  union {
    const char *s;
    i64 i;
    const i64 *list;
    float f;
    bool b;
  } v;
  // characters, elements, or 1
  size_t n;
} pj_named;
typedef struct pj_initialize {
  PJ_HEAD;
} pj_initialize;
typedef struct pj_attributes {
  PJ_HEAD;
  const pj_named *v;
  size_t n;
} pj_attributes;
typedef struct pj_client_create {
  PJ_HEAD;
  const pj_named *options;
  size_t noptions;
  void *kv_get, *kv_get_arg, *kv_put, *kv_put_arg;
  pj_client *client;
  void *kv_try_get, *kv_try_get_arg;
} pj_client_create;
typedef struct pj_client_arg {
  PJ_HEAD;
  pj_client *client;
} pj_client_arg;
// PlatformName, PlatformVersion
typedef struct pj_client_text {
  PJ_HEAD;
  pj_client *client;
  const char *text;
  size_t n;
} pj_client_text;
// Devices, AddressableDevices
typedef struct pj_client_devices {
  PJ_HEAD;
  pj_client *client;
  pj_device *const *v;
  size_t n;
} pj_client_devices;

// ---- compiling ----------------------------------------------------------------------------------
typedef struct pj_program {
  PJ_HEAD;
  char *code;
  size_t code_n;
  const char *format;
  size_t format_n;
} pj_program;
typedef struct pj_client_compile {
  PJ_HEAD;
  pj_client *client;
  const pj_program *program;
  const char *options;
  size_t options_n;
  pj_loaded *executable;
} pj_client_compile;
typedef struct pj_topology_create {
  PJ_HEAD;
  const char *name;
  size_t name_n;
  const pj_named *options;
  size_t noptions;
  pj_topology *topology;
} pj_topology_create;
typedef struct pj_topology_arg {
  PJ_HEAD;
  pj_topology *topology;
} pj_topology_arg;
// PlatformName
typedef struct pj_topology_text {
  PJ_HEAD;
  pj_topology *topology;
  const char *text;
  size_t n;
} pj_topology_text;
typedef struct pj_compile {  // without a device
  PJ_HEAD;
  const pj_topology *topology;
  const pj_program *program;
  const char *options;
  size_t options_n;
  pj_client *client;
  pj_executable *executable;
} pj_compile;

// ---- executables --------------------------------------------------------------------------------
typedef struct pj_loaded_arg {
  PJ_HEAD;
  pj_loaded *executable;
} pj_loaded_arg;
typedef struct pj_executable_arg {
  PJ_HEAD;
  pj_executable *executable;
} pj_executable_arg;
typedef struct pj_get_executable {
  PJ_HEAD;
  pj_loaded *loaded;
  pj_executable *executable;
} pj_get_executable;
typedef struct pj_loaded_devices {
  PJ_HEAD;
  pj_loaded *executable;
  pj_device *const *v;
  size_t n;
} pj_loaded_devices;
// NumOutputs, NumReplicas, ...
typedef struct pj_executable_size {
  PJ_HEAD;
  pj_executable *executable;
  size_t n;
} pj_executable_size;
// Name, Fingerprint
typedef struct pj_executable_text {
  PJ_HEAD;
  pj_executable *executable;
  const char *text;
  size_t n;
} pj_executable_text;
typedef struct pj_optimized {
  PJ_HEAD;
  pj_executable *executable;
  pj_program *program;
} pj_optimized;
typedef struct pj_serialize {
  PJ_HEAD;
  pj_executable *executable;
  const char *bytes;
  size_t n;
  void *handle;
  void (*free)(void *handle);
} pj_serialize;
typedef struct pj_cost {
  PJ_HEAD;
  pj_executable *executable;
  size_t n;
  const pj_named *v;
} pj_cost;
typedef struct pj_memory_stats {
  PJ_HEAD;
  pj_executable *executable;
  i64 code, arguments, outputs, alias, temp, host_code, host_arguments, host_outputs, host_alias,
      host_temp, peak;
} pj_memory_stats;
typedef struct pj_output_types {
  PJ_HEAD;
  pj_executable *executable;
  int *v;
  size_t n;
} pj_output_types;
typedef struct pj_output_dims {
  PJ_HEAD;
  pj_executable *executable;
  size_t n;
  const i64 *dims;
  const size_t *ranks;
} pj_output_dims;

// ---- buffers and running ------------------------------------------------------------------------
typedef struct pj_tiled {
  PJ_HEAD;
  const i64 *minor_to_major;
  size_t n;
  const i64 *tile_dims;
  const size_t *tile_ranks;
  size_t ntiles;
} pj_tiled;
typedef struct pj_layout {
  PJ_HEAD;
  pj_tiled tiled;
  int type;
} pj_layout;  // type 0: tiled
enum { PJ_COPY_DURING_CALL, PJ_COPY_BEFORE_DONE, PJ_IMMUTABLE_ZERO_COPY, PJ_MUTABLE_ZERO_COPY };
typedef struct pj_from_host {
  PJ_HEAD;
  pj_client *client;
  const void *data;
  int type;
  const i64 *dims;
  size_t rank;
  // none: dense, row-major
  const i64 *byte_strides;
  size_t nstrides;
  int semantics;
  pj_device *device;
  pj_memory *memory;
  pj_layout *device_layout;
  pj_event *done;
  pj_buffer *buffer;
} pj_from_host;
typedef struct pj_buffer_arg {
  PJ_HEAD;
  pj_buffer *buffer;
} pj_buffer_arg;
typedef struct pj_to_host {
  PJ_HEAD;
  pj_buffer *src;
  pj_layout *layout;
  void *dst;
  size_t n;
  pj_event *event;
} pj_to_host;
typedef struct pj_execute_options {
  PJ_HEAD;
  void *send, *recv;
  size_t nsend, nrecv;
  int launch_id;
  // arguments that must not be donated
  const i64 *keep;
  size_t nkeep;
  void *context;
  const char *call_location;
  size_t ntasks;
  int *task_ids;
  i64 *incarnations;
} pj_execute_options;
typedef struct pj_execute {
  PJ_HEAD;
  pj_loaded *executable;
  pj_execute_options *options;
  pj_buffer *const *const *arguments;  // [device][argument]
  size_t ndevices, nargs;
  // [device][output], filled
  pj_buffer **const *outputs;
  pj_event **done;  // [device], filled
  pj_device *device;
} pj_execute;

// The entry point's type: `const pj_api *GetPjrtApi(void)`.
typedef const pj_api *pj_get_api(void);

// Element types by hlo_dtype; 0: the API has none.
int pj_type(int hlo_dtype);

#endif
