"""The ways of docs/FRONTENDS.md from a framework to a file, for the frameworks that are installed.

usage: frontends.py HLOSH
Each framework computes a small network, writes it in every form that it has, and hlosh must load
each file, find it valid and give the framework's numbers. Prints "FAIL ..." or "SKIP NAME: why" and
last "frontends: P/T".
"""
import os
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
W = [[0.5, -1.0], [0.25, 2.0], [-0.75, 1.5]]
X = [[1.0, 2.0, 3.0], [-1.0, 0.5, 0.25]]


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "w" if isinstance(data, str) else "wb") as f:
        f.write(data)
    return path


def from_jax(folder):
    import jax
    import jax.numpy as jnp

    w, x = jnp.array(W), jnp.array(X)
    f = jax.jit(lambda x: jnp.tanh(x @ w))
    lowered = f.lower(x)
    files = [
        write(folder, "jax.mlir", lowered.as_text()),
        write(folder, "jax.hlo", lowered.as_text(dialect="hlo")),
        write(folder, "jax.optimized.hlo", lowered.compile().as_text()),
    ]
    try:
        from jax import export

        files.append(write(folder, "jax.export", bytes(export.export(f)(x).serialize())))
    except ImportError as error:
        print("SKIP jax.export: %s" % error)
    return files, f(x).tolist()


def from_tensorflow(folder):
    import tensorflow as tf

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([2, 3], tf.float32)])
        def predict(self, x):
            return tf.tanh(tf.matmul(x, tf.constant(W)))

    saved = os.path.join(folder, "saved")
    tf.saved_model.save(Model(), saved)
    loaded = tf.saved_model.load(saved)
    signature = loaded.signatures["serving_default"]
    f = tf.function(lambda x: list(signature(x).values())[0], jit_compile=True)
    x = tf.constant(X)
    ir = f.experimental_get_compiler_ir(x)
    files = [
        write(folder, "tf.hlo", ir(stage="hlo")),
        write(folder, "tf.optimized.hlo", ir(stage="optimized_hlo")),
        write(folder, "tf.pb", ir(stage="hlo_serialized")),
    ]
    return files, f(x).numpy().tolist()


def from_torch(folder):
    import numpy
    import torch
    from torch_xla.stablehlo import VariableType, exported_program_to_stablehlo

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor(W))

        def forward(self, x):
            return torch.tanh(x @ self.w)

    x, model = torch.tensor(X), Model()
    program = exported_program_to_stablehlo(torch.export.export(model, (x,)))
    bundle = program._bundle  # the order of the parameters stands nowhere else
    given = []
    for k, place in enumerate(bundle.stablehlo_funcs[0].meta.input_locations):
        weight = place.type_ == VariableType.PARAMETER
        given.append(os.path.join(folder, "torch.%d.npy" % k))
        numpy.save(given[-1], numpy.asarray(bundle.state_dict[place.name]) if weight else x.numpy())
    files = [
        (write(folder, "torch.mlir", program.get_stablehlo_text("forward")), given),
        (write(folder, "torch.mlirbc", program.get_stablehlo_bytecode("forward")), given),
    ]
    return files, model(x).tolist()


def from_torch_mlir(folder):
    import torch
    from torch_mlir import fx

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.tanh(x @ torch.tensor(W))

    x = torch.tensor(X)
    text = str(fx.export_and_import(Model(), x, output_type="stablehlo"))
    return [write(folder, "torch_mlir.mlir", text)], Model()(x).tolist()


def numbers(text):
    line = next((l for l in text.splitlines() if l.startswith("result")), "")
    return [float(v) for v in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", line.split("]", 1)[-1])]


def check(hlosh, path, want):
    import numpy

    x = os.path.join(os.path.dirname(path if isinstance(path, str) else path[0]), "x.npy")
    numpy.save(x, numpy.array(X, numpy.float32))
    path, given = (path, [x]) if isinstance(path, str) else path  # the weights are constants, or given
    commands = "verify; inputs %s; run" % " ".join(given)
    r = subprocess.run([hlosh, "--no-rc", path, "-c", commands], capture_output=True, text=True)
    got = numbers(r.stdout)
    want = [v for row in want for v in row]
    if r.returncode or len(got) != len(want):
        return (r.stderr or r.stdout).strip()[-300:]
    far = max(abs(a - b) for a, b in zip(got, want))
    return "off by %g" % far if far > 1e-5 else None


def main():
    hlosh, good, tried = sys.argv[1], 0, 0
    for name, make in (("jax", from_jax), ("tensorflow", from_tensorflow), ("torch", from_torch), ("torch-mlir", from_torch_mlir)):
        with tempfile.TemporaryDirectory() as folder:
            try:
                files, want = make(folder)
            except ImportError as error:
                print("SKIP %s: %s" % (name, error))
                continue
            for path in files:
                tried += 1
                why = check(hlosh, path, want)
                good += why is None
                if why:
                    print("FAIL %s: %s" % (os.path.basename(path if isinstance(path, str) else path[0]), why))
    print("frontends: %d/%d" % (good, tried))
    return 0 if good == tried and tried else 77 if not tried else 1


sys.exit(main())
