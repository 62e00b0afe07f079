#!/bin/sh
# Energy of a device as `speedup` and `profile` show it, with a driver and an NVML of our own: a figure with its error, what lowered the
# clock, and nothing of it without NVML (tests/unit/gpu/power.c has the figures). Exit 77 without cJSON, LLVM or Python 3.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}" "${HLOSH:=$B/hlosh}"
command -v python3 >/dev/null 2>&1 || { echo "no python3"; exit 77; }
for have in CJSON LLVM; do grep -q "^HAVE_$have := 1" "$B/config.mk" || { echo "no $have"; exit 77; }; done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cp "$B/tests/libfake_cuda.so" "$dir/cuda-ok.so" && cp "$B/tests/libfake_nvml.so" "$dir/nvml-slowed.so" || exit 1
export HLOSH_LIBCUDA="$dir/cuda-ok.so"
commands='example mlp; backend gpu; speedup --seconds=0.5 --peer=none; profile --seconds=1'
for nvml in nvml-slowed nowhere; do
  HLOSH_LIBNVML="$dir/$nvml.so" "$HLOSH" --json -c "$commands" >"$dir/$nvml.json" 2>"$dir/err" || { cat "$dir/err"; exit 1; }
done
python3 - "$dir" <<'END'
import json, pathlib, sys
def documents(name):
    text, at, found = (pathlib.Path(sys.argv[1]) / (name + ".json")).read_text(), 0, {}
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        d, at = json.JSONDecoder().raw_decode(text, at)
        found[d["command"]] = d
    return found
with_it, without = documents("nvml-slowed"), documents("nowhere")
rows = [with_it["speedup"][k] for k in ("baseline", "unoptimized", "optimized")]
for row in rows + [with_it["profile"]]:
    assert row["slowed"] == "power cap, temperature, another reason" and row["device_mhz"] == 1410, row
for row in rows:
    assert 0.05 < row["joules_error"] < 0.11 and row["joules"] > 0, row
for row in [without["speedup"][k] for k in ("baseline", "unoptimized", "optimized")] + [without["profile"]]:
    assert not {"joules_error", "device_mhz", "slowed"} & set(row), row
text = with_it["speedup"]["text"] + with_it["profile"]["text"]
assert "clock was lowered: power cap" in text and "+-10 %" in text and "energy of a run" in text, text
END
