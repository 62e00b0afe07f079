// shape.h — interned shapes and layouts.
//
// A shape is an immutable, interned value: two equal shapes are the same pointer. Every shape knows
// its `logical` twin (the same without any layout, recursively), so "equal" is a == b and "equal
// ignoring layout" is a->logical == b->logical. Shapes live in the context's arena as long as the
// context. Dimensions: a static size, the bound of a dynamic dimension (`<=N`), or HLO_UNBOUNDED
// (`?`).
#ifndef HLO_SHAPE_H
#define HLO_SHAPE_H

#include "core/base/diag.h"
#include "core/types/dtype.h"

#define HLO_UNBOUNDED INT64_MIN
#define HLO_MAX_RANK 64  // stated limit; XLA's own is far lower in practice
#define HLO_MAX_LEAVES (1 << 18)
#define HLO_MAX_TUPLE_DEPTH 1000

typedef struct hlo_ctx hlo_ctx;  // ctx.h: owner of interned strings and shapes

typedef struct hlo_tile {
  u32 rank;
  const i64 *dims;
} hlo_tile;  // HLO_UNBOUNDED stands for '*'
typedef struct hlo_split {
  i64 dim;
  u32 n;
  const i64 *indices;
} hlo_split;

typedef struct hlo_layout {
  u32 rank;
  const i64 *minor_to_major;
  u32 ntiles;
  const hlo_tile *tiles;               // T(...)(...)
  i64 tail_alignment;                  // L(n), default 1
  hlo_dtype index_type, pointer_type;  // #(t), *(t); HLO_DT_INVALID when absent
  i64 element_bits;                    // E(n), 0 when absent
  i64 memory_space;                    // S(n), 0 default
  u32 nsplits;
  const hlo_split *splits;  // SC(d:i,...)
  i64 metadata_prefix;      // M(n), 0 when absent
} hlo_layout;

typedef struct hlo_shape hlo_shape;
struct hlo_shape {
  hlo_dtype dtype;
  u32 rank;
  const i64 *dims;
  const bool *dynamic;       // per dimension; NULL when every dimension is static
  const hlo_layout *layout;  // arrays only; NULL when absent
  u32 nelems;                // tuple elements, or 1 for a buffer's content
  const hlo_shape *const *elems;
  const hlo_shape *logical;  // this shape without layouts
  // product of dims (bounds for dynamic ones, 1 for unbounded ones), at most INT64_MAX; 1 for
  // scalars, 0 for tuples
  i64 elements;
  i64 bytes;   // see hlo_shape_bytes
  i64 leaves;  // arrays, tokens, ... in it, itself when no tuple; saturates
  i64 ends;    // leaves and empty tuples: what bounds a walk over all of it; saturates
  u32 depth;   // of nested tuples: 0 for a leaf
  // of a tuple with elements that are no leaves: the leaves before each element; NULL
  const u32 *starts;
  u64 types;      // of its leaves: bit k for element type k
  bool varies;    // some dimension in it is dynamic
  bool laid_out;  // every array in it that has dimensions has a layout
  u64 hash;
  u32 serial;  // 1,2,3... in order of interning: a dense id for side tables
};

// Constructors; all return the interned pointer. `dims` are copied. The array form takes no layout.
// They check nothing: hlo_shape_check_limits does.
const hlo_shape *hlo_shape_array(hlo_ctx *, hlo_dtype, u32 rank, const i64 *dims);
const hlo_shape *hlo_shape_dynamic(hlo_ctx *, hlo_dtype, u32 rank, const i64 *dims,
                                   const bool *dynamic, const hlo_layout *layout);
const hlo_shape *hlo_shape_scalar(hlo_ctx *, hlo_dtype);
const hlo_shape *hlo_shape_tuple(hlo_ctx *, u32 n, const hlo_shape *const *elems);
const hlo_shape *hlo_shape_token(hlo_ctx *);
const hlo_shape *hlo_shape_opaque(hlo_ctx *);
const hlo_shape *hlo_shape_buffer(hlo_ctx *, const hlo_shape *content);
// An array shape with another element type: same dims and layout.
const hlo_shape *hlo_shape_with_dtype(hlo_ctx *, const hlo_shape *, hlo_dtype);
// An array shape with that layout; NULL removes it.
const hlo_shape *hlo_shape_with_layout(hlo_ctx *, const hlo_shape *, const hlo_layout *);
// Row-major in every array, tuples recursively.
const hlo_shape *hlo_shape_with_default_layout(hlo_ctx *, const hlo_shape *);
// Row-major in every array that has no layout.
const hlo_shape *hlo_shape_fill_layout(hlo_ctx *, const hlo_shape *);
// The interned copy: equal layouts give the same pointer.
const hlo_layout *hlo_layout_intern(hlo_ctx *, const hlo_layout *);
// {rank-1,...,0}
const hlo_layout *hlo_layout_default(hlo_ctx *, u32 rank);

