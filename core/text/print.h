// print.h — what the files of the printer share (print*.c); private to them, and read by the
// parser only for the names that both know. Order: print_literal, print_attr, print; each calls
// those before it, and print_attr calls print for computations that are printed in full.
#ifndef HLO_PRINT_H
#define HLO_PRINT_H

#include "core/text/text.h"

// State of one print call. Canonical names are numbers in printing order per computation, kept by
// instruction id. Bodies printed in full make the text grow along paths of calls: a thread that is
// to stop ends in the middle (the caller polls).
typedef struct hlo_printer {
  hs_buf *b;
  const hlo_print_options *o;
  int indent;  // of inlined computations
  // by instruction id, 1-based; NULL when names are printed as they are
  u32 *canonical;
  // by computation id: called by something else than asynchronous operations; NULL: not known
  const bool *called;
  size_t name_column, shape_column;  // widths when aligned, else 0
  size_t visible;                    // with colours: up to where the text is in visible form
} hlo_printer;

// as in C, bytes outside ASCII in octal
void hlo_put_escaped(hs_buf *, hs_str);
void hlo_put_instr_name(hlo_printer *, const hlo_instr *);
void hlo_put_comp_name(hlo_printer *, const hlo_computation *);
void hlo_put_attr(hlo_printer *, const hlo_instr *, const hlo_attr *);  // the value
void hlo_put_sharding(hs_buf *, const hlo_sharding *, bool metadata);
void hlo_put_metadata(hs_buf *, const hlo_metadata *);
bool hlo_metadata_prints(const hlo_metadata *);
// all elements, without the shape
void hlo_put_literal(hs_buf *, const hlo_literal *);
// with shapes, as in literal=
void hlo_put_shaped_literal(hs_buf *, const hlo_literal *);
// "{ ... }" for inlined computations
void hlo_print_comp_body(hlo_printer *, const hlo_computation *);

#endif
