// exported.c — what jax.export.Exported.serialize() writes: a flatbuffer around a portable
// artifact, told by its content, since it has no mark of its own.
//
// A flatbuffer's table begins with the distance back to its vtable: two sizes, then for each field
// its distance from the table, 0 when it is absent. The fields that matter here: the version of the
// format, the artifact (a vector of bytes) and the version of the calling convention, which says
// what the parameters of @main are: first, when the artifact is for several platforms, the index of
// the platform; the values of dimensions that shapes leave open; a token per ordered effect; then
// the arguments that the function uses. They are parameters of the module like any other.
#include "core/mlir/mlir.h"

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
