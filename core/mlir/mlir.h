// mlir.h — StableHLO text in and out: what jax.jit(f).lower(...).as_text() prints, and what other
// frameworks export, becomes a module of HLO.
//
// The text is read into a tree of operations (tree.h) by one grammar for every dialect, and the
// tree is converted by the table ops.def. What an operation becomes is what XLA's own conversion
// makes of it (xla/hlo/translate/mhlo_to_hlo), the simplifications that go with it included
// (fold.c).
#ifndef HLO_MLIR_H
#define HLO_MLIR_H

#include "core/text/text.h"

// Whether n bytes begin like a module, a function or an attribute alias of MLIR's text, comments
// aside; or are MLIR bytecode.
bool hlo_is_mlir(const char *text, size_t n);
bool hlo_is_mlir_bytecode(const char *p, size_t n);
// Whether they are what jax.export's serialize() wrote; *artifact: the bytecode inside.
bool hlo_is_jax_export(const char *p, size_t n, hs_str *artifact);
// E_BYTECODE for a version of the format, or of the calling convention, that is not known.
hs_status hlo_jax_export_check(const char *p, size_t n);
// Reads a module of dialects func, stablehlo and chlo, as text or as a portable artifact (bytecode
// of VHLO), and converts it to HLO: function @main is the entry, or else the first public one, or
// the first. `text` is not kept. Options are those of hlo_parse. E_SYNTAX, E_NAME, E_OPCODE,
// E_ATTR, E_SHAPE, E_LITERAL, E_BYTECODE with the place; E_NO_HLO for what HLO has no form for
// (quantized types, say). On failure *out is NULL.
hs_status hlo_mlir_read(hlo_ctx *, const char *text, size_t n, const hlo_parse_options *,
                        hlo_module **out);
// Reads the text and converts nothing: whether it is MLIR of operations that hlosh knows, with
// types that fit. Errors and options are those of hlo_mlir_read.
hs_status hlo_mlir_check(hlo_ctx *, const char *text, size_t n, const hlo_parse_options *);
// Appends the module as StableHLO text in generic form, which jaxlib and hlo_mlir_read read:
// computations that are called become functions, others regions; layouts, schedules and control
// edges are left out. E_NO_STABLEHLO names an instruction or attribute without a form there, and
// nothing is appended then.
hs_status hlo_mlir_print(const hlo_module *, hs_buf *);
// Appends the module as a portable artifact of a version of StableHLO (100 times its first number
// and the second): what stablehlo.serialize_portable_artifact writes of hlo_mlir_print's text.
// E_NO_STABLEHLO also for what that version does not have; nothing is appended then.
enum {
  HLO_STABLEHLO_OLDEST = 9,
  HLO_STABLEHLO_USUAL = 117,  // jaxlib 0.10's
  HLO_STABLEHLO_NEWEST = 121
};
hs_status hlo_mlir_write(const hlo_module *, u32 version, hs_buf *);
// Appends such an artifact as jax.export's serialize() writes it: a function of a tuple of arrays.
// E_NO_STABLEHLO also for arguments and results that JAX has no arrays for, and for modules of
// several devices.
hs_status hlo_jax_export_write(const hlo_module *, u32 version, hs_buf *);
// "1.17.0", "1.17" as such a number; E_USAGE for others.
hs_status hlo_mlir_version(hs_str, u32 *out);

#endif
