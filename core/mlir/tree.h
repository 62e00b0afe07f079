// tree.h — what a text of MLIR is before it becomes HLO: operations with operands, results,
// attributes and regions. Private to core/mlir.
//
// The tree lives in one arena and points into the text: an attribute is its name and the span of
// its value, read when a rule asks for it (attr.c), so that the attributes nobody needs cost a
// scan. Types are interned shapes at once. Errors go to the cursor (core/text/lex.h), which still
// knows the line of every span.
//
// Order of the files, each calling only those before it:
//   scan, types, attr, dense, loc     characters and values
//   parse, parse_pretty, bytecode*    the tree
//   constant, constant_ops            operations on constants
//   canonical, fold                   operations that are simpler ones, or one of their operands
//   emit                              HLO instructions with their metadata
//   rules*                            what an operation becomes
//   sizes, convert                    stated sizes; regions, functions, the module
//   print, portable                   out again: as text, as bytecode
#ifndef HLO_MLIR_TREE_H
#define HLO_MLIR_TREE_H

#include "core/mlir/mlir.h"
#include "core/text/lex.h"

typedef struct mlir_op mlir_op;
typedef struct mlir_region mlir_region;
typedef struct mlir_value mlir_value;
typedef struct mlir_row mlir_row;

// A piece of the text.
typedef hs_str mlir_span;

typedef struct mlir_attr {
  hs_str name;
  mlir_span value;  // n 0: a unit attribute
} mlir_attr;

typedef struct mlir_attrs {
  u32 n;
  mlir_attr *v;
} mlir_attrs;

struct mlir_value {
  const hlo_shape *shape;  // NULL: HLO has no such type; `type` is its text
  mlir_span type;
  mlir_op *def;         // NULL: a region's argument
  mlir_region *region;  // of the argument, or of the operation that defines it
  u32 index;            // number of the result or of the argument
  u32 uses;             // counted by fold.c; in the end, among operations that stay
  mlir_span loc;        // of an argument
  mlir_attrs attrs;     // of a function's argument
  bool sized;           // of a function's argument that is a size: `size` is what it is called with
  i64 size;
  mlir_value *same;  // what simplification found it to be; NULL: itself
  u32 mark;          // the look for captured values that found it; in a file, its number
  // the instruction that it is in the computation being built
  hlo_instr *now;
};

struct mlir_op {
  hs_str name;  // with its dialect
  const mlir_row *row;
  const char *at;
  mlir_op *next, *prev;
  mlir_region *parent;
  u32 nops, nres, nregions;
  bool live;
  mlir_value **ops;
  mlir_value *res;  // one after another
  mlir_region **regions;
  mlir_attrs attrs;
  mlir_span loc;
  // of a constant, once it was read or computed; the reader's. A scalar stands for all elements.
  hlo_literal *literal;
};

struct mlir_region {
  mlir_op *first, *last;
  mlir_op *owner;
  mlir_region *parent;
  u32 nargs, depth;
  mlir_value *args;
};

// A function: its operation, region 0 of which is the body.
typedef struct mlir_func {
  hs_str name;
  mlir_op *op;
  bool is_private;
  mlir_attrs *results;  // attributes, one set per result
  u32 nresults;
  const hlo_shape **result_shapes;
  hlo_computation *comp;
  bool building;
} mlir_func;

// A name and what it stands for; open addressing, entries in order of definition so that the
// newest can be taken back when a region ends.
typedef struct mlir_name {
  hs_str text;
  void *what;
  u32 hash, count;
} mlir_name;
typedef struct mlir_names {
  u32 *slots;  // index + 1
  size_t cap;
  HS_VEC(mlir_name) v;
} mlir_names;

// A value's instruction before it was bound anew.
typedef struct mlir_binding {
  mlir_value *value;
  hlo_instr *was;
} mlir_binding;

