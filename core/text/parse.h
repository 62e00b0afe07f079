// parse.h — what the files of the text parser share (parse*.c); private to them.
//
// The module is built through ir.h while reading. What one instruction collects (operands,
// attributes) is on stacks in the parser, not in C frames, so that nesting costs little C stack.
// Attribute values go straight into the module's arena. Readers return false after an error, which
// is then recorded in the cursor (lex.h).
//
// Order of the files, each calling only those before it:
//   lex, parse_memo      characters; values already read, by their text
//   parse_lists, parse_shape, parse_literal, parse_annotation, parse_sharding, parse_window,
//   parse_frames         values
//   parse_names          what a name refers to
//   parse_attr           any attribute value; a computation written inline it hands to parse
//   parse_async, parse_op, parse_instr     instructions
//   parse                computations, the module
#ifndef HLO_PARSE_H
#define HLO_PARSE_H

#include "core/ir/load.h"
#include "core/text/lex.h"
#include "core/text/print.h"
#include "core/verify/verify.h"

// A name in scope that the module's table of names does not resolve (parse_names.c). Scopes nest
// (inline computations); a shadowed entry is restored when its scope ends. Open addressing: the
// table has small slots (hash and index), the bindings are an array beside it.
typedef struct hlo_binding {
  hs_str name;
  void *what;
  u32 scope;
  bool poisoned;
} hlo_binding;
// at: index + 1 in v, 0 empty
typedef struct hlo_bind_slot {
  u32 hash, at;
} hlo_bind_slot;
typedef struct hlo_shadow {
  u32 at;
  hlo_binding was;
} hlo_shadow;
typedef struct hlo_bindings {
  hlo_bind_slot *slots;
  size_t cap;
  HS_VEC(hlo_binding) v;
  HS_VEC(hlo_shadow) shadowed;
} hlo_bindings;

// Values already read, by their exact text: shapes and attribute values repeat a lot.
typedef struct hlo_memo {
  struct hlo_memo_entry *v;
  size_t cap;
} hlo_memo;

// of a computation made for X-start
typedef struct hlo_wrapped {
  hlo_instr *root;
  const char *at;
} hlo_wrapped;

// where the text of a computation begins
typedef struct hlo_head {
  const hlo_computation *comp;
  const char *at;
} hlo_head;

typedef struct hlo_parser {
  hlo_lex lex;
  hlo_ctx *ctx;
  hlo_module *m;
  hlo_parse_options opt;
  hlo_computation *comp;  // being filled
  u32 scope, next_scope, inline_depth;
  hlo_bindings instrs, comps;
  HS_VEC(hlo_instr *) operands;      // stack
  HS_VEC(hlo_attr) attrs;            // stack
  HS_VEC(const hlo_shape *) shapes;  // stack
  HS_VEC(i64) ints;                  // scratch, reset by its user
  hlo_memo memo, shape_memo;
  bool single;         // a single instruction: unknown names become parameters
  bool unmarked;       // instructions were made that are not marked as sources yet
  bool into;           // adding to a computation made by hand
  bool values_inside;  // values with memory that did not end their line have been seen
  HS_VEC(hlo_instr *) ctrl;
  HS_VEC(hlo_wrapped) wrapped;
  HS_VEC(hlo_computation *) finished;  // in the order in which they ended
  HS_VEC(hlo_head) heads;              // of computations in text order
  bool nested;                         // computations began inside others
  HS_VEC(hlo_metadata *) framed;       // metadata with stack frame ids, in text order
} hlo_parser;

#define LX (&P->lex)

// parse_memo.c
static inline u32 hlo_memo_hash(const char *p, size_t n) { return (u32)hs_hash_bytes(p, n, 0); }
void hlo_memo_init(hlo_memo *, size_t lines);  // for a text of so many lines
// NULL when the text was not read before
const void *hlo_memo_get(const hlo_memo *, u32 hash, u32 kind, const char *p, size_t n);
void hlo_memo_put(hlo_memo *, u32 hash, u32 kind, const char *p, size_t n, const void *value);
// parse_shape.c: a shape with its layout; NULL when an error was recorded
const hlo_shape *hlo_read_shape(hlo_parser *P);
// a shape whose text at the cursor was read before; else NULL, and the cursor stays
const hlo_shape *hlo_recall_shape(hlo_parser *P);
bool hlo_shape_follows(hlo_parser *P);  // does a shape start at the cursor?
// parse_literal.c
bool hlo_read_literal(hlo_parser *P, const hlo_shape *, hlo_literal **out);
// parse_sharding.c
bool hlo_read_sharding(hlo_parser *P, const hlo_sharding **out);
bool hlo_read_replica_groups(hlo_parser *P, const hlo_replica_groups **out);
// parse_attr.c: the value behind "name=" of an instruction or module attribute
bool hlo_read_attr(hlo_parser *P, hlo_attr *a);
// parse_lists.c: lists in braces; copied into the arena
bool hlo_read_ints(hlo_parser *P, char open, char close, hlo_ints *out);
bool hlo_read_bools(hlo_parser *P, hlo_ints *out);  // one may stand without braces
bool hlo_read_int_lists(hlo_parser *P, hlo_int_lists *out);
bool hlo_read_pairs(hlo_parser *P, hlo_ints *out);   // out->n pairs, 2 * out->n integers
bool hlo_read_index(hlo_parser *P, hlo_ints *out);   // {0,1}: an index into a tuple shape
hlo_ints hlo_keep_ints(hlo_parser *P, size_t mark);  // moves P->ints from mark into the arena
// parse_window.c: values with one entry per dimension
bool hlo_read_slices(hlo_parser *P, const hlo_slices **out);
bool hlo_read_padding(hlo_parser *P, const hlo_padding **out);
bool hlo_read_window(hlo_parser *P, const hlo_window **out);
bool hlo_read_dim_labels(hlo_parser *P, const hlo_dim_labels **out);
// parse_annotation.c: values that say nothing about the meaning, and the tables that metadata
// points into
bool hlo_read_metadata(hlo_parser *P, const hlo_metadata **out);
bool hlo_read_frontend(hlo_parser *P, const hlo_frontend **out);
bool hlo_read_statistics(hlo_parser *P, const hlo_statistics **out);
bool hlo_read_i32(hlo_parser *P, i32 *out);
bool hlo_read_origin(hlo_parser *P, const hlo_origin **out);
bool hlo_read_backend_config(hlo_parser *P, const hlo_backend_config **out);
// parse_frames.c
bool hlo_read_frames(hlo_parser *P);  // FileNames .. StackFrames
// At the end of the module: the frames are renumbered in order of first use.
void hlo_settle_frames(hlo_parser *P);
// parse.c
bool hlo_read_comp(hlo_parser *P,
                   hlo_computation **out);  // name of a computation, or an inline one
