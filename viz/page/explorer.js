// explorer.js: the application: panes (a version, a place in it, what is open there), and what the
// mouse, the keys and the bar do.
//
// A place is a list of crumbs, the same words in every version: {comp, via} is a computation and
// the instruction it was entered through, {label} a group in the one before.
class Pane {
  constructor(app, root) {
    this.app = app, this.root = root;
    this.canvas = el('canvas'), this.map = el('canvas', {className: 'map'});
    this.crumbs = el('div', {className: 'crumbs'}), this.legend = el('div', {className: 'legend'});
    root.append(this.canvas, this.map, this.crumbs, this.legend);
    root.tabIndex = 0;
    this.open = new Set(), this.selected = null, this.against = null;
    this.changes = {state: new Map(), removed: new Set()}, this.removed = new Set();
    this.view = {k: 1, x: 0, y: 0}, this.fitted = true;  // fitted: nobody has moved it since fit()
    this.listen();
  }

  // ---- where it is
  setVersion(at) {
    this.version = versionAt(at);
    if (!this.place) this.place = [{comp: this.version.step.entry}];
    this.compare(at > 0 ? at - 1 : null);
  }
  // Highlights what differs from version `at`; null: nothing.
  compare(at) {
    this.against = at, this.removed = new Set();
    const now = this.version.at;
    if (at === null || at === now) this.changes = {state: new Map(), removed: new Set(), was: new Map()};
    else if (at < now) this.changes = changesBetween(at, now);
    else {  // the other one is later: what is here and not there is removed, the rest changes over
      const d = changesBetween(now, at), state = new Map();
      for (const [id, was] of d.was) { const how = d.state.get(id); if (how) state.set(was, how); }
      this.changes = {state, removed: new Set(), was: new Map([...d.was].map(([a, b]) => [b, a]))};
      this.removed = d.removed;
    }
    this.memo = new Map();
  }
  // The group that the place leads to, as far as it leads in this version.
  resolve() {
    const v = this.version, kept = [];
    let g = -1;
    for (const c of this.place) {
      if (c.comp !== undefined) {
        if (!v.tree.has(c.comp)) break;
        g = v.tree.get(c.comp);
      } else {
        const x = groupOf(g), k = childLabels(x).indexOf(c.label);
        if (k < 0) break;
        g = x.children[k] - GROUP;
      }
      kept.push(c);
    }
    if (!kept.length) kept.push({comp: v.step.entry}), g = v.tree.get(v.step.entry);
    this.place = kept;
    return g;
  }
  key() { return this.place.map(c => c.comp !== undefined ? 'c' + c.comp : 'g' + c.label).join('/'); }