typedef struct mlir_reader {
  hlo_lex lex;
  hlo_ctx *ctx;
  hlo_module *m;
  hs_arena arena;
  hlo_parse_options opt;
  mlir_names values, aliases, resources, types;
  mlir_names blobs;  // of bytecode: hs_str, bytes of constants by name
  HS_VEC(mlir_func *) funcs;
  mlir_names func_names;
  HS_VEC(mlir_value *) operands;  // stacks of the parser
  HS_VEC(mlir_attr) attrs;
  HS_VEC(const char *) order;
  HS_VEC(hlo_literal *) literals;  // of constants
  mlir_names constants;            // of the function being simplified, by shape and hash
  mlir_region *region;             // being read
  mlir_attrs module_attrs;
  hs_str module_name;
  hlo_computation *comp;       // being built
  HS_VEC(mlir_binding) bound;  // what `now` was before, newest last
  u32 looks;                   // at values, of the question that known.c answers
  u32 serial;                  // of the latest look for captured values
  const mlir_op *op;           // being converted: where errors are
  const hlo_metadata *meta;    // its metadata
} mlir_reader;

#define RX (&R->lex)

// Words of a table's list, with blanks between them.
static inline hs_str mlir_next_word(const char **list) {
  const char *p = *list + strspn(*list, " ");
  size_t n = strcspn(p, " ");
  *list = p + n;
  return (hs_str){p, n};
}
static inline bool mlir_in_list(const char *list, hs_str word) {
  for (hs_str w; (w = mlir_next_word(&list)).n;)
    if (hs_str_eq(w, word)) return true;
  return false;
}

// ---- the table ----------------------------------------------------------------------------------
// How an attribute's value becomes HLO's.
typedef enum mlir_how {
  MLIR_END,
  MLIR_INT,
  MLIR_BOOL,
  MLIR_INT32,  // as INT, printed as i32
  MLIR_INTS,
  MLIR_DIM,       // one integer, in HLO a list
  MLIR_ENUM,      // the last word of the value is the text of HLO's
  MLIR_RNG_ENUM,  // ... behind "rng_", in small letters
  MLIR_FLOAT,
  MLIR_PRECISION,
  MLIR_STRING,
} mlir_how;
// One attribute: its names in the text, pretty and generic ("dims|permutation"; "a.b" is key b of
// the struct a), and the attribute that it becomes.
typedef struct mlir_row_attr {
  const char *names;
  hlo_attr_id id;
  mlir_how how;
} mlir_row_attr;
typedef bool mlir_rule(mlir_reader *, mlir_op *);
// What is special about reading the pretty form.
typedef enum mlir_form {
  MLIR_LIST,     // items in any order: %operands, name = value, words, symbols
  MLIR_REDUCE,   // (%a init: %b), ... applies OP across dimensions = [..], or a reducer
  MLIR_WHILE,    // (%x = %a, ...) : types cond {..} do {..}
  MLIR_REGIONS,  // (%a) name=value inits(%b) (%x: T) {..} : types, in any order
  MLIR_FUNC,
  MLIR_MODULE,
} mlir_form;
enum {
  MLIR_F_EFFECT = 1,       // stays though nobody uses its results
  MLIR_F_NO_RESULT = 2,    // the pretty form's types are the operands'
  MLIR_F_COMMUTES = 4,     // a constant operand comes last
  MLIR_F_NOT_PRINTED = 8,  // another row prints its opcode
  MLIR_F_ALL_RESULTS = 16  // the pretty form's types are the results', one each
};
struct mlir_row {
  const char *name;  // with its dialect
  hlo_opcode opcode;
  mlir_rule *rule;
  mlir_form form;
  u32 flags;
  const mlir_row_attr *attrs;  // ends with MLIR_END
};
// The row of an operation; NULL when there is none.
const mlir_row *mlir_find_row(hs_str name);
// The row by which an opcode is printed; NULL when StableHLO has no such operation.
const mlir_row *mlir_printed_row(hlo_opcode);
// The nearest operation's name, for messages; NULL.
const char *mlir_nearest_row(hs_str name);

