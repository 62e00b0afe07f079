// explore_write.c: the page of the explorer: its data as JSON, and the program that shows them.
//
// The program is the files explorer*.js of this folder, embedded by the assembler. Everything that
// comes from the module is data: strings of JSON in a <script> of a type that no browser runs, in
// visible form and with < > & escaped; the program sets them as text, never as markup. A content
// security policy forbids the page to fetch anything.
#include "viz/explore_model.h"
#include "viz/svg.h"

#define EMBED(name, file)                    \
  __asm__(".pushsection .rodata\n"           \
          ".global viz_explorer_" #name "\n" \
          "viz_explorer_" #name ":\n"        \
          ".incbin \"viz/page/" file "\"\n"  \
          ".byte 0\n"                        \
          ".popsection\n");                  \
  extern const char viz_explorer_##name[];
EMBED(css, "explorer.css")
EMBED(body, "explorer.html")
EMBED(model_js, "explorer_model.js")
EMBED(scene_js, "explorer_scene.js")
EMBED(paint_js, "explorer_paint.js")
EMBED(panel_js, "explorer_panel.js")
EMBED(app_js, "explorer.js")

// ---- lists --------------------------------------------------------------------------------------
static void put_u32s(hs_buf *b, const u32 *v, size_t n) {
  hs_buf_putc(b, '[');
  for (size_t k = 0; k < n; k++) {
    if (k) hs_buf_putc(b, ',');
    hs_buf_i64(b, v[k]);
  }
  hs_buf_putc(b, ']');
}
static void put_i32s(hs_buf *b, const i32 *v, size_t n) {
  hs_buf_putc(b, '[');
  for (size_t k = 0; k < n; k++) {
    if (k) hs_buf_putc(b, ',');
    hs_buf_i64(b, v[k]);
  }
  hs_buf_putc(b, ']');
}
// Of each edge how many points, the first, and the steps to the others.
static void put_points(hs_buf *b, const i32 *v, u32 n) {
  hs_buf_putc(b, '[');
  for (u32 k = 0; k < n; k += 1 + 2 * (u32)v[k]) {
    if (k) hs_buf_putc(b, ',');
    hs_buf_i64(b, v[k]);
    for (u32 j = 1; j <= 2 * (u32)v[k]; j++) {
      hs_buf_putc(b, ',');
      hs_buf_i64(b, v[k + j] - (j > 2 ? v[k + j - 2] : 0));
    }
  }
  hs_buf_putc(b, ']');
}
static void key(hs_buf *b, const char *name) { hs_buf_printf(b, ",\n\"%s\":", name); }

static void put_strings(hs_buf *b, const viz_intern *t) {
  hs_buf_putc(b, '[');
  for (u32 k = 0; k < viz_intern_count(t); k++) {
    if (k) hs_buf_puts(b, ",\n");
    viz_json_text(b, viz_intern_get(t, k), t->len.v[k]);
  }
  hs_buf_putc(b, ']');
}
static void put_lists(hs_buf *b, const viz_intern *t) {
  hs_buf_putc(b, '[');
  for (u32 k = 0; k < viz_intern_count(t); k++) {
    if (k) hs_buf_putc(b, ',');
    put_u32s(b, viz_intern_get(t, k), t->len.v[k] / sizeof(u32));
  }
  hs_buf_putc(b, ']');
}

// ---- records, column by column ------------------------------------------------------------------
static i64 to_of(u32 to) { return to == UINT32_MAX ? -1 : (i64)to; }

// Differences from one to the next, which are small; a run of equal ones is [difference, how many].
// The page sums them up again.
typedef struct column {
  hs_buf *b;
  i64 last, difference;
  size_t run;
  bool any;
} column;

static void end_run(column *c) {
  enum { LEAST = 4 };  // shorter ones are as short one by one
  for (size_t k = 0; k < (c->run < LEAST ? c->run : 1); k++) {
    if (c->any) hs_buf_putc(c->b, ',');
    if (c->run < LEAST) hs_buf_i64(c->b, c->difference);
    else hs_buf_printf(c->b, "[%lld,%zu]", (long long)c->difference, c->run);
    c->any = true;
  }
  c->run = 0;
}

static void put_next(column *c, i64 now) {
  if (c->run && now - c->last != c->difference) end_run(c);
  c->difference = now - c->last;
  c->last = now;
  c->run++;
}

