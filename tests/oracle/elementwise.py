"""Elementwise cases: integers by Python's own, floats by NumPy and ml_dtypes, in f32 for the narrow formats.

The rules are those of XLA's operation semantics: wrapping integers, division by zero gives all ones, shifts by the width
or more shift everything out, conversions to integers truncate and saturate with NaN to 0, everything narrower than f32 is
computed in f32 and rounded once. Denormals are kept (the driver's `k`).
"""
import math
import warnings

import ml_dtypes
import numpy as np

warnings.filterwarnings("ignore")
np.seterr(all="ignore")

SINTS = {"s1": 1, "s2": 2, "s4": 4, "s8": 8, "s16": 16, "s32": 32, "s64": 64}
UINTS = {"u1": 1, "u2": 2, "u4": 4, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
INTS = {**SINTS, **UINTS}
NARROW = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz, "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu, "f6e3m2fn": ml_dtypes.float6_e3m2fn, "f6e2m3fn": ml_dtypes.float6_e2m3fn,
}
FLOATS = {**NARROW, "f32": np.float32, "f64": np.float64}
COMPLEX = {"c64": np.complex64, "c128": np.complex128}


def bounds(t):
    w = INTS[t]
    return (-(1 << (w - 1)), (1 << (w - 1)) - 1) if t in SINTS else (0, (1 << w) - 1)


def wrap(t, v):
    lo, hi = bounds(t)
    return (v - lo) % (hi - lo + 1) + lo


def np_of(t):
    if t == "pred":
        return np.dtype(np.bool_)
    if t in INTS:
        w = max(INTS[t], 8)
        return np.dtype(("i" if t in SINTS else "u") + str(w // 8))
    return np.dtype({**FLOATS, **COMPLEX}[t])


def hexed(t, values):
    return np.asarray(values).astype(np_of(t), copy=False).tobytes().hex() if not isinstance(values, np.ndarray) else values.tobytes().hex()


def array(t, values):
    return np.array(values, dtype=np_of(t))


def samples(t, seed=0):
    """Edges first, then seeded values."""
    rng = np.random.default_rng(seed + sum(map(ord, t)))
    if t == "pred":
        return array(t, [False, True, True, False, True, False, False])
    if t in INTS:
        lo, hi = bounds(t)
        v = [0, 1, hi, lo, hi - 1, lo + 1, -1 if t in SINTS else 3, 2, 5, 7] + [int(x) for x in rng.integers(-12, 40, 14)]
        if INTS[t] >= 8:
            v += [int(rng.integers(0, 1 << 62)) for _ in range(6)]
        return array(t, [wrap(t, x) for x in v])
    if t in FLOATS:
        dt = FLOATS[t]
        info = ml_dtypes.finfo(dt) if t in NARROW else np.finfo(dt)
        big, tiny, sub = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
        v = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, big, -big, tiny, -tiny, sub, -sub, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.7, -0.3,
             2.0, 4.0, 6.0, 100.25, -33.3] + list(rng.uniform(-4, 4, 18)) + list(rng.uniform(-0.01, 0.01, 4))
        return np.array(v, dtype=np.float64).astype(dt)
    edge = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -2.5]
    v = [complex(a, b) for a in edge[:4] for b in edge[:4]] + [complex(a, 0.5) for a in edge[4:7]] + [complex(0.5, a) for a in edge[4:7]]
    v += [complex(a, b) for a, b in zip(rng.uniform(-3, 3, 16), rng.uniform(-3, 3, 16))]
    v += [complex(2, 0.0), complex(2, -0.0), complex(-2, 0.0), complex(-2, -0.0), complex(0.0, 2), complex(-0.0, 2), complex(0.0, -2), complex(-0.0, -2)]
    out = np.empty(len(v), dtype=COMPLEX[t])
    out.real = [x.real for x in v]
    out.imag = [x.imag for x in v]
    return out


