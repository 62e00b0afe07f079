// memory.c — plans of memory: the model's, and what every plan can be asked for. See memory.h.
//
// Invariant of a plan: buffers and values name each other by numbers below the counts, and the
// values stand in the order of their buffers.
#include "profiler/memory.h"

#include "core/analysis/heap.h"
#include "core/analysis/live.h"
#include "profiler/units.h"

#define MOST_BYTES ((size_t)1 << 62)
#define NONE UINT32_MAX

const char *prof_buffer_kind_text(prof_buffer_kind k) {
  static const char *const text[PROF_BUFFER_KINDS] = {"parameter", "output", "temporary",
                                                      "constant", "thread-local"};
  return text[k];
}

void prof_memory_free(prof_memory *p) {
  hs_arena_free(&p->arena);
  *p = (prof_memory){0};
}

i64 prof_memory_peak(const prof_memory *p) {
  i64 sum = hs_add_sat_i64(p->argument_bytes, p->output_bytes - p->alias_bytes);
  return hs_add_sat_i64(sum, p->temp_bytes);
}

static bool in_arena(const prof_buffer *b) {
  return b->kind == PROF_BUFFER_TEMPORARY && b->bytes > 0;
}

// ---- the model ----------------------------------------------------------------------------------

static prof_buffer_kind kind_of(const hlo_live_buffer *b) {
  if (b->parameter) return PROF_BUFFER_PARAMETER;
  if (b->constant) return PROF_BUFFER_CONSTANT;
  return b->output ? PROF_BUFFER_OUTPUT : PROF_BUFFER_TEMPORARY;
}

// The values of every buffer, by buffer, in the order of the schedule; leaf_buffer numbers the
// plan's buffers by now.
static void model_values(const hlo_live *l, prof_memory *p, u32 inside) {
  u32 n = l->first_leaf[l->n], *end = HS_NEW_ARRAY(&p->arena, u32, p->nbuffers + 2);
  for (u32 k = 0; k < n; k++) end[l->leaf_buffer[k] + 1]++;
  for (u32 b = 0; b < p->nbuffers; b++) end[b + 1] += end[b];
  p->values = HS_NEW_ARRAY(&p->arena, prof_buffer_value, n + inside + 1);
  for (u32 t = 0; t < l->n; t++)
    for (u32 k = l->first_leaf[t]; k < l->first_leaf[t + 1]; k++) {
      u32 b = l->leaf_buffer[k], leaf = k - l->first_leaf[t];
      p->values[end[b]++] =
          (prof_buffer_value){.buffer = b,
                              .instr = l->order[t]->name,
                              .leaf = leaf,
                              .bytes = hlo_shape_bytes(hlo_shape_leaf(l->order[t]->shape, leaf)),
                              .first = (i32)t,
                              .last = (i32)l->last_use[t]};
    }
  p->nvalues = n;
}

// Memory that called computations need while they run: a buffer at the step of the call.
static void model_inside(const hlo_live *l, prof_memory *p) {
  for (u32 t = 0; t < l->n; t++) {
    if (!l->inside[t]) continue;
    u32 b = p->nbuffers++;
    p->buffers[b] = (prof_buffer){
        .kind = PROF_BUFFER_TEMPORARY, .bytes = l->inside[t], .first = (i32)t, .last = (i32)t};
    p->values[p->nvalues++] = (prof_buffer_value){.buffer = b,
                                                  .instr = l->order[t]->name,
                                                  .bytes = l->inside[t],
                                                  .first = (i32)t,
                                                  .last = (i32)t,
                                                  .scratch = true};
  }
}

static hs_status model_offsets(prof_memory *p) {
  hlo_heap_buffer *heap = HS_NEW_ARRAY(&p->arena, hlo_heap_buffer, p->nbuffers + 1);
  i64 end[PROF_BUFFER_KINDS] = {0};
  u32 n = 0;
  for (u32 b = 0; b < p->nbuffers; b++) {
    prof_buffer *x = &p->buffers[b];
    if (x->bytes > (i64)(MOST_BYTES >> 6))
      return hs_fail(HS_E_LIMIT, "a buffer of %lld bytes is too large to place",
                     (long long)x->bytes);
    if (x->kind == PROF_BUFFER_TEMPORARY) {
      heap[n++] = (hlo_heap_buffer){(size_t)x->bytes, 0, x->first, x->last};
      continue;
    }
    x->offset = end[x->kind];
    end[x->kind] = hs_add_sat_i64(x->offset, (i64)hlo_heap_align((size_t)x->bytes));
  }
  size_t total;
  if (!hlo_heap_place(n, heap, MOST_BYTES, &total)) {
    HS_TRY(hs_poll());
    return hs_fail(HS_E_LIMIT, "the temporaries are too large to place");
  }
  for (u32 b = 0, at = 0; b < p->nbuffers; b++)
    if (p->buffers[b].kind == PROF_BUFFER_TEMPORARY) p->buffers[b].offset = (i64)heap[at++].offset;
  p->temp_bytes = (i64)total;
  p->live_bytes = (i64)hlo_heap_live_peak(n, heap, p->nsteps, NULL);
  return HS_GOOD;
}

