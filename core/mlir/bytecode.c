// bytecode.c — sections of MLIR bytecode: strings, dialects, tables of attributes and types,
// resources, properties. See bytecode.h.
#include "core/mlir/bytecode.h"

#include "core/ir/load.h"

enum {
  SECTION_STRING,
  SECTION_DIALECT,
  SECTION_ATTR_TYPE,
  SECTION_ATTR_TYPE_OFFSET,
  SECTION_IR,
  SECTION_RESOURCE,
  SECTION_RESOURCE_OFFSET,
  SECTION_DIALECT_VERSIONS,
  SECTION_PROPERTIES,
  SECTIONS,
};
enum { VERSION_MOST = 6 };

bool bc_bad(mlir_bc *B, const char *at, const char *fmt, ...) {
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  hlo_lex_error(&B->R->lex, HS_E_BYTECODE, at, "%s", hs_buf_cstr(&b));
  hs_buf_free(&b);
  return false;
}

// ---- numbers ------------------------------------------------------------------------------------
bool bc_byte(mlir_bc *B, bc_at *c, u8 *out) {
  *out = 0;
  if (c->p >= c->end) return bc_bad(B, c->p, "the section ends in the middle of an entry");
  return *out = (u8)*c->p++, true;
}

bool bc_bytes(mlir_bc *B, bc_at *c, u64 n, bc_at *out) {
  *out = (bc_at){c->p, c->p};
  if (n > (u64)(c->end - c->p))
    return bc_bad(B, c->p, "%llu bytes where %zu are left", (unsigned long long)n,
                  (size_t)(c->end - c->p));
  *out = (bc_at){c->p, c->p + n};
  c->p += n;
  return true;
}

bool bc_varint(mlir_bc *B, bc_at *c, u64 *out) {
  u8 first;
  bc_at rest;
  *out = 0;
  if (!bc_byte(B, c, &first)) return false;
  u32 more = first ? (u32)__builtin_ctz(first) : 8;
  if (!bc_bytes(B, c, more, &rest)) return false;
  u64 v = 0;
  memcpy(&v, rest.p, more);
  *out = more == 8 ? v : (v << 8 | first) >> (more + 1);
  return true;
}

bool bc_signed(mlir_bc *B, bc_at *c, i64 *out) {
  u64 v;
  *out = 0;
  if (!bc_varint(B, c, &v)) return false;
  return *out = (i64)((v >> 1) ^ (0 - (v & 1))), true;
}

bool bc_count(mlir_bc *B, bc_at *c, u32 *out) {
  const char *at = c->p;
  u64 v;
  *out = 0;
  if (!bc_varint(B, c, &v)) return false;
  if (v > (u64)(c->end - c->p) || v > UINT32_MAX / 2)
    return bc_bad(B, at, "a count of %llu with %zu bytes left", (unsigned long long)v,
                  (size_t)(c->end - c->p));
  return *out = (u32)v, true;
}

bool bc_index(mlir_bc *B, bc_at *c, u32 n, const char *what, u32 *out) {
  const char *at = c->p;
  u64 v;
  *out = 0;
  if (!bc_varint(B, c, &v)) return false;
  if (v >= n) return bc_bad(B, at, "%s %llu of %u", what, (unsigned long long)v, n);
  return *out = (u32)v, true;
}

bool bc_string(mlir_bc *B, bc_at *c, hs_str *out) {
  u32 k;
  *out = (hs_str){"", 0};
  if (!bc_index(B, c, B->nstrings, "string", &k)) return false;
  return *out = B->strings[k], true;
}

// Bytes 0xCB up to a multiple, counted from the beginning of the file.
static bool align(mlir_bc *B, bc_at *c, u64 to) {
  if (!to || (to & (to - 1)) || to > (1u << 20))
    return bc_bad(B, c->p, "an alignment of %llu", (unsigned long long)to);
  bc_at pad;
  u64 from = (u64)(c->p - B->file.p);
  return bc_bytes(B, c, (to - (from & (to - 1))) & (to - 1), &pad);
}

bool bc_section(mlir_bc *B, bc_at *c, u8 *id, bc_at *out) {
  u64 n, to;
  *out = (bc_at){c->p, c->p};
  if (!bc_byte(B, c, id) || !bc_varint(B, c, &n)) return false;
  if (*id & 0x80 && (!bc_varint(B, c, &to) || !align(B, c, to))) return false;
  *id &= 0x7F;
  return bc_bytes(B, c, n, out);
}

