"""200 steps of training by flax and optax on hlosh beside XLA:CPU, in one process.

usage: PYTHONPATH=frontends training.py [RUNS] [--speed]
An MLP, a CNN and a transformer learn labels that follow from their inputs: every loss is within 1e-4 of XLA:CPU's. The CNN then
gets random labels, which no network can learn, so that losses part in any two arithmetics; as a control XLA:CPU runs beside itself
with weights that are one rounding off, and both beside the same loop in f64. hlosh may be as far from XLA:CPU as three times the
control. Prints a line for each, with the speed (the best of RUNS, 3 unless told); --speed: slower than XLA:CPU is a failure. Ends
with 77 where jax, flax or optax is missing.
"""
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "hlosh,cpu")
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    from flax import linen as nn
except ImportError as error:
    print("SKIP training:", error)
    sys.exit(77)

STEPS, BATCH, CLOSE = 200, 32, 1e-4
TX = optax.adam(1e-3)


class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        for n in (128, 128):
            x = nn.gelu(nn.Dense(n)(x))
        return nn.Dense(10)(x)


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x.reshape(x.shape[0], 16, 16, 1)
        for n in (8, 16):
            x = nn.avg_pool(nn.relu(nn.Conv(n, (3, 3))(x)), (2, 2), (2, 2))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(64)(x.reshape(x.shape[0], 16, 16))
        for _ in range(2):
            x += nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
            x += nn.Dense(64)(nn.gelu(nn.Dense(256)(nn.LayerNorm()(x))))
        return nn.Dense(10)(nn.LayerNorm()(x).mean(1))


def train_step(model):
    def step(p, o, x, y):
        loss = lambda p: optax.softmax_cross_entropy_with_integer_labels(model.apply(p, x), y).mean()
        l, g = jax.value_and_grad(loss)(p)
        u, o = TX.update(g, o)
        return optax.apply_updates(p, u), o, l

    return step


def train(step, where, weights, xs, ys, dtype=np.float32):
    """The losses, and the seconds that the loop took; the last step is waited for."""
    device = jax.devices(where)[0]
    with jax.default_device(device):
        put = lambda tree: jax.tree.map(lambda a: jax.device_put(np.asarray(a, dtype), device), tree)
        p = put(weights)
        o = jax.device_put(TX.init(p), device)
        batches = [(jax.device_put(np.asarray(x, dtype), device), jax.device_put(y, device)) for x, y in zip(xs, ys)]
        jax.block_until_ready((p, o, batches))
        losses, begin = [], time.perf_counter()
        for x, y in batches:
            p, o, l = step(p, o, x, y)
            losses.append(l)
        jax.block_until_ready(l)
        seconds = time.perf_counter() - begin
    return np.array([float(l) for l in losses]), seconds


def worst(a, b):
    return np.abs(a - b).max()


def main():
    runs = next((int(a) for a in sys.argv[1:] if a.isdigit()), 3)
    failures = 0
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(STEPS, BATCH, 256)).astype(np.float32)
    learnable = (xs @ rng.normal(size=(256, 10))).argmax(-1).astype(np.int32)
    noise = rng.integers(0, 10, (STEPS, BATCH)).astype(np.int32)
    for model in (MLP(), CNN(), Transformer()):
        with jax.default_device(jax.devices("cpu")[0]):
            weights = jax.tree.map(np.asarray, model.init(jax.random.key(0), jnp.zeros((BATCH, 256))))
        steps = {where: jax.jit(train_step(model), donate_argnums=(0, 1)) for where in ("cpu", "hlosh")}
        best, losses = {}, {}
        for _ in range(runs + 1):
            for where, step in steps.items():
                losses[where], seconds = train(step, where, weights, xs, learnable)
                best[where] = min(best.get(where, np.inf), seconds)
        apart, ratio = worst(losses["hlosh"], losses["cpu"]), best["cpu"] / best["hlosh"]
        bad = apart > CLOSE or ("--speed" in sys.argv and ratio < 1)
        failures += bad
        print(f"{'FAIL ' if bad else ''}{type(model).__name__}: losses {apart:.1e} apart, {ratio:.2f} times as fast", flush=True)
        if not isinstance(model, CNN):
            continue
        off = jax.tree.map(lambda w: (w * (1 + np.float32(6e-8) * np.sign(rng.normal(size=w.shape)))).astype(np.float32), weights)
        ours = train(steps["hlosh"], "hlosh", weights, xs, noise)[0]
        theirs = train(steps["cpu"], "cpu", weights, xs, noise)[0]
        control = train(steps["cpu"], "cpu", off, xs, noise)[0]
        with jax.enable_x64(True):
            exact = train(jax.jit(train_step(model)), "cpu", weights, xs, noise, np.float64)[0]
        bad = worst(ours, theirs) > 3 * max(worst(control, theirs), CLOSE)
        failures += bad
        print(f"{'FAIL ' if bad else ''}CNN on random labels: hlosh {worst(ours, theirs):.1e} from XLA:CPU, XLA:CPU with weights one rounding "
              f"off {worst(control, theirs):.1e}; from f64 hlosh {worst(ours, exact):.1e}, XLA:CPU {worst(theirs, exact):.1e}", flush=True)
    return 1 if failures else 0


sys.exit(main())
