// say_diff.c — how the differences of two modules are shown. See say_diff.h.
#include "repl/debug/say_diff.h"

#include "repl/debug/diff.h"

#define MOST_NAMES 6  // of moved instructions on one line, unless --full

// ---- the list -----------------------------------------------------------------------------------
static const char *color_of(char sign) {
  return sign == '-' ? "31" : sign == '+' ? "32" : sign == '~' ? "33" : "36";
}

static void say_change(repl_diff_view *v, char sign, const char *kind, const hlo_instr *i,
                       const hlo_instr *was, const char *text) {
  if (!v->doc) {
    repl_say_in(v->c->out, color_of(sign), "  %c %s\n", sign, text);
    return;
  }
  repl_json *j = repl_json_object(v->list, NULL);
  repl_json_str(j, "kind", kind);
  repl_json_str(j, "name", i->name);
  repl_json_str(j, "computation", i->parent->name);
  if (was) repl_json_str(j, "was", was->name), repl_json_str(j, "was_in", was->parent->name);
  repl_json_str(j, "text", text);
}

static void instr_text(const repl_diff_view *v, hs_buf *b, const hlo_instr *i) {
  b->n = 0;
  hlo_print_instr(b, i, &v->o);
  hs_buf_cstr(b);
}

static void put_attr(const repl_diff_view *v, hs_buf *b, const hlo_instr *i, hlo_attr_id id) {
  const hlo_attr *a = hlo_attr_get(i, id);
  if (a) hlo_print_attr_value(b, i, a, &v->o);
  else hs_buf_puts(b, "none");
}

static void put_part(hs_buf *b, const char *what) {
  hs_buf_printf(b, "%s%s ", b->p[b->n - 1] == ':' ? " " : "; ", what);
}

// "add.2: operand 1 broadcast.3 -> fusion.1; shape f32[8] -> bf16[8]"
static void change_text(const repl_diff_view *v, hs_buf *b, const hlo_instr *x, const hlo_instr *y,
                        u8 bits) {
  b->n = 0;
  hs_buf_printf(b, "%s:", y->name);
  if (strcmp(x->name, y->name) != 0) put_part(b, "was"), hs_buf_puts(b, x->name);
  if (bits & HLO_DIFF_OPCODE)
    put_part(b, hlo_op_text(x->opcode)), hs_buf_printf(b, "-> %s", hlo_op_text(y->opcode));
  if (bits & HLO_DIFF_SHAPE) {
    put_part(b, "shape");
    hlo_shape_print(b, x->shape, true);
    hs_buf_puts(b, " -> ");
    hlo_shape_print(b, y->shape, true);
  }
  if (bits & HLO_DIFF_ATTRS)
    for (u32 id = 1; id < HLO_ATTR_COUNT; id++) {
      const hlo_attr *p = hlo_attr_get(x, (hlo_attr_id)id), *q = hlo_attr_get(y, (hlo_attr_id)id);
      hlo_attr_kind k = hlo_attr_kind_of((hlo_attr_id)id);
      if (p == q || (p && q && hlo_attr_equal(p, q)) || hlo_attr_is_annotation((hlo_attr_id)id) ||
          k == HLO_AK_COMP || k == HLO_AK_COMPS)
        continue;
      put_part(b, hlo_attr_text((hlo_attr_id)id));
      put_attr(v, b, x, (hlo_attr_id)id);
      hs_buf_puts(b, " -> ");
      put_attr(v, b, y, (hlo_attr_id)id);
    }
  if ((bits & HLO_DIFF_OPERANDS) && x->noperands != y->noperands)
    put_part(b, "operands"), hs_buf_printf(b, "%u -> %u", x->noperands, y->noperands);
  for (u32 k = 0; (bits & HLO_DIFF_OPERANDS) && k < HS_MIN(x->noperands, y->noperands); k++) {
    const hlo_instr *p = hlo_graph_diff_operand_a(&v->d, x, k),
                    *q = hlo_graph_diff_operand_b(&v->d, y, k);
    if (hlo_graph_diff_same_operand(&v->d, x, y, k)) continue;
    put_part(b, "operand");
    hs_buf_printf(b, "%u %s -> %s", k, p->name, q->name);
  }
  if (bits & HLO_DIFF_MOVED) hs_buf_printf(b, "; moved from %s", x->parent->name);
  hs_buf_cstr(b);
}