// ---- scan.c -------------------------------------------------------------------------------------
// [A-Za-z_$0-9.]+ behind blanks; empty when there is none.
hs_str mlir_word(hlo_lex *);
// The next value's text without reading it: numbers, strings, words, symbols, brackets of all kinds
// with what belongs to them ("[0] x [1]", "dense<..> : type" when `typed`).
bool mlir_skip_value(hlo_lex *, bool typed, mlir_span *out);
// Past a balanced bracket at the cursor.
bool mlir_skip_balanced(hlo_lex *);
// The text of a string with its escapes (\n, \t, \\, \", \XX) resolved, into the arena.
bool mlir_string(hlo_lex *, hs_str *out);
// '@' name, or '@' string
bool mlir_symbol(hlo_lex *, hs_str *out);
void *mlir_names_find(const mlir_names *, hs_str, u32 *count);
// False: it is there already.
bool mlir_names_add(mlir_names *, hs_str, void *what, u32 count);
void mlir_names_cut(mlir_names *, size_t n);  // takes back all but the first n
void mlir_names_free(mlir_names *);

// ---- types.c ------------------------------------------------------------------------------------
// A type at the cursor. *shape NULL: a type that HLO does not have.
bool mlir_type(mlir_reader *, const hlo_shape **shape, mlir_span *text);
typedef struct mlir_typed {
  const hlo_shape *shape;
  mlir_span text;
} mlir_typed;
typedef HS_VEC(mlir_typed) mlir_types;
// (T, T), or T
bool mlir_type_list(mlir_reader *, mlir_types *out);
hlo_dtype mlir_dtype(hs_str word);

// ---- attr.c -------------------------------------------------------------------------------------
// The value of the first of these names that the operation has ("dims|permutation", "struct.key");
// false when it has none.
bool mlir_get(mlir_reader *, const mlir_attrs *, const char *names, mlir_span *out);
static inline bool mlir_has(mlir_reader *R, const mlir_attrs *a, const char *names) {
  mlir_span s;
  return mlir_get(R, a, names, &s);
}
// Values of spans; false after an error. `out` lies in the module's arena.
bool mlir_ints_of(mlir_reader *, mlir_span, hlo_ints *out, hlo_ints *dims);
bool mlir_int_of(mlir_reader *, mlir_span, i64 *out);
bool mlir_float_of(mlir_reader *, mlir_span, double *out);
bool mlir_string_of(mlir_reader *, mlir_span, hs_str *out);
hs_str mlir_enum_of(mlir_span);  // its last word
// The elements of "[a, b]", each a span; of "{a = 1, b}", each with its name.
bool mlir_array_of(mlir_reader *, mlir_span, u32 *n, mlir_span **out);
bool mlir_dict_of(mlir_reader *, mlir_span, mlir_attrs *out);
// The same with the lookup; absent: *out stays.
bool mlir_get_ints(mlir_reader *, const mlir_op *, const char *names, hlo_ints *out);
bool mlir_get_int(mlir_reader *, const mlir_op *, const char *names, i64 *out);
bool mlir_get_string(mlir_reader *, const mlir_attrs *, const char *names, hs_str *out);
// A span that is an alias (#name) is replaced by what it stands for.
mlir_span mlir_unalias(mlir_reader *, mlir_span);
// Reads inside a span: the cursor moves there until mlir_leave.
typedef struct mlir_place {
  const char *p, *end;
} mlir_place;
mlir_place mlir_enter(mlir_reader *, mlir_span);
void mlir_leave(mlir_reader *, mlir_place);

// ---- dense.c ------------------------------------------------------------------------------------
// The literal of a value dense<..>, dense_resource<..> or a number, of a shape; a new reference.
bool mlir_dense(mlir_reader *, mlir_span, const hlo_shape *, hlo_literal **out);

// ---- loc.c --------------------------------------------------------------------------------------
// What a location says; NULL when nothing.
const hlo_metadata *mlir_metadata(mlir_reader *, mlir_span loc);

