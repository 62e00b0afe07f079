"""Programs that jax.export exports with symbolic sizes: read by hlosh with sizes stated, they compute what JAX does.

usage: open_sizes.py HLOSH
Each is exported once, and its text and its Exported are loaded with `--sizes`, twice: hlosh's results are compared with JAX's. An argument
whose size the program refuses has to be refused with its message. Prints "FAIL ..." and last "open sizes: P/T"; ends with 77 where jax is
missing.
"""
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import export, lax
except ImportError as error:
    print("SKIP no jax:", error)
    sys.exit(77)


def attention(q, k, v):
    s = jnp.einsum("btd,bsd->bts", q, k) / 8
    s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -1e9)
    return jnp.einsum("bts,bsd->btd", jax.nn.softmax(s, -1), v)


def scan(x):
    def step(c, row):
        c = 0.9 * c + row
        return c, c.sum(-1)

    return lax.scan(step, jnp.zeros(x.shape[1:]), x)


def norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale


# Shapes by symbols; a name that begins with i is of indices below 4.
PROGRAMS = {
    "softmax": (lambda x, w: jax.nn.softmax(x @ w).sum(0), "b,16", "16,8"),
    "mlp": (lambda x, v, w: jax.nn.gelu(x @ v) @ w, "b,t,8", "8,32", "32,8"),
    "attention": (attention, "b,t,64", "b,t,64", "b,t,64"),
    "convolution": (lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), "b,12,12,3", "3,3,3,4"),
    "pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), "b,8,8,3"),
    "scan": (scan, "t,b,4"),
    "loop": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, a: a + x[i], jnp.zeros(x.shape[1])), "b,t"),
    "gather": (lambda x, i: x[i], "b,8", "i t"),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 0).reshape(-1), "b,4", "t,4"),
    "halves": (lambda x: x.reshape(x.shape[0] * 2, -1).mean(0), "b,8"),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 0))), "b,3"),
    "numbers": (lambda x: x + jnp.arange(x.shape[0])[:, None], "b,3"),
    "cumsum": (lambda x: jnp.cumsum(x, 0), "b,3"),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 0)), "b,3"),
    "top_k": (lambda x: lax.top_k(x, 3), "t,8"),
    "branch": (lambda x: lax.cond(x.sum() > 0, lambda a: a * 2, lambda a: -a, x), "b,4"),
    "pairs": (lambda x: x.reshape(x.shape[0] // 2, 2, -1).sum(1), "2*b,3"),
    "norm": (norm, "b,t,16", "16"),
    "gradient": (lambda x, w: jax.grad(lambda w: jnp.tanh(x @ w).sum())(w), "b,8", "8,4"),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, num_segments=5), "b,3", "i b"),
    "size": (lambda x: (jnp.var(x, 0), x.shape[0] * 1.0), "b,4"),
}
SIZES = ({"b": 6, "t": 5}, {"b": 3, "t": 9})


def dims_of(text, scope, sizes):
    dims = export.symbolic_shape(text.removeprefix("i "), scope=scope)
    return dims, [eval(str(d), {}, dict(sizes)) for d in dims]


def one(hlosh, folder, f, shapes):
    scope = export.SymbolicScope()
    types = [jnp.int32 if s.startswith("i ") else jnp.float32 for s in shapes]
    exported = export.export(jax.jit(f))(*(jax.ShapeDtypeStruct(dims_of(s, scope, SIZES[0])[0], t) for s, t in zip(shapes, types)))
    for form, data in (("mlir", exported.mlir_module().encode()), ("exported", bytes(exported.serialize()))):
        path = os.path.join(folder, "module." + form)
        with open(path, "wb") as file:
            file.write(data)
        for sizes in SIZES:
            some = np.random.default_rng(0)
            args, stated = [], []
            for k, (s, t) in enumerate(zip(shapes, types)):
                symbols, dims = dims_of(s, scope, sizes)
                stated += ["%d.%d=%d" % (k, d, n) for d, n in enumerate(dims) if not isinstance(symbols[d], int)]
                args.append(some.integers(0, 3, dims).astype(np.int32) if t == jnp.int32 else some.normal(size=dims).astype(np.float32))
            given, got = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
            np.savez(given, *args)
            commands = "load %s --sizes=%s; inputs %s; run -o %s" % (path, ",".join(stated), given, got)
            done = subprocess.run([hlosh, "--no-rc", "-c", commands], capture_output=True, text=True, timeout=120)
            if done.returncode:
                return "%s: %.300s" % (form, done.stderr)
            results = np.load(got)
            want = jax.tree.leaves(f(*map(jnp.asarray, args)))
            far = [k for k, (a, b) in enumerate(zip(want, results.files)) if np.shape(a) != results[b].shape or not np.allclose(a, results[b], 1e-4, 1e-5)]
            if far or len(want) != len(results.files):
                return "%s with %s: results %s differ" % (form, sizes, far)
    return None


def refused(hlosh, folder):
    exported = export.export(jax.jit(PROGRAMS["pairs"][0]))(jax.ShapeDtypeStruct(export.symbolic_shape("2*b,3"), jnp.float32))
    path = os.path.join(folder, "module.mlir")
    with open(path, "w") as file:
        file.write(exported.mlir_module())
    done = subprocess.run([hlosh, "--no-rc", "-c", "load %s --sizes=7" % path], capture_output=True, text=True, timeout=120)
    return None if "Division had remainder 1" in done.stderr else "an odd size: %.300s" % done.stderr


def main(hlosh):
    passed, checks = 0, [(name, lambda folder, p=p: one(hlosh, folder, p[0], p[1:])) for name, p in PROGRAMS.items()]
    checks.append(("odd", lambda folder: refused(hlosh, folder)))
    for name, check in checks:
        with tempfile.TemporaryDirectory() as folder:
            try:
                wrong = check(folder)
            except Exception as error:
                wrong = "%s: %.300s" % (type(error).__name__, error)
        passed += not wrong
        if wrong:
            print("FAIL %s: %s" % (name, wrong))
    print("open sizes: %d/%d" % (passed, len(checks)))
    return 0 if passed == len(checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
