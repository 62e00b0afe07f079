"""XLA's side of bench/parse: reads "load FILE" and "parse" from stdin, answers with a number each.

"load" answers the file's size, "parse" the seconds of CPU time of one hlo_module_from_text over the loaded text, or of parsing and
converting it where it is StableHLO (writing the bytecode between the two is left out); -1 is a failure.
The module is dropped after the clock has stopped.
"""
import sys
import time

from jaxlib import _hlo, _jax
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo


def mlir_context():
    made = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    for register in (sdy.register_dialect, mhlo.register_mhlo_dialect, chlo.register_dialect):
        register(made)
    stablehlo.register_dialect(made)
    return made


def read_mlir(text, context):
    """StableHLO's way: MLIR's parser, then XLA's conversion of its bytecode, as JAX calls it."""
    import io

    with context:
        module = ir.Module.parse(text)
        code = io.BytesIO()
        start = time.thread_time()
        module.operation.write_bytecode(code)
        writing = time.thread_time() - start
        return (
            _jax.mlir.mlir_module_to_xla_computation(
                code.getvalue(), use_tuple_args=False, return_tuple=False
            ),
            writing,
        )


def main():
    print("ready", flush=True)
    text = ""
    for line in sys.stdin:
        command, _, arg = line.rstrip("\n").partition(" ")
        answer = -1.0
        try:
            if command == "load":
                with open(arg, encoding="utf-8", errors="surrogateescape") as f:
                    text = f.read()
                answer = float(len(text))
            elif command == "parse":
                mlir = text.lstrip().startswith(("module", "#loc"))
                context = mlir_context() if mlir else None
                start, other = time.thread_time(), 0.0
                if mlir:
                    module, other = read_mlir(text, context)
                else:
                    module = _hlo.hlo_module_from_text(text)
                answer = time.thread_time() - start - other
                del module
        except Exception:  # refused: the driver names the file
            pass
        print(answer, flush=True)


main()
