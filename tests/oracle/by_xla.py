"""Modules that JAX makes, with the results of real XLA:CPU: structural operations on every type and on shapes of rank 0 to 6,
empty and odd ones, and the linear algebra that goes through custom calls."""
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_allow_excess_precision=false"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

import elementwise as ew

jax.config.update("jax_enable_x64", True)

OUT = []
NAMES = {np.dtype(ew.np_of(t)): t for t in list(ew.FLOATS) + list(ew.COMPLEX) + ["pred"] + [t for t in ew.INTS if ew.INTS[t] >= 8]}
NAMES.update({np.dtype(getattr(ml_dtypes, n)): t for n, t in (("int4", "s4"), ("uint4", "u4"), ("int2", "s2"), ("uint2", "u2"))})


def line(kind, x):
    x = np.asarray(x)
    t = NAMES[x.dtype]
    raw = x.astype(np.int8) if t in ("s4", "s2") else x.astype(np.uint8) if t in ("u4", "u2") else x
    return "%s %s[%s] %s" % (kind, t, ",".join(map(str, x.shape)), np.ascontiguousarray(raw).tobytes().hex())


def add(name, tol, f, *args):
    """One case: the module that f is for these arguments, and what XLA makes of it."""
    jitted = jax.jit(f, keep_unused=True)
    try:
        text = jitted.lower(*args).compiler_ir(dialect="hlo").as_hlo_text(True)
        results = jax.tree_util.tree_leaves(jitted(*args))
    except Exception as e:  # this type is not for this operation in JAX or in XLA:CPU
        print("left out", name, str(e).splitlines()[0][:100], file=sys.stderr)
        return
    OUT.append("hlo %s %s" % (name, tol))
    for row in text.splitlines():
        row = row.split(", metadata={")[0]
        if row.strip():
            OUT.append("| " + row)
    OUT.extend(line("arg", a) for a in jax.tree_util.tree_leaves(args))
    OUT.extend(line("out", r) for r in results)


def dtype_of(t):
    return {"s4": ml_dtypes.int4, "u4": ml_dtypes.uint4}.get(t) or ew.np_of(t)


MOVED = ["pred", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz",
         "f8e4m3fnuz", "f8e5m2fnuz", "f8e3m4", "f8e4m3", "f8e8m0fnu", "c64", "c128"]
SUMMED = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64", "c64", "c128"]
ORDERED = ["pred", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64"]


def data(t, shape, seed=0):
    """Small values, so that sums stay exact where they can; floats with fractions."""
    rng = np.random.default_rng(seed * 1000 + sum(map(ord, t)) + int(np.prod(shape, dtype=np.int64)))
    dt = dtype_of(t)
    if t == "pred":
        return rng.integers(0, 2, shape).astype(bool)
    if t in ew.INTS or t in ("s4", "u4"):
        return rng.integers(0, 7, shape).astype(dt) if t[0] == "u" else rng.integers(-7, 7, shape).astype(dt)
    if t in ew.COMPLEX:
        return (rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)).astype(dt)
    v = rng.uniform(0.25, 2, shape) if t == "f8e8m0fnu" else rng.uniform(-2, 2, shape)
    return np.asarray(v).astype(np.float32).astype(dt)


def eps(t):
    return {"f16": 2e-3, "bf16": 2e-2, "f32": 2e-6, "c64": 2e-6, "f64": 1e-13, "c128": 1e-13}.get(t, 0)


def tol(t, k=1):
    e = eps(t)
    return "r%g" % (e * k) if e else "="