// ---- tables -------------------------------------------------------------------------------------
// Lengths, the last string's first; then the strings, each with a NUL.
static bool read_strings(mlir_bc *B, bc_at c) {
  if (!bc_count(B, &c, &B->nstrings)) return false;
  u64 *sizes = HS_NEW_ARRAY(&B->R->arena, u64, B->nstrings + 1);
  for (u32 k = B->nstrings; k--;)
    if (!bc_varint(B, &c, &sizes[k])) return false;
  B->strings = HS_NEW_ARRAY(&B->R->arena, hs_str, B->nstrings + 1);
  for (u32 k = 0; k < B->nstrings; k++) {
    bc_at s;
    if (!bc_bytes(B, &c, sizes[k], &s)) return false;
    if (s.p == s.end || s.end[-1]) return bc_bad(B, s.p, "string %u does not end in a NUL", k);
    B->strings[k] = (hs_str){s.p, (size_t)(s.end - s.p - 1)};
  }
  return true;
}

static bool read_dialects(mlir_bc *B, bc_at c) {
  if (!bc_count(B, &c, &B->ndialects)) return false;
  B->dialects = HS_NEW_ARRAY(&B->R->arena, hs_str, B->ndialects + 1);
  for (u32 k = 0; k < B->ndialects; k++) {
    const char *at = c.p;
    u64 v;
    u8 id;
    bc_at ignored;
    if (!bc_varint(B, &c, &v)) return false;
    bool versioned = B->version >= 1 && v & 1;
    if (B->version >= 1) v >>= 1;
    if (v >= B->nstrings) return bc_bad(B, at, "a dialect without a name");
    B->dialects[k] = B->strings[v];
    if (versioned && !bc_section(B, &c, &id, &ignored)) return false;
  }
  u64 total;
  if (B->version >= 4 && !bc_varint(B, &c, &total)) return false;
  HS_VEC(bc_name) names = {0};
  bool ok = true;
  while (ok && c.p < c.end) {
    u32 dialect, n;
    ok = bc_index(B, &c, B->ndialects, "dialect", &dialect) && bc_count(B, &c, &n);
    for (u32 k = 0; ok && k < n; k++) {
      const char *at = c.p;
      u64 v;
      ok = bc_varint(B, &c, &v);
      bool registered = B->version < 5 || v & 1;
      if (B->version >= 5) v >>= 1;
      if (ok && v >= B->nstrings) ok = bc_bad(B, at, "an operation without a name");
      if (ok) hs_vec_push(&names, ((bc_name){B->strings[v], dialect, registered}));
    }
  }
  B->nnames = (u32)names.n;
  if (ok && names.n) B->names = hs_arena_dup(&B->R->arena, names.v, names.n * sizeof *names.v);
  hs_vec_free(&names);
  return ok;
}

// The entries of attributes, then of types, by runs of one dialect: a size each, and whether the
// dialect encodes it.
static bool read_entries(mlir_bc *B, bc_at *c, bc_at *data, u32 n, bc_entry *v) {
  for (u32 k = 0; k < n;) {
    u32 dialect, run;
    const char *at = c->p;
    if (!bc_index(B, c, B->ndialects, "dialect", &dialect) || !bc_count(B, c, &run)) return false;
    if (run > n - k) return bc_bad(B, at, "more entries than the table has");
    for (u32 j = 0; j < run; j++, k++) {
      u64 size;
      if (!bc_varint(B, c, &size) || !bc_bytes(B, data, size >> 1, &v[k].at)) return false;
      v[k].custom = size & 1;
      v[k].dialect = dialect;
    }
  }
  return true;
}

static bool read_attr_types(mlir_bc *B, bc_at c, bc_at data) {
  if (!bc_count(B, &c, &B->nattrs) || !bc_count(B, &c, &B->ntypes)) return false;
  B->attrs = HS_NEW_ARRAY(&B->R->arena, bc_entry, B->nattrs + 1);
  B->types = HS_NEW_ARRAY(&B->R->arena, bc_entry, B->ntypes + 1);
  return read_entries(B, &c, &data, B->nattrs, B->attrs) &&
         read_entries(B, &c, &data, B->ntypes, B->types);
}

static bool read_properties(mlir_bc *B, bc_at c) {
  if (!bc_count(B, &c, &B->nprops)) return false;
  B->props = HS_NEW_ARRAY(&B->R->arena, bc_at, B->nprops + 1);
  for (u32 k = 0; k < B->nprops; k++) {
    u64 n;
    if (!bc_varint(B, &c, &n) || !bc_bytes(B, &c, n, &B->props[k])) return false;
  }
  return true;
}

