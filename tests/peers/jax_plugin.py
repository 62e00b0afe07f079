"""JAX on hlosh (its PJRT plug-in) beside JAX on XLA:CPU, in one process: functions, gradients, a training loop, devices, and what a
compiled function tells. Usage: PYTHONPATH=frontends python jax_plugin.py; HLOSH_WORKER=1 for most of it in a worker. Exit 77 when there is no JAX."""
import os
import signal
import sys

os.environ.setdefault("JAX_PLATFORMS", "hlosh,cpu")
os.environ.setdefault("HLOSH_DEVICES", "8")
try:
    import jax
except ImportError:
    print("no jax")
    sys.exit(77)
import threading

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

CPU = jax.devices("cpu")[0]
HLOSH = jax.devices("hlosh")
failures = 0


def check(name, ok, said=""):
    global failures
    failures += not ok
    if not ok:
        print(f"FAIL {name}: {said}")


def both(f, *args):
    """The results of jax.jit(f) on hlosh and on XLA:CPU, as lists of arrays."""
    out = []
    for device in (HLOSH[0], CPU):
        with jax.default_device(device):
            out.append([np.asarray(v) for v in jax.tree.leaves(jax.jit(f)(*args))])
    return out


def same(name, f, *args, tolerance=2e-5):
    try:
        ours, theirs = both(f, *args)
        worst = max(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)) / (1 + np.abs(b.astype(np.float64))), initial=0)
                    for a, b in zip(ours, theirs))
        check(name, worst <= tolerance and all(a.dtype == b.dtype and a.shape == b.shape for a, b in zip(ours, theirs)), worst)
    except Exception as e:  # pylint: disable=broad-except
        check(name, False, str(e)[:300])


