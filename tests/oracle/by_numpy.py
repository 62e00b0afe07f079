"""Modules that XLA:CPU does not run, or that a single process cannot, with results by NumPy: ragged and scaled dots, scans,
top-k, dynamic shapes, stochastic conversions, calls into libraries, collectives over simulated devices."""
import ml_dtypes
import numpy as np

import elementwise as ew

OUT = []


def shape_of(t, x):
    return "%s[%s]" % (t, ",".join(map(str, np.shape(x))))


def add(name, tol, text, args, outs):
    """args, outs: pairs (type, array)."""
    OUT.append("hlo %s %s" % (name, tol))
    OUT.append("| HloModule m" + ("" if not text.startswith(",") else text.split("\n", 1)[0]))
    body = text if not text.startswith(",") else text.split("\n", 1)[1]
    OUT.extend("| " + row for row in body.strip("\n").splitlines())
    for kind, values in (("arg", args), ("out", outs)):
        for t, x in values:
            x = np.asarray(x).astype(ew.np_of(t))
            OUT.append("%s %s %s" % (kind, shape_of(t, x), x.tobytes().hex()))


def data(t, shape, seed=0, scale=1.0):
    rng = np.random.default_rng(seed * 7919 + sum(map(ord, t)) + int(np.prod(shape, dtype=np.int64)))
    if t in ew.INTS:
        return rng.integers(0 if t[0] == "u" else -5, 6, shape).astype(ew.np_of(t))
    if t in ew.COMPLEX:
        return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(ew.np_of(t))
    if t == "f8e8m0fnu":
        return (2.0 ** rng.integers(-3, 4, shape)).astype(ew.np_of(t))
    return (rng.uniform(-2, 2, shape) * scale).astype(np.float32).astype(ew.np_of(t))


def entry(args, root, extra=""):
    rows = ["%s = %s parameter(%d)" % ("abcdefgh"[k], shape_of(t, x), k) for k, (t, x) in enumerate(args)]
    return "%sENTRY e {\n  %s\n  %s\n}" % (extra, "\n  ".join(rows), root)


# ---- ragged-dot --------------------------------------------------------------------------------------------------------
def ragged():
    for t in ("f32", "bf16", "f64", "s32", "s8"):
        tol = {"f32": "r1e-6", "bf16": "u1", "f64": "r1e-14"}.get(t, "=")
        for sizes in ([2, 0, 3], [5, 1, 1], [0, 0, 0], [1, 2, 1]):
            a, b, g = data(t, (7, 4)), data(t, (3, 4, 5), 1), np.array(sizes)
            want, start = np.zeros((7, 5)), 0
            for k, n in enumerate(sizes):
                want[start:start + n] = wide(a)[start:start + n] @ wide(b)[k]
                start += n
            args = [(t, a), (t, b), ("s32", g)]
            add("ragged-dot.rows.%s.%s" % (t, sum(sizes)), tol, entry(args, "ROOT r = %s[7,5] ragged-dot(a, b, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}" % t),
                args, [(t, cast(t, want))])
            a, b = data(t, (7, 4)), data(t, (7, 5), 1)
            want, start = np.zeros((3, 4, 5)), 0
            for k, n in enumerate(sizes):
                want[k] = wide(a)[start:start + n].T @ wide(b)[start:start + n]
                start += n
            args = [(t, a), (t, b), ("s64", g)]
            add("ragged-dot.contracted.%s.%s" % (t, sum(sizes)), tol, entry(args, "ROOT r = %s[3,4,5] ragged-dot(a, b, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}" % t), args, [(t, cast(t, want))])
        # Batches with sizes of their own; then the same sizes for all.
        a, b, g = data(t, (2, 6, 3)), data(t, (2, 2, 3, 4), 1), np.array([[2, 3], [4, 2]])
        for tag, sizes in (("own", g), ("same", g[0])):
            want = np.zeros((2, 6, 4))
            for q in range(2):
                start = 0
                for k, n in enumerate(g[q] if tag == "own" else sizes):
                    want[q, start:start + n] = wide(a)[q, start:start + n] @ wide(b)[k, q]
                    start += n
            args = [(t, a), (t, b), ("s32", sizes)]
            add("ragged-dot.batched.%s.%s" % (tag, t), tol, entry(args, "ROOT r = %s[2,6,4] ragged-dot(a, b, c), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}" % t),
                args, [(t, cast(t, want))])
        a, b, g = data(t, (2, 6, 3)), data(t, (3, 3, 4), 1), np.array([[2, 1, 3], [0, 4, 1]])
        want = np.zeros((2, 6, 4))
        for q in range(2):
            start = 0
            for k, n in enumerate(g[q]):
                want[q, start:start + n] = wide(a)[q, start:start + n] @ wide(b)[k]
                start += n
        args = [(t, a), (t, b), ("s32", g)]
        add("ragged-dot.inner.%s" % t, tol, entry(args, "ROOT r = %s[2,6,4] ragged-dot(a, b, c), lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={0}" % t), args, [(t, cast(t, want))])
        a, b, g = data(t, (2, 6, 3)), data(t, (2, 6, 4), 1), np.array([[2, 3], [4, 2]])
        want = np.zeros((2, 2, 3, 4))
        for q in range(2):
            start = 0
            for k, n in enumerate(g[q]):
                want[k, q] = wide(a)[q, start:start + n].T @ wide(b)[q, start:start + n]
                start += n
        args = [(t, a), (t, b), ("s32", g)]
        add("ragged-dot.contracted.batched.%s" % t, tol, entry(args, "ROOT r = %s[2,2,3,4] ragged-dot(a, b, c), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={1}" % t),
            args, [(t, cast(t, want))])


