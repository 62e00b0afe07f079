"""child.py: compiles and runs modules with jaxlib, as a process of hlosh's backend `jax`.

hlosh starts it as `python3 -c TEXT KEY=NUMBER...`; the text is embedded in hlosh, nothing of it is
installed. It speaks the protocol of hlosh's own worker (backends/worker_wire.h) on the descriptor
`fd`, a stream socket, and answers the requests that backends/pjrt/serve.c answers for a plug-in:

    frame     u32 magic, kind, descriptors, 3 lengths of texts; u64 bytes of the body; then the body
    request   kind = ping | open | compile | run | release; large data in shared memory whose
              descriptors come with the frame
    reply     kind = 0 and a body, or an error code and the texts message, note, subject

Numbers are in native byte order; strings and arrays have their length in front. Each length is
checked against what is there, here and in hlosh. KEY=NUMBER gives the numbers of the requests and
of hlosh's error codes. The process ends when hlosh closes the socket, or dies.

Times are taken around the execution and the wait for its results with time.perf_counter_ns; placing
arguments, fresh copies of donated ones and reading results are outside. A module reaches XLA as it
does from JAX, through StableHLO; its donation is part of that text, and the layouts of parameters
and results are added as attributes.
"""
import sys

sys.path[:] = [p for p in sys.path if p]  # a numpy.py in the current folder is not numpy

import array
import ctypes
import gc
import io
import mmap
import os
import signal
import socket
import struct
import time

KEYS = {k: int(v) for k, _, v in (a.partition('=') for a in sys.argv[1:])}
MAGIC, MOST_DESCRIPTORS, MOST_DEVICES = KEYS['magic'], 16, 4096
FRAME = struct.Struct('=IIIIIIQ')

# Element types by PJRT_Buffer_Type: HLO's name, numpy's.
TYPES = [None, ('pred', 'bool'), ('s8', 'int8'), ('s16', 'int16'), ('s32', 'int32'),
         ('s64', 'int64'), ('u8', 'uint8'), ('u16', 'uint16'), ('u32', 'uint32'),
         ('u64', 'uint64'), ('f16', 'float16'), ('f32', 'float32'), ('f64', 'float64'),
         ('bf16', 'bfloat16'), ('c64', 'complex64'), ('c128', 'complex128'),
         ('f8e5m2', 'float8_e5m2'), ('f8e4m3fn', 'float8_e4m3fn'),
         ('f8e4m3b11fnuz', 'float8_e4m3b11fnuz'), ('f8e5m2fnuz', 'float8_e5m2fnuz'),
         ('f8e4m3fnuz', 'float8_e4m3fnuz'), ('s4', 'int4'), ('u4', 'uint4'), None,
         ('s2', 'int2'), ('u2', 'uint2'), ('f8e4m3', 'float8_e4m3'), ('f8e3m4', 'float8_e3m4'),
         ('f8e8m0fnu', 'float8_e8m0fnu'), ('f4e2m1fn', 'float4_e2m1fn')]


class Failure(Exception):
    """An error with one of hlosh's codes, by its key."""

    def __init__(self, code, text, note=''):
        super().__init__(text)
        self.code, self.note = code, note


