// explorer_paint.js: drawing. One set of functions draws on a painter: a canvas for the screen, or
// one that writes SVG. Long texts are cut in the middle, where names differ least.
const FONT = 'system-ui, Helvetica, Arial, sans-serif';
const THEMES = {
  light: {back: '#ffffff', box: '#f5f7fa', box2: '#eceff4', line: '#90a4ae', edge: '#78909c', text: '#102027', dim: '#546e7a',
          select: '#d32f2f', operand: '#d32f2f', user: '#1976d2', none: '#eceff1', found: '#d500f9', onFound: '#ffffff'},
  dark: {back: '#14181d', box: '#1c222a', box2: '#232b35', line: '#546e7a', edge: '#78909c', text: '#eceff1', dim: '#90a4ae',
         select: '#ff8a80', operand: '#ff8a80', user: '#82b1ff', none: '#37424c', found: '#ea80fc', onFound: '#102027'},
};
// Green, yellow, blue and red as diff has them.
const CHANGE = {added: '#43a047', changed: '#f9a825', moved: '#1e88e5', removed: '#e53935'};
// Light to dark, also for those who do not tell red from green (ColorBrewer's YlOrRd).
const HEAT = ['#ffffcc', '#ffeda0', '#fed976', '#feb24c', '#fd8d3c', '#fc4e2a', '#e31a1c', '#bd0026', '#800026'];

const ruler = document.createElement('canvas').getContext('2d');
const widths = new Map();
function textWidth(s, size, bold) {
  const key = (bold ? 'b' : '') + s;
  let w = widths.get(key);
  if (w === undefined) {
    ruler.font = (bold ? 'bold ' : '') + '10px ' + FONT;
    w = ruler.measureText(s).width / 10;
    if (widths.size > 50000) widths.clear();
    widths.set(key, w);
  }
  return w * size;
}
function cutMiddle(s, most, size, bold) {
  if (textWidth(s, size, bold) <= most) return s;
  let lo = 0, hi = s.length;  // letters kept
  while (lo < hi) {
    const k = (lo + hi + 1) >> 1, head = Math.ceil(k / 2);
    if (textWidth(s.slice(0, head) + '…' + s.slice(s.length - (k - head)), size, bold) <= most) lo = k; else hi = k - 1;
  }
  const head = Math.ceil(lo / 2);
  return s.slice(0, head) + '…' + s.slice(s.length - (lo - head));
}

class CanvasPainter {
  constructor(c) { this.c = c; }
  rect(x, y, w, h, fill, line, width, radius, dash) {
    const c = this.c;
    c.beginPath();
    if (radius && c.roundRect) c.roundRect(x, y, w, h, radius); else c.rect(x, y, w, h);
    if (fill) c.fillStyle = fill, c.fill();
    if (line) c.setLineDash(dash ? [4, 3] : []), c.strokeStyle = line, c.lineWidth = width, c.stroke(), c.setLineDash([]);
  }
  spline(p, line, width, dash) {
    const c = this.c;
    c.beginPath();
    c.moveTo(p[0], p[1]);
    for (let k = 2; k + 5 < p.length + 0; k += 6) c.bezierCurveTo(p[k], p[k + 1], p[k + 2], p[k + 3], p[k + 4], p[k + 5]);
    c.setLineDash(dash ? [4, 4] : []);
    c.strokeStyle = line, c.lineWidth = width, c.stroke();
    c.setLineDash([]);
  }
  polygon(p, fill) {
    const c = this.c;
    c.beginPath();
    c.moveTo(p[0], p[1]);
    for (let k = 2; k < p.length; k += 2) c.lineTo(p[k], p[k + 1]);
    c.fillStyle = fill, c.fill();
  }
  text(s, x, y, size, color, bold, anchor) {
    const c = this.c;
    c.font = (bold ? 'bold ' : '') + size + 'px ' + FONT;
    c.fillStyle = color;
    c.textAlign = anchor || 'left';
    c.fillText(s, x, y);
  }
}

