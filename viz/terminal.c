// terminal.c — a neighbourhood as a tree of text: operands above, the instruction itself, users
// below.
//
//     ┌─ x  f32[8,4]  parameter 0
//   ┌─┴─ ...
//   ◆ dot.3  f32[8,8]  dot
//   ├─ add.5  f32[8,8]  add
//   └─ tuple.9 ...
//
// A value that was drawn already is named again with an arrow, not unfolded again. Trees are cut at
// a number of lines and at a depth; what is left out is counted.
#include "viz/view.h"

#include "core/text/text.h"

enum { MAX_LINES = 300, MAX_DEPTH = 24, MAX_BRANCHES = 16 };

typedef struct tree {
  hs_buf *b;
  const viz_options *o;
  bool color;
  u8 *seen;        // by instruction id
  u32 lines, cut;  // printed; left out
  u32 width;
} tree;

// ---- one line -----------------------------------------------------------------------------------
static const char *ansi_of(const hlo_instr *i) {
  switch (hlo_ops[i->opcode].color) {
  case HLO_COLOR_YELLOW: return "\033[33m";
  case HLO_COLOR_GREEN: return "\033[32m";
  case HLO_COLOR_ORANGE: return "\033[38;5;208m";
  case HLO_COLOR_PURPLE: return "\033[35m";
  case HLO_COLOR_DARKBLUE: return "\033[1;34m";
  case HLO_COLOR_DARKGREEN: return "\033[1;32m";
  case HLO_COLOR_BROWN: return "\033[38;5;137m";
  case HLO_COLOR_RED: return "\033[31m";
  case HLO_COLOR_GREY: return "\033[1;36m";
  default: return "";
  }
}
static void paint_text(tree *t, const char *code, const char *s, size_t max) {
  if (t->color) hs_buf_puts(t->b, code);
  viz_clean(t->b, s, strlen(s), max);
  if (t->color && *code) hs_buf_puts(t->b, "\033[0m");
}
static void describe(tree *t, const hlo_instr *i) {
  hs_buf s = {0};
  viz_name_text(&s, i->name, 60);
  paint_text(t, "\033[1m", hs_buf_cstr(&s), 200);
  s.n = 0;
  hlo_shape_print(&s, i->shape, t->o->show_layouts && !hlo_shape_is_row_major(i->shape));
  hs_buf_puts(t->b, "  ");
  paint_text(t, "\033[2m", hs_buf_cstr(&s), 72);
  hs_buf_puts(t->b, "  ");
  paint_text(t, ansi_of(i), hlo_op_text(i->opcode), 40);
  s.n = 0;
  if (i->opcode == HLO_PARAMETER) hs_buf_printf(&s, " %lld", (long long)hlo_param_number(i));
  else if (i->opcode == HLO_GET_TUPLE_ELEMENT)
    hs_buf_printf(&s, " #%lld", (long long)hlo_attr_int(i, HLO_ATTR_INDEX, 0));
  else if (i->opcode == HLO_COMPARE)
    hs_buf_printf(&s, " %s",
                  hlo_enum_text(HLO_AK_ENUM_DIRECTION, hlo_attr_int(i, HLO_ATTR_DIRECTION, 0)));
  else if (i->opcode == HLO_CONSTANT && hlo_shape_is_array(i->shape) && i->shape->elements <= 8)
    hs_buf_putc(&s, ' '), viz_value_text(&s, i);
  else if (i->opcode == HLO_FUSION)
    hs_buf_printf(&s, " %s",
                  hlo_enum_text(HLO_AK_ENUM_FUSION_KIND, hlo_attr_int(i, HLO_ATTR_KIND, 0)));
  else if (i->opcode == HLO_CUSTOM_CALL)
    hs_buf_putc(&s, ' '), hs_buf_put(&s, hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET).p,
                                     hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET).n);
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  if (dims.n && dims.n <= 8) {
    hs_buf_puts(&s, " {");
    for (u32 k = 0; k < dims.n; k++) hs_buf_printf(&s, k ? ",%lld" : "%lld", (long long)dims.v[k]);
    hs_buf_putc(&s, '}');
  }
  size_t before = s.n;
  hs_buf_puts(&s, "  ");
  viz_called_text(&s, i);
  if (s.n == before + 2) s.n = before;
  viz_clean(t->b, hs_buf_cstr(&s), s.n, 100);
  hs_buf_free(&s);
  if (hlo_is_root(i)) paint_text(t, "\033[1;35m", "  ROOT", 8);
}
static bool line(tree *t, const char *prefix, const char *branch, const hlo_instr *i,
                 const char *tail) {
  if (t->lines >= MAX_LINES) {
    t->cut++;
    return false;
  }
  t->lines++;
  hs_buf_puts(t->b, prefix);
  hs_buf_puts(t->b, branch);
  describe(t, i);
  if (*tail) paint_text(t, "\033[2m", tail, 80);
  hs_buf_putc(t->b, '\n');
  return true;
}
static void note_line(tree *t, const char *prefix, const char *branch, u32 n, const char *what) {
  if (t->lines++ >= MAX_LINES) return;
  hs_buf_puts(t->b, prefix);
  hs_buf_puts(t->b, branch);
  hs_buf_printf(t->b, "... %u more %s\n", n, what);
}

