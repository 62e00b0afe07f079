// donation.c — which arguments may give their memory to which results. See donation.h.
//
// Everything stands on the live ranges of core/analysis/live.h. An output's maker is the
// instruction that writes it, found through tuples and their elements.
#include "passes/buffer/donation.h"

#include <stdlib.h>

#include "core/analysis/live.h"

// Output leaves of one size are tried in order, this many for a parameter.
enum { MOST_TRIES = 64 };

typedef struct by_bytes {
  i64 bytes;
  u32 leaf;
} by_bytes;
static int by_size(const void *a, const void *b) {
  const by_bytes *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : x->leaf < y->leaf ? -1 : 1;
}

typedef struct finder {
  const hlo_module *m;
  hs_arena *arena;
  hlo_live live;
  u32 *position;  // per instruction id of the entry
  bool *taken;    // per output leaf
  u32 nouts;
  i64 *out_bytes;          // per output leaf
  const hlo_instr **made;  // per output leaf: its maker,
  u32 *made_leaf;          // and which leaf of that
  by_bytes *by_bytes;      // output leaves by size
  bool **given;            // per parameter, per leaf
} finder;

// The path of a leaf, outermost first.
static hlo_ints path_of(const hlo_shape *s, u32 leaf, hs_arena *a) {
  i64 path[64];
  u32 n = 0;
  while (hlo_shape_is_tuple(s) && n < HS_COUNT(path)) {
    u32 k = 0, m;
    while (k + 1 < s->nelems && leaf >= (m = hlo_shape_leaves(s->elems[k]))) leaf -= m, k++;
    path[n++] = k;
    if (!s->nelems) break;
    s = s->elems[k];
  }
  return (hlo_ints){n, hs_arena_dup(a, path, n * sizeof *path)};
}

void donation_path(const hlo_shape *s, u32 leaf, hs_buf *out) {
  if (!hlo_shape_is_tuple(s)) return;
  hs_arena a = {0};
  hlo_ints path = path_of(s, leaf, &a);
  hs_buf_putc(out, '{');
  for (u32 k = 0; k < path.n; k++) hs_buf_printf(out, "%s%lld", k ? "," : "", (long long)path.v[k]);
  hs_buf_putc(out, '}');
  hs_arena_free(&a);
}

// The instruction that writes leaf *leaf of i, which becomes its leaf.
static const hlo_instr *maker(const hlo_instr *i, u32 *leaf) {
  for (;;) {
    if (i->opcode == HLO_TUPLE) {
      u32 k = 0, m;
      while (*leaf >= (m = hlo_shape_leaves(hlo_operand(i, k)->shape))) *leaf -= m, k++;
      i = hlo_operand(i, k);
    } else if (i->opcode == HLO_GET_TUPLE_ELEMENT) {
      i64 index = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
      i = hlo_operand(i, 0);
      *leaf += hlo_shape_leaf_offset(i->shape, index);
    } else if (i->opcode == HLO_BITCAST || i->opcode == HLO_OPT_BARRIER) {
      i = hlo_operand(i, 0);
    } else return i;
  }
}

static i64 leaf_bytes(const hlo_shape *s, u32 leaf) {
  return hlo_shape_bytes(hlo_shape_leaf(s, leaf));
}

static u32 buffer_of(const finder *f, const hlo_instr *i, u32 leaf) {
  return f->live.leaf_buffer[f->live.first_leaf[f->position[i->id]] + leaf];
}

// Why the pair cannot work; NULL when it can.
static const char *refuse(finder *f, i64 param, u32 in, u32 out) {
  const hlo_instr *p = f->m->entry->params[param], *root = f->m->entry->root;
  hs_buf b = {0};
  i64 have = leaf_bytes(p->shape, in), want = f->out_bytes[out];
  u32 leaf = f->made_leaf[out];
  const hlo_instr *made = f->made[out], *reader = NULL;
  const hlo_live_buffer *given = &f->live.buffers[buffer_of(f, p, in)];
  u32 def = f->position[made->id], last = given->last, nth = DONATION_NONE;
  if (last < f->live.n) reader = f->live.order[last];
  if (have != want)
    hs_buf_printf(&b, "sizes differ: %lld bytes given, %lld needed", (long long)have,
                  (long long)want);
  else if (made == p && leaf == in) {
    if (hlo_shape_leaf(p->shape, in) != hlo_shape_leaf(root->shape, out))
      hs_buf_puts(&b, "the layouts differ, so that the value is copied");
  } else if (buffer_of(f, made, leaf) == buffer_of(f, p, in)) {
    // a loop's state, or an update in place: it is there already
  } else if (reader && last > def) {
    if (reader == root && root->opcode == HLO_TUPLE)
      hs_buf_puts(&b, "live after: it is returned, too");
    else hs_buf_printf(&b, "live after: %s reads it after %s is made", reader->name, made->name);
  } else if (reader && last == def) {
    for (u32 k = 0; k < made->noperands && nth == DONATION_NONE; k++) {
      const hlo_instr *o = hlo_operand(made, k);
      u32 n = hlo_shape_leaves(o->shape);
      for (u32 l = 0; l < n; l++)
        if (buffer_of(f, o, l) == buffer_of(f, p, in)) nth = k;
    }
    if (nth != DONATION_NONE && !hlo_may_overwrite(made, leaf, nth))
      hs_buf_printf(&b, "%s reads it while it writes the output, and cannot work in place",
                    made->name);
  }
  const char *why = b.n ? hs_arena_strndup(f->arena, b.p, b.n) : NULL;
  hs_buf_free(&b);
  return why;
}