// Equal, layouts aside.
static inline bool hlo_shape_compatible(const hlo_shape *a, const hlo_shape *b) {
  return a->logical == b->logical;
}
// Which of the kinds a shape is: an array of any rank, a tuple, an array of rank 0.
static inline bool hlo_shape_is_array(const hlo_shape *s) { return hlo_dtype_is_array(s->dtype); }
static inline bool hlo_shape_is_tuple(const hlo_shape *s) { return s->dtype == HLO_TUPLE_TYPE; }
static inline bool hlo_shape_is_scalar(const hlo_shape *s) {
  return hlo_shape_is_array(s) && s->rank == 0;
}
// same rank, sizes and dynamism; types may differ
bool hlo_shape_same_dims(const hlo_shape *a, const hlo_shape *b);
// whether dimension d of an array is dynamic
static inline bool hlo_dim_is_dynamic(const hlo_shape *s, i64 d) {
  return s->dynamic && s->dynamic[d];
}
// any dynamic dimension, recursively
bool hlo_shape_is_dynamic(const hlo_shape *s);
// bounded.c: the dimensions of both sides of a reshape in groups of equal products, for dynamic
// arrays, with elements or without: starts[k] is where group k begins on both sides, and the last
// one, behind the number that is returned, where all ends; room for both ranks and 2 more. 0: which
// is which cannot be told.
typedef struct hlo_dim_group {
  u32 from, to;
} hlo_dim_group;
u32 hlo_size_groups(const hlo_shape *from, const hlo_shape *to, hlo_dim_group *starts);
// an array with a dimension of any size
bool hlo_shape_is_unbounded(const hlo_shape *s);
// such an array, or a tuple with one
bool hlo_shape_has_unbounded(const hlo_shape *s);
// no layout, or descending minor_to_major
bool hlo_shape_is_row_major(const hlo_shape *s);
// XLA's ByteSizeOf: dense bytes; sub-byte types one per byte unless element_bits packs; tuples: the
// sum of their leaves, nothing for the table. INT64_MAX: that much or more. Sums of sizes are made
// with hs_add_sat_i64, so that this stays true of them.
static inline i64 hlo_shape_bytes(const hlo_shape *s) { return s->bytes; }
// number of non-tuple leaves, HLO_MAX_LEAVES at most in a shape that was checked
static inline u32 hlo_shape_leaves(const hlo_shape *s) {
  return s->leaves > UINT32_MAX ? UINT32_MAX : (u32)s->leaves;
}
// Leaf number k in order; NULL when there are not so many.
const hlo_shape *hlo_shape_leaf(const hlo_shape *s, u32 k);
// The number of the first leaf of a tuple's element; of one beyond its ends: where that would be.
u32 hlo_shape_leaf_offset(const hlo_shape *tuple, i64 element);
// The element of a tuple that holds leaf number *leaf, which it has; *leaf: its number in there.
u32 hlo_shape_element_at(const hlo_shape *tuple, u32 *leaf);
// Checks rank and bytes against the limits before anything is allocated from them: E_LIMIT for more
// than HLO_MAX_RANK dimensions or 2^63 bytes, E_SHAPE for a negative size.
hs_status hlo_shape_check_limits(hlo_dtype, u32 rank, const i64 *dims);
// The same for a tuple: shapes share their elements, so a few lines of text can nest 2^40 leaves.
// E_LIMIT for more than HLO_MAX_LEAVES leaves and empty tuples, or HLO_MAX_TUPLE_DEPTH levels. What
// readers and shape inference let pass may be traversed leaf by leaf and recursively.
hs_status hlo_shape_check_tuple(const hlo_shape *);

// Text: "f32[2,3]{1,0}"; with_layout=false omits layouts.
void hlo_shape_print(hs_buf *b, const hlo_shape *s, bool with_layout);

// Row-major strides (in elements) of dims; strides must hold rank entries. They saturate.
void hlo_row_major_strides(u32 rank, const i64 *dims, i64 *strides);

#endif
