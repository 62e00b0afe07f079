"""Custom calls of the user's own on hlosh: what jax.ffi.register_ffi_target(..., platform="hlosh") registers, and Python callbacks
(pure_callback, io_callback, debug.print), which are one handler of XLA's foreign function interface (FFI), written with ctypes.

The structs are those of XLA's xla/ffi/api/c_api.h, as far as they are read here."""
import ctypes
import itertools
import threading
import traceback
import weakref
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p

import numpy as np

TARGET = "hlosh_python_callback"
FFI_EXTENSION = 5
INTERNAL, TOKEN = 13, 17


class Extension(Structure):
    pass


Extension._fields_ = [("struct_size", c_size_t), ("type", c_int), ("next", POINTER(Extension))]


class FfiExtension(Structure):
    _fields_ = [("base", Extension), ("type_register", c_void_p), ("user_data_add", c_void_p), ("register_handler", c_void_p)]


class Api(Structure):
    _fields_ = [("struct_size", c_size_t), ("extension", POINTER(Extension))]


class RegisterArgs(Structure):
    _fields_ = [("struct_size", c_size_t), ("target", c_char_p), ("target_size", c_size_t), ("handler", c_void_p), ("platform", c_char_p),
                ("platform_size", c_size_t), ("traits", c_int)]


class Buffer(Structure):
    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("dtype", c_int32), ("data", c_void_p), ("rank", c_int64),
                ("dims", POINTER(c_int64))]


class Values(Structure):
    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64), ("types", c_void_p), ("values", POINTER(POINTER(Buffer)))]


class Scalar(Structure):
    _fields_ = [("dtype", c_int32), ("value", c_void_p)]


class Attributes(Structure):
    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64), ("types", c_void_p), ("names", c_void_p),
                ("values", POINTER(POINTER(Scalar)))]


class ErrorArgs(Structure):
    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int32)]


# struct_size, extension, version (a size, a pointer, two ints), internal; then the first function
class FrameApi(Structure):
    _fields_ = [("head", c_size_t * 6), ("error_create", CFUNCTYPE(c_void_p, POINTER(ErrorArgs)))]


class Frame(Structure):
    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("api", POINTER(FrameApi)), ("ctx", c_void_p), ("stage", c_int32),
                ("args", Values), ("rets", Values), ("attrs", Attributes)]


# By the numbers of xla_data.proto.
DTYPES = {1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64", 10: "float16",
          11: "float32", 12: "float64", 15: "complex64", 16: "bfloat16", 18: "complex128", 19: "float8_e5m2", 20: "float8_e4m3fn",
          23: "float8_e4m3b11fnuz", 24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz", 28: "float8_e4m3", 29: "float8_e3m4",
          33: "float8_e8m0fnu"}


def dtype_of(number):
    name = DTYPES[number]
    if hasattr(np, name) or name == "bool":
        return np.dtype(name)
    import ml_dtypes
    return np.dtype(getattr(ml_dtypes, name))


def array_over(buffer):
    """The elements of a buffer, in place."""
    dtype = dtype_of(buffer.dtype)
    shape = tuple(buffer.dims[k] for k in range(buffer.rank))
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.zeros(shape, dtype)
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(buffer.data)
    return np.frombuffer(raw, dtype).reshape(shape)


def arrays(values):
    """Of all buffers, in place; None for tokens, which are handed through."""
    return [None if v.contents.dtype == TOKEN else array_over(v.contents) for v in values.values[: values.size]]


class Callbacks:
    """The callbacks of the programs that are alive, by the number that their custom calls carry."""

    def __init__(self):
        self.lock = threading.Lock()
        # other processes' numbers, in programs of a compilation cache, are not ours
        self.numbers = itertools.count(int.from_bytes(np.random.default_rng().bytes(6), "little"))
        self.alive = weakref.WeakValueDictionary()

    def add(self, function):
        with self.lock:
            holder = type("Holder", (), {"__slots__": ("function", "__weakref__")})()
            holder.function = function
            number = next(self.numbers)
            self.alive[number] = holder
            return number, holder

    def call(self, frame):
        number = ctypes.cast(frame.attrs.values[0].contents.value, POINTER(c_int64))[0]
        holder = self.alive.get(number)
        if holder is None:
            raise RuntimeError("the program's Python callback belongs to another process, or is gone")
        results = holder.function(*(None if a is None else a.copy() for a in arrays(frame.args)))
        for place, value in zip(arrays(frame.rets), results):
            if place is not None and place.size:
                place[...] = np.asarray(value, place.dtype)


