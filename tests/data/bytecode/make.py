"""Writes the files of this folder: small functions as StableHLO text (NAME.mlir), as portable artifacts (NAME.mlirbc), and one as
jax.export serializes it (mlp.exported). Usage, in this folder, with jax and flatbuffers (compiled by
hand, for file names without a folder in the locations): python -c "exec(compile(open('make.py').read(), 'model.py', 'exec'))" """
import jax, jax.numpy as jnp, numpy as np
from jax import export

MODEL = '''
def mlp(x, w): return jax.nn.softmax(jnp.tanh(x @ w)).sum(0)
def loop(x): return jax.lax.fori_loop(0, 10, lambda i, c: c * 2 + i, x)
def cond(x): return jax.lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x)
def const(x): return x + np.arange(32, dtype=np.float32).reshape(4, 8) + jnp.array([True, False] * 4)
def gather(x, i): return x[i], x.at[i].add(1.)
def conv(x, k): return jax.lax.conv_general_dilated(x, k, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
def key(k): return jax.random.bits(k, (5,))
def erf(x): return jax.lax.erf(x), jnp.arcsinh(x)
'''
jax.config.update('jax_include_full_tracebacks_in_locations', False)
scope = {'jax': jax, 'jnp': jnp, 'np': np}
exec(compile(MODEL, 'model.py', 'exec'), scope)
x = jnp.ones((4, 8))
for name, args in {'mlp': (x, jnp.ones((8, 16))), 'loop': (x,), 'cond': (x,), 'const': (x,), 'gather': (x, jnp.array([0, 2, 1])),
                   'conv': (jnp.ones((1, 8, 8, 3)), jnp.ones((3, 3, 3, 4))), 'key': (jax.random.PRNGKey(0),), 'erf': (x,)}.items():
  e = export.export(jax.jit(scope[name]))(*args)
  open(name + '.mlirbc', 'wb').write(e.mlir_module_serialized)
  open(name + '.mlir', 'w').write(e.mlir_module())
  if name == 'mlp': open('mlp.exported', 'wb').write(e.serialize())
