// file.c — the file of a portable artifact: numbers, tables, sections. See portable.h; the format
// is what bytecode.c reads.
#include "core/mlir/portable/portable.h"

#include "core/ir/load.h"

bool mp_fail(mlir_portable *W, const char *fmt, ...) {
  if (!hs_ok(W->err) || W->R->lex.failed) return false;
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  W->err = hs_fail(HS_E_NO_STABLEHLO, "StableHLO %u.%u: %s", W->version / 100, W->version % 100,
                   hs_buf_cstr(&b));
  hs_buf_free(&b);
  return false;
}

// ---- numbers ------------------------------------------------------------------------------------
// As many zeros at the low end of the first byte as bytes follow.
void mp_varint(hs_buf *b, u64 v) {
  u32 bytes = 1;
  while (bytes < 9 && v >> (7 * bytes)) bytes++;
  if (bytes == 9) hs_buf_putc(b, 0);
  else v = v << bytes | (u64)1 << (bytes - 1);
  for (u32 k = 0; k < HS_MIN(bytes, 8u); k++) hs_buf_putc(b, (char)(v >> (8 * k) & 0xFF));
}

void mp_signed(hs_buf *b, i64 v) { mp_varint(b, (u64)v << 1 ^ (v < 0 ? ~(u64)0 : 0)); }

// ---- tables -------------------------------------------------------------------------------------
static u32 intern(mlir_portable *W, mlir_names *t, hs_str key) {
  u32 at;
  if (mlir_names_find(t, key, &at)) return at;
  at = (u32)t->v.n;
  key.p = hs_arena_strndup(&W->R->arena, key.p ? key.p : "", key.n);
  (void)mlir_names_add(t, key, t, at);
  return at;
}

u32 mp_string(mlir_portable *W, hs_str s) { return intern(W, &W->strings, s); }

u32 mp_entry(mlir_portable *W, mlir_names *t, u32 dialect, hs_buf *b) {
  hs_buf key = {0};
  hs_buf_putc(&key, (char)dialect);
  hs_buf_put(&key, b->p ? b->p : "", b->n);
  u32 at = intern(W, t, (hs_str){key.p, key.n});
  hs_buf_free(&key);
  hs_buf_free(b);
  return at;
}

u32 mp_props(mlir_portable *W, hs_buf *b) {
  u32 at = intern(W, &W->props, (hs_str){b->p, b->n});
  hs_buf_free(b);
  return at;
}

// ---- sections -----------------------------------------------------------------------------------
static void section(hs_buf *out, u32 id, hs_buf *b) {
  hs_buf_putc(out, (char)id);
  mp_varint(out, b->n);
  hs_buf_put(out, b->p ? b->p : "", b->n);
  hs_buf_free(b);
}

static hs_str key_of(const mlir_names *t, size_t k) { return t->v.v[k].text; }

// How many entries from k on are of one dialect.
static u32 run_of(const mlir_names *t, size_t k) {
  u32 n = 0;
  while (k + n < t->v.n && *key_of(t, k + n).p == *key_of(t, k).p) n++;
  return n;
}

static void put_dialects(mlir_portable *W, hs_buf *b) {
  static const hs_str names[] = {{"builtin", 7}, {"vhlo", 4}};
  bool versions = W->bytecode >= 1, registered = W->bytecode >= 5;
  mp_varint(b, MP_DIALECTS);
  for (u32 k = 0; k < MP_DIALECTS; k++) mp_varint(b, (u64)mp_string(W, names[k]) << versions);
  if (W->bytecode >= 4) mp_varint(b, W->ops.v.n);
  for (size_t k = 0; k < W->ops.v.n;) {
    u32 n = run_of(&W->ops, k);
    mp_varint(b, (u64)*key_of(&W->ops, k).p);
    mp_varint(b, n);
    while (n--) {
      hs_str key = key_of(&W->ops, k++);
      u64 name = mp_string(W, (hs_str){key.p + 1, key.n - 1});
      mp_varint(b, registered ? name << 1 | 1 : name);
    }
  }
}

// The encodings one after another, and beside them their lengths by runs of one dialect.
static void put_entries(const mlir_names *t, hs_buf *offsets, hs_buf *data) {
  for (size_t k = 0; k < t->v.n;) {
    u32 n = run_of(t, k);
    mp_varint(offsets, (u64)*key_of(t, k).p);
    mp_varint(offsets, n);
    while (n--) {
      hs_str key = key_of(t, k++);
      mp_varint(offsets, (u64)(key.n - 1) << 1 | 1);
      hs_buf_put(data, key.p + 1, key.n - 1);
    }
  }
}

static void put_strings(const mlir_names *t, hs_buf *b) {
  mp_varint(b, t->v.n);
  for (size_t k = t->v.n; k--;) mp_varint(b, key_of(t, k).n + 1);
  for (size_t k = 0; k < t->v.n; k++) {
    hs_buf_put(b, key_of(t, k).p, key_of(t, k).n);
    hs_buf_putc(b, 0);
  }
}

