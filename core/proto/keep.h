// keep.h — fields of a proto that the module does not represent: unknown ones, and known ones
// without a meaning here (KEEP in schema.def), kept as bytes and written back where they were.
// Private to core/proto; hlo_module_clone
// copies them through hlo_module.copy_kept.
#ifndef HLO_PROTO_KEEP_H
#define HLO_PROTO_KEEP_H

#include "core/ir/ir.h"
#include "core/proto/wire.h"

// Kept fields of a message: whole fields with their tags, and those inside the nth submessage of a
// number.
typedef struct pb_kept pb_kept;
// raw or sub
typedef struct pb_kept_entry {
  u32 num, nth;
  hs_str raw;
  const pb_kept *sub;
} pb_kept_entry;
struct pb_kept {
  u32 n;
  const pb_kept_entry *v;
};

typedef struct hlo_kept_part {
  i64 id;
  u32 comp, opcode;
  const hlo_shape *shape;
  const pb_kept *fields;
} hlo_kept_part;
typedef struct hlo_proto_kept {
  // the message of the file: PB_HloModuleProto, PB_HloProto, ...
  u32 root;
  bool delimited;  // snapshot with its arguments behind it
  u64 generation;  // of the module when it was read
  // the root message, the HloProto in a snapshot, the module itself
  const pb_kept *wrapper, *hlo, *module;
  u32 ncomps, ninstrs;
  const hlo_kept_part *comps, *instrs;  // by id; id -1: not of the file
} hlo_proto_kept;

// NULL when the message holds nothing to keep. OWN fields are left out.
const pb_kept *pb_keep(hs_arena *, pb m, u32 message);
// Puts kept fields into the message that was written to b since mark. Returns how many could not be
// put back, since the message around them is gone.
u32 pb_restore(hs_buf *b, size_t mark, u32 message, const pb_kept *);
// The same without one field of the top level.
const pb_kept *pb_kept_without(hs_arena *, const pb_kept *, u32 num);
bool pb_kept_has(const pb_kept *, u32 num);
// For a copy of a module: instrs and comps give the copies by the ids of the original.
void hlo_proto_kept_copy(hlo_module *to, const hlo_module *from, hlo_instr *const *instrs,
                         hlo_computation *const *comps);

#endif