def pairs(t):
    """Every sample with some others: edges with edges, the rest shifted."""
    v = samples(t)
    n = len(v)
    e = min(n, 12)
    a = np.concatenate([np.repeat(v[:e], e), v, v])
    b = np.concatenate([np.tile(v[:e], e), np.roll(v, 3), np.roll(v, 11)])
    return a, b


def round_to(t, f32):
    """f32 (or f64) results to the type, as ml_dtypes rounds: once."""
    if t == "f64":
        return np.asarray(f32, np.float64)
    return np.asarray(f32, np.float32).astype(FLOATS[t])


def wide(t, v):
    return v.astype(np.float64) if t == "f64" else v.astype(np.float32)


# ---- integers ---------------------------------------------------------------------------------------------------------
def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def int_binary(t):
    w = INTS[t]
    lo, hi = bounds(t)
    mask = (1 << w) - 1
    s = t in SINTS

    def amount(b):
        return b & mask

    def power(a, b):
        # As XLA:CPU has it: operands of a byte or more are taken for signed, exponents count modulo 64.
        a, b = (wrap_signed(x, max(w, 8)) for x in (a, b)) if not s else (a, b)
        if b < 0:
            return 1 if a == 1 else (-1 if b & 1 else 1) if a == -1 else 0
        return pow(a, b & 63, 1 << 64)

    ops = {
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
        "divide": lambda a, b: (-1 if s else hi) if b == 0 else trunc_div(a, b),
        "remainder": lambda a, b: a if b == 0 else a - trunc_div(a, b) * b,
        "maximum": max, "minimum": min, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
        "power": power,
        "shift-left": lambda a, b: 0 if amount(b) >= w else a << amount(b),
        "shift-right-logical": lambda a, b: 0 if amount(b) >= w else (a & mask) >> amount(b),
        "shift-right-arithmetic": lambda a, b: (wrap_signed(a, w) >> min(amount(b), w)),
        "mulhi": lambda a, b: (a * b) >> w,
    }
    return ops


def wrap_signed(a, w):
    a &= (1 << w) - 1
    return a - (1 << w) if a >> (w - 1) else a


def int_unary(t):
    w = INTS[t]
    mask = (1 << w) - 1
    return {
        "abs": abs, "negate": lambda a: -a, "sign": lambda a: (a > 0) - (a < 0), "not": lambda a: ~a,
        "popcnt": lambda a: bin(a & mask).count("1"), "count-leading-zeros": lambda a: w - (a & mask).bit_length(),
    }


# ---- floats -----------------------------------------------------------------------------------------------------------
# Of +0 and -0 the first operand: what XLA's evaluator and its code for the CPU give.
def fmax(a, b):
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, np.where(b > a, b, a)))


def fmin(a, b):
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, np.where(b < a, b, a)))


def round_away(a):
    r = np.trunc(a) + np.where(np.abs(a - np.trunc(a)) >= 0.5, np.sign(a), 0)
    return np.where(np.isfinite(a), np.copysign(r, a), a)


EXACT1 = {
    "abs": np.abs, "negate": np.negative, "floor": np.floor, "ceil": np.ceil, "round-nearest-even": np.rint, "round-nearest-afz": round_away,
    "sign": lambda a: np.where(np.isnan(a) | (a == 0), a, np.sign(a)), "sqrt": np.sqrt,
}
EXACT2 = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": fmax, "minimum": fmin, "remainder": np.fmod}


def special(name):
    from scipy import special as sp
    return getattr(sp, name)


TRANS1 = {
    "exponential": np.exp, "exponential-minus-one": np.expm1, "log": np.log, "log-plus-one": np.log1p, "tanh": np.tanh, "rsqrt": lambda a: 1 / np.sqrt(a),
    "cbrt": np.cbrt, "sine": np.sin, "cosine": np.cos, "tan": np.tan, "logistic": lambda a: 1 / (1 + np.exp(-a)), "erf": lambda a: special("erf")(a),
    "acos": np.arccos, "asin": np.arcsin, "acosh": np.arccosh, "asinh": np.arcsinh, "atanh": np.arctanh, "sinh": np.sinh, "cosh": np.cosh,
}
TRANS2 = {"power": np.power, "atan2": np.arctan2}


