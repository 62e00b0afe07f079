#!/bin/sh
# frontends.py, exports.py and open_sizes.py in the Pythons at hand: HLOSH_PYTHON, the activated environment, build/peers or python3, the first there is.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}"
python=${HLOSH_PYTHON:-${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python3}}
[ -n "$python" ] || python=$B/peers/bin/python3
[ -x "$python" ] || python=$(command -v python3) || { echo "no Python"; exit 77; }
out=$("$python" tests/peers/frontends.py "${HLOSH:-$B/hlosh}" 2>/dev/null)
rc=$?
echo "$out"
[ $rc != 77 ] || echo "no framework in $python"
for test in exports open_sizes; do
  out=$("$python" tests/peers/$test.py "${HLOSH:-$B/hlosh}" 2>/dev/null)
  done=$?
  echo "$out"
  [ $done = 0 ] || [ $done = 77 ] || exit 1
done
exit $rc