CALLBACKS = Callbacks()


@CFUNCTYPE(c_void_p, POINTER(Frame))
def handler(frame):
    try:
        CALLBACKS.call(frame.contents)
        return None
    except BaseException as e:  # pylint: disable=broad-except
        text = f"CpuCallback error: {e}\n{traceback.format_exc()}"
        args = ErrorArgs(ctypes.sizeof(ErrorArgs), None, text.encode(), INTERNAL)
        return frame.contents.api.contents.error_create(ctypes.byref(args))


def registrar(library):
    """A function (target's name, address of a handler) that registers it with the library."""
    lib = ctypes.CDLL(library)
    lib.GetPjrtApi.restype = POINTER(Api)
    at = lib.GetPjrtApi().contents.extension
    while at and at.contents.type != FFI_EXTENSION:
        at = at.contents.next
    if not at:
        raise RuntimeError(f"{library} has no FFI extension")
    extension = ctypes.cast(at, POINTER(FfiExtension)).contents
    register = CFUNCTYPE(c_void_p, POINTER(RegisterArgs))(extension.register_handler)

    def add(name, address):
        name = name.encode() if isinstance(name, str) else name
        if register(ctypes.byref(RegisterArgs(ctypes.sizeof(RegisterArgs), name, len(name), address, b"Host", 4, 0))):
            raise ValueError(f"the handler of {name!r} is refused")

    return add


def address_in(capsule):
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    return get_pointer(capsule, get_name(capsule))


class AsCpu:
    """A lowering's module context as JAX's lowering of callbacks wants to see it: that of CPU, whose list of callbacks is ours."""

    def __init__(self, real):
        self.real = real
        self.platforms = ("cpu",)
        self.number = None

    def __getattr__(self, name):
        return getattr(self.real, name)

    def add_host_callback(self, function):
        self.number, holder = CALLBACKS.add(function)
        self.real.add_keepalive(holder)

    @property
    def host_callbacks(self):
        return range(self.number + 1)  # the call carries its length less one


def use_callbacks(library):
    """Lowers Python callbacks on hlosh, and passes on the handlers that are registered for it."""
    from jax._src import callback
    from jax._src import ffi
    from jax._src.lib import xla_client
    add = registrar(library)
    add(TARGET, ctypes.cast(handler, c_void_p).value)

    def register(name, function, platform, api_version=1, traits=0):
        stages = function if isinstance(function, dict) else {"execute": function}
        if api_version != 1 or set(stages) != {"execute"}:
            raise NotImplementedError(f"hlosh calls handlers of the typed FFI, with one stage: {name}")
        add(name, address_in(stages["execute"]))

    xla_client.register_custom_call_handler("hlosh", register)
    original, build = callback.emit_python_callback, ffi.build_ffi_lowering_function

    def emit_python_callback(ctx, *args, **kwargs):
        if tuple(ctx.module_context.platforms) != ("hlosh",):
            return original(ctx, *args, **kwargs)
        return original(ctx.replace(module_context=AsCpu(ctx.module_context)), *args, **kwargs)

    def build_for_hlosh(target, *args, **kwargs):
        lowering = build(target, *args, **kwargs)
        if "_python_cpu_callback" not in target:
            return lowering
        ours = build(TARGET, *args, **kwargs)
        return lambda ctx, *a, **k: (ours if isinstance(ctx.module_context, AsCpu) else lowering)(ctx, *a, **k)

    callback.emit_python_callback = emit_python_callback
    ffi.build_ffi_lowering_function = build_for_hlosh
