// attr.h — attribute values of instructions and modules.
//
// An attribute set is a short immutable array in the module's arena, ordered by id; changing it
// makes a new array (ir.h: hlo_set_attr), so versions share the old one. Absent means default:
// setters never store a default that XLA would not print, except where ops.def marks the attribute
// as required. Struct-kinded values are immutable too.
#ifndef HLO_ATTR_H
#define HLO_ATTR_H

#include "core/types/literal.h"

typedef struct hlo_computation hlo_computation;
typedef struct hlo_instr hlo_instr;
typedef struct hlo_module hlo_module;

typedef enum hlo_attr_id {
  HLO_ATTR_NONE = 0,
#define ATTR(id, text, kind) HLO_ATTR_##id,
#include "core/types/attrs.def"
#undef ATTR
  HLO_ATTR_COUNT
} hlo_attr_id;

typedef enum hlo_attr_kind {
  HLO_AK_INT,
  HLO_AK_BOOL,
  HLO_AK_FLOAT,
  HLO_AK_STRING,
  HLO_AK_INTS,
  HLO_AK_BOOLS,
  HLO_AK_PAIRS,
  HLO_AK_INT_LISTS,
  HLO_AK_SLICES,
  HLO_AK_PADDING,
  HLO_AK_WINDOW,
  HLO_AK_DIM_LABELS,
  HLO_AK_PRECISIONS,
  HLO_AK_COMP,
  HLO_AK_COMPS,
  HLO_AK_LITERAL,
  HLO_AK_SHAPE,
  HLO_AK_SHAPES,
  HLO_AK_REPLICA_GROUPS,
  HLO_AK_OUTPUT_ALIASING,
  HLO_AK_IO_ALIAS,
  HLO_AK_DONORS,
  HLO_AK_SHARDING,
  HLO_AK_DOMAIN,
  HLO_AK_FRONTEND,
  HLO_AK_CONTROL,
  HLO_AK_STATISTICS,
  HLO_AK_RESULT_ACCURACY,
  HLO_AK_ORIGIN,
  HLO_AK_METADATA,
  HLO_AK_BACKEND_CONFIG,
  HLO_AK_SPARSITY,
  HLO_AK_PROGRAM_SHAPE,
  HLO_AK_TEXT,
#define ENUM_BEGIN(name) HLO_AK_ENUM_##name,
#define VALUE(name, id, text)
#define ENUM_END(name)
#include "core/types/attr_enums.def"
#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END
  HLO_AK_KIND_COUNT
} hlo_attr_kind;

#define ENUM_BEGIN(name) enum {
#define VALUE(name, id, text) HLO_##name##_##id,
#define ENUM_END(name) \
  HLO_##name##_COUNT   \
  }                    \
  ;
#include "core/types/attr_enums.def"
#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END

