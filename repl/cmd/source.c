// source.c — where instructions come from: src, stacktrace, blame; and parts of the graph:
// allpaths, extract.
#include <stdlib.h>

#include "core/verify/verify.h"
#include "repl/cmd/cmd.h"
#include "repl/debug/cut.h"
#include "repl/shell/expr.h"
#include "repl/shell/gate.h"

static hs_str file_of_frame(const hlo_stack_frames *f, i32 frame, i32 *line, hs_str *function) {
  *line = 0;
  *function = (hs_str){"", 0};
  if (!f || frame <= 0 || (u32)frame > f->nframes) return (hs_str){"", 0};
  i32 loc = f->frames[frame - 1].location;
  if (loc <= 0 || (u32)loc > f->nlocations) return (hs_str){"", 0};
  const struct hlo_file_location *l = &f->locations[loc - 1];
  *line = l->line;
  if (l->function > 0 && (u32)l->function <= f->nfunctions)
    *function = f->functions[l->function - 1];
  return l->file > 0 && (u32)l->file <= f->nfiles ? f->files[l->file - 1] : (hs_str){"", 0};
}

void cmd_put_place(const hlo_instr *i, hs_buf *b) {
  const hlo_metadata *md = hlo_metadata_of(i);
  b->n = 0;
  if (!md) return;
  if (md->source_file.n) {
    hs_buf_put(b, md->source_file.p, md->source_file.n);
    hs_buf_printf(b, ":%d", md->source_line);
    return;
  }
  i32 line;
  hs_str fn, file = file_of_frame(i->parent->module->frames, md->stack_frame_id, &line, &fn);
  if (file.n) {
    hs_buf_put(b, file.p, file.n);
    hs_buf_printf(b, ":%d", line);
  }
}

static hs_status src_of_instr(repl_cmd *c, const hlo_instr *i) {
  hs_buf b = {0};
  cmd_put_place(i, &b);
  if (b.n) {
    if (!c->doc) repl_say(c->out, "%s  %s\n", hs_buf_cstr(&b), i->name);
    repl_json_str(c->doc, "place", hs_buf_cstr(&b));
  } else {
    repl_note(c->out, "%s has no source line", i->name);
    repl_json_null(c->doc, "place");
  }
  hs_buf_free(&b);
  return HS_GOOD;
}

typedef struct place {
  char *text;
  u32 n;
} place;
static int by_place(const void *a, const void *b) {
  return strcmp(((const place *)a)->text, ((const place *)b)->text);
}

static hs_status src_summary(repl_cmd *c) {
  HS_VEC(place) v = {0};
  hs_buf b = {0};
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr(i, k) {
      cmd_put_place(i, &b);
      place p = {b.n ? hs_arena_strndup(c->scratch, b.p, b.n) : NULL, 1};
      if (p.text) hs_vec_push(&v, p);
    }
  hs_buf_free(&b);
  if (v.n) qsort(v.v, v.n, sizeof *v.v, by_place);
  repl_json *list = repl_json_array(c->doc, "lines");
  for (size_t k = 0; k < v.n;) {
    size_t e = k;
    while (e < v.n && strcmp(v.v[e].text, v.v[k].text) == 0) e++;
    if (!c->doc) repl_say(c->out, "%6zu  %s\n", e - k, v.v[k].text);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_str(j, "place", v.v[k].text);
    repl_json_int(j, "instructions", (i64)(e - k));
    k = e;
  }
  if (!v.n) repl_note(c->out, "no instruction of %s has a source line", c->m->name);
  hs_vec_free(&v);
  return HS_GOOD;
}

// A place given as FILE:LINE or FILE matches by its last path components.
static bool place_matches(const char *have, const char *want) {
  size_t h = strlen(have), w = strlen(want);
  if (strchr(want, ':'))
    return h >= w && strcmp(have + h - w, want) == 0 && (h == w || have[h - w - 1] == '/');
  size_t file = strcspn(have, ":");
  return file >= w && memcmp(have + file - w, want, w) == 0 &&
         (file == w || have[file - w - 1] == '/');
}

