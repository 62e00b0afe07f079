// view.c — chooses the instructions of a picture.
//
// The neighbourhood is interactive_graphviz's (xla/service/hlo_graph_dumper.cc, node radius
// filter): breadth first over operands and users; a bitcast adds no distance; the traversal stops
// at boundary instructions, does not go from constants to their other users, nor into the operands
// of a tuple that is not the root, nor to the users of what has more than 16. A picture of a whole
// computation goes from an element of a tuple to what that element is. Graphviz lays out a few
// hundred nodes in useful time, so every view has a limit and a note that says what it left out.
#include "viz/view.h"

#include "core/base/visible.h"

#include "core/text/text.h"

typedef struct queue_item {
  const hlo_instr *i;
  u32 depth;
} queue_item;

static bool is_boundary(const viz_options *o, const hlo_instr *i) {
  for (u32 k = 0; k < o->nboundary; k++)
    if (o->boundary[k] == i) return true;
  return false;
}
static bool has_many_users(const hlo_instr *i) {
  if (i->nuses <= VIZ_MAX_USERS) return false;
  u32 n = 0;
  const hlo_instr *last = NULL;
  hlo_for_each_use(u, i) {
    n += u->user != last;
    last = u->user;
    if (n > VIZ_MAX_USERS) return true;
  }
  return false;
}

// The operand of a tuple that an element of it is; NULL when `i` is no such element.
static const hlo_instr *element_of(const hlo_instr *i) {
  const hlo_instr *tuple = i->opcode == HLO_GET_TUPLE_ELEMENT ? hlo_operand(i, 0) : NULL;
  if (!tuple || tuple->opcode != HLO_TUPLE) return NULL;
  i64 index = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
  return index >= 0 && index < (i64)tuple->noperands ? hlo_operand(tuple, (u32)index) : NULL;
}

// Marks what is within `radius` of `center`, at most `limit` instructions; false when the limit cut
// it short.
static bool mark_around(viz_view *v, const viz_options *o, const hlo_instr *center, u32 radius,
                        u32 limit) {
  HS_VEC(queue_item) q = {0};
  size_t head = 0;
  u32 marked = 1;
  bool complete = true;
  hs_vec_push(&q, ((queue_item){center, 0}));
  v->mark[center->id] = VIEW_CENTER;
  while (head < q.n && !hs_interrupted()) {
    queue_item at = q.v[head++];
    const hlo_instr *i = at.i;
    if (at.depth >= radius || (i != center && is_boundary(o, i))) continue;
    bool up = i == center || i->opcode != HLO_TUPLE;
    u32 nops = !up ? 0 : o->max_fan ? HS_MIN(i->noperands, o->max_fan) : i->noperands;
    complete &= !up || nops == i->noperands;
    bool down = i->opcode != HLO_CONSTANT && !has_many_users(i);
    hlo_use *use = i->first_use;
    const hlo_instr *element = o->center ? NULL : element_of(i);
    for (u32 k = 0; k < nops || element || (down && use); k++) {
      const hlo_instr *j;
      if (k < nops) j = hlo_operand(i, k);
      else if (element) j = element, element = NULL;
      else j = use->user, use = use->next;
      if (v->mark[j->id] != VIEW_ABSENT) continue;
      if (marked >= limit && j->opcode != HLO_CONSTANT) {
        complete = false;
        continue;
      }
      marked += j->opcode != HLO_CONSTANT;
      v->mark[j->id] = VIEW_SHOWN;
      bool near = i->opcode == HLO_BITCAST || j->opcode == HLO_BITCAST;
      hs_vec_push(&q, ((queue_item){j, near ? at.depth : at.depth + 1}));
    }
  }
  hs_vec_free(&q);
  return complete;
}

static u32 drawn_count(const hlo_computation *c, bool expand) {
  u32 n = 0;
  hlo_for_each_instr(i, c) {
    const hlo_computation *body =
        expand && i->opcode == HLO_FUSION ? hlo_attr_comp(i, HLO_ATTR_CALLS) : NULL;
    if (i->opcode != HLO_CONSTANT) n += body ? body->ninstrs : 1;
  }
  return n;
}

static void note(viz_view *v, const char *fmt, ...) HS_PRINTF(2, 3);
static void note(viz_view *v, const char *fmt, ...) {
  hs_buf b = {0};
  va_list ap;
  va_start(ap, fmt);
  if (v->note) hs_buf_printf(&b, "%s; ", v->note);
  hs_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  hs_free(v->note);
  v->note = hs_strdup(hs_buf_cstr(&b));
  hs_buf_free(&b);
}

