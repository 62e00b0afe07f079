#!/bin/sh
# hlosh's plug-in as any client sees it: the shell loads it as it loads real XLA, compiles, runs, and compares with the evaluator; its
# optimized program and figures are read.
cd "$(dirname "$0")/../.." || exit 1
: "${B:=build}" "${HLOSH:=$B/hlosh}"
out=$("$HLOSH" examples/attention.hlo -c "backend pjrt $PWD/$B/libpjrt_hlosh.so; check; run" 2>&1) || { echo "$out"; exit 1; }
echo "$out" | grep -q 'PJRT API 0.81, StableHLO' || { echo "$out"; echo "the plug-in says another version"; exit 1; }
echo "$out" | grep -q 'agrees with interp' || { echo "$out"; echo "its results do not agree"; exit 1; }
