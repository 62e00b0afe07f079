#!/bin/sh
# `calibrate` measures the machine and keeps what it measured; `estimate` takes it from then on, for the module's kernels
# with the model's error beside them; a damaged file is refused with a warning and changes nothing. B is the build folder.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}"
XDG_CACHE_HOME=$(mktemp -d) || exit 1
export XDG_CACHE_HOME
trap 'rm -rf "$XDG_CACHE_HOME"' EXIT
fail() { echo "calibrate: $*"; exit 1; }
run() { "$B/hlosh" --no-rc "$@" 2>&1; }

run -c 'example mlp; estimate' | grep -q 'typical, not measured' || fail "an estimate without calibration does not say so"
run -c calibrate >"$XDG_CACHE_HOME/log" || { cat "$XDG_CACHE_HOME/log"; fail "it failed"; }
file=$(ls "$XDG_CACHE_HOME"/hlosh/calibration/*.txt) || fail "no file"
run -c 'example mlp; estimate' | grep -q '(calibrated)' || fail "the estimate does not use it"
run -c 'example mlp; estimate --measured' | grep -q 'off by .* kernel by kernel' || fail "no error beside the estimates"
run -c 'example mlp; speedup --on=cpu' | grep -q 'estimated, calibrated' || fail "speedup does not use it"
sed 's/^figure kernel_s .*/figure kernel_s -1/' "$file" >"$file.bad" && mv "$file.bad" "$file"
run -c 'example mlp; estimate' >"$XDG_CACHE_HOME/log" || fail "a damaged file ends the estimate"
grep -q 'warning: the calibration is not used' "$XDG_CACHE_HOME/log" || fail "no warning of a damaged file"
grep -q 'typical, not measured' "$XDG_CACHE_HOME/log" || fail "a damaged file is used"

# XLA's figures are its own, and only its programs are estimated by them
if run -c 'backend pjrt' >/dev/null; then
	run -c 'backend pjrt; calibrate' >"$XDG_CACHE_HOME/log" || { cat "$XDG_CACHE_HOME/log"; fail "it failed on pjrt"; }
	ls "$XDG_CACHE_HOME"/hlosh/calibration/*pjrt*.txt >/dev/null || fail "no file of pjrt"
	run -c 'backend pjrt; example mlp; estimate' | grep -q '(calibrated)' || fail "the estimate for pjrt does not use it"
	run -c 'example mlp; estimate' | grep -q '(calibrated)' && fail "the cpu backend is estimated by the figures of pjrt"
else
	echo "calibrate: SKIP on pjrt: no plug-in"
fi
echo "calibrate: ok"