hs_status cmd_src(repl_cmd *c) {
  const char *what = repl_arg(c, 0);
  if (!what) return src_summary(c);
  const hlo_instr *one = strchr(what, ':') ? NULL : repl_find_instr(c->m, what);
  if (one) return src_of_instr(c, one);
  repl_json *list = repl_json_array(c->doc, "instructions");
  hs_buf b = {0};
  u32 n = 0;
  hlo_for_each_comp(k, c->m)
    hlo_for_each_instr(i, k) {
      cmd_put_place(i, &b);
      if (!b.n || !place_matches(hs_buf_cstr(&b), what)) continue;
      n++;
      if (!c->doc) repl_say(c->out, "%s  %s  in %s\n", i->name, hlo_op_text(i->opcode), k->name);
      repl_json_str(list, NULL, i->name);
    }
  hs_buf_free(&b);
  if (!n)
    return hs_with_note(hs_fail(HS_E_NO_OBJECT, "no instruction comes from %s", what),
                        "src lists the lines of the module");
  return HS_GOOD;
}

hs_status cmd_stacktrace(repl_cmd *c) {
  hlo_instr *i;
  HS_TRY(repl_arg_instr(c, 0, &i));
  const hlo_metadata *md = hlo_metadata_of(i);
  if (!md) {
    repl_note(c->out, "%s carries no metadata", i->name);
    return HS_GOOD;
  }
  if (md->op_type.n) repl_say(c->out, "op_type: %.*s\n", (int)md->op_type.n, md->op_type.p);
  if (md->op_name.n) repl_say(c->out, "op_name: %.*s\n", (int)md->op_name.n, md->op_name.p);
  if (md->source_file.n)
    repl_say(c->out, "%.*s:%d\n", (int)md->source_file.n, md->source_file.p, md->source_line);
  repl_json *list = repl_json_array(c->doc, "frames");
  i32 frame = md->stack_frame_id;
  for (u32 guard = 0; frame > 0 && c->m->frames && (u32)frame <= c->m->frames->nframes &&
                      guard < c->m->frames->nframes;
       guard++) {
    i32 line;
    hs_str fn, file = file_of_frame(c->m->frames, frame, &line, &fn);
    repl_say(c->out, "  %.*s:%d  %.*s\n", (int)file.n, file.p, line, (int)fn.n, fn.p);
    repl_json *j = repl_json_object(list, NULL);
    repl_json_strn(j, "file", file.p, file.n);
    repl_json_int(j, "line", line);
    repl_json_strn(j, "function", fn.p, fn.n);
    frame = c->m->frames->frames[frame - 1].parent;
  }
  return HS_GOOD;
}

hs_status cmd_blame(repl_cmd *c) {
  hlo_instr *i;
  HS_TRY(repl_arg_instr(c, 0, &i));
  repl_json *steps = repl_json_array(c->doc, "made_by");
  bool any = false;
  // Notes of the versions on the path to here, newest first.
  for (const repl_version *v = c->mod->at; v; v = v->parent)
    for (size_t k = v->notes.n; k-- > 0;) {
      const pass_note *n = &v->notes.v[k];
      if (!n->done || (n->instr != i->id && n->other != i->id)) continue;
      any = true;
      if (!c->doc) repl_say(c->out, "@%u %s: %s\n", v->number, n->pass, n->text);
      repl_json *j = repl_json_object(steps, NULL);
      repl_json_int(j, "version", v->number);
      repl_json_str(j, "pass", n->pass);
      repl_json_str(j, "note", n->text);
    }
  hlo_ints from = hlo_origins_collect(i, HLO_MOST_ORIGINS, c->scratch);
  repl_json *list = repl_json_array(c->doc, "sources");
  hlo_module *loaded = NULL;
  if (from.n) loaded = repl_module_at(c->mod, repl_base(c->mod));
  if (!any && !c->doc) repl_say(c->out, "no pass made %s\n", i->name);
  if (from.n && !c->doc) repl_say(c->out, "stems from:");
  // What many share says least of where this one comes from: constants go last.
  u32 said = 0;
  for (u32 round = 0; round < 2; round++)
    for (u32 k = 0; k < from.n; k++) {
      const hlo_instr *source = NULL;
      hlo_for_each_comp(comp, loaded)
        hlo_for_each_instr(x, comp)
          if (hlo_is_source(x, from.v[k])) source = x;
      if (!source || hlo_is(source, HLO_CONSTANT) != (round == 1)) continue;
      if (!c->doc && said++ < 40) repl_say(c->out, " %s", source->name);
      repl_json_str(list, NULL, source->name);
    }
  if (from.n && !c->doc) repl_say(c->out, "%s\n", said > 40 ? " ..." : "");
  hlo_module_free(loaded);
  return HS_GOOD;
}

