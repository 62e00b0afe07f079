// journal.h — private to ir*.c: the record of edits that undo walks backwards.
//
// A record is a word (any pointer or number field, of an instruction or not) that was overwritten,
// the attributes of an instruction, an operand edge that moved to another definition, an edge, an
// instruction with all its edges or a computation that came, went or moved, or a name that was
// claimed; a computation's list in another order; an instruction that was made comes and goes with
// its name. Each is its own inverse: applying a record swaps the old state with the current one, so
// the same code undoes (last to first) and redoes (first to last). What is out of a list remembers
// in its own links where it stood.
//
// A pipeline makes tens of records for every instruction of a module, so they lie in blocks that
// the next journal uses again, and what is written to the instruction added last needs none: taking
// it out again takes its fields along.
#ifndef HLO_IR_JOURNAL_H
#define HLO_IR_JOURNAL_H

#include "core/ir/ir.h"

typedef enum {
  REC_PTR,
  REC_FIELD,
  REC_U32,
  REC_ATTRS,
  REC_EDGE,
  REC_UNLINK_EDGE,
  REC_LINK_EDGE,
  REC_INSERT,
  REC_REMOVE,
  REC_MOVE,
  REC_LINK_COMP,
  REC_UNLINK_COMP,
  REC_NAME,
  REC_CREATE,
  REC_UNCREATE,
  REC_ORDER
} rec_kind;

typedef struct record {
  rec_kind kind;
  u32 old_u32;
  // PTR, FIELD, U32: address of the field; ATTRS: the instruction; else the use, instruction,
  // computation or name node
  void *where;
  // PTR, FIELD, ATTRS: other value; EDGE: other definition; REMOVE, MOVE, UNLINK_COMP: what it
  // stood before (NULL: last); ORDER: the list's old_u32 instructions in the other order; NAME,
  // CREATE: the count that old_u32 is the other value of, or NULL
  void *old;
  // EDGE: the use it stood before in the other definition's list; FIELD: the instruction; PTR, U32:
  // the computation, or NULL; UNCREATE: the instruction it stood before
  void *prev;
} record;

// Records in the order they were made, in blocks that an arena holds.
// before: records in earlier blocks
typedef struct rec_block {
  struct rec_block *prev, *next;
  size_t before;
  u32 n, cap;
  record v[];
} rec_block;
// orders: `mem` holds those of REC_ORDER too
typedef struct rec_log {
  hs_arena mem;
  rec_block *first, *last;
  bool orders;
} rec_log;
static inline size_t hlo_log_count_(const rec_log *l) {
  return l->last ? l->last->before + l->last->n : 0;
}
void hlo_log_free_(rec_log *);

typedef struct hlo_journal {
  rec_log log;
  // the instruction added last, when its fields may be set without a record
  hlo_instr *fresh;
  bool off;  // edits are not recorded
  // references that the module's attributes hold, dropped with the module
  HS_VEC(hlo_literal *) literals;
} hlo_journal;

// Record and write a field; `c` is the computation it belongs to (its generation moves), or NULL.
void hlo_rec_ptr_(hlo_module *, hlo_computation *c, void *field, const void *value);
void hlo_rec_u32_(hlo_module *, hlo_computation *c, u32 *field, u32 value);
void hlo_rec_field_(hlo_instr *, void *field, const void *value);
void hlo_rec_attrs_(hlo_instr *, const hlo_attrs *);
// moves a use to another definition
void hlo_rec_edge_(hlo_module *, hlo_use *use, hlo_instr *def);
// a new use joins its def's list
void hlo_rec_link_edge_(hlo_module *, hlo_use *use);
void hlo_rec_unlink_edge_(hlo_module *, hlo_use *use);
// a new instruction with its edges; before NULL: at the end
void hlo_rec_insert_(hlo_module *, hlo_instr *, hlo_instr *before);
void hlo_rec_remove_(hlo_module *, hlo_instr *);  // with its edges
void hlo_rec_move_(hlo_module *, hlo_instr *, hlo_instr *before);
// all of its instructions
void hlo_rec_order_(hlo_computation *, hlo_instr *const *order);
void hlo_rec_link_comp_(hlo_module *, hlo_computation *, hlo_computation *before);
void hlo_rec_unlink_comp_(hlo_module *, hlo_computation *);
// Field setters with the right pointer types.
#define SET_FIELD(i, field, value) hlo_rec_field_((i), (void *)(uintptr_t) & (i)->field, (value))
#define SET_PTR(m, c, field, value) hlo_rec_ptr_((m), (c), (void *)(uintptr_t) & (field), (value))

const hlo_stack_frames *hlo_stack_frames_clone_(hlo_module *into, const hlo_stack_frames *);
// params: room for the next power of two
void hlo_set_params_(hlo_computation *, u32 n, hlo_instr *const *params);

// Records a name that was claimed or released; `count` (may be NULL) was `was` before.
void hlo_journal_name_(hlo_module *, void *node, u32 *count, u32 was);

#endif
