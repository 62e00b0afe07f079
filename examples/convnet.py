"""A small convolutional network, forward: two convolutions with ReLU, an average pool, a dense layer."""
import jax
import jax.numpy as jnp


def conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def f(x, w1, b1, w2, b2, dense):
    x = jnp.maximum(conv(x, w1) + b1, 0.0)
    x = jnp.maximum(conv(x, w2) + b2, 0.0)
    return x.mean(axis=(1, 2)) @ dense


args = [("f32", (8, 28, 28, 1)), ("f32", (3, 3, 1, 16)), ("f32", (16,)), ("f32", (3, 3, 16, 32)), ("f32", (32,)), ("f32", (32, 10))]
