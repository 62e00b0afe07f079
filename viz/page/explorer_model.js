// explorer_model.js: the data of the page. Instructions and computations are columns: record k is
// the k-th entry of each, and stands for one id over the versions [from, to). Texts are numbers of
// strings, lists of ids numbers of lists. A group is a list of numbers (explore_model.h says which).
const D = JSON.parse(document.getElementById('data').textContent);
// Columns of ids and of numbers of texts, and lists of a version, are differences; in columns a run
// of equal ones is [difference, how many].
function summed(v) { for (let k = 1; k < v.length; k++) v[k] += v[k - 1]; }
function column(of, name) {
  const v = [];
  for (const d of of[name]) {
    if (typeof d === 'number') v.push(d);
    else for (let k = 0; k < d[1]; k++) v.push(d[0]);
  }
  summed(v);
  of[name] = v;
}
for (const name of ['id', 'comp', 'from', 'to', 'name', 'op', 'shape', 'text', 'opname', 'place', 'operands', 'called', 'preds', 'sources']) column(D.instrs, name);
for (const name of ['id', 'from', 'to', 'name', 'root', 'reducer']) column(D.comps, name);
for (const v of D.versions) for (const name of ['added', 'changed', 'moved', 'removed', 'pairs', 'groups']) summed(v[name]);
for (const l of D.layouts)  // points of edges too
  for (let v = l[4], at = 0; at < v.length; at += 1 + 2 * v[at])
    for (let k = 3; k <= 2 * v[at]; k++) v[at + k] += v[at + k - 2];
const S = D.strings, L = D.lists, I = D.instrs, C = D.comps;
const GROUP = 0x80000000, IS_PART = 2, IS_PARAMETERS = 3;
const METRICS = ['estimated', 'measured', 'flops', 'bytes', 'peak'].filter(m => I[m]);
const METRIC_NAMES = {estimated: 'estimated time', measured: 'measured time', flops: 'flops',
                      bytes: 'bytes', peak: 'memory at the peak'};

const groupCache = new Map();
function groupOf(g) {
  let x = groupCache.get(g);
  if (!x) {
    const v = D.groups[g], n = v[4];
    x = {g, kind: v[0], label: S[v[1]], count: v[2], layout: D.layouts[v[3]],
         children: v.slice(5, 5 + n), hubs: new Set(v.slice(6 + n, 6 + n + v[5 + n]))};
    groupCache.set(g, x);
  }
  return x;
}
const isGroup = child => child >= GROUP;

function span(columns, k, at) {
  return columns.from[k] <= at && (columns.to[k] < 0 || columns.to[k] > at);
}

// One version of the module: record numbers by id, and the trees of groups.
class Version {
  constructor(at) {
    this.at = at;
    this.step = D.versions[at];
    let most = 0;
    for (const id of I.id) if (id > most) most = id;
    this.record = new Int32Array(most + 1).fill(-1);
    this.count = 0;
    for (let k = 0; k < I.n; k++) if (span(I, k, at)) this.record[I.id[k]] = k, this.count++;
    this.comp = new Map();
    for (let k = 0; k < C.n; k++) if (span(C, k, at)) this.comp.set(C.id[k], k);
    this.tree = new Map();
    for (let s = 0; s <= at; s++) {
      const v = D.versions[s].groups;
      for (let k = 0; k < v.length; k += 2) this.tree.set(v[k], v[k + 1]);
    }
    for (const c of [...this.tree.keys()]) if (!this.comp.has(c)) this.tree.delete(c);
  }
  has(id) { return id >= 0 && id < this.record.length && this.record[id] >= 0; }
  text(id, column) { return S[I[column][this.record[id]]]; }
  name(id) { return this.text(id, 'name'); }
  // As `print` has it, without metadata and plain layouts.
  line(id) {
    const t = this.text(id, 'text');
    if (t && t[0] !== ',') return t;
    const operands = this.list(id, 'operands').map(o => this.has(o) ? this.name(o) : '?');
    return `${this.name(id)} = ${this.text(id, 'shape')} ${this.op(id)}(${operands.join(', ')})${t}`;
  }
  op(id) { return D.ops[I.op[this.record[id]]][0]; }
  color(id) { return D.palette[D.ops[I.op[this.record[id]]][1]]; }
  list(id, column) { return L[I[column][this.record[id]]]; }
  operands(id) { return this.list(id, 'operands').filter(o => this.has(o)); }
  own(id, metric) { return I[metric] ? I[metric][this.record[id]] : 0; }
  compName(c) { return this.comp.has(c) ? S[C.name[this.comp.get(c)]] : '?'; }
  reducer(c) { const k = this.comp.get(c); return k !== undefined && C.reducer[k] ? S[C.reducer[k] - 1] : ''; }
  // The computations that open inside of an instruction: all it calls but plain reducers.
  inside(id) { return this.list(id, 'called').filter(c => this.tree.has(c) && !this.reducer(c)); }

