// ir_journal.h — private to ir*.c: the record of edits that undo walks backwards.
//
// Records are of five kinds: a word (any pointer or number field) that was overwritten, the attributes of an instruction, an operand edge that moved to
// another definition, a list link (instruction in a computation, computation in a module) that was made or cut, and a
// name that was claimed. Each is its own inverse: applying a record swaps the old state with the current one, so the same
// code undoes (last to first) and redoes (first to last).
#ifndef HLO_IR_JOURNAL_H
#define HLO_IR_JOURNAL_H

#include "core/ir.h"

typedef enum { REC_PTR, REC_U32, REC_ATTRS, REC_EDGE, REC_UNLINK_EDGE, REC_LINK_EDGE, REC_LINK_INSTR, REC_UNLINK_INSTR, REC_LINK_COMP, REC_UNLINK_COMP, REC_NAME } rec_kind;

typedef struct record {
  rec_kind kind;
  u32 old_u32;
  void *where;            // PTR, U32: address of the field; ATTRS: the instruction; else the use, instruction, computation or name node
  void *old;              // PTR, ATTRS: other value; EDGE: other definition; UNLINK_*: the element it stood before (NULL: last)
  void *prev;             // EDGE: the use it stood before in the other definition's list; PTR, U32: the computation, or NULL
} record;

typedef struct hlo_journal {
  HS_VEC(record) log;
  bool off;                        // edits are not recorded
  HS_VEC(hlo_literal *) literals;  // references that the module's attributes hold, dropped with the module
} hlo_journal;

// Record and write a field; `c` is the computation it belongs to (its generation moves), or NULL.
void hlo_rec_ptr_(hlo_module *, hlo_computation *c, void *field, const void *value);
void hlo_rec_u32_(hlo_module *, hlo_computation *c, u32 *field, u32 value);
void hlo_rec_attrs_(hlo_instr *, const hlo_attrs *);
void hlo_rec_edge_(hlo_module *, hlo_use *use, hlo_instr *def);           // moves a use to another definition
void hlo_rec_link_edge_(hlo_module *, hlo_use *use);                      // a new use joins its def's list
void hlo_rec_unlink_edge_(hlo_module *, hlo_use *use);
void hlo_rec_link_instr_(hlo_module *, hlo_instr *, hlo_instr *before);   // before NULL: at the end
void hlo_rec_append_(hlo_module *, hlo_instr *);                          // a new instruction and its operand edges, at the end
void hlo_rec_unlink_instr_(hlo_module *, hlo_instr *);
void hlo_rec_link_comp_(hlo_module *, hlo_computation *, hlo_computation *before);
void hlo_rec_unlink_comp_(hlo_module *, hlo_computation *);
// Field setters with the right pointer types.
#define SET_PTR(m, c, field, value) hlo_rec_ptr_((m), (c), (void *)(uintptr_t)&(field), (value))

const hlo_stack_frames *hlo_stack_frames_clone_(hlo_module *into, const hlo_stack_frames *);
void hlo_set_params_(hlo_computation *, u32 n, hlo_instr *const *params);   // params: room for the next power of two

void hlo_journal_name_(hlo_module *, void *node);                         // records a claimed name

#endif
