// memory_show.c — a plan of memory for people and programs: the table of buffers, what is live at
// the peak and from which source lines, memory over time, and its picture.
#include <stdlib.h>

#include "core/analysis/heap.h"
#include "repl/memory/memory.h"
#include "viz/memory_map.h"

// "f32[8,16]" of a leaf, and where it comes from; empty where the module has no such instruction.
static const hlo_instr *describe(repl_cmd *c, const prof_buffer_value *v, hs_buf *shape,
                                 hs_buf *place) {
  shape->n = place->n = 0;
  const hlo_instr *i = hlo_find_instr(c->m, v->instr);
  if (!i || v->leaf >= hlo_shape_leaves(i->shape)) return i;
  if (!v->scratch) hlo_shape_print(shape, hlo_shape_leaf(i->shape, v->leaf), false);
  cmd_put_place(i, place);
  return i;
}

static void value_json(repl_cmd *c, repl_json *list, const prof_buffer_value *v, hs_buf *shape,
                       hs_buf *place) {
  repl_json *j = repl_json_object(list, NULL);
  const hlo_instr *i = describe(c, v, shape, place);
  repl_json_str(j, "instruction", v->instr);
  repl_json_int(j, "leaf", v->leaf);
  repl_json_str(j, "shape", shape->n ? hs_buf_cstr(shape) : NULL);
  repl_json_int(j, "bytes", v->bytes);
  repl_json_int(j, "first", v->first);
  repl_json_int(j, "last", v->last);
  repl_json_bool(j, "scratch", v->scratch);
  repl_json_str(j, "opcode", i ? hlo_op_text(i->opcode) : NULL);
  repl_json_str(j, "place", place->n ? hs_buf_cstr(place) : NULL);
}

void memory_show_buffers(repl_cmd *c, const prof_memory *p, bool quiet) {
  if (!quiet && !c->doc) prof_memory_print(p, &c->out->text);
  repl_json *list = repl_json_array(c->doc, "buffers");
  hs_buf shape = {0}, place = {0};
  u32 v = 0;
  for (u32 b = 0; list && b < p->nbuffers; b++) {
    const prof_buffer *x = &p->buffers[b];
    repl_json *j = repl_json_object(list, NULL);
    repl_json_int(j, "number", b);
    repl_json_str(j, "kind", prof_buffer_kind_text(x->kind));
    repl_json_int(j, "offset", x->offset);
    repl_json_int(j, "bytes", x->bytes);
    repl_json_int(j, "first", HS_MAX(x->first, 0));
    repl_json_int(j, "last", HS_MIN(x->last, (i32)p->nsteps));
    repl_json_bool(j, "output", x->output);
    repl_json *values = repl_json_array(j, "values");
    for (; v < p->nvalues && p->values[v].buffer == b; v++)
      value_json(c, values, &p->values[v], &shape, &place);
  }
  hs_buf_free(&shape);
  hs_buf_free(&place);
}

// ---- the peak -----------------------------------------------------------------------------------

typedef struct held {
  i64 bytes;
  const prof_buffer_value *v;
} held;
static int larger(const void *a, const void *b) {
  const held *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->v < y->v ? -1 : 1;
}

// What each temporary that is live at a step holds then: the latest value made in it.
static held *live_at(repl_cmd *c, const prof_memory *p, i32 step, u32 *n) {
  held *out = HS_NEW_ARRAY(c->scratch, held, p->nbuffers + 1);
  *n = 0;
  for (u32 v = 0, b = 0; b < p->nbuffers; b++) {
    const prof_buffer *x = &p->buffers[b];
    const prof_buffer_value *now = NULL;
    for (; v < p->nvalues && p->values[v].buffer == b; v++) {
      const prof_buffer_value *y = &p->values[v];
      if (!now || (y->first <= step && (now->first > step || y->first >= now->first))) now = y;
    }
    if (now && x->kind == PROF_BUFFER_TEMPORARY && x->bytes && x->first <= step && step <= x->last)
      out[(*n)++] = (held){x->bytes, now};
  }
  if (*n) qsort(out, *n, sizeof *out, larger);
  return out;
}

