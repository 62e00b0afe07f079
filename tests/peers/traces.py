# Traces of hlosh in the readers of others, and a recording of others in hlosh: traces.py HLOSH FOLDER
#
# A trace is opened by jaxlib's reader of XSpace, by XProf, and by Perfetto's trace processor (its program
# trace_processor_shell on PATH, named by TRACE_PROCESSOR, or as PyPI's package perfetto keeps it); each must see every
# execution that hlosh says it wrote, and the same time. Then jax.profiler records a function on XLA:CPU, and hlosh must
# join at least 95 % of its kernels' time to instructions. A reader that is not here is a line "SKIP reader: why".
import glob, json, os, shutil, subprocess, sys

hlosh, folder = sys.argv[1:3]
os.chdir(folder)
bad = 0


def fail(what):
    global bad
    print("FAIL " + what)
    bad += 1


def run(commands):
    p = subprocess.run([hlosh, "--no-rc", "--json", "-c", commands], capture_output=True, text=True)
    docs = [json.loads(line) for line in p.stdout.splitlines()]
    return [d for d in docs if d["status"] == "ok"], p.stderr


def with_jaxlib(events, us):
    try:
        from jax.profiler import ProfileData
    except ImportError as e:
        return print("SKIP jaxlib's reader: %s" % e)
    seen = [e for p in ProfileData.from_file("run.xplane.pb").planes for line in p.lines for e in line.events]
    if len(seen) != events: fail("jaxlib sees %d events of %d" % (len(seen), events))
    total = sum(e.duration_ns for e in seen) / 1000
    if abs(total - us) > 0.01 * us + 1: fail("jaxlib sees %g us of %g" % (total, us))


def with_xprof(events):
    try:
        from xprof.convert import raw_to_tool_data
    except ImportError as e:
        return print("SKIP XProf: %s" % e)
    os.makedirs("log/plugins/profile/1", exist_ok=True)
    path = shutil.copy("run.xplane.pb", "log/plugins/profile/1/here.xplane.pb")
    data, _ = raw_to_tool_data.xspace_to_tool_data([path], "trace_viewer", {})
    seen = [e for e in json.loads(data)["traceEvents"] if e.get("ph") == "X"]
    if len(seen) != events: fail("XProf sees %d events of %d" % (len(seen), events))


def with_perfetto(events, us):
    kept = os.path.expanduser("~/.local/share/perfetto/prebuilts/trace_processor_shell*")
    shell = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell") or next(iter(glob.glob(kept)), None)
    try:
        from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    except ImportError as e:
        return print("SKIP Perfetto: %s" % e)
    if not shell: return print("SKIP Perfetto: no trace_processor_shell, which the package perfetto downloads when it is used")
    with TraceProcessor(trace="run.json", config=TraceProcessorConfig(bin_path=shell)) as t:
        row = next(iter(t.query("select count(*) as n, sum(dur) as ns from slice")))
        if row.n != events: fail("Perfetto sees %d events of %d" % (row.n, events))
        if abs(row.ns / 1000 - us) > 0.01 * us + 1: fail("Perfetto sees %g us of %g" % (row.ns / 1000, us))
        wrong = next(iter(t.query("select sum(value) as n from stats where severity = 'error'")))
        if wrong.n: fail("Perfetto reports %d errors" % wrong.n)


def recorded_by_jax():
    try:
        import jax, jax.numpy as jnp
    except ImportError as e:
        return print("SKIP jax.profiler: %s" % e)

    def step(x, w):
        h = jax.nn.gelu(x @ w)
        return jax.lax.scan(lambda c, _: (jax.nn.softmax(c @ w), jnp.sum(c)), h, None, length=4)

    f, x, w = jax.jit(step), jnp.ones((128, 256)), jnp.ones((256, 256)) / 256
    jax.block_until_ready(f(x, w))
    with jax.profiler.trace("jax"):
        for _ in range(10): jax.block_until_ready(f(x, w))
    path = glob.glob("jax/**/*.xplane.pb", recursive=True)[0]
    docs, err = run("load %s; profile" % path)
    joined = docs[0]["joined"][0]["joined"] if docs and docs[0].get("joined") else 0
    print("jax %s: %.1f %% of the kernels' time joined" % (jax.__version__, 100 * joined))
    if joined < 0.95: fail("%.1f %% of jax.profiler's kernel time joined; %s" % (100 * joined, err.strip()))
    if len(docs) < 2 or docs[1]["runs"] < 9: fail("profile of jax.profiler's recording; %s" % err.strip())


# one recording in both forms: what is loaded is written again
_, err = run("example layernorm; trace run.xplane.pb --seconds=0.1")
if not os.path.exists("run.xplane.pb"): sys.exit("no trace: " + err)
run("load run.xplane.pb; trace run.json; trace run.xplane.pb")
slices = [e for e in json.load(open("run.json"))["traceEvents"] if e["ph"] == "X"]
us = sum(e["dur"] for e in slices)
if len(slices) < 10: fail("only %d executions" % len(slices))
with_jaxlib(len(slices), us)
with_xprof(len(slices))
with_perfetto(len(slices), us)
recorded_by_jax()
sys.exit(1 if bad else 0)
