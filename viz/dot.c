// dot.c — a view of a module as DOT text, in the colours of XLA's hlo_graph_dumper. Pure: no I/O,
// the same input gives the same bytes (node names are instruction ids, never addresses).
//
// A node carries name, opcode, shape, called computations and inlined constants; its tooltip has
// the full shape and the source location. Fusions may be drawn in place as clusters: operands lead
// to the parameters inside, the fused root leads to the fusion's users. Nodes with operands or
// users outside the view are dashed.
#include "viz/explore_model.h"
#include "viz/svg.h"
#include "viz/view.h"

#include "core/text/text.h"

typedef struct paint {
  const char *fill, *border, *font;
} paint;
static const paint paints[] = {
    [HLO_COLOR_WHITE] = {"white", "#9e9e9e", "black"},
    [HLO_COLOR_YELLOW] = {"#fff9c4", "#cbc693", "black"},
    [HLO_COLOR_GREEN] = {"#c8e6c9", "#97b498", "black"},
    [HLO_COLOR_ORANGE] = {"#ffe0b2", "#cbae82", "black"},
    [HLO_COLOR_PURPLE] = {"#e1bee7", "#af8eb5", "black"},
    [HLO_COLOR_DARKBLUE] = {"#1565c0", "#003c8f", "white"},
    [HLO_COLOR_DARKGREEN] = {"#2e7d32", "#005005", "white"},
    [HLO_COLOR_BROWN] = {"#bcaaa4", "#8c7b75", "black"},
    [HLO_COLOR_RED] = {"#ffcdd2", "#cb9ca1", "black"},
    [HLO_COLOR_GREY] = {"#cfd8dc", "#9ea7aa", "black"},
};
void viz_paint_of(hlo_color color, const char *out[3]) {
  out[0] = paints[color].fill, out[1] = paints[color].border, out[2] = paints[color].font;
}
static const paint paint_center = {"#b71c1c", "#7f0000", "white"},
                   paint_big_param = {"#ffb74d", "#c88719", "black"};
static const char *const heat_ramp[] = {"#f5f5f5", "#f7d4cc", "#f8b2a3", "#f9a28f",
                                        "#f9917b", "#fa8066", "#fb7052", "#fc5f3d",
                                        "#fd4e29", "#fe3e14", "#ff2d00"};

enum { BIG_ELEMENTS = 4096, MAX_LABEL_SHAPE = 64, MAX_INLINED = 32, MAX_NAME = 96 };

typedef struct dot_writer {
  hs_buf *b;
  const viz_view *v;
  const viz_options *o;
  const hlo_instr *fusion;  // whose body is being drawn
  hs_buf t;                 // scratch
} dot_writer;

// ---- escaping -----------------------------------------------------------------------------------
static void html_str(hs_buf *b, const char *s) {
  hs_buf t = {0};
  viz_name_text(&t, s, VIZ_NAME_COLUMNS);
  viz_svg_text(b, hs_buf_cstr(&t), t.n, 4 * VIZ_NAME_COLUMNS);
  hs_buf_free(&t);
}
static void quoted(hs_buf *b, const char *s, size_t n, size_t max) {  // inside "..."
  hs_buf t = {0};
  viz_clean(&t, s, n, max);
  for (size_t k = 0; k < t.n; k++) {
    if (t.p[k] == '"' || t.p[k] == '\\') hs_buf_putc(b, '\\');
    hs_buf_putc(b, t.p[k]);
  }
  hs_buf_free(&t);
}

// ---- nodes --------------------------------------------------------------------------------------
static bool faded(const hlo_instr *i) {
  return i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT;
}
static paint paint_of(const dot_writer *w, const hlo_instr *i) {
  if (w->v->mark[i->id] == VIEW_CENTER && w->o->center) return paint_center;
  if (w->o->heat) {
    double h = w->o->heat[i->id];
    int step = h >= 1 ? 10 : h > 0 ? (int)(h * 10) : 0;
    return (paint){heat_ramp[step], "#9e9e9e", step >= 6 ? "white" : "black"};
  }
  if (i->opcode == HLO_PARAMETER && i->shape->elements >= BIG_ELEMENTS) return paint_big_param;
  if (i->opcode == HLO_BITCAST && w->fusion) return paints[HLO_COLOR_GREEN];
  if (hlo_op_has(i->opcode, HLO_F_ASYNC_WRAPPER)) {
    const hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_CALLS);
    if (c && c->root) return paints[hlo_ops[c->root->opcode].color];
  }
  return paints[hlo_ops[i->opcode].color];
}

