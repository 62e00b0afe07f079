"""One training step (SGD with momentum) of a two-layer network with GELU and a cross-entropy loss."""
import jax
import jax.numpy as jnp


def forward(params, x):
    w1, b1, w2, b2 = params
    return jax.nn.gelu(x @ w1 + b1, approximate=True) @ w2 + b2


def loss(params, x, labels):
    logits = forward(params, x)
    return -jnp.mean(jnp.sum(labels * jax.nn.log_softmax(logits), axis=-1))


def f(w1, b1, w2, b2, m1, n1, m2, n2, x, labels):
    params, momentum = (w1, b1, w2, b2), (m1, n1, m2, n2)
    value, grads = jax.value_and_grad(loss)(params, x, labels)
    momentum = tuple(0.9 * m + g for m, g in zip(momentum, grads))
    params = tuple(p - 0.01 * m for p, m in zip(params, momentum))
    return (value,) + params + momentum


weights = [("f32", (256, 512)), ("f32", (512,)), ("f32", (512, 10)), ("f32", (10,))]
args = weights + weights + [("f32", (128, 256)), ("f32", (128, 10))]
donate = tuple(range(8))
