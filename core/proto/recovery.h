// recovery.h — origin_recovery_table between its text and its message. Private to proto*.c.
#ifndef HLO_PROTO_RECOVERY_H
#define HLO_PROTO_RECOVERY_H

#include "core/proto/read.h"

// The text of an OriginalValueRecoveryTableProto, in the reader's arena.
hs_str proto_recovery_text(proto_reader *, pb table);
// Appends the table as field num; false, and nothing, when the text is not of the form that XLA
// prints.
typedef hs_status proto_module_writer(hs_buf *, const hlo_module *, u32 *lost);
bool proto_put_recovery(hs_buf *, u32 num, hlo_ctx *, hs_str text, proto_module_writer *);

#endif
