"""reduce_sum(x + y*z): one kernel, no intermediate in memory (the example of XLA's own overview page)."""
import jax.numpy as jnp


def f(x, y, z):
    return jnp.sum(x + y * z)


args = [("f32", (1024, 1024))] * 3
