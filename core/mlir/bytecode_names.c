// bytecode_names.c — the types and enumerations of bytecode.def: by their numbers, as the reader
// has them, and by their text, as the writer of artifacts does.
#include "core/mlir/bytecode.h"

#define BUILTIN "builtin"
#define VHLO "vhlo"
#define SDY "sdy"
static const bc_type_row types[] = {
#define BC_TYPE(dialect, number, kind, text) {dialect, number, BC_##kind, text},
#include "core/mlir/bytecode.def"
#undef BC_TYPE
};

// The attributes that have a mnemonic are the enumerations.
static const struct {
  u32 number;
  const char *mnemonic;
} enums[] = {
#define BC_ATTR(dialect, number, kind, text) {number, text},
#include "core/mlir/bytecode.def"
#undef BC_ATTR
};

static const struct {
  u32 number, value;
  const char *text;
} values[] = {
#define BC_ENUM(number, value, text) {number, value, text},
#include "core/mlir/bytecode.def"
#undef BC_ENUM
};

const bc_type_row *bc_type_numbered(hs_str dialect, u64 number) {
  for (size_t k = 0; k < HS_COUNT(types); k++)
    if (types[k].number == number && hs_str_eq(dialect, hs_str_of(types[k].dialect)))
      return &types[k];
  return NULL;
}

const bc_type_row *bc_type_named(hs_str dialect, hs_str text) {
  for (size_t k = 0; k < HS_COUNT(types); k++)
    if (types[k].kind == BC_WORD && hs_str_eq(text, hs_str_of(types[k].text)) &&
        hs_str_eq(dialect, hs_str_of(types[k].dialect)))
      return &types[k];
  return NULL;
}

const char *bc_enum_text(u32 number, u64 value) {
  for (size_t k = 0; k < HS_COUNT(values); k++)
    if (values[k].number == number && values[k].value == value) return values[k].text;
  return NULL;
}

bool bc_enum_named(hs_str mnemonic, hs_str text, u32 *number, u32 *value) {
  for (size_t k = 0; k < HS_COUNT(enums); k++) {
    if (!mnemonic.n || !hs_str_eq(mnemonic, hs_str_of(enums[k].mnemonic))) continue;
    *number = enums[k].number;
    for (size_t j = 0; j < HS_COUNT(values); j++)
      if (values[j].number == *number && hs_str_eq(text, hs_str_of(values[j].text)))
        return *value = values[j].value, true;
  }
  return false;
}