void memory_show_peak(repl_cmd *c, const prof_memory *p, i64 limit, bool quiet) {
  if (!p->nsteps) return;
  u32 step = prof_memory_peak_step(p), n;
  held *v = live_at(c, p, (i32)step, &n);
  repl_json *peak = repl_json_object(c->doc, "peak");
  repl_json_int(peak, "step", step);
  repl_json_str(peak, "instruction", p->steps[step].instr);
  repl_json_int(peak, "live_bytes", p->live_bytes);
  repl_json *list = repl_json_array(peak, "live");
  hs_buf shape = {0}, place = {0};
  char b[32];
  bool text = !quiet && !c->doc && n;
  if (text)
    repl_say(c->out, "live at the peak (step %u of %u, %s %s):\n", step, p->nsteps,
             p->steps[step].end ? "the end of" : "at", p->steps[step].instr);
  for (u32 k = 0; k < n; k++) {
    const prof_buffer_value *x = v[k].v;
    if (list) value_json(c, list, x, &shape, &place);
    if (!text || k >= limit) continue;
    const hlo_instr *i = describe(c, x, &shape, &place);
    const hlo_metadata *md = i ? hlo_metadata_of(i) : NULL;
    repl_say(c->out, "%10s  %-20s %-24s %-18s", repl_bytes(b, (double)v[k].bytes), x->instr,
             x->scratch ? "(its working memory)" : hs_buf_cstr(&shape),
             i ? hlo_op_text(i->opcode) : "");
    if (place.n) repl_say(c->out, "  %s", hs_buf_cstr(&place));
    if (md && md->op_name.n) repl_say(c->out, "  %.*s", (int)md->op_name.n, md->op_name.p);
    repl_say(c->out, "\n");
  }
  if (text && n > limit) repl_say(c->out, "%u more; --limit=N shows more\n", n - (u32)limit);
  hs_buf_free(&shape);
  hs_buf_free(&place);
}

// ---- over time ----------------------------------------------------------------------------------

void memory_show_timeline(repl_cmd *c, const prof_memory *p, bool quiet) {
  i64 *live = HS_NEW_ARRAY(c->scratch, i64, p->nsteps + 1);
  prof_memory_live(p, live);
  u32 peak = prof_memory_peak_step(p), columns = HS_MAX(repl_columns(), 20u) - 2;
  if (!quiet && !c->doc && p->live_bytes > 0) {
    char b[32];
    repl_say(c->out, "temporaries over %u steps, at most %s live:\n", p->nsteps,
             repl_bytes(b, (double)p->live_bytes));
    prof_memory_chart(live, p->nsteps, columns, 6, repl_flag(c, "--ascii") != NULL, &c->out->text);
    u32 at = prof_memory_column_of(p->nsteps, columns, peak);
    repl_say(c->out, "%*s^ step %u\n", (int)at, "", peak);
  }
  repl_json *list = repl_json_array(c->doc, "timeline");
  for (u32 t = 0; list && t < p->nsteps; t++) {
    repl_json *j = repl_json_object(list, NULL);
    repl_json_int(j, "step", t);
    repl_json_str(j, "instruction", p->steps[t].instr);
    repl_json_bool(j, "end", p->steps[t].end);
    repl_json_int(j, "live_bytes", live[t]);
  }
}

hs_status memory_svg(repl_cmd *c, const prof_memory *p, const char *path) {
  i64 *live = HS_NEW_ARRAY(c->scratch, i64, p->nsteps + 1);
  prof_memory_live(p, live);
  viz_memory_box *boxes = HS_NEW_ARRAY(c->scratch, viz_memory_box, p->nbuffers + 1);
  hs_buf label = {0};
  u32 n = 0;
  i64 last = (i64)p->nsteps - 1, high = p->temp_bytes;
  for (u32 v = 0, b = 0; b < p->nbuffers; b++) {
    const prof_buffer *x = &p->buffers[b];
    label.n = 0;
    for (u32 k = 0; v < p->nvalues && p->values[v].buffer == b; v++, k++)
      if (k < 8) hs_buf_printf(&label, "%s%s", k ? ", " : "", p->values[v].instr);
    if (x->kind != PROF_BUFFER_TEMPORARY || !x->bytes || last < 0) continue;
    hs_buf_printf(&label, ": %lld bytes at %lld", (long long)x->bytes, (long long)x->offset);
    boxes[n++] =
        (viz_memory_box){.first = HS_MIN(HS_MAX((i64)x->first, 0), last),
                         .last = HS_MIN(HS_MAX((i64)x->last, 0), last),
                         .from = x->offset,
                         .bytes = x->bytes,
                         .label = hs_arena_strndup(c->scratch, hs_buf_cstr(&label), label.n)};
    high = HS_MAX(high, x->offset + x->bytes);
  }
  label.n = 0;
  hs_buf_printf(&label, "%s: %lld bytes of temporaries over %u steps", c->m->name,
                (long long)p->temp_bytes, p->nsteps);
  viz_memory_map map = {.title = hs_buf_cstr(&label),
                        .steps = p->nsteps,
                        .bytes = high,
                        .peak_step = prof_memory_peak_step(p),
                        .live = live,
                        .nboxes = n,
                        .boxes = boxes};
  hs_buf svg = {0};
  viz_memory_svg(&map, &svg);
  hs_status s = hs_write_file(path, svg.p, svg.n, false);
  hs_buf_free(&svg);
  hs_buf_free(&label);
  if (hs_ok(s)) repl_note(c->out, "wrote %s", path);
  if (hs_ok(s)) repl_json_str(c->doc, "svg", path);
  return s;
}
