// sweep.h — every operation on every element type at its edge values: the modules that the driver
// `sweep` runs. A block is a set of cases over the same parameters; a case is one instruction, or a
// few, with one result. Cases of a block run together in one module, or each in its own.
#ifndef TESTS_HARNESS_SWEEP_H
#define TESTS_HARNESS_SWEEP_H

#include "core/types/literal.h"

// How much two right results may differ: not at all (any NaN is a NaN), or by so many units in the
// last place of the result, or of the larger part of a complex one. SWEEP_ZEROS: +0 and -0 are one.
typedef struct sweep_tolerance {
  double ulps;
  bool zeros;
} sweep_tolerance;

typedef struct sweep_case {
  char *name;  // "add", "convert/s4", "splat/divide/x,c/inf"; the type is the block's
  // computations and instructions as text; "@" stands for a prefix that is the case's own, the
  // instruction "@" is the result
  char *helpers, *body;
  sweep_tolerance tol;
} sweep_case;

typedef struct sweep_param {
  const char *name;
  hlo_literal *value;
} sweep_param;

typedef struct sweep_block {
  hlo_ctx *ctx;
  hlo_dtype type;
  HS_VEC(sweep_param) params;
  HS_VEC(sweep_case) cases;
} sweep_block;

// The kinds of blocks; each type has one of each kind.
#define SWEEP_KINDS(X)                                           \
  X(SWEEP_EW, "ew", "elementwise, on values and pairs")          \
  X(SWEEP_CONVERT, "convert", "to every type, and bits to bits") \
  X(SWEEP_SPLAT, "splat", "with a constant, and with itself")    \
  X(SWEEP_SHAPED, "shaped", "on arrays: reductions to sorts")    \
  X(SWEEP_MIXED, "mixed", "results of another precision")        \
  X(SWEEP_CHAIN, "chain", "two conversions, two unary operations")
#define X(id, name, what) id,
typedef enum sweep_kind { SWEEP_KINDS(X) SWEEP_KIND_COUNT } sweep_kind;
#undef X
extern const char *const sweep_kind_names[SWEEP_KIND_COUNT];

// full: all patterns of 8 and 16 bits, more random values and more constants.
void sweep_make(hlo_ctx *, sweep_kind, hlo_dtype, bool full, sweep_block *out);
void sweep_free(sweep_block *);
// The module of cases[from, to): a tuple of their results.
void sweep_text(const sweep_block *, u32 from, u32 to, hs_buf *out);

// ---- values (sweep_values.c) --------------------------------------------------------------------
typedef HS_VEC(u8) sweep_bytes;
// Appends elements in the storage of a literal, none twice. sweep_edges: the values where
// operations change their ways, a dozen to fifty. sweep_values: these and random patterns, or all
// patterns there are.
void sweep_edges(hlo_dtype, sweep_bytes *);
void sweep_values(hlo_dtype, bool full, sweep_bytes *);

#endif
