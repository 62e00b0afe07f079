// literal.h — values: dense, logical row-major arrays (whatever the layout says), and tuples of
// them.
//
// Literals are reference counted and shared between module versions, sessions and runs; `data` may
// be owned, borrowed from a memory-mapped file or from shared memory (`unmap` is called on the last
// unref). Sub-byte types are stored one element per byte (sign-extended for s1..s4); pred is one
// byte, 0 or 1. A literal is immutable once it is shared. `elided` stands for the text {...}: a
// shape without a value.
#ifndef HLO_LITERAL_H
#define HLO_LITERAL_H

#include "core/types/shape.h"

typedef struct hlo_literal hlo_literal;
struct hlo_literal {
  int refs;
  bool elided;
  const hlo_shape *shape;  // layout kept for printing and protos only
  // arrays: elements * storage bytes; NULL for tuples, tokens and elided ones
  void *data;
  size_t bytes;
  u32 nchildren;
  hlo_literal **children;  // tuples
  i32 *dynamic_sizes;      // per dimension of a dynamic shape, else NULL
  // NULL: data is hs_alloc'ed
  void (*unmap)(void *data, size_t bytes, void *arg);
  void *unmap_arg;
};

// zero-filled, tuples recursively; E_NO_MEMORY / E_LIMIT
hs_status hlo_literal_new(const hlo_shape *, hlo_literal **out);
// A tuple of n values; takes the children's references.
hlo_literal *hlo_literal_tuple(const hlo_shape *, u32 n, hlo_literal *const *children);
// An array over bytes that somebody else made; unmap(data, bytes, arg) is called on the last unref.
hlo_literal *hlo_literal_wrap(const hlo_shape *, void *data, size_t bytes,
                              void (*unmap)(void *, size_t, void *), void *arg);
// A value printed as {...}.
hlo_literal *hlo_literal_elided(const hlo_shape *);
// One more reference, and one less; the last one frees. NULL is allowed.
hlo_literal *hlo_literal_ref(const hlo_literal *);
void hlo_literal_unref(hlo_literal *);
// Frees an hs_alloc'ed array of values, each with its reference; entries may be NULL.
void hlo_inputs_free(hlo_literal **values, u32 count);
// any integer/float/pred/complex type, converted
hlo_literal *hlo_literal_scalar_i64(hlo_ctx *, hlo_dtype, i64 v);
hlo_literal *hlo_literal_scalar_f64(hlo_ctx *, hlo_dtype, double v);
// Same logical shape, same bits.
bool hlo_literal_equal(const hlo_literal *, const hlo_literal *);
// Equal values have equal hashes.
u64 hlo_literal_hash(const hlo_literal *);
// Whether the value, or one within a tuple, is elided.
bool hlo_literal_has_elided(const hlo_literal *);

// Arrays with dynamic dimensions (bounded.c). The sizes in use, of every dimension, and their
// product.
i64 hlo_literal_sizes(const hlo_literal *array, i64 *sizes);
// Whether the element at a row-major index has a value; `strides`: hlo_row_major_strides.
bool hlo_literal_has_at(const hlo_literal *array, const i64 *strides, i64 at);
// Whether an array of a type may have these sizes: up to the bound where a dimension is dynamic.
bool hlo_shape_takes_sizes(const hlo_shape *, u32 rank, const i64 *sizes);
// Appends the elements in use, packed: side by side, row-major by their sizes.
void hlo_literal_put(hs_buf *, const hlo_literal *array);
// The other way: an array of a type that takes the sizes, with the elements that lie packed.
hs_status hlo_literal_of_sizes(const hlo_shape *, const i64 *sizes, const void *packed,
                               hlo_literal **out);
// The elements in use as an array of a static type; one more reference to what has no sizes.
hs_status hlo_literal_in_use(hlo_ctx *, const hlo_literal *array, hlo_literal **out);

// Element access by row-major index, through any type (complex: real part; ints as double may
// round).
double hlo_literal_f64(const hlo_literal *, i64 index);
i64 hlo_literal_i64(const hlo_literal *, i64 index);
void hlo_literal_set_f64(hlo_literal *, i64 index, double v);
void hlo_literal_set_i64(hlo_literal *, i64 index, i64 v);
// every element has the same bits (and there is one)
bool hlo_literal_is_splat(const hlo_literal *);
// every element equals v exactly (-0 != 0 not told apart)
bool hlo_literal_is_all_f64(const hlo_literal *, double v);

// One element <-> the widest host type of its class. Rounds to nearest even, f16 and bf16 by
// way of f32 as XLA does; FN types saturate as XLA's casts do.
double hlo_elem_to_f64(hlo_dtype, const void *p);
void hlo_elem_from_f64(hlo_dtype, void *p, double v);
i64 hlo_elem_to_i64(hlo_dtype, const void *p);
void hlo_elem_from_i64(hlo_dtype, void *p, i64 v);
// bf16 and f16 in 16 bits <-> f32: exact one way, rounded to nearest even the other.
float hlo_bf16_to_f32(u16 v);
u16 hlo_f32_to_bf16(float v);
float hlo_f16_to_f32(u16 v);
u16 hlo_f32_to_f16(float v);

#endif
