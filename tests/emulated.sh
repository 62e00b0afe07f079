#!/bin/sh
# Conformance of code for GPUs without one, on the emulation: modules of JAX programs, XLA's recorded results, the test suite,
# random modules, the cpu backend's own tests. `sh tests/emulated.sh SHARED [all]`: without `all` a sample, for `make check`;
# `make check-emulated` and `make check-all` run all of it, about six minutes on two processors. What the cpu backend refuses or
# differs in too (dynamic sizes, custom calls without a meaning, factorizations to the last bit, orders of equal keys) is counted
# and not a failure.
cd "$(dirname "$0")/.." || exit 1
: "${B:=build}" "${JOBS:=2}"
shared=${1:-../shared}
grep -q '^HAVE_LLVM := 1' "$B/config.mk" || { echo "no LLVM"; exit 77; }
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
bad=0
# at_least WHAT N COMMAND...: the driver's last line says at least N passed.
at_least() {
  what=$1 n=$2; shift 2
  "$@" >"$out" 2>&1
  got=$(sed -n 's|^[a-z_]*: \([0-9]*\)/[0-9]*.*|\1|p' "$out" | tail -n 1)
  echo "$what: $(tail -n 1 "$out")"
  [ "${got:-0}" -ge "$n" ] || { grep '^FAIL' "$out" | head -n 40; bad=1; }
}
if [ "$2" = all ]; then
  at_least "random modules" 1000 "$B/tests/agree" --backend gpu-emulated --count 1000 -j "$JOBS"
  [ -d "$shared/corpus" ] || { echo "SKIP recorded results and the suite: no $shared folder"; exit $bad; }
  at_least "programs of JAX's tests" 841 "$B/tests/conformance" "$shared/corpus/jax_tests" --only run --backend gpu-emulated --timeout 60 -j "$JOBS"
  at_least "XLA's recorded results" 2131 "$B/tests/conformance" "$shared/corpus/unit_modules" --only run --backend gpu-emulated --timeout 60 -j "$JOBS"
  at_least "more of XLA's recorded results" 1107 "$B/tests/conformance" "$shared/corpus/unit_modules_2" --only run --backend gpu-emulated --timeout 60 -j "$JOBS"
  export HLOSH_GPU_UNCHECKED=1  # the large ones: several times faster
  at_least "the suite as loaded" 89 "$B/tests/suite" "$shared/suite" --backend gpu-emulated --timeout 300
  at_least "the suite after pipeline gpu" 89 "$B/tests/suite" "$shared/suite" --backend gpu-emulated --pipeline gpu --timeout 300
else
  at_least "random modules" 40 "$B/tests/agree" --backend gpu-emulated --count 40 -j "$JOBS"
  [ -d "$shared/corpus" ] || { echo "SKIP recorded results: no $shared folder"; exit $bad; }
  at_least "programs of JAX's tests with control flow" 30 "$B/tests/conformance" "$shared/corpus/jax_tests" --only run --backend gpu-emulated --match control_flow --timeout 60 -j "$JOBS"
  at_least "XLA's recorded results of reductions" 60 "$B/tests/conformance" "$shared/corpus/unit_modules" --only run --backend gpu-emulated --match reduce_ --timeout 60 -j "$JOBS"
  at_least "modules of the suite for several devices" 5 "$B/tests/suite" "$shared/suite" --backend gpu-emulated --only gspmd --timeout 60
fi
exit $bad
