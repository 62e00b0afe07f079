// explore_layout.c: where the boxes of each group lie. See explore_model.h.
//
// Graphviz draws graphs that are connected well and puts the others into one long row. So a group
// is taken apart into its connected pieces, equal pieces (the layers of a model) are laid out once,
// and the pieces are set in rows of about the shape of a screen. Boxes without edges form a block
// of their own. Many pieces go to one process of Graphviz, as one text of many graphs.
#include <math.h>
#include <stdlib.h>

#include "viz/explore_model.h"

enum {
  BATCH_NODES = 1500,
  GAP = 24,        // between pieces
  LONE_GAP = 12,   // between boxes without edges
  MANY_EDGES = 6,  // edges per node beyond which Graphviz routes for seconds
  FEW_EDGES = 120
};

typedef struct box {
  i32 x, y, w, h;
} box;

// A reader of specs.
typedef struct spec_view {
  u32 n, nedges;
  const u32 *sizes, *edges;
} spec_view;
static spec_view view_of(const u32 *spec) {
  return (spec_view){spec[0], spec[1 + 2 * spec[0]], spec + 1, spec + 2 + 2 * spec[0]};
}

// ---- Graphviz -----------------------------------------------------------------------------------
static void put_graph(hs_buf *b, spec_view s) {
  hs_buf_puts(b, "digraph{nodesep=0.18;ranksep=0.34;node[shape=box,fixedsize=true,label=\"\"];"
                 "edge[arrowhead=none]\n");
  for (u32 k = 0; k < s.n; k++)
    hs_buf_printf(b, "%u[width=%.4f,height=%.4f]\n", k, s.sizes[2 * k] / 72.0,
                  s.sizes[2 * k + 1] / 72.0);
  for (u32 k = 0; k < s.nedges; k++)
    hs_buf_printf(b, "%u->%u\n", s.edges[3 * k], s.edges[3 * k + 1]);
  hs_buf_puts(b, "}\n");
}

static i32 pixels(double inches) { return (i32)lround(inches * 72); }

// A number of a line of -Tplain, moved past; false at its end.
static bool number(const char **p, double *v) {
  char *end;
  *v = strtod(*p, &end);
  bool ok = end != *p;
  *p = end;
  return ok && isfinite(*v) && fabs(*v) < 1e6;
}
static u32 edge_of(spec_view s, const u32 *next_of, u32 from, u32 to) {
  for (u32 k = next_of[from]; k < s.nedges && s.edges[3 * k] == from; k++)
    if (s.edges[3 * k + 1] == to) return k;
  return s.nedges;
}

// One graph of Graphviz's plain format, from *text on. False when it is not all there.
static bool read_graph(const char **text, spec_view s, hs_arena *a, viz_layout *out) {
  const char *p = *text;
  double scale, w, h, v[4];
  if (strncmp(p, "graph ", 6) != 0) return false;
  p += 6;
  if (!number(&p, &scale) || !number(&p, &w) || !number(&p, &h)) return false;
  box *boxes = HS_NEW_ARRAY(a, box, s.n + 1);
  const i32 **points = HS_NEW_ARRAY(a, const i32 *, s.nedges + 1);
  u32 *next_of = HS_NEW_ARRAY(a, u32, s.n + 1), total = 0;
  for (u32 k = s.nedges; k-- > 0;) next_of[s.edges[3 * k]] = k;
  for (;;) {
    p = strchr(p, '\n');
    if (!p) return false;
    if (strncmp(++p, "stop", 4) == 0) break;
    bool node = strncmp(p, "node ", 5) == 0;
    if (!node && strncmp(p, "edge ", 5) != 0) continue;
    p += 5;
    double first, second;
    if (!number(&p, &first) || !(first >= 0 && first < s.n)) return false;
    if (node) {
      for (u32 k = 0; k < 4; k++)
        if (!number(&p, &v[k])) return false;
      u32 n = (u32)first;
      i32 bw = (i32)s.sizes[2 * n], bh = (i32)s.sizes[2 * n + 1];
      boxes[n] = (box){pixels(v[0]) - bw / 2, pixels(h - v[1]) - bh / 2, bw, bh};
      continue;
    }
    if (!number(&p, &second) || !number(&p, &v[0]) || !(v[0] >= 4 && v[0] < 1000)) return false;
    u32 n = (u32)v[0], e = edge_of(s, next_of, (u32)first, (u32)second);
    i32 *q = HS_NEW_ARRAY(a, i32, 1 + 2 * n);
    q[0] = (i32)n;
    for (u32 k = 0; k < n; k++) {
      if (!number(&p, &v[0]) || !number(&p, &v[1])) return false;
      q[1 + 2 * k] = pixels(v[0]);
      q[2 + 2 * k] = pixels(h - v[1]);
    }
    if (e == s.nedges) return false;
    points[e] = q;
  }
  for (u32 k = 0; k < s.nedges; k++) {
    if (!points[k]) return false;
    total += 1 + 2 * (u32)points[k][0];
  }
  i32 *words = HS_NEW_ARRAY(a, i32, total + 1);
  u32 at = 0;
  for (u32 k = 0; k < s.nedges; at += 1 + 2 * (u32)points[k][0], k++)
    memcpy(words + at, points[k], (1 + 2 * (size_t)points[k][0]) * sizeof *words);
  *out = (viz_layout){(u32)pixels(w), (u32)pixels(h), s.n, &boxes[0].x, total, words};
  const char *end = strchr(p, '\n');
  *text = end ? end + 1 : p + strlen(p);
  return true;
}