def functions():
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(4, 8)).astype(np.float32), rng.normal(size=(8, 16)).astype(np.float32)
    image, kernel = rng.normal(size=(1, 8, 8, 3)).astype(np.float32), rng.normal(size=(3, 3, 3, 4)).astype(np.float32)
    mlp = lambda x, w: jax.nn.softmax(jnp.tanh(x @ w)).sum(0)
    same("mlp", mlp, x, w)
    same("gradient", jax.grad(lambda w, x: mlp(x, w)[0]), w, x)
    same("second derivative", jax.hessian(lambda v: jnp.sum(jnp.sin(v) ** 3)), x[0])
    same("fori_loop", lambda x: lax.fori_loop(0, 10, lambda i, c: c * 1.5 + i, x), x)
    same("while_loop", lambda x: lax.while_loop(lambda c: c[0] < 100, lambda c: (c[0] * 2, c[1] + 1), (x.max() ** 2 + 1, 0)), x)
    same("scan", lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(8), x), x)
    same("cond", lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x), x)
    same("sort", lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), lax.top_k(x, 3)), x)
    same("gather, scatter", lambda x: (x[np.array([0, 2, 1])], x.at[np.array([1, 1])].add(1.0)), x)
    same("convolution", lambda a, k: lax.conv_general_dilated(a, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), image, kernel)
    same("random bits", lambda: jax.random.bits(jax.random.PRNGKey(3), (7,)))
    same("random normal", lambda: jax.random.normal(jax.random.PRNGKey(3), (7,)))
    same("integers", lambda a: (a // 3, a % 3, a << 2, ~a, a.astype(jnp.int8)), np.arange(-5, 9, dtype=np.int32))
    same("s4 from NumPy", lambda a: a.astype(jnp.int8) * 3, np.array([1, -2, 7, -8], dtype=jnp.int4))
    same("bf16", lambda a: (a.astype(jnp.bfloat16) * 3).astype(jnp.float32), x, tolerance=1e-2)
    same("special functions", lambda a: (lax.erf(a), lax.lgamma(abs(a) + 1), lax.digamma(abs(a) + 1), jnp.arcsinh(a)), x, tolerance=1e-4)
    same("linear algebra", lambda a: (jnp.linalg.cholesky(a @ a.T + 4 * jnp.eye(4)), jnp.linalg.solve(a @ a.T + jnp.eye(4), a)), x, tolerance=1e-3)
    symmetric = x[:, :4] + x[:, :4].T
    same("eigenvalues", lambda a: (jnp.linalg.eigvalsh(a), jnp.linalg.svd(a, compute_uv=False), jnp.linalg.det(a)), symmetric, tolerance=1e-4)
    same("fft", lambda a: jnp.abs(jnp.fft.rfft(a)), x)
    same("nothing in it", lambda: jnp.zeros((0, 3)))
    same("a token's place", lambda x: lax.optimization_barrier((x, x + 1)), x)


def training():
    """The losses of 200 steps of Adam, arguments donated."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(64, 32)).astype(np.float32), rng.integers(0, 10, 64)
    sizes = [32, 64, 10]

    def loss(p, x, y):
        for w, b in p[:-1]:
            x = jax.nn.gelu(x @ w + b)
        logits = jax.nn.log_softmax(x @ p[-1][0] + p[-1][1])
        return -jnp.mean(jnp.take_along_axis(logits, y[:, None], 1))

    def step(p, m, v, t, x, y):
        l, g = jax.value_and_grad(loss)(p, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        p = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), p, m, v)
        return p, m, v, t + 1, l

    losses = []
    for device in (HLOSH[0], CPU):
        with jax.default_device(device):
            keys = jax.random.split(jax.random.PRNGKey(0), len(sizes))
            p = [(jax.random.normal(k, (a, b)) / np.sqrt(a), jnp.zeros(b)) for k, a, b in zip(keys, sizes[:-1], sizes[1:])]
            m, v, t = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), jnp.float32(1)
            run = jax.jit(step, donate_argnums=(0, 1, 2, 3))
            given, all_of_them = p[0][0], []
            for _ in range(200):
                p, m, v, t, l = run(p, m, v, t, X, Y)
                all_of_them.append(float(l))
            losses.append(all_of_them)
            check("donated", given.is_deleted(), "the argument is still there")
    worst = np.max(np.abs(np.array(losses[0]) - np.array(losses[1])))
    check("training", worst <= 1e-4 and losses[0][-1] < losses[0][0] / 4, worst)


def donated():
    """A donated argument becomes the result where it lies, unless somebody looks at it."""
    with jax.default_device(HLOSH[0]):
        step = jax.jit(lambda x, y: (x + y, (x * y).sum()), donate_argnums=0)
        y = jnp.full((300, 70), 2, jnp.float32)
        for n in (1, 2, 3):
            x = jnp.full((300, 70), n, jnp.float32)
            x.block_until_ready()
            place = x.unsafe_buffer_pointer()
            z, total = step(x, y)
            check("updated in place", z.unsafe_buffer_pointer() == place and float(z[299, 69]) == n + 2 and float(total) == 42000 * n)
        x = jnp.full((300, 70), 5, jnp.float32)
        seen = np.asarray(x)
        z, total = step(x, y)
        check("what is seen stays", (seen == 5).all() and (np.asarray(z) == 7).all())
        turned = jax.jit(lambda x, g: x + jnp.tanh(g.T @ g), donate_argnums=0)
        g = np.random.default_rng(2).normal(size=(20, 70)).astype(np.float32)
        x = jnp.zeros((70, 70))
        x.block_until_ready()
        place, z = x.unsafe_buffer_pointer(), turned(x, g)
        check("a product's transpose", z.unsafe_buffer_pointer() == place and np.allclose(z, np.tanh(g.T @ g), atol=1e-5))


def devices():
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,), devices=HLOSH)
    x = np.arange(16, dtype=np.float32)
    split = lambda f: jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
    check("psum", np.array_equal(split(lambda a: a * 0 + lax.psum(a, "i"))(x), np.tile(x.reshape(8, 2).sum(0), 8)))
    check("ppermute", np.array_equal(split(lambda a: lax.ppermute(a, "i", [(k, (k + 1) % 8) for k in range(8)]))(x), np.roll(x, 2)))
    check("all_gather", split(lambda a: lax.all_gather(a, "i", tiled=True))(x).shape == (128,))
    grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2, devices=HLOSH)
    a = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(grid, P("x", "y")))
    out = jax.jit(lambda a: lax.with_sharding_constraint(a @ a.T, NamedSharding(grid, P("y", None))))(a)
    want = np.arange(32, dtype=np.float32).reshape(8, 4)
    check("a sharded product", np.array_equal(out, want @ want.T))
    check("its shards", {s.data.shape for s in out.addressable_shards} == {(4, 8)}, {s.data.shape for s in out.addressable_shards})
    turned = jax.sharding.Mesh(np.array(HLOSH)[[3, 1, 2, 0, 7, 6, 5, 4]], ("i",))
    backwards = jax.jit(jax.shard_map(lambda a: a + lax.axis_index("i"), mesh=turned, in_specs=P("i"), out_specs=P("i")))
    check("a mesh in an order of its own", np.array_equal(backwards(x), x + np.arange(16) // 2), backwards(x))
    rows = jax.jit(jax.shard_map(lambda a: a * 2, mesh=mesh, in_specs=P("i"), out_specs=P("i")))(x)
    check("shards of a manual region's result", {s.data.shape for s in rows.addressable_shards} == {(2,)}, rows.sharding)
    best = jax.jit(jax.shard_map(lambda a: lax.approx_max_k(a, 2), mesh=mesh, in_specs=P("i"), out_specs=P("i")))(np.tile(x, 2))[0]
    check("approximate top k in a manual region", np.array_equal(best, np.sort(np.tile(x, 2).reshape(8, 4))[:, :1:-1].ravel()), best)
    half = jax.make_mesh((2, 4), ("i", "j"), axis_types=(AxisType.Auto,) * 2, devices=HLOSH)
    held = lambda a: lax.with_sharding_constraint(a * a, NamedSharding(half, P("i")))
    kept = jax.jit(jax.shard_map(held, mesh=half, in_specs=P(), out_specs=P(), check_vma=False, axis_names={"j"}))(jax.device_put(want, NamedSharding(half, P("i"))))
    check("a constraint in a manual region", kept.sharding.spec == P("i") and np.array_equal(kept, want * want), kept.sharding)
    small = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2, devices=HLOSH[:4])
    inner = lambda a: jax.shard_map(lambda b: b * b, mesh=jax.sharding.get_abstract_mesh(), in_specs=P(None, "j"), out_specs=P(None, "j"))(a)
    outer = jax.jit(lambda a: jax.shard_map(inner, in_specs=P("i", None), out_specs=P("i", None), check_vma=False, axis_names={"i"})(a))
    with jax.set_mesh(small):
        check("a manual region in another", np.array_equal(outer(jax.device_put(want, NamedSharding(small, P("i", "j")))), want * want))
    explicit = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Explicit,) * 2, devices=HLOSH[:4])
    with jax.set_mesh(explicit):
        product = jax.jit(jax.shard_map(lambda a, b: a @ b, in_specs=(P("i", "j"), P("j", None)), out_specs=P("i", None, unreduced={"j"})))
        partial = product(jax.device_put(want, P("i", "j")), jax.device_put(want.T.copy(), P("j", None)))
        check("its sum is to come", partial.sharding.spec == P("i", None, unreduced={"j"}), partial.sharding)
        shards = [np.asarray(s.data) for s in partial.addressable_shards]
        check("the sum of its shards", np.array_equal(np.concatenate([shards[0] + shards[1], shards[2] + shards[3]]), want @ want.T))
        check("summed by another program", np.array_equal(jax.jit(lambda a: jax.reshard(a, P()))(partial), want @ want.T))
    gathered = jax.jit(jax.shard_map(lambda a: lax.all_gather(a, "i", tiled=True, to="invarying"), mesh=mesh, in_specs=P("i"), out_specs=P()))
    check("a gradient's shards", jax.jit(jax.grad(lambda a: gathered(a).sum()))(x).sharding.spec == P("i"))
    moved = jax.device_put(jax.device_put(x, HLOSH[0]), HLOSH[5])
    check("between devices", moved.devices() == {HLOSH[5]} and np.array_equal(moved, x))


def questions():
    x = np.ones((4, 4), np.float32)
    with jax.default_device(HLOSH[0]):
        c = jax.jit(lambda x: jnp.tanh(x @ x)).lower(x).compile()
    check("flops", c.cost_analysis()["flops"] >= 128, c.cost_analysis())
    check("memory", c.memory_analysis().argument_size_in_bytes >= 64)
    check("its text", "tanh" in c.as_text())
    client = HLOSH[0].client
    check("platform", client.platform == "hlosh" and HLOSH[0].device_kind == "hlosh cpu")
    check("memory in use", HLOSH[0].memory_stats()["bytes_in_use"] >= 0)
    b = jax.device_put(x, HLOSH[1])
    b.delete()
    check("deleted", b.is_deleted())


def layouts_and_programs():
    """What is said of layouts, and a program as bytes."""
    from jax.experimental import serialize_executable
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    with jax.default_device(HLOSH[0]):
        c = jax.jit(lambda a: jnp.tanh(a.T)).lower(x).compile()
        check("a buffer's layout", jax.device_put(x, HLOSH[0]).format.layout.major_to_minor == (0, 1, 2))
        check("layouts of a program", [f.layout.major_to_minor for f in jax.tree.leaves((c.input_formats, c.output_formats))] == [(0, 1, 2)] * 2)
        again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(c), execution_devices=HLOSH[:1])
        check("a program as bytes", np.array_equal(again(x), c(x)))


def options():
    """Compile options that XLA refuses."""
    lowered = jax.jit(lambda a: a + 1).lower(np.zeros(3, np.float32))
    for key, value, want in (("invalid_key", "x", "No such compile option: 'invalid_key'"), ("xla_embed_ir_in_executable", "x", "is not a valid bool value."),
                             ("xla_embed_ir_in_executable", "false", ""), ("xla_embed_ir_in_executable", True, "")):
        try:
            lowered.compile(compiler_options={key: value})
            said = ""
        except jax.errors.JaxRuntimeError as e:
            said = str(e)
        check(f"option {key}={value}", (want in said) if want else not said, said)


def cached():
    """JAX's compilation cache: what it has kept is loaded, and computes the same."""
    import tempfile
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("/cache_hits") else None)
    x = np.random.default_rng(4).normal(size=(9, 9)).astype(np.float32)
    f = lambda a: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ a) + 0.125, a).sum(0)
    with tempfile.TemporaryDirectory() as folder, jax.default_device(HLOSH[0]):
        kept = {name: getattr(jax.config, name) for name in ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")}
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        try:
            first = np.asarray(jax.jit(f)(x))
            check("kept programs", any("-cache" in name for name in os.listdir(folder)), os.listdir(folder))
            jax.clear_caches()
            hits.clear()
            check("the same from the cache", np.array_equal(first, jax.jit(f)(x)) and len(hits) >= 1, hits)
        finally:
            for name, value in kept.items():
                jax.config.update(name, value)


def profiled():
    """jax.profiler.trace: runs of two programs, kernel by kernel, and the modules."""
    import glob
    import tempfile
    from jax.profiler import ProfileData
    x = np.ones((64, 64), np.float32)
    with jax.default_device(HLOSH[0]), tempfile.TemporaryDirectory() as folder:
        product, loop = jax.jit(lambda a: jnp.tanh(a @ a)), jax.jit(lambda a: lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) + i, a))
        want = (np.asarray(product(x)), np.asarray(loop(x)))
        with jax.profiler.trace(folder):
            for _ in range(3):
                got = (product(x), loop(x))
                jax.block_until_ready(got)
        check("results while a profile is taken", all(np.array_equal(a, b) for a, b in zip(got, want)))
        files = glob.glob(folder + "/**/*.xplane.pb", recursive=True)
        planes = {p.name: p for p in ProfileData.from_file(files[0]).planes} if files else {}
        check("the plane", "/device:CUSTOM:hlosh" in planes, list(planes))
        events = [dict(e.stats) | {"ns": e.duration_ns} for line in planes["/device:CUSTOM:hlosh"].lines for e in line.events]
        programs = {e["program_id"]: sum(f["program_id"] == e["program_id"] for f in events) for e in events}
        check("kernels of both programs, the loop being one", len(programs) == 2 and all(e["hlo_op"] for e in events) and
              min(programs.values()) == 3 and max(programs.values()) >= 6, programs)
        check("three runs of each", {e["run_id"] for e in events} == {1, 2, 3}, {e["run_id"] for e in events})
        profile(files[0])


