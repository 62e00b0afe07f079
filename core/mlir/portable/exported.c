// exported.c — jax.export's Exported, read and written: a portable artifact in a flatbuffer that
// says how it is called. jax.export.deserialize makes a function of it.
//
// A flatbuffer is written front to back: a table before what its fields refer to, each reference a
// place to be filled in with the distance. A table is its vtable (two sizes, then each field's
// distance from the table, 0 for absent ones), then the distance back to it, then the fields, four
// bytes each here. All of it is little-endian.
//
// Read are the fields that matter: the version of the format, the artifact (a vector of bytes) and
// the version of the calling convention, which says what the parameters of @main are: first, when
// the artifact is for several platforms, the index of the platform; the values of dimensions that
// shapes leave open; a token per ordered effect; then the arguments that the function uses. They
// are parameters of the module like any other. The file has no mark of its own: its content tells.
//
// What HLO does not know of a function is written as little as possible: the arguments are one
// tuple, the results one value or one tuple; no gradients, no effects; the platform is not checked.
// Written is convention 9, the oldest that JAX 0.10 calls: a program for one platform whose
// parameters are the arguments.
#include "core/mlir/mlir.h"

#include <stdio.h>

// ---- reading ------------------------------------------------------------------------------------
enum { VERSION = 4, ARTIFACT = 30, CALLING_CONVENTION = 32 };  // places in the vtable
enum { VERSION_MOST = 16, CONVENTION_MOST = 16 };

static bool read_u32(hs_str f, size_t at, u32 *out) {
  if (at > f.n || f.n - at < 4) return false;
  return memcpy(out, f.p + at, 4), true;
}

static bool read_u16(hs_str f, size_t at, u16 *out) {
  if (at > f.n || f.n - at < 2) return false;
  return memcpy(out, f.p + at, 2), true;
}

// Where a field of the root table lies; 0: it is absent.
static bool field_of(hs_str f, u32 place, size_t *out) {
  u32 root, back;
  u16 size, at = 0;
  *out = 0;
  if (!read_u32(f, 0, &root) || !read_u32(f, root, &back)) return false;
  i64 vtable = (i64)root - (i64)(i32)back;
  if (vtable < 0 || !read_u16(f, (size_t)vtable, &size) || size < 4 || size % 2) return false;
  if (place + 2 > size) return true;
  if (!read_u16(f, (size_t)vtable + place, &at)) return false;
  if (at) *out = root + at;
  return true;
}

bool hlo_is_jax_export(const char *p, size_t n, hs_str *artifact) {
  hs_str f = {p, n};
  size_t at;
  u32 offset, length;
  *artifact = (hs_str){"", 0};
  if (n < 64 || !field_of(f, ARTIFACT, &at) || !at || !read_u32(f, at, &offset)) return false;
  if (offset > n - at || !read_u32(f, at + offset, &length)) return false;
  size_t begin = at + offset + 4;
  if (length > n - begin || !hlo_is_mlir_bytecode(p + begin, length)) return false;
  return *artifact = (hs_str){p + begin, length}, true;
}

hs_status hlo_jax_export_check(const char *p, size_t n) {
  hs_str f = {p, n};
  size_t at;
  u16 version = 0, convention = 0;
  if (field_of(f, VERSION, &at) && at) (void)read_u16(f, at, &version);
  if (field_of(f, CALLING_CONVENTION, &at) && at) (void)read_u16(f, at, &convention);
  if (version > VERSION_MOST)
    return hs_fail(HS_E_BYTECODE, "version %u of jax.export's format is not known", version);
  if (convention > CONVENTION_MOST)
    return hs_fail(HS_E_BYTECODE, "calling convention %u of jax.export is not known", convention);
  return HS_GOOD;
}

// ---- writing ------------------------------------------------------------------------------------
enum { FORMAT = 3, CONVENTION = 9, MOST = 65535, OPEN = UINT32_MAX };

// jax.export's numbers of element types, from 1: those of arrays that JAX has.
static const u8 numbers[HLO_DTYPE_COUNT] = {
    [HLO_PRED] = 1,        [HLO_S8] = 2,          [HLO_S16] = 3,
    [HLO_S32] = 4,         [HLO_S64] = 5,         [HLO_U8] = 6,
    [HLO_U16] = 7,         [HLO_U32] = 8,         [HLO_U64] = 9,
    [HLO_F16] = 10,        [HLO_F32] = 11,        [HLO_F64] = 12,
    [HLO_C64] = 13,        [HLO_C128] = 14,       [HLO_BF16] = 15,
    [HLO_S4] = 16,         [HLO_U4] = 17,         [HLO_F8E4M3B11FNUZ] = 18,
    [HLO_F8E4M3FN] = 19,   [HLO_F8E4M3FNUZ] = 20, [HLO_F8E5M2] = 21,
    [HLO_F8E5M2FNUZ] = 22, [HLO_F8E4M3] = 24,     [HLO_F8E3M4] = 25,
    [HLO_F8E8M0FNU] = 26,  [HLO_F4E2M1FN] = 27,
};

