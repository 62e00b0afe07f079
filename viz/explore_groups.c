// explore_groups.c: the tree of groups of a computation. See explore_model.h.
//
// Scopes come from op_name without its last component. Programs use a name in many places
// (jit(relu) in every layer), and all of them in one box would be a knot; so the instructions of a
// scope are one group only where they are connected, level by level: what is connected under
// a/b is so under a. An instruction without an op_name (a copy, a bitcast) takes the scope that its
// users have in common. A group of few instructions is dissolved, and so is one that holds nearly
// all of its parent, or of which one group within holds nearly all.
//
// Where still more than MAX_CHILDREN would be shown at once, they are cut into parts of a
// topological order, where the fewest values cross.
//
// What would fan out is not drawn as edges: constants stand in their users' labels, elements of a
// tuple are edges from the tuple, many parameters are a group by themselves, and a node with more
// than MAX_FAN edges on a side is a hub: the page names its neighbours instead.
#include <stdlib.h>

#include "viz/explore_model.h"

#include "core/base/visible.h"

enum {
  MAX_CHILDREN = 80,  // of a group
  PART_LEAST = 24,
  PART_MOST = 56,
  MAX_FAN = 16,  // edges on one side of a node
  MAX_NODE_PARAMS = 8,
  LEAST_GROUP = 4,  // instructions
  FLAT = 24,        // instructions that are shown without groups
  MAX_DEPTH = 24,   // of scopes
  MAX_ROUNDS = 8,
  NONE = -1
};

typedef struct wgroup {
  viz_group_kind kind;
  i32 parent;
  u32 depth, count;
  hs_str label;
  HS_VEC(i32) children;  // positions of instructions, or n + a group
} wgroup;
typedef struct wedge {
  i32 group, from, to;  // children of the group
  u32 flags;
} wedge;

typedef struct grouper {
  viz_explorer *x;
  const hlo_computation *c;
  hs_arena a;
  hlo_instr **order;
  hlo_positions at;
  u32 n;
  bool *drawn;
  bool many_params;
  i32 *in;  // by position: the group that holds it
  HS_VEC(wgroup) groups;
  HS_VEC(wedge) edges;
} grouper;

bool viz_is_folded(const hlo_instr *i) {
  if (hlo_is_root(i)) return false;
  if (i->opcode == HLO_GET_TUPLE_ELEMENT) return i->noperands == 1;
  if (!i->nuses) return false;
  if (i->opcode == HLO_CONSTANT) return true;
  return i->opcode == HLO_BROADCAST && i->noperands == 1 &&
         hlo_operand(i, 0)->opcode == HLO_CONSTANT && hlo_operand(i, 0)->shape->rank == 0;
}

// The instruction whose box an edge from `i` begins at; NONE when it has none.
static i32 source_of(const grouper *g, const hlo_instr *i) {
  for (u32 guard = 0;
       i->opcode == HLO_GET_TUPLE_ELEMENT && viz_is_folded(i) && i->noperands && guard < g->n;
       guard++)
    i = hlo_operand(i, 0);
  if (i->parent != g->c) return NONE;
  u32 p = hlo_position_of(&g->at, i);
  return p < g->n && g->drawn[p] ? (i32)p : NONE;
}

// ---- scopes -------------------------------------------------------------------------------------
typedef struct path {
  const char *p;
  size_t n;  // bytes of the scope, without the operation
} path;

// The first d components of it: how many bytes.
static size_t prefix(path s, u32 d) {
  size_t k = 0;
  for (; d && k < s.n; k++) d -= s.p[k] == '/';
  return k && k < s.n && s.p[k - 1] == '/' ? k - 1 : k;
}
static u32 components(path s) {
  u32 n = s.n != 0;
  for (size_t k = 0; k < s.n; k++) n += s.p[k] == '/';
  return HS_MIN(n, (u32)MAX_DEPTH);
}
static u32 common(path a, path b) {  // components
  u32 n = 0;
  size_t k = 0, most = HS_MIN(a.n, b.n);
  for (; k < most && a.p[k] == b.p[k]; k++) n += a.p[k] == '/';
  bool ends = (k == a.n || a.p[k] == '/') && (k == b.n || b.p[k] == '/') && k;
  return HS_MIN(n + ends, (u32)MAX_DEPTH);
}

