#!/bin/sh
# Structure checks of the sources: include arrows, who may include which library, calls that a shell must not make,
# headers that compile alone. Prints one line per violation; exit 1 when there is one.
cd "$(dirname "$0")/.." || exit 1
bad=0
fail() { echo "lint: $*"; bad=1; }
# Which top folder may include which; scripts/rooms.txt has the order of the rooms within them.
top='core:
passes: core
profiler: core
viz: core
backends: core passes profiler
repl: core passes profiler viz backends examples'
rooms=$(grep -v '^#' scripts/rooms.txt)
hits=$(find core passes profiler viz backends repl -name '*.[ch]' -o -name '*.def' | xargs grep -HE '^#include "' | awk -v top="$top" -v rooms="$rooms" '
  BEGIN {
    n = split(top, t, "\n")
    for (i = 1; i <= n; i++) { k = split(t[i], w, /[: ]+/); for (j = 2; j <= k; j++) if (w[j] != "") may[w[1], w[j]] = 1 }
    n = split(rooms, r, "\n")
    for (i = 1; i <= n; i++) { k = split(r[i], w, " "); for (j = 1; j <= k; j++) level[w[j]] = i }
  }
  function dir(p) { sub(/\/[^\/]*$/, "", p); return p }
  function first(p) { sub(/\/.*/, "", p); return p }
  {
    file = $1; sub(/:#include$/, "", file); inc = $2; gsub(/"/, "", inc)
    from = dir(file); to = dir(inc)
    if (from == to) next
    if (first(from) != first(to)) { if (!((first(from), first(to)) in may)) print file " -> " inc; next }
    if ((from in level) && !(to in level && level[to] < level[from])) print file " -> " inc
  }')
[ -z "$hits" ] || fail "include against the arrows:
$hits"
# only PATTERN FILES-REGEX: a library header is included in the named files only
only() {
  hits=$(grep -rlE "#include [<\"]($1)" core passes backends profiler viz repl 2>/dev/null | grep -vE "$2")
  [ -z "$hits" ] || fail "$1 is included in $hits"
}
only 'llvm-c/' '^backends/(emit|cpu|gpu)/'
only 'cuda' '^(backends/gpu|profiler)/'
only 'cupti' '^profiler/'
only 'dnnl' '^backends/cpu/'
only 'lapacke' '^core/eval/lapack'
only 'graphviz/|gvc' '^viz/render'
only 'cjson/' '^repl/formats/json'
only '(readline|editline|histedit)' '^repl/shell/line'
only 'zlib|zstd' '^core/base/compress'
only 'utf8proc' '^(viz|repl)/'
hits=$(grep -rnE '\b(abort|longjmp|setjmp|strcpy|strcat|sprintf|strtok|gets)\(' core passes backends profiler viz repl --include=*.c --include=*.h | grep -vE '^\S+:\s*(//|\*)')
[ -z "$hits" ] || fail "forbidden call: $hits"
hits=$(grep -rnE '(^|[^_a-z.>])exit\(' core passes backends profiler viz repl --include=*.c | grep -vE '^repl/main\.c')
[ -z "$hits" ] || fail "exit outside repl/main.c: $hits"
for h in core/*/*.h passes/*/*.h backends/*.h backends/*/*.h profiler/*.h viz/*.h repl/*/*.h; do
  [ -f "$h" ] || continue
  case $h in backends/emit/*|backends/cpu/*) continue ;; esac
  echo "#include \"$h\"" | ${CC:-gcc} -std=gnu2x -D_GNU_SOURCE -I. -fsyntax-only -x c - 2>/dev/null || fail "$h does not compile alone"
done
# The tree holds what it means to hold: plain names, and nothing else beside the folders (a stray -o writes here).
if [ -e .git ]; then
  hits=$(git -c core.quotePath=true ls-files | grep -E '[^A-Za-z0-9_.,+=@/-]|^[^/]*$' | grep -vxE '\.gitignore|\.clang-format|\.editorconfig|\.git-blame-ignore-revs|LICENSE|Makefile|README\.md')
  [ -z "$hits" ] || fail "stray files in git: $hits"
fi
[ $bad = 0 ] && echo "lint: ok"
exit $bad