// ---- struct-kinded values -----------------------------------------------------------------------
// INTS, BOOLS (0/1), PRECISIONS, PAIRS (2n flat, n = pairs)
typedef struct hlo_ints {
  u32 n;
  const i64 *v;
} hlo_ints;
// By value.
static inline bool hlo_ints_equal(hlo_ints a, hlo_ints b) {
  return a.n == b.n && (a.n == 0 || !memcmp(a.v, b.v, a.n * sizeof *a.v));
}
// Whether x is one of them.
static inline bool hlo_ints_has(hlo_ints a, i64 x) {
  for (u32 k = 0; k < a.n; k++)
    if (a.v[k] == x) return true;
  return false;
}
// INT_LISTS
typedef struct hlo_int_lists {
  u32 n;
  const hlo_ints *v;
} hlo_int_lists;
// SLICES: [start:limit:stride] of each dimension.
typedef struct hlo_slice_dim {
  i64 start, limit, stride;
} hlo_slice_dim;
typedef struct hlo_slices {
  u32 n;
  const hlo_slice_dim *v;
} hlo_slices;
// PADDING: elements added before, after and between those of each dimension; low and high may be
// negative.
typedef struct hlo_pad_dim {
  i64 low, high, interior;
} hlo_pad_dim;
typedef struct hlo_padding {
  u32 n;
  const hlo_pad_dim *v;
} hlo_padding;
// One dimension of a window: its size and stride in elements, padding of the base, and the holes of
// base (lhs) and window (rhs): a dilation of 1 has none.
typedef struct hlo_window_dim {
  i64 size, stride, pad_low, pad_high, lhs_dilate, rhs_dilate;
  bool reversal;
} hlo_window_dim;
// spatial dims (conv) or all dims (reduce-window)
typedef struct hlo_window {
  u32 n;
  const hlo_window_dim *v;
} hlo_window;
// Convolution dimension numbers; spatial[i] is the array dimension of spatial dimension i.
typedef struct hlo_dim_labels {
  i64 lhs_batch, lhs_feature, rhs_input_feature, rhs_output_feature, out_batch, out_feature;
  u32 nspatial;
  const i64 *lhs_spatial, *rhs_spatial, *out_spatial;
  const char *text;  // as written, kept for '?' dims; NULL when built by a pass
} hlo_dim_labels;
// COMPS
typedef struct hlo_comps {
  u32 n;
  hlo_computation *const *v;
} hlo_comps;
// SHAPES
typedef struct hlo_shapes {
  u32 n;
  const hlo_shape *const *v;
} hlo_shapes;
// PROGRAM_SHAPE: the signature that an entry_computation_layout states.
typedef struct hlo_program_shape {
  u32 n;
  const hlo_shape *const *params;
  const hlo_shape *result;
} hlo_program_shape;
// Mesh axes used by named shardings and replica groups: name, size; iota or explicit device order.
typedef struct hlo_mesh {
  bool maximal;
  i64 device_id;  // maximal_mesh[device_id=N]
  u32 naxes;
  const char *const *names;
  const i64 *sizes;
  u32 ndevices;
  const i64 *devices;      // explicit device_ids, or none
  hlo_ints reshape, perm;  // device_ids=([..]T(..)), or none
} hlo_mesh;
// A mesh axis, or with a size its part: `size` positions after `pre` major ones. Size 0: the whole.
typedef struct hlo_axis {
  const char *name;
  i64 pre, size;
} hlo_axis;
typedef struct hlo_axes {
  u32 n;
  const hlo_axis *v;
} hlo_axes;
// REPLICA_GROUPS: written out, as a reshaped and transposed iota, or by the axes of a mesh.
typedef enum hlo_groups_form { HLO_GROUPS_LIST, HLO_GROUPS_IOTA, HLO_GROUPS_MESH } hlo_groups_form;
typedef struct hlo_replica_groups {
  hlo_groups_form form;
  hlo_int_lists groups;          // LIST
  hlo_ints dims, reshape, perm;  // IOTA: [groups,size]<=[reshape]T(perm)
  const hlo_mesh *mesh;
  hlo_axes axes;  // MESH
} hlo_replica_groups;
// ids[k]: the number at position k, row by row, of an iota of n that was reshaped and transposed
// (an empty perm: it was not); false when the sizes do not fit each other.
bool hlo_iota_ids(hlo_ints reshape, hlo_ints perm, i64 n, i64 *ids);
// What lies at a path in tuples, and, where `leaf` is not NULL, the number of its first leaf; NULL
// for a path that leads nowhere.
const hlo_shape *hlo_shape_at(const hlo_shape *, hlo_ints path, u32 *leaf);
// The number of the leaf that a path leads to; HLO_NO_LEAF where it leads to a tuple or nowhere.
u32 hlo_shape_leaf_at(const hlo_shape *, hlo_ints path);
#define HLO_NO_LEAF UINT32_MAX

// What lies at a path in tuples, and, where `leaf` is not NULL, the number of its first leaf; NULL
// for a path that leads nowhere.
const hlo_shape *hlo_shape_at(const hlo_shape *, hlo_ints path, u32 *leaf);
// The number of the leaf that a path leads to; HLO_NO_LEAF where it leads to a tuple or nowhere.
u32 hlo_shape_leaf_at(const hlo_shape *, hlo_ints path);
#define HLO_NO_LEAF UINT32_MAX