static void find_paths(grouper *g, path *paths) {
  for (u32 p = g->n; p-- > 0;) {
    const hlo_instr *i = g->order[p];
    const hlo_metadata *md = hlo_metadata_of(i);
    if (md && md->op_name.n) {
      size_t n = md->op_name.n;
      while (n && md->op_name.p[n - 1] != '/') n--;
      paths[p] = (path){md->op_name.p, n ? n - 1 : 0};
      continue;
    }
    bool first = true;
    hlo_for_each_use(u, i) {
      if (u->user->parent != g->c || i->opcode == HLO_PARAMETER) continue;
      path s = paths[hlo_position_of(&g->at, u->user)];
      if (first) paths[p] = s;
      else paths[p].n = prefix(s, common(s, paths[p]));
      first = false;
    }
  }
}

static u32 find(u32 *uf, u32 k) {
  while (uf[k] != k) k = uf[k] = uf[uf[k]];
  return k;
}
static void unite(u32 *uf, u32 a, u32 b) {
  a = find(uf, a), b = find(uf, b);
  if (a < b) uf[b] = a;
  else uf[a] = b;
}

typedef struct scope {
  u32 parent, total, kept;  // kept: the nearest group around it that stays, or itself
  i32 group;
  u32 depth, first;  // first: a position in it
} scope;

// Scopes of all drawn instructions as a trie, parents first; leaf[p]: of a position.
static scope *find_scopes(grouper *g, const path *paths, u32 *leaf, u32 *count) {
  viz_intern trie = {0};
  HS_VEC(scope) v = {0};
  hs_vec_push(&v, (scope){0});
  u32 key[4] = {0}, *uf = HS_NEW_ARRAY(&g->a, u32, g->n + 1);
  viz_intern_put(&trie, key, sizeof key);
  for (u32 d = 1, more = 1; d <= MAX_DEPTH && more && !hs_interrupted(); d++) {
    more = 0;
    for (u32 p = 0; p < g->n; p++) uf[p] = p;
    for (u32 p = 0; p < g->n; p++)
      for (u32 k = 0; g->drawn[p] && k < g->order[p]->noperands; k++) {
        i32 s = source_of(g, hlo_operand(g->order[p], k));
        if (s != NONE && common(paths[p], paths[s]) >= d) unite(uf, p, (u32)s);
      }
    for (u32 p = 0; p < g->n; p++) {
      if (!g->drawn[p] || components(paths[p]) < d) continue;
      more = 1;
      u32 k[4] = {d, leaf[p], find(uf, p), 0};
      u32 at = viz_intern_put(&trie, k, sizeof k);
      if (at == v.n) hs_vec_push(&v, ((scope){.parent = leaf[p], .depth = d, .first = p}));
      leaf[p] = at;
    }
  }
  viz_intern_free(&trie);
  for (u32 p = 0; p < g->n; p++)
    v.v[leaf[p]].total += g->drawn[p] && g->order[p]->opcode != HLO_PARAMETER;
  for (u32 k = (u32)v.n; k-- > 1;) v.v[v.v[k].parent].total += v.v[k].total;
  *count = (u32)v.n;
  scope *out = hs_arena_dup(&g->a, v.v, v.n * sizeof *v.v);
  hs_vec_free(&v);
  return out;
}

static i32 add_group(grouper *g, viz_group_kind kind, i32 parent, hs_str label) {
  hs_vec_push(&g->groups, ((wgroup){.kind = kind,
                                    .parent = parent,
                                    .depth = parent == NONE ? 0 : g->groups.v[parent].depth + 1,
                                    .label = label}));
  return (i32)g->groups.n - 1;
}

static void make_scopes(grouper *g) {
  path *paths = HS_NEW_ARRAY(&g->a, path, g->n + 1);
  u32 *leaf = HS_NEW_ARRAY(&g->a, u32, g->n + 1), n;
  find_paths(g, paths);
  scope *v = find_scopes(g, paths, leaf, &n);
  u8 *single = HS_NEW_ARRAY(&g->a, u8, n);  // has a child with nearly all that it has
  for (u32 k = 1; k < n; k++)
    single[v[k].parent] |= v[k].total + LEAST_GROUP > v[v[k].parent].total;
  for (u32 k = 1; k < n; k++) {
    scope *s = &v[k], *around = &v[v[s->parent].kept];
    s->kept = v[s->parent].kept;
    if (s->total < LEAST_GROUP || around->total <= FLAT || single[k] ||
        s->total + LEAST_GROUP > around->total)
      continue;
    path whole = paths[s->first];
    size_t from = prefix(whole, around->depth), to = prefix(whole, s->depth);
    if (from && from < to) from++;
    s->group = add_group(g, VIZ_GROUP_SCOPE, around->group, (hs_str){whole.p + from, to - from});
    s->kept = k;
  }
  for (u32 p = 0; p < g->n; p++)
    if (g->drawn[p] && g->in[p] == NONE) g->in[p] = v[v[leaf[p]].kept].group;
}