static u32 buffer_of(const hlo_live *l, const hlo_instr *i, u32 leaf) {
  for (u32 t = 0; t < l->n && leaf != HLO_NO_LEAF; t++)
    if (l->order[t] == i) return l->leaf_buffer[l->first_leaf[t] + leaf];
  return NONE;
}

// Results that the module declares to be in an argument's memory: their buffers become that one.
static void share_donated(const hlo_module *m, hlo_live *l, u32 *same) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_aliases *v = a ? a->v.p : NULL;
  for (u32 k = 0; v && k < v->n; k++) {
    const hlo_alias_entry *e = &v->v[k];
    if (e->param < 0 || e->param >= (i64)m->entry->nparams) continue;
    const hlo_instr *p = m->entry->params[e->param], *root = m->entry->root;
    u32 in = buffer_of(l, p, hlo_shape_leaf_at(p->shape, e->param_index)),
        out = buffer_of(l, root, hlo_shape_leaf_at(root->shape, e->out_index));
    if (in == NONE || out == NONE || l->buffers[out].bytes != l->buffers[in].bytes) continue;
    l->buffers[in].output = true;
    if (!l->buffers[out].parameter && !l->buffers[out].constant) same[out] = in;
  }
}

hs_status prof_memory_model(const hlo_module *m, bool per_instruction, prof_memory *p) {
  *p = (prof_memory){0};
  hlo_live l;
  hlo_memory sums;
  HS_TRY(hlo_memory_estimate(m, per_instruction, &sums));
  HS_TRY(hlo_live_ranges(m->entry, per_instruction, &p->arena, &l));
  u32 inside = 0, *number = HS_NEW_ARRAY(&p->arena, u32, l.nbuffers + 1),
      *same = HS_NEW_ARRAY(&p->arena, u32, l.nbuffers + 1);
  for (u32 t = 0; t < l.n; t++) inside += l.inside[t] != 0;
  for (u32 b = 0; b < l.nbuffers; b++) same[b] = b;
  if (!per_instruction) share_donated(m, &l, same);
  p->nsteps = l.n;
  p->steps = HS_NEW_ARRAY(&p->arena, prof_memory_step, l.n + 1);
  for (u32 t = 0; t < l.n; t++) p->steps[t].instr = l.order[t]->name;
  p->buffers = HS_NEW_ARRAY(&p->arena, prof_buffer, l.nbuffers + inside + 1);
  for (u32 b = 0; b < l.nbuffers; b++) {
    const hlo_live_buffer *x = &l.buffers[b];
    bool ours = !x->parameter && !x->constant;
    if (same[b] != b) continue;
    number[b] = p->nbuffers;
    p->buffers[p->nbuffers++] = (prof_buffer){.kind = kind_of(x),
                                              .bytes = x->bytes,
                                              .first = ours ? (i32)x->first : 0,
                                              .last = ours && !x->output ? (i32)x->last : (i32)l.n,
                                              .output = x->output};
  }
  for (u32 k = 0; k < l.first_leaf[l.n]; k++) l.leaf_buffer[k] = number[same[l.leaf_buffer[k]]];
  model_values(&l, p, inside);
  model_inside(&l, p);
  p->argument_bytes = sums.argument_bytes;
  p->output_bytes = sums.output_bytes;
  p->alias_bytes = sums.alias_bytes;
  hs_status s = model_offsets(p);
  if (!hs_ok(s)) prof_memory_free(p);
  return s;
}

// ---- over time ----------------------------------------------------------------------------------

static i32 step_in(const prof_memory *p, i32 step) {
  return HS_MAX(HS_MIN(step, (i32)p->nsteps - 1), 0);
}

