"""x*x + 2*x + 1: every operand read once, the result written once."""


def f(x):
    return x * x + 2.0 * x + 1.0


args = [("f32", (1000000,))]
