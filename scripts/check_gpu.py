#!/usr/bin/env python3
"""check-gpu: does hlosh compute right on this machine's NVIDIA GPU, and how near does it come to what the GPU can do?

    check-gpu [--suite DIR] [-o DIR] [--minutes 8] [--python PYTHON]

1. agree      every module (of examples, or of --suite DIR: *.hlo, with arguments in *.args where they are) compiled for the
              GPU, its results compared with those of the backend cpu
2. bandwidth  copy, elementwise, reductions, transpose, softmax and norms on 256 MB, against the GPU's own copy; and products of
              matrices, in operations per second (no bar)
3. launch     200 small kernels that depend on each other, started as a graph: time for each
4. clocks     the kernels' times by CUPTI, summed up, against the run's time by events
5. xla        the same modules timed on JAX's XLA:GPU, where a Python with it is found

Writes check-gpu.json and check-gpu.txt into the folder of -o (the current one). What there was no time for is counted as "not
reached", what this machine cannot do as "not measured" with the reason; neither is ever a success. Exit status: 0 nothing
failed and every bar that was measured is met, 1 a bar is missed or a module was not reached, 2 usage, 5 no GPU that can be used, 6 results
differ or a module failed.

Needs Python 3.7 and hlosh; nothing of both is changed on the machine."""
import argparse
import concurrent.futures
import ctypes
import json
import math
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
NO_GPU, BAR_MISSED, DIFFERS = 5, 1, 6
BARS = {"bandwidth": 0.90, "clocks": 0.02, "launch_us": 1.5, "xla_geomean": 1.1, "xla_worst": 0.9}
# Shorter runs than this are not compared with XLA's: those are timed in Python, with its call around them.
XLA_LEAST_MS = 0.05