// Fields of the tables by their places in the vtable, as JAX's schema numbers them.
enum { EXPORTED_FIELDS = 19, TREE_FIELDS = 2, ARRAY_FIELDS = 4 };
enum {
  E_FORMAT,
  E_NAME,
  E_IN_TREE,
  E_IN_ARRAYS,
  E_OUT_TREE,
  E_OUT_ARRAYS,
  E_IN_SHARDINGS = 7,
  E_OUT_SHARDINGS,
  E_PLATFORMS,
  E_UNCHECKED = 12,
  E_ARTIFACT,
  E_CONVENTION,
  E_KEPT,
  E_DEVICES = 18
};
enum { TREE_LEAF, TREE_TUPLE = 2, TREE_DICT = 4 };
enum { IN_DEVICE_MEMORY = 1 };

typedef struct field {
  u32 slot, value;  // OPEN: a reference
  u32 at;           // where it has been written
} field;

static void put_bytes(hs_buf *b, u64 v, u32 n) {
  for (u32 k = 0; k < n; k++) hs_buf_putc(b, (char)(v >> (8 * k) & 0xFF));
}

static void align(hs_buf *b) { put_bytes(b, 0, (u32)(-b->n & 3)); }

// What comes next is what the reference at `at` means.
static void refer(hs_buf *b, u32 at, size_t to) {
  for (u32 k = 0; k < 4; k++) b->p[at + k] = (char)((to - at) >> (8 * k) & 0xFF);
}

// Returns the table's place.
static u32 put_table(hs_buf *b, u32 slots, u32 n, field *f) {
  u32 size = 4 + 2 * slots;
  if ((b->n + size) & 3) put_bytes(b, 0, 2);
  put_bytes(b, size, 2);
  put_bytes(b, 4 + 4 * n, 2);
  for (u32 slot = 0; slot < slots; slot++) {
    u32 k = 0;
    while (k < n && f[k].slot != slot) k++;
    put_bytes(b, k < n ? 4 + 4 * k : 0, 2);
  }
  u32 table = (u32)b->n;
  put_bytes(b, size, 4);
  for (u32 k = 0; k < n; k++) {
    f[k].at = (u32)b->n;
    put_bytes(b, f[k].value == OPEN ? 0 : f[k].value, 4);
  }
  return table;
}

static void put_string(hs_buf *b, u32 at, const char *s) {
  size_t n = strlen(s);
  align(b);
  refer(b, at, b->n);
  put_bytes(b, n, 4);
  hs_buf_put(b, s, n);
  put_bytes(b, 0, 1);
  align(b);
}

// A vector of n references, all open; returns the place of the first.
static u32 put_references(hs_buf *b, u32 at, u32 n) {
  align(b);
  refer(b, at, b->n);
  put_bytes(b, n, 4);
  u32 first = (u32)b->n;
  for (u32 k = 0; k < n; k++) put_bytes(b, 0, 4);
  return first;
}

static void put_leaf(hs_buf *b, u32 at) {
  field f = {0, TREE_LEAF, 0};
  refer(b, at, put_table(b, TREE_FIELDS, 1, &f));
}

// A tuple of n leaves.
static void put_tuple(hs_buf *b, u32 at, u32 n) {
  field f[] = {{0, TREE_TUPLE, 0}, {1, OPEN, 0}};
  refer(b, at, put_table(b, TREE_FIELDS, n ? 2 : 1, f));
  u32 leaf = n ? put_references(b, f[1].at, n) : 0;
  for (u32 k = 0; k < n; k++) put_leaf(b, leaf + 4 * k);
}

// ((leaf, ...), {}): arguments, and those that have names.
static void put_arguments(hs_buf *b, u32 at, u32 n) {
  field f[] = {{0, TREE_TUPLE, 0}, {1, OPEN, 0}}, named = {0, TREE_DICT, 0};
  refer(b, at, put_table(b, TREE_FIELDS, 2, f));
  u32 both = put_references(b, f[1].at, 2);
  put_tuple(b, both, n);
  refer(b, both + 4, put_table(b, TREE_FIELDS, 1, &named));
}

static void put_arrays(hs_buf *b, u32 at, u32 n, const hlo_shape *const *v) {
  u32 one = put_references(b, at, n);
  for (u32 k = 0; k < n; k++, one += 4) {
    field f[] = {{1, OPEN, 0}, {2, (u32)numbers[v[k]->dtype] - 1, 0}, {3, IN_DEVICE_MEMORY, 0}};
    refer(b, one, put_table(b, ARRAY_FIELDS, 3, f));
    u32 size = put_references(b, f[0].at, v[k]->rank);
    for (u32 d = 0; d < v[k]->rank; d++) {
      char text[24];
      snprintf(text, sizeof text, "%lld", (long long)v[k]->dims[d]);
      put_string(b, size + 4 * d, text);
    }
  }
}