def f64_of(t, v):
    return v.astype(np.float64)


# ---- cases ------------------------------------------------------------------------------------------------------------
def emit(out, name, tol, op, ins, res):
    out.append("ew %s %s %s %s > %s" % (name, tol, op, " ".join("%s=%s" % (t, v.tobytes().hex()) for t, v in ins), "%s=%s" % (res[0], res[1].tobytes().hex())))


def integer_cases(out):
    for t in INTS:
        a, b = pairs(t)
        ints = list(zip([int(x) for x in a], [int(x) for x in b]))
        for op, f in int_binary(t).items():
            emit(out, "%s.%s" % (op, t), "=", op, [(t, a), (t, b)], (t, array(t, [wrap(t, f(x, y)) for x, y in ints])))
        v = samples(t)
        for op, f in int_unary(t).items():
            emit(out, "%s.%s" % (op, t), "=", op, [(t, v)], (t, array(t, [wrap(t, f(int(x))) for x in v])))
    a, b = pairs("pred")
    for op, f in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "add": np.logical_or, "multiply": np.logical_and, "maximum": np.logical_or, "minimum": np.logical_and}.items():
        emit(out, "%s.pred" % op, "=", op, [("pred", a), ("pred", b)], ("pred", f(a, b)))
    emit(out, "not.pred", "=", "not", [("pred", a)], ("pred", np.logical_not(a)))


def float_cases(out):
    for t in FLOATS:
        a, b = pairs(t)
        v = samples(t)
        for op, f in EXACT2.items():
            emit(out, "%s.%s" % (op, t), "k=", op, [(t, a), (t, b)], (t, round_to(t, f(wide(t, a), wide(t, b)))))
        for op, f in EXACT1.items():
            emit(out, "%s.%s" % (op, t), "k=", op, [(t, v)], (t, round_to(t, f(wide(t, v)))))
        for op, f in TRANS1.items():
            want = f(f64_of(t, v))
            emit(out, "%s.%s" % (op, t), "ku4" if t in ("f32", "f64") else "ku1", op, [(t, v)], (t, want.astype(FLOATS[t]) if t == "f64" else round_to(t, want)))
        for op, f in TRANS2.items():
            want = f(f64_of(t, a), f64_of(t, b))
            emit(out, "%s.%s" % (op, t), "ku4" if t in ("f32", "f64") else "ku1", op, [(t, a), (t, b)], (t, want.astype(FLOATS[t]) if t == "f64" else round_to(t, want)))
        emit(out, "is-finite.%s" % t, "k=", "is-finite", [(t, v)], ("pred", np.isfinite(wide(t, v))))
        emit(out, "real.%s" % t, "k=", "real", [(t, v)], (t, v))
        if t != "f8e8m0fnu":                 # has no zero
            emit(out, "imag.%s" % t, "k=", "imag", [(t, v)], (t, np.zeros_like(v)))


COMPLEX1 = {
    "negate": np.negative, "exponential": np.exp, "exponential-minus-one": np.expm1, "log": np.log, "log-plus-one": np.log1p, "tanh": np.tanh,
    "sqrt": np.sqrt, "rsqrt": lambda z: 1 / np.sqrt(z), "sine": np.sin, "cosine": np.cos, "tan": np.tan, "acos": np.arccos, "asin": np.arcsin, "acosh": np.arccosh,
    "asinh": np.arcsinh, "atanh": np.arctanh, "sinh": np.sinh, "cosh": np.cosh,
}


