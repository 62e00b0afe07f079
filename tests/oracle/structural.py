"""Structural operations: one case for every (operation, element type, shape class), with results by NumPy.

A case is named OPCODE/TYPE/CLASS. NONE below lists what has no case here and why; the driver's --complete holds cases,
elementwise lists and NONE against core/types/ops.def x core/types/dtype.def x CLASSES, and names every triple that nobody has spoken
for, and every one that NONE excuses though it has a case. Data movement keeps all bits of the special values (NaN, Inf,
-0, denormals); arithmetic is on values whose results are exact in the type, whatever the order of the sums.
"""
import itertools

import numpy as np

import elementwise as ew

CLASSES = {
    "scalar": (), "empty": (0,), "one": (1,), "rank1": (7,), "rank2": (3, 5), "empty3": (2, 0, 3), "rank3": (2, 3, 5),
    "rank4": (1, 3, 1, 2), "rank5": (2, 1, 2, 1, 3), "rank6": (1, 2, 1, 3, 1, 2),
}
INTS, FLOATS, COMPLEX = list(ew.INTS), list(ew.FLOATS), list(ew.COMPLEX)
TYPES = ["pred"] + INTS + FLOATS + COMPLEX
WIDE = ["f16", "bf16", "f32", "f64"]
NO_ZERO = ["f8e8m0fnu"]
OUT = []


# ---- writing ------------------------------------------------------------------------------------------------------------
def ty(t, shape):
    return "%s[%s]" % (t, ",".join(map(str, shape)))


def braces(v):
    return "{%s}" % ",".join(map(str, v))


def case(op, t, cls, args, root, outs, extra="", tol="k="):
    """root: the instructions after the parameters a, b, ...; args and outs: pairs (type, array)."""
    OUT.append("hlo %s/%s/%s %s" % (op, t, cls, tol))
    OUT.append("| HloModule m")
    rows = ["%s = %s parameter(%d)" % ("abcdefgh"[k], ty(at, x.shape), k) for k, (at, x) in enumerate(args)]
    OUT.extend("| " + row for row in (extra + "ENTRY e {\n" + "\n".join(rows + [root]) + "\n}").splitlines() if row)
    for kind, values in (("arg", args), ("out", outs)):
        for vt, x in values:
            assert x.dtype == ew.np_of(vt), (op, t, cls, x.dtype, vt)
            OUT.append("%s %s %s" % (kind, ty(vt, x.shape), np.ascontiguousarray(x).tobytes().hex()))


def tuple_of(*rows):
    """Instructions whose tuple is the result: pairs (shape text, right-hand side)."""
    lines = ["r%d = %s %s" % (k, s, rhs) for k, (s, rhs) in enumerate(rows)]
    lines.append("ROOT r = (%s) tuple(%s)" % (", ".join(s for s, _ in rows), ", ".join("r%d" % k for k in range(len(rows)))))
    return "\n".join(lines)


# ---- values -------------------------------------------------------------------------------------------------------------
def fill(t, shape, start=0, nan=True):
    """The edges of the type in turn, from the start-th."""
    v = ew.samples(t)
    if not nan:
        v = v[~np.isnan(v.astype(np.complex128 if t in COMPLEX else np.float64))] if t in FLOATS + COMPLEX else v
    n = int(np.prod(shape, dtype=np.int64))
    return v[(start + np.arange(n)) % len(v)].reshape(shape)


def few(t, shape, start=0):
    """Zeros and a one in every third place: sums of a handful stay exact in every type that has a zero."""
    n = int(np.prod(shape, dtype=np.int64))
    return (((start + np.arange(n)) % 3) == 0).astype(np.float32).astype(ew.np_of(t)).reshape(shape)


def of(t, x):
    if t in INTS:
        return np.array([ew.wrap(t, int(v)) for v in np.asarray(x).ravel()], ew.np_of(t)).reshape(np.shape(x))
    return np.asarray(x).astype(ew.np_of(t))


def up(t, x):
    return x.astype(np.complex128) if t in COMPLEX else x.astype(np.int64) if t in INTS or t == "pred" else x.astype(np.float64)


def s32(*v):
    return np.array(v, np.int32)


def take_second(t):
    return "f {\np = %s[] parameter(0)\nROOT q = %s[] parameter(1)\n}\n" % (t, t)


def binary(t, op, name="f"):
    return "%s {\np = %s[] parameter(0)\nq = %s[] parameter(1)\nROOT s = %s[] %s(p, q)\n}\n" % (name, t, t, t, op)


# ---- data movement: every type ----------------------------------------------------------------------------------------------
def broadcast(t, cls, shape):
    x, r = fill(t, shape), len(shape)
    want = np.broadcast_to(x.reshape((1,) + shape + (1,)), (2,) + shape + (3,))
    case("broadcast", t, cls, [(t, x)], "ROOT r = %s broadcast(a), dimensions=%s" % (ty(t, want.shape), braces(range(1, r + 1))), [(t, want)])


def reshape(t, cls, shape):
    x = fill(t, shape, 3)
    there = shape[::-1] if len(shape) > 1 else (1,) + shape + (1, 1)
    flat = (x.size,)
    case("reshape", t, cls, [(t, x)], tuple_of((ty(t, there), "reshape(a)"), (ty(t, flat), "reshape(a)")), [(t, x.reshape(there)), (t, x.reshape(flat))])


