"""Reads StableHLO texts with jaxlib and hands them to XLA's own conversion.

usage: stablehlo.py [--convert] FILE.mlir...
Prints "FAIL FILE: reason" and last "jaxlib: P/T"; ends with 77 where jaxlib is missing.
"""
import os
import sys

try:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext as jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo
except ImportError as error:
    print("SKIP no jaxlib:", error)
    sys.exit(77)


def context():
    made = ir.Context()
    registry = ir.DialectRegistry()
    jax_mlir_ext.register_dialects(registry)
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    sdy.register_dialect(made)
    mhlo.register_mhlo_dialect(made)
    chlo.register_dialect(made)
    stablehlo.register_dialect(made)
    return made


def convert(text):
    """In a process of its own: XLA ends it where a check of its own fails."""
    from jaxlib import _jax

    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            _jax.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)
            os._exit(0)
        except Exception as error:  # handed to the parent
            os.write(write, str(error).encode()[:4000])
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = answer.read().decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    if status:
        raise RuntimeError(said or "died by signal %d" % (status & 127))


def main(files):
    converting = files[:1] == ["--convert"]
    files = files[1:] if converting else files
    good = 0
    with context():
        for name in files:
            with open(name) as f:
                text = f.read()
            try:
                module = ir.Module.parse(text)
                module.operation.verify()
                if converting:
                    convert(text)
                good += 1
            except Exception as error:  # whatever jaxlib raises is the file's failure
                print("FAIL", os.path.basename(name) + ":", " ".join(str(error).split())[:300])
    print("jaxlib: %d/%d" % (good, len(files)))
    return 0 if good == len(files) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