static void choose_whole(viz_view *v, const viz_options *o, u32 limit) {
  u32 all = drawn_count(v->comp, false);
  if (v->expand_fusions && drawn_count(v->comp, true) > limit) {
    v->expand_fusions = false;
    if (all <= limit)
      note(v, "fusion bodies are not drawn: with them the graph has %u nodes (limit %u)",
           drawn_count(v->comp, true), limit);
  }
  if (all <= limit && !o->max_fan) {
    hlo_for_each_instr(i, v->comp) v->mark[i->id] = VIEW_SHOWN;
    v->whole = true;
    return;
  }
  mark_around(v, o, v->comp->root, v->comp->ninstrs, limit);
  v->mark[v->comp->root->id] = VIEW_SHOWN;
  u32 shown = 0;
  hlo_for_each_instr(i, v->comp) shown += viz_shown(v, i) && i->opcode != HLO_CONSTANT;
  note(v,
       "%s has %u instructions: only %u near the root are drawn; name an instruction to see around "
       "it, or raise the limit "
       "(--max-nodes)",
       v->comp->name, v->comp->ninstrs, shown);
}

hs_status viz_view_make(const hlo_module *m, const viz_options *o, viz_view *v) {
  *v = (viz_view){.comp = o->center ? o->center->parent
                          : o->comp ? o->comp
                                    : m->entry,
                  .expand_fusions = o->show_fusions};
  if (!v->comp || !v->comp->root)
    return hs_fail(HS_E_NO_OBJECT, "there is nothing to draw: the module has no entry computation");
  u32 limit = o->max_nodes ? o->max_nodes : VIZ_DEFAULT_NODES;
  v->mark = hs_calloc(m->next_instr_id + 1, sizeof *v->mark);
  if (!o->center) {
    choose_whole(v, o, limit);
  } else if (!mark_around(v, o, o->center, o->width, limit)) {
    note(v,
         "the neighbourhood of %s within %u has more than %u nodes: the nearest are drawn; ask for "
         "a smaller width or raise the "
         "limit (--max-nodes)",
         o->center->name, o->width, limit);
  }
  hs_arena a = {0};
  hlo_instr **order = hlo_post_order(v->comp, &a);
  v->nodes = hs_alloc((v->comp->ninstrs + 1) * sizeof *v->nodes);
  u32 total = 0;
  for (u32 k = 0; k < v->comp->ninstrs; k++) {
    const hlo_instr *i = order[k];
    if (!viz_shown(v, i)) continue;
    v->nodes[v->n++] = i;
    const hlo_computation *body = i->opcode == HLO_FUSION ? hlo_attr_comp(i, HLO_ATTR_CALLS) : NULL;
    total += body ? body->ninstrs : 1;
  }
  hs_arena_free(&a);
  v->drawer = hs_calloc(m->next_comp_id + 1, sizeof *v->drawer);
  if (o->center && v->expand_fusions && total > limit) {
    v->expand_fusions = false;
    note(v, "fusion bodies are not drawn: with them the graph has %u nodes (limit %u)", total,
         limit);
  }
  for (u32 k = v->n; v->expand_fusions && k-- > 0;) {
    const hlo_computation *body =
        v->nodes[k]->opcode == HLO_FUSION ? hlo_attr_comp(v->nodes[k], HLO_ATTR_CALLS) : NULL;
    if (body && body->root) v->drawer[body->id] = v->nodes[k];
  }
  if (hs_interrupted()) {
    viz_view_free(v);
    return hs_poll();
  }
  return HS_GOOD;
}
void viz_view_free(viz_view *v) {
  hs_free(v->nodes);
  hs_free(v->mark);
  hs_free(v->drawer);
  hs_free(v->note);
  *v = (viz_view){0};
}

bool viz_is_inlined(const viz_view *v, const hlo_instr *i) {
  if (!i->nuses || i->parent->root == i || v->mark[i->id] == VIEW_CENTER) return false;
  if (i->opcode == HLO_CONSTANT) return true;
  return i->opcode == HLO_BROADCAST && i->parent != v->comp &&
         hlo_operand(i, 0)->opcode == HLO_CONSTANT && hlo_operand(i, 0)->shape->rank == 0;
}
bool viz_is_cut(const viz_view *v, const hlo_instr *i) {
  if (v->whole || i->parent != v->comp) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (!viz_shown(v, hlo_operand(i, k)) && hlo_operand(i, k)->opcode != HLO_CONSTANT) return true;
  u32 looked = 0;
  hlo_for_each_use(u, i) {
    if (!viz_shown(v, u->user)) return true;
    if (++looked > 4096) return true;
  }
  return false;
}