void prof_memory_live(const prof_memory *p, i64 *bytes) {
  if (!p->nsteps) return;
  i64 *delta = hs_calloc((size_t)p->nsteps + 1, sizeof *delta), now = 0;
  for (u32 b = 0; b < p->nbuffers; b++) {
    const prof_buffer *x = &p->buffers[b];
    if (!in_arena(x)) continue;
    i64 n = (i64)hlo_heap_align((size_t)x->bytes);
    delta[step_in(p, x->first)] += n;
    delta[step_in(p, x->last) + 1] -= n;
  }
  for (u32 t = 0; t < p->nsteps; t++) bytes[t] = now += delta[t];
  hs_free(delta);
}

u32 prof_memory_peak_step(const prof_memory *p) {
  i64 *live = hs_calloc((size_t)p->nsteps + 1, sizeof *live);
  prof_memory_live(p, live);
  u32 at = 0;
  for (u32 t = 1; t < p->nsteps; t++)
    if (live[t] > live[at]) at = t;
  hs_free(live);
  return at;
}

// ---- text ---------------------------------------------------------------------------------------

static void put_range(const prof_memory *p, i32 first, i32 last, hs_buf *out) {
  if (last >= (i32)p->nsteps) hs_buf_printf(out, "%d-end", HS_MAX(first, 0));
  else hs_buf_printf(out, "%d-%d", HS_MAX(first, 0), HS_MAX(last, 0));
}

void prof_memory_print(const prof_memory *p, hs_buf *out) {
  char a[32], b[32], c[32], d[32], e[32];
  hs_buf_printf(
      out,
      "arguments %s, results %s (%s of them in donated arguments), temporaries %s (live at once: "
      "%s)\n",
      prof_bytes_text(a, (double)p->argument_bytes), prof_bytes_text(b, (double)p->output_bytes),
      prof_bytes_text(c, (double)p->alias_bytes), prof_bytes_text(d, (double)p->temp_bytes),
      prof_bytes_text(e, (double)p->live_bytes));
  hs_buf_puts(out, "buffer  kind             offset        bytes  steps       values\n");
  u32 v = 0;
  hs_buf range = {0};
  for (u32 k = 0; k < p->nbuffers; k++) {
    const prof_buffer *x = &p->buffers[k];
    range.n = 0;
    put_range(p, x->first, x->last, &range);
    hs_buf_printf(out, "%6u  %-12s %10lld %12lld  %-10s ", k, prof_buffer_kind_text(x->kind),
                  (long long)x->offset, (long long)x->bytes, hs_buf_cstr(&range));
    if (x->output && x->kind != PROF_BUFFER_OUTPUT) hs_buf_puts(out, " [result]");
    if (!x->output && x->kind == PROF_BUFFER_OUTPUT) hs_buf_puts(out, " [before the result]");
    for (; v < p->nvalues && p->values[v].buffer == k; v++) {
      const prof_buffer_value *y = &p->values[v];
      hs_buf_printf(out, " %s", y->instr);
      if (y->leaf) hs_buf_printf(out, "{%u}", y->leaf);
      if (y->scratch) hs_buf_puts(out, " (scratch)");
      else {
        hs_buf_puts(out, "@");
        put_range(p, y->first, y->last, out);
      }
    }
    hs_buf_putc(out, '\n');
  }
  hs_buf_free(&range);
}

// How many columns the chart of n steps has.
static u32 columns_of(u32 n, u32 columns) { return HS_MAX(HS_MIN(n, columns), 1u); }

u32 prof_memory_column_of(u32 n, u32 columns, u32 step) {
  u32 wide = columns_of(n, columns);
  return n ? (u32)((u64)step * wide / n) : 0;
}

void prof_memory_chart(const i64 *live, u32 n, u32 columns, u32 rows, bool ascii, hs_buf *out) {
  u32 wide = columns_of(n, columns);
  i64 *bar = hs_calloc(wide, sizeof *bar), top = 1;
  for (u32 t = 0; t < n; t++) {
    u32 x = prof_memory_column_of(n, columns, t);
    bar[x] = HS_MAX(bar[x], live[t]);
    top = HS_MAX(top, live[t]);
  }
  static const char *const part[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  for (u32 y = rows; y-- > 0;) {
    for (u32 x = 0; x < wide; x++) {
      // eighths of a character, rounded up: what is not nothing is seen
      u64 eighths = (u64)((double)bar[x] / (double)top * rows * 8 + 0.999);
      u64 here = eighths > (u64)y * 8 ? HS_MIN(eighths - (u64)y * 8, (u64)8) : 0;
      hs_buf_puts(out, ascii ? (here ? "#" : " ") : part[here]);
    }
    hs_buf_putc(out, '\n');
  }
  hs_free(bar);
}
