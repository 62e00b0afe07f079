"""Layer normalization with scale and offset: two reductions over the same rows and the elementwise rest."""
import jax
import jax.numpy as jnp


def f(x, scale, offset):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centered = x - mean
    variance = jnp.mean(centered * centered, axis=-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + 1e-5) * scale + offset


args = [("f32", (512, 768)), ("f32", (768,)), ("f32", (768,))]