def transpose(t, cls, shape):
    x, r = fill(t, shape, 5), len(shape)
    perms = [tuple(range(r))[::-1], tuple(range(1, r)) + ((0,) if r else ())]
    outs = [np.transpose(x, p) for p in perms]
    case("transpose", t, cls, [(t, x)], tuple_of(*((ty(t, y.shape), "transpose(a), dimensions=" + braces(p)) for y, p in zip(outs, perms))), [(t, y) for y in outs])


def reverse(t, cls, shape):
    x, r = fill(t, shape, 7), len(shape)
    sets = [tuple(range(0, r, 2)), tuple(range(r))]
    case("reverse", t, cls, [(t, x)], tuple_of(*((ty(t, shape), "reverse(a), dimensions=" + braces(d)) for d in sets)), [(t, np.flip(x, d)) for d in sets])


def slices(t, cls, shape):
    x = fill(t, shape, 2)
    cuts = [(1 if d > 1 else 0, d, 2) for d in shape], [(0, max(d - 1, 0), 1) for d in shape]
    outs = [x[tuple(slice(*c) for c in cut)] for cut in cuts]
    text = ["slice(a), slice={%s}" % ", ".join("[%d:%d:%d]" % c for c in cut) for cut in cuts]
    case("slice", t, cls, [(t, x)], tuple_of(*((ty(t, y.shape), s) for y, s in zip(outs, text))), [(t, y) for y in outs])


def starts(shape, sizes):
    """Start indices, some outside, and where they come to lie."""
    raw = [(-3, 9, 1)[k % 3] for k in range(len(shape))]
    return raw, [min(max(s, 0), d - n) for s, d, n in zip(raw, shape, sizes)]


def dynamic_slice(t, cls, shape):
    x = fill(t, shape, 4)
    sizes = [max(d - 1, min(d, 1)) for d in shape]
    raw, at = starts(shape, sizes)
    want = x[tuple(slice(s, s + n) for s, n in zip(at, sizes))]
    case("dynamic-slice", t, cls, [(t, x)] + [("s32", s32(s).reshape(())) for s in raw],
         "ROOT r = %s dynamic-slice(%s), dynamic_slice_sizes=%s" % (ty(t, want.shape), ", ".join("abcdefgh"[:1 + len(raw)]), braces(sizes)), [(t, want)])


def dynamic_update_slice(t, cls, shape):
    x = fill(t, shape, 4)
    sizes = tuple(max(d - 1, min(d, 1)) for d in shape)
    raw, at = starts(shape, sizes)
    u, want = fill(t, sizes, 11), x.copy()
    want[tuple(slice(s, s + n) for s, n in zip(at, sizes))] = u
    case("dynamic-update-slice", t, cls, [(t, x), (t, u)] + [("s32", s32(s).reshape(())) for s in raw],
         "ROOT r = %s dynamic-update-slice(%s)" % (ty(t, shape), ", ".join("abcdefgh"[:2 + len(raw)])), [(t, want)])


def padded(x, value, edges):
    """XLA's pad: interior first, then the edges, which cut where they are negative."""
    for k, (lo, hi, inner) in enumerate(edges):
        d = x.shape[k]
        size = d + max(d - 1, 0) * inner + lo + hi
        y = np.full(x.shape[:k] + (size,) + x.shape[k + 1:], value, x.dtype)
        for j in range(d):
            at = lo + j * (inner + 1)
            if 0 <= at < size:
                y[(slice(None),) * k + (at,)] = x[(slice(None),) * k + (j,)]
        x = y
    return x


def pad(t, cls, shape):
    x, z = fill(t, shape, 1), fill(t, (), 6)
    plans = [[(1, 0, 2) if d == 0 else ((1, -1, 2), (-1, 2, 0), (0, 1, 1))[(k + turn) % 3] for k, d in enumerate(shape)] for turn in range(3)]
    outs = [padded(x, z, p) for p in plans]
    text = ["pad(a, b), padding=" + "x".join("%d_%d_%d" % e for e in p) for p in plans]
    case("pad", t, cls, [(t, x), (t, z)], tuple_of(*((ty(t, y.shape), s) for y, s in zip(outs, text))), [(t, y) for y in outs])


def concatenate(t, cls, shape):
    x, rows, outs = fill(t, shape), [], []
    for d in sorted({0, len(shape) - 1}):
        y = np.roll(x, 1, d)[(slice(None),) * d + (slice(0, 2),)]
        outs.append(np.concatenate([x, y, x], d))
        rows.append((y, d))
    args = [(t, x)] + [(t, y) for y, _ in rows]
    case("concatenate", t, cls, args, tuple_of(*((ty(t, w.shape), "concatenate(a, %s, a), dimensions={%d}" % ("bc"[k], rows[k][1])) for k, w in enumerate(outs))), [(t, w) for w in outs])


def gather(t, cls, shape):
    x, r = fill(t, shape, 8), len(shape)
    if not r:
        case("gather", t, cls, [(t, x), ("s32", s32())], "ROOT r = %s[] gather(a, b), offset_dims={}, collapsed_slice_dims={}, start_index_map={}, index_vector_dim=0, slice_sizes={}" % t, [(t, x)])
        return
    i = s32(9, 0, -4, 2)
    n = min(shape[0], 2)
    at = np.clip(i, 0, shape[0] - n)
    want = np.stack([x[s:s + n] for s in at])
    case("gather", t, cls, [(t, x), ("s32", i)], "ROOT r = %s gather(a, b), offset_dims=%s, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes=%s"
         % (ty(t, want.shape), braces(range(1, r + 1)), braces((n,) + shape[1:])), [(t, want)])


