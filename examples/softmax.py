"""Row-wise softmax."""
import jax.numpy as jnp


def f(x):
    e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    return e / jnp.sum(e, axis=-1, keepdims=True)


args = [("f32", (512, 1024))]