// ---- parse.c ------------------------------------------------------------------------------------
bool mlir_read_module(mlir_reader *);
bool mlir_read_op(mlir_reader *);
// Sets the row of a new operation by its name; false: there is none, and the error says so.
bool mlir_find_op_row(mlir_reader *, mlir_op *, const char *at);
// {a = 1, b}: appended to R->attrs
bool mlir_read_dict(mlir_reader *);
bool mlir_read_operand(mlir_reader *, mlir_value **out);
// '{' operations '}' of a region whose arguments are declared already, or by ^bb0(..)
bool mlir_read_region(mlir_reader *, mlir_region *);
mlir_region *mlir_new_region(mlir_reader *, mlir_op *owner);
bool mlir_declare(mlir_reader *, const char *at, hs_str name, mlir_value *, u32 count);
void mlir_set_args(mlir_reader *, mlir_region *, u32 n, const mlir_value *);
void mlir_set_operands(mlir_reader *, mlir_op *, size_t from);
void mlir_set_attrs(mlir_reader *, mlir_attrs *, size_t from);
void mlir_set_results(mlir_reader *, mlir_op *, u32 n, const mlir_typed *);
mlir_op *mlir_new_op(mlir_reader *, hs_str name, const char *at);
void mlir_append(mlir_region *, mlir_op *);
bool mlir_read_loc(mlir_reader *, mlir_span *out);
bool mlir_arguments(mlir_reader *, mlir_region *, bool attributes);
// So many results of a function, of these types and without attributes.
void mlir_set_func_results(mlir_reader *, mlir_func *, u32 n, const mlir_typed *);
// A function that was read; false: another one has its name.
bool mlir_add_func(mlir_reader *, mlir_func *, const char *at);
// bytecode.c: from the cursor, which is at the file's first byte
bool mlir_read_bytecode(mlir_reader *);
// parse_pretty.c: behind the operation's name
bool mlir_read_pretty(mlir_reader *, mlir_op *);

// The ranges of a slice of n dimensions, pretty or generic (rules.c); limit may be NULL.
bool mlir_slice_ranges(mlir_reader *, const mlir_op *, u32 n, i64 *start, i64 *limit, i64 *stride);

// ---- constant.c, constant_ops.c -----------------------------------------------------------------
// The literal of a value that is a constant, borrowed, a scalar where all elements are equal; NULL
// for any other value, and after an error.
const hlo_literal *mlir_constant_of(mlir_reader *, mlir_value *);
static inline bool mlir_is_constant(const mlir_value *v) {
  return v->def && v->def->row->opcode == HLO_CONSTANT;
}
// Makes the operation that constant; takes the reference.
void mlir_make_constant(mlir_reader *, mlir_op *, hlo_literal *take);
// Replaces an operation on constants by its value where XLA's conversion does; false: not.
bool mlir_fold_constant(mlir_reader *, mlir_op *);
// The first equal constant of the function stands for the operation's result.
void mlir_share_constant(mlir_reader *, mlir_op *);
// Whether a value is that number in all of its elements.
bool mlir_is_number(mlir_reader *, mlir_value *, double);

// ---- canonical.c --------------------------------------------------------------------------------
// Replaces an operation by a simpler one, or its result by another value, as XLA's conversion does;
// false: it stays.
bool mlir_canonicalize(mlir_reader *, mlir_op *);

// ---- fold.c -------------------------------------------------------------------------------------
static inline mlir_value *mlir_real(mlir_value *v) {
  while (v->same) v = v->same;
  return v;
}
// Simplifies the operations of a region, and marks those that stay.
bool mlir_simplify(mlir_reader *, mlir_region *);

// ---- sharding.c ---------------------------------------------------------------------------------
// HLO's sharding of an operation's, argument's or result's attributes, the framework's attributes
// of them; false: there are none, or an error.
bool mlir_sharding_of(mlir_reader *, const mlir_attrs *, hlo_attr *out);
bool mlir_frontend_of(mlir_reader *, const mlir_attrs *, hlo_attr *out);
// Attributes of the framework, copied and sorted; false: none.
bool mlir_frontend(mlir_reader *, u32 n, hlo_frontend_entry *, hlo_attr *out);
// Appends HLO's text of <@mesh, [{"x"}, {}]>.
bool mlir_sdy_sharding(mlir_reader *, mlir_span, hs_buf *);
// Appends the module's meshes as XLA keeps them; nothing when there are none.
void mlir_meshes(mlir_reader *, hs_buf *);