  // Users of each id, and callers of each computation, made when first asked for.
  links() {
    if (this.users) return;
    this.users = new Map(), this.callers = new Map();
    for (let id = 0; id < this.record.length; id++) {
      if (this.record[id] < 0) continue;
      const operands = this.list(id, 'operands');
      for (const o of operands.length > 1 ? new Set(operands) : operands) {
        const u = this.users.get(o);
        if (u) u.push(id); else this.users.set(o, [id]);
      }
      for (const c of this.list(id, 'called')) {
        const u = this.callers.get(c);
        if (u) u.push(id); else this.callers.set(c, [id]);
      }
    }
  }
  usersOf(id) { this.links(); return this.users.get(id) || []; }
  callersOf(c) { this.links(); return this.callers.get(c) || []; }

  // The group that holds an instruction, and the one that holds a group.
  homes() {
    if (this.home) return;
    this.home = new Int32Array(this.record.length).fill(-1), this.up = new Map();
    for (const top of this.tree.values()) {
      const stack = [top];
      while (stack.length) {
        const g = stack.pop();
        for (const c of groupOf(g).children)
          if (isGroup(c)) this.up.set(c - GROUP, g), stack.push(c - GROUP);
          else if (c < this.home.length) this.home[c] = g;
      }
    }
  }
  // Groups around an instruction or what it is drawn with, from the computation's on; null when it
  // is not drawn at all.
  chain(id) {
    this.homes();
    let g = this.home[id];
    if (g < 0) return null;
    const out = [g];
    while (this.up.has(g)) out.unshift(g = this.up.get(g));
    return out;
  }

  // What stands for an instruction in a picture: itself, or for an element of a tuple the tuple.
  drawn(id) {
    this.homes();
    for (let guard = 0; guard < 100 && this.has(id); guard++) {
      if (this.home[id] >= 0) return id;
      if (this.op(id) !== 'get-tuple-element') return -1;
      id = this.operands(id)[0];
    }
    return -1;
  }

  // What is drawn for an instruction that has no box: for a constant the first of its users. -1: nothing.
  standsFor(id) {
    const d = this.drawn(id);
    return d >= 0 ? d : this.usersOf(id).map(u => this.drawn(u)).find(u => u >= 0) ?? -1;
  }

  // A figure of an instruction: its own, or that of the computations in it; of a group: the sum.
  value(id, metric) {
    const own = this.own(id, metric);
    if (own) return own;
    let sum = 0;
    for (const c of this.list(id, 'called')) if (this.tree.has(c)) sum += this.groupValue(this.tree.get(c), metric);
    return sum;
  }
  groupValue(g, metric) {
    const memo = (this.sums ||= new Map()), key = metric + g;
    if (memo.has(key)) return memo.get(key);
    memo.set(key, 0);  // a computation that calls itself
    let sum = 0;
    for (const c of groupOf(g).children)
      sum += isGroup(c) ? this.groupValue(c - GROUP, metric) : this.has(c) ? this.value(c, metric) : 0;
    memo.set(key, sum);
    return sum;
  }
  largest(metric) {  // of one instruction
    let most = 0;
    for (const k of this.record) if (k >= 0 && I[metric][k] > most) most = I[metric][k];
    return most;
  }
}

const versionCache = new Map();
function versionAt(at) {
  if (!versionCache.has(at)) {
    if (versionCache.size > 8) versionCache.delete(versionCache.keys().next().value);
    versionCache.set(at, new Version(at));
  }
  return versionCache.get(at);
}