def wide(x):
    return x.astype(np.complex128) if np.iscomplexobj(x) else x.astype(np.int64) if np.issubdtype(x.dtype, np.integer) else x.astype(np.float64)


def cast(t, x):
    if t in ew.INTS:
        return np.array([ew.wrap(t, int(v)) for v in np.asarray(x).ravel()]).reshape(np.shape(x)).astype(ew.np_of(t))
    if t in ew.NARROW and t not in ("f16", "bf16"):
        return np.asarray(x, np.float32).astype(ew.np_of(t))
    return np.asarray(x).astype(np.float32).astype(ew.np_of(t)) if t in ("f16", "bf16") else np.asarray(x).astype(ew.np_of(t))


# ---- scaled-dot --------------------------------------------------------------------------------------------------------
def scaled():
    for t in ("f8e4m3fn", "f8e5m2", "f4e2m1fn", "bf16"):
        for st in ("f8e8m0fnu", "f32", "bf16"):
            for batch in ((), (2,)):
                n = len(batch)
                a, b = data(t, batch + (3, 8)), data(t, batch + (5, 8), 1)
                sa, sb = data(st, batch + (3, 2)), data(st, batch + (5, 4), 1)
                want = np.matmul(wide(a) * np.repeat(wide(sa), 4, -1), np.swapaxes(wide(b) * np.repeat(wide(sb), 2, -1), -1, -2))
                args = [(t, a), (t, b), (st, sa), (st, sb)]
                dims = "lhs_contracting_dims={%d}, rhs_contracting_dims={%d}" % (n + 1, n + 1)
                if n:
                    dims = "lhs_batch_dims={0}, rhs_batch_dims={0}, " + dims
                add("scaled-dot.%s.%s.%d" % (t, st, n), "r1e-6", entry(args, "ROOT r = %s scaled-dot(a, b, c, d), %s" % (shape_of("f32", want), dims)), args, [("f32", want)])
                if t != "bf16":
                    call = 'ROOT r = %s custom-call(a, b, c, d), custom_call_target="__op$block_scaled_dot"' % shape_of("f32", want)
                    add("block-scaled-dot.%s.%s.%d" % (t, st, n), "r1e-6", entry(args, call), args, [("f32", want)])


