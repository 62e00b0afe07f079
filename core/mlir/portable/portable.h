// portable.h — a module as a portable artifact: MLIR bytecode of VHLO, the versioned dialect.
// Private to core/mlir.
//
// What is written is the tree (tree.h) of the module's StableHLO text, so that text and artifact
// are one module by construction. vhlo.def says which operations a version has, which attributes
// they have one by one, and what absent ones stand for; bytecode.def has the numbers of attributes
// and types. Entries of every table are kept once and numbered as they are first needed, parts
// before what holds them.
//
//   file.c  numbers, tables and sections
//   attr.c  types and attributes
//   op.c    operations, functions, the module
#ifndef HLO_MLIR_PORTABLE_H
#define HLO_MLIR_PORTABLE_H

#include "core/mlir/tree.h"

enum { MP_BUILTIN, MP_VHLO, MP_DIALECTS };

typedef struct mlir_portable {
  mlir_reader *R;
  u32 version;   // of StableHLO, 100 times the first number and the second
  u32 bytecode;  // of MLIR's bytecode
  // Tables: an entry's number is its place. Of attributes and types the key is the dialect's number
  // and the encoding, of operations the dialect's number and the name.
  mlir_names strings, attrs, types, ops, props;
  HS_VEC(mlir_op *) chlo;  // operations that become composites, one per signature
  hs_status err;
} mlir_portable;

// ---- file.c -------------------------------------------------------------------------------------
// Records what cannot be written, E_NO_STABLEHLO; always false.
bool mp_fail(mlir_portable *, const char *fmt, ...) HS_PRINTF(2, 3);
void mp_varint(hs_buf *, u64);
void mp_signed(hs_buf *, i64);  // zigzag
u32 mp_string(mlir_portable *, hs_str);
// The number of an entry that is those bytes; the buffer is empty again.
u32 mp_entry(mlir_portable *, mlir_names *, u32 dialect, hs_buf *);
u32 mp_props(mlir_portable *, hs_buf *);

// ---- attr.c -------------------------------------------------------------------------------------
// The entry of a type, of an attribute's value, as the text has them.
bool mp_type(mlir_portable *, mlir_span text, u32 *out);
bool mp_function_type(mlir_portable *, u32 nin, const mlir_span *in, u32 nout,
                      const mlir_span *results, u32 *out);
bool mp_attr(mlir_portable *, mlir_span text, u32 *out);
u32 mp_string_attr(mlir_portable *, hs_str);
// A list of attributes; of integers, as the tensor that VHLO has for it.
u32 mp_list(mlir_portable *, u32 n, const u32 *);
u32 mp_ints(mlir_portable *, u32 rank, const i64 *dims, const i64 *);
u32 mp_falses(mlir_portable *, u32 n);  // as many truth values
bool mp_dict(mlir_portable *, const mlir_attrs *, u32 *out);
// MLIR's own: a string, an integer of 32 bits, a dictionary.
u32 mp_own_string(mlir_portable *, hs_str);
u32 mp_own_int(mlir_portable *, i64);
typedef struct mp_named {
  hs_str name;
  u32 value;
} mp_named;
u32 mp_own_dict(mlir_portable *, u32 n, const mp_named *);
bool mp_location(mlir_portable *, mlir_span, u32 *out);

// ---- op.c ---------------------------------------------------------------------------------------
bool mp_module(mlir_portable *, hs_buf *ir);

#endif