class Reader:
    """The fields of a request, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if n < 0 or n > len(self.data) - self.at:
            raise Failure('E_INTERNAL', 'a request is cut short')
        self.at += n
        return self.data[self.at - n:self.at]

    def numbers(self, kind, n):
        if n > len(self.data):
            raise Failure('E_INTERNAL', 'a request is cut short')
        layout = '=%d%s' % (n, kind)
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def number(self, kind):
        return self.numbers(kind, 1)[0]

    def bytes(self):
        return self.take(self.number('q'))

    def text(self):
        return self.bytes().decode('utf-8', 'replace')


def with_length(data):
    return struct.pack('=q', len(data)) + data


def text(s):
    return with_length(s.encode())


# ---- older protos -------------------------------------------------------------------------------
# Until 2025 an instruction's number was of 32 bits; now that of its computation is in its upper half.
OLD_NUMBERS = (0, 7)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def as_varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def rewritten(data, fields, new):
    """A message with new numbers in its fields `fields`: True, or those of the message in it."""
    out, at = [], 0
    while at < len(data):
        begin = at
        tag, at = varint(data, at)
        inside = fields.get(tag >> 3)
        if tag & 7 == 0:
            value, at = varint(data, at)
            out.append(as_varint(tag) + as_varint(new(value)) if inside else data[begin:at])
            continue
        size, at = varint(data, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
        part, at = data[at:at + size], at + size
        if not inside:
            out.append(data[begin:at])
            continue
        if inside is True:  # packed
            values, k = [], 0
            while k < len(part):
                value, k = varint(part, k)
                values.append(as_varint(new(value)))
            part = b''.join(values)
        else:
            part = rewritten(part, inside, new)
        out.append(as_varint(tag) + as_varint(len(part)) + part)
    return b''.join(out)


def renumbered(module):
    """An HloModuleProto whose instructions have small numbers."""
    small = {}
    instruction = {35: True, 36: True, 37: True}  # id, operands, control predecessors
    return rewritten(module, {3: {2: instruction, 6: True}},
                     lambda n: small.setdefault(n, len(small) + 1))


# ---- jaxlib -------------------------------------------------------------------------------------

class Library:
    """What of jax and jaxlib is used. The differences between their versions are here."""

    def __init__(self):
        try:
            import jax
            import jaxlib
            import numpy
            from jaxlib import xla_client
        except Exception as e:  # whatever an installation that does not fit together raises
            raise Failure('E_NOT_BUILT', '%s cannot import jax and jaxlib: %s' %
                          (sys.executable, last_line(e)),
                          'fix: %s -m pip install jax, or backend jax PYTHON' % sys.executable)
        jax.config.update('jax_enable_x64', True)  # 64-bit arrays stay what they are
        self.jax, self.np, self.xc = jax, numpy, xla_client
        self.hlo = getattr(xla_client, 'hlo', None) or xla_client._xla
        self.version = jaxlib.__version__
        try:
            from jaxlib import lapack
            lapack._lapack.initialize()  # LAPACK's functions, which custom calls of JAX use
        except Exception:
            pass  # versions that need no such call
        try:
            self.devices = jax.local_devices()
        except Exception as e:
            raise Failure('E_RUN', 'jax has no device: %s' % last_line(e))
        self.client = self.devices[0].client
        self.empty_ms = None

    def dtype(self, kind):
        known = TYPES[kind] if 0 <= kind < len(TYPES) else None
        if known and hasattr(self.np, known[1]) and kind != 1:
            return self.np.dtype(known[1])
        if kind == 1:
            return self.np.dtype(bool)
        try:
            import ml_dtypes
            return self.np.dtype(getattr(ml_dtypes, known[1]))
        except (ImportError, AttributeError, TypeError):
            raise Failure('E_UNSUPPORTED', 'ml_dtypes of %s has no type %s' %
                          (sys.executable, known[0] if known else 'number %d' % kind))

    def stablehlo(self, proto):
        convert = self.xc._xla.mlir
        if tuple(int(t) for t in self.version.split('.')[:2]) < OLD_NUMBERS:
            proto = renumbered(proto)
        if hasattr(convert, 'hlo_to_stablehlo'):
            return convert.hlo_to_stablehlo(proto)
        return convert.xla_computation_to_mlir_module(self.xc.XlaComputation(proto))

    def with_layouts(self, module, args, results):
        """The module with layouts of its parameters and results; None is the default one."""
        from jax._src.interpreters.mlir import make_ir_context
        from jaxlib.mlir import ir

        def attributes(op, key, layouts):
            had = ir.ArrayAttr(op.attributes[key]) if key in op.attributes else None
            all = []
            for k, layout in enumerate(layouts):
                old = ir.DictAttr(had[k]) if had is not None else []
                new = {old[j].name: old[j].attr for j in range(len(old))}
                if layout:
                    new['mhlo.layout_mode'] = ir.StringAttr.get(layout)
                all.append(ir.DictAttr.get(new))
            op.attributes[key] = ir.ArrayAttr.get(all)
        with make_ir_context():
            parsed = ir.Module.parse(module)
            for op in parsed.body.operations:
                name = op.attributes['sym_name'] if 'sym_name' in op.attributes else None
                if name is not None and ir.StringAttr(name).value == 'main':
                    attributes(op, 'arg_attrs', args)
                    attributes(op, 'res_attrs', results)
            out = io.BytesIO()
            parsed.operation.write_bytecode(out)
            return out.getvalue()

    def options(self, data, devices):
        o = self.xc.CompileOptions.ParseFromString(data)
        build = o.executable_build_options
        ids = self.np.array([d.id for d in devices])
        o.device_assignment = build.device_assignment = self.xc.DeviceAssignment.create(
            ids.reshape(build.num_replicas, build.num_partitions))
        return o

    def compile(self, module, options, devices):
        if not hasattr(self.client, 'compile_and_load'):
            return self.client.compile(module, options)
        return self.client.compile_and_load(module, self.xc.DeviceList(tuple(devices)), options)

    def register(self, target, library, symbol):
        """A custom call of the user's own library, through XLA's FFI."""
        handler = ctypes.CDLL(library)[symbol]
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p]
        capsule = new(ctypes.cast(handler, ctypes.c_void_p), None, None)
        self.xc.register_custom_call_target(target, capsule, platform=self.platform(),
                                            api_version=1)

    def platform(self):
        return {'gpu': 'CUDA', 'cuda': 'CUDA', 'rocm': 'ROCM'}.get(self.client.platform, 'cpu')

    def stack(self, arrays, ndevices, dims):
        """One array per device as one argument: what is on each device is what it gets."""
        if ndevices == 1:
            return arrays[0]
        sharding = self.jax.sharding
        mesh = sharding.Mesh(self.np.array(self.devices[:ndevices]), ('d',))
        same = sharding.NamedSharding(mesh, sharding.PartitionSpec())
        return self.jax.make_array_from_single_device_arrays(dims, same, arrays)

    def execute(self, exe, args, noutputs):
        """Runs it and waits for the results: per result a list of one array per device."""
        if not noutputs:
            done = exe.execute_sharded(args, with_tokens=True)
            done.consume_token().block_until_ready()
            return []
        outs = exe.execute_sharded(args).disassemble_into_single_device_arrays()
        self.xc.batched_block_until_ready([a for o in outs for a in o])
        return outs


def last_line(e):
    lines = [t for t in str(e).strip().split('\n') if t.strip()]
    return '%s: %s' % (type(e).__name__, lines[-1][:600] if lines else 'no reason given')


LIB = None
PROGRAMS = {}


def opened():
    if LIB is None:
        raise Failure('E_INTERNAL', 'a request came before the one that opens jaxlib')
    return LIB


def serve_open(q, fds):
    """Path (not used), environment. Descriptor: where stderr goes. Reply: as of a plug-in."""
    global LIB
    if LIB is not None:
        raise Failure('E_INTERNAL', 'jaxlib is open already')
    if fds:
        os.dup2(fds[0], 2)
    q.bytes()
    for _ in range(q.number('I')):
        name = q.text()
        os.environ[name] = q.text()
    threads = os.environ.get('NPROC', '')
    if threads.isdigit() and int(threads) > 0:  # older versions ask the kernel, not NPROC
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(threads)])
    LIB = Library()
    try:
        from jaxlib.mlir.dialects import stablehlo
        spoken, oldest = stablehlo.get_current_version(), stablehlo.get_minimum_version()
    except Exception:  # older versions do not tell
        spoken = oldest = ''
    device = LIB.devices[0]
    about = 'jaxlib=%s jax=%s platform=%s python=%s numpy=%s devices=%d device=%s' % (
        LIB.version, LIB.jax.__version__, LIB.client.platform, sys.version.split()[0],
        LIB.np.__version__, len(LIB.devices), device.device_kind.replace(' ', '_'))
    # what has been imported stays: a collection before each measurement need not look through it,
    # which takes a tenth of a second
    gc.collect()
    gc.freeze()
    return struct.pack('=III', 0, 0, 0) + text(spoken) + text(oldest) + text(about) + text('')


# ---- compile ------------------------------------------------------------------------------------

class Array:
    """One argument or result of one device."""

    def __init__(self, q):
        self.kind, rank = q.numbers('I', 2)
        self.nbytes = q.number('q')
        self.dims = q.numbers('q', rank)
        self.order = q.numbers('q', rank)
        self.dtype = LIB.dtype(self.kind)

    def layout(self):
        """As text; None when it is the default one."""
        if self.order == tuple(range(len(self.dims) - 1, -1, -1)):
            return None
        return '{%s}' % ','.join(map(str, self.order))


class Program:
    pass


def peak_bytes():
    try:
        with open('/proc/self/status') as f:
            return next(int(t.split()[1]) << 10 for t in f if t.startswith('VmHWM:'))
    except (OSError, StopIteration, ValueError):
        return -1


def reset_peak():
    try:
        with open('/proc/self/clear_refs', 'w') as f:
            f.write('5')
    except OSError:
        pass


def result_shapes(module):
    shape = LIB.xc.XlaComputation(module).program_shape().result_shape()
    return list(shape.tuple_shapes()) if shape.is_tuple() else [shape]


def memory(exe):
    names = ['generated_code_size', 'argument_size', 'output_size', 'alias_size', 'temp_size',
             'peak_memory']
    try:
        s = exe.get_compiled_memory_stats()
    except Exception:  # not every platform has them
        return struct.pack('=I6q', 0, *[-1] * 6)
    return struct.pack('=I6q', 1, *[int(getattr(s, n + '_in_bytes', -1)) for n in names])


def cost(exe):
    try:
        c = exe.cost_analysis()
        c = c[0] if isinstance(c, list) else c
        c = [(k, float(v)) for k, v in c.items() if isinstance(v, (int, float))]
    except Exception:  # likewise
        c = []
    return struct.pack('=I', len(c)) + b''.join(text(k) + struct.pack('=d', v) for k, v in c)


def optimized(exe):
    """HloModuleProto, or b'' where the platform does not tell."""
    try:
        return exe.hlo_modules()[0].as_serialized_hlo_module_proto()
    except Exception:
        return b''


def serve_compile(q, fds):
    """Program number, bytes of the module, options, target, devices, shapes of arguments and
    results, which arguments are donated, custom calls. Descriptor: the module's proto.
    """
    lib, g = opened(), Program()
    number, size = q.numbers('q', 2)
    options, target = q.bytes(), q.text()
    g.ndevices, _ = q.numbers('I', 2)
    g.args = [Array(q) for _ in range(q.number('I'))]
    g.outs = [Array(q) for _ in range(q.number('I'))]
    g.donated = q.numbers('?', len(g.args))
    calls = [(q.text(), q.text(), q.text()) for _ in range(q.number('I'))]
    if target:
        raise Failure('E_UNSUPPORTED', 'jaxlib compiles for the devices that are here only',
                      'backend pjrt compiles for a GPU that is not')
    if not 1 <= g.ndevices <= len(lib.devices):
        raise Failure('E_UNSUPPORTED', 'the module runs on %d devices, jax has %d' %
                      (g.ndevices, len(lib.devices)))
    for name, library, symbol in calls:
        if library:
            lib.register(name, library, symbol)
    with mmap.mmap(fds[0], 0, access=mmap.ACCESS_READ) as m:
        if not 0 <= size <= len(m):
            raise Failure('E_INTERNAL', 'a module is cut short')
        proto = m[:size]
    module = lib.stablehlo(proto)
    layouts = [[a.layout() for a in v] for v in (g.args, g.outs)]
    if any(layouts[0]) or any(layouts[1]):
        module = lib.with_layouts(module, *layouts)
    devices = lib.devices[:g.ndevices]
    parsed = lib.options(options, devices)
    reset_peak()
    cpu, start = time.process_time(), time.perf_counter_ns()
    g.exe = lib.compile(module, parsed, devices)
    took, cpu = time.perf_counter_ns() - start, time.process_time() - cpu
    reply = struct.pack('=ddq', took / 1e6, cpu * 1e3, peak_bytes())
    made = optimized(g.exe)
    shapes = result_shapes(made) if made else []
    if made and len(shapes) != len(g.outs):
        raise Failure('E_COMPILE', "XLA's program has %d results, the module %d" %
                      (len(shapes), len(g.outs)))
    for k, out in enumerate(g.outs):
        dims = tuple(shapes[k].dimensions()) if made else out.dims
        if len(dims) != len(out.dims):
            raise Failure('E_COMPILE', 'result %d of XLA\'s program has another shape' % k)
        out.dims = dims
        reply += struct.pack('=%dq' % len(dims), *dims)
    fingerprint = getattr(g.exe, 'fingerprint', None) or b''
    reply += memory(g.exe) + cost(g.exe) + with_length(bytes(fingerprint)) + text('')
    reply += struct.pack('=I', 0) + text('hlo' if made else '') + with_length(made)
    g.copies = {}
    PROGRAMS[number] = g
    return reply


# ---- run ----------------------------------------------------------------------------------------

def small_program(device, hlo, layout=None):
    """Compiles HLO text of one parameter; `layout`: of its result."""
    proto = LIB.hlo.hlo_module_from_text(hlo).as_serialized_hlo_module_proto()
    module = LIB.stablehlo(proto)
    if layout:
        module = LIB.with_layouts(module, [None], [layout])
    one = b'\x1a\x0f\x08' + b'\xff' * 9 + b'\x01\x20\x01\x28\x01'  # one replica, one partition
    return LIB.compile(module, LIB.options(one, [device]), [device])


def copier(array, device):
    """A program that copies such an array into memory of its own, in the array's layout."""
    dims = ','.join(map(str, array.dims))
    return small_program(device, 'HloModule copy\nENTRY e { ROOT p = %s[%s] parameter(0) }\n' %
                         (TYPES[array.kind][0], dims), array.layout())


