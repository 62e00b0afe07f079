// bytecode.h — MLIR bytecode: portable artifacts of StableHLO as operations of the same tree that
// the text gives (tree.h). Private to core/mlir.
//
// A file is sections: strings, dialects with the names of their operations, attributes and types
// with their offsets, the operations, resources, properties. Numbers are varints: the zeros at the
// low end of the first byte count the bytes that follow. Nothing is copied but what becomes text:
// an attribute's value is written as the text would have it when an operation has it (the rules of
// conversion read text), bytes of constants stay where they lie and are named (mlir_reader.blobs).
//
// Every read is checked against the end of its section, every index against its table, and what
// counts say against the bytes that are left; the text that attributes become is limited by the
// size of the file. Positions of errors are bytes.
//
//   bytecode.c       sections and tables
//   bytecode_type.c  the numbers of bytecode.def; types to text, and to shapes
//   bytecode_attr.c  attributes to text
//   bytecode_ir.c    operations to the tree
#ifndef HLO_MLIR_BYTECODE_H
#define HLO_MLIR_BYTECODE_H

#include "core/mlir/tree.h"

// A cursor: reading moves p, never past end.
typedef struct bc_at {
  const char *p, *end;
} bc_at;

// An attribute or a type of the table, read when it is asked for.
typedef struct bc_entry {
  bc_at at;
  u32 dialect;
  bool custom;       // encoded by its dialect; else its text, with a NUL
  bool busy;         // being read: an entry that holds itself is an error
  bool done;         // type, or text of an attribute, is there
  mlir_typed typed;  // of a type
  mlir_span text;    // of an attribute
  mlir_span loc;     // of an attribute that is a location
} bc_entry;

typedef struct bc_name {
  hs_str name;  // without its dialect
  u32 dialect;
  bool registered;
} bc_name;

typedef struct mlir_bc {
  mlir_reader *R;
  bc_at file;
  u64 version;
  hs_str producer;
  u32 nstrings, ndialects, nnames, nattrs, ntypes, nprops;
  hs_str *strings, *dialects;
  bc_name *names;
  bc_entry *attrs, *types;
  bc_at *props;
  HS_VEC(hs_str) handles;       // names of the dialects' resources
  HS_VEC(mlir_value *) values;  // of the scope being read, by number; NULL: not yet defined
  size_t scope;                 // where the scope's values begin
  size_t written, budget;       // bytes of text that attributes became, and may become
  u32 nblobs;
} mlir_bc;

// ---- bytecode.c ---------------------------------------------------------------------------------
// Records an error at a position; always false.
bool bc_bad(mlir_bc *, const char *at, const char *fmt, ...) HS_PRINTF(3, 4);
bool bc_varint(mlir_bc *, bc_at *, u64 *out);
bool bc_signed(mlir_bc *, bc_at *, i64 *out);  // zigzag
bool bc_byte(mlir_bc *, bc_at *, u8 *out);
bool bc_bytes(mlir_bc *, bc_at *, u64 n, bc_at *out);
// A number of things of which each takes a byte at least.
bool bc_count(mlir_bc *, bc_at *, u32 *out);
// An index of a table of n entries; `what` is named in the error.
bool bc_index(mlir_bc *, bc_at *, u32 n, const char *what, u32 *out);
bool bc_string(mlir_bc *, bc_at *, hs_str *out);
bool bc_section(mlir_bc *, bc_at *, u8 *id, bc_at *out);
enum { BC_SECTION_IR = 4 };

// ---- bytecode_type.c ----------------------------------------------------------------------------
typedef enum bc_kind {
  BC_WORD,
  BC_INTEGER,
  BC_FUNCTION,
  BC_COMPLEX,
  BC_TENSOR,
  BC_ENCODED,
  BC_TUPLE,
  BC_UNRANKED,
  BC_QUANTIZED,
  BC_PER_AXIS,
  BC_BUFFER,
  BC_FUTURE,
} bc_kind;
typedef struct bc_type_row {
  const char *dialect;
  u32 number;
  bc_kind kind;
  const char *text;  // of a WORD
} bc_type_row;
// Of types without parameters; NULL: there is none.
const bc_type_row *bc_type_named(hs_str dialect, hs_str text);
// The value of an enumeration of vhlo, by the attribute's number; NULL. And the way back:
// "comparison_direction" and "EQ" to both numbers; false.
const char *bc_enum_text(u32 number, u64 value);
bool bc_enum_named(hs_str mnemonic, hs_str text, u32 *number, u32 *value);
bool bc_type(mlir_bc *, u32 index, mlir_typed *out);
// The results of a function type, appended.
bool bc_function_results(mlir_bc *, u32 type, mlir_types *results);

// ---- bytecode_attr.c ----------------------------------------------------------------------------
// How lists of integers are written.
typedef enum bc_style {
  BC_ATTR,    // array<i64: 1, 2>, dense<..> : type
  BC_STRUCT,  // [1, 2]: inside a struct
  BC_VALUE,   // of a constant: the bytes get a name
} bc_style;
bool bc_attr_text(mlir_bc *, u32 index, bc_style, mlir_span *out);
bool bc_loc(mlir_bc *, u32 index, mlir_span *out);
// A string's bytes, an integer, the integers of a tensor (*n of them, in the reader's arena).
bool bc_attr_string(mlir_bc *, u32 index, hs_str *out);
bool bc_attr_int(mlir_bc *, u32 index, i64 *out);
bool bc_attr_ints(mlir_bc *, u32 index, u32 *n, i64 **out);
// The index of a type attribute's type.
bool bc_attr_type(mlir_bc *, u32 index, u32 *out);
// The elements of a list, the pairs of a dictionary; in the reader's arena.
typedef struct bc_pair {
  hs_str name;
  u32 value;  // index of the attribute
} bc_pair;
bool bc_attr_list(mlir_bc *, u32 index, u32 *n, u32 **out);
bool bc_attr_dict(mlir_bc *, u32 index, u32 *n, bc_pair **out);

// ---- bytecode_ir.c ------------------------------------------------------------------------------
bool bc_read_ir(mlir_bc *, bc_at section);

#endif
