// model_explorer.c: a module as the JSON that Model Explorer loads (ai-edge-model-explorer on PyPI,
// its graph_builder.py names the fields): one collection, a graph for each computation, the entry
// first. A node's namespace is its op_name scope, which Model Explorer folds into layers; an
// instruction that calls computations leads to their graphs.
#include "viz/explore_model.h"

#include "core/text/text.h"

static void text(hs_buf *b, const char *s) { viz_json_text(b, s, strlen(s)); }

static void attribute(hs_buf *b, bool *first, const char *key, const char *value, size_t n) {
  if (!n) return;
  hs_buf_puts(b, *first ? "{\"key\":" : ",{\"key\":");
  text(b, key);
  hs_buf_puts(b, ",\"value\":");
  viz_json_text(b, value, n);
  hs_buf_putc(b, '}');
  *first = false;
}

static void put_attributes(hs_buf *b, const hlo_instr *i) {
  hlo_print_options o = hlo_print_default();
  o.print_metadata = o.print_percent = false;
  const hlo_metadata *md = hlo_metadata_of(i);
  hs_buf t = {0};
  bool first = true;
  attribute(b, &first, "name", i->name, strlen(i->name));
  hlo_print_instr(&t, i, &o);
  attribute(b, &first, "text", hs_buf_cstr(&t), HS_MIN(t.n, (size_t)4000));
  if (md) attribute(b, &first, "op_name", md->op_name.p, md->op_name.n);
  t.n = 0;
  viz_place_text(&t, i);
  attribute(b, &first, "source", hs_buf_cstr(&t), t.n);
  hs_buf_free(&t);
}

static void put_edges(hs_buf *b, const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++) {
    hs_buf_puts(b, k ? ",{\"sourceNodeId\":" : "{\"sourceNodeId\":");
    text(b, hlo_operand(i, k)->name);
    hs_buf_printf(b, ",\"sourceNodeOutputId\":\"0\",\"targetNodeInputId\":\"%u\"}", k);
  }
}

static void put_node(hs_buf *b, const hlo_instr *i) {
  const hlo_metadata *md = hlo_metadata_of(i);
  size_t scope = md ? md->op_name.n : 0;
  while (scope && md->op_name.p[scope - 1] != '/') scope--;
  hs_buf_puts(b, "{\"id\":");
  text(b, i->name);
  hs_buf_puts(b, ",\"label\":");
  text(b, hlo_op_text(i->opcode));
  hs_buf_puts(b, ",\"namespace\":");
  viz_json_text(b, scope ? md->op_name.p : "", scope ? scope - 1 : 0);
  hs_buf_puts(b, ",\"subgraphIds\":[");
  for (u32 k = 0, n = 0; k < hlo_ncalled(i); k++) {
    const hlo_computation *c = hlo_called(i, k);
    if (!c || viz_reducer_text(c)) continue;
    if (n++) hs_buf_putc(b, ',');
    text(b, c->name);
  }
  hs_buf_puts(b, "],\"attrs\":[");
  put_attributes(b, i);
  hs_buf_puts(b, "],\"incomingEdges\":[");
  put_edges(b, i);
  hs_buf_puts(
      b, "],\"outputsMetadata\":[{\"id\":\"0\",\"attrs\":[{\"key\":\"tensor_shape\",\"value\":");
  hs_buf shape = {0};
  hlo_shape_print(&shape, i->shape, false);
  viz_json_text(b, hs_buf_cstr(&shape), HS_MIN(shape.n, (size_t)2000));
  hs_buf_free(&shape);
  hs_buf_puts(b, "}]}]}");
}

static hs_status put_graph(hs_buf *b, const hlo_computation *c) {
  hs_buf_puts(b, "{\"id\":");
  text(b, c->name);
  hs_buf_puts(b, ",\"nodes\":[\n");
  hs_arena a = {0};
  hlo_instr **order = hlo_post_order(c, &a);
  for (u32 k = 0; k < c->ninstrs; k++) {
    if (k) hs_buf_puts(b, ",\n");
    put_node(b, order[k]);
    if (k % 256 == 0 && hs_interrupted()) break;
  }
  hs_arena_free(&a);
  hs_buf_puts(b, "]}");
  return hs_poll();
}

hs_status viz_model_explorer(const hlo_module *m, hs_buf *out) {
  hs_buf_puts(out, "{\"label\":");
  text(out, m->name);
  hs_buf_puts(out, ",\"graphs\":[\n");
  u32 n = 0;
  if (m->entry) {
    HS_TRY(put_graph(out, m->entry));
    n++;
  }
  hlo_for_each_comp(c, m) {
    if (c == m->entry || viz_reducer_text(c)) continue;
    if (n++) hs_buf_puts(out, ",\n");
    HS_TRY(put_graph(out, c));
  }
  hs_buf_puts(out, "]}\n");
  return HS_GOOD;
}