// Instructions that fill groups; a scope whose instructions all went into others stays empty.
static void fill_groups(grouper *g) {
  for (u32 k = 0; k < g->groups.n; k++) g->groups.v[k].children.n = 0, g->groups.v[k].count = 0;
  u8 *listed = hs_calloc(g->groups.n + 1, 1);
  for (u32 p = 0; p < g->n; p++) {  // in the order of their first instruction
    if (!g->drawn[p]) continue;
    i32 child = (i32)p;
    for (i32 k = g->in[p]; k != NONE; k = g->groups.v[k].parent) {
      wgroup *w = &g->groups.v[k];
      w->count++;
      if (child < (i32)g->n || !listed[child - (i32)g->n]) hs_vec_push(&w->children, child);
      if (child >= (i32)g->n) listed[child - (i32)g->n] = 1;
      child = (i32)g->n + k;
    }
  }
  hs_free(listed);
}

// ---- edges --------------------------------------------------------------------------------------
static i32 parent_of(const grouper *g, i32 child) {
  return child < (i32)g->n ? g->in[child] : g->groups.v[child - (i32)g->n].parent;
}
static u32 depth_of(const grouper *g, i32 child) {
  i32 k = parent_of(g, child);
  return k == NONE ? 0 : g->groups.v[k].depth + 1;
}

static int by_place(const void *a, const void *b) {
  const wedge *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  return (x->flags > y->flags) - (x->flags < y->flags);
}

// An edge between two instructions is one between two children of the innermost group around both.
static void add_edge(grouper *g, i32 from, i32 to, u32 flags) {
  if (from == NONE) return;
  while (depth_of(g, from) > depth_of(g, to)) from = (i32)g->n + parent_of(g, from);
  while (depth_of(g, to) > depth_of(g, from)) to = (i32)g->n + parent_of(g, to);
  while (parent_of(g, from) != parent_of(g, to))
    from = (i32)g->n + parent_of(g, from), to = (i32)g->n + parent_of(g, to);
  if (from == to || parent_of(g, to) == NONE) return;
  if (from >= (i32)g->n && g->groups.v[from - (i32)g->n].kind == VIZ_GROUP_PARAMETERS) return;
  hs_vec_push(&g->edges, ((wedge){parent_of(g, to), from, to, flags}));
}

static void find_edges(grouper *g) {
  g->edges.n = 0;
  for (u32 p = 0; p < g->n; p++) {
    const hlo_instr *i = g->order[p];
    if (!g->drawn[p]) continue;
    for (u32 k = 0; k < i->noperands; k++) add_edge(g, source_of(g, hlo_operand(i, k)), (i32)p, 0);
    for (u32 k = 0; i->ctrl_preds && k < i->ctrl_preds->n; k++)
      add_edge(g, source_of(g, i->ctrl_preds->v[k]), (i32)p, VIZ_EDGE_CONTROL);
  }
  if (g->edges.n) qsort(g->edges.v, g->edges.n, sizeof *g->edges.v, by_place);
  size_t n = 0;  // one per pair: data before control
  for (size_t k = 0; k < g->edges.n; k++) {
    wedge *e = &g->edges.v[k], *last = n ? &g->edges.v[n - 1] : NULL;
    if (!last || last->group != e->group || last->from != e->from || last->to != e->to)
      g->edges.v[n++] = *e;
  }
  g->edges.n = n;
}