// Appends the file around the operations.
static void put_file(mlir_portable *W, const hs_buf *ir, hs_buf *out) {
  enum { STRINGS, DIALECTS, ENTRIES, OFFSETS, OPERATIONS, PROPERTIES = 8 };
  hs_buf s[PROPERTIES + 1] = {{0}};
  hs_buf_puts(out, "ML\xEFR");
  mp_varint(out, W->bytecode);
  hs_buf_printf(out, "StableHLO_v%u.%u.0", W->version / 100, W->version % 100);
  hs_buf_putc(out, 0);
  put_dialects(W, &s[DIALECTS]);
  mp_varint(&s[OFFSETS], W->attrs.v.n);
  mp_varint(&s[OFFSETS], W->types.v.n);
  put_entries(&W->attrs, &s[OFFSETS], &s[ENTRIES]);
  put_entries(&W->types, &s[OFFSETS], &s[ENTRIES]);
  hs_buf_put(&s[OPERATIONS], ir->p, ir->n);
  put_strings(&W->strings, &s[STRINGS]);
  mp_varint(&s[PROPERTIES], W->props.v.n);
  for (size_t k = 0; k < W->props.v.n; k++) {
    hs_str p = key_of(&W->props, k);
    mp_varint(&s[PROPERTIES], p.n);
    hs_buf_put(&s[PROPERTIES], p.p, p.n);
  }
  static const u8 order[] = {DIALECTS, OFFSETS, ENTRIES, OPERATIONS, STRINGS};
  for (size_t k = 0; k < HS_COUNT(order); k++) section(out, order[k], &s[order[k]]);
  if (W->bytecode >= 5) section(out, PROPERTIES, &s[PROPERTIES]);
  else hs_buf_free(&s[PROPERTIES]);
}

// ---- the module ---------------------------------------------------------------------------------
// MLIR's bytecode that a version of StableHLO is written in.
static u32 bytecode_of(u32 version) {
  static const u32 since[][2] = {{15, 6}, {14, 4}, {12, 3}, {10, 1}};
  for (size_t k = 0; k < HS_COUNT(since); k++)
    if (version >= since[k][0]) return since[k][1];
  return 0;
}

typedef struct work {
  u32 version;
  hs_buf *out;
  hs_status err;
} work;

static bool write_tree(mlir_reader *R, void *arg) {
  work *w = arg;
  mlir_portable W = {.R = R, .version = w->version, .bytecode = bytecode_of(w->version)};
  hs_buf ir = {0};
  bool ok = mp_module(&W, &ir);
  if (ok) put_file(&W, &ir, w->out);
  w->err = W.err;
  hs_buf_free(&ir);
  hs_vec_free(&W.chlo);
  mlir_names *const tables[] = {&W.strings, &W.attrs, &W.types, &W.ops, &W.props};
  for (size_t k = 0; k < HS_COUNT(tables); k++) mlir_names_free(tables[k]);
  return ok;
}

hs_status hlo_mlir_version(hs_str text, u32 *out) {
  u32 v[3] = {0}, n = 0;
  bool ok = text.n > 0;
  for (size_t k = 0; ok && k < text.n; k++) {
    char c = text.p[k];
    if (c == '.') ok = ++n < 3 && k + 1 < text.n && text.p[k + 1] != '.';
    else if ((ok = c >= '0' && c <= '9' && v[n] < 1000)) v[n] = v[n] * 10 + (u32)(c - '0');
  }
  *out = v[0] * 100 + v[1];
  ok = ok && n >= 1 && v[1] < 100 && *out >= HLO_STABLEHLO_OLDEST && *out <= HLO_STABLEHLO_NEWEST;
  if (ok) return HS_GOOD;
  return hs_fail(HS_E_USAGE, "no version of StableHLO from 0.9.0 to 1.21.0: '%.*s'",
                 (int)HS_MIN(text.n, 40u), text.p);
}

hs_status hlo_mlir_write(const hlo_module *m, u32 version, hs_buf *b) {
  hs_buf text = {0};
  size_t from = b->n;
  work w = {version, b, HS_GOOD};
  const hlo_parse_options o = {.as_written = true};
  hs_status s = hlo_mlir_print(m, &text);
  if (hs_ok(s)) s = mlir_read_tree(m->ctx, text.p, text.n, &o, write_tree, &w);
  hs_buf_free(&text);
  // configurations of custom calls are text that nobody has read before
  if (!hs_ok(s) && (s.err->code == HS_E_SYNTAX || s.err->code == HS_E_TOKEN)) {
    hs_status why = hs_fail(HS_E_NO_STABLEHLO, "a configuration: %s", s.err->message);
    hs_status_drop(s);
    s = why;
  }
  if (hs_ok(s)) s = w.err;
  else hs_status_drop(w.err);
  if (!hs_ok(s)) b->n = from;
  return s;
}
