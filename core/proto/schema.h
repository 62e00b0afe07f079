// schema.h — what the messages around HloModuleProto look like: field numbers, names and
// types, from schema.def and config.def. The text form and the keeping of unknown
// fields go by it, and what looks into XLA's options.
//
// A message is named by the index of its header among the rows (PB_HloModuleProto); its fields
// follow the header.
#ifndef HLO_PROTO_SCHEMA_H
#define HLO_PROTO_SCHEMA_H

#include "core/proto/wire.h"

typedef enum pb_type {
  PB_I64,
  PB_U64,
  PB_I32,
  PB_U32,
  PB_BOOL,
  PB_F32,
  PB_F64,
  PB_STR,
  PB_BYTES,
  PB_ENUM,
  PB_MESSAGE
} pb_type;
typedef enum pb_use { PB_IR, PB_KEEP, PB_OWN } pb_use;
// num 0: a header, or the end
typedef struct pb_row {
  const char *name;
  u32 num;
  u8 type, many, use;
  u16 sub;
} pb_row;

enum {
  PB_NO_MESSAGE,
#define MESSAGE(id) PB_##id,
#define ENUM(id)
#define VALUE(id, text, number)
#define ONE(m, name, num, type, use) PB_##m##_##num,
#define MANY(m, name, num, type, use) PB_##m##_##num,
#define CHOICE(m, name, num, id, use) PB_##m##_##num,
#define CHOICES(m, name, num, id, use) PB_##m##_##num,
#define SUB(m, name, num, sub, use) PB_##m##_##num,
#define MESSAGES(m, name, num, sub, use) PB_##m##_##num,
#include "core/proto/config.def"
#include "core/proto/schema.def"
#undef MESSAGE
#undef ENUM
#undef VALUE
#undef ONE
#undef MANY
#undef CHOICE
#undef CHOICES
#undef SUB
#undef MESSAGES
  PB_ROW_COUNT
};

extern const pb_row pb_rows[PB_ROW_COUNT + 1];
const pb_row *pb_row_by_number(u32 message, u32 num);  // NULL when the message has none
const pb_row *pb_row_by_name(u32 message, hs_str name);
const char *pb_enum_text(u32 id, i64 number);  // NULL when unknown; id is a row's sub
bool pb_enum_number(u32 id, hs_str text, i64 *out);
// wire type of one value that is not packed
u32 pb_wire_of(const pb_row *);
// conform.c: has every field the wire type that the schema gives it, and every single field
// no more than one value?
bool pb_row_takes(const pb_row *, u32 wire);
bool pb_conforms(pb m, u32 message, u32 depth);
// makes it so; how many fields of other wire types were left out
u32 pb_conform(hs_buf *out, pb m, u32 message);

#endif
