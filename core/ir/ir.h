// ir.h — modules, computations, instructions, and the one way to change them.
//
// Reading: the structs below are open for reading. Instructions of a computation form a linked list
// in order of creation, which need NOT put operands first once passes have run: walk hlo_post_order
// for that. Only in a scheduled module is list order the schedule. Operand edges carry their use
// lists: every hlo_use is one (user, operand slot) pair linked into the list of its definition. Ids
// are dense per module and never reused, so analyses are arrays indexed by id.
//
// Writing: only through the functions marked "edit". Each edit is recorded in the module's journal,
// which is what makes versions cheap: a version is the list of edits since the one before it, undo
// walks that list backwards, redo forwards, and a failed transaction rolls back to its start. A
// version costs what was edited, never a copy of the module. Use lists and instruction lists are
// doubly linked and undone in reverse order, so undo restores them exactly, order included. Dead
// instructions stay in the arena until the module is freed (undo needs them). Never write a field
// of these structs directly.
#ifndef HLO_IR_H
#define HLO_IR_H

#include "core/types/ctx.h"
#include "core/types/ops.h"

// One operand slot of a user; linked into its definition's use list.
typedef struct hlo_use hlo_use;
struct hlo_use {
  hlo_instr *def;  // the operand
  hlo_instr *user;
  hlo_use *prev, *next;  // in def's use list
};

typedef struct hlo_instr_list {
  u32 n;
  hlo_instr *v[];
} hlo_instr_list;  // immutable, arena

// Provenance: which instructions of the module as loaded this one stems from. A leaf names one
// source id; a node joins two sets (shared, immutable). hlo_origins_collect flattens it. NULL: see
// hlo_instr.source; most instructions of a module as loaded stem from themselves alone, and a
// number says that.
typedef struct hlo_provenance hlo_provenance;
struct hlo_provenance {
  u32 source;
  const hlo_provenance *a, *b;
};

// Two halves of a line of the cache each. The first holds what is looked at when a list is walked
// and when another instruction names this one as operand. Large modules are walked from memory, so
// the first halves of HLO_HALVES instructions lie side by side, and their second halves side by
// side behind them: what an instruction leaves between its own belongs to others.
enum { HLO_HALF = 64, HLO_HALVES = 256 };
struct hlo_instr {
  _Alignas(64) u32 id;
  hlo_opcode opcode : 9;
  u32 dead : 1;  // removed from its computation
  u32 has_ctrl_preds : 1;
  // of a parameter or the index of a get-tuple-element, plus 1; 0: see the attributes
  u32 number : 21;
  u32 noperands;
  u32 nuses;
  // its place among all that were put in order, as of the last time (hlo_put_in_order,
  // hlo_place_instrs)
  u32 place;
  u32 nctrl_succs;  // how many instructions name this one as control predecessor
  hlo_instr *next;  // in parent's list
  hlo_computation *parent;
  hlo_use *operands;  // noperands slots
  const hlo_shape *shape;
  const hlo_attrs *attrs;
  u8 others_[(HLO_HALVES - 1) * HLO_HALF];
  const hlo_instr_list *ctrl_preds;  // NULL when none
  hlo_instr *prev;
  hlo_use *first_use, *last_use;
  const char *name;  // interned, without '%'
  const hlo_provenance *provenance;
  // without a provenance: 1 + the one source id it stems from; 0 none
  u32 source;
};
_Static_assert(offsetof(hlo_instr, ctrl_preds) == HLO_HALVES * HLO_HALF &&
                   sizeof(hlo_instr) == (HLO_HALVES + 1) * HLO_HALF,
               "an instruction takes two lines of the cache");

// First, in a line of the cache, what walks over all computations look at.
struct hlo_computation {
  _Alignas(64) hlo_instr *first;  // instruction list
  hlo_instr *root;
  u64 generation;  // grows with every edit inside
  // hlo_may_have: a bit for every operation that there ever was here
  u64 ops[2];
  hlo_computation *next;  // in the module's list
  u32 id;
  u32 ninstrs;
  // instructions here that are nobody's operand, the root among them
  u32 nunused;
  u32 nfusions : 28;  // fusions of live computations that call this one
  // kinds of work that found nothing to do here, cleared by every edit (hlo_is_tidy): the one field
  // that passes set
  u32 tidy : 4;
  u32 ncalls;  // instructions here of operations that may call computations
  bool dead;
  // edges or instructions came since the list was last put in order
  bool unsorted;
  hlo_instr *last;
  u32 nparams;
  // by number; nparams entries (edit: hlo_add_parameter, hlo_remove_parameter)
  hlo_instr *const *params;
  hlo_computation *prev;
  const char *name;
  hlo_module *module;
  // the ids of all instructions there ever were here lie in [low_id, end_id)
  u32 low_id, end_id;
  hs_str execution_thread;  // empty or "main" by default
};