  // ---- drawing
  rebuild(fit) {
    const g = this.resolve(), t0 = performance.now();
    this.scene = sceneOf(this.version, g, this.key(), this.open, 0, []);
    this.flat = flatten(this.scene);
    this.byKey = new Map(this.flat.nodes.map(n => [n.key, n]));
    this.byId = new Map();
    for (const n of this.flat.nodes) if (n.id !== undefined) this.byId.set(n.id, n);
    if (this.selected) this.selected = this.byKey.get(this.selected.key) || null;
    this.showCrumbs();
    if (fit) this.fit();
    this.redraw();
    this.builtMs = performance.now() - t0;
  }
  size() { return [this.root.clientWidth || 800, this.root.clientHeight || 600]; }
  fit() {
    const [w, h] = this.size(), m = 40;
    const k = Math.min((w - 2 * m) / Math.max(1, this.scene.w), (h - 2 * m) / Math.max(1, this.scene.h), 1.4);
    this.view = {k, x: (w - k * this.scene.w) / 2, y: (h - k * this.scene.h) / 2};
    if (k < 0.3 && this.scene.h > this.scene.w) {  // too tall to read as a whole: begin at its top
      const kk = Math.min(1, Math.max(k, (w - 2 * m) / this.scene.w, 0.05));
      this.view = {k: kk, x: (w - kk * this.scene.w) / 2, y: m};
    }
    this.fitted = true;
  }
  whole() {
    const {k, x, y} = this.view, [w, h] = this.size();
    return x >= 0 && y >= 0 && x + k * this.scene.w <= w && y + k * this.scene.h <= h;
  }
  // The middle of a box into the middle of the window, but no emptiness where there is more to show.
  center(n) {
    const v = this.view, [w, h] = this.size(), m = 40;
    if (v.k < 0.45) v.k = 0.8;
    const put = (at, all, room) => all * v.k <= room - 2 * m ? (room - all * v.k) / 2
                                  : Math.min(m, Math.max(room - m - all * v.k, room / 2 - v.k * at));
    v.x = put(n.ax + n.w / 2, this.scene.w, w), v.y = put(n.ay + n.h / 2, this.scene.h, h);
    this.fitted = false;
    this.redraw();
  }
  sees(n) {
    const v = this.view, [w, h] = this.size(), x = n.ax * v.k + v.x, y = n.ay * v.k + v.y;
    return x >= 20 && y >= 40 && x + n.w * v.k <= w - 20 && y + n.h * v.k <= h - 20;
  }
  // A box that has grown beyond the window is brought into it, smaller where that still can be read.
  comfort(n) {
    const v = this.view, [w, h] = this.size(), m = 40, left = n.ax * v.k + v.x, top = n.ay * v.k + v.y;
    if (left >= 0 && top >= m && left + n.w * v.k <= w && top + n.h * v.k <= h) return;
    this.fitted = false;
    const fit = Math.min((w - 2 * m) / n.w, (h - 2 * m) / n.h);
    v.k = Math.min(v.k, Math.max(fit, 0.12));
    v.x = w / 2 - v.k * (n.ax + n.w / 2);
    v.y = n.h * v.k <= h - 2 * m ? h / 2 - v.k * (n.ay + n.h / 2) : m - v.k * n.ay;
  }
  look() {
    const app = this.app, near = new Map(), sel = this.selected;
    if (sel && sel.id !== undefined && this.version.has(sel.id)) {
      for (const o of this.version.operands(sel.id)) { const d = this.version.drawn(o); if (d >= 0) near.set(d, 'operand'); }
      for (const u of this.version.usersOf(sel.id)) near.set(u, 'user');
    }
    const mode = app.mode, m = METRICS.includes(mode) ? mode : null;
    let most = 1;
    if (m) { most = 0; for (const n of this.flat.nodes) if (!n.inner) most = Math.max(most, n.g !== undefined ? this.version.groupValue(n.g, m) : this.version.value(n.id, m)); }
    this.most = most;
    return {theme: app.dark ? 'dark' : 'light', mode, most: most || 1, state: this.changes.state, removed: this.removed, memo: this.memo,
            count: this.changes.state.size > 0, selected: sel ? sel.key : '', near, overlay: this.overlay(near), found: this.framed()};
  }
  // What the search finds in this version; null: nothing is looked for.
  found() {
    const query = this.app.query, v = this.version;
    if (!query) return null;
    if (!this.hits || this.hits.query !== query || this.hits.version !== v) this.hits = {query, version: v, ids: search(v, query), memo: new Map()};
    return this.hits;
  }
  // And what stands for it in the picture: an instruction, or for a constant its first user.
  framed() {
    const f = this.found();
    if (f && !f.drawn) f.drawn = new Set(f.ids.map(id => this.version.standsFor(id))), f.drawn.delete(-1);
    return f;
  }
  // Lines to neighbours that are drawn, where no edge shows it.
  overlay(near) {
    const sel = this.selected, out = [];
    if (!sel || near.size > 60) return out;
    const drawn = new Set();
    for (const e of this.scene.edges) if (e.a.key === sel.key || e.b.key === sel.key) drawn.add(e.a.id).add(e.b.id);
    for (const [id, kind] of near) {
      const n = this.byId.get(id);
      if (!n || drawn.has(id) || n === sel) continue;
      const [a, b] = kind === 'operand' ? [n, sel] : [sel, n];
      const x0 = a.ax + a.w / 2, y0 = a.ay + a.h, x1 = b.ax + b.w / 2, y1 = b.ay, d = Math.max(30, Math.abs(y1 - y0) / 3);
      out.push({kind, p: [x0, y0, x0, y0 + d, x1, y1 - d, x1, y1]});
    }
    return out;
  }
  redraw() {
    if (this.root.hidden || this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }
  draw() {
    const [w, h] = this.size(), ratio = window.devicePixelRatio || 1, c = this.canvas;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) c.width = Math.round(w * ratio), c.height = Math.round(h * ratio);
    const ctx = c.getContext('2d'), {k, x, y} = this.view, look = this.look();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = THEMES[look.theme].back;
    ctx.fillRect(0, 0, c.width, c.height);
    ctx.setTransform(k * ratio, 0, 0, k * ratio, x * ratio, y * ratio);
    drawScene(new CanvasPainter(ctx), this.version, this.flat, look, k, -x / k, -y / k, (w - x) / k, (h - y) / k);
    this.drawMap(look);
    this.drawLegend(look);
  }
  drawMap(look) {
    const m = this.map, ratio = window.devicePixelRatio || 1, w = 180, h = 120, s = this.scene, t = THEMES[look.theme];
    m.hidden = !this.app.minimap || this.whole();
    if (m.hidden) return;
    m.width = w * ratio, m.height = h * ratio;
    const k = Math.min(w / s.w, h / s.h) * 0.94, ctx = m.getContext('2d');
    this.mapView = {k, x: (w - k * s.w) / 2, y: (h - k * s.h) / 2};
    ctx.setTransform(k * ratio, 0, 0, k * ratio, this.mapView.x * ratio, this.mapView.y * ratio);
    for (const n of this.flat.nodes) {
      const [fill, line] = n.inner ? [n.depth % 2 ? t.box2 : t.none] : paintOf(this.version, n, look), w = Math.max(n.w, 0.7 / k), h = Math.max(n.h, 0.7 / k);
      ctx.fillStyle = fill, ctx.fillRect(n.ax, n.ay, w, h);
      if (line && h * k > 3) ctx.strokeStyle = line, ctx.lineWidth = 0.6 / k, ctx.strokeRect(n.ax, n.ay, w, h);
    }
    const v = this.view, [pw, ph] = this.size();
    ctx.strokeStyle = t.select, ctx.lineWidth = 1.5 / k;
    ctx.strokeRect(-v.x / v.k, -v.y / v.k, pw / v.k, ph / v.k);
  }
  drawLegend(look) {
    const box = (color, s) => [el('i', {style: 'background:' + color}), s], parts = [];
    if (look.mode === 'changed' || look.count)
      for (const how of Object.keys(CHANGE)) if (how !== 'removed' || this.removed.size) parts.push(...box(CHANGE[how], how));
    if (METRICS.includes(look.mode)) parts.unshift(METRIC_NAMES[look.mode], ' 0 ', el('span', {className: 'heat'}, HEAT.map(c => el('i', {style: 'background:' + c}))), ' ', figure(look.mode, this.most || 0));
    this.legend.replaceChildren(...parts);
    this.legend.hidden = !parts.length;
  }
  showCrumbs() {
    const v = this.version, row = el('span');
    if (this.app.both) row.append(el('b', {}, '@' + v.step.number + '  '));
    this.place.forEach((c, k) => {
      const name = c.comp !== undefined ? (c.via !== undefined && v.has(c.via) ? v.name(c.via) + ' ▸ ' : '') + v.compName(c.comp) : c.label;
      if (k) row.append(' / ');
      row.append(k + 1 < this.place.length ? el('a', {on: () => this.app.goTo(this, this.place.slice(0, k + 1))}, name) : el('b', {}, name));
    });
    this.crumbs.replaceChildren(row);
  }

