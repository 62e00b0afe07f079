// explorer_panel.js: the side panel. All text is set as text: names of a stranger's module are never
// markup. The panel asks the application (`app`) to go where a link leads.
function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) if (k === 'on') e.addEventListener('click', v); else e[k] = v;
  for (const c of children.flat()) if (c !== null && c !== undefined && c !== '') e.append(c);
  return e;
}
const heading = s => el('h3', {}, s);

function linkTo(app, pane, id) {
  const v = pane.version;
  return el('a', {on: () => app.reveal(pane, id), title: v.text(id, 'shape')}, v.name(id));
}
function listOf(items, most) {
  const ul = el('ul');
  let shown = 0;
  const more = () => {
    for (const end = Math.min(items.length, shown + most); shown < end; shown++) ul.append(el('li', {}, items[shown]()));
    if (shown < items.length) {
      const li = el('li', {}, el('a', {on: () => { li.remove(); more(); }}, `${(items.length - shown).toLocaleString('en')} more …`));
      ul.append(li);
    }
  };
  more();
  return ul;
}
function instrLine(app, pane, id) {
  const v = pane.version;
  return [linkTo(app, pane, id), ' ', el('small', {}, v.op(id) + ' ' + v.text(id, 'shape'))];
}

// "dimensions={1}, to_apply=add" behind the operands of an instruction's text.
function attributesOf(version, id) {
  const text = version.line(id), begin = text.indexOf(' ' + version.op(id) + '(');
  if (begin < 0) return [];
  let depth = 0, quoted = false, at = begin + version.op(id).length + 1;
  const out = [];
  let from = -1;
  for (; at < text.length; at++) {
    const c = text[at];
    if (quoted) { if (c === '\\') at++; else if (c === '"') quoted = false; continue; }
    if (c === '"') quoted = true;
    else if ('({['.includes(c)) depth++;
    else if (')}]'.includes(c)) { if (--depth === 0 && from < 0) from = at + 1; }
    else if (c === ',' && depth === 0 && from >= 0) out.push(text.slice(from, at).replace(/^[, ]+/, '')), from = at;
  }
  if (from >= 0) out.push(text.slice(from).replace(/^[, ]+/, ''));
  return out.filter(s => s).map(s => { const k = s.indexOf('='); return k < 0 ? [s, ''] : [s.slice(0, k), s.slice(k + 1)]; });
}

function figuresOf(version, value) {
  const rows = METRICS.map(m => [m, value(m)]).filter(([, x]) => x);
  if (!rows.length) return [];
  const t = el('table');
  for (const [m, x] of rows) {
    const origin = m === 'estimated' && D.device ? 'for ' + S[D.device - 1] : m === 'measured' ? 'a median' : '';
    t.append(el('tr', {}, el('td', {}, METRIC_NAMES[m]), el('td', {}, figure(m, x), ' ', el('small', {}, origin))));
  }
  return [heading('figures'), t];
}

function notesOf(app, pane, id) {
  const out = [];
  const version = pane.version, related = new Set([id, ...version.list(id, 'sources')]);
  for (const [step, instr, other, done, pass, text] of D.notes) {
    if (step > version.at || !(related.has(instr) || related.has(other))) continue;
    out.push(() => [el('small', {}, '@' + D.versions[step].number + ' ' + S[pass] + (done ? ': ' : ' (declined): ')), S[text]]);
  }
  return out.length ? [heading('why'), listOf(out, 30)] : [];
}

function provenanceOf(app, pane, id) {
  const v = pane.version, from = v.list(id, 'sources');
  if (!from.length) return [];
  const first = versionAt(0);
  const name = s => () => first.has(s) ? [el('a', {on: () => app.revealIn(pane, 0, s)}, first.name(s)), ' ', el('small', {}, first.op(s) + ' in version ' + D.versions[0].number)]
                                       : el('small', {}, 'an instruction of the loaded module');
  return [heading(from.length < D.most_sources ? 'made from' : 'made from these and others'), listOf(from.map(name), 20)];
}

function showInstr(app, pane, id, panel) {
  const v = pane.version, how = pane.changes.state.get(id) || (pane.removed.has(id) ? 'removed' : '');
  const table = el('table');
  const row = (k, x) => x && (x.length || x.nodeType) && table.append(el('tr', {}, el('td', {}, k), el('td', {}, x)));
  row('operation', v.op(id));
  row('shape', v.text(id, 'shape'));
  row('in', el('a', {on: () => app.goTo(pane, [{comp: I.comp[v.record[id]]}])}, v.compName(I.comp[v.record[id]])));
  row('op_name', v.text(id, 'opname'));
  row('source', v.text(id, 'place'));
  if (how) row('changed', el('span', {}, el('span', {className: 'tag', style: 'background:' + CHANGE[how]}), how));
  const called = new Set(v.list(id, 'called')), enter = c => el('a', {on: () => app.goTo(pane, [...pane.place, {via: id, comp: c}])}, v.compName(c) + (v.reducer(c) ? ' (' + v.reducer(c) + ')' : ''));
  for (const [k, x] of attributesOf(v, id)) {
    const c = [...called].find(c => v.compName(c) === x);
    row(k, c === undefined ? x : enter(c));
    called.delete(c);
  }
  for (const c of called) row('calls', enter(c));
  const operands = v.list(id, 'operands').filter(o => v.has(o)), users = v.usersOf(id), preds = v.list(id, 'preds').filter(o => v.has(o));
  panel.append(el('h2', {}, v.name(id)), el('pre', {}, v.line(id)), table, ...figuresOf(v, m => v.value(id, m)));
  if (operands.length) panel.append(heading('operands'), listOf(operands.map(o => () => instrLine(app, pane, o)), 40));
  if (users.length) panel.append(heading('users'), listOf(users.map(o => () => instrLine(app, pane, o)), 40));
  if (preds.length) panel.append(heading('after'), listOf(preds.map(o => () => instrLine(app, pane, o)), 40));
  panel.append(...provenanceOf(app, pane, id), ...notesOf(app, pane, id));
}

