// load.c — files to modules. The format is told by content, never by the file's name: HLO text,
// StableHLO as text, as bytecode or exported by JAX, protocol buffers in binary or text form, gzip
// and zstd around them. Formats that people mistake for HLO (GraphDef, markup, ...) are refused
// with a note on how to get HLO.
//
// What a log wrote before each line is dropped, as XLA's loader does.
//
// Regular files are mapped, streams are read to their end; the text is parsed where it lies. What
// is read or unpacked is limited by the context (hlo_ctx_load_limit).
#include "core/base/compress.h"
#include "core/base/file.h"
#include "core/mlir/mlir.h"
#include "core/proto/proto.h"
#include "core/text/text.h"
#include "core/types/ctx.h"

static bool contains(const char *p, size_t n, const char *word) {
  return memmem(p, n, word, strlen(word)) != NULL;
}

// E_FORMAT for formats that are known and are not HLO; ok when the bytes may be HLO.
static hs_status check_foreign(const char *path, const char *p, size_t n) {
  size_t head = HS_MIN(n, 8192u);
  while (head && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
    p++;
    head--;
  }
  if (head >= 4 && memcmp(p, "\x89PNG", 4) == 0)
    return hs_fail(HS_E_FORMAT, "%s is a PNG image", path);
  if (head >= 4 && memcmp(p, "\177ELF", 4) == 0)
    return hs_fail(HS_E_FORMAT, "%s is an ELF binary", path);
  if (head >= 2 && memcmp(p, "PK", 2) == 0)
    return hs_with_note(hs_fail(HS_E_FORMAT, "%s is a zip archive", path),
                        "unpack it and load the HLO inside");
  if (head >= 8 && memcmp(p, "\x83\xAF\x70\xD1\x0D\x88\x4A\x3F", 8) == 0)
    return hs_with_note(
        hs_fail(HS_E_FORMAT, "%s is a riegeli record file", path),
        "XLA writes it for unoptimized snapshots (--xla_dump_hlo_unoptimized_snapshots); "
        "dump with --xla_dump_hlo_as_text or --xla_dump_hlo_as_proto instead");
  if (head && memchr(p, 0, head)) return HS_GOOD;  // binary: a proto
  const char *mlir = contains(p, head, "stablehlo.")                                   ? "StableHLO"
                     : contains(p, head, "mhlo.")                                      ? "MHLO"
                     : contains(p, head, "func.func") || contains(p, head, "module @") ? "MLIR"
                                                                                       : NULL;
  if (!head && n <= 8192)
    return hs_with_note(hs_fail(HS_E_FORMAT, "%s is empty", path),
                        "HLO text begins with HloModule NAME");
  if (head && (*p == '{' || *p == '<' || *p == '['))
    return hs_with_note(
        hs_fail(HS_E_FORMAT, "%s is not HLO but looks like %s", path,
                *p == '<' ? "markup" : "JSON"),
        "HLO text begins with HloModule NAME; XLA_FLAGS=--xla_dump_to=DIR writes it");
  bool hlo = head >= 9 && memcmp(p, "HloModule", 9) == 0;
  if (mlir && !hlo)
    return hs_with_note(
        hs_fail(HS_E_FORMAT, "%s is %s text, not HLO", path, mlir),
        "get HLO from JAX: lowered.as_text(dialect=\"hlo\") with lowered = jax.jit(f).lower(...); "
        "or run with XLA_FLAGS=--xla_dump_to=DIR "
        "--xla_dump_hlo_as_text; or hlo-translate --mlir-to-hlo FILE");
  if (!hlo && contains(p, head, "node {") && contains(p, head, "op: \""))
    return hs_with_note(
        hs_fail(HS_E_FORMAT, "%s is a TensorFlow GraphDef", path),
        "get HLO from TensorFlow: f.experimental_get_compiler_ir(...)(stage='hlo'), or run with "
        "XLA_FLAGS=--xla_dump_to=DIR");
  return HS_GOOD;
}