class Failed(Exception):
    """A command that did not end well: its diagnostic's code and text."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Shell:
    """hlosh, run with commands; each call is a process."""

    def __init__(self, path, deadline):
        self.path, self.deadline = path, deadline

    def left(self):
        return self.deadline - time.monotonic()

    def __call__(self, commands, limit=60.0, env=None):
        """The JSON documents of the commands, in order. A failing one raises Failed, as does the end of the time."""
        limit = min(limit, self.left())
        if limit <= 0:
            raise Failed("time", "no time was left")
        try:
            done = subprocess.run([self.path, "--json", "-c", "; ".join(commands)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=limit, env=dict(os.environ, **(env or {})))
        except subprocess.TimeoutExpired:
            raise Failed("time", f"took longer than {limit:.0f} s") from None
        except OSError as e:
            raise Failed("start", f"{self.path}: {e.strerror}") from None
        documents = [json.loads(line) for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("{")]
        for d in documents:
            if d["status"] != "ok" and d.get("errors"):
                e = d["errors"][0]
                raise Failed(e["code"], f"{e['message']}" + (f" ({e['note']})" if e.get("note") else ""))
        if done.returncode not in (0, DIFFERS):
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise Failed("exit", lines[-1] if lines else f"exit status {done.returncode}")
        return documents


def of(documents, command):
    """The last document of a command."""
    return [d for d in documents if d["command"] == command][-1]


# ---- the GPU's own copy -------------------------------------------------------------------------
def driver_copy(library, size, runs=20):
    """Name, memory, CUDA version and the bandwidth (GB/s, read and written) of copies on the device by the driver itself."""
    cuda = ctypes.CDLL(library)

    def call(name, *args):
        error = getattr(cuda, name)(*args)
        if error:
            raise OSError(f"{name}: CUDA error {error}")

    device, context, version = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    call("cuInit", 0)
    call("cuDriverGetVersion", ctypes.byref(version))
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDeviceGetName", name, 256, device)
    call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    a, b, start, end = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
    best = math.inf
    try:
        call("cuCtxSetCurrent", context)
        call("cuMemAlloc_v2", ctypes.byref(a), ctypes.c_size_t(size))
        call("cuMemAlloc_v2", ctypes.byref(b), ctypes.c_size_t(size))
        call("cuEventCreate", ctypes.byref(start), 0)
        call("cuEventCreate", ctypes.byref(end), 0)
        for _ in range(runs):
            call("cuEventRecord", start, None)
            call("cuMemcpyDtoDAsync_v2", b, a, ctypes.c_size_t(size), None)
            call("cuEventRecord", end, None)
            call("cuEventSynchronize", end)
            ms = ctypes.c_float()
            call("cuEventElapsedTime", ctypes.byref(ms), start, end)
            best = min(best, ms.value)
        for event in (start, end):
            call("cuEventDestroy_v2", event)
        for memory_of in (a, b):
            call("cuMemFree_v2", memory_of)
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(device)
    return {"name": name.value.decode("utf-8", "replace"), "memory_bytes": memory.value,
            "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}", "copy_gbps": 2 * size / best / 1e6}


# ---- the modules that are measured --------------------------------------------------------------
REDUCERS = """max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
"""


def kernels(size):
    """Modules that a GPU's memory limits: (name, text, bytes read and written). size: bytes of the array."""
    n = size // 4
    cols = 1 << (max(n.bit_length() - 1, 2) // 2)
    rows = n // cols
    x, row, col, s = f"f32[{rows},{cols}]", f"f32[{rows}]", f"f32[{cols}]", f"f32[{cols},{rows}]"
    head = lambda name: f"HloModule {name}\n{REDUCERS}ENTRY main {{\n  x = {x} parameter(0)\n  zero = f32[] constant(0)\n"
    mean = lambda of, as_: (f"  {as_}_sum = {row} reduce({of}, zero), dimensions={{1}}, to_apply=add\n"
                            f"  {as_}_scale = f32[] constant({1 / cols!r})\n  {as_}_scales = {row} broadcast({as_}_scale), dimensions={{}}\n"
                            f"  {as_} = {row} multiply({as_}_sum, {as_}_scales)\n")
    rms = lambda of: (f"  sq = {x} multiply({of}, {of})\n" + mean("sq", "var") +
                      f"  eps = f32[] constant(1e-5)\n  epss = {row} broadcast(eps), dimensions={{}}\n  safe = {row} add(var, epss)\n"
                      f"  inv = {row} rsqrt(safe)\n  invs = {x} broadcast(inv), dimensions={{0}}\n  ROOT r = {x} multiply({of}, invs)\n}}\n")
    size = rows * cols * 4
    return [
        ("copy", head("copy") + f"  ROOT r = {x} copy(x)\n}}\n", 2 * size),
        ("elementwise", head("elementwise") + f"  t = {x} tanh(x)\n  m = {x} multiply(t, x)\n  ROOT r = {x} add(m, x)\n}}\n", 2 * size),
        ("reduce rows", head("reduce_rows") + f"  ROOT r = {row} reduce(x, zero), dimensions={{1}}, to_apply=add\n}}\n", size + rows * 4),
        ("reduce columns", head("reduce_columns") + f"  ROOT r = {col} reduce(x, zero), dimensions={{0}}, to_apply=add\n}}\n", size + cols * 4),
        ("reduce all", head("reduce_all") + "  ROOT r = f32[] reduce(x, zero), dimensions={0,1}, to_apply=add\n}\n", size),
        ("transpose", head("transpose") + f"  ROOT r = {s} transpose(x), dimensions={{1,0}}\n}}\n", 2 * size),
        ("softmax", head("softmax") + f"""  low = f32[] constant(-inf)
  m = {row} reduce(x, low), dimensions={{1}}, to_apply=max
  ms = {x} broadcast(m), dimensions={{0}}
  d = {x} subtract(x, ms)
  e = {x} exponential(d)
  t = {row} reduce(e, zero), dimensions={{1}}, to_apply=add
  ts = {x} broadcast(t), dimensions={{0}}
  ROOT r = {x} divide(e, ts)
}}
""", 2 * size),
        ("rms norm", head("rms_norm") + rms("x"), 2 * size),
        ("layer norm", head("layer_norm") + mean("x", "mu") + f"  mus = {x} broadcast(mu), dimensions={{0}}\n  c = {x} subtract(x, mus)\n" +
         rms("c"), 2 * size),
    ]


def chain(n):
    """A module of n kernels, each of which needs the one before."""
    lines = [f"  k{i} = f32[1024] {'add' if i % 2 else 'multiply'}({'p' if i == 0 else f'k{i - 1}'}, p)" for i in range(n)]
    lines[-1] = lines[-1].replace("  k", "  ROOT k", 1)
    return "HloModule chain\nENTRY main {\n  p = f32[1024] parameter(0)\n" + "\n".join(lines) + "\n}\n"


# ---- the parts ----------------------------------------------------------------------------------
def agree_one(hlosh, path, limit):
    args = path.with_suffix(".args")
    load = [f"load {path} --elided=random"] + ([f"inputs {args}"] if args.is_file() else [])
    start = time.monotonic()
    case = {"module": path.stem}
    try:
        found = of(hlosh(load + ["pipeline gpu", "backend gpu", "check --reference=cpu --allow-fallback --no-search --elided=random"], limit), "check")
        case["status"] = "agrees" if found["agree"] else "differs"
        if not found["agree"]:
            case["why"] = f"errors abs {found.get('abs_error')}, rel {found.get('rel_error')}"
    except Failed as e:
        case.update(status={"E0401": "unsupported", "E0404": "differs", "time": "not reached"}.get(e.code, "failed"), why=f"{e.code}: {e}")
    case["seconds"] = round(time.monotonic() - start, 2)
    return case


def agree(hlosh, folder, jobs, seconds):
    files = sorted(p for p in folder.glob("*.hlo") if ".after_" not in p.name)
    end = min(time.monotonic() + seconds, hlosh.deadline)
    one = lambda p: agree_one(hlosh, p, end - time.monotonic())
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        cases = list(pool.map(one, files))
    count = lambda s: sum(c["status"] == s for c in cases)
    return {"folder": folder.name, "modules": len(cases), "agree": count("agrees"), "differ": count("differs"), "failed": count("failed"),
            "unsupported": count("unsupported"), "not_reached": count("not reached"), "cases": cases}


def timed(hlosh, setup, seconds):
    """The run's time, and the kernels one by one: two documents. A program of nothing but copies has no profile: None."""
    t = of(hlosh(setup + ["backend gpu", f"time --seconds={seconds}"], 90), "time")
    try:
        return t, of(hlosh(setup + ["backend gpu", f"profile --seconds={seconds}"], 90), "profile")
    except Failed as e:
        if e.code == "E0401":
            return t, None
        raise


def bandwidth(hlosh, driver, size, work, seconds):
    rows = []
    for name, text, moved in kernels(size):
        row, path = {"kernel": name, "bytes": moved}, work / (name.replace(" ", "_") + ".hlo")
        path.write_text(text)
        try:
            t, p = timed(hlosh, [f"load {path}", "pipeline gpu"], seconds)
            row.update(time_ms=t["time_ms"], interval_ms=t["interval_ms"], gbps=moved / t["time_ms"] / 1e6, file=str(path))
            if p:
                row.update(kernels=len(p["kernels"]), kernel_ms=p["measured_ms"], run_ms=p["run_ms"], clock=p["clock"] or "the host")
        except Failed as e:
            row["error"] = f"{e.code}: {e}"
        rows.append(row)
    ours = next((r["gbps"] for r in rows if r["kernel"] == "copy" and "gbps" in r), 0.0)
    theirs = driver.get("copy_gbps") or 0.0
    copy = max(ours, theirs)
    for r in rows:
        r["of_copy"] = r["gbps"] / copy if copy and "gbps" in r else None
    return {"bytes": size, "copy_gbps": copy or None, "copy_by": "the driver" if theirs > ours else "a kernel of hlosh", "rows": rows}


def products(hlosh, size, work, seconds):
    """Square matrices of a quarter of that size: 4096 of 256 MB."""
    n, rows = max(math.isqrt(size // 4) // 2, 1), []
    for t in ("f32", "bf16"):
        row, path = {"product": f"{t}[{n},{n}]"}, work / f"product_{t}.hlo"
        m = f"{t}[{n},{n}]"
        path.write_text(f"HloModule product\nENTRY main {{\n  a = {m} parameter(0)\n  b = {m} parameter(1)\n"
                        f"  ROOT r = {m} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n")
        try:
            ms = of(hlosh([f"load {path}", "pipeline gpu", "backend gpu", f"time --seconds={seconds}"], 60), "time")["time_ms"]
            row.update(time_ms=ms, tflops=2 * n**3 / ms / 1e9, file=str(path))
        except Failed as e:
            row["error"] = f"{e.code}: {e}"
        rows.append(row)
    return rows


def launch(hlosh, n, work, seconds):
    path = work / "chain.hlo"
    path.write_text(chain(n))
    try:
        t, p = timed(hlosh, [f"load {path}"], seconds)
    except Failed as e:
        return {"error": f"{e.code}: {e}"}
    found = sum(k["kernels"] for k in p["kernels"])
    return {"kernels": found, "run_ms": t["time_ms"], "us_per_kernel": 1e3 * t["time_ms"] / max(found, 1),
            "kernel_ms": p["measured_ms"], "between_us_per_kernel": 1e3 * (t["time_ms"] - p["measured_ms"]) / max(found, 1)}


def clocks(rows):
    """The sums of CUPTI's kernel times against events, over the runs of which both are known."""
    both = [r for r in rows if r.get("clock", "").startswith("CUPTI") and r.get("run_ms")]
    if not both:
        said = next((r["clock"] for r in rows if "clock" in r), None)
        return {"error": f"kernels were timed by {said}" if said else "nothing was profiled"}
    off = max(abs(r["kernel_ms"] / r["run_ms"] - 1) for r in both)
    return {"modules": len(both), "cupti_ms": sum(r["kernel_ms"] for r in both), "events_ms": sum(r["run_ms"] for r in both), "worst_off": off}


def jax_python(hlosh, named):
    """A Python whose JAX has a GPU, and its jaxlib's version; or None and why there is none."""
    found, why = [named] if named else [], "no Python with jaxlib is found"
    try:
        found += [p["path"] for p in of(hlosh(["backends"]), "backends").get("pythons", [])] if not named else []
    except (Failed, KeyError, TypeError):
        pass
    found += [p for p in (shutil.which("python3"), sys.executable) if p and not named]
    for python in dict.fromkeys(found):
        try:
            done = subprocess.run([python, "-c", "import jax, jaxlib; print(jaxlib.__version__, jax.default_backend())"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=max(min(60, hlosh.left()), 1), stdin=subprocess.DEVNULL)
            said = done.stdout.decode().split()
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and len(said) == 2:
            if said[1] == "gpu":
                return python, said[0]
            why = f"JAX {said[0]} of {python} has no GPU"
    return None, why


def xla(hlosh, files, named, seconds):
    if hlosh.left() < 5:
        return {"error": "not reached"}
    python, version = jax_python(hlosh, named)
    if not python:
        return {"error": version}
    rows = []
    for path in files:
        row = {"module": path.stem}
        if hlosh.left() < 5:
            row["error"] = "not reached"
        else:
            args = path.with_suffix(".args")
            load = [f"load {path} --elided=random"] + ([f"inputs {args}"] if args.is_file() else [])
            try:
                t = of(hlosh(load + ["pipeline gpu", "backend gpu", f"time --seconds={seconds}"], 60), "time")
                j = of(hlosh(load + [f"backend jax {python}", f"time --seconds={seconds}"], 90, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}), "time")
                row.update(hlosh_ms=t["time_ms"], xla_ms=j["time_ms"], ratio=j["time_ms"] / t["time_ms"])
                if min(t["time_ms"], j["time_ms"]) < XLA_LEAST_MS:
                    row["left_out"] = f"shorter than {XLA_LEAST_MS * 1e3:.0f} us, of which Python's call is too large a part"
            except Failed as e:
                row["error"] = f"{e.code}: {e}"
        rows.append(row)
    ratios = [r["ratio"] for r in rows if "ratio" in r and "left_out" not in r]
    whole = {"python": python, "jaxlib": version, "compared": len(ratios), "rows": rows}
    if ratios:
        whole.update(geomean=math.exp(sum(map(math.log, ratios)) / len(ratios)), worst=min(ratios))
    return whole


# ---- the verdicts -------------------------------------------------------------------------------
def bars(r):
    """(what, wanted, got or None, met or None)."""
    a, out = r["agree"], []
    out.append(("results agree", f"{a['modules']} modules", f"{a['agree']}, {a['unsupported']} unsupported, {a['not_reached']} not reached",
                None if a["not_reached"] and not a["differ"] + a["failed"] else a["agree"] == a["modules"] > 0))
    for row in r["bandwidth"]["rows"]:
        if row["kernel"] != "copy":
            got = row["of_copy"]
            out.append((f"{row['kernel']}, of the copy's bandwidth", f">= {BARS['bandwidth']:.0%}", None if got is None else f"{got:.1%}",
                        None if got is None else got >= BARS["bandwidth"]))
    got = r["launch"].get("us_per_kernel")
    out.append(("a kernel of a graph", f"<= {BARS['launch_us']} us", None if got is None else f"{got:.2f} us", None if got is None else got <= BARS["launch_us"]))
    got = r["clocks"].get("worst_off")
    out.append(("CUPTI's kernel times against events", f"within {BARS['clocks']:.0%}", None if got is None else f"{got:.1%}",
                None if got is None else got <= BARS["clocks"]))
    for key, what in (("geomean", "times as fast as XLA:GPU, geomean"), ("worst", "times as fast as XLA:GPU, worst")):
        got = r["xla"].get(key)
        out.append((what, f">= {BARS['xla_' + key]}", None if got is None else f"{got:.2f}", None if got is None else got >= BARS["xla_" + key]))
    return [{"what": w, "wanted": b, "got": g, "met": m} for w, b, g, m in out]


def table(r):
    g, lines = r["gpu"], []
    lines.append(f"hlosh {r['hlosh']} on {g.get('name', 'a GPU')}" + (f", CUDA {g['cuda']}" if "cuda" in g else "") + f", {r['seconds']:.0f} s")
    a = r["agree"]
    lines += ["", f"results, {a['folder']}: {a['agree']}/{a['modules']} agree, {a['differ']} differ, {a['failed']} failed, "
                  f"{a['unsupported']} unsupported, {a['not_reached']} not reached"]
    lines += [f"  {c['status']:12} {c['module']}: {c.get('why', '')}"[:160] for c in a["cases"] if c["status"] != "agrees"]
    b = r["bandwidth"]
    lines += ["", f"{b['bytes'] / 1e6:.3g} MB; copy: {b['copy_gbps'] or 0:.4g} GB/s by {b['copy_by']}", f"  {'kernel':16}{'time':>12}{'GB/s':>8}{'of copy':>9}  kernels by"]
    for row in b["rows"]:
        lines.append(f"  {row['kernel']:16}" + (row["error"][:120] if "error" in row else
                     f"{row['time_ms'] * 1e3:9.1f} us{row['gbps']:8.4g}" + ("        -" if row["of_copy"] is None else f"{row['of_copy']:9.1%}") + f"  {row.get('clock', '')}"))
    for row in r["products"]:
        lines.append(f"  {row['product']:18}" + (row["error"][:120] if "error" in row else f"{row['time_ms'] * 1e3:9.1f} us {row['tflops']:.4g} Tflop/s"))
    for name in ("launch", "clocks"):
        lines.append(f"{name}: " + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in r[name].items()))
    x = r["xla"]
    lines.append("xla: " + (x["error"] if "error" in x else f"jaxlib {x['jaxlib']}, {x['compared']} compared"))
    for row in x.get("rows", []):
        lines.append(f"  {row['module']:32}" + (f"{row['hlosh_ms']:10.4f} ms {row['xla_ms']:10.4f} ms {row['ratio']:6.2f}x {'(left out: short)' if 'left_out' in row else ''}"
                                                 if "ratio" in row else row["error"][:100]))
    lines += ["", f"  {'bar':44}{'wanted':>14}{'got':>36}"]
    for v in r["bars"]:
        verdict = {True: "met", False: "MISSED", None: "not measured"}[v["met"]]
        lines.append(f"  {v['what']:44}{v['wanted']:>14}{v['got'] or '-':>36}  {verdict}")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(prog="check-gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--suite", type=pathlib.Path, help="a folder of modules, in place of the examples that are carried")
    p.add_argument("-o", dest="out", type=pathlib.Path, default=pathlib.Path("."), help="the folder for check-gpu.json and check-gpu.txt")
    p.add_argument("--minutes", type=float, default=8, help="the end of it all (8)")
    p.add_argument("--bytes", type=int, default=256 << 20, help="of the arrays of part 2 (256 MB)")
    p.add_argument("--seconds", type=float, default=0.5, help="for each measurement (0.5)")
    p.add_argument("--kernels", type=int, default=200, help="of part 3 (200)")
    p.add_argument("--jobs", type=int, default=max(min((os.cpu_count() or 2) // 2, 4), 1), help="modules of part 1 at a time")
    p.add_argument("--python", help="a Python whose JAX has a GPU, for part 5")
    p.add_argument("--hlosh", default=str(HERE / "bin" / "hlosh"), help="the program")
    o = p.parse_args()
    folder = o.suite or HERE / "share" / "hlosh" / "examples"
    if not folder.is_dir():
        p.error(f"{folder} is no folder of modules")
    if o.bytes < 1024 or o.minutes <= 0 or o.seconds <= 0 or o.kernels < 1 or o.jobs < 1:
        p.error("sizes, times and counts are positive, --bytes at least 1024")
    start = time.monotonic()
    hlosh = Shell(o.hlosh, start + o.minutes * 60 - 5)
    out = o.out.resolve()
    work = out / "check-gpu.modules"
    work.mkdir(parents=True, exist_ok=True)

    first = work / "first.hlo"
    first.write_text("HloModule first\nENTRY main { x = f32[4] parameter(0)  ROOT r = f32[4] add(x, x) }\n")
    try:
        hlosh([f"load {first}", "backend gpu", "run"])
    except Failed as e:
        shutil.rmtree(work, ignore_errors=True)
        sys.stderr.write(f"check-gpu: no GPU that can be used: {e.code}: {e}\n")
        return NO_GPU
    try:
        gpu = driver_copy(os.environ.get("HLOSH_LIBCUDA", "libcuda.so.1"), o.bytes)
    except (OSError, AttributeError) as e:
        gpu = {"error": f"the driver's own copy is not measured: {e}"}
    say = lambda text: print(f"check-gpu: {time.monotonic() - start:4.0f} s  {text}", file=sys.stderr, flush=True)
    r = {"schema": "hlosh-check-gpu/1", "machine": platform.platform(), "cpus": os.cpu_count(), "gpu": gpu,
         "hlosh": subprocess.run([o.hlosh, "--version"], stdout=subprocess.PIPE).stdout.decode().replace("hlosh", "").strip()}
    say("bandwidth")
    r["bandwidth"] = bandwidth(hlosh, gpu, o.bytes, work, o.seconds)
    r["products"] = products(hlosh, o.bytes, work, o.seconds)
    say("launch")
    r["launch"] = launch(hlosh, o.kernels, work, o.seconds)
    r["clocks"] = clocks(r["bandwidth"]["rows"])
    say(f"results of {folder}")
    r["agree"] = agree(hlosh, folder, o.jobs, hlosh.left() * 0.55)
    say("XLA:GPU")
    measured = [pathlib.Path(row["file"]) for row in r["bandwidth"]["rows"] + r["products"] if "time_ms" in row]
    agreed = [folder / (c["module"] + ".hlo") for c in r["agree"]["cases"] if c["status"] == "agrees"]
    r["xla"] = xla(hlosh, measured + agreed, o.python, o.seconds)
    r["seconds"] = time.monotonic() - start
    r["bars"] = bars(r)
    shutil.rmtree(work, ignore_errors=True)
    (out / "check-gpu.json").write_text(json.dumps(r, indent=1) + "\n")
    text = table(r)
    (out / "check-gpu.txt").write_text(text)
    print(text, end="")
    print(f"{out / 'check-gpu.json'}, {out / 'check-gpu.txt'}")
    if r["agree"]["differ"] or r["agree"]["failed"]:
        return DIFFERS
    return BAR_MISSED if r["agree"]["not_reached"] or any(v["met"] is False for v in r["bars"]) else 0


if __name__ == "__main__":
    sys.exit(main())