def complex_cases(out):
    for t, dt in COMPLEX.items():
        part = "f32" if t == "c64" else "f64"
        v = samples(t)
        finite = v[np.isfinite(v.real) & np.isfinite(v.imag)]
        a, b = finite, np.roll(finite, 5)
        for op, f in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}.items():
            emit(out, "%s.%s" % (op, t), "kr1e-6" if t == "c64" else "kr1e-14", op, [(t, a), (t, b)], (t, f(a.astype(np.complex128), b.astype(np.complex128)).astype(dt)))
        nz = np.where(b == 0, dt(1 + 2j), b).astype(dt)
        emit(out, "divide.%s" % t, "kr1e-6" if t == "c64" else "kr1e-14", "divide", [(t, a), (t, nz)], (t, (a.astype(np.complex128) / nz.astype(np.complex128)).astype(dt)))
        for op, f in COMPLEX1.items():
            x = finite
            if op in ("log", "rsqrt"):
                x = x[x != 0]
            if op == "atanh":
                x = x[(x != 1) & (x != -1)]
            if op == "log-plus-one":
                x = x[x != -1]
            want = f(x.astype(np.complex128)).astype(dt)
            emit(out, "%s.%s" % (op, t), "ku16" if t == "c64" else "kr1e-14", op, [(t, x)], (t, want))
        norm = np.abs(finite.astype(np.complex128))
        emit(out, "sign.%s" % t, "ku4", "sign", [(t, finite)], (t, np.where(norm == 0, finite, finite / np.where(norm == 0, 1, norm)).astype(dt)))
        small = finite[np.abs(finite) < 8]
        emit(out, "logistic.%s" % t, "kr1e-6" if t == "c64" else "kr1e-14", "logistic", [(t, small)], (t, (1 / (1 + np.exp(-small.astype(np.complex128)))).astype(dt)))
        base, exponent = small[small != 0], np.roll(small[small != 0], 3)
        emit(out, "power.%s" % t, "kr2e-6" if t == "c64" else "kr1e-14", "power", [(t, base), (t, exponent)], (t, (base.astype(np.complex128) ** exponent.astype(np.complex128)).astype(dt)))
        y, x = base.astype(np.complex128), exponent.astype(np.complex128)
        norm = x * x + y * y
        far = np.abs(norm) > 0.1                # XLA's own expansion, away from where it is singular
        emit(out, "atan2.%s" % t, "kr2e-6" if t == "c64" else "kr1e-14", "atan2", [(t, base[far]), (t, exponent[far])], (t, (-1j * np.log((x + 1j * y)[far] / np.sqrt(norm[far]))).astype(dt)))
        emit(out, "abs.%s" % t, "ku4", "abs", [(t, v)], (part, np.abs(v.astype(np.complex128)).astype(FLOATS[part])))
        emit(out, "real.%s" % t, "k=", "real", [(t, v)], (part, v.real.copy()))
        emit(out, "imag.%s" % t, "k=", "imag", [(t, v)], (part, v.imag.copy()))
        emit(out, "complex.%s" % t, "k=", "complex", [(part, v.real.copy()), (part, v.imag.copy())], (t, v))
        emit(out, "is-finite.%s" % t, "k=", "is-finite", [(part, v.real.copy())], ("pred", np.isfinite(v.real)))
        emit(out, "compare.EQ.%s" % t, "k=", "compare|direction=EQ", [(t, v), (t, np.roll(v, 1))], ("pred", v == np.roll(v, 1)))
        emit(out, "compare.NE.%s" % t, "k=", "compare|direction=NE", [(t, v), (t, np.roll(v, 1))], ("pred", v != np.roll(v, 1)))


COMPARE = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}


def total_key(v):
    bits = v.view("i%d" % v.dtype.itemsize).astype(np.int64)
    low = bits & ((1 << (8 * v.dtype.itemsize - 1)) - 1)
    return np.where(bits < 0, -low - 1, low)


