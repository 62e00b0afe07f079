#!/bin/sh
# check-gpu on drivers of our own, with tiny sizes: everything is measured and judged, a module that fails is a failure, a machine
# without a GPU is told apart. What it finds to be slow is the emulation. HLOSH_FULL=1: with XLA beside it. Exit 77 without Python 3.
cd "$(dirname "$0")/.." || exit 1
: "${B:=build}" "${HLOSH:=$B/hlosh}"
command -v python3 >/dev/null 2>&1 || { echo "no python3"; exit 77; }
grep -q '^HAVE_CJSON := 1' "$B/config.mk" || { echo "no cJSON"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() { echo "check-gpu: $*"; tail -n 20 "$dir/out"; exit 1; }
# run STATUS ARGUMENT...
run() {
  want=$1; shift
  python3 scripts/check_gpu.py --hlosh "$HLOSH" -o "$dir/report" --suite "$dir/few" "$@" >"$dir/out" 2>&1
  rc=$?
  case " $want " in *" $rc "*) ;; *) fail "status $rc, not $want, with $*" ;; esac
}
mkdir "$dir/few" && cp examples/mlp.hlo examples/loop.hlo examples/reduce_fma.hlo "$dir/few/" || exit 1
tiny="--bytes 65536 --seconds 0.05 --kernels 20 --minutes 2"

export HLOSH_LIBCUDA=/nowhere/libcuda.so
run 5 $tiny
grep -q 'no GPU that can be used: E0406' "$dir/out" || fail "no word about the missing GPU"
run 2 --minutes 0
run 2 --suite "$dir/nowhere"

cp "$B/tests/libfake_cuda.so" "$dir/cuda-ok.so" && cp "$B/tests/libfake_cuda.so" "$dir/cuda-nodevice.so" && cp "$B/tests/libfake_cupti.so" "$dir/cupti-ok.so" || exit 1
HLOSH_LIBCUDA=$dir/cuda-nodevice.so
run 5 $tiny
grep -q NO_DEVICE "$dir/out" || fail "no word about the driver that sees none"
export HLOSH_LIBCUDA="$dir/cuda-ok.so" HLOSH_LIBCUPTI="$dir/cupti-ok.so"
# The emulation is slow, so the bar of a launch is missed; that of CUPTI depends on how busy the machine is.
run 1 $tiny --python "${PYTHON:-python3}"
python3 - "$dir/report" <<'END' >"$dir/out" 2>&1 || fail "the report is not as it should be"
import json, pathlib, sys
report = pathlib.Path(sys.argv[1])
r, text = json.loads((report / "check-gpu.json").read_text()), (report / "check-gpu.txt").read_text()
a = r["agree"]
assert (a["modules"], a["agree"], a["differ"], a["failed"]) == (3, 3, 0, 0), a
names = [row["kernel"] for row in r["bandwidth"]["rows"]]
assert names == ["copy", "elementwise", "reduce rows", "reduce columns", "reduce all", "transpose", "softmax", "rms norm", "layer norm"], names
for row in r["bandwidth"]["rows"]:
    assert row["gbps"] > 0 and row["of_copy"] > 0, row
    assert row["kernel"] == "copy" or row["clock"].startswith("CUPTI"), row
    assert row["kernel"] in text
assert len(r["products"]) == 2 and all(row["tflops"] > 0 for row in r["products"]), r["products"]
assert r["launch"]["kernels"] == 20 and r["launch"]["us_per_kernel"] > 0, r["launch"]
assert r["clocks"]["modules"] == 8 and r["clocks"]["cupti_ms"] > 0, r["clocks"]
assert "rows" in r["xla"] or r["xla"]["error"], r["xla"]
assert {v["met"] for v in r["bars"]} <= {True, False, None} and r["bars"][0]["met"] is True, r["bars"]
assert "driver's own copy" in r["gpu"]["error"], r["gpu"]
END
[ -d "$dir/report/check-gpu.modules" ] && fail "the modules are left"
echo 'HloModule broken ENTRY main { ROOT x = f32[2] add(f32[3] y, z) }' >"$dir/few/broken.hlo"
run 6 $tiny
grep -q 'failed *broken: E0' "$dir/out" || fail "the failing module is not named"
# Too little time: what was not reached is counted, and is no success.
run "1 6" --bytes 65536 --seconds 0.05 --kernels 20 --minutes 0.1
# Beside XLA, a process of Python for each module: a Python that says it has a GPU.
if [ -z "$HLOSH_FULL" ]; then :
elif [ -x build/peers/bin/python3 ]; then
  rm "$dir/few/broken.hlo" "$dir/few/loop.hlo" "$dir/few/reduce_fma.hlo"
  mkdir -p "$dir/python/bin" && { echo '#!/bin/sh'; echo "case \"\$2\" in *default_backend*) echo 0.0 gpu ;; *) exec '$PWD/build/peers/bin/python3' \"\$@\" ;; esac"; } >"$dir/python/bin/python3" && chmod +x "$dir/python/bin/python3" || exit 1
  run 1 $tiny --python "$dir/python/bin/python3"
  python3 - "$dir/report" <<'END' >"$dir/out" 2>&1 || fail "the comparison with XLA is not as it should be"
import json, pathlib, sys
x = json.loads((pathlib.Path(sys.argv[1]) / "check-gpu.json").read_text())["xla"]
assert x["jaxlib"] == "0.0" and [row["module"] for row in x["rows"]][-1] == "mlp", x
assert all(row["hlosh_ms"] > 0 and row["xla_ms"] > 0 for row in x["rows"] if "error" not in row), x
assert sum("ratio" in row for row in x["rows"]) >= 10, x
assert x["compared"] == sum("ratio" in row and "left_out" not in row for row in x["rows"]), x
END
else echo "SKIP beside XLA: no build/peers (make peers)"; fi
# The driver's own copy, with a driver that says what a copy takes.
if command -v "${CC:-cc}" >/dev/null 2>&1; then
  ${CC:-cc} -shared -fPIC -o "$dir/stub.so" tests/gpu/copy_driver.c || fail "the stub does not compile"
  (cd scripts && python3 -B -c "import check_gpu, sys; print(check_gpu.driver_copy(sys.argv[1], 1 << 20))" "$dir/stub.so") >"$dir/out" 2>&1 || fail "the driver's copy is not measured"
  grep -q "'name': 'Stub', 'memory_bytes': 68719476736, 'cuda': '12.4', 'copy_gbps': 2.0" "$dir/out" || fail "the copy's bandwidth is another"
fi
echo "check-gpu: ok"