  // ---- the mouse
  at(px, py) {
    const x = (px - this.view.x) / this.view.k, y = (py - this.view.y) / this.view.k;
    let best = null;
    for (const n of this.flat.nodes) if (x >= n.ax && x <= n.ax + n.w && y >= n.ay && y <= n.ay + n.h) best = n;
    return best;
  }
  zoom(f, px, py) {
    const g = Math.min(4, Math.max(0.003, this.view.k * f)) / this.view.k;
    this.app.shift(this, px - px * g, py - py * g, g);
  }
  listen() {
    let drag = null;
    const c = this.canvas, at = e => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
    c.addEventListener('wheel', e => { e.preventDefault(); this.zoom(Math.exp(-e.deltaY * 0.0016), ...at(e)); }, {passive: false});
    c.addEventListener('pointerdown', e => { this.app.focus(this); drag = {x: e.clientX, y: e.clientY, moved: false}; c.setPointerCapture(e.pointerId); });
    c.addEventListener('pointermove', e => {
      if (!drag) { const n = this.at(...at(e)); c.style.cursor = n ? 'pointer' : 'grab'; return; }
      const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
      if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
      if (!drag.moved) return;
      drag.x = e.clientX, drag.y = e.clientY;
      this.app.shift(this, dx, dy);
    });
    c.addEventListener('pointerup', e => { if (drag && !drag.moved) this.app.select(this, this.at(...at(e))); drag = null; });
    c.addEventListener('dblclick', e => { const n = this.at(...at(e)); if (n) e.shiftKey ? this.app.goInto(this, n) : this.app.toggle(this, n); });
    const jump = e => {
      const r = this.map.getBoundingClientRect(), m = this.mapView, [w, h] = this.size(), v = this.view;
      this.app.shift(this, w / 2 - v.k * (e.clientX - r.left - m.x) / m.k - v.x, h / 2 - v.k * (e.clientY - r.top - m.y) / m.k - v.y);
    };
    this.map.addEventListener('pointerdown', jump);
    this.map.addEventListener('pointermove', e => { if (e.buttons) jump(e); });
  }
}