def choice_cases(out):
    for t in ["pred"] + list(INTS) + list(FLOATS):
        a, b = pairs(t)
        wa, wb = (wide(t, a), wide(t, b)) if t in FLOATS else (a, b)
        for d, f in COMPARE.items():
            emit(out, "compare.%s.%s" % (d, t), "k=", "compare|direction=%s" % d, [(t, a), (t, b)], ("pred", f(wa, wb)))
        if t in ("f16", "bf16", "f32", "f64"):
            ok = ~(np.isnan(wa) | np.isnan(wb))    # the sign of a NaN is not recorded
            x, y = a[ok], b[ok]
            for d, f in COMPARE.items():
                emit(out, "compare.total.%s.%s" % (d, t), "k=", "compare|direction=%s,;type=TOTALORDER" % d, [(t, x), (t, y)], ("pred", f(total_key(x), total_key(y))))
        p = np.arange(len(a)) % 3 == 0
        emit(out, "select.%s" % t, "k=", "select", [("pred", p), (t, a), (t, b)], (t, np.where(p, a, b).astype(a.dtype)))
        if t != "pred":
            c = np.roll(a, 7)
            wc = wide(t, c) if t in FLOATS else c
            lo, hi = (fmin(wa, wb), fmax(wa, wb)) if t in FLOATS else (np.minimum(wa, wb), np.maximum(wa, wb))
            want = fmin(fmax(lo, wc), hi) if t in FLOATS else np.minimum(np.maximum(lo, wc), hi)
            back = (lambda x: round_to(t, x)) if t in FLOATS else (lambda x: x)
            emit(out, "clamp.%s" % t, "ku0" if t in FLOATS else "=", "clamp", [(t, back(lo)), (t, c), (t, back(hi))], (t, back(want)))
    for t in COMPLEX:
        v = samples(t)
        p = np.arange(len(v)) % 2 == 0
        emit(out, "select.%s" % t, "k=", "select", [("pred", p), (t, v), (t, np.roll(v, 4))], (t, np.where(p, v, np.roll(v, 4))))


def to_int(t, x):
    lo, hi = bounds(t)
    if math.isnan(x):
        return 0
    return hi if x >= hi else lo if x <= lo else int(x)


def convert_cases(out):
    kinds = ["pred"] + list(INTS) + list(FLOATS) + list(COMPLEX)
    for f in kinds:
        for t in kinds:
            v = samples(f)
            if f in ("f64", "c128") and t in NARROW:       # what an f32 cannot hold may be rounded on the way
                small = np.abs(v.real.astype(np.float64)) < 2.0**-126
                v = v[~(small & (v.real != 0))]
            if f in INTS and INTS[f] == 64 and t in NARROW:
                v = array(f, [x for x in samples(f) if abs(int(x)) < 1 << 24])   # one rounding, whatever the way
            src = v.real if f in COMPLEX else v
            if t == "pred":
                want = (wide(f, v) != 0) if f in FLOATS else (v != 0)
                if f in COMPLEX:
                    want = src != 0
            elif t in INTS:
                if f in FLOATS or f in COMPLEX:
                    want = array(t, [to_int(t, float(x)) for x in src.astype(np.float64)])
                else:
                    want = array(t, [wrap(t, int(x)) for x in v])
            elif t in FLOATS:
                if f in INTS or f == "pred":
                    wide_v = v.astype(np.float64) if t == "f64" else v.astype(np.float32)
                    want = wide_v.astype(FLOATS[t])
                elif t == "f64":
                    want = src.astype(np.float64)
                elif f == "f64" or f == "c128":
                    want = src.astype(np.float64).astype(FLOATS[t]) if t in ("f32", "f16") else via_double(t, src)
                else:
                    want = src.astype(np.float32).astype(FLOATS[t])
            else:
                want = src.astype(np.float64).astype(COMPLEX[t]) if f not in COMPLEX else v.astype(COMPLEX[t])
            emit(out, "convert.%s.%s" % (f, t), "k=", "convert", [(f, v)], (t, np.asarray(want)))


