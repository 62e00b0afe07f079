// gen.h — random HLO modules for comparing backends: all opcodes, random shapes, types and
// attributes; a seed gives the same text for ever.
//
// Two correct compilers agree on a random program only as far as rounding lets them, so every value
// carries what is known of it: the interval it lies in and how far two right answers may be apart.
// Operations that turn a small difference into a large one (comparisons, rounding to integers,
// sorting) take values without any; functions take operands from where they are tame, clamped if
// need be. What is left over at the end is the tolerance of each result.
#ifndef TESTS_GEN_H
#define TESTS_GEN_H

#include "core/types/dtype.h"

enum { GEN_MAX_RANK = 5, GEN_MAX_ELEMENTS = 1500 };

typedef struct gen_value {
  char name[16];
  hlo_dtype type;
  u32 rank;
  i64 dims[GEN_MAX_RANK];
  double lo, hi;  // of every element (complex: of each part)
  double err;     // right answers differ by at most this when the value is looked at
  // and by at most this when it is used: fused code may skip a rounding. Not below err
  double soft;
  bool integral;  // whole numbers, exactly representable
  bool used;
} gen_value;

typedef struct gen {
  u64 state;
  hs_buf body, regions, args;
  HS_VEC(gen_value *) values;
  HS_VEC(char *) region_names;
  u32 nparams, nregions, next, ops;
  hs_buf used;  // opcodes, separated by spaces
  bool failed;  // could not be built after all
} gen;

typedef struct gen_module {
  char *text;  // the module; comment lines hold the .args formula and the tolerances
  char *args;  // the formula alone
  u32 nouts;
  double *tolerance;  // absolute, per leaf of the result
  char *opcodes;
} gen_module;
// `only`: the first operation is of this family (a row of gen_ops.def); NULL: any.
void gen_make(u64 seed, const char *only, gen_module *out);
// What passes feed on, most of it in patterns that they look for (gen_patterns.c) between the
// operations above.
void gen_make_for_passes(u64 seed, gen_module *out);
void gen_free(gen_module *);
extern const char *const gen_families[];
extern const u32 gen_family_count;

// ---- for the families (gen_*.c) -----------------------------------------------------------------
u32 gen_below(gen *, u32 n);  // uniform in [0, n)
bool gen_chance(gen *, u32 percent);
double gen_eps(hlo_dtype);                              // distance from 1 to the next number
double gen_type_lo(hlo_dtype), gen_type_hi(hlo_dtype);  // of integers; pred: 0, 1
i64 gen_count(const gen_value *);
double gen_magnitude(const gen_value *);  // largest absolute value
hlo_dtype gen_float(gen *);               // f32, f64, bf16 or f16
hlo_dtype gen_int(gen *);                 // of any width, signed or not
// what data movement may carry, complex and 8-bit floats too
hlo_dtype gen_any_type(gen *);
void gen_dims(gen *, u32 rank, i64 *dims);  // small, sometimes 1, rarely 0

typedef enum gen_want { GEN_ANY, GEN_EXACT, GEN_INTEGRAL } gen_want;
// An operand of this type and these dimensions: a value that exists, or a new parameter.
gen_value *gen_operand(gen *, hlo_dtype, u32 rank, const i64 *dims, gen_want);
// Any value of the type: existing or new, of rank least..most.
gen_value *gen_of_type(gen *, hlo_dtype, u32 least, u32 most, gen_want);
gen_value *gen_parameter(gen *, hlo_dtype, u32 rank, const i64 *dims, double lo, double hi,
                         bool integral);
// itself when it lies inside already
gen_value *gen_clamped(gen *, gen_value *, double lo, double hi);
// Writes "NAME = SHAPE opcode(...)..." where `call` is what stands after the shape; the first word
// is the opcode. The value has type and dims of `like`, and its range, errors and exactness.
gen_value *gen_put(gen *, const gen_value *like, const char *call, ...) HS_PRINTF(3, 4);
// like[n]; the value is unusable but by gen_element
gen_value *gen_put_tuple(gen *, u32 n, const gen_value *like, const char *call, ...)
    HS_PRINTF(4, 5);
gen_value *gen_element(gen *, gen_value *tuple, u32 index, const gen_value *like);
gen_value gen_shape_of(hlo_dtype, u32 rank, const i64 *dims);
void gen_note_opcode(gen *, const char *);
// Text pieces; live until the next few calls.
const char *gen_shape_text(const gen_value *);
const char *gen_ints(u32 n, const i64 *);
const char *gen_perm(gen *, u32 n, i64 *perm);  // a random permutation, also as text
// A scalar computation (x, y) -> op(x, y) by name; the same one for the same question.
const char *gen_reducer(gen *, const char *op, hlo_dtype);
// A fresh region: its text is appended to g->regions by the caller; gives its name.
const char *gen_region_name(gen *);
gen_value *gen_scalar_constant(gen *, hlo_dtype, double);
// How far sums of n such values may be apart.
double gen_sum_error(const gen_value *, i64 n);

// Families: each tries to add its operation and gives false when the state does not allow it.
typedef bool gen_family(gen *);
#define GEN_FAMILY(name, weight) gen_family gen_##name;
#include "tests/random/gen_ops.def"
#undef GEN_FAMILY
// The patterns, and how many they are: one of them at random.
gen_family gen_pattern;

#endif