// parse_names.c
void *hlo_lookup(hlo_bindings *, u32 scope, hs_str name, bool *poisoned);
// false: taken in this scope
bool hlo_bind(hlo_bindings *, u32 scope, bool nested, hs_str name, void *what, bool poisoned);
void hlo_unshadow(hlo_bindings *, size_t mark);
void hlo_bindings_free(hlo_bindings *);
// The instruction that has this very name in the computation being read, when the module's table of
// names knows.
static inline hlo_instr *hlo_unique_instr_(const hlo_parser *P, hs_str name) {
  const hlo_name_node *k = hlo_name_find_(P->m->names, name, hlo_name_hash_(name), false);
  if (!k || k->of.instr->parent != P->comp) return NULL;
  if (HS_UNLIKELY(P->into))
    return !k->of.instr->dead && k->of.instr->name == k->text ? k->of.instr : NULL;
  return k->derived ? NULL : k->of.instr;
}
// of the computation being read; NULL when there is none
hlo_instr *hlo_lookup_instr(hlo_parser *P, hs_str name, bool *poisoned);
// NULL: its definition failed; false: taken
bool hlo_bind_instr(hlo_parser *P, hs_str name, hlo_instr *);
// one that is read to its end; NULL when there is none
hlo_computation *hlo_lookup_comp(hlo_parser *P, hs_str name, bool *poisoned);
// at its end; NULL: it failed
void hlo_bind_comp(hlo_parser *P, hs_str name, hlo_computation *);
bool hlo_no_comp(hlo_parser *P, hs_str name);  // the error, with "did you mean"
// Fails without a message: the error was reported where the name was defined.
bool hlo_give_up(hlo_parser *P);
bool hlo_resolve(hlo_parser *P, hs_str name, hlo_instr **out);
bool hlo_read_instr_name(hlo_parser *P, hlo_instr **out);  // an instruction of the same computation
// parse_instr.c
// ROOT? name = rhs
bool hlo_read_instruction(hlo_parser *P, hs_str *name, bool *is_root, hlo_instr **out);
bool hlo_read_rhs(hlo_parser *P, hs_str name, bool with_attrs, hlo_instr **out);
bool hlo_shapes_agree(const hlo_shape *a, const hlo_shape *b);
// parse_op.c: checks and completes what was read, per opcode
typedef struct hlo_rhs {
  hlo_opcode op;
  const hlo_shape *shape;  // written shape; NULL when left out
  const char *at, *op_at;
  hs_str op_text;
  size_t operands, attrs, ctrl;  // marks on the parser's stacks
  hlo_literal *literal;          // constant
  i64 number;                    // parameter
  int sugar;                     // 0, or 's' 'u' 'd' for X-start, X-update, X-done of any opcode
} hlo_rhs;
bool hlo_complete_rhs(hlo_parser *P, hlo_rhs *r);
bool hlo_make_instr(hlo_parser *P, hlo_rhs *r, hs_str name, hlo_instr **out);
// parse_async.c: X-start, X-update, X-done for an opcode X without such forms of its own
bool hlo_async_opcode(hlo_rhs *r);
bool hlo_make_async(hlo_parser *P, hlo_rhs *r, const char *want, hlo_instr **out);
// E_ATTR at the opcode: the operation needs an attribute; a note shows where it stands.
bool hlo_missing_attr(hlo_parser *P, const hlo_rhs *r, hlo_attr_id id);
// The operand of an async-update or async-done: there is one, and it is no async-done.
bool hlo_check_async_operand(hlo_parser *P, const hlo_rhs *r, u32 n, hlo_instr *const *ops);
// ... and of the shape that a start or an update states.
bool hlo_check_async_state(hlo_parser *P, const hlo_rhs *r);
// what a link just read says of the operation behind it
void hlo_settle_async(hlo_instr *);
void hlo_check_wrapped(hlo_parser *P);

#endif