static void label_operands(dot_writer *w, const hlo_instr *i) {
  u32 shown = 0;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *c = hlo_operand(i, k);
    if (!viz_is_inlined(w->v, c)) continue;
    if (++shown > MAX_INLINED) {
      hs_buf_puts(w->b, "<br/>...");
      return;
    }
    w->t.n = 0;
    viz_value_text(&w->t, c);
    hs_buf_puts(w->b, "<br/><i>");
    if (i->noperands > 1) hs_buf_printf(w->b, "operand %u = ", k);
    viz_svg_text(w->b, hs_buf_cstr(&w->t), w->t.n, 80);
    hs_buf_puts(w->b, "</i>");
  }
}
static void label_opcode(dot_writer *w, const hlo_instr *i) {
  const char *op = hlo_op_text(i->opcode);
  if (i->opcode == HLO_PARAMETER) {
    hs_buf_printf(w->b, "<b>Parameter %lld</b><br/>", (long long)hlo_param_number(i));
    html_str(w->b, i->name);
    i64 k = hlo_param_number(i);
    const hlo_instr *bound =
        w->fusion && k >= 0 && k < w->fusion->noperands ? hlo_operand(w->fusion, (u32)k) : NULL;
    if (!bound || !viz_is_inlined(w->v, bound)) return;
    w->t.n = 0;
    viz_value_text(&w->t, bound);
    hs_buf_puts(w->b, " = <i>");
    viz_svg_text(w->b, hs_buf_cstr(&w->t), w->t.n, 80);
    hs_buf_puts(w->b, "</i>");
    return;
  }
  hs_buf_puts(w->b, "<b>");
  html_str(w->b, i->name);
  hs_buf_puts(w->b, "</b>");
  if (strncmp(i->name, op, strlen(op)) != 0 || i->opcode == HLO_FUSION)
    hs_buf_printf(w->b, "<br/>%s", op);
  if (i->opcode == HLO_FUSION)
    hs_buf_printf(w->b, ":%s",
                  hlo_enum_text(HLO_AK_ENUM_FUSION_KIND, hlo_attr_int(i, HLO_ATTR_KIND, 0)));
  if (i->opcode == HLO_COMPARE)
    hs_buf_printf(w->b, " %s",
                  hlo_enum_text(HLO_AK_ENUM_DIRECTION, hlo_attr_int(i, HLO_ATTR_DIRECTION, 0)));
  if (i->opcode == HLO_GET_TUPLE_ELEMENT)
    hs_buf_printf(w->b, " #%lld", (long long)hlo_attr_int(i, HLO_ATTR_INDEX, 0));
  if (i->opcode == HLO_CUSTOM_CALL) {
    hs_str target = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
    hs_buf_putc(w->b, ' ');
    viz_svg_text(w->b, target.p, target.n, 64);
  }
  hlo_ints dims = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  if (dims.n && dims.n <= 8) {
    hs_buf_puts(w->b, "<br/>dimensions {");
    for (u32 k = 0; k < dims.n; k++)
      hs_buf_printf(w->b, k ? ",%lld" : "%lld", (long long)dims.v[k]);
    hs_buf_putc(w->b, '}');
  }
}
static void label(dot_writer *w, const hlo_instr *i) {
  label_opcode(w, i);
  w->t.n = 0;
  if (!hlo_attr_comp(i, HLO_ATTR_CALLS) || i->opcode != HLO_FUSION) viz_called_text(&w->t, i);
  if (w->t.n) {
    hs_buf_puts(w->b, "<br/>");
    viz_svg_text(w->b, hs_buf_cstr(&w->t), w->t.n, 128);
  }
  if (i->opcode == HLO_CONSTANT && hlo_shape_is_array(i->shape) && i->shape->elements <= 8) {
    w->t.n = 0;
    viz_value_text(&w->t, i);
    hs_buf_puts(w->b, "<br/>");
    viz_svg_text(w->b, hs_buf_cstr(&w->t), w->t.n, 80);
  }
  w->t.n = 0;
  hlo_shape_print(&w->t, i->shape,
                  w->o->show_layouts && i->shape->rank > 1 && !hlo_shape_is_row_major(i->shape));
  hs_buf_puts(w->b, "<br/>");
  viz_svg_text(w->b, hs_buf_cstr(&w->t), w->t.n, MAX_LABEL_SHAPE);
  label_operands(w, i);
  const hlo_metadata *md = hlo_metadata_of(i);
  if (w->o->show_metadata && md && md->op_name.n) {
    hs_buf_puts(w->b, "<br/><font point-size=\"9\">");
    viz_svg_text(w->b, md->op_name.p, md->op_name.n, 128);
    hs_buf_puts(w->b, "</font>");
  }
}
static void tooltip(dot_writer *w, const hlo_instr *i) {
  w->t.n = 0;
  hs_buf_printf(&w->t, "%%%s = ", i->name);
  hlo_shape_print(&w->t, i->shape, true);
  hs_buf_printf(&w->t, " %s", hlo_op_text(i->opcode));
  const hlo_metadata *md = hlo_metadata_of(i);
  if (md && md->op_name.n)
    hs_buf_printf(&w->t, " | op_name %.*s", (int)HS_MIN(md->op_name.n, 400u), md->op_name.p);
  if (md && md->op_type.n)
    hs_buf_printf(&w->t, " | op_type %.*s", (int)HS_MIN(md->op_type.n, 100u), md->op_type.p);
  if (md && md->source_file.n)
    hs_buf_printf(&w->t, " | %.*s:%d", (int)HS_MIN(md->source_file.n, 400u), md->source_file.p,
                  md->source_line);
  if (w->o->heat) hs_buf_printf(&w->t, " | %.1f %% of the time", 100 * w->o->heat[i->id]);
  quoted(w->b, hs_buf_cstr(&w->t), w->t.n, 1200);
}