typedef struct hlo_stack_frames {  // the tables FileNames .. StackFrames; ids are positions + 1
  u32 nfiles;
  const hs_str *files;
  u32 nfunctions;
  const hs_str *functions;
  u32 nlocations;
  const struct hlo_file_location {
    i32 file, function, line, end_line, column, end_column;
  } * locations;
  u32 nframes;
  const struct hlo_stack_frame { i32 location, parent; } * frames;  // parent 0: none
} hlo_stack_frames;

struct hlo_module {
  hlo_ctx *ctx;
  hs_arena arena;
  // instructions, computations, operand slots, and attribute sets, each side by side: who walks a
  // list walks through memory
  hs_arena instrs, comps, uses, sets;
  u8 *free_half, *last_half;  // first halves of instructions to come: [free_half, last_half)
  const char *name;
  hlo_computation *first, *last;  // computations in text order
  u32 ncomputations;              // live ones
  u32 nops[HLO_OPCODE_COUNT];     // live instructions of each operation
  hlo_computation *entry;
  const hlo_attrs *attrs;           // module attributes
  const hlo_stack_frames *frames;   // NULL when none
  u32 next_instr_id, next_comp_id;  // ids are below these; size analyses by them
  u64 serial;                       // no other module of this process has it
  u64 generation;                   // grows with every edit
  u64 call_generation;              // grows with every edit of who calls what
  // the generation from which on `touched` lists what was edited (hlo_note_touched)
  u64 touched_since;
  HS_VEC(hlo_computation *) touched;  // each once
  u32 next_place;                     // of hlo_instr.place
  struct hlo_journal *journal;        // journal.c
  struct hlo_names *names;            // names.c
  // of the proto that it was read from (proto/keep.h); NULL
  const struct hlo_proto_kept *proto_kept;
  const char *load_note;  // what the reader had to leave out; NULL
};

// There are a few more operations than bits: the last ones, common ones, share theirs with the
// first, rare but for add, which xor joins.
static inline u32 hlo_op_bit_(hlo_opcode op) { return (u32)op % 128; }
static inline bool hlo_may_have(const hlo_computation *c, hlo_opcode op) {
  return c->ops[hlo_op_bit_(op) / 64] >> hlo_op_bit_(op) % 64 & 1;
}
#define hlo_for_each_of(i, comp, op)                                                     \
  for (hlo_instr *i = hlo_may_have((comp), (op)) ? (comp)->first : NULL; i; i = i->next) \
    if (i->opcode == (op))
