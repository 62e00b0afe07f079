#!/bin/sh
# The lines of `tutorial` that begin with >, typed in order by somebody who has nothing else: each of them works.
# HLOSH names the binary.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
"$HLOSH" -c tutorial | sed -n 's/^ *> //p' >lines
[ "$(wc -l <lines)" -ge 20 ] || { echo "the tutorial has $(wc -l <lines) lines to type"; exit 1; }
# A picture in a file needs Graphviz.
command -v dot >/dev/null 2>&1 || sed -i 's/\.svg$/.dot/' lines
"$HLOSH" -f lines >out 2>err || { cat err; tail -n 5 out; exit 1; }
