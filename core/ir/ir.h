// ir.h — modules, computations, instructions, and the one way to change them.
//
// Reading: the structs below are open for reading, and a module that nobody edits may be read by
// several threads at once: no traversal writes to it. Instructions of a computation form a linked
// list in order of creation, which need NOT put operands first once passes have run: use
// hlo_post_order for that. Only in a scheduled module is list order the schedule. Operand edges
// carry their use lists: every hlo_use is one (user, operand slot) pair, linked into the list of
// its definition. Ids are dense per module and never reused, so analyses are arrays indexed by id.
//
// Writing: only through the functions in the sections "building" to "replacing and removing". Each
// edit is recorded in the module's journal, which is what makes versions cheap: a version is the
// list of edits since the one before it, undo replays that list backwards, redo forwards, and a
// failed transaction rolls back to its start. A version costs what was edited, never a copy of the
// module. Use lists and instruction lists are doubly linked and undone in reverse order, so undo
// restores them exactly, order included. Removed instructions stay in the arena until the module is
// freed (undo needs them). Never write a field of these structs directly.
//
// Ownership: everything reached from a module belongs to it and lives until hlo_module_free, unless
// said otherwise. Functions that take an hs_arena allocate their result there.
#ifndef HLO_IR_H
#define HLO_IR_H

#include "core/types/ctx.h"
#include "core/types/ops.h"

// ---- the structs --------------------------------------------------------------------------------
// One operand slot of a user, linked into the use list of its definition.
typedef struct hlo_use hlo_use;
struct hlo_use {
  hlo_instr *def;        // the operand
  hlo_instr *user;       // the instruction whose operand it is
  hlo_use *prev, *next;  // in def's use list
};

// An immutable list of instructions, in the module's arena.
typedef struct hlo_instr_list {
  u32 n;
  hlo_instr *v[];
} hlo_instr_list;

// Provenance: which instructions of the module as loaded an instruction stems from. A leaf (a is
// NULL) names one source id; an inner node joins two sets. Nodes are shared and immutable, in the
// context's arena. hlo_origins_collect flattens a set. An instruction without one: see
// hlo_instr.source.
typedef struct hlo_provenance hlo_provenance;
struct hlo_provenance {
  u32 source;
  const hlo_provenance *a, *b;
};

// What traversals read comes first, names and provenance last.
struct hlo_instr {
  u32 id;                            // dense in the module, never reused
  hlo_opcode opcode;                 // a row of ops.def
  u32 noperands;                     // length of `operands`
  u32 nuses;                         // length of its use list
  hlo_instr *next;                   // in parent's list
  hlo_computation *parent;           // the computation it is (or was) in
  hlo_use *operands;                 // by operand number
  const hlo_shape *shape;            // of the result, interned
  const hlo_attrs *attrs;            // ordered by id; NULL when none
  const hlo_instr_list *ctrl_preds;  // control predecessors; NULL when none
  hlo_instr *prev;                   // in parent's list
  hlo_use *first_use, *last_use;     // its use list
  const char *name;                  // unique in the module, without '%'
  const hlo_provenance *provenance;  // NULL: `source` says it
  u32 source;                        // without a provenance: 1 + its one source id; 0: none
  u32 nctrl_succs;                   // live instructions that have it as control predecessor
  bool dead;                         // removed from its computation
};
_Static_assert(sizeof(hlo_instr) <= 128, "an instruction is a small struct");

struct hlo_computation {
  u32 id;                        // dense in the module, never reused
  u32 ninstrs;                   // length of the instruction list
  hlo_instr *first, *last;       // instruction list
  hlo_instr *root;               // whose value the computation returns
  u32 nparams;                   // length of `params`
  u32 nfusion_callers;           // live fusions of live computations that call it
  hlo_instr *const *params;      // parameter instructions by number
  u64 generation;                // the module's generation at the last edit inside
  hlo_computation *prev, *next;  // in the module's list
  const char *name;              // unique among the module's computations
  hlo_module *module;            // the module it belongs to
  hs_str execution_thread;       // empty or "main" by default
  bool dead;                     // removed from the module
  bool unsorted;                 // the list may hold a user before its operand
};