def movement():
    for t in MOVED:
        for shape in ((), (0,), (1,), (5,), (3, 5), (2, 0, 3), (2, 3, 5), (1, 3, 1, 2), (2, 1, 2, 1, 3), (1, 2, 1, 3, 1, 2)):
            x = data(t, shape)
            r = len(shape)
            tag = "%s.%s" % (t, "x".join(map(str, shape)) or "scalar")
            perm = tuple(reversed(range(r)))
            add("move.%s" % tag, "=", lambda a: (lax.transpose(a, perm), lax.rev(a, tuple(range(0, r, 2))), lax.reshape(a, (a.size,)),
                                                lax.broadcast_in_dim(a, (2,) + shape + (3,), tuple(range(1, r + 1)))), x)
        x, z = data(t, (4, 5)), data(t, ())
        add("pad.%s" % t, "=", lambda a, b: (lax.pad(a, b, ((1, -1, 2), (-2, 3, 0))), lax.pad(a, b, ((-2, -2, 0), (3, 0, 1)))), x, z)
        add("slice.%s" % t, "=", lambda a: (lax.slice(a, (1, 0), (4, 5), (2, 3)), lax.slice(a, (2, 2), (2, 5)), lax.concatenate([a, a[:, :2], a], 1)), x)
        add("dynamic.%s" % t, "=", lambda a, u, i, j: (lax.dynamic_slice(a, (i, j), (2, 3)), lax.dynamic_update_slice(a, u, (j, i))),
            x, data(t, (2, 2), 1), np.int32(-3), np.int32(9))
        idx = np.array([[0, 1], [3, 4], [9, -2], [2, 2]], np.int32)
        dn = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0, 1))
        add("gather.%s" % t, "=", lambda a, i: lax.gather(a, i, dn, (1, 2), mode="clip"), x, idx)
        dn2 = lax.GatherDimensionNumbers(offset_dims=(2,), collapsed_slice_dims=(), start_index_map=(1,), operand_batching_dims=(0,), start_indices_batching_dims=(1,))
        add("gather.batched.%s" % t, "=", lambda a, i: lax.gather(a, i, dn2, (1, 2), mode="clip"), x, np.array([[[0], [1], [2], [3]], [[4], [-1], [0], [9]]], np.int32))
        sn = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0, 1))
        add("scatter.%s" % t, "=", lambda a, i, u: lax.scatter(a, i, u, sn), x, np.array([[0, 1], [3, 3], [9, 0], [2, -1], [1, 0]], np.int32), data(t, (5, 2), 2))
        add("select.%s" % t, "=", lambda p, a, b: jnp.where(p, a, b), data("pred", (4, 5)), x, data(t, (4, 5), 3))
        if t not in ("pred",):
            add("control.%s" % t, "=", lambda i, a: (lax.switch(i, [lambda v: v, lambda v: lax.rev(v, (0,)), lambda v: lax.transpose(v, (1, 0)).reshape(4, 5)], a),
                                                     lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.roll(s[1], 1, 0)), (jnp.int32(0), a))[1]), np.int32(7), x)


def iotas():
    for t in SUMMED:
        add("iota.%s" % t, "=", lambda: (lax.broadcasted_iota(ew.np_of(t), (3, 4), 0), lax.broadcasted_iota(ew.np_of(t), (2, 3, 2), 1), lax.iota(ew.np_of(t), 7)))


