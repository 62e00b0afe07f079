#!/bin/sh
# What hlosh prints as StableHLO, in jaxlib's reader and XLA's own conversion (stablehlo.py), and writes as portable artifacts, beside
# what jaxlib writes of the same (artifacts.py). What is not installed is skipped by
# name. HLOSH_PYTHON, the activated environment, build/peers or python3 is asked.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}"
python=${HLOSH_PYTHON:-${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python3}}
[ -n "$python" ] || python=$B/peers/bin/python3
[ -x "$python" ] || python=$(command -v python3) || { echo "no Python"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
printed=0
for f in examples/*.hlo tests/repl/*.hlo; do
  to=$dir/$(basename "$f" .hlo).mlir
  "${HLOSH:-$B/hlosh}" "$f" -c "save $to --elided=zeros" >/dev/null 2>&1 && printed=$((printed + 1))
done
[ "$printed" -ge 10 ] || { echo "only $printed modules were printed"; exit 1; }
"$python" tests/peers/stablehlo.py --convert "$dir"/*.mlir 2>"$dir/err"
rc=$?
[ $rc = 0 ] || { tail -n 5 "$dir/err"; exit $rc; }
version=1.17.0
written=0
for f in examples/*.hlo tests/repl/*.hlo; do
  to=$dir/$(basename "$f" .hlo).mlirbc
  "${HLOSH:-$B/hlosh}" "$f" -c "save $to --elided=zeros --stablehlo=$version" >/dev/null 2>&1 && written=$((written + 1))
done
[ "$written" = "$printed" ] || { echo "$printed texts but $written artifacts"; exit 1; }
"$python" tests/peers/artifacts.py $version "$dir"/*.mlirbc 2>"$dir/err"
rc=$?
[ $rc = 0 ] || tail -n 5 "$dir/err"
exit $rc