#define COLUMN(b, vec, name, value)                 \
  do {                                              \
    column c_ = {.b = (b)};                         \
    hs_buf_printf(b, ",\n\"%s\":[", name);          \
    for (size_t k_ = 0; k_ < (vec).n; k_++) {       \
      const __typeof__(*(vec).v) *r = &(vec).v[k_]; \
      put_next(&c_, (i64)(value));                  \
    }                                               \
    end_run(&c_);                                   \
    hs_buf_putc(b, ']');                            \
  } while (0)

static void put_records(hs_buf *b, const viz_explorer *x) {
  static const char *const metrics[] = {"flops", "bytes", "estimated", "measured", "peak"};
  hs_buf_puts(b, "{\"n\":");
  hs_buf_i64(b, (i64)x->records.n);
  COLUMN(b, x->records, "id", r->id);
  COLUMN(b, x->records, "comp", r->comp);
  COLUMN(b, x->records, "from", r->from);
  COLUMN(b, x->records, "to", to_of(r->to));
  COLUMN(b, x->records, "name", r->name);
  COLUMN(b, x->records, "op", r->opcode);
  COLUMN(b, x->records, "shape", r->shape);
  COLUMN(b, x->records, "text", r->text);
  COLUMN(b, x->records, "opname", r->op_name);
  COLUMN(b, x->records, "place", r->place);
  COLUMN(b, x->records, "operands", r->operands);
  COLUMN(b, x->records, "called", r->called);
  COLUMN(b, x->records, "preds", r->preds);
  COLUMN(b, x->records, "sources", r->sources);
  for (u32 k = 0; k < VIZ_METRICS; k++) {
    if (!x->has[k]) continue;
    key(b, metrics[k]);
    hs_buf_putc(b, '[');
    for (size_t j = 0; j < x->records.n; j++) {
      double v = x->records.v[j].metric[k];
      if (j) hs_buf_putc(b, ',');
      if (v > 0 && v < 1e300) hs_buf_printf(b, "%.3g", v);
      else hs_buf_putc(b, '0');
    }
    hs_buf_putc(b, ']');
  }
  hs_buf_putc(b, '}');
}

static void put_comps(hs_buf *b, const viz_explorer *x) {
  hs_buf_puts(b, "{\"n\":");
  hs_buf_i64(b, (i64)x->comps.n);
  COLUMN(b, x->comps, "id", r->id);
  COLUMN(b, x->comps, "from", r->from);
  COLUMN(b, x->comps, "to", to_of(r->to));
  COLUMN(b, x->comps, "name", r->name);
  COLUMN(b, x->comps, "root", to_of(r->root));
  COLUMN(b, x->comps, "reducer", r->reducer);
  hs_buf_putc(b, '}');
}

static void put_steps_between(hs_buf *b, const u32 *v, size_t n) {
  hs_buf_putc(b, '[');
  for (size_t k = 0; k < n; k++) {
    if (k) hs_buf_putc(b, ',');
    hs_buf_i64(b, (i64)v[k] - (k ? (i64)v[k - 1] : 0));
  }
  hs_buf_putc(b, ']');
}

static void put_steps(hs_buf *b, const viz_explorer *x) {
  hs_buf_putc(b, '[');
  for (size_t k = 0; k < x->steps.n; k++) {
    const viz_step *s = &x->steps.v[k];
    if (k) hs_buf_putc(b, ',');
    hs_buf_printf(b, "\n{\"number\":%u,\"label\":%u,\"current\":%s,\"measured\":%s,\"entry\":%lld",
                  s->number, s->label, s->current ? "true" : "false",
                  s->measured ? "true" : "false", (long long)to_of(s->entry));
    const struct {
      const char *name;
      const u32 *v;
      size_t n;
    } lists[] = {{"added", s->added.v, s->added.n}, {"changed", s->changed.v, s->changed.n},
                 {"moved", s->moved.v, s->moved.n}, {"removed", s->removed.v, s->removed.n},
                 {"pairs", s->pairs.v, s->pairs.n}, {"groups", s->groups.v, s->groups.n}};
    for (size_t j = 0; j < HS_COUNT(lists); j++) {
      hs_buf_printf(b, ",\"%s\":", lists[j].name);
      put_steps_between(b, lists[j].v, lists[j].n);
    }
    hs_buf_putc(b, '}');
  }
  hs_buf_putc(b, ']');
}

