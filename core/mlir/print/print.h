// print.h — StableHLO text out, private to core/mlir: print.c has the module, functions, regions
// and values, op.c what is particular about operations, attr.c types and attributes.
#ifndef HLO_MLIR_PRINT_H
#define HLO_MLIR_PRINT_H

#include "core/mlir/tree.h"

// How an instruction's value is named in the text: as one value, or, for a tuple that is taken
// apart, by its elements; a tuple may have both.
typedef struct print_value {
  const char *one;
  u32 n;
  const char **parts;
  bool open;  // parts are there
} print_value;

typedef struct mlir_printer {
  hs_buf *b;
  const hlo_module *m;
  hs_arena arena;
  print_value *values;     // by instruction id
  const char **functions;  // symbols by computation id; NULL: printed as a region
  u32 depth, fresh;
  hs_status err;
} mlir_printer;

// Records that the instruction (NULL: the module) has no form; always false.
bool print_fail(mlir_printer *, const hlo_instr *, const char *fmt, ...) HS_PRINTF(3, 4);
// The name of a value as one, of element k of a tuple; instructions that make them are printed
// where they are needed.
const char *print_one(mlir_printer *, const hlo_instr *);
const char *print_part(mlir_printer *, const hlo_instr *, u32 k);
void print_indent(mlir_printer *);

// ---- attr.c -------------------------------------------------------------------------------------
bool print_type(mlir_printer *, const hlo_instr *, const hlo_shape *);
bool print_literal(mlir_printer *, const hlo_instr *, const hlo_literal *);
void print_string(hs_buf *, hs_str);
void print_symbol(hs_buf *, const char *name);
void print_ints(hs_buf *, const char *before, u32 n, const i64 *v, const char *after);
// dense<[[1, 2]]> : tensor<1x2xi64> of rows of equal length
void print_rows(hs_buf *, u32 rows, u32 columns, const i64 *v);
// "name = value" of the row's attributes, joined to what the buffer holds.
bool print_row_attrs(mlir_printer *, const hlo_instr *, const mlir_row *, hs_buf *);
void print_comma(hs_buf *);
// mhlo.frontend_attributes = {..}, behind a comma where there are `any` before; nothing of none.
void print_frontend(const hlo_frontend *, bool any, hs_buf *);
// The attributes that every operation may have, {..} or nothing.
bool print_common(mlir_printer *, const hlo_instr *, hs_buf *);

// ---- op.c ---------------------------------------------------------------------------------------
// An operation in the making: its attributes and regions, operands and results.
typedef struct print_op {
  const char *name;
  hs_buf props;
  u32 noperands, nregions, nresults;
  const char **operands;
  const hlo_shape **operand_shapes, **results;
  const hlo_computation *regions[2];
  hlo_computation *const *branches;  // more regions than two
  const hlo_instr *captured;         // whose operands the regions' parameters are (a conditional)
  bool composite;                    // its attributes are the framework's
} print_op;
bool print_special(mlir_printer *, const hlo_instr *, const mlir_row *, print_op *, bool *done);

// An algorithm of dot as StableHLO spells it out.
typedef struct mlir_dot_algorithm {
  i64 hlo;
  const char *type, *sum;
  int operations;
} mlir_dot_algorithm;
extern const mlir_dot_algorithm mlir_dot_algorithms[];  // ends with type NULL

#endif