// What Graphviz does not get.
static bool too_dense(spec_view s) { return s.nedges > MANY_EDGES * s.n + FEW_EDGES; }

typedef struct work {
  viz_explorer *x;
  viz_intern pieces;  // specs of connected pieces
  viz_layout *of;     // by piece; n 0: not laid out yet
  hs_arena *a;
  u32 dense, done, unreadable;
  hs_status failed;  // why Graphviz is not asked any more
} work;

static hs_status lay_batch(work *w, u32 from, u32 to, const hs_buf *text, u64 end) {
  u64 now = hs_now_ns();
  hs_buf plain = {0};
  hs_status s = now < end
                    ? viz_run_dot(text->p, text->n, "plain", (double)(end - now) * 1e-9, &plain)
                    : hs_fail(HS_E_RENDER, "Graphviz took all the time there was for it");
  const char *p = hs_ok(s) ? hs_buf_cstr(&plain) : "";
  for (u32 k = from; k < to && hs_ok(s); k++) {
    spec_view v = view_of(viz_intern_get(&w->pieces, k));
    if (too_dense(v)) continue;
    if (read_graph(&p, v, w->a, &w->of[k])) continue;
    w->unreadable++;
    break;
  }
  hs_buf_free(&plain);
  return s;
}

static hs_status lay_pieces(work *w, double deadline_s) {
  u32 n = viz_intern_count(&w->pieces), nodes = 0;
  u64 end = hs_now_ns() + (u64)(deadline_s * 1e9);
  hs_buf text = {0};
  hs_status s = HS_GOOD;
  for (u32 k = 0, from = 0; k < n && hs_ok(s); k++) {
    spec_view v = view_of(viz_intern_get(&w->pieces, k));
    if (too_dense(v)) w->dense++;
    else put_graph(&text, v), nodes += v.n;
    if (nodes < BATCH_NODES && k + 1 < n) continue;
    viz_explorer_tell(w->x, "laying out groups", k + 1, n);
    if (text.n && hs_ok(w->failed)) {
      hs_status st = lay_batch(w, from, k + 1, &text, end);
      if (hs_interrupted()) s = st;
      else w->failed = st;
    }
    text.n = nodes = 0, from = k + 1;
  }
  hs_buf_free(&text);
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    if (w->of[k].n) w->done++;
    else viz_layered(viz_intern_get(&w->pieces, k), w->a, &w->of[k]);
    if (k % 64 == 0) s = hs_poll();
  }
  return s;
}

// ---- pieces -------------------------------------------------------------------------------------
typedef struct taken_apart {
  u32 npieces, *piece;      // the number of each in `pieces`
  u32 *first, *end, *node;  // node[first[k] .. end[k]): the nodes of piece k
  u32 *edge_first, *edge;   // likewise its edges
  u32 nlone;
} taken_apart;

static u32 find(u32 *uf, u32 k) {
  while (uf[k] != k) k = uf[k] = uf[uf[k]];
  return k;
}

