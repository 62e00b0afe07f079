# StableHLO's own tests: every text is read, and what the texts check holds on the evaluator and on the cpu backend. The
# suite's texts become the modules that XLA made of them.
dir=$1/corpus/stablehlo
[ -d "$dir" ] || { echo "SKIP stablehlo: no $dir"; exit 0; }
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
least() {  # least N COMMAND...: at least N files pass
  n=$1; shift
  "$@" >"$out" 2>&1
  tail -n 40 "$out" | grep -v '^skipped'
  passed=$(sed -n 's|^stablehlo: \([0-9]*\)/.*|\1|p' "$out")
  [ "${passed:-0}" -ge "$n" ]
}
"${HLOSH_BUILD:-build}/tests/stablehlo_same" "$1/suite" -j 2 || exit 1
"${HLOSH_BUILD:-build}/tests/stablehlo_same" "$1/corpus/unit_modules" --back 1 --least 2460 -j 2 >"$out" || { tail -n 20 "$out"; exit 1; }
tail -n 1 "$out"
least 1433 "${HLOSH_BUILD:-build}/tests/stablehlo" "$dir" -j 2 || exit 1
grep -q '^HAVE_LLVM := 1' "${HLOSH_BUILD:-build}/config.mk" || { echo "SKIP cpu: no LLVM"; exit 0; }
least 1433 "${HLOSH_BUILD:-build}/tests/stablehlo" "$dir" --backend cpu -j 2
