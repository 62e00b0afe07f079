"""What jax.export makes of the examples and of flax's models: its bytecode and its text are one module.

usage: exports.py HLOSH
Each program is exported. hlosh must load the serialized Exported, the portable artifact in it and the text, and print the same of
all three but for names, which the text leaves out. What hlosh saves as an Exported must be one to JAX, of the same arrays, that computes
what the program does. Prints "FAIL ..." or "SKIP NAME: why" and last "exports: P/T"; ends with 77 where
jax is missing.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import export
except ImportError as error:
    print("SKIP no jax:", error)
    sys.exit(77)

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "s32": jnp.int32}


def examples():
    folder = pathlib.Path("examples")
    sys.path.insert(0, str(folder))
    for path in sorted(folder.glob("*.py")):
        if path.stem == "lower":
            continue
        program = __import__(path.stem)
        shapes = [jax.ShapeDtypeStruct(dims, DTYPES[t]) for t, dims in program.args]
        yield path.stem, jax.jit(program.f, donate_argnums=getattr(program, "donate", ())), shapes


def models():
    from flax import linen as nn

    class MLP(nn.Module):
        @nn.compact
        def __call__(self, x):
            for n in (128, 128):
                x = nn.gelu(nn.Dense(n)(x))
            return nn.Dense(10)(x)

    class CNN(nn.Module):
        @nn.compact
        def __call__(self, x):
            for n in (8, 16):
                x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(n, (3, 3))(x)))
                x = nn.avg_pool(x, (2, 2), (2, 2))
            return nn.Dense(10)(x.reshape(x.shape[0], -1))

    class Transformer(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(100, 64)(tokens) + nn.Embed(32, 64)(jnp.arange(tokens.shape[1]))
            mask = nn.make_causal_mask(tokens)
            for _ in range(2):
                x += nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x), mask=mask)
                x += nn.Dense(64)(nn.gelu(nn.Dense(256)(nn.LayerNorm()(x))))
            return nn.Dense(100)(nn.LayerNorm()(x))

    images = jax.ShapeDtypeStruct((4, 16, 16, 3), jnp.float32)
    for model, x in ((MLP(), jax.ShapeDtypeStruct((4, 64), jnp.float32)), (CNN(), images),
                     (Transformer(), jax.ShapeDtypeStruct((2, 32), jnp.int32))):
        weights = jax.eval_shape(model.init, jax.random.key(0), x)
        name = "flax " + type(model).__name__
        yield name, jax.jit(model.apply), (weights, x)
        loss = lambda w, x, model=model: model.apply(w, x).astype(jnp.float32).var()
        yield name + "'s gradient", jax.jit(jax.grad(loss)), (weights, x)


PRINT = "verify; print --canonical --with=print_large_constants --without=print_metadata"


def printed(hlosh, path, commands=PRINT):
    done = subprocess.run([hlosh, "--no-rc", path, "-c", commands], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr[:500])
    return done.stdout


def one(hlosh, folder, f, args):
    exported = export.export(f)(*args)
    forms = {"Exported": bytes(exported.serialize()), "artifact": exported.mlir_module_serialized, "text": exported.mlir_module().encode()}
    texts = {}
    for form, data in forms.items():
        path = os.path.join(folder, "module." + form)
        with open(path, "wb") as out:
            out.write(data)
        texts[form] = printed(hlosh, path)
    for form in ("Exported", "artifact"):
        if texts[form] != texts["text"]:
            line = next((a, b) for a, b in zip(texts[form].split("\n"), texts["text"].split("\n")) if a != b)
            return "%s: %.120s, but text: %.120s" % ((form,) + line)
    return saved(hlosh, folder, exported)


def saved(hlosh, folder, exported):
    path = os.path.join(folder, "module.exported")
    printed(hlosh, os.path.join(folder, "module.artifact"), "save " + path)
    with open(path, "rb") as file:
        ours = export.deserialize(bytearray(file.read()))
    # weights and arguments that a program does not use are none of its artifact's
    kept = tuple(exported.in_avals[k] for k in exported.module_kept_var_idx)
    if ours.in_avals != kept or ours.out_avals != exported.out_avals:
        return "saved: %s -> %s" % (ours.in_avals, ours.out_avals)
    some = np.random.default_rng(0)
    args = [jnp.asarray(some.integers(0, 2, a.shape) if a.dtype.kind == "i" else some.normal(size=a.shape), a.dtype) for a in exported.in_avals]
    want = exported.call(*jax.tree.unflatten(exported.in_tree, args)[0])
    got = ours.call(*(args[k] for k in exported.module_kept_var_idx))
    far = [k for k, (a, b) in enumerate(zip(jax.tree.leaves(want), jax.tree.leaves(got))) if not np.allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), 1e-5, 1e-5, equal_nan=True)]
    return "saved: results %s differ" % far if far else None


def main(hlosh):
    passed = total = 0
    kinds = [("the examples", examples), ("flax", models)]
    for kind, programs in kinds:
        try:
            for name, f, args in programs():
                total += 1
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        wrong = one(hlosh, folder, f, args)
                    except Exception as error:
                        wrong = "%s: %.300s" % (type(error).__name__, error)
                passed += not wrong
                if wrong:
                    print("FAIL %s: %s" % (name, wrong))
        except ImportError as error:
            print("SKIP %s: %s" % (kind, error))
    print("exports: %d/%d" % (passed, total))
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