static void put_said(hs_buf *b, const viz_explorer *x) {
  hs_buf_putc(b, '[');
  for (size_t k = 0; k < x->said.n; k++) {
    const viz_said *s = &x->said.v[k];
    hs_buf_printf(b, "%s[%u,%lld,%lld,%d,%u,%u]", k ? "," : "", s->step, (long long)to_of(s->instr),
                  (long long)to_of(s->other), s->done, s->pass, s->text);
  }
  hs_buf_putc(b, ']');
}

// ---- operations ---------------------------------------------------------------------------------
static void put_operations(hs_buf *b) {
  key(b, "ops");
  hs_buf_puts(b, "[[\"\",0]");
  for (u32 k = 1; k < HLO_OPCODE_COUNT; k++)
    hs_buf_printf(b, ",[\"%s\",%d]", hlo_op_text((hlo_opcode)k), (int)hlo_ops[k].color);
  hs_buf_putc(b, ']');
  key(b, "palette");
  hs_buf_putc(b, '[');
  for (u32 k = 0; k <= HLO_COLOR_GREY; k++) {
    const char *p[3];
    viz_paint_of((hlo_color)k, p);
    hs_buf_printf(b, "%s[\"%s\",\"%s\",\"%s\"]", k ? "," : "", p[0], p[1], p[2]);
  }
  hs_buf_putc(b, ']');
}

static hs_status put_data(hs_buf *b, const viz_explorer *x, const viz_layout *layouts) {
  hs_buf_printf(b, "{\"title\":%u,\"device\":%u,\"focus\":%u", x->title, x->device, x->focus);
  put_operations(b);
  key(b, "strings"), put_strings(b, &x->strings);
  HS_TRY(hs_poll());
  key(b, "lists"), put_lists(b, &x->lists);
  key(b, "instrs"), put_records(b, x);
  HS_TRY(hs_poll());
  key(b, "comps"), put_comps(b, x);
  key(b, "versions"), put_steps(b, x);
  key(b, "notes"), put_said(b, x);
  hs_buf_printf(b, ",\"most_sources\":%d", VIZ_MOST_SOURCES);
  key(b, "groups"), put_lists(b, &x->groups);
  HS_TRY(hs_poll());
  // A layout: width, height, boxes, edges of the spec, points of each.
  key(b, "layouts");
  hs_buf_putc(b, '[');
  for (u32 k = 0; k < viz_intern_count(&x->specs); k++) {
    const viz_layout *l = &layouts[k];
    const u32 *spec = viz_intern_get(&x->specs, k);
    hs_buf_printf(b, "%s[%u,%u,", k ? ",\n" : "", l->w, l->h);
    put_i32s(b, l->boxes, 4 * (size_t)l->n);
    hs_buf_putc(b, ',');
    put_u32s(b, spec + 2 + 2 * spec[0], 3 * (size_t)spec[1 + 2 * spec[0]]);
    hs_buf_putc(b, ',');
    put_points(b, l->edges, l->nwords);
    hs_buf_putc(b, ']');
    if (k % 256 == 0) HS_TRY(hs_poll());
  }
  hs_buf_puts(b, "]}");
  return hs_poll();
}

hs_status viz_explorer_page(viz_explorer *x, double deadline_s, hs_buf *out, char **note) {
  hs_arena a = {0};
  viz_layout *layouts = NULL;
  if (note) *note = NULL;
  hs_status s = viz_layouts_make(x, deadline_s, &a, &layouts, note);
  if (hs_ok(s)) {
    const char *title = viz_intern_get(&x->strings, x->title - 1);
    hs_buf_puts(out,
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">\n"
                "<title>");
    viz_svg_text(out, title, x->strings.len.v[x->title - 1], 200);
    hs_buf_puts(out, "</title>\n<style>\n");
    hs_buf_puts(out, viz_explorer_css);
    hs_buf_puts(out, "</style>\n</head>\n<body>\n");
    hs_buf_puts(out, viz_explorer_body);
    hs_buf_puts(out, "<script type=\"application/json\" id=\"data\">\n");
    viz_explorer_tell(x, "writing the page", 0, 0);
    s = put_data(out, x, layouts);
    hs_buf_puts(out, "\n</script>\n<script>\n'use strict';\n");
    const char *const programs[] = {viz_explorer_model_js, viz_explorer_scene_js,
                                    viz_explorer_paint_js, viz_explorer_panel_js,
                                    viz_explorer_app_js};
    for (size_t k = 0; k < HS_COUNT(programs); k++) hs_buf_puts(out, programs[k]);
    hs_buf_puts(out, "</script>\n</body>\n</html>\n");
  }
  hs_arena_free(&a);
  return hs_ok(s) ? hs_poll() : s;
}
