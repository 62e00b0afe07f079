// proto.h — HLO as protocol buffers, binary and text: HloModuleProto, and what wraps it:
// HloProto, HloSnapshot, HloUnoptimizedSnapshot (its delimited form too) and
// HloModuleProtoWithConfig.
//
// Fields that the IR does not represent (unknown ones, a buffer assignment, a snapshot's arguments,
// the rest of a config) stay with the module as bytes and are written back. Fields of an
// instruction are dropped with it when a pass replaces it.
#ifndef HLO_PROTO_H
#define HLO_PROTO_H

#include "core/ir/ir.h"

typedef enum hlo_proto_form {
  HLO_PROTO_AS_READ,
  HLO_PROTO_MODULE,
  HLO_PROTO_HLO,
  HLO_PROTO_SNAPSHOT,
  HLO_PROTO_UNOPTIMIZED,
  HLO_PROTO_WITH_CONFIG,
  HLO_PROTO_OF_TOOL  // an HloProto as hlo-opt --emit-proto prints it: ids from 0, empty messages
} hlo_proto_form;

// Whether the bytes look like a serialized module, alone or wrapped.
bool hlo_is_proto(const void *p, size_t n);
// Whether the text looks like the text form of one.
bool hlo_is_proto_text(const char *p, size_t n);
// Read either. E_PROTO when they are damaged, E_LIMIT when they are nested too deeply. `file` is
// for messages.
hs_status hlo_proto_read(hlo_ctx *, const void *p, size_t n, const char *file, hlo_module **out);
hs_status hlo_proto_read_text(hlo_ctx *, const char *p, size_t n, const char *file,
                              hlo_module **out);
// Appends a serialized HloModuleProto; as_hlo_proto wraps it in an HloProto (what dumps hold).
// E_ELIDED when a constant has no value.
hs_status hlo_proto_write(hs_buf *, const hlo_module *, bool as_hlo_proto);
// Appends an HloSnapshot: the module, its n arguments, its result (NULL: none) and the platform
// that they are of. E_ELIDED as of hlo_proto_write, or when a value is elided.
hs_status hlo_proto_write_snapshot(hs_buf *, const hlo_module *, u32 n, hlo_literal *const *args,
                                   const hlo_literal *result, const char *platform);
// Appends the module with all that was kept, in the form it was read from (HloProto when it was not
// read from one). *lost receives how many of the kept fields could not be put back; a buffer
// assignment is left out when the module was changed. The text form, as protobuf has it, writes
// every NaN as nan: payloads and signs of NaN live in the binary form only.
hs_status hlo_proto_save(hs_buf *, const hlo_module *, hlo_proto_form, bool text, u32 *lost);
// The arguments that an HloSnapshot or HloUnoptimizedSnapshot carries (of the latter: those of one
// partition). *out is an array of *count references, freed by the caller; *count 0 when the proto
// is no snapshot or has no arguments. *result (may be NULL) is the recorded result, a new
// reference, or NULL.
hs_status hlo_proto_read_arguments(hlo_ctx *, const void *p, size_t n, const char *file,
                                   u32 partition, hlo_literal ***out, u32 *count,
                                   hlo_literal **result);
// The sharding of a partitioned module's results (spmd_output_sharding of an HloModuleProto), in
// the arena; NULL when the field is absent.
hs_status hlo_proto_output_sharding(const void *p, size_t n, hs_arena *, const hlo_sharding **out);

#endif
