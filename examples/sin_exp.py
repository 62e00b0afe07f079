"""sin(x) + exp(x): two transcendentals that share their input, one kernel."""
import jax.numpy as jnp


def f(x):
    return jnp.sin(x) + jnp.exp(x)


args = [("f32", (1000000,))]