function showGroup(app, pane, node, panel) {
  const v = pane.version, g = groupOf(node.g);
  panel.append(el('h2', {}, node.label), el('div', {}, count(g.count, 'instruction') + (KIND_OF_GROUP[g.kind] ? ', a ' + KIND_OF_GROUP[g.kind] : '')));
  panel.append(el('p', {}, el('a', {on: () => app.toggle(pane, node)}, 'open or close'), ' · ', el('a', {on: () => app.goInto(pane, node)}, 'go into it')));
  panel.append(...figuresOf(v, m => v.groupValue(node.g, m)));
  const kinds = new Map(), stack = [node.g];
  while (stack.length) for (const c of groupOf(stack.pop()).children)
    if (isGroup(c)) stack.push(c - GROUP); else if (v.has(c)) kinds.set(v.op(c), (kinds.get(v.op(c)) || 0) + 1);
  const t = el('table');
  for (const [op, n] of [...kinds].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 24)) t.append(el('tr', {}, el('td', {}, op), el('td', {}, String(n))));
  panel.append(heading('operations'), t);
}

// Without a selection: the version, what it changed, and what is largest by the chosen figure.
function showVersion(app, pane, panel) {
  const v = pane.version, s = v.step;
  panel.append(el('h2', {}, '@' + s.number + ' ' + S[s.label]), el('div', {}, `${count(v.count, 'instruction')} in ${count(v.comp.size, 'computation')}`));
  const by = {added: [], changed: [], moved: []};
  for (const [id, how] of pane.changes.state) by[how].push(id);
  const since = pane.against !== null ? ' since @' + D.versions[pane.against].number : '';
  for (const how of ['added', 'changed', 'moved'])
    if (by[how].length) panel.append(heading(`${by[how].length} ${how}${since}`), listOf(by[how].map(id => () => [el('span', {className: 'tag', style: 'background:' + CHANGE[how]}), instrLine(app, pane, id)].flat()), 25));
  const gone = pane.changes.removed;
  if (gone && gone.size && pane.against !== null) {
    const old = versionAt(pane.against);
    panel.append(heading(`${gone.size} removed${since}`), listOf([...gone].map(id => () => [el('span', {className: 'tag', style: 'background:' + CHANGE.removed}), el('a', {on: () => app.revealIn(pane, pane.against, id)}, old.name(id)), ' ', el('small', {}, old.op(id))]), 25, 'removed'));
  }
  const m = METRICS.includes(app.mode) ? app.mode : METRICS[0];
  if (m && I[m]) {
    const ids = [];
    for (const k of v.record) if (k >= 0 && I[m][k]) ids.push(I.id[k]);
    ids.sort((a, b) => v.own(b, m) - v.own(a, m) || a - b);
    if (ids.length) panel.append(heading('most ' + METRIC_NAMES[m]), listOf(ids.slice(0, 200).map(id => () => [figure(m, v.own(id, m)), ' ', instrLine(app, pane, id)].flat()), 20));
  }
}

function showResults(app, pane, results, panel, ms) {
  panel.append(el('h2', {}, `${results.length.toLocaleString('en')} found`), el('div', {}, el('small', {}, `in version @${pane.version.step.number}; n and N go from one to the next`)));
  panel.append(listOf(results.map(id => () => instrLine(app, pane, id)), 100));
}

// "3 of 51 found" above an instruction that the search found, with ways to the others.
function showPlace(app, pane, id, panel) {
  const ids = pane.found() ? pane.found().ids : [], k = ids.indexOf(id);
  if (k < 0) return;
  panel.append(el('div', {className: 'found'}, el('a', {on: () => app.nextResult(-1), title: 'N'}, '‹ before'), ` ${(k + 1).toLocaleString('en')} of `,
                  el('a', {on: () => app.search(app.query), title: 'all of them'}, ids.length.toLocaleString('en') + ' found'), ' ', el('a', {on: () => app.nextResult(1), title: 'n'}, 'next ›')));
}

// id: of an instruction that has no box of its own.
function fillPanel(app, pane, id = -1) {
  const panel = document.getElementById('panel'), n = pane.selected;
  panel.replaceChildren();
  panel.scrollTop = 0;
  app.showing = id >= 0 ? id : n && n.g === undefined && pane.version.has(n.id) ? n.id : -1;
  if (app.results) showResults(app, pane, app.results, panel);
  else if (app.showing >= 0) showPlace(app, pane, app.showing, panel), showInstr(app, pane, app.showing, panel);
  else if (n && n.g !== undefined) showGroup(app, pane, n, panel);
  else showVersion(app, pane, panel);
}
