#!/bin/sh
# Where no pseudo-terminal can be made the test of line editing is skipped, with the reason, and does not fail: here there is
# none because the process may not have that many files open.
: "${B:=build}"
[ -x "$B/tests/pty" ] || { echo "no $B/tests/pty"; exit 1; }
out=$(sh -c 'ulimit -n 4; exec "$0"' "$B/tests/pty" 2>&1)
rc=$?
echo "$out"
[ $rc = 77 ] && echo "$out" | tail -n 1 | grep -q '^no pseudo-terminal'
