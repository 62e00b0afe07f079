#!/usr/bin/env python3
"""The explorer's page in a headless Chromium: what it shows, what it does, how fast it is.

    explorer.py HLOSH [--module FILE] [--shots DIR] [--scale X]

Without --module: small modules, what every key and button does, and names that would like to be
markup. With it: that file as it is, with a version for every pass of its pipeline, against the
times of docs/EXPLORER.md (times X on a slow machine). --shots keeps pictures. Exit 77 without a
browser."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402

FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
failures = 0


def check(what, ok, found=""):
    global failures
    if not ok:
        failures += 1
    print("%s %s%s" % ("ok  " if ok else "FAIL", what, "" if found == "" else ": " + str(found)))


def write(hlosh, text, page, commands):
    """A page of the module `text` (HLO), after the commands."""
    with tempfile.NamedTemporaryFile("w", suffix=".hlo", delete=False) as f:
        f.write(text)
    try:
        run(hlosh, f.name, page, commands)
    finally:
        os.unlink(f.name)


def run(hlosh, module, page, commands):
    line = "; ".join(commands + ["explore -o " + page])
    r = subprocess.run([hlosh, "--no-rc", module, "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if r.returncode:
        sys.exit("FAIL %s: %s" % (line, r.stdout.decode(errors="replace")[-400:]))


def layers(n, each):
    """A module of n scopes with `each` instructions, and a loop."""
    out = ["HloModule layers",
           "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }",
           "body { s = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(s), index=0 v = f32[8] get-tuple-element(s), index=1",
           "  one = s32[] constant(1) j = s32[] add(i, one) w = f32[8] negate(v) ROOT t = (s32[], f32[8]) tuple(j, w) }",
           "cond { s = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT c = pred[] compare(i, n), direction=LT }",
           "ENTRY main {", "  x = f32[8] parameter(0)"]
    last = "x"
    for k in range(n):
        for j in range(each):
            op = ("sine", "cosine", "negate", "tanh")[j % 4]
            out.append('  l%d_%d = f32[8] %s(%s), metadata={op_name="jit(f)/model/layer_%d/attn/%s" source_file="model.py" source_line=%d}'
                       % (k, j, op, last, k, op, 10 + j))
            last = "l%d_%d" % (k, j)
    out += ["  zero = s32[] constant(0)", "  init = (s32[], f32[8]) tuple(zero, %s)" % last,
            "  loop = (s32[], f32[8]) while(init), condition=cond, body=body",
            "  out = f32[8] get-tuple-element(loop), index=1", "  z = f32[] constant(0)",
            "  ROOT sum = f32[] reduce(out, z), dimensions={0}, to_apply=add", "}"]
    return "\n".join(out)


def frames(b):
    b.eval(FRAMES)


def behaviour(b, hlosh, folder, shots):
    page = os.path.join(folder, "small.html")
    write(hlosh, layers(4, 30), page, ["pass algsimp", "pass fusion", "pass dce"])
    b.load(page)
    shot(b, shots, "124-instructions")
    nodes = "app.pane.flat.nodes.map(n => n.label || app.pane.version.name(n.id))"
    check("opens at the last version", b.eval("app.pane.version.step.current"))
    b.eval("app.setVersion(app.pane, 0)")
    fits = "[app.pane.fitted, app.pane.whole(), app.pane.map.hidden]"
    frames(b)
    check("another version is shown whole too, and needs no minimap", b.eval(fits) == [True, True, True], b.eval(fits))
    check("the entry shows the layers, the loop and no constant",
          b.eval(nodes) == ["x", "jit(f)/model/layer_0/attn", "jit(f)/model/layer_1/attn", "jit(f)/model/layer_2/attn",
                            "jit(f)/model/layer_3/attn", "init", "loop", "sum"], b.eval(nodes))
    # a double click opens, in place
    box = b.eval("(() => { const p = app.pane, n = p.flat.nodes[1]; return [n.ax + n.w / 2, n.ay + n.h / 2].map((c, k) => c * p.view.k + (k ? p.view.y : p.view.x)).concat([p.canvas.getBoundingClientRect().left, p.canvas.getBoundingClientRect().top]) })()")
    x, y = box[0] + box[2], box[1] + box[3]
    b.click(x, y), frames(b)
    check("a click selects", b.eval("app.pane.selected && app.pane.selected.label") == "jit(f)/model/layer_0/attn")
    b.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=2)
    b.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=2)
    frames(b)
    check("a double click opens in place", b.eval("app.pane.flat.nodes.length") == 38, b.eval("app.pane.flat.nodes.length"))
    check("nothing overlaps", b.eval("""(() => { const walk = s => s.nodes.every((a, k) => s.nodes.every((b, j) => j >= k ||
        a.x + a.w <= b.x + .1 || b.x + b.w <= a.x + .1 || a.y + a.h <= b.y + .1 || b.y + b.h <= a.y + .1)
        && (!a.inner || a.inner.parts.every(p => walk(p.scene)))); return walk(app.pane.scene) })()"""))
    check("edges touch their boxes", b.eval("""(() => { const on = (x, y, n) => x >= n.ax - 6 && x <= n.ax + n.w + 6 && y >= n.ay - 6 && y <= n.ay + n.h + 6;
        return app.pane.flat.items.every(i => !i.edge || (on(i.p[0], i.p[1], i.edge.a) && on(i.p[i.p.length - 2], i.p[i.p.length - 1], i.edge.b))) })()"""))
    shot(b, shots, "opened")
    b.eval("app.toggle(app.pane, app.pane.flat.nodes.find(n => n.id !== undefined && app.pane.version.name(n.id) === 'loop'))")
    check("a loop opens to its two computations", b.eval("app.pane.flat.items.filter(i => i.title).map(i => i.title).sort()") == ["body", "cond"])
    b.eval("app.closeAll(app.pane), app.pane.zoom(3, 100, 100), app.pane.zoom(1 / 2, 0, 0)"), frames(b)
    seen = b.eval("({...app.pane.view})")
    b.eval("app.setVersion(app.pane, 1), app.setVersion(app.pane, 0)")
    check("what was moved stays as it was moved, over versions", b.eval("({...app.pane.view})") == seen and not b.eval("app.pane.fitted"))
    b.key("0"), frames(b)
    # search
    b.eval("document.getElementById('search').focus()")
    b.call("Input.insertText", text="op:tanh layer_2"), frames(b)
    check("search: operation and scope", b.eval("app.results.length") == 7, b.eval("app.results && app.results.length"))
    b.key("Enter"), frames(b)
    check("Enter goes into the group", b.eval("app.pane.place.map(c => c.label).filter(x => x)") == ["jit(f)/model/layer_2/attn"])
    check("no emptiness beside what is found", b.eval("app.pane.view.y + app.pane.view.k * app.pane.scene.h <= app.pane.size()[1] || app.pane.view.y <= 41"))
    check("the panel says which result it is", b.eval("document.querySelector('#panel .found').textContent") == "‹ before 1 of 7 found next ›", b.eval("document.querySelector('#panel .found').textContent"))
    b.key("n"), b.key("n"), frames(b)
    check("n is the next result", b.eval("document.querySelector('#panel h2').textContent") == "l2_11", b.eval("document.querySelector('#panel h2').textContent"))
    b.key("N"), b.key("N"), b.key("N"), frames(b)
    check("N the one before, around the end", "7 of 7" in b.eval("document.querySelector('#panel .found').textContent"))
    b.key("N"), b.key("N"), b.key("N"), b.key("N"), b.key("N"), b.key("N"), frames(b)
    framed = "(() => { const f = app.pane.look().found, v = app.pane.version; return app.pane.flat.nodes.map(n => n.g !== undefined ? changedIn(v, n.g, f.drawn, f.memo) : changedAt(v, n.id, f.drawn, f.memo)) })()"
    check("what is found has a frame", sum(b.eval(framed)) == 7, b.eval(framed))
    check("the panel has the text", "tanh(" in b.eval("document.querySelector('#panel pre').textContent"))
    check("the panel has the source line", "model.py:13" in b.eval("document.getElementById('panel').textContent"))
    for query, n in (("src:model.py:12", 4), ("shape:s32", 11), ("l3_29", 1), ("nothing_like_it", 0)):
        found = b.eval("search(app.pane.version, %s).length" % json.dumps(query))
        check("search: " + query, found == n, found)
    b.eval("document.getElementById('search').blur()")
    # keys
    b.key("u"), frames(b)
    check("u goes out", b.eval("app.pane.place.length") == 1)
    check("a closed group counts what is found in it", b.eval(framed) == [0, 0, 0, 7, 0, 0, 0, 0], b.eval(framed))
    shot(b, shots, "found")
    b.eval("app.search('')"), frames(b)
    check("an empty search finds nothing", b.eval("app.pane.look().found") is None)
    b.key("]"), frames(b)
    check("] is the next version", b.eval("app.pane.version.at") == 1)
    b.key("s"), frames(b)
    check("s shows two versions", b.eval("app.shown().map(p => p.version.at)") == [0, 1], b.eval("app.shown().map(p => p.version.at)"))
    shot(b, shots, "side-by-side")
    moved = "app.shown().map(p => [Math.round(p.view.x), Math.round(p.view.y), p.view.k.toPrecision(4)])"
    was = b.eval(moved)
    b.eval("app.shift(app.pane, 30, -20)"), frames(b)
    check("the other pane moves by as much", b.eval(moved) == [[x + 30, y - 20, k] for x, y, k in was], b.eval(moved))
    b.key("s"), b.key("d"), b.key("c"), frames(b)
    check("d and c: dark, by the next figure", b.eval("document.documentElement.classList.contains('dark') && app.mode") == "estimated")
    shot(b, shots, "dark")
    b.key("o"), frames(b)
    check("o opens all", b.eval("app.pane.flat.nodes.length") > 20)
    b.key("x"), frames(b)
    # what changed: the pass that fused
    last = b.eval("D.versions.length - 1")
    fused = [k for k in range(last + 1) if b.eval("app.setVersion(app.pane, %d), S[D.versions[%d].label]" % (k, k)) == "pass fusion"]
    if fused:
        b.eval("app.setVersion(app.pane, %d)" % fused[0])
        check("fusion: instructions have moved, the fusion is new", b.eval("[...app.pane.changes.state.values()].filter(x => x === 'moved').length") > 10)
        check("the panel says why", "fusion" in b.eval("(() => { const v = app.pane.version; const id = v.record.findIndex((r, id) => r >= 0 && v.op(id) === 'fusion'); app.reveal(app.pane, id); return document.getElementById('panel').textContent })()"))
    svg = b.eval("app.svg()")
    check("SVG of what is shown", svg.startswith("<svg") and svg.rstrip().endswith("</svg>") and "<text" in svg)
    import xml.dom.minidom
    xml.dom.minidom.parseString(svg.encode())
    check("PNG of what is shown", b.eval("new Promise(r => app.pane.canvas.toBlob(x => x.arrayBuffer().then(a => r([...new Uint8Array(a).slice(1, 4)]))))") == [80, 78, 71])
    check("nothing thrown, nothing fetched", not b.complaints(), b.complaints() or "")


def measured(b, hlosh, folder):
    page = os.path.join(folder, "measured.html")
    r = subprocess.run([hlosh, "--no-rc", "-c", "example mlp; pass fusion; profile --seconds=0.1; explore -o " + page], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
    if r.returncode:
        print("SKIP measured times: " + r.stdout.decode(errors="replace").strip().split("\n")[-1])
        return
    b.load(page)
    check("measured times of the version that was profiled", b.eval("[METRICS.includes('measured'), D.versions.map(v => v.measured).join()]") == [True, "false,true"])
    b.eval("app.setMode('measured')"), frames(b)
    check("and a legend with their unit", b.eval("app.pane.legend.textContent").startswith("measured time 0") and b.eval("app.pane.legend.textContent").rstrip("addechangmov ").endswith("s"), b.eval("app.pane.legend.textContent"))


def strangers(b, hlosh, folder):
    page = os.path.join(folder, "hostile.html")
    bad = "</script><img src=x onerror=hacked=1>"
    text = "\n".join(["HloModule m", 'ENTRY e { x = f32[2] parameter(0), metadata={op_name="%s/a%%s\u202e" source_file="%s"}' % (bad, bad),
                      '  ROOT c = f32[2] custom-call(x), custom_call_target="%s", metadata={op_name="${hacked=1}`"} }' % bad])
    write(hlosh, text, page, [])
    b.load(page)
    b.eval("app.reveal(app.pane, app.pane.version.record.findIndex((r, id) => r >= 0 && app.pane.version.op(id) === 'custom-call'))")
    b.eval("app.search('img')"), frames(b)
    check("hostile names stay text", b.eval("typeof hacked") == "undefined" and b.eval("document.images.length") == 0)
    check("and are shown", bad in b.eval("D.strings.join(' ')"))
    b.eval("document.getElementById('svg')")
    import xml.dom.minidom
    xml.dom.minidom.parseString(b.eval("app.svg()").encode())
    check("nothing thrown, nothing fetched", not b.complaints(), b.complaints() or "")


def bar(b, hlosh, module, folder, shots, scale):
    plain, steps = os.path.join(folder, "plain.html"), os.path.join(folder, "steps.html")
    name = os.path.basename(module)[:24]
    for page, commands in ((plain, []), (steps, ["continue", "next 60 --pipeline=cpu"])):
        run(hlosh, module, page, commands)
        size = os.path.getsize(page)
        check("%s: %.1f MB, at most 25" % (name, size / 1e6), size <= 25e6)
        ms = b.load(page)
        n = b.eval("app.pane.version.count")
        check("%d instructions, %d versions: loaded in %.0f ms, at most 3000" % (n, b.eval("D.versions.length"), ms), ms <= 3000 * scale)
        shot(b, shots, "%s-%d" % (name, n))
        opened = []
        for _ in range(12):  # the largest group that is closed, deeper and deeper
            more = b.eval("""(() => { const v = app.pane.version, can = app.pane.flat.nodes.filter(n => !n.inner && app.canOpen(app.pane, n));
                const size = n => n.g !== undefined ? groupOf(n.g).count : 1; can.sort((a, b) => size(b) - size(a));
                if (!can.length) return -1; app.toggle(app.pane, can[0]); return app.openMs })()""")
            if more < 0:
                break
            opened.append(more)
        check("opens a group in %.0f ms, at most 200 (%d opened)" % (max(opened), len(opened)), max(opened) <= 200 * scale)
        shot(b, shots, "%s-%d-opened" % (name, n))
        b.eval("app.closeAll(app.pane)")
        found = [(b.eval("app.search(%s), app.searchMs" % json.dumps(q)), b.eval("app.results ? app.results.length : 0"), q) for q in ("dot", "fusion add", "shape:f32[", "op:tuple", "zzz")]
        worst = max(found)
        check("searches in %.0f ms, at most 100 (%s: %d found)" % (worst[0], worst[2], worst[1]), worst[0] <= 100 * scale)
        count = b.eval("D.versions.length")
        if count > 1:
            times = [b.eval("app.setVersion(app.pane, %d), app.stepMs" % k) for k in range(count)]
            check("slides over %d versions, each within %.0f ms, at most 500" % (count, max(times)), max(times) <= 500 * scale)
        check("nothing thrown, nothing fetched", not b.complaints(), b.complaints() or "")


def shot(b, shots, name):
    if shots:
        os.makedirs(shots, exist_ok=True)
        frames(b)
        b.screenshot(os.path.join(shots, name + ".png"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hlosh")
    p.add_argument("--module")
    p.add_argument("--shots")
    p.add_argument("--scale", type=float, default=1)
    a = p.parse_args()
    if not Browser.find():
        print("no chromium; scripts/deps.sh --install chromium fetches it")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        b = Browser()
        try:
            if a.module:
                bar(b, a.hlosh, a.module, folder, a.shots, a.scale)
            else:
                behaviour(b, a.hlosh, folder, a.shots)
                measured(b, a.hlosh, folder)
                strangers(b, a.hlosh, folder)
        finally:
            b.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
