#!/bin/sh
# Traces of hlosh in jaxlib's, XProf's and Perfetto's readers, and a recording of jax.profiler in hlosh (traces.py). What is not
# installed is skipped by name. HLOSH_PYTHON, the activated environment, build/peers or python3 is asked.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}"
python=${HLOSH_PYTHON:-${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python3}}
[ -n "$python" ] || python=$B/peers/bin/python3
[ -x "$python" ] || python=$(command -v python3) || { echo "no Python"; exit 77; }
case $python in /*) ;; *) python=$PWD/$python ;; esac
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
"$python" "$PWD/tests/peers/traces.py" "${HLOSH:-$PWD/$B/hlosh}" "$dir" 2>"$dir/err"
rc=$?
[ $rc = 0 ] || tail -n 5 "$dir/err"
exit $rc