def reductions():
    for t in SUMMED:
        for shape, axes in (((7,), (0,)), ((3, 5), (1,)), ((3, 5), (0,)), ((2, 3, 5), (0, 2)), ((2, 0, 3), (1,)), ((1, 2, 1, 3, 1, 2), (1, 3, 5)), ((), ()), ((4, 70), (1,))):
            add("sum.%s.%s.%s" % (t, "x".join(map(str, shape)), "".join(map(str, axes))), tol(t, 8), lambda a: (lax.reduce_sum_p.bind(a, axes=axes, out_sharding=None) if False else
                lax.reduce(a, np.zeros((), a.dtype)[()], lax.add, axes), lax.reduce(a, np.ones((), a.dtype)[()], lax.mul, axes)), data(t, shape))
    for t in ORDERED:
        x = data(t, (4, 5, 3))
        if t in ew.FLOATS:
            x[0, 0, 0] = np.nan
            x[1, 1, 1] = np.inf
        one = x.dtype.type
        low, high = (one(False), one(True)) if t == "pred" else (one(ew.bounds(t)[0]), one(ew.bounds(t)[1])) if t in ew.INTS else (one(-np.inf), one(np.inf))
        add("extremes.%s" % t, "=", lambda a: (lax.reduce(a, low, lax.max, (0, 2)), lax.reduce(a, high, lax.min, (1,))), x)
        add("argmax.%s" % t, "=", lambda a: (lax.argmax(a, 1, np.int32), lax.argmin(a, 0, np.int64)), x)
        add("reduce-window.max.%s" % t, "=", lambda a: lax.reduce_window(a, low, lax.max, (2, 3, 1), (1, 2, 1), ((1, 0), (1, 1), (0, 0)), (1, 1, 2), (1, 1, 1)) if t != "pred" else a, x)
        add("sort.%s" % t, "=", lambda a, b: (lax.sort(a, dimension=1), lax.sort((a, b), dimension=0, num_keys=1, is_stable=True)), x, np.arange(60, dtype=np.int32).reshape(4, 5, 3))
    for t in ["s8", "u16", "s32", "u64"]:
        x = data(t, (3, 4))
        add("bits.%s" % t, "=", lambda a: (lax.reduce(a, np.array(-1 if t[0] == "s" else (1 << ew.INTS[t]) - 1, a.dtype)[()], lax.bitwise_and, (0,)), lax.reduce(a, np.zeros((), a.dtype)[()], lax.bitwise_or, (1,)),
                                           lax.reduce(a, np.zeros((), a.dtype)[()], lax.bitwise_xor, (0, 1))), x)
    for t in ["f32", "f64", "bf16", "f16", "s32"]:
        x = data(t, (3, 6))
        add("cumulative.%s" % t, tol(t, 8), lambda a: (lax.cumsum(a, 1), lax.cumprod(a, 0), lax.cummax(a, 1, reverse=True), lax.cumlogsumexp(a, 1) if t[0] in "fb" else a), x)
        add("reduce-window.sum.%s" % t, tol(t, 8), lambda a: lax.reduce_window(a, np.zeros((), a.dtype)[()], lax.add, (2, 3), (1, 2), ((0, 1), (2, 1)), (2, 1), (1, 2)), x)
    for t in ["f32", "f64", "bf16"]:
        x = data(t, (1, 6, 6, 2))
        pool = lambda a: lax.reduce_window(a, np.array(-np.inf, a.dtype)[()], lax.max, (1, 3, 2, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (0, 0), (0, 0)))
        add("select-and-scatter.%s" % t, tol(t, 4), lambda a: jax.vjp(pool, a)[1](pool(a))[0], x)
    for t in SUMMED:
        x = data(t, (5, 3))
        sn = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        idx = np.array([[0], [4], [4], [7], [2], [-1]], np.int32)
        u = data(t, (6, 3), 5)
        add("scatter.sums.%s" % t, tol(t, 4), lambda a, i, v: (lax.scatter_add(a, i, v, sn), lax.scatter_mul(a, i, v, sn)), x, idx, u)
        if t not in ew.COMPLEX:
            add("scatter.extremes.%s" % t, "=", lambda a, i, v: (lax.scatter_min(a, i, v, sn), lax.scatter_max(a, i, v, sn)), x, idx, u)
        x2 = data(t, (3, 6), 4)
        add("top-k.%s" % t, "=", lambda a: lax.top_k(a, 4) if t not in ew.COMPLEX else a, x2)


def products():
    dots = [((3, 4), (4, 5), (((1,), (0,)), ((), ()))), ((4,), (4,), (((0,), (0,)), ((), ()))), ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
            ((4, 3, 2), (5, 2, 4), (((0,), (2,)), ((2,), (1,)))), ((2, 3, 4), (3, 4), (((1, 2), (0, 1)), ((), ()))), ((3, 0), (0, 2), (((1,), (0,)), ((), ()))),
            ((2,), (3,), (((), ()), ((), ()))), ((1, 2, 1, 3), (3, 1, 2), (((3, 1), (0, 2)), ((), ()))), ((0, 3), (3, 4), (((1,), (0,)), ((), ())))]
    for t in ["s4", "s8", "u8", "s16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64", "c64", "c128", "f8e4m3fn", "f8e5m2"]:
        for k, (a, b, dn) in enumerate(dots):
            kind = {"s4": np.int32, "f8e4m3fn": np.float32, "f8e5m2": np.float32}.get(t)
            add("dot.%s.%d" % (t, k), tol(t, 8) if not kind else "r2e-6", lambda x, y: lax.dot_general(x, y, dn, preferred_element_type=kind), data(t, a), data(t, b, 1))
    add("dot.s8.s32", "=", lambda x, y: lax.dot_general(x, y, dots[0][2], preferred_element_type=np.int32), data("s8", (3, 4)), data("s8", (4, 5)))
    add("dot.bf16.f32", "r2e-6", lambda x, y: lax.dot_general(x, y, dots[0][2], preferred_element_type=np.float32), data("bf16", (3, 4)), data("bf16", (4, 5)))
    convs = [  # lhs, rhs, strides, padding, lhs dilation, rhs dilation, dims, groups, batch groups
        ((2, 7, 3), (3, 3, 4), (1,), [(1, 1)], (1,), (1,), ("NWC", "WIO", "NWC"), 1, 1),
        ((1, 6, 5, 2), (3, 2, 2, 3), (2, 1), [(1, 2), (0, 1)], (1, 1), (1, 2), ("NHWC", "HWIO", "NHWC"), 1, 1),
        ((2, 4, 5, 5), (6, 2, 3, 3), (1, 1), [(-1, 1), (2, -1)], (2, 1), (1, 1), ("NCHW", "OIHW", "NCHW"), 2, 1),
        ((4, 5, 5, 3), (2, 2, 3, 4), (1, 2), [(0, 0), (1, 1)], (1, 1), (1, 1), ("NHWC", "HWIO", "NHWC"), 1, 2),
        ((1, 4, 4, 4, 2), (2, 2, 2, 2, 3), (1, 1, 1), [(1, 0), (0, 1), (1, 1)], (1, 2, 1), (2, 1, 1), ("NDHWC", "DHWIO", "NDHWC"), 1, 1),
        ((2, 3), (3, 4), (), [], (), (), ("NC", "IO", "NC"), 1, 1),
        ((1, 5, 6), (3, 1, 6), (1,), [(1, 1)], (1,), (1,), ("NWC", "WIO", "NWC"), 6, 1),
        ((1, 0, 2), (1, 2, 3), (1,), [(1, 1)], (1,), (1,), ("NWC", "WIO", "NWC"), 1, 1)]
    for t in ["f16", "bf16", "f32", "f64", "c64", "s32", "s8"]:
        for k, (a, b, st, pad, ld, rd, dn, g, bg) in enumerate(convs):
            add("conv.%s.%d" % (t, k), tol(t, 8), lambda x, y: lax.conv_general_dilated(x, y, st, pad, ld, rd, dn, g, bg), data(t, a), data(t, b, 1))
    # Gradients bring reversed windows and strange dimension orders.
    for t in ["f32", "f64"]:
        a, b, st, pad, ld, rd, dn, g, bg = convs[1]
        f = lambda x, y: lax.conv_general_dilated(x, y, st, pad, ld, rd, dn, g, bg)
        add("conv.gradient.%s" % t, tol(t, 16), lambda x, y: jax.vjp(f, x, y)[1](f(x, y)), data(t, a), data(t, b, 1))