class App {
  constructor() {
    this.mode = 'op', this.minimap = true, this.results = null, this.query = '', this.both = false;
    this.dark = window.matchMedia && matchMedia('(prefers-color-scheme: dark)').matches;
    const roots = document.querySelectorAll('.pane');
    this.panes = [new Pane(this, roots[0]), new Pane(this, roots[1])];
    this.pane = this.panes[0];
    this.bar();
    const at = Math.max(0, D.versions.findIndex(v => v.current));
    for (const p of this.panes) p.setVersion(at);
    this.setDark(this.dark);
    this.pane.rebuild(true);
    this.versionChanged();
    if (D.focus && this.pane.version.has(D.focus - 1)) this.reveal(this.pane, D.focus - 1);
    fillPanel(this, this.pane);
    addEventListener('resize', () => this.shown().forEach(p => { if (p.fitted) p.fit(); p.redraw(); }));
    addEventListener('keydown', e => this.keydown(e));
  }
  shown() { return this.both ? this.panes : [this.panes[0]]; }
  other(pane) { return this.panes[pane === this.panes[0] ? 1 : 0]; }
  focus(pane) { if (this.pane !== pane) this.pane = pane, this.versionChanged(), fillPanel(this, pane); }

  // ---- acting on a pane; side by side the other one follows
  follow(pane, act) { act(pane); if (this.both) act(this.other(pane)); }
  // Moves and zooms what is shown, in both panes: a point p of the window goes to f p + (x, y).
  shift(pane, x, y, f = 1) {
    for (const p of this.shown()) {
      const v = p.view;
      p.view = {k: f * v.k, x: f * v.x + x, y: f * v.y + y}, p.fitted = false;
      p.redraw();
    }
  }
  fit() { this.shown().forEach(p => { p.fit(); p.redraw(); }); }
  select(pane, node) {
    this.results = null;
    pane.selected = node, pane.redraw();
    if (this.both && node) {
      const o = this.other(pane);
      o.selected = o.byKey.get(node.key) || (node.id !== undefined && o.byId.get(pane.changes.was && pane.changes.was.get(node.id))) || null;
      if (o.selected && !o.selected.inner && !o.sees(o.selected)) o.center(o.selected);
      o.redraw();
    }
    fillPanel(this, pane);
  }
  canOpen(pane, n) { return n && (n.g !== undefined || (pane.version.has(n.id) && pane.version.inside(n.id).length > 0)); }
  toggle(pane, n) {
    if (!this.canOpen(pane, n)) return;
    const t0 = performance.now(), key = n.key, opens = !pane.open.has(key);
    this.follow(pane, p => {
      const at = m => [(m.ax + m.w / 2) * p.view.k + p.view.x, m.ay * p.view.k + p.view.y], before = p.byKey.get(key), from = before && at(before);
      opens ? p.open.add(key) : p.open.delete(key);
      p.rebuild(false);
      const now = p.byKey.get(key);
      if (now && from) { const to = at(now); p.view.x += from[0] - to[0], p.view.y += from[1] - to[1]; }  // what was clicked stays where it was
      if (now && now.inner) p.comfort(now);
      p.fitted = false;
    });
    this.select(pane, pane.byKey.get(key) || null);
    pane.draw();
    this.openMs = performance.now() - t0;
  }
  openAll(pane) {
    const from = pane.selected && pane.selected.inner ? pane.selected.key + '/' : '';
    for (const n of pane.flat.nodes) if (n.key.startsWith(from) && !n.inner && this.canOpen(pane, n)) pane.open.add(n.key);
    this.follow(pane, p => { p.open = new Set(pane.open); p.rebuild(true); });
  }
  closeAll(pane) { this.follow(pane, p => { p.open.clear(); p.rebuild(true); }); }
  goTo(pane, place) { this.results = null; this.follow(pane, p => { p.place = place.slice(), p.selected = null; p.rebuild(true); }); fillPanel(this, pane); }
  goInto(pane, n) {
    if (!this.canOpen(pane, n)) return;
    const last = n.g !== undefined ? {label: n.label} : {via: n.id, comp: pane.version.inside(n.id)[0]};
    this.goTo(pane, [...pane.place, ...n.up, last]);
  }
  goOut(pane) { if (pane.place.length > 1) this.goTo(pane, pane.place.slice(0, -1)); }