// ---- text shared by the writers -----------------------------------------------------------------
void viz_value_text(hs_buf *b, const hlo_instr *i) {
  if (i->opcode == HLO_BROADCAST) i = hlo_operand(i, 0);
  const hlo_literal *l = hlo_constant_value(i);
  if (l && !l->elided && hlo_shape_is_array(i->shape) && i->shape->elements <= 8) {
    hs_buf t = {0};
    hlo_print_literal(&t, l);
    if (t.n <= 64) {
      viz_clean(b, hs_buf_cstr(&t), t.n, 64);
      hs_buf_free(&t);
      return;
    }
    hs_buf_free(&t);
  }
  hs_buf_puts(b, i->name);
  hs_buf_putc(b, ' ');
  hlo_shape_print(b, i->shape, false);
}

// A trivial reducer is identified by its operation, any other computation by its name.
static void computation_text(hs_buf *b, const hlo_computation *c) {
  const hlo_instr *r = c->root;
  bool trivial = r && r->noperands == 2 && c->nparams == 2 && c->ninstrs == 3 &&
                 hlo_operand(r, 0)->opcode == HLO_PARAMETER &&
                 hlo_operand(r, 1)->opcode == HLO_PARAMETER;
  if (!trivial) {
    viz_clean(b, c->name, strlen(c->name), 64);
    return;
  }
  hs_buf_puts(b, hlo_op_text(r->opcode));
  if (r->opcode == HLO_COMPARE)
    hs_buf_printf(b, " %s",
                  hlo_enum_text(HLO_AK_ENUM_DIRECTION, hlo_attr_int(r, HLO_ATTR_DIRECTION, 0)));
}
void viz_called_text(hs_buf *b, const hlo_instr *i) {
  size_t start = b->n;
  for (u32 k = 0; i->attrs && k < i->attrs->n; k++) {
    const hlo_attr *a = &i->attrs->v[k];
    hlo_attr_kind kind = hlo_attr_kind_of(a->id);
    if (kind != HLO_AK_COMP && kind != HLO_AK_COMPS) continue;
    if (b->n != start) hs_buf_puts(b, ", ");
    hs_buf_printf(b, "%s ", hlo_attr_text(a->id));
    u32 n = kind == HLO_AK_COMP ? 1 : a->v.comps.n;
    for (u32 j = 0; j < n && j < 8; j++) {
      if (j) hs_buf_puts(b, ", ");
      computation_text(b, kind == HLO_AK_COMP ? a->v.comp : a->v.comps.v[j]);
    }
  }
}

void viz_name_text(hs_buf *b, const char *name, u32 columns) {
  hs_buf t = {0};
  viz_clean(&t, name, strlen(name), 4096);
  u32 n = 0;
  for (size_t k = 0; k < t.n; k++) n += ((u8)t.p[k] & 0xC0) != 0x80;
  u32 head = n > columns ? columns / 2 : n, tail = n > columns ? columns - head - 1 : 0, at = 0;
  for (size_t k = 0; k < t.n; k++) {
    at += ((u8)t.p[k] & 0xC0) != 0x80;
    if (at == head + 1 && n > columns && ((u8)t.p[k] & 0xC0) != 0x80) hs_buf_puts(b, "…");
    if (at <= head || at > n - tail) hs_buf_putc(b, t.p[k]);
  }
  hs_buf_free(&t);
}

void viz_clean(hs_buf *b, const char *s, size_t n, size_t max) {
  size_t start = b->n;
  for (size_t k = 0; k < n;) {
    if (b->n - start >= max) {
      hs_buf_puts(b, "...");
      return;
    }
    u32 code;
    size_t len = hs_utf8_char(s + k, n - k, &code);
    if (len && hs_is_visible(s + k, len, HS_ONE_LINE)) hs_buf_put(b, s + k, len);
    else hs_buf_putc(b, s[k] == '\n' || s[k] == '\t' ? ' ' : '?');
    k += len ? len : 1;
  }
}