class Run:
    """One run request: arguments on the devices, then executions."""

    def __init__(self, g, memory, offsets):
        self.g, self.results = g, None
        n, nargs = g.ndevices, len(g.args)
        self.base = []
        for k, a in enumerate(g.args):
            parts = []
            for d in range(n):
                offset = offsets[d * nargs + k]
                if offset < 0 or offset + a.nbytes > len(memory):
                    raise Failure('E_INTERNAL', 'an argument lies outside of its block')
                host = LIB.np.ndarray(a.dims, a.dtype, memory, offset)
                parts.append(LIB.jax.device_put(host, LIB.devices[d]))
            self.base.append(parts)
        # layouts of the module's own; donated arguments are copied before each run
        for k, a in enumerate(g.args):
            if a.layout() and not g.donated[k]:
                self.base[k] = self.copy(k)
        self.held = [None if g.donated[k] else LIB.stack(p, n, g.args[k].dims)
                     for k, p in enumerate(self.base)]
        LIB.jax.block_until_ready([h for h in self.held if h is not None])

    def copy(self, k):
        """The argument in memory that XLA owns, on every device."""
        parts = []
        for d, part in enumerate(self.base[k]):
            if (k, d) not in self.g.copies:
                self.g.copies[k, d] = copier(self.g.args[k], LIB.devices[d])
            parts.append(LIB.execute(self.g.copies[k, d], [part], 1)[0][0])
        return parts

    def once(self):
        """Milliseconds of one execution."""
        g, self.results = self.g, None
        args = [LIB.stack(self.copy(k), g.ndevices, g.args[k].dims) if h is None else h
                for k, h in enumerate(self.held)]
        LIB.jax.block_until_ready(args)
        start = time.perf_counter_ns()
        self.results = LIB.execute(g.exe, args, len(g.outs))
        return (time.perf_counter_ns() - start) / 1e6

    def fetch(self, memory):
        at, g = 0, self.g
        for d in range(g.ndevices):
            for k, out in enumerate(g.outs):
                got = LIB.np.asarray(self.results[k][d])
                n = got.size * got.dtype.itemsize
                if got.dtype != out.dtype or got.shape != tuple(out.dims) or n > out.nbytes:
                    raise Failure('E_RUN', 'result %d is %s%s' % (k, got.dtype, list(got.shape)))
                if at + n > len(memory):
                    raise Failure('E_INTERNAL', 'the block for results is too small')
                to = LIB.np.ndarray(got.shape, got.dtype, memory, at)
                to[...] = got
                widen(to, TYPES[out.kind][0])
                at += -(-n // 64) * 64


def widen(a, kind):
    """Narrow integers come one to a byte with any upper bits; hlosh has them sign-extended."""
    bits = {'s2': 2, 'u2': 2, 's4': 4, 'u4': 4}.get(kind)
    if bits:
        raw = a.view('int8' if kind[0] == 's' else 'uint8')
        raw <<= 8 - bits
        raw >>= 8 - bits


def measure(once, first, o):
    """The samples that backends/serve.c's serve_measure would take."""
    warmup, least, most, least_s, most_s, kernels = o
    most = max(most, 1)
    least = min(max(least, 1), most)
    if not warmup and most == 1 and not kernels:
        return [first]
    for _ in range(warmup):
        once()
    samples, start = [], time.perf_counter()
    while len(samples) < most:
        samples.append(once())
        spent = time.perf_counter() - start
        if (len(samples) >= least and spent >= least_s) or 0 < most_s <= spent:
            break
    return samples


def empty_call_ms():
    """What a call of a program that does next to nothing takes on a quiet machine: Python's part of
    each sample.
    """
    if LIB.empty_ms is None:
        exe = small_program(LIB.devices[0],
                            'HloModule empty\nENTRY e { ROOT p = f32[] parameter(0) }\n')
        a = [LIB.jax.device_put(LIB.np.float32(1), LIB.devices[0])]
        times = []
        for _ in range(300):
            start = time.perf_counter_ns()
            LIB.execute(exe, a, 1)
            times.append(time.perf_counter_ns() - start)
        LIB.empty_ms = sorted(times)[len(times) // 10] / 1e6
    return LIB.empty_ms


def serve_run(q, fds):
    """Program, run options, offsets of the arguments. Descriptors: arguments, and results when
    wanted. Reply: times in milliseconds.
    """
    opened()
    g = PROGRAMS.get(q.number('q'))
    if g is None or not fds:
        raise Failure('E_INTERNAL', 'there is no such program')
    o = q.numbers('I', 3) + q.numbers('d', 2) + (q.number('I') != 0,)
    q.number('I')  # counters of the device: there are none here
    offsets = q.numbers('q', g.ndevices * len(g.args))
    start = time.perf_counter_ns()
    run = Run(g, mmap.mmap(fds[0], 0, access=mmap.ACCESS_READ), offsets)
    transfer = (time.perf_counter_ns() - start) / 1e6
    gc.collect()
    gc.disable()
    try:
        first = run.once()
        if len(fds) > 1:
            start = time.perf_counter_ns()
            run.fetch(mmap.mmap(fds[1], 0))
            transfer += (time.perf_counter_ns() - start) / 1e6
        samples = measure(run.once, first, o)
        empty = empty_call_ms() if len(samples) > 1 else -1
    finally:
        gc.enable()
    power = struct.pack('=ddII', 0, 0, 0, 0) + text('')  # not read here
    return (struct.pack('=ddd', first, transfer, empty) + power +
            struct.pack('=I%ddI' % len(samples), len(samples), *samples, 0))


def serve_release(q, fds):
    PROGRAMS.pop(q.number('q'), None)
    return b''


def serve_ping(q, fds):
    return q.data


# ---- the loop -----------------------------------------------------------------------------------

HANDLERS = {KEYS['ping']: (serve_ping, 'E_WORKER'), KEYS['open']: (serve_open, 'E_WORKER'),
            KEYS['compile']: (serve_compile, 'E_COMPILE'), KEYS['run']: (serve_run, 'E_RUN'),
            KEYS['release']: (serve_release, 'E_RUN')}


def read(sock, n):
    data = bytearray(n)
    view, at = memoryview(data), 0
    while at < n:
        got = sock.recv_into(view[at:])
        if not got:
            sys.exit(0)
        at += got
    return bytes(data)


def read_frame(sock):
    room = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array('i').itemsize)
    head, control, _, _ = sock.recvmsg(FRAME.size, room)
    if not head:
        sys.exit(0)
    fds = array.array('i')
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
    magic, kind, _, _, _, _, size = FRAME.unpack(head + read(sock, FRAME.size - len(head)))
    if magic != MAGIC:
        sys.exit('hlosh: a frame with another mark')
    return kind, list(fds), read(sock, size)


def failed(e, code):
    """(code, message, note) of an exception."""
    if isinstance(e, Failure):
        return KEYS[e.code], str(e), e.note
    message = str(e).strip() or type(e).__name__
    if isinstance(e, MemoryError) or message.startswith('RESOURCE_EXHAUSTED'):
        code = 'E_NO_MEMORY'
    elif message.startswith('UNIMPLEMENTED'):
        code = 'E_UNSUPPORTED'
    return KEYS[code], message[:4000], 'jaxlib raised %s' % type(e).__name__


def serve(kind, body, fds):
    """The frame and body of the reply."""
    handler, code = HANDLERS.get(kind, (None, 'E_INTERNAL'))
    try:
        if handler is None:
            raise Failure('E_INTERNAL', 'there is no request %d' % kind)
        reply = handler(Reader(body), fds)
        return FRAME.pack(MAGIC, 0, 0, 0, 0, 0, len(reply)) + reply
    except Exception as e:
        status, message, note = failed(e, code)
        texts = [t.encode('utf-8', 'replace') for t in (message, note, '')]
        body = b''.join(texts)
        return FRAME.pack(MAGIC, status, 0, *map(len, texts), len(body)) + body


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # hlosh decides what Ctrl-C means
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    sock = socket.socket(fileno=KEYS['fd'])
    while True:
        kind, fds, body = read_frame(sock)
        reply = serve(kind, body, fds)
        for fd in fds:
            os.close(fd)
        try:
            sock.sendall(reply)
        except OSError:
            return


main()
