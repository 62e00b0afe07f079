// explorer_scene.js: where things lie. Each group comes with a layout of its children as closed
// boxes. A box that is opened in place needs more room, so the layout around it is stretched: one
// monotone map of x and one of y, with a ramp across each opened box that makes it as large as its
// content. What was left of a box stays left of it, nothing overlaps, and edges follow.
const TITLE = 24, PAD = 14, COLUMN = 26;

// f(x) = x + ramps; grows [lo, hi] to at least `need` for each of the boxes given.
function stretch(boxes) {
  const ramps = [];
  const f = x => {
    let y = x;
    for (const r of ramps) y += r.extra * Math.min(1, Math.max(0, (x - r.lo) / (r.hi - r.lo)));
    return y;
  };
  for (const b of boxes.sort((p, q) => p.hi - q.hi || p.lo - q.lo)) {
    const extra = b.need - (f(b.hi) - f(b.lo));
    if (extra > 0) ramps.push({lo: b.lo, hi: b.hi, extra});
  }
  return f;
}

// The name of a group among its siblings, the same in all versions where it is there.
function childLabels(group) {
  if (group.labels) return group.labels;
  const seen = new Map();
  let part = 0;
  group.labels = group.children.map(c => {
    if (!isGroup(c)) return '';
    const x = groupOf(c - GROUP), base = x.kind === IS_PART ? 'part ' + ++part : x.label;
    const n = (seen.get(base) || 0) + 1;
    seen.set(base, n);
    return n > 1 ? base + ' #' + n : base;
  });
  return group.labels;
}

// The picture of a group: {w, h, nodes, edges}. open: keys of the boxes that are open. up: crumbs
// from the place shown to this group.
function sceneOf(version, g, key, open, depth, up) {
  const group = groupOf(g), [, , boxes, pairs, points] = group.layout, labels = childLabels(group);
  const nodes = group.children.map((c, k) => {
    const n = {x: boxes[4 * k], y: boxes[4 * k + 1], w: boxes[4 * k + 2], h: boxes[4 * k + 3],
               key: key + '/' + (isGroup(c) ? 'g' + labels[k] : 'i' + c), hub: group.hubs.has(k), depth, up};
    if (isGroup(c)) n.g = c - GROUP, n.label = labels[k]; else n.id = c;
    return n;
  });
  const wide = [], high = [];
  for (const n of nodes) {
    if (!open.has(n.key) || depth > 40) continue;
    n.inner = contentOf(version, n, open, depth + 1);
    if (!n.inner) continue;
    wide.push({lo: n.x, hi: n.x + n.w, need: n.inner.w + 2 * PAD});
    high.push({lo: n.y, hi: n.y + n.h, need: n.inner.h + TITLE + 2 * PAD});
  }
  const fx = stretch(wide), fy = stretch(high);
  if (wide.length)
    for (const n of nodes) {
      const x = fx(n.x), y = fy(n.y), w = fx(n.x + n.w) - x, h = fy(n.y + n.h) - y;
      if (n.inner) n.x = x, n.y = y, n.w = w, n.h = h;
      else n.x = x + (w - n.w) / 2, n.y = y + (h - n.h) / 2;
    }
  // A closed box lies in the middle of its stretched place: ends of edges, with the handles next to
  // them, stay where they were on it.
  const hold = (p, end, handle, n, k, x, y) => {
    if (n.inner) return;
    const dx = n.x + x - boxes[4 * k] - p[end], dy = n.y + y - boxes[4 * k + 1] - p[end + 1];
    p[end] += dx, p[end + 1] += dy, p[handle] += dx, p[handle + 1] += dy;
  };
  const edges = [];
  for (let e = 0, at = 0; e < pairs.length; e += 3) {
    const n = points[at], p = new Array(2 * n), from = at + 1, last = at + 2 * n - 1;
    for (let k = 0; k < n; k++)
      p[2 * k] = fx(points[from + 2 * k]), p[2 * k + 1] = fy(points[from + 2 * k + 1]);
    at += 1 + 2 * n;
    const a = nodes[pairs[e]], b = nodes[pairs[e + 1]];
    if (wide.length) {
      hold(p, 0, 2, a, pairs[e], points[from], points[from + 1]);
      hold(p, 2 * n - 2, 2 * n - 4, b, pairs[e + 1], points[last], points[last + 1]);
    }
    edges.push({p, a, b, control: pairs[e + 2] === 1});
  }
  return {w: fx(group.layout[0]), h: fy(group.layout[1]), nodes, edges};
}

// What is in an open box: the group, or the computations of an instruction side by side.
function contentOf(version, node, open, depth) {
  if (node.g !== undefined) {
    const s = sceneOf(version, node.g, node.key, open, depth, [...node.up, {label: node.label}]);
    return {w: s.w, h: s.h, parts: [{x: 0, y: 0, scene: s, title: ''}]};
  }
  if (!version.has(node.id)) return null;
  const comps = version.inside(node.id), parts = [];
  let x = 0, h = 0;
  for (const c of comps) {
    const s = sceneOf(version, version.tree.get(c), node.key + '/c' + c, open, depth, [...node.up, {via: node.id, comp: c}]);
    const top = comps.length > 1 ? 18 : 0;
    parts.push({x, y: top, scene: s, title: comps.length > 1 ? version.compName(c) : ''});
    x += Math.max(s.w, 120) + COLUMN;
    h = Math.max(h, s.h + top);
  }
  return parts.length ? {w: x - COLUMN, h, parts} : null;
}

// The scene as one list in the order of drawing, in coordinates of the whole picture.
function flatten(scene, ox = 0, oy = 0, out = {nodes: [], items: []}) {
  for (const e of scene.edges) {
    const p = new Array(e.p.length);
    let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
    for (let k = 0; k < p.length; k += 2) {
      const x = e.p[k] + ox, y = e.p[k + 1] + oy;
      p[k] = x, p[k + 1] = y;
      if (x < x0) x0 = x;
      if (x > x1) x1 = x;
      if (y < y0) y0 = y;
      if (y > y1) y1 = y;
    }
    out.items.push({edge: e, p, x0, y0, x1, y1});
  }
  for (const n of scene.nodes) {
    n.ax = n.x + ox, n.ay = n.y + oy;
    out.nodes.push(n);
    out.items.push({node: n, x0: n.ax, y0: n.ay, x1: n.ax + n.w, y1: n.ay + n.h});
    if (!n.inner) continue;
    const left = n.ax + (n.w - n.inner.w) / 2, top = n.ay + TITLE + (n.h - TITLE - n.inner.h) / 2;
    for (const p of n.inner.parts) {
      if (p.title) out.items.push({title: p.title, x0: left + p.x, y0: top, x1: left + p.x + Math.max(p.scene.w, 120), y1: top + 16});
      flatten(p.scene, left + p.x, top + p.y, out);
    }
  }
  return out;
}