const escapeXml = s => String(s).replace(/[&<>"']/g, c => '&#' + c.charCodeAt(0) + ';');
class SvgPainter {
  constructor(w, h, back) {
    this.out = [`<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" font-family="Helvetica, Arial, sans-serif">`,
                `<rect width="${w}" height="${h}" fill="${back}"/>`];
  }
  transform(k, x, y) { this.out.push(`<g transform="translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${k.toFixed(4)})">`); this.open = true; }
  rect(x, y, w, h, fill, line, width, radius, dash) {
    this.out.push(`<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${w.toFixed(1)}" height="${h.toFixed(1)}" rx="${radius || 0}" fill="${fill || 'none'}"` +
                  (line ? ` stroke="${line}" stroke-width="${width}"` : '') + (dash ? ' stroke-dasharray="4 3"' : '') + '/>');
  }
  spline(p, line, width, dash) {
    let d = `M${p[0].toFixed(1)} ${p[1].toFixed(1)}`;
    for (let k = 2; k + 5 < p.length; k += 6) d += 'C' + [0, 1, 2, 3, 4, 5].map(j => p[k + j].toFixed(1)).join(' ');
    this.out.push(`<path d="${d}" fill="none" stroke="${line}" stroke-width="${width}"${dash ? ' stroke-dasharray="4 4"' : ''}/>`);
  }
  polygon(p, fill) { this.out.push(`<polygon points="${p.map(v => v.toFixed(1)).join(' ')}" fill="${fill}"/>`); }
  text(s, x, y, size, color, bold, anchor) {
    const at = anchor === 'right' ? ' text-anchor="end"' : anchor === 'center' ? ' text-anchor="middle"' : '';
    this.out.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" font-size="${size}" fill="${color}"${bold ? ' font-weight="bold"' : ''}${at}>${escapeXml(s)}</text>`);
  }
  end() { return this.out.join('\n') + (this.open ? '</g>' : '') + '</svg>\n'; }
}

// ---- what a box looks like ----------------------------------------------------------------------
// look: {theme, mode, most, state, memo, removed, selected, near, found}; found: what the search found
function paintOf(version, n, look) {
  const t = THEMES[look.theme];
  if (look.mode === 'changed') {
    const how = n.id !== undefined ? look.state.get(n.id) || (look.removed.has(n.id) ? 'removed' : '') : '';
    if (how) return [CHANGE[how], t.line, '#ffffff'];
    const inside = n.g !== undefined ? changedIn(version, n.g, look.state, look.memo) : changedAt(version, n.id, look.state, look.memo);
    return inside ? [look.theme === 'dark' ? '#5d4c1f' : '#fff3cd', t.line, t.text] : [t.none, t.line, t.text];
  }
  if (look.mode !== 'op') {
    const v = n.g !== undefined ? version.groupValue(n.g, look.mode) : version.value(n.id, look.mode);
    if (!v) return [t.none, t.line, t.dim];
    const k = Math.min(8, Math.max(0, Math.floor(9 * Math.pow(v / look.most, 0.4))));
    return [HEAT[k], t.line, k >= 5 ? '#ffffff' : '#102027'];
  }
  if (n.g !== undefined) return [t.box2, t.line, t.text];
  return version.color(n.id);
}

const KIND_OF_GROUP = ['', 'scope', 'part', 'parameters'];
// The texts of a box: name, second and third line.
function linesOf(version, n) {
  if (n.g !== undefined) {
    const g = groupOf(n.g);
    return [n.label, count(g.count, 'instruction'), g.kind === IS_PART ? rangeOf(version, g, n.w - 10) : ''];
  }
  const op = version.op(n.id), inside = version.inside(n.id);
  const folded = version.operands(n.id).filter(o => version.drawn(o) < 0 || isParameterAside(version, o));
  let third = folded.map(o => shortValue(version, o)).join(', ');
  if (n.hub) {
    const users = version.usersOf(n.id).length, operands = version.operands(n.id).length;
    third = (operands > 16 ? operands + ' operands ' : '') + (users > 16 ? users + ' users' : '');
  }
  return [(inside.length ? '▸ ' : '') + version.name(n.id), op + ' ' + version.text(n.id, 'shape').replace(/\/\*index=\d+\*\/| \.\.\. \(\d+ bytes more\)/g, ''), n.h >= 46 || n.hub ? third : ''];
}
function isParameterAside(version, id) {
  const home = (version.homes(), version.home[id]);
  return home >= 0 && groupOf(home).kind === IS_PARAMETERS;
}
function rangeOf(version, g, most) {
  const first = g.children[0], last = g.children[g.children.length - 1];
  const name = c => cutMiddle(isGroup(c) ? S[D.groups[c - GROUP][1]] || '…' : version.name(c), most / 2 - 10, 9.5, false);
  return name(first) + ' … ' + name(last);
}
// "0.5" of a constant whose text is short, else its name.
function shortValue(version, id) {
  if (version.op(id) === 'broadcast') id = version.operands(id)[0] ?? id;
  const m = / constant\(([^()]{1,24})\)/.exec(version.line(id));
  return version.op(id) === 'constant' && m ? m[1] : version.name(id);
}

function drawNode(p, version, n, look, scale) {
  const t = THEMES[look.theme], [fill, line, font] = paintOf(version, n, look);
  const x = n.ax, y = n.ay, w = n.w, h = n.h, selected = look.selected === n.key, group = n.g !== undefined;
  const near = n.id !== undefined && look.near.get(n.id);
  const how = n.id !== undefined && (look.state.get(n.id) || (look.removed.has(n.id) && 'removed'));
  const found = !look.found || n.inner ? 0 : group ? changedIn(version, n.g, look.found.drawn, look.found.memo) : changedAt(version, n.id, look.found.drawn, look.found.memo);
  const border = selected ? t.select : found ? t.found : near ? t[near] : how && look.mode !== 'changed' ? CHANGE[how] : line;
  const thick = selected || found ? 3 : near || how ? 2.2 : 1;
  if (n.inner) {
    const back = n.depth % 2 ? t.box2 : t.box;
    p.rect(x, y, w, h, back, border, Math.max(thick, 1), 6);
    if (scale * 12 >= 4) {
      const [name, second] = linesOf(version, n), title = '▾ ' + name.replace(/^▸ /, ''), used = textWidth(title, 12, true) + 14;
      p.text(cutMiddle(title, w - 20, 12, true), x + 10, y + 17, 12, t.text, true);
      if (w - 20 - used > 60) p.text(cutMiddle(second, w - 20 - used, 11, false), x + 10 + used, y + 17, 11, t.dim, false);
    }
    return;
  }
  if (group && scale * 3 >= 1) p.rect(x + 4, y + 4, w, h, fill, line, 1, 5);  // a pile: there is more below
  p.rect(x, y, w, h, fill, border, thick, group ? 5 : 3, version.op && !group && n.hub);
  if (scale * 11 < 4) return;
  const [name, second, third] = linesOf(version, n), most = w - 10, mid = x + w / 2;
  const rows = third ? 3 : 2, top = y + h / 2 - (rows - 1) * 7 + 4;
  p.text(cutMiddle(name, most, 11.5, true), mid, top, 11.5, font, true, 'center');
  if (scale * 10 < 4.5) return;
  p.text(cutMiddle(second, most, 10, false), mid, top + 13.5, 10, font, false, 'center');
  if (third) p.text(cutMiddle(third, most, 9.5, false), mid, top + 26, 9.5, font, false, 'center');
  const inside = look.count && (group ? changedIn(version, n.g, look.state, look.memo) : n.id !== undefined && version.inside(n.id).length ? changedAt(version, n.id, look.state, look.memo) : 0);
  if (inside) badge(p, '± ' + inside, x + w + 6, y, CHANGE.changed, '#102027');
  if (found && (group || version.inside(n.id).length)) badge(p, found + ' found', x + w + 6, y + h, t.found, t.onFound);
}
// A few words on the border of a box; they end at x.
function badge(p, s, x, y, fill, color) {
  const w = textWidth(s, 9, true) + 8;
  p.rect(x - w, y - 7, w, 14, fill, '', 0, 7);
  p.text(s, x - w / 2, y + 3.5, 9, color, true, 'center');
}

function drawEdge(p, item, look, scale) {
  const e = item.edge, t = THEMES[look.theme], key = look.selected;
  const line = key && e.b.key === key ? t.operand : key && e.a.key === key ? t.user : t.edge;
  const strong = line !== t.edge, q = item.p, n = q.length;
  p.spline(q, line, strong ? 2.2 : e.control ? 0.8 : 1, e.control);
  if (scale < 0.25) return;
  let dx = q[n - 2] - q[n - 4], dy = q[n - 1] - q[n - 3];
  const len = Math.hypot(dx, dy) || 1;
  dx /= len, dy /= len;
  const x = q[n - 2], y = q[n - 1], a = strong ? 8 : 6;
  p.polygon([x, y, x - a * dx - a / 2.4 * dy, y - a * dy + a / 2.4 * dx, x - a * dx + a / 2.4 * dy, y - a * dy - a / 2.4 * dx], line);
}

// All of a flattened scene that lies in the rectangle.
function drawScene(p, version, flat, look, scale, x0, y0, x1, y1) {
  for (const i of flat.items) {
    if (i.x1 < x0 - 10 || i.x0 > x1 + 10 || i.y1 < y0 - 10 || i.y0 > y1 + 10) continue;
    if (i.node) drawNode(p, version, i.node, look, scale);
    else if (i.edge) drawEdge(p, i, look, scale);
    else p.text(cutMiddle(i.title, i.x1 - i.x0, 11, true), i.x0, i.y0 + 11, 11, THEMES[look.theme].dim, true);
  }
  // Neighbours that no edge of the picture leads to: another level, or a hub.
  for (const o of look.overlay || []) p.spline(o.p, THEMES[look.theme][o.kind], 1.8, true);
}
