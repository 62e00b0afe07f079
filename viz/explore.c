// explore.c: collects the versions of a module for the explorer. See explore.h.
//
// An instruction that stays as it is over many versions is one record with the span of versions it
// is in. Nothing is printed to find that out: shapes, attribute sets, names and lists of control
// predecessors are immutable, so that the same pointers mean the same text. What a version changed
// is told by core/diff, against a copy of the version before: a pass that puts instructions into a
// fusion makes new ones, and those have moved rather than come.
#include "viz/explore_model.h"

#include "core/base/visible.h"
#include "core/diff/graph_diff.h"
#include "core/text/text.h"

enum { MAX_TEXT = 4000, MAX_NAME = 400, MAX_SHAPE = 600 };

viz_explorer *viz_explorer_new(const char *title, const char *device, viz_progress *progress,
                               void *arg) {
  viz_explorer *x = hs_calloc(1, sizeof *x);
  x->progress = progress;
  x->arg = arg;
  viz_explorer_string(x, "", 0, 0);  // string 0
  viz_intern_put(&x->lists, "", 0);  // list 0
  x->title = 1 + viz_explorer_string(x, title, strlen(title), MAX_NAME);
  if (device) x->device = 1 + viz_explorer_string(x, device, strlen(device), MAX_NAME);
  return x;
}

void viz_explorer_focus(viz_explorer *x, u32 instr) { x->focus = 1 + instr; }

void viz_explorer_free(viz_explorer *x) {
  if (!x) return;
  viz_intern *const tables[] = {&x->strings, &x->lists, &x->groups, &x->specs};
  for (size_t k = 0; k < HS_COUNT(tables); k++) viz_intern_free(tables[k]);
  for (size_t k = 0; k < x->steps.n; k++) {
    viz_step *s = &x->steps.v[k];
    hs_vec_free(&s->added), hs_vec_free(&s->changed), hs_vec_free(&s->moved);
    hs_vec_free(&s->removed), hs_vec_free(&s->pairs), hs_vec_free(&s->groups);
  }
  hs_vec_free(&x->records), hs_vec_free(&x->comps), hs_vec_free(&x->steps), hs_vec_free(&x->said);
  hs_vec_free(&x->open), hs_vec_free(&x->open_comp), hs_vec_free(&x->before_ids);
  hlo_module_free(x->before);
  hs_free(x);
}

u32 viz_explorer_string(viz_explorer *x, const char *s, size_t n, size_t max) {
  if (!n) return viz_intern_put(&x->strings, "", 0);
  if (n <= max && hs_is_visible(s, n, HS_ONE_LINE)) return viz_intern_put(&x->strings, s, n);
  hs_buf b = {0};
  size_t cut = HS_MIN(n, max);
  while (cut < n && cut && ((u8)s[cut] & 0xC0) == 0x80) cut--;  // not within a character
  hs_buf_put_visible(&b, s, cut, HS_ONE_LINE);
  if (cut < n) hs_buf_printf(&b, " ... (%zu bytes more)", n - cut);
  u32 k = viz_intern_put(&x->strings, hs_buf_cstr(&b), b.n);
  hs_buf_free(&b);
  return k;
}

void viz_place_text(hs_buf *b, const hlo_instr *i) {
  const hlo_metadata *md = hlo_metadata_of(i);
  const hlo_stack_frames *f = i->parent->module->frames;
  if (!md) return;
  hs_str file = md->source_file;
  i32 line = md->source_line, frame = md->stack_frame_id;
  if (!file.n && f && frame > 0 && (u32)frame <= f->nframes) {
    i32 at = f->frames[frame - 1].location;
    if (at <= 0 || (u32)at > f->nlocations) return;
    const struct hlo_file_location *l = &f->locations[at - 1];
    line = l->line;
    if (l->file > 0 && (u32)l->file <= f->nfiles) file = f->files[l->file - 1];
  }
  if (file.n) hs_buf_put(b, file.p, file.n), hs_buf_printf(b, ":%d", line);
}

// ---- instructions -------------------------------------------------------------------------------
static u32 u32_list(viz_explorer *x, u32 n, const u32 *v) {
  return viz_intern_put(&x->lists, n ? v : (const u32 *)"", n * sizeof *v);
}