# ---- scan, top-k, dynamic shapes, stochastic-convert ----------------------------------------------------------------------
def sequences():
    for t in ("s32", "u8", "f32", "f64"):
        x = data(t, (6,))
        for reverse in (False, True):
            order = x[::-1] if reverse else x
            run = np.cumsum(wide(order))
            want = cast(t, run[::-1] if reverse else run)
            step = "f {\n  x = %s[] parameter(0)\n  c = %s[] parameter(1)\n  y = %s[] add(c, x)\n  ROOT t = (%s[], %s[]) tuple(y, y)\n}\n" % ((t,) * 5)
            args = [(t, x), (t, np.zeros(()))]
            add("scan.%s.%d" % (t, reverse), "r1e-6" if t == "f32" else "r1e-14" if t == "f64" else "=",
                entry(args, "ROOT r = (%s[6], %s[]) scan(a, b), dimensions={0}, num_carries=1, is_reverse=%s, to_apply=f" % (t, t, str(reverse).lower()), step), args,
                [(t, want), (t, cast(t, run[-1]))])
    for t in ("f32", "bf16", "s32", "u16", "f64"):
        x = data(t, (3, 7))
        for largest in (True, False):
            key = -wide(x) if largest else wide(x)
            at = np.argsort(key, axis=1, kind="stable")[:, :4]
            args = [(t, x)]
            add("topk.%s.%d" % (t, largest), "=", entry(args, "ROOT r = (%s[3,4], s32[3,4]) topk(a), k=4, largest=%s" % (t, str(largest).lower())), args, [(t, np.take_along_axis(x, at, 1)), ("s32", at)])
    x = data("f32", (4, 5))
    add_comp = "add {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n}\n"
    for n in (0, 1, 3, 4):
        args = [("f32", x), ("s32", np.array(n))]
        add("dynamic.reduce.%d" % n, "r1e-6", entry(args, "d = f32[<=4,5] set-dimension-size(a, b), dimensions={0}\n  z = f32[] constant(0)\n  m = f32[<=4,5] multiply(d, d)\n  s = f32[5] reduce(m, z), dimensions={0}, to_apply=add\n  k = s32[] get-dimension-size(m), dimensions={0}\n  ROOT r = (f32[5], s32[]) tuple(s, k)", add_comp),
            args, [("f32", (wide(x)[:n] ** 2).sum(0)), ("s32", np.array(n))])
    v = np.array([1.25, -1.25, 2.5, 100.75, -128.9, 127.2, 0.0, np.nan, 1e9, -1e9], np.float32)
    bits = np.array([0, 0x3fffffff, 0x80000000, 0xbfffffff, 0, 0xffffffff, 5, 7, 9, 11], np.uint32)
    whole = np.floor(np.abs(v.astype(np.float64)))
    part = np.abs(v.astype(np.float64)) - whole
    up = bits < np.floor(np.nan_to_num(part) * 2.0**32)
    for t in ("s8", "s16", "s32"):
        lo, hi = ew.bounds(t)
        want = [0 if np.isnan(a) else int(min(max(np.sign(a) * (w + u), lo), hi)) for a, w, u in zip(v, whole, up)]
        args = [("f32", v), ("u32", bits)]
        add("stochastic-convert.%s" % t, "=", entry(args, "ROOT r = %s[10] stochastic-convert(a, b)" % t), args, [(t, np.array(want))])


# ---- library calls ---------------------------------------------------------------------------------------------------------
def gelu(x):  # 1 + tanh(z) = 2 / (1 + exp(-2z)), without its cancellation
    return x / (1 + np.exp(-2 * 0.7978845608028654 * (x + 0.044715 * x**3)))


def libraries():
    from scipy import special
    cfg = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}'
    acts = {"DEFAULT": lambda x: x, "BIAS": lambda x: x, "RELU": lambda x: np.maximum(x, 0), "BIAS_RELU": lambda x: np.maximum(x, 0), "GELU": gelu, "BIAS_GELU": gelu, "SILU": lambda x: x / (1 + np.exp(-x))}
    for t in ("f32", "bf16", "f16", "f64"):
        tol = {"f32": "r1e-6", "f64": "r1e-14"}.get(t, "u1")
        a, b, c, bias = data(t, (3, 4)), data(t, (4, 5), 1), data(t, (3, 5), 2), data(t, (5,), 3)
        for ep, f in acts.items():
            for beta in (0, 1):
                args = [(t, a), (t, b)] + ([(t, c)] if beta else []) + ([(t, bias)] if "BIAS" in ep else [])
                x = 0.5 * (wide(a) @ wide(b)) + beta * wide(c) + (wide(bias) if "BIAS" in ep else 0)
                names = ", ".join("abcd"[: len(args)])
                config = '{"gemm_backend_config":{"alpha_real":0.5,"alpha_imag":0,"beta":%d,%s,"epilogue":"%s"}}' % (beta, cfg, ep)
                add("cublaslt.%s.%s.%d" % (ep, t, beta), tol, entry(args, 'ROOT r = (%s[3,5], s8[16]) custom-call(%s), custom_call_target="__cublas$lt$matmul", backend_config=%s' % (t, names, config)), args,
                    [(t, cast(t, f(x))), ("s8", np.zeros(16))])
        args = [(t, a), (t, b)]
        add("cublas.%s" % t, tol, entry(args, 'ROOT r = %s[3,5] custom-call(a, b), custom_call_target="__cublas$gemm", backend_config={"alpha_real":1,"alpha_imag":0,"beta":0,%s}' % (t, cfg)), args, [(t, cast(t, wide(a) @ wide(b)))])
    for t in ("c64", "c128"):
        a, b, c = data(t, (3, 4)), data(t, (4, 5), 1), data(t, (3, 5), 2)
        args = [(t, a), (t, b), (t, c)]
        add("cublas.%s" % t, "r1e-6" if t == "c64" else "r1e-14", entry(args, 'ROOT r = %s[3,5] custom-call(a, b, c), custom_call_target="__cublas$gemm", backend_config={"alpha_real":2,"alpha_imag":-1,"beta":0.5,%s}' % (t, cfg)), args,
            [(t, cast(t, (2 - 1j) * (wide(a) @ wide(b)) + 0.5 * wide(c)))])
    a, b = data("f8e4m3fn", (3, 4)), data("f8e4m3fn", (4, 5), 1)
    args = [("f8e4m3fn", a), ("f8e4m3fn", b), ("f32", np.array(2.0)), ("f32", np.array(0.25)), ("f32", np.array(300.0))]
    want = np.clip(0.5 * (wide(a) @ wide(b)) * 300, -448, 448)
    add("cublaslt.f8", "u1", entry(args, 'ROOT r = (f8e4m3fn[3,5], s8[4]) custom-call(a, b, c, d, e), custom_call_target="__cublas$lt$matmul$f8", backend_config={"gemm_backend_config":{"alpha_real":1,"beta":0,%s,"epilogue":"DEFAULT"}}' % cfg), args,
        [("f8e4m3fn", cast("f8e4m3fn", want)), ("s8", np.zeros(4))])
    convolutions()
    norms()
    sorts()
    onednn(special)
    bits()