// ---- what changed -------------------------------------------------------------------------------
// From version a to a later one b: how each id of b differs (added, changed, moved), which id of a
// it was, and the ids of a that are gone.
const diffCache = new Map();
function changesBetween(a, b) {
  const key = a + '>' + b;
  if (diffCache.has(key)) return diffCache.get(key);
  const now = versionAt(b), before = versionAt(a);
  const state = new Map(), was = new Map(), steps = [];
  for (let s = b; s > a; s--) {
    const v = D.versions[s], back = new Map();
    for (let k = 0; k < v.pairs.length; k += 2) back.set(v.pairs[k + 1], v.pairs[k]);
    steps.push({added: new Set(v.added), changed: new Set(v.changed), moved: new Set(v.moved), back});
  }
  const met = new Set();
  for (let id = 0; id < now.record.length; id++) {
    if (now.record[id] < 0) continue;
    let cur = id, how = '';
    for (const s of steps) {
      if (s.added.has(cur)) { how = 'added', cur = -1; break; }
      if (s.changed.has(cur)) how = 'changed';
      else if (!how && s.moved.has(cur)) how = 'moved';
      const x = s.back.get(cur);
      if (x !== undefined) cur = x;
    }
    if (how) state.set(id, how);
    if (cur >= 0) was.set(id, cur), met.add(cur);
  }
  const removed = [];
  for (let id = 0; id < before.record.length; id++)
    if (before.record[id] >= 0 && !met.has(id)) removed.push(id);
  const out = {state, was, removed: new Set(removed)};
  if (diffCache.size > 64) diffCache.clear();
  diffCache.set(key, out);
  return out;
}
// How many instructions of a group changed, by the states of a comparison.
function changedIn(version, g, state, memo) {
  if (memo.has(g)) return memo.get(g);
  memo.set(g, 0);
  let n = 0;
  for (const c of groupOf(g).children) n += isGroup(c) ? changedIn(version, c - GROUP, state, memo) : changedAt(version, c, state, memo);
  memo.set(g, n);
  return n;
}
function changedAt(version, id, state, memo) {
  let n = state.has(id) ? 1 : 0;
  if (version.has(id)) for (const c of version.list(id, 'called'))
    if (version.tree.has(c)) n += changedIn(version, version.tree.get(c), state, memo);
  return n;
}

// ---- search -------------------------------------------------------------------------------------
// Words that all must occur in name, operation, shape, op_name or source line; op:, name:, shape:,
// scope:, src: look into one of them.
const FIELDS = {name: 'name', op: 'op', shape: 'shape', scope: 'opname', src: 'place'};
const haystacks = new Map();  // by record
function haystack(k) {
  let h = haystacks.get(k);
  if (h === undefined) {
    h = (S[I.name[k]] + '\n' + D.ops[I.op[k]][0] + '\n' + S[I.shape[k]] + '\n' + S[I.opname[k]] + '\n' + S[I.place[k]]).toLowerCase();
    haystacks.set(k, h);
  }
  return h;
}
function search(version, query) {
  const words = query.toLowerCase().split(/\s+/).filter(w => w).map(w => {
    const m = /^(name|op|shape|scope|src):(.+)$/.exec(w);
    return m ? [FIELDS[m[1]], m[2]] : ['', w];
  });
  const out = [];
  if (!words.length) return out;
  for (const k of version.record) {
    if (k < 0) continue;
    const ok = words.every(([field, w]) =>
      field === '' ? haystack(k).includes(w)
      : field === 'op' ? D.ops[I.op[k]][0] === w || (w.length > 2 && D.ops[I.op[k]][0].startsWith(w))
      : S[I[field][k]].toLowerCase().includes(w));
    if (ok) out.push(I.id[k]);
  }
  const exact = query.trim().toLowerCase();
  const rank = id => { const n = version.name(id).toLowerCase(); return n === exact ? 0 : n.startsWith(exact) ? 1 : 2; };
  return out.length > 5000 ? out : out.map(id => [rank(id), id]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(x => x[1]);
}

// ---- numbers for people -------------------------------------------------------------------------
const count = (n, what) => n.toLocaleString('en') + ' ' + what + (n === 1 ? '' : 's');
function scaled(v, unit, step, prefixes) {
  let k = 0;
  while (v >= step && k < prefixes.length - 1) v /= step, k++;
  return (v >= 100 || Number.isInteger(v) ? v.toFixed(0) : v.toPrecision(3)) + ' ' + prefixes[k] + unit;
}
function figure(metric, v) {
  if (metric === 'flops') return scaled(v, 'FLOP', 1000, ['', 'k', 'M', 'G', 'T', 'P']);
  if (metric === 'bytes' || metric === 'peak') return scaled(v, 'B', 1000, ['', 'k', 'M', 'G', 'T', 'P']);
  return v >= 1 ? (v >= 100 ? v.toFixed(0) : v.toPrecision(3)) + ' s' : v >= 1e-3 ? (v * 1e3).toPrecision(3) + ' ms'
       : v >= 1e-6 ? (v * 1e6).toPrecision(3) + ' µs' : (v * 1e9).toPrecision(3) + ' ns';
}
