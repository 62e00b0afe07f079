#!/usr/bin/env python3
"""Writes NAME.hlo from NAME.py: the program lowered by JAX, before any optimization, all constants in full.

usage: python3 lower.py NAME...      needs: pip install jax
"""
import importlib
import re
import sys

import jax
import jax.numpy as jnp
from jaxlib import _hlo as hlo

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "s32": jnp.int32}

for name in sys.argv[1:]:
    name = name.removesuffix(".py")
    program = importlib.import_module(name)
    program.f.__name__ = name
    shapes = [jax.ShapeDtypeStruct(dims, DTYPES[t]) for t, dims in program.args]
    lowered = jax.jit(program.f, donate_argnums=getattr(program, "donate", ()), keep_unused=True).lower(*shapes)
    options = hlo.HloPrintOptions()
    options.print_large_constants = True
    text = lowered.compiler_ir(dialect="hlo").get_hlo_module().to_string(options)
    # Only the file's own name: paths of the machine that lowered it mean nothing to a reader.
    text = re.sub(r'"[^"\n]*/([^"/\n]+\.py)"', r'"\1"', text)
    assert "{...}" not in text, name
    with open(name + ".hlo", "w") as out:
        out.write(text)
    print(name, text.count("\n"), "lines")
