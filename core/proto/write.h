// write.h — what the files of the proto writer share (write.c, write_value.c, forms.c); private
// to core/proto.
#ifndef HLO_PROTO_WRITE_H
#define HLO_PROTO_WRITE_H

#include "core/proto/proto.h"
#include "core/proto/keep.h"

// Appends the fields of an HloModuleProto. *lost grows by the kept fields that could not be put
// back. E_ELIDED.
hs_status proto_write_module(hs_buf *, const hlo_module *, u32 *lost);
// The same as XLA's tools print it: ids count from 0, and messages that say nothing are there.
hs_status proto_write_as_tool(hs_buf *, const hlo_module *, u32 *lost);
// false when a part is elided
// The shape, of whose arrays no element is said to be narrower or wider than its type.
const hlo_shape *proto_unpacked(hlo_ctx *, const hlo_shape *);
bool proto_put_literal(hs_buf *, hlo_ctx *, u32 num, const hlo_literal *);
// the elements in the order of the layout
void proto_layout_order(const hlo_literal *, char *out);

// Values, each a field with its tag.
void proto_put_shape(hs_buf *b, u32 num, const hlo_shape *s);
void proto_put_str(hs_buf *b, u32 num, hs_str s);
void proto_put_metadata(hs_buf *b, u32 num, const hlo_metadata *d);
void proto_put_frontend(hs_buf *b, u32 num, const hlo_frontend *f);
void proto_put_sharding(hs_buf *b, u32 num, const hlo_sharding *s);
void proto_put_groups(hs_buf *b, const hlo_replica_groups *g);
void proto_put_aliases(hs_buf *b, u32 num, hlo_attr_kind kind, const hlo_aliases *l);
void proto_put_window(hs_buf *b, const hlo_window *w);
void proto_put_dim_labels(hs_buf *b, const hlo_dim_labels *d);
void proto_put_origin(hs_buf *b, const hlo_origin_node *n, i64 *path, u32 depth);
void proto_put_side(hs_buf *b, u32 num, const hlo_sparsity_side *s);

#endif