static taken_apart take_apart(work *w, const u32 *spec) {
  spec_view s = view_of(spec);
  hs_arena *a = w->a;
  taken_apart t = {0};
  u32 *uf = HS_NEW_ARRAY(a, u32, s.n + 1), *at = HS_NEW_ARRAY(a, u32, s.n + 1),
      *local = HS_NEW_ARRAY(a, u32, s.n + 1);
  for (u32 k = 0; k < s.n; k++) uf[k] = k;
  for (u32 k = 0; k < s.nedges; k++) {
    u32 x = find(uf, s.edges[3 * k]), y = find(uf, s.edges[3 * k + 1]);
    if (x != y) uf[HS_MAX(x, y)] = HS_MIN(x, y);
  }
  u32 *size = HS_NEW_ARRAY(a, u32, s.n + 1), *edges = HS_NEW_ARRAY(a, u32, s.n + 1);
  for (u32 k = 0; k < s.n; k++) size[find(uf, k)]++;
  for (u32 k = 0; k < s.nedges; k++) edges[find(uf, s.edges[3 * k])]++;
  t.piece = HS_NEW_ARRAY(a, u32, s.n + 1);
  t.first = HS_NEW_ARRAY(a, u32, s.n + 2), t.end = HS_NEW_ARRAY(a, u32, s.n + 2);
  t.edge_first = HS_NEW_ARRAY(a, u32, s.n + 2);
  t.node = HS_NEW_ARRAY(a, u32, s.n + 1), t.edge = HS_NEW_ARRAY(a, u32, s.nedges + 1);
  u32 nodes_at = 0, edges_at = 0;
  for (u32 k = 0; k < s.n; k++) {
    if (uf[k] != k) continue;
    if (!edges[k]) {
      t.nlone++;
      continue;
    }
    at[k] = t.npieces;
    t.first[t.npieces] = t.end[t.npieces] = nodes_at, nodes_at += size[k];
    t.edge_first[t.npieces++] = edges_at, edges_at += edges[k];
  }
  t.edge_first[t.npieces] = edges_at;
  u32 *filled = HS_NEW_ARRAY(a, u32, t.npieces + 1);
  for (u32 k = 0; k < s.n; k++) {
    u32 r = find(uf, k);
    if (!edges[r]) continue;
    local[k] = t.end[at[r]] - t.first[at[r]];
    t.node[t.end[at[r]]++] = k;
  }
  for (u32 k = 0; k < s.nedges; k++) {
    u32 r = at[find(uf, s.edges[3 * k])];
    t.edge[t.edge_first[r] + filled[r]++] = k;
  }
  HS_VEC(u32) v = {0};
  for (u32 p = 0; p < t.npieces; p++) {
    v.n = 0;
    hs_vec_push(&v, t.end[p] - t.first[p]);
    for (u32 k = t.first[p]; k < t.end[p]; k++) {
      hs_vec_push(&v, s.sizes[2 * t.node[k]]);
      hs_vec_push(&v, s.sizes[2 * t.node[k] + 1]);
    }
    hs_vec_push(&v, t.edge_first[p + 1] - t.edge_first[p]);
    for (u32 k = t.edge_first[p]; k < t.edge_first[p + 1]; k++) {
      const u32 *e = s.edges + 3 * (size_t)t.edge[k];
      hs_vec_push(&v, local[e[0]]);
      hs_vec_push(&v, local[e[1]]);
      hs_vec_push(&v, 0);  // how an edge is drawn does not matter to where it lies
    }
    t.piece[p] = viz_intern_put(&w->pieces, v.v, v.n * sizeof *v.v);
  }
  hs_vec_free(&v);
  return t;
}

// Sets pieces into rows from the upper left; a row is as wide as the widest or as a screen is.
typedef struct shelf {
  u32 width, x, y, row, w, h;
} shelf;
static void place(shelf *s, u32 w, u32 h, u32 gap, i32 *x, i32 *y) {
  if (s->x && s->x + w > s->width) s->y += s->row + gap, s->x = s->row = 0;
  *x = (i32)s->x, *y = (i32)s->y;
  s->x += w + gap;
  s->row = HS_MAX(s->row, h);
  s->w = HS_MAX(s->w, s->x - gap);
  s->h = HS_MAX(s->h, s->y + h);
}