// The tables FileNames .. StackFrames of a module; ids are positions + 1.
typedef struct hlo_stack_frames {
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

// What a reader kept of its input beside the IR (proto/keep.h), and its way to copy that to a clone
// of the module: `instrs` and `comps` give the copies by the ids of the original.
struct hlo_proto_kept;
typedef void hlo_copy_kept(hlo_module *to, const hlo_module *from, hlo_instr *const *instrs,
                           hlo_computation *const *comps);

struct hlo_module {
  hlo_ctx *ctx;                             // interns its shapes and names; outlives it
  hs_arena arena;                           // everything without an arena of its own below
  hs_arena instrs;                          // hlo_instr, one after another
  hs_arena comps;                           // hlo_computation
  hs_arena uses;                            // operand slots
  hs_arena sets;                            // attribute sets
  const char *name;                         // interned
  hlo_computation *first, *last;            // live computations in text order
  u32 ncomputations;                        // how many
  u32 nops[HLO_OPCODE_COUNT];               // live instructions of each operation
  hlo_computation *entry;                   // where execution starts
  const hlo_attrs *attrs;                   // module attributes; NULL when none
  const hlo_stack_frames *frames;           // NULL when none
  u32 next_instr_id, next_comp_id;          // all ids are below these; size analyses by them
  u64 serial;                               // no other module of this process has it
  u64 generation;                           // grows with every edit
  u64 call_generation;                      // grows with every edit of who calls what
  u64 invalid_at;                           // 1 + the generation found invalid; 0: none
  struct hlo_journal *journal;              // uncommitted edits (journal.h)
  struct hlo_names *names;                  // instructions and computations by name (names.h)
  const struct hlo_proto_kept *proto_kept;  // NULL when it was not read from a proto
  hlo_copy_kept *copy_kept;                 // copies proto_kept; NULL when there is none
  const char *load_note;                    // what the reader had to leave out; NULL
};

// Whether the verifier has refused the module as it is now (hlo_mark_invalid). Passes, cost rules,
// the evaluator and the code generators take HLO's rules for granted and assert in checked builds
// that they are not given such a module; one that nobody has verified is the caller's promise.
static inline bool hlo_known_invalid(const hlo_module *m) {
  return m->invalid_at == m->generation + 1;
}
// Notes the verifier's answer for the module as it is now; the next edit ends it.
static inline void hlo_mark_invalid(hlo_module *m, bool invalid) {
  m->invalid_at = invalid ? m->generation + 1 : 0;
}

// ---- iterating ----------------------------------------------------------------------------------
// The instructions of a computation in list order; the body must not remove the one it is at.
#define hlo_for_each_instr(i, comp) for (hlo_instr *i = (comp)->first; i; i = i->next)
// The same where the body may remove or move the instruction it is at, but not the one after it.
#define hlo_for_each_instr_safe(i, comp)                                 \
  for (hlo_instr *i = (comp)->first, *i##_next_ = i ? i->next : NULL; i; \
       i = i##_next_, i##_next_ = i ? i->next : NULL)
// The live computations of a module in text order.
#define hlo_for_each_comp(c, m) for (hlo_computation *c = (m)->first; c; c = c->next)
// The uses of an instruction, in the order they were made.
#define hlo_for_each_use(u, i) for (hlo_use *u = (i)->first_use; u; u = u->next)

// ---- reading ------------------------------------------------------------------------------------
// Operand k; k < noperands.
static inline hlo_instr *hlo_operand(const hlo_instr *i, u32 k) { return i->operands[k].def; }
// The operand number of a use within its user.
static inline u32 hlo_slot(const hlo_use *u) { return (u32)(u - u->user->operands); }
// Whether it is a commutative operation on a and b, in either order.
static inline bool hlo_commutes_on(const hlo_instr *i, const hlo_instr *a, const hlo_instr *b) {
  if (i->noperands != 2 || !hlo_op_has(i->opcode, HLO_F_COMMUTATIVE)) return false;
  const hlo_instr *x = hlo_operand(i, 0), *y = hlo_operand(i, 1);
  return (x == a && y == b) || (x == b && y == a);
}
static inline bool hlo_is_root(const hlo_instr *i) { return i->parent->root == i; }
static inline bool hlo_is(const hlo_instr *i, hlo_opcode op) { return i->opcode == op; }
// Whether it has a control edge, in or out.
static inline bool hlo_is_controlled(const hlo_instr *i) { return i->ctrl_preds || i->nctrl_succs; }
// Whether it stems from that source id and no other.
static inline bool hlo_is_source(const hlo_instr *i, i64 source) {
  return i->provenance ? !i->provenance->a && (i64)i->provenance->source == source
                       : (i64)i->source == source + 1;
}
// Whether the module says that its instruction lists are schedules.
bool hlo_is_scheduled(const hlo_module *);

// An attribute; NULL when absent.
const hlo_attr *hlo_attr_get(const hlo_instr *, hlo_attr_id);
// Its value by kind. INT, BOOL, ENUM: `absent` when absent.
i64 hlo_attr_int(const hlo_instr *, hlo_attr_id, i64 absent);
i64 hlo_module_int(const hlo_module *, hlo_attr_id, i64 absent);  // of the module's header
// INTS: {0, NULL} when absent.
hlo_ints hlo_attr_ints(const hlo_instr *, hlo_attr_id);
// STRING: {"", 0} when absent.
hs_str hlo_attr_str(const hlo_instr *, hlo_attr_id);
// COMP: NULL when absent.
hlo_computation *hlo_attr_comp(const hlo_instr *, hlo_attr_id);
// Kinds with a struct: NULL when absent.
const void *hlo_attr_ptr(const hlo_instr *, hlo_attr_id);
// The literal of a constant, which may be elided; NULL for other instructions.
const hlo_literal *hlo_constant_value(const hlo_instr *);
// The number of a parameter; -1 for other instructions.
static inline i64 hlo_param_number(const hlo_instr *i) {
  return hlo_attr_int(i, HLO_ATTR_PARAMETER_NUMBER, -1);
}
// NULL when absent.
const hlo_metadata *hlo_metadata_of(const hlo_instr *);

// The computations an instruction calls, in XLA's order: how many, and the k-th (NULL only in a
// module that is not verified).
u32 hlo_ncalled(const hlo_instr *);
hlo_computation *hlo_called(const hlo_instr *, u32 k);
bool hlo_calls(const hlo_instr *, const hlo_computation *);
// The computation of a fusion, call, map, reduce...: `calls` or `to_apply`; NULL when neither.
hlo_computation *hlo_fusion_comp(const hlo_instr *);
// Whether a live fusion calls the computation.
static inline bool hlo_is_fusion_comp(const hlo_computation *c) { return c->nfusion_callers != 0; }
// XLA's HasSideEffect: its own effect or one of a computation it calls, at any depth.
bool hlo_has_side_effect(const hlo_instr *);
// Whether dead code elimination may drop it once it is unused (its users are not looked at).
bool hlo_is_removable(const hlo_instr *);

// By name, without '%', hashed; NULL when no live one has it.
hlo_instr *hlo_find_instr(const hlo_module *, const char *name);
hlo_computation *hlo_find_comp(const hlo_module *, const char *name);
// Instructions of all live computations.
u32 hlo_instr_count(const hlo_module *);
// Source ids of an instruction, ascending, each once. Sets share parts, and a leaf may be met many
// times: no more than `most` are looked at.
enum { HLO_MOST_ORIGINS = 100000 };
hlo_ints hlo_origins_collect(const hlo_instr *, u32 most, hs_arena *);
// Whether this is one of them, of the first HLO_MOST_ORIGINS.
bool hlo_stems_from(const hlo_instr *, u32 source);
// A hash of structure, shapes, attributes and literals; names and annotations are ignored.
u64 hlo_fingerprint(const hlo_module *);

// ---- orders -------------------------------------------------------------------------------------
// The instructions, operands and control predecessors first (XLA's MakeInstructionPostOrder);
// comp->ninstrs of them and a NULL behind.
hlo_instr **hlo_post_order(const hlo_computation *, hs_arena *);

// The positions of n instructions of one computation in an array, found by id: for tables whose
// size follows the computation, not the module.
typedef struct hlo_positions {
  u32 low, factor, shift, mask;  // slot of an id: ((id - low) * factor >> shift) & mask
  struct hlo_position {
    u32 id1, position;  // id + 1; 0: free
  } * slots;
} hlo_positions;
hlo_positions hlo_positions_in(u32 n, hlo_instr *const *order, hs_arena *);
// UINT32_MAX for an instruction that is not among them.
static inline u32 hlo_position_of(const hlo_positions *p, const hlo_instr *i) {
  u32 at = ((i->id - p->low) * p->factor >> p->shift) & p->mask;
  while (p->slots[at].id1 != i->id + 1) {
    if (!p->slots[at].id1) return UINT32_MAX;
    at = (at + 1) & p->mask;
  }
  return p->slots[at].position;
}

// All instructions of operations that may call computations, and what they call. Those of the
// computation with id c are v[first[c]] to v[end[c] - 1], in list order; v[k] calls
// callees[k].v[0 .. callees[k].n), of which some may be NULL in a module that is not verified.
typedef struct hlo_callees {
  u32 n;
  hlo_computation **v;
} hlo_callees;
typedef struct hlo_call_list {
  u32 n;
  hlo_instr **v;
  hlo_callees *callees;
  u32 *first, *end;
} hlo_call_list;
hlo_call_list hlo_find_calls(const hlo_module *, hs_arena *);
// How many instructions call each computation (one that names it twice counts twice): element 0 is
// the number of ids counted, element 1 + id the count.
u32 *hlo_count_callers(const hlo_module *, const hlo_call_list *, hs_arena *);

// The live computations in the order of XLA's MakeComputationPostOrder, which text and passes
// follow; *n of them. One that is called from two depths may come after a caller.
hlo_computation **hlo_comp_post_order(const hlo_module *, hs_arena *, u32 *n);
// The same with every computation after all that it calls.
hlo_computation **hlo_comp_callees_first(const hlo_module *, hs_arena *, u32 *n);
// E_LIMIT when the entry would have more than HLO_MAX_EXPANDED instructions if each instruction
// that `copied` selects had its called computations to itself: 80 computations that call the one
// before twice stand for 2^80. Who copies along paths of calls asks before; `who` begins the
// message.
#define HLO_MAX_EXPANDED (1 << 22)
hs_status hlo_check_expansion(const hlo_module *, bool (*copied)(const hlo_instr *),
                              const char *who);
// Either order (strict: callees first), from a call list of the module as it is.
hlo_computation **hlo_order_comps(const hlo_module *, const hlo_call_list *, bool strict,
                                  hs_arena *, u32 *n);

// ---- building: modules and computations ---------------------------------------------------------
// An empty module of a context, which must outlive it.
hlo_module *hlo_module_new(hlo_ctx *, const char *name);
// NULL is fine.
void hlo_module_free(hlo_module *);
// A copy with the same names, order, attributes and provenance, and an empty journal; `name` NULL:
// the same.
hlo_module *hlo_module_clone(const hlo_module *, const char *name);

// Appends an empty computation; the name is made unique.
hlo_computation *hlo_add_computation(hlo_module *, const char *name);
// Removes a computation that nothing calls any more.
void hlo_remove_computation(hlo_computation *);
// The name is made unique.
void hlo_set_computation_name(hlo_computation *, const char *name);
void hlo_set_entry(hlo_module *, hlo_computation *);
// Sets or replaces a module attribute; arrays it points to must live in the module's arena.
void hlo_set_module_attr(hlo_module *, hlo_attr);
void hlo_remove_module_attr(hlo_module *, hlo_attr_id);
// The tables must live in the module's arena.
void hlo_set_stack_frames(hlo_module *, const hlo_stack_frames *);
// Copies the string.
void hlo_set_execution_thread(hlo_computation *, hs_str);
// Deep copy of a computation inside its module (called computations stay shared). `map` (may be
// NULL) receives old id -> new instruction; it has next_instr_id entries as of the call.
hlo_computation *hlo_clone_computation(hlo_computation *, const char *name, hlo_instr **map);
// Deep copy of a computation of another module of the same context, with all that it calls.
hlo_computation *hlo_clone_computation_into(hlo_module *, const hlo_computation *,
                                            const char *name);
// Edits a module until it is `target` (of the same context), names and order included.
void hlo_module_become(hlo_module *, const hlo_module *target);
// Room for so many names, before reading a large text. No edit.
void hlo_names_reserve(hlo_module *, size_t names);

// ---- building: instructions ---------------------------------------------------------------------
// Adds an instruction with n operands at the end of the list, or before `before`. The name is made
// unique in the module; NULL or "" derives it from the opcode. Attributes are set afterwards.
hlo_instr *hlo_add(hlo_computation *, hlo_opcode, const hlo_shape *, u32 n,
                   hlo_instr *const *operands, const char *name);
hlo_instr *hlo_add_before(hlo_instr *before, hlo_opcode, const hlo_shape *, u32 n,
                          hlo_instr *const *operands, const char *name);
// Takes the caller's reference to the literal.
hlo_instr *hlo_add_constant(hlo_computation *, hlo_literal *take, const char *name);
// Parameter `number`, counted from 0, below 2^24.
hlo_instr *hlo_add_parameter(hlo_computation *, i64 number, const hlo_shape *, const char *name);
// Element `index` of a tuple.
hlo_instr *hlo_add_gte(hlo_instr *tuple, i64 index);
hlo_instr *hlo_add_tuple(hlo_computation *, u32 n, hlo_instr *const *elems);
// `dims`: n dimensions of the result, one for each of the operand's.
hlo_instr *hlo_add_broadcast(hlo_instr *operand, const hlo_shape *, u32 n, const i64 *dims);
// A call by attribute `which`: HLO_ATTR_TO_APPLY or HLO_ATTR_CALLS.
hlo_instr *hlo_add_call(hlo_computation *, hlo_opcode op, const hlo_shape *, hlo_attr_id which,
                        hlo_computation *callee, u32 n, hlo_instr *const *operands);
// Same opcode, attributes and provenance on other operands and shape (NULL: the same), possibly in
// another computation of the module.
hlo_instr *hlo_clone_instr(hlo_computation *into, const hlo_instr *, const hlo_shape *, u32 n,
                           hlo_instr *const *operands);

// ---- editing ------------------------------------------------------------------------------------
void hlo_set_operand(hlo_instr *user, u32 slot, hlo_instr *def);
// All operands; their number may change.
void hlo_set_operands(hlo_instr *user, u32 n, hlo_instr *const *defs);
void hlo_set_shape(hlo_instr *, const hlo_shape *);
// The name is made unique.
void hlo_set_name(hlo_instr *, const char *name);
void hlo_set_root(hlo_computation *, hlo_instr *);
// Sets or replaces an attribute. The value is copied shallowly: arrays must live in the module's
// arena.
void hlo_set_attr(hlo_instr *, hlo_attr);
void hlo_set_attr_int(hlo_instr *, hlo_attr_id, i64);
// These two copy the array, the string.
void hlo_set_attr_ints(hlo_instr *, hlo_attr_id, u32 n, const i64 *);
void hlo_set_attr_str(hlo_instr *, hlo_attr_id, hs_str);
void hlo_set_attr_comp(hlo_instr *, hlo_attr_id, hlo_computation *);
void hlo_set_attr_ptr(hlo_instr *, hlo_attr_id, const void *arena_value);
// All attributes at once, instead of the old ones; ordered by id, each once.
void hlo_set_attrs(hlo_instr *, u32 n, const hlo_attr *sorted);
void hlo_remove_attr(hlo_instr *, hlo_attr_id);
// Sets the text of a key of frontend_attributes, both copied; an empty one removes the key.
void hlo_set_frontend(hlo_instr *, const char *key, hs_str text);
// All attributes of an instruction of the same module.
void hlo_copy_attrs(hlo_instr *to, const hlo_instr *from);
// All control predecessors; copies the array.
void hlo_set_ctrl_preds(hlo_instr *, u32 n, hlo_instr *const *preds);
// Moves an instruction within its list; `before` NULL: to the end.
void hlo_move_before(hlo_instr *, hlo_instr *before);
// Puts the list into this order of all ninstrs instructions.
void hlo_reorder(hlo_computation *, hlo_instr *const *order);
// Puts operands and control predecessors before their users in the list, moving as few instructions
// as it can; cheap where the order is right already.
void hlo_put_in_order(hlo_computation *);
// Removes the parameters that are not kept, all of them unused, and renumbers the others; without
// `keep` those that are neither used nor the root.
void hlo_keep_parameters(hlo_computation *, const bool *keep);
void hlo_remove_parameter(hlo_computation *, i64 number);

// ---- provenance ---------------------------------------------------------------------------------
// Adds the sources of `from` to those of `to`.
void hlo_add_provenance(hlo_instr *to, const hlo_instr *from);
// After loading: an instruction without provenance becomes its own source; one, or all of a module.
// No edit.
void hlo_mark_source(hlo_instr *);
void hlo_mark_sources(hlo_module *);

// ---- replacing and removing ---------------------------------------------------------------------
// All uses of `old` (root and control edges too) become uses of `now`; provenance of old joins
// now's; metadata is handed over when now has none. `old` stays, unused.
void hlo_replace_uses(hlo_instr *old, hlo_instr *now);
// hlo_replace_uses, then removes `old` and every operand chain that thereby becomes dead and
// removable.
void hlo_replace(hlo_instr *old, hlo_instr *now);
// Removes an instruction without uses that is not the root.
void hlo_remove(hlo_instr *);
// Removes it if it is unused and removable, and then its operands by the same rule.
void hlo_remove_dead(hlo_instr *);

// ---- versions -----------------------------------------------------------------------------------
// The journal holds the edits since the last commit. A commit hands them out as a delta; deltas are
// undone and redone whole, in strict sequence.
typedef struct hlo_delta hlo_delta;
// The present position in the uncommitted journal.
size_t hlo_journal_mark(const hlo_module *);
// Undoes uncommitted edits back to a mark.
void hlo_journal_rollback(hlo_module *, size_t mark);
bool hlo_changed_since(const hlo_module *, size_t mark);
// Calls fn for each instruction that uncommitted edits since the mark were about, some several
// times: made, removed, with other operands, users, attributes or shape. Names and provenance do
// not count.
void hlo_edited_since(const hlo_module *, size_t mark, void (*fn)(void *arg, hlo_instr *),
                      void *arg);
// The uncommitted edits as a version of their own, owned by the caller; NULL when there are none.
hlo_delta *hlo_commit(hlo_module *);
// Undoes what was not committed.
void hlo_abort(hlo_module *);
void hlo_delta_undo(hlo_module *, hlo_delta *);
void hlo_delta_redo(hlo_module *, hlo_delta *);
size_t hlo_delta_bytes(const hlo_delta *);
void hlo_delta_free(hlo_module *, hlo_delta *);  // NULL is fine
// A module that nobody will undo (a scratch clone) can do without a journal...
void hlo_journal_disable(hlo_module *);
// ...and record again, with nothing to undo before this point.
void hlo_journal_enable(hlo_module *);

#endif