  // Shows an instruction: where it is on the screen if it is, else by going into its group.
  reveal(pane, id) {
    const v = pane.version;
    if (!v.has(id)) return;
    const target = v.standsFor(id);
    if (target < 0) return;
    if (!pane.byId.has(target)) {
      const place = [], chain = v.chain(target);
      let comp = I.comp[v.record[target]];
      const outer = [];
      for (let guard = 0; comp !== v.step.entry && guard < 40; guard++) {
        const caller = v.callersOf(comp)[0];
        outer.unshift({comp, via: caller});
        if (caller === undefined) break;
        comp = I.comp[v.record[caller]];
      }
      if (comp === v.step.entry) place.push({comp});
      place.push(...outer);
      for (let k = 1; k < chain.length; k++) {
        const up = groupOf(chain[k - 1]);
        place.push({label: childLabels(up)[up.children.indexOf(GROUP + chain[k])]});
      }
      this.follow(pane, p => { p.place = place.slice(); p.rebuild(true); });
    }
    const n = pane.byId.get(target);
    this.select(pane, n || null);
    if (n) pane.center(n);
    if (target !== id) fillPanel(this, pane, id);
  }
  revealIn(pane, at, id) {
    const p = this.both && this.other(pane).version.at === at ? this.other(pane) : pane;
    if (p.version.at !== at) this.setVersion(p, at);
    this.reveal(p, id);
  }