def conv2d(x, k, pads, strides, dil, groups=1):
    """NHWC by HWIO, written out."""
    (pt, pb), (pl, pr) = pads
    x = np.pad(wide(x), ((0, 0), (pt, pb), (pl, pr), (0, 0)))
    kh, kw, ki, ko = k.shape
    oh = (x.shape[1] - (kh - 1) * dil[0] - 1) // strides[0] + 1
    ow = (x.shape[2] - (kw - 1) * dil[1] - 1) // strides[1] + 1
    y = np.zeros((x.shape[0], oh, ow, ko))
    per = ko // groups
    for i in range(oh):
        for j in range(ow):
            for p in range(kh):
                for q in range(kw):
                    for o in range(ko):
                        g = o // per
                        y[:, i, j, o] += x[:, i * strides[0] + p * dil[0], j * strides[1] + q * dil[1], g * ki:(g + 1) * ki] @ wide(k)[p, q, :, o]
    return y


def convolutions():
    attrs = "window={size=3x2 stride=2x1 pad=1_1x0_1 rhs_dilate=1x2}, dim_labels=b01f_01io->b01f"
    for t in ("f32", "bf16", "f64"):
        tol = {"f32": "r1e-6", "f64": "r1e-14"}.get(t, "u1")
        for groups in (1, 2):
            x, k = data(t, (2, 5, 6, 4)), data(t, (3, 2, 4 // groups, 6), 1)
            y = conv2d(x, k, ((1, 1), (0, 1)), (2, 1), (1, 2), groups)
            g = ", feature_group_count=%d" % groups
            args = [(t, x), (t, k)]
            add("cudnn.forward.%s.%d" % (t, groups), tol, entry(args, 'ROOT r = (%s, u8[0]) custom-call(a, b), %s%s, custom_call_target="__cudnn$convForward"' % (shape_of(t, y), attrs, g)), args, [(t, cast(t, y)), ("u8", np.zeros(0))])
            bias, side = data("f32" if t != "f64" else "f64", (6,), 2), data(t, y.shape, 3)
            bt = "f32" if t != "f64" else "f64"
            for mode, f in (("kNone", lambda v: v), ("kRelu", lambda v: np.maximum(v, 0)), ("kRelu6", lambda v: np.clip(v, 0, 6)), ("kElu", lambda v: np.where(v > 0, v, np.expm1(v))), ("kLeakyRelu", lambda v: np.where(v > 0, v, 0.25 * v))):
                args = [(t, x), (t, k), (bt, bias), (t, side)]
                want = f(0.5 * y + 2 * wide(side) + wide(bias))
                add("cudnn.fused.%s.%s.%d" % (mode, t, groups), tol, entry(args, 'ROOT r = (%s, u8[0]) custom-call(a, b, c, d), %s%s, custom_call_target="__cudnn$convBiasActivationForward", backend_config={"cudnn_conv_backend_config":{"conv_result_scale":0.5,"side_input_scale":2,"activation_mode":"%s","leakyrelu_alpha":0.25}}'
                                                                                                             % (shape_of(t, y), attrs, g, mode)), args, [(t, cast(t, want)), ("u8", np.zeros(0))])
            # Gradients by the definition: the forward pass is linear in each factor.
            dy = data(t, y.shape, 4)
            dx, dk = np.zeros(x.shape), np.zeros(k.shape)
            for n in range(x.size):
                one = np.zeros(x.size)
                one[n] = 1
                dx.flat[n] = (conv2d(one.reshape(x.shape), k, ((1, 1), (0, 1)), (2, 1), (1, 2), groups) * wide(dy)).sum() if t == "f32" else 0
            for n in range(k.size):
                one = np.zeros(k.size)
                one[n] = 1
                dk.flat[n] = (conv2d(x, one.reshape(k.shape), ((1, 1), (0, 1)), (2, 1), (1, 2), groups) * wide(dy)).sum() if t == "f32" else 0
            if t != "f32":
                continue
            args = [(t, dy), (t, k)]
            add("cudnn.input.%s.%d" % (t, groups), tol, entry(args, 'ROOT r = (%s, u8[0]) custom-call(a, b), %s%s, custom_call_target="__cudnn$convBackwardInput"' % (shape_of(t, x), attrs, g)), args, [(t, dx), ("u8", np.zeros(0))])
            args = [(t, x), (t, dy)]
            add("cudnn.filter.%s.%d" % (t, groups), tol, entry(args, 'ROOT r = (%s, u8[0]) custom-call(a, b), %s%s, custom_call_target="__cudnn$convBackwardFilter"' % (shape_of(t, k), attrs, g)), args, [(t, dk), ("u8", np.zeros(0))])
    x, k = data("f32", (2, 5, 6, 4)), data("f32", (3, 2, 4, 6), 1)
    y = np.maximum(conv2d(x, k, ((1, 1), (0, 1)), (2, 1), (1, 2)) + wide(data("f32", (6,), 2)), 0)
    config = '{"onednn_conv_config":{"input":{"dims":"4","data":{"batch_dim":"0","feature_dim":"3","spatial_dims":["2","3"]}},"kernel":{"dims":"4","filter":{"input_feature_dim":"2","output_feature_dim":"3","spatial_dims":["1","2"]}},"output":{"dims":"4","data":{"batch_dim":"0","feature_dim":"3","spatial_dims":["2","3"]}},"window":{"size":["3","2"],"pad_left":["2","1"],"pad_right":["2","2"],"strides":["3","2"],"window_dilations":["2","3"]},"fusions":{"ops":["BIAS","RELU"]},"feature_groups":"1"}}'
    args = [("f32", x), ("f32", k), ("f32", data("f32", (6,), 2))]
    add("onednn.convolution", "r1e-6", entry(args, 'ROOT r = %s custom-call(a, b, c), custom_call_target="__onednn$convolution", backend_config=%s' % (shape_of("f32", y), config)), args, [("f32", y)])


def norms():
    x, scale, shift = data("f32", (3, 4, 2)), data("f32", (4,), 1), data("f32", (4,), 2)
    mean, var = wide(x).mean((0, 2)), wide(x).var((0, 2))
    inv = 1 / np.sqrt(var + 0.125)
    col = lambda v: v[None, :, None]
    consts = "e = f32[] constant(0.125)\n  f = s64[] constant(1)\n  "
    norm = (wide(x) - col(mean)) * col(inv) * col(wide(scale)) + col(wide(shift))
    args = [("f32", x), ("f32", scale), ("f32", shift)]
    add("cudnn.norm.training", "r2e-6", entry(args, consts + 'ROOT r = (f32[3,4,2], f32[4], f32[4]) custom-call(a, b, c, e, f), custom_call_target="__cudnn$batchNormalizationForwardTraining"'), args, [("f32", norm), ("f32", mean), ("f32", inv)])
    args = [("f32", x), ("f32", scale), ("f32", shift), ("f32", mean), ("f32", var)]
    add("cudnn.norm.inference", "r2e-6", entry(args, 'k = f32[] constant(0.125)\n  l = s64[] constant(1)\n  ROOT r = f32[3,4,2] custom-call(a, b, c, d, e, k, l), custom_call_target="__cudnn$batchNormalizationForwardInference"'), args, [("f32", norm)])
    dy = data("f32", (3, 4, 2), 5)
    xhat = (wide(x) - col(mean)) * col(inv)
    dshift, dscale = wide(dy).sum((0, 2)), (wide(dy) * xhat).sum((0, 2))
    dx = col(wide(scale) * inv) * (wide(dy) - col(dshift) / 6 - xhat * col(dscale) / 6)
    args = [("f32", x), ("f32", scale), ("f32", mean), ("f32", inv), ("f32", dy)]
    add("cudnn.norm.backward", "r1e-5", entry(args, 'k = f32[] constant(0.125)\n  l = s64[] constant(1)\n  ROOT r = (f32[3,4,2], f32[4], f32[4]) custom-call(a, b, c, d, e, k, l), custom_call_target="__cudnn$batchNormalizationBackward"'), args,
        [("f32", dx), ("f32", dscale), ("f32", dshift)])
    args = [("f32", x), ("f32", scale), ("f32", shift)]
    add("batch-norm.training", "r2e-6", entry(args, "ROOT r = (f32[3,4,2], f32[4], f32[4]) batch-norm-training(a, b, c), epsilon=0.125, feature_index=1"), args, [("f32", norm), ("f32", mean), ("f32", var)])
    args = [("f32", x), ("f32", scale), ("f32", mean), ("f32", var), ("f32", dy)]
    add("batch-norm.grad", "r1e-5", entry(args, "ROOT r = (f32[3,4,2], f32[4], f32[4]) batch-norm-grad(a, b, c, d, e), epsilon=0.125, feature_index=1"), args, [("f32", dx), ("f32", dscale), ("f32", dshift)])


def sorts():
    for t in ("u8", "s16", "u32", "s64", "f16", "bf16", "f32", "f64"):
        x, y = data(t, (2, 9)), np.arange(18).reshape(2, 9)
        for down in (False, True):
            at = np.argsort(-wide(x) if down else wide(x), axis=1, kind="stable")
            args = [(t, x), ("u32", y)]
            add("cub.%s.%d" % (t, down), "=", entry(args, 'ROOT r = (%s[2,9], u32[2,9], u8[8]) custom-call(a, b), custom_call_target="xla.gpu.ext.cub_sort_pairs", backend_config={"descending":%s}' % (t, str(down).lower())), args,
                [(t, np.take_along_axis(x, at, 1)), ("u32", np.take_along_axis(y, at, 1)), ("u8", np.zeros(8))])


def onednn(special):
    for t in ("f32", "bf16"):
        tol = "r1e-6" if t == "f32" else "u1"
        a, b, bias, other = data(t, (2, 3, 4)), data(t, (2, 5, 4), 1), data(t, (5,), 2), data(t, (2, 3, 5), 3)
        x = np.matmul(wide(a), np.swapaxes(wide(b), -1, -2))
        chains = {"": ([], x), "BIAS": ([(t, bias)], x + wide(bias)), "BIAS,GELU_ERF": ([(t, bias)], 0.5 * (x + wide(bias)) * (1 + special.erf((x + wide(bias)) / np.sqrt(2)))),
                  "RELU,BINARY_ADD": ([(t, other)], np.maximum(x, 0) + wide(other)), "TANH": ([], np.tanh(x)), "SIGMOID": ([], 1 / (1 + np.exp(-x))), "SWISH": ([], x / (1 + np.exp(-x))),
                  "LINEAR": ([], 0.5 * x), "GELU_TANH": ([], gelu(x)), "RELU6": ([], np.clip(x, 0, 6)), "ELU": ([], np.where(x > 0, x, np.expm1(x)))}
        for ops, (more, want) in chains.items():
            args = [(t, a), (t, b)] + more
            words = ",".join('"%s"' % w for w in ops.split(",") if w)
            config = '{"onednn_matmul_config":{"transpose_a":false,"transpose_b":true,"optimization_config":{"user_scratchpad":false},"fusions":{"ops":[%s],"alpha_typecast":1056964608}}}' % words
            add("onednn.matmul.%s.%s" % (ops.replace(",", "+") or "plain", t), tol, entry(args, 'ROOT r = %s[2,3,5] custom-call(%s), custom_call_target="__onednn$matmul", backend_config=%s' % (t, ", ".join("abc"[: len(args)]), config)), args, [(t, cast(t, want))])
        x = data(t, (3, 4, 5))
        for axis in range(3):
            z = np.exp(wide(x) - wide(x).max(axis, keepdims=True))
            args = [(t, x)]
            add("onednn.softmax.%d.%s" % (axis, t), tol, entry(args, 'ROOT r = %s[3,4,5] custom-call(a), custom_call_target="__onednn$softmax", backend_config={"onednn_softmax_config":{"softmax_axis":%d}}' % (t, axis)), args, [(t, cast(t, z / z.sum(axis, keepdims=True)))])
        g, s = data(t, (5,), 1), data(t, (5,), 2)
        eps = float(np.array([925353388], np.uint32).view(np.float32)[0])
        y = (wide(x) - wide(x).mean(-1, keepdims=True)) / np.sqrt(wide(x).var(-1, keepdims=True) + eps) * wide(g) + wide(s)
        args = [(t, x), (t, g), (t, s)]
        add("onednn.layernorm.%s" % t, tol, entry(args, 'ROOT r = %s[3,4,5] custom-call(a, b, c), custom_call_target="__onednn$layernorm", backend_config={"onednn_layer_norm_config":{"rescale":"SCALE_AND_SHIFT","epsilon_typecast":"925353388"}}' % t), args, [(t, cast(t, y))])


def threefry(k, x):
    """Salmon et al. 2011, 20 rounds."""
    m = 0xFFFFFFFF
    ks = [k[0], k[1], k[0] ^ k[1] ^ 0x1BD11BDA]
    a, b = (x[0] + ks[0]) & m, (x[1] + ks[1]) & m
    for g in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[g % 2]:
            a = (a + b) & m
            b = ((b << r | b >> (32 - r)) & m) ^ a
        a, b = (a + ks[(g + 1) % 3]) & m, (b + ks[(g + 2) % 3] + g + 1) & m
    return a, b


def bits():
    k, x = [0x13198A2E, 0x03707344], np.arange(6, dtype=np.uint32) * 77
    y = x[::-1].copy()
    want = [threefry(k, (int(p), int(q))) for p, q in zip(x, y)]
    args = [("u32", np.array(k[0])), ("u32", np.array(k[1])), ("u32", x), ("u32", y)]
    for target in ("cu_threefry2x32_ffi", "cpu_threefry2x32"):
        add("threefry.%s" % target, "=", entry(args, 'ROOT r = (u32[6], u32[6]) custom-call(a, b, c, d), custom_call_target="%s"' % target), args, [("u32", np.array([w[0] for w in want])), ("u32", np.array([w[1] for w in want]))])
    v = np.array([1, 2**40 + 5, 2**63], np.uint64)
    args = [("u64", v)]
    add("x64", "=", entry(args, 'l = u32[3] custom-call(a), custom_call_target="X64SplitLow"\n  h = u32[3] custom-call(a), custom_call_target="X64SplitHigh"\n  ROOT r = u64[3] custom-call(l, h), custom_call_target="X64Combine"'), args, [("u64", v)])
    v = data("s32", (2, 5))
    args = [("s32", v)]
    add("rotate", "=", entry(args, 'ROOT r = s32[2,5] custom-call(a), custom_call_target="_SPMDInternalOp_RotateRight", backend_config="dimension=1,amount=2"'), args, [("s32", np.roll(v, 2, 1))])


# ---- collectives -------------------------------------------------------------------------------------------------------------
def devices():
    """Four partitions; each starts from the argument plus 10 times its number, all end with an all-gather of their results."""
    n = 4
    for t in ("s32", "f32", "u8", "bf16", "f64", "s64"):
        x = data(t, (4, 2))
        mine = [cast(t, wide(x) + 10 * p) for p in range(n)]
        start = "p = u32[] partition-id()\n  i = %s[] convert(p)\n  ten = %s[] constant(10)\n  j = %s[] multiply(i, ten)\n  k = %s[4,2] broadcast(j), dimensions={}\n  v = %s[4,2] add(a, k)\n  " % ((t,) * 5)
        comb = "".join("%s {\n  x = %s[] parameter(0)\n  y = %s[] parameter(1)\n  ROOT z = %s[] %s(x, y)\n}\n" % (name, t, t, t, op) for name, op in (("sum", "add"), ("max", "maximum"), ("prod", "multiply")))
        groups = {"{{0,1,2,3}}": [[0, 1, 2, 3]], "{{0,2},{3,1}}": [[0, 2], [3, 1]], "[2,2]<=[2,2]T(1,0)": [[0, 2], [1, 3]], "[2,2]<=[4]": [[0, 1], [2, 3]]}

        def case(name, op, per_device, shape, channel=True):
            gathered = np.stack([np.asarray(v) for v in per_device])
            dims = ",".join(map(str, shape))
            text = ", num_partitions=4\n" + entry([(t, x)], start + "c = %s[%s] %s\n  u = %s[1%s] reshape(c)\n  ROOT r = %s[4%s] all-gather(u), channel_id=99, use_global_device_ids=true, replica_groups={{0,1,2,3}}, dimensions={0}"
                                                  % (t, dims, op, t, "," + dims if dims else "", t, "," + dims if dims else ""), comb)
            add("%s.%s" % (name, t), "=" if t in ew.INTS else "r1e-6" if t == "f32" else "r1e-14" if t == "f64" else "u2", text, [(t, x)], [(t, cast(t, gathered))])

        for k, (text, lists) in enumerate(groups.items()):
            where = {d: g for g in lists for d in g}
            g = "channel_id=1, use_global_device_ids=true, replica_groups=" + text
            for name, f in (("sum", lambda v: np.sum(v, 0)), ("max", lambda v: np.max(v, 0))):
                case("all-reduce.%s.%d" % (name, k), "all-reduce(v), %s, to_apply=%s" % (g, name), [f([wide(mine[q]) for q in where[p]]) for p in range(n)], (4, 2))
            size = len(lists[0])
            sums = {p: np.sum([wide(mine[q]) for q in where[p]], 0) for p in range(n)}
            case("reduce-scatter.%d" % k, "reduce-scatter(v), %s, dimensions={0}, to_apply=sum" % g, [np.split(sums[p], size, 0)[where[p].index(p)] for p in range(n)], (4 // size, 2))
            case("all-gather.%d" % k, "all-gather(v), %s, dimensions={1}" % g, [np.concatenate([mine[q] for q in where[p]], 1) for p in range(n)], (4, 2 * size))
            h = "channel_id=1, replica_groups=" + text
            case("all-to-all.%d" % k, "all-to-all(v), %s, dimensions={0}" % h, [np.concatenate([np.split(mine[q], size, 0)[where[p].index(p)] for q in where[p]], 0) for p in range(n)], (4, 2))
            case("collective-broadcast.%d" % k, "collective-broadcast(v), %s" % h, [mine[where[p][0]] for p in range(n)], (4, 2))
        pairs = [(0, 1), (1, 3), (3, 0)]
        to = {b: a for a, b in pairs}
        text = ",".join("{%d,%d}" % q for q in pairs)
        case("collective-permute", "collective-permute(v), channel_id=1, source_target_pairs={%s}" % text, [mine[to[p]] if p in to else np.zeros((4, 2)) for p in range(n)], (4, 2))
        attr = 'frontend_attributes={_xla_send_recv_source_target_pairs="{%s}"}' % text
        body = start + "tok = token[] after-all()\n  rv = (%s[4,2], u32[], token[]) recv(tok), channel_id=5, %s\n  sd = (%s[4,2], u32[], token[]) send(v, tok), channel_id=5, %s\n  rd = (%s[4,2], token[]) recv-done(rv), channel_id=5\n  se = token[] send-done(sd), channel_id=5\n  " % (t, attr, t, attr, t)
        gathered = np.stack([mine[to[p]] if p in to else np.zeros((4, 2), mine[0].dtype) for p in range(n)])
        add("send-recv.%s" % t, "=", ", num_partitions=4\n" + entry([(t, x)], body + "c = %s[4,2] get-tuple-element(rd), index=0\n  u = %s[1,4,2] reshape(c)\n  ROOT r = %s[4,4,2] all-gather(u), channel_id=99, use_global_device_ids=true, replica_groups={{0,1,2,3}}, dimensions={0}" % (t, t, t)), [(t, x)], [(t, gathered)])
        # Ragged: device p sends `count[p][q]` rows to q, which stack them in order of the senders.
        count = np.array([[1, 0, 2, 1], [0, 1, 1, 2], [2, 1, 0, 1], [1, 1, 1, 0]])
        into = np.vstack([np.zeros(4, int), np.cumsum(count, 0)[:-1]])
        outof = np.hstack([np.zeros((4, 1), int), np.cumsum(count, 1)[:, :-1]])
        rows = lambda m: "{" + ",".join("{" + ",".join(map(str, r)) + "}" for r in m.tolist()) + "}"
        want = []
        for q in range(n):
            out = np.zeros((5, 2))
            for p in range(n):
                out[into[p][q]:into[p][q] + count[p][q]] = wide(mine[p])[outof[p][q]:outof[p][q] + count[p][q]]
            want.append(out)
        tables = "z0 = s32[] constant(0)\n  q = s32[] convert(p)\n  "
        for nm, m in (("from", outof), ("size", count), ("to", into), ("got", count.T)):
            tables += "t%s = s32[4,4] constant(%s)\n  d%s = s32[1,4] dynamic-slice(t%s, q, z0), dynamic_slice_sizes={1,4}\n  n%s = s32[4] reshape(d%s)\n  " % (nm, rows(m), nm, nm, nm, nm)
        tables += "zero = %s[] constant(0)\n  empty = %s[5,2] broadcast(zero), dimensions={}\n  " % (t, t)
        text = ", num_partitions=4\n" + entry([(t, x)], start + tables + "c = %s[5,2] ragged-all-to-all(v, empty, nfrom, nsize, nto, ngot), channel_id=3, replica_groups={{0,1,2,3}}\n  u = %s[1,5,2] reshape(c)\n  ROOT r = %s[4,5,2] all-gather(u), channel_id=99, use_global_device_ids=true, replica_groups={{0,1,2,3}}, dimensions={0}" % (t, t, t))
        add("ragged-all-to-all.%s" % t, "=", text, [(t, x)], [(t, cast(t, np.stack(want)))])


def cases():
    for make in (ragged, scaled, sequences, libraries, devices):
        make()
    return OUT
