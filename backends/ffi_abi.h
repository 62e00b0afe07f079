// ffi_abi.h — the binary interface of XLA's foreign function interface (version 0.3), as far as a
// host of custom calls needs it: a handler is a C function that takes a call frame and returns NULL
// or an error. Layouts are those of XLA's c_api.h; names are ours. Every struct starts with its
// size, so that both sides may have different versions.
#ifndef BACKEND_FFI_ABI_H
#define BACKEND_FFI_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct ffi_extension {
  size_t struct_size;
  int32_t type;
  struct ffi_extension *next;
} ffi_extension;
typedef struct ffi_version {
  size_t struct_size;
  ffi_extension *extension;
  int major, minor;
} ffi_version;
enum { FFI_MAJOR = 0, FFI_MINOR = 3 };
// A frame with this extension asks the handler about itself instead of calling it.
enum { FFI_EXTENSION_METADATA = 1 };
// Newer versions have more fields.
typedef struct ffi_metadata {
  size_t struct_size;
  ffi_version version;
  uint32_t traits;
} ffi_metadata;
typedef struct ffi_metadata_extension {
  ffi_extension base;
  ffi_metadata *metadata;
} ffi_metadata_extension;

typedef struct ffi_error ffi_error;  // opaque to handlers; made through the api
typedef struct ffi_context ffi_context;
typedef struct ffi_future ffi_future;
typedef struct ffi_api ffi_api;
typedef enum ffi_code {
  FFI_OK = 0,
  FFI_UNKNOWN = 2,
  FFI_INVALID_ARGUMENT = 3,
  FFI_NOT_FOUND = 5,
  FFI_RESOURCE_EXHAUSTED = 8,
  FFI_UNIMPLEMENTED = 12,
  FFI_INTERNAL = 13
} ffi_code;

typedef struct ffi_span {
  const char *ptr;
  size_t len;
} ffi_span;
// dtype: number of the type in xla_data.proto
typedef struct ffi_scalar {
  int32_t dtype;
  void *value;
} ffi_scalar;
typedef struct ffi_array {
  int32_t dtype;
  size_t size;
  void *data;
} ffi_array;
typedef struct ffi_buffer {
  size_t struct_size;
  ffi_extension *extension;
  int32_t dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} ffi_buffer;
enum { FFI_KIND_BUFFER = 1 };  // the one kind of argument and result
enum { FFI_ATTR_ARRAY = 1, FFI_ATTR_DICTIONARY = 2, FFI_ATTR_SCALAR = 3, FFI_ATTR_STRING = 4 };
enum { FFI_STAGE_INSTANTIATE, FFI_STAGE_PREPARE, FFI_STAGE_INITIALIZE, FFI_STAGE_EXECUTE };

typedef struct ffi_values {
  size_t struct_size;
  ffi_extension *extension;
  int64_t size;
  int32_t *types;
  void **values;
} ffi_values;
typedef struct ffi_attrs {
  size_t struct_size;
  ffi_extension *extension;
  int64_t size;
  int32_t *types;
  ffi_span **names;
  void **attrs;
} ffi_attrs;

typedef struct ffi_frame {
  size_t struct_size;
  ffi_extension *extension;
  const ffi_api *api;
  ffi_context *ctx;
  int32_t stage;
  ffi_values args, rets;
  ffi_attrs attrs;
  // out: the handler goes on in the background until this is complete
  ffi_future *future;
} ffi_frame;
typedef ffi_error *ffi_handler(ffi_frame *);

// Arguments of the api's functions, one struct each.
typedef struct ffi_type_id {
  int64_t id;
} ffi_type_id;
typedef struct ffi_error_create {
  size_t struct_size;
  ffi_extension *extension;
  const char *message;
  int32_t code;
} ffi_error_create;
typedef struct ffi_error_message {
  size_t struct_size;
  ffi_extension *extension;
  ffi_error *error;
  const char *message;
} ffi_error_message;
typedef struct ffi_error_destroy {
  size_t struct_size;
  ffi_extension *extension;
  ffi_error *error;
} ffi_error_destroy;
typedef struct ffi_bundle {
  ffi_handler *instantiate, *prepare, *initialize, *execute;
} ffi_bundle;
typedef struct ffi_handler_register {
  size_t struct_size;
  ffi_extension *extension;
  ffi_span name, platform;
  ffi_bundle bundle;
  uint32_t traits;
} ffi_handler_register;
typedef struct ffi_type_register {
  size_t struct_size;
  ffi_extension *extension;
  ffi_span name;
  ffi_type_id *id;
  const void *info;
} ffi_type_register;
typedef struct ffi_context_get {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  ffi_type_id *id;
  void *data;
} ffi_context_get;
typedef struct ffi_state {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  int32_t stage;
  ffi_type_id *id;
  void *state;
} ffi_state;
typedef struct ffi_stream_get {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  void *stream;
} ffi_stream_get;
typedef struct ffi_allocate {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  size_t size, alignment;
  void *data;
} ffi_allocate;
typedef struct ffi_free {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  size_t size;
  void *data;
} ffi_free;
typedef struct ffi_schedule {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  void (*task)(void *);
  void *data;
} ffi_schedule;
typedef struct ffi_num_threads {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  int64_t *n;
} ffi_num_threads;
typedef struct ffi_future_create {
  size_t struct_size;
  ffi_extension *extension;
  ffi_future *future;
} ffi_future_create;
typedef struct ffi_future_done {
  size_t struct_size;
  ffi_extension *extension;
  ffi_future *future;
  ffi_error *error;
} ffi_future_done;
typedef struct ffi_run_id {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  int64_t id;
} ffi_run_id;
typedef struct ffi_ordinal {
  size_t struct_size;
  ffi_extension *extension;
  ffi_context *ctx;
  int32_t ordinal;
} ffi_ordinal;

struct ffi_api {
  size_t struct_size;
  ffi_extension *extension;
  ffi_version version;
  const void *internal;
  ffi_error *(*error_create)(ffi_error_create *);
  void (*error_message)(ffi_error_message *);
  void (*error_destroy)(ffi_error_destroy *);
  ffi_error *(*handler_register)(ffi_handler_register *);
  ffi_error *(*stream_get)(ffi_stream_get *);
  ffi_error *(*type_register)(ffi_type_register *);
  ffi_error *(*context_get)(ffi_context_get *);
  ffi_error *(*state_set)(ffi_state *);
  ffi_error *(*state_get)(ffi_state *);
  ffi_error *(*allocate)(ffi_allocate *);
  ffi_error *(*free)(ffi_free *);
  ffi_error *(*schedule)(ffi_schedule *);
  ffi_error *(*num_threads)(ffi_num_threads *);
  ffi_error *(*future_create)(ffi_future_create *);
  ffi_error *(*future_available)(ffi_future_done *);
  ffi_error *(*future_error)(ffi_future_done *);
  ffi_error *(*run_id)(ffi_run_id *);
  ffi_error *(*ordinal)(ffi_ordinal *);
};

#endif