// A group of resources: names, sizes and kinds here, the bytes in the other section. Blobs can be
// named by constants; other kinds are for other tools.
static bool read_group(mlir_bc *B, bc_at *c, bc_at *data, bool handles) {
  u32 n;
  if (!bc_count(B, c, &n)) return false;
  for (u32 k = 0; k < n; k++) {
    hs_str name;
    u64 size;
    u8 kind;
    bc_at all, bytes;
    if (!bc_string(B, c, &name) || !bc_varint(B, c, &size) || !bc_byte(B, c, &kind) ||
        !bc_bytes(B, data, size, &all))
      return false;
    if (handles) hs_vec_push(&B->handles, name);
    if (kind != 0) continue;
    u64 to, length;
    if (!bc_varint(B, &all, &to) || !bc_varint(B, &all, &length) || !align(B, &all, to) ||
        !bc_bytes(B, &all, length, &bytes))
      return false;
    hs_str *blob = HS_NEW(&B->R->arena, hs_str);
    *blob = (hs_str){bytes.p, (size_t)length};
    (void)mlir_names_add(&B->R->blobs, name, blob, 1);
  }
  return true;
}

static bool read_resources(mlir_bc *B, bc_at c, bc_at data) {
  u32 n, dialect;
  hs_str key;
  if (!bc_count(B, &c, &n)) return false;
  for (u32 k = 0; k < n; k++)
    if (!bc_string(B, &c, &key) || !read_group(B, &c, &data, false)) return false;
  while (c.p < c.end)
    if (!bc_index(B, &c, B->ndialects, "dialect", &dialect) || !read_group(B, &c, &data, true))
      return false;
  return true;
}

// ---- the file -----------------------------------------------------------------------------------
static bool read_header(mlir_bc *B, bc_at *c) {
  c->p += 4;
  const char *at = c->p;
  if (!bc_varint(B, c, &B->version)) return false;
  if (B->version > VERSION_MOST)
    return bc_bad(B, at, "version %llu of MLIR bytecode is not known, %d is the newest that is",
                  (unsigned long long)B->version, VERSION_MOST);
  const char *nul = memchr(c->p, 0, (size_t)(c->end - c->p));
  if (!nul) return bc_bad(B, c->p, "the producer's name does not end");
  B->producer = (hs_str){c->p, (size_t)(nul - c->p)};
  c->p = nul + 1;
  return true;
}

static bool read_file(mlir_bc *B) {
  bc_at c = B->file, s[SECTIONS] = {{0}};
  if (!read_header(B, &c)) return false;
  while (c.p < c.end) {
    const char *at = c.p;
    u8 id;
    bc_at one;
    if (!bc_section(B, &c, &id, &one)) return false;
    if (id >= SECTIONS) return bc_bad(B, at, "a section of kind %d", id);
    if (s[id].p) return bc_bad(B, at, "a second section of kind %d", id);
    s[id] = one;
  }
  static const u8 needed[] = {SECTION_STRING, SECTION_DIALECT, SECTION_ATTR_TYPE,
                              SECTION_ATTR_TYPE_OFFSET, SECTION_IR};
  for (size_t k = 0; k < HS_COUNT(needed); k++)
    if (!s[needed[k]].p) return bc_bad(B, c.p, "there is no section of kind %d", needed[k]);
  return read_strings(B, s[SECTION_STRING]) && read_dialects(B, s[SECTION_DIALECT]) &&
         read_attr_types(B, s[SECTION_ATTR_TYPE_OFFSET], s[SECTION_ATTR_TYPE]) &&
         (!s[SECTION_RESOURCE_OFFSET].p ||
          read_resources(B, s[SECTION_RESOURCE_OFFSET], s[SECTION_RESOURCE])) &&
         (!s[SECTION_PROPERTIES].p || read_properties(B, s[SECTION_PROPERTIES])) &&
         bc_read_ir(B, s[SECTION_IR]);
}

bool hlo_is_mlir_bytecode(const char *p, size_t n) {
  return n >= 4 && memcmp(p, "ML\xEFR", 4) == 0;
}

bool mlir_read_bytecode(mlir_reader *R) {
  hlo_lex *L = &R->lex;
  size_t n = (size_t)(L->end - L->p);
  mlir_bc B = {.R = R, .file = {L->p, L->end}, .budget = 64 * n + (4u << 20)};
  L->bytes_end = L->end;
  L->now = L->p;
  bool ok = read_file(&B);
  if (!ok && B.producer.n)
    hlo_lex_note(L, "bytecode version %llu, made by %.*s", (unsigned long long)B.version,
                 (int)HS_MIN(B.producer.n, 80u), B.producer.p);
  hs_vec_free(&B.values);
  hs_vec_free(&B.handles);
  return ok;
}