def profile(path):
    """hlosh opens it, with the module that it carries."""
    import subprocess
    if os.environ.get("HLOSH"):
        p = subprocess.run([os.environ["HLOSH"], "--no-rc", path, "-c", "profile"], capture_output=True, text=True)
        check("hlosh reads the profile", p.returncode == 0 and "tanh" in p.stdout + p.stderr or "sin" in p.stdout, p.stdout[-300:] + p.stderr[-300:])


def callbacks():
    """Python called from programs, and a handler of XLA's FFI that the user registers."""
    import ctypes
    from jax.experimental import io_callback
    from jax_plugins.hlosh import callbacks as ours
    like = lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    order, printed = [], []
    with jax.default_device(HLOSH[0]):
        pure = jax.jit(lambda v: jax.pure_callback(np.sin, like(v), v) + 1)
        check("pure_callback", all(np.allclose(pure(x + k), np.sin(x + k) + 1) for k in range(3)))
        in_loop = jax.jit(lambda v: lax.fori_loop(0, 5, lambda i, c: jax.pure_callback(lambda a: a + 1, like(c), c), v))
        check("a callback in a loop", float(in_loop(np.float32(1))) == 6)
        ordered = jax.jit(lambda v: io_callback(lambda a: (order.append(float(a.sum())), a * 2)[1], like(v), v, ordered=True).sum())
        check("io_callback", [float(ordered(x)), float(ordered(x + 1))] == [30, 42] and order == [15, 21], order)
        spoken = jax.jit(lambda v: (jax.debug.callback(lambda a: printed.append(float(a)), v), v * 2)[1])
        spoken(np.float32(3)).block_until_ready()
        jax.effects_barrier()
        check("a callback without results", printed == [3], printed)
        try:
            jax.jit(lambda v: jax.pure_callback(lambda a: 1 / 0, like(v), v))(x).block_until_ready()
            check("an error of a callback", False, "none")
        except Exception as e:  # pylint: disable=broad-except
            check("an error of a callback", "division by zero" in str(e), str(e)[:200])

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ours.Frame))
        def twice(frame):
            ours.array_over(frame.contents.rets.values[0].contents)[...] = 2 * ours.array_over(frame.contents.args.values[0].contents)

        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        jax.ffi.register_ffi_target("twice", new(ctypes.cast(twice, ctypes.c_void_p).value, None, None), platform="hlosh")
        check("a handler", np.array_equal(jax.jit(lambda v: jax.ffi.ffi_call("twice", like(v))(v) + 1)(x), 2 * x + 1))


