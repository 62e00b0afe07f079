# Every suite module on the evaluator and on the cpu backend, as loaded and after the tuned pipeline. What a backend does
# not cover is named by the driver; a wrong result or a crash fails.
dir=$1/suite
least() {  # least N COMMAND...: no FAIL line, and at least N modules agree
  n=$1; shift
  "$@" >"$out" 2>&1; rc=$?
  tail -n 12 "$out"
  agree=$(sed -n 's|^suite: \([0-9]*\)/.*|\1|p' "$out")
  [ $rc = 0 ] && [ "${agree:-0}" -ge "$n" ]
}
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
least 89 sh tests/suite "$dir" -j 2 || exit 1
grep -q '^HAVE_LLVM := 1' "${HLOSH_BUILD:-build}/config.mk" || { echo "SKIP cpu: no LLVM"; exit 0; }
least 83 sh tests/suite "$dir" --backend cpu -j 1 || exit 1
least 83 sh tests/suite "$dir" --backend cpu --pipeline tuned -j 1