def scatter(t, cls, shape):
    x, r = fill(t, shape, 8), len(shape)
    if not r:
        u = fill(t, (), 3)
        case("scatter", t, cls, [(t, x), ("s32", s32()), (t, u)], "ROOT r = %s[] scatter(a, b, c), update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=f" % t,
             [(t, u)], take_second(t))
        return
    i = s32(9, 1, -4, 0)
    n = min(shape[0], 1)
    u, want = fill(t, (4, n) + shape[1:], 13), x.copy()
    for k, s in enumerate(i):
        if 0 <= s <= shape[0] - n:
            want[s:s + n] = u[k]
    case("scatter", t, cls, [(t, x), ("s32", i), (t, u)], "ROOT r = %s scatter(a, b, c), update_window_dims=%s, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f"
         % (ty(t, shape), braces(range(1, r + 1))), [(t, want)], take_second(t))


def iota(t, cls, shape):
    outs = []
    for d in sorted({0, len(shape) - 1}):
        want = np.broadcast_to(np.arange(shape[d]).reshape([-1 if k == d else 1 for k in range(len(shape))]), shape)
        outs.append((d, of(t, want)))
    case("iota", t, cls, [], tuple_of(*((ty(t, shape), "iota(), iota_dimension=%d" % d) for d, _ in outs)), [(t, y) for _, y in outs])