// Instructions that came into `cb` unchanged, a line for each computation they came from.
static void list_moved(repl_diff_view *v, const hlo_computation *cb, u8 *told) {
  hs_buf b = {0};
  hlo_for_each_instr(y, cb) {
    const hlo_instr *x = v->d.of_b[y->id];
    if (told[y->id] || !x || v->d.change[y->id] != HLO_DIFF_MOVED ||
        hlo_graph_diff_is_forwarding(y))
      continue;
    u32 n = 0;
    b.n = 0;
    for (const hlo_instr *z = y; z; z = z->next) {
      const hlo_instr *w = v->d.of_b[z->id];
      if (told[z->id] || !w || w->parent != x->parent || v->d.change[z->id] != HLO_DIFF_MOVED ||
          hlo_graph_diff_is_forwarding(z))
        continue;
      told[z->id] = 1;
      if (v->doc) say_change(v, '>', "moved", z, w, z->name);
      else if (n < MOST_NAMES || repl_flag(v->c, "--full"))
        hs_buf_printf(&b, "%s%s", n ? ", " : "", w->name);
      n++;
    }
    if (v->doc) continue;
    if (n > MOST_NAMES && !repl_flag(v->c, "--full"))
      hs_buf_printf(&b, " and %u more", n - MOST_NAMES);
    repl_say_in(v->c->out, color_of('>'), "  > %u moved from %s: %s\n", n, x->parent->name,
                hs_buf_cstr(&b));
  }
  hs_buf_free(&b);
}

static bool removed(const repl_diff_view *v, const hlo_instr *x) {
  return !v->d.of_a[x->id] && !hlo_graph_diff_is_forwarding(x);
}
static bool touched(const repl_diff_view *v, const hlo_instr *y) {
  return !hlo_graph_diff_is_forwarding(y) && (!v->d.of_b[y->id] || v->d.change[y->id]);
}

static void list_computation(repl_diff_view *v, const hlo_computation *ca,
                             const hlo_computation *cb, u8 *told) {
  bool any = false;
  if (ca)
    hlo_for_each_instr(x, ca) any |= removed(v, x);
  if (cb)
    hlo_for_each_instr(y, cb) any |= touched(v, y);
  if (!any) return;
  hs_buf b = {0};
  if (!v->doc)
    repl_say(v->c->out, "%s%s\n", cb ? cb->name : ca->name,
             !cb   ? " (removed)"
             : !ca ? " (new)"
                   : "");
  hs_arena tmp = {0};
  hlo_instr **order = ca ? hlo_post_order(ca, &tmp) : NULL;
  for (u32 k = 0; ca && k < ca->ninstrs && !hs_interrupted(); k++)
    if (removed(v, order[k]))
      instr_text(v, &b, order[k]), say_change(v, '-', "removed", order[k], NULL, b.p);
  order = cb ? hlo_post_order(cb, &tmp) : NULL;
  for (u32 k = 0; cb && k < cb->ninstrs && !hs_interrupted(); k++) {
    const hlo_instr *y = order[k], *x = v->d.of_b[y->id];
    if (!touched(v, y)) continue;
    u8 bits = v->d.change[y->id];
    if (!x) instr_text(v, &b, y), say_change(v, '+', "added", y, NULL, b.p);
    else if (bits != HLO_DIFF_MOVED)
      change_text(v, &b, x, y, bits), say_change(v, '~', "changed", y, x, b.p);
  }
  if (cb) list_moved(v, cb, told);
  hs_arena_free(&tmp);
  hs_buf_free(&b);
}

void repl_diff_say_list(repl_diff_view *v) {
  v->list = repl_json_array(v->doc, "changes");
  u8 *told = HS_NEW_ARRAY(v->c->scratch, u8, v->d.b->next_instr_id + 1);
  hlo_for_each_comp(cb, v->d.b)
    if (!hs_interrupted()) list_computation(v, v->d.comp_of_b[cb->id], cb, told);
  hlo_for_each_comp(ca, v->d.a)
    if (!v->d.comp_of_a[ca->id] && !hs_interrupted()) list_computation(v, ca, NULL, told);
}

