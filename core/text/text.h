// text.h — HLO text in and out. The grammar is that of XLA's HloParser, the print that of
// HloModule::ToString, so that either side reads what the other writes.
#ifndef HLO_TEXT_H
#define HLO_TEXT_H

#include "core/ir/ir.h"

typedef struct hlo_parse_options {
  const char *file;           // for diagnostics; NULL: "<text>"
  bool keep_missing_layouts;  // default false: shapes without a layout get the row-major one
  u32 max_depth;              // nesting limit; 0 = 8192
  u32 max_errors;             // stop after so many diagnostics; 0 = 20
  // reading begins at this byte of the text; lines of diagnostics count from its start
  size_t from;
  // not NULL: reading ends where a line begins with "// -----", and this is set to its offset (to
  // the size of the text when there is no such line)
  size_t *stopped_at;
  // of MLIR: the function that is converted; NULL: @main, or the first that others see
  const char *entry;
  // of MLIR: sizes of the entry's arguments that are open, "PARAM.DIM=N,..." with parameters by
  // number or name; "N": of all. NULL: they stay open
  const char *sizes;
  // StableHLO: operations become instructions as they are written, without the simplifications that
  // XLA makes on the way
  bool as_written;
} hlo_parse_options;

// Parses a whole module (or a header-less fragment, or a single instruction). `text` need not be
// NUL-terminated and is not kept. On failure *out is NULL and the status holds every error found.
// The journal of the new module is empty.
hs_status hlo_parse(hlo_ctx *, const char *text, size_t n, const hlo_parse_options *,
                    hlo_module **out);
// Reads a file of any known format (told by content: text, proto binary/text, .gz/.zst) through
// hlo_parse / proto.
hs_status hlo_load_file(hlo_ctx *, const char *path, const hlo_parse_options *, hlo_module **out);
// Bytes that are there already, of any of these formats; `name` is what messages call them.
hs_status hlo_load_bytes(hlo_ctx *, const char *name, const void *p, size_t n, hlo_module **out);
// The same for a text that may hold several modules, separated by lines that begin with "// -----"
// (hlo-opt's manner): each is handed to `sink`, which owns it from then on. The first error, of a
// text or of the sink, ends it.
typedef hs_status hlo_module_sink(void *to, hlo_module *take);
hs_status hlo_load_each(hlo_ctx *, const char *path, const hlo_parse_options *,
                        hlo_module_sink *sink, void *to);
// The arguments stored in a snapshot file (also compressed); *count 0 when the file is another one.
// See proto.h.
hs_status hlo_load_arguments(hlo_ctx *, const char *path, u32 partition, hlo_literal ***out,
                             u32 *count, hlo_literal **result);
// A shape alone, interned in the context; a literal of a given shape alone, a new reference. On
// failure *out is NULL.
hs_status hlo_parse_shape(hlo_ctx *, const char *text, size_t n, const hlo_shape **out);
hs_status hlo_parse_literal(hlo_ctx *, const hlo_shape *, const char *text, size_t n,
                            hlo_literal **out);
// The value behind "NAME=" of the attribute out->id alone, into the module's arena.
hs_status hlo_parse_attr(hlo_module *, const char *text, size_t n, hlo_attr *out);
// Adds one instruction line ("y = f32[4] add(a, b)") to a computation; operands are named by its
// instructions, and a shape that is left out is inferred. ROOT makes it the root. On failure the
// module is as before and *out NULL.
hs_status hlo_parse_instr_into(hlo_computation *, const char *text, size_t n, hlo_instr **out);

// Which version of XLA's text is printed where versions differ: rows of vintage.def.
typedef enum hlo_vintage {
#define VINTAGE(id, ...) HLO_VINTAGE_##id,
#include "core/text/vintage.def"
#undef VINTAGE
  HLO_VINTAGE_COUNT
} hlo_vintage;
extern const struct hlo_vintage_row {
  const char *name;
  bool has_dynamic_root, sparsity_idx, topk_is_stable;
  const char *summary;
} hlo_vintages[HLO_VINTAGE_COUNT];

// The switches are rows of print_options.def, under XLA's names (HloPrintOptions).
typedef struct hlo_print_options {
#define PRINT_OPTION(name, ...) bool name;
#include "core/text/print_options.def"
#undef PRINT_OPTION
  int subcomputations;  // 0 name only, 1 full bodies, 2 nothing
  int index_interval;   // /*index=5*/; 0 = never
  hlo_vintage vintage;
  // computations as the module lists them, callees first; else in XLA's order
  bool own_order;
  bool aligned;  // names and shapes in columns
  bool color;    // ANSI colours (terminal only)
  // other names to print, by id (a NULL entry: its own); NULL: none
  const char *const *instr_names, *const *comp_names;
} hlo_print_options;
// The switch of this name in `o`; NULL when there is none. hlo_print_option_name(k): the k-th name,
// NULL past the last.
bool *hlo_print_option(hlo_print_options *o, const char *name);
const char *hlo_print_option_name(size_t k);
hlo_print_options hlo_print_default(void);  // HloPrintOptions()
hlo_print_options hlo_print_short_parsable(void);
hlo_print_options hlo_print_canonical(void);
// for reading: no layouts, metadata or configurations, in columns
hlo_print_options hlo_print_compact(void);
// HloModule::ToString with large constants: what save and report write
hlo_print_options hlo_print_full(void);

// All of these append to the buffer and cannot fail.
void hlo_print_module(hs_buf *, const hlo_module *, const hlo_print_options *);
// A hash of the whole text, names and annotations too, and of the bytes of all literals. The runner
// of passes holds "changed" against it.
u64 hlo_text_hash(const hlo_module *);
void hlo_print_computation(hs_buf *, const hlo_computation *, const hlo_print_options *);
// The module of an entry of origin_recovery_table, ", \" ... \"", on lines of its own; NULL: an
// empty one.
void hlo_put_recovery_module(hs_buf *, const hlo_module *);
// one line, no newline, no indent
void hlo_print_instr(hs_buf *, const hlo_instr *, const hlo_print_options *);
// with its shape's element formats, all elements
void hlo_print_literal(hs_buf *, const hlo_literal *);
// the value behind '='
void hlo_print_attr_value(hs_buf *, const hlo_instr *, const hlo_attr *, const hlo_print_options *);

#endif
