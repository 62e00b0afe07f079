"""A module and its arguments, as files that hlosh reads, and the processes of hlosh that work on them."""
import html
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings

HERE = pathlib.Path(__file__).resolve().parent


def _found(named, *parts):
    """A file of hlosh: named by the environment, in the wheel, under the prefix of `make install`, or in build/ of the sources."""
    if os.environ.get(named):
        return os.environ[named]
    for place in [HERE / "tree", *HERE.parents]:
        if place.joinpath(*parts).is_file():
            return str(place.joinpath(*parts))
        if (place / "build" / parts[-1]).is_file():
            return str(place / "build" / parts[-1])
    return None


def program():
    """The path of the program hlosh."""
    path = _found("HLOSH", "bin", "hlosh") or shutil.which("hlosh")
    if not path:
        raise FileNotFoundError("the program hlosh is not found; HLOSH can name it")
    return path


def library():
    """The path of libhlosh, the C interface (hlosh.h), for ctypes."""
    path = _found("HLOSH_LIBRARY", "lib", "libhlosh.so.1") or _found("HLOSH_LIBRARY", "lib", "libhlosh.so")
    if not path:
        raise FileNotFoundError("libhlosh.so is not found; HLOSH_LIBRARY can name it")
    return path


class Error(Exception):
    """A command failed. code: the diagnostic's, "E0401" (None: there is none); status: the exit status; note: the next step."""

    def __init__(self, message, code=None, status=None, note=None):
        super().__init__(message + (f"\n{note}" if note else ""))
        self.code, self.status, self.note = code, status, note


class Page:
    """A page of HTML that needs nothing else. A notebook shows it in a frame of its own."""

    def __init__(self, text, height=640):
        self.text, self.height = text, height

    def save(self, path):
        """Writes it to a file, for a browser."""
        pathlib.Path(path).write_text(self.text, encoding="utf-8")

    def _repr_html_(self):
        return (f'<iframe srcdoc="{html.escape(self.text)}" sandbox="allow-scripts allow-downloads" '
                f'style="width:100%;height:{self.height}px;border:0"></iframe>')

    def __repr__(self):
        return f"<hlosh.Page of {len(self.text)} characters>"


def leaves(tree):
    """The arrays of nested arguments, in JAX's order."""
    if "jax" in sys.modules:
        return sys.modules["jax"].tree_util.tree_leaves(tree)
    if tree is None:
        return []
    if isinstance(tree, dict):
        return [x for k in sorted(tree) for x in leaves(tree[k])]
    return [x for v in tree for x in leaves(v)] if isinstance(tree, (list, tuple)) else [tree]


def as_array(value, dtype=None):
    """The bytes that a parameter gets. Keys of jax.random are the integers that they stand for."""
    import numpy
    if "jax" in sys.modules and hasattr(value, "dtype"):
        jax = sys.modules["jax"]
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return numpy.asarray(jax.random.key_data(value))
    array = numpy.asarray(value)
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


def parameters(lowered, values):
    """The arrays of a lowered function's parameters: those of its arguments that it uses, in the types that it wants."""
    wanted = leaves(getattr(lowered, "in_avals", None))
    if wanted and len(wanted) != len(values):
        raise ValueError(f"the function has {len(wanted)} arrays as arguments, {len(values)} are given; leave out those that are static")
    given = [as_array(v, getattr(wanted[k], "dtype", None) if wanted and not hasattr(v, "dtype") else None) for k, v in enumerate(values)]
    # jax.jit drops what is not used; which these are is not part of its interface
    kept = getattr(lowered, "module_kept_var_idx", None)  # an Exported says it
    if kept is None:
        kept = getattr(getattr(lowered, "_lowering", None), "compile_args", {}).get("kept_var_idx")
    return given if kept is None else [v for k, v in enumerate(given) if k in kept]


def ml_dtype(name):
    """The NumPy type of an HLO type that NumPy itself lacks, or None."""
    names = {"bf16": "bfloat16", "s4": "int4", "u4": "uint4", "s2": "int2", "u2": "uint2"}
    name = names.get(name, "float8_" + name[2:] if name.startswith("f8") else name)
    try:
        import ml_dtypes
        return getattr(ml_dtypes, name, None)
    except ImportError:
        return None


