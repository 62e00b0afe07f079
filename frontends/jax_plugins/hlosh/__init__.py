"""hlosh as a platform of JAX: put the folder above `jax_plugins` into PYTHONPATH (or install the wheel) and set
JAX_PLATFORMS=hlosh.

Where JAX is not asked for hlosh, nothing changes: an environment may have it installed and go on with its own platform.

HLOSH_PJRT_PLUGIN names the library (libpjrt_hlosh.so); else it is looked for beside this file, in the wheel, in build/ of the source
tree, and in the lib folders of common prefixes. HLOSH_DEVICES=n makes n virtual devices. HLOSH_JOURNAL=DIR keeps every compiled
module as a session of the shell."""
import os
from pathlib import Path

LIBRARY = "libpjrt_hlosh.so"


def library_path():
    named = os.environ.get("HLOSH_PJRT_PLUGIN")
    if named:
        return named
    here = Path(__file__).resolve().parent
    wheel = here.parents[1] / "hlosh" / "tree" / "lib"
    places = [here, wheel, *(p / "build" for p in here.parents), *(p / "lib" for p in here.parents), Path("/usr/local/lib"), Path("/usr/lib")]
    for place in places:
        if (place / LIBRARY).is_file():
            return str(place / LIBRARY)
    raise FileNotFoundError(f"{LIBRARY} is not found; HLOSH_PJRT_PLUGIN can name it")


# Primitives that JAX has no general lowering for, or an iterative one: hlosh knows LAPACK's custom calls, as on CPU.
LAPACK = ("eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "ormqr", "schur", "svd", "tridiagonal")


def lower_as_cpu(mlir, module, names):
    """Lowers the module's primitives of these names as JAX does on CPU."""
    rules = getattr(mlir, "_platform_specific_lowerings", {}).get("cpu", {})
    for name in names:
        primitive = getattr(module, name + "_p", None)
        entry = rules.get(primitive)
        rule = getattr(entry, "rule", entry)
        if primitive is not None and rule is not None:
            mlir.register_lowering(primitive, rule, platform="hlosh", inline=getattr(entry, "inline", True))


def use_compilation_cache(cache):
    """JAX keeps compiled programs (jax_compilation_cache_dir) for platforms that it lists by name, and asks this function for it."""
    asked, enabled = getattr(cache, "is_cache_used", None), getattr(cache, "_is_cache_enabled", None)
    if asked and enabled:
        cache.is_cache_used = lambda backend: enabled() if backend.platform == "hlosh" else asked(backend)


def initialize():
    """Called by JAX when it looks for plug-ins. It would start each that is registered, and stop when one cannot start, so this
    one is registered only when it is named."""
    import jax
    if "hlosh" not in (jax.config.jax_platforms or "").split(","):
        return
    from jax._src import compilation_cache, debugging, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg
    from jax_plugins.hlosh import callbacks
    library = library_path()
    xla_bridge.register_plugin("hlosh", priority=500, library_path=library, options={})
    # JAX donates arguments on platforms that it lists by name
    platforms = getattr(mlir, "_platforms_with_donation", None)
    if isinstance(platforms, list) and "hlosh" not in platforms:
        platforms.append("hlosh")
    use_compilation_cache(compilation_cache)
    lower_as_cpu(mlir, linalg, LAPACK)
    lower_as_cpu(mlir, debugging, ("debug_callback", "debug_print"))
    callbacks.use_callbacks(library)