def via_double(t, x):
    """f64 to a format narrower than f32 rounds once, to nearest even: neighbours are compared exactly."""
    x = np.asarray(x, np.float64)
    near = x.astype(np.float32).astype(FLOATS[t])
    out = near.copy()
    codes = np.arange(1 << (8 * near.dtype.itemsize), dtype=np.uint32).astype("u%d" % near.dtype.itemsize)
    if near.dtype.itemsize == 1 and t.startswith("f4"):
        codes = codes[:16]
    if t.startswith("f6"):
        codes = codes[:64]
    table = codes.view(FLOATS[t]).astype(np.float64)
    order = [k for k in range(len(table)) if np.isfinite(table[k])]
    for k, v in enumerate(x):
        if not np.isfinite(v) or v == 0 or not np.isfinite(float(near[k])):
            continue
        best = min(order, key=lambda c: (abs(table[c] - v), int(codes[c]) & 1))
        if table[best] != float(near[k]) and abs(table[best] - v) < abs(float(near[k]) - v):
            out[k] = codes[best : best + 1].view(FLOATS[t])[0]
    return out


def reduce_precision_cases(out):
    def once(x, e, m):
        if math.isnan(x) or math.isinf(x) or x == 0:
            return x
        frac, ex = math.frexp(abs(x))
        ex -= 1
        bias = (1 << (e - 1)) - 1
        scaled = frac * 2 * (1 << m)
        r = math.floor(scaled)
        rest = scaled - r
        if rest > 0.5 or (rest == 0.5 and r & 1):
            r += 1
        v = math.ldexp(r, ex - m) if r.bit_length() + ex - m <= 1024 else math.inf
        if bias < 1023 and v >= 2.0 ** (bias + 1):
            v = math.inf
        elif v < 2.0 ** (1 - bias):
            v = 0.0
        return math.copysign(v, x)

    for t in ("f16", "bf16", "f32", "f64"):
        v = samples(t)
        for e, m in ((5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (11, 52), (2, 1)):
            w = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}[t]
            if e > w[0] or m > w[1]:
                continue
            x = v[~np.isnan(v.astype(np.float64))]
            x = x[(np.abs(x.astype(np.float64)) >= float((ml_dtypes.finfo(x.dtype) if t == "bf16" else np.finfo(x.dtype)).smallest_normal)) | (x == 0)]
            emit(out, "reduce-precision.%d.%d.%s" % (e, m, t), "k=", "reduce-precision|exponent_bits=%d,;mantissa_bits=%d" % (e, m), [(t, x)],
                 (t, np.array([once(float(y), e, m) for y in x]).astype(FLOATS[t])))


    for t in NARROW:                         # to a wider format: the value itself
        if t not in ("f16", "bf16"):
            v = samples(t)
            v = v[np.abs(v.astype(np.float32)) != 2.0**-127]
            emit(out, "reduce-precision.8.23.%s" % t, "k=", "reduce-precision|exponent_bits=8,;mantissa_bits=23", [(t, v)], (t, v))


def bitcast_cases(out):
    same = {1: ["s8", "u8", "f8e5m2", "f8e4m3fn", "f8e8m0fnu"], 2: ["s16", "u16", "f16", "bf16"], 4: ["s32", "u32", "f32"], 8: ["s64", "u64", "f64", "c64"]}
    for types in same.values():
        for f in types:
            for t in types:
                if f == t or "c64" in (f, t):
                    continue
                v = samples(f)
                emit(out, "bitcast-convert.%s.%s" % (f, t), "k=", "bitcast-convert", [(f, v)], (t, v.view(np_of(t))))


def cases():
    out = []
    for make in (integer_cases, float_cases, complex_cases, choice_cases, convert_cases, reduce_precision_cases, bitcast_cases):
        make(out)
    return out