// ---- allpaths -----------------------------------------------------------------------------------
// Distances from `from` along uses (forward) or operands, within one computation; UINT32_MAX where
// not reached.
static u32 *distances(repl_cmd *c, hlo_instr *from, bool forward) {
  u32 n = c->m->next_instr_id;
  u32 *d = HS_NEW_ARRAY(c->scratch, u32, n);
  memset(d, 0xFF, n * sizeof *d);
  hlo_instr **queue = HS_NEW_ARRAY(c->scratch, hlo_instr *, from->parent->ninstrs + 1);
  u32 head = 0, tail = 0;
  queue[tail++] = from;
  d[from->id] = 0;
  while (head < tail) {
    hlo_instr *i = queue[head++];
    if (forward) {
      hlo_for_each_use(u, i)
        if (d[u->user->id] == UINT32_MAX) d[u->user->id] = d[i->id] + 1, queue[tail++] = u->user;
    } else {
      for (u32 k = 0; k < i->noperands; k++)
        if (d[hlo_operand(i, k)->id] == UINT32_MAX)
          d[hlo_operand(i, k)->id] = d[i->id] + 1, queue[tail++] = hlo_operand(i, k);
    }
  }
  return d;
}

hs_status cmd_allpaths(repl_cmd *c) {
  hlo_instr *a, *b;
  HS_TRY(repl_arg_instr(c, 0, &a));
  HS_TRY(repl_arg_instr(c, 1, &b));
  i64 most = 100;
  if (repl_arg(c, 2)) HS_TRY(repl_arg_int(c, "N", repl_arg(c, 2), 1, INT32_MAX, &most));
  if (a->parent != b->parent)
    return hs_fail(HS_E_NO_OBJECT, "%s is in %s and %s in %s: there is no path between them",
                   a->name, a->parent->name, b->name, b->parent->name);
  u32 *down = distances(c, a, true), *up = distances(c, b, false);
  if (down[b->id] == UINT32_MAX) {
    hlo_instr *t = a;
    a = b;
    b = t;
    down = distances(c, a, true);
    up = distances(c, b, false);
  }
  if (down[b->id] == UINT32_MAX)
    return hs_fail(HS_E_NO_OBJECT, "no path from %s to %s in either direction", repl_arg(c, 0),
                   repl_arg(c, 1));
  u32 length = down[b->id];
  repl_json *list = repl_json_array(c->doc, "instructions");
  repl_json_int(c->doc, "length", length);
  i64 n = 0;
  hlo_print_options o = hlo_print_short_parsable();
  for (u32 step = 0; step <= length && n < most; step++)
    hlo_for_each_instr(i, a->parent) {
      if (down[i->id] != step || up[i->id] != length - step || n >= most) continue;
      n++;
      hs_buf line = {0};
      hlo_print_instr(&line, i, &o);
      if (!c->doc) repl_say(c->out, "%3u  %s\n", step, hs_buf_cstr(&line));
      repl_json_str(list, NULL, i->name);
      hs_buf_free(&line);
    }
  if (n == most)
    repl_note(c->out, "stopped at %lld instructions; allpaths A B N shows more", (long long)most);
  return HS_GOOD;
}

// ---- extract ------------------------------------------------------------------------------------
// Marks the instructions within `height` operand edges of `root`; operands beyond become
// parameters.
static u32 mark_cone(hlo_instr *root, i64 height, i64 *level) {
  u32 n = 1;
  HS_VEC(hlo_instr *) queue = {0};
  hs_vec_push(&queue, root);
  level[root->id] = height;
  for (size_t k = 0; k < queue.n; k++) {
    hlo_instr *i = queue.v[k];
    if (level[i->id] == 0) continue;
    for (u32 j = 0; j < i->noperands; j++) {
      hlo_instr *d = hlo_operand(i, j);
      if (level[d->id] >= 0) continue;
      level[d->id] = level[i->id] - 1;
      hs_vec_push(&queue, d);
      n++;
    }
  }
  hs_vec_free(&queue);
  return n;
}

