"""The wheel as it is installed: the examples of docs/PYTHON.md, programs and arguments of every kind, the magics (with IPython), JAX's
plug-in. Usage: python wheel.py api|magic|jax PYTHON.md. A part that cannot run here prints "SKIP part: why"."""
import contextlib
import io
import pathlib
import re
import subprocess
import sys

DOC = open(sys.argv[2], encoding="utf-8").read()


def blocks(language):
    return re.findall(r"```" + language + r"\n(.*?)```", DOC, re.S)


def api():
    import jax
    import jax.numpy as jnp
    import numpy as np
    import hlosh
    if "site-packages" in hlosh.__file__:
        assert "site-packages" in hlosh.program() and "site-packages" in hlosh.library(), (hlosh.program(), hlosh.library())
    env, out = {}, io.StringIO()
    with contextlib.redirect_stdout(out):
        for text in blocks("python"):
            exec(compile(text, "PYTHON.md", "exec"), env)  # pylint: disable=exec-used
    for said in ("kernels instead of", "(64, 128)", "True", "HloModule", "['stats', 'cost']", "E0502 2"):
        assert said in out.getvalue(), (said, out.getvalue())
    assert env["table"]["optimized"]["kernels"] < env["table"]["baseline"]["kernels"]
    want = env["model"](env["x"], env["w"])
    for name, got in env["results"].items():
        assert np.allclose(got, want[name], atol=1e-5), name
    assert "<iframe" in env["m"]._repr_html_()

    # what jit drops, static arguments, closed-over constants, types that NumPy lacks, keys, scalars
    table = np.arange(512, dtype=np.float32).reshape(32, 16)

    def f(x, w, unused, n=3):
        return {"y": jnp.tanh(x @ w).astype(jnp.bfloat16), "z": (x.sum() * n, table + 1)}

    x, w = np.ones((4, 8), np.float32), jnp.ones((8, 16), jnp.bfloat16)
    want = jax.jit(f)(x, w, 3, n=2)
    for program in (jax.jit(f), jax.jit(f).lower(x, w, 3, n=2), jax.export.export(jax.jit(f))(x, w, 3, n=2)):
        got = hlosh.run(program, x, w, 3, n=2)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            assert a.dtype == b.dtype and np.allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=1e-2), (a, b)
    key = jax.random.key(1)
    g = jax.jit(lambda k, p: jax.random.normal(k, (3,)) + p["a"])
    assert np.allclose(hlosh.run(g, key, {"a": 1.5}), g(key, {"a": 1.5}), atol=1e-5)
    s = jax.jit(lambda x, n: x * n, static_argnums=1)
    try:
        hlosh.run(s, 2.0, 3)
        raise AssertionError("a static argument is taken as an array")
    except ValueError as e:
        assert "static" in str(e), e
    assert hlosh.run(s.lower(2.0, 3), 2.0) == 6.0

    # text, bytes, paths; what is none of them
    text = "HloModule t\nENTRY e { a = f32[2] parameter(0) c = bf16[2] convert(a) ROOT r = (f32[2], bf16[2]) tuple(a, c) }\n"
    for program in (text, text.encode()):
        a, b = hlosh.run(program, np.array([1, 2], np.float32))
        assert a.tolist() == [1, 2] and b.astype(np.float32).tolist() == [1, 2] and str(b.dtype) == "bfloat16"
    path = pathlib.Path(sys.argv[2]).parent.parent / "examples" / "mlp.hlo"
    assert hlosh.cost(path)["flops"] == hlosh.cost(str(path))["flops"] > 0
    for program, error in (("nowhere.hlo", FileNotFoundError), (3, TypeError), ("HloModule x {\n", hlosh.Error)):
        try:
            hlosh.text(program)
            raise AssertionError(f"{program!r} is taken")
        except error:
            pass


def magic():
    try:
        from IPython.terminal.interactiveshell import TerminalInteractiveShell
    except ImportError:
        print("SKIP the magics: no IPython")
        return
    ip = TerminalInteractiveShell.instance(colors="NoColor")
    ip.user_ns["m"] = "HloModule t\nENTRY e { a = f32[2] parameter(0) b = f32[2] add(a, a) c = f32[2] add(a, a) ROOT r = f32[2] multiply(b, c) }\n"

    def cell(text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = ip.run_cell(text)
        return result, out.getvalue()

    for line in blocks("ipython")[0].splitlines():
        result, said = cell(line)
        assert result.success, (line, said)
        if "stats" in line:
            assert "4 instructions" in said, said
        if "history" in line:
            assert "-1 instr" in said, said
        if "explore" in line:
            assert "<iframe" in result.result._repr_html_() and "page.html" not in said, said
    import numpy
    import hlosh
    ip.user_ns["with_arguments"] = hlosh.Module(ip.user_ns["m"], numpy.ones(2, numpy.float32))
    _, said = cell("%hlosh -m with_arguments run")
    assert "{4, 4}" in said and "arguments.npz" not in said, said
    _, said = cell("%hlosh explore no_such_instruction")
    assert "E0704" in said, said
    _, said = cell("%%hlosh\nprint\nbogus\ncse_is_no_command\nstats")
    assert "%c = f32[2]{0} add(%a, %a)" in said and 'is called "bogus"' in said and "4 instructions" in said, said
    # braces are HLO's, not Python's
    _, said = cell("%hlosh find dimensions={1}")
    assert "Error" not in said, said
    result, _ = cell("%hlosh -m nothing_of_this_name")
    assert isinstance(result.error_in_exec, NameError)
    _, said = cell("%hlosh quit")
    _, said = cell("%hlosh example mlp")
    assert said.startswith("mlp: 12 instructions"), said
    ip.run_line_magic("unload_ext", "hlosh")
    assert "hlosh" not in ip.magics_manager.magics["line"]


def on_jax():
    run = lambda platforms, text: subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                                 env={"PATH": "", "HOME": ".", **({"JAX_PLATFORMS": platforms} if platforms else {})})
    text = "import jax, jax.numpy as jnp; a = jnp.eye(3) * 4 + 1; print(jax.devices()[0].platform, float(jnp.linalg.cholesky(a).sum()))"
    said = {}
    for platforms in ("hlosh", "cpu", "", "cpu,hlosh"):
        done = run(platforms, text)
        assert done.returncode == 0, (platforms, done.stderr.decode()[-2000:])
        said[platforms] = done.stdout.decode().split()
    assert said["hlosh"][0] == "hlosh", said
    assert all(said[p][0] == "cpu" for p in ("cpu", "", "cpu,hlosh")), said
    assert all(abs(float(said[p][1]) - float(said["cpu"][1])) < 1e-4 for p in said), said
    done = run("cpu,hlosh", "import jax; print(jax.devices('hlosh')[0].platform)")
    assert done.stdout.split() == [b"hlosh"], done.stderr.decode()[-2000:]
    # where nobody asks for it, it is not even loaded
    done = run("", "import jax; jax.devices(); print('libpjrt_hlosh' in open('/proc/self/maps').read())")
    assert done.stdout.split() == [b"False"], done.stdout


{"api": api, "magic": magic, "jax": on_jax}[sys.argv[1]]()
print(f"{sys.argv[1]}: ok")