// The names that the text of an instruction holds besides its own: two texts with the same pointers
// and the same hash are the same.
static u64 names_hash(const hlo_instr *i) {
  u64 h = 1;
  for (u32 k = 0; k < i->noperands; k++)
    h = hs_mix(hs_mix(h, hlo_operand(i, k)->id), (u64)(uintptr_t)hlo_operand(i, k)->name);
  for (u32 k = 0; k < hlo_ncalled(i); k++) {
    const hlo_computation *c = hlo_called(i, k);
    if (c) h = hs_mix(hs_mix(h, c->id), (u64)(uintptr_t)c->name);
  }
  return hs_mix(h, (u64)(uintptr_t)i->name);
}

static void fill_lists(viz_explorer *x, const hlo_instr *i, viz_record *r) {
  HS_VEC(u32) v = {0};
  for (u32 k = 0; k < i->noperands; k++) hs_vec_push(&v, hlo_operand(i, k)->id);
  r->operands = u32_list(x, (u32)v.n, v.v);
  v.n = 0;
  for (u32 k = 0; k < hlo_ncalled(i); k++)
    if (hlo_called(i, k)) hs_vec_push(&v, hlo_called(i, k)->id);
  r->called = u32_list(x, (u32)v.n, v.v);
  v.n = 0;
  for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
    hs_vec_push(&v, i->ctrl_preds->v[k]->id);
  r->preds = u32_list(x, (u32)v.n, v.v);
  v.n = 0;
  hs_arena a = {0};
  hlo_ints from = hlo_origins_collect(i, VIZ_MOST_SOURCES, &a);
  for (u32 k = 0; k < from.n; k++) hs_vec_push(&v, (u32)from.v[k]);
  bool itself = v.n == 1 && v.v[0] == i->id;
  r->sources = u32_list(x, itself ? 0 : (u32)v.n, v.v);
  hs_arena_free(&a);
  hs_vec_free(&v);
}

// "x = f32[8] add(a, b)": what most instructions' texts begin with.
static void put_plain(hs_buf *b, const hlo_instr *i) {
  hs_buf_printf(b, "%s = ", i->name);
  hlo_shape_print(b, i->shape, true);
  hs_buf_printf(b, " %s(", hlo_op_text(i->opcode));
  for (u32 k = 0; k < i->noperands; k++) {
    if (k) hs_buf_puts(b, ", ");
    hs_buf_puts(b, hlo_operand(i, k)->name);
  }
  hs_buf_putc(b, ')');
}

// The text, without that beginning when it has it: the page makes it again, and the rest is often
// the same.
static u32 text_of(viz_explorer *x, const hlo_instr *i) {
  hlo_print_options o = hlo_print_default();
  o.print_metadata = o.print_percent = false;
  o.index_interval = 0;
  hs_buf b = {0}, plain = {0};
  hlo_print_instr(&b, i, &o);
  put_plain(&plain, i);
  size_t skip = b.n >= plain.n && memcmp(b.p, plain.p, plain.n) == 0 &&
                        (b.n == plain.n || b.p[plain.n] == ',')
                    ? plain.n
                    : 0;
  u32 text = viz_explorer_string(x, b.p + skip, b.n - skip, MAX_TEXT);
  hs_buf_free(&plain);
  hs_buf_free(&b);
  return text;
}

static void fill_texts(viz_explorer *x, const hlo_instr *i, viz_record *r) {
  hs_buf b = {0};
  r->text = text_of(x, i);
  b.n = 0;
  hlo_shape_print(&b, i->shape, !hlo_shape_is_row_major(i->shape));
  r->shape = viz_explorer_string(x, hs_buf_cstr(&b), b.n, MAX_SHAPE);
  b.n = 0;
  viz_place_text(&b, i);
  r->place = viz_explorer_string(x, hs_buf_cstr(&b), b.n, MAX_NAME);
  hs_buf_free(&b);
  r->name = viz_explorer_string(x, i->name, strlen(i->name), MAX_NAME);
  const hlo_metadata *md = hlo_metadata_of(i);
  if (md) r->op_name = viz_explorer_string(x, md->op_name.p, md->op_name.n, MAX_NAME);
}