// In a private copy of the module: cut the edges that leave the cone, make `root` the root, and
// drop the rest.
static void cut_module(hlo_module *m, hlo_instr *root, i64 height) {
  hlo_computation *comp = root->parent;
  hs_arena a = {0};
  i64 *level = HS_NEW_ARRAY(&a, i64, m->next_instr_id);
  for (u32 k = 0; k < m->next_instr_id; k++) level[k] = -1;
  mark_cone(root, height, level);
  if (comp != m->entry) hlo_set_entry(m, comp);
  hlo_set_root(comp, root);
  hlo_remove_module_attr(m, HLO_ATTR_ENTRY_COMPUTATION_LAYOUT);
  hlo_for_each_instr(i, comp) hlo_set_ctrl_preds(i, 0, NULL);
  u32 number = comp->nparams;
  hlo_for_each_instr_safe(i, comp) {
    if (level[i->id] != 0 || i->noperands == 0 || i == root) continue;
    hlo_instr *q = hlo_add_parameter(comp, number++, i->shape, NULL);
    hlo_move_before(q, comp->first);
    hlo_replace_uses(i, q);
  }
  // What nothing uses any more; list order puts users last.
  for (hlo_instr *i = comp->last, *p; i; i = p) {
    p = i->prev;
    if (i != root && i->opcode != HLO_PARAMETER && !i->nuses) hlo_remove(i);
  }
  hlo_keep_parameters(comp, NULL);
  cut_drop_uncalled(m);
  hs_arena_free(&a);
}

hs_status cmd_extract(repl_cmd *c) {
  hlo_instr *i;
  HS_TRY(repl_arg_instr(c, 0, &i));
  i64 height = -1;
  if (repl_arg(c, 1)) HS_TRY(repl_arg_int(c, "HEIGHT", repl_arg(c, 1), -1, INT32_MAX, &height));
  char *name = hs_format("%s-extracted", i->name);
  hlo_module *m = hlo_module_clone(c->m, name);
  hs_free(name);
  hlo_instr *root = hlo_find_instr(m, i->name);
  hs_status s = root ? HS_GOOD : hs_fail(HS_E_INTERNAL, "extract: the copy has no %s", i->name);
  if (root) cut_module(m, root, height < 0 ? INT32_MAX : height);
  // A part of an unverified module may be as bad as the whole.
  if (hs_ok(s) && repl_is_verified(c->mod)) s = hlo_verify(m, NULL);
  if (!hs_ok(s)) {
    hlo_module_free(m);
    return s;
  }
  hlo_print_options o = hlo_print_short_parsable();
  o.print_metadata = c->s->set.metadata;
  o.print_large_constants = true;
  hs_buf text = {0};
  hlo_print_module(&text, m, &o);
  if (text.n && text.p[text.n - 1] != '\n') hs_buf_putc(&text, '\n');
  hlo_module_free(m);
  // Through the text: what is written is what becomes current.
  hlo_module *again = NULL;
  hlo_parse_options po = {.file = "<extract>"};
  s = hlo_parse(c->s->ctx, text.p, text.n, &po, &again);
  const char *file = repl_flag(c, "-o");
  if (hs_ok(s) && file) s = hs_write_file(file, text.p, text.n, false);
  if (hs_ok(s) && file) repl_note(c->out, "wrote %s", file);
  hs_buf_free(&text);
  if (!hs_ok(s)) {
    hlo_module_free(again);
    return s;
  }
  repl_module *mod = repl_session_add(c->s, again, file);
  repl_json_str(c->doc, "name", again->name);
  repl_json_int(c->doc, "instructions", hlo_instr_count(again));
  if (!c->doc)
    repl_say(c->out, "%s: %u instructions; module %u is now current\n", again->name,
             hlo_instr_count(again), mod->number);
  return HS_GOOD;
}
