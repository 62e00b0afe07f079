"""relu(x)^2 + 3: a chain of elementwise steps, one kernel after fusion."""
import jax.numpy as jnp


def f(x):
    return jnp.maximum(x, 0.0) ** 2 + 3.0


args = [("f32", (1024, 1024))]
