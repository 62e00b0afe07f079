// read.h — what the files of the proto reader share (read.c, value.c, forms.c, snapshot.c,
// recovery.c); private to core/proto.
#ifndef HLO_PROTO_READ_H
#define HLO_PROTO_READ_H

#include "core/proto/proto.h"
#include "core/proto/fields.h"
#include "core/proto/wire.h"

#include <stdlib.h>

typedef struct proto_reader {
  hlo_ctx *ctx;
  hlo_module *m;
  hs_arena *arena;
  bool failed;
  u32 depth;     // of a module in the recovery table of another
  hs_code code;  // of the failure; 0: HS_E_PROTO
  hs_buf message;
  HS_VEC(i64) ints;  // scratch of proto_ints
} proto_reader;

void proto_error(proto_reader *, const char *fmt, ...) HS_PRINTF(2, 3);  // the first one stays
hlo_ints proto_ints(proto_reader *, pb m, u32 num);
hs_str proto_str(proto_reader *, pb m, u32 num);
// one that is used as a C string: without NUL bytes
hs_str proto_name(proto_reader *, pb m, u32 num);
const hlo_shape *proto_shape(proto_reader *, pb m);
hlo_literal *proto_literal(proto_reader *, pb m);  // NULL after an error
// elements in the order of the layout; no more than fit
void proto_fill(hlo_literal *, pb bytes);
const hlo_metadata *proto_metadata(proto_reader *, pb m);
const hlo_frontend *proto_frontend(proto_reader *, pb m);
const hlo_sharding *proto_sharding(proto_reader *, pb m);
const hlo_replica_groups *proto_groups(proto_reader *, pb instr);
const hlo_origin *proto_origin(proto_reader *, pb m, const hlo_shape *);
const hlo_window *proto_window(proto_reader *, pb m);
const hlo_dim_labels *proto_dim_labels(proto_reader *, pb m);
// The module in an HloModuleProto; fields that it does not represent are kept with it.
hs_status proto_read_module(hlo_ctx *, pb m, const char *file, hlo_module **out);
hs_status proto_read_nested(hlo_ctx *, pb m, u32 depth, hlo_module **out);
// The message of a file: its bytes, or what a delimited snapshot or an unusual encoding stands for,
// which is made in *made.
// root: PB_HloProto and so on; left_out: fields of a wrong wire type
typedef struct proto_plain_form {
  pb m;
  u32 root;
  bool delimited;
  u32 left_out;
} proto_plain_form;
hs_status proto_plain(hlo_ctx *, const void *p, size_t n, const char *file, hs_buf *made,
                      proto_plain_form *out);
// Which message the bytes are (PB_HloProto and so on), by where an opcode stands in them; 0: none.
u32 hlo_proto_root(pb m);
const hlo_aliases *proto_aliases(proto_reader *, pb m, u32 num, hlo_attr_kind);

#endif