def bitcast_convert(t, cls, shape):
    x = fill(t, shape, 2)
    bits = ew.INTS.get(t) or {"pred": 8, "f4e2m1fn": 4, "f6e3m2fn": 6, "f6e2m3fn": 6}.get(t) or x.dtype.itemsize * 8
    same = t if t in COMPLEX or bits == 6 else "u%d" % bits
    if bits in (1, 2, 4):                   # kept one to a byte: signs are extended in storage
        pattern = x.view(np.uint8) & ((1 << bits) - 1)
        case("bitcast-convert", t, cls, [(t, x)], tuple_of((ty(same, shape), "bitcast-convert(a)"), (ty(t, shape), "bitcast-convert(r0)")), [(same, pattern), (t, x)])
        return
    if t in COMPLEX or bits < 16:
        case("bitcast-convert", t, cls, [(t, x)], tuple_of((ty(same, shape), "bitcast-convert(a)"), (ty(t, shape), "bitcast-convert(r0)")),
             [(same, x.view(ew.np_of(same))), (t, x)])
        return
    half = "u%d" % (bits // 2)
    parts = np.frombuffer(x.tobytes(), ew.np_of(half)).reshape(shape + (2,))
    case("bitcast-convert", t, cls, [(t, x)], tuple_of((ty(same, shape), "bitcast-convert(a)"), (ty(half, shape + (2,)), "bitcast-convert(a)"), (ty(t, shape), "bitcast-convert(r1)")),
         [(same, x.view(ew.np_of(same))), (half, parts), (t, x)])


def same(op, rhs):
    def make(t, cls, shape):
        x = fill(t, shape, 6)
        s = ty(t, shape)
        case(op, t, cls, [(t, x)], rhs.replace("@", s), [(t, x)])
    return make


FLIP = "g {\np = @ parameter(0)\nROOT v = @ reverse(p), dimensions=%s\n}\n"


def calls(t, cls, shape):
    x, s = fill(t, shape, 6), ty(t, shape)
    flip = (FLIP % braces(range(len(shape)))).replace("@", s)
    keep = "h {\nROOT p = %s parameter(0)\n}\n" % s
    y = np.flip(x)
    case("call", t, cls, [(t, x)], "ROOT r = %s call(a), to_apply=g" % s, [(t, y)], flip)
    case("fusion", t, cls, [(t, x)], "ROOT r = %s fusion(a), kind=kLoop, calls=g" % s, [(t, y)], flip)
    case("async-start+async-update+async-done", t, cls, [(t, x)], "s = ((@), @, s32[]) async-start(a), calls=g\nu = ((@), @, s32[]) async-update(s), calls=g\nROOT r = @ async-done(u), calls=g".replace("@", s), [(t, y)], flip)
    case("conditional", t, cls, [(t, x), ("pred", np.array(True)), ("s32", s32(-7).reshape(()))],
         tuple_of((s, "conditional(b, a, a), true_computation=h, false_computation=g"), (s, "conditional(c, a, a), branch_computations={h, g}")), [(t, x), (t, y)], flip + keep)
    loop = "(s32[], %s)" % s
    extra = ("c {\np = @ parameter(0)\ni = s32[] get-tuple-element(p), index=0\nn = s32[] constant(3)\nROOT r = pred[] compare(i, n), direction=LT\n}\n"
             "b {\np = @ parameter(0)\ni = s32[] get-tuple-element(p), index=0\nk = s32[] constant(1)\nj = s32[] add(i, k)\nx = # get-tuple-element(p), index=1\ny = # reverse(x), dimensions=%s\nROOT r = @ tuple(j, y)\n}\n"
             % braces(range(len(shape)))).replace("@", loop).replace("#", s)
    case("while", t, cls, [(t, x), ("s32", s32(0).reshape(()))], "s = %s tuple(b, a)\nROOT r = %s while(s), condition=c, body=b" % (loop, loop),
         [("s32", s32(3).reshape(())), (t, y)], extra)


def tuples(t, cls, shape):
    x, y, s = fill(t, shape), fill(t, shape, 9), ty(t, shape)
    nest = "i = (%s, %s) tuple(a, b)\no = (%s, (%s, %s)) tuple(b, i)\n" % (s, s, s, s, s)
    case("tuple", t, cls, [(t, x), (t, y)], nest + "ROOT r = ((%s, (%s, %s)), %s) tuple(o, a)" % (s, s, s, s), [(t, y), (t, x), (t, y), (t, x)])
    case("get-tuple-element", t, cls, [(t, x), (t, y)], nest + "m = (%s, %s) get-tuple-element(o), index=1\nROOT r = %s get-tuple-element(m), index=1" % (s, s, s), [(t, y)])


def maps(t, cls, shape):
    x, y = fill(t, shape), fill(t, shape, 4)
    want = np.where(x.astype(np.complex128) == y.astype(np.complex128), x, y) if t not in INTS else np.where(x == y, x, y)
    dims = braces(range(len(shape)))
    case("map", t, cls, [(t, x), (t, y)], "ROOT r = %s map(a, b), dimensions=%s, to_apply=f" % (ty(t, shape), dims), [(t, want.astype(x.dtype))],
         "f {\np = @ parameter(0)\nq = @ parameter(1)\nc = pred[] compare(p, q), direction=EQ\nROOT s = @ select(c, p, q)\n}\n".replace("@", t + "[]"))


def constant(t, cls, shape):
    x = fill(t, shape, 6, nan=False)
    def word(v):
        if t == "pred":
            return "true" if v else "false"
        if t in INTS:
            return str(int(v))
        if t in COMPLEX:
            return "(%s, %s)" % (real(v.real), real(v.imag))
        return real(v)
    def real(v):
        return repr(float(v))
    def nested(v):
        return word(v) if v.ndim == 0 else "{" + ", ".join(nested(u) for u in v) + "}"
    case("constant", t, cls, [], "ROOT r = %s constant(%s)" % (ty(t, shape), nested(x)), [(t, x)])


def dimension_sizes(t, cls, shape):
    x, d = fill(t, shape), len(shape) - 1
    case("get-dimension-size", t, cls, [(t, x)], "ROOT r = s32[] get-dimension-size(a), dimensions={%d}" % d, [("s32", s32(shape[d]).reshape(()))])
    case("set-dimension-size", t, cls, [(t, x), ("s32", s32(shape[d]).reshape(()))], "ROOT r = %s set-dimension-size(a, b), dimensions={%d}" % (ty(t, shape), d), [(t, x)])


def dynamic_reshape(t, cls, shape):
    x, there = fill(t, shape, 3), shape[::-1]
    sizes = [("s32", s32(d).reshape(())) for d in there]
    case("dynamic-reshape", t, cls, [(t, x)] + sizes, "ROOT r = %s dynamic-reshape(%s)" % (ty(t, there), ", ".join("abcdefgh"[:1 + len(sizes)])), [(t, x.reshape(there))])


def scan(t, cls, shape):
    """Each step gives what the step before was given: a shift by one."""
    x, first, row = fill(t, shape, 3), fill(t, shape[1:], 11), ty(t, shape[1:])
    all_in = np.concatenate([first[None], x])
    f = "f {\nx = @ parameter(0)\nc = @ parameter(1)\nROOT r = (@, @) tuple(c, x)\n}\n".replace("@", row)
    case("scan", t, cls, [(t, x), (t, first)], "ROOT r = (%s, %s) scan(a, b), dimensions={0}, num_carries=1, to_apply=f" % (ty(t, shape), row), [(t, all_in[:-1]), (t, all_in[-1])], f)


def one_device(t, cls, shape):
    """Sums over a group of one: what came in."""
    x, s = fill(t, shape, 6), ty(t, shape)
    f = binary(t, "or" if t == "pred" else "add")
    for op, rhs in (("all-reduce", "ROOT r = @ all-reduce(a), replica_groups={{0}}, to_apply=f"),
                    ("all-reduce-start+all-reduce-done", "s = @ all-reduce-start(a), replica_groups={{0}}, to_apply=f\nROOT r = @ all-reduce-done(s)"),
                    ("reduce-scatter", "ROOT r = @ reduce-scatter(a), replica_groups={{0}}, dimensions={0}, to_apply=f")):
        if shape or op != "reduce-scatter":
            case(op, t, cls, [(t, x)], rhs.replace("@", s), [(t, x)], f)


# ---- folds -------------------------------------------------------------------------------------------------------------------
def fold_of(t):
    """An operation that is exact and does not mind the order: (opcode, function, start)."""
    if t == "pred":
        return "or", lambda a, b: a | b, False
    if t in INTS:
        return "add", lambda a, b: a + b, 1
    if t in COMPLEX:
        return "add", lambda a, b: a + b, 0
    return "maximum", lambda a, b: ew.fmax(a, b), 0.5


def fold_values(t, shape, start=0):
    if t in COMPLEX:
        return (few(t, shape, start) * ew.np_of(t).type(1.5 - 2j)).astype(ew.np_of(t))
    return fill(t, shape, start)


def reduce(t, cls, shape):
    op, f, init = fold_of(t)
    x, z, r = fold_values(t, shape, 3), of(t, init), len(shape)
    rows, outs = [], []
    for dims in [tuple(range(r)), tuple(range(0, r, 2)), tuple(range(r - 1, r)) if r else ()]:
        kept = tuple(d for k, d in enumerate(shape) if k not in dims)
        flat = np.moveaxis(up(t, x), dims, range(len(dims))).reshape((int(np.prod([shape[k] for k in dims], dtype=np.int64)),) + kept)
        acc = np.broadcast_to(up(t, z), kept)
        for row in flat:
            acc = f(acc, row)
        rows.append((ty(t, kept), "reduce(a, b), dimensions=%s, to_apply=f" % braces(dims)))
        outs.append((t, of(t, acc).reshape(kept)))
    case("reduce", t, cls, [(t, x), (t, z)], tuple_of(*rows), outs, binary(t, op), "ku0" if t in FLOATS else "k=")


def reduce_window(t, cls, shape):
    op, f, init = fold_of(t)
    x, z, r = fold_values(t, shape, 5), of(t, init), len(shape)
    wide_x = up(t, x)
    nothing = 0 if op == "add" else False if op == "or" else -np.inf        # padded places are left out of the fold
    full = padded(wide_x, nothing, [(1, 1, 0)] * r)
    out = tuple((d - 2) // (1 + k % 2) + 1 for k, d in enumerate(full.shape))
    acc = np.broadcast_to(up(t, z), out)
    for off in itertools.product(range(2), repeat=r):
        acc = f(acc, full[tuple(slice(o, o + (n - 1) * (1 + k % 2) + 1, 1 + k % 2) for k, (o, n) in enumerate(zip(off, out)))])
    window = "window={size=%s stride=%s pad=%s}, " % ("x".join("2" * r), "x".join(str(1 + k % 2) for k in range(r)), "x".join(["1_1"] * r)) if r else ""
    case("reduce-window", t, cls, [(t, x), (t, z)], "ROOT r = %s reduce-window(a, b), %sto_apply=f" % (ty(t, out), window), [(t, of(t, acc))], binary(t, op), "ku0" if t in FLOATS else "k=")


def select_and_scatter(t, cls, shape):
    x, r = fill(t, shape, 2), len(shape)
    size = [2 if d > 1 else 1 for d in shape]
    out = tuple((d - s) // s + 1 if d else 0 for d, s in zip(shape, size))
    u, z = fill(t, out, 7), fill(t, (), 1)
    want = np.full(shape, z, x.dtype)
    key = x if t in INTS else up(t, x)
    better = (lambda a, b: a == b) if t in COMPLEX else (lambda a, b: a >= b)
    for at in np.ndindex(*out):
        best = None
        for off in itertools.product(*(range(s) for s in size)):
            p = tuple(a * s + o for a, s, o in zip(at, size, off))
            if best is None or not better(key[best], key[p]):
                best = p
        want[best] = u[at]
    sel = "s {\np = @[] parameter(0)\nq = @[] parameter(1)\nROOT c = pred[] compare(p, q), direction=%s\n}\n".replace("@", t) % ("EQ" if t in COMPLEX else "GE")
    window = "window={size=%s stride=%s}, " % (("x".join(map(str, size)),) * 2) if r else ""
    case("select-and-scatter", t, cls, [(t, x), (t, u), (t, z)], "ROOT r = %s select-and-scatter(a, b, c), %sselect=s, scatter=f" % (ty(t, shape), window), [(t, want)], sel + take_second(t))


def sort(t, cls, shape):
    d = len(shape) - 1
    x, y = fill(t, shape, 3, nan=t in WIDE), np.broadcast_to(np.arange(shape[d], dtype=np.int32), shape)
    key = x if t in INTS else ew.total_key(x) if t in WIDE else up(t, x).real
    at = np.argsort(key, axis=d, kind="stable")
    pick = "u = @ real(p)\nv = @ real(q)\n".replace("@", "f32[]" if t == "c64" else "f64[]") if t in COMPLEX else ""
    f = "f {\np = @ parameter(0)\nq = @ parameter(1)\nx = s32[] parameter(2)\ny = s32[] parameter(3)\n%sROOT c = pred[] compare(%s), direction=LT%s\n}\n".replace("@", t + "[]") % (pick, "u, v" if pick else "p, q", ", type=TOTALORDER" if t in WIDE else "")
    s, i = ty(t, shape), ty("s32", shape)
    case("sort", t, cls, [(t, x), ("s32", y)], "ROOT r = (%s, %s) sort(a, b), dimensions={%d}, is_stable=true, to_apply=f" % (s, i, d),
         [(t, np.take_along_axis(x, at, d)), ("s32", np.take_along_axis(y, at, d))], f)


def topk(t, cls, shape):
    x, d = fill(t, shape, 3, nan=False), len(shape) - 1
    k = min(2, shape[d])
    key = x.astype(object) if t in INTS else up(t, x)
    at = np.argsort(-key, axis=d, kind="stable")
    if t in FLOATS:                         # the order is total: +0 above -0
        at = np.lexsort((np.broadcast_to(np.arange(shape[d]), shape), np.signbit(key), -key), axis=d)
    at = np.take(at, range(k), d).astype(np.int32)
    out = at.shape
    case("topk", t, cls, [(t, x)], "ROOT r = (%s, %s) topk(a), k=%d, largest=true" % (ty(t, out), ty("s32", out), k), [(t, np.take_along_axis(x, at, d)), ("s32", at)])


# ---- products ------------------------------------------------------------------------------------------------------------------
def dot(t, cls, shape):
    x, r = few(t, shape), len(shape)
    k = shape[-1] if r else None
    y = few(t, (k, 2) if r else (), 1) if r else few(t, ())
    want = np.matmul(up(t, x), up(t, y)) if r else up(t, x) * up(t, y)
    dims = "lhs_contracting_dims={%d}, rhs_contracting_dims={0}" % (r - 1) if r else "lhs_contracting_dims={}, rhs_contracting_dims={}"
    case("dot", t, cls, [(t, x), (t, y)], "ROOT r = %s dot(a, b), %s" % (ty(t, want.shape), dims), [(t, of(t, want))])


def convolution(t, cls, shape):
    x, n = few(t, shape), len(shape) - 2
    size = tuple(min(2, max(d, 1)) for d in shape[2:])
    k = few(t, (shape[1], 2) + size, 1)
    out = tuple(d - s + 1 for d, s in zip(shape[2:], size))
    want = np.zeros((shape[0], 2) + out, np.complex128 if t in COMPLEX else np.float64)
    for off in np.ndindex(*size):
        part = up(t, x)[(slice(None), slice(None)) + tuple(slice(o, o + m) for o, m in zip(off, out))]
        want += np.einsum("bf...,fo->bo...", part, up(t, k)[(slice(None), slice(None)) + off])
    sp = "012345"[:n]
    window = "window={size=%s}, " % "x".join(map(str, size)) if n else ""
    case("convolution", t, cls, [(t, x), (t, k)], "ROOT r = %s convolution(a, b), %sdim_labels=bf%s_io%s->bf%s" % (ty(t, want.shape), window, sp, sp, sp), [(t, of(t, want))])


# ---- linear algebra, transforms, normalization ---------------------------------------------------------------------------------
def bidiagonal(t, shape):
    n = shape[-1]
    m = np.eye(n, dtype=np.complex128) + np.diag(np.full(max(n - 1, 0), 1j if t in COMPLEX else 1.0), -1)[:n, :n]
    return np.broadcast_to(m, shape + (n,))


def cast(t, x):
    return of(t, x if t in COMPLEX else np.asarray(x).real)


def cholesky(t, cls, shape):
    low = bidiagonal(t, shape)
    a = np.matmul(low, np.conj(np.swapaxes(low, -1, -2)))
    s = ty(t, low.shape)
    up_low = np.conj(np.swapaxes(low, -1, -2))
    case("cholesky", t, cls, [(t, cast(t, a))], tuple_of((s, "cholesky(a), lower=true"), (s, "cholesky(a), lower=false")), [(t, cast(t, low)), (t, cast(t, up_low))], tol="ku1")


def triangular_solve(t, cls, shape):
    low = bidiagonal(t, shape)
    x = np.broadcast_to((np.arange(shape[-1] * 2) % 3 - 1).reshape(shape[-1], 2), shape + (2,)).astype(np.complex128)
    b, bt = np.matmul(low, x), np.matmul(np.conj(np.swapaxes(low, -1, -2)), x)
    s = ty(t, b.shape)
    case("triangular-solve", t, cls, [(t, cast(t, low)), (t, cast(t, b)), (t, cast(t, bt))],
         tuple_of((s, "triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"), (s, "triangular-solve(a, c), left_side=true, lower=true, transpose_a=ADJOINT")),
         [(t, cast(t, x)), (t, cast(t, x))], tol="ku1")


def fft(t, cls, shape):
    n = shape[-1]
    tol = "kr1e-6" if t in ("f32", "c64") else "kr1e-14"
    if t in COMPLEX:
        x = (few(t, shape) * ew.np_of(t).type(1 - 2j)).astype(ew.np_of(t))
        case("fft", t, cls, [(t, x)], tuple_of((ty(t, shape), "fft(a), fft_type=FFT, fft_length={%d}" % n), (ty(t, shape), "fft(a), fft_type=IFFT, fft_length={%d}" % n)),
             [(t, of(t, np.fft.fft(up(t, x)))), (t, of(t, np.fft.ifft(up(t, x))))], tol=tol)
        return
    x, c = few(t, shape), "c64" if t == "f32" else "c128"
    y = np.fft.rfft(up(t, x))
    case("fft", t, cls, [(t, x)], tuple_of((ty(c, y.shape), "fft(a), fft_type=RFFT, fft_length={%d}" % n), (ty(t, shape), "fft(r0), fft_type=IRFFT, fft_length={%d}" % n)),
         [(c, of(c, y)), (t, x)], tol=tol)


def batch_norm(t, cls, shape):
    d = len(shape) - 1
    n = (shape[d],)
    x = few(t, shape)
    scale, offset = of(t, np.arange(n[0]) % 2 + 1.0), of(t, np.arange(n[0]) % 3 - 1.0)
    axes = tuple(range(d))
    w = up(t, x)
    mean, var = w.mean(axes), w.var(axes)
    eps = 0.25
    s, f = ty(t, shape), ty(t, n)
    tol = {"f32": "kr1e-6", "f64": "kr1e-14", "f16": "kr4e-3", "bf16": "kr3e-2"}[t]
    inv = 1 / np.sqrt(var + eps)
    want = (w - mean) * inv * up(t, scale) + up(t, offset)
    attrs = "epsilon=0.25, feature_index=%d" % d
    case("batch-norm-training", t, cls, [(t, x), (t, scale), (t, offset)], "ROOT r = (%s, %s, %s) batch-norm-training(a, b, c), %s" % (s, f, f, attrs), [(t, of(t, want)), (t, of(t, mean)), (t, of(t, var))], tol=tol)
    m, v = of(t, np.arange(n[0]) % 2 * 0.5), of(t, np.arange(n[0]) % 2 + 0.75)
    inv = 1 / np.sqrt(up(t, v) + eps)
    want = (w - up(t, m)) * inv * up(t, scale) + up(t, offset)
    case("batch-norm-inference", t, cls, [(t, x), (t, scale), (t, offset), (t, m), (t, v)], "ROOT r = %s batch-norm-inference(a, b, c, d, e), %s" % (s, attrs), [(t, of(t, want))], tol=tol)
    g = few(t, shape, 1)
    wg = up(t, g)
    count = max(int(np.prod(shape[:d], dtype=np.int64)), 1)
    centred = w - up(t, m)
    dscale, doffset = (wg * centred * inv).sum(axes), wg.sum(axes)
    dx = up(t, scale) * inv * (wg - doffset / count - centred * inv * inv * (wg * centred).sum(axes) / count)
    case("batch-norm-grad", t, cls, [(t, x), (t, scale), (t, m), (t, v), (t, g)], "ROOT r = (%s, %s, %s) batch-norm-grad(a, b, c, d, e), %s" % (s, f, f, attrs), [(t, of(t, dx)), (t, of(t, dscale)), (t, of(t, doffset))], tol=tol)


# ---- random bits: the streams are real XLA's -----------------------------------------------------------------------------------
def random_bits(t, cls, shape):
    from jax import lax
    import jax
    jax.config.update("jax_enable_x64", True)
    key = np.array([3, 0, 9, 1], np.uint32)
    state, bits = lax.rng_bit_generator(key, shape, np.dtype("u%d" % ew.np_of(t).itemsize), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)
    case("rng-bit-generator", t, cls, [("u64", key.view(np.uint64))], "ROOT r = (u64[2], %s) rng-bit-generator(a), algorithm=rng_three_fry" % ty(t, shape),
         [("u64", np.asarray(state).view(np.uint64)), (t, np.asarray(bits).view(ew.np_of(t)))])


# ---- the table --------------------------------------------------------------------------------------------------------------------
# (writer, its operations, types, shape classes); what is not here is spoken for in NONE or in elementwise.py.
ALL = list(CLASSES)
ARRAYS = [c for c in ALL if c != "scalar"]
FULL = [c for c in ARRAYS if 0 not in CLASSES[c]]
ZEROED = [t for t in TYPES if t not in NO_ZERO]
IDENTITIES = [
    ("copy+parameter", "ROOT r = @ copy(a)"), ("bitcast", "ROOT r = @ bitcast(a)"), ("opt-barrier", "ROOT r = @ opt-barrier(a)"),
    ("copy-start+copy-done", "s = (@, @, u32[]) copy-start(a)\nROOT r = @ copy-done(s)"),
    ("domain", 'ROOT r = @ domain(a), domain={kind="sharding", entry={replicated}, exit={replicated}}'),
    # Among one device.
    ("all-to-all", "ROOT r = @ all-to-all(a), replica_groups={{0}}, dimensions={0}"),
    ("all-gather", "ROOT r = @ all-gather(a), replica_groups={{0}}, dimensions={0}"),
    ("all-gather-start+all-gather-done", "s = (@, @) all-gather-start(a), replica_groups={{0}}, dimensions={0}\nROOT r = @ all-gather-done(s)"),
    ("collective-permute", "ROOT r = @ collective-permute(a), source_target_pairs={{0,0}}"),
    ("collective-permute-start+collective-permute-done", "s = (@, @, u32[], u32[]) collective-permute-start(a), source_target_pairs={{0,0}}\nROOT r = @ collective-permute-done(s)"),
    ("collective-broadcast", "ROOT r = @ collective-broadcast(a), replica_groups={{0}}"),
    ("add-dependency", "t = token[] after-all()\nROOT r = @ add-dependency(a, t)"),
]
COVERED = [(same(op, rhs), TYPES, ARRAYS if "dimensions" in rhs else ALL) for op, rhs in IDENTITIES] + [
    (broadcast, TYPES, ALL), (reshape, TYPES, ALL), (transpose, TYPES, ALL), (reverse, TYPES, ALL), (slices, TYPES, ALL), (dynamic_slice, TYPES, ALL),
    (dynamic_update_slice, TYPES, ALL), (pad, TYPES, ARRAYS), (concatenate, TYPES, ARRAYS),
    (gather, TYPES, ALL), (scatter, TYPES, ALL), (iota, [t for t in ZEROED if t != "pred"], ARRAYS), (bitcast_convert, TYPES, ALL), (calls, TYPES, ALL), (tuples, TYPES, ALL),
    (maps, TYPES, ALL), (constant, TYPES, ALL), (dimension_sizes, TYPES, ARRAYS), (reduce, TYPES, ALL), (reduce_window, TYPES, ALL), (select_and_scatter, TYPES, ALL),
    (sort, TYPES, ARRAYS), (topk, [t for t in TYPES if t not in COMPLEX], ARRAYS), (dot, ZEROED, ALL),
    (convolution, [t for t in ZEROED if t != "pred"], [c for c in ALL if len(CLASSES[c]) >= 2]),
    (cholesky, [t for t in FLOATS + COMPLEX if t not in NO_ZERO], ARRAYS), (triangular_solve, [t for t in FLOATS + COMPLEX if t not in NO_ZERO], ARRAYS),
    (fft, ["f32", "f64", "c64", "c128"], [c for c in ARRAYS if c != "empty"]), (batch_norm, WIDE, FULL),
    (dynamic_reshape, TYPES, ARRAYS), (scan, TYPES, ARRAYS), (one_device, TYPES, ALL),
    (random_bits, [t for t in INTS if ew.INTS[t] >= 8], ALL),
]


# (operations, types, classes, reason); `*` is everything.
FRACTIONS = ("acos acosh asin asinh atan2 atanh cbrt ceil cosh cosine erf exponential exponential-minus-one floor is-finite log log-plus-one logistic "
             "round-nearest-afz round-nearest-even rsqrt sine sinh sqrt tan tanh").split()
PATTERNS = "and or xor not popcnt count-leading-zeros mulhi shift-left shift-right-arithmetic shift-right-logical".split()
NONE = [
    (FRACTIONS, ["pred"] + INTS, "*", "verifier: of floating-point or complex values"),
    (["is-finite", "ceil", "floor", "round-nearest-afz", "round-nearest-even", "erf", "cbrt"], COMPLEX, "*", "verifier: of floating-point values"),
    (PATTERNS, FLOATS + COMPLEX, "*", "verifier: of integers or truth values"),
    (["popcnt", "count-leading-zeros", "mulhi", "shift-left", "shift-right-arithmetic", "shift-right-logical"], ["pred"], "*", "of integers: a truth value has no bits to count or shift"),
    (["abs", "sign", "negate", "subtract", "divide", "remainder", "power", "clamp"], ["pred"], "*", "of numbers: of arithmetic, truth values have sums, products, maximum and minimum"),
    (["maximum", "minimum", "clamp", "remainder"], COMPLEX, "*", "complex values have no order"),
    (["complex"], [t for t in TYPES if t not in ("f32", "f64")], "*", "parts are f32 or f64"),
    (["imag"], NO_ZERO, "*", "the format has no zero to be the imaginary part"),
    (["real", "imag"], ["pred"] + INTS, "*", "verifier: of floating-point or complex values"),
    (["reduce-precision"], ["pred"] + INTS + COMPLEX, "*", "verifier: of floating-point values"),
    (["concatenate", "sort", "topk", "scan", "get-dimension-size", "set-dimension-size", "dynamic-reshape", "fft", "cholesky", "triangular-solve",
      "batch-norm-training", "batch-norm-inference", "batch-norm-grad", "all-gather", "all-gather-start", "all-gather-done", "all-to-all", "reduce-scatter"],
     "*", ["scalar"], "works along a dimension: a scalar has none"),
    (["iota"], "*", ["scalar"], "verifier: iota_dimension must name one"),
    (["pad"], "*", ["scalar"], "the text has no padding of no dimensions"),
    (["iota"], ["pred"], "*", "counts do not fit a truth value"),
    (["iota", "dot", "convolution", "cholesky", "triangular-solve"], NO_ZERO, "*", "the format has no zero: scaled-dot is what multiplies it"),
    (["topk"], COMPLEX, "*", "complex values have no order"),
    (["convolution"], "*", [c for c in ALL if len(CLASSES[c]) < 2], "operands have a batch and a feature dimension"),
    (["convolution"], ["pred"], "*", "sums of products of truth values are a dot's"),
    (["fft"], [t for t in TYPES if t not in ("f32", "f64", "c64", "c128")], "*", "verifier: f32, f64 and their complex types"),
    (["fft"], "*", ["empty"], "a transform has a length above zero"),
    (["cholesky", "triangular-solve"], ["pred"] + INTS, "*", "verifier: of floating-point or complex values"),
    (["batch-norm-training", "batch-norm-inference", "batch-norm-grad"], ["pred"] + INTS + COMPLEX, "*", "verifier: of floating-point values"),
    (["batch-norm-training", "batch-norm-inference", "batch-norm-grad"], [t for t in FLOATS if t not in WIDE], "*", "means and variances are not kept in formats of 8 bits and less"),
    (["batch-norm-training", "batch-norm-inference", "batch-norm-grad"], WIDE, ["empty", "empty3"], "no values to average"),
    (["rng-bit-generator"], [t for t in TYPES if t not in INTS] + [t for t in INTS if ew.INTS[t] < 8], "*", "gives whole words of bits"),
    (["ragged-dot", "scaled-dot"], "*", "*", "operands of ranks and groups of their own: by_numpy.py"),
    (["stochastic-convert"], "*", "*", "pairs of types with random words: by_numpy.py"),
    (["custom-call"], "*", "*", "the target decides: by_numpy.py and by_xla.py"),
    (["ragged-all-to-all"], "*", "*", "needs several devices: by_numpy.py"),
    (["after-all"], "*", "*", "takes and gives tokens"),
    (["infeed", "outfeed", "send", "send-done", "recv", "recv-done"], "*", "*", "the other end is a host: tests/evaluator_cases"),
    (["partition-id", "replica-id"], "*", "*", "one u32 scalar, which says where it runs"),
    (["rng", "rng-get-and-update-state"], "*", "*", "the values are the implementation's own choice"),
]


def spread(names):
    return names if names == "*" else ",".join(dict.fromkeys(names))


def cases():
    for ops, types, classes, reason in NONE:
        OUT.append("none %s %s %s %s" % (spread(ops), spread(types), spread(classes), reason))
    for make, types, classes in COVERED:
        for t in types:
            for cls in classes:
                make(t, cls, CLASSES[cls])
    return OUT
