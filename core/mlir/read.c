// read.c — from bytes to a module: whether they are MLIR's text, and the reader from its first
// character to its last.
#include "core/mlir/tree.h"

bool hlo_is_mlir(const char *p, size_t n) {
  if (hlo_is_mlir_bytecode(p, n)) return true;
  const char *end = p + n;
  static const char *const begins[] = {
      "module", "func.func", "builtin.module", "\"builtin.module\"", "#loc", "{-#"};
  while (p < end) {
    if (strchr(" \t\r\n", *p) && *p) {
      p++;
    } else if (end - p > 1 && p[0] == '/' && p[1] == '/') {
      const char *line = memchr(p, '\n', (size_t)(end - p));
      p = line ? line + 1 : end;
    } else {
      break;
    }
  }
  for (size_t k = 0; k < HS_COUNT(begins); k++) {
    size_t m = strlen(begins[k]);
    if ((size_t)(end - p) > m && memcmp(p, begins[k], m) == 0 &&
        strchr(" \t\n@{(1234567890=", p[m])) {
      if (k) return true;
      // "module {", "module @name", "module attributes {"; not HLO's "module_name {"
      const char *q = p + m;
      while (q < end && (*q == ' ' || *q == '\n' || *q == '\t')) q++;
      if (q < end && (*q == '@' || *q == '{' || *q == 'a')) return true;
    }
  }
  return false;
}

static void reader_free(mlir_reader *R) {
  for (size_t k = 0; k < R->literals.n; k++) hlo_literal_unref(R->literals.v[k]);
  hs_vec_free(&R->literals);
  mlir_names_free(&R->constants);
  mlir_names_free(&R->values);
  mlir_names_free(&R->aliases);
  mlir_names_free(&R->resources);
  mlir_names_free(&R->types);
  mlir_names_free(&R->blobs);
  mlir_names_free(&R->func_names);
  hs_vec_free(&R->funcs);
  hs_vec_free(&R->operands);
  hs_vec_free(&R->attrs);
  hs_vec_free(&R->bound);
  hs_arena_free(&R->arena);
}

typedef bool use_tree(mlir_reader *, void *arg);

// A module that is only read, too, owns what its types and constants intern. `use` gets the tree.
static hs_status read_text(hlo_ctx *ctx, const char *text, size_t n, const hlo_parse_options *o,
                           use_tree *use, void *arg, hlo_module **out) {
  *out = NULL;
  hlo_module *m = hlo_module_new(ctx, "module");
  mlir_reader reader = {.ctx = ctx, .m = m}, *R = &reader;
  if (o) R->opt = *o;
  hlo_lex_init(RX, &m->arena, text, n, R->opt.file, R->opt.max_depth, R->opt.max_errors);
  RX->stack_base = __builtin_frame_address(0);
  // conversion takes more of the C stack for a level than reading does
  RX->stack_limit /= 2;
  RX->p = RX->seen = text + R->opt.from;
  RX->many = R->opt.stopped_at != NULL;
  hlo_journal_disable(m);
  bool bytecode = hlo_is_mlir_bytecode(RX->p, (size_t)(RX->end - RX->p));
  bool read = bytecode ? mlir_read_bytecode(R) : hlo_lex_check_nul(RX) && mlir_read_module(R);
  if (read && use) (void)use(R, arg);
  if (RX->many) *R->opt.stopped_at = (size_t)(RX->end - text);
  reader_free(R);
  hlo_journal_enable(m);
  if (RX->errors.err) {
    hlo_module_free(m);
    return RX->errors;
  }
  *out = m;
  return HS_GOOD;
}

static bool convert(mlir_reader *R, void *arg) { return (void)arg, mlir_convert(R); }

hs_status hlo_mlir_read(hlo_ctx *ctx, const char *text, size_t n, const hlo_parse_options *o,
                        hlo_module **out) {
  HS_TRY(read_text(ctx, text, n, o, convert, NULL, out));
  hlo_mark_sources(*out);
  return HS_GOOD;
}

hs_status hlo_mlir_check(hlo_ctx *ctx, const char *text, size_t n, const hlo_parse_options *o) {
  hlo_module *m;
  HS_TRY(read_text(ctx, text, n, o, NULL, NULL, &m));
  hlo_module_free(m);
  return HS_GOOD;
}

hs_status mlir_read_tree(hlo_ctx *ctx, const char *text, size_t n, const hlo_parse_options *o,
                         use_tree *use, void *arg) {
  hlo_module *m;
  HS_TRY(read_text(ctx, text, n, o, use, arg, &m));
  hlo_module_free(m);
  return HS_GOOD;
}