static void root_tag(dot_writer *w, const hlo_instr *i, const hlo_instr *from) {
  if (!hlo_is_root(i) || i->parent != w->v->comp) return;
  hs_buf_printf(w->b,
                "root%u [label=\"ROOT\", shape=circle, style=filled, fillcolor=\"#bcaaa4\", "
                "color=\"#8c7b75\", fontsize=9, "
                "margin=0, tooltip=\"root\"];\nn%u -> root%u [tooltip=\"root\"];\n",
                i->id, from->id, i->id);
}
static void node(dot_writer *w, const hlo_instr *i) {
  paint p = paint_of(w, i);
  bool center = w->v->mark[i->id] == VIEW_CENTER && w->o->center, cut = viz_is_cut(w->v, i);
  hs_buf_printf(w->b, "n%u [label=<", i->id);
  label(w, i);
  hs_buf_puts(w->b, ">, tooltip=\"");
  tooltip(w, i);
  hs_buf_printf(
      w->b, "\", shape=%s, style=\"filled%s\", fillcolor=\"%s\", color=\"%s\", fontcolor=\"%s\"",
      center                   ? "diamond"
      : i->opcode == HLO_WHILE ? "ellipse"
                               : "rect",
      cut && !center ? ",dashed" : "", p.fill, cut && !center ? "#757575" : p.border,
      faded(i) && !center ? "#9e9e9e" : p.font);
  if (faded(i)) hs_buf_puts(w->b, ", fontsize=9, height=0.2, margin=\"0.09,0.06\"");
  hs_buf_puts(w->b, "];\n");
  root_tag(w, i, i);
}

// ---- fusions in place ---------------------------------------------------------------------------
static const hlo_computation *body_of(const viz_view *v, const hlo_instr *i) {
  const hlo_computation *c =
      v->expand_fusions && i->opcode == HLO_FUSION ? hlo_attr_comp(i, HLO_ATTR_CALLS) : NULL;
  return c && c->root ? c : NULL;
}
// A body shared by several fusions is drawn only once, by the first fusion that calls it.
static bool draws_body(const viz_view *v, const hlo_instr *i) {
  const hlo_computation *c = body_of(v, i);
  return c && v->drawer[c->id] == i;
}
// The node that stands for a value: of a fusion drawn in place, its fused root.
static const hlo_instr *drawn(const viz_view *v, const hlo_instr *i) {
  return draws_body(v, i) ? body_of(v, i)->root : i;
}

static void edge(dot_writer *w, const hlo_instr *from, const hlo_instr *to, const hlo_instr *user,
                 u32 slot) {
  const hlo_instr *src = drawn(w->v, from);
  hs_buf_printf(w->b, "n%u -> n%u [tooltip=\"", src->id, to->id);
  quoted(w->b, from->name, strlen(from->name), MAX_NAME);
  hs_buf_puts(w->b, " -> ");
  quoted(w->b, to->name, strlen(to->name), MAX_NAME);
  hs_buf_putc(w->b, '"');
  if (user->noperands > 1) hs_buf_printf(w->b, ", headlabel=\"%u\", labeldistance=2", slot);
  hs_buf_printf(w->b, ", arrowhead=%s",
                hlo_shape_is_array(from->shape) && from->shape->elements < BIG_ELEMENTS ? "empty"
                                                                                        : "normal");
  if (faded(from) || faded(to)) hs_buf_puts(w->b, ", color=\"#9e9e9e\"");
  hs_buf_puts(w->b, "];\n");
}