// ---- the texts ----------------------------------------------------------------------------------
static void texts(repl_diff_view *v, hs_buf *a, hs_buf *b) {
  hlo_print_options o = hlo_print_default();
  o.print_metadata = repl_flag(v->c, "--full") != NULL;
  hlo_print_module(b, v->d.b, &o);
  const char **instrs = HS_NEW_ARRAY(v->c->scratch, const char *, v->d.a->next_instr_id + 1);
  const char **comps = HS_NEW_ARRAY(v->c->scratch, const char *, v->d.a->next_comp_id + 1);
  hlo_for_each_comp(c, v->d.a) {
    if (v->d.comp_of_a[c->id]) comps[c->id] = v->d.comp_of_a[c->id]->name;
    hlo_for_each_instr(i, c)
      if (v->d.of_a[i->id]) instrs[i->id] = v->d.of_a[i->id]->name;
  }
  o.instr_names = instrs;
  o.comp_names = comps;
  hlo_print_module(a, v->d.a, &o);
}

void repl_diff_say_texts(repl_diff_view *v, bool columns) {
  hs_buf a = {0}, b = {0}, d = {0};
  repl_diff_stat stat;
  texts(v, &a, &b);
  if (columns)
    repl_diff_columns(hs_buf_cstr(&a), a.n, hs_buf_cstr(&b), b.n, repl_columns(), v->c->out->color,
                      &d, &stat);
  else repl_diff(hs_buf_cstr(&a), a.n, hs_buf_cstr(&b), b.n, 3, v->c->out->color, &d, &stat);
  repl_json_int(v->doc, "lines_added", stat.added);
  repl_json_int(v->doc, "lines_removed", stat.removed);
  repl_json_strn(v->doc, "diff", hs_buf_cstr(&d), d.n);
  if (!v->doc) repl_say_painted(v->c->out, hs_buf_cstr(&d), d.n);
  hs_buf_free(&a);
  hs_buf_free(&b);
  hs_buf_free(&d);
}

// ---- all together -------------------------------------------------------------------------------
hs_status repl_diff_open(repl_cmd *c, repl_json *doc, const hlo_module *a, const hlo_module *b,
                         repl_diff_view *v) {
  *v = (repl_diff_view){.c = c, .doc = doc, .o = hlo_print_short_parsable()};
  v->o.print_large_constants = v->o.print_backend_config = v->o.include_layout_in_shapes = false;
  hlo_graph_diff_make(a, b, c->scratch, &v->d);
  return hs_poll();
}

void repl_diff_say_head(repl_diff_view *v, const char *from, const char *to) {
  const struct {
    const char *name;
    u32 n;
  } parts[] = {{"same", v->d.same},
               {"moved", v->d.moved},
               {"changed", v->d.changed},
               {"removed", v->d.removed},
               {"added", v->d.added}};
  repl_json *doc = v->doc, *ops = repl_json_object(doc, "opcodes");
  repl_json_str(doc, "from", from);
  repl_json_str(doc, "to", to);
  if (!doc) repl_say(v->c->out, "%s -> %s:", from, to);
  for (size_t k = 0; k < HS_COUNT(parts); k++) {
    repl_json_int(doc, parts[k].name, parts[k].n);
    if (!doc && (parts[k].n || k == 0))
      repl_say(v->c->out, "%s %u %s", k ? "," : "", parts[k].n, parts[k].name);
  }
  hlo_for_each_comp(c, v->d.a)
    hlo_for_each_instr(i, c) v->ops_a[i->opcode]++;
  hlo_for_each_comp(c, v->d.b)
    hlo_for_each_instr(i, c) v->ops_b[i->opcode]++;
  for (int k = 0; k < HLO_OPCODE_COUNT; k++) {
    if (v->ops_a[k] == v->ops_b[k]) continue;
    if (!doc)
      repl_say(v->c->out, "  %s %u -> %u", hlo_op_text((hlo_opcode)k), v->ops_a[k], v->ops_b[k]);
    repl_json_int(ops, hlo_op_text((hlo_opcode)k), (i64)v->ops_b[k] - (i64)v->ops_a[k]);
  }
  if (!doc) repl_say(v->c->out, "\n");
}

void repl_say_graph_diff(repl_cmd *c, repl_json *doc, const char *from, const hlo_module *a,
                         const char *to, const hlo_module *b, u32 most) {
  repl_diff_view v;
  hs_status s = repl_diff_open(c, doc, a, b, &v);
  if (!hs_ok(s)) {
    hs_status_drop(s);  // the command polls too
    return;
  }
  repl_diff_say_head(&v, from, to);
  if (v.d.moved + v.d.changed + v.d.removed + v.d.added <= most) repl_diff_say_list(&v);
}