def transforms():
    for shape, n in (((8,), 1), ((3, 5), 1), ((2, 4, 6), 2), ((2, 3, 4, 5), 3), ((1,), 1), ((0, 4), 1)):
        for t in ("c64", "c128"):
            x = data(t, shape)
            lens = shape[-n:]
            add("fft.%s.%s" % (t, "x".join(map(str, shape))), "r4e-6" if t == "c64" else "r1e-13",
                lambda a: (lax.fft(a, lax.FftType.FFT, lens), lax.fft(a, lax.FftType.IFFT, lens)), x)
            real = x.real.copy()
            add("rfft.%s.%s" % (t, "x".join(map(str, shape))), "r4e-6" if t == "c64" else "r1e-13", lambda a: lax.fft(a, lax.FftType.RFFT, lens), real)
            last = 2 * (shape[-1] - 1) + shape[-1] % 2
            if last > 0:
                add("irfft.%s.%s" % (t, "x".join(map(str, shape))), "r4e-6" if t == "c64" else "r1e-13", lambda a: lax.fft(a, lax.FftType.IRFFT, lens[:-1] + (last,)), x)


def schur_holds(a):
    """What makes T and Z a Schur form of A, in place of T and Z: the order of the eigenvalues, and a factor of modulus 1 on each
    vector, are left open, and in LAPACK they follow from the rounding of its iterations, which is another with every build and CPU."""
    t, z = lax.linalg.schur(a)
    zh = jnp.conj(jnp.swapaxes(z, -1, -2))
    results = [z @ t @ zh, zh @ z]                       # A and the identity
    if jnp.iscomplexobj(a):
        return results + [jnp.tril(t, -1)]               # triangular: exact zeros, as all that follow
    # Real ones: blocks of 2 on the diagonal, never overlapping, each with equal diagonal values and off-diagonal ones of opposite sign.
    d, low, high = (jnp.diagonal(t, k, -2, -1) for k in (0, -1, 1))
    return results + [jnp.tril(t, -2), low[..., 1:] * low[..., :-1], jnp.where(low != 0, d[..., 1:] - d[..., :-1], 0), jnp.maximum(low * high, 0)]


