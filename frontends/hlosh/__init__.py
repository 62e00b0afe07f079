"""hlosh, the HLO shell, from Python.

    import jax, hlosh
    f = jax.jit(model)
    hlosh.open(f, x)                    # the shell, with the module and these arguments
    hlosh.speedup(f, x)                 # what optimizing saves, as a dict
    m = hlosh.Module(f.lower(x), x)     # the same in steps: m.do("pipeline tuned"); m.run(); m.profile(); m.explore()

A program is a function of jax.jit, what its lower() or compile() gives, an Exported of jax.export, the path of a file that hlosh reads,
or text. Arguments are optional; without them the shell makes some. All that happens, happens in processes of the program hlosh, which
the package carries (HLOSH names another one). In IPython `%load_ext hlosh` has the magic %hlosh. docs/PYTHON.md has examples."""
from .module import Error, Module, Page, program, library

__all__ = ["Error", "Module", "Page", "check", "compile", "cost", "estimate", "explore", "library", "memory", "open", "profile", "program",
           "run", "speedup", "text"]


def open(what, *args, **kwargs):  # pylint: disable=redefined-builtin
    """The shell at this terminal, with the module and its arguments; its exit status."""
    return Module(what, *args, **kwargs).open()


def run(what, *args, **kwargs):
    """The results of one run, as NumPy arrays in the structure that the function returns."""
    return Module(what, *args, **kwargs).run()


def text(what):
    """The module as HLO text."""
    return Module(what).text()


def explore(what, *args, **kwargs):
    """The explorer's page, which a notebook shows and save() writes."""
    return Module(what, *args, **kwargs).explore()


def _of_module(name, doc):
    # The command's options are keywords, so those of the function are given to Module.
    def call(what, *args, **options):
        return getattr(Module(what, *args), name)(**options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc + f"\n\n    Options are those of the command (`help {name}`): seconds=2 is --seconds=2, allow_fallback=True is --allow-fallback."
    return call


speedup = _of_module("speedup", "What optimizing saves in time and memory, measured: docs/JSON.md, speedup.")
profile = _of_module("profile", "The time of each kernel, measured: docs/JSON.md, profile.")
estimate = _of_module("estimate", 'The estimated time on a device, on="h200": docs/JSON.md, estimate.')
memory = _of_module("memory", "Which buffers are needed, and the peak: docs/JSON.md, memory.")
check = _of_module("check", "Whether the backend's results agree with the evaluator's.")
cost = _of_module("cost", "Flops and bytes.")
compile = _of_module("compile", "Kernels, memory and time of compiling.")  # pylint: disable=redefined-builtin


def load_ipython_extension(ipython):
    """%load_ext hlosh"""
    from .magic import register
    register(ipython)


def unload_ipython_extension(ipython):
    """%unload_ext hlosh"""
    from .magic import unregister
    unregister(ipython)