static viz_record record_of(const hlo_instr *i, const viz_version *v, u32 step, u64 names) {
  viz_record r = {.id = i->id,
                  .comp = i->parent->id,
                  .from = step,
                  .to = UINT32_MAX,
                  .opcode = i->opcode,
                  .shape_of = i->shape,
                  .attrs_of = i->attrs,
                  .preds_of = i->ctrl_preds,
                  .provenance_of = i->provenance,
                  .names = names};
  for (u32 k = 0; k < VIZ_METRICS; k++)
    if (v->metric[k] && i->id < v->nids) r.metric[k] = v->metric[k][i->id];
  return r;
}
static bool same_record(const viz_record *a, const viz_record *b) {
  return a->comp == b->comp && a->opcode == b->opcode && a->shape_of == b->shape_of &&
         a->attrs_of == b->attrs_of && a->preds_of == b->preds_of &&
         a->provenance_of == b->provenance_of && a->names == b->names;
}
static void vec_room(void *vec, u32 n) {  // of u32s, zeros where they are new
  HS_VEC(u32) *v = vec;
  while (v->n < n) hs_vec_push(v, 0);
}

// Brings the records of a computation up to date; whether something in it is not as it was.
static bool take_instrs(viz_explorer *x, const hlo_computation *c, const viz_version *v, u32 step,
                        u32 *seen) {
  bool touched = false;
  u32 taken = 0;
  hlo_for_each_instr(i, c) {
    if (++taken % 1024 == 0 && hs_interrupted()) break;  // the caller polls
    viz_record r = record_of(i, v, step, names_hash(i));
    u32 old = x->open.v[i->id];
    seen[i->id] = 1;
    for (u32 k = 0; k < VIZ_METRICS; k++) x->has[k] |= r.metric[k] != 0;
    if (old) {
      viz_record *o = &x->records.v[old - 1];
      bool same = same_record(o, &r);
      touched |= !same;
      if (same && memcmp(o->metric, r.metric, sizeof r.metric) == 0) continue;
      o->to = step;
      if (same) {  // another cost only
        viz_record now = *o;
        now.from = step, now.to = UINT32_MAX;
        memcpy(now.metric, r.metric, sizeof r.metric);
        hs_vec_push(&x->records, now);
        x->open.v[i->id] = (u32)x->records.n;
        continue;
      }
    }
    touched = true;
    fill_lists(x, i, &r);
    fill_texts(x, i, &r);
    hs_vec_push(&x->records, r);
    x->open.v[i->id] = (u32)x->records.n;
  }
  return touched;
}

// ---- what changed -------------------------------------------------------------------------------
static void take_changes(viz_explorer *x, const hlo_module *m, viz_step *s) {
  hs_arena a = {0};
  hlo_graph_diff d;
  hlo_graph_diff_make(x->before, m, &a, &d);
  if (!hs_interrupted()) {
    hlo_for_each_comp(c, x->before)
      hlo_for_each_instr(i, c)
        if (!d.of_a[i->id]) hs_vec_push(&s->removed, x->before_ids.v[i->id]);
    hlo_for_each_comp(c, m) {
      hlo_for_each_instr(i, c) {
        const hlo_instr *was = d.of_b[i->id];
        u8 how = d.change[i->id];
        if (!was) {
          hs_vec_push(&s->added, i->id);
          continue;
        }
        if (how & ~HLO_DIFF_MOVED) hs_vec_push(&s->changed, i->id);
        else if (how) hs_vec_push(&s->moved, i->id);
        u32 id = x->before_ids.v[was->id];
        if (id != i->id) hs_vec_push(&s->pairs, id), hs_vec_push(&s->pairs, i->id);
      }
    }
  }
  hs_arena_free(&a);
}

// The copy that the next version is compared with.
static void keep_copy(viz_explorer *x, const hlo_module *m) {
  hlo_module_free(x->before);
  x->before = hlo_module_clone(m, NULL);
  hlo_journal_disable(x->before);
  x->before_ids.n = 0;
  vec_room(&x->before_ids, x->before->next_instr_id);
  hlo_for_each_comp(c, x->before)
    hlo_for_each_instr(i, c) {
      const hlo_instr *own = hlo_find_instr(m, i->name);
      x->before_ids.v[i->id] = own ? own->id : UINT32_MAX;
    }
}

// ---- computations -------------------------------------------------------------------------------
const char *viz_reducer_text(const hlo_computation *c) {
  const hlo_instr *r = c->root;
  bool plain = r && r->noperands == 2 && c->nparams == 2 && c->ninstrs == 3 &&
               hlo_operand(r, 0)->opcode == HLO_PARAMETER &&
               hlo_operand(r, 1)->opcode == HLO_PARAMETER;
  return plain ? hlo_op_text(r->opcode) : NULL;
}

