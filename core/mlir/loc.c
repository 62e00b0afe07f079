// loc.c — locations: loc("jit(f)/add"("f.py":12:8)), loc(callsite(.. at ..)), loc(fused[..]) and
// aliases of them. The first name is the metadata's op_name, the first position its source line.
#include "core/mlir/tree.h"

typedef struct where {
  hs_str name, file;
  i64 line, column;
} where;

// Looks into a location; depth bounds aliases that name each other.
static bool look(mlir_reader *R, mlir_span s, where *w, u32 depth);

static bool look_at(mlir_reader *R, where *w, u32 depth) {
  for (;;) {
    char c = hlo_peek(RX);
    mlir_span s;
    if (!c || c == ')' || c == ']') return true;
    if (c == '"') {
      hs_str text;
      if (!mlir_string(RX, &text)) return false;
      i64 line, column = 0;
      if (hlo_accept(RX, ':')) {
        if (!hlo_int(RX, &line) || !hlo_expect(RX, ':', "after the line") || !hlo_int(RX, &column))
          return false;
        if (!w->file.p) *w = (where){w->name, text, line, column};
        // "f.py":1:2 to :3:4
        if (hlo_accept_text(RX, "to")) return RX->p = RX->end, true;
        return true;
      }
      if (!w->name.p) w->name = text;
      return !hlo_accept(RX, '(') || look_at(R, w, depth);
    }
    if (c == '#') return mlir_skip_value(RX, false, &s) && look(R, s, w, depth);
    hs_str word = mlir_word(RX);
    if (!word.n) return true;
    if (hlo_peek(RX) == '<' && !mlir_skip_balanced(RX)) return false;
    if (hlo_accept(RX, '[') || hlo_accept(RX, '(')) continue;  // its first part
    return true;
  }
}

static bool look(mlir_reader *R, mlir_span s, where *w, u32 depth) {
  if (depth > 64) return true;
  s = mlir_unalias(R, s);
  if (s.n && *s.p == '#') return true;  // defined nowhere: nothing is known
  mlir_place was = mlir_enter(R, s);
  if (hlo_accept_text(RX, "loc")) (void)hlo_accept(RX, '(');
  bool ok = look_at(R, w, depth + 1);
  mlir_leave(R, was);
  return ok;
}

const hlo_metadata *mlir_metadata(mlir_reader *R, mlir_span loc) {
  where w = {0};
  if (!loc.n || !look(R, loc, &w, 0) || (!w.name.n && !w.file.n)) return NULL;
  hs_arena *a = &R->m->arena;
  hlo_metadata *m = HS_NEW(a, hlo_metadata);
  if (w.name.n && w.name.p[w.name.n - 1] == ':') w.name.n--;  // "name:" has a type behind it
  m->op_name = (hs_str){hs_arena_strndup(a, w.name.p ? w.name.p : "", w.name.n), w.name.n};
  m->op_type = m->source_file = (hs_str){"", 0};
  if (w.file.n) {
    m->source_file = (hs_str){hs_arena_strndup(a, w.file.p, w.file.n), w.file.n};
    m->source_line = m->source_end_line = (i32)w.line;
    m->source_column = m->source_end_column = (i32)w.column;
  }
  return m;
}