// ---- emit.c -------------------------------------------------------------------------------------
// An error at the operation being converted; always false.
bool mlir_fail(mlir_reader *, hs_code, const char *fmt, ...) HS_PRINTF(3, 4);
// What of a text can be a name in HLO: other characters become '_'; `absent` for an empty one.
hs_str mlir_plain_name(mlir_reader *, hs_str text, hs_str absent);
// The instruction of an operand in the computation being built; NULL after an error.
hlo_instr *mlir_operand(mlir_reader *, const mlir_op *, u32 k);
hlo_instr *mlir_value_instr(mlir_reader *, mlir_value *);
void mlir_bind(mlir_reader *, mlir_value *, hlo_instr *);
// Adds an instruction; the shape is inferred, and compared with `stated` (may be NULL). The
// attributes need not be sorted. NULL after an error.
hlo_instr *mlir_emit(mlir_reader *, hlo_opcode, const hlo_shape *stated, u32 n,
                     hlo_instr *const *ops, u32 nattrs, const hlo_attr *attrs);
// Several results: elements of the tuple, bound to the operation's results; one: itself.
bool mlir_bind_results(mlir_reader *, mlir_op *, hlo_instr *);
hlo_instr *mlir_gte(mlir_reader *, hlo_instr *tuple, u32 k);
hlo_instr *mlir_tuple(mlir_reader *, u32 n, hlo_instr *const *v);
const hlo_shape *mlir_result_shape(mlir_reader *, const mlir_op *);  // a tuple of several
bool mlir_check_shapes(mlir_reader *, const mlir_op *);
hlo_instr *mlir_constant(mlir_reader *, hlo_literal *take);
hlo_attr mlir_ints_attr(mlir_reader *, hlo_attr_id, u32 n, const i64 *);
// The attributes that the row names; HS_VEC of them.
typedef HS_VEC(hlo_attr) mlir_hlo_attrs;
bool mlir_row_attrs(mlir_reader *, const mlir_op *, mlir_hlo_attrs *out);
// ---- convert.c ----------------------------------------------------------------------------------
typedef HS_VEC(mlir_value *) mlir_values;
// The values from outside that the live operations of a region use, constants apart, in order of
// first use; appended, each once per list (serial: see mlir_reader).
bool mlir_captured(mlir_reader *, mlir_region *, mlir_values *out);
// The computation of a region. PLAIN: a parameter for each argument. TUPLED: one parameter, which
// is the arguments and captured values, a tuple unless there is one of them. LOOP_BODY: the same,
// and what is captured is handed on behind the results. NULL after an error.
typedef enum mlir_shape_of { MLIR_PLAIN, MLIR_TUPLED, MLIR_LOOP_BODY } mlir_shape_of;
hlo_computation *mlir_build_region(mlir_reader *, mlir_region *, const mlir_values *captured,
                                   mlir_shape_of);
hlo_computation *mlir_build_func(mlir_reader *, mlir_func *);
bool mlir_convert(mlir_reader *);

// ---- sizes.c ------------------------------------------------------------------------------------
// Gives the entry's arguments the sizes that the options state; false after an error.
bool mlir_state_sizes(mlir_reader *, mlir_func *);
// Whether a shape is of a type as written, where '?' is any size.
bool mlir_is_of_type(const hlo_shape *, const hlo_shape *written);
// The value's shape becomes this one when it is open and this one is of its type.
void mlir_take_shape(mlir_value *, const hlo_shape *);
// A function's arguments become of the shapes of the call's operands, sizes of their numbers; false
// after an error: it has been converted for others.
bool mlir_take_arguments(mlir_reader *, mlir_func *, const mlir_op *call);

// ---- read.c -------------------------------------------------------------------------------------
// Reads a text and hands its tree to `use`, which returns false where it recorded an error.
hs_status mlir_read_tree(hlo_ctx *, const char *text, size_t n, const hlo_parse_options *,
                         bool (*use)(mlir_reader *, void *arg), void *arg);

#endif