static void fused_edges(dot_writer *w, const hlo_computation *c) {
  hlo_for_each_instr(i, c) {
    if (viz_is_inlined(w->v, i)) continue;
    for (u32 k = 0; k < i->noperands; k++)
      if (!viz_is_inlined(w->v, hlo_operand(i, k))) edge(w, hlo_operand(i, k), i, i, k);
  }
}
static void cluster(dot_writer *w, const hlo_instr *f) {
  const hlo_computation *c = body_of(w->v, f);
  bool center = w->v->mark[f->id] == VIEW_CENTER && w->o->center;
  hs_buf_printf(
      w->b,
      "subgraph cluster_%u {\nstyle=\"rounded,filled,bold\"; fillcolor=\"%s\"; color=\"%s\";\n"
      "labeljust=l; margin=14;\n"
      "label=<Fused expression for <b>",
      f->id, center ? "#ffcdd2" : "#f5f5f5", center ? "#b71c1c" : "#c2c2c2");
  html_str(w->b, f->name);
  hs_buf_printf(w->b, "</b> (%s)>; tooltip=\"",
                hlo_enum_text(HLO_AK_ENUM_FUSION_KIND, hlo_attr_int(f, HLO_ATTR_KIND, 0)));
  tooltip(w, f);
  hs_buf_puts(w->b, "\";\n");
  w->fusion = f;
  hlo_for_each_instr(i, c)
    if (!viz_is_inlined(w->v, i)) node(w, i);
  w->fusion = NULL;
  hs_buf_puts(w->b, "}\n");
  root_tag(w, f, c->root);
  fused_edges(w, c);
}

static void edges_into(dot_writer *w, const hlo_instr *i) {
  bool in_place = draws_body(w->v, i);
  const hlo_computation *c = in_place ? body_of(w->v, i) : NULL;
  for (u32 k = 0; k < i->noperands && k < 4096; k++) {
    const hlo_instr *from = hlo_operand(i, k);
    if (!viz_shown(w->v, from) || viz_is_inlined(w->v, from)) continue;
    const hlo_instr *to = c && k < c->nparams ? c->params[k] : c ? c->root : i;
    edge(w, from, to, i, k);
  }
  for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++) {
    const hlo_instr *from = i->ctrl_preds->v[k];
    if (viz_shown(w->v, from))
      hs_buf_printf(
          w->b,
          "n%u -> n%u [style=dotted, color=\"#9e9e9e\", label=\"ctrl\", tooltip=\"control "
          "edge\"];\n",
          drawn(w->v, from)->id, drawn(w->v, i)->id);
  }
}

// ---- the graph ----------------------------------------------------------------------------------
static void header(dot_writer *w, const hlo_module *m) {
  hs_buf_puts(w->b,
              "digraph G {\nrankdir=TB; compound=true; labelloc=t; labeljust=l; tooltip=\" \";\n"
              "fontname=\"Helvetica\"; label=<<b>");
  html_str(w->b, m->name);
  hs_buf_puts(w->b, "</b><br align=\"left\"/>Computation ");
  html_str(w->b, w->v->comp->name);
  if (w->v->comp == m->entry) hs_buf_puts(w->b, " (entry)");
  if (w->o->center) {
    hs_buf_printf(w->b, ", within %u of <b>", w->o->width);
    html_str(w->b, w->o->center->name);
    hs_buf_puts(w->b, "</b>");
  }
  if (w->v->note) {
    for (const char *p = w->v->note; *p;) {  // a line for each part: they are long
      const char *end = strstr(p, "; ");
      size_t n = end ? (size_t)(end - p) : strlen(p);
      hs_buf_puts(w->b, "<br align=\"left\"/><i>");
      viz_svg_text(w->b, p, n, 300);
      hs_buf_puts(w->b, "</i>");
      p += end ? n + 2 : n;
    }
  }
  hs_buf_puts(w->b, "<br align=\"left\"/>");
  hs_buf_puts(
      w->b,
      ">;\nnode [fontname=\"Helvetica\", fontsize=11, margin=\"0.12,0.08\", height=0.3];\nedge "
      "[fontname=\"Helvetica\", fontsize=9];\n");
}

hs_status viz_dot(const hlo_module *m, const viz_options *o, hs_buf *out, char **note) {
  viz_view v;
  if (note) *note = NULL;
  HS_TRY(viz_view_make(m, o, &v));
  dot_writer w = {.b = out, .v = &v, .o = o};
  header(&w, m);
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < v.n; k++) {
    if (viz_is_inlined(&v, v.nodes[k])) continue;
    if (draws_body(&v, v.nodes[k])) cluster(&w, v.nodes[k]);
    else node(&w, v.nodes[k]);
    if (k % 256 == 0 && !hs_ok(s = hs_poll())) break;
  }
  for (u32 k = 0; k < v.n && hs_ok(s); k++) {
    if (!viz_is_inlined(&v, v.nodes[k])) edges_into(&w, v.nodes[k]);
    if (k % 256 == 0) s = hs_poll();
  }
  hs_buf_puts(out, "}\n");
  hs_buf_free(&w.t);
  if (note && hs_ok(s)) *note = v.note, v.note = NULL;
  viz_view_free(&v);
  return s;
}
