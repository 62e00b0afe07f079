// builder.h — the language of the prompt in which modules are built: HLO's own lines, and around
// them expressions. `y = exp(x - m) / s` is read from left to right, and each operation becomes an
// instruction as soon as it is read.
//
//   expression   a + b, a - b, a * b, a / b, a ** b, -a, a < b (<= > >= == !=), (a), t{0}
//   call         NAME(a, b, key=value): an operation, a short name (names.def), an element type
//                (a convert) or a computation (a call); [SHAPE] NAME(...), key=value as in HLO
//   literal      0, 1.5, -inf, nan, true: of the type that the operation wants or that the other
//                operands have; alone s32, f32 or pred; SHAPE 0 has a type of its own
//
// Where an attribute wants a computation (to_apply=add), the name of an operation makes it.
//
// With `set infer on`, operands of elementwise operations are brought to one type and one shape:
// scalars take the type and the shape of the others; what stems from a reduce is broadcast along
// the dimensions that the reduce kept; else trailing dimensions align, and those of size 1 repeat.
// Where two ways fit and differ, E_AMBIGUOUS lists both.
//
// Nothing here commits: a command that fails is rolled back by its caller (command.c).
#ifndef REPL_BUILDER_H
#define REPL_BUILDER_H

#include "repl/shell/command.h"

// An operand: an instruction, or a literal of no type yet.
typedef enum build_kind {
  BUILD_INSTR,
  BUILD_INT,
  BUILD_DECIMAL,
  BUILD_INF,
  BUILD_NAN,
  BUILD_BOOL
} build_kind;
typedef struct build_value {
  build_kind kind;
  hlo_instr *i;      // BUILD_INSTR
  const char *text;  // of a literal, with its sign
  const char *at;    // where it stands in the line
} build_value;
typedef HS_VEC(build_value) build_values;

// An attribute as typed, of a call.
typedef struct build_key {
  const char *key, *value;
  const char *at;
} build_key;
typedef HS_VEC(build_key) build_keys;

// A name typed in the body of a computation.
typedef struct build_name {
  const char *name;
  hlo_instr *i;
} build_name;

// A reader of one text. `comp` is where instructions are added and whose names operands have.
typedef struct builder {
  hlo_module *m;
  hlo_computation *comp;
  hs_arena *scratch;
  bool infer;
  const char *text, *end, *p;
  u32 nesting, brackets;
  HS_VEC(hlo_instr *) made;  // by the text, in order
  // In the body of a computation names are as typed there, whatever the module's other computations
  // have: instructions are called COMPUTATION.NAME in the module, and are found by the name typed.
  bool local;
  HS_VEC(build_name) names;
} builder;

builder build_on(const repl_cmd *, hlo_computation *, const char *text, size_t n);
void build_free(builder *);

// ---- expr.c -------------------------------------------------------------------------------------
// Reads an expression to the end of the text, or to a `;` or an end of line outside of brackets.
// The result is an instruction that the text made, or one that it names. E_SYNTAX, E_NAME, E_OPCODE
// and the errors of the operations, with their place in the text.
hs_status build_expression(builder *, hlo_instr **out);
// Whether `text` is an instruction of HLO's own grammar, which core/text reads with its messages.
bool build_is_plain(const hlo_module *, const char *text, size_t n, bool infer);
// "NAME =", "%NAME :=": the name, and where the expression begins; false when the text is not so.
bool build_head(const char *text, size_t n, hs_str *name, size_t *rest);
// Bytes of the shape at the start of a text; 0 when there is none.
size_t build_shape_prefix(const char *text, const char *end);
// The instruction of the builder's computation that has this name; NULL when there is none.
hlo_instr *build_find(const builder *, const char *name);
// An error at a place of the text.
hs_status build_error(const builder *, hs_code, const char *at, const char *fmt, ...)
    HS_PRINTF(4, 5);
// What follows at b->p is no part of the expression before it; says how it is written here.
hs_status build_ended(const builder *);
// The error at a place of this builder's text instead of its own.
hs_status build_at(const builder *, hs_status, const char *at);

// ---- emit.c -------------------------------------------------------------------------------------
// Adds an operation: brings the operands to types and shapes that fit, makes the computations that
// attributes name, infers the shape unless it is given (NULL).
hs_status build_call(builder *, hlo_opcode, const char *shape, build_values *, build_keys *,
                     const char *at, hlo_instr **out);
// A literal as a constant scalar of the type, and any value as an instruction.
hs_status build_constant(builder *, const build_value *, hlo_dtype, hlo_instr **out);
hs_status build_settle(builder *, const build_value *, hlo_instr **out);
// Adds `[SHAPE] OPCODE(operands)ATTRS` under a name made from the opcode.
hs_status build_emit(builder *, const char *at, const char *shape, hlo_opcode, u32 n,
                     hlo_instr *const *operands, const char *attrs, hlo_instr **out);
// i as a value of another element type: itself when it has it.
hs_status build_convert(builder *, const char *at, hlo_instr *i, hlo_dtype, hlo_instr **out);

// ---- fit.c --------------------------------------------------------------------------------------
// The rules of `set infer on` for the operands of an elementwise operation, and literals' types
// always. The operands are instructions afterwards.
hs_status build_fit(builder *, hlo_opcode, build_values *, const char *at);

// ---- apply.c ------------------------------------------------------------------------------------
// The value of an attribute that names a computation: one of the module, one made from the name of
// an operation for these operands, or a copy for their type. *out is its name.
hs_status build_applied(builder *, hlo_opcode, const build_values *, const build_key *,
                        const char **out);
// The value of a constant, as another element type; a new reference.
hs_status build_literal_as(const builder *, const hlo_instr *, hlo_dtype, hlo_literal **out);
// The operation that a short name or an opcode means; `keys` gets the attribute that goes with it.
hlo_opcode build_function(hs_str name, const char **attribute);
// dims -> dimensions; anything else is itself.
const char *build_key_name(const char *key);
// Nearest of all names that NAME(...) may have; NULL when none is near.
const char *build_nearest(const builder *, const char *word);

// ---- block.c ------------------------------------------------------------------------------------
// The module's entry_computation_layout follows its entry, where it has one.
void build_follow_entry(hlo_module *);
// Whether a name may be given: E_NAME with the reason.
hs_status build_check_name(const char *name);
// Says the instructions that an expression made, the result last.
void build_say(repl_cmd *, const builder *, const hlo_instr *result);

#endif