static bool is_binary(const char *p, size_t n) {
  size_t head = HS_MIN(n, 4096u);
  for (size_t i = 0; i < head; i++) {
    u8 c = (u8)p[i];
    if (c < 32 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\v') return true;
  }
  return false;
}

static hs_status load_bytes(hlo_ctx *ctx, const char *path, const char *p, size_t n,
                            const hlo_parse_options *o, hlo_module **out) {
  hs_str artifact;
  if (hlo_is_jax_export(p, n, &artifact)) {
    HS_TRY(hlo_jax_export_check(p, n));
    if (o->stopped_at) *o->stopped_at = n;
    hlo_parse_options inner = *o;
    inner.from = 0;
    inner.stopped_at = NULL;
    return hlo_mlir_read(ctx, artifact.p, artifact.n, &inner, out);
  }
  if (hlo_is_mlir(p, n)) return hlo_mlir_read(ctx, p, n, o, out);
  if (o->sizes)
    return hs_with_note(hs_fail(HS_E_USAGE, "%s: sizes are given to StableHLO", path),
                        "resize PARAM.DIM=N gives a parameter of HLO another size");
  HS_TRY(check_foreign(path, p, n));
  if (hlo_is_proto(p, n)) return hlo_proto_read(ctx, p, n, path, out);
  if (hlo_is_proto_text(p, n)) return hlo_proto_read_text(ctx, p, n, path, out);
  if (is_binary(p, n) && !(n >= 9 && memcmp(p, "HloModule", 9) == 0))
    return hs_with_note(
        hs_fail(HS_E_FORMAT, "%s is binary and of no known format", path),
        "hlosh reads HLO text, and HloModuleProto, HloProto, HloSnapshot and their kin, binary or "
        "text, also compressed by gzip or zstd");
  return hlo_parse(ctx, p, n, o, out);
}

// A text that does not begin in its first megabyte is none: known before gigabytes are unpacked.
static hs_status check_begins(const char *path, const char *p, size_t n) {
  enum { BLANKS_MOST = 1 << 20 };
  if (n < BLANKS_MOST) return HS_GOOD;
  for (size_t k = 0; k < BLANKS_MOST; k++)
    if (!strchr(" \t\r\n\f\v", p[k]) || !p[k]) return HS_GOOD;
  return hs_with_note(hs_fail(HS_E_FORMAT, "%s is blank for its first megabyte", path),
                      "HLO text begins with HloModule NAME");
}

// ---- the beginning of what is unpacked ----------------------------------------------------------
// Where the text's byte at this line and column (from 1) is; n when it has no such line.
static size_t byte_at(const char *p, size_t n, u32 line, u32 col) {
  size_t at = 0;
  for (u32 k = 1; k < line; k++) {
    const char *q = memchr(p + at, '\n', n - at);
    if (!q) return n;
    at = (size_t)(q - p) + 1;
  }
  return HS_MIN(at + col, n);
}

// The first error of HLO text of which these are the first bytes. What is found near the cut may be
// due to it, and so may a name that nothing defines or a parameter that is missing.
static hs_status check_text(const char *p, size_t n, const hlo_parse_options *o) {
  enum { HEAD = 1 << 20, NEAR = 1 << 16 };
  hlo_parse_options part = *o;
  size_t stopped, head = HS_MIN(n, (size_t)HEAD);
  hlo_module *m = NULL;
  hlo_ctx *c = hlo_ctx_new();
  part.max_errors = 1;
  part.stopped_at = o->stopped_at ? &stopped : NULL;
  hs_status s = hlo_parse(c, p, head, &part, &m);
  if (hs_ok(s)) hlo_module_free(m);
  hlo_ctx_free(c);
  if (hs_ok(s)) return s;
  bool of_cut = s.err->code == HS_E_NAME || s.err->code == HS_E_VERIFY;
  if (!of_cut && byte_at(p, head, s.err->line, s.err->col) + NEAR < head) return s;
  hs_status_drop(s);
  return HS_GOOD;
}

typedef struct beginning {
  const char *path;
  const hlo_parse_options *o;
  bool refused;
} beginning;

static hs_status check_head(void *to, const char *p, size_t n) {
  beginning *b = to;
  hs_str artifact;
  hs_status s = HS_GOOD;
  if (hlo_is_jax_export(p, n, &artifact) || hlo_is_mlir(p, n)) return HS_GOOD;
  s = check_begins(b->path, p, n);
  if (hs_ok(s)) s = check_foreign(b->path, p, n);
  if (hs_ok(s) && b->o && !hlo_is_proto(p, n) && !hlo_is_proto_text(p, n) && !is_binary(p, n))
    s = check_text(p, n, b->o);
  b->refused = !hs_ok(s);
  return s;
}

static hs_status unpack(const char *path, size_t limit, const hlo_parse_options *o, hs_view *v) {
  char *p;
  size_t n;
  beginning b = {path, o, false};
  hs_status s = hlo_decompress(v->p, v->n, &(hlo_unpacking){limit, check_head, &b}, &p, &n);
  if (b.refused) return s;
  if (!hs_ok(s)) return hs_with_place(s, path, 0, 0, (hs_str){0});
  hs_view_drop(v);
  *v = (hs_view){p, n, false};
  return HS_GOOD;
}

// ---- lines of logs ------------------------------------------------------------------------------
// Whether the text is of a form in which 0 stands for a digit and I for a severity.
static bool is_of_form(const char *p, size_t n, const char *form) {
  size_t k = 0;
  for (; form[k] && k < n; k++) {
    bool digit = p[k] >= '0' && p[k] <= '9', severity = p[k] && strchr("IWEF", p[k]);
    if (form[k] == '0' ? !digit : form[k] == 'I' ? !severity : p[k] != form[k]) return false;
  }
  return !form[k];
}

// How many bytes of the line a log put before it: "I0521 12:04:45.883483 1509 x.cc:186] " of glog,
// "2023-05-21 12:04:45.883483: I x.cc:186] " of TensorFlow. 0: none.
static size_t log_header(const char *p, size_t n) {
  static const char *const forms[] = {"I0000 00:00:00.0", "0000-00-00 00:00:00.0"};
  for (size_t k = 0; k < HS_COUNT(forms); k++) {
    if (!is_of_form(p, n, forms[k])) continue;
    const char *close = memchr(p, ']', n), *digit = close;
    while (digit && digit > p && digit[-1] >= '0' && digit[-1] <= '9') digit--;
    if (!close || digit == close || digit[-1] != ':' || memchr(p, '\n', (size_t)(close - p)))
      return 0;
    size_t used = (size_t)(close - p) + 1;
    return used + (used < n && (p[used] == ' ' || p[used] == '\t'));
  }
  return 0;
}

// A module that XLA logged, as it was before: lines stay lines, so that errors name them. *out is
// NULL when the text is not of a log, else to be freed.
static hs_status drop_log_headers(const char *p, size_t *n, char **out) {
  const char *end = p + *n, *first = p;
  *out = NULL;
  while (first < end && strchr(" \t\r\n", *first) && *first) first++;
  if (!log_header(first, HS_MIN((size_t)(end - first), 1024u))) return HS_GOOD;
  char *text = *out = hs_try_alloc(*n);
  if (!text) return hs_fail(HS_E_NO_MEMORY, "out of memory for a log of %zu bytes", *n);
  *n = 0;
  for (const char *stop; p < end; p = stop) {
    stop = memchr(p, '\n', (size_t)(end - p));
    stop = stop ? stop + 1 : end;
    p += log_header(p, (size_t)(stop - p));
    memcpy(text + *n, p, (size_t)(stop - p));
    *n += (size_t)(stop - p);
  }
  return HS_GOOD;
}

static hs_status view_unpacked(const hlo_ctx *ctx, const char *path, const hlo_parse_options *o,
                               hs_view *v) {
  size_t limit = hlo_ctx_load_limit(ctx);
  HS_TRY(hs_view_file(path, limit, false, v));
  hs_status s =
      hlo_is_compressed(v->p, v->n) ? unpack(path, limit, o, v) : check_begins(path, v->p, v->n);
  size_t n = v->n;
  char *text = NULL;
  if (hs_ok(s)) s = drop_log_headers(v->p, &n, &text);
  if (!hs_ok(s) || text) hs_view_drop(v);
  if (text) *v = (hs_view){text, n, false};
  return s;
}

// What messages call it.
static const char *name_of(const char *path) {
  return strcmp(path, "-") == 0 ? "standard input" : path;
}

hs_status hlo_load_file(hlo_ctx *ctx, const char *path, const hlo_parse_options *o,
                        hlo_module **out) {
  *out = NULL;
  hs_view v;
  hlo_parse_options opt = o ? *o : (hlo_parse_options){0};
  if (!opt.file) opt.file = path;
  hs_status s = view_unpacked(ctx, path, &opt, &v);
  if (hs_ok(s)) s = load_bytes(ctx, name_of(path), v.p, v.n, &opt, out);
  hs_view_drop(&v);
  return s;
}

hs_status hlo_load_bytes(hlo_ctx *ctx, const char *name, const void *p, size_t n,
                         hlo_module **out) {
  *out = NULL;
  hs_view v = {(char *)(uintptr_t)p, n, false};
  char *unpacked = NULL;
  hs_status s = HS_GOOD;
  if (hlo_is_compressed(v.p, v.n)) {
    s = hlo_decompress(v.p, v.n, &(hlo_unpacking){.limit = hlo_ctx_load_limit(ctx)}, &unpacked,
                       &v.n);
    v.p = unpacked;
  }
  hlo_parse_options o = {.file = name};
  char *text = NULL;
  if (hs_ok(s)) s = drop_log_headers(v.p, &v.n, &text);
  if (hs_ok(s)) s = load_bytes(ctx, name, text ? text : v.p, v.n, &o, out);
  hs_free(text);
  hs_free(unpacked);
  return s;
}

// ---- several modules in one text ----------------------------------------------------------------
// The parser finds the end of the first module itself, so that a file of one module, however large,
// is read once. The ends of the others are searched for: what the parser allocates goes by the size
// of the text it is given, which must not be the whole rest every time.
static const char *next_separator(const char *p, const char *end) {
  static const char text[] = "\n// -----";
  const char *at = memmem(p, (size_t)(end - p), text, sizeof text - 1);
  return at ? at + 1 : end;
}

static const char *skip_blanks(const char *p, const char *end) {
  while (p < end && strchr(" \t\r\n", *p)) p++;
  return p;
}

static const char *skip_line(const char *p, const char *end) {
  const char *at = memchr(p, '\n', (size_t)(end - p));
  return at ? at + 1 : end;
}

// The modules behind the separator at `from`.
static hs_status load_rest(hlo_ctx *ctx, const hs_view *v, size_t from, const hlo_parse_options *o,
                           hlo_module_sink *sink, void *to) {
  const char *end = v->p + v->n;
  for (const char *p = v->p + from, *stop; p < end; p = stop) {
    stop = next_separator(p, end);
    p = skip_blanks(skip_line(p, stop), stop);
    if (p == stop) continue;
    hlo_parse_options part = *o;
    part.from = (size_t)(p - v->p);
    part.stopped_at = NULL;
    hlo_module *m;
    HS_TRY(hlo_is_mlir(p, (size_t)(stop - p))
               ? hlo_mlir_read(ctx, v->p, (size_t)(stop - v->p), &part, &m)
               : hlo_parse(ctx, v->p, (size_t)(stop - v->p), &part, &m));
    HS_TRY(sink(to, m));
  }
  return HS_GOOD;
}

static hs_status load_all(hlo_ctx *ctx, const char *path, const hs_view *v, hlo_parse_options *o,
                          hlo_module_sink *sink, void *to) {
  const char *end = v->p + v->n, *first = skip_blanks(v->p, end);
  size_t stopped_at = v->n;
  if ((size_t)(end - first) >= 8 && memcmp(first, "// -----", 8) == 0)
    return load_rest(ctx, v, (size_t)(first - v->p), o, sink, to);
  o->stopped_at = &stopped_at;
  hlo_module *m;
  HS_TRY(load_bytes(ctx, path, v->p, v->n, o, &m));
  HS_TRY(sink(to, m));
  return load_rest(ctx, v, stopped_at, o, sink, to);
}

hs_status hlo_load_each(hlo_ctx *ctx, const char *path, const hlo_parse_options *o,
                        hlo_module_sink *sink, void *to) {
  hs_view v;
  hlo_parse_options opt = o ? *o : (hlo_parse_options){0};
  if (!opt.file) opt.file = path;
  hs_status s = view_unpacked(ctx, path, &opt, &v);
  if (hs_ok(s)) s = load_all(ctx, name_of(path), &v, &opt, sink, to);
  hs_view_drop(&v);
  return s;
}

hs_status hlo_load_arguments(hlo_ctx *ctx, const char *path, u32 partition, hlo_literal ***out,
                             u32 *count, hlo_literal **result) {
  *out = NULL;
  *count = 0;
  if (result) *result = NULL;
  hs_view v;
  hs_status s = view_unpacked(ctx, path, NULL, &v);
  if (hs_ok(s)) s = hlo_proto_read_arguments(ctx, v.p, v.n, path, partition, out, count, result);
  hs_view_drop(&v);
  return s;
}
