// diff_dot.c: what two versions of a module differ in, as a DOT graph. See viz.h.
//
// Shown is what came, went, changed or moved, and what it is connected with; all the rest is left
// out. Each computation is a cluster, those of the later version and, for what went with its whole
// computation, those of the earlier one. A removed instruction stands where its operands and users
// have their counterparts. Colours are those of `diff`: green came, red went, yellow changed, blue
// moved.
#include "viz/explore_model.h"
#include "viz/svg.h"
#include "viz/view.h"

typedef enum fate { AWAY, CONTEXT, ADDED, CHANGED, MOVED, REMOVED } fate;
static const struct {
  const char *fill, *border, *style;
} paints[] = {[CONTEXT] = {"#f5f5f5", "#bdbdbd", "filled"},
              [ADDED] = {"#c8e6c9", "#2e7d32", "filled,bold"},
              [CHANGED] = {"#fff59d", "#f9a825", "filled,bold"},
              [MOVED] = {"#bbdefb", "#1565c0", "filled"},
              [REMOVED] = {"#ffcdd2", "#c62828", "filled,dashed"}};

enum {
  MAX_CONTEXT = 6,  // neighbours on each side of what differs
  COLUMNS = 4       // computations side by side
};

// A cluster's first and last node, as DOT names them: of versions 'a' and 'b'.
typedef struct corner {
  char first_side, last_side;
  u32 first, last;
} corner;

typedef struct differ {
  hs_buf *b;
  const hlo_graph_diff *d;
  u8 *of_a, *of_b;  // fate by id
  u32 shown, limit, left_out;
  HS_VEC(corner) corners;
} differ;

static bool differs(u8 f) { return f >= ADDED; }

// ---- what is shown ------------------------------------------------------------------------------
static void mark(differ *w, u8 *of, const hlo_instr *i, fate f) {
  if (of[i->id] != AWAY) return;
  if (w->shown >= w->limit) {
    w->left_out += f != CONTEXT;
    return;
  }
  of[i->id] = (u8)f;
  w->shown++;
}

static void mark_differences(differ *w) {
  hlo_for_each_comp(c, w->d->b) {
    hlo_for_each_instr(i, c) {
      u8 how = w->d->change[i->id];
      // what only forwards values, and folded constants, would be noise
      if (hlo_graph_diff_is_forwarding(i) || (i->opcode == HLO_CONSTANT && i->nuses)) continue;
      if (!w->d->of_b[i->id]) mark(w, w->of_b, i, ADDED);
      else if (how & ~HLO_DIFF_MOVED) mark(w, w->of_b, i, CHANGED);
      else if (how) mark(w, w->of_b, i, MOVED);
    }
  }
  hlo_for_each_comp(c, w->d->a)
    hlo_for_each_instr(i, c)
      if (!w->d->of_a[i->id] && !hlo_graph_diff_is_forwarding(i) &&
          !(i->opcode == HLO_CONSTANT && i->nuses))
        mark(w, w->of_a, i, REMOVED);
}

static void mark_context(differ *w) {
  hlo_for_each_comp(c, w->d->b) {
    hlo_for_each_instr(i, c) {
      if (!differs(w->of_b[i->id])) continue;
      for (u32 k = 0; k < i->noperands && k < MAX_CONTEXT; k++)
        if (hlo_operand(i, k)->opcode != HLO_CONSTANT) mark(w, w->of_b, hlo_operand(i, k), CONTEXT);
      u32 n = 0;
      hlo_for_each_use(u, i) {
        if (n++ >= MAX_CONTEXT) break;
        mark(w, w->of_b, u->user, CONTEXT);
      }
    }
  }
  hlo_for_each_comp(c, w->d->a) {
    hlo_for_each_instr(i, c) {
      if (w->of_a[i->id] != REMOVED) continue;
      for (u32 k = 0; k < i->noperands && k < MAX_CONTEXT; k++) {
        const hlo_instr *o = w->d->of_a[hlo_operand(i, k)->id];
        if (o && o->opcode != HLO_CONSTANT) mark(w, w->of_b, o, CONTEXT);
      }
    }
  }
}

// ---- the graph ----------------------------------------------------------------------------------
static void put_node(differ *w, char side, const hlo_instr *i, u8 f) {
  hs_buf t = {0};
  corner *c = &w->corners.v[w->corners.n - 1];
  if (!c->first_side) c->first_side = side, c->first = i->id;
  c->last_side = side, c->last = i->id;
  hs_buf_printf(w->b, "%c%u [label=<<b>", side, i->id);
  viz_name_text(&t, i->name, VIZ_NAME_COLUMNS);
  viz_svg_text(w->b, hs_buf_cstr(&t), t.n, 200);
  hs_buf_printf(w->b, "</b><br/>%s<br/>", hlo_op_text(i->opcode));
  t.n = 0;
  const hlo_instr *was = side == 'b' && f == CHANGED ? w->d->of_b[i->id] : NULL;
  if (was && was->shape != i->shape) {
    hlo_shape_print(&t, was->shape, true);
    viz_svg_text(w->b, hs_buf_cstr(&t), t.n, 64);
    hs_buf_puts(w->b, " to<br/>");
    t.n = 0;
  }
  hlo_shape_print(&t, i->shape, !hlo_shape_is_row_major(i->shape));
  viz_svg_text(w->b, hs_buf_cstr(&t), t.n, 64);
  hs_buf_printf(w->b, ">, shape=rect, style=\"%s\", fillcolor=\"%s\", color=\"%s\"];\n",
                paints[f].style, paints[f].fill, paints[f].border);
  hs_buf_free(&t);
}