class Module:
    """A program with its arguments, and what was done to it. See the package's documentation for what a program can be."""

    def __init__(self, what, *args, **kwargs):
        self.folder = tempfile.TemporaryDirectory(prefix="hlosh-")
        self.done = []        # commands that come before each command, after loading
        self.out_tree = None  # the structure of the results
        self.inputs = None    # the file with the arguments
        values = leaves((args, kwargs))
        if hasattr(what, "lower") and not isinstance(what, (str, bytes)) and not hasattr(what, "as_text"):
            what = what.lower(*args, **kwargs)
            self.file = self._keep(what)
            self._arguments(parameters(what, values))
        else:
            self.file = self._keep(what)
            self._arguments(parameters(what, values) if values else [])

    def _write(self, name, content):
        path = pathlib.Path(self.folder.name) / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def _keep(self, what):
        """The file with the module."""
        if isinstance(what, os.PathLike) or isinstance(what, str) and "\n" not in what and "{" not in what:
            path = pathlib.Path(what)
            if not path.exists():
                raise FileNotFoundError(f"{path}: there is no such file")
            return str(path.resolve())
        if isinstance(what, (str, bytes)):
            return self._write("module.hlo", what)  # formats are told by content
        self.out_tree = getattr(what, "out_tree", None)
        if hasattr(what, "mlir_module_serialized"):
            return self._write("module.mlirbc", what.mlir_module_serialized)
        if hasattr(what, "runtime_executable"):  # compiled: its text has no large constants
            try:
                return self._write("module.pb", what.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())
            except (AttributeError, NotImplementedError):
                pass
        if hasattr(what, "as_text"):
            try:
                return self._write("module.mlir", what.as_text(debug_info=True))
            except TypeError:  # compiled, or JAX before it wrote locations
                return self._write("module.mlir", what.as_text())
        raise TypeError(f"a {type(what).__name__} is no program: give a function of jax.jit, what its lower() gives, a path or text")

    def _arguments(self, arrays):
        if arrays:
            import numpy
            self.inputs = str(pathlib.Path(self.folder.name) / "arguments.npz")
            numpy.savez(self.inputs, **{f"arg{k}": a for k, a in enumerate(arrays)})

    def _start(self, quiet=False):
        inputs = f"inputs '{self.inputs}' --cast" + (" > /dev/null" if quiet else "")
        return [f"load '{self.file}'"] + ([inputs] if self.inputs else [])

    def do(self, commands):
        """Commands of the shell, separated by ; or lines, that come before all that follows. Returns the module."""
        self.done.append(commands)
        try:
            self.commands()
        except Error:
            self.done.pop()
            raise
        return self

    def commands(self, *commands):
        """Runs commands of the shell, each a string, on the module. Their JSON documents (docs/JSON.md), without those of loading and do()."""
        before = self._start() + [line for text in self.done for line in text.splitlines() if line.strip()]
        call = [program(), "--no-rc", "--json"]
        # the documents of before end at this one
        for c in [*before, "metadata", *commands]:
            call += ["-c", c]
        done = subprocess.run(call, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        documents = [json.loads(line) for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("{")]
        for d in documents:
            for w in d.get("warnings", []):
                warnings.warn(w, stacklevel=3)
            if d["status"] != "ok" and d.get("errors"):
                e = d["errors"][0]
                named = e["message"].startswith(d["command"] + ":")
                raise Error(e["message"] if named else f"{d['command']}: {e['message']}", e["code"], d.get("exit"), e.get("note"))
        if done.returncode:
            raise Error(done.stderr.decode("utf-8", "replace").strip() or f"hlosh ended with status {done.returncode}", None, done.returncode)
        marks = [k for k, d in enumerate(documents) if d["command"] == "metadata"]
        return documents[marks[0] + 1:] if marks else documents

    def command(self, name, *words, **options):
        """One command with its options as keywords; its document."""
        for key, value in options.items():
            key = ("-" if len(key) == 1 else "--") + key.replace("_", "-")
            if value is True:
                words += (key,)
            elif value is not False and value is not None:
                words += (f"{key}={value}",)
        return self.commands(" ".join([name, *map(str, words)]))[-1]

    def speedup(self, **options):
        return self.command("speedup", **options)

    def profile(self, **options):
        return self.command("profile", **options)

    def estimate(self, **options):
        return self.command("estimate", **options)

    def memory(self, *words, **options):
        return self.command("memory", *words, **options)

    def check(self, **options):
        return self.command("check", **options)

    def cost(self, **options):
        return self.command("cost", **options)

    def compile(self, **options):
        return self.command("compile", **options)

    def text(self):
        """The module as HLO text, constants and all."""
        path = pathlib.Path(self.folder.name) / "saved.hlo"
        self.command("save", f"'{path}'")
        return path.read_text()

    def run(self, **options):
        """The results: NumPy arrays, in the structure that the function returns where it is known, else a list."""
        import numpy
        path = pathlib.Path(self.folder.name) / "results.npz"
        types = []
        document = self.command("run", "-o", f"'{path}'", **options)

        def walk(v):
            if "elements" in v:
                for x in v["elements"]:
                    walk(x)
            else:
                types.append(v["shape"].split("[")[0])

        walk(document["result"])
        with numpy.load(path) as file:
            arrays = [file[name] for name in file.files]
        arrays = [a.view(ml_dtype(t)) if a.dtype.kind == "V" and ml_dtype(t) else a for a, t in zip(arrays, types)]
        if self.out_tree is not None and self.out_tree.num_leaves == len(arrays):
            return self.out_tree.unflatten(arrays)
        return arrays

    def explore(self, instruction="", height=640):
        """The explorer's page; with an instruction it opens there. After `profile` in do() it has the measured times."""
        path = pathlib.Path(self.folder.name) / "page.html"
        self.command("explore", instruction, "-o", f"'{path}'")
        return Page(path.read_text(encoding="utf-8"), height)

    def _repr_html_(self):
        return self.explore()._repr_html_()

    def open(self):
        """The shell on this terminal, or on what standard input has; its exit status. The module's do() commands run first."""
        call = [program()]
        for c in self._start() + self.done:
            call += ["-c", c]
        call += ["-i"] if sys.stdin.isatty() else ["-f", "-"]
        sys.stdout.flush()
        # Ctrl-C is the shell's; a handler, unlike SIG_IGN, is not inherited
        main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, lambda *_: None) if main else None
        try:
            return subprocess.call(call)
        finally:
            if main:
                signal.signal(signal.SIGINT, before)