// As many tables that say nothing: shardings that are not stated, a check by its number 0.
static void put_empty(hs_buf *b, u32 at, u32 n) {
  u32 one = put_references(b, at, n);
  for (u32 k = 0; k < n; k++) refer(b, one + 4 * k, put_table(b, 1, 0, NULL));
}

static hs_status check(const hlo_module *m, u32 n, const hlo_shape *const *v) {
  for (u32 k = 0; k < n; k++) {
    hs_buf text = {0};
    if (hlo_shape_is_array(v[k]) && !v[k]->dynamic && numbers[v[k]->dtype]) continue;
    hlo_shape_print(&text, v[k], false);
    hs_status s = hs_fail(HS_E_NO_STABLEHLO, "%s takes or returns %s, which JAX has no array for",
                          m->name, hs_buf_cstr(&text));
    hs_buf_free(&text);
    return s;
  }
  return HS_GOOD;
}

static void put_exported(const hlo_module *m, u32 nin, const hlo_shape *const *in, u32 nout,
                         const hlo_shape *const *out, const hs_buf *artifact, hs_buf *b) {
  field f[] = {{E_FORMAT, FORMAT, 0},  {E_NAME, OPEN, 0},         {E_IN_TREE, OPEN, 0},
               {E_IN_ARRAYS, OPEN, 0}, {E_OUT_TREE, OPEN, 0},     {E_OUT_ARRAYS, OPEN, 0},
               {E_PLATFORMS, OPEN, 0}, {E_IN_SHARDINGS, OPEN, 0}, {E_OUT_SHARDINGS, OPEN, 0},
               {E_UNCHECKED, OPEN, 0}, {E_ARTIFACT, OPEN, 0},     {E_CONVENTION, CONVENTION, 0},
               {E_KEPT, OPEN, 0},      {E_DEVICES, 1, 0}};
  u32 at[EXPORTED_FIELDS];
  put_bytes(b, 0, 4);
  refer(b, 0, put_table(b, EXPORTED_FIELDS, HS_COUNT(f), f));
  for (u32 k = 0; k < HS_COUNT(f); k++) at[f[k].slot] = f[k].at;
  put_string(b, at[E_NAME], m->name);
  put_arguments(b, at[E_IN_TREE], nin);
  put_arrays(b, at[E_IN_ARRAYS], nin, in);
  if (hlo_shape_is_tuple(m->entry->root->shape)) put_tuple(b, at[E_OUT_TREE], nout);
  else put_leaf(b, at[E_OUT_TREE]);
  put_arrays(b, at[E_OUT_ARRAYS], nout, out);
  put_empty(b, at[E_IN_SHARDINGS], nin);
  put_empty(b, at[E_OUT_SHARDINGS], nout);
  put_string(b, put_references(b, at[E_PLATFORMS], 1), "cpu");
  put_empty(b, at[E_UNCHECKED], 1);
  align(b);
  refer(b, at[E_KEPT], b->n);
  put_bytes(b, nin, 4);
  for (u32 k = 0; k < nin; k++) put_bytes(b, k, 2);
  align(b);
  refer(b, at[E_ARTIFACT], b->n);
  put_bytes(b, artifact->n, 4);
  hs_buf_put(b, artifact->p, artifact->n);
}

hs_status hlo_jax_export_write(const hlo_module *m, u32 version, hs_buf *b) {
  const hlo_shape *root = m->entry->root->shape;
  bool tuple = hlo_shape_is_tuple(root);
  u32 nin = m->entry->nparams, nout = tuple ? root->nelems : 1;
  if (hlo_module_int(m, HLO_ATTR_REPLICA_COUNT, 1) != 1 ||
      hlo_module_int(m, HLO_ATTR_NUM_PARTITIONS, 1) != 1)
    return hs_fail(HS_E_NO_STABLEHLO, "%s is for several devices, whose shardings jax.export keeps",
                   m->name);
  if (nin > MOST || nout > MOST)
    return hs_fail(HS_E_NO_STABLEHLO, "more than %u arguments or results", MOST);
  const hlo_shape **in = hs_calloc((size_t)nin + 1, sizeof *in);
  for (u32 k = 0; k < nin; k++) in[k] = m->entry->params[k]->shape;
  const hlo_shape *const *out = tuple ? root->elems : &root;
  hs_buf artifact = {0}, whole = {0};
  hs_status s = check(m, nin, in);
  if (hs_ok(s)) s = check(m, nout, out);
  if (hs_ok(s)) s = hlo_mlir_write(m, version, &artifact);
  if (hs_ok(s) && artifact.n > INT32_MAX - (64u << 20))
    s = hs_fail(HS_E_NO_STABLEHLO, "%zu bytes, and jax.export's files have at most 2 GiB",
                artifact.n);
  if (hs_ok(s)) put_exported(m, nin, in, nout, out, &artifact, &whole);
  if (hs_ok(s)) hs_buf_put(b, whole.p, whole.n);
  hs_buf_free(&artifact);
  hs_buf_free(&whole);
  hs_free(in);
  return s;
}
