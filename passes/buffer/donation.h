// donation.h — arguments that give their memory to results: which of those that a module declares
// can work, why the others cannot, and which more could be declared.
#ifndef PASSES_BUFFER_DONATION_H
#define PASSES_BUFFER_DONATION_H

#include "core/ir/ir.h"

#define DONATION_NONE HLO_NO_LEAF

typedef enum donation_state { DONATION_WORKS, DONATION_FAILS, DONATION_POSSIBLE } donation_state;

// Array `param_leaf` of parameter `param` (counted in its shape's leaves) and leaf `out_leaf` of
// the entry's result.
typedef struct donation {
  donation_state state;
  i64 param;
  u32 param_leaf, out_leaf;  // out_leaf: DONATION_NONE for a donor that no output takes
  i64 bytes;
  bool must;        // declared so
  const char *why;  // of DONATION_FAILS, else ""
} donation;
typedef HS_VEC(donation) donations;

// Declared pairs (input_output_alias), declared donors (buffer_donor), and undeclared pairs that
// could be declared, larger first. A pair works when the sizes agree, and nothing reads the
// argument after the output is made, in the order of the schedule, or, without one, the post order;
// what makes the output may itself read the argument only if it can work in place. Texts live in
// the arena, the list is the caller's to free (hs_vec_free). poll errors.
hs_status donation_find(const hlo_module *, hs_arena *, donations *out);
// Adds a pair to the module's input_output_alias.
void donation_declare(hlo_module *, const donation *);
// Appends "{1,0}", the path of a leaf in a shape; nothing for a shape that is no tuple.
void donation_path(const hlo_shape *, u32 leaf, hs_buf *out);

#endif