static void take_comp(viz_explorer *x, const hlo_computation *c, bool touched, u32 step,
                      viz_step *s) {
  const char *reducer = viz_reducer_text(c);
  viz_comp_record r = {
      .id = c->id,
      .from = step,
      .to = UINT32_MAX,
      .name = viz_explorer_string(x, c->name, strlen(c->name), MAX_NAME),
      .root = c->root ? c->root->id : UINT32_MAX,
      .reducer = reducer ? 1 + viz_explorer_string(x, reducer, strlen(reducer), MAX_NAME) : 0};
  u32 old = x->open_comp.v[c->id];
  viz_comp_record *o = old ? &x->comps.v[old - 1] : NULL;
  u32 group = o && !touched ? o->group : viz_groups_of(x, c);
  if (!o || o->group != group) hs_vec_push(&s->groups, c->id), hs_vec_push(&s->groups, group);
  if (o && o->name == r.name && o->root == r.root && o->reducer == r.reducer) {
    o->group = group;
    return;
  }
  if (o) o->to = step;
  r.group = group;
  hs_vec_push(&x->comps, r);
  x->open_comp.v[c->id] = (u32)x->comps.n;
}

// Ends the records of what is no longer there. Marks the computations that lost an instruction.
static void end_missing(viz_explorer *x, const u32 *seen, u32 step, u8 *touched, u32 ncomps) {
  for (u32 id = 0; id < x->open.n; id++) {
    u32 k = x->open.v[id];
    if (!k || seen[id]) continue;
    x->records.v[k - 1].to = step;
    if (x->records.v[k - 1].comp < ncomps) touched[x->records.v[k - 1].comp] = 1;
    x->open.v[id] = 0;
  }
}

static void take_remarks(viz_explorer *x, const viz_version *v, u32 step) {
  for (u32 k = 0; k < v->nremarks; k++) {
    const viz_remark *r = &v->remarks[k];
    hs_vec_push(&x->said,
                ((viz_said){.step = step,
                            .instr = r->instr,
                            .other = r->other,
                            .done = r->done,
                            .pass = viz_explorer_string(x, r->pass, strlen(r->pass), MAX_NAME),
                            .text = viz_explorer_string(x, r->text, strlen(r->text), MAX_NAME)}));
  }
}

hs_status viz_explorer_add(viz_explorer *x, const hlo_module *m, const viz_version *v) {
  u32 step = (u32)x->steps.n;
  viz_step s = {.number = v->number,
                .label = viz_explorer_string(x, v->label, strlen(v->label), MAX_NAME),
                .entry = m->entry ? m->entry->id : UINT32_MAX,
                .current = v->current,
                .measured = v->metric[VIZ_MEASURED] != NULL};
  if (x->before) take_changes(x, m, &s);
  vec_room(&x->open, m->next_instr_id);
  vec_room(&x->open_comp, m->next_comp_id);
  u32 *seen = hs_calloc(x->open.n + 1, sizeof *seen);
  u8 *touched = hs_calloc(m->next_comp_id + 1, 1);
  hs_status st = hs_poll();
  hlo_for_each_comp(c, m) {
    if (!hs_ok(st)) break;
    touched[c->id] |= take_instrs(x, c, v, step, seen);
    st = hs_poll();
  }
  if (hs_ok(st)) end_missing(x, seen, step, touched, m->next_comp_id);
  u8 *there = hs_calloc(x->open_comp.n + 1, 1);
  hlo_for_each_comp(c, m) {
    if (!hs_ok(st)) break;
    there[c->id] = 1;
    take_comp(x, c, touched[c->id], step, &s);
    st = hs_poll();
  }
  for (u32 id = 0; id < x->open_comp.n && hs_ok(st); id++)
    if (x->open_comp.v[id] && !there[id])
      x->comps.v[x->open_comp.v[id] - 1].to = step, x->open_comp.v[id] = 0;
  hs_free(there);
  hs_free(touched);
  hs_free(seen);
  take_remarks(x, v, step);
  hs_vec_push(&x->steps, s);
  if (hs_ok(st)) keep_copy(x, m), st = hs_poll();
  return st;
}