static void put_cluster(differ *w, char side, const hlo_computation *c, const u8 *of) {
  bool any = false;
  hlo_for_each_instr(i, c) any |= of[i->id] != AWAY;
  const hlo_computation *there = side == 'a' ? w->d->comp_of_a[c->id] : c;
  if (!any && side == 'a') return;
  if (side == 'b')  // what went from it stands in it too
    hlo_for_each_comp(o, w->d->a)
      if (w->d->comp_of_a[o->id] == c)
        hlo_for_each_instr(i, o) any |= w->of_a[i->id] != AWAY;
  if (!any || (side == 'a' && there)) return;
  hs_vec_push(&w->corners, (corner){0});
  hs_buf_printf(w->b,
                "subgraph cluster_%c%u {\nstyle=\"rounded,filled\"; fillcolor=\"#fafafa\"; "
                "color=\"#cfd8dc\"; labeljust=l; margin=14; label=<",
                side, c->id);
  hs_buf t = {0};
  viz_name_text(&t, c->name, VIZ_NAME_COLUMNS);
  viz_svg_text(w->b, hs_buf_cstr(&t), t.n, 200);
  hs_buf_free(&t);
  hs_buf_printf(w->b, "%s>;\n", side == 'a' ? " (removed)" : "");
  hlo_for_each_instr(i, c)
    if (of[i->id] != AWAY) put_node(w, side, i, of[i->id]);
  if (side == 'b')
    hlo_for_each_comp(o, w->d->a)
      if (w->d->comp_of_a[o->id] == c)
        hlo_for_each_instr(i, o)
          if (w->of_a[i->id] != AWAY) put_node(w, 'a', i, w->of_a[i->id]);
  hs_buf_puts(w->b, "}\n");
}

// Graphviz puts what is not connected side by side: edges that nobody sees make rows of it.
static void put_rows(differ *w) {
  for (size_t k = 0; k + COLUMNS < w->corners.n; k++) {
    const corner *above = &w->corners.v[k], *below = &w->corners.v[k + COLUMNS];
    hs_buf_printf(w->b, "%c%u -> %c%u [style=invis];\n", above->last_side, above->last,
                  below->first_side, below->first);
  }
}

static void put_edges(differ *w) {
  hlo_for_each_comp(c, w->d->b)
    hlo_for_each_instr(i, c)
      for (u32 k = 0; w->of_b[i->id] != AWAY && k < i->noperands && k < 64; k++) {
        const hlo_instr *o = hlo_operand(i, k);
        if (w->of_b[o->id] != AWAY) hs_buf_printf(w->b, "b%u -> b%u;\n", o->id, i->id);
      }
  hlo_for_each_comp(c, w->d->a)
    hlo_for_each_instr(i, c)
      for (u32 k = 0; k < i->noperands && k < 64; k++) {
        const hlo_instr *o = hlo_operand(i, k), *ob = w->d->of_a[o->id], *ib = w->d->of_a[i->id];
        bool gone = w->of_a[i->id] == REMOVED;
        if (!gone && w->of_a[o->id] != REMOVED) continue;
        bool from_a = w->of_a[o->id] == REMOVED, from_b = ob && w->of_b[ob->id] != AWAY,
             to_b = ib && w->of_b[ib->id] != AWAY;
        if ((!from_a && !from_b) || (!gone && !to_b)) continue;
        hs_buf_printf(w->b, "%c%u -> %c%u [style=dashed, color=\"#c62828\"];\n", from_a ? 'a' : 'b',
                      from_a ? o->id : ob->id, gone ? 'a' : 'b', gone ? i->id : ib->id);
      }
}

hs_status viz_diff_dot(const hlo_graph_diff *d, const char *from, const char *to, u32 max_nodes,
                       hs_buf *out, char **note) {
  differ w = {.b = out, .d = d, .limit = max_nodes ? max_nodes : VIZ_DEFAULT_NODES};
  w.of_a = hs_calloc(d->a->next_instr_id + 1, 1);
  w.of_b = hs_calloc(d->b->next_instr_id + 1, 1);
  mark_differences(&w);
  mark_context(&w);
  hs_buf_puts(
      out, "digraph G {\nrankdir=TB; labelloc=t; labeljust=l; fontname=\"Helvetica\"; label=<<b>");
  viz_svg_text(out, d->b->name, strlen(d->b->name), 96);
  hs_buf_puts(out, "</b><br align=\"left\"/>");
  viz_svg_text(out, from, strlen(from), 48);
  hs_buf_puts(out, " to ");
  viz_svg_text(out, to, strlen(to), 48);
  hs_buf_printf(out,
                ": <font color=\"#2e7d32\">%u added</font>, <font color=\"#c62828\">%u "
                "removed</font>, <font color=\"#b26a00\">%u changed</font>, <font "
                "color=\"#1565c0\">%u moved</font><br align=\"left\"/>>;\n"
                "node [fontname=\"Helvetica\", fontsize=11, margin=\"0.12,0.08\", height=0.3];\n"
                "edge [color=\"#78909c\"];\n",
                d->added, d->removed, d->changed, d->moved);
  hs_status s = hs_poll();
  hlo_for_each_comp(c, d->b) {
    if (hs_ok(s)) put_cluster(&w, 'b', c, w.of_b), s = hs_poll();
  }
  hlo_for_each_comp(c, d->a) {
    if (hs_ok(s)) put_cluster(&w, 'a', c, w.of_a), s = hs_poll();
  }
  if (hs_ok(s)) put_edges(&w), put_rows(&w);
  hs_vec_free(&w.corners);
  hs_buf_puts(out, "}\n");
  if (note)
    *note = hs_ok(s) && w.left_out
                ? hs_format("%u more differences are not drawn; diff lists them all", w.left_out)
                : NULL;
  hs_free(w.of_a);
  hs_free(w.of_b);
  return hs_ok(s) ? hs_poll() : s;
}