// ---- parts --------------------------------------------------------------------------------------
// Cuts the children of a group into parts: each begins PART_LEAST to PART_MOST after the one
// before, where the fewest edges cross.
static void split(grouper *g, i32 group, const wedge *edges, size_t nedges, const u32 *local) {
  u32 n = (u32)g->groups.v[group].children.n;
  i32 *children = hs_arena_dup(&g->a, g->groups.v[group].children.v, n * sizeof *children);
  i32 *cross = HS_NEW_ARRAY(&g->a, i32, n + 2);  // edges over the boundary before child k
  for (size_t k = 0; k < nedges; k++) {
    u32 a = local[edges[k].from], b = local[edges[k].to];
    if (a > b) a ^= b, b ^= a, a ^= b;
    cross[a + 1]++, cross[b + 1]--;
  }
  for (u32 k = 1; k <= n; k++) cross[k] += cross[k - 1];
  for (u32 from = 0; from < n;) {
    u32 to = n;
    if (n - from > PART_MOST) {
      to = from + PART_LEAST;
      for (u32 k = to; k <= from + PART_MOST && k + PART_LEAST / 2 <= n; k++)
        if (cross[k] <= cross[to]) to = k;
    }
    i32 part = add_group(g, VIZ_GROUP_PART, group, (hs_str){"", 0});
    for (u32 k = from; k < to; k++) {
      i32 child = children[k];
      if (child < (i32)g->n) g->in[child] = part;
      else g->groups.v[child - (i32)g->n].parent = part;
    }
    from = to;
  }
}
static void number_children(const grouper *g, u32 *local) {
  for (u32 k = 0; k < g->groups.n; k++)
    for (u32 j = 0; j < g->groups.v[k].children.n; j++) local[g->groups.v[k].children.v[j]] = j;
}
static void set_depths(grouper *g, i32 k, u32 depth) {
  g->groups.v[k].depth = depth;
  for (u32 j = 0; j < g->groups.v[k].children.n; j++) {
    i32 child = g->groups.v[k].children.v[j];
    if (child >= (i32)g->n) set_depths(g, child - (i32)g->n, depth + 1);
  }
}

// Until no group has too many children. Fills children and edges.
static void make_parts(grouper *g) {
  for (u32 round = 0;; round++) {
    fill_groups(g);
    set_depths(g, 0, 0);
    find_edges(g);
    u32 *local = hs_calloc(g->n + g->groups.n + 1, sizeof *local), before = (u32)g->groups.n;
    number_children(g, local);
    for (size_t k = 0, group = 0; group < before && round < MAX_ROUNDS; group++) {
      size_t end = k;
      while (end < g->edges.n && g->edges.v[end].group == (i32)group) end++;
      const wgroup *w = &g->groups.v[group];
      if (w->children.n > MAX_CHILDREN && w->kind != VIZ_GROUP_PARAMETERS)
        split(g, (i32)group, g->edges.v + k, end - k, local);
      k = end;
    }
    hs_free(local);
    if (g->groups.n == before || hs_interrupted()) return;
  }
}

// ---- sizes --------------------------------------------------------------------------------------
static u32 columns(const char *s, size_t n) {
  u32 c = 0;
  for (size_t k = 0; k < n; k++) c += ((u8)s[k] & 0xC0) != 0x80;
  return c;
}
// Boxes are a few widths apart, so that add.7 and add.12 make the same layout.
static u32 box_width(u32 letters) {
  u32 w = 20 + HS_MIN(letters, 30u) * 27 / 4;
  return HS_MAX((w + 11) / 12 * 12, 84u);
}
static void box_of_instr(const grouper *g, const hlo_instr *i, u32 *w, u32 *h) {
  hs_buf b = {0};
  hs_buf_printf(&b, "%s ", hlo_op_text(i->opcode));
  hlo_shape_print(&b, i->shape, false);
  bool folded = false;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    folded |= (o->opcode != HLO_GET_TUPLE_ELEMENT && viz_is_folded(o)) ||
              (g->many_params && o->opcode == HLO_PARAMETER);
  }
  u32 name = columns(i->name, strlen(i->name)) + (hlo_ncalled(i) ? 3 : 0);
  *w = box_width(HS_MAX(name, columns(b.p, b.n)));
  *h = folded ? 50 : 36;
  hs_buf_free(&b);
}
static void box_of_group(const wgroup *w, u32 *width, u32 *height) {
  bool part = w->kind == VIZ_GROUP_PART;  // it has a third line, "first … last"
  *width = box_width(part ? 26 : HS_MAX((u32)columns(w->label.p, w->label.n) + 4, 16u));
  *height = part ? 50 : 40;
}