  // ---- versions
  setVersion(pane, at) {
    const t0 = performance.now();
    at = Math.min(D.versions.length - 1, Math.max(0, at));
    pane.setVersion(at);
    if (this.both) this.compareBoth();
    this.results = null;
    this.follow(pane, p => p.rebuild(p.fitted));
    this.versionChanged();
    fillPanel(this, pane);
    pane.draw();
    this.stepMs = performance.now() - t0;
  }
  compareBoth() { const [a, b] = this.panes; a.compare(b.version.at), b.compare(a.version.at); }
  setBoth(on) {
    this.both = on;
    const [a, b] = this.panes;
    b.root.hidden = !on;
    if (on) {
      b.setVersion(a.version.at), b.place = a.place.slice(), b.open = new Set(a.open);
      if (a.version.at > 0) a.setVersion(a.version.at - 1);
      this.compareBoth();
      this.pane = b;
    } else {
      if (a.version.at < b.version.at) a.setVersion(b.version.at); else a.compare(a.version.at > 0 ? a.version.at - 1 : null);
      this.pane = a;
    }
    document.getElementById('both').classList.toggle('on', on);
    this.shown().forEach(p => p.rebuild(true));
    this.versionChanged();
    fillPanel(this, this.pane);
  }
  versionChanged() {
    const v = this.pane.version, s = v.step, slider = document.getElementById('slider');
    slider.max = D.versions.length - 1, slider.value = v.at;
    const n = how => [...this.pane.changes.state.values()].filter(x => x === how).length;
    const parts = [['added', '+'], ['changed', '~'], ['moved', '>']].map(([how, sign]) => [n(how), sign]).filter(([k]) => k).map(([k, sign]) => sign + k);
    if (this.pane.changes.removed && this.pane.changes.removed.size) parts.push('−' + this.pane.changes.removed.size);
    const text = `@${s.number} ${S[s.label]}` + (parts.length ? '  ' + parts.join(' ') : '');
    Object.assign(document.getElementById('version'), {textContent: text, title: text});
    document.getElementById('history').hidden = D.versions.length < 2;
    document.getElementById('both').hidden = D.versions.length < 2;
  }