def linear_algebra():
    from jax._src.lax import linalg as la
    for t in ("f32", "f64", "c64", "c128"):
        e = "r2e-5" if t in ("f32", "c64") else "r1e-12"
        for shape in ((3, 3), (2, 4, 4), (1, 1), (0, 3, 3)):
            a = data(t, shape)
            tag = "%s.%s" % (t, "x".join(map(str, shape)))
            pos = np.matmul(a, np.conj(np.swapaxes(a, -1, -2))) + 2 * np.eye(shape[-1], dtype=a.dtype)
            add("cholesky." + tag, e, lambda x: lax.linalg.cholesky(x, symmetrize_input=False), pos.astype(a.dtype))
            well = (a + 3 * np.eye(shape[-1])).astype(a.dtype)
            b = data(t, shape[:-1] + (2,), 1)
            for left in (True, False):
                for lower in (True, False):
                    for k, (tr, co) in enumerate(((False, False), (True, False), (True, True))):
                        rhs = b if left else np.swapaxes(b, -1, -2).copy()
                        add("solve.%s.%d%d%d" % (tag, left, lower, k), e, lambda x, y: lax.linalg.triangular_solve(x, y, left_side=left, lower=lower, transpose_a=tr, conjugate_a=co, unit_diagonal=k == 1), well, rhs)
            if 0 in shape:
                continue
            add("lu." + tag, e, lambda x: lax.linalg.lu(x), a)
            add("qr." + tag, e, lambda x: lax.linalg.qr(x, full_matrices=False), a)
            add("eigh." + tag, e, lambda x: lax.linalg.eigh(x, symmetrize_input=False), pos.astype(a.dtype))
            add("svd." + tag, e, lambda x: lax.linalg.svd(x, full_matrices=False), a)
            add("svd.values." + tag, e, lambda x: lax.linalg.svd(x, compute_uv=False), a)
            add("eig." + tag, e, lambda x: lax.linalg.eig(x, compute_left_eigenvectors=True, compute_right_eigenvectors=True), a)
            add("schur." + tag, e, schur_holds, a)
            add("hessenberg." + tag, e, lambda x: lax.linalg.hessenberg(x), a)
            if shape[-1] > 1:
                add("tridiagonal." + tag, e, lambda x: lax.linalg.tridiagonal(x, lower=True), pos.astype(a.dtype))
        tall = data(t, (5, 3))
        add("qr.full." + t, e, lambda x: lax.linalg.qr(x, full_matrices=True), tall)
        add("svd.full." + t, e, lambda x: lax.linalg.svd(x, full_matrices=True), tall)
        dl, d, du, b = data(t, (4,), 1), data(t, (4,), 2) + 4, data(t, (4,), 3), data(t, (4, 2), 4)
        dl[0] = 0
        du[-1] = 0
        add("tridiagonal-solve." + t, e, lambda p, q, r, s: lax.linalg.tridiagonal_solve(p, q, r, s), dl, d.astype(dl.dtype), du, b)


def random_bits():
    for alg, key in ((lax.RandomAlgorithm.RNG_THREE_FRY, np.array([3, 0, 9, 1], np.uint32)), (lax.RandomAlgorithm.RNG_PHILOX, np.array([3, 0, 9, 5], np.uint32))):
        for dt in (np.uint8, np.uint16, np.uint32, np.uint64):
            for shape in ((), (1,), (5,), (4, 3), (3, 5), (2, 0), (2, 3, 4)):
                if dt in (np.uint8, np.uint16) and alg == lax.RandomAlgorithm.RNG_PHILOX and shape == (2, 0):
                    continue
                add("rng.%s.%s.%s" % (alg.name, np.dtype(dt).name, "x".join(map(str, shape))), "=", lambda k: lax.rng_bit_generator(k, shape, dt, algorithm=alg), key)
    key = jax.random.PRNGKey(7)
    add("random.uniform", "u2", lambda k: jax.random.uniform(k, (3, 5)), np.asarray(key))
    add("random.normal", "u8", lambda k: jax.random.normal(k, (7,)), np.asarray(key))
    add("random.permutation", "=", lambda k: jax.random.permutation(k, 11), np.asarray(key))


def flushed_denormals():
    small = np.array([1e-39, -1e-39, 2e-38, -2e-38, 1e-45, 0.0, 1.0, -3e-39], np.float32)
    other = np.array([1.0, 1.0, 0.5, 0.5, 1.0, -0.0, 1e-39, 2.0], np.float32)
    add("denormals.arithmetic", "=", lambda a, b: (a * b, a + b, a - b), small, other)
    add("denormals.moves", "=", lambda a, b: (lax.rev(a, (0,)), jnp.concatenate([a, b]), lax.bitcast_convert_type(a, np.int32)), small, other)


def cases():
    for make in (movement, iotas, reductions, products, transforms, linear_algebra, random_bits, flushed_denormals):
        make()
    return OUT