static const hlo_aliases *list_of(const hlo_module *m, hlo_attr_id id) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, id);
  return a ? a->v.p : NULL;
}

static void declared(finder *f, donations *out) {
  const hlo_aliases *l = list_of(f->m, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  const hlo_instr *root = f->m->entry->root;
  for (u32 k = 0; l && k < l->n; k++) {
    const hlo_alias_entry *e = &l->v[k];
    donation d = {.state = DONATION_FAILS, .param = e->param, .must = e->must, .why = ""};
    d.param_leaf = DONATION_NONE;
    if (e->param >= 0 && e->param < (i64)f->m->entry->nparams)
      d.param_leaf = hlo_shape_leaf_at(f->m->entry->params[e->param]->shape, e->param_index);
    d.out_leaf = hlo_shape_leaf_at(root->shape, e->out_index);
    if (d.param_leaf == DONATION_NONE) d.why = "there is no such parameter array";
    else if (d.out_leaf == DONATION_NONE) d.why = "there is no such output array";
    else {
      const char *why = refuse(f, d.param, d.param_leaf, d.out_leaf);
      d.bytes = f->out_bytes[d.out_leaf];
      d.state = why ? DONATION_FAILS : DONATION_WORKS;
      d.why = why ? why : "";
      f->taken[d.out_leaf] = f->given[d.param][d.param_leaf] = true;
    }
    hs_vec_push(out, d);
  }
}

static u32 find_output(finder *f, i64 param, u32 leaf, const char **why) {
  i64 bytes = leaf_bytes(f->m->entry->params[param]->shape, leaf);
  u32 lo = 0, hi = f->nouts;
  while (lo < hi) {
    u32 mid = lo + (hi - lo) / 2;
    if (f->by_bytes[mid].bytes < bytes) lo = mid + 1;
    else hi = mid;
  }
  *why = NULL;
  for (u32 tries = 0; lo < f->nouts && f->by_bytes[lo].bytes == bytes && tries < MOST_TRIES; lo++) {
    u32 o = f->by_bytes[lo].leaf;
    if (f->taken[o]) continue;
    tries++;
    const char *no = refuse(f, param, leaf, o);
    if (!no) return o;
    if (!*why) *why = no;
  }
  if (!*why) *why = "no output of its size is left";
  return DONATION_NONE;
}

static void donors(finder *f, donations *out) {
  const hlo_aliases *l = list_of(f->m, HLO_ATTR_BUFFER_DONOR);
  for (u32 k = 0; l && k < l->n; k++) {
    const hlo_alias_entry *e = &l->v[k];
    donation d = {.state = DONATION_FAILS, .param = e->param, .out_leaf = DONATION_NONE};
    d.param_leaf = DONATION_NONE;
    d.why = "there is no such parameter array";
    if (e->param >= 0 && e->param < (i64)f->m->entry->nparams)
      d.param_leaf = hlo_shape_leaf_at(f->m->entry->params[e->param]->shape, e->param_index);
    if (d.param_leaf != DONATION_NONE) {
      d.bytes = leaf_bytes(f->m->entry->params[e->param]->shape, d.param_leaf);
      f->given[e->param][d.param_leaf] = true;
      u32 o = find_output(f, e->param, d.param_leaf, &d.why);
      if (o != DONATION_NONE) {
        d = (donation){DONATION_POSSIBLE, e->param, d.param_leaf, o, d.bytes, false, ""};
        f->taken[o] = true;
      }
    }
    hs_vec_push(out, d);
  }
}

typedef struct offer {
  i64 param, bytes;
  u32 leaf;
} offer;
static int larger(const void *a, const void *b) {
  const offer *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->param != y->param ? (x->param < y->param ? -1 : 1) : x->leaf < y->leaf ? -1 : 1;
}

static void possible(finder *f, donations *out) {
  HS_VEC(offer) v = {0};
  for (u32 p = 0; p < f->m->entry->nparams; p++) {
    const hlo_shape *s = f->m->entry->params[p]->shape;
    for (u32 l = 0, n = hlo_shape_leaves(s); l < n; l++)
      if (!f->given[p][l] && hlo_shape_is_array(hlo_shape_leaf(s, l)) && leaf_bytes(s, l) > 0 &&
          !hlo_shape_is_dynamic(hlo_shape_leaf(s, l)))
        hs_vec_push(&v, ((offer){p, leaf_bytes(s, l), l}));
  }
  if (v.n) qsort(v.v, v.n, sizeof *v.v, larger);
  for (size_t k = 0; k < v.n && !hs_interrupted(); k++) {
    const char *why;
    u32 o = find_output(f, v.v[k].param, v.v[k].leaf, &why);
    if (o == DONATION_NONE) continue;
    f->taken[o] = true;
    hs_vec_push(out, ((donation){DONATION_POSSIBLE, v.v[k].param, v.v[k].leaf, o, v.v[k].bytes,
                                 false, ""}));
  }
  hs_vec_free(&v);
}

// Sizes and makers of the outputs; a tuple's operands are gone through once.
static void find_outputs(finder *f) {
  const hlo_instr *root = f->m->entry->root;
  u32 n = f->nouts = hlo_shape_leaves(root->shape);
  f->taken = HS_NEW_ARRAY(f->arena, bool, n + 1);
  f->out_bytes = HS_NEW_ARRAY(f->arena, i64, n + 1);
  f->made = HS_NEW_ARRAY(f->arena, const hlo_instr *, n + 1);
  f->made_leaf = HS_NEW_ARRAY(f->arena, u32, n + 1);
  f->by_bytes = HS_NEW_ARRAY(f->arena, by_bytes, n + 1);
  bool tuple = root->opcode == HLO_TUPLE;
  for (u32 k = 0, at = 0; k < (tuple ? root->noperands : 1); k++) {
    const hlo_instr *i = tuple ? hlo_operand(root, k) : root;
    for (u32 l = 0, m = hlo_shape_leaves(i->shape); l < m; l++, at++) {
      f->made_leaf[at] = l;
      f->made[at] = maker(i, &f->made_leaf[at]);
      f->out_bytes[at] = leaf_bytes(i->shape, l);
      f->by_bytes[at] = (by_bytes){f->out_bytes[at], at};
    }
  }
  if (n) qsort(f->by_bytes, n, sizeof *f->by_bytes, by_size);
}

hs_status donation_find(const hlo_module *m, hs_arena *a, donations *out) {
  finder f = {.m = m, .arena = a};
  *out = (donations){0};
  HS_TRY(hlo_live_ranges(m->entry, false, a, &f.live));
  f.position = HS_NEW_ARRAY(a, u32, m->next_instr_id);
  for (u32 t = 0; t < f.live.n; t++) f.position[f.live.order[t]->id] = t;
  find_outputs(&f);
  f.given = HS_NEW_ARRAY(a, bool *, m->entry->nparams + 1);
  for (u32 p = 0; p < m->entry->nparams; p++)
    f.given[p] = HS_NEW_ARRAY(a, bool, hlo_shape_leaves(m->entry->params[p]->shape) + 1);
  declared(&f, out);
  donors(&f, out);
  possible(&f, out);
  return hs_poll();
}

void donation_declare(hlo_module *m, const donation *d) {
  const hlo_aliases *old = list_of(m, HLO_ATTR_INPUT_OUTPUT_ALIAS);
  u32 n = old ? old->n : 0;
  hlo_alias_entry *v = HS_NEW_ARRAY(&m->arena, hlo_alias_entry, n + 1);
  if (n) memcpy(v, old->v, n * sizeof *v);
  v[n] = (hlo_alias_entry){
      .out_index = path_of(m->entry->root->shape, d->out_leaf, &m->arena),
      .param = d->param,
      .param_index = path_of(m->entry->params[d->param]->shape, d->param_leaf, &m->arena)};
  hlo_aliases *now = HS_NEW(&m->arena, hlo_aliases);
  *now = (hlo_aliases){n + 1, v};
  hlo_set_module_attr(m, (hlo_attr){.id = HLO_ATTR_INPUT_OUTPUT_ALIAS, .v.p = now});
}