static bool stops(const tree *t, const hlo_instr *i) {
  for (u32 k = 0; k < t->o->nboundary; k++)
    if (t->o->boundary[k] == i) return true;
  return false;
}

// ---- above and below ----------------------------------------------------------------------------
// An upside-down tree: everything above a line is printed before it. Constants are leaves.
static void above(tree *t, const hlo_instr *i, const char *prefix, u32 depth) {
  if (depth == 0 || !i->noperands) return;
  u32 n = HS_MIN(i->noperands, (u32)MAX_BRANCHES);
  for (u32 k = 0; k < n; k++) {
    const hlo_instr *x = hlo_operand(i, k);
    bool again = t->seen[x->id] != 0;
    t->seen[x->id] = 1;
    char *deeper = hs_format("%s%s", prefix, k == 0 ? "   " : "│  ");
    if (!again && !stops(t, x) && t->lines < MAX_LINES) above(t, x, deeper, depth - 1);
    hs_free(deeper);
    line(t, prefix, k == 0 ? "┌─ " : "├─ ", x,
         again && x->noperands        ? "  (drawn elsewhere)"
         : depth == 1 && x->noperands ? "  ..."
                                      : "");
  }
  if (n < i->noperands) note_line(t, prefix, "├─ ", i->noperands - n, "operands");
}
static void below(tree *t, const hlo_instr *i, const char *prefix, u32 depth) {
  if (depth == 0) return;
  u32 distinct = 0, shown = 0;
  const hlo_instr *users[MAX_BRANCHES];
  hlo_for_each_use(u, i) {
    bool again = false;
    for (u32 k = 0; k < shown && !again; k++) again = users[k] == u->user;
    if (again) continue;
    distinct++;
    if (shown < MAX_BRANCHES) users[shown++] = u->user;
  }
  for (u32 k = 0; k < shown; k++) {
    const hlo_instr *x = users[k];
    bool last = k + 1 == shown && distinct == shown, again = t->seen[x->id] != 0;
    t->seen[x->id] = 1;
    char slot[48] = "";
    if (x->noperands > 1)
      for (u32 j = 0; j < x->noperands; j++)
        if (hlo_operand(x, j) == i) {
          hs_buf s = {0};
          hs_buf_printf(&s, "  (as operand %u%s)", j, again ? ", drawn elsewhere" : "");
          memcpy(slot, hs_buf_cstr(&s), HS_MIN(s.n + 1, sizeof slot));
          hs_buf_free(&s);
          break;
        }
    if (!line(t, prefix, last ? "└─ " : "├─ ", x, slot)) continue;
    char *deeper = hs_format("%s%s", prefix, last ? "   " : "│  ");
    if (!again && !stops(t, x)) below(t, x, deeper, depth - 1);
    hs_free(deeper);
  }
  if (distinct > shown) note_line(t, prefix, "└─ ", distinct - shown, "users");
}

hs_status viz_terminal(const hlo_module *m, const viz_options *o, bool color, hs_buf *out) {
  const hlo_computation *comp = o->center ? o->center->parent : o->comp ? o->comp : m->entry;
  const hlo_instr *center = o->center ? o->center : comp ? comp->root : NULL;
  if (!center)
    return hs_fail(HS_E_NO_OBJECT, "there is nothing to draw: the module has no entry computation");
  tree t = {.b = out, .o = o, .color = color, .seen = hs_calloc(m->next_instr_id + 1, 1)};
  u32 depth = o->center ? HS_MIN(o->width, (u32)MAX_DEPTH) : MAX_DEPTH;
  t.seen[center->id] = 1;
  above(&t, center, "", depth);
  hs_buf_puts(out, color ? "\033[1;31m◆\033[0m " : "◆ ");
  describe(&t, center);
  hs_buf_putc(out, '\n');
  t.lines = HS_MIN(t.lines, (u32)MAX_LINES - 50);  // operands never crowd the users out
  below(&t, center, "", depth);
  if (t.cut) hs_buf_printf(out, "(%u more lines are left out; ask for a smaller width)\n", t.cut);
  hs_free(t.seen);
  return hs_poll();
}