// One output that may (or must) have the buffer of an argument; indices are paths in tuples.
typedef struct hlo_alias_entry {
  hlo_ints out_index;
  i64 param;
  hlo_ints param_index;
  bool must;
} hlo_alias_entry;
// IO_ALIAS, DONORS (no out_index), OUTPUT_ALIASING (param = operand)
typedef struct hlo_aliases {
  u32 n;
  const hlo_alias_entry *v;
} hlo_aliases;
// FRONTEND: attributes of the framework, name to text.
typedef struct hlo_frontend_entry {
  hs_str key, value;
} hlo_frontend_entry;
// sorted by key
typedef struct hlo_frontend {
  u32 n;
  const hlo_frontend_entry *v;
} hlo_frontend;
// Nearly every instruction has a metadata and hardly one has what stands in the second struct.
typedef struct hlo_metadata_rest {
  hs_str deduplicated_name, scheduling_name, payload;
  hlo_ints profile_type;
} hlo_metadata_rest;
typedef struct hlo_metadata {
  hs_str op_type, op_name, source_file;
  // frame: 1-based, 0 none
  i32 source_line, source_end_line, source_column, source_end_column, stack_frame_id;
  const hlo_metadata_rest *rest;  // NULL: all empty; read it through hlo_metadata_rest_of
} hlo_metadata;
extern const hlo_metadata_rest hlo_metadata_no_rest_;
static inline const hlo_metadata_rest *hlo_metadata_rest_of(const hlo_metadata *m) {
  return m->rest ? m->rest : &hlo_metadata_no_rest_;
}
// STATISTICS
typedef struct hlo_stat {
  hs_str name;
  double value;
} hlo_stat;
typedef struct hlo_statistics {
  i64 visualizing_index;
  u32 n;
  const hlo_stat *v;
} hlo_statistics;
// RESULT_ACCURACY: a mode (an enum value), or tolerances.
typedef struct hlo_result_accuracy {
  bool has_mode;
  i64 mode;
  bool has_tolerance;
  double atol, rtol;
  i64 ulps;
} hlo_result_accuracy;
// SPARSITY: structured sparsity of a convolution's operands.
typedef struct hlo_sparsity_side {
  bool present;
  i64 num_non_zero, block_size, dimension, stride, idx;
} hlo_sparsity_side;
typedef struct hlo_sparsity {
  hlo_sparsity_side lhs, rhs;
} hlo_sparsity;
// SHARDING: one for an array, or a tuple of them; tile assignments by device numbers (V1 lists
// them, V2 is an iota), or the axes of a named mesh (V3).
typedef enum hlo_sharding_type {
  HLO_SH_REPLICATED,
  HLO_SH_MAXIMAL,
  HLO_SH_TUPLE,
  HLO_SH_TILED,
  HLO_SH_MANUAL,
  HLO_SH_UNKNOWN,
  HLO_SH_UNREDUCED,
  HLO_SH_NAMED
} hlo_sharding_type;
typedef struct hlo_dim_sharding {
  hlo_axes axes;
  bool open;
} hlo_dim_sharding;
typedef struct hlo_sharding hlo_sharding;
struct hlo_sharding {
  hlo_sharding_type type;
  u32 nchildren;
  const hlo_sharding *const *children;  // TUPLE
  i64 device;                           // MAXIMAL
  // TILED: devices explicit, or iota reshape/perm
  hlo_ints dims, devices, reshape, perm;
  bool replicate_last;
  hlo_ints last_tile_dims;  // values of hlo_sharding_type
  i64 shard_group;
  int shard_group_kind;  // 0 none, 1 shard_as, 2 shard_like
  u32 nmetadata;
  const hlo_metadata *const *metadata;
  const hlo_mesh *mesh;
  u32 ndim_shardings;
  const hlo_dim_sharding *dim_shardings;  // NAMED
  // 0 none given, 1 sum, 2 max, 3 min
  hlo_axes replicated_axes, unreduced_axes, manual_axes;
  int unreduced_op;
  // NAMED written as mesh + 'replicated'/'manual'/'unreduced'; else TILED
  hlo_sharding_type named_whole;
};
// DOMAIN: the sharding on either side of a domain instruction.
typedef struct hlo_domain {
  hs_str kind;
  const hlo_sharding *entry, *exit;
} hlo_domain;
// Origin (original value) tree: a leaf holds an array reference or nothing.
typedef struct hlo_origin_node hlo_origin_node;
struct hlo_origin_node {
  bool tuple;
  u32 nchildren;
  const hlo_origin_node *const *children;
  bool present;
  hs_str name;
  hlo_ints index;
};
typedef struct hlo_origin {
  bool synthetic;
  const hlo_origin_node *root;
} hlo_origin;
// BACKEND_CONFIG: text is unescaped; raw_json: it was written as an object, not as a string.
typedef struct hlo_backend_config {
  hs_str text;
  bool raw_json;
} hlo_backend_config;

