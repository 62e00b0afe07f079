// schema.c — the tables behind schema.h, made from schema.def and config.def, and lookups in
// them.
#include "core/proto/schema.h"

// Enums and their values, in the manner of the rows: a header, then its values.
enum {
#define MESSAGE(id)
#define ENUM(id) PE_##id,
#define VALUE(id, text, number)
#define ONE(m, name, num, type, use)
#define MANY(m, name, num, type, use)
#define CHOICE(m, name, num, id, use)
#define CHOICES(m, name, num, id, use)
#define SUB(m, name, num, sub, use)
#define MESSAGES(m, name, num, sub, use)
#include "core/proto/config.def"
#include "core/proto/schema.def"
#undef ENUM
#undef VALUE
  PE_COUNT
};

static const struct {
  u16 id;
  const char *text;
  int number;
} values[] = {
#define ENUM(id)
#define VALUE(id, text, number) {PE_##id, text, number},
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
};

const pb_row pb_rows[PB_ROW_COUNT + 1] = {
    {0},  // PB_NO_MESSAGE
#define MESSAGE(id) {.name = #id},
#define ENUM(id)
#define VALUE(id, text, number)
#define ONE(m, name, num, type, use) {name, num, PB_##type, 0, PB_##use, 0},
#define MANY(m, name, num, type, use) {name, num, PB_##type, 1, PB_##use, 0},
#define CHOICE(m, name, num, id, use) {name, num, PB_ENUM, 0, PB_##use, PE_##id},
#define CHOICES(m, name, num, id, use) {name, num, PB_ENUM, 1, PB_##use, PE_##id},
#define SUB(m, name, num, sub, use) {name, num, PB_MESSAGE, 0, PB_##use, PB_##sub},
#define MESSAGES(m, name, num, sub, use) {name, num, PB_MESSAGE, 1, PB_##use, PB_##sub},
#include "core/proto/config.def"
#include "core/proto/schema.def"
};

const pb_row *pb_row_by_number(u32 message, u32 num) {
  if (!message) return NULL;
  for (const pb_row *r = &pb_rows[message + 1]; r->num; r++)
    if (r->num == num) return r;
  return NULL;
}

const pb_row *pb_row_by_name(u32 message, hs_str name) {
  if (!message) return NULL;
  for (const pb_row *r = &pb_rows[message + 1]; r->num; r++)
    if (strncmp(r->name, name.p, name.n) == 0 && !r->name[name.n]) return r;
  return NULL;
}

const char *pb_enum_text(u32 id, i64 number) {
  for (size_t k = 0; k < HS_COUNT(values); k++)
    if (values[k].id == id && values[k].number == number) return values[k].text;
  return NULL;
}

bool pb_enum_number(u32 id, hs_str text, i64 *out) {
  for (size_t k = 0; k < HS_COUNT(values); k++)
    if (values[k].id == id && strncmp(values[k].text, text.p, text.n) == 0 &&
        !values[k].text[text.n])
      return *out = values[k].number, true;
  return false;
}

u32 pb_wire_of(const pb_row *r) {
  switch ((pb_type)r->type) {
  case PB_F32: return 5;
  case PB_F64: return 1;
  case PB_STR:
  case PB_BYTES:
  case PB_MESSAGE: return 2;
  default: return 0;
  }
}
