#!/bin/sh
# Structure checks of the sources: include arrows, who may include which library, calls that a shell must not make,
# headers that compile alone. Prints one line per violation; exit 1 when there is one.
cd "$(dirname "$0")/.." || exit 1
bad=0
fail() { echo "lint: $*"; bad=1; }
# arrow FOLDER FORBIDDEN...: no file of FOLDER includes one of the forbidden folders
arrow() {
  from=$1; shift
  for to; do
    hits=$(grep -rnE "#include \"$to/" "$from" --include=*.c --include=*.h --include=*.def 2>/dev/null)
    [ -z "$hits" ] || fail "$from must not include $to: $hits"
  done
}
arrow core passes backends profiler viz repl
arrow passes backends profiler viz repl
arrow viz passes backends profiler repl
arrow profiler passes backends viz repl
arrow backends viz repl
# only PATTERN FILES-REGEX: a library header is included in the named files only
only() {
  hits=$(grep -rlE "#include [<\"]($1)" core passes backends profiler viz repl 2>/dev/null | grep -vE "$2")
  [ -z "$hits" ] || fail "$1 is included in $hits"
}
only 'llvm-c/' '^backends/(emit|cpu|gpu)/'
only 'cuda' '^(backends/gpu|profiler)/'
only 'cupti' '^profiler/'
only 'dnnl' '^backends/cpu/'
only 'lapacke' '^core/lapack'
only 'graphviz/|gvc' '^viz/render'
only 'cjson/' '^repl/json'
only '(readline|editline|histedit)' '^repl/line'
only 'zlib|zstd' '^core/(compress|load)'
only 'utf8proc' '^(viz|repl)/'
hits=$(grep -rnE '\b(abort|longjmp|setjmp|strcpy|strcat|sprintf|strtok|gets)\(' core passes backends profiler viz repl --include=*.c --include=*.h | grep -vE '^\S+:\s*(//|\*)')
[ -z "$hits" ] || fail "forbidden call: $hits"
hits=$(grep -rnE '(^|[^_a-z.>])exit\(' core passes backends profiler viz repl --include=*.c | grep -vE '^repl/main\.c')
[ -z "$hits" ] || fail "exit outside repl/main.c: $hits"
for h in core/*.h passes/*.h backends/*.h backends/*/*.h profiler/*.h viz/*.h repl/*.h; do
  [ -f "$h" ] || continue
  case $h in backends/emit/*|backends/cpu/*) continue ;; esac
  echo "#include \"$h\"" | ${CC:-gcc} -std=gnu2x -D_GNU_SOURCE -I. -fsyntax-only -x c - 2>/dev/null || fail "$h does not compile alone"
done
# The tree holds what it means to hold: plain names, and nothing else beside the folders (a stray -o writes here).
if [ -e .git ]; then
  hits=$(git -c core.quotePath=true ls-files | grep -E '[^A-Za-z0-9_.,+=@/-]|^[^/]*$' | grep -vxE '\.gitignore|LICENSE|Makefile|README\.md')
  [ -z "$hits" ] || fail "stray files in git: $hits"
fi
[ $bad = 0 ] && echo "lint: ok"
exit $bad