// ---- the result ---------------------------------------------------------------------------------
// The graph of a group's children as a spec; hubs gets the positions of its hubs.
static u32 spec_of(grouper *g, const wgroup *w, const wedge *edges, size_t nedges, const u32 *local,
                   void *hubs_out) {
  HS_VEC(u32) *hubs = hubs_out;
  u32 n = (u32)w->children.n, kept = 0;
  u32 *in = HS_NEW_ARRAY(&g->a, u32, n + 1), *out = HS_NEW_ARRAY(&g->a, u32, n + 1);
  for (size_t k = 0; k < nedges; k++) out[local[edges[k].from]]++, in[local[edges[k].to]]++;
  for (u32 k = 0; k < n; k++)
    if (in[k] > MAX_FAN || out[k] > MAX_FAN) hs_vec_push(hubs, k);
  HS_VEC(u32) v = {0};
  hs_vec_push(&v, n);
  for (u32 k = 0; k < n; k++) {
    u32 width, height;
    i32 child = w->children.v[k];
    if (child < (i32)g->n) box_of_instr(g, g->order[child], &width, &height);
    else box_of_group(&g->groups.v[child - (i32)g->n], &width, &height);
    hs_vec_push(&v, width);
    hs_vec_push(&v, height);
  }
  hs_vec_push(&v, 0);
  for (size_t k = 0; k < nedges; k++) {
    u32 a = local[edges[k].from], b = local[edges[k].to];
    if (out[a] > MAX_FAN || in[b] > MAX_FAN) continue;
    hs_vec_push(&v, a);
    hs_vec_push(&v, b);
    hs_vec_push(&v, edges[k].flags);
    kept++;
  }
  v.v[1 + 2 * n] = kept;
  u32 spec = viz_intern_put(&g->x->specs, v.v, v.n * sizeof *v.v);
  hs_vec_free(&v);
  return spec;
}

// Of the order of groups in `number`, children before their parents.
static u32 emit(grouper *g, i32 k, const size_t *first_edge, const u32 *local) {
  wgroup *w = &g->groups.v[k];
  HS_VEC(u32) v = {0};
  HS_VEC(u32) hubs = {0};
  u32 spec =
      spec_of(g, w, g->edges.v + first_edge[k], first_edge[k + 1] - first_edge[k], local, &hubs);
  u32 label = viz_explorer_string(g->x, w->label.p, w->label.n, 200);
  u32 head[] = {w->kind, label, w->count, spec, (u32)w->children.n};
  for (size_t j = 0; j < HS_COUNT(head); j++) hs_vec_push(&v, head[j]);
  for (u32 j = 0; j < w->children.n; j++) {
    i32 child = w->children.v[j];
    u32 ref = child < (i32)g->n ? g->order[child]->id
                                : VIZ_GROUP_BIT | emit(g, child - (i32)g->n, first_edge, local);
    hs_vec_push(&v, ref);
  }
  hs_vec_push(&v, (u32)hubs.n);
  for (u32 j = 0; j < hubs.n; j++) hs_vec_push(&v, hubs.v[j]);
  u32 number = viz_intern_put(&g->x->groups, v.v, v.n * sizeof *v.v);
  hs_vec_free(&v);
  hs_vec_free(&hubs);
  return number;
}

static u32 finish(grouper *g) {
  size_t *first_edge = HS_NEW_ARRAY(&g->a, size_t, g->groups.n + 1);
  for (size_t k = 0, group = 0; group <= g->groups.n; group++) {
    first_edge[group] = k;
    while (k < g->edges.n && g->edges.v[k].group == (i32)group) k++;
  }
  u32 *local = HS_NEW_ARRAY(&g->a, u32, g->n + g->groups.n + 1);
  number_children(g, local);
  return emit(g, 0, first_edge, local);
}

u32 viz_groups_of(viz_explorer *x, const hlo_computation *c) {
  grouper g = {.x = x, .c = c, .n = c->ninstrs, .many_params = c->nparams > MAX_NODE_PARAMS};
  g.order = hlo_post_order(c, &g.a);
  g.at = hlo_positions_in(g.n, g.order, &g.a);
  g.drawn = HS_NEW_ARRAY(&g.a, bool, g.n + 1);
  g.in = HS_NEW_ARRAY(&g.a, i32, g.n + 1);
  add_group(&g, VIZ_GROUP_COMPUTATION, NONE, hs_str_of(c->name));
  i32 params = g.many_params ? add_group(&g, VIZ_GROUP_PARAMETERS, 0, HS_STR("parameters")) : NONE;
  for (u32 p = 0; p < g.n; p++) {
    g.drawn[p] = !viz_is_folded(g.order[p]);
    g.in[p] = g.order[p]->opcode == HLO_PARAMETER ? (g.many_params ? params : 0) : NONE;
  }
  make_scopes(&g);
  make_parts(&g);
  u32 top = finish(&g);
  for (u32 k = 0; k < g.groups.n; k++) hs_vec_free(&g.groups.v[k].children);
  hs_vec_free(&g.groups);
  hs_vec_free(&g.edges);
  hs_arena_free(&g.a);
  return top;
}