static viz_layout put_together(work *w, const u32 *spec, const taken_apart *t) {
  spec_view s = view_of(spec);
  box *boxes = HS_NEW_ARRAY(w->a, box, s.n + 1);
  const i32 **points = HS_NEW_ARRAY(w->a, const i32 *, s.nedges + 1);
  i32 *shift = HS_NEW_ARRAY(w->a, i32, 2 * (size_t)s.nedges + 2);
  double area = 0;
  shelf sh = {0};
  for (u32 p = 0; p < t->npieces; p++) {
    const viz_layout *l = &w->of[t->piece[p]];
    area += (double)(l->w + GAP) * (l->h + GAP);
    sh.width = HS_MAX(sh.width, l->w);
  }
  for (u32 k = 0; k < s.n; k++)
    boxes[k] = (box){-1, 0, (i32)s.sizes[2 * k], (i32)s.sizes[2 * k + 1]};
  sh.width = HS_MAX(sh.width, (u32)sqrt(area * 1.7));
  u32 words = 0;
  for (u32 p = 0; p < t->npieces; p++) {
    const viz_layout *l = &w->of[t->piece[p]];
    i32 x, y;
    place(&sh, l->w, l->h, GAP, &x, &y);
    for (u32 k = 0; k < l->n; k++) {
      box *b = &boxes[t->node[t->first[p] + k]];
      b->x = l->boxes[4 * k] + x, b->y = l->boxes[4 * k + 1] + y;
    }
    const i32 *q = l->edges;
    for (u32 k = t->edge_first[p]; k < t->edge_first[p + 1]; k++, q += 1 + 2 * q[0]) {
      points[t->edge[k]] = q;
      shift[2 * t->edge[k]] = x, shift[2 * t->edge[k] + 1] = y;
      words += 1 + 2 * (u32)q[0];
    }
  }
  shelf lone = {.width = sh.w};
  area = 0;
  for (u32 k = 0; k < s.n; k++)
    if (boxes[k].x < 0) area += (double)(boxes[k].w + LONE_GAP) * (boxes[k].h + LONE_GAP);
  lone.width = HS_MAX(sh.w, (u32)sqrt(area * 1.7));
  u32 top = sh.h ? sh.h + GAP : 0;
  for (u32 k = 0; k < s.n; k++) {
    if (boxes[k].x >= 0) continue;
    i32 x, y;
    place(&lone, (u32)boxes[k].w, (u32)boxes[k].h, LONE_GAP, &x, &y);
    boxes[k].x = x, boxes[k].y = y + (i32)top;
  }
  i32 *edges = HS_NEW_ARRAY(w->a, i32, words + 1), *q = edges;
  for (u32 k = 0; k < s.nedges; k++) {
    u32 n = (u32)points[k][0];
    *q++ = (i32)n;
    for (u32 j = 0; j < 2 * n; j++) *q++ = points[k][1 + j] + shift[2 * k + j % 2];
  }
  return (viz_layout){.w = HS_MAX(sh.w, lone.w),
                      .h = lone.h ? lone.h + top : sh.h,
                      .n = s.n,
                      .boxes = &boxes[0].x,
                      .nwords = words,
                      .edges = edges};
}

static void say_note(const work *w, u32 pieces, char **note) {
  hs_buf b = {0};
  if (w->dense)
    hs_buf_printf(&b, "%u of %u groups have too many edges for Graphviz", w->dense, pieces);
  if (w->failed.err) hs_buf_printf(&b, "%s%s", b.n ? "; " : "", w->failed.err->message);
  else if (w->unreadable)
    hs_buf_printf(&b, "%s%u times Graphviz's answer could not be read", b.n ? "; " : "",
                  w->unreadable);
  if (b.n && note) {
    hs_buf_printf(&b, ": %u groups are in a simpler layout", pieces - w->done);
    *note = hs_strdup(hs_buf_cstr(&b));
  }
  hs_buf_free(&b);
}

hs_status viz_layouts_make(viz_explorer *x, double deadline_s, hs_arena *a, viz_layout **out,
                           char **note) {
  u32 n = viz_intern_count(&x->specs);
  work w = {.x = x, .a = a};
  taken_apart *t = HS_NEW_ARRAY(a, taken_apart, n + 1);
  for (u32 k = 0; k < n && !hs_interrupted(); k++)
    t[k] = take_apart(&w, viz_intern_get(&x->specs, k));
  u32 pieces = viz_intern_count(&w.pieces);
  w.of = HS_NEW_ARRAY(a, viz_layout, pieces + 1);
  hs_status s = hs_poll();
  if (hs_ok(s)) s = lay_pieces(&w, deadline_s);
  *out = HS_NEW_ARRAY(a, viz_layout, n + 1);
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    (*out)[k] = put_together(&w, viz_intern_get(&x->specs, k), &t[k]);
    if (k % 256 == 0) s = hs_poll();
  }
  if (hs_ok(s)) say_note(&w, pieces, note);
  hs_status_drop(w.failed);
  viz_intern_free(&w.pieces);
  return s;
}
