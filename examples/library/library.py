"""libhlosh from Python, by ctypes: loads a module, optimizes it and runs it. Usage: python library.py libhlosh.so [FILE.hlo]"""
import ctypes
import sys

TEXT = b"""HloModule squares
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] multiply(x, x)
  ROOT z = f32[4] add(y, x)
}
"""


class Array(ctypes.Structure):
    _fields_ = [("type", ctypes.c_char_p), ("rank", ctypes.c_size_t), ("dims", ctypes.c_int64 * 64), ("bytes", ctypes.c_size_t)]


class Hlosh:
    """An instance; errors are exceptions."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.hlosh_error_message.restype = ctypes.c_char_p
        self.lib.hlosh_module_name.restype = ctypes.c_char_p
        self.lib.hlosh_arguments.restype = self.lib.hlosh_results.restype = ctypes.c_size_t
        self.handle = self.call("hlosh_open", 1)

    def call(self, name, *args, out=None):
        """A function whose last parameter is what it gives; out: that, when it is no handle."""
        f = getattr(self.lib, name)
        f.restype = ctypes.c_void_p
        given = ctypes.c_void_p() if out is None else out
        error = f(*args, ctypes.byref(given))
        if error:
            message = self.lib.hlosh_error_message(ctypes.c_void_p(error)).decode()
            self.lib.hlosh_error_free(ctypes.c_void_p(error))
            raise RuntimeError(message)
        return given


def main():
    h = Hlosh(sys.argv[1])
    if len(sys.argv) > 2:
        m = h.call("hlosh_load_file", h.handle, sys.argv[2].encode())
    else:
        m = h.call("hlosh_load", h.handle, b"squares", TEXT, ctypes.c_size_t(len(TEXT)))
    program = h.call("hlosh_compile", m, b"cpu")
    sizes = [h.call("hlosh_argument", m, ctypes.c_size_t(k), out=Array()).bytes for k in range(h.lib.hlosh_arguments(m))]
    args = [(ctypes.c_float * (n // 4))(*(float(j % 7) for j in range(n // 4))) for n in sizes]
    result = h.call("hlosh_result", m, ctypes.c_size_t(0), out=Array())
    to = (ctypes.c_float * (result.bytes // 4))()
    pointers = (ctypes.c_void_p * len(args))(*(ctypes.addressof(a) for a in args))
    results = (ctypes.c_void_p * 1)(ctypes.addressof(to))
    h.lib.hlosh_run.restype = ctypes.c_void_p
    if h.lib.hlosh_run(program, pointers, results):
        raise RuntimeError("it does not run")
    print(h.lib.hlosh_module_name(m).decode() + ":", list(to)[:4])
    try:
        h.call("hlosh_load", h.handle, b"nonsense", b"HloModule m\n ENTRY e { x = f32[2] sinn(y) }", ctypes.c_size_t(43))
    except RuntimeError as e:
        print("refused:", str(e).splitlines()[0])
    h.lib.hlosh_program_free(program)
    h.lib.hlosh_module_free(m)
    h.lib.hlosh_close(h.handle)


main()