  // ---- the bar
  bar() {
    const id = x => document.getElementById(x), mode = id('mode');
    id('title').textContent = S[D.title - 1];
    for (const m of ['op', ...METRICS, 'changed']) mode.append(el('option', {value: m}, m === 'op' ? 'operation' : m === 'changed' ? 'what changed' : METRIC_NAMES[m]));
    mode.addEventListener('change', () => this.setMode(mode.value));
    id('slider').addEventListener('input', e => this.setVersion(this.pane, +e.target.value));
    id('earlier').addEventListener('click', () => this.setVersion(this.pane, this.pane.version.at - 1));
    id('later').addEventListener('click', () => this.setVersion(this.pane, this.pane.version.at + 1));
    id('both').addEventListener('click', () => this.setBoth(!this.both));
    id('fit').addEventListener('click', () => this.fit());
    id('dark').addEventListener('click', () => this.setDark(!this.dark));
    id('svg').addEventListener('click', () => this.save(new Blob([this.svg()], {type: 'image/svg+xml'}), 'svg'));
    id('png').addEventListener('click', () => this.pane.canvas.toBlob(b => this.save(b, 'png')));
    id('help').addEventListener('click', () => id('keys').showModal());
    const search = id('search');
    search.addEventListener('input', () => this.search(search.value));
    search.addEventListener('keydown', e => {
      if (e.key === 'Enter' && this.results && this.results.length) { this.reveal(this.pane, this.results[0]); search.blur(); this.pane.root.focus(); }
      if (e.key === 'Escape') { search.value = '', this.search(''), search.blur(); }
      e.stopPropagation();
    });
  }
  search(query) {
    const t0 = performance.now();
    this.query = query.trim();
    this.results = this.query ? this.pane.found().ids : null;
    fillPanel(this, this.pane);
    this.shown().forEach(p => p.redraw());
    this.searchMs = performance.now() - t0;
  }
  // The next result of the search, or the one before (by = -1), from the one that the panel shows.
  nextResult(by) {
    const p = this.pane, ids = p.found() ? p.found().ids : [];
    if (ids.length) this.reveal(p, ids[(Math.max(ids.indexOf(this.showing), by > 0 ? -1 : 0) + by + ids.length) % ids.length]);
  }
  setMode(m) { this.mode = m, document.getElementById('mode').value = m; this.shown().forEach(p => p.redraw()); fillPanel(this, this.pane); }
  setDark(on) { this.dark = on; document.documentElement.classList.toggle('dark', on); this.shown().forEach(p => p.flat && p.redraw()); }
  svg() {
    const p = this.pane, [w, h] = p.size(), {k, x, y} = p.view, out = new SvgPainter(w, h, THEMES[this.dark ? 'dark' : 'light'].back);
    out.transform(k, x, y);
    drawScene(out, p.version, p.flat, p.look(), k, -x / k, -y / k, (w - x) / k, (h - y) / k);
    return out.end();
  }
  save(blob, kind) {
    const a = el('a', {href: URL.createObjectURL(blob), download: (S[D.title - 1].replace(/[^\w.-]+/g, '_').slice(0, 80) || 'graph') + '.' + kind});
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10000);
  }

  // ---- keys
  step(pane, dx, dy) {
    const n = pane.selected;
    if (!n) return this.shift(pane, -60 * dx, -60 * dy);
    const cx = n.ax + n.w / 2, cy = n.ay + n.h / 2;
    let best = null, least = Infinity;
    for (const e of pane.flat.items) if (e.edge && dy) {
      const o = dy < 0 && e.edge.b === n ? e.edge.a : dy > 0 && e.edge.a === n ? e.edge.b : null;
      if (o && Math.abs(o.ax + o.w / 2 - cx) < least) best = o, least = Math.abs(o.ax + o.w / 2 - cx);
    }
    for (const o of best ? [] : pane.flat.nodes) {
      const x = o.ax + o.w / 2 - cx, y = o.ay + o.h / 2 - cy, along = x * dx + y * dy, across = Math.abs(x * dy) + Math.abs(y * dx);
      if (o !== n && along > 1 && along + 3 * across < least) best = o, least = along + 3 * across;
    }
    if (!best) return;
    this.select(pane, best);
    if (!pane.sees(best)) pane.center(best);
  }
  keydown(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|SELECT/.test(e.target.tagName) || document.getElementById('keys').open) return;
    const p = this.pane, [w, h] = p.size(), modes = [...document.getElementById('mode').options].map(o => o.value);
    const keys = {
      '/': () => document.getElementById('search').focus(), '?': () => document.getElementById('keys').showModal(),
      '[': () => this.setVersion(p, p.version.at - 1), ']': () => this.setVersion(p, p.version.at + 1),
      s: () => D.versions.length > 1 && this.setBoth(!this.both), d: () => this.setDark(!this.dark),
      c: () => this.setMode(modes[(modes.indexOf(this.mode) + 1) % modes.length]),
      m: () => { this.minimap = !this.minimap; this.shown().forEach(q => q.redraw()); },
      '0': () => this.fit(), n: () => this.nextResult(1), N: () => this.nextResult(-1), '+': () => p.zoom(1.25, w / 2, h / 2), '=': () => p.zoom(1.25, w / 2, h / 2), '-': () => p.zoom(0.8, w / 2, h / 2),
      Enter: () => this.toggle(p, p.selected), i: () => this.goInto(p, p.selected),
      Backspace: () => this.goOut(p), u: () => this.goOut(p), o: () => this.openAll(p), x: () => this.closeAll(p),
      Escape: () => this.select(p, null),
      ArrowUp: () => this.step(p, 0, -1), ArrowDown: () => this.step(p, 0, 1), ArrowLeft: () => this.step(p, -1, 0), ArrowRight: () => this.step(p, 1, 0),
    };
    if (keys[e.key]) e.preventDefault(), keys[e.key]();
  }
}
const app = new App();
window.app = app;