def threads():
    """Compiled and run from four threads at a time."""
    wrong = []

    def work(k):
        with jax.default_device(HLOSH[k]):
            for n in range(1, 6):
                x = np.full((n + k, 3), k, np.float32)
                got = jax.jit(lambda x: (x * n + k).sum())(x)
                if float(got) != (k * n + k) * 3 * (n + k):
                    wrong.append((k, n, float(got)))

    all_of_them = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()
    check("threads", not wrong, wrong)


def worker():
    """HLOSH_WORKER=1: what runs dies, and the user's process does not."""
    f, x = jax.jit(lambda a: jnp.tanh(a @ a.T)), np.arange(12, dtype=np.float32).reshape(3, 4) / 10
    want = np.tanh(x @ x.T)
    with jax.default_device(HLOSH[0]):
        check("in a worker", np.allclose(f(x), want, atol=1e-5))
        mine = [int(p) for p in os.popen(f"pgrep -P {os.getpid()}").read().split()]
        workers = [p for p in mine if "--worker" in open(f"/proc/{p}/cmdline", encoding="utf-8").read()]
        check("one worker", len(workers) == 1, workers)
        os.kill(workers[0], signal.SIGKILL)
        try:
            f(x).block_until_ready()
            check("its end is an error", False)
        except (jax.errors.JaxRuntimeError, ValueError) as e:
            check("its end is an error", "SIGKILL" in str(e), e)
        check("in another worker", np.allclose(f(x), want, atol=1e-5))


IN_A_WORKER = os.environ.get("HLOSH_WORKER") == "1"
for part in (functions, training, devices, callbacks, threads, worker) if IN_A_WORKER else (functions, training, donated, devices, questions, layouts_and_programs, options, cached, profiled, callbacks, threads):
    try:
        part()
    except Exception as e:  # pylint: disable=broad-except
        check(part.__name__, False, repr(e)[:400])
print("jax on hlosh:", "ok" if not failures else f"{failures} failures")
sys.exit(1 if failures else 0)