#define hlo_for_each_instr(i, comp) for (hlo_instr *i = (comp)->first; i; i = i->next)
#define hlo_for_each_instr_safe(i, comp)                                 \
  for (hlo_instr *i = (comp)->first, *i##_next_ = i ? i->next : NULL; i; \
       i = i##_next_, i##_next_ = i ? i->next : NULL)
// Instructions of operations that may call computations; ends behind the last of them.
#define hlo_for_each_call(i, c)                               \
  for (u32 i##_left_ = (c)->ncalls; i##_left_; i##_left_ = 0) \
    for (hlo_instr *i = (c)->first; i##_left_; i = i->next)   \
      if (hlo_op_has(i->opcode, HLO_F_CALLS) && i##_left_--)
#define hlo_for_each_comp(c, m) for (hlo_computation *c = (m)->first; c; c = c->next)
#define hlo_for_each_use(u, i) for (hlo_use *u = (i)->first_use; u; u = u->next)

// ---- reading ------------------------------------------------------------------------------------
static inline hlo_instr *hlo_operand(const hlo_instr *i, u32 k) { return i->operands[k].def; }
// operand number within the user
static inline u32 hlo_slot(const hlo_use *u) { return (u32)(u - u->user->operands); }
static inline bool hlo_is_root(const hlo_instr *i) { return i->parent->root == i; }
static inline bool hlo_is(const hlo_instr *i, hlo_opcode op) { return i->opcode == op; }
// has a control edge
static inline bool hlo_is_controlled(const hlo_instr *i) {
  return i->has_ctrl_preds || i->nctrl_succs;
}
// does it stem from that source id alone?
static inline bool hlo_is_source(const hlo_instr *i, i64 source) {
  return i->provenance ? !i->provenance->a && (i64)i->provenance->source == source
                       : (i64)i->source == source + 1;
}
bool hlo_is_scheduled(const hlo_module *);
const hlo_attr *hlo_attr_get(const hlo_instr *, hlo_attr_id);  // NULL when absent
i64 hlo_attr_int_(const hlo_instr *, hlo_attr_id, i64 absent);
// INT, BOOL, ENUM
static inline i64 hlo_attr_int(const hlo_instr *i, hlo_attr_id id, i64 absent) {
  return i->number && (id == HLO_ATTR_PARAMETER_NUMBER || id == HLO_ATTR_INDEX)
             ? (i64)i->number - 1
             : hlo_attr_int_(i, id, absent);
}
// {0,NULL} when absent
hlo_ints hlo_attr_ints(const hlo_instr *, hlo_attr_id);
hs_str hlo_attr_str(const hlo_instr *, hlo_attr_id);
hlo_computation *hlo_attr_comp(const hlo_instr *, hlo_attr_id);  // NULL when absent
// struct kinds; NULL when absent
const void *hlo_attr_ptr(const hlo_instr *, hlo_attr_id);
// constants only; may be elided
const hlo_literal *hlo_constant_value(const hlo_instr *);
static inline i64 hlo_param_number(const hlo_instr *i) {
  return hlo_attr_int(i, HLO_ATTR_PARAMETER_NUMBER, -1);
}
const hlo_metadata *hlo_metadata_of(const hlo_instr *);  // NULL when absent
// Every computation an instruction calls, in XLA's order; returns the count, fills at most cap.
u32 hlo_called(const hlo_instr *, hlo_computation **out, u32 cap);
bool hlo_calls(const hlo_instr *, const hlo_computation *);
// fusion, call, map, reduce...: calls or to_apply
hlo_computation *hlo_fusion_comp(const hlo_instr *);
// called by a fusion
static inline bool hlo_is_fusion_comp(const hlo_computation *c) { return c->nfusions != 0; }
// Whether a computation stands as it was left when this kind of work had nothing left to do in it.
typedef enum hlo_tidy { HLO_TIDY_DCE, HLO_TIDY_TUPLES } hlo_tidy;
static inline bool hlo_is_tidy(const hlo_computation *c, hlo_tidy kind) {
  return c->tidy >> kind & 1;
}
static inline void hlo_leave_tidy(hlo_computation *c, hlo_tidy kind) { c->tidy |= 1u << kind & 15; }
// recursively through called computations
bool hlo_has_side_effect(const hlo_instr *);
// dce may drop it once unused (no users check)
bool hlo_is_removable(const hlo_instr *);
// without '%'; hashed
hlo_instr *hlo_find_instr(const hlo_module *, const char *name);
hlo_computation *hlo_find_comp(const hlo_module *, const char *name);
// hlo_module.touched begins anew: it is for who runs a pass, and not kept with the module's
// versions
void hlo_note_touched(hlo_module *);
// over all live computations
u32 hlo_instr_count(const hlo_module *);
// Operands-first order (XLA's MakeInstructionPostOrder); array in `a`, comp->ninstrs long, and a
// NULL behind.
hlo_instr **hlo_post_order(const hlo_computation *, hs_arena *a);
// The same, for who alone holds the module: faster, and each instruction's `place` is *first + its
// number in the order, until the next call of this or of hlo_put_in_order for the computation.
hlo_instr **hlo_post_order_numbered(hlo_computation *, u32 *first, hs_arena *a);
// Gives the instructions of an order places side by side; returns the first.
u32 hlo_place_instrs(hlo_computation *, u32 n, hlo_instr *const *v);
// Numbers for instructions of one computation, v[k] gets k: for tables that follow the
// computation's size, not the module's. hlo_number_of gives UINT32_MAX for an instruction that is
// not among them.
typedef struct hlo_numbered {
  u32 id1, number;
} hlo_numbered;
typedef struct hlo_numbers {
  u32 low, factor, shift, mask;
  hlo_numbered *slots;
} hlo_numbers;
hlo_numbers hlo_number_instrs(const hlo_computation *, u32 n, hlo_instr *const *v, hs_arena *a);
static inline u32 hlo_number_of(const hlo_numbers *t, const hlo_instr *i) {
  u32 at = ((i->id - t->low) * t->factor >> t->shift) & t->mask;
  while (t->slots[at].id1 != i->id + 1) {
    // without a shift every id has a slot of its own
    if (!t->shift || !t->slots[at].id1) return UINT32_MAX;
    at = (at + 1) & t->mask;
  }
  return t->slots[at].number;
}
// Puts operands and control predecessors before their users in the list, moving as few instructions
// as it can. An edit, and cheap where the order is right already.
void hlo_put_in_order(hlo_computation *);
// Computations in the order of XLA's MakeComputationPostOrder, which text and passes follow; *n
// computations. One that is called from two depths may come after a caller.
hlo_computation **hlo_comp_post_order(const hlo_module *, hs_arena *a, u32 *n);
// strictly; the module's own order where that is one
hlo_computation **hlo_comp_callees_first(const hlo_module *, hs_arena *a, u32 *n);
// All instructions that may call computations, by computation: those of c are v[first[c->id]] and
// on, c->ncalls of them, in list order.
typedef struct hlo_callees {
  u32 n;
  hlo_computation **v;
} hlo_callees;
typedef struct hlo_call_list {
  u32 *first;
  hlo_instr **v;
  hlo_callees *callees;
  u32 n;
} hlo_call_list;
hlo_call_list hlo_find_calls(const hlo_module *, hs_arena *);
// How many instructions call each computation (one that names it twice counts twice): element 0 is
// the number of ids counted, element 1 + id the count.
u32 *hlo_count_callers(const hlo_module *, const hlo_call_list *, hs_arena *);
// the two orders, the calls known
hlo_computation **hlo_order_comps(const hlo_module *, const hlo_call_list *, bool strict,
                                  hs_arena *a, u32 *n);
// Source ids of an instruction, ascending, unique.
hlo_ints hlo_origins_collect(const hlo_instr *, hs_arena *a);

// ---- building and editing: every function below is an "edit" ------------------------------------
hlo_module *hlo_module_new(hlo_ctx *, const char *name);
void hlo_module_free(hlo_module *);  // NULL is fine
// names, order, attributes, provenance kept; fresh journal
hlo_module *hlo_module_clone(const hlo_module *, const char *name);

// appended; the name is made unique
hlo_computation *hlo_add_computation(hlo_module *, const char *name);
// callers must be gone
void hlo_remove_computation(hlo_computation *);
void hlo_set_computation_name(hlo_computation *, const char *name);  // made unique
void hlo_set_entry(hlo_module *, hlo_computation *);
void hlo_set_module_attr(hlo_module *, hlo_attr);
void hlo_remove_module_attr(hlo_module *, hlo_attr_id);
void hlo_set_stack_frames(hlo_module *, const hlo_stack_frames *);
// Deep copy of a computation inside its module (called computations stay shared). `map` (may be
// NULL) receives old id -> new instruction, sized by next_instr_id at the call.
hlo_computation *hlo_clone_computation(hlo_computation *, const char *name, hlo_instr **map);
// from another module, called ones too
hlo_computation *hlo_clone_computation_into(hlo_module *, const hlo_computation *,
                                            const char *name);

// Edits a module until it is `target` (of the same context), names and order included.
void hlo_module_become(hlo_module *, const hlo_module *target);

// Adds an instruction at the end of the list (or before `before`, when not NULL). The name is made
// unique in the module; NULL or "" derives it from the opcode. Attributes are set afterwards with
// hlo_set_attr.
hlo_instr *hlo_add(hlo_computation *, hlo_opcode, const hlo_shape *, u32 n,
                   hlo_instr *const *operands, const char *name);
hlo_instr *hlo_add_before(hlo_instr *before, hlo_opcode, const hlo_shape *, u32 n,
                          hlo_instr *const *operands, const char *name);
// takes the reference
hlo_instr *hlo_add_constant(hlo_computation *, hlo_literal *take, const char *name);
hlo_instr *hlo_add_parameter(hlo_computation *, i64 number, const hlo_shape *, const char *name);
hlo_instr *hlo_add_gte(hlo_instr *tuple, i64 index);
hlo_instr *hlo_add_tuple(hlo_computation *, u32 n, hlo_instr *const *elems);
hlo_instr *hlo_add_broadcast(hlo_instr *operand, const hlo_shape *, u32 n, const i64 *dims);
hlo_instr *hlo_add_call(hlo_computation *, hlo_opcode op, const hlo_shape *, hlo_attr_id which,
                        hlo_computation *callee, u32 n, hlo_instr *const *operands);
// Same opcode, attributes and provenance on other operands / shape (NULL: same), possibly in
// another computation.
hlo_instr *hlo_clone_instr(hlo_computation *into, const hlo_instr *, const hlo_shape *, u32 n,
                           hlo_instr *const *operands);

void hlo_set_operand(hlo_instr *user, u32 slot, hlo_instr *def);
// changes the count too
void hlo_set_operands(hlo_instr *user, u32 n, hlo_instr *const *defs);
void hlo_set_shape(hlo_instr *, const hlo_shape *);
void hlo_set_name(hlo_instr *, const char *name);  // made unique
void hlo_set_root(hlo_computation *, hlo_instr *);
// value is copied shallowly; arrays must live in the module's arena
void hlo_set_attr(hlo_instr *, hlo_attr);
void hlo_set_attr_int(hlo_instr *, hlo_attr_id, i64);
void hlo_set_attr_ints(hlo_instr *, hlo_attr_id, u32 n, const i64 *);  // copies the array
void hlo_set_attr_str(hlo_instr *, hlo_attr_id, hs_str);               // copies the string
void hlo_set_attr_comp(hlo_instr *, hlo_attr_id, hlo_computation *);
void hlo_set_attr_ptr(hlo_instr *, hlo_attr_id, const void *arena_value);
// all at once, replacing the old set; ordered by id, each once
void hlo_set_attrs(hlo_instr *, u32 n, const hlo_attr *sorted);
void hlo_remove_attr(hlo_instr *, hlo_attr_id);
// all of them, same module
void hlo_copy_attrs(hlo_instr *to, const hlo_instr *from);
void hlo_set_ctrl_preds(hlo_instr *, u32 n, hlo_instr *const *preds);
void hlo_set_execution_thread(hlo_computation *, hs_str);
void hlo_move_before(hlo_instr *, hlo_instr *before);  // NULL: to the end
// all of its instructions, operands first
void hlo_reorder(hlo_computation *, hlo_instr *const *order);
void hlo_set_param_number(hlo_instr *param, i64 number);
// unused; renumbers the later ones
void hlo_remove_parameter(hlo_computation *, i64 number);
void hlo_add_provenance(hlo_instr *to, const hlo_instr *from);
// room for so many names, before reading a large text
void hlo_names_reserve(hlo_module *, size_t names);
// one instruction without provenance becomes its own source
void hlo_mark_source(hlo_instr *);
// every instruction without provenance becomes its own source (after loading)
void hlo_mark_sources(hlo_module *);

// All uses of `old` (root and control edges too) become uses of `now`; provenance of old joins
// now's; metadata is handed over when now has none. `old` stays, unused.
void hlo_replace_uses(hlo_instr *old, hlo_instr *now);
// hlo_replace_uses, then removes `old` and every operand chain that thereby becomes dead and
// removable.
void hlo_replace(hlo_instr *old, hlo_instr *now);
// must have no uses and not be the root
void hlo_remove(hlo_instr *);
// removes it and newly dead operands, if unused and removable
void hlo_remove_dead(hlo_instr *);

// ---- versions -----------------------------------------------------------------------------------
// The journal holds the edits since the last commit. commit hands them out as a delta (NULL when
// nothing changed); a delta is applied or unapplied whole, in strict sequence. abort undoes what
// was not committed.
typedef struct hlo_delta hlo_delta;
size_t hlo_journal_mark(const hlo_module *);           // position in the uncommitted journal
void hlo_journal_rollback(hlo_module *, size_t mark);  // undo uncommitted edits back to mark
bool hlo_changed_since(const hlo_module *, size_t mark);
// Calls fn for each instruction that uncommitted edits since the mark were about, some several
// times: made, removed, with other operands, users, attributes or shape. Names and provenance do
// not count.
void hlo_edited_since(const hlo_module *, size_t mark, void (*fn)(void *arg, hlo_instr *),
                      void *arg);
hlo_delta *hlo_commit(hlo_module *);
void hlo_abort(hlo_module *);
void hlo_delta_undo(hlo_module *, hlo_delta *);
void hlo_delta_redo(hlo_module *, hlo_delta *);
size_t hlo_delta_bytes(const hlo_delta *);
void hlo_delta_free(hlo_module *, hlo_delta *);
// A module that nobody will undo (a scratch clone) can drop its journal as it goes.
void hlo_journal_disable(hlo_module *);
// recording starts again, with nothing to undo before this point
void hlo_journal_enable(hlo_module *);

// ---- whole-module helpers -----------------------------------------------------------------------
// structure, shapes, attributes, literals; names and annotations ignored
u64 hlo_fingerprint(const hlo_module *);
// names and annotations too: what the runner checks "changed" against
u64 hlo_text_hash(const hlo_module *);

#endif