// ---- the set ------------------------------------------------------------------------------------
typedef struct hlo_attr {
  hlo_attr_id id;
  union {
    i64 i;                   // INT, BOOL, ENUM_*
    double f;                // FLOAT
    hs_str s;                // STRING, TEXT
    hlo_ints ints;           // INTS, BOOLS, PRECISIONS, PAIRS
    hlo_computation *comp;   // COMP
    hlo_comps comps;         // COMPS
    hlo_literal *literal;    // LITERAL
    const hlo_shape *shape;  // SHAPE
    const void *p;           // every other struct kind
  } v;
} hlo_attr;

// A set, ordered by id. A NULL pointer is the empty set.
typedef struct hlo_attrs {
  u32 n;
  hlo_attr v[];
} hlo_attrs;

typedef struct hlo_attr_info {
  const char *text;
  hlo_attr_kind kind;
} hlo_attr_info;
extern const hlo_attr_info hlo_attr_infos[HLO_ATTR_COUNT];
static inline hlo_attr_kind hlo_attr_kind_of(hlo_attr_id id) { return hlo_attr_infos[id].kind; }
static inline const char *hlo_attr_text(hlo_attr_id id) { return hlo_attr_infos[id].text; }
// The text of a value of an enumeration, "EQ"; NULL when it has no such value.
const char *hlo_enum_text(hlo_attr_kind kind, i64 value);
// The value of a text of an enumeration; -1 when it has none.
i64 hlo_enum_find(hlo_attr_kind kind, hs_str text, bool ignore_case);

// The attribute of that id in a set; NULL when absent. A NULL set is empty, here and below.
const hlo_attr *hlo_attrs_find(const hlo_attrs *, hlo_attr_id);
// A new set in the arena with `add` put in, replacing one of its id. Values are not copied.
hlo_attrs *hlo_attrs_with(hs_arena *, const hlo_attrs *, const hlo_attr *add);
// A new set in the arena without that id; NULL when nothing is left.
hlo_attrs *hlo_attrs_without(hs_arena *, const hlo_attrs *, hlo_attr_id);
// Equality and hash by value; computations compare by pointer. Ids for which `skip` says true are
// left out; NULL: none.
bool hlo_attr_equal(const hlo_attr *, const hlo_attr *);
bool hlo_attrs_equal(const hlo_attrs *, const hlo_attrs *, bool (*skip)(hlo_attr_id));
u64 hlo_attr_hash(const hlo_attr *, u64 seed);
u64 hlo_attrs_hash(const hlo_attrs *, u64 seed, bool (*skip)(hlo_attr_id));
// Deep copy into another arena of the same context, whose shapes it shares (module clone).
// Computations are mapped by map(arg, comp) when given.
hlo_attr hlo_attr_clone(hs_arena *, const hlo_attr *,
                        hlo_computation *(*map)(void *, hlo_computation *), void *arg);

// True for attributes that say nothing about the meaning (metadata, origin, frontend attributes,
// statistics, backend config); sharding is meaning for partitioning passes and is not skipped.
bool hlo_attr_is_annotation(hlo_attr_id id);
// The value of a key in a frontend_attributes attribute; NULL: no attribute (NULL), or no such key.
const hs_str *hlo_frontend_find(const hlo_attr *, const char *key);

#endif
