// layered.c: a layered layout without Graphviz. See explore_model.h.
//
// Edges that go back (the nodes come in topological order) do not count for the layers. Long edges
// are drawn straight through: their graphs are too dense for anybody to follow a line in.
#include <stdlib.h>

#include "viz/explore_model.h"

enum { NODE_GAP = 14, LAYER_GAP = 34, SWEEPS = 6 };

typedef struct spot {
  u32 node;
  double wish;  // where the neighbours are
} spot;
static int by_wish(const void *a, const void *b) {
  const spot *x = a, *y = b;
  if (x->wish != y->wish) return x->wish < y->wish ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

typedef struct layering {
  u32 n, nedges, nlayers;
  const u32 *sizes, *edges;
  u32 *layer, *begin;  // begin[l]: where layer l begins in order
  spot *order;
  double *x;  // centre
} layering;

// Layers by relaxing: at most n rounds, and edges of a cycle stop having an effect at layer n.
static void find_layers(layering *g) {
  for (u32 round = 0, more = 1; more && round < g->n; round++) {
    more = 0;
    for (u32 k = 0; k < g->nedges; k++) {
      u32 a = g->edges[3 * k], b = g->edges[3 * k + 1];
      // Nodes are numbered in topological order where there is one: an edge back closes a cycle.
      if (b > a && g->layer[b] <= g->layer[a]) g->layer[b] = g->layer[a] + 1, more = 1;
    }
  }
  for (u32 k = 0; k < g->n; k++) g->nlayers = HS_MAX(g->nlayers, g->layer[k] + 1);
}

static void set_x(layering *g, u32 l) {
  double at = 0;
  for (u32 k = g->begin[l]; k < g->begin[l + 1]; k++) {
    u32 n = g->order[k].node;
    g->x[n] = at + g->sizes[2 * n] / 2.0;
    at += g->sizes[2 * n] + NODE_GAP;
  }
  for (u32 k = g->begin[l]; k < g->begin[l + 1]; k++) g->x[g->order[k].node] -= at / 2;
}

static void sweep(layering *g, bool down, double *sum, u32 *count) {
  memset(sum, 0, g->n * sizeof *sum);
  memset(count, 0, g->n * sizeof *count);
  for (u32 s = 0; s < g->nlayers; s++) {
    u32 l = down ? s : g->nlayers - 1 - s;
    for (u32 k = g->begin[l]; k < g->begin[l + 1]; k++) {
      u32 n = g->order[k].node;
      g->order[k].wish = count[n] ? sum[n] / count[n] : g->x[n];
    }
    u32 many = g->begin[l + 1] - g->begin[l];
    if (many) qsort(g->order + g->begin[l], many, sizeof *g->order, by_wish);
    set_x(g, l);
    for (u32 k = 0; k < g->nedges; k++) {
      u32 a = g->edges[3 * k + !down], b = g->edges[3 * k + down];
      if (g->layer[a] == l) sum[b] += g->x[a], count[b]++;
    }
  }
}

void viz_layered(const u32 *spec, hs_arena *a, viz_layout *out) {
  layering g = {.n = spec[0],
                .nedges = spec[1 + 2 * spec[0]],
                .sizes = spec + 1,
                .edges = spec + 2 + 2 * spec[0]};
  g.layer = HS_NEW_ARRAY(a, u32, g.n + 1);
  find_layers(&g);
  g.begin = HS_NEW_ARRAY(a, u32, g.nlayers + 2);
  g.order = HS_NEW_ARRAY(a, spot, g.n + 1);
  g.x = HS_NEW_ARRAY(a, double, g.n + 1);
  for (u32 k = 0; k < g.n; k++) g.begin[g.layer[k] + 1]++;
  for (u32 l = 0; l < g.nlayers; l++) g.begin[l + 1] += g.begin[l];
  u32 *at = hs_arena_dup(a, g.begin, (g.nlayers + 1) * sizeof *at);
  for (u32 k = 0; k < g.n; k++) g.order[at[g.layer[k]]++].node = k;
  for (u32 l = 0; l < g.nlayers; l++) set_x(&g, l);
  double *sum = HS_NEW_ARRAY(a, double, g.n + 1);
  u32 *count = HS_NEW_ARRAY(a, u32, g.n + 1);
  for (u32 k = 0; k < SWEEPS; k++) sweep(&g, k % 2 == 0, sum, count);

  i32 *boxes = HS_NEW_ARRAY(a, i32, 4 * (size_t)g.n + 4), low = 0, high = 0, y = 0;
  for (u32 k = 0; k < g.n; k++) {
    i32 w = (i32)g.sizes[2 * k], x = (i32)g.x[k] - w / 2;
    boxes[4 * k] = x, boxes[4 * k + 2] = w, boxes[4 * k + 3] = (i32)g.sizes[2 * k + 1];
    low = k ? HS_MIN(low, x) : x, high = k ? HS_MAX(high, x + w) : x + w;
  }
  for (u32 l = 0; l < g.nlayers; l++) {
    i32 tall = 0;
    for (u32 k = g.begin[l]; k < g.begin[l + 1]; k++) {
      u32 n = g.order[k].node;
      boxes[4 * n] -= low;
      boxes[4 * n + 1] = y;
      tall = HS_MAX(tall, boxes[4 * n + 3]);
    }
    y += tall + LAYER_GAP;
  }
  i32 *words = HS_NEW_ARRAY(a, i32, 9 * (size_t)g.nedges + 1), *q = words;
  for (u32 k = 0; k < g.nedges; k++) {
    const i32 *f = boxes + 4 * (size_t)g.edges[3 * k], *t = boxes + 4 * (size_t)g.edges[3 * k + 1];
    i32 x0 = f[0] + f[2] / 2, y0 = f[1] + f[3], x1 = t[0] + t[2] / 2, y1 = t[1];
    i32 bend = (y1 - y0) / 2;
    const i32 p[] = {4, x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1};
    memcpy(q, p, sizeof p), q += HS_COUNT(p);
  }
  *out = (viz_layout){.w = (u32)(high - low),
                      .h = (u32)HS_MAX(y - LAYER_GAP, 0),
                      .n = g.n,
                      .boxes = boxes,
                      .nwords = 9 * g.nedges,
                      .edges = words};
}
